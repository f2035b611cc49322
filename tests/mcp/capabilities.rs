//! A method is served only if its capability is advertised, and what is advertised follows the
//! register (SPEC §5.1).

use serde_json::Value;

use crate::extra::{Ask, Desk, INITIALIZE};

/// A register's members, and of `prompts, resources, completions, subscribe` those it brings.
const ROWS: [(&str, &[&str]); 8] = [
    ("", &[]),
    (r#","tools":[]"#, &[]),
    (r#","prompts":[]"#, &["prompts"]),
    (r#","resources":[]"#, &["resources"]),
    (r#","resourceTemplates":[]"#, &["resources"]),
    (r#","completions":true"#, &["completions"]),
    (r#","completions":false,"subscribe":false"#, &[]),
    (
        r#","prompts":[],"resources":[],"completions":true,"subscribe":true"#,
        &["prompts", "resources", "completions", "subscribe"],
    ),
];

#[test]
fn what_is_advertised_follows_the_register() {
    let desk = Desk::open();
    let mut client = desk.client(r#"{"type":"register"}"#);
    for (members, brings) in ROWS {
        client.offers(&format!(r#"{{"type":"register"{members}}}"#));
        let answers =
            [Ask::old("1", "initialize", INITIALIZE), Ask::new("1", "server/discover", "")];
        for answer in answers.iter().map(|ask| desk.send(ask)) {
            let capabilities = &answer.json()["result"]["capabilities"];
            assert_eq!(capabilities["tools"]["listChanged"], true, "{members}: {answer}");
            assert!(capabilities["logging"].is_object(), "{members}: {answer}");
            for list in ["prompts", "resources"] {
                let expected = brings.contains(&list).then_some(Value::Bool(true));
                let came = capabilities.get(list).map(|c| c["listChanged"].clone());
                assert_eq!(came, expected, "{members}: {list}: {answer}");
            }
            let completions = capabilities.get("completions").is_some();
            assert_eq!(completions, brings.contains(&"completions"), "{members}: {answer}");
            let subscribe = capabilities["resources"]["subscribe"] == true;
            assert_eq!(subscribe, brings.contains(&"subscribe"), "{members}: {answer}");
        }
    }
}

#[test]
fn a_method_without_its_capability_is_unknown() {
    let desk = Desk::open();
    let mut client = desk.client(r#"{"type":"register"}"#);
    let methods = [
        ("prompts/list", "", "prompts"),
        ("prompts/get", r#""name":"p""#, "prompts"),
        ("resources/list", "", "resources"),
        ("resources/templates/list", "", "resources"),
        ("resources/read", r#""uri":"u""#, "resources"),
        ("completion/complete", r#""ref":{"type":"ref/prompt","name":"p"}"#, "completions"),
    ];
    for (members, brings) in ROWS {
        client.offers(&format!(r#"{{"type":"register"{members}}}"#));
        for (method, rest, capability) in methods {
            if brings.contains(&capability) {
                continue; // served: other tests say how
            }
            let old = desk.send(&Ask::old("1", method, &format!("{{{rest}}}")));
            let came = (old.status, old.code());
            assert_eq!(came, (200, Some(-32601)), "{members}: {method} in 2025: {old}");
            let new = desk.send(&Ask::new("1", method, rest));
            let came = (new.status, new.code());
            assert_eq!(came, (404, Some(-32601)), "{members}: {method} in 2026: {new}");
        }
        let answer = desk.send(&Ask::old("1", "resources/subscribe", r#"{"uri":"u"}"#));
        let expected = (!brings.contains(&"subscribe")).then_some(-32601);
        assert_eq!(answer.code(), expected, "{members}: resources/subscribe: {answer}");
    }
    client.hears_nothing(0.1);
}

#[test]
fn discover_is_a_cacheable_result_with_identity_and_instructions() {
    let desk = Desk::open();
    let _client = desk.client(
        r#"{"type":"register","server":{"name":"N","version":"1","icons":[]},"instructions":"a\/b","ttlMs":60000}"#,
    );
    let answer = desk.send(&Ask::new("\"d\"", "server/discover", ""));
    let result = &answer.json()["result"];
    assert_eq!(result["resultType"], "complete", "{answer}");
    assert_eq!(result["instructions"], "a/b", "{answer}");
    assert_eq!(result["cacheScope"], "private", "{answer}");
    assert!(result["ttlMs"].is_u64(), "{answer}");
    assert_eq!(
        result["_meta"]["io.modelcontextprotocol/serverInfo"],
        serde_json::json!({"name":"N","version":"1","icons":[]}),
        "{answer}"
    );
    assert_eq!(answer.header("mcp-session-id"), None, "no sessions in this era: {answer}");
}
