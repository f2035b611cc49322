//! From an HTTP request to a client's WebSocket: who may, and as whom (RFC 6455 §4.2; SPEC, Tokens).
//!
//! What is wrong with the handshake itself is an HTTP answer. What is wrong with the token is told after
//! it, by a close code, because a browser cannot see an HTTP status.

use async_tungstenite::tungstenite::handshake::derive_accept_key;
use clientmcp_proto::answer::Response;
use clientmcp_proto::channel::{BEARER_PREFIX, SUBPROTOCOL};
use clientmcp_proto::client_id::ClientId;
use clientmcp_proto::fault::Close;
use clientmcp_proto::http1::BodyKind;
use clientmcp_proto::token::Claims;
use clientmcp_proto::{json, limits};
use data_encoding::{BASE64, BASE64URL_NOPAD};

use crate::admission::{self, Crowd};
use crate::connection;
use crate::head::Head;
use crate::http::bearer;
use crate::log;
use crate::metrics::Refusal;
use crate::shared::Shared;
use crate::socket::Socket;

/// What the token said: join as this client, or go for this reason.
pub type Verdict = Result<Claims, Close>;

/// Judges a request for `/connect`, but not its token; on success returns the answer that completes the
/// handshake, and the token or why it is not looked at.
pub fn judge(
    shared: &Shared,
    head: &Head,
    crowd: Option<Crowd>,
) -> Result<(String, Result<String, Close>), Response> {
    if head.method() != "GET" {
        return Err(Response::text(405, "A client connects by GET.").with("Allow", "GET"));
    }
    if !head.frame.upgrade {
        let what = "This is a WebSocket endpoint: connect with an upgrade.";
        return Err(Response::text(426, what)
            .with("Upgrade", "websocket")
            .with("Connection", "Upgrade"));
    }
    // What is a body to one reader would be WebSocket frames to another.
    if !matches!(head.frame.body, BodyKind::None | BodyKind::Length(0)) {
        return Err(Response::text(400, "An upgrade has no body."));
    }
    if head.field("sec-websocket-version") != Some("13") {
        let what = "Expected Sec-WebSocket-Version: 13.";
        return Err(Response::text(426, what)
            .with("Sec-WebSocket-Version", "13")
            .with("Upgrade", "websocket")
            .with("Connection", "Upgrade"));
    }
    let key = head.field("sec-websocket-key").unwrap_or_default();
    if BASE64.decode(key.as_bytes()).map(|bytes| bytes.len()) != Ok(16) {
        let what = "Expected a Sec-WebSocket-Key of 16 bytes in Base64.";
        return Err(Response::text(400, what));
    }
    let offered = head.field("sec-websocket-protocol").unwrap_or_default();
    let mut offered = offered.split(',').map(str::trim);
    if !offered.clone().any(|protocol| protocol == SUBPROTOCOL) {
        let what = format!("Expected the subprotocol {SUBPROTOCOL} among those offered.");
        return Err(Response::text(400, &what));
    }
    if shared.draining.get() {
        shared.metrics.refusal(Refusal::Stopping);
        let what = "The bridge is stopping; come back later.";
        return Err(Response::text(503, what).with("Retry-After", "2"));
    }
    let accept = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {}\r\nSec-WebSocket-Protocol: {SUBPROTOCOL}\r\n\r\n",
        derive_accept_key(key.as_bytes())
    );
    if let Some(crowd) = crowd {
        return Ok((accept, Err(crowd.close())));
    }
    let token = offered.find_map(|protocol| protocol.strip_prefix(BEARER_PREFIX));
    let token = token.or_else(|| bearer(head)).map(str::to_owned).ok_or_else(|| {
        shared.metrics.refusal(Refusal::Token);
        let what = "no token: offer the subprotocol clientmcp.bearer.<token>";
        Close::BadToken(what.to_owned())
    });
    Ok((accept, token))
}

/// The client ID that a token claims to be for. Nothing says that it is true.
pub fn claimed(token: &str) -> Option<ClientId> {
    if token.len() > limits::TOKEN_CHARS_MAX {
        return None;
    }
    let claims = BASE64URL_NOPAD.decode(token.split('.').nth(1)?.as_bytes()).ok()?;
    let claims = json::members(std::str::from_utf8(&claims).ok()?).ok()?;
    let (_, raw) = claims.iter().find(|(name, _)| name == "sub")?;
    ClientId::parse(&json::string(raw)?).ok()
}

/// Whether this token lets its bearer connect, by a path with this client ID or none.
pub fn verdict(shared: &Shared, token: &str, id: Option<&str>) -> Verdict {
    let claims = verify(shared, token)?;
    if id.is_some_and(|id| id != claims.client_id.as_str()) {
        shared.metrics.refusal(Refusal::Forbidden);
        return Err(Close::Forbidden("the client ID in the path is not the one of the token"));
    }
    Ok(claims)
}

/// A token that lets its bearer connect.
pub fn verify(shared: &Shared, token: &str) -> Verdict {
    let claims = shared.verify(token).map_err(|error| {
        shared.metrics.refusal(Refusal::Token);
        log::limited(
            "client-token",
            log::Level::Warn,
            "client's token refused",
            &[("reason", &error)],
        );
        Close::BadToken(error)
    })?;
    if !claims.may_connect {
        shared.metrics.refusal(Refusal::Forbidden);
        return Err(Close::Forbidden("this token lacks the scope `client`"));
    }
    Ok(claims)
}

/// Lets the connection go on as a WebSocket, in a task of its own. `leftover` was read behind the head.
pub fn start(socket: Socket, leftover: Vec<u8>, verdict: Verdict, place: admission::Place) {
    let shared = socket.shared.clone();
    match verdict {
        Ok(claims) => shared.spawn(connection::run(socket, leftover, claims, place)),
        Err(close) => shared.spawn(async move {
            connection::refuse(socket, close).await;
            drop(place);
        }),
    }
}
