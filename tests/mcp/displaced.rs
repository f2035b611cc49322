//! Two clients with one ID (SPEC §4): the newest accepted one wins, and a call is never sent twice.

use crate::extra::{ADD, Ask, Client, Desk, register};
use crate::support::{Heard, token};

#[test]
fn a_newer_client_takes_over_and_the_older_ones_calls_may_have_run() {
    let desk = Desk::open();
    let mut older = desk.client(&register(&[ADD]));
    let tool_call = desk.begin(&Ask::call_old("1", "add", "{}"));
    let modern_call = desk.begin(&Ask::call_new("1", "add", "{}"));
    let calls = [older.call(), older.call()];

    let mut newer = desk.client(&register(&[ADD]));
    for answer in [tool_call.finish(), modern_call.finish()] {
        assert!(answer.tool_error().contains("may have run"), "{answer}");
    }
    newer.hears_nothing(0.3);
    // The older one's late answers help nobody, and it hears why it was closed.
    let mut saw_cancel = false;
    let (code, reason) = loop {
        match older.hears(5.0) {
            Heard::Close(code, reason) => break (code, reason),
            Heard::Text(text) => saw_cancel |= text.contains("cancel"),
            other => panic!("expected 4409, got {other:?} (cancel seen: {saw_cancel})"),
        }
    };
    assert_eq!(code, 4409, "{reason}");

    let running = desk.begin(&Ask::call_old("2", "add", r#"{"for":"the newer"}"#));
    let call = newer.call();
    assert!(call.params.contains("the newer"), "{call:?} after {calls:?}");
    newer.answers(&call.id, r#"{"content":[]}"#);
    assert_eq!(running.finish().code(), None);
}

#[test]
fn a_newer_client_counts_only_once_its_register_is_accepted() {
    let desk = Desk::open();
    let mut older = desk.client(&register(&[ADD]));

    // One that joins and says nothing, and one whose register is refused, displace nobody.
    let silent = Client::joins(&desk, &token(&desk.id, "client"));
    let mut bad = Client::joins(&desk, &token(&desk.id, "client"));
    bad.says(r#"{"type":"register","tools":{}}"#);
    assert_eq!(bad.close().0, 4400);
    older.hears_nothing(0.3);
    let running = desk.begin(&Ask::call_old("1", "add", "{}"));
    let call = older.call();
    older.answers(&call.id, r#"{"content":[]}"#);
    assert_eq!(running.finish().code(), None);

    let mut silent = silent;
    silent.offers(&register(&[ADD]));
    assert_eq!(older.close().0, 4409);
}

#[test]
fn a_displaced_clients_late_words_change_nothing() {
    let desk = Desk::open();
    let older = desk.client(&register(&[ADD]));
    let mut newer = desk.client(&register(&[]));
    // The replaced connection's own end must not take the new one with it.
    older.leaves();
    newer.is_alive();
    newer.offers(&register(&[ADD]));
    let answer = desk.send(&Ask::old("1", "tools/list", "{}"));
    assert_eq!(answer.json()["result"]["tools"][0]["name"], "add", "{answer}");
    let running = desk.begin(&Ask::call_old("1", "add", "{}"));
    let call = newer.call();
    newer.answers(&call.id, r#"{"content":[]}"#);
    assert_eq!(running.finish().code(), None);
}

#[test]
fn clients_of_other_ids_notice_nothing() {
    let (one, two) = (Desk::open(), Desk::open());
    let client = one.client(&register(&[ADD]));
    let mut other = two.settled_client(&register(&[ADD]));
    let mut stream = two.listens(&Ask::get());
    let running = two.begin(&Ask::call_old("1", "add", "{}"));
    let call = other.call();
    client.vanishes();
    other.hears_nothing(0.3);
    stream.hears_no_event(0.1);
    other.answers(&call.id, r#"{"content":[]}"#);
    assert_eq!(running.finish().code(), None);
}
