//! One line per event on stderr, as text or as JSON.
//!
//! Knows levels, the two formats and how to keep a repeated line rare. It never learns what an
//! event means, and it never fails: a log nobody reads must not stop the bridge. Whoever calls it
//! keeps tokens and secrets out of the fields. Every line goes to stderr in one write and then it
//! is forgotten.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::{Display, Write as _};
use std::io::Write as _;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How much an event matters; also the least that is written (`--log-level`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The operator has to act.
    Error,
    /// Something was refused or lost that should not have been.
    Warn,
    /// Someone came or went. An idle bridge is silent.
    Info,
    /// Every call.
    Debug,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

impl FromStr for Level {
    type Err = String;
    fn from_str(text: &str) -> Result<Level, String> {
        [Level::Error, Level::Warn, Level::Info, Level::Debug]
            .into_iter()
            .find(|level| level.name() == text)
            .ok_or_else(|| format!("must be error, warn, info or debug, not {text:?}"))
    }
}

/// What a line looks like (`--log-format`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `2026-11-30T12:00:00.000Z INFO client joined client=kitchen`
    Text,
    /// The same as one JSON object; every field is a string.
    Json,
}

impl FromStr for Format {
    type Err = String;
    fn from_str(text: &str) -> Result<Format, String> {
        match text {
            "text" => Ok(Format::Text),
            "json" => Ok(Format::Json),
            _ => Err(format!("must be text or json, not {text:?}")),
        }
    }
}

/// Names and values that go with an event. The names are ours, the values may be anyone's.
pub type Fields<'a> = &'a [(&'a str, &'a dyn Display)];

static SETUP: OnceLock<(Format, Level)> = OnceLock::new();

/// Chooses format and level for the rest of the process; a second call has no effect. Before the
/// first it is text at `info`.
pub fn setup(format: Format, level: Level) {
    // A second setup is a test in the same process: the first one stands.
    let _ = SETUP.set((format, level));
}

/// Whether a line of this level would be written: ask first when a field is dear to compute.
pub fn enabled(level: Level) -> bool {
    level <= SETUP.get().map_or(Level::Info, |setup| setup.1)
}

/// Logs an event that the operator has to act on.
pub fn error(message: &str, fields: Fields) {
    event(Level::Error, message, fields);
}

/// Logs a refusal or a loss.
pub fn warn(message: &str, fields: Fields) {
    event(Level::Warn, message, fields);
}

/// Logs a coming or going.
pub fn info(message: &str, fields: Fields) {
    event(Level::Info, message, fields);
}

/// Logs one of many.
pub fn debug(message: &str, fields: Fields) {
    event(Level::Debug, message, fields);
}

/// Logs at most one line per `key` in 10 s and thread; the next one carries `suppressed`, the
/// number left out since. For whatever a peer can cause as often as it likes.
pub fn limited(key: &'static str, level: Level, message: &str, fields: Fields) {
    if let Some(suppressed) = admitted(key, LIMITED_EVERY, level) {
        counted(level, message, fields, suppressed);
    }
}

/// Says that a bound of the operator's was met, by its flag, at most once a minute for each; the next
/// line carries `suppressed`, how often it was met since.
pub fn bound(flag: &'static str, what: &str, fields: Fields) {
    if let Some(suppressed) = admitted(flag, BOUND_EVERY, Level::Warn) {
        counted(Level::Warn, &format!("{what} ({flag})"), fields, suppressed);
    }
}

fn admitted(key: &'static str, every: Duration, level: Level) -> Option<u64> {
    thread_local! { static LIMITER: RefCell<Limiter> = RefCell::default(); }
    if !enabled(level) {
        return None;
    }
    LIMITER.with_borrow_mut(|limiter| limiter.admit(key, every, Instant::now()))
}

fn counted(level: Level, message: &str, fields: Fields, suppressed: u64) {
    match suppressed {
        0 => event(level, message, fields),
        _ => event(level, message, &[fields, &[("suppressed", &suppressed)]].concat()),
    }
}

/// Says something at every level, as the bare text where lines are text: what scripts wait for.
pub fn announce(message: &str) {
    let line = match SETUP.get() {
        Some((Format::Json, _)) => line(Format::Json, SystemTime::now(), Level::Info, message, &[]),
        _ => format!("{message}\n"),
    };
    write(&line);
}

/// The time as the log shows it: UTC, RFC 3339.
pub fn timestamp() -> String {
    rfc3339(SystemTime::now())
}

fn event(level: Level, message: &str, fields: Fields) {
    if !enabled(level) {
        return;
    }
    let format = SETUP.get().map_or(Format::Text, |setup| setup.0);
    write(&line(format, SystemTime::now(), level, message, fields));
}

fn write(line: &str) {
    // Nobody reads stderr any more (EPIPE), or its disk is full: there is no place left to say so.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// The least time between two lines of one key; of a bound, which says what to change and not who did
/// what, so that an attack is no reason to fill a disk.
const LIMITED_EVERY: Duration = Duration::from_secs(10);
const BOUND_EVERY: Duration = Duration::from_secs(60);

/// Which repeated lines may be written. Bounded because keys are literals in this program.
#[derive(Default)]
struct Limiter {
    keys: HashMap<&'static str, (Instant, u64)>,
}

impl Limiter {
    /// `Some(n)`: write it, `n` were left out before it. `None`: leave it out.
    fn admit(&mut self, key: &'static str, every: Duration, now: Instant) -> Option<u64> {
        match self.keys.get_mut(key) {
            Some((last, suppressed)) if now.saturating_duration_since(*last) < every => {
                *suppressed += 1;
                None
            }
            known => {
                let suppressed = known.map_or(0, |(_, suppressed)| *suppressed);
                self.keys.insert(key, (now, 0));
                Some(suppressed)
            }
        }
    }
}

fn line(format: Format, now: SystemTime, level: Level, message: &str, fields: Fields) -> String {
    let mut out = String::with_capacity(128);
    match format {
        Format::Text => {
            out.push_str(&rfc3339(now));
            out.push(' ');
            out.push_str(&level.name().to_ascii_uppercase());
            out.push(' ');
            escape_text(&mut out, message, false);
            for (name, value) in fields {
                out.push(' ');
                out.push_str(name);
                out.push('=');
                text_value(&mut out, &value.to_string());
            }
        }
        Format::Json => {
            let head: Fields = &[("time", &rfc3339(now)), ("level", &level.name())];
            let message: Fields = &[("message", &message)];
            for (index, (name, value)) in head.iter().chain(message).chain(fields).enumerate() {
                out.push(if index == 0 { '{' } else { ',' });
                json_string(&mut out, name);
                out.push(':');
                json_string(&mut out, &value.to_string());
            }
            out.push('}');
        }
    }
    out.push('\n');
    out
}

fn json_string(out: &mut String, text: &str) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

/// A value in quotes unless it is one plain word, so that no value can pass for a further field.
fn text_value(out: &mut String, value: &str) {
    let plain = |c: char| !c.is_whitespace() && !forges(c) && !matches!(c, '"' | '=' | '\\');
    if !value.is_empty() && value.chars().all(plain) {
        out.push_str(value);
        return;
    }
    out.push('"');
    escape_text(out, value, true);
    out.push('"');
}

fn escape_text(out: &mut String, text: &str, quoted: bool) {
    for c in text.chars() {
        if forges(c) {
            out.extend(c.escape_default());
        } else {
            if quoted && matches!(c, '"' | '\\') {
                out.push('\\');
            }
            out.push(c);
        }
    }
}

/// Whether a character could end the line, move the cursor or reorder what a terminal shows.
fn forges(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200E}' | '\u{200F}')
        || matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// UTC with milliseconds (RFC 3339 §5.6). A clock before 1970 reads as 1970.
fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil(days);
    let mut out = String::with_capacity(24);
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        second / 3600,
        second / 60 % 60,
        second % 60,
        since.subsec_millis()
    );
    out
}

/// Year, month and day of a count of days since 1970-01-01 in the Gregorian calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    // Counted from 0000-03-01, so that the leap day is a year's last and every 400 years are alike.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153; // 0 is March
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year_of_era + u64::from(month >= 10);
    (year, if month < 10 { month + 3 } else { month - 9 }, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn times_are_rfc_3339_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (951_868_800, "2000-03-01T00:00:00.000Z"),
            (1_709_164_800, "2024-02-29T00:00:00.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (1_796_040_000, "2026-11-30T12:00:00.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
            (7_258_118_400, "2200-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(at(seconds)), text, "{seconds}");
        }
        assert!(rfc3339(at(5) + Duration::from_millis(7)).ends_with("05.007Z"));
        assert!(rfc3339(UNIX_EPOCH - Duration::from_secs(1)).starts_with("1970-01-01"));
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut last = civil(0);
        for day in 1..150_000 {
            let next = civil(day);
            let (year, month, date) = last;
            let month_has_more = next == (year, month, date + 1) && date < 31;
            let month_begins = next == (year, month + 1, 1) && date >= 28 && month < 12;
            let year_begins = next == (year + 1, 1, 1) && (month, date) == (12, 31);
            assert!(month_has_more || month_begins || year_begins, "{last:?} then {next:?}");
            last = next;
        }
    }

    #[test]
    fn a_text_line_is_one_line_whatever_is_in_it() {
        let evil = "x\n2026-11-30T12:00:00.000Z ERROR forged\r\u{1b}[2J\u{2028}\u{202e}\u{85}\0";
        let text = line(Format::Text, at(0), Level::Warn, evil, &[("from", &evil), ("n", &7)]);
        assert_eq!(text.matches('\n').count(), 1, "{text}");
        assert!(text.ends_with(" n=7\n"), "{text}");
        assert!(!text.trim_end().chars().any(forges), "{text:?}");
    }

    #[test]
    fn text_values_are_quoted_when_they_could_pass_for_another_field() {
        for (value, shown) in [
            ("plain", "v=plain"),
            ("a-b.c:1/ü", "v=a-b.c:1/ü"),
            ("", "v=\"\""),
            ("a b", "v=\"a b\""),
            ("a=b", "v=\"a=b\""),
            ("say \"x\\y\"", "v=\"say \\\"x\\\\y\\\"\""),
            ("a\nb", "v=\"a\\nb\""),
            ("a\u{1b}b", "v=\"a\\u{1b}b\""),
        ] {
            let text = line(Format::Text, at(0), Level::Info, "m", &[("v", &value)]);
            assert_eq!(text, format!("1970-01-01T00:00:00.000Z INFO m {shown}\n"));
        }
    }

    #[test]
    fn a_json_line_is_one_object_that_gives_the_values_back() {
        let evil = "a\"b\\c\nd\u{1b}\u{2028}e";
        let json = line(Format::Json, at(0), Level::Error, evil, &[("client", &evil), ("n", &7)]);
        assert_eq!(json.matches('\n').count(), 1, "{json}");
        let read: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
        let expected = serde_json::json!({
            "time": "1970-01-01T00:00:00.000Z", "level": "error", "message": evil,
            "client": evil, "n": "7",
        });
        assert_eq!(read, expected);
    }

    #[test]
    fn a_repeated_line_comes_once_in_its_time_with_the_count_of_the_others() {
        let mut limiter = Limiter::default();
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        assert_eq!(limiter.admit("a", LIMITED_EVERY, after(0)), Some(0));
        assert_eq!(limiter.admit("a", LIMITED_EVERY, after(1)), None);
        assert_eq!(limiter.admit("b", BOUND_EVERY, after(1)), Some(0), "another key by itself");
        assert_eq!(limiter.admit("a", LIMITED_EVERY, after(9_999)), None);
        assert_eq!(limiter.admit("a", LIMITED_EVERY, after(10_000)), Some(2));
        assert_eq!(limiter.admit("a", LIMITED_EVERY, after(10_001)), None);
        assert_eq!(limiter.admit("a", LIMITED_EVERY, after(30_000)), Some(1));
        assert_eq!(limiter.admit("a", LIMITED_EVERY, after(40_000)), Some(0));
        assert_eq!(limiter.admit("b", BOUND_EVERY, after(60_000)), None);
        assert_eq!(limiter.admit("b", BOUND_EVERY, after(60_001)), Some(1), "a bound: a minute");
    }

    #[test]
    fn levels_and_formats_are_read_by_their_names_only() {
        assert_eq!("warn".parse(), Ok(Level::Warn));
        assert!(Level::Error < Level::Debug);
        assert_eq!("json".parse(), Ok(Format::Json));
        for bad in ["", "WARN", "trace", "5"] {
            assert!(bad.parse::<Level>().is_err_and(|why| why.contains("error, warn, info")));
            assert!(bad.parse::<Format>().is_err_and(|why| why.contains("text or json")));
        }
    }
}
