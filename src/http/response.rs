//! How an answer is written: its head by async-h1, its body in as few system calls as there are pieces.
//!
//! Knows what one exchange has to keep to (the protocol version, an unread body, the origin that asks) and
//! nothing of what is answered.

use clientmcp_proto::answer::{self, Response};
use clientmcp_proto::http1::{self, BodyDecoder, BodyKind};

use super::{Connection, Next};
use crate::admission::Crowd;
use crate::head::response_head;
use crate::http_body::Framing;
use crate::socket::Input;

/// A request body that nobody will look at is read away up to this size, so that the connection can
/// go on; a larger one costs the connection.
const DISCARDED_BODY_MAX: u64 = 64 << 10;

impl Connection {
    /// Writes a complete answer.
    pub async fn respond(&mut self, exchange: &Exchange, response: &Response) -> Next {
        let body = [response.body.as_bytes()];
        self.respond_pieces(
            exchange,
            response.status,
            response.content_type,
            &response.headers,
            &body,
        )
        .await
    }

    /// Writes a complete answer whose body comes in pieces.
    pub async fn respond_pieces(
        &mut self,
        exchange: &Exchange,
        status: u16,
        content_type: Option<&str>,
        headers: &[(&'static str, String)],
        body: &[&[u8]],
    ) -> Next {
        self.shared().metrics.agent_request(status);
        let mut headers = headers.to_vec();
        exchange.add_headers(&mut headers, self.overrun);
        let length = body.iter().map(|piece| piece.len()).sum();
        let Ok(mut head) = response_head(status, &headers, content_type, Some(length)).await else {
            return Next::Drop;
        };
        if status == 204 {
            // RFC 9110 §8.6: no Content-Length in a 204.
            head = without_length(&head);
        }
        let mut pieces = vec![head.as_slice()];
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
        self.shared().metrics.agent_request(200);
        let mut headers: Vec<_> = stream_headers().into_iter().collect();
        exchange.add_headers(&mut headers, self.overrun);
        let event_stream = Some(answer::EVENT_STREAM);
        let mut head = response_head(200, &headers, event_stream, None).await?;
        let framing = if exchange.http_10 {
            head = without_chunking(&head);
            Framing::UntilClose
        } else {
            Framing::Chunked
        };
        self.socket.write(&[&head]).await?;
        Ok(framing)
    }
}

/// What every event stream says about itself, so that nothing on the way holds or changes it.
pub(super) fn stream_headers() -> [(&'static str, String); 2] {
    [("Cache-Control", "no-store, no-transform".to_owned()), ("X-Accel-Buffering", "no".to_owned())]
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

    fn add_headers(&self, headers: &mut Vec<(&'static str, String)>, overrun: bool) {
        if self.close || overrun {
            headers.push(("Connection", "close".to_owned()));
        }
        if let Some(origin) = &self.origin {
            headers.push(("Access-Control-Allow-Origin", origin.clone()));
            let exposed = "Mcp-Session-Id, WWW-Authenticate";
            headers.push(("Access-Control-Expose-Headers", exposed.to_owned()));
        }
        headers.push(("Vary", "Origin".to_owned()));
    }
}
