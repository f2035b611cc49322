//! Request bodies, delimited by length or by chunks (RFC 9112 §6 and §7), and the framing of the
//! chunks we send.
//!
//! [`BodyDecoder`] copies the content out and stops at its end, so that a pipelined request stays
//! where it is. Chunk extensions and trailers are checked, bounded and dropped: nothing here uses
//! them, and RFC 9110 §6.5.1 forbids merging trailers into the headers.

use alloc::format;
use alloc::vec::Vec;
use core::ops::Deref;

use super::{BodyKind, Refusal, check_bytes, field_line, is_blank, is_token_char};
use crate::limits::{CHUNK_LINE_BYTES_MAX, TRAILER_BYTES_MAX};

/// Decodes one body. Feed it until [`BodyDecoder::done`]; after a refusal drop it and close.
#[derive(Clone, Debug)]
pub struct BodyDecoder {
    state: State,
    bytes_max: usize,
    /// How much more content may come.
    bytes_left: usize,
    /// The line being read: a size line or a trailer, with its CR but without its LF.
    line: Vec<u8>,
    /// Bytes of the trailer section before `line`.
    trailer_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// So many bytes of a body with a length are to come; never zero.
    Content(usize),
    ChunkSize,
    /// So many bytes of this chunk are to come; never zero.
    ChunkData(usize),
    /// The CRLF behind a chunk's data.
    ChunkEnd,
    Trailers,
    Done,
}

impl BodyDecoder {
    /// Prepares for a body of at most `bytes_max` bytes of content. A `Content-Length` above it: 413,
    /// before a byte is read.
    pub fn new(kind: BodyKind, bytes_max: usize) -> Result<BodyDecoder, Refusal> {
        let state = match kind {
            BodyKind::None | BodyKind::Length(0) => State::Done,
            BodyKind::Length(length) => match usize::try_from(length) {
                Ok(length) if length <= bytes_max => State::Content(length),
                _ => return Err(too_large(bytes_max)),
            },
            BodyKind::Chunked => State::ChunkSize,
        };
        let line = Vec::new();
        Ok(BodyDecoder { state, bytes_max, bytes_left: bytes_max, line, trailer_bytes: 0 })
    }

    /// Appends the content in `input` to `out` and returns how much of `input` belonged to the body.
    /// Less than all of it only at the end of the body; the rest is the next request.
    pub fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, Refusal> {
        let mut rest = input;
        while !rest.is_empty() && self.state != State::Done {
            rest = match self.state {
                State::Content(left) => {
                    let (rest, left) = copy(rest, left, out);
                    self.state = if left == 0 { State::Done } else { State::Content(left) };
                    rest
                }
                State::ChunkData(left) => {
                    let (rest, left) = copy(rest, left, out);
                    self.state = if left == 0 { State::ChunkEnd } else { State::ChunkData(left) };
                    rest
                }
                State::ChunkSize | State::ChunkEnd | State::Trailers | State::Done => {
                    self.line_byte(rest[0])?;
                    &rest[1..]
                }
            };
        }
        Ok(input.len() - rest.len())
    }

    /// Whether the body is complete. If the connection ends before: it was cut short, answer nothing.
    pub fn done(&self) -> bool {
        self.state == State::Done
    }

    /// Takes one byte of a line. Lines are short, so one at a time is fast enough.
    fn line_byte(&mut self, byte: u8) -> Result<(), Refusal> {
        check_bytes(&[byte])?;
        let after_cr = self.line.last() == Some(&b'\r');
        if after_cr != (byte == b'\n') {
            return Err(Refusal::bad(
                "The chunked body has a CR or an LF alone: lines end with CRLF.",
            ));
        }
        if byte == b'\n' {
            self.line.pop();
            let line = core::mem::take(&mut self.line);
            let next = self.line_end(&line);
            // Kept for its allocation: many small chunks would otherwise ask for many.
            self.line = line;
            self.line.clear();
            self.state = next?;
            return Ok(());
        }
        self.line.push(byte);
        let text_bytes = self.line.len() - usize::from(byte == b'\r');
        match self.state {
            State::ChunkEnd if byte != b'\r' => Err(Refusal::bad(
                "The chunked body has more data in a chunk than the chunk's size says.",
            )),
            State::ChunkSize if text_bytes > CHUNK_LINE_BYTES_MAX => Err(Refusal::new(
                400,
                format!("The chunked body has a size line over {CHUNK_LINE_BYTES_MAX} bytes."),
            )),
            State::ChunkSize if !self.line[0].is_ascii_hexdigit() => Err(bad_size()),
            // Counts the CRLF that has to follow.
            State::Trailers if self.trailer_bytes + text_bytes + 2 > TRAILER_BYTES_MAX => {
                Err(Refusal::new(
                    431,
                    format!("The chunked body has trailers over {TRAILER_BYTES_MAX} bytes."),
                ))
            }
            _ => Ok(()),
        }
    }

    fn line_end(&mut self, line: &[u8]) -> Result<State, Refusal> {
        match self.state {
            State::ChunkSize => match chunk_size(line)? {
                0 => Ok(State::Trailers),
                size => {
                    let size = usize::try_from(size).map_err(|_| too_large(self.bytes_max))?;
                    let left = self.bytes_left.checked_sub(size);
                    self.bytes_left = left.ok_or_else(|| too_large(self.bytes_max))?;
                    Ok(State::ChunkData(size))
                }
            },
            State::Trailers if line.is_empty() => Ok(State::Done),
            State::Trailers => {
                field_line(line)?;
                self.trailer_bytes += line.len() + 2;
                Ok(State::Trailers)
            }
            State::ChunkEnd | State::Content(_) | State::ChunkData(_) | State::Done => {
                Ok(State::ChunkSize)
            }
        }
    }
}

fn copy<'a>(input: &'a [u8], left: usize, out: &mut Vec<u8>) -> (&'a [u8], usize) {
    let (content, rest) = input.split_at(left.min(input.len()));
    out.extend_from_slice(content);
    (rest, left - content.len())
}

fn too_large(bytes_max: usize) -> Refusal {
    Refusal::new(413, format!("The request body is larger than {bytes_max} bytes."))
}

fn bad_size() -> Refusal {
    Refusal::bad("The chunked body has a chunk size that is not a number in hexadecimal digits.")
}

/// RFC 9112 §7.1: `chunk-size [ chunk-ext ]`.
fn chunk_size(line: &[u8]) -> Result<u64, Refusal> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (size, extensions) = line.split_at(digits);
    if !are_extensions(extensions) {
        return Err(bad_size());
    }
    let size = core::str::from_utf8(size).map_err(|_| bad_size())?;
    u64::from_str_radix(size, 16).map_err(|_| bad_size())
}

/// RFC 9112 §7.1.1: `*( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )`.
fn are_extensions(mut rest: &[u8]) -> bool {
    while !rest.is_empty() {
        let Some(after) = skip_blanks(rest).strip_prefix(b";") else { return false };
        let Some(after) = skip_token(skip_blanks(after)) else { return false };
        rest = after;
        if let Some(value) = skip_blanks(after).strip_prefix(b"=") {
            let value = skip_blanks(value);
            let after =
                if value.starts_with(b"\"") { skip_quoted(value) } else { skip_token(value) };
            let Some(after) = after else { return false };
            rest = after;
        }
    }
    true
}

fn skip_blanks(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.iter().take_while(|byte| is_blank(**byte)).count()..]
}

fn skip_token(bytes: &[u8]) -> Option<&[u8]> {
    let length = bytes.iter().take_while(|byte| is_token_char(**byte)).count();
    (length > 0).then(|| &bytes[length..])
}

fn skip_quoted(bytes: &[u8]) -> Option<&[u8]> {
    let mut at = 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(&bytes[at + 1..]),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Ends the data of a chunk that [`chunk_head`] began.
pub const CHUNK_END: &[u8] = b"\r\n";

/// Ends a chunked response, without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The size line of a chunk of `length` bytes; its data and [`CHUNK_END`] follow. A chunk of nothing
/// would end the response, so there is none: `length` must not be zero.
pub fn chunk_head(length: usize) -> ChunkHead {
    assert!(length > 0, "an empty chunk ends the response: write LAST_CHUNK for that");
    let mut head = ChunkHead { bytes: [0; 18], start: 16 };
    head.bytes[16..].copy_from_slice(b"\r\n");
    let mut rest = length;
    while rest > 0 {
        head.start -= 1;
        head.bytes[head.start] = b"0123456789abcdef"[rest & 15];
        rest >>= 4;
    }
    head
}

/// A chunk's size line, as bytes, without an allocation.
#[derive(Clone, Copy, Debug)]
pub struct ChunkHead {
    /// Filled from its end: sixteen digits at most, and CRLF.
    bytes: [u8; 18],
    start: usize,
}

impl Deref for ChunkHead {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}
