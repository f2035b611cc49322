//! What a call costs, what a handshake costs, and how much later an answer comes than without a bridge.
//!
//! The servers stand side by side and are loaded in turn, so that a noisy moment hits them alike.

use std::io;
use std::net::Ipv4Addr;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use crate::Plan;
use crate::load::{Calls, Load};
use crate::report::Report;
use crate::server::{Running, Server};
use crate::wire::{self, Era, Peer, Scope, token};

/// Calls before those that count.
const WARM_UP: Duration = Duration::from_millis(100);

/// Clients that join and leave at the same time.
const JOINERS: u8 = 8;

/// Calls a second when it is the latency that is looked at: far from busy.
const RATE: u32 = 200;

fn cells(plan: &Plan) -> Vec<Calls> {
    let mut cells = Vec::new();
    for bytes in [1 << 10, 64 << 10] {
        for agents in [1, 50] {
            for era in [Era::Legacy, Era::Modern] {
                for streamed in [false, true] {
                    cells.push(Calls { bytes, agents, era, streamed });
                }
            }
        }
    }
    cells.retain(|calls| name(*calls).contains(&plan.cells));
    // A smoke run takes each value of each dimension once or twice.
    cells.into_iter().step_by(if plan.quick { 5 } else { 1 }).collect()
}

fn name(calls: Calls) -> String {
    let agents = if calls.agents == 1 { "1 agent" } else { "50 agents" };
    let era = if calls.era == Era::Legacy { "2025" } else { "2026" };
    let answer = if calls.streamed { "streamed" } else { "plain" };
    format!("{} KiB, {agents}, {era}, {answer}", calls.bytes >> 10)
}

/// CPU per call and calls per second, and whether memory grows with them.
pub fn measure(plan: &Plan, servers: &[Server], report: &mut Report) -> Result<(), String> {
    let running = start(servers)?;
    let mut before = Vec::new();
    let mut counts = vec![0; running.len()];
    for round in 0..plan.rounds {
        for calls in cells(plan) {
            eprintln!("calls: round {} of {}, {}", round + 1, plan.rounds, name(calls));
            for (server, count) in running.iter().zip(&mut counts) {
                *count += cell(plan, server, calls, report)
                    .map_err(|error| format!("{}, {}: {error}", server.name, name(calls)))?;
            }
        }
        if round == 0 {
            for server in &running {
                sleep(Duration::from_millis(1_200));
                before.push(server.memory()?);
            }
            counts.fill(0);
        }
    }
    let section = "Memory after all those calls";
    for ((server, before), count) in running.iter().zip(before).zip(counts) {
        sleep(Duration::from_millis(1_200));
        let after = server.memory()?;
        let mut add = |what, unit, value| report.add(section, what, unit, &server.name, value);
        add("calls after the first round", "", count as f64);
        let more = after.resident as f64 - before.resident as f64;
        add("resident memory more than after the first round", "KiB", more / 1024.0);
        add("anonymous memory", "KiB", after.anonymous as f64 / 1024.0);
    }
    Ok(())
}

fn cell(plan: &Plan, server: &Running, calls: Calls, report: &mut Report) -> Result<usize, String> {
    let said = |error: io::Error| error.to_string();
    let mut load = Load::through(server.address, calls).map_err(said)?;
    let warm = load.run(WARM_UP.min(plan.cell_time)).map_err(said)?;
    let (cpu, begun) = (server.cpu()?, Instant::now());
    let count = load.run(plan.cell_time).map_err(said)?;
    let (cpu, time) = (server.cpu()?.saturating_sub(cpu), begun.elapsed());
    let name = name(calls);
    let per_call = cpu.as_secs_f64() * 1e6 / count as f64;
    report.add("CPU per call, user and system", &name, "µs", &server.name, per_call);
    let rate = count as f64 / time.as_secs_f64();
    report.add("Calls per second", &name, "1/s", &server.name, rate);
    Ok(warm + count)
}

/// Whether memory grows with the number of calls.
pub fn slope(plan: &Plan, servers: &[Server], report: &mut Report) -> Result<(), String> {
    let said = |error: io::Error| error.to_string();
    for server in servers {
        eprintln!("slope: {} calls, {}", plan.slope, server.name);
        let running = server.start()?;
        let calls = Calls { bytes: 1 << 10, agents: 50, era: Era::Legacy, streamed: false };
        let mut load = Load::through(running.address, calls).map_err(said)?;
        let mut run = |count: usize| -> Result<usize, String> {
            let mut made = 0;
            while made < count {
                made += load.run(plan.cell_time).map_err(said)?;
            }
            Ok(made)
        };
        // What is allocated once and for all.
        run(plan.slope / 10)?;
        let before = running.memory()?;
        let count = run(plan.slope)?;
        let after = running.memory()?;
        let section = "Memory over a million calls";
        let mut add = |what, unit, value| report.add(section, what, unit, &server.name, value);
        add("calls", "", count as f64);
        let more = |now: u64, then: u64| (now as f64 - then as f64) / 1024.0;
        add("resident memory more", "KiB", more(after.resident, before.resident));
        add("anonymous memory more", "KiB", more(after.anonymous, before.anonymous));
    }
    Ok(())
}

/// Clients that connect, register and leave, as fast as they can.
pub fn handshakes(plan: &Plan, servers: &[Server], report: &mut Report) -> Result<(), String> {
    let running = start(servers)?;
    for round in 0..plan.rounds {
        eprintln!("handshakes: round {} of {}", round + 1, plan.rounds);
        for server in &running {
            let (cpu, begun) = (server.cpu()?, Instant::now());
            let end = begun + plan.cell_time;
            let joiners: Vec<_> = (0..JOINERS)
                .map(|number| {
                    let address = server.address;
                    let source = Ipv4Addr::new(127, 0, 3 + round as u8, 1 + number);
                    thread::spawn(move || -> Result<usize, String> {
                        let mut count = 0;
                        while Instant::now() < end {
                            // One ID may not come back that often.
                            let id = format!("joiner-{number}-{round}-{count}");
                            let token = token(&id, Scope::Client)?;
                            let peer = Peer::connect(source, address).and_then(|mut peer| {
                                peer.join(&token, &wire::register(None)).map(|()| peer)
                            });
                            drop(peer.map_err(|error| error.to_string())?);
                            count += 1;
                        }
                        Ok(count)
                    })
                })
                .collect();
            let mut count = 0;
            for joiner in joiners {
                count += joiner.join().map_err(|_| "a joiner panicked")??;
            }
            let (cpu, time) = (server.cpu()?.saturating_sub(cpu), begun.elapsed());
            let section = "Handshakes: connect, register, leave";
            let rate = count as f64 / time.as_secs_f64();
            report.add(section, "rate", "1/s", &server.name, rate);
            let each = cpu.as_secs_f64() * 1e6 / count as f64;
            report.add(section, "CPU", "µs", &server.name, each);
        }
    }
    Ok(())
}

/// How long calls take at a rate far below what the server can do, and without a bridge.
pub fn latency(plan: &Plan, servers: &[Server], report: &mut Report) -> Result<(), String> {
    let running = start(servers)?;
    let said = |error: io::Error| error.to_string();
    for round in 0..plan.rounds {
        for bytes in [1 << 10, 64 << 10] {
            eprintln!("latency: round {} of {}, {} KiB", round + 1, plan.rounds, bytes >> 10);
            let calls = Calls { bytes, agents: 16, era: Era::Modern, streamed: false };
            let mut direct = Load::direct(calls).map_err(said)?;
            let (base_50, base_99) = percentiles(plan, &mut direct)?;
            for server in &running {
                let mut load = Load::through(server.address, calls).map_err(said)?;
                let (p50, p99) = percentiles(plan, &mut load)?;
                let section = format!("Latency at {RATE} calls per second");
                let mut add = |what: &str, value| {
                    let what = format!("{} KiB, {what}", bytes >> 10);
                    report.add(&section, &what, "µs", &server.name, value);
                };
                add("p50", p50);
                add("p50, added to a direct exchange", p50 - base_50);
                add("p99", p99);
                add("p99, added to a direct exchange", p99 - base_99);
            }
        }
    }
    Ok(())
}

/// The 50th and the 99th, in microseconds.
fn percentiles(plan: &Plan, load: &mut Load) -> Result<(f64, f64), String> {
    let run = load.run_at_rate(RATE, plan.cell_time * 2);
    let mut took = run.map_err(|error| error.to_string())?;
    took.sort_unstable();
    let at = |percent: usize| {
        let found = took.get(took.len() * percent / 100);
        found.map(|time| time.as_secs_f64() * 1e6).ok_or("no call was made")
    };
    Ok((at(50)?, at(99)?))
}

fn start(servers: &[Server]) -> Result<Vec<Running>, String> {
    servers.iter().map(Server::start).collect()
}
