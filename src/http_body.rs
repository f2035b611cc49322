//! How the body of a streamed response is framed on its connection (RFC 9112 §7.1, §6.3).
//!
//! For bodies whose length is not known when they begin; all others are written by `http::response`. Knows
//! nothing of what is in them.

use std::io;

use clientmcp_proto::http1;

use crate::socket::Socket;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Chunked,
    /// HTTP/1.0: the body ends with the connection.
    UntilClose,
}

impl Framing {
    /// Writes a piece of the body, which must not be empty: an empty chunk would end it.
    pub async fn write(self, socket: &Socket, text: &str) -> io::Result<()> {
        match self {
            Framing::Chunked => {
                let head = http1::chunk_head(text.len());
                socket.write(&[head.as_ref(), text.as_bytes(), http1::CHUNK_END]).await
            }
            Framing::UntilClose => socket.write(&[text.as_bytes()]).await,
        }
    }

    pub async fn finish(self, socket: &Socket) -> io::Result<()> {
        match self {
            Framing::Chunked => socket.write(&[http1::LAST_CHUNK]).await,
            Framing::UntilClose => Ok(()),
        }
    }
}
