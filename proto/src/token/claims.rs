//! The claims of a token whose signature is good: read strictly, each refusal naming its claim.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::{Map, Value};

use super::{Claims, TokenError};
use crate::client_id::ClientId;
use crate::limits::TOKEN_LEEWAY;
use crate::time::UnixSeconds;

/// Parses a JSON object, and refuses one that names a member twice.
pub(super) fn object(json: &[u8]) -> Result<Map<String, Value>, TokenError> {
    let map: Map<String, Value> =
        serde_json::from_slice(json).map_err(|_| TokenError::NotAnObject)?;
    // A map keeps the last of two equal names, so fewer members than were written means a duplicate.
    if map.len() == members(json) { Ok(map) } else { Err(TokenError::Duplicate) }
}

/// Counts the members of a JSON object, which must be well formed: colons outside of strings and of
/// inner objects.
fn members(json: &[u8]) -> usize {
    let (mut count, mut depth, mut in_string, mut escaped) = (0, 0, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b':' if depth == 1 => count += 1,
            _ => {}
        }
    }
    count
}

/// Reads the claims. What is wrong with them comes before what is wrong with the time.
pub(super) fn read(
    claims: &Map<String, Value>,
    audience: Option<&str>,
    now: UnixSeconds,
) -> Result<Claims, TokenError> {
    let sub = string(claims, "sub")?.ok_or(TokenError::Missing("sub"))?;
    let client_id = ClientId::parse(sub).map_err(TokenError::ClientId)?;
    let scope = string(claims, "scope")?.ok_or(TokenError::Missing("scope"))?;
    let has_scope = |wanted| scope.split(' ').any(|one| one == wanted);
    let exp = date(claims, "exp")?.ok_or(TokenError::Missing("exp"))?;
    let nbf = date(claims, "nbf")?;
    let found = Claims {
        client_id,
        may_connect: has_scope("client"),
        may_call: has_scope("agent"),
        // Cut off, while `nbf` is rounded up: a token never lives longer than it says.
        exp: UnixSeconds(exp.whole),
        tools: tools(claims)?,
        jti: claims.get("jti").and_then(Value::as_str).map(Box::from),
    };
    if let Some(wanted) = audience
        && !is_for(claims, wanted)?
    {
        return Err(TokenError::Audience);
    }
    if now >= found.ends_at() {
        return Err(TokenError::Expired { exp: found.exp, now });
    }
    if let Some(nbf) = nbf {
        let nbf = UnixSeconds(nbf.whole.saturating_add(u64::from(nbf.has_fraction)));
        if now.0.saturating_add(TOKEN_LEEWAY.as_secs()) < nbf.0 {
            return Err(TokenError::NotYet { nbf, now });
        }
    }
    Ok(found)
}

fn string<'a>(
    claims: &'a Map<String, Value>,
    claim: &'static str,
) -> Result<Option<&'a str>, TokenError> {
    match claims.get(claim) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(wrong(claim, "a string", other)),
    }
}

/// A `NumericDate` (RFC 7519 §2): seconds, fractions allowed. One beyond what fits is the largest
/// there is.
struct Date {
    whole: u64,
    has_fraction: bool,
}

fn date(claims: &Map<String, Value>, claim: &'static str) -> Result<Option<Date>, TokenError> {
    let number = match claims.get(claim) {
        None => return Ok(None),
        Some(Value::Number(number)) => number,
        Some(other) => return Err(wrong(claim, "a number", other)),
    };
    if let Some(whole) = number.as_u64() {
        return Ok(Some(Date { whole, has_fraction: false }));
    }
    // Neither NaN nor infinite: JSON has no such numbers, and serde_json refuses those it would round
    // to infinity.
    let seconds = number.as_f64().unwrap_or(-1.0);
    if seconds < 0.0 {
        return Err(TokenError::Negative(claim));
    }
    // `as` cuts off the fraction and stops at the largest integer.
    let whole = seconds as u64;
    Ok(Some(Date { whole, has_fraction: (whole as f64) < seconds }))
}

fn tools(claims: &Map<String, Value>) -> Result<Option<Box<[Box<str>]>>, TokenError> {
    let list = match claims.get("tools") {
        None => return Ok(None),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(wrong("tools", "an array of strings", other)),
    };
    let pattern = |one: &Value| match one {
        Value::String(pattern) => Ok(Box::from(pattern.as_str())),
        other => Err(wrong("tools[]", "a string", other)),
    };
    list.iter().map(pattern).collect::<Result<Vec<_>, _>>().map(|list| Some(list.into()))
}

/// RFC 7519 §4.1.3: `aud` is one string or an array of them.
fn is_for(claims: &Map<String, Value>, wanted: &str) -> Result<bool, TokenError> {
    match claims.get("aud") {
        None => Err(TokenError::Missing("aud")),
        Some(Value::String(one)) => Ok(one == wanted),
        Some(Value::Array(list)) => list.iter().try_fold(false, |found, one| match one {
            Value::String(one) => Ok(found || one == wanted),
            other => Err(wrong("aud[]", "a string", other)),
        }),
        Some(other) => Err(wrong("aud", "a string or an array of strings", other)),
    }
}

fn wrong(claim: &'static str, expected: &'static str, got: &Value) -> TokenError {
    let got = match got {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    TokenError::Type { claim, expected, got }
}
