//! WebSocket frames (RFC 6455 §5.2): the plain ones, and where messages begin and end among the others.
//!
//! Nearly all that a client sends is text messages of one frame; [`plain_text`] knows those and nothing
//! else. Whatever it does not know goes to a library that knows the whole protocol, and [`Boundary`] tells
//! when that has seen the end of a message. Judges nothing: no UTF-8, no close codes. [`sign_of_life`]
//! knows the few bytes that an idle client sends, so that nobody has to wake up for them.

use alloc::vec::Vec;

use crate::channel;
use crate::limits::MESSAGE_BYTES_MAX;

/// The header of a frame that is a whole text message of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainText {
    /// Bytes of the header; the payload follows.
    pub header_bytes: usize,
    /// Bytes of the payload.
    pub length: usize,
    /// What the payload is masked with.
    pub mask: [u8; 4],
}

/// Reads the header of a frame that is a whole text message: FIN set, no reserved bit, masked, its length
/// in the shortest form and at most `MESSAGE_BYTES_MAX`. `None`: it is another, or not complete.
pub fn plain_text(bytes: &[u8]) -> Option<PlainText> {
    let (&[first, second], rest) = bytes.split_first_chunk()?;
    if first != 0x81 || second & 0x80 == 0 {
        return None;
    }
    let (length, rest) = match second & 0x7f {
        126 => {
            let (length, rest) = rest.split_first_chunk()?;
            let length = u64::from(u16::from_be_bytes(*length));
            (length >= 126).then_some((length, rest))?
        }
        127 => {
            let (length, rest) = rest.split_first_chunk()?;
            let length = u64::from_be_bytes(*length);
            (length >= 1 << 16).then_some((length, rest))?
        }
        length => (u64::from(length), rest),
    };
    let (mask, payload) = rest.split_first_chunk()?;
    let length = usize::try_from(length).ok().filter(|length| *length <= MESSAGE_BYTES_MAX)?;
    Some(PlainText { header_bytes: bytes.len() - payload.len(), length, mask: *mask })
}

/// Takes the mask off bytes of a payload, the first of which is number `at` in it (RFC 6455 §5.3).
pub fn unmask(bytes: &mut [u8], mut mask: [u8; 4], at: usize) {
    mask.rotate_left(at % 4);
    let (words, rest) = bytes.as_chunks_mut::<4>();
    let word_mask = u32::from_ne_bytes(mask);
    for word in words {
        *word = (u32::from_ne_bytes(*word) ^ word_mask).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask) {
        *byte ^= mask;
    }
}

/// Appends the header of a text message of one frame to a client, which is not masked.
pub fn put_text_header(length: usize, out: &mut Vec<u8>) {
    out.push(0x81);
    match length {
        0..126 => out.push(length as u8),
        126..65536 => {
            out.push(126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            out.push(127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

/// A ping without a payload to a client.
pub const PING: [u8; 2] = [0x89, 0];

/// Longest frame header: two bytes, eight of length, four of mask.
const HEADER_BYTES_MAX: usize = 14;

/// Follows one direction of a connection.
#[derive(Clone, Debug, Default)]
pub struct Boundary {
    header: [u8; HEADER_BYTES_MAX],
    /// How many bytes of the current frame's header have come.
    have: u8,
    /// A data frame without FIN has come, and its message is not finished.
    fragmented: bool,
    payload_left: u64,
}

impl Boundary {
    /// Takes the next bytes.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.payload_left > 0 {
                let count = usize::try_from(self.payload_left).unwrap_or(usize::MAX);
                let count = count.min(bytes.len());
                self.payload_left -= count as u64;
                bytes = &bytes[count..];
                continue;
            }
            self.header[usize::from(self.have)] = bytes[0];
            self.have += 1;
            bytes = &bytes[1..];
            if usize::from(self.have) == self.header_bytes() {
                self.begin_payload();
            }
        }
    }

    /// Whether every message that began has ended.
    pub fn is_between_messages(&self) -> bool {
        self.have == 0 && self.payload_left == 0 && !self.fragmented
    }

    /// How long the header is, as far as can be told from what has come.
    fn header_bytes(&self) -> usize {
        if self.have < 2 {
            return 2;
        }
        let extended = match self.header[1] & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mask = if self.header[1] & 0x80 == 0 { 0 } else { 4 };
        2 + extended + mask
    }

    fn begin_payload(&mut self) {
        let length = self.header[1] & 0x7f;
        self.payload_left = match length {
            126 => u64::from(u16::from_be_bytes([self.header[2], self.header[3]])),
            127 => {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&self.header[2..10]);
                u64::from_be_bytes(bytes)
            }
            _ => u64::from(length),
        };
        let (fin, opcode) = (self.header[0] & 0x80 != 0, self.header[0] & 0x0f);
        // Control frames may stand between the fragments of a message.
        if opcode < 8 {
            self.fragmented = !fin;
        }
        self.have = 0;
    }
}

/// Longest payload of a control frame (RFC 6455 §5.5), and all that one byte of length can say.
const SHORT_BYTES_MAX: usize = 125;

/// What a client sends that has nothing to say.
#[derive(Clone, Debug)]
pub enum Sign {
    /// A ping, as a frame or as the channel's message: it wants this answer.
    Ping(ShortFrame),
    /// A pong frame, which wants none.
    Pong,
}

/// A whole frame of a server that was made without a context.
#[derive(Clone, Debug)]
pub struct ShortFrame {
    bytes: [u8; 2 + SHORT_BYTES_MAX],
    len: usize,
}

impl ShortFrame {
    fn new(first: u8, payload: impl Iterator<Item = u8>) -> ShortFrame {
        let mut bytes = [0; 2 + SHORT_BYTES_MAX];
        let mut count = 0;
        for (byte, from) in bytes[2..].iter_mut().zip(payload) {
            *byte = from;
            count += 1;
        }
        bytes[..2].copy_from_slice(&[first, count]);
        ShortFrame { bytes, len: 2 + usize::from(count) }
    }

    /// Header and payload.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// What the client said, when `bytes` are exactly one frame that is a sign of life: unfragmented,
/// masked, without extension bits. `None` for all else, be it right or wrong. To be asked between two
/// messages only.
pub fn sign_of_life(bytes: &[u8]) -> Option<Sign> {
    let (&[first, length], rest) = bytes.split_first_chunk()?;
    let (mask, payload) = rest.split_first_chunk::<4>()?;
    // With the mask bit, and one byte of length; RFC 6455 §5.1, §5.2.
    if payload.len() > SHORT_BYTES_MAX || usize::from(length) != 0x80 | payload.len() {
        return None;
    }
    let unmasked = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
    match first {
        0x81 if unmasked.clone().eq(channel::PING.bytes()) => {
            Some(Sign::Ping(ShortFrame::new(0x81, channel::PONG.bytes())))
        }
        // RFC 6455 §5.5.3: a pong has the payload of its ping.
        0x89 => Some(Sign::Ping(ShortFrame::new(0x8a, unmasked))),
        0x8a => Some(Sign::Pong),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(first: u8, payload: usize, masked: bool) -> Vec<u8> {
        let mut bytes = alloc::vec![first];
        let mask = if masked { 0x80 } else { 0 };
        match payload {
            0..126 => bytes.push(mask | payload as u8),
            126..65536 => {
                bytes.push(mask | 126);
                bytes.extend((payload as u16).to_be_bytes());
            }
            _ => {
                bytes.push(mask | 127);
                bytes.extend((payload as u64).to_be_bytes());
            }
        }
        if masked {
            bytes.extend([1, 2, 3, 4]);
        }
        bytes.resize(bytes.len() + payload, 7);
        bytes
    }

    #[test]
    fn a_plain_text_is_known_by_its_whole_header_and_no_less() {
        for length in [0, 1, 125, 126, 127, 65535, 65536, 70_000, MESSAGE_BYTES_MAX] {
            let bytes = frame(0x81, length, true);
            let found = plain_text(&bytes).expect("a plain text");
            assert_eq!((found.length, found.mask), (length, [1, 2, 3, 4]));
            assert_eq!(found.header_bytes, bytes.len() - length);
            for end in 0..found.header_bytes {
                assert_eq!(plain_text(&bytes[..end]), None, "{length} cut at {end}");
            }
            assert_eq!(plain_text(&bytes[..found.header_bytes]), Some(found));
        }
    }

    #[test]
    fn what_is_no_plain_text_is_left_to_others() {
        for first in (0..=0xff).filter(|first| *first != 0x81) {
            assert_eq!(plain_text(&frame(first, 5, true)), None, "{first:#x}");
        }
        assert_eq!(plain_text(&frame(0x81, 5, false)), None, "not masked");
        assert_eq!(plain_text(&frame(0x81, MESSAGE_BYTES_MAX + 1, true)), None, "too long");
        let longer_than_needed: [&[u8]; 4] = [
            &[0x81, 0x80 | 126, 0, 125, 1, 2, 3, 4],
            &[0x81, 0x80 | 127, 0, 0, 0, 0, 0, 0, 0, 5, 1, 2, 3, 4],
            &[0x81, 0x80 | 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 1, 2, 3, 4],
            &[0x81, 0x80 | 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4],
        ];
        for bytes in longer_than_needed {
            assert_eq!(plain_text(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_mask_comes_off_wherever_the_payload_is_cut() {
        let plain: Vec<u8> = (0..100).collect();
        let mask = [9, 80, 7, 200];
        let masked: Vec<u8> = plain.iter().zip(mask.iter().cycle()).map(|(b, m)| b ^ m).collect();
        for cut in 0..=plain.len() {
            let mut bytes = masked.clone();
            let (first, second) = bytes.split_at_mut(cut);
            unmask(first, mask, 0);
            unmask(second, mask, cut);
            assert_eq!(bytes, plain, "cut at {cut}");
        }
    }

    #[test]
    fn the_header_of_an_answer_is_the_one_of_an_unmasked_frame() {
        for length in [0, 1, 125, 126, 65535, 65536, 70_000] {
            let mut header = Vec::new();
            put_text_header(length, &mut header);
            let whole = frame(0x81, length, false);
            assert_eq!(header, whole[..whole.len() - length], "{length}");
        }
    }

    #[test]
    fn a_boundary_is_seen_after_the_last_byte_and_not_before() {
        for payload in [0, 1, 125, 126, 127, 65535, 65536, 70000] {
            for masked in [true, false] {
                let bytes = frame(0x81, payload, masked);
                let mut boundary = Boundary::default();
                assert!(boundary.is_between_messages());
                for (at, byte) in bytes.iter().enumerate() {
                    boundary.feed(&[*byte]);
                    let last = at + 1 == bytes.len();
                    assert_eq!(boundary.is_between_messages(), last, "{payload} {masked} {at}");
                }
                let mut whole = Boundary::default();
                whole.feed(&bytes);
                assert!(whole.is_between_messages());
                whole.feed(&bytes[..1]);
                assert!(!whole.is_between_messages());
            }
        }
    }

    #[test]
    fn a_fragmented_message_ends_with_its_last_fragment() {
        let mut boundary = Boundary::default();
        boundary.feed(&frame(0x01, 5, true));
        assert!(!boundary.is_between_messages(), "first fragment");
        boundary.feed(&frame(0x89, 3, true));
        assert!(!boundary.is_between_messages(), "ping between fragments");
        boundary.feed(&frame(0x00, 5, true));
        assert!(!boundary.is_between_messages(), "middle fragment");
        boundary.feed(&frame(0x80, 0, true));
        assert!(boundary.is_between_messages(), "last fragment");
    }

    fn masked(first: u8, mask: [u8; 4], payload: &[u8]) -> Vec<u8> {
        let mut bytes = alloc::vec![first, 0x80 | payload.len() as u8];
        bytes.extend(mask);
        bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        bytes
    }

    /// The answer; empty for a pong.
    fn answer(bytes: &[u8]) -> Option<Vec<u8>> {
        sign_of_life(bytes).map(|sign| match sign {
            Sign::Ping(frame) => frame.bytes().to_vec(),
            Sign::Pong => Vec::new(),
        })
    }

    #[test]
    fn signs_of_life_are_answered_like_by_a_context() {
        for mask in [[0; 4], [1, 2, 3, 4], [0xff, 0x80, 0, 0x7f]] {
            let pong = [&[0x81, 15][..], channel::PONG.as_bytes()].concat();
            let ping = masked(0x81, mask, channel::PING.as_bytes());
            assert_eq!(answer(&ping), Some(pong));
            for payload in [&b""[..], b"a", b"12345", &[0xff; 124], &[0; 125]] {
                let pong = [&[0x8a, payload.len() as u8][..], payload].concat();
                assert_eq!(answer(&masked(0x89, mask, payload)), Some(pong));
                assert_eq!(answer(&masked(0x8a, mask, payload)), Some(Vec::new()));
            }
        }
    }

    #[test]
    fn what_is_not_exactly_one_such_frame_goes_the_usual_way() {
        let mask = [1, 2, 3, 4];
        for whole in [masked(0x81, mask, channel::PING.as_bytes()), masked(0x89, mask, b"12345")] {
            for end in 0..whole.len() {
                assert_eq!(answer(&whole[..end]), None, "{end} bytes of {whole:?}");
            }
            assert_eq!(answer(&[&whole[..], &[0x81]].concat()), None, "more behind it");
            assert_eq!(answer(&[&whole[..], &whole[..]].concat()), None, "twice");
            let unmasked = [&[whole[0], whole[1] & 0x7f], &whole[2..]].concat();
            assert_eq!(answer(&unmasked), None, "the mask bit is missing");
        }
        // Other opcodes, extension bits, no FIN.
        for first in (0..=0xff).filter(|first| ![0x81, 0x89, 0x8a].contains(first)) {
            assert_eq!(answer(&masked(first, mask, channel::PING.as_bytes())), None, "{first:x}");
        }
        // A control frame is 125 bytes at most, and a length has one form.
        for length in [126, 127] {
            let long = [&[0x89, 0x80 | length, 0, 126], &mask[..], &[0; 126]].concat();
            assert_eq!(answer(&long), None, "{length}");
        }
        for text in [r#"{"type":"pong"}"#, r#"{"type":"ping" }"#, r#"{"type":"pinG"}"#, ""] {
            assert_eq!(answer(&masked(0x81, mask, text.as_bytes())), None, "{text}");
        }
    }
}
