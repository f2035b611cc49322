//! Contract §4: what each message of the channel does when all goes well.
//!
//! The agent's side is used only as far as it takes to see a call arrive and its answer leave.
//! Refusals are in `closes`, definitions in `registers`, bytes and sizes in `frames`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    Agent, Answer, Bridge, Client, Event, Heard, Http, MESSAGE_BYTES_MAX, MODERN, Request, SOON,
    unique,
};

/// A client that offers `echo`, and an agent for it.
fn pair(name: &str) -> (Client, Agent<'static>) {
    let bridge = Bridge::shared();
    let id = unique(name);
    let mut client = Client::connect(bridge, &id);
    client.offers(&["echo"]);
    (client, Agent::new(bridge, &id))
}

fn call(agent: &Agent, arguments: Value) -> Request {
    agent.request("tools/call", json!({"name": "echo", "arguments": arguments}))
}

fn answered(agent: &Agent, http: Http) -> Answer {
    agent.read_answer(http)
}

#[test]
fn registered_says_who_and_how_much_and_how_often() {
    let bridge = Bridge::shared();
    let id = unique("registered");
    let mut client = Client::connect(bridge, &id);
    let registered = client.offers(&["echo"]);
    assert_eq!(
        registered,
        json!({"type": "registered", "clientId": id, "maxMessageBytes": MESSAGE_BYTES_MAX,
            "pingIntervalMs": 30_000, "refused": []})
    );
}

#[test]
fn a_register_may_be_empty() {
    let mut client = Client::connect(Bridge::shared(), &unique("empty"));
    client.registers(json!({}));
    client.expects_alive();
}

#[test]
fn a_ping_is_answered_with_the_exact_text_also_before_the_register() {
    let mut client = Client::connect(Bridge::shared(), &unique("ping"));
    client.expects_alive();
    client.offers(&["echo"]);
    client.expects_alive();
    // Not the exact text, still a ping.
    client.send_text("{ \"type\" : \"ping\", \"n\": 1 }");
    assert_eq!(client.hears(SOON), Heard::Text(r#"{"type":"pong"}"#.to_owned()));
}

#[test]
fn each_register_is_answered_and_replaces_the_one_before() {
    let (mut client, agent) = pair("again");
    assert_eq!(agent.lists_tools(), ["echo"]);
    for offer in [vec!["echo"], vec!["a", "b"], vec![], vec!["b", "a"]] {
        assert_eq!(client.offers(&offer)["type"], "registered");
        assert_eq!(agent.lists_tools(), offer);
    }
}

#[test]
fn unknown_members_and_unknown_notifications_are_ignored() {
    let (mut client, agent) = pair("unknown");
    client.registers(json!({"tools": [], "colour": "blue", "nested": {"type": 5}}));
    client.send(&json!({"type": "notify", "method": "notifications/unheard_of", "params": {}}));
    client.send(&json!({"type": "notify", "method": "tools/call"}));
    client.send(&json!({"type": "notify", "id": "nobody", "method": "notifications/progress",
        "params": {"progress": 1}}));
    client.send(&json!({"type": "ping", "id": 5}));
    assert_eq!(client.hears(SOON), Heard::Text(r#"{"type":"pong"}"#.to_owned()));
    assert!(agent.lists_tools().is_empty());
}

#[test]
fn results_and_errors_that_belong_to_no_call_are_never_fatal() {
    let (mut client, _) = pair("stray");
    client.send(&json!({"type": "result", "id": "nobody", "result": {"content": []}}));
    client.send(&json!({"type": "error", "id": "", "error": {"code": 1, "message": "x"}}));
    client.expects_alive();
}

#[test]
fn a_call_arrives_with_method_params_and_agent_and_its_result_returns() {
    let (mut client, agent) = pair("call");
    let http = call(&agent, json!({"text": "hi"})).sent_to(agent.bridge);
    let call = client.next_call();
    assert_eq!(call.method, "tools/call");
    assert_eq!((call.name(), call.arguments()), ("echo", &json!({"text": "hi"})));
    assert!((1..=64).contains(&call.id.len()), "id of {} bytes: {}", call.id.len(), call.id);
    assert_eq!(call.agent["protocolVersion"], MODERN, "{}", call.text);
    assert_eq!(call.agent["clientInfo"]["name"], "test-agent", "{}", call.text);
    assert_eq!(call.agent["capabilities"], json!({}), "{}", call.text);
    client.replies_text(&call, "hi yourself");
    assert_eq!(answered(&agent, http).text(), "hi yourself");
}

#[test]
fn params_arrive_byte_for_byte() {
    let (mut client, agent) = pair("verbatim");
    let odd = r#"{"z":1e400, "a":9007199254740993,"s":"\/\ud83d\ude00é","n":-0.0,"x":{"":[ ]}}"#;
    let mut request = call(&agent, json!("HERE"));
    let body = String::from_utf8(request.body.take().expect("a body")).expect("UTF-8");
    let http = request.body(body.replace(r#""HERE""#, odd)).sent_to(agent.bridge);
    let call = client.next_call();
    assert!(call.text.contains(odd), "{}", call.text);
    client.replies_text(&call, "ok");
    assert_eq!(answered(&agent, http).text(), "ok");
}

#[test]
fn a_result_returns_byte_for_byte() {
    let (mut client, agent) = pair("verbatim");
    let agent = agent.speaking(crate::support::Era::Legacy);
    let odd = concat!(
        r#"{"structuredContent":{"z":1e400,"a":9007199254740993,"a":1,"s":"\/\ud83d\ude00é"},"#,
        r#""content":[ ],"isError":false}"#
    );
    let http = call(&agent, json!({})).sent_to(agent.bridge);
    let call = client.next_call();
    client.replies_raw(&call, odd);
    let answer = answered(&agent, http);
    assert!(answer.records[0].contains(odd), "{answer:?}");
    assert!(!answer.streamed, "{answer:?}");
}

#[test]
fn a_jsonrpc_error_returns_with_code_message_and_data() {
    let (mut client, agent) = pair("error");
    let http = call(&agent, json!({})).sent_to(agent.bridge);
    let call = client.next_call();
    let error = json!({"code": -31999, "message": "not today", "data": {"why": [1, null]}});
    client.fails(&call, error.clone());
    let answer = answered(&agent, http);
    assert_eq!(answer.status(), 200, "{answer:?}");
    assert_eq!(Value::Object(answer.error()), error);
}

#[test]
fn only_the_first_end_of_a_call_counts() {
    let (mut client, agent) = pair("twice");
    let http = call(&agent, json!({})).sent_to(agent.bridge);
    let call = client.next_call();
    client.replies_text(&call, "first");
    client.replies_text(&call, "second");
    client.fails(&call, json!({"code": 1, "message": "third"}));
    client.notifies(Some(&call), "notifications/progress", json!({"progress": 1}));
    assert_eq!(answered(&agent, http).text(), "first");
    client.expects_alive();
}

#[test]
fn calls_run_side_by_side_and_end_in_any_order() {
    let (mut client, agent) = pair("order");
    let send = |n: u64| call(&agent, json!({ "n": n })).sent_to(agent.bridge);
    let sent: Vec<Http> = (0..8).map(send).collect();
    let mut calls: Vec<_> = (0..8).map(|_| client.next_call()).collect();
    let mut ids: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 8, "IDs are unique: {ids:?}");
    calls.reverse();
    for call in &calls {
        client.replies_text(call, &call.arguments()["n"].to_string());
    }
    for (n, http) in sent.into_iter().enumerate() {
        assert_eq!(answered(&agent, http).text(), n.to_string());
    }
}

#[test]
fn an_agent_that_hangs_up_cancels_its_call() {
    let (mut client, agent) = pair("hang-up");
    let http = call(&agent, json!({})).sent_to(agent.bridge);
    let call = client.next_call();
    drop(http);
    let reason = client.expects_cancel(&call, Duration::from_secs(2));
    assert!(!reason.is_empty());
    client.notifies(Some(&call), "notifications/progress", json!({"progress": 1}));
    client.replies_text(&call, "too late");
    client.expects_alive();
}

#[test]
fn progress_reaches_the_agent_under_its_own_token_and_only_then() {
    let (mut client, agent) = pair("progress");
    for token in [json!(0), json!("my token"), Value::Null] {
        let mut params = json!({"name": "echo", "arguments": {}});
        if !token.is_null() {
            params["_meta"] = json!({"progressToken": token});
        }
        let http = agent.request("tools/call", params).sent_to(agent.bridge);
        let call = client.next_call();
        let said = json!({"progress": 1, "total": 2, "message": "half", "progressToken": "fake"});
        client.notifies(Some(&call), "notifications/progress", said);
        client.replies_text(&call, "done");
        let answer = answered(&agent, http);
        assert_eq!(answer.response()["result"]["content"][0]["text"], "done", "{answer:?}");
        let notifications = answer.notifications();
        if token.is_null() {
            assert!(notifications.is_empty(), "{notifications:?}");
            continue;
        }
        assert!(answer.streamed, "{answer:?}");
        assert_eq!(notifications.len(), 1, "{notifications:?}");
        let params = &notifications[0]["params"];
        assert_eq!(notifications[0]["method"], "notifications/progress");
        assert_eq!(params["progressToken"], token);
        assert_eq!((&params["progress"], &params["message"]), (&json!(1), &json!("half")));
    }
}

#[test]
fn log_messages_reach_an_agent_that_asked_for_their_level() {
    let (mut client, agent) = pair("log");
    for (level, expected) in [(None, vec![]), (Some("warning"), vec!["warning", "error"])] {
        let mut params = json!({"name": "echo", "arguments": {}});
        if let Some(level) = level {
            params["_meta"] = json!({"io.modelcontextprotocol/logLevel": level});
        }
        let http = agent.request("tools/call", params).sent_to(agent.bridge);
        let call = client.next_call();
        for level in ["debug", "warning", "info", "error"] {
            let params = json!({"level": level, "data": "x"});
            client.notifies(Some(&call), "notifications/message", params);
        }
        client.replies_text(&call, "done");
        let answer = answered(&agent, http);
        let levels: Vec<Value> =
            answer.notifications().iter().map(|n| n["params"]["level"].clone()).collect();
        assert_eq!(levels, expected, "{level:?}: {answer:?}");
    }
}

#[test]
fn an_updated_resource_is_told_to_those_who_asked_for_it() {
    let bridge = Bridge::shared();
    let id = unique("updated");
    let mut client = Client::connect(bridge, &id);
    let resources = json!([{"uri": "test://a", "name": "a"}, {"uri": "test://b", "name": "b"}]);
    client.registers(json!({"resources": resources, "subscribe": true}));
    let agent = Agent::new(bridge, &id);
    let (mut events, _) = agent.listens(json!({"resourceSubscriptions": ["test://a"]}));
    for uri in ["test://b", "test://a"] {
        client.notifies(None, "notifications/resources/updated", json!({ "uri": uri }));
    }
    let message = events.next_message(SOON);
    assert_eq!(message["method"], "notifications/resources/updated", "{message}");
    assert_eq!(message["params"]["uri"], "test://a", "{message}");
    assert!(matches!(events.next(Duration::from_millis(300)), Event::Quiet | Event::Comment(_)));
}

#[test]
fn a_client_that_closes_in_order_is_answered_in_order() {
    let (mut client, _) = pair("close");
    client.socket.close(None).expect("the connection takes a close");
    match client.hears(SOON) {
        Heard::Close(code, _) => assert!(code == 1005 || code == 1000, "{code}"),
        other => panic!("expected the close to be answered, got {other:?}"),
    }
    let end = client.hears(SOON);
    let Heard::Gone(how) = &end else { panic!("expected the end, got {end:?}") };
    assert!(how.contains("closed normally"), "{how}");
}
