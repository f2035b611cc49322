//! Many at once (SPEC §5.3): agents that share a token all count from 0, and nothing is mixed up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::extra::{ADD, Ask, Client, Desk, member, register};
use crate::support::Heard;

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

/// A few numbers that look random; the seed is printed by whoever fails.
struct Dice(u64);

impl Dice {
    /// From 0 to `below` - 1.
    fn throw(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }
}

/// Answers every call with its own number, some of them late, until `over`, the close, or
/// `lifetime`.
fn echoes(client: &mut Client, dice: &mut Dice, over: &AtomicBool, lifetime: Duration) {
    let until = Instant::now() + lifetime;
    while !over.load(Ordering::Relaxed) && Instant::now() < until {
        match client.hears(0.02) {
            Heard::Text(text) if text.contains(r#""type":"call""#) => {
                let id: String =
                    serde_json::from_str(&member(&text, "id").expect("id")).expect("id");
                let arguments = member(&member(&text, "params").expect("params"), "arguments");
                let n = member(&arguments.expect("arguments"), "n").expect("n");
                if dice.throw(4) == 0 {
                    client.notifies(&id, "notifications/progress", r#"{"progress":1}"#);
                }
                if dice.throw(10) == 0 {
                    std::thread::sleep(Duration::from_millis(dice.throw(30)));
                }
                client.answers(&id, &format!(r#"{{"content":[],"n":{n}}}"#));
            }
            Heard::Text(_) | Heard::Ping | Heard::Pong | Heard::Quiet => {}
            Heard::Close(..) | Heard::Gone(_) => return,
            other => panic!("expected messages, got {other:?}"),
        }
    }
}

#[test]
fn among_hang_ups_and_replaced_clients_each_call_gets_its_own_answer_or_words() {
    let desk = Desk::open();
    let over = AtomicBool::new(false);
    let first = desk.client(&register(&[ADD]));
    std::thread::scope(|scope| {
        let (desk, over) = (&desk, &over);
        let agents: Vec<_> = (0..6)
            .map(|seed| {
                scope.spawn(move || {
                    let mut dice = Dice(seed);
                    let until = Instant::now() + Duration::from_secs(3);
                    let (mut answered, mut worded) = (0, 0);
                    while Instant::now() < until {
                        let n = dice.throw(1 << 20);
                        let params = format!(
                            r#"{{"name":"add","arguments":{{"n":{n}}},"_meta":{{"progressToken":0}}}}"#
                        );
                        let ask = match dice.throw(3) {
                            0 => Ask::old("0", "tools/call", &params),
                            1 => Ask::old("0", "tools/call", &params).session("s"),
                            _ => Ask::call_new("0", "add", &format!(r#"{{"n":{n}}}"#)),
                        };
                        let running = desk.begin(&ask);
                        if dice.throw(5) == 0 {
                            std::thread::sleep(Duration::from_millis(dice.throw(8)));
                            match dice.throw(2) {
                                0 => drop(running),
                                _ => running.resets(),
                            }
                            continue;
                        }
                        let answer = running.finish();
                        match answer.raw_path(&["result", "n"]) {
                            Some(came) => {
                                assert_eq!(came, n.to_string(), "seed {seed}: {answer}");
                                answered += 1;
                            }
                            None => {
                                let words = answer.tool_error();
                                assert!(words.contains("may have run"), "seed {seed}: {words}");
                                worded += 1;
                            }
                        }
                    }
                    (answered, worded)
                })
            })
            .collect();
        scope.spawn(move || {
            let mut dice = Dice(77);
            let mut client = first;
            while !over.load(Ordering::Relaxed) {
                let lifetime = Duration::from_millis(50 + dice.throw(300));
                echoes(&mut client, &mut dice, over, lifetime);
                match dice.throw(3) {
                    0 => client.vanishes(),
                    1 => client.leaves(),
                    _ => {
                        // Replaced while it is there; it goes on answering until it is closed.
                        let newer = desk.client(&register(&[ADD]));
                        echoes(&mut client, &mut dice, over, Duration::from_millis(50));
                        client = newer;
                        continue;
                    }
                }
                client = desk.client(&register(&[ADD]));
            }
        });
        let mut total = 0;
        let mut failed = None;
        for agent in agents {
            match agent.join() {
                Ok((answered, _)) => total += answered,
                Err(panic) => failed = Some(panic),
            }
        }
        over.store(true, Ordering::Relaxed);
        if let Some(panic) = failed {
            std::panic::resume_unwind(panic);
        }
        assert!(total > 100, "only {total} calls were answered in 3 s");
    });
    desk.bridge.assert_well("hang-ups and replaced clients");
}
