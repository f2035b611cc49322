//! The path of a call through a bridge, as one builds it on hyper, tokio and tokio-tungstenite.
//!
//! It is reduced in its own favour: one result per call, no deadlines, no progress, no cancellation of
//! what is written, no limits but the size of a message, no log. What is left is done as the bridge does
//! it: each request's token, headers and JSON are checked, no result is copied that need not be, small
//! messages go out at once and a client's queue with one flush. One thread, as the bridge. `agent` is the
//! HTTP side, `client` the WebSocket side, `body` what hyper writes, `token` who may.

mod agent;
mod body;
mod client;
mod token;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::LocalSet;

use body::Body;
use client::Client;
use token::Secret;

/// What every task can reach; one thread owns it.
struct Bridge {
    secret: Secret,
    clients: RefCell<HashMap<Box<str>, Rc<Client>>>,
    next_call: Cell<u64>,
}

fn main() -> io::Result<()> {
    let secret = std::env::var("CLIENTMCP_SECRET").unwrap_or_default();
    let address = listen_address().ok_or_else(|| io::Error::other("expected --listen ADDR"))?;
    let bridge = Rc::new(Bridge {
        secret: Secret::new(secret.as_bytes()),
        clients: RefCell::default(),
        next_call: Cell::new(1),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    LocalSet::new().block_on(&runtime, serve(bridge, address))
}

/// The value of `--listen`; other flags are the bridge's and mean nothing here.
fn listen_address() -> Option<SocketAddr> {
    let mut words = std::env::args().skip_while(|word| word != "--listen");
    words.nth(1)?.parse().ok()
}

async fn serve(bridge: Rc<Bridge>, address: SocketAddr) -> io::Result<()> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = socket.listen(4096)?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    loop {
        // Too many open files is the one error to expect, and it passes.
        let Ok((stream, _)) = listener.accept().await else { continue };
        tokio::task::spawn_local(connection(bridge.clone(), stream));
    }
}

async fn connection(bridge: Rc<Bridge>, stream: TcpStream) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let service = service_fn(|request| {
        let bridge = bridge.clone();
        async move { Ok::<_, Infallible>(answer(bridge, request).await) }
    });
    let http = hyper::server::conn::http1::Builder::new();
    // A broken connection needs no word.
    http.serve_connection(TokioIo::new(stream), service).with_upgrades().await.ok();
}

async fn answer(bridge: Rc<Bridge>, request: Request<Incoming>) -> Response<Body> {
    match (request.uri().path(), request.method()) {
        ("/mcp", &Method::POST) => agent::post(&bridge, request).await,
        ("/mcp", &Method::GET) => agent::stream(&bridge, &request),
        ("/connect", &Method::GET) => client::upgrade(bridge, request),
        ("/health", &Method::GET) => body::text(StatusCode::OK, "ok"),
        _ => body::text(StatusCode::NOT_FOUND, "not found"),
    }
}
