//! The client's end of a channel: what a bridge may say, how it is answered, and what to do next.
//!
//! Here are the messages. `line` watches one connection's clocks, `redial` says whether and when a
//! client comes back. For `clientmcp::client`, the demo client and the tests; nothing here offers
//! anything by itself, opens a socket or reads a clock.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::json;
use crate::limits::{MESSAGE_BYTES_MAX, PING_INTERVAL};

mod line;
mod redial;

#[cfg(test)]
mod tests;

pub use line::{Line, Tick};
pub use redial::{Backoff, Ending, after_close, token_ends_at};

/// One message of a bridge.
#[derive(Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// The register was accepted; `refused` is the raw list of what was left out. A `pingIntervalMs`
    /// that is missing or less than a second is taken for the usual one.
    Registered {
        /// A raw array of objects with `path` and `message`.
        refused: &'a str,
        ping_every: Duration,
    },
    /// Do this and answer under this ID. `params` and `agent` are raw.
    Call {
        /// Names the call in everything said about it; opaque.
        id: Cow<'a, str>,
        /// One of the four forwarded methods of MCP.
        method: Cow<'a, str>,
        /// What the agent sent, verbatim.
        params: &'a str,
        /// What is known about the agent: `protocolVersion`, and perhaps more.
        agent: &'a str,
    },
    /// Nobody waits for this call any more.
    Cancel {
        /// The ID it was sent with.
        id: Cow<'a, str>,
        /// Why, in words.
        reason: Cow<'a, str>,
    },
    /// Why the close that follows happens, and where in the message the trouble is.
    Fault {
        /// The code of the close.
        code: i64,
        /// The full reason, where the close's own may be cut.
        message: Cow<'a, str>,
        path: Option<Cow<'a, str>>,
    },
    /// The answer to a ping.
    Pong,
    /// A message of a kind this version does not know; to be ignored.
    Unknown,
}

/// Reads one text message of a bridge; `None` when it is no object with a `type`.
pub fn read(text: &str) -> Option<Message<'_>> {
    let members = json::members(text).ok()?;
    let get = |name: &str| members.iter().find(|(key, _)| key == name).map(|(_, raw)| *raw);
    let string = |name: &str| get(name).and_then(json::string);
    Some(match string("type")?.as_ref() {
        "registered" => Message::Registered {
            refused: get("refused").unwrap_or("[]"),
            ping_every: get("pingIntervalMs")
                .and_then(|ms| ms.parse().ok())
                .filter(|ms| *ms >= 1000)
                .map_or(PING_INTERVAL, Duration::from_millis),
        },
        "call" => Message::Call {
            id: string("id")?,
            method: string("method")?,
            params: get("params").unwrap_or("{}"),
            agent: get("agent").unwrap_or("{}"),
        },
        "cancel" => {
            Message::Cancel { id: string("id")?, reason: string("reason").unwrap_or_default() }
        }
        "fault" => Message::Fault {
            code: get("code").and_then(|code| code.parse().ok()).unwrap_or_default(),
            message: string("message").unwrap_or_default(),
            path: string("path"),
        },
        "pong" => Message::Pong,
        _ => Message::Unknown,
    })
}

/// What a client offers, as raw JSON. A list that is `None` is not offered at all; an empty one is
/// offered and has nothing in it yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Register {
    /// `{"name","version",…}` of the application.
    pub server: Option<String>,
    pub instructions: Option<String>,
    pub tools: Option<Vec<String>>,
    pub prompts: Option<Vec<String>>,
    pub resources: Option<Vec<String>>,
    pub resource_templates: Option<Vec<String>>,
    /// `completion/complete` is answered.
    pub completions: bool,
    /// `notifications/resources/updated` will be sent.
    pub subscribe: bool,
}

impl Register {
    /// The message. Its parts are put in as they are: what is no JSON there is none here, and the
    /// bridge says so.
    pub fn text(&self) -> String {
        let mut text = String::from(r#"{"type":"register""#);
        if let Some(server) = &self.server {
            text.push_str(r#","server":"#);
            text.push_str(server);
        }
        if let Some(instructions) = &self.instructions {
            text.push_str(r#","instructions":"#);
            json::quote(instructions, &mut text);
        }
        for (name, list) in [
            ("tools", &self.tools),
            ("prompts", &self.prompts),
            ("resources", &self.resources),
            ("resourceTemplates", &self.resource_templates),
        ] {
            if let Some(list) = list {
                text.push_str(&format!(r#","{name}":["#));
                text.push_str(&list.join(","));
                text.push(']');
            }
        }
        for (name, set) in [("completions", self.completions), ("subscribe", self.subscribe)] {
            if set {
                text.push_str(&format!(r#","{name}":true"#));
            }
        }
        text.push('}');
        text
    }
}

/// Answers a call with a raw MCP result object.
///
/// A result that would not fit one message becomes a tool error, so that one large answer does not cost
/// the connection and every other call on it.
pub fn result(id: &str, result: &str) -> String {
    let text = message("result", id, result);
    if text.len() <= MESSAGE_BYTES_MAX {
        return text;
    }
    message("result", id, &tool_error(&too_large("result", text.len())))
}

/// Answers a call with a JSON-RPC error.
pub fn error(id: &str, code: i64, words: &str) -> String {
    message("error", id, &error_object(code, words))
}

/// Answers a call with a raw JSON-RPC error object; one that would not fit a message loses its text.
pub fn raw_error(id: &str, error: &str) -> String {
    let text = message("error", id, error);
    if text.len() <= MESSAGE_BYTES_MAX {
        return text;
    }
    self::error(id, -32603, &too_large("error", text.len()))
}

/// A raw JSON-RPC error object.
pub fn error_object(code: i64, words: &str) -> String {
    let mut error = format!(r#"{{"code":{code},"message":"#);
    json::quote(words, &mut error);
    error.push('}');
    error
}

/// A notification: of the running call `id`, or of no call. `None` when it does not fit a message;
/// a notification is not worth a connection.
pub fn notify(id: Option<&str>, method: &str, params: &str) -> Option<String> {
    let mut text = String::from(r#"{"type":"notify","method":"#);
    json::quote(method, &mut text);
    if let Some(id) = id {
        text.push_str(r#","id":"#);
        json::quote(id, &mut text);
    }
    text.push_str(r#","params":"#);
    text.push_str(params);
    text.push('}');
    (text.len() <= MESSAGE_BYTES_MAX).then_some(text)
}

/// Hands the bridge a fresh token for the same client ID.
pub fn auth(token: &str) -> String {
    let mut text = String::from(r#"{"type":"auth","token":"#);
    json::quote(token, &mut text);
    text.push('}');
    text
}

/// A tool result with `isError` and one text.
pub fn tool_error(words: &str) -> String {
    content(words, true)
}

/// A tool result with one text.
pub fn text_result(words: &str) -> String {
    content(words, false)
}

fn too_large(what: &str, bytes: usize) -> String {
    format!(
        "The {what} is too large: with its envelope it has {bytes} bytes, a message may have {MESSAGE_BYTES_MAX}."
    )
}

fn content(words: &str, is_error: bool) -> String {
    let mut text = String::from(r#"{"content":[{"type":"text","text":"#);
    json::quote(words, &mut text);
    text.push_str("}]");
    text.push_str(if is_error { r#","isError":true}"# } else { "}" });
    text
}

fn message(kind: &str, id: &str, raw: &str) -> String {
    let mut text = format!(r#"{{"type":"{kind}","id":"#);
    json::quote(id, &mut text);
    text.push_str(&format!(r#","{kind}":"#));
    text.push_str(raw);
    text.push('}');
    text
}
