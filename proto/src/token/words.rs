//! What a refused token is told. The words name claims, types and times, and never repeat the token.

use core::fmt;

use super::TokenError;
use crate::limits::{TOKEN_CHARS_MAX, TOKEN_LEEWAY};
use crate::time::UnixSeconds;

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let leeway = TOKEN_LEEWAY.as_secs();
        match self {
            TokenError::TooLong => {
                write!(f, "the token is longer than {TOKEN_CHARS_MAX} characters")
            }
            TokenError::Malformed => f.write_str(
                "the token is not a JWT: expected three base64url parts with dots between them",
            ),
            TokenError::Algorithm => f.write_str(
                "the token's header must say `alg` HS256 and have no `crit`: mint it that way",
            ),
            TokenError::Signature => f.write_str(
                "the token's signature does not match: it was signed with another secret or changed",
            ),
            TokenError::NotAnObject => f.write_str("the token's claims are not a JSON object"),
            TokenError::Duplicate => f.write_str("the token's claims name a member twice"),
            TokenError::Missing(claim) => write!(f, "the token has no `{claim}`"),
            TokenError::Type { claim, expected, got } => {
                write!(f, "the token's `{claim}` must be {expected}, got {got}")
            }
            TokenError::Negative(claim) => {
                write!(f, "the token's `{claim}` must not be negative: it is seconds since 1970")
            }
            TokenError::ClientId(error) => write!(f, "the token's `sub` is no client ID: {error}"),
            TokenError::Audience => {
                f.write_str("the token's `aud` does not name this bridge's audience")
            }
            TokenError::Expired { exp, now } => write!(
                f,
                "the token expired at {}, now {} (leeway {leeway} s): get a fresh one",
                Utc(*exp),
                Utc(*now)
            ),
            TokenError::NotYet { nbf, now } => write!(
                f,
                "the token is not valid before {}, now {} (leeway {leeway} s): compare the clocks",
                Utc(*nbf),
                Utc(*now)
            ),
        }
    }
}

impl core::error::Error for TokenError {}

/// Shows a time as RFC 3339 in UTC, and one beyond the year 9999 as its seconds.
struct Utc(UnixSeconds);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const YEAR_10000: u64 = 253_402_300_800;
        let UnixSeconds(seconds) = self.0;
        if seconds >= YEAR_10000 {
            return write!(f, "{seconds} s");
        }
        let (year, month, day) = date(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// The Gregorian date so many days after 1970-01-01. Years are counted from March, so that the leap
/// day is the last of its year, and in eras of 400 years, which all have 146,097 days.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since 0000-03-01
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153; // from March; months alternate 31 and 30 in runs of five
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn times_are_shown_in_utc() {
        let rows = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_300_819_380, "2011-03-22T18:43:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
            (253_402_300_800, "253402300800 s"),
            (u64::MAX, "18446744073709551615 s"),
        ];
        for (seconds, expected) in rows {
            assert_eq!(Utc(UnixSeconds(seconds)).to_string(), expected);
        }
    }
}
