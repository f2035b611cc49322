//! How long: without a token, for a head, for a register, for a body.
//!
//! That trickling does not help against these is `tests/process/timeouts.rs`.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::extra::{ADD, Ask, Client, Desk, register};
use crate::log_of;
use crate::support::{Agent, Bridge, Http, RawClient, Request, SOON, Trouble, token, unique};

#[test]
fn a_connection_that_shows_no_good_token_in_time_is_closed_whatever_it_asks() {
    let bridge = Bridge::start(&["--token-timeout", "1.5", "--log-level", "debug"]);
    let agent = Agent::new(&bridge, &unique("known"));
    let ping = |token: &str| agent.legacy_request("ping", json!({})).bearer(token).bytes();
    let health = Request::get("/health").bytes();
    let preflight = Request::new("OPTIONS", "/mcp").bytes();
    for (name, bytes) in
        [("health", health.clone()), ("a bad token", ping("nonsense")), ("preflight", preflight)]
    {
        let mut http = Http::connect(bridge.addr);
        let begun = Instant::now();
        let answers = std::iter::from_fn(|| {
            std::thread::sleep(Duration::from_millis(200));
            http.try_send(&bytes).ok()?;
            http.try_response().ok()
        });
        let answers = answers.take(50).count();
        let took = begun.elapsed();
        assert!((2..30).contains(&answers), "{name}: {answers} answers in {took:?}");
        assert!(took > Duration::from_millis(1400), "{name}: closed after {took:?} already");
        assert!(took < SOON, "{name}: closed after {took:?}");
    }
    // One that says nothing more is closed as well.
    let mut http = Http::connect(bridge.addr);
    http.send(&health);
    assert_eq!(http.read_response().status, 200);
    let begun = Instant::now();
    assert!(matches!(http.rest(SOON), Trouble::Ended(said) if said.is_empty()));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let line = bridge.await_log("(--token-timeout)", SOON);
    assert!(line.contains(&crate::promised("--token-timeout")[0]), "{line}");
    assert!(line.contains(" DEBUG "), "a health check must not fill the log: {line}");

    // A good token, even once, is enough.
    let mut http = Http::connect(bridge.addr);
    for bytes in [ping(&agent.token), health.clone(), health] {
        http.send(bytes);
        let answer = http.read_response();
        assert!(answer.status == 200 && !answer.says_close(), "{answer:?}");
        std::thread::sleep(Duration::from_millis(1100));
    }
}

#[test]
fn a_client_that_does_not_register_in_time_is_closed_with_4408() {
    let bridge = Bridge::start(&["--register-timeout", "1"]);
    let desk = Desk::on(&bridge);
    let mut client = Client::joins(&desk, &token(&desk.id, "client"));
    let begun = Instant::now();
    client.says(r#"{"type":"ping"}"#);
    client.hears(1.0);
    let (code, reason) = client.close();
    assert_eq!((code, &*reason), (4408, "no register within 1 s of the handshake"));
    let took = begun.elapsed();
    assert!((800..5000).contains(&took.as_millis()), "about a second, not {took:?}");
    assert!(log_of(&bridge, "--register-timeout").contains(&desk.id));
    let mut client = desk.client(&register(&[ADD]));
    std::thread::sleep(Duration::from_millis(1500));
    client.is_alive();
}

#[test]
fn a_slow_head_and_a_slow_body_are_408_and_logged() {
    let bridge = Bridge::start(&["--head-timeout", "0.5", "--body-timeout", "0.5"]);
    let mut http = Http::connect(bridge.addr);
    http.send("GET /health HTTP/1.1\r\n");
    assert_eq!(http.read_response().status, 408);
    log_of(&bridge, "--head-timeout");

    let agent = Agent::new(&bridge, &unique("slow"));
    let bytes = agent.legacy_request("ping", json!({})).bytes();
    let mut http = Http::connect(bridge.addr);
    http.send(&bytes[..bytes.len() - 1]);
    assert_eq!(http.read_response().status, 408);
    log_of(&bridge, "--body-timeout");
}

#[test]
fn an_idle_connection_of_an_agent_is_closed_after_keep_alive() {
    let bridge = Bridge::start(&["--keep-alive", "1"]);
    let agent = Agent::new(&bridge, &unique("idle"));
    let mut http = Http::connect(bridge.addr);
    http.send(agent.legacy_request("ping", json!({})).bytes());
    assert_eq!(http.read_response().status, 200);
    let begun = Instant::now();
    assert!(matches!(http.rest(SOON), Trouble::Ended(said) if said.is_empty()));
    let took = begun.elapsed();
    assert!((800..5000).contains(&took.as_millis()), "about a second, not {took:?}");
}

#[test]
fn a_call_that_is_not_answered_in_time_is_a_tool_error_and_logged() {
    let bridge = Bridge::start(&["--call-timeout", "0.5"]);
    let desk = Desk::on(&bridge);
    let mut client = desk.client(&register(&[ADD]));
    let running = desk.begin(&Ask::call_old("1", "add", "{}"));
    let call = client.call();
    client.cancel_of(&call, 5.0);
    assert!(running.finish().tool_error().contains("did not answer"));
    assert!(log_of(&bridge, "--call-timeout").contains(&call.id));
}

#[test]
fn a_websocket_is_no_strangers_connection() {
    let bridge = Bridge::start(&["--token-timeout", "0.5", "--head-timeout", "0.5"]);
    let mut client = RawClient::connect(&bridge, &unique("socket"));
    client.send_text(&register(&[ADD]));
    assert_eq!(client.next_message(SOON)["type"], "registered");
    std::thread::sleep(Duration::from_millis(1500));
    client.send_text(r#"{"type":"ping"}"#);
    assert_eq!(client.next_message(SOON)["type"], "pong");
}
