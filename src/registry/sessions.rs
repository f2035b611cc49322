//! The memory of 2025-era sessions, which is all that the bridge ever keeps of an agent.
//!
//! Knows how much there may be of it; the registry asks it what a call's session wants to hear.

use std::collections::hash_map::HashMap;
use std::collections::{BTreeSet, VecDeque};

use clientmcp_proto::agent::Memory;
use clientmcp_proto::client_id::ClientId;
use clientmcp_proto::limits;
use clientmcp_proto::mcp::LogLevel;

/// The two things a 2025-era session may ask to be remembered. Bounded in number and in bytes; lost with
/// the bridge.
#[derive(Default)]
pub struct Sessions {
    known: HashMap<SessionKey, Session>,
    /// Oldest first.
    order: VecDeque<SessionKey>,
    /// Of all IDs and URIs.
    bytes: usize,
}

pub type SessionKey = (ClientId, Box<str>);

#[derive(Default)]
struct Session {
    level: Option<LogLevel>,
    uris: BTreeSet<Box<str>>,
}

impl Session {
    fn bytes(&self, key: &SessionKey) -> usize {
        key.1.len() + self.uris.iter().map(|uri| uri.len()).sum::<usize>()
    }
}

impl Sessions {
    /// Whether there was room.
    pub fn remember(&mut self, key: SessionKey, memory: Memory) -> bool {
        if !self.known.contains_key(&key) {
            if matches!(memory, Memory::Unsubscribe(_))
                || key.1.len() > limits::SESSION_ID_BYTES_MAX
            {
                // Nothing to forget; and no ID of ours is that long, so nobody relies on it.
                return true;
            }
            self.bytes += key.1.len();
            self.known.insert(key.clone(), Session::default());
            self.order.push_back(key.clone());
        }
        let Some(session) = self.known.get_mut(&key) else { return false };
        match memory {
            Memory::Level(level) => session.level = Some(level),
            Memory::Subscribe(uri) => {
                let full = session.uris.len() >= limits::SUBSCRIPTIONS_MAX;
                if full && !session.uris.contains(&uri) {
                    return false;
                }
                let bytes = uri.len();
                if session.uris.insert(uri) {
                    self.bytes += bytes;
                }
            }
            Memory::Unsubscribe(uri) => {
                if session.uris.remove(&uri) {
                    self.bytes -= uri.len();
                }
            }
        }
        while (self.known.len() > limits::SESSIONS_MAX || self.bytes > limits::SESSIONS_BYTES_MAX)
            && let Some(oldest) = self.order.pop_front()
        {
            self.drop(&oldest);
        }
        true
    }

    pub fn level(&self, client_id: &ClientId, session: &str) -> Option<LogLevel> {
        self.get(client_id, session)?.level
    }

    pub fn subscribed(&self, client_id: &ClientId, session: &str, uri: &str) -> bool {
        self.get(client_id, session).is_some_and(|session| session.uris.contains(uri))
    }

    fn get(&self, client_id: &ClientId, session: &str) -> Option<&Session> {
        if self.known.is_empty() {
            return None;
        }
        self.known.get(&(client_id.clone(), session.into()))
    }

    pub fn forget(&mut self, key: &SessionKey) {
        if self.drop(key) {
            self.order.retain(|other| other != key);
        }
    }

    fn drop(&mut self, key: &SessionKey) -> bool {
        let Some(session) = self.known.remove(key) else { return false };
        self.bytes -= session.bytes(key);
        true
    }
}
