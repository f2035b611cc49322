//! Readers that stall (SPEC §6, `--max-queued-bytes`): nobody else waits for them, and they cost a
//! bounded amount of memory.

use std::time::{Duration, Instant};

use crate::extra::{ADD, Ask, Desk, register};
use crate::support::{Bridge, RawClient};

const MIB: u64 = 1 << 20;

/// A call by somebody else, in good time.
fn others_are_served(bridge: &Bridge) {
    let other = Desk::on(bridge);
    let mut client = other.client(&register(&[ADD]));
    let asked = Instant::now();
    for _ in 0..20 {
        let running = other.begin(&Ask::call_old("1", "add", "{}"));
        let call = client.call();
        client.answers(&call.id, r#"{"content":[]}"#);
        assert_eq!(running.finish().code(), None);
    }
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(2), "20 calls of others took {took:?}");
}

#[test]
fn agents_that_never_read_their_answers_hold_up_nobody() {
    let bridge = Bridge::start(&[]);
    let desk = Desk::on(&bridge);
    let mut client = desk.client(&register(&[ADD]));
    let before = bridge.resident_bytes();
    let result = format!(r#"{{"x":"{}"}}"#, "z".repeat(3 << 20));
    let mut stalled = Vec::new();
    for _ in 0..10 {
        stalled.push(desk.begin(&Ask::call_old("1", "add", "{}")));
        let call = client.call();
        client.answers(&call.id, &result);
    }
    // The same client and others go on.
    let running = desk.begin(&Ask::call_old("2", "add", "{}"));
    let call = client.call();
    client.answers(&call.id, r#"{"content":[]}"#);
    assert_eq!(running.finish().code(), None);
    others_are_served(&bridge);
    let grown = bridge.resident_bytes().saturating_sub(before) / MIB;
    assert!(grown < 100, "ten answers of 3 MiB that nobody reads cost {grown} MiB");
    // One that reads late still gets all of it.
    let answer = stalled.remove(0).finish();
    assert!(answer.raw("result").as_deref() == Some(&*result), "{answer}");
    drop(stalled);
    bridge.assert_well("stalled agents");
}

#[test]
fn a_client_that_never_reads_gets_no_more_than_its_queue_and_the_rest_is_refused() {
    let bridge = Bridge::start(&["--max-queued-bytes", "2000000", "--call-timeout", "8"]);
    let desk = Desk::on(&bridge);
    let _client = desk.client(&register(&[ADD]));
    let before = bridge.resident_bytes();
    let arguments = format!(r#"{{"x":"{}"}}"#, "y".repeat(1 << 20));
    // About 40 MiB for a client that reads nothing: kernel buffers take some, the queue takes 2 MB.
    let running: Vec<_> =
        (0..40).map(|_| desk.begin(&Ask::call_old("1", "add", &arguments))).collect();
    let begun = Instant::now();
    let answers: Vec<_> = std::thread::scope(|scope| {
        let ends =
            running.into_iter().map(|call| scope.spawn(move || (call.finish(), begun.elapsed())));
        let ends: Vec<_> = ends.collect();
        ends.into_iter().map(|end| end.join().expect("an answer")).collect()
    });
    let mut refused = 0;
    for (answer, took) in answers {
        assert_eq!(answer.status, 200, "{answer}");
        if answer.tool_error().contains("queue is full") {
            refused += 1;
            // Reading forty requests takes its time; waiting would take the 8 s of the timeout.
            assert!(took < Duration::from_secs(6), "an answer, not a wait: {took:?}");
        } else {
            assert!(answer.tool_error().contains("did not answer within 8 s"), "{answer}");
        }
    }
    // Which ones find room depends on when the kernel takes some, not how many.
    assert!(refused >= 20, "of 40 MiB, 2 MB and the kernel's share are taken; refused: {refused}");
    let grown = bridge.resident_bytes().saturating_sub(before) / MIB;
    assert!(grown < 60, "a queue of 2 MB, yet {grown} MiB more");
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(14), "the rest at the call timeout, not {took:?}");
    others_are_served(&bridge);
}

#[test]
fn a_get_stream_that_nobody_reads_holds_up_no_other_stream() {
    let bridge = Bridge::start(&[]);
    let desk = Desk::on(&bridge);
    let mut client = desk.client(crate::extra::SUB);
    let _stalled = desk.subscribes("1", r#"{"resourceSubscriptions":["x://1"]}"#);
    let (mut reading, _) = desk.subscribes("2", r#"{"resourceSubscriptions":["x://1"]}"#);
    let before = bridge.resident_bytes();
    let update = format!(
        r#"{{"type":"notify","method":"notifications/resources/updated","params":{{"uri":"x://1","pad":"{}"}}}}"#,
        "p".repeat(100_000)
    );
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut count = 0;
            loop {
                match reading.next(1.5) {
                    crate::support::Event::Data(_) => count += 1,
                    crate::support::Event::Comment(_) => {}
                    crate::support::Event::Quiet => return count,
                    other => panic!("after {count} updates: {other:?}"),
                }
            }
        });
        for _ in 0..100 {
            client.says(&update);
            std::thread::sleep(Duration::from_millis(15));
        }
        // Updates of one URI may be gathered, so there may be fewer; but not as if it had stalled too.
        let heard = reader.join().expect("the reading one goes on");
        assert!(heard >= 10, "the reading one heard {heard} times in 1.5 s");
    });
    let grown = bridge.resident_bytes().saturating_sub(before) / MIB;
    assert!(grown < 40, "10 MB for a stream that nobody reads cost {grown} MiB");
    client.is_alive();
    others_are_served(&bridge);
}

#[test]
fn an_agent_that_reads_slowly_gets_everything() {
    let bridge = Bridge::start(&[]);
    let desk = Desk::on(&bridge);
    let mut client = desk.client(&register(&[ADD]));
    let ask = Ask::old("1", "tools/call", r#"{"name":"add","_meta":{"progressToken":1}}"#);
    let mut running = desk.begin(&ask);
    let call = client.call();
    client.notifies(&call.id, "notifications/progress", r#"{"progress":1}"#);
    running.event(3.0);
    let result = format!(r#"{{"x":"{}"}}"#, "w".repeat(3 << 20));
    client.answers(&call.id, &result);
    std::thread::sleep(Duration::from_millis(2500));
    let answer = running.finish();
    assert!(answer.raw("result").as_deref() == Some(&*result), "{answer}");
}

#[test]
fn a_client_that_registers_on_and_on_without_reading_is_dropped_and_costs_little() {
    let bridge = Bridge::start(&["--body-timeout", "1.5", "--max-registers-per-minute", "6000"]);
    let desk = Desk::on(&bridge);
    let mut raw = RawClient::connect(&bridge, &desk.id);
    // 2 KB each, with an answer of more than 30 KB.
    let register = format!(r#"{{"type":"register","tools":[{}0]}}"#, "0,".repeat(999));
    raw.send_text(&register);
    let refused = raw.next_message(Duration::from_secs(5))["refused"].to_string();
    assert!(refused.len() > 30_000, "{} bytes", refused.len());
    let before = bridge.resident_bytes();

    let frames = RawClient::frame(0x81, register.as_bytes()).repeat(100);
    let writer = std::thread::spawn(move || {
        while raw.http.try_send(&frames).is_ok() {}
        Instant::now()
    });
    let begun = Instant::now();
    let mut most = before;
    while !writer.is_finished() {
        most = most.max(bridge.resident_bytes());
        std::thread::sleep(Duration::from_millis(10));
    }
    let took = writer.join().expect("it writes until it is dropped") - begun;
    assert!(took > Duration::from_millis(1300), "it may stall for 1.5 s, not {took:?}");
    assert!(took < Duration::from_secs(6), "dropped after about 1.5 s, not {took:?}");
    let grown = (most - before) / MIB;
    assert!(grown < 8, "registers whose answers nobody reads cost {grown} MiB");
    others_are_served(&bridge);
}

#[test]
fn an_agent_that_takes_nothing_of_its_answer_is_dropped_after_the_body_timeout() {
    let bridge = Bridge::start(&["--body-timeout", "1", "--max-stream-bytes", "32MiB"]);
    let desk = Desk::on(&bridge);
    let mut client = desk.client(&register(&[ADD]));
    let result = format!(r#"{{"x":"{}"}}"#, "z".repeat((4 << 20) - 1000));
    let before = bridge.open_files();
    for accept in ["application/json", "text/event-stream"] {
        // Together more than the kernel takes for a reader that does not read.
        let call = |id| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"add"}}}}"#
            )
        };
        let batch = format!("[{},{},{},{}]", call(1), call(2), call(3), call(4));
        let stalled = desk.begin(&Ask::post(&batch).header("Accept", accept));
        let calls = [client.call(), client.call(), client.call(), client.call()];
        let answered = Instant::now();
        for call in &calls {
            client.answers(&call.id, &result);
        }
        std::thread::sleep(Duration::from_millis(500));
        assert!(bridge.open_files() > before, "{accept}: it may stall for a second");
        crate::support::eventually("the connection is dropped", crate::support::SOON, || {
            (bridge.open_files() <= before).then_some(())
        });
        let took = answered.elapsed();
        assert!(took > Duration::from_millis(900), "{accept}: dropped after {took:?}");
        drop(stalled);
    }
    client.is_alive();
    others_are_served(&bridge);
}

#[test]
fn a_client_that_takes_nothing_is_dropped_after_the_body_timeout_and_its_calls_end() {
    let bridge = Bridge::start(&["--body-timeout", "1", "--reconnect-wait", "0.2"]);
    let desk = Desk::on(&bridge);
    let _client = desk.client(&register(&[ADD]));
    let arguments = format!(r#"{{"x":"{}"}}"#, "y".repeat(2 << 20));
    let begun = Instant::now();
    // 12 MiB is more than the kernel takes for a reader that does not read, and there is a queue.
    let running: Vec<_> =
        (0..6).map(|_| desk.begin(&Ask::call_old("1", "add", &arguments))).collect();
    bridge.await_log("client reads nothing", Duration::from_secs(5));
    let took = begun.elapsed();
    assert!(took > Duration::from_millis(900), "it may stall for a second, not {took:?}");
    for call in running {
        let words = call.finish().tool_error();
        assert!(!words.is_empty() && !words.contains("did not answer"), "{words}");
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "dropped after about a second, not {took:?}");
    others_are_served(&bridge);
}
