//! The clocks of one connection: when to ping, when to renew the token, when it is lost.
//!
//! Knows no message but that one came. The driver opens a `Line` when the handshake is done, hands in
//! what happens with the time, and asks [`Line::tick`] at each [`Line::deadline`].

use core::time::Duration;

use crate::limits::{PING_INTERVAL, PONG_TIMEOUT, REGISTER_TIMEOUT, RENEW_BEFORE};
use crate::time::{Instant, UnixSeconds};

/// Shortest time between two times of asking for a fresh token.
const ASK_EVERY_MIN: Duration = Duration::from_secs(1);

/// Longest one, once the source has given a token that is not fresh.
const ASK_EVERY_MAX: Duration = Duration::from_secs(30);

/// One connection whose handshake is done and whose register is on its way.
#[derive(Debug)]
pub struct Line {
    opened: Instant,
    /// When the first register was accepted.
    online: Option<Instant>,
    heard: Instant,
    ping_at: Instant,
    ping_every: Duration,
    /// A ping that was sent and after which nothing came yet.
    pinged: Option<Instant>,
    /// When to ask for a fresh token; `None` for one that never ends or cannot be renewed.
    renew_at: Option<Instant>,
    /// When the token says that it ends, on our clock.
    ends: Instant,
}

/// What a passed deadline asks the driver to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Tick {
    /// Send [`PING`](super::super::PING).
    Ping,
    /// Ask for a fresh token; then call `renewed`, or `not_renewed`.
    Renew,
    /// Give the connection up and dial again; the words say why.
    Lost(&'static str),
}

impl Line {
    /// A connection that begins now. `token_ends` is the token's `exp` if it is to be renewed;
    /// `now` and `wall` are read at the same moment.
    pub fn new(now: Instant, wall: UnixSeconds, token_ends: Option<UnixSeconds>) -> Line {
        let mut line = Line {
            opened: now,
            online: None,
            heard: now,
            ping_at: now + PING_INTERVAL,
            ping_every: PING_INTERVAL,
            pinged: None,
            renew_at: None,
            ends: Instant(u64::MAX),
        };
        line.renewed(now, wall, token_ends);
        line
    }

    /// Something came from the bridge, whatever it is.
    pub fn heard(&mut self, now: Instant) {
        self.heard = now;
        self.pinged = None;
    }

    /// The bridge has accepted a register and wants a ping so often.
    pub fn registered(&mut self, now: Instant, ping_every: Duration) {
        self.online.get_or_insert(now);
        self.ping_every = ping_every;
        self.ping_at = self.ping_at.min(now + ping_every);
    }

    /// For how long the bridge has had a register of ours; `None` when it never accepted one.
    pub fn online(&self, now: Instant) -> Option<Duration> {
        self.online.map(|since| now - since)
    }

    /// A token was sent that ends then.
    pub fn renewed(&mut self, now: Instant, wall: UnixSeconds, token_ends: Option<UnixSeconds>) {
        self.renew_at = token_ends.map(|ends| {
            let left = Duration::from_secs(ends.0.saturating_sub(wall.0));
            self.ends = now + left;
            // At a fifth of its life before its end: enough to try again if the first time fails.
            now + (left - RENEW_BEFORE.min(left / 5)).max(ASK_EVERY_MIN)
        });
    }

    /// The source had no other token, or none at all. It is asked again, oftener when less time is left.
    pub fn not_renewed(&mut self, now: Instant) {
        let wait = ((self.ends - now) / 4).clamp(ASK_EVERY_MIN, ASK_EVERY_MAX);
        self.renew_at = Some(now + wait);
    }

    /// When `tick` has something to do next.
    pub fn deadline(&self) -> Instant {
        let mut next = self.ping_at;
        if let Some(pinged) = self.pinged {
            next = next.min(pinged + PONG_TIMEOUT);
        }
        if self.online.is_none() {
            next = next.min(self.opened + REGISTER_TIMEOUT);
        }
        self.renew_at.map_or(next, |renew| next.min(renew))
    }

    /// Looks at the clocks; to be called until it returns `None`.
    pub fn tick(&mut self, now: Instant) -> Option<Tick> {
        if self.online.is_none() && now >= self.opened + REGISTER_TIMEOUT {
            return Some(Tick::Lost("the bridge did not answer the register"));
        }
        if self.pinged.is_some_and(|pinged| now >= pinged + PONG_TIMEOUT) {
            return Some(Tick::Lost("the bridge is silent"));
        }
        if self.renew_at.is_some_and(|renew| now >= renew) {
            // The driver is asking; it says how that ended.
            self.renew_at = None;
            return Some(Tick::Renew);
        }
        if now >= self.ping_at {
            // After a sleep of the machine many are due, and one is enough.
            self.ping_at = now + self.ping_every;
            self.pinged.get_or_insert(now);
            return Some(Tick::Ping);
        }
        None
    }
}
