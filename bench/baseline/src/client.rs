//! The WebSocket side: a client registers, is called, and answers.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue, UPGRADE};
use hyper::upgrade::Upgraded;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use crate::Bridge;
use crate::body::{self, Body};

/// What is read at a time: the whole of it is zeroed and kept for each connection.
const READ_BUFFER_BYTES: usize = 8 << 10;

const WRITE_BUFFER_BYTES: usize = 64 << 10;

const MESSAGE_BYTES_MAX: usize = 4 << 20;

pub struct Client {
    pub queue: mpsc::UnboundedSender<Message>,
    pub waiting: RefCell<HashMap<u64, oneshot::Sender<Reply>>>,
    /// What it registered, and what of that each call needs.
    _register: Box<str>,
    pub tools: Box<[Box<str>]>,
    pub server: Box<str>,
}

/// The end of a call: a slice of the client's message.
pub struct Reply {
    pub result: Bytes,
    /// The client has said itself what it is, or has a `_meta` of its own.
    pub has_type: bool,
    pub has_meta: bool,
}

#[derive(Deserialize)]
struct FromClient<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    id: Option<&'a str>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Register<'a> {
    #[serde(borrow)]
    server: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tools: Vec<Tool<'a>>,
}

#[derive(Deserialize)]
struct Tool<'a> {
    name: &'a str,
    #[serde(borrow, rename = "inputSchema")]
    _input_schema: &'a RawValue,
}

#[derive(Deserialize)]
struct ResultMembers<'a> {
    #[serde(borrow, rename = "resultType")]
    result_type: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

pub fn upgrade(bridge: Rc<Bridge>, mut request: Request<Incoming>) -> Response<Body> {
    let headers = request.headers();
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let protocols = text("sec-websocket-protocol").unwrap_or_default();
    let mut protocols = protocols.split(',').map(str::trim);
    let token = protocols.find_map(|one| one.strip_prefix("clientmcp.bearer."));
    let Some(id) = token.and_then(|token| bridge.secret.check_client(token)) else {
        return body::text(StatusCode::UNAUTHORIZED, "expected a client's token");
    };
    let Some(key) = headers.get("sec-websocket-key") else {
        return body::text(StatusCode::UPGRADE_REQUIRED, "expected a WebSocket");
    };
    let accept = derive_accept_key(key.as_bytes());
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::task::spawn_local(async move {
        if let Ok(upgraded) = upgraded.await {
            serve(&bridge, id, upgraded).await;
        }
    });
    let mut response = body::text(StatusCode::SWITCHING_PROTOCOLS, "");
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert("sec-websocket-protocol", HeaderValue::from_static("clientmcp.v1"));
    if let Ok(accept) = HeaderValue::from_str(&accept) {
        headers.insert("sec-websocket-accept", accept);
    }
    response
}

async fn serve(bridge: &Bridge, id: Box<str>, upgraded: Upgraded) {
    // The bare socket again: no virtual call for each read and write.
    let Ok(parts) = upgraded.downcast::<TokioIo<TcpStream>>() else { return };
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(WRITE_BUFFER_BYTES)
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX));
    let stream = parts.io.into_inner();
    let mut socket = WebSocketStream::from_partially_read(
        stream,
        parts.read_buf.into(),
        Role::Server,
        Some(config),
    )
    .await;
    let (queue, mut calls) = mpsc::unbounded_channel();
    let mut client: Option<Rc<Client>> = None;
    loop {
        tokio::select! {
            biased;
            call = calls.recv() => {
                let Some(call) = call else { break };
                if socket.feed(call).await.is_err() {
                    break;
                }
                // One flush for all that is in the queue.
                while let Ok(call) = calls.try_recv() {
                    if socket.feed(call).await.is_err() {
                        break;
                    }
                }
                if socket.flush().await.is_err() {
                    break;
                }
            }
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => {
                    let Some(answer) = take(bridge, &id, &mut client, &queue, text) else { break };
                    if let Some(answer) = answer && socket.send(answer).await.is_err() {
                        break;
                    }
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                _ => break,
            },
        }
    }
    let mut clients = bridge.clients.borrow_mut();
    if let (Some(known), Some(client)) = (clients.get(&id), &client)
        && Rc::ptr_eq(known, client)
    {
        clients.remove(&id);
    }
    if let Some(client) = client {
        client.waiting.borrow_mut().clear();
    }
}

/// Does what a message asks for; `None` closes the connection.
fn take(
    bridge: &Bridge,
    id: &str,
    client: &mut Option<Rc<Client>>,
    queue: &mpsc::UnboundedSender<Message>,
    text: Utf8Bytes,
) -> Option<Option<Message>> {
    let message: FromClient<'_> = serde_json::from_str(&text).ok()?;
    match message.r#type {
        "result" => {
            let (call, result) = (message.id?, message.result?);
            let members: ResultMembers<'_> = serde_json::from_str(result.get()).ok()?;
            let call: Option<u64> = call.strip_prefix('c').and_then(|call| call.parse().ok());
            let waiting = client.as_ref()?.waiting.borrow_mut().remove(&call.unwrap_or(0));
            if let Some(waiting) = waiting {
                let (has_type, has_meta) = (members.result_type.is_some(), members.meta.is_some());
                let bytes: &Bytes = text.as_ref();
                let result = bytes.slice_ref(result.get().as_bytes());
                // The agent may have gone.
                waiting.send(Reply { result, has_type, has_meta }).ok();
            }
            Some(None)
        }
        "ping" => Some(Some(Message::text(r#"{"type":"pong"}"#))),
        "register" => {
            let register: Register<'_> = serde_json::from_str(&text).ok()?;
            let joined = Rc::new(Client {
                queue: queue.clone(),
                waiting: RefCell::default(),
                tools: register.tools.iter().map(|tool| tool.name.into()).collect(),
                server: register.server.map_or("{}", RawValue::get).into(),
                _register: text.as_str().into(),
            });
            bridge.clients.borrow_mut().insert(id.into(), joined.clone());
            *client = Some(joined);
            let answer = format!(
                r#"{{"type":"registered","clientId":"{id}","maxMessageBytes":{MESSAGE_BYTES_MAX},"pingIntervalMs":30000,"refused":[]}}"#
            );
            Some(Some(Message::text(answer)))
        }
        _ => None,
    }
}
