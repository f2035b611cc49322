//! SIGTERM and SIGINT (SPEC §6): what is refused, what may finish, who is told what, and in which
//! order.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::extra::{ADD, Ask, Client, Desk, register};
use crate::support::{Bridge, Event, Request, token};

const LISTEN_ALL: &str = r#"{"toolsListChanged":true}"#;

fn status(bridge: &Bridge, path: &str) -> (u16, String) {
    let answer = Request::get(&bridge.target(path)).to(bridge);
    (answer.status, answer.text().trim().to_owned())
}

#[test]
fn a_running_call_is_answered_while_new_work_is_refused_and_streams_end_last() {
    let bridge = Bridge::start(&["--drain-timeout", "4"]);
    let desk = Desk::on(&bridge);
    let mut client = desk.settled_client(&register(&[ADD]));
    let mut get = desk.listens(&Ask::get());
    let (mut listen, _) = desk.subscribes("\"l\"", LISTEN_ALL);
    let old = desk.begin(&Ask::call_old("1", "add", "{}"));
    let new = desk.begin(&Ask::call_new("2", "add", "{}"));
    let calls = [client.call(), client.call()];

    bridge.signal(Signal::TERM);
    crate::support::eventually("health says so", Duration::from_secs(2), || {
        (status(&bridge, "/health") == (503, "draining".to_owned())).then_some(())
    });
    for ask in [
        Ask::old("3", "tools/list", "{}"),
        Ask::new("3", "tools/list", ""),
        Ask::call_old("3", "add", "{}"),
        Ask::get(),
        Ask::new("3", "subscriptions/listen", r#""notifications":{}"#),
    ] {
        let answer = desk.send(&ask);
        assert_eq!(answer.status, 503, "{ask:?}: {answer}");
        assert_eq!(answer.header("connection"), Some("close"), "it ends: {ask:?}: {answer}");
    }
    client.hears_nothing(0.3);
    get.hears_no_event(0.05);
    listen.hears_no_event(0.05);

    for call in &calls {
        client.answers(&call.id, r#"{"content":[],"done":1}"#);
    }
    for running in [old, new] {
        let answer = running.finish();
        assert_eq!(answer.only_json()["result"]["done"], 1, "{answer}");
    }
    let (code, reason) = client.close();
    assert_eq!(code, 1001, "{reason}");
    let (records, end) = get.events_for(3.0);
    assert_eq!((records.len(), end), (0, Event::End), "GET ends in order: {records:?}");
    let (records, end) = listen.events_for(3.0);
    assert_eq!(end, Event::End, "listen ends in order, after {records:?}");
    let last: serde_json::Value =
        serde_json::from_str(records.last().expect("a result")).expect("JSON");
    assert_eq!(last["id"], "l", "{records:?}");
    assert_eq!(last["result"]["resultType"], "complete", "{records:?}");
    let id = &last["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(*id, "l", "{records:?}");
    let exit = bridge.wait_exit(Duration::from_secs(3));
    assert_eq!(exit.code(), Some(0), "{}", bridge.log());
}

#[test]
fn a_call_that_does_not_finish_ends_with_words_before_the_client_is_closed() {
    let bridge = Bridge::start(&["--drain-timeout", "1"]);
    let desk = Desk::on(&bridge);
    let mut client = desk
        .client(r#"{"type":"register","tools":[{"name":"add","inputSchema":{"type":"object"}}],"prompts":[{"name":"p"}]}"#);
    let mut get = desk.listens(&Ask::get());
    let tool_call = desk.begin(&Ask::call_old("1", "add", "{}"));
    let prompt = desk.begin(&Ask::old("2", "prompts/get", r#"{"name":"p"}"#));
    let json = desk.begin(&Ask::call_new("3", "add", "{}").header("Accept", "application/json"));
    let _calls = [client.call(), client.call(), client.call()];
    let asked = Instant::now();
    bridge.signal(Signal::TERM);
    for (running, is_tool) in [(tool_call, true), (prompt, false), (json, true)] {
        let answer = running.finish();
        let took = asked.elapsed();
        assert!(took >= Duration::from_millis(900), "the drain time is given, not {took:?}");
        let words = match is_tool {
            true => answer.tool_error(),
            false => {
                assert_eq!(answer.code(), Some(-32603), "{answer}");
                answer.only_json()["error"]["message"].to_string()
            }
        };
        assert!(words.contains("may have run"), "{words}");
    }
    // Cancels may come first; then the close.
    assert_eq!(client.close().0, 1001);
    let (_, end) = get.events_for(3.0);
    assert_eq!(end, Event::End);
    assert_eq!(bridge.wait_exit(Duration::from_secs(3)).code(), Some(0), "{}", bridge.log());
    // The drain time, and up to 2 s each for a client and a stream that do not hang up themselves.
    assert!(asked.elapsed() < Duration::from_secs(7), "bounded: {:?}", asked.elapsed());
}

#[test]
fn the_order_is_answers_then_clients_then_streams() {
    let bridge = Bridge::start(&["--drain-timeout", "5"]);
    let desk = Desk::on(&bridge);
    let mut client = desk.client(&register(&[ADD]));
    let mut get = desk.listens(&Ask::get());
    let running = desk.begin(&Ask::call_old("1", "add", "{}"));
    let call = client.call();
    bridge.signal(Signal::TERM);
    std::thread::scope(|scope| {
        let answered = scope.spawn(|| {
            running.finish();
            Instant::now()
        });
        let ended = scope.spawn(move || {
            let (_, end) = get.events_for(8.0);
            assert_eq!(end, Event::End);
            Instant::now()
        });
        std::thread::sleep(Duration::from_millis(700));
        let told = Instant::now();
        client.answers(&call.id, r#"{"content":[]}"#);
        assert_eq!(client.close().0, 1001);
        let closed = Instant::now();
        // A closed client sends its close back; until then its socket is not done.
        drop(client);
        let answered = answered.join().expect("answered");
        let ended = ended.join().expect("ended in order");
        assert!(answered >= told, "nothing ended before the call did");
        assert!(ended >= told, "the stream outlives the running call");
        // Readers on three threads: only a clear inversion is one.
        let slack = Duration::from_millis(100);
        assert!(closed + slack >= answered, "the client is closed after its call was answered");
        assert!(ended + slack >= closed, "streams end last");
    });
    assert_eq!(bridge.wait_exit(Duration::from_secs(3)).code(), Some(0), "{}", bridge.log());
}

#[test]
fn with_nothing_running_it_stops_at_once_whoever_is_connected() {
    for signal in [Signal::TERM, Signal::INT] {
        let bridge = Bridge::start(&[]);
        let desks: Vec<Desk> = (0..30).map(|_| Desk::on(&bridge)).collect();
        let mut clients: Vec<Client> = desks.iter().map(|d| d.client(&register(&[ADD]))).collect();
        let mut streams: Vec<_> = desks.iter().map(|d| d.listens(&Ask::get())).collect();
        let mut silent = Client::joins(&desks[0], &token(&desks[0].id, "client"));
        // An idle connection and one with half a request hold nothing up.
        let _idle = crate::support::Http::connect(bridge.addr);
        let mut half = crate::support::Http::connect(bridge.addr);
        half.send("POST /mcp HTTP/1.1\r\nHost: localhost\r\n");
        let asked = Instant::now();
        bridge.signal(signal);
        for client in &mut clients {
            assert_eq!(client.close().0, 1001);
        }
        assert_eq!(silent.close().0, 1001, "one that has not registered is told too");
        drop((clients, silent));
        for stream in &mut streams {
            let (_, end) = stream.events_for(3.0);
            assert_eq!(end, Event::End);
        }
        drop(streams);
        let exit = bridge.wait_exit(Duration::from_secs(6));
        assert_eq!(exit.code(), Some(0), "{}", bridge.log());
        let took = asked.elapsed();
        assert!(took < Duration::from_secs(5), "no need for the drain time: {took:?}");
    }
}

#[test]
fn peers_that_do_not_read_do_not_hold_up_the_end() {
    let bridge = Bridge::start(&["--drain-timeout", "1"]);
    let desk = Desk::on(&bridge);
    // Neither ever reads again: no close comes back, no stream is drained.
    let _client = desk.client(&register(&[ADD]));
    let _get = desk.listens(&Ask::get());
    let _running = desk.begin(&Ask::call_old("1", "add", "{}"));
    let asked = Instant::now();
    bridge.signal(Signal::TERM);
    let exit = bridge.wait_exit(Duration::from_secs(8));
    assert_eq!(exit.code(), Some(0), "after {:?}: {}", asked.elapsed(), bridge.log());
}

#[test]
fn a_second_signal_exits_at_once() {
    for second in [Signal::TERM, Signal::INT] {
        let bridge = Bridge::start(&["--drain-timeout", "30"]);
        let desk = Desk::on(&bridge);
        let mut client = desk.client(&register(&[ADD]));
        let _running = desk.begin(&Ask::call_old("1", "add", "{}"));
        client.call();
        bridge.signal(Signal::TERM);
        crate::support::eventually("health says so", Duration::from_secs(2), || {
            (status(&bridge, "/health").0 == 503).then_some(())
        });
        std::thread::sleep(Duration::from_millis(300));
        assert!(bridge.is_alive(), "it waits for the call: {}", bridge.log());
        bridge.signal(second);
        bridge.wait_exit(Duration::from_secs(1));
    }
}

#[test]
fn a_client_that_comes_while_it_stops_is_not_taken() {
    let bridge = Bridge::start(&["--drain-timeout", "3"]);
    let desk = Desk::on(&bridge);
    let mut client = desk.client(&register(&[ADD]));
    let running = desk.begin(&Ask::call_old("1", "add", "{}"));
    let call = client.call();
    bridge.signal(Signal::TERM);
    crate::support::eventually("health says so", Duration::from_secs(2), || {
        (status(&bridge, "/health").0 == 503).then_some(())
    });
    let request = crate::support::RawClient::request(&bridge, &desk.id);
    let (answer, mut raw) = crate::support::RawClient::shake(&bridge, &request);
    match answer.status {
        503 => {}
        101 => assert_eq!(raw.expects_close().0, 1001, "told to come back later"),
        _ => panic!("refused with 503, or told 1001: {answer:?}"),
    }
    // And the one that was here keeps its call.
    client.answers(&call.id, r#"{"content":[]}"#);
    assert_eq!(running.finish().code(), None);
}

#[test]
fn what_belongs_to_a_running_call_is_taken_while_it_stops() {
    let bridge = Bridge::start(&["--drain-timeout", "5"]);
    let desk = Desk::on(&bridge);
    let mut client = desk.client(&register(&[ADD]));
    let params = crate::extra::INITIALIZE
        .replace(r#""capabilities":{}"#, r#""capabilities":{"elicitation":{}}"#);
    let answer = desk.send(&Ask::old("0", "initialize", &params));
    let session = answer.header("mcp-session-id").expect("a session").to_owned();
    let mut asking = desk.begin(&Ask::call_old("1", "add", "{}").session(&session));
    let call = client.call();
    client.answers(
        &call.id,
        r#"{"resultType":"input_required","inputRequests":{"n":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}}}"#,
    );
    let asked: serde_json::Value = serde_json::from_str(&asking.event(3.0)).expect("JSON");
    let unwanted = desk.begin(&Ask::call_old("2", "add", "{}").session(&session));
    let to_cancel = client.call();

    bridge.signal(Signal::TERM);
    crate::support::eventually("health says so", Duration::from_secs(2), || {
        (status(&bridge, "/health").0 == 503).then_some(())
    });
    let response = |result: &str| {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, asked["id"]);
        Ask::post(&body).header("MCP-Protocol-Version", "2025-11-25").session(&session)
    };
    assert_eq!(desk.send(&response(r#"{"action":"decline"}"#)).status, 202);
    let again = client.call();
    assert!(again.params.contains(r#""action":"decline""#), "{again:?}");
    assert_eq!(desk.send(&Ask::cancelled("2").session(&session)).status, 202);
    client.cancel_of(&to_cancel, 2.0);
    // Whatever begins something, or is a stranger's, is refused.
    for (ask, status) in [
        (Ask::call_old("3", "add", "{}").session(&session), 503),
        (Ask::old("3", "ping", "{}").session(&session), 503),
        (Ask::post(r#"[{"jsonrpc":"2.0","id":3,"method":"ping"}]"#), 503),
        (response("{}").bearer("none"), 401),
    ] {
        let answer = desk.send(&ask);
        assert_eq!(answer.status, status, "{ask:?}: {answer}");
    }
    client.hears_nothing(0.1);
    client.answers(&again.id, r#"{"content":[],"done":1}"#);
    let answer = asking.finish();
    assert_eq!(answer.only_json()["result"]["done"], 1, "{answer}");
    drop(unwanted);
    assert_eq!(client.close().0, 1001);
    assert_eq!(bridge.wait_exit(Duration::from_secs(4)).code(), Some(0), "{}", bridge.log());
}
