//! Contract §5: what an agent posts: type, size, JSON, JSON-RPC.
//!
//! Knows the refusals up to the point where the message is one; what the methods do is tested
//! elsewhere.

use serde_json::{Value, json};

use crate::support::{Agent, Bridge, Http, MESSAGE_BYTES_MAX, Request, Response, unique};

fn agent(name: &str) -> Agent<'static> {
    Agent::new(Bridge::shared(), &unique(name))
}

/// A legacy `ping` padded with blanks to exactly this many bytes.
fn ping_of(len: usize) -> Vec<u8> {
    let mut body = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.to_vec();
    body.resize(len, b' ');
    body
}

fn assert_refusal(name: &str, response: &Response, status: u16, code: i64) {
    assert_eq!(response.status, status, "{name}: {response:?}");
    let body = response.json();
    assert_eq!(body["jsonrpc"], "2.0", "{name}: {response:?}");
    assert_eq!(body["error"]["code"], code, "{name}: {response:?}");
    let message = body["error"]["message"].as_str().unwrap_or_default();
    assert!(!message.is_empty(), "{name}: {response:?}");
    assert!(body.get("id").is_none(), "{name}: an ID was made up: {response:?}");
}

/// The connection is of use again, or was closed as announced; never reset.
fn assert_goes_on(name: &str, http: &mut Http, refused: &Response, next: &Request) {
    if refused.says_close() {
        return http.expects_end();
    }
    http.send(next.bytes());
    let response = http.read_response();
    assert_eq!(response.status, 200, "{name}: the next request got {response:?}");
}

#[test]
fn only_json_is_taken() {
    let agent = agent("type");
    let request = agent.legacy_request("ping", json!({}));
    for (value, good) in [
        (Some("application/json"), true),
        (Some("application/json; charset=utf-8"), true),
        (Some("application/json;charset=\"UTF-8\""), true),
        (Some("Application/JSON"), true),
        (Some("text/plain"), false),
        (Some("application/json-patch+json"), false),
        (Some("application/jsonx"), false),
        (Some("application/x-www-form-urlencoded"), false),
        (Some("text/plain; application/json"), false),
        (Some(""), false),
        (None, false),
    ] {
        let request = request.clone().without("Content-Type");
        let request = match value {
            Some(value) => request.with("Content-Type", value),
            None => request,
        };
        let response = request.to(agent.bridge);
        match good {
            true => assert_eq!(response.status, 200, "{value:?}: {response:?}"),
            false => assert_refusal(&format!("{value:?}"), &response, 415, -32600),
        }
    }
}

#[test]
fn a_body_of_four_mebibytes_passes_and_one_byte_more_is_413() {
    let agent = agent("size");
    let request = agent.legacy_request("ping", json!({}));
    for len in [MESSAGE_BYTES_MAX - 1, MESSAGE_BYTES_MAX] {
        let response = request.clone().body(ping_of(len)).to(agent.bridge);
        assert_eq!(response.status, 200, "{len}: {response:?}");
    }
    for len in [MESSAGE_BYTES_MAX + 1, 6 * 1024 * 1024, 20 * 1024 * 1024] {
        let mut http = Http::connect(agent.bridge.addr);
        // The whole body is written before anything is read: the answer must not be lost to a
        // reset.
        let sent = http.try_send(request.clone().body(ping_of(len)).bytes());
        let response = http.try_response();
        let response = response.unwrap_or_else(|e| panic!("{len}: {e:?}; sending gave {sent:?}"));
        assert_refusal(&format!("{len} bytes"), &response, 413, -32600);
        if sent.is_ok() {
            assert_goes_on(&format!("{len} bytes"), &mut http, &response, &request);
        }
    }
}

#[test]
fn a_length_over_the_limit_is_refused_before_the_body_comes() {
    let agent = agent("size");
    for len in [MESSAGE_BYTES_MAX as u64 + 1, 1 << 40] {
        let request = agent.legacy_request("ping", json!({}));
        let request = request.with("Content-Length", &len.to_string());
        for request in [request.clone(), request.with("Expect", "100-continue")] {
            let request = Request { body: None, ..request };
            let mut http = request.sent_to(agent.bridge);
            let head = http.read_head();
            assert_eq!(head.status, 413, "{len}: {head:?}");
        }
    }
}

#[test]
fn chunks_count_together_against_the_limit() {
    let agent = agent("chunks");
    let chunked = |len: usize| {
        let mut body = Vec::new();
        for piece in ping_of(len).chunks(100_000) {
            body.extend(format!("{:x}\r\n", piece.len()).into_bytes());
            body.extend(piece);
            body.extend(b"\r\n");
        }
        body.extend(b"0\r\n\r\n");
        agent.legacy_request("ping", json!({})).with("Transfer-Encoding", "chunked").body(body)
    };
    let response = chunked(MESSAGE_BYTES_MAX).to(agent.bridge);
    assert_eq!(response.status, 200, "{response:?}");
    let mut http = Http::connect(agent.bridge.addr);
    let sent = http.try_send(chunked(MESSAGE_BYTES_MAX + 1).bytes());
    let response = http.try_response().unwrap_or_else(|e| panic!("{e:?}; sending gave {sent:?}"));
    assert_refusal("chunked", &response, 413, -32600);
}

#[test]
fn what_is_no_json_is_a_parse_error_without_an_id() {
    let agent = agent("json");
    let deep = "[".repeat(200_000);
    for (name, body) in [
        ("nothing", &b""[..]),
        ("blanks", b"  \r\n"),
        ("a brace", b"{"),
        ("a comma too many", br#"{"jsonrpc":"2.0","id":1,"method":"ping",}"#),
        ("single quotes", b"{'jsonrpc':'2.0'}"),
        ("a comment", br#"{"jsonrpc":"2.0",/* x */"id":1,"method":"ping"}"#),
        ("NaN", br#"{"jsonrpc":"2.0","id":NaN,"method":"ping"}"#),
        ("a leading zero", br#"{"jsonrpc":"2.0","id":01,"method":"ping"}"#),
        ("something after it", br#"{"jsonrpc":"2.0","id":1,"method":"ping"} x"#),
        ("two of them", br#"{"jsonrpc":"2.0","id":1,"method":"ping"}{}"#),
        ("a broken escape", br#"{"jsonrpc":"2.0","id":"\x","method":"ping"}"#),
        ("a line break in a string", b"{\"jsonrpc\":\"2.0\",\"id\":\"\n\",\"method\":\"ping\"}"),
        ("no UTF-8", b"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}"),
        ("half a character", b"{\"jsonrpc\":\"2.0\",\"id\":\"\xc3\",\"method\":\"ping\"}"),
        ("too long a form", b"{\"jsonrpc\":\"2.0\",\"id\":\"\xc0\xaf\",\"method\":\"ping\"}"),
        ("UTF-16", b"\xff\xfe{\0}\0"),
        ("brackets without end", deep.as_bytes()),
    ] {
        let request = agent.legacy_request("ping", json!({})).body(body);
        assert_refusal(name, &request.to(agent.bridge), 400, -32700);
    }
}

#[test]
fn json_that_is_no_message_is_an_invalid_request() {
    let agent = agent("message");
    for body in [
        "5",
        r#""ping""#,
        "null",
        "true",
        "{}",
        r#"{"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"params":{}}"#,
        // The same member, written differently.
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","\u006dethod":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"a":2}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"a":1,"a":2}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{},"_meta":{}}}"#,
    ] {
        let request = agent.legacy_request("ping", json!({})).body(body);
        let response = request.to(agent.bridge);
        // An ID that could be read may be there; one that could not is left out.
        assert_eq!(response.status, 400, "{body}: {response:?}");
        let answer: Value = response.json();
        assert_eq!(answer["error"]["code"], -32600, "{body}: {response:?}");
        let id = answer.get("id");
        assert!(id.is_none() || id == Some(&json!(1)), "{body}: {response:?}");
    }
}

#[test]
fn a_method_that_is_no_text_and_params_that_are_no_object_are_refused() {
    let agent = agent("message");
    for (body, codes) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, [-32600, -32600]),
        (r#"{"jsonrpc":"2.0","id":1,"method":null}"#, [-32600, -32600]),
        // JSON-RPC allows an array of params and MCP does not: the request or its params are
        // invalid.
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, [-32600, -32602]),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}"#, [-32600, -32602]),
    ] {
        let response = agent.legacy_request("ping", json!({})).body(body).to(agent.bridge);
        let code = response.json()["error"]["code"].as_i64().unwrap_or_default();
        assert!(codes.contains(&code), "{body}: {response:?}");
    }
}

#[test]
fn a_response_is_taken_in_2025_also_when_nobody_waits_and_refused_in_2026() {
    let agent = agent("response");
    for body in [
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        json!({"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": "x"}}),
    ] {
        let legacy = agent.post(&body).with("MCP-Protocol-Version", "2025-11-25").to(agent.bridge);
        assert_eq!(legacy.status, 202, "{body}: {legacy:?}");
        assert!(legacy.body.is_empty(), "{body}: {legacy:?}");
        let bare = agent.post(&body).to(agent.bridge);
        assert_eq!(bare.status, 202, "{body}: {bare:?}");
        let modern = agent.post(&body).with("MCP-Protocol-Version", "2026-07-28");
        let modern = modern.to(agent.bridge);
        assert_eq!(modern.status, 400, "{body}: {modern:?}");
        assert_eq!(modern.json()["error"]["code"], -32600, "{body}: {modern:?}");
    }
}

#[test]
fn white_space_and_unknown_members_do_not_matter() {
    let agent = agent("white");
    for body in [
        "\r\n\t {\"jsonrpc\" :\"2.0\" , \"id\": 1,\n\"method\":\"ping\"}\r\n ",
        r#"{"future":[{}],"jsonrpc":"2.0","id":1,"method":"ping","more":{"id":2,"id":3}}"#,
        r#"{"method":"\u0070ing","id":1,"jsonrpc":"2.\u0030"}"#,
    ] {
        let response = agent.legacy_request("ping", json!({})).body(body).to(agent.bridge);
        assert_eq!(response.status, 200, "{body}: {response:?}");
        assert_eq!(response.json(), json!({"jsonrpc": "2.0", "id": 1, "result": {}}), "{body}");
    }
}

#[test]
fn a_connection_is_of_use_after_each_refusal() {
    let agent = agent("again");
    let good = agent.legacy_request("ping", json!({}));
    for (name, bad) in [
        ("400", good.clone().body("{")),
        ("401", good.clone().bearer("bad")),
        ("403", good.clone().with("Origin", "http://evil.example")),
        ("404", Request::get(&agent.bridge.target("/nope"))),
        ("405", agent.bare("PUT").body("some body")),
        ("406", good.clone().set("Accept", "text/html")),
        ("415", good.clone().set("Content-Type", "text/plain")),
    ] {
        let mut http = Http::connect(agent.bridge.addr);
        http.send(bad.bytes());
        let response = http.read_response();
        assert_eq!(response.status.to_string(), name, "{response:?}");
        assert_goes_on(name, &mut http, &response, &good);
    }
}
