//! Progress and log messages of a running call: which reach the agent, in which form, and how many.
//!
//! `relay` turns a client's notification into the agent's, or into nothing; `Gate` keeps a flood of them
//! from becoming one at the agent. Both are told everything and remember only what a gate must.

use alloc::collections::VecDeque;
use alloc::string::String;

use crate::json::{self, Kind};
use crate::limits::{NOTES_BURST, NOTES_PER_SECOND, NOTES_QUEUED_BYTES_MAX};
use crate::mcp::LogLevel;
use crate::time::Instant;

/// A notification as the agent is sent it: a complete JSON-RPC message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// `notifications/progress`: a newer one makes an older one needless.
    Progress(String),
    /// `notifications/message`.
    Log(String),
}

/// What the agent asked to be told about its call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// Its own `progressToken`, raw: without one there is no progress.
    pub progress_token: Option<&'a str>,
    /// The least severe log message it wants: without one there are none.
    pub level: Option<LogLevel>,
}

/// Turns a client's notification for a running call into the agent's. `None` when the agent did not ask
/// for it, the method is not one of the two, or it is not what MCP says it must be.
pub fn relay(wanted: Wanted<'_>, method: &str, params: &str) -> Option<Note> {
    match method {
        "notifications/progress" => progress(wanted.progress_token?, params).map(Note::Progress),
        "notifications/message" => log(wanted.level?, params).map(Note::Log),
        _ => None,
    }
}

/// MCP 2026-07-28, Progress: the token is the agent's, whatever the client put there.
fn progress(token: &str, params: &str) -> Option<String> {
    let members = json::members(params).ok()?;
    let mut text = String::from(
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"#,
    );
    text.push_str(token);
    let mut has_progress = false;
    for (name, raw) in &members {
        let fits = match name.as_ref() {
            "progressToken" => continue,
            "progress" => {
                has_progress = true;
                Kind::of(raw) == Some(Kind::Number)
            }
            "total" => Kind::of(raw) == Some(Kind::Number),
            "message" => Kind::of(raw) == Some(Kind::String),
            _ => true,
        };
        if !fits {
            return None;
        }
        text.push(',');
        json::quote(name, &mut text);
        text.push(':');
        text.push_str(raw);
    }
    text.push_str("}}");
    has_progress.then_some(text)
}

fn log(least: LogLevel, params: &str) -> Option<String> {
    let members = json::members(params).ok()?;
    let get = |name: &str| members.iter().find(|(key, _)| key == name).map(|(_, raw)| *raw);
    let level = get("level").and_then(json::string).and_then(|name| LogLevel::parse(&name))?;
    get("data")?;
    (level >= least).then(|| log_message(params))
}

fn log_message(params: &str) -> String {
    alloc::format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{params}}}"#)
}

/// Lets through a burst, then so many a second; of what is beyond that, the newest progress is kept and
/// log messages are counted.
#[derive(Debug)]
pub struct Gate {
    /// How many may pass at once, in thousandths.
    room: u64,
    at: Instant,
    /// The newest progress that had to wait.
    held: Option<String>,
    /// Log messages that were left out and not told of yet.
    dropped: u64,
    /// What may be sent now, in order, and its bytes.
    queue: VecDeque<String>,
    queued_bytes: usize,
}

impl Gate {
    /// A gate that nothing has passed yet.
    pub fn new(now: Instant) -> Gate {
        Gate {
            room: NOTES_BURST * 1000,
            at: now,
            held: None,
            dropped: 0,
            queue: VecDeque::new(),
            queued_bytes: 0,
        }
    }

    /// Takes a note; what of it may go comes out of [`take`](Gate::take).
    pub fn put(&mut self, note: Note, now: Instant) {
        self.refill(now);
        match note {
            Note::Progress(text) => {
                self.held = Some(text);
                self.release();
            }
            Note::Log(text) if self.pass(text.len()) => self.queue(text),
            Note::Log(_) => self.dropped += 1,
        }
    }

    /// The next note to be sent. What had to wait comes when there is room again.
    pub fn take(&mut self, now: Instant) -> Option<String> {
        self.refill(now);
        self.release();
        let text = self.queue.pop_front()?;
        self.queued_bytes -= text.len();
        Some(text)
    }

    /// The call is over: lets out what must come before its result, the newest progress and a word about
    /// what was left out. `level` is the least severe the agent wants.
    pub fn finish(&mut self, level: Option<LogLevel>) {
        if let Some(held) = self.held.take() {
            self.queue(held);
        }
        if self.dropped > 0
            && let Some(least) = level
        {
            let level = LogLevel::Warning.max(least).name();
            let count = self.dropped;
            self.queue(log_message(&alloc::format!(
                r#"{{"level":"{level}","logger":"clientmcp","data":"{} log messages of this call were left out: more than {} a second"}}"#,
                count,
                NOTES_PER_SECOND
            )));
            self.dropped = 0;
        }
    }

    /// Whether nothing may be sent now; what has to wait for room does not count.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn refill(&mut self, now: Instant) {
        let ms = u64::try_from(now.since(self.at).as_millis()).unwrap_or(u64::MAX);
        self.room =
            self.room.saturating_add(ms.saturating_mul(NOTES_PER_SECOND)).min(NOTES_BURST * 1000);
        self.at = self.at.max(now);
    }

    fn release(&mut self) {
        if let Some(held) = self.held.take() {
            if self.pass(held.len()) {
                self.queue(held);
            } else {
                self.held = Some(held);
            }
        }
    }

    fn pass(&mut self, bytes: usize) -> bool {
        // One note may be as large as it likes, as long as the agent takes what it is sent.
        let full = self.queued_bytes > 0 && self.queued_bytes + bytes > NOTES_QUEUED_BYTES_MAX;
        if self.room < 1000 || full {
            return false;
        }
        self.room -= 1000;
        true
    }

    fn queue(&mut self, text: String) {
        self.queued_bytes += text.len();
        self.queue.push_back(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    const WANTED: Wanted<'static> =
        Wanted { progress_token: Some("\"t\""), level: Some(LogLevel::Info) };

    #[test]
    fn a_notification_becomes_the_agents_or_nothing() {
        let progress = |params: &str| match relay(WANTED, "notifications/progress", params) {
            Some(Note::Progress(text)) => Some(text),
            Some(Note::Log(text)) => panic!("{text} is no progress"),
            None => None,
        };
        let begin =
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t""#;
        for (params, expected) in [
            (r#"{"progress":1}"#, Some(r#","progress":1}}"#)),
            (
                r#"{"progress":1e400,"total":2,"message":"m"}"#,
                Some(r#","progress":1e400,"total":2,"message":"m"}}"#),
            ),
            (
                r#"{ "progressToken":9, "progress" : 0.5 , "x":[ 1 ]}"#,
                Some(r#","progress":0.5,"x":[ 1 ]}}"#),
            ),
            (r#"{}"#, None),
            (r#"{"progress":"1"}"#, None),
            (r#"{"progress":1,"total":null}"#, None),
            (r#"{"progress":1,"message":2}"#, None),
        ] {
            let expected = expected.map(|end| alloc::format!("{begin}{end}"));
            assert_eq!(progress(params), expected, "{params}");
        }
        for (level, wanted) in
            [("debug", false), ("info", true), ("emergency", true), ("loud", false)]
        {
            let params = alloc::format!(r#"{{"level":"{level}","data":{{"a":1}}}}"#);
            let log = relay(WANTED, "notifications/message", &params);
            let expected = wanted.then(|| Note::Log(log_message(&params)));
            assert_eq!(log, expected, "{level}");
        }
        assert_eq!(relay(WANTED, "notifications/message", r#"{"level":"error"}"#), None, "no data");
        assert_eq!(relay(WANTED, "notifications/x", r#"{"progress":1}"#), None);
        let nothing = Wanted::default();
        assert_eq!(relay(nothing, "notifications/progress", r#"{"progress":1}"#), None);
        assert_eq!(relay(nothing, "notifications/message", r#"{"level":"error","data":1}"#), None);
    }

    fn drain(gate: &mut Gate, now: Instant) -> Vec<String> {
        core::iter::from_fn(|| gate.take(now)).collect()
    }

    #[test]
    fn a_burst_passes_and_then_only_the_newest_progress() {
        let mut gate = Gate::new(Instant(0));
        for n in 0..10_000 {
            gate.put(Note::Progress(n.to_string()), Instant(0));
        }
        let first = drain(&mut gate, Instant(0));
        assert_eq!(first.len(), NOTES_BURST as usize);
        assert_eq!(first[0], "0");
        assert_eq!(drain(&mut gate, Instant(49)), Vec::<String>::new());
        assert_eq!(drain(&mut gate, Instant(50)), ["9999"], "20 a second are one in 50 ms");
        gate.put(Note::Progress("a".into()), Instant(60));
        gate.put(Note::Progress("b".into()), Instant(61));
        gate.finish(None);
        assert_eq!(drain(&mut gate, Instant(61)), ["b"], "the newest comes before the result");
    }

    #[test]
    fn dropped_log_messages_are_counted_in_one_message() {
        let mut gate = Gate::new(Instant(0));
        for n in 0..130 {
            gate.put(Note::Log(n.to_string()), Instant(0));
        }
        assert_eq!(drain(&mut gate, Instant(0)).len(), 100);
        gate.finish(Some(LogLevel::Error));
        let last = drain(&mut gate, Instant(0));
        assert_eq!(last.len(), 1, "{last:?}");
        assert!(last[0].contains("30 log messages"), "{last:?}");
        assert!(last[0].contains(r#""level":"error""#), "not below what was asked for: {last:?}");
    }

    #[test]
    fn an_agent_that_does_not_read_is_owed_a_bounded_number_of_bytes() {
        let mut gate = Gate::new(Instant(0));
        let large = "x".repeat(NOTES_QUEUED_BYTES_MAX / 2 + 1);
        for _ in 0..10 {
            gate.put(Note::Log(large.clone()), Instant(0));
            gate.put(Note::Progress(large.clone()), Instant(0));
        }
        assert_eq!(gate.queue.len(), 1);
        assert!(gate.held.is_some());
        assert_eq!(gate.dropped, 9);
    }
}
