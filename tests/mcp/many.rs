//! Many at once (SPEC §5.3): agents that share a token all count from 0, and nothing is mixed up.

use std::time::Duration;

use crate::extra::{ADD, Ask, Desk, member, register};

#[test]
fn two_hundred_calls_with_one_request_id_each_get_their_own_answer() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let token = crate::support::token(&desk.id, "agent");
    std::thread::scope(|scope| {
        let agents: Vec<_> = (0..200)
            .map(|n| {
                let (desk, token) = (&desk, &token);
                scope.spawn(move || {
                    let arguments = format!(r#"{{"n":{n}}}"#);
                    let ask = match n % 2 {
                        0 => Ask::call_old("0", "add", &arguments).session("shared"),
                        _ => Ask::call_new("0", "add", &arguments),
                    };
                    let answer = desk.send(&ask.bearer(token));
                    assert_eq!(answer.raw("id").as_deref(), Some("0"), "{n}: {answer}");
                    let came = answer.raw_path(&["result", "n"]);
                    assert_eq!(came, Some(n.to_string()), "{n}: {answer}");
                })
            })
            .collect();
        // All are held until all have come, then answered the other way round.
        let mut calls: Vec<_> = (0..200).map(|_| client.call()).collect();
        let mut ids: Vec<_> = calls.iter().map(|c| c.id.clone()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 200, "each call has its own ID");
        calls.reverse();
        for call in &calls {
            let arguments = member(&call.params, "arguments").expect("arguments");
            let n = member(&arguments, "n").expect("n");
            client.answers(&call.id, &format!(r#"{{"content":[],"n":{n}}}"#));
        }
        for agent in agents {
            agent.join().expect("each agent got its own");
        }
    });
}

#[test]
fn progress_goes_to_the_call_it_belongs_to() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let params = r#"{"name":"add","_meta":{"progressToken":0}}"#;
    let mut running: Vec<_> =
        (0..10).map(|_| desk.begin(&Ask::old("0", "tools/call", params))).collect();
    // In which of them a call came is not known: each says its own number in progress and result.
    let calls: Vec<_> = (0..10).map(|_| client.call()).collect();
    for round in 0..3 {
        for (n, call) in calls.iter().enumerate() {
            let params = format!(r#"{{"progress":{round},"message":"{n}"}}"#);
            client.notifies(&call.id, "notifications/progress", &params);
        }
    }
    for (n, call) in calls.iter().enumerate() {
        client.answers(&call.id, &format!(r#"{{"content":[],"n":{n}}}"#));
    }
    let mut seen = Vec::new();
    for stream in running.drain(..) {
        let answer = stream.finish();
        let messages = answer.messages();
        assert_eq!(messages.len(), 4, "three and the result: {answer}");
        let n = messages[3]["result"]["n"].as_u64().expect("a number");
        for (round, message) in messages[..3].iter().enumerate() {
            assert_eq!(message["params"]["message"], n.to_string(), "{answer}");
            assert_eq!(message["params"]["progress"], round, "in order: {answer}");
        }
        seen.push(n);
    }
    seen.sort();
    assert_eq!(seen, (0..10).collect::<Vec<u64>>());
}

#[test]
fn one_slow_call_does_not_hold_up_the_others() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let slow = desk.begin(&Ask::call_old("1", "add", "{}"));
    let held = client.call();
    for n in 0..50 {
        let running = desk.begin(&Ask::call_old("1", "add", "{}"));
        let call = client.call();
        client.answers(&call.id, &format!(r#"{{"content":[],"n":{n}}}"#));
        let answer = running.finish();
        assert_eq!(answer.only_json()["result"]["n"], n, "{answer}");
    }
    std::thread::sleep(Duration::from_millis(50));
    client.answers(&held.id, r#"{"content":[],"n":"slow"}"#);
    assert_eq!(slow.finish().only_json()["result"]["n"], "slow");
}
