//! What the measurements of a bridge are made of: bytes as agents and clients send them, connections that
//! carry them, a bridge as a process, and the two long runs, soak and attack.
//!
//! `make bench` puts the small ones together in `main`; the tests of the bridge run a short soak.

pub mod attack;
pub mod histogram;
pub mod net;
pub mod proc;
pub mod response;
pub mod server;
pub mod soak;
pub mod wire;
