//! Where in a register lies what is asked for: numbers behind its text, in the same allocation.
//!
//! Tens of thousands of sleeping clients keep one each, so three definitions take 27 bytes here. The
//! numbers are written as ASCII, which keeps the whole a `str` that is sliced without being checked
//! again: six bits in each byte, the low ones first, and a seventh that says whether more follow.
//! What may be in an index is `offer.rs`'s to check; nothing here looks at the text.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::List;

/// Set in every byte of a number but its last.
const MORE: u8 = 0x40;

/// A stretch of the register's text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub start: usize,
    pub end: usize,
}

impl Span {
    /// The span of a raw text that ends at `end`.
    pub fn behind(raw: &str, end: usize) -> Span {
        Span { start: end - raw.len(), end }
    }

    pub fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

/// Where one accepted definition lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Definition {
    pub raw: Span,
    /// Its name, URI or URI template: a raw JSON string inside `raw`.
    pub key: Span,
    /// A tool that has `x-mcp-header` parameters.
    pub mirrored: bool,
}

/// What an index begins with.
#[derive(Clone, Debug, Default)]
pub(super) struct Head {
    pub ttl_ms: u64,
    pub server: Option<Span>,
    pub instructions: Option<Span>,
}

/// Writes an index. The definitions of each list are in the order of the text; a list that is `None`
/// was not named by the register.
pub(super) fn write(head: &Head, lists: &[Option<Vec<Definition>>; 4], out: &mut String) {
    number(head.ttl_ms, out);
    for span in [head.server, head.instructions] {
        // No value begins at the first byte, so 0 is free to say that there is none.
        let (start, bytes) = span.map_or((0, 0), |span| (span.start, span.end - span.start));
        number(start as u64, out);
        number(bytes as u64, out);
    }
    for list in lists {
        number(list.as_ref().map_or(0, |list| list.len() as u64 + 1), out);
    }
    for list in lists {
        let mut end = 0;
        for Definition { raw, key, mirrored } in list.iter().flatten() {
            number((raw.start - end) as u64, out);
            number((raw.end - raw.start) as u64, out);
            number((key.start - raw.start) as u64, out);
            number((key.end - key.start) as u64 * 2 + u64::from(*mirrored), out);
            end = raw.end;
        }
    }
}

fn number(mut value: u64, out: &mut String) {
    while value >= u64::from(MORE) {
        out.push(char::from(value as u8 & (MORE - 1) | MORE));
        value >>= 6;
    }
    out.push(char::from(value as u8));
}

/// Reads the beginning of an index.
pub(super) fn head(index: &str) -> Head {
    Numbers(index.as_bytes()).head()
}

/// Reads the definitions of a list; `None` when the register did not name it.
pub(super) fn definitions(index: &str, list: List) -> Option<Definitions<'_>> {
    let mut numbers = Numbers(index.as_bytes());
    numbers.head();
    let counts = List::ALL.map(|_| numbers.size());
    let at = list as usize;
    let left = counts[at].checked_sub(1)?;
    // Those of the lists in front of it, four numbers each.
    let before: usize = counts[..at].iter().map(|count| count.saturating_sub(1)).sum();
    for _ in 0..4 * before {
        numbers.number();
    }
    Some(Definitions { numbers, left, end: 0 })
}

/// The definitions of one list, in the order of the text.
#[derive(Clone)]
pub(super) struct Definitions<'a> {
    numbers: Numbers<'a>,
    left: usize,
    /// Where the one before ends.
    end: usize,
}

impl Iterator for Definitions<'_> {
    type Item = Definition;

    fn next(&mut self) -> Option<Definition> {
        self.left = self.left.checked_sub(1)?;
        let start = self.end + self.numbers.size();
        let raw = Span { start, end: start + self.numbers.size() };
        let start = start + self.numbers.size();
        // Twice its length, and one more when the tool is mirrored.
        let key = self.numbers.size();
        let (bytes, mirrored) = (key / 2, key % 2 == 1);
        self.end = raw.end;
        Some(Definition { raw, key: Span { start, end: start + bytes }, mirrored })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Definitions<'_> {}

#[derive(Clone)]
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn head(&mut self) -> Head {
        let ttl_ms = self.number();
        let [server, instructions] = [(); 2].map(|()| {
            let (start, bytes) = (self.size(), self.size());
            (start > 0).then_some(Span { start, end: start + bytes })
        });
        Head { ttl_ms, server, instructions }
    }

    /// An offset, a length or a count: each was a `usize` when it was written.
    fn size(&mut self) -> usize {
        self.number() as usize
    }

    /// The next number; 0 when there is none, which `write` never leaves out.
    fn number(&mut self) -> u64 {
        let mut value = 0;
        for shift in (0..64).step_by(6) {
            let Some((byte, rest)) = self.0.split_first() else { break };
            self.0 = rest;
            value |= u64::from(byte & (MORE - 1)) << shift;
            if byte & MORE == 0 {
                break;
            }
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_read_as_it_was_written_and_stays_ascii() {
        let edges = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        let values: Vec<u64> = edges.chain([u64::MAX]).collect();
        let mut text = String::new();
        for value in &values {
            number(*value, &mut text);
        }
        assert!(text.is_ascii());
        let mut numbers = Numbers(text.as_bytes());
        for value in values {
            assert_eq!(numbers.number(), value);
        }
        assert!(numbers.0.is_empty());
    }

    #[test]
    fn an_index_of_three_definitions_is_small() {
        let definition = |start: usize| Definition {
            raw: Span { start, end: start + 100 },
            key: Span { start: start + 8, end: start + 24 },
            mirrored: start == 301,
        };
        let lists = [Some([100, 201, 301].map(definition).to_vec()), None, Some(Vec::new()), None];
        let head = Head {
            server: Some(Span { start: 20, end: 70 }),
            instructions: Some(Span { start: 71, end: 90 }),
            ..Head::default()
        };
        let mut text = String::new();
        write(&head, &lists, &mut text);
        assert!(text.len() <= 32, "{} bytes", text.len());

        let read = super::head(&text);
        assert_eq!(read.server.map(Span::range), Some(20..70));
        assert_eq!(read.instructions.map(Span::range), Some(71..90));
        let tools = definitions(&text, List::Tools);
        let tools: Vec<_> = tools.into_iter().flatten().collect();
        assert_eq!(tools.len(), 3);
        for (tool, start) in tools.iter().zip([100, 201, 301]) {
            assert_eq!(tool.raw.range(), start..start + 100);
            assert_eq!(tool.key.range(), start + 8..start + 24);
            assert_eq!(tool.mirrored, start == 301);
        }
        assert!(definitions(&text, List::Prompts).is_none(), "not named");
        assert_eq!(definitions(&text, List::Resources).map(|list| list.len()), Some(0));
    }
}
