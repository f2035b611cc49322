//! How long things took: counted in buckets that are at most a sixteenth wide, so that a million values
//! take as much room as ten.

use std::time::Duration;

const STEPS: usize = 16;

#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    max: Duration,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { buckets: vec![0; 40 * STEPS], count: 0, max: Duration::ZERO }
    }
}

impl Histogram {
    pub fn add(&mut self, time: Duration) {
        let micros = (time.as_micros() as u64).max(1);
        let place = place(micros).min(self.buckets.len() - 1);
        self.buckets[place] += 1;
        self.count += 1;
        self.max = self.max.max(time);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn max(&self) -> Duration {
        self.max
    }

    /// The upper end of the bucket below which so many of a thousand are; never above the largest.
    pub fn per_mille(&self, wanted: u64) -> Duration {
        let rank = (self.count * wanted).div_ceil(1000).max(1);
        let mut below = 0;
        for (place, count) in self.buckets.iter().enumerate() {
            below += count;
            if below >= rank {
                return Duration::from_micros(end(place)).min(self.max);
            }
        }
        self.max
    }

    /// `p50 1.20 ms, p99 3.40 ms, max 5.60 ms of 789`.
    pub fn words(&self) -> String {
        format!(
            "p50 {}, p99 {}, max {} of {}",
            ms(self.per_mille(500)),
            ms(self.per_mille(990)),
            ms(self.max),
            self.count
        )
    }
}

pub fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// Below 16 µs each has its own; above, sixteen to a power of two.
fn place(micros: u64) -> usize {
    let power = 63 - micros.leading_zeros() as usize;
    match power.checked_sub(4) {
        None => micros as usize,
        Some(shift) => (shift + 1) * STEPS + ((micros >> shift) as usize - STEPS),
    }
}

/// The first value that is beyond this place.
fn end(place: usize) -> u64 {
    match (place / STEPS).checked_sub(1) {
        None => place as u64 + 1,
        Some(shift) => ((place % STEPS + STEPS) as u64 + 1) << shift,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_again_to_a_sixteenth() {
        for micros in [1, 15, 16, 17, 31, 32, 1000, 12_345, 999_999, 300_000_000] {
            assert!(end(place(micros)) > micros, "{micros}");
            assert!(place(micros) == 1 || end(place(micros) - 1) <= micros, "{micros}");
            assert!(end(place(micros)) <= micros + micros.div_ceil(STEPS as u64), "{micros}");
        }
    }

    #[test]
    fn the_middle_and_the_end_are_told_apart() {
        let mut times = Histogram::default();
        for number in 1..=1000 {
            times.add(Duration::from_micros(number));
        }
        times.add(Duration::from_secs(1));
        assert!(times.per_mille(500) >= Duration::from_micros(500));
        assert!(times.per_mille(500) <= Duration::from_micros(540));
        assert!(times.per_mille(990) <= Duration::from_micros(1060));
        assert_eq!(times.max(), Duration::from_secs(1));
        assert_eq!(times.per_mille(1000), Duration::from_secs(1));
    }
}
