//! The tests' own tools, tried on bytes that are known: a broken ruler measures nothing.
//!
//! Each fake is a socket on loopback that says what it was told to. Nothing here touches the
//! bridge.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::json;
use tungstenite::handshake::server::{Request as Asked, Response as Given};

use crate::support::{
    Agent, App, Bridge, Client, Event, Heard, Http, Request, SOON, Token, Trouble, tool,
};

/// A bridge that answers one connection with `serve`.
fn fake(serve: impl FnOnce(TcpStream) + Send + 'static) -> Bridge {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = listener.local_addr().expect("bound above");
    std::thread::spawn(move || serve(listener.accept().expect("a connection").0));
    Bridge::at(&format!("http://{addr}/base/"))
}

/// Reads a request's head, writes `pieces` with pauses between, and lets go.
fn says(pieces: &'static [&'static str]) -> Bridge {
    fake(move |mut stream| {
        let mut asked = Vec::new();
        let mut byte = [0];
        while !asked.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
            asked.push(byte[0]);
        }
        for piece in pieces {
            stream.write_all(piece.as_bytes()).expect("the reader is there");
            std::thread::sleep(Duration::from_millis(5));
        }
    })
}

#[test]
fn responses_are_read_by_length_by_chunks_and_to_the_end() {
    for pieces in [
        &["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", "lo"][..],
        &["HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nX: y\r\n\r\n", "hello"],
        &[
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3",
            "\r\nllo\r",
            "\n0\r\n\r\n",
        ],
    ] {
        let bridge = says(pieces);
        let response = Request::get("/").to(&bridge);
        assert_eq!((response.status, response.text()), (200, "hello"), "{pieces:?}");
    }
}

#[test]
fn the_ways_a_response_can_fail_are_told_apart() {
    let cut = says(&["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"]);
    let mut http = Request::get("/").sent_to(&cut);
    assert!(matches!(http.try_response(), Err(Trouble::Ended(_))));

    let odd = says(&["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"]);
    let mut http = Request::get("/").sent_to(&odd);
    assert!(matches!(http.try_response(), Err(Trouble::Malformed(_))));

    // Closing with something unread resets (RFC 1122 §4.2.2.13).
    let reset = fake(|stream| drop(stream.peek(&mut [0])));
    let mut http = Http::connect(reset.addr);
    http.send("unread");
    assert!(matches!(http.rest(SOON), Trouble::Reset(_)));

    let quiet = fake(|mut stream| drop(stream.read(&mut [0])));
    let mut http = Http::connect(quiet.addr);
    assert!(matches!(http.rest(Duration::from_millis(50)), Trouble::Quiet(_)));
}

#[test]
fn an_event_stream_is_read_as_it_comes() {
    let bridge = says(&[
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
        "8\r\n: hello\n\r\n",
        "3c\r\nretry: 5000\nevent: message\ndata: {\"a\":\ndata: 1}\n\nda",
        "ta:2\n\n:\n\n\r\n",
        "0\r\n\r\n",
    ]);
    let mut http = Request::get("/").sent_to(&bridge);
    let head = http.read_head();
    let mut events = http.events(&head);
    assert_eq!(events.next(SOON), Event::Comment("hello".to_owned()));
    assert_eq!(events.next(SOON), Event::Retry(5000));
    assert_eq!(events.next(SOON), Event::Data("{\"a\":\n1}".to_owned()));
    assert_eq!(events.next(SOON), Event::Data("2".to_owned()));
    assert_eq!(events.next(SOON), Event::Comment(String::new()));
    assert_eq!(events.next(SOON), Event::End);
    assert_eq!(events.fields, ["event: message"]);
}

#[test]
fn a_stream_without_its_last_chunk_is_cut_not_ended() {
    let bridge = says(&[
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
        "9\r\ndata: 1\n\n\r\n",
    ]);
    let mut http = Request::get("/").sent_to(&bridge);
    let head = http.read_head();
    let (records, end) = http.events(&head).rest(SOON);
    assert_eq!((records, end), (vec!["1".to_owned()], Event::Cut));
}

#[test]
fn a_token_is_signed_as_openssl_signs_it() {
    let token = Token::of("x", "agent").claims_text("{}").secret("key").mint();
    assert_eq!(
        token,
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30.9EmJDfAi6fqc_FoO3yD77spdi7QZX-s9VzN89vOaOp0"
    );
    for chars in 300..312 {
        assert_eq!(Token::of("x", "agent").mint_of_length(chars).len(), chars);
    }
}

#[test]
fn requests_of_each_era_carry_what_it_asks_for() {
    let bridge = Bridge::at("http://127.0.0.1:1/base");
    let agent = Agent::new(&bridge, "x");
    let modern = agent.modern_request("tools/call", json!({"name": "é", "_meta": {"a": 1}}));
    let bytes = modern.bytes();
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.starts_with("POST /base/mcp HTTP/1.1\r\nHost: localhost\r\n"), "{text}");
    for part in ["Mcp-Name: =?base64?w6k=?=", "Mcp-Method: tools/call", "\"a\":1", "2026-07-28"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let legacy = agent.legacy_request("ping", json!({}));
    let text = String::from_utf8(legacy.bytes()).expect("UTF-8");
    assert!(!text.contains("_meta") && text.contains("\"id\":1"), "{text}");
}

/// The bridge's side of a channel, by tungstenite: registered, then two calls and a cancel.
fn channel(stream: TcpStream) {
    #[allow(clippy::result_large_err)] // the callback's type is tungstenite's
    let select = |_: &Asked, mut given: Given| {
        let value = "clientmcp.v1".parse().expect("a header value");
        given.headers_mut().insert("sec-websocket-protocol", value);
        Ok(given)
    };
    let mut socket = tungstenite::accept_hdr(stream, select).expect("a handshake");
    let register = socket.read().expect("a register");
    assert!(register.to_string().contains(r#""type":"register""#), "{register}");
    let mut say = |text: &str| socket.send(tungstenite::Message::text(text)).expect("a reader");
    say(r#"{"type":"registered","refused":[]}"#);
    say(concat!(
        r#"{"type":"call","id":"s","method":"tools/call","#,
        r#""params":{"name":"slow","arguments":{"seconds":60}}}"#
    ));
    say(concat!(
        r#"{"type":"call","id":"e","method":"tools/call","#,
        r#""params":{"name":"echo","arguments":{"text":"hi"}}}"#
    ));
    say(r#"{"type":"cancel","id":"s","reason":"enough"}"#);
    let reply = socket.read().expect("a reply").to_string();
    let reply: serde_json::Value = serde_json::from_str(&reply).expect("JSON");
    assert_eq!((&reply["id"], &reply["result"]["content"][0]["text"]), (&json!("e"), &json!("hi")));
    let frame = tungstenite::protocol::CloseFrame { code: 4409.into(), reason: "newer".into() };
    socket.close(Some(frame)).expect("a reader");
    while socket.read().is_ok() {}
}

#[test]
fn an_app_answers_and_notices_cancels_and_its_end() {
    let bridge = fake(channel);
    let app = App::standard(&bridge, "x");
    let call = app.awaits_calls(1, SOON);
    assert_eq!(app.awaits_cancel(&call, SOON)["reason"], "enough");
    let end = crate::support::eventually("the end", SOON, || app.ended());
    assert_eq!(end, Heard::Close(4409, "newer".to_owned()));
    assert_eq!(app.calls().len(), 2);
}

#[test]
fn a_client_sees_each_frame_and_the_close() {
    let bridge = fake(channel);
    let mut client = Client::connect(&bridge, "x");
    client.registers(json!({"tools": [tool("echo")]}));
    let slow = client.next_call();
    let echo = client.next_call();
    assert_eq!((slow.name(), echo.id.as_str()), ("slow", "e"));
    assert_eq!(client.expects_cancel(&slow, SOON), "enough");
    client.replies_text(&echo, "hi");
    assert_eq!(client.expects_close(), (4409, "newer".to_owned()));
}
