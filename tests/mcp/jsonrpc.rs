//! JSON-RPC itself (SPEC §5, §5.3): IDs, members named twice, responses, and texts that are no
//! JSON.

use crate::extra::{ADD, Answer, Ask, Desk, register};

const IDS: [&str; 12] = [
    "0",
    "-1",
    "1",
    r#""1""#,
    r#""""#,
    "9007199254740993",
    "123456789012345678901234567890",
    r#""a\u0062\/\"\\é \ud83d\ude00""#,
    r#""{\"id\":7}""#,
    "-9223372036854775809",
    r#""\u0000""#,
    r#""id""#,
];

#[test]
fn ids_come_back_byte_for_byte() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    for id in IDS {
        let local = [
            Ask::old(id, "tools/list", "{}"),
            Ask::old(id, "no/such", "{}"),
            Ask::new(id, "tools/list", ""),
            Ask::new(id, "no/such", ""),
            Ask::new(id, "tools/list", "").without("Mcp-Method"),
            Ask::old(id, "tools/call", r#"{"name":"nobody"}"#),
        ];
        for ask in local {
            let answer = desk.send(&ask);
            assert_eq!(answer.raw("id").as_deref(), Some(id), "{answer}");
        }
        for ask in [
            Ask::old(id, "tools/call", r#"{"name":"add"}"#),
            Ask::new(id, "tools/call", r#""name":"add""#).header("Mcp-Name", "add"),
            Ask::old(id, "tools/call", r#"{"name":"add"}"#).header("Accept", "text/event-stream"),
        ] {
            let running = desk.begin(&ask);
            let call = client.call();
            client.answers(&call.id, r#"{"content":[]}"#);
            let answer = running.finish();
            let message = answer.only_message();
            let came = crate::extra::member(&message, "id");
            assert_eq!(came.as_deref(), Some(id), "forwarded: {answer}");
        }
    }
}

#[test]
fn an_id_may_stand_anywhere_among_blanks() {
    let desk = Desk::open();
    let body = "\r\n { \"params\" : { \"id\" : 5 } , \"method\" :\t\"tools/list\" , \"jsonrpc\":\"2.0\" , \"id\" :\n -7 }\n ";
    let answer = desk.send(&Ask::post(body));
    assert_eq!(answer.raw("id").as_deref(), Some("-7"), "{answer}");
    assert_eq!(answer.code(), None, "{answer}");
}

#[test]
fn ids_of_other_kinds_are_refused() {
    let desk = Desk::open();
    for id in ["null", "1.5", "1.0", "-0.1", "1e-1", "true", "false", "{}", "[]", "[1]"] {
        for ask in [Ask::old(id, "tools/list", "{}"), Ask::new(id, "tools/list", "")] {
            let answer = desk.send(&ask);
            assert_eq!((answer.status, answer.code()), (400, Some(-32600)), "{id}: {answer}");
            assert_eq!(answer.raw("id"), None, "no readable ID, so none comes back: {answer}");
        }
    }
}

fn refused(answer: &Answer, code: i64, what: &str) {
    assert_eq!((answer.status, answer.code()), (400, Some(code)), "{what}: {answer}");
}

#[test]
fn a_member_named_twice_is_refused() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let envelopes = [
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call","params":{"name":"add"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"i\u0064":1,"method":"tools/call","params":{"name":"add"}}"#,
        r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call","params":{"name":"add"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","\u006dethod":"tools/call","params":{"name":"add"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"},"params":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"},"p\u0061rams":{"name":"add"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"},"x":1,"x":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","name":"add"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","n\u0061me":"other"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{},"arguments":{}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","_meta":{},"_meta":{}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","_meta":{},"\u005fmeta":{}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","_meta":{"progressToken":1,"progressToken":2}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","_meta":{"a/b":1,"a\/b":2}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","é":1,"\u00e9":2}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","😀":1,"\ud83d\ude00":2}}"#,
    ];
    for body in envelopes {
        refused(&desk.send(&Ask::post(body)), -32600, body);
    }
    client.hears_nothing(0.1);

    // A claim hidden behind another one must not decide anything.
    let meta = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol\/protocolVersion":"2025-11-25","io.modelcontextprotocol/clientCapabilities":{}"#;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{{{meta}}}}}}}"#
    );
    let ask = Ask::post(&body)
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", "tools/list");
    refused(&desk.send(&ask), -32600, &body);
}

#[test]
fn members_named_twice_deeper_down_are_the_applications_affair() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    for params in [
        r#"{"name":"add","arguments":{"a":1,"a":2}}"#,
        r#"{"name":"add","arguments":{"name":1,"n\u0061me":2}}"#,
        r#"{"name":"add","_meta":{"x":{"y":1,"y":2}}}"#,
        r#"{"name":"add","other":{"y":1,"y":2}}"#,
    ] {
        let running = desk.begin(&Ask::old("1", "tools/call", params));
        let call = client.call();
        assert_eq!(call.params, params);
        client.answers(&call.id, r#"{"content":[],"a":1,"a":2}"#);
        let answer = running.finish();
        assert_eq!(answer.raw("result").as_deref(), Some(r#"{"content":[],"a":1,"a":2}"#));
    }
}

#[test]
fn responses_are_accepted_in_2025_and_refused_in_2026() {
    let desk = Desk::open();
    let bodies = [
        r#"{"jsonrpc":"2.0","id":"nobody-asked","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":0,"result":{"action":"accept"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#,
    ];
    for body in bodies {
        for version in [None, Some("2025-06-18"), Some("2025-11-25")] {
            let mut ask = Ask::post(body);
            if let Some(version) = version {
                ask = ask.header("MCP-Protocol-Version", version);
            }
            let answer = desk.send(&ask);
            assert_eq!(answer.status, 202, "{version:?} {body}: {answer}");
            assert!(answer.body.is_empty(), "{version:?} {body}: {answer}");
        }
        let ask = Ask::post(body).header("MCP-Protocol-Version", "2026-07-28");
        refused(&desk.send(&ask), -32600, body);
    }
}

#[test]
fn what_is_no_json_is_a_parse_error_without_an_id() {
    let desk = Desk::open();
    let whole = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let long_string = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"#, "x".repeat(100_000));
    let rows: Vec<&[u8]> = vec![
        b"",
        b" ",
        b"{",
        b"nul",
        b"hello",
        b"{'jsonrpc':'2.0'}",
        br#"{"jsonrpc":"2.0","id":1,"method":"ping",}"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"ping"}}"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"ping"}x"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"ping"} {"jsonrpc":"2.0","id":2,"method":"ping"}"#,
        br#"{"jsonrpc":"2.0","id":01,"method":"ping"}"#,
        br#"{"jsonrpc":"2.0","id":+1,"method":"ping"}"#,
        br#"{"jsonrpc":"2.0","id":1.,"method":"ping"}"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":Infinity}}"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":.5}}"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":1e}}"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\x41"}}"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\u12g4"}}"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":[1,]}}"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{x:1}}"#,
        br#"{"jsonrpc":"2.0" "id":1,"method":"ping"}"#,
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"x\":\"a\nb\"}}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"x\":\"a\tb\"}}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\0",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"\x0c}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"\xa0}",
        b"[",
        b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},]",
        long_string.as_bytes(),
    ];
    for body in rows {
        for version in [None, Some("2025-11-25"), Some("2026-07-28")] {
            let mut ask = Ask::bytes(body);
            if let Some(version) = version {
                ask = ask.header("MCP-Protocol-Version", version);
            }
            let answer = desk.send(&ask);
            let name = String::from_utf8_lossy(&body[..body.len().min(120)]).into_owned();
            refused(&answer, -32700, &name);
            assert_eq!(answer.raw("id"), None, "{name}: {answer}");
        }
    }
    assert_eq!(desk.send(&Ask::post(whole)).code(), None, "and the next one is served");
}

#[test]
fn invalid_utf8_is_a_parse_error() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let bad: [&[u8]; 10] = [
        b"\xff",
        b"\x80",
        b"\xc3",
        b"\xc0\xaf",
        b"\xe2\x82",
        b"\xed\xa0\x80",
        b"\xf0\x9f\x98",
        b"\xf4\x90\x80\x80",
        b"\xf8\x88\x80\x80\x80",
        b"\xe9",
    ];
    for bytes in bad {
        let mut body =
            br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"x":""#
                .to_vec();
        body.extend_from_slice(bytes);
        body.extend_from_slice(br#""}}}"#);
        let answer = desk.send(&Ask::bytes(&body));
        refused(&answer, -32700, &format!("{bytes:x?}"));
        assert_eq!(answer.raw("id"), None, "{bytes:x?}: {answer}");
    }
    client.hears_nothing(0.1);
}

#[test]
fn json_that_is_no_json_rpc_is_an_invalid_request() {
    let desk = Desk::open();
    for body in [
        "1",
        "null",
        "true",
        r#""ping""#,
        "{}",
        r#"{"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":null,"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":null}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":7}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}"#,
        r#"{"JSONRPC":"2.0","ID":1,"METHOD":"ping"}"#,
        r#"{"jsonrpc":"2.0","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}"#,
    ] {
        refused(&desk.send(&Ask::post(body)), -32600, body);
    }
}

#[test]
fn a_byte_order_mark_is_skipped_or_refused_and_nothing_else() {
    // RFC 8259 §8.1 lets a parser do either; it must not be a crash, a hang, or another code.
    let desk = Desk::open();
    let answer =
        desk.send(&Ask::post("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"));
    match answer.status {
        200 => assert_eq!(answer.raw("id").as_deref(), Some("1"), "{answer}"),
        _ => refused(&answer, -32700, "BOM"),
    }
}

#[test]
fn deep_nesting_passes_to_a_point_and_is_then_a_parse_error() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let nested = |depth: usize| {
        format!(r#"{{"name":"add","arguments":{}1{}}}"#, "[".repeat(depth), "]".repeat(depth))
    };
    for depth in [100, 400] {
        let params = nested(depth);
        let running = desk.begin(&Ask::old("1", "tools/call", &params));
        let call = client.call();
        assert_eq!(call.params, params, "{depth} deep");
        client.answers(&call.id, r#"{"content":[]}"#);
        assert_eq!(running.finish().code(), None, "{depth} deep");
    }
    for depth in [513, 10_000, 600_000] {
        refused(
            &desk.send(&Ask::old("1", "tools/call", &nested(depth))),
            -32700,
            &format!("{depth} deep"),
        );
        let objects = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{}1{}}}"#,
            r#"{"a":"#.repeat(depth),
            "}".repeat(depth)
        );
        refused(&desk.send(&Ask::post(&objects)), -32700, &format!("{depth} objects deep"));
        // Never closed: must not be an endless recursion either.
        refused(&desk.send(&Ask::post(&"[".repeat(depth))), -32700, &format!("{depth} opened"));
    }
    assert_eq!(desk.send(&Ask::old("1", "ping", "{}")).code(), None);
}

#[test]
fn a_call_without_an_id_runs_nothing() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    for body in [
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"add"}}"#,
        r#"{"jsonrpc":"2.0","method":"ping"}"#,
        r#"{"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#,
    ] {
        // JSON-RPC calls this a notification, and notifications are never answered.
        let answer = desk.send(&Ask::post(body));
        assert_eq!(answer.status, 202, "{body}: {answer}");
        assert!(answer.body.is_empty(), "{body}: {answer}");
    }
    client.hears_nothing(0.2);
}
