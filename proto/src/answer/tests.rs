//! What an agent is sent: every fault as an HTTP answer, and a client's result framed for both eras
//! without a byte of it touched.

use alloc::vec;
use alloc::{format, vec::Vec};

use serde_json::{Map, Value};

use super::*;
use crate::json::tests::Random;
use crate::reply::{self, Message};

const INFO: &str = r#"{"name":"kitchen","version":"0"}"#;
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Frames a result as it would be sent; also gives what of it is the client's.
fn frame(era: Era, method: Forwarded, result: &str) -> (String, String) {
    let message = format!(r#"{{"type":"result","id":"c1","result":{result}}}"#);
    let Ok(Message::Result { shape, .. }) = reply::read(&message) else {
        panic!("{message}");
    };
    let pieces = framed(era, "7", method, &shape, INFO);
    let join = |pick: &dyn Fn(&Piece) -> bool| {
        pieces.iter().filter(|piece| pick(piece)).map(|piece| piece.of(&message)).collect()
    };
    (join(&|_| true), join(&|piece| matches!(piece, Piece::Kept(_))))
}

#[test]
fn a_result_of_2026_gets_what_the_client_left_out() {
    use Forwarded::{CallTool, Complete, GetPrompt, ReadResource};
    let info = format!(r#""{SERVER_INFO}":{INFO}"#);
    let both = format!(r#""resultType":"complete","_meta":{{{info}}}"#);
    let all =
        format!(r#""resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{{{info}}}"#);
    let rows = [
        (CallTool, "{}", format!("{{{both}}}")),
        (GetPrompt, "{}", format!("{{{both}}}")),
        (Complete, "{}", format!("{{{both}}}")),
        (ReadResource, "{}", format!("{{{all}}}")),
        (CallTool, "{ }", format!("{{{both} }}")),
        (CallTool, "{\n\t\"a\" : 1\r\n}", format!("{{{both},\n\t\"a\" : 1\r\n}}")),
        (ReadResource, r#"{"contents":[]}"#, format!(r#"{{{all},"contents":[]}}"#)),
        // Each member that is there stays, whatever it is.
        (CallTool, r#"{"resultType":"x"}"#, format!(r#"{{"_meta":{{{info}}},"resultType":"x"}}"#)),
        (
            CallTool,
            r#"{"resultType":null}"#,
            format!(r#"{{"_meta":{{{info}}},"resultType":null}}"#),
        ),
        (
            ReadResource,
            r#"{"ttlMs":5}"#,
            format!(
                r#"{{"resultType":"complete","cacheScope":"private","_meta":{{{info}}},"ttlMs":5}}"#
            ),
        ),
        (
            ReadResource,
            r#"{"cacheScope":"public"}"#,
            format!(
                r#"{{"resultType":"complete","ttlMs":0,"_meta":{{{info}}},"cacheScope":"public"}}"#
            ),
        ),
        // Only resources are cacheable, and only once they are complete.
        (CallTool, r#"{"ttlMs":5}"#, format!(r#"{{{both},"ttlMs":5}}"#)),
        (
            ReadResource,
            r#"{"resultType":"input_required"}"#,
            format!(r#"{{"_meta":{{{info}}},"resultType":"input_required"}}"#),
        ),
        // The identity goes into a `_meta` that is there.
        (CallTool, r#"{"_meta":{}}"#, format!(r#"{{"resultType":"complete","_meta":{{{info}}}}}"#)),
        (
            CallTool,
            "{\"_meta\" : {\n\"k\" : 1 } , \"a\":2}",
            format!(
                "{{\"resultType\":\"complete\",\"_meta\" : {{{info},\n\"k\" : 1 }} , \"a\":2}}"
            ),
        ),
        (
            CallTool,
            r#"{"_m\u0065ta":{ }}"#,
            format!(r#"{{"resultType":"complete","_m\u0065ta":{{{info} }}}}"#),
        ),
        // One that is the client's own is the client's business.
        (
            CallTool,
            r#"{"_meta":{"io.modelcontextprotocol/serverInfo":1}}"#,
            r#"{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":1}}"#.into(),
        ),
        (
            CallTool,
            r#"{"_meta":{"io.modelcontextprotocol\/serverInfo":1}}"#,
            r#"{"resultType":"complete","_meta":{"io.modelcontextprotocol\/serverInfo":1}}"#.into(),
        ),
        // Nothing can be merged into what is no object, and a second `_meta` would hide it.
        (CallTool, r#"{"_meta":null}"#, r#"{"resultType":"complete","_meta":null}"#.into()),
        (CallTool, r#"{"_meta":[1]}"#, r#"{"resultType":"complete","_meta":[1]}"#.into()),
        // Nothing at all to add.
        (
            CallTool,
            r#"{"resultType":"complete","_meta":1}"#,
            r#"{"resultType":"complete","_meta":1}"#.into(),
        ),
        // Of two, the last one counts for most readers.
        (
            CallTool,
            r#"{"_meta":{},"_meta":{"k":1}}"#,
            format!(r#"{{"resultType":"complete","_meta":{{}},"_meta":{{{info},"k":1}}}}"#),
        ),
    ];
    for (method, result, expected) in rows {
        let (text, _) = frame(Era::Modern, method, result);
        assert_eq!(text, format!(r#"{{"jsonrpc":"2.0","id":7,"result":{expected}}}"#), "{result}");
    }
}

#[test]
fn a_result_of_2025_is_passed_on_as_it_came() {
    for method in
        [Forwarded::CallTool, Forwarded::GetPrompt, Forwarded::ReadResource, Forwarded::Complete]
    {
        for result in ["{}", "{ \n}", r#"{"_meta":null,"a":1,"a":2, "é" : 1e400}"#] {
            let (text, kept) = frame(Era::Legacy, method, result);
            assert_eq!(text, format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#));
            assert_eq!(kept, result);
        }
    }
}

/// A JSON object with the members that framing looks at, some of them twice, and white space.
fn object(random: &mut Random, depth: usize) -> String {
    const NAMES: [&str; 9] = [
        "resultType",
        "_meta",
        "ttlMs",
        "cacheScope",
        "content",
        SERVER_INFO,
        "é\\n",
        "inputRequests",
        "r\\u0065sultType",
    ];
    const VALUES: [&str; 9] = [
        "null",
        "0",
        "-1.5",
        "\"complete\"",
        "\"input_required\"",
        "[ ]",
        "{ }",
        "{}",
        "[{\"_meta\":{}}]",
    ];
    const SPACES: [&str; 5] = ["", "", " ", "\n", "\r\n\t"];
    let mut text = String::from("{");
    text.push_str(SPACES[random.below(SPACES.len())]);
    for at in 0..random.below(6) {
        if at > 0 {
            text.push(',');
            text.push_str(SPACES[random.below(SPACES.len())]);
        }
        let name = NAMES[random.below(NAMES.len())];
        let value = match random.below(3) {
            0 if depth < 3 => object(random, depth + 1),
            _ => VALUES[random.below(VALUES.len())].into(),
        };
        let (before, after) =
            (SPACES[random.below(SPACES.len())], SPACES[random.below(SPACES.len())]);
        text.push_str(&format!("\"{name}\"{before}:{after}{value}{before}"));
    }
    text.push('}');
    text
}

#[test]
fn a_framed_result_holds_the_clients_members_and_ours_and_all_of_its_bytes() {
    let mut random = Random(0x2026_0728);
    let mut merged = 0;
    for _ in 0..20_000 {
        let result = object(&mut random, 0);
        let method = [Forwarded::CallTool, Forwarded::ReadResource][random.below(2)];
        let client: Map<String, Value> = serde_json::from_str(&result).expect("an object");
        let info: Value = serde_json::from_str(INFO).expect("an object");

        let mut expected = client.clone();
        let asks = client.get("resultType").and_then(Value::as_str) == Some("input_required");
        expected.entry("resultType").or_insert("complete".into());
        if method == Forwarded::ReadResource && !asks {
            expected.entry("ttlMs").or_insert(0.into());
            expected.entry("cacheScope").or_insert("private".into());
        }
        if let Value::Object(meta) = expected.entry("_meta").or_insert(Map::new().into()) {
            meta.entry(SERVER_INFO).or_insert(info);
            merged += 1;
        }

        let (text, kept) = frame(Era::Modern, method, &result);
        let response: Value = serde_json::from_str(&text).expect(&text);
        assert_eq!(response["id"], 7);
        assert_eq!(response["result"], Value::Object(expected), "{result}\n{text}");
        assert_eq!(kept, result[1..], "{text}");

        let (text, kept) = frame(Era::Legacy, method, &result);
        let response: Value = serde_json::from_str(&text).expect(&text);
        assert_eq!(response["result"], Value::Object(client));
        assert_eq!(kept, result);
    }
    assert!(merged > 1000, "{merged}");
}

#[test]
fn a_clients_error_is_passed_on_as_it_came() {
    let message =
        r#"{"type":"error","id":"c1","error": {"code":-1 ,"message":"m","data":{"a":1}}}"#;
    let Ok(Message::Error { error, .. }) = reply::read(message) else { panic!("{message}") };
    let text: String =
        framed_error("\"a\"", error.error).iter().map(|piece| piece.of(message)).collect();
    let expected =
        r#"{"jsonrpc":"2.0","id":"a","error":{"code":-1 ,"message":"m","data":{"a":1}}}"#;
    assert_eq!(text, expected);
}

#[test]
fn a_clients_error_code_has_a_status_in_2026_only() {
    let rows = [
        (-32601, 404),
        (-32019, 200),
        (-32020, 400),
        (-32021, 400),
        (-32022, 400),
        (-32023, 200),
        (-32600, 200),
        (-32602, 200),
        (-32603, 200),
        (-32700, 200),
        (0, 200),
        (i64::MIN, 200),
        (i64::MAX, 200),
        (32601, 200),
    ];
    for (code, status) in rows {
        assert_eq!(error_status(Era::Modern, code), status, "{code}");
        assert_eq!(error_status(Era::Legacy, code), 200, "{code}");
    }
}

#[test]
fn a_refusal_of_http_names_no_request_and_its_status_brings_its_headers() {
    let rows = [
        (Fault::ParseError("x".into()), true, vec![]),
        (Fault::InvalidRequest("x".into()), true, vec![]),
        (Fault::MethodNotFound("x".into()), true, vec![]),
        (Fault::NotAcceptable("x"), false, vec![]),
        (Fault::TooLarge(1), false, vec![]),
        (Fault::MediaType("x".into()), false, vec![]),
        (Fault::WrongClient, false, vec![]),
        (Fault::ForbiddenOrigin, false, vec![]),
        (Fault::Unauthorized(None), false, vec![("WWW-Authenticate", "Bearer")]),
        (
            Fault::Unauthorized(Some("a \"b\" \\ é\u{7f}\n`c`~".into())),
            false,
            vec![(
                "WWW-Authenticate",
                r#"Bearer error="invalid_token", error_description="a 'b' ' '''`c`~""#,
            )],
        ),
        (
            Fault::InsufficientScope,
            false,
            vec![(
                "WWW-Authenticate",
                r#"Bearer error="insufficient_scope", error_description="the scope `agent` is needed", scope="agent""#,
            )],
        ),
        (Fault::TooManyStreams(1), true, vec![("Retry-After", "5")]),
        (Fault::TooManyConnections, true, vec![("Retry-After", "5")]),
        (Fault::Overloaded, true, vec![("Retry-After", "5")]),
        (Fault::Draining, true, vec![("Retry-After", "2")]),
    ];
    for (fault, has_id, headers) in rows {
        for era in [Era::Legacy, Era::Modern] {
            let response = Response::fault(era, Some("7"), &fault);
            assert_eq!(response.status, fault.status(era));
            assert_eq!(response.content_type, Some("application/json"));
            let body: Value = serde_json::from_str(&response.body).expect(&response.body);
            assert_eq!(body.get("id").is_some(), has_id, "{fault:?}");
            assert_eq!(body["error"]["code"], fault.code());
            assert_eq!(body["error"]["message"], fault.to_string());
            let sent: Vec<(&str, &str)> =
                response.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            assert_eq!(sent, headers, "{fault:?}");
        }
    }
}

#[test]
fn an_error_is_one_json_text_whatever_its_words_hold() {
    let fault = Fault::UnknownTool("\"\\\n\u{1}é".into());
    let expected = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unknown tool: \"\\\n\u0001é"}}"#;
    assert_eq!(error(Some("1"), &fault), expected);
    let fault = Fault::UnsupportedVersion(r#""2027-01-01""#.into());
    let expected = r#"{"jsonrpc":"2.0","error":{"code":-32022,"message":"Unsupported protocol version \"2027-01-01\"; this server supports 2026-07-28","data":{"supported":["2026-07-28"],"requested":"2027-01-01"}}}"#;
    assert_eq!(error(None, &fault), expected);
}

#[test]
fn trouble_is_a_tool_error_for_tools_and_minus_32603_for_the_rest() {
    let words = Trouble::QueueFull.to_string();
    let tool = trouble(Era::Legacy, "1", Forwarded::CallTool, Trouble::QueueFull, INFO);
    let content = format!(r#""content":[{{"type":"text","text":"{words}"}}],"isError":true"#);
    assert_eq!(tool, format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{{content}}}}}"#));
    let tool = trouble(Era::Modern, "1", Forwarded::CallTool, Trouble::QueueFull, INFO);
    let expected =
        format!(r#"{{"resultType":"complete",{content},"_meta":{{"{SERVER_INFO}":{INFO}}}}}"#);
    assert_eq!(tool, format!(r#"{{"jsonrpc":"2.0","id":1,"result":{expected}}}"#));
    for method in [Forwarded::GetPrompt, Forwarded::ReadResource, Forwarded::Complete] {
        for era in [Era::Legacy, Era::Modern] {
            let text = trouble(era, "1", method, Trouble::QueueFull, INFO);
            let expected = format!(
                r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-32603,"message":"{words}"}}}}"#
            );
            assert_eq!(text, expected);
        }
    }
}

#[test]
fn an_acknowledgment_names_what_was_asked_for_and_nothing_else() {
    let wants = |wants, uris: &[&str]| Listen {
        wants,
        uris: uris.iter().map(|uri| String::from(*uri)).collect(),
        subscription: Some("\"s\"".into()),
        session: None,
    };
    let rows = [
        (wants(Changes::NONE, &[]), "{}"),
        (wants(Changes::TOOLS, &[]), r#"{"toolsListChanged":true}"#),
        (
            wants(Changes::ALL, &["a:\"b\"", "c:d"]),
            r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a:\"b\"","c:d"]}"#,
        ),
    ];
    for (listen, expected) in rows {
        let text = acknowledged(&listen);
        let head = r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"s"},"notifications":"#;
        assert_eq!(text, format!("{head}{expected}}}}}"));
    }
    assert_eq!(
        listen_result("\"s\"", INFO),
        format!(
            r#"{{"jsonrpc":"2.0","id":"s","result":{{"resultType":"complete","_meta":{{"io.modelcontextprotocol/subscriptionId":"s","{SERVER_INFO}":{INFO}}}}}}}"#
        )
    );
}

#[test]
fn a_notification_has_params_only_when_it_has_something_to_say() {
    let meta = r#""_meta":{"io.modelcontextprotocol/subscriptionId":7}"#;
    let rows = [
        (None, None, String::new()),
        (Some("7"), None, format!(r#","params":{{{meta}}}"#)),
        (None, Some("a:\"b\""), String::from(r#","params":{"uri":"a:\"b\""}"#)),
        (Some("7"), Some("a:b"), format!(r#","params":{{{meta},"uri":"a:b"}}"#)),
    ];
    for (subscription, uri, params) in rows {
        let expected = format!(r#"{{"jsonrpc":"2.0","method":"n/x"{params}}}"#);
        assert_eq!(notification("n/x", subscription, uri), expected);
    }
}

#[test]
fn plain_answers_have_the_parts_they_name() {
    let empty = Response::empty(202);
    assert_eq!((empty.status, empty.content_type, empty.body.as_str()), (202, None, ""));
    let text = Response::text(404, "not here").with("Allow", "GET");
    assert_eq!(text.content_type, Some("text/plain; charset=utf-8"));
    assert_eq!((text.status, text.body.as_str()), (404, "not here\n"));
    assert_eq!(text.headers, [("Allow", String::from("GET"))]);
}
