//! Connections whose agent says the same about itself again and again: the bridge may remember what it
//! read, and must not remember it for too long, or for another.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Agent, Bridge, Http, Request, Token, eventually, unique};

/// A connection on which this request was answered with 200 often enough to be well known.
fn known(bridge: &Bridge, request: &Request) -> Http {
    let mut http = Http::connect(bridge.addr);
    for _ in 0..4 {
        http.send(request.bytes());
        assert_eq!(http.read_response().status, 200);
    }
    http
}

fn ping(bridge: &Bridge, id: &str, token: &str) -> Request {
    Agent::with_token(bridge, id, token).legacy_request("ping", json!({}))
}

#[test]
fn a_token_that_ends_between_two_requests_is_refused() {
    let bridge = Bridge::start(&[]);
    let id = unique("ends");
    // Of the minute of leeway three seconds are left.
    let token = Token::of(&id, "agent").expires_in(-57).mint();
    let request = ping(&bridge, &id, &token);
    let mut http = known(&bridge, &request);
    std::thread::sleep(Duration::from_secs(4));
    http.send(request.bytes());
    assert_eq!(http.read_response().status, 401);
}

#[test]
fn a_token_that_is_revoked_between_two_requests_is_refused() {
    let path = std::env::temp_dir().join(unique("clientmcp-revoked"));
    std::fs::write(&path, "# none\n").expect("a writable temporary directory");
    let bridge = Bridge::start(&["--revoked-file", path.to_str().expect("a UTF-8 path")]);
    let id = unique("revoked");
    let token = Token::of(&id, "agent").claim("jti", "stolen").mint();
    let request = ping(&bridge, &id, &token);
    let mut http = known(&bridge, &request);
    let mut other = known(&bridge, &request);
    std::fs::write(&path, "stolen\n").expect("a writable file");
    bridge.signal(Signal::HUP);
    eventually("the token is refused", Duration::from_secs(3), || {
        http.send(request.bytes());
        (http.read_response().status == 401).then_some(())
    });
    other.send(request.bytes());
    assert_eq!(other.read_response().status, 401, "on every connection that knew it");
    std::fs::remove_file(&path).expect("written above");
}

#[test]
fn what_differs_is_seen_although_the_rest_is_known() {
    let bridge = Bridge::start(&[]);
    let (id, stranger) = (unique("differs"), unique("stranger"));
    let token = Token::of(&id, "agent").mint();
    let request = ping(&bridge, &id, &token);
    let mut http = known(&bridge, &request);
    let mut answer = |request: &Request| {
        http.send(request.bytes());
        http.read_response()
    };
    for padding in [0, 1, 9, 90, 900, 9000] {
        let body = [request.body.clone().expect("a body"), vec![b' '; padding]].concat();
        let response = answer(&request.clone().body(body));
        assert_eq!(response.status, 200, "another length, {padding} more");
        assert!(response.json().get("result").is_some(), "{response:?}");
    }
    let event = answer(&request.clone().set("Accept", "text/event-stream"));
    assert!(event.is_event_stream(), "{event:?}");
    assert_eq!(answer(&request).media_type(), "application/json");
    let evil = request.clone().set("Origin", "https://evil.example");
    assert_eq!(answer(&evil).status, 403);
    let mut page = request.clone().with("Origin", "http://localhost:8080");
    for _ in 0..3 {
        let answer = answer(&page);
        assert_eq!(answer.header("Access-Control-Allow-Origin"), Some("http://localhost:8080"));
    }
    assert_eq!(answer(&request).header("Access-Control-Allow-Origin"), None);
    page = request.clone().set("Authorization", "Bearer nonsense");
    assert_eq!(answer(&page).status, 401);
    let theirs = Token::of(&stranger, "agent").mint();
    let mut wrong_path = ping(&bridge, &stranger, &theirs);
    wrong_path.target = format!("/mcp/{id}");
    assert_eq!(answer(&wrong_path).status, 403, "the path of another client");
    assert_eq!(answer(&request).status, 200);
    let closing = answer(&request.clone().with("Connection", "close"));
    assert!(closing.says_close(), "{closing:?}");
}
