//! A connection's inbox: what the registry and the agents want from it, in order.
//!
//! Not a flume queue because fifty thousand of them sleep at once: this one is 72 bytes while empty. It
//! is bounded by its senders: the registry counts calls and bytes before it puts a call in, and all else
//! is at most one item per call or register.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use clientmcp_proto::channel::CallId;
use clientmcp_proto::fault::Close;
use clientmcp_proto::offer::Refused;

use crate::revoked::Revoked;
use crate::ticket::Ticket;

pub enum Item {
    /// Look whether the token has been revoked: this list is new.
    CheckToken(Rc<Revoked>),
    /// The registry took a register; tell the client.
    Joined {
        refused: Vec<Refused>,
    },
    Call(Rc<Ticket>),
    Cancel {
        id: CallId,
        reason: &'static str,
    },
}

#[derive(Default)]
pub struct Mailbox {
    /// Counts the connections, so that of two it is known which is the newer. It may start over.
    number: u32,
    /// Only while there is something in it.
    #[allow(clippy::box_collection)] // 8 bytes asleep where the bare one takes 32
    queue: Cell<Option<Box<VecDeque<Item>>>>,
    waker: Cell<Option<Waker>>,
    closed: Cell<bool>,
    /// The connection is to be closed for this reason. Not in the queue, because a client that does not
    /// read is closed without it.
    closing: Cell<Option<Box<Close>>>,
    /// The registry knows whose it is.
    pub registered: Cell<bool>,
    /// A register of its connection is with the registry, and the answer not written.
    pub joining: Cell<bool>,
    /// Calls of this client that are not ended, written or not.
    pub calls: Cell<usize>,
    /// Bytes of the calls that are not written yet.
    pub queued_bytes: Cell<usize>,
}

impl Mailbox {
    pub fn new(number: u32) -> Mailbox {
        Mailbox { number, ..Mailbox::default() }
    }

    /// Whether it belongs to a connection that was let in before that of `other`.
    pub fn is_older_than(&self, other: &Mailbox) -> bool {
        // Less than half of all numbers apart.
        self.number.wrapping_sub(other.number) > u32::MAX / 2
    }

    pub fn push(&self, item: Item) {
        if self.closed.get() {
            return;
        }
        let mut queue = self.queue.take().unwrap_or_default();
        queue.push_back(item);
        self.queue.set(Some(queue));
        self.wake();
    }

    /// Asks the connection to close, once what is in the queue is written or cannot be.
    pub fn ask_to_close(&self, close: Close) {
        self.closing.set(Some(Box::new(close)));
        self.wake();
    }

    /// What the connection was asked to close for.
    pub fn closing(&self) -> Option<Close> {
        self.closing.take().map(|close| *close)
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    pub fn pop(&self) -> Option<Item> {
        let mut queue = self.queue.take()?;
        let item = queue.pop_front();
        if !queue.is_empty() {
            self.queue.set(Some(queue));
        }
        item
    }

    /// Takes a call out that is over. Its client may be one that does not read: calls that nobody counts
    /// any more would pile up here, with their bodies.
    pub fn withdraw(&self, call: &Ticket) {
        let Some(mut queue) = self.queue.take() else { return };
        queue.retain(|item| !matches!(item, Item::Call(other) if std::ptr::eq(&**other, call)));
        self.queue.set(Some(queue).filter(|queue| !queue.is_empty()));
    }

    pub fn is_empty(&self) -> bool {
        let queue = self.queue.take();
        let empty = queue.is_none();
        self.queue.set(queue);
        empty
    }

    /// Ready when the connection is asked to close, or, unless it is `blocked`, when there is something
    /// to take out.
    pub fn poll(&self, cx: &mut Context<'_>, blocked: bool) -> Poll<()> {
        let closing = self.closing.take();
        let asked = closing.is_some();
        self.closing.set(closing);
        if asked || !blocked && !self.is_empty() {
            return Poll::Ready(());
        }
        self.waker.set(Some(cx.waker().clone()));
        Poll::Pending
    }

    /// Takes nothing more; returns what was left in it.
    pub fn close(&self) -> VecDeque<Item> {
        self.closed.set(true);
        *self.queue.take().unwrap_or_default()
    }

    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }
}
