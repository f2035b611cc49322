//! Where it listens (SPEC §3, §6): several addresses, a base path, metrics on their own address
//! only.

use std::net::SocketAddr;
use std::time::Duration;

use crate::extra::{ADD, Ask, Desk, register};
use crate::support::{Bridge, Request, Response};

fn get(bridge: &Bridge, addr: SocketAddr, path: &str) -> Response {
    let mut http = crate::support::Http::connect(addr);
    http.send(Request::get(&bridge.target(path)).bytes());
    http.read_response()
}

/// An address with a port that is free now, on a host of its own: on the one that all use, a connection
/// of another test could take the port before the bridge does.
fn free_address(host: &str) -> SocketAddr {
    let listener = std::net::TcpListener::bind((host, 0)).expect("a free port");
    listener.local_addr().expect("a bound address")
}

#[test]
fn every_address_named_is_served_and_announced() {
    let second = free_address("127.0.9.1");
    let bridge = Bridge::start(&["--listen", &second.to_string(), "--listen", "127.0.0.1:0"]);
    crate::support::eventually("three lines", Duration::from_secs(5), || {
        let lines = bridge.log_lines();
        let announced = lines.iter().filter(|l| l.contains("listening on http://")).count();
        (announced == 3).then_some(())
    });
    bridge.await_log(&format!("listening on http://{second}"), Duration::from_secs(1));
    let lines = bridge.log_lines();
    let announced = lines.iter().filter_map(|l| l.split_once("listening on http://"));
    let mut ports = Vec::new();
    for (_, addr) in announced {
        let addr: SocketAddr = addr.trim().parse().unwrap_or_else(|e| panic!("{addr:?}: {e}"));
        assert_ne!(addr.port(), 0, "the port it got, not the one asked for");
        assert_eq!(get(&bridge, addr, "/health").status, 200, "{addr}");
        ports.push(addr.port());
    }
    ports.sort();
    ports.dedup();
    assert_eq!(ports.len(), 3, "three addresses: {lines:?}");

    // One registry behind all of them.
    let desk = Desk::on(&bridge);
    let _client = desk.client(&register(&[ADD]));
    let mut elsewhere = Bridge::at(&format!("http://{second}"));
    elsewhere.addr = second;
    let answer = desk.moved(&elsewhere).send(&Ask::old("1", "tools/list", "{}"));
    assert_eq!(answer.json()["result"]["tools"][0]["name"], "add", "{answer}");
}

#[test]
fn a_base_path_is_before_every_route() {
    for base in ["/x", "/deep/er"] {
        let bridge = Bridge::start(&["--base-path", base]);
        for path in ["/health", "/mcp", "/connect"] {
            let answer = get(&bridge, bridge.addr, path);
            assert_eq!(answer.status, 404, "{base}: {path} without it: {answer:?}");
        }
        let bridge = bridge.under(base);
        assert_eq!(get(&bridge, bridge.addr, "/health").status, 200, "{base}");
        let desk = Desk::on(&bridge);
        let mut client = desk.client(&register(&[ADD]));
        let running = desk.begin(&Ask::call_old("1", "add", "{}"));
        let call = client.call();
        client.answers(&call.id, r#"{"content":[]}"#);
        assert_eq!(running.finish().code(), None, "{base}");
    }
    let bridge = Bridge::start(&["--base-path", "/x"]);
    for path in ["/xy/health", "/x/x/health", "/X/health", "/xhealth", "/x"] {
        assert_eq!(get(&bridge, bridge.addr, path).status, 404, "{path}");
    }
}

#[test]
fn metrics_are_on_their_own_address_only() {
    let metrics = free_address("127.0.9.2");
    let bridge = Bridge::start(&["--metrics", &metrics.to_string()]);
    let desk = Desk::on(&bridge);
    let mut client = desk.client(&register(&[ADD]));
    let running = desk.begin(&Ask::call_old("1", "add", "{}"));
    let call = client.call();
    client.answers(&call.id, r#"{"content":[]}"#);
    running.finish();

    assert_eq!(get(&bridge, bridge.addr, "/metrics").status, 404, "not on the main address");
    let answer = get(&bridge, metrics, "/metrics");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.media_type(), "text/plain", "{answer:?}");
    let text = answer.text();
    let samples: Vec<&str> =
        text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')).collect();
    assert!(samples.len() >= 3, "some numbers: {text}");
    for sample in samples {
        let value = sample.rsplit(' ').next().unwrap_or_default();
        assert!(value.parse::<f64>().is_ok(), "a sample ends in a number: {sample:?}");
        assert!(!sample.contains(&desk.id), "no client ID as a label: {sample:?}");
    }
    for path in ["/mcp", "/connect", "/"] {
        assert_eq!(get(&bridge, metrics, path).status, 404, "{path} is not on the metrics address");
    }
}

#[test]
fn without_the_flag_there_are_no_metrics() {
    let bridge = Bridge::start(&[]);
    assert_eq!(get(&bridge, bridge.addr, "/metrics").status, 404);
}

#[test]
fn the_demo_page_needs_dev_and_a_loopback_host() {
    let bridge = Bridge::start(&[]);
    assert_eq!(get(&bridge, bridge.addr, "/demo").status, 404, "not without --dev");
    let bridge = Bridge::start(&["--dev"]);
    for (host, status) in [
        ("localhost", 200),
        ("localhost:8787", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8787", 200),
        ("evil.example", 404),
        ("localhost.evil.example", 404),
        ("127.0.0.1.evil.example", 404),
    ] {
        let answer = Request::get("/demo").set("Host", host).to(&bridge);
        let refused = status != 200 && (400..500).contains(&answer.status);
        assert!(answer.status == status || refused, "{host}: {answer:?}");
        if status != 200 {
            assert!(!answer.text().contains("eyJ"), "{host}: no token for it: {answer:?}");
        }
    }
}
