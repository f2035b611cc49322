//! What one definition of a register must be, and its members that are no lists (SPEC §4, the
//! register checks).
//!
//! Every function says what is wrong and where from its own text on; `offer.rs` knows where that
//! text lies, leaves the definition out or refuses the whole, and keeps what is good.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};

use super::{Definition, List, OfferFault, Span, at, malformed};
use crate::headers;
use crate::json::{self, Kind, Reader, cut};

/// Checks one definition, which begins at byte `start` of the message. `taken` says which element
/// of the list has which key. A fault is a path from the definition on, and what is wrong there.
pub(super) fn check_definition<'a>(
    list: List,
    raw: &'a str,
    start: usize,
    taken: &mut BTreeMap<Cow<'a, str>, usize>,
    index: usize,
) -> Result<Definition, (String, String)> {
    let wrong = |path: &str, message: &str| (path.to_string(), message.to_string());
    match Kind::of(raw) {
        Some(Kind::Object) => {}
        other => {
            let got = other.map_or("nothing", Kind::words);
            return Err(wrong("", &format!("must be an object, not {got}")));
        }
    }
    let malformed = |error: json::Error| wrong("", &error.to_string());
    let (mut key, mut input, mut output) = (None, None, None);
    let mut reader = Reader::new(raw);
    reader.enter_object().map_err(malformed)?;
    while let Some(name) = reader.key().map_err(malformed)? {
        let value = reader.value().map_err(malformed)?;
        let slot = match &*name {
            name if name == list.key() => &mut key,
            "inputSchema" if list == List::Tools => &mut input,
            "outputSchema" if list == List::Tools => &mut output,
            _ => continue,
        };
        if slot.replace((value, reader.offset())).is_some() {
            return Err(wrong(&format!(".{name}"), "is given twice"));
        }
    }

    let key_path = format!(".{}", list.key());
    let Some((key_raw, key_end)) = key else { return Err(wrong(&key_path, "is missing")) };
    let key = check_key(list, key_raw).map_err(|message| (key_path.clone(), message))?;
    if let Some(first) = taken.get(&key) {
        let message = format!("is taken already by {}[{first}]", list.member());
        return Err(wrong(&key_path, &message));
    }
    let mut mirrored = false;
    if list == List::Tools {
        let Some((schema, _)) = input else { return Err(wrong(".inputSchema", "is missing")) };
        mirrored = check_input_schema(schema)
            .map_err(|(path, message)| (format!(".inputSchema{path}"), message))?;
        if let Some((schema, _)) = output
            && let Some(kind) = Kind::of(schema)
            && kind != Kind::Object
        {
            let message = format!("must be an object, not {}", kind.words());
            return Err(wrong(".outputSchema", &message));
        }
    }
    taken.insert(key, index);
    Ok(Definition {
        raw: Span::behind(raw, start + raw.len()),
        key: Span::behind(key_raw, start + key_end),
        mirrored,
    })
}

/// Decodes the name or URI of a definition.
fn check_key(list: List, raw: &str) -> Result<Cow<'_, str>, String> {
    if let Some(kind) = Kind::of(raw)
        && kind != Kind::String
    {
        return Err(format!("must be a string, not {}", kind.words()));
    }
    let Some(key) = json::exact_string(raw) else {
        return Err("has half of a surrogate pair, which is no character".to_string());
    };
    let max = list.key_chars_max();
    match key.chars().count() {
        0 => Err("must not be empty".to_string()),
        chars if chars > max => Err(format!("has {chars} characters, over {max}")),
        _ => Ok(key),
    }
}

/// Whether a tool's schema has parameters that are mirrored. A fault is a path from the schema on,
/// and what is wrong there.
fn check_input_schema(schema: &str) -> Result<bool, (String, String)> {
    let kind = Kind::of(schema).map_or("nothing", Kind::words);
    let members = json::members(schema)
        .map_err(|_| (String::new(), format!("must be an object, not {kind}")))?;
    let mut types = members.iter().filter(|(name, _)| name == "type").map(|(_, raw)| *raw);
    let fault = |message: String| Err((".type".to_string(), message));
    match (types.next(), types.next()) {
        (None, _) => return fault("is missing; it must be \"object\"".to_string()),
        (_, Some(_)) => return fault("is given twice".to_string()),
        (Some(raw), None) if json::string(raw).as_deref() == Some("object") => {}
        (Some(raw), None) => return fault(format!("must be \"object\", not {}", cut(raw))),
    }
    match headers::param_headers(schema) {
        Ok(params) => Ok(!params.is_empty()),
        Err(fault) => Err((format!(".{}", fault.path), fault.message)),
    }
}

/// Checks an `Implementation`: its name and version, each there once.
pub(super) fn check_server(raw: &str) -> Result<(), OfferFault> {
    let members = json::members(raw).map_err(malformed)?;
    for required in ["name", "version"] {
        let mut values = members.iter().filter(|(name, _)| name == required).map(|(_, raw)| *raw);
        let path = format!("server.{required}");
        match (values.next(), values.next()) {
            (None, _) => return Err(at(&path, "is missing")),
            (_, Some(_)) => return Err(at(&path, "is given twice")),
            (Some(raw), None) => match Kind::of(raw) {
                Some(Kind::String) | None => {}
                Some(kind) => {
                    return Err(at(&path, &format!("must be a string, not {}", kind.words())));
                }
            },
        }
    }
    Ok(())
}

/// Reads a whole number that every agent can hold: readers in JavaScript lose count above 2^53 - 1.
pub(super) fn ttl_ms(raw: &str) -> Result<u64, OfferFault> {
    const MAX: u64 = (1 << 53) - 1;
    match raw.parse() {
        Ok(ms) if ms <= MAX => Ok(ms),
        _ => {
            let message = format!("must be a whole number from 0 to {MAX}, not {}", cut(raw));
            Err(at("ttlMs", &message))
        }
    }
}
