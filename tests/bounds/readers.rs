//! Readers: one that takes nothing is let go after `--body-timeout`, one that reads slowly is not, on
//! either side of the bridge.
//!
//! The kernel says that a socket has room only when a third of its buffer is free, which for a slow
//! reader is later than the timeout: here the timeout is short and the buffers are full.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::extra::{ADD, Ask, Desk, register};
use crate::log_of;
use crate::support::{Bridge, RawClient, Request, SOON, token};

const MIB: usize = 1 << 20;

/// What the reader takes at a time while it is slow, and how long it then waits: a fifth of what would
/// have to be free within the timeout for the kernel to say so.
const SIP: usize = 32 << 10;
const PAUSE: Duration = Duration::from_millis(100);

const FLAGS: [&str; 4] = ["--body-timeout", "1", "--max-stream-bytes", "64MiB"];

fn connected(bridge: &Bridge, request: &Request) -> TcpStream {
    let mut stream = TcpStream::connect(bridge.addr).expect("it listens");
    stream.set_read_timeout(Some(SOON)).expect("a timeout that is not zero");
    stream.write_all(&request.bytes()).expect("a request is taken");
    stream
}

/// Reads slowly for five times the timeout, then as fast as it can; how many bytes there were until the
/// end, or until `enough`.
fn sips(stream: &mut TcpStream, enough: usize) -> usize {
    let (begun, mut total) = (Instant::now(), 0);
    let mut sip = vec![0; SIP];
    while begun.elapsed() < Duration::from_secs(5) {
        match stream.read(&mut sip) {
            Ok(0) => return total,
            Ok(count) => total += count,
            Err(error) => panic!("after {total} bytes and {:?}: {error}", begun.elapsed()),
        }
        std::thread::sleep(PAUSE);
    }
    let mut gulp = vec![0; MIB];
    while total < enough {
        match stream.read(&mut gulp) {
            Ok(0) => break,
            Ok(count) => total += count,
            Err(error) => panic!("after {total} bytes: {error}"),
        }
    }
    total
}

#[test]
fn an_agent_that_reads_slowly_gets_all_of_it_and_one_that_reads_nothing_is_let_go() {
    let bridge = Bridge::start(&FLAGS);
    let desk = Desk::on(&bridge);
    let mut client = desk.client(&register(&[ADD]));
    let result = format!(r#"{{"x":"{}"}}"#, "z".repeat(4 * MIB - 1000));
    let calls: Vec<_> = (0..4)
        .map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "add"}}))
        .collect();
    let request = Request::post("/mcp")
        .bearer(&token(&desk.id, "agent"))
        .with("Accept", "application/json")
        .with("Connection", "close")
        .json(&json!(calls));
    let mut answer = |stream: TcpStream| {
        let calls = [client.call(), client.call(), client.call(), client.call()];
        calls.iter().for_each(|call| client.answers(&call.id, &result));
        stream
    };
    let mut slow = answer(connected(&bridge, &request));
    let total = sips(&mut slow, usize::MAX);
    assert!(total > 4 * result.len(), "all of it, not {total} bytes");
    assert!(!bridge.log().contains("reads nothing"), "{}", bridge.log());

    let before = bridge.open_files();
    let stalled = answer(connected(&bridge, &request));
    assert!(log_of(&bridge, "--body-timeout").contains("agent reads nothing"));
    crate::support::eventually("the connection is dropped", SOON, || {
        (bridge.open_files() <= before).then_some(())
    });
    drop(stalled);
    client.is_alive();
}

#[test]
fn a_client_that_reads_slowly_gets_all_of_it_and_one_that_reads_nothing_is_let_go() {
    let bridge = Bridge::start(&[&FLAGS[..], &["--max-queued-bytes", "64MiB"]].concat());
    let desk = Desk::on(&bridge);
    let joined = || {
        let mut stream = connected(&bridge, &RawClient::request(&bridge, &desk.id));
        stream.write_all(&RawClient::frame(0x81, register(&[ADD]).as_bytes())).expect("taken");
        let mut first = Vec::new();
        while !String::from_utf8_lossy(&first).contains("registered") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("it is accepted");
            first.push(byte[0]);
        }
        stream
    };
    let arguments = format!(r#"{{"x":"{}"}}"#, "y".repeat(2 * MIB));
    let calls = || -> Vec<_> {
        (0..8).map(|_| desk.begin(&Ask::call_old("1", "add", &arguments))).collect()
    };
    let mut slow = joined();
    let running = calls();
    let total = sips(&mut slow, 8 * arguments.len());
    assert!(total >= 8 * arguments.len(), "all of it, not {total} bytes");
    assert!(!bridge.log().contains("reads nothing"), "{}", bridge.log());
    drop((slow, running));

    let stalled = joined();
    let running = calls();
    let line = log_of(&bridge, "--body-timeout");
    assert!(line.contains("client reads nothing") && line.contains(&desk.id), "{line}");
    drop(stalled);
    for call in running {
        assert!(!call.finish().tool_error().is_empty());
    }
}

/// A bug: it was not read while it did not read, so one that wrote its answer first waited for ever, and
/// what it had to say to others waited behind calls that were not theirs.
#[test]
fn a_client_is_heard_while_it_does_not_read() {
    let bridge = Bridge::start(&["--max-queued-bytes", "64MiB", "--body-timeout", "5"]);
    let desk = Desk::on(&bridge);
    let mut client = RawClient::connect(&bridge, &desk.id);
    client.send_text(&register(&[ADD]));
    assert_eq!(client.next_message(SOON)["type"], "registered");
    let first = desk.begin(&Ask::call_old("1", "add", "{}"));
    let call = client.next_message(SOON);
    // More than the sockets take: the bridge has bytes for this client that it cannot be rid of.
    let large = format!(r#"{{"x":"{}"}}"#, "y".repeat(3 * MIB));
    let rest: Vec<_> = (0..5).map(|_| desk.begin(&Ask::call_old("2", "add", &large))).collect();
    std::thread::sleep(Duration::from_millis(500));

    let text = "r".repeat(3 * MIB);
    let result = json!({"type": "result", "id": call["id"], "result": {"content": [{"type": "text", "text": text}]}});
    client.send_text(&result.to_string());
    assert!(first.finish().text().contains(&text), "it did not have to read for that");

    // Pongs are kept for it, but not without an end.
    let ping = RawClient::frame(0x81, br#"{"type":"ping"}"#).repeat(1_000);
    let mut pings = 0;
    while client.http.try_send(&ping).is_ok() {
        pings += 1_000;
        assert!(pings < 2_000_000, "more than the sockets and what is kept hold");
    }
    drop(client);
    for call in rest {
        assert!(!call.finish().tool_error().is_empty());
    }
}
