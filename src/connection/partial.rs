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
