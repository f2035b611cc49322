//! Where WebSocket messages begin and end in a stream of bytes (RFC 6455 §5.2).
//!
//! Looks at frame headers only and judges nothing: it tells when a connection may fall asleep, because
//! nothing of a message has arrived that is not complete.

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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

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
}
