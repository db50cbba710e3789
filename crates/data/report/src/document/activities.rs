//! The interrupts, softirqs, works, timers and polls of a machine, which are the output of
//! `watch --of`.

use punctual_model::{
    Activities, ActivityAxis, ActivityGroup, ActivityKind, ActivitySource, Nanos, Occurrence,
    WaitHistogram, counted, grouped,
};

use super::table::{Column, Row, Table};
use super::{Block, Document, Section, Tone};
use crate::figures;

/// Returns figures by the requested axes, and the longest occurrences. Shows at most `most` groups:
/// those with the largest total run time, or with the largest count if no run time is known.
pub fn activities(seen: &Activities, axes: &[ActivityAxis], most: usize) -> Document {
    let mut document = Document::default();
    let mut groups = seen.by(axes);
    groups.sort_by_key(|group| std::cmp::Reverse((group.run.sum_ns, group.count)));
    let hidden = groups.len().saturating_sub(most);
    groups.truncate(most);
    let mut head = vec![Block::text(headline(seen))];
    head.extend(meaning(seen.of).map(Block::faint));
    if groups.is_empty() {
        head.push(Block::text(format!("no {} was seen", words(seen.of).0)));
    }
    document.push(Section::new(head));
    let mut figures = Vec::new();
    if !groups.is_empty() {
        figures.push(Block::Table(table_of(seen, &groups, axes)));
    }
    if hidden > 0 {
        let more = counted(hidden as u64, "more row", "more rows");
        let less = if seen.of.has_run() {
            "less run time"
        } else {
            "lower counts"
        };
        figures.push(Block::faint(format!("{more} with {less}")));
    }
    figures.extend(losses(seen));
    document.push(Section::new(figures));
    if !seen.longest.is_empty() {
        let table = Block::Table(occurrences(seen.of, &seen.longest, false));
        document.push(Section::titled("longest run times", vec![table]));
    }
    if !seen.most_delayed.is_empty() {
        let table = Block::Table(occurrences(seen.of, &seen.most_delayed, true));
        document.push(Section::titled("longest delays", vec![table]));
    }
    document
}

/// Returns the singular and the plural of what is counted.
const fn words(kind: ActivityKind) -> (&'static str, &'static str) {
    match kind {
        ActivityKind::Irq => ("interrupt", "interrupts"),
        ActivityKind::Softirq => ("softirq", "softirqs"),
        ActivityKind::Work => ("work", "works"),
        ActivityKind::Timer => ("timer", "timers"),
        ActivityKind::Napi => ("poll", "polls"),
        ActivityKind::Ipi => ("interrupt sent", "interrupts sent"),
    }
}

/// Returns the heading of the column of sources.
const fn source_title(kind: ActivityKind) -> &'static str {
    match kind {
        ActivityKind::Irq => "interrupt",
        ActivityKind::Softirq => "softirq",
        ActivityKind::Work | ActivityKind::Timer | ActivityKind::Ipi => "function",
        ActivityKind::Napi => "device",
    }
}

/// Describes what the figures of a kind mean.
const fn meaning(kind: ActivityKind) -> Option<&'static str> {
    match kind {
        ActivityKind::Irq | ActivityKind::Ipi => None,
        ActivityKind::Softirq => Some("delay: from the first softirq_raise to the start"),
        ActivityKind::Work => Some("delay: from queueing to the start; run includes sleep"),
        ActivityKind::Timer => Some("delay: from the latest expiry time to the interrupt"),
        ActivityKind::Napi => Some("run: since the previous poll in NET_RX, an upper bound"),
    }
}

fn per_second(count: u64, elapsed: Nanos) -> String {
    let seconds = elapsed.0 as f64 / 1e9;
    let rate = if seconds > 0.0 {
        count as f64 / seconds
    } else {
        0.0
    };
    if rate > 0.0 && rate < 10.0 {
        return format!("{rate:.1}");
    }
    grouped(rate.round() as u64)
}

fn headline(seen: &Activities) -> String {
    let count: u64 = seen.rows.iter().map(|row| row.count).sum();
    let (one, several) = words(seen.of);
    format!(
        "{} in {} ({} per second)",
        counted(count, one, several),
        seen.elapsed_ns,
        per_second(count, seen.elapsed_ns)
    )
}

/// Returns notes about what the figures do not contain.
fn losses(seen: &Activities) -> Vec<Block> {
    let sum = |of: fn(&punctual_model::ActivityRow) -> u64| seen.rows.iter().map(of).sum::<u64>();
    let no_run = sum(|row| row.count.saturating_sub(row.run.count));
    let no_delay = sum(|row| row.count.saturating_sub(row.delay.count));
    let mut notes = Vec::new();
    if seen.of.has_run() && no_run > 0 {
        let of = counted(no_run, "run time is", "run times are");
        notes.push(Block::faint(format!(
            "{of} unknown: {}",
            why_no_run(seen.of)
        )));
    }
    if seen.of.has_delay() && no_delay > 0 {
        let of = counted(no_delay, "delay is", "delays are");
        let why = why_no_delay(seen.of);
        notes.push(Block::faint(format!("{of} unknown: {why}")));
    }
    for name in &seen.missing {
        notes.push(Block::Text(
            Tone::Warning,
            format!("this kernel has no event {name}; the figures that need it are unknown"),
        ));
    }
    if seen.events_lost > 0 {
        let lost = counted(seen.events_lost, "event was", "events were");
        notes.push(Block::Text(
            Tone::Warning,
            format!("at least {lost} overwritten before they were read; the counts are too low"),
        ));
    }
    notes
}

const fn why_no_run(kind: ActivityKind) -> &'static str {
    match kind {
        ActivityKind::Napi => "polls outside NET_RX, or with lost events",
        _ => "still running, or events are missing",
    }
}

const fn why_no_delay(kind: ActivityKind) -> &'static str {
    match kind {
        ActivityKind::Softirq => "it is not clear which request led to the run",
        ActivityKind::Timer => "timers of the timer wheel, or started before the watch",
        _ => "queued before the watch, or events are missing",
    }
}

fn table_of(seen: &Activities, groups: &[ActivityGroup], axes: &[ActivityAxis]) -> Table {
    let kind = seen.of;
    let mut columns = Vec::new();
    for axis in axes {
        match (axis, kind) {
            (ActivityAxis::Source, ActivityKind::Ipi) => columns.extend([
                Column::left("sender").cut_to(12).most(32),
                Column::right("on CPU"),
                Column::left("function").cut_to(12).most(40),
            ]),
            (ActivityAxis::Source, _) => {
                columns.push(Column::left(source_title(kind)).cut_to(17).most(48));
            }
            (ActivityAxis::Cpu, ActivityKind::Ipi) => columns.push(Column::right("to CPU")),
            (ActivityAxis::Cpu, _) => columns.push(Column::right("CPU")),
        }
    }
    columns.extend([Column::right("count").drop(7), Column::right("per s")]);
    if kind == ActivityKind::Napi {
        columns.push(Column::right("packets/s").drop(5));
    }
    if kind.has_run() {
        columns.extend([
            Column::right("run").drop(6),
            Column::right("of CPU"),
            Column::right("p50").drop(9),
            Column::right("p99").drop(3),
            Column::right("max"),
        ]);
    }
    if kind.has_delay() {
        columns.extend([
            Column::right("delay p50").drop(8),
            Column::right("delay p99").drop(4),
            Column::right("delay max"),
        ]);
    }
    let row = |group: &ActivityGroup| Row::new(cells(seen, group, axes));
    Table::new(columns, groups.iter().map(row).collect())
}

fn cells(seen: &Activities, group: &ActivityGroup, axes: &[ActivityAxis]) -> Vec<String> {
    let kind = seen.of;
    let cpu = |cpu: Option<u32>| cpu.map_or(String::new(), |cpu| cpu.to_string());
    let at = |times: &WaitHistogram, quantile| figures::or_dash(times.quantile(quantile));
    let longest =
        |times: &WaitHistogram| figures::or_dash((times.count > 0).then_some(times.max_ns));
    let mut cells = Vec::new();
    for axis in axes {
        match (axis, &group.source) {
            (ActivityAxis::Cpu, _) => cells.push(cpu(group.cpu)),
            (ActivityAxis::Source, Some(source)) if kind == ActivityKind::Ipi => {
                let handler = if source.name.is_some() {
                    "interrupt handler"
                } else {
                    ""
                };
                let thread = source.thread.as_deref().unwrap_or(handler);
                cells.extend([thread.to_owned(), cpu(source.from_cpu), label(source)]);
            }
            (ActivityAxis::Source, source) => {
                cells.push(source.as_ref().map_or_else(String::new, label));
            }
        }
    }
    cells.extend([
        grouped(group.count),
        per_second(group.count, seen.elapsed_ns),
    ]);
    if kind == ActivityKind::Napi {
        let packets = group
            .packets
            .map(|packets| per_second(packets, seen.elapsed_ns));
        cells.push(packets.unwrap_or_else(|| "-".to_owned()));
    }
    if kind.has_run() {
        let run = &group.run;
        let known = run.count > 0;
        cells.extend([
            figures::or_dash(known.then_some(Nanos(run.sum_ns))),
            share(seen, group),
            at(run, 0.5),
            at(run, 0.99),
            longest(run),
        ]);
    }
    if kind.has_delay() {
        let delay = &group.delay;
        cells.extend([at(delay, 0.5), at(delay, 0.99), longest(delay)]);
    }
    cells
}

/// Returns the known run time as a share of one CPU's time. Several CPUs can have more than 100%.
fn share(seen: &Activities, group: &ActivityGroup) -> String {
    if group.run.count == 0 || seen.elapsed_ns == Nanos::ZERO {
        return "-".to_owned();
    }
    let percent = group.run.sum_ns as f64 / seen.elapsed_ns.0 as f64 * 100.0;
    match percent {
        ..0.01 => "<0.01%".to_owned(),
        ..10.0 => format!("{percent:.2}%"),
        _ => format!("{percent:.1}%"),
    }
}

/// Returns the name of a source.
fn label(source: &ActivitySource) -> String {
    let Some(name) = &source.name else {
        return "(others)".to_owned();
    };
    match source.irq {
        Some(number) => format!("{name} ({number})"),
        None => name.clone(),
    }
}

fn occurrences(kind: ActivityKind, all: &[Occurrence], by_delay: bool) -> Table {
    let mut columns = vec![Column::right(if by_delay { "delay" } else { "run" })];
    let has_other = by_delay || kind.has_delay();
    if has_other {
        columns.push(Column::right(if by_delay { "run" } else { "delay" }).drop(2));
    }
    let thread = match kind {
        ActivityKind::Work => "run by",
        _ => "during",
    };
    columns.extend([
        Column::right("CPU"),
        Column::left(source_title(kind)).cut_to(10).most(40),
        Column::left(thread).cut_to(10),
        Column::right("start (monotonic)").drop(3),
    ]);
    let row = |one: &Occurrence| {
        let (run, delay) = (figures::or_dash(one.run_ns), figures::or_dash(one.delay_ns));
        let mut cells = match (by_delay, has_other) {
            (true, _) => vec![delay, run],
            (false, true) => vec![run, delay],
            (false, false) => vec![run],
        };
        cells.extend([
            one.cpu.to_string(),
            label(&one.source),
            one.thread.clone(),
            format!("{:.6} s", one.start_ns.0 as f64 / 1e9),
        ]);
        Row::new(cells)
    };
    Table::new(columns, all.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use punctual_model::ActivityRow;

    use super::*;
    use crate::text::{self, TextStyle};

    fn source(name: &str) -> ActivitySource {
        ActivitySource {
            name: Some(name.to_owned()),
            ..ActivitySource::default()
        }
    }

    fn times(of: &[u64]) -> WaitHistogram {
        let mut all = WaitHistogram::new();
        of.iter().for_each(|time| all.record(Nanos(*time)));
        all
    }

    fn seen(of: ActivityKind) -> Activities {
        let row = |cpu, source, count, runs: &[u64], delays: &[u64]| ActivityRow {
            cpu,
            source,
            count,
            run: times(runs),
            delay: times(delays),
            packets: (of == ActivityKind::Napi).then_some(12_345),
        };
        let mut rows = vec![
            row(0, source("NET_RX"), 12_340, &[12_000_000, 3_400], &[900]),
            row(1, source("hrtimer_wakeup\x1b[2J"), 3, &[4_500], &[]),
            row(1, ActivitySource::default(), 7, &[], &[]),
        ];
        if of == ActivityKind::Ipi {
            rows[0].source.from_cpu = Some(3);
            rows[0].source.thread = Some("containerd-shim-812".to_owned());
        }
        let long = Occurrence {
            start_ns: Nanos(12_345_678_901),
            cpu: 0,
            source: ActivitySource {
                irq: (of == ActivityKind::Irq).then_some(27),
                ..source("NET_RX")
            },
            run_ns: Some(Nanos(12_000_000)),
            delay_ns: None,
            thread: "ksoftirqd/0-14".to_owned(),
        };
        let delayed = Occurrence {
            delay_ns: Some(Nanos(900)),
            run_ns: None,
            ..long.clone()
        };
        Activities {
            of,
            elapsed_ns: Nanos::from_secs(2),
            rows,
            longest: if of.has_run() { vec![long] } else { vec![] },
            most_delayed: if of.has_delay() {
                vec![delayed]
            } else {
                vec![]
            },
            events_lost: 0,
            missing: vec![],
        }
    }

    const BOTH: [ActivityAxis; 2] = [ActivityAxis::Source, ActivityAxis::Cpu];

    fn shown(seen: &Activities, axes: &[ActivityAxis], most: usize, width: usize) -> String {
        let style = TextStyle {
            colour: false,
            width,
        };
        text::render(&activities(seen, axes, most), &style)
    }

    #[test]
    fn figures_of_each_kind_are_shown() {
        for kind in ActivityKind::ALL {
            let text = shown(&seen(kind), &BOTH, 10, 120);
            insta::assert_snapshot!(format!("activities_{}", kind.name()), text);
        }
    }

    #[test]
    fn losses_and_missing_events_are_reported() {
        let mut seen = seen(ActivityKind::Softirq);
        seen.events_lost = 1_234;
        seen.missing = vec!["softirq_raise".to_owned()];
        let text = shown(&seen, &BOTH[..1], 1, 120);
        assert!(text.contains("1,234 events were overwritten"), "{text}");
        assert!(text.contains("no event softirq_raise"), "{text}");
        assert!(text.contains("2 more rows with less run time"), "{text}");
    }

    #[test]
    fn nothing_seen_is_said() {
        let mut none = seen(ActivityKind::Napi);
        (none.rows, none.longest) = (vec![], vec![]);
        let text = shown(&none, &BOTH, 10, 80);
        assert!(text.contains("no poll was seen"), "{text}");
        none.elapsed_ns = Nanos::ZERO;
        assert!(shown(&none, &[], 0, 80).contains("0 polls"));
    }

    #[test]
    fn it_fits_into_narrow_windows() {
        for kind in ActivityKind::ALL {
            let mut seen = seen(kind);
            seen.events_lost = 12;
            seen.rows[0].source.name = Some("a_function_with_a_long_name_in_the_kernel".to_owned());
            for axes in [&BOTH[..], &BOTH[..1], &BOTH[1..]] {
                for width in 60..140 {
                    let text = shown(&seen, axes, 10, width);
                    let widest = text.lines().map(|line| line.chars().count()).max();
                    assert!(widest <= Some(width), "{width} columns:\n{text}");
                }
            }
        }
    }
}
