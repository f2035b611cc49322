//! The secrets that tokens are signed with: read from one text, kept as keyed hashes, never shown.

use alloc::vec::Vec;
use core::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::limits::SECRET_BYTES_MIN;

/// One secret or more. Any of them may have signed a token; the first signs new ones.
#[derive(Clone)]
pub struct Secrets {
    /// Signs; in it the secret has already been hashed, which saves two blocks a token.
    first: Hmac<Sha256>,
    others: Vec<Hmac<Sha256>>,
}

/// Why a text holds no usable secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretError {
    /// There is nothing in it.
    Empty,
    /// A secret is too short to be safe.
    TooShort {
        /// Which one, counted from 1.
        position: usize,
        /// Its length in bytes.
        bytes: usize,
    },
}

impl Secrets {
    /// Reads secrets separated by whitespace or commas, each at least `SECRET_BYTES_MIN` bytes.
    pub fn parse(text: &str) -> Result<Secrets, SecretError> {
        Secrets::checked(text.split(|c: char| c.is_whitespace() || c == ','))
    }

    /// Reads secrets one a line, each at least `SECRET_BYTES_MIN` bytes. Blank lines are skipped and
    /// blanks around a secret are cut off; blanks and commas inside of one belong to it.
    pub fn parse_lines(text: &str) -> Result<Secrets, SecretError> {
        Secrets::checked(text.lines().map(str::trim))
    }

    fn checked<'a>(secrets: impl Iterator<Item = &'a str>) -> Result<Secrets, SecretError> {
        let secrets = secrets.filter(|secret| !secret.is_empty()).map(str::as_bytes);
        let secrets: Vec<&[u8]> = secrets.collect();
        if let Some(at) = secrets.iter().position(|secret| secret.len() < SECRET_BYTES_MIN) {
            return Err(SecretError::TooShort { position: at + 1, bytes: secrets[at].len() });
        }
        Secrets::keyed(&secrets)
    }

    /// Keys a hash with each secret.
    pub(super) fn keyed(secrets: &[&[u8]]) -> Result<Secrets, SecretError> {
        let mut keyed = secrets.iter().map(|secret| {
            Hmac::new_from_slice(secret).expect("RFC 2104: a key of any length will do")
        });
        let first = keyed.next().ok_or(SecretError::Empty)?;
        Ok(Secrets { first, others: keyed.collect() })
    }

    /// Whether one of the secrets made the signature. Every one is tried, and each comparison takes
    /// the same time wherever it fails, so that the time tells neither how much was right nor which
    /// secret it was.
    pub(super) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let keyed = core::iter::once(&self.first).chain(&self.others);
        keyed.fold(false, |found, keyed| {
            found | keyed.clone().chain_update(message).verify_slice(signature).is_ok()
        })
    }

    /// The signature of the first secret.
    pub(super) fn sign(&self, message: &[u8]) -> [u8; 32] {
        self.first.clone().chain_update(message).finalize().into_bytes().into()
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({} hidden)", 1 + self.others.len())
    }
}

impl fmt::Display for SecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretError::Empty => f.write_str("no secret is set: make one with `clientmcp secret`"),
            SecretError::TooShort { position, bytes } => write!(
                f,
                "secret {position} has {bytes} bytes, but at least {SECRET_BYTES_MIN} are needed: \
                 make one with `clientmcp secret`"
            ),
        }
    }
}

impl core::error::Error for SecretError {}
