//! A small connection that frames whatever it is sent, and tables of what must come of it. Every row
//! is sent whole, byte by byte and in pieces of seven, and with a second request right behind.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::limits::{CHUNK_LINE_BYTES_MAX, HEAD_BYTES_MAX, HEADERS_MAX, TRAILER_BYTES_MAX};

const LIMITS: Limits = Limits { head_bytes_max: HEAD_BYTES_MAX, headers_max: HEADERS_MAX };
const BODY_MAX: usize = 100;
const NEXT: &str = "GET /next HTTP/1.1\r\nHost: n\r\n\r\n";
const NEXT_SEEN: &str = "GET /next";

/// What came of `bytes`, sent in pieces of `step` and ended: one entry for each request, then the
/// status of a refusal, or "cut" where the end came within a request.
fn serve(bytes: &[u8], step: usize) -> Vec<String> {
    let mut seen = Vec::new();
    let (mut buf, mut out) = (Vec::new(), Vec::new());
    let mut reader = HeadReader::default();
    let mut body: Option<(String, BodyDecoder)> = None;
    for piece in bytes.chunks(step) {
        buf.extend_from_slice(piece);
        loop {
            let refused = match &mut body {
                None => match reader.read(&buf, &LIMITS) {
                    Ok(None) => break,
                    Ok(Some(head)) => {
                        let line = format!("{} {}", head.method(&buf), head.target(&buf));
                        let decoder = BodyDecoder::new(head.body, BODY_MAX);
                        buf.drain(..head.bytes);
                        reader = HeadReader::default();
                        decoder.map(|decoder| body = Some((line, decoder)))
                    }
                    Err(refusal) => Err(refusal),
                },
                Some((_, decoder)) => decoder.feed(&buf, &mut out).map(|used| {
                    buf.drain(..used);
                }),
            };
            if let Err(refusal) = refused {
                assert!(refusal.message.ends_with('.'), "a sentence: {}", refusal.message);
                seen.push(refusal.status.to_string());
                return seen;
            }
            match body.take_if(|(_, decoder)| decoder.done()) {
                Some((line, _)) => {
                    let content = String::from_utf8_lossy(&core::mem::take(&mut out)).into_owned();
                    seen.push(if content.is_empty() { line } else { format!("{line} {content}") });
                }
                None if body.is_some() && buf.is_empty() => break,
                None => {}
            }
        }
    }
    if body.is_some() || !buf.is_empty() {
        seen.push("cut".to_string());
    }
    seen
}

/// Sends `request` in every way, alone and followed by another, and compares.
fn check(name: &str, request: &[u8], expected: &[&str]) {
    let followed = [request, NEXT.as_bytes()].concat();
    for step in [usize::MAX, 1, 7] {
        assert_eq!(serve(request, step), expected, "{name}, in pieces of {step}");
        let is_refused = expected.last().is_some_and(|last| last.len() == 3);
        let mut expected = expected.to_vec();
        if !is_refused {
            expected.push(NEXT_SEEN);
            assert_eq!(serve(&followed, step), expected, "{name}, followed, in pieces of {step}");
        }
    }
}

fn post(fields: &str, body: &str) -> Vec<u8> {
    format!("POST /mcp HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}").into_bytes()
}

fn get(fields: &str) -> Vec<u8> {
    format!("GET /mcp HTTP/1.1\r\nHost: a\r\n{fields}\r\n").into_bytes()
}

fn line(line: &str) -> Vec<u8> {
    format!("{line}\r\nHost: a\r\n\r\n").into_bytes()
}

fn chunked(body: &str) -> Vec<u8> {
    post("Transfer-Encoding: chunked\r\n", body)
}

#[test]
fn bodies_are_delimited_as_rfc_9112_says_or_refused() {
    let seen = "POST /mcp hello";
    let rows: &[(&str, Vec<u8>, &[&str])] = &[
        ("length", post("Content-Length: 5\r\n", "hello"), &[seen]),
        ("length, lower case, tabs", post("content-length:\t5 \t\r\n", "hello"), &[seen]),
        ("length, leading zeros", post("Content-Length: 0005\r\n", "hello"), &[seen]),
        ("length zero", post("Content-Length: 0\r\n", ""), &["POST /mcp"]),
        ("no length", post("", ""), &["POST /mcp"]),
        (
            "length at the limit",
            post("Content-Length: 100\r\n", &"x".repeat(100)),
            &[&format!("POST /mcp {}", "x".repeat(100))],
        ),
        ("length over the limit", post("Content-Length: 101\r\n", "x"), &["413"]),
        ("length, cut short", post("Content-Length: 5\r\n", "hell"), &["cut"]),
        (
            "body on GET",
            [get("Content-Length: 5\r\n"), b"hello".to_vec()].concat(),
            &["GET /mcp hello"],
        ),
        (
            "CL + TE",
            post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
            &["400"],
        ),
        (
            "TE + CL",
            post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"),
            &["400"],
        ),
        (
            "two CL, differing",
            post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello"),
            &["400"],
        ),
        ("two CL, the same", post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), &["400"]),
        ("CL list", post("Content-Length: 5, 5\r\n", "hello"), &["400"]),
        ("CL empty", post("Content-Length:\r\n", "hello"), &["400"]),
        ("CL +5", post("Content-Length: +5\r\n", "hello"), &["400"]),
        ("CL -1", post("Content-Length: -1\r\n", "hello"), &["400"]),
        ("CL 0x5", post("Content-Length: 0x5\r\n", "hello"), &["400"]),
        ("CL 5.0", post("Content-Length: 5.0\r\n", "hello"), &["400"]),
        ("CL 5 5", post("Content-Length: 5 5\r\n", "hello"), &["400"]),
        ("CL 2^63", post("Content-Length: 9223372036854775808\r\n", "hello"), &["413"]),
        ("CL 2^64 - 1", post("Content-Length: 18446744073709551615\r\n", "hello"), &["413"]),
        ("CL 2^64", post("Content-Length: 18446744073709551616\r\n", "hello"), &["400"]),
        ("CL, space before colon", post("Content-Length : 5\r\n", "hello"), &["400"]),
        ("TE gzip, chunked", post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), &["501"]),
        ("TE identity", post("Transfer-Encoding: identity\r\n", ""), &["501"]),
        ("TE xchunked", post("Transfer-Encoding: xchunked\r\n", ""), &["501"]),
        ("TE chunked;q=1", post("Transfer-Encoding: chunked;q=1\r\n", ""), &["501"]),
        ("TE quoted", post("Transfer-Encoding: \"chunked\"\r\n", ""), &["501"]),
        ("TE chunked, gzip", post("Transfer-Encoding: chunked, gzip\r\n", ""), &["400"]),
        ("TE chunked, chunked", post("Transfer-Encoding: chunked, chunked\r\n", ""), &["400"]),
        ("TE empty", post("Transfer-Encoding: \r\n", ""), &["400"]),
        ("TE commas", post("Transfer-Encoding: , ,\r\n", ""), &["400"]),
        (
            "two TE, chunked and identity",
            post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", ""),
            &["400"],
        ),
        (
            "two TE, identity and chunked",
            post("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", ""),
            &["501"],
        ),
        (
            "TE in HTTP/1.0",
            b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_vec(),
            &["400"],
        ),
        ("TE, VT before chunked", post("Transfer-Encoding: \x0bchunked\r\n", ""), &["400"]),
    ];
    for (name, request, expected) in rows {
        check(name, request, expected);
    }
}

#[test]
fn chunked_bodies_are_read_strictly() {
    let seen = "POST /mcp hello";
    let too_long = format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(CHUNK_LINE_BYTES_MAX));
    let rows: &[(&str, &str, &[&str])] = &[
        ("one chunk", "5\r\nhello\r\n0\r\n\r\n", &[seen]),
        ("several", "2\r\nhe\r\n1\r\nl\r\n2\r\nlo\r\n0\r\n\r\n", &[seen]),
        ("nothing", "0\r\n\r\n", &["POST /mcp"]),
        (
            "hexadecimal, both cases",
            "a\r\n0123456789\r\nA\r\n0123456789\r\n00\r\n\r\n",
            &["POST /mcp 01234567890123456789"],
        ),
        (
            "CRLF is data within a chunk",
            "7\r\n0\r\n\r\nhi\r\n0\r\n\r\n",
            &["POST /mcp 0\r\n\r\nhi"],
        ),
        ("trailers", "5\r\nhello\r\n0\r\nA: b\r\nContent-Length: 9\r\n\r\n", &[seen]),
        ("extension", "5;a\r\nhello\r\n0;b=c\r\n\r\n", &[seen]),
        ("extensions, blanks, quotes", "5 ; a = \"x;\\\"\" ;b\r\nhello\r\n0\r\n\r\n", &[seen]),
        ("leading zeros", "000000000000000000005\r\nhello\r\n0\r\n\r\n", &[seen]),
        (
            "at the limit",
            &format!("64\r\n{}\r\n0\r\n\r\n", "x".repeat(100)),
            &[&format!("POST /mcp {}", "x".repeat(100))],
        ),
        ("over the limit in one", "65\r\n", &["413"]),
        ("over the limit in two", &format!("64\r\n{}\r\n1\r\n", "x".repeat(100)), &["413"]),
        ("size 2^64 - 1", "ffffffffffffffff\r\n", &["413"]),
        ("size 2^64", "10000000000000000\r\n", &["400"]),
        ("size empty", "\r\n\r\n", &["400"]),
        ("size empty, extension", ";a\r\n\r\n", &["400"]),
        ("size 0x3f", "0x3f\r\n", &["400"]),
        ("size +5", "+5\r\nhello\r\n0\r\n\r\n", &["400"]),
        ("size -0", "-0\r\n\r\n", &["400"]),
        ("size g", "g\r\n", &["400"]),
        ("size with a blank before", " 5\r\nhello\r\n0\r\n\r\n", &["400"]),
        ("size with a blank behind", "5 \r\nhello\r\n0\r\n\r\n", &["400"]),
        ("size 1_0", "1_0\r\n", &["400"]),
        ("size, bare LF", "5\nhello\r\n0\r\n\r\n", &["400"]),
        ("size, bare CR", "5\rhello\r\n0\r\n\r\n", &["400"]),
        ("size, two CR", "5\r\r\nhello\r\n0\r\n\r\n", &["400"]),
        ("extension without a name", "5;\r\nhello\r\n0\r\n\r\n", &["400"]),
        ("extension without a value", "5;a=\r\nhello\r\n0\r\n\r\n", &["400"]),
        ("extension, open quote", "5;a=\"x\\\"\r\nhello\r\n0\r\n\r\n", &["400"]),
        ("extension, bare LF in quotes", "5;a=\"\n\"\r\nhello\r\n0\r\n\r\n", &["400"]),
        ("extension too long", &too_long, &["400"]),
        ("more data than the size says", "4\r\nhello\r\n0\r\n\r\n", &["400"]),
        ("less data than the size says", "6\r\nhello\r\n0\r\n\r\n", &["400"]),
        ("data, then bare LF", "5\r\nhello\n0\r\n\r\n", &["400"]),
        ("data, then bare CR", "5\r\nhello\r0\r\n\r\n", &["400"]),
        ("trailer, bare LF", "0\r\nA: b\n\r\n", &["400"]),
        ("trailer without a colon", "0\r\nAb\r\n\r\n", &["400"]),
        ("trailer, folded", "0\r\nA: b\r\n c\r\n\r\n", &["400"]),
        ("trailer, space before colon", "0\r\nA : b\r\n\r\n", &["400"]),
        ("trailer, not ASCII", "0\r\nA: \u{e9}\r\n\r\n", &["400"]),
        ("trailer, NUL", "0\r\nA: \0\r\n\r\n", &["400"]),
        ("end, bare LF", "0\r\n\n", &["400"]),
        ("cut in a size", "5", &["cut"]),
        ("cut in data", "5\r\nhel", &["cut"]),
        ("cut behind data", "5\r\nhello", &["cut"]),
        ("cut before the last chunk", "5\r\nhello\r\n", &["cut"]),
        ("cut in the last chunk", "0", &["cut"]),
        ("cut behind the last chunk", "0\r\n", &["cut"]),
        ("cut in the last line's end", "0\r\n\r", &["cut"]),
        ("cut in a trailer", "0\r\nA: b\r\n", &["cut"]),
    ];
    for (name, body, expected) in rows {
        check(name, &chunked(body), expected);
    }
}

#[test]
fn a_cut_chunked_body_is_never_complete_wherever_it_is_cut() {
    let whole = b"3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nA: b\r\n\r\n";
    for cut in 0..whole.len() {
        let mut decoder =
            BodyDecoder::new(BodyKind::Chunked, BODY_MAX).expect("no length, no limit");
        let mut out = Vec::new();
        assert_eq!(decoder.feed(&whole[..cut], &mut out), Ok(cut));
        assert!(!decoder.done(), "cut at {cut}");
        assert_eq!(decoder.feed(&whole[cut..], &mut out), Ok(whole.len() - cut));
        assert!(decoder.done() && out == b"abcde", "cut at {cut}");
        assert_eq!(decoder.feed(b"GET", &mut out), Ok(0), "what follows is not the body's");
    }
}

#[test]
fn chunk_lines_and_trailers_are_bounded() {
    for (extra, fits) in [(-1, true), (0, true), (1, false)] {
        let length = CHUNK_LINE_BYTES_MAX.checked_add_signed(extra).expect("small");
        let size_line = format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(length - 2));
        let expected = if fits { "POST /mcp hello" } else { "400" };
        check("size line", &chunked(&size_line), &[expected]);

        // The section: one line, its CRLF, and the last CRLF.
        let length = TRAILER_BYTES_MAX.checked_add_signed(extra).expect("small");
        let trailers = format!("0\r\nA: {}\r\n\r\n", "x".repeat(length - 7));
        let expected = if fits { "POST /mcp" } else { "431" };
        check("one trailer", &chunked(&trailers), &[expected]);
    }
    let many = format!("0\r\n{}\r\n", "A: b\r\n".repeat(TRAILER_BYTES_MAX / 6 + 1));
    check("many trailers", &chunked(&many), &["431"]);
    let endless = format!("0\r\nA: {}", "x".repeat(TRAILER_BYTES_MAX));
    check("a trailer without end", &chunked(&endless), &["431"]);
    check("a size without end", &chunked(&"0".repeat(CHUNK_LINE_BYTES_MAX + 1)), &["400"]);
}

#[test]
fn request_lines_are_read_strictly() {
    let rows: &[(&str, Vec<u8>, &[&str])] = &[
        ("origin form", line("GET /a?b=c&d HTTP/1.1"), &["GET /a?b=c&d"]),
        ("two slashes", line("GET //a HTTP/1.1"), &["GET //a"]),
        ("%00 path", line("GET /%00 HTTP/1.1"), &["GET /%00"]),
        ("path ..", line("GET /a/../b HTTP/1.1"), &["GET /a/../b"]),
        ("unknown method", line("BREW /pot HTTP/1.1"), &["BREW /pot"]),
        ("lower-case method", line("get / HTTP/1.1"), &["get /"]),
        ("odd token", line("!#$%&'*+-.^_`|~9 / HTTP/1.1"), &["!#$%&'*+-.^_`|~9 /"]),
        ("absolute form", line("GET http://b/p?q HTTP/1.1"), &["GET /p?q"]),
        ("absolute form, https", line("GET HTTPS://b:1/p HTTP/1.1"), &["GET /p"]),
        ("absolute form, no path", line("GET http://b HTTP/1.1"), &["GET /"]),
        ("absolute form, query only", line("GET http://b?q HTTP/1.1"), &["GET /"]),
        ("absolute form, IPv6", line("GET http://[::1]:80/p HTTP/1.1"), &["GET /p"]),
        ("absolute form, no host", line("GET http:///p HTTP/1.1"), &["400"]),
        ("absolute form, bad host", line("GET http://a_<>/p HTTP/1.1"), &["400"]),
        ("absolute form, user", line("GET http://u@b/p HTTP/1.1"), &["400"]),
        ("absolute form, other scheme", line("GET ftp://b/p HTTP/1.1"), &["400"]),
        ("absolute form without Host", b"GET http://b/p HTTP/1.1\r\n\r\n".to_vec(), &["400"]),
        ("authority form", line("CONNECT a:80 HTTP/1.1"), &["400"]),
        ("authority form, GET", line("GET a:80 HTTP/1.1"), &["400"]),
        ("OPTIONS *", line("OPTIONS * HTTP/1.1"), &["OPTIONS *"]),
        ("GET *", line("GET * HTTP/1.1"), &["400"]),
        ("OPTIONS **", line("OPTIONS ** HTTP/1.1"), &["400"]),
        ("relative path", line("GET a HTTP/1.1"), &["400"]),
        ("fragment", line("GET /a#b HTTP/1.1"), &["400"]),
        ("tab in target", line("GET /a\tb HTTP/1.1"), &["400"]),
        ("space in target", line("GET /a b HTTP/1.1"), &["400"]),
        ("not ASCII in target", line("GET /\u{e9} HTTP/1.1"), &["400"]),
        ("NUL in target", line("GET /\0 HTTP/1.1"), &["400"]),
        ("DEL in target", line("GET /\x7f HTTP/1.1"), &["400"]),
        ("no target", line("GET HTTP/1.1"), &["400"]),
        ("no target, two spaces", line("GET  HTTP/1.1"), &["400"]),
        ("two spaces", line("GET  / HTTP/1.1"), &["400"]),
        ("two spaces later", line("GET /  HTTP/1.1"), &["400"]),
        ("tabs for spaces", line("GET\t/\tHTTP/1.1"), &["400"]),
        ("space behind", line("GET / HTTP/1.1 "), &["400"]),
        ("space before", line(" GET / HTTP/1.1"), &["400"]),
        ("no method", line("/ HTTP/1.1"), &["400"]),
        ("bad method", line("GE(T / HTTP/1.1"), &["400"]),
        ("HTTP/0.9", line("GET /"), &["400"]),
        ("HTTP/0.9 with a version", line("GET / HTTP/0.9"), &["505"]),
        ("HTTP/1.2", line("GET / HTTP/1.2"), &["GET /"]),
        ("HTTP/2.0", line("GET / HTTP/2.0"), &["505"]),
        ("HTTP/3.0", line("GET / HTTP/3.0"), &["505"]),
        ("HTTP/1", line("GET / HTTP/1"), &["400"]),
        ("HTTP/2", line("GET / HTTP/2"), &["400"]),
        ("HTTP/1.10", line("GET / HTTP/1.10"), &["400"]),
        ("HTTP/01.1", line("GET / HTTP/01.1"), &["400"]),
        ("http/1.1", line("GET / http/1.1"), &["400"]),
        ("HTTPS/1.1", line("GET / HTTPS/1.1"), &["400"]),
        ("preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), &["505"]),
        ("TLS", b"\x16\x03\x01\x02\x00\x01".to_vec(), &["400"]),
        ("leading CRLF", [b"\r\n".to_vec(), line("GET / HTTP/1.1")].concat(), &["GET /"]),
        ("leading CRLFCRLF", [b"\r\n\r\n".to_vec(), line("GET / HTTP/1.1")].concat(), &["400"]),
        ("leading LF", [b"\n".to_vec(), line("GET / HTTP/1.1")].concat(), &["400"]),
        ("leading CR", [b"\r".to_vec(), line("GET / HTTP/1.1")].concat(), &["400"]),
        ("bare LF lines", b"GET / HTTP/1.1\nHost: a\n\n".to_vec(), &["400"]),
        ("bare CR lines", b"GET / HTTP/1.1\rHost: a\r\r".to_vec(), &["400"]),
    ];
    for (name, request, expected) in rows {
        check(name, request, expected);
    }
}

#[test]
fn header_lines_are_read_strictly() {
    let seen: &[&str] = &["GET /mcp"];
    let rows: &[(&str, Vec<u8>, &[&str])] = &[
        ("plain", get("A: b\r\n"), seen),
        ("no blank", get("A:b\r\n"), seen),
        ("empty value", get("A:\r\nB: \r\n"), seen),
        ("colons and tabs in a value", get("A: b:\tc\r\n"), seen),
        ("Expect", get("Expect: 100-Continue\r\n"), seen),
        ("Expect bogus", get("Expect: 200-ok\r\n"), &["417"]),
        ("Expect two", get("Expect: 100-continue, x\r\n"), &["417"]),
        ("obs-fold", get("A: b\r\n c\r\n"), &["400"]),
        ("obs-fold, tab", get("A: b\r\n\tc\r\n"), &["400"]),
        ("obs-fold, blank only", get("A: b\r\n \r\n"), &["400"]),
        ("fold at once", b"GET / HTTP/1.1\r\n Host: a\r\n\r\n".to_vec(), &["400"]),
        ("NUL in value", get("A: b\0c\r\n"), &["400"]),
        ("ESC in value", get("A: \x1b[1m\r\n"), &["400"]),
        ("DEL in value", get("A: \x7f\r\n"), &["400"]),
        ("NUL in name", get("A\0: b\r\n"), &["400"]),
        ("UTF-8 in value", get("A: \u{e9}\r\n"), &["400"]),
        ("UTF-8 in name", get("\u{e9}: b\r\n"), &["400"]),
        ("latin1 in value", b"GET / HTTP/1.1\r\nHost: a\r\nA: \xe9\r\n\r\n".to_vec(), &["400"]),
        ("space before colon", get("A : b\r\n"), &["400"]),
        ("tab before colon", get("A\t: b\r\n"), &["400"]),
        ("space in name", get("A b: c\r\n"), &["400"]),
        ("slash in name", get("A/b: c\r\n"), &["400"]),
        ("no colon", get("Ab\r\n"), &["400"]),
        ("empty name", get(": b\r\n"), &["400"]),
        ("bare CR in value", get("A: b\rc\r\n"), &["400"]),
        ("bare LF in value", get("A: b\nc: d\r\n"), &["400"]),
        ("CRCRLF", get("A: b\r\r\n"), &["400"]),
        ("end with bare LF", b"GET / HTTP/1.1\r\nHost: a\r\n\n".to_vec(), &["400"]),
    ];
    for (name, request, expected) in rows {
        check(name, request, expected);
    }
}

#[test]
fn a_refused_header_line_is_told_what_is_wrong() {
    for (fields, words) in [
        ("A : b\r\n", "blank between its name and its colon"),
        ("A b: c\r\n", "character that no header name may have"),
        ("Ab\r\n", "no colon"),
        (": b\r\n", "begins with its colon"),
        ("A: b\r\n c\r\n", "folded"),
        ("A: \u{e9}\r\n", "outside ASCII"),
        ("A: \0\r\n", "control character"),
        ("A: b\n", "LF without its CR"),
        ("A: b\rc\r\n", "CR without its LF"),
    ] {
        let refusal = head(&get(fields), &LIMITS).expect_err("bad");
        assert!(refusal.message.contains(words), "{fields:?}: {refusal}");
    }
}

#[test]
fn http_1_1_needs_exactly_one_host_that_is_one() {
    let with = |hosts: &str| format!("GET / HTTP/1.1\r\n{hosts}\r\n").into_bytes();
    check("none", &with(""), &["400"]);
    check("two", &with("Host: a\r\nHost: b\r\n"), &["400"]);
    check("two, the same", &with("Host: a\r\nhost: a\r\n"), &["400"]);
    for good in [
        "a",
        "a.b",
        "a.b.",
        "A-1.b_c",
        "a:80",
        "a:",
        "a:65535",
        "127.0.0.1:1",
        "[::1]",
        "[::1]:80",
        "[2001:db8::1.2.3.4]",
        "%61",
        "xn--a",
        "256.1.1.1",
        "a!$&'()*+,;=~b",
    ] {
        check(good, &with(&format!("Host: {good}\r\n")), &["GET /"]);
    }
    for bad in [
        "",
        "a b",
        "a/b",
        "a/b?",
        "a?b",
        "a#b",
        "u@a",
        "a:b",
        "a:80:80",
        "a:65536",
        "a:-1",
        "a:+1",
        ":80",
        "[]",
        "[::1",
        "::1",
        "[::1]a",
        "[a]",
        "[::1%25eth0]",
        "[v1.a]",
        "%6",
        "%zz",
        "a\\b",
        "a\"b",
        "a, b",
        "<a>",
        "http://a",
        "a\tb",
        "{a}",
    ] {
        check(bad, &with(&format!("Host: {bad}\r\n")), &["400"]);
    }
    check("1.0, none", b"GET / HTTP/1.0\r\n\r\n", &["GET /"]);
    check("1.0, one", b"GET / HTTP/1.0\r\nHost: a\r\n\r\n", &["GET /"]);
    check("1.0, two", b"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", &["400"]);
    check("1.0, bad", b"GET / HTTP/1.0\r\nHost: a b\r\n\r\n", &["400"]);
}

fn parse(request: &[u8]) -> Head {
    head(request, &LIMITS).expect("a good head").expect("a whole head")
}

#[test]
fn the_host_of_an_absolute_form_replaces_the_header() {
    let request = line("GET http://b:1/p HTTP/1.1");
    assert_eq!(parse(&request).host(&request), Some("b:1"));
    let request = line("GET /p HTTP/1.1");
    assert_eq!(parse(&request).host(&request), Some("a"));
    assert_eq!(parse(b"GET / HTTP/1.0\r\n\r\n").host, None);
}

#[test]
fn connection_options_are_a_list() {
    // version, fields, keep_alive, upgrade
    let rows = [
        ("1.1", "", true, false),
        ("1.1", "Connection: close\r\n", false, false),
        ("1.1", "Connection: close, x\r\n", false, false),
        ("1.1", "Connection: x,CLOSE\r\n", false, false),
        ("1.1", "Connection: keep-alive\r\nConnection: close\r\n", false, false),
        ("1.1", "Connection: closed, not-close\r\n", true, false),
        ("1.0", "", false, false),
        ("1.0", "Connection: Keep-Alive\r\n", true, false),
        ("1.0", "Connection: keep-alive, close\r\n", false, false),
        ("1.1", "Connection: Upgrade\r\nUpgrade: WebSocket\r\n", true, true),
        ("1.1", "Upgrade: h2c, websocket\r\nConnection: keep-alive, upgrade\r\n", true, true),
        ("1.1", "Connection: upgrade\r\nUpgrade: h2c\r\n", true, false),
        ("1.1", "Upgrade: websocket\r\n", true, false),
        ("1.1", "Connection: upgrade\r\n", true, false),
        ("1.0", "Connection: upgrade\r\nUpgrade: websocket\r\n", false, false),
    ];
    for (version, fields, keep_alive, upgrade) in rows {
        let request = format!("GET / HTTP/{version}\r\nHost: a\r\n{fields}\r\n");
        let head = parse(request.as_bytes());
        assert_eq!((head.keep_alive, head.upgrade), (keep_alive, upgrade), "{request}");
        assert_eq!(head.http_10, version == "1.0");
    }
}

#[test]
fn a_peer_waits_for_100_only_with_a_body_and_in_http_1_1() {
    let rows = [
        ("1.1", "Content-Length: 1\r\n", true),
        ("1.1", "Transfer-Encoding: chunked\r\n", true),
        ("1.1", "Content-Length: 0\r\n", false),
        ("1.1", "", false),
        ("1.0", "Content-Length: 1\r\n", false),
    ];
    for (version, fields, expected) in rows {
        let request =
            format!("POST / HTTP/{version}\r\nHost: a\r\nExpect: 100-continue\r\n{fields}\r\n");
        assert_eq!(parse(request.as_bytes()).expects_continue, expected, "{request}");
    }
    check("bogus in 1.0", b"GET / HTTP/1.0\r\nExpect: x\r\n\r\n", &["GET /"]);
}

/// A head of exactly so many bytes.
fn head_of(bytes: usize) -> Vec<u8> {
    let rest = get("A: \r\n").len();
    get(&format!("A: {}\r\n", "x".repeat(bytes - rest)))
}

#[test]
fn the_head_has_a_greatest_length() {
    for (bytes, fits) in
        [(HEAD_BYTES_MAX - 1, true), (HEAD_BYTES_MAX, true), (HEAD_BYTES_MAX + 1, false)]
    {
        let expected = if fits { "GET /mcp" } else { "431" };
        check("long head", &head_of(bytes), &[expected]);
    }
    // An empty line before it counts.
    let request = [b"\r\n".to_vec(), head_of(HEAD_BYTES_MAX - 1)].concat();
    check("long head behind CRLF", &request, &["431"]);
    // Refused as soon as it can no longer end in time, however it goes on.
    let endless = vec![b'A'; HEAD_BYTES_MAX];
    assert_eq!(serve(&endless[1..], usize::MAX), ["cut"]);
    assert_eq!(serve(&endless, usize::MAX), ["431"]);
    check("a long line without LF", &[b'A'; 64 << 10], &["431"]);
    check(
        "a long header without LF",
        &[b"GET / HTTP/1.1\r\nHost: a\r\nA: ".to_vec(), vec![b'x'; 64 << 10]].concat(),
        &["431"],
    );
}

#[test]
fn the_head_has_a_greatest_number_of_fields() {
    // One is `Host`.
    for (count, fits) in [(HEADERS_MAX - 1, true), (HEADERS_MAX, true), (HEADERS_MAX + 1, false)] {
        let expected = if fits { "GET /mcp" } else { "431" };
        check("many headers", &get(&"A: b\r\n".repeat(count - 1)), &[expected]);
    }
}

#[test]
fn a_target_that_does_not_fit_the_decoder_is_too_long() {
    for length in [8000, 8192] {
        let target = format!("/{}", "x".repeat(length - 1));
        let expected = if length == 8000 { format!("GET {target}") } else { "414".to_string() };
        check("long target", &line(&format!("GET {target} HTTP/1.1")), &[&expected]);
    }
}

#[test]
fn what_can_never_become_valid_is_refused_at_once() {
    let rows: &[&[u8]] = &[
        b"\0",
        b"\n",
        b" ",
        b"{",
        b"\x80",
        b"\rG",
        b"\r\n\r\n",
        b"G\n",
        b"GET / HTTP/1.1\rH",
        b"GET / HTTP/1.1\r\n ",
        b"GET / HTTP/1.1\r\nA\0",
        b"GET / HTTP/1.1\r\nA: b\n",
    ];
    for start in rows {
        let refused = head(start, &LIMITS).map_err(|refusal| refusal.status);
        assert_eq!(refused, Err(400), "{start:?}");
        assert_eq!(head(&start[..start.len() - 1], &LIMITS), Ok(None), "{start:?} less one byte");
    }
}

#[test]
fn a_head_that_arrives_byte_by_byte_is_the_head_that_arrives_whole() {
    let request = get("A:  b \r\nConnection: upgrade\r\nUpgrade: websocket\r\n");
    let mut reader = HeadReader::default();
    for end in 0..request.len() {
        assert_eq!(reader.read(&request[..end], &LIMITS), Ok(None));
        assert_eq!(head(&request[..end], &LIMITS), Ok(None));
    }
    assert_eq!(reader.read(&request, &LIMITS), head(&request, &LIMITS));
    let head = parse(&request);
    let fields: Vec<_> = head.fields(&request).collect();
    assert_eq!(
        fields,
        [("Host", "a"), ("A", "b"), ("Connection", "upgrade"), ("Upgrade", "websocket")]
    );
}

fn normalised(request: &[u8]) -> String {
    let normalised = parse(request).normalised(request);
    assert!(normalised.left_out.is_empty());
    String::from_utf8(normalised.head).expect("ASCII")
}

#[test]
fn a_normalised_head_keeps_what_is_needed_and_drops_what_is_about_the_connection() {
    let request = post(
        "Content-Length: 5\r\nExpect: 100-continue\r\nConnection: keep-alive, Upgrade\r\n\
         Keep-Alive: 5\r\nProxy-Connection: x\r\nTE: trailers\r\nTrailer: a\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Key:  k \r\nAuthorization: Bearer t\r\nMcp-Method: a\r\nX: 1\r\nX: 2\r\n",
        "hello",
    );
    assert_eq!(
        normalised(&request),
        "POST /mcp HTTP/1.1\r\nHost: a\r\nSec-WebSocket-Key: k\r\nAuthorization: Bearer t\r\n\
         Mcp-Method: a\r\nX: 1\r\nX: 2\r\n\r\n"
    );
    let request = post("transfer-encoding: Chunked\r\n", "");
    assert_eq!(normalised(&request), "POST /mcp HTTP/1.1\r\nHost: a\r\n\r\n");
}

#[test]
fn a_normalised_head_has_one_host_that_makes_a_url() {
    let hosts = [
        ("a.b:1", "a.b:1"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]:80", "[::1]:80"),
        ("256.1.1.1", "host.invalid"),
        ("1", "host.invalid"),
        ("a.0x1", "host.invalid"),
        ("xn--a", "host.invalid"),
        ("a..b", "host.invalid"),
        ("%00", "host.invalid"),
        ("a,b", "host.invalid"),
        (&["a"; 127].join("."), &["a"; 127].join(".")),
        (&["a"; 128].join("."), "host.invalid"),
        (&"a".repeat(63), &"a".repeat(63)),
        (&"a".repeat(64), "host.invalid"),
    ];
    for (host, expected) in hosts {
        let request = format!("GET /p HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let expected = format!("GET /p HTTP/1.1\r\nHost: {expected}\r\n\r\n");
        assert_eq!(normalised(request.as_bytes()), expected);
    }
    let rows = [
        ("GET http://b/p HTTP/1.1", "GET /p HTTP/1.1\r\nHost: b\r\n\r\n"),
        ("GET http://b HTTP/1.1", "GET / HTTP/1.1\r\nHost: b\r\n\r\n"),
        ("OPTIONS * HTTP/1.1", "OPTIONS /* HTTP/1.1\r\nHost: a\r\n\r\n"),
    ];
    for (sent, expected) in rows {
        assert_eq!(normalised(&line(sent)), expected);
    }
    assert_eq!(
        normalised(b"GET / HTTP/1.0\r\n\r\n"),
        "GET / HTTP/1.1\r\nHost: host.invalid\r\n\r\n"
    );
}

#[test]
fn a_normalised_head_fits_the_decoder_and_nothing_gets_lost() {
    let mut longest = 0;
    for value_bytes in (8100..8200).chain([100, 12_000]) {
        let value = "x".repeat(value_bytes);
        let request = get(&format!("Long: {value}\r\nShort: y\r\n"));
        let normalised = parse(&request).normalised(&request);
        assert!(normalised.head.len() < 8192 && normalised.head.ends_with(b"\r\n\r\n"));
        longest = longest.max(normalised.head.len());
        let text = String::from_utf8(normalised.head).expect("ASCII");
        let mut fields = normalised.left_out;
        fields.extend(text.lines().skip(1).filter_map(|line| line.split_once(": ")));
        fields.sort();
        assert_eq!(fields, [("Host", "a"), ("Long", &*value), ("Short", "y")]);
    }
    assert_eq!(longest, 8191, "no byte is wasted");
    // With the longest request line and host, too.
    let request = format!(
        "GET /{} HTTP/1.1\r\nHost: {}\r\n\r\n",
        "x".repeat(8000),
        [&*"a".repeat(50); 5].join(".")
    );
    let head = normalised(request.as_bytes());
    assert!(head.len() < 8192 && head.contains("Host: host.invalid\r\n"));
}

#[test]
fn chunk_heads_are_what_the_decoder_reads() {
    for length in [1, 9, 10, 15, 16, 255, 4096, 65_535, 1 << 20] {
        let expected = format!("{length:x}\r\n");
        assert_eq!(&*chunk_head(length), expected.as_bytes());
        let content = vec![b'x'; length];
        let sent = [&*chunk_head(length), &content, CHUNK_END, LAST_CHUNK, b"rest"].concat();
        let mut decoder = BodyDecoder::new(BodyKind::Chunked, length).expect("no length, no limit");
        let mut out = Vec::new();
        assert_eq!(decoder.feed(&sent, &mut out), Ok(sent.len() - 4));
        assert!(decoder.done() && out == content);
    }
    assert_eq!(&*chunk_head(usize::MAX), format!("{:x}\r\n", usize::MAX).as_bytes());
}

#[test]
fn a_head_that_comes_again_is_read_as_if_it_were_new() {
    let limits = Limits { head_bytes_max: 300, headers_max: 20 };
    let heads = [
        ("POST /mcp HTTP/1.1\r\nHost: a:1\r\nContent-Length: ", "\r\nAccept: */*\r\n\r\n"),
        ("\r\nPOST /mcp?x HTTP/1.1\r\nContent-length:", "\t\r\nHost: [::1]:80\r\nX: y\r\n\r\n"),
        ("POST http://b/mcp HTTP/1.1\r\nHost: a\r\nContent-Length:   ", "\r\n\r\n"),
        ("POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: ", "\r\n\r\n"),
        ("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: ", "\r\n\r\n"),
    ];
    let lengths = ["0", "1", "9", "10", "007", "65536", "18446744073709551615"];
    let text = |head: (&str, &str), length: &str| format!("{}{length}{}", head.0, head.1);
    let mut found = 0;
    for one in heads {
        for length in lengths {
            let first = text(one, length);
            let known = head(first.as_bytes(), &limits).expect("good").expect("whole");
            let key = known.but_length(first.as_bytes());
            assert_eq!(key, (one.0.as_bytes(), one.1.as_bytes()));
            for other in heads {
                for length in lengths {
                    let second = text(other, length) + "{}POST /";
                    let again = known.again(key, second.as_bytes(), &limits);
                    if let Some(again) = again {
                        let read = head(second.as_bytes(), &limits).expect("good").expect("whole");
                        assert_eq!(again, read, "{first:?} {second:?}");
                        found += 1;
                    }
                }
            }
            let cut = &first[..first.len() - 1];
            assert_eq!(known.again(key, cut.as_bytes(), &limits), None, "not complete");
            for wrong in ["", "+1", "-1", "1 1", "1,1", "0x1", "18446744073709551616"] {
                let wrong = text(one, wrong);
                assert_eq!(known.again(key, wrong.as_bytes(), &limits), None, "{wrong:?}");
            }
            let shorter = Limits { head_bytes_max: known.bytes - 1, ..limits };
            assert_eq!(known.again(key, first.as_bytes(), &shorter), None, "too long");
        }
    }
    // Of each head but the one with an expectation: after any length but zero, any.
    assert_eq!(found, (heads.len() - 1) * (lengths.len() - 1) * lengths.len());
}

#[test]
fn bytes_are_the_same_only_when_all_of_them_are() {
    let bytes: Vec<u8> = (0..100).collect();
    assert!(same(&bytes, &bytes.clone()) && same(&[], &[]));
    for at in 0..bytes.len() {
        let mut other = bytes.clone();
        other[at] ^= 0x80;
        assert!(
            !same(&bytes, &other) && !same(&bytes, &bytes[..at]) && !same(&bytes[..at], &bytes)
        );
    }
}
