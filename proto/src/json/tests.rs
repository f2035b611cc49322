use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use serde_json::value::RawValue;

use super::*;

/// Texts that are JSON. Also the seeds of the mutations below.
const GOOD: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-0",
    "7",
    "-12",
    "0.0",
    "10.25",
    "1e400",
    "1E+5",
    "-0.1e-7",
    "0e0",
    "9007199254740993",
    "123456789012345678901234567890",
    r#""""#,
    r#""a""#,
    r#""\"\\\/\b\f\n\r\t""#,
    r#""\u0000\u00e9\uD83D\uDE00\ud83d\ude00""#,
    r#""\ud800""#,
    r#""\udc00\ud800 \ud800\u0041""#,
    "\"\u{7f}\u{80}é€😀\"",
    r#""0123456789abcde""#,
    r#""0123456789abcdef""#,
    r#""0123456789abcdefg""#,
    r#""0123456789abcdef\n0123456789abcdef0123456789abcdef\"0123456789abcdef""#,
    "[]",
    "[ ]",
    "{}",
    "{ }",
    "[1]",
    "[1,2]",
    "[[]]",
    "[[],[]]",
    "[{}]",
    r#"{"a":1}"#,
    r#"{"a":1,"a":2}"#,
    r#"{"":{}}"#,
    r#"{"a":[],"b":{},"c":"","d":null,"e":true,"f":false,"g":-1.5e3}"#,
    r#"{"a":{"b":{"c":[[[{"d":[1,{"e":[]}]}]]]}}}"#,
    "[null,true,false,0,\"\",[],{}]",
    " \t\r\n{ \t\r\n\"a\" \t\r\n: \t\r\n[ \t\r\n1 \t\r\n, \t\r\n2 \t\r\n] \t\r\n, \"b\" : null } \t\r\n",
    r#"{"type":"call","id":"7","method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}"#,
];

/// Texts that are not JSON.
const BAD: &[&str] = &[
    "",
    " ",
    "\u{feff}1",
    "\u{a0}1",
    "\u{b}1",
    "nul",
    "nulll",
    "Null",
    "True",
    "truefalse",
    "NaN",
    "Infinity",
    "-Infinity",
    "+1",
    "-",
    "--1",
    "- 1",
    "01",
    "-01",
    "00",
    "1.",
    ".5",
    "-.5",
    "1.e5",
    "1e",
    "1e+",
    "1e5.5",
    "1e5e5",
    "0x10",
    "1_000",
    "1 2",
    "1,",
    "1]",
    r#"""#,
    r#""a"#,
    r#""a\"#,
    r#""\"#,
    r#""\""#,
    r#""\a""#,
    r#""\'""#,
    r#""\x41""#,
    r#""\U0041""#,
    r#""\u""#,
    r#""\u0""#,
    r#""\u004""#,
    r#""\u00g0""#,
    r#""\u+041""#,
    r#""\u 041""#,
    r#""\é""#,
    r#""\u00é""#,
    "\"\n\"",
    "\"\0\"",
    "\"\u{1f}\"",
    "\"0123456789abcdef\u{1f}\"",
    "\"0123456789abcdef0123456789abcdef\t0123456789abcdef\"",
    "\"0123456789abcdef0123456789abcdef",
    "'a'",
    r#""a""b""#,
    "[",
    "]",
    "[1",
    "[1,",
    "[1,]",
    "[,]",
    "[,1]",
    "[1 2]",
    "[1,,2]",
    "[1}",
    "[1:2]",
    "[]]",
    "[][]",
    "{",
    "}",
    r#"{"a"#,
    r#"{"a""#,
    r#"{"a":"#,
    r#"{"a":}"#,
    r#"{"a":1"#,
    r#"{"a":1,"#,
    r#"{"a":1,}"#,
    r#"{,"a":1}"#,
    r#"{"a" 1}"#,
    r#"{"a",1}"#,
    r#"{"a":1 "b":2}"#,
    r#"{"a":1,,"b":2}"#,
    r#"{"a"::1}"#,
    r#"{"a":1]"#,
    "{a:1}",
    "{1:1}",
    "{null:1}",
    "{[]:1}",
    "{'a':1}",
    "{}}",
    "[1]//",
    "/**/1",
    "1#",
];

/// What serde_json makes of a text, without building anything.
fn judge(text: &str) -> Option<&str> {
    serde_json::from_str::<&RawValue>(text).ok().map(RawValue::get)
}

fn raw(text: &str) -> Result<&str, Error> {
    let mut reader = Reader::new(text);
    let value = reader.value()?;
    reader.end()?;
    Ok(value)
}

/// Walks a text with every step the reader has, instead of passing it as a whole.
fn walk(reader: &mut Reader<'_>) -> Result<(), Error> {
    match reader.kind()? {
        Kind::Object => {
            reader.enter_object()?;
            while reader.key()?.is_some() {
                walk(reader)?;
            }
        }
        Kind::Array => {
            reader.enter_array()?;
            while reader.item()? {
                walk(reader)?;
            }
        }
        _ => drop(reader.value()?),
    }
    Ok(())
}

fn walked(text: &str) -> bool {
    let mut reader = Reader::new(text);
    walk(&mut reader).is_ok() && reader.end().is_ok()
}

/// Compares both ways of reading with the judge.
fn compare(text: &str) -> bool {
    let expected = judge(text);
    assert_eq!(raw(text).ok(), expected, "passing {text:?}");
    assert_eq!(walked(text), expected.is_some(), "walking {text:?}");
    expected.is_some()
}

/// xorshift64*: the same numbers on every run.
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }

    /// Removes, swaps, copies and inserts a few characters of a text.
    pub(crate) fn mutate(&mut self, text: &str) -> String {
        let mut text: Vec<char> = text.chars().collect();
        for _ in 0..=self.below(3) {
            let at = self.below(text.len() + 1);
            match self.below(4) {
                0 if at < text.len() => drop(text.remove(at)),
                1 if at < text.len() => {
                    let other = self.below(text.len());
                    text.swap(at, other);
                }
                2 if at < text.len() => {
                    let end = at + self.below(text.len() - at) + 1;
                    let copy = text[at..end].to_vec();
                    let to = self.below(text.len() + 1);
                    text.splice(to..to, copy);
                }
                _ => drop(text.splice(at..at, PIECES[self.below(PIECES.len())].chars())),
            }
        }
        text.into_iter().collect()
    }
}

/// What a mutation inserts.
const PIECES: &[&str] = &[
    "\"", "\\", "{", "}", "[", "]", ",", ":", " ", "\n", "0", "1", "-", "+", ".", "e", "E", "u",
    "n", "t", "true", "null", "\\u12", "\\ud83d", "\u{1}", "\t", "é", "😀", "\u{2028}", "/",
];

#[test]
fn good_texts_are_accepted_with_exactly_their_bytes() {
    for text in GOOD {
        assert!(compare(text), "{text}");
        assert_eq!(raw(text), Ok(text.trim_matches([' ', '\t', '\r', '\n'])));
    }
}

#[test]
fn bad_texts_are_refused() {
    for text in BAD {
        assert!(!compare(text), "{text}");
    }
}

#[test]
fn every_truncation_is_refused() {
    // A number alone may end anywhere, so each text is judged inside of an array.
    for text in GOOD {
        let whole = format!("[{text}]");
        assert_eq!(validate(&whole), Ok(()));
        for (end, _) in whole.char_indices() {
            assert!(!compare(&whole[..end]), "{}", &whole[..end]);
            assert_eq!(validate(&whole[..end]).map_err(|e| e.what), Err("the text ends too early"));
        }
    }
}

#[test]
fn trailing_data_is_refused() {
    for text in GOOD {
        for more in ["x", "]", "}", ",", "\"", "\\", ":", "{}", "\u{0}", "\u{a0}"] {
            assert!(!compare(&format!("{text}{more}")), "{text}{more}");
        }
    }
}

#[test]
fn mutated_texts_are_judged_as_serde_json_judges_them() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let judged = (0..200_000).map(|round| compare(&random.mutate(GOOD[round % GOOD.len()])));
    let accepted = judged.filter(|accepted| *accepted).count();
    // Both verdicts must be common, or the comparison shows little.
    assert!((20_000..180_000).contains(&accepted), "{accepted}");
}

#[test]
fn a_control_character_is_found_wherever_it_hides() {
    for length in 0..80 {
        let plain = "x".repeat(length);
        for at in 0..=length {
            for control in ['\0', '\t', '\n', '\u{1f}'] {
                let text = format!("\"{}{control}{}\"", &plain[..at], &plain[at..]);
                assert_eq!(validate(&text), Err(Error { offset: at + 1, what: CONTROL }));
            }
            assert_eq!(validate(&format!("\"{} {}\"", &plain[..at], &plain[at..])), Ok(()));
        }
    }
}

#[test]
fn nesting_ends_at_its_limit() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for (depth, expected) in
            [(JSON_DEPTH_MAX - 1, true), (JSON_DEPTH_MAX, true), (JSON_DEPTH_MAX + 1, false)]
        {
            // The innermost value is a level of its own.
            for inner in ["[]", "{}"] {
                let text = open.repeat(depth - 1) + inner + &close.repeat(depth - 1);
                assert_eq!(validate(&text).is_ok(), expected, "{depth} {open}");
                assert_eq!(walked(&text), expected, "{depth} {open}");
                if !expected {
                    let offset = open.len() * (depth - 1);
                    assert_eq!(validate(&text), Err(Error { offset, what: TOO_DEEP }));
                }
            }
        }
    }
    // Levels that were entered and levels that are passed count together.
    let text = "[".repeat(JSON_DEPTH_MAX + 1) + &"]".repeat(JSON_DEPTH_MAX + 1);
    let mut reader = Reader::new(&text);
    for _ in 0..100 {
        reader.enter_array().expect("an array");
        assert_eq!(reader.item(), Ok(true));
    }
    assert_eq!(reader.value().map_err(|e| e.what), Err(TOO_DEEP));
    // Width is no depth.
    assert_eq!(validate(&format!("[{}1]", "[[]],".repeat(10_000))), Ok(()));
}

#[test]
fn a_very_deep_text_takes_no_stack() {
    assert!(validate(&"[".repeat(4 << 20)).is_err());
    assert!(validate(&"{\"\":".repeat(1 << 20)).is_err());
}

#[test]
fn objects_and_arrays_are_walked_and_passed_in_turn() {
    let text =
        r#" { "a" : [ 1 , {"x":2} , "s" ] , "\u0062" : { } , "c":{"d":[[]],"e":null}, "f":3 } "#;
    let mut reader = Reader::new(text);
    assert_eq!(reader.kind(), Ok(Kind::Object));
    reader.enter_object().expect("an object");
    assert_eq!(reader.key(), Ok(Some(Cow::Borrowed("a"))));
    assert_eq!(reader.kind(), Ok(Kind::Array));
    reader.enter_array().expect("an array");
    assert_eq!(reader.item(), Ok(true));
    assert_eq!((reader.kind(), reader.value()), (Ok(Kind::Number), Ok("1")));
    assert_eq!(reader.item(), Ok(true));
    assert_eq!(reader.value(), Ok(r#"{"x":2}"#));
    assert_eq!(reader.item(), Ok(true));
    assert_eq!((reader.kind(), reader.value()), (Ok(Kind::String), Ok(r#""s""#)));
    assert_eq!(reader.item(), Ok(false));
    assert_eq!(reader.key(), Ok(Some(Cow::Owned("b".to_string()))));
    reader.enter_object().expect("an object");
    assert_eq!(reader.key(), Ok(None));
    assert_eq!(reader.key(), Ok(Some(Cow::Borrowed("c"))));
    reader.enter_object().expect("an object");
    assert_eq!(reader.key(), Ok(Some(Cow::Borrowed("d"))));
    assert_eq!(reader.value(), Ok("[[]]"));
    assert_eq!(reader.key(), Ok(Some(Cow::Borrowed("e"))));
    assert_eq!((reader.kind(), reader.value()), (Ok(Kind::Null), Ok("null")));
    assert_eq!(reader.key(), Ok(None));
    assert_eq!(reader.key(), Ok(Some(Cow::Borrowed("f"))));
    assert_eq!(reader.value(), Ok("3"));
    assert_eq!(reader.key(), Ok(None));
    assert_eq!(reader.offset(), text.len() - 1);
    assert_eq!(reader.end(), Ok(()));
    assert_eq!(reader.offset(), text.len());
}

#[test]
fn a_step_out_of_turn_is_an_error() {
    type Step = fn(&mut Reader<'_>) -> bool;
    let key: Step = |r| r.key().is_ok();
    let item: Step = |r| r.item().is_ok();
    let value: Step = |r| r.value().is_ok();
    let kind: Step = |r| r.kind().is_ok();
    let object: Step = |r| r.enter_object().is_ok();
    let array: Step = |r| r.enter_array().is_ok();
    let end: Step = |r| r.end().is_ok();
    let rows: &[(&str, &[Step], Step)] = &[
        (r#"{"a":1}"#, &[], key),
        (r#"{"a":1}"#, &[], item),
        (r#"{"a":1}"#, &[], array),
        (r#"{"a":1}"#, &[], end),
        (r#"{"a":1}"#, &[object], value),
        (r#"{"a":1}"#, &[object], kind),
        (r#"{"a":1}"#, &[object], item),
        (r#"{"a":1}"#, &[object], end),
        (r#"{"a":1}"#, &[object, key], key),
        (r#"{"a":1}"#, &[object, key], object),
        (r#"{"a":1}"#, &[object, key], end),
        (r#"{"a":1}"#, &[object, key, value], value),
        (r#"{"a":1}"#, &[object, key, value], end),
        (r#"{"a":1}"#, &[object, key, value, key], key),
        (r#"{"a":1}"#, &[object, key, value, key], value),
        (r#"{"a":1}"#, &[value], value),
        ("[1]", &[], object),
        ("[1]", &[array], key),
        ("[1]", &[array], value),
        ("[1]", &[array, item], item),
        ("[1]", &[array, item, value, item], item),
        ("[1]", &[array, item, value, item], kind),
        (r#"[{"a":[]}]"#, &[array, item, object, key, array, item], item),
    ];
    for (row, (text, before, last)) in rows.iter().enumerate() {
        let mut reader = Reader::new(text);
        assert!(before.iter().all(|step| step(&mut reader)), "row {row}");
        assert!(!last(&mut reader), "row {row}");
    }
}

#[test]
fn an_error_says_what_was_expected_and_where() {
    let rows = [
        ("", 0, "the text ends too early"),
        ("  x", 2, "expected a value"),
        ("[1 2]", 3, "expected ',' or ']'"),
        (r#"{"a":1]"#, 6, "expected ',' or '}'"),
        ("{1:1}", 1, "expected a member name"),
        (r#"{"a" 1}"#, 5, "expected a colon"),
        ("01", 1, "a number has a leading zero"),
        ("-x", 1, "expected a digit"),
        ("nil", 1, "expected true, false or null"),
        (r#""\x""#, 2, "expected an escape character"),
        (r#""\u12x4""#, 5, "expected four hex digits"),
        ("1 1", 2, "expected nothing more"),
    ];
    for (text, offset, what) in rows {
        assert_eq!(validate(text), Err(Error { offset, what }), "{text}");
    }
    assert_eq!(
        validate("  x").map_err(|error| error.to_string()),
        Err("expected a value at byte 2".to_string())
    );
}

#[test]
fn strings_are_decoded() {
    let rows = [
        (r#""""#, Some("")),
        (r#""plain é😀""#, Some("plain é😀")),
        (r#""\"\\\/\b\f\n\r\t""#, Some("\"\\/\u{8}\u{c}\n\r\t")),
        (r#""a\u0041\u00e9\u20AC""#, Some("aAé€")),
        (r#""\ud83d\ude00""#, Some("😀")),
        (r#""x\uD83D\uDE00y""#, Some("x😀y")),
        (r#""\u0000""#, Some("\0")),
        (r#""\ud83d""#, Some("\u{fffd}")),
        (r#""\ude00\ud83d""#, Some("\u{fffd}\u{fffd}")),
        (r#""\ud83d\ud83d\ude00""#, Some("\u{fffd}😀")),
        (r#""\ud83d\u0041""#, Some("\u{fffd}A")),
        (r#""\ud83d\n""#, Some("\u{fffd}\n")),
        (r#""\ud83du0041""#, Some("\u{fffd}u0041")),
        ("1", None),
        ("null", None),
        ("", None),
        ("\"", None),
        (r#""a"#, None),
        (r#""a" "#, None),
        (r#""a"b""#, None),
        (r#""\""#, None),
        (r#""\u+041""#, None),
        (r#""\u12""#, None),
        (r#""\é""#, None),
        ("\"\n\"", None),
    ];
    for (raw, expected) in rows {
        assert_eq!(string(raw).as_deref(), expected, "{raw}");
        let exact = expected.filter(|text| !text.contains('\u{fffd}'));
        assert_eq!(exact_string(raw).as_deref(), exact, "{raw}");
    }
    assert_eq!(exact_string(r#""\ufffd""#).as_deref(), Some("\u{fffd}"));
    assert!(matches!(string(r#""plain""#), Some(Cow::Borrowed("plain"))));
}

#[test]
fn quoting_is_undone_by_decoding_and_by_serde_json() {
    let every: String = (0..0x180).filter_map(char::from_u32).chain(['\u{2028}', '😀']).collect();
    for text in ["", "plain", "\"\\\n\r\t\u{8}\u{c}\0\u{1f}\u{7f}", "é€😀", &every] {
        let mut out = "x".to_string();
        quote(text, &mut out);
        let quoted = &out[1..];
        assert_eq!(string(quoted).as_deref(), Some(text));
        assert_eq!(serde_json::from_str::<String>(quoted).ok().as_deref(), Some(text));
    }
    let mut out = String::new();
    quote("a\u{1}\"", &mut out);
    assert_eq!(out, r#""a\u0001\"""#);
}

#[test]
fn members_are_listed_with_duplicates_and_in_order() {
    assert_eq!(
        members(r#" {"b":1,"a":[2, 3],"\u0062":{"c":null}} "#),
        Ok(vec![
            (Cow::Borrowed("b"), "1"),
            (Cow::Borrowed("a"), "[2, 3]"),
            (Cow::Borrowed("b"), r#"{"c":null}"#),
        ])
    );
    assert_eq!(members("{}"), Ok(vec![]));
    for text in ["", "[]", "1", "{} x", r#"{"a":1"#, r#"{"a":01}"#] {
        assert!(members(text).is_err(), "{text}");
    }
}

#[test]
fn a_member_named_twice_is_found_by_its_decoded_name() {
    let rows = [
        ("{}", None),
        (r#"{"a":1,"b":2}"#, None),
        (r#"{"a":1,"b":{"a":1},"c":[{"a":1}]}"#, None),
        (r#"{"a":1,"A":2}"#, None),
        (r#"{"a":1,"b":2,"a":1}"#, Some("a")),
        (r#"{"a":1,"\u0061":2}"#, Some("a")),
        (r#"{"":1,"":2}"#, Some("")),
        ("[1,1]", None),
        ("1", None),
    ];
    for (text, expected) in rows {
        assert_eq!(duplicate_member(text).as_deref(), expected, "{text}");
    }
    let many: String = (0..50_000).map(|n| format!("\"{n}\":0,")).collect();
    assert_eq!(duplicate_member(&format!("{{{many}\"x\":0}}")), None);
    assert_eq!(duplicate_member(&format!("{{{many}\"777\":0}}")).as_deref(), Some("777"));
}

#[test]
fn kinds_are_told_by_the_first_byte() {
    let rows = [
        ("{}", Some(Kind::Object)),
        ("[]", Some(Kind::Array)),
        ("\"\"", Some(Kind::String)),
        ("-1", Some(Kind::Number)),
        ("9", Some(Kind::Number)),
        ("true", Some(Kind::Bool)),
        ("false", Some(Kind::Bool)),
        ("null", Some(Kind::Null)),
        ("", None),
        ("+1", None),
    ];
    for (text, expected) in rows {
        assert_eq!(Kind::of(text), expected, "{text}");
        assert_eq!(Reader::new(&format!(" {text}")).kind().ok(), expected, "{text}");
    }
}
