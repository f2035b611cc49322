//! An agent's notification stream: a GET of the 2025 era or a `subscriptions/listen` of the 2026 era.
//!
//! It says what changed and otherwise sleeps. Between two comments it holds no buffer: what it still has
//! to say is a few bits and names in its slot, so an agent that does not read costs nothing more.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use clientmcp_proto::agent::{Listen, View};
use clientmcp_proto::answer;
use clientmcp_proto::client_id::ClientId;
use clientmcp_proto::limits;
use clientmcp_proto::mcp::Changes;
use clientmcp_proto::sse;
use clientmcp_proto::time::Instant;

use crate::admission::Place;
use crate::http_body::Framing;
use crate::registry::Request;
use crate::socket::Socket;
use crate::timers::Timer;

/// Why the bridge ends a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The bridge stops: a listen request gets its result.
    Stopping,
    /// A newer stream of the same session, or its DELETE.
    Replaced,
    /// The agent does not read.
    Overrun,
}

/// Where the registry leaves what a stream has to say.
pub struct Slot {
    pub listen: Listen,
    changes: Cell<Changes>,
    updated: RefCell<BTreeSet<String>>,
    end: Cell<Option<End>>,
    waker: Cell<Option<Waker>>,
}

impl Slot {
    pub fn new(listen: Listen) -> Rc<Slot> {
        Rc::new(Slot {
            listen,
            changes: Cell::default(),
            updated: RefCell::default(),
            end: Cell::default(),
            waker: Cell::default(),
        })
    }

    /// These lists changed; what the agent did not ask for is left out.
    pub fn changed(&self, changes: Changes) {
        let wanted = changes.and(self.listen.wants);
        if !wanted.is_empty() {
            self.changes.set(self.changes.get().with(wanted));
            self.wake();
        }
    }

    /// This resource changed, which the agent subscribed. `false` when more than `bytes_max` waited for
    /// an agent that does not read: then the stream ends, because one that leaves something out would be
    /// believed.
    pub fn updated(&self, uri: &str, bytes_max: usize) -> bool {
        if self.end.get() == Some(End::Overrun) {
            return true;
        }
        let mut updated = self.updated.borrow_mut();
        let waiting: usize = updated.iter().map(String::len).sum();
        let fits = waiting == 0 || waiting + uri.len() <= bytes_max || updated.contains(uri);
        match fits {
            true => drop(updated.insert(uri.to_owned())),
            false => updated.clear(),
        }
        drop(updated);
        if fits {
            self.wake();
        } else {
            self.end(End::Overrun);
        }
        fits
    }

    pub fn end(&self, end: End) {
        self.end.set(Some(self.end.get().unwrap_or(end)));
        self.wake();
    }

    /// Why the bridge ends the stream, if it does.
    pub fn ended(&self) -> Option<End> {
        self.end.get()
    }

    /// Ready when there is something to say.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_quiet() {
            return Poll::Ready(());
        }
        self.waker.set(Some(cx.waker().clone()));
        Poll::Pending
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// The notifications that are due, as SSE records.
    pub fn take(&self) -> String {
        let subscription = self.listen.subscription.as_deref();
        let mut events = String::new();
        for method in self.changes.take().methods() {
            events.push_str(&sse::event(&answer::notification(method, subscription, None)));
        }
        for uri in self.updated.take() {
            let method = "notifications/resources/updated";
            let text = answer::notification(method, subscription, Some(&uri));
            events.push_str(&sse::event(&text));
        }
        events
    }

    fn is_quiet(&self) -> bool {
        self.changes.get().is_empty()
            && self.updated.borrow().is_empty()
            && self.end.get().is_none()
    }
}

/// Runs an opened stream to its end. Its head and first bytes are written already.
///
/// As many of these sleep as there are agents that listen: this future is little more than the fields of
/// a `Stream`, and what it does when it wakes is boxed.
pub fn run(
    socket: Socket,
    framing: Framing,
    client_id: ClientId,
    slot: Rc<Slot>,
    place: Place,
) -> impl Future<Output = ()> {
    socket.shared.metrics.streams.up();
    let timer = Timer::new(socket.shared.clone());
    let comment_at = socket.shared.now() + limits::COMMENT_INTERVAL;
    let mut stream = Stream { socket, framing, client_id, slot, timer, comment_at, place };
    async move {
        let ended = loop {
            if !poll_fn(|cx| stream.sleep(cx)).await {
                break false;
            }
            if let Some(told) = Box::pin(stream.speak()).await {
                break told;
            }
        };
        Box::pin(stream.end(ended)).await;
    }
}

struct Stream {
    socket: Socket,
    framing: Framing,
    client_id: ClientId,
    slot: Rc<Slot>,
    timer: Timer,
    comment_at: Instant,
    /// Its place among all connections.
    place: Place,
}

impl Stream {
    /// Ready with `true` when there is something to say, with `false` when the agent is gone.
    fn sleep(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        // Whatever an agent sends on a stream's connection is discarded, so that its hang-up is seen.
        let (mut discarded, mut overrun) = (Vec::new(), false);
        if self.socket.poll_hang_up(cx, &mut discarded, &mut overrun).is_ready() {
            return Poll::Ready(false);
        }
        if self.slot.poll(cx).is_ready() {
            return Poll::Ready(true);
        }
        self.timer.poll(cx, self.comment_at).map(|()| true)
    }

    /// Says what there is to say. `Some` at the end: whether the agent could be told of it.
    async fn speak(&mut self) -> Option<bool> {
        let (socket, slot) = (&self.socket, &self.slot);
        let mut text = slot.take();
        let end = slot.ended();
        if let (Some(End::Stopping), Some(id)) = (end, &slot.listen.subscription) {
            // Nobody needs to be registered now.
            let info = View { client_id: &self.client_id, offer: None }.server_info();
            text.push_str(&sse::event(&answer::listen_result(id, &info)));
        }
        if text.is_empty() && end.is_none() {
            text.push_str(sse::KEEP_ALIVE);
        }
        if !text.is_empty() && self.framing.write(socket, &text).await.is_err() {
            return Some(false);
        }
        self.comment_at = socket.shared.now() + limits::COMMENT_INTERVAL;
        match end {
            Some(_) => Some(self.framing.finish(socket).await.is_ok()),
            None => None,
        }
    }

    async fn end(self, told: bool) {
        let Stream { socket, client_id, slot, place, .. } = self;
        socket.shared.metrics.streams.down();
        socket.shared.tell(Request::Unlisten { client_id, slot });
        if told {
            socket.linger(limits::LINGER).await;
        }
        drop(place);
    }
}
