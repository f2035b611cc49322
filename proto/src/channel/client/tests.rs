//! A client's decisions, without a socket and with a clock moved by hand.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use data_encoding::BASE64URL_NOPAD;

use super::*;
use crate::limits::*;
use crate::time::{Instant, UnixSeconds};

const START: Instant = Instant(1_000_000);
const WALL: UnixSeconds = UnixSeconds(1_800_000_000);

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn online() -> Line {
    let mut line = Line::new(START, WALL, None);
    line.registered(START, PING_INTERVAL);
    line
}

#[test]
fn every_message_of_a_bridge_is_read() {
    for (text, message) in [
        (
            r#"{"type":"registered","clientId":"a","pingIntervalMs":5000,"refused":[ {} ]}"#,
            Message::Registered { refused: "[ {} ]", ping_every: seconds(5) },
        ),
        (
            r#"{"type":"registered","pingIntervalMs":0}"#,
            Message::Registered { refused: "[]", ping_every: PING_INTERVAL },
        ),
        (
            r#"{"type":"call","id":"c\u0031","method":"tools/call","params":{"name": 1},"agent":{}}"#,
            Message::Call {
                id: "c1".into(),
                method: "tools/call".into(),
                params: r#"{"name": 1}"#,
                agent: "{}",
            },
        ),
        (
            r#"{"type":"cancel","id":"c1","reason":"r"}"#,
            Message::Cancel { id: "c1".into(), reason: "r".into() },
        ),
        (
            r#"{"type":"fault","code":4400,"message":"m","path":"tools[0]"}"#,
            Message::Fault { code: 4400, message: "m".into(), path: Some("tools[0]".into()) },
        ),
        (crate::channel::PONG, Message::Pong),
        (r#"{"type":"later"}"#, Message::Unknown),
    ] {
        assert_eq!(read(text), Some(message), "{text}");
    }
    for text in ["", "[]", "{}", r#"{"type":1}"#, r#"{"type":"call"}"#, r#"{"type":"pong"} x"#] {
        assert_eq!(read(text), None, "{text}");
    }
}

#[test]
fn what_a_client_writes_is_what_a_bridge_reads() {
    let register = Register {
        server: Some(r#"{"name":"a","version":"1"}"#.into()),
        instructions: Some("say \"please\"".into()),
        tools: Some(vec![r#"{"name":"t"}"#.into(), "2".into()]),
        prompts: Some(Vec::new()),
        resources: None,
        resource_templates: Some(vec!["{}".into()]),
        completions: true,
        subscribe: true,
    };
    assert_eq!(
        register.text(),
        r#"{"type":"register","server":{"name":"a","version":"1"},"instructions":"say \"please\"","tools":[{"name":"t"},2],"prompts":[],"resourceTemplates":[{}],"completions":true,"subscribe":true}"#
    );
    assert_eq!(Register::default().text(), r#"{"type":"register"}"#);
    for text in [
        register.text(),
        auth("a.b.c"),
        result("c1", r#"{"content":[]}"#),
        error("c1", -32602, "no\n"),
        raw_error("c1", r#"{"code":1,"message":"","data":[1]}"#),
        notify(Some("c1"), "notifications/progress", r#"{"progress":1}"#).expect("small"),
        notify(None, "notifications/resources/updated", r#"{"uri":"a:b"}"#).expect("small"),
    ] {
        assert!(crate::reply::read(&text).is_ok(), "{text}");
    }
}

#[test]
fn an_answer_over_the_limit_becomes_one_that_says_so() {
    let empty = result("c1", r#"{"a":""}"#).len();
    for (length, fits) in
        [(MESSAGE_BYTES_MAX - 1, true), (MESSAGE_BYTES_MAX, true), (MESSAGE_BYTES_MAX + 1, false)]
    {
        let filler = "x".repeat(length - empty);
        let text = result("c1", &format!(r#"{{"a":"{filler}"}}"#));
        assert_eq!(text.len() == length, fits, "{length}");
        assert_eq!(text.contains("too large"), !fits, "{length}");
    }
    let long = format!(r#"{{"code":1,"message":"{}"}}"#, "x".repeat(MESSAGE_BYTES_MAX));
    assert!(raw_error("c1", &long).contains("too large"));
    assert_eq!(notify(None, "m", &long), None);
}

#[test]
fn every_close_has_one_meaning() {
    for (code, ending) in [
        (None, Ending::Again),
        (Some(1001), Ending::Again),
        (Some(1006), Ending::Again),
        (Some(1009), Ending::Never),
        (Some(4400), Ending::Never),
        (Some(4401), Ending::WithFreshToken),
        (Some(4403), Ending::Never),
        (Some(4408), Ending::Again),
        (Some(4409), Ending::Never),
        (Some(4429), Ending::Again),
        (Some(4999), Ending::Again),
    ] {
        assert_eq!(after_close(code), ending, "{code:?}");
    }
}

#[test]
fn waits_grow_to_half_a_minute_and_no_further() {
    let mut backoff = Backoff::default();
    let ceilings: Vec<u128> = (0..40).map(|_| backoff.wait(None, u64::MAX).as_millis()).collect();
    assert_eq!(ceilings[..8], [499, 999, 1999, 3999, 7999, 15999, 29999, 29999]);
    assert_eq!(ceilings[39], 29999);
    let mut backoff = Backoff::default();
    assert!((0..40).all(|_| backoff.wait(None, 0).is_zero()), "full jitter begins at zero");
}

#[test]
fn only_five_seconds_online_begin_the_waits_anew() {
    for (online, next) in [
        (None, 7999),
        (Some(ONLINE_RESET - Duration::from_millis(1)), 7999),
        (Some(ONLINE_RESET), 499),
        (Some(seconds(3600)), 499),
    ] {
        let mut backoff = Backoff::default();
        for _ in 0..4 {
            backoff.wait(None, 1);
        }
        assert_eq!(backoff.wait(online, u64::MAX).as_millis(), next, "{online:?}");
    }
}

#[test]
fn a_day_of_failures_is_no_hammering() {
    // A linear congruential generator: uniform enough, and the same in every run.
    let mut random = 1_u64;
    let (mut backoff, mut time, mut attempts) = (Backoff::default(), Duration::ZERO, 0);
    while time < seconds(24 * 3600) {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        time += backoff.wait(None, random);
        attempts += 1;
    }
    // Fifteen seconds on the average.
    assert!((5000..6600).contains(&attempts), "{attempts}");
}

#[test]
fn a_ping_goes_out_in_each_interval_and_an_answer_is_awaited() {
    let mut line = online();
    let due = START + PING_INTERVAL;
    assert_eq!(line.deadline(), due);
    assert_eq!(line.tick(Instant(due.0 - 1)), None);
    assert_eq!(line.tick(due), Some(Tick::Ping));
    assert_eq!(line.tick(due), None);
    assert_eq!(line.deadline(), due + PONG_TIMEOUT);
    line.heard(due + seconds(1));
    assert_eq!(line.tick(due + PONG_TIMEOUT), None);
    assert_eq!(line.deadline(), due + PING_INTERVAL);
    assert_eq!(line.tick(due + PING_INTERVAL), Some(Tick::Ping));
    let late = due + PING_INTERVAL + PONG_TIMEOUT;
    assert_eq!(line.tick(Instant(late.0 - 1)), None);
    assert_eq!(line.tick(late), Some(Tick::Lost("the bridge is silent")));
}

#[test]
fn the_bridge_says_how_often_it_wants_a_ping() {
    let mut line = Line::new(START, WALL, None);
    line.registered(START + seconds(1), seconds(2));
    assert_eq!(line.deadline(), START + seconds(3));
    assert_eq!(line.tick(START + seconds(3)), Some(Tick::Ping));
    line.heard(START + seconds(3));
    assert_eq!(line.deadline(), START + seconds(5));
}

#[test]
fn after_a_sleep_of_the_machine_one_ping_finds_out() {
    let mut line = online();
    let woken = START + seconds(8 * 3600);
    assert_eq!(line.tick(woken), Some(Tick::Ping));
    assert_eq!(line.tick(woken), None);
    assert_eq!(line.deadline(), woken + PONG_TIMEOUT);
}

#[test]
fn a_register_without_an_answer_loses_the_line() {
    let mut line = Line::new(START, WALL, None);
    assert_eq!(line.deadline(), START + REGISTER_TIMEOUT);
    // Pongs are no answer to a register.
    line.heard(START + seconds(9));
    assert_eq!(line.online(START + seconds(9)), None);
    let lost = Tick::Lost("the bridge did not answer the register");
    assert_eq!(line.tick(START + REGISTER_TIMEOUT), Some(lost));
    let mut line = Line::new(START, WALL, None);
    line.registered(START + seconds(9), PING_INTERVAL);
    assert_eq!(line.tick(START + REGISTER_TIMEOUT), None);
    // A later register does not begin the time online anew.
    line.registered(START + seconds(12), PING_INTERVAL);
    assert_eq!(line.online(START + seconds(14)), Some(seconds(5)));
}

#[test]
fn a_token_is_renewed_before_it_ends() {
    for (left, after) in
        [(24 * 3600, 24 * 3600 - 300), (3600, 3300), (100, 80), (10, 8), (1, 1), (0, 1)]
    {
        let mut line = Line::new(START, WALL, Some(UnixSeconds(WALL.0 + left)));
        line.registered(START, seconds(24 * 3600));
        // Pings are not what this is about.
        let mut now;
        let renews = loop {
            now = line.deadline();
            line.heard(now);
            match line.tick(now) {
                Some(Tick::Renew) => break now,
                Some(Tick::Ping) | None => line.heard(now),
                Some(Tick::Lost(why)) => panic!("{why}"),
            }
        };
        assert_eq!(renews - START, seconds(after), "{left} s left");
        assert_eq!(line.tick(now), None, "asked once");
        line.renewed(now, UnixSeconds(WALL.0 + after), Some(UnixSeconds(WALL.0 + after + 3600)));
        let next = line.deadline();
        assert!(next > now);
    }
}

#[test]
fn a_wall_clock_that_is_wrong_moves_a_renewal_and_nothing_else() {
    let ends = UnixSeconds(1_800_000_000);
    // What the wall clock said when the token was shown, and when it is renewed.
    for (wall, renewal) in [
        (1_800_000_000 - 1000, Some(800_000)),
        (1_800_000_000, Some(1_000)),
        (u64::MAX, Some(1_000)),
        // A machine without a clock of its own thinks that it is 1970: not in this connection's life.
        (0, None),
    ] {
        let mut line = Line::new(Instant(0), UnixSeconds(wall), Some(ends));
        line.registered(Instant(0), Duration::from_secs(3600));
        let mut asked = None;
        let mut pings = Vec::new();
        for ms in (0..=1_000_000).step_by(500) {
            line.heard(Instant(ms));
            while let Some(tick) = line.tick(Instant(ms)) {
                match tick {
                    Tick::Ping => pings.push(ms),
                    Tick::Renew => asked = asked.or(Some(ms)),
                    Tick::Lost(why) => panic!("{why} at {ms}, wall {wall}"),
                }
            }
        }
        assert_eq!(asked, renewal, "wall {wall}");
        assert_eq!(pings, [30_000], "wall {wall}");
    }
}

#[test]
fn a_source_without_a_fresh_token_is_asked_again_but_not_hammered() {
    let mut line = Line::new(START, WALL, Some(UnixSeconds(WALL.0 + 1000)));
    line.registered(START, PING_INTERVAL);
    let (mut now, mut asked) = (START, Vec::new());
    while now < START + seconds(1060) {
        now = line.deadline();
        line.heard(now);
        if line.tick(now) == Some(Tick::Renew) {
            asked.push((now - START).as_secs());
            line.not_renewed(now);
        }
        line.heard(now);
    }
    assert_eq!(asked[..3], [800, 830, 860]);
    assert!(asked.windows(2).all(|pair| pair[1] > pair[0]), "{asked:?}");
    assert!(asked.len() < 100, "{asked:?}");
    assert!(asked.iter().any(|at| (990..1000).contains(at)), "{asked:?}");
}

#[test]
fn a_tokens_end_is_read_without_its_secret() {
    let token = |claims: &str| {
        let mut token = String::from("e30.");
        token.push_str(&BASE64URL_NOPAD.encode(claims.as_bytes()));
        token.push_str(".sig");
        token
    };
    for (claims, ends) in [
        (r#"{"exp":1800000000}"#, Some(1_800_000_000)),
        (r#"{"exp":1800000000.9}"#, Some(1_800_000_000)),
        (r#"{"exp":-1}"#, None),
        (r#"{"exp":"1"}"#, None),
        (r#"{}"#, None),
        (r#"[]"#, None),
        ("", None),
    ] {
        assert_eq!(token_ends_at(&token(claims)), ends.map(UnixSeconds), "{claims}");
    }
    for text in ["", ".", "a", "a.!.c", "no token"] {
        assert_eq!(token_ends_at(text), None, "{text}");
    }
}
