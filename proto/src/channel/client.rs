//! The client's end of a channel: what a bridge may say, and how it is answered.
//!
//! For the demo client, the client mode and the tests; it offers nothing by itself.

use alloc::borrow::Cow;
use alloc::string::String;

use crate::json;
use crate::limits::MESSAGE_BYTES_MAX;

/// One message of a bridge.
#[derive(Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// The register was accepted; `refused` is the raw list of what was left out.
    Registered {
        /// A raw array of objects with `path` and `message`.
        refused: &'a str,
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
    /// Why the close that follows happens.
    Fault {
        /// The code of the close.
        code: i64,
        /// The full reason, where the close's own may be cut.
        message: Cow<'a, str>,
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
        "registered" => Message::Registered { refused: get("refused").unwrap_or("[]") },
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
        },
        "pong" => Message::Pong,
        _ => Message::Unknown,
    })
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
    let words = alloc::format!(
        "The result is too large: with its envelope it has {} bytes, a message may have {}.",
        text.len(),
        MESSAGE_BYTES_MAX
    );
    message("result", id, &tool_error(&words))
}

/// Answers a call with a JSON-RPC error.
pub fn error(id: &str, code: i64, words: &str) -> String {
    let mut error = alloc::format!(r#"{{"code":{code},"message":"#);
    json::quote(words, &mut error);
    error.push('}');
    message("error", id, &error)
}

/// A tool result with `isError` and one text.
pub fn tool_error(words: &str) -> String {
    content(words, true)
}

/// A tool result with one text.
pub fn text_result(words: &str) -> String {
    content(words, false)
}

fn content(words: &str, is_error: bool) -> String {
    let mut text = String::from(r#"{"content":[{"type":"text","text":"#);
    json::quote(words, &mut text);
    text.push_str("}]");
    text.push_str(if is_error { r#","isError":true}"# } else { "}" });
    text
}

fn message(kind: &str, id: &str, raw: &str) -> String {
    let mut text = alloc::format!(r#"{{"type":"{kind}","id":"#);
    json::quote(id, &mut text);
    text.push_str(&alloc::format!(r#","{kind}":"#));
    text.push_str(raw);
    text.push('}');
    text
}
