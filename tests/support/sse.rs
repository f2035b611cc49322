//! An event stream read as it comes: comments, messages, and each way a stream can end.
//!
//! Knows the text/event-stream format and the body framing below it; tells a complete end (last
//! chunk) from a cut (FIN in the middle) and from a reset. What the messages mean is the test's
//! business.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::http::{Framing, Http, Trouble};

/// One thing that happened on a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A comment line, without its colon.
    Comment(String),
    /// A `retry:` field, in milliseconds.
    Retry(u64),
    /// A record's data.
    Data(String),
    /// The body ended as it should.
    End,
    /// The connection ended in the middle of the body.
    Cut,
    /// The connection was reset.
    Reset,
    /// Nothing within the timeout.
    Quiet,
}

/// The reading end of an event stream. Dropping it hangs up.
pub struct Events {
    http: Http,
    framing: Framing,
    text: Vec<u8>,
    data: Option<String>,
    /// The `event:` and `id:` fields seen so far, as `event: x`; a bridge sends no IDs.
    pub fields: Vec<String>,
}

impl Events {
    pub(super) fn new(http: Http, framing: Framing) -> Events {
        Events { http, framing, text: Vec::new(), data: None, fields: Vec::new() }
    }

    /// The next thing that happens, at most `timeout` from now.
    pub fn next(&mut self, timeout: Duration) -> Event {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(event) = self.next_complete() {
                return event;
            }
            match self.http.next_piece(&mut self.framing, deadline) {
                Ok(Some(piece)) => self.text.extend_from_slice(&piece),
                Ok(None) => {
                    let left = self.data.is_some() || !self.text.is_empty();
                    assert!(
                        !left,
                        "the stream ended inside a record: {:?} {:?}",
                        self.data, self.text
                    );
                    return Event::End;
                }
                Err(Trouble::Quiet(_)) => return Event::Quiet,
                Err(Trouble::Ended(_)) => return Event::Cut,
                Err(Trouble::Reset(_)) => return Event::Reset,
                Err(Trouble::Malformed(what)) => panic!("the stream's framing broke: {what}"),
            }
        }
    }

    /// The next event that is already here in full.
    fn next_complete(&mut self) -> Option<Event> {
        loop {
            let end = self.text.iter().position(|b| *b == b'\n')?;
            let line: Vec<u8> = self.text.drain(..=end).collect();
            let line = std::str::from_utf8(&line).expect("event streams are UTF-8");
            let line = line.trim_end_matches('\n').trim_end_matches('\r').to_owned();
            if line.is_empty() {
                if let Some(data) = self.data.take() {
                    return Some(Event::Data(data));
                }
                continue;
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match name {
                "" => return Some(Event::Comment(value.to_owned())),
                "data" => {
                    let data = self.data.get_or_insert_default();
                    if !data.is_empty() {
                        data.push('\n');
                    }
                    data.push_str(value);
                }
                "retry" => {
                    let ms = value.parse().unwrap_or_else(|e| panic!("{line:?}: {e}"));
                    return Some(Event::Retry(ms));
                }
                _ => self.fields.push(line),
            }
        }
    }

    /// The next message, comments and `retry` skipped; fails with whatever comes instead.
    pub fn next_message(&mut self, timeout: Duration) -> Value {
        let text = self.next_data(timeout);
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e} in {text:?}"))
    }

    /// The next record's text, comments and `retry` skipped; fails with whatever comes instead.
    pub fn next_data(&mut self, timeout: Duration) -> String {
        let deadline = Instant::now() + timeout;
        loop {
            match self.next(deadline.saturating_duration_since(Instant::now())) {
                Event::Data(data) => return data,
                Event::Comment(_) | Event::Retry(_) => {}
                other => panic!("expected a message within {timeout:?}, got {other:?}"),
            }
        }
    }

    /// All records until the stream stops, and how it stopped; comments and `retry` are skipped.
    pub fn rest(&mut self, timeout: Duration) -> (Vec<String>, Event) {
        let deadline = Instant::now() + timeout;
        let mut records = Vec::new();
        loop {
            match self.next(deadline.saturating_duration_since(Instant::now())) {
                Event::Data(data) => records.push(data),
                Event::Comment(_) | Event::Retry(_) => {}
                stop => return (records, stop),
            }
        }
    }

    /// Fails when a message comes within `time`; comments may.
    pub fn expects_no_message(&mut self, time: Duration) {
        match self.rest(time) {
            (records, Event::Quiet) if records.is_empty() => {}
            (records, stop) => panic!("expected silence for {time:?}, got {records:?}, {stop:?}"),
        }
    }

    /// Hangs up with a FIN.
    pub fn hang_up(self) {}

    /// Hangs up with a reset.
    pub fn reset(self) {
        self.http.reset();
    }

    /// The connection below, for what comes after the stream's end.
    pub fn into_http(self) -> Http {
        self.http
    }
}
