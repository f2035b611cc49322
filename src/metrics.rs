//! What the bridge counts, and the Prometheus text that shows it on the `--metrics` address.
//!
//! Plain cells: the bridge runs on one thread, and whoever sees a thing happen counts it. Labels
//! are closed sets, so that no peer can add a line; nothing here says who did it, that is the log's
//! part. Format: Prometheus exposition format 0.0.4.

use std::cell::Cell;
use std::fmt::Write as _;

/// The `Content-Type` of what [`Metrics::render`] returns.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A number that only grows.
#[derive(Default)]
pub struct Counter(Cell<u64>);

impl Counter {
    /// Counts one.
    pub fn count(&self) {
        self.add(1);
    }

    /// Counts several, bytes for example.
    pub fn add(&self, more: u64) {
        self.0.set(self.0.get().wrapping_add(more)); // wraps after 584 years at 1 GB/s
    }

    /// The number so far.
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

/// A number that comes and goes.
#[derive(Default)]
pub struct Gauge(Cell<u64>);

impl Gauge {
    /// One more.
    pub fn up(&self) {
        self.0.set(self.0.get() + 1);
    }

    /// One less. Each goes with one [`Gauge::up`].
    pub fn down(&self) {
        debug_assert!(self.0.get() > 0, "more left than came");
        self.0.set(self.0.get().saturating_sub(1));
    }

    /// The number now.
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

/// A closed set of label values, each with its place in an array of counters.
macro_rules! labels {
    (
        $(#[$doc:meta])* $name:ident {
            $($(#[$variant_doc:meta])* $variant:ident = $label:literal,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            const LABELS: &[&str] = &[$($label),*];
        }
    };
}

labels! {
    /// Why a call failed; what the agent was told is in the fault table.
    Failure {
        /// The client was not connected, or did not come back in time.
        Offline = "offline",
        /// Too many calls were running for the client (`--max-calls`).
        Busy = "busy",
        /// The client's queue was full (`--max-queued-bytes`).
        QueueFull = "queue_full",
        /// The client's connection ended while it ran.
        Lost = "lost",
        /// The call did not fit one channel message.
        TooLarge = "too_large",
        /// An `input_required` could not be put to the agent, or had too many rounds.
        Input = "input",
        /// The bridge stopped while it ran.
        Stopping = "stopping",
    }
}

labels! {
    /// What was refused before it became a call or a connection.
    Refusal {
        /// 401 or 4401: no token, a bad one or an expired one.
        Token = "token",
        /// 403 or 4403: the token may not do this.
        Forbidden = "forbidden",
        /// 403: the origin is not allowed.
        Origin = "origin",
        /// 404 and 405: no such route, or not with this method.
        Route = "route",
        /// 400 and 431 and 505: not HTTP/1.1 as RFC 9112 has it, or too large a head.
        Http = "http",
        /// 408, or closed: too slow.
        Slow = "slow",
        /// 413 or 1009: body or message too large.
        TooLarge = "too_large",
        /// 406 and 415: media types.
        Media = "media",
        /// A JSON-RPC error from the bridge itself.
        Rpc = "rpc",
        /// 4400: a bad channel message or register.
        Channel = "channel",
        /// 4429: `--max-clients`.
        Clients = "clients",
        /// 503 or 4429: `--max-connections`.
        Connections = "connections",
        /// 4429: `--max-connects-per-minute`.
        Rate = "rate",
        /// 429 or 4429: `--max-connections-per-ip`.
        Address = "address",
        /// 429: `--max-streams`.
        Streams = "streams",
        /// 503: the bridge is stopping.
        Stopping = "stopping",
    }
}

/// The close codes that are told apart (contract §4; 1000 and 1006 are a client's own leaving); any
/// other is `other`.
const CLOSE_CODES: [u16; 12] =
    [1000, 1001, 1002, 1006, 1007, 1009, 4400, 4401, 4403, 4408, 4409, 4429];
const CLOSE_LABELS: &[&str] = &[
    "1000", "1001", "1002", "1006", "1007", "1009", "4400", "4401", "4403", "4408", "4409", "4429",
    "other",
];
const STATUS_LABELS: &[&str] = &["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Everything that is counted, one for the process.
#[derive(Default)]
pub struct Metrics {
    /// Client connections with an accepted register.
    pub clients: Gauge,
    /// First accepted registers of a connection.
    pub joins: Counter,
    leaves: [Counter; CLOSE_LABELS.len()],
    agent_requests: [Counter; STATUS_LABELS.len()],
    /// Calls taken from agents, whatever became of them.
    pub calls_started: Counter,
    /// Calls that a client ended with a result or an error.
    pub calls_answered: Counter,
    /// Calls that the agent no longer wanted.
    pub calls_cancelled: Counter,
    /// Calls that met `--call-timeout`.
    pub calls_timed_out: Counter,
    calls_failed: [Counter; Failure::LABELS.len()],
    /// Calls that a client is working on or that wait for one.
    pub calls_running: Gauge,
    /// Open GET and listen streams.
    pub streams: Gauge,
    /// Bytes read from clients' sockets after the upgrade.
    pub channel_received_bytes: Counter,
    /// Bytes written to clients' sockets after the upgrade.
    pub channel_sent_bytes: Counter,
    refusals: [Counter; Refusal::LABELS.len()],
    /// TCP connections accepted on the `--listen` addresses.
    pub connections_accepted: Counter,
    /// TCP connections open on them.
    pub connections: Gauge,
}

impl Metrics {
    /// Counts the end of a joined connection by the close code that either side sent; 1006 for none
    /// (RFC 6455 §7.4.1).
    pub fn leave(&self, code: u16) {
        let place = CLOSE_CODES.iter().position(|known| *known == code);
        self.leaves[place.unwrap_or(CLOSE_CODES.len())].count();
    }

    /// Counts an answered agent request by its HTTP status; one that is none counts as 5xx, ours to
    /// explain.
    pub fn agent_request(&self, status: u16) {
        let class = usize::from(status / 100).wrapping_sub(1);
        self.agent_requests[class.min(STATUS_LABELS.len() - 1)].count();
    }

    /// Counts a call that failed without the client's doing.
    pub fn call_failed(&self, why: Failure) {
        self.calls_failed[why as usize].count();
    }

    /// Counts a refusal.
    pub fn refusal(&self, what: Refusal) {
        self.refusals[what as usize].count();
    }

    /// Everything as Prometheus text; never more than a few KiB.
    pub fn render(&self) -> String {
        let mut page = Page(String::with_capacity(6 << 10));
        page.gauge("clients", "Clients connected and registered.", &self.clients);
        page.counter("client_joins_total", "Clients that joined.", &self.joins);
        page.family(
            "client_leaves_total",
            "Clients that left, by WebSocket close code.",
            ("code", CLOSE_LABELS, &self.leaves),
        );
        page.family(
            "agent_requests_total",
            "HTTP requests of agents answered, by status class.",
            ("status", STATUS_LABELS, &self.agent_requests),
        );
        page.counter("calls_started_total", "Calls taken from agents.", &self.calls_started);
        page.counter("calls_answered_total", "Calls a client answered.", &self.calls_answered);
        page.counter("calls_cancelled_total", "Calls an agent cancelled.", &self.calls_cancelled);
        page.counter(
            "calls_timed_out_total",
            "Calls no client answered in time.",
            &self.calls_timed_out,
        );
        page.family(
            "calls_failed_total",
            "Calls that failed on the way, by reason.",
            ("reason", Failure::LABELS, &self.calls_failed),
        );
        page.gauge("calls_running", "Calls not ended yet.", &self.calls_running);
        page.gauge("streams_open", "Open GET and listen streams.", &self.streams);
        page.counter(
            "channel_received_bytes_total",
            "Bytes read from clients' sockets.",
            &self.channel_received_bytes,
        );
        page.counter(
            "channel_sent_bytes_total",
            "Bytes written to clients' sockets.",
            &self.channel_sent_bytes,
        );
        page.family(
            "refusals_total",
            "Requests, connections and messages refused, by kind.",
            ("kind", Refusal::LABELS, &self.refusals),
        );
        page.counter(
            "connections_accepted_total",
            "TCP connections accepted.",
            &self.connections_accepted,
        );
        page.gauge("connections_open", "TCP connections open.", &self.connections);
        page.0
    }
}

struct Page(String);

impl Page {
    fn gauge(&mut self, name: &str, help: &str, gauge: &Gauge) {
        self.head(name, help, "gauge");
        self.sample(name, "", gauge.get());
    }

    fn counter(&mut self, name: &str, help: &str, counter: &Counter) {
        self.head(name, help, "counter");
        self.sample(name, "", counter.get());
    }

    /// One counter for each value of one label, zeros included: a rate needs a first sample.
    fn family(
        &mut self,
        name: &str,
        help: &str,
        (label, values, all): (&str, &[&str], &[Counter]),
    ) {
        self.head(name, help, "counter");
        for (value, counter) in values.iter().zip(all) {
            self.sample(name, &format!("{{{label}=\"{value}\"}}"), counter.get());
        }
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# HELP clientmcp_{name} {help}\n# TYPE clientmcp_{name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &str, value: u64) {
        let _ = writeln!(self.0, "clientmcp_{name}{labels} {value}"); // as above
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn sample(metrics: &Metrics, series: &str) -> u64 {
        let page = metrics.render();
        let value = page.lines().find_map(|line| line.strip_prefix(&format!("{series} ")));
        value.unwrap_or_else(|| panic!("no {series} in\n{page}")).parse().expect("a number")
    }

    #[test]
    fn what_is_counted_is_shown_under_its_name() {
        let metrics = Metrics::default();
        metrics.clients.up();
        metrics.clients.up();
        metrics.clients.down();
        metrics.joins.add(2);
        metrics.channel_sent_bytes.add(4096);
        metrics.call_failed(Failure::QueueFull);
        metrics.refusal(Refusal::Stopping);
        for (series, value) in [
            ("clientmcp_clients", 1),
            ("clientmcp_client_joins_total", 2),
            ("clientmcp_channel_sent_bytes_total", 4096),
            ("clientmcp_channel_received_bytes_total", 0),
            ("clientmcp_calls_failed_total{reason=\"queue_full\"}", 1),
            ("clientmcp_calls_failed_total{reason=\"stopping\"}", 0),
            ("clientmcp_refusals_total{kind=\"stopping\"}", 1),
            ("clientmcp_refusals_total{kind=\"token\"}", 0),
        ] {
            assert_eq!(sample(&metrics, series), value, "{series}");
        }
    }

    #[test]
    fn leaves_are_told_apart_by_the_codes_of_the_contract() {
        let metrics = Metrics::default();
        for code in CLOSE_CODES {
            metrics.leave(code);
            assert_eq!(
                sample(&metrics, &format!("clientmcp_client_leaves_total{{code=\"{code}\"}}")),
                1
            );
        }
        for code in [0, 1005, 3000, u16::MAX] {
            metrics.leave(code);
        }
        assert_eq!(sample(&metrics, "clientmcp_client_leaves_total{code=\"other\"}"), 4);
    }

    #[test]
    fn requests_are_told_apart_by_status_class() {
        for (status, class) in
            [(101, "1xx"), (200, "2xx"), (204, "2xx"), (404, "4xx"), (503, "5xx"), (0, "5xx")]
        {
            let metrics = Metrics::default();
            metrics.agent_request(status);
            let series = format!("clientmcp_agent_requests_total{{status=\"{class}\"}}");
            assert_eq!(sample(&metrics, &series), 1, "{status}");
        }
    }

    /// Exposition format 0.0.4: HELP and TYPE once, right before the samples; counters end in
    /// `_total`.
    #[test]
    fn the_page_is_what_prometheus_reads() {
        let page = Metrics::default().render();
        let (mut metric, mut kind) = ("", "");
        let (mut metrics_seen, mut series_seen) = (HashSet::new(), HashSet::new());
        for line in page.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect("a help text");
                assert!(metrics_seen.insert(name), "{name} twice");
                assert!(help.ends_with('.'), "{help}");
                metric = name;
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, word) = rest.split_once(' ').expect("a type");
                assert_eq!(name, metric);
                assert_eq!(word == "counter", name.ends_with("_total"), "{name} is a {word}");
                kind = word;
            } else {
                let (series, value) = line.rsplit_once(' ').expect("a sample");
                assert_eq!(series.split('{').next(), Some(metric));
                assert!(series_seen.insert(series), "{series} twice");
                assert!(["counter", "gauge"].contains(&kind) && value == "0", "{line}");
            }
        }
        assert!(page.ends_with('\n') && metrics_seen.len() == 16, "{} names", metrics_seen.len());
    }
}
