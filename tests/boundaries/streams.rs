//! The odd streams: a table of what is known to be read in two ways, and changes of it by chance.

use serde_json::json;

use crate::support::Agent;

#[derive(Clone)]
pub struct Stream {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// Every stream begins with a good request, has the odd one, and ends with a good one that is the last: a
/// side that has cut it right answers that and ends the connection at once. No two have the same answer.
pub fn table(agent: &Agent<'_>) -> Vec<Stream> {
    let usual = agent.bare("POST").with("Content-Type", "application/json").bytes();
    let usual = String::from_utf8(usual).expect("ASCII");
    let usual = usual.strip_suffix("\r\n").expect("a head ends with an empty line").to_owned();
    let post = |lines: &str, body: &str| format!("{usual}{lines}\r\n{body}");
    let ping = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string();
    let b = ping(22);
    let n = b.len();
    // A request that hides in a body: cut wrong, it is answered as well.
    let of_its_own = |lines: &str, id: u32| {
        let body = ping(id);
        post(&format!("{lines}Content-Length: {}\r\n", body.len()), &body)
    };
    let (hidden, end) = (of_its_own("", 333), of_its_own("Connection: close\r\n", 4444));
    let length = format!("Content-Length: {n}\r\n");
    let chunked = "Transfer-Encoding: chunked\r\n";
    let one = |size: &str, after: &str| format!("{size}\r\n{b}\r\n{after}");
    let (size, last) = (format!("{n:x}"), "0\r\n\r\n");
    let get = |lines: &str| format!("GET /health HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
    let line = |line: &str| format!("{line}\r\nHost: a\r\n\r\n");
    let both = |te: &str, length: usize, body: &str| {
        post(&format!("Content-Length: {length}\r\n{te}"), body)
    };
    let smuggled = format!("0\r\n\r\n{hidden}");
    let rows: Vec<(&str, String)> = vec![
        ("a length", post(&length, &b)),
        ("two requests", post(&length, &b).repeat(2)),
        ("a length of zero", post("Content-Length: 0\r\n", "")),
        ("no length", post("", "")),
        ("no length and a body", post("", &b)),
        ("a length too short", post("Content-Length: 5\r\n", &b)),
        ("a length too long", post("Content-Length: 400\r\n", &b)),
        ("leading zeros", post(&format!("Content-Length: 000{n}\r\n"), &b)),
        ("a plus", post(&format!("Content-Length: +{n}\r\n"), &b)),
        ("a minus", post("Content-Length: -1\r\n", &b)),
        ("hexadecimal", post(&format!("Content-Length: 0x{n:x}\r\n"), &b)),
        ("a list of lengths", post(&format!("Content-Length: {n}, {n}\r\n"), &b)),
        ("a list of differing lengths", post(&format!("Content-Length: {n}, 5\r\n"), &b)),
        ("two lengths", post(&length.repeat(2), &b)),
        ("two differing lengths", post(&format!("{length}Content-Length: 5\r\n"), &b)),
        ("two differing lengths, turned", post(&format!("Content-Length: 5\r\n{length}"), &b)),
        ("an empty length", post("Content-Length:\r\n", &b)),
        ("a length with a space inside", post("Content-Length: 4 0\r\n", &b)),
        ("a length and something", post(&format!("Content-Length: {n}x\r\n"), &b)),
        (
            "a length of 2^64 and some",
            post(&format!("Content-Length: {}\r\n", (1_u128 << 64) + n as u128), &b),
        ),
        ("a length of 2^63", post("Content-Length: 9223372036854775808\r\n", &b)),
        ("a space before the colon", post(&format!("Content-Length : {n}\r\n"), &b)),
        ("a tab before the colon", post(&format!("Content-Length\t: {n}\r\n"), &b)),
        ("tabs around a length", post(&format!("Content-Length:\t{n}\t\r\n"), &b)),
        ("VT before a length", post(&format!("Content-Length: \x0b{n}\r\n"), &b)),
        ("NUL before a length", post(&format!("Content-Length: \0{n}\r\n"), &b)),
        ("a length under another name", post(&format!("Content_Length: {n}\r\n"), &b)),
        ("a length in a folded line", post(&format!("X: y\r\n Content-Length: {n}\r\n"), &b)),
        ("a folded length", post(&format!("Content-Length:\r\n {n}\r\n"), &b)),
        ("a length behind a bare CR", post(&format!("X: y\rContent-Length: {n}\r\n"), &b)),
        ("a length behind a bare LF", post(&format!("X: y\nContent-Length: {n}\r\n"), &b)),
        ("a length in capitals", post(&format!("CONTENT-LENGTH: {n}\r\n"), &b)),
        ("chunks", post(chunked, &one(&size, last))),
        ("chunks twice", post(chunked, &one(&size, last)).repeat(2)),
        ("chunks in capitals", post("TRANSFER-ENCODING: CHUNKED\r\n", &one(&size, last))),
        ("leading zeros of a size", post(chunked, &one(&format!("000{size}"), last))),
        ("an extension", post(chunked, &one(&format!("{size};x=y"), last))),
        ("a quoted extension", post(chunked, &one(&format!("{size};x=\"a\\\"b\""), last))),
        ("an extension with a break", post(chunked, &one(&format!("{size};x=\"\r\n"), last))),
        ("a bare LF in an extension", post(chunked, &one(&format!("{size};x\n"), last))),
        ("a space behind a size", post(chunked, &one(&format!("{size} "), last))),
        ("a space before a size", post(chunked, &one(&format!(" {size}"), last))),
        ("a tab behind a size", post(chunked, &one(&format!("{size}\t"), last))),
        ("a size of 0x", post(chunked, &one(&format!("0x{size}"), last))),
        ("a size with a plus", post(chunked, &one(&format!("+{size}"), last))),
        ("a size of 2^64 and some", post(chunked, &one(&format!("1000000000000000{size}"), last))),
        ("a size of 2^32 and some", post(chunked, &one(&format!("1000000{size}"), last))),
        ("an underscore in a size", post(chunked, &one(&format!("_{size}"), last))),
        ("a size too short", post(chunked, &one("5", last))),
        ("a size too long", post(chunked, &one("ff", last))),
        ("an empty size", post(chunked, &one("", last))),
        ("LFs for the ends of chunks", post(chunked, &format!("{size}\n{b}\n0\n\n"))),
        ("a CR for the end of a size", post(chunked, &format!("{size}\r{b}\r\n0\r\n\r\n"))),
        (
            "two chunks",
            post(chunked, &format!("5\r\n{}\r\n{:x}\r\n{}\r\n0\r\n\r\n", &b[..5], n - 5, &b[5..])),
        ),
        ("a trailer", post(chunked, &one(&size, "0\r\nX: y\r\n\r\n"))),
        ("a trailer with a length", post(chunked, &one(&size, "0\r\nContent-Length: 400\r\n\r\n"))),
        (
            "a trailer that hides a request",
            post(chunked, &one(&size, &format!("0\r\nX: {hidden}"))),
        ),
        ("a GET for a trailer", post(chunked, &one(&size, &format!("0\r\n{}", get(""))))),
        ("a request for a trailer", post(chunked, &one(&size, &format!("0\r\n{hidden}")))),
        ("a folded trailer", post(chunked, &one(&size, "0\r\nX: y\r\n z\r\n\r\n"))),
        ("a last chunk of many zeros", post(chunked, &one(&size, "0000\r\n\r\n"))),
        ("a last chunk with an extension", post(chunked, &one(&size, "0;x\r\n\r\n"))),
        ("no last chunk", post(chunked, &one(&size, ""))),
        ("a request in chunks that never end", post(chunked, &hidden)),
        ("a length and chunks", both(chunked, n, &one(&size, last))),
        ("a length and chunks that hide a request", both(chunked, smuggled.len(), &smuggled)),
        ("chunks and a length of five", both(chunked, 5, &smuggled)),
        (
            "chunks with a space before the colon",
            both("Transfer-Encoding : chunked\r\n", 5, &smuggled),
        ),
        ("chunks under another name", both("Transfer_Encoding: chunked\r\n", 5, &smuggled)),
        (
            "only chunks, under another name",
            post("Transfer_Encoding: chunked\r\n", &one(&size, last)),
        ),
        ("only chunks, with a space", post("Transfer-Encoding : chunked\r\n", &one(&size, last))),
        ("a length of five, a request behind it", post("Content-Length: 5\r\n", &smuggled)),
        ("chunks in a folded line", both("X: y\r\n Transfer-Encoding: chunked\r\n", 5, &smuggled)),
        ("folded chunks", both("Transfer-Encoding:\r\n chunked\r\n", 5, &smuggled)),
        ("chunks behind a bare LF", both("X: y\nTransfer-Encoding: chunked\r\n", 5, &smuggled)),
        ("chunks behind a bare CR", both("X: y\rTransfer-Encoding: chunked\r\n", 5, &smuggled)),
        ("VT before chunked", post("Transfer-Encoding: \x0bchunked\r\n", &one(&size, last))),
        ("a tab before chunked", post("Transfer-Encoding:\tchunked\r\n", &one(&size, last))),
        ("a space behind chunked", post("Transfer-Encoding: chunked \r\n", &one(&size, last))),
        ("xchunked", post("Transfer-Encoding: xchunked\r\n", &one(&size, last))),
        ("chunked in quotes", post("Transfer-Encoding: \"chunked\"\r\n", &one(&size, last))),
        ("identity", post("Transfer-Encoding: identity\r\n", &one(&size, last))),
        ("identity with a length", both("Transfer-Encoding: identity\r\n", n, &b)),
        ("gzip, chunked", post("Transfer-Encoding: gzip, chunked\r\n", &one(&size, last))),
        ("chunked, identity", post("Transfer-Encoding: chunked, identity\r\n", &one(&size, last))),
        ("chunked, chunked", post("Transfer-Encoding: chunked, chunked\r\n", &one(&size, last))),
        ("chunked twice", post(&chunked.repeat(2), &one(&size, last))),
        (
            "chunked, then identity",
            post(&format!("{chunked}Transfer-Encoding: identity\r\n"), &one(&size, last)),
        ),
        ("an empty coding", post("Transfer-Encoding:\r\n", &one(&size, last))),
        ("chunked;", post("Transfer-Encoding: chunked;x\r\n", &one(&size, last))),
        (
            "chunked in HTTP/1.0",
            post(chunked, &one(&size, last)).replacen("HTTP/1.1", "HTTP/1.0", 1),
        ),
        ("a length in HTTP/1.0", post(&length, &b).replacen("HTTP/1.1", "HTTP/1.0", 1)),
        (
            "kept alive in HTTP/1.0",
            post(&format!("Connection: keep-alive\r\n{length}"), &b)
                .replacen("HTTP/1.1", "HTTP/1.0", 1),
        ),
        ("HTTP/1.2", line("GET /health HTTP/1.2")),
        ("HTTP/1.10", line("GET /health HTTP/1.10")),
        ("HTTP/01.1", line("GET /health HTTP/01.1")),
        ("HTTP/2.0", line("GET /health HTTP/2.0")),
        ("HTTP/0.9", "GET /health\r\n".to_owned()),
        ("no version", line("GET /health")),
        ("a GET with a body", get(&format!("Content-Length: {}\r\n", hidden.len())) + &hidden),
        ("a GET with chunks", get(chunked) + &one(&size, last)),
        ("a HEAD", line("HEAD /health HTTP/1.1")),
        (
            "a HEAD with a body",
            line("HEAD /health HTTP/1.1").replace("\r\n\r\n", &format!("\r\n{length}\r\n{b}")),
        ),
        ("a body for nobody", post(&length, &b).replacen("/mcp", "/nobody", 1)),
        ("a DELETE with a body", post(&length, &b).replacen("POST", "DELETE", 1)),
        ("an OPTIONS with a body", post(&length, &b).replacen("POST", "OPTIONS", 1)),
        ("a method of no meaning with a body", post(&length, &b).replacen("POST", "BREW", 1)),
        ("a method in lower case", post(&length, &b).replacen("POST", "post", 1)),
        ("an absolute form", line("GET http://a/health HTTP/1.1")),
        ("an absolute form with a body", post(&length, &b).replacen("/mcp", "http://a/mcp", 1)),
        ("an authority", line("CONNECT a:80 HTTP/1.1")),
        ("a star", line("OPTIONS * HTTP/1.1")),
        ("a space in the target", line("GET /health HTTP/1.1 HTTP/1.1")),
        ("two spaces", line("GET  /health HTTP/1.1")),
        ("a tab for a space", line("GET\t/health HTTP/1.1")),
        ("a space behind it", line("GET /health HTTP/1.1 ")),
        ("a fragment", line("GET /health#x HTTP/1.1")),
        ("a NUL in the target", line("GET /\0 HTTP/1.1")),
        ("beyond ASCII in the target", line("GET /é HTTP/1.1")),
        ("an empty line in front", format!("\r\n{}", get(""))),
        ("empty lines in front", format!("\r\n\r\n\r\n{}", get(""))),
        ("LFs in front", format!("\n\n{}", get(""))),
        ("LFs for all", get("").replace('\r', "")),
        ("an LF for the end of the head", get("X: y\r\n").replace("\r\n\r\n", "\r\n\n")),
        ("CR CR LF", get("X: y\r\r\n")),
        ("a bare CR in a value", get("X: y\rz\r\n")),
        ("obs-fold", get("X: y\r\n z\r\n")),
        ("a fold at once", "GET /health HTTP/1.1\r\n Host: a\r\n\r\n".to_owned()),
        ("no colon", get("X\r\n")),
        ("no name", get(": x\r\n")),
        ("a space in a name", get("X y: z\r\n")),
        ("no Host", "GET /health HTTP/1.1\r\n\r\n".to_owned()),
        ("two Hosts", get("Host: b\r\n")),
        ("an odd Host", get("").replace("Host: a", "Host: a/b")),
        ("an expectation", post(&format!("{length}Expect: 100-continue\r\n"), &b)),
        (
            "an expectation with chunks",
            post(&format!("{chunked}Expect: 100-continue\r\n"), &one(&size, last)),
        ),
        ("an odd expectation", post(&format!("{length}Expect: x\r\n"), &b)),
        (
            "an upgrade with a body",
            post(&format!("{length}Connection: upgrade\r\nUpgrade: websocket\r\n"), &b),
        ),
        (
            "an upgrade to HTTP/2",
            post(&format!("{length}Connection: upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"), &b),
        ),
        (
            "a length that Connection names",
            post(&format!("{length}Connection: content-length\r\n"), &b),
        ),
        (
            "chunks that Connection names",
            post(&format!("{chunked}Connection: transfer-encoding\r\n"), &one(&size, last)),
        ),
        (
            "an override of the method",
            post(&format!("{length}X-HTTP-Method-Override: GET\r\n"), &b),
        ),
        ("close", post(&format!("{length}Connection: close\r\n"), &b)),
        ("close among others", post(&format!("{length}Connection: x, close\r\n"), &b)),
        ("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned()),
    ];
    let first = of_its_own("", 1);
    let stream = |(name, odd): (&str, String)| Stream {
        name: name.to_owned(),
        bytes: [first.as_bytes(), odd.as_bytes(), end.as_bytes()].concat(),
    };
    rows.into_iter().map(stream).collect()
}

/// A xorshift: the same streams for the same seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    /// One of the table with one to three changes, at places where a reader could stumble.
    pub fn mutated(&mut self, table: &[Stream]) -> Stream {
        const BYTES: &[u8] = b"\r\n\r\n\r\n \t:;,=\"0159afx-+_\0\x0b\x7f\xe9";
        const PARTS: [&str; 10] = [
            "\r\n",
            "\r\n\r\n",
            "0\r\n\r\n",
            "5\r\n",
            "Content-Length: 5\r\n",
            "Content-Length: 0\r\n",
            "Transfer-Encoding: chunked\r\n",
            "Connection: close\r\n",
            "Expect: 100-continue\r\n",
            "GET /health HTTP/1.1\r\nHost: a\r\n\r\n",
        ];
        let mut stream = table[self.below(table.len())].clone();
        for _ in 0..=self.below(3) {
            let bytes = &mut stream.bytes;
            let at = self.place(bytes);
            match self.below(6) {
                0 => drop(bytes.remove(at)),
                1 => bytes.insert(at, BYTES[self.below(BYTES.len())]),
                2 => bytes[at] = BYTES[self.below(BYTES.len())],
                3 => {
                    let part = PARTS[self.below(PARTS.len())].bytes();
                    bytes.splice(at..at, part);
                }
                4 => {
                    // A line twice.
                    let start = bytes[..at].iter().rposition(|b| *b == b'\n').map_or(0, |n| n + 1);
                    let end =
                        bytes[at..].iter().position(|b| *b == b'\n').map_or(at, |n| at + n + 1);
                    let line = bytes[start..end].to_vec();
                    bytes.splice(start..start, line);
                }
                _ => {
                    let other = &table[self.below(table.len())].bytes;
                    let from = self.below(other.len());
                    let part = other[from..].to_vec();
                    bytes.truncate(at);
                    bytes.extend(part);
                }
            }
        }
        stream
    }

    /// Half of the time near the end of a line, where framing happens; not within the first request.
    fn place(&mut self, bytes: &[u8]) -> usize {
        let first = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(0);
        let at = first + self.below(bytes.len() - first);
        if self.below(2) == 0 {
            return at;
        }
        let line = bytes[at..].iter().position(|byte| *byte == b'\n').unwrap_or(0);
        (at + line).saturating_sub(self.below(4)).max(first).min(bytes.len() - 1)
    }
}
