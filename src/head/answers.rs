//! The head of an answer, written by async-h1's encoder.
//!
//! Most answers differ in their length only, so a head is remembered for the second that its `Date`
//! names. Knows nothing of bodies: `http_body` frames a chunked one.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::{self, Write as _};

use clientmcp_proto::time::UnixSeconds;

use crate::shared::Shared;

/// What the head of a response says.
#[derive(Clone, Copy)]
pub struct Answer<'a> {
    pub status: u16,
    pub headers: &'a [(&'static str, Cow<'static, str>)],
    pub content_type: Option<&'static str>,
    /// The body's, `None` for a chunked one. A chunked body is framed by `http_body`.
    pub length: Option<usize>,
}

/// The heads of answers that async-h1 wrote in this second, with the length left out.
#[derive(Default)]
pub struct Answers(RefCell<Vec<Written>>);

struct Written {
    at: UnixSeconds,
    status: u16,
    headers: Box<[(&'static str, Cow<'static, str>)]>,
    content_type: Option<&'static str>,
    /// Before the digits of the length, and after them; all of it when there is no length.
    before: Box<[u8]>,
    after: Option<Box<[u8]>>,
}

/// How many heads of answers are remembered, and how many headers each may have.
const ANSWERS: usize = 8;
const ANSWER_HEADERS_MAX: usize = 4;

impl Answers {
    /// Writes the head of a response.
    pub async fn head(&self, shared: &Shared, answer: Answer<'_>) -> io::Result<Vec<u8>> {
        let now = shared.wall();
        if let Some(head) = self.find(now, answer) {
            return Ok(head);
        }
        let head = response_head(answer).await?;
        let (before, after) = match answer.length.map(|length| around_length(&head, length)) {
            Some(Some((before, after))) => (before, Some(after.into())),
            Some(None) => return Ok(head),
            None => (&*head, None),
        };
        if answer.headers.len() <= ANSWER_HEADERS_MAX {
            let mut answers = self.0.borrow_mut();
            answers.retain(|written| written.at == now);
            if answers.len() < ANSWERS {
                answers.push(Written {
                    at: now,
                    status: answer.status,
                    headers: answer.headers.into(),
                    content_type: answer.content_type,
                    before: before.into(),
                    after,
                });
            }
        }
        Ok(head)
    }

    fn find(&self, now: UnixSeconds, answer: Answer<'_>) -> Option<Vec<u8>> {
        let answers = self.0.borrow();
        let same = |written: &&Written| {
            written.at == now
                && written.status == answer.status
                && written.content_type == answer.content_type
                && written.after.is_some() == answer.length.is_some()
                && *written.headers == *answer.headers
        };
        let written = answers.iter().find(same)?;
        let mut head = Vec::with_capacity(written.before.len() + 128);
        head.extend_from_slice(&written.before);
        if let (Some(after), Some(length)) = (&written.after, answer.length) {
            write!(head, "{length}").ok()?;
            head.extend_from_slice(after);
        }
        Some(head)
    }
}

/// What stands around the digits of `Content-Length`. async-h1 writes names in lower case.
fn around_length(head: &[u8], length: usize) -> Option<(&[u8], &[u8])> {
    const NAME: &[u8] = b"\r\ncontent-length: ";
    let at = head.windows(NAME.len()).position(|part| part == NAME)? + NAME.len();
    let after = head[at..].strip_prefix(length.to_string().as_bytes())?;
    after.starts_with(b"\r\n").then_some((&head[..at], after))
}

async fn response_head(answer: Answer<'_>) -> io::Result<Vec<u8>> {
    use smol::io::AsyncReadExt;
    let status = http_types::StatusCode::try_from(answer.status).map_err(io::Error::other)?;
    let mut response = http_types::Response::new(status);
    response.set_body(http_types::Body::from_reader(smol::io::empty(), answer.length));
    // The body brought a type of its own.
    response.remove_header("content-type");
    for (name, value) in answer.headers {
        response.append_header(*name, &**value);
    }
    if let Some(content_type) = answer.content_type {
        response.insert_header("content-type", content_type);
    }
    let mut encoder = async_h1::server::Encoder::new(response, http_types::Method::Get);
    // The first read is the head alone, as far as the buffer goes.
    let mut head = vec![0; 1024];
    let mut filled = 0;
    loop {
        let count = encoder.read(&mut head[filled..]).await?;
        filled += count;
        if head[..filled].ends_with(b"\r\n\r\n") || count == 0 {
            head.truncate(filled);
            return Ok(head);
        }
        head.resize(head.len() * 2, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Flags};
    use crate::revoked::Revoked;
    use clientmcp_proto::time::{Instant, UnixSeconds};
    use clientmcp_proto::token::Secrets;
    use std::rc::Rc;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn a_remembered_head_is_the_one_that_the_encoder_writes() {
        let env = |name: &str| (name == "CLIENTMCP_SECRET").then(|| SECRET.to_owned());
        let config = Config::from_parts(Flags::default(), &env).expect("a configuration");
        let secrets = Secrets::parse(SECRET).expect("a secret");
        let shared = Shared::new(config, secrets, Revoked::default(), &Rc::default());
        let plain = [("Vary", Cow::Borrowed("Origin"))];
        let more =
            [("Vary", Cow::Borrowed("Origin")), ("X", Cow::Owned("content-length: 7".into()))];
        let mut remembered = 0;
        for second in [1, 2] {
            shared.pretend.set(Some((Instant(second * 1_000), UnixSeconds(second))));
            for _ in 0..2 {
                for headers in [&plain[..], &more[..], &[]] {
                    for status in [200, 202, 404] {
                        for length in [Some(0), Some(7), Some(1_000_000), None] {
                            let content_type = length.map(|_| "application/json");
                            let answer = Answer { status, headers, content_type, length };
                            remembered +=
                                u32::from(shared.answers.find(shared.wall(), answer).is_some());
                            let head = shared.answers.head(&shared, answer);
                            let head = smol::block_on(head).expect("a head");
                            let fresh = smol::block_on(response_head(answer)).expect("a head");
                            assert_eq!(without_date(&head), without_date(&fresh));
                        }
                    }
                }
            }
        }
        assert!(remembered > 40, "{remembered} of 144");
        assert!(shared.answers.0.borrow().len() <= ANSWERS);
    }

    /// async-h1 looks at the clock itself.
    fn without_date(head: &[u8]) -> Vec<String> {
        let head = String::from_utf8(head.to_vec()).expect("ASCII");
        let lines = head.split("\r\n").filter(|line| !line.starts_with("date: "));
        lines.map(str::to_owned).collect()
    }
}
