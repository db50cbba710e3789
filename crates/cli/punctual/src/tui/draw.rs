//! Draws the state of the view.

use std::cmp::Reverse;

use punctual_model::{Blame, Nanos, Outlier, counted, grouped, sanitize};
use punctual_report::document;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::ranges::{Range, ranges};
use super::state::{Page, State};
use super::trial::Question;
use crate::live::{self, Columns};

/// Properties of the terminal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) has_colours: bool,
}

impl Look {
    fn coloured(self, colour: Color, style: Style) -> Style {
        if self.has_colours {
            style.fg(colour)
        } else {
            style
        }
    }

    pub(super) fn bad(self) -> Style {
        self.coloured(Color::Red, Style::new().add_modifier(Modifier::BOLD))
    }

    pub(super) fn title(self) -> Style {
        self.coloured(Color::Cyan, Style::new().add_modifier(Modifier::BOLD))
    }
}

pub(super) const SELECTED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Width of the column with the range of a row of the histogram.
const RANGE: usize = 20;
/// Width of the column with the number of samples.
const COUNT: usize = 14;
/// Maximum number of rows of the histogram.
const RANGES: usize = 15;

const HELP: &[&str] = &[
    "q          end the run; its recording is kept",
    "p, space   pause the view; the run continues",
    "s          sort the outliers: newest first, longest first, by cause",
    "f          show only the outliers of the next cause; after the last, all",
    "up, down   select an outlier (also k, j, page up, page down, home)",
    "enter      show the shares of its causes and the remedy; again: its timeline",
    "t          as root, try the remedy: asks, then starts an experiment",
    "esc        back",
    "?          this help",
    "",
    "Bars of the histogram have logarithmic lengths. The figures are those that the",
    "result prints at the end.",
];

/// Draws one frame.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State, look: Look) {
    let [head, body, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    put(frame, head, header(state, look, head.width.into()));
    let lines = match state.page {
        Page::Run => run(state, look, body),
        Page::Outlier(number) => outlier(state, number, look, body),
        Page::Timeline(_) => {
            let (width, height) = (body.width.into(), body.height.into());
            let timeline = state.timeline.as_mut();
            timeline.map_or_else(Vec::new, |timeline| timeline.shown(width, height))
        }
        Page::Question => question(state, body.width.into()),
        Page::Help => HELP.iter().map(|line| Line::raw(*line)).collect(),
    };
    put(frame, body, lines);
    let keys = match state.page {
        Page::Run => "q end  p pause  s sort  f filter  enter shares  ? help",
        Page::Outlier(_) if state.trial.is_some() => {
            "q end  esc back  enter timeline  up, down others  t try  ? help"
        }
        Page::Outlier(_) => "q end  esc back  enter timeline  up, down others  ? help",
        Page::Timeline(_) => "q end  esc back  up, down scroll  ? help",
        Page::Question | Page::Help => "q end  esc back",
    };
    put(frame, foot, vec![Line::styled(keys, SELECTED)]);
}

pub(super) fn put(frame: &mut Frame<'_>, area: Rect, lines: Vec<Line<'static>>) {
    frame.render_widget(Paragraph::new(lines), area);
}

fn header(state: &State, look: Look, width: usize) -> Vec<Line<'static>> {
    let figures = &state.figures;
    let headline = live::shortened(&figures.headline, width);
    let mut second = match &figures.snapshot {
        None => "preparing".to_owned(),
        Some(snapshot) => {
            let elapsed = live::clock_time(snapshot.elapsed);
            let of = snapshot.duration.map(live::clock_time);
            let of = of.map_or_else(String::new, |of| format!(" of {of}"));
            let workers = snapshot.workers.iter();
            let recorded = workers.clone().map(|one| one.accounting.recorded).sum();
            let missed: u64 = workers.map(|one| one.accounting.missed).sum();
            let missed = match missed {
                0 => String::new(),
                missed => format!(", {} missed", grouped(missed)),
            };
            format!("{elapsed}{of}, {} recorded{missed}", grouped(recorded))
        }
    };
    if state.is_paused {
        second = format!("PAUSED  {second}");
    }
    let style = if state.is_paused {
        look.bad()
    } else {
        Style::new()
    };
    vec![
        Line::styled(headline, look.title()),
        Line::styled(live::shortened(&second, width), style),
    ]
}

/// Returns the page of the run: threads, histogram and outliers, as far as they fit.
fn run(state: &State, look: Look, area: Rect) -> Vec<Line<'static>> {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let mut lines = threads(state, look, width, (height / 4).max(1));
    lines.push(Line::default());
    let left = height.saturating_sub(lines.len());
    // The outliers get at least half of the rest.
    let rows = (left / 2).saturating_sub(1).clamp(1, RANGES);
    lines.extend(histogram(state, look, width, rows));
    lines.push(Line::default());
    let left = height.saturating_sub(lines.len());
    lines.extend(outliers(state, look, width, left));
    lines
}

fn threads(state: &State, look: Look, width: usize, most: usize) -> Vec<Line<'static>> {
    let Some(snapshot) = &state.figures.snapshot else {
        return Vec::new();
    };
    let shown = live::shown(snapshot, most);
    let titles = shown.iter().map(|worker| worker.title.chars().count());
    let columns = Columns::fitting(titles.max().unwrap_or_default(), width);
    let mut lines = vec![Line::styled(columns.row(&live::HEADINGS), look.title())];
    for worker in &shown {
        let row = columns.row(&live::cells(worker));
        let is_over = state
            .figures
            .limit
            .is_some_and(|(_, limit)| worker.max.is_some_and(|max| max > limit));
        let style = if is_over { look.bad() } else { Style::new() };
        lines.push(Line::styled(row, style));
    }
    let hidden = snapshot.workers.len() - shown.len();
    if hidden > 0 {
        let more = counted(hidden as u64, "more thread", "more threads");
        lines.push(Line::raw(format!("{more}, with smaller maxima")));
    }
    lines
}

fn histogram(state: &State, look: Look, width: usize, most: usize) -> Vec<Line<'static>> {
    let figures = &state.figures;
    let all = ranges(&figures.latencies, most);
    let title = format!("{:<RANGE$}{:>COUNT$}", "latency", "samples");
    let mut lines = vec![Line::styled(title, look.title())];
    let largest = all
        .iter()
        .map(|range| range.count)
        .max()
        .unwrap_or_default();
    let room = width.saturating_sub(RANGE + COUNT + 1);
    let mut limit = figures.limit;
    for range in &all {
        if let Some((name, at)) = limit.filter(|(_, at)| range.to > *at) {
            let inside = if range.from < at {
                ", in the next range"
            } else {
                ""
            };
            let text = format!("{name} {at}{inside} ");
            let length = width.saturating_sub(text.chars().count());
            lines.push(Line::styled(
                format!("{text}{}", "─".repeat(length)),
                look.bad(),
            ));
            limit = None;
        }
        let is_over = figures.limit.is_some_and(|(_, at)| range.from >= at);
        let style = if is_over { look.bad() } else { Style::new() };
        lines.push(Line::styled(row(range, largest, room), style));
    }
    if let Some((name, at)) = limit.filter(|_| !all.is_empty()) {
        lines.push(Line::raw(format!("{name} {at}: no sample is above it")));
    }
    lines
}

fn row(range: &Range, largest: u64, room: usize) -> String {
    let label = format!("{} to {}", range.from, range.to);
    let logarithm = |count: u64| (1.0 + count as f64).log2();
    let length = logarithm(range.count) / logarithm(largest).max(1.0) * room as f64;
    let bar = "█".repeat(length.round() as usize);
    format!("{label:<RANGE$}{:>COUNT$} {bar}", grouped(range.count))
}

fn outliers(state: &State, look: Look, width: usize, height: usize) -> Vec<Line<'static>> {
    let figures = &state.figures;
    if !figures.is_explained {
        return largest(state, width);
    }
    let listed = state.listed();
    let last = figures.outliers.iter().map(|one| one.number).max();
    let seen = counted(last.unwrap_or_default(), "outlier", "outliers");
    let of = match &state.filter {
        Some(cause) => format!(
            ", only {}: {}",
            sanitize(cause),
            grouped(listed.len() as u64)
        ),
        None => String::new(),
    };
    let title = format!("{seen}, {}{of}", state.order.name());
    let mut lines = vec![Line::styled(live::shortened(&title, width), look.title())];
    let place = state.place(&listed);
    let rows = height.saturating_sub(1).max(1);
    // The selected row stays in view.
    let first = place.saturating_sub(rows.saturating_sub(1));
    for (at, one) in listed.iter().enumerate().skip(first).take(rows) {
        let style = if at == place { SELECTED } else { Style::new() };
        lines.push(Line::styled(live::shortened(&of_list(one), width), style));
    }
    lines
}

/// Returns the largest sample, if outliers are not explained.
fn largest(state: &State, width: usize) -> Vec<Line<'static>> {
    let largest = state.figures.snapshot.as_ref();
    let largest = largest.and_then(|snapshot| snapshot.max_sample.as_ref());
    let mut lines = Vec::new();
    if let Some(largest) = largest {
        let cpu = largest.cpu.map(|cpu| format!(" on CPU {cpu}"));
        let time = largest.time.strftime("%H:%M:%S%.3f UTC");
        let text = format!(
            "largest {}{} at {time}",
            largest.latency_ns,
            cpu.unwrap_or_default()
        );
        lines.push(Line::raw(live::shortened(&text, width)));
    }
    let hint = "to see causes, measure with --explain --threshold 100us";
    lines.push(Line::raw(live::shortened(hint, width)));
    lines
}

fn of_list(outlier: &Outlier) -> String {
    let cpu = outlier.cpu.map(|cpu| format!("CPU {cpu}"));
    let largest = outlier.blame.largest();
    let percent = largest.map_or(0, |share| percent(share.ns, outlier.blame.latency()));
    format!(
        "{:>6} {} {:>7} {:>8} {percent:>3}% {}",
        outlier.number,
        outlier.time.strftime("%H:%M:%S%.3f"),
        cpu.unwrap_or_default(),
        outlier.latency_ns.to_string(),
        sanitize(&outlier.blame.culprit()),
    )
}

fn percent(part: Nanos, whole: Nanos) -> u64 {
    let whole = u128::from(whole.0.max(1));
    let percent = (u128::from(part.0) * 100 + whole / 2) / whole;
    percent.min(100) as u64
}

/// Returns the page of an outlier: its sentence, the remedy of the main cause, and its shares as far as
/// they fit.
fn outlier(state: &State, number: u64, look: Look, area: Rect) -> Vec<Line<'static>> {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let Some(outlier) = state.outlier(number) else {
        return wrapped(
            "this outlier is no longer among the longest: esc, back",
            width,
        );
    };
    let blame = &outlier.blame;
    let time = outlier.time.strftime("%H:%M:%S%.3f");
    let title = format!("outlier {number} at {time} UTC, {}", outlier.latency_ns);
    let mut lines = vec![Line::styled(live::shortened(&title, width), look.title())];
    lines.extend(wrapped(&sanitize(&blame.sentence()), width));
    if let Some(remedy) = document::remedy(blame) {
        lines.extend(wrapped(&format!("remedy: {remedy}"), width));
    }
    let hint = format!("after the run: punctual explain last --outlier {number}");
    lines.extend(wrapped(&hint, width));
    lines.push(Line::default());
    let heading = format!("{:>9} {:>6} {:>5}  cause", "time", "share", "count");
    lines.push(Line::styled(heading, look.title()));
    let left = height.saturating_sub(lines.len());
    lines.extend(shares(blame, left, width));
    lines
}

/// Returns the question whether to try the remedy.
fn question(state: &State, width: usize) -> Vec<Line<'static>> {
    let paragraphs = state.question.iter().flat_map(Question::paragraphs);
    paragraphs.flat_map(|text| wrapped(&text, width)).collect()
}

/// Returns a row for each share, the longest first. If not all fit, the last row is their sum.
fn shares(blame: &Blame, most: usize, width: usize) -> Vec<Line<'static>> {
    let mut all: Vec<_> = blame.shares.iter().collect();
    all.sort_by_key(|share| Reverse(share.ns));
    let shown = if all.len() > most {
        most.saturating_sub(1)
    } else {
        all.len()
    };
    let whole = blame.latency();
    let row = |ns: Nanos, count: u64, cause: &str| {
        let row = format!(
            "{:>9} {:>5}% {count:>5}  {cause}",
            ns.to_string(),
            percent(ns, whole),
        );
        Line::raw(live::shortened(&row, width))
    };
    let (first, others) = all.split_at(shown);
    let rows = first.iter().map(|share| {
        let label = share.cause.source.label();
        row(share.ns, share.count.into(), &sanitize(&label))
    });
    let mut rows: Vec<Line<'static>> = rows.collect();
    if !others.is_empty() {
        let sum = others.iter().map(|share| share.ns.0).sum();
        let count = others.iter().map(|share| u64::from(share.count)).sum();
        let more = counted(others.len() as u64, "further cause", "further causes");
        rows.push(row(Nanos(sum), count, &more));
    }
    rows
}

/// Breaks a text between words.
fn wrapped(text: &str, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let fits = |line: &String| line.chars().count() + 1 + word.chars().count() <= width;
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if fits(line) => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.into_iter().map(Line::raw).collect()
}
