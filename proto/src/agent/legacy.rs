//! The 2025 era: `initialize`, sessions, GET streams, batches (MCP 2024-11-05 to 2025-11-25).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::question::{Kind, list_of};
use super::{Call, Caller, Decision, Delivery, Head, Listen, Question, call, notified};
use crate::answer::Response;
use crate::fault::Fault;
use crate::json::Kind as JsonKind;
use crate::jsonrpc::{Message, MessageKind, Params};
use crate::mcp::{self, Changes, Era, Forwarded, LogLevel};
use crate::session::Session;

/// Decides about one message of the 2025 era; `text` is the text its slices point into.
pub(super) fn decide<'a>(
    head: &dyn Head,
    text: &'a str,
    message: Message<'a>,
    caller: &Caller<'_>,
) -> Decision<'a> {
    let session = session_of(head);
    let (method, params) = match message.kind {
        MessageKind::Call { method, params } => (method, params),
        MessageKind::Response { result } => {
            return match message.id {
                Some(id) => Decision::Deliver(Delivery { id, result }),
                None => Decision::Respond(Response::empty(202)),
            };
        }
    };
    let Some(id) = message.id else { return notified(&method, &params, Some(session)) };
    if let Some(method) = Forwarded::parse(&method) {
        let mut call = Call::read(Era::Legacy, id, method, &params, text, caller.claims);
        call.agent = agent(head, session.as_deref());
        call.session = session;
        return Decision::Call(Box::new(call));
    }
    match question(&method, &params, caller) {
        Ok(kind) => Decision::Ask(Question { era: Era::Legacy, id, kind, session }),
        Err(fault) => Decision::Respond(Response::fault(Era::Legacy, Some(id), &fault)),
    }
}

fn question(method: &str, params: &Params<'_>, caller: &Caller<'_>) -> Result<Kind, Fault> {
    if let Some(list) = list_of(method) {
        return Ok(Kind::List { list, cursor: has_cursor(params) });
    }
    match method {
        "initialize" => initialize(params, caller.fresh),
        "ping" => Ok(Kind::Ping),
        "logging/setLevel" => {
            let level = params.string("level").and_then(|name| LogLevel::parse(&name));
            level.map(Kind::SetLevel).ok_or_else(|| {
                let what = alloc::format!("`level` must be one of {}", LogLevel::NAMES);
                Fault::BadArgument(what.into())
            })
        }
        "resources/subscribe" => uri(params).map(Kind::Subscribe),
        "resources/unsubscribe" => uri(params).map(Kind::Unsubscribe),
        _ => Err(Fault::MethodNotFound(method.to_string())),
    }
}

/// Whether a list request asks for another page. `null` is no cursor.
pub(super) fn has_cursor(params: &Params<'_>) -> bool {
    params.get("cursor").is_some_and(|raw| raw != "null")
}

fn uri(params: &Params<'_>) -> Result<Box<str>, Fault> {
    let uri = params.string("uri").map(|uri| Box::from(uri.as_ref()));
    uri.ok_or(Fault::BadArgument(Cow::Borrowed("`uri` must be a string")))
}

/// Any version may be asked for; one of this era is answered (MCP 2025-11-25, Lifecycle, Version
/// Negotiation). A session ID that comes along is stale and means nothing.
fn initialize(params: &Params<'_>, fresh: u64) -> Result<Kind, Fault> {
    let Some(asked) = params.string("protocolVersion") else {
        return Err(Fault::BadArgument("`protocolVersion` must be a string".into()));
    };
    let known = mcp::LEGACY.contains(&asked.as_ref());
    let version = if known { asked.as_ref() } else { mcp::LEGACY_NEWEST };
    let object = |name: &str| {
        params.get(name).filter(|raw| JsonKind::of(raw) == Some(JsonKind::Object)).map(String::from)
    };
    let session = Session {
        version: version.into(),
        capabilities: object("capabilities"),
        client_info: object("clientInfo"),
    };
    Ok(Kind::Initialize { session, fresh })
}

fn session_of(head: &dyn Head) -> Option<Box<str>> {
    head.field("mcp-session-id").filter(|id| !id.is_empty()).map(|id| Box::from(id.as_ref()))
}

/// What the client is told about the agent: the version of the header, else of the session.
fn agent(head: &dyn Head, session: Option<&str>) -> Box<str> {
    let session = session.map(Session::read).unwrap_or_default();
    let header = head.field("mcp-protocol-version");
    let version = match header.as_deref() {
        Some(version) => version,
        None if !session.version.is_empty() => &session.version,
        None => mcp::LEGACY_ASSUMED,
    };
    call::describe(version, session.client_info.as_deref(), session.capabilities.as_deref())
}

/// The notification stream of a GET (MCP 2025-11-25, Listening for Messages from the Server).
pub fn listen(head: &dyn Head) -> Listen {
    let session = session_of(head);
    Listen { wants: Changes::ALL, uris: Vec::new(), subscription: None, session }
}

/// Batches belong to 2025-03-26, which is also what a request without a version is taken for.
pub(super) fn batch<'a>(head: &dyn Head, elements: Vec<&'a str>) -> Decision<'a> {
    match head.field("mcp-protocol-version").as_deref() {
        None | Some(mcp::LEGACY_ASSUMED) => Decision::Batch(elements),
        Some(version) => {
            let what = alloc::format!("a batch is possible in 2025-03-26 only, not in {version}");
            let fault = Fault::InvalidRequest(what.into());
            Decision::Respond(Response::fault(Era::Legacy, None, &fault))
        }
    }
}
