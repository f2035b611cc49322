//! Pings and pongs, reserved bits, reserved opcodes, masks: RFC 6455 §5.1, §5.2, §5.5.

use crate::stage::{
    ASK, Answer, Close, FIN, Pong, Row, Sees, begin, check, close, last, ping, pong, row, text,
};
use crate::support::{BINARY, CLOSE, CONTINUATION, PING, PONG, RawClient, TEXT};

#[test]
fn a_ping_is_answered_with_what_it_carried_up_to_125_bytes() {
    let odd: &[u8] = &[0x00, 0xff, 0xfe, 0xfd, 0xfc, 0xfb, 0x00, 0xff];
    let many: Vec<Vec<u8>> = (0..10_u8).map(|n| ping([b'p', n])).collect();
    let answers: Vec<Sees> = (0..10_u8).map(|n| Pong(vec![b'p', n])).collect();
    check(vec![
        row("empty", vec![ping("")], &[Pong(vec![])]),
        row("text", vec![ping("Hello")], &[Pong(b"Hello".to_vec())]),
        row("no text", vec![ping(odd)], &[Pong(odd.to_vec())]),
        row("124 bytes", vec![ping([0xfe; 124])], &[Pong(vec![0xfe; 124])]),
        row("125 bytes", vec![ping([0xfe; 125])], &[Pong(vec![0xfe; 125])]),
        row("126 bytes", vec![ping([0xfe; 126])], &[Close(1002)]),
        row("65,536 bytes", vec![ping(vec![0xfe; 65_536])], &[Close(1002)]),
        row("ten", many, &answers),
        row(
            "one between messages",
            vec![text(ASK), ping("x"), text(ASK)],
            &[Answer, Pong(b"x".to_vec()), Answer],
        ),
    ]);
}

#[test]
fn a_pong_that_nobody_asked_for_means_nothing() {
    check(vec![
        row("empty", vec![pong("")], &[]),
        row("with something in it", vec![pong("unasked")], &[]),
        row("125 bytes", vec![pong([0; 125])], &[]),
        row("126 bytes", vec![pong([0; 126])], &[Close(1002)]),
        row("before a ping", vec![pong("unasked"), ping("x")], &[Pong(b"x".to_vec())]),
    ]);
}

#[test]
fn control_frames_come_in_one_piece() {
    check(vec![
        row("half a ping", vec![RawClient::frame(PING, b"x"), last("y")], &[Close(1002)]),
        row("half a pong", vec![RawClient::frame(PONG, b"x"), last("y")], &[Close(1002)]),
        row("half a close", vec![RawClient::frame(CLOSE, &[3, 232])], &[Close(1002)]),
        row(
            "half a ping inside a message",
            vec![begin("{"), RawClient::frame(PING, b"x")],
            &[Close(1002)],
        ),
    ]);
}

/// The row alone, and behind a message that must still be answered.
fn alone_and_behind(name: &str, frame: Vec<u8>, code: u16) -> Vec<Row> {
    vec![
        row(name, vec![frame.clone(), ping("x")], &[Close(code)]),
        row(
            &format!("{name}, behind a message"),
            vec![text(ASK), frame, ping("x")],
            &[Answer, Close(code)],
        ),
    ]
}

#[test]
fn reserved_bits_have_no_meaning_here() {
    let mut rows = Vec::new();
    for bits in 1..8_u8 {
        for (what, opcode, payload) in [
            ("text", TEXT, ASK.as_bytes()),
            ("binary", BINARY, b"x"),
            ("ping", PING, b"x"),
            ("pong", PONG, b"x"),
            ("close", CLOSE, &[3, 232]),
        ] {
            let frame = RawClient::frame(FIN | bits << 4 | opcode, payload);
            rows.extend(alone_and_behind(
                &format!("{what} with reserved bits {bits:03b}"),
                frame,
                1002,
            ));
        }
        let second = RawClient::frame(FIN | bits << 4 | CONTINUATION, b"}");
        rows.push(row(
            "a continuation with a reserved bit",
            vec![begin("{"), second],
            &[Close(1002)],
        ));
    }
    check(rows);
}

#[test]
fn reserved_opcodes_have_no_meaning_here() {
    let mut rows = Vec::new();
    for opcode in (3..8_u8).chain(11..16) {
        for payload in [&b""[..], b"x"] {
            let frame = RawClient::frame(FIN | opcode, payload);
            rows.extend(alone_and_behind(&format!("opcode {opcode}"), frame, 1002));
        }
        let inside = vec![begin("{"), RawClient::frame(FIN | opcode, b"")];
        rows.push(row(&format!("opcode {opcode} inside a message"), inside, &[Close(1002)]));
    }
    check(rows);
}

#[test]
fn whatever_a_client_sends_is_masked() {
    let plain = RawClient::unmasked;
    let mut rows = Vec::new();
    for (name, frame) in [
        ("text", plain(FIN | TEXT, ASK.as_bytes())),
        ("an empty text", plain(FIN | TEXT, b"")),
        ("ping", plain(FIN | PING, b"x")),
        ("pong", plain(FIN | PONG, b"")),
        ("close", plain(FIN | CLOSE, &[3, 232])),
        ("binary", plain(FIN | BINARY, b"x")),
    ] {
        rows.extend(alone_and_behind(&format!("{name} without a mask"), frame, 1002));
    }
    let second = plain(FIN | CONTINUATION, b"}");
    rows.push(row("a second fragment without a mask", vec![begin("{"), second], &[Close(1002)]));
    check(rows);
}

#[test]
fn the_first_fault_counts() {
    check(vec![
        row(
            "a bad opcode, then no UTF-8",
            vec![RawClient::frame(FIN | 3, b""), text(b"\xff")],
            &[Close(1002)],
        ),
        row(
            "no UTF-8, then a bad opcode",
            vec![text(b"\xff"), RawClient::frame(FIN | 3, b"")],
            &[Close(1007)],
        ),
        row("no JSON, then a good close", vec![text("x"), close([3, 232])], &[Close(4400)]),
    ]);
}
