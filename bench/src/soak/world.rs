//! Everybody who takes part, on one thread: applications, agents and listeners, with what is still open
//! between them.
//!
//! Hands what happens on a connection to whom it belongs, keeps the time for all of them, and knows the
//! calls that are not over. A broken promise is written down and ends the run. Nothing here is random
//! but the order of events: the seed decides who does what.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use super::agent::Agent;
use super::app::{App, Link};
use super::calls::{Call, End, Kind, Texts, mix};
use super::listener::Listener;
use crate::histogram::Histogram;
use crate::net::{self, Event, Happening, Key, Net};

/// Whose a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    App(usize),
    Agent(usize),
    /// A second connection of an agent, for one `notifications/cancelled`.
    Side(usize),
    Stream(usize),
    /// A listener's connection for what it asks once its stream has spoken.
    Asker(usize),
    /// A client with a bad token.
    Stray,
}

/// What is to happen at a time.
#[derive(Debug)]
pub enum Task {
    /// The agent goes on, on its connection or a new one.
    Agent(usize),
    /// The agent takes this call back.
    TakeBack(u64),
    /// The agent, or whoever it is, reads again.
    Resume(Key),
    /// The rest of a request that is sent slowly.
    Rest(Key, Vec<u8>),
    /// The client answers, or says how far it is.
    Answer(Key, String, u64),
    Progress(Key, String, u64, u32),
    /// Something happens to the client.
    App(usize),
    /// The client comes back.
    Return(usize),
    Listener(usize),
    Sweep,
}

/// How the agents call, and what else goes on.
#[derive(Clone, Debug)]
pub struct Habits {
    pub seed: u64,
    pub apps: usize,
    /// The last of the apps, which now and then read nothing for a while.
    pub slow_apps: usize,
    pub agents: usize,
    pub listeners: usize,
    /// One call each in so much time; `None`: one after the other.
    pub pace: Option<Duration>,
    /// Out of a thousand requests, those of this kind; the others are `Echo`.
    pub mix: Vec<(Kind, u64)>,
    /// Out of a thousand requests, those with a bad token.
    pub bad_tokens: u64,
    /// Clients leave, change, stall; agents come and go; bodies are large, requests and readers slow.
    pub restless: bool,
    /// Mean time between two things that happen to one client.
    pub mischief: Duration,
    pub call_timeout: Duration,
    /// Source addresses; `None`: all are 127.0.0.1.
    pub subnet: Option<u8>,
}

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub made: BTreeMap<Kind, u64>,
    pub ends: BTreeMap<End, u64>,
    /// Calls that may never have reached the bridge.
    pub doubtful: u64,
    /// Calls whose end the bridge may have counted in another way than the agent: it answered, and the
    /// agent had gone.
    pub raced: u64,
    pub undisturbed: Histogram,
    pub large: Histogram,
    pub disturbed: Histogram,
    /// How late the load itself was with what was to happen at a time: others had the processor.
    pub late: Histogram,
    pub bytes: u64,
    pub cancels_heard: u64,
    pub registers: u64,
    pub returns: u64,
    pub replaced: u64,
    pub stalls: u64,
    pub list_changes: u64,
    pub refusals: u64,
    pub agents_left: u64,
    pub streams: u64,
}

impl Tally {
    pub fn calls(&self) -> u64 {
        self.made.values().sum()
    }
}

pub struct World {
    pub net: Net<Tag>,
    pub bridge: SocketAddr,
    pub habits: Habits,
    pub apps: Vec<App>,
    pub links: HashMap<Key, Link>,
    pub agents: Vec<Agent>,
    pub listeners: Vec<Listener>,
    pub strays: HashMap<Key, Instant>,
    pub calls: HashMap<u64, Call>,
    pub texts: Texts,
    pub tally: Tally,
    /// Nothing new is begun.
    pub resting: bool,
    /// When the work began that is under way.
    began: Instant,
    /// Of the last call.
    pub last: u64,
    /// So many calls, and then no more.
    pub calls_max: u64,
    pub faults: Vec<String>,
    tasks: BTreeMap<(Instant, u64), Task>,
    task_count: u64,
    random: u64,
}

/// How much longer a stream stays than a client does without mischief: long enough to miss a change.
pub const STREAM_LIFE: u32 = 8;

/// Broken promises that are shown: the first is what it is about.
const FAULTS_MAX: usize = 4;

/// How long a client may take to hear that a call is cancelled: 2 s are promised, a client may stall for
/// as long, and the load itself needs some.
const CANCEL_HEARD: Duration = Duration::from_secs(8);

/// How long a call that was taken back may still come to its client: as long as one stalls, and more.
const UNSEEN: Duration = Duration::from_secs(4);

/// How long a call may take that is to be answered at once, whatever happens meanwhile.
pub const LOST_AFTER: Duration = Duration::from_secs(20);

impl World {
    pub fn new(bridge: SocketAddr, habits: Habits) -> Result<World, String> {
        let net = Net::new().map_err(|error| error.to_string())?;
        let apps = (0..habits.apps).map(|at| App::new(at, &habits)).collect::<Result<_, _>>()?;
        let agents =
            (0..habits.agents).map(|at| Agent::new(at, &habits)).collect::<Result<_, _>>()?;
        let listeners =
            (0..habits.listeners).map(|at| Listener::new(at, &habits)).collect::<Result<_, _>>()?;
        Ok(World {
            net,
            bridge,
            apps,
            links: HashMap::new(),
            agents,
            listeners,
            strays: HashMap::new(),
            calls: HashMap::new(),
            texts: Texts::new(),
            tally: Tally::default(),
            resting: true,
            began: Instant::now(),
            last: 0,
            calls_max: u64::MAX,
            faults: Vec::new(),
            tasks: BTreeMap::new(),
            task_count: 0,
            random: habits.seed,
            habits,
        })
    }

    /// Connects everybody and waits until they are there.
    pub fn open(&mut self) -> Result<(), String> {
        for app in 0..self.apps.len() {
            self.app_connect(app);
        }
        let end = Instant::now() + LOST_AFTER;
        while !self.apps.iter().all(App::is_settled) && Instant::now() < end {
            self.turn(end)?;
        }
        for listener in 0..self.listeners.len() {
            self.listener_open(listener);
        }
        for agent in 0..self.agents.len() {
            self.agent_next(agent);
        }
        self.after(Duration::ZERO, Task::Sweep);
        self.settle()
    }

    /// Lets everybody work for a time, or until so many calls were made.
    pub fn work(&mut self, time: Duration) -> Result<(), String> {
        let end = Instant::now() + time;
        self.resting = false;
        self.began = Instant::now();
        if self.habits.restless && self.tasks.values().all(|task| !matches!(task, Task::App(_))) {
            let mischief = self.habits.mischief;
            for app in 0..self.apps.len() {
                let wait = mischief.mul_f64(self.fraction());
                self.after(wait, Task::App(app));
            }
            for listener in 0..self.listeners.len() {
                let wait = (mischief * STREAM_LIFE).mul_f64(self.fraction());
                self.after(wait, Task::Listener(listener));
            }
        }
        for agent in 0..self.agents.len() {
            let wait = self.habits.pace.unwrap_or_default().mul_f64(self.fraction());
            self.agents[agent].due = self.habits.pace.map(|_| Instant::now() + wait);
            self.after(wait, Task::Agent(agent));
        }
        while Instant::now() < end && self.tally.calls() < self.calls_max {
            self.turn(end)?;
        }
        Ok(())
    }

    /// Lets what was begun come to its end.
    pub fn settle(&mut self) -> Result<(), String> {
        self.resting = true;
        let end = Instant::now() + LOST_AFTER + self.habits.call_timeout;
        while !self.is_settled() {
            if Instant::now() > end {
                let call = self.calls.iter().next();
                let agent = self.agents.iter().find(|agent| !agent.is_idle());
                let app = self.apps.iter().find(|app| !app.is_settled());
                return Err(format!(
                    "it did not come to rest: call {call:?}; agent {agent:?}; client {app:?}"
                ));
            }
            self.turn(Instant::now() + Duration::from_millis(50))?;
        }
        Ok(())
    }

    fn is_settled(&self) -> bool {
        self.calls.is_empty()
            && self.strays.is_empty()
            && self.agents.iter().all(Agent::is_idle)
            && self.apps.iter().all(App::is_settled)
            && self.links.len() == self.apps.len()
            && self.listeners.iter().all(|one| one.is_settled(&self.apps))
    }

    /// One look at the connections and the clock.
    pub fn turn(&mut self, until: Instant) -> Result<(), String> {
        let wake = self.tasks.keys().next().map_or(until, |(due, _)| until.min(*due));
        let happened = self.net.turn(wake).map_err(|error| error.to_string())?;
        for one in happened {
            self.dispatch(one);
        }
        let now = Instant::now();
        while let Some(entry) = self.tasks.first_entry()
            && entry.key().0 <= now
        {
            if entry.key().0 >= self.began {
                self.tally.late.add(now - entry.key().0);
            }
            let task = entry.remove();
            self.perform(task);
        }
        if self.faults.is_empty() {
            return Ok(());
        }
        Err(self.faults.join("\n"))
    }

    fn dispatch(&mut self, Happening { key, tag, event, left }: Happening<Tag>) {
        let closed = matches!(event, Event::Closed { .. });
        match tag {
            Tag::App(app) => self.app_event(app, key, closed, left),
            Tag::Agent(agent) => self.agent_event(agent, key, closed, left),
            Tag::Side(agent) => self.side_event(agent, key, closed),
            Tag::Stream(listener) => self.stream_event(listener, key, closed),
            Tag::Asker(listener) => self.asker_event(listener, key, closed),
            Tag::Stray => self.stray_event(key, closed, left),
        }
    }

    fn perform(&mut self, task: Task) {
        match task {
            Task::Agent(agent) => self.agent_next(agent),
            Task::TakeBack(call) => self.take_back(call),
            Task::Resume(key) => self.net.resume(key),
            Task::Rest(key, bytes) => self.net.send(key, &bytes),
            Task::Answer(key, id, number) => self.app_answer(key, &id, number),
            Task::Progress(key, id, number, step) => self.app_progress(key, id, number, step),
            Task::App(app) => self.mischief(app),
            Task::Return(app) => self.app_connect(app),
            Task::Listener(listener) => self.listener_turn(listener),
            Task::Sweep => {
                self.sweep();
                self.after(Duration::from_millis(500), Task::Sweep);
            }
        }
    }

    pub fn after(&mut self, time: Duration, task: Task) {
        self.task_count += 1;
        self.tasks.insert((Instant::now() + time, self.task_count), task);
    }

    /// Connects from an address that is one of this group's, of four.
    pub fn connect(&mut self, group: u8, window: Option<usize>, tag: Tag) -> Option<Key> {
        let host = (self.random(4) + 1) as u8;
        let address = match self.habits.subnet {
            Some(subnet) => Ipv4Addr::new(127, 0, subnet + group, host),
            None => Ipv4Addr::LOCALHOST,
        };
        let from = net::From { address, window };
        match self.net.connect(from, self.bridge, tag) {
            Ok(key) => Some(key),
            Err(error) => {
                self.fault(format!("no connection from {address}: {error}"));
                None
            }
        }
    }

    pub fn fault(&mut self, what: String) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(what);
        }
    }

    pub fn random(&mut self, below: u64) -> u64 {
        mix(&mut self.random) % below.max(1)
    }

    /// From 0 to 1.
    pub fn fraction(&mut self) -> f64 {
        self.random(1 << 20) as f64 / f64::from(1 << 20)
    }

    pub fn chance(&mut self, of_thousand: u64) -> bool {
        self.random(1000) < of_thousand
    }

    pub fn some_ms(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_micros(from * 1000 + self.random((to - from) * 1000))
    }

    /// Ends the agent's side of a call.
    pub fn end(&mut self, number: u64, end: End) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        if let Some(before) = call.end {
            let kind = call.kind;
            self.fault(format!("call {number} ({kind:?}) was answered twice: {before:?}, {end:?}"));
            return;
        }
        call.end = Some(end);
        if end == End::TimedOut {
            call.cancelled = Some(Instant::now());
        }
        *self.tally.ends.entry(end).or_default() += 1;
        let app = &self.apps[call.app];
        let risky = call.unsettled || call.losses != app.losses;
        let allowed = match (call.kind, end) {
            (_, End::MayHaveRun) => risky && !call.kind.stays_here(),
            (Kind::Unknown, End::UnknownTool) | (Kind::Offline, End::NotConnected) => true,
            (Kind::Timeout, End::TimedOut) => true,
            (Kind::Cancel | Kind::Race | Kind::HangUp | Kind::Abandon, End::Nothing) => true,
            (kind, End::Answered) => !kind.hangs() && !kind.stays_here(),
            _ => false,
        };
        if end == End::Answered && (call.seen.is_none() || !call.over_there) {
            let what = format!("call {number} was answered and the client did not: {call:?}");
            return self.fault(what);
        }
        if !allowed {
            let after = call.sent.elapsed();
            let what = format!("call {number} ended {end:?} after {after:?}: {call:?}");
            return self.fault(what);
        }
        let time = call.sent.elapsed();
        let quick = matches!(call.kind, Kind::Echo | Kind::Batch | Kind::Error);
        if quick && end == End::Answered {
            let calm = !risky && !app.slow && !call.slow;
            match call.argument_bytes.max(call.result_bytes) {
                0..=1024 if calm => self.tally.undisturbed.add(time),
                _ if calm => self.tally.large.add(time),
                _ => self.tally.disturbed.add(time),
            }
        }
        if call.kind.stays_here() || end == End::MayHaveRun && call.seen.is_none() {
            call.over_there = true;
        }
        self.forget(number);
    }

    /// Drops a call that is over on both sides.
    pub fn forget(&mut self, number: u64) {
        let over = |call: &Call| call.end.is_some() && call.over_there;
        if self.calls.get(&number).is_some_and(over) {
            self.calls.remove(&number);
        }
    }

    /// Looks for what has waited too long.
    fn sweep(&mut self) {
        let now = Instant::now();
        let mut gone = Vec::new();
        let mut faults = Vec::new();
        for (number, call) in &self.calls {
            let since = |then: Instant| now.saturating_duration_since(then);
            if call.end.is_none() && since(call.sent) > LOST_AFTER + self.habits.call_timeout {
                faults.push(format!("call {number} has no answer: {call:?}"));
            }
            let Some(cancelled) = call.cancelled.filter(|_| call.end.is_some()) else { continue };
            let waited = since(cancelled);
            if call.seen.is_none() && waited > UNSEEN {
                // Taken back before it was written to the client.
                gone.push(*number);
            } else if !call.over_there && waited > CANCEL_HEARD {
                faults
                    .push(format!("the client was not told that call {number} is over: {call:?}"));
            }
        }
        for number in gone {
            self.calls.remove(&number);
        }
        for key in self.strays.iter().filter(|(_, begun)| begun.elapsed() > LOST_AFTER) {
            faults.push(format!("a client with a bad token is not refused: {key:?}"));
        }
        self.faults.extend(faults);
        self.check_listeners();
        self.check_links();
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("calls", &self.calls.len()).finish_non_exhaustive()
    }
}

/// Tells what a failed system call means here.
pub fn said(error: io::Error) -> String {
    error.to_string()
}
