//! An agent: MCP over HTTP in either era, each request on a connection of its own.
//!
//! Adds exactly the headers and `_meta` that each era asks for; everything can be taken away again
//! before sending. It answers nothing by itself and remembers only its session ID. Answers come
//! back in one shape, streamed or not.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Bridge, Event, Events, Http, Request, Response, SOON, token};

/// The 2026 era's version.
pub const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";

/// Which revision of MCP a request speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    Modern,
    Legacy,
}

/// Talks to one client ID of one bridge.
pub struct Agent<'b> {
    pub bridge: &'b Bridge,
    pub client_id: String,
    pub token: String,
    /// The era of [`Agent::calls`] and [`Agent::request`].
    pub era: Era,
    /// Sent with every request of the 2025 era, once [`Agent::initialize`] got it.
    pub session: Option<String>,
    /// What the agent declares, in either era.
    pub capabilities: Value,
    /// How long to wait for an answer.
    pub patience: Duration,
    next_id: AtomicI64,
}

impl<'b> Agent<'b> {
    /// With a fresh token; speaks the 2026 era unless told.
    pub fn new(bridge: &'b Bridge, client_id: &str) -> Agent<'b> {
        Agent::with_token(bridge, client_id, &token(client_id, "agent"))
    }

    pub fn with_token(bridge: &'b Bridge, client_id: &str, token: &str) -> Agent<'b> {
        Agent {
            bridge,
            client_id: client_id.to_owned(),
            token: token.to_owned(),
            era: Era::Modern,
            session: None,
            capabilities: json!({}),
            patience: SOON * 2,
            next_id: AtomicI64::new(0),
        }
    }

    /// The same, speaking the 2025 era from its first request on.
    pub fn speaking(mut self, era: Era) -> Agent<'b> {
        self.era = era;
        self
    }

    pub fn declaring(mut self, capabilities: Value) -> Agent<'b> {
        self.capabilities = capabilities;
        self
    }

    /// 0, 1, 2, …: as real agents count.
    pub fn next_id(&self) -> i64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// The result of `tools/call`; fails on anything else.
    pub fn calls(&self, tool: &str, arguments: Value) -> Value {
        self.call(tool, arguments).result()
    }

    /// The answer to `tools/call`.
    pub fn call(&self, tool: &str, arguments: Value) -> Answer {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The answer to any method in the agent's era.
    pub fn ask(&self, method: &str, params: Value) -> Answer {
        self.answer(&self.request(method, params))
    }

    /// The answer in the 2026 era.
    pub fn modern(&self, method: &str, params: Value) -> Answer {
        self.answer(&self.modern_request(method, params))
    }

    /// The answer in the 2025 era.
    pub fn legacy(&self, method: &str, params: Value) -> Answer {
        self.answer(&self.legacy_request(method, params))
    }

    /// The names in the answer to `tools/list`, in order.
    pub fn lists_tools(&self) -> Vec<String> {
        let result = self.ask("tools/list", json!({})).result();
        let tools = result["tools"].as_array().unwrap_or_else(|| panic!("no tools in {result}"));
        tools.iter().map(|tool| tool["name"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// `initialize` and `notifications/initialized` of the 2025 era; remembers the session ID.
    /// Returns the result.
    pub fn initialize(&mut self) -> Value {
        self.initialize_as(LEGACY)
    }

    /// As [`Agent::initialize`], asking for `version`. Later requests speak the 2025 era.
    pub fn initialize_as(&mut self, version: &str) -> Value {
        self.era = Era::Legacy;
        let params = json!({"protocolVersion": version, "capabilities": self.capabilities,
            "clientInfo": {"name": "test-agent", "version": "1"}});
        let request = self.legacy_request("initialize", params).without("MCP-Protocol-Version");
        let answer = self.answer(&request);
        let result = answer.result();
        self.session = answer.head.header("mcp-session-id").map(str::to_owned);
        let done = self.notify("notifications/initialized", json!({}));
        assert_eq!(done.status, 202, "{done:?}");
        result
    }

    /// Posts a notification in the agent's era; the raw response.
    pub fn notify(&self, method: &str, params: Value) -> Response {
        let mut request = self.request(method, params);
        let mut body: Value = request.body.as_deref().map(parsed).expect("requests have a body");
        body.as_object_mut().expect("an object").remove("id");
        request = request.json(&body);
        request.to(self.bridge)
    }

    /// A request of the agent's era with the next ID.
    pub fn request(&self, method: &str, params: Value) -> Request {
        match self.era {
            Era::Modern => self.modern_request(method, params),
            Era::Legacy => self.legacy_request(method, params),
        }
    }

    /// A well-formed request of the 2026 era: version and method headers, `Mcp-Name` where it
    /// belongs, `_meta`. Members of a `_meta` in `params` win over the usual ones.
    pub fn modern_request(&self, method: &str, params: Value) -> Request {
        let name = match method {
            "tools/call" | "prompts/get" => params["name"].as_str().map(sentinel),
            "resources/read" => params["uri"].as_str().map(sentinel),
            _ => None,
        };
        let mut params = params;
        let members = params.as_object_mut().expect("params of the 2026 era are an object");
        let mut meta = version_meta(&self.capabilities);
        if let Some(Value::Object(own)) = members.remove("_meta") {
            meta.as_object_mut().expect("made as an object").extend(own);
        }
        members.insert("_meta".to_owned(), meta);
        let body =
            json!({"jsonrpc": "2.0", "id": self.next_id(), "method": method, "params": params});
        let request =
            self.post(&body).with("MCP-Protocol-Version", MODERN).with("Mcp-Method", method);
        match name {
            Some(name) => request.with("Mcp-Name", &name),
            None => request,
        }
    }

    /// A well-formed request of the 2025 era, with the session ID when there is one.
    pub fn legacy_request(&self, method: &str, params: Value) -> Request {
        let mut body = json!({"jsonrpc": "2.0", "id": self.next_id(), "method": method});
        if !params.is_null() {
            body["params"] = params;
        }
        let request = self.post(&body).with("MCP-Protocol-Version", LEGACY);
        match &self.session {
            Some(session) => request.with("Mcp-Session-Id", session),
            None => request,
        }
    }

    /// Any JSON to the endpoint, with token, `Accept` and `Content-Type` and no header of MCP.
    pub fn post(&self, body: &Value) -> Request {
        self.bare("POST").with("Accept", "application/json, text/event-stream").json(body)
    }

    /// The endpoint with the token, nothing else.
    pub fn bare(&self, method: &str) -> Request {
        Request::new(method, &self.bridge.target("/mcp")).bearer(&self.token)
    }

    /// Sends it and reads the whole answer.
    pub fn answer(&self, request: &Request) -> Answer {
        self.read_answer(request.sent_to(self.bridge))
    }

    /// Reads the whole answer of a request that was sent.
    pub fn read_answer(&self, mut http: Http) -> Answer {
        http.patience = self.patience;
        let mut head = http.read_head();
        if head.is_event_stream() {
            let (records, end) = http.events(&head).rest(self.patience);
            assert_eq!(end, Event::End, "after {records:?} of {head:?}");
            return Answer { head, records, streamed: true };
        }
        if let Err(trouble) = http.read_body(&mut head) {
            panic!("no body: {trouble:?} after {head:?}");
        }
        let records = match head.body.is_empty() {
            true => Vec::new(),
            false => vec![head.text().to_owned()],
        };
        Answer { head, records, streamed: false }
    }

    /// Sends it and returns the stream that answers it; fails when the answer is none.
    pub fn stream(&self, request: &Request) -> Events {
        let mut http = request.sent_to(self.bridge);
        http.patience = self.patience;
        let head = http.read_head();
        assert_eq!(head.status, 200, "{head:?}");
        http.events(&head)
    }

    /// Opens the 2025 era's notification stream.
    pub fn opens_stream(&self) -> Events {
        let mut request = self.bare("GET").with("Accept", "text/event-stream");
        request = request.with("MCP-Protocol-Version", LEGACY);
        if let Some(session) = &self.session {
            request = request.with("Mcp-Session-Id", session);
        }
        self.stream(&request)
    }

    /// Opens a `subscriptions/listen` stream with this filter and takes the acknowledgment off it.
    pub fn listens(&self, filter: Value) -> (Events, Value) {
        let request = self.modern_request("subscriptions/listen", json!({"notifications": filter}));
        let mut events = self.stream(&request);
        let acknowledgment = events.next_message(SOON);
        (events, acknowledgment)
    }
}

/// The `_meta` that every 2026-era request carries.
pub fn version_meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "test-agent", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("we wrote it as JSON")
}

/// A value for `Mcp-Name`: as it is where a header can carry it, else in the Base64 form.
fn sentinel(value: &str) -> String {
    let plain = value.bytes().all(|b| (0x20..0x7f).contains(&b))
        && value.trim() == value
        && !value.starts_with("=?base64?");
    match plain {
        true => value.to_owned(),
        false => format!("=?base64?{}?=", data_encoding::BASE64.encode(value.as_bytes())),
    }
}

/// A whole answer: the head, and each JSON-RPC message as the text it came in.
#[derive(Debug)]
pub struct Answer {
    pub head: Response,
    /// One for a JSON body, one per event of a stream, none for an empty body.
    pub records: Vec<String>,
    pub streamed: bool,
}

impl Answer {
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// All messages.
    pub fn messages(&self) -> Vec<Value> {
        let parse = |text: &String| {
            serde_json::from_str(text).unwrap_or_else(|e| panic!("{e} in {self:?}"))
        };
        self.records.iter().map(parse).collect()
    }

    /// The last message, which is the response.
    pub fn response(&self) -> Value {
        let last = self.messages().pop().unwrap_or_else(|| panic!("no message in {self:?}"));
        assert!(last.get("method").is_none(), "the last message is no response: {self:?}");
        last
    }

    /// The messages before the response.
    pub fn notifications(&self) -> Vec<Value> {
        let mut messages = self.messages();
        messages.pop();
        messages
    }

    /// The response's result, with HTTP 200; fails on anything else.
    pub fn result(&self) -> Value {
        assert_eq!(self.status(), 200, "{self:?}");
        let response = self.response();
        let result = response.get("result");
        result.unwrap_or_else(|| panic!("expected a result, got {self:?}")).clone()
    }

    /// The response's error object; fails when there is none.
    pub fn error(&self) -> Map<String, Value> {
        let response = self.response();
        let error = response.get("error").and_then(Value::as_object);
        error.unwrap_or_else(|| panic!("expected an error, got {self:?}")).clone()
    }

    /// HTTP status and JSON-RPC error code, the two halves of a refusal.
    pub fn refusal(&self) -> (u16, i64) {
        let error = self.error();
        let code = error.get("code").and_then(Value::as_i64);
        (self.status(), code.unwrap_or_else(|| panic!("no code in {self:?}")))
    }

    /// The words of a tool error (`isError: true`); fails on anything else.
    pub fn tool_error(&self) -> String {
        let result = self.result();
        assert_eq!(result["isError"], json!(true), "expected a tool error, got {self:?}");
        let text = result["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("no text in {self:?}")).to_owned()
    }

    /// The text of the first content of a tool result that is no error.
    pub fn text(&self) -> String {
        let result = self.result();
        assert_ne!(result["isError"], json!(true), "{self:?}");
        let text = result["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("no text in {self:?}")).to_owned()
    }
}
