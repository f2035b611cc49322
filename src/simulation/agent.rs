//! Pretend agents: one that calls, and one that listens and lists again when it is told to.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use clientmcp_proto::agent::{Caller, Cancel, Decision, Head, Listen, decide};
use clientmcp_proto::mcp::{Changes, MODERN};
use clientmcp_proto::negotiate::Accept;
use clientmcp_proto::offer::{List, Offer};
use clientmcp_proto::session::Session;
use clientmcp_proto::time::{Instant, UnixSeconds};
use clientmcp_proto::token::Claims;

use super::{Check, Flag, Planted, Scene};
use crate::job::{Job, Turn};
use crate::registry::{Request, Seen};
use crate::stream::Slot;
use crate::ticket::Ticket;

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

/// An agent with one call.
pub struct Agent {
    pub client: usize,
    request: u64,
    session: Option<Option<Box<str>>>,
    /// In its arguments, in its progress token, and in what it expects to be answered.
    pub marker: String,
    /// Until it is answered, or hangs up.
    pub job: Option<Job>,
    flag: Arc<Flag>,
    /// Questions it was asked, and when it will answer them.
    asked: VecDeque<(Instant, String)>,
}

impl Agent {
    /// All of them share a token and count their requests from 0.
    pub fn calls(scene: &mut Scene) -> Agent {
        let (client, request) = (scene.random.below(2), scene.random.next() % 3);
        let marker = format!("m{}", scene.shared.metrics.calls_started.get());
        let meta = |more: &str| format!(r#""_meta":{{"progressToken":"{marker}"{more}}}"#);
        let modern = scene.random.one_in(2);
        let (fields, meta, session) = if modern {
            let fields = ["mcp-protocol-version", "mcp-method", "mcp-name"];
            let values = [MODERN, "tools/call", "echo"].map(str::to_owned);
            let more = format!(
                r#","io.modelcontextprotocol/protocolVersion":"{MODERN}","io.modelcontextprotocol/clientCapabilities":{{"elicitation":{{}}}}"#
            );
            (fields.into_iter().zip(values).collect(), meta(&more), None)
        } else {
            let capabilities = Some(r#"{"elicitation":{}}"#.to_owned());
            let version = "2025-11-25".to_owned();
            let id =
                Session { version, capabilities, client_info: None }.mint(scene.random.next() % 2);
            (vec![("mcp-session-id", id.clone())], meta(""), Some(Some(id.into())))
        };
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{request},"method":"tools/call","params":{{"name":"echo","arguments":{{"marker":"{marker}"}},{meta}}}}}"#
        );
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
        let Decision::Call(call) = decide(&Fields(fields), &body, &caller) else {
            panic!("this is a call: {body}");
        };
        let id = scene.shared.next_call_id();
        let ticket = Ticket::new(id, claims.client_id.clone(), *call, Rc::new(body), scene.now());
        scene.waiting.insert(marker.clone());
        let job = Some(Job::begin(&scene.shared, ticket, accept));
        Agent { client, request, session, marker, job, flag: Flag::new(), asked: VecDeque::new() }
    }

    fn hangs_up(&mut self, scene: &mut Scene) {
        self.job = None;
        scene.waiting.remove(&self.marker);
    }

    /// Does something of its own accord.
    pub fn acts(&mut self, scene: &mut Scene) {
        if self.job.is_none() {
            return;
        }
        match scene.random.below(4) {
            0 => self.hangs_up(scene),
            1 => {
                scene.taken_back.insert((self.client, self.request));
                let request = self.request.to_string().into();
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
        let Some(job) = &mut self.job else { return Ok(false) };
        if let Some((_, id)) = self.asked.pop_front_if(|(at, _)| *at <= now) {
            let result = match scene.random.below(6) {
                0 => Err(r#"{"code":-1,"message":"no"}"#.to_owned()),
                _ => Ok(format!(r#"{{"action":"accept","for":"{}"}}"#, self.marker)),
            };
            let client_id = scene.ids[self.client].clone();
            scene.shared.tell(Request::Deliver { client_id, id, result });
            return Ok(true);
        }
        let due = job.deadline <= now && !job.ticket.is_over();
        if !due && !self.flag.is_up() {
            return Ok(false);
        }
        let waker = self.flag.waker();
        let Poll::Ready(reply) = job.ticket.poll(&mut Context::from_waker(&waker), now) else {
            job.look_at_clock(now);
            return Ok(true);
        };
        waker.wake();
        match job.take(reply) {
            Turn::Wait => {}
            Turn::Tell(text) => self.owns(&text)?,
            Turn::Ask(questions) => {
                for question in questions {
                    self.owns(&question)?;
                    let id = question.split('"').nth(7).unwrap_or_default().to_owned();
                    scene.questions.push((self.client, id.clone()));
                    if !scene.random.one_in(5) {
                        self.asked.push_back((now + scene.random.delay(), id));
                    }
                }
            }
            Turn::Over { answer, .. } => {
                self.hangs_up(scene);
                self.asked.clear();
                match answer {
                    Some(rendered) => self.is_answered(&rendered.texts().collect::<String>())?,
                    None if scene.taken_back.contains(&(self.client, self.request)) => {}
                    None => return Err(format!("{} ended without an answer", self.marker)),
                }
            }
        }
        Ok(true)
    }

    fn is_answered(&self, text: &str) -> Check {
        let begin = format!(r#"{{"jsonrpc":"2.0","id":{},"#, self.request);
        if !text.starts_with(&begin) {
            return Err(format!("{} expected {begin}, got {text}", self.marker));
        }
        match text.split_once("echo:").and_then(|(_, rest)| rest.split_once(';')) {
            Some((marker, _)) if marker != self.marker => {
                Err(format!("{} got another's answer: {text}", self.marker))
            }
            _ if text.contains("input_required") => self.owns(text),
            _ => Ok(()),
        }
    }

    /// What comes in the middle of a call belongs to it.
    fn owns(&self, text: &str) -> Check {
        match text.contains(&format!("\"{}\"", self.marker)) {
            true => Ok(()),
            false => Err(format!("{} got another's answer, in part: {text}", self.marker)),
        }
    }
}

/// An agent with a notification stream.
pub struct Listener {
    pub client: usize,
    slot: Rc<Slot>,
    opening: Option<flume::Receiver<Result<(), clientmcp_proto::fault::Fault>>>,
    /// Told of a change that it has not looked at.
    told: bool,
    looking: Option<flume::Receiver<Seen>>,
    /// What it saw when it last looked.
    seen: Option<[Vec<String>; 2]>,
}

impl Listener {
    pub fn opens(scene: &mut Scene) -> Listener {
        let client = scene.random.below(2);
        let wants = [Changes::ALL, Changes::TOOLS, Changes::PROMPTS][scene.random.below(3)];
        let slot = Slot::new(Listen {
            wants,
            uris: Vec::new(),
            subscription: Some("1".into()),
            session: None,
        });
        let (reply, opening) = flume::bounded(1);
        let client_id = scene.ids[client].clone();
        scene.shared.tell(Request::Listen { client_id, slot: slot.clone(), reply });
        Listener { client, slot, opening: Some(opening), told: false, looking: None, seen: None }
    }

    pub fn leaves(self, scene: &Scene) {
        let client_id = scene.ids[self.client].clone();
        scene.shared.tell(Request::Unlisten { client_id, slot: self.slot });
    }

    /// Whether there was anything to do.
    pub fn turn(&mut self, scene: &mut Scene) -> Result<bool, String> {
        if let Some(opening) = &self.opening {
            let Ok(opened) = opening.try_recv() else { return Ok(false) };
            opened.map_err(|fault| format!("a stream was refused: {fault}"))?;
            self.opening = None;
            self.told = true;
            return Ok(true);
        }
        if !self.slot.is_quiet() {
            let text = self.slot.take();
            if !text.contains("list_changed") {
                return Err(format!("a stream was woken for {text:?}"));
            }
            let lost = scene.planted == Planted::LostChange && scene.random.one_in(3);
            self.told |= !lost;
            scene.changes += 1;
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

    /// Whether it has seen what is offered, as far as it wants to know.
    pub fn knows(&self, offer: Option<&Offer>) -> Check {
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

fn lists(offer: Option<&Offer>) -> [Vec<String>; 2] {
    [List::Tools, List::Prompts].map(|list| {
        let all = offer.and_then(|offer| offer.list(list)).into_iter().flatten();
        all.map(|(_, raw)| raw.to_owned()).collect()
    })
}
