//! Processes that stop without a word and go on later: a client's (SPEC §4.5, §5.3.5), and the bridge's own.
//!
//! That a silent client is closed after 90 s is in `tests/contract`, and that this holds for a stopped one
//! in `tests/connect`, because they take so long. Here is what shows sooner, and who must not be blamed
//! when it was the bridge that slept.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::connected::{Connected, by_hand};
use crate::crowd::{
    Caller, Crowd, End, FAITHFUL, Manners, get_stream, needs_files, pause, streams, until, weather,
    within,
};
use crate::support::{Agent, Bridge, Client, Http, RawClient, SOON, Token, eventually, unique};

#[test]
fn calls_to_a_stopped_client_time_out_and_it_serves_again_when_it_goes_on() {
    let bridge = Bridge::start(&["--call-timeout", "1"]);
    let connected = Connected::online(&bridge, &by_hand(&[]));
    let agent = Agent::new(&bridge, &connected.client_id);
    assert_eq!(agent.call("echo", json!({"text": "before"})).text(), "before");
    let mut other = Client::connect(&bridge, &unique("awake"));
    other.offers(&["add"]);

    connected.signal(Signal::STOP);
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let asked = Instant::now();
                    let words = agent.call("echo", json!({"text": "asleep"})).tool_error();
                    (words, asked.elapsed())
                })
            })
            .collect();
        for call in calls {
            let (words, took) = call.join().expect("a tool error");
            assert!(words.contains("did not answer within 1 s"), "{words}");
            assert!((900..3000).contains(&took.as_millis()), "about a second, not {took:?}");
        }
    });
    other.expects_alive();
    // One call's time-out never closes the client's socket: it is as it was.
    connected.signal(Signal::CONT);
    assert_eq!(agent.call("echo", json!({"text": "after"})).text(), "after");
    assert_eq!(connected.log().matches(" online").count(), 1, "{}", connected.log());
}

#[test]
fn a_stopped_client_that_takes_nothing_is_dropped_and_comes_back_by_itself() {
    let bridge =
        Bridge::start(&["--call-timeout", "1", "--body-timeout", "1", "--reconnect-wait", "0.2"]);
    let nobody = bridge.open_files();
    let connected = Connected::online(&bridge, &by_hand(&[]));
    let mut agent = Agent::new(&bridge, &connected.client_id);
    agent.patience = SOON;
    assert_eq!(agent.call("echo", json!({"text": "before"})).text(), "before");

    connected.signal(Signal::STOP);
    // More than the kernel takes on the client's behalf.
    let large = "x".repeat(3 << 20);
    let asked = Instant::now();
    let words = loop {
        let words = agent.call("echo", json!({"text": large})).tool_error();
        if words.contains("not connected") || asked.elapsed() > SOON {
            break words;
        }
        let honest = ["did not answer within 1 s", "may have run", "queue"];
        assert!(honest.iter().any(|known| words.contains(known)), "{words}");
    };
    assert!(words.contains("not connected"), "{words}");
    bridge.await_log("client reads nothing", SOON);
    eventually("no file is left", SOON, || (bridge.open_files() == nobody).then_some(()));

    connected.signal(Signal::CONT);
    connected.await_log_times(" online", 2);
    assert_eq!(agent.call("echo", json!({"text": "after"})).text(), "after");
}

#[test]
fn a_bridge_that_slept_longer_than_the_ping_interval_drops_nobody() {
    needs_files(1500);
    weather(|tasks| async move {
        // Shorter than the sleep: what was answered meanwhile has not timed out.
        let bridge = Bridge::start(&["--log-level", "warn", "--call-timeout", "20"]);
        let nobody = bridge.open_files();
        let quiet = Crowd::gather(bridge.addr, 300);
        // These ping at once, get no answer, and come back by themselves, some of them twice.
        let restless = Crowd::gather(bridge.addr, 300);
        quiet.arrives(&tasks, FAITHFUL);
        let often = Manners { ping_every: Some(Duration::from_secs(1)), ..FAITHFUL };
        restless.arrives(&tasks, often);
        quiet.all_online(20).await;
        restless.all_online(20).await;
        let mut opened = Vec::new();
        for n in 0..20 {
            let request = get_stream(&quiet.members[n].agent_token);
            opened.push(streams(bridge.addr, &request, Some("retry")).await.expect("a stream"));
        }
        let mut calls = Vec::new();
        for n in 0..20 {
            let (addr, token) = (bridge.addr, quiet.members[n].agent_token.clone());
            let call = async move { Caller::new(addr).calls(&token, &format!("hold-{n}")).await };
            calls.push(tasks.spawn(call));
        }
        let written = || (0..20).all(|n| quiet.runs(&format!("hold-{n}")) == 1);
        until(5, "the calls are with their clients", written, String::new).await;

        bridge.signal(Signal::STOP);
        // Answers and new calls come while it sleeps.
        quiet.release.set(true);
        let late = {
            let (addr, token) = (bridge.addr, quiet.members[30].agent_token.clone());
            tasks.spawn(async move { Caller::new(addr).calls(&token, "meanwhile").await })
        };
        pause(33_000).await;
        assert!(restless.online() < 300, "clients that ping notice");
        bridge.signal(Signal::CONT);

        for (n, call) in calls.into_iter().enumerate() {
            let end = within(5, "the answer given meanwhile", call).await;
            assert!(matches!(&end, End::Text(text) if text.starts_with("hold-")), "{n}: {end:?}");
        }
        let end = within(5, "the call made meanwhile", late).await;
        assert!(matches!(&end, End::Text(text) if text.starts_with("meanwhile@")), "{end:?}");
        restless.all_online(25).await;
        assert_eq!(quiet.online(), 300, "{:?}", quiet.ends.borrow());
        for crowd in [&quiet, &restless] {
            let unjust = crowd.ends.borrow().iter().filter(|code| **code != 1006).count();
            assert_eq!(unjust, 0, "the bridge closed nobody: {:?}", crowd.ends.borrow());
            assert!(crowd.doubled().is_empty(), "{:?}", crowd.doubled());
            let mut caller = Caller::new(crowd.addr);
            for (n, member) in crowd.members.iter().enumerate() {
                let end = caller.calls(&member.agent_token, &format!("after-{n}")).await;
                assert!(matches!(end, End::Text(_)), "{n}: {end:?}");
            }
        }
        assert!(quiet.ends.borrow().is_empty(), "who did not ask did not notice");
        for mut stream in opened {
            within(20, "a comment", stream.reads_to("\n:")).await.expect("streams go on");
        }
        let files = || bridge.open_files() <= nobody + 600;
        until(5, "no file is left over", files, || bridge.open_files().to_string()).await;
    });
}

/// Found here: it was judged by the time before it was looked whether the client had read meanwhile.
#[test]
fn a_bridge_that_slept_does_not_blame_a_client_that_reads() {
    let bridge = Bridge::start(&["--body-timeout", "3", "--max-queued-bytes", "67108864"]);
    let id = unique("slow");
    let mut client = RawClient::connect(&bridge, &id);
    client.send_text(
        r#"{"type":"register","tools":[{"name":"add","inputSchema":{"type":"object"}}]}"#,
    );
    assert_eq!(client.next_message(SOON)["type"], "registered");
    let agent = Agent::new(&bridge, &id);
    // More than the kernel takes.
    let large = "x".repeat(4_000_000);
    let request = agent.request("tools/call", json!({"name": "add", "arguments": {"x": large}}));
    let _calls: Vec<_> = (0..8).map(|_| request.sent_to(&bridge)).collect();
    std::thread::sleep(Duration::from_millis(1000));
    bridge.signal(Signal::STOP);
    // The client reads what there is, and then there is nothing for longer than the bridge is patient.
    let mut frames = 0;
    let asleep = Instant::now();
    while asleep.elapsed() < Duration::from_millis(3500) {
        frames += usize::from(client.try_frame(Duration::from_millis(100)).is_ok());
    }
    assert!(frames < 8, "the bridge was still to write");
    bridge.signal(Signal::CONT);
    while frames < 8 {
        let frame = client.next_frame(SOON);
        assert!(frame.payload.starts_with(br#"{"type":"call""#), "{:?}", frame.opcode());
        frames += 1;
    }
    assert!(!bridge.log().contains("reads nothing"), "{}", bridge.log());
}

#[test]
fn a_token_that_was_renewed_while_the_bridge_slept_has_not_ended() {
    let bridge = Bridge::start(&[]);
    let id = unique("renewed");
    // Refused from 60 s after its `exp` on, which is in six seconds.
    let token = Token::of(&id, "client").expires_in(-54).mint();
    let mut client = Client::connect_with_token(&bridge, &id, &token);
    client.offers(&["add"]);
    let began = Instant::now();
    bridge.signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(2));
    client.send(&json!({"type": "auth", "token": Token::of(&id, "client").mint()}));
    std::thread::sleep(Duration::from_secs(8).saturating_sub(began.elapsed()));
    bridge.signal(Signal::CONT);
    client.expects_alive();
    // And one that was not renewed has ended.
    let token = Token::of(&id, "client").expires_in(-59).mint();
    let mut late = Client::connect_with_token(&bridge, &id, &token);
    assert_eq!(late.expects_close().0, 4401);
}

#[test]
fn what_an_agent_sent_while_the_bridge_slept_was_in_time() {
    let bridge =
        Bridge::start(&["--head-timeout", "1", "--body-timeout", "1", "--keep-alive", "1"]);
    let id = unique("agent");
    let ping = Agent::new(&bridge, &id).legacy_request("ping", json!({})).bytes();
    let head = ping.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    // In the middle of a head, at the end of one, in the middle of a body, and between two requests.
    let mut agents: Vec<(Http, usize)> = [head / 2, head, head + 9, ping.len(), 0]
        .map(|sent| {
            let mut http = Http::connect(bridge.addr);
            http.send(&ping[..sent]);
            if sent == ping.len() {
                assert_eq!(http.read_response().status, 200);
            }
            (http, sent % ping.len())
        })
        .into();
    std::thread::sleep(Duration::from_millis(300));
    bridge.signal(Signal::STOP);
    for (http, sent) in &mut agents {
        http.send(&ping[*sent..]);
    }
    std::thread::sleep(Duration::from_millis(2000));
    bridge.signal(Signal::CONT);
    for (http, sent) in &mut agents {
        let answer = http.read_response();
        assert_eq!(answer.status, 200, "after {sent} bytes: {answer:?}");
    }
}
