//! The name of one client: what a token's `sub` carries and what everything about a client hangs on.
//!
//! It knows which texts are client IDs. Where one comes from (a token, never a path alone) and who
//! holds one is decided elsewhere.

use alloc::sync::Arc;
use core::borrow::Borrow;
use core::fmt;

use crate::limits::CLIENT_ID_CHARS_MAX;

/// A client ID: 1–128 characters of `A–Z a–z 0–9 . _ ~ - @ :`, and neither `.` nor `..`.
/// Its clones share one text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(Arc<str>);

/// Why a text is no client ID. It names places, not the text, which may be part of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientIdError {
    /// It has no characters.
    Empty,
    /// It has so many characters.
    TooLong(usize),
    /// The character at this position, counted from 1, is not one of those allowed.
    Character(usize),
    /// It is `.` or `..`, which URL parsers remove from a path.
    Dots,
}

impl ClientId {
    /// Takes `text` if it is a client ID.
    pub fn parse(text: &str) -> Result<ClientId, ClientIdError> {
        let is_allowed = |byte: char| {
            byte.is_ascii_alphanumeric() || matches!(byte, '.' | '_' | '~' | '-' | '@' | ':')
        };
        match text.chars().count() {
            0 => return Err(ClientIdError::Empty),
            count if count > CLIENT_ID_CHARS_MAX => return Err(ClientIdError::TooLong(count)),
            _ => {}
        }
        if let Some(at) = text.chars().position(|character| !is_allowed(character)) {
            return Err(ClientIdError::Character(at + 1));
        }
        if text == "." || text == ".." {
            return Err(ClientIdError::Dots);
        }
        Ok(ClientId(text.into()))
    }

    /// The ID as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Looks a client up by text in a map keyed by IDs; hash and order are those of the text.
impl Borrow<str> for ClientId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClientIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientIdError::Empty => f.write_str("a client ID must not be empty"),
            ClientIdError::TooLong(count) => write!(
                f,
                "a client ID has at most {CLIENT_ID_CHARS_MAX} characters, this one has {count}"
            ),
            ClientIdError::Character(at) => write!(
                f,
                "a client ID is made of A-Z a-z 0-9 . _ ~ - @ : and character {at} is something else"
            ),
            ClientIdError::Dots => f.write_str("a client ID must not be `.` or `..`"),
        }
    }
}

impl core::error::Error for ClientIdError {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn every_allowed_character_and_no_other_makes_a_client_id() {
        for character in (0..=0x17f).filter_map(char::from_u32) {
            let allowed = character.is_ascii_alphanumeric() || "._~-@:".contains(character);
            let text = alloc::format!("a{character}");
            let expected = if allowed { Ok(()) } else { Err(ClientIdError::Character(2)) };
            assert_eq!(ClientId::parse(&text).map(|_| ()), expected, "{text:?}");
        }
    }

    #[test]
    fn a_client_id_has_1_to_128_characters() {
        assert_eq!(ClientId::parse(""), Err(ClientIdError::Empty));
        for (count, fits) in [(1, true), (127, true), (128, true), (129, false)] {
            let text = "a".repeat(count);
            match ClientId::parse(&text) {
                Ok(id) => assert!(fits && id.as_str() == text),
                Err(error) => assert!(!fits && error == ClientIdError::TooLong(count)),
            }
        }
        // Characters are counted, not bytes: 128 two-byte ones are wrong, but not too long.
        assert_eq!(ClientId::parse(&"é".repeat(128)), Err(ClientIdError::Character(1)));
    }

    #[test]
    fn dots_that_a_url_parser_would_remove_are_no_client_id() {
        assert_eq!(ClientId::parse("."), Err(ClientIdError::Dots));
        assert_eq!(ClientId::parse(".."), Err(ClientIdError::Dots));
        assert_eq!(ClientId::parse("...").map(|id| id.to_string()), Ok("...".to_string()));
    }

    #[test]
    fn a_refusal_does_not_repeat_the_text() {
        let words = ClientId::parse("secret/secret").map_err(|error| error.to_string());
        assert!(
            words.is_err_and(|words| words.contains("character 7") && !words.contains("secret"))
        );
    }
}
