//! What streams are told (SPEC §5.5): `list_changed` for exactly the lists that changed, gathered,
//! and nothing when nothing changed.

use std::time::{Duration, Instant};

use crate::extra::{ADD, Ask, Desk, Stream, register};
use crate::support::Event;

const SUM: &str = r#"{"name":"sum","inputSchema":{"type":"object"}}"#;

/// The methods of the notifications that come, sorted: at least `least` of them, however long a
/// busy machine takes, and all that come in the `time` after.
fn methods(stream: &mut Stream, least: usize, time: f64) -> Vec<String> {
    let mut records: Vec<String> = (0..least).map(|_| stream.event(5.0)).collect();
    let (more, end) = stream.events_for(time);
    records.extend(more);
    assert_eq!(end, Event::Quiet, "the stream stays, after {records:?}");
    let method = |text: &String| {
        let message: serde_json::Value = serde_json::from_str(text).expect("JSON");
        message["method"].as_str().unwrap_or_else(|| panic!("no method: {text}")).to_owned()
    };
    let mut methods: Vec<String> = records.iter().map(method).collect();
    methods.sort();
    methods
}

const ALL: &str =
    r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}"#;

#[test]
fn exactly_the_lists_that_changed_are_named() {
    let desk = Desk::open();
    let mut client = desk.settled_client(r#"{"type":"register"}"#);
    let mut get = desk.listens(&Ask::get());
    let (mut listen, _) = desk.subscribes("1", ALL);
    let tools = "notifications/tools/list_changed";
    let prompts = "notifications/prompts/list_changed";
    let resources = "notifications/resources/list_changed";
    let p = r#"{"name":"p"}"#;
    let r = r#"{"uri":"u://1","name":"r"}"#;
    let t = r#"{"uriTemplate":"u://{x}","name":"t"}"#;
    let rows: Vec<(String, Vec<&str>)> = vec![
        (format!(r#","tools":[{ADD}]"#), vec![tools]),
        (format!(r#","tools":[{ADD}]"#), vec![]),
        (format!(r#","tools":[{ADD}],"prompts":[{p}]"#), vec![prompts]),
        (format!(r#","tools":[{ADD}],"prompts":[{p}],"resources":[{r}]"#), vec![resources]),
        (
            format!(
                r#","tools":[{ADD}],"prompts":[{p}],"resources":[{r}],"resourceTemplates":[{t}]"#
            ),
            vec![resources],
        ),
        (
            format!(
                r#","tools":[{ADD},{SUM}],"prompts":[{p},{{"name":"q"}}],"resources":[{r}],"resourceTemplates":[{t}]"#
            ),
            vec![prompts, tools],
        ),
        // Another order is another list; another description another tool.
        (
            format!(
                r#","tools":[{SUM},{ADD}],"prompts":[{p},{{"name":"q"}}],"resources":[{r}],"resourceTemplates":[{t}]"#
            ),
            vec![tools],
        ),
        (String::new(), vec![prompts, resources, tools]),
    ];
    for (members, expected) in rows {
        client.offers(&format!(r#"{{"type":"register"{members}}}"#));
        assert_eq!(methods(&mut get, expected.len(), 0.4), expected, "GET: {members}");
        assert_eq!(methods(&mut listen, expected.len(), 0.1), expected, "listen: {members}");
    }
}

#[test]
fn what_is_no_list_changes_no_list() {
    let desk = Desk::open();
    let mut client = desk.settled_client(&register(&[ADD]));
    let mut get = desk.listens(&Ask::get());
    for members in [
        r#","server":{"name":"N","version":"1"}"#,
        r#","instructions":"other""#,
        r#","ttlMs":9"#,
        r#","unknown":[1]"#,
        "",
    ] {
        client.offers(&format!(r#"{{"type":"register","tools":[{ADD}]{members}}}"#));
    }
    get.hears_no_event(0.5);
}

#[test]
fn a_client_that_comes_with_a_list_changes_it_and_one_without_does_not() {
    let empty = Desk::open();
    let mut get = empty.listens(&Ask::get());
    let _client = empty.client(&register(&[]));
    get.hears_no_event(0.5);

    let desk = Desk::open();
    let mut get = desk.listens(&Ask::get());
    let (mut listen, _) = desk.subscribes("1", ALL);
    let _client = desk.client(&register(&[ADD]));
    let expected = ["notifications/tools/list_changed"];
    assert_eq!(methods(&mut get, 1, 0.4), expected);
    assert_eq!(methods(&mut listen, 1, 0.1), expected);
}

#[test]
fn a_hundred_registers_in_a_burst_are_gathered() {
    let desk = Desk::open();
    let mut client = desk.settled_client(&register(&[]));
    let mut get = desk.listens(&Ask::get());
    let begun = Instant::now();
    for n in 0..100 {
        let tool = format!(r#"{{"name":"t{n}","inputSchema":{{"type":"object"}}}}"#);
        client.says(&register(&[&tool]));
    }
    for n in 0..100 {
        match client.hears(10.0) {
            crate::support::Heard::Text(text) => {
                assert!(text.contains(r#""registered""#), "answer {n}: {text}");
            }
            other => panic!("every register is answered; number {n}: {other:?}"),
        }
    }
    let took = begun.elapsed();
    let most = 1 + took.as_millis() / 100;
    let heard = methods(&mut get, 1, 0.6).len();
    assert!(
        (1..=most).contains(&(heard as u128)),
        "{heard} notifications for 100 registers in {took:?}; one each 100 ms at most"
    );
    let answer = desk.send(&Ask::old("1", "tools/list", "{}"));
    assert_eq!(answer.json()["result"]["tools"][0]["name"], "t99", "the last one: {answer}");
}

#[test]
fn notifications_of_one_list_are_a_tenth_of_a_second_apart() {
    let desk = Desk::open();
    let mut client = desk.settled_client(&register(&[]));
    let mut get = desk.listens(&Ask::get());
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let until = Instant::now() + Duration::from_millis(1300);
            let mut times = Vec::new();
            loop {
                let left = until.saturating_duration_since(Instant::now());
                match get.next(left.as_secs_f64()) {
                    Event::Data(_) => times.push(Instant::now()),
                    Event::Comment(_) => {}
                    Event::Quiet => return times,
                    other => panic!("the stream stays, not {other:?}"),
                }
            }
        });
        for n in 0..40 {
            let tool = format!(r#"{{"name":"t{n}","inputSchema":{{"type":"object"}}}}"#);
            client.offers(&register(&[&tool]));
            std::thread::sleep(Duration::from_millis(20));
        }
        let times = reader.join().expect("the reader does not panic");
        assert!(
            times.len() >= 3,
            "changes over 0.8 s are told as they go, not {} times",
            times.len()
        );
        // Two readings of a clock on a busy machine: some slack, but far from 20 ms.
        let close = times.windows(2).filter(|w| w[1] - w[0] < Duration::from_millis(60)).count();
        assert!(close <= 1, "{close} of {} came within 60 ms of the one before", times.len());
    });
}

#[test]
fn a_client_that_comes_back_with_the_same_offer_changes_nothing() {
    let desk = Desk::open();
    let client = desk.settled_client(&register(&[ADD]));
    let mut get = desk.listens(&Ask::get());
    client.vanishes();
    let answer = desk.send(&Ask::old("1", "tools/list", "{}"));
    let text = answer.text().to_owned();
    assert!(text.contains("add"), "the offer is kept for a while: {answer}");
    let client = desk.client(&register(&[ADD]));
    client.leaves();
    let _client = desk.client(&register(&[ADD]));
    get.hears_no_event(0.5);
}

#[test]
fn a_client_that_comes_back_with_another_offer_is_one_change() {
    let desk = Desk::open();
    let client = desk.settled_client(&register(&[ADD]));
    let mut get = desk.listens(&Ask::get());
    client.leaves();
    let _client = desk.client(&register(&[ADD, SUM]));
    assert_eq!(methods(&mut get, 1, 0.4), ["notifications/tools/list_changed"]);
}

#[test]
fn quiet_streams_get_a_comment_every_fifteen_seconds() {
    let desk = Desk::open();
    let mut get = desk.listens(&Ask::get());
    let (mut listen, _) = desk.subscribes("1", ALL);
    for (name, stream) in [("GET", &mut get), ("listen", &mut listen)] {
        let begun = Instant::now();
        // The second stream's comment has come while the first was read.
        let event = stream.next(17.0);
        let waited = begun.elapsed();
        assert!(matches!(event, Event::Comment(_)), "{name}: {event:?} after {waited:?}");
    }
}
