//! The recorded channels, replayed with a running bridge: what the client and the agents say is said,
//! what the bridge says is compared.
//!
//! `tests/data/transcripts/README.md` explains the lines. The SDK replays the same files as the
//! client (`sdk/test/transcripts.test.js`). Time is not waited for here: what a bridge does when it
//! passes is tested under a pretend clock, in `clientmcp-proto`.

mod support;

use std::collections::HashMap;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::Value;
use support::{Agent, Bridge, Client, Http, SOON, Token, token, unique};

#[test]
fn the_bridge_says_what_every_transcript_has() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/transcripts");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("there are transcripts")
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|end| end == "txt"))
        .collect();
    files.sort();
    assert!(files.len() >= 8, "expected the transcripts, got {files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a transcript is text");
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
        Replay::of(name.unwrap_or_default()).run(&text);
    }
}

/// One conversation under way.
struct Replay {
    /// File and line, for what goes wrong.
    at: String,
    name: String,
    client_id: String,
    bridge: Option<Bridge>,
    client: Option<Client>,
    /// Of the same client ID, and in charge.
    newcomer: Option<Client>,
    /// Requests that were sent and not answered yet, by their number in the file.
    asked: HashMap<String, Http>,
    words: HashMap<String, String>,
}

impl Replay {
    fn of(name: String) -> Replay {
        Replay {
            at: name.clone(),
            name,
            client_id: unique("transcript"),
            bridge: None,
            client: None,
            newcomer: None,
            asked: HashMap::new(),
            words: HashMap::new(),
        }
    }

    fn run(&mut self, text: &str) {
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            self.at = format!("{}:{}", self.name, index + 1);
            let (kind, rest) =
                line.split_once(':').unwrap_or_else(|| panic!("{}: no kind in {line}", self.at));
            self.step(kind, rest.trim());
        }
        assert!(self.asked.is_empty(), "{}: a request has no answer or end", self.name);
    }

    fn step(&mut self, kind: &str, rest: &str) {
        match kind {
            "connect" => self.connects(rest),
            "client" => {
                let message = self.spoken(&self.json(rest));
                self.client().send(&message);
            }
            "bridge" => {
                let expected = self.json(rest);
                let actual = self.client().next_message(SOON);
                self.compares(&expected, &actual);
            }
            "close" => self.closes(rest),
            "lost" => self.client.take().expect("a client that is there").vanishes(),
            "time" => {}
            "newcomer" => {
                let mut newcomer = Client::connect(self.bridge(), &self.client_id);
                newcomer.offers(&[]);
                self.newcomer = Some(newcomer);
            }
            "agent" => self.asks(rest),
            "gone" => {
                let http = self.asked.remove(rest).expect("a request that runs");
                drop(http);
            }
            "answer" => self.answers(rest),
            _ => panic!("{}: {kind} is no kind of line", self.at),
        }
    }

    fn connects(&mut self, life: &str) {
        let seconds = life.strip_suffix('s').and_then(|life| life.parse().ok()).unwrap_or(3600);
        let bridge = self.bridge.get_or_insert_with(|| Bridge::start(&[]));
        let token = Token::of(&self.client_id, "client").expires_in(seconds).mint();
        self.client = Some(Client::connect_with_token(bridge, &self.client_id, &token));
    }

    fn closes(&mut self, rest: &str) {
        let code: u16 = rest.split(' ').next().and_then(|code| code.parse().ok()).expect("a code");
        // A bridge that stops does so because it is told to; the next connect finds another.
        let stopping = if code == 1001 { self.bridge.take() } else { None };
        if let Some(bridge) = &stopping {
            bridge.signal(Signal::TERM);
        }
        let (actual, reason) = self.client().expects_close();
        assert_eq!(actual, code, "{}: {reason}", self.at);
        if let Some(bridge) = stopping {
            assert!(bridge.wait_exit(SOON).success(), "{}", self.at);
        }
        self.client = None;
    }

    fn asks(&mut self, rest: &str) {
        let request = self.json(rest);
        let params = self.spoken(&request["params"]);
        let method = request["method"].as_str().expect("a request has a method");
        let agent = Agent::new(self.bridge(), &self.client_id);
        let agent = match request.get("capabilities") {
            Some(capabilities) => agent.declaring(capabilities.clone()),
            None => agent,
        };
        let running = agent.modern_request(method, params).sent_to(agent.bridge);
        self.asked.insert(request["id"].to_string(), running);
    }

    fn answers(&mut self, rest: &str) {
        let expected = self.json(rest);
        let number = expected["id"].to_string();
        let http = self.asked.remove(&number).expect("a request that runs");
        let agent = Agent::new(self.bridge(), &self.client_id);
        let mut actual = agent.read_answer(http).response();
        // The agent here counts for itself.
        actual["id"] = expected["id"].clone();
        self.compares(&expected, &actual);
    }

    fn bridge(&self) -> &Bridge {
        self.bridge.as_ref().unwrap_or_else(|| panic!("{}: no bridge runs", self.at))
    }

    fn client(&mut self) -> &mut Client {
        self.client.as_mut().unwrap_or_else(|| panic!("{}: no client is there", self.at))
    }

    fn json(&self, text: &str) -> Value {
        serde_json::from_str(text).unwrap_or_else(|e| panic!("{}: {e}", self.at))
    }

    /// What our side says for a line: a word that the bridge gave a meaning has it, and of the
    /// others the sender chooses one.
    fn spoken(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) if is_word(text) => {
                let client_id = &self.client_id;
                let chosen = self.words.entry(text.clone()).or_insert_with(|| match &**text {
                    "$token" => token(client_id, "client"),
                    word => format!("chosen for {word}"),
                });
                Value::String(chosen.clone())
            }
            Value::Array(items) => items.iter().map(|item| self.spoken(item)).collect(),
            Value::Object(members) => {
                let spoken =
                    members.iter().map(|(name, member)| (name.clone(), self.spoken(member)));
                Value::Object(spoken.collect())
            }
            plain => plain.clone(),
        }
    }

    /// Every member of `expected` is in `actual`; lists are as long; a word means one thing.
    fn compares(&mut self, expected: &Value, actual: &Value) {
        match (expected, actual) {
            (Value::String(word), Value::String(text)) if is_word(word) => {
                let meaning = self.words.entry(word.clone()).or_insert_with(|| text.clone());
                assert_eq!(meaning, text, "{}: {word} has two meanings", self.at);
            }
            (Value::Object(members), Value::Object(there)) => {
                for (name, member) in members {
                    let other = there.get(name);
                    let other =
                        other.unwrap_or_else(|| panic!("{}: no {name} in {actual}", self.at));
                    self.compares(member, other);
                }
            }
            (Value::Array(items), Value::Array(there)) => {
                assert_eq!(items.len(), there.len(), "{}: {expected}, got {actual}", self.at);
                for (item, other) in items.iter().zip(there) {
                    self.compares(item, other);
                }
            }
            _ => assert_eq!(expected, actual, "{}", self.at),
        }
    }
}

fn is_word(text: &str) -> bool {
    text.strip_prefix('$').is_some_and(|word| {
        !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}
