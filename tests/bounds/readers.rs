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
