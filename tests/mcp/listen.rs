//! `subscriptions/listen` of the 2026 era (SPEC §5.5): acknowledgment first, the subscription's ID
//! on everything, only what was asked for.

use serde_json::{Value, json};

use crate::extra::{ADD, Ask, Desk, SUB, member, register};

/// The raw subscription ID of a message.
fn subscription(text: &str) -> Option<String> {
    let outer = member(text, "params").or_else(|| member(text, "result"))?;
    member(&member(&outer, "_meta")?, "io.modelcontextprotocol/subscriptionId")
}

#[test]
fn the_acknowledgment_comes_first_and_at_once_and_keeps_the_ids_type() {
    let desk = Desk::open();
    let mut client = desk.settled_client(&register(&[]));
    let ids = ["0", "1", "\"1\"", "\"\"", "-5", "9007199254740993", r#""listen:0\u0041""#];
    for (n, id) in ids.iter().enumerate() {
        let asked = std::time::Instant::now();
        let (mut stream, ack) = desk.subscribes(id, r#"{"toolsListChanged":true}"#);
        assert!(asked.elapsed().as_millis() < 800, "first bytes at once: {:?}", asked.elapsed());
        let message: Value = serde_json::from_str(&ack).expect("JSON");
        assert_eq!(message["method"], "notifications/subscriptions/acknowledged", "{ack}");
        assert_eq!(message["params"]["notifications"], json!({"toolsListChanged": true}), "{ack}");
        assert_eq!(subscription(&ack).as_deref(), Some(*id), "{ack}");
        assert_eq!(message.get("id"), None, "a notification: {ack}");
        assert_eq!(stream.header("x-accel-buffering").as_deref(), Some("no"));

        let tool = format!(r#"{{"name":"t{n}","inputSchema":{{"type":"object"}}}}"#);
        client.offers(&register(&[&tool]));
        let event = stream.event(3.0);
        assert!(event.contains("notifications/tools/list_changed"), "{event}");
        assert_eq!(subscription(&event).as_deref(), Some(*id), "{event}");
    }
}

#[test]
fn every_known_kind_is_acknowledged_registered_or_not_and_nothing_else() {
    let desk = Desk::open();
    let rows = [
        ("{}", json!({})),
        (
            r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a://1","b://2"]}"#,
            json!({"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a://1","b://2"]}),
        ),
        (r#"{"toolsListChanged":true,"rootsListChanged":true}"#, json!({"toolsListChanged":true})),
    ];
    // First with nobody registered, then with a client that has tools only.
    let mut client = None;
    for _ in 0..2 {
        for (asked, agreed) in &rows {
            let (_stream, ack) = desk.subscribes("1", asked);
            let message: Value = serde_json::from_str(&ack).expect("JSON");
            assert_eq!(message["params"]["notifications"], *agreed, "{asked}: {ack}");
        }
        client = client.or_else(|| Some(desk.client(&register(&[ADD]))));
    }
    let (_stream, ack) =
        desk.subscribes("1", r#"{"toolsListChanged":false,"promptsListChanged":true}"#);
    let message: Value = serde_json::from_str(&ack).expect("JSON");
    let agreed = &message["params"]["notifications"];
    assert_eq!(agreed["promptsListChanged"], true, "{ack}");
    assert_ne!(agreed["toolsListChanged"], true, "not asked for: {ack}");
}

#[test]
fn only_what_was_asked_for_comes() {
    let desk = Desk::open();
    let mut client = desk.settled_client(r#"{"type":"register"}"#);
    let (mut tools, _) = desk.subscribes("1", r#"{"toolsListChanged":true}"#);
    let (mut prompts, _) =
        desk.subscribes("2", r#"{"promptsListChanged":true,"toolsListChanged":false}"#);
    let (mut nothing, _) = desk.subscribes("3", "{}");
    client.offers(&register(&[ADD]));
    assert!(tools.event(3.0).contains("notifications/tools/list_changed"));
    client.offers(&format!(r#"{{"type":"register","tools":[{ADD}],"prompts":[{{"name":"p"}}]}}"#));
    assert!(prompts.event(3.0).contains("notifications/prompts/list_changed"));
    tools.hears_no_event(0.3);
    prompts.hears_no_event(0.1);
    nothing.hears_no_event(0.1);
}

#[test]
fn resource_updates_come_for_the_uris_named() {
    let desk = Desk::open();
    let mut client = desk.settled_client(SUB);
    let (mut one, _) = desk.subscribes("\"one\"", r#"{"resourceSubscriptions":["x://1"]}"#);
    let (mut two, _) =
        desk.subscribes("2", r#"{"resourceSubscriptions":["x://2","x:\/\/3","x://\u0034"]}"#);
    let (mut all, _) = desk.subscribes("3", r#"{"resourcesListChanged":true}"#);
    let update = |uri: &str| {
        format!(
            r#"{{"type":"notify","method":"notifications/resources/updated","params":{{"uri":"{uri}","_meta":{{"own":1.50}}}}}}"#
        )
    };
    client.says(&update("x://1"));
    let event = one.event(3.0);
    let message: Value = serde_json::from_str(&event).expect("JSON");
    assert_eq!(message["method"], "notifications/resources/updated", "{event}");
    assert_eq!(message["params"]["uri"], "x://1", "{event}");
    assert_eq!(subscription(&event).as_deref(), Some("\"one\""), "{event}");

    // Spellings of one URI are one URI.
    for uri in ["x://2", "x://3", "x:\\/\\/4"] {
        client.says(&update(uri));
        let event = two.event(3.0);
        let message: Value = serde_json::from_str(&event).expect("JSON");
        assert_eq!(message["params"]["uri"].as_str(), Some(&*uri.replace('\\', "")), "{event}");
    }
    one.hears_no_event(0.2);
    all.hears_no_event(0.1);
}

#[test]
fn a_change_right_after_the_acknowledgment_is_not_lost() {
    let desk = Desk::open();
    let mut client = desk.settled_client(&register(&[]));
    for n in 0..10 {
        let (mut stream, _) = desk.subscribes("1", r#"{"toolsListChanged":true}"#);
        let tool = format!(r#"{{"name":"t{n}","inputSchema":{{"type":"object"}}}}"#);
        client.offers(&register(&[&tool]));
        assert!(stream.event(3.0).contains("list_changed"), "round {n}");
    }
}

#[test]
fn listen_needs_an_event_stream_and_a_filter() {
    let desk = Desk::open();
    let listen = Ask::new("1", "subscriptions/listen", r#""notifications":{}"#);
    let answer = desk.send(&listen.header("Accept", "application/json"));
    assert_eq!((answer.status, answer.code()), (406, Some(-32600)), "{answer}");

    for rest in ["", r#""notifications":[]"#, r#""notifications":true"#, r#""notifications":null"#]
    {
        let answer = desk.send(&Ask::new("1", "subscriptions/listen", rest));
        assert_eq!(answer.code(), Some(-32602), "{rest:?}: {answer}");
    }
}

#[test]
fn streams_with_one_id_are_separate_subscriptions() {
    let desk = Desk::open();
    let mut client = desk.settled_client(&register(&[]));
    let (first, _) = desk.subscribes("\"listen:0\"", r#"{"toolsListChanged":true}"#);
    let (mut second, _) = desk.subscribes("\"listen:0\"", r#"{"toolsListChanged":true}"#);
    drop(first);
    client.offers(&register(&[ADD]));
    assert!(second.event(3.0).contains("list_changed"));
}

#[test]
fn call_notifications_do_not_come_on_listen_or_get_streams() {
    let desk = Desk::open();
    let mut client = desk.settled_client(&register(&[ADD]));
    let (mut listen, _) = desk.subscribes("1", r#"{"toolsListChanged":true}"#);
    let mut get = desk.listens(&Ask::get());
    let ask = Ask::new_meta(
        "2",
        "tools/call",
        r#""progressToken":1,"io.modelcontextprotocol/logLevel":"debug""#,
        r#""name":"add""#,
    );
    let running = desk.begin(&ask.header("Mcp-Name", "add"));
    let call = client.call();
    client.notifies(&call.id, "notifications/progress", r#"{"progress":1}"#);
    client.notifies(&call.id, "notifications/message", r#"{"level":"error","data":1}"#);
    client.answers(&call.id, r#"{"content":[]}"#);
    assert_eq!(running.finish().messages().len(), 3);
    listen.hears_no_event(0.2);
    get.hears_no_event(0.1);
}

#[test]
fn a_filter_may_name_256_uris_of_4096_bytes() {
    let desk = Desk::open();
    let uri = |n: usize, bytes: usize| format!("\"x://{n:0>width$}\"", width = bytes - 4);
    let rows = [
        ("256 of 4,096", (0..256).map(|n| uri(n, 4096)).collect::<Vec<_>>(), true),
        ("257", (0..257).map(|n| uri(n, 8)).collect(), false),
        ("one of 4,097", vec![uri(0, 8), uri(1, 4097)], false),
    ];
    for (name, uris, taken) in rows {
        let filter = format!(r#"{{"resourceSubscriptions":[{}]}}"#, uris.join(","));
        if taken {
            let (_stream, ack) = desk.subscribes("1", &filter);
            let message: Value = serde_json::from_str(&ack).expect("JSON");
            let agreed = &message["params"]["notifications"]["resourceSubscriptions"];
            assert_eq!(agreed.as_array().map(Vec::len), Some(uris.len()), "{name}");
            continue;
        }
        let rest = format!(r#""notifications":{filter}"#);
        let answer = desk.send(&Ask::new("1", "subscriptions/listen", &rest));
        assert_eq!(answer.code(), Some(-32602), "{name}: {answer}");
    }
}
