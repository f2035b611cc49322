//! `make bench`: measures a release build of the bridge from outside and writes `bench/RESULTS.md`.
//!
//! This room knows what is measured and how often. What a server is stands in `server`; many idle
//! connections in `hold`, busy ones in `load`; `memory`, `calls` and `startup` put them together, and
//! `report` makes the tables.

mod calls;
mod hold;
mod load;
mod long;
mod memory;
mod report;
mod startup;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use clientmcp_bench::{proc, server, wire};
use report::Report;
use server::Server;

const USAGE: &str = "\
Measures a bridge. Without flags: everything, in a few minutes, into bench/RESULTS.md.

  --quick                 a smoke run of some seconds; writes nothing
  --only A,B              of: startup, memory, idle, calls, slope, handshakes, latency
  --cells TEXT            only calls whose name contains it: '64 KiB, 50 agents'
  --rounds N              of calls, handshakes and latency (3)
  --connections N         idle ones at once (18000, or what the file limit allows)
  --server PATH           this build of the bridge; otherwise one is made first
  --alone                 without the baseline and the floor, which are built first otherwise
  --against NAME=PATH     another build beside it, in the same run; repeatable
  --output PATH           where to write (bench/RESULTS.md)
";

/// Files that a server needs beside its connections.
const FILES_RESERVED: u64 = 500;

/// What ours is measured against, each in a folder of this package with a lockfile of its own: a bridge
/// on another stack, and a relay that parses nothing.
const OTHERS: [(&str, &[&str]); 2] = [
    ("baseline", &["startup", "memory", "calls", "handshakes", "latency"]),
    ("floor", &["calls", "latency"]),
];

/// What is measured, how often and for how long.
#[derive(Clone, Debug)]
pub struct Plan {
    pub quick: bool,
    only: Vec<String>,
    /// Calls are made only when their name contains this.
    pub cells: String,
    pub rounds: usize,
    pub starts: usize,
    /// Idle ones at once.
    pub connections: usize,
    /// Until what happened is worked off: more than `--offline-grace` and the tick after it.
    pub settle: Duration,
    /// Agents that initialize and leave.
    pub visits: usize,
    /// Calls over which memory must not grow.
    pub slope: usize,
    /// Clients that ping.
    pub pinging: usize,
    /// How long they do so before it counts.
    pub idle_lead: Duration,
    pub idle_time: Duration,
    /// How long one kind of call is made.
    pub cell_time: Duration,
    server: Option<PathBuf>,
    alone: bool,
    against: Vec<(String, PathBuf)>,
    output: Option<PathBuf>,
}

impl Plan {
    fn full() -> Plan {
        Plan {
            quick: false,
            only: Vec::new(),
            cells: String::new(),
            rounds: 3,
            starts: 20,
            connections: 18_000,
            settle: Duration::from_millis(1_600),
            visits: 100_000,
            slope: 1_000_000,
            pinging: 10_000,
            idle_lead: Duration::from_secs(20),
            idle_time: Duration::from_secs(30),
            cell_time: Duration::from_millis(700),
            server: None,
            alone: false,
            against: Vec::new(),
            output: None,
        }
    }

    fn quick() -> Plan {
        Plan {
            quick: true,
            alone: true,
            rounds: 1,
            starts: 3,
            connections: 200,
            settle: Duration::from_millis(300),
            visits: 500,
            slope: 2_000,
            pinging: 100,
            idle_lead: Duration::ZERO,
            idle_time: Duration::from_secs(1),
            cell_time: Duration::from_millis(100),
            ..Plan::full()
        }
    }

    fn parse(words: &[String]) -> Result<Plan, String> {
        let quick = words.iter().any(|word| word == "--quick");
        let mut plan = if quick { Plan::quick() } else { Plan::full() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value\n\n{USAGE}"));
            match word.as_str() {
                "--quick" => {}
                "--alone" => plan.alone = true,
                "--only" => plan.only = value()?.split(',').map(str::to_owned).collect(),
                "--cells" => plan.cells = value()?.clone(),
                "--rounds" => plan.rounds = number(word, value()?)?,
                "--connections" => plan.connections = number(word, value()?)?,
                "--server" => plan.server = Some(value()?.into()),
                "--output" => plan.output = Some(value()?.into()),
                "--against" => {
                    let value = value()?;
                    let (name, path) = value
                        .split_once('=')
                        .ok_or_else(|| format!("--against {value:?}: expected NAME=PATH"))?;
                    plan.against.push((name.to_owned(), path.into()));
                }
                _ => return Err(format!("{word:?} is not known\n\n{USAGE}")),
            }
        }
        Ok(plan)
    }

    /// Not everything is measured, so nothing is written unless it is asked for.
    fn is_partial(&self) -> bool {
        self.quick || !self.only.is_empty() || !self.cells.is_empty()
    }

    fn wants(&self, section: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|one| one == section)
    }
}

fn number(flag: &str, value: &str) -> Result<usize, String> {
    let number = value.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{flag} {value:?}: expected a number from 1 on"))
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.as_slice() {
        [hold, server, number] if hold == "hold" => hold::work(server, number),
        [verb, words @ ..] if long::is_verb(verb) => long::run(verb, words),
        words => Plan::parse(words).and_then(|plan| run(plan, words)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut plan: Plan, words: &[String]) -> Result<(), String> {
    let fitting = raise_file_limit().saturating_sub(FILES_RESERVED) as usize;
    plan.connections = plan.connections.min(fitting);
    plan.pinging = plan.pinging.min(fitting);
    let program = match &plan.server {
        Some(program) => program.clone(),
        None => build()?,
    };
    let mut servers = vec![Server::clientmcp("clientmcp", program)];
    for (name, program) in &plan.against {
        servers.push(Server::clientmcp(name, program.clone()));
    }
    if !plan.alone {
        for (name, sections) in OTHERS {
            servers.push(Server::other(name, build_other(name)?, sections));
        }
    }
    let begun = Instant::now();
    let load = proc::load_average();
    let report = measure(&plan, &servers)?;
    let text = page(&plan, words, &load, begun.elapsed(), &report);
    print!("{text}");
    let output = match (&plan.output, plan.is_partial()) {
        (Some(path), _) => path.clone(),
        (None, true) => return Ok(()),
        (None, false) => home().join("RESULTS.md"),
    };
    std::fs::write(&output, text).map_err(|error| format!("{}: {error}", output.display()))
}

fn measure(plan: &Plan, servers: &[Server]) -> Result<Report, String> {
    type Measure = fn(&Plan, &[Server], &mut Report) -> Result<(), String>;
    let sections: [(&str, Measure); 7] = [
        ("startup", startup::measure),
        ("memory", memory::measure),
        ("idle", memory::idle),
        ("calls", calls::measure),
        ("slope", calls::slope),
        ("handshakes", calls::handshakes),
        ("latency", calls::latency),
    ];
    if let Some(wrong) = plan.only.iter().find(|one| sections.iter().all(|(name, _)| name != one)) {
        return Err(format!("--only {wrong:?} is not known\n\n{USAGE}"));
    }
    let mut report = Report::default();
    for (name, measure) in sections.iter().filter(|(name, _)| plan.wants(name)) {
        let servers = servers.iter().filter(|server| server.takes_part(name)).cloned();
        measure(plan, &servers.collect::<Vec<_>>(), &mut report)?;
    }
    Ok(report)
}

/// The tables with what one must know to read them.
fn page(plan: &Plan, words: &[String], load: &str, took: Duration, report: &Report) -> String {
    let date = said_by("date", &["-u", "+%Y-%m-%d %H:%M UTC"]);
    let commit = said_by("git", &["describe", "--always", "--dirty", "--abbrev=12"]);
    let command = command(words);
    let connections = plan.connections;
    format!(
        "# Measured\n\n\
         - date: {date}, in {} s\n\
         - commit: {commit}\n\
         - machine: {}; load average before: {load}\n\
         - compiler: {}\n\
         - command: `{command}`\n\n\
         Medians, with the smallest and the largest where there are several. CPU is that of the server\n\
         process alone. The load runs on the same machine, so rates also depend on what it costs.\n\
         Memory is read with {connections} connections at once, registers have 1 KiB; kernel memory\n\
         has no owner and counts both ends of each connection. A call carries so many bytes of argument\n\
         and as many of result. The server runs with its defaults, but for `--log-level warn`,\n\
         `--max-streams` and `--keep-alive` raised, and `--offline-grace 1`.\n\n\
         `baseline` is a bridge reduced to this path on hyper, tokio and tokio-tungstenite, and `floor`\n\
         a relay that checks nothing on the same reactor (see the beginning of their `main.rs`). All are\n\
         built alike and run one thread; what does not apply to them is `–`. A ratio below 1 says that\n\
         ours takes less.\n\n{}",
        took.as_secs(),
        proc::machine(),
        said_by("rustc", &["--version"]),
        report.markdown()
    )
}

/// As one would say it, whatever the folders are called on this machine.
fn command(words: &[String]) -> String {
    let mut said = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--server" | "--output" => drop(words.next()),
            "--against" => {
                let name = words.next().and_then(|value| value.split('=').next());
                said.push(format!("--against {}=…", name.unwrap_or_default()));
            }
            _ => said.push(word.clone()),
        }
    }
    if said.is_empty() {
        return "make bench".to_owned();
    }
    format!("make bench ARGS='{}'", said.join(" "))
}

/// The first line that a program writes; `unknown` when it cannot be asked.
fn said_by(program: &str, words: &[&str]) -> String {
    let said = Command::new(program).args(words).current_dir(home()).output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    said.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

/// This package's folder: cargo names it to what it runs.
fn home() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| "bench".into(), PathBuf::from)
}

/// Builds the bridge for release; it then stands beside this program, or beside its folder.
fn build() -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo).args(["build", "--release", "-p", "clientmcp"]).status();
    match built {
        Ok(status) if status.success() => {}
        Ok(_) => return Err("cargo build --release -p clientmcp failed: see above".to_owned()),
        Err(error) => return Err(format!("cargo build does not start: {error}")),
    }
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = this.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    let program = target.join("release").join("clientmcp");
    if program.exists() {
        return Ok(program);
    }
    Err(format!("expected {} after the build; --server PATH says where it is", program.display()))
}

/// Builds one of [`OTHERS`], as static as `make static` builds the bridge, and beside it.
fn build_other(name: &str) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = this.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    let target = target.join("others");
    let triple = host()?;
    let built = Command::new(cargo)
        .args(["build", "--release", "--locked", "--target", &triple, "--target-dir"])
        .arg(&target)
        .current_dir(home().join(name))
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .status();
    match built {
        Ok(status) if status.success() => Ok(target.join(triple).join("release").join(name)),
        Ok(_) => Err(format!("cargo build in bench/{name} failed: see above")),
        Err(error) => Err(format!("cargo build does not start: {error}")),
    }
}

/// The triple of this machine, as the compiler says it.
fn host() -> Result<String, String> {
    let said = said_by("rustc", &["-vV"]);
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| format!("expected a line `host:` of rustc, got {said:?}"))
}

/// Lets this process, and those it starts, open as many files as they may; returns how many.
fn raise_file_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // Where it is refused, the old limit still holds.
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    current.unwrap_or(u64::MAX)
}
