//! The 2026 era.

use super::*;
use crate::mcp::{Changes, Forwarded, LogLevel};

const META: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;

/// A request with the usual `_meta` and more members of `params`.
fn request(method: &str, more: &str) -> String {
    with_meta(method, META, more)
}

fn with_meta(method: &str, meta: &str, more: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{"_meta":{{{meta}}}{more}}}}}"#
    )
}

fn fields<'a>(method: &'a str, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut fields = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    fields.extend(more);
    fields
}

/// Requests of this era that end in a fault, asked of a client that offers tools only.
pub(super) fn refusals() -> Vec<Refusal> {
    let params = |what: &str| Fault::InvalidParams(String::from(what).into());
    let mismatch = |what: &str| Fault::HeaderMismatch(what.into());
    let unsupported = |raw: &str| Fault::UnsupportedVersion(raw.into());
    let unknown = |method: &str| Fault::MethodNotFound(method.into());
    let version = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    let level = "io.modelcontextprotocol/logLevel";
    let list = || request("tools/list", "");
    let meta = |meta: &str| with_meta("tools/list", meta, "");
    let of = |method: &'static str, more: &[(&'static str, &'static str)]| fields(method, more);
    let good = || of("tools/list", &[]);
    let light = |arguments: &str| {
        request("tools/call", &format!(r#","name":"light","arguments":{arguments}"#))
    };
    let param = |more: &[(&'static str, &'static str)]| {
        let mut fields = of("tools/call", &[("mcp-name", "light")]);
        fields.extend(more);
        fields
    };
    let listen =
        |filter: &str| request("subscriptions/listen", &format!(r#","notifications":{filter}"#));
    let names = LogLevel::NAMES;
    let cursor = "`cursor` must be absent: every list is one page and no cursor was given out";
    let boolean = "a member of `notifications` must be true or false";
    let strings = "`resourceSubscriptions` must be an array of at most 256 strings";
    let level_words = format!("`{level}` must be one of {names}");
    vec![
        // 1: the claim.
        (
            "no _meta",
            good(),
            list().replace(META, ""),
            params(&format!("`_meta` must carry `{version}`")),
        ),
        (
            "no params",
            good(),
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#.into(),
            params(&format!("`_meta` must carry `{version}`")),
        ),
        (
            "a claim of null",
            good(),
            list().replace(r#""2026-07-28""#, "null"),
            params(&format!("`{version}` must be a string")),
        ),
        (
            "a claim that is a number",
            good(),
            list().replace(r#""2026-07-28""#, "2026"),
            params(&format!("`{version}` must be a string")),
        ),
        (
            "an unknown version in the header alone",
            vec![("mcp-protocol-version", "2027-01-01")],
            list().replace(META, ""),
            unsupported(r#""2027-01-01""#),
        ),
        (
            "a header of nothing alone",
            vec![("mcp-protocol-version", "")],
            list().replace(META, ""),
            unsupported(r#""""#),
        ),
        (
            "quotes in the version",
            vec![("mcp-protocol-version", r#"a"\b"#)],
            list().replace(META, ""),
            unsupported(r#""a\"\\b""#),
        ),
        // 2: its header.
        (
            "no version header",
            vec![("mcp-method", "tools/list")],
            list(),
            mismatch("the header MCP-Protocol-Version is missing; expected '2026-07-28'"),
        ),
        (
            "another version header",
            vec![("mcp-protocol-version", "2025-11-25")],
            list(),
            mismatch(
                "MCP-Protocol-Version header value '2025-11-25' does not match body value '2026-07-28'",
            ),
        ),
        (
            "the version header twice",
            vec![("mcp-protocol-version", "2026-07-28"), ("mcp-protocol-version", "2026-07-28")],
            list(),
            mismatch(
                "MCP-Protocol-Version header value '2026-07-28, 2026-07-28' does not match body value '2026-07-28'",
            ),
        ),
        // 3: its support.
        (
            "a version of the future",
            vec![("mcp-protocol-version", "2027-01-01")],
            list().replace("2026-07-28", "2027-01-01"),
            unsupported(r#""2027-01-01""#),
        ),
        (
            "a version of 2025",
            vec![("mcp-protocol-version", "2025-11-25")],
            list().replace("2026-07-28", "2025-11-25"),
            unsupported(r#""2025-11-25""#),
        ),
        (
            "the empty version",
            vec![("mcp-protocol-version", "")],
            list().replace("2026-07-28", ""),
            unsupported(r#""""#),
        ),
        // 4: the rest of `_meta`.
        (
            "no capabilities",
            good(),
            meta(&format!(r#""{version}":"2026-07-28""#)),
            params(&format!("`{capabilities}` must be an object")),
        ),
        (
            "capabilities of null",
            good(),
            list().replace("{}", "null"),
            params(&format!("`{capabilities}` must be an object")),
        ),
        (
            "capabilities of an array",
            good(),
            list().replace("{}", "[]"),
            params(&format!("`{capabilities}` must be an object")),
        ),
        (
            "an unknown level",
            good(),
            meta(&format!(r#"{META},"{level}":"loud""#)),
            params(&level_words),
        ),
        (
            "a level of null",
            good(),
            meta(&format!(r#"{META},"{level}":null"#)),
            params(&level_words),
        ),
        // 5: the method's header.
        (
            "no method header",
            vec![("mcp-protocol-version", "2026-07-28")],
            list(),
            mismatch("the header Mcp-Method is missing; expected 'tools/list'"),
        ),
        (
            "another method header",
            of("tools/call", &[]),
            list(),
            mismatch("Mcp-Method header value 'tools/call' does not match body value 'tools/list'"),
        ),
        (
            "a method header of another case",
            of("Tools/list", &[]),
            list(),
            mismatch("Mcp-Method header value 'Tools/list' does not match body value 'tools/list'"),
        ),
        // 6: the method.
        ("no such method", of("tools/x", &[]), request("tools/x", ""), unknown("tools/x")),
        (
            "initialize is unknown here",
            of("initialize", &[]),
            request("initialize", r#","protocolVersion":"2025-11-25""#),
            unknown("initialize"),
        ),
        ("ping was removed", of("ping", &[]), request("ping", ""), unknown("ping")),
        (
            "setLevel was removed",
            of("logging/setLevel", &[]),
            request("logging/setLevel", r#","level":"info""#),
            unknown("logging/setLevel"),
        ),
        (
            "subscribe was removed",
            of("resources/subscribe", &[]),
            request("resources/subscribe", r#","uri":"a:b""#),
            unknown("resources/subscribe"),
        ),
        (
            "unsubscribe was removed",
            of("resources/unsubscribe", &[]),
            request("resources/unsubscribe", r#","uri":"a:b""#),
            unknown("resources/unsubscribe"),
        ),
        (
            "prompts are not offered",
            of("prompts/list", &[]),
            request("prompts/list", ""),
            unknown("prompts/list"),
        ),
        (
            "nor to be got",
            of("prompts/get", &[("mcp-name", "p")]),
            request("prompts/get", r#","name":"p""#),
            unknown("prompts/get"),
        ),
        (
            "nor completed",
            of("completion/complete", &[]),
            request("completion/complete", ""),
            unknown("completion/complete"),
        ),
        // 7: the name.
        (
            "no name in the body",
            of("tools/call", &[]),
            request("tools/call", ""),
            params("`params.name` must be a string"),
        ),
        (
            "no name header",
            of("tools/call", &[]),
            request("tools/call", r#","name":"add""#),
            mismatch(r#"Mcp-Name is missing; the body says "add""#),
        ),
        (
            "another name header",
            of("tools/call", &[("mcp-name", "sub")]),
            request("tools/call", r#","name":"add""#),
            mismatch(r#"Mcp-Name says "sub", the body says "add""#),
        ),
        (
            "a name header of another case",
            of("tools/call", &[("mcp-name", "Add")]),
            request("tools/call", r#","name":"add""#),
            mismatch(r#"Mcp-Name says "Add", the body says "add""#),
        ),
        (
            "a name header of bad Base64",
            of("tools/call", &[("mcp-name", "=?base64?YWRk=?=")]),
            request("tools/call", r#","name":"add""#),
            mismatch("Mcp-Name is not valid Base64"),
        ),
        // 8: the tool.
        (
            "an unknown tool",
            of("tools/call", &[("mcp-name", "sub")]),
            request("tools/call", r#","name":"sub""#),
            Fault::UnknownTool("sub".into()),
        ),
        // 9: the parameters.
        (
            "no parameter header",
            param(&[]),
            light(r#"{"room":"hall"}"#),
            mismatch("Mcp-Param-Room is missing; the argument room is given"),
        ),
        (
            "another parameter header",
            param(&[("mcp-param-room", "bath")]),
            light(r#"{"room":"hall"}"#),
            mismatch(r#"Mcp-Param-Room says "bath", the argument room is "hall""#),
        ),
        (
            "a header without its argument",
            param(&[("mcp-param-room", "hall")]),
            light("{}"),
            mismatch("Mcp-Param-Room is given; the argument room is not"),
        ),
        (
            "a header for null",
            param(&[("mcp-param-room", "hall")]),
            light(r#"{"room":null}"#),
            mismatch("Mcp-Param-Room is given; the argument room is not"),
        ),
        (
            "a header twice",
            param(&[("mcp-param-room", "hall"), ("mcp-param-room", "hall")]),
            light(r#"{"room":"hall"}"#),
            mismatch(r#"Mcp-Param-Room says "hall, hall", the argument room is "hall""#),
        ),
        (
            "arguments with a member twice",
            param(&[("mcp-param-room", "hall")]),
            light(r#"{"room":"hall","x":1,"x":2}"#),
            Fault::InvalidRequest("`arguments` has `x` twice".into()),
        ),
        // What belongs to one method.
        (
            "a cursor",
            good(),
            request("tools/list", r#","cursor":"1""#),
            Fault::BadArgument(cursor.into()),
        ),
        (
            "no filter",
            of("subscriptions/listen", &[]),
            request("subscriptions/listen", ""),
            params("`notifications` is missing"),
        ),
        (
            "a filter of null",
            of("subscriptions/listen", &[]),
            listen("null"),
            params("`notifications` must be an object"),
        ),
        (
            "a kind of no boolean",
            of("subscriptions/listen", &[]),
            listen(r#"{"toolsListChanged":1}"#),
            params(boolean),
        ),
        (
            "a kind of null",
            of("subscriptions/listen", &[]),
            listen(r#"{"promptsListChanged":null}"#),
            params(boolean),
        ),
        (
            "URIs of no array",
            of("subscriptions/listen", &[]),
            listen(r#"{"resourceSubscriptions":"a:b"}"#),
            params(strings),
        ),
        (
            "a URI of no string",
            of("subscriptions/listen", &[]),
            listen(r#"{"resourceSubscriptions":["a:b",1]}"#),
            params(strings),
        ),
        // Asked with an `Accept` of JSON only, see below.
        (
            "a stream nobody would read",
            of("subscriptions/listen", &[("accept", "application/json")]),
            listen("{}"),
            Fault::NotAcceptable("text/event-stream"),
        ),
        (
            "a member twice",
            good(),
            request("tools/list", r#","_meta":{}"#),
            Fault::InvalidRequest("params has `_meta` twice".into()),
        ),
    ]
}

#[test]
fn a_bad_request_is_refused() {
    let offer = tools_only();
    for (name, fields, body, fault) in refusals() {
        let mut ask = Ask::new(&fields).of(&offer);
        ask.accept = Accept::parse(ask.head.field("accept").as_deref());
        ask.end(&body).is(Era::Modern, Some("7"), &fault, name);
    }
}

/// The nine checks of SPEC, Checks on a request of the 2026 era; every set of violations at once.
#[test]
fn of_any_violations_the_first_one_is_named() {
    let offer = tools_only();
    let expected = [
        (400, -32602, "protocolVersion` must be a string"),
        (400, -32020, "MCP-Protocol-Version"),
        (400, -32022, "Unsupported protocol version"),
        (400, -32602, "clientCapabilities"),
        (400, -32020, "Mcp-Method"),
        (404, -32601, "Method not found"),
        (400, -32020, "Mcp-Name"),
        (200, -32602, "Unknown tool"),
        (400, -32020, "Mcp-Param-Room"),
    ];
    // A violation has several forms; which one is taken changes with the round.
    for round in 0..4 {
        for set in 0..1u32 << expected.len() {
            let broken = |check: u32| set >> (check - 1) & 1 == 1;
            let version =
                if broken(3) { ["2027-01-01", "2025-11-25"][round % 2] } else { "2026-07-28" };
            let claim = match (broken(1), round % 2) {
                (true, 0) => "null".into(),
                (true, _) => "[2026]".into(),
                (false, _) => format!("\"{version}\""),
            };
            let capabilities = match (broken(4), round) {
                (false, _) => r#","io.modelcontextprotocol/clientCapabilities":{}"#,
                (true, 0 | 2) => "",
                (true, _) => r#","io.modelcontextprotocol/clientCapabilities":"x""#,
            };
            let method = match (broken(6), round) {
                (false, _) => "tools/call",
                (true, 0 | 1) => "prompts/get",
                (true, 2) => "tools/x",
                (true, _) => "initialize",
            };
            let tool = if broken(8) { "nope" } else { "light" };
            let meta =
                format!(r#""io.modelcontextprotocol/protocolVersion":{claim}{capabilities}"#);
            let more = format!(r#","name":"{tool}","arguments":{{"room":"hall"}}"#);
            let body = with_meta(method, &meta, &more);
            let mut fields = vec![];
            // Without a violation, with a wrong value, or without the header.
            let mut put = |check: u32, name, good, wrong| match (broken(check), round % 2) {
                (false, _) => fields.push((name, good)),
                (true, 0) => fields.push((name, wrong)),
                (true, _) => {}
            };
            put(2, "mcp-protocol-version", version, "2026-07-2");
            put(5, "mcp-method", method, "tools/list");
            put(7, "mcp-name", tool, "add");
            put(9, "mcp-param-room", "hall", "bath");
            let end = Ask::new(&fields).of(&offer).end(&body);
            let Some(first) = (1..=expected.len() as u32).find(|check| broken(*check)) else {
                assert!(matches!(end, End::Call(_)), "{body}: {end:?}");
                continue;
            };
            let (status, code, words) = expected[first as usize - 1];
            let End::Answer(response) = end else { panic!("{set:09b}: {end:?}") };
            let error: Value = serde_json::from_str(&response.body).expect(&response.body);
            let message = error["error"]["message"].as_str().unwrap_or_default();
            let seen = (response.status, error["error"]["code"].as_i64());
            assert_eq!(seen, (status, Some(code)), "{set:09b} {round}: {response:?}");
            assert!(message.contains(words), "{set:09b} {round}: {message}");
        }
    }
}

/// The name is compared before the tool is looked up, also when it is the token that hides the tool.
#[test]
fn a_tool_that_the_token_hides_is_unknown_only_after_its_name_was_compared() {
    let body = request("tools/call", r#","name":"add""#);
    let offer = tools_only();
    let mismatch = Fault::HeaderMismatch(r#"Mcp-Name says "sub", the body says "add""#.into());
    for (name, fault) in [("sub", mismatch), ("add", Fault::UnknownTool("add".into()))] {
        let ask = Ask::new(&fields("tools/call", &[("mcp-name", name)])).of(&offer);
        let ask = Ask { claims: claims(Some(&["light"])), ..ask };
        ask.end(&body).is(Era::Modern, Some("7"), &fault, name);
    }
}

#[test]
fn a_request_with_a_legacy_method_or_session_is_still_of_this_era() {
    let offer = tools_only();
    let fields = fields("tools/list", &[("mcp-session-id", "s"), ("accept", "x")]);
    let result = Ask::new(&fields).of(&offer).result(&request("tools/list", ""));
    assert_eq!(result["resultType"], "complete");
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&0.into(), &"private".into()));
}

#[test]
fn what_a_good_call_takes_along() {
    let offer = tools_only();
    let level = r#","io.modelcontextprotocol/logLevel":"warning","progressToken":"p\"","io.modelcontextprotocol/clientInfo":{"name":"a"}"#;
    let meta = format!("{META}{level}");
    let body = with_meta(
        "tools/call",
        &meta,
        r#","name":"l\u0069ght","arguments":{"room":"Küche","level":40.0}"#,
    );
    let more = [
        ("mcp-name", "light"),
        ("mcp-param-room", "=?base64?S8O8Y2hl?="),
        ("mcp-param-level", "40"),
        ("mcp-param-else", "ignored"),
        ("mcp-session-id", "ignored"),
    ];
    let call = Ask::new(&fields("tools/call", &more)).of(&offer).call(&body);
    assert_eq!((call.era, call.method, &*call.id), (Era::Modern, Forwarded::CallTool, "7"));
    assert_eq!(call.name.as_deref(), Some("light"));
    assert_eq!(call.log_level, Some(LogLevel::Warning));
    assert_eq!(call.progress_token.as_deref(), Some(r#""p\"""#));
    assert_eq!(call.session, None);
    assert_eq!(
        &*call.agent,
        r#"{"protocolVersion":"2026-07-28","clientInfo":{"name":"a"},"capabilities":{}}"#
    );
    assert!(call.params.of(&body).starts_with(r#"{"_meta":"#));
}

#[test]
fn a_name_may_be_wrapped_and_is_compared_as_what_it_means() {
    let offer = everything();
    let rows = [
        ("prompts/get", "name", "p", "p"),
        ("prompts/get", "name", "p", " p\t"),
        ("prompts/get", "name", "é", "=?base64?w6k=?="),
        ("resources/read", "uri", "a:b", "a:b"),
        ("resources/read", "uri", "a:b", "=?base64?YTpi?="),
        ("resources/read", "uri", "", ""),
    ];
    for (method, member, name, header) in rows {
        let body = request(method, &format!(r#","{member}":"{name}""#));
        let call = Ask::new(&fields(method, &[("mcp-name", header)])).of(&offer).call(&body);
        assert_eq!(call.name.as_deref(), Some(name));
    }
    // Nothing is mirrored by a completion, so whatever stands there does not matter.
    for header in ["x", "=?base64?!?="] {
        let fields = fields("completion/complete", &[("mcp-name", header)]);
        let body = request("completion/complete", r#","name":"y""#);
        assert_eq!(Ask::new(&fields).of(&offer).call(&body).name, None);
    }
}

#[test]
fn a_notification_is_taken_without_a_look_at_its_headers() {
    let notify = |method: &str, more: &str| {
        format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"_meta":{{{META}}}{more}}}}}"#)
    };
    for fields in [vec![], vec![("mcp-protocol-version", "2027-01-01"), ("mcp-method", "x")]] {
        let ask = Ask::new(&fields);
        for body in [notify("notifications/x", ""), notify("notifications/cancelled", "")] {
            assert_eq!(ask.answer(&body), Response::empty(202));
        }
        // Of any session: in this era none is named.
        match ask.end(&notify("notifications/cancelled", r#","requestId":"a""#)) {
            End::Cancel(cancel) => {
                assert_eq!(cancel, Cancel { request: r#""a""#.into(), session: None });
            }
            other => panic!("{other:?}"),
        }
    }
    // The header alone makes it one of this era too.
    let plain = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    let fields = [("mcp-protocol-version", "2026-07-28"), ("mcp-session-id", "s")];
    match Ask::new(&fields).end(plain) {
        End::Cancel(cancel) => assert_eq!(cancel.session, None),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_response_has_no_place_in_this_era() {
    let what = "a response has no place in 2026-07-28: requests to agents travel in results";
    let fault = Fault::InvalidRequest(what.into());
    for (body, id) in [
        (r#"{"jsonrpc":"2.0","id":"x","result":{}}"#, Some(r#""x""#)),
        (r#"{"jsonrpc":"2.0","id":1,"error":{}}"#, Some("1")),
        (r#"{"jsonrpc":"2.0","error":{}}"#, None),
    ] {
        for version in ["2026-07-28", "2027-01-01"] {
            let end = Ask::new(&[("mcp-protocol-version", version)]).end(body);
            end.is(Era::Modern, id, &fault, body);
        }
    }
}

#[test]
fn a_listen_hears_exactly_what_it_asked_for() {
    let rows = [
        ("{}", Changes::NONE, vec![]),
        (r#"{"toolsListChanged":true}"#, Changes::TOOLS, vec![]),
        (r#"{"toolsListChanged":false,"promptsListChanged":true}"#, Changes::PROMPTS, vec![]),
        (
            r#"{"resourcesListChanged":true,"resourceSubscriptions":["a:b","\u0063:d"],"x":5}"#,
            Changes::RESOURCES,
            vec!["a:b", "c:d"],
        ),
        (r#"{"resourceSubscriptions":[]}"#, Changes::NONE, vec![]),
    ];
    // Whether the client offers any of it or not: it may come to.
    let (nothing, all) = (tools_only(), everything());
    for (filter, wants, uris) in rows {
        for offer in [&nothing, &all] {
            let fields = fields("subscriptions/listen", &[]);
            let body = request("subscriptions/listen", &format!(r#","notifications":{filter}"#));
            let ask = Ask::new(&fields).of(offer);
            let End::Listen(listen) = ask.end(&body) else { panic!("{filter}") };
            assert_eq!(
                (listen.wants, &listen.uris),
                (wants, &uris.iter().map(|u| String::from(*u)).collect())
            );
            assert_eq!((listen.subscription.as_deref(), listen.session), (Some("7"), None));
        }
    }
}
