//! A request that is forwarded to the client, kept until it is answered.

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
    /// Headers). A member named twice would let two readers see two values, so it is refused.
    pub(super) fn check(
        &self,
        params: &[ParamHeader],
        arguments: Option<&str>,
    ) -> Result<(), Fault> {
        if let Some(name) = arguments.and_then(json::duplicate_member) {
            let what = alloc::format!("`arguments` has `{name}` twice");
            return Err(Fault::InvalidRequest(what.into()));
        }
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

    /// The channel message that carries this call with these raw `params`, `{}` when they are empty;
    /// `None` when it would be larger than a message may be. `id` is the bridge's own and needs no
    /// escaping.
    pub fn message(&self, id: &str, params: &str) -> Option<String> {
        let params = if params.is_empty() { "{}" } else { params };
        let method = self.method.name();
        let length = params.len() + self.agent.len() + id.len() + method.len() + 64;
        if length > MESSAGE_BYTES_MAX + 64 {
            return None;
        }
        let mut text = String::with_capacity(length);
        for piece in [
            r#"{"type":"call","id":""#,
            id,
            r#"","method":""#,
            method,
            r#"","params":"#,
            params,
            r#","agent":"#,
            &self.agent,
            "}",
        ] {
            text.push_str(piece);
        }
        (text.len() <= MESSAGE_BYTES_MAX).then_some(text)
    }
}

/// The member `agent` of a call message.
pub(super) fn describe(version: &str, info: Option<&str>, capabilities: Option<&str>) -> Box<str> {
    let mut text = String::from(r#"{"protocolVersion":"#);
    json::quote(version, &mut text);
    for (name, raw) in [("clientInfo", info), ("capabilities", capabilities)] {
        if let Some(raw) = raw {
            text.push_str(&alloc::format!(r#","{name}":{raw}"#));
        }
    }
    text.push('}');
    text.into()
}
