//! WebSocket framing for a connection that has a context only while it needs one.
//!
//! The context is tungstenite's, and reads and writes what it is given here: bytes that were received
//! already, and the bare socket.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use async_tungstenite::tungstenite::Message;
use async_tungstenite::tungstenite::protocol::frame::CloseFrame;
use async_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use async_tungstenite::tungstenite::protocol::{Role, WebSocketConfig, WebSocketContext};
use clientmcp_proto::channel;
use clientmcp_proto::fault::Close;
use clientmcp_proto::limits;

use crate::socket::Socket;

/// Bytes that a context collects before it writes by itself; one flush per drained mailbox is the rule.
const WRITE_BUFFER_BYTES: usize = 64 << 10;

/// What a context reads at a time.
const READ_BUFFER_BYTES: usize = 8 << 10;

pub fn context() -> WebSocketContext {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(WRITE_BUFFER_BYTES)
        .max_message_size(Some(limits::MESSAGE_BYTES_MAX))
        .max_frame_size(Some(limits::MESSAGE_BYTES_MAX));
    WebSocketContext::new(Role::Server, Some(config))
}

/// The socket as a context sees it: reads come from what was received, writes go out at once.
pub struct Wire<'a, 'b> {
    pub input: &'a mut &'b [u8],
    pub output: &'a TcpStream,
    pub sent: u64,
}

impl Read for Wire<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.input.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.input.read(buffer)
    }
}

impl Write for Wire<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.output.write(bytes)?;
        self.sent += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Says why and closes; whether that could be written. The client must be given time to read it, so that
/// one in the middle of a large message sees the close code and not a reset. `context` may hold the end
/// of a message that is half written.
pub async fn say_goodbye(socket: &Socket, context: Option<WebSocketContext>, close: Close) -> bool {
    let mut context = context.unwrap_or_else(self::context);
    let mut memory = InMemory(Vec::new());
    let fault = (close.code() >= 4000).then(|| Message::text(channel::fault(&close)));
    let frame = CloseFrame { code: CloseCode::from(close.code()), reason: close.reason().into() };
    // Writing to memory cannot fail; a context refuses only after a close, and then one is on its way.
    if let Some(fault) = fault {
        context.write(&mut memory, fault).ok();
    }
    context.close(&mut memory, Some(frame)).ok();
    socket.write(&[&memory.0]).await.is_ok()
}

/// Collects what a context writes.
struct InMemory(Vec<u8>);

impl Read for InMemory {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(ErrorKind::WouldBlock.into())
    }
}

impl Write for InMemory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
