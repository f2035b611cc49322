//! What an idle connection costs: a server is started, its memory read, a crowd let in, and its memory
//! read again. The difference is divided by the crowd.

use std::thread::sleep;
use std::time::Duration;

use crate::Plan;
use crate::hold::{Crowd, Kind};
use crate::proc::{self, Memory};
use crate::report::Report;
use crate::server::{Running, Server};

const CHURN_ROUNDS: usize = 3;

/// Everything about memory, of each server in turn.
pub fn measure(plan: &Plan, servers: &[Server], report: &mut Report) -> Result<(), String> {
    for server in servers {
        base(server, report)?;
    }
    for kind in Kind::ALL {
        for server in servers.iter().filter(|server| server.is_bridge() || kind.is_compared()) {
            eprintln!("memory: {} × {}, {}", plan.connections, kind.name(), server.name);
            crowd(plan, server, kind, report)?;
        }
    }
    for server in servers {
        eprintln!("memory: {} agents initialize and leave, {}", plan.visits, server.name);
        visits(plan, server, report)?;
    }
    Ok(())
}

fn base(server: &Server, report: &mut Report) -> Result<(), String> {
    let running = server.start_bare()?;
    sleep(Duration::from_millis(200));
    let memory = running.memory()?;
    let section = "Memory of an idle server";
    report.add(section, "resident", "KiB", &server.name, kib(memory.resident as f64));
    report.add(section, "anonymous", "KiB", &server.name, kib(memory.anonymous as f64));
    Ok(())
}

fn crowd(plan: &Plan, server: &Server, kind: Kind, report: &mut Report) -> Result<(), String> {
    let running = server.start()?;
    sleep(Duration::from_millis(200));
    let before = running.memory()?;
    let kernel_before = proc::kernel()?;
    let mut crowd = Crowd::open(kind, plan.connections, running.address)?;
    sleep(plan.settle);
    let count = crowd.count as f64;
    let each = |now: u64, then: u64| (now as f64 - then as f64) / count;
    let mut note = |when: &str, memory: Memory| {
        let section = format!("Bytes per {}", kind.name());
        let mut add = |what: &str, value| {
            report.add(&section, &format!("{what}, {when}"), "B", &running.name, value);
        };
        add("anonymous", each(memory.anonymous, before.anonymous));
        add("resident", each(memory.resident, before.resident));
    };
    note("fresh", running.memory()?);
    let kernel = proc::kernel()?;
    if kind.is_client() {
        crowd.churn(CHURN_ROUNDS)?;
        sleep(plan.settle);
        note("after 3 × 50 % churn", running.memory()?);
        crowd.send_big()?;
        sleep(plan.settle);
        note("after 60 KB each", running.memory()?);
    }
    let section = format!("Bytes per {}", kind.name());
    let mut add = |what: &str, unit, value| report.add(&section, what, unit, &running.name, value);
    add("kernel: slab, both ends", "B", each(kernel.slab, kernel_before.slab));
    add("kernel: TCP buffers, both ends", "B", each(kernel.tcp, kernel_before.tcp));
    add("kernel: sockets, both ends", "", each(kernel.sockets, kernel_before.sockets));
    crowd.close()?;
    sleep(plan.settle);
    let left = running.memory()?;
    let over = kib(left.anonymous as f64 - before.anonymous as f64);
    add("anonymous over the start, all gone", "KiB", over);
    Ok(())
}

fn visits(plan: &Plan, server: &Server, report: &mut Report) -> Result<(), String> {
    let running = server.start()?;
    let mut crowd = Crowd::empty(running.address, 1)?;
    // What is allocated once and for all.
    crowd.visit(plan.visits / 50)?;
    sleep(plan.settle);
    let before = running.memory()?;
    let cpu = running.cpu()?;
    crowd.visit(plan.visits)?;
    let cpu = running.cpu()?.saturating_sub(cpu);
    sleep(plan.settle);
    let after = running.memory()?;
    let section = format!("{} agents that initialize and leave", plan.visits);
    let mut add = |what, unit, value| report.add(&section, what, unit, &server.name, value);
    add("resident memory more", "KiB", kib(after.resident as f64 - before.resident as f64));
    add("anonymous memory more", "KiB", kib(after.anonymous as f64 - before.anonymous as f64));
    add("CPU per visit", "µs", cpu.as_secs_f64() * 1e6 / plan.visits as f64);
    Ok(())
}

/// CPU of a server whose clients only ping.
pub fn idle(plan: &Plan, servers: &[Server], report: &mut Report) -> Result<(), String> {
    for server in servers {
        let count = plan.pinging;
        eprintln!("idle: {count} clients ping every 25 s, {}", server.name);
        let running = server.start()?;
        let quiet = cpu_share(&running, plan.idle_time / 10)?;
        let mut crowd = Crowd::open(Kind::Identical, count, running.address)?;
        let time = plan.idle_lead + plan.idle_time + Duration::from_millis(500);
        crowd.begin_pinging(Duration::from_secs(25), time)?;
        // The lead lets the first deadlines of 45 s fall into the time that is measured.
        sleep(plan.idle_lead);
        let pinging = cpu_share(&running, plan.idle_time)?;
        crowd.wait()?;
        let section = "CPU of an idle server";
        report.add(section, "nobody there", "% of a core", &server.name, quiet);
        let what = format!("{} clients pinging every 25 s", crowd.count);
        report.add(section, &what, "% of a core", &server.name, pinging);
    }
    Ok(())
}

fn cpu_share(running: &Running, time: Duration) -> Result<f64, String> {
    let before = running.cpu()?;
    sleep(time);
    let used = running.cpu()?.saturating_sub(before);
    Ok(100.0 * used.as_secs_f64() / time.as_secs_f64())
}

fn kib(bytes: f64) -> f64 {
    bytes / 1024.0
}
