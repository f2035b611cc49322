//! What is to be written to a client, until its socket has taken it.
//!
//! Frames are collected and leave in as few system calls as they have pieces; a large argument is not
//! copied, it lies in the body that its agent sent. Knows sockets that would block, and no messages.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::TcpStream;
use std::rc::Rc;

use clientmcp_proto::frames;
use clientmcp_proto::span::Span;

use crate::conversation::{Outgoing, Params};

/// A part of a message that is longer than this is not copied, in bytes.
const COPIED_MAX: usize = 4 << 10;

/// Pieces that one system call writes at most.
const PIECES_PER_WRITE: usize = 16;

#[derive(Default)]
pub struct Outbox {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that are written.
    begun: usize,
    /// Bytes that are not written.
    left: usize,
}

enum Piece {
    Own(Vec<u8>),
    /// A slice of an agent's body.
    Lent(Rc<String>, Span),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Piece::Own(bytes) => bytes,
            Piece::Lent(body, span) => span.of(body).as_bytes(),
        }
    }
}

impl Outbox {
    /// Bytes that are not written.
    pub fn len(&self) -> usize {
        self.left
    }

    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Adds a message, in one frame.
    pub fn put(&mut self, message: Outgoing) {
        let parts = message.parts();
        let mut header = Vec::new();
        frames::put_text_header(parts.iter().map(|part| part.len()).sum(), &mut header);
        self.put_bytes(&header);
        match message {
            Outgoing::Call { before, params: Params::Lent(body, span), after }
                if span.of(&body).len() > COPIED_MAX =>
            {
                self.put_bytes(before.as_bytes());
                self.put_piece(Piece::Lent(body, span));
                self.put_bytes(after.as_bytes());
            }
            message => message.parts().iter().for_each(|part| self.put_bytes(part.as_bytes())),
        }
    }

    /// Adds bytes of frames as they are.
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        self.left += bytes.len();
        match self.pieces.back_mut() {
            Some(Piece::Own(last)) => last.extend_from_slice(bytes),
            _ if bytes.is_empty() => {}
            _ => self.pieces.push_back(Piece::Own(bytes.into())),
        }
    }

    fn put_piece(&mut self, piece: Piece) {
        self.left += piece.bytes().len();
        self.pieces.push_back(piece);
    }

    /// Writes what the socket takes; returns how much that was.
    ///
    /// # Errors
    /// What the system says, `WouldBlock` when there is still something left.
    pub fn flush(&mut self, mut socket: &TcpStream, sent: &mut u64) -> io::Result<()> {
        while !self.is_empty() {
            let mut slices = [IoSlice::new(&[]); PIECES_PER_WRITE];
            let mut count = 0;
            for (piece, slice) in self.pieces.iter().zip(&mut slices) {
                let begun = if count == 0 { self.begun } else { 0 };
                *slice = IoSlice::new(&piece.bytes()[begun..]);
                count += 1;
            }
            match socket.write_vectored(&slices[..count]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => {
                    *sent += written as u64;
                    self.written(written);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn written(&mut self, count: usize) {
        self.left -= count;
        self.begun += count;
        while let Some(first) = self.pieces.front()
            && self.begun >= first.bytes().len()
        {
            self.begun -= first.bytes().len();
            self.pieces.pop_front();
        }
    }

    /// What is left, in order.
    pub fn left(&self) -> impl Iterator<Item = &[u8]> {
        let begun = self.begun;
        let pieces = self.pieces.iter().enumerate();
        pieces.map(move |(at, piece)| &piece.bytes()[if at == 0 { begun } else { 0 }..])
    }
}

/// What a WebSocket context writes, which is frames of its own: answers to pings and to a close.
impl Write for Outbox {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put_bytes(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
