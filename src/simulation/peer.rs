//! A pretend client and the pretend wire between it and its conversation at the bridge.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use clientmcp_proto::channel::client::{self, Message};
use clientmcp_proto::channel::{CallId, PING, Tick};
use clientmcp_proto::fault::Close;
use clientmcp_proto::time::{Instant, UnixSeconds};
use clientmcp_proto::token::Claims;
use clientmcp_proto::{json, limits};

use super::{Check, Flag, Planted, Scene};
use crate::conversation::Conversation;
use crate::mailbox::{Item, Mailbox};

/// What travels to the bridge; in order, as TCP has it.
enum Sent {
    Text(String),
    Hangup,
}

pub struct Peer {
    pub client: usize,
    pub mailbox: Rc<Mailbox>,
    /// The bridge's end of the connection, until it is over.
    conversation: Option<Conversation>,
    flag: Arc<Flag>,
    wire: VecDeque<(Instant, Sent)>,
    /// It does not read before this.
    reads_at: Option<Instant>,
    /// The calls it was sent: the marker of each, and whether it was cancelled.
    calls: BTreeMap<String, (String, bool)>,
    /// It is gone, or as good as gone.
    silent: bool,
}

impl Peer {
    /// A client connects and registers, in most cases.
    pub fn dials(scene: &mut Scene) -> Peer {
        let client = scene.random.below(2);
        let claims = Claims {
            client_id: scene.ids[client].clone(),
            may_connect: true,
            may_call: false,
            exp: UnixSeconds(scene.shared.wall().0 + 10 + scene.random.next() % 10_000),
            tools: None,
            jti: None,
        };
        let conversation = Conversation::new(&scene.shared, claims);
        let mut peer = Peer {
            client,
            mailbox: conversation.mailbox.clone(),
            conversation: Some(conversation),
            flag: Flag::new(),
            wire: VecDeque::new(),
            reads_at: None,
            calls: BTreeMap::new(),
            silent: false,
        };
        if !scene.random.one_in(10) {
            peer.registers(scene);
        }
        peer
    }

    /// Says nothing more, without a word: the bridge has to find out by itself.
    pub fn falls_silent(&mut self) {
        self.silent = true;
    }

    pub fn is_over(&self) -> bool {
        self.conversation.is_none()
    }

    fn send(&mut self, text: String, scene: &mut Scene) {
        if self.silent {
            return;
        }
        let last = self.wire.back().map_or(scene.now(), |(at, _)| *at);
        let at = last.max(scene.now() + scene.random.delay());
        self.wire.push_back((at, Sent::Text(text)));
    }

    fn registers(&mut self, scene: &mut Scene) {
        let tool = |name: &str| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#);
        let mut tools = Vec::new();
        if !scene.random.one_in(8) {
            tools.push(tool("echo"));
        }
        tools.extend((0..scene.random.below(3)).map(|n| tool(&format!("t{n}"))));
        let prompts = (0..scene.random.below(3)).map(|n| format!(r#"{{"name":"p{n}"}}"#));
        let (tools, prompts) = (Some(tools), Some(prompts.collect()));
        let register = client::Register { tools, prompts, ..Default::default() };
        self.send(register.text(), scene);
    }

    /// Does something of its own accord.
    pub fn acts(&mut self, scene: &mut Scene) {
        match scene.random.below(8) {
            0..3 => self.registers(scene),
            3 => self.send(PING.to_owned(), scene),
            4 => self.reads_at = Some(scene.now() + scene.random.delay()),
            5 => {
                let at = self.wire.back().map_or(scene.now(), |(at, _)| *at);
                self.wire.push_back((at + scene.random.delay(), Sent::Hangup));
                self.silent = true;
            }
            6 => self.falls_silent(),
            _ => self.send(client::result("c999999", "{}"), scene),
        }
    }

    /// One turn of the bridge's task for this connection, as `connection` takes it; whether there was
    /// anything to do.
    pub fn turn(&mut self, scene: &mut Scene) -> Result<bool, String> {
        let now = scene.now();
        let Some(conversation) = self.conversation.as_mut() else { return Ok(false) };
        let blocked = self.reads_at.is_some_and(|at| now < at);
        let readable = !blocked
            && !scene.still
            && !conversation.is_joining()
            && self.wire.front().is_some_and(|(at, _)| *at <= now);
        let wall = scene.shared.wall();
        let due = conversation.channel.deadline(now, wall, limits::REGISTER_TIMEOUT) <= now
            || self.reads_at.take_if(|at| *at <= now).is_some();
        if !readable && !due && !self.flag.is_up() {
            return Ok(false);
        }
        let ended = self.works(readable, blocked, scene)?;
        if ended && let Some(conversation) = self.conversation.take() {
            conversation.end(&scene.shared);
            self.wire.clear();
            self.silent = true;
            return Ok(true);
        }
        // Sleeps until it is woken, unless there is something to do already.
        let flag = self.flag.clone();
        let waker = flag.waker();
        if self.mailbox.poll(&mut Context::from_waker(&waker), blocked).is_ready() {
            waker.wake();
        }
        Ok(true)
    }

    /// Whether the connection is over.
    fn works(&mut self, readable: bool, blocked: bool, scene: &mut Scene) -> Result<bool, String> {
        let Some(mut conversation) = self.conversation.take() else { return Ok(true) };
        let mut ended = false;
        if readable {
            match self.wire.pop_front() {
                Some((_, Sent::Text(text))) => {
                    conversation.channel.heard(scene.now());
                    // A pong tells this client nothing.
                    ended = conversation.text(&scene.shared, text.into()).is_err();
                }
                Some((_, Sent::Hangup)) => ended = true,
                None => {}
            }
        }
        self.plant(&mut conversation, scene);
        while !blocked
            && !ended
            && let Some(message) = conversation.next()
        {
            self.receives(&message.parts().concat(), scene)?;
        }
        if !ended && let Some(close) = self.mailbox.closing() {
            ended = true;
            if close == Close::Replaced {
                self.silent = true;
            }
        }
        let (now, wall) = (scene.now(), scene.shared.wall());
        match conversation.channel.tick(now, wall, limits::REGISTER_TIMEOUT) {
            Some(Tick::Close(_)) => ended = true,
            // A browser answers it, if it is there.
            Some(Tick::Ping) if !self.silent && !scene.random.one_in(4) => {
                conversation.channel.heard(now);
            }
            Some(Tick::Ping) | None => {}
        }
        self.conversation = Some(conversation);
        Ok(ended)
    }

    /// Puts the planted fault in, if it is one that belongs here.
    fn plant(&mut self, conversation: &mut Conversation, scene: &mut Scene) {
        match scene.planted {
            Planted::DoubleSend => {
                if let Some(item) = self.mailbox.pop() {
                    if let Item::Call(ticket) = &item {
                        self.mailbox.push(Item::Call(ticket.clone()));
                    }
                    self.mailbox.push(item);
                }
            }
            Planted::Misdirected => {
                let ids = self.calls.keys().filter_map(|id| CallId::parse(id));
                let running: Vec<_> = ids
                    .filter_map(|id| conversation.channel.forget(id).map(|ticket| (id, ticket)))
                    .collect();
                let tickets: Vec<_> = running.iter().map(|(_, ticket)| ticket.clone()).collect();
                for (at, (id, _)) in running.iter().enumerate() {
                    let ticket = tickets[(at + 1) % tickets.len()].clone();
                    conversation.channel.called(*id, ticket);
                }
            }
            Planted::Nothing | Planted::LostChange => {}
        }
    }

    /// The client reads a message; what it makes of it is sent later.
    fn receives(&mut self, text: &str, scene: &mut Scene) -> Check {
        match client::read(text) {
            Some(Message::Call { id, params, .. }) => {
                let members = json::members(params).map_err(|error| error.to_string())?;
                let get = |name: &str| members.iter().find(|(key, _)| key == name).map(|(_, v)| *v);
                let arguments = get("arguments").unwrap_or("{}");
                let marker = arguments.trim_matches(['{', '}']).split('"').nth(3).unwrap_or("");
                let state = get("requestState").unwrap_or("none");
                if !scene.written.insert((marker.to_owned(), state.to_owned()))
                    || !scene.call_ids.insert(id.clone().into_owned())
                {
                    return Err(format!("{marker} was written twice, with the state {state}"));
                }
                if !scene.waiting.contains(marker) {
                    return Err(format!("{marker} was written, and nobody waits for it"));
                }
                if let Some(answers) = get("inputResponses")
                    && !answers.contains(&format!("\"for\":\"{marker}\""))
                {
                    return Err(format!("{marker} got another's answer: {answers}"));
                }
                self.calls.insert(id.clone().into_owned(), (marker.to_owned(), false));
                self.answers(&id, marker, scene);
                Ok(())
            }
            Some(Message::Cancel { id, .. }) => match self.calls.get_mut(&*id) {
                Some((_, cancelled @ false)) => {
                    *cancelled = true;
                    Ok(())
                }
                Some((marker, true)) => Err(format!("{marker} was cancelled twice")),
                None => Err(format!("{id} was cancelled, and never sent")),
            },
            Some(_) => Ok(()),
            None => Err(format!("no client can read {text}")),
        }
    }

    fn answers(&mut self, id: &str, marker: &str, scene: &mut Scene) {
        let progress = format!(r#"{{"progress":1,"message":"{marker}"}}"#);
        let note = client::notify(Some(id), "notifications/progress", &progress);
        let result = client::result(id, &client::text_result(&format!("echo:{marker};")));
        match scene.random.below(10) {
            // Not at all.
            0 => {}
            1 => {
                self.send(result.clone(), scene);
                self.send(result, scene);
            }
            2 => self.send(client::error(id, -32000, &format!("echo:{marker};")), scene),
            3 | 4 => {
                let state = scene.random.next();
                let asks = format!(
                    r#"{{"resultType":"input_required","requestState":"{state}","inputRequests":{{"q":{{"method":"elicitation/create","params":{{"message":"{marker}"}}}}}}}}"#
                );
                self.send(client::result(id, &asks), scene);
            }
            5 => {
                self.send(note.unwrap_or_default(), scene);
                self.send(result, scene);
            }
            6 => {
                self.send(result, scene);
                // Too late.
                self.send(note.unwrap_or_default(), scene);
            }
            7 => {
                let last = self.wire.back().map_or(scene.now(), |(at, _)| *at);
                let at = last + Duration::from_secs(scene.random.next() % 30);
                if !self.silent {
                    self.wire.push_back((at, Sent::Text(result)));
                }
            }
            _ => self.send(result, scene),
        }
    }
}
