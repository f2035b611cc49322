//! A Streamable HTTP MCP server of the 2025 era that runs already, usually on this machine.
//!
//! Knows HTTP/1.1 as far as it takes: one connection for each request, JSON or event streams as answers,
//! a session ID, and one GET stream for what belongs to no request. What the messages mean is for
//! `clientmcp_proto::upstream`. Streams are not resumed; a server that ends one early has failed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use async_io::Timer;
use clientmcp_proto::http1::{BodyDecoder, BodyKind};
use clientmcp_proto::json;
use clientmcp_proto::limits::MESSAGE_BYTES_MAX;
use clientmcp_proto::upstream::RequestId;
use smol::future::or;
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
use smol::{LocalExecutor, Task};

use super::{In, Link, Out};
use crate::client::dial::{self, Stream};
use crate::client::member;
use crate::log;

/// Largest head of an answer, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Largest JSON answer or event, in bytes.
const MESSAGE_MAX: usize = 16 * MESSAGE_BYTES_MAX;

/// How long a server may take to begin its answer to a notification, and to let a session end.
const NOTICE_WAIT: Duration = Duration::from_secs(10);

/// How long to wait before the stream of notices is opened again.
const REOPEN_WAIT: Duration = Duration::from_secs(2);

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    host: String,
    port: u16,
    tls: bool,
    /// As it stands in `Host`.
    authority: String,
    path: String,
}

impl Url {
    pub fn parse(text: &str) -> Result<Url, String> {
        let wrong = || format!("must be a URL such as http://127.0.0.1:3001/mcp, not {text:?}");
        let (tls, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) if cfg!(feature = "tls") => (true, rest),
            _ => return Err(wrong()),
        };
        let path_at = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(path_at);
        let port_at = authority.rfind(':').filter(|colon| !authority[*colon..].contains(']'));
        let (host, port) = match port_at {
            Some(colon) => {
                (&authority[..colon], authority[colon + 1..].parse().map_err(|_| wrong())?)
            }
            None => (authority, if tls { 443 } else { 80 }),
        };
        let visible = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_empty() || authority.contains('@') || !visible(rest) || rest.contains('#') {
            return Err(wrong());
        }
        Ok(Url {
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port,
            tls,
            authority: authority.to_owned(),
            path: if path.is_empty() { "/".to_owned() } else { path.to_owned() },
        })
    }
}

/// Begins to speak with the server; it is dialled with the first message.
pub fn start(url: &Url, executor: &Rc<LocalExecutor<'static>>) -> Link {
    let (out, outbox) = flume::unbounded();
    let (inbox, receiver) = flume::bounded(64);
    let session = Rc::new(Session {
        url: url.clone(),
        inbox,
        id: RefCell::default(),
        version: RefCell::default(),
    });
    let task = executor.spawn(tend(session, outbox, executor.clone()));
    Link { out, inbox: receiver, task, group: None }
}

struct Session {
    url: Url,
    inbox: flume::Sender<In>,
    /// The `Mcp-Session-Id` that the server gave, if any.
    id: RefCell<Option<String>>,
    /// The version that `initialize` agreed on.
    version: RefCell<Option<String>>,
}

async fn tend(
    session: Rc<Session>,
    outbox: flume::Receiver<Out>,
    executor: Rc<LocalExecutor<'static>>,
) {
    let mut open: HashMap<RequestId, Task<()>> = HashMap::new();
    let mut notices: Option<Task<()>> = None;
    while let Ok(out) = outbox.recv_async().await {
        match out {
            Out::Send { text, about: Some(id) } => {
                open.retain(|_, task| !task.is_finished());
                open.insert(id, executor.spawn(request(session.clone(), text, id)));
            }
            // In order, because `notifications/initialized` has to come before what follows it.
            Out::Send { text, about: None } => {
                let late = async {
                    Timer::after(NOTICE_WAIT).await;
                    Err("no answer in time".to_owned())
                };
                if let Err(why) = or(session.notify(&text), late).await {
                    log::warn("local MCP server", &[("trouble", &why)]);
                }
                notices.get_or_insert_with(|| executor.spawn(follow(session.clone())));
            }
            // Dropping the task hangs up.
            Out::Forget(id) => drop(open.remove(&id)),
        }
    }
    let late = async {
        Timer::after(NOTICE_WAIT).await;
    };
    or(session.leave(), late).await;
}

/// One request and everything that comes on its answer.
async fn request(session: Rc<Session>, text: String, id: RequestId) {
    let why = match session.ask(&text, id).await {
        Ok(()) => "its answer ended without a response".to_owned(),
        Err(why) => why,
    };
    // Of no effect when the response has come.
    session.tell(In::Failed { id, why }).await;
}

/// The stream of what belongs to no request, for as long as the server has one.
async fn follow(session: Rc<Session>) {
    loop {
        match session.open("GET", "", "text/event-stream").await {
            Ok(answer) if answer.status == 200 && answer.is_events() => {
                if let Err(why) = session.read(answer, None).await {
                    log::debug("the server's stream of notices ended", &[("reason", &why)]);
                }
            }
            // 405: it has none (MCP 2025-11-25, Transports). Any other refusal would be the same again.
            Ok(answer) => {
                log::debug("the server has no stream of notices", &[("status", &answer.status)]);
                return;
            }
            Err(why) => log::debug("the server's stream of notices failed", &[("reason", &why)]),
        }
        Timer::after(REOPEN_WAIT).await;
    }
}

impl Session {
    async fn tell(&self, message: In) {
        // The other end has gone on to another server.
        self.inbox.send_async(message).await.ok();
    }

    async fn ask(&self, text: &str, id: RequestId) -> Result<(), String> {
        let answer = self.open("POST", text, "application/json, text/event-stream").await?;
        if answer.status == 404 && self.id.borrow().is_some() {
            self.tell(In::Ended("it has forgotten the session".to_owned())).await;
        }
        if let Some(session) = answer.header("mcp-session-id") {
            *self.id.borrow_mut() = Some(session.to_owned());
        }
        let has_message = answer.is_events() || answer.is_json();
        if answer.status >= 300 && !has_message {
            return Err(format!("HTTP status {}", answer.status));
        }
        self.read(answer, Some(id)).await
    }

    async fn notify(&self, text: &str) -> Result<(), String> {
        let answer = self.open("POST", text, "application/json, text/event-stream").await?;
        match answer.status {
            200..300 => Ok(()),
            status => Err(format!("a notification got HTTP status {status}")),
        }
    }

    /// Ends the session at the server, if there is one.
    async fn leave(&self) {
        if self.id.borrow().is_some() {
            // It ends by itself some time, too.
            self.open("DELETE", "", "application/json").await.ok();
        }
    }

    /// Sends a request and reads the head of its answer.
    async fn open(&self, method: &str, body: &str, accept: &str) -> Result<Answer, String> {
        let url = &self.url;
        let mut stream = dial::stream(&url.host, url.port, url.tls, None).await?;
        let mut head = format!(
            "{method} {} HTTP/1.1\r\nHost: {}\r\nAccept: {accept}\r\nConnection: close\r\n",
            url.path, url.authority
        );
        if let Some(id) = &*self.id.borrow() {
            head.push_str(&format!("Mcp-Session-Id: {id}\r\n"));
        }
        if let Some(version) = &*self.version.borrow() {
            head.push_str(&format!("MCP-Protocol-Version: {version}\r\n"));
        }
        if method == "POST" {
            let length = body.len();
            head.push_str(&format!(
                "Content-Type: application/json\r\nContent-Length: {length}\r\n"
            ));
        }
        head.push_str("\r\n");
        let sent = async {
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(body.as_bytes()).await?;
            stream.flush().await
        };
        sent.await.map_err(|why| why.to_string())?;
        Answer::read(stream).await
    }

    /// Passes on the messages of an answer, to its end.
    async fn read(&self, mut answer: Answer, about: Option<RequestId>) -> Result<(), String> {
        if answer.is_events() {
            let mut events = Events::default();
            let mut piece = Vec::new();
            while answer.piece(&mut piece).await? {
                for data in events.feed(&piece)? {
                    self.message(data, about).await;
                }
                piece.clear();
            }
            return Ok(());
        }
        let mut body = Vec::new();
        while answer.piece(&mut body).await? {
            if body.len() > MESSAGE_MAX {
                return Err(format!("the answer has over {MESSAGE_MAX} bytes"));
            }
        }
        let text = String::from_utf8(body).map_err(|_| "the answer is not UTF-8".to_owned())?;
        if !text.trim().is_empty() {
            self.message(text, about).await;
        }
        Ok(())
    }

    async fn message(&self, text: String, about: Option<RequestId>) {
        if self.version.borrow().is_none() {
            // MCP 2025-06-18, Transports: every request after `initialize` names its version.
            let version =
                member(&text, "result").and_then(|result| member(result, "protocolVersion"));
            *self.version.borrow_mut() = version.and_then(json::string).map(|v| v.into_owned());
        }
        self.tell(In::Message { text, about }).await;
    }
}

/// An answer whose head was read.
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    stream: Stream,
    /// What was read and belongs to the body.
    ahead: Vec<u8>,
    body: Body,
}

enum Body {
    Framed(BodyDecoder),
    /// Until the connection ends.
    Open,
}

impl Answer {
    async fn read(mut stream: Stream) -> Result<Answer, String> {
        let mut bytes = Vec::new();
        let end = loop {
            if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            if bytes.len() > HEAD_BYTES_MAX {
                return Err(format!("the answer has a head of over {HEAD_BYTES_MAX} bytes"));
            }
            if !more(&mut stream, &mut bytes).await? {
                return Err("the connection ended before an answer".to_owned());
            }
        };
        let head = std::str::from_utf8(&bytes[..end]).map_err(|_| "no HTTP answer".to_owned())?;
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1."));
        let status = status.and_then(|line| line.get(2..5)).and_then(|code| code.parse().ok());
        let status: u16 = status.ok_or("no HTTP answer")?;
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        };
        let headers: Vec<_> = lines.filter_map(header).collect();
        let ahead = bytes.split_off(end + 4);
        let mut answer = Answer { status, headers, stream, ahead, body: Body::Open };
        // RFC 9112 §6.3.
        let kind = if answer
            .header("transfer-encoding")
            .is_some_and(|te| te.eq_ignore_ascii_case("chunked"))
        {
            Some(BodyKind::Chunked)
        } else if matches!(status, 204 | 304) {
            Some(BodyKind::None)
        } else {
            answer.header("content-length").and_then(|l| l.parse().ok()).map(BodyKind::Length)
        };
        if let Some(kind) = kind {
            // A stream of events may go on for ever; its events are bounded one by one.
            let decoder = BodyDecoder::new(kind, usize::MAX);
            answer.body = Body::Framed(decoder.map_err(|why| why.message.into_owned())?);
        }
        Ok(answer)
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn is(&self, media_type: &str) -> bool {
        let value = self.header("content-type").unwrap_or_default();
        value.split(';').next().is_some_and(|value| value.trim().eq_ignore_ascii_case(media_type))
    }

    fn is_events(&self) -> bool {
        self.is("text/event-stream")
    }

    fn is_json(&self) -> bool {
        self.is("application/json")
    }

    /// Appends the next piece of the body; `false` at its end.
    async fn piece(&mut self, out: &mut Vec<u8>) -> Result<bool, String> {
        let before = out.len();
        loop {
            let input = std::mem::take(&mut self.ahead);
            match &mut self.body {
                Body::Open => out.extend_from_slice(&input),
                Body::Framed(decoder) => {
                    decoder.feed(&input, out).map_err(|why| why.message.into_owned())?;
                    if decoder.done() && out.len() == before {
                        return Ok(false);
                    }
                }
            }
            if out.len() > before {
                return Ok(true);
            }
            if !more(&mut self.stream, &mut self.ahead).await? {
                return match self.body {
                    Body::Open => Ok(false),
                    Body::Framed(_) => Err("the answer was cut short".to_owned()),
                };
            }
        }
    }
}

/// Reads what is there; `false` at the end of the connection.
async fn more(stream: &mut Stream, bytes: &mut Vec<u8>) -> Result<bool, String> {
    let mut buffer = [0; 16 << 10];
    let count = stream.read(&mut buffer).await.map_err(|why| why.to_string())?;
    bytes.extend_from_slice(&buffer[..count]);
    Ok(count > 0)
}

/// Takes an event stream apart (WHATWG HTML, Server-sent events).
#[derive(Default)]
struct Events {
    line: Vec<u8>,
    /// The last byte was a CR: an LF that follows belongs to it.
    after_cr: bool,
    data: Option<String>,
}

impl Events {
    /// The data of the events that are complete with these bytes.
    fn feed(&mut self, bytes: &[u8]) -> Result<Vec<String>, String> {
        let mut events = Vec::new();
        for byte in bytes {
            let after_cr = std::mem::replace(&mut self.after_cr, *byte == b'\r');
            match byte {
                b'\n' if after_cr => {}
                b'\n' | b'\r' => {
                    let line = std::mem::take(&mut self.line);
                    events.extend(self.end_line(&line)?);
                }
                byte => self.line.push(*byte),
            }
            let length = self.line.len() + self.data.as_ref().map_or(0, String::len);
            if length > MESSAGE_MAX {
                return Err(format!("an event has over {MESSAGE_MAX} bytes"));
            }
        }
        Ok(events)
    }

    fn end_line(&mut self, line: &[u8]) -> Result<Option<String>, String> {
        if line.is_empty() {
            // An event without data only carries an ID.
            return Ok(self.data.take().filter(|data| !data.trim().is_empty()));
        }
        let line = std::str::from_utf8(line).map_err(|_| "an event is not UTF-8".to_owned())?;
        let line = line.strip_prefix('\u{feff}').unwrap_or(line);
        let Some(value) = line.strip_prefix("data:") else { return Ok(None) };
        let value = value.strip_prefix(' ').unwrap_or(value);
        match &mut self.data {
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
            None => self.data = Some(value.to_owned()),
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_to_dial_and_what_to_ask_for() {
        for (text, host, port, authority, path) in [
            ("http://127.0.0.1:3001/mcp", "127.0.0.1", 3001, "127.0.0.1:3001", "/mcp"),
            ("http://localhost", "localhost", 80, "localhost", "/"),
            ("http://[::1]:1/a?b=c", "::1", 1, "[::1]:1", "/a?b=c"),
            ("http://[::1]/", "::1", 80, "[::1]", "/"),
        ] {
            let url = Url::parse(text).expect(text);
            let parts = (&*url.host, url.port, &*url.authority, &*url.path);
            assert_eq!(parts, (host, port, authority, path), "{text}");
        }
        for text in [
            "",
            "x",
            "ws://a",
            "http://",
            "http://a:x/",
            "http://u@a/",
            "http://a/b c",
            "http://a/#b",
        ] {
            let why = Url::parse(text).expect_err(text);
            assert!(why.starts_with("must be "), "{why}");
        }
    }

    #[test]
    fn events_are_the_same_however_the_bytes_come() {
        let text = "\u{feff}: hello\n\nid: 1\ndata:\n\nevent: message\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\nretry: 5\ndata:é\r\rdata: not ended\n";
        let whole = Events::default().feed(text.as_bytes()).expect("events");
        assert_eq!(whole, ["{\"a\":\n1}", "é"]);
        let mut events = Events::default();
        let mut single = Vec::new();
        for byte in text.as_bytes() {
            single.extend(events.feed(&[*byte]).expect("events"));
        }
        assert_eq!(single, whole);
        assert!(Events::default().feed(b"data: \xff\n").is_err());
    }
}
