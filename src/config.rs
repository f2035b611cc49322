//! What the operator asked for, as checked and typed values.
//!
//! Knows every flag of `serve`, its variable, default and bounds. Reads no environment by itself
//! and opens nothing: names are taken literally, secrets are only located (`secrets` loads them). A
//! value that cannot be used is refused here with a sentence that names where it came from. `serve`
//! is next.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clientmcp_proto::limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::log::{self, Format, Level};
use crate::secrets::SecretSource;

mod settings;
mod values;

pub use settings::{ConfigError, Env, Settings, listed, unreadable_variable};
use values::{address, base_path, origin, proxy, seconds, size, switch};
pub use values::{lifetime, some_text};

/// run the bridge
#[derive(argh::FromArgs, Default)]
#[argh(
    subcommand,
    name = "serve",
    help_triggers("-h", "--help", "help"),
    note = "Durations are seconds, fractions allowed. Sizes are bytes, or end in KiB or MiB.\n\
        Each flag has a variable: CLIENTMCP_CALL_TIMEOUT for --call-timeout, CLIENTMCP_DEV=1.\n\
        Several values stand in one variable, separated by spaces or commas. The flag wins.\n\
        Secrets come from CLIENTMCP_SECRET or --secret-file, never from a flag."
)]
pub struct Flags {
    /// address to listen on, repeatable; port 0 picks a free one (127.0.0.1:8787)
    #[argh(option, arg_name = "addr")]
    pub listen: Vec<String>,
    /// for trying it out on this machine: a page at /demo, and a fresh secret when none is set
    #[argh(switch)]
    pub dev: bool,
    /// separate address for /metrics (none)
    #[argh(option, arg_name = "addr")]
    pub metrics: Option<String>,
    /// prefix of every path, such as /bridge (none)
    #[argh(option, arg_name = "path")]
    pub base_path: Option<String>,
    /// file with one secret a line, read again on SIGHUP; the first one signs
    #[argh(option, arg_name = "file")]
    pub secret_file: Option<String>,
    /// file with revoked tokens, a jti or client ID a line, read again on SIGHUP (none)
    #[argh(option, arg_name = "file")]
    pub revoked_file: Option<String>,
    /// audience that a token's aud must name (any)
    #[argh(option, arg_name = "name")]
    pub audience: Option<String>,
    /// origin of a web page that may act as an agent, such as https://app.example, repeatable
    #[argh(option, arg_name = "origin")]
    pub allow_origin: Vec<String>,
    /// IP address of a proxy whose X-Forwarded-For is believed, repeatable
    #[argh(option, arg_name = "addr")]
    pub trusted_proxy: Vec<String>,
    /// clients at once (100000, or what the file limit allows)
    #[argh(option, arg_name = "n")]
    pub max_clients: Option<String>,
    /// connections at once, clients and agents (200000, or what the file limit allows)
    #[argh(option, arg_name = "n")]
    pub max_connections: Option<String>,
    /// connections at once from one address (no limit)
    #[argh(option, arg_name = "n")]
    pub max_connections_per_ip: Option<String>,
    /// connections of a client ID in a minute (60)
    #[argh(option, arg_name = "n")]
    pub max_connects_per_minute: Option<String>,
    /// registers of a connection in a minute (120)
    #[argh(option, arg_name = "n")]
    pub max_registers_per_minute: Option<String>,
    /// time for a connection to show a good token (60)
    #[argh(option, arg_name = "seconds")]
    pub token_timeout: Option<String>,
    /// time for a new client to register (10)
    #[argh(option, arg_name = "seconds")]
    pub register_timeout: Option<String>,
    /// size of a request's header section (16 KiB)
    #[argh(option, arg_name = "size")]
    pub max_header_bytes: Option<String>,
    /// header fields of a request (100, at most 128)
    #[argh(option, arg_name = "n")]
    pub max_headers: Option<String>,
    /// time for a request's head to arrive (10)
    #[argh(option, arg_name = "seconds")]
    pub head_timeout: Option<String>,
    /// size of a request's body (4 MiB, at most that)
    #[argh(option, arg_name = "size")]
    pub max_body_bytes: Option<String>,
    /// time without progress in a body or an answer (30)
    #[argh(option, arg_name = "seconds")]
    pub body_timeout: Option<String>,
    /// time an idle connection of an agent stays open (75)
    #[argh(option, arg_name = "seconds")]
    pub keep_alive: Option<String>,
    /// size of a register message (1 MiB)
    #[argh(option, arg_name = "size")]
    pub max_register_bytes: Option<String>,
    /// definitions of a register over its four lists (1000)
    #[argh(option, arg_name = "n")]
    pub max_definitions: Option<String>,
    /// running calls of a client (256)
    #[argh(option, arg_name = "n")]
    pub max_calls: Option<String>,
    /// bytes queued for a client (8 MiB)
    #[argh(option, arg_name = "size")]
    pub max_queued_bytes: Option<String>,
    /// bytes that wait for the reader of an agent's stream (8 MiB)
    #[argh(option, arg_name = "size")]
    pub max_stream_bytes: Option<String>,
    /// open GET and listen streams of a client ID (64)
    #[argh(option, arg_name = "n")]
    pub max_streams: Option<String>,
    /// time for a client to answer a call (300)
    #[argh(option, arg_name = "seconds")]
    pub call_timeout: Option<String>,
    /// time a call waits for a client that was here a moment ago (5)
    #[argh(option, arg_name = "seconds")]
    pub reconnect_wait: Option<String>,
    /// time a client's tools are kept after it left (30)
    #[argh(option, arg_name = "seconds")]
    pub offline_grace: Option<String>,
    /// time for running calls to finish at a stop (10)
    #[argh(option, arg_name = "seconds")]
    pub drain_timeout: Option<String>,
    /// text or json (text)
    #[argh(option, arg_name = "format")]
    pub log_format: Option<String>,
    /// error, warn, info or debug (info)
    #[argh(option, arg_name = "level")]
    pub log_level: Option<String>,
}

/// Everything `serve` needs to know. Defaults and bounds are in [`limits`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where to listen, at least one address; port 0 picks a free one.
    pub listen: Vec<SocketAddr>,
    /// Where `/metrics` is served, if anywhere.
    pub metrics: Option<SocketAddr>,
    /// Serve `/demo`. Then every address in `listen` is loopback.
    pub dev: bool,
    /// Empty, or begins with a slash and does not end with one.
    pub base_path: String,
    /// Where the secrets come from.
    pub secrets: SecretSource,
    /// Where the revoked tokens are listed, if anywhere.
    pub revoked_file: Option<PathBuf>,
    /// What a token's `aud` must be or contain.
    pub audience: Option<String>,
    /// Allowed origins as browsers write them (RFC 6454 §6.2): lower case, no default port.
    pub allow_origins: Vec<String>,
    /// Peers whose `X-Forwarded-For` counts, IPv4-mapped ones as IPv4: compare with
    /// `to_canonical()`.
    pub trusted_proxies: Vec<IpAddr>,
    /// Clients at once; see [`Config::fit_to_file_limit`].
    pub clients_max: usize,
    /// Connections at once; see [`Config::fit_to_file_limit`].
    pub connections_max: usize,
    /// Connections of one client ID in a minute: so many at once, then evenly.
    pub connects_per_minute_max: usize,
    /// Registers of one connection in a minute, in the same way.
    pub registers_per_minute_max: usize,
    /// For a connection to show a good token.
    pub token_timeout: Duration,
    /// For the first register after the handshake.
    pub register_timeout: Duration,
    /// Of a POST, in bytes.
    pub body_bytes_max: usize,
    /// For the reader of one agent's stream, in bytes.
    pub queued_bytes_per_stream_max: usize,
    /// Connections at once from one address, if bounded.
    pub connections_per_ip_max: Option<usize>,
    /// Request line and header section, in bytes.
    pub head_bytes_max: usize,
    /// Header fields of a request, at most [`limits::HEADERS_CEILING`].
    pub headers_max: usize,
    /// For a whole request head.
    pub head_timeout: Duration,
    /// Without progress in a body or response.
    pub body_timeout: Duration,
    /// Of an idle agent connection; zero closes after each response.
    pub keep_alive: Duration,
    /// Of one register message, in bytes.
    pub register_bytes_max: usize,
    /// Over the four lists of a register.
    pub definitions_max: usize,
    /// Running, of one client.
    pub calls_per_client_max: usize,
    /// For one client, in bytes.
    pub queued_bytes_per_client_max: usize,
    /// GET and listen streams of one client ID; zero serves none.
    pub streams_per_client_max: usize,
    /// For a client to answer.
    pub call_timeout: Duration,
    /// For a client that left a moment ago; zero does not wait.
    pub reconnect_wait: Duration,
    /// During which a client that left counts as about to return.
    pub offline_grace: Duration,
    /// For running calls once asked to stop.
    pub drain_timeout: Duration,
    /// Of the log.
    pub log_format: Format,
    /// Of the log.
    pub log_level: Level,
}

impl Config {
    /// Checks the flags and, for those not given, the variables; the rest are defaults.
    pub fn from_parts(f: Flags, env: Env) -> Result<Config, ConfigError> {
        use clientmcp_proto::limits::*; // thirty names, each used once
        let given = Settings { env };
        let forever = Duration::ZERO..=TIMEOUT_MAX;
        let some_time = Duration::from_millis(1)..=TIMEOUT_MAX;
        let any = 1..=usize::MAX;
        let time =
            |flag, value, default, bounds: &RangeInclusive<Duration>| -> Result<_, ConfigError> {
                Ok(given.one(flag, value, |text| seconds(text, bounds))?.unwrap_or(default))
            };
        let count =
            |flag, value, default, bounds: &RangeInclusive<usize>| -> Result<_, ConfigError> {
                Ok(given.one(flag, value, |text| size(text, false, bounds))?.unwrap_or(default))
            };
        let bytes =
            |flag, value, default, bounds: &RangeInclusive<usize>| -> Result<_, ConfigError> {
                Ok(given.one(flag, value, |text| size(text, true, bounds))?.unwrap_or(default))
            };
        let dev = f.dev || given.one("--dev", None, switch)?.unwrap_or(false);
        Ok(Config {
            listen: listen(given, f.listen, dev)?,
            metrics: given.one("--metrics", f.metrics, address)?,
            dev,
            base_path: given.one("--base-path", f.base_path, base_path)?.unwrap_or_default(),
            secrets: SecretSource::find(f.secret_file, dev, env)?,
            revoked_file: given
                .one("--revoked-file", f.revoked_file, some_text)?
                .map(PathBuf::from),
            audience: given.one("--audience", f.audience, some_text)?,
            allow_origins: given.several("--allow-origin", f.allow_origin, origin)?,
            trusted_proxies: given.several("--trusted-proxy", f.trusted_proxy, proxy)?,
            clients_max: count("--max-clients", f.max_clients, CLIENTS_MAX, &any)?,
            connections_max: count("--max-connections", f.max_connections, CONNECTIONS_MAX, &any)?,
            connects_per_minute_max: count(
                "--max-connects-per-minute",
                f.max_connects_per_minute,
                CONNECTS_PER_MINUTE_MAX,
                &(1..=PER_MINUTE_CEILING),
            )?,
            registers_per_minute_max: count(
                "--max-registers-per-minute",
                f.max_registers_per_minute,
                REGISTERS_PER_MINUTE_MAX,
                &(1..=PER_MINUTE_CEILING),
            )?,
            token_timeout: time("--token-timeout", f.token_timeout, TOKEN_TIMEOUT, &some_time)?,
            register_timeout: time(
                "--register-timeout",
                f.register_timeout,
                REGISTER_TIMEOUT,
                &some_time,
            )?,
            body_bytes_max: bytes(
                "--max-body-bytes",
                f.max_body_bytes,
                BODY_BYTES_MAX,
                &(1..=BODY_BYTES_MAX),
            )?,
            queued_bytes_per_stream_max: bytes(
                "--max-stream-bytes",
                f.max_stream_bytes,
                QUEUED_BYTES_PER_STREAM_MAX,
                &any,
            )?,
            connections_per_ip_max: given.one(
                "--max-connections-per-ip",
                f.max_connections_per_ip,
                |text| size(text, false, &any),
            )?,
            head_bytes_max: bytes(
                "--max-header-bytes",
                f.max_header_bytes,
                HEAD_BYTES_MAX,
                &(256..=HEAD_BYTES_CEILING),
            )?,
            headers_max: count(
                "--max-headers",
                f.max_headers,
                HEADERS_MAX,
                &(1..=HEADERS_CEILING),
            )?,
            head_timeout: time("--head-timeout", f.head_timeout, HEAD_TIMEOUT, &some_time)?,
            body_timeout: time("--body-timeout", f.body_timeout, BODY_TIMEOUT, &some_time)?,
            keep_alive: time("--keep-alive", f.keep_alive, KEEP_ALIVE, &forever)?,
            register_bytes_max: bytes(
                "--max-register-bytes",
                f.max_register_bytes,
                REGISTER_BYTES_MAX,
                &(1..=MESSAGE_BYTES_MAX),
            )?,
            definitions_max: count("--max-definitions", f.max_definitions, DEFINITIONS_MAX, &any)?,
            calls_per_client_max: count("--max-calls", f.max_calls, CALLS_PER_CLIENT_MAX, &any)?,
            queued_bytes_per_client_max: bytes(
                "--max-queued-bytes",
                f.max_queued_bytes,
                QUEUED_BYTES_PER_CLIENT_MAX,
                &any,
            )?,
            streams_per_client_max: count(
                "--max-streams",
                f.max_streams,
                STREAMS_PER_CLIENT_MAX,
                &(0..=usize::MAX),
            )?,
            call_timeout: time("--call-timeout", f.call_timeout, CALL_TIMEOUT, &some_time)?,
            reconnect_wait: time("--reconnect-wait", f.reconnect_wait, RECONNECT_WAIT, &forever)?,
            offline_grace: time("--offline-grace", f.offline_grace, OFFLINE_GRACE, &forever)?,
            drain_timeout: time("--drain-timeout", f.drain_timeout, DRAIN_TIMEOUT, &forever)?,
            log_format: given
                .one("--log-format", f.log_format, Format::from_str)?
                .unwrap_or(Format::Text),
            log_level: given
                .one("--log-level", f.log_level, Level::from_str)?
                .unwrap_or(Level::Info),
        })
    }

    /// The defaults, for a bridge inside another program: these secrets (separated as in
    /// `CLIENTMCP_SECRET`) and these addresses. Its fields are there to be changed.
    ///
    /// # Errors
    /// One sentence when an address cannot be read; a secret is looked at when the bridge is bound.
    pub fn with_secret<'a>(
        secret: &str,
        listen: impl IntoIterator<Item = &'a str>,
    ) -> Result<Config, String> {
        let listen = listen.into_iter().map(str::to_owned).collect();
        let flags = Flags { listen, ..Flags::default() };
        let env = |name: &str| (name == "CLIENTMCP_SECRET").then(|| secret.to_owned());
        Config::from_parts(flags, &env).map_err(|error| error.to_string())
    }

    /// Raises the process's soft file limit to the hard one and lowers `connections_max` and
    /// `clients_max` to what then fits. Call once, before the first socket.
    pub fn fit_to_file_limit(&mut self) {
        let Some(files) = raise_file_limit() else { return };
        let fit = |flag: &str, max: &mut usize, kept| {
            let fitting = fitting(*max, files, kept);
            if fitting < *max {
                let what = format!("{flag} lowered to what the file limit (RLIMIT_NOFILE) allows");
                log::debug(&what, &[("asked", max), ("now", &fitting)]);
                *max = fitting;
            }
        };
        fit("--max-connections", &mut self.connections_max, limits::FILES_OWN.min(files / 4));
        fit("--max-clients", &mut self.clients_max, limits::FILES_RESERVED.min(files / 2));
    }
}

/// The most files this process may have open after asking for as many as it can get; `None`: any
/// number.
fn raise_file_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current, // some systems refuse "any number"; the old limit still holds
    }
}

/// How many of the `wanted` fit when so many `files` are `kept` for everything else.
fn fitting(wanted: usize, files: u64, kept: u64) -> usize {
    wanted.min(usize::try_from(files - kept).unwrap_or(usize::MAX)).max(1)
}

/// The addresses to listen on; with `--dev` only loopback ones, because its page carries a token.
fn listen(given: Settings, values: Vec<String>, dev: bool) -> Result<Vec<SocketAddr>, ConfigError> {
    let all = given.several("--listen", values, |text| match address(text)? {
        address if dev && !address.ip().to_canonical().is_loopback() => {
            Err(format!("must be a loopback address with --dev, not {text:?}"))
        }
        address => Ok(address),
    })?;
    let default = SocketAddr::from((Ipv4Addr::LOCALHOST, 8787));
    Ok(if all.is_empty() { vec![default] } else { all })
}

#[cfg(test)]
mod tests;
