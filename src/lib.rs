//! The bridge: everything that waits. What it decides is decided in `clientmcp_proto`.
//!
//! The rooms stand in a line: `config`, `log`, `metrics`, `secrets`, `revoked`; `shared` with `admission`,
//! `timers`, `socket`; `ticket`, `mailbox`, `stream`; `registry`; `conversation`, `connection`; `http` with
//! `head`, `http_body`, `call`, `job` and `upgrade`; `listener`; `bridge` with `dev` and `demo`; `serve`;
//! `cli`. A room uses those before it. `shared` names later ones too, because it holds what all have in
//! common, and a ticket makes a message for its conversation.
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
