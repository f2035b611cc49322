//! How a call is given up (SPEC §5.3): hang-ups before and after the stream began, and
//! `notifications/cancelled` in both eras; and that what comes after is no error.

use std::time::{Duration, Instant};

use crate::extra::{ADD, Ask, Client, Desk, register};
use crate::support::Event;

fn both_eras() -> [Ask; 2] {
    [Ask::call_old("1", "add", "{}"), Ask::call_new("1", "add", "{}")]
}

fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// A whole call, to show that bridge and connection are as they were.
fn works(desk: &Desk, client: &mut Client) {
    let running = desk.begin(&Ask::call_old("77", "add", "{}"));
    let call = client.call();
    client.answers(&call.id, r#"{"content":[]}"#);
    let answer = running.finish();
    assert_eq!((answer.status, answer.code()), (200, None), "the next call: {answer}");
}

#[test]
fn a_hang_up_before_the_stream_began_cancels_within_two_seconds() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    for ask in both_eras() {
        for json_only in [false, true] {
            for reset in [false, true] {
                let ask = match json_only {
                    true => ask.clone().header("Accept", "application/json"),
                    false => ask.clone(),
                };
                let running = desk.begin(&ask);
                let call = client.call();
                pause(200);
                let left = Instant::now();
                if reset {
                    running.resets();
                } else {
                    drop(running);
                }
                client.cancel_of(&call, 2.0);
                let waited = left.elapsed();
                assert!(waited < Duration::from_secs(2), "{ask:?} reset {reset}: {waited:?}");
            }
        }
    }
    works(&desk, &mut client);
}

#[test]
fn a_hang_up_after_the_stream_began_cancels_within_two_seconds() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let old = Ask::old("1", "tools/call", r#"{"name":"add","_meta":{"progressToken":1}}"#);
    let new = Ask::new_meta("1", "tools/call", r#""progressToken":1"#, r#""name":"add""#)
        .header("Mcp-Name", "add");
    for ask in [old, new] {
        for reset in [false, true] {
            let mut running = desk.begin(&ask);
            let call = client.call();
            client.notifies(&call.id, "notifications/progress", r#"{"progress":1}"#);
            running.event(3.0);
            if reset {
                running.resets();
            } else {
                drop(running);
            }
            client.cancel_of(&call, 2.0);
        }
    }
    works(&desk, &mut client);
}

#[test]
fn a_hang_up_while_json_is_awaited_for_long_cancels_too() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    for ask in both_eras() {
        let running = desk.begin(&ask.header("Accept", "application/json"));
        let call = client.call();
        pause(1300);
        drop(running);
        client.cancel_of(&call, 2.0);
    }
}

#[test]
fn what_a_client_sends_for_a_cancelled_call_has_no_effect_and_is_no_error() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let running = desk.begin(&Ask::call_old("1", "add", "{}"));
    let call = client.call();
    drop(running);
    client.cancel_of(&call, 2.0);
    client.notifies(&call.id, "notifications/progress", r#"{"progress":1}"#);
    client.answers(&call.id, r#"{"content":[],"late":true}"#);
    client.fails(&call.id, r#"{"code":-32603,"message":"late"}"#);
    client.is_alive();
    works(&desk, &mut client);
}

#[test]
fn doubled_late_and_unknown_results_are_never_fatal() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    for id in ["", "never-was", "0"] {
        client.answers(id, r#"{"content":[]}"#);
        client.fails(id, r#"{"code":1,"message":"m"}"#);
    }
    let first = desk.begin(&Ask::call_old("1", "add", r#"{"n":1}"#));
    let one = client.call();
    let second = desk.begin(&Ask::call_old("1", "add", r#"{"n":2}"#));
    let two = client.call();
    assert_ne!(one.id, two.id, "unique within the connection");
    client.answers(&one.id, r#"{"content":[],"n":1}"#);
    client.answers(&one.id, r#"{"content":[],"n":"doubled"}"#);
    client.fails(&one.id, r#"{"code":1,"message":"doubled"}"#);
    client.answers(&two.id, r#"{"content":[],"n":2}"#);
    let (first, second) = (first.finish(), second.finish());
    assert_eq!(first.only_json()["result"]["n"], 1, "{first}");
    assert_eq!(second.only_json()["result"]["n"], 2, "{second}");
    client.is_alive();
}

#[test]
fn a_2025_cancel_ends_a_begun_stream_without_a_response() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let ask = Ask::old("5", "tools/call", r#"{"name":"add","_meta":{"progressToken":1}}"#);
    let mut running = desk.begin(&ask.session("s"));
    let call = client.call();
    client.notifies(&call.id, "notifications/progress", r#"{"progress":1}"#);
    running.event(3.0);
    let answer = desk.send(&Ask::cancelled("5").session("s"));
    assert_eq!(answer.status, 202, "{answer}");
    client.cancel_of(&call, 2.0);
    running.ends_within(2.0);
    works(&desk, &mut client);
}

#[test]
fn a_2025_cancel_of_an_answer_not_begun_makes_it_empty() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let rows = [
        ("application/json, text/event-stream", 200),
        ("text/event-stream", 200),
        ("application/json", 204),
    ];
    for (accept, status) in rows {
        let ask = Ask::call_old("\"c\"", "add", "{}").session("s").header("Accept", accept);
        let running = desk.begin(&ask);
        let call = client.call();
        let answer = desk.send(&Ask::cancelled("\"c\"").session("s"));
        assert_eq!(answer.status, 202, "{accept}: {answer}");
        client.cancel_of(&call, 2.0);
        let answer = running.finish();
        assert_eq!(answer.status, status, "{accept}: {answer}");
        assert!(answer.messages().is_empty(), "{accept}: no response: {answer}");
        if status == 200 {
            assert_eq!(answer.content_type(), "text/event-stream", "{accept}: {answer}");
        }
    }
    works(&desk, &mut client);
}

#[test]
fn a_cancel_without_a_session_matches_calls_without_a_session() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let running = desk.begin(&Ask::call_old("1", "add", "{}"));
    let call = client.call();
    assert_eq!(desk.send(&Ask::cancelled("1")).status, 202);
    client.cancel_of(&call, 2.0);
    assert!(running.finish().messages().is_empty());
}

#[test]
fn a_2025_cancel_that_names_no_one_call_cancels_nothing() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let call_of =
        |id: &str, session: &str| desk.begin(&Ask::call_old(id, "add", "{}").session(session));
    // Two of one session with the same ID; one each of another session, type and number.
    let running = [
        call_of("1", "s"),
        call_of("1", "s"),
        call_of("\"2\"", "s"),
        call_of("3", "t"),
        desk.begin(&Ask::call_old("4", "add", "{}")),
    ];
    let calls = [(); 5].map(|()| client.call());
    let cancels = [
        ("ambiguous", Ask::cancelled("1").session("s")),
        ("a number for a string", Ask::cancelled("2").session("s")),
        ("another session", Ask::cancelled("3").session("s")),
        ("no session for one with", Ask::cancelled("3")),
        ("a session for one without", Ask::cancelled("4").session("s")),
        ("nobody", Ask::cancelled("99").session("s")),
        ("null", Ask::cancelled("null").session("s")),
        ("an object", Ask::cancelled("{}").session("s")),
    ];
    for (name, cancel) in cancels {
        let answer = desk.send(&cancel);
        assert_eq!(answer.status, 202, "{name}: {answer}");
    }
    client.hears_nothing(0.3);
    for call in &calls {
        client.answers(&call.id, r#"{"content":[]}"#);
    }
    for running in running {
        let answer = running.finish();
        assert!(answer.only_json()["result"].is_object(), "{answer}");
    }
}

#[test]
fn a_cancel_does_not_reach_another_client_id() {
    let (desk, other) = (Desk::open(), Desk::open());
    let mut client = desk.client(&register(&[ADD]));
    let running = desk.begin(&Ask::call_old("1", "add", "{}").session("s"));
    let call = client.call();
    assert_eq!(other.send(&Ask::cancelled("1").session("s")).status, 202);
    client.hears_nothing(0.3);
    client.answers(&call.id, r#"{"content":[]}"#);
    assert_eq!(running.finish().code(), None);
}

/// A 2026-era `notifications/cancelled`, with or without the headers a request would need.
fn cancelled_new(id: &str, method_header: bool) -> Ask {
    let ask = Ask::post(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    ))
    .header("MCP-Protocol-Version", "2026-07-28");
    match method_header {
        true => ask.header("Mcp-Method", "notifications/cancelled"),
        false => ask,
    }
}

#[test]
fn a_2026_cancel_is_honoured_when_exactly_one_call_matches() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    for method_header in [true, false] {
        let running = desk.begin(&Ask::call_new("1", "add", "{}"));
        let call = client.call();
        let answer = desk.send(&cancelled_new("1", method_header));
        assert_eq!(answer.status, 202, "{answer}");
        client.cancel_of(&call, 2.0);
        assert!(running.finish().messages().is_empty());
    }

    let running = [(); 2].map(|()| desk.begin(&Ask::call_new("7", "add", "{}")));
    let calls = [(); 2].map(|()| client.call());
    for id in ["7", "\"7\"", "8"] {
        assert_eq!(desk.send(&cancelled_new(id, true)).status, 202);
    }
    client.hears_nothing(0.3);
    for call in &calls {
        client.answers(&call.id, r#"{"content":[]}"#);
    }
    for running in running {
        assert_eq!(running.finish().code(), None);
    }
}

#[test]
fn the_connection_is_of_use_after_an_answer_that_was_cancelled() {
    // An agent that keeps its connection must be able to send its next request on it.
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let mut running = desk.begin(&Ask::call_old("1", "add", "{}").session("s"));
    let call = client.call();
    desk.send(&Ask::cancelled("1").session("s"));
    client.cancel_of(&call, 2.0);
    assert_eq!(running.status(), 200);
    assert_eq!(running.next(2.0), Event::End);
}
