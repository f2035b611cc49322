//! Which era a request belongs to (SPEC §5.2): combinations of body, `_meta` and header, and what
//! becomes of each. Whether a good answer is of the 2026 era is read from its `resultType`.

use crate::extra::{ADD, Answer, Ask, Desk, register};

#[derive(Debug, PartialEq, Clone, Copy)]
enum Outcome {
    Old,
    New,
    Accepted,
    Refused(u16, i64),
}

fn outcome(answer: &Answer) -> Outcome {
    match (answer.status, answer.code()) {
        (202, _) => Outcome::Accepted,
        (status, Some(code)) => Outcome::Refused(status, code),
        (200, None) if answer.json()["result"]["resultType"] == "complete" => Outcome::New,
        (200, None) if answer.json()["result"].is_object() => Outcome::Old,
        _ => panic!("neither a result nor an error: {answer}"),
    }
}

fn claim(version: &str) -> String {
    format!(
        r#""_meta":{{"io.modelcontextprotocol/protocolVersion":{version},"io.modelcontextprotocol/clientCapabilities":{{}}}}"#
    )
}

/// A request with these parameters and this version header, if any, and nothing else of either era.
fn ask(method: &str, params: &str, header: Option<&str>) -> Ask {
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}}}}}"#);
    let ask = Ask::post(&body).header("Mcp-Method", method);
    match header {
        Some(version) => ask.header("MCP-Protocol-Version", version),
        None => ask,
    }
}

#[test]
fn claim_and_header_decide_the_era() {
    use Outcome::*;
    let desk = Desk::open();
    let _client = desk.client(&register(&[ADD]));
    let init = |asks: &str| {
        format!(
            r#""protocolVersion":"{asks}","capabilities":{{}},"clientInfo":{{"name":"t","version":"1"}}"#
        )
    };
    let new = "2026-07-28";
    let rows: Vec<(&str, Ask, Outcome)> = vec![
        ("both say 2026", ask("tools/list", &claim(r#""2026-07-28""#), Some(new)), New),
        (
            "a session ID is ignored in 2026",
            ask("tools/list", &claim(r#""2026-07-28""#), Some(new)).header("Mcp-Session-Id", "old"),
            New,
        ),
        (
            "a claim without the header",
            ask("tools/list", &claim(r#""2026-07-28""#), None),
            Refused(400, -32020),
        ),
        (
            "a claim with a 2025 header",
            ask("tools/list", &claim(r#""2026-07-28""#), Some("2025-11-25")),
            Refused(400, -32020),
        ),
        (
            "a 2025 claim is no 2025 request",
            ask("tools/list", &claim(r#""2025-11-25""#), Some("2025-11-25")),
            Refused(400, -32022),
        ),
        (
            "an unknown claim",
            ask("tools/list", &claim(r#""2099-01-01""#), Some("2099-01-01")),
            Refused(400, -32022),
        ),
        (
            "an empty claim with a 2026 header",
            ask("tools/list", &claim(r#""""#), Some(new)),
            Refused(400, -32020),
        ),
        ("a numeric claim", ask("tools/list", &claim("20260728"), Some(new)), Refused(400, -32602)),
        ("a null claim", ask("tools/list", &claim("null"), Some(new)), Refused(400, -32602)),
        (
            "a null claim with a 2025 header",
            ask("tools/list", &claim("null"), Some("2025-11-25")),
            Refused(400, -32602),
        ),
        (
            "a claim under an escaped name",
            ask(
                "tools/list",
                r#""\u005fmeta":{"io.modelcontextprotocol\/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#,
                Some(new),
            ),
            New,
        ),
        ("no claim, a 2026 header", ask("tools/list", "", Some(new)), Refused(400, -32602)),
        (
            "no claim, an unknown header",
            ask("tools/list", "", Some("2099-01-01")),
            Refused(400, -32022),
        ),
        ("no claim, no header", ask("tools/list", "", None), Old),
        ("2024-11-05", ask("tools/list", "", Some("2024-11-05")), Old),
        ("2025-03-26", ask("tools/list", "", Some("2025-03-26")), Old),
        ("2025-06-18", ask("tools/list", "", Some("2025-06-18")), Old),
        ("2025-11-25", ask("tools/list", "", Some("2025-11-25")), Old),
        (
            "a `_meta` without a claim",
            ask("tools/list", r#""_meta":{"progressToken":0}"#, Some("2025-11-25")),
            Old,
        ),
        (
            "a claim outside `_meta`",
            ask("tools/list", r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#, None),
            Old,
        ),
        ("initialize is 2025", ask("initialize", &init("2025-11-25"), None), Old),
        (
            "initialize that asks for 2026 is 2025 (rmcp)",
            ask("initialize", &init("2026-07-28"), None),
            Old,
        ),
        (
            "initialize with a 2025 header is 2025",
            ask("initialize", &init("2025-11-25"), Some("2025-11-25")),
            Old,
        ),
        (
            "initialize with a claim is 2026 and unknown there",
            ask("initialize", &claim(r#""2026-07-28""#), Some(new)),
            Refused(404, -32601),
        ),
        (
            "initialize with a 2026 header and no claim",
            ask("initialize", &init("2025-11-25"), Some(new)),
            Refused(400, -32602),
        ),
        (
            "discover without a claim is an unknown 2025 method",
            ask("server/discover", "", None),
            Refused(200, -32601),
        ),
        (
            "discover with a 2025 header",
            ask("server/discover", "", Some("2025-11-25")),
            Refused(200, -32601),
        ),
    ];
    for (name, ask, expected) in rows {
        let answer = desk.send(&ask);
        assert_eq!(outcome(&answer), expected, "{name}: {answer}");
        assert!(
            answer.status == 202 || answer.raw("id").as_deref() == Some("1"),
            "{name}: the ID was readable, so it comes back: {answer}"
        );
    }
}

#[test]
fn a_notification_is_accepted_whatever_era_it_claims() {
    let desk = Desk::open();
    let bare = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let claimed = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":7,{}}}}}"#,
        claim(r#""2026-07-28""#)
    );
    let rows = [
        ("no header", bare, None),
        ("2025 header", bare, Some("2025-11-25")),
        ("2026 header", bare, Some("2026-07-28")),
        ("unknown header", bare, Some("2099-01-01")),
        ("2026 claim", &claimed, Some("2026-07-28")),
    ];
    for (name, body, header) in rows {
        let mut ask = Ask::post(body);
        if let Some(version) = header {
            ask = ask.header("MCP-Protocol-Version", version);
        }
        let answer = desk.send(&ask);
        assert_eq!(answer.status, 202, "{name}: {answer}");
        assert!(answer.body.is_empty(), "{name}: a 202 has no body: {answer}");
    }
}

#[test]
fn get_and_delete_are_2025_whatever_their_header() {
    let desk = Desk::open();
    for version in ["2025-11-25", "2026-07-28"] {
        let get = Ask::get().header("MCP-Protocol-Version", version);
        let mut stream = desk.begin(&get);
        assert_eq!(stream.status(), 200, "GET with {version}: {:?}", stream.head());
        let delete = Ask::delete()
            .header("MCP-Protocol-Version", version)
            .header("Mcp-Session-Id", "some-session");
        let answer = desk.send(&delete);
        assert_eq!(answer.status, 204, "DELETE with {version}: {answer}");
    }
}

#[test]
fn every_listed_version_is_served_and_every_other_refused_with_the_same_list() {
    let desk = Desk::open();
    let answer = desk.send(&Ask::new("1", "server/discover", ""));
    let listed = answer.json()["result"]["supportedVersions"].clone();
    assert_eq!(listed, serde_json::json!(["2026-07-28"]), "2026-era versions only: {answer}");

    for asked in ["2025-11-25", "2024-11-05", "2099-12-31", "DRAFT-2026-v1", "2026-07-28 "] {
        let ask = ask("server/discover", &claim(&format!("\"{asked}\"")), Some(asked.trim()));
        let answer = desk.send(&ask);
        // With a blank at its end the claim differs from the header, whose blanks are trimmed.
        let code = if asked.ends_with(' ') { -32020 } else { -32022 };
        assert_eq!((answer.status, answer.code()), (400, Some(code)), "{asked:?}: {answer}");
        if code == -32022 {
            let data = &answer.json()["error"]["data"];
            assert_eq!(data["supported"], listed, "{asked:?}: {answer}");
            assert_eq!(data["requested"], asked, "{asked:?}: {answer}");
        }
    }

    // The header alone names the version, so it is what was requested.
    let answer = desk.send(&ask("server/discover", "", Some("2099-01-01")));
    let data = &answer.json()["error"]["data"];
    assert_eq!(data["supported"], listed, "{answer}");
    assert_eq!(data["requested"], "2099-01-01", "{answer}");
}

#[test]
fn methods_of_2025_are_unknown_in_2026() {
    let desk = Desk::open();
    let _client = desk.client(r#"{"type":"register","tools":[],"resources":[],"subscribe":true}"#);
    let removed = [
        ("initialize", r#""protocolVersion":"2026-07-28","capabilities":{}"#),
        ("ping", ""),
        ("logging/setLevel", r#""level":"info""#),
        ("resources/subscribe", r#""uri":"a://b""#),
        ("resources/unsubscribe", r#""uri":"a://b""#),
        ("tools/lists", ""),
        ("Tools/List", ""),
    ];
    for (method, rest) in removed {
        let answer = desk.send(&Ask::new("\"r\"", method, rest));
        assert_eq!((answer.status, answer.code()), (404, Some(-32601)), "{method:?}: {answer}");
        assert_eq!(answer.raw("id").as_deref(), Some("\"r\""), "{method:?}: {answer}");
    }
}

#[test]
fn methods_of_2026_are_unknown_in_2025() {
    let desk = Desk::open();
    for method in ["server/discover", "subscriptions/listen", "tools/lists", "Ping"] {
        let answer = desk.send(&Ask::old("5", method, "{}"));
        assert_eq!((answer.status, answer.code()), (200, Some(-32601)), "{method}: {answer}");
    }
}
