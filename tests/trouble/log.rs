//! The log (SPEC §2, §6): nothing secret in it, nothing at all while nothing happens, and what it
//! says is one line an event.

use std::time::Duration;

use crate::extra::{ADD, Ask, Client, Desk, register};
use crate::support::{Bridge, Request, SECRET, Token, token};

#[test]
fn no_token_secret_or_payload_is_ever_logged_or_echoed() {
    for format in ["text", "json"] {
        let bridge = Bridge::start(&["--log-format", format, "--log-level", "debug"]);
        let desk = Desk::on(&bridge);
        let good_agent = token(&desk.id, "agent");
        let good_client = token(&desk.id, "client");
        let mut bad = vec![
            Token::of(&desk.id, "agent").secret("another-secret-another-secret-1234").mint(),
            Token::of(&desk.id, "agent").expires_in(-3600).mint(),
            Token::of(&desk.id, "nothing").mint(),
            Token::of(&desk.id, "agent").header("alg", "none").mint(),
            "not-a-token-but-confidential-anyway".to_owned(),
            "x.y.zzzzzzzzzzzzzzzzzzzzzzzzzzzzz".to_owned(),
        ];
        let mut answers = Vec::new();
        for token in &bad {
            let answer = desk.send(&Ask::old("1", "ping", "{}").bearer(token));
            assert!(matches!(answer.status, 401 | 403), "{answer}");
            answers.push(format!("{answer}"));
            let mut client = Client::joins(&desk, token);
            let close = client.close();
            assert!(matches!(close.0, 4401 | 4403), "{close:?}");
            answers.push(close.1);
        }
        let mut client = Client::joins(&desk, &good_client);
        client.offers(&register(&[ADD]));
        let running = desk.begin(
            &Ask::call_old("1", "add", r#"{"x":"payload-in-confidence"}"#).bearer(&good_agent),
        );
        let call = client.call();
        client.answers(&call.id, r#"{"content":[],"y":"answer-in-confidence"}"#);
        running.finish();
        client.says(&format!(r#"{{"type":"auth","token":"{}"}}"#, bad[0]));
        assert_eq!(client.close().0, 4401);
        let in_query = format!("/mcp?token={}", bad[1]);
        answers.push(format!("{:?}", Request::get(&bridge.target(&in_query)).to(&bridge)));
        std::thread::sleep(Duration::from_millis(200));

        bad.extend([good_agent, good_client]);
        let log = bridge.log();
        let mut hidden: Vec<&str> = vec![SECRET, "payload-in-confidence", "answer-in-confidence"];
        for token in &bad {
            hidden.push(token);
            // Any part of it: header, claims, signature.
            hidden.extend(token.split('.').filter(|part| part.len() > 12));
        }
        for secret in hidden {
            assert!(!log.contains(secret), "{format}: {secret:?} is in the log:\n{log}");
            for answer in &answers {
                assert!(!answer.contains(secret), "{format}: {secret:?} is echoed: {answer}");
            }
        }
    }
}

#[test]
fn an_idle_bridge_is_silent() {
    let bridge = Bridge::start(&[]);
    let desk = Desk::on(&bridge);
    let _client = desk.client(&register(&[ADD]));
    let _get = desk.listens(&Ask::get());
    std::thread::sleep(Duration::from_millis(300));
    let before = bridge.log_lines();
    std::thread::sleep(Duration::from_millis(2500));
    let after = bridge.log_lines();
    assert_eq!(after[before.len()..], [] as [String; 0], "nothing happened, so nothing is said");
}

#[test]
fn json_lines_are_json_and_text_lines_cannot_be_forged() {
    let bridge = Bridge::start(&["--log-format", "json"]);
    let desk = Desk::on(&bridge);
    let mut client = Client::joins(&desk, &token(&desk.id, "client"));
    client.says("{\"type\":\"a\\nlevel=error forged\"}");
    assert_eq!(client.close().0, 4400);
    let mut client = desk.client(&register(&[ADD]));
    client.says("\u{1b}[31m no json \u{7}");
    assert_eq!(client.close().0, 4400);
    std::thread::sleep(Duration::from_millis(200));
    for line in bridge.log_lines() {
        let value: serde_json::Value =
            serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
        assert!(value.is_object(), "{line}");
    }

    let bridge = Bridge::start(&["--log-format", "text"]);
    let desk = Desk::on(&bridge);
    let mut client = Client::joins(&desk, &token(&desk.id, "client"));
    client.says("{\"type\":\"a\\nlevel=error forged\\u001b[31m\"}");
    assert_eq!(client.close().0, 4400);
    std::thread::sleep(Duration::from_millis(200));
    for line in bridge.log_lines() {
        assert!(!line.starts_with("level=error forged"), "a peer wrote a line: {line:?}");
        assert!(!line.contains('\u{1b}'), "a peer wrote an escape: {line:?}");
    }
}

/// The lines of the log with this level that contain `text`.
fn lines(bridge: &Bridge, level: &str, text: &str) -> Vec<String> {
    let has = |line: &String| line.contains(&format!(" {level} ")) && line.contains(text);
    bridge.log_lines().into_iter().filter(has).collect()
}

#[test]
fn a_refused_token_a_late_call_and_a_full_place_are_one_line_each_however_often() {
    let flags = ["--call-timeout", "1.5", "--max-calls", "2", "--max-streams", "1"];
    let more = ["--max-clients", "1", "--log-level", "info"];
    let bridge = Bridge::start(&[&flags[..], &more].concat());
    let desk = Desk::on(&bridge);
    let mut client = desk.client(&register(&[ADD]));
    let _get = desk.listens(&Ask::get());
    let late = [1, 2].map(|_| desk.begin(&Ask::call_old("1", "add", "{}")));
    let calls = [client.call(), client.call()];
    for _ in 0..3 {
        let bad = Token::of(&desk.id, "agent").expires_in(-3600).mint();
        assert_eq!(desk.send(&Ask::old("1", "ping", "{}").bearer(&bad)).status, 401);
        assert!(!desk.send(&Ask::call_old("2", "add", "{}")).tool_error().is_empty());
        assert_eq!(desk.send(&Ask::get()).status, 429);
        let other = desk.another();
        assert_eq!(Client::joins(&other, &token(&other.id, "client")).close().0, 4429);
    }
    for late in late {
        assert!(late.finish().tool_error().contains("did not answer"));
    }

    // The log is read by a thread of its own, which may be a little behind.
    for text in ["token refused", "not answered in time", "--max-calls", "--max-streams"] {
        bridge.await_log(text, crate::support::SOON);
    }
    bridge.await_log("--max-clients", crate::support::SOON);
    let token = lines(&bridge, "WARN", "token refused");
    assert_eq!(token.len(), 1, "{}", bridge.log());
    assert!(token[0].contains("peer=127.0.0.1") && token[0].contains("expired"), "{token:?}");
    let timeout = lines(&bridge, "WARN", "not answered in time");
    assert_eq!(timeout.len(), 1, "{}", bridge.log());
    let named = |call: &crate::extra::Call| timeout[0].contains(&format!("call={}", call.id));
    assert!(calls.iter().any(named), "{timeout:?}, {calls:?}");
    for limit in ["--max-calls", "--max-streams", "--max-clients"] {
        assert_eq!(lines(&bridge, "WARN", limit).len(), 1, "{limit}: {}", bridge.log());
    }
}

#[test]
fn at_debug_each_call_is_logged_by_the_id_that_its_client_saw() {
    let bridge = Bridge::start(&["--log-level", "debug"]);
    let desk = Desk::on(&bridge);
    let mut client = desk.client(&register(&[ADD]));
    for ask in [Ask::call_old("1", "add", "{}"), Ask::call_new("1", "add", "{}")] {
        let running = desk.begin(&ask);
        let call = client.call();
        client.answers(&call.id, r#"{"content":[]}"#);
        running.finish();
        let line = bridge.await_log(&format!("call={}", call.id), Duration::from_secs(3));
        assert!(line.contains(" DEBUG call ") && line.contains("tools/call"), "{line}");
        assert!(line.contains(&desk.id) && line.contains("name=add"), "{line}");
    }
    let lost = desk.begin(&Ask::call_old("1", "add", "{}"));
    let call = client.call();
    drop(lost);
    client.cancel_of(&call, 2.0);
    let said = format!("call cancelled client={} call={}", desk.id, call.id);
    bridge.await_log(&said, Duration::from_secs(3));
    let quiet = Bridge::start(&[]);
    let desk = Desk::on(&quiet);
    let mut client = desk.client(&register(&[ADD]));
    let running = desk.begin(&Ask::call_old("1", "add", "{}"));
    let call = client.call();
    client.answers(&call.id, r#"{"content":[]}"#);
    running.finish();
    let said = format!("call={}", call.id);
    assert!(!quiet.log().contains(&said), "not at info: {}", quiet.log());
}
