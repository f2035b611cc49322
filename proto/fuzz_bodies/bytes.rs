//! The parsers: request framing, the JSON scanner, tokens, header values.

use std::borrow::Cow;

use clientmcp_proto::client_id::ClientId;
use clientmcp_proto::headers::{check_name, check_params, decode, param_headers};
use clientmcp_proto::http1::{BodyDecoder, BodyKind, Head, HeadReader, Limits, head};
use clientmcp_proto::json::{self, Kind, Reader};
use clientmcp_proto::limits::JSON_DEPTH_MAX;
use clientmcp_proto::time::UnixSeconds;
use clientmcp_proto::token::{Claims, Mint, Secrets, TokenError, mint, verify};
use data_encoding::{BASE64, BASE64URL_NOPAD};
use hmac::{Hmac, KeyInit, Mac};
use serde::de::{MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::Sha256;

use super::judge;

/// Small, so that short inputs reach them.
const LIMITS: Limits = Limits { head_bytes_max: 2048, headers_max: 24 };
const BODY_BYTES_MAX: usize = 512;

/// The bytes of a connection: requests one behind the other, as many as are good.
pub fn http1(data: &[u8]) {
    let mut rest = data;
    for _ in 0..8 {
        let Some(head) = one_head(rest) else { return };
        let Some(bytes) = one_body(head.body, &rest[head.bytes..]) else { return };
        rest = &rest[head.bytes + bytes..];
    }
}

/// However a head is cut, it is the same head or none; and what async-h1 is given says the same.
fn one_head(bytes: &[u8]) -> Option<Head> {
    let whole = head(bytes, &LIMITS);
    let mut reader = HeadReader::default();
    let mut sliced = Ok(None);
    for end in 1..=bytes.len() {
        sliced = reader.read(&bytes[..end], &LIMITS);
        if !matches!(sliced, Ok(None)) {
            break;
        }
    }
    match (&whole, &sliced) {
        (Ok(whole), Ok(sliced)) => assert_eq!(whole, sliced, "a head depends on how it is cut"),
        // Which of several faults is told may depend on it.
        (Err(_), Err(_)) => {}
        _ => panic!("taken or refused by how it is cut: {whole:?} {sliced:?}"),
    }
    let head = whole.ok().flatten()?;
    assert!(head.bytes <= LIMITS.head_bytes_max && head.bytes <= bytes.len());
    let alone = self::head(&bytes[..head.bytes], &LIMITS);
    assert_eq!(alone, Ok(Some(head.clone())), "what follows a head is no part of it");
    normalised(&head, bytes);
    Some(head)
}

fn normalised(first: &Head, bytes: &[u8]) {
    let normalised = first.normalised(bytes);
    assert!(normalised.head.len() < 8 << 10);
    let again = head(&normalised.head, &Limits { head_bytes_max: 8 << 10, headers_max: 128 });
    let again = again.expect("what we write is well formed").expect("and complete");
    let text = &normalised.head[..];
    assert_eq!(again.bytes, text.len());
    assert_eq!(again.body, BodyKind::None);
    assert!(again.keep_alive && !again.upgrade && !again.expects_continue && !again.http_10);
    assert_eq!(again.method(text), first.method(bytes));
    match first.target(bytes) {
        "*" => assert_eq!(again.target(text), "/*"),
        target => assert_eq!(again.target(text), target),
    }
    let host = again.host(text).expect("a host is always there");
    assert!(host == "host.invalid" || first.host(bytes) == Some(host), "{host}");
    let dropped = [
        "host content-length transfer-encoding te trailer expect connection keep-alive",
        "proxy-connection upgrade",
    ];
    let dropped: Vec<&str> = dropped.iter().flat_map(|names| names.split(' ')).collect();
    let is_kept = |name: &str| !dropped.contains(&&*name.to_ascii_lowercase());
    let mut kept = again.fields(text).filter(|(name, _)| is_kept(name)).peekable();
    let mut left_out = normalised.left_out.iter().copied().peekable();
    for field in first.fields(bytes).filter(|(name, _)| is_kept(name)) {
        let found = kept.next_if_eq(&field).or_else(|| left_out.next_if_eq(&field));
        assert_eq!(found, Some(field), "a field is lost");
    }
    assert_eq!((kept.next(), left_out.next()), (None, None), "a field from nowhere");
}

/// However a body is cut, its content and its end are the same. Its length on the wire, if it is whole.
fn one_body(kind: BodyKind, bytes: &[u8]) -> Option<usize> {
    let decoder = BodyDecoder::new(kind, BODY_BYTES_MAX).ok()?;
    let (mut whole, mut content) = (decoder.clone(), Vec::new());
    let taken = whole.feed(bytes, &mut content);
    let (mut sliced, mut gathered) = (decoder, Vec::new());
    let mut count = 0;
    for byte in bytes {
        match sliced.feed(&[*byte], &mut gathered) {
            Ok(1) => count += 1,
            Ok(_) => break,
            Err(refusal) => {
                assert_eq!(taken, Err(refusal), "refused by how it is cut");
                return None;
            }
        }
    }
    assert_eq!(taken, Ok(count));
    assert_eq!((&content, whole.done()), (&gathered, sliced.done()));
    assert!(content.len() <= BODY_BYTES_MAX);
    assert!(whole.done() || count == bytes.len(), "an unfinished body wants all there is");
    if whole.done() {
        assert_eq!(whole.feed(b"more", &mut content), Ok(0), "a body that is over takes no more");
    }
    whole.done().then_some(count)
}

/// A text that is or is not JSON: our scanner and serde_json must agree, down to the slices.
pub fn json(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let mut quoted = String::new();
    json::quote(text, &mut quoted);
    assert_eq!(serde_json::from_str::<String>(&quoted).ok().as_deref(), Some(text));
    assert_eq!(json::exact_string(&quoted).as_deref(), Some(text));

    let mut reader = Reader::new(text);
    let ours = reader.value().and_then(|raw| reader.end().map(|()| raw));
    let walked = walk(text);
    assert_eq!(ours.is_ok(), walked.is_ok(), "passed and walked: {ours:?} {walked:?}");
    assert_eq!(ours.is_ok(), json::validate(text).is_ok());
    match (judge(text), ours) {
        (Some(theirs), Ok(ours)) => {
            assert_eq!(theirs, ours);
            one_value(ours);
        }
        (None, Err(error)) => assert!(error.offset <= text.len(), "{error}"),
        (Some(_), Err(error)) => {
            assert!(depth(text) > JSON_DEPTH_MAX, "serde_json takes what we refuse: {error}");
        }
        (None, Ok(_)) => panic!("serde_json refuses what we take"),
    }
}

/// Goes through a text with every step the reader has.
fn walk(text: &str) -> Result<(), json::Error> {
    fn step(reader: &mut Reader<'_>) -> Result<(), json::Error> {
        match reader.kind()? {
            Kind::Object => {
                reader.enter_object()?;
                while reader.key()?.is_some() {
                    step(reader)?;
                }
            }
            Kind::Array => {
                reader.enter_array()?;
                while reader.item()? {
                    step(reader)?;
                }
            }
            _ => drop(reader.value()?),
        }
        Ok(())
    }
    let mut reader = Reader::new(text);
    step(&mut reader)?;
    reader.end()
}

/// The deepest nesting of a text that is JSON.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth -= 1,
            _ => {}
        }
    }
    deepest
}

/// A value both have taken: its kind, its text, its members.
fn one_value(raw: &str) {
    let kind = Kind::of(raw).expect("a value has a kind");
    let text = serde_json::from_str::<String>(raw).ok();
    assert_eq!(json::exact_string(raw).as_deref(), text.as_deref());
    assert_eq!(json::string(raw).is_some(), kind == Kind::String);
    if let Some(text) = &text {
        assert_eq!(json::string(raw).as_deref(), Some(&**text));
    }
    assert_eq!(json::members(raw).is_ok(), kind == Kind::Object);
    let Ok(ours) = json::members(raw) else { return };
    // Names with half a surrogate pair are beyond serde_json.
    let Ok(Members(theirs)) = serde_json::from_str::<Members<'_>>(raw) else { return };
    assert_eq!(ours.len(), theirs.len());
    for ((name, value), (their_name, their_value)) in ours.iter().zip(&theirs) {
        assert_eq!((&**name, *value), (&**their_name, their_value.get()));
        assert!(raw.as_bytes().as_ptr_range().contains(&value.as_ptr()), "a slice, not a copy");
    }
    let mut names: Vec<&str> = theirs.iter().map(|(name, _)| &**name).collect();
    names.sort_unstable();
    let twice = names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    assert_eq!(json::duplicate_member(raw).as_deref(), twice);
}

/// Every member of an object, as serde_json reads them.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'a> serde::Deserialize<'a> for Members<'a> {
    fn deserialize<D: serde::Deserializer<'a>>(from: D) -> Result<Members<'a>, D::Error> {
        struct All;
        impl<'a> Visitor<'a> for All {
            type Value = Members<'a>;
            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("an object")
            }
            fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<Members<'a>, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(All)
    }
}

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const OTHER: &str = "another-secret-that-is-long-enough!";
const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

/// The first byte says what the others are: a token, changes to a good one, or claims that are signed.
pub fn token(data: &[u8]) {
    let Some((mode, rest)) = data.split_first() else { return };
    let secrets = Secrets::parse(&format!("{OTHER},{SECRET}")).expect("two good secrets");
    match mode % 3 {
        0 => {
            let text = String::from_utf8_lossy(rest);
            for audience in [None, Some("us")] {
                drop(verify(&text, &secrets, audience, NOW).map_err(|error| format!("{error:?}")));
            }
        }
        1 => changed_token(rest, &secrets),
        _ => signed_claims(rest, &secrets),
    }
}

/// Three bytes are one change: where, what kind, and which character.
fn changed_token(changes: &[u8], secrets: &Secrets) {
    let client_id = ClientId::parse("kitchen").expect("a client ID");
    let claims = Mint {
        client_id: &client_id,
        may_connect: false,
        may_call: true,
        iat: NOW,
        exp: UnixSeconds(NOW.0 + 60),
        jti: "j",
        audience: None,
        tools: Some(&["a*"]),
    };
    let good = mint(secrets, &claims);
    let mut bytes = good.clone().into_bytes();
    for change in changes.chunks_exact(3).take(16) {
        let at = usize::from(change[0]) * bytes.len().saturating_sub(1) / 255;
        match change[1] % 4 {
            0 if !bytes.is_empty() => bytes[at] = change[2],
            1 => bytes.insert(at, change[2]),
            2 if !bytes.is_empty() => drop(bytes.remove(at)),
            _ => bytes.truncate(at),
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    match verify(&text, secrets, None, NOW) {
        Ok(found) => {
            assert_eq!(text, good, "a changed token was taken");
            let tools: Option<Box<[Box<str>]>> = Some(Box::new(["a*".into()]));
            let jti = Some("j".into());
            let (may_connect, may_call, exp) = (false, true, claims.exp);
            let expected = Claims { client_id, may_connect, may_call, exp, tools, jti };
            assert_eq!(found, expected);
        }
        Err(error) => assert_ne!(text, good, "a good token was refused: {error:?}"),
    }
}

/// Header and claims, a line each, signed as they are.
fn signed_claims(data: &[u8], secrets: &Secrets) {
    let (header, payload) = match data.iter().position(|byte| *byte == b'\n') {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (&b"{\"alg\":\"HS256\"}"[..], data),
    };
    let signed = [header, payload].map(|part| BASE64URL_NOPAD.encode(part)).join(".");
    let mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("a key of any length");
    let signature = mac.chain_update(&signed).finalize().into_bytes();
    let token = format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature));
    for audience in [None, Some("us")] {
        match verify(&token, secrets, audience, NOW) {
            Ok(claims) => agrees_with(&claims, header, payload, audience),
            Err(error) => assert_ne!(error, TokenError::Signature),
        }
    }
}

/// What was taken is what serde_json reads, and good by RFC 7519.
fn agrees_with(claims: &Claims, header: &[u8], payload: &[u8], audience: Option<&str>) {
    let header: Value = serde_json::from_slice(header).expect("a header that was taken");
    assert_eq!(header["alg"], "HS256");
    assert!(header.get("crit").is_none());
    let Members(members) = serde_json::from_slice(payload).expect("claims that were taken");
    let value: Value = serde_json::from_slice(payload).expect("claims that were taken");
    assert_eq!(members.len(), value.as_object().map_or(0, |map| map.len()), "a claim twice");
    assert_eq!(value["sub"], claims.client_id.as_str());
    let scopes: Vec<&str> = value["scope"].as_str().expect("a scope").split(' ').collect();
    assert_eq!(claims.may_connect, scopes.contains(&"client"));
    assert_eq!(claims.may_call, scopes.contains(&"agent"));
    let exp = value["exp"].as_f64().expect("a number");
    assert!(exp >= 0.0 && NOW.0 < claims.exp.0.saturating_add(60) && claims.exp.0 as f64 <= exp);
    let nbf = value.get("nbf").map_or(0.0, |nbf| nbf.as_f64().expect("a number"));
    assert!(nbf <= (NOW.0 + 60) as f64, "not yet good");
    if let Some(audience) = audience {
        let aud = &value["aud"];
        let holds = aud.as_array().is_some_and(|list| list.iter().any(|one| one == audience));
        assert!(aud == audience || holds, "for someone else");
    }
    assert_eq!(claims.tools.is_some(), value.get("tools").is_some());
}

/// Four lines: a field value, a name, a tool's schema, its arguments.
pub fn headers(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let mut lines = text.splitn(4, '\n');
    let mut line = || lines.next().unwrap_or("");
    let (field, name, schema, arguments) = (line(), line(), line(), line());

    let wrapped = format!("=?base64?{}?=", BASE64.encode(name.as_bytes()));
    assert_eq!(decode(&wrapped).as_deref(), Ok(name), "whatever is wrapped comes out again");
    assert_eq!(check_name(Some(&wrapped), name), Ok(()));
    match decode(field) {
        Ok(Cow::Borrowed(text)) => assert_eq!(text, field.trim_matches([' ', '\t'])),
        Ok(Cow::Owned(text)) => {
            let again = format!("=?base64?{}?=", BASE64.encode(text.as_bytes()));
            assert_eq!(again, field.trim_matches([' ', '\t']), "one spelling only");
        }
        Err(_) => assert!(check_name(Some(field), name).is_err()),
    }
    assert_eq!(check_name(Some(field), name).is_ok(), decode(field).as_deref() == Ok(name));

    let Ok(params) = param_headers(schema) else { return };
    let mut names: Vec<String> = params.iter().map(|one| one.field.to_ascii_lowercase()).collect();
    assert!(names.iter().all(|name| name.len() > "mcp-param-".len()));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), params.len(), "two parameters share a field");
    if judge(arguments).is_none() {
        return;
    }
    drop(check_params(&params, Some(arguments), &|_| Some(field.into())));
    // Written anew no name stands twice, and every number is in a form that agents send.
    let Ok(value) = serde_json::from_str::<Value>(arguments) else { return };
    let arguments = value.to_string();
    let sent: Option<Vec<Option<String>>> =
        params.iter().map(|one| mirror(&value, &one.path)).collect();
    let Some(sent) = sent else { return };
    let find = |values: &[Option<String>], name: &str| {
        let at = params.iter().position(|one| &*one.field == name)?;
        values[at].clone().map(Cow::Owned)
    };
    let right = check_params(&params, Some(&arguments), &|name| find(&sent, name));
    assert_eq!(right, Ok(()), "a faithful agent is refused");
    for at in 0..params.len() {
        let mut wrong = sent.clone();
        wrong[at] = match &sent[at] {
            Some(_) => None,
            None => Some("1".to_owned()),
        };
        let result = check_params(&params, Some(&arguments), &|name| find(&wrong, name));
        assert!(result.is_err(), "a field that does not fit is taken");
    }
}

/// What an agent sends for the argument at a path: none of the inner option for none, none of the outer
/// one for what cannot be sent.
fn mirror(arguments: &Value, path: &[Box<str>]) -> Option<Option<String>> {
    let mut value = Some(arguments);
    for name in path {
        value = value.and_then(Value::as_object).and_then(|object| object.get(&**name));
    }
    match value {
        None | Some(Value::Null) => Some(None),
        Some(Value::String(text)) => {
            Some(Some(format!("=?base64?{}?=", BASE64.encode(text.as_bytes()))))
        }
        Some(Value::Number(number)) => Some(Some(number.to_string())),
        Some(Value::Bool(is)) => Some(Some(is.to_string())),
        Some(Value::Array(_) | Value::Object(_)) => None,
    }
}
