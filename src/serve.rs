//! Runs the bridge until it is asked to stop.

use crate::config::Config;

/// Serves until SIGTERM or SIGINT. The error is one sentence that names the flag or variable at
/// fault.
pub fn run(config: Config) -> Result<(), String> {
    Err(format!("--listen {}: this build cannot serve yet", config.listen[0]))
}
