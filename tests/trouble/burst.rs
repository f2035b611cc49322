//! A client that says too much at once (SPEC §4.3.3 and §9.1): the agent hears the beginning, what
//! the rate allows, and the newest; the bridge remembers nothing of the rest.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::extra::{ADD, Ask, Call, Client, Desk, Stream, register};
use crate::support::{Bridge, Event, RawClient, TEXT};

/// How many notifications a client sends in one go.
const MANY: usize = 10_000;
/// What reaches the agent at once, and then in a second (SPEC §9.1).
const BURST: usize = 100;
const PER_SECOND: usize = 20;
/// What a burst may cost the bridge: what it keeps for an agent that does not read (256 KiB, SPEC
/// §9.1), and a buffer or two.
const BYTES_MAX: u64 = 512 << 10;
/// About as many bytes in each notification as it takes for 10,000 to be 10 MB.
const FILL_BYTES: usize = 1000;

/// What makes the parameters of the notification with this number.
type Params = fn(usize) -> String;

/// A call that wants to be told of everything, and its client.
fn call_under_way(desk: &Desk) -> (RawClient, Stream, String) {
    let mut client = RawClient::connect(desk.bridge, &desk.id);
    client.send_text(&register(&[ADD]));
    let message = client.next_message(Duration::from_secs(5));
    assert_eq!(message["type"], "registered", "{message}");
    let meta = r#""progressToken":"t","io.modelcontextprotocol/logLevel":"info""#;
    let ask = Ask::new_meta("1", "tools/call", meta, r#""name":"add""#).header("Mcp-Name", "add");
    let running = desk.begin(&ask);
    let call = client.next_message(Duration::from_secs(5));
    assert_eq!(call["type"], "call", "{call}");
    let id = call["id"].as_str().expect("a call has an ID").to_owned();
    (client, running, id)
}

/// `MANY` notifications with rising numbers as the bytes of frames; `name` is what holds the number.
fn burst(id: &str, method: &str, params: Params) -> Vec<u8> {
    let mut bytes = Vec::new();
    for n in 1..=MANY {
        let params = params(n);
        let text =
            format!(r#"{{"type":"notify","id":"{id}","method":"{method}","params":{params}}}"#);
        bytes.extend(RawClient::frame(0x80 | TEXT, text.as_bytes()));
    }
    bytes
}

fn progress(n: usize) -> String {
    format!(r#"{{"progress":{n},"message":"{}"}}"#, "p".repeat(FILL_BYTES))
}

fn log(n: usize) -> String {
    format!(r#"{{"level":"info","data":{{"n":{n},"fill":"{}"}}}}"#, "l".repeat(FILL_BYTES))
}

/// Sends the burst and then a ping, and waits for its pong: everything before it was taken.
fn sent(client: &mut RawClient, bytes: Vec<u8>) -> Duration {
    let begun = Instant::now();
    client.http.send(bytes);
    client.send_text(r#"{"type":"ping"}"#);
    let pong = client.next_message(Duration::from_secs(30));
    assert_eq!(pong["type"], "pong", "{pong}");
    begun.elapsed()
}

fn answers(client: &mut RawClient, id: &str) {
    client.send_text(&format!(r#"{{"type":"result","id":"{id}","result":{{"content":[]}}}}"#));
}

/// The stream to its end: each message, and when it came.
fn read(mut running: Stream) -> Vec<(Instant, Value)> {
    let mut heard = Vec::new();
    loop {
        match running.next(20.0) {
            Event::Data(text) => {
                let message = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
                heard.push((Instant::now(), message));
            }
            Event::Comment(_) => {}
            Event::End => return heard,
            other => panic!("after {} messages: {other:?}", heard.len()),
        }
    }
}

fn numbers(messages: &[(Instant, Value)], pointer: &str) -> Vec<usize> {
    let number = |message: &Value| message.pointer(pointer).and_then(Value::as_u64);
    let numbers = messages.iter().filter_map(|(_, message)| number(message));
    numbers.map(|n| usize::try_from(n).expect("as sent")).collect()
}

/// What is beyond the first hundred came no faster than the rate allows. A reader that was late
/// sees two at once, so a second's worth may be early.
fn kept_to_the_rate(begun: Instant, heard: &[(Instant, Value)]) {
    for (beyond, (at, message)) in heard.iter().skip(BURST).enumerate() {
        let allowed = at.duration_since(begun).as_secs_f64() * PER_SECOND as f64 + 2.0;
        assert!(
            beyond as f64 <= allowed,
            "{beyond} beyond the burst, {allowed} allowed: {message}"
        );
    }
}

/// How much more the bridge holds than before.
fn grown(bridge: &Bridge, before: u64) -> u64 {
    bridge.anonymous_bytes().saturating_sub(before)
}

/// One round of the same, so that buffers and the allocator are as large as they get.
fn warmed_up(desk: &Desk) {
    let (mut client, running, id) = call_under_way(desk);
    sent(&mut client, burst(&id, "notifications/progress", progress));
    answers(&mut client, &id);
    read(running);
}

#[test]
fn of_ten_thousand_progress_notifications_the_first_and_the_newest_arrive() {
    let bridge = Bridge::start(&[]);
    let desk = Desk::on(&bridge);
    warmed_up(&desk);
    let desk = desk.another();
    let (mut client, running, id) = call_under_way(&desk);
    let before = bridge.anonymous_bytes();
    let bytes = burst(&id, "notifications/progress", progress);
    std::thread::scope(|scope| {
        let begun = Instant::now();
        let reader = scope.spawn(move || read(running));
        sent(&mut client, bytes);
        let grown = grown(&bridge, before);
        assert!(grown <= BYTES_MAX, "10 MB of progress cost {grown} bytes");
        // Some time, for what the rate allows to come.
        std::thread::sleep(Duration::from_millis(1000));
        answers(&mut client, &id);
        let mut heard = reader.join().expect("the reader does not panic");
        let (_, result) = heard.pop().expect("a result");
        assert!(result["result"].is_object(), "{result}");
        assert!(heard.iter().all(|(_, m)| m["params"]["progressToken"] == "t"));
        kept_to_the_rate(begun, &heard);
        let numbers = numbers(&heard, "/params/progress");
        assert_eq!(numbers.len(), heard.len(), "progress and nothing else");
        assert!(numbers.is_sorted_by(|a, b| a < b), "in order, none twice: {numbers:?}");
        let first: Vec<usize> = (1..=BURST).collect();
        assert_eq!(numbers[..BURST], first, "the first hundred, whole");
        assert_eq!(numbers.last(), Some(&MANY), "the newest, before the result");
    });
}

#[test]
fn the_newest_progress_comes_before_a_result_that_follows_at_once() {
    let bridge = Bridge::start(&[]);
    let desk = Desk::on(&bridge);
    let (mut client, running, id) = call_under_way(&desk);
    let mut bytes = burst(&id, "notifications/progress", progress);
    let result = format!(r#"{{"type":"result","id":"{id}","result":{{"content":[]}}}}"#);
    bytes.extend(RawClient::frame(0x80 | TEXT, result.as_bytes()));
    let begun = Instant::now();
    let heard = std::thread::scope(|scope| {
        let reader = scope.spawn(move || read(running));
        client.http.send(bytes);
        reader.join().expect("the reader does not panic")
    });
    let [notes @ .., (_, result)] = &heard[..] else { panic!("a result, not {heard:?}") };
    assert!(result["result"].is_object(), "{result}");
    // The newest is owed whatever the rate: it may be one more.
    kept_to_the_rate(begun, &notes[..notes.len() - 1]);
    assert_eq!(numbers(notes, "/params/progress").last(), Some(&MANY));
}

#[test]
fn ten_thousand_log_messages_become_a_hundred_and_one_that_counts_the_rest() {
    let bridge = Bridge::start(&[]);
    let desk = Desk::on(&bridge);
    warmed_up(&desk);
    let desk = desk.another();
    let (mut client, running, id) = call_under_way(&desk);
    let before = bridge.anonymous_bytes();
    let bytes = burst(&id, "notifications/message", log);
    std::thread::scope(|scope| {
        let begun = Instant::now();
        let reader = scope.spawn(move || read(running));
        sent(&mut client, bytes);
        let grown = grown(&bridge, before);
        assert!(grown <= BYTES_MAX, "10 MB of log messages cost {grown} bytes");
        answers(&mut client, &id);
        let mut heard = reader.join().expect("the reader does not panic");
        let (_, result) = heard.pop().expect("a result");
        assert!(result["result"].is_object(), "{result}");
        let (_, count) = heard.pop().expect("a message that counts");
        kept_to_the_rate(begun, &heard);
        let numbers = numbers(&heard, "/params/data/n");
        assert_eq!(numbers.len(), heard.len(), "one message of the bridge's own, the last");
        assert!(numbers.is_sorted_by(|a, b| a < b), "in order, none twice: {numbers:?}");
        let first: Vec<usize> = (1..=BURST).collect();
        assert_eq!(numbers[..BURST], first, "the first hundred, whole");
        let words = count["params"]["data"].as_str().expect("words");
        let dropped = MANY - numbers.len();
        assert!(words.starts_with(&format!("{dropped} log messages")), "of {dropped}: {words}");
        assert_eq!(count["method"], "notifications/message");
        assert_eq!(count["params"]["level"], "warning");
    });
}

#[test]
fn a_burst_at_an_agent_that_does_not_read_costs_no_more() {
    let bridge = Bridge::start(&[]);
    let desk = Desk::on(&bridge);
    warmed_up(&desk);
    let kinds: [(&str, Params); 2] =
        [("notifications/progress", progress), ("notifications/message", log)];
    for (method, params) in kinds {
        let desk = desk.another();
        let (mut client, running, id) = call_under_way(&desk);
        let before = bridge.anonymous_bytes();
        sent(&mut client, burst(&id, method, params));
        let grown = grown(&bridge, before);
        assert!(grown <= BYTES_MAX, "{method}: 10 MB that nobody reads cost {grown} bytes");
        // Longer than the rate needs to let some more through, and again.
        std::thread::sleep(Duration::from_millis(1000));
        sent(&mut client, burst(&id, method, params));
        let grown = bridge.anonymous_bytes().saturating_sub(before);
        assert!(grown <= BYTES_MAX, "{method}: 20 MB that nobody reads cost {grown} bytes");
        answers(&mut client, &id);
        // One that reads late still gets what it was owed, and the result.
        let heard = read(running);
        let (_, result) = heard.last().expect("a result");
        assert!(result["result"].is_object(), "{result}");
        assert!(heard.len() > BURST, "{} messages", heard.len());
    }
    bridge.assert_well("bursts");
}

#[test]
fn large_notifications_that_nobody_reads_are_kept_up_to_a_number_of_bytes() {
    let bridge = Bridge::start(&[]);
    let desk = Desk::on(&bridge);
    warmed_up(&desk);
    let large: [(&str, Params); 2] = [
        ("notifications/progress", |n| {
            format!(r#"{{"progress":{n},"message":"{}"}}"#, "p".repeat(100_000))
        }),
        ("notifications/message", |n| {
            format!(r#"{{"level":"info","data":[{n},"{}"]}}"#, "l".repeat(100_000))
        }),
    ];
    for (method, params) in large {
        let desk = desk.another();
        let (mut client, running, id) = call_under_way(&desk);
        let before = bridge.anonymous_bytes();
        for n in 0..400 {
            let params = params(n);
            client.send_text(&format!(
                r#"{{"type":"notify","id":"{id}","method":"{method}","params":{params}}}"#
            ));
        }
        sent(&mut client, Vec::new());
        let grown = grown(&bridge, before);
        // What is being read and written, and the newest progress, besides; and the end of the heap,
        // which is given back in pieces.
        let most = BYTES_MAX + 5 * 100_000;
        assert!(grown <= most, "{method}: 40 MB that nobody reads cost {grown} bytes");
        answers(&mut client, &id);
        let heard = read(running);
        let (_, result) = heard.last().expect("a result");
        assert!(result["result"].is_object(), "{result}");
        if method == "notifications/progress" {
            let numbers = numbers(&heard, "/params/progress");
            assert!(numbers.is_sorted_by(|a, b| a < b), "in order, none twice: {numbers:?}");
            assert_eq!(numbers.last(), Some(&399), "the newest");
        }
    }
}

#[test]
fn what_nobody_asked_for_costs_nothing_and_begins_no_stream() {
    let bridge = Bridge::start(&[]);
    let desk = Desk::on(&bridge);
    let mut client: Client = desk.client(&register(&[ADD]));
    let running = desk.begin(&Ask::call_new("1", "add", "{}"));
    let call: Call = client.call();
    let before = bridge.anonymous_bytes();
    for n in 0..MANY {
        let params = json!({"progress": n}).to_string();
        client.notifies(&call.id, "notifications/progress", &params);
        client.notifies(&call.id, "notifications/message", r#"{"level":"emergency","data":1}"#);
    }
    client.answers(&call.id, r#"{"content":[]}"#);
    let answer = running.finish();
    assert_eq!(answer.messages().len(), 1, "the result alone: {answer}");
    let grown = grown(&bridge, before);
    assert!(grown <= BYTES_MAX, "20,000 notifications for nobody cost {grown} bytes");
}
