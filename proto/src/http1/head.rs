//! One request head: found, checked line by line as it arrives, and written anew for async-h1.
//!
//! [`HeadReader`] remembers how far it has looked, so a head that arrives byte by byte costs no more
//! than one that arrives whole. What it hands out are ranges of the caller's buffer: where the body
//! is read from, and whether the connection lives on, is the caller's business.

use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use super::{BodyKind, Refusal, authority, check_bytes, field_line, is_blank, is_token_char};

/// What async-h1 takes: a head has to be shorter than 8 KiB.
const DECODE_BYTES_MAX: usize = 8 * 1024 - 1;

/// Stands for the host where none was sent, or one that is no host to a URL parser (RFC 2606 §2).
const HOST_UNKNOWN: &str = "host.invalid";

/// What a normalised head has besides its method, target, host and kept fields.
const NORMALISED_FIXED: &str = "  HTTP/1.1\r\nHost: \r\n\r\n";

/// Longest method and target together, in bytes, so that the head of the smallest request still fits
/// async-h1. Above it: 414. RFC 9112 §3 wants at least 8,000.
const REQUEST_LINE_BYTES_MAX: usize =
    DECODE_BYTES_MAX - NORMALISED_FIXED.len() - HOST_UNKNOWN.len();

const _: () = assert!(REQUEST_LINE_BYTES_MAX >= 8000, "RFC 9112 §3 recommends it");

/// The bounds of a head that an operator may change.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest head in bytes, from the first byte to the empty line's LF. Above it: 431.
    pub head_bytes_max: usize,
    /// Most header fields. Above it: 431.
    pub headers_max: usize,
}

/// A request head that passed every check. Ranges are places in the buffer it was read from; that
/// same buffer goes into the methods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// How many bytes of the buffer the head takes; the body follows. An empty line before the
    /// request line is included.
    pub bytes: usize,
    /// The method as it was sent: case matters, and any token passes. Route on this one; async-h1
    /// takes `post` for `POST` and fails on methods it does not know.
    pub method: Range<usize>,
    /// Path and query as they were sent, or `*`; an absolute form is reduced to its path. Begins with
    /// `/` unless it is `*`. Route on this one: async-h1 resolves `..`.
    pub target: Range<usize>,
    /// The host the request is for: of an absolute form its authority (RFC 9112 §3.2.2), otherwise
    /// the `Host` field. `None` in HTTP/1.0 only. Well formed, but never proof of anything.
    pub host: Option<Range<usize>>,
    /// HTTP/1.0: no chunked response, no 100, and by default no second request.
    pub http_10: bool,
    /// How the body is delimited.
    pub body: BodyKind,
    /// Whether the peer would like to send another request on this connection.
    pub keep_alive: bool,
    /// Whether the peer holds the body back until it sees `100 Continue`. Only with a body.
    pub expects_continue: bool,
    /// Whether the connection is to become a WebSocket: `Connection: upgrade`, `Upgrade: websocket`.
    pub upgrade: bool,
    /// The header lines, without the empty line at their end.
    fields: Range<usize>,
    /// The value of `Content-Length`.
    length: Option<Range<usize>>,
}

/// A head for `async_h1::server::decode`, see [`Head::normalised`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Normalised<'a> {
    /// The head: less than 8 KiB, which is all that async-h1 takes.
    pub head: Vec<u8>,
    /// Fields that did not fit: append them to the decoded request. Empty below 8 KiB.
    pub left_out: Vec<(&'a str, &'a str)>,
}

/// Reads a head from the start of `buf`; `None` while it is incomplete.
///
/// For a buffer that grows, keep a [`HeadReader`] instead: this one starts over each time.
pub fn head(buf: &[u8], limits: &Limits) -> Result<Option<Head>, Refusal> {
    HeadReader::default().read(buf, limits)
}

/// Reads one head from a buffer that grows. Make a new one for each request.
#[derive(Debug, Default)]
pub struct HeadReader {
    /// All before this is checked. At most one CR, the last byte that came, is left for later.
    scanned: usize,
    /// Where the line that `scanned` is in begins.
    line: usize,
    request: Option<RequestLine>,
    /// Where the first header line begins, once `request` is there.
    fields_start: usize,
    fields_count: usize,
    facts: Facts,
}

#[derive(Debug)]
struct RequestLine {
    method: Range<usize>,
    target: Range<usize>,
    authority: Option<Range<usize>>,
    http_10: bool,
}

/// What the fields that matter to framing said, over all lines of the same name.
#[derive(Debug, Default)]
struct Facts {
    host: Option<Range<usize>>,
    length: Option<(u64, Range<usize>)>,
    transfer_encoding: bool,
    chunked: bool,
    /// A coding followed `chunked`.
    chunked_not_last: bool,
    other_coding: bool,
    close: bool,
    keep_alive: bool,
    connection_upgrade: bool,
    upgrade_websocket: bool,
    expects_continue: bool,
    expects_other: bool,
}

impl HeadReader {
    /// Looks at what was appended to `buf` since the last call. `None` while the head is incomplete.
    ///
    /// `buf` begins where the request begins, and only grows between calls. A bad byte is refused when
    /// it comes, a bad line when it is complete, and a head too long as soon as it cannot end in time.
    pub fn read(&mut self, buf: &[u8], limits: &Limits) -> Result<Option<Head>, Refusal> {
        let end = buf.len().min(limits.head_bytes_max);
        while let Some(line) = self.next_line(&buf[..end])? {
            if line.is_empty() && self.request.is_some() {
                return self.finish(line.start).map(Some);
            }
            self.line(buf, line, limits)?;
        }
        if buf.len() >= limits.head_bytes_max {
            return Err(Refusal::new(
                431,
                format!("The request head is longer than {} bytes.", limits.head_bytes_max),
            ));
        }
        Ok(None)
    }

    /// The next complete line without its CRLF.
    fn next_line(&mut self, buf: &[u8]) -> Result<Option<Range<usize>>, Refusal> {
        let fresh = &buf[self.scanned.min(buf.len())..];
        let feed = memchr::memchr(b'\n', fresh);
        let text = &fresh[..feed.unwrap_or(fresh.len())];
        check_bytes(text)?;
        let carriage_return = memchr::memchr(b'\r', text);
        // RFC 9112 §2.2: a bare CR is invalid, and a bare LF need not be taken for a line's end.
        if carriage_return.is_some_and(|at| at + 1 != text.len()) {
            return Err(Refusal::bad(
                "The request has a CR without its LF: end each line with CRLF.",
            ));
        }
        if feed.is_some() && carriage_return.is_none() {
            return Err(Refusal::bad(
                "The request has an LF without its CR: end each line with CRLF.",
            ));
        }
        if feed.is_some() {
            let line = self.line..self.scanned + text.len() - 1;
            self.scanned += text.len() + 1;
            self.line = self.scanned;
            return Ok(Some(line));
        }
        self.scanned += text.len() - usize::from(carriage_return.is_some());
        match buf.get(self.line) {
            // The first byte of a line is enough to see that some lines come to nothing.
            Some(byte) if self.request.is_some() && is_blank(*byte) => {
                field_line(&buf[self.line..]).map(|_| None)
            }
            Some(byte) if self.request.is_none() && *byte != b'\r' && !is_token_char(*byte) => {
                Err(not_a_request_line())
            }
            _ => Ok(None),
        }
    }

    fn line(&mut self, buf: &[u8], line: Range<usize>, limits: &Limits) -> Result<(), Refusal> {
        if self.request.is_some() {
            self.fields_count += 1;
            if self.fields_count > limits.headers_max {
                return Err(Refusal::new(
                    431,
                    format!("The request has more than {} headers.", limits.headers_max),
                ));
            }
            let (name_len, value) = field_line(&buf[line.clone()])?;
            let value = line.start + value.start..line.start + value.end;
            return self.facts.take(buf, line.start..line.start + name_len, value);
        }
        if line.is_empty() {
            // RFC 9112 §2.2: at least one empty line before the request line is ignored; so is one.
            return match line.start {
                0 => Ok(()),
                _ => Err(Refusal::bad("The request begins with more than one empty line.")),
            };
        }
        self.request = Some(request_line(buf, line)?);
        self.fields_start = self.scanned;
        Ok(())
    }

    /// `end` is where the empty line begins, `scanned` where it ends.
    fn finish(&mut self, end: usize) -> Result<Head, Refusal> {
        let facts = core::mem::take(&mut self.facts);
        let request = self.request.take().expect("finish() follows a check for it");
        let http_10 = request.http_10;
        if facts.host.is_none() && !http_10 {
            // RFC 9112 §3.2: also of a request whose target names a host.
            return Err(Refusal::bad("The request has no Host header, which HTTP/1.1 requires."));
        }
        let body = facts.body(http_10)?;
        // RFC 9110 §10.1.1: HTTP/1.0 has no expectations. §7.8: nor upgrades.
        if facts.expects_other && !http_10 {
            return Err(Refusal::new(
                417,
                "The request expects something other than 100-continue.",
            ));
        }
        let has_body = !matches!(body, BodyKind::None | BodyKind::Length(0));
        Ok(Head {
            bytes: self.scanned,
            method: request.method,
            target: request.target,
            host: request.authority.or(facts.host),
            http_10,
            body,
            // RFC 9112 §9.3: `close` wins over `keep-alive`.
            keep_alive: !facts.close && (!http_10 || facts.keep_alive),
            expects_continue: facts.expects_continue && has_body && !http_10,
            upgrade: facts.connection_upgrade && facts.upgrade_websocket && !http_10,
            fields: self.fields_start..end,
            length: facts.length.map(|(_, at)| at),
        })
    }
}

impl Facts {
    fn take(
        &mut self,
        buf: &[u8],
        name: Range<usize>,
        value_at: Range<usize>,
    ) -> Result<(), Refusal> {
        let (name, value) = (&buf[name], &buf[value_at.clone()]);
        if name.eq_ignore_ascii_case(b"host") {
            authority::check(value)?;
            if self.host.replace(value_at).is_some() {
                return Err(Refusal::bad("The request has more than one Host header."));
            }
        } else if name.eq_ignore_ascii_case(b"content-length") {
            if self.length.replace((content_length(value)?, value_at)).is_some() {
                // RFC 9110 §8.6 would allow equal values to be joined. Whoever sends two is confused.
                return Err(Refusal::bad("The request has more than one Content-Length header."));
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.transfer_encoding = true;
            for coding in list(value) {
                self.chunked_not_last |= self.chunked;
                if coding.eq_ignore_ascii_case(b"chunked") {
                    self.chunked = true;
                } else {
                    self.other_coding = true;
                }
            }
        } else if name.eq_ignore_ascii_case(b"connection") {
            for option in list(value) {
                self.close |= option.eq_ignore_ascii_case(b"close");
                self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                self.connection_upgrade |= option.eq_ignore_ascii_case(b"upgrade");
            }
        } else if name.eq_ignore_ascii_case(b"upgrade") {
            self.upgrade_websocket |= list(value).any(|p| p.eq_ignore_ascii_case(b"websocket"));
        } else if name.eq_ignore_ascii_case(b"expect") {
            for expectation in list(value) {
                let known = expectation.eq_ignore_ascii_case(b"100-continue");
                self.expects_continue |= known;
                self.expects_other |= !known;
            }
        }
        Ok(())
    }

    /// RFC 9112 §6.1 and §6.3. Whatever two readers might measure differently is refused.
    fn body(&self, http_10: bool) -> Result<BodyKind, Refusal> {
        if !self.transfer_encoding {
            let length = self.length.as_ref().map(|(length, _)| *length);
            return Ok(length.map_or(BodyKind::None, BodyKind::Length));
        }
        if self.length.is_some() {
            return Err(Refusal::bad(
                "The request has both Content-Length and Transfer-Encoding: send only one.",
            ));
        }
        if http_10 {
            return Err(Refusal::bad("Transfer-Encoding does not exist in HTTP/1.0."));
        }
        if self.chunked_not_last {
            return Err(Refusal::bad(
                "Transfer-Encoding must be `chunked`, once and nothing after.",
            ));
        }
        if self.other_coding {
            return Err(Refusal::new(501, "The only Transfer-Encoding understood is `chunked`."));
        }
        if !self.chunked {
            return Err(Refusal::bad("The Transfer-Encoding header is empty."));
        }
        Ok(BodyKind::Chunked)
    }
}

impl Head {
    /// The method.
    pub fn method<'a>(&self, buf: &'a [u8]) -> &'a str {
        text(&buf[self.method.clone()])
    }

    /// The target to route on: a path that begins with `/`, perhaps with a query, or `*`.
    pub fn target<'a>(&self, buf: &'a [u8]) -> &'a str {
        text(&buf[self.target.clone()])
    }

    /// The host with its port, as it was sent.
    pub fn host<'a>(&self, buf: &'a [u8]) -> Option<&'a str> {
        self.host.clone().map(|host| text(&buf[host]))
    }

    /// Every header field in order, those of framing included: names as they were sent, values
    /// without the blanks around them.
    pub fn fields<'a>(&self, buf: &'a [u8]) -> impl Iterator<Item = (&'a str, &'a str)> {
        let mut rest = &buf[self.fields.clone()];
        core::iter::from_fn(move || {
            let end = memchr::memchr(b'\r', rest)?;
            let line = &rest[..end];
            rest = &rest[end + 2..];
            let (name_len, value) = field_line(line).ok()?;
            Some((text(&line[..name_len]), text(&line[value])))
        })
    }

    /// All of the head but the digits of its `Content-Length`: what is before them, and what is behind.
    /// Two heads that agree in this differ in nothing but the length of their bodies.
    pub fn but_length<'a>(&self, buf: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let end = self.length.clone().unwrap_or(self.bytes..self.bytes);
        (&buf[..end.start], &buf[end.end..self.bytes])
    }

    /// The head at the start of `buf`, when that is this one once more, perhaps with another
    /// `Content-Length`. `before` and `after` are what [`but_length`](Head::but_length) gave for this one.
    /// `None` says nothing about `buf`: read it with a [`HeadReader`].
    pub fn again(
        &self,
        (before, after): (&[u8], &[u8]),
        buf: &[u8],
        limits: &Limits,
    ) -> Option<Head> {
        let known = self.length.clone()?;
        let (start, rest) = buf.split_at_checked(before.len())?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let end = rest[digits..].get(..after.len())?;
        (same(start, before) & same(end, after)).then_some(())?;
        let length = content_length(&rest[..digits]).ok()?;
        // Whether a 100 is waited for depends on the length.
        if self.expects_continue || self.body == BodyKind::Length(0) {
            return None;
        }
        let moved = |at: usize| if at < known.end { at } else { at - known.len() + digits };
        let range = |range: &Range<usize>| moved(range.start)..moved(range.end);
        let bytes = moved(self.bytes);
        (bytes <= limits.head_bytes_max).then(|| Head {
            bytes,
            host: self.host.as_ref().map(range),
            body: BodyKind::Length(length),
            fields: range(&self.fields),
            length: Some(known.start..known.start + digits),
            ..self.clone()
        })
    }

    /// Writes a head that `async_h1::server::decode` reads without surprises.
    ///
    /// It is HTTP/1.1 in ASCII, has one `Host` that makes a URL (`host.invalid` where the request has
    /// none that does) and neither a body nor any field about this one connection: `Content-Length`,
    /// `Transfer-Encoding`, `TE`, `Trailer`, `Expect`, `Connection`, `Keep-Alive`,
    /// `Proxy-Connection` and `Upgrade` are gone, all others are kept. A target `*` becomes `/*`.
    /// Decode it only when the method is one you serve: async-h1 fails on those it does not know.
    pub fn normalised<'a>(&self, buf: &'a [u8]) -> Normalised<'a> {
        let target = self.target(buf);
        let room = REQUEST_LINE_BYTES_MAX - self.method.len() - target.len() + HOST_UNKNOWN.len();
        let host = self
            .host(buf)
            .filter(|host| authority::is_plain(host.as_bytes()) && host.len() <= room)
            .unwrap_or(HOST_UNKNOWN);
        let mut out =
            Vec::with_capacity(DECODE_BYTES_MAX.min(self.bytes + HOST_UNKNOWN.len() + 16));
        let put = |out: &mut Vec<u8>, parts: &[&str]| {
            parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
        };
        let slash = if target == "*" { "/" } else { "" };
        put(&mut out, &[self.method(buf), " ", slash, target, " HTTP/1.1\r\nHost: ", host, "\r\n"]);
        let mut left_out = Vec::new();
        for (name, value) in self.fields(buf).filter(|(name, _)| is_kept(name)) {
            let bytes = name.len() + value.len() + ": \r\n".len();
            if out.len() + bytes + "\r\n".len() <= DECODE_BYTES_MAX {
                put(&mut out, &[name, ": ", value, "\r\n"]);
            } else {
                left_out.push((name, value));
            }
        }
        put(&mut out, &["\r\n"]);
        Normalised { head: out, left_out }
    }
}

/// Whether both are equal, in a time that says nothing about where they differ: a head has a token in it.
pub fn same(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other));
    one.len() == other.len() && core::hint::black_box(differences) == 0
}

fn is_kept(name: &str) -> bool {
    const DROPPED: [&str; 10] = [
        "host",
        "content-length",
        "transfer-encoding",
        "te",
        "trailer",
        "expect",
        "connection",
        "keep-alive",
        "proxy-connection",
        "upgrade",
    ];
    !DROPPED.iter().any(|dropped| name.eq_ignore_ascii_case(dropped))
}

fn text(bytes: &[u8]) -> &str {
    core::str::from_utf8(bytes).expect("check_bytes() lets only ASCII into a head")
}

fn not_a_request_line() -> Refusal {
    Refusal::bad("The request does not begin with a line like `GET /path HTTP/1.1`.")
}

/// RFC 9112 §3: `method SP request-target SP HTTP-version`, with single spaces.
fn request_line(buf: &[u8], at: Range<usize>) -> Result<RequestLine, Refusal> {
    let line = &buf[at.clone()];
    let first = memchr::memchr(b' ', line).ok_or_else(not_a_request_line)?;
    let last = memchr::memrchr(b' ', line).filter(|last| *last > first + 1);
    let last = last.ok_or_else(not_a_request_line)?;
    let (method, target, version) = (&line[..first], &line[first + 1..last], &line[last + 1..]);
    if method.is_empty() || !method.iter().copied().all(is_token_char) {
        return Err(not_a_request_line());
    }
    // Before the target is looked at, so that the preface of HTTP/2 is told what is wrong.
    let http_10 = match version {
        b"HTTP/1.0" => true,
        // RFC 9110 §2.5: a higher minor version is served as the highest we know.
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'1'..=b'9'] => false,
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => {
            return Err(Refusal::new(505, "This server speaks HTTP/1.1 and HTTP/1.0 only."));
        }
        _ => return Err(not_a_request_line()),
    };
    if method.len() + target.len() > REQUEST_LINE_BYTES_MAX {
        return Err(Refusal::new(
            414,
            format!("The request target is longer than {REQUEST_LINE_BYTES_MAX} bytes."),
        ));
    }
    let parts = authority::target(method, target)?;
    let start = at.start + first + 1;
    let place = |range: Range<usize>| start + range.start..start + range.end;
    Ok(RequestLine {
        method: at.start..at.start + first,
        target: place(parts.path),
        authority: parts.authority.map(place),
        http_10,
    })
}

/// RFC 9110 §8.6: digits only.
fn content_length(value: &[u8]) -> Result<u64, Refusal> {
    let refusal = || Refusal::bad("Content-Length must be one number of bytes in decimal digits.");
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(refusal());
    }
    text(value).parse().map_err(|_| refusal())
}

/// The elements of a comma-separated list; empty ones are skipped (RFC 9110 §5.6.1.2).
fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|element| !element.is_empty())
}
