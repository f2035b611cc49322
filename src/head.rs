//! A request's head: framed by us, read by async-h1.
//!
//! `proto::http1` has already refused whatever could be misread, and rewrites the head so that async-h1
//! only ever sees what it is good at. From here on the fields are looked up in its request.

use std::borrow::Cow;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use clientmcp_proto::agent;
use clientmcp_proto::http1;
use http_types::headers::HeaderValues;
use smol::io::{AsyncRead, AsyncWrite};

pub struct Head {
    /// As it was sent; async-h1 would take `post` for `POST`.
    pub method: String,
    pub frame: http1::Head,
    fields: http_types::Request,
}

impl Head {
    /// Reads the head at the start of `buffer`.
    ///
    /// # Errors
    /// What async-h1 says, should it refuse what passed all our checks.
    pub async fn decode(frame: http1::Head, buffer: &[u8]) -> http_types::Result<Head> {
        let method = frame.method(buffer).to_owned();
        let normalised = frame.normalised(buffer);
        let bytes = InMemory { bytes: normalised.head.into(), at: 0 };
        // Boxed: it holds a table of 128 header fields.
        let decoded = Box::pin(async_h1::server::decode(bytes)).await?;
        let Some((mut fields, _empty_body)) = decoded else {
            return Err(http_types::Error::from_str(400, "the head is empty"));
        };
        for (name, value) in normalised.left_out {
            fields.append_header(name, value);
        }
        Ok(Head { method, frame, fields })
    }

    /// The value of a field; several are joined by ", " (RFC 9110 §5.3).
    pub fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        self.fields.header(name).map(joined)
    }
}

fn joined(values: &HeaderValues) -> Cow<'_, str> {
    let mut values = values.iter().map(|value| value.as_str());
    let first = values.next().unwrap_or("");
    values.fold(Cow::Borrowed(first), |all, value| Cow::Owned(format!("{all}, {value}")))
}

impl agent::Head for Head {
    fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        Head::field(self, name)
    }

    fn fields(&self, prefix: &str) -> Vec<(Box<str>, Box<str>)> {
        self.fields
            .iter()
            .filter(|(name, _)| name.as_str().starts_with(prefix))
            .map(|(name, values)| (name.as_str().into(), joined(values).into()))
            .collect()
    }
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

/// The head of a response, written by async-h1's encoder.
///
/// `length` is the body's, `None` for a chunked one. A chunked body is framed by `http_body`.
pub async fn response_head(
    status: u16,
    headers: &[(&'static str, String)],
    content_type: Option<&str>,
    length: Option<usize>,
) -> io::Result<Vec<u8>> {
    use smol::io::AsyncReadExt;
    let status = http_types::StatusCode::try_from(status).map_err(io::Error::other)?;
    let mut response = http_types::Response::new(status);
    response.set_body(http_types::Body::from_reader(smol::io::empty(), length));
    // The body brought a type of its own.
    response.remove_header("content-type");
    for (name, value) in headers {
        response.append_header(*name, value.as_str());
    }
    if let Some(content_type) = content_type {
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
