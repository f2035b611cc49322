//! Contract §5: what an agent says that it accepts decides the shape of its answer.
//!
//! Each row is tried with an answer that comes at once and with one that takes longer than the
//! second after which a bridge would otherwise begin a stream, in both eras.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Agent, Answer, App, Bridge, Era, Event, Http, Request, SOON, unique};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Json,
    Stream,
    Refused,
}
use Shape::{Json, Refused, Stream};

fn shape(answer: &Answer) -> Shape {
    match (answer.status(), answer.head.media_type().as_str()) {
        (200, "application/json") => Json,
        (200, "text/event-stream") => Stream,
        (406, _) => Refused,
        _ => panic!("neither shape: {answer:?}"),
    }
}

/// Value of `Accept`, then the shape of a quick answer and of a slow one.
const ROWS: [(Option<&str>, Shape, Shape); 14] = [
    (Some("application/json, text/event-stream"), Json, Stream),
    (Some("text/event-stream, application/json"), Json, Stream),
    (Some("text/event-stream,application/json"), Json, Stream),
    (Some("application/json;q=0.9, text/event-stream;q=0.1"), Json, Stream),
    (Some("Application/JSON, Text/Event-Stream"), Json, Stream),
    (Some("*/*"), Json, Stream),
    (Some("text/html, */*;q=0.8"), Json, Stream),
    (None, Json, Stream),
    (Some("application/json"), Json, Json),
    (Some("application/json; charset=utf-8, text/html"), Json, Json),
    (Some("text/event-stream"), Stream, Stream),
    (Some("text/html, text/event-stream"), Stream, Stream),
    (Some("text/html"), Refused, Refused),
    (Some("application/json-seq, text/event-streams"), Refused, Refused),
];

fn request(agent: &Agent, era: Era, accept: Option<&str>, seconds: f64) -> Request {
    let params = json!({"name": "slow", "arguments": {"seconds": seconds}});
    let request = match era {
        Era::Modern => agent.modern_request("tools/call", params),
        Era::Legacy => agent.legacy_request("tools/call", params),
    };
    match accept {
        Some(value) => request.set("Accept", value),
        None => request.without("Accept"),
    }
}

#[test]
fn a_quick_answer_has_the_shape_that_was_asked_for() {
    let bridge = Bridge::shared();
    let id = unique("accept");
    let _app = App::standard(bridge, &id);
    let agent = Agent::new(bridge, &id);
    for (accept, quick, _) in ROWS {
        for era in [Era::Modern, Era::Legacy] {
            let answer = agent.answer(&request(&agent, era, accept, 0.0));
            assert_eq!(shape(&answer), quick, "{accept:?} {era:?}: {answer:?}");
            if quick == Refused {
                assert_eq!(answer.refusal(), (406, -32600), "{accept:?} {era:?}");
                assert!(answer.response().get("id").is_none(), "{accept:?} {era:?}: {answer:?}");
                continue;
            }
            assert_eq!(answer.records.len(), 1, "{accept:?} {era:?}: {answer:?}");
            assert_eq!(answer.text(), "awake", "{accept:?} {era:?}");
            if quick == Json {
                let length = answer.head.header("content-length").map(str::to_owned);
                let body = answer.records[0].len().to_string();
                assert_eq!(length, Some(body), "{accept:?} {era:?}: {answer:?}");
            }
        }
    }
}

#[test]
fn a_slow_answer_has_the_shape_that_was_asked_for() {
    let bridge = Bridge::shared();
    let id = unique("accept");
    let _app = App::standard(bridge, &id);
    let agent = Agent::new(bridge, &id);
    // All at once: each takes 1.6 s.
    let mut sent: Vec<(Option<&str>, Era, Shape, Http)> = Vec::new();
    for (accept, _, slow) in ROWS {
        for era in [Era::Modern, Era::Legacy] {
            let http = request(&agent, era, accept, 1.6).sent_to(bridge);
            sent.push((accept, era, slow, http));
        }
    }
    for (accept, era, slow, http) in sent {
        let answer = agent.read_answer(http);
        assert_eq!(shape(&answer), slow, "{accept:?} {era:?}: {answer:?}");
        if slow != Refused {
            assert_eq!(answer.text(), "awake", "{accept:?} {era:?}");
        }
        if slow == Stream {
            let head = &answer.head;
            assert_eq!(head.header("x-accel-buffering"), Some("no"), "{head:?}");
            let mut cache = head.header_tokens("cache-control");
            cache.sort_unstable();
            assert_eq!(cache, ["no-store", "no-transform"], "{head:?}");
        }
    }
}

#[test]
fn an_agent_that_takes_only_json_is_spared_the_notifications() {
    let bridge = Bridge::shared();
    let id = unique("accept");
    let _app = App::standard(bridge, &id);
    let agent = Agent::new(bridge, &id);
    let params = json!({"name": "progress", "arguments": {"seconds": 0.1},
        "_meta": {"progressToken": 7}});
    for (accept, shape_expected, messages) in
        [("application/json", Json, 1), ("text/event-stream", Stream, 4)]
    {
        let request = agent.modern_request("tools/call", params.clone()).set("Accept", accept);
        let answer = agent.answer(&request);
        assert_eq!(shape(&answer), shape_expected, "{accept}: {answer:?}");
        assert_eq!(answer.records.len(), messages, "{accept}: {answer:?}");
        assert_eq!(answer.response()["result"]["content"][0]["text"], "3 steps", "{answer:?}");
    }
}

#[test]
fn the_bridges_own_answers_follow_accept_too() {
    let bridge = Bridge::shared();
    let agent = Agent::new(bridge, &unique("accept"));
    for (accept, expected) in [
        ("application/json", Json),
        ("text/event-stream", Stream),
        ("application/json, text/event-stream", Json),
        ("image/png", Refused),
    ] {
        for method in ["tools/list", "server/discover"] {
            let request = agent.modern_request(method, json!({})).set("Accept", accept);
            let answer = agent.answer(&request);
            assert_eq!(shape(&answer), expected, "{method} {accept}: {answer:?}");
        }
        let request = agent.legacy_request("ping", json!({})).set("Accept", accept);
        let answer = agent.answer(&request);
        assert_eq!(shape(&answer), expected, "ping {accept}: {answer:?}");
    }
}

#[test]
fn streams_that_are_nothing_else_need_event_stream() {
    let bridge = Bridge::shared();
    let agent = Agent::new(bridge, &unique("accept"));
    for (accept, refused) in [
        (Some("application/json"), true),
        (Some("text/html"), true),
        (Some("text/event-stream"), false),
        (Some("application/json, text/event-stream"), false),
        (Some("*/*"), false),
        (None, false),
    ] {
        let get = agent.bare("GET");
        let filter = json!({"notifications": {"toolsListChanged": true}});
        let listen = agent.modern_request("subscriptions/listen", filter).without("Accept");
        for (name, request) in [("GET", get), ("listen", listen)] {
            let request = match accept {
                Some(value) => request.with("Accept", value),
                None => request,
            };
            let mut http = request.sent_to(bridge);
            let mut head = http.read_head();
            if refused {
                assert_eq!(head.status, 406, "{name} {accept:?}: {head:?}");
                http.read_body(&mut head).expect("a refusal has its body");
                assert_eq!(head.json()["error"]["code"], -32600, "{name} {accept:?}: {head:?}");
                continue;
            }
            assert_eq!(head.status, 200, "{name} {accept:?}: {head:?}");
            // The first bytes come at once: some proxies hold the head back until then.
            let start = Instant::now();
            let first = http.events(&head).next(SOON);
            assert!(!matches!(first, Event::Quiet | Event::End), "{name} {accept:?}: {first:?}");
            let time = start.elapsed();
            assert!(time < Duration::from_secs(1), "{name}: first bytes after {time:?}");
        }
    }
}
