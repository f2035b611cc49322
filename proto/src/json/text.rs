//! JSON strings as text: decoding the escapes of a raw one (RFC 8259 §7), and writing one.
//!
//! The scanner in `json.rs` has checked every string that comes here by way of a value; the two
//! public decoders check for themselves. Nothing here knows what a string is for.

use alloc::borrow::Cow;
use alloc::string::String;

use memchr::memchr;

use super::Reader;

/// Decodes a raw JSON string; `None` when `raw` is none. A lone surrogate becomes U+FFFD, because a
/// Rust string cannot hold it.
pub fn string(raw: &str) -> Option<Cow<'_, str>> {
    checked(raw, LONE)
}

/// Decodes a raw JSON string that is going to be compared; `None` also when it has a lone surrogate
/// and so stands for no text at all.
pub fn exact_string(raw: &str) -> Option<Cow<'_, str>> {
    checked(raw, None)
}

/// What `string` makes of a lone surrogate.
pub(super) const LONE: Option<char> = Some(char::REPLACEMENT_CHARACTER);

fn checked(raw: &str, lone: Option<char>) -> Option<Cow<'_, str>> {
    let mut reader = Reader::new(raw);
    match reader.peek() {
        Some(b'"') => reader.skip_string().ok()?,
        _ => return None,
    }
    if reader.at == raw.len() { decode(raw, lone) } else { None }
}

/// Decodes a string that was validated, quotes included; a lone surrogate becomes `lone`.
pub(super) fn decode(raw: &str, lone: Option<char>) -> Option<Cow<'_, str>> {
    let mut rest = raw.strip_prefix('"')?.strip_suffix('"')?;
    let Some(mut escape) = memchr(b'\\', rest.as_bytes()) else {
        return Some(Cow::Borrowed(rest));
    };
    // An escape is never shorter than what it stands for.
    let mut out = String::with_capacity(rest.len());
    loop {
        out.push_str(&rest[..escape]);
        rest = &rest[escape + 1..];
        let kind = rest.chars().next()?;
        rest = &rest[kind.len_utf8()..];
        out.push(match kind {
            '"' | '\\' | '/' => kind,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => unicode(&mut rest, lone)?,
            _ => return None,
        });
        match memchr(b'\\', rest.as_bytes()) {
            Some(next) => escape = next,
            None => break,
        }
    }
    out.push_str(rest);
    Some(Cow::Owned(out))
}

/// Decodes what follows `\u`, and a second escape that completes a surrogate pair.
fn unicode(rest: &mut &str, lone: Option<char>) -> Option<char> {
    let unit = hex4(rest)?;
    *rest = &rest[4..];
    if let 0xd800..=0xdbff = unit
        && let Some(low @ 0xdc00..=0xdfff) = rest.strip_prefix("\\u").and_then(hex4)
    {
        *rest = &rest[6..];
        return char::from_u32(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
    }
    char::from_u32(unit).or(lone)
}

fn hex4(text: &str) -> Option<u32> {
    let digits = text.get(..4)?;
    // `from_str_radix` alone would take a sign as well.
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(digits, 16).ok()
}

/// Appends `text` to `out` as a JSON string. Only what RFC 8259 §7 wants escaped is escaped.
pub fn quote(text: &str, out: &mut String) {
    out.reserve(text.len() + 2);
    out.push('"');
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        let short = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..0x20 => "",
            _ => continue,
        };
        out.push_str(&text[plain..at]);
        plain = at + 1;
        if short.is_empty() {
            out.push_str("\\u00");
            for digit in [byte >> 4, byte & 15] {
                out.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
            }
        } else {
            out.push_str(short);
        }
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

/// A text in quotation marks, as short as a sentence can bear.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::new();
    quote(cut(text), &mut out);
    out
}

/// The beginning of what a peer sent, to be shown back to it.
pub(crate) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(80)]
}
