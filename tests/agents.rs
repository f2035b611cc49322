//! Agents that nobody here wrote, as their authors ship them, through a running bridge.
//!
//! Knows what each agent must have seen (its driver in `tests/agents` prints it) and what the
//! application must have seen. The drivers know the SDKs; `tests/agents/tools.rs` runs them.
//! One test for each way an agent picks its era.

#[path = "agents/tools.rs"]
mod tools;

mod support;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use support::{App, Bridge, Call, eventually, token, unique};

/// How long after the agent gave up a call the application may hear of it (SPEC, cancelling).
const CANCEL_WITHIN: Duration = Duration::from_secs(2);
/// The whole story, on a machine that runs several at once.
const TIMEOUT: Duration = Duration::from_secs(150);
/// What the drivers echo: two-, three- and four-byte characters, quotes, a backslash, U+2028.
const ECHO: &str = "hé✓ \"quoted\" \\ \u{1F600} \u{2028} end";

#[test]
fn the_first_typescript_sdk_is_at_home() {
    let run = Run::of("ts-v1.mjs", &[]);
    run.saw_session("2025-11-25");
    run.saw_everything();
}

#[test]
fn the_second_typescript_sdk_is_at_home_in_the_era_it_picks_by_itself() {
    let run = Run::of("ts-v2.mjs", &["default"]);
    run.saw_session("2025-11-25");
    run.saw_everything();
}

#[test]
fn the_second_typescript_sdk_finds_2026_when_it_asks_first() {
    let run = Run::of("ts-v2.mjs", &["auto"]);
    run.saw_no_session("2026-07-28");
    run.saw_everything();
}

#[test]
fn the_second_typescript_sdk_is_at_home_when_pinned_to_2026() {
    let run = Run::of("ts-v2.mjs", &["pin"]);
    run.saw_no_session("2026-07-28");
    run.saw_everything();
}

#[test]
fn the_first_python_sdk_is_at_home() {
    let run = Run::of("py_mcp1.py", &[]);
    run.saw_session("2025-11-25");
    run.saw_everything();
}

#[test]
fn the_inspector_command_line_is_at_home_in_2025() {
    Run::of("inspector.mjs", &["legacy"]).saw_what_a_command_line_can();
}

#[test]
fn the_inspector_command_line_is_at_home_when_it_asks_first() {
    Run::of("inspector.mjs", &["auto"]).saw_what_a_command_line_can();
}

/// An agent's way through the story: what it saw, and what the application saw.
struct Run {
    steps: Value,
    app: App,
    /// The call that the agent gave up, and when the application heard of it, in Unix ms.
    cancelled: (Call, u64),
}

impl Run {
    fn of(driver: &str, mode: &[&str]) -> Run {
        let bridge = Bridge::shared();
        let client_id = unique("agents");
        let app = App::standard(bridge, &client_id);
        let url = bridge.url("/mcp");
        let mut arguments = vec![url.as_str()];
        arguments.extend(mode);
        arguments.push("--progress");
        let agent_token = token(&client_id, "agent");
        let (printed, cancelled) = std::thread::scope(|scope| {
            let agent = scope.spawn(|| tools::run(driver, &arguments, &agent_token, TIMEOUT));
            let cancelled = awaits_long_call_cancelled(&app, || agent.is_finished());
            (agent.join().unwrap_or_else(|e| std::panic::resume_unwind(e)), cancelled)
        });
        let steps = printed["steps"].clone();
        for (name, step) in steps.as_object().expect("a driver prints its steps") {
            assert_eq!(step["ok"], true, "{driver} {mode:?}, step {name}: {}", step["detail"]);
        }
        let cancelled = cancelled.unwrap_or_else(|| {
            let calls: Vec<_> = app.calls().iter().map(|call| call.name().to_owned()).collect();
            panic!("{driver} {mode:?}: no cancel came; calls: {calls:?}")
        });
        Run { steps, app, cancelled }
    }

    fn value(&self, step: &str) -> &Value {
        assert!(self.steps[step].is_object(), "the driver has no step {step}: {}", self.steps);
        &self.steps[step]["value"]
    }

    fn saw_session(&self, version: &str) {
        assert_eq!(*self.value("connect"), json!({"protocol": version, "session": true}));
    }

    fn saw_no_session(&self, version: &str) {
        assert_eq!(*self.value("connect"), json!({"protocol": version, "session": false}));
    }

    /// Every value of a full SDK's story.
    fn saw_everything(&self) {
        self.saw_the_tools();
        let slow = json!({"text": "awake", "contentType": "text/event-stream"});
        assert_eq!(*self.value("slow"), slow, "a call of two seconds is streamed");
        assert_eq!(*self.value("list_changed"), "added");
        let unknown = self.value("unknown").as_str().expect("the error's message");
        assert!(unknown.contains("Unknown tool: no_such_tool"), "got {unknown:?}");
        assert_eq!(*self.value("big"), 768 * 1024, "characters of two bytes");
        let progress = self.value("progress").as_array().expect("a list of numbers");
        let progress: Vec<_> = progress.iter().map(Value::as_f64).collect();
        assert_eq!(progress, [Some(1.0), Some(2.0), Some(3.0)]);
        self.steps["close"].as_object().expect("the driver closed");
        self.application_saw([("echo", 2), ("fail", 1), ("mutate", 1), ("slow", 2)]);
    }

    /// The same from a program that runs one command and ends: it holds no stream, takes no long
    /// argument, and refuses unknown tools and hides progress by itself.
    fn saw_what_a_command_line_can(&self) {
        let cannot = |value: &Value| assert_eq!(value["supported"], false, "got {value}");
        self.saw_the_tools();
        assert_eq!(*self.value("slow"), "awake");
        assert_eq!(self.value("list_changed")["added"], "added");
        cannot(&self.value("list_changed")["notified"]);
        cannot(self.value("unknown"));
        assert_eq!(self.value("big")["bytes"], 100 * 1024);
        cannot(&self.value("big")["beyond"]);
        cannot(self.value("close"));
        self.application_saw([("echo", 2), ("fail", 1), ("mutate", 1), ("slow", 2)]);
    }

    fn saw_the_tools(&self) {
        assert_eq!(*self.value("list"), json!(["echo", "slow", "mutate", "fail", "progress"]));
        assert_eq!(*self.value("echo"), ECHO);
        assert_eq!(*self.value("fail"), "it failed, as asked");
    }

    /// These calls and no others, each once; the one given up was cancelled in time; none is left.
    fn application_saw<const N: usize>(&self, expected: [(&str, usize); N]) {
        let mut calls: BTreeMap<String, usize> = BTreeMap::new();
        for call in self.app.calls() {
            *calls.entry(call.name().to_owned()).or_default() += 1;
        }
        assert_eq!(calls.remove("progress"), Some(1));
        let expected = expected.map(|(name, times)| (name.to_owned(), times));
        assert_eq!(calls, BTreeMap::from(expected), "calls by tool");

        let (call, heard_ms) = &self.cancelled;
        let gave_up_ms = self.value("cancel")["gaveUpAtMs"].as_u64().expect("a time");
        let took = Duration::from_millis(heard_ms.saturating_sub(gave_up_ms));
        assert!(took <= CANCEL_WITHIN, "the cancel of {} took {took:?}", call.id);
        // Every other call was answered, so that this one cancel leaves nothing running.
        let cancels = self.app.cancels();
        assert_eq!(cancels.len(), 1, "expected one cancel, got {cancels:?}");
    }
}

/// Waits for the call of twenty seconds and for its cancel; nothing when the agent ends first.
fn awaits_long_call_cancelled(app: &App, ended: impl Fn() -> bool) -> Option<(Call, u64)> {
    eventually("the cancel of the long call", TIMEOUT + Duration::from_secs(10), || {
        let long = app.calls().into_iter().find(|call| call.arguments()["seconds"] == 20);
        let cancels = app.cancels();
        match long.filter(|call| cancels.iter().any(|cancel| cancel["id"] == call.id.as_str())) {
            Some(call) => Some(Some((call, now_ms()))),
            None if ended() => Some(None),
            None => None,
        }
    })
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970");
    u64::try_from(since.as_millis()).expect("this century")
}
