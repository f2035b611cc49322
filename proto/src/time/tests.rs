//! Clock readings at their ends: nothing overflows, and nothing goes backwards.

use super::*;

#[test]
fn time_since_a_later_moment_is_zero() {
    for (now, earlier, ms) in [(5, 2, 3), (5, 5, 0), (5, 6, 0), (u64::MAX, 0, u64::MAX)] {
        let expected = Duration::from_millis(ms);
        assert_eq!(Instant(now).since(Instant(earlier)), expected);
        assert_eq!(Instant(now) - Instant(earlier), expected);
    }
}

#[test]
fn a_deadline_beyond_the_clock_is_its_last_moment() {
    let rows = [
        (0, Duration::from_millis(1), 1),
        (1, Duration::ZERO, 1),
        (u64::MAX - 1, Duration::from_millis(1), u64::MAX),
        (u64::MAX, Duration::from_millis(1), u64::MAX),
        (0, Duration::MAX, u64::MAX),
        // What is less than a millisecond does not count.
        (7, Duration::from_micros(999), 7),
    ];
    for (start, length, end) in rows {
        assert_eq!(Instant(start) + length, Instant(end), "{start} + {length:?}");
    }
}

#[test]
fn moments_are_ordered_by_their_clocks() {
    assert!(Instant(1) < Instant(2) && UnixSeconds(1) < UnixSeconds(2));
    assert_eq!(Instant::default(), Instant(0));
}
