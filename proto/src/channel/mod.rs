//! The conversation with one client over its WebSocket, both ends, without the socket (SPEC, The client
//! channel).
//!
//! `server` is the bridge's end: a small state machine per connection. `client` is the other end, for the
//! demo client, the client mode and the tests. This file has what both know: call IDs and message texts.

use alloc::string::{String, ToString};
use core::fmt;

use crate::client_id::ClientId;
use crate::fault::Close;
use crate::json;
use crate::limits;
use crate::offer::Refused;

pub mod client;
mod server;

pub use server::{Channel, Outcome, Step, Tick};

/// The WebSocket subprotocol of this channel.
pub const SUBPROTOCOL: &str = "clientmcp.v1";

/// What stands before the token in the second subprotocol a client offers.
pub const BEARER_PREFIX: &str = "clientmcp.bearer.";

/// The exact text of a ping, so that an edge can answer it without waking anyone.
pub const PING: &str = r#"{"type":"ping"}"#;

/// The exact text of its answer.
pub const PONG: &str = r#"{"type":"pong"}"#;

/// Names one call on the wire to the client, in the log and in a cancel. Never used twice by one bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

impl CallId {
    /// Reads what [`Display`](fmt::Display) wrote; anything else is no ID of ours.
    pub fn parse(text: &str) -> Option<CallId> {
        let digits = text.strip_prefix('c')?;
        let canonical = digits == "0" || !digits.starts_with(['0', '+']);
        digits.parse().ok().filter(|_| canonical).map(CallId)
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}", self.0)
    }
}

/// The answer to an accepted register.
pub fn registered(client_id: &ClientId, refused: &[Refused]) -> String {
    let mut text = String::from(r#"{"type":"registered","clientId":"#);
    json::quote(client_id.as_str(), &mut text);
    text.push_str(&alloc::format!(
        r#","maxMessageBytes":{},"pingIntervalMs":{},"refused":["#,
        limits::MESSAGE_BYTES_MAX,
        limits::PING_INTERVAL.as_millis()
    ));
    for (at, refused) in refused.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(r#"{"path":"#);
        json::quote(&refused.path, &mut text);
        text.push_str(r#","message":"#);
        json::quote(&refused.message, &mut text);
        text.push('}');
    }
    text.push_str("]}");
    text
}

/// Tells the client that nobody waits for a call any more.
pub fn cancel(id: CallId, reason: &str) -> String {
    let mut text = alloc::format!(r#"{{"type":"cancel","id":"{id}","reason":"#);
    json::quote(reason, &mut text);
    text.push('}');
    text
}

/// The full reason of a close, sent right before a 44xx.
pub fn fault(close: &Close) -> String {
    let mut text = alloc::format!(r#"{{"type":"fault","code":{},"message":"#, close.code());
    json::quote(&close.to_string(), &mut text);
    if let Some(path) = close.path() {
        text.push_str(r#","path":"#);
        json::quote(path, &mut text);
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests;
