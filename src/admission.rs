//! Who may connect, decided before any token is looked at: how many connections in all and from one
//! address, and how often a client ID comes, which a token has proved.
//!
//! A `Place` is one connection's place; dropping it gives the place back. Who finds none is told so and
//! sent away, in little time and beside the places of the others. Nothing here waits or has a timer.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use clientmcp_proto::client_id::ClientId;
use clientmcp_proto::fault::{Close, Fault};
use clientmcp_proto::limits;
use clientmcp_proto::time::Instant;

use crate::config::Config;
use crate::log;
use crate::metrics::Refusal;
use crate::shared::Shared;

/// What is counted of all connections.
#[derive(Default)]
pub struct Admission {
    /// Connections that have a place.
    places: Cell<usize>,
    /// Connections that are only told that there is none.
    turned_away: Cell<usize>,
    /// Open connections by peer address, counted only when they are limited.
    by_address: RefCell<HashMap<IpAddr, usize>>,
    connects: Connects,
}

/// How many connections more of a client ID its rate allows, as the one number of a leaky bucket: when
/// it will be empty, in microseconds. An ID whose bucket is empty needs no entry.
#[derive(Default)]
struct Connects {
    /// By a hash with a key of this process, so that nobody can choose IDs that share one.
    until: RefCell<HashMap<u64, u64>>,
    /// When all are looked through once more, in microseconds, while there are as many as are kept.
    look_at: Cell<u64>,
    hasher: RandomState,
}

/// Client IDs that came a moment ago and are remembered; beyond that many their rate is not counted.
/// A storm of returning clients stays below it, because one visit is forgotten within a second.
const CONNECTS_KEPT: usize = 1 << 16;

const MINUTE_US: u64 = 60_000_000;

/// How often those are looked through while nobody else finds room among them.
const LOOK_US: u64 = 1_000_000;

impl Connects {
    fn count(&self, client_id: &ClientId, per_minute: usize, now: Instant) -> bool {
        let now = now.0.saturating_mul(1000);
        let each = MINUTE_US / u64::try_from(per_minute.max(1)).unwrap_or(MINUTE_US);
        let mut known = self.until.borrow_mut();
        // The map has room for more than are kept: once that many are, it is never full.
        let is_full = known.len() >= CONNECTS_KEPT && now >= self.look_at.get();
        if known.len() == known.capacity() || is_full {
            self.look_at.set(now + LOOK_US);
            known.retain(|_, until| *until > now);
            if known.len() < known.capacity() / 4 {
                let room = known.len() * 2;
                known.shrink_to(room);
            }
        }
        let key = self.hasher.hash_one(client_id);
        let until = known.get(&key).copied().unwrap_or_default().max(now) + each;
        if until > now + MINUTE_US {
            return false;
        }
        if known.len() < CONNECTS_KEPT || known.contains_key(&key) {
            known.insert(key, until);
        }
        true
    }
}

/// Why a connection is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crowd {
    /// There are too many from its address.
    Address,
    /// There are too many in all.
    Bridge,
}

impl Crowd {
    /// What an agent is told.
    pub fn fault(self) -> Fault {
        match self {
            Crowd::Address => Fault::TooManyConnections,
            Crowd::Bridge => Fault::Overloaded,
        }
    }

    /// What a client is told.
    pub fn close(self) -> Close {
        Close::Limit(match self {
            Crowd::Address => "too many connections from this address; come back later",
            Crowd::Bridge => "the bridge has too many connections; come back later",
        })
    }

    fn note(self, shared: &Shared, address: IpAddr) {
        let (refusal, flag, what) = match self {
            Crowd::Address => (
                Refusal::Address,
                "--max-connections-per-ip",
                "too many connections from one address",
            ),
            Crowd::Bridge => (Refusal::Connections, "--max-connections", "too many connections"),
        };
        shared.metrics.refusal(refusal);
        log::bound(flag, what, &[("address", &address)]);
    }
}

pub struct Place {
    shared: Rc<Shared>,
    /// Boxed, because connections are counted by address only where that is limited.
    address: Option<Box<IpAddr>>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// One of `--max-connections`.
    Counted,
    /// Beyond them, or beyond those of its address: it is told so, unless one becomes free before.
    TurnedAway,
    /// The operator's own, which no crowd may shut out.
    Free,
}

impl Place {
    /// A place for a new connection; `None` when it is to be closed at once.
    pub fn open(shared: &Rc<Shared>, peer: IpAddr) -> Option<Place> {
        let mut place = Place::free(shared);
        let admission = &shared.admission;
        // What comes through a proxy shows its address with each request.
        let is_proxy = shared.config.trusted_proxies.contains(&peer);
        let has_address = is_proxy || place.count(peer);
        if has_address && place.settle() {
            return Some(place);
        }
        if admission.turned_away.get() < limits::TURNED_AWAY_MAX {
            admission.turned_away.set(admission.turned_away.get() + 1);
            place.kind = Kind::TurnedAway;
            return Some(place);
        }
        let crowd = if has_address { Crowd::Bridge } else { Crowd::Address };
        crowd.note(shared, peer);
        None
    }

    /// A place beside all others.
    pub fn free(shared: &Rc<Shared>) -> Place {
        shared.metrics.connections_accepted.count();
        shared.metrics.connections.up();
        Place { shared: shared.clone(), address: None, kind: Kind::Free }
    }

    /// How long the head of a request may take here.
    pub fn head_timeout(&self) -> Duration {
        let timeout = self.shared.config.head_timeout;
        if self.is_turned_away() { timeout.min(limits::TURNED_AWAY_TIMEOUT) } else { timeout }
    }

    /// Whether the connection ends with its answer.
    pub fn is_turned_away(&self) -> bool {
        self.kind == Kind::TurnedAway
    }

    /// Counts this connection for the address of a request, and says why that cannot be served. Behind a
    /// proxy one connection carries requests of several addresses: it counts for the latest.
    pub fn crowd(&mut self, address: IpAddr) -> Option<Crowd> {
        if self.kind == Kind::Free {
            return None;
        }
        let crowd = match self.count(address) {
            false => Some(Crowd::Address),
            true => (!self.settle()).then_some(Crowd::Bridge),
        };
        if let Some(crowd) = crowd {
            crowd.note(&self.shared, address);
        }
        crowd
    }

    /// Takes one of the places of all, unless it has one; `false` when none is left.
    fn settle(&mut self) -> bool {
        let admission = &self.shared.admission;
        if self.kind == Kind::Counted {
            return true;
        }
        if admission.places.get() >= self.shared.config.connections_max {
            return false;
        }
        if self.kind == Kind::TurnedAway {
            admission.turned_away.set(admission.turned_away.get() - 1);
        }
        admission.places.set(admission.places.get() + 1);
        self.kind = Kind::Counted;
        true
    }

    /// Counts this connection for an address; `false` when the address has too many.
    fn count(&mut self, address: IpAddr) -> bool {
        let Some(max) = self.shared.config.connections_per_ip_max else { return true };
        if self.address.as_deref() == Some(&address) {
            return true;
        }
        self.uncount();
        let mut counts = self.shared.admission.by_address.borrow_mut();
        let count = counts.entry(address).or_default();
        if *count >= max {
            return false;
        }
        *count += 1;
        self.address = Some(Box::new(address));
        true
    }

    fn uncount(&mut self) {
        let Some(address) = self.address.take() else { return };
        let mut counts = self.shared.admission.by_address.borrow_mut();
        if let Some(count) = counts.get_mut(&*address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&*address);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.uncount();
        let admission = &self.shared.admission;
        let of_kind = match self.kind {
            Kind::Counted => Some(&admission.places),
            Kind::TurnedAway => Some(&admission.turned_away),
            Kind::Free => None,
        };
        if let Some(count) = of_kind {
            count.set(count.get() - 1);
        }
        self.shared.metrics.connections.down();
    }
}

impl Admission {
    /// Counts a connection of this client, whose token was good. When it comes too often, what it is told.
    pub fn connects(
        &self,
        config: &Config,
        client_id: &ClientId,
        now: Instant,
    ) -> Result<(), Close> {
        if self.connects.count(client_id, config.connects_per_minute_max, now) {
            return Ok(());
        }
        log::bound(
            "--max-connects-per-minute",
            "a client connects too often",
            &[("client", client_id)],
        );
        Err(Close::Limit("this client ID connects too often; come back later"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> ClientId {
        ClientId::parse(&format!("c{number}")).expect("a client ID")
    }

    #[test]
    fn a_client_may_come_a_minutes_worth_at_once_and_then_one_at_a_time() {
        for (per_minute, each) in [(1, 60_000), (2, 30_000), (60, 1000), (600, 100)] {
            let connects = Connects::default();
            let at = |ms: u64| connects.count(&id(0), per_minute, Instant(5_000 + ms));
            assert!((0..per_minute).all(|_| at(0)), "{per_minute}: a minute's worth");
            assert!(!at(0) && !at(each - 1), "{per_minute}: one more");
            assert!(at(each) && !at(each) && !at(2 * each - 1), "{per_minute}: one each {each} ms");
            assert!(connects.count(&id(1), per_minute, Instant(5_000)), "another has its own");
            assert!((0..per_minute).all(|_| at(each + 60_000)), "{per_minute}: after a minute");
            assert!(!at(each + 60_000), "{per_minute}: and no more");
        }
    }

    #[test]
    fn a_place_takes_little_of_a_sleeping_connection() {
        assert!(size_of::<Place>() <= 24, "{}", size_of::<Place>());
    }

    #[test]
    fn clients_that_came_a_while_ago_are_forgotten() {
        let connects = Connects::default();
        for number in 0..20_000 {
            // A thousand a second, each remembered for a second.
            assert!(connects.count(&id(number), 60, Instant(number as u64)));
        }
        let kept = connects.until.borrow().capacity();
        assert!(kept < 8_000, "{kept} places for the thousand of the last second");
        for number in 0..=kept {
            connects.count(&id(number), 6000, Instant(1_000_000 + 100 * number as u64));
        }
        assert!(connects.until.borrow().capacity() < kept, "what a crowd needed is given back");
    }

    #[test]
    fn beyond_what_is_remembered_nobody_is_refused() {
        let connects = Connects::default();
        for number in 0..CONNECTS_KEPT + 10 {
            assert!(connects.count(&id(number), 1, Instant(0)));
        }
        assert!(!connects.count(&id(0), 1, Instant(0)), "who is remembered still counts");
        assert!(connects.count(&id(CONNECTS_KEPT), 1, Instant(0)), "who is not is let in");
        assert!(connects.until.borrow().len() <= CONNECTS_KEPT);
        let late = Instant(60_000);
        assert!(connects.count(&id(CONNECTS_KEPT), 1, late), "a minute later all are forgotten");
        assert!(!connects.count(&id(CONNECTS_KEPT), 1, late), "and who comes is counted again");
        assert_eq!(connects.until.borrow().len(), 1);
    }
}
