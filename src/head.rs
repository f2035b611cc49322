//! A request's head: framed by us, read by async-h1.
//!
//! `proto::http1` has already refused whatever could be misread, and rewrites the head so that async-h1
//! only ever sees what it is good at. What it made of a head is remembered for a while, because an agent
//! says the same about itself with each request; and with it what its token said. `answers` has the
//! heads of answers, which are async-h1's too.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use clientmcp_proto::agent;
use clientmcp_proto::http1;
use clientmcp_proto::negotiate::Accept;
use http_types::headers::HeaderValues;
use smol::io::{AsyncRead, AsyncWrite};

use crate::shared::{Admitted, Shared};

pub mod answers;

/// A request's head.
pub struct Head {
    pub frame: http1::Head,
    read: Rc<Fields>,
    /// Where it is remembered.
    pub place: Option<u16>,
}

/// What does not change while an agent says the same: everything but what frames this one request.
pub struct Fields {
    /// As it was sent; async-h1 would take `post` for `POST`.
    method: Box<str>,
    /// Names in lower case.
    fields: Box<[(Box<str>, Box<str>)]>,
    /// What kinds of answer are taken.
    accept: Accept,
    /// What the token among them said when it was last looked at.
    admitted: RefCell<Option<Admitted>>,
}

impl Head {
    /// Reads the head at the start of `buffer`. It is remembered if it is likely to come `again`.
    ///
    /// # Errors
    /// What async-h1 says, should it refuse what passed all our checks.
    pub async fn decode(
        shared: &Shared,
        frame: http1::Head,
        buffer: &[u8],
        again: bool,
    ) -> http_types::Result<Head> {
        let key = frame.but_length(buffer);
        let place = place(key);
        if let Some(read) = shared.heads.find(place, key) {
            return Ok(Head { frame, read, place: Some(place) });
        }
        let normalised = frame.normalised(buffer);
        let bytes = InMemory { bytes: normalised.head.into(), at: 0 };
        // Boxed: it holds a table of 128 header fields.
        let decoded = Box::pin(async_h1::server::decode(bytes)).await?;
        let Some((mut request, _empty_body)) = decoded else {
            return Err(http_types::Error::from_str(400, "the head is empty"));
        };
        for (name, value) in normalised.left_out {
            request.append_header(name, value);
        }
        let accept = request.header("accept").map(|values| joined("accept", values));
        let fields = request.iter();
        let fields =
            fields.map(|(name, values)| (name.as_str().into(), joined(name.as_str(), values)));
        let read = Rc::new(Fields {
            method: frame.method(buffer).into(),
            fields: fields.collect(),
            accept: Accept::parse(accept.as_deref()),
            admitted: RefCell::default(),
        });
        let kept = again && frame.bytes <= HEAD_BYTES_MAX;
        if kept {
            shared.heads.keep(place, key, &frame, &read);
        }
        Ok(Head { frame, read, place: kept.then_some(place) })
    }

    pub fn method(&self) -> &str {
        &self.read.method
    }

    /// The value of a field, whose name is in lower case; several are joined by commas.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.read.fields.iter().find(|(known, _)| **known == *name).map(|(_, value)| &**value)
    }

    /// What kinds of answer are taken.
    pub fn accept(&self) -> Accept {
        self.read.accept
    }

    /// What the token was found to say.
    pub fn admitted(&self) -> &RefCell<Option<Admitted>> {
        &self.read.admitted
    }
}

/// The value of a field of a head that is not decoded; several are joined by ", ".
pub fn field_of(frame: &http1::Head, buffer: &[u8], name: &str) -> Option<String> {
    let fields = frame.fields(buffer).filter(|(known, _)| known.eq_ignore_ascii_case(name));
    fields.map(|(_, value)| value.to_owned()).reduce(|all, value| format!("{all}, {value}"))
}

/// The values of a field as one (RFC 9110 §5.3). Where MCP wants one that is equal to something, several
/// must not be: a line break is in no value.
fn joined(name: &str, values: &HeaderValues) -> Box<str> {
    let values: Vec<&str> = values.iter().map(|value| value.as_str()).collect();
    values.join(if name.starts_with("mcp-") { ",\n" } else { ", " }).into()
}

impl agent::Head for Head {
    fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        Head::field(self, name).map(Cow::Borrowed)
    }

    fn fields(&self, prefix: &str) -> Vec<(Box<str>, Box<str>)> {
        self.read.fields.iter().filter(|(name, _)| name.starts_with(prefix)).cloned().collect()
    }
}

/// Longest head that is remembered, in bytes.
const HEAD_BYTES_MAX: usize = 2 << 10;

/// How many heads are remembered: a few for each busy agent.
const HEADS: usize = 256;

/// A head without its length, in two pieces.
type Key<'a> = (&'a [u8], &'a [u8]);

struct Known {
    before: Box<[u8]>,
    after: Box<[u8]>,
    frame: http1::Head,
    read: Rc<Fields>,
}

/// Heads that were read before, each in the one place it can be in.
#[derive(Default)]
pub struct Heads(RefCell<Vec<Option<Known>>>);

impl Heads {
    fn find(&self, place: u16, key: Key<'_>) -> Option<Rc<Fields>> {
        let heads = self.0.borrow();
        let known = heads.get(usize::from(place))?.as_ref()?;
        let same = http1::same(&known.before, key.0) & http1::same(&known.after, key.1);
        same.then(|| known.read.clone())
    }

    fn keep(&self, place: u16, key: Key<'_>, frame: &http1::Head, read: &Rc<Fields>) {
        let mut heads = self.0.borrow_mut();
        if heads.is_empty() {
            heads.resize_with(HEADS, || None);
        }
        let (before, after) = (key.0.into(), key.1.into());
        let known = Known { before, after, frame: frame.clone(), read: read.clone() };
        heads[usize::from(place)] = Some(known);
    }

    /// The head at the start of `buffer`, when it is the one of this place once more.
    pub fn again(&self, place: u16, buffer: &[u8], limits: &http1::Limits) -> Option<Head> {
        let heads = self.0.borrow();
        let known = heads.get(usize::from(place))?.as_ref()?;
        let frame = known.frame.again((&known.before, &known.after), buffer, limits)?;
        Some(Head { frame, read: known.read.clone(), place: Some(place) })
    }

    /// Forgets them all: tokens are among them.
    pub fn clear(&self) {
        self.0.borrow_mut().clear();
    }
}

/// The place of a head. Whoever makes two fall together gains nothing but that both are read anew.
fn place((before, after): Key<'_>) -> u16 {
    let mix =
        |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    let mut hash = before.len() as u64;
    for part in [before, after] {
        let (words, rest) = part.as_chunks::<8>();
        hash = words.iter().fold(hash, |hash, word| mix(hash, u64::from_le_bytes(*word)));
        hash = rest.iter().fold(hash, |hash, byte| mix(hash, u64::from(*byte)));
    }
    (hash >> 32) as u16 % HEADS as u16
}

/// A head as the connection that async-h1 believes to read from.
#[derive(Clone)]
struct InMemory {
    bytes: Arc<[u8]>,
    at: usize,
}

impl AsyncRead for InMemory {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let left = &self.bytes[self.at..];
        let count = left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&left[..count]);
        self.at += count;
        Poll::Ready(Ok(count))
    }
}

impl AsyncWrite for InMemory {
    /// Nothing is ever written: async-h1 would only answer an `Expect`, which is not in the head.
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
