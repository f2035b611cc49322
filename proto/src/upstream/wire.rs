//! The texts that go to the server, and looking into those that came.
//!
//! Knows JSON-RPC and where MCP's two eras put what belongs to a request. Everything a server or an
//! agent wrote is passed on as it is, apart from the members named here.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::RequestId;
use crate::json::{self, Kind, Reader};
use crate::mcp::{self, meta};

/// The params of our `initialize`. All capabilities are declared, because which agent has which is
/// known only with a call; what an agent lacks is then answered with an error.
pub const INITIALIZE: &str = concat!(
    r#"{"protocolVersion":"2025-11-25","capabilities":{"roots":{},"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}}},"clientInfo":{"name":"clientmcp","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}}"#
);

const US: &str = concat!(r#"{"name":"clientmcp","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// On whose behalf a 2026-era request is made.
#[derive(Clone, Copy)]
pub enum Origin<'a> {
    Ours,
    /// The bridge's raw description of the agent; progress comes back under the ID of this request.
    Agent {
        agent: &'a str,
        id: RequestId,
    },
}

pub fn request(id: RequestId, method: &str, params: &str) -> String {
    let mut text = format!(r#"{{"jsonrpc":"2.0","id":{},"method":"#, id.0);
    json::quote(method, &mut text);
    text.push_str(r#","params":"#);
    push_line(params, &mut text);
    text.push('}');
    text
}

pub fn notification(method: &str, params: &str) -> String {
    let mut text = String::from(r#"{"jsonrpc":"2.0","method":"#);
    json::quote(method, &mut text);
    text.push_str(r#","params":"#);
    push_line(params, &mut text);
    text.push('}');
    text
}

/// `id` is the raw one that the server gave its request.
pub fn response(id: &str, answer: Result<&str, &str>) -> String {
    let (member, raw) = match answer {
        Ok(result) => ("result", result),
        Err(error) => ("error", error),
    };
    let mut text = String::from(r#"{"jsonrpc":"2.0","id":"#);
    push_line(id, &mut text);
    text.push_str(&format!(r#","{member}":"#));
    push_line(raw, &mut text);
    text.push('}');
    text
}

/// MCP, stdio: messages have no line breaks. In valid JSON one can only stand between tokens, where a
/// space means the same.
fn push_line(raw: &str, text: &mut String) {
    text.push_str(&crate::sse::one_line(raw));
}

/// The first member of that name of a raw object.
pub fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let members = json::members(object).ok()?;
    members.into_iter().find(|(key, _)| key == name).map(|(_, raw)| raw)
}

/// The raw items of a raw array; none when it is no array.
pub fn items(array: &str) -> impl Iterator<Item = &str> {
    let mut reader = Reader::new(array);
    let mut items = Vec::new();
    if reader.enter_array().is_ok() {
        while reader.item() == Ok(true) {
            match reader.value() {
                Ok(item) => items.push(item),
                Err(_) => break,
            }
        }
    }
    items.into_iter()
}

/// An agent's params for a 2025-era server: without what only 2026 knows, and with our own token for
/// progress, because tokens of several agents may be the same.
pub fn legacy_params(params: &str, id: RequestId) -> String {
    let members = json::members(params).unwrap_or_default();
    let mut text = Object::new();
    for (name, raw) in &members {
        match name.as_ref() {
            "inputResponses" | "requestState" => {}
            "_meta" => {
                let kept = legacy_meta(raw, id);
                if kept != "{}" {
                    text.push("_meta", &kept);
                }
            }
            _ => text.push(name, raw),
        }
    }
    text.end()
}

fn legacy_meta(meta: &str, id: RequestId) -> String {
    let mut text = Object::new();
    for (name, raw) in json::members(meta).unwrap_or_default() {
        match name.as_ref() {
            meta::PROGRESS_TOKEN => text.push(&name, &format!("{}", id.0)),
            // MCP reserves the prefix; these are of a revision the server does not know.
            name if name.starts_with("io.modelcontextprotocol/") => {}
            name => text.push(name, raw),
        }
    }
    text.end()
}

/// Params for a 2026-era server: what they have, and the `_meta` that every request carries.
pub fn modern_params(params: &str, origin: Origin<'_>) -> String {
    let members = json::members(params).unwrap_or_default();
    let given = members.iter().find(|(name, _)| name == "_meta").map_or("{}", |(_, raw)| *raw);
    let given = json::members(given).unwrap_or_default();
    let has = |name: &str| given.iter().any(|(key, _)| key == name);
    let mut kept = Object::new();
    let version = format!("\"{}\"", mcp::MODERN);
    kept.push(meta::PROTOCOL_VERSION, &version);
    for (name, raw) in &given {
        match (name.as_ref(), origin) {
            (meta::PROTOCOL_VERSION, _) => {}
            (meta::PROGRESS_TOKEN, Origin::Agent { id, .. }) => {
                kept.push(name, &format!("{}", id.0));
            }
            _ => kept.push(name, raw),
        }
    }
    let (agent, is_agent) = match origin {
        Origin::Ours => ("{}", false),
        Origin::Agent { agent, .. } => (agent, true),
    };
    if !has(meta::CLIENT_INFO) {
        let info = if is_agent { member(agent, "clientInfo") } else { Some(US) };
        if let Some(info) = info {
            kept.push(meta::CLIENT_INFO, info);
        }
    }
    if !has(meta::CLIENT_CAPABILITIES) {
        kept.push(meta::CLIENT_CAPABILITIES, member(agent, "capabilities").unwrap_or("{}"));
    }
    // An agent of 2025 sets its level at the bridge, which leaves out what is below it.
    let is_legacy = is_agent && !has(meta::PROTOCOL_VERSION);
    if is_legacy && !has(meta::LOG_LEVEL) {
        kept.push(meta::LOG_LEVEL, r#""debug""#);
    }
    let kept = kept.end();
    let mut text = Object::new();
    for (name, raw) in members.iter().filter(|(name, _)| name != "_meta") {
        text.push(name, raw);
    }
    text.push("_meta", &kept);
    text.end()
}

/// Progress of the server as params for the bridge: which of our requests it is about, and the rest.
pub fn progress(params: &str) -> Option<(RequestId, String)> {
    let members = json::members(params).ok()?;
    let mut text = Object::new();
    let mut about = None;
    for (name, raw) in &members {
        match name.as_ref() {
            // Some give a number back as a string.
            "progressToken" => about = raw.trim_matches('"').parse().ok().map(RequestId),
            "_meta" => {}
            _ => text.push(name, raw),
        }
    }
    Some((about?, text.end()))
}

/// Whether a value of `params` asks for more than the agent's capabilities have; the words say what.
pub fn lacking(agent: &str, method: &str, params: &str) -> Option<&'static str> {
    let capabilities = member(agent, "capabilities").unwrap_or("{}");
    let has = |within: &str, name: &str| {
        member(within, name).is_some_and(|raw| Kind::of(raw) == Some(Kind::Object))
    };
    match method {
        "roots/list" => (!has(capabilities, "roots")).then_some("roots"),
        "sampling/createMessage" => {
            let sampling = member(capabilities, "sampling");
            match sampling {
                None => Some("sampling"),
                Some(sampling) if member(params, "tools").is_some() && !has(sampling, "tools") => {
                    Some("sampling with tools")
                }
                Some(_) => None,
            }
        }
        _ => {
            let Some(elicitation) = member(capabilities, "elicitation") else {
                return Some("elicitation");
            };
            let mode = member(params, "mode").and_then(json::string);
            if mode.as_deref() == Some("url") {
                return (!has(elicitation, "url")).then_some("elicitation by URL");
            }
            // MCP 2025-11-25, Elicitation: an empty object means forms.
            let forms = has(elicitation, "form") || !has(elicitation, "url");
            (!forms).then_some("elicitation by form")
        }
    }
}

/// An object that is written member by member, from raw values.
pub struct Object {
    text: String,
}

impl Object {
    pub fn new() -> Object {
        Object { text: String::from("{") }
    }

    pub fn push(&mut self, name: &str, raw: &str) {
        if self.text.len() > 1 {
            self.text.push(',');
        }
        json::quote(name, &mut self.text);
        self.text.push(':');
        self.text.push_str(raw);
    }

    pub fn end(mut self) -> String {
        self.text.push('}');
        self.text
    }
}
