//! Runs the bridge: binds, serves, and stops in order when it is asked to.

use std::rc::{Rc, Weak};
use std::time::Duration;

use async_signal::{Signal, Signals};
use clientmcp_proto::fault::Close;
use clientmcp_proto::time::Instant;
use smol::LocalExecutor;
use smol::stream::StreamExt;

use crate::config::Config;
use crate::listener::Listener;
use crate::registry::{self, Request};
use crate::shared::Shared;
use crate::timers::{self, Timer};
use crate::{dev, log};

/// How long the last bytes of answered calls may take to be written, and closed clients to go.
const FLUSH_WAIT: Duration = Duration::from_secs(3);

/// How long peers may take, at the very end, to read what they were told.
const READ_WAIT: Duration = Duration::from_millis(500);

/// How often the end of something is looked for while stopping.
const LOOK: Duration = Duration::from_millis(20);

/// Serves until SIGTERM or SIGINT. The error is one sentence that names the flag or variable at fault.
pub fn run(config: Config) -> Result<(), String> {
    let executor = Rc::new(LocalExecutor::new());
    let secrets = config.secrets.load()?;
    let (registry, inbox) = flume::unbounded();
    let shared = Shared::new(config, secrets, registry, executor.clone());
    std::panic::set_hook(Box::new(|panic| {
        log::error("a task failed; please report this", &[("panic", &panic)]);
    }));
    // Everything is a task, this too: what is given to block_on is polled at every turn of the reactor.
    let main = executor.spawn(serve(shared, inbox));
    async_io::block_on(executor.run(main))
}

async fn serve(shared: Rc<Shared>, inbox: flume::Receiver<Request>) -> Result<(), String> {
    let mut signals = Signals::new([Signal::Term, Signal::Int, Signal::Hup])
        .map_err(|error| format!("signals cannot be watched: {error}"))?;
    let mut listeners = Vec::new();
    for address in &shared.config.listen {
        listeners.push(Listener::bind("--listen", *address, false)?);
    }
    let metrics = match shared.config.metrics {
        Some(address) => Some(Listener::bind("--metrics", address, true)?),
        None => None,
    };
    shared.spawn_vital(timers::drive(shared.clone()));
    shared.spawn_vital(registry::run(shared.clone(), inbox));
    let addresses: Vec<_> = listeners.iter().map(|listener| listener.address).collect();
    for listener in listeners.into_iter().chain(metrics) {
        shared.spawn_vital(listener.run(shared.clone()));
    }
    for address in &addresses {
        log::announce(&format!("listening on http://{address}"));
    }
    if shared.config.dev {
        dev::start(&shared, addresses[0])?;
    }
    loop {
        match signals.next().await {
            Some(Ok(Signal::Hup)) => reload(&shared),
            Some(Ok(_)) => break,
            Some(Err(error)) => return Err(format!("signals cannot be watched: {error}")),
            None => return Err("signals cannot be watched any more".to_owned()),
        }
    }
    let again = async {
        while let Some(signal) = signals.next().await {
            match signal {
                Ok(Signal::Hup) => {}
                _ => break,
            }
        }
        log::warn("stopping at once: asked a second time", &[]);
    };
    smol::future::or(stop(&shared), again).await;
    Ok(())
}

/// Secrets that cannot be used leave the old ones in place.
fn reload(shared: &Shared) {
    match shared.config.secrets.load() {
        Ok(secrets) => {
            *shared.secrets.borrow_mut() = Rc::new(secrets);
            log::info("secrets read again", &[]);
        }
        Err(error) => log::error("secrets not read again, the old ones stay", &[("error", &error)]),
    }
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
