//! `xenomai-latency`: the output of Xenomai's `latency` and EVL's `latmus`.
//!
//! This is based on Xenomai's `testsuite/latency/latency.c` (2.6 and 3) and libevl's `latmus.c`.
//! `RTT|` contains the time since the start and the period, `RTD|` the figures of one second and
//! the best and worst figures so far, and `RTS|` the figures of the whole run and its duration.
//! Latencies are microseconds with three decimals, and may be negative, because the timer is
//! programmed ahead by the calibrated latency. One second contains as many samples as periods.

use punctual_model::{CpuSet, Histogram, Nanos, Policy, Recording, Scheduling, Unknown};

use super::blank::{blank, finish, learn, thread};
use super::counted::Counted;
use super::text::{WordsBelow, count, field, is_prompt, plain};
use super::{Head, Import, ImportError, Location, Malformed, SampleSink, Source};

pub(crate) const IMPORT: Import = Import {
    name: "xenomai-latency",
    summary: "the output of Xenomai's latency and EVL's latmus",
    documentation: "The figures of the whole run are read from the line RTS|, or from the last \
        line RTD| if there is no line RTS|. They are the smallest, mean and largest latency, the \
        overruns (missed periods) and the duration. A second summary, or a time that decreases, \
        shows that the file contains a second run, and the file is refused.

With -h, the histogram of all samples is read. Without it, the file does not count samples: \
        their number is calculated from the duration and the period, with a warning, and the \
        recording has no percentiles. A negative minimum (samples before their \
        due time) is omitted, with a warning. The file does not record the time of the \
        measurement, the load, or the machine. Only files of latmus record the CPU.",
    has_samples: false,
    unit_known: true,
    recognise,
    read,
};

const BEGINNINGS: [&[u8]; 5] = [b"RTT|", b"RTH|", b"RTD|", b"RTS|", b"== Sampling period:"];

fn recognise(head: &Head<'_>) -> bool {
    let mut lines = head.lines();
    // RTAI prints lines of another form with the same beginnings.
    !head.contains("RTAI")
        && lines.any(|line| {
            let line = plain(line.as_bytes());
            BEGINNINGS.iter().any(|begin| line.starts_with(begin))
        })
}

/// Minimum, mean and maximum latency in ns, and number of overruns.
#[derive(Clone, Copy)]
struct Figures {
    min: i64,
    mean: i64,
    max: i64,
    overruns: u64,
    switches: u64,
}

/// State while the file is being read.
#[derive(Default)]
struct Text {
    period_us: Option<u64>,
    /// The CPU, which only latmus states.
    cpu: Option<u32>,
    mode: Option<String>,
    priority: Option<u8>,
    /// Number of seconds from the start to the last `RTT|`.
    at_s: u64,
    /// Number of `RTD|` lines, and the sum of their means.
    seconds: u64,
    means: i128,
    last: Option<Figures>,
    summary: Option<(Figures, u64)>,
    words: WordsBelow,
    /// The histogram of means of samples (`-h`): the lower edge and the width of each row in µs, and
    /// its samples.
    rows: Vec<(u64, u64, u64)>,
    /// Number of samples in the histogram, including those beyond its rows.
    counted: Option<u64>,
}

fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    let mut text = Text::default();
    while let Some(line) = source.next_line()? {
        let complete = line.complete;
        let bytes = plain(line.bytes);
        let result = if complete || bytes.is_empty() || is_prompt(bytes) {
            std::str::from_utf8(bytes)
                .map_err(|_| Malformed::LineNotText)
                .and_then(|line| text.line(line))
        } else {
            Err(Malformed::LineTruncated)
        };
        result.map_err(|reason| source.bad(reason))?;
    }
    let recording = text.recording(source);
    recording.map_err(|reason| source.bad_at(Location::Whole, reason))
}

impl Text {
    fn line(&mut self, line: &str) -> Result<(), Malformed> {
        const BESIDE: [&str; 6] = ["---|", "RTH|", "HSH|", "== ", "warming up", "Warning!"];
        let is_of_a_run = line.starts_with("RT") || line.starts_with("== ");
        if is_of_a_run && self.summary.is_some() {
            return Err(Malformed::SecondRunBegins);
        }
        if is_of_a_run {
            self.words.figures_follow()?;
        }
        if let Some(period) = line.strip_prefix("== Sampling period:") {
            return self.period(period.trim().strip_suffix("us"));
        }
        match line.split_once('|') {
            Some(("RTT", rest)) => self.head(rest),
            Some(("RTD", rest)) => self.second(rest),
            Some(("RTS", rest)) => self.whole(rest),
            Some(("HSD", rest)) => self.histogram_row(rest),
            Some(("HSS", rest)) => self.histogram_sum(rest),
            _ if line.is_empty() || BESIDE.iter().any(|begin| line.starts_with(begin)) => Ok(()),
            _ if self.last.is_none() && self.summary.is_none() => Ok(()),
            _ => self.words.take(line.as_bytes()),
        }
    }

    fn period(&mut self, text: Option<&str>) -> Result<(), Malformed> {
        let period = count(text.unwrap_or_default().trim())?;
        if period == 0 || *self.period_us.get_or_insert(period) != period {
            return Err(Malformed::SecondRunBegins);
        }
        Ok(())
    }

    /// Parses `  00:00:01  (periodic user-mode task, 1000 us period, priority 99)`.
    fn head(&mut self, text: &str) -> Result<(), Malformed> {
        let (clock, rest) = text
            .split_once('(')
            .ok_or(Malformed::MissingField("mode"))?;
        let at_s = seconds(clock.trim())?;
        if at_s < self.at_s {
            return Err(Malformed::SecondRunBegins);
        }
        self.at_s = at_s;
        let (mode, rest) = rest
            .split_once(", ")
            .ok_or(Malformed::MissingField("period"))?;
        self.mode
            .get_or_insert_with(|| super::head::shown(mode.as_bytes()));
        let mut rest = rest;
        self.period(field(&mut rest, "", " us period"))?;
        if let Some((_, behind)) = rest.split_once("priority ") {
            let digits = behind.find(|c: char| !c.is_ascii_digit());
            let priority = count(&behind[..digits.unwrap_or(behind.len())])?;
            self.priority = u8::try_from(priority)
                .ok()
                .filter(|priority| *priority < 100);
        }
        if let Some((_, behind)) = rest.split_once(", CPU") {
            // latmus marks a CPU that is not isolated: `CPU2-noisol`.
            let cpu = behind.trim_end_matches(')');
            let cpu = count(cpu.strip_suffix("-noisol").unwrap_or(cpu))?;
            let valid = u32::try_from(cpu)
                .ok()
                .filter(|cpu| *cpu <= CpuSet::MAX_CPU);
            let valid = valid.ok_or(Malformed::NotACpu(cpu))?;
            if *self.cpu.get_or_insert(valid) != valid {
                return Err(Malformed::SecondRunBegins);
            }
        }
        Ok(())
    }

    /// Parses `      1.452|      2.178|     10.741|       0|     0|      1.452|     10.741`.
    fn second(&mut self, text: &str) -> Result<(), Malformed> {
        let mut cells = text.split('|');
        let of_second = figures(&mut cells)?;
        let (best, worst) = (latency(cells.next())?, latency(cells.next())?);
        let holds = best <= of_second.min && of_second.max <= worst;
        if !holds {
            return Err(Malformed::SecondOutside);
        }
        if let Some(before) = &self.last
            && (best > before.min || worst < before.max || of_second.overruns < before.overruns)
        {
            return Err(Malformed::SecondRunBegins);
        }
        self.seconds += 1;
        self.means += i128::from(of_second.mean);
        self.last = Some(Figures {
            min: best,
            max: worst,
            mean: 0,
            ..of_second
        });
        Ok(())
    }

    /// Parses `      1.452|      2.170|     12.790|       0|     0|    00:00:02/00:00:02`.
    fn whole(&mut self, text: &str) -> Result<(), Malformed> {
        let mut cells = text.split('|');
        let of_all = figures(&mut cells)?;
        let clock = cells.next().unwrap_or_default();
        let (actual, _) = clock.split_once('/').ok_or(Malformed::DurationForm)?;
        if let Some(last) = &self.last
            && (of_all.min > last.min || of_all.max < last.max)
        {
            return Err(Malformed::SecondOutside);
        }
        self.summary = Some((of_all, seconds(actual.trim())?));
        Ok(())
    }

    /// Parses `    avg|   6 -  7 |       10`. The rows of the smallest and largest latency of each
    /// second are skipped.
    fn histogram_row(&mut self, text: &str) -> Result<(), Malformed> {
        let mut cells = text.split('|').map(str::trim);
        if cells.next() != Some("avg") {
            return Ok(());
        }
        let range = cells.next().unwrap_or_default();
        let (from, to) = range
            .split_once('-')
            .ok_or(Malformed::MissingField("'-'"))?;
        let (from, to) = (count(from.trim())?, count(to.trim())?);
        let samples = count(cells.next().unwrap_or_default())?;
        let width = to.checked_sub(from).filter(|width| *width > 0);
        let width = width.ok_or(Malformed::SecondOutside)?;
        if self
            .rows
            .last()
            .is_some_and(|(last, width, _)| last + width > from)
        {
            return Err(Malformed::RowNotAbove(from));
        }
        if to > u64::MAX / 1_000 || self.rows.len() >= crate::MAX_ROWS {
            return Err(Malformed::MicrosTooMany(to));
        }
        self.rows.push((from, width, samples));
        Ok(())
    }

    /// Parses `    avg|     19910|      1.402|      0.310`.
    fn histogram_sum(&mut self, text: &str) -> Result<(), Malformed> {
        let mut cells = text.split('|').map(str::trim);
        if cells.next() == Some("avg") {
            self.counted = Some(count(cells.next().unwrap_or_default())?);
        }
        Ok(())
    }

    /// Returns the histogram that the file contains, if any.
    fn stated_histogram(&self, figures: &Figures) -> Result<Option<Histogram>, Malformed> {
        let Some((_, width, _)) = self.rows.first().copied() else {
            return Ok(None);
        };
        let total = self.counted.ok_or(Malformed::MissingSummary("HSS|"))?;
        let mut rows = self.rows.clone();
        let max = u64::try_from(figures.max).unwrap_or(0);
        // The last row also counts all larger latencies.
        if rows
            .last()
            .is_some_and(|(from, width, _)| max >= (from + width) * 1_000)
        {
            rows.pop();
        }
        let one = Nanos(width * 1_000);
        let mut counted = Counted {
            unit: Nanos(1),
            row: one,
            min: u64::try_from(figures.min).ok().map(Nanos),
            max: Some(Nanos(max)),
            mean: Some(figures.mean as f64).filter(|mean| *mean >= 0.0),
            ..Counted::default()
        };
        for (from, of_row, samples) in rows {
            if of_row != width {
                return Err(Malformed::SecondOutside);
            }
            counted.add(Nanos(from * 1_000), samples);
        }
        let in_rows = counted.total()?;
        counted.beyond = total.checked_sub(in_rows).ok_or(Malformed::TotalNotSum)?;
        counted.from = counted.end();
        let first = counted
            .rows
            .first_key_value()
            .map_or(0, |(first, _)| *first);
        let in_first = |min: &Nanos| (first..first + one.0).contains(&min.0);
        counted.min = counted.min.filter(in_first);
        counted.histogram().map(Some)
    }

    fn recording(self, source: &Source<'_>) -> Result<Recording, Malformed> {
        let (figures, seconds) = match (self.summary, self.last) {
            (Some(summary), _) => summary,
            (None, Some(last)) => {
                let mean = self.means / i128::from(self.seconds);
                let mean = i64::try_from(mean).unwrap_or(i64::MAX);
                (Figures { mean, ..last }, self.seconds)
            }
            (None, None) => return Err(Malformed::MissingSummary("RTS|")),
        };
        let period_us = self.period_us.ok_or(Malformed::MissingPeriod)?;
        let samples = seconds.checked_mul(1_000_000 / period_us);
        let samples = samples.filter(|samples| *samples > 0);
        let samples = samples.ok_or(Malformed::DurationTooLong)?;
        let mut recording = blank(source, IMPORT.name, "latency or latmus", "timer");
        let interval = period_us.saturating_mul(1_000);
        let parameters = &mut recording.probe.parameters;
        parameters.insert("interval_ns".to_owned(), interval.into());
        let stated = self.stated_histogram(&figures)?;
        let is_calculated = stated.is_none();
        let histogram = stated.map_or_else(|| figures.histogram(samples), Ok)?;
        let mut thread = thread(0, self.cpu, histogram);
        thread.label = self.mode;
        if let Some(priority) = self.priority {
            thread.scheduling = Scheduling {
                policy: Policy::Fifo,
                priority,
            };
        }
        let account = &mut thread.accounting;
        account.missed = figures.overruns;
        account.expected = account.recorded.saturating_add(account.missed);
        if !account.balances() {
            return Err(Malformed::SamplesTooMany);
        }
        recording.threads.push(thread);
        recording.duration_ns = Nanos(seconds.saturating_mul(1_000_000_000));
        learn(&mut recording, &[Unknown::Duration, Unknown::Missed]);
        let warnings = &mut recording.warnings;
        let calculated = is_calculated.then(|| {
            format!(
                "the file does not count samples: {samples} were calculated from a duration of \
                 {seconds} s and the period"
            )
        });
        warnings.extend(calculated);
        if figures.min < 0 {
            warnings.push(format!(
                "the smallest latency is {} ns: some samples were before their due time, but the \
                 file does not record their number",
                figures.min
            ));
        }
        if figures.switches > 0 {
            warnings.push(format!(
                "{} switches to kernel mode, which increase latencies",
                figures.switches
            ));
        }
        Ok(finish(recording))
    }
}

impl Figures {
    fn histogram(&self, samples: u64) -> Result<Histogram, Malformed> {
        let ns = |value: i64| u64::try_from(value).ok().map(Nanos);
        let max = ns(self.max).ok_or_else(|| Malformed::NegativeLatency {
            name: "the maximum",
            text: self.max.to_string(),
        })?;
        let sum = ns(self.mean).and_then(|mean| mean.0.checked_mul(samples));
        let mut histogram = Histogram::imported(Nanos(1), Nanos(1));
        histogram.add_unplaced(samples, Nanos::ZERO);
        histogram.set_figures(ns(self.min), Some(max), sum.map(Nanos));
        Ok(histogram)
    }
}

/// Parses the five cells at the beginning of each line of figures.
fn figures<'a>(cells: &mut impl Iterator<Item = &'a str>) -> Result<Figures, Malformed> {
    let (min, mean, max) = (
        latency(cells.next())?,
        latency(cells.next())?,
        latency(cells.next())?,
    );
    let mut number = || count(cells.next().unwrap_or_default().trim());
    let (overruns, switches) = (number()?, number()?);
    // The mean of the run is computed from the rounded means of its seconds.
    if min <= mean.saturating_add(1) && mean <= max.saturating_add(1) {
        Ok(Figures {
            min,
            mean,
            max,
            overruns,
            switches,
        })
    } else {
        Err(Malformed::SecondOutside)
    }
}

/// Parses `-0.312` µs as ns.
fn latency(cell: Option<&str>) -> Result<i64, Malformed> {
    let text = cell.unwrap_or_default().trim();
    let not_a_time = || Malformed::NotATime(super::head::shown(text.as_bytes()));
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let (whole, part) = digits.split_once('.').ok_or_else(not_a_time)?;
    if part.len() != 3 {
        return Err(not_a_time());
    }
    let ns = count(whole)?.checked_mul(1_000);
    let ns = ns.and_then(|ns| ns.checked_add(count(part).ok()?));
    let ns = ns.and_then(|ns| i64::try_from(ns).ok());
    ns.map(|ns| sign * ns).ok_or_else(not_a_time)
}

/// Parses `00:10:00`.
fn seconds(text: &str) -> Result<u64, Malformed> {
    let mut parts = text.split(':').map(count);
    let (Some(hours), Some(minutes), Some(seconds), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(Malformed::DurationForm);
    };
    let minutes = hours?.checked_mul(60).zip(Some(minutes?));
    let minutes = minutes.and_then(|(of_hours, rest)| of_hours.checked_add(rest));
    let seconds = minutes
        .and_then(|minutes| minutes.checked_mul(60))
        .zip(Some(seconds?));
    let seconds = seconds.and_then(|(of_minutes, rest)| of_minutes.checked_add(rest));
    seconds.ok_or(Malformed::DurationTooLong)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_refuses, read_text, refused};
    use super::*;

    const TEXT: &str = include_str!("../../tests/fixtures/xenomai-latency.txt");

    #[test]
    fn the_summary_is_the_run() {
        let recording = read_text(&IMPORT, TEXT).unwrap();
        let [thread] = &recording.threads[..] else {
            panic!("{} threads", recording.threads.len());
        };
        let histogram = &thread.histogram;
        assert_eq!(thread.title(), "periodic user-mode task");
        assert_eq!(thread.scheduling.to_string(), "fifo 99");
        assert_eq!((histogram.count(), histogram.unplaced()), (2_000, 2_000));
        assert_eq!(histogram.min(), Some(Nanos(1_452)));
        assert_eq!(histogram.mean(), Some(Nanos(2_170)));
        assert_eq!(histogram.max(), Some(Nanos(12_790)));
        assert_eq!(thread.accounting.missed, 0);
        assert_eq!(recording.duration_ns, Nanos::from_secs(2));
        assert!(recording.knows(Unknown::Missed));
    }

    /// Written by hand, based on the formats in libevl's source.
    #[test]
    fn latmus_states_its_cpu() {
        let text = TEXT.replace("== Test mode: periodic user-mode task\n", "");
        let text = text.replace("== Sampling period: 1000 us\n", "");
        let text = text.replace("== All results in microseconds\n", "");
        let text = text.replace("warming up...", "warming up on CPU3...");
        let text = text.replace(
            "(periodic user-mode task, 1000 us period, priority 99)",
            "(user, 1000 us period, priority 98, CPU3)",
        );
        let recording = super::super::testing::read_recognised(text.as_bytes()).unwrap();
        assert_eq!(recording.threads[0].cpu, Some(3));
        assert_eq!(recording.threads[0].scheduling.to_string(), "fifo 98");
        assert!(recording.knows(Unknown::Cpus));
    }

    #[test]
    fn without_a_summary_the_seconds_are() {
        let (seconds, _) = TEXT
            .split_once("---|-----------|-----------|-----------|--------|---")
            .unwrap();
        let recording = read_text(&IMPORT, seconds).unwrap();
        let histogram = &recording.threads[0].histogram;
        assert_eq!(histogram.count(), 2_000);
        assert_eq!(histogram.mean(), Some(Nanos(2_169)));
        assert_eq!(histogram.max(), Some(Nanos(12_790)));
    }

    #[test]
    fn early_samples_and_overruns_are_told() {
        let text = TEXT.replace("      1.452", "     -0.312");
        let text = text.replace(
            "12.790|       0|     0|    00",
            "12.790|       7|     2|    00",
        );
        let recording = read_text(&IMPORT, &text).unwrap();
        let thread = &recording.threads[0];
        assert_eq!(
            (thread.accounting.missed, thread.accounting.expected),
            (7, 2_007)
        );
        let said = recording.warnings.join("\n");
        assert!(
            said.contains("-312 ns") && said.contains("2 switches"),
            "{said}"
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        let twice = format!("{TEXT}{TEXT}");
        assert!(refused(&IMPORT, twice.as_bytes()).contains("second run"));
        let changes = [
            (
                "2.178|     10.741",
                "2.178|      1.741",
                "contradict each other",
            ),
            (
                "2.170|     12.790",
                "2.170|     11.790",
                "contradict each other",
            ),
            ("1000 us period", "0 us period", "second run"),
            ("1000 us period", "500 us period", "second run"),
            ("2.161", "2.16", "not a time"),
            ("00:00:02/", "00:02/", "duration"),
        ];
        assert_refuses(&IMPORT, TEXT, &changes);
        let (_, cut) = TEXT.split_once("RTH|").unwrap();
        let said = refused(&IMPORT, format!("RTH|{cut}").as_bytes());
        assert!(said.contains("period"), "{said}");
    }
}
