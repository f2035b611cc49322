//! What an agent is sent: complete responses of the bridge's own, and a client's reply framed for its era.
//!
//! An HTTP answer is data here, so that any runtime can carry it. The bridge's own texts are small and
//! owned; a client's result stays a slice of the message it came in, with the members that the era
//! demands put around it.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::agent::Listen;
use crate::fault::{Fault, Trouble};
use crate::json;
use crate::mcp::{Changes, Era, Forwarded, meta};
use crate::reply::Shape;
use crate::span::Span;

/// A complete HTTP answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// `None` when there is no body.
    pub content_type: Option<&'static str>,
    /// Further fields, without `Content-Type` and `Content-Length`.
    pub headers: Vec<(&'static str, String)>,
    /// The whole body; empty when there is no content type.
    pub body: String,
}

/// The media type of an answer that is one JSON text (RFC 8259 §11).
pub const JSON: &str = "application/json";
/// The media type of a stream of Server-Sent Events (WHATWG HTML, Server-sent events).
pub const EVENT_STREAM: &str = "text/event-stream";
const TEXT: &str = "text/plain; charset=utf-8";

impl Response {
    /// No body: 202 for what is only taken, 204 for what is done.
    pub fn empty(status: u16) -> Response {
        Response { status, content_type: None, headers: Vec::new(), body: String::new() }
    }

    /// A JSON text that is complete.
    pub fn json(status: u16, body: String) -> Response {
        Response { status, content_type: Some(JSON), headers: Vec::new(), body }
    }

    /// One line of plain text, for what is not MCP.
    pub fn text(status: u16, line: &str) -> Response {
        let body = alloc::format!("{line}\n");
        Response { status, content_type: Some(TEXT), headers: Vec::new(), body }
    }

    /// Adds a header field; one of the same name stays too.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Response {
        self.headers.push((name, value.into()));
        self
    }

    /// The fault as an HTTP answer, with the headers its status asks for (RFC 9110 §11.6.1, §10.2.3;
    /// RFC 6750 §3).
    pub fn fault(era: Era, id: Option<&str>, fault: &Fault) -> Response {
        // A refusal of HTTP's own has no JSON-RPC request it answers.
        let status = fault.status(era);
        let id = id.filter(|_| !matches!(status, 401 | 403 | 406 | 413 | 415));
        let response = Response::json(status, error(id, fault));
        match fault {
            Fault::Unauthorized(None) => response.with("WWW-Authenticate", "Bearer"),
            Fault::Unauthorized(Some(what)) => response.with(
                "WWW-Authenticate",
                alloc::format!(
                    r#"Bearer error="invalid_token", error_description="{}""#,
                    quotable(what)
                ),
            ),
            Fault::InsufficientScope => response.with(
                "WWW-Authenticate",
                r#"Bearer error="insufficient_scope", error_description="the scope `agent` is needed", scope="agent""#,
            ),
            Fault::TooManyStreams(_) | Fault::TooManyConnections | Fault::Overloaded => {
                response.with("Retry-After", "5")
            }
            Fault::Draining => response.with("Retry-After", "2"),
            _ => response,
        }
    }
}

/// RFC 6750 §3: an `error_description` has no quotes, no backslashes and only printable ASCII.
fn quotable(text: &str) -> String {
    let plain = |c: char| matches!(c, ' '..='~') && c != '"' && c != '\\';
    text.chars().map(|c| if plain(c) { c } else { '\'' }).collect()
}

/// A JSON-RPC error response; without an `id` when the request's could not be read.
pub fn error(id: Option<&str>, fault: &Fault) -> String {
    let mut text = begin(id);
    text.push_str(&alloc::format!(r#","error":{{"code":{},"message":"#, fault.code()));
    json::quote(&fault.to_string(), &mut text);
    if let Some(data) = fault.data() {
        text.push_str(r#","data":"#);
        text.push_str(&data);
    }
    text.push_str("}}");
    text
}

/// A JSON-RPC result response with a result of the bridge's own.
pub fn result(id: &str, result: &str) -> String {
    let mut text = begin(Some(id));
    text.push_str(r#","result":"#);
    text.push_str(result);
    text.push('}');
    text
}

fn begin(id: Option<&str>) -> String {
    match id {
        Some(id) => alloc::format!(r#"{{"jsonrpc":"2.0","id":{id}"#),
        None => String::from(r#"{"jsonrpc":"2.0""#),
    }
}

/// Builds a result of the bridge's own with what its era demands (MCP 2026-07-28, Basic, Results;
/// Server, Caching).
pub struct ResultBuilder<'a> {
    text: String,
    era: Era,
    server_info: &'a str,
}

impl<'a> ResultBuilder<'a> {
    /// `server_info` is a raw `Implementation`.
    pub fn new(era: Era, server_info: &'a str) -> ResultBuilder<'a> {
        let text = match era {
            Era::Legacy => String::from("{"),
            Era::Modern => String::from(r#"{"resultType":"complete""#),
        };
        ResultBuilder { text, era, server_info }
    }

    /// Adds a member: a name that needs no escaping, and a raw value.
    pub fn raw(mut self, name: &str, raw: &str) -> Self {
        if self.text.len() > 1 {
            self.text.push(',');
        }
        self.text.push_str(&alloc::format!("\"{name}\":"));
        self.text.push_str(raw);
        self
    }

    /// How long the agent may keep this result, in milliseconds, and only for itself.
    pub fn cacheable(self, ttl_ms: u64) -> Self {
        match self.era {
            Era::Legacy => self,
            Era::Modern => self.raw("ttlMs", &ttl_ms.to_string()).raw("cacheScope", r#""private""#),
        }
    }

    /// The raw result object; in the 2026 era with the server's identity in its `_meta`.
    pub fn finish(self) -> String {
        let mut built = match self.era {
            Era::Legacy => self,
            Era::Modern => {
                let meta = alloc::format!(r#"{{"{}":{}}}"#, meta::SERVER_INFO, self.server_info);
                self.raw("_meta", &meta)
            }
        };
        built.text.push('}');
        built.text
    }
}

/// What became of a call that got no reply, as the agent is told: a tool error the model can read, or
/// a JSON-RPC error for the methods whose result knows no `isError`.
pub fn trouble(
    era: Era,
    id: &str,
    method: Forwarded,
    trouble: Trouble,
    server_info: &str,
) -> String {
    match method {
        Forwarded::CallTool => tool_error(era, id, &trouble.to_string(), server_info),
        _ => error(Some(id), &Fault::Failed(trouble)),
    }
}

/// A tool result with `isError` and one text.
pub fn tool_error(era: Era, id: &str, message: &str, server_info: &str) -> String {
    let mut content = String::from(r#"[{"type":"text","text":"#);
    json::quote(message, &mut content);
    content.push_str("}]");
    let built =
        ResultBuilder::new(era, server_info).raw("content", &content).raw("isError", "true");
    result(id, &built.finish())
}

/// A piece of an answer: text of our own, or a slice of the client's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The bridge's.
    Own(Cow<'static, str>),
    /// The client's, in the message that the pieces were made for.
    Kept(Span),
}

impl Piece {
    /// The text of the piece; `message` is the one that the pieces were made for.
    pub fn of<'a>(&'a self, message: &'a str) -> &'a str {
        match self {
            Piece::Own(text) => text,
            Piece::Kept(span) => span.of(message),
        }
    }
}

/// Frames a client's result as a JSON-RPC response. The client's bytes are untouched; in the 2026 era
/// the members that it left out are put in front of its own.
pub fn framed(
    era: Era,
    id: &str,
    method: Forwarded,
    shape: &Shape,
    server_info: &str,
) -> Vec<Piece> {
    let mut head = String::with_capacity(id.len() + server_info.len() + 128);
    head.push_str(r#"{"jsonrpc":"2.0","id":"#);
    head.push_str(id);
    head.push_str(r#","result":"#);
    let mut pieces = Vec::with_capacity(6);
    if era == Era::Legacy {
        pieces.push(Piece::Own(head.into()));
        pieces.push(Piece::Kept(shape.result));
        pieces.push(Piece::Own("}".into()));
        return pieces;
    }
    // Everything of ours goes in right behind the opening brace.
    head.push('{');
    let empty = head.len();
    let mut put = |member: &[&str]| {
        if head.len() > empty {
            head.push(',');
        }
        member.iter().for_each(|part| head.push_str(part));
    };
    if shape.result_type.is_none() {
        put(&[r#""resultType":"complete""#]);
    }
    if method == Forwarded::ReadResource && !shape.input_required {
        if !shape.has_ttl {
            put(&[r#""ttlMs":0"#]);
        }
        if !shape.has_scope {
            put(&[r#""cacheScope":"private""#]);
        }
    }
    if shape.meta.is_none() && !shape.has_foreign_meta {
        put(&[r#""_meta":{""#, meta::SERVER_INFO, "\":", server_info, "}"]);
    }
    let first = head.len() == empty;
    if !first && !shape.is_empty {
        head.push(',');
    }
    pieces.push(Piece::Own(head.into()));
    let body = shape.result.start() + 1;
    match shape.meta {
        Some(ref found) if !found.has_server_info => {
            let inside = found.span.start() + 1;
            let comma = if found.is_empty { "" } else { "," };
            pieces.push(Piece::Kept(Span::new(body, inside)));
            pieces.push(Piece::Own(
                alloc::format!(r#""{}":{server_info}{comma}"#, meta::SERVER_INFO).into(),
            ));
            pieces.push(Piece::Kept(Span::new(inside, shape.result.end())));
        }
        _ => pieces.push(Piece::Kept(Span::new(body, shape.result.end()))),
    }
    pieces.push(Piece::Own("}".into()));
    pieces
}

/// Frames a client's error as a JSON-RPC response: code, message and data as they came.
pub fn framed_error(id: &str, error: Span) -> Vec<Piece> {
    let mut head = begin(Some(id));
    head.push_str(r#","error":"#);
    alloc::vec![Piece::Own(head.into()), Piece::Kept(error), Piece::Own("}".into())]
}

/// The HTTP status for a client's error code, while nothing has been streamed.
pub fn error_status(era: Era, code: i64) -> u16 {
    match (era, code) {
        (Era::Modern, -32601) => 404,
        (Era::Modern, -32022..=-32020) => 400,
        _ => 200,
    }
}

/// The first message of a `subscriptions/listen` stream: what it will be told (MCP 2026-07-28,
/// Subscriptions, Acknowledgment). Every known kind is honoured, because a client may come to offer it.
pub fn acknowledged(listen: &Listen) -> String {
    let mut wanted = Vec::new();
    for (change, name) in [
        (Changes::TOOLS, "toolsListChanged"),
        (Changes::PROMPTS, "promptsListChanged"),
        (Changes::RESOURCES, "resourcesListChanged"),
    ] {
        if listen.wants.has(change) {
            wanted.push(alloc::format!("\"{name}\":true"));
        }
    }
    if !listen.uris.is_empty() {
        let mut uris = String::from(r#""resourceSubscriptions":["#);
        for (at, uri) in listen.uris.iter().enumerate() {
            if at > 0 {
                uris.push(',');
            }
            json::quote(uri, &mut uris);
        }
        uris.push(']');
        wanted.push(uris);
    }
    alloc::format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"{}":{}}},"notifications":{{{}}}}}}}"#,
        meta::SUBSCRIPTION_ID,
        listen.subscription.as_deref().unwrap_or("null"),
        wanted.join(",")
    )
}

/// The result that ends a `subscriptions/listen` stream gracefully; `id` is the request's.
pub fn listen_result(id: &str, server_info: &str) -> String {
    let members = alloc::format!(
        r#"{{"resultType":"complete","_meta":{{"{}":{id},"{}":{server_info}}}}}"#,
        meta::SUBSCRIPTION_ID,
        meta::SERVER_INFO
    );
    result(id, &members)
}

/// A notification of the bridge's own; `subscription` is the raw ID of the listen request it belongs to.
pub fn notification(method: &str, subscription: Option<&str>, uri: Option<&str>) -> String {
    let mut text = alloc::format!(r#"{{"jsonrpc":"2.0","method":"{method}""#);
    let meta =
        subscription.map(|id| alloc::format!(r#""_meta":{{"{}":{id}}}"#, meta::SUBSCRIPTION_ID));
    let uri = uri.map(|uri| {
        let mut member = String::from(r#""uri":"#);
        json::quote(uri, &mut member);
        member
    });
    let members: Vec<String> = meta.into_iter().chain(uri).collect();
    if !members.is_empty() {
        text.push_str(&alloc::format!(r#","params":{{{}}}"#, members.join(",")));
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests;
