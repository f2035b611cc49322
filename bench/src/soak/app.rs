//! The applications: they answer what they are called for, and have the lives that applications have.
//!
//! One leaves with or without a word, is replaced by a newer connection, changes what it offers, reads
//! nothing for a while: that is begun in `mischief`. What its connection owed then ends "may have run";
//! what it must hear is checked here: no call twice, no cancel that nobody asked for, each register
//! answered.

use std::collections::HashMap;
use std::time::Instant;

use super::calls::{Kind, Order, between, read_call};
use super::world::{Habits, LOST_AFTER, Tag, Task, World};
use crate::net::Key;
use crate::wire::{self, CLOSE, PING, PONG, Scope, TEXT, find, frame, server_frame, token};

#[derive(Debug)]
pub struct App {
    pub id: String,
    pub token: String,
    pub bad_token: String,
    /// The connection that has the name.
    pub current: Option<Key>,
    /// How often a connection was lost, and how often it was back.
    pub losses: u64,
    /// Connections that come or go.
    pub moving: usize,
    /// Of the last register sent, and of the last one taken.
    pub version: u64,
    pub acked: u64,
    pub acked_at: Instant,
    /// It stalls now and then.
    pub slow: bool,
}

/// One connection of an application.
#[derive(Debug)]
pub struct Link {
    pub stage: Stage,
    pub since: Instant,
    /// Calls that it saw and did not end, by their ID on the channel.
    pub open: HashMap<String, u64>,
    /// Registers that are not answered yet.
    pub registers: Vec<u64>,
    /// A newer connection has asked for the name, so what still comes may be over already.
    pub challenged: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Until the 101.
    Handshake,
    /// Until the first `registered`.
    Joining,
    Up,
    /// Closes by itself, or was told that it is replaced.
    Leaving,
}

impl App {
    pub fn new(at: usize, habits: &Habits) -> Result<App, String> {
        let id = format!("app-{at}");
        let token = token(&id, Scope::Client)?;
        let mut bad_token = token.clone();
        bad_token.replace_range(token.len() - 10.., "AAAAAAAAAA");
        Ok(App {
            id,
            token,
            bad_token,
            current: None,
            losses: 0,
            moving: 0,
            version: 1,
            acked: 0,
            acked_at: Instant::now(),
            slow: at + habits.slow_apps >= habits.apps,
        })
    }

    /// One connection, and it has the name.
    pub fn is_settled(&self) -> bool {
        self.current.is_some() && self.moving == 0 && self.acked == self.version
    }

    fn register(&self) -> String {
        format!(
            r#"{{"type":"register","server":{{"name":"{}","version":"1"}},"tools":[{{"name":"echo","description":"version {}","inputSchema":{{"type":"object"}}}}]}}"#,
            self.id, self.version
        )
    }
}

impl World {
    pub fn app_connect(&mut self, at: usize) {
        let window = self.apps[at].slow.then_some(16 << 10);
        let Some(key) = self.connect(1, window, Tag::App(at)) else { return };
        self.net.send(key, wire::upgrade(&self.apps[at].token).as_bytes());
        self.apps[at].moving += 1;
        let link = Link {
            stage: Stage::Handshake,
            since: Instant::now(),
            open: HashMap::new(),
            registers: Vec::new(),
            challenged: false,
        };
        self.links.insert(key, link);
    }

    pub fn app_register(&mut self, at: usize, key: Key) {
        self.tally.registers += 1;
        self.app_send(key, &self.apps[at].register());
        if let Some(link) = self.links.get_mut(&key) {
            link.registers.push(self.apps[at].version);
        }
    }

    fn app_send(&mut self, key: Key, text: &str) {
        let mut bytes = Vec::with_capacity(text.len() + 14);
        frame(TEXT, text.as_bytes(), &mut bytes);
        self.net.send(key, &bytes);
    }

    pub fn app_event(&mut self, at: usize, key: Key, closed: bool, left: Vec<u8>) {
        let mut came = match closed {
            true => left,
            false => self.net.came(key).map(std::mem::take).unwrap_or_default(),
        };
        let mut from = 0;
        if self.links.get(&key).is_some_and(|link| link.stage == Stage::Handshake)
            && let Some(end) = find(&came, b"\r\n\r\n")
        {
            if !came.starts_with(b"HTTP/1.1 101 ") {
                let head = String::from_utf8_lossy(&came).into_owned();
                self.fault(format!("{} expected 101, got {head:.300}", self.apps[at].id));
            }
            from = end + 4;
            self.app_joins(at, key);
        }
        while let Some((opcode, start, end)) = server_frame(&came[from..]) {
            let payload = &came[from + start..from + end];
            match opcode {
                TEXT => self.app_message(at, key, payload),
                PING => {
                    let mut pong = Vec::new();
                    frame(PONG, payload, &mut pong);
                    self.net.send(key, &pong);
                }
                CLOSE => self.app_closed(at, key, payload),
                other => self.fault(format!("a frame with the opcode {other}")),
            }
            from += end;
        }
        came.drain(..from);
        if closed {
            self.app_gone(at, key);
        } else if let Some(buffer) = self.net.came(key) {
            came.append(buffer);
            *buffer = came;
        }
    }

    fn app_joins(&mut self, at: usize, key: Key) {
        if let Some(link) = self.links.get_mut(&key) {
            link.stage = Stage::Joining;
        }
        // It comes back with news, now and then.
        if self.habits.restless && self.apps[at].acked > 0 && self.chance(200) {
            self.apps[at].version += 1;
        }
        if let Some(old) = self.apps[at].current
            && let Some(link) = self.links.get_mut(&old)
        {
            link.challenged = true;
        }
        self.apps[at].losses += 1;
        self.app_register(at, key);
    }

    fn app_message(&mut self, at: usize, key: Key, message: &[u8]) {
        if message.starts_with(br#"{"type":"call""#) {
            return self.app_called(at, key, message);
        }
        if message.starts_with(br#"{"type":"cancel""#) {
            let id = between(message, br#""id":""#, b"\"").unwrap_or_default();
            return self.app_cancelled(key, &id);
        }
        if message.starts_with(br#"{"type":"registered""#) {
            return self.app_registered(at, key, message);
        }
        let expected = self.links.get(&key).is_some_and(|link| link.challenged);
        let replaced = br#"{"type":"fault","code":4409"#;
        if !(expected && message.starts_with(replaced)) {
            let message = String::from_utf8_lossy(message).into_owned();
            self.fault(format!("{} got {message:.300}", self.apps[at].id));
        }
    }

    fn app_registered(&mut self, at: usize, key: Key, message: &[u8]) {
        let Some(link) = self.links.get_mut(&key) else { return };
        if link.registers.is_empty() || find(message, br#""refused":[]"#).is_none() {
            let message = String::from_utf8_lossy(message).into_owned();
            return self.fault(format!("{} got {message:.300}", self.apps[at].id));
        }
        let version = link.registers.remove(0);
        let joined = link.stage == Stage::Joining;
        let app = &mut self.apps[at];
        if version > app.acked {
            app.acked = version;
            app.acked_at = Instant::now();
        }
        if !joined {
            return;
        }
        link.stage = Stage::Up;
        app.losses += 1;
        app.moving -= 1;
        let old = app.current.replace(key);
        if let Some(old) = old
            && self.links.contains_key(&old)
        {
            // Until it hears that it is replaced.
            self.apps[at].moving += 1;
            self.app_lets_go(old);
        }
    }

    /// Whatever this connection was to answer is over.
    pub fn app_lets_go(&mut self, key: Key) {
        let Some(link) = self.links.get_mut(&key) else { return };
        link.stage = Stage::Leaving;
        link.since = Instant::now();
        let open = std::mem::take(&mut link.open);
        for number in open.into_values() {
            if let Some(call) = self.calls.get_mut(&number) {
                call.over_there = true;
            }
            self.forget(number);
        }
    }

    fn app_called(&mut self, at: usize, key: Key, message: &[u8]) {
        let (id, number, order) = match read_call(message, &self.texts) {
            Ok(read) => read,
            Err(error) => return self.fault(format!("{}: {error}", self.apps[at].id)),
        };
        let Some(link) = self.links.get_mut(&key) else { return };
        let stays = link.stage == Stage::Up;
        let Some(call) = self.calls.get_mut(&number) else {
            // What was written to it and lay in its way may be over by now.
            if !link.challenged && link.stage != Stage::Leaving {
                self.fault(format!("{} saw call {number}, which is over", self.apps[at].id));
            }
            return;
        };
        if call.seen.is_some() || call.app != at || call.kind.stays_here() {
            let what = format!("{} saw call {number} once too often: {call:?}", self.apps[at].id);
            return self.fault(what);
        }
        call.seen = Some(key);
        if !stays {
            // It is on its way out and answers nothing any more.
            call.over_there = true;
            return self.forget(number);
        }
        let kind = call.kind;
        link.open.insert(id.clone(), number);
        match order {
            Order::Echo | Order::Error => self.app_answer(key, &id, number),
            Order::Slow => {
                let wait = self.some_ms(1100, 1500);
                self.after(wait, Task::Answer(key, id, number));
            }
            Order::Progress => self.app_progress(key, id, number, 1),
            Order::Race => {
                let (answer, cancel) = (self.some_ms(0, 20), self.some_ms(0, 20));
                self.after(answer, Task::Answer(key, id, number));
                self.after(cancel, Task::TakeBack(number));
            }
            Order::Hang if kind != Kind::Timeout => {
                let wait = self.some_ms(0, 50);
                self.after(wait, Task::TakeBack(number));
            }
            Order::Hang => {}
        }
    }

    /// The client ends a call, if it still may.
    pub fn app_answer(&mut self, key: Key, id: &str, number: u64) {
        let Some(link) = self.links.get_mut(&key).filter(|link| link.stage == Stage::Up) else {
            return;
        };
        // It has heard of a cancel meanwhile.
        if link.open.remove(id).is_none() {
            return;
        }
        let Some(call) = self.calls.get_mut(&number) else { return };
        call.over_there = true;
        let text = if call.kind == Kind::Error {
            format!(
                r#"{{"type":"error","id":"{id}","error":{{"code":-32099,"message":"number {number}"}}}}"#
            )
        } else {
            let text = self.texts.result(number, call.result_bytes);
            format!(
                r#"{{"type":"result","id":"{id}","result":{{"content":[{{"type":"text","text":"{number}:{text}"}}]}}}}"#
            )
        };
        self.app_send(key, &text);
        self.forget(number);
    }

    pub fn app_progress(&mut self, key: Key, id: String, number: u64, step: u32) {
        let up = |link: &&Link| link.stage == Stage::Up && link.open.contains_key(&id);
        if self.links.get(&key).filter(up).is_none() {
            return;
        }
        if step > 3 {
            return self.app_answer(key, &id, number);
        }
        self.app_send(
            key,
            &format!(
                r#"{{"type":"notify","id":"{id}","method":"notifications/progress","params":{{"progress":{step},"total":3}}}}"#
            ),
        );
        let wait = self.some_ms(0, 20);
        self.after(wait, Task::Progress(key, id, number, step + 1));
    }

    fn app_cancelled(&mut self, key: Key, id: &str) {
        let Some(link) = self.links.get_mut(&key) else { return };
        // Its own answer crossed with the cancel.
        let Some(number) = link.open.remove(id) else { return };
        let Some(call) = self.calls.get_mut(&number) else { return };
        let asked = call.cancelled.is_some() || call.kind == Kind::Timeout;
        if !asked || !call.kind.may_be_cancelled() {
            let what = format!("call {number} was cancelled at the client by nobody: {call:?}");
            return self.fault(what);
        }
        call.over_there = true;
        self.tally.cancels_heard += 1;
        self.forget(number);
    }

    /// A close frame came.
    fn app_closed(&mut self, at: usize, key: Key, payload: &[u8]) {
        let code = payload.first_chunk().map_or(1005, |code| u16::from_be_bytes(*code));
        let Some(link) = self.links.get(&key) else { return };
        let expected = if link.challenged { 4409 } else { 1000 };
        if code != expected && !(link.challenged && code == 1000) || link.stage != Stage::Leaving {
            let reason = String::from_utf8_lossy(payload.get(2..).unwrap_or_default()).into_owned();
            let what = format!("{} was closed {code} {reason}: {link:?}", self.apps[at].id);
            // The newer connection may hear a moment later that it has the name.
            if !(link.challenged && code == 4409) {
                return self.fault(what);
            }
        }
        if code == 4409 {
            self.tally.replaced += 1;
        }
        self.net.close(key);
        self.app_gone(at, key);
    }

    /// A connection is no more.
    pub fn app_gone(&mut self, at: usize, key: Key) {
        self.app_lets_go(key);
        let Some(link) = self.links.remove(&key) else { return };
        if !matches!(link.since.elapsed(), time if time < LOST_AFTER)
            && link.stage == Stage::Leaving
        {
            self.fault(format!("{} was not let go", self.apps[at].id));
        }
        let app = &mut self.apps[at];
        if app.current == Some(key) {
            app.current = None;
            if !link.challenged {
                // It left, and nobody has taken its place.
                let pause = self.some_ms(0, 300);
                self.after(pause, Task::Return(at));
            }
            self.apps[at].losses += 1;
            return;
        }
        app.losses += 1;
        app.moving = app.moving.saturating_sub(1);
    }

    pub fn check_links(&mut self) {
        let late = self
            .links
            .iter()
            .find(|(_, link)| link.stage != Stage::Up && link.since.elapsed() > LOST_AFTER);
        if let Some((key, link)) = late {
            self.fault(format!("a client's connection does not get on: {key:?} {link:?}"));
        }
    }
}
