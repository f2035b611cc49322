//! Client mode: offers the tools of a local MCP server through a bridge.
//!
//! Carries between three parties and decides nothing: the bridge (`crate::client`), the server (`pipe`
//! or `http`), and `clientmcp_proto::upstream`, which knows what each message means. One task owns the
//! server and its restarts; calls reach it through one queue. Flags are read in `config`.
//!
//! What does not cross, and why: log messages and questions outside a call, or while several run over a
//! pipe (nothing says whose they are; the server is told so); changes of resources that are in no list
//! (a bridge does not say what agents subscribe, so everything listed is subscribed); tasks, and
//! `notifications/elicitation/complete` (the channel has neither); `roots/list_changed` (roots are an
//! agent's, and a server sees all agents as one client). `tests/connect/others.rs` names the rest.

use std::cell::Cell;
use std::collections::HashMap;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant as Clock};

use async_io::Timer;
use async_signal::{Signal, Signals};
use clientmcp_proto::channel::client::{Backoff, Register};
use clientmcp_proto::time::Instant;
use clientmcp_proto::upstream::{Answer, CallKey, Effect, RequestId, Settings, Upstream};
use rustix::process::{Pid, kill_process_group};
use smol::LocalExecutor;
use smol::future::or;
use smol::stream::StreamExt as _;

use crate::client::{Call, Failure, Handle, Offer, Status};
use crate::{log, secrets};

mod config;
mod http;
mod pipe;

use config::Server;
pub use config::{Config, Flags};

/// How long the bridge may take to say good-bye at a stop.
const LEAVE_WAIT: Duration = Duration::from_secs(3);

/// How long a server may run before its next restart is taken for a first one.
const RAN_WELL: Duration = Duration::from_secs(30);

/// What a transport is told.
enum Out {
    Send { text: String, about: Option<RequestId> },
    Forget(RequestId),
}

/// What a transport tells.
enum In {
    Message {
        text: String,
        about: Option<RequestId>,
    },
    /// This request will have no answer.
    Failed {
        id: RequestId,
        why: String,
    },
    /// Nothing will come any more.
    Ended(String),
}

/// The way to a server that was started. Dropping `out` ends it in order.
struct Link {
    out: flume::Sender<Out>,
    inbox: flume::Receiver<In>,
    /// Ends when the server has.
    task: smol::Task<()>,
    /// The process group of a server that we started.
    group: Option<Pid>,
}

/// What calls ask of the task that owns the server.
enum Order {
    Call { key: CallKey, call: Call, answer: flume::Sender<Answer> },
    Cancel { key: CallKey, reason: String },
}

/// Runs until SIGTERM or SIGINT. The error is one sentence.
pub fn run(config: Config) -> Result<(), String> {
    let executor = Rc::new(LocalExecutor::new());
    smol::block_on(executor.run(stay(config, executor.clone())))
}

async fn stay(config: Config, executor: Rc<LocalExecutor<'static>>) -> Result<(), String> {
    let mut signals = Signals::new([Signal::Term, Signal::Int])
        .map_err(|error| format!("signals cannot be watched: {error}"))?;
    config.token.ask_now().await.map_err(|why| format!("--token-file {why}"))?;
    let client = config.client.on_status(report);
    let (orders, inbox) = flume::unbounded();
    let (offers, first_offer) = flume::bounded(1);
    let (stop, stopped) = flume::bounded::<()>(0);
    let group = Rc::new(Cell::new(None));
    let keeper = Keeper {
        group: group.clone(),
        upstream: Upstream::new(Settings {
            probe: matches!(config.server, Server::Command(_)),
            name: config.name,
            seed: secrets::random()?,
        }),
        server: config.server,
        started: Clock::now(),
        executor: executor.clone(),
        inbox,
        orders,
        handle: client.handle(),
        first_offer: Some(offers),
        calls: HashMap::new(),
    };
    let server = executor.spawn(keeper.keep(stopped));
    let handle = client.handle();
    let online = async {
        match first_offer.recv_async().await {
            Ok(offer) => client.offer(offer).run().await.map_err(|refused| refused.to_string()),
            // The server cannot be started at all; its task says why.
            Err(_) => std::future::pending().await,
        }
    };
    let mut online = pin!(online);
    let asked_to_stop = async {
        signals.next().await;
        None
    };
    let mut server = server;
    let ended = or(
        async { Some(online.as_mut().await) },
        or(asked_to_stop, async { Some((&mut server).await) }),
    )
    .await;
    let result = match ended {
        Some(result) => result,
        None => {
            log::info("stopping", &[]);
            handle.stop();
            let late = async {
                Timer::after(LEAVE_WAIT).await;
                Ok(())
            };
            or(online, late).await
        }
    };
    drop(stop);
    if !server.is_finished() {
        let again = async {
            signals.next().await;
            log::warn("stopping at once: asked a second time", &[]);
            if let Some(group) = group.get() {
                // It may have ended in this moment.
                kill_process_group(group, rustix::process::Signal::KILL).ok();
            }
        };
        or(async { drop(server.await) }, again).await;
    }
    result
}

fn report(status: &Status) {
    match status {
        Status::Connecting => log::debug("connecting to the bridge", &[]),
        Status::Online { refused } if refused == "[]" => log::info("online", &[]),
        Status::Online { refused } => {
            log::warn("online, without what the bridge refused", &[("refused", refused)]);
        }
        Status::Offline { reason, again } => log::warn(
            "offline",
            &[("reason", reason), ("again_s", &format_args!("{:.1}", again.as_secs_f64()))],
        ),
    }
}

/// Owns the server: starts it, carries messages, and starts it again.
struct Keeper {
    /// The process group of the server that runs, for whoever cannot wait for its end.
    group: Rc<Cell<Option<Pid>>>,
    upstream: Upstream,
    server: Server,
    started: Clock,
    executor: Rc<LocalExecutor<'static>>,
    inbox: flume::Receiver<Order>,
    /// Kept to give to the handler of each offer.
    orders: flume::Sender<Order>,
    handle: Handle,
    /// Where the first offer goes; later ones go to the handle.
    first_offer: Option<flume::Sender<Offer>>,
    calls: HashMap<CallKey, (Call, flume::Sender<Answer>)>,
}

impl Keeper {
    /// Until the other end of `stopped` is dropped; an error when the server cannot be started at all.
    async fn keep(mut self, stopped: flume::Receiver<()>) -> Result<(), String> {
        let mut backoff = Backoff::default();
        let mut ever_started = false;
        loop {
            let began = Clock::now();
            let why = match self.start() {
                Ok(link) => {
                    ever_started = true;
                    let Link { out, inbox, task, group } = link;
                    self.group.set(group);
                    self.upstream.started(self.now());
                    let stop = async {
                        // Nothing is sent: this ends when the other end is dropped.
                        stopped.recv_async().await.ok();
                        None
                    };
                    let why = or(stop, async { Some(self.converse(&out, &inbox).await) }).await;
                    drop((out, inbox));
                    task.await;
                    self.group.set(None);
                    match why {
                        Some(why) => why,
                        None => return Ok(()),
                    }
                }
                Err(why) if !ever_started => return Err(why),
                Err(why) => why,
            };
            self.upstream.gone(&why);
            self.carry(None);
            let ran = Some(began.elapsed()).filter(|ran| *ran >= RAN_WELL);
            let random = getrandom::u64().unwrap_or(u64::MAX / 2);
            let wait = backoff.wait(ran, random);
            log::warn(
                "the local MCP server is started again",
                &[("reason", &why), ("in_s", &format_args!("{:.1}", wait.as_secs_f64()))],
            );
            let stop = async {
                stopped.recv_async().await.ok();
                true
            };
            let pause = async {
                let mut end = pin!(Timer::after(wait));
                while or(self.step(), async { Some((&mut end).await) }).await.is_none() {
                    // Nothing goes out while there is no server; answers do.
                    self.carry(None);
                }
                false
            };
            if or(stop, pause).await {
                return Ok(());
            }
        }
    }

    fn start(&self) -> Result<Link, String> {
        match &self.server {
            Server::Command(command) => pipe::start(command, &self.executor),
            Server::Http(url) => Ok(http::start(url, &self.executor)),
        }
    }

    /// Talks to a server that was started, until it is gone or to be gone; the words say why.
    async fn converse(&mut self, out: &flume::Sender<Out>, inbox: &flume::Receiver<In>) -> String {
        loop {
            if let Some(why) = self.carry(Some(out)) {
                return why;
            }
            let message = async { Some(inbox.recv_async().await) };
            let event = or(message, async {
                self.step().await;
                None
            });
            match event.await {
                None => {}
                Some(Ok(In::Message { text, about })) => {
                    let now = self.now();
                    self.upstream.message(now, &text, about);
                }
                Some(Ok(In::Failed { id, why })) => self.upstream.failed(id, &why),
                Some(Ok(In::Ended(why))) => return why,
                Some(Err(_)) => return "it ended".to_owned(),
            }
        }
    }

    /// Waits for an order or a deadline, and takes it. Never `Some`; the type lets it race with a timer.
    async fn step(&mut self) -> Option<Clock> {
        let deadline = self.upstream.deadline();
        let left = deadline.map(|deadline| deadline.since(self.now()));
        let late = async {
            match left {
                Some(left) => drop(Timer::after(left).await),
                None => std::future::pending().await,
            }
            None
        };
        let order = or(async { self.inbox.recv_async().await.ok() }, late).await;
        let now = self.now();
        match order {
            Some(Order::Call { key, call, answer }) => {
                self.upstream.call(now, key, call.method(), call.params(), call.agent());
                self.calls.insert(key, (call, answer));
            }
            Some(Order::Cancel { key, reason }) => {
                self.calls.remove(&key);
                self.upstream.cancel(key, &reason);
            }
            None => self.upstream.tick(now),
        }
        None
    }

    /// Does what there is to do. Words: the server is to be started again.
    fn carry(&mut self, out: Option<&flume::Sender<Out>>) -> Option<String> {
        let mut restart = None;
        while let Some(effect) = self.upstream.next_effect() {
            match effect {
                Effect::Send { text, about } => {
                    if let Some(out) = out {
                        // A transport that has ended says so by itself.
                        out.send(Out::Send { text, about }).ok();
                    }
                }
                Effect::Forget(id) => {
                    if let Some(out) = out {
                        out.send(Out::Forget(id)).ok();
                    }
                }
                Effect::Offer(register) => {
                    let offer = offer(register, self.orders.clone());
                    match self.first_offer.take() {
                        // The receiver waits for nothing else.
                        Some(first) => drop(first.try_send(offer)),
                        None => self.handle.offer(offer),
                    }
                }
                Effect::Answer { call, answer } => {
                    if let Some((_, to)) = self.calls.remove(&call) {
                        // Cancelled in this very moment, if nobody takes it.
                        to.send(answer).ok();
                    }
                }
                Effect::Note { call, method, params } => {
                    if let Some((call, _)) = self.calls.get(&call) {
                        call.notify(method, &params);
                    }
                }
                Effect::Announce { method, params } => self.handle.announce(method, &params),
                Effect::Tell(words) => log::warn("local MCP server", &[("trouble", &words)]),
                Effect::Restart(why) => restart = Some(why),
            }
        }
        restart
    }

    fn now(&self) -> Instant {
        Instant(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}

/// An offer whose every call goes to the task that owns the server.
fn offer(register: Register, orders: flume::Sender<Order>) -> Offer {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let orders = Arc::new(orders);
    Offer::of(register).otherwise(move |call| {
        let orders = orders.clone();
        async move {
            let key = CallKey(NEXT.fetch_add(1, Ordering::Relaxed));
            let (sender, answer) = flume::bounded(1);
            let gone = || Failure::new(-32603, "the client is stopping");
            let order = Order::Call { key, call: call.clone(), answer: sender };
            orders.send(order).map_err(|_| gone())?;
            let answered = async { Some(answer.recv_async().await) };
            let cancelled = async {
                let reason = call.cancelled().await.to_owned();
                // The task may have ended; then the server has too.
                orders.send(Order::Cancel { key, reason }).ok();
                None
            };
            match or(answered, cancelled).await {
                Some(Ok(answer)) => answer.map_err(Failure::raw),
                Some(Err(_)) | None => Err(gone()),
            }
        }
    })
}
