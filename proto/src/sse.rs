//! Server-Sent Events as the bridge writes them (WHATWG HTML, Server-sent events).
//!
//! Knows how JSON text stands in an event, whole or in pieces that are not copied, and what else a stream
//! says. When that is said, and how a stream is framed, is decided elsewhere; nothing is read here.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

/// A comment line: keeps a stream alive and means nothing.
pub const KEEP_ALIVE: &str = ":\n\n";

/// The first bytes of a 2025-era notification stream: how long an agent waits before it comes back,
/// in milliseconds. They also make proxies that wait for a first body byte pass the headers on.
pub const RETRY: &str = "retry: 5000\n\n";

/// What stands before the JSON text of an event.
const EVENT_BEGIN: &str = "event: message\ndata: ";

/// What stands after it.
const EVENT_END: &str = "\n\n";

/// One event with this JSON text.
pub fn event(json: &str) -> String {
    pieces(&[json]).concat()
}

/// The pieces of one event whose JSON text comes in pieces; what has no line break is not copied.
pub fn pieces<'a>(json: &[&'a str]) -> Vec<Cow<'a, str>> {
    let mut pieces = Vec::with_capacity(json.len() + 2);
    pieces.push(Cow::Borrowed(EVENT_BEGIN));
    pieces.extend(json.iter().map(|text| one_line(text)));
    pieces.push(Cow::Borrowed(EVENT_END));
    pieces
}

/// JSON text without its line breaks; copied only when it has some. One would end an event's data; in
/// valid JSON it can only stand between tokens, where a space means the same.
pub fn one_line(json: &str) -> Cow<'_, str> {
    match memchr::memchr2(b'\n', b'\r', json.as_bytes()) {
        None => Cow::Borrowed(json),
        Some(_) => Cow::Owned(json.replace(['\n', '\r'], " ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_between_tokens_become_spaces() {
        assert_eq!(event("{\n\"a\":\r\n1}"), "event: message\ndata: { \"a\":  1}\n\n");
        assert_eq!(event(r#"{"a":"\n"}"#), "event: message\ndata: {\"a\":\"\\n\"}\n\n");
    }

    #[test]
    fn pieces_are_the_event_cut_up() {
        for texts in [&["{\n\"a\":", "\r\n1", "}"][..], &["{}"], &[], &["{", "\"\\n\":1}"]] {
            assert_eq!(pieces(texts).concat(), event(&texts.concat()), "{texts:?}");
        }
        assert!(pieces(&["{}"]).iter().all(|piece| matches!(piece, Cow::Borrowed(_))));
    }
}
