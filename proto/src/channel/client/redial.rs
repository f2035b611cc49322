//! Whether a client comes back after a close, and when.
//!
//! Knows close codes, the wait between two attempts given a random number, and where a token says when
//! it ends. A token is not verified here: a client has no secret, and a wrong guess costs one refusal.

use core::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use serde_json::Value;

use crate::limits::{ONLINE_RESET, RECONNECT_MAX, RECONNECT_MIN};
use crate::time::UnixSeconds;

/// What a close means to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Dial again after a wait.
    Again,
    /// Dial again only with another token than the one refused.
    WithFreshToken,
    /// Do not dial again: it would end in the same way, or displace another program.
    Never,
}

/// Reads a close code (SPEC, The client channel, the table of closes). A code that the table does not
/// have, or none because the connection broke, is a reason to come back.
pub fn after_close(code: Option<u16>) -> Ending {
    match code {
        Some(1009 | 4400 | 4403 | 4409) => Ending::Never,
        Some(4401) => Ending::WithFreshToken,
        _ => Ending::Again,
    }
}

/// Waits between attempts: random up to a ceiling that doubles, so that a hundred thousand clients of
/// a bridge that was restarted do not come back together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    /// Attempts in a row that led to nothing.
    failures: u32,
}

impl Backoff {
    /// The next wait, from zero to a ceiling between `RECONNECT_MIN` and `RECONNECT_MAX`. `online` is
    /// how long the attempt before had been of use; `random` is uniform over all its values.
    pub fn wait(&mut self, online: Option<Duration>, random: u64) -> Duration {
        if online.is_some_and(|online| online >= ONLINE_RESET) {
            self.failures = 0;
        }
        let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        let ceiling = RECONNECT_MIN.saturating_mul(factor).min(RECONNECT_MAX);
        self.failures = (self.failures + 1).min(31);
        // The upper 32 bits are the fraction of the ceiling.
        let nanos = (ceiling.as_nanos() * u128::from(random >> 32)) >> 32;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// The `exp` of a token, unverified; `None` when it cannot be read or is not there.
pub fn token_ends_at(token: &str) -> Option<UnixSeconds> {
    let payload = token.split('.').nth(1)?;
    let payload = BASE64URL_NOPAD.decode(payload.as_bytes()).ok()?;
    let claims: Value = serde_json::from_slice(&payload).ok()?;
    let exp = claims.get("exp")?;
    // A fraction is cut off; a date before 1970 is none.
    exp.as_u64()
        .or_else(|| exp.as_f64().filter(|exp| *exp >= 0.0).map(|exp| exp as u64))
        .map(UnixSeconds)
}
