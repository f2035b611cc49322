//! The two long runs from the command line: `soak` and `attack`, their flags and the pages they write.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clientmcp_bench::{attack, soak};

use crate::server::Server;
use crate::{build, home, number, proc, raise_file_limit, said_by};

const USAGE: &str = "\
soak: everything that agents and clients do, with books kept; into bench/SOAK.md.

  --minutes N             how long (30)
  --calls N               ends sooner, after so many
  --seed N                another order of events (1)
  --agents N --apps N     so many (96, 16)

attack: 100 agents call while everything is thrown at the bridge; into bench/ATTACK.md.

  --seconds N             of each of three parts: none, from other addresses, from the same (30)
  --agents N --apps N     so many (100, 10)
  --slow N                slow connections at once (2000)
  --only A,B              of: malformed, tokens, oversized, deep, slow, registers

Both:

  --server PATH           this build of the bridge; otherwise one is made first
  --flag TEXT             one more flag of the bridge: --flag=--max-calls=512; repeatable
  --output PATH           where to write
";

pub fn is_verb(word: &str) -> bool {
    matches!(word, "soak" | "attack")
}

#[derive(Default)]
struct Flags {
    minutes: Option<f64>,
    calls: Option<usize>,
    seconds: Option<usize>,
    slow: Option<usize>,
    only: Option<String>,
    seed: Option<usize>,
    agents: Option<usize>,
    apps: Option<usize>,
    server: Option<PathBuf>,
    more: Vec<String>,
    output: Option<PathBuf>,
}

impl Flags {
    fn parse(words: &[String]) -> Result<Flags, String> {
        let mut flags = Flags::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if let Some(flag) = word.strip_prefix("--flag=") {
                flags.more.push(flag.to_owned());
                continue;
            }
            let value = words.next().ok_or(format!("{word} needs a value\n\n{USAGE}"))?;
            match word.as_str() {
                "--minutes" => {
                    let minutes = value.parse().ok().filter(|minutes| *minutes > 0.0);
                    flags.minutes = Some(minutes.ok_or(format!("--minutes {value:?}: no number"))?);
                }
                "--calls" => flags.calls = Some(number(word, value)?),
                "--seconds" => flags.seconds = Some(number(word, value)?),
                "--only" => flags.only = Some(value.clone()),
                "--slow" => flags.slow = Some(number(word, value)?),
                "--seed" => flags.seed = Some(number(word, value)?),
                "--agents" => flags.agents = Some(number(word, value)?),
                "--apps" => flags.apps = Some(number(word, value)?),
                "--server" => flags.server = Some(value.into()),
                "--output" => flags.output = Some(value.into()),
                _ => return Err(format!("{word:?} is not known\n\n{USAGE}")),
            }
        }
        Ok(flags)
    }

    fn server(&self) -> Result<Server, String> {
        let program = match &self.server {
            Some(program) => program.clone(),
            None => build()?,
        };
        let mut server = Server::clientmcp("clientmcp", program);
        for flag in &self.more {
            let (name, value) = flag
                .split_once('=')
                .ok_or_else(|| format!("--flag={flag}: expected --flag=--NAME=VALUE"))?;
            server.set(name, value);
        }
        Ok(server)
    }
}

pub fn run(verb: &str, words: &[String]) -> Result<(), String> {
    let flags = Flags::parse(words)?;
    raise_file_limit();
    match verb {
        "soak" => run_soak(&flags),
        "attack" => run_attack(&flags),
        _ => Err(USAGE.to_owned()),
    }
}

fn run_soak(flags: &Flags) -> Result<(), String> {
    let minutes = flags.minutes.unwrap_or(30.0);
    let mut plan = soak::Plan::new(Duration::from_secs_f64(minutes * 60.0));
    plan.calls = flags.calls.map_or(u64::MAX, |calls| calls as u64);
    plan.habits.seed = flags.seed.unwrap_or(1) as u64;
    plan.habits.agents = flags.agents.unwrap_or(plan.habits.agents);
    plan.habits.apps = flags.apps.unwrap_or(plan.habits.apps);
    let server = flags.server()?;
    let load = proc::load_average();
    let begun = Instant::now();
    let outcome = soak::run(&plan, &server, &mut |line| eprintln!("soak: {line}"))?;
    let text = format!(
        "# Soaked\n\n{}\n\
         Every call was answered exactly once, with the answer to that very call; no client saw one twice;\n\
         each cancel was heard; each listener knew of each change. What that means, and what goes on at the\n\
         same time, is in `bench/src/soak.rs` and the rooms below it. The load, on the same machine, makes\n\
         as many calls as it can, so times are those of a bridge that is always busy.\n\n{}",
        head(flags, &format!("make soak MINUTES={minutes}"), &load, begun.elapsed()),
        outcome.markdown(),
    );
    write(flags, "SOAK.md", &text)
}

fn run_attack(flags: &Flags) -> Result<(), String> {
    let seconds = flags.seconds.unwrap_or(30);
    let mut plan = attack::Plan::new(Duration::from_secs(seconds as u64));
    plan.agents = flags.agents.unwrap_or(plan.agents);
    plan.apps = flags.apps.unwrap_or(plan.apps);
    plan.rates.slow = flags.slow.unwrap_or(plan.rates.slow);
    if let Some(only) = &flags.only {
        plan.rates.keep(&only.split(',').collect::<Vec<_>>())?;
    }
    let mut server = flags.server()?;
    // As it is by default, but that a body which stops is refused within the time of the run.
    server.set("--body-timeout", "10");
    server.set("--offline-grace", "1");
    let load = proc::load_average();
    let begun = Instant::now();
    let outcomes = attack::run(&plan, &server, &mut |line| eprintln!("attack: {line}"))?;
    let missed = attack::missed(&plan, &outcomes);
    let text = format!(
        "# Attacked\n\n{}\n\
         {} agents make a call of up to 256 bytes every {} ms each, to {} clients; every answer is compared\n\
         with what the client said. What is thrown is in `bench/src/attack/weapons.rs`. Agents, clients and\n\
         attackers run on the same machine as the bridge.\n\n{}",
        head(flags, "make attack", &load, begun.elapsed()),
        plan.agents,
        plan.pace.as_millis(),
        plan.apps,
        attack::markdown(&plan, &outcomes),
    );
    write(flags, "ATTACK.md", &text)?;
    match missed.as_slice() {
        [] => Ok(()),
        missed => Err(missed.join("\n")),
    }
}

/// When, what and where.
fn head(flags: &Flags, command: &str, load: &str, took: Duration) -> String {
    let more = match flags.more.is_empty() {
        true => String::new(),
        false => format!("- more flags of the bridge: `{}`\n", flags.more.join(" ")),
    };
    format!(
        "- date: {}, in {} s\n- commit: {}\n- machine: {}; load average before: {load}\n\
         - compiler: {}\n- command: `{command}`\n{more}",
        said_by("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
        took.as_secs(),
        said_by("git", &["describe", "--always", "--dirty", "--abbrev=12"]),
        proc::machine(),
        said_by("rustc", &["--version"]),
    )
}

fn write(flags: &Flags, name: &str, text: &str) -> Result<(), String> {
    println!("{text}");
    let output = flags.output.clone().unwrap_or_else(|| home().join(name));
    std::fs::write(&output, text).map_err(|error| format!("{}: {error}", output.display()))
}
