//! The three tables of refusals, spelled out: codes, statuses and words. A variant without a line in
//! its table does not compile.

use alloc::string::ToString;
use alloc::vec::Vec;
use alloc::{format, vec};

use super::*;
use crate::limits::CLOSE_REASON_BYTES_MAX;

/// A table with a line for every variant of an enum: pattern, an example, and what is expected of it.
macro_rules! table {
    ($name:ident: $kind:ty, $row:ty; $($pattern:pat => $example:expr, $expected:expr;)*) => {
        pub(crate) fn $name() -> Vec<($kind, $row)> {
            // Without a wildcard: a variant that is added has to be added here, with its example.
            let line = |one: &$kind| match one { $($pattern => stringify!($pattern),)* };
            let rows: Vec<($kind, $row)> = vec![$(($example, $expected)),*];
            let lines: Vec<&str> = rows.iter().map(|(example, _)| line(example)).collect();
            assert_eq!(lines, [$(stringify!($pattern)),*], "an example stands in another's line");
            rows
        }
    };
}

table! { faults: Fault, (i32, u16, u16, &'static str);
    Fault::ParseError(_) => Fault::ParseError("a".into()), (-32700, 400, 400, "Parse error: a");
    Fault::InvalidRequest(_) => Fault::InvalidRequest("b".into()),
        (-32600, 400, 400, "Invalid request: b");
    Fault::MethodNotFound(_) => Fault::MethodNotFound("c/d".into()),
        (-32601, 200, 404, "Method not found: c/d");
    Fault::InvalidParams(_) => Fault::InvalidParams("e".into()),
        (-32602, 200, 400, "Invalid params: e");
    Fault::BadArgument(_) => Fault::BadArgument("f".into()),
        (-32602, 200, 200, "Invalid params: f");
    Fault::UnknownTool(_) => Fault::UnknownTool("g".into()), (-32602, 200, 200, "Unknown tool: g");
    Fault::HeaderMismatch(_) => Fault::HeaderMismatch("h".into()),
        (-32020, 400, 400, "Header mismatch: h");
    Fault::MissingCapability(_) => Fault::MissingCapability(r#"{"roots":{}}"#.into()),
        (-32021, 200, 400, "The application asked for something this agent did not declare");
    Fault::UnsupportedVersion(_) => Fault::UnsupportedVersion(r#""i""#.into()),
        (-32022, 400, 400, "Unsupported protocol version \"i\"; this server supports 2026-07-28");
    Fault::Unauthorized(None) => Fault::Unauthorized(None),
        (-32600, 401, 401, "Unauthorized: send the header `Authorization: Bearer <token>` with a token of scope `agent`");
    Fault::Unauthorized(Some(_)) => Fault::Unauthorized(Some("j".into())),
        (-32600, 401, 401, "Unauthorized: j");
    Fault::InsufficientScope => Fault::InsufficientScope,
        (-32600, 403, 403, "Forbidden: this token lacks the scope `agent`");
    Fault::WrongClient => Fault::WrongClient,
        (-32600, 403, 403, "Forbidden: the client ID in the path is not the one of the token");
    Fault::ForbiddenOrigin => Fault::ForbiddenOrigin,
        (-32600, 403, 403, "Forbidden: this Origin is not allowed; the operator can name it with --allow-origin");
    Fault::NotAcceptable(_) => Fault::NotAcceptable("k"),
        (-32600, 406, 406, "Not acceptable: Accept must allow k");
    Fault::TooLarge(_) => Fault::TooLarge(9),
        (-32600, 413, 413, "Too large: a body may have at most 9 bytes");
    Fault::MediaType(_) => Fault::MediaType("l".into()),
        (-32600, 415, 415, "Unsupported media type: expected Content-Type application/json, got l");
    Fault::TooManyStreams(_) => Fault::TooManyStreams(8),
        (-32600, 429, 429, "Too many open notification streams for this client (at most 8)");
    Fault::TooManyConnections => Fault::TooManyConnections,
        (-32600, 429, 429, "Too many connections from this address");
    Fault::Overloaded => Fault::Overloaded,
        (-32600, 503, 503, "The bridge has too many connections; try again later");
    Fault::Draining => Fault::Draining,
        (-32600, 503, 503, "The bridge is stopping; try again later");
    Fault::Failed(_) => Fault::Failed(Trouble::TimedOut(3)),
        (-32603, 200, 200, "The application did not answer within 3 s (timeout). The call was cancelled; it may have run.");
}

table! { troubles: Trouble, &'static str;
    Trouble::NotConnected => Trouble::NotConnected,
        "The application is not connected. The call was not sent to it. Try again when it is back.";
    Trouble::MayHaveRun => Trouble::MayHaveRun,
        "The connection to the application was lost after the call was sent. It may have run; no result came back.";
    Trouble::TimedOut(_) => Trouble::TimedOut(300),
        "The application did not answer within 300 s (timeout). The call was cancelled; it may have run.";
    Trouble::TooManyCalls(_) => Trouble::TooManyCalls(256),
        "The application is busy: 256 calls are already running. The call was not sent. Try again later.";
    Trouble::QueueFull => Trouble::QueueFull,
        "The application is busy: it does not read fast enough and its queue is full. The call was not sent. Try again later.";
    Trouble::CallTooLarge(_) => Trouble::CallTooLarge(4194304),
        "The call is too large: with its envelope it does not fit one message of 4194304 bytes to the application. It was not sent.";
    Trouble::Stopping => Trouble::Stopping,
        "The bridge is stopping before the application answered. The call may have run; no result came back.";
    Trouble::BadReply => Trouble::BadReply,
        "The application answered with something that cannot be handed on. The call may have run.";
    Trouble::NotDeclared(_) => Trouble::NotDeclared("q"),
        "The application needs q, which this agent did not declare as a capability.";
    Trouble::NoStream => Trouble::NoStream,
        "The application needs to ask the agent something, but this request does not accept text/event-stream.";
    Trouble::AgentRefused(_) => Trouble::AgentRefused("r"),
        "The agent answered the application's r with an error.";
    Trouble::AgentSilent(_) => Trouble::AgentSilent(300),
        "The agent did not answer the application's question within 300 s (timeout).";
    Trouble::TooManyRounds(_) => Trouble::TooManyRounds(10),
        "The application asked the agent for input more than 10 times in one call.";
}

table! { closes: Close, (u16, &'static str);
    Close::Stopping => Close::Stopping, (1001, "the bridge is stopping");
    Close::TooLarge => Close::TooLarge, (1009, "a message may have at most 4194304 bytes");
    Close::Protocol => Close::Protocol, (1002, "a frame against the WebSocket protocol");
    Close::NotUtf8 => Close::NotUtf8, (1007, "a text message that is not UTF-8");
    Close::BadMessage { .. } => Close::BadMessage { path: None, message: "m".into() }, (4400, "m");
    Close::BadToken(_) => Close::BadToken("n".into()), (4401, "n");
    Close::Forbidden(_) => Close::Forbidden("o"), (4403, "o");
    Close::NoRegister(_) => Close::NoRegister(10),
        (4408, "no register within 10 s of the handshake");
    Close::Silent(_) => Close::Silent(90), (4408, "nothing was heard for 90 s");
    Close::Replaced => Close::Replaced, (4409, "replaced: a newer connection has this client ID");
    Close::Limit(_) => Close::Limit("p"), (4429, "p");
}

#[test]
fn every_fault_has_its_code_statuses_and_words() {
    for (fault, (code, legacy, modern, words)) in faults() {
        assert_eq!(fault.code(), code, "{fault:?}");
        assert_eq!(fault.status(Era::Legacy), legacy, "{fault:?}");
        assert_eq!(fault.status(Era::Modern), modern, "{fault:?}");
        assert_eq!(fault.to_string(), words);
    }
}

#[test]
fn every_trouble_has_its_words_and_is_minus_32603_outside_of_tools() {
    for (trouble, words) in troubles() {
        assert_eq!(trouble.to_string(), words);
        let fault = Fault::Failed(trouble);
        assert_eq!((fault.code(), fault.to_string().as_str()), (-32603, words));
        assert_eq!((fault.status(Era::Legacy), fault.status(Era::Modern)), (200, 200));
    }
}

#[test]
fn every_close_has_its_code_and_words() {
    for (close, (code, words)) in closes() {
        assert_eq!((close.code(), close.to_string().as_str()), (code, words), "{close:?}");
        assert_eq!(close.reason(), words);
        assert_eq!(close.path(), None);
    }
}

/// A 2025-era agent takes 404 for a lost session, and codes of 2026 for a server of 2026.
#[test]
fn an_agent_of_2025_gets_no_404_and_http_refusals_carry_no_code_of_2026() {
    for (fault, _) in faults() {
        assert_ne!(fault.status(Era::Legacy), 404, "{fault:?}");
        if matches!(fault.status(Era::Modern), 401 | 403 | 406 | 413 | 415 | 429 | 503) {
            assert_eq!(fault.code(), -32600, "{fault:?}");
        }
    }
}

#[test]
fn only_the_two_faults_of_2026_that_help_an_agent_on_carry_data() {
    for (fault, _) in faults() {
        let expected = match fault {
            Fault::UnsupportedVersion(_) => Some(r#"{"supported":["2026-07-28"],"requested":"i"}"#),
            Fault::MissingCapability(_) => Some(r#"{"requiredCapabilities":{"roots":{}}}"#),
            _ => None,
        };
        assert_eq!(fault.data().as_deref(), expected, "{fault:?}");
    }
}

#[test]
fn a_bad_message_says_where() {
    let close = Close::BadMessage { path: Some("tools[2].name".into()), message: "m".into() };
    assert_eq!(close.path(), Some("tools[2].name"));
}

#[test]
fn a_close_reason_is_cut_to_123_bytes_at_a_character_boundary() {
    assert_eq!(CLOSE_REASON_BYTES_MAX, 123);
    let reason = |message: String| Close::BadToken(message).reason();
    for (length, kept) in [(0, 0), (1, 1), (122, 122), (123, 123), (124, 123), (4096, 123)] {
        assert_eq!(reason("x".repeat(length)), "x".repeat(kept), "{length}");
    }
    // A character that would end one byte, two and three bytes too late, and one that just fits.
    for (before, kept) in [(119, 123), (120, 120), (121, 121), (122, 122)] {
        let cut = reason(format!("{}😀", "x".repeat(before)));
        assert_eq!(cut.len(), kept, "{before} bytes in front");
        assert!(cut.starts_with(&"x".repeat(before)), "{cut}");
    }
}
