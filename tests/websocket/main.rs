//! RFC 6455 against the binary, row by row: what a client puts on the wire, what it then sees.
//!
//! The cases are those that a WebSocket test suite has (Autobahn's sections 1 to 7), in our own words:
//! its peer is an echo server and ours is none, so text goes through as a client's answer and is read at
//! the agent. Each row is sent in one piece, frame by frame and byte by byte, and has to come to the same.
//! What the messages mean, and the limit of 4 MiB, is in `tests/contract`. From here go to `stage`.

#[path = "../support/mod.rs"]
mod support;

mod stage;

mod closing;
mod control;
mod fragments;
mod sizes;
mod streams;
mod utf8;
