//! Recorded agents against the bridge: every request again, byte for byte, and the answer that the
//! contract demands.
//!
//! Knows which parts of a recorded request belong to the recording and not to the agent (`Host`,
//! the token, session IDs) and when the agent hung up. What was sent is in `recording`, what must
//! come back in `expected`. Where to go next: `tests/data/captures/README.md`, for adding a
//! recording.

mod expected;
mod recording;
#[path = "../support/mod.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use expected::{Content, Outcome, Row, Table};
use recording::{Recording, Request};
use serde_json::{Value, json};
use support::{App, Bridge, Event, Events, Http, Response, SOON, token, unique};

/// SPEC, Calls: a call that its agent gave up is cancelled at the client within this.
const CANCEL: Duration = Duration::from_secs(2);

/// SPEC, Calls: until then an answer may be plain JSON, from then on it is an event stream.
const UNDECIDED: Duration = Duration::from_secs(1);

#[test]
fn every_recorded_request_has_its_row_and_every_row_its_request() {
    let table = expected::table();
    let mut recorded = BTreeSet::new();
    for recording in recording::all() {
        for request in recording.requests {
            let key = (recording.name.clone(), request.seq);
            let row = table.get(&key).unwrap_or_else(|| panic!("{key:?} is not in the table"));
            assert_eq!(row.what, request.what(), "{key:?}");
            recorded.insert(key);
        }
    }
    let tabled: BTreeSet<_> = table.into_keys().collect();
    assert_eq!(tabled, recorded, "rows without a request");
}

#[test]
fn recorded_agents_get_the_answers_of_the_table() {
    let bridge = Bridge::shared();
    let table = expected::table();
    std::thread::scope(|scope| {
        let replays: Vec<_> = recording::all()
            .into_iter()
            .map(|recording| {
                let table = &table;
                let name = recording.name.clone();
                (name, scope.spawn(move || Replay::of(&recording, bridge, table).run(&recording)))
            })
            .collect();
        // All of them are judged before the first failure is reported.
        let failed: Vec<String> = replays
            .into_iter()
            .filter_map(|(name, replay)| replay.join().is_err().then_some(name))
            .collect();
        assert!(failed.is_empty(), "see above: {failed:?}");
    });
}

/// One agent's run in progress.
struct Replay<'a> {
    name: String,
    bridge: &'a Bridge,
    table: &'a Table,
    app: App,
    token: String,
    /// Recorded connection numbers with the connection that stands for each while it is free.
    connections: BTreeMap<u64, Http>,
    /// Recorded session IDs with the ones that the bridge gave.
    sessions: BTreeMap<String, String>,
    /// Requests whose answer is an open stream.
    open: Vec<Open<'a>>,
}

struct Open<'a> {
    /// Which request this is, for messages.
    at: String,
    request: &'a Request,
    outcome: Outcome,
    events: Events,
}

impl<'a> Replay<'a> {
    fn of(recording: &Recording, bridge: &'a Bridge, table: &'a Table) -> Replay<'a> {
        let client_id = unique(&recording.name);
        Replay {
            name: recording.name.clone(),
            bridge,
            table,
            app: App::standard(bridge, &client_id),
            token: token(&client_id, "agent"),
            connections: BTreeMap::new(),
            sessions: BTreeMap::new(),
            open: Vec::new(),
        }
    }

    fn run(mut self, recording: &'a Recording) {
        for request in &recording.requests {
            self.hang_up_before(request.sent_ms);
            let row = self.table[&(recording.name.clone(), request.seq)].clone();
            let at = format!("{} {} {}", self.name, request.seq, row.what);
            let begins = request.message["method"] == "initialize";
            let mut http = self.connection(request);
            let sent = Instant::now();
            http.send(self.bytes(request));
            let head = http.read_head();
            assert_eq!(head.status, row.status, "{at}: {head:?}");
            let late = row.what.starts_with("tools/call") && sent.elapsed() >= UNDECIDED;
            let media_type = match row.content {
                // So late on a busy machine, the bridge may rightly have begun a stream.
                Content::Json if late && head.is_event_stream() => "text/event-stream",
                Content::Json => "application/json",
                Content::Sse => "text/event-stream",
                Content::None => "",
            };
            assert_eq!(head.media_type(), media_type, "{at}: {head:?}");
            if let Some(theirs) = request.given_session.as_ref().filter(|_| begins) {
                let ours = head.header("mcp-session-id");
                let ours = ours.unwrap_or_else(|| panic!("{at}: no session ID in {head:?}"));
                self.sessions.insert(theirs.clone(), ours.to_owned());
            }
            match row.outcome {
                Outcome::Stream | Outcome::HungUp | Outcome::Cancelled => {
                    let events = http.events(&head);
                    self.open.push(Open { at, request, outcome: row.outcome, events });
                }
                _ => self.finish(&at, request, &row, http, head),
            }
            match request.message["method"].as_str() {
                Some("notifications/cancelled") => self.end_cancelled(request),
                _ if request.method == "DELETE" => self.end_deleted(),
                _ => {}
            }
        }
        self.hang_up_before(u64::MAX);
        let left: Vec<&String> = self.open.iter().map(|open| &open.at).collect();
        assert!(left.is_empty(), "the recording does not say how these ended: {left:?}");
    }

    /// The connection that the agent used: still open from an earlier request, or a new one.
    fn connection(&mut self, request: &Request) -> Http {
        let reused = self.connections.remove(&request.connection);
        reused.unwrap_or_else(|| Http::connect(self.bridge.addr))
    }

    /// The request as the agent wrote it, but for our host, token and session ID.
    fn bytes(&self, request: &Request) -> Vec<u8> {
        let target = self.bridge.target(&request.path);
        let mut bytes = format!("{} {target} HTTP/1.1\r\n", request.method).into_bytes();
        for (name, value) in &request.headers {
            let value = match name.to_ascii_lowercase().as_str() {
                "host" => self.bridge.addr.to_string(),
                "authorization" => format!("Bearer {}", self.token),
                "mcp-session-id" => self.sessions[value].clone(),
                _ => value.clone(),
            };
            bytes.extend(format!("{name}: {value}\r\n").bytes());
        }
        bytes.extend(b"\r\n");
        bytes.extend(request.body.bytes());
        bytes
    }

    /// Reads an answer that ends by itself and compares what it says.
    fn finish(&mut self, at: &str, request: &Request, row: &Row, mut http: Http, head: Response) {
        let closes = head.says_close();
        let message = if head.is_event_stream() {
            let mut events = http.events(&head);
            let (records, end) = events.rest(SOON);
            assert_eq!(end, Event::End, "{at}: after {records:?}");
            http = events.into_http();
            let parse = |r: &String| serde_json::from_str(r).expect("an event is JSON");
            let mut messages: Vec<Value> = records.iter().map(parse).collect();
            let last = messages.pop();
            for other in messages {
                // Progress may come before the response, and nothing else.
                assert_eq!(other["method"], "notifications/progress", "{at}: {other}");
            }
            last
        } else {
            let mut head = head;
            http.read_body(&mut head).unwrap_or_else(|e| panic!("{at}: {e:?}"));
            match row.content {
                Content::None => assert!(head.body.is_empty(), "{at}: {head:?}"),
                _ => assert!(!head.body.is_empty(), "{at}: {head:?}"),
            }
            (!head.body.is_empty()).then(|| head.json())
        };
        if !closes {
            self.connections.insert(request.connection, http);
        }
        match (row.outcome, message) {
            (Outcome::Accepted | Outcome::Deleted, None) => {}
            (outcome, Some(message)) => {
                assert_eq!(message["id"], request.message["id"], "{at}: {}", brief(&message));
                assert_eq!(message["jsonrpc"], "2.0", "{at}: {}", brief(&message));
                check(at, request, outcome, &message);
            }
            (outcome, None) => panic!("{at}: {outcome:?} expected, got an empty answer"),
        }
    }

    /// Closes the streams that the recorded agent had closed by this time.
    fn hang_up_before(&mut self, now_ms: u64) {
        let gone = |open: &Open| open.request.hung_up_ms.is_some_and(|at| at < now_ms);
        let (gone, open) = std::mem::take(&mut self.open).into_iter().partition(gone);
        self.open = open;
        for Open { at, request, outcome, mut events } in gone {
            if outcome == Outcome::Stream {
                check_stream(&at, request, &mut events);
            }
            events.hang_up();
            if outcome == Outcome::HungUp {
                self.expect_cancel(&at, request);
            }
        }
    }

    /// Waits until the client was told that this call is over.
    fn expect_cancel(&self, at: &str, request: &Request) {
        let arguments = &request.message["params"]["arguments"];
        let call = self.app.calls().into_iter().rev().find(|call| call.arguments() == arguments);
        let call = call.unwrap_or_else(|| panic!("{at}: never reached the client"));
        self.app.awaits_cancel(&call, CANCEL);
    }

    /// Ends what a `notifications/cancelled` names, if it is open still.
    fn end_cancelled(&mut self, notification: &Request) {
        let named = &notification.message["params"]["requestId"];
        let Some(index) = self.open.iter().position(|o| o.request.message["id"] == *named) else {
            return;
        };
        let Open { at, request, outcome, mut events } = self.open.remove(index);
        assert_eq!(outcome, Outcome::Cancelled, "{at}");
        self.expect_cancel(&at, request);
        let (records, end) = events.rest(CANCEL);
        assert_eq!((records.len(), end), (0, Event::End), "{at}: {records:?}");
        self.connections.insert(request.connection, events.into_http());
    }

    /// SPEC, 2025 era: DELETE ends the session's stream. The other requests of a session go on.
    fn end_deleted(&mut self) {
        let streams = |open: &Open| open.request.method == "GET";
        let (streams, open) = std::mem::take(&mut self.open).into_iter().partition(streams);
        self.open = open;
        for Open { at, request, mut events, .. } in streams {
            check_stream(&at, request, &mut events);
            let (records, end) = events.rest(SOON);
            assert_eq!((records.len(), end), (0, Event::End), "{at}: {records:?}");
        }
    }
}

/// What a stream for notifications has said by its end.
fn check_stream(at: &str, request: &Request, events: &mut Events) {
    let mut expected = Vec::new();
    let listens = request.message["method"] == "subscriptions/listen";
    if listens {
        expected.push("notifications/subscriptions/acknowledged");
    }
    if request.saw_list_changed {
        expected.push("notifications/tools/list_changed");
    }
    for method in expected {
        let message = events.next_message(SOON);
        assert_eq!(message["method"], method, "{at}: {message}");
        // The listen request's ID is on everything its stream brings, and nowhere else.
        let id = &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        let expected = if listens { &request.message["id"] } else { &Value::Null };
        assert_eq!(id, expected, "{at}: {message}");
    }
}

/// Compares one response with the row's outcome, and its value where the request determines it.
fn check(at: &str, request: &Request, outcome: Outcome, message: &Value) {
    let shown = brief(message);
    let result = &message["result"];
    match outcome {
        Outcome::Error(code) => return assert_eq!(message["error"]["code"], code, "{at}: {shown}"),
        Outcome::ToolError => assert_eq!(result["isError"], true, "{at}: {shown}"),
        Outcome::Result => assert!(result.is_object(), "{at}: {shown}"),
        other => panic!("{at}: {other:?} has no response"),
    }
    assert_eq!(result["isError"] == true, outcome == Outcome::ToolError, "{at}: {shown}");
    let params = &request.message["params"];
    let modern = params["_meta"]["io.modelcontextprotocol/protocolVersion"].is_string();
    let result_type = if modern { json!("complete") } else { Value::Null };
    assert_eq!(result["resultType"], result_type, "{at}: {shown}");
    match (request.message["method"].as_str(), params["name"].as_str()) {
        (Some("initialize"), _) => {
            // rmcp asks for a version of the other era; every other recorded agent for this one.
            assert_eq!(result["protocolVersion"], "2025-11-25", "{at}: {shown}");
        }
        (Some("server/discover"), _) => {
            assert_eq!(result["supportedVersions"], json!(["2026-07-28"]), "{at}: {shown}");
        }
        (Some("tools/list"), _) => {
            let tools = result["tools"].as_array().unwrap_or_else(|| panic!("{at}: {shown}"));
            let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
            for tool in ["echo", "slow", "mutate", "fail", "progress"] {
                assert!(names.contains(&tool), "{at}: no {tool} in {names:?}");
            }
        }
        (Some("tools/call"), Some("echo")) => {
            let same = result["content"][0]["text"] == params["arguments"]["text"];
            assert!(same, "{at}: another text: {shown}");
        }
        _ => {}
    }
}

/// At most 300 characters of a message.
fn brief(message: &Value) -> String {
    message.to_string().chars().take(300).collect()
}
