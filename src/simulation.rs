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
use clientmcp_proto::fault::Close;
use clientmcp_proto::offer::Offer;
use clientmcp_proto::time::{Instant, UnixSeconds};

use crate::log;
use crate::mailbox::{Item, Mailbox};
use crate::registry::{Join, Request};
use crate::shared::Shared;

mod agent;
mod books;
mod peer;
mod world;

use agent::Agent;
use books::Books;
use world::World;

/// What both clocks show when a history begins.
const BEGIN: (Instant, UnixSeconds) = (Instant(1_000_000), UnixSeconds(1_800_000_000));

/// The resources there are.
const URIS: [&str; 3] = ["x://1", "x://2", "x://3"];

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
    updates: u64,
    deletes: u64,
    batches: u64,
    renewals: u64,
    jumps: u64,
}

impl Tally {
    /// Each count, to be changed or looked at.
    fn counts(&mut self) -> [&mut u64; 11] {
        let Tally { joins, answered, cancelled, timed_out, questions, changes, .. } = self;
        let Tally { updates, deletes, batches, renewals, jumps, .. } = self;
        [
            joins, answered, cancelled, timed_out, questions, changes, updates, deletes, batches,
            renewals, jumps,
        ]
    }
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
    /// An answer to one element of a batch is taken for another's.
    MixedBatch,
    /// A DELETE does not reach the memory of its session.
    KeptSession,
    /// A client's word that a resource changed is lost.
    LostUpdate,
    /// A stream falls asleep without having said how to wake it.
    LostWake,
    /// A fresh token is accepted, and the old one's end stays.
    ForgottenRenewal,
    /// Silence is measured by the wall clock.
    WrongClock,
    /// Of two connections the wrong one goes.
    NewestSentAway,
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
    /// The sessions of 2025-era agents, for either client.
    sessions: [Box<str>; 2],
    books: Books,
    /// Times that a stream was told of changes, and of resources.
    changes: u64,
    updates: u64,
    deletes: u64,
    batches: u64,
    renewals: u64,
    jumps: u64,
}

impl Scene {
    fn now(&self) -> Instant {
        self.shared.now()
    }

    /// Time passes, on both clocks.
    fn pass(&self, time: Duration) {
        let later = self.now() + time;
        let seconds = later.0 / 1000 - self.now().0 / 1000;
        let wall = UnixSeconds(self.shared.wall().0 + seconds);
        self.shared.pretend.set(Some((later, wall)));
    }

    /// Somebody sets the wall clock.
    fn jump(&mut self) {
        let by = [2, 70, 4000, 40_000_000][self.random.below(4)];
        let wall = self.shared.wall().0;
        let wall = UnixSeconds(if self.random.one_in(2) { wall + by } else { wall - by });
        self.shared.pretend.set(Some((self.now(), wall)));
        self.jumps += 1;
    }

    /// What the time would be, were there but the wall clock.
    fn now_by_the_wall(&self) -> Instant {
        let seconds = self.shared.wall().0.saturating_sub(BEGIN.1.0);
        BEGIN.0 + Duration::from_secs(seconds)
    }

    /// Whether a request is lost on its way, because that is the planted fault.
    fn loses(&mut self, request: &Request) -> bool {
        let lost = match request {
            Request::Forget { .. } => Planted::KeptSession,
            Request::Updated { .. } => Planted::LostUpdate,
            _ => return false,
        };
        self.planted == lost && self.random.one_in(2)
    }
}

/// Runs one history.
fn history(seed: u64, planted: Planted) -> Result<Tally, String> {
    let mut world = World::new(seed, planted)?;
    for _ in 0..100 + world.scene.random.below(300) {
        world.step()?;
    }
    world.come_to_rest()?;
    let scene = &world.scene;
    let metrics = &scene.shared.metrics;
    Ok(Tally {
        joins: metrics.joins.get(),
        answered: metrics.calls_answered.get(),
        cancelled: metrics.calls_cancelled.get(),
        timed_out: metrics.calls_timed_out.get(),
        questions: scene.questions.len() as u64,
        changes: scene.changes,
        updates: scene.updates,
        deletes: scene.deletes,
        batches: scene.batches,
        renewals: scene.renewals,
        jumps: scene.jumps,
    })
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
            Ok(mut tally) => {
                for (sum, count) in sum.counts().into_iter().zip(tally.counts()) {
                    *sum += *count;
                }
            }
            Err(what) => panic!("{what} (SEED={seed})"),
        }
    }
    println!("{sum:?}");
    let least = sum.counts().into_iter().map(|count| *count).min();
    assert!(!whole || least >= Some(100), "the histories are dull: {sum:?}");
}

#[test]
fn a_fault_put_in_on_purpose_is_noticed() {
    log::setup(log::Format::Text, log::Level::Error);
    for (planted, words) in [
        (Planted::DoubleSend, "twice"),
        (Planted::LostChange, "does not know"),
        (Planted::Misdirected, "another's answer"),
        (Planted::MixedBatch, "another's answer"),
        (Planted::KeptSession, "a stream goes on that was to end"),
        (Planted::KeptSession, "for which it had not asked"),
        (Planted::LostUpdate, "was never told of"),
        (Planted::LostWake, "does not know"),
        (Planted::LostWake, "was never told of"),
        (Planted::ForgottenRenewal, "unjustly closed: token expired"),
        (Planted::WrongClock, "unjustly"),
        (Planted::NewestSentAway, "was sent away"),
    ] {
        let noticed = |seed| history(seed, planted).is_err_and(|what| what.contains(words));
        assert!((0..200).any(noticed), "{planted:?} was not noticed: {words}");
    }
}

/// The mailbox of a client's connection that has registered, which has this number.
fn joined(world: &mut World, client: usize, number: u32) -> Rc<Mailbox> {
    let register =
        r#"{"type":"register","tools":[{"name":"echo","inputSchema":{"type":"object"}}]}"#;
    let (offer, refused) = Offer::check(register, &Default::default()).expect("a register");
    let (client_id, mailbox) = (world.scene.ids[client].clone(), Rc::new(Mailbox::new(number)));
    let join = Join { client_id, mailbox: mailbox.clone(), offer, refused };
    world.registry.handle(Request::Join(Box::new(join)));
    assert!(matches!(mailbox.pop(), Some(Item::Joined { .. })));
    mailbox
}

/// Found by the histories: the registry sent a call on although it was over by then.
#[test]
fn a_call_whose_agent_hung_up_at_once_is_never_sent() {
    let mut world = World::new(0, Planted::Nothing).expect("a good configuration");
    let mailboxes = [0, 1].map(|client| joined(&mut world, client, 1));
    let written = |world: &mut World| {
        while world.turn_of_registry() {}
        let items = mailboxes.iter().flat_map(|mailbox| std::iter::from_fn(|| mailbox.pop()));
        items.filter(|item| matches!(item, Item::Call(_))).count()
    };
    let agent = Agent::calls(&mut world.scene);
    let one = agent.jobs.len().min(world.scene.shared.config.calls_per_client_max);
    assert_eq!(written(&mut world), one, "an agent that waits");
    drop(agent);
    drop(Agent::calls(&mut world.scene));
    assert_eq!(written(&mut world), 0, "an agent that has gone");
    assert_eq!(mailboxes.map(|mailbox| mailbox.calls.get()), [0, 0]);
}

/// Found by reading: a client that takes nothing kept the bodies of as many calls as were made and taken
/// back until it was let go.
#[test]
fn a_queued_call_leaves_nothing_when_its_agent_hangs_up() {
    let mut world = World::new(0, Planted::Nothing).expect("a good configuration");
    let mailboxes = [0, 1].map(|client| joined(&mut world, client, 1));
    let other = world.scene.shared.next_call_id();
    for mailbox in &mailboxes {
        mailbox.push(Item::Cancel { id: other, reason: "it was there before" });
    }
    let agent = Agent::calls(&mut world.scene);
    while world.turn_of_registry() {}
    let mailbox = &mailboxes[agent.client];
    assert!(mailbox.queued_bytes.get() > 0, "it is queued");
    let ticket = agent.jobs[0].1.ticket.clone();
    assert_eq!(Rc::weak_count(&ticket), 1, "the registry can find it");
    drop(agent);
    assert_eq!(Rc::weak_count(&ticket), 0, "and has nothing of a call that is over");
    let left = mailbox.pop();
    assert!(matches!(left, Some(Item::Cancel { id, .. }) if id == other), "the other stays");
    assert!(mailbox.is_empty());
    assert_eq!((mailbox.queued_bytes.get(), mailbox.calls.get()), (0, 0));
}

/// Found by a soak: between the end of a connection and its `Leave` a call was told that nobody is there.
#[test]
fn a_call_that_comes_while_its_client_leaves_waits_for_it() {
    let mut world = World::new(0, Planted::Nothing).expect("a good configuration");
    let mailboxes = [0, 1].map(|client| joined(&mut world, client, 1));
    // The bridge did not begin a moment ago.
    world.scene.pass(Duration::from_secs(3600));
    let mut agent = Agent::calls(&mut world.scene);
    mailboxes.iter().for_each(|mailbox| drop(mailbox.close()));
    let calls = agent.jobs.len().min(world.scene.shared.config.calls_per_client_max);
    while world.turn_of_registry() {}
    while agent.turn(&mut world.scene).expect("nothing wrong") && !agent.jobs.is_empty() {}
    assert!(agent.jobs.len() >= calls, "they wait for the client to come back");
    let mailbox = mailboxes[agent.client].clone();
    let client_id = world.scene.ids[agent.client].clone();
    world.registry.handle(Request::Leave { client_id, mailbox, unsent: Vec::new() });
    let back = joined(&mut world, agent.client, 2);
    let items = std::iter::from_fn(|| back.pop());
    assert_eq!(items.filter(|item| matches!(item, Item::Call(_))).count(), calls);
}

/// Found from outside, where 150 pairs of connections were needed to see it.
#[test]
fn a_replaced_connection_that_registers_again_takes_nothing_back() {
    let mut world = World::new(0, Planted::Nothing).expect("a good configuration");
    let [older, newer] = [1, 2].map(|number| Rc::new(Mailbox::new(number)));
    for mailbox in [&older, &newer, &older] {
        let register = r#"{"type":"register"}"#;
        let (offer, refused) = Offer::check(register, &Default::default()).expect("a register");
        let client_id = world.scene.ids[0].clone();
        let join = Join { client_id, mailbox: mailbox.clone(), offer, refused };
        world.registry.handle(Request::Join(Box::new(join)));
    }
    assert_eq!((older.closing(), newer.closing()), (Some(Close::Replaced), None));
    // The count of connections may start over.
    for (older, newer) in [(1, 2), (u32::MAX, 0), (u32::MAX - 5, 5), (0, u32::MAX / 2)] {
        let [old, new] = [older, newer].map(Mailbox::new);
        assert!(old.is_older_than(&new) && !new.is_older_than(&old), "{older} and {newer}");
        assert!(!old.is_older_than(&old), "{older}");
    }
}
