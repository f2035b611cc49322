//! One connection to the bridge, from the register to the close.
//!
//! Reads and writes side by side, so that a large message in one direction never waits for one in the
//! other. When to ping, renew or give up is decided by `Line`; what a message means by `read`.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_io::Timer;
use async_tungstenite::WebSocketReceiver;
use async_tungstenite::tungstenite::Message as Frame;
use clientmcp_proto::channel;
use clientmcp_proto::channel::client::{self, Line, Message, Tick, token_ends_at};
use clientmcp_proto::limits;
use smol::Executor;
use smol::future::{FutureExt as _, or};
use smol::stream::StreamExt as _;

use super::call::{Call, Cancel};
use super::dial::{Socket, Stream};
use super::{Clocks, Desk, Failure, Order, Status, Token, tool_error};

/// Answers and notifications of handlers that wait for the network at most; a handler with more waits.
const QUEUED_MAX: usize = 64;

/// Announcements that wait for the network at most; more are dropped.
const ANNOUNCED_MAX: usize = 1024;

/// How a connection ended.
pub(super) enum Ended {
    Stopped,
    Lost(String),
    Closed { code: u16, reason: String },
}

pub(super) struct Session<'a> {
    desk: &'a mut Desk,
    token: &'a Token,
    /// The token that the bridge was shown last.
    shown: String,
    on_status: &'a (dyn Fn(&Status) + Send + Sync),
    tasks: Arc<Executor<'static>>,
    clock: &'a Clocks,
    line: Line,
    /// The calls that are running, or were a moment ago.
    running: HashMap<String, Cancel>,
    /// What the bridge said before it closed.
    fault: Option<String>,
}

enum Event {
    Frame(Option<Result<Frame, async_tungstenite::tungstenite::Error>>),
    Order(Order),
    Token(Result<String, String>),
    Deadline,
}

impl<'a> Session<'a> {
    pub fn new(
        desk: &'a mut Desk,
        token: &'a Token,
        on_status: &'a (dyn Fn(&Status) + Send + Sync),
        tasks: Arc<Executor<'static>>,
        clock: &'a Clocks,
        shown: String,
    ) -> Session<'a> {
        let ends = token_ends_at(&shown).filter(|_| token.can_be_fresh());
        let line = Line::new(clock.now(), clock.wall(), ends);
        let running = HashMap::new();
        Session { desk, token, shown, on_status, tasks, clock, line, running, fault: None }
    }

    /// For how long the bridge had an offer of ours.
    pub fn online(&self) -> Option<Duration> {
        self.line.online(self.clock.now())
    }

    pub async fn run(&mut self, socket: Socket) -> Ended {
        let (mut sender, receiver) = socket.split();
        let (own, own_texts) = flume::unbounded::<Frame>();
        let (outbox, texts) = flume::bounded::<String>(QUEUED_MAX);
        let writer = async {
            loop {
                let own = async { own_texts.recv_async().await.ok() };
                let handlers = async { texts.recv_async().await.ok().map(Frame::text) };
                // Both queues live as long as `converse`, which runs beside this.
                let Some(frame) = or(own, handlers).await else { std::future::pending().await };
                let late = async {
                    Timer::after(limits::STALL_TIMEOUT).await;
                    Err("the bridge takes no more bytes".to_owned())
                };
                let sent = async { sender.send(frame).await.map_err(|why| why.to_string()) };
                if let Err(why) = or(sent, late).await {
                    break Ended::Lost(why);
                }
            }
        };
        let ended = or(self.converse(receiver, &own, &outbox), writer).await;
        // Whoever waits for a call of this connection is told by the bridge; the handlers by this.
        self.running.clear();
        ended
    }

    async fn converse(
        &mut self,
        mut receiver: WebSocketReceiver<Stream>,
        own: &flume::Sender<Frame>,
        outbox: &flume::Sender<String>,
    ) -> Ended {
        let send = |text: String| own.send(Frame::text(text)).unwrap_or_default();
        let (fresh, fresh_tokens) = flume::bounded(1);
        send(self.desk.offer.register().text());
        loop {
            while let Some(tick) = self.line.tick(self.clock.now()) {
                match tick {
                    Tick::Ping => send(channel::PING.to_owned()),
                    Tick::Lost(why) => return Ended::Lost(why.to_owned()),
                    Tick::Renew => {
                        let (token, fresh) = (self.token.clone(), fresh.clone());
                        // One at a time: the line asks again only when it has heard of the last.
                        let ask =
                            async move { drop(fresh.send_async(token.ask_now().await).await) };
                        self.tasks.spawn(ask).detach();
                    }
                }
            }
            let deadline = self.line.deadline();
            let frame = async { Event::Frame(receiver.next().await) };
            let token = async {
                match fresh_tokens.recv_async().await {
                    Ok(token) => Event::Token(token),
                    Err(_) => std::future::pending().await, // `fresh` is above
                }
            };
            let order = async {
                match self.desk.orders.recv_async().await {
                    Ok(order) => Event::Order(order),
                    Err(_) => std::future::pending().await, // the client holds a handle
                }
            };
            let wait = async {
                self.clock.until(deadline).await;
                Event::Deadline
            };
            match or(or(frame, order), or(token, wait)).await {
                Event::Deadline => {}
                Event::Frame(Some(Ok(frame))) => {
                    self.line.heard(self.clock.now());
                    match frame {
                        Frame::Text(text) => self.message(&text, outbox),
                        Frame::Close(close) => {
                            // The answer to the close goes out with the next read.
                            let answered = async { drop(receiver.next().await) };
                            or(answered, pause(Duration::from_secs(1))).await;
                            let Some(close) = close else { return Ended::Lost("closed".into()) };
                            let said = self.fault.take();
                            let reason = said.unwrap_or_else(|| close.reason.to_string());
                            return Ended::Closed { code: close.code.into(), reason };
                        }
                        _ => {} // pings are answered by the next read
                    }
                }
                Event::Frame(Some(Err(why))) => return Ended::Lost(why.to_string()),
                Event::Frame(None) => return Ended::Lost("the connection ended".to_owned()),
                Event::Token(Ok(token)) => {
                    let ends = token_ends_at(&token);
                    // One that the bridge does not take is answered with 4401.
                    if token != self.shown && ends.is_none_or(|ends| ends > self.clock.wall()) {
                        send(client::auth(&token));
                        self.shown = token;
                        self.line.renewed(self.clock.now(), self.clock.wall(), ends);
                    } else {
                        self.line.not_renewed(self.clock.now());
                    }
                }
                Event::Token(Err(_)) => self.line.not_renewed(self.clock.now()),
                Event::Order(Order::Announce(method, params)) => {
                    if own.len() < ANNOUNCED_MAX
                        && let Some(text) = client::notify(None, &method, &params)
                    {
                        send(text);
                    }
                }
                Event::Order(Order::Offer(offer)) => {
                    self.desk.offer = *offer;
                    send(self.desk.offer.register().text());
                }
                Event::Order(Order::Stop) => {
                    // The sender is empty-handed after this; the bridge's answer is the end.
                    own.send(Frame::Close(None)).unwrap_or_default();
                    let closed = async { while let Some(Ok(_)) = receiver.next().await {} };
                    or(closed, pause(Duration::from_secs(2))).await;
                    return Ended::Stopped;
                }
            }
        }
    }

    fn message(&mut self, text: &str, outbox: &flume::Sender<String>) {
        match client::read(text) {
            Some(Message::Registered { refused, ping_every }) => {
                self.line.registered(self.clock.now(), ping_every);
                (self.on_status)(&Status::Online { refused: refused.to_owned() });
            }
            Some(Message::Call { id, method, params, agent }) => {
                let (cancel, cancelled) = Cancel::pair();
                let id = id.into_owned();
                let call = Call::new(
                    id.clone(),
                    method.into_owned(),
                    params.to_owned(),
                    agent.to_owned(),
                    outbox.clone(),
                    cancelled,
                );
                // Looked through only when it has doubled, so that each call pays for few.
                if self.running.len() == self.running.capacity() {
                    self.running.retain(|_, cancel| !cancel.is_over());
                }
                self.running.insert(id, cancel);
                self.start(call);
            }
            Some(Message::Cancel { id, reason }) => {
                if let Some(cancel) = self.running.remove(id.as_ref()) {
                    cancel.cancel(reason.into_owned());
                }
            }
            Some(Message::Fault { message, path, .. }) => {
                self.fault = Some(match path {
                    Some(path) => format!("{path}: {message}"),
                    None => message.into_owned(),
                });
            }
            // A bridge of a later version may say more.
            Some(Message::Pong | Message::Unknown) | None => {}
        }
    }

    /// Runs a call's handler beside everything else.
    fn start(&self, call: Call) {
        let handler = self.desk.offer.handler(&call).cloned();
        let task = async move {
            let Some(handler) = handler else {
                // It was offered a moment ago.
                return call
                    .answer(Err(Failure::new(-32602, "this is not offered any more")))
                    .await;
            };
            let is_tool = call.method() == "tools/call";
            let running = {
                let call = call.clone();
                // A handler that panics while it makes its future panics in here too.
                let running = async move { handler(call).await };
                AssertUnwindSafe(running).catch_unwind()
            };
            let answered = async { Some(running.await) };
            let given_up = async {
                call.cancelled().await;
                Timer::after(limits::CLEAN_UP).await;
                None
            };
            let answer = match or(answered, given_up).await {
                None => return,
                Some(Ok(answer)) => answer,
                Some(Err(_)) if is_tool => {
                    Ok(tool_error("The application failed while it ran this call."))
                }
                Some(Err(_)) => Err(Failure::new(-32603, "the application failed")),
            };
            call.answer(answer).await;
        };
        self.tasks.spawn(task).detach();
    }
}

async fn pause(length: Duration) {
    Timer::after(length).await;
}
