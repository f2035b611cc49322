//! A plain text message on its way in, read straight into the memory that it stays in.
//!
//! Knows how much of it has come and takes the mask off. Room is made as it comes, so that a client that
//! only says how long its message will be costs nothing.

use std::net::TcpStream;
use std::string::FromUtf8Error;

use async_io::Async;
use async_tungstenite::tungstenite::Utf8Bytes;
use clientmcp_proto::frames::{PlainText, unmask};
use rustix::buffer::spare_capacity;

use crate::socket::{Input, input};

/// Room that is made for a message at first, in bytes; then it doubles.
const STEP: usize = 128 << 10;

pub struct Partial {
    frame: PlainText,
    /// What has come, without its mask; what is behind the message is not touched.
    bytes: Vec<u8>,
}

impl Partial {
    /// Begins a message with what has come of its payload; returns what is behind it too.
    pub fn begin(frame: PlainText, payload: &[u8]) -> (Partial, &[u8]) {
        let (here, behind) = payload.split_at(frame.length.min(payload.len()));
        let mut bytes = Vec::with_capacity(frame.length.min(here.len().max(STEP)));
        bytes.extend_from_slice(here);
        unmask(&mut bytes, frame.mask, 0);
        (Partial { frame, bytes }, behind)
    }

    /// Reads more of it; also returns how much there was room for.
    pub fn read(&mut self, io: &Async<TcpStream>) -> (Option<Input>, usize) {
        let (begin, length) = (self.bytes.len(), self.frame.length);
        if begin == self.bytes.capacity() {
            self.bytes.reserve_exact((length - begin).min(begin));
        }
        let room = self.bytes.capacity() - begin;
        let input = input(|| Ok(rustix::io::read(io, spare_capacity(&mut self.bytes))?));
        let end = self.bytes.len().min(length);
        unmask(&mut self.bytes[begin..end], self.frame.mask, begin);
        (input, room)
    }

    pub fn is_done(&self) -> bool {
        self.bytes.len() >= self.frame.length
    }

    /// The message, and what was read behind it: there may have been more room than was asked for.
    pub fn finish(mut self) -> (Result<Utf8Bytes, FromUtf8Error>, Vec<u8>) {
        let behind = self.bytes.split_off(self.frame.length);
        (String::from_utf8(self.bytes).map(Utf8Bytes::from), behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clientmcp_proto::frames::plain_text;
    use std::io::Write;
    use std::net::TcpListener;

    /// A frame with this text, masked.
    fn frame(text: &str) -> Vec<u8> {
        let mask = [7, 0, 200, 33];
        let mut bytes = vec![0x81];
        match text.len() {
            length @ 0..126 => bytes.push(0x80 | length as u8),
            length => {
                bytes.push(0x80 | 127);
                bytes.extend((length as u64).to_be_bytes());
            }
        }
        bytes.extend(mask);
        let start = bytes.len();
        bytes.extend(text.as_bytes());
        unmask(&mut bytes[start..], mask, 0);
        bytes
    }

    #[test]
    fn a_message_is_the_same_wherever_it_is_cut() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut theirs = TcpStream::connect(address).expect("a connection");
        let ours = Async::new(listener.accept().expect("its other end").0).expect("a socket");
        for length in [0, 1, 100, 70_000, STEP, STEP + 1, 1_000_003] {
            let text: String = ('a'..='z').cycle().take(length).collect();
            let bytes = frame(&text);
            let found = plain_text(&bytes).expect("a plain text");
            let payload = &bytes[found.header_bytes..];
            for here in [0, 1, 2, 3, length / 2, length.saturating_sub(1), length] {
                let here = here.min(length);
                let (mut partial, behind) = Partial::begin(found, &payload[..here]);
                assert!(behind.is_empty());
                theirs.write_all(&payload[here..]).expect("written");
                while !partial.is_done() {
                    match partial.read(&ours) {
                        (Some(Input::Some(count)), room) => assert!(count <= room),
                        (None, _) => std::thread::yield_now(),
                        (other, _) => panic!("{other:?}"),
                    }
                }
                let (read, behind) = partial.finish();
                assert_eq!(read.expect("UTF-8").as_str(), text, "{length} cut at {here}");
                assert!(behind.is_empty());
            }
            let and_more = [payload, b"more"].concat();
            let (partial, behind) = Partial::begin(found, &and_more);
            assert!(partial.is_done() && behind == b"more", "{length}");
        }
    }

    #[test]
    fn what_is_no_utf_8_is_no_message() {
        let mut bytes = frame("ab");
        let last = bytes.len() - 1;
        bytes[last] ^= 0x80;
        let found = plain_text(&bytes).expect("a plain text");
        let (partial, _) = Partial::begin(found, &bytes[found.header_bytes..]);
        assert!(partial.finish().0.is_err());
    }
}
