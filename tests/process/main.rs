//! The bridge as a process: malformed input, flags, signals, memory. Every test that needs one
//! starts its own bridge.
//!
//! What can be seen through HTTP and WebSocket alone, with default settings, is in
//! `tests/contract`.

#[path = "../support/mod.rs"]
mod support;

mod closes;
mod http1;
mod origins;
mod pipelining;
mod remembered;
mod timeouts;
