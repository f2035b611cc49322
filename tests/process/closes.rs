//! The close codes that need a process or a flag: 1001 and 4429.
//!
//! The others are in `tests/contract`. What else a stop does to calls and streams is told
//! elsewhere.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Bridge, Client, Heard, Request, SOON, unique};

#[test]
fn clients_of_a_bridge_that_stops_are_closed_1001() {
    for signal in [Signal::TERM, Signal::INT] {
        let bridge = Bridge::start(&[]);
        let mut clients: Vec<Client> = (0..3)
            .map(|_| {
                let mut client = Client::connect(&bridge, &unique("stop"));
                client.offers(&["echo"]);
                client
            })
            .collect();
        let start = Instant::now();
        bridge.signal(signal);
        for client in &mut clients {
            let (code, reason) = client.expects_close();
            assert_eq!(code, 1001, "{signal:?}: {reason}");
            assert!(matches!(client.hears(SOON), Heard::Gone(_)), "{signal:?}");
        }
        let status = bridge.wait_exit(SOON);
        assert_eq!(status.code(), Some(0), "{signal:?}: {status}; log:\n{}", bridge.log());
        let time = start.elapsed();
        assert!(time < Duration::from_secs(5), "{signal:?}: nothing was running, yet {time:?}");
    }
}

#[test]
fn a_client_over_the_limit_is_closed_4429_after_the_handshake() {
    let bridge = Bridge::start(&["--max-clients", "2"]);
    let mut first = Client::connect(&bridge, &unique("limit"));
    first.offers(&["echo"]);
    let mut second = Client::connect(&bridge, &unique("limit"));
    second.offers(&["echo"]);
    let mut third = Client::connect(&bridge, &unique("limit"));
    let (code, reason) = third.expects_close();
    assert_eq!(code, 4429, "{reason}");
    first.expects_alive();
    first.leaves();
    // The place is free again, as soon as the bridge has noticed.
    crate::support::eventually("a free place", SOON, || {
        let mut next = Client::connect(&bridge, &unique("limit"));
        next.send_text(r#"{"type":"register"}"#);
        match next.hears(SOON) {
            Heard::Text(text) if text.contains("registered") => Some(()),
            _ => None,
        }
    });
    second.expects_alive();
}

#[test]
fn connections_from_one_address_are_limited_with_429_and_4429() {
    let bridge = Bridge::start(&["--max-connections-per-ip", "3"]);
    let mut kept: Vec<Client> = (0..3)
        .map(|_| {
            let mut client = Client::connect(&bridge, &unique("address"));
            client.offers(&["echo"]);
            client
        })
        .collect();
    let response = Request::get("/health").to(&bridge);
    assert_eq!(response.status, 429, "{response:?}");
    let wait = response.header("retry-after").and_then(|s| s.parse::<u64>().ok());
    assert!(wait.is_some_and(|seconds| seconds >= 1), "{response:?}");
    let mut over = Client::connect(&bridge, &unique("address"));
    let (code, reason) = over.expects_close();
    assert_eq!(code, 4429, "{reason}");
    for client in &mut kept {
        client.expects_alive();
    }
}
