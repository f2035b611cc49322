//! A bridge that is started again at the same place (SPEC §5.3, §5.4): agents go on as if nothing
//! had been.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::extra::{ADD, Ask, Desk, INITIALIZE, register};
use crate::support::Bridge;

/// An address with a port that is free now, on a host of its own: on the one that all use, a connection
/// of another test could take the port. The bridge gets it by name, and again after its end.
fn free_address(host: &str) -> SocketAddr {
    let listener = std::net::TcpListener::bind((host, 0)).expect("a free port");
    listener.local_addr().expect("a bound address")
}

/// A bridge that also listens at this address; `addr` is that one.
fn at_address(address: SocketAddr, flags: &[&str]) -> Bridge {
    let listen = address.to_string();
    let mut all = vec!["--listen", &listen];
    all.extend_from_slice(flags);
    let mut bridge = Bridge::start(&all);
    bridge.addr = address;
    bridge.await_log(&format!("listening on http://{listen}"), Duration::from_secs(5));
    bridge
}

#[test]
fn sessions_outlive_the_bridge_and_calls_wait_for_the_client_after_a_start() {
    let address = free_address("127.0.9.3");
    let first = at_address(address, &[]);
    let desk = Desk::on(&first);
    let mut client = desk.client(&register(&[ADD]));
    let answer = desk.send(&Ask::old("0", "initialize", INITIALIZE));
    let session = answer.header("mcp-session-id").expect("a session ID").to_owned();
    let mut get = desk.listens(&Ask::get().session(&session));
    first.signal(Signal::TERM);
    assert_eq!(client.close().0, 1001);
    drop(client);
    get.events_for(3.0);
    drop(get);
    assert_eq!(first.wait_exit(Duration::from_secs(5)).code(), Some(0), "{}", first.log());

    let second = at_address(address, &["--reconnect-wait", "4"]);
    let desk = desk.moved(&second);
    // The agent is back before the client: lists are empty, its session works, its call waits.
    let mut get = desk.listens(&Ask::get().session(&session));
    let answer = desk.send(&Ask::old("1", "tools/list", "{}").session(&session));
    assert_eq!(answer.json()["result"]["tools"], serde_json::json!([]), "{answer}");
    let running = desk.begin(&Ask::call_old("2", "add", "{}").session(&session));
    std::thread::sleep(Duration::from_millis(500));
    let mut client = desk.client(&register(&[ADD]));
    let call = client.call();
    client.answers(&call.id, r#"{"content":[],"n":1}"#);
    let answer = running.finish();
    assert_eq!(answer.only_json()["result"]["n"], 1, "{answer}");
    assert!(get.event(3.0).contains("list_changed"), "the client's return is told");
    assert_eq!(desk.send(&Ask::delete().session(&session)).status, 204);
}

#[test]
fn a_call_after_a_start_waits_no_longer_than_the_reconnect_wait() {
    let bridge = Bridge::start(&["--reconnect-wait", "0.6"]);
    let desk = Desk::on(&bridge);
    let asked = Instant::now();
    let answer = desk.send(&Ask::call_old("1", "add", "{}"));
    let took = asked.elapsed();
    assert!(answer.tool_error().contains("not connected"), "{answer}");
    assert!((500..1500).contains(&took.as_millis()), "about 0.6 s, not {took:?}");
}

#[test]
fn the_port_is_free_for_the_next_one_at_once() {
    let address = free_address("127.0.9.4");
    for round in 0..3 {
        let bridge = at_address(address, &[]);
        let desk = Desk::on(&bridge);
        assert_eq!(desk.send(&Ask::old("1", "ping", "{}")).status, 200, "round {round}");
        bridge.signal(Signal::TERM);
        assert_eq!(bridge.wait_exit(Duration::from_secs(5)).code(), Some(0), "{}", bridge.log());
    }
}
