//! The 2025 era.

use super::*;
use crate::mcp::Changes;
use crate::session::Session;

fn request(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#)
}

/// Requests of this era that end in a fault, asked of a client that offers tools only.
pub(super) fn refusals() -> Vec<Refusal> {
    let bad = |what: &'static str| Fault::BadArgument(what.into());
    let params = |what: &'static str| Fault::InvalidParams(what.into());
    let unknown = |method: &str| Fault::MethodNotFound(method.into());
    let level = "`level` must be one of debug, info, notice, warning, error, critical, alert or \
                 emergency";
    let cursor = "`cursor` must be absent: every list is one page and no cursor was given out";
    let invalid = |what: &'static str| Fault::InvalidRequest(what.into());
    let tool = |name: &str| Fault::UnknownTool(name.into());
    let rows = [
        ("no such method", "tools/frobnicate", "{}", unknown("tools/frobnicate")),
        ("names have a case", "Tools/list", "{}", unknown("Tools/list")),
        ("the empty name", "", "{}", unknown("")),
        ("a method of 2026", "server/discover", "{}", unknown("server/discover")),
        ("another of 2026", "subscriptions/listen", "{}", unknown("subscriptions/listen")),
        ("no prompts offered", "prompts/list", "{}", unknown("prompts/list")),
        ("no resources offered", "resources/list", "{}", unknown("resources/list")),
        ("no templates", "resources/templates/list", "{}", unknown("resources/templates/list")),
        ("no prompts to get", "prompts/get", r#"{"name":"p"}"#, unknown("prompts/get")),
        ("no resources to read", "resources/read", r#"{"uri":"a:b"}"#, unknown("resources/read")),
        ("no completions", "completion/complete", "{}", unknown("completion/complete")),
        (
            "no subscriptions",
            "resources/subscribe",
            r#"{"uri":"a:b"}"#,
            unknown("resources/subscribe"),
        ),
        (
            "no unsubscribing either",
            "resources/unsubscribe",
            r#"{"uri":"a:b"}"#,
            unknown("resources/unsubscribe"),
        ),
        ("a cursor", "tools/list", r#"{"cursor":"1"}"#, bad(cursor)),
        ("an empty cursor", "tools/list", r#"{"cursor":""}"#, bad(cursor)),
        ("no level", "logging/setLevel", "{}", bad(level)),
        ("no such level", "logging/setLevel", r#"{"level":"loud"}"#, bad(level)),
        ("a level that is no string", "logging/setLevel", r#"{"level":1}"#, bad(level)),
        ("no URI", "resources/subscribe", "{}", bad("`uri` must be a string")),
        (
            "a URI of null",
            "resources/unsubscribe",
            r#"{"uri":null}"#,
            bad("`uri` must be a string"),
        ),
        ("no version", "initialize", "{}", bad("`protocolVersion` must be a string")),
        (
            "a version that is no string",
            "initialize",
            r#"{"protocolVersion":2025}"#,
            bad("`protocolVersion` must be a string"),
        ),
        ("no tool", "tools/call", "{}", params("`params.name` must be a string")),
        (
            "a tool of null",
            "tools/call",
            r#"{"name":null}"#,
            params("`params.name` must be a string"),
        ),
        ("an unknown tool", "tools/call", r#"{"name":"sub"}"#, tool("sub")),
        ("a tool's name has a case", "tools/call", r#"{"name":"Add"}"#, tool("Add")),
        ("the empty tool", "tools/call", r#"{"name":""}"#, tool("")),
        ("params of no object", "tools/list", "[]", invalid("`params` must be an object")),
        ("params of null", "tools/call", "null", invalid("`params` must be an object")),
    ];
    rows.into_iter()
        .map(|(name, method, p, fault)| (name, vec![], request(method, p), fault))
        .collect()
}

#[test]
fn a_bad_request_is_refused() {
    let offer = tools_only();
    for (name, fields, body, fault) in refusals() {
        // The version is only looked at to tell the eras apart, and `Mcp-*` not at all.
        for version in mcp::LEGACY.into_iter().map(Some).chain([None]) {
            let mut fields = fields.clone();
            fields.extend(version.map(|version| ("mcp-protocol-version", version)));
            fields.extend([("mcp-method", "x"), ("mcp-name", "y"), ("mcp-param-room", "z")]);
            let end = Ask::new(&fields).of(&offer).end(&body);
            end.is(Era::Legacy, Some("7"), &fault, name);
        }
    }
}

#[test]
fn while_nobody_is_registered_every_method_of_this_era_is_served() {
    let ask = Ask::new(&[]);
    for (method, member) in [
        ("tools/list", "tools"),
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ] {
        for params in ["{}", r#"{"cursor":null}"#] {
            let result = ask.result(&request(method, params));
            assert_eq!(result, serde_json::json!({ member: [] }), "{method}");
        }
    }
    for (method, params) in [
        ("ping", "{}"),
        ("logging/setLevel", r#"{"level":"debug"}"#),
        ("resources/subscribe", r#"{"uri":"a:b"}"#),
        ("resources/unsubscribe", r#"{"uri":"a:b"}"#),
    ] {
        assert_eq!(ask.result(&request(method, params)), serde_json::json!({}), "{method}");
    }
    for (method, params) in [
        ("tools/call", r#"{"name":"whatever"}"#),
        ("prompts/get", r#"{"name":"p"}"#),
        ("resources/read", r#"{"uri":"a:b"}"#),
        ("completion/complete", "{}"),
    ] {
        assert_eq!(ask.call(&request(method, params)).method.name(), method);
    }
}

#[test]
fn initialize_answers_the_version_asked_for_or_the_newest_of_its_era() {
    let rows = [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("2027-01-01", "2025-11-25"),
        ("1.0", "2025-11-25"),
        ("", "2025-11-25"),
    ];
    for (asked, answered) in rows {
        let body = request("initialize", &format!(r#"{{"protocolVersion":"{asked}"}}"#));
        // A session that comes along is stale.
        let ask = Ask::new(&[("mcp-session-id", "stale")]);
        let response = ask.answer(&body);
        let [("Mcp-Session-Id", id)] = response.headers.as_slice() else {
            panic!("{response:?}");
        };
        assert_eq!(Session::read(id).version, answered, "{asked}");
        let result = ask.result(&body);
        assert_eq!(result["protocolVersion"], answered, "{asked}");
        assert_eq!(result["serverInfo"], serde_json::json!({"name":"kitchen","version":"0"}));
        assert!(result.get("resultType").is_none() && result.get("_meta").is_none());
    }
}

#[test]
fn a_session_carries_what_the_agent_declared_to_the_client() {
    let body = request(
        "initialize",
        r#"{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"a"}}"#,
    );
    let minted = Ask::new(&[]).answer(&body).headers.remove(0).1;
    let call = request("tools/call", r#"{"name":"add"}"#);
    let full = r#""clientInfo":{"name":"a"},"capabilities":{"roots":{}}}"#;
    let rows = [
        ("no header at all", vec![], r#"{"protocolVersion":"2025-03-26"}"#.into()),
        (
            "a header alone",
            vec![("mcp-protocol-version", "2025-11-25")],
            r#"{"protocolVersion":"2025-11-25"}"#.into(),
        ),
        (
            "a session alone",
            vec![("mcp-session-id", &minted)],
            format!(r#"{{"protocolVersion":"2025-06-18",{full}"#),
        ),
        (
            "a session and a header, which wins",
            vec![("mcp-session-id", &minted), ("mcp-protocol-version", "2025-11-25")],
            format!(r#"{{"protocolVersion":"2025-11-25",{full}"#),
        ),
        (
            "a session of somebody else",
            vec![("mcp-session-id", "abc")],
            r#"{"protocolVersion":"2025-03-26"}"#.into(),
        ),
        (
            "an empty session is none",
            vec![("mcp-session-id", "")],
            r#"{"protocolVersion":"2025-03-26"}"#.into(),
        ),
    ];
    for (name, fields, agent) in rows {
        let read = Ask::new(&fields).call(&call);
        assert_eq!(&*read.agent, agent, "{name}");
        let session = fields.iter().find(|(n, v)| *n == "mcp-session-id" && !v.is_empty());
        assert_eq!(read.session.as_deref(), session.map(|(_, id)| *id), "{name}");
    }
    // What is no object is not carried.
    let body = request(
        "initialize",
        r#"{"protocolVersion":"2025-06-18","capabilities":[],"clientInfo":"a"}"#,
    );
    let minted = Ask::new(&[]).answer(&body).headers.remove(0).1;
    let session = Session::read(&minted);
    assert_eq!((session.capabilities, session.client_info), (None, None));
}

#[test]
fn a_notification_is_taken_and_only_a_cancel_means_something() {
    let notify = |method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
    };
    let taken = [
        notify("notifications/initialized", "{}"),
        notify("notifications/progress", r#"{"requestId":7}"#),
        notify("tools/call", r#"{"name":"add"}"#),
        notify("notifications/cancelled", "{}"),
        notify("notifications/cancelled", r#"{"requestId":null}"#),
        notify("notifications/cancelled", r#"{"requestId":{}}"#),
    ];
    for body in taken {
        assert_eq!(Ask::new(&[]).answer(&body), Response::empty(202), "{body}");
    }
    for (session, expected) in [(None, None), (Some("s"), Some("s")), (Some(""), None)] {
        for (id, request) in
            [("7", "7"), (r#""\u0037""#, r#""7""#), ("-1", "-1"), (r#""""#, r#""""#)]
        {
            let fields: Vec<_> = session.map(|id| ("mcp-session-id", id)).into_iter().collect();
            let body = notify("notifications/cancelled", &format!(r#"{{"requestId":{id}}}"#));
            match Ask::new(&fields).end(&body) {
                End::Cancel(cancel) => {
                    let session = Some(expected.map(Box::from));
                    assert_eq!(cancel, Cancel { request: request.into(), session });
                }
                other => panic!("{body}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_response_is_handed_to_whoever_waits() {
    let rows = [
        (r#"{"jsonrpc":"2.0","id":"x","result":{"a":1}}"#, Ok(r#"{"a":1}"#)),
        (r#"{"jsonrpc":"2.0","id":"x","error":{"code":1}}"#, Err(r#"{"code":1}"#)),
    ];
    for (body, expected) in rows {
        match Ask::new(&[("mcp-protocol-version", "2025-06-18")]).end(body) {
            End::Deliver(id, result) => {
                assert_eq!(id, r#""x""#);
                assert_eq!(result.as_deref().map_err(String::as_str), expected);
            }
            other => panic!("{body}: {other:?}"),
        }
    }
    let about_nothing = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}"#;
    assert_eq!(Ask::new(&[]).answer(about_nothing), Response::empty(202));
}

#[test]
fn a_batch_belongs_to_2025_03_26_and_to_no_header() {
    let body = format!("[{}]", request("ping", "{}"));
    for fields in [vec![], vec![("mcp-protocol-version", "2025-03-26")]] {
        assert!(matches!(Ask::new(&fields).end(&body), End::Batch(1)), "{fields:?}");
    }
    for version in ["2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28", "2027-01-01", ""] {
        let what = format!("a batch is possible in 2025-03-26 only, not in {version}");
        let end = Ask::new(&[("mcp-protocol-version", version)]).end(&body);
        end.is(Era::Legacy, None, &Fault::InvalidRequest(what.into()), version);
    }
}

#[test]
fn a_batch_has_1_to_100_elements() {
    for (count, fits) in [(0, false), (1, true), (99, true), (100, true), (101, false)] {
        let body = format!("[{}]", vec!["0"; count].join(","));
        let end = Ask::new(&[]).end(&body);
        if fits {
            assert!(matches!(end, End::Batch(n) if n == count), "{count}");
        } else {
            let what = format!("a batch must have 1 to 100 elements, got {count}");
            end.is(Era::Legacy, None, &Fault::InvalidRequest(what.into()), "batch");
        }
    }
}

#[test]
fn an_element_of_a_batch_is_answered_for_itself() {
    let offer = tools_only();
    let ask = Ask::new(&[]).of(&offer);
    let refused = |body: &str, id: Option<&str>, fault: Fault| {
        let expected = Response::json(200, answer::error(id, &fault));
        match ask.ended(ask.element(body), body) {
            End::Answer(response) => assert_eq!(response, expected, "{body}"),
            other => panic!("{body}: {other:?}"),
        }
    };
    let place = "a batch element must be a 2025-era request other than `initialize`";
    let initialize = request("initialize", r#"{"protocolVersion":"2025-03-26"}"#);
    refused(&initialize, Some("7"), Fault::InvalidRequest(place.into()));
    let claim = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
    refused(&request("tools/list", claim), Some("7"), Fault::InvalidRequest(place.into()));
    let object = "a message must be a JSON object";
    for nested in ["[]", "1", "null", "[[]]"] {
        refused(nested, None, Fault::InvalidRequest(object.into()));
    }
    refused(&request("x", "{}"), Some("7"), Fault::MethodNotFound("x".into()));
    let notification = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    match ask.ended(ask.element(notification), notification) {
        End::Answer(response) => assert_eq!(response, Response::empty(202)),
        other => panic!("{other:?}"),
    }
    // The slices of a call point into its element.
    let element = request("tools/call", r#"{"name":"add","arguments":{"a":1}}"#);
    match ask.ended(ask.element(&element), &element) {
        End::Call(call) => {
            assert_eq!(call.params.of(&element), r#"{"name":"add","arguments":{"a":1}}"#);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_get_listens_to_everything_for_its_session() {
    for (fields, session) in [
        (vec![], None),
        (vec![("mcp-session-id", "s")], Some("s")),
        (vec![("mcp-session-id", "")], None),
        (vec![("mcp-protocol-version", "2025-11-25")], None),
    ] {
        let listen = listen_by_get(&Fields::of(&fields));
        let expected = Listen {
            wants: Changes::ALL,
            uris: vec![],
            subscription: None,
            session: session.map(Box::from),
        };
        assert_eq!(listen, expected, "{fields:?}");
    }
}
