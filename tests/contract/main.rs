//! The contract seen from outside, over HTTP and WebSocket only: no process, no flags, no log.
//!
//! Every test has a client ID of its own and shares one bridge; with `CLIENTMCP_TEST_URL` and
//! `CLIENTMCP_TEST_SECRET` that is a bridge somebody else runs, on whatever runtime. What needs a
//! bridge of its own is in `tests/process`.

#[path = "../support/mod.rs"]
mod support;

mod accept;
mod bodies;
mod channel;
mod closes;
mod frames;
mod origins;
mod registers;
mod routes;
mod support_itself;
mod tokens;
