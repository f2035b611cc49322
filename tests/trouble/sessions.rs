//! What sessions of the 2025 era ask to be remembered (SPEC §5.4) is bounded in memory, and the process
//! shows it. That it is so for any number of sessions and any size of IDs and URIs, too many for a test
//! from outside, is tested beside `Sessions` in `src/registry/sessions.rs`.

use serde_json::json;

use crate::extra::{Ask, Desk, SUB};
use crate::support::Bridge;

const MIB: u64 = 1 << 20;

/// A URI of `bytes` bytes.
fn uri(n: usize, bytes: usize) -> String {
    let number = n.to_string();
    format!("x://{}{number}", "0".repeat(bytes - 4 - number.len()))
}

/// Has a session subscribe these URIs, all in one batch, and fails when one is refused.
fn subscribes(desk: &Desk, session: &str, uris: impl Iterator<Item = String>) {
    let requests = uris.enumerate().map(|(id, uri)| {
        json!({"jsonrpc": "2.0", "id": id, "method": "resources/subscribe", "params": {"uri": uri}})
            .to_string()
    });
    let batch = format!("[{}]", requests.collect::<Vec<_>>().join(","));
    let answer = desk.send(&Ask::post(&batch).session(session));
    assert_eq!(answer.status, 200, "{answer}");
    assert!(!answer.text().contains("error"), "{answer}");
}

#[test]
fn subscriptions_cost_a_bounded_amount_of_memory_and_the_oldest_are_forgotten() {
    let bridge = Bridge::start(&[]);
    let desk = Desk::on(&bridge);
    let mut client = desk.settled_client(SUB);
    let mut oldest = desk.listens(&Ask::get().session("session-0"));
    let mut newest = desk.listens(&Ask::get().session("session-19"));
    let before = bridge.resident_bytes();

    // 20 sessions of 256 URIs of 4,096 bytes are 20 MiB; 16 are remembered.
    for session in 0..20 {
        for part in [0..100, 100..200, 200..256] {
            subscribes(&desk, &format!("session-{session}"), part.map(|n| uri(n, 4096)));
        }
    }
    // And URIs of megabytes are not kept at all.
    for n in 0..5 {
        let params = format!(r#"{{"uri":"{}"}}"#, uri(n, (4 << 20) - 500));
        let answer = desk.send(&Ask::old("1", "resources/subscribe", &params).session("large"));
        assert_eq!((answer.status, answer.code()), (200, Some(-32602)), "{answer}");
    }
    let grown = bridge.resident_bytes().saturating_sub(before) / MIB;
    assert!(grown < 30, "subscriptions of 40 MiB cost {grown} MiB");

    let params = json!({"uri": uri(255, 4096)});
    client.says(
        &json!({"type": "notify", "method": "notifications/resources/updated", "params": params})
            .to_string(),
    );
    assert!(newest.event(3.0).contains("resources/updated"), "the newest is remembered");
    oldest.hears_no_event(0.3);
}
