//! What the bridge answers from an offer: capabilities, lists, and what a token may see of them.

use serde_json::json;

use super::*;

fn legacy(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#)
}

fn modern(method: &str) -> String {
    legacy(
        method,
        r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}"#,
    )
}

fn modern_ask<'a>(method: &str, offer: Option<&'a Offer>) -> Ask<'a> {
    let fields = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    Ask { offer, ..Ask::new(&fields) }
}

#[test]
fn the_capabilities_are_those_of_the_register_in_both_eras() {
    let full = json!({
        "tools": {"listChanged": true}, "logging": {}, "prompts": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true}, "completions": {},
    });
    let always = json!({"tools": {"listChanged": true}, "logging": {}});
    let with = |name: &str, value: Value| {
        let mut capabilities = always.clone();
        capabilities[name] = value;
        capabilities
    };
    let resources = json!({"listChanged": true});
    let rows = [
        (r#""tools":[]"#, always.clone()),
        (r#""prompts":[]"#, with("prompts", json!({"listChanged": true}))),
        (r#""resources":[]"#, with("resources", resources.clone())),
        (r#""resourceTemplates":[]"#, with("resources", resources)),
        (
            r#""resources":[],"subscribe":true"#,
            with("resources", json!({"listChanged": true, "subscribe": true})),
        ),
        // Nothing can be subscribed where there are no resources.
        (r#""subscribe":true"#, always.clone()),
        (r#""completions":true"#, with("completions", json!({}))),
        (r#""completions":false,"subscribe":false"#, always.clone()),
    ];
    let check = |offer: Option<&Offer>, expected: &Value, name: &str| {
        let body = legacy("initialize", r#"{"protocolVersion":"2025-11-25"}"#);
        let ask = Ask { offer, ..Ask::new(&[]) };
        assert_eq!(ask.result(&body)["capabilities"], *expected, "{name}");
        let ask = modern_ask("server/discover", offer);
        let found = &ask.result(&modern("server/discover"))["capabilities"];
        assert_eq!(found, expected, "{name}");
    };
    for (members, expected) in rows {
        check(Some(&offered(members)), &expected, members);
    }
    check(Some(&everything()), &full, "everything");
    // Agents that came before the client ask only once.
    check(None, &full, "nobody");
}

#[test]
fn discover_names_versions_of_its_own_era_only() {
    let offer = everything();
    let result = modern_ask("server/discover", Some(&offer)).result(&modern("server/discover"));
    let meta = json!({"io.modelcontextprotocol/serverInfo": {"name": "App", "version": "4"}});
    assert_eq!(result["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(result["instructions"], "Be nice");
    assert_eq!(result["_meta"], meta);
    assert_eq!(result["resultType"], "complete");
    // What the lists may be kept for says nothing about the capabilities.
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));
    let result = modern_ask("server/discover", None).result(&modern("server/discover"));
    let meta = json!({"io.modelcontextprotocol/serverInfo": {"name": "kitchen", "version": "0"}});
    assert_eq!((result.get("instructions"), &result["_meta"]), (None, &meta));
}

#[test]
fn initialize_speaks_for_the_application() {
    let offer = everything();
    let body = legacy("initialize", r#"{"protocolVersion":"2025-11-25"}"#);
    let result = Ask::new(&[]).of(&offer).result(&body);
    assert_eq!(result["serverInfo"], json!({"name": "App", "version": "4"}));
    assert_eq!(result["instructions"], "Be nice");
}

#[test]
fn every_list_is_one_page_as_it_was_registered() {
    let offer = everything();
    let rows = [
        ("tools/list", "tools", json!([{"name": "add", "inputSchema": {"type": "object"}}])),
        ("prompts/list", "prompts", json!([{"name": "p"}])),
        ("resources/list", "resources", json!([{"uri": "a:b", "name": "r"}])),
        (
            "resources/templates/list",
            "resourceTemplates",
            json!([{"uriTemplate": "a:{x}", "name": "t"}]),
        ),
    ];
    for (method, member, expected) in rows {
        let result = Ask::new(&[]).of(&offer).result(&legacy(method, "{}"));
        assert_eq!(result, json!({ member: expected }), "{method}");
        let result = modern_ask(method, Some(&offer)).result(&modern(method));
        let meta = json!({"io.modelcontextprotocol/serverInfo": {"name": "App", "version": "4"}});
        let expected = json!({
            "resultType": "complete", member: expected, "ttlMs": 60000, "cacheScope": "private",
            "_meta": meta,
        });
        assert_eq!(result, expected, "{method}");
    }
    // Either of the two lists makes resources be there, and the other one empty.
    let offer = offered(r#""resourceTemplates":[{"uriTemplate":"a:{x}"}]"#);
    let result = Ask::new(&[]).of(&offer).result(&legacy("resources/list", "{}"));
    assert_eq!(result, json!({"resources": []}));
}

#[test]
fn definitions_are_handed_out_byte_for_byte() {
    let tool = "{ \"name\":\"a\\u0064d\",\n\"inputSchema\" : {\"type\":\"object\"}, \"x\":1e400 }";
    let offer = offered(&format!(r#""tools":[ {tool} , {}]"#, tool.replace("\\u0064d", "dd2")));
    let response = Ask::new(&[]).of(&offer).answer(&legacy("tools/list", "{}"));
    let second = tool.replace("\\u0064d", "dd2");
    let expected = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"tools":[{tool},{second}]}}}}"#);
    assert_eq!(response.body, expected);
}

#[test]
fn a_limited_token_sees_and_calls_only_its_tools() {
    let tool = |name: &str| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#);
    let tools = [tool("read_a"), tool("read_b"), tool("write")].join(",");
    let offer = offered(&format!(r#""tools":[{tools}]"#));
    let rows: [(Option<&[&str]>, &[&str]); 5] = [
        (None, &["read_a", "read_b", "write"]),
        (Some(&["read_*"]), &["read_a", "read_b"]),
        (Some(&["write", "nope"]), &["write"]),
        (Some(&["*"]), &["read_a", "read_b", "write"]),
        (Some(&[]), &[]),
    ];
    for (patterns, seen) in rows {
        let ask = Ask { claims: claims(patterns), offer: Some(&offer), ..Ask::new(&[]) };
        let result = ask.result(&legacy("tools/list", "{}"));
        let listed: Vec<&str> = result["tools"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|t| t["name"].as_str())
            .collect();
        assert_eq!(listed, seen, "{patterns:?}");
        for name in ["read_a", "read_b", "write"] {
            let body = legacy("tools/call", &format!(r#"{{"name":"{name}"}}"#));
            let end = ask.end(&body);
            if seen.contains(&name) {
                assert!(matches!(end, End::Call(_)), "{patterns:?} {name}");
            } else {
                // In the words for a tool that is not there: the token may not know the difference.
                end.is(Era::Legacy, Some("7"), &Fault::UnknownTool(name.into()), name);
            }
        }
        // Also before anybody is registered.
        let ask = Ask { claims: claims(patterns), ..Ask::new(&[]) };
        let end = ask.end(&legacy("tools/call", r#"{"name":"read_a"}"#));
        assert_eq!(matches!(end, End::Call(_)), seen.contains(&"read_a"), "{patterns:?}");
        // Prompts are not tools.
        let end = ask.end(&legacy("prompts/get", r#"{"name":"p"}"#));
        assert!(matches!(end, End::Call(_)));
    }
}

#[test]
fn only_three_questions_leave_something_to_remember() {
    let rows = [
        ("ping", "{}", None),
        ("tools/list", "{}", None),
        ("initialize", r#"{"protocolVersion":"2025-11-25"}"#, None),
        ("logging/setLevel", r#"{"level":"error"}"#, Some(Memory::Level(mcp::LogLevel::Error))),
        ("resources/subscribe", r#"{"uri":"a:\u0062"}"#, Some(Memory::Subscribe("a:b".into()))),
        ("resources/unsubscribe", r#"{"uri":"a:b"}"#, Some(Memory::Unsubscribe("a:b".into()))),
    ];
    for (method, params, memory) in rows {
        let body = legacy(method, params);
        let ask = Ask::new(&[("mcp-session-id", "s")]);
        let Decision::Ask(question) = ask.decide(&body) else { panic!("{method}") };
        assert_eq!(question.memory(), memory, "{method}");
        assert_eq!(question.session.as_deref(), Some("s"));
        let fault = Fault::Failed(Trouble::Stopping);
        assert_eq!(question.refuse(&fault), Response::fault(Era::Legacy, Some("7"), &fault));
    }
}
