//! Who is here. One task owns the map; everyone else sends it a `Request`.
//!
//! It never waits for anyone, so one slow client cannot delay another: what it has to say goes into
//! mailboxes and slots, and a full one is an answer. It matches calls with offers and connections, tells
//! streams what changed, and remembers the little there is to remember of a 2025-era session. It never
//! sees a call's answer.

use std::cell::{Cell, RefCell};
use std::collections::hash_map::{DefaultHasher, HashMap};
use std::collections::{BTreeSet, VecDeque};
use std::future::poll_fn;
use std::hash::{Hash, Hasher};
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use clientmcp_proto::agent::{Cancel, Memory, View};
use clientmcp_proto::client_id::ClientId;
use clientmcp_proto::fault::{Close, Fault, Trouble};
use clientmcp_proto::limits;
use clientmcp_proto::mcp::{Changes, Era};
use clientmcp_proto::offer::{List, Offer, Refused};
use clientmcp_proto::time::Instant;

use crate::log;
use crate::mailbox::{Item, Mailbox};
use crate::shared::Shared;
use crate::stream::{End, Slot};
use crate::ticket::{Reply, Running, Ticket};
use crate::timers::Timer;

mod sessions;

use sessions::Sessions;

pub enum Request {
    /// What does this client offer? `memory` is kept for the session, if it names one.
    Look {
        client_id: ClientId,
        memory: Option<(Box<str>, Memory)>,
        reply: flume::Sender<Seen>,
    },
    Call(Rc<Ticket>),
    Cancel(ClientId, Cancel),
    /// Questions under these IDs are about to be put to the agent of this call.
    Expect {
        ids: Vec<String>,
        ticket: Weak<Ticket>,
    },
    /// An agent answers a question, or nobody's.
    Deliver {
        client_id: ClientId,
        id: String,
        result: Result<String, String>,
    },
    /// A client says that a resource changed.
    Updated {
        client_id: ClientId,
        uri: String,
    },
    /// Is a connection of this client there, which a newer one would replace?
    IsOnline {
        client_id: ClientId,
        reply: flume::Sender<bool>,
    },
    /// A notification stream opens; refused when there are too many.
    Listen {
        client_id: ClientId,
        slot: Rc<Slot>,
        reply: flume::Sender<Result<(), Fault>>,
    },
    /// It has ended at the agent's side.
    Unlisten {
        client_id: ClientId,
        slot: Rc<Slot>,
    },
    /// DELETE: the session's stream ends and its memory goes.
    Forget {
        client_id: ClientId,
        session: Box<str>,
    },
    /// A connection's register was accepted, the first or a later one.
    Join(Box<Join>),
    /// A connection is over; these calls were never written to it.
    Leave {
        client_id: ClientId,
        mailbox: Rc<Mailbox>,
        unsent: Vec<Rc<Ticket>>,
    },
    /// The list of revoked tokens changed: every connection looks whether its own is on it.
    CheckTokens,
    /// Stopping, first: what still runs is told that the bridge stops.
    EndCalls,
    /// Stopping, then: every client is told to come back later.
    EndClients,
    /// Stopping, last: every notification stream is completed.
    EndStreams,
}

/// A register that was accepted.
pub struct Join {
    pub client_id: ClientId,
    pub mailbox: Rc<Mailbox>,
    pub offer: Offer,
    pub refused: Vec<Refused>,
}

/// The registry's answer to a look.
pub struct Seen {
    pub offer: Option<Rc<Offer>>,
    /// The memory was refused: the session has no room for it.
    pub full: bool,
}

/// What the registry has not looked at yet: a flume queue, and a new one after a crowd, because a queue
/// keeps the room it once needed, and when ten thousand clients leave at once that is a megabyte for ever.
///
/// Unbounded, because every sender is itself bounded: one request per agent connection, a handful per
/// client.
pub struct Inbox {
    queue: RefCell<(flume::Sender<Request>, flume::Receiver<Request>)>,
    /// The most that has waited in this queue.
    most: Cell<usize>,
    waker: Cell<Option<Waker>>,
}

impl Default for Inbox {
    fn default() -> Inbox {
        let queue = RefCell::new(flume::unbounded());
        Inbox { queue, most: Cell::default(), waker: Cell::default() }
    }
}

impl Inbox {
    pub fn push(&self, request: Request) {
        let queue = self.queue.borrow();
        queue.0.send(request).expect("both ends of the queue live here");
        self.most.set(self.most.get().max(queue.0.len()));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    pub fn pop(&self) -> Option<Request> {
        let mut queue = self.queue.borrow_mut();
        let request = queue.1.try_recv().ok();
        if self.most.get() > INBOX_KEPT && queue.1.is_empty() {
            *queue = flume::unbounded();
            self.most.set(0);
        }
        request
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.queue.borrow().1.is_empty()
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Request> {
        if let Some(request) = self.pop() {
            return Poll::Ready(request);
        }
        self.waker.set(Some(cx.waker().clone()));
        Poll::Pending
    }
}

/// Requests that may wait without the queue being given up afterwards, so that the busy one does not
/// allocate all the time.
const INBOX_KEPT: usize = 64;

/// Runs the registry, for ever.
pub async fn run(shared: Rc<Shared>) {
    let mut registry = Registry::new(shared.clone());
    let mut timer = Timer::new(shared.clone());
    loop {
        let next = registry.next_deadline();
        let received = poll_fn(|cx| {
            if let Poll::Ready(request) = shared.inbox.poll(cx) {
                return Poll::Ready(Some(request));
            }
            match next {
                Some(deadline) => timer.poll(cx, deadline).map(|()| None),
                None => Poll::Pending,
            }
        });
        if let Some(request) = received.await {
            registry.handle(request);
        }
        registry.tick();
    }
}

pub struct Registry {
    shared: Rc<Shared>,
    started: Instant,
    clients: HashMap<ClientId, Entry>,
    /// When to look at which client again; an entry may be out of date, then the look finds nothing.
    due: BTreeSet<(Instant, ClientId)>,
    /// An offer in use for each hash, so that a thousand copies of one application share one.
    offers: HashMap<u64, Weak<Offer>>,
    sessions: Sessions,
    /// Questions put to agents: whose call they belong to, and which of its questions each is.
    expected: HashMap<String, (Weak<Ticket>, usize)>,
    stopping: bool,
    /// When to look for what calls left behind; none without calls since the last time.
    sweep_at: Option<Instant>,
}

/// Nobody tells the registry that a call is over, so it looks from time to time.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// One client ID. Without anything in it the entry is removed.
#[derive(Default)]
struct Entry {
    presence: Presence,
    /// What is registered; outlives the connection by the offline grace.
    offer: Option<Rc<Offer>>,
    /// What only some clients have; boxed so that a sleeping one is small.
    busy: Option<Box<Busy>>,
}

/// One field, because nobody is there and has left: an entry of a sleeping client is this small.
#[derive(Default)]
enum Presence {
    /// Never, or not within the offline grace.
    #[default]
    Absent,
    Online(Rc<Mailbox>),
    Left(Instant),
}

#[derive(Default)]
struct Busy {
    streams: Vec<Rc<Slot>>,
    /// Calls that wait for the client to come back, and until when.
    parked: VecDeque<(Instant, Rc<Ticket>)>,
    /// Every call that may still be cancelled by notification.
    running: Rc<Running>,
    /// Lists that changed since the streams were last told, and when they will be.
    changed: Changes,
    tell_at: Option<Instant>,
}

impl Busy {
    fn is_idle(&self) -> bool {
        self.streams.is_empty()
            && self.parked.is_empty()
            && self.tell_at.is_none()
            && self.running.is_empty()
    }
}

impl Entry {
    fn busy(&mut self) -> &mut Busy {
        self.busy.get_or_insert_default()
    }

    /// Of the connection whose leave has not come.
    fn online(&self) -> Option<&Rc<Mailbox>> {
        match &self.presence {
            Presence::Online(mailbox) => Some(mailbox),
            Presence::Absent | Presence::Left(_) => None,
        }
    }

    fn left_at(&self) -> Option<Instant> {
        match self.presence {
            Presence::Left(at) => Some(at),
            Presence::Absent | Presence::Online(_) => None,
        }
    }

    fn mailbox(&self) -> Option<&Rc<Mailbox>> {
        self.online().filter(|mailbox| !mailbox.is_closed())
    }

    fn is_empty(&self) -> bool {
        matches!(self.presence, Presence::Absent)
            && self.offer.is_none()
            && self.busy.as_ref().is_none_or(|busy| busy.is_idle())
    }
}

impl Registry {
    pub fn new(shared: Rc<Shared>) -> Registry {
        Registry {
            started: shared.now(),
            shared,
            clients: HashMap::new(),
            due: BTreeSet::new(),
            offers: HashMap::new(),
            sessions: Sessions::default(),
            expected: HashMap::new(),
            stopping: false,
            sweep_at: None,
        }
    }

    pub fn handle(&mut self, request: Request) {
        match request {
            Request::Look { client_id, memory, reply } => {
                let full = memory.is_some_and(|(session, memory)| {
                    !self.sessions.remember((client_id.clone(), session), memory)
                });
                let offer = self.clients.get(&client_id).and_then(|entry| entry.offer.clone());
                // The agent may have gone meanwhile.
                reply.send(Seen { offer, full }).ok();
            }
            Request::Call(ticket) => self.call(ticket),
            Request::Cancel(client_id, cancel) => self.cancel(&client_id, &cancel),
            Request::IsOnline { client_id, reply } => {
                let entry = self.clients.get(&client_id);
                reply.send(entry.is_some_and(|entry| entry.mailbox().is_some())).ok();
            }
            Request::Expect { ids, ticket } => {
                self.sweep_at.get_or_insert(self.shared.now() + SWEEP_INTERVAL);
                let ids = ids.into_iter().enumerate();
                self.expected.extend(ids.map(|(number, id)| (id, (ticket.clone(), number))));
            }
            Request::Deliver { client_id, id, result } => self.deliver(&client_id, &id, result),
            Request::Updated { client_id, uri } => self.updated(&client_id, &uri),
            Request::Listen { client_id, slot, reply } => {
                let answer = self.listen(client_id, &slot);
                reply.send(answer).ok();
            }
            Request::Unlisten { client_id, slot } => self.unlisten(&client_id, &slot),
            Request::Forget { client_id, session } => self.forget(client_id, session),
            Request::Join(join) => self.join(*join),
            Request::Leave { client_id, mailbox, unsent } => {
                self.leave(client_id, &mailbox, unsent);
            }
            Request::CheckTokens => {
                for mailbox in self.clients.values().filter_map(Entry::mailbox) {
                    mailbox.push(Item::CheckToken(self.shared.revoked()));
                }
            }
            Request::EndCalls => self.end_calls(),
            Request::EndClients => {
                for mailbox in self.clients.values().filter_map(Entry::mailbox) {
                    mailbox.ask_to_close(Close::Stopping);
                }
            }
            Request::EndStreams => {
                for slot in self.clients.values().filter_map(|entry| entry.busy.as_ref()) {
                    slot.streams.iter().for_each(|slot| slot.end(End::Stopping));
                }
            }
        }
    }

    // Calls.

    fn call(&mut self, ticket: Rc<Ticket>) {
        let now = self.shared.now();
        let entry = self.clients.entry(ticket.client_id.clone()).or_default();
        entry.busy().running.add(&ticket);
        if let Some(session) = &ticket.call.session {
            ticket.wants(self.sessions.level(&ticket.client_id, session));
        }
        self.sweep_at.get_or_insert(now + SWEEP_INTERVAL);
        if self.stopping {
            ticket.end(Reply::Trouble(Trouble::Stopping));
        } else if entry.mailbox().is_some() {
            dispatch(&self.shared, entry, &ticket);
        } else {
            let view = View { client_id: &ticket.client_id, offer: None };
            ticket.serve_as(View { offer: entry.offer.as_deref(), ..view });
            let grace = self.shared.config.offline_grace;
            let lately = |since: Instant| now.since(since) < grace;
            if let Err(fault) = ticket.call.judge(view, &ticket.body) {
                ticket.end(Reply::Fault(fault));
            } else if entry.online().is_some()
                || entry.left_at().is_some_and(lately)
                || lately(self.started)
            {
                // One that is online without a mailbox is leaving at this moment.
                self.park(now, ticket);
            } else {
                ticket.end(Reply::Trouble(Trouble::NotConnected));
            }
        }
    }

    /// Keeps a call until the client is back, or the wait is over.
    fn park(&mut self, now: Instant, ticket: Rc<Ticket>) {
        let until = now + self.shared.config.reconnect_wait;
        self.look_again(until, &ticket.client_id);
        let entry = self.clients.entry(ticket.client_id.clone()).or_default();
        let busy = entry.busy();
        busy.parked.retain(|(_, other)| other.is_open());
        let config = &self.shared.config;
        if busy.parked.len() >= config.calls_per_client_max {
            return refuse_call(&self.shared, &ticket);
        }
        let bytes: usize = busy.parked.iter().map(|(_, other)| other.bytes()).sum();
        if bytes + ticket.bytes() > config.queued_bytes_per_client_max {
            return refuse_bytes(&ticket);
        }
        busy.parked.push_back((until, ticket));
    }

    /// Ends the one running call that fits; with none or several nothing happens.
    fn cancel(&mut self, client_id: &ClientId, cancel: &Cancel) {
        let Some(busy) = self.clients.get(client_id).and_then(|entry| entry.busy.as_ref()) else {
            return;
        };
        let fits = |ticket: &Rc<Ticket>| {
            ticket.call.request_key() == cancel.request
                && match &cancel.session {
                    Some(session) => {
                        ticket.call.era == Era::Legacy && ticket.call.session == *session
                    }
                    None => true,
                }
        };
        let mut found = busy.running.all().into_iter().filter(fits);
        if let (Some(ticket), None) = (found.next(), found.next()) {
            ticket.cancel();
        }
    }

    /// Hands an agent's answer to the call that asked; only an agent of the same client may give it.
    fn deliver(&mut self, client_id: &ClientId, id: &str, result: Result<String, String>) {
        let Some((ticket, number)) = self.expected.get(id) else { return };
        let (ticket, number) = (ticket.upgrade(), *number);
        match ticket {
            Some(ticket) if ticket.client_id == *client_id => {
                self.expected.remove(id);
                ticket.answered(number, result);
            }
            Some(_) => {}
            None => drop(self.expected.remove(id)),
        }
    }

    fn end_calls(&mut self) {
        self.stopping = true;
        for entry in self.clients.values_mut() {
            let Some(busy) = entry.busy.as_mut() else { continue };
            busy.parked.clear();
            for ticket in busy.running.all() {
                ticket.give_up(Trouble::Stopping, "the bridge is stopping");
            }
        }
    }

    // Clients.

    fn join(&mut self, join: Join) {
        let Join { client_id, mailbox, offer, refused } = join;
        let newer = self.clients.get(&client_id).and_then(Entry::mailbox);
        if newer.is_some_and(|newer| mailbox.is_older_than(newer)) {
            // It was replaced and did not know, or its first register took longer than the newer one's.
            mailbox.ask_to_close(Close::Replaced);
            return;
        }
        let offer = self.shared_offer(offer);
        // From now on the key is the ID that the connection has: a client that came back would keep two
        // copies of its text otherwise.
        let entry = self.clients.remove(&client_id).unwrap_or_default();
        let entry = self.clients.entry(client_id.clone()).or_insert(entry);
        let again = entry.online().is_some_and(|old| Rc::ptr_eq(old, &mailbox));
        if !again {
            let before = std::mem::replace(&mut entry.presence, Presence::Online(mailbox.clone()));
            if let Presence::Online(old) = before {
                old.ask_to_close(Close::Replaced);
                log::info("client replaced by a newer connection", &[("client", &client_id)]);
            } else {
                log::info("client joined", &[("client", &client_id)]);
            }
            self.shared.metrics.joins.count();
        }
        let changes = changes_between(entry.offer.as_deref(), Some(&offer));
        let before = entry.offer.replace(offer);
        mailbox.push(Item::Joined { refused });
        // A connection that is gone already is followed by its leave: what waits, waits on.
        let there = entry.mailbox().is_some();
        let parked = entry.busy.as_mut().filter(|_| there);
        let parked = parked.map(|busy| std::mem::take(&mut busy.parked));
        for (_, ticket) in parked.into_iter().flatten() {
            if ticket.is_open() {
                dispatch(&self.shared, entry, &ticket);
            }
        }
        self.drop_offer(before);
        self.changed(&client_id, changes);
    }

    fn leave(&mut self, client_id: ClientId, mailbox: &Rc<Mailbox>, unsent: Vec<Rc<Ticket>>) {
        let now = self.shared.now();
        let Some(entry) = self.clients.get_mut(&client_id) else { return };
        if entry.online().is_some_and(|online| Rc::ptr_eq(online, mailbox)) {
            entry.presence = Presence::Left(now);
            log::info("client left", &[("client", &client_id)]);
            self.look_again(now + self.shared.config.offline_grace, &client_id);
        }
        for ticket in unsent {
            let Some(entry) = self.clients.get_mut(&client_id) else { return };
            if self.stopping {
                ticket.end(Reply::Trouble(Trouble::Stopping));
            } else if entry.mailbox().is_some() {
                dispatch(&self.shared, entry, &ticket);
            } else {
                self.park(now, ticket);
            }
        }
    }

    /// The one copy of this offer.
    fn shared_offer(&mut self, offer: Offer) -> Rc<Offer> {
        if self.offers.len() == self.offers.capacity() {
            // Those whose last holder was an agent that looked: nobody told the index.
            self.offers.retain(|_, known| known.strong_count() > 0);
        }
        let known = self.offers.entry(hash(&offer)).or_default();
        if let Some(known) = known.upgrade().filter(|known| **known == offer) {
            return known;
        }
        let offer = Rc::new(offer);
        // Should two offers have one hash, the later is shared from now on; the other is as good alone.
        *known = Rc::downgrade(&offer);
        offer
    }

    /// Lets go of an offer, and of its place in the index when this was its last use.
    fn drop_offer(&mut self, offer: Option<Rc<Offer>>) {
        let Some(offer) = offer.filter(|offer| Rc::strong_count(offer) == 1) else { return };
        let key = hash(&offer);
        drop(offer);
        if self.offers.get(&key).is_some_and(|known| known.strong_count() == 0) {
            self.offers.remove(&key);
        }
    }

    // Streams.

    fn listen(&mut self, client_id: ClientId, slot: &Rc<Slot>) -> Result<(), Fault> {
        let max = self.shared.config.streams_per_client_max;
        let streams = &mut self.clients.entry(client_id.clone()).or_default().busy().streams;
        if let Some(session) = &slot.listen.session {
            // One stream a session: an agent that lost the old one without noticing gets through.
            streams.retain(|other| {
                let same = other.listen.session.as_ref() == Some(session);
                if same {
                    other.end(End::Replaced);
                }
                !same
            });
        }
        if streams.len() >= max {
            log::bound("--max-streams", "too many notification streams", &[("client", &client_id)]);
            self.tidy(&client_id);
            return Err(Fault::TooManyStreams(max));
        }
        streams.push(slot.clone());
        Ok(())
    }

    fn unlisten(&mut self, client_id: &ClientId, slot: &Rc<Slot>) {
        if let Some(busy) = self.clients.get_mut(client_id).and_then(|entry| entry.busy.as_mut()) {
            busy.streams.retain(|other| !Rc::ptr_eq(other, slot));
        }
        self.tidy(client_id);
    }

    fn forget(&mut self, client_id: ClientId, session: Box<str>) {
        if let Some(busy) = self.clients.get(&client_id).and_then(|entry| entry.busy.as_ref()) {
            let of_session = |slot: &&Rc<Slot>| slot.listen.session.as_ref() == Some(&session);
            busy.streams.iter().filter(of_session).for_each(|slot| slot.end(End::Replaced));
        }
        self.sessions.forget(&(client_id, session));
    }

    /// Tells the streams that named the resource, and those whose session subscribed it.
    fn updated(&self, client_id: &ClientId, uri: &str) {
        let Some(busy) = self.clients.get(client_id).and_then(|entry| entry.busy.as_ref()) else {
            return;
        };
        for slot in &busy.streams {
            let wanted = match &slot.listen.session {
                Some(session) => self.sessions.subscribed(client_id, session, uri),
                None => slot.listen.uris.iter().any(|named| named == uri),
            };
            let bytes_max = self.shared.config.queued_bytes_per_stream_max;
            if wanted && !slot.updated(uri, bytes_max) {
                let what = "an agent's stream is not read";
                log::bound("--max-stream-bytes", what, &[("client", client_id)]);
            }
        }
    }

    /// Notes what changed; the streams are told a moment later, all changes of that moment at once.
    fn changed(&mut self, client_id: &ClientId, changes: Changes) {
        let Some(entry) = self.clients.get_mut(client_id) else { return };
        let Some(busy) = entry.busy.as_mut().filter(|busy| !busy.streams.is_empty()) else {
            return;
        };
        if changes.is_empty() {
            return;
        }
        busy.changed = busy.changed.with(changes);
        if busy.tell_at.is_none() {
            let at = self.shared.now() + limits::CHANGE_INTERVAL;
            busy.tell_at = Some(at);
            self.look_again(at, client_id);
        }
    }

    // Time.

    fn look_again(&mut self, at: Instant, client_id: &ClientId) {
        self.due.insert((at, client_id.clone()));
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        let due = self.due.first().map(|(at, _)| *at);
        due.into_iter().chain(self.sweep_at).min()
    }

    pub fn tick(&mut self) {
        let now = self.shared.now();
        while self.due.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, client_id)) = self.due.pop_first() {
                self.look(now, &client_id);
            }
        }
        if self.sweep_at.is_some_and(|at| at <= now) {
            self.sweep_at = None;
            self.expected.retain(|_, (ticket, _)| ticket.strong_count() > 0);
            if !self.expected.is_empty() {
                self.sweep_at = Some(now + SWEEP_INTERVAL);
            }
            self.clients.retain(|_, entry| {
                if let Some(busy) = &entry.busy {
                    if !busy.running.is_empty() {
                        self.sweep_at = Some(now + SWEEP_INTERVAL);
                    } else if busy.is_idle() {
                        entry.busy = None;
                    }
                }
                !entry.is_empty()
            });
        }
    }

    /// What is kept, but for what sessions asked for: clients, questions to agents, offers.
    #[cfg(test)]
    pub fn kept(&self) -> [usize; 3] {
        let offers = self.offers.values().filter(|offer| offer.strong_count() > 0);
        [self.clients.len(), self.expected.len(), offers.count()]
    }

    /// Does what has become due for one client.
    fn look(&mut self, now: Instant, client_id: &ClientId) {
        let grace = self.shared.config.offline_grace;
        let Some(entry) = self.clients.get_mut(client_id) else { return };
        if let Some(busy) = entry.busy.as_mut() {
            while busy.parked.front().is_some_and(|(until, _)| *until <= now) {
                if let Some((_, ticket)) = busy.parked.pop_front() {
                    ticket.end(Reply::Trouble(Trouble::NotConnected));
                }
            }
            if busy.tell_at.is_some_and(|at| at <= now) {
                busy.tell_at = None;
                let changed = std::mem::take(&mut busy.changed);
                busy.streams.iter().for_each(|slot| slot.changed(changed));
            }
        }
        if entry.left_at().is_some_and(|left| now.since(left) >= grace) {
            entry.presence = Presence::Absent;
            let offer = entry.offer.take();
            let changes = changes_between(offer.as_deref(), None);
            self.drop_offer(offer);
            self.changed(client_id, changes);
        }
        self.tidy(client_id);
    }

    fn tidy(&mut self, client_id: &ClientId) {
        if let Some(entry) = self.clients.get_mut(client_id) {
            if entry.busy.as_ref().is_some_and(|busy| busy.is_idle()) {
                entry.busy = None;
            }
            if entry.is_empty() {
                self.clients.remove(client_id);
            }
        }
    }
}

/// Puts a call into the mailbox of a client that is there, or says why not.
fn dispatch(shared: &Shared, entry: &Entry, ticket: &Rc<Ticket>) {
    let Some(mailbox) = entry.mailbox() else { return };
    let view = View { client_id: &ticket.client_id, offer: entry.offer.as_deref() };
    ticket.serve_as(view);
    let config = &shared.config;
    if let Err(fault) = ticket.call.judge(view, &ticket.body) {
        ticket.end(Reply::Fault(fault));
    } else if mailbox.calls.get() >= config.calls_per_client_max {
        refuse_call(shared, ticket);
    } else if mailbox.queued_bytes.get() + ticket.bytes() > config.queued_bytes_per_client_max {
        refuse_bytes(ticket);
    } else {
        ticket.queue(mailbox);
    }
}

fn refuse_call(shared: &Shared, ticket: &Rc<Ticket>) {
    log::bound("--max-calls", "too many running calls", &[("client", &ticket.client_id)]);
    ticket.end(Reply::Trouble(Trouble::TooManyCalls(shared.config.calls_per_client_max)));
}

fn refuse_bytes(ticket: &Rc<Ticket>) {
    log::bound("--max-queued-bytes", "a client's queue is full", &[("client", &ticket.client_id)]);
    ticket.end(Reply::Trouble(Trouble::QueueFull));
}

/// Which lists differ; with nobody registered every list is empty.
fn changes_between(before: Option<&Offer>, after: Option<&Offer>) -> Changes {
    [
        (List::Tools, Changes::TOOLS),
        (List::Prompts, Changes::PROMPTS),
        (List::Resources, Changes::RESOURCES),
        (List::ResourceTemplates, Changes::RESOURCES),
    ]
    .into_iter()
    .filter(|(list, _)| match (before, after) {
        (Some(before), Some(after)) => !before.same_list(after, *list),
        (Some(one), None) | (None, Some(one)) => {
            one.list(*list).is_some_and(|mut l| l.next().is_some())
        }
        (None, None) => false,
    })
    .fold(Changes::NONE, |changes, (_, change)| changes.with(change))
}

fn hash(offer: &Offer) -> u64 {
    let mut hasher = DefaultHasher::new();
    offer.hash(&mut hasher);
    hasher.finish()
}
