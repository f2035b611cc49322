//! The MCP endpoint: what is checked before a body is read, and what becomes of it.
//!
//! Asks `proto::agent` what a request means and carries that out: an answer from what the client offers,
//! a forwarded call, a notification stream, a batch. Writes through `response`.

use std::rc::Rc;

use clientmcp_proto::agent::{self, Call, Caller, Decision, Delivery, Question, View};
use clientmcp_proto::answer::{self, Response};
use clientmcp_proto::fault::{Fault, Trouble};
use clientmcp_proto::http1::{BodyDecoder, BodyKind};
use clientmcp_proto::json;
use clientmcp_proto::limits;
use clientmcp_proto::mcp::Era;
use clientmcp_proto::negotiate::{Accept, is_json};
use clientmcp_proto::route::Route;
use clientmcp_proto::sse;
use clientmcp_proto::time::Instant;
use clientmcp_proto::token::Claims;

use super::response::{Exchange, headers_of};
use super::{Connection, Next, allowed_methods};
use crate::call::Answering;
use crate::head::Head;
use crate::log;
use crate::metrics::Refusal;
use crate::registry::{Request, Seen};
use crate::socket::Input;
use crate::stream::Slot;
use crate::ticket::Ticket;

/// Room that is made for a body at first, in bytes, however long it says it is; then it doubles.
const BODY_STEP: usize = 128 << 10;

impl Connection {
    pub(super) async fn mcp(
        &mut self,
        mut exchange: Exchange,
        head: Head,
        id: Option<String>,
    ) -> Next {
        if head.method() == "OPTIONS" {
            let response = self.preflight(&exchange, &head);
            return self.respond(&exchange.unread(), &response).await;
        }
        let claims = match self.admit(&exchange, &head, id.as_deref()) {
            Ok(claims) => claims,
            Err(fault) => return self.refuse(exchange, &fault).await,
        };
        self.stranger_until = Instant(u64::MAX);
        let accept = head.accept();
        match head.method() {
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
                    let client_id = claims.client_id.clone();
                    let session = Box::from(session);
                    self.shared().tell(Request::Forget { client_id, session });
                }
                return self.respond(&exchange.unread(), &Response::empty(204)).await;
            }
            _ => unreachable!("allowed_methods() names the four handled here"),
        }
        let content_type = head.field("content-type");
        if !is_json(content_type) {
            let came = content_type.unwrap_or("none").to_owned();
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
        let methods = allowed_methods(&Route::Mcp(None)).join(", ");
        let response = Response::empty(204).with("Allow", methods.as_str());
        if exchange.origin.is_none() {
            return response;
        }
        let response = response
            .with("Access-Control-Allow-Methods", methods)
            .with("Access-Control-Max-Age", "600");
        // `Mcp-Param-*` are open-ended, so whatever is asked for is allowed by name.
        match head.field("access-control-request-headers") {
            Some(asked) => response.with("Access-Control-Allow-Headers", asked),
            None => response,
        }
    }

    /// Everything that is checked before the body is looked at.
    fn admit(
        &self,
        exchange: &Exchange,
        head: &Head,
        id: Option<&str>,
    ) -> Result<Rc<Claims>, Fault> {
        let shared = self.shared();
        if head.field("origin").is_some() && exchange.origin.is_none() {
            shared.metrics.refusal(Refusal::Origin);
            return Err(Fault::ForbiddenOrigin);
        }
        if let Some(crowd) = exchange.crowded {
            return Err(crowd.fault());
        }
        // A POST may belong to a call that still runs; it is looked at first.
        if shared.draining.get() && head.method() != "POST" {
            shared.metrics.refusal(Refusal::Stopping);
            return Err(Fault::Draining);
        }
        let Some(token) = bearer(head) else {
            shared.metrics.refusal(Refusal::Token);
            return Err(Fault::Unauthorized(None));
        };
        let claims = shared.admit(token, head.admitted()).map_err(|error| {
            shared.metrics.refusal(Refusal::Token);
            log::limited(
                "agent-token",
                log::Level::Warn,
                "agent's token refused",
                &[("peer", &self.peer), ("reason", &error)],
            );
            Fault::Unauthorized(Some(error))
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
        let mut decoder =
            match BodyDecoder::new(head.frame.body, self.shared().config.body_bytes_max) {
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
            let fed = match head.frame.body {
                BodyKind::Length(length) => {
                    Ok(take_known(&mut self.buffer, &mut body, length as usize))
                }
                _ => decoder.feed(&self.buffer, &mut body).map(|consumed| {
                    self.buffer.drain(..consumed);
                    decoder.done()
                }),
            };
            match fed {
                Ok(true) => break,
                Ok(false) => {}
                Err(refusal) => {
                    return Err(self.refuse_body(exchange, refusal.status, &refusal.message).await);
                }
            }
            let deadline = self.shared().now() + self.shared().config.body_timeout;
            let input = match head.frame.body {
                BodyKind::Length(_) => self.socket.fill(&mut body, deadline).await,
                _ => {
                    // Four million chunks of a byte each are work, and may come without a pause.
                    smol::future::yield_now().await;
                    self.socket.read(&mut self.buffer, deadline).await
                }
            };
            match input {
                Input::Some(_) => {}
                Input::End => return Err(Next::Drop),
                Input::Late => {
                    self.shared().metrics.refusal(Refusal::Slow);
                    let what = "a request body did not arrive in time";
                    log::bound("--body-timeout", what, &[("peer", &self.peer)]);
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
            let max = self.shared().config.body_bytes_max;
            log::bound("--max-body-bytes", "a request body is too large", &[("peer", &self.peer)]);
            let fault = Fault::TooLarge(max);
            return self.respond(exchange, &Response::fault(Era::Legacy, None, &fault)).await;
        }
        self.shared().metrics.refusal(Refusal::Http);
        self.respond(exchange, &Response::text(status, what)).await
    }

    async fn post(
        &mut self,
        exchange: Exchange,
        head: Head,
        claims: Rc<Claims>,
        accept: Accept,
        body: Rc<String>,
    ) -> Next {
        let caller = Caller { claims: &claims, accept, fresh: self.shared().random_u64() };
        let decision = agent::decide(&head, &body, &caller);
        let of_old = matches!(decision, Decision::Cancel(_) | Decision::Deliver(_));
        if self.shared().draining.get() && !of_old {
            self.shared().metrics.refusal(Refusal::Stopping);
            let response = Response::fault(Era::Legacy, None, &Fault::Draining);
            return self.respond(&exchange, &response).await;
        }
        match decision {
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
                self.shared().tell(Request::Cancel(claims.client_id.clone(), cancel));
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
            let caller = Caller { claims, accept, fresh: self.shared().random_u64() };
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
        claims: Rc<Claims>,
        slot: Rc<Slot>,
        era: Era,
        id: Option<&str>,
    ) -> Next {
        let shared = self.shared().clone();
        let (reply, answer) = flume::bounded(1);
        let client_id = claims.client_id.clone();
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

    pub(super) async fn refuse(&mut self, exchange: Exchange, fault: &Fault) -> Next {
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
        self.respond_event(exchange, headers_of(response), &[&response.body]).await
    }
}

/// Takes a body of known length out of what was received, and makes room for more of it. `true` once
/// the body is complete.
fn take_known(received: &mut Vec<u8>, body: &mut Vec<u8>, length: usize) -> bool {
    let count = received.len().min(length.saturating_sub(body.len()));
    if body.len() + count >= body.capacity() && body.len() < length {
        body.reserve_exact((length - body.len()).min(body.len().max(BODY_STEP)));
    }
    body.extend(received.drain(..count));
    // There may have been room for more than was asked for.
    received.splice(..0, body.drain(length.min(body.len())..));
    body.len() == length
}

/// The bearer token of a request, if it has one (RFC 6750 §2.1).
pub fn bearer(head: &Head) -> Option<&str> {
    let field = head.field("authorization")?;
    let (scheme, token) = field.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
