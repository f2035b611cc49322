//! What an agent's POST asks for: its era is decided, its form is checked, and it becomes one decision.
//!
//! `legacy` and `modern` turn their era's requests into the same few decisions; whatever needs to know
//! what the client offers is a `Question` or a `Call` that is put to an `Offer` later. Nothing here
//! knows connections, queues or time.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use crate::answer::{self, Response};
use crate::fault::Fault;
use crate::json;
use crate::jsonrpc::{self, Body, Message, MessageKind, Params};
use crate::limits::BATCH_MAX;
use crate::mcp::{self, Era, meta};
use crate::negotiate::Accept;
use crate::token::Claims;

mod call;
mod legacy;
mod modern;
mod question;

pub use call::{Call, Headers};
pub use legacy::listen as listen_by_get;
pub use question::{Memory, Question, View};

/// The header fields of a request, as any HTTP library can give them.
pub trait Head {
    /// The value of the field called `name` (given in lower case), trimmed; several are joined by ", ".
    fn field(&self, name: &str) -> Option<Cow<'_, str>>;
    /// Every field whose lower-case name begins with `prefix`: lower-case name and trimmed value.
    fn fields(&self, prefix: &str) -> Vec<(Box<str>, Box<str>)>;
}

/// Who asks, apart from what the request itself says.
pub struct Caller<'a> {
    /// What its verified token says.
    pub claims: &'a Claims,
    /// What kinds of answer it takes; a request for neither never comes here.
    pub accept: Accept,
    /// 64 random bits, used at most once: they tell one minted session ID from another.
    pub fresh: u64,
}

/// What is to be done about a POST.
pub enum Decision<'a> {
    /// Answer this.
    Respond(Response),
    /// Answer from what the client offers.
    Ask(Question<'a>),
    /// Forward this to the client.
    Call(Box<Call>),
    /// Open a notification stream.
    Listen(Listen),
    /// Answer 202, and cancel the one running call that fits, if exactly one does.
    Cancel(Cancel),
    /// Answer 202, and hand this to the call that waits for it, if any does.
    Deliver(Delivery<'a>),
    /// Treat each element as a request of its own and gather the answers.
    Batch(Vec<&'a str>),
}

/// A notification stream that an agent asked for, in either era.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Which lists it wants to hear about.
    pub wants: mcp::Changes,
    /// Resource URIs whose updates are wanted (2026 era; a 2025-era session subscribes by request).
    pub uris: Vec<String>,
    /// The raw request ID that becomes the `subscriptionId` (2026 era).
    pub subscription: Option<Box<str>>,
    /// The session a GET stream belongs to (2025 era).
    pub session: Option<Box<str>>,
}

/// Which running call a `notifications/cancelled` means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancel {
    /// The request ID, decoded so that two spellings of one ID are equal.
    pub request: Box<str>,
    /// 2025 era: the call must belong to the same session, which may be none.
    /// 2026 era: `None` of the outer option, any call of the client counts.
    pub session: Option<Option<Box<str>>>,
}

/// An agent's answer to a request that the bridge sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<'a> {
    /// The raw ID of that request.
    pub id: &'a str,
    /// The raw result, or the raw error.
    pub result: Result<&'a str, &'a str>,
}

/// Decides about a POSTed body (SPEC, Eras).
pub fn decide<'a>(head: &dyn Head, body: &'a str, caller: &Caller<'_>) -> Decision<'a> {
    let message = match jsonrpc::body(body, BATCH_MAX) {
        Ok(Body::One(message)) => message,
        Ok(Body::Batch(elements)) => return legacy::batch(head, elements),
        Err(fault) => return Decision::Respond(Response::fault(Era::Legacy, None, &fault)),
    };
    match message {
        Ok(message) => decide_message(head, body, message, caller),
        Err(refusal) => Decision::Respond(Response::fault(Era::Legacy, refusal.id, &refusal.fault)),
    }
}

/// Decides about one element of a batch. A 2026 claim or an `initialize` has no place in one.
pub fn decide_element<'a>(head: &dyn Head, element: &'a str, caller: &Caller<'_>) -> Decision<'a> {
    let refuse = |id: Option<&str>, fault: &Fault| {
        Decision::Respond(Response::json(200, answer::error(id, fault)))
    };
    let message = match jsonrpc::message(element) {
        Ok(message) => message,
        Err(refusal) => return refuse(refusal.id, &refusal.fault),
    };
    if let MessageKind::Call { method, params } = &message.kind {
        let claimed = params.meta(meta::PROTOCOL_VERSION).is_some();
        if claimed || method == "initialize" {
            let what = "a batch element must be a 2025-era request other than `initialize`";
            return refuse(message.id, &Fault::InvalidRequest(what.into()));
        }
    }
    legacy::decide(head, element, message, caller)
}

fn decide_message<'a>(
    head: &dyn Head,
    body: &'a str,
    message: Message<'a>,
    caller: &Caller<'_>,
) -> Decision<'a> {
    let header = head.field("mcp-protocol-version");
    let claim = match &message.kind {
        MessageKind::Call { params, .. } => params.meta(meta::PROTOCOL_VERSION),
        MessageKind::Response { .. } => None,
    };
    let modern_header = header.as_deref().is_some_and(|version| !mcp::LEGACY.contains(&version));
    if claim.is_none() && !modern_header {
        return legacy::decide(head, body, message, caller);
    }
    let Message { id, kind } = message;
    match (kind, id) {
        (MessageKind::Response { .. }, id) => {
            let fault = Fault::InvalidRequest(
                "a response has no place in 2026-07-28: requests to agents travel in results"
                    .into(),
            );
            Decision::Respond(Response::fault(Era::Modern, id, &fault))
        }
        (MessageKind::Call { method, params }, None) => notified(&method, &params, None),
        (MessageKind::Call { method, params }, Some(id)) => {
            modern::decide(head, body, modern::Request { id, method, params, claim }, caller)
        }
    }
}

/// A notification is only ever taken; the one that means something is a cancel.
fn notified<'a>(
    method: &str,
    params: &Params<'a>,
    session: Option<Option<Box<str>>>,
) -> Decision<'a> {
    let request = match method {
        "notifications/cancelled" => params.get("requestId").and_then(request_key),
        _ => None,
    };
    match request {
        Some(request) => Decision::Cancel(Cancel { request, session }),
        None => Decision::Respond(Response::empty(202)),
    }
}

/// A request ID in the one spelling that running calls are compared by.
pub fn request_key(raw: &str) -> Option<Box<str>> {
    match json::string(raw) {
        Some(text) => {
            let mut key = String::new();
            json::quote(&text, &mut key);
            Some(key.into())
        }
        None if raw.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => Some(raw.into()),
        None => None,
    }
}

#[cfg(test)]
mod tests;
