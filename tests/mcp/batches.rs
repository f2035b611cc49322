//! JSON-RPC batches of the 2025 era (SPEC §5.4): who may send them, how they are answered.

use std::time::Instant;

use serde_json::Value;

use crate::extra::{ADD, Ask, Desk, register};

fn ping(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)
}

fn batch(elements: &[String]) -> Ask {
    Ask::post(&format!("[{}]", elements.join(",")))
}

#[test]
fn a_batch_is_served_for_2025_03_26_or_no_header_only() {
    let desk = Desk::open();
    let rows = [
        (None, 200),
        (Some("2025-03-26"), 200),
        (Some("2024-11-05"), 400),
        (Some("2025-06-18"), 400),
        (Some("2025-11-25"), 400),
        (Some("2026-07-28"), 400),
        (Some("2099-01-01"), 400),
    ];
    for (version, status) in rows {
        let mut ask = batch(&[ping("1"), ping("\"two\"")]);
        if let Some(version) = version {
            ask = ask.header("MCP-Protocol-Version", version);
        }
        let answer = desk.send(&ask);
        assert_eq!(answer.status, status, "{version:?}: {answer}");
        if status == 400 {
            assert_eq!(answer.code(), Some(-32600), "{version:?}: {answer}");
            continue;
        }
        let mut ids: Vec<String> = answer
            .json()
            .as_array()
            .unwrap_or_else(|| panic!("{version:?}: one array: {answer}"))
            .iter()
            .map(|a| a["id"].to_string())
            .collect();
        ids.sort();
        assert_eq!(ids, ["\"two\"", "1"], "{version:?}: {answer}");
    }
}

#[test]
fn a_batch_has_one_to_a_hundred_elements() {
    let desk = Desk::open();
    for (n, status) in [(0, 400), (1, 200), (100, 200), (101, 400)] {
        let elements: Vec<String> = (0..n).map(|id: u32| ping(&id.to_string())).collect();
        let answer = desk.send(&batch(&elements));
        assert_eq!(answer.status, status, "{n} elements: {answer}");
        match status {
            200 => assert_eq!(answer.json().as_array().map(Vec::len), Some(n as usize), "{answer}"),
            _ => assert_eq!(answer.code(), Some(-32600), "{n} elements: {answer}"),
        }
    }
}

#[test]
fn a_bad_element_is_refused_alone() {
    let desk = Desk::open();
    let answer = desk.send(&batch(&[
        ping("1"),
        r#"{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#.to_owned(),
        "7".to_owned(),
        r#"{"jsonrpc":"2.0","id":5,"method":"no/such"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":6,"id":6,"method":"ping"}"#.to_owned(),
    ]));
    assert_eq!(answer.status, 200, "{answer}");
    let answers = answer.json();
    let answers = answers.as_array().unwrap_or_else(|| panic!("one array: {answer}"));
    let code_of = |id: u32| {
        let one = answers.iter().find(|a| a["id"] == id);
        one.unwrap_or_else(|| panic!("no answer for {id}: {answer}"))["error"]["code"].clone()
    };
    assert_eq!(code_of(1), Value::Null, "{answer}");
    assert_eq!(code_of(2), -32600, "initialize inside: {answer}");
    assert_eq!(code_of(3), -32600, "a 2026 claim inside: {answer}");
    assert_eq!(code_of(5), -32601, "{answer}");
    let malformed =
        answers.iter().filter(|a| a["error"]["code"] == -32600 && a["id"] != 2 && a["id"] != 3);
    assert_eq!(malformed.count(), 2, "`7` and the doubled ID: {answer}");
    assert_eq!(answers.len(), 6, "a notification has no answer: {answer}");
}

#[test]
fn a_batch_of_notifications_and_responses_is_202() {
    let desk = Desk::open();
    let answer = desk.send(&batch(&[
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":"nobody-waits","result":{}}"#.to_owned(),
    ]));
    assert_eq!(answer.status, 202, "{answer}");
    assert!(answer.body.is_empty(), "{answer}");
}

#[test]
fn a_slow_batch_becomes_a_stream_with_one_event_each() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let call = |id: u32| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"add"}}}}"#)
    };
    let asked = Instant::now();
    let running = desk.begin(&batch(&[call(1), ping("2"), call(3)]));
    let (one, two) = (client.call(), client.call());
    client.answers(&one.id, r#"{"content":[],"n":"first"}"#);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    client.answers(&two.id, r#"{"content":[],"n":"last"}"#);
    let answer = running.finish();
    assert!(asked.elapsed().as_millis() >= 1500, "{answer}");
    assert_eq!(answer.content_type(), "text/event-stream", "{answer}");
    let messages = answer.messages();
    let mut ids: Vec<String> = messages.iter().map(|m| m["id"].to_string()).collect();
    ids.sort();
    assert_eq!(ids, ["1", "2", "3"], "one event each: {answer}");
}

#[test]
fn a_batch_of_calls_that_is_quick_is_one_array() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let call = |id: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"add"}}}}"#)
    };
    // Equal IDs inside one batch are the agent's affair: each element gets its answer.
    let running = desk.begin(&batch(&[call("1"), call("1")]));
    for n in 0..2 {
        let call = client.call();
        client.answers(&call.id, &format!(r#"{{"content":[],"n":{n}}}"#));
    }
    let answer = running.finish();
    assert_eq!(answer.content_type(), "application/json", "{answer}");
    let answers = answer.json();
    let mut got: Vec<String> = answers
        .as_array()
        .unwrap_or_else(|| panic!("one array: {answer}"))
        .iter()
        .map(|a| a["result"]["n"].to_string())
        .collect();
    got.sort();
    assert_eq!(got, ["0", "1"], "{answer}");
}
