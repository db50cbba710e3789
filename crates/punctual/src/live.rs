//! The live view of a run on a terminal.

use std::io::IsTerminal;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use punctual_model::{Nanos, Recording, grouped, sanitize};
use punctual_session::{LaneView, Snapshot, Watcher};

/// A view where there is a terminal to show it, and it is wanted.
pub(crate) fn view(quiet: bool) -> Box<dyn Watcher> {
    if quiet || !std::io::stderr().is_terminal() {
        Box::new(NoView)
    } else {
        Box::new(LiveView::new())
    }
}

struct NoView;

impl Watcher for NoView {
    fn begin(&mut self, _: &Recording) {}
    fn progress(&mut self, _: &Snapshot) {}
    fn end(&mut self) {}
}

/// A progress bar, a line per CPU, and the worst so far; drawn on stderr, and
/// gone when the run is over.
struct LiveView {
    all: MultiProgress,
    bar: ProgressBar,
    heading: ProgressBar,
    lanes: Vec<ProgressBar>,
    worst: ProgressBar,
}

/// Redraws a second: enough for the eye, little for the machine.
const HERTZ: u8 = 5;

/// Lines that are not lanes: bar, heading, hidden lanes, worst, and the prompt.
const OTHER_LINES: usize = 5;

impl LiveView {
    fn new() -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(HERTZ));
        let line = || {
            let line = all.add(ProgressBar::new_spinner());
            line.set_style(plain());
            line
        };
        let bar = all.add(ProgressBar::new(0));
        let heading = line();
        let worst = line();
        Self {
            bar,
            heading,
            lanes: Vec::new(),
            worst,
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
        self.bar
            .set_prefix(sanitize(&recording.headline()).into_owned());
        self.heading.set_message(row([
            "", "recorded", "missed", "min", "last", "mean", "p99", "max",
        ]));
        let fitting = terminal_height().saturating_sub(OTHER_LINES).max(1);
        for _ in 0..recording.threads.len().min(fitting) {
            let line = self
                .all
                .insert_before(&self.worst, ProgressBar::new_spinner());
            line.set_style(plain());
            self.lanes.push(line);
        }
    }

    fn progress(&mut self, snapshot: &Snapshot) {
        self.bar.set_position(snapshot.elapsed.0 / 1_000_000);
        self.bar.set_message(match snapshot.duration {
            Some(duration) => format!("{} left", clock_time(duration - snapshot.elapsed)),
            None => format!("{} so far", clock_time(snapshot.elapsed)),
        });
        for (line, lane) in self.lanes.iter().zip(shown(snapshot, self.lanes.len())) {
            line.set_message(lane_row(lane));
        }
        let hidden = snapshot.lanes.len() - self.lanes.len();
        let mut worst = snapshot.worst.as_ref().map_or(String::new(), |worst| {
            let place = worst
                .cpu
                .map_or(String::new(), |cpu| format!(" on CPU {cpu}"));
            format!(
                "worst {}{place} at {}",
                worst.latency_ns,
                worst.time.strftime("%H:%M:%S%.3f UTC")
            )
        });
        if hidden > 0 {
            worst = format!("{hidden} more CPUs, each with a smaller max\n{worst}");
        }
        self.worst.set_message(worst);
    }

    fn end(&mut self) {
        // The result says it all again, and more exactly.
        let _ = self.all.clear();
    }
}

/// The lanes in their order; where not all fit, those with the largest maxima.
fn shown(snapshot: &Snapshot, fitting: usize) -> Vec<&LaneView> {
    let mut lanes: Vec<&LaneView> = snapshot.lanes.iter().collect();
    if lanes.len() > fitting {
        lanes.sort_by_key(|lane| std::cmp::Reverse(lane.max));
        lanes.truncate(fitting);
    }
    lanes
}

fn lane_row(lane: &LaneView) -> String {
    let show = |value: Option<Nanos>| value.map_or("-".to_owned(), |value| value.to_string());
    let last = lane.last.map_or("-".to_owned(), |last| last.to_string());
    row([
        &sanitize(&lane.title),
        &grouped(lane.accounting.recorded),
        &grouped(lane.accounting.missed),
        &show(lane.min),
        &last,
        &show(lane.mean),
        &show(lane.p99),
        &show(lane.max),
    ])
}

fn row(cells: [&str; 8]) -> String {
    let [title, recorded, missed, min, last, mean, p99, max] = cells;
    format!("{title:<8} {recorded:>12} {missed:>8} {min:>9} {last:>9} {mean:>9} {p99:>9} {max:>9}")
}

/// `1:02:03` or `2:03`.
fn clock_time(time: Nanos) -> String {
    let seconds = time.0.div_ceil(1_000_000_000);
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// Lines of the terminal that the view is drawn on.
pub(crate) fn terminal_height() -> usize {
    rustix::termios::tcgetwinsize(std::io::stderr())
        .map(|size| usize::from(size.ws_row))
        .ok()
        .filter(|rows| *rows > 0)
        .unwrap_or(24)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_reads_like_a_clock() {
        assert_eq!(clock_time(Nanos(1)), "0:01");
        assert_eq!(clock_time(Nanos::from_secs(125)), "2:05");
        assert_eq!(clock_time(Nanos::from_secs(19_980)), "5:33:00");
    }
}
