//! Applications that ask back, and agents that nobody here wrote: what the one asked reaches the
//! other, and what the other answered comes back, in both revisions.
//!
//! The application knows `input_required` alone. The drivers in `tests/agents/rounds*` print what
//! their SDK was asked and what it posted; here that is compared with what the application said
//! and got. The bytes where they pass unchanged, the values where an SDK wrote them anew.

#[path = "support/extra.rs"]
mod extra;
mod support;
#[path = "agents/tools.rs"]
mod tools;

use std::time::Duration;

use extra::member;
use serde_json::{Value, json};
use support::{App, Bridge, Call, Reply, token, unique};

/// Two agents and some two dozen steps, on a machine that runs several at once.
const TIMEOUT: Duration = Duration::from_secs(150);

/// `requestState` of a first and a second round, as they stand in the client's messages.
const STATES: [&str; 2] = [r#""s\/1 \ud83d\ude00 \u2028 é""#, r#""s\/2""#];

const FORM: &str = r#""who \"é\"":{"method":"elicitation/create","params":{"mode":"form","message":"please: who are you? \u00e9\u2028","requestedSchema":{"type":"object","properties":{"name":{"type":"string","title":"Näme","minLength":1},"age":{"type":"integer","minimum":0}},"required":["name"]}}}"#;
const URL: &str = r#""pay":{"method":"elicitation/create","params":{"mode":"url","message":"please: pay","url":"https://example.com/pay?x=%C3%B6&y=1"}}"#;
const SAMPLE: &str = r#""":{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"Say \"hé✓\""}}],"systemPrompt":"Be brief.","maxTokens":20,"temperature":0.5,"stopSequences":["\n"],"modelPreferences":{"hints":[{"name":"m"}],"costPriority":0.25}}}"#;
const ROOTS: &str = r#""r":{"method":"roots/list"}"#;

/// A form of which the agent's side makes what its first word says.
fn wish(word: &str) -> String {
    FORM.replace("please:", &format!("{word}:"))
}

/// Each tool: what it asks, by rounds. The text after the last is the tool's result.
fn tools_that_ask() -> Vec<(&'static str, Vec<String>)> {
    let one = |asks: &str| vec![asks.to_owned()];
    vec![
        ("form", one(FORM)),
        ("url", one(URL)),
        ("sample", one(SAMPLE)),
        ("roots", one(ROOTS)),
        ("several", one(&format!("{SAMPLE},{FORM},{ROOTS}"))),
        ("twice", vec![FORM.to_owned(), SAMPLE.to_owned()]),
        ("state", one("")),
        ("decline", one(&wish("decline"))),
        ("dismiss", one(&wish("cancel"))),
        ("refuse", one(&format!("{},{ROOTS}", wish("refuse")))),
        ("hang", one(&wish("hang"))),
    ]
}

/// Which round a call is of: 0 without a state of ours.
fn round_of(call: &Call) -> usize {
    let state = &call.params["requestState"];
    let is = |raw: &str| serde_json::from_str::<Value>(raw).expect("written as JSON") == *state;
    STATES.iter().position(|raw| is(raw)).map_or(0, |at| at + 1)
}

/// The next question, or the end.
fn asks(call: &Call, rounds: &[String], end: Value) -> Reply {
    let round = round_of(call);
    let Some(requests) = rounds.get(round) else { return Reply::Result(end) };
    let requests = match requests.as_str() {
        "" => String::new(),
        requests => format!(r#""inputRequests":{{{requests}}},"#),
    };
    let state = STATES[round];
    Reply::Raw(format!(r#"{{"resultType":"input_required",{requests}"requestState":{state}}}"#))
}

fn asking_app(bridge: &Bridge, client_id: &str) -> App {
    let mut app = App::described();
    for (name, rounds) in tools_that_ask() {
        let content = json!([{"type": "text", "text": format!("{name} is done")}]);
        app = app.tool(name, move |call, _| asks(call, &rounds, json!({"content": content})));
    }
    let rounds = [FORM.to_owned()];
    let message = json!({"role": "user", "content": {"type": "text", "text": "prompt is done"}});
    app.offering("prompts", json!([{"name": "form-prompt"}]))
        .on("prompts/get", move |call, _| asks(call, &rounds, json!({"messages": [message]})))
        .start(bridge, client_id)
}

#[test]
fn the_first_typescript_sdk_is_asked_and_heard() {
    Run::of("rounds-ts-v1.mjs", &[]).holds("2025-11-25");
}

#[test]
fn the_second_typescript_sdk_is_asked_and_heard_in_2025() {
    Run::of("rounds-ts-v2.mjs", &["default"]).holds("2025-11-25");
}

#[test]
fn the_second_typescript_sdk_answers_by_itself_in_2026() {
    Run::of("rounds-ts-v2.mjs", &["pin"]).holds("2026-07-28");
}

#[test]
fn the_first_python_sdk_is_asked_and_heard() {
    Run::of("rounds_py_mcp1.py", &[]).holds("2025-11-25");
}

/// Two agents' way through the story: what they saw, and what the application saw.
struct Run {
    steps: Value,
    app: App,
    /// Whether the agents speak 2026.
    modern: bool,
}

impl Run {
    fn of(driver: &str, mode: &[&str]) -> Run {
        let bridge = Bridge::shared();
        let client_id = unique("rounds");
        let app = asking_app(bridge, &client_id);
        let url = bridge.url("/mcp");
        let mut arguments = vec![url.as_str()];
        arguments.extend(mode);
        let printed = tools::run(driver, &arguments, &token(&client_id, "agent"), TIMEOUT);
        let steps = printed["steps"].clone();
        for (name, step) in steps.as_object().expect("a driver prints its steps") {
            assert_eq!(step["ok"], true, "{driver} {mode:?}, step {name}: {}", step["detail"]);
        }
        Run { steps, app, modern: false }
    }

    fn step(&self, name: &str) -> &Value {
        assert!(self.steps[name].is_object(), "the driver has no step {name}: {}", self.steps);
        &self.steps[name]
    }

    /// All of it, for agents of this version.
    fn holds(mut self, version: &str) {
        self.modern = version == support::MODERN;
        for step in ["connect", "connect incapable"] {
            assert_eq!(self.step(step)["value"], version, "{step}");
        }
        self.everything_asked_was_heard();
        self.no_is_an_answer_too();
        self.a_refusal_ends_the_call();
        self.a_prompt_may_ask();
        self.a_call_given_up_is_not_made_again();
        self.the_incapable_are_told_so();
        assert_eq!(self.app.cancels(), Vec::<Value>::new(), "nothing ran that could be cancelled");
    }

    fn everything_asked_was_heard(&self) {
        let accepts = accepted();
        let sampled = json!({"role": "assistant", "model": "a-model", "stopReason": "endTurn",
            "content": {"type": "text", "text": "read: Say \"hé✓\""}});
        let roots = json!({"roots": [{"uri": "file:///w%C3%B6rk", "name": "wörk"}]});
        let who = "who \"é\"";
        self.is_heard("url", &[json!({"pay": {"action": "accept"}})]);
        self.is_heard("sample", &[json!({"": sampled})]);
        self.is_heard("roots", &[json!({"r": roots})]);
        self.is_heard("several", &[json!({"": sampled, who: accepts, "r": roots})]);
        self.is_heard("twice", &[json!({who: accepts}), json!({"": sampled})]);
        self.is_heard("state", &[Value::Null]);
        // Twice: once more after everything that went wrong.
        self.asked_and_posted("form", "form", &self.calls("form")[..2], &[json!({who: accepts})]);
        self.asked_and_posted("after", "form", &self.calls("form")[2..4], &[json!({who: accepts})]);
    }

    fn no_is_an_answer_too(&self) {
        let who = "who \"é\"";
        self.is_heard("decline", &[json!({who: {"action": "decline"}})]);
        self.is_heard("dismiss", &[json!({who: {"action": "cancel"}})]);
    }

    /// The capable agent's calls of one tool, and nobody else's.
    fn is_heard(&self, tool: &str, answers: &[Value]) {
        let calls = self.calls(tool);
        self.asked_and_posted(tool, tool, &calls[..=answers.len().min(calls.len() - 1)], answers);
    }

    /// The agent was asked what the tool asks, and each call after the first carries what the
    /// agent answered; `calls` are those of one run of the tool.
    fn asked_and_posted(&self, step: &str, tool: &str, calls: &[Call], answers: &[Value]) {
        let told = self.step(step);
        let value = &told["value"];
        let text = &value["result"]["content"][0]["text"];
        assert_eq!(*text, format!("{tool} is done"), "{step}: {value}");
        let rounds = tools_that_ask().into_iter().find(|(name, _)| *name == tool);
        let (_, rounds) = rounds.expect("one of our tools");
        self.was_asked(step, &rounds);

        let heard: Vec<_> = calls.iter().map(|call| &call.params["inputResponses"]).collect();
        let expected: Vec<_> = std::iter::once(&Value::Null).chain(answers).collect();
        assert_eq!(heard, expected, "{step}: inputResponses by call");
        self.was_posted(step, calls);
        for (round, call) in calls.iter().enumerate() {
            assert_eq!(call.params["arguments"], json!({"n": 1.5}), "{step}: {}", call.text);
            let state = param(call, "requestState");
            match round.checked_sub(1).map(|round| STATES[round]) {
                None => assert_eq!(state, None, "{step}: {}", call.text),
                // An SDK of 2026 writes the string anew, the bridge passes it as it is.
                Some(raw) if self.modern => assert_eq!(parsed(state.as_deref()), parsed(Some(raw))),
                Some(raw) => assert_eq!(state.as_deref(), Some(raw), "{step}: {}", call.text),
            }
        }
    }

    /// The agent was asked exactly what stands in these rounds.
    fn was_asked(&self, step: &str, rounds: &[String]) {
        let asked = self.step(step)["asked"].as_array().expect("a list");
        let mut asked: Vec<Value> = asked.clone();
        let mut expected = Vec::new();
        for round in rounds {
            let requests = parsed(Some(&format!("{{{round}}}")));
            expected.extend(requests.as_object().expect("written as an object").values().cloned());
        }
        let params = asked.iter_mut().filter_map(|request| request.get_mut("params"));
        for params in params.filter_map(Value::as_object_mut) {
            // What 2025 asks of a URL and 2026 does not; the bridge adds it.
            let has_id = params.remove("elicitationId").is_some_and(|id| id != "");
            let is_url = params.get("mode") == Some(&json!("url"));
            assert_eq!(has_id, is_url && !self.modern, "{step}: {params:?}");
        }
        let key = |request: &Value| request["method"].to_string();
        asked.sort_by_key(key);
        expected.sort_by_key(key);
        assert_eq!(asked, expected, "{step}: what the agent was asked");
    }

    /// Every answer in these calls stands, byte for byte, in what the agent posted.
    fn was_posted(&self, step: &str, calls: &[Call]) {
        let posted = self.step(step)["posted"].as_array().expect("a list").iter();
        let posted: Vec<&str> = posted.map(|body| body.as_str().expect("a text")).collect();
        let mut answers = 0;
        for call in &calls[1..] {
            let Some(responses) = param(call, "inputResponses") else { continue };
            if self.modern {
                let same = |body: &&str| {
                    let params = member(body, "params").expect("a call has params");
                    member(&params, "inputResponses").as_ref() == Some(&responses)
                };
                assert!(posted.iter().any(same), "{step}: {responses} is none of {posted:?}");
                answers += 1;
                continue;
            }
            for key in extra::member_names(&responses) {
                let answer = member(&responses, &key);
                let same = |body: &&str| member(body, "result") == answer;
                assert!(posted.iter().any(same), "{step}: {answer:?} is none of {posted:?}");
                answers += 1;
            }
        }
        assert_eq!(posted.len(), answers, "{step}: each answer was sent once: {posted:?}");
    }

    /// One agent's error is the end, whatever else was asked in that round.
    fn a_refusal_ends_the_call(&self) {
        let value = &self.step("refuse")["value"];
        if self.modern {
            let message = value["message"].as_str().expect("the agent's own error");
            assert!(message.contains("no screen"), "{value}");
        } else {
            assert_eq!(value["result"]["isError"], true, "{value}");
            let text = value["result"]["content"][0]["text"].as_str().expect("words");
            assert!(text.contains("elicitation with an error"), "{text}");
        }
        assert_eq!(self.calls("refuse").len(), 1, "nothing was made of half a round");
    }

    fn a_prompt_may_ask(&self) {
        let value = &self.step("prompt")["value"];
        let text = &value["result"]["messages"][0]["content"]["text"];
        assert_eq!(*text, "prompt is done", "{value}");
        self.was_asked("prompt", &[FORM.to_owned()]);
        let calls = self.calls("form-prompt");
        assert_eq!(calls.len(), 2);
        assert_eq!(calls[1].method, "prompts/get");
        let expected = json!({"who \"é\"": accepted()});
        assert_eq!(calls[1].params["inputResponses"], expected);
        self.was_posted("prompt", &calls);
    }

    /// The person's answer came after the agent had given up: nobody is told of it.
    fn a_call_given_up_is_not_made_again(&self) {
        self.was_asked("hang", &[wish("hang")]);
        if !self.modern {
            let posted = self.step("hang")["posted"].as_array().expect("a list");
            assert!(posted.len() <= 1, "at most the late answer: {posted:?}");
        }
        assert_eq!(self.calls("hang").len(), 1);
    }

    /// An agent that declared nothing is not asked, and told what is missing.
    fn the_incapable_are_told_so(&self) {
        for (tool, needs, required) in [
            ("form", "elicitation", json!({"elicitation": {"form": {}}})),
            ("url", "elicitation", json!({"elicitation": {"url": {}}})),
            ("sample", "sampling", json!({"sampling": {}})),
            ("roots", "roots", json!({"roots": {}})),
            (
                "several",
                "sampling",
                json!({"elicitation": {"form": {}}, "sampling": {}, "roots": {}}),
            ),
        ] {
            let step = format!("incapable {tool}");
            let value = &self.step(&step)["value"];
            if self.modern {
                assert_eq!(value["code"], -32021, "{step}: {value}");
                assert_eq!(value["data"], json!({"requiredCapabilities": required}), "{step}");
            } else {
                assert_eq!(value["result"]["isError"], true, "{step}: {value}");
                let text = value["result"]["content"][0]["text"].as_str().expect("words");
                assert!(text.contains(&format!("needs {needs}")), "{step}: {text}");
            }
            assert_eq!(self.step(&step)["asked"], json!([]), "{step}");
            let calls = self.calls(tool);
            let last = calls.last().expect("the tool was called");
            assert_eq!(last.params["inputResponses"], Value::Null, "{step}: no second round");
        }
        // A state alone asks nothing of anybody.
        let value = &self.step("incapable state")["value"];
        assert_eq!(value["result"]["content"][0]["text"], "state is done", "{value}");
    }

    /// All calls of a tool or prompt, by whichever agent.
    fn calls(&self, name: &str) -> Vec<Call> {
        let calls: Vec<Call> =
            self.app.calls().into_iter().filter(|call| call.name() == name).collect();
        assert!(!calls.is_empty(), "{name} was never called");
        calls
    }
}

/// What the person behind the agent fills in.
fn accepted() -> Value {
    json!({"action": "accept", "content": {"name": "Zoë ✓ \"quoted\" \u{2028}", "age": 41}})
}

/// A member of the call's `params`, byte for byte.
fn param(call: &Call, name: &str) -> Option<String> {
    member(&member(&call.text, "params")?, name)
}

fn parsed(raw: Option<&str>) -> Value {
    serde_json::from_str(raw.expect("it is there")).expect("it is JSON")
}
