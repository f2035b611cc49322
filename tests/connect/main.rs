//! `clientmcp connect` from outside: a bridge, the program, and servers that others started with it.
//!
//! `by_hand` uses a server of ours that misbehaves on request; `process` looks at the program itself.

#[path = "../support/mod.rs"]
mod support;

mod by_hand;
mod connected;
mod process;
