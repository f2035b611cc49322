//! Our JSON in the types of others: what the bridge emits, read and written again by rmcp's models.
//!
//! A kind of message passes when rmcp takes it for that kind and gives back the same JSON. What
//! rmcp is known to drop is named beside the kind, with the reason; anything else that is lost,
//! changed or added fails. Only the wire is known here. To add a kind: make the bridge say it, and
//! hand it to [`result`], [`notification`] or [`error`].

#[path = "support/rich.rs"]
mod rich;
mod support;

use std::time::Duration;

use rich::{everything, implementation, offer, questions};
use rmcp::model::{
    CallToolResult, ClientCapabilities, CompleteResult, DiscoverResult, EmptyResult,
    GetPromptResult, Implementation, InitializeResult, InputRequiredResult, JsonRpcError,
    JsonRpcNotification, JsonRpcRequest, JsonRpcResponse, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, ProtocolVersion,
    ReadResourceResult, ServerJsonRpcMessage, ServerNotification, ServerRequest,
    SubscriptionsListenResult,
};
use rustix::process::Signal;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use support::{Agent, App, Bridge, Era, Event, Events, Reply, SOON, unique};

/// `execution` is of 2025-11-25 only, and rmcp has one `Tool` for both eras: that of 2026-07-28.
const TOOL_LOSSES: &[&str] = &["result.tools[5].execution"];
const NOTHING: &[&str] = &[];

#[test]
fn results_of_the_2025_era_survive_rmcp() {
    let bridge = Bridge::shared();
    let app = everything(bridge, "models-2025");
    let mut agent = Agent::new(bridge, &app.client_id).speaking(Era::Legacy);
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {"roots": {}},
        "clientInfo": implementation("agent")});
    let hello = agent.legacy("initialize", hello);
    result::<InitializeResult>("InitializeResult", &hello.response(), NOTHING);
    let offered = offer();
    assert_eq!(hello.result()["serverInfo"], offered["server"]);
    assert_eq!(hello.result()["instructions"], offered["instructions"]);
    agent.session = hello.head.header("mcp-session-id").map(str::to_owned);

    let uri = json!({"uri": "test://one"});
    for (method, params) in [
        ("ping", Value::Null),
        ("logging/setLevel", json!({"level": "warning"})),
        ("resources/subscribe", uri.clone()),
        ("resources/unsubscribe", uri),
    ] {
        let answer = agent.legacy(method, params).response();
        result::<EmptyResult>("EmptyResult", &answer, NOTHING);
    }
    lists_and_replies(&agent);
    let told = told_about_agent(&app);
    assert_eq!(told["protocolVersion"], "2025-11-25", "{told}");
}

#[test]
fn results_of_the_2026_era_survive_rmcp() {
    let bridge = Bridge::shared();
    let app = everything(bridge, "models-2026");
    let capabilities = json!({"elicitation": {}, "sampling": {}, "roots": {}});
    let agent = Agent::new(bridge, &app.client_id).declaring(capabilities.clone());
    let found = agent.modern("server/discover", json!({})).response();
    result::<DiscoverResult>("DiscoverResult", &found, NOTHING);
    let (found, offered) = (&found["result"], offer());
    assert_eq!(found["_meta"]["io.modelcontextprotocol/serverInfo"], offered["server"]);
    assert_eq!(found["instructions"], offered["instructions"]);
    lists_and_replies(&agent);

    // What the bridge tells the client about the agent is MCP's own types as well.
    let told = told_about_agent(&app);
    assert_eq!(told["protocolVersion"], "2026-07-28", "{told}");
    assert_eq!(told["capabilities"], capabilities, "{told}");
    same::<Implementation>("agent.clientInfo", &told["clientInfo"], NOTHING);
    same::<ClientCapabilities>("agent.capabilities", &told["capabilities"], NOTHING);
}

/// Everything that both eras list or forward.
fn lists_and_replies(agent: &Agent) {
    let (none, offered) = (|| json!({}), offer());
    let list = |method: &str, member: &str| {
        let answer = agent.ask(method, none()).response();
        assert_eq!(answer["result"][member], offered[member], "as it was offered");
        answer
    };
    let tools = list("tools/list", "tools");
    result::<ListToolsResult>("ListToolsResult", &tools, TOOL_LOSSES);
    let prompts = list("prompts/list", "prompts");
    result::<ListPromptsResult>("ListPromptsResult", &prompts, NOTHING);
    let resources = list("resources/list", "resources");
    result::<ListResourcesResult>("ListResourcesResult", &resources, NOTHING);
    let templates = list("resources/templates/list", "resourceTemplates");
    let name = "ListResourceTemplatesResult";
    result::<ListResourceTemplatesResult>(name, &templates, NOTHING);

    let called = agent.call("echo", json!({"text": "hé✓"})).response();
    result::<CallToolResult>("CallToolResult", &called, NOTHING);
    let called = agent.call("rich", none()).response();
    result::<CallToolResult>("CallToolResult", &called, NOTHING);
    let got = agent.ask("prompts/get", json!({"name": "greet"})).response();
    result::<GetPromptResult>("GetPromptResult", &got, NOTHING);
    let read = agent.ask("resources/read", json!({"uri": "test://one"})).response();
    result::<ReadResourceResult>("ReadResourceResult", &read, NOTHING);
    let completed = json!({"ref": {"type": "ref/prompt", "name": "greet"},
        "argument": {"name": "who", "value": "w"}});
    let completed = agent.ask("completion/complete", completed).response();
    result::<CompleteResult>("CompleteResult", &completed, NOTHING);
}

#[test]
fn what_the_bridge_says_for_a_lost_client_survives_rmcp() {
    let bridge = Bridge::shared();
    for era in [Era::Legacy, Era::Modern] {
        let app = App::usual().on("prompts/get", |_, _| Reply::Never);
        let app = app.offering("prompts", json!([{"name": "greet"}]));
        let app = app.start(bridge, &unique("models-lost"));
        let agent = Agent::new(bridge, &app.client_id).speaking(era);
        let call = json!({"name": "slow", "arguments": {"seconds": 60}});
        let call = agent.request("tools/call", call).sent_to(bridge);
        let prompt = agent.request("prompts/get", json!({"name": "greet"})).sent_to(bridge);
        app.awaits_calls(2, SOON);
        app.vanishes();
        // That the call may have run is for the model to read; of a prompt nobody tells the model.
        let called = agent.read_answer(call);
        assert!(called.tool_error().contains("may have run"), "{called:?}");
        result::<CallToolResult>("CallToolResult", &called.response(), NOTHING);
        let got = agent.read_answer(prompt);
        assert_eq!(got.refusal(), (200, -32603), "{got:?}");
        error(&got.response());
    }
}

#[test]
fn errors_survive_rmcp() {
    let bridge = Bridge::shared();
    let app = everything(bridge, "models-errors");
    let agent = Agent::new(bridge, &app.client_id);
    let call = |name: &str| agent.modern_request("tools/call", json!({"name": name}));
    let version = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}});
    let version = agent.modern_request("tools/list", version);
    let version = version.set("MCP-Protocol-Version", "2099-01-01");
    let broken = agent.post(&json!({})).body("{");
    let legacy = agent.legacy_request("no/such/method", json!({}));
    let rows = [
        (-32020, 400, call("echo").set("Mcp-Name", "other")),
        (-32021, 400, call("asks-for-sampling")),
        (-32022, 400, version),
        (-32601, 404, agent.modern_request("no/such/method", json!({}))),
        (-32601, 200, legacy),
        (-32602, 200, call("no_such_tool")),
        (-32600, 400, agent.post(&json!({"jsonrpc": "2.0"}))),
        (-32600, 401, agent.post(&json!({})).without("Authorization")),
        (-32700, 400, broken),
    ];
    for (code, status, request) in rows {
        let answer = agent.answer(&request);
        assert_eq!(answer.refusal(), (status, code), "{answer:?}");
        let message = answer.response();
        error(&message);
        let data = &message["error"]["data"];
        match code {
            -32021 => {
                let required = json!({"requiredCapabilities": {"sampling": {}}});
                assert_eq!(*data, required);
                same::<ClientCapabilities>("data", &data["requiredCapabilities"], NOTHING);
            }
            -32022 => {
                // rmcp picks its next attempt from this list.
                same::<Vec<ProtocolVersion>>("data.supported", &data["supported"], NOTHING);
                assert_eq!(*data, json!({"supported": ["2026-07-28"], "requested": "2099-01-01"}));
            }
            _ => {}
        }
    }
}

#[test]
fn notifications_of_the_2025_era_survive_rmcp() {
    let bridge = Bridge::shared();
    let app = everything(bridge, "models-get");
    let mut agent = Agent::new(bridge, &app.client_id);
    agent.initialize();
    let mut stream = agent.opens_stream();
    agent.legacy("resources/subscribe", json!({"uri": "test://one"})).result();
    changes(&app, &mut stream);
}

#[test]
fn notifications_of_the_2026_era_survive_rmcp() {
    let bridge = Bridge::shared();
    let app = everything(bridge, "models-listen");
    let agent = Agent::new(bridge, &app.client_id);
    let (mut stream, acknowledged) = agent.listens(filter());
    let method = "notifications/subscriptions/acknowledged";
    assert_eq!(acknowledged["method"], method, "{acknowledged}");
    assert_eq!(acknowledged["params"]["notifications"], filter(), "{acknowledged}");
    notification(&acknowledged);
    changes(&app, &mut stream);
}

#[test]
fn progress_and_log_messages_survive_rmcp() {
    let bridge = Bridge::shared();
    let app = App::described().tool("tells", rich::tells);
    let app = app.start(bridge, &unique("models-notes"));
    for token in [json!("tök"), json!(0)] {
        for era in [Era::Legacy, Era::Modern] {
            let mut agent = Agent::new(bridge, &app.client_id).speaking(era);
            let mut meta = json!({"progressToken": token});
            match era {
                Era::Legacy => {
                    agent.initialize();
                    agent.legacy("logging/setLevel", json!({"level": "info"})).result();
                }
                Era::Modern => meta["io.modelcontextprotocol/logLevel"] = json!("info"),
            }
            let answer = agent.ask("tools/call", json!({"name": "tells", "_meta": meta}));
            let notes = answer.notifications();
            notes.iter().for_each(notification);
            let progress = json!({"progress": 1.5, "total": 2.5, "message": "hé✓",
                "progressToken": token});
            assert_eq!(notes[0]["params"], progress, "{era:?}");
            let deep = json!({"level": "info", "data": {"deep": [null, 1e-3]}});
            assert_eq!(notes[1]["params"], deep, "{era:?}");
            let last = notes.last().expect("the count");
            assert_eq!(last["params"]["logger"], "clientmcp", "{era:?}: {last}");
            result::<CallToolResult>("CallToolResult", &answer.response(), NOTHING);
        }
    }
}

#[test]
fn questions_survive_rmcp() {
    let bridge = Bridge::shared();
    let app = App::described().tool("asks", rich::asks);
    let app = app.start(bridge, &unique("models-asks"));
    let able = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}},
        "roots": {}});

    let mut agent = Agent::new(bridge, &app.client_id).declaring(able.clone());
    agent.initialize();
    let call = agent.request("tools/call", json!({"name": "asks"}));
    let mut stream = agent.stream(&call);
    let answers = json!({
        "elicitation/create": {"action": "decline"},
        "sampling/createMessage": {"role": "assistant", "model": "m",
            "content": {"type": "text", "text": "t"}},
        "roots/list": {"roots": []},
    });
    for _ in 0..4 {
        let question = stream.next_message(SOON);
        let kind = match question["method"].as_str().expect("a request has a method") {
            "elicitation/create" => "ElicitRequest",
            "sampling/createMessage" => "CreateMessageRequest",
            "roots/list" => "ListRootsRequest",
            other => panic!("{other} is no question: {question}"),
        };
        request(kind, &question);
        let method = question["method"].as_str().expect("matched above");
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": answers[method]});
        let post = agent.post(&answer).with("MCP-Protocol-Version", "2025-11-25");
        let session = agent.session.as_deref().expect("initialized above");
        assert_eq!(post.with("Mcp-Session-Id", session).to(bridge).status, 202);
    }
    let last = stream.next_message(SOON);
    result::<CallToolResult>("CallToolResult", &last, NOTHING);
    let asked = app.calls().pop().expect("called twice");
    let keys: Vec<_> =
        asked.params["inputResponses"].as_object().expect("answers").keys().collect();
    assert_eq!(keys.len(), 4, "{keys:?}");

    // In 2026 the questions are the result, when the agent can answer them, and else an error.
    let agent = Agent::new(bridge, &app.client_id).declaring(able);
    let asked = agent.call("asks", json!({})).response();
    assert_eq!(asked["result"]["inputRequests"], questions());
    // rmcp's URL mode is the one of 2025, which has an ID; a client that sends none is not read.
    result::<InputRequiredResult>("InputRequiredResult", &asked, NOTHING);
    let agent = Agent::new(bridge, &app.client_id);
    let refused = agent.call("asks", json!({}));
    assert_eq!(refused.refusal(), (400, -32021), "{refused:?}");
    error(&refused.response());
    let required = &refused.response()["error"]["data"]["requiredCapabilities"];
    let expected = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}},
        "roots": {}});
    assert_eq!(*required, expected, "the bridge's own");
    same::<ClientCapabilities>("data.requiredCapabilities", required, NOTHING);
}

/// One of each: three lists changed, one resource updated.
fn changes(app: &App, stream: &mut Events) {
    let mut next = offer();
    for list in ["tools", "prompts", "resources"] {
        next[list].as_array_mut().expect("offered as an array").pop();
    }
    app.registers(next);
    app.sends(&json!({"type": "notify", "method": "notifications/resources/updated",
        "params": {"uri": "test://one"}}));
    let mut heard: Vec<String> = (0..4)
        .map(|_| {
            let message = stream.next_message(SOON);
            notification(&message);
            message["method"].as_str().expect("notifications have a method").to_owned()
        })
        .collect();
    heard.sort();
    let expected = [
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
        "notifications/tools/list_changed",
    ];
    assert_eq!(heard, expected);
}

#[test]
fn the_end_of_a_subscription_survives_rmcp() {
    // A bridge of its own, because it is stopped.
    let bridge = Bridge::start(&[]);
    let app = everything(&bridge, "models-stop");
    let agent = Agent::new(&bridge, &app.client_id);
    let (mut stream, _) = agent.listens(filter());
    bridge.signal(Signal::TERM);
    let (records, end) = stream.rest(SOON + Duration::from_secs(10));
    assert_eq!(end, Event::End, "after {records:?}");
    // The client leaves first, which may change lists.
    let last = records.last().expect("a completion result");
    let last: Value = serde_json::from_str(last).expect("an event is JSON");
    result::<SubscriptionsListenResult>("SubscriptionsListenResult", &last, NOTHING);
}

/// Fails unless rmcp takes the response for this kind of result, and loses exactly `losses`.
fn result<T: Serialize + DeserializeOwned>(kind: &str, message: &Value, losses: &[&str]) {
    same::<JsonRpcResponse<T>>(kind, message, losses);
    // What rmcp does on the wire: the first type that fits, in an order of its own.
    match parse(kind, message) {
        ServerJsonRpcMessage::Response(response) => {
            let taken = format!("{:?}", response.result);
            let variant = taken.split(['(', ' ', '{']).next();
            assert_eq!(variant, Some(kind), "rmcp takes {message} for another kind");
        }
        other => panic!("{kind}: rmcp takes {message} for {other:?}"),
    }
}

/// Fails unless rmcp takes this for a request of this kind and loses nothing of it.
fn request(kind: &str, message: &Value) {
    same::<JsonRpcRequest<ServerRequest>>(kind, message, NOTHING);
    match parse(kind, message) {
        ServerJsonRpcMessage::Request(taken) => {
            let debugged = format!("{:?}", taken.request);
            let variant = debugged.split(['(', ' ', '{']).next();
            assert_eq!(variant, Some(kind), "rmcp takes {message} for another kind");
        }
        other => panic!("{kind}: rmcp takes {message} for {other:?}"),
    }
}

/// Fails unless rmcp knows this notification and loses nothing of it.
fn notification(message: &Value) {
    same::<JsonRpcNotification<ServerNotification>>("a notification", message, NOTHING);
    match parse("a notification", message) {
        ServerJsonRpcMessage::Notification(taken) => {
            let custom = matches!(taken.notification, ServerNotification::CustomNotification(_));
            assert!(!custom, "rmcp does not know {message}");
        }
        other => panic!("rmcp takes {message} for {other:?}"),
    }
}

/// Fails unless rmcp takes the response for an error and loses nothing of it.
fn error(message: &Value) {
    same::<JsonRpcError>("an error", message, NOTHING);
    let taken = parse("an error", message);
    assert!(matches!(taken, ServerJsonRpcMessage::Error(_)), "{message} became {taken:?}");
}

fn parse(kind: &str, message: &Value) -> ServerJsonRpcMessage {
    let parsed = serde_json::from_value(message.clone());
    parsed.unwrap_or_else(|e| panic!("{kind}: rmcp does not read {message}: {e}"))
}

/// Reads and writes JSON by way of `T`; the paths that differ must be exactly `losses`.
fn same<T: Serialize + DeserializeOwned>(kind: &str, before: &Value, losses: &[&str]) {
    let typed: T = serde_json::from_value(before.clone())
        .unwrap_or_else(|e| panic!("{kind}: rmcp does not read {before}: {e}"));
    let after = serde_json::to_value(&typed).expect("what was read can be written");
    let mut differing = Vec::new();
    compare("", before, &after, &mut differing);
    assert_eq!(differing, losses, "{kind}: {before} became {after}");
}

/// Collects the paths at which two values differ, the outermost of each.
fn compare(path: &str, before: &Value, after: &Value, differing: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let dot = if path.is_empty() { "" } else { "." };
            let added = new.keys().filter(|name| !old.contains_key(*name));
            for name in old.keys().chain(added) {
                let path = format!("{path}{dot}{name}");
                match (old.get(name), new.get(name)) {
                    (Some(old), Some(new)) => compare(&path, old, new, differing),
                    _ => differing.push(path),
                }
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                compare(&format!("{path}[{index}]"), old, new, differing);
            }
        }
        (old, new) if old == new => {}
        _ => differing.push(path.to_owned()),
    }
}

/// What the bridge told the client about the agent, at the first call.
fn told_about_agent(app: &App) -> Value {
    app.calls().first().expect("calls were forwarded").agent.clone()
}

fn filter() -> Value {
    json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["test://one"]})
}
