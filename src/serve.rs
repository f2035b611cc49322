//! `clientmcp serve`: a bridge that obeys signals.

use async_signal::{Signal, Signals};
use smol::stream::StreamExt;

use crate::bridge::{Bridge, Control};
use crate::config::Config;
use crate::log;

/// Serves until SIGTERM or SIGINT. The error is one sentence that names the flag or variable at fault.
pub fn run(config: Config) -> Result<(), String> {
    let bridge = Bridge::bind(config)?;
    let unwatched = |error: std::io::Error| format!("signals cannot be watched: {error}");
    let signals = Signals::new([Signal::Term, Signal::Int, Signal::Hup]).map_err(unwatched)?;
    std::panic::set_hook(Box::new(|panic| {
        log::error("a task failed; please report this", &[("panic", &panic)]);
    }));
    if let Some(address) = bridge.metrics_address() {
        log::info("metrics are served", &[("address", &address)]);
    }
    for address in bridge.addresses() {
        log::announce(&format!("listening on http://{address}"));
    }
    bridge.spawn(obey(signals, bridge.control()));
    bridge.run()
}

/// Hands signals on; a second one to stop is an order like the first, and the bridge knows that it is.
async fn obey(mut signals: Signals, control: Control) {
    while let Some(signal) = signals.next().await {
        match signal {
            Ok(Signal::Hup) => control.reload(),
            Ok(_) => control.stop(),
            Err(error) => log::error("a signal was lost", &[("error", &error)]),
        }
    }
}
