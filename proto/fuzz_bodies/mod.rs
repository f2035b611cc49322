//! What must hold for any input at all: one function for each thing that a stranger can send.
//!
//! `fuzz/` feeds them what libFuzzer makes up, `tests/corpus.rs` what is kept in `fuzz/corpus`; both
//! include this folder, so nothing is told twice. A function returns when all is well and panics when
//! it is not. `bytes` has the parsers, `messages` what is made of a message, `upstream` what a local MCP
//! server says; serde_json is the judge.

mod bytes;
mod messages;
mod upstream;

use serde_json::value::RawValue;

/// Checks one input.
pub type Body = fn(&[u8]);

/// Every target, under the name of its corpus.
pub const ALL: [(&str, Body); 10] = [
    ("http1", bytes::http1),
    ("json", bytes::json),
    ("token", bytes::token),
    ("headers", bytes::headers),
    ("channel", messages::channel),
    ("offer", messages::offer),
    ("agent", messages::agent),
    ("mrtr", messages::mrtr),
    ("notes", messages::notes),
    ("upstream", upstream::upstream),
];

/// What serde_json makes of a text, without building anything: the value without what surrounds it.
fn judge(text: &str) -> Option<&str> {
    serde_json::from_str::<&RawValue>(text).ok().map(RawValue::get)
}

/// Text that we write for others to read.
#[track_caller]
fn assert_json(text: &str) {
    assert!(judge(text).is_some(), "we wrote what is no JSON: {text:?}");
}
