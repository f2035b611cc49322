//! The MCP endpoint as an agent sees it: every test speaks HTTP and WebSocket to a URL and knows
//! nothing of the process behind it. With `CLIENTMCP_TEST_URL` and `CLIENTMCP_TEST_SECRET` set that
//! is any server; otherwise each test starts a bridge of its own. Each test has a client ID of its
//! own, so all may run at once. What needs particular flags or looks at the process is in
//! `tests/trouble`.

#[path = "../support/extra.rs"]
mod extra;
#[path = "../support/mod.rs"]
mod support;

mod batches;
mod cancel;
mod capabilities;
mod displaced;
mod era;
mod errors;
mod jsonrpc;
mod legacy;
mod listen;
mod lists;
mod many;
mod notices;
mod order;
mod params;
mod rounds;
mod shape;
mod sizes;
mod verbatim;
