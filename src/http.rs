//! One agent connection: requests in, answers out, in the order of HTTP/1.1.
//!
//! Owns the socket between requests and while it reads them; a call that has to wait is `call`'s, a
//! notification stream becomes a task of its own, and a WebSocket leaves this room for good. Between two
//! requests it sleeps without a buffer.

use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use clientmcp_proto::agent::{self, Call, Caller, Decision, Delivery, Question, View};
use clientmcp_proto::answer::{self, Response};
use clientmcp_proto::client_id::ClientId;
use clientmcp_proto::fault::{Fault, Trouble};
use clientmcp_proto::http1::{self, BodyDecoder, BodyKind, HeadReader};
use clientmcp_proto::json;
use clientmcp_proto::limits;
use clientmcp_proto::mcp::Era;
use clientmcp_proto::negotiate::{Accept, Origins, is_json};
use clientmcp_proto::route::Route;
use clientmcp_proto::sse;
use clientmcp_proto::time::Instant;
use clientmcp_proto::token::{self, Claims};

use crate::admission::Place;
use crate::call::Answering;
use crate::head::{Head, response_head};
use crate::http_body::Framing;
use crate::log;
use crate::metrics::{self, Refusal};
use crate::registry::{Request, Seen};
use crate::shared::{Shared, random_u64};
use crate::socket::{Input, Socket};
use crate::stream::{self, Slot};
use crate::ticket::Ticket;
use crate::timers::Timer;
use crate::upgrade;

/// A request body that nobody will look at is read away up to this size, so that the connection can
/// go on; a larger one costs the connection.
const DISCARDED_BODY_MAX: u64 = 64 << 10;

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
    /// Which browser pages may use the endpoint, as this connection's listener sees it.
    pub origins: Rc<Origins>,
    pub peer: IpAddr,
    /// Its place among all connections.
    pub place: Place,
    /// This is a connection to the `--metrics` address, where nothing else is served.
    pub only_metrics: bool,
}

/// Serves a connection to its end.
///
/// As many of these sleep as there are agents, so this future is little more than the `Connection`; what
/// it does when it wakes is boxed.
pub fn serve(connection: Connection) -> impl Future<Output = ()> {
    let wait = connection.shared().config.head_timeout;
    let mut deadline = connection.shared().now() + wait;
    let mut timer = Timer::new(connection.shared().clone());
    let mut connection = Some(connection);
    async move {
        while let Some(awake) = &connection {
            if awake.buffer.is_empty() && !poll_fn(|cx| awake.wakes(cx, &mut timer, deadline)).await
            {
                return;
            }
            if let Some(awake) = connection.take() {
                connection = Box::pin(awake.step()).await;
                if let Some(awake) = &connection {
                    deadline = awake.shared().now() + awake.shared().config.keep_alive;
                }
            }
        }
    }
}

impl Connection {
    fn shared(&self) -> &Rc<Shared> {
        &self.socket.shared
    }

    /// Ready with `true` at the first byte of a request, with `false` when none came in time.
    fn wakes(&self, cx: &mut Context<'_>, timer: &mut Timer, until: Instant) -> Poll<bool> {
        if self.socket.io.poll_readable(cx).is_ready() {
            return Poll::Ready(true);
        }
        timer.poll(cx, until).map(|()| false)
    }

    /// One request and its answer; the connection, if it goes on.
    async fn step(mut self) -> Option<Connection> {
        let shared = self.shared().clone();
        match self.exchange().await {
            Next::KeepAlive if !shared.draining.get() => {
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
        let frame = match self.read_head().await {
            Ok(frame) => frame,
            Err(next) => return next,
        };
        let shared = self.shared().clone();
        shared.answering.set(shared.answering.get() + 1);
        let next = self.answer(frame).await;
        shared.answering.set(shared.answering.get() - 1);
        next
    }

    async fn read_head(&mut self) -> Result<http1::Head, Next> {
        let limits = http1::Limits {
            head_bytes_max: self.shared().config.head_bytes_max,
            headers_max: self.shared().config.headers_max,
        };
        let deadline = self.shared().now() + self.shared().config.head_timeout;
        let mut reader = HeadReader::default();
        loop {
            match reader.read(&self.buffer, &limits) {
                Ok(Some(frame)) => return Ok(frame),
                Ok(None) => {}
                Err(refusal) => {
                    self.shared().metrics.refusal(Refusal::Http);
                    return Err(self.refuse_http(refusal.status, &refusal.message).await);
                }
            }
            match self.socket.read(&mut self.buffer, deadline).await {
                Input::Some(_) => {}
                Input::End => return Err(Next::Drop),
                Input::Late if self.buffer.is_empty() => return Err(Next::Drop),
                Input::Late => {
                    self.shared().metrics.refusal(Refusal::Slow);
                    let seconds = self.shared().config.head_timeout.as_secs_f32();
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

    async fn answer(&mut self, frame: http1::Head) -> Next {
        let mut exchange = Exchange {
            head_only: frame.method(&self.buffer) == "HEAD",
            http_10: frame.http_10,
            close: !frame.keep_alive || frame.http_10,
            ..Exchange::default()
        };
        let field = |wanted: &'static str| {
            let fields = frame.fields(&self.buffer);
            fields
                .filter(move |(name, _)| name.eq_ignore_ascii_case(wanted))
                .map(|(_, value)| value)
        };
        // Two origins are none that could be allowed.
        let mut origins = field("origin");
        exchange.origin = match (origins.next(), origins.next()) {
            (Some(origin), None) if self.origins.allow(origin) => Some(origin.to_owned()),
            _ => None,
        };
        drop(origins);
        let address = self.address(field("x-forwarded-for").last());
        exchange.crowded = !self.place.count(address);
        let route = if self.only_metrics {
            Route::metrics(frame.target(&self.buffer))
        } else {
            Route::of(frame.target(&self.buffer), &self.shared().config.base_path)
        };
        let method = frame.method(&self.buffer);
        let allowed = allowed_methods(&route);
        if !allowed.contains(&method) {
            self.shared().metrics.refusal(Refusal::Route);
            let response = if exchange.crowded {
                Response::fault(Era::Legacy, None, &Fault::TooManyConnections)
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
        let head = match Head::decode(frame, &self.buffer).await {
            Ok(head) => head,
            Err(error) => return self.refuse_http(400, &format!("{error}.")).await,
        };
        self.buffer.drain(..consumed);
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
            Route::Health | Route::Demo | Route::NotFound => self.health(exchange).await,
        }
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
        if exchange.crowded {
            return self.refuse(exchange, &Fault::TooManyConnections).await;
        }
        let response = match self.shared().draining.get() {
            true => Response::text(503, "draining"),
            false => Response::text(200, "ok"),
        };
        self.respond(&exchange.unread(), &response).await
    }

    async fn connect(&mut self, exchange: Exchange, head: Head, id: Option<String>) -> Next {
        match upgrade::judge(self.shared(), &head, id.as_deref(), exchange.crowded) {
            Err(response) => self.respond(&exchange.unread(), &response).await,
            Ok((accept, verdict)) => match self.socket.write(&[accept.as_bytes()]).await {
                Ok(()) => Next::Upgrade(verdict),
                Err(_) => Next::Drop,
            },
        }
    }

    async fn mcp(&mut self, mut exchange: Exchange, head: Head, id: Option<String>) -> Next {
        if head.method == "OPTIONS" {
            let response = self.preflight(&exchange, &head);
            return self.respond(&exchange.unread(), &response).await;
        }
        let claims = match self.admit(&exchange, &head, id.as_deref()) {
            Ok(claims) => claims,
            Err(fault) => return self.refuse(exchange, &fault).await,
        };
        let accept = Accept::parse(head.field("accept").as_deref());
        match head.method.as_str() {
            "POST" => {}
            "GET" if !accept.events => {
                return self.refuse(exchange, &Fault::NotAcceptable("text/event-stream")).await;
            }
            "GET" => {
                let slot = Slot::new(agent::listen_by_get(&head));
                return self.listen(exchange.unread(), claims, slot, Era::Legacy, None).await;
            }
            "DELETE" => {
                if let Some(session) = head.field("mcp-session-id") {
                    let client_id = claims.client_id;
                    let session = session.as_ref().into();
                    self.shared().tell(Request::Forget { client_id, session });
                }
                return self.respond(&exchange.unread(), &Response::empty(204)).await;
            }
            _ => unreachable!("allowed_methods() names the four handled here"),
        }
        let content_type = head.field("content-type");
        if !is_json(content_type.as_deref()) {
            let came = content_type.as_deref().unwrap_or("none").to_owned();
            self.shared().metrics.refusal(Refusal::Media);
            return self.refuse(exchange, &Fault::MediaType(came)).await;
        }
        if let Some(coding) = head.field("content-encoding").filter(|it| *it != "identity") {
            self.shared().metrics.refusal(Refusal::Media);
            let came = format!("Content-Encoding {coding}");
            return self.refuse(exchange, &Fault::MediaType(came)).await;
        }
        if accept.neither() {
            let wanted = "application/json or text/event-stream";
            return self.refuse(exchange, &Fault::NotAcceptable(wanted)).await;
        }
        let body = match self.read_body(&head, &mut exchange).await {
            Ok(body) => body,
            Err(next) => return next,
        };
        self.post(exchange, head, claims, accept, body).await
    }

    /// Preflights come without a token (Fetch Standard, CORS-preflight request).
    fn preflight(&self, exchange: &Exchange, head: &Head) -> Response {
        if head.field("origin").is_some() && exchange.origin.is_none() {
            self.shared().metrics.refusal(Refusal::Origin);
            return Response::fault(Era::Legacy, None, &Fault::ForbiddenOrigin);
        }
        let response = Response::empty(204).with("Allow", "POST, GET, DELETE, OPTIONS");
        if exchange.origin.is_none() {
            return response;
        }
        let response = response
            .with("Access-Control-Allow-Methods", "POST, GET, DELETE, OPTIONS")
            .with("Access-Control-Max-Age", "600");
        // `Mcp-Param-*` are open-ended, so whatever is asked for is allowed by name.
        match head.field("access-control-request-headers") {
            Some(asked) => response.with("Access-Control-Allow-Headers", asked),
            None => response,
        }
    }

    /// Everything that is checked before the body is looked at.
    fn admit(&self, exchange: &Exchange, head: &Head, id: Option<&str>) -> Result<Claims, Fault> {
        let shared = self.shared();
        if head.field("origin").is_some() && exchange.origin.is_none() {
            shared.metrics.refusal(Refusal::Origin);
            return Err(Fault::ForbiddenOrigin);
        }
        if exchange.crowded {
            shared.metrics.refusal(Refusal::Address);
            return Err(Fault::TooManyConnections);
        }
        if shared.draining.get() {
            shared.metrics.refusal(Refusal::Stopping);
            return Err(Fault::Draining);
        }
        let Some(token) = bearer(head) else {
            shared.metrics.refusal(Refusal::Token);
            return Err(Fault::Unauthorized(None));
        };
        let audience = shared.config.audience.as_deref();
        let claims = token::verify(&token, &shared.secrets(), audience, shared.wall());
        let claims = claims.map_err(|error| {
            shared.metrics.refusal(Refusal::Token);
            log::limited(
                "agent-token",
                log::Level::Warn,
                "agent's token refused",
                &[("peer", &self.peer), ("reason", &error)],
            );
            Fault::Unauthorized(Some(error.to_string()))
        })?;
        if !claims.may_call {
            shared.metrics.refusal(Refusal::Forbidden);
            return Err(Fault::InsufficientScope);
        }
        if id.is_some_and(|id| id != claims.client_id.as_str()) {
            shared.metrics.refusal(Refusal::Forbidden);
            return Err(Fault::WrongClient);
        }
        Ok(claims)
    }

    async fn read_body(
        &mut self,
        head: &Head,
        exchange: &mut Exchange,
    ) -> Result<Rc<String>, Next> {
        let mut decoder = match BodyDecoder::new(head.frame.body, limits::BODY_BYTES_MAX) {
            Ok(decoder) => decoder,
            Err(_) => return Err(self.refuse_body(exchange, 413, "").await),
        };
        exchange.unread = None;
        exchange.close_unread = false;
        if head.frame.expects_continue && self.buffer.is_empty() {
            let go_on = b"HTTP/1.1 100 Continue\r\n\r\n";
            self.socket.write(&[go_on]).await.map_err(|_| Next::Drop)?;
        }
        let mut body = Vec::new();
        loop {
            match decoder.feed(&self.buffer, &mut body) {
                Ok(consumed) => self.buffer.drain(..consumed),
                Err(refusal) => {
                    return Err(self.refuse_body(exchange, refusal.status, &refusal.message).await);
                }
            };
            if decoder.done() {
                break;
            }
            let deadline = self.shared().now() + self.shared().config.body_timeout;
            match self.socket.read(&mut self.buffer, deadline).await {
                Input::Some(_) => {}
                Input::End => return Err(Next::Drop),
                Input::Late => {
                    self.shared().metrics.refusal(Refusal::Slow);
                    let what = "The request body did not arrive in time.";
                    return Err(self.refuse_body(exchange, 408, what).await);
                }
            }
        }
        match String::from_utf8(body) {
            Ok(mut body) => {
                // RFC 8259 §8.1: a parser may ignore a byte order mark.
                if body.starts_with('\u{feff}') {
                    body.remove(0);
                }
                Ok(Rc::new(body))
            }
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let fault = Fault::ParseError(format!("not UTF-8 at byte {at}"));
                self.shared().metrics.refusal(Refusal::Rpc);
                let response = Response::fault(Era::Legacy, None, &fault);
                Err(self.respond(exchange, &response).await)
            }
        }
    }

    /// The end of what is on this connection is not known any more.
    async fn refuse_body(&mut self, exchange: &mut Exchange, status: u16, what: &str) -> Next {
        exchange.close = true;
        exchange.unread = None;
        if status == 413 {
            self.shared().metrics.refusal(Refusal::TooLarge);
            let fault = Fault::TooLarge(limits::BODY_BYTES_MAX);
            return self.respond(exchange, &Response::fault(Era::Legacy, None, &fault)).await;
        }
        self.shared().metrics.refusal(Refusal::Http);
        self.respond(exchange, &Response::text(status, what)).await
    }

    async fn post(
        &mut self,
        exchange: Exchange,
        head: Head,
        claims: Claims,
        accept: Accept,
        body: Rc<String>,
    ) -> Next {
        let caller = Caller { claims: &claims, accept, fresh: random_u64() };
        match agent::decide(&head, &body, &caller) {
            Decision::Respond(response) => self.respond_to(&exchange, accept, &response).await,
            Decision::Ask(question) => {
                let response = self.ask(&question, &claims).await;
                self.respond_to(&exchange, accept, &response).await
            }
            Decision::Call(call) => {
                let ticket = self.ticket(&claims, *call, body.clone());
                Answering::one(self, &exchange, accept, ticket).run().await
            }
            Decision::Listen(listen) => {
                let id = listen.subscription.clone();
                let slot = Slot::new(listen);
                self.listen(exchange, claims, slot, Era::Modern, id.as_deref()).await
            }
            Decision::Cancel(cancel) => {
                self.shared().tell(Request::Cancel(claims.client_id, cancel));
                self.respond(&exchange, &Response::empty(202)).await
            }
            Decision::Deliver(delivery) => {
                self.deliver(&claims, delivery);
                self.respond(&exchange, &Response::empty(202)).await
            }
            Decision::Batch(elements) => {
                self.batch(&exchange, &head, &claims, accept, &elements).await
            }
        }
    }

    fn ticket(&self, claims: &Claims, call: Call, body: Rc<String>) -> Rc<Ticket> {
        let shared = self.shared();
        let (id, client_id) = (shared.next_call_id(), claims.client_id.clone());
        Ticket::new(id, client_id, call, body, shared.now())
    }

    /// The answer to a question that the bridge put to the agent, or to nobody's.
    fn deliver(&self, claims: &Claims, delivery: Delivery<'_>) {
        let Some(id) = json::string(delivery.id) else { return };
        self.shared().tell(Request::Deliver {
            client_id: claims.client_id.clone(),
            id: id.into_owned(),
            result: delivery.result.map(str::to_owned).map_err(str::to_owned),
        });
    }

    /// Every element is a request of its own; their answers share one response.
    async fn batch(
        &mut self,
        exchange: &Exchange,
        head: &Head,
        claims: &Claims,
        accept: Accept,
        elements: &[&str],
    ) -> Next {
        let mut known = Vec::new();
        let mut tickets = Vec::new();
        for element in elements {
            let caller = Caller { claims, accept, fresh: random_u64() };
            match agent::decide_element(head, element, &caller) {
                Decision::Respond(response) if response.body.is_empty() => {}
                Decision::Respond(response) => known.push(response.body),
                Decision::Ask(question) => known.push(self.ask(&question, claims).await.body),
                Decision::Call(call) => {
                    tickets.push(self.ticket(claims, *call, Rc::new((*element).to_owned())))
                }
                Decision::Cancel(cancel) => {
                    self.shared().tell(Request::Cancel(claims.client_id.clone(), cancel));
                }
                Decision::Deliver(delivery) => self.deliver(claims, delivery),
                Decision::Listen(_) | Decision::Batch(_) => {
                    unreachable!("decide_element() knows the 2025 era only, and no arrays")
                }
            }
        }
        if known.is_empty() && tickets.is_empty() {
            return self.respond(exchange, &Response::empty(202)).await;
        }
        Answering::batch(self, exchange, accept, tickets, known).run().await
    }

    /// Answers from what the client offers.
    async fn ask(&self, question: &Question<'_>, claims: &Claims) -> Response {
        let shared = self.shared();
        let (reply, seen) = flume::bounded(1);
        let memory = question.session.clone().zip(question.memory());
        let client_id = claims.client_id.clone();
        shared.tell(Request::Look { client_id: client_id.clone(), memory, reply });
        let Ok(Seen { offer, full }) = seen.recv_async().await else {
            return question.refuse(&Fault::Failed(Trouble::Stopping));
        };
        if full {
            let max = limits::SUBSCRIPTIONS_MAX;
            let what = format!("this session already has {max} subscriptions");
            return question.refuse(&Fault::BadArgument(what.into()));
        }
        question.answer(View { client_id: &client_id, offer: offer.as_deref() }, claims)
    }

    /// Opens a notification stream and hands the connection over to it.
    async fn listen(
        &mut self,
        exchange: Exchange,
        claims: Claims,
        slot: Rc<Slot>,
        era: Era,
        id: Option<&str>,
    ) -> Next {
        let shared = self.shared().clone();
        let (reply, answer) = flume::bounded(1);
        let client_id = claims.client_id;
        shared.tell(Request::Listen { client_id: client_id.clone(), slot: slot.clone(), reply });
        if let Ok(Err(fault)) | Err(fault) = answer.recv_async().await.map_err(|_| Fault::Draining)
        {
            shared.metrics.refusal(Refusal::Streams);
            return self.respond(&exchange, &Response::fault(era, id, &fault)).await;
        }
        let first = match era {
            Era::Legacy => sse::RETRY.to_owned(),
            Era::Modern => sse::event(&answer::acknowledged(&slot.listen)),
        };
        match self.begin_stream(&exchange).await {
            Ok(framing) if framing.write(&self.socket, &first).await.is_ok() => {
                Next::Stream(framing, client_id, slot)
            }
            _ => {
                shared.tell(Request::Unlisten { client_id, slot });
                Next::Drop
            }
        }
    }

    async fn refuse(&mut self, exchange: Exchange, fault: &Fault) -> Next {
        let response = Response::fault(Era::Legacy, None, fault);
        self.respond(&exchange.unread(), &response).await
    }

    /// Answers a POST, as an event when the agent takes nothing else.
    async fn respond_to(
        &mut self,
        exchange: &Exchange,
        accept: Accept,
        response: &Response,
    ) -> Next {
        if accept.json || response.status != 200 || response.content_type != Some(answer::JSON) {
            return self.respond(exchange, response).await;
        }
        let mut event = response.clone();
        event.content_type = Some(answer::EVENT_STREAM);
        event.body = sse::event(&response.body);
        event.headers.extend(stream_headers());
        self.respond(exchange, &event).await
    }

    /// Writes a complete answer.
    pub async fn respond(&mut self, exchange: &Exchange, response: &Response) -> Next {
        let body = [response.body.as_bytes()];
        self.respond_pieces(
            exchange,
            response.status,
            response.content_type,
            &response.headers,
            &body,
        )
        .await
    }

    /// Writes a complete answer whose body comes in pieces.
    pub async fn respond_pieces(
        &mut self,
        exchange: &Exchange,
        status: u16,
        content_type: Option<&str>,
        headers: &[(&'static str, String)],
        body: &[&[u8]],
    ) -> Next {
        self.shared().metrics.agent_request(status);
        let mut headers = headers.to_vec();
        exchange.add_headers(&mut headers);
        let length = body.iter().map(|piece| piece.len()).sum();
        let Ok(mut head) = response_head(status, &headers, content_type, Some(length)).await else {
            return Next::Drop;
        };
        if status == 204 {
            // RFC 9110 §8.6: no Content-Length in a 204.
            head = without_length(&head);
        }
        let mut pieces = vec![head.as_slice()];
        if !exchange.head_only {
            pieces.extend_from_slice(body);
        }
        if self.socket.write(&pieces).await.is_err() {
            return Next::Drop;
        }
        if exchange.closes() {
            return Next::Close;
        }
        match exchange.unread.clone() {
            Some(decoder) => self.skip_body(decoder).await,
            None => Next::KeepAlive,
        }
    }

    /// Reads a short body away.
    async fn skip_body(&mut self, mut decoder: BodyDecoder) -> Next {
        let deadline = self.shared().now() + self.shared().config.body_timeout;
        let mut discarded = Vec::new();
        loop {
            match decoder.feed(&self.buffer, &mut discarded) {
                Ok(consumed) => self.buffer.drain(..consumed),
                Err(_) => return Next::Close,
            };
            if decoder.done() {
                return Next::KeepAlive;
            }
            if !matches!(self.socket.read(&mut self.buffer, deadline).await, Input::Some(_)) {
                return Next::Drop;
            }
        }
    }

    /// Writes the head of an event stream.
    pub async fn begin_stream(&mut self, exchange: &Exchange) -> std::io::Result<Framing> {
        self.shared().metrics.agent_request(200);
        let mut headers: Vec<_> = stream_headers().into_iter().collect();
        exchange.add_headers(&mut headers);
        let event_stream = Some(answer::EVENT_STREAM);
        let mut head = response_head(200, &headers, event_stream, None).await?;
        let framing = if exchange.http_10 {
            head = without_chunking(&head);
            Framing::UntilClose
        } else {
            Framing::Chunked
        };
        self.socket.write(&[&head]).await?;
        Ok(framing)
    }
}

/// What a path serves.
fn allowed_methods(route: &Route) -> &'static [&'static str] {
    match route {
        Route::Mcp(_) => &["POST", "GET", "DELETE", "OPTIONS"],
        Route::Connect(_) => &["GET"],
        Route::Health => &["GET", "HEAD"],
        Route::Metrics => &["GET", "HEAD"],
        // The demo page comes with a later release.
        Route::Demo | Route::NotFound => &[],
    }
}

/// The bearer token of a request, if it has one (RFC 6750 §2.1).
pub fn bearer(head: &Head) -> Option<String> {
    let field = head.field("authorization")?;
    let (scheme, token) = field.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

/// What every event stream says about itself, so that nothing on the way holds or changes it.
fn stream_headers() -> [(&'static str, String); 2] {
    [("Cache-Control", "no-store, no-transform".to_owned()), ("X-Accel-Buffering", "no".to_owned())]
}

fn without_length(head: &[u8]) -> Vec<u8> {
    without_line(head, b"content-length:")
}

fn without_chunking(head: &[u8]) -> Vec<u8> {
    without_line(head, b"transfer-encoding:")
}

/// async-h1 writes field names in lower case, a line each.
fn without_line(head: &[u8], name: &[u8]) -> Vec<u8> {
    head.split_inclusive(|byte| *byte == b'\n')
        .filter(|line| !line.starts_with(name))
        .flatten()
        .copied()
        .collect()
}

/// What one exchange has to keep to.
#[derive(Clone, Default)]
pub struct Exchange {
    pub http_10: bool,
    head_only: bool,
    close: bool,
    /// The allowed origin that asks.
    origin: Option<String>,
    /// The request's body, while it may have to be skipped.
    unread: Option<BodyDecoder>,
    /// The body cannot be skipped: leaving it unread costs the connection.
    close_unread: bool,
    /// The address it comes from has too many connections.
    crowded: bool,
}

impl Exchange {
    /// Prepares for the body not being read: a short one is skipped, so that the connection can go on.
    /// That is decided before the answer, which says whether it does.
    fn unread_body(&mut self, frame: &http1::Head) {
        match frame.body {
            BodyKind::None => {}
            BodyKind::Length(length) if length <= DISCARDED_BODY_MAX => {
                // Who waits for a 100 may or may not send the body now; nobody can tell which.
                self.close_unread = frame.expects_continue;
                self.unread = BodyDecoder::new(frame.body, DISCARDED_BODY_MAX as usize).ok();
            }
            _ => self.close_unread = true,
        }
    }

    /// The body will not be read.
    fn unread(mut self) -> Exchange {
        self.close |= self.close_unread;
        self
    }

    pub fn closes(&self) -> bool {
        self.close
    }

    fn add_headers(&self, headers: &mut Vec<(&'static str, String)>) {
        if self.close {
            headers.push(("Connection", "close".to_owned()));
        }
        if let Some(origin) = &self.origin {
            headers.push(("Access-Control-Allow-Origin", origin.clone()));
            let exposed = "Mcp-Session-Id, WWW-Authenticate";
            headers.push(("Access-Control-Expose-Headers", exposed.to_owned()));
        }
        headers.push(("Vary", "Origin".to_owned()));
    }
}
