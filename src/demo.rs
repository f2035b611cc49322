//! The demo client of `serve --dev`: an application like any other, which joins over a real WebSocket.
//!
//! It offers three small tools, so that a first call has something to answer it: `echo`, `now`, `sleep`.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use async_io::{Async, Timer};
use async_tungstenite::tungstenite::Message;
use async_tungstenite::tungstenite::client::IntoClientRequest;
use async_tungstenite::tungstenite::http::HeaderValue;
use clientmcp_proto::channel::{self, client};
use clientmcp_proto::limits;
use serde_json::Value;
use smol::future::or;
use smol::stream::StreamExt;

use crate::log;
use crate::shared::Shared;

/// Longest sleep on request.
const SLEEP_MAX: f64 = 600.0;

const REGISTER: &str = r#"{"type":"register","server":{"name":"clientmcp-demo","version":"1.0.0"},"instructions":"Three tools to try the bridge with.","tools":[{"name":"echo","description":"Returns the text it is given.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}},{"name":"now","description":"Returns the time in UTC.","inputSchema":{"type":"object"}},{"name":"sleep","description":"Waits so many seconds (at most 600), then says so.","inputSchema":{"type":"object","properties":{"seconds":{"type":"number","minimum":0,"maximum":600}},"required":["seconds"]}}]}"#;

/// Joins, and joins again whenever the connection ends. Sends to `joined` the first time it is in.
pub async fn run(
    shared: Rc<Shared>,
    address: SocketAddr,
    token: String,
    joined: flume::Sender<()>,
) {
    loop {
        if let Err(error) = join(&shared, address, &token, &joined).await {
            log::debug("demo client lost its connection", &[("error", &error)]);
        }
        if shared.draining.get() {
            return;
        }
        Timer::after(Duration::from_secs(1)).await;
    }
}

async fn join(
    shared: &Rc<Shared>,
    address: SocketAddr,
    token: &str,
    joined: &flume::Sender<()>,
) -> Result<(), String> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    let io = Async::<std::net::TcpStream>::connect(address).await.map_err(|e| words(&e))?;
    let url = format!("ws://{address}{}/connect", shared.config.base_path);
    let mut request = url.into_client_request().map_err(|e| words(&e))?;
    let protocols = format!("{}, {}{token}", channel::SUBPROTOCOL, channel::BEARER_PREFIX);
    let protocols = HeaderValue::from_str(&protocols).map_err(|e| words(&e))?;
    request.headers_mut().insert("Sec-WebSocket-Protocol", protocols);
    let (mut socket, _) =
        async_tungstenite::client_async(request, io).await.map_err(|e| words(&e))?;
    socket.send(Message::text(REGISTER)).await.map_err(|e| words(&e))?;

    let (outbox, to_send) = flume::unbounded::<String>();
    let mut sleeping: HashMap<String, flume::Sender<()>> = HashMap::new();
    loop {
        let event = or(async { Ok(socket.next().await) }, async {
            let ping = or(async { to_send.recv_async().await.unwrap_or_default() }, async {
                Timer::after(limits::PING_INTERVAL).await;
                channel::PING.to_owned()
            });
            Err(ping.await)
        });
        let text = match event.await {
            Err(text) => {
                socket.send(Message::text(text)).await.map_err(|e| words(&e))?;
                continue;
            }
            Ok(Some(Ok(Message::Text(text)))) => text,
            Ok(Some(Ok(Message::Close(_)))) | Ok(None) => return Err("closed".to_owned()),
            Ok(Some(Ok(_))) => continue,
            Ok(Some(Err(error))) => return Err(error.to_string()),
        };
        match client::read(&text) {
            // Nobody may be waiting for it any more.
            Some(client::Message::Registered { .. }) => drop(joined.try_send(())),
            Some(client::Message::Call { id, params, .. }) => {
                let (cancel, cancelled) = flume::bounded(1);
                sleeping.retain(|_, cancel| !cancel.is_disconnected());
                sleeping.insert(id.clone().into_owned(), cancel);
                let (id, params) = (id.into_owned(), params.to_owned());
                let outbox = outbox.clone();
                shared.spawn(async move {
                    let answer = async { Some(perform(&params).await) };
                    let cancel = async {
                        // The map lives as long as the connection; its end is a cancel too.
                        cancelled.recv_async().await.ok();
                        None
                    };
                    if let Some(result) = or(answer, cancel).await {
                        // The connection may be gone; then the call has ended already.
                        outbox.send(client::result(&id, &result)).ok();
                    }
                });
            }
            Some(client::Message::Cancel { id, .. }) => drop(sleeping.remove(id.as_ref())),
            _ => {}
        }
    }
}

/// Does what a call asks for.
async fn perform(params: &str) -> String {
    let params: Value = serde_json::from_str(params).unwrap_or_default();
    let arguments = &params["arguments"];
    match params["name"].as_str() {
        Some("echo") => match arguments["text"].as_str() {
            Some(text) => client::text_result(text),
            None => client::tool_error("`text` must be a string"),
        },
        Some("now") => client::text_result(&log::timestamp()),
        Some("sleep") => match arguments["seconds"].as_f64() {
            Some(seconds) if (0.0..=SLEEP_MAX).contains(&seconds) => {
                Timer::after(Duration::from_secs_f64(seconds)).await;
                client::text_result(&format!("Slept {seconds} s."))
            }
            _ => client::tool_error("`seconds` must be a number from 0 to 600"),
        },
        // The bridge lets only offered tools through.
        _ => client::tool_error("this tool is not offered"),
    }
}
