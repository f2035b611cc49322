//! The bridge: everything that waits. What it decides is decided in `clientmcp_proto`.
//!
//! The rooms stand in a line and use only what is before them: `config`, `log`, `metrics`, `secrets`;
//! `shared`, `timers`, `socket`; `ticket`, `mailbox`, `stream`; `registry`; `conversation`, `connection`;
//! `http` with `head`, `http_body`, `call`, `job` and `upgrade`; `listener`; `bridge`; `serve`; `cli`.
//! `client` stands apart: it is the other end of the WebSocket, and knows nothing of the bridge;
//! `connect` uses it.

mod admission;
mod bridge;
mod call;
pub mod cli;
pub mod client;
pub mod config;
#[cfg(feature = "connect")]
pub mod connect;
mod connection;
mod conversation;
mod demo;
mod dev;
mod head;
mod http;
mod http_body;
mod job;
mod listener;
pub mod log;
mod mailbox;
pub mod metrics;
mod registry;
mod revoked;
pub mod secrets;
pub mod serve;
mod shared;
#[cfg(test)]
mod simulation;
mod socket;
mod stream;
mod ticket;
mod timers;
mod upgrade;

pub use bridge::{Bridge, Control};
