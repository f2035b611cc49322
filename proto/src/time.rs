//! Time as `proto` sees it: two newtypes that cannot be mixed up, both handed in by the caller.
//!
//! Nothing here reads a clock. Monotonic milliseconds order events and deadlines; wall-clock seconds
//! are compared with the claims of a token.

use core::ops::{Add, Sub};
use core::time::Duration;

/// A point on a monotonic clock, in milliseconds since a start of the caller's choosing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// The time since `earlier`, zero when `earlier` is later.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    /// Saturates, so that a timeout of centuries is a deadline that never comes.
    fn add(self, length: Duration) -> Instant {
        let ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_add(ms))
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;
    fn sub(self, earlier: Instant) -> Duration {
        self.since(earlier)
    }
}

/// A wall-clock reading, in seconds since 1970-01-01T00:00:00Z (a JWT's `NumericDate`, RFC 7519 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixSeconds(pub u64);

#[cfg(test)]
mod tests;
