//! An agent's notification stream: a GET of the 2025 era or a `subscriptions/listen` of the 2026 era.
//!
//! It says what changed and otherwise sleeps. Between two comments it holds no buffer: what it still has
//! to say is a few bits and names in its slot, so an agent that does not read costs nothing more.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use clientmcp_proto::agent::{Listen, View};
use clientmcp_proto::answer;
use clientmcp_proto::client_id::ClientId;
use clientmcp_proto::limits;
use clientmcp_proto::mcp::Changes;
use clientmcp_proto::sse;

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

    /// This resource changed, which the agent subscribed.
    pub fn updated(&self, uri: &str) {
        self.updated.borrow_mut().insert(uri.to_owned());
        self.wake();
    }

    pub fn end(&self, end: End) {
        self.end.set(Some(self.end.get().unwrap_or(end)));
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// The notifications that are due, as SSE records.
    fn take(&self) -> String {
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
pub async fn run(socket: Socket, framing: Framing, client_id: ClientId, slot: Rc<Slot>) {
    let shared = socket.shared.clone();
    shared.metrics.streams.up();
    let ended = run_until_end(&socket, framing, &client_id, &slot).await;
    shared.metrics.streams.down();
    shared.tell(Request::Unlisten { client_id, slot });
    if ended {
        socket.linger(limits::LINGER).await;
    }
}

/// What a stream is ended as: nobody needs to be registered then.
fn server_info(client_id: &ClientId) -> String {
    View { client_id, offer: None }.server_info()
}

/// Whether the bridge ended it; otherwise the agent is gone.
async fn run_until_end(
    socket: &Socket,
    framing: Framing,
    client_id: &ClientId,
    slot: &Slot,
) -> bool {
    let shared = &socket.shared;
    let mut timer = Timer::new(shared.clone());
    loop {
        let comment_at = shared.now() + limits::COMMENT_INTERVAL;
        // Whatever an agent sends on a stream's connection is discarded, so that its hang-up is seen.
        let mut discarded = Vec::new();
        let still_there = poll_fn(|cx| {
            if socket.poll_hang_up(cx, &mut discarded).is_ready() {
                return Poll::Ready(false);
            }
            discarded.clear();
            if !slot.is_quiet() || timer.poll(cx, comment_at).is_ready() {
                return Poll::Ready(true);
            }
            slot.waker.set(Some(cx.waker().clone()));
            Poll::Pending
        });
        if !still_there.await {
            return false;
        }
        drop(discarded);
        let mut text = slot.take();
        let end = slot.end.get();
        if let (Some(End::Stopping), Some(id)) = (end, &slot.listen.subscription) {
            text.push_str(&sse::event(&answer::listen_result(id, &server_info(client_id))));
        }
        if text.is_empty() && end.is_none() {
            text.push_str(sse::KEEP_ALIVE);
        }
        if !text.is_empty() && framing.write(socket, &text).await.is_err() {
            return false;
        }
        if end.is_some() {
            return framing.finish(socket).await.is_ok();
        }
    }
}
