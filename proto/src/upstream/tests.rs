//! Whole conversations with servers of both eras, in microseconds: what came, what goes out.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use serde_json::{Value, json};

use super::*;

const START: Instant = Instant(5_000_000);
const CAN_ALL: &str = r#"{"protocolVersion":"2025-11-25","clientInfo":{"name":"a","version":"1"},"capabilities":{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}}"#;
const CAN_NOTHING: &str = r#"{"protocolVersion":"2025-11-25"}"#;

/// The driver and the server of a test: effects by kind, a clock moved by hand.
struct Play {
    upstream: Upstream,
    now: Instant,
    sent: VecDeque<Value>,
    offers: Vec<Register>,
    answers: Vec<(u64, Result<Value, Value>)>,
    notes: Vec<(u64, &'static str, Value)>,
    announced: Vec<Value>,
    told: Vec<String>,
    restarts: Vec<String>,
}

impl Play {
    fn new(probe: bool) -> Play {
        let settings = Settings { probe, name: None, seed: [7; 32] };
        let mut play = Play {
            upstream: Upstream::new(settings),
            now: START,
            sent: VecDeque::new(),
            offers: Vec::new(),
            answers: Vec::new(),
            notes: Vec::new(),
            announced: Vec::new(),
            told: Vec::new(),
            restarts: Vec::new(),
        };
        play.upstream.started(START);
        play.carry();
        play
    }

    fn carry(&mut self) {
        let parsed = |text: &str| serde_json::from_str::<Value>(text).expect("we write JSON");
        while let Some(effect) = self.upstream.next_effect() {
            match effect {
                Effect::Send { text, about } => {
                    assert!(!text.contains('\n'), "one line: {text}");
                    let message = parsed(&text);
                    assert_eq!(message["jsonrpc"], "2.0");
                    let is_request = message.get("method").is_some() && message.get("id").is_some();
                    let about = about.map(|id| json!(id.0)).unwrap_or(Value::Null);
                    assert_eq!(about, if is_request { message["id"].clone() } else { Value::Null });
                    self.sent.push_back(message);
                }
                Effect::Offer(register) => {
                    parsed(&register.text());
                    self.offers.push(register);
                }
                Effect::Answer { call, answer } => {
                    let answer = answer.map(|raw| parsed(&raw)).map_err(|raw| parsed(&raw));
                    self.answers.push((call.0, answer));
                }
                Effect::Note { call, method, params } => {
                    self.notes.push((call.0, method, parsed(&params)));
                }
                Effect::Announce { params, .. } => self.announced.push(parsed(&params)),
                Effect::Forget(id) => {
                    let cancelled = self.sent.back().expect("a cancel goes before it");
                    assert_eq!(cancelled["params"]["requestId"], id.0);
                }
                Effect::Tell(words) => self.told.push(words),
                Effect::Restart(why) => self.restarts.push(why),
            }
        }
    }

    /// The next message to the server, which must be this method.
    fn expects(&mut self, method: &str) -> Value {
        let message = self.sent.pop_front().unwrap_or_else(|| panic!("nothing, not {method}"));
        assert_eq!(message["method"], method, "{message}");
        message
    }

    /// The next message to the server, which must be an answer to this ID.
    fn expects_answer(&mut self, id: Value) -> Value {
        let message = self.sent.pop_front().unwrap_or_else(|| panic!("nothing, not {id}"));
        assert_eq!(message["id"], id, "{message}");
        assert!(message.get("method").is_none(), "{message}");
        message
    }

    fn says(&mut self, message: Value) {
        self.says_text(&message.to_string());
    }

    fn says_text(&mut self, text: &str) {
        self.upstream.message(self.now, text, None);
        self.carry();
    }

    fn answers(&mut self, request: &Value, result: Value) {
        self.says(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    fn fails(&mut self, request: &Value, code: i64) {
        let error = json!({"code": code, "message": "no"});
        self.says(json!({"jsonrpc": "2.0", "id": request["id"], "error": error}));
    }

    fn calls(&mut self, key: u64, params: Value, agent: &str) {
        let params = params.to_string();
        self.upstream.call(self.now, CallKey(key), "tools/call", &params, agent);
        self.carry();
    }

    fn passes(&mut self, time: Duration) {
        self.now = self.now + time;
        self.upstream.tick(self.now);
        self.carry();
    }

    /// A 2025-era server with these capabilities, one tool and one resource, ready.
    fn legacy(capabilities: Value) -> Play {
        let mut play = Play::new(false);
        let initialize = play.expects("initialize");
        play.answers(
            &initialize,
            json!({"protocolVersion": "2025-06-18", "capabilities": capabilities,
                "serverInfo": {"name": "s", "version": "2"}, "instructions": "be kind"}),
        );
        play.expects("notifications/initialized");
        if play.sent.front().is_some_and(|next| next["method"] == "logging/setLevel") {
            let level = play.expects("logging/setLevel");
            assert_eq!(level["params"]["level"], "debug");
            play.answers(&level, json!({}));
        }
        for (kind, list) in [
            ("tools", json!({"tools": [{"name": "t"}]})),
            ("prompts", json!({"prompts": []})),
            ("resources", json!({"resources": [{"uri": "a:1"}]})),
        ] {
            if capabilities.get(kind).is_some() {
                let request = play.expects(&format!("{kind}/list"));
                play.answers(&request, list);
            }
            if kind == "resources" && capabilities.get(kind).is_some() {
                let request = play.expects("resources/templates/list");
                play.answers(&request, json!({"resourceTemplates": []}));
            }
        }
        assert!(play.upstream.is_ready());
        play
    }

    fn tools() -> Play {
        Play::legacy(json!({"tools": {}}))
    }

    fn last_answer(&self) -> &(u64, Result<Value, Value>) {
        self.answers.last().expect("an answer")
    }
}

#[test]
fn a_server_of_2025_is_opened_listed_and_offered_byte_for_byte() {
    let mut play = Play::new(true);
    let discover = play.expects("server/discover");
    let meta = &discover["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "clientmcp");
    play.fails(&discover, -32601);
    let initialize = play.expects("initialize");
    assert_eq!(initialize["params"]["protocolVersion"], "2025-11-25");
    for capability in ["roots", "sampling", "elicitation"] {
        assert!(initialize["params"]["capabilities"][capability].is_object(), "{capability}");
    }
    play.says_text(&format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}},"completions":{{}}}},"serverInfo":{{"version":"1.0","name":"s\u0031","title":"T"}}}}}}"#,
        initialize["id"]
    ));
    play.expects("notifications/initialized");
    let list = play.expects("tools/list");
    assert_eq!(list["params"], json!({}), "the first page has no cursor");
    play.says_text(&format!(
        r#"{{"id":{},"jsonrpc":"2.0","result":{{"nextCursor":"p\u00322","tools":[ {{"name" : "a", "n":1.50e0}} ]}}}}"#,
        list["id"]
    ));
    let second = play.expects("tools/list");
    assert_eq!(second["params"], json!({"cursor": "p22"}));
    play.answers(&second, json!({"tools": [{"name": "b"}]}));
    assert_eq!(play.offers.len(), 1);
    assert_eq!(
        play.offers[0].text(),
        r#"{"type":"register","server":{"name":"s\u0031","version":"1.0","title":"T"},"tools":[{"name" : "a", "n":1.50e0},{"name":"b"}],"completions":true}"#
    );
    assert!(play.sent.is_empty());
    assert_eq!(play.upstream.deadline(), None);
}

#[test]
fn a_server_of_2026_is_recognized_listed_and_listened_to() {
    let mut play = Play::new(true);
    let discover = play.expects("server/discover");
    play.answers(
        &discover,
        json!({"supportedVersions": ["2026-07-28", "2027-01-01"],
            "capabilities": {"tools": {}, "resources": {"subscribe": true}}, "instructions": "i",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "m", "version": "3"}}}),
    );
    let tools = play.expects("tools/list");
    assert!(tools["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"].is_object());
    play.answers(&tools, json!({"tools": [], "ttlMs": 5}));
    let resources = play.expects("resources/list");
    play.answers(&resources, json!({"resources": [{"uri": "a:1"}]}));
    let templates = play.expects("resources/templates/list");
    play.answers(&templates, json!({"resourceTemplates": []}));
    let listen = play.expects("subscriptions/listen");
    assert_eq!(
        listen["params"]["notifications"],
        json!({"toolsListChanged": true, "resourcesListChanged": true, "resourceSubscriptions": ["a:1"]})
    );
    let register = &play.offers[0];
    assert_eq!(register.server.as_deref(), Some(r#"{"name":"m","version":"3"}"#));
    assert_eq!(register.instructions.as_deref(), Some("i"));
    assert!(register.subscribe && register.prompts.is_none());
    // Another resource: a new subscription takes the place of the old one.
    play.says(json!({"jsonrpc": "2.0", "method": "notifications/resources/list_changed"}));
    let again = play.expects("resources/list");
    play.answers(&again, json!({"resources": [{"uri": "a:1"}, {"uri": "a:2"}]}));
    play.expects("resources/templates/list");
    let second = play.expects("subscriptions/listen");
    assert_eq!(second["params"]["notifications"]["resourceSubscriptions"], json!(["a:1", "a:2"]));
    let cancelled = play.expects("notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], listen["id"]);
    play.says(json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
        "params": {"uri": "a:1", "_meta": {"io.modelcontextprotocol/subscriptionId": 9}}}));
    assert_eq!(play.announced, [json!({"uri": "a:1"})]);
}

#[test]
fn whatever_a_server_of_2025_answers_to_the_probe_it_is_initialized() {
    for code in [-32601, -32602, -32600, -32000, -32700, 0] {
        let mut play = Play::new(true);
        let discover = play.expects("server/discover");
        play.fails(&discover, code);
        play.expects("initialize");
    }
    // One that says nothing.
    let mut play = Play::new(true);
    play.expects("server/discover");
    assert_eq!(play.upstream.deadline(), Some(START + PROBE_TIMEOUT));
    play.passes(PROBE_TIMEOUT - Duration::from_millis(1));
    assert!(play.sent.is_empty());
    play.passes(Duration::from_millis(1));
    play.expects("initialize");
    // One that ends; the next time it is not asked.
    let mut play = Play::new(true);
    play.expects("server/discover");
    play.upstream.gone("exit status 1");
    play.upstream.started(play.now);
    play.carry();
    play.expects("initialize");
}

#[test]
fn a_slow_server_of_2026_is_recognized_after_all() {
    let mut play = Play::new(true);
    let discover = play.expects("server/discover");
    play.passes(PROBE_TIMEOUT);
    let initialize = play.expects("initialize");
    play.answers(&discover, json!({"supportedVersions": ["2026-07-28"], "capabilities": {}}));
    assert_eq!(play.offers.len(), 1);
    play.fails(&initialize, -32601);
    assert!(play.upstream.is_ready() && play.restarts.is_empty());
    // A late refusal changes nothing.
    let mut play = Play::new(true);
    let discover = play.expects("server/discover");
    play.passes(PROBE_TIMEOUT);
    play.expects("initialize");
    play.fails(&discover, -32601);
    assert!(play.sent.is_empty(), "initialized once");
}

#[test]
fn a_server_that_cannot_be_spoken_with_is_started_again_with_words() {
    let with = |answer: &dyn Fn(&mut Play)| {
        let mut play = Play::new(true);
        answer(&mut play);
        assert_eq!(play.restarts.len(), 1, "{:?}", play.sent);
        play.restarts.remove(0)
    };
    let why = with(&|play| {
        let discover = play.expects("server/discover");
        play.answers(&discover, json!({"supportedVersions": ["2099-01-01"]}));
    });
    assert!(why.contains("2099-01-01"), "{why}");
    let why = with(&|play| {
        let discover = play.expects("server/discover");
        let error = json!({"code": -32022, "message": "m", "data": {"supported": ["2030-01-01"]}});
        play.says(json!({"jsonrpc": "2.0", "id": discover["id"], "error": error}));
    });
    assert!(why.contains("2030-01-01"), "{why}");
    for (answer, word) in
        [(json!({"protocolVersion": "1999-01-01"}), "1999-01-01"), (json!({}), "no version")]
    {
        let why = with(&|play| {
            play.passes(PROBE_TIMEOUT);
            play.expects("server/discover");
            let initialize = play.expects("initialize");
            play.answers(&initialize, answer.clone());
        });
        assert!(why.contains(word), "{why}");
    }
    let why = with(&|play| {
        play.passes(PROBE_TIMEOUT);
        play.passes(OPENING_TIMEOUT);
    });
    assert!(why.contains("initialize within 60 s"), "{why}");
}

#[test]
fn only_what_has_changed_is_offered_again() {
    let mut play = Play::legacy(json!({"tools": {"listChanged": true}}));
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    play.says(changed.clone());
    let list = play.expects("tools/list");
    // It changes once more while it is being read.
    play.says(changed.clone());
    play.says(changed);
    assert!(play.sent.is_empty(), "one reading at a time");
    play.answers(&list, json!({"tools": [{"name": "old"}]}));
    let again = play.expects("tools/list");
    assert_eq!(play.offers.len(), 1, "what is stale is not offered");
    play.answers(&again, json!({"tools": [{"name": "new"}]}));
    assert_eq!(play.offers.len(), 2);
    assert_eq!(play.offers[1].tools, Some(vec![r#"{"name":"new"}"#.to_string()]));
    play.says(json!({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"}));
    assert!(play.sent.is_empty(), "it has no prompts");
    play.says(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    let list = play.expects("tools/list");
    play.answers(&list, json!({"tools": [{"name": "new"}]}));
    assert_eq!(play.offers.len(), 2, "nothing has changed");
}

#[test]
fn a_list_that_is_refused_or_does_not_end_costs_nothing_else() {
    let mut play = Play::new(false);
    let initialize = play.expects("initialize");
    let answer =
        json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "prompts": {}}});
    play.answers(&initialize, answer);
    play.expects("notifications/initialized");
    let tools = play.expects("tools/list");
    let prompts = play.expects("prompts/list");
    play.fails(&prompts, -32601);
    play.answers(&tools, json!({"tools": [{"name": "t"}], "nextCursor": "same"}));
    let second = play.expects("tools/list");
    play.answers(&second, json!({"tools": [{"name": "u"}], "nextCursor": "same"}));
    assert!(play.sent.is_empty(), "a cursor that repeats is the end");
    assert_eq!(play.offers[0].tools.as_ref().map(Vec::len), Some(2));
    assert_eq!(play.offers[0].prompts, Some(vec![]));
    assert_eq!(play.offers[0].server, None, "it did not say who it is");
    assert_eq!(play.told.len(), 1);
}

#[test]
fn a_server_can_be_offered_under_another_name() {
    let settings = Settings { probe: false, name: Some("mine".into()), seed: [0; 32] };
    for (own, offered) in [
        (
            json!({"name": "s", "version": "1", "title": "T"}),
            r#"{"name":"mine","version":"1","title":"T"}"#,
        ),
        (json!({"name": 1}), r#"{"name":"mine","version":"0"}"#),
    ] {
        let mut play = Play::new(false);
        play.upstream = Upstream::new(settings.clone());
        play.sent.clear();
        play.upstream.started(START);
        play.carry();
        let initialize = play.expects("initialize");
        let answer =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": own});
        play.answers(&initialize, answer);
        assert_eq!(play.offers[0].server.as_deref(), Some(offered));
    }
}

#[test]
fn a_call_goes_out_without_what_2025_does_not_know_and_comes_back_as_it_is() {
    let mut play = Play::tools();
    let params = json!({"name": "t", "arguments": {"a": 1}, "inputResponses": {},
        "_meta": {"progressToken": "agent's", "x/y": 1,
            "io.modelcontextprotocol/protocolVersion": "2026-07-28"}});
    play.calls(1, params, CAN_NOTHING);
    let call = play.expects("tools/call");
    let meta = json!({"progressToken": call["id"], "x/y": 1});
    assert_eq!(call["params"], json!({"name": "t", "arguments": {"a": 1}, "_meta": meta}));
    let progress = json!({"progressToken": call["id"], "progress": 1, "message": "m"});
    play.says(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}));
    assert_eq!(play.notes, [(1, "notifications/progress", json!({"progress": 1, "message": "m"}))]);
    play.answers(&call, json!({"content": [], "x": [1]}));
    assert_eq!(*play.last_answer(), (1, Ok(json!({"content": [], "x": [1]}))));
    // Without a token there is no `_meta`; an error passes with its data.
    play.calls(2, json!({"name": "t"}), CAN_NOTHING);
    let call = play.expects("tools/call");
    assert_eq!(call["params"], json!({"name": "t"}));
    let error = json!({"code": -32099, "message": "m", "data": [1]});
    play.says(json!({"jsonrpc": "2.0", "id": call["id"], "error": error.clone()}));
    assert_eq!(*play.last_answer(), (2, Err(error)));
    // Late progress and a second answer have no effect.
    let progress = json!({"progressToken": call["id"], "progress": 2});
    play.says(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}));
    play.answers(&call, json!({}));
    assert_eq!((play.notes.len(), play.answers.len()), (1, 2));
}

#[test]
fn a_line_break_between_tokens_becomes_a_space() {
    let mut play = Play::tools();
    play.upstream.call(
        play.now,
        CallKey(1),
        "tools/call",
        "{\n\"name\":\"t\",\r\n\"arguments\":{\n\"a\":\"\\n\"}}",
        CAN_NOTHING,
    );
    play.carry();
    assert_eq!(play.expects("tools/call")["params"]["arguments"]["a"], "\n");
}

#[test]
fn a_cancelled_call_is_cancelled_at_the_server() {
    let mut play = Play::tools();
    play.calls(1, json!({"name": "t"}), CAN_NOTHING);
    let call = play.expects("tools/call");
    play.upstream.cancel(CallKey(1), "the \"agent\" left");
    play.carry();
    let cancelled = play.expects("notifications/cancelled");
    assert_eq!(
        cancelled["params"],
        json!({"requestId": call["id"], "reason": "the \"agent\" left"})
    );
    play.answers(&call, json!({}));
    play.upstream.cancel(CallKey(1), "again");
    play.carry();
    assert!(play.answers.is_empty() && play.sent.is_empty());
}

#[test]
fn log_messages_belong_to_the_one_call_that_runs() {
    let mut play = Play::legacy(json!({"tools": {}, "logging": {}}));
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message",
        "params": {"level": "info", "data": {"a": 1}}});
    play.says(log.clone());
    assert!(play.notes.is_empty(), "no call, nobody to tell");
    play.calls(1, json!({"name": "t"}), CAN_NOTHING);
    play.says(log.clone());
    assert_eq!(play.notes, [(1, "notifications/message", log["params"].clone())]);
    play.calls(2, json!({"name": "t"}), CAN_NOTHING);
    play.says(log.clone());
    assert_eq!(play.notes.len(), 1, "nothing says whose it is");
    // A stream of its own does.
    play.expects("tools/call");
    let second = play.expects("tools/call")["id"].as_u64().map(RequestId);
    play.upstream.message(play.now, &log.to_string(), second);
    play.carry();
    assert_eq!(play.notes.last().map(|note| note.0), Some(2));
}

/// A call of the agent that asks for elicitation; the question's ID is `"e1"`.
fn asked(agent: &str) -> (Play, Value) {
    let mut play = Play::tools();
    play.calls(1, json!({"name": "t", "arguments": {}}), agent);
    let call = play.expects("tools/call");
    play.says(json!({"jsonrpc": "2.0", "id": "e1", "method": "elicitation/create",
        "params": {"message": "who?", "requestedSchema": {"type": "object"}}}));
    (play, call)
}

#[test]
fn a_question_suspends_the_call_and_its_repetition_goes_on() {
    let (mut play, call) = asked(CAN_ALL);
    let (_, answer) = play.last_answer().clone();
    let answer = answer.expect("a result");
    assert_eq!(answer["resultType"], "input_required");
    let questions = answer["inputRequests"].as_object().expect("questions").clone();
    let (key, question) = questions.iter().next().expect("one");
    let params = json!({"message": "who?", "requestedSchema": {"type": "object"}});
    assert_eq!(*question, json!({"method": "elicitation/create", "params": params}));
    let state = &answer["requestState"];
    assert!(play.sent.is_empty());
    let given = json!({"action": "accept", "content": {"name": "x"}});
    play.calls(
        2,
        json!({"name": "t", "arguments": {}, "requestState": state, "inputResponses": {key: given}}),
        CAN_ALL,
    );
    assert_eq!(play.expects_answer(json!("e1"))["result"], given);
    assert!(play.sent.is_empty(), "the call is not sent twice");
    // It asks once more, and then ends.
    play.says(json!({"jsonrpc": "2.0", "id": 0, "method": "roots/list"}));
    let answer = play.last_answer().1.clone().expect("a result");
    let second = &answer["requestState"];
    assert_ne!(second, state);
    let key = answer["inputRequests"].as_object().and_then(|q| q.keys().next()).expect("one");
    play.calls(
        3,
        json!({"name": "t", "requestState": second, "inputResponses": {key: {"roots": []}}}),
        CAN_ALL,
    );
    assert_eq!(play.expects_answer(json!(0))["result"], json!({"roots": []}));
    play.answers(&call, json!({"content": []}));
    assert_eq!(*play.last_answer(), (3, Ok(json!({"content": []}))));
    // A state is good for once.
    play.calls(4, json!({"name": "t", "requestState": state}), CAN_ALL);
    assert_eq!(play.last_answer().1.clone().expect_err("gone")["code"], -32602);
}

#[test]
fn what_the_agent_lacks_is_answered_to_the_server() {
    let lacks_url = r#"{"capabilities":{"elicitation":{},"sampling":{}}}"#;
    let only_url = r#"{"capabilities":{"elicitation":{"url":{}}}}"#;
    for (agent, method, params, word) in [
        (CAN_NOTHING, "elicitation/create", json!({}), Some("elicitation")),
        (CAN_NOTHING, "sampling/createMessage", json!({}), Some("sampling")),
        (CAN_NOTHING, "roots/list", json!({}), Some("roots")),
        (lacks_url, "elicitation/create", json!({}), None),
        (lacks_url, "elicitation/create", json!({"mode": "form"}), None),
        (lacks_url, "elicitation/create", json!({"mode": "url"}), Some("URL")),
        (only_url, "elicitation/create", json!({"mode": "url"}), None),
        (only_url, "elicitation/create", json!({}), Some("form")),
        (lacks_url, "sampling/createMessage", json!({}), None),
        (lacks_url, "sampling/createMessage", json!({"tools": []}), Some("tools")),
        (CAN_ALL, "sampling/createMessage", json!({"tools": []}), None),
        (CAN_ALL, "tasks/get", json!({}), Some("Unknown method")),
    ] {
        let mut play = Play::tools();
        play.calls(1, json!({"name": "t"}), agent);
        play.expects("tools/call");
        play.says(json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}));
        match word {
            None => assert_eq!(play.answers.len(), 1, "{agent} {method} {params}"),
            Some(word) => {
                let error = play.expects_answer(json!(7))["error"].clone();
                assert_eq!(error["code"], -32601, "{error}");
                assert!(error["message"].as_str().is_some_and(|m| m.contains(word)), "{error}");
                assert!(play.answers.is_empty(), "the call goes on");
            }
        }
    }
}

#[test]
fn a_question_that_could_be_anybodys_is_nobodys() {
    let question = json!({"jsonrpc": "2.0", "id": 7, "method": "roots/list"});
    let refused = |play: &mut Play| {
        let message = play.expects_answer(json!(7))["error"]["message"].clone();
        message.as_str().map(ToString::to_string).expect("words")
    };
    let mut play = Play::tools();
    play.says(question.clone());
    assert!(refused(&mut play).contains("No call"));
    for key in [1, 2] {
        play.calls(key, json!({"name": "t"}), CAN_ALL);
        play.expects("tools/call");
    }
    play.says(question.clone());
    assert!(refused(&mut play).contains("Several calls"));
    assert!(play.answers.is_empty());
    // On a stream of its own it is clear.
    let (id, _) = play.upstream.requests.iter().next_back().expect("two calls");
    let id = *id;
    play.upstream.message(play.now, &question.to_string(), Some(id));
    play.carry();
    assert_eq!(play.last_answer().0, 2);
    // The suspended one waits; so it is the running one that asks.
    play.says(json!({"jsonrpc": "2.0", "id": 8, "method": "roots/list"}));
    assert_eq!(play.last_answer().0, 1);
    play.says(json!({"jsonrpc": "2.0", "id": 7, "method": "roots/list"}));
    assert!(refused(&mut play).contains("Several calls"), "two are suspended");
}

#[test]
fn two_questions_at_once_are_asked_one_round_after_the_other() {
    let (mut play, call) = asked(CAN_ALL);
    play.says(json!({"jsonrpc": "2.0", "id": "e2", "method": "roots/list"}));
    assert_eq!(play.answers.len(), 1, "the first round is out");
    let state = play.last_answer().1.clone().expect("a result")["requestState"].clone();
    let first = json!({"q1": {"action": "decline"}, "stray": {}});
    play.calls(2, json!({"name": "t", "requestState": state, "inputResponses": first}), CAN_ALL);
    assert_eq!(play.expects_answer(json!("e1"))["result"], json!({"action": "decline"}));
    let answer = play.last_answer().1.clone().expect("a result");
    let keys: Vec<&String> =
        answer["inputRequests"].as_object().expect("questions").keys().collect();
    assert_eq!(keys, ["q2"]);
    let state = answer["requestState"].clone();
    let second = json!({"q2": {"roots": []}});
    play.calls(3, json!({"name": "t", "requestState": state, "inputResponses": second}), CAN_ALL);
    play.expects_answer(json!("e2"));
    play.answers(&call, json!({"content": []}));
    assert_eq!(play.last_answer().0, 3);
}

#[test]
fn a_repetition_must_be_one() {
    let (mut play, call) = asked(CAN_ALL);
    let state = play.last_answer().1.clone().expect("a result")["requestState"].clone();
    for params in [
        json!({"name": "other", "requestState": state}),
        json!({"name": "t", "requestState": "guessed"}),
        json!({"name": "t", "requestState": 7}),
    ] {
        play.calls(2, params, CAN_ALL);
        assert_eq!(play.last_answer().1.clone().expect_err("refused")["code"], -32602);
    }
    // Without the answer it is asked again, under a new state.
    play.calls(3, json!({"name": "t", "requestState": state}), CAN_ALL);
    let again = play.last_answer().1.clone().expect("a result");
    assert_eq!(again["resultType"], "input_required");
    assert_ne!(again["requestState"], state);
    assert!(play.sent.is_empty());
    play.answers(&call, json!({}));
}

#[test]
fn a_suspended_call_is_kept_five_minutes() {
    let (mut play, call) = asked(CAN_ALL);
    let state = play.last_answer().1.clone().expect("a result")["requestState"].clone();
    assert_eq!(play.upstream.deadline(), Some(play.now + SUSPENDED_TIMEOUT));
    play.passes(SUSPENDED_TIMEOUT - Duration::from_millis(1));
    assert!(play.sent.is_empty());
    play.passes(Duration::from_millis(1));
    assert_eq!(play.expects_answer(json!("e1"))["error"]["code"], -32603);
    assert_eq!(play.expects("notifications/cancelled")["params"]["requestId"], call["id"]);
    assert_eq!(play.upstream.deadline(), None);
    play.calls(2, json!({"name": "t", "requestState": state}), CAN_ALL);
    assert_eq!(play.last_answer().1.clone().expect_err("gone")["code"], -32602);
}

#[test]
fn a_server_that_does_not_wait_has_its_answer_kept() {
    let (mut play, call) = asked(CAN_ALL);
    let state = play.last_answer().1.clone().expect("a result")["requestState"].clone();
    let cancelled = json!({"requestId": "e1", "reason": "timeout"});
    play.says(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}));
    play.answers(&call, json!({"isError": true}));
    assert_eq!(play.answers.len(), 1);
    let late = json!({"name": "t", "requestState": state, "inputResponses": {"q1": {}}});
    play.calls(2, late, CAN_ALL);
    assert_eq!(*play.last_answer(), (2, Ok(json!({"isError": true}))));
    assert!(play.sent.is_empty(), "nothing for a question that was withdrawn");
}

#[test]
fn there_are_so_many_suspended_calls_and_then_the_oldest_goes() {
    let mut play = Play::tools();
    for key in 0..=WAITING_MAX as u64 {
        play.now = play.now + Duration::from_millis(1);
        play.calls(key, json!({"name": "t"}), CAN_ALL);
        play.expects("tools/call");
        play.says(json!({"jsonrpc": "2.0", "id": key, "method": "roots/list"}));
        if key < WAITING_MAX as u64 {
            assert!(play.sent.is_empty(), "{key}");
        }
    }
    assert!(play.expects_answer(json!(0))["error"].is_object());
    play.expects("notifications/cancelled");
    assert_eq!(play.upstream.requests.len(), WAITING_MAX);
}

#[test]
fn what_a_server_of_2026_asks_passes_through() {
    let mut play = Play::new(true);
    let discover = play.expects("server/discover");
    let answer = json!({"supportedVersions": ["2026-07-28"], "capabilities": {}});
    play.answers(&discover, answer);
    let agent = r#"{"protocolVersion":"2025-06-18","clientInfo":{"name":"a","version":"1"},"capabilities":{"roots":{}}}"#;
    let params = json!({"name": "t", "requestState": "theirs", "inputResponses": {"k": {}}});
    play.calls(1, params, agent);
    let call = play.expects("tools/call");
    assert_eq!(call["params"]["requestState"], "theirs");
    assert_eq!(call["params"]["inputResponses"], json!({"k": {}}));
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "a", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
        "io.modelcontextprotocol/logLevel": "debug"});
    assert_eq!(call["params"]["_meta"], meta);
    let asks = json!({"resultType": "input_required", "requestState": "s"});
    play.answers(&call, asks.clone());
    assert_eq!(*play.last_answer(), (1, Ok(asks)));
    // An agent of 2026 says it all by itself.
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}, "progressToken": "p"});
    play.calls(2, json!({"name": "t", "_meta": meta}), agent);
    let call = play.expects("tools/call");
    let sent = call["params"]["_meta"].as_object().expect("an object").clone();
    assert_eq!(sent["progressToken"], call["id"]);
    assert_eq!(sent["io.modelcontextprotocol/clientCapabilities"], json!({}));
    assert!(!sent.contains_key("io.modelcontextprotocol/logLevel"), "it asked for none");
}

#[test]
fn a_server_that_dies_ends_its_calls_and_the_next_takes_new_ones() {
    let (mut play, _) = asked(CAN_ALL);
    let state = play.last_answer().1.clone().expect("a result")["requestState"].clone();
    play.calls(2, json!({"name": "t"}), CAN_NOTHING);
    let prompt = r#"{"name":"p"}"#;
    play.upstream.call(play.now, CallKey(3), "prompts/get", prompt, CAN_NOTHING);
    play.carry();
    play.sent.clear();
    play.upstream.gone("exit status 3");
    play.carry();
    let told = play.answers.split_off(1);
    let [(2, Ok(tool)), (3, Err(error))] = &told[..] else { panic!("{told:?}") };
    let words = tool["content"][0]["text"].as_str().expect("words");
    assert!(words.contains("exit status 3") && words.contains("may have run"), "{words}");
    assert_eq!((&tool["isError"], &error["code"]), (&json!(true), &json!(-32603)));
    // Calls wait a moment for it to come back.
    play.calls(4, json!({"name": "t"}), CAN_NOTHING);
    play.calls(5, json!({"name": "t", "requestState": state}), CAN_NOTHING);
    play.upstream.cancel(CallKey(6), "unknown");
    assert!(play.sent.is_empty() && play.answers.len() == 1);
    play.upstream.started(play.now);
    play.carry();
    let initialize = play.expects("initialize");
    assert!(initialize["id"].as_u64() > Some(4), "no ID is used twice");
    let answer = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "2"}, "instructions": "be kind"});
    play.answers(&initialize, answer);
    play.expects("notifications/initialized");
    let list = play.expects("tools/list");
    play.answers(&list, json!({"tools": [{"name": "t"}]}));
    assert_eq!(play.offers.len(), 1, "the same offer as before is no news");
    play.expects("tools/call");
    assert_eq!(play.last_answer().1.clone().expect_err("it was lost")["code"], -32602);
}

#[test]
fn a_call_does_not_wait_for_ever_for_a_server() {
    let mut play = Play::new(false);
    play.calls(1, json!({"name": "t"}), CAN_NOTHING);
    assert!(play.upstream.deadline() <= Some(play.now + START_WAIT));
    play.passes(START_WAIT - Duration::from_millis(1));
    assert!(play.answers.is_empty());
    play.passes(Duration::from_millis(1));
    let words = play.last_answer().1.clone().expect("a tool error")["content"][0]["text"].clone();
    assert!(words.as_str().is_some_and(|words| words.contains("not running")), "{words}");
    for key in 0..=WAITING_MAX as u64 {
        play.calls(key, json!({"name": "t"}), CAN_NOTHING);
    }
    assert_eq!(play.answers.len(), 2, "one more than may wait");
}

#[test]
fn noise_of_a_server_is_told_and_harms_nothing() {
    let mut play = Play::tools();
    for text in ["", "hello", "[]", "{}", "7", r#"{"id":null,"error":{"code":1,"message":"m"}}"#] {
        play.told.clear();
        play.says_text(text);
        assert_eq!(play.told.len(), 1, "{text}");
    }
    play.told.clear();
    for text in [
        r#"{"id":"99","result":{}}"#,
        r#"{"id":99,"result":{}}"#,
        r#"{"method":"notifications/progress"}"#,
        r#"{"method":"notifications/progress","params":{"progressToken":99,"progress":1}}"#,
        r#"{"method":"notifications/cancelled"}"#,
        r#"{"method":"notifications/resources/updated","params":{}}"#,
        r#"{"method":"notifications/elicitation/complete","params":{}}"#,
        r#"{"method":7}"#,
    ] {
        play.says_text(text);
        assert!(play.answers.is_empty() && play.restarts.is_empty(), "{text}");
    }
    play.says(json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}));
    assert_eq!(play.expects_answer(json!("p"))["result"], json!({}));
}

#[test]
fn resources_are_subscribed_once_each() {
    let mut play = Play::legacy(json!({"resources": {"subscribe": true, "listChanged": true}}));
    let subscribe = play.expects("resources/subscribe");
    assert_eq!(subscribe["params"], json!({"uri": "a:1"}));
    play.fails(&subscribe, -32602);
    assert_eq!(play.told.len(), 1, "a refusal is told and no more");
    play.says(json!({"jsonrpc": "2.0", "method": "notifications/resources/list_changed"}));
    let list = play.expects("resources/list");
    play.answers(&list, json!({"resources": [{"uri": "a:1"}, {"uri": "a:2"}]}));
    play.expects("resources/templates/list");
    assert_eq!(play.expects("resources/subscribe")["params"], json!({"uri": "a:2"}));
    assert!(play.sent.is_empty());
}

#[test]
fn a_request_that_was_not_delivered_ends_what_it_was_for() {
    let mut play = Play::tools();
    play.calls(1, json!({"name": "t"}), CAN_NOTHING);
    let id = play.expects("tools/call")["id"].as_u64().map(RequestId).expect("an ID");
    play.upstream.failed(id, "HTTP status 500");
    play.upstream.failed(id, "again");
    play.carry();
    let words = play.last_answer().1.clone().expect("a tool error")["content"][0]["text"].clone();
    assert!(words.as_str().is_some_and(|words| words.contains("500")), "{words}");
    assert_eq!(play.answers.len(), 1);
    let mut play = Play::new(false);
    let id = play.expects("initialize")["id"].as_u64().map(RequestId).expect("an ID");
    play.upstream.failed(id, "connection refused");
    play.carry();
    assert_eq!(play.restarts, ["connection refused"]);
}

#[test]
fn an_answer_that_is_none_ends_its_call_and_not_the_connection() {
    for (member, raw, words) in [
        ("result", "null", "The local MCP server answered with null for a result."),
        ("result", r#""text""#, "The local MCP server answered with a string for a result."),
        ("result", "[]", "The local MCP server answered with an array for a result."),
        ("error", r#""broken""#, r#"The local MCP server failed: "broken""#),
        ("error", r#"{"code":"x"}"#, r#"The local MCP server failed: {"code":"x"}"#),
        (
            "error",
            r#"{"code":1.5,"message":""}"#,
            r#"The local MCP server failed: {"code":1.5,"message":""}"#,
        ),
    ] {
        let mut play = Play::tools();
        play.calls(1, json!({"name": "t"}), CAN_ALL);
        let call = play.expects("tools/call");
        play.says_text(&format!(r#"{{"jsonrpc":"2.0","id":{},"{member}":{raw}}}"#, call["id"]));
        let error = json!({"code": -32603, "message": words});
        assert_eq!(play.last_answer(), &(1, Err(error)), "{member}: {raw}");
    }
}

#[test]
fn what_the_bridge_would_not_take_is_not_passed_on() {
    let mut play = Play::tools();
    play.calls(1, json!({"name": "t"}), CAN_ALL);
    let call = play.expects("tools/call");
    play.says(json!({"method": "notifications/message", "params": ["no", "object"]}));
    play.says(json!({"method": "notifications/resources/updated", "params": {"uri": 5}}));
    assert!(play.notes.is_empty() && play.announced.is_empty());
    let deep = format!("{}{}", "[".repeat(509), "]".repeat(509));
    play.says_text(&format!(
        r#"{{"id":"a","method":"elicitation/create","params":{{"message":"m","x":{deep}}}}}"#
    ));
    let refused = play.expects_answer(json!("a"));
    assert_eq!(refused["error"]["message"], "The question is nested too deep.");
    play.answers(&call, json!({}));
    assert_eq!(play.last_answer(), &(1, Ok(json!({}))));
}
