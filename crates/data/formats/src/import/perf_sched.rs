//! `perf-sched-latency`: the table printed by `perf sched latency`.
//!
//! This is based on perf's `tools/perf/builtin-sched.c` (4.x to 6.18). A row contains the task
//! (`rustc:28146`, or `rustc:(9)` for several tasks of one name), its run time, the number of times
//! that it got the CPU, the mean and largest delay from runnable to running in ms, and the time of
//! the largest delay. The line `TOTAL:` contains the sums, and `INFO:` lines report lost events.

use punctual_model::{Histogram, Nanos, Recording};

use super::blank::{MICROSECOND, MILLISECOND, THREADS, blank, finish, thread};
use super::decimal::Decimal;
use super::head::shown;
use super::text::{WordsBelow, count, is_words};
use super::{Import, ImportError, Location, Malformed, SampleSink, Source};

pub(crate) const IMPORT: Import = Import {
    name: "perf-sched-latency",
    summary: "the table of perf sched latency",
    documentation: "Each task becomes a thread of the recording. A sample is one delay from \
        runnable to running. The file contains only the number of delays, their mean and the \
        largest, so the recording has no percentiles. The mean is rounded to 1 µs.

The table is refused without its line TOTAL, or if the line is not the sum of the rows. \
        Lost events and other problems that perf reports become warnings. The file does not \
        record the time or duration of the measurement, the CPUs, the priorities, or the \
        machine.",
    has_samples: false,
    unit_known: true,
    recognise: |head| head.lines().any(|line| is_header(&line)),
    read,
};

/// Recognises
/// `  Task                  |   Runtime ms  | Switches | Avg delay ms    | Max delay ms    | ...`.
/// Until 5.8, the columns are called `Average delay ms` and `Maximum delay ms`.
fn is_header(line: &str) -> bool {
    let mut cells = line.split('|').map(str::trim);
    let names = [cells.next(), cells.next(), cells.next(), cells.next()];
    let delay = names[3].is_some_and(|name| name.starts_with("Av") && name.ends_with("delay ms"));
    // Since 6.5, the number of delays is called `Count`.
    let counted = matches!(names[2], Some("Switches" | "Count"));
    names[..2] == [Some("Task"), Some("Runtime ms")] && counted && delay
}

/// State while the table is being read.
#[derive(Default)]
struct Rows {
    headed: bool,
    tasks: Vec<(String, Histogram)>,
    samples: u64,
    total: Option<u64>,
    warnings: Vec<String>,
    words: WordsBelow,
}

fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    let mut rows = Rows::default();
    source.whole_lines(|line| rows.line(line))?;
    let bad = |reason| source.bad_at(Location::Whole, reason);
    let total = rows
        .total
        .ok_or_else(|| bad(Malformed::MissingLine("TOTAL:")))?;
    if total != rows.samples {
        return Err(bad(Malformed::TotalNotSum));
    }
    if rows.tasks.is_empty() {
        return Err(bad(Malformed::MissingFigures));
    }
    let mut recording = blank(source, IMPORT.name, "perf sched latency", "scheduling");
    for (place, (task, histogram)) in rows.tasks.into_iter().enumerate() {
        let mut thread = thread(place, None, histogram);
        thread.label = Some(task);
        recording.threads.push(thread);
    }
    recording.warnings = rows.warnings;
    Ok(finish(recording))
}

impl Rows {
    fn line(&mut self, line: &str) -> Result<(), Malformed> {
        if is_header(line) {
            let again = std::mem::replace(&mut self.headed, true);
            return if again {
                Err(Malformed::SecondTable)
            } else {
                Ok(())
            };
        }
        if let Some((left, right)) = line.rsplit_once("| avg:") {
            self.words.figures_follow()?;
            if self.total.is_some() {
                return Err(Malformed::SecondTable);
            }
            return self.row(left, right);
        }
        if let Some(rest) = line.strip_prefix("TOTAL:") {
            let total = rest.split('|').nth(2).unwrap_or_default();
            return match self.total.replace(count(total.trim())?) {
                Some(_) => Err(Malformed::SecondTable),
                None => Ok(()),
            };
        }
        if let Some(info) = line.strip_prefix("INFO: ") {
            let info: String = info.chars().filter(|c| !c.is_control()).take(100).collect();
            self.warnings.push(format!("perf: {info}"));
            return Ok(());
        }
        let beside = line.is_empty() || line.starts_with("---") || line.starts_with('#');
        if beside || !self.headed {
            return Ok(());
        }
        // Words between the rows show that the table is damaged.
        if self.total.is_none() && !is_words(line.as_bytes()) {
            return Err(Malformed::foreign(line.as_bytes()));
        }
        self.words.take(line.as_bytes())
    }

    /// Parses `rustc:28146           |    220.698 ms |       54 ` and
    /// `  14.098 ms | max:  20.012 ms | max start: ...`. The name of a task can contain any
    /// character.
    fn row(&mut self, left: &str, right: &str) -> Result<(), Malformed> {
        if self.tasks.len() == THREADS {
            return Err(Malformed::TooMany {
                most: THREADS,
                what: "tasks",
            });
        }
        let mut cells = left.rsplitn(3, '|');
        let samples = count(cells.next().unwrap_or_default().trim())?;
        let runtime = cells.next().unwrap_or_default();
        millis(runtime)?;
        let task = cells.next().ok_or(Malformed::MissingField("task"))?.trim();
        let (mean, rest) = right
            .split_once('|')
            .ok_or(Malformed::MissingField("max:"))?;
        let max = rest.trim_start().strip_prefix("max:");
        let max = max.ok_or(Malformed::MissingField("max:"))?;
        let max = max.split('|').next().unwrap_or_default();
        let (mean, max) = (millis(mean)?, millis(max)?);
        if mean > max {
            return Err(Malformed::MeanOutside(mean));
        }
        let mut histogram = Histogram::imported(MICROSECOND, MICROSECOND);
        histogram.add_unplaced(samples, Nanos::ZERO);
        if samples > 0 {
            let sum = mean
                .0
                .checked_mul(samples)
                .ok_or(Malformed::FiguresTooLarge)?;
            histogram.set_figures(None, Some(max), Some(Nanos(sum)));
        }
        let sum = self.samples.checked_add(samples);
        self.samples = sum.ok_or(Malformed::SamplesTooMany)?;
        self.tasks.push((shown(task.as_bytes()), histogram));
        Ok(())
    }
}

/// Parses `  14.098 ms `.
fn millis(text: &str) -> Result<Nanos, Malformed> {
    let text = text.trim();
    let number = text.strip_suffix("ms").unwrap_or(text);
    Decimal::parse(number.trim_end())?.of(MILLISECOND)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_refuses, read_recognised, refused};
    use super::*;

    const TEXT: &str = include_str!("../../tests/fixtures/perf-sched-latency.txt");

    #[test]
    fn tasks_become_threads() {
        let recording = read_recognised(TEXT.as_bytes()).unwrap();
        let titles: Vec<String> = recording.threads.iter().map(|one| one.title()).collect();
        assert_eq!(titles, TITLES);
        let histogram = &recording.threads[0].histogram;
        assert_eq!(histogram.count(), histogram.unplaced());
        assert_eq!(histogram.quantile(0.5), None);
        assert!(histogram.mean() < histogram.max());
    }

    const TITLES: [&str; 4] = [
        "cyclictest:18912",
        "cyclictest:18949",
        "cyclictest:18948",
        "perf:18875",
    ];

    #[test]
    fn what_is_wrong_is_named() {
        let changes = [
            ("TOTAL:", "SUM:", "'TOTAL:' is missing"),
            ("| max:", "| min:", "max:"),
            (" ms | max:", " ms | max: -", "not a time"),
            ("| avg:   0.730", "| avg:   9.730", "mean"),
        ];
        assert_refuses(&IMPORT, TEXT, &changes);
        let twice = format!("{TEXT}{TEXT}");
        assert!(refused(&IMPORT, twice.as_bytes()).contains("second table"));
    }
}
