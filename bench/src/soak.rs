//! `make soak`: everything that agents and applications do, for as long as is asked, with books kept.
//!
//! The world works for a while and rests, again and again. At each rest all calls must be over, the
//! bridge's own counters must agree with the books, and its files and memory are read. This room says
//! what must hold, and writes the page; who does what is in the rooms below it.

mod agent;
mod answers;
mod app;
mod calls;
mod listener;
mod mischief;
mod world;

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub use calls::{End, Kind};
pub use world::{Habits, Tally, World};

use crate::proc::Memory;
use crate::server::{Running, Server};

/// How long and how much.
#[derive(Clone, Debug)]
pub struct Plan {
    pub time: Duration,
    /// It ends sooner when so many calls were made.
    pub calls: u64,
    /// Between two rests.
    pub work: Duration,
    /// Memory must come back: not judged for a debug build, or in a short run.
    pub judges_memory: bool,
    pub habits: Habits,
}

impl Plan {
    pub fn new(time: Duration) -> Plan {
        let rare = [
            (Kind::Slow, 3),
            (Kind::Progress, 15),
            (Kind::Error, 10),
            (Kind::Batch, 20),
            (Kind::HangUp, 5),
            (Kind::Abandon, 2),
            (Kind::Cancel, 5),
            (Kind::Race, 5),
            (Kind::Timeout, 1),
            (Kind::Unknown, 3),
            (Kind::Offline, 3),
        ];
        Plan {
            time,
            calls: u64::MAX,
            work: Duration::from_secs(20),
            judges_memory: true,
            habits: Habits {
                seed: 1,
                apps: 16,
                slow_apps: 3,
                agents: 96,
                listeners: 32,
                pace: None,
                mix: rare.to_vec(),
                bad_tokens: 5,
                restless: true,
                mischief: Duration::from_secs(4),
                call_timeout: Duration::from_secs(4),
                subnet: Some(30),
            },
        }
    }
}

/// Seconds for which what a client offered is kept: longer than any of them is away.
const GRACE: &str = "4";

/// Memory that may be more than before the first client came, once all have left: what the allocator
/// keeps of a heap that held many large messages at once.
pub const IDLE_MORE_MAX: u64 = 8 << 20;

/// How much more memory the last million calls may have left behind.
pub const SLOPE_MAX: f64 = 1.0;

/// One look at the bridge while everybody rests.
#[derive(Clone, Copy, Debug)]
struct Rest {
    calls: u64,
    memory: Memory,
}

/// What came out.
#[derive(Debug, Default)]
pub struct Outcome {
    pub tally: Tally,
    pub took: Duration,
    /// Of the bridge.
    pub cpu: Duration,
    rests: Vec<Rest>,
    idle: Option<Memory>,
    left: Option<Memory>,
    files: (usize, usize),
    /// Mebibytes for each million of the last calls.
    slope: Option<f64>,
}

/// Runs it. `Err` says which promise was broken.
pub fn run(plan: &Plan, server: &Server, tell: &mut dyn FnMut(&str)) -> Result<Outcome, String> {
    let metrics = free_address()?;
    let mut server = server.clone();
    server.set("--call-timeout", &plan.habits.call_timeout.as_secs().to_string());
    server.set("--offline-grace", GRACE);
    // Below the call timeout: who waits for a client is to be told that it is not there.
    server.set("--reconnect-wait", "3");
    server.set("--metrics", &metrics.to_string());
    // Limits that are there for other clients than these.
    for flag in ["--max-connects-per-minute", "--max-registers-per-minute"] {
        server.set_if_known(flag, "6000");
    }
    let running = server.start()?;
    sleep(Duration::from_millis(200));
    let mut outcome = Outcome { idle: Some(running.memory()?), ..Outcome::default() };
    outcome.files.0 = running.files()?;
    let mut world = World::new(running.address, plan.habits.clone())?;
    let begun = Instant::now();
    let done = soak(plan, &running, metrics, &mut world, &mut outcome, begun, tell);
    outcome.took = begun.elapsed();
    outcome.tally = world.tally.clone();
    outcome.cpu = running.cpu()?;
    let calls = outcome.tally.calls();
    done.map_err(|error| format!("after {calls} calls: {error}"))?;
    drop(world);
    // Until nothing is kept of those who left, and the deadlines' queue was looked through.
    let grace: u64 = GRACE.parse().unwrap_or_default();
    sleep(Duration::from_secs(grace) + Duration::from_millis(1500));
    outcome.files.1 = running.files()?;
    outcome.left = Some(running.memory()?);
    outcome.slope = slope(&outcome.rests);
    outcome.judge(plan)?;
    Ok(outcome)
}

fn soak(
    plan: &Plan,
    running: &Running,
    metrics: SocketAddr,
    world: &mut World,
    outcome: &mut Outcome,
    begun: Instant,
    tell: &mut dyn FnMut(&str),
) -> Result<(), String> {
    world.open()?;
    world.calls_max = plan.calls;
    while begun.elapsed() < plan.time && world.tally.calls() < plan.calls {
        let (calls, since) = (world.tally.calls(), Instant::now());
        world.work(plan.work.min(plan.time.saturating_sub(begun.elapsed())))?;
        let rate = (world.tally.calls() - calls) as f64 / since.elapsed().as_secs_f64();
        world.settle()?;
        sleep(Duration::from_millis(300));
        check_counters(&read_metrics(metrics)?, &world.tally)?;
        check_files(running, outcome.files.0 + world.net.len())?;
        let rest = Rest { calls: world.tally.calls(), memory: running.memory()? };
        outcome.rests.push(rest);
        tell(&format!(
            "{:5.0} s  {:9} calls, {rate:.0} a second; small ones: {}; anonymous {} KiB, {} connections",
            begun.elapsed().as_secs_f64(),
            rest.calls,
            world.tally.undisturbed.words(),
            rest.memory.anonymous >> 10,
            world.net.len(),
        ));
    }
    Ok(())
}

impl Outcome {
    fn judge(&self, plan: &Plan) -> Result<(), String> {
        if self.files.0 != self.files.1 {
            let (before, after) = self.files;
            return Err(format!("{before} files were open before and {after} are afterwards"));
        }
        if !plan.judges_memory {
            return Ok(());
        }
        let more = self.more();
        if more > IDLE_MORE_MAX {
            return Err(format!(
                "anonymous memory is {} KiB over the idle line; {} KiB are allowed",
                more >> 10,
                IDLE_MORE_MAX >> 10
            ));
        }
        match self.slope {
            Some(slope) if slope > SLOPE_MAX => Err(format!(
                "anonymous memory grew by {slope:.2} MiB over a million calls; {SLOPE_MAX} is allowed"
            )),
            _ => Ok(()),
        }
    }

    /// Anonymous memory over the idle line, all gone.
    fn more(&self) -> u64 {
        let of = |memory: Option<Memory>| memory.map_or(0, |memory| memory.anonymous);
        of(self.left).saturating_sub(of(self.idle))
    }

    /// The figures, as Markdown.
    pub fn markdown(&self) -> String {
        let tally = &self.tally;
        let mut text = String::new();
        let mut row = |what: &str, value: String| writeln!(text, "| {what} | {value} |").ok();
        row("", "".to_owned());
        row("---", "---".to_owned());
        let seconds = self.took.as_secs_f64();
        row("calls", tally.calls().to_string());
        row("time, rests included", format!("{seconds:.0} s"));
        row("calls a second, rests included", format!("{:.0}", tally.calls() as f64 / seconds));
        row("arguments and results", format!("{:.1} GB", tally.bytes as f64 / 1e9));
        row(
            "CPU of the bridge",
            format!("{:.0} % of a core", 100.0 * self.cpu.as_secs_f64() / seconds),
        );
        row("calls of up to 1 KiB, undisturbed", tally.undisturbed.words());
        row("calls of up to 1 MiB, undisturbed", tally.large.words());
        row(
            "calls whose client stalled, left or came, or whose agent was slow",
            tally.disturbed.words(),
        );
        let idle = self.idle.map_or(0, |memory| memory.anonymous >> 10);
        row("anonymous memory before the first client", format!("{idle} KiB"));
        if let (Some(first), Some(last)) = (self.rests.first(), self.rests.last()) {
            let kib = |rest: &Rest| rest.memory.anonymous >> 10;
            let most = self.rests.iter().map(kib).max().unwrap_or_default();
            row(
                "… at the first rest, the last, and the highest",
                format!("{}, {}, {most} KiB", kib(first), kib(last)),
            );
        }
        let slope =
            self.slope.map_or("too few rests".to_owned(), |slope| format!("{slope:+.2} MiB"));
        row(
            "… more for each million calls (the last million, or the second half; least squares)",
            slope,
        );
        row("… all gone, over the idle line", format!("{} KiB", self.more() >> 10));
        row("open files before and after", format!("{} and {}", self.files.0, self.files.1));
        row("rests at which all books were closed", self.rests.len().to_string());
        text.push_str("\n| what was called | calls |\n|---|---|\n");
        for kind in Kind::ALL {
            let made = tally.made.get(&kind).copied().unwrap_or_default();
            writeln!(text, "| {} | {made} |", kind.name()).ok();
        }
        text.push_str("\n| what came of it | calls |\n|---|---|\n");
        for (end, count) in &tally.ends {
            writeln!(text, "| {end:?} | {count} |").ok();
        }
        text.push_str("\n| what else went on | |\n|---|---|\n");
        for (what, count) in [
            ("cancels that a client heard", tally.cancels_heard),
            ("registers", tally.registers),
            ("clients that left and came back", tally.returns),
            ("clients that were replaced", tally.replaced),
            ("clients that read nothing for up to 2 s", tally.stalls),
            ("`list_changed` on streams", tally.list_changes),
            ("streams opened", tally.streams),
            ("agents that left and came back", tally.agents_left),
            ("bad tokens refused", tally.refusals),
        ] {
            writeln!(text, "| {what} | {count} |").ok();
        }
        text
    }
}

/// Least squares over the rests of the last million calls, or of the second half if that is more, in MiB
/// for each million. The first rest is the warm-up.
fn slope(rests: &[Rest]) -> Option<f64> {
    let last = rests.last()?.calls;
    let first = last - (last / 2).max(1_000_000).min(last);
    let of_last: Vec<&Rest> = rests.iter().skip(1).filter(|rest| rest.calls >= first).collect();
    if of_last.len() < 4 {
        return None;
    }
    let count = of_last.len() as f64;
    let x = |rest: &Rest| rest.calls as f64 / 1e6;
    let y = |rest: &Rest| rest.memory.anonymous as f64 / f64::from(1 << 20);
    let mean_x = of_last.iter().map(|rest| x(rest)).sum::<f64>() / count;
    let mean_y = of_last.iter().map(|rest| y(rest)).sum::<f64>() / count;
    let both: f64 = of_last.iter().map(|rest| (x(rest) - mean_x) * (y(rest) - mean_y)).sum();
    let square: f64 = of_last.iter().map(|rest| (x(rest) - mean_x).powi(2)).sum();
    Some(both / square)
}

/// The bridge's own counters against the books, when nothing runs.
fn check_counters(page: &str, tally: &Tally) -> Result<(), String> {
    let sum = |name: &str| -> u64 {
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        let named = lines.filter(|line| line.starts_with(&format!("clientmcp_{name}")));
        named.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    };
    let made = |kind: Kind| tally.made.get(&kind).copied().unwrap_or_default();
    let ended = |end: End| tally.ends.get(&end).copied().unwrap_or_default();
    let expect = |what: &str, got: u64, least: u64, slack: u64| -> Result<(), String> {
        if (least..=least + slack).contains(&got) {
            return Ok(());
        }
        let slack = if slack > 0 { format!(" to {}", least + slack) } else { String::new() };
        Err(format!("the bridge counts {got} {what}, the books say {least}{slack}"))
    };
    let (doubtful, raced) = (tally.doubtful, tally.raced);
    let unknown = made(Kind::Unknown);
    expect("calls running", sum("calls_running"), 0, 0)?;
    let started = sum("calls_started_total");
    let sure = tally.calls() - doubtful - unknown;
    expect("calls started", started, sure, doubtful + unknown)?;
    let answered = sum("calls_answered_total");
    expect("calls answered", answered, ended(End::Answered), raced + doubtful)?;
    let timed_out = sum("calls_timed_out_total");
    expect("calls timed out", timed_out, ended(End::TimedOut), 0)?;
    let failed = sum("calls_failed_total");
    let failures = ended(End::MayHaveRun) + ended(End::NotConnected);
    expect("calls failed", failed, failures, raced + doubtful)?;
    let ends = answered + sum("calls_cancelled_total") + timed_out + failed;
    expect("calls started", started, ends, unknown)
}

/// Waits a little for what was closed a moment ago.
fn check_files(running: &Running, expected: usize) -> Result<(), String> {
    let end = Instant::now() + Duration::from_secs(5);
    loop {
        let files = running.files()?;
        if files == expected {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(format!("the bridge has {files} open files, expected {expected}"));
        }
        sleep(Duration::from_millis(50));
    }
}

/// An address that nobody uses; the bridge says only in its log which one it took.
fn free_address() -> Result<SocketAddr, String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0");
    listener.and_then(|listener| listener.local_addr()).map_err(world::said)
}

fn read_metrics(address: SocketAddr) -> Result<String, String> {
    let mut stream = TcpStream::connect(address).map_err(world::said)?;
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        .map_err(world::said)?;
    let mut page = String::new();
    stream.read_to_string(&mut page).map_err(world::said)?;
    if page.starts_with("HTTP/1.1 200 ") {
        return Ok(page);
    }
    Err(format!("expected 200 from /metrics, got {page:.300}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rests(of: impl Fn(u64) -> u64) -> Vec<Rest> {
        let memory = |call| Memory { resident: 0, anonymous: of(call) };
        (0..40).map(|at| at * 100_000).map(|at| Rest { calls: at, memory: memory(at) }).collect()
    }

    #[test]
    fn growth_shows_and_a_full_heap_does_not() {
        let slope = |of: fn(u64) -> u64| slope(&rests(of)).expect("enough rests");
        assert!(slope(|_| 5 << 20).abs() < 0.001);
        assert!((slope(|calls| (5 << 20) + 2 * calls) - 1.907).abs() < 0.01, "2 bytes a call");
        assert!(slope(|calls| calls.min(1_000_000)).abs() < 0.001, "full after a million calls");
        assert!(super::slope(&rests(|_| 0)[..4]).is_none(), "three rests after the warm-up");
    }

    #[test]
    fn a_counter_that_is_off_by_one_is_noticed() {
        let mut tally = Tally::default();
        tally.made.insert(Kind::Echo, 10);
        tally.ends.insert(End::Answered, 10);
        let page = |answered: u64| {
            format!(
                "# TYPE clientmcp_calls_started_total counter\nclientmcp_calls_started_total 10\n\
                 clientmcp_calls_answered_total {answered}\nclientmcp_calls_running 0\n"
            )
        };
        assert_eq!(check_counters(&page(10), &tally), Ok(()));
        for wrong in [9, 11] {
            assert!(check_counters(&page(wrong), &tally).is_err(), "{wrong}");
        }
    }
}
