//! A validating raw scanner for JSON texts (RFC 8259), read as a pull reader.
//!
//! It makes one pass without recursion and hands out slices of its input, so that what a client or
//! an agent wrote is passed on byte for byte: big numbers, key order and escapes included. It
//! builds no tree and knows no message; `jsonrpc`, `offer` and `channel` say what the members mean.
//! It accepts what serde_json accepts as a `RawValue`, down to `JSON_DEPTH_MAX` levels. Strings are
//! decoded and written in `json/text.rs`.

mod text;

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use memchr::memchr2;

use crate::limits::JSON_DEPTH_MAX;

use text::{LONE, decode};
pub(crate) use text::{cut, quoted};
pub use text::{exact_string, quote, string};

/// Why a text is no JSON, or not the JSON that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// Where it was noticed, in bytes from the start of the text.
    pub offset: usize,
    /// What was expected or what is wrong there.
    pub what: &'static str,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.offset)
    }
}

impl core::error::Error for Error {}

/// What a value is, as its first byte tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Begins with `{`.
    Object,
    /// Begins with `[`.
    Array,
    /// Begins with a quotation mark.
    String,
    /// Begins with a digit or a minus sign.
    Number,
    /// Begins like `true` or `false`.
    Bool,
    /// Begins like `null`.
    Null,
}

impl Kind {
    /// The kind of a raw value without surrounding whitespace; none if no value begins like that.
    pub fn of(raw: &str) -> Option<Kind> {
        raw.bytes().next().and_then(Kind::begun_by)
    }

    fn begun_by(byte: u8) -> Option<Kind> {
        Some(match byte {
            b'{' => Kind::Object,
            b'[' => Kind::Array,
            b'"' => Kind::String,
            b'-' | b'0'..=b'9' => Kind::Number,
            b't' | b'f' => Kind::Bool,
            b'n' => Kind::Null,
            _ => return None,
        })
    }

    /// The kind with its article, for sentences: "an object".
    pub fn words(self) -> &'static str {
        match self {
            Kind::Object => "an object",
            Kind::Array => "an array",
            Kind::String => "a string",
            Kind::Number => "a number",
            Kind::Bool => "a boolean",
            Kind::Null => "null",
        }
    }
}

/// Where the reader stands inside one open object or array.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Just opened: a first element or the closing bracket comes.
    First,
    /// In front of a value that was announced by `key` or `item` and not read yet.
    Value,
    /// Behind a value: a comma or the closing bracket comes.
    Next,
}

/// One array or object the caller entered and did not leave yet.
#[derive(Clone, Copy)]
struct Level {
    object: bool,
    place: Place,
}

/// Reads one JSON text from front to back, a step at a time.
///
/// After [`key`](Reader::key) or [`item`](Reader::item) the caller reads the value, or enters it
/// and walks it to its end; then the same method goes on with the outer one. A call out of turn is
/// an error, never a wrong answer. After an error the reader is of no further use.
pub struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// The state of the text's only value; `Next` once it has been read.
    root: Place,
    /// What is open, outermost first; at most `JSON_DEPTH_MAX`.
    levels: Vec<Level>,
}

impl<'a> Reader<'a> {
    /// A reader in front of the text's only value. Nothing is looked at yet.
    pub fn new(text: &'a str) -> Self {
        Reader { text, at: 0, root: Place::Value, levels: Vec::new() }
    }

    /// How far the reader has come, in bytes.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// The text from `start`, an earlier [`offset`](Reader::offset), to here.
    pub fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or("")
    }

    /// Looks at the first byte of the next value, skipping whitespace in front of it.
    pub fn kind(&mut self) -> Result<Kind, Error> {
        if *self.place() != Place::Value {
            return Err(self.fault("no value is due"));
        }
        self.skip_space();
        match self.peek().and_then(Kind::begun_by) {
            Some(kind) => Ok(kind),
            None => Err(self.fault("expected a value")),
        }
    }

    /// Validates and passes one value; returns exactly its text, without surrounding whitespace.
    pub fn value(&mut self) -> Result<&'a str, Error> {
        self.kind()?;
        let start = self.at;
        self.skip_value()?;
        *self.place() = Place::Next;
        // Both ends lie next to an ASCII byte that was matched, so they are character boundaries.
        Ok(&self.text[start..self.at])
    }

    /// Steps into the next value, which must be an object; [`key`](Reader::key) reads its members.
    pub fn enter_object(&mut self) -> Result<(), Error> {
        match self.kind()? {
            Kind::Object => self.enter(true),
            _ => Err(self.fault("expected an object")),
        }
    }

    /// Goes to the next member of the object entered last: its decoded name, the reader in front of
    /// its value. `None`: the object is over and left.
    pub fn key(&mut self) -> Result<Option<Cow<'a, str>>, Error> {
        if !self.advance(true)? {
            return Ok(None);
        }
        let raw = self.skip_name()?;
        Ok(Some(decode(raw, LONE).ok_or_else(|| self.fault("expected a member name"))?))
    }

    /// Steps into the next value, which must be an array; [`item`](Reader::item) goes through it.
    pub fn enter_array(&mut self) -> Result<(), Error> {
        match self.kind()? {
            Kind::Array => self.enter(false),
            _ => Err(self.fault("expected an array")),
        }
    }

    /// Goes to the next item of the array entered last. `false`: the array is over and left.
    pub fn item(&mut self) -> Result<bool, Error> {
        self.advance(false)
    }

    /// Makes sure that the value was read and that only whitespace follows it.
    pub fn end(&mut self) -> Result<(), Error> {
        if !self.levels.is_empty() || self.root != Place::Next {
            return Err(self.fault("the value was not read to its end"));
        }
        self.skip_space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.fault("expected nothing more")),
        }
    }

    /// The place within whatever is open innermost.
    fn place(&mut self) -> &mut Place {
        match self.levels.last_mut() {
            Some(level) => &mut level.place,
            None => &mut self.root,
        }
    }

    /// Opens the bracket the reader is in front of.
    fn enter(&mut self, object: bool) -> Result<(), Error> {
        if self.levels.len() >= JSON_DEPTH_MAX {
            return Err(self.fault(TOO_DEEP));
        }
        self.at += 1;
        self.levels.push(Level { object, place: Place::First });
        Ok(())
    }

    /// Goes to the next element of what is open: over the comma, or over the closing bracket
    /// (`false`).
    fn advance(&mut self, object: bool) -> Result<bool, Error> {
        let Some(&Level { object: is_object, place }) = self.levels.last() else {
            return Err(self.fault("nothing was entered"));
        };
        if is_object != object {
            return Err(self.fault("entered the other kind of value"));
        }
        let closing = if object { b'}' } else { b']' };
        self.skip_space();
        match (place, self.peek()) {
            (Place::Value, _) => return Err(self.fault("a value was not read")),
            (_, Some(byte)) if byte == closing => {
                self.at += 1;
                self.levels.pop();
                *self.place() = Place::Next;
                return Ok(false);
            }
            (Place::First, _) => {}
            (Place::Next, Some(b',')) => self.at += 1,
            (Place::Next, _) => return Err(self.fault(comma_or(object))),
        }
        *self.place() = Place::Value;
        Ok(true)
    }

    /// Passes the value that begins here, with everything in it.
    fn skip_value(&mut self) -> Result<(), Error> {
        let mut open = Open::below(self.levels.len());
        loop {
            self.skip_space();
            match self.peek() {
                Some(b'"') => self.skip_string()?,
                Some(b'-' | b'0'..=b'9') => self.skip_number()?,
                Some(b't') => self.skip_word(b"true")?,
                Some(b'f') => self.skip_word(b"false")?,
                Some(b'n') => self.skip_word(b"null")?,
                Some(byte @ (b'{' | b'[')) => {
                    let object = byte == b'{';
                    if !open.push(object) {
                        return Err(self.fault(TOO_DEEP));
                    }
                    self.at += 1;
                    self.skip_space();
                    if self.peek() != Some(if object { b'}' } else { b']' }) {
                        if object {
                            self.skip_name()?;
                        }
                        continue;
                    }
                    self.at += 1;
                    open.pop();
                }
                _ => return Err(self.fault("expected a value")),
            }
            // A value ended here, and with it everything whose closing bracket follows.
            loop {
                let Some(object) = open.innermost() else { return Ok(()) };
                self.skip_space();
                match (self.peek(), object) {
                    (Some(b'}'), true) | (Some(b']'), false) => {
                        self.at += 1;
                        open.pop();
                    }
                    (Some(b','), _) => {
                        self.at += 1;
                        if object {
                            self.skip_name()?;
                        }
                        break;
                    }
                    _ => return Err(self.fault(comma_or(object))),
                }
            }
        }
    }

    /// Passes a member name and its colon; returns the raw name.
    fn skip_name(&mut self) -> Result<&'a str, Error> {
        self.skip_space();
        if self.peek() != Some(b'"') {
            return Err(self.fault("expected a member name"));
        }
        let start = self.at;
        self.skip_string()?;
        let name = &self.text[start..self.at];
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.fault("expected a colon"));
        }
        self.at += 1;
        Ok(name)
    }

    /// Passes the string whose opening quote is here.
    fn skip_string(&mut self) -> Result<(), Error> {
        self.at += 1;
        loop {
            self.skip_plain()?;
            // `skip_plain` stops at a quote or a backslash only.
            self.at += 1;
            if self.text.as_bytes()[self.at - 1] == b'"' {
                return Ok(());
            }
            match self.peek() {
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
                Some(b'u') => {
                    self.at += 1;
                    for _ in 0..4 {
                        match self.peek() {
                            Some(byte) if byte.is_ascii_hexdigit() => self.at += 1,
                            _ => return Err(self.fault("expected four hex digits")),
                        }
                    }
                }
                _ => return Err(self.fault("expected an escape character")),
            }
        }
    }

    /// Goes to the next quote or backslash of a string, refusing control characters on the way.
    fn skip_plain(&mut self) -> Result<(), Error> {
        let bytes = self.text.as_bytes();
        // Most strings, and most stretches between escapes, are shorter than a search is worth.
        for _ in 0..4 {
            let Some(word) = bytes.get(self.at..).and_then(<[u8]>::first_chunk) else { break };
            let stops = stops(u64::from_le_bytes(*word));
            if stops == 0 {
                self.at += 8;
                continue;
            }
            self.at += stops.trailing_zeros() as usize / 8;
            return match bytes[self.at] {
                b'"' | b'\\' => Ok(()),
                _ => Err(self.fault(CONTROL)),
            };
        }
        let rest = &bytes[self.at..];
        let length = memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
        // Without an early exit this loop is done sixteen bytes at a time.
        if rest[..length].iter().fold(false, |found, &byte| found | (byte < 0x20)) {
            let place = rest.iter().position(|&byte| byte < 0x20).unwrap_or(length);
            self.at += place;
            return Err(self.fault(CONTROL));
        }
        self.at += length;
        if length == rest.len() { Err(self.fault("")) } else { Ok(()) }
    }

    /// Passes the number that begins here (RFC 8259 §6).
    fn skip_number(&mut self) -> Result<(), Error> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
            if matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err(self.fault("a number has a leading zero"));
            }
        } else {
            self.skip_digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.skip_digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.skip_digits()?;
        }
        Ok(())
    }

    fn skip_digits(&mut self) -> Result<(), Error> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.fault("expected a digit")) } else { Ok(()) }
    }

    fn skip_word(&mut self, word: &[u8]) -> Result<(), Error> {
        for &expected in word {
            if self.peek() != Some(expected) {
                return Err(self.fault("expected true, false or null"));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// An error at this place; at the end of the text it says that instead of what was expected.
    fn fault(&self, what: &'static str) -> Error {
        let what = if self.at >= self.text.len() { "the text ends too early" } else { what };
        Error { offset: self.at, what }
    }
}

/// Marks the high bit of each byte that ends a plain stretch of a string: a quote, a backslash, a control
/// character. Bytes above the lowest one that is marked may be marked wrongly, for want of a borrow.
fn stops(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = ONES << 7;
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word & HIGHS;
    let equals = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    below(word, 0x20) | equals(b'"') | equals(b'\\')
}

const TOO_DEEP: &str = "nested too deeply";
const CONTROL: &str = "a control character in a string";

fn comma_or(object: bool) -> &'static str {
    if object { "expected ',' or '}'" } else { "expected ',' or ']'" }
}

/// The brackets open while one value is passed, a bit each: no allocation, no recursion.
struct Open {
    /// Set where the level is an object. Only the bits in `base..depth` mean something.
    objects: [u64; JSON_DEPTH_MAX.div_ceil(64)],
    base: usize,
    depth: usize,
}

impl Open {
    /// Nothing open but the `base` levels that the caller entered.
    fn below(base: usize) -> Open {
        Open { objects: [0; JSON_DEPTH_MAX.div_ceil(64)], base, depth: base }
    }

    /// `false` when that would be one level too many.
    fn push(&mut self, object: bool) -> bool {
        if self.depth >= JSON_DEPTH_MAX {
            return false;
        }
        let (word, bit) = (self.depth / 64, self.depth % 64);
        self.objects[word] = self.objects[word] & !(1 << bit) | u64::from(object) << bit;
        self.depth += 1;
        true
    }

    fn pop(&mut self) {
        self.depth -= 1;
    }

    /// Whether the innermost level is an object; none when nothing is open.
    fn innermost(&self) -> Option<bool> {
        if self.depth == self.base {
            return None;
        }
        let last = self.depth - 1;
        Some(self.objects[last / 64] >> (last % 64) & 1 == 1)
    }
}

/// Makes sure that `text` is exactly one JSON value.
pub fn validate(text: &str) -> Result<(), Error> {
    let mut reader = Reader::new(text);
    reader.value()?;
    reader.end()
}

/// The members of the one object that is `text`: decoded names and raw values, in their order,
/// duplicates included.
pub fn members(text: &str) -> Result<Vec<(Cow<'_, str>, &str)>, Error> {
    let mut reader = Reader::new(text);
    let mut members = Vec::new();
    reader.enter_object()?;
    while let Some(name) = reader.key()? {
        members.push((name, reader.value()?));
    }
    reader.end()?;
    Ok(members)
}

/// The first name, in sorted order, that an object has twice; none when `raw_object` is no object.
/// Names are compared as decoded, so that `"a"` and `"\u0061"` are the same.
pub fn duplicate_member(raw_object: &str) -> Option<String> {
    let mut reader = Reader::new(raw_object);
    let mut names = Vec::new();
    reader.enter_object().ok()?;
    while let Some(name) = reader.key().ok()? {
        reader.value().ok()?;
        names.push(name);
    }
    // Sorted, because a peer may send as many as fit into a message.
    names.sort_unstable();
    let twice = names.windows(2).find(|pair| pair[0] == pair[1])?;
    Some(twice[0].clone().into_owned())
}

#[cfg(test)]
pub(crate) mod tests;
