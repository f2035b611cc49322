//! Streams of frames put together at random, good and bad: the bridge, which reads plain messages itself,
//! has to see in them what a library sees that reads them all. `STREAM_SEED` repeats one.

use std::io::{self, ErrorKind, Read, Write};

use tungstenite::protocol::{Role, WebSocketContext};
use tungstenite::{Error, Message};

use crate::stage::{
    ASK, Answer, Close, FIN, Pong, Row, Sees, begin, check, close, close_with, last, more, ping,
    pong, text,
};
use crate::support::{BINARY, RawClient, TEXT};

const STREAMS: u64 = 150;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

/// One or more frames: mostly good ones, so that a stream has more than a beginning.
fn some_frames(random: &mut Random) -> Vec<Vec<u8>> {
    let cut = random.below(ASK.len() + 1);
    let (first, rest) = ASK.split_at(cut);
    let mut bad = RawClient::frame(FIN | TEXT, ASK.as_bytes());
    match random.below(40) {
        0..12 => vec![text(ASK)],
        12..17 => vec![begin(first), last(rest)],
        17..20 => vec![begin(first), ping("between"), more(""), last(rest)],
        20..23 => vec![ping(vec![7; random.below(126)])],
        23..25 => vec![pong("unasked")],
        25..28 => vec![text(format!("{}{}", " ".repeat(random.below(70_000)), ASK))],
        28 => vec![RawClient::frame(FIN | BINARY, ASK.as_bytes())],
        29 => vec![text("{")],
        30 => vec![text([&b"\"\xff"[..], first.as_bytes()].concat())],
        31 => vec![last(rest)],
        32 => vec![begin(first), text(ASK)],
        33 => vec![ping(vec![7; 126])],
        34 => vec![close("")],
        35 => vec![close_with([1000, 1001, 1005, 3000, 4999, 999][random.below(6)], "bye")],
        36 => {
            bad[0] |= 1 << (4 + random.below(3));
            vec![bad]
        }
        37 => {
            bad[0] = FIN | [3, 7, 11, 15][random.below(4)];
            vec![bad]
        }
        38 => {
            bad[1] &= 0x7f;
            vec![bad]
        }
        // The length in more bytes than it needs.
        _ => {
            let mut long = vec![FIN | TEXT, 0x80 | 126, 0, ASK.len() as u8];
            long.extend(&bad[2..]);
            vec![long]
        }
    }
}

/// What the library makes of the bytes, and what that means on this channel.
fn seen_by_the_library(bytes: &[u8]) -> Vec<Sees> {
    let mut wire = Wire { input: bytes, output: Vec::new() };
    let mut context = WebSocketContext::new(Role::Server, None);
    let mut sees = Vec::new();
    loop {
        sees.push(match context.read(&mut wire) {
            Ok(Message::Text(text)) if text.trim_start() == ASK => Answer,
            Ok(Message::Text(_) | Message::Binary(_)) => Close(4400),
            Ok(Message::Ping(payload)) => Pong(payload.to_vec()),
            Ok(Message::Pong(_) | Message::Frame(_)) => continue,
            Ok(Message::Close(_)) => {
                wire.output.clear();
                context.flush(&mut wire).ok();
                Close(match wire.output.as_slice() {
                    [_, _, high, low, ..] => u16::from_be_bytes([*high, *low]),
                    _ => 1005,
                })
            }
            Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => return sees,
            Err(Error::Protocol(_)) => Close(1002),
            Err(Error::Utf8(_)) => Close(1007),
            Err(error) => panic!("{error:?}"),
        });
        if let Some(Close(_)) = sees.last() {
            return sees;
        }
    }
}

struct Wire<'a> {
    input: &'a [u8],
    output: Vec<u8>,
}

impl Read for Wire<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.input.is_empty() {
            true => Err(ErrorKind::WouldBlock.into()),
            false => self.input.read(buffer),
        }
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_stream_of_any_frames_is_seen_as_a_library_sees_it() {
    let given = std::env::var("STREAM_SEED").ok().map(|seed| seed.parse().expect("a number"));
    let seeds = given.map_or(0..STREAMS, |seed: u64| seed..seed + 1);
    let rows: Vec<Row> = seeds
        .map(|seed| {
            let mut random = Random(seed);
            let count = 1 + random.below(12);
            let frames: Vec<_> = (0..count).flat_map(|_| some_frames(&mut random)).collect();
            let sees = seen_by_the_library(&frames.concat());
            Row { name: format!("STREAM_SEED={seed}"), frames, sees }
        })
        .collect();
    let ended = rows.iter().filter(|row| matches!(row.sees.last(), Some(Close(_)))).count();
    let answers = rows.iter().flat_map(|row| &row.sees).filter(|sees| **sees == Answer).count();
    assert!(rows.len() == 1 || ended > 30 && answers > 150, "{ended} ends, {answers} answers");
    check(rows);
}
