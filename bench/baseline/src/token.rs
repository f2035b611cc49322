//! Who may do what: JWTs signed with HS256, as in SPEC §2.

use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use sha2::Sha256;

pub struct Secret(Hmac<Sha256>);

#[derive(Deserialize)]
struct Head<'a> {
    alg: &'a str,
}

#[derive(Deserialize)]
struct Claims<'a> {
    sub: &'a str,
    scope: &'a str,
    exp: u64,
    #[serde(default)]
    nbf: u64,
}

const LEEWAY: u64 = 60;

impl Secret {
    pub fn new(bytes: &[u8]) -> Secret {
        Secret(Hmac::new_from_slice(bytes).expect("HMAC takes a key of any length"))
    }

    /// The client ID of a token that is good and has this scope. The keyed hash is cloned, which saves
    /// hashing the key again.
    pub fn check(&self, token: &str, scope: &str) -> Option<Box<str>> {
        if token.len() > 4096 {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (head, claims) = signed.split_once('.')?;
        let signature = BASE64URL_NOPAD.decode(signature.as_bytes()).ok()?;
        let mut mac = self.0.clone();
        mac.update(signed.as_bytes());
        mac.verify_slice(&signature).ok()?;
        let head = BASE64URL_NOPAD.decode(head.as_bytes()).ok()?;
        let head: Head<'_> = serde_json::from_slice(&head).ok()?;
        let claims = BASE64URL_NOPAD.decode(claims.as_bytes()).ok()?;
        let claims: Claims<'_> = serde_json::from_slice(&claims).ok()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
        let good = head.alg == "HS256"
            && claims.exp + LEEWAY > now
            && claims.nbf <= now + LEEWAY
            && claims.scope.split(' ').any(|one| one == scope);
        good.then(|| claims.sub.into())
    }
}
