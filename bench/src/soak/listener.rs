//! Agents that only listen: on a GET stream or a `subscriptions/listen`, and ask for the list whenever
//! they are told that it changed.
//!
//! So each must know a client's newest register soon after it was taken, and that is what is checked: a
//! list change may be coalesced with another, and never lost.

use std::time::{Duration, Instant};

use super::agent::{list_request, listed_version};
use super::app::App;
use super::world::{Habits, STREAM_LIFE, Tag, Task, World};
use crate::net::Key;
use crate::response::{Piece, Reader};
use crate::wire::{self, Scope, find, token};

/// How long a listener may not know of a change: the bridge tells it within 0.1 s.
const KNOWN_AFTER: Duration = Duration::from_secs(4);

#[derive(Debug)]
pub struct Listener {
    app: usize,
    modern: bool,
    token: String,
    stream: Option<Key>,
    reader: Reader,
    /// Since when the stream speaks.
    speaks: Option<Instant>,
    asker: Option<Key>,
    answers: Reader,
    /// A list was asked for; the version that it must have at least.
    asked: Option<u64>,
    /// It changed again since.
    again: bool,
    known: u64,
    sessions: u64,
}

impl Listener {
    pub fn new(at: usize, habits: &Habits) -> Result<Listener, String> {
        let app = (at / 2) % habits.apps;
        Ok(Listener {
            app,
            modern: at % 2 == 1,
            token: token(&format!("app-{app}"), Scope::Agent)?,
            stream: None,
            reader: Reader::default(),
            speaks: None,
            asker: None,
            answers: Reader::default(),
            asked: None,
            again: false,
            known: 0,
            sessions: 0,
        })
    }

    /// It listens, and knows what there is.
    pub fn is_settled(&self, apps: &[App]) -> bool {
        self.speaks.is_some() && self.asked.is_none() && self.known >= apps[self.app].acked
    }
}

impl World {
    pub fn listener_open(&mut self, at: usize) {
        let Some(key) = self.connect(0, None, Tag::Stream(at)) else { return };
        self.tally.streams += 1;
        let listener = &mut self.listeners[at];
        listener.stream = Some(key);
        listener.reader = Reader::default();
        listener.speaks = None;
        listener.sessions += 1;
        let request = if listener.modern {
            wire::listen(&listener.token)
        } else {
            let session = format!("listener-{at}-{}", listener.sessions);
            wire::stream(&listener.token, &session)
        };
        self.net.send(key, request.as_bytes());
    }

    /// It leaves, in one way or the other, and is back.
    pub fn listener_turn(&mut self, at: usize) {
        let pause = (self.habits.mischief * STREAM_LIFE).mul_f64(0.5 + self.fraction());
        self.after(pause, Task::Listener(at));
        if self.resting {
            return;
        }
        let Some(key) = self.listeners[at].stream.take() else { return };
        if self.chance(500) {
            self.net.reset(key);
        } else {
            self.net.close(key);
        }
        self.listener_open(at);
    }

    pub fn stream_event(&mut self, at: usize, key: Key, closed: bool) {
        if self.listeners[at].stream != Some(key) {
            return;
        }
        if closed {
            return self.fault(format!("the stream of listener {at} ended"));
        }
        let Some(came) = self.net.came(key) else { return };
        let mut pieces = Vec::new();
        let error = loop {
            match self.listeners[at].reader.take(came) {
                Ok(None) => break None,
                Ok(Some(piece)) => pieces.push(piece),
                Err(error) => break Some(error),
            }
        };
        for piece in pieces {
            match piece {
                Piece::Head(head) if head.status == 200 && head.events => {}
                Piece::Comment => self.listener_hears(at),
                Piece::Record(record) => {
                    if find(&record, b"notifications/tools/list_changed").is_some() {
                        self.tally.list_changes += 1;
                    }
                    self.listener_hears(at);
                }
                other => self.fault(format!("listener {at} got {other:?}")),
            }
        }
        if let Some(error) = error {
            self.fault(format!("listener {at}: {error}"));
        }
    }

    /// The stream began, or told of a change: what is there now?
    fn listener_hears(&mut self, at: usize) {
        let listener = &mut self.listeners[at];
        listener.speaks.get_or_insert_with(Instant::now);
        if listener.asked.is_some() {
            listener.again = true;
            return;
        }
        listener.again = false;
        listener.asked = Some(self.apps[listener.app].acked);
        let request = list_request(&listener.token, listener.modern);
        let asker = match listener.asker {
            Some(key) => key,
            None => {
                let Some(key) = self.connect(0, None, Tag::Asker(at)) else { return };
                self.listeners[at].asker = Some(key);
                key
            }
        };
        self.net.send(asker, request.as_bytes());
    }

    pub fn asker_event(&mut self, at: usize, key: Key, closed: bool) {
        if closed {
            let listener = &mut self.listeners[at];
            listener.asker = None;
            // One that was idle for `--keep-alive`.
            if listener.asked.is_some() {
                self.fault(format!("the bridge closed on listener {at}"));
            }
            return;
        }
        let mut ended = false;
        let Some(came) = self.net.came(key) else { return };
        let listener = &mut self.listeners[at];
        let floor = listener.asked.unwrap_or(u64::MAX);
        let mut fault = None;
        loop {
            match listener.answers.take(came) {
                Ok(None) => break,
                Ok(Some(Piece::Head(head))) if head.status == 200 => {}
                Ok(Some(Piece::Body(text))) => match listed_version(&text) {
                    Ok(version) if version >= floor => listener.known = version,
                    other => fault = Some(format!("listener {at}: {other:?} after {floor}")),
                },
                Ok(Some(Piece::End)) => ended = true,
                other => {
                    fault = Some(format!("listener {at} asked for a list and got {other:?}"));
                    break;
                }
            }
        }
        if let Some(fault) = fault {
            return self.fault(fault);
        }
        if ended {
            listener.asked = None;
            if listener.again {
                self.listener_hears(at);
            }
        }
    }

    /// Each change is known to each listener that was there.
    pub fn check_listeners(&mut self) {
        let mut late = Vec::new();
        for (at, listener) in self.listeners.iter().enumerate() {
            let app = &self.apps[listener.app];
            let Some(speaks) = listener.speaks else { continue };
            let told = app.acked_at.max(speaks).elapsed() > KNOWN_AFTER;
            if told && listener.known < app.acked {
                late.push(format!(
                    "listener {at} was not told of version {}: {listener:?}",
                    app.acked
                ));
            }
        }
        for what in late {
            self.fault(what);
        }
    }
}
