//! A whole bridge: it binds, serves on the thread that runs it, and stops in order when it is asked to.
//!
//! `serve` runs one from the command line; an appliance runs one inside its own process. Knows no signals
//! and no flags.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::time::Duration;

use clientmcp_proto::fault::Close;
use clientmcp_proto::time::Instant;
use smol::LocalExecutor;

use crate::config::Config;
use crate::listener::Listener;
use crate::registry::{self, Request};
use crate::revoked::Revoked;
use crate::shared::Shared;
use crate::timers::{self, Timer};
use crate::{dev, log};

/// How long the last bytes of answered calls may take to be written, and closed clients to go.
const FLUSH_WAIT: Duration = Duration::from_secs(3);

/// How long peers may take, at the very end, to read what they were told.
const READ_WAIT: Duration = Duration::from_millis(500);

/// How often the end of something is looked for while stopping.
const LOOK: Duration = Duration::from_millis(20);

/// A bridge that has its addresses and does not serve yet.
///
/// It belongs to the thread that made it. To run it beside other work, make it on a thread of its own and
/// send its [`Control`] and addresses back:
///
/// ```
/// use clientmcp::{Bridge, config::Config};
///
/// let (tell, told) = std::sync::mpsc::channel();
/// let thread = std::thread::spawn(move || {
///     let config = Config::with_secret("a-secret-of-at-least-thirty-two-bytes", ["127.0.0.1:0"])?;
///     let bridge = Bridge::bind(config)?;
///     tell.send((bridge.addresses().to_vec(), bridge.control())).map_err(|e| e.to_string())?;
///     bridge.run()
/// });
/// let (addresses, control) = told.recv().expect("it is bound");
/// assert_ne!(addresses[0].port(), 0);
/// control.stop();
/// assert_eq!(thread.join().expect("no panic"), Ok(()));
/// ```
pub struct Bridge {
    executor: Rc<LocalExecutor<'static>>,
    shared: Rc<Shared>,
    listeners: Vec<Listener>,
    metrics: Option<Listener>,
    addresses: Vec<SocketAddr>,
    control: Control,
    orders: flume::Receiver<Order>,
}

enum Order {
    Stop,
    StopAtOnce,
    Reload,
}

/// Steers a running bridge from any thread. What it is told after the bridge has ended has no effect.
#[derive(Clone)]
pub struct Control {
    orders: flume::Sender<Order>,
}

impl Control {
    /// Stops in order: running calls get `drain_timeout` to finish, everyone is told, and `run` returns.
    pub fn stop(&self) {
        self.orders.send(Order::Stop).ok();
    }

    /// Stops without waiting for anyone.
    pub fn stop_at_once(&self) {
        self.orders.send(Order::StopAtOnce).ok();
    }

    /// Reads the secrets and the revoked tokens again from where the configuration says they are; what
    /// cannot be used leaves the old in place. Clients whose token is revoked now are closed.
    pub fn reload(&self) {
        self.orders.send(Order::Reload).ok();
    }
}

impl Bridge {
    /// Reads the secrets and takes the addresses.
    ///
    /// # Errors
    /// One sentence that names the flag or variable at fault: an address in use, a secret too short.
    pub fn bind(config: Config) -> Result<Bridge, String> {
        let secrets = config.secrets.load()?;
        let revoked = revoked(&config)?;
        let executor = Rc::new(LocalExecutor::new());
        let shared = Shared::new(config, secrets, revoked, &executor);
        let mut listeners = Vec::new();
        for address in &shared.config.listen {
            listeners.push(Listener::bind("--listen", *address, false)?);
        }
        let metrics = match shared.config.metrics {
            Some(address) => Some(Listener::bind("--metrics", address, true)?),
            None => None,
        };
        let addresses = listeners.iter().map(|listener| listener.address).collect();
        let (orders, received) = flume::unbounded();
        let control = Control { orders };
        let orders = received;
        Ok(Bridge { executor, shared, listeners, metrics, addresses, control, orders })
    }

    /// Where it listens, in the order of the configuration; port 0 has become a real one.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Where `/metrics` is served.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|listener| listener.address)
    }

    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Lets a task of the program's own run beside the bridge.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.shared.spawn(task);
    }

    /// Serves on this thread until it is told to stop.
    ///
    /// # Errors
    /// One sentence when something failed that everyone depends on, which is a bug.
    pub fn run(self) -> Result<(), String> {
        let executor = self.executor.clone();
        // Everything is a task, this too: what is given to block_on is polled at every turn of the
        // reactor. With the executor, at the end, all of them are dropped.
        let shared = self.shared.clone();
        let main = executor.spawn(self.serve());
        let mut all = pin!(executor.run(main));
        async_io::block_on(poll_fn(|cx| {
            shared.begin_turn();
            all.as_mut().poll(cx)
        }))
    }

    async fn serve(self) -> Result<(), String> {
        let Bridge { shared, listeners, metrics, addresses, orders, executor, .. } = self;
        // The tasks are the executor's; a hold on it in one of them would keep both for ever.
        drop(executor);
        let (failed, failure) = flume::unbounded();
        shared.spawn_vital(timers::drive(shared.clone()), failed.clone());
        shared.spawn_vital(registry::run(shared.clone()), failed.clone());
        for listener in listeners.into_iter().chain(metrics) {
            shared.spawn_vital(listener.run(shared.clone()), failed.clone());
        }
        if shared.config.dev {
            dev::start(&shared, addresses[0]);
        }
        let served = smol::future::or(obey(&shared, &orders), async {
            failure.recv_async().await.ok();
            Err("a task failed that everyone depends on; please report this".to_owned())
        });
        served.await
    }
}

async fn obey(shared: &Rc<Shared>, orders: &flume::Receiver<Order>) -> Result<(), String> {
    loop {
        // A bridge whose controls are all gone serves on.
        match orders.recv_async().await {
            Ok(Order::Reload) => reload(shared),
            Ok(Order::Stop) => break,
            Ok(Order::StopAtOnce) => return Ok(()),
            Err(flume::RecvError::Disconnected) => std::future::pending::<()>().await,
        }
    }
    let again = async {
        while let Ok(order) = orders.recv_async().await {
            if !matches!(order, Order::Reload) {
                log::warn("stopping at once: asked a second time", &[]);
                return;
            }
        }
        std::future::pending().await
    };
    smol::future::or(stop(shared), again).await;
    Ok(())
}

/// What cannot be used leaves the old in place.
fn reload(shared: &Shared) {
    match shared.config.secrets.reload() {
        Ok(secrets) => {
            shared.replace_secrets(secrets);
            log::info("secrets read again", &[]);
        }
        Err(error) => log::error("secrets not read again, the old ones stay", &[("error", &error)]),
    }
    match revoked(&shared.config) {
        Ok(revoked) => {
            if shared.config.revoked_file.is_some() {
                log::info("revoked tokens read again", &[("entries", &revoked.len())]);
            }
            shared.replace_revoked(revoked);
            shared.tell(Request::CheckTokens);
        }
        Err(error) => {
            log::error("revoked tokens not read again, the old list stays", &[("error", &error)]);
        }
    }
}

fn revoked(config: &Config) -> Result<Revoked, String> {
    config.revoked_file.as_deref().map_or(Ok(Revoked::default()), Revoked::load)
}

/// Takes no new work, lets what runs finish, and sends everyone away in an order that tells each the
/// truth: calls first, then clients, and notification streams last, because an agent gives up on one
/// that ends while the bridge still refuses.
async fn stop(shared: &Rc<Shared>) {
    shared.draining.set(true);
    log::info("stopping: no new work is taken", &[]);
    let drained = shared.now() + shared.config.drain_timeout;
    until(shared, drained, || shared.metrics.calls_running.get() == 0).await;
    shared.tell(Request::EndCalls);
    let flushed = shared.now() + FLUSH_WAIT;
    until(shared, flushed, || shared.metrics.calls_running.get() == 0).await;
    until(shared, flushed, || shared.answering.get() == 0).await;
    shared.tell(Request::EndClients);
    for stranger in shared.strangers.take().iter().filter_map(Weak::upgrade) {
        stranger.ask_to_close(Close::Stopping);
    }
    until(shared, shared.now() + FLUSH_WAIT, || shared.clients.get() == 0).await;
    shared.tell(Request::EndStreams);
    until(shared, shared.now() + FLUSH_WAIT, || shared.metrics.streams.get() == 0).await;
    let read = shared.now() + READ_WAIT;
    until(shared, read, || shared.lingering.get() == 0).await;
    log::info("stopped", &[]);
}

async fn until(shared: &Rc<Shared>, deadline: Instant, done: impl Fn() -> bool) {
    let mut timer = Timer::new(shared.clone());
    while !done() && shared.now() < deadline {
        timer.until((shared.now() + LOOK).min(deadline)).await;
    }
}
