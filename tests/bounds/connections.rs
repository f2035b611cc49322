//! How many connections there may be, and that who is beyond is told cheaply: before a token is
//! verified, with one answer, and without harm to those who are there.

use std::time::{Duration, Instant};

use crate::extra::{ADD, Ask, Client, Desk, register};
use crate::log_of;
use crate::support::{Bridge, Http, RawClient, Request, SOON, Token, Trouble, token};

/// A call from end to end on connections that are there.
fn works(running: crate::extra::Stream, client: &mut Client) {
    let call = client.call();
    client.answers(&call.id, r#"{"content":[]}"#);
    assert_eq!(running.finish().code(), None);
}

/// How a connection that says nothing ends, and after how long.
fn silence(bridge: &Bridge) -> (Trouble, Duration) {
    let begun = Instant::now();
    let end = Http::connect(bridge.addr).rest(SOON);
    (end, begun.elapsed())
}

#[test]
fn beyond_max_connections_agents_get_503_and_clients_4429_whatever_their_token() {
    let bridge = Bridge::start(&["--max-connections", "3"]);
    let desk = Desk::on(&bridge);
    let mut client = desk.client(&register(&[ADD]));
    let stream = desk.listens(&Ask::get());
    let running = desk.begin(&Ask::call_old("1", "add", "{}"));
    let call = client.call();

    let forged = Token::of(&desk.id, "agent").secret("another-secret-another-secret-1234").mint();
    for bearer in [token(&desk.id, "agent"), forged.clone(), "nonsense".to_owned()] {
        let answer = desk.send(&Ask::old("2", "ping", "{}").bearer(&bearer));
        assert_eq!(answer.status, 503, "no look at the token: {answer}");
        assert_eq!(answer.header("retry-after"), Some("5"), "{answer}");
        assert_eq!(answer.header("connection"), Some("close"), "{answer}");
        assert_eq!(answer.code(), Some(-32600), "{answer}");
    }
    for bearer in [token(&desk.id, "client"), forged, "nonsense".to_owned()] {
        let (code, reason) = Client::joins(&desk.another(), &bearer).close();
        assert_eq!(code, 4429, "the handshake completes: {reason}");
    }
    let health = Request::get("/health").to(&bridge);
    assert_eq!((health.status, health.text()), (200, "ok\n"), "a full bridge is well");
    assert_eq!(Request::get("/nowhere").to(&bridge).status, 503);
    assert!(log_of(&bridge, "--max-connections").contains("127.0.0.1"));

    // Those who are there go on, and one that goes makes room.
    client.answers(&call.id, r#"{"content":[]}"#);
    assert_eq!(running.finish().code(), None);
    drop(stream);
    crate::support::eventually("room again", SOON, || {
        (desk.send(&Ask::old("3", "ping", "{}")).status == 200).then_some(())
    });
    client.is_alive();
}

#[test]
fn who_finds_no_place_may_wait_two_seconds_and_takes_one_that_becomes_free() {
    let bridge = Bridge::start(&["--max-connections", "1"]);
    let first = Http::connect(bridge.addr);
    let (end, took) = silence(&bridge);
    assert!(matches!(&end, Trouble::Ended(said) if said.is_empty()), "{end:?}");
    assert!((1500..6000).contains(&took.as_millis()), "about 2 s, not {took:?}");

    let mut second = Http::connect(bridge.addr);
    drop(first);
    std::thread::sleep(Duration::from_millis(300));
    second.send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
    let answer = second.read_response();
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(!answer.says_close(), "it has a place now: {answer:?}");
}

#[test]
fn more_than_256_without_a_place_are_closed_at_once_and_disturb_nobody() {
    // The head timeout shows that it is not what ends them.
    let bridge = Bridge::start(&["--max-connections", "2", "--head-timeout", "60"]);
    let desk = Desk::on(&bridge);
    let mut client = desk.client(&register(&[ADD]));
    let mut agent = Http::connect(bridge.addr);
    let ping = |agent: &mut Http| {
        agent.send(Request::get("/health").bytes());
        assert_eq!(agent.read_response().status, 200);
    };
    ping(&mut agent);
    let begun = Instant::now();
    let crowd: Vec<Http> = (0..400).map(|_| Http::connect(bridge.addr)).collect();
    let ends = crowd.into_iter().map(|mut one| (one.rest(SOON), begun.elapsed()));
    let ends: Vec<_> = ends.collect();
    ping(&mut agent);
    client.is_alive();
    let early = ends.iter().filter(|(_, at)| *at < Duration::from_millis(1800)).count();
    // They are read in order, so that the late ones hide early ends behind them.
    assert!(early == 0, "the first 256 may wait: {early}");
    for (end, _) in &ends {
        assert!(matches!(end, Trouble::Ended(said) | Trouble::Reset(said) if said.is_empty()));
    }
    assert!(begun.elapsed() < SOON, "all are gone after about 2 s: {:?}", begun.elapsed());

    let crowd: Vec<Http> = (0..300).map(|_| Http::connect(bridge.addr)).collect();
    let (end, took) = silence(&bridge);
    assert!(took < Duration::from_millis(1500), "closed at once, not after {took:?}: {end:?}");
    drop(crowd);
    log_of(&bridge, "--max-connections");
}

#[test]
fn an_address_has_its_connections_the_silent_ones_included() {
    let bridge = Bridge::start(&["--max-connections-per-ip", "3"]);
    let desk = Desk::on(&bridge);
    let mut client = desk.client(&register(&[ADD]));
    let silent = [(); 2].map(|()| Http::connect(bridge.addr));
    let answer = desk.send(&Ask::old("1", "ping", "{}").bearer("nonsense"));
    assert_eq!(answer.status, 429, "no look at the token: {answer}");
    assert_eq!(answer.header("retry-after"), Some("5"), "{answer}");
    assert_eq!(answer.header("connection"), Some("close"), "{answer}");
    let other = desk.another();
    assert_eq!(Client::joins(&other, "nonsense").close().0, 4429);
    assert_eq!(Request::get("/health").to(&bridge).status, 429);
    assert!(log_of(&bridge, "--max-connections-per-ip").contains("127.0.0.1"));
    drop(silent);
    crate::support::eventually("room again", SOON, || {
        let running = desk.begin(&Ask::old("2", "ping", "{}"));
        (running.finish().status == 200).then_some(())
    });
    works(desk.begin(&Ask::call_old("3", "add", "{}")), &mut client);
}

#[test]
fn a_full_bridge_looks_only_at_tokens_that_claim_a_client_who_is_there() {
    let bridge = Bridge::start(&["--max-clients", "1"]);
    let desk = Desk::on(&bridge);
    let mut client = desk.client(&register(&[ADD]));
    let stranger = desk.another();
    let forged =
        |id: &str| Token::of(id, "client").secret("another-secret-another-secret-1234").mint();
    let long = format!("x.{}.y", "A".repeat(5000));
    for (name, bearer, code) in [
        ("another client ID", token(&stranger.id, "client"), 4429),
        ("a forged token of another", forged(&stranger.id), 4429),
        ("nonsense", "nonsense".to_owned(), 4429),
        ("no Base64", "a.!.c".to_owned(), 4429),
        ("no JSON", "a.AAAA.c".to_owned(), 4429),
        ("a token that is too long", long, 4429),
        ("a forged token of who is there", forged(&desk.id), 4401),
        ("an agent's token of who is there", token(&desk.id, "agent"), 4403),
    ] {
        assert_eq!(Client::joins(&desk, &bearer).close().0, code, "{name}");
    }
    log_of(&bridge, "--max-clients");
    client.is_alive();
    let newer = desk.client(&register(&[ADD]));
    assert_eq!(client.close().0, 4409, "the newest connection wins");
    newer.leaves();
}

#[test]
fn the_metrics_address_is_open_when_the_bridge_is_full() {
    let flags = ["--max-connections", "1", "--max-connections-per-ip", "1"];
    let bridge = Bridge::start(&[&flags[..], &["--metrics", "127.0.0.1:0"]].concat());
    let line = bridge.await_log("metrics are served", SOON);
    let metrics = line.rsplit('=').next().unwrap_or_default().parse().expect("an address");
    let _silent = Http::connect(bridge.addr);
    let mut refused = RawClient::shake(&bridge, &RawClient::request(&bridge, "kitchen")).1;
    assert_eq!(refused.expects_close().0, 4429);
    for _ in 0..3 {
        let mut http = Http::connect(metrics);
        http.send(Request::get("/metrics").bytes());
        let page = http.read_response();
        assert_eq!(page.status, 200, "{page:?}");
        assert!(page.text().contains(r#"kind="address"} 1"#), "{page:?}");
    }
}
