//! Tokens, minted by hand: HS256 over any header, claims and secret, well-formed or not.
//!
//! Deliberately not `clientmcp-proto`: these are what an operator's own login service would make.
//! Everything is adjustable because most tests want exactly one thing to be wrong.

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

/// The secret of every bridge that the tests start.
pub const SECRET: &str = "a-secret-for-tests-that-is-long-enough-0123456789";

/// The secret of the bridge under test: `CLIENTMCP_TEST_SECRET`, or [`SECRET`].
pub fn secret() -> String {
    std::env::var("CLIENTMCP_TEST_SECRET").unwrap_or_else(|_| SECRET.to_owned())
}

/// A good token for one hour. `scope` is space-separated: `client`, `agent`, or both.
pub fn token(client_id: &str, scope: &str) -> String {
    Token::of(client_id, scope).mint()
}

/// A token with everything adjustable; starts out as a good one.
#[derive(Clone)]
pub struct Token {
    header: Value,
    claims: Value,
    claims_text: Option<String>,
    secret: Vec<u8>,
}

impl Token {
    /// For `client_id`, good for an hour, signed with the bridge's secret.
    pub fn of(client_id: &str, scope: &str) -> Token {
        Token {
            header: json!({"alg": "HS256", "typ": "JWT"}),
            claims: json!({"sub": client_id, "scope": scope, "exp": super::now_seconds() + 3600}),
            claims_text: None,
            secret: secret().into_bytes(),
        }
    }

    /// Sets a claim; `null` removes it.
    pub fn claim(mut self, name: &str, value: impl Into<Value>) -> Token {
        put(&mut self.claims, name, value.into());
        self
    }

    /// Sets a member of the JOSE header; `null` removes it.
    pub fn header(mut self, name: &str, value: impl Into<Value>) -> Token {
        put(&mut self.header, name, value.into());
        self
    }

    /// `exp` at this many seconds from now; negative is in the past.
    pub fn expires_in(self, seconds: i64) -> Token {
        let exp = super::now_seconds().checked_add_signed(seconds).expect("a time after 1970");
        self.claim("exp", exp)
    }

    /// Uses this text as the claims, whatever it is.
    pub fn claims_text(mut self, text: &str) -> Token {
        self.claims_text = Some(text.to_owned());
        self
    }

    /// Signs with another secret.
    pub fn secret(mut self, secret: impl AsRef<[u8]>) -> Token {
        self.secret = secret.as_ref().to_vec();
        self
    }

    /// The token's text.
    pub fn mint(&self) -> String {
        let claims = self.claims_text.clone().unwrap_or_else(|| self.claims.to_string());
        let header = BASE64URL_NOPAD.encode(self.header.to_string().as_bytes());
        let signed = format!("{header}.{}", BASE64URL_NOPAD.encode(claims.as_bytes()));
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.secret).expect("HMAC takes keys of any length");
        mac.update(signed.as_bytes());
        format!("{signed}.{}", BASE64URL_NOPAD.encode(&mac.finalize().into_bytes()))
    }

    /// A good token of exactly `chars` characters, padded with a claim nobody reads.
    pub fn mint_of_length(self, chars: usize) -> String {
        // Base64 skips every fourth length; one more byte in the header shifts the claims past it.
        let shifted = self.clone().header("kid", "k");
        for form in [self, shifted] {
            // Padding grows by four thirds in Base64: begin a little short of the length.
            let start = chars.saturating_sub(form.mint().len() + 20) * 3 / 4;
            for pad in start..chars {
                let token = form.clone().claim("pad", "x".repeat(pad)).mint();
                if token.len() == chars {
                    return token;
                }
                if token.len() > chars {
                    break;
                }
            }
        }
        panic!("no token of {chars} characters: the claims alone are longer")
    }
}

fn put(object: &mut Value, name: &str, value: Value) {
    let members = object.as_object_mut().expect("header and claims are objects");
    match value {
        Value::Null => members.remove(name),
        value => members.insert(name.to_owned(), value),
    };
}
