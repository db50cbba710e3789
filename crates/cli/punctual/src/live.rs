//! The live view of a run on a terminal.

use std::io::IsTerminal;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use punctual_model::{Nanos, Recording, grouped, sanitize};
use punctual_session::{Snapshot, Watcher, WorkerView};

use crate::output;

/// Returns the live view, or an empty one if stderr is not a suitable terminal or `quiet` is set.
pub(crate) fn view(quiet: bool) -> Box<dyn Watcher> {
    if is_shown(quiet) {
        Box::new(LiveView::new(ProgressDrawTarget::stderr_with_hz(HERTZ)))
    } else {
        Box::new(NoView)
    }
}

/// Returns whether the view is shown. The view moves the cursor, which not every terminal supports.
pub(crate) fn is_shown(quiet: bool) -> bool {
    !quiet && std::io::stderr().is_terminal() && !output::is_dumb()
}

struct NoView;

impl Watcher for NoView {
    fn begin(&mut self, _: &Recording) {}
    fn progress(&mut self, _: &Snapshot) {}
    fn end(&mut self) {}
}

/// A progress bar, one line per CPU, and the largest latency so far. The view is drawn on stderr,
/// and cleared at the end of the run.
struct LiveView {
    all: MultiProgress,
    bar: ProgressBar,
    heading: ProgressBar,
    workers: Vec<ProgressBar>,
    maximum: ProgressBar,
}

/// Redraws per second.
const HERTZ: u8 = 5;

/// Number of lines other than those of workers: the bar, the heading, the number of hidden workers,
/// the largest latency, and the prompt.
const OTHER_LINES: usize = 5;

/// Width of the bar and the time next to it, in columns.
const BAR_AND_TIME: usize = 26;

impl LiveView {
    fn new(target: ProgressDrawTarget) -> Self {
        let all = MultiProgress::with_draw_target(target);
        let line = || {
            let line = all.add(ProgressBar::new_spinner());
            line.set_style(plain());
            line
        };
        let bar = all.add(ProgressBar::new(0));
        let heading = line();
        let largest = line();
        Self {
            bar,
            heading,
            workers: Vec::new(),
            maximum: largest,
            all,
        }
    }
}

fn plain() -> ProgressStyle {
    ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner())
}

impl Watcher for LiveView {
    fn begin(&mut self, recording: &Recording) {
        let style = match recording.duration_parameter("duration_ns") {
            Some(duration) => {
                self.bar.set_length(duration.0 / 1_000_000);
                ProgressStyle::with_template("{prefix} {wide_bar} {msg}")
            }
            None => ProgressStyle::with_template("{prefix} {msg}"),
        };
        self.bar
            .set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let width = terminal_width();
        let headline = sanitize(&recording.headline()).into_owned();
        self.bar
            .set_prefix(shortened(&headline, width.saturating_sub(BAR_AND_TIME)));
        // One view can show several runs, such as those of a check-up. Each run has its own
        // workers.
        for line in self.workers.drain(..) {
            self.all.remove(&line);
        }
        let fitting = terminal_height().saturating_sub(OTHER_LINES).max(1);
        for _ in 0..recording.threads.len().min(fitting) {
            let line = self
                .all
                .insert_before(&self.maximum, ProgressBar::new_spinner());
            line.set_style(plain());
            self.workers.push(line);
        }
    }

    fn progress(&mut self, snapshot: &Snapshot) {
        self.bar.set_position(snapshot.elapsed.0 / 1_000_000);
        self.bar.set_message(match snapshot.duration {
            Some(duration) => format!("{} left", clock_time(duration - snapshot.elapsed)),
            None => format!("{} so far", clock_time(snapshot.elapsed)),
        });
        // The size of the window may have changed since the last drawing.
        let width = terminal_width();
        let shown = shown(snapshot, self.workers.len());
        let titles = shown.iter().map(|worker| worker.title.chars().count());
        let columns = Columns::fitting(titles.max().unwrap_or(0), width);
        self.heading.set_message(columns.row(&HEADINGS));
        for (line, worker) in self.workers.iter().zip(shown) {
            line.set_message(columns.row(&cells(worker)));
        }
        // A run that is stopped before it measures has fewer workers than it announced at its
        // start.
        let hidden = snapshot.workers.len().saturating_sub(self.workers.len());
        let mut largest = snapshot
            .max_sample
            .as_ref()
            .map_or(String::new(), |largest| {
                let place = largest
                    .cpu
                    .map_or(String::new(), |cpu| format!(" on CPU {cpu}"));
                format!(
                    "largest {}{place} at {}",
                    largest.latency_ns,
                    largest.time.strftime("%H:%M:%S%.3f UTC")
                )
            });
        if hidden > 0 {
            let more = match hidden {
                1 => "1 more CPU, with a smaller max".to_owned(),
                several => format!("{several} more CPUs, each with a smaller max"),
            };
            largest = format!("{more}\n{largest}");
        }
        let lines: Vec<String> = largest.lines().map(|line| shortened(line, width)).collect();
        self.maximum.set_message(lines.join("\n"));
    }

    fn end(&mut self) {
        // The result shows the same figures with more precision.
        let _ = self.all.clear();
    }
}

/// Returns the workers in their original order. If not all of them fit, returns those with the
/// largest maxima.
pub(crate) fn shown(snapshot: &Snapshot, fitting: usize) -> Vec<&WorkerView> {
    let mut workers: Vec<&WorkerView> = snapshot.workers.iter().collect();
    if workers.len() > fitting {
        workers.sort_by_key(|worker| std::cmp::Reverse(worker.max));
        workers.truncate(fitting);
    }
    workers
}

/// Headings of the columns of a worker's line.
pub(crate) const HEADINGS: [&str; 8] = [
    "", "recorded", "missed", "min", "last", "mean", "p99", "max",
];

/// Returns the cells of a worker's line.
pub(crate) fn cells(worker: &WorkerView) -> [String; 8] {
    let show = |value: Option<Nanos>| value.map_or("-".to_owned(), |value| value.to_string());
    [
        sanitize(&worker.title).into_owned(),
        grouped(worker.accounting.recorded),
        grouped(worker.accounting.missed),
        show(worker.min),
        worker.last.map_or("-".to_owned(), |last| last.to_string()),
        show(worker.mean),
        show(worker.p99),
        show(worker.max),
    ]
}

/// Widths of the columns of a worker's line; 0 for a dropped column.
#[derive(Debug, PartialEq)]
pub(crate) struct Columns([usize; 8]);

impl Columns {
    /// Columns that are dropped in a narrow window, in the order in which they are dropped: min,
    /// mean, last, recorded, p99.
    const DROPPED: [usize; 5] = [3, 5, 4, 1, 6];

    /// Returns the columns that fit into `width`. `title` is the length of the longest title in
    /// characters. A column is dropped before a title of up to 16 characters is cut, because only
    /// the title tells what a line is about.
    pub(crate) fn fitting(title: usize, width: usize) -> Self {
        let mut widths = [title.clamp(8, 16), 11, 8, 9, 9, 9, 9, 9];
        let needed = |widths: &[usize; 8]| {
            let shown = widths.iter().filter(|width| **width > 0);
            shown.map(|width| width + 1).sum::<usize>() - 1
        };
        for column in Self::DROPPED {
            if needed(&widths) > width {
                widths[column] = 0;
            }
        }
        let free = width.saturating_sub(needed(&widths));
        widths[0] = title.clamp(8, widths[0] + free);
        Self(widths)
    }

    /// Returns a line with these cells.
    pub(crate) fn row(&self, cells: &[impl AsRef<str>; 8]) -> String {
        let mut text = String::new();
        for (place, (cell, width)) in cells.iter().zip(self.0).enumerate() {
            match (place, width) {
                (_, 0) => {}
                (0, _) => text.push_str(&format!("{:<width$}", shortened(cell.as_ref(), width))),
                _ => text.push_str(&format!(" {:>width$}", cell.as_ref())),
            }
        }
        text
    }
}

/// Returns the text, shortened to at most `width` characters.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// `1:02:03` or `2:03`.
pub(crate) fn clock_time(time: Nanos) -> String {
    let seconds = time.0.div_ceil(1_000_000_000);
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// Returns the height of the terminal on stderr, in lines.
pub(crate) fn terminal_height() -> usize {
    rustix::termios::tcgetwinsize(std::io::stderr())
        .map(|size| usize::from(size.ws_row))
        .ok()
        .filter(|rows| *rows > 0)
        .unwrap_or(24)
}

/// Returns the usable width of the terminal on stderr, in columns. The last column stays unused,
/// because some terminals break the line when something is written there.
pub(crate) fn terminal_width() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok();
    let columns = size.map(|size| usize::from(size.ws_col));
    columns.filter(|columns| *columns > 0).unwrap_or(80).max(40) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_fits_into_each_window() {
        let cells = [
            "idle: CPU 127, isolated",
            "119,880,000",
            "123,456",
            "12.3 µs",
            "12.3 µs",
            "12.3 µs",
            "12.3 µs",
            "12.3 ms",
        ];
        for width in 39..200 {
            let columns = Columns::fitting(cells[0].len(), width);
            let row = columns.row(&cells);
            assert!(row.chars().count() <= width, "{width}: {row}");
            assert!(columns.row(&HEADINGS).chars().count() <= width);
            assert!(row.contains("123,456") && row.ends_with("12.3 ms"), "{row}");
        }
        assert_eq!(Columns::fitting(5, 79), Columns([8, 11, 8, 9, 9, 9, 9, 9]));
        assert_eq!(Columns::fitting(5, 59), Columns([8, 11, 8, 0, 9, 0, 9, 9]));
        // "loaded: CPU 0" is whole at 80 columns.
        assert_eq!(
            Columns::fitting(13, 79),
            Columns([13, 11, 8, 0, 9, 9, 9, 9])
        );
        assert_eq!(shortened("0123456789", 4), "012…");
    }

    /// A check-up shows its runs one after the other in the same view.
    #[test]
    fn each_run_has_workers_of_its_own() {
        let recording = punctual_model::testing::recording(2, 1);
        let worker = |title: &str| WorkerView {
            title: title.to_owned(),
            accounting: punctual_model::Accounting::default(),
            tid: None,
            partner: None,
            timeouts: 0,
            dropped: 0,
            last: None,
            min: None,
            mean: None,
            p99: None,
            max: None,
        };
        let snapshot = |workers: usize| Snapshot {
            elapsed: Nanos(1),
            duration: None,
            workers: ["CPU 0", "CPU 1", "CPU 2"][..workers]
                .iter()
                .map(|title| worker(title))
                .collect(),
            max_sample: None,
        };
        let mut view = LiveView::new(ProgressDrawTarget::hidden());
        for _ in 0..3 {
            view.begin(&recording);
            assert_eq!(view.workers.len(), recording.threads.len());
            for (workers, said) in [(0, ""), (2, ""), (3, "1 more CPU, with a smaller max")] {
                view.progress(&snapshot(workers));
                assert_eq!(view.maximum.message(), said);
            }
            view.end();
        }
    }

    #[test]
    fn time_left_reads_like_a_clock() {
        assert_eq!(clock_time(Nanos(1)), "0:01");
        assert_eq!(clock_time(Nanos::from_secs(125)), "2:05");
        assert_eq!(clock_time(Nanos::from_secs(19_980)), "5:33:00");
    }
}
