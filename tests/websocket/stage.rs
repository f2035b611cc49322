//! A row: frames to send, and what has to come. Shakes hands, registers, sends, compares.

use std::time::Duration;

use serde_json::json;

use crate::support::{
    Agent, Bridge, CLOSE, CONTINUATION, Frame, PING, PONG, RawClient, SOON, TEXT, Trouble, shown,
    unique,
};

pub const FIN: u8 = 0x80;

/// A message that is answered with [`Sees::Answer`].
pub const ASK: &str = r#"{"type":"ping"}"#;

/// What the peer sees, in this order. After the last one a good message is still answered, unless the
/// last one is an end.
#[derive(Clone, Debug, PartialEq)]
pub enum Sees {
    /// The answer to one [`ASK`].
    Answer,
    /// A WebSocket pong with this payload.
    Pong(Vec<u8>),
    /// A close frame with this code (1005: with none), and then the end of the connection.
    Close(u16),
}
pub use Sees::{Answer, Close, Pong};

pub struct Row {
    pub name: String,
    pub frames: Vec<Vec<u8>>,
    pub sees: Vec<Sees>,
}

pub fn row(name: &str, frames: Vec<Vec<u8>>, sees: &[Sees]) -> Row {
    Row { name: name.to_owned(), frames, sees: sees.to_vec() }
}

// Frames, masked. What begins a message has its opcode, `more` and `last` go on with it.

pub fn text(payload: impl AsRef<[u8]>) -> Vec<u8> {
    RawClient::frame(FIN | TEXT, payload.as_ref())
}

pub fn begin(payload: impl AsRef<[u8]>) -> Vec<u8> {
    RawClient::frame(TEXT, payload.as_ref())
}

pub fn more(payload: impl AsRef<[u8]>) -> Vec<u8> {
    RawClient::frame(CONTINUATION, payload.as_ref())
}

pub fn last(payload: impl AsRef<[u8]>) -> Vec<u8> {
    RawClient::frame(FIN | CONTINUATION, payload.as_ref())
}

pub fn ping(payload: impl AsRef<[u8]>) -> Vec<u8> {
    RawClient::frame(FIN | PING, payload.as_ref())
}

pub fn pong(payload: impl AsRef<[u8]>) -> Vec<u8> {
    RawClient::frame(FIN | PONG, payload.as_ref())
}

pub fn close(payload: impl AsRef<[u8]>) -> Vec<u8> {
    RawClient::frame(FIN | CLOSE, payload.as_ref())
}

/// A close frame with a code and a reason.
pub fn close_with(code: u16, reason: impl AsRef<[u8]>) -> Vec<u8> {
    close([&code.to_be_bytes(), reason.as_ref()].concat())
}

/// How the bytes of a row are handed to the kernel.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Whole,
    Frames,
    Bytes,
}

/// Above this a row is not sent byte by byte: it would take long and show nothing new.
const BYTEWISE_MAX: usize = 600;

pub fn check(rows: Vec<Row>) {
    assert!(!rows.is_empty());
    for row in rows {
        let bytes = row.frames.concat();
        for cut in [Cut::Whole, Cut::Frames, Cut::Bytes] {
            match cut {
                Cut::Whole => plays(&row, cut, [bytes.as_slice()].into_iter()),
                Cut::Frames => plays(&row, cut, row.frames.iter().map(Vec::as_slice)),
                Cut::Bytes if bytes.len() > BYTEWISE_MAX => {}
                Cut::Bytes => plays(&row, cut, bytes.chunks(1)),
            }
        }
    }
}

fn plays<'a>(row: &Row, cut: Cut, pieces: impl Iterator<Item = &'a [u8]>) {
    let mut client = registered("websocket");
    for piece in pieces {
        // After the close frame that a row is about, the bridge may be gone already.
        if client.http.try_send(piece).is_err() {
            break;
        }
    }
    let mut sees = row.sees.clone();
    if !matches!(sees.last(), Some(Close(_))) {
        client.send_text(ASK);
        sees.push(Answer);
    }
    for (at, expected) in sees.iter().enumerate() {
        let seen = sees_next(&mut client);
        assert!(
            seen.as_ref() == Ok(expected),
            "{} ({cut:?}): expected {expected:?} as number {at}, got {seen:?}",
            row.name
        );
    }
    if matches!(sees.last(), Some(Close(_))) {
        match client.try_frame(SOON) {
            Err(Trouble::Ended(rest)) if rest.is_empty() => {}
            other => panic!("{} ({cut:?}): expected the end, got {other:?}", row.name),
        }
    }
}

fn sees_next(client: &mut RawClient) -> Result<Sees, String> {
    let frame = client.try_frame(SOON).map_err(|trouble| format!("{trouble:?}"))?;
    match frame {
        Frame { first, masked: false, payload } if first == FIN | PONG => Ok(Pong(payload)),
        Frame { first, masked: false, payload } if first == FIN | TEXT => {
            match serde_json::from_slice::<serde_json::Value>(&payload) {
                Ok(message) if message == json!({"type": "pong"}) => Ok(Answer),
                // A 44xx close has its whole reason in a message before it.
                Ok(message) if message["type"] == "fault" => sees_next(client),
                _ => Err(shown(&payload)),
            }
        }
        frame if frame.first == FIN | CLOSE && !frame.masked => Ok(Close(frame.close().0)),
        frame => Err(format!("{frame:?}")),
    }
}

/// A client that has said what it offers: one tool, `echo`.
pub fn registered(name: &str) -> RawClient {
    registered_as(&unique(name))
}

fn registered_as(id: &str) -> RawClient {
    let mut client = RawClient::connect(Bridge::shared(), id);
    client.send_text(
        r#"{"type":"register","tools":[{"name":"echo","inputSchema":{"type":"object"}}]}"#,
    );
    let answer = client.next_message(SOON);
    assert_eq!(answer["type"], "registered", "{answer}");
    client
}

/// A client and its agent: text that the client sends in frames of any kind is read at the agent.
pub struct Echo {
    client: RawClient,
    id: String,
}

impl Echo {
    pub fn new() -> Echo {
        let id = unique("echo");
        Echo { client: registered_as(&id), id }
    }

    /// Has the agent call; `answer` makes the frames of the client's answer from the call's ID. What
    /// the agent reads as the text of the result.
    pub fn carries(&mut self, answer: impl FnOnce(&str) -> Vec<Vec<u8>>) -> String {
        let agent = Agent::new(Bridge::shared(), &self.id);
        let params = json!({"name": "echo", "arguments": {}});
        let http = agent.request("tools/call", params).sent_to(Bridge::shared());
        let call = self.client.next_message(SOON);
        assert_eq!(call["type"], "call", "{call}");
        for piece in answer(call["id"].as_str().expect("a call has an ID")) {
            self.client.http.send(piece);
        }
        agent.read_answer(http).text()
    }

    /// Fails when anything but silence comes.
    pub fn expects_quiet(&mut self) {
        match self.client.try_frame(Duration::from_millis(50)) {
            Err(Trouble::Quiet(rest)) if rest.is_empty() => {}
            other => panic!("expected nothing more, got {other:?}"),
        }
    }
}

/// The answer of a client to a call, with this text in it.
pub fn result(id: &str, text: &str) -> String {
    json!({"type": "result", "id": id, "result": {"content": [{"type": "text", "text": text}]}})
        .to_string()
}
