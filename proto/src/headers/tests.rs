use alloc::string::ToString;

use super::*;

#[test]
fn a_value_is_trimmed_and_decoded() {
    let rows: &[(&str, Result<&str, &str>)] = &[
        ("us-west1", Ok("us-west1")),
        ("", Ok("")),
        ("  \t us west\t1 \t", Ok("us west\t1")),
        ("~!\"", Ok("~!\"")),
        // The examples of the specification.
        ("=?base64?SGVsbG8sIOS4lueVjA==?=", Ok("Hello, 世界")),
        ("=?base64?IHBhZGRlZCA=?=", Ok(" padded ")),
        ("=?base64?bGluZTEKbGluZTI=?=", Ok("line1\nline2")),
        ("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", Ok("=?base64?literal?=")),
        // The official suite's cases.
        ("=?base64?SGVsbG8=?=", Ok("Hello")),
        ("=?base64?SGVsbG8?=", Err("is not valid Base64")),
        ("=?base64?SGVs!!!bG8=?=", Err("is not valid Base64")),
        ("SGVsbG8=", Ok("SGVsbG8=")),
        ("=?base64?SGVsbG8=", Ok("=?base64?SGVsbG8=")),
        ("SGVsbG8=?=", Ok("SGVsbG8=?=")),
        // Marks are lower case, and need room for both of them.
        ("=?BASE64?SGVsbG8=?=", Ok("=?BASE64?SGVsbG8=?=")),
        ("=?Base64?SGVsbG8=?=", Ok("=?Base64?SGVsbG8=?=")),
        ("=?base64??=", Ok("")),
        ("=?base64?=", Ok("=?base64?=")),
        ("x=?base64?SGVsbG8=?=", Ok("x=?base64?SGVsbG8=?=")),
        (" =?base64?SGVsbG8=?= ", Ok("Hello")),
        // Strict Base64: no whitespace, no stray bits, no excess padding, the standard alphabet.
        ("=?base64?SGVs bG8=?=", Err("is not valid Base64")),
        ("=?base64? SGVsbG8=?=", Err("is not valid Base64")),
        ("=?base64?SGVsbG9=?=", Err("is not valid Base64")),
        ("=?base64?SGVsbG8==?=", Err("is not valid Base64")),
        ("=?base64?SGVs====?=", Err("is not valid Base64")),
        ("=?base64?S?=", Err("is not valid Base64")),
        ("=?base64?_-8=?=", Err("is not valid Base64")),
        ("=?base64?SGVsbG8=SGVsbG8=?=", Err("is not valid Base64")),
        ("=?base64?/w==?=", Err("is Base64 of something that is not UTF-8")),
        ("=?base64?7aCA?=", Err("is Base64 of something that is not UTF-8")),
        ("é", Err("has characters that a header value must not have")),
        ("a\u{7f}", Err("has characters that a header value must not have")),
        ("a\0b", Err("has characters that a header value must not have")),
        ("a\nb", Err("has characters that a header value must not have")),
        ("a\r", Err("has characters that a header value must not have")),
        ("\u{a0}a", Err("has characters that a header value must not have")),
    ];
    for (value, expected) in rows {
        assert_eq!(decode(value).as_deref(), expected.as_ref().map(|text| *text), "{value:?}");
    }
}

#[test]
fn a_name_must_be_the_one_in_the_body() {
    let rows = [
        (Some("add"), "add", Ok(())),
        (Some(" add\t"), "add", Ok(())),
        (Some("=?base64?YWRk?="), "add", Ok(())),
        (Some("file:///a%20b"), "file:///a%20b", Ok(())),
        (Some("=?base64?w6k=?="), "é", Ok(())),
        (Some("Add"), "add", Err(r#"Mcp-Name says "Add", the body says "add""#)),
        (Some("add, add"), "add", Err(r#"Mcp-Name says "add, add", the body says "add""#)),
        (Some(""), "add", Err(r#"Mcp-Name says "", the body says "add""#)),
        (None, "add", Err(r#"Mcp-Name is missing; the body says "add""#)),
        (
            Some("=?base64?YWRk"),
            "add",
            Err(r#"Mcp-Name says "=?base64?YWRk", the body says "add""#),
        ),
        (Some("=?base64?YWR?="), "add", Err("Mcp-Name is not valid Base64")),
        (Some("é"), "é", Err("Mcp-Name has characters that a header value must not have")),
    ];
    for (header, name, expected) in rows {
        let got = check_name(header, name);
        assert_eq!(got, expected.map_err(ToString::to_string), "{header:?} {name}");
    }
}

fn headers(schema: &str) -> Result<String, String> {
    match param_headers(schema) {
        Ok(params) => Ok(params
            .iter()
            .map(|param| format!("{}={}", param.field, param.path.join("/")))
            .collect::<Vec<_>>()
            .join(" ")),
        Err(SchemaFault { path, message }) => Err(format!("{path}: {message}")),
    }
}

#[test]
fn annotations_are_found_where_they_may_be() {
    let rows = [
        (r#"{"type":"object"}"#, ""),
        (
            r#"{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"}}}"#,
            "Mcp-Param-Region=r",
        ),
        (
            r#"{"properties":{"a":{"x-mcp-header":"A","type":"integer"},"b":{"type":"boolean","x-mcp-header":"B"}}}"#,
            "Mcp-Param-A=a Mcp-Param-B=b",
        ),
        // Through objects, and with keywords besides `properties` around it.
        (
            r#"{"properties":{"a":{"type":"object","properties":{"b":{"properties":{"c":{"type":"string","x-mcp-header":"C"}}}},"items":{}}}}"#,
            "Mcp-Param-C=a/b/c",
        ),
        (
            r#"{"$defs":{"x":{"type":"string"}},"allOf":[{"required":["a"]}],"properties":{"a":{"type":"string","x-mcp-header":"A","enum":["x"]}}}"#,
            "Mcp-Param-A=a",
        ),
        // Written with escapes it is the same member.
        (
            r#"{"propert\u0069es":{"a\u002e":{"type":"stri\u006eg","x-mcp\u002dheader":"\u0041"}}}"#,
            "Mcp-Param-A=a.",
        ),
        // A property of that name is none, nor is what data says.
        (r#"{"properties":{"x-mcp-header":{"type":"number"}}}"#, ""),
        (
            r#"{"properties":{"x-mcp-header":{"type":"string","x-mcp-header":"A"}}}"#,
            "Mcp-Param-A=x-mcp-header",
        ),
        (
            r#"{"properties":{"properties":{"type":"object","properties":{"const":{"type":"string","x-mcp-header":"A"}}}}}"#,
            "Mcp-Param-A=properties/const",
        ),
        (
            r#"{"properties":{"a":{"const":{"x-mcp-header":""},"default":{"x-mcp-header":1},"enum":[{"x-mcp-header":2}],"examples":[{"x-mcp-header":3}]}}}"#,
            "",
        ),
        (r#"{"items":{"default":{"x-mcp-header":1}}}"#, ""),
        (
            r#"{"$defs":{"x-mcp-header":{"type":"string"}},"patternProperties":{"x-mcp-header":{}},"dependentSchemas":{"x-mcp-header":{}},"dependencies":{"x-mcp-header":["a"]}}"#,
            "",
        ),
        (r#"{"required":["x-mcp-header"],"description":"x-mcp-header"}"#, ""),
        // Every token character.
        (
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"!#$%&'*+-.^_`|~09azAZ"}}}"#,
            "Mcp-Param-!#$%&'*+-.^_`|~09azAZ=a",
        ),
        // Names twice are no matter of ours without an annotation.
        (
            r#"{"properties":{"a":{"type":"string","type":"number"}},"description":"x-mcp-header"}"#,
            "",
        ),
        (
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"}},"$defs":{"b":{"type":"string","type":"x"}}}"#,
            "Mcp-Param-A=a",
        ),
    ];
    for (schema, expected) in rows {
        assert_eq!(headers(schema).as_deref(), Ok(expected), "{schema}");
    }
}

#[test]
fn an_annotation_anywhere_else_is_a_fault() {
    let bad = r#"{"type":"string","x-mcp-header":"A"}"#;
    let property = format!(r#"{{"properties":{{"a":{bad}}}}}"#);
    assert_eq!(headers(&property).as_deref(), Ok("Mcp-Param-A=a"));
    for keyword in [
        "items",
        "contains",
        "additionalProperties",
        "unevaluatedItems",
        "unevaluatedProperties",
        "propertyNames",
        "not",
        "if",
        "then",
        "else",
        "contentSchema",
        "additionalItems",
        "unknown",
    ] {
        for inner in [bad, &property] {
            for schema in [
                format!(r#"{{"{keyword}":{inner}}}"#),
                format!(r#"{{"properties":{{"b":{{"{keyword}":{inner}}}}}}}"#),
            ] {
                let message = headers(&schema).expect_err(&schema);
                assert!(message.contains(keyword) && message.contains("may only be"), "{message}");
            }
        }
    }
    for keyword in ["anyOf", "oneOf", "allOf", "prefixItems", "items"] {
        let message = headers(&format!(r#"{{"{keyword}":[{{}},{property}]}}"#));
        let expected = format!(
            "{keyword}[1].properties.a.x-mcp-header: may only be on a property that is reached from \
             the root through \"properties\" alone"
        );
        assert_eq!(message, Err(expected));
    }
    for keyword in ["$defs", "definitions", "patternProperties", "dependentSchemas", "dependencies"]
    {
        let message = headers(&format!(r#"{{"{keyword}":{{"d":{bad}}}}}"#)).expect_err(keyword);
        assert!(message.starts_with(&format!("{keyword}.d.x-mcp-header: may only")), "{message}");
    }
    // The root is no property.
    let message = headers(bad).expect_err("an annotated root");
    assert!(message.starts_with("x-mcp-header: may only"), "{message}");
}

#[test]
fn an_annotation_against_the_constraints_is_a_fault() {
    let row = |annotation: &str, kind: &str| {
        headers(&format!(r#"{{"properties":{{"v":{{"x-mcp-header":{annotation}{kind}}}}}}}"#))
    };
    for (annotation, got) in [
        (r#""""#, r#"a header field name, got """#),
        (r#""My Region""#, r#"a header field name, got "My Region""#),
        (r#""Region:Primary""#, r#"a header field name, got "Region:Primary""#),
        (r#""Région""#, r#"a header field name, got "Région""#),
        (r#""Region\t1""#, r#"a header field name, got "Region\t1""#),
        (r#""a\r\nb""#, r#"a header field name, got "a\r\nb""#),
        (r#""a\u0000""#, r#"a header field name, got "a\u0000""#),
        (r#""(a)""#, r#"a header field name, got "(a)""#),
        ("1", "a string, got a number"),
        ("null", "a string, got null"),
        ("true", "a string, got a boolean"),
        ("[\"A\"]", "a string, got an array"),
        ("{}", "a string, got an object"),
    ] {
        let expected = format!("properties.v.x-mcp-header: expected {got}");
        assert_eq!(row(annotation, r#","type":"string""#), Err(expected));
    }
    for (kind, got) in [
        ("", "none"),
        (r#","type":"number""#, r#""number""#),
        (r#","type":"object""#, r#""object""#),
        (r#","type":"array""#, r#""array""#),
        (r#","type":"null""#, r#""null""#),
        (r#","type":"String""#, r#""String""#),
        (r#","type":["string"]"#, "an array"),
        (r#","type":{}"#, "an object"),
        (r##","$ref":"#/$defs/a""##, "none"),
    ] {
        let expected = format!(
            "properties.v.x-mcp-header: the property's type must be \"integer\", \"string\" or \
             \"boolean\", not {got}"
        );
        assert_eq!(row(r#""A""#, kind), Err(expected));
    }
}

#[test]
fn two_annotations_must_differ_in_more_than_case() {
    for second in ["Region", "region", "REGION"] {
        let schema = format!(
            r#"{{"properties":{{"a":{{"type":"string","x-mcp-header":"Region"}},
            "b":{{"properties":{{"c":{{"type":"string","x-mcp-header":"{second}"}}}}}}}}}}"#
        );
        let expected = format!(
            "properties.b.properties.c.x-mcp-header: \"{second}\" is taken already by \
             properties.a.x-mcp-header"
        );
        assert_eq!(headers(&schema), Err(expected));
    }
}

#[test]
fn a_name_given_twice_on_the_way_to_an_annotation_is_a_fault() {
    let a = r#""a":{"type":"string","x-mcp-header":"A"}"#;
    let rows = [
        (format!(r#"{{"properties":{{}},"properties":{{{a}}}}}"#), "properties"),
        (format!(r#"{{"properties":{{{a},"a":{{}}}}}}"#), "properties.a"),
        (format!(r#"{{"properties":{{"\u0061":{{}},{a}}}}}"#), "properties.a"),
        (
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A","type":"integer"}}}"#.into(),
            "properties.a.type",
        ),
        (
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A","x-mcp-header":"B"}}}"#
                .into(),
            "properties.a.x-mcp-header",
        ),
    ];
    for (schema, path) in rows {
        assert_eq!(headers(&schema), Err(format!("{path}: is given twice")), "{schema}");
    }
}

#[test]
fn a_schema_that_is_none_is_a_fault_and_never_a_panic() {
    for schema in ["\"x-mcp-header\"", "[\"x-mcp-header\"]", "true \\u"] {
        assert_eq!(headers(schema), Err(": expected an object at byte 0".into()));
    }
    let whole = r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"anyOf":[{}]}}}"#;
    assert!(headers(whole).is_ok());
    // Before the annotation there is nothing to look for, so those truncations are not looked into.
    for end in whole.find("header").expect("it is there") + 6..whole.len() {
        assert_eq!(
            headers(&whole[..end]).err().as_deref(),
            Some(&*format!(": the text ends too early at byte {end}"))
        );
    }
    let depth = crate::limits::JSON_DEPTH_MAX - 1;
    let deep =
        format!("{}{{\"x-mcp-header\":\"A\"}}{}", r#"{"items":"#.repeat(depth), "}".repeat(depth));
    assert!(headers(&deep).is_err_and(|message| message.contains("may only be")));
}

const SCHEMA: &str = r#"{"properties":{"region":{"type":"string","x-mcp-header":"Region"},
    "n":{"type":"integer","x-mcp-header":"N"},"ok":{"type":"boolean","x-mcp-header":"Ok"},
    "in":{"type":"object","properties":{"to":{"type":"string","x-mcp-header":"To"},
    "at":{"type":"object","properties":{"y":{"type":"integer","x-mcp-header":"Y"}}}}}}}"#;

fn check(arguments: Option<&str>, given: &[(&str, &str)]) -> Result<(), String> {
    let params = param_headers(SCHEMA).map_err(|fault| fault.message)?;
    check_params(&params, arguments, &|field| {
        let same = |row: &&(&str, &str)| field.strip_prefix("Mcp-Param-") == Some(row.0);
        given.iter().find(same).map(|row| Cow::Owned(row.1.to_string()))
    })
}

/// Fields of a request, by the part of their name behind `Mcp-Param-`, with their values.
type Fields = &'static [(&'static str, &'static str)];

#[test]
fn fields_that_mirror_the_arguments_pass() {
    let rows: &[(Option<&str>, Fields)] = &[
        (None, &[]),
        (Some("{}"), &[]),
        (Some(r#"{"other":1}"#), &[("Other", "2")]),
        (Some(r#"{"region":"us-west1"}"#), &[("Region", "us-west1")]),
        (Some(r#"{"region":"us-west1"}"#), &[("Region", " us-west1 ")]),
        (Some(r#"{"region":"us-west1"}"#), &[("Region", "=?base64?dXMtd2VzdDE=?=")]),
        (Some(r#"{"region":" padded "}"#), &[("Region", "=?base64?IHBhZGRlZCA=?=")]),
        (Some(r#"{"region":"\u4e16\ud83d\ude00"}"#), &[("Region", "=?base64?5LiW8J+YgA==?=")]),
        (Some(r#"{"region":"=?base64?x"}"#), &[("Region", "=?base64?x")]),
        (Some(r#"{"region":""}"#), &[("Region", "")]),
        (Some(r#"{"region":""}"#), &[("Region", "=?base64??=")]),
        (Some(r#"{"region":null,"n":null}"#), &[]),
        (Some(r#"{"n":42}"#), &[("N", "42")]),
        (Some(r#"{"n":42}"#), &[("N", "=?base64?NDI=?=")]),
        (Some(r#"{"ok":true}"#), &[("Ok", "true")]),
        (Some(r#"{"ok":false}"#), &[("Ok", "false")]),
        (Some(r#"{"in":{"to":"x","at":{"y":-7}}}"#), &[("To", "x"), ("Y", "-7")]),
        (Some(r#"{"in":{"to":"x"}}"#), &[("To", "x")]),
        (Some(r#"{"in":{}}"#), &[]),
        (Some(r#"{"in":null}"#), &[]),
        (Some(r#"{"in":[{"to":"x"}]}"#), &[]),
        (Some(r#"{"in":"to"}"#), &[]),
        // An argument of another type than declared is the client's to refuse.
        (Some(r#"{"region":7}"#), &[("Region", "7")]),
        (Some(r#"{"n":"42"}"#), &[("N", "42")]),
        // Twice, but nowhere on a way of ours.
        (Some(r#"{"x":1,"x":2,"in":{"z":1,"z":2}}"#), &[]),
    ];
    for (arguments, given) in rows {
        assert_eq!(check(*arguments, given), Ok(()), "{arguments:?} {given:?}");
    }
}

#[test]
fn fields_that_differ_from_the_arguments_are_refused() {
    let rows: &[(Option<&str>, Fields, &str)] = &[
        (
            Some(r#"{"region":"a"}"#),
            &[],
            "Mcp-Param-Region is missing; the argument region is given",
        ),
        (
            Some(r#"{"region":""}"#),
            &[],
            "Mcp-Param-Region is missing; the argument region is given",
        ),
        (
            Some(r#"{"in":{"at":{"y":0}}}"#),
            &[],
            "Mcp-Param-Y is missing; the argument in.at.y is given",
        ),
        (None, &[("Region", "a")], "Mcp-Param-Region is given; the argument region is not"),
        (Some("{}"), &[("Region", "")], "Mcp-Param-Region is given; the argument region is not"),
        (
            Some(r#"{"region":null}"#),
            &[("Region", "null")],
            "Mcp-Param-Region is given; the argument region is not",
        ),
        (
            Some(r#"{"in":{"region":"a"}}"#),
            &[("Region", "a")],
            "Mcp-Param-Region is given; the argument region is not",
        ),
        (
            Some(r#"{"region":"a"}"#),
            &[("Region", "A")],
            r#"Mcp-Param-Region says "A", the argument region is "a""#,
        ),
        (
            Some(r#"{"region":"a"}"#),
            &[("Region", "a, a")],
            r#"Mcp-Param-Region says "a, a", the argument region is "a""#,
        ),
        (
            Some(r#"{"region":"a"}"#),
            &[("Region", "")],
            r#"Mcp-Param-Region says "", the argument region is "a""#,
        ),
        (
            Some(r#"{"region":" a"}"#),
            &[("Region", " a")],
            r#"Mcp-Param-Region says "a", the argument region is " a""#,
        ),
        (
            Some(r#"{"region":"Hello"}"#),
            &[("Region", "=?base64?SGVsbG8?=")],
            "Mcp-Param-Region is not valid Base64",
        ),
        (
            Some(r#"{"region":"Hello"}"#),
            &[("Region", "=?base64?SGVs!!!bG8=?=")],
            "Mcp-Param-Region is not valid Base64",
        ),
        (
            Some(r#"{"region":"é"}"#),
            &[("Region", "é")],
            "Mcp-Param-Region has characters that a header value must not have",
        ),
        (
            Some(r#"{"region":"\ud800"}"#),
            &[("Region", "=?base64?77+9?=")],
            "Mcp-Param-Region says \"\u{fffd}\", the argument region is \"\\ud800\"",
        ),
        (Some(r#"{"n":42}"#), &[("N", "43")], r#"Mcp-Param-N says "43", the argument n is 42"#),
        (
            Some(r#"{"n":"42"}"#),
            &[("N", "42.0")],
            r#"Mcp-Param-N says "42.0", the argument n is "42""#,
        ),
        (
            Some(r#"{"n":42}"#),
            &[("N", "\"42\"")],
            r#"Mcp-Param-N says "\"42\"", the argument n is 42"#,
        ),
        (
            Some(r#"{"ok":true}"#),
            &[("Ok", "True")],
            r#"Mcp-Param-Ok says "True", the argument ok is true"#,
        ),
        (
            Some(r#"{"ok":true}"#),
            &[("Ok", "1")],
            r#"Mcp-Param-Ok says "1", the argument ok is true"#,
        ),
        (
            Some(r#"{"ok":true}"#),
            &[("Ok", "false")],
            r#"Mcp-Param-Ok says "false", the argument ok is true"#,
        ),
        (
            Some(r#"{"region":["a"]}"#),
            &[("Region", "a")],
            r#"Mcp-Param-Region says "a", the argument region is ["a"]"#,
        ),
        (
            Some(r#"{"region":{}}"#),
            &[("Region", "{}")],
            r#"Mcp-Param-Region says "{}", the argument region is {}"#,
        ),
        (
            Some(r#"{"region":"a","region":"a"}"#),
            &[("Region", "a")],
            "the argument region is given twice",
        ),
        (
            Some(r#"{"in":{"to":"a","\u0074o":"b"}}"#),
            &[("To", "a")],
            "the argument in.to is given twice",
        ),
        (Some(r#"{"in":{"to":"a"},"in":{}}"#), &[("To", "a")], "the argument in is given twice"),
    ];
    for (arguments, given, expected) in rows {
        let got = check(*arguments, given);
        assert_eq!(got, Err(expected.to_string()), "{arguments:?} {given:?}");
    }
}

#[test]
fn numbers_are_compared_by_their_exact_value() {
    let equal = [
        ("42", "42.0"),
        ("42", "42.000"),
        ("42", "4.2e1"),
        ("42", "420E-1"),
        ("42", "0.0042e+4"),
        ("-7", "-7.0"),
        ("0", "-0"),
        ("0", "0.000"),
        ("0", "0e5"),
        ("100", "1e2"),
        ("0.05", "5e-2"),
        ("9007199254740993", "9007199254740993.0"),
        ("123456789012345678901234567890", "1.2345678901234567890123456789e29"),
        ("1e400", "10e399"),
    ];
    let different = [
        ("42", "-42"),
        ("42", "42.5"),
        ("42", "420"),
        ("42", "4.2"),
        ("0", "1"),
        ("9007199254740993", "9007199254740992"),
        ("123456789012345678901234567890", "123456789012345678901234567891"),
        ("1e400", "1e401"),
        ("0.1", "0.10000000000000000001"),
    ];
    // What is no JSON number is compared as no number at all.
    let none =
        ["042", "+42", "42.", ".42e2", " 42", "42 ", "0x2a", "42,", "forty-two", "", "-", "NaN"];
    for (one, other) in equal {
        assert!(stands_for(one, other) && stands_for(other, one), "{one} {other}");
    }
    for (one, other) in different {
        assert!(!stands_for(one, other) && !stands_for(other, one), "{one} {other}");
    }
    for text in none {
        assert!(!stands_for(text, "42"), "{text}");
    }
    // Beyond 64 bits of exponent only the same text is the same number.
    let (one, other) = ("1e99999999999999999999", "10e99999999999999999998");
    assert!(stands_for(one, one) && !stands_for(one, other));
    assert!(!stands_for("1.5e9223372036854775807", "15e9223372036854775807"));
}

#[test]
fn large_arguments_with_many_parameters_are_gone_through_once() {
    let properties: Vec<_> =
        (0..200).map(|n| format!(r#""p{n}":{{"type":"integer","x-mcp-header":"P{n}"}}"#)).collect();
    let schema = format!(r#"{{"properties":{{{}}}}}"#, properties.join(","));
    let params = param_headers(&schema).map_err(|fault| fault.message).expect("a good schema");
    assert_eq!(params.len(), 200);
    let arguments: Vec<_> = (0..50_000).map(|n| format!("\"p{n}\":{n}")).collect();
    let arguments = format!("{{{}}}", arguments.join(","));
    let mirror = |field: &str| field.strip_prefix("Mcp-Param-P").map(|n| Cow::Owned(n.to_string()));
    assert_eq!(check_params(&params, Some(&arguments), &mirror), Ok(()));
}
