//! Malformed and unusual HTTP/1 on the wire, with the answer that RFC 9112 asks for.
//!
//! Three claims in each row: the status is right, the connection ends in order or goes on as
//! announced (never a reset that eats the answer), and the process is the same one afterwards. MCP
//! is used only as "a request that works".

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Agent, Bridge, Http, Request, SOON, Trouble, shown, unique};

/// What must be on the wire for a row.
#[derive(Clone, Copy, Debug)]
enum Wire {
    /// These statuses in order, and the connection is of use.
    Open(&'static [u16]),
    /// These statuses in order, and then the connection ends in order.
    Ends(&'static [u16]),
    /// One of these statuses; what happens to the connection is free, if it is no reset.
    OneOf(&'static [u16]),
    /// No success: a 400, or an end without a word. The request was cut short by us.
    Cut,
}
use Wire::{Cut, Ends, OneOf, Open};

const BAD: Wire = Ends(&[400]);

fn bridge() -> &'static Bridge {
    static BRIDGE: OnceLock<Bridge> = OnceLock::new();
    BRIDGE.get_or_init(|| Bridge::start(&[]))
}

fn ping() -> &'static str {
    r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#
}

/// A POST to the endpoint with a good token, these header lines, and these bytes after the head.
fn post(lines: &str, body: &[u8]) -> Vec<u8> {
    let agent = Agent::new(bridge(), &unique("http"));
    let request = agent.bare("POST").with("Content-Type", "application/json").bytes();
    let head = request.strip_suffix(b"\r\n").expect("a head ends with an empty line");
    [head, lines.as_bytes(), b"\r\n", body].concat()
}

/// A POST whose body is `ping`, framed by these header lines.
fn ping_with(lines: &str) -> Vec<u8> {
    post(lines, ping().as_bytes())
}

fn chunked(body: &str) -> Vec<u8> {
    post("Transfer-Encoding: chunked\r\n", body.as_bytes())
}

/// `ping` as one chunk with this size line and this after the data.
fn one_chunk(size_line: &str, after: &str) -> Vec<u8> {
    chunked(&format!("{size_line}{}{after}", ping()))
}

/// A POST to a path that is not ours, with these header lines and these bytes after the head.
fn to_nobody(lines: &str, body: &str) -> Vec<u8> {
    format!("POST /nobody HTTP/1.1\r\nHost: a\r\n{lines}\r\n{body}").into_bytes()
}

/// A GET of `/health` with these header lines.
fn get(lines: impl AsRef<[u8]>) -> Vec<u8> {
    [b"GET /health HTTP/1.1\r\nHost: a\r\n", lines.as_ref(), b"\r\n"].concat()
}

/// A request with this line.
fn line(line: &str) -> Vec<u8> {
    format!("{line}\r\nHost: a\r\n\r\n").into_bytes()
}

fn check(rows: Vec<(&str, Vec<u8>, Wire)>) {
    let bridge = bridge();
    let pid = bridge.pid();
    for (name, bytes, wire) in rows {
        let mut http = Http::connect(bridge.addr);
        // A refusal may come before all is written; then what matters is that it can still be read.
        let sent = http.try_send(&bytes);
        let fail = |what: String| -> ! {
            panic!("{name}: expected {wire:?}, {what}; sending gave {sent:?}; {}", shown(&bytes))
        };
        match wire {
            Open(statuses) | Ends(statuses) => {
                for status in statuses {
                    match http.try_response() {
                        Ok(response) if response.status == *status => {}
                        other => fail(format!("got {other:?}")),
                    }
                }
            }
            OneOf(statuses) => match http.try_response() {
                Ok(response) if statuses.contains(&response.status) => {}
                other => fail(format!("got {other:?}")),
            },
            Cut => {
                http.finish_sending();
                match http.try_response() {
                    Ok(response) if (400..500).contains(&response.status) => {}
                    Err(Trouble::Ended(rest)) if rest.is_empty() => {}
                    other => fail(format!("got {other:?}")),
                }
            }
        }
        match wire {
            Open(_) => {
                http.send(get(""));
                match http.try_response() {
                    Ok(response) if response.status == 200 => {}
                    other => fail(format!("then the next request got {other:?}")),
                }
            }
            Ends(_) => match http.rest(SOON) {
                Trouble::Ended(rest) if rest.is_empty() => {}
                other => fail(format!("then {other:?}")),
            },
            OneOf(_) | Cut => {
                if let Trouble::Reset(rest) = http.rest(Duration::from_millis(20)) {
                    fail(format!("then a reset after {}", shown(&rest)));
                }
            }
        }
        bridge.assert_well(name);
        assert_eq!(bridge.pid(), pid);
    }
}

#[test]
fn bodies_are_delimited_as_rfc_9112_says_or_refused() {
    let n = ping().len();
    let length = format!("Content-Length: {n}\r\n");
    let tricky = format!("{length}Transfer-Encoding: chunked\r\n");
    check(vec![
        ("a length", ping_with(&length), Open(&[200])),
        (
            "in lower case with tabs",
            ping_with(&format!("content-length:\t{n} \t\r\n")),
            Open(&[200]),
        ),
        ("length and chunked", post(&tricky, b"0\r\n\r\n"), BAD),
        ("two differing lengths", ping_with(&format!("{length}Content-Length: 1\r\n")), BAD),
        ("two equal lengths", ping_with(&format!("{length}{length}")), BAD),
        ("a list of lengths", ping_with(&format!("Content-Length: {n}, {n}\r\n")), BAD),
        ("a plus", ping_with(&format!("Content-Length: +{n}\r\n")), BAD),
        ("a minus", ping_with("Content-Length: -1\r\n"), BAD),
        ("hexadecimal", ping_with("Content-Length: 0x28\r\n"), BAD),
        ("an empty length", ping_with("Content-Length:\r\n"), BAD),
        ("2^63", ping_with("Content-Length: 9223372036854775808\r\n"), OneOf(&[400, 413])),
        ("2^64", ping_with("Content-Length: 18446744073709551616\r\n"), OneOf(&[400, 413])),
        ("a space before the colon", ping_with(&format!("Content-Length : {n}\r\n")), BAD),
        ("a body cut short", post("Content-Length: 500\r\n", b"{"), Cut),
        // An empty body is no JSON.
        ("no length at all", post("", b""), Open(&[400])),
        ("a length of zero", post("Content-Length: 0\r\n", b""), Open(&[400])),
        ("gzip, chunked", post("Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"), Ends(&[501])),
        ("identity", post("Transfer-Encoding: identity\r\n", b""), Ends(&[501])),
        ("xchunked", post("Transfer-Encoding: xchunked\r\n", b""), Ends(&[501])),
        (
            "chunked, then identity",
            post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", b"0\r\n\r\n"),
            BAD,
        ),
        ("chunked twice", post("Transfer-Encoding: chunked, chunked\r\n", b"0\r\n\r\n"), BAD),
        ("an empty coding", post("Transfer-Encoding:\r\n", b""), BAD),
        ("VT before chunked", post("Transfer-Encoding: \x0bchunked\r\n", b"0\r\n\r\n"), BAD),
        (
            "chunked in HTTP/1.0",
            b"POST /mcp HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_vec(),
            BAD,
        ),
        (
            "a body nobody reads",
            [get("Content-Length: 4\r\n"), b"body".to_vec()].concat(),
            Open(&[200]),
        ),
        ("a body for nobody", to_nobody("Content-Length: 4\r\n", "body"), Open(&[404])),
        (
            "a chunked body for nobody",
            to_nobody("Transfer-Encoding: chunked\r\n", "4\r\nbody\r\n0\r\n\r\n"),
            Ends(&[404]),
        ),
        ("a body that is no JSON", post("Content-Length: 1\r\n", b"{"), Open(&[400])),
        (
            "a tab before chunked",
            post("Transfer-Encoding:\tchunked\r\n", b"0\r\n\r\n"),
            Open(&[400]),
        ),
    ]);
}

#[test]
fn chunked_bodies_are_read_strictly() {
    let size = format!("{:x}\r\n", ping().len());
    let big = format!("{:X}\r\n", ping().len());
    let (a, b) = ping().split_at(5);
    let rest = b.len();
    check(vec![
        ("one chunk", one_chunk(&size, "\r\n0\r\n\r\n"), Open(&[200])),
        ("a size in capitals", one_chunk(&big, "\r\n0\r\n\r\n"), Open(&[200])),
        ("leading zeros", one_chunk(&format!("000{size}"), "\r\n00\r\n\r\n"), Open(&[200])),
        ("two chunks", chunked(&format!("5\r\n{a}\r\n{rest:x}\r\n{b}\r\n0\r\n\r\n")), Open(&[200])),
        ("trailers", one_chunk(&size, "\r\n0\r\nA: b\r\nContent-Length: 9\r\n\r\n"), Open(&[200])),
        (
            "extensions",
            one_chunk(&size.replace('\r', ";a;b=c;d=\"e;\\\"\"\r"), "\r\n0;x\r\n\r\n"),
            Open(&[200]),
        ),
        ("an empty size", chunked("\r\n\r\n"), BAD),
        ("0x", one_chunk(&format!("0x{size}"), "\r\n0\r\n\r\n"), BAD),
        ("a plus", one_chunk(&format!("+{size}"), "\r\n0\r\n\r\n"), BAD),
        ("a minus", chunked("-1\r\n{\r\n0\r\n\r\n"), BAD),
        ("no number", chunked("xyz\r\n"), BAD),
        ("2^64", chunked("10000000000000000\r\n"), OneOf(&[400, 413])),
        ("2^64 - 1", chunked("ffffffffffffffff\r\n"), OneOf(&[400, 413])),
        ("a bare LF after the size", one_chunk(&size.replace('\r', ""), "\r\n0\r\n\r\n"), BAD),
        ("a bare LF after the data", one_chunk(&size, "\n0\r\n\r\n"), BAD),
        ("a bare LF at the end", one_chunk(&size, "\r\n0\r\n\n"), BAD),
        ("more data than said", one_chunk("5\r\n", "\r\n0\r\n\r\n"), BAD),
        ("a trailer without a colon", one_chunk(&size, "\r\n0\r\nA\r\n\r\n"), BAD),
        ("a folded trailer", one_chunk(&size, "\r\n0\r\nA: b\r\n c\r\n\r\n"), BAD),
        ("cut in the size", chunked("2"), Cut),
        ("cut in the data", one_chunk("ff\r\n", ""), Cut),
        ("cut before the last chunk", one_chunk(&size, "\r\n"), Cut),
        ("cut after the last chunk", one_chunk(&size, "\r\n0\r\n"), Cut),
    ]);
}

#[test]
fn a_chunked_body_may_come_in_any_pieces() {
    let size = format!("{:x}\r\n", ping().len());
    let bytes = one_chunk(&size, "\r\n0\r\nA: b\r\n\r\n");
    let body = bytes.len() - ping().len() - 30;
    for cut in body..bytes.len() {
        let mut http = Http::connect(bridge().addr);
        http.send(&bytes[..cut]);
        std::thread::sleep(Duration::from_millis(2)); // so that the pieces are two reads
        http.send(&bytes[cut..]);
        assert_eq!(http.read_response().status, 200, "cut at {cut} of {}", bytes.len());
    }
}

#[test]
fn request_lines_are_read_strictly() {
    check(vec![
        ("the origin form", line("GET /health HTTP/1.1"), Open(&[200])),
        ("the absolute form", line("GET http://a/health HTTP/1.1"), Open(&[200])),
        ("the absolute form, another host", line("GET http://b:80/health HTTP/1.1"), Open(&[200])),
        ("the absolute form, no path", line("GET http://a HTTP/1.1"), Open(&[404])),
        ("a later 1.x", line("GET /health HTTP/1.2"), Open(&[200])),
        ("%00", line("GET /%00 HTTP/1.1"), Open(&[404])),
        ("dots are not resolved", line("GET /x/../health HTTP/1.1"), Open(&[404])),
        ("two slashes", line("GET //health HTTP/1.1"), Open(&[404])),
        ("a method of no meaning", line("BREW /mcp HTTP/1.1"), Open(&[405])),
        ("a method in lower case", line("get /health HTTP/1.1"), Open(&[405])),
        ("OPTIONS *", line("OPTIONS * HTTP/1.1"), Open(&[404])),
        ("CONNECT", line("CONNECT a:80 HTTP/1.1"), BAD),
        ("GET *", line("GET * HTTP/1.1"), BAD),
        ("a relative path", line("GET health HTTP/1.1"), BAD),
        ("another scheme", line("GET ftp://a/health HTTP/1.1"), BAD),
        ("a fragment", line("GET /health#x HTTP/1.1"), BAD),
        ("a tab in the target", line("GET /a\tb HTTP/1.1"), BAD),
        ("a space in the target", line("GET /a b HTTP/1.1"), BAD),
        ("a target beyond ASCII", line("GET /é HTTP/1.1"), BAD),
        ("NUL in the target", line("GET /\0 HTTP/1.1"), BAD),
        ("tabs for spaces", line("GET\t/health\tHTTP/1.1"), BAD),
        ("two spaces", line("GET  /health HTTP/1.1"), BAD),
        ("a space after it", line("GET /health HTTP/1.1 "), BAD),
        ("no version", line("GET /health"), BAD),
        ("half a version", line("GET /health HTTP/1"), BAD),
        ("a version in lower case", line("GET /health http/1.1"), BAD),
        ("HTTP/2.0", line("GET /health HTTP/2.0"), Ends(&[505])),
        ("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), Ends(&[505])),
        ("a leading CRLF", [b"\r\n".to_vec(), get("")].concat(), Open(&[200])),
        ("two of them", [b"\r\n\r\n".to_vec(), get("")].concat(), BAD),
        ("bare LFs", b"GET /health HTTP/1.1\nHost: a\n\n".to_vec(), BAD),
        ("bare CRs", b"GET /health HTTP/1.1\rHost: a\r\r".to_vec(), BAD),
        ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), BAD),
        ("noise", (0..=255).collect(), BAD),
    ]);
}

#[test]
fn header_lines_are_read_strictly() {
    let one = |line: &str| get(format!("{line}\r\n"));
    check(vec![
        ("an empty value", one("A:"), Open(&[200])),
        ("a tab in a value", one("A: b\tc"), Open(&[200])),
        ("obs-fold", one("A: b\r\n c"), BAD),
        ("a fold at once", b"GET /health HTTP/1.1\r\n Host: a\r\n\r\n".to_vec(), BAD),
        ("NUL in a value", one("A: \0"), BAD),
        ("ESC in a value", one("A: \x1b[1m"), BAD),
        ("a bare CR in a value", one("A: b\rc"), BAD),
        ("a bare LF in a value", one("A: b\nC: d"), BAD),
        ("NUL in a name", one("A\0: b"), BAD),
        ("UTF-8 in a value", one("A: é"), BAD),
        ("UTF-8 in a name", one("é: b"), BAD),
        ("Latin-1 in a value", get(b"A: \xe9\r\n"), BAD),
        ("a space before the colon", one("A : b"), BAD),
        ("a space in a name", one("A b: c"), BAD),
        ("no colon", one("Ab"), BAD),
        ("no name", one(": b"), BAD),
        ("Expect of something else", one("Expect: 200-ok"), Ends(&[417])),
        ("Connection: close", one("Connection: close"), Ends(&[200])),
        ("close among others", one("Connection: x , Close"), Ends(&[200])),
        ("close on a second line", one("Connection: x\r\nConnection: close"), Ends(&[200])),
        ("keep-alive", one("Connection: keep-alive"), Open(&[200])),
        ("close as part of a word", one("Connection: closed"), Open(&[200])),
    ]);
}

#[test]
fn a_request_has_exactly_one_good_host() {
    let hosts = |lines: &str| format!("GET /health HTTP/1.1\r\n{lines}\r\n").into_bytes();
    let mut rows = vec![
        ("none", hosts(""), BAD),
        ("two", hosts("Host: a\r\nHost: b\r\n"), BAD),
        ("the same twice", hosts("Host: a\r\nHost: a\r\n"), BAD),
        ("the absolute form without one", b"GET http://a/health HTTP/1.1\r\n\r\n".to_vec(), BAD),
    ];
    for good in ["a", "a.b:80", "127.0.0.1:1", "[::1]:80", "xn--a", "a_b"] {
        rows.push((good, hosts(&format!("Host: {good}\r\n")), Open(&[200])));
    }
    for bad in ["", "a b", "a/b", "a?b", "a#b", "u@a", "a:b", "a:80:80", "a:65536", "[::1", "a, b"]
    {
        rows.push((bad, hosts(&format!("Host: {bad}\r\n")), BAD));
    }
    check(rows);
}

#[test]
fn http_1_0_is_served_and_closed() {
    check(vec![
        ("without Host", b"GET /health HTTP/1.0\r\n\r\n".to_vec(), Ends(&[200])),
        ("with Host", b"GET /health HTTP/1.0\r\nHost: a\r\n\r\n".to_vec(), Ends(&[200])),
        ("with two", b"GET /health HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n".to_vec(), BAD),
    ]);
}

#[test]
fn heads_are_limited_in_bytes_and_lines() {
    let filled = |bytes: usize| {
        let empty = get("X: \r\n").len();
        get(format!("X: {}\r\n", "x".repeat(bytes - empty)))
    };
    let lines = |n: usize| get("A: b\r\n".repeat(n - 1));
    let target = |n: usize| line(&format!("GET /{} HTTP/1.1", "x".repeat(n)));
    check(vec![
        ("9 KiB", filled(9 * 1024), Open(&[200])),
        ("16 KiB", filled(16 * 1024), Open(&[200])),
        ("one byte more", filled(16 * 1024 + 1), Ends(&[431])),
        ("64 KiB", filled(64 * 1024), Ends(&[431])),
        ("64 KiB without a line's end", vec![b'x'; 64 * 1024], OneOf(&[400, 414, 431])),
        ("64 KiB of target", target(64 * 1024), OneOf(&[414, 431])),
        ("100 lines", lines(100), Open(&[200])),
        ("101 lines", lines(101), Ends(&[431])),
        ("1,000 lines", lines(1000), Ends(&[431])),
    ]);
}

#[test]
fn a_line_without_end_is_refused_and_costs_no_memory() {
    let bridge = Bridge::start(&[]);
    let before = bridge.resident_bytes();
    let chunked = |start: &str| {
        format!("GET /health HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{start}")
    };
    for (start, filler) in [
        ("GET /".to_owned(), b'x'),
        ("GET /health HTTP/1.1\r\nHost: a\r\nX: ".to_owned(), b'x'),
        (chunked(""), b'0'),
        (chunked("1;x="), b'y'),
        (chunked("0\r\nX: "), b'x'),
    ] {
        let mut http = Http::connect(bridge.addr);
        http.send(&start);
        let flood = vec![filler; 64 * 1024];
        // What comes after the refusal may be read and dropped for 2 s, not for ever and not kept.
        let deadline = Instant::now() + SOON;
        while http.try_send(&flood).is_ok() {
            assert!(Instant::now() < deadline, "{start:?}: listened to for {SOON:?}");
        }
    }
    let grown = bridge.resident_bytes().saturating_sub(before);
    assert!(grown < 4 * 1024 * 1024, "grew by {grown} bytes");
    bridge.assert_well("endless lines");
}

#[test]
fn expect_100_is_answered_when_the_body_is_wanted() {
    let length = format!("Content-Length: {}\r\nExpect: 100-continue\r\n", ping().len());
    let mut http = Http::connect(bridge().addr);
    http.send(post(&length, b""));
    let head = http.read_head();
    assert_eq!(head.status, 100, "{head:?}");
    http.send(ping());
    let response = http.read_response();
    assert_eq!(response.status, 200, "{response:?}");

    // The body is there already: RFC 9110 §10.1.1 allows to leave the 100 out, not to wait for
    // more.
    let mut http = Http::connect(bridge().addr);
    http.send(post(&length, ping().as_bytes()));
    assert_eq!(http.read_response().status, 200);

    // A request that is refused by its head gets no 100 first.
    let refused = String::from_utf8(post(&length, b"")).expect("ASCII");
    let refused = refused.replace("Bearer ", "Bearer x");
    let mut http = Http::connect(bridge().addr);
    http.send(refused);
    let head = http.read_head();
    assert_eq!(head.status, 401, "{head:?}");
}

#[test]
fn refusals_of_the_framing_say_why_in_words_and_close() {
    for (name, bytes, status) in [
        ("no host", b"GET /health HTTP/1.1\r\n\r\n".to_vec(), 400),
        ("no version we know", line("GET / HTTP/2.0"), 505),
        ("an unknown coding", post("Transfer-Encoding: gzip\r\n", b""), 501),
    ] {
        let mut http = Http::connect(bridge().addr);
        http.send(bytes);
        let response = http.read_response();
        assert_eq!(response.status, status, "{name}: {response:?}");
        assert!(response.says_close(), "{name}: {response:?}");
        assert!(response.text().len() > 10, "{name}: {response:?}");
        http.expects_end();
    }
}

#[test]
fn every_response_is_framed_and_dated() {
    let agent = Agent::new(bridge(), &unique("date"));
    for (name, request) in [
        ("health", Request::get("/health")),
        ("a result", agent.legacy_request("ping", json!({}))),
        ("no token", Request::post("/mcp").json(&json!({}))),
        ("not found", Request::get("/nope")),
        ("a wrong method", Request::new("PUT", "/mcp")),
    ] {
        let response = request.to(bridge());
        assert_eq!(response.version, "HTTP/1.1", "{name}: {response:?}");
        let length = response.header("content-length").map(str::to_owned);
        assert_eq!(length, Some(response.body.len().to_string()), "{name}: {response:?}");
        // RFC 9110 §6.6.1: a server with a clock must.
        let date = response.header("date").unwrap_or_default();
        assert!(date.len() == 29 && date.ends_with(" GMT"), "{name}: {response:?}");
    }
}
