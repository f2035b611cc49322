//! Who may do what: JWTs signed with HS256, as in SPEC §2. An agent's token that was good is remembered
//! for as long as it is, as the bridge does it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use sha2::Sha256;

pub struct Secret {
    key: Hmac<Sha256>,
    known: RefCell<HashMap<Box<str>, Known>>,
}

struct Known {
    id: Box<str>,
    /// The first second in which it is not good any more.
    ends: u64,
}

/// Tokens that are remembered at most.
const KNOWN_MAX: usize = 256;

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
        let key = Hmac::new_from_slice(bytes).expect("HMAC takes a key of any length");
        Secret { key, known: RefCell::default() }
    }

    /// The client ID of an agent's token that is good.
    pub fn check_agent(&self, token: &str) -> Option<Box<str>> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
        if let Some(known) = self.known.borrow().get(token)
            && now < known.ends
        {
            return Some(known.id.clone());
        }
        let (id, ends) = self.judge(token, "agent", now)?;
        let mut known = self.known.borrow_mut();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(token.into(), Known { id: id.clone(), ends });
        Some(id)
    }

    /// The client ID of a client's token that is good.
    pub fn check_client(&self, token: &str) -> Option<Box<str>> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
        self.judge(token, "client", now).map(|(id, _)| id)
    }

    /// Whose a good token of this scope is, and when it ends. The keyed hash is cloned, which saves
    /// hashing the key again.
    fn judge(&self, token: &str, scope: &str, now: u64) -> Option<(Box<str>, u64)> {
        if token.len() > 4096 {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (head, claims) = signed.split_once('.')?;
        let signature = BASE64URL_NOPAD.decode(signature.as_bytes()).ok()?;
        let mut mac = self.key.clone();
        mac.update(signed.as_bytes());
        mac.verify_slice(&signature).ok()?;
        let head = BASE64URL_NOPAD.decode(head.as_bytes()).ok()?;
        let head: Head<'_> = serde_json::from_slice(&head).ok()?;
        let claims = BASE64URL_NOPAD.decode(claims.as_bytes()).ok()?;
        let claims: Claims<'_> = serde_json::from_slice(&claims).ok()?;
        let good = head.alg == "HS256"
            && claims.exp + LEEWAY > now
            && claims.nbf <= now + LEEWAY
            && claims.scope.split(' ').any(|one| one == scope);
        good.then(|| (claims.sub.into(), claims.exp + LEEWAY))
    }
}
