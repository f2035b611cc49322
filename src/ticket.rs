//! One call and its return address: made by the agent's connection, carried to the client's, answered once.
//!
//! The registry never sees the answer: it goes straight from the client's connection to the agent's. When
//! the agent's side drops its end, that is the cancel; nothing else has to remember to clean up.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use async_tungstenite::tungstenite::Utf8Bytes;
use clientmcp_proto::agent::Call;
use clientmcp_proto::channel::{CallId, Outcome};
use clientmcp_proto::client_id::ClientId;
use clientmcp_proto::fault::{Fault, Trouble};

use crate::mailbox::{Item, Mailbox};

/// What an agent's connection hears about its call.
pub enum Reply {
    /// The client ended it; the spans of `outcome` point into `message`.
    Outcome { message: Utf8Bytes, outcome: Outcome },
    /// It could not be completed.
    Trouble(Trouble),
    /// It was refused before it was sent.
    Fault(Fault),
    /// The agent cancelled it by a notification: it gets no response at all.
    Cancelled,
}

pub struct Ticket {
    pub id: CallId,
    pub client_id: ClientId,
    pub call: Call,
    /// The body that the call's spans point into.
    pub body: Rc<str>,
    state: RefCell<State>,
    replies: RefCell<VecDeque<Reply>>,
    waker: Cell<Option<Waker>>,
    /// The raw `Implementation` of the server that the call was last matched with.
    server_info: RefCell<Box<str>>,
}

enum State {
    /// With the registry.
    Waiting,
    /// In a client's mailbox, not written.
    Queued(Rc<Mailbox>),
    /// Written, wholly or in part: it may run, and is never sent again.
    Written(Rc<Mailbox>),
    Ended,
}

impl Ticket {
    pub fn new(id: CallId, client_id: ClientId, call: Call, body: Rc<str>) -> Rc<Ticket> {
        Rc::new(Ticket {
            id,
            client_id,
            call,
            body,
            state: RefCell::new(State::Waiting),
            replies: RefCell::default(),
            waker: Cell::default(),
            server_info: RefCell::default(),
        })
    }

    /// Ends the call with this, unless it is ended already.
    pub fn end(&self, reply: Reply) {
        if !self.is_ended() {
            self.enter(State::Ended);
            self.tell(reply);
        }
    }

    /// Nobody waits any more: a call that was sent is cancelled at the client.
    pub fn abandon(&self, reason: &'static str) {
        let before = self.enter(State::Ended);
        if let State::Written(mailbox) = before {
            mailbox.push(Item::Cancel { id: self.id, reason });
        }
    }

    /// The agent took the call back by a notification: its response ends without an answer.
    pub fn cancel(&self) {
        self.abandon("the agent cancelled the call");
        self.tell(Reply::Cancelled);
    }

    /// Ends the call for a reason of the bridge's own; a client that runs it is told.
    pub fn give_up(&self, trouble: Trouble, reason: &'static str) {
        if !self.is_ended() {
            self.abandon(reason);
            self.tell(Reply::Trouble(trouble));
        }
    }

    fn tell(&self, reply: Reply) {
        self.replies.borrow_mut().push_back(reply);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// The next thing to be told about the call.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<Reply> {
        match self.replies.borrow_mut().pop_front() {
            Some(reply) => Poll::Ready(reply),
            None => {
                self.waker.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }

    pub fn is_ended(&self) -> bool {
        matches!(*self.state.borrow(), State::Ended)
    }

    /// Puts the call into a client's mailbox.
    pub fn queue(self: &Rc<Self>, mailbox: &Rc<Mailbox>) {
        self.enter(State::Queued(mailbox.clone()));
        mailbox.push(Item::Call(self.clone()));
    }

    /// Takes the call back from a client it was never written to.
    pub fn unqueue(&self) {
        if !self.is_ended() {
            self.enter(State::Waiting);
        }
    }

    /// The call is being written to the client.
    pub fn written(&self) {
        let mailbox = match &*self.state.borrow() {
            State::Queued(mailbox) => mailbox.clone(),
            _ => return,
        };
        self.enter(State::Written(mailbox));
    }

    /// The bytes the call occupies in a queue.
    pub fn bytes(&self) -> usize {
        self.call.params.end() - self.call.params.start() + self.call.agent.len()
    }

    pub fn server_info(&self) -> std::cell::Ref<'_, Box<str>> {
        self.server_info.borrow()
    }

    pub fn serve_as(&self, server_info: String) {
        *self.server_info.borrow_mut() = server_info.into();
    }

    /// Every change of state goes through here, so that the mailbox's counts are right.
    fn enter(&self, next: State) -> State {
        let before = self.state.replace(next);
        match &before {
            State::Queued(mailbox) => {
                mailbox.queued_bytes.set(mailbox.queued_bytes.get() - self.bytes());
                mailbox.calls.set(mailbox.calls.get() - 1);
            }
            State::Written(mailbox) => mailbox.calls.set(mailbox.calls.get() - 1),
            State::Waiting | State::Ended => {}
        }
        match &*self.state.borrow() {
            State::Queued(mailbox) => {
                mailbox.queued_bytes.set(mailbox.queued_bytes.get() + self.bytes());
                mailbox.calls.set(mailbox.calls.get() + 1);
            }
            State::Written(mailbox) => mailbox.calls.set(mailbox.calls.get() + 1),
            State::Waiting | State::Ended => {}
        }
        before
    }
}
