//! Pretend agents: one that calls, alone or in a batch, one that listens and lists again when it is told to,
//! and one whose session remembers things.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use clientmcp_proto::agent::{
    Call, Caller, Cancel, Decision, Head, Listen, Memory, decide, decide_element,
};
use clientmcp_proto::mcp::{Changes, LogLevel, MODERN};
use clientmcp_proto::negotiate::Accept;
use clientmcp_proto::offer::{List, Offer};
use clientmcp_proto::time::{Instant, UnixSeconds};
use clientmcp_proto::token::Claims;

use super::{Check, Flag, Planted, Scene, URIS};
use crate::job::{Job, Turn};
use crate::registry::{Request, Seen};
use crate::stream::Slot;
use crate::ticket::{Reply, Ticket};

const BOTH: Accept = Accept { json: true, events: true };

struct Fields(Vec<(&'static str, String)>);

impl Head for Fields {
    fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        let found = self.0.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| Cow::Borrowed(value.as_str()))
    }

    fn fields(&self, _: &str) -> Vec<(Box<str>, Box<str>)> {
        Vec::new()
    }
}

/// What is told of a call in its arguments.
pub fn marker_of(body: &str) -> String {
    let rest = body.split_once(r#""marker":""#).map_or("", |(_, rest)| rest);
    rest.split_once('"').map_or("", |(marker, _)| marker).to_owned()
}

/// An agent that waits for a response: to one call, or to a batch of them.
pub struct Agent {
    pub client: usize,
    session: Option<Option<Box<str>>>,
    /// Until they are answered, or it hangs up.
    pub jobs: Vec<(Element, Job)>,
    flag: Arc<Flag>,
    /// Questions it was asked, the call's marker, and when it will answer them.
    asked: VecDeque<(Instant, String, String)>,
}

/// One call of a response.
pub struct Element {
    request: u64,
    /// In its arguments, in its progress token, and in what it expects to be answered.
    pub marker: String,
    /// When it was sent to the client last.
    since: Instant,
}

impl Agent {
    /// All of them share a token and count their requests from 0.
    pub fn calls(scene: &mut Scene) -> Agent {
        let client = scene.random.below(2);
        let modern = scene.random.one_in(2);
        let count = if !modern && scene.random.one_in(3) { 2 + scene.random.below(4) } else { 1 };
        let first = scene.random.next() % 3;
        let started = scene.shared.metrics.calls_started.get();
        let elements: Vec<Element> = (0..count as u64)
            .map(|n| Element {
                request: first + n,
                marker: format!("m{}", started + n),
                since: scene.now(),
            })
            .collect();
        let (fields, more, session) = if modern {
            let fields = ["mcp-protocol-version", "mcp-method", "mcp-name"];
            let values = [MODERN, "tools/call", "echo"].map(str::to_owned);
            let more = format!(
                r#","io.modelcontextprotocol/protocolVersion":"{MODERN}","io.modelcontextprotocol/clientCapabilities":{{"elicitation":{{}}}}"#
            );
            (fields.into_iter().zip(values).collect(), more, None)
        } else {
            let id = scene.sessions[scene.random.below(2)].clone();
            (vec![("mcp-session-id", id.to_string())], String::new(), Some(Some(id)))
        };
        let texts = elements.iter().map(|Element { request, marker, .. }| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{request},"method":"tools/call","params":{{"name":"echo","arguments":{{"marker":"{marker}"}},"_meta":{{"progressToken":"{marker}"{more}}}}}}}"#
            )
        });
        let texts: Vec<String> = texts.collect();
        let body = match count {
            1 => texts[0].clone(),
            _ => format!("[{}]", texts.join(",")),
        };
        let claims = Claims {
            client_id: scene.ids[client].clone(),
            may_connect: false,
            may_call: true,
            exp: UnixSeconds(0),
            tools: None,
            jti: None,
        };
        let accept =
            if scene.random.one_in(6) { Accept { json: true, events: false } } else { BOTH };
        let caller = Caller { claims: &claims, accept, fresh: 1 };
        let fields = Fields(fields);
        let calls: Vec<(Call, &str)> = match decide(&fields, &body, &caller) {
            Decision::Call(call) => vec![(*call, &body)],
            Decision::Batch(elements) => {
                let calls =
                    elements.into_iter().map(|text| match decide_element(&fields, text, &caller) {
                        Decision::Call(call) => (*call, text),
                        _ => panic!("this is a call: {text}"),
                    });
                calls.collect()
            }
            _ => panic!("these are calls: {body}"),
        };
        scene.batches += u64::from(count > 1);
        let jobs = elements.into_iter().zip(calls).map(|(element, (call, body))| {
            let (id, client_id) = (scene.shared.next_call_id(), claims.client_id.clone());
            let body = Rc::new(body.to_owned());
            let ticket = Ticket::new(id, client_id, call, body, scene.now());
            scene.waiting.insert(element.marker.clone());
            (element, Job::begin(&scene.shared, ticket, accept))
        });
        let jobs = jobs.collect();
        Agent { client, session, jobs, flag: Flag::new(), asked: VecDeque::new() }
    }

    fn hangs_up(&mut self, scene: &mut Scene) {
        for (element, _) in self.jobs.drain(..) {
            scene.waiting.remove(&element.marker);
        }
        self.asked.clear();
    }

    /// Does something of its own accord.
    pub fn acts(&mut self, scene: &mut Scene) {
        if self.jobs.is_empty() {
            return;
        }
        match scene.random.below(4) {
            0 => self.hangs_up(scene),
            1 => {
                let at = scene.random.below(self.jobs.len());
                let request = self.jobs[at].0.request;
                scene.taken_back.insert((self.client, request));
                let request = request.to_string().into();
                let cancel = Cancel { request, session: self.session.clone() };
                scene.shared.tell(Request::Cancel(scene.ids[self.client].clone(), cancel));
            }
            // An agent of another client tries to answer a question it was not asked.
            _ if !scene.questions.is_empty() => {
                let at = scene.random.below(scene.questions.len());
                let (client, id) = scene.questions[at].clone();
                let (client_id, result) = (scene.ids[1 - client].clone(), r#"{"for":"nobody"}"#);
                scene.shared.tell(Request::Deliver {
                    client_id,
                    id,
                    result: Ok(result.to_owned()),
                });
            }
            _ => {}
        }
    }

    /// One turn of its task, as `call` takes it; whether there was anything to do.
    pub fn turn(&mut self, scene: &mut Scene) -> Result<bool, String> {
        let now = scene.now();
        if self.jobs.is_empty() {
            return Ok(false);
        }
        if let Some((_, id, marker)) = self.asked.pop_front_if(|(at, ..)| *at <= now) {
            let result = match scene.random.below(6) {
                0 => Err(r#"{"code":-1,"message":"no"}"#.to_owned()),
                _ => Ok(format!(r#"{{"action":"accept","for":"{marker}"}}"#)),
            };
            let client_id = scene.ids[self.client].clone();
            scene.shared.tell(Request::Deliver { client_id, id, result });
            return Ok(true);
        }
        let due = |(_, job): &(Element, Job)| job.deadline <= now && !job.ticket.is_over();
        if !self.jobs.iter().any(due) && !self.flag.is_up() {
            return Ok(false);
        }
        let waker = self.flag.waker();
        let mut cx = Context::from_waker(&waker);
        let heard = self.jobs.iter().enumerate().find_map(|(number, (_, job))| {
            match job.ticket.poll(&mut cx, now) {
                Poll::Ready(reply) => Some((number, reply)),
                Poll::Pending => None,
            }
        });
        let Some((number, reply)) = heard else {
            self.jobs.iter_mut().for_each(|(_, job)| job.look_at_clock(now));
            return Ok(true);
        };
        waker.wake();
        let mixed = scene.planted == Planted::MixedBatch && scene.random.one_in(2);
        let number = if mixed { (number + 1) % self.jobs.len() } else { number };
        self.takes(number, reply, scene)?;
        Ok(true)
    }

    fn takes(&mut self, number: usize, reply: Reply, scene: &mut Scene) -> Check {
        let now = scene.now();
        let (element, job) = &mut self.jobs[number];
        let sent = job.ticket.id();
        match job.take(reply) {
            Turn::Wait => {}
            Turn::Tell(text) => element.owns(&text, scene)?,
            Turn::Ask(questions) => {
                element.since = now;
                for question in questions {
                    element.owns(&question, scene)?;
                    let id = question.split('"').nth(7).unwrap_or_default().to_owned();
                    scene.questions.push((self.client, id.clone()));
                    if !scene.random.one_in(5) {
                        let at = now + scene.random.delay();
                        self.asked.push_back((at, id, element.marker.clone()));
                    }
                }
            }
            Turn::Over { answer, .. } => {
                let (element, _) = self.jobs.swap_remove(number);
                scene.waiting.remove(&element.marker);
                self.asked.retain(|(.., marker)| *marker != element.marker);
                return match answer {
                    Some(rendered) => {
                        element.is_answered(&rendered.texts().collect::<String>(), scene)
                    }
                    None if scene.taken_back.contains(&(self.client, element.request)) => Ok(()),
                    None => Err(format!("{} ended without an answer", element.marker)),
                };
            }
        }
        if job.ticket.id() != sent {
            element.since = now;
        }
        Ok(())
    }
}

impl Element {
    fn is_answered(&self, text: &str, scene: &Scene) -> Check {
        let begin = format!(r#"{{"jsonrpc":"2.0","id":{},"#, self.request);
        if !text.starts_with(&begin) {
            return Err(format!("{} expected {begin}, got another's answer: {text}", self.marker));
        }
        let waited = scene.now() - self.since;
        if text.contains("did not answer within") && waited < scene.shared.config.call_timeout {
            return Err(format!("{} timed out after {waited:?}", self.marker));
        }
        match text.split_once("echo:").and_then(|(_, rest)| rest.split_once(';')) {
            Some((marker, _)) if marker != self.marker => {
                Err(format!("{} got another's answer: {text}", self.marker))
            }
            _ if text.contains("input_required") => self.owns(text, scene),
            _ => Ok(()),
        }
    }

    /// What comes in the middle of a call belongs to it, and was asked for.
    fn owns(&self, text: &str, scene: &Scene) -> Check {
        if !text.contains(&format!("\"{}\"", self.marker)) {
            return Err(format!("{} got another's answer, in part: {text}", self.marker));
        }
        match text.split_once(r#""level":""#).and_then(|(_, rest)| rest.split_once('"')) {
            Some((level, _)) => {
                let level = LogLevel::parse(level).ok_or_else(|| format!("no level: {text}"))?;
                scene.books.logged(&self.marker, level)
            }
            None => Ok(()),
        }
    }
}

/// An agent with a notification stream.
pub struct Listener {
    pub client: usize,
    slot: Rc<Slot>,
    opening: Option<flume::Receiver<Result<(), clientmcp_proto::fault::Fault>>>,
    flag: Arc<Flag>,
    /// Told of a change that it has not looked at.
    told: bool,
    looking: Option<flume::Receiver<Seen>>,
    /// What it saw when it last looked.
    seen: Option<[Vec<String>; 2]>,
    /// The bridge has ended it.
    pub over: bool,
}

impl Listener {
    pub fn opens(scene: &mut Scene) -> Listener {
        let client = scene.random.below(2);
        let listen = match scene.random.below(2) {
            0 => {
                let session = Some(scene.sessions[scene.random.below(2)].clone());
                Listen { wants: Changes::ALL, uris: Vec::new(), subscription: None, session }
            }
            _ => Listen {
                wants: [Changes::ALL, Changes::TOOLS, Changes::PROMPTS][scene.random.below(3)],
                uris: URIS.iter().filter(|_| scene.random.one_in(2)).map(|s| (*s).into()).collect(),
                subscription: Some("1".into()),
                session: None,
            },
        };
        let slot = Slot::new(listen);
        let (reply, opening) = flume::bounded(1);
        let client_id = scene.ids[client].clone();
        scene.shared.tell(Request::Listen { client_id, slot: slot.clone(), reply });
        Listener {
            client,
            slot,
            opening: Some(opening),
            flag: Flag::new(),
            told: false,
            looking: None,
            seen: None,
            over: false,
        }
    }

    pub fn leaves(self, scene: &Scene) {
        if !self.over {
            self.unlistens(scene);
        }
    }

    fn unlistens(&self, scene: &Scene) {
        let client_id = scene.ids[self.client].clone();
        scene.shared.tell(Request::Unlisten { client_id, slot: self.slot.clone() });
    }

    /// One turn of the stream's task, as `stream` takes it, or of its agent; whether there was anything
    /// to do.
    pub fn turn(&mut self, scene: &mut Scene) -> Result<bool, String> {
        if self.over {
            return Ok(false);
        }
        if let Some(opening) = &self.opening {
            let Ok(opened) = opening.try_recv() else { return Ok(false) };
            opened.map_err(|fault| format!("a stream was refused: {fault}"))?;
            self.opening = None;
            self.told = true;
            return Ok(true);
        }
        if self.flag.is_up() {
            self.speaks(scene)?;
            return Ok(true);
        }
        if let Some(Ok(seen)) = self.looking.as_ref().map(flume::Receiver::try_recv) {
            self.looking = None;
            self.seen = Some(lists(seen.offer.as_deref()));
            return Ok(true);
        }
        if self.told && self.looking.is_none() {
            self.told = false;
            let (reply, looking) = flume::bounded(1);
            let client_id = scene.ids[self.client].clone();
            scene.shared.tell(Request::Look { client_id, memory: None, reply });
            self.looking = Some(looking);
            return Ok(true);
        }
        Ok(false)
    }

    /// Takes what there is, and sleeps again until it is woken.
    fn speaks(&mut self, scene: &mut Scene) -> Check {
        let waker = self.flag.waker();
        let woken = self.slot.poll(&mut Context::from_waker(&waker));
        if woken.is_pending() {
            if scene.planted == Planted::LostWake && scene.random.one_in(3) {
                let deaf = self.slot.poll(&mut Context::from_waker(Waker::noop()));
                return deaf.is_pending().then_some(()).ok_or_else(|| "not quiet now".to_owned());
            }
            return Ok(());
        }
        waker.wake();
        let text = self.slot.take();
        for event in text.split_terminator("\n\n") {
            if let Some((_, rest)) = event.split_once(r#""uri":""#) {
                let uri = rest.split_once('"').map_or("", |(uri, _)| uri);
                scene.books.told(&self.slot, uri)?;
                scene.updates += 1;
            } else if event.contains("list_changed") {
                let lost = scene.planted == Planted::LostChange && scene.random.one_in(3);
                self.told |= !lost;
                scene.changes += 1;
            } else {
                return Err(format!("a stream was woken for {event:?}"));
            }
        }
        if let Some(end) = self.slot.ended() {
            scene.books.ended(&self.slot, end)?;
            self.over = true;
            self.unlistens(scene);
        }
        Ok(())
    }

    /// Whether it has seen what is offered, as far as it wants to know.
    pub fn knows(&self, offer: Option<&Offer>) -> Check {
        if self.over {
            return Ok(());
        }
        let (Some(seen), now) = (&self.seen, lists(offer)) else {
            return Err("a stream was never opened".to_owned());
        };
        for (at, list) in [Changes::TOOLS, Changes::PROMPTS].into_iter().enumerate() {
            if self.slot.listen.wants.has(list) && seen[at] != now[at] {
                let (seen, now) = (&seen[at], &now[at]);
                return Err(format!("an agent does not know of a change: {seen:?}, {now:?}"));
            }
        }
        Ok(())
    }
}

/// A 2025-era agent changes what its session remembers, or ends it.
pub fn remembers(scene: &mut Scene) {
    let client_id = scene.ids[scene.random.below(2)].clone();
    let session = scene.sessions[scene.random.below(2)].clone();
    let uri = URIS[scene.random.below(URIS.len())].into();
    let memory = match scene.random.below(8) {
        0 => {
            scene.deletes += 1;
            return scene.shared.tell(Request::Forget { client_id, session });
        }
        1 => Memory::Unsubscribe(uri),
        2 => Memory::Level(LogLevel::Info),
        3 => Memory::Level(LogLevel::Error),
        _ => Memory::Subscribe(uri),
    };
    // Its agent does not wait for the answer.
    let (reply, _) = flume::bounded(1);
    scene.shared.tell(Request::Look { client_id, memory: Some((session, memory)), reply });
}

fn lists(offer: Option<&Offer>) -> [Vec<String>; 2] {
    [List::Tools, List::Prompts].map(|list| {
        let all = offer.and_then(|offer| offer.list(list)).into_iter().flatten();
        all.map(|(_, raw)| raw.to_owned()).collect()
    })
}
