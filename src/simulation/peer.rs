//! A pretend client and the pretend wire between it and its conversation at the bridge.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use clientmcp_proto::channel::client::{self, Message};
use clientmcp_proto::channel::{CallId, PING, Tick};
use clientmcp_proto::client_id::ClientId;
use clientmcp_proto::fault::Close;
use clientmcp_proto::json;
use clientmcp_proto::limits::{PING_AFTER, REGISTER_TIMEOUT, SILENT_AFTER, TOKEN_LEEWAY};
use clientmcp_proto::time::{Instant, UnixSeconds};
use clientmcp_proto::token::{Claims, Mint, mint};

use super::{Check, Flag, Planted, Scene, URIS};
use crate::conversation::Conversation;
use crate::mailbox::{Item, Mailbox};

/// What travels to the bridge; in order, as TCP has it.
enum Sent {
    Text(String),
    /// A fresh token: whether it is for this client, and its `exp`.
    Auth(String, bool, UnixSeconds),
    Hangup,
}

/// What a connection may be closed for, by the two clocks.
struct Times {
    opened: Instant,
    heard: Instant,
    /// Since when an answer to a ping is owed.
    asked: Option<Instant>,
    /// The first second of the wall clock in which its token is refused.
    token_ends: UnixSeconds,
}

impl Times {
    fn hears(&mut self, now: Instant) {
        (self.heard, self.asked) = (now, None);
    }

    fn is_expired(&self, wall: UnixSeconds) -> bool {
        wall >= self.token_ends
    }

    fn is_unregistered(&self, registered: bool, now: Instant) -> bool {
        !registered && now - self.opened >= REGISTER_TIMEOUT
    }

    fn is_silent(&self, now: Instant) -> bool {
        let asked = self.asked.is_some_and(|asked| now - asked >= SILENT_AFTER - PING_AFTER);
        asked && now - self.heard >= SILENT_AFTER
    }
}

pub struct Peer {
    pub client: usize,
    pub mailbox: Rc<Mailbox>,
    /// The bridge's end of the connection, until it is over.
    conversation: Option<Conversation>,
    flag: Arc<Flag>,
    times: Times,
    /// Its timer, as it was set when the connection fell asleep.
    wakes_at: Instant,
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
            exp: soon(scene),
            tools: None,
            jti: None,
        };
        let times = Times {
            opened: scene.now(),
            heard: scene.now(),
            asked: None,
            token_ends: claims.ends_at(),
        };
        let conversation = Conversation::new(&scene.shared, claims);
        scene.books.dials(&conversation.mailbox);
        let mut peer = Peer {
            client,
            mailbox: conversation.mailbox.clone(),
            conversation: Some(conversation),
            flag: Flag::new(),
            times,
            wakes_at: scene.now(),
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
        self.sends(Sent::Text(text), scene);
    }

    fn sends(&mut self, sent: Sent, scene: &mut Scene) {
        if self.silent {
            return;
        }
        let last = self.wire.back().map_or(scene.now(), |(at, _)| *at);
        let at = last.max(scene.now() + scene.random.delay());
        self.wire.push_back((at, sent));
    }

    /// Sends a fresh token, which may be another client's or over already.
    fn renews(&mut self, scene: &mut Scene) {
        let own = !scene.random.one_in(6);
        let of = if own { self.client } else { 1 - self.client };
        let client_id: ClientId = scene.ids[of].clone();
        let exp = match scene.random.one_in(6) {
            true => UnixSeconds(scene.shared.wall().0 - TOKEN_LEEWAY.as_secs() - 1),
            false => soon(scene),
        };
        let claims = Mint {
            client_id: &client_id,
            may_connect: true,
            may_call: false,
            iat: scene.shared.wall(),
            exp,
            jti: "1",
            audience: None,
            tools: None,
        };
        let text = client::auth(&mint(&scene.shared.secrets(), &claims));
        self.sends(Sent::Auth(text, own, exp), scene);
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
        match scene.random.below(14) {
            8..10 => self.renews(scene),
            10.. => {
                let uri = URIS[scene.random.below(URIS.len())];
                let params = format!(r#"{{"uri":"{uri}"}}"#);
                let note = client::notify(None, "notifications/resources/updated", &params);
                self.send(note.unwrap_or_default(), scene);
            }
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
        let due = self.wakes_at <= now || self.reads_at.take_if(|at| *at <= now).is_some();
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
        if let Some(conversation) = &self.conversation {
            self.wakes_at =
                conversation.channel.deadline(now, scene.shared.wall(), REGISTER_TIMEOUT);
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
                    self.times.hears(scene.now());
                    // A pong tells this client nothing.
                    ended = conversation.text(&scene.shared, text.into()).is_err();
                }
                Some((_, Sent::Auth(text, own, exp))) => {
                    conversation.channel.heard(scene.now());
                    self.times.hears(scene.now());
                    let early = !conversation.channel.is_registered();
                    let ends = UnixSeconds(exp.0 + TOKEN_LEEWAY.as_secs());
                    let good = !early && own && scene.shared.wall() < ends;
                    ended = conversation.text(&scene.shared, text.into()).is_err();
                    if good == ended {
                        let wall = scene.shared.wall();
                        return Err(format!(
                            "a token until {ends:?}, own: {own}, at {wall:?}: {good}"
                        ));
                    }
                    if good {
                        scene.renewals += 1;
                        if scene.planted == Planted::ForgottenRenewal {
                            conversation.channel.renew(self.times.token_ends);
                        }
                        self.times.token_ends = ends;
                    }
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
                scene.books.replaced(&scene.ids[self.client], &self.mailbox)?;
                self.silent = true;
            }
        }
        if !ended {
            ended = self.looks_at_clock(&mut conversation, scene)?;
        }
        self.conversation = Some(conversation);
        Ok(ended)
    }

    /// Whether the connection is over; fails when that is for no reason, or late.
    fn looks_at_clock(
        &mut self,
        conversation: &mut Conversation,
        scene: &mut Scene,
    ) -> Result<bool, String> {
        let (now, wall) = (scene.now(), scene.shared.wall());
        let read = match scene.planted {
            // Deadlines of silence by a clock that people set.
            Planted::WrongClock => scene.now_by_the_wall(),
            _ => now,
        };
        let registered = conversation.channel.is_registered();
        let times = &mut self.times;
        let (expired, unregistered) =
            (times.is_expired(wall), times.is_unregistered(registered, now));
        match conversation.channel.tick(read, wall, REGISTER_TIMEOUT) {
            Some(Tick::Close(close)) => {
                let is_just = match close {
                    Close::BadToken(_) => expired,
                    Close::NoRegister(_) => unregistered,
                    Close::Silent(_) => times.is_silent(now),
                    _ => false,
                };
                let since = now - times.heard;
                is_just.then_some(true).ok_or_else(|| {
                    let ends = times.token_ends;
                    format!(
                        "unjustly closed: {close}, heard {since:?} ago, at {wall:?} of {ends:?}"
                    )
                })
            }
            _ if expired || unregistered || times.is_silent(now) => {
                Err(format!("a connection outlived its time: expired is {expired}"))
            }
            Some(Tick::Ping) if now - times.heard < PING_AFTER => {
                Err(format!("unjustly asked, heard {:?} ago", now - times.heard))
            }
            Some(Tick::Ping) => {
                times.asked = Some(now);
                // A browser answers it, if it is there.
                if !self.silent && !scene.random.one_in(4) {
                    conversation.channel.heard(now);
                    times.hears(now);
                }
                Ok(false)
            }
            None => Ok(false),
        }
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
            _ => {}
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

    /// Says something about a running call; not every agent wants to know.
    fn logs(&mut self, id: &str, marker: &str, scene: &mut Scene) {
        let level = ["debug", "info", "warning", "emergency"][scene.random.below(4)];
        let log = format!(r#"{{"level":"{level}","data":"{marker}"}}"#);
        let log = client::notify(Some(id), "notifications/message", &log);
        self.send(log.unwrap_or_default(), scene);
    }

    fn answers(&mut self, id: &str, marker: &str, scene: &mut Scene) {
        let progress = format!(r#"{{"progress":1,"message":"{marker}"}}"#);
        let note = client::notify(Some(id), "notifications/progress", &progress);
        let result = client::result(id, &client::text_result(&format!("echo:{marker};")));
        if scene.random.one_in(4) {
            self.logs(id, marker, scene);
        }
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

/// An `exp` that comes within the history, or not.
fn soon(scene: &mut Scene) -> UnixSeconds {
    let most = [30, 200, 10_000][scene.random.below(3)];
    UnixSeconds(scene.shared.wall().0 + 1 + scene.random.next() % most)
}
