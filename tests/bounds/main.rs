//! Every bound that is a flag (docs/limits.md): set low, reached, and seen from outside by who is beyond
//! it, by who is not, and in the log, which must say what the table in docs/limits.md promises.
//!
//! Bounds that only end a wait (`--reconnect-wait`, `--offline-grace`, `--drain-timeout`) are reached in
//! `tests/trouble`, in `away` and `stop`; that all flags are in the table is `src/config/tests.rs`.

#[path = "../support/extra.rs"]
mod extra;
#[path = "../support/mod.rs"]
mod support;

mod connections;
mod files;
mod rates;
mod readers;
mod sizes;
mod times;

use std::path::Path;

use support::Bridge;

/// What the log says when the bound of this flag is met, by docs/limits.md.
fn promised(flag: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/limits.md");
    let table = std::fs::read_to_string(path).expect("docs/limits.md is in the tree");
    let start = format!("| `{flag}` |");
    let row = table.lines().find(|line| line.starts_with(&start));
    let row = row.unwrap_or_else(|| panic!("no row for {flag}"));
    let said = row.trim_end_matches(" |").rsplit(" | ").next().expect("split gives one");
    said.split("; ").map(str::to_owned).collect()
}

/// Waits for the line of the log about this bound.
fn log_of(bridge: &Bridge, flag: &str) -> String {
    let promised = promised(flag);
    support::eventually(&format!("{promised:?} in the log"), support::SOON, || {
        let about = |line: &String| {
            line.contains(flag) && promised.iter().any(|words| line.contains(words.as_str()))
        };
        let line = bridge.log_lines().into_iter().find(about)?;
        assert!(line.contains(" WARN "), "{line}");
        Some(line)
    })
}

/// Fails unless the log has exactly one line about this bound.
fn logged_once(bridge: &Bridge, flag: &str) {
    log_of(bridge, flag);
    let lines = bridge.log_lines();
    let about = lines.iter().filter(|line| line.contains(&format!("({flag})")));
    assert_eq!(about.count(), 1, "{lines:#?}");
}
