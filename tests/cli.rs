//! The commands as a shell sees them: what they print, where, and the exit code. Nothing here
//! serves.

use std::collections::HashSet;
use std::process::{Command, Stdio};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

struct Ran {
    code: i32,
    out: String,
    err: String,
}

/// Runs the program with these arguments and, of our variables, only these.
fn run(args: &[&str], variables: &[(&str, &str)]) -> Ran {
    let output = command(args, variables).output().expect("the program runs");
    Ran {
        code: output.status.code().expect("it exits"),
        out: String::from_utf8(output.stdout).expect("UTF-8"),
        err: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

fn command(args: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_clientmcp"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CLIENTMCP_")) {
        command.env_remove(name);
    }
    command.args(args).envs(variables.iter().copied()).stdin(Stdio::null());
    command
}

/// A token's flags without the secret.
const TOKEN: [&str; 5] = ["token", "--client-id", "kitchen", "--scope", "both"];

#[test]
fn the_version_is_that_of_the_package() {
    let ran = run(&["--version"], &[]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(ran.out, concat!("clientmcp ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn a_bare_call_prints_the_help_and_is_bad_usage() {
    let (bare, help) = (run(&[], &[]), run(&["--help"], &[]));
    assert_eq!((bare.code, bare.out.as_str()), (2, ""));
    assert_eq!((help.code, help.err.as_str()), (0, ""));
    assert_eq!(bare.err, help.out);
    for word in ["serve", "token", "secret", "--version"] {
        assert!(help.out.contains(word), "{}", help.out);
    }
}

#[test]
fn help_is_for_every_command_and_shows_no_secret() {
    for args in [&["serve", "--help"][..], &["token", "--help"], &["secret", "-h"], &["help"]] {
        let ran = run(args, &[("CLIENTMCP_SECRET", SECRET), ("CLIENTMCP_SECRET_FILE", SECRET)]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
        assert!(ran.out.starts_with("Usage: clientmcp"), "{}", ran.out);
        assert!(!ran.out.contains(SECRET), "{args:?}");
    }
}

#[test]
fn bad_usage_exits_2_with_one_sentence_that_names_the_flag() {
    for (args, name) in [
        (&["serve", "--no-such"][..], "--no-such"),
        (&["serve", "--no-such=value"], "--no-such"),
        (&["serve", "--listen"], "--listen"),
        (&["serve", "--listen", "nowhere"], "--listen"),
        (&["serve", "--listen=nowhere"], "--listen"),
        (&["serve", "--call-timeout=-1"], "--call-timeout"),
        (&["serve", "--call-timeout", "1", "--call-timeout", "2"], "--call-timeout"),
        (&["serve", "--max-headers", "129"], "--max-headers"),
        (&["serve", "--dev=1"], "--dev"),
        (&["serve", "--dev", "--listen", "0.0.0.0:0"], "--listen"),
        (&["serve", "--secret", SECRET], "--secret"),
        (&["token", "--scope", "both"], "--client-id"),
        (&["token", "--client-id", "a"], "--scope"),
        (&["token", "--client-id", "a b", "--scope", "both"], "--client-id"),
        (&["secret", "--ttl", "1h"], "--ttl"),
        (&["no-such-command"], "no-such-command"),
    ] {
        let ran = run(args, &[("CLIENTMCP_SECRET", SECRET)]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?} {}", ran.err);
        assert!(ran.err.starts_with("clientmcp: ") && ran.err.contains(name), "{}", ran.err);
        assert_eq!(ran.err.matches('\n').count(), 1, "{}", ran.err);
        assert!(!ran.err.contains(SECRET), "{}", ran.err);
    }
}

#[test]
fn a_bad_variable_is_named() {
    for (name, value) in [
        ("CLIENTMCP_LISTEN", "127.0.0.1:1, nowhere"),
        ("CLIENTMCP_CALL_TIMEOUT", "soon"),
        ("CLIENTMCP_DEV", "maybe"),
        ("CLIENTMCP_LOG_FORMAT", "xml"),
    ] {
        let ran = run(&["serve"], &[("CLIENTMCP_SECRET", SECRET), (name, value)]);
        assert_eq!(ran.code, 2, "{name}");
        assert!(ran.err.starts_with(&format!("clientmcp: {name} must be ")), "{}", ran.err);
    }
}

#[cfg(unix)]
#[test]
fn what_is_not_utf_8_is_named_and_not_shown() {
    use std::os::unix::ffi::OsStrExt as _;
    let bad = std::ffi::OsStr::from_bytes(b"\xffhidden");
    let by_argument = command(&["serve", "--audience"], &[]).arg(bad).output();
    let by_variable = command(&["serve"], &[]).env("CLIENTMCP_SECRET", bad).output();
    for (output, name) in [(by_argument, "argument 3"), (by_variable, "CLIENTMCP_SECRET")] {
        let output = output.expect("the program runs");
        assert_eq!(output.status.code(), Some(2));
        let err = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(err.contains(name) && !err.contains("hidden"), "{err}");
    }
}

#[test]
fn without_a_usable_secret_nothing_starts() {
    let short = &SECRET[1..];
    for command in [&["serve"][..], &TOKEN] {
        for (variables, name) in [
            (&[][..], "CLIENTMCP_SECRET"),
            (&[("CLIENTMCP_SECRET_FILE", "/no/such")], "CLIENTMCP_SECRET_FILE"),
            (&[("CLIENTMCP_SECRET", short)], "CLIENTMCP_SECRET"),
        ] {
            if command == ["serve"] && !variables.is_empty() {
                continue; // loading is part of serving
            }
            let ran = run(command, variables);
            assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{variables:?}");
            assert!(ran.err.contains(name), "{}", ran.err);
            assert!(!ran.err.contains(short), "{}", ran.err);
        }
    }
}

#[test]
fn what_was_put_in_the_wrong_place_is_not_shown() {
    let secret = run(&["secret"], &[]).out.trim_end().to_owned();
    let token = run(&TOKEN, &[("CLIENTMCP_SECRET", &secret)]).out.trim_end().to_owned();
    let (token, secret) = (token.as_str(), secret.as_str());
    let (with_token, with_secret) = (format!("--token={token}"), format!("--secret={secret}"));
    let url = ["connect", "--url", "ws://127.0.0.1:1"];
    let connect = |more: &[&str]| run(&[&url[..], more, &["--", "cat"]].concat(), &[]);
    let mut ran = vec![
        ("no file's name but a secret", run(&["serve", "--secret-file", secret], &[])),
        ("in the variable", run(&["serve"], &[("CLIENTMCP_SECRET_FILE", secret)])),
        ("of token", run(&[&TOKEN[..], &["--secret-file", secret]].concat(), &[])),
        ("a flag that is not there", run(&["serve", &with_secret], &[])),
        ("and its value behind it", run(&["serve", "--secret", secret], &[])),
        ("a word too many", run(&["serve", secret], &[])),
        ("a command", run(&[secret], &[])),
        ("both variables", {
            let both = [("CLIENTMCP_SECRET", secret), ("CLIENTMCP_SECRET_FILE", secret)];
            run(&["serve"], &both)
        }),
    ];
    if cfg!(feature = "connect") {
        ran.extend([
            ("no file's name but a token", connect(&["--token-file", token])),
            ("a flag that is not there", connect(&[&with_token])),
            ("and its value behind it", connect(&["--token", token])),
            ("no URL", run(&["connect", "--url", token, "--token-file", "x", "--", "cat"], &[])),
            ("help", run(&["connect", "--help"], &[("CLIENTMCP_TOKEN", token)])),
            ("no URL in a variable", {
                let variables = [("CLIENTMCP_TOKEN", token), ("CLIENTMCP_URL", token)];
                run(&["connect", "--", "cat"], &variables)
            }),
        ]);
    }
    for (name, ran) in ran {
        assert!(name == "help" || ran.code != 0, "{name}: {}", ran.out);
        let (said, head) = (ran.out + &ran.err, &token[..30]);
        assert!(!said.contains(secret) && !said.contains(head), "{name}: {said}");
    }
}

#[test]
fn the_token_stands_alone_on_stdout() {
    let ran = run(&TOKEN, &[("CLIENTMCP_SECRET", SECRET)]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let token = ran.out.strip_suffix('\n').expect("one line");
    let parts: Vec<&str> = token.split('.').collect();
    assert_eq!(parts.len(), 3, "{token}");
    assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)), "{token}");
}

#[test]
fn a_token_can_be_described_by_variables_alone() {
    let variables = [
        ("CLIENTMCP_SECRET", SECRET),
        ("CLIENTMCP_CLIENT_ID", "kitchen"),
        ("CLIENTMCP_SCOPE", "agent"),
        ("CLIENTMCP_TTL", "7d"),
        ("CLIENTMCP_TOOLS", "read_* list_*"),
        ("CLIENTMCP_AUDIENCE", "here"),
    ];
    let ran = run(&["token"], &variables);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let plain = run(&["token"], &variables[..3]);
    assert!(ran.out.len() > plain.out.len() + 40, "the tools and the audience are in it");
    for (name, _) in &variables[1..5] {
        let bad: Vec<_> =
            variables.iter().map(|(n, v)| (*n, if n == name { "," } else { v })).collect();
        let ran = run(&["token"], &bad);
        // A list of nothing limits nothing; every other variable has no such value.
        let code = if *name == "CLIENTMCP_TOOLS" { 0 } else { 2 };
        assert_eq!(ran.code, code, "{name} {}", ran.err);
        assert!(code == 0 || ran.err.contains(name), "{}", ran.err);
    }
}

#[test]
fn a_long_token_warns_and_a_longer_one_is_refused() {
    let with = |length| {
        let tools = "x".repeat(length);
        run(&[&TOKEN[..], &["--tools", &tools]].concat(), &[("CLIENTMCP_SECRET", SECRET)])
    };
    let (short, long, longer) = (with(100), with(2000), with(4000));
    assert_eq!((short.code, short.err.as_str()), (0, ""));
    assert_eq!((long.code, long.out.lines().count()), (0, 1));
    assert!(long.err.contains("2048"), "{}", long.err);
    assert_eq!((longer.code, longer.out.as_str()), (1, ""));
    assert!(longer.err.contains("--tools") && longer.err.contains("4096"), "{}", longer.err);
}

#[test]
fn secrets_are_fresh_and_sign_tokens() {
    let mut seen = HashSet::new();
    for _ in 0..3 {
        let ran = run(&["secret"], &[]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        let secret = ran.out.trim_end().to_owned();
        assert_eq!(secret.len(), 43);
        assert_eq!(run(&TOKEN, &[("CLIENTMCP_SECRET", &secret)]).code, 0);
        assert!(seen.insert(secret));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_that_takes_nothing_is_no_success_and_no_panic() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let output = command(&["secret"], &[]).stdout(full()).output().expect("the program runs");
    assert_eq!(output.status.code(), Some(1));
    let err = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(err.contains("stdout") && !err.contains("panicked"), "{err}");
    let status = command(&["serve", "--no-such"], &[]).stderr(full()).status();
    assert_eq!(status.expect("the program runs").code(), Some(2));
}
