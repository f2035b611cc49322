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
    /// Of all sessions, as [`Session::bytes`] counts them.
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
        key_bytes(key) + self.uris.iter().map(|uri| uri_bytes(uri)).sum::<usize>()
    }
}

/// What a session takes before it subscribes to anything. Its ID is kept twice.
fn key_bytes(key: &SessionKey) -> usize {
    2 * key.1.len() + limits::SESSION_OVERHEAD_BYTES
}

fn uri_bytes(uri: &str) -> usize {
    uri.len() + limits::URI_OVERHEAD_BYTES
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
            self.bytes += key_bytes(&key);
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
                let bytes = uri_bytes(&uri);
                if session.uris.insert(uri) {
                    self.bytes += bytes;
                }
            }
            Memory::Unsubscribe(uri) => {
                if session.uris.remove(&uri) {
                    self.bytes -= uri_bytes(&uri);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A number in so many bytes.
    fn text(n: usize, bytes: usize) -> String {
        let digits = n.to_string();
        "0".repeat(bytes.saturating_sub(digits.len())) + &digits
    }

    fn key(session: usize, id_bytes: usize) -> SessionKey {
        let client_id = ClientId::parse("a").expect("a client ID");
        (client_id, text(session, id_bytes).into())
    }

    fn subscribe(n: usize, uri_bytes: usize) -> Memory {
        Memory::Subscribe(text(n, uri_bytes).into())
    }

    /// What the allocator is asked for, about: both IDs, a node's share and a box for each URI.
    fn least_memory(sessions: &Sessions) -> usize {
        let boxed = |text: &str| text.len().max(24) + 8;
        let uris = sessions.known.values().flat_map(|session| &session.uris);
        let uris: usize = uris.map(|uri| boxed(uri) + size_of::<Box<str>>()).sum();
        let ids = sessions.order.iter().map(|key| 2 * (boxed(&key.1) + size_of::<SessionKey>()));
        uris + ids.sum::<usize>() + sessions.known.len() * size_of::<Session>()
    }

    #[test]
    fn sessions_stay_within_their_memory_whatever_their_ids_and_uris_are_like() {
        // Bytes of an ID, of a URI, URIs a session.
        for (id, uri, uris) in
            [(5, 3, 256), (5, 4096, 256), (1023, 1, 0), (1023, 1, 1), (5, 1, 0), (200, 40, 3)]
        {
            let mut sessions = Sessions::default();
            let first = key(0, id);
            for n in 0..12_000 {
                let key = key(n, id);
                assert!(sessions.remember(key.clone(), Memory::Level(LogLevel::Info)));
                for u in 0..uris {
                    assert!(sessions.remember(key.clone(), subscribe(u, uri)));
                }
                if n % 100 == 99 && sessions.order.front() != Some(&first) {
                    break; // full: more of the same changes nothing
                }
            }
            let name = format!("IDs of {id} bytes, {uris} URIs of {uri}");
            let counted: usize =
                sessions.known.iter().map(|(key, session)| session.bytes(key)).sum();
            assert_eq!(sessions.bytes, counted, "{name}");
            assert_eq!(sessions.known.len(), sessions.order.len(), "{name}");
            assert!(sessions.known.len() <= limits::SESSIONS_MAX, "{name}");
            assert!(sessions.bytes <= limits::SESSIONS_BYTES_MAX, "{name}");
            let least = least_memory(&sessions);
            assert!(least <= limits::SESSIONS_BYTES_MAX, "{name}: {least} bytes at least");
            assert!(sessions.order.front() != Some(&first), "{name}: the oldest was dropped");
        }
    }

    #[test]
    fn what_a_session_takes_is_given_back() {
        let mut sessions = Sessions::default();
        assert!(sessions.remember(key(0, 9), subscribe(1, 9)));
        assert!(sessions.remember(key(0, 9), subscribe(1, 9)), "twice is once");
        let one = sessions.bytes;
        assert!(sessions.remember(key(0, 9), subscribe(2, 9)));
        assert!(sessions.remember(key(0, 9), Memory::Unsubscribe(text(2, 9).into())));
        assert!(sessions.remember(key(0, 9), Memory::Unsubscribe("never there".into())));
        assert_eq!(sessions.bytes, one);
        sessions.forget(&key(0, 9));
        sessions.forget(&key(0, 9));
        assert_eq!((sessions.bytes, sessions.known.len(), sessions.order.len()), (0, 0, 0));
    }
}
