//! The protocol of ClientMCP without I/O.
//!
//! Everything that can be worked out from bytes and a clock reading is a plain function or struct
//! here: no async, no sockets, no clock, no randomness, no logging. Time arrives as an argument named
//! `now`, IDs come from the caller. The bridge, its tests and its client mode all drive this one crate.
#![no_std]

extern crate alloc;

pub mod agent;
pub mod answer;
pub mod channel;
pub mod client_id;
pub mod fault;
pub mod frames;
pub mod headers;
pub mod http1;
pub mod json;
pub mod jsonrpc;
pub mod limits;
pub mod mcp;
pub mod mrtr;
pub mod negotiate;
pub mod notes;
pub mod offer;
pub mod reply;
pub mod route;
pub mod session;
pub mod span;
pub mod sse;
pub mod time;
pub mod token;
pub mod upstream;
