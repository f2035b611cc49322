//! Closing: RFC 6455 §5.5.1 and §7. The bridge answers with the code it was given, or says what was wrong.

use crate::stage::{
    ASK, Answer, Close, Row, begin, check, close, close_with, last, ping, registered, row, text,
};
use crate::support::{RawClient, SOON, Trouble};

#[test]
fn a_close_is_answered_with_its_code() {
    let mut rows = vec![
        row("without a code", vec![close("")], &[Close(1005)]),
        row("with a reason", vec![close_with(1000, "bye")], &[Close(1000)]),
        row("a reason of 123 bytes", vec![close_with(1000, [b'*'; 123])], &[Close(1000)]),
        row("behind a message", vec![text(ASK), close_with(1000, "")], &[Answer, Close(1000)]),
        row("inside a message", vec![begin("{"), close_with(1001, "")], &[Close(1001)]),
    ];
    let registered = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013];
    for code in registered.into_iter().chain([3000, 3999, 4000, 4400, 4409, 4999]) {
        rows.push(row(&format!("code {code}"), vec![close_with(code, "")], &[Close(code)]));
        rows.push(row(&format!("code {code}"), vec![close_with(code, "why")], &[Close(code)]));
    }
    check(rows);
}

#[test]
fn a_close_that_is_none_is_closed_1002() {
    let mut rows = vec![
        row("one byte", vec![close([3])], &[Close(1002)]),
        row("a reason of 124 bytes", vec![close_with(1000, [b'*'; 124])], &[Close(1002)]),
        row("a reason of 300 bytes", vec![close_with(1000, [b'*'; 300])], &[Close(1002)]),
    ];
    // Never sent (1004, 1005, 1006, 1015), not given out (1016 to 2999), no codes at all. 1014 is what a
    // gateway says to a client, never the other way.
    for code in [0, 1, 999, 1004, 1005, 1006, 1014, 1015, 1016, 1100, 2000, 2999, 5000, 65_535_u16]
    {
        rows.push(row(&format!("code {code}"), vec![close_with(code, "")], &[Close(1002)]));
        rows.push(row(&format!("code {code}"), vec![close_with(code, "why")], &[Close(1002)]));
    }
    check(rows);
}

#[test]
fn what_comes_behind_a_close_has_no_effect() {
    let bye = || close_with(1000, "");
    let mut rows: Vec<Row> = vec![
        row("a second close", vec![bye(), close_with(4000, "")], &[Close(1000)]),
        row("a ping", vec![bye(), ping("x")], &[Close(1000)]),
        row("a message", vec![bye(), text(ASK)], &[Close(1000)]),
        row("the rest of a message", vec![begin("{"), bye(), last("}")], &[Close(1000)]),
        row("nonsense", vec![bye(), vec![0xff; 50]], &[Close(1000)]),
        row("a ping behind a bad one", vec![close([3]), ping("x")], &[Close(1002)]),
    ];
    let large =
        text([br#"{"type":"ping","x":""#, "*".repeat(256 << 10).as_bytes(), b"\"}"].concat());
    rows.push(row(
        "a large message before, a ping behind",
        vec![large.clone(), bye(), ping("x")],
        &[Answer, Close(1000)],
    ));
    rows.push(row("a megabyte behind", [vec![bye()], vec![large; 4]].concat(), &[Close(1000)]));
    check(rows);
}

#[test]
fn the_bridge_ends_the_connection_first() {
    // RFC 6455 §7.1.1: the server closes the TCP connection, so that it is not the client's port that waits.
    for code in [1000_u16, 4000] {
        let mut client = registered("closing");
        client.http.send(close_with(code, ""));
        assert_eq!(client.next_frame(SOON).close().0, code);
        match client.try_frame(SOON) {
            Err(Trouble::Ended(rest)) if rest.is_empty() => {}
            other => panic!("expected the end, got {other:?}"),
        }
    }
}

#[test]
fn a_closed_client_that_stays_is_answered_no_more() {
    let mut client = registered("closing");
    client.http.send(RawClient::frame(0x88, &4000_u16.to_be_bytes()));
    assert_eq!(client.next_frame(SOON).close().0, 4000);
    // It does not go, and talks on: not a word, and an end that is not ours to wait for.
    while client.http.try_send(text(ASK)).is_ok() {
        match client.try_frame(std::time::Duration::from_millis(100)) {
            Err(Trouble::Quiet(rest)) if rest.is_empty() => {}
            Err(Trouble::Ended(rest) | Trouble::Reset(rest)) if rest.is_empty() => return,
            other => panic!("expected silence or the end, got {other:?}"),
        }
    }
}
