//! What the server offers: its capabilities, its lists page by page, and following their changes.
//!
//! Knows which lists a server has and when all of them are in. Definitions are kept as the raw JSON
//! that came; what one must be is for the bridge to say.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::wire::{self, Object, Origin};
use super::{Effect, OPENING_TIMEOUT, Phase, Request, SUBSCRIBED_MAX, Upstream};
use crate::channel::client::Register;
use crate::json;
use crate::mcp::Era;
use crate::time::Instant;

/// Most pages of one list that are read: a server that never ends a list is offered without the rest.
const PAGES_MAX: u32 = 1000;

/// One of the four lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Tools, Kind::Prompts, Kind::Resources, Kind::Templates];

    fn method(self) -> &'static str {
        match self {
            Kind::Tools => "tools/list",
            Kind::Prompts => "prompts/list",
            Kind::Resources => "resources/list",
            Kind::Templates => "resources/templates/list",
        }
    }

    fn member(self) -> &'static str {
        match self {
            Kind::Tools => "tools",
            Kind::Prompts => "prompts",
            Kind::Resources => "resources",
            Kind::Templates => "resourceTemplates",
        }
    }
}

/// What a server has said it can do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Capabilities {
    pub tools: bool,
    pub prompts: bool,
    pub resources: bool,
    pub subscribe: bool,
    pub completions: bool,
    pub logging: bool,
}

/// Everything known about the server that is there now.
#[derive(Debug, Default)]
pub struct Lists {
    pub capabilities: Capabilities,
    server: Option<String>,
    instructions: Option<String>,
    /// In the order of [`Kind::ALL`].
    lists: [List; 4],
    /// Resources that were subscribed.
    subscribed: BTreeSet<String>,
    /// The subscription of a 2026-era server.
    listening: Option<super::RequestId>,
}

#[derive(Debug, Default)]
struct List {
    /// All of it, once read to its end.
    whole: Option<Vec<String>>,
    /// What has come of the reading that is going on.
    coming: Vec<String>,
    pages: u32,
    /// The cursor that was sent last, to notice one that repeats.
    cursor: String,
    reading: bool,
    /// It has changed while it was being read.
    stale: bool,
}

impl Lists {
    /// Reads the answer that opened the conversation.
    pub fn opened(&mut self, result: &str, server: Option<&str>) {
        let capabilities = wire::member(result, "capabilities").unwrap_or("{}");
        let has = |name: &str| wire::member(capabilities, name);
        self.capabilities = Capabilities {
            tools: has("tools").is_some(),
            prompts: has("prompts").is_some(),
            resources: has("resources").is_some(),
            subscribe: has("resources")
                .is_some_and(|resources| wire::member(resources, "subscribe") == Some("true")),
            completions: has("completions").is_some(),
            logging: has("logging").is_some(),
        };
        self.server = server.map(str::to_string);
        let instructions = wire::member(result, "instructions").and_then(json::string);
        self.instructions = instructions.map(|words| words.into_owned());
    }

    fn has(&self, kind: Kind) -> bool {
        match kind {
            Kind::Tools => self.capabilities.tools,
            Kind::Prompts => self.capabilities.prompts,
            Kind::Resources | Kind::Templates => self.capabilities.resources,
        }
    }

    fn list(&mut self, kind: Kind) -> &mut List {
        &mut self.lists[kind as usize]
    }

    fn whole(&self, kind: Kind) -> Option<Vec<String>> {
        if self.has(kind) { self.lists[kind as usize].whole.clone() } else { None }
    }

    fn all_read(&self) -> bool {
        Kind::ALL
            .into_iter()
            .all(|kind| !self.has(kind) || self.lists[kind as usize].whole.is_some())
    }

    /// The URIs of the listed resources, as they stand in their definitions.
    fn uris(&self) -> Vec<String> {
        let resources = self.lists[Kind::Resources as usize].whole.as_deref().unwrap_or_default();
        let uri = |resource: &String| wire::member(resource, "uri").map(str::to_string);
        resources.iter().filter_map(uri).take(SUBSCRIBED_MAX).collect()
    }

    fn register(&self, name: Option<&str>) -> Register {
        Register {
            server: server(self.server.as_deref(), name),
            instructions: self.instructions.clone(),
            tools: self.whole(Kind::Tools),
            prompts: self.whole(Kind::Prompts),
            resources: self.whole(Kind::Resources),
            resource_templates: self.whole(Kind::Templates),
            completions: self.capabilities.completions,
            subscribe: self.capabilities.subscribe,
        }
    }
}

/// Who the server says it is, under another name if that is wanted. One without name and version would
/// cost the whole register.
fn server(own: Option<&str>, name: Option<&str>) -> Option<String> {
    let quoted = |name: &str| {
        let mut text = String::new();
        json::quote(name, &mut text);
        text
    };
    let own = own.unwrap_or("{}");
    let text = |name| wire::member(own, name).filter(|raw| json::string(raw).is_some());
    let name = name.map(quoted).or_else(|| text("name").map(str::to_string))?;
    let version = text("version").unwrap_or(r#""0""#);
    let mut object = Object::new();
    object.push("name", &name);
    object.push("version", version);
    for (member, raw) in json::members(own).unwrap_or_default() {
        if member != "name" && member != "version" {
            object.push(&member, raw);
        }
    }
    Some(object.end())
}

impl Upstream {
    /// Asks for every list that the server has.
    pub(super) fn list_all(&mut self, now: Instant) {
        self.enter(Phase::Listing, now + OPENING_TIMEOUT);
        for kind in Kind::ALL {
            if self.lists.has(kind) {
                self.read_list(kind);
            }
        }
        self.if_all_read();
    }

    fn read_list(&mut self, kind: Kind) {
        let list = self.lists.list(kind);
        if list.reading {
            list.stale = true;
            return;
        }
        *list = List { whole: list.whole.take(), reading: true, ..List::default() };
        self.read_page(kind, None);
    }

    fn read_page(&mut self, kind: Kind, cursor: Option<&str>) {
        let mut params = Object::new();
        if let Some(cursor) = cursor {
            params.push("cursor", cursor);
        }
        let params = self.own_params(&params.end());
        self.request(kind.method(), &params, Request::List(kind));
    }

    fn own_params(&self, params: &str) -> String {
        match self.era {
            Era::Legacy => params.to_string(),
            Era::Modern => wire::modern_params(params, Origin::Ours),
        }
    }

    pub(super) fn listed(&mut self, kind: Kind, answer: Result<&str, &str>) {
        let list = self.lists.list(kind);
        let next = match answer {
            Ok(result) => {
                let page = wire::member(result, kind.member()).unwrap_or("[]");
                list.coming.extend(wire::items(page).map(str::to_string));
                list.pages += 1;
                let next = wire::member(result, "nextCursor");
                next.filter(|cursor| json::string(cursor).is_some() && *cursor != list.cursor)
            }
            // A server that says it has tools and has no method for them has no tools.
            Err(error) => {
                let words = format!("{} was refused: {}", kind.method(), json::cut(error));
                self.effects.push_back(Effect::Tell(words));
                None
            }
        };
        let list = self.lists.list(kind);
        match next {
            Some(cursor) if list.pages < PAGES_MAX => {
                list.cursor = cursor.to_string();
                return self.read_page(kind, Some(cursor));
            }
            Some(_) => {
                let words = format!("{} does not end; the rest is left out", kind.method());
                self.effects.push_back(Effect::Tell(words));
            }
            None => {}
        }
        let list = self.lists.list(kind);
        list.whole = Some(core::mem::take(&mut list.coming));
        list.reading = false;
        if core::mem::take(&mut list.stale) {
            return self.read_list(kind);
        }
        if kind == Kind::Resources && self.phase == Phase::Ready {
            self.follow();
        }
        self.if_all_read();
    }

    /// Offers what has been read, once nothing is missing.
    fn if_all_read(&mut self) {
        if !self.lists.all_read() {
            return;
        }
        let register = self.lists.register(self.settings.name.as_deref());
        if self.offered.as_ref() != Some(&register) {
            self.offered = Some(register.clone());
            self.effects.push_back(Effect::Offer(register));
        }
        if self.phase == Phase::Listing {
            self.phase = Phase::Ready;
            self.phase_ends = None;
            self.follow();
            self.start_waiting();
        }
    }

    /// Asks the server to tell of changes: in 2025 each resource by itself, in 2026 all in one.
    fn follow(&mut self) {
        let uris = if self.lists.capabilities.subscribe { self.lists.uris() } else { Vec::new() };
        match self.era {
            Era::Legacy => {
                for uri in uris {
                    if self.lists.subscribed.len() < SUBSCRIBED_MAX
                        && self.lists.subscribed.insert(uri.clone())
                    {
                        let params = format!(r#"{{"uri":{uri}}}"#);
                        let quiet = Request::Quiet("resources/subscribe");
                        self.request("resources/subscribe", &params, quiet);
                    }
                }
            }
            Era::Modern => {
                let mut filter = Object::new();
                let capabilities = self.lists.capabilities;
                for (set, name) in [
                    (capabilities.tools, "toolsListChanged"),
                    (capabilities.prompts, "promptsListChanged"),
                    (capabilities.resources, "resourcesListChanged"),
                ] {
                    if set {
                        filter.push(name, "true");
                    }
                }
                if !uris.is_empty() {
                    filter.push("resourceSubscriptions", &format!("[{}]", uris.join(",")));
                }
                let filter = filter.end();
                if filter == "{}" {
                    return;
                }
                let params = self.own_params(&format!(r#"{{"notifications":{filter}}}"#));
                let new = self.request("subscriptions/listen", &params, Request::Listen);
                // The new one first, so that nothing falls between them.
                if let Some(old) = self.lists.listening.replace(new) {
                    self.cancel_request(old, "replaced");
                }
            }
        }
    }

    pub(super) fn list_changed(&mut self, method: &str) {
        let kinds: &[Kind] = match method {
            "notifications/tools/list_changed" => &[Kind::Tools],
            "notifications/prompts/list_changed" => &[Kind::Prompts],
            "notifications/resources/list_changed" => &[Kind::Resources, Kind::Templates],
            _ => return,
        };
        for kind in kinds {
            if matches!(self.phase, Phase::Listing | Phase::Ready) && self.lists.has(*kind) {
                self.read_list(*kind);
            }
        }
    }
}
