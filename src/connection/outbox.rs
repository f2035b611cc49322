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

/// Longest header of a frame to a client, in bytes.
const FRAME_HEADER_MAX: usize = 10;

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
        let length: usize = message.parts().iter().map(|part| part.len()).sum();
        let own = self.own(FRAME_HEADER_MAX + length.min(COPIED_MAX));
        let before = own.len();
        frames::put_text_header(length, own);
        self.left += self.own(0).len() - before;
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
        self.own(bytes.len()).extend_from_slice(bytes);
    }

    /// Where bytes are copied to, with room for so many.
    fn own(&mut self, room: usize) -> &mut Vec<u8> {
        if !matches!(self.pieces.back(), Some(Piece::Own(_))) {
            self.pieces.push_back(Piece::Own(Vec::with_capacity(room)));
        }
        match self.pieces.back_mut() {
            Some(Piece::Own(last)) => last,
            _ => unreachable!("pushed above"),
        }
    }

    fn put_piece(&mut self, piece: Piece) {
        self.left += piece.bytes().len();
        self.pieces.push_back(piece);
    }

    /// Writes what the socket takes, and adds to `sent` how many bytes that was.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    fn call(params: &str) -> Outgoing {
        let body = Rc::new(format!("[{params}]"));
        let span = Span::new(1, 1 + params.len());
        let params = Params::Lent(body, span);
        Outgoing::Call { before: "before ".into(), params, after: " after".into() }
    }

    /// The frames of these texts, one behind the other.
    fn frames(texts: &[String]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for text in texts {
            frames::put_text_header(text.len(), &mut bytes);
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes
    }

    #[test]
    fn what_is_put_in_comes_out_in_order_however_little_the_socket_takes() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let ours = TcpStream::connect(address).expect("a connection");
        let (mut theirs, _) = listener.accept().expect("its other end");
        ours.set_nonblocking(true).expect("a socket");
        rustix::net::sockopt::set_socket_send_buffer_size(&ours, 64 << 10).expect("a socket");

        let mut outbox = Outbox::default();
        let mut texts = Vec::new();
        for round in 0..40 {
            let params = "p".repeat([0, 1, COPIED_MAX, COPIED_MAX + 1, 300_000][round % 5]);
            outbox.put(call(&params));
            texts.push(format!("before {params} after"));
            outbox.put(Outgoing::Text("text".into()));
            texts.push("text".into());
        }
        let expected = frames(&texts);
        assert_eq!(outbox.len(), expected.len());
        let mut sent = 0;
        let blocked = outbox.flush(&ours, &mut sent).expect_err("more than a socket takes");
        assert_eq!(blocked.kind(), ErrorKind::WouldBlock);
        assert_eq!(outbox.len() as u64, expected.len() as u64 - sent);
        let left: Vec<u8> = outbox.left().flatten().copied().collect();
        assert_eq!(left, expected[sent as usize..]);

        let mut received = Vec::new();
        let mut piece = vec![0; 50_000];
        while received.len() < expected.len() {
            let count = theirs.read(&mut piece).expect("what was sent");
            received.extend_from_slice(&piece[..count]);
            if let Err(error) = outbox.flush(&ours, &mut sent) {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
            }
        }
        assert!(received == expected && outbox.is_empty() && sent == expected.len() as u64);
    }
}
