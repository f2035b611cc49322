//! The bridge: everything that waits. What it decides is decided in `clientmcp_proto`.

pub mod cli;
pub mod config;
pub mod log;
pub mod metrics;
pub mod secrets;
pub mod serve;
