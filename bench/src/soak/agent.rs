//! The agents: how they live, and what they send.
//!
//! An agent has one request under way. It speaks one revision, stays for some requests, leaves and comes
//! back; now and then it is slow, impatient, or shows a bad token. What it makes of what comes back is in
//! `answers`; which of them are right is decided in `calls` and `World::end`.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::calls::{Call, End, Kind, Order, between};
use super::world::{Habits, Tag, Task, World};
use crate::net::Key;
use crate::response::{Head, Reader};
use crate::wire::{self, Scope, token};

/// The revision an agent speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// 2025-03-26, which has batches.
    Batches,
    Legacy,
    Modern,
}

/// What it waits for.
#[derive(Debug)]
pub enum Doing {
    /// Not connected.
    Away,
    Idle,
    Initialize,
    /// Waits for the 202 of `notifications/initialized`.
    Greets,
    Call(u64),
    Batch(HashSet<u64>),
    /// Lists tools; the version that it must see at least.
    List(u64),
    /// Shows a bad token.
    Bad,
    /// Waits for the answer to DELETE.
    Bye,
}

#[derive(Debug)]
pub struct Agent {
    pub app: usize,
    pub dialect: Dialect,
    pub token: String,
    pub offline_token: String,
    pub key: Option<Key>,
    pub reader: Reader,
    pub head: Head,
    pub session: String,
    pub doing: Doing,
    /// Requests until it leaves.
    pub left: u64,
    /// Requests so far: the IDs of most of them, as every agent counts from 0.
    pub count: u64,
    /// When it should have begun, if it calls at a pace.
    pub due: Option<Instant>,
    pub side: Option<(Key, Reader)>,
}

impl Agent {
    pub fn new(at: usize, habits: &Habits) -> Result<Agent, String> {
        let app = at % habits.apps;
        let dialect = match (at / habits.apps) % 4 {
            0 => Dialect::Batches,
            1 => Dialect::Legacy,
            _ => Dialect::Modern,
        };
        Ok(Agent {
            app,
            dialect,
            token: token(&format!("app-{app}"), Scope::Agent)?,
            offline_token: token("never-there", Scope::Agent)?,
            key: None,
            reader: Reader::default(),
            head: Head::default(),
            session: String::new(),
            doing: Doing::Away,
            left: 0,
            count: 0,
            due: None,
            side: None,
        })
    }

    pub fn is_idle(&self) -> bool {
        matches!(self.doing, Doing::Idle) && self.side.is_none()
    }
}

impl World {
    /// The agent takes its next step: connects, calls or leaves.
    pub fn agent_next(&mut self, at: usize) {
        let restless = self.habits.restless;
        match self.agents[at].doing {
            Doing::Away => self.agent_connect(at),
            // Its cancel is not answered yet.
            Doing::Idle if self.agents[at].side.is_some() => {
                self.after(Duration::from_millis(2), Task::Agent(at));
            }
            // It is not time yet: another task is to wake it.
            Doing::Idle if self.agents[at].due.is_some_and(|due| due > Instant::now()) => {}
            // Work is given out once the rest is over.
            Doing::Idle if self.resting || self.tally.calls() >= self.calls_max => {}
            Doing::Idle if restless && self.agents[at].left == 0 => self.agent_leave(at),
            Doing::Idle => self.agent_request(at),
            // A task from before; it goes on by itself.
            _ => {}
        }
    }

    fn agent_connect(&mut self, at: usize) {
        // A slow reader is one whose kernel does not read for it.
        let window = (self.habits.restless && self.chance(100)).then_some(16 << 10);
        let Some(key) = self.connect(0, window, Tag::Agent(at)) else { return };
        let left = 20 + self.random(400);
        let agent = &mut self.agents[at];
        agent.key = Some(key);
        agent.reader = Reader::default();
        agent.left = left;
        agent.count = 0;
        agent.doing = Doing::Idle;
        if agent.dialect == Dialect::Modern {
            return self.agent_done(at);
        }
        agent.doing = Doing::Initialize;
        let request = wire::initialize(&agent.token);
        self.net.send(key, request.as_bytes());
    }

    fn agent_leave(&mut self, at: usize) {
        self.tally.agents_left += 1;
        let says_bye = self.chance(500);
        let reset = self.chance(300);
        let agent = &mut self.agents[at];
        let Some(key) = agent.key else { return };
        if says_bye && agent.dialect != Dialect::Modern {
            agent.doing = Doing::Bye;
            let request = format!(
                "DELETE /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\n\
                 MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {}\r\n\r\n",
                agent.token, agent.session
            );
            return self.net.send(key, request.as_bytes());
        }
        self.agent_hang_up(at, reset);
    }

    /// Ends the connection; it is back soon.
    pub fn agent_hang_up(&mut self, at: usize, reset: bool) {
        let agent = &mut self.agents[at];
        agent.doing = Doing::Away;
        if let Some(key) = agent.key.take() {
            if reset {
                self.net.reset(key);
            } else {
                self.net.close(key);
            }
        }
        let pause = self.some_ms(0, 100);
        self.after(pause, Task::Agent(at));
    }

    /// The agent has what it asked for.
    pub fn agent_done(&mut self, at: usize) {
        self.agents[at].doing = Doing::Idle;
        if self.agents[at].head.closes {
            // It was told so, and would only see the end.
            self.agents[at].head.closes = false;
            return self.agent_hang_up(at, false);
        }
        match self.habits.pace {
            None => self.after(Duration::ZERO, Task::Agent(at)),
            Some(pace) => {
                let now = Instant::now();
                let due = self.agents[at].due.map_or(now, |due| due + pace).max(now);
                self.agents[at].due = Some(due);
                self.after(due - now, Task::Agent(at));
            }
        }
    }

    fn agent_request(&mut self, at: usize) {
        self.agents[at].left = self.agents[at].left.saturating_sub(1);
        if self.chance(self.habits.bad_tokens) {
            return self.agent_bad(at);
        }
        if self.habits.restless && self.chance(5) {
            return self.agent_list(at);
        }
        let mut kind = Kind::Echo;
        let mut place = self.random(1000);
        for (one, share) in &self.habits.mix {
            if place < *share {
                kind = *one;
                break;
            }
            place -= share;
        }
        match kind {
            Kind::Batch if self.agents[at].dialect == Dialect::Batches => self.agent_batch(at),
            Kind::Batch => self.agent_call(at, Kind::Echo),
            kind => self.agent_call(at, kind),
        }
    }

    fn agent_call(&mut self, at: usize, kind: Kind) {
        let (number, body) = self.new_call(at, kind);
        let any = matches!(kind, Kind::Echo | Kind::Cancel | Kind::Race);
        let agent = &mut self.agents[at];
        agent.doing = Doing::Call(number);
        let token = if kind == Kind::Offline { &agent.offline_token } else { &agent.token };
        let name = tool(kind);
        let more = match agent.dialect {
            Dialect::Modern => format!(
                "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {name}\r\n"
            ),
            Dialect::Legacy => {
                format!("MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {}\r\n", agent.session)
            }
            Dialect::Batches => format!("Mcp-Session-Id: {}\r\n", agent.session),
        };
        let token = token.clone();
        // Those without progress take one kind of answer only, now and then.
        let accept = match self.random(10) {
            0 if any => "application/json",
            1 => wire::ACCEPT_EVENTS,
            _ => wire::ACCEPT_BOTH,
        };
        let request = wire::post(&token, accept, &more, &body);
        let Some(key) = self.agents[at].key else { return };
        self.agent_send(at, key, request.into_bytes(), kind);
    }

    /// Sends a request, slowly now and then; and whoever asked for much may read slowly.
    fn agent_send(&mut self, at: usize, key: Key, mut request: Vec<u8>, kind: Kind) {
        let restless = self.habits.restless && kind == Kind::Echo;
        let (writes_slowly, reads_slowly) = (self.chance(20), self.chance(10));
        if restless
            && (writes_slowly || reads_slowly)
            && let Doing::Call(number) = self.agents[at].doing
            && let Some(call) = self.calls.get_mut(&number)
        {
            call.slow = true;
        }
        if restless && writes_slowly {
            let at = self.random(request.len() as u64) as usize;
            let rest = request.split_off(at);
            let pause = self.some_ms(1, 30);
            self.after(pause, Task::Rest(key, rest));
        }
        self.net.send(key, &request);
        if restless && reads_slowly {
            self.net.pause(key);
            let pause = self.some_ms(50, 500);
            self.after(pause, Task::Resume(key));
        }
        if kind == Kind::Abandon {
            let number = match self.agents[at].doing {
                Doing::Call(number) => number,
                _ => return,
            };
            self.tally.doubtful += 1;
            if let Some(call) = self.calls.get_mut(&number) {
                call.cancelled = Some(Instant::now());
            }
            self.end(number, End::Nothing);
            let reset = self.chance(500);
            self.agent_hang_up(at, reset);
        }
    }

    fn agent_batch(&mut self, at: usize) {
        let count = 2 + self.random(4);
        let mut numbers = HashSet::new();
        let mut bodies = Vec::new();
        for _ in 0..count {
            let (number, body) = self.new_call(at, Kind::Batch);
            numbers.insert(number);
            bodies.push(body);
        }
        let body = format!("[{}]", bodies.join(","));
        let agent = &mut self.agents[at];
        agent.doing = Doing::Batch(numbers);
        let more = format!("Mcp-Session-Id: {}\r\n", agent.session);
        let request = wire::post(&agent.token, wire::ACCEPT_BOTH, &more, &body);
        if let Some(key) = agent.key {
            self.net.send(key, request.as_bytes());
        }
    }

    /// Enters a call into the books; returns its number and JSON-RPC request.
    fn new_call(&mut self, at: usize, kind: Kind) -> (u64, String) {
        self.last += 1;
        let number = self.last;
        *self.tally.made.entry(kind).or_default() += 1;
        let (argument_bytes, result_bytes) = match kind {
            Kind::Echo if self.habits.restless => (self.some_size(), self.some_size()),
            _ => (16 + self.random(240) as usize, 16 + self.random(240) as usize),
        };
        self.tally.bytes += (argument_bytes + result_bytes) as u64;
        let agent = &mut self.agents[at];
        agent.count += 1;
        // In the 2026 era a cancel finds the call by this ID alone.
        let alone = matches!(kind, Kind::Cancel | Kind::Race | Kind::Batch);
        let id = match agent.count % 3 {
            _ if alone => format!("\"n{number}\""),
            0 => format!("\"{}\"", agent.count),
            _ => agent.count.to_string(),
        };
        let app = &self.apps[agent.app];
        let call = Call {
            kind,
            app: agent.app,
            agent: at,
            id: id.clone(),
            argument_bytes,
            result_bytes,
            sent: agent.due.unwrap_or_else(Instant::now),
            losses: app.losses,
            unsettled: !app.is_settled(),
            slow: false,
            seen: None,
            over_there: false,
            end: None,
            cancelled: None,
            progress: 0,
        };
        self.calls.insert(number, call);
        let mut meta = match agent.dialect {
            Dialect::Modern => format!(",{}", wire::META),
            _ => String::new(),
        };
        if kind == Kind::Progress {
            let token = format!(r#""progressToken":"p{number}""#);
            meta = match agent.dialect {
                // META is an object with an object at its end.
                Dialect::Modern => format!(",{},{token}}}", &wire::META[..wire::META.len() - 1]),
                _ => format!(r#","_meta":{{{token}}}"#),
            };
        }
        let text = self.texts.argument(number, argument_bytes);
        let (order, name) = (Order::of(kind), tool(kind));
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}","arguments":{{"n":{number},"do":"{order}","bytes":{argument_bytes},"text":"{text}"}}{meta}}}}}"#
        );
        (number, body)
    }

    /// Small, mostly: 90 % up to 1 KiB, 9 % up to 16 KiB, the rest up to 1 MiB.
    fn some_size(&mut self) -> usize {
        let (from, to) = match self.random(1000) {
            0..900 => (1, 1 << 10),
            900..990 => (1 << 10, 16 << 10),
            990..998 => (16 << 10, 256 << 10),
            _ => (256 << 10, 1 << 20),
        };
        (from + self.random(to - from)) as usize
    }

    fn agent_bad(&mut self, at: usize) {
        let agent = &mut self.agents[at];
        agent.doing = Doing::Bad;
        let mut token = agent.token.clone();
        token.replace_range(token.len() - 10.., "AAAAAAAAAA");
        let request = wire::call(&token, wire::Era::Legacy, false, 64);
        if let Some(key) = agent.key {
            self.net.send(key, request.as_bytes());
        }
    }

    fn agent_list(&mut self, at: usize) {
        let agent = &mut self.agents[at];
        agent.doing = Doing::List(self.apps[agent.app].acked);
        let request = list_request(&agent.token, agent.dialect == Dialect::Modern);
        if let Some(key) = agent.key {
            self.net.send(key, request.as_bytes());
        }
    }

    /// The agent no longer wants a call that its client works on.
    pub fn take_back(&mut self, number: u64) {
        let Some(call) = self.calls.get_mut(&number).filter(|call| call.end.is_none()) else {
            return;
        };
        let (at, kind, id) = (call.agent, call.kind, call.id.clone());
        call.cancelled = Some(Instant::now());
        let by_hanging_up = kind == Kind::HangUp || kind == Kind::Race && self.chance(500);
        if kind == Kind::Race {
            self.tally.raced += 1;
        }
        if by_hanging_up {
            self.end(number, End::Nothing);
            let reset = self.chance(500);
            return self.agent_hang_up(at, reset);
        }
        let agent = &mut self.agents[at];
        let (more, meta) = match agent.dialect {
            Dialect::Modern => (
                "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: notifications/cancelled\r\n"
                    .to_owned(),
                format!(",{}", wire::META),
            ),
            _ => (format!("Mcp-Session-Id: {}\r\n", agent.session), String::new()),
        };
        let body = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"soak"{meta}}}}}"#
        );
        let request = wire::post(&agent.token, wire::ACCEPT_BOTH, &more, &body);
        let Some(key) = self.connect(0, None, Tag::Side(at)) else { return };
        self.net.send(key, request.as_bytes());
        self.agents[at].side = Some((key, Reader::default()));
    }
}

fn tool(kind: Kind) -> &'static str {
    if kind == Kind::Unknown { "not_there" } else { "echo" }
}

/// `tools/list` in either era.
pub fn list_request(token: &str, modern: bool) -> String {
    let (more, params) = match modern {
        true => (
            "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n",
            format!(r#","params":{{{}}}"#, wire::META),
        ),
        false => ("MCP-Protocol-Version: 2025-11-25\r\n", String::new()),
    };
    let body = format!(r#"{{"jsonrpc":"2.0","id":"list","method":"tools/list"{params}}}"#);
    wire::post(token, wire::ACCEPT_BOTH, more, &body)
}

/// The version of its register that a client has put into a description.
pub fn listed_version(list: &[u8]) -> Result<u64, String> {
    let version = between(list, br#""description":"version "#, b"\"");
    version.and_then(|text| text.parse().ok()).ok_or_else(|| {
        let list = String::from_utf8_lossy(list);
        format!("expected a list with a version, got {list:.300}")
    })
}
