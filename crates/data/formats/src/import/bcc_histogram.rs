//! `bcc-histogram`: the histograms of BCC's tools, such as `runqlat`, `cpudist` and `hardirqs -d`.
//!
//! This is based on `print_log2_hist` of BCC's `table.py`, and on that of its libbpf-tools. A header
//! names the unit, and a row has the values from one number to another, both included:
//! `         4 -> 7          : 203      |**********                              |`. A line such as
//! `pid = 1234` above the header names the process, disk or interrupt.

use punctual_model::{Nanos, Recording};

use super::blank::{MICROSECOND, MILLISECOND};
use super::doubling::{self, Doubling, Scale};
use super::head::shown;
use super::text::{WordsBelow, count};
use super::unit::NANOSECOND;
use super::{Import, ImportError, Location, Malformed, SampleSink, Source};

pub(crate) const IMPORT: Import = Import {
    name: "bcc-histogram",
    summary: "a histogram of BCC's tools, such as runqlat and cpudist",
    documentation: "Each histogram becomes a thread, whose label is the line above it, such as \
        `pid = 1234`. Each row is twice as wide as the row before it. A percentile is the upper end \
        of its row: it can be too large, but not too small. The number of samples above a limit is \
        a range if the limit is inside a row. Minimum, mean and maximum are unknown.

A file with several intervals is refused: keep one of them. Histograms of other quantities \
        (kilobytes, counts) are refused. The file does not record the time or duration of the \
        measurement, the CPUs, the priorities, or the machine.",
    has_samples: false,
    unit_known: true,
    recognise: |head| {
        let has_header = head.lines().any(|line| unit_of(&line).is_some());
        // The first line of a pasted text is recognised by itself.
        has_header || (head.lines().count() == 1 && head.lines().any(|line| is_label(&line)))
    },
    read,
};

/// Parses `     usecs               : count     distribution`.
fn unit_of(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        [unit, ":", "count", "distribution"] => Some(unit),
        _ => None,
    }
}

/// Returns whether a line names the histogram below it.
fn is_label(line: &str) -> bool {
    const NAMES: [&str; 7] = ["pid", "tid", "pidns", "comm", "disk", "hardirq", "softirq"];
    let name = line.split_once(" = ").map(|(name, _)| name.trim());
    name.is_some_and(|name| NAMES.contains(&name))
}

#[derive(Default)]
struct Text {
    unit: Option<Nanos>,
    all: Vec<Doubling>,
    /// The line above the next header.
    above: String,
    words: WordsBelow,
}

fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    let mut text = Text::default();
    source.whole_lines(|line| text.line(line))?;
    let scale = Scale {
        unit: text.unit.unwrap_or(MICROSECOND),
        // The first row has the values 0 and 1.
        first: 2,
        per_octave: &[1],
    };
    let recording = doubling::recording(source, IMPORT.name, "bcc", &text.all, &scale);
    recording.map_err(|reason| source.bad_at(Location::Whole, reason))
}

impl Text {
    fn line(&mut self, line: &str) -> Result<(), Malformed> {
        let line = line.trim();
        if let Some(unit) = unit_of(line) {
            let unit = match unit {
                "nsecs" => NANOSECOND,
                "usecs" => MICROSECOND,
                "msecs" => MILLISECOND,
                other => return Err(Malformed::NotATimeUnit(shown(other.as_bytes()))),
            };
            if self.unit.replace(unit).is_some_and(|before| before != unit) {
                return Err(Malformed::SecondHistogram);
            }
            self.words = WordsBelow::default();
            return doubling::begin(&mut self.all, std::mem::take(&mut self.above));
        }
        if let (Some(last), Some((values, rest))) = (self.all.last_mut(), line.split_once(" : "))
            && let Some((lower, upper)) = values.split_once("->")
        {
            self.words.figures_follow()?;
            let (lower, upper) = (count(lower.trim())?, count(upper.trim())?);
            let number = rest.split('|').next().unwrap_or_default();
            return last.add(lower, upper.saturating_add(1), count(number.trim())?);
        }
        if line.is_empty() {
            return Ok(());
        }
        self.above = if is_label(line) {
            shown(line.as_bytes())
        } else {
            String::new()
        };
        if self.all.is_empty() || !self.above.is_empty() {
            return Ok(());
        }
        self.words.take(line.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_refuses, read_recognised, refused};
    use super::*;

    const TEXT: &str = include_str!("../../tests/fixtures/bcc-histogram.txt");

    #[test]
    fn percentiles_are_ends_of_rows() {
        let recording = read_recognised(TEXT.as_bytes()).unwrap();
        let histogram = &recording.threads[0].histogram;
        assert_eq!(histogram.count(), 1_833);
        let rows: Vec<_> = histogram.rows().take(3).collect();
        assert_eq!(
            rows,
            [(0, 2_000, 35), (2_000, 2_000, 68), (4_000, 4_000, 98)]
        );
        // The first six rows, up to 63 µs, have 31% of the samples, and the first seven have 34%.
        assert_eq!(histogram.quantile(0.31), Some(Nanos::from_micros(63)));
        assert_eq!(histogram.quantile(0.34), Some(Nanos::from_micros(127)));
        assert_eq!(histogram.quantile(1.0), Some(Nanos::from_micros(131_071)));
        assert_eq!(
            (histogram.min(), histogram.max(), histogram.mean()),
            (None, None, None)
        );
        assert!(recording.warnings[0].contains("upper ends"));
    }

    #[test]
    fn each_process_is_a_thread() {
        let one = TEXT.split_once('\n').unwrap().1.trim();
        let text = format!("pid = 7\n{one}\npid = 12\n{one}\n");
        let recording = read_recognised(text.as_bytes()).unwrap();
        let titles: Vec<String> = recording.threads.iter().map(|one| one.title()).collect();
        assert_eq!(titles, ["pid = 7", "pid = 12"]);
        // Without the names, the second one is another interval.
        let again = format!("{one}\n{one}\n");
        assert!(refused(&IMPORT, again.as_bytes()).contains("second histogram"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let changes = [
            ("usecs", "kbytes", "'kbytes' is not a unit of time"),
            ("4 -> 7 ", "5 -> 7 ", "row at 5"),
            ("4 -> 7 ", "4 -> 6 ", "row at 8"),
            (": 68 ", ": many ", "not a count"),
            ("8 -> 15 ", "8 -> 9 ", "row at 16"),
        ];
        assert_refuses(&IMPORT, TEXT, &changes);
        let even = "usecs : count distribution\n0 -> 1 : 1 ||\n2 -> 3 : 1 ||\n4 -> 5 : 1 ||\n";
        assert!(refused(&IMPORT, even.as_bytes()).contains("double"));
    }
}
