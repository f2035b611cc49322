//! The official conformance suite, through a running bridge, for both revisions.
//!
//! Knows how many scenarios a revision has and that everything outside its list of expected
//! failures must pass. `tests/support/everything.rs` is the application behind the bridge,
//! `tests/agents/conformance.mjs` runs the suite.

#[path = "agents/tools.rs"]
mod tools;

#[path = "support/everything.rs"]
mod everything;
mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::{Bridge, token, unique};

const TIMEOUT: Duration = Duration::from_secs(300);

#[test]
fn the_suite_for_2025_passes_but_for_what_is_listed() {
    passes("2025-11-25", 33);
}

#[test]
fn the_suite_for_2026_passes_but_for_what_is_listed() {
    passes("2026-07-28", 50);
}

fn passes(revision: &str, scenarios: usize) {
    let bridge = Bridge::shared();
    let client_id = unique("conformance");
    let app = everything::start(bridge, &client_id);
    let refused = &app.registered()[0]["refused"];
    assert_eq!(*refused, json!([]), "every definition is a good one");
    let agent_token = token(&client_id, "agent");
    let url = bridge.url("/mcp");
    let run = tools::run("conformance.mjs", &[&url, revision], &agent_token, TIMEOUT);
    let ran = run["scenarios"].as_object().expect("results by scenario").len();
    assert_eq!(ran, scenarios, "scenarios of {revision}, the unscored ones too");
    let (unexpected, stale) = (lines(&run["unexpected"]), lines(&run["stale"]));
    assert!(
        unexpected.is_empty() && stale.is_empty(),
        "fails and is not expected to:{unexpected}\nis expected to fail and passes:{stale}"
    );
    assert_eq!(run["exit"], 0, "the suite's own verdict: {}", run["tail"].as_str().unwrap_or("?"));
}

fn lines(list: &Value) -> String {
    let list = list.as_array().expect("the driver prints lists");
    list.iter().map(|line| format!("\n  {}", line.as_str().unwrap_or("?"))).collect()
}
