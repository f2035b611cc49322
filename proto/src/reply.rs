//! What a client sends, read in one pass: which message it is, and where in it the parts lie.
//!
//! Knows the members of every client-to-bridge message and the few members of a result that matter to
//! the bridge. What to do about a message is `channel`'s business; a register is checked by `offer`.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};

use crate::fault::Close;
use crate::json::{self, Kind, Reader};
use crate::mcp::meta;
use crate::span::Span;

/// One message of a client.
#[derive(Debug)]
pub enum Message<'a> {
    /// To be answered with a pong.
    Ping,
    /// Everything it offers; its members are not looked at here.
    Register,
    /// A fresh token.
    Auth {
        /// Not verified.
        token: Cow<'a, str>,
    },
    /// Ends a call well, or asks the agent back.
    Result {
        /// Any string; whether it is a call's is for `channel` to say.
        id: Cow<'a, str>,
        /// Where the result lies.
        shape: Shape,
    },
    /// Ends a call with a JSON-RPC error.
    Error {
        /// Any string; whether it is a call's is for `channel` to say.
        id: Cow<'a, str>,
        /// Where the error lies.
        error: ErrorShape,
    },
    /// Ends nothing.
    Notify {
        /// Any string.
        method: Cow<'a, str>,
        /// Where in the message the params lie: an object.
        params: Option<Span>,
        /// The call that it belongs to.
        id: Option<Cow<'a, str>>,
    },
}

/// Where the parts of a result lie that the bridge looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The whole result object, braces included.
    pub result: Span,
    /// Whether it has no members.
    pub is_empty: bool,
    /// The value of `resultType`, whatever it is.
    pub result_type: Option<Span>,
    /// Whether `resultType` is `"input_required"` (MCP 2026-07-28, Multi Round-Trip Requests).
    pub input_required: bool,
    /// The value of `_meta`, when it is an object.
    pub meta: Option<MetaShape>,
    /// A `_meta` that is no object: nothing can be merged into it.
    pub has_foreign_meta: bool,
    /// Whether there is a `ttlMs`, whatever it is.
    pub has_ttl: bool,
    /// Whether there is a `cacheScope`, whatever it is.
    pub has_scope: bool,
    /// The value of `inputRequests`, whatever it is.
    pub input_requests: Option<Span>,
    /// The value of `requestState`, whatever it is.
    pub request_state: Option<Span>,
}

/// Where a result's `_meta` lies, and what the bridge has to know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaShape {
    /// The whole object, braces included.
    pub span: Span,
    /// Whether it has no members.
    pub is_empty: bool,
    /// Whether it names the server already.
    pub has_server_info: bool,
}

/// Where a client's error lies, and its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorShape {
    /// The whole error object, braces included.
    pub error: Span,
    /// Its `code`; agents take any integer.
    pub code: i64,
}

/// Reads one text message of a client.
///
/// # Errors
/// Close 4400 with what was expected: not JSON, no object, `type` missing or unknown, a member of a
/// known name missing or of the wrong type, a member twice.
pub fn read(text: &str) -> Result<Message<'_>, Close> {
    let found = scan(text).map_err(|error| bad(None, &alloc::format!("not JSON: {error}")))??;
    found.judge(text)
}

fn bad(path: Option<&str>, message: &str) -> Close {
    Close::BadMessage { path: path.map(String::from), message: message.to_string() }
}

/// The members of known names, each raw.
#[derive(Default)]
struct Found<'a> {
    kind: Option<&'a str>,
    id: Option<&'a str>,
    method: Option<&'a str>,
    params: Option<&'a str>,
    token: Option<&'a str>,
    error: Option<&'a str>,
    result: Option<&'a str>,
    shape: Option<Shape>,
}

fn scan(text: &str) -> Result<Result<Found<'_>, Close>, json::Error> {
    let mut reader = Reader::new(text);
    let kind = reader.kind()?;
    if kind != Kind::Object {
        json::validate(text)?;
        let message = alloc::format!("a message must be an object, got {}", kind.words());
        return Ok(Err(bad(None, &message)));
    }
    let mut found = Found::default();
    let mut twice = None;
    reader.enter_object()?;
    while let Some(name) = reader.key()? {
        let slot = match name.as_ref() {
            "type" => &mut found.kind,
            "id" => &mut found.id,
            "method" => &mut found.method,
            "params" => &mut found.params,
            "token" => &mut found.token,
            "error" => &mut found.error,
            "result" => {
                let start = {
                    reader.kind()?;
                    reader.offset()
                };
                let again = found.result.is_some();
                found.shape = shape(&mut reader)?;
                found.result = Some(reader.since(start));
                if again {
                    twice.get_or_insert(name);
                }
                continue;
            }
            _ => {
                reader.value()?;
                continue;
            }
        };
        let again = slot.is_some();
        *slot = Some(reader.value()?);
        if again {
            twice.get_or_insert(name);
        }
    }
    reader.end()?;
    Ok(match twice {
        Some(name) => Err(bad(Some(&name), "this member stands twice")),
        None => Ok(found),
    })
}

/// Passes a result, looking at its members if it is an object.
fn shape(reader: &mut Reader<'_>) -> Result<Option<Shape>, json::Error> {
    if reader.kind()? != Kind::Object {
        reader.value()?;
        return Ok(None);
    }
    let start = reader.offset();
    let mut shape = Shape {
        result: Span::new(0, 0),
        is_empty: true,
        result_type: None,
        input_required: false,
        meta: None,
        has_foreign_meta: false,
        has_ttl: false,
        has_scope: false,
        input_requests: None,
        request_state: None,
    };
    reader.enter_object()?;
    while let Some(name) = reader.key()? {
        shape.is_empty = false;
        let kind = reader.kind()?;
        let at = reader.offset();
        if name == "_meta" && kind == Kind::Object {
            shape.meta = Some(meta_shape(reader)?);
            continue;
        }
        let value = reader.value()?;
        let span = Span::new(at, reader.offset());
        match name.as_ref() {
            "_meta" => shape.has_foreign_meta = true,
            "resultType" => {
                shape.result_type = Some(span);
                shape.input_required = json::string(value).as_deref() == Some("input_required");
            }
            "ttlMs" => shape.has_ttl = true,
            "cacheScope" => shape.has_scope = true,
            "inputRequests" => shape.input_requests = Some(span),
            "requestState" => shape.request_state = Some(span),
            _ => {}
        }
    }
    shape.result = Span::new(start, reader.offset());
    Ok(Some(shape))
}

fn meta_shape(reader: &mut Reader<'_>) -> Result<MetaShape, json::Error> {
    let start = reader.offset();
    let (mut is_empty, mut has_server_info) = (true, false);
    reader.enter_object()?;
    while let Some(name) = reader.key()? {
        is_empty = false;
        has_server_info |= name == meta::SERVER_INFO;
        reader.value()?;
    }
    Ok(MetaShape { span: Span::new(start, reader.offset()), is_empty, has_server_info })
}

impl<'a> Found<'a> {
    fn judge(self, text: &'a str) -> Result<Message<'a>, Close> {
        let Some(kind) = self.kind else { return Err(bad(Some("type"), "`type` is missing")) };
        let Some(kind) = json::string(kind) else {
            return Err(wrong("type", "a string", kind));
        };
        match kind.as_ref() {
            "ping" => Ok(Message::Ping),
            "register" => Ok(Message::Register),
            "auth" => Ok(Message::Auth { token: string("token", self.token)? }),
            "result" => {
                let id = string("id", self.id)?;
                match (self.shape, self.result) {
                    (Some(shape), _) => Ok(Message::Result { id, shape }),
                    (None, Some(raw)) => Err(wrong("result", "an object", raw)),
                    (None, None) => Err(bad(Some("result"), "`result` is missing")),
                }
            }
            "error" => {
                let id = string("id", self.id)?;
                let raw = self.error.ok_or_else(|| bad(Some("error"), "`error` is missing"))?;
                Ok(Message::Error { id, error: error_shape(text, raw)? })
            }
            "notify" => {
                let method = string("method", self.method)?;
                let params = match self.params {
                    Some(raw) if !raw.starts_with('{') => {
                        return Err(wrong("params", "an object", raw));
                    }
                    raw => raw.map(|raw| Span::within(text, raw)),
                };
                let id = self.id.map(|raw| string("id", Some(raw))).transpose()?;
                Ok(Message::Notify { method, params, id })
            }
            other => Err(bad(Some("type"), &alloc::format!("unknown `type` {other:?}"))),
        }
    }
}

fn string<'a>(name: &str, raw: Option<&'a str>) -> Result<Cow<'a, str>, Close> {
    let raw = raw.ok_or_else(|| bad(Some(name), &alloc::format!("`{name}` is missing")))?;
    json::string(raw).ok_or_else(|| wrong(name, "a string", raw))
}

fn wrong(path: &str, expected: &str, raw: &str) -> Close {
    let came = Kind::of(raw).map_or("nothing", Kind::words);
    bad(Some(path), &alloc::format!("`{path}` must be {expected}, got {came}"))
}

/// An error must be one that an agent's parser takes: an integer code and a message.
fn error_shape(text: &str, raw: &str) -> Result<ErrorShape, Close> {
    if !raw.starts_with('{') {
        return Err(wrong("error", "an object", raw));
    }
    let members = json::members(raw).unwrap_or_default();
    let get = |name: &str| members.iter().find(|(key, _)| key == name).map(|(_, value)| *value);
    let code = get("code").ok_or_else(|| bad(Some("error.code"), "`code` is missing"))?;
    let code = code.parse().map_err(|_| wrong("error.code", "an integer", code))?;
    let message =
        get("message").ok_or_else(|| bad(Some("error.message"), "`message` is missing"))?;
    if json::string(message).is_none() {
        return Err(wrong("error.message", "a string", message));
    }
    Ok(ErrorShape { error: Span::within(text, raw), code })
}

#[cfg(test)]
mod tests;
