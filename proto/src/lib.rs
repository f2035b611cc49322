//! The protocol of ClientMCP without I/O.
//!
//! Everything that can be worked out from bytes and a clock reading is a plain function or struct
//! here: no async, no sockets, no clock, no randomness, no logging. Time arrives as an argument named
//! `now`, IDs come from the caller. The bridge, its tests and its client mode all drive this one crate.
#![no_std]

extern crate alloc;

pub mod client_id;
pub mod headers;
pub mod http1;
pub mod json;
pub mod limits;
pub mod offer;
pub mod time;
pub mod token;
