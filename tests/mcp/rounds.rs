//! `input_required` (SPEC §5.4): passed on in 2026 when the agent declared what it asks for, turned
//! into requests of the 2025 era for an agent that can answer them.

use serde_json::Value;

use crate::extra::{ADD, Ask, Desk, INITIALIZE, Stream, register};

const ELICIT: &str = r#"{"resultType":"input_required","inputRequests":{"name":{"method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{"n":{"type":"string"}}}}}},"requestState":"s\/1"}"#;

#[test]
fn in_2026_it_passes_when_declared_and_is_an_error_otherwise() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    for (capable, passes) in
        [(r#"{"elicitation":{}}"#, true), ("{}", false), (r#"{"sampling":{}}"#, false)]
    {
        let ask = Ask::new_capable("1", "tools/call", capable, "", r#""name":"add""#)
            .header("Mcp-Name", "add");
        let running = desk.begin(&ask);
        let call = client.call();
        client.answers(&call.id, ELICIT);
        let answer = running.finish();
        if passes {
            assert_eq!(answer.status, 200, "{capable}: {answer}");
            let requests = answer.raw_path(&["result", "inputRequests"]).unwrap_or_default();
            assert!(ELICIT.contains(&requests) && !requests.is_empty(), "verbatim: {answer}");
            let state = answer.raw_path(&["result", "requestState"]);
            assert_eq!(state.as_deref(), Some(r#""s\/1""#), "{answer}");
            assert_eq!(answer.json()["result"]["resultType"], "input_required", "{answer}");
        } else {
            assert_eq!((answer.status, answer.code()), (400, Some(-32021)), "{capable}: {answer}");
            let data = &answer.json()["error"]["data"]["requiredCapabilities"];
            assert!(data["elicitation"].is_object(), "{capable}: {answer}");
        }
    }
}

#[test]
fn a_completion_cannot_ask_back() {
    let desk = Desk::open();
    let mut client =
        desk.client(r#"{"type":"register","completions":true,"prompts":[{"name":"p"}]}"#);
    let params = r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}"#;
    let running = desk.begin(&Ask::old("1", "completion/complete", params));
    let call = client.call();
    client.answers(&call.id, ELICIT);
    let answer = running.finish();
    assert_eq!(answer.code(), Some(-32603), "{answer}");
}

/// A session of an agent that declared these capabilities; its ID.
fn session(desk: &Desk, capabilities: &str) -> String {
    let params =
        INITIALIZE.replace(r#""capabilities":{}"#, &format!(r#""capabilities":{capabilities}"#));
    let answer = desk.send(&Ask::old("0", "initialize", &params));
    answer.header("mcp-session-id").unwrap_or_else(|| panic!("a session: {answer}")).to_owned()
}

fn request(stream: &mut Stream) -> Value {
    let event = stream.event(3.0);
    let message: Value = serde_json::from_str(&event).expect("JSON");
    assert!(message["method"].is_string() && !message["id"].is_null(), "a request: {event}");
    message
}

#[test]
fn in_2025_the_agent_is_asked_and_the_client_called_again() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let session = session(&desk, r#"{"elicitation":{}}"#);
    let ask = Ask::call_old("4", "add", r#"{"a":1.50}"#).session(&session);
    let mut running = desk.begin(&ask);
    let call = client.call();
    client.answers(&call.id, ELICIT);
    let asked = request(&mut running);
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    assert_eq!(asked["params"]["message"], "Who?", "{asked}");

    // A response under the same ID for another client ID is accepted and taken for nobody.
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"action":"accept","content":{{"n":"X"}}}}}}"#,
        asked["id"]
    );
    let response = Ask::post(&body).header("MCP-Protocol-Version", "2025-11-25").session(&session);
    assert_eq!(desk.another().send(&response).status, 202);
    client.hears_nothing(0.2);

    assert_eq!(desk.send(&response).status, 202);
    let again = client.call();
    assert_eq!(again.method, "tools/call");
    assert!(again.params.contains(r#""arguments":{"a":1.50}"#), "as before: {again:?}");
    let params: Value = serde_json::from_str(&again.params).expect("JSON");
    assert_eq!(params["inputResponses"]["name"]["action"], "accept", "{again:?}");
    assert_eq!(params["inputResponses"]["name"]["content"]["n"], "X", "{again:?}");
    assert_eq!(params["requestState"], "s/1", "{again:?}");
    // Said twice is no error, and no second call.
    assert_eq!(desk.send(&response).status, 202);
    client.hears_nothing(0.2);
    client.answers(&again.id, r#"{"content":[],"done":1}"#);
    let answer = running.finish();
    assert_eq!(answer.only_json()["result"]["done"], 1, "{answer}");
    assert_eq!(answer.only_json()["id"], 4, "{answer}");
}

#[test]
fn in_2025_an_agent_that_cannot_answer_gets_a_tool_error() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let none = session(&desk, "{}");
    let other = session(&desk, r#"{"sampling":{}}"#);
    let able = session(&desk, r#"{"elicitation":{}}"#);
    let rows = [
        ("no session", Ask::call_old("1", "add", "{}")),
        ("nothing declared", Ask::call_old("1", "add", "{}").session(&none)),
        ("something else declared", Ask::call_old("1", "add", "{}").session(&other)),
        (
            "no event stream",
            Ask::call_old("1", "add", "{}").session(&able).header("Accept", "application/json"),
        ),
    ];
    for (name, ask) in rows {
        let running = desk.begin(&ask);
        let call = client.call();
        client.answers(&call.id, ELICIT);
        let answer = running.finish();
        assert_eq!(answer.status, 200, "{name}: {answer}");
        assert!(!answer.tool_error().is_empty(), "{name}: {answer}");
    }
    client.is_alive();
}

#[test]
fn request_state_alone_is_the_next_round_at_once_up_to_ten() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let running = desk.begin(&Ask::call_old("1", "add", "{}"));
    let mut rounds = 0;
    loop {
        match client.hears(1.0) {
            crate::support::Heard::Text(text) if text.contains(r#""type":"call""#) => {
                rounds += 1;
                assert!(rounds <= 12, "no end of rounds: {text}");
                let id = crate::extra::member(&text, "id").expect("an ID");
                client.says(&format!(
                    r#"{{"type":"result","id":{id},"result":{{"resultType":"input_required","requestState":"{rounds}"}}}}"#
                ));
            }
            crate::support::Heard::Quiet => break,
            other => panic!("expected calls and then nothing, got {other:?}"),
        }
    }
    assert!((10..=11).contains(&rounds), "ten rounds, not {rounds}");
    let answer = running.finish();
    assert!(!answer.tool_error().is_empty(), "{answer}");
}

#[test]
fn in_2025_an_agent_that_hangs_up_while_it_is_asked_is_forgotten() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let session = session(&desk, r#"{"elicitation":{}}"#);
    let mut running = desk.begin(&Ask::call_old("4", "add", "{}").session(&session));
    let call = client.call();
    client.answers(&call.id, ELICIT);
    let asked = request(&mut running);
    drop(running);
    // The client has answered, so it runs nothing that could be cancelled.
    client.hears_nothing(0.5);
    let body =
        format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"action":"accept"}}}}"#, asked["id"]);
    let response = Ask::post(&body).header("MCP-Protocol-Version", "2025-11-25").session(&session);
    assert_eq!(desk.send(&response).status, 202);
    client.hears_nothing(0.5);
    client.is_alive();
}

const ASK_TWO: &str = r#"{"resultType":"input_required","inputRequests":{"name":{"method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object","properties":{}}}},"dirs":{"method":"roots/list"}}}"#;

/// Answers a request of the bridge; `member` is `"result":…` or `"error":…`.
fn responds(desk: &Desk, session: &str, asked: &Value, member: &str) {
    let body = format!(r#"{{"jsonrpc":"2.0","id":{},{member}}}"#, asked["id"]);
    let response = Ask::post(&body).header("MCP-Protocol-Version", "2025-11-25").session(session);
    assert_eq!(desk.send(&response).status, 202, "{member}");
}

#[test]
fn in_2025_an_answer_that_is_none_ends_the_call_and_takes_the_other_question_back() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let session = session(&desk, r#"{"elicitation":{},"roots":{}}"#);
    for member in [
        r#""error":{"code":-1,"message":"no"}"#,
        r#""error":{"code":-32601,"message":"Method not found","data":{"x":1}}"#,
        r#""result":5"#,
        r#""result":null"#,
        r#""result":"{}""#,
        r#""result":[]"#,
    ] {
        for first in [0, 1] {
            let mut running = desk.begin(&Ask::call_old("4", "add", "{}").session(&session));
            let call = client.call();
            client.answers(&call.id, ASK_TWO);
            let asked = [request(&mut running), request(&mut running)];
            responds(&desk, &session, &asked[first], member);
            let taken_back: Value = serde_json::from_str(&running.event(3.0)).expect("JSON");
            assert_eq!(taken_back["method"], "notifications/cancelled", "{member}: {taken_back}");
            let open = &asked[1 - first]["id"];
            assert_eq!(taken_back["params"]["requestId"], *open, "{member}: {taken_back}");
            let answer = running.finish();
            assert_eq!(answer.only_json()["id"], 4, "{member}: {answer}");
            let what = ["elicitation", "roots"][first];
            assert!(answer.tool_error().contains(what), "{member}: {answer}");
            // The other one's answer is too late, and is nobody's.
            responds(&desk, &session, &asked[1 - first], r#""result":{"action":"accept"}"#);
        }
    }
    client.hears_nothing(0.2);
    client.is_alive();
}

#[test]
fn in_2025_nothing_is_taken_back_that_was_answered() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let session = session(&desk, r#"{"elicitation":{},"roots":{}}"#);
    let mut running = desk.begin(&Ask::call_old("4", "add", "{}").session(&session));
    let call = client.call();
    client.answers(&call.id, ASK_TWO);
    let asked = [request(&mut running), request(&mut running)];
    responds(&desk, &session, &asked[1], r#""result":{"roots":[]}"#);
    responds(&desk, &session, &asked[0], r#""error":{"code":-1,"message":"no"}"#);
    let answer = running.finish();
    assert_eq!(answer.messages().len(), 1, "only the answer: {answer}");
    assert!(answer.tool_error().contains("elicitation"), "{answer}");
}
