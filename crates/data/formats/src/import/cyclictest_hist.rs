//! `cyclictest-hist`: the histogram text of cyclictest's `-h` and `-H`, from its output or its
//! `--histfile`.
//!
//! This is based on rt-tests' `src/cyclictest/cyclictest.c` and `src/lib/histogram.c`, and on their
//! output. With `-H` and more than one thread, rows and most lines below them have an extra column
//! with the sum (or the maximum, for `Max`).

use punctual_model::{Cell, Histogram, Nanos, Recording, Table};

use super::blank::{MICROSECOND, THREADS, blank, finish, thread};
use super::head::shown;
use super::stopping_sample::stopped_by;
use super::text::{WordsBelow, count, is_other_line, is_prompt, plain};
use super::unit::FileUnit;
use super::{Head, Import, ImportError, Location, Malformed, SampleSink, Source};
use crate::micros::bucket_of;
use crate::{MAX_ROWS, OVERFLOW_CYCLES};

pub(crate) const IMPORT: Import = Import {
    name: "cyclictest-hist",
    summary: "cyclictest's histogram text (-h, -H, --histfile)",
    documentation: "Reads the histogram that cyclictest prints with -h or -H, or writes with \
        --histfile. rt-tests 2.4 writes all rows and a line of totals; rt-tests 2.10 writes only \
        the filled rows. Lines above the histogram, including live output, and text below it are \
        skipped. Some archives keep only the lines that begin with '#', so the file has no rows. \
        Then the number of samples is read from the totals, and the latency of each sample is \
        unknown.

Overflows are recorded as samples of unknown latency that lie above the last row. If the file \
        lists the cycles of the overflows, a table shows them. The mean is calculated from the \
        rows. If there are overflows, the mean is read from the file.

The file does not state its unit, and cyclictest -N writes nanoseconds. If the smallest latency \
        is below 100, the unit is microseconds. If it is 1000 or more, nanoseconds are assumed, \
        with a warning. Between these limits, microseconds are assumed, with a warning. --unit ns \
        and --unit us set the unit. The file does not record the time, the duration, the CPUs, \
        the policy and priority, missed periods, or the machine. A file whose sums, totals or \
        overflows contradict its rows is refused.",
    has_samples: false,
    unit_known: false,
    recognise,
    read,
};

/// The line above the rows.
const TITLE: &[u8] = b"# Histogram";

fn recognise(head: &Head<'_>) -> bool {
    head.lines().any(|line| line.as_bytes() == TITLE)
}

/// Maximum number of rows from 1 ms on that are kept individually, over all threads.
const FINE_ROWS: u64 = 4_000_000;

/// State while reading the lines of a file.
#[derive(Default)]
struct Text {
    /// The unit given by the user.
    given: Option<Nanos>,
    /// The unit of the rows, known after the first filled row.
    unit: Option<FileUnit>,
    histograms: Vec<Histogram>,
    /// Number of columns of the rows, including the sum column of `-H`.
    columns: Option<usize>,
    /// Sum of each column.
    sums: Vec<u64>,
    /// Number of the row after the last one.
    next: u64,
    fine: u64,
    total: Option<Vec<u64>>,
    min: Option<Vec<u64>>,
    avg: Option<Vec<u64>>,
    max: Option<Vec<u64>>,
    overflows: Option<Vec<u64>>,
    /// For each thread: the listed overflow cycles, and the number of others.
    cycles: Vec<(Vec<u64>, u64)>,
    /// Whether the list of overflow cycles has begun.
    listing: bool,
    smis: Option<Vec<u64>>,
    break_value: Option<u64>,
    words: WordsBelow,
    /// Whether the totals stand above the rows.
    totals_first: bool,
}

fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    let mut text = Text {
        given: source.unit(),
        ..Text::default()
    };
    text.read_to_title(source)?;
    while let Some(line) = source.next_line()? {
        let (bytes, complete) = (plain(line.bytes).to_vec(), line.complete);
        let line = String::from_utf8_lossy(&bytes);
        // A line that begins with a number may be a truncated row.
        let is_prompt = text.overflows.is_some() && is_prompt(&bytes);
        let result = if complete || line.is_empty() || is_prompt {
            text.line(&line)
        } else {
            Err(Malformed::LineTruncated)
        };
        result.map_err(|reason| source.bad(reason))?;
    }
    text.check()
        .map_err(|reason| source.bad_at(Location::Whole, reason))?;
    Ok(text.recording(source))
}

fn counts(text: &str) -> Result<Vec<u64>, Malformed> {
    text.split_ascii_whitespace().map(count).collect()
}

/// Beginnings of the lines of totals. They may also stand above the rows.
const TOTALS: [&str; 5] = [
    "# Total:",
    "# Min Latencies:",
    "# Avg Latencies:",
    "# Max Latencies:",
    "# Histogram Overflows:",
];

impl Text {
    /// Reads the lines above the histogram.
    fn read_to_title(&mut self, source: &mut Source<'_>) -> Result<(), ImportError> {
        while let Some(line) = source.next_line()? {
            let (plain, shown) = (plain(line.bytes).to_vec(), line.shown());
            if plain == TITLE {
                self.totals_first = self.min.is_some();
                return Ok(());
            }
            let text = String::from_utf8_lossy(&plain);
            if TOTALS.iter().any(|total| text.starts_with(total)) {
                let read = self.line(&text);
                read.map_err(|reason| source.bad(reason))?;
            } else if !is_other_line(&plain) && !plain.starts_with(b"T:") {
                return Err(source.bad(format!(
                    "\"{shown}\" is not a line that cyclictest writes before the histogram"
                )));
            }
        }
        Err(source.bad_at(Location::Whole, "line '# Histogram' not found"))
    }

    fn line(&mut self, line: &str) -> Result<(), Malformed> {
        let Some(comment) = line.strip_prefix("# ") else {
            return match line {
                "" => Ok(()),
                // The line of overflows is the last one that every file has. It may be followed by
                // words that do not belong to the file.
                _ if self.overflows.is_some() && self.words.take(line.as_bytes()).is_ok() => Ok(()),
                _ if self.min.is_some() && !self.totals_first => {
                    Err(Malformed::BelowHistogram(shown(line.as_bytes())))
                }
                _ => self.row(line),
            };
        };
        if comment == "Histogram" {
            return Err(Malformed::SecondHistogram);
        }
        if comment.ends_with("cpu_dma_latency set to 0us") {
            return Err(Malformed::SecondRunBegins);
        }
        let Some((name, rest)) = comment.split_once(':') else {
            return Ok(());
        };
        let slot = match name {
            "Total" => &mut self.total,
            "Min Latencies" => &mut self.min,
            "Avg Latencies" => &mut self.avg,
            "Max Latencies" => &mut self.max,
            "Histogram Overflows" => &mut self.overflows,
            "Histogram Overflow at cycle number" => {
                self.listing = true;
                return Ok(());
            }
            "SMIs" => &mut self.smis,
            "Break value" => {
                self.break_value = Some(count(rest.trim())?);
                return Ok(());
            }
            _ => return self.thread_line(name, rest),
        };
        self.words.figures_follow()?;
        match slot.replace(counts(rest)?) {
            Some(_) => Err(Malformed::SecondLine(name.to_owned())),
            None => Ok(()),
        }
    }

    /// Parses `000010 000002<tab>000000`.
    fn row(&mut self, line: &str) -> Result<(), Malformed> {
        let mut numbers = line.split_ascii_whitespace();
        let row = count(numbers.next().unwrap_or_default())?;
        if row < self.next {
            return Err(Malformed::RowNotAbove(row));
        }
        if row >= MAX_ROWS as u64 {
            return Err(Malformed::RowAboveLimit {
                row,
                limit: MAX_ROWS,
            });
        }
        self.next = row + 1;
        let mut columns = 0;
        for text in numbers {
            let count = count(text)?;
            if columns == self.sums.len() {
                if self.columns.is_some() || columns > THREADS {
                    return Err(Malformed::RowTooWide(row));
                }
                self.sums.push(0);
            }
            let sum = self.sums[columns].checked_add(count);
            self.sums[columns] = sum.ok_or(Malformed::SamplesTooMany)?;
            if count > 0 {
                self.add(columns, row, count);
            }
            self.fine += u64::from(row >= 1_000 && count > 0);
            columns += 1;
        }
        if self.fine > FINE_ROWS {
            return Err(Malformed::TooMany {
                most: FINE_ROWS as usize,
                what: "filled rows from 1 ms on",
            });
        }
        match self.columns.replace(columns) {
            _ if columns == 0 => Err(Malformed::RowEmpty(row)),
            Some(before) if before != columns => Err(Malformed::RowColumns {
                row,
                columns,
                before,
            }),
            _ => Ok(()),
        }
    }

    /// Counts in a column. The first row with samples is the smallest latency.
    fn add(&mut self, column: usize, row: u64, count: u64) {
        let given = self.given;
        let unit = *(self.unit).get_or_insert_with(|| FileUnit::new(given, Some(row), None));
        let empty = || Histogram::imported(unit.one, unit.one);
        if self.histograms.len() <= column {
            self.histograms.resize_with(column + 1, empty);
        }
        self.histograms[column].add_row(Nanos(row * unit.one.0), count);
    }

    /// Returns the unit of all figures.
    fn one(&self) -> Nanos {
        self.unit.map_or(MICROSECOND, |unit| unit.one)
    }

    /// Parses `# Thread 0: 00225 01705 # 00176 others`.
    fn thread_line(&mut self, name: &str, rest: &str) -> Result<(), Malformed> {
        let Some(number) = name.strip_prefix("Thread ").and_then(|n| count(n).ok()) else {
            return Ok(());
        };
        if number != self.cycles.len() as u64 {
            return Err(Malformed::ThreadOutOfOrder(number));
        }
        let (listed, others) = match rest.split_once('#') {
            None => (rest, 0),
            Some((listed, others)) => {
                let others = others.trim().strip_suffix(" others").unwrap_or_default();
                (listed, count(others)?)
            }
        };
        self.cycles.push((counts(listed)?, others));
        Ok(())
    }

    /// Checks that everything is present and consistent, and removes the extra columns of `-H`.
    fn check(&mut self) -> Result<(), Malformed> {
        let missing = Malformed::MissingLine;
        let min = self.min.as_ref().ok_or(missing("Min Latencies"))?;
        let threads = min.len();
        if threads == 0 || threads > THREADS {
            return Err(Malformed::Threads(threads));
        }
        let columns = self.columns.unwrap_or(threads);
        let with_sum = columns == threads + 1;
        if columns != threads && !with_sum {
            return Err(Malformed::Columns { columns, threads });
        }
        // For one thread, rt-tests 2.10 prints the sum in the rows but not below them.
        let all = threads + usize::from(with_sum && threads > 1);
        for (name, line, wanted) in [
            ("Avg Latencies", &self.avg, threads),
            ("Max Latencies", &self.max, all),
            ("Histogram Overflows", &self.overflows, all),
        ] {
            let found = line.as_ref().ok_or(missing(name))?.len();
            if found != wanted {
                return Err(Malformed::Figures {
                    name,
                    found,
                    wanted,
                });
            }
        }
        let rows_are_missing = self.sums.is_empty();
        let sums = &self.sums[..self.sums.len().min(all)];
        match &self.total {
            Some(total) if rows_are_missing && total.len() == threads => {}
            // punctual prints the sum also in this line if there is one thread.
            Some(total) if *total != sums && *total != self.sums => {
                return Err(Malformed::TotalNotSum);
            }
            None if rows_are_missing && (0..threads).any(|place| self.lacks_rows(place)) => {
                return Err(Malformed::MissingRows);
            }
            _ => {}
        }
        if self.unit.is_none() {
            // Either all samples are beyond the rows, or there are no samples.
            let counted = [&self.overflows, &self.total].into_iter().flatten();
            let has = |place: usize| counted.clone().any(|line| line.get(place) > Some(&0));
            let of_threads = (0..).zip(min).filter(|(place, _)| has(*place));
            let least = of_threads.map(|(_, min)| *min).min();
            self.unit = Some(FileUnit::new(self.given, least, None));
        }
        let one = self.one();
        let empty = || Histogram::imported(one, one);
        self.histograms.resize_with(columns, empty);
        if with_sum {
            self.drop_sum(threads)?;
        }
        // Older versions, and NuttX, print no list.
        let overflowed = self
            .overflows
            .iter()
            .flatten()
            .any(|overflows| *overflows > 0);
        let has_list = self.listing || overflowed || !self.cycles.is_empty();
        if has_list && self.cycles.len() != threads {
            return Err(Malformed::MissingOverflows);
        }
        self.cycles.resize_with(threads, Default::default);
        if rows_are_missing {
            self.count_without_rows();
        }
        for place in 0..threads {
            self.check_thread(place)
                .map_err(|why| why.within(format!("thread {place}")))?;
        }
        Ok(())
    }

    /// Returns whether rows are missing from the file, because no row of the thread is filled
    /// although its overflows cannot be all of its samples.
    fn lacks_rows(&self, place: usize) -> bool {
        let figure = |line: &Option<Vec<u64>>| {
            let figure = line.as_ref().and_then(|line| line.get(place));
            u128::from(figure.copied().unwrap_or(0))
        };
        let (min, avg, max) = (figure(&self.min), figure(&self.avg), figure(&self.max));
        let samples = figure(&self.overflows);
        if samples == 0 {
            return max > 0;
        }
        let listed = self.cycles.get(place).map(|(listed, _)| listed);
        let beyond = |cycle: &u64| u128::from(*cycle) >= samples;
        // If all samples are overflows, their cycle numbers are below `samples`, and the mean is at
        // least that of one sample at the maximum and all others at the minimum.
        listed.is_some_and(|listed| listed.iter().any(beyond))
            || (avg + 1) * samples <= max + (samples - 1) * min
    }

    /// Counts the totals of a file without rows, in which the latency of each sample is unknown.
    fn count_without_rows(&mut self) {
        let totals = self.total.iter().flatten();
        for (histogram, total) in self.histograms.iter_mut().zip(totals) {
            histogram.add_unplaced(*total, Nanos::ZERO);
        }
    }

    /// Checks the extra column of `-H`, and removes it.
    fn drop_sum(&mut self, threads: usize) -> Result<(), Malformed> {
        let sum = self.histograms.split_off(threads).pop().unwrap_or_default();
        let mut all = Histogram::imported(self.one(), self.one());
        self.histograms
            .iter()
            .for_each(|histogram| all.merge(histogram));
        if !all.rows().eq(sum.rows()) {
            return Err(Malformed::LastColumnNotSum);
        }
        for line in [&mut self.max, &mut self.overflows].into_iter().flatten() {
            line.truncate(threads);
        }
        Ok(())
    }

    fn check_thread(&mut self, place: usize) -> Result<(), Malformed> {
        let figure = |line: &Option<Vec<u64>>| line.as_ref().map_or(0, |line| line[place]);
        let (min, avg, max) = (figure(&self.min), figure(&self.avg), figure(&self.max));
        let overflows = figure(&self.overflows);
        let (listed, others) = &self.cycles[place];
        if (listed.len() as u64).checked_add(*others) != Some(overflows) {
            return Err(Malformed::OverflowsListed {
                overflows,
                listed: listed.len(),
                others: *others,
            });
        }
        let unit = self.one().0;
        let histogram = &mut self.histograms[place];
        let in_rows = histogram.count();
        if in_rows.checked_add(overflows).is_none() {
            return Err(Malformed::SamplesTooMany);
        }
        let lowest = histogram.min().map(|min| min.0 / unit);
        let highest = histogram.max().map(|max| max.0 / unit);
        let rows_mean = (histogram.sum().0 / unit).checked_div(in_rows);
        histogram.add_unplaced(overflows, Nanos(self.next * unit));
        if histogram.count() == 0 {
            return Ok(());
        }
        super::text::in_order(min, avg, max)?;
        // From 1000 units on, rows written by punctual are wider than one unit.
        let lowest_row = bucket_of(Nanos(min.saturating_mul(unit))).0 / unit;
        if lowest.is_some_and(|row| row < lowest_row) || highest.is_some_and(|row| row > max) {
            return Err(Malformed::SamplesOutside { min, max });
        }
        if overflows > 0 && max < self.next {
            return Err(Malformed::MaximumInRows { overflows, max });
        }
        let too_large = |name, value| Malformed::FigureTooLarge { name, value };
        // If the mean of the rows agrees with the printed mean, the mean of the rows is more exact,
        // because the printed mean is rounded down.
        let exact_mean = if overflows == 0 && rows_mean == Some(avg) {
            None
        } else {
            let ns = u128::from(avg) * u128::from(unit) * u128::from(histogram.count());
            let ns = u64::try_from(ns).map_err(|_| too_large("mean", avg))?;
            Some(Nanos(ns))
        };
        let time = |count: u64| count.checked_mul(unit).map(Nanos);
        let max = time(max).ok_or(too_large("maximum", max))?;
        histogram.set_figures(time(min), Some(max), exact_mean);
        Ok(())
    }

    fn recording(self, source: &Source<'_>) -> Recording {
        let version = match self.total {
            Some(_) => "cyclictest (2.4 or older)",
            None => "cyclictest",
        };
        let unit = self.one();
        let mut recording = blank(source, IMPORT.name, version, "timer");
        if let Some(unit) = self.unit {
            unit.note(&mut recording);
        }
        let mut cycles = Table::new(
            OVERFLOW_CYCLES,
            "Cycles beyond the histogram",
            &[("thread", "thread"), ("cycles", "cycles")],
        );
        for (place, (listed, _)) in (0u64..).zip(&self.cycles) {
            if !listed.is_empty() {
                let listed: Vec<String> = listed.iter().map(u64::to_string).collect();
                cycles.push([place.into(), Cell::Text(listed.join(" "))]);
            }
        }
        if !cycles.rows.is_empty() {
            recording.tables.push(cycles);
        }
        if let Some(smis) = self.smis {
            let columns = [("thread", "thread"), ("smis", "SMIs")];
            let mut table = Table::new("smis", "System management interrupts", &columns);
            for (place, count) in (0u64..).zip(smis) {
                table.push([place.into(), count.into()]);
            }
            recording.tables.push(table);
        }
        if self.sums.is_empty() && self.total.is_some() {
            recording.warnings.push(
                "the file has no rows: the number of samples is read from its totals".to_owned(),
            );
        }
        recording.threads = (self.histograms.into_iter().enumerate())
            .map(|(place, histogram)| thread(place, None, histogram))
            .collect();
        if let Some(value) = self.break_value {
            let latency = Nanos(value.saturating_mul(unit.0));
            stopped_by(&mut recording, latency, None);
        }
        finish(recording)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{read_text, refused};
    use super::*;

    const CUT: &str = include_str!("../../tests/fixtures/cyclictest-hist-summary-only.txt");
    const WHOLE: &str = include_str!("../../tests/fixtures/cyclictest-hist-without-cycles.txt");

    #[test]
    fn without_rows_the_totals_count() {
        let recording = read_text(&IMPORT, CUT).unwrap();
        let [first, second] = &recording.threads[..] else {
            panic!("{} threads", recording.threads.len());
        };
        let (first, second) = (&first.histogram, &second.histogram);
        assert_eq!((first.count(), second.count()), (297_201, 297_190));
        assert_eq!(first.unplaced(), 297_201);
        assert_eq!(second.max(), Some(Nanos::from_micros(85)));
        // Without totals, the number of samples is unknown.
        let (above, below) = CUT.split_once("# Total").unwrap();
        let (_, below) = below.split_once('\n').unwrap();
        let none = format!("{above}{below}");
        let said = refused(&IMPORT, none.as_bytes());
        assert!(
            said.contains("rows of the histogram and the line 'Total' are missing"),
            "{said}"
        );
        // These overflows cannot be all of the samples either, because cycle 4711 is one of them.
        let some = none
            .replace("Overflows: 00000 00000", "Overflows: 00001 00000")
            .replace("Thread 0:", "Thread 0: 04711");
        assert!(refused(&IMPORT, some.as_bytes()).contains("rows of the histogram"));
    }

    #[test]
    fn begun_overflow_list_must_be_whole() {
        assert!(read_text(&IMPORT, WHOLE).is_ok());
        let begun = format!("{WHOLE}# Histogram Overflow at cycle number:\n");
        assert!(refused(&IMPORT, begun.as_bytes()).contains("truncated"));
        let more = WHOLE.replace("Overflows: 00000", "Overflows: 00001");
        assert!(refused(&IMPORT, more.as_bytes()).contains("truncated"));
    }

    #[test]
    fn words_are_below_all_figures() {
        let words = format!("{WHOLE}\nThanks for looking.\n");
        assert!(read_text(&IMPORT, &words).is_ok());
        let among = WHOLE.replace("# Avg", "Thanks\n# Avg");
        assert!(refused(&IMPORT, among.as_bytes()).contains("Thanks"));
        let twice = format!("{words}{WHOLE}");
        assert!(refused(&IMPORT, twice.as_bytes()).contains("second histogram"));
    }
}
