//! Contract §3: paths, methods, and the client ID in the path.
//!
//! Knows what each path answers to whom; tokens beyond "good" and "of another" are in `tokens`,
//! preflights in `origins`.

use std::time::Duration;

use serde_json::json;

use crate::support::{Agent, Bridge, Client, Http, RawClient, Request, SOON, token, unique};

#[test]
fn health_says_ok() {
    let bridge = Bridge::shared();
    for path in ["/health", "/health/", "/health?from=probe"] {
        let response = Request::get(&bridge.target(path)).to(bridge);
        assert_eq!((response.status, response.text().trim()), (200, "ok"), "{path}: {response:?}");
    }
}

#[test]
fn health_answers_head_without_a_body() {
    let bridge = Bridge::shared();
    let mut http = Http::connect(bridge.addr);
    http.send(Request::new("HEAD", &bridge.target("/health")).bytes());
    let response = http.read_response_to("HEAD");
    assert_eq!(response.status, 200, "{response:?}");
    // A body would be read as the start of this response.
    http.send(Request::get(&bridge.target("/health")).bytes());
    assert_eq!(http.read_response().status, 200);
}

#[test]
fn a_wrong_method_is_told_the_right_ones() {
    let bridge = Bridge::shared();
    let id = unique("methods");
    for (path, methods, allowed) in [
        ("/health", vec!["POST", "PUT", "DELETE"], vec!["get", "head"]),
        ("/mcp", vec!["PUT", "PATCH", "HEAD", "BREW"], vec!["post", "get", "delete", "options"]),
        ("/connect", vec!["POST", "PUT"], vec!["get"]),
    ] {
        for method in methods {
            let request = Request::new(method, &bridge.target(path)).bearer(&token(&id, "agent"));
            let response = request.to(bridge);
            assert_eq!(response.status, 405, "{method} {path}: {response:?}");
            let mut allow = response.header_tokens("allow");
            for word in &allowed {
                let at = allow.iter().position(|w| w == word);
                let at = at.unwrap_or_else(|| panic!("{method} {path} lacks {word}: {response:?}"));
                allow.remove(at);
            }
        }
    }
}

#[test]
fn anything_else_is_404_in_one_line_and_asks_for_no_token() {
    let bridge = Bridge::shared();
    for path in [
        "/",
        "/nope",
        "/mcpx",
        "/MCP",
        "/metrics",
        "/demo",
        "/mcp/a/b",
        "/connect/a/b",
        "/healthz",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration/mcp",
        "/mcp/.well-known/openid-configuration",
        "/%6dcp/x/y",
    ] {
        for method in ["GET", "POST"] {
            let response = Request::new(method, &bridge.target(path)).to(bridge);
            assert_eq!(response.status, 404, "{method} {path}: {response:?}");
            assert_eq!(response.header("www-authenticate"), None, "{method} {path}: {response:?}");
            let lines = response.text().lines().count();
            assert_eq!(lines, 1, "{method} {path} answers in one line: {response:?}");
        }
    }
}

#[test]
fn the_endpoint_is_served_with_and_without_slash_query_and_client_id() {
    let bridge = Bridge::shared();
    let id = format!("{}@x:1", unique("path"));
    let agent = Agent::new(bridge, &id);
    let encoded = id.replace('@', "%40").replace(':', "%3a");
    let wholly: String = id.bytes().map(|b| format!("%{b:02X}")).collect();
    for path in [
        "/mcp".to_owned(),
        "/mcp/".to_owned(),
        "/mcp?x=1".to_owned(),
        format!("/mcp/{id}"),
        format!("/mcp/{id}/"),
        format!("/mcp/{encoded}"),
        format!("/mcp/{wholly}?x=/y"),
    ] {
        let mut request = agent.modern_request("tools/list", json!({}));
        request.target = bridge.target(&path);
        let answer = agent.answer(&request);
        assert_eq!(answer.status(), 200, "{path}: {answer:?}");
    }
}

#[test]
fn a_client_id_in_the_path_must_be_the_tokens() {
    let bridge = Bridge::shared();
    let id = unique("path");
    let agent = Agent::new(bridge, &id);
    for other in [unique("other"), format!("{id}x"), id.to_uppercase(), format!("{id}%20")] {
        let mut request = agent.modern_request("tools/list", json!({}));
        request.target = bridge.target(&format!("/mcp/{other}"));
        let answer = agent.answer(&request);
        assert_eq!(answer.refusal(), (403, -32600), "{other}: {answer:?}");
    }
}

#[test]
fn a_client_connects_under_its_own_path_only() {
    let bridge = Bridge::shared();
    let id = unique("path");
    let protocols = format!("clientmcp.v1, clientmcp.bearer.{}", token(&id, "client"));
    let headers = [("Sec-WebSocket-Protocol", protocols.as_str())];
    for path in [format!("/connect/{id}"), format!("/connect/{id}/"), "/connect/".to_owned()] {
        let mut client = Client::connect_to(bridge, &bridge.target(&path), &headers);
        assert_eq!(client.offers(&[])["clientId"], id.as_str(), "{path}");
    }
    let other = bridge.target(&format!("/connect/{}", unique("other")));
    let mut client = Client::connect_to(bridge, &other, &headers);
    assert_eq!(client.expects_close().0, 4403);
}

#[test]
fn connect_without_an_upgrade_is_426() {
    let bridge = Bridge::shared();
    let response = Request::get(&bridge.target("/connect")).to(bridge);
    assert_eq!(response.status, 426, "{response:?}");
    // RFC 9110 §15.5.22: it must name what to upgrade to.
    assert_eq!(response.header_tokens("upgrade"), ["websocket"], "{response:?}");
}

#[test]
fn a_handshake_is_refused_when_a_part_is_missing_or_wrong() {
    let bridge = Bridge::shared();
    let good = || RawClient::request(bridge, &unique("shake"));
    for (name, request, statuses) in [
        ("version 12", good().set("Sec-WebSocket-Version", "12"), vec![400, 426]),
        ("no version", good().without("Sec-WebSocket-Version"), vec![400, 426]),
        ("no key", good().without("Sec-WebSocket-Key"), vec![400]),
        ("a key that is no Base64", good().set("Sec-WebSocket-Key", "!!"), vec![400]),
        ("a key of 15 bytes", good().set("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAA"), vec![400]),
        ("no upgrade", good().without("Upgrade"), vec![400, 426]),
        ("another upgrade", good().set("Upgrade", "h2c"), vec![400, 426]),
        ("no connection", good().without("Connection"), vec![400, 426]),
    ] {
        let (response, _) = RawClient::shake(bridge, &request);
        assert!(statuses.contains(&response.status), "{name}: {response:?}");
    }
}

#[test]
fn a_handshake_with_a_body_is_refused_because_it_could_be_read_as_frames() {
    let bridge = Bridge::shared();
    let good = || RawClient::request(bridge, &unique("shake"));
    let register = RawClient::frame(0x81, br#"{"type":"register"}"#);
    let chunk =
        [format!("{:x}\r\n", register.len()).as_bytes(), &register, b"\r\n0\r\n\r\n"].concat();
    for (name, request) in [
        ("a body", good().body(register.clone())),
        ("a length, and no body yet", good().with("Content-Length", "5")),
        ("a chunked body", good().with("Transfer-Encoding", "chunked").body(chunk)),
        ("chunks that end at once", good().with("Transfer-Encoding", "chunked").body("0\r\n\r\n")),
    ] {
        let (response, mut raw) = RawClient::shake(bridge, &request);
        assert_eq!(response.status, 400, "{name}: {response:?}");
        assert_eq!(response.header("upgrade"), None, "{name}: {response:?}");
        assert_eq!(response.header("sec-websocket-accept"), None, "{name}: {response:?}");
        // Whatever the body was, nothing in it was taken for a frame.
        assert!(raw.try_frame(Duration::from_millis(100)).is_err(), "{name}");
    }
    // A length of zero says that there is no body.
    let (response, mut raw) = RawClient::shake(bridge, &good().with("Content-Length", "0"));
    assert_eq!(response.status, 101, "{response:?}");
    raw.send_text(r#"{"type":"register"}"#);
    assert_eq!(raw.next_message(SOON)["type"], "registered");
}

#[test]
fn a_handshake_is_answered_by_the_book() {
    let bridge = Bridge::shared();
    let id = unique("shake");
    let request = RawClient::request(bridge, &id)
        .set("Connection", "keep-alive, upgrade")
        .set("Upgrade", "WebSocket")
        .with("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits")
        .with("Origin", "https://evil.example");
    let (response, mut client) = RawClient::shake(bridge, &request);
    assert_eq!(response.status, 101, "{response:?}");
    // The key and its answer are the example of RFC 6455 §1.3.
    let accept = response.header("sec-websocket-accept");
    assert_eq!(accept, Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{response:?}");
    assert_eq!(response.header_tokens("upgrade"), ["websocket"], "{response:?}");
    assert_eq!(response.header_tokens("connection"), ["upgrade"], "{response:?}");
    assert_eq!(response.header("sec-websocket-protocol"), Some("clientmcp.v1"), "{response:?}");
    // Compression is never negotiated, however it is offered; the origin does not matter here.
    assert_eq!(response.header("sec-websocket-extensions"), None, "{response:?}");
    assert_eq!(response.header("content-length"), None, "RFC 9110 §8.6: {response:?}");
    client.send_text(r#"{"type":"register"}"#);
    assert_eq!(client.next_message(SOON)["clientId"], id.as_str());
}

#[test]
fn what_is_sent_along_with_the_handshake_is_not_lost() {
    let bridge = Bridge::shared();
    let id = unique("early");
    let mut http = Http::connect(bridge.addr);
    let mut bytes = RawClient::request(bridge, &id).bytes();
    bytes.extend(RawClient::frame(0x81, br#"{"type":"register"}"#));
    http.send(bytes);
    let response = http.read_response();
    assert_eq!(response.status, 101, "{response:?}");
    assert_eq!(RawClient { http }.next_message(SOON)["clientId"], id.as_str());
}
