//! What is thrown at the bridge, byte by byte, and the answer that SPEC.md has for it.
//!
//! Each row says what is sent on a connection of its own, how often, and which answers are right: an
//! HTTP status, or the code of a WebSocket close. Nothing here is sent by anyone honest. `soldier`
//! sends it.

use super::Rates;
use crate::wire::{self, ERA_2025, Scope, TEXT, frame, token};

/// One kind of attack.
#[derive(Debug)]
pub struct Weapon {
    pub name: &'static str,
    /// Sent at once; nothing where it begins as a client, each time with another client ID.
    pub first: Vec<u8>,
    /// Sent once the WebSocket is there.
    pub then: Vec<u8>,
    /// Sent one byte a second for as long as it lasts.
    pub drip: Vec<u8>,
    pub answers: &'static [&'static str],
    pub rate: Rate,
}

#[derive(Clone, Copy, Debug)]
pub enum Rate {
    /// So many new ones in a second.
    PerSecond(f64),
    /// So many at once: one that was refused is followed by another.
    AtOnce(usize),
}

/// All that have a connection for each shot. The attackers have good tokens, for clients of their own.
pub fn all(rates: &Rates) -> Result<Vec<Weapon>, String> {
    let agent = token("attacker", Scope::Agent)?;
    let client = token("attacker", Scope::Client)?;
    let mut all = malformed(rates.malformed, &agent);
    all.extend(oversized(rates.oversized, &agent));
    all.extend(deep(rates.deep, &agent));
    all.extend(slow(rates.slow, &agent));
    let mut bad = client.clone();
    bad.replace_range(bad.len() - 10.., "AAAAAAAAAA");
    all.push(Weapon {
        name: "bad token on /connect",
        first: wire::upgrade(&bad).into_bytes(),
        then: Vec::new(),
        drip: Vec::new(),
        answers: &["close 4401"],
        rate: Rate::PerSecond(rates.bad_clients),
    });
    Ok(all)
}

fn plain(
    name: &'static str,
    first: impl Into<Vec<u8>>,
    answers: &'static [&'static str],
    per_second: f64,
) -> Weapon {
    let (then, drip) = (Vec::new(), Vec::new());
    Weapon { name, first: first.into(), then, drip, answers, rate: Rate::PerSecond(per_second) }
}

/// Requests against RFC 9112, SPEC §8.
fn malformed(per_second: f64, agent: &str) -> Vec<Weapon> {
    let get = |lines: &str| format!("GET /health HTTP/1.1\r\n{lines}\r\n");
    let post = |lines: &str, body: &str| {
        format!(
            "POST /mcp HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {agent}\r\n\
             Content-Type: application/json\r\n{lines}\r\n{body}"
        )
    };
    let rows: Vec<(&str, Vec<u8>, &[&str])> = vec![
        ("bare LF", b"GET /health HTTP/1.1\nHost: a\n\n".to_vec(), &["400"]),
        ("no version", b"GET /health\r\n\r\n".to_vec(), &["400"]),
        ("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), &["505"]),
        ("TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(), &["400"]),
        ("no Host", get("").into(), &["400"]),
        ("two Hosts", get("Host: a\r\nHost: b\r\n").into(), &["400"]),
        ("folded header", get("Host: a\r\nX: 1\r\n 2\r\n").into(), &["400"]),
        ("space before the colon", get("Host: a\r\nX : 1\r\n").into(), &["400"]),
        ("NUL in a header", get("Host: a\r\nX: \0\r\n").into(), &["400"]),
        ("bytes over 0x7E", get("Host: a\r\nX: \u{e9}\r\n").into(), &["400"]),
        ("CONNECT", b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n".to_vec(), &["400"]),
        (
            "length and chunks",
            post("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n").into(),
            &["400"],
        ),
        ("two lengths", post("Content-Length: 2\r\nContent-Length: 3\r\n", "{}x").into(), &["400"]),
        ("negative length", post("Content-Length: -1\r\n", "{}").into(), &["400"]),
        ("unknown coding", post("Transfer-Encoding: gzip, chunked\r\n", "").into(), &["501"]),
        ("bad chunk size", post("Transfer-Encoding: chunked\r\n", "x\r\n").into(), &["400"]),
        ("no JSON", post("Content-Length: 4\r\n", "nope").into(), &["400"]),
        (
            "not UTF-8",
            [post("Content-Length: 3\r\n", "").as_bytes(), b"\"\xff\""].concat(),
            &["400"],
        ),
        (
            "wrong media type",
            post("Content-Type: text/html\r\nContent-Length: 2\r\n", "{}").into(),
            &["400", "415"],
        ),
        ("no route", b"GET /.env HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), &["404"]),
        (
            "wrong method",
            b"PUT /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".to_vec(),
            &["405"],
        ),
        ("no upgrade", b"GET /connect HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), &["426"]),
    ];
    let each = per_second / rows.len() as f64;
    rows.into_iter().map(|(name, first, answers)| plain(name, first, answers, each)).collect()
}

fn message(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame(TEXT, text.as_bytes(), &mut bytes);
    bytes
}

fn by_socket(
    name: &'static str,
    then: Vec<u8>,
    answers: &'static [&'static str],
    per_second: f64,
) -> Weapon {
    let first = Vec::new();
    Weapon { name, first, then, drip: Vec::new(), answers, rate: Rate::PerSecond(per_second) }
}

/// What is over a limit, SPEC §9.
fn oversized(per_second: f64, agent: &str) -> Vec<Weapon> {
    let post = |lines: &str| {
        format!(
            "POST /mcp HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {agent}\r\n\
             Content-Type: application/json\r\n{lines}\r\n"
        )
    };
    let mut chunks = post("Transfer-Encoding: chunked\r\n").into_bytes();
    for _ in 0..5 {
        chunks.extend(b"100000\r\n");
        chunks.extend(vec![b' '; 1 << 20]);
        chunks.extend(b"\r\n");
    }
    let get = |more: &str| format!("GET /health HTTP/1.1\r\nHost: a\r\n{more}\r\n");
    let many: String = (0..101).map(|at| format!("X-{at}: 1\r\n")).collect();
    let mut frame_head = Vec::new();
    frame(TEXT, &[], &mut frame_head);
    frame_head[1] = 0x80 | 127;
    frame_head.splice(2..2, (5u64 << 20).to_be_bytes());
    let tools: Vec<String> = (0..1001)
        .map(|at| format!(r#"{{"name":"t{at}","inputSchema":{{"type":"object"}}}}"#))
        .collect();
    let many_tools = format!(r#"{{"type":"register","tools":[{}]}}"#, tools.join(","));
    let large = "d".repeat(1 << 20);
    let large = format!(r#"{{"type":"register","instructions":"{large}"}}"#);
    let real = frame_head.iter().copied().chain(vec![b'a'; 5 << 20]).collect();
    // The last four are the dear ones.
    let (often, seldom) = (per_second / 8.0, per_second / 40.0);
    vec![
        plain("body of 5 MB announced", post("Content-Length: 5000000\r\n"), &["413"], often),
        plain("head of 20 KB", get(&format!("X: {}\r\n", "x".repeat(20_000))), &["431"], often),
        plain("102 header fields", get(&many), &["431"], often),
        plain(
            "target of 9 KB",
            format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(9000)),
            &["414"],
            often,
        ),
        by_socket("message of 5 MB announced", frame_head.clone(), &["close 1009"], often),
        plain("body of 5 MB in chunks", chunks, &["413"], seldom),
        by_socket("message of 5 MB", real, &["close 1009"], seldom),
        by_socket("register of 1 MB", message(&large), &["close 4400"], seldom),
        by_socket("1,001 definitions", message(&many_tools), &["close 4400"], seldom),
    ]
}

/// JSON that is deeper than the 512 levels that are allowed.
fn deep(per_second: f64, agent: &str) -> Vec<Weapon> {
    let deep = |bytes: usize| "[".repeat(bytes);
    let call = |arguments: String| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"x","arguments":{{"a":{arguments}}}}}}}"#
        )
    };
    let post = |body: &str| wire::post(agent, wire::ACCEPT_BOTH, ERA_2025, body);
    let closed = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let objects = format!("{}1{}", r#"{"a":"#.repeat(50_000), "}".repeat(50_000));
    let each = per_second / 5.0;
    vec![
        plain("1 MB of [", post(&deep(1 << 20)), &["400"], each),
        plain("arguments of 600 levels", post(&call(closed(600))), &["400"], each),
        plain("50,000 objects in each other", post(&call(objects)), &["400"], each),
        by_socket("message of 1 MB of [", message(&deep(1 << 20)), &["close 4400"], each),
        by_socket(
            "register of 600 levels",
            message(&format!(r#"{{"type":"register","x":{}}}"#, closed(600))),
            &["close 4400"],
            each,
        ),
    ]
}

/// Connections that are held and not used.
fn slow(at_once: usize, agent: &str) -> Vec<Weapon> {
    let share = |of_ten: usize| Rate::AtOnce(at_once * of_ten / 10);
    let body = format!(
        "POST /mcp HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {agent}\r\n\
         Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{"
    );
    let head = b"GET /health HTTP/1.1\r\nHost: a\r\nX-Slow: ";
    let (none, drip) = (Vec::new, vec![b'x'; 200]);
    let weapon = |name, first: Vec<u8>, drip, answers, rate| Weapon {
        name,
        first,
        then: Vec::new(),
        drip,
        answers,
        rate,
    };
    vec![
        weapon("a head of a byte a second", head.to_vec(), drip, &["408"], share(4)),
        weapon("a head that stops", head.to_vec(), none(), &["408"], share(2)),
        weapon("a body that stops", body.into_bytes(), none(), &["408"], share(2)),
        weapon("a client that does not register", none(), none(), &["close 4408"], share(2)),
    ]
}
