//! A short soak and a short attack, by the code of `make soak` and `make attack`: what must hold for
//! minutes must hold for seconds. Nothing is said about time or memory here: the bridge is a debug build,
//! and other tests run beside it.

use std::path::PathBuf;
use std::time::Duration;

use clientmcp_bench::attack::{self, Part};
use clientmcp_bench::server::Server;
use clientmcp_bench::soak::{self, Kind};

fn server() -> Server {
    Server::clientmcp("clientmcp", PathBuf::from(env!("CARGO_BIN_EXE_clientmcp")))
}

#[test]
fn five_thousand_calls_of_every_kind_are_each_answered_once() {
    let mut plan = soak::Plan::new(Duration::from_secs(60));
    plan.calls = 5000;
    plan.work = Duration::from_secs(5);
    plan.judges_memory = false;
    plan.habits.apps = 6;
    plan.habits.slow_apps = 2;
    plan.habits.agents = 36;
    plan.habits.listeners = 12;
    // Slow enough that there is time for much to happen between them.
    plan.habits.pace = Some(Duration::from_millis(60));
    plan.habits.mischief = Duration::from_millis(600);
    // What waits is rare in a long run.
    for (_, share) in &mut plan.habits.mix {
        *share = (*share).max(5);
    }
    let outcome = soak::run(&plan, &server(), &mut |line| println!("{line}"));
    let outcome = outcome.unwrap_or_else(|broken| panic!("{broken}"));
    println!("{}", outcome.markdown());
    assert!(outcome.tally.calls() >= 5000, "it ended after {} calls", outcome.tally.calls());
    let missing = Kind::ALL.iter().find(|kind| !outcome.tally.made.contains_key(kind));
    assert_eq!(missing, None, "no such call was made");
}

#[test]
fn an_attacker_gets_refusals_and_fails_no_call() {
    let mut plan = attack::Plan::new(Duration::from_secs(12));
    plan.parts = vec![Part::Shared];
    plan.p99_max = None;
    plan.agents = 20;
    plan.rates.malformed = 100.0;
    plan.rates.bad_tokens = 200.0;
    plan.rates.bad_clients = 5.0;
    plan.rates.oversized = 20.0;
    plan.rates.deep = 5.0;
    plan.rates.slow = 100;
    plan.rates.flooding_clients = 1;
    let mut server = server();
    server.set("--body-timeout", "10");
    let outcomes = attack::run(&plan, &server, &mut |line| println!("{line}"));
    let outcomes = outcomes.unwrap_or_else(|broken| panic!("{broken}"));
    println!("{}", attack::markdown(&plan, &outcomes));
    assert_eq!(attack::missed(&plan, &outcomes), Vec::<String>::new());
}
