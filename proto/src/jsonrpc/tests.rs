//! JSON-RPC messages: tables of what is taken and what is refused, and every body whole, cut short
//! and with something behind it.

use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};

use super::*;
use crate::limits::{BATCH_MAX, JSON_DEPTH_MAX};

/// What a text was read as, in one line.
fn seen(text: &str) -> String {
    match message(text) {
        Err(Refusal { id, fault }) => format!("{} {} {fault}", id.unwrap_or("-"), fault.code()),
        Ok(Message { id, kind }) => {
            let id = id.unwrap_or("-");
            match kind {
                MessageKind::Call { method, params } => {
                    format!("{id} calls {method} with {}", params.raw.unwrap_or("-"))
                }
                MessageKind::Response { result: Ok(raw) } => format!("{id} results in {raw}"),
                MessageKind::Response { result: Err(raw) } => format!("{id} fails with {raw}"),
            }
        }
    }
}

const GOOD: &[(&str, &str)] = &[
    (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "1 calls ping with -"),
    (r#"{"jsonrpc":"2.0","method":"notifications/x"}"#, "- calls notifications/x with -"),
    (r#"{"method":"a\u002fb","id":"","jsonrpc":"2\u002e0"}"#, r#""" calls a/b with -"#),
    (
        " {\"jsonrpc\" : \"2.0\", \"id\" : -1, \"method\":\"m\", \"params\" : { \"a\" : [ 1 ] } }\r\n\t ",
        "-1 calls m with { \"a\" : [ 1 ] }",
    ),
    (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, "1 results in null"),
    (r#"{"jsonrpc":"2.0","id":"a","result":{"b":1}}"#, r#""a" results in {"b":1}"#),
    (r#"{"jsonrpc":"2.0","id":0,"error":{"code":-1}}"#, r#"0 fails with {"code":-1}"#),
    // JSON-RPC 2.0 §5: an error about a request whose ID could not be read.
    (r#"{"jsonrpc":"2.0","id":null,"error":{}}"#, "- fails with {}"),
    (r#"{"jsonrpc":"2.0","error":{}}"#, "- fails with {}"),
    // Members of no known name mean nothing, here as in `params`.
    (r#"{"jsonrpc":"2.0","id":1,"method":"m","x":{"id":2}}"#, "1 calls m with -"),
    (r#"{"jsonrpc":"2.0","id":1,"method":"","params":{}}"#, "1 calls  with {}"),
];

#[test]
fn a_message_is_read_with_its_raw_parts() {
    for (text, expected) in GOOD {
        assert_eq!(seen(text), *expected, "{text}");
    }
}

#[test]
fn what_is_not_one_message_is_refused_saying_why() {
    let object = "a message must be a JSON object";
    let id = "`id` must be a string or an integer";
    let version = "`jsonrpc` must be \"2.0\"";
    let missing = "`method`, `result` or `error` is missing";
    let both = "a request has no `result` and no `error`";
    let params = "`params` must be an object";
    let rows = [
        ("1", "-", object),
        ("null", "-", object),
        (r#""a""#, "-", object),
        (r#"{}"#, "-", version),
        (r#"{"id":1,"method":"m"}"#, "1", version),
        (r#"{"jsonrpc":2.0,"id":1,"method":"m"}"#, "1", version),
        (r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#, "1", version),
        (r#"{"jsonrpc":null,"id":1,"method":"m"}"#, "1", version),
        (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, "-", id),
        (r#"{"jsonrpc":"2.0","id":null,"result":1}"#, "-", id),
        (r#"{"jsonrpc":"2.0","id":1.0,"method":"m"}"#, "-", id),
        (r#"{"jsonrpc":"2.0","id":1e0,"method":"m"}"#, "-", id),
        (r#"{"jsonrpc":"2.0","id":1E1,"method":"m"}"#, "-", id),
        (r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#, "-", id),
        (r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, "-", id),
        (r#"{"jsonrpc":"2.0","id":[1],"error":{}}"#, "-", id),
        (r#"{"jsonrpc":"2.0","id":1}"#, "1", missing),
        (r#"{"jsonrpc":"2.0","id":1,"result":1,"error":2}"#, "1", missing),
        (r#"{"jsonrpc":"2.0","result":1}"#, "-", "a response with a `result` must have an `id`"),
        (r#"{"jsonrpc":"2.0","id":1,"method":1}"#, "1", "`method` must be a string"),
        (r#"{"jsonrpc":"2.0","id":1,"method":null}"#, "1", "`method` must be a string"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","result":1}"#, "1", both),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","error":1}"#, "1", both),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[]}"#, "1", params),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":null}"#, "1", params),
        (r#"{"jsonrpc":"2.0","method":"m","params":"x"}"#, "-", params),
    ];
    for (text, id, what) in rows {
        assert_eq!(seen(text), format!("{id} -32600 Invalid request: {what}"), "{text}");
    }
}

#[test]
fn a_request_id_is_echoed_byte_for_byte() {
    let ids = [
        "0",
        "-0",
        "-1",
        "9007199254740993",
        "123456789012345678901234567890",
        r#""1""#,
        r#""""#,
        r#""\u0041\/""#,
        r#""é\ud800""#,
    ];
    for id in ids {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
        assert_eq!(seen(&text), format!("{id} calls m with -"));
    }
}

#[test]
fn a_member_named_twice_is_refused_wherever_readers_could_differ() {
    let rows = [
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#, "1", "the message has `method`"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"a","m\u0065thod":"b"}"#,
            "1",
            "the message has `method`",
        ),
        (
            r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"a"}"#,
            "1",
            "the message has `jsonrpc`",
        ),
        (r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"a"}"#, "-", "the message has `id`"),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"id":3,"method":"a"}"#, "-", "the message has `id`"),
        (r#"{"jsonrpc":"2.0","id":1,"x":1,"x":1,"method":"a"}"#, "1", "the message has `x`"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{},"params":{}}"#,
            "1",
            "the message has `params`",
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"b":1,"b":1}}"#, "1", "params has `b`"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{},"_meta":1}}"#,
            "1",
            "params has `_meta`",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"c":1,"c":2}}}"#,
            "1",
            "_meta has `c`",
        ),
        (r#"{"jsonrpc":"2.0","id":1,"result":1,"result":1}"#, "1", "the message has `result`"),
    ];
    for (text, id, what) in rows {
        assert_eq!(seen(text), format!("{id} -32600 Invalid request: {what} twice"), "{text}");
    }
    // Deeper down it is nobody's business but the client's.
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"arguments":{"d":1,"d":2}}}"#;
    assert!(seen(text).starts_with("1 calls a"));
}

#[test]
fn the_seventeenth_name_is_compared_like_the_first() {
    for count in [15, 16, 17, 18, 40] {
        let names: Vec<String> = (0..count).map(|n| format!(r#""n{n}":{n}"#)).collect();
        let with = |extra: &str| {
            let members = names.join(",");
            seen(&format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{{{members}{extra}}}}}"#
            ))
        };
        assert!(with("").starts_with("1 calls a"), "{count} names");
        for twice in [0, count / 2, count - 1] {
            let expected = format!("1 -32600 Invalid request: params has `n{twice}` twice");
            assert_eq!(with(&format!(r#","n{twice}":0"#)), expected, "{count} names");
        }
    }
}

#[test]
fn params_and_meta_are_found_by_name() {
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"m","params":
        {"a":"x\n","b":1,"_meta":{"progressToken": 7 ,"k":null}}}"#;
    let Ok(Message { kind: MessageKind::Call { params, .. }, .. }) = message(text) else {
        panic!("{}", seen(text));
    };
    assert_eq!(params.get("a"), Some(r#""x\n""#));
    assert_eq!(params.string("a").as_deref(), Some("x\n"));
    assert_eq!((params.get("b"), params.string("b")), (Some("1"), None));
    assert_eq!((params.get("c"), params.string("c")), (None, None));
    assert_eq!(params.get("_meta"), Some(r#"{"progressToken": 7 ,"k":null}"#));
    assert_eq!(params.meta("progressToken"), Some("7"));
    assert_eq!((params.meta("k"), params.meta("a")), (Some("null"), None));
    for meta in ["1", "null", "[]", r#""x""#] {
        let text = format!(r#"{{"jsonrpc":"2.0","method":"m","params":{{"_meta":{meta}}}}}"#);
        let Ok(Message { kind: MessageKind::Call { params, .. }, .. }) = message(&text) else {
            panic!("{}", seen(&text));
        };
        assert!(params.meta.is_none(), "{meta}");
        assert_eq!(params.get("_meta"), Some(meta));
    }
}

#[test]
fn a_message_cut_short_anywhere_is_a_parse_error() {
    let refused = [
        r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#,
        r#"{"id":1,"id":1,"params":{"_meta":{"a":[1,{"b":"\u00e9"}],"a":1}}}"#,
        "[1,[],{}]",
    ];
    for text in GOOD.iter().map(|(text, _)| *text).chain(refused) {
        let text = text.trim();
        for end in (0..text.len()).filter(|&end| text.is_char_boundary(end)) {
            let cut = &text[..end];
            let expected = "- -32700 Parse error: the text ends too early";
            assert!(seen(cut).starts_with(expected), "{cut:?}: {}", seen(cut));
            match body(cut, BATCH_MAX) {
                Ok(Body::One(Err(refusal))) => assert_eq!(refusal.fault.code(), -32700, "{cut:?}"),
                Err(fault) => assert_eq!(fault.code(), -32700, "{cut:?}"),
                _ => panic!("{cut:?} was taken"),
            }
        }
    }
}

#[test]
fn data_behind_a_message_is_a_parse_error() {
    for (text, _) in GOOD {
        for more in ["x", "{}", "null", ",", "]", "}", "\0", "\u{feff}", "//", "\u{a0}", "1"] {
            let text = format!("{text}{more}");
            let expected = "- -32700 Parse error: expected nothing more";
            assert!(seen(&text).starts_with(expected), "{text:?}: {}", seen(&text));
        }
    }
    for text in ["[1]x", "[]{}", "[1],", "[1]]"] {
        assert!(matches!(body(text, 9), Err(Fault::ParseError(_))), "{text}");
    }
}

/// A reader that stopped at the first bad member would answer a text that it never understood.
#[test]
fn a_parse_error_wins_over_whatever_is_wrong_before_it() {
    for text in [
        r#"{"jsonrpc":"1.0","id":1,"method":2,"params":[1,]}"#,
        r#"{"id":1,"id":2"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"m","params":{"_meta":{"a":1,"a":01}}}"#,
        r#"[1, 2"#,
        "nul",
    ] {
        assert!(seen(text).starts_with("- -32700 "), "{text}: {}", seen(text));
    }
}

#[test]
fn a_batch_has_1_to_100_elements() {
    assert_eq!(BATCH_MAX, 100);
    let batch = |count: usize| format!("[{}]", vec!["{}"; count].join(" , "));
    for count in [1, 2, 99, 100] {
        let text = batch(count);
        match body(&text, BATCH_MAX) {
            Ok(Body::Batch(elements)) => assert_eq!(elements, vec!["{}"; count]),
            _ => panic!("{count} elements were refused"),
        }
    }
    for count in [0, 101, 102, 5000] {
        let text = batch(count);
        let words = match body(&text, BATCH_MAX) {
            Err(Fault::InvalidRequest(words)) => words,
            _ => panic!("{count} elements were not refused"),
        };
        assert_eq!(words, format!("a batch must have 1 to 100 elements, got {count}"));
    }
}

#[test]
fn a_batch_hands_out_its_elements_as_they_came() {
    let text = " [ 1 ,\n{\"a\" : [2]} , [ ] , null,\"]\"] ";
    match body(text, BATCH_MAX) {
        Ok(Body::Batch(elements)) => {
            assert_eq!(elements, ["1", "{\"a\" : [2]}", "[ ]", "null", "\"]\""]);
        }
        _ => panic!("the batch was refused"),
    }
}

/// Puts a value where it is to be nested.
type Place = fn(&str) -> String;

#[test]
fn nesting_stops_at_512_levels_whether_looked_into_or_passed_over() {
    assert_eq!(JSON_DEPTH_MAX, 512);
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    // How many levels stand around the value, and what stands there.
    let places: [(usize, Place); 5] = [
        (1, |v| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","x":{v}}}"#)),
        (1, |v| format!(r#"{{"jsonrpc":"2.0","id":1,"result":{v}}}"#)),
        (2, |v| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"a":{v}}}}}"#)),
        (3, |v| {
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"_meta":{{"a":{v}}}}}}}"#)
        }),
        (0, |v| v.into()),
    ];
    for (around, place) in places {
        for (levels, fits) in [(511, true), (512, true), (513, false), (100_000, false)] {
            let text = place(&nested(levels - around));
            let code = match body(&text, BATCH_MAX) {
                Ok(Body::One(Ok(_)) | Body::Batch(_)) => None,
                Ok(Body::One(Err(refusal))) => Some(refusal.fault.code()),
                Err(fault) => Some(fault.code()),
            };
            assert_eq!(code, (!fits).then_some(-32700), "{levels} levels, {around} around");
        }
    }
}
