//! What happens between a bridge and a server that does what few do.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::connected::{Connected, by_hand};
use crate::support::{Agent, Answer, Bridge, Era, SOON, eventually};

fn everything() -> Value {
    json!({"elicitation": {"form": {}}, "sampling": {}, "roots": {}})
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

/// Answers every round of a 2026-era call with what `given` has for its questions; the last answer.
fn in_rounds(agent: &Agent, tool: &str, given: impl Fn(&Value) -> Value) -> (Answer, usize) {
    let mut params = json!({"name": tool, "arguments": {}});
    for round in 0.. {
        let answer = agent.ask("tools/call", params.clone());
        let result = answer.result();
        if result["resultType"] != "input_required" {
            return (answer, round);
        }
        let mut responses = json!({});
        for (key, request) in result["inputRequests"].as_object().expect("questions") {
            responses[key] = given(request);
        }
        params["inputResponses"] = responses;
        params["requestState"] = result["requestState"].clone();
    }
    unreachable!("the loop has no end")
}

fn usual(request: &Value) -> Value {
    match request["method"].as_str() {
        Some("elicitation/create") => json!({"action": "accept", "content": {"name": "Ada"}}),
        Some("sampling/createMessage") => {
            json!({"role": "assistant", "content": {"type": "text", "text": "ho"}, "model": "m"})
        }
        Some("roots/list") => json!({"roots": [{"uri": "file:///a"}]}),
        other => panic!("{other:?}"),
    }
}

#[test]
fn everything_it_offers_is_offered_and_every_kind_of_call_goes_through() {
    let bridge = Bridge::shared();
    let connected = Connected::online(bridge, &by_hand(&[]));
    for era in [Era::Legacy, Era::Modern] {
        let agent = Agent::new(bridge, &connected.client_id).speaking(era);
        let list = agent.ask("tools/list", json!({}));
        let text = &list.records[0];
        assert!(
            text.contains(r#"{"name": "echo", "inputSchema": {"type": "object"}, "x-order": 1.5}"#),
            "{text}"
        );
        assert_eq!(agent.lists_tools().len(), 14, "all three pages");
        let answer = agent.call("echo", json!({"text": "hé\n\u{2028}"}));
        assert_eq!(answer.text(), "hé\n\u{2028}");
        assert!(answer.records[0].contains("9007199254740993"), "{answer:?}");
        let got = agent.ask("prompts/get", json!({"name": "greet", "arguments": {"who": "you"}}));
        assert_eq!(got.result()["messages"][0]["content"]["text"], "Hello you");
        for uri in ["test://one", "test://any/7"] {
            let read = agent.ask("resources/read", json!({"uri": uri})).result();
            assert_eq!(read["contents"], json!([{"uri": uri, "text": "content"}]));
        }
        let reference = json!({"type": "ref/prompt", "name": "greet"});
        let complete = json!({"ref": reference, "argument": {"name": "who", "value": "A"}});
        let completed = agent.ask("completion/complete", complete).result();
        assert_eq!(completed["completion"]["values"], json!(["A!"]));
        let error = agent.call("fail", json!({})).error();
        assert_eq!((&error["code"], &error["data"]), (&json!(-32099), &json!({"a": [1]})));
        let templates = agent.ask("resources/templates/list", json!({})).result();
        assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "test://any/{n}");
    }
    let mut agent = Agent::new(bridge, &connected.client_id);
    let initialized = agent.initialize();
    assert_eq!(
        initialized["serverInfo"],
        json!({"name": "by-hand", "version": "1.5", "title": "By hand"})
    );
    assert_eq!(initialized["instructions"], "Handle with care.");
    connected.await_log("initialized by clientmcp for ['elicitation', 'roots', 'sampling']");
}

#[test]
fn progress_and_log_messages_reach_the_agent_that_asked() {
    let bridge = Bridge::shared();
    let connected = Connected::online(bridge, &by_hand(&[]));
    connected.await_log("logging/setLevel debug");
    let agent = Agent::new(bridge, &connected.client_id);
    let params = json!({"name": "progress", "arguments": {}, "_meta": {"progressToken": "mine"}});
    let answer = agent.ask("tools/call", params);
    let notes = answer.notifications();
    assert_eq!(notes.len(), 3, "{answer:?}");
    for (note, step) in notes.iter().zip(1..) {
        let params = json!({"progressToken": "mine", "progress": step, "total": 3});
        assert_eq!(note["params"], params);
    }
    let seen = parsed(&answer.text());
    assert!(seen["progressToken"].is_u64(), "a token of our own, not the agent's: {seen}");
    let level = json!({"io.modelcontextprotocol/logLevel": "info"});
    let answer = agent.ask("tools/call", json!({"name": "log", "arguments": {}, "_meta": level}));
    let levels: Vec<_> =
        answer.notifications().iter().map(|n| n["params"]["data"].clone()).collect();
    assert_eq!(levels, ["info", "error"], "{answer:?}");
    assert_eq!(agent.call("log", json!({})).notifications(), [] as [Value; 0]);
}

#[test]
fn a_changed_list_and_a_changed_resource_are_told() {
    let bridge = Bridge::shared();
    let connected = Connected::online(bridge, &by_hand(&[]));
    connected.await_log("resources/subscribe test://one");
    let agent = Agent::new(bridge, &connected.client_id);
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["test://one"]});
    let (mut events, _) = agent.listens(filter);
    agent.calls("touch", json!({}));
    let note = events.next_message(SOON);
    assert_eq!(note["method"], "notifications/resources/updated");
    assert_eq!(note["params"]["uri"], "test://one");
    agent.calls("grow", json!({}));
    let note = events.next_message(SOON);
    assert_eq!(note["method"], "notifications/tools/list_changed");
    assert_eq!(agent.lists_tools().last().map(String::as_str), Some("grown_14"));
    assert_eq!(connected.log().matches(" online").count(), 2, "one register for each list");
}

#[test]
fn a_server_that_dies_in_a_call_ends_it_with_words_and_comes_back() {
    let bridge = Bridge::shared();
    let connected = Connected::online(bridge, &by_hand(&[]));
    let agent = Agent::new(bridge, &connected.client_id);
    let words = agent.call("die", json!({})).tool_error();
    assert!(words.contains("exit status: 3") && words.contains("may have run"), "{words}");
    // This one waits for the next start.
    assert_eq!(agent.call("echo", json!({"text": "again"})).text(), "again");
    connected.await_log("exit status: 3");
    assert_eq!(connected.log().matches(" online").count(), 1, "the bridge noticed nothing");
}

#[test]
fn noise_on_stdout_and_an_answer_that_is_too_large_cost_no_other_call() {
    let bridge = Bridge::shared();
    let connected = Connected::online(bridge, &by_hand(&[]));
    let agent = Agent::new(bridge, &connected.client_id);
    assert_eq!(agent.call("noise", json!({})).text(), "after the noise");
    let words = agent.call("huge", json!({})).tool_error();
    assert!(words.contains("too large"), "{words}");
    assert_eq!(agent.call("echo", json!({"text": "still"})).text(), "still");
    assert!(!connected.log().contains("started again"), "{}", connected.log());
}

#[test]
fn a_call_that_is_given_up_is_cancelled_at_the_server() {
    let bridge = Bridge::shared();
    let connected = Connected::online(bridge, &by_hand(&[]));
    let agent = Agent::new(bridge, &connected.client_id);
    let slow = agent.request("tools/call", json!({"name": "slow", "arguments": {"seconds": 60}}));
    let sent = slow.sent_to(bridge);
    std::thread::sleep(Duration::from_millis(300));
    drop(sent);
    connected.await_log("cancelled because");
    assert_eq!(agent.call("echo", json!({"text": "next"})).text(), "next");
}

#[test]
fn questions_of_a_server_of_2025_are_rounds_for_an_agent_of_2026() {
    let bridge = Bridge::shared();
    let connected = Connected::online(bridge, &by_hand(&[]));
    let agent = Agent::new(bridge, &connected.client_id).declaring(everything());
    let (answer, rounds) = in_rounds(&agent, "ask", usual);
    assert_eq!(parsed(&answer.text()), json!({"action": "accept", "content": {"name": "Ada"}}));
    assert_eq!(rounds, 1);
    let (answer, rounds) = in_rounds(&agent, "ask_twice", usual);
    assert_eq!(parsed(&answer.text())[0]["content"]["text"], "ho");
    assert_eq!(parsed(&answer.text())[1], json!({"roots": [{"uri": "file:///a"}]}));
    assert_eq!(rounds, 2);
    let (answer, _) = in_rounds(&agent, "ask_both", usual);
    assert_eq!(parsed(&answer.text())[0]["action"], "accept");
    assert!(parsed(&answer.text())[1]["roots"].is_array());
    // A guessed state and a used one are refused.
    let repeated = json!({"name": "ask", "arguments": {}, "requestState": "0123456789abcdef"});
    assert_eq!(agent.ask("tools/call", repeated).refusal().1, -32602);
}

#[test]
fn questions_of_a_server_of_2025_are_requests_for_an_agent_of_2025() {
    let bridge = Bridge::shared();
    let connected = Connected::online(bridge, &by_hand(&[]));
    let mut agent = Agent::new(bridge, &connected.client_id).declaring(everything());
    agent.initialize();
    let request = agent.request("tools/call", json!({"name": "ask_twice", "arguments": {}}));
    let mut events = agent.stream(&request);
    let mut asked = Vec::new();
    let response = loop {
        let message = events.next_message(SOON);
        let Some(method) = message["method"].as_str() else { break message };
        asked.push(method.to_owned());
        let response = json!({"jsonrpc": "2.0", "id": message["id"], "result": usual(&message)});
        let posted = agent.post(&response).with("MCP-Protocol-Version", "2025-11-25");
        let session = agent.session.as_deref().expect("a session");
        assert_eq!(posted.with("Mcp-Session-Id", session).to(bridge).status, 202);
    };
    assert_eq!(asked, ["sampling/createMessage", "roots/list"]);
    let text = response["result"]["content"][0]["text"].as_str().expect("text");
    assert_eq!(parsed(text)[0]["content"]["text"], "ho");
}

#[test]
fn an_agent_that_cannot_answer_is_not_asked() {
    let bridge = Bridge::shared();
    let connected = Connected::online(bridge, &by_hand(&[]));
    let agent = Agent::new(bridge, &connected.client_id);
    let error = parsed(&agent.call("ask", json!({})).text());
    assert_eq!(error["code"], -32601);
    assert_eq!(error["message"], "The agent has no elicitation.");
}

#[test]
fn a_server_of_2026_is_offered_and_asks_by_itself() {
    let bridge = Bridge::shared();
    let connected = Connected::online(bridge, &by_hand(&["--2026"]));
    connected.await_log(r#"listening for {\"toolsListChanged\": true"#);
    let agent = Agent::new(bridge, &connected.client_id).declaring(everything());
    let (answer, rounds) = in_rounds(&agent, "ask", usual);
    let seen = parsed(&answer.text());
    assert_eq!(seen["state"], "mine", "its own state, untouched");
    assert_eq!(seen["given"]["k"]["action"], "accept");
    assert_eq!(rounds, 1);
    let params = json!({"name": "progress", "arguments": {}, "_meta": {"progressToken": 5}});
    let answer = agent.ask("tools/call", params);
    assert_eq!(answer.notifications().len(), 3);
    let meta = parsed(&answer.text());
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "test-agent");
    let legacy = Agent::new(bridge, &connected.client_id).speaking(Era::Legacy);
    let meta = parsed(&legacy.call("progress", json!({})).text());
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    agent.calls("grow", json!({}));
    eventually("the new tool", SOON, || (agent.lists_tools().len() == 15).then_some(()));
}

#[test]
fn servers_that_do_not_take_the_probe_well_come_online_all_the_same() {
    let bridge = Bridge::shared();
    for flags in [&["--silent-probe"][..], &["--die-on-probe"], &["--slow-start", "4"]] {
        let started = Instant::now();
        let connected = Connected::start(bridge, &["--name", "renamed"], &by_hand(flags));
        connected.await_log(" online");
        assert!(started.elapsed() < Duration::from_secs(20), "{flags:?}");
        let mut agent = Agent::new(bridge, &connected.client_id);
        assert_eq!(agent.initialize()["serverInfo"]["name"], "renamed", "{flags:?}");
        assert_eq!(agent.call("echo", json!({"text": "up"})).text(), "up", "{flags:?}");
    }
}
