//! Contract §2: which tokens open which door, and what a refusal says.
//!
//! One table for both doors: what an agent sees as 401 or 403, a client sees as 4401 or 4403 after
//! a completed handshake. Expiry on an open connection and its renewal are here too; origins and
//! routes are not.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{
    Agent, App, Bridge, Client, Heard, Http, RawClient, Request, SOON, Token, now_seconds, secret,
    token, unique,
};

/// What a door does with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Opens,
    /// 401 or 4401.
    Unknown,
    /// 403 or 4403.
    Forbidden,
}
use Door::{Forbidden, Opens, Unknown};

/// Every way a token can be right or wrong, whatever it is for.
fn rows(scope: &str) -> Vec<(&'static str, String, Door)> {
    let id = unique("token");
    let good = || Token::of(&id, scope);
    let minted = good().mint();
    let parts: Vec<&str> = minted.split('.').collect();
    let (head, claims, signature) = (parts[0], parts[1], parts[2]);
    let long = |n: usize| Token::of(&"x".repeat(n), scope).mint();
    let sub = |sub: Value| good().claim("sub", sub).mint();
    let exp = now_seconds() + 3600;
    vec![
        ("a good one", minted.clone(), Opens),
        ("both scopes", good().claim("scope", "client agent").mint(), Opens),
        ("scopes of others too", good().claim("scope", format!("admin {scope} x")).mint(), Opens),
        ("no scope of ours", good().claim("scope", "admin").mint(), Forbidden),
        ("an empty scope", good().claim("scope", "").mint(), Forbidden),
        (
            "ours as part of a longer word",
            good().claim("scope", format!("{scope}s")).mint(),
            Forbidden,
        ),
        ("scope as a number", good().claim("scope", 5).mint(), Unknown),
        ("no sub", sub(Value::Null), Unknown),
        ("an empty sub", sub(json!("")), Unknown),
        ("sub as a number", sub(json!(5)), Unknown),
        ("sub with a space", sub(json!("a b")), Unknown),
        ("sub with a slash", sub(json!("a/b")), Unknown),
        ("sub beyond ASCII", sub(json!("é")), Unknown),
        ("sub of one dot", sub(json!(".")), Unknown),
        ("sub of two dots", sub(json!("..")), Unknown),
        ("sub of all allowed characters", sub(json!("AZaz09._~-@:")), Opens),
        ("sub of 128 characters", long(128), Opens),
        ("sub of 129 characters", long(129), Unknown),
        ("no exp", good().claim("exp", Value::Null).mint(), Unknown),
        ("exp as text", good().claim("exp", exp.to_string()).mint(), Unknown),
        ("exp 30 s ago", good().expires_in(-30).mint(), Opens),
        ("exp 120 s ago", good().expires_in(-120).mint(), Unknown),
        ("exp in the year 2200", good().claim("exp", 7_258_118_400_u64).mint(), Opens),
        ("nbf in 30 s", good().claim("nbf", now_seconds() + 30).mint(), Opens),
        ("nbf in 120 s", good().claim("nbf", now_seconds() + 120).mint(), Unknown),
        ("iat in the future", good().claim("iat", now_seconds() + 500).mint(), Opens),
        ("an audience nobody asked for", good().claim("aud", "x").mint(), Opens),
        ("jti as text", good().claim("jti", "t-1").mint(), Opens),
        ("jti as a number", good().claim("jti", 17).mint(), Opens),
        ("jti as an object", good().claim("jti", json!({"a": [1]})).mint(), Opens),
        ("jti null", nothing_for("jti", &id, scope), Opens),
        ("unknown claims", good().claim("nested", json!({"a": [1]})).mint(), Opens),
        ("alg none, unsigned", format!("{}.{claims}.", encode(r#"{"alg":"none"}"#)), Unknown),
        ("alg none, signed", good().header("alg", "none").mint(), Unknown),
        ("alg HS512", good().header("alg", "HS512").mint(), Unknown),
        ("alg in lower case", good().header("alg", "hs256").mint(), Unknown),
        ("no alg", good().header("alg", Value::Null).mint(), Unknown),
        ("crit", good().header("crit", json!(["exp"])).mint(), Unknown),
        ("another secret", good().secret("another-secret-of-quite-enough-bytes").mint(), Unknown),
        ("a secret cut short", good().secret(&secret()[..secret().len() - 1]).mint(), Unknown),
        ("no signature", format!("{head}.{claims}."), Unknown),
        ("a signature cut short", format!("{head}.{claims}.{}", &signature[..40]), Unknown),
        ("two parts", format!("{head}.{claims}"), Unknown),
        ("four parts", format!("{minted}.{signature}"), Unknown),
        ("no Base64", format!("{head}.{claims}.!!!"), Unknown),
        ("claims of another token", swapped(&id, scope), Unknown),
        ("claims that are no JSON", good().claims_text("{").mint(), Unknown),
        ("claims that are an array", good().claims_text("[]").mint(), Unknown),
        ("4,096 characters", good().mint_of_length(4096), Opens),
        ("4,097 characters", good().mint_of_length(4097), Unknown),
        ("5 KiB", good().mint_of_length(5 * 1024), Unknown),
        ("one letter", "x".to_owned(), Unknown),
    ]
}

fn encode(text: &str) -> String {
    data_encoding::BASE64URL_NOPAD.encode(text.as_bytes())
}

/// A good token with a claim that is `null`.
fn nothing_for(claim: &str, id: &str, scope: &str) -> String {
    let mut claims = json!({"sub": id, "scope": scope, "exp": now_seconds() + 3600});
    claims[claim] = Value::Null;
    Token::of(id, scope).claims_text(&claims.to_string()).mint()
}

/// The signature of one token under the claims of another.
fn swapped(id: &str, scope: &str) -> String {
    let (mine, other) = (token(id, scope), token("somebody-else", scope));
    let claims = other.split('.').nth(1).expect("a token has three parts");
    let parts: Vec<&str> = mine.split('.').collect();
    format!("{}.{claims}.{}", parts[0], parts[2])
}

fn asks(bridge: &Bridge, token: &str) -> crate::support::Answer {
    Agent::with_token(bridge, "whoever", token).modern("tools/list", json!({}))
}

#[test]
fn each_token_opens_the_agents_door_or_says_why_not() {
    let bridge = Bridge::shared();
    for (name, token, door) in rows("agent") {
        let answer = asks(bridge, &token);
        let status = match door {
            Opens => 200,
            Unknown => 401,
            Forbidden => 403,
        };
        assert_eq!(answer.status(), status, "{name}: {answer:?}");
        if door == Opens {
            continue;
        }
        let challenge = answer.head.header("www-authenticate").unwrap_or_default();
        let word = if door == Unknown { "invalid_token" } else { "insufficient_scope" };
        assert!(challenge.starts_with("Bearer"), "{name}: {answer:?}");
        assert!(challenge.contains(&format!("error=\"{word}\"")), "{name}: {answer:?}");
        if door == Unknown {
            assert!(challenge.contains("error_description=\""), "{name}: {answer:?}");
        }
        assert!(!challenge.contains("resource_metadata"), "{name}: {answer:?}");
        let error = answer.error();
        assert_eq!(error["code"], -32600, "{name}: {answer:?}");
        assert!(error["message"].as_str().is_some_and(|m| m.len() > 10), "{name}: {answer:?}");
        assert!(answer.response().get("id").is_none(), "{name}: an ID was made up: {answer:?}");
        let echoed = token.len() > 20 && format!("{answer:?}").contains(&token[..20]);
        assert!(!echoed, "{name}: the token is echoed in {answer:?}");
    }
}

#[test]
fn each_token_opens_the_clients_door_or_is_closed_after_the_handshake() {
    let bridge = Bridge::shared();
    for (name, token, door) in rows("client") {
        let mut client = Client::connect_with_token(bridge, name, &token);
        // Written at once, as programs do; a refusal must not turn into a reset because of it.
        client.send(&json!({"type": "register", "tools": []}));
        match (door, client.hears(SOON)) {
            (Opens, Heard::Text(text)) => assert!(text.contains("registered"), "{name}: {text}"),
            (Unknown | Forbidden, first) => {
                let code = if door == Unknown { 4401 } else { 4403 };
                let (came, reason) = match first {
                    Heard::Text(fault) => {
                        let fault: Value = serde_json::from_str(&fault).expect("JSON");
                        assert_eq!(
                            (&fault["type"], &fault["code"]),
                            (&json!("fault"), &json!(code))
                        );
                        client.expects_close()
                    }
                    Heard::Close(code, reason) => (code, reason),
                    other => panic!("{name}: expected {code}, got {other:?}"),
                };
                assert_eq!(came, code, "{name}: {reason}");
                assert!(!reason.is_empty(), "{name}: closed without a word");
            }
            (Opens, other) => panic!("{name}: expected registered, got {other:?}"),
        }
    }
}

#[test]
fn without_a_token_an_agent_is_told_only_that_one_is_needed() {
    let bridge = Bridge::shared();
    let agent = Agent::new(bridge, &unique("none"));
    let request = agent.modern_request("tools/list", json!({}));
    for (name, request) in [
        ("no header", request.clone().without("Authorization")),
        ("another scheme", request.clone().set("Authorization", "Basic YTpi")),
    ] {
        let answer = agent.answer(&request);
        assert_eq!(answer.status(), 401, "{name}: {answer:?}");
        let challenge = answer.head.header("www-authenticate").unwrap_or_default();
        assert!(challenge.starts_with("Bearer"), "{name}: {answer:?}");
        assert!(!challenge.contains("invalid_token"), "{name}: {answer:?}");
        assert_eq!(answer.refusal(), (401, -32600), "{name}");
    }
}

#[test]
fn the_scheme_bearer_may_be_written_in_any_case() {
    let bridge = Bridge::shared();
    let agent = Agent::new(bridge, &unique("case"));
    for scheme in ["bearer", "BEARER", "Bearer"] {
        let value = format!("{scheme} {}", agent.token);
        let request = agent.modern_request("tools/list", json!({})).set("Authorization", &value);
        assert_eq!(agent.answer(&request).status(), 200, "{scheme}");
    }
}

#[test]
fn a_token_is_refused_before_the_body_is_read() {
    let bridge = Bridge::shared();
    let agent = Agent::with_token(bridge, "x", "bad");
    let request = agent.modern_request("tools/list", json!({})).with("Content-Length", "100000");
    let request = Request { body: None, ..request };
    assert_eq!(request.to(bridge).status, 401);
}

#[test]
fn a_token_limited_to_tools_neither_lists_nor_calls_the_others() {
    let bridge = Bridge::shared();
    let id = unique("globs");
    let app = App::described()
        .tool("read_file", |_, _| crate::support::Reply::Text("read".to_owned()))
        .tool("write_file", |_, _| crate::support::Reply::Text("written".to_owned()))
        .tool("stat", |_, _| crate::support::Reply::Text("stat".to_owned()))
        .start(bridge, &id);
    for (globs, allowed) in [
        (json!(["read_*"]), vec!["read_file"]),
        (json!(["*_file"]), vec!["read_file", "write_file"]),
        (json!(["*"]), vec!["read_file", "write_file", "stat"]),
        (json!(["stat", "r*f*e"]), vec!["read_file", "stat"]),
        (json!(["STAT", "read"]), vec![]),
        (json!([]), vec![]),
    ] {
        let token = Token::of(&id, "agent").claim("tools", globs.clone()).mint();
        let agent = Agent::with_token(bridge, &id, &token);
        assert_eq!(agent.lists_tools(), allowed, "{globs}");
        for tool in ["read_file", "write_file", "stat"] {
            let answer = agent.call(tool, json!({}));
            match allowed.contains(&tool) {
                true => assert!(answer.response().get("result").is_some(), "{globs}: {answer:?}"),
                false => {
                    assert_eq!(answer.refusal(), (200, -32602), "{globs} {tool}");
                    let message = answer.error()["message"].clone();
                    assert_eq!(message, format!("Unknown tool: {tool}"), "{globs}");
                }
            }
        }
    }
    let names: Vec<String> = app.calls().iter().map(|call| call.name().to_owned()).collect();
    assert_eq!(names.len(), 8, "calls that reached the client: {names:?}");
}

#[test]
fn tools_that_is_no_array_of_texts_makes_a_token_bad() {
    let bridge = Bridge::shared();
    for tools in [json!("read_*"), json!([1]), json!({})] {
        let token = Token::of(&unique("globs"), "agent").claim("tools", tools.clone()).mint();
        assert_eq!(asks(bridge, &token).status(), 401, "{tools}");
    }
}

#[test]
fn a_client_may_send_its_token_in_authorization() {
    let bridge = Bridge::shared();
    let id = unique("header");
    let bearer = format!("Bearer {}", token(&id, "client"));
    let mut client = Client::connect_to(
        bridge,
        &bridge.target("/connect"),
        &[("Sec-WebSocket-Protocol", "clientmcp.v1"), ("Authorization", &bearer)],
    );
    assert_eq!(client.offers(&["echo"])["clientId"], id.as_str());
}

#[test]
fn a_client_without_a_token_is_closed_4401() {
    let bridge = Bridge::shared();
    let protocol = [("Sec-WebSocket-Protocol", "clientmcp.v1")];
    let mut client = Client::connect_to(bridge, &bridge.target("/connect"), &protocol);
    assert_eq!(client.expects_close().0, 4401);
}

#[test]
fn a_client_that_does_not_offer_the_protocol_is_not_upgraded() {
    let bridge = Bridge::shared();
    let id = unique("protocol");
    let bearer = format!("clientmcp.bearer.{}", token(&id, "client"));
    let request = RawClient::request(bridge, &id).without("Sec-WebSocket-Protocol");
    for (name, request) in [
        ("no protocol at all", request.clone()),
        ("the token alone", request.clone().with("Sec-WebSocket-Protocol", &bearer)),
        ("a later version", request.clone().with("Sec-WebSocket-Protocol", "clientmcp.v2")),
        ("another case", request.clone().with("Sec-WebSocket-Protocol", "ClientMCP.v1")),
    ] {
        let (response, _) = RawClient::shake(bridge, &request);
        assert_eq!(response.status, 400, "{name}: {response:?}");
    }
}

#[test]
fn the_protocol_is_found_in_any_order_and_on_several_lines() {
    let bridge = Bridge::shared();
    let id = unique("order");
    let bearer = format!("clientmcp.bearer.{}", token(&id, "client"));
    let request = RawClient::request(bridge, &id).without("Sec-WebSocket-Protocol");
    for values in [
        vec![format!("{bearer}, clientmcp.v1")],
        vec![format!("other,clientmcp.v1,{bearer}")],
        vec!["clientmcp.v1".to_owned(), bearer.clone()],
    ] {
        let mut request = request.clone();
        for value in &values {
            request = request.with("Sec-WebSocket-Protocol", value);
        }
        let (response, mut client) = RawClient::shake(bridge, &request);
        assert_eq!(response.status, 101, "{values:?}: {response:?}");
        assert_eq!(response.header("sec-websocket-protocol"), Some("clientmcp.v1"), "{response:?}");
        client.send_text(r#"{"type":"register"}"#);
        assert_eq!(client.next_message(SOON)["type"], "registered", "{values:?}");
    }
}

#[test]
fn a_connection_ends_with_its_token_and_the_leeway() {
    let bridge = Bridge::shared();
    let id = unique("expiry");
    let token = Token::of(&id, "client").expires_in(-57).mint();
    let mut client = Client::connect_with_token(bridge, &id, &token);
    client.offers(&["echo"]);
    let start = Instant::now();
    let (code, reason) = client.expects_close();
    assert_eq!((code, reason.as_str()), (4401, "token expired"));
    let time = start.elapsed();
    assert!(time > Duration::from_millis(1500), "closed {time:?} after, before exp + 60 s");
    assert!(time < Duration::from_secs(6), "closed only {time:?} after");
}

#[test]
fn a_fresh_token_outlives_the_first() {
    let bridge = Bridge::shared();
    let id = unique("renewal");
    let first = Token::of(&id, "client").expires_in(-57).mint();
    let mut client = Client::connect_with_token(bridge, &id, &first);
    client.offers(&["echo"]);
    client.send(&json!({"type": "auth", "token": token(&id, "client")}));
    assert_eq!(client.hears(Duration::from_secs(6)), Heard::Quiet);
    client.expects_alive();
}

#[test]
fn a_renewal_that_is_no_good_closes() {
    let bridge = Bridge::shared();
    let id = unique("renewal");
    let good = || Token::of(&id, "client");
    for (name, token, codes) in [
        ("garbage", "garbage".to_owned(), vec![4401]),
        ("expired", good().expires_in(-120).mint(), vec![4401]),
        ("of another secret", good().secret("x".repeat(40)).mint(), vec![4401]),
        ("of another client", token(&unique("other"), "client"), vec![4401]),
        // §4 says 4401 of every bad one, and the table 4403 of what a token may not do: both are
        // honest.
        ("without the scope", token(&id, "agent"), vec![4401, 4403]),
    ] {
        let mut client = Client::connect(bridge, &id);
        client.offers(&["echo"]);
        client.send(&json!({"type": "auth", "token": token}));
        let (code, reason) = client.expects_close();
        assert!(codes.contains(&code), "{name}: closed {code} {reason}");
    }
}

#[test]
fn an_agents_own_connection_serves_again_after_a_refusal() {
    let bridge = Bridge::shared();
    let agent = Agent::new(bridge, &unique("again"));
    let good = agent.modern_request("tools/list", json!({}));
    let mut http = Http::connect(bridge.addr);
    http.send(good.clone().set("Authorization", "Bearer nonsense").bytes());
    let refused = http.read_response();
    assert_eq!(refused.status, 401, "{refused:?}");
    if refused.says_close() {
        return http.expects_end();
    }
    http.send(good.bytes());
    assert_eq!(http.read_response().status, 200);
}
