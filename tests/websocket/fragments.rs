//! Fragmentation: RFC 6455 §5.4.

use crate::stage::{
    ASK, Answer, Close, Echo, FIN, Pong, Sees, begin, check, last, more, ping, pong, result, row,
    text,
};
use crate::support::{BINARY, RawClient};

#[test]
fn fragments_make_a_message_whatever_comes_between_them() {
    let (a, b) = ASK.split_at(5);
    let (b, c) = b.split_at(3);
    let bc = &ASK[5..];
    let hello = || Pong(b"hello".to_vec());
    let five: Vec<Vec<u8>> = ASK
        .as_bytes()
        .chunks(3)
        .enumerate()
        .flat_map(|(at, piece)| {
            let frame = match at {
                0 => begin(piece),
                4 => last(piece),
                _ => more(piece),
            };
            [frame, ping([at as u8])]
        })
        .collect();
    let mut answers: Vec<Sees> = (0..4_u8).map(|at| Pong(vec![at])).collect();
    answers.extend([Answer, Pong(vec![4])]);
    check(vec![
        row("two", vec![begin(a), last(bc)], &[Answer]),
        row("three", vec![begin(a), more(b), last(c)], &[Answer]),
        row("an empty first", vec![begin(""), last(ASK)], &[Answer]),
        row("an empty middle", vec![begin(a), more(""), last(bc)], &[Answer]),
        row("an empty last", vec![begin(ASK), last("")], &[Answer]),
        row("three empty ones", vec![begin(""), more(""), last("")], &[Close(4400)]),
        row("only the middle one not empty", vec![begin(""), more(ASK), last("")], &[Answer]),
        row("a ping between", vec![begin(a), ping("hello"), last(bc)], &[hello(), Answer]),
        row("a pong between", vec![begin(a), pong("hello"), last(bc)], &[Answer]),
        row(
            "pings between all",
            vec![begin(a), ping("hello"), more(b), ping("hello"), last(c)],
            &[hello(), hello(), Answer],
        ),
        row("five, a ping behind each", five, &answers),
        row("two messages", vec![begin(a), last(bc), begin(a), last(bc)], &[Answer, Answer]),
        row("binary", vec![RawClient::frame(BINARY, ASK.as_bytes()), last("")], &[Close(4400)]),
    ]);
}

#[test]
fn a_continuation_needs_something_to_continue() {
    let (a, b) = ASK.split_at(5);
    check(vec![
        row("a last one", vec![last(ASK), text(ASK)], &[Close(1002)]),
        row("a middle one", vec![more(ASK), text(ASK)], &[Close(1002)]),
        row("an empty one", vec![last(""), text(ASK)], &[Close(1002)]),
        row("behind a message", vec![text(ASK), last(ASK)], &[Answer, Close(1002)]),
        row(
            "behind a fragmented message",
            vec![begin(a), last(b), more(a), text(ASK)],
            &[Answer, Close(1002)],
        ),
        row("behind a ping", vec![ping("x"), last(ASK)], &[Pong(b"x".to_vec()), Close(1002)]),
    ]);
}

#[test]
fn one_message_ends_before_the_next_begins() {
    let (a, _) = ASK.split_at(5);
    check(vec![
        row("a whole text inside", vec![begin(a), text(ASK)], &[Close(1002)]),
        row("another beginning inside", vec![begin(a), begin(a)], &[Close(1002)]),
        row("an empty text inside", vec![begin(a), text("")], &[Close(1002)]),
        row(
            "a binary message inside",
            vec![begin(a), RawClient::frame(FIN | BINARY, b"x")],
            &[Close(1002)],
        ),
        row(
            "behind a ping inside",
            vec![begin(a), ping("x"), text(ASK)],
            &[Pong(b"x".to_vec()), Close(1002)],
        ),
    ]);
}

#[test]
fn an_answer_in_fragments_of_any_size_arrives() {
    let mut echo = Echo::new();
    let sent = "Hellö-µ@ßöäüàá-UTF-8!! 𐍈 ".repeat(40);
    for size in [1, 2, 3, 7, 125, 126, 127, 64_000] {
        for with_pings in [false, true] {
            let came = echo.carries(|id| {
                let message = result(id, &sent);
                let pieces: Vec<&[u8]> = message.as_bytes().chunks(size).collect();
                let count = pieces.len();
                let frames = pieces.into_iter().enumerate().flat_map(|(at, piece)| {
                    let frame = match (at, at + 1 == count) {
                        (0, true) => text(piece),
                        (0, false) => begin(piece),
                        (_, false) => more(piece),
                        (_, true) => last(piece),
                    };
                    // A pong: its answer would be in the way.
                    [frame, if with_pings { pong("x") } else { Vec::new() }]
                });
                vec![frames.collect::<Vec<_>>().concat()]
            });
            assert!(came == sent, "in fragments of {size}, pings {with_pings}: {came}");
        }
    }
    echo.expects_quiet();
}

#[test]
fn many_fragments_of_nothing_are_no_message() {
    let mut frames = vec![begin("")];
    frames.extend((0..20_000).map(|_| more("")));
    frames.push(last(ASK));
    check(vec![row("20,000 empty fragments", vec![frames.concat()], &[Answer])]);
}
