//! `rtla-timerlat-top`: the table printed by `rtla timerlat top`.
//!
//! This is based on rtla's `src/timerlat_top.c` (6.1 to 6.18). The table has a title, the duration
//! and the time unit, the column names, and a row for each CPU. A row contains the number of
//! interrupts, then the current, minimum, mean and maximum latency of the interrupt handler, of the
//! thread and, with `-u` or `-U`, of the return to user space. A figure without samples is `-`. The
//! row `ALL` (since 6.8) contains the number of all interrupts with six digits and an exponent.
//! Live output clears the screen and prints everything again. Text that was copied from a terminal
//! lacks the control characters that clear the screen.

use std::collections::BTreeMap;

use punctual_model::{CpuSet, Histogram, Nanos, Recording};

use super::blank::{MICROSECOND, THREADS, blank, finish, thread};
use super::rtla::{note, read_duration};
use super::rtla_osnoise_top::{CLEARED, COPIED, bare, take_duration};
use super::text::{count, in_order, is_prompt};
use super::unit::NANOSECOND;
use super::{Import, ImportError, Location, Malformed, SampleSink, Source};

pub(crate) const IMPORT: Import = Import {
    name: "rtla-timerlat-top",
    summary: "the table of rtla timerlat top",
    documentation: "Each CPU becomes several threads of the recording: one for the interrupt \
        handler, one for the thread, and one for the return to user space if the table has it. \
        Every wake-up appears in all of these threads, so their counts are never added. The lines \
        have no histogram, so the recording has no percentiles: the latencies of single samples \
        are unknown. rtla counts only the interrupts; their number is also used for the other \
        columns. The mean is read from the file, in which rtla rounds it down to its unit.

For live output, only the last table is read. Several tables without a cleared screen, \
        as copied from a terminal, are read in the same way, with a warning. The file is refused \
        if a later table has fewer interrupts, a larger minimum or a smaller maximum, because it \
        then belongs to another run. A table is also refused if its row ALL differs from the sum \
        of its CPUs. The file does not record the time of the measurement, the load, or the \
        machine.",
    has_samples: false,
    unit_known: true,
    recognise: |head| head.lines().any(|line| is_header(bare(&line))),
    read,
};

const TITLE: &str = "Timer Latency";

/// Recognises
/// `  0 00:10:00   |          IRQ Timer Latency (us)        |         Thread Timer Latency (us)`.
fn is_header(line: &str) -> bool {
    let duration = line.split_once('|').map_or("", |(head, _)| head);
    line.contains("IRQ Timer Latency (")
        && line.contains("Thread Timer")
        && read_duration(duration).is_some()
}

/// The name of each group of columns.
const WHAT: [&str; 3] = ["interrupt", "thread", "user space"];

/// Minimum, mean and maximum latency, in the unit of the file.
type Figures = (u64, u64, u64);

/// The row of a CPU.
struct Row {
    count: u64,
    /// Figures of each group, in the order of [`WHAT`].
    groups: Vec<Option<Figures>>,
}

impl Row {
    /// Returns whether the figures of another row can be those of the same run, but later.
    fn precedes(&self, later: &Self) -> bool {
        let holds = |(before, after): (&Option<Figures>, &Option<Figures>)| match (before, after) {
            (Some(before), Some(after)) => after.0 <= before.0 && before.2 <= after.2,
            (None, _) => true,
            (Some(_), None) => false,
        };
        self.groups.iter().zip(&later.groups).all(holds)
    }
}

/// State while the tables are being read.
#[derive(Default)]
struct Tables {
    /// Unit and number of groups of the current table.
    header: Option<(Nanos, usize)>,
    rows: BTreeMap<u32, Row>,
    /// Rows of the previous table.
    before: BTreeMap<u32, Row>,
    /// Whether the screen was not cleared before one of the tables.
    copied: bool,
}

fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    let mut recording = blank(source, IMPORT.name, "rtla timerlat top", "timer");
    let mut tables = Tables::default();
    while let Some(line) = source.next_line()? {
        let (text, complete) = (line.text().into_owned(), line.complete);
        let is_cleared = text.contains(CLEARED);
        let text = bare(&text);
        let result = if complete || text.is_empty() || is_prompt(text.as_bytes()) {
            tables.line(text, is_cleared, &mut recording)
        } else {
            Err(Malformed::LineTruncated)
        };
        result.map_err(|reason| source.bad(reason))?;
    }
    let bad = |reason: Malformed| source.bad_at(Location::Whole, reason);
    tables.check_complete().map_err(bad)?;
    if tables.copied {
        recording.warnings.push(COPIED.to_owned());
    }
    let (unit, groups) = tables.header.ok_or_else(|| bad(Malformed::NoTable))?;
    if tables.rows.is_empty() || tables.rows.len() > THREADS {
        return Err(bad(Malformed::NoTable));
    }
    for (cpu, row) in &tables.rows {
        for (what, figures) in WHAT.iter().zip(&row.groups) {
            let label = format!("CPU {cpu}, {what}");
            let histogram = histogram(unit, row.count, *figures);
            let histogram = histogram.map_err(|why| bad(why.within(label.as_str())))?;
            let mut thread = thread(recording.threads.len(), Some(*cpu), histogram);
            thread.label = Some(label);
            recording.threads.push(thread);
        }
    }
    recording.probe.alike = groups == 1;
    Ok(finish(recording))
}

impl Tables {
    fn line(
        &mut self,
        text: &str,
        is_cleared: bool,
        recording: &mut Recording,
    ) -> Result<(), Malformed> {
        if text == TITLE {
            self.refresh(is_cleared)?;
        } else if is_header(text) {
            self.refresh(is_cleared)?;
            return self.take_header(text, recording);
        } else if let Some(rest) = text.strip_prefix("ALL ") {
            return self.check_all(rest);
        } else if text.starts_with(|first: char| first.is_ascii_digit()) {
            return self.row(text);
        } else {
            note(text, recording);
        }
        Ok(())
    }

    /// Begins the next table of live output.
    fn refresh(&mut self, is_cleared: bool) -> Result<(), Malformed> {
        if !self.rows.is_empty() {
            self.check_complete()?;
            self.copied |= !is_cleared;
            self.before = std::mem::take(&mut self.rows);
            self.header = None;
        }
        Ok(())
    }

    /// Checks that a table has the CPUs of the previous one.
    fn check_complete(&self) -> Result<(), Malformed> {
        let complete = self.before.is_empty() || self.rows.keys().eq(self.before.keys());
        complete.then_some(()).ok_or(Malformed::OtherCpus)
    }

    fn take_header(&mut self, text: &str, recording: &mut Recording) -> Result<(), Malformed> {
        let mut groups = text.split('|');
        let duration = groups.next().unwrap_or_default();
        let duration = read_duration(duration).ok_or(Malformed::DurationForm)?;
        let groups: Vec<&str> = groups.collect();
        let all = |unit: &str| groups.iter().all(|group| group.contains(unit));
        let unit = match (all("(us)"), all("(ns)")) {
            (true, false) => MICROSECOND,
            (false, true) => NANOSECOND,
            _ => return Err(Malformed::UnitNotMicros),
        };
        if groups.len() > WHAT.len() {
            return Err(Malformed::FiguresOfRow(groups.len()));
        }
        self.header = Some((unit, groups.len()));
        take_duration(duration, recording)
    }

    /// Parses
    /// `  0 #599998    |        0         0         1        88 |        2         1         3        97`.
    fn row(&mut self, text: &str) -> Result<(), Malformed> {
        let Some((_, many)) = self.header else {
            return Err(Malformed::foreign(text.as_bytes()));
        };
        let mut parts = text.split('|');
        let head = parts.next().unwrap_or_default();
        let (cpu, interrupts) = head.split_once('#').ok_or(Malformed::MissingField("'#'"))?;
        let cpu = count(cpu.trim())?;
        let cpu = u32::try_from(cpu)
            .ok()
            .filter(|cpu| *cpu <= CpuSet::MAX_CPU);
        let cpu = cpu.ok_or(Malformed::FirstColumnNotACpu)?;
        let row = Row {
            count: count(interrupts.trim())?,
            groups: parts.map(figures).collect::<Result<_, _>>()?,
        };
        if row.groups.len() != many {
            return Err(Malformed::Figures {
                name: "the row",
                found: row.groups.len(),
                wanted: many,
            });
        }
        if let Some(before) = self.before.get(&cpu)
            && (before.count > row.count || !before.precedes(&row))
        {
            return Err(Malformed::SecondRunBegins);
        }
        match self.rows.insert(cpu, row) {
            Some(_) => Err(Malformed::CpuTwice(cpu)),
            None => Ok(()),
        }
    }

    /// Checks `#119999 e1 | …`: the number of all interrupts, with its exponent.
    fn check_all(&self, text: &str) -> Result<(), Malformed> {
        let head = text.split('|').next().unwrap_or_default();
        let mut words = head.split_whitespace();
        let digits = words.next().and_then(|word| word.strip_prefix('#'));
        let exponent = words.next().and_then(|word| word.strip_prefix('e'));
        let all = count(digits.unwrap_or_default())?;
        let exponent = exponent.map_or(Ok(0), count)?;
        let unit = u32::try_from(exponent)
            .ok()
            .and_then(|exponent| 10u64.checked_pow(exponent));
        let counts = self.rows.values().map(|row| row.count);
        let sum = counts.fold(0, u64::saturating_add);
        if unit.is_some_and(|unit| sum / unit == all) {
            Ok(())
        } else {
            Err(Malformed::SamplesOfSystem { system: all, sum })
        }
    }
}

/// Parses `        0         0         1        88`: the current, minimum, mean and maximum
/// latency.
fn figures(text: &str) -> Result<Option<Figures>, Malformed> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, min, avg, max] = words[..] else {
        return Err(Malformed::Figures {
            name: "the row",
            found: words.len(),
            wanted: 4,
        });
    };
    if words.iter().all(|word| *word == "-") {
        return Ok(None);
    }
    let figures = (count(min)?, count(avg)?, count(max)?);
    in_order(figures.0, figures.1, figures.2)?;
    Ok(Some(figures))
}

fn histogram(unit: Nanos, count: u64, figures: Option<Figures>) -> Result<Histogram, Malformed> {
    let mut histogram = Histogram::imported(unit, unit);
    let Some((min, avg, max)) = figures else {
        return Ok(histogram);
    };
    if count == 0 {
        return Err(Malformed::SamplesCounted { total: 0, count: 1 });
    }
    let time = |value: u64| value.checked_mul(unit.0).map(Nanos);
    let sum = avg.checked_mul(count).and_then(time);
    let (Some(min), Some(max), Some(sum)) = (time(min), time(max), sum) else {
        return Err(Malformed::FiguresTooLarge);
    };
    histogram.add_unplaced(count, Nanos::ZERO);
    histogram.set_figures(Some(min), Some(max), Some(sum));
    Ok(histogram)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_refuses, read_text, refused};
    use super::*;

    const TEXT: &str = include_str!("../../tests/fixtures/rtla-timerlat-top.txt");

    #[test]
    fn cpu_groups_become_threads() {
        let recording = read_text(&IMPORT, TEXT).unwrap();
        let of = |place: usize| {
            let thread = &recording.threads[place];
            let histogram = &thread.histogram;
            (thread.title(), histogram.count(), histogram.max())
        };
        let us = |us| Some(Nanos::from_micros(us));
        assert_eq!(of(0), ("CPU 0, interrupt".to_owned(), 599_998, us(88)));
        assert_eq!(of(1), ("CPU 0, thread".to_owned(), 599_998, us(97)));
        assert_eq!(of(3), ("CPU 1, thread".to_owned(), 599_997, us(102)));
        assert_eq!(recording.threads[1].histogram.mean(), us(3));
        assert_eq!(recording.duration_ns, Nanos::from_secs(600));
        assert!(!recording.threads_are_alike());
    }

    #[test]
    fn live_output_is_its_last_table() {
        let live = TEXT.replace(
            "            Timer Latency",
            "\u{1b}c          Timer Latency",
        );
        let early = live
            .replace("#599998 ", "#99998  ")
            .replace("ALL #1199995", "ALL #699995 ");
        let early = early.replace("0 00:10:00", "0 00:01:40");
        let recording = read_text(&IMPORT, &format!("{early}{live}")).unwrap();
        assert_eq!(recording.threads[0].histogram.count(), 599_998);
        let copied = early.replace("\u{1b}c", "") + TEXT;
        let recording = read_text(&IMPORT, &copied).unwrap();
        assert_eq!(recording.threads[0].histogram.count(), 599_998);
        assert!(recording.warnings[0].contains("several tables"));
        let user = TEXT
            .replace(
                "Latency (us)\n",
                "Latency (us)      |    Ret user Timer Latency (us)\n",
            )
            .replace("97\n", "97 |        -         -         -         -\n")
            .replace("102\n", "102 |        9         1         3        99\n");
        let recording = read_text(&IMPORT, &user).unwrap();
        assert_eq!(recording.threads[2].histogram.count(), 0);
        assert_eq!(recording.threads[5].title(), "CPU 1, user space");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let fewer = TEXT
            .replace("#599998", "#599997")
            .replace("#1199995", "#1199994");
        let runs = format!("{TEXT}{fewer}");
        assert!(refused(&IMPORT, runs.as_bytes()).contains("second run"));
        let smaller = TEXT.replace("        97\n", "        96\n");
        let runs = format!("{TEXT}{smaller}");
        assert!(refused(&IMPORT, runs.as_bytes()).contains("second run"));
        let (cut, _) = TEXT.split_once("  1 #").unwrap();
        let cut = format!("{TEXT}{cut}");
        assert!(refused(&IMPORT, cut.as_bytes()).contains("other CPUs"));
        let changes = [
            (
                "Thread Timer Latency (us)",
                "Thread Timer Latency (ns)",
                "unit",
            ),
            ("0 00:10:00", "00:10:00", "not a line"),
            ("1 #599997", "0 #599997", "twice"),
            ("1 #599997", "1 #599990", "sum of its cores"),
            ("        97", "         0", "inconsistent"),
            ("        97", "", "3 figures instead of 4"),
            ("  1 #599997", "99999 #599997", "not contain a CPU"),
        ];
        assert_refuses(&IMPORT, TEXT, &changes);
        let title = "    Timer Latency\n";
        assert!(refused(&IMPORT, title.as_bytes()).contains("no table"));
    }
}
