//! Clients that are not there (SPEC §5.3, §5.5): at once, after a wait, or back in time; and what
//! lists say meanwhile. All with short times.

use std::time::{Duration, Instant};

use crate::extra::{ADD, Ask, Desk, register};
use crate::support::{Bridge, Event};

fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

const FLAGS: [&str; 4] = ["--offline-grace", "1", "--reconnect-wait", "0.8"];

#[test]
fn a_client_that_never_connected_is_an_error_at_once_when_the_start_is_long_ago() {
    let bridge = Bridge::start(&FLAGS);
    let desk = Desk::on(&bridge);
    pause(1300);
    for ask in [Ask::call_old("1", "add", "{}"), Ask::call_new("1", "add", "{}")] {
        let asked = Instant::now();
        let answer = desk.send(&ask);
        let took = asked.elapsed();
        assert_eq!(answer.status, 200, "{answer}");
        assert!(answer.tool_error().contains("not connected"), "{answer}");
        assert!(took < Duration::from_millis(300), "at once, not after {took:?}");
    }
    for (method, params) in [
        ("prompts/get", r#"{"name":"p"}"#),
        ("resources/read", r#"{"uri":"u"}"#),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}"#,
        ),
    ] {
        let answer = desk.send(&Ask::old("1", method, params));
        assert_eq!((answer.status, answer.code()), (200, Some(-32603)), "{method}: {answer}");
        let words = answer.json()["error"]["message"].to_string();
        assert!(words.contains("not connected"), "{method}: {answer}");
    }
}

#[test]
fn a_client_that_left_a_moment_ago_is_waited_for_and_then_given_up() {
    let bridge = Bridge::start(&FLAGS);
    let desk = Desk::on(&bridge);
    desk.client(&register(&[ADD])).leaves();
    let asked = Instant::now();
    let answer = desk.send(&Ask::call_old("1", "add", "{}"));
    let took = asked.elapsed();
    assert!(answer.tool_error().contains("not connected"), "{answer}");
    assert!((700..1700).contains(&took.as_millis()), "about 0.8 s, not {took:?}");

    pause(1000);
    let asked = Instant::now();
    let answer = desk.send(&Ask::call_old("1", "add", "{}"));
    let took = asked.elapsed();
    assert!(answer.tool_error().contains("not connected"), "{answer}");
    assert!(took < Duration::from_millis(300), "past the grace at once, not after {took:?}");
}

#[test]
fn a_client_that_is_back_in_time_answers_once() {
    let bridge = Bridge::start(&["--offline-grace", "5", "--reconnect-wait", "3"]);
    let desk = Desk::on(&bridge);
    desk.client(&register(&[ADD])).vanishes();
    let asks = [Ask::call_old("1", "add", r#"{"n":1}"#), Ask::call_new("1", "add", r#"{"n":1}"#)];
    let running: Vec<_> = asks.iter().map(|ask| desk.begin(ask)).collect();
    pause(400);
    let mut client = desk.client(&register(&[ADD]));
    for _ in 0..2 {
        let call = client.call();
        client.answers(&call.id, r#"{"content":[],"n":1}"#);
    }
    for running in running {
        let answer = running.finish();
        assert_eq!(answer.only_json()["result"]["n"], 1, "{answer}");
        assert_eq!(answer.content_type(), "application/json", "within 1 s: {answer}");
    }
    client.hears_nothing(0.3);
}

#[test]
fn an_agent_that_gives_up_while_waiting_leaves_nothing_behind() {
    let bridge = Bridge::start(&["--offline-grace", "5", "--reconnect-wait", "3"]);
    let desk = Desk::on(&bridge);
    desk.client(&register(&[ADD])).leaves();
    let running = desk.begin(&Ask::call_old("1", "add", "{}"));
    let session = desk.begin(&Ask::call_old("2", "add", "{}").session("s"));
    pause(300);
    drop(running);
    assert_eq!(desk.send(&Ask::cancelled("2").session("s")).status, 202);
    assert!(session.finish().messages().is_empty(), "cancelled while it waited");
    pause(200);
    let mut client = desk.client(&register(&[ADD]));
    client.hears_nothing(0.5);
}

#[test]
fn a_written_call_is_never_sent_again() {
    let bridge = Bridge::start(&["--offline-grace", "5", "--reconnect-wait", "2"]);
    let desk = Desk::on(&bridge);
    let mut client = desk.client(&register(&[ADD]));
    let running = desk.begin(&Ask::call_old("1", "add", "{}"));
    client.call();
    client.vanishes();
    let mut client = desk.client(&register(&[ADD]));
    let answer = running.finish();
    assert!(answer.tool_error().contains("may have run"), "{answer}");
    client.hears_nothing(0.5);
}

#[test]
fn lists_are_kept_for_the_grace_and_then_change_once() {
    let bridge = Bridge::start(&FLAGS);
    let desk = Desk::on(&bridge);
    let client = desk.settled_client(&register(&[ADD]));
    let mut get = desk.listens(&Ask::get());
    let (mut listen, _) = desk.subscribes("1", r#"{"toolsListChanged":true}"#);
    let names = || {
        let answer = desk.send(&Ask::old("1", "tools/list", "{}"));
        answer.json()["result"]["tools"].as_array().map(Vec::len)
    };

    // Back within the grace: nothing happened.
    client.leaves();
    pause(300);
    assert_eq!(names(), Some(1), "kept while it is away");
    let client = desk.client(&register(&[ADD]));
    get.hears_no_event(1.4);
    listen.hears_no_event(0.05);

    // Away for longer: one change, and one more when it is back.
    client.leaves();
    get.hears_no_event(0.6);
    assert!(get.event(1.5).contains("tools/list_changed"));
    assert!(listen.event(0.5).contains("tools/list_changed"));
    assert_eq!(names(), Some(0), "nothing is registered any more");
    get.hears_no_event(0.5);
    let _client = desk.client(&register(&[ADD]));
    assert!(get.event(1.0).contains("tools/list_changed"));
    assert!(listen.event(0.5).contains("tools/list_changed"));
    assert_eq!(names(), Some(1));
    get.hears_no_event(0.4);
}

#[test]
fn a_call_while_away_is_judged_by_what_is_offered_on_return() {
    let bridge = Bridge::start(&["--offline-grace", "5", "--reconnect-wait", "3"]);
    let desk = Desk::on(&bridge);
    desk.client(&register(&[ADD])).leaves();
    let gone = desk.begin(&Ask::call_new("1", "add", "{}"));
    let fresh = desk.begin(&Ask::call_old("2", "sum", "{}"));
    pause(300);
    let mut client = desk.client(&register(&[r#"{"name":"sum","inputSchema":{"type":"object"}}"#]));
    let call = client.call();
    assert!(call.params.contains("sum"), "only the offered one: {call:?}");
    client.answers(&call.id, r#"{"content":[]}"#);
    assert_eq!(fresh.finish().code(), None);
    let answer = gone.finish();
    assert_eq!((answer.status, answer.code()), (200, Some(-32602)), "{answer}");
}

#[test]
fn a_wait_that_outlasts_a_second_streams_and_still_ends_with_an_answer() {
    let bridge = Bridge::start(&["--offline-grace", "5", "--reconnect-wait", "1.8"]);
    let desk = Desk::on(&bridge);
    desk.client(&register(&[ADD])).leaves();
    let mut running = desk.begin(&Ask::call_old("1", "add", "{}"));
    assert_eq!(running.content_type(), "text/event-stream");
    assert!(matches!(running.next(1.0), Event::Comment(_)), "first bytes at once");
    let answer = running.finish();
    assert!(answer.tool_error().contains("not connected"), "{answer}");
}
