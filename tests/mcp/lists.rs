//! What an agent is told a client offers (SPEC §5.1): raw definitions, order, cursors, cache hints,
//! and the limits of a token with `tools`.

use serde_json::{Value, json};

use crate::extra::{ADD, Ask, Desk, register};

/// Definitions that a re-encoding would change.
const ODD: [&str; 3] = [
    r#"{ "name":"z", "inputSchema" : {"type":"object","maximum":1e400,"x":9007199254740993,"a":1,"a":2,"p":"a\/b \ud83d\ude00 \u00e9 é"} , "unknown":[ ] }"#,
    r#"{"inputSchema":{"properties":{"b":{},"a":{}},"type":"object"},"name":"a"}"#,
    r#"{"name":"m","description":"\"quoted\" \\ \u0000","inputSchema":{"\u0074ype":"object","minimum":-0.0,"n":1.0E+2}}"#,
];

const LISTS: [(&str, &str); 4] = [
    ("tools/list", "tools"),
    ("prompts/list", "prompts"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resourceTemplates"),
];

#[test]
fn definitions_reach_the_agent_byte_for_byte_and_in_order() {
    let desk = Desk::open();
    let _client = desk.client(&register(&ODD));
    for ask in [Ask::old("1", "tools/list", "{}"), Ask::new("1", "tools/list", "")] {
        let answer = desk.send(&ask);
        let text = answer.text();
        let at: Vec<Option<usize>> = ODD.iter().map(|d| text.find(d)).collect();
        assert!(at.iter().all(Option::is_some), "missing or changed: {at:?} in {answer}");
        assert!(at.is_sorted(), "registration order, not {at:?}: {answer}");
    }
}

#[test]
fn each_list_has_its_own_definitions() {
    let desk = Desk::open();
    let definitions = [
        r#"{"name":"t","inputSchema":{"type":"object"},"q":1.50}"#,
        r#"{"name":"p","arguments":[{"name":"x"}],"q":1.51}"#,
        r#"{"uri":"u://1","name":"r","q":1.52}"#,
        r#"{"uriTemplate":"u://{x}","name":"s","q":1.53}"#,
    ];
    let [t, p, r, s] = definitions;
    let _client = desk.client(&format!(
        r#"{{"type":"register","tools":[{t}],"prompts":[{p}],"resources":[{r}],"resourceTemplates":[{s}]}}"#
    ));
    for ((method, member), definition) in LISTS.iter().zip(definitions) {
        for ask in [Ask::old("1", method, "{}"), Ask::new("1", method, "")] {
            let answer = desk.send(&ask);
            assert_eq!(answer.status, 200, "{method}: {answer}");
            let list = answer.raw_path(&["result", member]).unwrap_or_default();
            assert_eq!(list, format!("[{definition}]"), "{method}: {answer}");
        }
    }
}

#[test]
fn any_cursor_is_refused() {
    let desk = Desk::open();
    let _client = desk.client(
        r#"{"type":"register","tools":[],"prompts":[],"resources":[],"resourceTemplates":[]}"#,
    );
    for (method, _) in LISTS {
        for cursor in [r#""""#, r#""abc""#] {
            let old = Ask::old("1", method, &format!(r#"{{"cursor":{cursor}}}"#));
            let new = Ask::new("1", method, &format!(r#""cursor":{cursor}"#));
            for ask in [old, new] {
                let answer = desk.send(&ask);
                assert_eq!(answer.code(), Some(-32602), "{method} {cursor}: {answer}");
            }
        }
    }
    for (method, _) in LISTS {
        let answer = desk.send(&Ask::new("1", method, ""));
        assert_eq!(answer.json()["result"].get("nextCursor"), None, "one page: {answer}");
    }
}

#[test]
fn a_2026_list_has_cache_hints_and_an_identity_and_a_2025_list_has_none() {
    let desk = Desk::open();
    let members = r#""tools":[],"prompts":[],"resources":[],"resourceTemplates":[]"#;
    let mut client = desk.client(&format!(r#"{{"type":"register",{members}}}"#));
    for (ttl, server) in [
        (json!(0), json!({"name": desk.id, "version": "0"})),
        (json!(5000), json!({"name":"N","version":"2","title":"T"})),
    ] {
        if ttl != 0 {
            client.offers(&format!(
                r#"{{"type":"register",{members},"ttlMs":5000,"server":{{"name":"N","version":"2","title":"T"}}}}"#
            ));
        }
        for (method, _) in LISTS {
            let answer = desk.send(&Ask::new("1", method, ""));
            let result = &answer.json()["result"];
            assert_eq!(result["resultType"], "complete", "{method}: {answer}");
            assert_eq!(result["ttlMs"], ttl, "{method}: {answer}");
            assert_eq!(result["cacheScope"], "private", "{method}: {answer}");
            let identity = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
            assert_eq!(*identity, server, "{method}: {answer}");

            let answer = desk.send(&Ask::old("1", method, "{}"));
            let result = &answer.json()["result"];
            for member in ["resultType", "ttlMs", "cacheScope", "_meta"] {
                assert_eq!(result.get(member), None, "{method} has no {member}: {answer}");
            }
        }
    }
}

#[test]
fn while_nobody_is_registered_everything_is_advertised_and_empty() {
    let desk = Desk::open();
    for (method, member) in LISTS {
        for ask in [Ask::old("1", method, "{}"), Ask::new("1", method, "")] {
            let answer = desk.send(&ask);
            assert_eq!(answer.json()["result"][member], json!([]), "{method}: {answer}");
        }
    }
    let discover = desk.send(&Ask::new("1", "server/discover", ""));
    let initialize = desk.send(&Ask::old(
        "1",
        "initialize",
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}"#,
    ));
    for answer in [discover, initialize] {
        let capabilities = &answer.json()["result"]["capabilities"];
        for list in ["tools", "prompts", "resources"] {
            assert_eq!(capabilities[list]["listChanged"], true, "{list}: {answer}");
        }
        assert_eq!(capabilities["resources"]["subscribe"], true, "{answer}");
        assert!(capabilities["completions"].is_object(), "{answer}");
        assert!(capabilities["logging"].is_object(), "{answer}");
    }
    let identity = desk.send(&Ask::new("1", "tools/list", "")).json();
    assert_eq!(
        identity["result"]["_meta"]["io.modelcontextprotocol/serverInfo"],
        json!({"name": desk.id, "version": "0"})
    );
}

#[test]
fn a_register_that_leaves_a_list_out_withdraws_it() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    client.offers(r#"{"type":"register","prompts":[{"name":"p"}]}"#);
    let answer = desk.send(&Ask::old("1", "tools/list", "{}"));
    assert_eq!(answer.json()["result"]["tools"], json!([]), "{answer}");
    let answer = desk.send(&Ask::old("1", "tools/call", r#"{"name":"add"}"#));
    assert_eq!((answer.status, answer.code()), (200, Some(-32602)), "{answer}");
}

fn names(answer: &Value) -> Vec<&str> {
    let tools = answer["result"]["tools"].as_array().expect("a list of tools");
    tools.iter().map(|t| t["name"].as_str().expect("a name")).collect()
}

#[test]
fn a_token_with_tools_sees_and_calls_only_those() {
    let desk = Desk::open();
    let all = ["read_a", "write_a", "read_b", "read", "add", "a*b", "x_read_"];
    let tools: Vec<String> = all
        .iter()
        .map(|name| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#))
        .collect();
    let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    let mut client = desk.client(&register(&tools));
    let rows: [(Value, &[&str]); 11] = [
        (json!(["read_*"]), &["read_a", "read_b"]),
        (json!(["*"]), &all),
        (json!([]), &[]),
        (json!(["add", "read_*"]), &["read_a", "read_b", "add"]),
        (json!(["*_a"]), &["read_a", "write_a"]),
        (json!(["*read*"]), &["read_a", "read_b", "read", "x_read_"]),
        (json!(["r*_*b"]), &["read_b"]),
        (json!(["ad"]), &[]),
        (json!(["ADD"]), &[]),
        (json!(["read_?", "re.*"]), &[]),
        (json!(["**a**"]), &["read_a", "write_a", "read_b", "read", "add", "a*b", "x_read_"]),
    ];
    for (globs, expected) in rows {
        let token = desk.agent_token_with("tools", globs.clone());
        for ask in [Ask::old("1", "tools/list", "{}"), Ask::new("1", "tools/list", "")] {
            let answer = desk.send(&ask.bearer(&token));
            assert_eq!(names(&answer.json()), expected, "{globs}: {answer}");
        }
        for name in all {
            let old = Ask::old("1", "tools/call", &format!(r#"{{"name":"{name}"}}"#));
            let new = Ask::new("1", "tools/call", &format!(r#""name":"{name}""#))
                .header("Mcp-Name", name);
            for ask in [old, new] {
                let running = desk.begin(&ask.bearer(&token));
                if expected.contains(&name) {
                    let call = client.call();
                    client.answers(&call.id, r#"{"content":[]}"#);
                    assert_eq!(running.finish().code(), None, "{globs} allows {name}");
                } else {
                    let answer = running.finish();
                    let came = (answer.status, answer.code());
                    assert_eq!(came, (200, Some(-32602)), "{globs} hides {name}: {answer}");
                    assert!(answer.text().contains("Unknown tool"), "{globs} {name}: {answer}");
                }
            }
        }
    }
    client.hears_nothing(0.1);
}

#[test]
fn a_name_spelled_with_escapes_does_not_slip_past_the_globs() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[
        r#"{"name":"s\u0065cret","inputSchema":{"type":"object"}}"#,
        r#"{"name":"open","inputSchema":{"type":"object"}}"#,
    ]));
    let token = desk.agent_token_with("tools", json!(["open"]));
    for spelled in ["secret", r"s\u0065cret", r"\u0073\u0065\u0063\u0072\u0065\u0074"] {
        let ask = Ask::old("1", "tools/call", &format!(r#"{{"name":"{spelled}"}}"#));
        let answer = desk.send(&ask.bearer(&token));
        assert_eq!(answer.code(), Some(-32602), "{spelled}: {answer}");
    }
    let ask = Ask::old("1", "tools/call", r#"{"\u006eame":"secret"}"#);
    assert_eq!(desk.send(&ask.bearer(&token)).code(), Some(-32602));
    client.hears_nothing(0.1);

    // And for a token without limits every spelling is that tool.
    for spelled in ["secret", r"s\u0065cret"] {
        let ask = Ask::old("1", "tools/call", &format!(r#"{{"name":"{spelled}"}}"#));
        let running = desk.begin(&ask);
        let call = client.call();
        client.answers(&call.id, r#"{"content":[]}"#);
        assert_eq!(running.finish().code(), None, "{spelled}");
    }
}
