//! What every test from outside stands on: a running bridge, agents, clients, tokens.
//!
//! Knows the wire and nothing of our crates: blocking std sockets and threads, tokens signed here,
//! so that a mistake in `clientmcp-proto` can not hide in its own judge. Every wait has a deadline,
//! every failure prints what came instead. From here go to `bridge` (the process), `http` and `sse`
//! (bytes), `agent`, `client` and `app` (the two sides).

#![allow(dead_code, unused_imports)] // each test binary uses its own part of it

mod agent;
mod app;
mod bridge;
mod client;
mod http;
mod raw_client;
mod sse;
mod tokens;

pub use agent::{Agent, Answer, Era, MODERN, version_meta};
pub use app::{App, Call, Hands, Reply};
pub use bridge::{Bridge, Watchdog};
pub use client::{Client, Heard, tool, with_type};
pub use http::{Framing, Http, Request, Response, Trouble};
pub use raw_client::{BINARY, CLOSE, CONTINUATION, Frame, PING, PONG, RawClient, TEXT};
pub use sse::{Event, Events};
pub use tokens::{SECRET, Token, secret, token};

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a test waits for something that should come at once.
pub const SOON: Duration = Duration::from_secs(10);

/// Largest channel message and HTTP body of the contract, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A client ID nobody else has, in this run or another: tests may share a bridge in any order.
pub fn unique(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{name}-{:x}-{:x}-{n}", std::process::id(), now_seconds())
}

/// Wall-clock seconds, for token claims.
pub fn now_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970").as_secs()
}

/// Asks again every 10 ms until `ready` gives something; fails with `what` after `patience`.
pub fn eventually<T>(what: &str, patience: Duration, mut ready: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(Instant::now() < deadline, "not within {patience:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// At most the first 300 characters of what came, for an assertion message.
pub fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned();
    let more =
        if bytes.len() > 300 { format!("… ({} bytes)", bytes.len()) } else { String::new() };
    format!("{text:?}{more}")
}
