use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::*;
use crate::limits::SECRET_BYTES_MIN;

const NOW: UnixSeconds = UnixSeconds(1_800_000_000);
const SECRET: &str = "an-example-secret-of-thirty-two-bytes-or-more";
const OTHER: &str = "another-example-secret-of-more-than-32-bytes";

fn secrets(text: &str) -> Secrets {
    Secrets::parse(text).expect("long enough")
}

/// Signs any header and payload, well formed or not.
fn sign(secret: &str, header: &str, payload: &str) -> String {
    let encode = |text: &str| BASE64URL_NOPAD.encode(text.as_bytes());
    let signed = format!("{}.{}", encode(header), encode(payload));
    let signature = secrets(secret).sign(signed.as_bytes());
    format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature))
}

fn token(payload: &str) -> String {
    sign(SECRET, r#"{"alg":"HS256"}"#, payload)
}

fn check(token: &str) -> Result<Claims, TokenError> {
    verify(token, &secrets(SECRET), None, NOW)
}

/// Claims that are good, with more members at their end.
fn claims_with(more: &str) -> String {
    format!(r#"{{"sub":"c1","scope":"client agent","exp":1800000100{more}}}"#)
}

#[test]
fn a_token_made_elsewhere_is_read() {
    // Made with another program: HMAC-SHA256 of OpenSSL over the two encoded parts.
    let token = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.\
        eyJzdWIiOiJob21lOjEiLCJzY29wZSI6ImFnZW50IiwiZXhwIjoxODAwMDAwMDAwfQ.\
        AE9p0Zwccb-2Z8EfPJDz1n_ZuvNfmm9bODdajLEjzkE";
    let claims = check(token).expect("good");
    assert_eq!(
        claims,
        Claims {
            client_id: ClientId::parse("home:1").expect("good"),
            may_connect: false,
            may_call: true,
            exp: UnixSeconds(1_800_000_000),
            tools: None,
            jti: None,
        }
    );
}

#[test]
fn the_example_of_rfc_7515_is_signed_as_it_says() {
    // RFC 7515 §A.1. Its key is not text, so it enters below Secrets::parse.
    let key =
        "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
    let key = BASE64URL_NOPAD.decode(key.as_bytes()).expect("base64url");
    let signed = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.\
        eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    let secrets = Secrets::keyed(&[&key]).expect("one key");
    let signature = BASE64URL_NOPAD.encode(&secrets.sign(signed.as_bytes()));
    assert_eq!(signature, "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
    // It has no `sub`: the signature is good, and the claim is named.
    let token = format!("{signed}.{signature}");
    assert_eq!(verify(&token, &secrets, None, NOW), Err(TokenError::Missing("sub")));
}

#[test]
fn a_minted_token_says_what_was_asked_for() {
    let client_id = ClientId::parse("c@1").expect("good");
    let mint_it = Mint {
        client_id: &client_id,
        may_connect: true,
        may_call: false,
        iat: NOW,
        exp: UnixSeconds(NOW.0 + 60),
        jti: "j\"1",
        audience: Some("here"),
        tools: Some(&["get_*", "x"]),
    };
    // The first secret signs.
    let token = mint(&secrets(&format!("{SECRET} {OTHER}")), &mint_it);
    let claims = verify(&token, &secrets(SECRET), Some("here"), NOW).expect("good");
    assert_eq!(claims.client_id, client_id);
    assert_eq!((claims.may_connect, claims.may_call), (true, false));
    assert_eq!(claims.exp, mint_it.exp);
    assert_eq!(claims.jti.as_deref(), Some("j\"1"));
    assert_eq!(claims.tools, Some(["get_*".into(), "x".into()].into()));
    assert_eq!(verify(&token, &secrets(OTHER), None, NOW), Err(TokenError::Signature));

    let both = Mint { may_call: true, audience: None, tools: None, ..mint_it };
    let claims = check(&mint(&secrets(SECRET), &both)).expect("good");
    assert_eq!((claims.may_connect, claims.may_call, claims.tools), (true, true, None));
    let neither = Mint { may_connect: false, ..mint_it };
    let claims = check(&mint(&secrets(SECRET), &neither)).expect("good, but of no use");
    assert_eq!((claims.may_connect, claims.may_call), (false, false));
}

#[test]
fn any_configured_secret_may_have_signed() {
    let third = "a-third-secret-that-has-more-than-32-bytes";
    let all = secrets(&format!("{SECRET},{OTHER}\n{third}\n"));
    for secret in [SECRET, OTHER, third] {
        let token = sign(secret, r#"{"alg":"HS256"}"#, &claims_with(""));
        assert!(verify(&token, &all, None, NOW).is_ok());
    }
    let token =
        sign("some-secret-that-was-never-configured", r#"{"alg":"HS256"}"#, &claims_with(""));
    assert_eq!(verify(&token, &all, None, NOW), Err(TokenError::Signature));
}

#[test]
fn secrets_are_separated_by_blanks_or_commas_and_long_enough() {
    let of = |bytes: usize| "s".repeat(bytes);
    let good = of(SECRET_BYTES_MIN);
    for (text, expected) in [
        ("", Err(SecretError::Empty)),
        (" ,\n\t, ", Err(SecretError::Empty)),
        (&of(SECRET_BYTES_MIN - 1), Err(SecretError::TooShort { position: 1, bytes: 31 })),
        (&good, Ok("Secrets(1 hidden)")),
        (&of(SECRET_BYTES_MIN + 1), Ok("Secrets(1 hidden)")),
        (&format!("\r\n{good}\r\n{good},{good} ,{good}\t"), Ok("Secrets(4 hidden)")),
        (&format!("{good},short"), Err(SecretError::TooShort { position: 2, bytes: 5 })),
        // Bytes are counted: sixteen two-byte characters are 32.
        (&"é".repeat(16), Ok("Secrets(1 hidden)")),
    ] {
        let shown = Secrets::parse(text).map(|secrets| format!("{secrets:?}"));
        assert_eq!(shown.as_deref().map_err(|error| *error), expected, "{text:?}");
    }
    let words = SecretError::TooShort { position: 2, bytes: 5 }.to_string();
    assert!(words.contains("secret 2 has 5 bytes") && words.contains("at least 32"), "{words}");
}

#[test]
fn a_line_is_one_secret_with_its_blanks_and_commas() {
    let spaced = "a secret, of words and a comma in it";
    let lines = Secrets::parse_lines(&format!("\r\n  {spaced}\t\r\n \n{SECRET}"));
    let lines = lines.expect("two, both long enough");
    assert_eq!(format!("{lines:?}"), "Secrets(2 hidden)");
    let key = Secrets::keyed(&[spaced.as_bytes()]).expect("one");
    assert_eq!(lines.sign(b"x"), key.sign(b"x"));
    for (text, expected) in [
        ("", SecretError::Empty),
        (" \n\t\r\n", SecretError::Empty),
        (
            &format!("{SECRET}\n\n{}\n", &spaced[5..]),
            SecretError::TooShort { position: 2, bytes: 31 },
        ),
    ] {
        assert_eq!(Secrets::parse_lines(text).err(), Some(expected), "{text:?}");
    }
}

#[test]
fn only_hs256_without_crit_is_taken() {
    let payload = claims_with("");
    let rows = [
        (r#"{"alg":"HS256"}"#, None),
        (r#"{"typ":"JWT","alg":"HS256","kid":"x"}"#, None),
        (r#"{"typ":7,"alg":"HS256"}"#, None),
        (r#"{"alg":"none"}"#, Some(TokenError::Algorithm)),
        (r#"{"alg":"HS512"}"#, Some(TokenError::Algorithm)),
        (r#"{"alg":"RS256"}"#, Some(TokenError::Algorithm)),
        (r#"{"alg":"hs256"}"#, Some(TokenError::Algorithm)),
        (r#"{"alg":["HS256"]}"#, Some(TokenError::Algorithm)),
        (r#"{"alg":null}"#, Some(TokenError::Algorithm)),
        (r#"{}"#, Some(TokenError::Algorithm)),
        (r#"{"alg":"HS256","crit":["exp"]}"#, Some(TokenError::Algorithm)),
        (r#"{"alg":"HS256","crit":[]}"#, Some(TokenError::Algorithm)),
        (r#"{"alg":"none","alg":"HS256"}"#, Some(TokenError::Malformed)),
        (r#"["HS256"]"#, Some(TokenError::Malformed)),
        (r#""HS256""#, Some(TokenError::Malformed)),
        ("", Some(TokenError::Malformed)),
        ("{", Some(TokenError::Malformed)),
    ];
    for (header, expected) in rows {
        assert_eq!(check(&sign(SECRET, header, &payload)).err(), expected, "{header}");
    }
    // Unsigned, as `none` would have it.
    let signed = sign(SECRET, r#"{"alg":"none"}"#, &payload);
    let (unsigned, _) = signed.rsplit_once('.').expect("three parts");
    assert_eq!(check(&format!("{unsigned}.")), Err(TokenError::Algorithm));
}

#[test]
fn a_token_has_three_parts_of_strict_base64url() {
    let good = token(&claims_with(""));
    assert!(check(&good).is_ok());
    let parts: Vec<&str> = good.split('.').collect();
    let (header, payload, signature) = (parts[0], parts[1], parts[2]);
    let last = signature.bytes().last().expect("43 characters");
    let stray = char::from(last + 1);
    assert!(b"AEIMQUYcgkosw048".contains(&last), "canonical");
    let rows = [
        (String::new(), TokenError::Malformed),
        (".".into(), TokenError::Malformed),
        ("..".into(), TokenError::Malformed),
        (header.into(), TokenError::Malformed),
        (format!("{header}.{payload}"), TokenError::Malformed),
        (format!("{good}."), TokenError::Malformed),
        (format!("{good}.x"), TokenError::Malformed),
        (format!(".{good}"), TokenError::Malformed),
        (format!("{good}="), TokenError::Malformed),
        (format!("{good}\n"), TokenError::Malformed),
        (format!(" {good}"), TokenError::Malformed),
        (format!("Bearer {good}"), TokenError::Malformed),
        (format!("{header}=.{payload}.{signature}"), TokenError::Malformed),
        (format!("{header}.{payload}+/.{signature}"), TokenError::Malformed),
        (format!("{header}.{payload}.é"), TokenError::Malformed),
        (format!("{header}.{payload}."), TokenError::Signature),
        (format!("{header}..{signature}"), TokenError::Signature),
        (format!("{header}.{payload}.{}", &signature[..40]), TokenError::Signature),
        (format!("{header}.{payload}.{signature}AAAA"), TokenError::Signature),
        // 43 characters have two bits to spare: the same bytes, written differently.
        (format!("{header}.{payload}.{}{stray}", &signature[..42]), TokenError::Malformed),
        (format!("{header}.{payload}.{}AAA", &signature[..42]), TokenError::Malformed),
    ];
    for (token, expected) in rows {
        let error = check(&token).expect_err("not a token");
        assert_eq!(error, expected, "{token:?}");
    }
}

#[test]
fn changing_any_character_spoils_a_token() {
    let good = token(&claims_with(""));
    for at in 0..good.len() {
        for with in "AQgwZz09-_.=!".chars() {
            let mut changed: Vec<char> = good.chars().collect();
            if changed[at] == with {
                continue;
            }
            changed[at] = with;
            let changed: String = changed.into_iter().collect();
            let error = check(&changed).expect_err("changed");
            let early = [TokenError::Malformed, TokenError::Algorithm, TokenError::Signature]
                .contains(&error);
            assert!(early, "at {at}, {with}: {error:?}");
        }
        assert!(check(&good[..at]).is_err(), "cut at {at}");
    }
}

#[test]
fn every_claim_is_checked_and_named() {
    let wrong = |claim, expected, got| Some(TokenError::Type { claim, expected, got });
    let number = "a number";
    let string = "a string";
    let rows = [
        (r#"{"sub":"a","scope":"agent","exp":1800000000}"#, None),
        (r#" { "exp" : 1800000000 , "sub" : "a" , "scope" : "" } "#, None),
        (r#"{"sub":"a","scope":"agent","exp":1800000000,"x":{"y":1,"z":[{"y":":"}]}}"#, None),
        (r#"{"sub":"a","scope":"agent","exp":1800000000,"aud":7,"iat":"x","iss":null}"#, None),
        (r#"[]"#, Some(TokenError::NotAnObject)),
        (r#""a""#, Some(TokenError::NotAnObject)),
        ("", Some(TokenError::NotAnObject)),
        (r#"{"sub":"a""#, Some(TokenError::NotAnObject)),
        (r#"{"sub":"a"}x"#, Some(TokenError::NotAnObject)),
        (r#"{"sub":"a","scope":"agent","exp":1e400}"#, Some(TokenError::NotAnObject)),
        (r#"{"sub":"a","scope":"agent","exp":1,"exp":1800000000}"#, Some(TokenError::Duplicate)),
        (r#"{"sub":"a","scope":"a","exp":1,"e\u0078p":2}"#, Some(TokenError::Duplicate)),
        (r#"{"sub":"a","scope":"a","exp":1,"x\":":1,"x\":":1}"#, Some(TokenError::Duplicate)),
        (r#"{}"#, Some(TokenError::Missing("sub"))),
        (r#"{"scope":"agent","exp":1}"#, Some(TokenError::Missing("sub"))),
        (r#"{"sub":"a","exp":1}"#, Some(TokenError::Missing("scope"))),
        (r#"{"sub":"a","scope":"agent"}"#, Some(TokenError::Missing("exp"))),
        (r#"{"sub":7,"scope":"agent","exp":1}"#, wrong("sub", string, "a number")),
        (r#"{"sub":null,"scope":"agent","exp":1}"#, wrong("sub", string, "null")),
        (r#"{"sub":"a","scope":["agent"],"exp":1}"#, wrong("scope", string, "an array")),
        (r#"{"sub":"a","scope":"agent","exp":"1"}"#, wrong("exp", number, "a string")),
        (r#"{"sub":"a","scope":"agent","exp":true}"#, wrong("exp", number, "a boolean")),
        (r#"{"sub":"a","scope":"agent","exp":-1}"#, Some(TokenError::Negative("exp"))),
        (r#"{"sub":"a","scope":"agent","exp":-0.5}"#, Some(TokenError::Negative("exp"))),
        (r#"{"sub":"a","scope":"agent","exp":-1e300}"#, Some(TokenError::Negative("exp"))),
        (r#"{"sub":"a","scope":"a","exp":1,"nbf":{}}"#, wrong("nbf", number, "an object")),
        (r#"{"sub":"a","scope":"a","exp":1,"nbf":-1}"#, Some(TokenError::Negative("nbf"))),
        (
            r#"{"sub":"a","scope":"a","exp":1,"tools":"x"}"#,
            wrong("tools", "an array of strings", "a string"),
        ),
        (r#"{"sub":"a","scope":"a","exp":1,"tools":["x",1]}"#, wrong("tools[]", string, number)),
        (r#"{"sub":"","scope":"a","exp":1}"#, Some(TokenError::ClientId(ClientIdError::Empty))),
        (
            r#"{"sub":"a/b","scope":"a","exp":1}"#,
            Some(TokenError::ClientId(ClientIdError::Character(2))),
        ),
    ];
    for (payload, expected) in rows {
        assert_eq!(check(&token(payload)).err(), expected, "{payload}");
    }
}

#[test]
fn claims_that_are_not_utf_8_are_refused() {
    let mut signed = BASE64URL_NOPAD.encode(br#"{"alg":"HS256"}"#);
    signed.push('.');
    BASE64URL_NOPAD.encode_append(b"{\"sub\":\"\xff\"}", &mut signed);
    let signature = secrets(SECRET).sign(signed.as_bytes());
    let token = format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature));
    assert_eq!(check(&token), Err(TokenError::NotAnObject));
}

#[test]
fn scopes_are_words_between_spaces() {
    for (scope, may_connect, may_call) in [
        ("client", true, false),
        ("agent", false, true),
        ("agent client", true, true),
        (" other  agent ", false, true),
        ("agents clients", false, false),
        ("agent,client", false, false),
        ("AGENT Client", false, false),
        ("", false, false),
    ] {
        let token = token(&format!(r#"{{"sub":"a","scope":"{scope}","exp":1800000000}}"#));
        let claims = check(&token).expect("good");
        assert_eq!((claims.may_connect, claims.may_call), (may_connect, may_call), "{scope:?}");
    }
}

#[test]
fn an_audience_is_asked_for_only_when_one_is_set() {
    let wrong = |claim, expected, got| Some(Err(TokenError::Type { claim, expected, got }));
    // `Some(Ok)` is accepted with the audience `here`; without one, every row is.
    let rows = [
        (r#","aud":"here""#, None),
        (r#","aud":["there","here"]"#, None),
        (r#","aud":"there""#, Some(Err(TokenError::Audience))),
        (r#","aud":"here.""#, Some(Err(TokenError::Audience))),
        (r#","aud":[]"#, Some(Err(TokenError::Audience))),
        (r#","aud":["there"]"#, Some(Err(TokenError::Audience))),
        ("", Some(Err(TokenError::Missing("aud")))),
        (r#","aud":7"#, wrong("aud", "a string or an array of strings", "a number")),
        (r#","aud":["here",7]"#, wrong("aud[]", "a string", "a number")),
    ];
    for (more, expected) in rows {
        let token = token(&claims_with(more));
        let expected: Result<(), TokenError> = expected.unwrap_or(Ok(()));
        let verified = verify(&token, &secrets(SECRET), Some("here"), NOW).map(|_| ());
        assert_eq!(verified, expected, "{more}");
        assert!(check(&token).is_ok(), "{more}");
    }
}

#[test]
fn exp_is_honoured_with_60_seconds_of_leeway() {
    let now = NOW.0;
    let rows = [
        (format!("{}", now + 1000), true),
        (format!("{}", now - 30), true),
        (format!("{}", now - 57), true),
        (format!("{}", now - 59), true),
        (format!("{}", now - 60), false),
        (format!("{}", now - 61), false),
        (format!("{}", now - 120), false),
        // Fractions are cut off, exponents are numbers like others.
        (format!("{}.5", now - 59), true),
        (format!("{}.999", now - 60), false),
        ("1.8e9".into(), true),
        ("1.7e9".into(), false),
        ("0".into(), false),
        ("-0".into(), false),
        ("7258118400".into(), true), // the year 2200
        ("18446744073709551615".into(), true),
        ("18446744073709551616".into(), true),
        ("1e300".into(), true),
    ];
    for (exp, good) in rows {
        let payload = format!(r#"{{"sub":"a","scope":"agent","exp":{exp}}}"#);
        match check(&token(&payload)) {
            Ok(claims) => assert!(good && claims.ends_at() > NOW, "{exp}"),
            Err(error) => {
                assert!(!good && matches!(error, TokenError::Expired { .. }), "{exp}: {error}")
            }
        }
    }
}

#[test]
fn a_token_ends_at_exp_and_leeway_without_overflow() {
    let at = |exp: &str| {
        let payload = format!(r#"{{"sub":"a","scope":"agent","exp":{exp}}}"#);
        check(&token(&payload)).expect("good").ends_at()
    };
    assert_eq!(at("1800000000"), UnixSeconds(1_800_000_060));
    assert_eq!(at("18446744073709551600"), UnixSeconds(u64::MAX));
    assert_eq!(at("1e300"), UnixSeconds(u64::MAX));
    // The last second of the clock is no reason to panic either.
    let last = verify(&token(&claims_with("")), &secrets(SECRET), None, UnixSeconds(u64::MAX));
    assert!(matches!(last, Err(TokenError::Expired { .. })));
}

#[test]
fn nbf_is_honoured_with_60_seconds_of_leeway() {
    let now = NOW.0;
    let rows = [
        ("0".to_string(), true),
        (format!("{now}"), true),
        (format!("{}", now + 30), true),
        (format!("{}", now + 59), true),
        (format!("{}", now + 60), true),
        (format!("{}", now + 61), false),
        (format!("{}", now + 120), false),
        (format!("{}.5", now + 59), true),
        (format!("{}.5", now + 60), false),
        ("1e300".into(), false),
    ];
    for (nbf, good) in rows {
        let verified = check(&token(&claims_with(&format!(r#","nbf":{nbf}"#))));
        match verified {
            Ok(_) => assert!(good, "{nbf}"),
            Err(error) => {
                assert!(!good && matches!(error, TokenError::NotYet { .. }), "{nbf}: {error}")
            }
        }
    }
}

#[test]
fn a_token_over_4096_characters_is_not_looked_at() {
    // Base64 grows by four characters for three bytes, so a longer `jti` and header make any length.
    let of = |length: usize| {
        (0..4).find_map(|blanks| {
            (2500..3100)
                .map(|filler| {
                    let header = format!(r#"{{"alg":"HS256"}}{}"#, " ".repeat(blanks));
                    let jti = "x".repeat(filler);
                    sign(SECRET, &header, &claims_with(&format!(r#","jti":"{jti}""#)))
                })
                .find(|token| token.len() == length)
        })
    };
    for (length, good) in [(4095, true), (4096, true), (4097, false)] {
        let token = of(length).expect("some filler makes that length");
        match check(&token) {
            Ok(_) => assert!(good, "{length}"),
            Err(error) => assert!(!good && error == TokenError::TooLong, "{length}: {error}"),
        }
    }
    assert_eq!(check(&"é".repeat(4096)), Err(TokenError::TooLong));
}

#[test]
fn the_words_say_what_to_do_and_never_repeat_the_token() {
    let (exp, now) = (UnixSeconds(1_799_999_000), NOW);
    let expired = TokenError::Expired { exp, now }.to_string();
    assert!(
        expired.contains("expired at 2027-01-15T07:43:20Z, now 2027-01-15T08:00:00Z"),
        "{expired}"
    );
    let not_yet = TokenError::NotYet { nbf: now, now: exp }.to_string();
    assert!(not_yet.contains("before 2027-01-15T08:00:00Z, now 2027-01-15T07:43:20Z"), "{not_yet}");
    let wrong =
        TokenError::Type { claim: "exp", expected: "a number", got: "a string" }.to_string();
    assert_eq!(wrong, "the token's `exp` must be a number, got a string");
    for payload in [
        r#"{"sub":"PRIVATE/","scope":"PRIVATE","exp":1}"#,
        r#"{"sub":"PRIVATE","scope":"PRIVATE","exp":"PRIVATE"}"#,
        r#"{"sub":"PRIVATE","scope":"PRIVATE","exp":9e9,"tools":["PRIVATE",{"PRIVATE":1}]}"#,
        r#"{"PRIVATE":1,"PRIVATE":2}"#,
        r#"{"PRIVATE"#,
        r#"{"sub":"PRIVATE","scope":"PRIVATE","exp":9e9,"aud":"PRIVATE"}"#,
    ] {
        let error = verify(&token(payload), &secrets(SECRET), Some("here"), NOW).expect_err("bad");
        assert!(!format!("{error} {error:?}").contains("PRIVATE"), "{error}");
    }
}

#[test]
fn a_token_limits_its_bearer_to_the_tools_it_names() {
    let with = |tools: &str| check(&token(&claims_with(tools))).expect("good");
    assert!(with("").allows_tool("anything"));
    assert!(!with(r#","tools":[]"#).allows_tool("anything"));
    let claims = with(r#","tools":["read_*","echo"]"#);
    for (name, allowed) in
        [("read_", true), ("read_x", true), ("echo", true), ("echo2", false), ("write", false)]
    {
        assert_eq!(claims.allows_tool(name), allowed, "{name}");
    }
}

#[test]
fn a_star_stands_for_anything_and_all_else_for_itself() {
    let rows = [
        ("", "", true),
        ("", "a", false),
        ("a", "a", true),
        ("a", "A", false),
        ("a", "ab", false),
        ("*", "", true),
        ("*", "abc", true),
        ("**", "", true),
        ("***", "abc", true),
        ("a*", "a", true),
        ("a*", "ba", false),
        ("*a", "ba", true),
        ("*a", "ab", false),
        ("a*a", "a", false),
        ("a*a", "aa", true),
        ("aa*aa", "aaa", false),
        ("a*b*c", "abc", true),
        ("a*b*c", "axxbxxc", true),
        ("a*b*c", "acb", false),
        ("*ab*ab*", "abab", true),
        ("*ab*ab*", "aab", false),
        ("*ab*b", "ab", false),
        ("a?c", "abc", false),
        ("a.c", "abc", false),
        ("[a]", "a", false),
        ("é*é", "é日é", true),
    ];
    for (pattern, name, expected) in rows {
        assert_eq!(glob(pattern, name), expected, "{pattern:?} on {name:?}");
    }
}

/// The definition, at exponential cost: the judge of the fast one.
fn slow_glob(pattern: &[u8], name: &[u8]) -> bool {
    match pattern {
        [] => name.is_empty(),
        [b'*', rest @ ..] => (0..=name.len()).any(|skip| slow_glob(rest, &name[skip..])),
        [first, rest @ ..] => name.first() == Some(first) && slow_glob(rest, &name[1..]),
    }
}

#[test]
fn glob_agrees_with_its_definition_on_all_short_texts() {
    let words = |letters: &str, longest: u32| -> Vec<String> {
        let count = letters.len();
        (0..=longest)
            .flat_map(|length| {
                (0..count.pow(length)).map(move |mut n| {
                    let mut word = String::new();
                    for _ in 0..length {
                        word.push(char::from(letters.as_bytes()[n % count]));
                        n /= count;
                    }
                    word
                })
            })
            .collect()
    };
    for pattern in words("ab*", 6) {
        for name in words("ab", 5) {
            let expected = slow_glob(pattern.as_bytes(), name.as_bytes());
            assert_eq!(glob(&pattern, &name), expected, "{pattern:?} on {name:?}");
        }
    }
}

#[test]
fn glob_stays_fast_on_patterns_made_to_be_slow() {
    // A backtracking matcher would not come back from this.
    let name = "a".repeat(50_000);
    assert!(!glob(&format!("{}b", "*a".repeat(2_000)), &name));
    assert!(!glob(&format!("{}b*", "*aaaaaaaaaaaaaaa".repeat(500)), &name));
    assert!(glob(&"*a".repeat(2_000), &name));
}
