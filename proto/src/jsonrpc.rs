//! One JSON-RPC message as it came: its members as slices, read in a single validating pass.
//!
//! Knows the shape of JSON-RPC 2.0 and that MCP's `params` may carry a `_meta`; knows no method and no
//! era. What a request means is decided in `agent`.

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::fault::Fault;
use crate::json::{self, Kind, Reader};

/// The members of a JSON object: decoded name and raw value, in order, no name twice.
pub type Members<'a> = Vec<(Cow<'a, str>, &'a str)>;

/// The value of the member called `name`.
pub fn member<'a>(members: &Members<'a>, name: &str) -> Option<&'a str> {
    members.iter().find(|(key, _)| key == name).map(|(_, value)| *value)
}

/// What a POSTed body holds.
pub enum Body<'a> {
    /// Anything but an array: a message, or why it is none.
    One(Result<Message<'a>, Refusal<'a>>),
    /// The raw elements of a batch, each a valid JSON value, at most `elements_max` of them.
    Batch(Vec<&'a str>),
}

/// One request, notification or response.
pub struct Message<'a> {
    /// The raw `id`: a string or an integer, echoed byte for byte.
    pub id: Option<&'a str>,
    /// Which of them, with its parts.
    pub kind: MessageKind<'a>,
}

/// What a message is, apart from its ID.
pub enum MessageKind<'a> {
    /// With an `id` a request, without a notification.
    Call {
        /// Decoded; any string.
        method: Cow<'a, str>,
        /// Absent ones are empty.
        params: Params<'a>,
    },
    /// The agent's answer to a request of the bridge.
    Response {
        /// The raw `result`, or the raw `error`; of any kind.
        result: Result<&'a str, &'a str>,
    },
}

/// `params` and the one object in it that every method may have.
#[derive(Default)]
pub struct Params<'a> {
    /// The raw text, `None` when absent.
    pub raw: Option<&'a str>,
    /// Its members, `_meta` included.
    pub members: Members<'a>,
    /// Members of `_meta`; `None` when absent or not an object.
    pub meta: Option<Members<'a>>,
}

impl<'a> Params<'a> {
    /// The raw member called `name`.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        member(&self.members, name)
    }

    /// The decoded string member called `name`; `None` when absent or not a string.
    pub fn string(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).and_then(json::string)
    }

    /// The raw member of `_meta` called `name`.
    pub fn meta(&self, name: &str) -> Option<&'a str> {
        self.meta.as_ref().and_then(|meta| member(meta, name))
    }
}

/// A text that is no acceptable message, with the request ID if that much could be read.
#[derive(Debug)]
pub struct Refusal<'a> {
    /// The raw request ID; `None` when there is none, or two, or one of a wrong type.
    pub id: Option<&'a str>,
    /// -32700 or -32600.
    pub fault: Fault,
}

/// Reads a whole body: one message, or the elements of a batch.
///
/// # Errors
/// -32700 when it is not exactly one JSON value; -32600 for a batch that is empty or has more than
/// `elements_max` elements.
pub fn body(text: &str, elements_max: usize) -> Result<Body<'_>, Fault> {
    let mut reader = Reader::new(text);
    if reader.kind().map_err(parse_error)? != Kind::Array {
        return Ok(Body::One(message(text)));
    }
    let mut elements = Vec::new();
    let mut count = 0usize;
    reader.enter_array().map_err(parse_error)?;
    while reader.item().map_err(parse_error)? {
        let element = reader.value().map_err(parse_error)?;
        count += 1;
        if count <= elements_max {
            elements.push(element);
        }
    }
    reader.end().map_err(parse_error)?;
    if count == 0 || count > elements_max {
        return Err(Fault::InvalidRequest(
            alloc::format!("a batch must have 1 to {elements_max} elements, got {count}").into(),
        ));
    }
    Ok(Body::Batch(elements))
}

/// Reads one message.
///
/// # Errors
/// -32700 when `text` is not exactly one JSON value, else -32600 saying what was expected. A parse
/// error anywhere in the text wins over what is wrong with the members before it.
pub fn message(text: &str) -> Result<Message<'_>, Refusal<'_>> {
    match read(text) {
        Err(error) => Err(Refusal { id: None, fault: parse_error(error) }),
        Ok(Err(refusal)) => Err(refusal),
        Ok(Ok(message)) => Ok(message),
    }
}

fn parse_error(error: json::Error) -> Fault {
    Fault::ParseError(error.to_string())
}

/// The outer result is the syntax, the inner one the meaning.
fn read(text: &str) -> Result<Result<Message<'_>, Refusal<'_>>, json::Error> {
    let mut reader = Reader::new(text);
    if reader.kind()? != Kind::Object {
        json::validate(text)?;
        return Ok(Err(refusal(None, "a message must be a JSON object")));
    }
    let mut envelope = Envelope::default();
    let mut names = Names::default();
    reader.enter_object()?;
    while let Some(name) = reader.key()? {
        match name.as_ref() {
            "params" => envelope.params = Some(params(&mut reader, &mut envelope.duplicate)?),
            "id" => {
                envelope.id_twice = envelope.id.is_some();
                envelope.id = Some(reader.value()?);
            }
            "jsonrpc" => envelope.jsonrpc = Some(reader.value()?),
            "method" => envelope.method = Some(reader.value()?),
            "result" => envelope.result = Some(reader.value()?),
            "error" => envelope.error = Some(reader.value()?),
            _ => {
                reader.value()?;
            }
        }
        names.note(name, "the message", &mut envelope.duplicate);
    }
    reader.end()?;
    Ok(envelope.judge())
}

#[derive(Default)]
struct Envelope<'a> {
    id: Option<&'a str>,
    id_twice: bool,
    jsonrpc: Option<&'a str>,
    method: Option<&'a str>,
    params: Option<Result<Params<'a>, &'static str>>,
    result: Option<&'a str>,
    error: Option<&'a str>,
    duplicate: Option<String>,
}

impl<'a> Envelope<'a> {
    fn judge(self) -> Result<Message<'a>, Refusal<'a>> {
        // Of an ID that stands twice, neither can be the one to answer.
        let id = self.id.filter(|id| is_request_id(id) && !self.id_twice);
        let refuse = |fault: Fault| Refusal { id, fault };
        if let Some(duplicate) = self.duplicate {
            return Err(refuse(Fault::InvalidRequest(duplicate.into())));
        }
        // JSON-RPC 2.0 §5: an error about a request whose ID could not be read has none.
        let about_nothing = self.error.is_some() && self.method.is_none();
        if self.id.is_some_and(|id| id != "null" || !about_nothing) && id.is_none() {
            return Err(refusal(None, "`id` must be a string or an integer"));
        }
        if self.jsonrpc.and_then(json::string).as_deref() != Some("2.0") {
            return Err(refusal(id, "`jsonrpc` must be \"2.0\""));
        }
        let Some(method) = self.method else {
            let result = match (self.result, self.error) {
                (Some(_), None) if id.is_none() => {
                    return Err(refusal(None, "a response with a `result` must have an `id`"));
                }
                (Some(result), None) => Ok(result),
                (None, Some(error)) => Err(error),
                _ => return Err(refusal(id, "`method`, `result` or `error` is missing")),
            };
            return Ok(Message { id, kind: MessageKind::Response { result } });
        };
        let Some(method) = json::string(method) else {
            return Err(refusal(id, "`method` must be a string"));
        };
        if self.result.is_some() || self.error.is_some() {
            return Err(refusal(id, "a request has no `result` and no `error`"));
        }
        let params = match self.params {
            None => Params::default(),
            Some(Ok(params)) => params,
            Some(Err(what)) => return Err(refusal(id, what)),
        };
        Ok(Message { id, kind: MessageKind::Call { method, params } })
    }
}

fn refusal<'a>(id: Option<&'a str>, what: &'static str) -> Refusal<'a> {
    Refusal { id, fault: Fault::InvalidRequest(Cow::Borrowed(what)) }
}

/// JSON-RPC allows null and fractions, MCP does not (MCP 2025-11-25, Base Protocol, Requests).
fn is_request_id(raw: &str) -> bool {
    match raw.as_bytes().first() {
        Some(b'"') => true,
        Some(b'-' | b'0'..=b'9') => !raw.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')),
        _ => false,
    }
}

/// Reads `params` with one look into its `_meta`, in the same pass.
fn params<'a>(
    reader: &mut Reader<'a>,
    duplicate: &mut Option<String>,
) -> Result<Result<Params<'a>, &'static str>, json::Error> {
    if reader.kind()? != Kind::Object {
        reader.value()?;
        return Ok(Err("`params` must be an object"));
    }
    let start = reader.offset();
    let mut params = Params::default();
    let mut names = Names::default();
    reader.enter_object()?;
    while let Some(name) = reader.key()? {
        let value = if name == "_meta" && reader.kind()? == Kind::Object {
            let start = reader.offset();
            let meta = members(reader, duplicate)?;
            params.meta = Some(meta);
            reader.since(start)
        } else {
            reader.value()?
        };
        names.note(name.clone(), "params", duplicate);
        params.members.push((name, value));
    }
    params.raw = Some(reader.since(start));
    Ok(Ok(params))
}

fn members<'a>(
    reader: &mut Reader<'a>,
    duplicate: &mut Option<String>,
) -> Result<Members<'a>, json::Error> {
    let mut members = Vec::new();
    let mut names = Names::default();
    reader.enter_object()?;
    while let Some(name) = reader.key()? {
        let value = reader.value()?;
        names.note(name.clone(), "_meta", duplicate);
        members.push((name, value));
    }
    Ok(members)
}

/// The member names seen in one object. Few: compared one by one; many: in a tree, so that an object
/// of a million members costs no more than it should.
#[derive(Default)]
struct Names<'a> {
    few: [Cow<'a, str>; FEW],
    count: usize,
    many: BTreeSet<Cow<'a, str>>,
}

const FEW: usize = 16;

impl<'a> Names<'a> {
    fn note(&mut self, name: Cow<'a, str>, place: &str, duplicate: &mut Option<String>) {
        let few = &self.few[..self.count];
        let seen = few.contains(&name) || (self.count == FEW && self.many.contains(&name));
        if seen {
            duplicate.get_or_insert_with(|| alloc::format!("{place} has `{name}` twice"));
        } else if self.count < FEW {
            self.few[self.count] = name;
            self.count += 1;
        } else {
            self.many.insert(name);
        }
    }
}

#[cfg(test)]
mod tests;
