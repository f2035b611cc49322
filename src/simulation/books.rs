//! What must come of the requests that reach the registry, kept in the plainest way: which stream is owed
//! what, which must end, which log level a call's session asked for, and which connection is the newest.
//!
//! Knows SPEC §5.4 and §5.5, and nothing of how the registry goes about it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use clientmcp_proto::agent::Memory;
use clientmcp_proto::client_id::ClientId;
use clientmcp_proto::mcp::LogLevel;

use super::Check;
use crate::mailbox::Mailbox;
use crate::registry::Request;
use crate::stream::{End, Slot};

#[derive(Default)]
pub struct Books {
    sessions: BTreeMap<(ClientId, Box<str>), Remembered>,
    streams: Vec<Stream>,
    /// Streams that were told to end, and why, until they have.
    ending: Vec<(Rc<Slot>, End)>,
    /// Connections of clients in the order of their handshakes.
    dialed: Vec<Rc<Mailbox>>,
    /// The newest connection of each client that has registered, by its place in that order.
    newest: BTreeMap<ClientId, usize>,
    /// Those that a newer one has taken the place of, at some time.
    replaced: BTreeSet<usize>,
    /// The least severe log message that a call's agent ever wanted, by the call's marker.
    levels: BTreeMap<String, LogLevel>,
}

#[derive(Default)]
struct Remembered {
    uris: BTreeSet<Box<str>>,
    level: Option<LogLevel>,
}

/// A stream that the registry has opened.
struct Stream {
    client_id: ClientId,
    slot: Rc<Slot>,
    /// Resources whose change it is still to be told of.
    owed: BTreeSet<String>,
}

impl Books {
    /// A request is about to reach the registry.
    pub fn see(&mut self, request: &Request) {
        match request {
            Request::Look { client_id, memory: Some((session, memory)), .. } => {
                let session =
                    self.sessions.entry((client_id.clone(), session.clone())).or_default();
                match memory {
                    Memory::Level(level) => session.level = Some(*level),
                    Memory::Subscribe(uri) => drop(session.uris.insert(uri.clone())),
                    Memory::Unsubscribe(uri) => drop(session.uris.remove(uri)),
                }
            }
            Request::Listen { client_id, slot, .. } => {
                if slot.listen.session.is_some() {
                    self.end(End::Replaced, |other| {
                        other.client_id == *client_id
                            && other.slot.listen.session == slot.listen.session
                    });
                }
                let (client_id, slot) = (client_id.clone(), slot.clone());
                self.streams.push(Stream { client_id, slot, owed: BTreeSet::new() });
            }
            Request::Unlisten { slot, .. } => {
                self.streams.retain(|stream| !Rc::ptr_eq(&stream.slot, slot));
                self.ending.retain(|(other, _)| !Rc::ptr_eq(other, slot));
            }
            Request::Forget { client_id, session } => {
                self.sessions.remove(&(client_id.clone(), session.clone()));
                self.end(End::Replaced, |stream| {
                    stream.client_id == *client_id
                        && stream.slot.listen.session.as_ref() == Some(session)
                });
            }
            Request::EndStreams => self.end(End::Stopping, |_| true),
            Request::Updated { client_id, uri } => {
                for stream in &mut self.streams {
                    let wanted = match &stream.slot.listen.session {
                        Some(session) => self
                            .sessions
                            .get(&(client_id.clone(), session.clone()))
                            .is_some_and(|session| session.uris.contains(uri.as_str())),
                        None => stream.slot.listen.uris.contains(uri),
                    };
                    if stream.client_id == *client_id && wanted {
                        stream.owed.insert(uri.clone());
                    }
                }
            }
            Request::Join(join) => {
                let place = self.place(&join.mailbox);
                let newest = self.newest.entry(join.client_id.clone()).or_insert(place);
                // One that has gone makes room for one that was there before it.
                if self.dialed[*newest].is_closed() || *newest < place {
                    self.replaced.insert(std::mem::replace(newest, place));
                } else if *newest > place {
                    self.replaced.insert(place);
                }
            }
            Request::Call(ticket) => {
                let session = ticket.call.session.clone();
                let session = session
                    .and_then(|session| self.sessions.get(&(ticket.client_id.clone(), session)));
                if let Some(level) = session.and_then(|session| session.level) {
                    let marker = super::agent::marker_of(&ticket.body);
                    let least = self.levels.entry(marker).or_insert(level);
                    *least = level.min(*least);
                }
            }
            _ => {}
        }
    }

    /// A client has shaken hands.
    pub fn dials(&mut self, mailbox: &Rc<Mailbox>) {
        self.dialed.push(mailbox.clone());
    }

    fn place(&self, mailbox: &Rc<Mailbox>) -> usize {
        let same = |known: &Rc<Mailbox>| Rc::ptr_eq(known, mailbox);
        self.dialed.iter().position(same).expect("everyone dials first")
    }

    /// A connection is told that a newer one has taken over.
    pub fn replaced(&self, client_id: &ClientId, mailbox: &Rc<Mailbox>) -> Check {
        match self.replaced.contains(&self.place(mailbox)) {
            true => Ok(()),
            false => Err(format!("the newest connection of {client_id} was sent away")),
        }
    }

    fn end(&mut self, why: End, of: impl Fn(&Stream) -> bool) {
        for stream in self.streams.iter().filter(|stream| of(stream)) {
            if !self.ending.iter().any(|(slot, _)| Rc::ptr_eq(slot, &stream.slot)) {
                self.ending.push((stream.slot.clone(), why));
            }
        }
        // One that was replaced or deleted may still be told what it was owed before, and no more.
    }

    /// A stream's agent reads that a resource changed.
    pub fn told(&mut self, slot: &Rc<Slot>, uri: &str) -> Check {
        let stream = self.streams.iter_mut().find(|stream| Rc::ptr_eq(&stream.slot, slot));
        match stream.is_some_and(|stream| stream.owed.remove(uri)) {
            true => Ok(()),
            false => Err(format!("a stream was told of {uri}, for which it had not asked")),
        }
    }

    /// A stream's agent reads its end.
    pub fn ended(&mut self, slot: &Rc<Slot>, end: End) -> Check {
        match self.ending.iter().any(|(other, why)| Rc::ptr_eq(other, slot) && *why == end) {
            true => Ok(()),
            false => Err(format!("a stream ended for no reason: {end:?}")),
        }
    }

    /// A log message of this level reached the agent of this call.
    pub fn logged(&self, marker: &str, level: LogLevel) -> Check {
        match self.levels.get(marker) {
            Some(least) if *least <= level => Ok(()),
            wanted => {
                Err(format!("{marker} was sent a log message of {level:?}, wanted {wanted:?}"))
            }
        }
    }

    /// Everyone has had every turn: nothing is owed, and no stream goes on that was to end.
    pub fn are_balanced(&self) -> Check {
        if let Some((slot, why)) = self.ending.first() {
            let session = &slot.listen.session;
            return Err(format!("a stream goes on that was to end: {why:?}, session {session:?}"));
        }
        let owed = self.streams.iter().find(|stream| !stream.owed.is_empty());
        owed.map_or(Ok(()), |stream| Err(format!("a stream was never told of {:?}", stream.owed)))
    }
}
