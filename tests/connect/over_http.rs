//! `connect --http` and a server that does what few do.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::connected::Connected;
use crate::support::{Agent, Bridge, SOON, eventually};

/// A server that runs by itself, and what it said on stdout.
struct Server {
    child: Child,
    said: Arc<Mutex<String>>,
    port: u16,
}

impl Server {
    /// At a port below those that the system gives to connections.
    fn port(offset: u32) -> u16 {
        let first = 10_000 + std::process::id() % 9_000 + offset * 50;
        let is_free = |port: &u16| std::net::TcpListener::bind(("0.0.0.0", *port)).is_ok();
        let first = u16::try_from(first).expect("below 65536");
        (first..first + 50).find(is_free).expect("a free port")
    }

    fn start(port: u16) -> Server {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/connect/http_server.py");
        let mut child = Command::new("python3")
            .arg(script)
            .arg(port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("python3 starts");
        let said = Arc::new(Mutex::new(String::new()));
        let stdout = child.stdout.take().expect("piped above");
        let writer = said.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                writer.lock().expect("no panic while held").push_str(&line);
            }
        });
        Server { child, said, port }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    fn await_said(&self, words: &str) {
        eventually(words, SOON, || {
            self.said.lock().expect("no panic while held").contains(words).then_some(())
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn answers_in_pieces_cut_or_broken_cost_one_call_each() {
    let bridge = Bridge::shared();
    let server = Server::start(Server::port(0));
    // It may be there before the server is.
    let mut connected = Connected::start(bridge, &["--http", &server.url()], &[]);
    connected.await_log(" online");
    let agent = Agent::new(bridge, &connected.client_id);
    assert_eq!(agent.call("echo", json!({"text": "hé"})).text(), "hé");
    assert_eq!(agent.call("chunked", json!({})).text(), "in pieces");
    let words = agent.call("cut", json!({})).tool_error();
    assert!(words.contains("cut short"), "{words}");
    let words = agent.call("broken", json!({})).tool_error();
    assert!(words.contains("HTTP status 500"), "{words}");
    let long = agent.request("tools/call", json!({"name": "long", "arguments": {}}));
    let long = long.sent_to(bridge);
    std::thread::sleep(Duration::from_millis(500));
    drop(long);
    server.await_said("hung up");
    assert_eq!(agent.call("echo", json!({"text": "still"})).text(), "still");
    connected.signal(rustix::process::Signal::TERM);
    assert_eq!(connected.wait_exit(SOON).code(), Some(0));
    server.await_said("deleted");
}

#[test]
fn a_forgotten_session_and_a_restarted_server_are_begun_anew() {
    let bridge = Bridge::shared();
    let port = Server::port(1);
    let server = Server::start(port);
    let connected = Connected::start(bridge, &["--http", &server.url()], &[]);
    connected.await_log(" online");
    let agent = Agent::new(bridge, &connected.client_id);
    assert_eq!(agent.call("forget", json!({})).text(), "forgotten");
    let words = agent.call("echo", json!({"text": "lost"})).tool_error();
    assert!(words.contains("forgotten the session"), "{words}");
    assert_eq!(agent.call("echo", json!({"text": "anew"})).text(), "anew");
    drop(server);
    let words = agent.call("echo", json!({"text": "x"})).tool_error();
    assert!(words.contains("did not answer"), "{words}");
    let _server = Server::start(port);
    eventually("a call through", SOON * 2, || {
        let answer = agent.call("echo", json!({"text": "again"}));
        (answer.result()["isError"] != json!(true)).then_some(())
    });
    assert_eq!(connected.log().matches(" online").count(), 1, "the bridge noticed nothing");
}

#[test]
fn two_questions_at_a_time_reach_the_agents_they_are_for() {
    let bridge = Bridge::shared();
    let server = Server::start(Server::port(2));
    let connected = Connected::start(bridge, &["--http", &server.url()], &[]);
    connected.await_log(" online");
    let agent = Agent::new(bridge, &connected.client_id).declaring(json!({"elicitation": {}}));
    let mut params = ["Ada", "Bob"].map(|who| json!({"name": "ask", "arguments": {"who": who}}));
    let rounds: Vec<Value> =
        params.iter().map(|params| agent.ask("tools/call", params.clone()).result()).collect();
    // Both are suspended now; they are answered the other way round.
    for index in [1, 0] {
        let questions = rounds[index]["inputRequests"].as_object().expect("questions");
        let (key, question) = questions.iter().next().expect("one");
        let who = params[index]["arguments"]["who"].clone();
        assert_eq!(question["params"]["message"], who);
        let mut responses = json!({});
        responses[key] = json!({"action": "accept", "content": {"me": who}});
        params[index]["inputResponses"] = responses;
        params[index]["requestState"] = rounds[index]["requestState"].clone();
        let answer = agent.ask("tools/call", params[index].clone());
        let seen: Value = serde_json::from_str(&answer.text()).expect("JSON");
        assert_eq!(seen, json!([who, {"action": "accept", "content": {"me": who}}]));
    }
}
