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
pub const EVENT_BEGIN: &str = "event: message\ndata: ";

/// What stands after it.
pub const EVENT_END: &str = "\n\n";

/// One event with this JSON text.
pub fn event(json: &str) -> String {
    let mut event = String::with_capacity(json.len() + EVENT_BEGIN.len() + EVENT_END.len());
    event.push_str(EVENT_BEGIN);
    push_data(json, &mut event);
    event.push_str(EVENT_END);
    event
}

/// The pieces of one event whose JSON text comes in pieces; what has no line break is not copied.
pub fn pieces<'a>(json: &[&'a str]) -> Vec<Cow<'a, str>> {
    let mut pieces = Vec::with_capacity(json.len() + 2);
    pieces.push(Cow::Borrowed(EVENT_BEGIN));
    pieces.extend(json.iter().map(|text| match breaks(text) {
        None => Cow::Borrowed(*text),
        Some(_) => {
            let mut data = String::with_capacity(text.len());
            push_data(text, &mut data);
            Cow::Owned(data)
        }
    }));
    pieces.push(Cow::Borrowed(EVENT_END));
    pieces
}

fn breaks(text: &str) -> Option<usize> {
    memchr::memchr2(b'\n', b'\r', text.as_bytes())
}

/// Appends JSON text to an event's data. A line break would end the event; in valid JSON it can only
/// stand between tokens, where a space means the same.
pub fn push_data(json: &str, event: &mut String) {
    let mut rest = json;
    while let Some(at) = breaks(rest) {
        event.push_str(&rest[..at]);
        event.push(' ');
        rest = &rest[at + 1..];
    }
    event.push_str(rest);
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
