//! How long a connection may take for a head, for a body, and for nothing at all.
//!
//! With flags that make the times short; that trickling does not help against them, and that
//! slowness within them is served.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Agent, Bridge, Http, RawClient, Trouble, unique};

fn hasty() -> Bridge {
    Bridge::start(&["--head-timeout", "1", "--body-timeout", "1", "--keep-alive", "1"])
}

/// Reads until the connection ends; how long it took, and that it ended in time and without a
/// success.
fn ends_in_time(name: &str, http: &mut Http, start: Instant) {
    let end = http.rest(Duration::from_secs(6));
    let time = start.elapsed();
    match &end {
        Trouble::Ended(said) => {
            let text = String::from_utf8_lossy(said);
            assert!(text.is_empty() || text.starts_with("HTTP/1.1 408"), "{name}: {text}");
        }
        other => panic!("{name}: expected the end after about 1 s, got {other:?}"),
    }
    assert!(time > Duration::from_millis(800), "{name}: ended after {time:?} already");
    assert!(time < Duration::from_secs(4), "{name}: ended only after {time:?}");
}

#[test]
fn a_connection_that_says_nothing_is_let_go() {
    let bridge = hasty();
    let start = Instant::now();
    let mut http = Http::connect(bridge.addr);
    ends_in_time("silence", &mut http, start);
}

#[test]
fn a_head_that_does_not_end_is_let_go_also_when_it_trickles() {
    let bridge = hasty();
    let start = Instant::now();
    let mut http = Http::connect(bridge.addr);
    http.send("GET /health HTTP/1.1\r\n");
    ends_in_time("half a head", &mut http, start);

    let start = Instant::now();
    let mut http = Http::connect(bridge.addr);
    http.send("GET /health HTTP/1.1\r\nX: ");
    let trickle = || {
        std::thread::sleep(Duration::from_millis(50));
        http.try_send("x").is_ok()
    };
    let sent = std::iter::repeat_with(trickle).take(100).take_while(|taken| *taken).count();
    let time = start.elapsed();
    assert!(sent < 100, "a head that trickles was listened to for {time:?}");
}

#[test]
fn a_body_without_progress_is_let_go_and_a_slow_one_is_served() {
    let bridge = hasty();
    let agent = Agent::new(&bridge, &unique("slow"));
    let bytes = agent.legacy_request("ping", json!({})).bytes();
    let (most, rest) = bytes.split_at(bytes.len() - 8);
    let mut http = Http::connect(bridge.addr);
    http.send(most);
    let start = Instant::now();
    ends_in_time("half a body", &mut http, start);

    // 2.4 s in all, never a second without a byte.
    let mut http = Http::connect(bridge.addr);
    http.send(most);
    for byte in rest {
        std::thread::sleep(Duration::from_millis(300));
        http.send([*byte]);
    }
    assert_eq!(http.read_response().status, 200);
}

#[test]
fn a_slow_head_within_the_time_is_served() {
    let bridge = hasty();
    let mut http = Http::connect(bridge.addr);
    http.send("GET /health HTTP/1.1\r\nHo");
    std::thread::sleep(Duration::from_millis(400));
    http.send("st: a\r\n\r\n");
    assert_eq!(http.read_response().status, 200);
}

#[test]
fn an_idle_connection_is_kept_for_a_while_and_then_ended_without_a_word() {
    let bridge = hasty();
    let mut http = Http::connect(bridge.addr);
    http.send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(http.read_response().status, 200);
    std::thread::sleep(Duration::from_millis(500));
    http.send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(http.read_response().status, 200);
    let start = Instant::now();
    match http.rest(Duration::from_secs(6)) {
        Trouble::Ended(said) => assert!(said.is_empty(), "{}", String::from_utf8_lossy(&said)),
        other => panic!("expected the end, got {other:?}"),
    }
    let time = start.elapsed();
    assert!(time > Duration::from_millis(800) && time < Duration::from_secs(4), "after {time:?}");
}

#[test]
fn the_times_of_http_do_not_touch_a_websocket() {
    let bridge = hasty();
    let mut client = RawClient::connect(&bridge, &unique("socket"));
    client.send_text(r#"{"type":"register"}"#);
    assert_eq!(client.next_message(Duration::from_secs(5))["type"], "registered");
    match client.try_frame(Duration::from_secs(4)) {
        Err(Trouble::Quiet(rest)) if rest.is_empty() => {}
        other => panic!("expected silence, got {other:?}"),
    }
    client.send_text(r#"{"type":"ping"}"#);
    assert_eq!(client.next_message(Duration::from_secs(5))["type"], "pong");
}
