//! `clientmcp::client` as an application uses it, against a running bridge.
//!
//! The one test binary that links the library as a client; bridge and agents are still from outside.
//! Each application runs on a thread of its own, on whatever executor drives it.

mod support;

#[path = "../examples/offer.rs"]
mod offer;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use clientmcp::client::{Client, Failure, Handle, Offer, Refused, Status, Token, text, tool_error};
use serde_json::{Value, json};
use support::{Agent, Bridge, Era, SOON, Token as Minted, eventually, token, unique};

const SLOW: &str = r#"{"name":"slow","inputSchema":{"type":"object"}}"#;

/// A client that runs on a thread, and everything it said about itself.
struct Running {
    handle: Handle,
    statuses: Arc<Mutex<Vec<Status>>>,
    thread: Option<JoinHandle<Result<(), Refused>>>,
}

impl Running {
    fn start(client: Client) -> Running {
        let statuses = Arc::new(Mutex::new(Vec::new()));
        let seen = statuses.clone();
        let client = client.on_status(move |status| {
            seen.lock().expect("no panic while held").push(status.clone());
        });
        let handle = client.handle();
        let thread = Some(std::thread::spawn(move || smol::block_on(client.run())));
        Running { handle, statuses, thread }
    }

    fn of(bridge: &Bridge, client_id: &str, offer: Offer) -> Running {
        let token = Token::fixed(token(client_id, "client"));
        let client = Client::new(&ws(bridge), token).expect("a URL");
        let running = Running::start(client.offer(offer));
        running.await_online(1);
        running
    }

    fn count(&self, wanted: impl Fn(&Status) -> bool) -> usize {
        self.statuses.lock().expect("no panic while held").iter().filter(|s| wanted(s)).count()
    }

    fn onlines(&self) -> usize {
        self.count(|status| matches!(status, Status::Online { .. }))
    }

    fn await_online(&self, times: usize) {
        eventually(&format!("online {times} times: {:?}", self.statuses), SOON * 3, || {
            (self.onlines() >= times).then_some(())
        });
    }

    /// Waits for the end of `run`.
    fn ended(mut self) -> Result<(), Refused> {
        let thread = self.thread.take().expect("taken once");
        eventually("the client ends", SOON, || thread.is_finished().then_some(()));
        thread.join().expect("a client does not panic")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
    }
}

fn ws(bridge: &Bridge) -> String {
    format!("ws://{}", bridge.addr)
}

fn arguments(call: &clientmcp::client::Call) -> Value {
    serde_json::from_str(call.arguments()).expect("an agent sends JSON")
}

#[test]
fn the_example_is_an_application_that_works() {
    let bridge = Bridge::shared();
    let id = unique("kettle");
    let running = Running::of(bridge, &id, offer::offer());
    let agent = Agent::new(bridge, &id);
    assert_eq!(
        agent.calls("boil", json!({"cups": 2}))["content"][0]["text"],
        "2 cups are boiling."
    );
    assert!(agent.call("boil", json!({"cups": 9})).tool_error().contains("eight"));
    let read = agent.ask("resources/read", json!({"uri": "kettle://level"})).result();
    assert_eq!(read["contents"][0]["text"], "half full");
    let params = json!({"name": "boil", "arguments": {"cups": 3}, "_meta": {"progressToken": "p"}});
    let answer = agent.ask("tools/call", params);
    let progress: Vec<_> =
        answer.notifications().iter().map(|note| note["params"]["progress"].clone()).collect();
    assert_eq!(progress, [json!(1.0), json!(2.0), json!(3.0)], "{answer:?}");
    let (events, _) = agent.listens(json!({"resourceSubscriptions": ["kettle://level"]}));
    let mut events = events;
    running.handle.resource_updated("kettle://level");
    let note = events.next_message(SOON);
    assert_eq!(note["method"], "notifications/resources/updated");
    running.handle.stop();
    assert_eq!(running.ended(), Ok(()));
}

#[test]
fn every_kind_of_call_finds_its_handler() {
    let bridge = Bridge::shared();
    let id = unique("kinds");
    let read = |name: &'static str| {
        move |call: clientmcp::client::Call| async move {
            let uri = call.target().expect("a URI").into_owned();
            Ok(json!({"contents": [{"uri": uri, "text": name}]}).to_string())
        }
    };
    let offer = Offer::new()
        .prompt(r#"{"name":"p"}"#, |call| async move {
            let words = arguments(&call)["a"].clone();
            Ok(json!({"messages": [{"role": "user", "content": {"type": "text", "text": words}}]})
                .to_string())
        })
        .resource(r#"{"uri":"a:/1","name":"one"}"#, read("resource"))
        .resource_template(r#"{"uriTemplate":"a:/{n}","name":"any"}"#, read("short"))
        .resource_template(r#"{"uriTemplate":"a:/deep/{n}","name":"deep"}"#, read("long"))
        .completion(|_| async { Ok(r#"{"completion":{"values":["x"]}}"#.to_owned()) })
        .tool(SLOW, |_| async { Err(Failure::raw(r#"{"code":-32099,"message":"m","data":[1]}"#)) });
    let _running = Running::of(bridge, &id, offer);
    let agent = Agent::new(bridge, &id);
    for (uri, name) in [("a:/1", "resource"), ("a:/2", "short"), ("a:/deep/2", "long")] {
        let read = agent.ask("resources/read", json!({"uri": uri})).result();
        assert_eq!(read["contents"][0]["text"], name, "{uri}");
    }
    let got = agent.ask("prompts/get", json!({"name": "p", "arguments": {"a": "hé\n"}})).result();
    assert_eq!(got["messages"][0]["content"]["text"], "hé\n");
    let reference =
        json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}});
    let completed = agent.ask("completion/complete", reference).result();
    assert_eq!(completed["completion"]["values"], json!(["x"]));
    let error = agent.call("slow", json!({})).error();
    assert_eq!(error["code"], -32099);
    assert_eq!(error["data"], json!([1]));
}

#[test]
fn calls_run_side_by_side_and_a_cancelled_one_is_told() {
    let bridge = Bridge::shared();
    let id = unique("beside");
    let reasons = Arc::new(Mutex::new(Vec::new()));
    let seen = reasons.clone();
    let offer = Offer::new().tool(SLOW, move |call| {
        let seen = seen.clone();
        async move {
            let seconds = arguments(&call)["seconds"].as_f64().unwrap_or_default();
            let slept = async {
                async_io::Timer::after(Duration::from_secs_f64(seconds)).await;
                None
            };
            let given_up = async { Some(call.cancelled().await.to_owned()) };
            if let Some(reason) = smol::future::or(slept, given_up).await {
                seen.lock().expect("no panic while held").push(reason);
            }
            Ok(text("awake"))
        }
    });
    let _running = Running::of(bridge, &id, offer);
    let agent = Agent::new(bridge, &id);
    let long = agent.request("tools/call", json!({"name": "slow", "arguments": {"seconds": 60}}));
    let long = long.sent_to(bridge);
    assert_eq!(agent.call("slow", json!({"seconds": 0})).text(), "awake");
    drop(long);
    let reason = eventually("the cancel", SOON, || {
        reasons.lock().expect("no panic while held").first().cloned()
    });
    assert!(!reason.is_empty());
    assert_eq!(agent.call("slow", json!({"seconds": 0})).text(), "awake");
}

#[test]
fn a_handler_that_panics_or_answers_too_much_costs_one_call() {
    let bridge = Bridge::shared();
    let id = unique("panics");
    let offer = Offer::new().tool(SLOW, |call| async move {
        let arguments = arguments(&call);
        assert_ne!(arguments["do"], "panic", "asked to");
        let size = arguments["size"].as_u64().unwrap_or_default();
        Ok(text(&"x".repeat(usize::try_from(size).expect("fits"))))
    });
    let running = Running::of(bridge, &id, offer);
    let agent = Agent::new(bridge, &id);
    assert!(agent.call("slow", json!({"do": "panic"})).tool_error().contains("failed"));
    assert!(agent.call("slow", json!({"size": 5_000_000})).tool_error().contains("too large"));
    assert_eq!(agent.call("slow", json!({"size": 3_000_000})).text().len(), 3_000_000);
    assert_eq!(running.onlines(), 1, "{:?}", running.statuses);
}

#[test]
fn a_new_offer_replaces_the_old_one_and_what_is_refused_is_named() {
    let bridge = Bridge::shared();
    let id = unique("offers");
    let named = |name: &str| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#);
    let done = |_| async { Ok(text("done")) };
    let running = Running::of(bridge, &id, Offer::new().tool(&named("one"), done));
    let agent = Agent::new(bridge, &id);
    assert_eq!(agent.lists_tools(), ["one"]);
    let second = Offer::new().tool(&named("two"), done).tool(r#"{"name":"bad"}"#, done);
    running.handle.offer(second);
    running.await_online(2);
    assert_eq!(agent.lists_tools(), ["two"]);
    let refused = running.count(
        |status| matches!(status, Status::Online { refused } if refused.contains("tools[1]")),
    );
    assert_eq!(refused, 1, "{:?}", running.statuses);
}

#[test]
fn it_comes_back_to_a_bridge_that_was_started_again() {
    // Not where a connection of another test could take the port meanwhile.
    let listener = std::net::TcpListener::bind("127.0.9.7:0").expect("a free port");
    let listen = listener.local_addr().expect("bound").to_string();
    drop(listener);
    let start = || {
        let mut bridge = Bridge::start(&["--listen", &listen]);
        bridge.addr = listen.parse().expect("an address");
        bridge
    };
    let first = start();
    let id = unique("restart");
    let offer = Offer::new().tool(SLOW, |_| async { Ok(text("here")) });
    let running = Running::of(&first, &id, offer);
    drop(first); // killed, without a word
    eventually("offline", SOON, || {
        (running.count(|status| matches!(status, Status::Offline { .. })) > 1).then_some(())
    });
    let second = start();
    running.await_online(2);
    assert_eq!(Agent::new(&second, &id).call("slow", json!({})).text(), "here");
}

#[test]
fn a_final_refusal_ends_it_with_its_words() {
    let bridge = Bridge::shared();
    let cases = [
        ("not signed by us".to_owned(), 4401),
        (Minted::of("late", "client").expires_in(-3600).mint(), 4401),
        (token("agent-only", "agent"), 4403),
    ];
    for (token, code) in cases {
        let client = Client::new(&ws(bridge), Token::fixed(token)).expect("a URL");
        let refused = Running::start(client).ended().expect_err("refused");
        assert_eq!(refused.code, code, "{refused}");
        assert!(!refused.reason.is_empty(), "{refused}");
    }
    // A register that cannot be read.
    let id = unique("bad");
    let client = Client::new(&ws(bridge), Token::fixed(token(&id, "client"))).expect("a URL");
    let refused = Running::start(client.offer(Offer::new().server("7"))).ended().expect_err("bad");
    assert_eq!(refused.code, 4400, "{refused}");
    assert!(refused.reason.contains("server"), "the fault is told: {refused}");
}

#[test]
fn the_older_of_two_with_one_identity_stays_away() {
    let bridge = Bridge::shared();
    let id = unique("twice");
    let older = Running::of(bridge, &id, Offer::new());
    let newer = Running::of(bridge, &id, Offer::new());
    assert_eq!(older.ended().expect_err("replaced").code, 4409);
    assert_eq!(newer.onlines(), 1);
    assert_eq!(newer.count(|status| matches!(status, Status::Offline { .. })), 0);
}

#[test]
fn a_refused_token_is_not_shown_twice_and_a_fresh_one_is() {
    let bridge = Bridge::shared();
    let id = unique("fresh");
    let (asked, good) = (Arc::new(AtomicUsize::new(0)), token(&id, "client"));
    let count = asked.clone();
    let source = Token::ask(move || {
        let first = count.fetch_add(1, Ordering::SeqCst) == 0;
        let token = if first { "stale".to_owned() } else { good.clone() };
        async move { Ok(token) }
    });
    let running = Running::start(Client::new(&ws(bridge), source).expect("a URL"));
    running.await_online(1);
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    // One that has nothing fresh is asked once more and then ends.
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let source = Token::ask(move || {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok("stale".to_owned()) }
    });
    let running = Running::start(Client::new(&ws(bridge), source).expect("a URL"));
    assert_eq!(running.ended().expect_err("stale").code, 4401);
    // Twice; a connection that breaks before its close is read, on a busy machine, costs one more.
    let asked = asked.load(Ordering::SeqCst);
    assert!((2..=3).contains(&asked), "asked {asked} times");
}

#[test]
fn a_token_is_renewed_on_the_connection_it_is_for() {
    let bridge = Bridge::shared();
    let id = unique("renew");
    let asked = Arc::new(AtomicUsize::new(0));
    let (count, name) = (asked.clone(), id.clone());
    let source = Token::ask(move || {
        let n = count.fetch_add(1, Ordering::SeqCst);
        let token = Minted::of(&name, "client").claim("jti", n.to_string()).expires_in(3).mint();
        async move { Ok(token) }
    });
    let offer = Offer::new().tool(SLOW, |_| async { Ok(tool_error("as asked")) });
    let running = Running::start(Client::new(&ws(bridge), source).expect("a URL").offer(offer));
    running.await_online(1);
    eventually("three tokens", SOON, || (asked.load(Ordering::SeqCst) >= 3).then_some(()));
    assert_eq!(running.count(|status| matches!(status, Status::Offline { .. })), 0);
    let agent = Agent::new(bridge, &id).speaking(Era::Legacy);
    assert_eq!(agent.call("slow", json!({})).tool_error(), "as asked");
}

#[test]
fn it_stops_at_once_while_it_waits_to_dial_again() {
    // Nobody listens on the port of a listener that is gone.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("ws://{}", listener.local_addr().expect("bound"));
    drop(listener);
    let client = Client::new(&url, Token::fixed("a.b.c")).expect("a URL");
    let running = Running::start(client);
    eventually("three failures", SOON, || {
        (running.count(|status| matches!(status, Status::Offline { .. })) >= 3).then_some(())
    });
    running.handle.stop();
    assert_eq!(running.ended(), Ok(()));
}

/// A TLS end in front of a bridge, as a proxy is; the file has the certificate to trust.
#[cfg(feature = "tls")]
fn tls_in_front_of(bridge: &Bridge, file: &std::path::Path) -> u16 {
    use futures_rustls::TlsAcceptor;
    use futures_rustls::pki_types::PrivateKeyDer;
    use futures_rustls::rustls::ServerConfig;
    use futures_rustls::rustls::crypto::ring::default_provider;
    use smol::net::{TcpListener, TcpStream};

    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    std::fs::write(file, made.cert.pem()).expect("the test's folder can be written to");
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("our own key");
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has the versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("they belong together");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = smol::block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let to = bridge.addr;
    let serve = async move {
        loop {
            let (tcp, _) = listener.accept().await.expect("a listener accepts");
            let acceptor = acceptor.clone();
            let relay = async move {
                // A client that does not trust us hangs up here.
                let Ok(near) = acceptor.accept(tcp).await else { return };
                let far = TcpStream::connect(to).await.expect("the bridge listens");
                let (near_read, near_write) = smol::io::split(near);
                let up = smol::io::copy(near_read, far.clone());
                let down = smol::io::copy(far, near_write);
                smol::future::or(up, down).await.ok();
            };
            smol::spawn(relay).detach();
        }
    };
    smol::spawn::<()>(serve).detach();
    port
}

#[cfg(feature = "tls")]
#[test]
fn tls_is_for_the_certificates_that_are_trusted_and_no_others() {
    let bridge = Bridge::shared();
    let id = unique("tls");
    let file = std::env::temp_dir().join(unique("roots")).with_extension("pem");
    let port = tls_in_front_of(bridge, &file);
    let start = |host: &str, ca_file: Option<&std::path::Path>| {
        let url = format!("wss://{host}:{port}/connect");
        let client = Client::new(&url, Token::fixed(token(&id, "client"))).expect("a URL");
        let client = client.offer(Offer::new().tool(SLOW, |_| async { Ok(text("sealed")) }));
        Running::start(match ca_file {
            Some(path) => client.ca_file(path),
            None => client,
        })
    };
    let fails_with = |running: &Running, word: &str| {
        eventually(&format!("{word}: {:?}", running.statuses), SOON, || {
            let said = running.count(
                |status| matches!(status, Status::Offline { reason, .. } if reason.contains(word)),
            );
            (said > 0).then_some(())
        });
        assert_eq!(running.onlines(), 0);
    };
    // The roots of the system do not have it, and it is for another name than this.
    fails_with(&start("localhost", None), "TLS with localhost");
    fails_with(&start("127.0.0.1", Some(&file)), "TLS with 127.0.0.1");
    fails_with(&start("localhost", Some(std::path::Path::new("/dev/null"))), "/dev/null");
    let running = start("localhost", Some(&file));
    running.await_online(1);
    assert_eq!(Agent::new(bridge, &id).call("slow", json!({})).text(), "sealed");
    let large = "x".repeat(1 << 20);
    assert_eq!(Agent::new(bridge, &id).call("slow", json!({"a": large})).text(), "sealed");
    std::fs::remove_file(file).ok();
}
