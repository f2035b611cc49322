//! The conversation of client mode with the MCP server that it offers, without the pipe or the socket.
//!
//! `Upstream` is an MCP client of either era: it opens the conversation, lists everything, follows
//! changes, and turns a bridge's calls into requests and back. What a 2025-era server asks in the middle
//! of a call becomes an `input_required` answer, and the call waits here for its repetition (`calls`).
//! It does not know how messages travel: the driver feeds what came and carries out what
//! [`Upstream::next`] says. `lists` gathers what is offered, `wire` writes the texts.

mod calls;
mod lists;
mod wire;

#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;

use crate::channel::client::{Register, error_object};
use crate::json;
use crate::mcp::{self, Era};
use crate::time::Instant;

use calls::{Running, Waiting};
use lists::Lists;

/// How long a server may think about `server/discover` before it is taken for one of 2025, which does
/// not answer what it does not know. A late answer still counts.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// How long `initialize`, and then all lists together, may take. After it the server is started again.
/// 60 s: a package runner may have to download first.
pub const OPENING_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a call waits for a server that is being started, before it is answered with an error.
pub const START_WAIT: Duration = Duration::from_secs(10);

/// How long a call that asked something is kept for its repetition.
pub const SUSPENDED_TIMEOUT: Duration = Duration::from_secs(300);

/// Most calls that wait for a server to start, and most that wait for a repetition, the oldest of which
/// then ends.
pub const WAITING_MAX: usize = 256;

/// Most resources that are subscribed at the server, so that its updates reach whoever subscribed them.
pub const SUBSCRIBED_MAX: usize = 256;

/// A bridge's call, as the driver names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallKey(pub u64);

/// One of our requests to the server. Never used twice, also not after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The end of a call: a raw result, or a raw JSON-RPC error object.
pub type Answer = Result<String, String>;

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send this message to the server. `about` is set for a request, whose answer has that ID.
    Send { text: String, about: Option<RequestId> },
    /// No answer to this request is of use any more; only for transports where one costs something.
    Forget(RequestId),
    /// Offer this to the bridge from now on.
    Offer(Register),
    /// This call is over.
    Answer { call: CallKey, answer: Answer },
    /// A notification that belongs to a running call.
    Note { call: CallKey, method: &'static str, params: String },
    /// A notification that belongs to no call.
    Announce { method: &'static str, params: String },
    /// For the log: something that whoever runs the server should know.
    Tell(String),
    /// End the server, say `gone`, and start it again; the words say why.
    Restart(String),
}

/// How to begin.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Ask a server first whether it is of 2026.
    pub probe: bool,
    /// The name to offer the server under, instead of its own.
    pub name: Option<String>,
    /// 32 random bytes: `requestState` is derived from them and must not be guessed.
    pub seed: [u8; 32],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There is no server to talk to.
    Off,
    /// `server/discover` is on its way.
    Probing,
    /// `initialize` is on its way.
    Initializing,
    /// The first lists are on their way.
    Listing,
    Ready,
}

/// What one of our requests is for.
#[derive(Debug)]
enum Request {
    Discover,
    Initialize,
    List(lists::Kind),
    /// One whose answer changes nothing: its name, for the log.
    Quiet(&'static str),
    /// The subscription that follows changes of a 2026-era server.
    Listen,
    Call(Running),
}

/// The conversation with one server, through all its restarts.
pub struct Upstream {
    settings: Settings,
    phase: Phase,
    /// When the phase ends by itself.
    phase_ends: Option<Instant>,
    era: Era,
    next_id: u64,
    requests: BTreeMap<RequestId, Request>,
    lists: Lists,
    /// What the bridge was given last.
    offered: Option<Register>,
    /// Calls that came while there was no server.
    waiting: VecDeque<Waiting>,
    /// Numbers the states of suspended calls.
    next_state: u64,
    effects: VecDeque<Effect>,
}

impl Upstream {
    pub fn new(settings: Settings) -> Upstream {
        Upstream {
            settings,
            phase: Phase::Off,
            phase_ends: None,
            era: Era::Legacy,
            next_id: 1,
            requests: BTreeMap::new(),
            lists: Lists::default(),
            offered: None,
            waiting: VecDeque::new(),
            next_state: 0,
            effects: VecDeque::new(),
        }
    }

    /// What to do next; to be called until it returns `None`, after every other method.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Whether the server has been listed and takes calls.
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// The server can be talked to.
    pub fn started(&mut self, now: Instant) {
        self.lists = Lists::default();
        if self.settings.probe {
            // MCP 2026-07-28, stdio, Backward Compatibility: probe before anything else.
            self.enter(Phase::Probing, now + PROBE_TIMEOUT);
            let params = wire::modern_params("{}", wire::Origin::Ours);
            self.request("server/discover", &params, Request::Discover);
        } else {
            self.initialize(now);
        }
    }

    /// The server is gone; what it was running ends with these words.
    pub fn gone(&mut self, why: &str) {
        if self.phase == Phase::Probing {
            // Some end when they are asked what they do not know; the next one is not asked.
            self.settings.probe = false;
        }
        self.phase = Phase::Off;
        self.phase_ends = None;
        let words = format!(
            "The local MCP server ended while it was running this call ({why}); the call may have run."
        );
        for (_, request) in core::mem::take(&mut self.requests) {
            if let Request::Call(running) = request {
                self.end_with_trouble(running, &words);
            }
        }
    }

    /// One of our requests will get no answer, because it could not be delivered; only for transports
    /// on which that can be.
    pub fn failed(&mut self, id: RequestId, why: &str) {
        match self.requests.remove(&id) {
            None => {}
            Some(Request::Call(running)) => {
                let words = format!("The local MCP server did not answer: {why}");
                self.end_with_trouble(running, &words);
            }
            Some(Request::Quiet(what)) => self.tell(format!("{what} got no answer: {why}")),
            Some(Request::Discover | Request::Initialize | Request::List(_) | Request::Listen) => {
                self.effects.push_back(Effect::Restart(why.to_string()));
            }
        }
    }

    /// Takes one message of the server. `about` is the request on whose own stream it came, on
    /// transports that have such streams.
    pub fn message(&mut self, now: Instant, text: &str, about: Option<RequestId>) {
        let Ok(members) = json::members(text) else {
            return self.tell("the server said something that is no JSON object".to_string());
        };
        let get = |name: &str| members.iter().find(|(key, _)| key == name).map(|(_, raw)| *raw);
        let method = get("method").and_then(json::string);
        match (get("id").filter(|id| *id != "null"), method) {
            (Some(id), Some(method)) => {
                self.asked(id, &method, get("params").unwrap_or("{}"), about, now);
            }
            (None, Some(method)) => self.told(&method, get("params").unwrap_or("{}"), about),
            (Some(id), None) => {
                let answer = match (get("result"), get("error")) {
                    (Some(result), None) => Ok(result),
                    (_, Some(error)) => Err(error),
                    (None, None) => Err(r#"{"code":-32603,"message":"an answer without result"}"#),
                };
                let request = id.parse().ok().map(RequestId);
                // Unknown: it was cancelled, and the answer crossed with that.
                if let Some((id, request)) = request.and_then(|id| self.requests.remove_entry(&id))
                {
                    self.answered(now, id, request, answer);
                }
            }
            (None, None) => {
                let error = get("error").unwrap_or("a message without method and ID");
                self.tell(format!("the server said: {}", json::cut(error)));
            }
        }
    }

    /// When [`tick`](Upstream::tick) has something to do next, if ever.
    pub fn deadline(&self) -> Option<Instant> {
        let suspended = self.requests.values().filter_map(|request| match request {
            Request::Call(running) => running.suspended_until(),
            _ => None,
        });
        let waiting = self.waiting.iter().map(|waiting| waiting.until);
        suspended.chain(waiting).chain(self.phase_ends).min()
    }

    /// Looks at the clock. To be called at the deadline, or at any time.
    pub fn tick(&mut self, now: Instant) {
        if self.phase_ends.is_some_and(|ends| now >= ends) {
            self.phase_ends = None;
            match self.phase {
                Phase::Probing => self.initialize(now),
                Phase::Initializing | Phase::Listing => {
                    let (what, seconds) = match self.phase {
                        Phase::Initializing => ("initialize", OPENING_TIMEOUT.as_secs()),
                        _ => ("to be listed", OPENING_TIMEOUT.as_secs()),
                    };
                    let why = format!("the server did not answer {what} within {seconds} s");
                    self.effects.push_back(Effect::Restart(why));
                }
                Phase::Off | Phase::Ready => {}
            }
        }
        self.expire(now);
    }

    fn enter(&mut self, phase: Phase, ends: Instant) {
        self.phase = phase;
        self.phase_ends = Some(ends);
    }

    fn initialize(&mut self, now: Instant) {
        self.era = Era::Legacy;
        self.enter(Phase::Initializing, now + OPENING_TIMEOUT);
        self.request("initialize", wire::INITIALIZE, Request::Initialize);
    }

    /// Sends a request and remembers what its answer is for.
    fn request(&mut self, method: &str, params: &str, request: Request) -> RequestId {
        let id = RequestId(self.next_id);
        self.next_id += 1;
        let text = wire::request(id, method, params);
        self.requests.insert(id, request);
        self.effects.push_back(Effect::Send { text, about: Some(id) });
        id
    }

    fn send(&mut self, text: String) {
        self.effects.push_back(Effect::Send { text, about: None });
    }

    fn tell(&mut self, words: String) {
        self.effects.push_back(Effect::Tell(words));
    }

    /// One of our requests was answered.
    fn answered(
        &mut self,
        now: Instant,
        id: RequestId,
        request: Request,
        answer: Result<&str, &str>,
    ) {
        match request {
            Request::Discover => self.discovered(now, answer),
            Request::Initialize => self.initialized(now, answer),
            Request::List(kind) => self.listed(kind, answer),
            Request::Quiet(what) => {
                if let Err(error) = answer {
                    self.tell(format!("{what} was refused: {}", json::cut(error)));
                }
            }
            Request::Listen => {
                if let Err(error) = answer {
                    self.tell(format!("changes cannot be followed: {}", json::cut(error)));
                }
            }
            Request::Call(running) => self.call_answered(id, running, answer),
        }
    }

    /// MCP 2026-07-28, stdio, Backward Compatibility: its three outcomes.
    fn discovered(&mut self, now: Instant, answer: Result<&str, &str>) {
        if !matches!(self.phase, Phase::Probing | Phase::Initializing) {
            return; // too late: it answered `initialize` too
        }
        let versions = match answer {
            Ok(result) => wire::member(result, "supportedVersions"),
            Err(error) => {
                let code: Option<i64> =
                    wire::member(error, "code").and_then(|raw| raw.parse().ok());
                match code {
                    // Codes that only 2026 has.
                    Some(-32022..=-32020) => {
                        let data = wire::member(error, "data").unwrap_or("{}");
                        Some(wire::member(data, "supported").unwrap_or("[]"))
                    }
                    _ if self.phase == Phase::Probing => return self.initialize(now),
                    _ => return,
                }
            }
        };
        let versions = versions.unwrap_or("[]");
        let known =
            wire::items(versions).any(|one| json::string(one).as_deref() == Some(mcp::MODERN));
        let (true, Ok(result)) = (known, answer) else {
            let why = format!("the server speaks {} and not {}", json::cut(versions), mcp::MODERN);
            return self.effects.push_back(Effect::Restart(why));
        };
        self.era = Era::Modern;
        let meta = wire::member(result, "_meta").unwrap_or("{}");
        self.lists.opened(result, wire::member(meta, mcp::meta::SERVER_INFO));
        self.list_all(now);
    }

    fn initialized(&mut self, now: Instant, answer: Result<&str, &str>) {
        if self.phase != Phase::Initializing {
            return; // it has answered `server/discover` meanwhile
        }
        let version = |result| wire::member(result, "protocolVersion").and_then(json::string);
        match answer {
            Ok(result) if version(result).is_some_and(|v| mcp::LEGACY.contains(&v.as_ref())) => {
                self.lists.opened(result, wire::member(result, "serverInfo"));
                self.send(wire::notification("notifications/initialized", "{}"));
                if self.lists.capabilities.logging {
                    // The bridge knows which agent wants which level, and leaves out the rest.
                    let level = r#"{"level":"debug"}"#;
                    self.request("logging/setLevel", level, Request::Quiet("logging/setLevel"));
                }
                self.list_all(now);
            }
            Ok(result) => {
                let version = wire::member(result, "protocolVersion").unwrap_or("no version");
                let why = format!("the server answers initialize with {}", json::cut(version));
                self.effects.push_back(Effect::Restart(why));
            }
            Err(error) => {
                let why = format!("the server refuses initialize: {}", json::cut(error));
                self.effects.push_back(Effect::Restart(why));
            }
        }
    }

    /// The server asks something.
    fn asked(
        &mut self,
        id: &str,
        method: &str,
        params: &str,
        about: Option<RequestId>,
        now: Instant,
    ) {
        match method {
            "ping" => self.send(wire::response(id, Ok("{}"))),
            "elicitation/create" | "sampling/createMessage" | "roots/list" => {
                if let Err(words) = self.question(id, method, params, about, now) {
                    self.send(wire::response(id, Err(&error_object(-32601, &words))));
                }
            }
            _ => {
                let words = format!("Unknown method: {}", json::cut(method));
                self.send(wire::response(id, Err(&error_object(-32601, &words))));
            }
        }
    }

    /// The server tells something.
    fn told(&mut self, method: &str, params: &str, about: Option<RequestId>) {
        match method {
            "notifications/progress" => self.progressed(params),
            "notifications/message" => self.logged(params, about),
            "notifications/resources/updated" => {
                let uri = wire::member(params, "uri");
                if let Some(uri) = uri.filter(|uri| json::string(uri).is_some()) {
                    let params = format!(r#"{{"uri":{uri}}}"#);
                    let method = "notifications/resources/updated";
                    self.effects.push_back(Effect::Announce { method, params });
                }
            }
            "notifications/cancelled" => self.question_withdrawn(params),
            _ => self.list_changed(method),
        }
    }
}
