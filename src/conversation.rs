//! One client's conversation without its socket: each message to what it means for the bridge, each wish
//! of the bridge to the message that tells it.
//!
//! What may be said when is `proto::channel`'s decision; here it reaches the tickets and the registry.
//! `connection` reads and writes the texts, and says when it is over; the simulation does the same
//! without a network.

use std::borrow::Cow;
use std::rc::Rc;

use async_tungstenite::tungstenite::Utf8Bytes;
use clientmcp_proto::channel::{self, Channel, Step};
use clientmcp_proto::client_id::ClientId;
use clientmcp_proto::fault::{Close, Trouble};
use clientmcp_proto::limits;
use clientmcp_proto::offer::{self, Offer};
use clientmcp_proto::span::Span;
use clientmcp_proto::token::Claims;

use crate::log;
use crate::mailbox::{Item, Mailbox};
use crate::registry::{Join, Request};
use crate::revoked::Revoked;
use crate::shared::Shared;
use crate::ticket::{Reply, Ticket};
use crate::upgrade;

/// A message to the client.
pub enum Outgoing {
    Text(Cow<'static, str>),
    /// A call, whose params are not copied.
    Call {
        before: String,
        params: Params,
        after: String,
    },
}

/// The raw params of a call.
pub enum Params {
    Own(String),
    /// As they stand in the body that the agent sent.
    Lent(Rc<String>, Span),
}

impl Outgoing {
    /// The parts that the message is made of.
    pub fn parts(&self) -> [&str; 3] {
        match self {
            Outgoing::Text(text) => [text, "", ""],
            Outgoing::Call { before, params, after } => [before, params.text(), after],
        }
    }
}

impl Params {
    pub fn text(&self) -> &str {
        match self {
            Params::Own(text) => text,
            Params::Lent(body, span) => span.of(body),
        }
    }
}

/// Boxed once more, because eight bytes of a sleeping connection are enough for what most do without.
struct Jti(Box<str>);

pub struct Conversation {
    pub client_id: ClientId,
    /// The token's own name, by which it can be revoked; not kept where nothing is revoked.
    jti: Option<Box<Jti>>,
    pub mailbox: Rc<Mailbox>,
    pub channel: Channel<Rc<Ticket>>,
}

impl Conversation {
    pub fn new(shared: &Shared, claims: Claims) -> Conversation {
        let mailbox = Rc::new(Mailbox::new(shared.next_connection()));
        shared.met(&mailbox);
        Conversation {
            channel: Channel::new(shared.now(), claims.ends_at()),
            client_id: claims.client_id,
            jti: revocable(shared, claims.jti),
            mailbox,
        }
    }

    /// Takes a message of the client. What comes back is to be sent at once.
    pub fn text(
        &mut self,
        shared: &Shared,
        text: Utf8Bytes,
    ) -> Result<Option<&'static str>, Close> {
        match self.channel.text(&text) {
            Step::Nothing => {}
            Step::Pong => return Ok(Some(channel::PONG)),
            Step::Register => self.register(shared, &text)?,
            Step::Renew(token) => {
                let token = token.into_owned();
                self.renew(shared, &token)?;
            }
            Step::Reply { to, outcome } => to.answer(text, outcome),
            Step::Note { to, method, params } => {
                let params = params.map_or("{}", |span| span.of(&text));
                to.note(&method, params, shared.now());
            }
            Step::Updated { uri } => {
                let (client_id, uri) = (self.client_id.clone(), uri.into_owned());
                shared.tell(Request::Updated { client_id, uri });
            }
            Step::Close(close) => return Err(close),
        }
        Ok(None)
    }

    /// A register is with the registry, and its answer not written.
    pub fn is_joining(&self) -> bool {
        self.mailbox.joining.get()
    }

    fn register(&mut self, shared: &Shared, text: &str) -> Result<(), Close> {
        let limits = offer::Limits {
            register_bytes_max: shared.config.register_bytes_max,
            definitions_max: shared.config.definitions_max,
        };
        let (offer, refused) = Offer::check(text, &limits).map_err(|fault| {
            // What is wrong with the whole message is its size, one way or the other: it is JSON.
            if fault.path.is_none() {
                let flag = match text.len() > limits.register_bytes_max {
                    true => "--max-register-bytes",
                    false => "--max-definitions",
                };
                log::bound(flag, "a register is too large", &[("client", &self.client_id)]);
            }
            Close::BadMessage { path: fault.path, message: fault.message }
        })?;
        let (now, per_minute) = (shared.now(), shared.config.registers_per_minute_max);
        self.channel.count_register(now, per_minute);
        if self.channel.rests_until(per_minute) > now {
            let what = "a client registers too often, it is read later";
            log::bound("--max-registers-per-minute", what, &[("client", &self.client_id)]);
        }
        if !self.channel.is_registered() {
            // Until now the registry did not know it, and did not say when the list was read again.
            if self.is_revoked(&shared.revoked()) {
                return Err(token_revoked());
            }
            shared.metrics.clients.up();
            self.channel.joined();
            self.mailbox.registered.set(true);
        }
        for refused in &refused {
            log::limited(
                "definition-refused",
                log::Level::Warn,
                "definition refused",
                &[
                    ("client", &self.client_id),
                    ("path", &refused.path),
                    ("message", &refused.message),
                ],
            );
        }
        self.mailbox.joining.set(true);
        shared.tell(Request::Join(Box::new(Join {
            client_id: self.client_id.clone(),
            mailbox: self.mailbox.clone(),
            offer,
            refused,
        })));
        Ok(())
    }

    fn is_revoked(&self, revoked: &Revoked) -> bool {
        revoked.covers_token(&self.client_id, self.jti.as_ref().map(|jti| &*jti.0))
    }

    fn renew(&mut self, shared: &Shared, token: &str) -> Result<(), Close> {
        // Whatever is wrong with a fresh token, it is the token that is bad.
        let claims =
            upgrade::verify(shared, token).map_err(|close| Close::BadToken(close.to_string()))?;
        if claims.client_id != self.client_id {
            return Err(Close::BadToken("the fresh token is for another client ID".into()));
        }
        self.channel.renew(claims.ends_at());
        self.jti = revocable(shared, claims.jti);
        Ok(())
    }

    /// The next message to the client; `None` once the mailbox is empty.
    pub fn next(&mut self) -> Option<Outgoing> {
        while let Some(item) = self.mailbox.pop() {
            match item {
                Item::CheckToken(revoked) => {
                    if self.is_revoked(&revoked) {
                        self.mailbox.ask_to_close(token_revoked());
                    }
                }
                Item::Joined { refused } => {
                    self.mailbox.joining.set(false);
                    let text = channel::registered(&self.client_id, &refused);
                    return Some(Outgoing::Text(text.into()));
                }
                Item::Call(ticket) if !ticket.is_open() => {}
                Item::Call(ticket) => match ticket.message() {
                    Some(message) => {
                        ticket.written();
                        self.channel.called(ticket.id(), ticket);
                        return Some(message);
                    }
                    None => {
                        let max = limits::MESSAGE_BYTES_MAX;
                        ticket.end(Reply::Trouble(Trouble::CallTooLarge(max)));
                    }
                },
                Item::Cancel { id, reason } => {
                    if self.channel.forget(id).is_some() {
                        return Some(Outgoing::Text(channel::cancel(id, reason).into()));
                    }
                }
            }
        }
        None
    }

    /// Gives back the calls: those that were written may have run, the others may go elsewhere.
    pub fn end(self, shared: &Shared) {
        let unsent = self.mailbox.close().into_iter().filter_map(|item| match item {
            Item::Call(ticket) if ticket.is_open() => {
                ticket.unqueue();
                Some(ticket)
            }
            _ => None,
        });
        let unsent = unsent.collect();
        if self.channel.is_registered() {
            shared.metrics.clients.down();
        }
        for ticket in self.channel.end() {
            ticket.end(Reply::Trouble(Trouble::MayHaveRun));
        }
        let (client_id, mailbox) = (self.client_id, self.mailbox);
        shared.tell(Request::Leave { client_id, mailbox, unsent });
    }
}

fn token_revoked() -> Close {
    Close::BadToken("token revoked".into())
}

fn revocable(shared: &Shared, jti: Option<Box<str>>) -> Option<Box<Jti>> {
    let jti = jti.filter(|_| shared.config.revoked_file.is_some());
    jti.map(|jti| Box::new(Jti(jti)))
}
