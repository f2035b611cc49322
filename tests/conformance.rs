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

/// What does not pass, of the scenarios that the suite does not score, and why. An entry that passes
/// fails the test, so the list can only shrink.
const UNMET: &[(&str, &str)] = &[
    (
        "server-session-lifecycle/server-session-terminated-returns-404",
        "a deleted session is not 404: most agents never recover from that (SPEC §7)",
    ),
    (
        "server-sse-polling/",
        "streams have no event IDs: nothing is kept that could be resumed from (SPEC §7)",
    ),
    ("tasks-", "io.modelcontextprotocol/tasks is an extension that the bridge does not have"),
];

/// Unscored scenarios that must pass all the same.
const ALSO: &[(&str, &[&str])] = &[
    ("2025-11-25", &["json-schema-2020-12"]),
    (
        "2026-07-28",
        &["http-header-validation", "http-custom-header-server-validation", "json-schema-2020-12"],
    ),
];

#[test]
fn the_suite_for_2025_passes() {
    passes("2025-11-25", 33);
}

#[test]
fn the_suite_for_2026_passes() {
    passes("2026-07-28", 50);
}

fn passes(revision: &str, count: usize) {
    let bridge = Bridge::shared();
    let client_id = unique("conformance");
    let app = everything::start(bridge, &client_id);
    assert_eq!(app.refused, json!([]), "every definition is a good one");
    let agent_token = token(&client_id, "agent");
    let url = bridge.url("/mcp");
    let run = tools::run("conformance.mjs", &[&url, revision], &agent_token, TIMEOUT);
    let tail = run["tail"].as_str().unwrap_or("?");
    assert_eq!(run["exit"], 0, "a scored scenario failed: {tail}");

    let scenarios = run["scenarios"].as_object().expect("results by scenario");
    assert_eq!(scenarios.len(), count, "scenarios of {revision}, the unscored ones too");
    let mut used = vec![false; UNMET.len()];
    let mut unexpected = Vec::new();
    for (name, outcome) in scenarios {
        // A warning counts like a failure: each would have to be listed with its reason.
        for failure in outcome["failed"].as_array().expect("a list of failures") {
            let place = format!("{name}/{}", failure["check"].as_str().unwrap_or("?"));
            match UNMET.iter().position(|(listed, _)| place.starts_with(listed)) {
                Some(entry) => used[entry] = true,
                None => unexpected.push(format!("{place}: {failure}")),
            }
        }
    }
    assert!(unexpected.is_empty(), "fails: {unexpected:#?}");
    for ((listed, reason), used) in UNMET.iter().zip(used) {
        let ran = scenarios.keys().any(|name| listed.starts_with(name) || name.starts_with(listed));
        assert!(used || !ran, "{listed} passes now; it was listed because {reason}");
    }
    for name in ALSO.iter().filter(|(of, _)| *of == revision).flat_map(|(_, names)| *names) {
        let passed = scenarios.get(*name).map(|outcome| &outcome["passed"]);
        assert!(passed.and_then(Value::as_u64) > Some(0), "{name} must run and pass: {passed:?}");
    }
}
