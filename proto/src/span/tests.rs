//! Spans against slices: a span gives back what it was made from, and never panics on another text.

use alloc::string::String;

use super::*;

#[test]
fn a_span_gives_back_every_slice_it_was_made_from() {
    let text = "aé😀z";
    let ends: alloc::vec::Vec<usize> =
        (0..=text.len()).filter(|&at| text.is_char_boundary(at)).collect();
    for &start in &ends {
        for &end in ends.iter().filter(|&&end| end >= start) {
            let span = Span::within(text, &text[start..end]);
            assert_eq!((span.start(), span.end()), (start, end));
            assert_eq!(span.of(text), &text[start..end]);
        }
    }
}

#[test]
fn a_span_of_a_copy_is_the_whole_text() {
    let text = String::from("abc");
    let copy = text.clone();
    assert_eq!(Span::within(&text, &copy), Span::new(0, 3));
    // Longer than the text, and beginning inside of it.
    let long = String::from("abcdef");
    assert_eq!(Span::within(&long[..3], &long[1..]), Span::new(0, 3));
}

#[test]
fn a_span_beyond_its_text_is_empty() {
    for (start, end, text) in [(0, 4, "abc"), (4, 4, "abc"), (9, 12, ""), (1, 2, "é"), (0, 1, "é")]
    {
        assert_eq!(Span::new(start, end).of(text), "", "{start}..{end} of {text:?}");
    }
    assert_eq!(Span::new(3, 3).of("abc"), "");
    assert_eq!(Span::new(0, 3).of("abc"), "abc");
}

#[test]
fn a_span_that_ends_before_it_starts_is_empty() {
    let span = Span::new(5, 3);
    assert_eq!((span.start(), span.end(), span.of("abcdefgh")), (5, 5, ""));
}

#[test]
fn a_span_past_32_bits_stops_at_their_end() {
    let max = u32::MAX as usize;
    assert_eq!(Span::new(max, max), Span::new(max + 1, max + 1));
    assert_eq!(Span::new(max - 1, max).end(), max);
    assert_eq!(Span::new(0, max + 1).end(), max);
    assert_eq!(Span::new(0, max + 1).of("abc"), "");
}
