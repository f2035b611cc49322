//! The JavaScript SDK: its own tests, run against a bridge that is started here.
//!
//! Knows only where they are. What is tested stands in `sdk/test`; the channel that the SDK and the
//! bridge share is recorded in `tests/data/transcripts`. From here go to `sdk/node.rs`, which runs
//! Node.

#[path = "sdk/node.rs"]
mod node;

mod support;

use support::Bridge;

#[test]
fn the_sdk_passes_its_tests_against_this_bridge() {
    let sdk = node::installed("sdk");
    node::passes(Bridge::shared(), &sdk.join("test"), ".test.js", 8);
}
