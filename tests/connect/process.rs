//! The program itself: how it starts, what it says, how it ends.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::connected::{Connected, by_hand};
use crate::support::{Agent, Bridge, SECRET, SOON, Token, eventually, token, unique};

#[test]
fn it_stops_in_order_and_its_server_with_it() {
    let bridge = Bridge::shared();
    for signal in [Signal::TERM, Signal::INT] {
        let mut connected = Connected::online(bridge, &by_hand(&[]));
        connected.signal(signal);
        assert_eq!(connected.wait_exit(SOON).code(), Some(0), "{}", connected.log());
        assert!(connected.log().contains("stdin is closed"), "{}", connected.log());
        let agent = Agent::new(bridge, &connected.client_id);
        let words = agent.call("echo", json!({"text": "x"})).tool_error();
        assert!(words.contains("not connected"), "{words}");
    }
}

/// Whether the deaf server that said its process ID is still there.
fn is_there(connected: &Connected) -> bool {
    let log = connected.log();
    let (_, pid) = log.split_once("deaf with PID ").expect("it says so at its start");
    let digits: String = pid.chars().take_while(char::is_ascii_digit).collect();
    std::path::Path::new("/proc").join(digits).exists()
}

#[test]
fn a_server_that_does_not_end_is_ended() {
    let bridge = Bridge::shared();
    // This one ignores the end of its stdin and SIGTERM too.
    let mut connected = Connected::online(bridge, &by_hand(&["--deaf"]));
    let asked = Instant::now();
    connected.signal(Signal::TERM);
    assert_eq!(connected.wait_exit(SOON * 2).code(), Some(0));
    let took = asked.elapsed();
    assert!((Duration::from_secs(5)..Duration::from_secs(12)).contains(&took), "{took:?}");
    assert!(!is_there(&connected), "{}", connected.log());
    // Asked twice, it does not wait.
    let mut connected = Connected::online(bridge, &by_hand(&["--deaf"]));
    let asked = Instant::now();
    connected.signal(Signal::TERM);
    connected.await_log("stdin is closed");
    assert!(is_there(&connected));
    connected.signal(Signal::TERM);
    connected.wait_exit(SOON);
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    eventually("the server's end", SOON, || (!is_there(&connected)).then_some(()));
}

#[test]
fn secrets_are_neither_logged_nor_handed_on() {
    let bridge = Bridge::shared();
    let flags = ["--log-level", "debug", "--log-format", "json"];
    let connected = Connected::start(bridge, &flags, &by_hand(&[]));
    connected.await_log("\"message\":\"online\"");
    let agent = Agent::new(bridge, &connected.client_id);
    assert_eq!(agent.call("env", json!({})).text(), "[]");
    let token = std::fs::read_to_string(&connected.token_file).expect("the token file");
    let log = connected.log();
    assert!(!log.contains(SECRET) && !log.contains(&token[..20]), "{log}");
    for line in log.lines() {
        serde_json::from_str::<serde_json::Value>(line)
            .unwrap_or_else(|why| panic!("{why}: {line}"));
    }
}

#[test]
fn what_everyone_on_the_machine_can_see_has_no_secret() {
    let bridge = Bridge::shared();
    let connected = Connected::online(bridge, &by_hand(&[]));
    let token = std::fs::read_to_string(&connected.token_file).expect("the token file");
    let pid = connected.pid();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.expect("/proc shows our own child");
    let child = children.split_whitespace().next().expect("the local server is its child");
    for (name, what) in [(pid.to_string(), "cmdline"), (child.to_owned(), "cmdline")]
        .into_iter()
        .chain([(child.to_owned(), "environ")])
    {
        let path = format!("/proc/{name}/{what}");
        let text = std::fs::read(&path).expect("/proc shows our own child");
        let text = String::from_utf8_lossy(&text);
        assert!(text.len() > 10, "{path}: {text}");
        for secret in [SECRET, &token, &token[..30]] {
            assert!(!text.contains(secret), "{path} has {secret:?}: {text}");
        }
        assert!(!text.contains("CLIENTMCP_"), "{path}: {text}");
    }
}

#[test]
fn what_cannot_work_is_one_sentence_and_a_code() {
    let bridge = Bridge::shared();
    let url = format!("ws://{}", bridge.addr);
    let file = std::env::temp_dir().join(unique("token"));
    std::fs::write(&file, token("x", "client")).expect("a file");
    let file = file.to_string_lossy().into_owned();
    for (arguments, code, words) in [
        (
            vec!["--url", &url, "--token-file", &file, "--", "/no/such/program"],
            1,
            "cannot be started",
        ),
        (vec!["--url", &url, "--token-file", "/no/such/file", "--", "cat"], 1, "/no/such/file"),
        (vec!["--url", &url, "--", "cat"], 1, "no token"),
        (vec!["--url", &url, "--token-file", &file], 2, "nothing to offer"),
        (vec!["--token-file", &file, "--", "cat"], 2, "--url is missing"),
        (vec!["--url=http://a", "--token-file", &file, "--", "cat"], 2, "--url must be"),
        (vec!["--url", &url, "--token", "t", "--", "cat"], 2, "--token"),
    ] {
        let run = Bridge::command(&[]).arg("connect").args(&arguments).output().expect("it starts");
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
    }
    std::fs::remove_file(file).ok();
}

#[test]
fn a_refusal_for_good_ends_it() {
    let bridge = Bridge::shared();
    let id = unique("refused");
    let expired = Token::of(&id, "client").expires_in(-600).mint();
    let mut connected = Connected::with_token(bridge, &id, &expired, &[], &by_hand(&[]));
    assert_eq!(connected.wait_exit(SOON * 2).code(), Some(1), "{}", connected.log());
    assert!(connected.log().contains("4401"), "{}", connected.log());
    let mut older = Connected::online(bridge, &by_hand(&[]));
    let token = token(&older.client_id, "client");
    let newer = Connected::with_token(bridge, &older.client_id, &token, &[], &by_hand(&[]));
    newer.await_log(" online");
    assert_eq!(older.wait_exit(SOON * 2).code(), Some(1), "{}", older.log());
    assert!(older.log().contains("another program has connected"), "{}", older.log());
}

#[test]
fn a_replaced_token_file_renews_the_connection() {
    let bridge = Bridge::shared();
    let id = unique("renewed");
    // Refused from 60 s after its `exp`, so 63 s from now; it is renewed within 3.
    let short = Token::of(&id, "client").expires_in(3);
    let connected = Connected::with_token(bridge, &id, &short.mint(), &[], &by_hand(&[]));
    connected.await_log(" online");
    // The file is read again when the token is about to end: this makes reading it visible.
    std::fs::write(&connected.token_file, Token::of(&id, "agent").mint()).expect("a file");
    eventually("the new token to be shown, and refused for its scope", SOON, || {
        connected.log().contains("4403").then_some(())
    });
}

#[test]
fn it_comes_back_when_the_bridge_does() {
    // Not where a connection of another test could take the port meanwhile.
    let listener = std::net::TcpListener::bind("127.0.9.6:0").expect("a free port");
    let listen = listener.local_addr().expect("bound").to_string();
    drop(listener);
    let start = || {
        let mut bridge = Bridge::start(&["--listen", &listen]);
        bridge.addr = listen.parse().expect("an address");
        bridge
    };
    let first = start();
    let connected = Connected::online(&first, &by_hand(&[]));
    drop(first);
    connected.await_log("offline");
    let second = start();
    connected.await_log_times(" online", 2);
    let agent = Agent::new(&second, &connected.client_id);
    assert_eq!(agent.call("echo", json!({"text": "back"})).text(), "back");
    assert_eq!(connected.log().matches("initialized by").count(), 1, "the server noticed nothing");
}

#[test]
fn a_stopped_one_is_taken_for_gone_after_90_seconds_and_comes_back() {
    let bridge = Bridge::start(&[]);
    let connected = Connected::online(&bridge, &by_hand(&[]));
    connected.signal(Signal::STOP);
    let stopped = Instant::now();
    bridge.await_log("nothing was heard for 90 s", Duration::from_secs(100));
    assert!(stopped.elapsed() > Duration::from_secs(85), "{:?}", stopped.elapsed());
    let agent = Agent::new(&bridge, &connected.client_id);
    let words = agent.call("echo", json!({"text": "asleep"})).tool_error();
    assert!(words.contains("not connected"), "{words}");
    connected.signal(Signal::CONT);
    connected.await_log_times(" online", 2);
    assert_eq!(agent.call("echo", json!({"text": "back"})).text(), "back");
}

#[cfg(feature = "tls")]
#[test]
fn certificates_are_those_of_the_file_that_is_named() {
    let url = format!("wss://{}", Bridge::shared().addr);
    let connected = Connected::at(&url, "x", "t", &["--ca-file", "/dev/null"], &by_hand(&[]));
    connected.await_log("certificates in /dev/null: there are none");
}
