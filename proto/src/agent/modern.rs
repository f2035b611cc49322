//! The 2026 era: every request carries what it needs (MCP 2026-07-28, Streamable HTTP, Server Validation).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::call::describe;
use super::legacy::has_cursor;
use super::question::{Kind, list_of};
use super::{Call, Caller, Decision, Head, Headers, Listen, Question};
use crate::answer::Response;
use crate::fault::Fault;
use crate::headers::check_name;
use crate::json::{self, Kind as JsonKind, Reader};
use crate::jsonrpc::Params;
use crate::limits::SUBSCRIPTIONS_MAX;
use crate::mcp::{self, Changes, Era, Forwarded, LogLevel, meta};
use crate::span::Span;

/// A request of this era, before anything about it is checked.
pub(super) struct Request<'a> {
    pub id: &'a str,
    pub method: Cow<'a, str>,
    pub params: Params<'a>,
    /// The raw protocol version in `_meta`.
    pub claim: Option<&'a str>,
}

pub(super) fn decide<'a>(
    head: &dyn Head,
    body: &'a str,
    request: Request<'a>,
    caller: &Caller<'_>,
) -> Decision<'a> {
    let id = request.id;
    match checked(head, body, request, caller) {
        Ok(decision) => decision,
        Err(fault) => Decision::Respond(Response::fault(Era::Modern, Some(id), &fault)),
    }
}

/// The checks in the order of SPEC, Header validation; the last of them need the offer and are made
/// when the question or call meets it.
fn checked<'a>(
    head: &dyn Head,
    body: &'a str,
    request: Request<'a>,
    caller: &Caller<'_>,
) -> Result<Decision<'a>, Fault> {
    let Request { id, method, params, claim } = request;
    version(head, claim)?;
    let log_level = meta_members(&params)?;
    same(head, "mcp-method", "Mcp-Method", &method)?;
    if let Some(forwarded) = Forwarded::parse(&method) {
        let mut call = Call::read(Era::Modern, id, forwarded, &params, body, caller.claims);
        let capabilities = params.meta(meta::CLIENT_CAPABILITIES);
        call.agent = describe(mcp::MODERN, params.meta(meta::CLIENT_INFO), capabilities);
        call.capabilities = capabilities.map(|raw| Span::within(body, raw));
        call.log_level = log_level;
        call.headers = Some(Headers(head.fields("mcp-param-")));
        // The name is compared before the tool is looked up, so a refusal to see it comes second.
        if let Some(name) = &call.name
            && let Err(what) = check_name(head.field("mcp-name").as_deref(), name)
            && forwarded.mirrored().is_some()
        {
            call.fault = Some(Fault::HeaderMismatch(what));
        }
        return Ok(Decision::Call(Box::new(call)));
    }
    let kind = match method.as_ref() {
        "server/discover" => Kind::Discover,
        "subscriptions/listen" if !caller.accept.events => {
            return Err(Fault::NotAcceptable("text/event-stream"));
        }
        "subscriptions/listen" => return Ok(Decision::Listen(listen(id, &params)?)),
        _ => match list_of(&method) {
            Some(list) => Kind::List { list, cursor: has_cursor(&params) },
            None => return Err(Fault::MethodNotFound(method.to_string())),
        },
    };
    Ok(Decision::Ask(Question { era: Era::Modern, id, kind, session: None }))
}

/// The protocol version: claimed, a string, mirrored in the header, and one that is served.
fn version(head: &dyn Head, claim: Option<&str>) -> Result<(), Fault> {
    let header = head.field("mcp-protocol-version");
    let Some(raw) = claim else {
        let header = header.unwrap_or_default();
        if header != mcp::MODERN {
            return Err(Fault::UnsupportedVersion(quoted(&header)));
        }
        let what = alloc::format!("`_meta` must carry `{}`", meta::PROTOCOL_VERSION);
        return Err(Fault::InvalidParams(what.into()));
    };
    let Some(claimed) = json::string(raw) else {
        let what = alloc::format!("`{}` must be a string", meta::PROTOCOL_VERSION);
        return Err(Fault::InvalidParams(what.into()));
    };
    same(head, "mcp-protocol-version", "MCP-Protocol-Version", &claimed)?;
    if claimed != mcp::MODERN {
        return Err(Fault::UnsupportedVersion(quoted(&claimed)));
    }
    Ok(())
}

fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    json::quote(text, &mut quoted);
    quoted
}

/// A header must be there and equal the body's value, case included.
fn same(head: &dyn Head, field: &str, shown: &str, expected: &str) -> Result<(), Fault> {
    match head.field(field) {
        Some(value) if value == expected => Ok(()),
        Some(value) => Err(Fault::HeaderMismatch(alloc::format!(
            "{shown} header value '{value}' does not match body value '{expected}'"
        ))),
        None => Err(Fault::HeaderMismatch(alloc::format!(
            "the header {shown} is missing; expected '{expected}'"
        ))),
    }
}

/// The other members of `_meta` that every request has to get right.
fn meta_members(params: &Params<'_>) -> Result<Option<LogLevel>, Fault> {
    let capabilities = params.meta(meta::CLIENT_CAPABILITIES);
    if capabilities.and_then(JsonKind::of) != Some(JsonKind::Object) {
        let what = alloc::format!("`{}` must be an object", meta::CLIENT_CAPABILITIES);
        return Err(Fault::InvalidParams(what.into()));
    }
    let Some(raw) = params.meta(meta::LOG_LEVEL) else { return Ok(None) };
    match json::string(raw).and_then(|name| LogLevel::parse(&name)) {
        Some(level) => Ok(Some(level)),
        None => {
            let what = alloc::format!("`{}` must be one of {}", meta::LOG_LEVEL, LogLevel::NAMES);
            Err(Fault::InvalidParams(what.into()))
        }
    }
}

/// MCP 2026-07-28, Subscriptions, Notification Filter.
fn listen(id: &str, params: &Params<'_>) -> Result<Listen, Fault> {
    let wrong = |what: &'static str| Fault::InvalidParams(Cow::Borrowed(what));
    let filter = params.get("notifications").ok_or(wrong("`notifications` is missing"))?;
    if JsonKind::of(filter) != Some(JsonKind::Object) {
        return Err(wrong("`notifications` must be an object"));
    }
    let members = json::members(filter).unwrap_or_default();
    let mut listen = Listen {
        wants: Changes::NONE,
        uris: Vec::new(),
        subscription: Some(id.into()),
        session: None,
    };
    for (name, raw) in &members {
        let change = match name.as_ref() {
            "toolsListChanged" => Changes::TOOLS,
            "promptsListChanged" => Changes::PROMPTS,
            "resourcesListChanged" => Changes::RESOURCES,
            "resourceSubscriptions" => {
                listen.uris = uris(raw).ok_or(wrong(
                    "`resourceSubscriptions` must be an array of at most 256 strings",
                ))?;
                continue;
            }
            _ => continue,
        };
        match *raw {
            "true" => listen.wants = listen.wants.with(change),
            "false" => {}
            _ => return Err(wrong("a member of `notifications` must be true or false")),
        }
    }
    Ok(listen)
}

fn uris(raw: &str) -> Option<Vec<String>> {
    let mut reader = Reader::new(raw);
    let mut uris = Vec::new();
    reader.enter_array().ok()?;
    while reader.item().ok()? {
        uris.push(json::string(reader.value().ok()?)?.into_owned());
        if uris.len() > SUBSCRIPTIONS_MAX {
            return None;
        }
    }
    Some(uris)
}
