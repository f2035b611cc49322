//! HTTP/1.1 by hand: bytes out, a response in, nothing corrected on the way.
//!
//! Knows framing (Content-Length, chunked, until the end) and reports exactly how a connection
//! ended. It never retries, redirects or adds a header. MCP lives in `agent`; a response that is an
//! event stream goes on in `sse`.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Bridge, Events, SOON, shown};

/// Why no (more) bytes came; with what had come before.
#[derive(Debug)]
pub enum Trouble {
    /// The deadline passed.
    Quiet(Vec<u8>),
    /// The other side ended the connection in order (FIN).
    Ended(Vec<u8>),
    /// The other side reset the connection (RST).
    Reset(Vec<u8>),
    /// What came is no HTTP.
    Malformed(String),
}

/// One TCP connection to a bridge.
pub struct Http {
    pub(super) stream: TcpStream,
    pub(super) buffer: Vec<u8>,
    /// How long a read waits; [`SOON`] at first.
    pub patience: Duration,
}

impl Http {
    /// Connects; fails when nobody listens.
    pub fn connect(addr: SocketAddr) -> Http {
        let stream = TcpStream::connect_timeout(&addr, SOON)
            .unwrap_or_else(|e| panic!("connecting to {addr}: {e}"));
        stream.set_nodelay(true).expect("TCP_NODELAY on a fresh socket");
        stream.set_write_timeout(Some(SOON)).expect("a write timeout that is not zero");
        Http { stream, buffer: Vec::new(), patience: SOON }
    }

    /// Writes all of it; fails when the connection does not take it.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.try_send(bytes).unwrap_or_else(|e| panic!("sending {}: {e}", shown(bytes)));
    }

    /// Writes all of it, if the connection takes it.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Ends our direction (FIN), and goes on reading.
    pub fn finish_sending(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("an open socket can be shut down");
    }

    /// Hangs up with a reset instead of a FIN.
    pub fn reset(self) {
        rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO))
            .expect("SO_LINGER on an open socket");
    }

    /// The next final response; 1xx ones are skipped.
    pub fn read_response(&mut self) -> Response {
        self.read_response_to("GET")
    }

    /// The next final response to a request with this method (`HEAD` has no body).
    pub fn read_response_to(&mut self, method: &str) -> Response {
        self.try_response_to(method).unwrap_or_else(|e| panic!("no response: {e:?}"))
    }

    /// As [`Http::read_response`], with the trouble as a value.
    pub fn try_response(&mut self) -> Result<Response, Trouble> {
        self.try_response_to("GET")
    }

    pub fn try_response_to(&mut self, method: &str) -> Result<Response, Trouble> {
        loop {
            let mut response = self.try_head()?;
            if response.status < 200 && response.status != 101 {
                continue;
            }
            if method == "HEAD" {
                response.framing = Framing::Length(0);
            }
            self.read_body(&mut response)?;
            return Ok(response);
        }
    }

    /// Only the next head, 1xx ones included; the body is still to be read.
    pub fn read_head(&mut self) -> Response {
        self.try_head().unwrap_or_else(|e| panic!("no response head: {e:?}"))
    }

    fn try_head(&mut self) -> Result<Response, Trouble> {
        let deadline = Instant::now() + self.patience;
        let end = loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                break at + 4;
            }
            self.fill(deadline)?;
        };
        let head: Vec<u8> = self.buffer.drain(..end).collect();
        Response::parse(&head)
    }

    /// Reads the body that belongs to `response` into it.
    pub fn read_body(&mut self, response: &mut Response) -> Result<(), Trouble> {
        let deadline = Instant::now() + self.patience;
        let mut framing = response.framing;
        while let Some(piece) = self.next_piece(&mut framing, deadline)? {
            response.body.extend_from_slice(&piece);
        }
        Ok(())
    }

    /// The next piece of a body; `None` at its proper end. `framing` carries what is left between
    /// calls.
    pub(super) fn next_piece(
        &mut self,
        framing: &mut Framing,
        deadline: Instant,
    ) -> Result<Option<Vec<u8>>, Trouble> {
        loop {
            match *framing {
                Framing::Length(0) => return Ok(None),
                Framing::Length(left) if !self.buffer.is_empty() => {
                    let n = self.buffer.len().min(left);
                    *framing = Framing::Length(left - n);
                    return Ok(Some(self.buffer.drain(..n).collect()));
                }
                Framing::UntilEnd if !self.buffer.is_empty() => {
                    return Ok(Some(std::mem::take(&mut self.buffer)));
                }
                Framing::Chunked => {
                    if let Some((line, size)) = chunk_line(&self.buffer)? {
                        let whole = line + size + 2;
                        if self.buffer.len() >= whole {
                            if &self.buffer[whole - 2..whole] != b"\r\n" {
                                let what = shown(&self.buffer);
                                return Err(Trouble::Malformed(format!(
                                    "chunk without CRLF {what}"
                                )));
                            }
                            let chunk: Vec<u8> = self.buffer.drain(..whole).collect();
                            if size == 0 {
                                *framing = Framing::Length(0);
                                return Ok(None);
                            }
                            return Ok(Some(chunk[line..line + size].to_vec()));
                        }
                    }
                }
                _ => {}
            }
            match self.fill(deadline) {
                Err(Trouble::Ended(_)) if *framing == Framing::UntilEnd => {
                    *framing = Framing::Length(0);
                    return Ok(None);
                }
                other => other?,
            }
        }
    }

    /// Reads something more into the buffer.
    pub(super) fn fill(&mut self, deadline: Instant) -> Result<(), Trouble> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Trouble::Quiet(self.buffer.clone()));
        }
        self.stream.set_read_timeout(Some(left)).expect("a read timeout that is not zero");
        let mut piece = [0; 64 * 1024];
        match self.stream.read(&mut piece) {
            Ok(0) => Err(Trouble::Ended(self.buffer.clone())),
            Ok(n) => {
                self.buffer.extend_from_slice(&piece[..n]);
                Ok(())
            }
            Err(e) => match e.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                    Err(Trouble::Quiet(self.buffer.clone()))
                }
                ErrorKind::Interrupted => Ok(()),
                _ => Err(Trouble::Reset(self.buffer.clone())),
            },
        }
    }

    /// What comes when nothing is expected any more: reads until the end, a reset, or `timeout`.
    pub fn rest(&mut self, timeout: Duration) -> Trouble {
        let deadline = Instant::now() + timeout;
        loop {
            if let Err(trouble) = self.fill(deadline) {
                return trouble;
            }
        }
    }

    /// Fails unless the other side now ends the connection in order, with nothing more said.
    pub fn expects_end(&mut self) {
        match self.rest(SOON) {
            Trouble::Ended(rest) if rest.is_empty() => {}
            other => panic!("expected the connection to end, got {other:?}"),
        }
    }

    /// Goes on as an event stream; `head` must be one.
    pub fn events(self, head: &Response) -> Events {
        assert!(head.is_event_stream(), "expected an event stream, got {head:?}");
        Events::new(self, head.framing)
    }
}

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// After so many bytes (those still to come).
    Length(usize),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// With the connection.
    UntilEnd,
}

/// A response; headers in the order and case they came in.
#[derive(Clone, PartialEq, Eq)]
pub struct Response {
    pub version: String,
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub framing: Framing,
    pub body: Vec<u8>,
}

impl Response {
    fn parse(head: &[u8]) -> Result<Response, Trouble> {
        let bad = |why: &str| Trouble::Malformed(format!("{why} in {}", shown(head)));
        let text = std::str::from_utf8(head).map_err(|_| bad("no UTF-8"))?;
        let mut lines = text.trim_end_matches("\r\n").split("\r\n");
        let mut status = lines.next().unwrap_or_default().splitn(3, ' ');
        let version = status.next().unwrap_or_default().to_owned();
        if !version.starts_with("HTTP/1.") {
            return Err(bad("no HTTP/1 version"));
        }
        let code = status.next().and_then(|s| s.parse().ok()).ok_or_else(|| bad("no status"))?;
        let mut headers = Vec::new();
        for line in lines {
            let (name, value) = line.split_once(':').ok_or_else(|| bad("no colon"))?;
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        let mut response = Response {
            version,
            status: code,
            headers,
            framing: Framing::UntilEnd,
            body: Vec::new(),
        };
        let length = response.header("content-length");
        if code == 101 || code == 204 || code == 304 || (100..200).contains(&code) {
            response.framing = Framing::Length(0);
        } else if let Some(coding) = response.header("transfer-encoding") {
            if !coding.eq_ignore_ascii_case("chunked") || length.is_some() {
                return Err(bad("odd framing"));
            }
            response.framing = Framing::Chunked;
        } else if let Some(length) = length {
            let length = length.parse().map_err(|_| bad("bad Content-Length"))?;
            response.framing = Framing::Length(length);
        }
        Ok(response)
    }

    /// The value of the header that is there at most once; fails when it is there twice.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} twice in {self:?}");
        value
    }

    /// The header's comma-separated tokens in lower case, over all its lines.
    pub fn header_tokens(&self, name: &str) -> Vec<String> {
        let lines = self.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        let tokens = lines.flat_map(|(_, value)| value.split(','));
        tokens.map(|t| t.trim().to_ascii_lowercase()).filter(|t| !t.is_empty()).collect()
    }

    /// The media type without its parameters, in lower case; empty when there is none.
    pub fn media_type(&self) -> String {
        let value = self.header("content-type").unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    pub fn is_event_stream(&self) -> bool {
        self.media_type() == "text/event-stream"
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap_or_else(|e| panic!("{e} in {self:?}"))
    }

    /// The body as JSON, which the `Content-Type` must say too.
    pub fn json(&self) -> Value {
        assert_eq!(self.media_type(), "application/json", "{self:?}");
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e} in {self:?}"))
    }

    /// Whether the server says that it closes the connection after this.
    pub fn says_close(&self) -> bool {
        self.header_tokens("connection").iter().any(|t| t == "close")
    }
}

impl std::fmt::Debug for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {:?} body {}", self.version, self.status, self.headers, shown(&self.body))
    }
}

/// A request to be written; nothing is in it but what was put in.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub target: String,
    pub version: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<Vec<u8>>,
}

impl Request {
    /// With a `Host` of `localhost`, and no body.
    pub fn new(method: &str, target: &str) -> Request {
        Request {
            method: method.to_owned(),
            target: target.to_owned(),
            version: "HTTP/1.1".to_owned(),
            headers: vec![("Host".to_owned(), "localhost".to_owned())],
            body: None,
        }
    }

    pub fn get(target: &str) -> Request {
        Request::new("GET", target)
    }

    pub fn post(target: &str) -> Request {
        Request::new("POST", target)
    }

    /// Adds a header, also when one of that name is there.
    pub fn with(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Removes every header of that name.
    pub fn without(mut self, name: &str) -> Request {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self
    }

    /// Replaces every header of that name by one.
    pub fn set(self, name: &str, value: &str) -> Request {
        self.without(name).with(name, value)
    }

    pub fn bearer(self, token: &str) -> Request {
        self.set("Authorization", &format!("Bearer {token}"))
    }

    /// A body as it is; a `Content-Length` is added when the request is written, unless the headers
    /// frame it already.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Request {
        self.body = Some(body.into());
        self
    }

    /// A JSON body with its `Content-Type`.
    pub fn json(self, value: &Value) -> Request {
        self.set("Content-Type", "application/json").body(value.to_string())
    }

    fn names(&self, name: &str) -> bool {
        self.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name))
    }

    /// The bytes of head and body.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes =
            format!("{} {} {}\r\n", self.method, self.target, self.version).into_bytes();
        for (name, value) in &self.headers {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        let framed = self.names("content-length") || self.names("transfer-encoding");
        if let (Some(body), false) = (&self.body, framed) {
            bytes.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        bytes
    }

    /// Writes it on a new connection, which is returned before anything was read.
    pub fn sent_to(&self, bridge: &Bridge) -> Http {
        let mut http = Http::connect(bridge.addr);
        http.send(self.bytes());
        http
    }

    /// The response, on a connection of its own.
    pub fn to(&self, bridge: &Bridge) -> Response {
        self.sent_to(bridge).read_response_to(&self.method)
    }
}

pub(super) fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// Length of the chunk's size line with its CRLF, and the size; `None` while the line is
/// incomplete.
fn chunk_line(bytes: &[u8]) -> Result<Option<(usize, usize)>, Trouble> {
    let Some(end) = find(&bytes[..bytes.len().min(64)], b"\r\n") else { return Ok(None) };
    let line = String::from_utf8_lossy(&bytes[..end]);
    let size = line.split(';').next().unwrap_or_default();
    match usize::from_str_radix(size, 16) {
        Ok(size) => Ok(Some((end + 2, size))),
        Err(_) => Err(Trouble::Malformed(format!("chunk size {line:?}"))),
    }
}
