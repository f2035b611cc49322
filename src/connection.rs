//! One client's socket: reads into events, commands into writes, and asleep in between.
//!
//! While nothing is under way it holds the bare socket and a few dozen bytes of state: no buffer, no
//! WebSocket context, no timer of its own. Plain text messages are read here, straight into the memory
//! that they stay in; for whatever else comes it makes a context for the moment, and drops it again at a
//! message boundary. What the messages mean is `conversation`'s business.

use std::future::{Future, poll_fn};
use std::io::{ErrorKind, Read, Write};
use std::rc::Rc;
use std::string::FromUtf8Error;
use std::task::{Context, Poll};

use async_tungstenite::tungstenite::protocol::WebSocketContext;
use async_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use clientmcp_proto::channel::Tick;
use clientmcp_proto::fault::Close;
use clientmcp_proto::frames::{self, Boundary, Sign, sign_of_life};
use clientmcp_proto::limits;
use clientmcp_proto::time::{Instant, UnixSeconds};
use clientmcp_proto::token::Claims;

use crate::admission::Place;
use crate::conversation::{Conversation, Outgoing};
use crate::log;
use crate::metrics::Refusal;
use crate::shared::Shared;
use crate::socket::{Input, Socket, input};
use crate::timers::Timer;

mod outbox;
mod partial;
mod wire;

use outbox::Outbox;
use partial::Partial;
use wire::{Wire, context, say_goodbye};

/// Reads in one turn before the other tasks get theirs.
const READS_PER_TURN: usize = 16;

/// Turns before the other tasks get theirs.
const TURNS: usize = 4;

/// Bytes that are collected before they are written; one write per drained mailbox is the rule.
const OUTBOX_BYTES: usize = 64 << 10;

/// How a connection came to its end.
enum Ended {
    /// The bridge closes it.
    Closing(Close),
    /// The client closed it, with this code.
    Closed(u16),
    /// It broke.
    Lost,
}

/// Runs a client's connection to its end; `leftover` was read behind the handshake.
///
/// What sleeps fifty thousand times is this future, so it is little more than the `Connection`: everything
/// that happens once, at the end, is boxed then.
pub fn run(
    socket: Socket,
    leftover: Vec<u8>,
    claims: Claims,
    place: Place,
) -> impl Future<Output = ()> {
    let mut connection = Connection::new(socket, claims, place);
    if !leftover.is_empty() {
        connection.awake().unread = Some(leftover.into());
    }
    async move {
        let ended = poll_fn(|cx| connection.poll(cx)).await;
        Box::pin(connection.end(ended)).await;
    }
}

/// Tells a client that was not let in why, and ends its connection.
pub async fn refuse(socket: Socket, close: Close) {
    log::limited(
        "client-refused",
        log::Level::Info,
        "client refused",
        &[("code", &close.code().to_string()), ("reason", &close.to_string())],
    );
    if say_goodbye(&socket, Outbox::default(), close).await {
        socket.linger(limits::LINGER).await;
    }
}

struct Connection {
    socket: Socket,
    conversation: Conversation,
    /// Only while something is unfinished: half a message read, or bytes not written.
    awake: Option<Box<Awake>>,
    /// There may be something to read.
    readable: bool,
    /// The socket took no more; nothing is added until it does.
    blocked: bool,
    timer: Timer,
    place: Place,
}

/// What a sleeping connection does without.
#[derive(Default)]
struct Awake {
    outbox: Outbox,
    /// Since when the blocked socket has taken nothing at all.
    stalled: Option<Instant>,
    /// Bytes of answers to what the client sent while its socket took no more.
    answers: usize,
    /// The beginning of a plain message.
    partial: Option<Partial>,
    /// Reads what is no plain message; there until it has seen the end of one.
    other: Option<Box<Other>>,
    /// What was received and not looked at: behind the handshake, or while reading had to wait.
    unread: Option<Box<[u8]>>,
}

struct Other {
    context: WebSocketContext,
    /// Where messages end in what the context was given.
    boundary: Boundary,
}

impl Awake {
    fn is_done(&self) -> bool {
        self.outbox.is_empty()
            && self.partial.is_none()
            && self.other.is_none()
            && self.unread.is_none()
    }
}

/// Bytes of answers that a client which reads nothing can have waiting: some thousands of pongs.
const ANSWERS_BYTES: usize = 64 << 10;

/// Both clocks, looked at once for each time a connection wakes.
type Clock = (Instant, UnixSeconds);

impl Connection {
    fn new(socket: Socket, claims: Claims, place: Place) -> Connection {
        let shared = &socket.shared;
        shared.clients.set(shared.clients.get() + 1);
        Connection {
            conversation: Conversation::new(shared, claims),
            timer: Timer::new(shared.clone()),
            awake: None,
            readable: true,
            blocked: false,
            place,
            socket,
        }
    }

    fn shared(&self) -> &Rc<Shared> {
        &self.socket.shared
    }

    fn awake(&mut self) -> &mut Awake {
        self.awake.get_or_insert_default()
    }

    fn has_unread(&self) -> bool {
        self.awake.as_ref().is_some_and(|awake| awake.unread.is_some())
    }

    fn stalled(&self) -> Option<Instant> {
        self.awake.as_ref()?.stalled
    }

    /// Empty the inbox, take what came, look at the clock; then wait for one of the three.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        let clock = (self.shared().now(), self.shared().wall());
        let register_timeout = self.shared().config.register_timeout;
        if self.conversation.channel.deadline(clock.0, clock.1, register_timeout) <= clock.0 {
            // Before anything is judged by the clock, what has come is taken: it may be the bridge that
            // slept, and a fresh token or a sign of life may wait to be read. Of readiness one hears late.
            self.readable = true;
        }
        for _ in 0..TURNS {
            if let Err(ended) = self.turn(clock) {
                return Poll::Ready(ended);
            }
            if self.wait(cx, clock).is_pending() {
                return Poll::Pending;
            }
        }
        // The others' turn; this one goes on right after them.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn turn(&mut self, clock: Clock) -> Result<(), Ended> {
        if self.blocked {
            // Before anything is judged by the clock: it may be the bridge that slept, and not the client.
            self.flush(clock.0)?;
        }
        self.receive(clock.0)?;
        self.empty_mailbox(clock.0)?;
        if let Some(close) = self.conversation.mailbox.closing() {
            return Err(Ended::Closing(close));
        }
        self.look_at_clock(clock)?;
        self.flush(clock.0)?;
        if self.awake.as_ref().is_some_and(|awake| awake.is_done()) {
            self.awake = None;
        }
        Ok(())
    }

    /// A client is read also while it reads nothing: what it has to say may be an answer that an agent
    /// waits for, or a fresh token, and it may have to be rid of that before it reads on. Only what it has
    /// to be answered itself is bounded. And one register at a time: its answer can be thirty times as
    /// long. And not too many of them.
    fn may_read(&self) -> bool {
        !self.has_many_answers() && !self.conversation.is_joining() && !self.rests()
    }

    fn has_many_answers(&self) -> bool {
        self.awake.as_ref().is_some_and(|awake| awake.answers > ANSWERS_BYTES)
    }

    fn rests(&self) -> bool {
        let per_minute = self.shared().config.registers_per_minute_max;
        let until = self.conversation.channel.rests_until(per_minute);
        until != Instant::default() && until > self.shared().now()
    }

    fn wait(&mut self, cx: &mut Context<'_>, (now, wall): Clock) -> Poll<()> {
        let (config, channel) = (&self.shared().config, &self.conversation.channel);
        let mut deadline = channel.deadline(now, wall, config.register_timeout);
        let rest = channel.rests_until(config.registers_per_minute_max);
        if rest > now {
            deadline = deadline.min(rest);
        }
        if let Some(since) = self.stalled() {
            deadline = deadline.min(since + self.shared().config.body_timeout);
        }
        let writable = self.blocked && self.socket.io.poll_writable(cx).is_ready();
        let readable = if !self.may_read() {
            false
        } else if self.has_unread() {
            true
        } else {
            self.readable = self.readable || self.socket.io.poll_readable(cx).is_ready();
            self.readable
        };
        let io = writable || readable;
        if io || self.conversation.mailbox.poll(cx, self.blocked).is_ready() {
            return Poll::Ready(());
        }
        self.timer.poll(cx, deadline)
    }

    // Reading.

    fn receive(&mut self, now: Instant) -> Result<(), Ended> {
        if self.may_read()
            && let Some(unread) = self.awake.as_mut().and_then(|awake| awake.unread.take())
        {
            self.read_messages(&unread)?;
        }
        for _ in 0..READS_PER_TURN {
            if !self.readable || !self.may_read() || self.has_unread() {
                break;
            }
            self.readable = self.read(now)?;
        }
        Ok(())
    }

    /// Reads once, and takes whatever messages that completes. Whether there may be more.
    fn read(&mut self, now: Instant) -> Result<bool, Ended> {
        let shared = self.shared().clone();
        let mut scratch = shared.scratch.borrow_mut();
        let partial = self.awake.as_mut().and_then(|awake| awake.partial.as_mut());
        let (input, room) = match partial {
            Some(partial) => partial.read(&self.socket.io),
            None => (input(|| self.socket.io.get_ref().read(&mut scratch)), scratch.len()),
        };
        let count = match input {
            None => return Ok(false),
            Some(Input::Some(count)) => count,
            Some(Input::End | Input::Late) => return Err(Ended::Lost),
        };
        shared.metrics.channel_received_bytes.add(count as u64);
        self.conversation.channel.heard(now);
        let finished = self.awake.as_mut().and_then(|awake| awake.partial.take());
        match finished {
            Some(partial) if partial.is_done() => {
                let (text, behind) = partial.finish();
                self.text(text)?;
                self.read_messages(&behind)?;
            }
            Some(partial) => self.awake().partial = Some(partial),
            None => {
                let bytes = &scratch[..count];
                if self.awake.is_none() && self.answer_asleep(bytes)? {
                    return Ok(false);
                }
                if let Some(other) = self.other() {
                    other.boundary.feed(bytes);
                }
                self.read_messages(bytes)?;
            }
        }
        // Less than there was room for: there is no more.
        Ok(count == room)
    }

    /// Answers a sign of life, which is all that most clients send most of the time, without waking up.
    /// `false` for everything else.
    fn answer_asleep(&mut self, bytes: &[u8]) -> Result<bool, Ended> {
        let answer = match sign_of_life(bytes) {
            Some(Sign::Ping(answer)) => answer,
            Some(Sign::Pong) => return Ok(true),
            None => return Ok(false),
        };
        let answer = answer.bytes();
        let sent = match self.socket.io.get_ref().write(answer) {
            Ok(count) => count,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                0
            }
            Err(_) => return Err(Ended::Lost),
        };
        self.shared().metrics.channel_sent_bytes.add(sent as u64);
        if sent < answer.len() {
            self.awake().outbox.put_bytes(&answer[sent..]);
        }
        Ok(true)
    }

    fn other(&mut self) -> Option<&mut Other> {
        self.awake.as_mut()?.other.as_deref_mut()
    }

    /// Reads messages until the bytes are used up, or reading has to wait; then what is left is kept.
    fn read_messages(&mut self, bytes: &[u8]) -> Result<(), Ended> {
        let mut rest = bytes;
        loop {
            if !self.may_read() {
                // A context may hold a complete message too, so this is noted even without a rest.
                if !rest.is_empty() || self.other().is_some() {
                    self.awake().unread = Some(rest.into());
                }
                return Ok(());
            }
            if self.other().is_some() {
                match self.read_other(&mut rest)? {
                    Some(message) => self.take(message)?,
                    None => return Ok(()),
                }
            } else if rest.is_empty() {
                return Ok(());
            } else if let Some(frame) = frames::plain_text(rest) {
                let (partial, behind) = Partial::begin(frame, &rest[frame.header_bytes..]);
                rest = behind;
                if partial.is_done() {
                    self.text(partial.finish().0)?;
                } else {
                    self.awake().partial = Some(partial);
                }
            } else {
                let mut boundary = Boundary::default();
                boundary.feed(rest);
                self.awake().other = Some(Box::new(Other { context: context(), boundary }));
            }
        }
    }

    /// Reads a message that is no plain one. `None` once all that came is used up.
    fn read_other(&mut self, rest: &mut &[u8]) -> Result<Option<Message>, Ended> {
        let Some(awake) = self.awake.as_mut() else { return Ok(None) };
        let Some(other) = awake.other.as_mut() else { return Ok(None) };
        let before = awake.outbox.len();
        let mut wire = Wire { input: rest, output: &mut awake.outbox };
        let read = other.context.read(&mut wire);
        if self.blocked {
            awake.answers += awake.outbox.len() - before;
        }
        match read {
            Ok(message) => Ok(Some(message)),
            Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => {
                if other.boundary.is_between_messages() {
                    awake.other = None;
                }
                Ok(None)
            }
            Err(error) => Err(ended_by(error)),
        }
    }

    fn take(&mut self, message: Message) -> Result<(), Ended> {
        match message {
            Message::Text(text) => self.text(Ok(text)),
            Message::Binary(_) => Err(Ended::Closing(Close::BadMessage {
                path: None,
                message: "expected a text frame, got a binary one".into(),
            })),
            Message::Close(frame) => {
                // RFC 6455 §7.1.5: a close frame without a code counts as 1005.
                let code = frame.map_or(1005, |frame| frame.code.into());
                // The context has the answer ready; if it cannot be written, so be it.
                if let Some(awake) = &mut self.awake
                    && let Some(other) = &mut awake.other
                {
                    let mut wire = Wire { input: &mut &[][..], output: &mut awake.outbox };
                    other.context.flush(&mut wire).ok();
                    awake.outbox.flush(self.socket.io.get_ref(), &mut 0).ok();
                }
                Err(Ended::Closed(code))
            }
            // A context answers pings by itself.
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => Ok(()),
        }
    }

    fn text(&mut self, text: Result<Utf8Bytes, FromUtf8Error>) -> Result<(), Ended> {
        let text = text.map_err(|_| Ended::Closing(Close::NotUtf8))?;
        let answer = self.conversation.text(&self.socket.shared, text).map_err(Ended::Closing)?;
        if let Some(answer) = answer {
            let blocked = self.blocked;
            let awake = self.awake();
            if blocked {
                awake.answers += answer.len();
            }
            awake.outbox.put(Outgoing::Text(answer.into()));
        }
        Ok(())
    }

    // Writing.

    fn empty_mailbox(&mut self, now: Instant) -> Result<(), Ended> {
        while !self.blocked
            && let Some(message) = self.conversation.next()
        {
            self.send(message, now)?;
        }
        Ok(())
    }

    fn look_at_clock(&mut self, (now, wall): Clock) -> Result<(), Ended> {
        let timeout = self.shared().config.body_timeout;
        let is_late = |since: Instant| now.since(since) >= timeout;
        if self.stalled().is_some_and(is_late) {
            // The kernel says that there is room only when there is much of it: any byte that it takes now
            // shows that this client reads, if slowly.
            self.flush(now)?;
            if self.stalled().is_some_and(is_late) {
                let client_id = &self.conversation.client_id;
                log::bound("--body-timeout", "client reads nothing", &[("client", client_id)]);
                return Err(Ended::Lost);
            }
        }
        let register_timeout = self.shared().config.register_timeout;
        match self.conversation.channel.tick(now, wall, register_timeout) {
            Some(Tick::Ping) => {
                self.awake().outbox.put_bytes(&frames::PING);
                Ok(())
            }
            Some(Tick::Close(close)) => {
                if let Close::NoRegister(_) = close {
                    let client_id = &self.conversation.client_id;
                    let what = "a client did not register in time";
                    log::bound("--register-timeout", what, &[("client", client_id)]);
                }
                Err(Ended::Closing(close))
            }
            None => Ok(()),
        }
    }

    fn send(&mut self, message: Outgoing, now: Instant) -> Result<(), Ended> {
        let outbox = &mut self.awake().outbox;
        outbox.put(message);
        if outbox.len() < OUTBOX_BYTES { Ok(()) } else { self.flush(now) }
    }

    /// What the socket does not take stays in the outbox until it does.
    fn flush(&mut self, now: Instant) -> Result<(), Ended> {
        let Some(awake) = &mut self.awake else { return Ok(()) };
        let mut sent = 0;
        let flushed = awake.outbox.flush(self.socket.io.get_ref(), &mut sent);
        if sent > 0 {
            // It took something: slow is not stalled.
            awake.stalled = None;
            self.socket.shared.metrics.channel_sent_bytes.add(sent);
        }
        match flushed {
            Ok(()) => {
                self.blocked = false;
                awake.stalled = None;
                awake.answers = 0;
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.blocked = true;
                awake.stalled.get_or_insert(now);
                Ok(())
            }
            Err(_) => Err(Ended::Lost),
        }
    }

    // The end.

    /// Gives everything back and says why.
    async fn end(self, ended: Ended) {
        let shared = self.socket.shared.clone();
        let (socket, awake, place) = self.give_back(&ended);
        let told = match ended {
            Ended::Closing(close) => {
                let outbox = awake.map(|awake| awake.outbox).unwrap_or_default();
                say_goodbye(&socket, outbox, close).await
            }
            // Its close was answered. Whatever it had sent behind it must not make a reset of our end, which
            // might overtake the answer.
            Ended::Closed(_) => true,
            Ended::Lost => false,
        };
        shared.clients.set(shared.clients.get() - 1);
        if told {
            socket.linger(limits::LINGER).await;
        }
        drop(place);
    }

    /// Gives back the calls: those that were written may have run, the others may go elsewhere.
    fn give_back(self, ended: &Ended) -> (Socket, Option<Box<Awake>>, Place) {
        let shared = self.socket.shared.clone();
        let code = match ended {
            Ended::Closing(close) => close.code(),
            Ended::Closed(code) => *code,
            Ended::Lost => 1006,
        };
        shared.metrics.leave(code);
        if let Ended::Closing(Close::BadMessage { .. }) = ended {
            shared.metrics.refusal(Refusal::Channel);
        }
        let reason = match ended {
            Ended::Closing(close) => close.to_string(),
            Ended::Closed(_) => "closed by the client".to_owned(),
            Ended::Lost => "the connection broke".to_owned(),
        };
        log::info(
            "connection closed",
            &[
                ("client", &self.conversation.client_id),
                ("code", &code.to_string()),
                ("reason", &reason),
            ],
        );
        self.conversation.end(&shared);
        (self.socket, self.awake, self.place)
    }
}

fn ended_by(error: Error) -> Ended {
    match error {
        Error::Capacity(_) => Ended::Closing(Close::TooLarge),
        Error::Protocol(_) => Ended::Closing(Close::Protocol),
        Error::Utf8(_) => Ended::Closing(Close::NotUtf8),
        _ => Ended::Lost,
    }
}
