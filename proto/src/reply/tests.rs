//! What a client sends: tables of what is taken and what is refused, and every message whole, cut
//! short and with something behind it.

use alloc::format;
use alloc::string::String;

use super::*;
use crate::limits::JSON_DEPTH_MAX;

/// What a text was read as, in one line.
fn seen(text: &str) -> String {
    match read(text) {
        Ok(Message::Ping) => "ping".into(),
        Ok(Message::Register) => "register".into(),
        Ok(Message::Auth { token }) => format!("auth {token}"),
        Ok(Message::Result { id, shape }) => format!("result {id} {}", shape.result.of(text)),
        Ok(Message::Error { id, error }) => {
            format!("error {id} {} {}", error.code, error.error.of(text))
        }
        Ok(Message::Notify { method, params, id }) => {
            let params = params.map_or("-", |span| span.of(text));
            format!("notify {method} {params} {}", id.as_deref().unwrap_or("-"))
        }
        Err(Close::BadMessage { path, message }) => {
            format!("{}: {message}", path.as_deref().unwrap_or("-"))
        }
        Err(other) => panic!("{text}: {other:?}"),
    }
}

fn shape_of(result: &str) -> (String, Shape) {
    let text = format!(r#" {{"id":"c1", "result": {result} ,"type":"result"}}"#);
    match read(&text) {
        Ok(Message::Result { shape, .. }) => (text, shape),
        other => panic!("{text}: {other:?}"),
    }
}

const GOOD: &[(&str, &str)] = &[
    (r#"{"type":"ping"}"#, "ping"),
    (r#"{"type":"p\u0069ng","id":5,"x":[{}]}"#, "ping"),
    (r#"{"type":"register","tools":"whatever"}"#, "register"),
    (r#"{"type":"auth","token":"a\u002eb"}"#, "auth a.b"),
    (
        " {\"type\" : \"result\",\n\"id\":\"c7\", \"result\" : { \"a\" : 1 } } ",
        "result c7 { \"a\" : 1 }",
    ),
    (r#"{"result":{},"id":"\u0063\u0031","type":"result"}"#, "result c1 {}"),
    (r#"{"type":"result","id":"é","result":{"é":"é"},"error":5}"#, r#"result é {"é":"é"}"#),
    (
        r#"{"type":"error","id":"c1","error":{"code":-32601,"message":"m","data":[1]}}"#,
        r#"error c1 -32601 {"code":-32601,"message":"m","data":[1]}"#,
    ),
    (
        r#"{"type":"error","id":"c1","error": {"message":"","code":-9223372036854775808} }"#,
        r#"error c1 -9223372036854775808 {"message":"","code":-9223372036854775808}"#,
    ),
    (r#"{"type":"notify","method":"a/b"}"#, "notify a/b - -"),
    (
        r#"{"type":"notify","method":"a/b","id":"c1","params": {"p" : 1}}"#,
        r#"notify a/b {"p" : 1} c1"#,
    ),
];

#[test]
fn a_message_is_read_with_its_raw_parts() {
    for (text, expected) in GOOD {
        assert_eq!(seen(text), *expected, "{text}");
    }
}

#[test]
fn a_bad_message_is_refused_saying_where_and_what() {
    let rows = [
        ("[]", "-: a message must be an object, got an array"),
        (" null", "-: a message must be an object, got null"),
        (r#""ping""#, "-: a message must be an object, got a string"),
        ("7", "-: a message must be an object, got a number"),
        ("true", "-: a message must be an object, got a boolean"),
        ("{}", "type: `type` is missing"),
        (r#"{"Type":"ping"}"#, "type: `type` is missing"),
        (r#"{"type":1}"#, "type: `type` must be a string, got a number"),
        (r#"{"type":null}"#, "type: `type` must be a string, got null"),
        (r#"{"type":"pong"}"#, r#"type: unknown `type` "pong""#),
        (r#"{"type":"Ping"}"#, r#"type: unknown `type` "Ping""#),
        (r#"{"type":""}"#, r#"type: unknown `type` """#),
        (r#"{"type":"auth"}"#, "token: `token` is missing"),
        (r#"{"type":"auth","token":{}}"#, "token: `token` must be a string, got an object"),
        (r#"{"type":"result","result":{}}"#, "id: `id` is missing"),
        (r#"{"type":"result","id":1,"result":{}}"#, "id: `id` must be a string, got a number"),
        (r#"{"type":"result","id":"c1"}"#, "result: `result` is missing"),
        (r#"{"type":"result","id":"c1","error":{}}"#, "result: `result` is missing"),
        (
            r#"{"type":"result","id":"c1","result":[]}"#,
            "result: `result` must be an object, got an array",
        ),
        (
            r#"{"type":"result","id":"c1","result":null}"#,
            "result: `result` must be an object, got null",
        ),
        (r#"{"type":"error","error":{}}"#, "id: `id` is missing"),
        (r#"{"type":"error","id":"c1"}"#, "error: `error` is missing"),
        (
            r#"{"type":"error","id":"c1","error":"x"}"#,
            "error: `error` must be an object, got a string",
        ),
        (r#"{"type":"error","id":"c1","error":{}}"#, "error.code: `code` is missing"),
        (
            r#"{"type":"error","id":"c1","error":{"code":"1","message":"m"}}"#,
            "error.code: `error.code` must be an integer, got a string",
        ),
        (
            r#"{"type":"error","id":"c1","error":{"code":1.5,"message":"m"}}"#,
            "error.code: `error.code` must be an integer, got a number",
        ),
        (
            r#"{"type":"error","id":"c1","error":{"code":9223372036854775808,"message":"m"}}"#,
            "error.code: `error.code` must be an integer, got a number",
        ),
        (r#"{"type":"error","id":"c1","error":{"code":1}}"#, "error.message: `message` is missing"),
        (
            r#"{"type":"error","id":"c1","error":{"code":1,"message":null}}"#,
            "error.message: `error.message` must be a string, got null",
        ),
        (r#"{"type":"notify"}"#, "method: `method` is missing"),
        (r#"{"type":"notify","method":[]}"#, "method: `method` must be a string, got an array"),
        (
            r#"{"type":"notify","method":"m","params":[]}"#,
            "params: `params` must be an object, got an array",
        ),
        (r#"{"type":"notify","method":"m","id":1}"#, "id: `id` must be a string, got a number"),
        (r#"{"type":"ping","type":"ping"}"#, "type: this member stands twice"),
        (
            r#"{"type":"result","id":"c1","i\u0064":"c2","result":{}}"#,
            "id: this member stands twice",
        ),
        (
            r#"{"type":"result","id":"c1","result":{},"result":{}}"#,
            "result: this member stands twice",
        ),
        (r#"{"result":1,"result":{},"type":"ping"}"#, "result: this member stands twice"),
    ];
    for (text, expected) in rows {
        assert_eq!(seen(text), expected, "{text}");
    }
}

#[test]
fn a_message_cut_short_anywhere_is_not_json() {
    for (text, _) in GOOD {
        let text = text.trim();
        for end in (0..text.len()).filter(|&end| text.is_char_boundary(end)) {
            let seen = seen(&text[..end]);
            assert!(seen.starts_with("-: not JSON: the text ends too early"), "{text}: {seen}");
        }
    }
}

#[test]
fn data_behind_a_message_is_not_json() {
    for (text, _) in GOOD {
        for more in ["x", "{}", "null", ",", "}", "\0", "\u{feff}"] {
            let seen = seen(&format!("{text}{more}"));
            assert!(seen.starts_with("-: not JSON: expected nothing more"), "{text}{more}: {seen}");
        }
    }
}

#[test]
fn the_shape_of_a_result_says_what_the_bridge_has_to_add() {
    let (_, empty) = shape_of("{ }");
    assert!(empty.is_empty && empty.meta.is_none() && empty.result_type.is_none());
    let (text, full) = shape_of(
        r#"{"content":[], "resultType" : "complete", "ttlMs":5,"cacheScope":"public",
            "_meta": {"io.modelcontextprotocol\/serverInfo":{},"k":1} }"#,
    );
    assert!(!full.is_empty && full.has_ttl && full.has_scope && !full.input_required);
    assert_eq!(full.result_type.map(|span| span.of(&text)), Some(r#""complete""#));
    let meta = full.meta.expect("there is a `_meta`");
    assert!(meta.has_server_info && !meta.is_empty);
    assert_eq!(meta.span.of(&text), r#"{"io.modelcontextprotocol\/serverInfo":{},"k":1}"#);

    let (text, round) = shape_of(
        r#"{"resultType":"input\u005frequired","inputRequests":{"a":{}},"requestState":"s"}"#,
    );
    assert!(round.input_required);
    assert_eq!(round.input_requests.map(|span| span.of(&text)), Some(r#"{"a":{}}"#));
    assert_eq!(round.request_state.map(|span| span.of(&text)), Some(r#""s""#));
}

#[test]
fn a_meta_that_is_no_object_is_foreign() {
    for (meta, foreign) in
        [("{}", false), ("null", true), ("[]", true), ("1", true), ("\"\"", true)]
    {
        let (_, shape) = shape_of(&format!(r#"{{"_meta":{meta}}}"#));
        assert_eq!((shape.has_foreign_meta, shape.meta.is_some()), (foreign, !foreign), "{meta}");
    }
    // Only its own members count, not those of what lies in it or beside it.
    let (_, shape) = shape_of(r#"{"x":{"ttlMs":1,"_meta":{}},"_meta":{"y":{"ttlMs":1}}}"#);
    assert!(!shape.has_ttl && shape.meta.is_some_and(|meta| !meta.has_server_info));
}

/// Puts a value where it is to be nested.
type Place = fn(&str) -> String;

#[test]
fn nesting_stops_at_512_levels() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let places: [(usize, Place); 4] = [
        (1, |v| format!(r#"{{"type":"ping","x":{v}}}"#)),
        (2, |v| format!(r#"{{"type":"result","id":"c1","result":{{"a":{v}}}}}"#)),
        (3, |v| format!(r#"{{"type":"result","id":"c1","result":{{"_meta":{{"a":{v}}}}}}}"#)),
        (2, |v| format!(r#"{{"type":"notify","method":"m","params":{{"a":{v}}}}}"#)),
    ];
    for (around, place) in places {
        for (levels, fits) in
            [(JSON_DEPTH_MAX - 1, true), (JSON_DEPTH_MAX, true), (JSON_DEPTH_MAX + 1, false)]
        {
            let seen = seen(&place(&nested(levels - around)));
            let refused = seen.starts_with("-: not JSON: nested too deeply");
            assert_eq!(refused, !fits, "{levels} levels, {around} around");
        }
    }
}
