//! One agent connection: requests in, answers out, in the order of HTTP/1.1.
//!
//! Owns the socket between requests and while it reads their heads; then the path decides. `endpoint` is
//! the MCP endpoint, `response` writes answers; a notification stream becomes a task of its own, and a
//! WebSocket leaves this room for good. Between two requests it sleeps without a buffer.

use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use clientmcp_proto::answer::Response;
use clientmcp_proto::client_id::ClientId;
use clientmcp_proto::fault::Close;
use clientmcp_proto::http1::{self, HeadReader};
use clientmcp_proto::limits;
use clientmcp_proto::mcp::Era;
use clientmcp_proto::negotiate::{Origins, is_loopback_authority};
use clientmcp_proto::route::Route;
use clientmcp_proto::time::Instant;

use crate::admission::{Crowd, Place};
use crate::dev;
use crate::head::{Head, field_of};
use crate::http_body::Framing;
use crate::log;
use crate::metrics::{self, Refusal};
use crate::registry::Request;
use crate::shared::Shared;
use crate::socket::{Input, Socket};
use crate::stream::{self, Slot};
use crate::timers::Timer;
use crate::upgrade;

mod endpoint;
mod response;

pub use endpoint::bearer;
pub use response::Exchange;

/// What becomes of the connection after an exchange.
pub enum Next {
    KeepAlive,
    /// Everything is written; let the peer read it.
    Close,
    /// The peer is gone, or did not keep to its time.
    Drop,
    /// From now on a WebSocket.
    Upgrade(upgrade::Verdict),
    /// From now on a notification stream.
    Stream(Framing, ClientId, Rc<Slot>),
}

/// An agent's connection.
pub struct Connection {
    pub socket: Socket,
    /// What was read and not used: the next request, or the beginning of one.
    pub buffer: Vec<u8>,
    /// One for all its waits, so that a deadline that only moves is not put in and taken out each time.
    pub timer: Timer,
    /// More was sent ahead than is kept: the connection ends with this answer.
    pub overrun: bool,
    /// Which browser pages may use the endpoint, as this connection's listener sees it.
    pub origins: Rc<Origins>,
    pub peer: IpAddr,
    /// Its place among all connections.
    pub place: Place,
    /// It has had an answer, so it is kept alive by an agent that asks more than once.
    pub served: bool,
    /// Where its last head is remembered.
    pub last_head: Option<u16>,
    /// This is a connection to the `--metrics` address, where nothing else is served.
    pub only_metrics: bool,
    /// When it ends if it has shown no good token before.
    pub stranger_until: Instant,
}

/// Serves a connection to its end.
///
/// As many of these sleep as there are agents, so this future is little more than the `Connection`; what
/// it does when it wakes is boxed.
pub fn serve(connection: Connection) -> impl Future<Output = ()> {
    let mut deadline = connection.shared().now() + connection.place.head_timeout();
    let mut connection = Some(connection);
    async move {
        while let Some(asleep) = &mut connection {
            if asleep.buffer.is_empty() && !poll_fn(|cx| asleep.wakes(cx, deadline)).await {
                asleep.is_overdue();
                return;
            }
            // Boxed before it is waited for: a connection in a variable here would be kept room for.
            let step = connection.take().map(|awake| Box::pin(awake.step()));
            if let Some(step) = step {
                connection = step.await;
            }
            if connection.as_ref().is_some_and(|awake| !awake.buffer.is_empty()) {
                // Who sends requests faster than they are answered would leave no turn to others.
                smol::future::yield_now().await;
            }
            if let Some(awake) = &connection {
                deadline = awake.shared().now() + awake.shared().config.keep_alive;
                deadline = deadline.min(awake.stranger_until);
            }
        }
    }
}

impl Connection {
    fn shared(&self) -> &Rc<Shared> {
        &self.socket.shared
    }

    /// Ready with `true` at the first byte of a request, with `false` when none came in time.
    fn wakes(&mut self, cx: &mut Context<'_>, until: Instant) -> Poll<bool> {
        if self.socket.io.poll_readable(cx).is_ready() {
            return Poll::Ready(true);
        }
        // It may be the bridge that slept: what came meanwhile came in time.
        let late = self.timer.poll(cx, until);
        late.map(|()| matches!(self.socket.try_read(&mut self.buffer), Some(Input::Some(_))))
    }

    /// Whether it has shown no good token in its time.
    fn is_overdue(&self) -> bool {
        let is_stranger = self.stranger_until != Instant(u64::MAX);
        let is_overdue = is_stranger && self.shared().now() >= self.stranger_until;
        if is_overdue {
            // Not a warning: a monitor that asks for /health ends like this too.
            log::debug("no good token in time (--token-timeout)", &[("peer", &self.peer)]);
        }
        is_overdue
    }

    /// Whether the connection ends with this answer, which then says so.
    pub fn ends(&self) -> bool {
        let shared = self.shared();
        self.overrun || shared.draining.get() || shared.config.keep_alive.is_zero()
    }

    /// One request and its answer; the connection, if it goes on.
    async fn step(mut self) -> Option<Connection> {
        let shared = self.shared().clone();
        match self.exchange().await {
            Next::KeepAlive if !self.ends() => {
                if self.buffer.is_empty() {
                    self.buffer = Vec::new();
                }
                return Some(self);
            }
            Next::KeepAlive | Next::Close => self.socket.linger(limits::LINGER).await,
            Next::Drop => {}
            Next::Upgrade(verdict) => {
                upgrade::start(self.socket, self.buffer, verdict, self.place);
            }
            Next::Stream(framing, client_id, slot) => {
                shared.spawn(stream::run(self.socket, framing, client_id, slot, self.place));
            }
        }
        None
    }

    /// One request and its answer.
    async fn exchange(&mut self) -> Next {
        let (frame, known) = match self.read_head().await {
            Ok(read) => read,
            Err(next) => return next,
        };
        let shared = self.shared().clone();
        shared.answering.set(shared.answering.get() + 1);
        let next = self.answer(frame, known).await;
        shared.answering.set(shared.answering.get() - 1);
        next
    }

    /// A head, as far as it is framed, and the whole of it when it came before.
    async fn read_head(&mut self) -> Result<(http1::Head, Option<Head>), Next> {
        let limits = http1::Limits {
            head_bytes_max: self.shared().config.head_bytes_max,
            headers_max: self.shared().config.headers_max,
        };
        let timeout = self.place.head_timeout();
        let deadline = self.shared().now() + timeout;
        let mut reader = HeadReader::default();
        loop {
            if let Some(place) = self.last_head
                && let Some(head) = self.shared().heads.again(place, &self.buffer, &limits)
            {
                return Ok((head.frame.clone(), Some(head)));
            }
            match reader.read(&self.buffer, &limits) {
                Ok(Some(frame)) => return Ok((frame, None)),
                Ok(None) => {}
                Err(refusal) => {
                    self.shared().metrics.refusal(Refusal::Http);
                    if refusal.status == 431 {
                        let flag = "--max-header-bytes, --max-headers";
                        log::bound(flag, "a request head is too large", &[("peer", &self.peer)]);
                    }
                    return Err(self.refuse_http(refusal.status, &refusal.message).await);
                }
            }
            match self.socket.read(&mut self.buffer, deadline).await {
                Input::Some(_) => {}
                Input::End => return Err(Next::Drop),
                Input::Late if self.buffer.is_empty() => return Err(Next::Drop),
                Input::Late => {
                    self.shared().metrics.refusal(Refusal::Slow);
                    let what = "a request head did not arrive in time";
                    log::bound("--head-timeout", what, &[("peer", &self.peer)]);
                    let seconds = timeout.as_secs_f32();
                    let what = format!("The request head did not arrive within {seconds} s.");
                    return Err(self.refuse_http(408, &what).await);
                }
            }
        }
    }

    /// Answers something that is no request; after it nothing on this connection can be trusted.
    async fn refuse_http(&mut self, status: u16, what: &str) -> Next {
        let response = Response::text(status, what);
        let exchange = Exchange { close: true, ..Exchange::default() };
        self.respond(&exchange, &response).await
    }

    async fn answer(&mut self, frame: http1::Head, known: Option<Head>) -> Next {
        let mut exchange = Exchange {
            head_only: frame.method(&self.buffer) == "HEAD",
            http_10: frame.http_10,
            close: !frame.keep_alive || frame.http_10,
            ..Exchange::default()
        };
        let route = if self.only_metrics {
            Route::metrics(frame.target(&self.buffer))
        } else {
            Route::of(frame.target(&self.buffer), &self.shared().config.base_path)
        };
        let method = frame.method(&self.buffer);
        // The demo page carries tokens: it is for this machine's own browsers, by whatever name of it that
        // no other page can take on.
        let mut host = String::new();
        let route = match route {
            Route::Demo => {
                host.push_str(frame.host(&self.buffer).unwrap_or_default());
                let is_for_here = self.shared().config.dev && is_loopback_authority(&host);
                if is_for_here { Route::Demo } else { Route::NotFound }
            }
            route => route,
        };
        let allowed = allowed_methods(&route);
        if !allowed.contains(&method) {
            // Not for async-h1, which fails on methods that it does not know.
            let field = |name: &str| field_of(&frame, &self.buffer, name);
            let (origin, forwarded_for) = (field("origin"), field("x-forwarded-for"));
            self.asked_by(&mut exchange, origin.as_deref(), forwarded_for.as_deref());
            self.shared().metrics.refusal(Refusal::Route);
            let response = if let Some(crowd) = exchange.crowded {
                Response::fault(Era::Legacy, None, &crowd.fault())
            } else if allowed.is_empty() {
                Response::text(404, "Not found.")
            } else {
                let what = format!("This path serves {}.", allowed.join(", "));
                Response::text(405, &what).with("Allow", allowed.join(", "))
            };
            self.buffer.drain(..frame.bytes);
            exchange.unread_body(&frame);
            return self.respond(&exchange.unread(), &response).await;
        }
        let consumed = frame.bytes;
        let head = match known {
            Some(head) => head,
            None => {
                // An agent that has asked before will ask again.
                let again = self.served && matches!(route, Route::Mcp(_)) && method == "POST";
                match Head::decode(self.shared(), frame, &self.buffer, again).await {
                    Ok(head) => head,
                    Err(error) => return self.refuse_http(400, &format!("{error}.")).await,
                }
            }
        };
        self.last_head = head.place;
        self.buffer.drain(..consumed);
        self.served = true;
        self.asked_by(&mut exchange, head.field("origin"), head.field("x-forwarded-for"));
        exchange.unread_body(&head.frame);
        match route {
            Route::Mcp(id) => self.mcp(exchange, head, id).await,
            Route::Connect(id) => self.connect(exchange, head, id).await,
            Route::Metrics => {
                let mut page = Response::text(200, "");
                page.content_type = Some(metrics::CONTENT_TYPE);
                page.body = self.shared().metrics.render();
                self.respond(&exchange.unread(), &page).await
            }
            Route::Demo => {
                // No other origin may read it, not even an allowed one.
                exchange.origin = None;
                let mut page = Response::text(200, "").with("Cache-Control", "no-store");
                page = page.with("X-Frame-Options", "DENY").with("Referrer-Policy", "no-referrer");
                page.content_type = Some("text/html; charset=utf-8");
                page.body = dev::page(self.shared(), &host);
                self.respond(&exchange.unread(), &page).await
            }
            Route::Health | Route::NotFound => self.health(exchange).await,
        }
    }

    /// Notes which page asks, if it is an allowed one, and whether there are too many connections.
    fn asked_by(
        &mut self,
        exchange: &mut Exchange,
        origin: Option<&str>,
        forwarded_for: Option<&str>,
    ) {
        // Several, joined by commas, are none that could be allowed.
        let origin = origin.filter(|origin| !origin.contains(',') && self.origins.allow(origin));
        exchange.origin = origin.map(str::to_owned);
        let address = self.address(forwarded_for);
        exchange.crowded = self.place.crowd(address);
        exchange.close |= self.place.is_turned_away() || self.is_overdue();
    }

    /// Where a request comes from: the peer, or what a proxy that is trusted says of it.
    fn address(&self, forwarded_for: Option<&str>) -> IpAddr {
        if !self.shared().config.trusted_proxies.contains(&self.peer) {
            return self.peer;
        }
        let last = forwarded_for.unwrap_or_default().rsplit(',').next().unwrap_or_default().trim();
        last.parse().map_or(self.peer, |address: IpAddr| address.to_canonical())
    }

    async fn health(&mut self, exchange: Exchange) -> Next {
        // A bridge that is full is well, and a monitor that stopped it would make it worse.
        if let Some(Crowd::Address) = exchange.crowded {
            return self.refuse(exchange, &Crowd::Address.fault()).await;
        }
        let response = match self.shared().draining.get() {
            true => Response::text(503, "draining"),
            false => Response::text(200, "ok"),
        };
        self.respond(&exchange.unread(), &response).await
    }

    async fn connect(&mut self, exchange: Exchange, head: Head, id: Option<String>) -> Next {
        let (accept, token) = match upgrade::judge(self.shared(), &head, exchange.crowded) {
            Ok(judged) => judged,
            Err(response) => return self.respond(&exchange.unread(), &response).await,
        };
        let verdict = match token {
            Ok(token) => self.verdict(&token, id.as_deref()).await,
            Err(close) => Err(close),
        };
        match self.socket.write(&[accept.as_bytes()]).await {
            Ok(()) => Next::Upgrade(verdict),
            Err(_) => Next::Drop,
        }
    }

    /// Judges a client's token; but a full bridge looks at no token except of who would replace a
    /// connection of its own: the newest wins.
    async fn verdict(&self, token: &str, id: Option<&str>) -> upgrade::Verdict {
        let shared = self.shared();
        if shared.clients.get() >= shared.config.clients_max {
            let (reply, online) = flume::bounded(1);
            match upgrade::claimed(token) {
                Some(client_id) => shared.tell(Request::IsOnline { client_id, reply }),
                None => drop(reply),
            }
            if online.recv_async().await != Ok(true) {
                shared.metrics.refusal(Refusal::Clients);
                log::bound("--max-clients", "too many clients", &[("peer", &self.peer)]);
                return Err(Close::Limit("too many clients are connected; come back later"));
            }
        }
        let claims = upgrade::verdict(shared, token, id)?;
        shared
            .admission
            .connects(&shared.config, &claims.client_id, shared.now())
            .inspect_err(|_| shared.metrics.refusal(Refusal::Rate))?;
        Ok(claims)
    }
}

/// What a path serves.
fn allowed_methods(route: &Route) -> &'static [&'static str] {
    match route {
        Route::Mcp(_) => &["POST", "GET", "DELETE", "OPTIONS"],
        Route::Connect(_) => &["GET"],
        Route::Health => &["GET", "HEAD"],
        Route::Metrics | Route::Demo => &["GET", "HEAD"],
        Route::NotFound => &[],
    }
}
