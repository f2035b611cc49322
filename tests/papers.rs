//! README.md and SPEC.md against the program: flags, their variables, and metrics.
//!
//! Reads the tables, not the words around them. The tables of faults in SPEC.md are compared by
//! `proto/tests/spec.rs`.

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use support::{Bridge, Http, Request};

fn paper(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// What stands between two headings.
fn chapter<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("no {from:?}"));
    rest.split_once(to).unwrap_or_else(|| panic!("no {to:?} after {from:?}")).0
}

/// The rows of all tables in a text, as the cells' texts without backquotes.
fn rows(text: &str) -> impl Iterator<Item = Vec<String>> {
    text.lines().filter(|line| line.starts_with("| ")).map(|line| {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().replace('`', "")).collect()
    })
}

/// The flags of `serve`, as its help names them.
fn flags() -> BTreeSet<String> {
    let mut command = Bridge::command(&[]);
    command.args(["serve", "--help"]).stdout(std::process::Stdio::piped());
    let help = String::from_utf8(command.output().expect("it runs").stdout).expect("UTF-8");
    let flags = help.lines().filter_map(|line| line.strip_prefix("  --")?.split(' ').next());
    let flags: BTreeSet<_> = flags.map(|flag| format!("--{flag}")).collect();
    assert!(flags.contains("--listen"), "{help}");
    flags
}

/// The flags of a table's first column; the second must be the variable.
fn documented(text: &str) -> BTreeSet<String> {
    let flags = rows(text).filter(|row| row[0].starts_with("--"));
    flags
        .map(|row| {
            let flag = row[0].split(' ').next().unwrap_or_default().to_owned();
            let variable = flag[2..].to_uppercase().replace('-', "_");
            assert_eq!(row[1], format!("CLIENTMCP_{variable}"), "{row:?}");
            flag
        })
        .collect()
}

#[test]
fn the_readme_and_the_specification_know_every_flag_and_no_other() {
    let readme = paper("README.md");
    let table = chapter(&readme, "## Configuration", "The other commands");
    assert_eq!(documented(table), flags(), "README.md, Configuration");
    let spec = paper("SPEC.md");
    let table = chapter(&spec, "### 9.3", "### 9.4");
    assert_eq!(documented(table), flags(), "SPEC.md §9.3");
}

#[test]
fn the_readme_knows_every_metric_and_no_other() {
    let bridge = Bridge::start(&["--metrics", "127.0.0.1:0"]);
    let line = bridge.await_log("metrics are served", Duration::from_secs(5));
    let address = line.rsplit('=').next().unwrap_or_default().parse().expect("an address");
    let mut http = Http::connect(address);
    http.send(Request::get("/metrics").bytes());
    let page = http.read_response();
    let served = page.text().lines().filter_map(|line| line.strip_prefix("# TYPE clientmcp_"));
    let served: BTreeSet<_> =
        served.map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect();
    assert!(served.contains("clients"), "{page:?}");

    let readme = paper("README.md");
    let tables = chapter(&readme, "**Metrics.**", "**Signals.**");
    let told = rows(tables).filter(|row| row[0] != "metric");
    let told: BTreeSet<_> = told
        .flat_map(|row| row[0].split(", ").map(str::to_owned).collect::<Vec<_>>())
        .map(|name| name.split('{').next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(told, served);
}

#[test]
fn lines_of_the_papers_have_at_most_a_hundred_columns() {
    for name in ["README.md", "SPEC.md", "CHANGELOG.md", "SECURITY.md", "docs/security.md"] {
        for (number, line) in paper(name).lines().enumerate() {
            let columns = line.chars().count();
            assert!(columns <= 100, "{name}:{}: {columns} columns: {line}", number + 1);
        }
    }
}
