//! Sizes at the edges of RFC 6455 §5.2's three lengths, in both directions, in any pieces.

use serde_json::json;

use crate::stage::{Close, Echo, FIN, check, result, row, text};
use crate::support::{Agent, BINARY, Bridge, RawClient, SOON, TEXT, unique};

/// One below, at and above each of the three forms of a length, and beyond what one read takes.
const EDGES: [usize; 9] = [124, 125, 126, 127, 128, 65_535, 65_536, 65_537, 300_000];

/// The text with which the answer to this call is exactly so many bytes.
fn text_of(id: &str, bytes: usize) -> String {
    let envelope = result(id, "").len();
    "*".repeat(bytes.checked_sub(envelope).expect("more bytes than the envelope has"))
}

#[test]
fn an_answer_of_any_size_arrives_however_it_is_cut() {
    let mut echo = Echo::new();
    for bytes in EDGES {
        for chop in [usize::MAX, 997, 1] {
            if chop == 1 && bytes > 1000 {
                continue;
            }
            let mut sent = String::new();
            let came = echo.carries(|id| {
                sent = text_of(id, bytes);
                let message = result(id, &sent);
                assert_eq!(message.len(), bytes);
                let frame = RawClient::frame(FIN | TEXT, message.as_bytes());
                frame.chunks(chop).map(<[u8]>::to_vec).collect()
            });
            assert!(came == sent, "{bytes} bytes in pieces of {chop}: {} came", came.len());
        }
    }
    echo.expects_quiet();
}

#[test]
fn an_answer_may_have_a_longer_length_than_it_needs() {
    // RFC 6455 §5.2 wants the shortest form of its sender and has no code for one that is not; nothing is
    // unclear about it, so it is read.
    let mut echo = Echo::new();
    for form in [126_u8, 127] {
        let came = echo.carries(|id| {
            let message = result(id, "a");
            let mut frame = vec![FIN | TEXT, 0x80 | form];
            match form {
                126 => frame.extend((message.len() as u16).to_be_bytes()),
                _ => frame.extend((message.len() as u64).to_be_bytes()),
            }
            // A mask of zeros is a mask.
            frame.extend([0; 4]);
            frame.extend(message.as_bytes());
            vec![frame]
        });
        assert_eq!(came, "a", "a length in form {form}");
    }
}

#[test]
fn what_the_bridge_sends_has_the_right_length_at_every_edge() {
    let bridge = Bridge::shared();
    // `registered` repeats the client ID, and so has any length that is asked for.
    for bytes in [125, 126, 127, 128] {
        let base = unique("edge");
        let (mut client, empty) = registered(bridge, &base);
        client.send_text(r#"{"type":"ping"}"#);
        assert_eq!(client.next_message(SOON), json!({"type": "pong"}));
        let id = format!("{base}{}", "x".repeat(bytes - empty));
        let (_, full) = registered(bridge, &id);
        assert_eq!(full, bytes);
    }
    for bytes in [65_535, 65_536, 65_537] {
        let id = unique("edge");
        let (mut client, _) = registered(bridge, &id);
        let mut pad = 0;
        // The first time to see how long the rest is, the second time as long as wanted.
        for wanted in [None, Some(bytes)] {
            let agent = Agent::new(bridge, &id);
            let arguments = json!({"x": "y".repeat(pad)});
            let params = json!({"name": "echo", "arguments": arguments});
            let http = agent.request("tools/call", params).sent_to(bridge);
            let frame = client.next_frame(SOON);
            assert_eq!((frame.first, frame.masked), (FIN | TEXT, false));
            let call: serde_json::Value =
                serde_json::from_slice(&frame.payload).expect("the bridge writes JSON");
            assert_eq!(call["params"]["arguments"], arguments);
            assert_eq!(wanted.unwrap_or(frame.payload.len()), frame.payload.len());
            pad = bytes - frame.payload.len();
            client.send_text(&result(call["id"].as_str().expect("an ID"), "done"));
            assert_eq!(agent.read_answer(http).text(), "done");
        }
    }
}

/// A client, and how long the `registered` message was that it got.
fn registered(bridge: &Bridge, id: &str) -> (RawClient, usize) {
    let mut client = RawClient::connect(bridge, id);
    client.send_text(
        r#"{"type":"register","tools":[{"name":"echo","inputSchema":{"type":"object"}}]}"#,
    );
    let frame = client.next_frame(SOON);
    let message: serde_json::Value =
        serde_json::from_slice(&frame.payload).expect("the bridge writes JSON");
    assert_eq!((frame.first, &message["clientId"]), (FIN | TEXT, &json!(id)));
    (client, frame.payload.len())
}

#[test]
fn binary_messages_of_any_size_are_refused_in_words() {
    let binary = |bytes: usize| RawClient::frame(FIN | BINARY, &vec![0xfe; bytes]);
    check(
        [0, 125, 126, 127, 128, 65_535, 65_536]
            .map(|bytes| row(&format!("{bytes} bytes"), vec![binary(bytes)], &[Close(4400)]))
            .into(),
    );
    check(vec![row("an empty text", vec![text("")], &[Close(4400)])]);
}
