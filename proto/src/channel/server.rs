//! The bridge's end of a channel.
//!
//! Knows what the client may say when, which calls it is running, and when it has been silent for too
//! long. Does not know what a register offers (`offer` checks it) nor how agents are answered. `R` is
//! the return address of a call, which the driver chooses.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use core::time::Duration;

use super::CallId;
use crate::fault::Close;
use crate::json;
use crate::limits::{PING_AFTER, SILENT_AFTER};
use crate::reply::{self, ErrorShape, Message, Shape};
use crate::span::Span;
use crate::time::{Instant, UnixSeconds};

/// One client's conversation.
pub struct Channel<R> {
    /// Whether a first register was accepted; until then nothing but it and `ping` may come.
    registered: bool,
    /// Whether a WebSocket ping was sent since the client was last heard.
    pinged: bool,
    /// How many registers more the rate allows, as the one number of a leaky bucket: when it will be
    /// empty, in milliseconds since `opened`. 49 days fit; later there is no rate.
    registers_until: u32,
    opened: Instant,
    /// When the client was last heard, or would have been heard last had the ping gone out on time.
    heard: Instant,
    token_ends: UnixSeconds,
    /// The calls that were written to the client and are not ended.
    calls: BTreeMap<CallId, R>,
}

/// What a client's message asks the driver to do.
#[derive(Debug)]
pub enum Step<'a, R> {
    /// Nothing: the message was allowed and has no effect.
    Nothing,
    /// Send [`PONG`](super::PONG).
    Pong,
    /// Check the message as a register; on success hand it to the registry, then call `joined`.
    Register,
    /// Verify this token; on success call `renew`, else close.
    Renew(Cow<'a, str>),
    /// This call is over; tell whoever waits for it.
    Reply {
        /// The return address of the call.
        to: R,
        /// What the client answered.
        outcome: Outcome,
    },
    /// A notification that belongs to a running call.
    Note {
        /// The return address of the call, which goes on.
        to: &'a R,
        /// The client's word for it; any method may come here.
        method: Cow<'a, str>,
        /// Where in the message the params lie: an object.
        params: Option<Span>,
    },
    /// This resource changed; tell whoever subscribed it.
    Updated {
        /// As the client wrote it, decoded.
        uri: Cow<'a, str>,
    },
    /// Send the fault and close.
    Close(Close),
}

/// How a client ended a call; the spans point into its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With an MCP result.
    Result(Shape),
    /// With a JSON-RPC error.
    Error(ErrorShape),
}

/// What a passed deadline asks the driver to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Tick {
    /// Send a WebSocket ping.
    Ping,
    /// Send the fault and close.
    Close(Close),
}

impl<R> Channel<R> {
    /// A channel whose handshake has just been completed with a token that ends at `token_ends`.
    pub fn new(now: Instant, token_ends: UnixSeconds) -> Channel<R> {
        Channel {
            registered: false,
            pinged: false,
            registers_until: 0,
            opened: now,
            heard: now,
            token_ends,
            calls: BTreeMap::new(),
        }
    }

    /// Any frame counts as a sign of life, a pong included.
    pub fn heard(&mut self, now: Instant) {
        self.heard = now;
        self.pinged = false;
    }

    /// Takes one text message.
    pub fn text<'a>(&'a mut self, text: &'a str) -> Step<'a, R> {
        let message = match reply::read(text) {
            Ok(message) => message,
            Err(close) => return Step::Close(close),
        };
        match message {
            Message::Ping => Step::Pong,
            Message::Register => Step::Register,
            _ if !self.registered => Step::Close(Close::BadMessage {
                path: Some("type".into()),
                message: "the first message must be a register".into(),
            }),
            Message::Auth { token } => Step::Renew(token),
            Message::Result { id, shape } => self.ended(&id, Outcome::Result(shape)),
            Message::Error { id, error } => self.ended(&id, Outcome::Error(error)),
            Message::Notify { method, params, id: None } => {
                let params = params.map(|span| span.of(text));
                match params.and_then(uri).filter(|_| method == "notifications/resources/updated") {
                    Some(uri) => Step::Updated { uri },
                    None => Step::Nothing,
                }
            }
            Message::Notify { method, params, id: Some(id) } => {
                match CallId::parse(&id).and_then(|id| self.calls.get(&id)) {
                    Some(to) => Step::Note { to, method, params },
                    None => Step::Nothing,
                }
            }
        }
    }

    /// An unknown or ended ID is never fatal: the cancel and the result may have crossed.
    fn ended(&mut self, id: &str, outcome: Outcome) -> Step<'_, R> {
        match CallId::parse(id).and_then(|id| self.calls.remove(&id)) {
            Some(to) => Step::Reply { to, outcome },
            None => Step::Nothing,
        }
    }

    /// Counts a register that was accepted. Then look at [`rests_until`](Channel::rests_until).
    pub fn count_register(&mut self, now: Instant, per_minute: usize) {
        let since = u32::try_from(now.since(self.opened).as_millis()).unwrap_or(u32::MAX);
        let until = self.registers_until.max(since);
        self.registers_until = until.saturating_add(each(per_minute));
    }

    /// Until when nothing more should be read from this client, because it has used up its registers of
    /// a minute; not later than `now` when it may go on.
    pub fn rests_until(&self, per_minute: usize) -> Instant {
        let rest = self.registers_until.saturating_sub(MINUTE - each(per_minute));
        match rest {
            0 => Instant::default(),
            _ => self.opened + Duration::from_millis(u64::from(rest)),
        }
    }

    /// The registry has taken the first register.
    pub fn joined(&mut self) {
        self.registered = true;
    }

    /// A fresh token was accepted.
    pub fn renew(&mut self, token_ends: UnixSeconds) {
        self.token_ends = token_ends;
    }

    /// A call was written to the client; its answer goes to `to`.
    pub fn called(&mut self, id: CallId, to: R) {
        self.calls.insert(id, to);
    }

    /// Forgets a call that nobody waits for; `Some` when it was still running, so that the client has
    /// to be told.
    pub fn forget(&mut self, id: CallId) -> Option<R> {
        self.calls.remove(&id)
    }

    /// Ends the conversation; the running calls will get no answer.
    pub fn end(self) -> impl Iterator<Item = R> {
        self.calls.into_values()
    }

    /// Whether a first register was accepted.
    pub fn is_registered(&self) -> bool {
        self.registered
    }

    /// When `tick` has something to do next; `now` and `wall` are read at the same moment.
    /// `register_timeout` is how long the first register may take.
    pub fn deadline(&self, now: Instant, wall: UnixSeconds, register_timeout: Duration) -> Instant {
        let left = self.token_ends.0.saturating_sub(wall.0);
        let token = now + Duration::from_secs(left);
        let silence = self.heard + if self.pinged { SILENT_AFTER } else { PING_AFTER };
        let next = token.min(silence);
        if self.registered { next } else { next.min(self.opened + register_timeout) }
    }

    /// Looks at the clocks. To be called at the deadline, or at any time.
    pub fn tick(
        &mut self,
        now: Instant,
        wall: UnixSeconds,
        register_timeout: Duration,
    ) -> Option<Tick> {
        if wall >= self.token_ends {
            return Some(Tick::Close(Close::BadToken("token expired".into())));
        }
        if !self.registered && now.since(self.opened) >= register_timeout {
            return Some(Tick::Close(Close::NoRegister(register_timeout.as_secs())));
        }
        let silence = now.since(self.heard);
        if silence >= PING_AFTER && !self.pinged {
            self.pinged = true;
            // A host that slept was not there to ask, and must not judge before it has: the client has
            // as long as any other from its ping on.
            let asked_on_time = now.0.saturating_sub(PING_AFTER.as_millis() as u64);
            self.heard = self.heard.max(Instant(asked_on_time));
            return Some(Tick::Ping);
        }
        if silence >= SILENT_AFTER {
            return Some(Tick::Close(Close::Silent(SILENT_AFTER.as_secs())));
        }
        None
    }
}

/// In milliseconds, as rates are counted.
const MINUTE: u32 = 60_000;

/// The time of one register when so many may come in a minute.
fn each(per_minute: usize) -> u32 {
    let per_minute = u32::try_from(per_minute).unwrap_or(MINUTE);
    MINUTE / per_minute.clamp(1, MINUTE)
}

fn uri(params: &str) -> Option<Cow<'_, str>> {
    let members = json::members(params).ok()?;
    members.iter().find(|(name, _)| name == "uri").and_then(|(_, raw)| json::string(raw))
}
