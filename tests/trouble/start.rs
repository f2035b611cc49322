//! Starting, or not (SPEC §6): exit codes, and sentences that name what to change.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::Bridge;

/// Runs to the end, which must come soon.
fn run(command: &mut Command) -> Output {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the bridge's binary starts");
    let deadline = Instant::now() + Duration::from_secs(5);
    while child.try_wait().expect("waiting for a child works").is_none() {
        if Instant::now() > deadline {
            drop(child.kill());
            let output = child.wait_with_output().expect("it was killed");
            panic!("still runs after 5 s: {output:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("it has ended")
}

fn serve(env: &[(&str, &str)], flags: &[&str]) -> (Option<i32>, String) {
    let mut command = Bridge::command(env);
    command.arg("serve").args(flags);
    let output = run(&mut command);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// One sentence that says why and contains one of `names`; the log may have said something before.
fn could_not_run(env: &[(&str, &str)], flags: &[&str], names: &[&str]) {
    let (code, said) = serve(env, flags);
    assert_eq!(code, Some(1), "{flags:?}: {said}");
    let (log, rest): (Vec<&str>, Vec<&str>) = said
        .lines()
        .filter(|line| !line.trim().is_empty())
        .partition(|line| line.contains(" INFO ") || line.contains(" WARN "));
    assert_eq!(rest.len(), 1, "{flags:?}: one sentence besides {log:?}: {said}");
    let named = names.iter().any(|name| rest[0].contains(name));
    assert!(named, "{flags:?}: names one of {names:?}: {said}");
    assert!(!said.contains("panicked"), "{flags:?}: {said}");
}

#[test]
fn what_keeps_it_from_running_is_one_sentence_and_exit_1() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("a bound address").to_string();
    could_not_run(&[], &["--listen", &address], &["--listen", "CLIENTMCP_LISTEN"]);
    could_not_run(&[("CLIENTMCP_LISTEN", &address)], &[], &["--listen", "CLIENTMCP_LISTEN"]);
    // An address that is not this machine's (RFC 5737).
    could_not_run(&[], &["--listen", "192.0.2.1:0"], &["--listen", "CLIENTMCP_LISTEN"]);

    let listen = ["--listen", "127.0.0.1:0"];
    let short = "only-31-bytes-only-31-bytes-31-";
    could_not_run(&[("CLIENTMCP_SECRET", short)], &listen, &["CLIENTMCP_SECRET"]);
    let one_short = format!("{} {short}", crate::support::SECRET);
    could_not_run(&[("CLIENTMCP_SECRET", &one_short)], &listen, &["CLIENTMCP_SECRET"]);
    could_not_run(&[("CLIENTMCP_SECRET", "")], &listen, &["CLIENTMCP_SECRET"]);
    let missing = ["--listen", "127.0.0.1:0", "--secret-file", "/no/such/file"];
    could_not_run(
        &[("CLIENTMCP_SECRET", "")],
        &missing,
        &["--secret-file", "CLIENTMCP_SECRET_FILE"],
    );
    could_not_run(
        &[],
        &["--listen", "127.0.0.1:0", "--metrics", &address],
        &["--metrics", "CLIENTMCP_METRICS"],
    );
}

#[test]
fn a_refused_secret_is_not_repeated() {
    let short = "hush-hush-hush";
    let (code, said) = serve(&[("CLIENTMCP_SECRET", short)], &["--listen", "127.0.0.1:0"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(!said.contains(short), "{said}");
    assert!(said.contains("32"), "says how long it must be: {said}");
}

#[test]
fn a_secret_of_32_bytes_is_long_enough_and_several_may_be_given() {
    let long = "x".repeat(32);
    for secrets in [long.clone(), format!("{long},{}\n{}", "y".repeat(32), "z".repeat(40))] {
        let bridge = Bridge::start_with(&[("CLIENTMCP_SECRET", &secrets)], &[]);
        bridge.assert_well("a start");
        for secret in secrets.split([',', '\n']) {
            let token = crate::support::Token::of("someone", "agent").secret(secret).mint();
            let desk = crate::extra::Desk::on(&bridge);
            let answer = desk.send(&crate::extra::Ask::old("1", "ping", "{}").bearer(&token));
            assert_eq!(answer.status, 200, "{secret}: {answer}");
        }
    }
}

#[test]
fn bad_usage_is_exit_2() {
    for arguments in [
        &[][..],
        &["serve", "--no-such-flag"],
        &["serve", "--listen"],
        &["serve", "stray"],
        &["no-such-command"],
        &["serve", "--call-timeout", "soon"],
        &["serve", "--call-timeout", "-1"],
        &["serve", "--max-calls", "many"],
        &["serve", "--max-calls", "1.5"],
        &["serve", "--log-format", "xml"],
        &["serve", "--listen", "nonsense"],
    ] {
        let output = run(Bridge::command(&[]).args(arguments));
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(!said.trim().is_empty(), "{arguments:?}: says something");
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
    }
}

#[test]
fn a_bare_command_prints_the_help() {
    let output = run(&mut Bridge::command(&[]));
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for command in ["serve", "token", "secret"] {
        assert!(said.contains(command), "{command} is in the help: {said}");
    }
}

#[test]
fn version_is_exit_0_and_says_it() {
    let output = run(Bridge::command(&[]).arg("--version"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(said.contains(env!("CARGO_PKG_VERSION")), "{said}");
}

#[test]
fn flags_take_both_spellings_and_have_variables() {
    for (env, flags) in [
        (&[][..], &["--max-streams=1"][..]),
        (&[], &["--max-streams", "1"]),
        (&[("CLIENTMCP_MAX_STREAMS", "1")], &[]),
        // What is said on the command line wins.
        (&[("CLIENTMCP_MAX_STREAMS", "9")], &["--max-streams", "1"]),
    ] {
        let bridge = Bridge::start_with(env, flags);
        let desk = crate::extra::Desk::on(&bridge);
        let _first = desk.listens(&crate::extra::Ask::get());
        let answer = desk.send(&crate::extra::Ask::get().header("Accept", "*/*"));
        assert_eq!(answer.status, 429, "{env:?} {flags:?}: {answer}");
    }
}
