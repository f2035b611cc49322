//! The WebSocket library, for a connection that needs it only now and then.
//!
//! Nearly all messages are plain ones, which `connection` reads and writes itself; a context of
//! tungstenite's takes whatever else comes (fragments, control frames, and all that is wrong), and says
//! goodbye. It reads bytes that were received already, and writes into the outbox.

use std::io::{self, ErrorKind, Read, Write};

use async_tungstenite::tungstenite::Message;
use async_tungstenite::tungstenite::protocol::frame::CloseFrame;
use async_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use async_tungstenite::tungstenite::protocol::{Role, WebSocketConfig, WebSocketContext};
use clientmcp_proto::channel;
use clientmcp_proto::fault::Close;
use clientmcp_proto::limits;

use super::outbox::Outbox;
use crate::socket::Socket;

/// What a context reads at a time.
const READ_BUFFER_BYTES: usize = 8 << 10;

pub fn context() -> WebSocketContext {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_message_size(Some(limits::MESSAGE_BYTES_MAX))
        .max_frame_size(Some(limits::MESSAGE_BYTES_MAX));
    WebSocketContext::new(Role::Server, Some(config))
}

/// The socket as a context sees it.
pub struct Wire<'a, 'b> {
    pub input: &'a mut &'b [u8],
    pub output: &'a mut Outbox,
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
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Says why and closes; whether that could be written. The client must be given time to read it, so that
/// one in the middle of a large message sees the close code and not a reset. What is left in `outbox` goes
/// first: it may be the end of a message that is half written.
pub async fn say_goodbye(socket: &Socket, mut outbox: Outbox, close: Close) -> bool {
    let mut context = context();
    let mut wire = Wire { input: &mut &[][..], output: &mut outbox };
    let fault = (close.code() >= 4000).then(|| Message::text(channel::fault(&close)));
    let frame = CloseFrame { code: CloseCode::from(close.code()), reason: close.reason().into() };
    // Writing to memory cannot fail, and a fresh context takes both.
    if let Some(fault) = fault {
        context.write(&mut wire, fault).ok();
    }
    context.close(&mut wire, Some(frame)).ok();
    let pieces: Vec<&[u8]> = outbox.left().collect();
    socket.write(&pieces).await.is_ok()
}
