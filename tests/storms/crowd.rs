//! Thousands of clients and agents in one thread: a task each, a socket each, and what they have seen.
//!
//! A client here goes by the rules of both SDKs: when to ping, when to give up, how long to wait before it
//! dials again (`sdk/src/client.js`, and `clientmcp_proto::channel::client`). It answers `echo` with what
//! it was given and its own name, and writes down that it did. Tests read the books.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::time::{Duration, Instant};

use clientmcp_proto::channel::client::{self, Backoff, Ending, Line, Message, Tick, after_close};
use clientmcp_proto::limits::{DIAL_TIMEOUT, PING_INTERVAL};
use clientmcp_proto::time::{Instant as Moment, UnixSeconds};
use serde_json::Value;
use smol::future::or;
use smol::io::AsyncWriteExt;
use smol::{Async, LocalExecutor, Task, Timer};

use crate::support::{Token, token, unique};

/// Fails unless this process may have so many files open, and so may the bridge, which inherits the limit.
pub fn needs_files(count: u64) {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    if limit.current.is_none_or(|current| current >= count) {
        return;
    }
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).ok();
    let now = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let enough = now.is_none_or(|now| now >= count);
    assert!(
        enough,
        "this test needs {count} open files; raise the limit (`ulimit -n`) from {now:?}"
    );
}

/// Runs a test with a place for its tasks, all of which end with it.
pub fn weather<F: Future<Output = ()>>(test: impl FnOnce(Rc<LocalExecutor<'static>>) -> F) {
    let tasks = Rc::new(LocalExecutor::new());
    smol::block_on(tasks.run(test(tasks.clone())));
}

/// The output, or a failure that says what did not come.
pub async fn within<T>(seconds: u64, what: &str, wait: impl Future<Output = T>) -> T {
    let late = async {
        Timer::after(Duration::from_secs(seconds)).await;
        None
    };
    or(async { Some(wait.await) }, late)
        .await
        .unwrap_or_else(|| panic!("not within {seconds} s: {what}"))
}

pub async fn pause(ms: u64) {
    Timer::after(Duration::from_millis(ms)).await;
}

/// Waits until it holds; a failure says what did not, and what `shown` shows.
pub async fn until(seconds: u64, what: &str, holds: impl Fn() -> bool, shown: impl Fn() -> String) {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    while !holds() {
        assert!(Instant::now() < deadline, "not within {seconds} s: {what}; {}", shown());
        pause(20).await;
    }
}

/// Reads what is there into the buffer, waiting for something. The end is an error too.
async fn read_more(io: &Async<TcpStream>, buffer: &mut Vec<u8>) -> io::Result<()> {
    let read = io.read_with(|mut io| {
        let mut chunk = [0; 16 << 10];
        let count = io.read(&mut chunk)?;
        buffer.extend_from_slice(&chunk[..count]);
        Ok(count)
    });
    match read.await? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

async fn read_head(io: &Async<TcpStream>, buffer: &mut Vec<u8>) -> io::Result<String> {
    loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = buffer.drain(..end + 4).collect();
            return String::from_utf8(head).map_err(io::Error::other);
        }
        read_more(io, buffer).await?;
    }
}

// Clients.

/// What a client's connection says.
pub enum Heard {
    Text(String),
    Close(u16),
}

/// A client's connection.
pub struct Channel {
    io: Async<TcpStream>,
    buffer: Vec<u8>,
}

impl Channel {
    pub async fn dial(addr: SocketAddr, token: &str) -> io::Result<Channel> {
        let io = Async::<TcpStream>::connect(addr).await?;
        let head = format!(
            "GET /connect HTTP/1.1\r\nHost: {addr}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Protocol: clientmcp.v1, clientmcp.bearer.{token}\r\n\r\n"
        );
        (&io).write_all(head.as_bytes()).await?;
        let mut buffer = Vec::new();
        let head = read_head(&io, &mut buffer).await?;
        match head.starts_with("HTTP/1.1 101 ") {
            true => Ok(Channel { io, buffer }),
            false => Err(io::Error::other(head)),
        }
    }

    pub async fn say(&mut self, text: &str) -> io::Result<()> {
        self.frame(0x81, text.as_bytes()).await
    }

    /// Masked with zeros, which is as good as any to who only has to unmask it.
    async fn frame(&mut self, first: u8, payload: &[u8]) -> io::Result<()> {
        let mut frame = vec![first];
        match payload.len() {
            short @ 0..126 => frame.push(0x80 | short as u8),
            long @ 126..65_536 => {
                frame.push(0x80 | 126);
                frame.extend_from_slice(&(long as u16).to_be_bytes());
            }
            more => {
                frame.push(0x80 | 127);
                frame.extend_from_slice(&(more as u64).to_be_bytes());
            }
        }
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(payload);
        (&self.io).write_all(&frame).await
    }

    /// The next text or close; pings are answered. May be given up and called again.
    pub async fn hear(&mut self) -> io::Result<Heard> {
        loop {
            let Some((first, start, end)) = frame_in(&self.buffer) else {
                read_more(&self.io, &mut self.buffer).await?;
                continue;
            };
            let payload = self.buffer[start..end].to_vec();
            self.buffer.drain(..end);
            match first {
                0x81 => {
                    return String::from_utf8(payload).map(Heard::Text).map_err(io::Error::other);
                }
                0x88 => {
                    let code =
                        payload.get(..2).map_or(1005, |two| u16::from_be_bytes([two[0], two[1]]));
                    self.frame(0x88, &payload[..payload.len().min(2)]).await.ok();
                    return Ok(Heard::Close(code));
                }
                0x89 => self.frame(0x8a, &payload).await?,
                _ => return Err(io::Error::other(format!("a frame begins with {first:#x}"))),
            }
        }
    }
}

/// The first whole frame of the bridge's: its first byte, and where its payload begins and ends.
fn frame_in(bytes: &[u8]) -> Option<(u8, usize, usize)> {
    let (first, second) = (*bytes.first()?, *bytes.get(1)?);
    let (length, start) = match second {
        126 => (usize::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?)), 4),
        127 => (usize::try_from(u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)).ok()?, 10),
        short => (usize::from(short), 2),
    };
    bytes.get(start..start + length).map(|_| (first, start, start + length))
}

/// How long to wait before dialing again: as the JavaScript SDK does, or as ours in Rust does.
enum Redial {
    JavaScript { attempts: u32 },
    Rust(Backoff),
}

impl Redial {
    fn wait(&mut self, online: Option<Duration>) -> Duration {
        let random = getrandom::u64().expect("the kernel has random numbers");
        match self {
            Redial::Rust(backoff) => backoff.wait(online, random),
            Redial::JavaScript { attempts } => {
                if online.is_some_and(|online| online >= Duration::from_secs(5)) {
                    *attempts = 0;
                }
                *attempts += 1;
                let most = 500_u64.saturating_mul(1 << (*attempts).min(20)).min(30_000);
                Duration::from_millis(500 + random % (most - 499))
            }
        }
    }
}

/// How the clients of a crowd behave.
#[derive(Clone, Copy)]
pub struct Manners {
    /// They dial again when SPEC §4.6 lets them.
    pub come_back: bool,
    /// How often they send `ping`; the bridge's wish when `None`.
    pub ping_every: Option<Duration>,
}

pub const ONCE: Manners = Manners { come_back: false, ping_every: None };
pub const FAITHFUL: Manners = Manners { come_back: true, ping_every: None };

/// One client, as it is known to the tests.
pub struct Member {
    pub client_id: String,
    token: String,
    /// For agents.
    pub agent_token: String,
    pub online: Cell<bool>,
}

/// Many clients, and their books.
pub struct Crowd {
    pub addr: SocketAddr,
    pub members: Vec<Member>,
    started: Instant,
    tasks: RefCell<Vec<Task<()>>>,
    /// How often each call was written to some client, by its marker.
    runs: RefCell<BTreeMap<String, u32>>,
    /// How connections ended: the close codes, 1006 for none.
    pub ends: RefCell<Vec<u16>>,
    /// Calls marked `hold…` are not answered before this.
    pub release: Cell<bool>,
}

impl Crowd {
    /// So many clients, not connected yet.
    pub fn gather(addr: SocketAddr, count: usize) -> Rc<Crowd> {
        let name = unique("crowd");
        let member = |n: usize| {
            let client_id = format!("{name}-{n}");
            let token = token(&client_id, "client");
            let agent_token = Token::of(&client_id, "agent").mint();
            Member { client_id, token, agent_token, online: Cell::new(false) }
        };
        Rc::new(Crowd {
            addr,
            members: (0..count).map(member).collect(),
            started: Instant::now(),
            tasks: RefCell::default(),
            runs: RefCell::default(),
            ends: RefCell::default(),
            release: Cell::new(false),
        })
    }

    /// All of them dial, each in a task of its own.
    pub fn arrives(self: &Rc<Self>, tasks: &LocalExecutor<'static>, manners: Manners) {
        let lives = |n| {
            let crowd = self.clone();
            tasks.spawn(async move { crowd.lives(n, manners).await })
        };
        *self.tasks.borrow_mut() = (0..self.members.len()).map(lives).collect();
    }

    /// All of them are gone, as when a network fails.
    pub fn vanishes(&self) {
        self.tasks.take();
        self.members.iter().for_each(|member| member.online.set(false));
    }

    pub fn online(&self) -> usize {
        self.members.iter().filter(|member| member.online.get()).count()
    }

    pub async fn all_online(&self, seconds: u64) {
        let all = || self.online() == self.members.len();
        let shown = || format!("{} of {}", self.online(), self.members.len());
        until(seconds, "everyone is online", all, shown).await;
    }

    /// Markers that more than one client was sent, or one client twice.
    pub fn doubled(&self) -> Vec<String> {
        let runs = self.runs.borrow();
        runs.iter().filter(|(_, times)| **times > 1).map(|(marker, _)| marker.clone()).collect()
    }

    /// How often a call was written to some client.
    pub fn runs(&self, marker: &str) -> u32 {
        self.runs.borrow().get(marker).copied().unwrap_or_default()
    }

    fn now(&self) -> Moment {
        Moment(u64::try_from(self.started.elapsed().as_millis()).expect("tests end sooner"))
    }

    async fn lives(&self, n: usize, manners: Manners) {
        let mut redial = match n % 2 {
            0 => Redial::JavaScript { attempts: 0 },
            _ => Redial::Rust(Backoff::default()),
        };
        loop {
            let mut line = None;
            let code = self.connection(n, manners, &mut line).await;
            self.members[n].online.set(false);
            if line.is_some() {
                self.ends.borrow_mut().push(code.unwrap_or(1006));
            }
            if !manners.come_back || after_close(code) == Ending::Never {
                return;
            }
            let online = line.as_ref().and_then(|line| line.online(self.now()));
            Timer::after(redial.wait(online)).await;
        }
    }

    /// One connection to its end: the close code, if there was one. `line` is there once it was open.
    async fn connection(&self, n: usize, manners: Manners, line: &mut Option<Line>) -> Option<u16> {
        let member = &self.members[n];
        let late = async {
            Timer::after(DIAL_TIMEOUT).await;
            Err(ErrorKind::TimedOut.into())
        };
        let mut channel = or(Channel::dial(self.addr, &member.token), late).await.ok()?;
        let line = line.insert(Line::new(self.now(), UnixSeconds(0), None));
        let echo =
            r#"{"type":"register","tools":[{"name":"echo","inputSchema":{"type":"object"}}]}"#;
        channel.say(echo).await.ok()?;
        let mut held = Vec::new();
        loop {
            let wait = line.deadline().since(self.now());
            // A client that holds a call looks now and then whether it may let go.
            let wait = if held.is_empty() { wait } else { wait.min(Duration::from_millis(20)) };
            let tick = async {
                Timer::after(wait).await;
                Ok(None)
            };
            let heard = or(async { channel.hear().await.map(Some) }, tick).await.ok()?;
            match heard {
                Some(Heard::Close(code)) => return Some(code),
                Some(Heard::Text(text)) => {
                    line.heard(self.now());
                    match client::read(&text)? {
                        Message::Registered { ping_every, .. } => {
                            line.registered(self.now(), manners.ping_every.unwrap_or(ping_every));
                            member.online.set(true);
                        }
                        Message::Call { id, params, .. } => {
                            let params: Value = serde_json::from_str(params).expect("JSON");
                            let marker = params["arguments"]["marker"].as_str().expect("a marker");
                            *self.runs.borrow_mut().entry(marker.to_owned()).or_default() += 1;
                            let said = format!("{marker}@{}", member.client_id);
                            let answer = client::result(&id, &client::text_result(&said));
                            if marker.starts_with("hold") {
                                held.push(answer);
                            } else {
                                channel.say(&answer).await.ok()?;
                            }
                        }
                        _ => {}
                    }
                }
                None => {}
            }
            if self.release.get() {
                for answer in held.drain(..) {
                    channel.say(&answer).await.ok()?;
                }
            }
            while let Some(tick) = line.tick(self.now()) {
                match tick {
                    Tick::Ping => channel.say(r#"{"type":"ping"}"#).await.ok()?,
                    Tick::Lost(_) => return None,
                    Tick::Renew => unreachable!("no token was to be renewed"),
                }
            }
        }
    }
}

const _: () = assert!(PING_INTERVAL.as_secs() == 30, "asleep::… counts on it");

// Agents.

/// How a call ended for its agent; a test that expected another end shows it.
#[derive(Debug)]
#[allow(dead_code)] // what is in them is read by Debug, in failures
pub enum End {
    /// The text of a tool result.
    Text(String),
    /// The words of a tool error.
    ToolError(String),
    /// Another answer: its status and its whole text.
    Other(u16, String),
    /// The connection could not be made, or ended without an answer.
    Broken(io::Error),
}

/// An agent's connection, kept alive.
pub struct Caller {
    addr: SocketAddr,
    io: Option<Async<TcpStream>>,
    buffer: Vec<u8>,
}

impl Caller {
    pub fn new(addr: SocketAddr) -> Caller {
        Caller { addr, io: None, buffer: Vec::new() }
    }

    /// Calls `echo` of this client; the answer is JSON however long it takes.
    pub async fn calls(&mut self, token: &str, marker: &str) -> End {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"echo","arguments":{{"marker":"{marker}"}}}}}}"#
        );
        let (status, _, text) = match self.posts(token, &body).await {
            Ok(answer) => answer,
            Err(error) => {
                self.io = None;
                return End::Broken(error);
            }
        };
        let json: Value = serde_json::from_str(&text).unwrap_or_default();
        let words = json["result"]["content"][0]["text"].as_str();
        match (status, words) {
            (200, Some(words)) if json["id"] == 7 => match json["result"]["isError"] == true {
                true => End::ToolError(words.to_owned()),
                false => End::Text(words.to_owned()),
            },
            _ => End::Other(status, text),
        }
    }

    /// Posts any body of the 2025 era: status, head and body of the answer.
    pub async fn posts(&mut self, token: &str, body: &str) -> io::Result<(u16, String, String)> {
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nAccept: application/json\r\n\
             MCP-Protocol-Version: 2025-11-25\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.sends(&request).await
    }

    /// Sends any request whose answer has a length.
    pub async fn sends(&mut self, request: &str) -> io::Result<(u16, String, String)> {
        if self.io.is_none() {
            self.buffer.clear();
            self.io = Some(Async::<TcpStream>::connect(self.addr).await?);
        }
        let io = self.io.as_ref().expect("made above");
        { io }.write_all(request.as_bytes()).await?;
        let head = read_head(io, &mut self.buffer).await?;
        let status = head.get(9..12).and_then(|status| status.parse().ok());
        let status: u16 = status.ok_or_else(|| io::Error::other(head.clone()))?;
        let field = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
        };
        let length = field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        while self.buffer.len() < length {
            read_more(io, &mut self.buffer).await?;
        }
        let body = self.buffer.drain(..length).collect();
        assert!(self.buffer.is_empty(), "more than one answer came: {:?}", self.buffer);
        if field("connection").is_some_and(|value| value == "close") {
            self.io = None;
        }
        Ok((status, head, String::from_utf8(body).map_err(io::Error::other)?))
    }
}

/// A request whose answer is read until the connection ends or `stop` is found in it.
pub async fn streams(addr: SocketAddr, request: &str, stop: Option<&str>) -> io::Result<Streamed> {
    let io = Async::<TcpStream>::connect(addr).await?;
    (&io).write_all(request.as_bytes()).await?;
    let mut streamed = Streamed { io, bytes: Vec::new() };
    if let Some(stop) = stop {
        streamed.reads_to(stop).await?;
    }
    Ok(streamed)
}

/// An event stream, kept as the bytes that came.
pub struct Streamed {
    io: Async<TcpStream>,
    pub bytes: Vec<u8>,
}

impl Streamed {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub async fn reads_to(&mut self, stop: &str) -> io::Result<()> {
        while !self.text().contains(stop) {
            read_more(&self.io, &mut self.bytes).await?;
        }
        Ok(())
    }

    /// Everything until the connection ends; an error when that is in the middle.
    pub async fn reads_to_its_end(mut self) -> Result<String, String> {
        let end = loop {
            if let Err(end) = read_more(&self.io, &mut self.bytes).await {
                break end;
            }
        };
        match self.text() {
            text if end.kind() == ErrorKind::UnexpectedEof && text.ends_with("\r\n0\r\n\r\n") => {
                Ok(text)
            }
            text => Err(format!("{end} after {text}")),
        }
    }
}

/// A GET stream of the 2025 era.
pub fn get_stream(token: &str) -> String {
    format!(
        "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Accept: text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n\r\n"
    )
}

/// A `subscriptions/listen` of the 2026 era, with the request ID `"l"`.
pub fn listen_stream(token: &str) -> String {
    let body = r#"{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
