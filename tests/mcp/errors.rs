//! What an agent gets when a call goes wrong (SPEC §5.3): the client's own errors with their
//! statuses, unknown tools, clients that are away or go.

use std::time::{Duration, Instant};

use crate::extra::{ADD, Ask, Desk, register};

#[test]
fn a_clients_error_keeps_its_code_and_has_a_status_in_2026() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let rows = [
        (-32601, 404),
        (-32020, 400),
        (-32021, 400),
        (-32022, 400),
        (-32602, 200),
        (-32603, 200),
        (-32600, 200),
        (-32700, 200),
        (-32019, 200),
        (-32023, 200),
        (-32000, 200),
        (0, 200),
        (1, 200),
        (404, 200),
        (-2147483648, 200),
    ];
    for (code, status) in rows {
        let error = format!(r#"{{"code":{code},"message":"m {code}","data":{{"n":{code}}}}}"#);
        for (ask, status) in [
            (Ask::old("\"e\"", "tools/call", r#"{"name":"add"}"#), 200),
            (Ask::call_new("\"e\"", "add", "{}"), status),
        ] {
            let running = desk.begin(&ask);
            let call = client.call();
            client.fails(&call.id, &error);
            let answer = running.finish();
            assert_eq!((answer.status, answer.code()), (status, Some(code)), "{answer}");
            let json = answer.json();
            assert_eq!(json["error"]["message"], format!("m {code}"), "{answer}");
            assert_eq!(json["error"]["data"]["n"], code, "{answer}");
            assert_eq!(json["id"], "e", "{answer}");
            assert_eq!(json["jsonrpc"], "2.0", "{answer}");
        }
    }
}

#[test]
fn an_unknown_tool_is_invalid_params_over_200() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    for name in ["nope", "Add", "add ", "", "ad\u{64}\u{301}"] {
        let header = format!("=?base64?{}?=", data_encoding::BASE64.encode(name.as_bytes()));
        for ask in [
            Ask::old("1", "tools/call", &format!(r#"{{"name":"{name}"}}"#)),
            Ask::new("1", "tools/call", &format!(r#""name":"{name}""#)).header("Mcp-Name", &header),
        ] {
            let answer = desk.send(&ask);
            let came = (answer.status, answer.code());
            assert_eq!(came, (200, Some(-32602)), "{name:?}: {answer}");
            let message = answer.json()["error"]["message"].to_string();
            assert!(message.contains("Unknown tool: "), "{name:?}: {answer}");
        }
    }
    client.hears_nothing(0.1);
}

#[test]
fn a_call_without_a_name_is_refused_and_not_forwarded() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    for params in ["{}", r#"{"name":1}"#, r#"{"name":null}"#, r#"{"arguments":{}}"#] {
        let answer = desk.send(&Ask::old("1", "tools/call", params));
        assert_eq!(answer.code(), Some(-32602), "{params}: {answer}");
    }
    let answer = desk.send(&Ask::post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#));
    assert_eq!(answer.code(), Some(-32602), "no params: {answer}");
    client.hears_nothing(0.1);
}

#[test]
fn the_other_forwarded_methods_reach_the_client() {
    let desk = Desk::open();
    let mut client = desk.client(
        r#"{"type":"register","completions":true,"prompts":[{"name":"p"}],"resources":[{"uri":"u://1","name":"r"}],"resourceTemplates":[{"uriTemplate":"t://{x}","name":"t"}]}"#,
    );
    let rows = [
        ("prompts/get", r#"{"name":"p","arguments":{"a":"1"}}"#, r#"{"messages":[]}"#),
        ("resources/read", r#"{"uri":"u://1"}"#, r#"{"contents":[]}"#),
        ("resources/read", r#"{"uri":"t://anything"}"#, r#"{"contents":[]}"#),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}"#,
            r#"{"completion":{"values":[]}}"#,
        ),
    ];
    for (method, params, result) in rows {
        let running = desk.begin(&Ask::old("1", method, params));
        let call = client.call();
        assert_eq!((&*call.method, &*call.params), (method, params));
        client.answers(&call.id, result);
        let answer = running.finish();
        assert_eq!(answer.raw("result").as_deref(), Some(result), "{method}: {answer}");
    }
}

#[test]
fn a_client_that_goes_ends_its_calls_at_once_and_says_they_may_have_run() {
    for orderly in [true, false] {
        let desk = Desk::open();
        let mut client = desk
            .client(r#"{"type":"register","tools":[{"name":"add","inputSchema":{"type":"object"}}],"prompts":[{"name":"p"}]}"#);
        let asks = [
            Ask::old("1", "tools/call", r#"{"name":"add"}"#),
            Ask::call_new("2", "add", "{}"),
            Ask::old("3", "prompts/get", r#"{"name":"p"}"#),
        ];
        let running = asks.map(|ask| {
            let running = desk.begin(&ask);
            client.call();
            running
        });
        let left = Instant::now();
        if orderly {
            client.leaves();
        } else {
            client.vanishes();
        }
        for (at, running) in running.into_iter().enumerate() {
            let answer = running.finish();
            let message = answer.only_json();
            if at < 2 {
                assert_eq!(message["result"]["isError"], true, "{answer}");
                let words = message["result"]["content"][0]["text"].to_string();
                assert!(words.contains("may have run"), "{words}");
            } else {
                assert_eq!(message["error"]["code"], -32603, "{answer}");
                let words = message["error"]["message"].to_string();
                assert!(words.contains("may have run"), "{words}");
            }
        }
        let waited = left.elapsed();
        assert!(waited < Duration::from_millis(1500), "at once, not after {waited:?}");
    }
}

#[test]
fn a_call_right_after_the_client_left_waits_for_it_to_come_back() {
    let desk = Desk::open();
    let client = desk.client(&register(&[ADD]));
    client.leaves();
    let asked = Instant::now();
    let running = desk.begin(&Ask::old("1", "tools/call", r#"{"name":"add","q":1}"#));
    std::thread::sleep(Duration::from_millis(1200));
    let mut client = desk.client(&register(&[ADD]));
    let call = client.call();
    assert_eq!(call.params, r#"{"name":"add","q":1}"#);
    client.answers(&call.id, r#"{"content":[],"n":1}"#);
    let answer = running.finish();
    assert_eq!(answer.only_json()["result"]["n"], 1, "{answer}");
    assert!(asked.elapsed() < Duration::from_secs(4), "{answer}");
    client.hears_nothing(0.2);
}

#[test]
fn a_wait_that_ends_in_an_unknown_tool_says_so_as_a_json_rpc_error() {
    let desk = Desk::open();
    desk.client(&register(&[ADD])).leaves();
    let running = desk.begin(&Ask::call_new("1", "add", "{}"));
    std::thread::sleep(Duration::from_millis(1300));
    let mut client = desk.client(&register(&[]));
    let answer = running.finish();
    assert_eq!(answer.status, 200, "{answer}");
    assert_eq!(answer.only_json()["error"]["code"], -32602, "{answer}");
    client.hears_nothing(0.2);
}
