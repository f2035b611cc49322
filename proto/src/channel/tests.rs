//! Whole conversations with a client, in microseconds, with a pretend clock; and both ends held
//! against each other.

use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use super::*;
use crate::limits::{MESSAGE_BYTES_MAX, REGISTER_TIMEOUT};
use crate::reply;
use crate::time::{Instant, UnixSeconds};

/// What the wall clock says when the monotonic one says 0.
const EPOCH: u64 = 1_800_000_000;

/// A channel between two clocks; each call goes back to a number.
struct Story {
    channel: Channel<u32>,
    /// Milliseconds since the handshake, on a clock that did not start with it.
    ms: u64,
}

impl Story {
    /// A handshake just now, with a token that ends in so many seconds.
    fn begins(token_secs: u64) -> Story {
        let channel = Channel::new(Instant(5_000), UnixSeconds(EPOCH + token_secs));
        Story { channel, ms: 0 }
    }

    fn registered(token_secs: u64) -> Story {
        let mut story = Story::begins(token_secs);
        assert_eq!(story.says(r#"{"type":"register"}"#), "register");
        story.channel.joined();
        story
    }

    fn now(&self) -> Instant {
        Instant(5_000 + self.ms)
    }

    fn wall(&self) -> UnixSeconds {
        UnixSeconds(EPOCH + self.ms / 1000)
    }

    /// The client says something, as the driver hands it in; the step in one line.
    fn says(&mut self, text: &str) -> String {
        self.channel.heard(self.now());
        match self.channel.text(text) {
            Step::Nothing => "nothing".into(),
            Step::Pong => "pong".into(),
            Step::Register => "register".into(),
            Step::Renew(token) => format!("renew {token}"),
            Step::Reply { to, outcome: Outcome::Result(shape) } => {
                format!("to {to}: result {}", shape.result.of(text))
            }
            Step::Reply { to, outcome: Outcome::Error(error) } => {
                format!("to {to}: error {}", error.code)
            }
            Step::Note { to, method, .. } => format!("to {to}: {method}"),
            Step::Updated { uri } => format!("updated {uri}"),
            Step::Close(close) => format!("close {} {close}", close.code()),
        }
    }

    /// Time passes until so many milliseconds after the handshake; what the clock asks for then.
    fn at(&mut self, ms: u64) -> String {
        assert!(ms >= self.ms, "time goes forwards");
        self.ms = ms;
        match self.channel.tick(self.now(), self.wall(), REGISTER_TIMEOUT) {
            None => "nothing".into(),
            Some(Tick::Ping) => "ping".into(),
            Some(Tick::Close(close)) => format!("close {} {close}", close.code()),
        }
    }

    /// When the clock is to be looked at next, in milliseconds after the handshake.
    fn deadline(&self) -> u64 {
        self.channel.deadline(self.now(), self.wall(), REGISTER_TIMEOUT).0 - 5_000
    }

    fn left(self) -> Vec<u32> {
        self.channel.end().collect()
    }
}

const EXPIRED: &str = "close 4401 token expired";
const SILENT: &str = "close 4408 nothing was heard for 90 s";
const LATE: &str = "close 4408 no register within 10 s of the handshake";
const EARLY: &str = "close 4400 the first message must be a register";

#[test]
fn a_client_that_does_not_register_is_closed_after_10_seconds() {
    for (ms, expected) in [(0, "nothing"), (9_999, "nothing"), (10_000, LATE), (10_001, LATE)] {
        let mut story = Story::begins(3600);
        assert_eq!(story.deadline(), 10_000);
        assert_eq!(story.at(ms), expected, "{ms}");
    }
    // A ping is a sign of life, but no register.
    let mut story = Story::begins(3600);
    assert_eq!(story.at(9_000), "nothing");
    assert_eq!(story.says(PING), "pong");
    assert_eq!((story.deadline(), story.at(10_000).as_str()), (10_000, LATE));
    // A register that was not accepted does not count either; one that was does.
    let mut story = Story::begins(3600);
    assert_eq!(story.says(r#"{"type":"register"}"#), "register");
    assert!(!story.channel.is_registered());
    assert_eq!(story.deadline(), 10_000);
    story.channel.joined();
    assert!(story.channel.is_registered());
    assert_eq!((story.deadline(), story.at(10_000).as_str()), (45_000, "nothing"));
}

#[test]
fn a_silent_client_is_pinged_once_after_45_seconds_and_closed_after_90() {
    let mut story = Story::registered(3600);
    let rows = [
        (44_999, "nothing", 45_000),
        (45_000, "ping", 90_000),
        (45_001, "nothing", 90_000),
        (89_999, "nothing", 90_000),
        (90_000, SILENT, 90_000),
        (500_000, SILENT, 90_000),
    ];
    for (ms, expected, deadline) in rows {
        assert_eq!(story.at(ms), expected, "{ms}");
        assert_eq!(story.deadline(), deadline, "{ms}");
    }
}

#[test]
fn any_frame_begins_the_silence_anew() {
    let mut story = Story::registered(3600);
    assert_eq!(story.at(45_000), "ping");
    story.ms = 46_000;
    // A pong of the client is no text message: the driver only says that something was heard.
    story.channel.heard(story.now());
    assert_eq!(story.deadline(), 91_000);
    for (ms, expected) in [
        (90_000, "nothing"),
        (90_999, "nothing"),
        (91_000, "ping"),
        (135_999, "nothing"),
        (136_000, SILENT),
    ] {
        assert_eq!(story.at(ms), expected, "{ms}");
    }
    // A ping of its own every 30 s keeps a client for ever, and no ping is sent to it.
    let mut story = Story::registered(86_400);
    for turn in 1..1000 {
        assert_eq!(story.at(turn * 30_000), "nothing");
        assert_eq!(story.says(PING), "pong");
    }
}

#[test]
fn a_host_that_slept_asks_before_it_judges() {
    for woke in [45_001, 90_000, 3_000_000] {
        let mut story = Story::registered(86_400);
        assert_eq!(story.at(woke), "ping");
        assert_eq!(story.deadline(), woke + 45_000);
        assert_eq!(story.at(woke + 44_999), "nothing");
        assert_eq!(story.at(woke + 45_000), SILENT);
        // One that answers stays.
        let mut story = Story::registered(86_400);
        assert_eq!(story.at(woke), "ping");
        story.ms = woke + 44_999;
        story.channel.heard(story.now());
        assert_eq!(story.deadline(), woke + 44_999 + 45_000);
        assert_eq!(story.at(woke + 89_998), "nothing");
    }
}

#[test]
fn a_wall_clock_that_is_set_moves_the_ends_of_tokens_and_nothing_else() {
    let walls =
        [EPOCH, EPOCH + 1_000_000, 0, u64::MAX - 1, EPOCH - 1, EPOCH + 90, 1].map(UnixSeconds);
    // Silence, and a register that does not come: whatever the wall clock says, and however it jumps.
    for (registered, rows) in [
        (true, &[(44_999, None), (45_000, Some(Tick::Ping)), (89_999, None)][..]),
        (false, &[(0, None), (9_999, None)][..]),
    ] {
        for start in 0..walls.len() {
            let mut channel = Channel::<u32>::new(Instant(5_000), UnixSeconds(u64::MAX));
            if registered {
                channel.joined();
            }
            for (turn, (ms, expected)) in rows.iter().enumerate() {
                let (now, wall) = (Instant(5_000 + ms), walls[(start + turn) % walls.len()]);
                assert_eq!(
                    channel.tick(now, wall, REGISTER_TIMEOUT),
                    *expected,
                    "{ms} ms, {wall:?}"
                );
            }
            let (end, close) = match registered {
                true => (90_000, Close::Silent(90)),
                false => (10_000, Close::NoRegister(10)),
            };
            let (now, wall) = (Instant(5_000 + end), walls[start]);
            assert_eq!(channel.deadline(now, wall, REGISTER_TIMEOUT), now, "{wall:?}");
            assert_eq!(
                channel.tick(now, wall, REGISTER_TIMEOUT),
                Some(Tick::Close(close)),
                "{wall:?}"
            );
        }
    }
    // A token: by the wall clock alone, at once when that is set forward, and alive again when back.
    for ms in [0, 1, 44_999] {
        let now = Instant(5_000 + ms);
        let mut channel = Channel::<u32>::new(Instant(5_000), UnixSeconds(EPOCH + 60));
        channel.joined();
        for (wall, left) in
            [(EPOCH + 59, Some(1)), (EPOCH + 60, None), (EPOCH, Some(60)), (0, Some(EPOCH + 60))]
        {
            let expired = Tick::Close(Close::BadToken("token expired".into()));
            let expected = if left.is_none() { Some(expired) } else { None };
            assert_eq!(
                channel.tick(now, UnixSeconds(wall), REGISTER_TIMEOUT),
                expected,
                "{ms} ms, {wall}"
            );
            let token = now + Duration::from_secs(left.unwrap_or(0));
            let deadline = channel.deadline(now, UnixSeconds(wall), REGISTER_TIMEOUT);
            assert_eq!(deadline, token.min(Instant(5_000 + 45_000)), "{ms} ms, {wall}");
        }
    }
}

#[test]
fn the_deadline_of_a_token_is_its_end() {
    // The leeway is in it: `Claims::ends_at` is what the driver hands in.
    let mut story = Story::registered(20);
    assert_eq!(story.deadline(), 20_000);
    assert_eq!(story.at(19_999), "nothing");
    assert_eq!(story.at(20_000), EXPIRED);
    assert_eq!(story.deadline(), 20_000);
    // One that ended before the handshake was over, and one that ends at once.
    for secs in [0, 1] {
        let mut story = Story::registered(secs);
        assert_eq!(story.deadline(), secs * 1000);
        assert_eq!(story.at(secs * 1000), EXPIRED);
    }
    // One that never ends.
    let channel: Channel<u32> = Channel::new(Instant(0), UnixSeconds(u64::MAX));
    let wall = UnixSeconds(EPOCH);
    assert_eq!(channel.deadline(Instant(0), wall, REGISTER_TIMEOUT), Instant(10_000));
}

#[test]
fn a_token_ends_a_minute_after_its_exp_and_not_a_second_later() {
    let claims = crate::token::Claims {
        client_id: ClientId::parse("kitchen").expect("a client ID"),
        may_connect: true,
        may_call: false,
        exp: UnixSeconds(EPOCH + 30),
        tools: None,
        jti: None,
    };
    let mut channel: Channel<u32> = Channel::new(Instant(0), claims.ends_at());
    channel.joined();
    for (secs, ends) in [(29, false), (30, false), (89, false), (90, true)] {
        let now = Instant(secs * 1000);
        channel.heard(now);
        assert_eq!(
            channel.tick(now, UnixSeconds(EPOCH + secs), REGISTER_TIMEOUT).is_some(),
            ends,
            "{secs}"
        );
    }
}

#[test]
fn a_fresh_token_outlives_the_first_one() {
    let mut story = Story::registered(20);
    assert_eq!(story.at(15_000), "nothing");
    assert_eq!(story.says(r#"{"type":"auth","token":"t.o.k"}"#), "renew t.o.k");
    // Nothing changes until the driver has verified it.
    assert_eq!(story.deadline(), 20_000);
    story.channel.renew(UnixSeconds(EPOCH + 40));
    assert_eq!(story.deadline(), 40_000);
    assert_eq!(story.at(20_000), "nothing");
    assert_eq!(story.at(39_999), "nothing");
    assert_eq!(story.at(40_000), EXPIRED);
    // A fresh token may also end sooner.
    let mut story = Story::registered(20);
    story.channel.renew(UnixSeconds(EPOCH + 5));
    assert_eq!((story.deadline(), story.at(5_000).as_str()), (5_000, EXPIRED));
}

#[test]
fn of_several_ends_the_token_is_named_first() {
    let mut story = Story::begins(5);
    assert_eq!(story.at(95_000), EXPIRED);
    let mut story = Story::begins(3600);
    assert_eq!(story.at(95_000), LATE);
}

#[test]
fn before_a_register_nothing_but_ping_is_allowed() {
    let early = [
        r#"{"type":"auth","token":"t"}"#,
        r#"{"type":"result","id":"c1","result":{}}"#,
        r#"{"type":"error","id":"c1","error":{"code":1,"message":"m"}}"#,
        r#"{"type":"notify","method":"notifications/resources/updated"}"#,
        r#"{"type":"notify","method":"m","id":"c1"}"#,
    ];
    for text in early {
        let mut story = Story::begins(3600);
        assert_eq!(story.says(PING), "pong");
        assert_eq!(story.says(text), EARLY);
        // The same message once the register was taken.
        let mut story = Story::registered(3600);
        assert!(!story.says(text).starts_with("close"), "{text}");
    }
}

#[test]
fn a_message_of_the_wrong_form_closes_whenever_it_comes() {
    for mut story in [Story::begins(3600), Story::registered(3600)] {
        for (text, words) in [
            ("", "close 4400 not JSON: the text ends too early at byte 0"),
            ("[]", "close 4400 a message must be an object, got an array"),
            (r#"{"type":"pong"}"#, r#"close 4400 unknown `type` "pong""#),
            (r#"{"type":"result","id":"c1"}"#, "close 4400 `result` is missing"),
        ] {
            assert_eq!(story.says(text), words);
        }
    }
}

#[test]
fn a_result_ends_its_call_and_only_once() {
    let mut story = Story::registered(3600);
    story.channel.called(CallId(1), 10);
    story.channel.called(CallId(2), 20);
    let first = r#"{"type":"result","id":"c1","result":{"a":1}}"#;
    assert_eq!(story.says(first), r#"to 10: result {"a":1}"#);
    assert_eq!(story.says(first), "nothing");
    let error = r#"{"type":"error","id":"c1","error":{"code":-1,"message":"m"}}"#;
    assert_eq!(story.says(error), "nothing");
    let error = r#"{"type":"error","id":"c2","error":{"code":-1,"message":"m"}}"#;
    assert_eq!(story.says(error), "to 20: error -1");
    assert_eq!(story.says(error), "nothing");
    assert!(story.left().is_empty());
}

#[test]
fn an_unknown_id_is_never_fatal() {
    let mut story = Story::registered(3600);
    story.channel.called(CallId(1), 10);
    let ids = ["c2", "", "1", "C1", "c01", "c1 ", "c+1", "c-1", "c18446744073709551616", "é"];
    for id in ids {
        for text in [
            format!(r#"{{"type":"result","id":"{id}","result":{{}}}}"#),
            format!(r#"{{"type":"error","id":"{id}","error":{{"code":1,"message":"m"}}}}"#),
            format!(r#"{{"type":"notify","id":"{id}","method":"notifications/progress"}}"#),
        ] {
            assert_eq!(story.says(&text), "nothing", "{text}");
        }
    }
    assert_eq!(story.left(), [10]);
}

#[test]
fn a_forgotten_call_hears_nothing_more() {
    let mut story = Story::registered(3600);
    story.channel.called(CallId(1), 10);
    assert_eq!(story.channel.forget(CallId(1)), Some(10));
    assert_eq!(story.channel.forget(CallId(1)), None);
    assert_eq!(story.says(r#"{"type":"result","id":"c1","result":{}}"#), "nothing");
    // The other way round: the result came first, so there is nothing to cancel.
    story.channel.called(CallId(2), 20);
    assert_eq!(story.says(r#"{"type":"result","id":"c2","result":{}}"#), "to 20: result {}");
    assert_eq!(story.channel.forget(CallId(2)), None);
}

#[test]
fn a_notification_goes_to_its_call_while_it_runs_and_ends_nothing() {
    let mut story = Story::registered(3600);
    story.channel.called(CallId(1), 10);
    let note = r#"{"type":"notify","id":"c1","method":"notifications/progress","params":{}}"#;
    for _ in 0..3 {
        assert_eq!(story.says(note), "to 10: notifications/progress");
    }
    assert_eq!(story.says(r#"{"type":"result","id":"c1","result":{}}"#), "to 10: result {}");
    assert_eq!(story.says(note), "nothing");
}

#[test]
fn a_notification_of_no_call_is_about_a_resource_or_nothing() {
    let mut story = Story::registered(3600);
    let rows = [
        ("notifications/resources/updated", r#","params":{"uri":"a:\u0062","x":1}"#, "updated a:b"),
        ("notifications/resources/updated", r#","params":{"uri":""}"#, "updated "),
        ("notifications/resources/updated", r#","params":{"uri":5}"#, "nothing"),
        ("notifications/resources/updated", r#","params":{}"#, "nothing"),
        ("notifications/resources/updated", "", "nothing"),
        ("notifications/tools/list_changed", r#","params":{"uri":"a:b"}"#, "nothing"),
        ("notifications/progress", r#","params":{"progress":1}"#, "nothing"),
        ("", r#","params":{"uri":"a:b"}"#, "nothing"),
    ];
    for (method, params, expected) in rows {
        let text = format!(r#"{{"type":"notify","method":"{method}"{params}}}"#);
        assert_eq!(story.says(&text), expected, "{text}");
    }
}

#[test]
fn a_second_register_leaves_the_running_calls_alone() {
    let mut story = Story::registered(3600);
    story.channel.called(CallId(1), 10);
    assert_eq!(story.says(r#"{"type":"register"}"#), "register");
    story.channel.joined();
    assert_eq!(story.says(r#"{"type":"result","id":"c1","result":{}}"#), "to 10: result {}");
}

#[test]
fn the_end_of_a_channel_gives_back_every_call_that_still_runs() {
    let mut story = Story::registered(3600);
    for id in 0..256 {
        story.channel.called(CallId(id), id as u32);
    }
    assert_eq!(story.says(r#"{"type":"result","id":"c7","result":{}}"#), "to 7: result {}");
    assert_eq!(story.channel.forget(CallId(9)), Some(9));
    let mut left = story.left();
    left.sort_unstable();
    assert_eq!(left, (0..256).filter(|id| *id != 7 && *id != 9).collect::<Vec<u32>>());
}

/// Whenever the driver looks at the clock exactly at its deadline, there is something to do, and a
/// moment before there is not.
#[test]
fn a_deadline_is_neither_early_nor_late() {
    for (secs, registered) in
        [(5, false), (5, true), (30, true), (60, true), (3600, true), (3600, false)]
    {
        let new = || if registered { Story::registered(secs) } else { Story::begins(secs) };
        let mut story = new();
        for _ in 0..3 {
            let deadline = story.deadline();
            if deadline > story.ms {
                assert_eq!(story.at(deadline - 1), "nothing", "{secs} {registered}");
            }
            let asked = story.at(deadline);
            assert_ne!(asked, "nothing", "{secs} {registered}");
            if asked.starts_with("close") {
                break;
            }
        }
    }
}

/// Whether it is `proto` that decides on a close; a new variant has to be put on one of the two sides.
fn decided_here(close: &Close) -> bool {
    match close {
        Close::BadMessage { .. } | Close::BadToken(_) | Close::NoRegister(_) | Close::Silent(_) => {
            true
        }
        // From the socket, the token of the handshake, the registry and the load.
        Close::Stopping
        | Close::TooLarge
        | Close::Protocol
        | Close::NotUtf8
        | Close::Forbidden(_)
        | Close::Replaced
        | Close::Limit(_) => false,
    }
}

#[test]
fn every_close_that_is_decided_here_is_met() {
    let ends: [fn(&mut Story) -> String; 4] = [
        |story| story.says("{}"),
        |story| story.at(3_600_000),
        |story| story.at(10_000),
        |story| {
            story.channel.joined();
            assert_eq!(story.at(45_000), "ping");
            story.at(90_000)
        },
    ];
    let met: Vec<String> = ends.iter().map(|end| end(&mut Story::begins(3600))).collect();
    let all = crate::fault::tests::closes().into_iter().map(|(close, _)| close);
    let here: Vec<u16> = all.filter(decided_here).map(|close| close.code()).collect();
    assert_eq!(met, ["close 4400 `type` is missing", EXPIRED, LATE, SILENT]);
    assert_eq!(here, [4400, 4401, 4408, 4408]);
}

#[test]
fn a_call_id_is_read_only_in_the_form_it_is_written() {
    for number in [0, 1, 9, 10, 1 << 53, u64::MAX] {
        let id = CallId(number);
        assert_eq!(CallId::parse(&id.to_string()), Some(id));
        assert!(id.to_string().len() <= 64);
    }
    let foreign = [
        "",
        "c",
        "1",
        "C1",
        "c00",
        "c01",
        "c+1",
        "c-1",
        "c-0",
        "c 1",
        "c1 ",
        " c1",
        "c1a",
        "c1.0",
        "c1e3",
        "cc1",
        "c18446744073709551616",
        "c99999999999999999999999",
        "c١",
        "c１",
        "c1\0",
    ];
    for text in foreign {
        assert_eq!(CallId::parse(text), None, "{text:?}");
    }
}

#[test]
fn what_the_bridge_says_is_what_the_client_reads() {
    use client::Message;
    let refused = [
        Refused { path: "tools[2].name".into(), message: "is \"taken\"".into() },
        Refused { path: "prompts[0]".into(), message: "must be an object, not null".into() },
    ];
    let client_id = ClientId::parse("kitchen@home").expect("a client ID");
    assert_eq!(
        registered(&client_id, &[]),
        r#"{"type":"registered","clientId":"kitchen@home","maxMessageBytes":4194304,"pingIntervalMs":30000,"refused":[]}"#
    );
    let text = registered(&client_id, &refused);
    let list = r#"[{"path":"tools[2].name","message":"is \"taken\""},{"path":"prompts[0]","message":"must be an object, not null"}]"#;
    assert_eq!(
        client::read(&text),
        Some(Message::Registered { refused: list, ping_every: crate::limits::PING_INTERVAL })
    );
    let text = cancel(CallId(7), "the agent \"hung up\"");
    let reason = "the agent \"hung up\"".into();
    assert_eq!(client::read(&text), Some(Message::Cancel { id: "c7".into(), reason }));
    let close = Close::BadMessage { path: Some("tools".into()), message: "no \"array\"".into() };
    let text = fault(&close);
    let expected = r#"{"type":"fault","code":4400,"message":"no \"array\"","path":"tools"}"#;
    assert_eq!(text, expected);
    let message = "no \"array\"".into();
    assert_eq!(
        client::read(&text),
        Some(Message::Fault { code: 4400, message, path: Some("tools".into()) })
    );
    assert_eq!(
        fault(&Close::Silent(90)),
        r#"{"type":"fault","code":4408,"message":"nothing was heard for 90 s"}"#
    );
    assert_eq!(client::read(PONG), Some(Message::Pong));
    let call = r#"{"type":"call","id":"c1","method":"tools/call","params":{"a" : 1},"agent":{"protocolVersion":"x"}}"#;
    let (params, agent) = (r#"{"a" : 1}"#, r#"{"protocolVersion":"x"}"#);
    let expected = Message::Call { id: "c1".into(), method: "tools/call".into(), params, agent };
    assert_eq!(client::read(call), Some(expected));
    assert_eq!(client::read(r#"{"type":"novel"}"#), Some(Message::Unknown));
    for cut in [call, &text, PONG] {
        for end in 0..cut.len() {
            assert_eq!(client::read(&cut[..end]), None, "{}", &cut[..end]);
        }
        assert_eq!(client::read(&format!("{cut}x")), None);
    }
    for text in ["", "[]", "null", "{}", r#"{"type":1}"#, r#"{"type":"call","method":"m"}"#] {
        assert_eq!(client::read(text), None, "{text}");
    }
}

#[test]
fn what_the_client_says_is_what_the_bridge_reads() {
    let mut story = Story::registered(3600);
    story.channel.called(CallId(1), 10);
    story.channel.called(CallId(2), 20);
    let text = client::result("c1", &client::text_result("a\"b"));
    assert_eq!(story.says(&text), r#"to 10: result {"content":[{"type":"text","text":"a\"b"}]}"#);
    assert_eq!(story.says(&client::error("c2", -32000, "no \"luck\"")), "to 20: error -32000");
    assert_eq!(
        client::tool_error("x"),
        r#"{"content":[{"type":"text","text":"x"}],"isError":true}"#
    );
    assert_eq!(reply::read(PING).map(|read| format!("{read:?}")), Ok("Ping".into()));
}

#[test]
fn a_result_over_the_message_limit_becomes_a_tool_error() {
    let envelope = client::result("c1", "").len();
    for (over, fits) in [(-1, true), (0, true), (1, false), (1000, false)] {
        let length = (MESSAGE_BYTES_MAX - envelope).checked_add_signed(over).expect("small");
        let result = format!(r#"{{"x":"{}"}}"#, "x".repeat(length - 8));
        assert_eq!(result.len(), length);
        let text = client::result("c1", &result);
        assert!(text.len() <= MESSAGE_BYTES_MAX);
        let came = text.contains(&result);
        assert_eq!((came, text.contains(r#""isError":true"#)), (fits, !fits), "{over}");
        if !fits {
            let bytes = MESSAGE_BYTES_MAX.checked_add_signed(over).expect("small");
            let words = format!("it has {bytes} bytes, a message may have 4194304");
            assert!(text.contains(&words), "{text}");
        }
    }
}

#[test]
fn the_times_are_those_of_the_contract() {
    let seconds = Duration::from_secs;
    assert_eq!(limits::REGISTER_TIMEOUT, seconds(10));
    assert_eq!((limits::PING_AFTER, limits::SILENT_AFTER), (seconds(45), seconds(90)));
    assert_eq!(limits::PING_INTERVAL, seconds(30));
    assert_eq!(limits::TOKEN_LEEWAY, seconds(60));
}

#[test]
fn a_minutes_worth_of_registers_is_taken_at_once_and_then_one_at_a_time() {
    for (per_minute, each) in [(1, 60_000), (7, 8_571), (120, 500), (6_000, 10)] {
        let mut channel: Channel<u32> = Channel::new(Instant(5_000), UnixSeconds(EPOCH + 600));
        let mut registers = |ms: u64| {
            channel.count_register(Instant(5_000 + ms), per_minute);
            channel.rests_until(per_minute).0.saturating_sub(5_000)
        };
        for number in 1..per_minute {
            assert_eq!(registers(0), 0, "{per_minute}: register {number}");
        }
        let rest = registers(0);
        assert!(rest.abs_diff(each) < 5, "{per_minute}: a rest of {rest} ms");
        let next = registers(rest);
        assert!(next.abs_diff(rest + each) < 5, "{per_minute}: until {next} ms");
        // After a minute without one there is room for as many again.
        let later = next + 60_000;
        for number in 1..per_minute {
            assert!(
                registers(later) <= later,
                "{per_minute}: register {number} of the next minute"
            );
        }
        assert!(registers(later) > later, "{per_minute}: and no more");
    }
}

#[test]
fn a_connection_older_than_the_rate_can_count_is_not_held_back() {
    let mut channel: Channel<u32> = Channel::new(Instant(0), UnixSeconds(u64::MAX));
    let now = Instant(50 * 24 * 3_600_000);
    for _ in 0..1_000 {
        channel.count_register(now, 1);
        assert!(channel.rests_until(1) <= now);
    }
}

#[test]
fn the_rate_of_registers_takes_no_room_of_its_own() {
    // Two flags and the rate, three times and the running calls: an idle client is no larger for it.
    assert_eq!(
        size_of::<Channel<u64>>(),
        8 + 3 * 8 + size_of::<alloc::collections::BTreeMap<CallId, u64>>()
    );
}
