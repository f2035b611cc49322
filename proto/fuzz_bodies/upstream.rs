//! Client mode's conversation: what a local MCP server says, between what the bridge and the clock do.
//!
//! The judge of what goes to the bridge is the bridge's own end of the channel: whatever a server says, it
//! must not cost the connection.

use std::collections::{BTreeMap, BTreeSet};

use clientmcp_proto::channel::{CallId, Channel, Step, client};
use clientmcp_proto::json;
use clientmcp_proto::offer::{Limits, Offer};
use clientmcp_proto::time::{Instant, UnixSeconds};
use clientmcp_proto::upstream::{CallKey, Effect, RequestId, Settings, Upstream};

use super::{assert_json, judge};

const AGENTS: [&str; 2] = [
    r#"{"protocolVersion":"2025-11-25","clientInfo":{"name":"a","version":"1"},"capabilities":{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}}"#,
    r#"{"protocolVersion":"2026-07-28"}"#,
];

const METHODS: [(u8, &str); 4] = [
    (b't', "tools/call"),
    (b'p', "prompts/get"),
    (b'r', "resources/read"),
    (b'c', "completion/complete"),
];

/// Lines: `+` starts the server, `~` ends it, `@500` lets milliseconds pass, `!t{…}` calls with these
/// params (`$S` in them is the last `requestState`), `-3` cancels the third call, `x5` fails our request 5,
/// `#5 …` is a message on the stream of request 5, and anything else one of the server. A `p` in front
/// asks the server first whether it is of 2026.
pub fn upstream(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let mut play = Play::new(text.starts_with('p'));
    for line in text.strip_prefix('p').unwrap_or(text).lines() {
        play.line(line);
        play.carry();
        assert!(play.upstream.deadline().is_none_or(|due| due > play.now), "due, and nothing done");
    }
    if play.alive {
        play.upstream.gone("the end");
        play.carry();
    }
    play.now = Instant(play.now.0 + (1 << 40));
    play.upstream.tick(play.now);
    play.carry();
    assert!(play.open.is_empty(), "calls without an end: {:?}", play.open);
    assert_eq!(play.upstream.deadline(), None, "nothing is left to wait for");
}

struct Play {
    upstream: Upstream,
    now: Instant,
    alive: bool,
    /// How many calls there were.
    calls: u64,
    /// Those that have not ended.
    open: BTreeSet<u64>,
    /// What was sent to the server under which ID: the method.
    sent: BTreeMap<RequestId, String>,
    state: String,
    /// The bridge, with a register accepted.
    bridge: Channel<u64>,
}

impl Play {
    fn new(probe: bool) -> Play {
        let mut bridge = Channel::new(Instant(0), UnixSeconds(u64::MAX / 2));
        bridge.joined();
        Play {
            upstream: Upstream::new(Settings { probe, name: None, seed: [7; 32] }),
            now: Instant(1000),
            alive: false,
            calls: 0,
            open: BTreeSet::new(),
            sent: BTreeMap::new(),
            state: String::new(),
            bridge,
        }
    }

    fn line(&mut self, line: &str) {
        let rest = line.get(1..).unwrap_or_default();
        let number = rest.split(' ').next().and_then(|rest| rest.parse::<u64>().ok());
        match (line.as_bytes().first(), number) {
            (None, _) => {}
            (Some(b'+'), _) if !self.alive => {
                self.alive = true;
                self.upstream.started(self.now);
            }
            (Some(b'~'), _) if self.alive => self.end("it was ended"),
            (Some(b'@'), Some(ms)) => {
                self.now = Instant(self.now.0 + ms.min(1 << 30));
                self.upstream.tick(self.now);
            }
            (Some(b'!'), _) => self.call(rest),
            (Some(b'-'), Some(call)) => {
                if self.open.remove(&call) {
                    self.bridge.forget(CallId(call));
                }
                self.upstream.cancel(CallKey(call), "by the fuzzer");
            }
            (Some(b'x'), Some(id)) if self.alive => self.upstream.failed(RequestId(id), "no way"),
            (Some(b'#'), Some(id)) if self.alive => {
                let text = rest.split_once(' ').map_or("", |(_, text)| text);
                self.upstream.message(self.now, text, Some(RequestId(id)));
            }
            _ if self.alive => self.upstream.message(self.now, line, None),
            _ => {}
        }
    }

    fn end(&mut self, why: &str) {
        self.alive = false;
        self.upstream.gone(why);
    }

    /// The bridge lets through objects only.
    fn call(&mut self, rest: &str) {
        let method = METHODS.iter().find(|(letter, _)| rest.as_bytes().first() == Some(letter));
        let Some((_, method)) = method else { return };
        let params = rest[1..].replace("$S", &self.state);
        if judge(&params).is_none_or(|raw| !raw.starts_with('{')) {
            return;
        }
        self.calls += 1;
        self.open.insert(self.calls);
        self.bridge.called(CallId(self.calls), self.calls);
        let agent = AGENTS[usize::from(self.calls.is_multiple_of(3))];
        self.upstream.call(self.now, CallKey(self.calls), method, &params, agent);
    }

    fn carry(&mut self) {
        let mut restart = false;
        while let Some(effect) = self.upstream.next_effect() {
            match effect {
                Effect::Send { text, about } => self.sends(&text, about),
                Effect::Forget(id) => assert!(self.sent.contains_key(&id), "{id:?} was never sent"),
                Effect::Offer(register) => {
                    let text = register.text();
                    let limits = Limits { register_bytes_max: 1 << 20, definitions_max: 1 << 20 };
                    let (offer, _) = Offer::check(&text, &limits).expect("a register is accepted");
                    assert_eq!(offer.text(), text);
                }
                Effect::Answer { call, answer } => {
                    assert!(self.open.remove(&call.0), "{call:?} ends twice, or after its cancel");
                    let id = CallId(call.0).to_string();
                    let text = match &answer {
                        Ok(result) => client::result(&id, result),
                        Err(error) => client::raw_error(&id, error),
                    };
                    if let Ok(result) = &answer
                        && let Ok(members) = json::members(result)
                        && let Some((_, state)) = members.iter().find(|(k, _)| k == "requestState")
                        && let Some(state) = json::string(state)
                    {
                        self.state = state.into_owned();
                    }
                    match self.bridge.text(&text) {
                        Step::Reply { to, .. } => assert_eq!(to, call.0),
                        other => panic!("no answer to the bridge: {text}: {}", name(&other)),
                    }
                }
                Effect::Note { call, method, params } => {
                    assert!(self.open.contains(&call.0), "a note of a call that is over");
                    let id = CallId(call.0).to_string();
                    let text = client::notify(Some(&id), method, &params).expect("it is short");
                    match self.bridge.text(&text) {
                        Step::Note { to, .. } => assert_eq!(*to, call.0),
                        other => panic!("no note to the bridge: {text}: {}", name(&other)),
                    }
                }
                Effect::Announce { method, params } => {
                    let text = client::notify(None, method, &params).expect("it is short");
                    match self.bridge.text(&text) {
                        Step::Updated { .. } => {}
                        other => panic!("no notice to the bridge: {text}: {}", name(&other)),
                    }
                }
                Effect::Tell(words) => assert!(!words.is_empty()),
                Effect::Restart(why) => {
                    assert!(!why.is_empty());
                    restart = true;
                }
            }
        }
        if restart && self.alive {
            self.end("it was restarted");
            self.carry();
        }
    }

    fn sends(&mut self, text: &str, about: Option<RequestId>) {
        assert!(self.alive, "sent to a server that is gone: {text}");
        assert_json(text);
        assert!(!text.contains(['\n', '\r']), "more than a line: {text}");
        let members = json::members(text).expect("an object");
        let get = |name: &str| members.iter().find(|(key, _)| key == name).map(|(_, raw)| *raw);
        assert_eq!(get("jsonrpc"), Some("\"2.0\""));
        let method = get("method").map(|raw| json::string(raw).expect("a string").into_owned());
        match (about, method) {
            (Some(id), Some(method)) => {
                assert_eq!(get("id"), Some(&*id.0.to_string()));
                assert!(get("params").is_some_and(|raw| raw.starts_with('{')), "{text}");
                assert_eq!(self.sent.insert(id, method), None, "an ID twice");
            }
            (None, Some(_)) => assert_eq!(get("id"), None, "a notification has no ID: {text}"),
            (None, None) => assert!(get("result").is_some() != get("error").is_some(), "{text}"),
            (Some(_), None) => panic!("a request without a method: {text}"),
        }
    }
}

fn name(step: &Step<'_, u64>) -> String {
    match step {
        Step::Close(close) => format!("the bridge closes: {close}"),
        Step::Nothing => "the bridge ignores it".to_owned(),
        _ => "the bridge takes it for something else".to_owned(),
    }
}
