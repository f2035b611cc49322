//! The values of `Mcp-Name` and `Mcp-Param-*` (MCP 2026-07-28, Streamable HTTP, Value Encoding and
//! Server Validation): decoding them and comparing them with the body of the request.
//!
//! Which parameters of a tool are mirrored is read from its schema in `headers/schema.rs`. Nothing
//! here knows HTTP, methods or the order of the checks: `agent` asks, and turns a refusal into
//! -32020.

mod schema;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use data_encoding::BASE64;

use crate::json::{self, Kind, Reader, cut, quoted};

pub use schema::{SchemaFault, param_headers};

/// One parameter of a tool that a request repeats in a header field of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamHeader {
    /// The whole field name as declared, like `Mcp-Param-Region`. Field names ignore case.
    pub field: Box<str>,
    /// The member names that lead from `arguments` to the value; at least one.
    pub path: Box<[Box<str>]>,
}

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// What a field value stands for: without the whitespace around it, and decoded when it is wrapped
/// as `=?base64?…?=`. The error says what is wrong with it, to go behind the field's name.
///
/// The wrapping is recognised in lower case only and its Base64 must be canonical: padded, without
/// stray bits, and UTF-8 underneath. A value with just one of the two marks is taken as it is.
pub fn decode(value: &str) -> Result<Cow<'_, str>, &'static str> {
    // RFC 9110 §5.5: whitespace around a field value is not part of it.
    let value = value.trim_matches([' ', '\t']);
    if !value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')) {
        return Err("has characters that a header value must not have");
    }
    let Some(wrapped) = value.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX))
    else {
        return Ok(Cow::Borrowed(value));
    };
    // The decoder is strict, but would take several padded pieces in a row.
    let pieces = wrapped.trim_end_matches('=').contains('=');
    let bytes = match BASE64.decode(wrapped.as_bytes()) {
        Ok(bytes) if !pieces => bytes,
        _ => return Err("is not valid Base64"),
    };
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Cow::Owned(text)),
        Err(_) => Err("is Base64 of something that is not UTF-8"),
    }
}

/// Compares `Mcp-Name` with the name or URI that the body has, which must be the same string. The
/// error is a sentence for the agent.
pub fn check_name(header: Option<&str>, name: &str) -> Result<(), String> {
    let Some(value) = header else {
        return Err(format!("Mcp-Name is missing; the body says {}", quoted(name)));
    };
    match decode(value) {
        Err(what) => Err(format!("Mcp-Name {what}")),
        Ok(value) if value == name => Ok(()),
        Ok(value) => {
            Err(format!("Mcp-Name says {}, the body says {}", quoted(&value), quoted(name)))
        }
    }
}

/// Compares the `Mcp-Param-*` fields of a call with its arguments. The error is a sentence for the
/// agent.
///
/// `arguments` is raw JSON that was validated; `header` finds a field by its name, whatever the
/// case. A field must be there exactly when its argument is there and not null. The form of the
/// value goes by what the argument is, not by what the schema says it should be: a string is
/// compared as such, `true` and `false` in lower case, and a number by its exact value, so that
/// `42.0` is `42`.
pub fn check_params<'h>(
    params: &[ParamHeader],
    arguments: Option<&str>,
    header: &dyn Fn(&str) -> Option<Cow<'h, str>>,
) -> Result<(), String> {
    let found = find_arguments(params, arguments.unwrap_or("{}"))?;
    for (param, argument) in params.iter().zip(found) {
        let field = &param.field;
        match (header(field), argument) {
            (None, None) => {}
            (None, Some(_)) => {
                return Err(format!("{field} is missing; {} is given", argument_at(&param.path)));
            }
            (Some(_), None) => {
                return Err(format!("{field} is given; {} is not", argument_at(&param.path)));
            }
            (Some(value), Some(argument)) => {
                let value = decode(&value).map_err(|what| format!("{field} {what}"))?;
                if !stands_for(&value, argument) {
                    let (value, argument) = (quoted(&value), cut(argument));
                    let path = argument_at(&param.path);
                    return Err(format!("{field} says {value}, {path} is {argument}"));
                }
            }
        }
    }
    Ok(())
}

/// The raw argument of every parameter; none where it is absent or null. Goes through each object
/// once, however many parameters there are, because both may be large.
fn find_arguments<'a>(
    params: &[ParamHeader],
    arguments: &'a str,
) -> Result<Vec<Option<&'a str>>, String> {
    let mut found = vec![None; params.len()];
    // Objects still to go through: the raw text, its depth, and the parameters that lie in it.
    let mut open: Vec<(&str, usize, Vec<usize>)> =
        vec![(arguments, 0, (0..params.len()).collect())];
    while let Some((object, depth, wanted)) = open.pop() {
        if Kind::of(object) != Some(Kind::Object) {
            continue;
        }
        let malformed = |error: json::Error| format!("the arguments are malformed: {error}");
        let mut met = BTreeSet::new();
        let mut reader = Reader::new(object);
        reader.enter_object().map_err(malformed)?;
        while let Some(name) = reader.key().map_err(malformed)? {
            let value = reader.value().map_err(malformed)?;
            let named = |&at: &usize| *params[at].path[depth] == *name;
            let mut inside: Vec<usize> = wanted.iter().copied().filter(named).collect();
            let Some(&first) = inside.first() else { continue };
            let path = &params[first].path[..=depth];
            if !met.insert(&path[depth]) {
                return Err(format!("{} is given twice", argument_at(path)));
            }
            inside.retain(|&at| {
                let ends_here = params[at].path.len() == depth + 1;
                if ends_here && Kind::of(value) != Some(Kind::Null) {
                    found[at] = Some(value);
                }
                !ends_here
            });
            if !inside.is_empty() {
                open.push((value, depth + 1, inside));
            }
        }
    }
    Ok(found)
}

/// Whether a decoded field value is what an agent sends for this raw argument.
fn stands_for(value: &str, argument: &str) -> bool {
    match Kind::of(argument) {
        // A lone surrogate has no UTF-8 and so no field value.
        Some(Kind::String) => json::exact_string(argument).is_some_and(|text| text == value),
        Some(Kind::Number) => {
            value == argument
                || Decimal::read(value).is_some_and(|sent| Decimal::read(argument) == Some(sent))
        }
        Some(Kind::Bool) => value == argument,
        // Neither can be mirrored, whatever the field says.
        Some(Kind::Object | Kind::Array) => false,
        Some(Kind::Null) | None => false,
    }
}

/// A JSON number by its exact value, of whatever size: `0.digits × 10^exponent`.
#[derive(PartialEq, Eq)]
struct Decimal {
    negative: bool,
    /// Without zeros at either end, so that equal numbers have equal digits. Empty: zero.
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// None when the text is no JSON number, or its exponent does not even fit 64 bits.
    fn read(text: &str) -> Option<Decimal> {
        if Kind::of(text) != Some(Kind::Number) || Reader::new(text).value() != Ok(text) {
            return None;
        }
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = [whole, fraction].concat();
        let digits = all.trim_start_matches('0');
        let point = whole.len() as i64 - (all.len() - digits.len()) as i64;
        let digits = digits.trim_end_matches('0');
        if digits.is_empty() {
            return Some(Decimal { negative: false, digits: String::new(), exponent: 0 });
        }
        Some(Decimal { negative, digits: digits.into(), exponent: exponent.checked_add(point)? })
    }
}

/// Names an argument for a sentence.
fn argument_at(path: &[Box<str>]) -> String {
    let names: Vec<&str> = path.iter().map(|name| cut(name)).collect();
    format!("the argument {}", names.join("."))
}

#[cfg(test)]
mod tests;
