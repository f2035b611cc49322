//! The bridge behind nginx and Caddy, with the very files of `deploy/`: WebSockets pass, event
//! streams are not held back, a hang-up arrives, and what the bridge refuses is its own refusal.
//!
//! Changes of those files only what a test machine has not: the address, the certificate, the port
//! of the bridge; and nginx's patience, which is made short. Needs Debian's nginx and caddy, or
//! others that `NGINX` and `CADDY` name. From here go to `support`.

mod support;

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use support::{
    Agent, Bridge, Client, Era, Event, MESSAGE_BYTES_MAX, Request, SOON, Token, Watchdog,
    eventually, tool, unique,
};

/// The prefix in the files of `deploy/`.
const BASE: &str = "/bridge";

/// How long one thing may take to cross a proxy on a busy machine, when nothing holds it back.
const AT_ONCE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Nginx,
    Caddy,
}

const BOTH: [Kind; 2] = [Kind::Nginx, Kind::Caddy];

/// A proxy that runs, and the bridge behind it. Dropping it ends both.
struct Proxy {
    child: Child,
    folder: PathBuf,
    /// The bridge as the outside sees it.
    outside: Bridge,
    _bridge: Bridge,
    _watchdog: Watchdog,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        self.child.kill().ok();
        self.child.wait().ok();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

impl Proxy {
    /// Starts a bridge with these flags besides those that the files ask for, and the proxy.
    fn start(kind: Kind, flags: &[&str]) -> Proxy {
        let usual = ["--base-path", BASE, "--trusted-proxy", "127.0.0.1"];
        let bridge = Bridge::start(&[&usual, flags].concat());
        let folder = std::env::temp_dir().join(unique("clientmcp-proxy"));
        std::fs::create_dir(&folder).expect("a folder for the proxy");
        // Between finding a free port and taking it somebody else may take it.
        for attempt in 1.. {
            let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let address = free.local_addr().expect("a bound address");
            drop(free);
            let mut child = command(kind, &folder, address, bridge.addr)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(std::fs::File::create(folder.join("stderr")).expect("in a new folder"))
                .spawn()
                .unwrap_or_else(|why| panic!("{kind:?} does not start: {why}; run make test"));
            let watchdog = Watchdog::over(child.id());
            let outside = Bridge::at(&format!("http://{address}{BASE}"));
            let deadline = Instant::now() + SOON;
            loop {
                if std::net::TcpStream::connect(address).is_ok() {
                    return Proxy { child, folder, outside, _bridge: bridge, _watchdog: watchdog };
                }
                let ended = child.try_wait().expect("waiting for a child works");
                if let Some(status) = ended {
                    let said = std::fs::read_to_string(folder.join("stderr")).unwrap_or_default();
                    assert!(attempt < 5, "{kind:?} ends with {status}, five times: {said}");
                    break;
                }
                assert!(Instant::now() < deadline, "{kind:?} does not listen on {address}");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        unreachable!("the attempts end in a proxy or a panic")
    }
}

/// Puts the test's own in place of what stands in a file of `deploy/`; each must be there.
fn with(text: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(text.to_owned(), |text, (old, new)| {
        assert_eq!(text.matches(old).count(), 1, "{old:?} in\n{text}");
        text.replace(old, new)
    })
}

fn deployed(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// The file without its comments, which name some of what is changed.
fn bare(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.map(|line| format!("{line}\n")).collect()
}

fn command(kind: Kind, folder: &Path, listen: SocketAddr, bridge: SocketAddr) -> Command {
    let bridge = bridge.to_string();
    let shown = folder.display();
    match kind {
        Kind::Nginx => {
            let server = with(
                &bare(&deployed("nginx.conf")),
                &[
                    ("listen 443 ssl;", &format!("listen {listen};")),
                    ("ssl_certificate /etc/ssl/bridge.example.pem;", ""),
                    ("ssl_certificate_key /etc/ssl/bridge.example.key;", ""),
                    ("127.0.0.1:8787", &bridge),
                    // Short, so that a stream without comments would end within this test.
                    ("proxy_read_timeout 330s;", "proxy_read_timeout 20s;"),
                ],
            );
            let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
                .iter()
                .map(|what| format!("{what}_temp_path {shown}/{what};\n"))
                .collect();
            let text = format!(
                "daemon off;\nmaster_process off;\npid {shown}/pid;\nerror_log {shown}/error;\n\
                 events {{}}\nhttp {{\naccess_log {shown}/access;\n{temporary}{server}}}\n"
            );
            let file = folder.join("nginx.conf");
            std::fs::write(&file, text).expect("the folder was made above");
            let mut command = Command::new(named("NGINX", "/usr/sbin/nginx"));
            command.arg("-p").arg(folder).arg("-c").arg(file).arg("-e").arg(folder.join("error"));
            command
        }
        Kind::Caddy => {
            // By port alone, because the agents of these tests name another host.
            let port = listen.port();
            let site = format!("http://:{port} {{\n\tbind {}", listen.ip());
            let sites = with(
                &bare(&deployed("Caddyfile")),
                &[("bridge.example {", &site), ("127.0.0.1:8787", &bridge)],
            );
            let file = folder.join("Caddyfile");
            let text = format!("{{\n\tadmin off\n\tauto_https off\n}}\n{sites}");
            std::fs::write(&file, text).expect("the folder was made above");
            let mut command = Command::new(named("CADDY", "/usr/bin/caddy"));
            command.args(["run", "--adapter", "caddyfile", "--config"]).arg(file);
            command.env("HOME", folder).env("XDG_CONFIG_HOME", folder).env("XDG_DATA_HOME", folder);
            command
        }
    }
}

fn named(variable: &str, usual: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| usual.to_owned())
}

#[test]
fn calls_of_both_eras_cross_a_proxy() {
    for kind in BOTH {
        let proxy = Proxy::start(kind, &[]);
        let id = unique("crossing");
        let mut client = Client::connect(&proxy.outside, &id);
        client.offers(&["add"]);
        for era in [Era::Modern, Era::Legacy] {
            let agent = Agent::new(&proxy.outside, &id).speaking(era);
            let http = agent
                .request("tools/call", json!({"name": "add", "arguments": {"ä": 1}}))
                .sent_to(&proxy.outside);
            let call = client.next_call();
            assert_eq!(call.arguments(), &json!({"ä": 1}), "{kind:?}");
            client.replies_text(&call, "five");
            assert_eq!(agent.read_answer(http).text(), "five", "{kind:?}");
        }
        let outside = Request::get("/mcp").to(&proxy.outside);
        assert_eq!(outside.status, 404, "{kind:?} passes what is under the prefix, and no more");
    }
}

#[test]
fn a_slow_call_is_heard_through_a_proxy_while_it_runs() {
    for kind in BOTH {
        let proxy = Proxy::start(kind, &[]);
        let id = unique("slow");
        let mut client = Client::connect(&proxy.outside, &id);
        client.offers(&["add"]);
        let agent = Agent::new(&proxy.outside, &id);
        let request = agent.request("tools/call", json!({"name": "add", "arguments": {}}));
        let mut http = request.sent_to(&proxy.outside);
        let call = client.next_call();
        let head = http.read_head();
        assert!(head.is_event_stream(), "{kind:?}: {head:?}");
        let mut events = http.events(&head);
        for second in 0..3 {
            let event = events.next(AT_ONCE);
            assert_eq!(event, Event::Comment(String::new()), "{kind:?}, second {second}");
        }
        client.replies_text(&call, "five");
        let answer = events.next_message(AT_ONCE);
        assert_eq!(answer["result"]["content"][0]["text"], "five", "{kind:?}");
        assert_eq!(events.next(AT_ONCE), Event::End, "{kind:?}");
    }
}

#[test]
fn a_hang_up_crosses_a_proxy() {
    for kind in BOTH {
        let proxy = Proxy::start(kind, &[]);
        let id = unique("hang-up");
        let mut client = Client::connect(&proxy.outside, &id);
        client.offers(&["add"]);
        let agent = Agent::new(&proxy.outside, &id);
        let request = agent.request("tools/call", json!({"name": "add", "arguments": {}}));
        // Before the stream has begun, and after.
        for streamed in [false, true] {
            let mut http = request.sent_to(&proxy.outside);
            let call = client.next_call();
            if streamed {
                assert!(http.read_head().is_event_stream(), "{kind:?}");
            }
            drop(http);
            client.expects_cancel(&call, AT_ONCE * 2);
        }
    }
}

#[test]
fn a_quiet_stream_outlives_the_patience_of_a_proxy_and_hears_of_changes_at_once() {
    let proxies = BOTH.map(|kind| {
        std::thread::spawn(move || {
            let proxy = Proxy::start(kind, &[]);
            let id = unique("quiet");
            let mut client = Client::connect(&proxy.outside, &id);
            client.offers(&["add"]);
            let agent = Agent::new(&proxy.outside, &id);
            let mut stream = agent.opens_stream();
            assert_eq!(stream.next(AT_ONCE), Event::Retry(5000), "{kind:?}: its first bytes");
            // Longer than the 20 s of the nginx of these tests.
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(32) {
                let event = stream.next(Duration::from_secs(18));
                assert_eq!(event, Event::Comment(String::new()), "{kind:?}: {:?}", start.elapsed());
                client.send_text(r#"{"type":"ping"}"#);
                assert_eq!(client.next_text(AT_ONCE), r#"{"type":"pong"}"#, "{kind:?}");
            }
            client.registers(json!({"tools": [tool("add"), tool("sub")]}));
            let notice = stream.next_message(AT_ONCE);
            assert_eq!(notice["method"], "notifications/tools/list_changed", "{kind:?}");
        })
    });
    for thread in proxies {
        thread.join().expect("no panic behind this proxy");
    }
}

#[test]
fn the_longest_token_crosses_a_proxy_in_either_header() {
    for kind in BOTH {
        let proxy = Proxy::start(kind, &[]);
        let id = unique("long");
        let token = Token::of(&id, "agent client").mint_of_length(4096);
        let mut client = Client::connect_with_token(&proxy.outside, &id, &token);
        client.offers(&["add"]);
        let agent = Agent::with_token(&proxy.outside, &id, &token);
        assert_eq!(agent.lists_tools(), ["add"], "{kind:?}");
    }
}

#[test]
fn refusals_are_the_bridges_own() {
    for kind in BOTH {
        let proxy = Proxy::start(kind, &[]);
        let agent = Agent::new(&proxy.outside, &unique("refused"));
        let large = "x".repeat(MESSAGE_BYTES_MAX);
        let answer = agent.post(&json!({"jsonrpc": "2.0", "x": large})).to(&proxy.outside);
        assert_eq!(answer.status, 413, "{kind:?}: {answer:?}");
        assert_eq!(answer.json()["error"]["code"], -32600, "{kind:?}: {answer:?}");
        let answer = Request::post(&proxy.outside.target("/mcp")).to(&proxy.outside);
        assert_eq!(answer.status, 401, "{kind:?}: {answer:?}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{kind:?}: {answer:?}");
    }
}

#[test]
fn addresses_are_counted_by_what_the_proxy_says() {
    for kind in BOTH {
        let proxy = Proxy::start(kind, &["--max-connections-per-ip", "1"]);
        let id = unique("counted");
        let mut client = Client::connect(&proxy.outside, &id);
        client.offers(&["add"]);
        // All of them come from 127.0.0.1, and a peer cannot choose another address for itself.
        let spoofed = Request::get(&proxy.outside.target("/health"));
        let spoofed = spoofed.with("X-Forwarded-For", "203.0.113.9");
        eventually("a refusal", SOON, || (spoofed.to(&proxy.outside).status == 429).then_some(()));
        client.leaves();
        eventually("room again", SOON, || (spoofed.to(&proxy.outside).status == 200).then_some(()));
    }
}
