//! One client's socket: reads into events, commands into writes, and asleep in between.
//!
//! While nothing is under way it holds the bare socket and a few dozen bytes of state: no buffer, no
//! WebSocket context, no timer of its own. When bytes come or something is to be sent, it makes a context
//! for the moment, and drops it again at a message boundary with nothing left to write. What the messages
//! mean is `conversation`'s business.

use std::future::{Future, poll_fn};
use std::io::{ErrorKind, Read, Write};
use std::rc::Rc;
use std::task::{Context, Poll};

use async_tungstenite::tungstenite::protocol::WebSocketContext;
use async_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use clientmcp_proto::channel::Tick;
use clientmcp_proto::fault::Close;
use clientmcp_proto::frames::{Boundary, Sign, sign_of_life};
use clientmcp_proto::limits;
use clientmcp_proto::time::Instant;
use clientmcp_proto::token::Claims;

use crate::admission::Place;
use crate::conversation::Conversation;
use crate::log;
use crate::metrics::Refusal;
use crate::shared::Shared;
use crate::socket::Socket;
use crate::timers::Timer;

mod wire;

use wire::{Wire, context, say_goodbye};

/// Reads in one turn before the other tasks get theirs.
const READS_PER_TURN: usize = 16;

/// Turns before the other tasks get theirs.
const TURNS: usize = 4;

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
        let awake = connection.awake();
        awake.boundary.feed(&leftover);
        awake.unread = Some(leftover.into());
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
    if say_goodbye(&socket, None, close).await {
        socket.linger(limits::LINGER).await;
    }
}

struct Connection {
    socket: Socket,
    conversation: Conversation,
    /// Only while something is unfinished: half a message read, or bytes not written.
    awake: Option<Box<Awake>>,
    timer: Timer,
    place: Place,
}

/// What a sleeping connection does without.
struct Awake {
    context: WebSocketContext,
    /// Where in a message the bytes that came have ended.
    boundary: Boundary,
    /// The socket took no more; nothing is added until it does.
    blocked: bool,
    /// Since when the blocked socket has taken nothing at all.
    stalled: Option<Instant>,
    /// What was received and not looked at: behind the handshake, or while reading had to wait.
    unread: Option<Box<[u8]>>,
}

impl Connection {
    fn new(socket: Socket, claims: Claims, place: Place) -> Connection {
        let shared = &socket.shared;
        shared.clients.set(shared.clients.get() + 1);
        Connection {
            conversation: Conversation::new(shared, claims),
            timer: Timer::new(shared.clone()),
            awake: None,
            place,
            socket,
        }
    }

    fn shared(&self) -> &Rc<Shared> {
        &self.socket.shared
    }

    fn awake(&mut self) -> &mut Awake {
        self.awake.get_or_insert_with(|| {
            let (context, boundary) = (context(), Boundary::default());
            Box::new(Awake { context, boundary, blocked: false, stalled: None, unread: None })
        })
    }

    fn has_unread(&self) -> bool {
        self.awake.as_ref().is_some_and(|awake| awake.unread.is_some())
    }

    fn is_blocked(&self) -> bool {
        self.awake.as_ref().is_some_and(|awake| awake.blocked)
    }

    fn stalled(&self) -> Option<Instant> {
        self.awake.as_ref()?.stalled
    }

    /// Wait for a message in the inbox, bytes, or the time; take all three as they are; wait again.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        let mut readable = false;
        for _ in 0..TURNS {
            if !readable {
                match self.wait(cx) {
                    Poll::Ready(io) => readable = io,
                    Poll::Pending => return Poll::Pending,
                }
            }
            match self.turn(readable) {
                Ok(more) => readable = more,
                Err(ended) => return Poll::Ready(ended),
            }
        }
        // The others' turn; this one goes on right after them.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Whether there may be more to read at once.
    fn turn(&mut self, readable: bool) -> Result<bool, Ended> {
        let more = self.receive(readable)?;
        self.empty_mailbox()?;
        if let Some(close) = self.conversation.mailbox.closing() {
            return Err(Ended::Closing(close));
        }
        self.look_at_clock()?;
        self.flush()?;
        if let Some(awake) = &self.awake
            && !awake.blocked
            && awake.unread.is_none()
            && awake.boundary.is_between_messages()
        {
            self.awake = None;
        }
        Ok(more)
    }

    /// Who does not read is not read either: every answer would only be one more to keep. And one register
    /// at a time: its answer can be thirty times as long.
    fn may_read(&self) -> bool {
        !self.is_blocked() && !self.conversation.joining
    }

    /// Ready when there is something to do, with whether the socket is what is ready. It is read only
    /// then: to look and find nothing is a system call too.
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let blocked = self.is_blocked();
        let io = if blocked {
            self.socket.io.poll_writable(cx).is_ready()
        } else if self.conversation.joining {
            false
        } else if self.has_unread() {
            true
        } else {
            self.socket.io.poll_readable(cx).is_ready()
        };
        if io || self.conversation.mailbox.poll(cx, blocked).is_ready() {
            return Poll::Ready(io);
        }
        let shared = self.shared();
        let mut deadline = self.conversation.channel.deadline(shared.now(), shared.wall());
        if let Some(since) = self.stalled() {
            deadline = deadline.min(since + shared.config.body_timeout);
        }
        self.timer.poll(cx, deadline).map(|()| false)
    }

    // Reading.

    /// Takes what was kept, and what is in the socket if that is `readable`. Whether there may be more.
    fn receive(&mut self, readable: bool) -> Result<bool, Ended> {
        if self.may_read()
            && let Some(unread) = self.awake.as_mut().and_then(|awake| awake.unread.take())
        {
            self.read_messages(&unread)?;
        }
        if !readable {
            return Ok(false);
        }
        let shared = self.shared().clone();
        for _ in 0..READS_PER_TURN {
            if !self.may_read() || self.has_unread() {
                return Ok(false);
            }
            let mut scratch = shared.scratch.borrow_mut();
            match self.socket.io.get_ref().read(&mut scratch) {
                Ok(0) => return Err(Ended::Lost),
                Ok(count) => {
                    self.feed(&scratch[..count])?;
                    // Less than there was room for: there is no more.
                    if count < scratch.len() {
                        return Ok(false);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Ended::Lost),
            }
        }
        Ok(true)
    }

    /// Takes bytes that came, and whatever messages they complete.
    fn feed(&mut self, bytes: &[u8]) -> Result<(), Ended> {
        self.shared().metrics.channel_received_bytes.add(bytes.len() as u64);
        let now = self.shared().now();
        self.conversation.channel.heard(now);
        if self.awake.is_none() && self.answer_asleep(bytes)? {
            return Ok(());
        }
        self.awake().boundary.feed(bytes);
        self.read_messages(bytes)
    }

    /// Answers a sign of life, which is all that most clients send most of the time, without waking up.
    /// `false` for everything else, and when the answer does not fit the socket.
    fn answer_asleep(&self, bytes: &[u8]) -> Result<bool, Ended> {
        let answer = match sign_of_life(bytes) {
            Some(Sign::Ping(answer)) => answer,
            Some(Sign::Pong) => return Ok(true),
            None => return Ok(false),
        };
        match self.socket.io.get_ref().write(answer.bytes()) {
            Ok(count) if count == answer.bytes().len() => {
                self.shared().metrics.channel_sent_bytes.add(count as u64);
                Ok(true)
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Ok(false)
            }
            // A kernel out of memory may take half of so few bytes; it takes none when only the
            // client's window is full.
            Ok(_) | Err(_) => Err(Ended::Lost),
        }
    }

    /// Reads messages until the bytes are used up, or reading has to wait; then what is left is kept.
    fn read_messages(&mut self, bytes: &[u8]) -> Result<(), Ended> {
        let mut rest = bytes;
        loop {
            if !self.may_read() {
                // The context may hold a complete message too, so this is noted even without a rest.
                self.awake().unread = Some(rest.into());
                return Ok(());
            }
            let read = self.with_context(&mut rest, |context, wire| context.read(wire));
            match read {
                Ok(message) => self.take(message)?,
                Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(ended_by(error)),
            }
        }
    }

    fn take(&mut self, message: Message) -> Result<(), Ended> {
        match message {
            Message::Text(text) => self.text(text),
            Message::Binary(_) => Err(Ended::Closing(Close::BadMessage {
                path: None,
                message: "expected a text frame, got a binary one".into(),
            })),
            Message::Close(frame) => {
                // RFC 6455 §7.1.5: a close frame without a code counts as 1005.
                let code = frame.map_or(1005, |frame| frame.code.into());
                // The context has the answer ready; if it cannot be written, so be it.
                self.flush().ok();
                Err(Ended::Closed(code))
            }
            // A context answers pings by itself.
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => Ok(()),
        }
    }

    fn text(&mut self, text: Utf8Bytes) -> Result<(), Ended> {
        let answer = self.conversation.text(&self.socket.shared, text).map_err(Ended::Closing)?;
        answer.map_or(Ok(()), |answer| self.send(answer))
    }

    // Writing.

    fn empty_mailbox(&mut self) -> Result<(), Ended> {
        while !self.is_blocked()
            && let Some(text) = self.conversation.next()
        {
            self.send(text)?;
        }
        Ok(())
    }

    fn look_at_clock(&mut self) -> Result<(), Ended> {
        let (now, wall) = (self.shared().now(), self.shared().wall());
        if self.stalled().is_some_and(|since| now.since(since) >= self.shared().config.body_timeout)
        {
            log::info("client reads nothing", &[("client", &self.conversation.client_id)]);
            return Err(Ended::Lost);
        }
        match self.conversation.channel.tick(now, wall) {
            Some(Tick::Ping) => self.write(Message::Ping(Default::default())),
            Some(Tick::Close(close)) => Err(Ended::Closing(close)),
            None => Ok(()),
        }
    }

    fn send(&mut self, text: Utf8Bytes) -> Result<(), Ended> {
        self.write(Message::Text(text))
    }

    fn write(&mut self, message: Message) -> Result<(), Ended> {
        let written = self.with_context(&mut &[][..], |context, wire| context.write(wire, message));
        self.written(written)
    }

    fn flush(&mut self) -> Result<(), Ended> {
        if self.awake.is_none() {
            return Ok(());
        }
        let written = self.with_context(&mut &[][..], |context, wire| context.flush(wire));
        self.written(written)
    }

    /// What does not fit the socket stays in the context until it does.
    fn written(&mut self, written: Result<(), Error>) -> Result<(), Ended> {
        match written {
            Ok(()) => {
                let awake = self.awake();
                awake.blocked = false;
                awake.stalled = None;
                Ok(())
            }
            Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => {
                let now = self.shared().now();
                let awake = self.awake();
                awake.blocked = true;
                awake.stalled.get_or_insert(now);
                Ok(())
            }
            Err(error) => Err(ended_by(error)),
        }
    }

    /// Works with the context, which is made if there is none, over `input` and the socket.
    fn with_context<T>(
        &mut self,
        input: &mut &[u8],
        work: impl FnOnce(&mut WebSocketContext, &mut Wire<'_, '_>) -> T,
    ) -> T {
        self.awake();
        let awake = self.awake.as_mut().expect("made on the line above");
        let mut wire = Wire { input, output: self.socket.io.get_ref(), sent: 0 };
        let result = work(&mut awake.context, &mut wire);
        let sent = wire.sent;
        if sent > 0 {
            // It took something: slow is not stalled.
            awake.stalled = None;
            self.shared().metrics.channel_sent_bytes.add(sent);
        }
        result
    }

    // The end.

    /// Gives everything back and says why.
    async fn end(self, ended: Ended) {
        let shared = self.socket.shared.clone();
        let (socket, awake, place) = self.give_back(&ended);
        let told = match ended {
            Ended::Closing(close) => {
                say_goodbye(&socket, awake.map(|awake| awake.context), close).await
            }
            Ended::Closed(_) | Ended::Lost => false,
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
