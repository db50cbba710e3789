//! `bpftrace-histogram`: the maps that bpftrace's `hist()` fills.
//!
//! This is based on bpftrace's `src/output.cpp`. A map begins with its name, and the key if it has
//! one: `@usecs[cyclictest]:`. A row has the values from the first number to below the second:
//! `[4, 8)                43 |@@@@@@@@@@          |`. `[1]` is a single value, and `K`, `M` and `G`
//! are powers of 1024. `(..., 0)` are values below zero. With a second argument, `hist()` divides
//! each power of two into up to 32 rows.

use punctual_model::{Nanos, Recording};

use super::blank::{MICROSECOND, MILLISECOND};
use super::doubling::{self, Doubling, Scale};
use super::head::shown;
use super::text::{WordsBelow, count};
use super::unit::NANOSECOND;
use super::{Import, ImportError, Location, Malformed, SampleSink, Source};

pub(crate) const IMPORT: Import = Import {
    name: "bpftrace-histogram",
    summary: "a map that hist() of bpftrace fills",
    documentation: "Each key of the map becomes a thread. Rows become wider with the latency. A \
        percentile is the upper end of its row: it can be too large, but not too small. The number \
        of samples above a limit is a range if the limit is inside a row. Minimum, mean and maximum \
        are unknown.

bpftrace does not print the unit. It is read from the last word of the map's name (@usecs, \
        @lat_ns, @ms); otherwise, --unit states it. The rows of lhist(), which have equal widths, \
        are refused. The file does not record the time or duration of the measurement, the CPUs, \
        the priorities, or the machine.",
    has_samples: false,
    unit_known: false,
    // The name of the map, because the first line of a pasted text is recognised by itself.
    recognise: |head| head.lines().any(|line| name(line.trim()).is_some()),
    read,
};

/// The values of a row, up to the end, which is not included, and the number of samples. `None` in
/// place of the values for values below zero.
type Row = (Option<(u64, u64)>, u64);

/// Parses a row. Returns `None` if the line is none.
fn row(line: &str) -> Option<Result<Row, Malformed>> {
    let (rest, _) = line.strip_suffix('|')?.split_once('|')?;
    let rest = rest.trim_end();
    let (values, number) = rest.rsplit_once(char::is_whitespace)?;
    let values = values.trim_end();
    let inside = match values.strip_prefix("(...,") {
        Some(_) => None,
        None => Some(values.strip_prefix('[')?),
    };
    let parse = || {
        let number = count(number)?;
        let Some(inside) = inside else {
            return match values {
                "(..., 0)" => Ok((None, number)),
                _ => Err(Malformed::RowsNotDoubling),
            };
        };
        if let Some(single) = inside.strip_suffix(']') {
            let lower = value(single)?;
            return Ok((Some((lower, lower.saturating_add(1))), number));
        }
        let ends = inside
            .strip_suffix(')')
            .and_then(|ends| ends.split_once(','));
        let (lower, end) = ends.ok_or_else(|| Malformed::foreign(line.as_bytes()))?;
        Ok((Some((value(lower)?, value(end.trim())?)), number))
    };
    Some(parse())
}

/// Parses `4`, `16K` or `1M`.
fn value(text: &str) -> Result<u64, Malformed> {
    let powers = ["K", "M", "G", "T", "P", "E"];
    let suffix = (1..).zip(powers).find(|(_, letter)| text.ends_with(letter));
    let (digits, shift) = match suffix {
        Some((power, letter)) => (text.strip_suffix(letter).unwrap_or(text), power * 10),
        None => (text, 0),
    };
    let whole = count(digits)?.checked_mul(1 << shift);
    whole.ok_or(Malformed::FiguresTooLarge)
}

/// Parses `@usecs[cyclictest, 3]:` into the name of the map and its key.
fn name(line: &str) -> Option<(&str, &str)> {
    let name = line.strip_prefix('@')?.strip_suffix(':')?;
    match name.split_once('[') {
        Some((name, key)) => Some((name, key.strip_suffix(']')?)),
        None => Some((name, "")),
    }
}

/// Returns the unit that a map is named after.
pub(super) fn unit_of(map: &str) -> Option<Nanos> {
    match map.rsplit('_').next()? {
        "ns" | "nsecs" => Some(NANOSECOND),
        "us" | "usecs" => Some(MICROSECOND),
        "ms" | "msecs" => Some(MILLISECOND),
        _ => None,
    }
}

#[derive(Default)]
struct Text {
    map: Option<String>,
    all: Vec<Doubling>,
    words: WordsBelow,
}

fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    let mut text = Text::default();
    source.whole_lines(|line| text.line(line))?;
    let stated = text.map.as_deref().and_then(unit_of);
    let unit = source.unit().or(stated).ok_or(Malformed::UnitUnknown);
    let recording = unit.and_then(|unit| {
        let scale = Scale {
            unit,
            first: 1,
            per_octave: &[1, 2, 4, 8, 16, 32],
        };
        doubling::recording(source, IMPORT.name, "bpftrace", &text.all, &scale)
    });
    recording.map_err(|reason| source.bad_at(Location::Whole, reason))
}

impl Text {
    fn line(&mut self, line: &str) -> Result<(), Malformed> {
        let line = line.trim();
        if let Some((map, key)) = name(line) {
            // A second map has another quantity.
            if self
                .map
                .replace(map.to_owned())
                .is_some_and(|before| before != map)
            {
                return Err(Malformed::SecondHistogram);
            }
            self.words = WordsBelow::default();
            return doubling::begin(&mut self.all, shown(key.as_bytes()));
        }
        if let Some(row) = row(line) {
            self.words.figures_follow()?;
            let last = self
                .all
                .last_mut()
                .ok_or(Malformed::MissingLine("@NAME:"))?;
            match row? {
                (None, early) => last.early = last.early.saturating_add(early),
                (Some((lower, end)), number) => last.add(lower, end, number)?,
            }
            return Ok(());
        }
        if line.is_empty() || self.all.is_empty() {
            return Ok(());
        }
        self.words.take(line.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_refuses, read_recognised, refused};
    use super::*;

    const TEXT: &str = include_str!("../../tests/fixtures/bpftrace-histogram.txt");

    #[test]
    fn rows_double_in_width() {
        let recording = read_recognised(TEXT.as_bytes()).unwrap();
        let titles: Vec<String> = recording.threads.iter().map(|one| one.title()).collect();
        assert_eq!(titles, ["rt", "fair"]);
        let histogram = &recording.threads[1].histogram;
        assert_eq!(histogram.count(), 1_881);
        let rows: Vec<_> = histogram.rows().collect();
        assert_eq!(
            rows[..3],
            [(512, 512, 9), (1_024, 1_024, 216), (2_048, 2_048, 215)]
        );
        assert_eq!(rows.last(), Some(&(1 << 26, 1 << 26, 1)));
        // The first five rows have 57% of the samples.
        assert_eq!(histogram.quantile(0.5), Some(Nanos((1 << 14) - 1)));
        assert_eq!(histogram.quantile(1.0), Some(Nanos((1 << 27) - 1)));
        assert_eq!(
            (histogram.min(), histogram.max(), histogram.mean()),
            (None, None, None)
        );
    }

    #[test]
    fn finer_rows_and_keys_are_read() {
        let text = "@lat_ns[a b]:\n(..., 0)    2 |@ |\n[16, 20)   5 |@@@@|\n[20, 24)   0 | |\n\
                    [24, 28)   1 |@ |\n\n@lat_ns[c]:\n[4]   3 |@@@@|\n";
        let recording = read_recognised(text.as_bytes()).unwrap();
        let [one, two] = &recording.threads[..] else {
            panic!("{:?}", recording.threads);
        };
        assert_eq!((one.title().as_str(), two.title().as_str()), ("a b", "c"));
        assert_eq!((one.histogram.early(), one.histogram.count()), (2, 6));
        assert_eq!(one.histogram.quantile(0.5), Some(Nanos(19)));
        assert_eq!(one.histogram.quantile(1.0), Some(Nanos(27)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let changes = [
            ("@lat_ns[rt]", "@lat[rt]", "second histogram"),
            ("[2K, 4K)", "[3K, 4K)", "double"),
            ("[4K, 8K)", "[5K, 8K)", "row at 5120"),
            ("[4K, 8K)", "[4X, 8K)", "not a count"),
        ];
        assert_refuses(&IMPORT, TEXT, &changes);
        for name in ["@", "@bus", "@lat"] {
            let text = TEXT.replace("@lat_ns", name);
            assert!(
                refused(&IMPORT, text.as_bytes()).contains("--unit"),
                "{name}"
            );
        }
        let even = "@us:\n[10, 20)  5 |@@|\n[20, 30)  5 |@@|\n";
        assert!(refused(&IMPORT, even.as_bytes()).contains("double"));
        let two = format!("{TEXT}\n@nsecs:\n[1]   1 |@|\n");
        assert!(refused(&IMPORT, two.as_bytes()).contains("second histogram"));
    }
}
