//! What is made of messages: a client's, a register, an agent's request, questions and notifications.

use std::borrow::Cow;
use std::collections::BTreeSet;

use clientmcp_proto::agent::{self, Caller, Decision, Head, View, decide, decide_element};
use clientmcp_proto::answer::{self, Piece, Response};
use clientmcp_proto::channel::{self, CallId, Channel, Outcome, Step, Tick, client};
use clientmcp_proto::client_id::ClientId;
use clientmcp_proto::fault::{Close, Fault, Trouble};
use clientmcp_proto::json;
use clientmcp_proto::limits::{CLOSE_REASON_BYTES_MAX, REGISTER_TIMEOUT, SESSION_ID_BYTES_MAX};
use clientmcp_proto::mcp::{Era, Forwarded, LogLevel};
use clientmcp_proto::mrtr::{self, Round};
use clientmcp_proto::negotiate::{Accept, Origins, is_json};
use clientmcp_proto::notes::{self, Gate, Note, Wanted};
use clientmcp_proto::offer::{Limits, List, Offer};
use clientmcp_proto::reply::{self, Message, Shape};
use clientmcp_proto::route::Route;
use clientmcp_proto::session::Session;
use clientmcp_proto::time::{Instant, UnixSeconds};
use clientmcp_proto::token::Claims;

use super::{assert_json, judge};

const INFO: &str = r#"{"name":"kitchen","version":"0"}"#;
const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];
const FORWARDED: [Forwarded; 4] =
    [Forwarded::CallTool, Forwarded::GetPrompt, Forwarded::ReadResource, Forwarded::Complete];

fn kitchen() -> ClientId {
    ClientId::parse("kitchen").expect("a client ID")
}

/// A conversation, a line each: `!7` writes the call c7, `@5000` lets so many milliseconds pass, `-7`
/// takes a call back, and anything else is a message of the client.
pub fn channel(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let (mut now, mut running) = (Instant(0), BTreeSet::new());
    let mut channel = Channel::new(now, UnixSeconds(1000));
    for line in text.lines() {
        let number = line.get(1..).and_then(|rest| rest.parse::<u16>().ok()).map(u64::from);
        match (line.as_bytes().first(), number) {
            (Some(b'!'), Some(id)) => {
                channel.called(CallId(id), id);
                running.insert(id);
            }
            (Some(b'-'), Some(id)) => {
                assert_eq!(channel.forget(CallId(id)), running.take(&id));
            }
            (Some(b'@'), Some(ms)) => {
                now = Instant(now.0 + ms);
                let wall = UnixSeconds(now.0 / 1000);
                let due = channel.deadline(now, wall, REGISTER_TIMEOUT) <= now;
                match channel.tick(now, wall, REGISTER_TIMEOUT) {
                    Some(Tick::Close(close)) => return closes(&close),
                    Some(Tick::Ping) => {}
                    None => assert!(!due || now.0 < 1000, "a deadline at which nothing is due"),
                }
            }
            _ => {
                channel.heard(now);
                if !one_message(&mut channel, &mut running, line) {
                    break;
                }
            }
        }
    }
    let left: BTreeSet<u64> = channel.end().collect();
    assert_eq!(left, running, "calls are forgotten or invented");
}

/// Whether the conversation goes on.
fn one_message(channel: &mut Channel<u64>, running: &mut BTreeSet<u64>, text: &str) -> bool {
    let joined = channel.is_registered();
    match channel.text(text) {
        Step::Nothing | Step::Pong | Step::Renew(_) => {}
        Step::Register => match Offer::check(text, &Limits::default()) {
            Ok((_, refused)) => {
                assert_json(&channel::registered(&kitchen(), &refused));
                channel.joined();
            }
            Err(fault) => {
                closes(&Close::BadMessage { path: fault.path, message: fault.message });
                return false;
            }
        },
        Step::Reply { to, outcome } => {
            assert!(running.remove(&to), "an answer to a call that does not run");
            outcome_fits(text, &outcome);
        }
        Step::Note { to, method, params } => {
            assert!(running.contains(to));
            let params = params.map_or("{}", |span| span.of(text));
            assert!(params.starts_with('{') && judge(params).is_some(), "{params}");
            let wanted = Wanted { progress_token: Some("\"t\""), level: Some(LogLevel::Debug) };
            if let Some(Note::Progress(text) | Note::Log(text)) =
                notes::relay(wanted, &method, params)
            {
                assert_json(&text);
            }
        }
        Step::Updated { uri } => {
            let method = "notifications/resources/updated";
            assert_json(&answer::notification(method, Some("\"s\""), Some(&uri)));
        }
        Step::Close(close) => {
            closes(&close);
            return false;
        }
    }
    assert!(judge(text).is_some(), "what is no JSON was let pass");
    assert!(joined || !matches!(reply::read(text), Ok(Message::Result { .. })));
    true
}

fn closes(close: &Close) {
    assert_json(&channel::fault(close));
    assert!(close.reason().len() <= CLOSE_REASON_BYTES_MAX);
    assert!(close.to_string().starts_with(&close.reason()));
}

fn outcome_fits(text: &str, outcome: &Outcome) {
    match outcome {
        Outcome::Error(error) => {
            let raw = error.error.of(text);
            assert!(raw.starts_with('{') && judge(raw) == Some(raw), "{raw}");
            assert_json(&joined(&answer::framed_error("1", error.error), text));
        }
        Outcome::Result(shape) => {
            let raw = shape.result.of(text);
            assert!(raw.starts_with('{') && judge(raw) == Some(raw), "{raw}");
            let their_members = json::members(raw).expect("an object").len();
            assert_eq!(shape.is_empty, their_members == 0);
            for (era, method) in ERAS.iter().flat_map(|era| FORWARDED.map(|method| (*era, method)))
            {
                let framed = joined(&answer::framed(era, "1", method, shape, INFO), text);
                assert_json(&framed);
                let members = json::members(&framed).expect("an object");
                let (_, result) = members.iter().find(|(name, _)| name == "result").expect("it");
                let ours = json::members(result).expect("an object").len();
                assert!(ours >= their_members, "a member of the client is lost: {result}");
                assert!(era == Era::Modern || *result == raw, "2025 agents get it word for word");
            }
            round_fits(text, shape, Some(r#"{"roots":{}}"#));
        }
    }
}

fn joined(pieces: &[Piece], message: &str) -> String {
    pieces.iter().map(|piece| piece.of(message)).collect()
}

fn round_fits(text: &str, shape: &Shape, declared: Option<&str>) {
    let Some(Round { requests, state }) = mrtr::read(text, shape) else { return };
    for (at, one) in requests.iter().enumerate() {
        let id = format!("q{at}");
        let asked = mrtr::request(&id, one);
        assert_json(&asked);
        let members = json::members(&asked).expect("an object");
        let names: Vec<&str> = members.iter().map(|(name, _)| &**name).collect();
        assert!(matches!(
            names[..],
            ["jsonrpc", "id", "method"] | ["jsonrpc", "id", "method", "params"]
        ));
    }
    let answers: Vec<(String, String)> =
        requests.iter().map(|one| (one.key.clone().into_owned(), "{}".to_owned())).collect();
    let next = mrtr::next_params(r#"{"name":"t","requestState":"old"}"#, &answers, state);
    assert_json(&next);
    assert!(!next.contains("\"old\"") || state == Some("\"old\"") || text.contains("old"));
    let round = Round { requests, state };
    if let Some(missing) = mrtr::missing(&round, declared) {
        assert_json(&missing);
    }
    if let Some(all) = mrtr::missing(&round, None) {
        assert_json(&all);
        assert_eq!(mrtr::missing(&round, Some(&all)), None, "what is asked for is enough");
    }
}

/// A register message.
pub fn offer(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let limits = Limits { register_bytes_max: 64 << 10, definitions_max: 12 };
    let (offer, refused) = match Offer::check(text, &limits) {
        Ok(checked) => checked,
        Err(fault) => {
            return closes(&Close::BadMessage { path: fault.path, message: fault.message });
        }
    };
    assert_eq!(judge(text).map(|raw| raw.starts_with('{')), Some(true), "taken, and no object");
    assert_json(&channel::registered(&kitchen(), &refused));
    let (again, refused_again) = Offer::check(offer.text(), &limits).expect("it was good before");
    assert!(again == offer && refused_again == refused && offer.text() == text);
    let mut count = refused.len();
    for list in List::ALL {
        assert!(offer.same_list(&again, list));
        let mut names = BTreeSet::new();
        for (name, raw) in offer.list(list).into_iter().flatten() {
            count += 1;
            assert!(!name.is_empty());
            assert!(raw.starts_with('{') && judge(raw) == Some(raw), "{raw}");
            assert!(names.insert(name.clone()), "{name} twice in {list:?}");
            if list == List::Tools {
                let tool = offer.tool(&name).expect("a tool that is listed can be called");
                assert_eq!(tool.raw, raw);
                drop(tool.param_headers());
            }
        }
    }
    assert!(count <= limits.definitions_max);
    for (raw, begin) in [(offer.server(), '{'), (offer.instructions(), '"')] {
        assert!(raw.is_none_or(|raw| raw.starts_with(begin) && judge(raw) == Some(raw)));
    }
}

/// The header fields of a request, names in lower case.
struct Fields<'a>(Vec<(String, &'a str)>);

impl Head for Fields<'_> {
    fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        let fields = self.0.iter().filter(|(key, _)| key == name);
        let values: Vec<&str> = fields.map(|(_, value)| *value).collect();
        (!values.is_empty()).then(|| Cow::Owned(values.join(", ")))
    }

    fn fields(&self, prefix: &str) -> Vec<(Box<str>, Box<str>)> {
        let fields = self.0.iter().filter(|(name, _)| name.starts_with(prefix));
        fields.map(|(name, value)| (name.as_str().into(), (*value).into())).collect()
    }
}

/// Every kind of thing that a client may offer.
const REGISTER: &str = r#"{"type":"register","server":{"name":"k","version":"1"},"instructions":"i",
    "tools":[{"name":"echo","inputSchema":{"type":"object"}},
    {"name":"at","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},
    "n":{"type":"integer","x-mcp-header":"N"}}}}],
    "prompts":[{"name":"p"}],"resources":[{"uri":"r:1","name":"r"}],
    "resourceTemplates":[{"uriTemplate":"r:{x}","name":"t"}],"completions":true,"subscribe":true,"ttlMs":5}"#;

/// A POST: header lines, an empty line, the body.
pub fn agent(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let (head, body) = text.split_once("\n\n").unwrap_or(("", text));
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    let fields = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.trim()));
    let head = Fields(fields.collect());
    let content_type = head.field("content-type");
    assert!(!is_json(content_type.as_deref()) || content_type.is_some());
    if let Some(origin) = head.field("origin") {
        let local = Origins { named: Vec::new(), loopback: true };
        assert!(!local.allow(&origin) || origin.contains("://"), "{origin} is no origin");
    }
    if let Some(Route::Mcp(Some(id))) = head.field("path").map(|path| Route::of(&path, "/base")) {
        assert!(!id.contains('\0') || ClientId::parse(&id).is_err());
    }
    let claims = Claims {
        client_id: kitchen(),
        may_connect: false,
        may_call: true,
        exp: UnixSeconds(0),
        tools: head.field("tools").map(|tools| Box::new([Box::from(&*tools)]) as Box<[_]>),
        jti: None,
    };
    let accept = Accept::parse(head.field("accept").as_deref());
    let caller = Caller { claims: &claims, accept, fresh: 7 };
    drop(agent::listen_by_get(&head));
    let (offer, _) = Offer::check(REGISTER, &Limits::default()).expect("a good register");
    let views = [None, Some(&offer)].map(|offer| View { client_id: &claims.client_id, offer });
    decided(decide(&head, body, &caller), &head, body, &caller, &views);
}

fn decided(
    decision: Decision<'_>,
    head: &Fields<'_>,
    body: &str,
    caller: &Caller<'_>,
    views: &[View<'_>],
) {
    match decision {
        Decision::Respond(response) => responds(&response),
        Decision::Ask(question) => {
            for view in views {
                responds(&question.answer(*view, caller.claims));
            }
            responds(&question.refuse(&Fault::TooManyStreams(3)));
            drop(question.memory());
        }
        Decision::Call(call) => {
            let params = call.params_of(body);
            for view in views {
                if let Err(fault) = call.judge(*view, body) {
                    responds(&Response::fault(call.era, Some(&call.id), &fault));
                }
                let info = view.server_info();
                let trouble = Trouble::NotConnected;
                assert_json(&answer::trouble(call.era, &call.id, call.method, trouble, &info));
            }
            if let Some((before, after)) = call.around_params("c7", params.len()) {
                let message = [&*before, params, &*after].concat();
                assert_json(&message);
                let Some(client::Message::Call { id, method, params: sent, .. }) =
                    client::read(&message)
                else {
                    panic!("no client can read {message}");
                };
                assert_eq!((&*id, &*method), ("c7", call.method.name()));
                assert_eq!(sent, params);
            }
            assert!(!call.request_key().is_empty());
        }
        Decision::Listen(listen) => {
            assert_json(&answer::acknowledged(&listen));
            if let Some(id) = &listen.subscription {
                assert_json(&answer::listen_result(id, INFO));
            }
        }
        Decision::Cancel(cancel) => assert_json(&cancel.request),
        Decision::Deliver(delivery) => {
            assert_json(delivery.id);
            let (Ok(raw) | Err(raw)) = delivery.result;
            assert_json(raw);
        }
        Decision::Batch(elements) => {
            assert!(!elements.is_empty() && elements.len() <= 100);
            for element in elements {
                let decision = decide_element(head, element, caller);
                assert!(!matches!(decision, Decision::Batch(_) | Decision::Listen(_)));
                decided(decision, head, element, caller, views);
            }
        }
    }
}

fn responds(response: &Response) {
    assert!((200..600).contains(&response.status), "{response:?}");
    match response.content_type {
        Some(answer::JSON) => assert_json(&response.body),
        Some(_) => {}
        None => assert_eq!(response.body, ""),
    }
    for (name, value) in &response.headers {
        assert!(value.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{name}: {value}");
        if *name == "Mcp-Session-Id" {
            assert!(value.len() <= SESSION_ID_BYTES_MAX);
            assert!(!Session::read(value).version.is_empty(), "we cannot read our own {value}");
        }
    }
}

/// Three lines: a result that asks back, what the agent declared, the params of the call.
pub fn mrtr(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let mut lines = text.splitn(3, '\n');
    let mut line = || lines.next().unwrap_or("");
    let (result, declared, params) = (line(), line(), line());
    let declared = judge(declared);
    let message = format!(r#"{{"type":"result","id":"c1","result":{result}}}"#);
    let Ok(Message::Result { shape, .. }) = reply::read(&message) else { return };
    round_fits(&message, &shape, declared);
    let Some(params) = judge(params).filter(|params| json::members(params).is_ok()) else { return };
    let next = mrtr::next_params(params, &[("k".into(), "{}".into())], Some("\"s\""));
    assert_json(&next);
    let own = |name: &str| name == "inputResponses" || name == "requestState";
    let count = |raw: &str| {
        json::members(raw).expect("an object").iter().filter(|(name, _)| !own(name)).count()
    };
    assert_eq!(count(&next), count(params), "the agent's own params are kept");
}

/// Lines: `@50` lets milliseconds pass, `?` reads what may go, `p…` and `m…` are params of progress and
/// of log messages.
pub fn notes(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let mut now = Instant(0);
    let mut gate = Gate::new(now);
    let wanted = Wanted { progress_token: Some("7"), level: Some(LogLevel::Info) };
    let (mut put, mut taken) = (0usize, 0usize);
    let mut newest = None;
    for line in text.lines() {
        let Some(rest) = line.get(1..) else { continue };
        let method = match line.as_bytes()[0] {
            b'@' => {
                now = Instant(now.0 + rest.parse::<u16>().map_or(0, u64::from));
                continue;
            }
            b'?' => {
                while let Some(text) = gate.take(now) {
                    assert_json(&text);
                    taken += 1;
                }
                assert!(gate.is_empty());
                continue;
            }
            b'p' => "notifications/progress",
            b'm' => "notifications/message",
            _ => continue,
        };
        if let Some(note) = notes::relay(wanted, method, rest) {
            if let Note::Progress(text) = &note {
                newest = Some(text.clone());
            }
            put += 1;
            gate.put(note, now);
        }
    }
    gate.finish(wanted.level);
    let mut last = None;
    while let Some(text) = gate.take(now) {
        assert_json(&text);
        taken += 1;
        if text.contains("notifications/progress") {
            last = Some(text);
        }
    }
    assert!(taken <= put + 1, "{put} came, {taken} went");
    assert!(last.is_none() || last == newest, "an older progress behind the newest");
}
