//! The recorded requests, as the bytes that the agents sent.
//!
//! Knows the format of `tests/data/captures/*.json` and what was lost in recording (see the README
//! there); knows nothing of answers. Header order and spelling, member order and escapes are kept:
//! bodies are cut out of the file's text, never parsed and printed again. Where to go next:
//! `replay`, which sends them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// What the cut bodies carried: 1.5 MiB of `x`.
pub const BIG: usize = 3 << 19;

/// One agent's run against a server that spoke both eras.
pub struct Recording {
    /// The file's name without `.json`.
    pub name: String,
    pub requests: Vec<Request>,
}

pub struct Request {
    pub seq: u64,
    /// When it was sent, in ms since the start of the recording.
    pub sent_ms: u64,
    /// Which TCP connection of the agent's carried it.
    pub connection: u64,
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    /// The body's bytes, restored; empty where there was none.
    pub body: String,
    /// The same, parsed; `null` where there was none.
    pub message: Value,
    /// When the agent closed the connection before the answer had ended, in ms since the start.
    pub hung_up_ms: Option<u64>,
    /// Whether the recorded answer brought a `list_changed`.
    pub saw_list_changed: bool,
    /// The session ID that the recorded answer gave.
    pub given_session: Option<String>,
}

impl Request {
    /// What the table calls it: `GET`, `tools/list`, `tools/call echo`, `tools/call echo 1.5 MiB`.
    pub fn what(&self) -> String {
        let Some(method) = self.message["method"].as_str() else { return self.method.clone() };
        let tool = self.message["params"]["name"].as_str();
        let tool = tool.filter(|_| method == "tools/call").map(|t| format!(" {t}"));
        let big = if self.body.len() > BIG { " 1.5 MiB" } else { "" };
        format!("{method}{}{big}", tool.unwrap_or_default())
    }

    /// The value of a header that is there at most once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// All recordings, by name.
pub fn all() -> Vec<Recording> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/captures");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("the recordings are in the tree") {
        let path = entry.expect("a folder can be read to its end").path();
        if path.extension().is_some_and(|e| e == "json") {
            let name =
                path.file_stem().expect("it has an extension").to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).expect("a recording can be read");
            found.push(read(name, &text));
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(!found.is_empty(), "no recording in {}", folder.display());
    found
}

fn read(name: String, text: &str) -> Recording {
    let file: File = serde_json::from_str(text).unwrap_or_else(|e| panic!("{name}.json: {e}"));
    let dual = file.profiles.get("dual").unwrap_or_else(|| panic!("{name}.json: no dual profile"));
    let mut requests: Vec<Request> = Vec::new();
    for wire in &dual.requests {
        let body = wire.body.map(|raw| without_white_space(raw.get())).unwrap_or_default();
        let mut request = Request {
            seq: wire.seq,
            sent_ms: wire.t,
            connection: wire.conn,
            method: wire.method.clone(),
            path: wire.path.clone(),
            headers: wire.headers.0.clone(),
            body,
            message: Value::Null,
            hung_up_ms: wire.resp.client_aborted.then_some(wire.t + wire.resp.ms),
            saw_list_changed: wire.resp.body.iter().any(|b| b.contains("/list_changed")),
            given_session: wire.resp.session.clone(),
        };
        if request.body.contains("\"_truncated_bytes\"") {
            request.body = uncut(&request.body, &requests);
        }
        if let Some(length) = request.header("content-length") {
            let length: usize = length.parse().expect("a recorded length is a number");
            if request.body.len() + 2 == length {
                request.body = request.body.replace("\"seconds\":3}", "\"seconds\":3.0}");
            }
            assert_eq!(request.body.len(), length, "{name} {}: restored as sent", request.seq);
            request.message = serde_json::from_str(&request.body).expect("agents send JSON");
        }
        requests.push(request);
    }
    Recording { name, requests }
}

/// The whole text of a cut `echo`: the agent's earlier small one with this ID and a long argument.
fn uncut(cut: &str, earlier: &[Request]) -> String {
    let cut: Value = serde_json::from_str(cut).expect("what is left of a cut body is JSON");
    assert_eq!(cut["params"]["name"], "echo", "only echo was ever cut");
    let small = earlier.iter().find(|r| r.what() == "tools/call echo").expect("echo came before");
    let id = cut["id"].as_u64().expect("recorded calls have small IDs");
    let mut text = small.body.replace("hé✓", &"x".repeat(BIG));
    text = text.replace(&format!("\"id\":{}", small.message["id"]), &format!("\"id\":{id}"));
    let token = &small.message["params"]["_meta"]["progressToken"];
    if let Some(token) = token.as_u64() {
        // rmcp counts its progress tokens one behind its request IDs.
        let (old, new) = (json!(token), json!(id - 1));
        text = text.replace(&format!("Token\":{old}"), &format!("Token\":{new}"));
    }
    text
}

/// JSON text less the white space between its tokens: how agents print it.
fn without_white_space(json: &str) -> String {
    let mut kept = String::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    for c in json.chars() {
        if in_string || !c.is_ascii_whitespace() {
            kept.push(c);
        }
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            _ => {}
        }
    }
    kept
}

#[derive(Deserialize)]
struct File<'a> {
    #[serde(borrow)]
    profiles: BTreeMap<String, Profile<'a>>,
}

#[derive(Deserialize)]
struct Profile<'a> {
    #[serde(borrow)]
    requests: Vec<Wire<'a>>,
}

#[derive(Deserialize)]
struct Wire<'a> {
    seq: u64,
    t: u64,
    conn: u64,
    method: String,
    path: String,
    headers: Ordered,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
    resp: Answered,
}

#[derive(Deserialize)]
struct Answered {
    #[serde(default)]
    body: Vec<String>,
    session: Option<String>,
    ms: u64,
    client_aborted: bool,
}

/// An object of strings in the order of the file.
struct Ordered(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ordered, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Ordered;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object of header fields")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Ordered(fields))
            }
        }
        deserializer.deserialize_map(Members)
    }
}
