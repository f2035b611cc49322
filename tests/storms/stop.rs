//! SIGTERM and SIGINT with a thousand clients, a hundred streams and running calls (SPEC §6.3, §6.4).

use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use smol::{LocalExecutor, Task};

use crate::crowd::{
    Caller, Crowd, End, ONCE, get_stream, listen_stream, needs_files, pause, streams, until,
    weather, within,
};
use crate::support::Bridge;

const CLIENTS: usize = 1000;
const STREAMS: usize = 100;

/// A bridge with everyone there: clients, half the streams of either era, and a call that is held.
struct Full {
    bridge: Bridge,
    crowd: Rc<Crowd>,
    /// What each stream says until it ends, and when that is.
    streams: Vec<Task<(Result<String, String>, Instant)>>,
    call: Task<(End, Instant)>,
}

impl Full {
    async fn house(tasks: &LocalExecutor<'static>, flags: &[&str]) -> Full {
        needs_files(1500);
        let quiet = ["--log-level", "warn"];
        let bridge = Bridge::start(&[&quiet, flags].concat());
        let crowd = Crowd::gather(bridge.addr, CLIENTS);
        crowd.arrives(tasks, ONCE);
        crowd.all_online(30).await;
        let mut opened = Vec::new();
        for n in 0..STREAMS {
            let token = &crowd.members[n].agent_token;
            let (request, first) = match n % 2 {
                0 => (get_stream(token), "retry: 5000"),
                _ => (listen_stream(token), "acknowledged"),
            };
            let stream = streams(bridge.addr, &request, Some(first));
            let stream = within(10, "a stream's first event", stream).await.expect("a stream");
            opened.push(tasks.spawn(async { (stream.reads_to_its_end().await, Instant::now()) }));
        }
        let (addr, token) = (bridge.addr, crowd.members[7].agent_token.clone());
        let call = tasks.spawn(async move {
            let end = Caller::new(addr).calls(&token, "hold-1").await;
            (end, Instant::now())
        });
        let written = || crowd.runs("hold-1") == 1;
        until(5, "the call is with its client", written, String::new).await;
        Full { bridge, crowd, streams: opened, call }
    }

    /// Signals, and waits until that is seen.
    async fn stops(&self, signal: Signal) -> Instant {
        let asked = Instant::now();
        self.bridge.signal(signal);
        let mut prober = Caller::new(self.bridge.addr);
        loop {
            let health = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
            let (status, _, body) = prober.sends(health).await.expect("the listener stays open");
            if status == 503 {
                assert_eq!(body.trim_end(), "draining");
                return asked;
            }
            assert!(asked.elapsed() < Duration::from_secs(2), "it is {status} {body} still");
            pause(10).await;
        }
    }

    /// Everybody was told the truth, in order, and the process ended with 0.
    async fn empties_within(self, seconds: u64, asked: Instant, answered: Instant) {
        let Full { bridge, crowd, streams, .. } = self;
        let gone = || crowd.online() == 0;
        until(seconds, "all clients are out", gone, || format!("{} are in", crowd.online())).await;
        let mut first_end = None;
        for (n, stream) in streams.into_iter().enumerate() {
            let (text, at) = within(seconds, "a stream's end", stream).await;
            let text = text.expect("streams end in order");
            first_end = Some(first_end.map_or(at, |first: Instant| first.min(at)));
            let completed = text.contains(r#""id":"l","result":"#) && text.contains("complete");
            assert_eq!(completed, n % 2 == 1, "a completion for listen alone: {text}");
        }
        assert!(first_end > Some(answered), "streams end after the running calls");
        until(seconds, "its end", || !bridge.is_alive(), || bridge.log()).await;
        let took = asked.elapsed();
        assert_eq!(bridge.wait_exit(Duration::ZERO).code(), Some(0), "{}", bridge.log());
        assert!(took < Duration::from_secs(seconds), "out in {took:?}");
        let ends = crowd.ends.borrow();
        let wrong: Vec<u16> = ends.iter().copied().filter(|code| *code != 1001).collect();
        assert_eq!((ends.len(), &wrong[..]), (CLIENTS, &[][..]), "everyone sees 1001");
        assert!(crowd.doubled().is_empty(), "{:?}", crowd.doubled());
        assert!(!bridge.log().contains("failed"), "{}", bridge.log());
    }
}

#[test]
fn a_full_house_is_out_within_the_drain_time_and_its_call_is_answered() {
    weather(|tasks| async move {
        let mut house = Full::house(&tasks, &["--drain-timeout", "10"]).await;
        let asked = house.stops(Signal::TERM).await;
        // Whatever begins something is refused, with a time to come back.
        let token = &house.crowd.members[3].agent_token;
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"marker":"late"}}}"#;
        let refused = Caller::new(house.crowd.addr).posts(token, call).await.expect("an answer");
        let get = Caller::new(house.crowd.addr).sends(&get_stream(token)).await.expect("an answer");
        let connect = "GET /connect HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: clientmcp.v1\r\n\r\n";
        let connect = Caller::new(house.crowd.addr).sends(connect).await.expect("an answer");
        for (what, (status, head, _)) in [("call", refused), ("GET", get), ("connect", connect)] {
            assert_eq!(status, 503, "{what}: {head}");
            assert!(head.to_lowercase().contains("retry-after: "), "{what}: {head}");
        }
        pause(500).await;
        assert_eq!(house.crowd.online(), CLIENTS, "clients stay while a call runs");
        house.crowd.release.set(true);
        let (end, answered) = within(5, "the answer", &mut house.call).await;
        let said = format!("hold-1@{}", house.crowd.members[7].client_id);
        assert!(matches!(&end, End::Text(text) if *text == said), "{end:?}");
        house.empties_within(10, asked, answered).await;
    });
}

#[test]
fn a_call_that_outlives_the_drain_time_ends_with_words_and_nobody_else_waits() {
    weather(|tasks| async move {
        let mut house = Full::house(&tasks, &["--drain-timeout", "1"]).await;
        let asked = house.stops(Signal::INT).await;
        let (end, answered) = within(5, "the answer", &mut house.call).await;
        assert!(matches!(&end, End::ToolError(words) if words.contains("may have run")), "{end:?}");
        assert!(answered - asked > Duration::from_millis(900), "the drain time is given");
        house.empties_within(10, asked, answered).await;
    });
}

#[test]
fn a_second_signal_empties_a_full_house_at_once() {
    weather(|tasks| async move {
        let house = Full::house(&tasks, &["--drain-timeout", "60"]).await;
        house.stops(Signal::TERM).await;
        pause(300).await;
        assert_eq!(house.crowd.online(), CLIENTS, "it waits for the call");
        let again = Instant::now();
        house.bridge.signal(Signal::INT);
        let ended = || !house.bridge.is_alive();
        until(2, "its end", ended, || house.bridge.log()).await;
        let took = again.elapsed();
        assert_eq!(house.bridge.wait_exit(Duration::ZERO).code(), Some(0), "in {took:?}");
        let (end, _) = within(2, "the call's end", house.call).await;
        assert!(matches!(end, End::Broken(_)), "nobody is left to answer: {end:?}");
        for stream in house.streams {
            let (cut, _) = within(2, "a stream's end", stream).await;
            cut.expect_err("nobody is left to complete it");
        }
    });
}
