//! A piece of a text that is kept somewhere else: two offsets instead of a copy.

/// Start and length of a piece, in bytes. A message is at most 4 MiB, so 32 bits are plenty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    start: u32,
    len: u32,
}

impl Span {
    /// Where `piece`, a slice of `text`, lies in it. The whole text when it is no slice of it.
    pub fn within(text: &str, piece: &str) -> Span {
        let offset = (piece.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
        match offset.checked_add(piece.len()) {
            Some(end) if end <= text.len() => Span::new(offset, end),
            _ => Span::new(0, text.len()),
        }
    }

    /// The piece from `start` to `end`, in bytes; empty when it ends before it starts. Both stop at
    /// what 32 bits can hold.
    pub fn new(start: usize, end: usize) -> Span {
        let clamp = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Span { start: clamp(start), len: clamp(end.saturating_sub(start)) }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Its first byte.
    pub fn start(self) -> usize {
        self.start as usize
    }

    /// The byte behind its last.
    pub fn end(self) -> usize {
        self.start as usize + self.len as usize
    }

    /// The piece itself; empty when `text` is not the one this span was made for.
    pub fn of(self, text: &str) -> &str {
        text.get(self.start()..self.end()).unwrap_or("")
    }
}

#[cfg(test)]
mod tests;
