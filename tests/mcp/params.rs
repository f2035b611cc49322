//! `Mcp-Param-*` of the 2026 era (SPEC §5.2): a tool's `x-mcp-header` parameters and the headers
//! that must say the same.

use crate::extra::{Ask, Desk, register};

const TOOL: &str = r#"{"name":"t","inputSchema":{"type":"object","properties":{
  "region":{"type":"string","x-mcp-header":"Region"},
  "count":{"type":"integer","x-mcp-header":"Count"},
  "dry":{"type":"boolean","x-mcp-header":"Dry-Run"},
  "deep":{"type":"object","properties":{"er":{"type":"object","properties":{"level":{"type":"integer","x-mcp-header":"Level"}}}}},
  "free":{"type":"string"}}}}"#;

/// Raw arguments, `Mcp-Param-` headers, and whether they agree.
type Row = (&'static str, &'static [(&'static str, &'static str)], bool);

#[test]
fn headers_and_arguments_must_say_the_same() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[TOOL]));
    let mut rows: Vec<Row> = vec![
        ("{}", &[], true),
        (r#"{"free":"x"}"#, &[], true),
        (r#"{"region":"eu"}"#, &[("Region", "eu")], true),
        (r#"{"region":"eu"}"#, &[("region", " eu ")], true),
        (r#"{"region":"eu"}"#, &[], false),
        (r#"{"region":"eu"}"#, &[("Region", "us")], false),
        (r#"{"region":"eu"}"#, &[("Region", "EU")], false),
        (r#"{"region":"eu"}"#, &[("Region", "")], false),
        (r#"{"region":"eu"}"#, &[("Region", "\"eu\"")], false),
        (r#"{"region":"e\u0075"}"#, &[("Region", "eu")], true),
        (r#"{"r\u0065gion":"eu"}"#, &[], false),
        ("{}", &[("Region", "eu")], false),
        (r#"{"region":null}"#, &[("Region", "eu")], false),
        (r#"{"region":null}"#, &[("Region", "null")], false),
        (r#"{"region":null}"#, &[], true),
        (r#"{"region":""}"#, &[("Region", "")], true),
        (r#"{"region":"eu"}"#, &[("Region", "=?base64?ZXU=?=")], true),
        (r#"{"region":"eu"}"#, &[("Region", "=?base64?dXM=?=")], false),
        (r#"{"region":"eu"}"#, &[("Region", "=?base64?ZXU?=")], false),
        (r#"{"region":"eu"}"#, &[("Region", "=?base64?ZX U=?=")], false),
        (r#"{"region":"eu"}"#, &[("Region", "=?base64?ZXU==?=")], false),
        (r#"{"region":"eu"}"#, &[("Region", "=?base64?%%%%?=")], false),
        (r#"{"region":"eu"}"#, &[("Region", "=?Base64?ZXU=?=")], false),
        (r#"{"region":"Hello, 世界"}"#, &[("Region", "=?base64?SGVsbG8sIOS4lueVjA==?=")], true),
        (r#"{"region":" padded "}"#, &[("Region", "=?base64?IHBhZGRlZCA=?=")], true),
        (r#"{"region":" padded "}"#, &[("Region", " padded ")], false),
        (r#"{"region":"line1\nline2"}"#, &[("Region", "=?base64?bGluZTEKbGluZTI=?=")], true),
        (
            r#"{"region":"=?base64?literal?="}"#,
            &[("Region", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=")],
            true,
        ),
        (r#"{"region":"=?base64?literal?="}"#, &[("Region", "=?base64?literal?=")], false),
        (r#"{"region":"=?base64?ZXU=?="}"#, &[("Region", "=?base64?ZXU=?=")], false),
        (r#"{"count":42}"#, &[("Count", "42")], true),
        (r#"{"count":42}"#, &[("Count", "42.0")], true),
        (r#"{"count":42.0}"#, &[("Count", "42")], true),
        (r#"{"count":-7}"#, &[("Count", "-7")], true),
        (r#"{"count":0}"#, &[("Count", "0")], true),
        (r#"{"count":42}"#, &[("Count", "43")], false),
        (r#"{"count":42}"#, &[("Count", "42.5")], false),
        (r#"{"count":42}"#, &[("Count", "forty-two")], false),
        (r#"{"count":42}"#, &[("Count", "0x2A")], false),
        (r#"{"count":42}"#, &[("Count", "42 ,42")], false),
        (r#"{"count":42}"#, &[], false),
        (r#"{"count":9007199254740991}"#, &[("Count", "9007199254740991")], true),
        (r#"{"count":9007199254740991}"#, &[("Count", "9007199254740990")], false),
        (r#"{"count":42}"#, &[("Count", "=?base64?NDI=?=")], true),
        (r#"{"dry":true}"#, &[("Dry-Run", "true")], true),
        (r#"{"dry":false}"#, &[("dry-run", "false")], true),
        (r#"{"dry":true}"#, &[("Dry-Run", "false")], false),
        (r#"{"dry":true}"#, &[("Dry-Run", "True")], false),
        (r#"{"dry":true}"#, &[("Dry-Run", "1")], false),
        (r#"{"dry":false}"#, &[], false),
        (r#"{"deep":{"er":{"level":3}}}"#, &[("Level", "3")], true),
        (r#"{"deep":{"er":{"level":3}}}"#, &[("Level", "4")], false),
        (r#"{"deep":{"er":{"level":3}}}"#, &[], false),
        (r#"{"deep":{"er":{}}}"#, &[], true),
        (r#"{"deep":{"er":{}}}"#, &[("Level", "3")], false),
        (r#"{"deep":{"level":3}}"#, &[], true),
        (r#"{"level":3}"#, &[], true),
        (r#"{"level":3}"#, &[("Level", "3")], false),
        (r#"{"deep":7}"#, &[], true),
        (r#"{"free":"x"}"#, &[("Free", "y"), ("Other", "z")], true),
        (
            r#"{"region":"eu","count":1,"dry":true,"deep":{"er":{"level":-1}}}"#,
            &[("Region", "eu"), ("Count", "1"), ("Dry-Run", "true"), ("Level", "-1")],
            true,
        ),
        (
            r#"{"region":"eu","count":1,"dry":true,"deep":{"er":{"level":-1}}}"#,
            &[("Region", "eu"), ("Count", "1"), ("Dry-Run", "true"), ("Level", "-2")],
            false,
        ),
    ];
    // Two lines of one header are joined by a comma and so say something else.
    rows.push((r#"{"region":"eu"}"#, &[("Region", "eu"), ("Region", "eu")], false));
    for (arguments, headers, good) in rows {
        let mut ask = Ask::call_new("1", "t", arguments);
        for (name, value) in headers {
            ask = ask.also(&format!("Mcp-Param-{name}"), value);
        }
        let running = desk.begin(&ask);
        if good {
            let call = client.call();
            client.answers(&call.id, r#"{"content":[]}"#);
            let answer = running.finish();
            let came = (answer.status, answer.code());
            assert_eq!(came, (200, None), "{arguments} {headers:?}: {answer}");
        } else {
            let answer = running.finish();
            let came = (answer.status, answer.code());
            assert_eq!(came, (400, Some(-32020)), "{arguments} {headers:?}: {answer}");
        }
    }
    client.hears_nothing(0.1);
}

#[test]
fn a_call_without_arguments_has_no_parameters_to_mirror() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[TOOL]));
    let ask = Ask::new("1", "tools/call", r#""name":"t""#).header("Mcp-Name", "t");
    let answer = desk.send(&ask.clone().header("Mcp-Param-Region", "eu"));
    assert_eq!((answer.status, answer.code()), (400, Some(-32020)), "{answer}");
    let running = desk.begin(&ask);
    let call = client.call();
    client.answers(&call.id, r#"{"content":[]}"#);
    assert_eq!(running.finish().code(), None);
}

#[test]
fn arguments_named_twice_are_refused_for_a_tool_with_mirrored_parameters() {
    let desk = Desk::open();
    let mut client =
        desk.client(&register(&[TOOL, r#"{"name":"plain","inputSchema":{"type":"object"}}"#]));
    for arguments in [
        r#"{"region":"eu","region":"us"}"#,
        r#"{"region":"eu","r\u0065gion":"us"}"#,
        r#"{"free":1,"free":2,"region":"eu"}"#,
    ] {
        let ask = Ask::call_new("1", "t", arguments).header("Mcp-Param-Region", "eu");
        // The 2025 era has no such headers, but what reads them there may be in between all the same.
        for ask in [ask, Ask::call_old("1", "t", arguments)] {
            let answer = desk.send(&ask);
            let refusal = (answer.status, answer.code());
            assert_eq!(refusal, (400, Some(-32600)), "{ask:?}: {answer}");
            assert_eq!(answer.raw("id").as_deref(), Some("1"), "{ask:?}: {answer}");
        }
    }
    client.hears_nothing(0.1);
    let twice = r#"{"a":1,"a":2}"#;
    for (ask, why) in [
        (Ask::call_new("1", "plain", twice), "another tool's arguments are its own affair"),
        (Ask::call_old("1", "plain", twice), "another tool's arguments are its own affair"),
        (Ask::call_old("1", "t", r#"{"free":{"x":1,"x":2}}"#), "no mirrored one is that deep"),
    ] {
        let running = desk.begin(&ask);
        let call = client.call();
        client.answers(&call.id, r#"{"content":[]}"#);
        assert_eq!(running.finish().code(), None, "{why}");
    }
}

#[test]
fn mirrored_parameters_follow_the_last_register() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[TOOL]));
    let ask = Ask::call_new("1", "t", r#"{"region":"eu"}"#);
    assert_eq!(desk.send(&ask).code(), Some(-32020));
    client.offers(&register(&[r#"{"name":"t","inputSchema":{"type":"object"}}"#]));
    let running = desk.begin(&ask.header("Mcp-Param-Region", "something else"));
    let call = client.call();
    client.answers(&call.id, r#"{"content":[]}"#);
    assert_eq!(running.finish().code(), None, "no longer a recognised header");
}
