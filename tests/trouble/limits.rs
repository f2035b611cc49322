//! Limits that are flags (SPEC §5.3, §5.5, §6), set low: what the one over the limit is told, and
//! that the others go on.

use std::time::{Duration, Instant};

use crate::extra::{ADD, Ask, Client, Desk, register};
use crate::support::{Bridge, RawClient, token};

#[test]
fn a_call_over_max_calls_is_a_tool_error_at_once() {
    let bridge = Bridge::start(&["--max-calls", "2"]);
    let desk = Desk::on(&bridge);
    let mut client = desk
        .client(r#"{"type":"register","tools":[{"name":"add","inputSchema":{"type":"object"}}],"prompts":[{"name":"p"}]}"#);
    let first = desk.begin(&Ask::call_old("1", "add", "{}"));
    let one = client.call();
    let second = desk.begin(&Ask::call_new("2", "add", "{}"));
    let two = client.call();
    let asked = Instant::now();
    for ask in [Ask::call_old("3", "add", "{}"), Ask::call_new("3", "add", "{}")] {
        let answer = desk.send(&ask);
        assert!(!answer.tool_error().is_empty(), "{answer}");
        assert_eq!(answer.status, 200, "{answer}");
    }
    let answer = desk.send(&Ask::old("4", "prompts/get", r#"{"name":"p"}"#));
    assert_eq!(answer.code(), Some(-32603), "{answer}");
    assert!(asked.elapsed() < Duration::from_millis(800), "at once: {:?}", asked.elapsed());
    client.hears_nothing(0.1);

    // Another client has its own count, and an ended call makes room.
    let other = desk.another();
    let mut neighbour = other.client(&register(&[ADD]));
    let theirs = other.begin(&Ask::call_old("1", "add", "{}"));
    let call = neighbour.call();
    neighbour.answers(&call.id, r#"{"content":[]}"#);
    assert_eq!(theirs.finish().code(), None);
    client.answers(&one.id, r#"{"content":[]}"#);
    assert_eq!(first.finish().code(), None);
    let third = desk.begin(&Ask::call_old("5", "add", "{}"));
    let three = client.call();
    client.answers(&two.id, r#"{"content":[]}"#);
    client.answers(&three.id, r#"{"content":[]}"#);
    assert_eq!((second.finish().code(), third.finish().code()), (None, None));
}

#[test]
fn a_cancelled_or_abandoned_call_makes_room() {
    let bridge = Bridge::start(&["--max-calls", "1"]);
    let desk = Desk::on(&bridge);
    let mut client = desk.client(&register(&[ADD]));
    for n in 0..5 {
        let running = desk.begin(&Ask::call_old("1", "add", "{}"));
        let call = client.call();
        drop(running);
        client.cancel_of(&call, 2.0);
        assert!(!call.id.is_empty(), "round {n}");
    }
    let running = desk.begin(&Ask::call_old("1", "add", "{}"));
    let call = client.call();
    client.answers(&call.id, r#"{"content":[]}"#);
    assert_eq!(running.finish().code(), None);
}

#[test]
fn a_call_over_its_time_ends_in_words_and_its_client_is_told() {
    let bridge = Bridge::start(&["--call-timeout", "1.3"]);
    let desk = Desk::on(&bridge);
    let mut client = desk
        .client(r#"{"type":"register","tools":[{"name":"add","inputSchema":{"type":"object"}}],"prompts":[{"name":"p"}]}"#);
    let asked = Instant::now();
    let running = [
        desk.begin(&Ask::call_old("1", "add", "{}")),
        desk.begin(&Ask::call_new("2", "add", "{}").header("Accept", "application/json")),
        desk.begin(&Ask::old("3", "prompts/get", r#"{"name":"p"}"#)),
    ];
    let calls = [client.call(), client.call(), client.call()];
    for (at, running) in running.into_iter().enumerate() {
        let answer = running.finish();
        let took = asked.elapsed();
        assert!((1200..2500).contains(&took.as_millis()), "about 1.3 s, not {took:?}");
        match at {
            2 => assert_eq!(answer.code(), Some(-32603), "{answer}"),
            _ => assert!(!answer.tool_error().is_empty(), "{answer}"),
        }
    }
    let mut cancelled: Vec<String> = (0..3)
        .map(|_| match client.hears(2.0) {
            crate::support::Heard::Text(text) if text.contains(r#""cancel""#) => {
                let id = crate::extra::member(&text, "id").expect("a cancel names its call");
                serde_json::from_str(&id).expect("a string")
            }
            other => panic!("expected three cancels, got {other:?}"),
        })
        .collect();
    cancelled.sort();
    let mut expected: Vec<String> = calls.iter().map(|c| c.id.clone()).collect();
    expected.sort();
    assert_eq!(cancelled, expected);

    // The socket is not to blame: late words are ignored, and the next call works.
    client.answers(&calls[0].id, r#"{"content":[]}"#);
    let running = desk.begin(&Ask::call_old("4", "add", "{}"));
    let call = client.call();
    client.answers(&call.id, r#"{"content":[]}"#);
    assert_eq!(running.finish().code(), None);
}

#[test]
fn one_call_times_out_while_the_other_answers() {
    let bridge = Bridge::start(&["--call-timeout", "1"]);
    let desk = Desk::on(&bridge);
    let mut client = desk.client(&register(&[ADD]));
    let slow = desk.begin(&Ask::call_old("1", "add", "{}"));
    let first = client.call();
    std::thread::sleep(Duration::from_millis(600));
    let quick = desk.begin(&Ask::call_old("1", "add", "{}"));
    let second = client.call();
    client.cancel_of(&first, 2.0);
    client.answers(&second.id, r#"{"content":[]}"#);
    assert_eq!(quick.finish().code(), None);
    assert!(!slow.finish().tool_error().is_empty());
    client.is_alive();
}

#[test]
fn a_stream_over_max_streams_is_429_with_retry_after() {
    let bridge = Bridge::start(&["--max-streams", "2"]);
    let desk = Desk::on(&bridge);
    let first = desk.listens(&Ask::get());
    let (_second, _) = desk.subscribes("1", "{}");
    for ask in [
        Ask::get(),
        Ask::get().session("s"),
        Ask::new("2", "subscriptions/listen", r#""notifications":{}"#),
    ] {
        let answer = desk.send(&ask);
        assert_eq!(answer.status, 429, "{ask:?}: {answer}");
        let after = answer.header("retry-after").unwrap_or_else(|| panic!("{ask:?}: {answer}"));
        assert!(after.parse::<u32>().is_ok(), "{after}");
    }
    // Calls are no streams, other clients have their own count, and a stream that ends makes room.
    assert_eq!(desk.send(&Ask::old("1", "ping", "{}")).status, 200);
    let _theirs = desk.another().listens(&Ask::get());
    drop(first);
    crate::support::eventually("room again", Duration::from_secs(3), || {
        (desk.begin(&Ask::get()).status() == 200).then_some(())
    });
}

#[test]
fn a_session_at_the_stream_limit_can_still_replace_its_own() {
    let bridge = Bridge::start(&["--max-streams", "1"]);
    let desk = Desk::on(&bridge);
    let mut first = desk.listens(&Ask::get().session("s"));
    let _second = desk.listens(&Ask::get().session("s"));
    first.ends_within(2.0);
}

#[test]
fn a_client_over_max_clients_is_closed_with_4429() {
    let bridge = Bridge::start(&["--max-clients", "2"]);
    let desks = [(); 3].map(|()| Desk::on(&bridge));
    let first = desks[0].client(&register(&[ADD]));
    let mut second = desks[1].client(&register(&[ADD]));
    let mut third = Client::joins(&desks[2], &token(&desks[2].id, "client"));
    assert_eq!(third.close().0, 4429, "the handshake completes, the close says why");
    second.is_alive();
    first.leaves();
    crate::support::eventually("room again", Duration::from_secs(3), || {
        let mut raw = RawClient::connect(&bridge, &desks[2].id);
        raw.send_text(&register(&[ADD]));
        let frame = raw.try_frame(Duration::from_secs(2)).ok()?;
        (frame.opcode() == 1).then_some(())
    });
}

#[test]
fn a_register_over_its_limits_is_refused_and_one_at_them_is_taken() {
    let bridge = Bridge::start(&["--max-definitions", "3", "--max-register-bytes", "2000"]);
    let desk = Desk::on(&bridge);
    let tools = |n: usize| {
        let tools: Vec<String> = (0..n)
            .map(|n| format!(r#"{{"name":"t{n}","inputSchema":{{"type":"object"}}}}"#))
            .collect();
        format!(r#"{{"type":"register","tools":[{}],"prompts":[{{"name":"p"}}]}}"#, tools.join(","))
    };
    let sized = |size: usize| {
        let empty = r#"{"type":"register","tools":[],"instructions":""}"#;
        empty.replace(r#":"""#, &format!(r#":"{}""#, "x".repeat(size - empty.len())))
    };
    for (name, good, bad) in
        [("definitions over all lists", tools(2), tools(3)), ("bytes", sized(2000), sized(2001))]
    {
        let mut client = desk.client(&good);
        client.says(&bad);
        assert_eq!(client.close().0, 4400, "{name}");
    }
}

#[test]
fn at_max_clients_the_newest_connection_of_an_id_still_replaces_the_older() {
    let bridge = Bridge::start(&["--max-clients", "2"]);
    let (one, two, other) = (Desk::on(&bridge), Desk::on(&bridge), Desk::on(&bridge));
    let mut old = one.client(&register(&[ADD]));
    let mut neighbour = two.client(&register(&[ADD]));
    for round in 0..3 {
        let mut refused = Client::joins(&other, &token(&other.id, "client"));
        assert_eq!(refused.close().0, 4429, "round {round}: another ID is one too many");
        let newer = one.client(&register(&[ADD]));
        assert_eq!(old.close().0, 4409, "round {round}: the newest connection wins");
        old = newer;
        old.is_alive();
        neighbour.is_alive();
    }
}

#[test]
fn a_question_that_the_agent_leaves_open_is_taken_back_when_its_time_is_over() {
    let bridge = Bridge::start(&["--call-timeout", "1"]);
    let desk = Desk::on(&bridge);
    let mut client = desk.client(&register(&[ADD]));
    let params = crate::extra::INITIALIZE
        .replace(r#""capabilities":{}"#, r#""capabilities":{"roots":{},"sampling":{}}"#);
    let answer = desk.send(&Ask::old("0", "initialize", &params));
    let session = answer.header("mcp-session-id").expect("a session").to_owned();
    let mut running = desk.begin(&Ask::call_old("1", "add", "{}").session(&session));
    let call = client.call();
    client.answers(
        &call.id,
        r#"{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"},"s":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}}}"#,
    );
    let mut message =
        || -> serde_json::Value { serde_json::from_str(&running.event(3.0)).expect("JSON") };
    let asked = [message(), message()];
    let taken_back = [message(), message()];
    for (asked, taken_back) in asked.iter().zip(&taken_back) {
        assert!(asked["method"].is_string() && asked["id"].is_string(), "a request: {asked}");
        assert_eq!(taken_back["method"], "notifications/cancelled", "{taken_back}");
        assert_eq!(taken_back["params"]["requestId"], asked["id"], "{taken_back}");
    }
    let answer = running.finish();
    assert!(!answer.tool_error().is_empty(), "{answer}");
    // It comes too late, and is nobody's.
    let late = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"roots":[]}}}}"#, asked[0]["id"]);
    let late = Ask::post(&late).header("MCP-Protocol-Version", "2025-11-25").session(&session);
    assert_eq!(desk.send(&late).status, 202);
    client.hears_nothing(0.1);
}
