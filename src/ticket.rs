//! One call and its return address: made by the agent's connection, carried to the client's.
//!
//! The registry never sees the answer: it goes straight from the client's connection to the agent's. When
//! the agent's side drops its end, that is the cancel; nothing else has to remember to clean up. A call
//! that the client answers with a question goes to it again, under a new ID, once the agent has answered.

use std::cell::{Cell, OnceCell, Ref, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use async_tungstenite::tungstenite::Utf8Bytes;
use clientmcp_proto::agent::{Call, View};
use clientmcp_proto::channel::{CallId, Outcome};
use clientmcp_proto::client_id::ClientId;
use clientmcp_proto::fault::{Fault, Trouble};
use clientmcp_proto::mcp::{Era, LogLevel};
use clientmcp_proto::notes::{self, Gate, Wanted};
use clientmcp_proto::time::Instant;

use crate::conversation::{Outgoing, Params};
use crate::log;
use crate::mailbox::{Item, Mailbox};

/// What an agent's connection hears about its call.
pub enum Reply {
    /// A progress or log message, complete.
    Note(String),
    /// The client ended it; the spans of `outcome` point into `message`.
    Outcome { message: Utf8Bytes, outcome: Outcome },
    /// It could not be completed.
    Trouble(Trouble),
    /// It was refused before it was sent.
    Fault(Fault),
    /// The agent cancelled it by a notification: it gets no response at all.
    Cancelled,
    /// The agent answered one of the questions it was asked: its number, and the raw result or error.
    Answered(usize, Result<String, String>),
}

pub struct Ticket {
    pub client_id: ClientId,
    pub call: Call,
    /// Of the call as it is under way now.
    id: Cell<CallId>,
    /// The body the agent sent, which the call's spans point into.
    pub body: Rc<String>,
    /// Raw `params` of the call as it is under way now, if they are not those of the body any more.
    again: RefCell<Option<String>>,
    /// The least severe log message that the agent wants.
    level: Cell<Option<LogLevel>>,
    state: RefCell<State>,
    notes: RefCell<Gate>,
    replies: RefCell<VecDeque<Reply>>,
    waker: Cell<Option<Waker>>,
    /// The raw `Implementation` of the server that the call was last matched with.
    server_info: RefCell<Box<str>>,
    /// What it shares with the other calls of its batch.
    batch: OnceCell<Rc<Batch>>,
    /// Where the registry finds it, until it is over.
    running: OnceCell<Rc<Running>>,
}

/// The calls of one client that are not over. Each leaves by itself: what is left of a call that has
/// ended would be half a kilobyte for as long as anything points to it.
#[derive(Default)]
pub struct Running(RefCell<Vec<Weak<Ticket>>>);

impl Running {
    /// Notes a call, once.
    pub fn add(self: &Rc<Self>, ticket: &Rc<Ticket>) {
        if !ticket.is_over() && ticket.running.set(self.clone()).is_ok() {
            self.0.borrow_mut().push(Rc::downgrade(ticket));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// All of them, so that they can be ended while one goes through them.
    pub fn all(&self) -> Vec<Rc<Ticket>> {
        self.0.borrow().iter().filter_map(Weak::upgrade).collect()
    }

    fn remove(&self, ticket: &Ticket) {
        let mut running = self.0.borrow_mut();
        let is_it = |known: &Weak<Ticket>| std::ptr::eq(known.as_ptr(), ticket);
        if let Some(at) = running.iter().position(is_it) {
            running.swap_remove(at);
        }
    }
}

/// The answers of one batch that its agent has not read yet. One answer is bounded by a message; a
/// hundred of them need a bound of their own.
pub struct Batch {
    waiting: Cell<usize>,
    bytes_max: usize,
}

impl Batch {
    pub fn new(bytes_max: usize) -> Rc<Batch> {
        Rc::new(Batch { waiting: Cell::new(0), bytes_max })
    }

    /// Takes room for one more answer, if there is some. A single one always has it.
    fn take(&self, bytes: usize) -> bool {
        let waiting = self.waiting.get();
        let fits = waiting == 0 || waiting + bytes <= self.bytes_max;
        if fits {
            self.waiting.set(waiting + bytes);
        }
        fits
    }

    pub fn is_half_full(&self) -> bool {
        self.waiting.get() > self.bytes_max / 2
    }

    /// So much was written, or is not needed any more.
    pub fn give_back(&self, bytes: usize) {
        self.waiting.set(self.waiting.get() - bytes);
    }
}

impl Reply {
    /// The bytes that it takes of its batch.
    pub fn bytes(&self) -> usize {
        match self {
            Reply::Outcome { message, .. } => message.len(),
            _ => 0,
        }
    }
}

enum State {
    /// With the registry.
    Waiting,
    /// In a client's mailbox, not written.
    Queued(Rc<Mailbox>),
    /// Written, wholly or in part: it may run, and is never sent again.
    Written(Rc<Mailbox>),
    /// The client has ended it; the agent's side decides whether that is all.
    Answered,
    /// Nobody waits any more.
    Over,
}

impl Ticket {
    pub fn new(
        id: CallId,
        client_id: ClientId,
        call: Call,
        body: Rc<String>,
        now: Instant,
    ) -> Rc<Ticket> {
        Rc::new(Ticket {
            client_id,
            id: Cell::new(id),
            again: RefCell::default(),
            level: Cell::new(call.log_level),
            call,
            body,
            state: RefCell::new(State::Waiting),
            notes: RefCell::new(Gate::new(now)),
            replies: RefCell::default(),
            waker: Cell::default(),
            server_info: RefCell::default(),
            batch: OnceCell::new(),
            running: OnceCell::new(),
        })
    }

    pub fn id(&self) -> CallId {
        self.id.get()
    }

    // The client's side.

    /// The client ended the call.
    pub fn answer(&self, message: Utf8Bytes, outcome: Outcome) {
        if !self.is_open() {
            return;
        }
        if self.batch.get().is_some_and(|batch| !batch.take(message.len())) {
            let what = "the answers of a batch wait for their agent";
            log::bound("--max-stream-bytes", what, &[("client", &self.client_id)]);
            return self.end(Reply::Trouble(Trouble::BadReply));
        }
        self.enter(State::Answered);
        self.notes.borrow_mut().finish(self.level.get());
        self.tell(Reply::Outcome { message, outcome });
    }

    /// The client sent a notification for the running call.
    pub fn note(&self, method: &str, params: &str, now: Instant) {
        let progress_token = self.call.progress_token.as_deref();
        let wanted = Wanted { progress_token, level: self.level.get() };
        if self.is_open()
            && let Some(note) = notes::relay(wanted, method, params)
        {
            self.notes.borrow_mut().put(note, now);
            self.wake();
        }
    }

    /// The channel message that carries the call; `None` when it would be too large.
    pub fn message(&self) -> Option<Outgoing> {
        let params = match &*self.again.borrow() {
            Some(params) => Params::Own(params.clone()),
            None if self.call.params.is_empty() => {
                Params::Own(self.call.params_of(&self.body).to_owned())
            }
            None => Params::Lent(self.body.clone(), self.call.params),
        };
        let length = params.text().len();
        let (before, after) = self.call.around_params(&self.id().to_string(), length)?;
        Some(Outgoing::Call { before, params, after })
    }

    /// Shares the room for answers with other calls.
    pub fn join_batch(&self, batch: Rc<Batch>) {
        // A call is in one batch, and joins it before it goes anywhere.
        self.batch.get_or_init(|| batch);
    }

    // The registry's side.

    /// Ends the call with this, unless it has ended already.
    pub fn end(&self, reply: Reply) {
        if self.is_open() {
            self.enter(State::Answered);
            self.notes.borrow_mut().finish(self.level.get());
            self.tell(reply);
        }
    }

    /// The agent took the call back by a notification: its response ends without an answer.
    pub fn cancel(&self) {
        self.abandon("the agent cancelled the call");
        self.tell(Reply::Cancelled);
    }

    /// Ends the call for a reason of the bridge's own; a client that runs it is told.
    pub fn give_up(&self, trouble: Trouble, reason: &'static str) {
        if !self.is_over() {
            self.abandon(reason);
            self.tell(Reply::Trouble(trouble));
        }
    }

    /// The agent answered a question it was asked.
    pub fn answered(&self, number: usize, result: Result<String, String>) {
        if !self.is_over() {
            self.tell(Reply::Answered(number, result));
        }
    }

    /// The session of the call wants log messages from this level on.
    pub fn wants(&self, level: Option<LogLevel>) {
        self.level.set(level);
    }

    pub fn server_info(&self) -> Ref<'_, Box<str>> {
        self.server_info.borrow()
    }

    /// Notes who serves it, which answers of the 2026 era name.
    pub fn serve_as(&self, view: View<'_>) {
        if self.call.era == Era::Modern {
            *self.server_info.borrow_mut() = view.server_info().into();
        }
    }

    /// Puts the call into a client's mailbox, unless it has ended while it was on its way there.
    pub fn queue(self: &Rc<Self>, mailbox: &Rc<Mailbox>) {
        if !self.is_open() {
            return;
        }
        self.enter(State::Queued(mailbox.clone()));
        mailbox.push(Item::Call(self.clone()));
    }

    /// Takes the call back from a client it was never written to.
    pub fn unqueue(&self) {
        if self.is_open() {
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
        self.with_params(str::len) + self.call.agent.len()
    }

    // The agent's side.

    /// The next thing to be told about the call.
    pub fn poll(&self, cx: &mut Context<'_>, now: Instant) -> Poll<Reply> {
        if let Some(note) = self.notes.borrow_mut().take(now) {
            return Poll::Ready(Reply::Note(note));
        }
        if let Some(reply) = self.replies.borrow_mut().pop_front() {
            return Poll::Ready(reply);
        }
        self.waker.set(Some(cx.waker().clone()));
        Poll::Pending
    }

    /// The call goes to the client once more, under this ID and with these `params`.
    pub fn again(&self, id: CallId, params: String) {
        if !self.is_over() {
            self.id.set(id);
            *self.again.borrow_mut() = Some(params);
            self.enter(State::Waiting);
        }
    }

    /// Works with the raw `params` of the call as it went out last.
    pub fn with_params<T>(&self, work: impl FnOnce(&str) -> T) -> T {
        match self.again.borrow().as_deref() {
            Some(params) => work(params),
            None => work(self.call.params.of(&self.body)),
        }
    }

    /// Nobody waits any more: a call that was sent is cancelled at the client, one that was not is taken
    /// out of its queue.
    pub fn abandon(&self, reason: &'static str) {
        if let Some(running) = self.running.get() {
            running.remove(self);
        }
        match self.enter(State::Over) {
            State::Queued(mailbox) => mailbox.withdraw(self),
            State::Written(mailbox) => mailbox.push(Item::Cancel { id: self.id(), reason }),
            State::Waiting | State::Answered | State::Over => {}
        }
    }

    /// Whether the client may still end it.
    pub fn is_open(&self) -> bool {
        matches!(*self.state.borrow(), State::Waiting | State::Queued(_) | State::Written(_))
    }

    pub fn is_over(&self) -> bool {
        matches!(*self.state.borrow(), State::Over)
    }

    fn tell(&self, reply: Reply) {
        self.replies.borrow_mut().push_back(reply);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
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
            State::Waiting | State::Answered | State::Over => {}
        }
        match &*self.state.borrow() {
            State::Queued(mailbox) => {
                mailbox.queued_bytes.set(mailbox.queued_bytes.get() + self.bytes());
                mailbox.calls.set(mailbox.calls.get() + 1);
            }
            State::Written(mailbox) => mailbox.calls.set(mailbox.calls.get() + 1),
            State::Waiting | State::Answered | State::Over => {}
        }
        before
    }
}
