//! `hgrm`: the percentile distribution that HdrHistogram and wrk2 print.
//!
//! This is based on HdrHistogram's `AbstractHistogram.outputPercentileDistribution`, and on those
//! of its ports to C and Python. A line contains a value, the share of samples up to it, their
//! number, and the inverse of the remaining share. The lines are followed by the mean, standard
//! deviation, maximum and count. The file does not state the unit of the values.

use punctual_model::{Nanos, Recording};

use super::blank::{MICROSECOND, blank, finish, thread};
use super::counted::Counted;
use super::decimal::Decimal;
use super::text::{count, field};
use super::{Import, ImportError, Malformed, SampleSink, Source};
use crate::hgrm::VALUES_IN_US;

pub(crate) const IMPORT: Import = Import {
    name: "hgrm",
    summary: "a percentile distribution of HdrHistogram or wrk2 (.hgrm)",
    documentation: "The file lists percentiles, so a sample between two of them has a latency \
        between their values. It counts as the upper value, with a warning: percentiles that the \
        file lists are exact, and others can be too large, but not too small. Mean, maximum and \
        count are read from the end of the file.

The file does not state the unit of its values: microseconds are assumed, with a \
        warning; --unit states another unit. wrk2 prints milliseconds. Files that punctual wrote state their unit. The \
        file does not record the time or kind of the measurement, its duration, the threads, the \
        load, or the machine.",
    has_samples: false,
    unit_known: false,
    recognise: |head| head.lines().any(|line| is_header(&line)),
    read,
};

/// Recognises `       Value     Percentile TotalCount 1/(1-Percentile)`.
fn is_header(line: &str) -> bool {
    const NAMES: [&str; 4] = ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"];
    line.split_whitespace().eq(NAMES)
}

/// Maximum number of lines. HdrHistogram's default writes about 330 lines for 64 bits.
const LINES: usize = 1_000_000;

/// State while the file is being read.
#[derive(Default)]
struct Text {
    headed: bool,
    stated: bool,
    /// Values, and the number of samples up to each.
    lines: Vec<(Decimal, u64)>,
    /// Whether the last line is the line of 100%.
    ended: bool,
    mean: Option<Decimal>,
    max: Option<Decimal>,
    total: Option<u64>,
}

fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    source.whole_text(Text::line, Text::recording)
}

impl Text {
    fn line(&mut self, line: &str) -> Result<(), Malformed> {
        if is_header(line) {
            let again = std::mem::replace(&mut self.headed, true);
            return if again {
                Err(Malformed::SecondHistogram)
            } else {
                Ok(())
            };
        }
        let mut rest = line;
        if line == VALUES_IN_US {
            self.stated = true;
        } else if line.starts_with("#[Mean") {
            let mean = field(&mut rest, "=", ",").map(str::trim);
            // Without samples, the mean is not a number.
            self.mean = mean
                .filter(|mean| !mean.contains("nan") && !mean.contains("NaN"))
                .map(Decimal::parse)
                .transpose()?;
        } else if line.starts_with("#[Max") {
            let max = field(&mut rest, "=", ",").unwrap_or_default();
            self.max = Some(Decimal::parse(max.trim())?);
            let total = field(&mut rest, "=", "]").unwrap_or_default().trim();
            // HdrHistogram for Python writes the count with decimals.
            let total = total.strip_suffix(".000").unwrap_or(total);
            self.total = Some(count(total)?);
        } else if self.headed && self.total.is_none() && !line.is_empty() && !line.starts_with('#')
        {
            return self.row(line);
        }
        Ok(())
    }

    /// Parses `       5.471 0.409510000000        328           1.69`. The last number is missing
    /// or infinite in the line of 100%.
    fn row(&mut self, line: &str) -> Result<(), Malformed> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (value, share, up_to) = match words[..] {
            [value, share, up_to] | [value, share, up_to, _] => (value, share, up_to),
            _ => {
                return Err(Malformed::Figures {
                    name: "the line",
                    found: words.len(),
                    wanted: 4,
                });
            }
        };
        if self.lines.len() == LINES {
            return Err(Malformed::TooMany {
                most: LINES,
                what: "percentiles",
            });
        }
        let value = Decimal::parse(value)?;
        let share = Decimal::parse(share)?.of(ONE)?;
        let up_to = count(up_to)?;
        if self.ended || share > ONE {
            return Err(Malformed::SecondHistogram);
        }
        if let Some((before, fewer)) = self.lines.last()
            && (before.of(ONE)? > value.of(ONE)? || *fewer > up_to)
        {
            return Err(Malformed::PercentileNotAbove);
        }
        self.ended = share == ONE;
        self.lines.push((value, up_to));
        Ok(())
    }

    fn recording(self, source: &Source<'_>) -> Result<Recording, Malformed> {
        if !self.headed {
            return Err(Malformed::MissingRows);
        }
        let (max, total) = self
            .max
            .zip(self.total)
            .ok_or(Malformed::MissingLine("#[Max"))?;
        let unit = source.unit();
        if self.stated && unit.is_some() {
            return Err(Malformed::UnitStated);
        }
        let one = unit.unwrap_or(MICROSECOND);
        let listed = self.lines.last().map_or(0, |(_, up_to)| *up_to);
        let beyond = total.checked_sub(listed);
        let beyond = beyond.ok_or(Malformed::SamplesCounted {
            total: listed,
            count: total,
        })?;
        if beyond > 0 && self.ended {
            return Err(Malformed::SamplesCounted {
                total: listed,
                count: total,
            });
        }
        if beyond > 0 && !self.stated {
            return Err(Malformed::MissingLine("1.000000000000"));
        }
        let step = max.step(one);
        let mut counted = Counted {
            unit: step,
            row: step,
            beyond,
            max: Some(max.of(one)?),
            ..Counted::default()
        };
        let (mut before, mut between) = (0, false);
        let mut last = None;
        for (value, up_to) in &self.lines {
            let value = value.of(one)?;
            let more = up_to - before;
            between |= more > 1 && last.is_some_and(|last| last != value);
            counted.add(value, more);
            (before, last) = (*up_to, Some(value));
        }
        counted.from = counted.end();
        let mut histogram = counted.histogram()?;
        if let Some(mean) = self.mean.filter(|_| total > 0) {
            let mean = mean.of(one)?;
            if mean > max.of(one)? {
                return Err(Malformed::MeanOutside(mean));
            }
            // The samples between two percentiles are smaller than the value that they count as.
            let sum = mean
                .0
                .checked_mul(total)
                .ok_or(Malformed::FiguresTooLarge)?;
            histogram.set_figures(None, None, Some(Nanos(sum)));
        }
        let mut recording = blank(source, IMPORT.name, "HdrHistogram", "latency");
        recording.threads.push(thread(0, None, histogram));
        let warnings = &mut recording.warnings;
        if between {
            warnings.push(
                "the file lists percentiles; a sample between two percentiles counts as the upper \
                 one"
                .to_owned(),
            );
        }
        if !self.stated && unit.is_none() {
            warnings.push(
                "the file does not state the unit of its values; microseconds are assumed (if this \
                 is wrong, use --unit ns or --unit ms; wrk2 prints ms)"
                    .to_owned(),
            );
        }
        Ok(finish(recording))
    }
}

/// 100% as a number of billionths.
const ONE: Nanos = Nanos(1_000_000_000);

#[cfg(test)]
mod tests {
    use punctual_model::testing;

    use super::super::testing::{assert_refuses, read_recognised, read_text, refused};
    use super::*;
    use crate::testing::written;

    const TEXT: &str = include_str!("../../tests/fixtures/hdrhistogram.hgrm");

    /// The figures are those of HdrHistogram for Python, which wrote the file.
    #[test]
    fn listed_percentiles_are_exact() {
        let recording = read_recognised(TEXT.as_bytes()).unwrap();
        let histogram = &recording.threads[0].histogram;
        assert_eq!(histogram.count(), 120);
        assert_eq!(histogram.max(), Some(Nanos(105_087)));
        assert_eq!(histogram.mean(), Some(Nanos(12_620)));
        assert_eq!(histogram.quantile(0.1).unwrap().0 / 10, 156);
        let said = recording.warnings.join("\n");
        assert!(
            said.contains("upper one") && said.contains("microseconds"),
            "{said}"
        );
    }

    #[test]
    fn own_file_comes_back() {
        let recording = testing::recording(2, 3);
        let text = written("hgrm", &recording);
        let back = read_recognised(text.as_bytes()).unwrap();
        assert_eq!(back.accounting().recorded, recording.accounting().recorded);
        assert!(
            !back.warnings.join("").contains("unit"),
            "{:?}",
            back.warnings
        );
        let lines = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| !line.contains("Deviation"));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(lines(&written("hgrm", &back)), lines(&text));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let changes = [
            (
                "1.000000000000        120",
                "1.000000000000        119",
                "not in increasing order",
            ),
            ("       0.393", "    9999.393", "not in increasing order"),
            ("#[Max", "#[Mix", "'#[Max' is missing"),
            ("0.393 0.0", "-0.393 0.0", "not a time"),
            ("0.100000000000         12", "0.100000000000", "not a count"),
            ("12.620", "99912.620", "mean"),
        ];
        assert_refuses(&IMPORT, TEXT, &changes);
        let twice = format!("{TEXT}{TEXT}");
        assert!(refused(&IMPORT, twice.as_bytes()).contains("second histogram"));
        let ms = read_text(&IMPORT, TEXT).unwrap();
        assert_eq!(
            ms.threads[0].histogram.resolution().unwrap().unit_ns,
            Nanos(1)
        );
    }
}
