//! The HTTP side: a request is checked, forwarded, and answered with what the client said.

use std::cell::Cell;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body as _, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, ORIGIN};
use hyper::{Request, Response, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio_tungstenite::tungstenite::Message;

use crate::Bridge;
use crate::body::{self, Body, pieces};
use crate::client::Client;

const BODY_BYTES_MAX: usize = 4 << 20;

#[derive(Deserialize)]
struct Envelope<'a> {
    jsonrpc: &'a str,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: &'a str,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Call<'a> {
    name: &'a str,
    #[serde(borrow, rename = "_meta")]
    meta: Option<Meta<'a>>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<&'a str>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientInfo")]
    info: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Option<&'a RawValue>,
}

type Refusal = (StatusCode, &'static str);

const MODERN: &str = "2026-07-28";
const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Whose client this is.
fn admit(bridge: &Bridge, headers: &HeaderMap) -> Result<Box<str>, Refusal> {
    let loopback = |origin: &str| {
        let host = origin.strip_prefix("http://").unwrap_or_default();
        ["localhost", "127.0.0.1", "[::1]"].iter().any(|one| host.starts_with(one))
    };
    if headers.get(ORIGIN).is_some_and(|origin| !origin.to_str().is_ok_and(loopback)) {
        return Err((StatusCode::FORBIDDEN, "this origin is not allowed"));
    }
    let token = header(headers, AUTHORIZATION.as_str()).and_then(|it| it.strip_prefix("Bearer "));
    let id = token.and_then(|token| bridge.secret.check_agent(token));
    id.ok_or((StatusCode::UNAUTHORIZED, "expected an agent's token"))
}

pub async fn post(bridge: &Bridge, request: Request<Incoming>) -> Response<Body> {
    let answered = match admit(bridge, request.headers()) {
        Ok(id) => answer(bridge, &id, request).await,
        Err(refusal) => Err(refusal),
    };
    answered.unwrap_or_else(|(status, why)| body::text(status, why))
}

/// A notification stream that has nothing to say.
pub fn stream(bridge: &Bridge, request: &Request<Incoming>) -> Response<Body> {
    match admit(bridge, request.headers()) {
        Ok(_) => body::events(Body::Quiet(Some(pieces(":\n\n", Bytes::new(), "")))),
        Err((status, why)) => body::text(status, why),
    }
}

async fn answer(
    bridge: &Bridge,
    client_id: &str,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let (head, body) = request.into_parts();
    let headers = head.headers;
    let kind = header(&headers, CONTENT_TYPE.as_str()).unwrap_or_default();
    if kind.split(';').next().is_none_or(|kind| kind.trim() != "application/json") {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "expected application/json"));
    }
    let accept = header(&headers, ACCEPT.as_str()).unwrap_or("*/*");
    let takes = |kind: &str| accept.split(',').any(|one| one.trim().starts_with(kind));
    let (json, events) =
        (takes("application/json") || takes("*/*"), takes("text/event-stream") || takes("*/*"));
    if !json && !events {
        return Err((StatusCode::NOT_ACCEPTABLE, "expected application/json or text/event-stream"));
    }
    let body = read(body).await?;
    let text = std::str::from_utf8(&body).map_err(|_| (StatusCode::BAD_REQUEST, "not UTF-8"))?;
    let bad = |_| (StatusCode::BAD_REQUEST, "not a JSON-RPC message");
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(bad)?;
    if envelope.jsonrpc != "2.0" {
        return Err((StatusCode::BAD_REQUEST, "not JSON-RPC 2.0"));
    }
    let id = envelope.id.map_or("null", RawValue::get);
    match (envelope.method, envelope.params) {
        ("tools/call", Some(params)) => {
            let call: Call<'_> = serde_json::from_str(params.get()).map_err(bad)?;
            forward(bridge, client_id, &headers, json, id, params.get(), &call).await
        }
        ("initialize", Some(_)) => {
            let text = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{"listChanged":true}},"logging":{{}}}},"serverInfo":{{"name":"{client_id}","version":"0"}}}}}}"#
            );
            let mut response = body::json(pieces(text, Bytes::new(), ""));
            let session = hyper::header::HeaderValue::from_static("baseline");
            response.headers_mut().insert("mcp-session-id", session);
            Ok(response)
        }
        ("subscriptions/listen", Some(_)) if events => {
            let text = format!(
                "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{{\"id\":{id}}}}}\n\n"
            );
            Ok(body::events(Body::Quiet(Some(pieces(text, Bytes::new(), "")))))
        }
        _ => Err((StatusCode::NOT_FOUND, "no such method")),
    }
}

/// The whole body; copied only when it comes in several pieces.
async fn read(mut body: Incoming) -> Result<Bytes, Refusal> {
    let broken = (StatusCode::BAD_REQUEST, "the body ended early");
    let expected = body.size_hint().lower() as usize;
    let mut whole = BytesMut::new();
    loop {
        let frame = std::future::poll_fn(|cx| std::pin::Pin::new(&mut body).poll_frame(cx)).await;
        let Some(frame) = frame else { return Ok(whole.freeze()) };
        let Ok(data) = frame.map_err(|_| broken)?.into_data() else { continue };
        if whole.len() + data.len() > BODY_BYTES_MAX || expected > BODY_BYTES_MAX {
            return Err((StatusCode::PAYLOAD_TOO_LARGE, "over 4 MiB"));
        }
        if whole.is_empty() && body.is_end_stream() {
            return Ok(data);
        }
        whole.reserve(expected.saturating_sub(whole.len()).max(data.len()));
        whole.extend_from_slice(&data);
    }
}

async fn forward(
    bridge: &Bridge,
    client_id: &str,
    headers: &HeaderMap,
    json: bool,
    id: &str,
    params: &str,
    call: &Call<'_>,
) -> Result<Response<Body>, Refusal> {
    let claimed = call.meta.as_ref().and_then(|meta| meta.version);
    let version = header(headers, "mcp-protocol-version");
    let modern = match claimed {
        Some(claimed) => {
            let meta = call.meta.as_ref();
            let named = version == Some(claimed)
                && claimed == MODERN
                && meta.is_some_and(|meta| meta.capabilities.is_some())
                && header(headers, "mcp-method") == Some("tools/call")
                && header(headers, "mcp-name") == Some(call.name);
            if !named {
                return Err((StatusCode::BAD_REQUEST, "headers and body differ"));
            }
            true
        }
        None if version.is_none_or(|version| LEGACY.contains(&version)) => false,
        None => return Err((StatusCode::BAD_REQUEST, "expected _meta")),
    };
    let client = bridge.clients.borrow().get(client_id).cloned();
    let client = client.ok_or((StatusCode::BAD_GATEWAY, "nobody is there"))?;
    if !client.tools.iter().any(|tool| **tool == *call.name) {
        return Err((StatusCode::OK, "no such tool"));
    }
    let number = bridge.next_call.replace(bridge.next_call.get() + 1);
    let (reply, replied) = oneshot::channel();
    client.waiting.borrow_mut().insert(number, reply);
    let forget = Forget { client: &client, number, done: Cell::new(false) };
    client.queue.send(message(number, params, claimed.or(version), call)).ok();
    let reply = replied.await.map_err(|_| (StatusCode::BAD_GATEWAY, "the client is gone"))?;
    forget.done.set(true);
    let mut before = String::with_capacity(192);
    if !json {
        before.push_str("data: ");
    }
    before.push_str(r#"{"jsonrpc":"2.0","id":"#);
    before.push_str(id);
    before.push_str(r#","result":"#);
    let mut result = reply.result;
    if !json && memchr::memchr2(b'\n', b'\r', &result).is_some() {
        // Only white space can be a line's end in JSON.
        let one_line = result.iter().map(|b| if matches!(b, b'\n' | b'\r') { b' ' } else { *b });
        result = one_line.collect();
    }
    if modern && (!reply.has_type || !reply.has_meta) {
        before.push('{');
        if !reply.has_type {
            before.push_str(r#""resultType":"complete","#);
        }
        if !reply.has_meta {
            before.push_str(r#""_meta":{"io.modelcontextprotocol/serverInfo":"#);
            before.push_str(&client.server);
            before.push('}');
            if result.len() > 2 {
                before.push(',');
            }
        }
        result = result.slice(1..);
    }
    Ok(if json {
        body::json(pieces(before, result, "}"))
    } else {
        body::events(Body::Events(Some(pieces(before, result, "}\n\n"))))
    })
}

fn message(number: u64, params: &str, version: Option<&str>, call: &Call<'_>) -> Message {
    let mut text = String::with_capacity(params.len() + 256);
    let version = version.unwrap_or("2025-03-26");
    text.push_str(r#"{"type":"call","id":"c"#);
    text.push_str(&number.to_string());
    text.push_str(r#"","method":"tools/call","params":"#);
    text.push_str(params);
    text.push_str(r#","agent":{"protocolVersion":""#);
    text.push_str(version);
    text.push('"');
    if let Some(meta) = &call.meta {
        for (name, value) in [("clientInfo", meta.info), ("capabilities", meta.capabilities)] {
            if let Some(value) = value {
                text.push_str(",\"");
                text.push_str(name);
                text.push_str("\":");
                text.push_str(value.get());
            }
        }
    }
    text.push_str("}}");
    Message::text(text)
}

/// An agent that hangs up is not waited for any more.
struct Forget<'a> {
    client: &'a Client,
    number: u64,
    done: Cell<bool>,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if !self.done.get() {
            self.client.waiting.borrow_mut().remove(&self.number);
        }
    }
}
