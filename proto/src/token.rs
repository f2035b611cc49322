//! Tokens: JSON Web Tokens signed with HS256 (RFC 7515, RFC 7519), verified and minted.
//!
//! It knows secrets, signatures and claims, and tells what a token allows. It does not know where a
//! token came from or how a refusal travels; `now` is handed in. No word that leaves this file holds
//! any part of a token or secret.

mod claims;
mod secrets;
mod words;

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Map, Value, json};

use crate::client_id::{ClientId, ClientIdError};
use crate::limits::{TOKEN_CHARS_MAX, TOKEN_LEEWAY};
use crate::time::UnixSeconds;

pub use secrets::{SecretError, Secrets};

/// What a verified token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// `sub`: the one client ID that the token is about.
    pub client_id: ClientId,
    /// `scope` has `client`: the bearer may connect as that client.
    pub may_connect: bool,
    /// `scope` has `agent`: the bearer may call that client.
    pub may_call: bool,
    /// `exp`, fractions cut off.
    pub exp: UnixSeconds,
    /// `tools`: patterns for [`glob`]. `None` allows every tool, an empty list none.
    pub tools: Option<Box<[Box<str>]>>,
    /// `jti`, a name for the token in the issuer's books.
    pub jti: Option<Box<str>>,
}

impl Claims {
    /// Whether the token lets its bearer list and call the tool.
    pub fn allows_tool(&self, name: &str) -> bool {
        self.tools.as_ref().is_none_or(|patterns| patterns.iter().any(|p| glob(p, name)))
    }

    /// The first second in which the token is refused: `exp` and the leeway.
    pub fn ends_at(&self) -> UnixSeconds {
        UnixSeconds(self.exp.0.saturating_add(TOKEN_LEEWAY.as_secs()))
    }
}

/// Why a token is refused. The first four come before the signature is verified and say little; the
/// others are for the issuer to put right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// Longer than `TOKEN_CHARS_MAX` characters; not looked at.
    TooLong,
    /// Not three parts, a part not strict base64url, or the header no JSON object.
    Malformed,
    /// `alg` is not `HS256`, or `crit` names extensions that have to be understood (RFC 7515 §4.1.11).
    Algorithm,
    /// No secret at hand made this signature.
    Signature,
    /// The claims are not a JSON object.
    NotAnObject,
    /// The claims name a member twice (RFC 7519 §4).
    Duplicate,
    /// A claim that is required is not there.
    Missing(&'static str),
    /// A claim has the wrong type.
    Type {
        /// Which claim.
        claim: &'static str,
        /// What it must be, with its article: "a number".
        expected: &'static str,
        /// What it is.
        got: &'static str,
    },
    /// A time is before 1970.
    Negative(&'static str),
    /// `sub` is not a client ID.
    ClientId(ClientIdError),
    /// `aud` is not, or does not contain, the audience asked for.
    Audience,
    /// `exp` and the leeway are over.
    Expired {
        /// `exp`.
        exp: UnixSeconds,
        /// The bridge's clock.
        now: UnixSeconds,
    },
    /// `nbf` less the leeway has not come.
    NotYet {
        /// `nbf`, fractions rounded up.
        nbf: UnixSeconds,
        /// The bridge's clock.
        now: UnixSeconds,
    },
}

/// Verifies a token against every secret and reads its claims. Scopes are the caller's to ask for.
///
/// With an `audience`, `aud` must be or contain it; without one, `aud` is ignored. A token is good
/// from `nbf` - 60 s up to, not including, `exp` + 60 s.
pub fn verify(
    token: &str,
    secrets: &Secrets,
    audience: Option<&str>,
    now: UnixSeconds,
) -> Result<Claims, TokenError> {
    if token.len() > TOKEN_CHARS_MAX {
        return Err(TokenError::TooLong);
    }
    let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
    let (header, payload) = signed.split_once('.').ok_or(TokenError::Malformed)?;
    let signature = base64url(signature)?;
    let header = claims::object(&base64url(header)?).map_err(|_| TokenError::Malformed)?;
    // RFC 7515 §4.1.11: what `crit` lists must be understood, and we understand no extension. `typ` is
    // ignored (RFC 7519 §5.1).
    if header.get("alg").and_then(Value::as_str) != Some("HS256") || header.contains_key("crit") {
        return Err(TokenError::Algorithm);
    }
    // Base64url has no dot: a fourth part makes this one malformed.
    let payload = base64url(payload)?;
    if !secrets.verify(signed.as_bytes(), &signature) {
        return Err(TokenError::Signature);
    }
    claims::read(&claims::object(&payload)?, audience, now)
}

/// Decodes base64url as RFC 7515 §2 wants it: no padding, no blanks, no stray bits at the end.
fn base64url(text: &str) -> Result<Vec<u8>, TokenError> {
    BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| TokenError::Malformed)
}

/// What a new token is to say.
#[derive(Clone, Copy, Debug)]
pub struct Mint<'a> {
    /// `sub`.
    pub client_id: &'a ClientId,
    /// Puts `client` into `scope`.
    pub may_connect: bool,
    /// Puts `agent` into `scope`.
    pub may_call: bool,
    /// `iat`.
    pub iat: UnixSeconds,
    /// `exp`.
    pub exp: UnixSeconds,
    /// `jti`: random, and the caller's to choose.
    pub jti: &'a str,
    /// `aud`, when there is one.
    pub audience: Option<&'a str>,
    /// `tools`, when the token is limited to some.
    pub tools: Option<&'a [&'a str]>,
}

/// Signs a token with the first secret. Long lists of tools can make it longer than
/// `TOKEN_CHARS_MAX`, so that [`verify`] refuses it: the caller looks at the length.
pub fn mint(secrets: &Secrets, claims: &Mint<'_>) -> String {
    let scopes = [(claims.may_connect, "client"), (claims.may_call, "agent")];
    let scopes: Vec<&str> = scopes.iter().filter(|(is_in, _)| *is_in).map(|(_, s)| *s).collect();
    let mut payload = Map::new();
    payload.insert("sub".into(), json!(claims.client_id.as_str()));
    payload.insert("scope".into(), json!(scopes.join(" ")));
    payload.insert("iat".into(), json!(claims.iat.0));
    payload.insert("exp".into(), json!(claims.exp.0));
    payload.insert("jti".into(), json!(claims.jti));
    if let Some(audience) = claims.audience {
        payload.insert("aud".into(), json!(audience));
    }
    if let Some(tools) = claims.tools {
        payload.insert("tools".into(), json!(tools));
    }
    let mut token = BASE64URL_NOPAD.encode(br#"{"alg":"HS256","typ":"JWT"}"#);
    token.push('.');
    BASE64URL_NOPAD.encode_append(Value::Object(payload).to_string().as_bytes(), &mut token);
    let signature = secrets.sign(token.as_bytes());
    token.push('.');
    BASE64URL_NOPAD.encode_append(&signature, &mut token);
    token
}

/// Whether `name` matches `pattern`, in which `*` stands for any characters or none, and everything
/// else for itself. Takes time linear in both.
pub fn glob(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(name) = name.strip_prefix(first) else { return false };
    let Some(mut name) = name.strip_suffix(last) else { return false };
    // The earliest place for each part leaves the most for those behind it, so none is tried twice.
    middle.split('*').all(|part| match name.find(part) {
        Some(at) => {
            name = &name[at + part.len()..];
            true
        }
        None => false,
    })
}
