//! The table `tests/data/captures/expected.txt`: how each recorded request is answered.
//!
//! Knows the table's columns and words, and fails on any it does not know; knows nothing of HTTP.
//! Where to go next: `replay`, which compares.

use std::collections::BTreeMap;

/// One row: what to expect of one request.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub what: String,
    pub status: u16,
    pub content: Content,
    pub outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Content {
    Json,
    Sse,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    Result,
    ToolError,
    Error(i64),
    Accepted,
    Deleted,
    Stream,
    HungUp,
    Cancelled,
}

/// Rows by recording and `seq`.
pub type Table = BTreeMap<(String, u64), Row>;

/// The table in the tree.
pub fn table() -> Table {
    parse(include_str!("../data/captures/expected.txt"))
}

fn parse(text: &str) -> Table {
    let mut table = Table::new();
    for (number, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let cells: Vec<&str> =
            line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        let [file, seq, what, status, content, outcome] = cells[..] else {
            panic!("expected.txt line {}: six columns, not {}", number + 1, cells.len())
        };
        let row = Row {
            what: what.to_owned(),
            status: status.parse().expect("a status is a number"),
            content: match content {
                "json" => Content::Json,
                "sse" => Content::Sse,
                "none" => Content::None,
                other => panic!("expected.txt line {}: unknown content {other}", number + 1),
            },
            outcome: match outcome {
                "result" => Outcome::Result,
                "tool error" => Outcome::ToolError,
                "accepted" => Outcome::Accepted,
                "deleted" => Outcome::Deleted,
                "stream" => Outcome::Stream,
                "hung up" => Outcome::HungUp,
                "cancelled" => Outcome::Cancelled,
                other => match other.strip_prefix("error ").map(str::parse) {
                    Some(Ok(code)) => Outcome::Error(code),
                    _ => panic!("expected.txt line {}: unknown outcome {other}", number + 1),
                },
            },
        };
        let key = (file.to_owned(), seq.parse().expect("a seq is a number"));
        assert_eq!(table.insert(key, row), None, "expected.txt line {}: twice", number + 1);
    }
    table
}
