//! JSON or event stream (SPEC §5.3): what decides, what a stream looks like, and what goes on it.

use std::time::{Duration, Instant};

use crate::extra::{ADD, Ask, Desk, register};
use crate::support::Event;

fn both_eras() -> [Ask; 2] {
    [Ask::old("1", "tools/call", r#"{"name":"add"}"#), Ask::call_new("1", "add", "{}")]
}

#[test]
fn a_quick_answer_is_json_with_its_length() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    for ask in both_eras() {
        let running = desk.begin(&ask);
        let call = client.call();
        std::thread::sleep(Duration::from_millis(100));
        client.answers(&call.id, r#"{"content":[]}"#);
        let answer = running.finish();
        assert_eq!(answer.content_type(), "application/json", "{answer}");
        let length = answer.header("content-length").map(str::to_owned);
        assert_eq!(length, Some(answer.body.len().to_string()), "{answer}");
        assert_eq!(answer.header("transfer-encoding"), None, "{answer}");
    }
}

#[test]
fn a_slow_answer_is_a_stream_with_a_comment_each_second() {
    let desk = Desk::open();
    std::thread::scope(|scope| {
        for ask in both_eras() {
            let desk = desk.another();
            scope.spawn(move || {
                let mut client = desk.client(&register(&[ADD]));
                let asked = Instant::now();
                let mut running = desk.begin(&ask);
                let call = client.call();
                assert_eq!(running.status(), 200);
                let head = asked.elapsed();
                assert!(
                    (900..2500).contains(&head.as_millis()),
                    "the stream begins after 1 s, not {head:?}"
                );
                assert_eq!(running.content_type(), "text/event-stream");
                assert_eq!(running.header("x-accel-buffering").as_deref(), Some("no"));
                let caching = running.header("cache-control").unwrap_or_default();
                assert!(
                    caching.contains("no-store") && caching.contains("no-transform"),
                    "{caching:?}"
                );
                let first = running.next(2.0);
                assert!(matches!(first, Event::Comment(_)), "a comment at once, not {first:?}");
                let waited = asked.elapsed();
                assert!(waited.as_millis() < 2700, "first bytes at once, not after {waited:?}");

                let mut comments = 1;
                let until = Instant::now() + Duration::from_millis(3300);
                loop {
                    let left = until.saturating_duration_since(Instant::now());
                    match running.next(left.as_secs_f64()) {
                        Event::Comment(_) => comments += 1,
                        Event::Quiet => break,
                        other => panic!("expected comments only, got {other:?}"),
                    }
                }
                assert!((2..=6).contains(&comments), "{comments} comments in about 4 s");

                client.answers(&call.id, r#"{"content":[]}"#);
                let answer = running.finish();
                let messages = answer.messages();
                assert_eq!(messages.len(), 1, "{answer}");
                assert!(messages[0]["result"].is_object(), "{answer}");
            });
        }
    });
}

#[test]
fn an_agent_that_takes_json_only_waits_for_it() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    for ask in both_eras() {
        let running = desk.begin(&ask.header("Accept", "application/json"));
        let call = client.call();
        client.notifies(&call.id, "notifications/progress", r#"{"progress":1}"#);
        std::thread::sleep(Duration::from_millis(1500));
        client.answers(&call.id, r#"{"content":[]}"#);
        let answer = running.finish();
        assert_eq!(answer.content_type(), "application/json", "{answer}");
        assert!(answer.json()["result"].is_object(), "{answer}");
    }
}

#[test]
fn an_agent_that_takes_a_stream_only_gets_one_event() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    for ask in both_eras() {
        let running = desk.begin(&ask.header("Accept", "text/event-stream"));
        let call = client.call();
        client.answers(&call.id, r#"{"content":[]}"#);
        let answer = running.finish();
        assert_eq!(answer.content_type(), "text/event-stream", "{answer}");
        assert_eq!(answer.messages().len(), 1, "{answer}");
    }
    // Also what the bridge answers itself.
    for ask in [Ask::old("1", "tools/list", "{}"), Ask::new("1", "tools/list", "")] {
        let answer = desk.send(&ask.header("Accept", "text/event-stream"));
        assert_eq!(answer.content_type(), "text/event-stream", "{answer}");
        assert_eq!(answer.messages().len(), 1, "{answer}");
    }
}

#[test]
fn accept_is_read_as_a_list_of_types() {
    let desk = Desk::open();
    let rows = [
        (None, 200, "application/json"),
        (Some("*/*"), 200, "application/json"),
        (Some("application/json, text/event-stream"), 200, "application/json"),
        (Some("text/event-stream, application/json"), 200, "application/json"),
        (Some("APPLICATION/JSON"), 200, "application/json"),
        (Some("application/json;q=0.9 , text/event-stream;q=1"), 200, "application/json"),
        (Some("text/html, */*;q=0.1"), 200, "application/json"),
        (Some("Text/Event-Stream"), 200, "text/event-stream"),
        (Some("text/html"), 406, "application/json"),
        (Some("application/jsonx, text/event-streams"), 406, "application/json"),
    ];
    for (accept, status, kind) in rows {
        for ask in [Ask::old("1", "tools/list", "{}"), Ask::new("1", "tools/list", "")] {
            let ask = match accept {
                Some(accept) => ask.header("Accept", accept),
                None => ask.without("Accept"),
            };
            let answer = desk.send(&ask);
            assert_eq!(answer.status, status, "{accept:?}: {answer}");
            assert_eq!(answer.content_type(), kind, "{accept:?}: {answer}");
            if status == 406 {
                assert_eq!(answer.code(), Some(-32600), "{accept:?}: {answer}");
                assert_eq!(answer.raw("id"), None, "a refusal has no ID: {answer}");
            }
        }
    }
}

#[test]
fn line_breaks_between_tokens_become_spaces_in_an_event_and_stay_in_json() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let result =
        "{\n\"content\":[\r\n{\"type\":\"text\",\r\"text\":\"a\\nb\\r\"}\n\n]\n,\"z\":1e400\n}";
    let flat = result.replace(['\n', '\r'], " ");
    let call_of = Ask::old("1", "tools/call", r#"{"name":"add"}"#);

    let running = desk.begin(&call_of);
    let call = client.call();
    client.answers(&call.id, result);
    let answer = running.finish();
    assert_eq!(answer.raw("result").as_deref(), Some(result), "{answer}");

    let running = desk.begin(&call_of.header("Accept", "text/event-stream"));
    let call = client.call();
    client.answers(&call.id, result);
    let answer = running.finish();
    let message = answer.only_message();
    assert_eq!(crate::extra::member(&message, "result").as_deref(), Some(&*flat), "{answer}");
    let data_lines = answer.text().lines().filter(|l| l.starts_with("data:")).count();
    assert_eq!(data_lines, 1, "an event is one data line: {answer}");
}

#[test]
fn progress_carries_the_agents_token_and_comes_before_the_result() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    for token in ["0", "1", r#""tok\/en""#, r#""""#] {
        let meta = format!(r#""progressToken":{token}"#);
        let old = Ask::old("1", "tools/call", &format!(r#"{{"name":"add","_meta":{{{meta}}}}}"#));
        let new =
            Ask::new_meta("1", "tools/call", &meta, r#""name":"add""#).header("Mcp-Name", "add");
        for ask in [old, new] {
            let asked = Instant::now();
            let mut running = desk.begin(&ask);
            let call = client.call();
            client.notifies(
                &call.id,
                "notifications/progress",
                r#"{"progress":0,"total":100,"message":"a\/b"}"#,
            );
            let first = running.event(3.0);
            let waited = asked.elapsed();
            assert!(waited.as_millis() < 900, "a notification begins the stream: {waited:?}");
            for n in [50, 100] {
                client.notifies(
                    &call.id,
                    "notifications/progress",
                    &format!(r#"{{"progress":{n},"progressToken":"forged"}}"#),
                );
            }
            client.answers(&call.id, r#"{"content":[]}"#);
            let answer = running.finish();
            let mut events = vec![first];
            events.extend(answer.events());
            assert_eq!(events.len(), 4, "three and the result: {events:?}");
            for (event, progress) in events.iter().zip(["0", "50", "100"]) {
                let params = crate::extra::member(event, "params").expect("params");
                let came = crate::extra::member(&params, "progressToken");
                assert_eq!(came.as_deref(), Some(token), "{event}");
                let came = crate::extra::member(&params, "progress");
                assert_eq!(came.as_deref(), Some(progress), "{event}");
            }
            assert!(crate::extra::member(&events[3], "result").is_some(), "{events:?}");
        }
    }
}

#[test]
fn progress_without_a_token_and_unknown_notifications_are_dropped() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    for ask in both_eras() {
        let running = desk.begin(&ask);
        let call = client.call();
        client.notifies(&call.id, "notifications/progress", r#"{"progress":1}"#);
        client.notifies(&call.id, "notifications/message", r#"{"level":"error","data":1}"#);
        client.notifies(&call.id, "notifications/made/up", "{}");
        client.notifies("no-such-call", "notifications/progress", r#"{"progress":1}"#);
        client.says(r#"{"type":"notify","method":"notifications/tools/list_changed"}"#);
        client.answers(&call.id, r#"{"content":[]}"#);
        let answer = running.finish();
        assert_eq!(answer.content_type(), "application/json", "{answer}");
    }
}

#[test]
fn a_2026_agent_hears_log_messages_only_at_the_level_it_names() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    for (at, level) in levels.iter().enumerate() {
        let meta = format!(r#""io.modelcontextprotocol/logLevel":"{level}""#);
        let ask =
            Ask::new_meta("1", "tools/call", &meta, r#""name":"add""#).header("Mcp-Name", "add");
        let running = desk.begin(&ask);
        let call = client.call();
        for sent in levels {
            let params = format!(r#"{{"level":"{sent}","logger":"l","data":{{"x":1.50}}}}"#);
            client.notifies(&call.id, "notifications/message", &params);
        }
        client.answers(&call.id, r#"{"content":[]}"#);
        let answer = running.finish();
        let heard: Vec<String> = answer
            .messages()
            .iter()
            .filter_map(|m| m["params"]["level"].as_str().map(str::to_owned))
            .collect();
        assert_eq!(heard, levels[at..], "asked for {level}: {answer}");
        assert!(answer.text().contains("1.50"), "data passes: {answer}");
    }
}

#[test]
fn an_error_after_the_stream_began_is_its_last_event_over_200() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let ask = Ask::new_meta("1", "tools/call", r#""progressToken":3"#, r#""name":"add""#)
        .header("Mcp-Name", "add");
    let mut running = desk.begin(&ask);
    let call = client.call();
    client.notifies(&call.id, "notifications/progress", r#"{"progress":1}"#);
    assert_eq!(running.status(), 200);
    client.fails(&call.id, r#"{"code":-32601,"message":"no such thing"}"#);
    let answer = running.finish();
    let messages = answer.messages();
    let last = messages.last().unwrap_or_else(|| panic!("no event: {answer}"));
    assert_eq!(last["error"]["code"], -32601, "{answer}");
    assert_eq!(last["id"], 1, "{answer}");
}
