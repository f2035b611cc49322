//! Contract §4 below the messages: WebSocket frames, fragments, and the limit of 4 MiB.
//!
//! The claim behind most rows: a client always *sees* why it was closed. A reset that overtakes the
//! close frame shows as 1006 in a browser, so here every refusal must arrive as a close frame,
//! whatever is still on its way.

use std::time::Duration;

use serde_json::json;

use crate::support::{
    Agent, BINARY, Bridge, CLOSE, CONTINUATION, Client, Era, Heard, MESSAGE_BYTES_MAX, PING, PONG,
    RawClient, SOON, TEXT, Trouble, unique,
};

const FIN: u8 = 0x80;

fn registered(name: &str) -> RawClient {
    let mut client = RawClient::connect(Bridge::shared(), &unique(name));
    client.send_text(r#"{"type":"register"}"#);
    assert_eq!(client.next_message(SOON)["type"], "registered");
    client
}

fn expects_pong(client: &mut RawClient) {
    assert_eq!(client.next_message(SOON), json!({"type": "pong"}));
}

/// A notification nobody knows, of exactly this many bytes: read whole, then dropped.
fn message_of(len: usize) -> String {
    let (start, end) = (r#"{"type":"notify","method":"x","params":{"pad":""#, r#""}}"#);
    let text = format!("{start}{}{end}", "x".repeat(len - start.len() - end.len()));
    assert_eq!(text.len(), len);
    text
}

#[test]
fn a_message_of_four_mebibytes_passes_and_one_byte_more_is_seen_as_1009() {
    for len in [MESSAGE_BYTES_MAX - 1, MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX + 1] {
        let mut client = Client::connect(Bridge::shared(), &unique("limit"));
        client.offers(&[]);
        client.send_text(message_of(len));
        if len <= MESSAGE_BYTES_MAX {
            client.expects_alive();
        } else {
            assert_eq!(client.expects_close().0, 1009, "{len} bytes");
        }
    }
}

#[test]
fn far_too_large_a_message_is_seen_as_1009_and_not_as_a_reset() {
    for mebibytes in [6, 24] {
        let mut client = Client::connect(Bridge::shared(), &unique("oversized"));
        client.offers(&[]);
        let sent = client.try_send_text(message_of(mebibytes * 1024 * 1024));
        let (code, reason) = client.expects_close();
        assert_eq!(code, 1009, "{mebibytes} MiB: {reason}; sending gave {sent:?}");
    }
}

#[test]
fn the_limit_holds_before_the_register_too() {
    let mut client = Client::connect(Bridge::shared(), &unique("oversized"));
    client.send_text(message_of(MESSAGE_BYTES_MAX + 1));
    assert_eq!(client.expects_close().0, 1009);
}

#[test]
fn fragments_count_together_against_the_limit() {
    for (len, passes) in [(MESSAGE_BYTES_MAX, true), (MESSAGE_BYTES_MAX + 1, false)] {
        let mut client = registered("fragments");
        client.send_fragments(&message_of(len), 300_000);
        if passes {
            client.send_text(r#"{"type":"ping"}"#);
            expects_pong(&mut client);
        } else {
            assert_eq!(client.expects_close().0, 1009, "{len} bytes");
        }
    }
}

#[test]
fn a_frame_that_only_claims_to_be_too_large_is_refused_at_once() {
    for len in [MESSAGE_BYTES_MAX as u64 + 1, u64::from(u32::MAX) + 1, (1 << 62)] {
        let mut client = registered("claims");
        let mut head = vec![FIN | TEXT, 0x80 | 127];
        head.extend(len.to_be_bytes());
        head.extend([0; 4]);
        head.extend(b"{");
        client.http.send(head);
        assert_eq!(client.expects_close().0, 1009, "a length of {len}");
    }
}

#[test]
fn a_result_of_four_mebibytes_reaches_the_agent_whole() {
    let bridge = Bridge::shared();
    let id = unique("large");
    let mut client = Client::connect(bridge, &id);
    client.offers(&["large"]);
    let agent = Agent::new(bridge, &id).speaking(Era::Legacy);
    let params = json!({"name": "large", "arguments": {}});
    let http = agent.request("tools/call", params).sent_to(bridge);
    let call = client.next_call();
    let envelope = format!(
        r#"{{"type":"result","id":{},"result":{{"content":[{{"type":"text","text":""}}]}}}}"#,
        json!(call.id)
    );
    let text = "x".repeat(MESSAGE_BYTES_MAX - envelope.len());
    client.send_text(envelope.replace(r#""text":"""#, &format!(r#""text":"{text}""#)));
    let came = agent.read_answer(http).text();
    assert_eq!(came.len(), text.len());
    assert!(came == text, "the text was changed on the way");
    client.expects_alive();
}

#[test]
fn fragments_are_put_together_whatever_comes_between() {
    let mut client = registered("fragments");
    let text = r#"{"type":"ping","é":"中"}"#;
    // Byte by byte: each split of each character is among them.
    client.send_fragments(text, 1);
    expects_pong(&mut client);
    // Control frames may come between fragments (RFC 6455 §5.4), and an empty fragment is one.
    client.http.send(RawClient::frame(TEXT, &text.as_bytes()[..5]));
    client.http.send(RawClient::frame(FIN | PING, b"now"));
    let pong = client.next_frame(SOON);
    assert_eq!((pong.first, pong.payload.as_slice()), (FIN | PONG, &b"now"[..]), "{pong:?}");
    client.http.send(RawClient::frame(CONTINUATION, b""));
    client.http.send(RawClient::frame(FIN | PONG, b"unasked"));
    client.http.send(RawClient::frame(FIN | CONTINUATION, &text.as_bytes()[5..]));
    expects_pong(&mut client);
}

#[test]
fn frames_may_come_in_pieces_or_many_at_once() {
    let mut client = registered("pieces");
    let frame = RawClient::frame(FIN | TEXT, br#"{"type":"ping"}"#);
    for byte in &frame {
        client.http.send([*byte]);
    }
    expects_pong(&mut client);
    let half = frame.len() / 2;
    client.http.send([frame.repeat(50), frame[..half].to_vec()].concat());
    (0..50).for_each(|_| expects_pong(&mut client));
    client.http.send(&frame[half..]);
    expects_pong(&mut client);
}

#[test]
fn the_bridges_frames_are_whole_plain_and_unmasked() {
    let mut client = RawClient::connect(Bridge::shared(), &unique("plain"));
    client.send_text(r#"{"type":"register"}"#);
    let frame = client.next_frame(SOON);
    assert_eq!((frame.first, frame.masked), (FIN | TEXT, false), "{frame:?}");
}

#[test]
fn a_websocket_ping_is_answered_with_its_payload() {
    let mut client = registered("ping");
    for payload in [&b""[..], b"x", &[0xff; 125]] {
        client.http.send(RawClient::frame(FIN | PING, payload));
        let frame = client.next_frame(SOON);
        assert_eq!((frame.first, frame.payload.as_slice()), (FIN | PONG, payload), "{frame:?}");
    }
}

#[test]
fn a_frame_against_rfc_6455_is_closed_with_the_code_it_names() {
    let ping = br#"{"type":"ping"}"#;
    let after = |first: Vec<u8>, second: Vec<u8>| [first, second].concat();
    for (name, bytes, codes) in [
        ("no mask", RawClient::unmasked(FIN | TEXT, ping), vec![1002]),
        ("RSV1, the bit of compression", RawClient::frame(FIN | 0x40 | TEXT, ping), vec![1002]),
        ("RSV2", RawClient::frame(FIN | 0x20 | TEXT, ping), vec![1002]),
        ("RSV3", RawClient::frame(FIN | 0x10 | TEXT, ping), vec![1002]),
        ("opcode 3", RawClient::frame(FIN | 3, ping), vec![1002]),
        ("opcode 11", RawClient::frame(FIN | 11, b""), vec![1002]),
        ("a continuation of nothing", RawClient::frame(FIN | CONTINUATION, ping), vec![1002]),
        (
            "a new message inside another",
            after(RawClient::frame(TEXT, b"{"), RawClient::frame(FIN | TEXT, ping)),
            vec![1002],
        ),
        ("a ping in fragments", RawClient::frame(PING, b"x"), vec![1002]),
        ("a ping of 126 bytes", RawClient::frame(FIN | PING, &[b'x'; 126]), vec![1002]),
        ("a close of one byte", RawClient::frame(FIN | CLOSE, &[3]), vec![1002]),
        (
            "a close with code 1005",
            RawClient::frame(FIN | CLOSE, &1005u16.to_be_bytes()),
            vec![1002],
        ),
        // Not JSON (4400) and not UTF-8 (1007) are both true of it.
        ("text that is no UTF-8", RawClient::frame(FIN | TEXT, b"{\"\xff\":1}"), vec![1007, 4400]),
        (
            "a surrogate in UTF-8",
            RawClient::frame(FIN | TEXT, b"\"\xed\xa0\x80\""),
            vec![1007, 4400],
        ),
        (
            "a binary message in fragments",
            after(RawClient::frame(BINARY, b"{"), RawClient::frame(FIN | CONTINUATION, b"}")),
            vec![4400],
        ),
    ] {
        let mut client = registered("frame");
        client.http.send(bytes);
        let (code, reason) = client.expects_close();
        assert!(codes.contains(&code), "{name}: expected {codes:?}, got {code} {reason:?}");
    }
}

#[test]
fn a_close_is_answered_with_its_code_and_the_connection_ended() {
    for code in [1000_u16, 1001, 3999, 4999] {
        let mut client = registered("close");
        client.http.send(RawClient::frame(FIN | CLOSE, &code.to_be_bytes()));
        assert_eq!(client.expects_close().0, code);
        // RFC 6455 §7.1.1: it is the server that ends the connection.
        match client.try_frame(SOON) {
            Err(Trouble::Ended(rest)) if rest.is_empty() => {}
            other => panic!("{code}: expected the end, got {other:?}"),
        }
    }
}

#[test]
fn a_client_that_never_answers_the_close_is_left_within_seconds() {
    let mut client = registered("rude");
    client.send_text("no JSON");
    assert_eq!(client.expects_close().0, 4400);
    match client.try_frame(Duration::from_secs(6)) {
        Err(Trouble::Ended(_) | Trouble::Reset(_)) => {}
        other => panic!("expected the end, got {other:?}"),
    }
}

#[test]
fn a_client_that_goes_in_the_middle_of_a_frame_takes_nobody_along() {
    let bridge = Bridge::shared();
    let id = unique("half");
    let mut client = RawClient::connect(bridge, &id);
    client.send_text(r#"{"type":"register","tools":[]}"#);
    assert_eq!(client.next_message(SOON)["type"], "registered");
    client.http.send([FIN | TEXT, 0x80 | 126, 0xff]);
    drop(client);
    let mut next = Client::connect(bridge, &id);
    next.offers(&["next"]);
    next.expects_alive();
    assert_eq!(next.hears(Duration::from_millis(100)), Heard::Quiet);
    assert_eq!(Agent::new(bridge, &id).lists_tools(), ["next"]);
}
