//! Trouble: one test for each thing that goes wrong with the process, its flags, or a peer.
//!
//! Each test starts a bridge of its own with short times. What any server must do at its default
//! settings, seen through HTTP and WebSocket alone, is in `tests/mcp`.

#[path = "../support/extra.rs"]
mod extra;
#[path = "../support/mod.rs"]
mod support;

mod addresses;
mod away;
mod burst;
mod limits;
mod log;
mod reload;
mod restart;
mod sessions;
mod stall;
mod start;
mod stop;
