//! Text is UTF-8 (RFC 6455 §8.1): what is reaches the agent however it is cut, what is not is seen as 1007.

use crate::stage::{
    ASK, Answer, Close, Echo, Row, begin, check, close_with, last, more, ping, result, row, text,
};

/// Text that is UTF-8, odd as it may be.
const GOOD: [(&str, &str); 16] = [
    ("Greek", "κόσμε"),
    ("all lengths", "a¢€𐍈"),
    ("the first of two bytes", "\u{80}"),
    ("the first of three", "\u{800}"),
    ("the first of four", "\u{10000}"),
    ("the last of one byte", "\u{7f}"),
    ("the last of two", "\u{7ff}"),
    ("the last of three", "\u{ffff}"),
    ("the last of all", "\u{10ffff}"),
    ("below the surrogates", "\u{d7ff}"),
    ("above them", "\u{e000}"),
    ("the replacement character", "\u{fffd}"),
    ("no characters", "\u{fffe}\u{ffff}\u{1fffe}\u{1ffff}\u{10fffe}"),
    ("no characters of another block", "\u{fdd0}\u{fdef}"),
    ("a byte order mark", "\u{feff}x"),
    ("marks that combine", "e\u{301}\u{200d}\u{1f469}"),
];

/// Bytes that are no UTF-8. `whole`: no byte could come after them that would make them so.
const BAD: [(&str, &[u8]); 40] = [
    ("a continuation byte", b"\x80"),
    ("the last continuation byte", b"\xbf"),
    ("two of them", b"\x80\xbf"),
    ("seven of them", b"\x80\xbf\x80\xbf\x80\xbf\x80"),
    ("a start of two and a space", b"\xc2 "),
    ("a start of three and a space", b"\xe1 "),
    ("a start of four and a space", b"\xf1 "),
    ("a start of five and a space", b"\xf8 "),
    ("a start of six and a space", b"\xfc "),
    ("two of three", b"\xe1\x80 "),
    ("three of four", b"\xf1\x80\x80 "),
    ("FE", b"\xfe"),
    ("FF", b"\xff"),
    ("FE FE FF FF", b"\xfe\xfe\xff\xff"),
    ("an overlong slash of two", b"\xc0\xaf"),
    ("an overlong slash of three", b"\xe0\x80\xaf"),
    ("an overlong slash of four", b"\xf0\x80\x80\xaf"),
    ("an overlong slash of five", b"\xf8\x80\x80\x80\xaf"),
    ("an overlong slash of six", b"\xfc\x80\x80\x80\x80\xaf"),
    ("the longest overlong of two", b"\xc1\xbf"),
    ("the longest overlong of three", b"\xe0\x9f\xbf"),
    ("the longest overlong of four", b"\xf0\x8f\xbf\xbf"),
    ("an overlong NUL of two", b"\xc0\x80"),
    ("an overlong NUL of three", b"\xe0\x80\x80"),
    ("an overlong NUL of four", b"\xf0\x80\x80\x80"),
    ("the first surrogate", b"\xed\xa0\x80"),
    ("the last high surrogate", b"\xed\xaf\xbf"),
    ("the first low surrogate", b"\xed\xb0\x80"),
    ("the last surrogate", b"\xed\xbf\xbf"),
    ("a pair of surrogates", b"\xed\xa0\x80\xed\xb0\x80"),
    ("the last pair", b"\xed\xaf\xbf\xed\xbf\xbf"),
    ("one beyond the last", b"\xf4\x90\x80\x80"),
    ("far beyond it", b"\xf7\xbf\xbf\xbf"),
    ("five bytes", b"\xfb\xbf\xbf\xbf\xbf"),
    ("six bytes", b"\xfd\xbf\xbf\xbf\xbf\xbf"),
    ("the first of five bytes", b"\xf8\x88\x80\x80\x80"),
    ("the first of six", b"\xfc\x84\x80\x80\x80\x80"),
    ("Latin-1", b"caf\xe9!"),
    ("Greek with a surrogate", b"\xce\xba\xe1\xbd\xb9\xcf\x83\xed\xa0\x80edited"),
    ("beyond the last inside Greek", b"\xce\xba\xe1\xbd\xb9\xf4\x90\x80\x80edited"),
];

/// The beginnings of a character and nothing after them.
const UNFINISHED: [(&str, &[u8]); 6] = [
    ("one of two", b"\xce"),
    ("one of three", b"\xe1"),
    ("two of three", b"\xe1\xbd"),
    ("one of four", b"\xf0"),
    ("two of four", b"\xf0\x90"),
    ("three of four", b"\xf0\x90\x8d"),
];

/// A message that would be a good one, with these bytes in a string of it.
fn around(bytes: &[u8]) -> Vec<u8> {
    [br#"{"type":"ping","x":""#, bytes, br#""}"#].concat()
}

#[test]
fn utf8_reaches_the_agent_as_it_was_however_it_is_cut() {
    let mut echo = Echo::new();
    let all: String = GOOD.iter().map(|(_, text)| *text).collect();
    for (name, sent) in GOOD.iter().copied().chain([("all of them", all.as_str())]) {
        // At every byte, so at every byte of every character: as fragments, and as packets.
        let came = echo.carries(|id| {
            let message = result(id, sent);
            let (most, end) = message.as_bytes().split_at(message.len() - 1);
            let mut frames = vec![begin("")];
            frames.extend(most.iter().map(|byte| more([*byte])));
            frames.push(last(end));
            frames
        });
        assert_eq!(came, sent, "{name}, in fragments");
        let came =
            echo.carries(|id| text(result(id, sent)).into_iter().map(|byte| vec![byte]).collect());
        assert_eq!(came, sent, "{name}, in packets");
    }
    echo.expects_quiet();
}

#[test]
fn text_that_is_no_utf8_is_seen_as_1007() {
    let mut rows: Vec<Row> = Vec::new();
    for (name, bytes) in BAD.iter().chain(&UNFINISHED) {
        rows.push(row(name, vec![text(around(bytes)), text(ASK)], &[Close(1007)]));
        // It is the text that is bad before it is the JSON.
        rows.push(row(name, vec![text(bytes)], &[Close(1007)]));
    }
    check(rows);
}

#[test]
fn it_is_seen_at_the_end_of_the_fragment_that_has_it_and_not_of_the_message() {
    let mut rows: Vec<Row> = Vec::new();
    for (name, bytes) in BAD {
        // Nothing comes after it: who waits for the end of the message waits for ever.
        rows.push(row(name, vec![begin(bytes)], &[Close(1007)]));
        rows.push(row(name, vec![begin("κόσμε"), more(bytes)], &[Close(1007)]));
        rows.push(row(
            name,
            vec![text(ASK), begin("{"), ping(""), more(bytes)],
            &[Answer, crate::stage::Pong(vec![]), Close(1007)],
        ));
        // Cut in the middle of what is wrong.
        let (one, two) = bytes.split_at(1);
        if !two.is_empty() {
            rows.push(row(name, vec![begin(one), more(two)], &[Close(1007)]));
        }
    }
    check(rows);
}

#[test]
fn a_character_may_not_stay_unfinished() {
    let mut rows: Vec<Row> = Vec::new();
    for (name, bytes) in UNFINISHED {
        rows.push(row(name, vec![begin(bytes), last("")], &[Close(1007)]));
        rows.push(row(name, vec![begin("\""), more(bytes), last("\"")], &[Close(1007)]));
    }
    check(rows);
}

#[test]
fn the_reason_of_a_close_is_utf8_too() {
    let mut rows: Vec<Row> = Vec::new();
    for (name, bytes) in BAD.iter().chain(&UNFINISHED) {
        rows.push(row(name, vec![close_with(1000, bytes)], &[Close(1007)]));
    }
    for (name, reason) in GOOD {
        rows.push(row(name, vec![close_with(1000, reason)], &[Close(1000)]));
    }
    check(rows);
}
