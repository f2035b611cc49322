//! Contract §4: each close code, what brings it about, and the fault that explains it.
//!
//! 1001 and 4429 need a process or a flag of their own: `tests/process`. 1009 is in `frames`, 4401
//! and 4403 in `tokens`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Agent, Bridge, Client, Heard, RawClient, SOON, unique};

/// A client that has registered nothing in particular.
fn registered(id: &str) -> Client {
    let mut client = Client::connect(Bridge::shared(), id);
    client.offers(&["echo"]);
    client
}

/// Fails unless the close is 4400 and the fault before it tells all of what the reason tells in
/// part.
fn expects_4400(name: &str, client: &mut Client) {
    let (code, reason, fault) = client.expects_fault_and_close();
    assert_eq!(code, 4400, "{name}: {reason}");
    assert_eq!(fault["code"], 4400, "{name}: {fault}");
    let message = fault["message"].as_str().unwrap_or_default();
    assert!(!message.is_empty(), "{name}: {fault}");
    assert!(!reason.is_empty() && reason.len() <= 123, "{name}: {reason:?}");
    assert!(message.starts_with(&reason), "{name}: reason {reason:?} of {fault}");
    assert!(fault.get("path").is_none_or(Value::is_string), "{name}: {fault}");
}

#[test]
fn a_message_that_is_none_closes_4400() {
    for (name, text) in [
        ("an empty text", ""),
        ("no JSON", "hello"),
        ("half of it", r#"{"type":"ping""#),
        ("more after it", r#"{"type":"ping"} x"#),
        ("two of them", r#"{"type":"ping"}{"type":"ping"}"#),
        ("an array", r#"[{"type":"ping"}]"#),
        ("a text", r#""ping""#),
        ("null", "null"),
        ("no type", r#"{"tools":[]}"#),
        ("an unknown type", r#"{"type":"hello"}"#),
        ("a message of the other direction", r#"{"type":"call","id":"1"}"#),
        ("a type in capitals", r#"{"type":"Ping"}"#),
        ("a type that is a number", r#"{"type":1}"#),
        ("result with a number as ID", r#"{"type":"result","id":1,"result":{}}"#),
        ("result without ID", r#"{"type":"result","result":{}}"#),
        ("result without result", r#"{"type":"result","id":"1"}"#),
        ("result that is a text", r#"{"type":"result","id":"1","result":"x"}"#),
        ("result that is an array", r#"{"type":"result","id":"1","result":[]}"#),
        ("error without error", r#"{"type":"error","id":"1"}"#),
        ("error that is a text", r#"{"type":"error","id":"1","error":"x"}"#),
        ("error without code", r#"{"type":"error","id":"1","error":{"message":"x"}}"#),
        ("code that is a text", r#"{"type":"error","id":"1","error":{"code":"1","message":"x"}}"#),
        ("code with a fraction", r#"{"type":"error","id":"1","error":{"code":1.5,"message":"x"}}"#),
        ("no message", r#"{"type":"error","id":"1","error":{"code":1}}"#),
        ("message that is a number", r#"{"type":"error","id":"1","error":{"code":1,"message":2}}"#),
        ("notify without method", r#"{"type":"notify","params":{}}"#),
        ("method that is a number", r#"{"type":"notify","method":1}"#),
        ("params that are a text", r#"{"type":"notify","method":"x","params":"y"}"#),
        ("notify with a number as ID", r#"{"type":"notify","method":"x","id":1}"#),
        ("auth without token", r#"{"type":"auth"}"#),
        ("token that is a number", r#"{"type":"auth","token":1}"#),
        ("tools that are an object", r#"{"type":"register","tools":{}}"#),
        ("tools that are null", r#"{"type":"register","tools":null}"#),
        ("prompts that are a text", r#"{"type":"register","prompts":"x"}"#),
        ("resources that are a number", r#"{"type":"register","resources":1}"#),
        ("templates that are true", r#"{"type":"register","resourceTemplates":true}"#),
        ("server that is a text", r#"{"type":"register","server":"x"}"#),
        ("instructions that are a list", r#"{"type":"register","instructions":[]}"#),
        ("completions that are a number", r#"{"type":"register","completions":1}"#),
        ("subscribe that is a text", r#"{"type":"register","subscribe":"yes"}"#),
        ("a negative ttlMs", r#"{"type":"register","ttlMs":-1}"#),
        ("a ttlMs with a fraction", r#"{"type":"register","ttlMs":1.5}"#),
        ("a ttlMs that is a text", r#"{"type":"register","ttlMs":"1"}"#),
    ] {
        let mut client = registered(&unique("bad"));
        client.send_text(text);
        expects_4400(name, &mut client);
    }
}

#[test]
fn a_binary_frame_closes_4400() {
    let mut client = registered(&unique("binary"));
    client.send_binary(br#"{"type":"ping"}"#);
    expects_4400("binary", &mut client);
}

#[test]
fn anything_but_a_ping_before_the_register_closes_4400() {
    for message in [
        json!({"type": "result", "id": "1", "result": {}}),
        json!({"type": "error", "id": "1", "error": {"code": 1, "message": "x"}}),
        json!({"type": "notify", "method": "notifications/resources/updated"}),
    ] {
        let mut client = Client::connect(Bridge::shared(), &unique("first"));
        client.send(&message);
        expects_4400(&message.to_string(), &mut client);
    }
}

#[test]
fn a_long_reason_is_cut_at_a_character_and_the_fault_has_all_of_it() {
    // An unknown type is likely to be quoted; wherever the cut falls, the reason stays UTF-8 of at
    // most 123 bytes.
    for pad in 0..4 {
        let mut client = registered(&unique("long"));
        client.send(&json!({"type": format!("{}{}", "x".repeat(pad), "é".repeat(300))}));
        expects_4400("a long type", &mut client);
    }
}

#[test]
fn without_a_register_within_ten_seconds_it_closes_4408() {
    let mut client = Client::connect(Bridge::shared(), &unique("silent"));
    let start = Instant::now();
    // A ping is no register.
    client.expects_alive();
    let (code, reason, _) = client.expects_close_within(Duration::from_secs(15));
    let time = start.elapsed();
    assert_eq!(code, 4408, "{reason}");
    assert!(time > Duration::from_secs(9) && time < Duration::from_secs(14), "after {time:?}");
}

#[test]
fn a_silent_client_is_pinged_after_45_s_and_closed_4408_after_90() {
    let mut client = RawClient::connect(Bridge::shared(), &unique("silent"));
    client.send_text(r#"{"type":"register"}"#);
    assert_eq!(client.next_message(SOON)["type"], "registered");
    let start = Instant::now();
    let frame = client.next_frame(Duration::from_secs(60));
    let time = start.elapsed();
    assert_eq!(frame.opcode(), crate::support::PING, "{frame:?}");
    assert!(time > Duration::from_secs(43) && time < Duration::from_secs(50), "after {time:?}");
    let (code, reason) = client.expects_close_within(Duration::from_secs(60));
    let time = start.elapsed();
    assert_eq!(code, 4408, "{reason}");
    assert!(time > Duration::from_secs(88) && time < Duration::from_secs(96), "after {time:?}");
}

#[test]
fn the_newest_connection_wins_and_the_older_is_closed_4409() {
    let bridge = Bridge::shared();
    let id = unique("newest");
    let mut old = registered(&id);
    let mut new = Client::connect(bridge, &id);
    old.expects_alive(); // connected is not yet registered
    new.offers(&["newer"]);
    let (code, reason) = old.expects_close();
    assert_eq!(code, 4409, "{reason}");
    let agent = Agent::new(bridge, &id);
    assert_eq!(agent.lists_tools(), ["newer"]);
    old.vanishes(); // its late end takes nothing away
    new.expects_alive();
    assert_eq!(agent.lists_tools(), ["newer"]);
}

#[test]
fn a_connection_that_is_not_accepted_displaces_nobody() {
    let bridge = Bridge::shared();
    let id = unique("newest");
    let mut old = registered(&id);
    let mut bad = Client::connect(bridge, &id);
    bad.send(&json!({"type": "register", "tools": 5}));
    assert_eq!(bad.expects_close().0, 4400);
    let mut leaving = Client::connect(bridge, &id);
    leaving.expects_alive();
    leaving.leaves();
    old.expects_alive();
    assert_eq!(Agent::new(bridge, &id).lists_tools(), ["echo"]);
}

#[test]
fn a_call_on_a_displaced_connection_ends_and_says_that_it_may_have_run() {
    let bridge = Bridge::shared();
    let id = unique("displaced");
    let mut old = registered(&id);
    let agent = Agent::new(bridge, &id);
    let params = json!({"name": "echo", "arguments": {}});
    let http = agent.request("tools/call", params).sent_to(bridge);
    let call = old.next_call();
    let mut new = registered(&id);
    let words = agent.read_answer(http).tool_error();
    assert!(words.contains("may have run"), "{words}");
    // Never sent twice.
    assert_eq!(new.hears(Duration::from_millis(200)), Heard::Quiet, "call {}", call.id);
}

#[test]
fn a_call_on_a_lost_connection_ends_at_once_and_says_that_it_may_have_run() {
    let bridge = Bridge::shared();
    let id = unique("lost");
    let mut client = registered(&id);
    let agent = Agent::new(bridge, &id);
    let params = json!({"name": "echo", "arguments": {}});
    let http = agent.request("tools/call", params).sent_to(bridge);
    client.next_call();
    let start = Instant::now();
    client.vanishes();
    let words = agent.read_answer(http).tool_error();
    assert!(words.contains("may have run"), "{words}");
    let time = start.elapsed();
    assert!(time < Duration::from_secs(1), "only after {time:?}");
}
