//! The bridge on a pretend network and a pretend clock: thousands of short histories, each from a seed.
//!
//! What ships is driven (registry, conversations, mailboxes, tickets, jobs); pretended are sockets, time,
//! the clients (`peer`) and the agents (`agent`). One step is one turn of one task, chosen at random, so
//! tasks interleave as they may. What must hold is checked where it can be seen first. A failure says
//! its seed: `SEED=7 cargo test simulation`.

use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use clientmcp_proto::client_id::ClientId;
use clientmcp_proto::offer::Offer;
use clientmcp_proto::time::Instant;
use clientmcp_proto::token::Secrets;

use crate::config::{Config, Flags};
use crate::log;
use crate::mailbox::{Item, Mailbox};
use crate::registry::{Join, Registry, Request};
use crate::revoked::Revoked;
use crate::shared::Shared;

mod agent;
mod peer;

use agent::{Agent, Listener};
use peer::Peer;

/// What must hold, and how it was seen not to.
type Check = Result<(), String>;

/// How often what the histories are about came to pass.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    joins: u64,
    answered: u64,
    cancelled: u64,
    timed_out: u64,
    questions: u64,
    changes: u64,
}

/// A fault put in on purpose, to see that it is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// A call stands in a mailbox twice.
    DoubleSend,
    /// A stream forgets what it was told.
    LostChange,
    /// Two running calls have changed their return addresses.
    Misdirected,
}

/// SplitMix64: small, and every seed is a good one.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Mostly little, sometimes much.
    fn delay(&mut self) -> Duration {
        let most = [2, 20, 20, 200, 200, 2000, 20_000][self.below(7)];
        Duration::from_millis(self.next() % most)
    }
}

/// Whether a task was woken since it last ran: who is told nothing does nothing.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Flag {
    fn new() -> Arc<Flag> {
        Arc::new(Flag(AtomicBool::new(true)))
    }

    fn is_up(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn waker(self: &Arc<Self>) -> Waker {
        self.0.store(false, Ordering::Relaxed);
        Waker::from(self.clone())
    }
}

/// What the pretenders know of the world.
struct Scene {
    shared: Rc<Shared>,
    random: Random,
    planted: Planted,
    /// Nothing arrives for the moment.
    still: bool,
    ids: [ClientId; 2],
    /// Every call as it was written to a client: whose, and with which state.
    written: HashSet<(String, String)>,
    call_ids: HashSet<String>,
    /// Calls whose agent has no answer yet, and still wants one.
    waiting: HashSet<String>,
    /// Request IDs that agents took back by notification: of which client.
    taken_back: BTreeSet<(usize, u64)>,
    /// Questions that agents were asked, and of which client, so that others may try to answer them.
    questions: Vec<(usize, String)>,
    /// Times that a stream was told of changes.
    changes: u64,
}

impl Scene {
    fn now(&self) -> Instant {
        self.shared.now()
    }
}

struct World {
    scene: Scene,
    registry: Registry,
    peers: Vec<Peer>,
    agents: Vec<Agent>,
    listeners: Vec<Listener>,
}

impl World {
    fn new(seed: u64, planted: Planted) -> Result<World, String> {
        let mut random = Random(seed);
        let seconds = |n: usize| Some(n.to_string());
        let flags = Flags {
            call_timeout: seconds(1 + random.below(20)),
            max_calls: seconds(2 + random.below(6)),
            reconnect_wait: seconds(random.below(6)),
            ..Flags::default()
        };
        let secret = "0123456789abcdef0123456789abcdef";
        let env = |name: &str| (name == "CLIENTMCP_SECRET").then(|| secret.to_owned());
        let config = Config::from_parts(flags, &env).map_err(|error| error.to_string())?;
        let secrets = Secrets::parse(secret).map_err(|error| error.to_string())?;
        let shared = Shared::new(config, secrets, Revoked::default(), &Rc::default());
        shared.pretend.set(Some(Instant(1_000_000)));
        let ids = ["kitchen", "garden"].map(|id| ClientId::parse(id).expect("a client ID"));
        Ok(World {
            registry: Registry::new(shared.clone()),
            scene: Scene {
                shared,
                random,
                planted,
                still: false,
                ids,
                written: HashSet::new(),
                call_ids: HashSet::new(),
                waiting: HashSet::new(),
                taken_back: BTreeSet::new(),
                questions: Vec::new(),
                changes: 0,
            },
            peers: Vec::new(),
            agents: Vec::new(),
            listeners: Vec::new(),
        })
    }
}

/// Runs one history.
fn history(seed: u64, planted: Planted) -> Result<Tally, String> {
    let mut world = World::new(seed, planted)?;
    for _ in 0..100 + world.scene.random.below(300) {
        world.step()?;
    }
    world.come_to_rest()?;
    let metrics = &world.scene.shared.metrics;
    Ok(Tally {
        joins: metrics.joins.get(),
        answered: metrics.calls_answered.get(),
        cancelled: metrics.calls_cancelled.get(),
        timed_out: metrics.calls_timed_out.get(),
        questions: world.scene.questions.len() as u64,
        changes: world.scene.changes,
    })
}

impl World {
    /// One turn of somebody.
    fn step(&mut self) -> Check {
        let random = &mut self.scene.random;
        match random.below(40) {
            0..12 => drop(self.turn_of_registry()),
            12..24 if !self.peers.is_empty() => {
                let at = random.below(self.peers.len());
                self.peers[at].turn(&mut self.scene)?;
            }
            24..29 if !self.agents.is_empty() => {
                let at = random.below(self.agents.len());
                self.agents[at].turn(&mut self.scene)?;
            }
            29 | 30 if !self.listeners.is_empty() => {
                let at = random.below(self.listeners.len());
                self.listeners[at].turn(&mut self.scene)?;
            }
            31 | 32 => self.agents.push(Agent::calls(&mut self.scene)),
            33 if self.peers.len() < 8 => self.peers.push(Peer::dials(&mut self.scene)),
            34 if self.listeners.len() < 6 => self.listeners.push(Listener::opens(&mut self.scene)),
            35 if !self.peers.is_empty() => {
                let at = random.below(self.peers.len());
                self.peers[at].acts(&mut self.scene);
            }
            36 if !self.agents.is_empty() => {
                let at = random.below(self.agents.len());
                self.agents[at].acts(&mut self.scene);
            }
            37 if random.one_in(4) && !self.listeners.is_empty() => {
                let at = random.below(self.listeners.len());
                self.listeners.swap_remove(at).leaves(&self.scene);
            }
            _ => {
                let later = self.scene.random.delay();
                self.pass(later);
            }
        }
        self.bounds()
    }

    fn pass(&mut self, time: Duration) {
        self.scene.shared.pretend.set(Some(self.scene.now() + time));
    }

    /// As in `registry::run`; whether there was anything to do.
    fn turn_of_registry(&mut self) -> bool {
        let request = self.scene.shared.inbox.pop();
        let due = self.registry.next_deadline().is_some_and(|at| at <= self.scene.now());
        let works = request.is_some() || due;
        if let Some(request) = request {
            self.registry.handle(request);
        }
        self.registry.tick();
        works
    }

    /// What holds between any two turns.
    fn bounds(&self) -> Check {
        let config = &self.scene.shared.config;
        for peer in &self.peers {
            let (calls, bytes) = (peer.mailbox.calls.get(), peer.mailbox.queued_bytes.get());
            if calls > config.calls_per_client_max || bytes > config.queued_bytes_per_client_max {
                return Err(format!("a mailbox counts {calls} calls and {bytes} bytes"));
            }
            if peer.mailbox.is_closed() && (calls, bytes) != (0, 0) {
                return Err(format!("behind a close {calls} calls and {bytes} bytes are pending"));
            }
        }
        let running = self.agents.iter().filter(|agent| agent.job.is_some()).count() as u64;
        match self.scene.shared.metrics.calls_running.get() {
            counted if counted == running => Ok(()),
            counted => Err(format!("{running} calls run, {counted} are counted")),
        }
    }

    /// Lets everyone have their turns until nobody has anything to do at this moment.
    fn settle(&mut self) -> Check {
        for _ in 0..100_000 {
            let mut works = self.turn_of_registry();
            for peer in &mut self.peers {
                works |= peer.turn(&mut self.scene)?;
            }
            for agent in &mut self.agents {
                works |= agent.turn(&mut self.scene)?;
            }
            for listener in &mut self.listeners {
                works |= listener.turn(&mut self.scene)?;
            }
            self.bounds()?;
            if !works && self.scene.shared.inbox.is_empty() {
                return Ok(());
            }
        }
        Err("someone is busy for ever".to_owned())
    }

    /// The end of a history: everything that was begun comes to its end, and nothing is left.
    fn come_to_rest(&mut self) -> Check {
        let stops = self.scene.random.one_in(4);
        if stops {
            self.scene.shared.draining.set(true);
            for request in [Request::EndCalls, Request::EndClients] {
                self.scene.shared.tell(request);
                self.settle()?;
            }
            self.nobody_waits("the bridge has stopped")?;
        }
        self.scene.still = true;
        self.everyone_comes_to_know()?;
        self.scene.still = false;
        // Then for every call timeout, silence, grace and sweep.
        self.peers.iter_mut().for_each(Peer::falls_silent);
        for _ in 0..2500 {
            self.pass(Duration::from_millis(100));
            self.settle()?;
        }
        self.nobody_waits("all timeouts are over")?;
        self.everyone_comes_to_know()?;
        if let Some(peer) = self.peers.iter().find(|peer| !peer.is_over()) {
            return Err(format!("a silent client is still there: {}", peer.client));
        }
        for listener in self.listeners.drain(..) {
            listener.leaves(&self.scene);
        }
        for _ in 0..4 {
            self.settle()?;
            self.pass(Duration::from_secs(30));
        }
        match self.registry.kept() {
            [0, 0, 0] => Ok(()),
            kept => {
                Err(format!("everyone has gone, and {kept:?} clients, questions, offers are kept"))
            }
        }
    }

    fn nobody_waits(&self, when: &str) -> Check {
        match self.agents.iter().find(|agent| agent.job.is_some()) {
            Some(agent) => Err(format!("{when}, and {} has no answer", agent.marker)),
            None => Ok(()),
        }
    }

    /// A change is told a moment later, and graces may be over meanwhile.
    fn everyone_comes_to_know(&mut self) -> Check {
        for _ in 0..12 {
            self.settle()?;
            if self.everyone_knows().is_ok() {
                return Ok(());
            }
            self.pass(Duration::from_millis(50));
        }
        self.everyone_knows()
    }

    /// Every stream's agent has seen what is offered now.
    fn everyone_knows(&mut self) -> Check {
        for at in 0..self.listeners.len() {
            let (reply, seen) = flume::bounded(1);
            let client_id = self.scene.ids[self.listeners[at].client].clone();
            self.registry.handle(Request::Look { client_id, memory: None, reply });
            let seen = seen.try_recv().map_err(|error| error.to_string())?;
            self.listeners[at].knows(seen.offer.as_deref())?;
        }
        Ok(())
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn whatever_happens_every_call_ends_once_and_nothing_is_lost() {
    log::setup(log::Format::Text, log::Level::Error);
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HISTORIES").unwrap_or(2000),
    };
    let mut sum = Tally::default();
    let whole = seeds.end - seeds.start >= 2000;
    for seed in seeds {
        match history(seed, Planted::Nothing) {
            Ok(tally) => {
                sum.joins += tally.joins;
                sum.answered += tally.answered;
                sum.cancelled += tally.cancelled;
                sum.timed_out += tally.timed_out;
                sum.questions += tally.questions;
                sum.changes += tally.changes;
            }
            Err(what) => panic!("{what} (SEED={seed})"),
        }
    }
    println!("{sum:?}");
    let Tally { joins, answered, cancelled, timed_out, questions, changes } = sum;
    let least = [joins, answered, cancelled, timed_out, questions, changes].into_iter().min();
    assert!(!whole || least >= Some(100), "the histories are dull: {sum:?}");
}

#[test]
fn a_fault_put_in_on_purpose_is_noticed() {
    log::setup(log::Format::Text, log::Level::Error);
    for (planted, words) in [
        (Planted::DoubleSend, "twice"),
        (Planted::LostChange, "does not know"),
        (Planted::Misdirected, "another's answer"),
    ] {
        let noticed = |seed| history(seed, planted).is_err_and(|what| what.contains(words));
        assert!((0..200).any(noticed), "{planted:?} was not noticed");
    }
}

/// Found by the histories: the registry sent a call on although it was over by then.
#[test]
fn a_call_whose_agent_hung_up_at_once_is_never_sent() {
    let mut world = World::new(0, Planted::Nothing).expect("a good configuration");
    let register =
        r#"{"type":"register","tools":[{"name":"echo","inputSchema":{"type":"object"}}]}"#;
    let mailboxes = world.scene.ids.clone().map(|client_id| {
        let (offer, refused) = Offer::check(register, &Default::default()).expect("a register");
        let mailbox: Rc<Mailbox> = Rc::default();
        let join = Join { client_id, mailbox: mailbox.clone(), offer, refused };
        world.registry.handle(Request::Join(Box::new(join)));
        mailbox
    });
    let written = |world: &mut World| {
        while world.turn_of_registry() {}
        let items = mailboxes.iter().flat_map(|mailbox| std::iter::from_fn(|| mailbox.pop()));
        items.filter(|item| matches!(item, Item::Call(_))).count()
    };
    let agent = Agent::calls(&mut world.scene);
    assert_eq!(written(&mut world), 1, "an agent that waits");
    drop(agent);
    drop(Agent::calls(&mut world.scene));
    assert_eq!(written(&mut world), 0, "an agent that has gone");
    assert_eq!(mailboxes.map(|mailbox| mailbox.calls.get()), [0, 0]);
}

/// Found by a soak: between the end of a connection and its `Leave` a call was told that nobody is there.
#[test]
fn a_call_that_comes_while_its_client_leaves_waits_for_it() {
    let mut world = World::new(0, Planted::Nothing).expect("a good configuration");
    let join = |world: &mut World, at: usize| {
        let register =
            r#"{"type":"register","tools":[{"name":"echo","inputSchema":{"type":"object"}}]}"#;
        let (offer, refused) = Offer::check(register, &Default::default()).expect("a register");
        let (client_id, mailbox) = (world.scene.ids[at].clone(), Rc::<Mailbox>::default());
        let join = Join { client_id, mailbox: mailbox.clone(), offer, refused };
        world.registry.handle(Request::Join(Box::new(join)));
        mailbox
    };
    let mailboxes = [0, 1].map(|at| join(&mut world, at));
    // The bridge did not begin a moment ago.
    world.pass(Duration::from_secs(3600));
    let mut agent = Agent::calls(&mut world.scene);
    mailboxes.iter().for_each(|mailbox| drop(mailbox.close()));
    world.turn_of_registry();
    agent.turn(&mut world.scene).expect("nothing wrong");
    assert!(agent.job.is_some(), "it waits for the client to come back");
    let mailbox = mailboxes[agent.client].clone();
    let client_id = world.scene.ids[agent.client].clone();
    world.registry.handle(Request::Leave { client_id, mailbox, unsent: Vec::new() });
    let back = join(&mut world, agent.client);
    let items = std::iter::from_fn(|| back.pop());
    assert_eq!(items.filter(|item| matches!(item, Item::Call(_))).count(), 1);
}
