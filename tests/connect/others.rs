//! Servers that others wrote, exercised whole by agents that others wrote, directly and through the
//! bridge: every list and every outcome is the same, or differs in a way that is named here.
//!
//! `tests/agents/compare.mjs` goes through everything a server lists. What differs from one run to the
//! next by itself (times, random IDs) is evened out by `steady`; `DIFFERENCES` has the rest.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::connected::Connected;
use crate::support::{Bridge, token, unique};
use crate::tools;

const TIMEOUT: Duration = Duration::from_secs(100);

/// What an agent sees differently through the bridge, and why. `*` stands for anything in a path.
const DIFFERENCES: [(&str, &str, Applies); 8] = [
    (
        "/outcomes/unknown tool*",
        "the bridge knows the list and answers by itself, as MCP wants it: -32602; the first TypeScript \
         SDK's servers make a tool error of it",
        Applies::Always,
    ),
    (
        "/outcomes/*/_meta",
        "in 2026 every result names the server; the server is of 2025 and the bridge adds it",
        Applies::Modern,
    ),
    ("/outcomes/*/ttlMs", "in 2026 a resource says how long it keeps: not at all", Applies::Modern),
    ("/outcomes/*/cacheScope", "in 2026 a resource says who may keep it", Applies::Modern),
    (
        "/lists/tools/*/execution",
        "the second TypeScript SDK leaves out what 2026 has no more: tasks",
        Applies::Modern,
    ),
    (
        "/outcomes/tool */asked/*/elicitationId",
        "the second TypeScript SDK leaves out what 2026 has no more: IDs of elicitations by URL",
        Applies::Modern,
    ),
    (
        "/outcomes/tool get-roots-list*/progress",
        "the second TypeScript SDK reports each round it fulfils as progress",
        Applies::Modern,
    ),
    (
        "/outcomes/tool trigger-*/progress",
        "the same, and direct agents miss the last progress of a call when it comes with the result",
        Applies::Always,
    ),
];

#[derive(Clone, Copy, PartialEq)]
enum Applies {
    Always,
    Modern,
}

#[test]
fn everything_is_the_same_for_the_first_typescript_sdk() {
    compare("everything", "v1", "default");
}

#[test]
fn everything_is_the_same_for_the_second_typescript_sdk() {
    compare("everything", "v2", "default");
}

#[test]
fn everything_is_the_same_for_the_second_typescript_sdk_in_2026() {
    compare("everything", "v2", "pin");
}

#[test]
fn the_filesystem_is_the_same_for_the_first_typescript_sdk() {
    compare("filesystem", "v1", "default");
}

#[test]
fn the_filesystem_is_the_same_for_the_second_typescript_sdk() {
    compare("filesystem", "v2", "default");
}

#[test]
fn the_filesystem_is_the_same_for_the_second_typescript_sdk_in_2026() {
    compare("filesystem", "v2", "pin");
}

#[test]
fn the_memory_is_the_same_for_the_first_typescript_sdk() {
    compare("memory", "v1", "default");
}

#[test]
fn the_memory_is_the_same_for_the_second_typescript_sdk() {
    compare("memory", "v2", "default");
}

#[test]
fn the_memory_is_the_same_for_the_second_typescript_sdk_in_2026() {
    compare("memory", "v2", "pin");
}

#[test]
fn everything_over_http_is_the_same_for_the_first_typescript_sdk() {
    // Below the ports that the system gives to connections: one of those may be taken by then.
    let first = 20_000 + std::process::id() % 10_000;
    let is_free = |port: &u32| {
        std::net::TcpListener::bind(("0.0.0.0", u16::try_from(*port).expect("below 65536"))).is_ok()
    };
    let port = (first..first + 100).find(is_free).expect("a free port");
    let [node, script] = program("everything");
    let mut server = Command::new(node)
        .args([&script, "streamableHttp"])
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("node starts");
    let stderr = server.stderr.take().expect("piped above");
    let _server = Ended(server);
    // It says so; dialling a free port again and again may reach oneself.
    let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("listening")), "the server did not start");
    std::thread::spawn(move || lines.for_each(drop));
    let url = format!("http://127.0.0.1:{port}/mcp");
    let place = Place::new();
    let direct = place.run("v1", "default", "everything", &["http", &url], "none");
    let bridge = Bridge::shared();
    let connected = Connected::start(bridge, &["--http", &url], &[]);
    connected.await_log(" online");
    let bridged = place.through(bridge, &connected, "v1", "default", "everything");
    judge(&direct, &bridged, false);
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A folder that is empty at the start of each run, at the same path.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        Place(std::env::temp_dir().join(unique("compare")))
    }

    fn text(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }

    fn empty(&self) {
        std::fs::remove_dir_all(&self.0).ok();
        std::fs::create_dir_all(&self.0).expect("the temporary folder can be written to");
    }

    fn run(&self, sdk: &str, mode: &str, server: &str, way: &[&str], token: &str) -> Value {
        self.empty();
        let dir = self.text();
        let arguments = [&[sdk, mode, server, &dir], way].concat();
        tools::run("compare.mjs", &arguments, token, TIMEOUT)
    }

    fn through(
        &self,
        bridge: &Bridge,
        connected: &Connected,
        sdk: &str,
        mode: &str,
        server: &str,
    ) -> Value {
        let token = token(&connected.client_id, "agent");
        self.run(sdk, mode, server, &["http", &bridge.url("/mcp")], &token)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// Node, and the program of one of the servers.
fn program(server: &str) -> [String; 2] {
    let tools = tools::installed();
    let script = format!("node_modules/@modelcontextprotocol/server-{server}/dist/index.js");
    [tools.join("node"), tools.join(script)].map(|path| path.to_string_lossy().into_owned())
}

fn compare(server: &str, sdk: &str, mode: &str) {
    let place = Place::new();
    let mut command = program(server).to_vec();
    match server {
        "everything" => command.push("stdio".to_owned()),
        "filesystem" => command.push(place.text()),
        _ => {}
    }
    let way: Vec<&str> = ["stdio"].into_iter().chain(command.iter().map(String::as_str)).collect();
    // These servers are of 2025, so directly that is how every agent speaks with them.
    let direct = place.run(sdk, "default", server, &way, "none");
    place.empty();
    let file = format!("MEMORY_FILE_PATH={}", place.0.join("memory.jsonl").display());
    if server == "memory" {
        command.splice(0..0, ["env".to_owned(), file]);
    }
    let bridge = Bridge::shared();
    let connected = Connected::online(bridge, &command);
    let bridged = place.through(bridge, &connected, sdk, mode, server);
    assert!(!connected.log().contains("started again"), "{}", connected.log());
    judge(&direct, &bridged, mode == "pin");
}

/// Every difference has a name; and so many things were tried that something is compared at all.
fn judge(direct: &Value, bridged: &Value, is_modern: bool) {
    let tried = direct["outcomes"].as_object().map_or(0, serde_json::Map::len);
    assert!(tried > 12, "only {tried} outcomes: {direct}");
    let mut differences = Vec::new();
    differ("", direct, bridged, &mut differences);
    let named = |path: &str| {
        DIFFERENCES.iter().position(|(pattern, _, applies)| {
            (*applies == Applies::Always || is_modern) && fits(pattern, path)
        })
    };
    let unnamed: Vec<_> = differences.iter().filter(|(path, ..)| named(path).is_none()).collect();
    assert!(
        unnamed.is_empty(),
        "differences without a name, directly and through the bridge: {unnamed:#?}"
    );
    // What is only left out must not hide what has changed.
    for (path, direct, bridged) in &differences {
        if path.ends_with("/progress") {
            let (direct, bridged) = (direct.as_array(), bridged.as_array());
            let (direct, bridged) = direct.zip(bridged).expect("lists of progress");
            assert!(bridged.starts_with(direct), "{path}: {direct:?} {bridged:?}");
        }
    }
    // The server that has everything shows every difference, so that none stays here that is gone.
    if is_modern && tried > 40 {
        for (index, (pattern, reason, _)) in DIFFERENCES.iter().enumerate() {
            let seen = differences.iter().any(|(path, ..)| named(path) == Some(index));
            assert!(seen, "{pattern} does not differ any more; it did, because {reason}");
        }
    }
}

/// Collects where two values differ, as paths of the outermost member that does.
fn differ(path: &str, left: &Value, right: &Value, into: &mut Vec<(String, Value, Value)>) {
    match (left, right) {
        (Value::Object(a), Value::Object(b)) => {
            let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
            for name in names {
                let member = |object: &serde_json::Map<_, _>| object.get(name).cloned();
                let (a, b) = (member(a).unwrap_or_default(), member(b).unwrap_or_default());
                differ(&format!("{path}/{name}"), &a, &b, into);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differ(&format!("{path}/{index}"), a, b, into);
            }
        }
        _ if steady(path, left) == steady(path, right) => {}
        _ => into.push((path.to_owned(), left.clone(), right.clone())),
    }
}

/// A value without what is different in every run, however it is made.
fn steady(path: &str, value: &Value) -> Value {
    let Some(text) = value.as_str() else { return value.clone() };
    if path.contains("/tool get_file_info ") {
        let times = ["created:", "modified:", "accessed:"];
        let kept = text.lines().filter(|line| !times.iter().any(|time| line.starts_with(time)));
        return json!(kept.collect::<Vec<_>>());
    }
    if path.contains("/tool get-env ") && text.starts_with('{') {
        // As members, whose order is the starter's; ours are kept from a server on purpose.
        let mut variables: Value = serde_json::from_str(text).expect("the environment as JSON");
        let members = variables.as_object_mut().expect("variables");
        members.retain(|name, _| !name.starts_with("CLIENTMCP_"));
        return variables;
    }
    if ["/tool trigger-url-elicitation 1/", "/tool toggle-"].iter().any(|part| path.contains(part))
    {
        return json!(text.split(' ').filter(|word| !is_uuid(word)).collect::<Vec<_>>());
    }
    if path.ends_with("/blob") && path.contains("dynamic/blob") {
        let bytes = data_encoding::BASE64.decode(text.as_bytes()).expect("Base64");
        let text = String::from_utf8(bytes).expect("text");
        return json!(text.split(" created at ").next());
    }
    match text.split_once(" created at ") {
        Some((before, time)) if time.ends_with('M') => json!(before),
        _ => value.clone(),
    }
}

fn is_uuid(word: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    word.len() == 36 && word.matches('-').count() == 4 && word.bytes().all(is_part)
}

/// `*` stands for anything.
fn fits(pattern: &str, path: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = path.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    for part in parts {
        match rest.rfind(part).or_else(|| rest.find(part)) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty() || pattern.ends_with('*')
}

#[test]
fn the_judge_sees_what_differs() {
    let found = |left: Value, right: Value| {
        let mut found = Vec::new();
        differ("", &left, &right, &mut found);
        found.into_iter().map(|(path, ..)| path).collect::<Vec<_>>()
    };
    assert_eq!(found(json!({"a": [1, {"b": 2}]}), json!({"a": [1, {"b": 3}]})), ["/a/1/b"]);
    assert_eq!(found(json!({"a": 1}), json!({"b": 1})), ["/a", "/b"]);
    assert_eq!(found(json!([1]), json!([1, 2])), [""]);
    for (pattern, path, expected) in [
        ("/outcomes/*/_meta", "/outcomes/tool echo 0/result/_meta", true),
        ("/outcomes/*/_meta", "/outcomes/tool echo 0/result/_meta/x", false),
        ("/outcomes/unknown tool*", "/outcomes/unknown tool/error", true),
        ("/lists/tools/*/execution", "/lists/prompts/0/execution", false),
    ] {
        assert_eq!(fits(pattern, path), expected, "{pattern} {path}");
    }
    assert!(Path::new(&program("memory")[1]).exists(), "the servers are installed");
}
