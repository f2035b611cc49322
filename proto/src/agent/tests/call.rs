//! Calls on their way to a client: what they take along, and whether they fit one message.

use super::*;
use crate::channel::client;
use crate::limits::MESSAGE_BYTES_MAX;

/// The message that a call becomes.
fn message(call: &Call, id: &str, body: &str) -> Option<String> {
    let params = call.params_of(body);
    let (before, after) = call.around_params(id, params.len())?;
    Some(before + params + &after)
}

fn request(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":"a\u0062","method":"{method}","params":{params}}}"#)
}

#[test]
fn params_reach_the_client_byte_for_byte() {
    let rows = [
        ("tools/call", r#"{"name":"add","arguments":{"a" : 1e400,"a":2}}"#),
        ("prompts/get", "{ \"name\":\"p\" ,\n\"_meta\":{\"progressToken\":1}}"),
        ("resources/read", r#"{"uri":"a:b","x":"\ud800"}"#),
        ("completion/complete", r#"{"ref":{},"argument":{}}"#),
        ("completion/complete", "{}"),
    ];
    for (method, params) in rows {
        let body = request(method, params);
        let call = Ask::new(&[]).call(&body);
        assert_eq!(&*call.id, r#""a\u0062""#);
        assert_eq!(&*call.request_key(), r#""ab""#);
        let text = message(&call, "c7", &body).expect("it is short");
        let agent = r#"{"protocolVersion":"2025-03-26"}"#;
        let expected = format!(
            r#"{{"type":"call","id":"c7","method":"{method}","params":{params},"agent":{agent}}}"#
        );
        assert_eq!(text, expected);
        let read = client::Message::Call { id: "c7".into(), method: method.into(), params, agent };
        assert_eq!(client::read(&text), Some(read));
    }
}

/// A bug: no params were taken for the whole body.
#[test]
fn a_call_without_params_reaches_the_client_with_empty_ones() {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"completion/complete"}"#;
    let call = Ask::new(&[]).call(body);
    let text = message(&call, "c7", body).expect("it is short");
    match client::read(&text) {
        Some(client::Message::Call { params, .. }) => assert_eq!(params, "{}"),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_progress_token_is_a_string_or_a_number() {
    let rows = [
        ("1", Some("1")),
        ("-1", Some("-1")),
        ("0.5", Some("0.5")),
        (r#""""#, Some(r#""""#)),
        (r#""\u0061""#, Some(r#""\u0061""#)),
        ("null", None),
        ("true", None),
        ("{}", None),
        ("[1]", None),
    ];
    for (raw, expected) in rows {
        let params = format!(r#"{{"name":"add","_meta":{{"progressToken":{raw}}}}}"#);
        let call = Ask::new(&[]).call(&request("tools/call", &params));
        assert_eq!(call.progress_token.as_deref(), expected, "{raw}");
        assert_eq!(call.log_level, None);
    }
}

#[test]
fn a_call_fits_one_message_or_is_not_sent() {
    let fitting = |bytes: usize, id: &str| {
        let params = format!(r#"{{"name":"add","arguments":{{"x":"{}"}}}}"#, "x".repeat(bytes));
        let body = request("tools/call", &params);
        let call = Ask::new(&[]).call(&body);
        message(&call, id, &body)
    };
    let envelope = fitting(0, "c1").expect("it is short").len();
    for (over, fits) in [(-1, true), (0, true), (1, false), (63, false), (64, false), (65, false)] {
        let bytes = (MESSAGE_BYTES_MAX - envelope).checked_add_signed(over).expect("small");
        let text = fitting(bytes, "c1");
        assert_eq!(text.is_some(), fits, "{over}");
        if let Some(text) = text {
            assert_eq!(text.len(), MESSAGE_BYTES_MAX.checked_add_signed(over).expect("small"));
        }
        // The longest ID there is costs its own length.
        let longest = "c18446744073709551615";
        assert_eq!(fitting(bytes + 2 - longest.len(), longest).is_some(), fits, "{over}");
    }
}

#[test]
fn a_call_is_judged_by_what_is_offered_when_it_meets_the_client() {
    let (tools, all) = (tools_only(), everything());
    let body = request("tools/call", r#"{"name":"light"}"#);
    let client_id = ClientId::parse("kitchen").expect("a client ID");
    let call = Ask::new(&[]).call(&body);
    let judge = |offer| call.judge(View { client_id: &client_id, offer }, &body);
    assert_eq!(judge(None), Ok(()));
    assert_eq!(judge(Some(&tools)), Ok(()));
    assert_eq!(judge(Some(&all)), Err(Fault::UnknownTool("light".into())));
    let body = request("prompts/get", r#"{"name":"nobody checks this"}"#);
    let call = Ask::new(&[]).call(&body);
    let judge = |offer| call.judge(View { client_id: &client_id, offer }, &body);
    assert_eq!(judge(Some(&all)), Ok(()));
    assert_eq!(judge(Some(&tools)), Err(Fault::MethodNotFound("prompts/get".into())));
}
