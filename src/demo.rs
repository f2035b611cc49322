//! The demo client of `serve --dev`: an application like any other, which joins over a real WebSocket.
//!
//! It offers three small tools, so that a first call has something to answer it: `echo`, `now`,
//! `sleep`. It is an example of [`crate::client`] too.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use async_io::Timer;
use serde_json::Value;

use crate::client::{Answer, Call, Client, Offer, Status, Token, text, tool_error};
use crate::log;
use crate::shared::Shared;

/// Longest sleep on request.
const SLEEP_MAX: f64 = 600.0;

const ECHO: &str = r#"{"name":"echo","description":"Returns the text it is given.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}"#;
const NOW: &str =
    r#"{"name":"now","description":"Returns the time in UTC.","inputSchema":{"type":"object"}}"#;
const SLEEP: &str = r#"{"name":"sleep","description":"Waits so many seconds (at most 600), then says so.","inputSchema":{"type":"object","properties":{"seconds":{"type":"number","minimum":0,"maximum":600}},"required":["seconds"]}}"#;

/// Joins, and joins again whenever the connection ends. Sends to `joined` whenever it is in.
pub async fn run(
    shared: Rc<Shared>,
    address: SocketAddr,
    token: String,
    joined: flume::Sender<()>,
) {
    let offer = Offer::new()
        .server(r#"{"name":"clientmcp-demo","version":"1.0.0"}"#)
        .instructions("Three tools to try the bridge with.")
        .tool(ECHO, echo)
        .tool(NOW, |_| async { Ok(text(&log::timestamp())) })
        .tool(SLEEP, sleep);
    let url = format!("ws://{address}{}/connect", shared.config.base_path);
    let (lost, losses) = flume::unbounded();
    let client = match Client::new(&url, Token::fixed(token)) {
        Ok(client) => client.offer(offer).on_status(move |status| match status {
            // Nobody may be waiting for it any more.
            Status::Online { .. } => drop(joined.try_send(())),
            Status::Offline { reason, .. } => {
                log::debug("demo client lost its connection", &[("error", reason)]);
                lost.send(()).ok();
            }
            Status::Connecting => {}
        }),
        Err(error) => return log::error("demo client not started", &[("error", &error)]),
    };
    let handle = client.handle();
    let stop_with_the_bridge = async {
        while losses.recv_async().await.is_ok() {
            if shared.draining.get() {
                handle.stop();
            }
        }
        std::future::pending().await
    };
    if let Err(refused) = smol::future::or(client.run(), stop_with_the_bridge).await {
        log::info("demo client left", &[("reason", &refused)]);
    }
}

async fn echo(call: Call) -> Answer {
    let arguments: Value = serde_json::from_str(call.arguments()).unwrap_or_default();
    Ok(match arguments["text"].as_str() {
        Some(words) => text(words),
        None => tool_error("`text` must be a string"),
    })
}

async fn sleep(call: Call) -> Answer {
    let arguments: Value = serde_json::from_str(call.arguments()).unwrap_or_default();
    let Some(seconds) = arguments["seconds"].as_f64().filter(|s| (0.0..=SLEEP_MAX).contains(s))
    else {
        return Ok(tool_error("`seconds` must be a number from 0 to 600"));
    };
    let slept = async {
        Timer::after(Duration::from_secs_f64(seconds)).await;
        format!("Slept {seconds} s.")
    };
    let given_up = async { call.cancelled().await.to_owned() };
    Ok(text(&smol::future::or(slept, given_up).await))
}
