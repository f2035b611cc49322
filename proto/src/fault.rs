//! Every refusal that travels to the other side, as data: who is refused, with which code, in which words.
//!
//! `Fault` is what an agent is told (a JSON-RPC error with an HTTP status), `Trouble` is what became of a
//! call that could not be completed (a tool error, or -32603 for the other methods), `Close` is what a
//! client is told (a fault message and a WebSocket close). SPEC.md prints the same tables; a test compares.

use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt;

use crate::mcp::{self, Era};

/// A refusal an agent gets: JSON-RPC code, HTTP status, message and perhaps `data`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The body is not JSON (RFC 8259) or not UTF-8; holds what is wrong and where.
    ParseError(String),
    /// The body is JSON but not one acceptable JSON-RPC message; holds what was expected.
    InvalidRequest(Cow<'static, str>),
    /// The method does not exist, or what it needs is not advertised.
    MethodNotFound(String),
    /// `params` does not fit what the revision demands of every request.
    InvalidParams(Cow<'static, str>),
    /// `params` does not fit this one method; the request as such was well formed.
    BadArgument(Cow<'static, str>),
    /// A tool the client does not offer, or this token may not see.
    UnknownTool(String),
    /// A header of MCP 2026-07-28 is missing or contradicts the body.
    HeaderMismatch(String),
    /// The agent did not declare what the client needs; holds `requiredCapabilities` as JSON.
    MissingCapability(String),
    /// A protocol version this bridge does not speak in the 2026 era; holds the raw JSON string.
    UnsupportedVersion(String),
    /// No usable bearer token: `None` when there was none at all.
    Unauthorized(Option<String>),
    /// The token is good but lacks the scope `agent`.
    InsufficientScope,
    /// The client ID in the path is not the token's.
    WrongClient,
    /// The `Origin` is neither loopback (on a loopback listener) nor allowed.
    ForbiddenOrigin,
    /// Neither of the two media types an answer can have is acceptable.
    NotAcceptable(&'static str),
    /// The body is over the limit.
    TooLarge(usize),
    /// The body is not `application/json`.
    MediaType(String),
    /// Too many open notification streams for this client ID; holds the limit.
    TooManyStreams(usize),
    /// Too many connections from this address.
    TooManyConnections,
    /// Too many connections in all.
    Overloaded,
    /// The bridge is stopping and takes no new work.
    Draining,
    /// What became of a call of a method whose result has no `isError`.
    Failed(Trouble),
}

impl Fault {
    /// The JSON-RPC error code (JSON-RPC 2.0 §5.1; MCP 2026-07-28, Basic, Error Codes).
    pub fn code(&self) -> i32 {
        match self {
            Fault::ParseError(_) => -32700,
            Fault::MethodNotFound(_) => -32601,
            Fault::InvalidParams(_) | Fault::BadArgument(_) | Fault::UnknownTool(_) => -32602,
            Fault::HeaderMismatch(_) => -32020,
            Fault::MissingCapability(_) => -32021,
            Fault::UnsupportedVersion(_) => -32022,
            Fault::Failed(_) => -32603,
            _ => -32600,
        }
    }

    /// The HTTP status. A 404 would tell a 2025-era agent that its session is lost, so there an
    /// unknown method is an ordinary answer.
    pub fn status(&self, era: Era) -> u16 {
        match self {
            Fault::MethodNotFound(_) if era == Era::Modern => 404,
            Fault::InvalidParams(_) | Fault::MissingCapability(_) if era == Era::Modern => 400,
            Fault::ParseError(_)
            | Fault::InvalidRequest(_)
            | Fault::HeaderMismatch(_)
            | Fault::UnsupportedVersion(_) => 400,
            Fault::Unauthorized(_) => 401,
            Fault::InsufficientScope | Fault::WrongClient | Fault::ForbiddenOrigin => 403,
            Fault::NotAcceptable(_) => 406,
            Fault::TooLarge(_) => 413,
            Fault::MediaType(_) => 415,
            Fault::TooManyStreams(_) | Fault::TooManyConnections => 429,
            Fault::Draining | Fault::Overloaded => 503,
            _ => 200,
        }
    }

    /// The `data` member of the error, as JSON text.
    pub fn data(&self) -> Option<String> {
        match self {
            Fault::UnsupportedVersion(requested) => Some(alloc::format!(
                r#"{{"supported":["{}"],"requested":{requested}}}"#,
                mcp::MODERN
            )),
            Fault::MissingCapability(required) => {
                Some(alloc::format!(r#"{{"requiredCapabilities":{required}}}"#))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::ParseError(what) => write!(f, "Parse error: {what}"),
            Fault::InvalidRequest(what) => write!(f, "Invalid request: {what}"),
            Fault::MethodNotFound(method) => write!(f, "Method not found: {method}"),
            Fault::InvalidParams(what) | Fault::BadArgument(what) => {
                write!(f, "Invalid params: {what}")
            }
            Fault::UnknownTool(name) => write!(f, "Unknown tool: {name}"),
            Fault::HeaderMismatch(what) => write!(f, "Header mismatch: {what}"),
            Fault::MissingCapability(_) => {
                f.write_str("The application asked for something this agent did not declare")
            }
            Fault::UnsupportedVersion(requested) => write!(
                f,
                "Unsupported protocol version {requested}; this server supports {}",
                mcp::MODERN
            ),
            Fault::Unauthorized(None) => f.write_str(
                "Unauthorized: send the header `Authorization: Bearer <token>` with a token of scope `agent`",
            ),
            Fault::Unauthorized(Some(what)) => write!(f, "Unauthorized: {what}"),
            Fault::InsufficientScope => {
                f.write_str("Forbidden: this token lacks the scope `agent`")
            }
            Fault::WrongClient => {
                f.write_str("Forbidden: the client ID in the path is not the one of the token")
            }
            Fault::ForbiddenOrigin => f.write_str(
                "Forbidden: this Origin is not allowed; the operator can name it with --allow-origin",
            ),
            Fault::NotAcceptable(wanted) => write!(f, "Not acceptable: Accept must allow {wanted}"),
            Fault::TooLarge(max) => write!(f, "Too large: a body may have at most {max} bytes"),
            Fault::MediaType(came) => write!(
                f,
                "Unsupported media type: expected Content-Type application/json, got {came}"
            ),
            Fault::TooManyStreams(max) => {
                write!(f, "Too many open notification streams for this client (at most {max})")
            }
            Fault::TooManyConnections => f.write_str("Too many connections from this address"),
            Fault::Overloaded => {
                f.write_str("The bridge has too many connections; try again later")
            }
            Fault::Draining => f.write_str("The bridge is stopping; try again later"),
            Fault::Failed(trouble) => trouble.fmt(f),
        }
    }
}

/// Why a call could not be completed, through nobody's wrong request.
///
/// For `tools/call` this is a tool error (`isError: true`), so that the model can read it and decide;
/// for the other forwarded methods it is a JSON-RPC error -32603 with the same words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The client was not there, and did not come back within the wait.
    NotConnected,
    /// The connection went, or was replaced, after the call had been written to it.
    MayHaveRun,
    /// No answer within the call timeout; holds its seconds.
    TimedOut(u64),
    /// The client already has as many running calls as it may have; holds the limit.
    TooManyCalls(usize),
    /// The client does not read fast enough: too many bytes wait for it.
    QueueFull,
    /// The call with its envelope is larger than a channel message may be.
    CallTooLarge(usize),
    /// The bridge stops, and the call was not finished.
    Stopping,
    /// The client answered with something the bridge cannot hand on.
    BadReply,
    /// The client asked the agent for something that the agent did not declare (2025 era); what.
    NotDeclared(&'static str),
    /// The client asked the agent back, and the agent takes no event stream to be asked on.
    NoStream,
    /// The agent answered the client's question with an error; to what.
    AgentRefused(&'static str),
    /// The agent did not answer the client's question within the call timeout; holds its seconds.
    AgentSilent(u64),
    /// The client went on asking; holds the limit of rounds.
    TooManyRounds(usize),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::NotConnected => f.write_str(
                "The application is not connected. The call was not sent to it. Try again when it is back.",
            ),
            Trouble::MayHaveRun => f.write_str(
                "The connection to the application was lost after the call was sent. It may have run; no result came back.",
            ),
            Trouble::TimedOut(seconds) => write!(
                f,
                "The application did not answer within {seconds} s (timeout). The call was cancelled; it may have run."
            ),
            Trouble::TooManyCalls(max) => write!(
                f,
                "The application is busy: {max} calls are already running. The call was not sent. Try again later."
            ),
            Trouble::QueueFull => f.write_str(
                "The application is busy: it does not read fast enough and its queue is full. The call was not sent. Try again later.",
            ),
            Trouble::CallTooLarge(max) => write!(
                f,
                "The call is too large: with its envelope it does not fit one message of {max} bytes to the application. It was not sent."
            ),
            Trouble::Stopping => f.write_str(
                "The bridge is stopping before the application answered. The call may have run; no result came back.",
            ),
            Trouble::BadReply => f.write_str(
                "The application answered with something that cannot be handed on. The call may have run.",
            ),
            Trouble::NotDeclared(what) => write!(
                f,
                "The application needs {what}, which this agent did not declare as a capability."
            ),
            Trouble::NoStream => f.write_str(
                "The application needs to ask the agent something, but this request does not accept text/event-stream.",
            ),
            Trouble::AgentRefused(what) => {
                write!(f, "The agent answered the application's {what} with an error.")
            }
            Trouble::AgentSilent(seconds) => write!(
                f,
                "The agent did not answer the application's question within {seconds} s (timeout)."
            ),
            Trouble::TooManyRounds(max) => write!(
                f,
                "The application asked the agent for input more than {max} times in one call."
            ),
        }
    }
}

/// Why a client's connection is closed: a close code with a reason (RFC 6455 §7.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Close {
    /// The bridge stops.
    Stopping,
    /// A message over `MESSAGE_BYTES_MAX`.
    TooLarge,
    /// A WebSocket frame against RFC 6455.
    Protocol,
    /// A text message that is not UTF-8 (RFC 6455 §8.1).
    NotUtf8,
    /// A message or register of the wrong form; where and what.
    BadMessage {
        /// Like `tools[2].name`; `None` when it is about the whole message.
        path: Option<String>,
        /// What was expected and what came.
        message: String,
    },
    /// The token is missing, bad or expired.
    BadToken(String),
    /// The token is good but may not connect, or not as this client.
    Forbidden(&'static str),
    /// No register within its timeout, in seconds.
    NoRegister(u64),
    /// Nothing heard for too long, in seconds.
    Silent(u64),
    /// A newer connection has this client ID.
    Replaced,
    /// The bridge is at a connection limit.
    Limit(&'static str),
}

impl Close {
    /// The WebSocket close code.
    pub fn code(&self) -> u16 {
        match self {
            Close::Stopping => 1001,
            Close::Protocol => 1002,
            Close::NotUtf8 => 1007,
            Close::TooLarge => 1009,
            Close::BadMessage { .. } => 4400,
            Close::BadToken(_) => 4401,
            Close::Forbidden(_) => 4403,
            Close::NoRegister(_) | Close::Silent(_) => 4408,
            Close::Replaced => 4409,
            Close::Limit(_) => 4429,
        }
    }

    /// Where in the message the fault lies, like `tools[2].name`.
    pub fn path(&self) -> Option<&str> {
        match self {
            Close::BadMessage { path, .. } => path.as_deref(),
            _ => None,
        }
    }

    /// The close reason: the full message cut to what a close frame can carry, at a character boundary.
    pub fn reason(&self) -> String {
        let mut reason = alloc::string::ToString::to_string(self);
        let mut end = reason.len().min(crate::limits::CLOSE_REASON_BYTES_MAX);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        reason.truncate(end);
        reason
    }
}

impl fmt::Display for Close {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Close::Stopping => f.write_str("the bridge is stopping"),
            Close::TooLarge => {
                write!(f, "a message may have at most {} bytes", crate::limits::MESSAGE_BYTES_MAX)
            }
            Close::Protocol => f.write_str("a frame against the WebSocket protocol"),
            Close::NotUtf8 => f.write_str("a text message that is not UTF-8"),
            Close::BadMessage { message, .. } => f.write_str(message),
            Close::BadToken(what) => f.write_str(what),
            Close::Forbidden(what) => f.write_str(what),
            Close::NoRegister(seconds) => {
                write!(f, "no register within {seconds} s of the handshake")
            }
            Close::Silent(seconds) => write!(f, "nothing was heard for {seconds} s"),
            Close::Replaced => f.write_str("replaced: a newer connection has this client ID"),
            Close::Limit(what) => f.write_str(what),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
