//! Words for tests that care about bytes: requests and messages are written as raw JSON text, and
//! members of what comes back are cut out of it unchanged, because a parser would hide `1e400`,
//! order and blanks.
//!
//! Stands on the rest of `support`: `Desk` is one client ID at a bridge, `Ask` an HTTP request to
//! it, `Answer` a whole response and `Stream` one that is still coming, `Client` the other side.
//! Every wait ends by itself, and everything shows itself in a failure.

#![allow(dead_code)] // shared by several test binaries, none of which uses all of it

use std::fmt;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{self, Bridge, Event, Events, Heard, Http, Request, Response, Token, shown};

/// A tool without parameters.
pub const ADD: &str = r#"{"name":"add","description":"Adds","inputSchema":{"type":"object"}}"#;

/// A register with resources that may be subscribed.
pub const SUB: &str =
    r#"{"type":"register","resources":[{"uri":"x://1","name":"one"}],"subscribe":true}"#;

/// What opens a 2025-era session.
pub const INITIALIZE: &str =
    r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}"#;

/// How long an answer may take; the longest planned wait is half of it.
const PATIENCE: Duration = Duration::from_secs(10);

/// A register of these raw tool definitions.
pub fn register(tools: &[&str]) -> String {
    format!(r#"{{"type":"register","tools":[{}]}}"#, tools.join(","))
}

pub fn seconds(s: f64) -> Duration {
    Duration::from_secs_f64(s)
}

/// One client ID at a bridge, with tokens for both sides.
pub struct Desk<'b> {
    pub bridge: &'b Bridge,
    pub id: String,
}

impl Desk<'static> {
    /// At the bridge that all tests of a binary share.
    pub fn open() -> Desk<'static> {
        Desk::on(Bridge::shared())
    }
}

impl<'b> Desk<'b> {
    pub fn on(bridge: &'b Bridge) -> Desk<'b> {
        Desk { bridge, id: support::unique("desk") }
    }

    /// Another client ID at the same bridge.
    pub fn another(&self) -> Desk<'b> {
        Desk::on(self.bridge)
    }

    /// The same client ID at another bridge.
    pub fn moved<'c>(&self, bridge: &'c Bridge) -> Desk<'c> {
        Desk { bridge, id: self.id.clone() }
    }

    pub fn agent_token_with(&self, claim: &str, value: Value) -> String {
        Token::of(&self.id, "agent").claim(claim, value).mint()
    }

    /// A client that has joined and whose register was accepted.
    pub fn client(&self, register: &str) -> Client {
        let mut client = Client { inner: support::Client::connect(self.bridge, &self.id) };
        client.offers(register);
        client
    }

    /// As [`Desk::client`], once nobody is told of the register any more: list changes are gathered
    /// for 100 ms, and a stream opened meanwhile may still hear of them.
    pub fn settled_client(&self, register: &str) -> Client {
        let client = self.client(register);
        std::thread::sleep(Duration::from_millis(300));
        client
    }

    /// The whole answer.
    pub fn send(&self, ask: &Ask) -> Answer {
        self.begin(ask).finish()
    }

    /// The request is written, nothing is read.
    pub fn begin(&self, ask: &Ask) -> Stream {
        let mut request = Request::new(&ask.method, &self.bridge.target("/mcp"));
        if !ask.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("Authorization")) {
            request = request.bearer(&support::token(&self.id, "agent"));
        }
        for (name, value) in &ask.headers {
            request = request.with(name, value);
        }
        if let Some(body) = &ask.body {
            request = request.body(body.clone());
        }
        let mut http = Http::connect(self.bridge.addr);
        http.patience = PATIENCE;
        // A bridge may refuse a large body before it read all of it; then the answer tells.
        drop(http.try_send(request.bytes()));
        Stream { state: State::Sent(http), head: None }
    }

    /// A GET stream that has begun, with `retry` read.
    pub fn listens(&self, ask: &Ask) -> Stream {
        let mut stream = self.begin(ask);
        assert_eq!(stream.status(), 200, "{:?}", stream.head());
        assert_eq!(stream.next(2.0), Event::Retry(5000), "{:?}", stream.head());
        stream
    }

    /// A `subscriptions/listen` stream, and its first message.
    pub fn subscribes(&self, id: &str, notifications: &str) -> (Stream, String) {
        let rest = format!(r#""notifications":{notifications}"#);
        let mut stream = self.begin(&Ask::new(id, "subscriptions/listen", &rest));
        assert_eq!(stream.status(), 200, "{:?}", stream.head());
        let first = stream.event(2.0);
        (stream, first)
    }
}

/// An HTTP request to the MCP endpoint.
#[derive(Clone)]
pub struct Ask {
    method: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

impl Ask {
    fn of(method: &str) -> Ask {
        Ask { method: method.to_owned(), headers: Vec::new(), body: None }
    }

    /// A POST of these bytes that takes JSON and event streams, and says nothing of a version.
    pub fn bytes(body: &[u8]) -> Ask {
        let mut ask = Ask::of("POST")
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream");
        ask.body = Some(body.to_vec());
        ask
    }

    pub fn post(body: &str) -> Ask {
        Ask::bytes(body.as_bytes())
    }

    pub fn get() -> Ask {
        Ask::of("GET").header("Accept", "text/event-stream")
    }

    pub fn delete() -> Ask {
        Ask::of("DELETE")
    }

    /// A 2025-era request with this raw ID and these raw parameters.
    pub fn old(id: &str, method: &str, params: &str) -> Ask {
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        Ask::post(&body).header("MCP-Protocol-Version", "2025-11-25")
    }

    /// A 2026-era request with all it needs but `Mcp-Name`; `rest` are raw members besides `_meta`.
    pub fn new(id: &str, method: &str, rest: &str) -> Ask {
        Ask::new_meta(id, method, "", rest)
    }

    /// As [`Ask::new`], with more raw members of `_meta`.
    pub fn new_meta(id: &str, method: &str, meta: &str, rest: &str) -> Ask {
        Ask::new_capable(id, method, "{}", meta, rest)
    }

    /// As [`Ask::new_meta`], with raw client capabilities.
    pub fn new_capable(id: &str, method: &str, capable: &str, meta: &str, rest: &str) -> Ask {
        let comma = |members: &str| if members.is_empty() { "" } else { "," };
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{capable}{}{meta}}}{}{rest}}}}}"#,
            comma(meta),
            comma(rest)
        );
        Ask::post(&body).header("MCP-Protocol-Version", "2026-07-28").header("Mcp-Method", method)
    }

    /// A 2026-era `tools/call` with these raw arguments.
    pub fn call_new(id: &str, tool: &str, arguments: &str) -> Ask {
        let rest = format!(r#""name":"{tool}","arguments":{arguments}"#);
        Ask::new(id, "tools/call", &rest).header("Mcp-Name", tool)
    }

    /// A 2025-era `tools/call` with these raw arguments.
    pub fn call_old(id: &str, tool: &str, arguments: &str) -> Ask {
        Ask::old(id, "tools/call", &format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#))
    }

    /// A `notifications/cancelled` of the 2025 era for this raw request ID.
    pub fn cancelled(id: &str) -> Ask {
        Ask::post(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"changed my mind"}}}}"#
        ))
        .header("MCP-Protocol-Version", "2025-11-25")
    }

    /// Sets a header, in place of any of that name.
    pub fn header(self, name: &str, value: &str) -> Ask {
        self.without(name).also(name, value)
    }

    /// Adds a header line, also when there is one of that name.
    pub fn also(mut self, name: &str, value: &str) -> Ask {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn without(mut self, name: &str) -> Ask {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self
    }

    pub fn bearer(self, token: &str) -> Ask {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    pub fn session(self, id: &str) -> Ask {
        self.header("Mcp-Session-Id", id)
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = self.body.as_deref().unwrap_or_default();
        write!(f, "{} {:?} {}", self.method, self.headers, shown(body))
    }
}

/// A response that is still coming. Dropping it hangs up.
pub struct Stream {
    state: State,
    head: Option<Response>,
}

enum State {
    Sent(Http),
    Events(Events),
    Over,
}

impl Stream {
    /// The head; waits for it.
    pub fn head(&mut self) -> &Response {
        if let (None, State::Sent(http)) = (&self.head, &mut self.state) {
            self.head = Some(http.read_head());
        }
        self.head.as_ref().expect("read above, and before any other state")
    }

    pub fn status(&mut self) -> u16 {
        self.head().status
    }

    pub fn content_type(&mut self) -> String {
        self.head().media_type()
    }

    pub fn header(&mut self, name: &str) -> Option<String> {
        self.head().header(name).map(str::to_owned)
    }

    fn events(&mut self) -> &mut Events {
        self.head();
        if let State::Sent(_) = self.state {
            let State::Sent(http) = std::mem::replace(&mut self.state, State::Over) else {
                unreachable!("matched in the line above")
            };
            let head = self.head.as_ref().expect("read above");
            self.state = State::Events(http.events(head));
        }
        let State::Events(events) = &mut self.state else { panic!("the stream is over") };
        events
    }

    /// The next thing on the event stream.
    pub fn next(&mut self, within: f64) -> Event {
        self.events().next(seconds(within))
    }

    /// The next event's data; comments are skipped, anything else fails.
    pub fn event(&mut self, within: f64) -> String {
        self.events().next_data(seconds(within))
    }

    /// Everything but comments until the deadline or the end.
    pub fn events_for(&mut self, time: f64) -> (Vec<String>, Event) {
        self.events().rest(seconds(time))
    }

    /// Fails when a message comes, or the stream ends.
    pub fn hears_no_event(&mut self, time: f64) {
        self.events().expects_no_message(seconds(time));
    }

    /// Fails unless the stream ends in order, without another message.
    pub fn ends_within(&mut self, time: f64) {
        let (records, end) = self.events().rest(seconds(time));
        assert_eq!((&records[..], end), (&[][..], Event::End), "the stream ends in order");
    }

    /// All of what is left.
    pub fn finish(mut self) -> Answer {
        let mut head = self.head().clone();
        match self.state {
            State::Sent(mut http) => {
                let read = http.read_body(&mut head);
                assert!(read.is_ok(), "the body ends in order, not {read:?}: {head:?}");
                let events = match head.is_event_stream() {
                    true => data_of(head.text()),
                    false => Vec::new(),
                };
                Answer { status: head.status, body: head.body.clone(), head, events }
            }
            State::Events(mut events) => {
                let (records, end) = events.rest(PATIENCE);
                assert_eq!(end, Event::End, "the stream ends in order, after {records:?}");
                Answer { status: head.status, body: Vec::new(), head, events: records }
            }
            State::Over => panic!("finished already"),
        }
    }

    /// Hangs up with a reset in place of a FIN.
    pub fn resets(self) {
        match self.state {
            State::Sent(http) => http.reset(),
            State::Events(events) => events.reset(),
            State::Over => {}
        }
    }
}

/// The data of each event in a whole stream.
fn data_of(text: &str) -> Vec<String> {
    let mut events = Vec::new();
    let mut data: Option<String> = None;
    for line in text.lines() {
        if line.is_empty() {
            events.extend(data.take());
        } else if let Some(value) = line.strip_prefix("data:") {
            let value = value.strip_prefix(' ').unwrap_or(value);
            match &mut data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => data = Some(value.to_owned()),
            }
        }
    }
    assert!(data.is_none(), "the last event is not ended by an empty line: {text:?}");
    events
}

/// A whole response.
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
    head: Response,
    events: Vec<String>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    pub fn content_type(&self) -> String {
        self.head.media_type()
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap_or_else(|e| panic!("{e} in {self}"))
    }

    /// The data of each event.
    pub fn events(&self) -> Vec<String> {
        self.events.clone()
    }

    /// The texts of all JSON-RPC messages: of each event, or the body.
    fn texts(&self) -> Vec<String> {
        match (self.head.is_event_stream(), self.body.is_empty()) {
            (true, _) => self.events.clone(),
            (false, true) => Vec::new(),
            (false, false) => vec![self.text().to_owned()],
        }
    }

    /// All JSON-RPC messages.
    pub fn messages(&self) -> Vec<Value> {
        let parse = |text: &String| {
            serde_json::from_str(text).unwrap_or_else(|e| panic!("{e} in {text:?}"))
        };
        self.texts().iter().map(parse).collect()
    }

    /// The text of the one message there is.
    pub fn only_message(&self) -> String {
        let mut texts = self.texts();
        assert_eq!(texts.len(), 1, "exactly one message: {self}");
        texts.remove(0)
    }

    /// The one message there is.
    pub fn only_json(&self) -> Value {
        self.messages().pop().unwrap_or_else(|| panic!("no message: {self}"))
    }

    /// The body, or the one message of the stream.
    pub fn json(&self) -> Value {
        let text = self.only_message();
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e} in {self}"))
    }

    /// A member of the last message, byte for byte.
    pub fn raw(&self, name: &str) -> Option<String> {
        member(self.texts().last()?, name)
    }

    /// A member of a member, byte for byte.
    pub fn raw_path(&self, names: &[&str]) -> Option<String> {
        let mut text = self.texts().pop()?;
        for name in names {
            text = member(&text, name)?;
        }
        Some(text)
    }

    /// The code of the JSON-RPC error that the last message is.
    pub fn code(&self) -> Option<i64> {
        let code = self.raw_path(&["error", "code"])?;
        Some(code.parse().unwrap_or_else(|e| panic!("{code}: {e}: {self}")))
    }

    /// The words of the tool error that this is.
    pub fn tool_error(&self) -> String {
        let message = self.only_json();
        assert_eq!(message["result"]["isError"], true, "a tool error: {self}");
        let words = message["result"]["content"][0]["text"].as_str();
        words.unwrap_or_else(|| panic!("a tool error has words: {self}")).to_owned()
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.head)?;
        if !self.events.is_empty() {
            let events = self.events.iter().map(|e| shown(e.as_bytes()));
            write!(f, " events {:?}", events.collect::<Vec<_>>())?;
        }
        Ok(())
    }
}

/// A client that has joined.
pub struct Client {
    inner: support::Client,
}

/// A forwarded call; `params` and `agent` byte for byte.
#[derive(Debug)]
pub struct Call {
    pub id: String,
    pub method: String,
    pub params: String,
    pub agent: String,
}

impl Client {
    /// Joins without a register.
    pub fn joins(desk: &Desk, token: &str) -> Client {
        Client { inner: support::Client::connect_with_token(desk.bridge, &desk.id, token) }
    }

    pub fn says(&mut self, text: &str) {
        self.inner.send_text(text);
    }

    /// Registers, and returns the `registered`.
    pub fn offers(&mut self, register: &str) -> Value {
        self.says(register);
        let message = self.inner.next_message(PATIENCE);
        assert_eq!(message["type"], "registered", "after {register}: {message}");
        message
    }

    /// The next message, which must be a call.
    pub fn call(&mut self) -> Call {
        let text = self.inner.next_text(PATIENCE);
        assert_eq!(word(&text, "type").as_deref(), Some("call"), "expected a call: {text}");
        let cut = |name| member(&text, name).unwrap_or_else(|| panic!("no {name} in {text}"));
        let id = word(&text, "id").unwrap_or_else(|| panic!("no id in {text}"));
        assert!(!id.is_empty() && id.len() <= 64, "1 to 64 bytes: {id:?}");
        let method = word(&text, "method").unwrap_or_else(|| panic!("no method in {text}"));
        Call { id, method, params: cut("params"), agent: cut("agent") }
    }

    /// The next message, which must be the cancel of this call.
    pub fn cancel_of(&mut self, call: &Call, within: f64) -> String {
        let text = self.inner.next_text(seconds(within));
        let expected = (Some("cancel"), Some(&*call.id));
        let (kind, id) = (word(&text, "type"), word(&text, "id"));
        assert_eq!((kind.as_deref(), id.as_deref()), expected, "{text}");
        word(&text, "reason").unwrap_or_else(|| panic!("a cancel has a reason: {text}"))
    }

    pub fn answers(&mut self, id: &str, result: &str) {
        self.says(&format!(r#"{{"type":"result","id":"{id}","result":{result}}}"#));
    }

    pub fn fails(&mut self, id: &str, error: &str) {
        self.says(&format!(r#"{{"type":"error","id":"{id}","error":{error}}}"#));
    }

    pub fn notifies(&mut self, id: &str, method: &str, params: &str) {
        self.says(&format!(
            r#"{{"type":"notify","id":"{id}","method":"{method}","params":{params}}}"#
        ));
    }

    /// Fails when anything but WebSocket pings comes.
    pub fn hears_nothing(&mut self, time: f64) {
        let deadline = Instant::now() + seconds(time);
        loop {
            match self.inner.hears(deadline.saturating_duration_since(Instant::now())) {
                Heard::Quiet => return,
                Heard::Ping | Heard::Pong => {}
                other => panic!("expected nothing for {time} s, got {other:?}"),
            }
        }
    }

    /// Fails unless the connection is of use.
    pub fn is_alive(&mut self) {
        self.inner.expects_alive();
    }

    /// Waits for the close; its code and reason.
    pub fn close(&mut self) -> (u16, String) {
        self.inner.expects_close()
    }

    /// Whatever comes next.
    pub fn hears(&mut self, within: f64) -> Heard {
        self.inner.hears(seconds(within))
    }

    /// Closes in order.
    pub fn leaves(self) {
        self.inner.leaves();
    }

    /// Goes without a word.
    pub fn vanishes(self) {
        self.inner.vanishes();
    }
}

/// The value of a member of the object `text`, byte for byte, whatever way its name is spelled.
pub fn member(text: &str, name: &str) -> Option<String> {
    let members = members(text);
    let found = members.into_iter().find(|(n, _)| n == name);
    found.map(|(_, value)| value.to_owned())
}

/// The names of the members of the object `text`, in order, doubled ones too.
pub fn member_names(text: &str) -> Vec<String> {
    members(text).into_iter().map(|(name, _)| name).collect()
}

fn word(text: &str, name: &str) -> Option<String> {
    serde_json::from_str(&member(text, name)?).ok()
}

/// Splits an object at its own commas and colons. The text is taken to be JSON; what is no object
/// has no members.
fn members(text: &str) -> Vec<(String, &str)> {
    let bytes = text.trim().as_bytes();
    let text = text.trim();
    let mut found = Vec::new();
    if bytes.first() != Some(&b'{') {
        return found;
    }
    let (mut depth, mut in_string, mut escaped) = (0, false, false);
    let (mut start, mut colon) = (1, None);
    for (at, byte) in bytes.iter().enumerate() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b':' if depth == 1 && colon.is_none() => colon = Some(at),
            _ => {}
        }
        let ends = (*byte == b',' && depth == 1) || (*byte == b'}' && depth == 0);
        if let (true, Some(colon_at)) = (ends, colon) {
            let name = serde_json::from_str(text[start..colon_at].trim())
                .unwrap_or_else(|e| panic!("{e} in {text:?}"));
            found.push((name, text[colon_at + 1..at].trim()));
            (start, colon) = (at + 1, None);
        }
    }
    found
}
