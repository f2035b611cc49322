//! The names of MCP, each spelled here once more so that a slip in one place shows.

use alloc::vec::Vec;

use super::*;

#[test]
fn forwarded_methods_have_one_name_each() {
    let rows = [
        ("tools/call", Forwarded::CallTool, Some("name")),
        ("prompts/get", Forwarded::GetPrompt, Some("name")),
        ("resources/read", Forwarded::ReadResource, Some("uri")),
        ("completion/complete", Forwarded::Complete, None),
    ];
    for (name, method, mirrored) in rows {
        assert_eq!(Forwarded::parse(name), Some(method));
        assert_eq!(method.name(), name);
        assert_eq!(method.mirrored(), mirrored);
    }
    for other in ["", "tools/list", "tools/call ", "Tools/call", "tools/calls", "initialize"] {
        assert_eq!(Forwarded::parse(other), None, "{other}");
    }
}

#[test]
fn log_levels_rise_in_the_order_of_their_names() {
    let names: Vec<&str> = LogLevel::NAMES.split([',', ' ']).collect();
    let names: Vec<&str> = names.into_iter().filter(|n| !n.is_empty() && *n != "or").collect();
    assert_eq!(
        names,
        ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
    );
    let levels: Vec<LogLevel> = names.iter().filter_map(|name| LogLevel::parse(name)).collect();
    assert_eq!(levels.len(), names.len());
    assert!(levels.iter().map(|level| level.name()).eq(names));
    assert!(levels.windows(2).all(|pair| pair[0] < pair[1]), "{levels:?}");
    for other in ["", "Debug", "warn", "fatal", "debug ", "trace"] {
        assert_eq!(LogLevel::parse(other), None, "{other}");
    }
}

#[test]
fn changes_are_a_set_of_three() {
    let kinds = [Changes::TOOLS, Changes::PROMPTS, Changes::RESOURCES];
    let names = [
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
    ];
    for bits in 0..8usize {
        let inside = |at: usize| bits >> at & 1 == 1;
        let set =
            (0..3).filter(|&at| inside(at)).fold(Changes::NONE, |set, at| set.with(kinds[at]));
        assert_eq!(set.is_empty(), bits == 0);
        assert!(set.has(Changes::NONE) && Changes::ALL.has(set));
        for (at, &kind) in kinds.iter().enumerate() {
            assert_eq!(set.has(kind), inside(at));
            assert_eq!(set.and(kind).is_empty(), !inside(at));
        }
        let expected: Vec<&str> = (0..3).filter(|&at| inside(at)).map(|at| names[at]).collect();
        assert_eq!(set.methods().collect::<Vec<_>>(), expected);
    }
    assert_eq!(Changes::default(), Changes::NONE);
    assert!(!Changes::TOOLS.has(Changes::ALL));
}

#[test]
fn no_revision_belongs_to_both_eras() {
    assert_eq!(LEGACY, ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]);
    assert_eq!(MODERN, "2026-07-28");
    assert!(LEGACY.is_sorted() && !LEGACY.contains(&MODERN));
    assert!(LEGACY.contains(&LEGACY_ASSUMED));
    assert_eq!(LEGACY.last(), Some(&LEGACY_NEWEST));
}
