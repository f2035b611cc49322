//! How often: connections of a client ID, registers of a connection.

use std::time::{Duration, Instant};

use crate::extra::{ADD, Ask, Client, Desk, register};
use crate::support::{Bridge, RawClient, SOON, Token, token};
use crate::{log_of, logged_once};

#[test]
fn a_client_that_connects_too_often_is_told_4429_until_its_time_has_come() {
    // Thirty at once, then one every two seconds.
    let bridge = Bridge::start(&["--max-connects-per-minute", "30"]);
    let desk = Desk::on(&bridge);
    for _ in 0..30 {
        desk.client(&register(&[ADD])).leaves();
    }
    let begun = Instant::now();
    for _ in 0..3 {
        let (code, reason) = Client::joins(&desk, &token(&desk.id, "client")).close();
        assert_eq!(code, 4429, "{reason}");
    }
    logged_once(&bridge, "--max-connects-per-minute");
    assert!(log_of(&bridge, "--max-connects-per-minute").contains(&desk.id));
    desk.another().client(&register(&[ADD])).leaves();
    let mut client = crate::support::eventually("its time", SOON, || {
        let mut raw = RawClient::connect(&bridge, &desk.id);
        raw.send_text(&register(&[ADD]));
        (raw.next_message(SOON)["type"] == "registered").then_some(raw)
    });
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    client.send_text(r#"{"type":"ping"}"#);
    assert_eq!(client.next_message(SOON)["type"], "pong");
}

#[test]
fn a_bad_token_uses_up_nobodys_rate() {
    let bridge = Bridge::start(&["--max-connects-per-minute", "1"]);
    let desk = Desk::on(&bridge);
    let forged = Token::of(&desk.id, "client").secret("another-secret-another-secret-1234").mint();
    for bearer in [forged, token(&desk.id, "agent"), "nonsense".to_owned()] {
        for _ in 0..5 {
            assert!(matches!(Client::joins(&desk, &bearer).close().0, 4401 | 4403));
        }
    }
    desk.client(&register(&[ADD])).leaves();
    assert_eq!(Client::joins(&desk, &token(&desk.id, "client")).close().0, 4429);
}

#[test]
fn a_client_that_registers_too_often_is_read_later_and_loses_nothing() {
    // Sixty at once, then one a second.
    let bridge = Bridge::start(&["--max-registers-per-minute", "60"]);
    let desk = Desk::on(&bridge);
    let mut client = desk.client(&register(&[ADD]));
    let running = desk.begin(&Ask::call_old("1", "add", "{}"));
    let call = client.call();
    let begun = Instant::now();
    let tool = |n| format!(r#"{{"name":"t{n}","inputSchema":{{"type":"object"}}}}"#);
    for n in 1..62 {
        client.says(&register(&[ADD, &tool(n)]));
    }
    client.answers(&call.id, r#"{"content":[]}"#);
    // 62 registers with the first: the last two have to wait for theirs.
    for n in 1..62 {
        match client.hears(5.0) {
            crate::support::Heard::Text(text) => assert!(text.contains("registered"), "{text}"),
            other => panic!("register {n}: {other:?}"),
        }
    }
    let took = begun.elapsed();
    assert!(took > Duration::from_millis(900), "the last came after {took:?} already");
    assert!(took < SOON, "the last came after {took:?}");
    assert_eq!(running.finish().code(), None, "what was said meanwhile still counts");
    client.is_alive();
    let answer = desk.send(&Ask::old("2", "tools/list", "{}"));
    assert_eq!(answer.json()["result"]["tools"][1]["name"], "t61", "the newest: {answer}");
    logged_once(&bridge, "--max-registers-per-minute");
    assert!(log_of(&bridge, "--max-registers-per-minute").contains(&desk.id));
}

#[test]
fn a_flood_of_registers_costs_the_others_nothing() {
    let bridge = Bridge::start(&["--max-registers-per-minute", "6"]);
    let desk = Desk::on(&bridge);
    let mut flood = RawClient::connect(&bridge, &desk.id);
    let filler = "x".repeat(500_000);
    let frames = [1, 2].map(|n| {
        let text = format!(r#"{{"type":"register","instructions":"{n}{filler}"}}"#);
        RawClient::frame(0x81, text.as_bytes())
    });
    let before = bridge.cpu_time();
    let writer =
        std::thread::spawn(
            move || {
                while frames.iter().all(|frame| flood.http.try_send(frame).is_ok()) {}
            },
        );
    log_of(&bridge, "--max-registers-per-minute");
    let after = bridge.cpu_time();
    let other = desk.another();
    let mut client = other.client(&register(&[ADD]));
    for _ in 0..10 {
        let asked = Instant::now();
        let running = other.begin(&Ask::call_old("1", "add", "{}"));
        let call = client.call();
        client.answers(&call.id, r#"{"content":[]}"#);
        assert_eq!(running.finish().code(), None);
        assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
        std::thread::sleep(Duration::from_millis(100));
    }
    let (first, rest) = (after - before, bridge.cpu_time() - after);
    assert!(rest < Duration::from_millis(500), "{first:?} for six registers, then {rest:?}");
    drop(bridge);
    writer.join().expect("it ends with the bridge");
}

#[test]
fn the_defaults_are_not_met_by_who_means_well() {
    let bridge = Bridge::start(&[]);
    let desk = Desk::on(&bridge);
    // A page that a tool reloads on each save, faster than anyone saves.
    for _ in 0..50 {
        desk.client(&register(&[ADD])).leaves();
    }
    // Tools that are announced one by one, each as soon as the last was taken.
    let mut client = desk.client(&register(&[ADD]));
    let begun = Instant::now();
    for n in 0..110 {
        let tool = format!(r#"{{"name":"t{n}","inputSchema":{{"type":"object"}}}}"#);
        client.offers(&register(&[&tool]));
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    // Everybody behind one address, after the bridge was restarted.
    let everybody: Vec<Desk> = (0..500).map(|_| desk.another()).collect();
    let mut joined: Vec<Client> =
        everybody.iter().map(|desk| desk.client(&register(&[ADD]))).collect();
    joined.iter_mut().for_each(Client::is_alive);
    client.is_alive();
    let lines = bridge.log_lines();
    let met = lines.iter().filter(|line| line.contains(" WARN ") || line.contains("(--"));
    assert_eq!(met.count(), 0, "{lines:#?}");
}
