//! A request that is forwarded to the client, kept until it is answered.
//!
//! Knows what has to be right before it is sent, and the channel message around its params, which stay
//! where they are in the agent's body. When and to whom it goes is the registry's business.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::request_key;
use crate::fault::Fault;
use crate::headers::{self, ParamHeader};
use crate::json;
use crate::jsonrpc::Params;
use crate::limits::MESSAGE_BYTES_MAX;
use crate::mcp::{Era, Forwarded, LogLevel, meta};
use crate::span::Span;
use crate::token::Claims;

/// A call on its way to a client. The body it came in is kept by the caller; `params` points into it.
#[derive(Debug)]
pub struct Call {
    /// The era that its answer is framed for.
    pub era: Era,
    /// The raw request ID, echoed byte for byte.
    pub id: Box<str>,
    /// What the client is asked to do.
    pub method: Forwarded,
    /// Verbatim `params`; empty when there are none.
    pub params: Span,
    /// The tool's or prompt's name, or the resource's URI, decoded.
    pub name: Option<Box<str>>,
    /// `params.arguments`, raw.
    pub arguments: Option<Span>,
    /// The message's member `agent`, raw.
    pub agent: Box<str>,
    /// The agent's capabilities as it declared them with the request (2026 era).
    pub capabilities: Option<Span>,
    /// The agent's `progressToken`, raw: a string or a number.
    pub progress_token: Option<Box<str>>,
    /// The least severe log message the request asks for (2026 era).
    pub log_level: Option<LogLevel>,
    /// The session the request names (2025 era).
    pub session: Option<Box<str>>,
    /// What is wrong with the request as such, to be told once its method is known to be served.
    pub fault: Option<Fault>,
    /// `Mcp-Param-*` of the request (2026 era).
    pub headers: Option<Headers>,
}

/// The `Mcp-Param-*` fields of a request, names in lower case.
#[derive(Debug)]
pub struct Headers(pub Vec<(Box<str>, Box<str>)>);

impl Headers {
    /// Compares the fields with the arguments they mirror (MCP 2026-07-28, Server Behavior for Custom
    /// Headers).
    pub(super) fn check(
        &self,
        params: &[ParamHeader],
        arguments: Option<&str>,
    ) -> Result<(), Fault> {
        let field = |name: &str| {
            let mut values = self.0.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
            let first = values.next()?;
            let mut joined = Cow::Borrowed(first.1.as_ref());
            for (_, value) in values {
                joined = Cow::Owned(alloc::format!("{joined}, {value}"));
            }
            Some(joined)
        };
        headers::check_params(params, arguments, &field).map_err(Fault::HeaderMismatch)
    }
}

impl Call {
    /// Reads what both eras have in common.
    pub(super) fn read(
        era: Era,
        id: &str,
        method: Forwarded,
        params: &Params<'_>,
        body: &str,
        claims: &Claims,
    ) -> Call {
        let mut fault = None;
        let mut name = None;
        if let Some(member) = method.mirrored() {
            name = params.string(member).map(|name| Box::from(name.as_ref()));
            if name.is_none() {
                let what = alloc::format!("`params.{member}` must be a string");
                fault = Some(Fault::InvalidParams(what.into()));
            }
        }
        if method == Forwarded::CallTool
            && let Some(name) = &name
            && !claims.allows_tool(name)
        {
            fault = Some(Fault::UnknownTool(String::from(name.as_ref())));
        }
        let progress_token = params
            .meta(meta::PROGRESS_TOKEN)
            .filter(|raw| raw.starts_with(|c: char| matches!(c, '"' | '-') || c.is_ascii_digit()));
        Call {
            era,
            id: id.into(),
            method,
            params: params.raw.map_or(Span::new(0, 0), |raw| Span::within(body, raw)),
            name,
            arguments: params.get("arguments").map(|raw| Span::within(body, raw)),
            agent: Box::default(),
            capabilities: None,
            progress_token: progress_token.map(Box::from),
            log_level: None,
            session: None,
            fault,
            headers: None,
        }
    }

    /// The key a `notifications/cancelled` is compared with.
    pub fn request_key(&self) -> Box<str> {
        request_key(&self.id).unwrap_or_default()
    }

    /// The raw `params`, `{}` when there are none; `body` is the one the call was read from.
    pub fn params_of<'a>(&self, body: &'a str) -> &'a str {
        if self.params.is_empty() { "{}" } else { self.params.of(body) }
    }

    /// The channel message that carries this call, but for the raw `params` of so many bytes, which stand
    /// between the two; `None` when it would be larger than a message may be. `id` is the bridge's own
    /// and needs no escaping.
    pub fn around_params(&self, id: &str, params_bytes: usize) -> Option<(String, String)> {
        let method = self.method.name();
        let mut before = String::with_capacity(id.len() + method.len() + 48);
        for piece in [r#"{"type":"call","id":""#, id, r#"","method":""#, method, r#"","params":"#] {
            before.push_str(piece);
        }
        let mut after = String::with_capacity(self.agent.len() + 16);
        for piece in [r#","agent":"#, &self.agent, "}"] {
            after.push_str(piece);
        }
        let length = before.len() + params_bytes + after.len();
        (length <= MESSAGE_BYTES_MAX).then_some((before, after))
    }
}

/// The member `agent` of a call message.
pub(super) fn describe(version: &str, info: Option<&str>, capabilities: Option<&str>) -> Box<str> {
    let members = [(r#","clientInfo":"#, info), (r#","capabilities":"#, capabilities)];
    let length: usize =
        members.iter().map(|(name, raw)| name.len() + raw.map_or(0, str::len)).sum();
    let mut text = String::with_capacity(version.len() + length + 32);
    text.push_str(r#"{"protocolVersion":"#);
    json::quote(version, &mut text);
    for (name, raw) in members {
        if let Some(raw) = raw {
            text.push_str(name);
            text.push_str(raw);
        }
    }
    text.push('}');
    text.into()
}
