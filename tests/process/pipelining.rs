//! Connections that carry more than one request, and connections that go in the middle of one.
//!
//! Pipelined requests are answered all and in order; what ends early is cleaned up: no descriptor,
//! no call stays behind.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{
    Agent, App, Bridge, Client, Era, Framing, Http, Request, SOON, eventually, unique,
};

fn pings(agent: &Agent, n: usize) -> Vec<Vec<u8>> {
    (0..n).map(|_| agent.legacy_request("ping", json!({})).bytes()).collect()
}

#[test]
fn pipelined_requests_are_all_answered_in_order() {
    let bridge = Bridge::start(&[]);
    let agent = Agent::new(&bridge, &unique("pipeline"));
    for n in [2, 3, 50] {
        let mut http = Http::connect(bridge.addr);
        let requests = pings(&agent, n);
        let first: serde_json::Value = {
            http.send(requests.concat());
            http.read_response().json()
        };
        let start = first["id"].as_i64().expect("the ID we sent");
        for i in 1..n {
            let response = http.read_response();
            assert_eq!(response.json()["id"], start + i as i64, "{i} of {n}: {response:?}");
        }
    }
}

#[test]
fn requests_may_be_cut_anywhere() {
    let bridge = Bridge::start(&[]);
    let agent = Agent::new(&bridge, &unique("pipeline"));
    let bytes = pings(&agent, 3).concat();
    for size in [1, 7, 100, bytes.len() / 2 + 1] {
        let mut http = Http::connect(bridge.addr);
        bytes.chunks(size).for_each(|piece| http.send(piece));
        for i in 0..3 {
            assert_eq!(http.read_response().status, 200, "{i} in pieces of {size}");
        }
    }
}

#[test]
fn a_chunked_body_and_the_next_request_do_not_run_into_each_other() {
    let bridge = Bridge::start(&[]);
    let agent = Agent::new(&bridge, &unique("pipeline"));
    let ping = agent.legacy_request("ping", json!({}));
    let body = ping.body.clone().expect("a body");
    let size = format!("{:x}\r\n", body.len()).into_bytes();
    let chunks = [size, body, b"\r\n0\r\n\r\n".to_vec()].concat();
    let chunked = ping.clone().with("Transfer-Encoding", "chunked").body(chunks);
    let mut http = Http::connect(bridge.addr);
    http.send([chunked.bytes(), ping.bytes(), chunked.bytes()].concat());
    for i in 0..3 {
        assert_eq!(http.read_response().status, 200, "{i}");
    }
}

#[test]
fn a_request_behind_a_running_call_waits_for_its_turn() {
    let bridge = Bridge::start(&[]);
    let id = unique("pipeline");
    let _app = App::standard(&bridge, &id);
    let agent = Agent::new(&bridge, &id).speaking(Era::Legacy);
    let slow = json!({"name": "slow", "arguments": {"seconds": 0.3}});
    let call = agent.request("tools/call", slow).bytes();
    let mut http = Http::connect(bridge.addr);
    http.send([call, pings(&agent, 2).concat()].concat());
    let first = http.read_response();
    assert!(first.text().contains("awake"), "{first:?}");
    assert_eq!(http.read_response().json()["result"], json!({}));
    assert_eq!(http.read_response().json()["result"], json!({}));
}

#[test]
fn a_request_behind_a_stream_is_answered_after_it() {
    let bridge = Bridge::start(&[]);
    let id = unique("pipeline");
    let _app = App::standard(&bridge, &id);
    let agent = Agent::new(&bridge, &id).speaking(Era::Legacy);
    let params = json!({"name": "progress", "arguments": {"seconds": 0.2},
        "_meta": {"progressToken": 1}});
    let mut http = agent.request("tools/call", params).sent_to(&bridge);
    let head = http.read_head();
    let mut events = http.events(&head);
    let (records, end) = events.rest(SOON);
    assert_eq!(records.len(), 4, "{records:?} {end:?}");
    let mut http = events.into_http();
    http.send(pings(&agent, 1).concat());
    assert_eq!(http.read_response().status, 200);
}

#[test]
fn an_agent_that_goes_with_a_request_still_waiting_cancels_its_call() {
    let bridge = Bridge::start(&[]);
    let id = unique("pipeline");
    let mut client = Client::connect(&bridge, &id);
    client.offers(&["echo"]);
    let agent = Agent::new(&bridge, &id);
    let params = json!({"name": "echo", "arguments": {}});
    for reset in [false, true] {
        let mut http = agent.request("tools/call", params.clone()).sent_to(&bridge);
        let call = client.next_call();
        http.send(pings(&agent, 1).concat());
        if reset {
            http.reset();
        } else {
            drop(http);
        }
        client.expects_cancel(&call, Duration::from_secs(2));
    }
}

#[test]
fn http_1_0_gets_a_stream_that_ends_with_the_connection() {
    let bridge = Bridge::start(&[]);
    let id = unique("old");
    let _app = App::standard(&bridge, &id);
    let agent = Agent::new(&bridge, &id);
    let params = json!({"name": "slow", "arguments": {"seconds": 1.3}});
    let mut request = agent.modern_request("tools/call", params).set("Accept", "text/event-stream");
    request.version = "HTTP/1.0".to_owned();
    let mut http = request.sent_to(&bridge);
    let mut head = http.read_head();
    assert!(head.is_event_stream(), "{head:?}");
    assert_eq!(head.framing, Framing::UntilEnd, "HTTP/1.0 knows no chunks: {head:?}");
    http.read_body(&mut head).expect("a body until the end");
    assert!(head.text().contains("awake"), "{head:?}");
}

#[test]
fn connections_that_end_early_leave_nothing_behind() {
    let bridge = Bridge::start(&[]);
    let agent = Agent::new(&bridge, &unique("early"));
    let whole = agent.legacy_request("ping", json!({})).bytes();
    let before = bridge.open_files();
    let cuts = [0, 1, 20, whole.len() / 2, whole.len() - 10, whole.len() - 1, whole.len()];
    for round in 0..40 {
        for cut in cuts {
            let mut http = Http::connect(bridge.addr);
            http.send(&whole[..cut]);
            match round % 3 {
                0 => drop(http),
                1 => http.reset(),
                _ => http.finish_sending(),
            }
        }
    }
    eventually("every connection was let go", SOON, || {
        (bridge.open_files() <= before + 2).then_some(())
    });
    bridge.assert_well("280 early ends");
}

#[test]
fn a_connection_serves_many_requests_one_after_another() {
    let bridge = Bridge::start(&[]);
    let agent = Agent::new(&bridge, &unique("keep"));
    let mut http = Http::connect(bridge.addr);
    for i in 0..200 {
        let request = if i % 2 == 0 {
            Request::get("/health")
        } else {
            agent.modern_request("tools/list", json!({}))
        };
        http.send(request.bytes());
        let response = http.read_response();
        assert_eq!(response.status, 200, "request {i}: {response:?}");
        assert!(!response.says_close(), "request {i}: {response:?}");
    }
}

/// 200 KB of pings: more than is kept while an answer is being waited for.
fn far_ahead(agent: &Agent) -> Vec<u8> {
    let ping = agent.legacy_request("ping", json!({})).bytes();
    ping.repeat(200_000 / ping.len() + 1)
}

#[test]
fn an_agent_that_goes_with_any_amount_still_waiting_cancels_its_call() {
    let bridge = Bridge::start(&[]);
    let id = unique("pipeline");
    let mut client = Client::connect(&bridge, &id);
    client.offers(&["echo"]);
    let agent = Agent::new(&bridge, &id);
    let params = json!({"name": "echo", "arguments": {}});
    let files = bridge.open_files();
    for accept in ["application/json", "application/json, text/event-stream", "text/event-stream"] {
        for way in ["close", "half-close", "reset"] {
            let request = agent.request("tools/call", params.clone()).set("Accept", accept);
            let mut http = request.sent_to(&bridge);
            let call = client.next_call();
            http.send(far_ahead(&agent));
            match way {
                "close" => drop(http),
                "reset" => http.reset(),
                _ => http.finish_sending(),
            }
            let reason = client.expects_cancel(&call, Duration::from_secs(2));
            assert!(!reason.is_empty(), "{accept}, {way}");
        }
    }
    eventually("every connection was let go", SOON, || {
        (bridge.open_files() <= files).then_some(())
    });
}

#[test]
fn an_agent_far_ahead_loses_the_connection_and_not_the_answer() {
    let bridge = Bridge::start(&[]);
    let id = unique("pipeline");
    let mut client = Client::connect(&bridge, &id);
    client.offers(&["echo"]);
    let agent = Agent::new(&bridge, &id);
    let text = "x".repeat(1 << 20);
    for accept in ["application/json", "text/event-stream"] {
        let params = json!({"name": "echo", "arguments": {}});
        let mut http = agent.request("tools/call", params).set("Accept", accept).sent_to(&bridge);
        let call = client.next_call();
        http.send(far_ahead(&agent));
        // Once it was read: before that, it is not known to be too much.
        std::thread::sleep(Duration::from_millis(200));
        client.replies_text(&call, &text);
        let response = http.read_response();
        assert!(response.text().contains(&text), "{accept}: all of the answer: {response:?}");
        http.expects_end();
    }
    // What is kept is enough for a few requests; then the connection goes on.
    let params = json!({"name": "echo", "arguments": {}});
    let mut http = agent.request("tools/call", params).sent_to(&bridge);
    let call = client.next_call();
    http.send(pings(&agent, 20).concat());
    std::thread::sleep(Duration::from_millis(50));
    client.replies_text(&call, "short");
    assert!(http.read_response().text().contains("short"));
    for _ in 0..20 {
        assert_eq!(http.read_response().json()["result"], json!({}));
    }
}

#[test]
fn a_half_close_is_a_hang_up() {
    let bridge = Bridge::start(&[]);
    let agent = Agent::new(&bridge, &unique("half"));
    // Nothing asked: nothing said.
    let mut http = Http::connect(bridge.addr);
    http.finish_sending();
    http.expects_end();
    // What can be answered at once is, and then the connection ends.
    let ping = agent.legacy_request("ping", json!({})).bytes();
    for count in [1, 3] {
        let mut http = Http::connect(bridge.addr);
        http.send(ping.repeat(count));
        http.finish_sending();
        for _ in 0..count {
            assert_eq!(http.read_response().json()["result"], json!({}));
        }
        http.expects_end();
    }
    // Half a request behind it is no request.
    let mut http = Http::connect(bridge.addr);
    http.send([&ping[..], &ping[..ping.len() - 1]].concat());
    http.finish_sending();
    assert_eq!(http.read_response().json()["result"], json!({}));
    http.expects_end();
}

/// Found by reading: its requests were answered for as long as more of them came, and nobody else's.
#[test]
fn who_never_stops_asking_keeps_nobody_waiting() {
    let bridge = Bridge::start(&[]);
    let greedy = TcpStream::connect(bridge.addr).expect("it listens");
    let requests = Request::get("/health").bytes().repeat(1000);
    let answered = std::thread::scope(|scope| {
        scope.spawn(|| while (&greedy).write_all(&requests).is_ok() {});
        scope.spawn(|| {
            let mut answers = vec![0; 64 << 10];
            while (&greedy).read(&mut answers).is_ok_and(|count| count > 0) {}
        });
        // It was near a second for each.
        let begun = Instant::now();
        let answered = (0..100).all(|_| {
            let mut http = Http::connect(bridge.addr);
            http.send(Request::get("/health").bytes());
            begun.elapsed() < SOON && http.try_response().is_ok_and(|answer| answer.status == 200)
        });
        greedy.shutdown(Shutdown::Both).expect("it is connected");
        answered
    });
    assert!(answered, "a hundred others are answered meanwhile");
}
