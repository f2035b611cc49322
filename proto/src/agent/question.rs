//! A request that the bridge answers itself, from what the client offers.

use alloc::boxed::Box;
use alloc::string::{String, ToString};

use super::Call;
use crate::answer::{self, Response, ResultBuilder};
use crate::client_id::ClientId;
use crate::fault::Fault;
use crate::json;
use crate::mcp::{self, Era, Forwarded, LogLevel};
use crate::offer::{List, Offer};
use crate::session::Session;
use crate::token::Claims;

/// What is known about a client at the moment a request is answered.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Names the server while no register does.
    pub client_id: &'a ClientId,
    /// `None` while nobody is registered: then everything is advertised and every list is empty,
    /// because agents that came first ask only once.
    pub offer: Option<&'a Offer>,
}

impl View<'_> {
    /// The raw `Implementation` that stands for the server.
    pub fn server_info(&self) -> String {
        match self.offer.and_then(Offer::server) {
            Some(raw) => String::from(raw),
            None => {
                let mut text = String::from(r#"{"name":"#);
                json::quote(self.client_id.as_str(), &mut text);
                text.push_str(r#","version":"0"}"#);
                text
            }
        }
    }

    fn has(&self, list: List) -> bool {
        self.offer.is_none_or(|offer| offer.list(list).is_some())
    }

    fn has_resources(&self) -> bool {
        self.has(List::Resources) || self.has(List::ResourceTemplates)
    }

    fn has_subscriptions(&self) -> bool {
        self.offer.is_none_or(|offer| offer.subscribe())
    }

    fn has_completions(&self) -> bool {
        self.offer.is_none_or(Offer::completions)
    }

    /// Whether the capability that a forwarded method needs is advertised.
    pub fn serves(&self, method: Forwarded) -> bool {
        match method {
            Forwarded::CallTool => true,
            Forwarded::GetPrompt => self.has(List::Prompts),
            Forwarded::ReadResource => self.has_resources(),
            Forwarded::Complete => self.has_completions(),
        }
    }

    /// `ServerCapabilities` (the same shape in both eras).
    fn capabilities(&self) -> String {
        let mut text = String::from(r#"{"tools":{"listChanged":true},"logging":{}"#);
        if self.has(List::Prompts) {
            text.push_str(r#","prompts":{"listChanged":true}"#);
        }
        if self.has_resources() {
            text.push_str(r#","resources":{"listChanged":true"#);
            if self.has_subscriptions() {
                text.push_str(r#","subscribe":true"#);
            }
            text.push('}');
        }
        if self.has_completions() {
            text.push_str(r#","completions":{}"#);
        }
        text.push('}');
        text
    }
}

/// A request the bridge answers.
pub struct Question<'a> {
    pub(super) era: Era,
    /// The raw request ID.
    pub(super) id: &'a str,
    pub(super) kind: Kind,
    /// The session the request names, if any (2025 era).
    pub session: Option<Box<str>>,
}

pub(super) enum Kind {
    Discover,
    Initialize { session: Session, fresh: u64 },
    Ping,
    List { list: List, cursor: bool },
    SetLevel(LogLevel),
    Subscribe(Box<str>),
    Unsubscribe(Box<str>),
}

/// What a session asks the bridge to remember.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Memory {
    /// `logging/setLevel`: the least severe message it wants from now on.
    Level(LogLevel),
    /// `resources/subscribe`: the URI, decoded.
    Subscribe(Box<str>),
    /// `resources/unsubscribe`: the URI, decoded.
    Unsubscribe(Box<str>),
}

impl Question<'_> {
    /// What is to be remembered for the session, once the question is answered well.
    pub fn memory(&self) -> Option<Memory> {
        match &self.kind {
            Kind::SetLevel(level) => Some(Memory::Level(*level)),
            Kind::Subscribe(uri) => Some(Memory::Subscribe(uri.clone())),
            Kind::Unsubscribe(uri) => Some(Memory::Unsubscribe(uri.clone())),
            _ => None,
        }
    }

    /// The same answer as a fault, for a reason found elsewhere.
    pub fn refuse(&self, fault: &Fault) -> Response {
        Response::fault(self.era, Some(self.id), fault)
    }

    /// Answers from what the client offers, as far as the token may see it.
    pub fn answer(&self, view: View<'_>, claims: &Claims) -> Response {
        let info = view.server_info();
        let built = ResultBuilder::new(self.era, &info);
        let result = match &self.kind {
            Kind::Discover => self.discover(view, built),
            Kind::Initialize { session, fresh } => {
                let built = initialize(view, built, session, &info);
                let answer = answer::result(self.id, &built);
                return Response::json(200, answer).with("Mcp-Session-Id", session.mint(*fresh));
            }
            Kind::List { list, cursor } => match self.list(view, claims, *list, *cursor, built) {
                Ok(result) => result,
                Err(fault) => return self.refuse(&fault),
            },
            Kind::Subscribe(_) | Kind::Unsubscribe(_)
                if !(view.has_resources() && view.has_subscriptions()) =>
            {
                let method = match self.kind {
                    Kind::Subscribe(_) => "resources/subscribe",
                    _ => "resources/unsubscribe",
                };
                return self.refuse(&Fault::MethodNotFound(method.to_string()));
            }
            Kind::Ping | Kind::SetLevel(_) | Kind::Subscribe(_) | Kind::Unsubscribe(_) => {
                built.finish()
            }
        };
        Response::json(200, answer::result(self.id, &result))
    }

    fn discover(&self, view: View<'_>, built: ResultBuilder<'_>) -> String {
        let versions = alloc::format!(r#"["{}"]"#, mcp::MODERN);
        let mut built = built
            .raw("supportedVersions", &versions)
            .raw("capabilities", &view.capabilities())
            .cacheable(0);
        if let Some(instructions) = view.offer.and_then(Offer::instructions) {
            built = built.raw("instructions", instructions);
        }
        built.finish()
    }

    fn list(
        &self,
        view: View<'_>,
        claims: &Claims,
        list: List,
        cursor: bool,
        built: ResultBuilder<'_>,
    ) -> Result<String, Fault> {
        let (method, member) = names(list);
        let served = match list {
            List::Tools => true,
            List::Prompts => view.has(List::Prompts),
            List::Resources | List::ResourceTemplates => view.has_resources(),
        };
        if !served {
            return Err(Fault::MethodNotFound(method.to_string()));
        }
        if cursor {
            return Err(Fault::BadArgument(
                "`cursor` must be absent: every list is one page and no cursor was given out"
                    .into(),
            ));
        }
        let mut text = String::from("[");
        for (name, raw) in view.offer.and_then(|offer| offer.list(list)).into_iter().flatten() {
            if list == List::Tools && !claims.allows_tool(&name) {
                continue;
            }
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(raw);
        }
        text.push(']');
        let ttl_ms = view.offer.map_or(0, Offer::ttl_ms);
        Ok(built.raw(member, &text).cacheable(ttl_ms).finish())
    }
}

/// The method that fetches a list, and the member of its result.
fn names(list: List) -> (&'static str, &'static str) {
    match list {
        List::Tools => ("tools/list", "tools"),
        List::Prompts => ("prompts/list", "prompts"),
        List::Resources => ("resources/list", "resources"),
        List::ResourceTemplates => ("resources/templates/list", "resourceTemplates"),
    }
}

/// The list that a method fetches.
pub(super) fn list_of(method: &str) -> Option<List> {
    [List::Tools, List::Prompts, List::Resources, List::ResourceTemplates]
        .into_iter()
        .find(|list| names(*list).0 == method)
}

fn initialize(view: View<'_>, built: ResultBuilder<'_>, session: &Session, info: &str) -> String {
    let mut version = String::new();
    json::quote(&session.version, &mut version);
    let mut built = built
        .raw("protocolVersion", &version)
        .raw("capabilities", &view.capabilities())
        .raw("serverInfo", info);
    if let Some(instructions) = view.offer.and_then(Offer::instructions) {
        built = built.raw("instructions", instructions);
    }
    built.finish()
}

impl Call {
    /// Whether the client, as it is now, can be asked this (SPEC, Header validation: the steps that
    /// need to know the offer).
    pub fn judge(&self, view: View<'_>, body: &str) -> Result<(), Fault> {
        if !view.serves(self.method) {
            return Err(Fault::MethodNotFound(self.method.name().to_string()));
        }
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let (Forwarded::CallTool, Some(offer)) = (self.method, view.offer) else { return Ok(()) };
        let name = self.name.as_deref().unwrap_or_default();
        let Some(tool) = offer.tool(name) else {
            return Err(Fault::UnknownTool(name.to_string()));
        };
        let Some(headers) = &self.headers else { return Ok(()) };
        let params = tool.param_headers();
        if params.is_empty() {
            return Ok(());
        }
        headers.check(&params, self.arguments.map(|span| span.of(body)))
    }
}
