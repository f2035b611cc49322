//! Bytes as agents and clients send them, and a blocking connection to send them on.
//!
//! Written out by hand, so that the load generator costs little and shares no code with what it
//! measures. Knows no scenario; `hold` and `load` put these together.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clientmcp_proto::client_id::ClientId;
use clientmcp_proto::time::UnixSeconds;
use clientmcp_proto::token::{Mint, Secrets, mint};
use rustix::net::{AddressFamily, SocketType};

/// The secret of every server that is measured.
pub const SECRET: &str = "a-secret-for-measurements-that-is-long-enough";

/// Size of a register, in bytes.
pub const REGISTER_BYTES: usize = 1024;

const SOON: Duration = Duration::from_secs(20);

/// Which revision of MCP an agent speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    Legacy,
    Modern,
}

/// A token for `client_id`, good for a day.
pub fn token(client_id: &str, scope: Scope) -> Result<String, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let secrets = Secrets::parse(SECRET).map_err(|error| error.to_string())?;
    let client_id = ClientId::parse(client_id).map_err(|error| error.to_string())?;
    Ok(mint(
        &secrets,
        &Mint {
            client_id: &client_id,
            may_connect: scope == Scope::Client,
            may_call: scope == Scope::Agent,
            iat: UnixSeconds(now),
            exp: UnixSeconds(now + 24 * 3600),
            jti: "0123456789abcdef",
            audience: None,
            tools: None,
        },
    ))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Client,
    Agent,
}

/// A register of three tools and exactly [`REGISTER_BYTES`]; with a number no other is equal to it.
pub fn register(number: Option<usize>) -> String {
    let schema = r#"{"type":"object","properties":{"text":{"type":"string"}}}"#;
    let mut text = String::from(
        r#"{"type":"register","server":{"name":"bench","version":"1"},"instructions":""#,
    );
    text.push_str(&format!("{:08}", number.map_or(0, |number| number + 1)));
    text.push_str(r#"","tools":["#);
    for name in ["echo", "read_document", "write_document"] {
        text.push_str(&format!(r#"{{"name":"{name}","inputSchema":{schema},"description":""}},"#));
    }
    text.pop();
    let end = r#"]}"#;
    // The last description is filled up.
    let hole = text.len() - r#""}"#.len();
    let missing = REGISTER_BYTES - text.len() - end.len();
    text.insert_str(hole, &"d".repeat(missing));
    text.push_str(end);
    text
}

/// A text frame of a client. The mask is four zeros: the server unmasks as ever, and the load
/// generator saves itself the work (RFC 6455 §5.3 wants unpredictable ones, against proxies).
pub fn frame(opcode: u8, payload: &[u8], out: &mut Vec<u8>) {
    out.push(0x80 | opcode);
    match payload.len() {
        short @ 0..126 => out.push(0x80 | short as u8),
        middle @ 126..65536 => {
            out.push(0x80 | 126);
            out.extend((middle as u16).to_be_bytes());
        }
        long => {
            out.push(0x80 | 127);
            out.extend((long as u64).to_be_bytes());
        }
    }
    out.extend([0; 4]);
    out.extend(payload);
}

pub const TEXT: u8 = 1;
pub const CLOSE: u8 = 8;
pub const PING: u8 = 9;
pub const PONG: u8 = 10;

/// The request that becomes a WebSocket.
pub fn upgrade(token: &str) -> String {
    format!(
        "GET /connect HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
         Sec-WebSocket-Protocol: clientmcp.v1, clientmcp.bearer.{token}\r\n\r\n"
    )
}

/// A POST to the MCP endpoint with more header lines, each ended.
pub fn post(token: &str, accept: &str, more: &str, body: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nAccept: {accept}\r\n{more}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub const ACCEPT_BOTH: &str = "application/json, text/event-stream";
pub const ACCEPT_EVENTS: &str = "text/event-stream";

pub const ERA_2025: &str = "MCP-Protocol-Version: 2025-11-25\r\n";

/// What an agent of 2026 says of itself with every request.
pub const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

/// `initialize` as an agent of 2025 sends it.
pub fn initialize(token: &str) -> String {
    let body = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
    post(token, ACCEPT_BOTH, "", body)
}

/// The GET of a notification stream.
pub fn stream(token: &str, session: &str) -> String {
    format!(
        "GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\
         Accept: text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n\
         Mcp-Session-Id: {session}\r\n\r\n"
    )
}

/// `subscriptions/listen` for all three kinds of list.
pub fn listen(token: &str) -> String {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{{"notifications":{{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}},{META}}}}}"#
    );
    let more = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n";
    post(token, ACCEPT_EVENTS, more, &body)
}

/// A call of `echo` with a text of this many bytes.
pub fn call(token: &str, era: Era, streamed: bool, bytes: usize) -> String {
    let accept = if streamed { ACCEPT_EVENTS } else { ACCEPT_BOTH };
    let text = "a".repeat(bytes);
    let (more, meta) = match era {
        Era::Legacy => ("MCP-Protocol-Version: 2025-11-25\r\n".to_owned(), String::new()),
        Era::Modern => (
            "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n"
                .to_owned(),
            format!(",{META}"),
        ),
    };
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{text}"}}{meta}}}}}"#
    );
    post(token, accept, &more, &body)
}

/// A blocking connection with what was read ahead.
#[derive(Debug)]
pub struct Peer {
    pub stream: TcpStream,
    buffer: Vec<u8>,
}

/// A response's head, and its body as far as it is one with a length.
#[derive(Debug)]
pub struct Response {
    pub head: String,
    pub body: Vec<u8>,
}

impl Response {
    /// The value of a header field, whose name is written as the server writes it, in any case.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

impl Peer {
    /// Connects from a loopback address: one has about 28,000 ports only.
    pub fn connect(from: Ipv4Addr, to: SocketAddr) -> io::Result<Peer> {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
        rustix::net::bind(&socket, &SocketAddrV4::new(from, 0))?;
        rustix::net::connect(&socket, &to)?;
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SOON))?;
        Ok(Peer { stream, buffer: Vec::new() })
    }

    /// A connection that was put aside with nothing read ahead.
    pub fn again(stream: TcpStream) -> Peer {
        Peer { stream, buffer: Vec::new() }
    }

    /// The bare socket; what was read ahead must be used up.
    pub fn idle(self) -> io::Result<TcpStream> {
        if self.buffer.is_empty() {
            return Ok(self.stream);
        }
        Err(io::Error::other(format!("{} bytes came that nobody asked for", self.buffer.len())))
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    fn more(&mut self) -> io::Result<()> {
        let mut scratch = [0; 4096];
        match self.stream.read(&mut scratch)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.buffer.extend(&scratch[..count]);
                Ok(())
            }
        }
    }

    /// Reads until the buffer holds `wanted`; returns where it ends.
    fn find(&mut self, wanted: &[u8]) -> io::Result<usize> {
        loop {
            if let Some(at) = find(&self.buffer, wanted) {
                return Ok(at + wanted.len());
            }
            self.more()?;
        }
    }

    /// Reads a response, which must have the status.
    pub fn response(&mut self, status: &str) -> io::Result<Response> {
        let end = self.find(b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
        self.buffer.drain(..end);
        if head.split(' ').nth(1) != Some(status) {
            return Err(io::Error::other(format!("expected {status}, got {head:?}")));
        }
        let mut response = Response { head, body: Vec::new() };
        if let Some(length) = response.field("content-length") {
            let length: usize = length.parse().map_err(io::Error::other)?;
            while self.buffer.len() < length {
                self.more()?;
            }
            response.body = self.buffer.drain(..length).collect();
        }
        Ok(response)
    }

    /// Reads the first record of an event stream away.
    pub fn first_record(&mut self) -> io::Result<()> {
        let end = self.find(b"\n\n")?;
        self.buffer.drain(..end);
        // The end of the chunk.
        while !self.buffer.ends_with(b"\r\n") {
            self.more()?;
        }
        self.buffer.clear();
        Ok(())
    }

    /// Reads a text message; pings meanwhile are answered.
    pub fn message(&mut self) -> io::Result<String> {
        loop {
            let Some((opcode, start, end)) = server_frame(&self.buffer) else {
                self.more()?;
                continue;
            };
            let payload: Vec<u8> = self.buffer.drain(..end).skip(start).collect();
            match opcode {
                TEXT => return String::from_utf8(payload).map_err(io::Error::other),
                PING => {
                    let mut pong = Vec::new();
                    frame(PONG, &payload, &mut pong);
                    self.write(&pong)?;
                }
                CLOSE => {
                    let words = String::from_utf8_lossy(payload.get(2..).unwrap_or_default());
                    return Err(io::Error::other(format!("closed by the server: {words}")));
                }
                _ => {}
            }
        }
    }

    pub fn send(&mut self, message: &str) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(message.len() + 14);
        frame(TEXT, message.as_bytes(), &mut bytes);
        self.write(&bytes)
    }

    /// Becomes a registered client.
    pub fn join(&mut self, token: &str, register: &str) -> io::Result<()> {
        self.write(upgrade(token).as_bytes())?;
        self.response("101")?;
        self.send(register)?;
        let answer = self.message()?;
        if answer.contains(r#""type":"registered""#) && answer.contains(r#""refused":[]"#) {
            return Ok(());
        }
        Err(io::Error::other(format!("expected `registered`, got {answer}")))
    }

    /// Sends a `ping` and waits for its answer.
    pub fn ping(&mut self) -> io::Result<()> {
        self.send(r#"{"type":"ping"}"#)?;
        let answer = self.message()?;
        if answer == r#"{"type":"pong"}"# {
            return Ok(());
        }
        Err(io::Error::other(format!("expected a pong, got {answer}")))
    }
}

/// The first whole frame of a server in `bytes`: opcode, where its payload begins and ends.
pub fn server_frame(bytes: &[u8]) -> Option<(u8, usize, usize)> {
    let (&[first, short], rest) = bytes.split_first_chunk()?;
    let (start, length) = match short {
        126 => (4, usize::from(u16::from_be_bytes(*rest.first_chunk()?))),
        127 => (10, usize::try_from(u64::from_be_bytes(*rest.first_chunk()?)).ok()?),
        short => (2, usize::from(short)),
    };
    (bytes.len() >= start + length).then_some((first & 0x0f, start, start + length))
}

/// Where `wanted` begins in `bytes`.
pub fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
