//! No file descriptor left: accepting pauses, who is there goes on, and it ends by itself.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::extra::{ADD, Desk, register};
use crate::support::{Agent, Bridge, Http, Request, SOON};

/// A bridge that may have so many files open.
fn with_files(files: usize, flags: &[&str]) -> Bridge {
    let plain = Bridge::command(&[]);
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &format!(r#"ulimit -n {files} && exec "$0" "$@""#)]);
    command.arg(plain.get_program()).args(["serve", "--listen", "127.0.0.1:0"]).args(flags);
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Bridge::spawn({
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    })
}

#[test]
fn out_of_files_accepting_pauses_and_who_is_there_notices_nothing() {
    let bridge = with_files(64, &["--head-timeout", "60", "--log-level", "debug"]);
    for flag in ["--max-connections", "--max-clients"] {
        bridge.await_log(&format!("{flag} lowered to what the file limit"), SOON);
    }
    let desk = Desk::on(&bridge);
    let mut client = desk.client(&register(&[ADD]));
    let agent = Agent::new(&bridge, &desk.id);
    let mut there = Http::connect(bridge.addr);
    let mut calls = |client: &mut crate::extra::Client| {
        let ask = agent.legacy_request("tools/call", json!({"name": "add", "arguments": {}}));
        there.send(ask.bytes());
        let call = client.call();
        client.answers(&call.id, r#"{"content":[]}"#);
        assert_eq!(there.read_response().status, 200);
    };
    calls(&mut client);
    let before = bridge.open_files();

    let crowd: Vec<Http> = (0..200).map(|_| Http::connect(bridge.addr)).collect();
    bridge.await_log("cannot accept a connection, accepting pauses", SOON);
    assert!(bridge.open_files() >= 60, "{} files of 64", bridge.open_files());
    let busy = bridge.cpu_time();
    for _ in 0..10 {
        calls(&mut client);
        std::thread::sleep(Duration::from_millis(100));
    }
    client.is_alive();
    let busy = bridge.cpu_time() - busy;
    assert!(busy < Duration::from_millis(500), "it waits, and does not spin: {busy:?} in a second");

    drop(crowd);
    crate::support::eventually("it accepts again", SOON, || {
        (Request::get("/health").to(&bridge).status == 200).then_some(())
    });
    crate::support::eventually("no file is lost", SOON, || {
        (bridge.open_files() <= before).then_some(())
    });
    calls(&mut client);
    let other = desk.another();
    other.client(&register(&[ADD])).leaves();
    let lines = bridge.log_lines();
    let pauses = lines.iter().filter(|line| line.contains("accepting pauses")).count();
    assert_eq!(pauses, 1, "one line however often it paused: {lines:#?}");
}
