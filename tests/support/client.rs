//! A client whose every step the test says itself: joins, offers, replies, and sees each frame.
//!
//! Knows the WebSocket (through tungstenite, which answers pings) and the names of the channel's
//! messages, not what they should say. One that answers by itself is `app`; one with hand-made
//! frames is `raw_client`.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, Message, WebSocket};

use super::{Bridge, Http, SOON, shown, token};

/// One thing heard on the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    Text(String),
    Binary(Vec<u8>),
    Ping,
    Pong,
    /// A close frame, with its code (1005 for none) and reason.
    Close(u16, String),
    /// The connection ended without a close frame: how.
    Gone(String),
    /// Nothing within the timeout.
    Quiet,
}

/// A forwarded call as it came.
#[derive(Clone, Debug)]
pub struct Call {
    pub id: String,
    pub method: String,
    pub params: Value,
    pub agent: Value,
    /// The whole message, byte for byte.
    pub text: String,
}

impl Call {
    /// The call in this message, if it is one.
    pub fn parse(text: &str) -> Option<Call> {
        let message: Value = serde_json::from_str(text).ok()?;
        if message["type"] != "call" {
            return None;
        }
        let word = |name: &str| {
            let value = message[name].as_str();
            value.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
        };
        Some(Call {
            id: word("id"),
            method: word("method"),
            params: message["params"].clone(),
            agent: message["agent"].clone(),
            text: text.to_owned(),
        })
    }

    /// The tool's (or prompt's) name.
    pub fn name(&self) -> &str {
        self.params["name"].as_str().unwrap_or_default()
    }

    /// The call's arguments.
    pub fn arguments(&self) -> &Value {
        &self.params["arguments"]
    }
}

/// One client's connection.
pub struct Client {
    pub socket: WebSocket<TcpStream>,
    pub client_id: String,
}

impl Client {
    /// Connects with a fresh token for this ID.
    pub fn connect(bridge: &Bridge, client_id: &str) -> Client {
        Client::connect_with_token(bridge, client_id, &token(client_id, "client"))
    }

    /// Connects with any token; the handshake must complete.
    pub fn connect_with_token(bridge: &Bridge, client_id: &str, token: &str) -> Client {
        let protocols = format!("clientmcp.v1, clientmcp.bearer.{token}");
        let mut client = Client::connect_to(
            bridge,
            &bridge.target("/connect"),
            &[("Sec-WebSocket-Protocol", &protocols)],
        );
        client.client_id = client_id.to_owned();
        client
    }

    /// Connects to any target with these headers besides the necessary ones; the handshake must
    /// complete.
    pub fn connect_to(bridge: &Bridge, target: &str, headers: &[(&str, &str)]) -> Client {
        let mut request = format!("ws://{}{target}", bridge.addr)
            .into_client_request()
            .expect("an address and a path make a URL");
        for (name, value) in headers {
            let name: tungstenite::http::HeaderName = name.parse().expect("a header name");
            request.headers_mut().append(name, HeaderValue::from_str(value).expect("a value"));
        }
        let stream = Http::connect(bridge.addr).stream;
        stream.set_read_timeout(Some(SOON)).expect("a timeout that is not zero");
        let limits = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        let (socket, response) =
            tungstenite::client::client_with_config(request, stream, Some(limits))
                .unwrap_or_else(|e| panic!("the handshake at {target} failed: {e}"));
        let protocol = response.headers().get("sec-websocket-protocol");
        assert_eq!(protocol.map(HeaderValue::as_bytes), Some(&b"clientmcp.v1"[..]), "{response:?}");
        assert!(response.headers().get("sec-websocket-extensions").is_none(), "{response:?}");
        Client { socket, client_id: String::new() }
    }

    /// Sends a register with these members and waits for `registered`, which is returned.
    pub fn registers(&mut self, offer: Value) -> Value {
        self.send(&with_type("register", offer));
        let message = self.next_message(SOON);
        assert_eq!(message["type"], "registered", "{message}");
        message
    }

    /// Registers tools of these names, each taking any object.
    pub fn offers(&mut self, tools: &[&str]) -> Value {
        let tools: Vec<Value> = tools.iter().map(|name| tool(name)).collect();
        self.registers(json!({"tools": tools}))
    }

    /// Sends a JSON message.
    pub fn send(&mut self, message: &Value) {
        self.send_text(message.to_string());
    }

    /// Sends a text frame, whatever is in it.
    pub fn send_text(&mut self, text: impl Into<String>) {
        self.try_send_text(text).unwrap_or_else(|e| panic!("sending a message: {e}"));
    }

    /// Sends a text frame, if the connection takes it.
    pub fn try_send_text(&mut self, text: impl Into<String>) -> Result<(), Error> {
        self.socket.send(Message::text(text.into()))
    }

    /// Sends a binary frame.
    pub fn send_binary(&mut self, bytes: &[u8]) {
        self.socket.send(Message::binary(bytes.to_vec())).expect("the connection takes it");
    }

    /// The next thing heard, at most `timeout` from now.
    pub fn hears(&mut self, timeout: Duration) -> Heard {
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Heard::Quiet;
            }
            self.socket.get_ref().set_read_timeout(Some(left)).expect("a timeout above zero");
            match self.socket.read() {
                Ok(Message::Text(text)) => return Heard::Text(text.as_str().to_owned()),
                Ok(Message::Binary(bytes)) => return Heard::Binary(bytes.to_vec()),
                Ok(Message::Ping(_)) => {
                    // tungstenite queues the pong and writes it with the next flush.
                    drop(self.socket.flush());
                    return Heard::Ping;
                }
                Ok(Message::Pong(_)) => return Heard::Pong,
                Ok(Message::Close(None)) => return Heard::Close(1005, String::new()),
                Ok(Message::Close(Some(frame))) => {
                    return Heard::Close(frame.code.into(), frame.reason.as_str().to_owned());
                }
                Ok(Message::Frame(_)) => {}
                Err(Error::Io(e))
                    if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(e) => return Heard::Gone(e.to_string()),
            }
        }
    }

    /// The next JSON message; WebSocket pings are skipped, anything else fails.
    pub fn next_message(&mut self, timeout: Duration) -> Value {
        let text = self.next_text(timeout);
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e} in {text:?}"))
    }

    /// The next text; WebSocket pings are skipped, anything else fails.
    pub fn next_text(&mut self, timeout: Duration) -> String {
        let deadline = Instant::now() + timeout;
        loop {
            match self.hears(deadline.saturating_duration_since(Instant::now())) {
                Heard::Text(text) => return text,
                Heard::Ping | Heard::Pong => {}
                other => panic!("expected a message within {timeout:?}, got {other:?}"),
            }
        }
    }

    /// The next message, which must be a call.
    pub fn next_call(&mut self) -> Call {
        let text = self.next_text(SOON);
        // serde_json::Value cannot hold 1e400; what stands there is checked in the text.
        let mut call = Call::parse(&text.replace("1e400", "0"));
        if let Some(call) = &mut call {
            call.text = text.clone();
        }
        call.unwrap_or_else(|| panic!("expected a call, got {text}"))
    }

    /// The next message, which must be the cancel of `call`; its reason.
    pub fn expects_cancel(&mut self, call: &Call, timeout: Duration) -> String {
        let message = self.next_message(timeout);
        assert_eq!((&message["type"], &message["id"]), (&json!("cancel"), &json!(call.id)));
        let reason = message["reason"].as_str();
        reason.unwrap_or_else(|| panic!("no reason in {message}")).to_owned()
    }

    /// Ends `call` with this MCP result.
    pub fn replies(&mut self, call: &Call, result: Value) {
        self.send(&json!({"type": "result", "id": call.id, "result": result}));
    }

    /// Ends `call` with a tool result of one text.
    pub fn replies_text(&mut self, call: &Call, text: &str) {
        self.replies(call, json!({"content": [{"type": "text", "text": text}]}));
    }

    /// Ends `call` with a result of exactly these bytes.
    pub fn replies_raw(&mut self, call: &Call, result: &str) {
        let id = json!(call.id);
        self.send_text(format!(r#"{{"type":"result","id":{id},"result":{result}}}"#));
    }

    /// Ends `call` with a JSON-RPC error.
    pub fn fails(&mut self, call: &Call, error: Value) {
        self.send(&json!({"type": "error", "id": call.id, "error": error}));
    }

    /// Sends a notification, with the ID of a call or without.
    pub fn notifies(&mut self, call: Option<&Call>, method: &str, params: Value) {
        let mut message = json!({"type": "notify", "method": method, "params": params});
        if let Some(call) = call {
            message["id"] = json!(call.id);
        }
        self.send(&message);
    }

    /// Skips messages until the close frame; its code and reason. Fails when the connection ends
    /// without one.
    pub fn expects_close(&mut self) -> (u16, String) {
        let (code, reason, _) = self.expects_fault_and_close();
        (code, reason)
    }

    /// As [`Client::expects_close`], with the last `fault` message that came before it (`null`
    /// without one).
    pub fn expects_fault_and_close(&mut self) -> (u16, String, Value) {
        self.expects_close_within(SOON)
    }

    /// As [`Client::expects_fault_and_close`], with a deadline.
    pub fn expects_close_within(&mut self, timeout: Duration) -> (u16, String, Value) {
        let deadline = Instant::now() + timeout;
        let mut fault = Value::Null;
        loop {
            match self.hears(deadline.saturating_duration_since(Instant::now())) {
                Heard::Close(code, reason) => return (code, reason, fault),
                Heard::Text(text) => {
                    let message: Value = serde_json::from_str(&text).unwrap_or_default();
                    if message["type"] == "fault" {
                        fault = message;
                    }
                }
                Heard::Binary(bytes) => panic!("a binary frame came: {}", shown(&bytes)),
                Heard::Ping | Heard::Pong => {}
                other => panic!("expected a close within {timeout:?}, got {other:?}"),
            }
        }
    }

    /// Fails unless the connection is still of use: a `ping` gets its `pong`, with nothing in
    /// between.
    pub fn expects_alive(&mut self) {
        self.send_text(r#"{"type":"ping"}"#);
        assert_eq!(self.hears(SOON), Heard::Text(r#"{"type":"pong"}"#.to_owned()));
    }

    /// Goes away with a reset, no close frame, no FIN.
    pub fn vanishes(self) {
        rustix::net::sockopt::set_socket_linger(self.socket.get_ref(), Some(Duration::ZERO))
            .expect("SO_LINGER on an open socket");
    }

    /// Closes in order with 1000 and waits for the other side.
    pub fn leaves(mut self) {
        // A connection that has gone already is left as well.
        drop(self.socket.close(None));
        while !matches!(self.hears(SOON), Heard::Gone(_) | Heard::Quiet) {}
    }
}

/// A minimal valid tool.
pub fn tool(name: &str) -> Value {
    json!({"name": name, "description": name, "inputSchema": {"type": "object"}})
}

/// The members of `object` with `type` before them.
pub fn with_type(kind: &str, object: Value) -> Value {
    let mut message = json!({"type": kind});
    let Value::Object(members) = object else { panic!("expected an object, got {object}") };
    message.as_object_mut().expect("made as an object").extend(members);
    message
}
