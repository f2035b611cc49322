//! Strict request framing for HTTP/1 (RFC 9112), bytes in and facts out.
//!
//! It stands in front of `async_h1::server::decode`, which believes what it is given: where a request
//! begins and ends, and whether its head is one that decode survives, is settled here and nowhere
//! else. It knows no routes, methods or tokens; the router looks at [`Head`] for those. After a
//! [`Refusal`] the framing is lost: answer it and close the connection.

mod authority;
mod body;
mod head;

#[cfg(test)]
mod tests;

use alloc::borrow::Cow;
use core::fmt;

pub use body::{BodyDecoder, CHUNK_END, ChunkHead, LAST_CHUNK, chunk_head};
pub use head::{Head, HeadReader, Limits, Normalised, head, same};

/// How the body behind a head is delimited (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// There is no body.
    None,
    /// `Content-Length`: exactly so many bytes follow, zero included.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
}

/// A request that cannot be served as it stands. The connection closes after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status to answer with: 400, 413, 414, 417, 431, 501 or 505.
    pub status: u16,
    /// One sentence a person can act on. It never repeats what the peer sent, which may be a token.
    pub message: Cow<'static, str>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for Refusal {}

impl Refusal {
    fn new(status: u16, message: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { status, message: message.into() }
    }

    fn bad(message: &'static str) -> Refusal {
        Refusal::new(400, message)
    }
}

/// RFC 9110 §5.6.2: the characters of a token, such as a method or a field name.
fn is_token_char(byte: u8) -> bool {
    const TOKEN: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < 128 {
            table[byte] = (byte as u8).is_ascii_alphanumeric();
            byte += 1;
        }
        let others = b"!#$%&'*+-.^_`|~";
        let mut at = 0;
        while at < others.len() {
            table[others[at] as usize] = true;
            at += 1;
        }
        table
    };
    TOKEN[usize::from(byte)]
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Refuses what no line may hold. CR and LF are left to whoever splits the lines.
fn check_bytes(bytes: &[u8]) -> Result<(), Refusal> {
    let is_bad =
        |byte: &u8| (*byte < b' ' && !matches!(*byte, b'\t' | b'\r' | b'\n')) || *byte > b'~';
    // Without an early exit this loop is done sixteen bytes at a time.
    if !bytes.iter().fold(false, |found, byte| found | is_bad(byte)) {
        return Ok(());
    }
    match bytes.iter().find(|byte| is_bad(byte)) {
        None => Ok(()),
        Some(0x80..) => Err(Refusal::bad(
            "The request has a byte outside ASCII in a header or chunk line: encode such text.",
        )),
        Some(_) => {
            Err(Refusal::bad("The request has a control character in a header or chunk line."))
        }
    }
}

/// Splits a field line (RFC 9112 §5) into its name and its value without the blanks around it, both
/// relative to `line`. The bytes were checked by [`check_bytes`].
fn field_line(line: &[u8]) -> Result<(usize, core::ops::Range<usize>), Refusal> {
    if line.first().copied().is_some_and(is_blank) {
        // RFC 9112 §5.2: obs-fold is refused with 400.
        return Err(Refusal::bad(
            "A header line begins with a blank: folded headers are obsolete, write each on one line.",
        ));
    }
    let Some(colon) = memchr::memchr(b':', line) else {
        return Err(Refusal::bad("A header line has no colon: expected `Name: value`."));
    };
    let name = &line[..colon];
    if name.is_empty() {
        return Err(Refusal::bad("A header line begins with its colon: expected `Name: value`."));
    }
    if name.last().copied().is_some_and(is_blank) {
        // RFC 9112 §5.1: whitespace between name and colon has been used to smuggle requests.
        return Err(Refusal::bad("A header has a blank between its name and its colon."));
    }
    if !name.iter().copied().all(is_token_char) {
        return Err(Refusal::bad("A header name has a character that no header name may have."));
    }
    let value = &line[colon + 1..];
    let leading = value.iter().take_while(|byte| is_blank(**byte)).count();
    let trailing = value[leading..].iter().rev().take_while(|byte| is_blank(**byte)).count();
    Ok((colon, colon + 1 + leading..line.len() - trailing))
}
