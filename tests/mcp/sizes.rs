//! Large things (SPEC §4, §5, §5.3): what fits passes whole, what does not is refused in words, and
//! nobody's connection suffers.

use crate::extra::{ADD, Ask, Client, Desk, member, register};
use crate::support::MESSAGE_BYTES_MAX;

const MIB: usize = 1 << 20;

fn works(desk: &Desk, client: &mut Client) {
    let running = desk.begin(&Ask::call_old("77", "add", "{}"));
    let call = client.call();
    client.answers(&call.id, r#"{"content":[]}"#);
    let answer = running.finish();
    assert_eq!((answer.status, answer.code()), (200, None), "the next call: {answer}");
}

/// Text with every length of UTF-8 and some escapes, about `bytes` long.
fn text_of(bytes: usize) -> String {
    let unit = r"aä€😀\n\/\u0041 ";
    unit.repeat(bytes / unit.len() + 1)
}

#[test]
fn three_mib_pass_both_ways_and_large_answers_are_json() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    for size in [MIB - 1000, MIB + MIB / 2, 3 * MIB] {
        let text = text_of(size);
        let arguments = format!(r#"{{"text":"{text}"}}"#);
        for ask in [Ask::call_old("1", "add", &arguments), Ask::call_new("1", "add", &arguments)] {
            let running = desk.begin(&ask);
            let call = client.call();
            let came = member(&call.params, "arguments").unwrap_or_default();
            assert!(came == arguments, "{size}: {} bytes came", came.len());
            let content = format!(r#"[{{"type":"text","text":"{text}"}}]"#);
            client.answers(&call.id, &format!(r#"{{"content":{content}}}"#));
            let answer = running.finish();
            assert_eq!(answer.status, 200, "{size}: {answer}");
            // A popular agent refuses events over 1 MiB.
            assert_eq!(answer.content_type(), "application/json", "{size}: {answer}");
            let came = answer.raw_path(&["result", "content"]).unwrap_or_default();
            assert!(came == content, "{size}: {} bytes came", came.len());
        }
    }
}

#[test]
fn a_large_result_on_a_begun_stream_is_one_event() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let ask = Ask::old("1", "tools/call", r#"{"name":"add","_meta":{"progressToken":1}}"#);
    let mut running = desk.begin(&ask);
    let call = client.call();
    client.notifies(&call.id, "notifications/progress", r#"{"progress":1}"#);
    running.event(3.0);
    let result = format!(r#"{{"text":"{}"}}"#, text_of(2 * MIB));
    client.answers(&call.id, &result);
    let answer = running.finish();
    assert!(answer.raw("result").as_deref() == Some(&*result), "{answer}");
}

/// A call's body of exactly `size` bytes.
fn body_of(size: usize) -> String {
    let empty = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"x":""}}}"#;
    empty.replace(r#""x":"""#, &format!(r#""x":"{}""#, "y".repeat(size - empty.len())))
}

#[test]
fn a_call_that_does_not_fit_a_channel_message_is_a_tool_error() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let body = body_of(MESSAGE_BYTES_MAX);
    assert_eq!(body.len(), MESSAGE_BYTES_MAX);
    let answer = desk.send(&Ask::post(&body).header("MCP-Protocol-Version", "2025-11-25"));
    assert_eq!(answer.status, 200, "{answer}");
    let words = answer.tool_error();
    assert!(!words.is_empty(), "{answer}");
    client.hears_nothing(0.2);
    client.is_alive();
    works(&desk, &mut client);
}

#[test]
fn for_another_method_it_is_an_internal_error() {
    let desk = Desk::open();
    let mut client =
        desk.client(r#"{"type":"register","tools":[{"name":"add","inputSchema":{"type":"object"}}],"prompts":[{"name":"p"}]}"#);
    let params =
        format!(r#"{{"name":"p","arguments":{{"x":"{}"}}}}"#, "y".repeat(MESSAGE_BYTES_MAX - 120));
    let answer = desk.send(&Ask::old("1", "prompts/get", &params));
    assert_eq!((answer.status, answer.code()), (200, Some(-32603)), "{answer}");
    client.hears_nothing(0.2);
    works(&desk, &mut client);
}

#[test]
fn a_body_over_four_mib_is_413_and_the_answer_can_be_read() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    for size in [MESSAGE_BYTES_MAX + 1, 2 * MESSAGE_BYTES_MAX] {
        let answer = desk.send(&Ask::post(&body_of(size)));
        assert_eq!((answer.status, answer.code()), (413, Some(-32600)), "{size}: {answer}");
        assert_eq!(answer.raw("id"), None, "{size}: {answer}");
    }
    client.hears_nothing(0.1);
    works(&desk, &mut client);
}

#[test]
fn a_result_message_of_exactly_four_mib_passes() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    for short_of in [0, 1] {
        let running = desk.begin(&Ask::call_old("1", "add", "{}"));
        let call = client.call();
        let empty = format!(r#"{{"type":"result","id":"{}","result":{{"x":""}}}}"#, call.id);
        let fill = MESSAGE_BYTES_MAX - short_of - empty.len();
        let result = format!(r#"{{"x":"{}"}}"#, "z".repeat(fill));
        client.answers(&call.id, &result);
        let answer = running.finish();
        let came = answer.raw("result").unwrap_or_default();
        assert!(came == result, "{short_of} short: {} bytes came: {answer}", came.len());
        client.is_alive();
    }
}

#[test]
fn an_oversized_result_ends_with_1009_and_its_call_with_words() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let running = desk.begin(&Ask::call_old("1", "add", "{}"));
    let call = client.call();
    client.answers(&call.id, &format!(r#"{{"x":"{}"}}"#, "z".repeat(MESSAGE_BYTES_MAX)));
    assert_eq!(client.close().0, 1009);
    let answer = running.finish();
    assert!(answer.tool_error().contains("may have run"), "{answer}");
}
