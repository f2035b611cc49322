//! Contract §5: `Origin`, CORS headers and preflights, with a bridge on loopback and no
//! `--allow-origin`.
//!
//! The origin is looked at before anything else about a request. Named origins are in
//! `tests/process`, with the flag.

use std::time::Duration;

use serde_json::json;

use crate::support::{Agent, App, Bridge, Client, Request, Response, SOON, token, unique};

const GOOD: &str = "http://localhost:5173";

fn allowed_origin(response: &Response) -> Option<&str> {
    response.header("access-control-allow-origin")
}

/// Fails unless a browser at `origin` may read `response` and the two headers it needs.
fn assert_readable(name: &str, response: &Response, origin: &str) {
    let allowed = allowed_origin(response);
    assert!(allowed == Some(origin) || allowed == Some("*"), "{name}: {response:?}");
    if allowed == Some(origin) {
        let vary = response.header_tokens("vary");
        assert!(vary.iter().any(|v| v == "origin"), "{name}: no Vary: Origin in {response:?}");
    }
    let exposed = response.header_tokens("access-control-expose-headers");
    for header in ["mcp-session-id", "www-authenticate"] {
        assert!(exposed.iter().any(|e| e == header), "{name}: {header} in {response:?}");
    }
    let credentials = response.header("access-control-allow-credentials");
    assert_eq!(credentials, None, "{name}: no cookies here: {response:?}");
}

#[test]
fn loopback_origins_are_served_and_others_refused() {
    let bridge = Bridge::shared();
    let agent = Agent::new(bridge, &unique("origin"));
    for (origin, good) in [
        ("http://localhost", true),
        ("http://localhost:5173", true),
        ("https://localhost:8443", true),
        ("http://127.0.0.1:3000", true),
        ("http://[::1]:3000", true),
        ("http://evil.example", false),
        ("https://evil.example:5173", false),
        ("http://localhost.evil.example", false),
        ("http://evil.example.localhost.example", false),
        ("http://127.0.0.1.evil.example", false),
        ("http://localhost@evil.example", false),
        ("http://evil.example#localhost", false),
        ("http://localhost:5173/", false),
        ("http://localhost:x", false),
        ("null", false),
        ("file://", false),
        ("localhost", false),
        ("", false),
    ] {
        let request = agent.modern_request("tools/list", json!({})).with("Origin", origin);
        let answer = agent.answer(&request);
        if good {
            assert_eq!(answer.status(), 200, "{origin:?}: {answer:?}");
            assert_readable(origin, &answer.head, origin);
        } else {
            assert_eq!(answer.refusal(), (403, -32600), "{origin:?}: {answer:?}");
            assert!(answer.response().get("id").is_none(), "{origin:?}: {answer:?}");
            assert_eq!(allowed_origin(&answer.head), None, "{origin:?}: {answer:?}");
        }
        // The origin comes before the token.
        let without = agent.answer(&request.without("Authorization")).status();
        assert_eq!(without, if good { 401 } else { 403 }, "{origin:?} without a token");
    }
}

#[test]
fn without_an_origin_there_is_nothing_to_refuse_and_host_proves_nothing() {
    let bridge = Bridge::shared();
    let agent = Agent::new(bridge, &unique("origin"));
    let request = agent.modern_request("tools/list", json!({}));
    for host in ["localhost", "127.0.0.1:1", "bridge.example", "evil.example:80"] {
        let answer = agent.answer(&request.clone().set("Host", host));
        assert_eq!(answer.status(), 200, "{host}: {answer:?}");
        let evil = request.clone().set("Host", host).with("Origin", "http://evil.example");
        assert_eq!(agent.answer(&evil).status(), 403, "{host} with an evil origin");
    }
}

#[test]
fn an_origin_that_equals_the_host_is_no_better_for_it() {
    let bridge = Bridge::shared();
    let agent = Agent::new(bridge, &unique("rebinding"));
    let request = agent
        .legacy_request(
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"}}),
        )
        .set("Host", "evil.example.com")
        .with("Origin", "http://evil.example.com")
        .with("Mcp-Method", "initialize");
    assert_eq!(agent.answer(&request).status(), 403);
}

#[test]
fn every_answer_of_the_endpoint_is_readable_to_an_allowed_origin() {
    let bridge = Bridge::shared();
    let id = unique("readable");
    let agent = Agent::new(bridge, &id);
    let list = || agent.modern_request("tools/list", json!({})).with("Origin", GOOD);
    let client_token = token(&id, "client");
    let huge = (crate::support::MESSAGE_BYTES_MAX + 1).to_string();
    let head = Request { body: None, ..list().set("Content-Length", &huge) };
    for (name, request, status) in [
        ("a result", list(), 200),
        ("no token", list().without("Authorization"), 401),
        ("a bad token", list().bearer("x"), 401),
        ("no scope", list().bearer(&client_token), 403),
        ("a wrong method", agent.bare("PUT").with("Origin", GOOD), 405),
        ("nothing acceptable", list().set("Accept", "text/html"), 406),
        ("too large", head, 413),
        ("a wrong type", list().set("Content-Type", "text/plain"), 415),
        ("no JSON", list().body("{"), 400),
        ("an unknown method", agent.modern_request("no/such", json!({})).with("Origin", GOOD), 404),
    ] {
        let response = request.to(bridge);
        assert_eq!(response.status, status, "{name}: {response:?}");
        assert_readable(name, &response, GOOD);
    }
}

#[test]
fn event_streams_are_readable_too() {
    let bridge = Bridge::shared();
    let id = unique("readable");
    let _app = App::standard(bridge, &id);
    let mut agent = Agent::new(bridge, &id);
    let call = json!({"name": "progress", "arguments": {"seconds": 0.1},
        "_meta": {"progressToken": 1}});
    let answer = agent.answer(&agent.modern_request("tools/call", call).with("Origin", GOOD));
    assert!(answer.streamed, "{answer:?}");
    assert_readable("a call's stream", &answer.head, GOOD);

    agent.initialize();
    let get = agent.bare("GET").with("Accept", "text/event-stream").with("Origin", GOOD);
    let mut http = get.sent_to(bridge);
    http.patience = SOON;
    let head = http.read_head();
    assert_eq!(head.status, 200, "{head:?}");
    assert_readable("a notification stream", &head, GOOD);
}

#[test]
fn a_preflight_is_answered_before_the_token_and_echoes_what_was_asked() {
    let bridge = Bridge::shared();
    let id = unique("preflight");
    let asked = "authorization, content-type, mcp-protocol-version, mcp-param-anything-at-all";
    for path in ["/mcp".to_owned(), "/mcp/".to_owned(), format!("/mcp/{id}")] {
        for method in ["POST", "GET", "DELETE"] {
            let response = Request::new("OPTIONS", &bridge.target(&path))
                .with("Origin", GOOD)
                .with("Access-Control-Request-Method", method)
                .with("Access-Control-Request-Headers", asked)
                .to(bridge);
            // Fetch standard, CORS-preflight fetch: any 2xx will do.
            assert!((200..300).contains(&response.status), "{method} {path}: {response:?}");
            assert!(response.body.is_empty(), "{method} {path}: {response:?}");
            let origin = allowed_origin(&response);
            assert!(origin == Some(GOOD) || origin == Some("*"), "{method} {path}: {response:?}");
            let methods = response.header_tokens("access-control-allow-methods");
            assert!(methods.contains(&method.to_lowercase()), "{method} {path}: {response:?}");
            let headers = response.header_tokens("access-control-allow-headers");
            for header in asked.split(", ") {
                assert!(headers.iter().any(|h| h == header), "{header}: {response:?}");
            }
        }
    }
}

#[test]
fn a_preflight_of_a_foreign_origin_gets_nothing() {
    let bridge = Bridge::shared();
    let response = Request::new("OPTIONS", &bridge.target("/mcp"))
        .with("Origin", "https://evil.example")
        .with("Access-Control-Request-Method", "POST")
        .with("Access-Control-Request-Headers", "authorization")
        .to(bridge);
    assert_eq!(response.status, 403, "{response:?}");
    assert_eq!(allowed_origin(&response), None, "{response:?}");
}

#[test]
fn a_preflight_without_asked_headers_and_a_plain_options_are_answered() {
    let bridge = Bridge::shared();
    let preflight = Request::new("OPTIONS", &bridge.target("/mcp"))
        .with("Origin", GOOD)
        .with("Access-Control-Request-Method", "POST");
    let response = preflight.to(bridge);
    assert!((200..300).contains(&response.status), "{response:?}");
    let plain = Request::new("OPTIONS", &bridge.target("/mcp")).to(bridge);
    assert!((200..300).contains(&plain.status), "{plain:?}");
}

#[test]
fn an_asked_header_can_not_smuggle_a_header_of_its_own() {
    let bridge = Bridge::shared();
    // The framing refuses control characters; what it lets through must come back as one value or
    // not at all.
    let response = Request::new("OPTIONS", &bridge.target("/mcp"))
        .with("Origin", GOOD)
        .with("Access-Control-Request-Method", "POST")
        .with("Access-Control-Request-Headers", "x\tset-cookie: a=b, \"y")
        .to(bridge);
    assert_eq!(response.header("set-cookie"), None, "{response:?}");
}

#[test]
fn a_client_may_come_from_any_origin() {
    let bridge = Bridge::shared();
    let id = unique("origin");
    let protocols = format!("clientmcp.v1, clientmcp.bearer.{}", token(&id, "client"));
    for origin in ["https://evil.example", "null", "file://"] {
        let headers = [("Sec-WebSocket-Protocol", protocols.as_str()), ("Origin", origin)];
        let mut client = Client::connect_to(bridge, &bridge.target("/connect"), &headers);
        client.offers(&["echo"]);
        assert_eq!(client.hears(Duration::from_millis(20)), crate::support::Heard::Quiet);
    }
}
