//! `clientmcp connect` from outside: a bridge, the program, and servers that others started with it.
//!
//! `by_hand` and `over_http` use servers of ours that misbehave on request; `process` looks at the program itself;
//! `others` compares what real agents see of real servers with and without the bridge between them.

#![cfg(feature = "connect")]

#[path = "../support/mod.rs"]
mod support;
#[path = "../agents/tools.rs"]
mod tools;

mod by_hand;
mod connected;
mod others;
mod over_http;
mod process;
