//! Sends what `weapons` has, and books what comes back; one thread, one loop.
//!
//! Knows three ways to attack: a connection for each shot, connections that show bad tokens one after
//! the other, and clients that register without end. It reads as little as it must to know the answer.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::Rates;
use super::weapons::{self, Rate, Weapon};
use crate::net::{Event, From, Happening, Key, Net};
use crate::response::{Piece, Reader};
use crate::wire::{self, CLOSE, Scope, TEXT, find, frame, server_frame, token};

/// What came, by what was sent; with whether it is what SPEC.md says.
pub type Answers = BTreeMap<(&'static str, String), (u64, bool)>;

/// Longest wait for an answer: more than the longest timeout that the bridge has here.
const SILENT_AFTER: Duration = Duration::from_secs(20);

/// Client IDs that the attackers have tokens for.
const CLIENT_IDS: usize = 300;

/// How long a connection that shows bad tokens is used: the bridge has enough of one in time.
const BAD_LIFE: Duration = Duration::from_secs(30);

/// Connections that show bad tokens.
const BAD_CONNECTIONS: usize = 50;

#[derive(Clone, Copy, Debug)]
enum Role {
    /// Of a weapon, by its number.
    Shot(usize),
    BadToken,
    Flood(usize),
}

#[derive(Debug)]
struct Flight {
    role: Role,
    begun: Instant,
    reader: Reader,
    /// The WebSocket is there.
    upgraded: bool,
    dripped: usize,
    /// Requests without an answer yet.
    pending: u64,
}

struct Soldier {
    net: Net<()>,
    bridge: SocketAddr,
    subnet: Option<u8>,
    weapons: Vec<Weapon>,
    /// Requests of clients with good tokens, for one after the other: of one client ID only so many may
    /// come in a minute.
    upgrades: Vec<Vec<u8>>,
    upgraded: usize,
    flights: std::collections::HashMap<Key, Flight>,
    fired: Vec<u64>,
    held: Vec<usize>,
    bad_requests: Vec<Vec<u8>>,
    bad_sent: u64,
    floods: Vec<Flood>,
    answers: Answers,
    next_host: u8,
    rates: Rates,
    /// Nothing new is begun.
    stopping: bool,
}

/// A client that registers without end, each time something else.
struct Flood {
    token: String,
    count: u64,
    /// Not before; it was refused.
    again: Instant,
    up: bool,
}

const REGISTERS: &str = "register without end";
const BAD_TOKEN: &str = "bad token on /mcp";

/// Attacks until it is told to stop.
pub fn attack(
    bridge: SocketAddr,
    subnet: Option<u8>,
    rates: Rates,
    stop: &Arc<AtomicBool>,
) -> Result<Answers, String> {
    let weapons = weapons::all(&rates)?;
    let now = Instant::now();
    let floods = (0..rates.flooding_clients)
        .map(|at| {
            let token = token(&format!("flood-{at}"), Scope::Client)?;
            Ok(Flood { token, count: 0, again: now, up: false })
        })
        .collect::<Result<_, String>>()?;
    let mut soldier = Soldier {
        net: Net::new().map_err(|error| error.to_string())?,
        bridge,
        subnet,
        fired: vec![0; weapons.len()],
        held: vec![0; weapons.len()],
        weapons,
        upgrades: (0..CLIENT_IDS).map(upgrade).collect::<Result<_, _>>()?,
        upgraded: 0,
        flights: std::collections::HashMap::new(),
        bad_requests: bad_requests()?,
        bad_sent: 0,
        floods,
        answers: Answers::new(),
        next_host: 1,
        rates,
        stopping: false,
    };
    soldier.run(stop)?;
    Ok(soldier.answers)
}

fn upgrade(at: usize) -> Result<Vec<u8>, String> {
    let token = token(&format!("attacker-{at}"), Scope::Client)?;
    Ok(wire::upgrade(&token).into_bytes())
}

/// Tokens that are wrong in each way there is.
fn bad_requests() -> Result<Vec<Vec<u8>>, String> {
    let good = token("attacker", Scope::Agent)?;
    let changed = format!("{}AAAAAAAAAA", &good[..good.len() - 10]);
    let parts: Vec<&str> = good.split('.').collect();
    // {"alg":"none"}, {"alg":"RS256"}
    let none = format!("eyJhbGciOiJub25lIn0.{}.", parts[1]);
    let other = format!("eyJhbGciOiJSUzI1NiJ9.{}.{}", parts[1], parts[2]);
    let long = "a".repeat(5000);
    let tokens =
        [&changed, "nonsense", "a.b.c", &none, &other, &long, "", "..", &changed, &changed];
    Ok(tokens.map(|token| wire::call(token, wire::Era::Legacy, false, 64).into_bytes()).to_vec())
}

impl Soldier {
    fn run(&mut self, stop: &AtomicBool) -> Result<(), String> {
        let begun = Instant::now();
        let mut next_sweep = begun;
        while !stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            self.fire(now - begun)?;
            self.show_bad_tokens(now - begun)?;
            self.flood(now)?;
            if now >= next_sweep {
                next_sweep = now + Duration::from_secs(1);
                self.each_second(now);
            }
            self.turn(now + Duration::from_millis(5))?;
        }
        self.stopping = true;
        // What was asked a moment ago is still to be answered; who is held is let go.
        let end = Instant::now() + Duration::from_secs(3);
        let waits = |flight: &Flight, weapons: &[Weapon]| match flight.role {
            Role::Shot(weapon) => matches!(weapons[weapon].rate, Rate::PerSecond(_)),
            _ => flight.pending > 0,
        };
        while Instant::now() < end && self.flights.values().any(|one| waits(one, &self.weapons)) {
            self.turn(end)?;
        }
        let left: Vec<Role> = self
            .flights
            .values()
            .filter(|flight| waits(flight, &self.weapons))
            .map(|flight| flight.role)
            .collect();
        for role in left {
            self.book(role, "silence", false);
        }
        Ok(())
    }

    fn open(&mut self, role: Role) -> Result<Key, String> {
        self.next_host = if self.next_host == 250 { 1 } else { self.next_host + 1 };
        let address = match self.subnet {
            Some(subnet) => Ipv4Addr::new(127, 0, subnet, self.next_host),
            None => Ipv4Addr::LOCALHOST,
        };
        let from = From { address, window: None };
        let key = self.net.connect(from, self.bridge, ()).map_err(|error| error.to_string())?;
        let begun = Instant::now();
        let (reader, upgraded, dripped, pending) = (Reader::default(), false, 0, 0);
        self.flights.insert(key, Flight { role, begun, reader, upgraded, dripped, pending });
        Ok(key)
    }

    /// New shots, as many as are due.
    fn fire(&mut self, since: Duration) -> Result<(), String> {
        for at in 0..self.weapons.len() {
            // No more at once than a turn can bear; what is missing comes with the next.
            for _ in 0..20 {
                let due = match self.weapons[at].rate {
                    Rate::PerSecond(rate) => {
                        self.fired[at] < (since.as_secs_f64() * rate).ceil() as u64
                    }
                    Rate::AtOnce(most) => self.held[at] < most,
                };
                if !due {
                    break;
                }
                let key = self.open(Role::Shot(at))?;
                if self.weapons[at].first.is_empty() {
                    self.upgraded += 1;
                    self.net.send(key, &self.upgrades[self.upgraded % CLIENT_IDS]);
                } else {
                    self.net.send(key, &self.weapons[at].first);
                }
                self.fired[at] += 1;
                self.held[at] += 1;
            }
        }
        Ok(())
    }

    fn show_bad_tokens(&mut self, since: Duration) -> Result<(), String> {
        let due = (since.as_secs_f64() * self.rates.bad_tokens) as u64;
        let (mut ready, mut old) = (Vec::new(), Vec::new());
        let mut there = 0;
        for (key, flight) in &self.flights {
            if !matches!(flight.role, Role::BadToken) {
                continue;
            }
            there += 1;
            match flight.pending {
                0 if flight.begun.elapsed() > BAD_LIFE => old.push(*key),
                _ if flight.begun.elapsed() > BAD_LIFE => {}
                0..4 => ready.push(*key),
                _ => {}
            }
        }
        for key in old {
            self.flights.remove(&key);
            self.net.close(key);
        }
        if there < BAD_CONNECTIONS && self.rates.bad_tokens > 0.0 {
            ready.push(self.open(Role::BadToken)?);
        }
        while self.bad_sent < due && !ready.is_empty() {
            ready.retain(|key| {
                if self.bad_sent >= due {
                    return true;
                }
                let Some(flight) = self.flights.get_mut(key) else { return false };
                let request = &self.bad_requests[self.bad_sent as usize % self.bad_requests.len()];
                self.net.send(*key, request);
                self.bad_sent += 1;
                flight.pending += 1;
                flight.pending < 4
            });
        }
        Ok(())
    }

    fn flood(&mut self, now: Instant) -> Result<(), String> {
        for at in 0..self.floods.len() {
            if !self.floods[at].up && self.floods[at].again <= now {
                self.floods[at].up = true;
                let key = self.open(Role::Flood(at))?;
                let request = wire::upgrade(&self.floods[at].token);
                self.net.send(key, request.as_bytes());
            }
        }
        Ok(())
    }

    fn register(&mut self, at: usize, key: Key) {
        self.floods[at].count += 1;
        let text = wire::register(Some(self.floods[at].count as usize));
        let mut bytes = Vec::new();
        frame(TEXT, text.as_bytes(), &mut bytes);
        self.net.send(key, &bytes);
        if let Some(flight) = self.flights.get_mut(&key) {
            flight.pending += 1;
        }
    }

    fn each_second(&mut self, now: Instant) {
        let mut silent = Vec::new();
        for (key, flight) in &mut self.flights {
            if let Role::Shot(at) = flight.role {
                if let Some(byte) = self.weapons[at].drip.get(flight.dripped) {
                    flight.dripped += 1;
                    self.net.send(*key, &[*byte]);
                }
                if now - flight.begun > SILENT_AFTER {
                    silent.push(*key);
                }
            }
        }
        for key in silent {
            self.finish(key, "silence");
        }
    }

    fn turn(&mut self, until: Instant) -> Result<(), String> {
        let happened = self.net.turn(until).map_err(|error| error.to_string())?;
        for Happening { key, event, left, .. } in happened {
            match event {
                Event::Data => {
                    let came = self.net.came(key).map(std::mem::take).unwrap_or_default();
                    let rest = self.reads(key, came);
                    if let Some(buffer) = self.net.came(key) {
                        *buffer = rest;
                    }
                }
                Event::Closed { reset } => {
                    self.reads(key, left);
                    if self.flights.contains_key(&key) {
                        self.finish(key, if reset { "a reset" } else { "closed without a word" });
                    }
                }
            }
        }
        Ok(())
    }

    /// Looks for answers in what came; returns what is left over.
    fn reads(&mut self, key: Key, mut came: Vec<u8>) -> Vec<u8> {
        while let Some(flight) = self.flights.get_mut(&key) {
            if flight.upgraded {
                return self.reads_frames(key, came);
            }
            // The end of a refusal without a length is that of the connection, which is not waited for.
            if find(&came, b"\r\n\r\n").is_none() && flight.reader.is_idle() {
                break;
            }
            let role = flight.role;
            match flight.reader.take(&mut came) {
                Ok(None) => break,
                Ok(Some(Piece::Head(head))) if head.status == 101 => {
                    flight.upgraded = true;
                    match role {
                        Role::Shot(at) => self.net.send(key, &self.weapons[at].then),
                        Role::Flood(at) => self.register(at, key),
                        Role::BadToken => {}
                    }
                }
                Ok(Some(Piece::Head(head))) => {
                    let status = head.status.to_string();
                    match role {
                        Role::BadToken => {
                            flight.pending = flight.pending.saturating_sub(1);
                            self.book(role, &status, status == "401");
                        }
                        _ => self.finish(key, &status),
                    }
                }
                Ok(Some(_)) => {}
                Err(error) => self.finish(key, &error),
            }
        }
        came
    }

    fn reads_frames(&mut self, key: Key, mut came: Vec<u8>) -> Vec<u8> {
        let mut from = 0;
        while let Some((opcode, start, end)) = server_frame(&came[from..]) {
            let payload = &came[from + start..from + end];
            from += end;
            if opcode == CLOSE {
                let code = payload.first_chunk().map_or(1005, |code| u16::from_be_bytes(*code));
                self.finish(key, &format!("close {code}"));
                break;
            }
            let Some(flight) = self.flights.get_mut(&key) else { break };
            if let Role::Flood(at) = flight.role
                && payload.starts_with(br#"{"type":"registered""#)
            {
                flight.pending = 0;
                let role = flight.role;
                self.book(role, "registered", true);
                if !self.stopping {
                    self.register(at, key);
                }
            }
        }
        came.drain(..from);
        came
    }

    /// A connection has its answer, whatever it is.
    fn finish(&mut self, key: Key, answer: &str) {
        let Some(flight) = self.flights.remove(&key) else { return };
        let right = match flight.role {
            Role::Shot(at) => {
                self.held[at] -= 1;
                self.weapons[at].answers.contains(&answer)
            }
            // A bound on registers or connections is a refusal as well.
            Role::Flood(at) => {
                self.floods[at].up = false;
                self.floods[at].again = Instant::now() + Duration::from_millis(200);
                answer == "close 4429"
            }
            // After such a request the bridge may close; it has said so then.
            Role::BadToken => answer == "closed without a word" && flight.pending == 0,
        };
        self.book(flight.role, answer, right);
        self.net.reset(key);
    }

    fn book(&mut self, role: Role, answer: &str, right: bool) {
        let name = match role {
            Role::Shot(at) => self.weapons[at].name,
            Role::BadToken => BAD_TOKEN,
            Role::Flood(_) => REGISTERS,
        };
        self.answers.entry((name, answer.to_owned())).or_insert((0, right)).0 += 1;
    }
}
