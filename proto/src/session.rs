//! The `Mcp-Session-Id` of the 2025 era: everything there is to know about the agent, carried by the agent.
//!
//! The bridge mints it and forgets it. It is not signed: what it says is what the agent said of itself,
//! and a forged one deceives only its forger's own calls.

use alloc::string::String;

use data_encoding::BASE64URL_NOPAD;

use crate::json;
use crate::limits::SESSION_ID_BYTES_MAX;
use crate::mcp::LEGACY;

const PREFIX: &str = "cm1.";

/// What `initialize` declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// The negotiated revision.
    pub version: String,
    /// Raw `capabilities`, if they fit.
    pub capabilities: Option<String>,
    /// Raw `clientInfo`, if it fits.
    pub client_info: Option<String>,
}

impl Session {
    /// The session ID: visible ASCII, unique by `fresh` (64 random bits), at most
    /// `SESSION_ID_BYTES_MAX` long. What does not fit is left out: first the client's description of
    /// itself, then whatever in its capabilities the bridge never acts on.
    pub fn mint(&self, fresh: u64) -> String {
        let full = self.encode(fresh, self.capabilities.as_deref(), self.client_info.as_deref());
        if full.len() <= SESSION_ID_BYTES_MAX {
            return full;
        }
        let plain = self.encode(fresh, self.capabilities.as_deref(), None);
        if plain.len() <= SESSION_ID_BYTES_MAX {
            return plain;
        }
        let known = self.capabilities.as_deref().map(known_capabilities);
        self.encode(fresh, known.as_deref(), None)
    }

    fn encode(&self, fresh: u64, capabilities: Option<&str>, info: Option<&str>) -> String {
        let mut text = String::from(r#"{"v":"#);
        json::quote(&self.version, &mut text);
        for (name, raw) in [("c", capabilities), ("i", info)] {
            if let Some(raw) = raw {
                text.push_str(&alloc::format!(r#","{name}":{raw}"#));
            }
        }
        text.push('}');
        alloc::format!("{PREFIX}{fresh:016x}.{}", BASE64URL_NOPAD.encode(text.as_bytes()))
    }

    /// What a session ID carries. Any other ID is honoured too, and carries nothing.
    pub fn read(id: &str) -> Session {
        Session::decode(id).unwrap_or_default()
    }

    fn decode(id: &str) -> Option<Session> {
        let (_, text) = id.strip_prefix(PREFIX)?.split_once('.')?;
        let text = String::from_utf8(BASE64URL_NOPAD.decode(text.as_bytes()).ok()?).ok()?;
        let members = json::members(&text).ok()?;
        let object = |name: &str| {
            members
                .iter()
                .find(|(key, raw)| key == name && raw.starts_with('{'))
                .map(|(_, raw)| String::from(*raw))
        };
        let version = members.iter().find(|(key, _)| key == "v")?.1;
        let version = json::string(version)?;
        if !LEGACY.contains(&version.as_ref()) {
            return None;
        }
        let (capabilities, client_info) = (object("c"), object("i"));
        Some(Session { version: version.into_owned(), capabilities, client_info })
    }
}

/// The capabilities that decide how an `input_required` is translated, and nothing else.
fn known_capabilities(raw: &str) -> String {
    let members = json::members(raw).unwrap_or_default();
    let mut kept = String::from("{");
    for name in ["elicitation", "sampling", "roots"] {
        // Of two of one name the last one counts, and only it is kept: the room is bounded.
        let last = members.iter().rev().find(|(key, _)| key == name);
        let Some((_, value)) = last.filter(|(_, value)| value.starts_with('{')) else { continue };
        let value = match name {
            "elicitation" => {
                let modes = json::members(value).unwrap_or_default();
                let has = |mode: &str| modes.iter().any(|(name, _)| name == mode);
                match (has("form"), has("url")) {
                    (true, true) => r#"{"form":{},"url":{}}"#,
                    (false, true) => r#"{"url":{}}"#,
                    _ => r#"{"form":{}}"#,
                }
            }
            "sampling" => {
                let parts = json::members(value).unwrap_or_default();
                if parts.iter().any(|(name, _)| name == "tools") { r#"{"tools":{}}"# } else { "{}" }
            }
            _ => "{}",
        };
        if kept.len() > 1 {
            kept.push(',');
        }
        kept.push_str(&alloc::format!("\"{name}\":{value}"));
    }
    kept.push('}');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(capabilities: &str, info: &str) -> Session {
        Session {
            version: "2025-06-18".into(),
            capabilities: Some(capabilities.into()),
            client_info: Some(info.into()),
        }
    }

    #[test]
    fn a_session_id_gives_back_what_it_was_minted_from() {
        let session = session(r#"{"sampling":{}}"#, r#"{"name":"é","version":"1"}"#);
        let id = session.mint(7);
        assert!(id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "{id}");
        assert_eq!(Session::read(&id), session);
        assert_ne!(id, session.mint(8));
    }

    #[test]
    fn a_long_description_is_left_out_before_a_long_capability() {
        let info = alloc::format!(r#"{{"name":"{}","version":"1"}}"#, "n".repeat(2000));
        let id = session(r#"{"sampling":{}}"#, &info).mint(1);
        assert!(id.len() <= SESSION_ID_BYTES_MAX, "{}", id.len());
        let read = Session::read(&id);
        assert_eq!(read.client_info, None);
        assert_eq!(read.capabilities.as_deref(), Some(r#"{"sampling":{}}"#));

        let capabilities = alloc::format!(
            r#"{{"extensions":{{"x":"{}"}},"elicitation":{{"url":{{}}}},"roots":{{"listChanged":true}}}}"#,
            "x".repeat(2000)
        );
        let id = session(&capabilities, &info).mint(1);
        assert!(id.len() <= SESSION_ID_BYTES_MAX, "{}", id.len());
        let kept = Session::read(&id).capabilities;
        assert_eq!(kept.as_deref(), Some(r#"{"elicitation":{"url":{}},"roots":{}}"#));
    }

    #[test]
    fn a_session_id_has_at_most_1023_bytes() {
        assert_eq!(SESSION_ID_BYTES_MAX, 1023);
        let mut longest = [0, 0];
        for size in 0..2000 {
            let name = "n".repeat(size);
            // First the description grows, then the capabilities.
            let info = alloc::format!(r#"{{"name":"{name}"}}"#);
            let described = session("{}", &info).mint(u64::MAX);
            let capabilities = alloc::format!(r#"{{"x":"{name}","roots":{{}}}}"#);
            let capable = session(&capabilities, "{}").mint(u64::MAX);
            for (longest, id) in longest.iter_mut().zip([&described, &capable]) {
                *longest = id.len().max(*longest);
            }
            let read = Session::read(&described);
            assert!(read.client_info.is_none_or(|read| read == info));
            let read = Session::read(&capable).capabilities;
            assert!(read == Some(capabilities) || read.as_deref() == Some(r#"{"roots":{}}"#));
        }
        // Neither over the limit, nor left out before it has to be.
        assert_eq!(longest, [SESSION_ID_BYTES_MAX; 2]);
    }

    /// A bug: every one of them was kept, beyond the limit.
    #[test]
    fn a_capability_declared_twice_is_carried_once() {
        let many = [r#""roots":{}"#; 400].join(",");
        let capabilities =
            alloc::format!(r#"{{{many},"elicitation":{{}},"elicitation":{{"url":{{}}}}}}"#);
        let id = session(&capabilities, "{}").mint(1);
        assert!(id.len() <= SESSION_ID_BYTES_MAX, "{}", id.len());
        let kept = Session::read(&id).capabilities;
        assert_eq!(kept.as_deref(), Some(r#"{"elicitation":{"url":{}},"roots":{}}"#));
    }

    #[test]
    fn a_foreign_session_id_carries_nothing() {
        for id in
            ["", "abc", "cm1.", "cm1.00.!!!", "cm1.00.e30", "d920203c-4d95-4ea4-94e7-90f7c18717b3"]
        {
            assert_eq!(Session::read(id), Session::default(), "{id}");
        }
    }
}
