//! How an answer is written: its head by async-h1, its body in as few system calls as there are pieces.
//!
//! Knows what one exchange has to keep to (the protocol version, an unread body, the origin that asks) and
//! nothing of what is answered.

use std::borrow::Cow;

use clientmcp_proto::answer::{self, Response};
use clientmcp_proto::http1::{self, BodyDecoder, BodyKind};
use clientmcp_proto::sse;

use super::{Connection, Next};
use crate::admission::Crowd;
use crate::head::answers::Answer;
use crate::http_body::Framing;
use crate::socket::Input;

/// A request body that nobody will look at is read away up to this size, so that the connection can
/// go on; a larger one costs the connection.
const DISCARDED_BODY_MAX: u64 = 64 << 10;

impl Connection {
    /// Writes a complete answer.
    pub async fn respond(&mut self, exchange: &Exchange, response: &Response) -> Next {
        let (status, kind) = (response.status, response.content_type);
        let body = [response.body.as_bytes()];
        self.respond_pieces(exchange, status, kind, headers_of(response), &body).await
    }

    /// Writes a complete answer whose body comes in pieces.
    pub async fn respond_pieces(
        &mut self,
        exchange: &Exchange,
        status: u16,
        content_type: Option<&'static str>,
        headers: Headers,
        body: &[&[u8]],
    ) -> Next {
        let length = body.iter().map(|piece| piece.len()).sum();
        let Ok(mut head) = self.head(exchange, status, content_type, headers, Some(length)).await
        else {
            return Next::Drop;
        };
        if status == 204 {
            // RFC 9110 §8.6: no Content-Length in a 204.
            head = without_length(&head);
        }
        let mut pieces = Vec::with_capacity(1 + body.len());
        pieces.push(head.as_slice());
        if !exchange.head_only {
            pieces.extend_from_slice(body);
        }
        if self.socket.write(&pieces).await.is_err() {
            return Next::Drop;
        }
        if exchange.closes() {
            return Next::Close;
        }
        match exchange.unread.clone() {
            Some(decoder) => self.skip_body(decoder).await,
            None => Next::KeepAlive,
        }
    }

    /// Answers by an event stream of one event, all of which is known.
    pub async fn respond_event(
        &mut self,
        exchange: &Exchange,
        mut headers: Headers,
        texts: &[&str],
    ) -> Next {
        headers.extend(stream_headers());
        let event = sse::pieces(texts);
        let body: Vec<&[u8]> = event.iter().map(|piece| piece.as_bytes()).collect();
        let kind = Some(answer::EVENT_STREAM);
        self.respond_pieces(exchange, 200, kind, headers, &body).await
    }

    async fn head(
        &self,
        exchange: &Exchange,
        status: u16,
        content_type: Option<&'static str>,
        mut headers: Headers,
        length: Option<usize>,
    ) -> std::io::Result<Vec<u8>> {
        const PLAIN: [(&str, Cow<'static, str>); 1] = [VARY];
        let shared = self.shared();
        shared.metrics.agent_request(status);
        let is_plain = headers.is_empty() && !exchange.adds_headers(self.ends());
        if !is_plain {
            exchange.add_headers(&mut headers, self.ends());
        }
        let headers = if is_plain { &PLAIN } else { headers.as_slice() };
        shared.answers.head(shared, Answer { status, headers, content_type, length }).await
    }

    /// Reads a short body away.
    async fn skip_body(&mut self, mut decoder: BodyDecoder) -> Next {
        let deadline = self.shared().now() + self.shared().config.body_timeout;
        let mut discarded = Vec::new();
        loop {
            match decoder.feed(&self.buffer, &mut discarded) {
                Ok(consumed) => self.buffer.drain(..consumed),
                Err(_) => return Next::Close,
            };
            if decoder.done() {
                return Next::KeepAlive;
            }
            if !matches!(self.socket.read(&mut self.buffer, deadline).await, Input::Some(_)) {
                return Next::Drop;
            }
        }
    }

    /// Writes the head of an event stream.
    pub async fn begin_stream(&mut self, exchange: &Exchange) -> std::io::Result<Framing> {
        let (head, framing) = self.stream_head(exchange).await?;
        self.socket.write(&[&head]).await?;
        Ok(framing)
    }

    async fn stream_head(&self, exchange: &Exchange) -> std::io::Result<(Vec<u8>, Framing)> {
        let (headers, kind) = (stream_headers().into(), Some(answer::EVENT_STREAM));
        let head = self.head(exchange, 200, kind, headers, None).await?;
        Ok(match exchange.http_10 {
            true => (without_chunking(&head), Framing::UntilClose),
            false => (head, Framing::Chunked),
        })
    }
}

/// Further header fields of an answer.
pub type Headers = Vec<(&'static str, Cow<'static, str>)>;

/// Every answer may differ by who asks.
const VARY: (&str, Cow<'static, str>) = ("Vary", Cow::Borrowed("Origin"));

pub(super) fn headers_of(response: &Response) -> Headers {
    response.headers.iter().map(|(name, value)| (*name, value.clone().into())).collect()
}

/// What every event stream says about itself, so that nothing on the way holds or changes it.
fn stream_headers() -> [(&'static str, Cow<'static, str>); 2] {
    [("Cache-Control", "no-store, no-transform".into()), ("X-Accel-Buffering", "no".into())]
}

fn without_length(head: &[u8]) -> Vec<u8> {
    without_line(head, b"content-length:")
}

fn without_chunking(head: &[u8]) -> Vec<u8> {
    without_line(head, b"transfer-encoding:")
}

/// async-h1 writes field names in lower case, a line each.
fn without_line(head: &[u8], name: &[u8]) -> Vec<u8> {
    head.split_inclusive(|byte| *byte == b'\n')
        .filter(|line| !line.starts_with(name))
        .flatten()
        .copied()
        .collect()
}

/// What one exchange has to keep to.
#[derive(Clone, Default)]
pub struct Exchange {
    pub http_10: bool,
    pub(super) head_only: bool,
    pub(super) close: bool,
    /// The allowed origin that asks.
    pub(super) origin: Option<String>,
    /// The request's body, while it may have to be skipped.
    pub(super) unread: Option<BodyDecoder>,
    /// The body cannot be skipped: leaving it unread costs the connection.
    pub(super) close_unread: bool,
    /// There are too many connections for it to be served.
    pub(super) crowded: Option<Crowd>,
}

impl Exchange {
    /// Prepares for the body not being read: a short one is skipped, so that the connection can go on.
    /// That is decided before the answer, which says whether it does.
    pub(super) fn unread_body(&mut self, frame: &http1::Head) {
        match frame.body {
            BodyKind::None => {}
            BodyKind::Length(length) if length <= DISCARDED_BODY_MAX => {
                // Who waits for a 100 may or may not send the body now; nobody can tell which.
                self.close_unread = frame.expects_continue;
                self.unread = BodyDecoder::new(frame.body, DISCARDED_BODY_MAX as usize).ok();
            }
            _ => self.close_unread = true,
        }
    }

    /// The body will not be read.
    pub(super) fn unread(mut self) -> Exchange {
        self.close |= self.close_unread;
        self
    }

    pub fn closes(&self) -> bool {
        self.close
    }

    /// Whether there is more than [`VARY`].
    fn adds_headers(&self, ends: bool) -> bool {
        self.close || ends || self.origin.is_some()
    }

    fn add_headers(&self, headers: &mut Headers, ends: bool) {
        if self.close || ends {
            headers.push(("Connection", "close".into()));
        }
        if let Some(origin) = &self.origin {
            headers.push(("Access-Control-Allow-Origin", origin.clone().into()));
            let exposed = "Mcp-Session-Id, WWW-Authenticate";
            headers.push(("Access-Control-Expose-Headers", exposed.into()));
        }
        headers.push(VARY);
    }
}
