//! Origins that the operator names, and a listener that is not on loopback.
//!
//! The rules for loopback without any flag are in `tests/contract`.

use serde_json::json;

use crate::support::{Agent, Bridge, Request, unique};

fn status(bridge: &Bridge, origin: &str) -> u16 {
    let agent = Agent::new(bridge, &unique("origin"));
    let request = agent.modern_request("tools/list", json!({})).with("Origin", origin);
    let answer = agent.answer(&request);
    let allowed = answer.head.header("access-control-allow-origin");
    match answer.status() {
        200 => assert!(allowed == Some(origin) || allowed == Some("*"), "{origin}: {answer:?}"),
        _ => assert_eq!(allowed, None, "{origin}: {answer:?}"),
    }
    answer.status()
}

#[test]
fn named_origins_are_allowed_exactly_as_named() {
    let flags = ["--allow-origin", "https://app.example", "--allow-origin=https://b.example:8443"];
    let bridge = Bridge::start(&flags);
    for (origin, expected) in [
        ("https://app.example", 200),
        ("https://b.example:8443", 200),
        ("http://localhost:5173", 200), // the listener is on loopback still
        ("http://app.example", 403),
        ("https://app.example:8443", 403),
        ("https://b.example", 403),
        ("https://x.app.example", 403),
        ("https://app.example.evil.example", 403),
        ("null", 403),
    ] {
        assert_eq!(status(&bridge, origin), expected, "{origin}");
    }
    let preflight = Request::new("OPTIONS", "/mcp")
        .with("Origin", "https://app.example")
        .with("Access-Control-Request-Method", "POST")
        .with("Access-Control-Request-Headers", "authorization")
        .to(&bridge);
    assert!((200..300).contains(&preflight.status), "{preflight:?}");
}

#[test]
fn a_listener_beyond_loopback_trusts_no_loopback_origin() {
    // Not `Bridge::start`: a second --listen would add to its loopback one.
    let mut command = Bridge::command(&[]);
    command.args(["serve", "--listen", "0.0.0.0:0"]);
    let bridge = Bridge::spawn(command);
    assert_eq!(status(&bridge, "http://localhost:5173"), 403);
    assert_eq!(status(&bridge, "http://127.0.0.1:5173"), 403);
    let agent = Agent::new(&bridge, &unique("origin"));
    assert_eq!(agent.modern("tools/list", json!({})).status(), 200);
}

#[test]
fn a_base_path_comes_before_every_route_and_nothing_is_served_without_it() {
    let bridge = Bridge::start(&["--base-path", "/bridge"]);
    for path in ["/health", "/mcp", "/connect"] {
        let response = Request::get(path).to(&bridge);
        assert_eq!(response.status, 404, "{path}: {response:?}");
    }
    assert_eq!(Request::get("/bridge/health").to(&bridge).status, 200);
    let bridge = bridge.under("/bridge");
    let id = unique("base");
    let mut client = crate::support::Client::connect(&bridge, &id);
    client.offers(&["echo"]);
    assert_eq!(Agent::new(&bridge, &id).lists_tools(), ["echo"]);
}
