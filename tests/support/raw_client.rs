//! A client with hand-made WebSocket frames, and one that may never read.
//!
//! For what a library would not let through: fragments, wrong masks, reserved bits, half frames,
//! handshakes with something missing. Frames are RFC 6455 §5.2; nothing is answered by itself.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::http::Trouble;
use super::{Bridge, Http, Request, Response, SOON, token};

/// Opcodes of RFC 6455 §11.8.
pub const CONTINUATION: u8 = 0;
pub const TEXT: u8 = 1;
pub const BINARY: u8 = 2;
pub const CLOSE: u8 = 8;
pub const PING: u8 = 9;
pub const PONG: u8 = 10;

/// A frame as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// FIN, the reserved bits and the opcode.
    pub first: u8,
    pub masked: bool,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn opcode(&self) -> u8 {
        self.first & 0x0f
    }

    /// Code and reason of a close frame.
    pub fn close(&self) -> (u16, String) {
        assert_eq!(self.opcode(), CLOSE, "{self:?}");
        match self.payload.as_slice() {
            [high, low, reason @ ..] => {
                let reason = String::from_utf8(reason.to_vec()).expect("a reason is UTF-8");
                (u16::from_be_bytes([*high, *low]), reason)
            }
            _ => (1005, String::new()),
        }
    }
}

/// A WebSocket without a library.
pub struct RawClient {
    pub http: Http,
}

impl RawClient {
    /// The usual handshake request for this ID; to be changed before it is sent.
    pub fn request(bridge: &Bridge, client_id: &str) -> Request {
        let token = token(client_id, "client");
        Request::get(&bridge.target("/connect"))
            .with("Connection", "Upgrade")
            .with("Upgrade", "websocket")
            .with("Sec-WebSocket-Version", "13")
            .with("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
            .with("Sec-WebSocket-Protocol", &format!("clientmcp.v1, clientmcp.bearer.{token}"))
    }

    /// Shakes hands as usual; fails unless it completes.
    pub fn connect(bridge: &Bridge, client_id: &str) -> RawClient {
        let (response, client) = RawClient::shake(bridge, &RawClient::request(bridge, client_id));
        assert_eq!(response.status, 101, "{response:?}");
        client
    }

    /// Sends a handshake; the response, and the connection as it is after it.
    pub fn shake(bridge: &Bridge, request: &Request) -> (Response, RawClient) {
        let mut http = request.sent_to(bridge);
        let response = http.read_response();
        (response, RawClient { http })
    }

    /// The bytes of one frame, masked. `first` is FIN (0x80), reserved bits and opcode.
    pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [0x37, 0xfa, 0x21, 0x3d];
        let mut bytes = head(first, payload.len(), 0x80);
        bytes.extend_from_slice(&mask);
        bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        bytes
    }

    /// The bytes of one frame without a mask, which a client must not send.
    pub fn unmasked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = head(first, payload.len(), 0);
        bytes.extend_from_slice(payload);
        bytes
    }

    /// Sends one whole text message.
    pub fn send_text(&mut self, text: &str) {
        self.http.send(RawClient::frame(0x80 | TEXT, text.as_bytes()));
    }

    /// Sends one text message in fragments of `size` bytes.
    pub fn send_fragments(&mut self, text: &str, size: usize) {
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
        for (i, piece) in pieces.iter().enumerate() {
            let opcode = if i == 0 { TEXT } else { CONTINUATION };
            let fin = if i + 1 == pieces.len() { 0x80 } else { 0 };
            self.http.send(RawClient::frame(fin | opcode, piece));
        }
    }

    /// The next frame; how the connection stopped instead, if it did.
    pub fn try_frame(&mut self, timeout: Duration) -> Result<Frame, Trouble> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some((frame, used)) = parse(&self.http.buffer) {
                self.http.buffer.drain(..used);
                return Ok(frame);
            }
            self.http.fill(deadline)?;
        }
    }

    /// The next frame; fails when none comes.
    pub fn next_frame(&mut self, timeout: Duration) -> Frame {
        self.try_frame(timeout)
            .unwrap_or_else(|e| panic!("expected a frame within {timeout:?}: {e:?}"))
    }

    /// The next text message as JSON; fails with any other frame.
    pub fn next_message(&mut self, timeout: Duration) -> Value {
        let frame = self.next_frame(timeout);
        assert_eq!(frame.first, 0x80 | TEXT, "expected a whole text message, got {frame:?}");
        serde_json::from_slice(&frame.payload).unwrap_or_else(|e| panic!("{e} in {frame:?}"))
    }

    /// Skips text and pings until the close frame; its code and reason.
    pub fn expects_close(&mut self) -> (u16, String) {
        self.expects_close_within(SOON)
    }

    pub fn expects_close_within(&mut self, timeout: Duration) -> (u16, String) {
        let deadline = Instant::now() + timeout;
        loop {
            let frame = self.next_frame(deadline.saturating_duration_since(Instant::now()));
            if frame.opcode() == CLOSE {
                return frame.close();
            }
        }
    }
}

fn head(first: u8, len: usize, mask_bit: u8) -> Vec<u8> {
    let mut bytes = vec![first];
    if let Ok(short @ 0..126) = u8::try_from(len) {
        bytes.push(mask_bit | short);
    } else if let Ok(medium) = u16::try_from(len) {
        bytes.push(mask_bit | 126);
        bytes.extend_from_slice(&medium.to_be_bytes());
    } else {
        bytes.push(mask_bit | 127);
        bytes.extend_from_slice(&(len as u64).to_be_bytes());
    }
    bytes
}

/// The first whole frame, and how many bytes it took.
fn parse(bytes: &[u8]) -> Option<(Frame, usize)> {
    let (first, second) = (*bytes.first()?, *bytes.get(1)?);
    let (len, mut at) = match second & 0x7f {
        126 => (usize::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?)), 4),
        127 => {
            let len = u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?);
            (usize::try_from(len).expect("a frame that fits in memory"), 10)
        }
        short => (usize::from(short), 2),
    };
    let masked = second & 0x80 != 0;
    let mut mask = [0; 4];
    if masked {
        mask = bytes.get(at..at + 4)?.try_into().ok()?;
        at += 4;
    }
    let payload = bytes.get(at..at + len)?;
    let payload = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
    Some((Frame { first, masked, payload }, at + len))
}
