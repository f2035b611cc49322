//! `make attack`: a hundred well-behaved agents, while everything is thrown at the bridge at once.
//!
//! First they call alone, then under attack from other addresses, then from the same one. No call of
//! theirs may fail or wait long, every attacker must get the refusal that SPEC.md has for it, and
//! afterwards memory and files must be what they were. The agents are those of the soak, at their calm.

mod soldier;
mod weapons;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use crate::histogram::{Histogram, ms};
use crate::proc;
use crate::server::{Running, Server};
use crate::soak::{Habits, World};
use soldier::Answers;

/// How much of each, in a second if nothing else is said.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    pub malformed: f64,
    pub bad_tokens: f64,
    pub bad_clients: f64,
    pub oversized: f64,
    pub deep: f64,
    /// Connections at once.
    pub slow: usize,
    /// Clients that register as fast as they are answered.
    pub flooding_clients: usize,
}

impl Rates {
    pub const KINDS: &str = "malformed, tokens, oversized, deep, slow, registers";

    /// Keeps these kinds of attack and no other.
    pub fn keep(&mut self, kinds: &[&str]) -> Result<(), String> {
        if let Some(wrong) =
            kinds.iter().find(|kind| !Rates::KINDS.split(", ").any(|one| one == **kind))
        {
            return Err(format!("{wrong:?} is none of {}", Rates::KINDS));
        }
        let keeps = |kind| kinds.contains(&kind);
        let rate = |kind, rate| if keeps(kind) { rate } else { 0.0 };
        *self = Rates {
            malformed: rate("malformed", self.malformed),
            bad_tokens: rate("tokens", self.bad_tokens),
            bad_clients: rate("tokens", self.bad_clients),
            oversized: rate("oversized", self.oversized),
            deep: rate("deep", self.deep),
            slow: if keeps("slow") { self.slow } else { 0 },
            flooding_clients: if keeps("registers") { self.flooding_clients } else { 0 },
        };
        Ok(())
    }
}

#[derive(Clone, Debug)]
pub struct Plan {
    /// Of each part.
    pub time: Duration,
    pub agents: usize,
    pub apps: usize,
    /// Between two calls of one agent.
    pub pace: Duration,
    pub rates: Rates,
    /// Parts after the first, which is without an attack.
    pub parts: Vec<Part>,
    /// How long a call may take under attack, the 99th of a hundred; `None` is not judged.
    pub p99_max: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Alone,
    /// The attackers have addresses of their own.
    Apart,
    /// Everybody has the same address.
    Shared,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Alone => "no attack",
            Part::Apart => "attack from other addresses",
            Part::Shared => "attack from the same address",
        }
    }
}

impl Plan {
    pub fn new(time: Duration) -> Plan {
        Plan {
            time,
            agents: 100,
            apps: 10,
            pace: Duration::from_millis(200),
            rates: Rates {
                malformed: 400.0,
                bad_tokens: 5000.0,
                bad_clients: 50.0,
                oversized: 80.0,
                deep: 50.0,
                slow: 2000,
                flooding_clients: 20,
            },
            parts: vec![Part::Alone, Part::Apart, Part::Shared],
            p99_max: Some(Duration::from_millis(250)),
        }
    }
}

/// Anonymous memory that one attack may leave behind, in bytes: the allocator keeps the heap that 2,000
/// connections and some messages of 5 MB had at once.
const LEFT_MAX: i64 = 48 << 20;

/// What a second attack may add to that: nothing, but for another layout of the heap.
const MORE_MAX: i64 = 4 << 20;

/// What came of one part.
#[derive(Debug)]
pub struct Outcome {
    part: Part,
    calls: u64,
    times: Histogram,
    /// How late the agents themselves were.
    late: Histogram,
    /// Why calls failed; the first failure ends a part.
    failures: Vec<String>,
    answers: Answers,
    /// Shares of a core: the bridge; agents, clients and attackers; all else on the machine.
    cpu: [f64; 3],
    /// Bytes.
    memory: (u64, u64),
    files: (usize, usize),
}

/// Runs all parts, one after the other on one bridge.
pub fn run(
    plan: &Plan,
    server: &Server,
    tell: &mut dyn FnMut(&str),
) -> Result<Vec<Outcome>, String> {
    let mut outcomes = Vec::new();
    let running = server.start()?;
    for part in &plan.parts {
        tell(&format!("{}, {} s", part.name(), plan.time.as_secs()));
        let outcome = one(plan, *part, &running)?;
        tell(&format!("{} calls, {}", outcome.calls, outcome.times.words()));
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

fn one(plan: &Plan, part: Part, running: &Running) -> Result<Outcome, String> {
    let (good, bad) = match part {
        Part::Shared => (None, None),
        _ => (Some(30), Some(60)),
    };
    let habits = Habits {
        seed: 1,
        apps: plan.apps,
        slow_apps: 0,
        agents: plan.agents,
        listeners: 0,
        pace: Some(plan.pace),
        mix: Vec::new(),
        bad_tokens: 0,
        restless: false,
        mischief: Duration::MAX,
        call_timeout: Duration::from_secs(10),
        subnet: good,
    };
    let mut world = World::new(running.address, habits)?;
    world.open()?;
    // What is allocated once and for all.
    world.work(Duration::from_secs(1))?;
    world.settle()?;
    world.tally = Default::default();
    sleep(Duration::from_millis(300));
    let before = (running.memory()?.anonymous, running.files()?);
    let (before_cpu, begun) = (cpu(running)?, Instant::now());
    let stop = Arc::new(AtomicBool::new(false));
    let soldier = (part != Part::Alone).then(|| enlist(running.address, bad, plan.rates, &stop));
    let called = world.work(plan.time);
    let took = begun.elapsed();
    let after_cpu = cpu(running)?;
    stop.store(true, Ordering::Relaxed);
    let answers = match soldier {
        Some(thread) => thread.join().map_err(|_| "the attackers panicked")??,
        None => Answers::new(),
    };
    let called = called.and_then(|()| world.settle());
    let files = settled_files(running, before.1)?;
    Ok(Outcome {
        part,
        calls: world.tally.calls(),
        times: world.tally.undisturbed.clone(),
        late: world.tally.late.clone(),
        failures: called.err().into_iter().collect(),
        answers,
        cpu: [0, 1, 2].map(|at| (after_cpu[at] - before_cpu[at]) / took.as_secs_f64()),
        memory: (before.0, running.memory()?.anonymous),
        files: (before.1, files),
    })
}

/// Seconds so far: of the bridge, of this process, of all else.
fn cpu(running: &Running) -> Result<[f64; 3], String> {
    let (bridge, own) =
        (running.cpu()?.as_secs_f64(), proc::cpu(std::process::id())?.as_secs_f64());
    Ok([bridge, own, proc::busy()?.as_secs_f64() - bridge - own])
}

type Soldier = thread::JoinHandle<Result<Answers, String>>;

fn enlist(bridge: SocketAddr, subnet: Option<u8>, rates: Rates, stop: &Arc<AtomicBool>) -> Soldier {
    let stop = stop.clone();
    thread::spawn(move || soldier::attack(bridge, subnet, rates, &stop))
}

/// The bridge keeps what a client offered for a while, and reads on after a refusal.
fn settled_files(running: &Running, expected: usize) -> Result<usize, String> {
    let end = Instant::now() + Duration::from_secs(10);
    sleep(Duration::from_secs(3));
    loop {
        let files = running.files()?;
        if files == expected || Instant::now() > end {
            return Ok(files);
        }
        sleep(Duration::from_millis(100));
    }
}

/// What was not as it must be.
pub fn missed(plan: &Plan, outcomes: &[Outcome]) -> Vec<String> {
    let mut missed = Vec::new();
    for outcome in outcomes {
        let mut miss = |what: String| missed.push(format!("{}: {what}", outcome.part.name()));
        for failure in &outcome.failures {
            miss(format!("a call failed: {failure}"));
        }
        let p99 = outcome.times.per_mille(990);
        if let Some(max) = plan.p99_max.filter(|max| p99 > *max) {
            miss(format!("p99 is {}, {} are allowed", ms(p99), ms(max)));
        }
        for ((weapon, answer), (count, right)) in &outcome.answers {
            if !right {
                miss(format!("{weapon}: {count} got {answer}"));
            }
        }
        let (before, after) = outcome.files;
        if before != after {
            miss(format!("{before} files were open before and {after} are afterwards"));
        }
    }
    if plan.p99_max.is_none() {
        return missed;
    }
    // Of those with an attack, the first fills the heap.
    let attacked = outcomes.iter().filter(|outcome| outcome.part != Part::Alone);
    for (max, outcome) in [LEFT_MAX, MORE_MAX].into_iter().zip(attacked) {
        let more = outcome.memory.1 as i64 - outcome.memory.0 as i64;
        if more > max {
            let (more, max, part) = (more >> 10, max >> 10, outcome.part.name());
            missed.push(format!("{part}: {more} KiB of anonymous memory more, {max} are allowed"));
        }
    }
    missed
}

/// The figures, as Markdown.
pub fn markdown(plan: &Plan, outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    let mut row = |what: &str, value: &dyn Fn(&Outcome) -> String| {
        write!(text, "| {what} |").ok();
        for outcome in outcomes {
            write!(text, " {} |", value(outcome)).ok();
        }
        text.push('\n');
    };
    row("", &|outcome| outcome.part.name().to_owned());
    row("---", &|_| "---".to_owned());
    row("calls of the well-behaved", &|outcome| outcome.calls.to_string());
    row("… that failed", &|outcome| outcome.failures.len().to_string());
    row("… p50", &|outcome| ms(outcome.times.per_mille(500)));
    row("… p99", &|outcome| ms(outcome.times.per_mille(990)));
    row("… max", &|outcome| ms(outcome.times.max()));
    row("agents themselves late, p99 and max", &|outcome| {
        format!("{}, {}", ms(outcome.late.per_mille(990)), ms(outcome.late.max()))
    });
    for (at, whose) in ["the bridge", "the load", "all else on the machine"].into_iter().enumerate()
    {
        row(&format!("CPU of {whose}, of a core"), &|outcome| {
            format!("{:.0} %", outcome.cpu[at] * 100.0)
        });
    }
    row("attacks answered", &|outcome| {
        outcome.answers.values().map(|(count, _)| count).sum::<u64>().to_string()
    });
    row("anonymous memory before and after, KiB", &|outcome| {
        format!("{}, {}", outcome.memory.0 >> 10, outcome.memory.1 >> 10)
    });
    row("open files before and after", &|outcome| {
        format!("{}, {}", outcome.files.0, outcome.files.1)
    });
    let seconds = plan.time.as_secs_f64();
    text.push_str("\n| what was sent | what came | |");
    let attacks: Vec<&Outcome> =
        outcomes.iter().filter(|outcome| outcome.part != Part::Alone).collect();
    for outcome in &attacks {
        write!(text, " {} | a second |", outcome.part.name()).ok();
    }
    writeln!(text, "\n|---|---|---|{}", "---|---|".repeat(attacks.len())).ok();
    let mut rows: Vec<_> = attacks.iter().flat_map(|outcome| outcome.answers.iter()).collect();
    rows.sort_by_key(|(key, _)| *key);
    rows.dedup_by_key(|(key, _)| *key);
    for (key, (_, right)) in rows {
        let right = if *right { "right" } else { "**wrong**" };
        write!(text, "| {} | {} | {right} |", key.0, key.1).ok();
        for outcome in &attacks {
            let count = outcome.answers.get(key).map_or(0, |(count, _)| *count);
            write!(text, " {count} | {:.1} |", count as f64 / seconds).ok();
        }
        text.push('\n');
    }
    text
}
