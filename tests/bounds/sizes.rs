//! How much: heads, bodies, registers, calls, queues and streams, one below, at and above.

use serde_json::json;

use crate::extra::{ADD, Ask, Client, Desk, SUB, register};
use crate::support::{Agent, Bridge, Event, RawClient, Request, SOON, unique};
use crate::{log_of, logged_once};

#[test]
fn a_head_over_its_bytes_or_its_fields_is_431() {
    let padded = |size: usize| {
        let head = Request::get("/health").with("X", "").bytes().len();
        Request::get("/health").with("X", &"x".repeat(size - head))
    };
    let bridge = Bridge::start(&["--max-header-bytes", "400"]);
    for (size, status) in [(399, 200), (400, 200), (401, 431)] {
        assert_eq!(padded(size).to(&bridge).status, status, "{size} bytes");
    }
    log_of(&bridge, "--max-header-bytes");

    let fields = |count: usize| {
        let first = Request::get("/health").bytes();
        let first = String::from_utf8_lossy(&first).lines().count() - 2;
        let more = (first..count).map(|n| format!("X-{n}"));
        more.fold(Request::get("/health"), |request, name| request.with(&name, "x"))
    };
    let bridge = Bridge::start(&["--max-headers", "8"]);
    for (count, status) in [(7, 200), (8, 200), (9, 431)] {
        assert_eq!(fields(count).to(&bridge).status, status, "{count} fields");
    }
    log_of(&bridge, "--max-headers");
}

#[test]
fn a_body_over_its_bytes_is_413_and_says_how_many_there_may_be() {
    let bridge = Bridge::start(&["--max-body-bytes", "1000"]);
    let agent = Agent::new(&bridge, &unique("large"));
    let sized = |size: usize| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": ""}});
        let pad = size - body.to_string().len();
        agent.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping",
            "params": {"x": "x".repeat(pad)}}))
    };
    for (size, status) in [(999, 200), (1000, 200), (1001, 413), (100_000, 413)] {
        let answer = sized(size).to(&bridge);
        assert_eq!(answer.status, status, "{size} bytes: {answer:?}");
        if status == 413 {
            let message = answer.json()["error"]["message"].to_string();
            assert!(message.contains("1000 bytes"), "{message}");
        }
    }
    logged_once(&bridge, "--max-body-bytes");
}

#[test]
fn a_register_over_its_bytes_or_definitions_is_4400_and_logged() {
    let tools = |n: usize| {
        let tools: Vec<String> = (0..n)
            .map(|n| format!(r#"{{"name":"t{n}","inputSchema":{{"type":"object"}}}}"#))
            .collect();
        register(&tools.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let empty = r#"{"type":"register","instructions":""}"#;
    let sized =
        |size: usize| empty.replace(r#":"""#, &format!(r#":"{}""#, "x".repeat(size - empty.len())));
    for (flag, value, good, bad) in [
        ("--max-definitions", "3", tools(3), tools(4)),
        ("--max-register-bytes", "2000", sized(2000), sized(2001)),
    ] {
        let bridge = Bridge::start(&[flag, value]);
        let desk = Desk::on(&bridge);
        let mut client = desk.client(&good);
        client.says(&bad);
        assert_eq!(client.close().0, 4400, "{flag}");
        assert!(log_of(&bridge, flag).contains(&desk.id));
    }
}

#[test]
fn calls_and_bytes_over_a_clients_limits_are_tool_errors_and_logged() {
    let bridge = Bridge::start(&["--max-calls", "1", "--max-queued-bytes", "1000"]);
    let desk = Desk::on(&bridge);
    let mut client = desk.client(&register(&[ADD]));
    let large = format!(r#"{{"x":"{}"}}"#, "x".repeat(1000));
    let answer = desk.send(&Ask::call_old("1", "add", &large));
    assert!(answer.tool_error().contains("its queue is full"), "{answer}");
    logged_once(&bridge, "--max-queued-bytes");
    let running = desk.begin(&Ask::call_old("2", "add", "{}"));
    let call = client.call();
    for _ in 0..3 {
        let answer = desk.send(&Ask::call_old("3", "add", "{}"));
        assert!(answer.tool_error().contains("1 calls are already running"), "{answer}");
    }
    logged_once(&bridge, "--max-calls");
    client.answers(&call.id, r#"{"content":[]}"#);
    assert_eq!(running.finish().code(), None);
}

#[test]
fn calls_that_wait_for_a_client_to_come_back_keep_to_the_same_limits() {
    let flags = ["--max-calls", "3", "--max-queued-bytes", "4000", "--reconnect-wait", "8"];
    let bridge = Bridge::start(&flags);
    let desk = Desk::on(&bridge);
    desk.client(&register(&[ADD])).leaves();
    crate::support::eventually("it has left", SOON, || {
        bridge.log().contains("client left").then_some(())
    });
    let large = format!(r#"{{"x":"{}"}}"#, "x".repeat(2500));
    let first = desk.begin(&Ask::call_old("1", "add", &large));
    std::thread::sleep(std::time::Duration::from_millis(300));
    let answer = desk.send(&Ask::call_old("2", "add", &large));
    assert!(answer.tool_error().contains("its queue is full"), "{answer}");
    let more = ["3", "4"].map(|id| desk.begin(&Ask::call_old(id, "add", "{}")));
    std::thread::sleep(std::time::Duration::from_millis(300));
    let answer = desk.send(&Ask::call_old("5", "add", "{}"));
    assert!(answer.tool_error().contains("3 calls are already running"), "{answer}");
    for flag in ["--max-calls", "--max-queued-bytes"] {
        logged_once(&bridge, flag);
    }
    let mut client = desk.client(&register(&[ADD]));
    for _ in 0..3 {
        let call = client.call();
        client.answers(&call.id, r#"{"content":[]}"#);
    }
    for running in more.into_iter().chain([first]) {
        assert_eq!(running.finish().code(), None);
    }
}

#[test]
fn a_stream_over_max_streams_is_429_and_logged() {
    let bridge = Bridge::start(&["--max-streams", "1"]);
    let desk = Desk::on(&bridge);
    let _first = desk.listens(&Ask::get());
    for _ in 0..3 {
        let answer = desk.send(&Ask::get());
        assert_eq!((answer.status, answer.header("retry-after")), (429, Some("5")), "{answer}");
    }
    logged_once(&bridge, "--max-streams");
    assert!(log_of(&bridge, "--max-streams").contains(&desk.id));
}

/// Updates of this resource, many at once, so that they are taken before a stream has its turn.
fn updates(client: &mut RawClient, uris: &[String]) {
    let frames: Vec<u8> = uris
        .iter()
        .flat_map(|uri| {
            let text = format!(
                r#"{{"type":"notify","method":"notifications/resources/updated","params":{{"uri":"{uri}"}}}}"#
            );
            RawClient::frame(0x81, text.as_bytes())
        })
        .collect();
    client.http.send(frames);
}

#[test]
fn a_stream_for_which_too_much_waits_ends_and_the_others_go_on() {
    let bridge = Bridge::start(&["--max-stream-bytes", "5000"]);
    let desk = Desk::on(&bridge);
    let mut client = RawClient::connect(&bridge, &desk.id);
    client.send_text(SUB);
    assert_eq!(client.next_message(SOON)["type"], "registered");
    let uri = |n: usize| format!("x://{n}/{}", "u".repeat(1000));
    let uris: Vec<String> = (0..8).map(uri).collect();
    let filter = |uris: &[String]| json!({"resourceSubscriptions": uris}).to_string();
    let (mut many, _) = desk.subscribes("1", &filter(&uris));
    let (mut few, _) = desk.subscribes("2", &filter(&uris[..2]));
    updates(&mut client, &uris);
    many.ends_within(5.0);
    for _ in 0..2 {
        assert!(few.event(5.0).contains("resources/updated"));
    }
    let line = log_of(&bridge, "--max-stream-bytes");
    assert!(line.contains(&desk.id) && line.contains("stream is not read"), "{line}");
    // It can come back, and one update always fits.
    let long = format!("x://{}", "u".repeat(4000));
    let (mut again, _) = desk.subscribes("3", &filter(std::slice::from_ref(&long)));
    updates(&mut client, &[long]);
    assert!(again.event(5.0).contains("resources/updated"));
    assert!(!matches!(few.next(0.2), Event::End | Event::Cut), "the other stream is open still");
}

/// A batch of calls in the 2025 era.
fn batch(desk: &Desk, calls: usize, accept: &str) -> crate::extra::Stream {
    let calls: Vec<_> = (0..calls)
        .map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "add"}}))
        .collect();
    desk.begin(&Ask::post(&json!(calls).to_string()).header("Accept", accept))
}

fn answered(client: &mut Client, calls: usize, bytes: usize) {
    let result = format!(r#"{{"content":[],"x":"{}"}}"#, "x".repeat(bytes));
    let calls: Vec<_> = (0..calls).map(|_| client.call()).collect();
    for call in calls {
        client.answers(&call.id, &result);
    }
}

#[test]
fn the_answers_of_a_batch_share_one_bound_and_what_is_beyond_is_a_tool_error() {
    let bridge = Bridge::start(&["--max-stream-bytes", "5000"]);
    let desk = Desk::on(&bridge);
    let mut client = desk.client(&register(&[ADD]));
    // The array is written when all are there: two of 2 KB fit, the others do not.
    let running = batch(&desk, 5, "application/json");
    answered(&mut client, 5, 2000);
    let answer = running.finish();
    let answers = answer.json();
    let answers = answers.as_array().expect("an array");
    let good = answers.iter().filter(|answer| answer["result"]["x"].is_string()).count();
    let bad = answers.iter().filter(|answer| answer["result"]["isError"] == true).count();
    assert_eq!((good, bad), (2, 3), "{answer}");
    log_of(&bridge, "--max-stream-bytes");
    // A single answer always fits, in a batch or alone, and what is written makes room.
    let running = batch(&desk, 1, "application/json");
    answered(&mut client, 1, 9000);
    assert!(running.finish().json()[0]["result"]["x"].is_string());
    let running = desk.begin(&Ask::call_old("1", "add", "{}"));
    answered(&mut client, 1, 9000);
    assert_eq!(running.finish().code(), None);
    let running = batch(&desk, 6, "application/json, text/event-stream");
    for _ in 0..6 {
        let call = client.call();
        client.answers(&call.id, &format!(r#"{{"content":[],"x":"{}"}}"#, "x".repeat(4000)));
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let answer = running.finish();
    let whole = answer.messages().iter().filter(|one| one["result"]["x"].is_string()).count();
    assert_eq!(whole, 6, "one after the other is read: {answer}");
}
