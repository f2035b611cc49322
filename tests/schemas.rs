//! What the bridge says in both revisions, read by the parsers of the official TypeScript SDKs.
//!
//! Makes a running bridge say each kind of result, notification and request, and each of its own
//! refusals and failures, and hands all of it to `tests/agents/schemas.mjs` in a file. Complete
//! means: every kind named here, and every fault that stands in the code. What other models make
//! of the same kinds is in `models`.

#[path = "support/rich.rs"]
mod rich;
mod support;
#[path = "agents/tools.rs"]
mod tools;

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use support::{
    Agent, Answer, App, Bridge, Call, Era, Event, Events, Http, MESSAGE_BYTES_MAX, MODERN, Reply,
    Request, SOON, token, unique,
};

/// Node starts, and reads some two hundred messages.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The kinds besides faults and failures: what answers these methods, and what is said unasked.
const KINDS_OF_BOTH: &[&str] = &[
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "tools/call",
    "prompts/get",
    "resources/read",
    "completion/complete",
    "notifications/progress",
    "notifications/message",
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
];
const KINDS_OF_2025: &[&str] = &[
    "initialize",
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
    "elicitation/create",
    "sampling/createMessage",
    "roots/list",
    "batch",
];
const KINDS_OF_2026: &[&str] = &[
    "server/discover",
    "input_required",
    "notifications/subscriptions/acknowledged",
    "subscriptions/listen",
];

/// Every refusal: its name in the code, and its JSON-RPC code.
const FAULTS: &[(&str, i64)] = &[
    ("ParseError", -32700),
    ("InvalidRequest", -32600),
    ("MethodNotFound", -32601),
    ("InvalidParams", -32602),
    ("BadArgument", -32602),
    ("UnknownTool", -32602),
    ("HeaderMismatch", -32020),
    ("MissingCapability", -32021),
    ("UnsupportedVersion", -32022),
    ("Unauthorized", -32600),
    ("InsufficientScope", -32600),
    ("WrongClient", -32600),
    ("ForbiddenOrigin", -32600),
    ("NotAcceptable", -32600),
    ("TooLarge", -32600),
    ("MediaType", -32600),
    ("TooManyStreams", -32600),
    ("TooManyConnections", -32600),
    ("Overloaded", -32600),
    ("Draining", -32600),
];

/// Refusals of the code that no line here is about: `Failed` is the troubles below.
const OTHER_FAULTS: &[&str] = &["Failed"];

/// Every way a call fails: its name in the code, and words by which to know it.
const TROUBLES: &[(&str, &str)] = &[
    ("NotConnected", "is not connected"),
    ("MayHaveRun", "was lost after the call was sent"),
    ("TimedOut", "The application did not answer within"),
    ("TooManyCalls", "calls are already running"),
    ("QueueFull", "its queue is full"),
    ("CallTooLarge", "does not fit one message"),
    ("Stopping", "The bridge is stopping"),
    ("BadReply", "cannot be handed on"),
    ("NotDeclared", "did not declare"),
    ("NoStream", "does not accept text/event-stream"),
    ("AgentRefused", "with an error"),
    ("AgentSilent", "The agent did not answer"),
    ("TooManyRounds", "more than 10 times"),
];

/// The troubles that only an agent that is asked can have.
const TROUBLES_OF_2025: &[&str] =
    &["NotDeclared", "NoStream", "AgentRefused", "AgentSilent", "TooManyRounds"];

/// The methods a trouble can come to: one whose result can say it, and one whose result can not.
const FORWARDED: [&str; 2] = ["tools/call", "prompts/get"];

#[test]
fn everything_the_bridge_says_is_read_by_the_typescript_sdks() {
    let mut book = Book::default();
    for era in [Era::Legacy, Era::Modern] {
        answers(&mut book, era);
        notes(&mut book, era);
        troubles(&mut book, era);
        limits(&mut book, era);
        stopping(&mut book, era);
    }
    changes_of_2025(&mut book);
    changes_of_2026(&mut book);
    questions_of_2025(&mut book);
    questions_of_2026(&mut book);
    batch(&mut book);
    refusals(&mut book);
    book.is_complete();
    book.is_read();
}

/// Everything that was said, with its revision and kind.
#[derive(Default)]
struct Book {
    lines: Vec<Value>,
    kinds: BTreeSet<(&'static str, String)>,
}

fn revision(era: Era) -> &'static str {
    match era {
        Era::Legacy => "2025-11-25",
        Era::Modern => MODERN,
    }
}

impl Book {
    /// Writes down a message of this kind; a result answers `method`.
    fn says(&mut self, era: Era, kind: &str, method: &str, message: &Value) {
        let revision = revision(era);
        self.kinds.insert((revision, kind.to_owned()));
        self.lines.push(
            json!({"revision": revision, "kind": kind, "method": method, "message": message}),
        );
    }

    /// The result of this method.
    fn result(&mut self, era: Era, method: &str, answer: &Answer) {
        answer.result();
        self.says(era, method, method, &answer.response());
    }

    /// A notification or request; its kind is its method.
    fn message(&mut self, era: Era, message: &Value) {
        let method = message["method"].as_str().expect("what is said unasked has a method");
        self.says(era, method, method, message);
    }

    fn fault(&mut self, era: Era, name: &str, answer: &Answer) {
        let (_, code) = FAULTS.iter().find(|(fault, _)| *fault == name).expect("named above");
        assert_eq!(answer.error()["code"], *code, "{name}: {answer:?}");
        self.says(era, name, "", &answer.response());
    }

    /// What became of a call of this method: a tool error, or -32603.
    fn trouble(&mut self, era: Era, name: &str, method: &str, response: &Value) {
        let (_, words) = TROUBLES.iter().find(|(trouble, _)| *trouble == name).expect("above");
        let told = match method {
            "tools/call" => &response["result"]["content"][0]["text"],
            _ => &response["error"]["message"],
        };
        let told = told.as_str().unwrap_or_else(|| panic!("{name}, {method}: {response}"));
        assert!(told.contains(words), "{name}, {method}: {told}");
        match method {
            "tools/call" => assert_eq!(response["result"]["isError"], true, "{name}: {response}"),
            _ => assert_eq!(response["error"]["code"], -32603, "{name}: {response}"),
        }
        self.says(era, &format!("{name} of {method}"), method, response);
    }

    /// Nothing of what the bridge can say is missing.
    fn is_complete(&self) {
        let code = include_str!("../proto/src/fault.rs");
        let named = |names: &mut dyn Iterator<Item = &str>| -> BTreeSet<String> {
            names.map(str::to_owned).collect()
        };
        let mut faults = FAULTS.iter().map(|(name, _)| *name).chain(OTHER_FAULTS.iter().copied());
        assert_eq!(named(&mut faults), variants(code, "Fault"), "faults here and in the code");
        let mut troubles = TROUBLES.iter().map(|(name, _)| *name);
        assert_eq!(named(&mut troubles), variants(code, "Trouble"), "here and in the code");

        let mut expected = BTreeSet::new();
        let all = |kinds: &[&str]| kinds.iter().map(|kind| (*kind).to_owned()).collect::<Vec<_>>();
        for (era, own) in [(Era::Legacy, KINDS_OF_2025), (Era::Modern, KINDS_OF_2026)] {
            let revision = revision(era);
            let kinds = all(KINDS_OF_BOTH).into_iter().chain(all(own));
            expected.extend(kinds.map(|kind| (revision, kind)));
            for (name, _) in TROUBLES {
                if era == Era::Legacy || !TROUBLES_OF_2025.contains(name) {
                    let kinds = FORWARDED.map(|method| format!("{name} of {method}"));
                    expected.extend(kinds.map(|kind| (revision, kind)));
                }
            }
        }
        let fault = |kind: &str| FAULTS.iter().any(|(name, _)| *name == kind);
        let (refused, said): (BTreeSet<_>, BTreeSet<_>) =
            self.kinds.iter().cloned().partition(|(_, kind)| fault(kind));
        assert_eq!(said, expected, "the kinds by revision");
        let refused: BTreeSet<_> = refused.into_iter().map(|(_, kind)| kind).collect();
        assert_eq!(refused.len(), FAULTS.len(), "every fault was provoked: {refused:?}");
    }

    /// The SDKs read every line.
    fn is_read(&self) {
        let file = std::env::temp_dir().join(format!("{}.jsonl", unique("schemas")));
        let lines: Vec<String> = self.lines.iter().map(Value::to_string).collect();
        std::fs::write(&file, lines.join("\n")).expect("the folder for such files takes it");
        let path = file.to_str().expect("a path of ASCII");
        let told = tools::run("schemas.mjs", &[path], "", TIMEOUT);
        std::fs::remove_file(&file).expect("it was written above");

        let read = told["read"].as_array().expect("a list");
        assert_eq!(read.len(), self.lines.len());
        let mut unread = Vec::new();
        for (line, told) in self.lines.iter().zip(read) {
            assert_eq!(line["kind"], told["kind"]);
            // The first SDK knows nothing of 2026 but its errors.
            let both = line["revision"] != MODERN || line["message"].get("error").is_some();
            let expected = if both { json!(["second", "first"]) } else { json!(["second"]) };
            if told["readers"] != expected {
                unread.push(format!("{}: {}: {line}", told["kind"], told["troubles"]));
            }
        }
        let all = unread.join("\n");
        assert!(unread.is_empty(), "{} of {} are not read:\n{all}", unread.len(), read.len());
    }
}

/// The names of the variants of an enum in this code.
fn variants(code: &str, name: &str) -> BTreeSet<String> {
    let (_, rest) = code.split_once(&format!("pub enum {name} {{\n")).expect("the enum is there");
    let (body, _) = rest.split_once("\n}").expect("and it ends");
    let lines = body.lines().filter_map(|line| line.strip_prefix("    "));
    let names = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
    let end = |c: char| !c.is_ascii_alphanumeric();
    names.filter_map(|line| line.split(end).next()).map(str::to_owned).collect()
}

fn able() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}})
}

/// An agent of this era that can be asked anything, in a session if there are sessions.
fn agent<'b>(bridge: &'b Bridge, app: &App, era: Era) -> Agent<'b> {
    let mut agent = Agent::new(bridge, &app.client_id).speaking(era).declaring(able());
    if era == Era::Legacy {
        agent.initialize();
    }
    agent
}

/// Each kind of result.
fn answers(book: &mut Book, era: Era) {
    let bridge = Bridge::shared();
    let app = rich::everything(bridge, "schemas");
    let agent = agent(bridge, &app, era);
    let uri = json!({"uri": "test://one"});
    let mut asks = match era {
        Era::Legacy => vec![
            ("ping", Value::Null),
            ("logging/setLevel", json!({"level": "warning"})),
            ("resources/subscribe", uri.clone()),
            ("resources/unsubscribe", uri.clone()),
            (
                "initialize",
                json!({"protocolVersion": "2025-11-25", "capabilities": {},
                    "clientInfo": rich::implementation("agent")}),
            ),
        ],
        Era::Modern => vec![("server/discover", json!({}))],
    };
    asks.extend([
        ("tools/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("tools/call", json!({"name": "echo", "arguments": {"text": "hé✓"}})),
        ("tools/call", json!({"name": "rich"})),
        ("tools/call", json!({"name": "fail"})),
        ("prompts/get", json!({"name": "greet"})),
        ("resources/read", uri),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "greet"},
                "argument": {"name": "who", "value": "w"}}),
        ),
    ]);
    for (method, params) in asks {
        book.result(era, method, &agent.ask(method, params));
    }
    // The same while nobody is there: what the bridge says of its own.
    let nobody = Agent::new(bridge, &unique("nobody")).speaking(era);
    let lists = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];
    for method in lists {
        book.result(era, method, &nobody.ask(method, json!({})));
    }
    match era {
        Era::Legacy => {
            let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": {"name": "a", "version": "1"}});
            book.result(era, "initialize", &nobody.ask("initialize", hello));
        }
        Era::Modern => {
            book.result(era, "server/discover", &nobody.ask("server/discover", json!({})));
        }
    }
}

/// Progress and log messages, the bridge's own included.
fn notes(book: &mut Book, era: Era) {
    let bridge = Bridge::shared();
    let app = App::described().tool("tells", rich::tells);
    let app = app.start(bridge, &unique("schemas-notes"));
    let agent = agent(bridge, &app, era);
    let mut meta = json!({"progressToken": "tök"});
    match era {
        Era::Legacy => drop(agent.ask("logging/setLevel", json!({"level": "info"})).result()),
        Era::Modern => meta["io.modelcontextprotocol/logLevel"] = json!("info"),
    }
    let answer = agent.ask("tools/call", json!({"name": "tells", "_meta": meta}));
    let notes = answer.notifications();
    assert_eq!(notes.last().expect("notes")["params"]["logger"], "clientmcp", "{answer:?}");
    notes.iter().for_each(|note| book.message(era, note));
    book.result(era, "tools/call", &answer);
}

/// What a stream of an agent hears of an offer that loses something, and of a resource.
fn changes(book: &mut Book, era: Era, app: &App, stream: &mut Events) {
    let mut next = rich::offer();
    for list in ["tools", "prompts", "resources"] {
        next[list].as_array_mut().expect("offered as an array").pop();
    }
    app.registers(next);
    app.sends(&json!({"type": "notify", "method": "notifications/resources/updated",
        "params": {"uri": "test://one"}}));
    for _ in 0..4 {
        book.message(era, &stream.next_message(SOON));
    }
}

fn changes_of_2025(book: &mut Book) {
    let bridge = Bridge::shared();
    let app = rich::everything(bridge, "schemas-get");
    let agent = agent(bridge, &app, Era::Legacy);
    let mut stream = agent.opens_stream();
    agent.legacy("resources/subscribe", json!({"uri": "test://one"})).result();
    changes(book, Era::Legacy, &app, &mut stream);
}

fn changes_of_2026(book: &mut Book) {
    // A bridge of its own, because it is stopped.
    let bridge = Bridge::start(&[]);
    let app = rich::everything(&bridge, "schemas-listen");
    let agent = agent(&bridge, &app, Era::Modern);
    let (mut stream, acknowledged) = agent.listens(json!({"toolsListChanged": true,
        "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["test://one"]}));
    book.message(Era::Modern, &acknowledged);
    changes(book, Era::Modern, &app, &mut stream);
    bridge.signal(Signal::TERM);
    let (records, end) = stream.rest(SOON * 2);
    assert_eq!(end, Event::End, "after {records:?}");
    let last = records.last().expect("a completion result");
    let last = serde_json::from_str(last).expect("an event is JSON");
    book.says(Era::Modern, "subscriptions/listen", "subscriptions/listen", &last);
}

/// A client that asks everything: in 2025 requests to the agent.
fn questions_of_2025(book: &mut Book) {
    let bridge = Bridge::shared();
    let app = App::described().tool("asks", rich::asks);
    let app = app.start(bridge, &unique("schemas-asks"));
    let agent = agent(bridge, &app, Era::Legacy);
    let mut stream = agent.stream(&agent.request("tools/call", json!({"name": "asks"})));
    for _ in 0..4 {
        book.message(Era::Legacy, &stream.next_message(SOON));
    }
}

/// In 2026 the result itself.
fn questions_of_2026(book: &mut Book) {
    let bridge = Bridge::shared();
    let app = App::described().tool("asks", rich::asks);
    let app = app.start(bridge, &unique("schemas-asks"));
    let asked = agent(bridge, &app, Era::Modern).call("asks", json!({}));
    assert_eq!(asked.result()["resultType"], "input_required", "{asked:?}");
    book.says(Era::Modern, "input_required", "tools/call", &asked.response());
}

/// An array of a result and a refusal.
fn batch(book: &mut Book) {
    let bridge = Bridge::shared();
    let app = rich::everything(bridge, "schemas-batch");
    let agent = agent(bridge, &app, Era::Legacy);
    let body = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": "2", "method": "no/such/method"},
    ]);
    let answer = agent.post(&body).with("MCP-Protocol-Version", "2025-03-26").to(bridge);
    let answers = answer.json();
    let answers = answers.as_array().unwrap_or_else(|| panic!("an array, not {answer:?}"));
    assert_eq!(answers.len(), 2, "{answer:?}");
    answers.iter().for_each(|answer| book.says(Era::Legacy, "batch", "ping", answer));
}

/// Each refusal that any bridge can be made to utter, in the eras that have it.
fn refusals(book: &mut Book) {
    let bridge = Bridge::start(&["--max-streams", "1"]);
    let app = rich::everything(&bridge, "schemas-faults");
    let (old, new) = (agent(&bridge, &app, Era::Legacy), agent(&bridge, &app, Era::Modern));
    let call = |name: &str| json!({"name": name});
    let version = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}});
    let nothing = json!({"_meta": {"io.modelcontextprotocol/clientCapabilities": 1}});
    let asking = Agent::new(&bridge, &app.client_id);
    let asks = App::described().tool("asks", rich::asks);
    let asks = asks.start(&bridge, &unique("schemas-faults"));
    let incapable = Agent::new(&bridge, &asks.client_id);
    let rows = [
        ("MethodNotFound", new.request("no/such/method", json!({}))),
        ("InvalidParams", new.request("tools/list", nothing)),
        ("UnknownTool", new.request("tools/call", call("no_such_tool"))),
        ("BadArgument", new.request("tools/list", json!({"cursor": "c"}))),
        ("HeaderMismatch", asking.request("tools/call", call("echo")).set("Mcp-Name", "other")),
        ("MissingCapability", asking.request("tools/call", call("asks-for-sampling"))),
        ("MissingCapability", incapable.request("tools/call", call("asks"))),
        (
            "UnsupportedVersion",
            new.request("tools/list", version).set("MCP-Protocol-Version", "2099-01-01"),
        ),
    ];
    for (name, request) in rows {
        book.fault(Era::Modern, name, &new.answer(&request));
    }
    let rows = [
        ("MethodNotFound", old.request("no/such/method", json!({}))),
        ("UnknownTool", old.request("tools/call", call("no_such_tool"))),
        ("BadArgument", old.request("tools/list", json!({"cursor": "c"}))),
    ];
    for (name, request) in rows {
        book.fault(Era::Legacy, name, &old.answer(&request));
    }
    // These come before anything is known of a revision, or whatever it is.
    for (era, agent) in [(Era::Legacy, &old), (Era::Modern, &new)] {
        let ask = || agent.request("tools/list", json!({}));
        let elsewhere = Request::post(&bridge.target("/mcp/somebody-else")).bearer(&agent.token);
        let rows = [
            ("ParseError", ask().body("{")),
            ("InvalidRequest", ask().json(&json!({"jsonrpc": "2.0"}))),
            ("Unauthorized", ask().without("Authorization")),
            ("Unauthorized", ask().set("Authorization", "Bearer no.such.token")),
            ("InsufficientScope", {
                let token = token(&app.client_id, "client");
                ask().set("Authorization", &format!("Bearer {token}"))
            }),
            ("WrongClient", elsewhere.json(&json!({}))),
            ("ForbiddenOrigin", ask().with("Origin", "https://example.com")),
            ("NotAcceptable", ask().set("Accept", "text/html")),
            ("TooLarge", ask().body(vec![b' '; MESSAGE_BYTES_MAX + 1])),
            ("MediaType", ask().set("Content-Type", "text/plain")),
        ];
        for (name, request) in rows {
            book.fault(era, name, &agent.answer(&request));
        }
    }
    let _stream = old.opens_stream();
    let second = new.request("subscriptions/listen", json!({"notifications": {}}));
    book.fault(Era::Modern, "TooManyStreams", &new.answer(&second));
    let second = asking.bare("GET").with("Accept", "text/event-stream");
    book.fault(Era::Legacy, "TooManyStreams", &asking.answer(&second));
}

/// A client whose tools and prompts do what their names say.
fn misbehaving(bridge: &Bridge) -> App {
    fn ends(call: &Call) -> Reply {
        let result = match call.name() {
            "never" => return Reply::Never,
            "hollow" => json!({"resultType": "input_required"}),
            "endless" => json!({"resultType": "input_required", "requestState": "on"}),
            "asks" => json!({"resultType": "input_required", "inputRequests":
                {"q": {"method": "roots/list"}}}),
            other => panic!("{other} is no name of ours"),
        };
        Reply::Result(result)
    }
    let names = ["never", "hollow", "endless", "asks"];
    let prompts: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    let mut app = App::described().offering("prompts", json!(prompts));
    for name in names {
        app = app.tool(name, |call, _| ends(call));
    }
    app.on("prompts/get", |call, _| ends(call)).start(bridge, &unique("schemas-troubles"))
}

/// Each way a call fails, for a tool and for a prompt.
fn troubles(book: &mut Book, era: Era) {
    let flags = ["--reconnect-wait", "0.05", "--call-timeout", "1", "--max-calls", "1"];
    let bridge = Bridge::start(&flags);
    for method in FORWARDED {
        let nobody = Agent::new(&bridge, &unique("nobody")).speaking(era);
        let answer = nobody.ask(method, json!({"name": "never"}));
        book.trouble(era, "NotConnected", method, &answer.response());

        let app = misbehaving(&bridge);
        let agent = agent(&bridge, &app, era);
        let ask = |name: &str| agent.request(method, json!({"name": name}));
        let mut ends = |trouble: &str, request: &Request| {
            book.trouble(era, trouble, method, &agent.answer(request).response());
        };
        ends("TimedOut", &ask("never"));
        ends("BadReply", &ask("hollow"));
        if era == Era::Legacy {
            ends("TooManyRounds", &ask("endless"));
            ends("AgentSilent", &ask("asks"));
            ends("NotDeclared", &ask("asks").without("Mcp-Session-Id"));
            ends("NoStream", &ask("asks").set("Accept", "application/json"));
            let mut stream = agent.stream(&ask("asks"));
            let question = stream.next_message(SOON);
            let refusal = json!({"jsonrpc": "2.0", "id": question["id"],
                "error": {"code": -32603, "message": "no"}});
            let session = agent.session.as_deref().expect("initialized above");
            let post = agent.post(&refusal).with("Mcp-Session-Id", session);
            assert_eq!(post.to(&bridge).status, 202);
            book.trouble(era, "AgentRefused", method, &stream.next_message(SOON));
        }
        let mut large = json!({"name": "never", "arguments": {"x": ""}});
        let rest = agent.request(method, large.clone()).body.expect("a request has a body").len();
        large["arguments"]["x"] = json!("y".repeat(MESSAGE_BYTES_MAX - rest - 10));
        let answer = agent.ask(method, large);
        book.trouble(era, "CallTooLarge", method, &answer.response());

        let seen = app.calls().len();
        let running = ask("never").sent_to(&bridge);
        app.awaits_calls(seen + 1, SOON);
        let answer = agent.answer(&ask("hollow"));
        book.trouble(era, "TooManyCalls", method, &answer.response());
        app.vanishes();
        book.trouble(era, "MayHaveRun", method, &agent.read_answer(running).response());
    }
}

/// The limits that stand in each other's way: a queue that takes nothing, and two connections.
fn limits(book: &mut Book, era: Era) {
    let bridge = Bridge::start(&["--max-queued-bytes", "1000", "--max-connections-per-ip", "2"]);
    let app = misbehaving(&bridge);
    let agent = agent(&bridge, &app, era);
    for method in FORWARDED {
        let large = json!({"name": "never", "arguments": {"x": "y".repeat(2000)}});
        let answer = agent.ask(method, large);
        book.trouble(era, "QueueFull", method, &answer.response());
    }
    let running = agent.request("tools/call", json!({"name": "never"})).sent_to(&bridge);
    app.awaits_calls(1, SOON);
    let answer = agent.ask("tools/list", json!({}));
    book.fault(era, "TooManyConnections", &answer);
    drop(running);

    let full = Bridge::start(&["--max-connections", "1"]);
    let _silent = Http::connect(full.addr);
    let answer = Agent::new(&full, "nobody").speaking(era).ask("tools/list", json!({}));
    book.fault(era, "Overloaded", &answer);
}

/// A bridge that stops while calls run, and what it says to others meanwhile.
fn stopping(book: &mut Book, era: Era) {
    let bridge = Bridge::start(&["--drain-timeout", "1"]);
    let app = misbehaving(&bridge);
    let agent = agent(&bridge, &app, era);
    let mut running = Vec::new();
    for method in FORWARDED {
        running.push((method, agent.request(method, json!({"name": "never"})).sent_to(&bridge)));
    }
    app.awaits_calls(2, SOON);
    bridge.signal(Signal::TERM);
    support::eventually("draining", SOON, || {
        let health = Request::get(&bridge.target("/health")).to(&bridge);
        (health.status == 503).then_some(())
    });
    book.fault(era, "Draining", &agent.ask("tools/list", json!({})));
    for (method, http) in running {
        book.trouble(era, "Stopping", method, &agent.read_answer(http).response());
    }
}
