//! The 2025 era's own things (SPEC §5.4): initialize, sessions, the GET stream, DELETE,
//! notifications, ping, log levels, subscriptions.

use std::time::{Duration, Instant};

use crate::extra::{ADD, Ask, Client, Desk, SUB, register};
use crate::support::Event;

fn initialize(asks: &str) -> String {
    format!(
        r#"{{"protocolVersion":"{asks}","capabilities":{{}},"clientInfo":{{"name":"t","version":"1"}}}}"#
    )
}

/// An initialize as agents send it: without a version header.
fn ask_initialize(asks: &str) -> Ask {
    Ask::old("0", "initialize", &initialize(asks)).without("MCP-Protocol-Version")
}

#[test]
fn initialize_answers_a_known_version_and_else_the_newest_of_its_era() {
    let desk = Desk::open();
    let rows = [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
        ("1.0", "2025-11-25"),
        ("", "2025-11-25"),
        (r"2025-06\u002d18", "2025-06-18"),
    ];
    for (asks, gets) in rows {
        let answer = desk.send(&ask_initialize(asks));
        assert_eq!(answer.status, 200, "{asks}: {answer}");
        assert_eq!(answer.json()["result"]["protocolVersion"], gets, "{asks}: {answer}");
        let session = answer.header("mcp-session-id").unwrap_or_else(|| panic!("{asks}: {answer}"));
        assert!(
            !session.is_empty() && session.len() < 1024,
            "{asks}: a session ID under 1 KiB, not {} bytes",
            session.len()
        );
        assert!(session.bytes().all(|b| (0x21..=0x7e).contains(&b)), "visible ASCII: {session:?}");
    }
}

#[test]
fn initialize_says_who_the_client_is_and_nothing_of_2026() {
    let desk = Desk::open();
    let _client = desk.client(
        r#"{"type":"register","server":{"name":"Paint","version":"7.1","title":"A \/ B"},"instructions":"Be kind.","tools":[]}"#,
    );
    let answer = desk.send(&ask_initialize("2025-11-25"));
    let result = &answer.json()["result"];
    assert_eq!(result["serverInfo"]["name"], "Paint", "{answer}");
    assert_eq!(result["serverInfo"]["version"], "7.1", "{answer}");
    assert_eq!(result["instructions"], "Be kind.", "{answer}");
    assert_eq!(result["capabilities"]["tools"]["listChanged"], true, "{answer}");
    assert!(result["capabilities"]["logging"].is_object(), "{answer}");
    for absent in ["resultType", "ttlMs", "cacheScope", "_meta", "supportedVersions"] {
        assert!(result.get(absent).is_none(), "{absent} is not of this era: {answer}");
    }
}

#[test]
fn a_stale_session_id_on_initialize_is_ignored_and_still_works_after() {
    let desk = Desk::open();
    let _client = desk.client(&register(&[ADD]));
    let answer = desk.send(&ask_initialize("2025-11-25").header("Mcp-Session-Id", "stale-1"));
    assert_eq!(answer.status, 200, "{answer}");
    let minted = answer.header("mcp-session-id").expect("a new session").to_owned();
    assert_ne!(minted, "stale-1");

    let second = desk.send(&ask_initialize("2025-11-25"));
    assert_ne!(second.header("mcp-session-id"), Some(&*minted), "sessions differ");

    // Whatever a session ID looks like, the request is served; so is one without.
    for session in [Some(&*minted), Some("stale-1"), Some("x"), Some("!~{}"), None] {
        let mut ask = Ask::old("1", "tools/list", "{}");
        if let Some(session) = session {
            ask = ask.header("Mcp-Session-Id", session);
        }
        let answer = desk.send(&ask);
        assert_eq!(answer.json()["result"]["tools"][0]["name"], "add", "{session:?}: {answer}");
    }
}

#[test]
fn a_get_stream_begins_with_retry_at_once() {
    let desk = Desk::open();
    for ask in [
        Ask::get(),
        Ask::get().header("Mcp-Session-Id", "s"),
        Ask::get().header("Mcp-Session-Id", "t").header("Last-Event-ID", "41"),
        Ask::get().header("Accept", "application/json, text/event-stream"),
        Ask::get().header("Accept", "*/*"),
        Ask::get().without("Accept"),
    ] {
        let asked = Instant::now();
        let mut stream = desk.begin(&ask);
        assert_eq!(stream.status(), 200, "{ask:?}: {:?}", stream.head());
        assert_eq!(stream.content_type(), "text/event-stream", "{ask:?}");
        assert_eq!(stream.header("x-accel-buffering").as_deref(), Some("no"), "{ask:?}");
        let caching = stream.header("cache-control").unwrap_or_default();
        assert!(
            caching.contains("no-store") && caching.contains("no-transform"),
            "{ask:?}: {caching:?}"
        );
        assert_eq!(stream.next(2.0), Event::Retry(5000), "{ask:?}");
        let waited = asked.elapsed();
        assert!(waited < Duration::from_millis(800), "{ask:?}: first bytes after {waited:?}");
    }
}

#[test]
fn a_get_that_takes_no_event_stream_is_refused() {
    let desk = Desk::open();
    for accept in ["application/json", "text/html", "text/plain, application/json;q=0.5"] {
        let answer = desk.send(&Ask::get().header("Accept", accept));
        assert_eq!((answer.status, answer.code()), (406, Some(-32600)), "{accept}: {answer}");
        assert_eq!(answer.raw("id"), None, "{accept}: {answer}");
    }
}

#[test]
fn a_session_has_one_get_stream_and_the_newer_one_wins() {
    let desk = Desk::open();
    let mut client = desk.settled_client(&register(&[]));
    let mut first = desk.listens(&Ask::get().header("Mcp-Session-Id", "one"));
    let mut other = desk.listens(&Ask::get().header("Mcp-Session-Id", "two"));
    let mut second = desk.listens(&Ask::get().header("Mcp-Session-Id", "one"));
    first.ends_within(2.0);

    client.offers(&register(&[ADD]));
    for (name, stream) in [("the newer", &mut second), ("another session's", &mut other)] {
        let event = stream.event(3.0);
        assert!(event.contains("notifications/tools/list_changed"), "{name}: {event}");
    }
}

#[test]
fn streams_without_a_session_replace_nobody() {
    let desk = Desk::open();
    let mut client = desk.settled_client(&register(&[]));
    let mut streams = [desk.listens(&Ask::get()), desk.listens(&Ask::get())];
    client.offers(&register(&[ADD]));
    for stream in &mut streams {
        let event = stream.event(3.0);
        assert!(event.contains("notifications/tools/list_changed"), "{event}");
    }
}

#[test]
fn the_same_session_id_of_another_client_id_is_another_session() {
    let desk = Desk::open();
    let other = Desk::open();
    let mut client = desk.settled_client(&register(&[]));
    let mut stream = desk.listens(&Ask::get().header("Mcp-Session-Id", "shared"));
    let _theirs = other.listens(&Ask::get().header("Mcp-Session-Id", "shared"));
    assert_eq!(other.send(&Ask::delete().header("Mcp-Session-Id", "shared")).status, 204);
    client.offers(&register(&[ADD]));
    let event = stream.event(3.0);
    assert!(event.contains("list_changed"), "not replaced, not deleted: {event}");
}

#[test]
fn delete_answers_204_and_ends_that_sessions_stream() {
    let desk = Desk::open();
    let mut ended = desk.listens(&Ask::get().header("Mcp-Session-Id", "gone"));
    let mut kept = desk.listens(&Ask::get().header("Mcp-Session-Id", "kept"));
    for _ in 0..2 {
        let answer = desk.send(&Ask::delete().header("Mcp-Session-Id", "gone"));
        assert_eq!(answer.status, 204, "{answer}");
        assert!(answer.body.is_empty(), "{answer}");
    }
    ended.ends_within(2.0);

    let _client = desk.client(&register(&[ADD]));
    assert!(kept.event(3.0).contains("list_changed"));
    // A deleted session is not 404: that would be fatal to most agents.
    let answer = desk.send(&Ask::old("1", "tools/list", "{}").header("Mcp-Session-Id", "gone"));
    assert_eq!(answer.status, 200, "{answer}");
}

#[test]
fn notifications_are_accepted_with_202_and_no_body() {
    let desk = Desk::open();
    for method in [
        "notifications/initialized",
        "notifications/progress",
        "notifications/roots/list_changed",
        "notifications/cancelled",
        "notifications/made/up",
    ] {
        for params in ["", r#","params":{}"#, r#","params":{"requestId":"none","reason":1}"#] {
            let body = format!(r#"{{"jsonrpc":"2.0","method":"{method}"{params}}}"#);
            let ask = Ask::post(&body).header("MCP-Protocol-Version", "2025-11-25");
            let answer = desk.send(&ask);
            assert_eq!(answer.status, 202, "{method}{params}: {answer}");
            assert!(answer.body.is_empty(), "{method}{params}: {answer}");
        }
    }
}

#[test]
fn ping_answers_an_empty_result() {
    let desk = Desk::open();
    for body in [
        r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":"p","method":"ping","params":{}}"#,
    ] {
        let answer = desk.send(&Ask::post(body));
        assert_eq!(answer.status, 200, "{answer}");
        assert_eq!(answer.json()["result"], serde_json::json!({}), "{answer}");
    }
}

#[test]
fn an_unknown_method_is_200_because_404_means_a_lost_session() {
    let desk = Desk::open();
    let _client = desk.client(&register(&[ADD]));
    for method in [
        "tools/run",
        "sampling/createMessage",
        "rpc.discover",
        "",
        "prompts/list",
        "notifications/initialized",
    ] {
        let ask = Ask::old("3", method, "{}").header("Mcp-Session-Id", "s");
        let answer = desk.send(&ask);
        assert_eq!((answer.status, answer.code()), (200, Some(-32601)), "{method:?}: {answer}");
        assert_eq!(answer.raw("id").as_deref(), Some("3"), "{method:?}: {answer}");
    }
}

#[test]
fn set_level_takes_the_eight_levels_and_no_other() {
    let desk = Desk::open();
    for level in ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"] {
        let params = format!(r#"{{"level":"{level}"}}"#);
        let answer = desk.send(&Ask::old("1", "logging/setLevel", &params));
        assert_eq!(answer.json()["result"], serde_json::json!({}), "{level}: {answer}");
    }
    for params in [r#"{"level":"loud"}"#, r#"{"level":"INFO"}"#, r#"{"level":3}"#, "{}"] {
        let answer = desk.send(&Ask::old("1", "logging/setLevel", params));
        assert_eq!((answer.status, answer.code()), (200, Some(-32602)), "{params}: {answer}");
    }
}

/// Has the client log at every level during a call of this session, and returns the levels that
/// came.
fn levels_heard(desk: &Desk, client: &mut Client, session: Option<&str>) -> Vec<String> {
    let mut ask = Ask::old("1", "tools/call", r#"{"name":"add"}"#);
    if let Some(session) = session {
        ask = ask.header("Mcp-Session-Id", session);
    }
    let running = desk.begin(&ask);
    let call = client.call();
    for level in ["debug", "warning", "error"] {
        client.notifies(
            &call.id,
            "notifications/message",
            &format!(r#"{{"level":"{level}","data":"x"}}"#),
        );
    }
    client.answers(&call.id, r#"{"content":[]}"#);
    let answer = running.finish();
    let messages = answer.messages();
    let last = messages.last().unwrap_or_else(|| panic!("no answer: {answer}"));
    assert!(last["result"].is_object(), "the response is last: {answer}");
    messages[..messages.len() - 1]
        .iter()
        .map(|m| {
            assert_eq!(m["method"], "notifications/message", "{answer}");
            m["params"]["level"].as_str().expect("a level").to_owned()
        })
        .collect()
}

#[test]
fn log_messages_come_only_at_the_level_that_the_session_set() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let set = |session: &str, level: &str| {
        let params = format!(r#"{{"level":"{level}"}}"#);
        let ask = Ask::old("9", "logging/setLevel", &params).header("Mcp-Session-Id", session);
        assert_eq!(desk.send(&ask).status, 200);
    };
    let none: [&str; 0] = [];
    assert_eq!(levels_heard(&desk, &mut client, Some("s")), none, "before any setLevel");
    set("s", "warning");
    assert_eq!(levels_heard(&desk, &mut client, Some("s")), ["warning", "error"]);
    assert_eq!(levels_heard(&desk, &mut client, Some("t")), none, "another session");
    assert_eq!(levels_heard(&desk, &mut client, None), none, "no session");
    set("s", "debug");
    assert_eq!(levels_heard(&desk, &mut client, Some("s")), ["debug", "warning", "error"]);
    desk.send(&Ask::delete().header("Mcp-Session-Id", "s"));
    assert_eq!(levels_heard(&desk, &mut client, Some("s")), none, "after DELETE");
}

#[test]
fn resource_updates_reach_the_session_that_subscribed() {
    let desk = Desk::open();
    let mut client = desk.settled_client(SUB);
    let say = |session: &str, method: &str, uri: &str| {
        let ask = Ask::old("1", method, &format!(r#"{{"uri":"{uri}"}}"#))
            .header("Mcp-Session-Id", session);
        let answer = desk.send(&ask);
        assert_eq!(answer.json()["result"], serde_json::json!({}), "{method} {uri}: {answer}");
    };
    say("a", "resources/subscribe", "x://1");
    say("b", "resources/subscribe", "x://2");
    let mut a = desk.listens(&Ask::get().header("Mcp-Session-Id", "a"));
    let mut b = desk.listens(&Ask::get().header("Mcp-Session-Id", "b"));
    let mut nobody = desk.listens(&Ask::get());

    client.says(
        r#"{"type":"notify","method":"notifications/resources/updated","params":{"uri":"x://1","title":"n"}}"#,
    );
    let event = a.event(3.0);
    let message: serde_json::Value = serde_json::from_str(&event).expect("JSON");
    assert_eq!(message["method"], "notifications/resources/updated", "{event}");
    assert_eq!(message["params"]["uri"], "x://1", "{event}");
    b.hears_no_event(0.3);
    nobody.hears_no_event(0.1);

    say("a", "resources/unsubscribe", "x://1");
    client.says(
        r#"{"type":"notify","method":"notifications/resources/updated","params":{"uri":"x://1"}}"#,
    );
    client.says(
        r#"{"type":"notify","method":"notifications/resources/updated","params":{"uri":"x://2"}}"#,
    );
    assert!(b.event(3.0).contains("x://2"));
    a.hears_no_event(0.3);
}

#[test]
fn a_session_may_subscribe_256_uris() {
    let desk = Desk::open();
    let _client = desk.client(SUB);
    for n in 0..257 {
        let ask = Ask::old("1", "resources/subscribe", &format!(r#"{{"uri":"x://{n}"}}"#))
            .header("Mcp-Session-Id", "many");
        let answer = desk.send(&ask);
        let expected = if n < 256 { None } else { Some(-32602) };
        assert_eq!(answer.code(), expected, "URI number {}: {answer}", n + 1);
    }
    // One that is there already takes no new place.
    let ask =
        Ask::old("1", "resources/subscribe", r#"{"uri":"x://0"}"#).header("Mcp-Session-Id", "many");
    assert_eq!(desk.send(&ask).code(), None);
}

#[test]
fn a_uri_of_more_than_4096_bytes_cannot_be_subscribed() {
    let desk = Desk::open();
    let _client = desk.client(SUB);
    for (bytes, code) in [(4095, None), (4096, None), (4097, Some(-32602))] {
        let params = format!(r#"{{"uri":"x://{}"}}"#, "u".repeat(bytes - 4));
        let answer = desk.send(&Ask::old("1", "resources/subscribe", &params).session("long"));
        assert_eq!((answer.status, answer.code()), (200, code), "{bytes} bytes: {answer}");
    }
}

#[test]
fn a_session_id_longer_than_any_of_ours_is_honoured_and_not_remembered() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let none: &[&str] = &[];
    for (bytes, heard) in [(1023, &["warning", "error"][..]), (1024, none), (8000, none)] {
        let session = "s".repeat(bytes);
        let set = Ask::old("9", "logging/setLevel", r#"{"level":"warning"}"#).session(&session);
        let answer = desk.send(&set);
        assert_eq!(answer.json()["result"], serde_json::json!({}), "{bytes} bytes: {answer}");
        assert_eq!(levels_heard(&desk, &mut client, Some(&session)), heard, "{bytes} bytes");
        let subscribe = Ask::old("9", "resources/unsubscribe", r#"{"uri":"x://1"}"#);
        assert_eq!(desk.send(&subscribe.session(&session)).status, 200, "{bytes} bytes");
        assert_eq!(desk.send(&Ask::delete().session(&session)).status, 204, "{bytes} bytes");
    }
}
