//! Measured values and the tables made of them: median with the smallest and the largest.

use std::fmt::Write;

#[derive(Debug, Default)]
pub struct Report {
    sections: Vec<Section>,
    /// The servers in the order in which they were first seen: the columns.
    servers: Vec<String>,
}

#[derive(Debug)]
struct Section {
    name: String,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    what: String,
    unit: String,
    /// By server.
    values: Vec<(String, Vec<f64>)>,
}

impl Report {
    /// Adds one value; several of the same place become a median.
    pub fn add(&mut self, section: &str, what: &str, unit: &str, server: &str, value: f64) {
        if !self.servers.iter().any(|known| known == server) {
            self.servers.push(server.to_owned());
        }
        let section = find_or_push(
            &mut self.sections,
            |known| known.name == section,
            || Section { name: section.to_owned(), rows: Vec::new() },
        );
        let row = find_or_push(
            &mut section.rows,
            |known| known.what == what,
            || Row { what: what.to_owned(), unit: unit.to_owned(), values: Vec::new() },
        );
        let values = find_or_push(
            &mut row.values,
            |(known, _)| known == server,
            || (server.to_owned(), Vec::new()),
        );
        values.1.push(value);
    }

    /// All sections as Markdown. With several servers, each one behind the first also has the first's
    /// median divided by its own.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        for section in &self.sections {
            writeln!(text, "## {}\n", section.name).ok();
            let mut head = String::from("| | unit |");
            let mut line = String::from("|---|---|");
            for (at, server) in self.servers.iter().enumerate() {
                write!(head, " {server} |").ok();
                line.push_str("---|");
                if at > 0 {
                    write!(head, " {} / {server} |", self.servers[0]).ok();
                    line.push_str("---|");
                }
            }
            writeln!(text, "{head}\n{line}").ok();
            for row in &section.rows {
                writeln!(text, "{}", self.row(row)).ok();
            }
            text.push('\n');
        }
        text
    }

    fn row(&self, row: &Row) -> String {
        let mut text = format!("| {} | {} |", row.what, row.unit);
        let values = |server: &str| {
            let found = row.values.iter().find(|(known, _)| known == server);
            found.map(|(_, values)| Spread::of(values))
        };
        let first = self.servers.first().and_then(|server| values(server));
        for (at, server) in self.servers.iter().enumerate() {
            let spread = values(server);
            match &spread {
                Some(spread) => write!(text, " {spread} |").ok(),
                None => write!(text, " – |").ok(),
            };
            if at > 0 {
                match (&first, &spread) {
                    (Some(first), Some(spread)) if spread.median != 0.0 => {
                        write!(text, " {:.2} |", first.median / spread.median).ok()
                    }
                    _ => write!(text, " – |").ok(),
                };
            }
        }
        text
    }
}

fn find_or_push<T>(all: &mut Vec<T>, is: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> &mut T {
    let at = all.iter().position(is).unwrap_or_else(|| {
        all.push(make());
        all.len() - 1
    });
    &mut all[at]
}

/// Median, smallest and largest of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    min: f64,
    max: f64,
    count: usize,
}

impl Spread {
    pub fn of(values: &[f64]) -> Spread {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let median = match count % 2 {
            1 => at(count / 2),
            _ => (at((count / 2).wrapping_sub(1)) + at(count / 2)) / 2.0,
        };
        Spread { median, min: at(0), max: at(count.wrapping_sub(1)), count }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&short(self.median))?;
        if self.count > 1 {
            write!(f, " ({} – {})", short(self.min), short(self.max))?;
        }
        Ok(())
    }
}

/// Three digits that mean something, and no fractions of what is large.
fn short(value: f64) -> String {
    match value.abs() {
        0.0..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_two_in_the_middle() {
        for (values, expected) in [
            (&[3.0][..], "3.00"),
            (&[1.0, 9.0, 2.0], "2.00 (1.00 – 9.00)"),
            (&[4.0, 1.0, 2.0, 100.0], "3.00 (1.00 – 100)"),
        ] {
            assert_eq!(Spread::of(values).to_string(), expected, "{values:?}");
        }
    }

    #[test]
    fn a_second_server_gets_a_column_and_a_ratio() {
        let mut report = Report::default();
        report.add("Calls", "1 KiB", "µs", "ours", 10.0);
        report.add("Calls", "1 KiB", "µs", "other", 20.0);
        report.add("Calls", "1 KiB", "µs", "other", 30.0);
        report.add("Calls", "64 KiB", "µs", "ours", 50.0);
        let expected = "## Calls\n\n| | unit | ours | other | ours / other |\n|---|---|---|---|---|\n\
             | 1 KiB | µs | 10.0 | 25.0 (20.0 – 30.0) | 0.40 |\n| 64 KiB | µs | 50.0 | – | – |\n\n";
        assert_eq!(report.markdown(), expected);
    }
}
