//! All wake-ups of a machine, which is the output of `watch`.

use punctual_model::{
    GroupSeen, LateWakeup, Nanos, OpenWait, ThreadSeen, WaitHistogram, WakeupAxis, WakeupGroup,
    WakeupSource, Wakeups, grouped,
};

use super::table::{Column, Row, Table};
use super::{Block, Document, Medium, Section, Tone};
use crate::figures;
use crate::spread::Spread;

/// Returns figures by the requested axes, and the longest waits, each with the thread that waited
/// and the one that had the CPU. Shows at most `most` groups, namely those with the longest waits.
pub fn wakeups(seen: &Wakeups, axes: &[WakeupAxis], most: usize) -> Document {
    let mut document = Document::default();
    let mut groups = seen.by(axes);
    let hidden = keep_latest(&mut groups, most);
    let mut head = vec![Block::text(headline(seen))];
    head.extend(seen.not_bpf.as_ref().map(|why| {
        Block::text(match seen.source {
            WakeupSource::Switches => format!(
                "only threads of your own; root, or CAP_BPF and CAP_PERFMON, shows all threads, and \
                 which thread had the CPU meanwhile ({why})"
            ),
            _ => format!("counted from trace events instead of in the kernel: {why}"),
        })
    }));
    if groups.is_empty() {
        head.push(Block::text("no thread was woken"));
    }
    document.push(Section::new(head));
    let mut figures = Vec::new();
    if !groups.is_empty() {
        figures.push(Block::Table(table_of(&groups, axes, seen.source)));
    }
    if hidden > 0 {
        let more = punctual_model::counted(hidden as u64, "more row", "more rows");
        figures.push(Block::faint(format!("{more} with a shorter longest wait")));
    }
    figures.extend(losses(seen));
    document.push(Section::new(figures));
    if !seen.open.is_empty() {
        let table = Block::Table(open(&seen.open));
        document.push(Section::titled("still waiting", vec![table]));
    }
    if !seen.longest.is_empty() {
        let table = Block::Table(longest(&seen.longest));
        document.push(Section::titled("longest waits", vec![table]));
    }
    document
}

/// Returns notes about wake-ups that the rows do not contain.
fn losses(seen: &Wakeups) -> impl Iterator<Item = Block> {
    let lost = match seen.source {
        WakeupSource::Bpf => "wake-ups are missing from the rows, because their entries were lost",
        WakeupSource::Events => {
            "wake-ups are missing from the rows, because no event shows when \
            the thread ran"
        }
        WakeupSource::Switches => {
            "wake-ups are missing from the rows, because their waits are unknown: the kernel shows \
             only the sum of several"
        }
    };
    let losses = [
        (seen.lost, lost),
        (
            seen.unnamed,
            "wake-ups are counted in rows without a name, because there were too many names",
        ),
        (
            seen.events_lost,
            "events were overwritten before they were read; their wake-ups are missing from the \
             rows",
        ),
    ];
    losses
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| Block::Text(Tone::Warning, format!("{} {what}", grouped(count))))
}

fn headline(seen: &Wakeups) -> String {
    let mut all = WaitHistogram::new();
    seen.rows.iter().for_each(|row| all.merge(&row.waits));
    let seconds = seen.elapsed_ns.0 as f64 / 1e9;
    let rate = if seconds > 0.0 {
        (all.count as f64 / seconds).round() as u64
    } else {
        0
    };
    let times = match seen.source {
        // The scheduler's counts leave out the switch to the woken thread.
        WakeupSource::Switches => "waits for a CPU; a thread that got it at once has 0",
        _ => "from the wake-up to the start of running",
    };
    format!(
        "{} in {} ({} per second); times are {times}",
        punctual_model::counted(all.count, "wake-up", "wake-ups"),
        seen.elapsed_ns,
        grouped(rate)
    )
}

/// Keeps the `most` groups with the longest waits, without changing their order. Returns how many
/// were removed.
fn keep_latest(groups: &mut Vec<WakeupGroup>, most: usize) -> usize {
    if groups.len() <= most {
        return 0;
    }
    let mut longest: Vec<Nanos> = groups.iter().map(|group| group.waits.max_ns).collect();
    longest.sort_by(|a, b| b.cmp(a));
    let before = groups.len();
    let mut left = most;
    let least = longest[most.saturating_sub(1)];
    groups.retain(|group| {
        let stays = left > 0 && group.waits.max_ns >= least;
        left -= usize::from(stays);
        stays
    });
    before - groups.len()
}

fn table_of(groups: &[WakeupGroup], axes: &[WakeupAxis], source: WakeupSource) -> Table {
    // Without tracing, it is unknown which threads delayed others.
    let shows_held = axes.contains(&WakeupAxis::Group) && source != WakeupSource::Switches;
    let names = |axis: &WakeupAxis| match axis {
        WakeupAxis::Cpu => Column::right("CPU"),
        WakeupAxis::Priority => Column::left("class"),
        WakeupAxis::Comm => Column::left("name").cut_to(8),
        WakeupAxis::Group => Column::left("control group").cut_to(12).most(40),
    };
    let mut columns: Vec<Column> = axes.iter().map(names).collect();
    if shows_held {
        columns.push(Column::right("delayed others"));
    }
    columns.extend([
        Column::right("wake-ups"),
        Column::right("mean").drop(2),
        Column::right("p50").drop(3),
        Column::right("p90").drop(6),
        Column::right("p99"),
        Column::right("p99.9").drop(4),
        Column::right("max"),
        // Block characters only line up in the font of a terminal.
        Column::left(Spread::WAITS.scale())
            .drop(1)
            .only(Medium::Terminal),
    ]);
    Table::new(
        columns,
        (groups.iter().map(|group| cells(group, axes, shows_held))).collect(),
    )
}

fn cells(group: &WakeupGroup, axes: &[WakeupAxis], shows_held: bool) -> Row {
    let name = |axis: &WakeupAxis| match axis {
        WakeupAxis::Cpu => group.cpu.map_or(String::new(), |cpu| cpu.to_string()),
        WakeupAxis::Priority => group.class.map_or(String::new(), |c| c.name().to_owned()),
        WakeupAxis::Comm => group.comm.clone().unwrap_or_else(|| "(others)".to_owned()),
        WakeupAxis::Group => {
            let seen = group.group.as_ref();
            seen.map_or_else(|| "(others)".to_owned(), GroupSeen::label)
        }
    };
    let waits = &group.waits;
    let at = |quantile| figures::or_dash(waits.quantile(quantile));
    let mut cells: Vec<String> = axes.iter().map(name).collect();
    if shows_held {
        cells.push(group.held.to_string());
    }
    cells.extend([
        grouped(waits.count),
        figures::or_dash(waits.mean()),
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999),
        figures::or_dash((waits.count > 0).then_some(waits.max_ns)),
        picture(waits),
    ]);
    Row::new(cells)
}

/// Returns the distribution of the waits as one line of block characters.
fn picture(waits: &WaitHistogram) -> String {
    let rows = waits.buckets.iter();
    Spread::WAITS.picture(rows.map(|(bucket, count)| (WaitHistogram::bounds_of(*bucket).0, *count)))
}

fn thread(thread: &ThreadSeen) -> String {
    match thread.tid {
        0 => "idle CPU".to_owned(),
        tid => format!("{} {tid}", thread.comm),
    }
}

fn rank(thread: &ThreadSeen) -> String {
    match thread.tid {
        0 => String::new(),
        _ => thread.scheduling(),
    }
}

/// Maximum number of unfinished waits on a terminal.
const OPEN_SHOWN: usize = 8;

fn open(waits: &[OpenWait]) -> Table {
    let columns = vec![
        Column::right("for"),
        Column::right("CPU"),
        Column::left("who"),
        Column::left("at").drop(2),
        Column::left("behind"),
        Column::left("at").drop(1),
        Column::right("woken (monotonic)").drop(3),
    ];
    let row = |wait: &OpenWait| {
        Row::new([
            wait.waited_ns.to_string(),
            wait.cpu.map_or("?".to_owned(), |cpu| cpu.to_string()),
            thread(&wait.victim),
            wait.victim.scheduling(),
            wait.behind.as_ref().map_or("unknown".to_owned(), thread),
            wait.behind.as_ref().map_or(String::new(), rank),
            format!("{:.6} s", wait.woken_ns.0 as f64 / 1e9),
        ])
    };
    let table = Table::new(columns, waits.iter().map(row).collect()).at_most(OPEN_SHOWN);
    table.further("further thread", "further threads")
}

fn longest(late: &[LateWakeup]) -> Table {
    let columns = vec![
        Column::right("waited"),
        Column::right("CPU"),
        Column::left("who").cut_to(12),
        Column::left("at").drop(2),
        Column::left("behind").cut_to(12),
        Column::left("at").drop(1),
        Column::right("that ran"),
        Column::right("woken (monotonic)").drop(3),
    ];
    let row = |late: &LateWakeup| {
        Row::new([
            late.latency_ns.to_string(),
            late.cpu.to_string(),
            thread(&late.victim),
            late.victim.scheduling(),
            late.culprit.as_ref().map_or("unknown".to_owned(), thread),
            late.culprit.as_ref().map_or(String::new(), rank),
            figures::or_dash(late.culprit_ran_ns),
            format!("{:.6} s", late.woken_ns.0 as f64 / 1e9),
        ])
    };
    Table::new(columns, late.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use punctual_model::{PriorityClass, ThreadSeen, WakeupRow};

    use super::*;
    use crate::text::{self, TextStyle};

    fn shown(seen: &Wakeups, axes: &[WakeupAxis], most: usize, style: &TextStyle) -> String {
        text::render(&wakeups(seen, axes, most), style)
    }

    fn thread(tid: u32, comm: &str, kernel_priority: i32, policy: u32) -> ThreadSeen {
        ThreadSeen {
            tid,
            comm: comm.to_owned(),
            kernel_priority,
            policy: Some(policy),
        }
    }

    fn seen() -> Wakeups {
        let row = |cpu, class, comm: &str, waits: &[u64]| {
            let mut all = WaitHistogram::new();
            waits.iter().for_each(|wait| all.record(Nanos(*wait)));
            WakeupRow {
                cpu,
                class,
                comm: Some(comm.to_owned()),
                group: None,
                held_ns: Nanos::ZERO,
                waits: all,
            }
        };
        Wakeups {
            source: WakeupSource::Bpf,
            not_bpf: None,
            elapsed_ns: Nanos::from_secs(2),
            rows: vec![
                row(
                    0,
                    PriorityClass::RealTime,
                    "control",
                    &[3_000, 3_500, 4_200, 180_000],
                ),
                row(0, PriorityClass::Fair, "kworker/0:1", &[900, 12_000_000]),
                row(1, PriorityClass::Fair, "bash\x1b[2J", &[50, 2_000_000_000]),
            ],
            open: vec![OpenWait {
                woken_ns: Nanos(3_000_000_000),
                waited_ns: Nanos::from_millis(954),
                cpu: Some(1),
                victim: thread(812, "control", 49, 1),
                behind: Some(thread(77, "spinner\x1b[2J", 39, 1)),
                waker: 0,
            }],
            longest: vec![LateWakeup {
                woken_ns: Nanos(12_345_678_901),
                latency_ns: Nanos(180_000),
                cpu: 0,
                victim: thread(812, "control", 19, 1),
                culprit: Some(thread(77, "kworker/0:1", 120, 0)),
                culprit_ran_ns: Some(Nanos(176_000)),
                waker: 0,
            }],
            lost: 0,
            unnamed: 3,
            events_lost: 0,
        }
    }

    #[test]
    fn it_is_read_at_a_glance() {
        let style = TextStyle {
            colour: false,
            width: 120,
        };
        insta::assert_snapshot!(shown(&seen(), &[WakeupAxis::Cpu], 10, &style));
    }

    #[test]
    fn rows_beyond_the_most_are_counted() {
        let axes = [WakeupAxis::Cpu, WakeupAxis::Priority, WakeupAxis::Comm];
        let text = shown(&seen(), &axes, 2, &TextStyle::default());
        assert!(text.contains("1 more row with"), "{text}");
        assert!(!text.contains('\x1b'));
        assert!(
            text.contains("kworker/0:1") && text.contains("bash"),
            "{text}"
        );
    }

    #[test]
    fn nothing_seen_is_said() {
        let none = Wakeups {
            rows: vec![],
            longest: vec![],
            unnamed: 0,
            ..seen()
        };
        let text = shown(&none, &[WakeupAxis::Cpu], 10, &TextStyle::default());
        assert!(text.contains("no thread was woken"), "{text}");
    }

    #[test]
    fn counted_and_lost_events_are_reported() {
        let mut seen = seen();
        seen.source = WakeupSource::Events;
        seen.not_bpf = Some("this kernel has no BTF".to_owned());
        seen.events_lost = 1_234;
        seen.lost = 5;
        seen.longest[0].culprit_ran_ns = None;
        seen.longest[0].victim.policy = None;
        let style = TextStyle {
            colour: false,
            width: 120,
        };
        insta::assert_snapshot!(shown(&seen, &[WakeupAxis::Priority], 10, &style));
    }

    #[test]
    fn own_threads_are_said_to_be_all() {
        let mut seen = seen();
        seen.source = WakeupSource::Switches;
        seen.not_bpf = Some("permission denied".to_owned());
        seen.lost = 3;
        (seen.longest[0].culprit, seen.longest[0].culprit_ran_ns) = (None, None);
        let text = shown(&seen, &[WakeupAxis::Group], 10, &TextStyle::default());
        for part in [
            "only threads of your own",
            "3 wake-ups are missing",
            "unknown",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("delayed others"), "{text}");
    }

    #[test]
    fn it_fits_into_narrow_windows() {
        let mut seen = seen();
        seen.events_lost = 12;
        seen.longest[0].victim.comm = "a-name-of-15-ch".to_owned();
        seen.longest[0].culprit = Some(thread(77, "kworker/u129:17", 120, 0));
        seen.longest[0].latency_ns = Nanos(1_234_567_890);
        let every = [WakeupAxis::Cpu, WakeupAxis::Priority, WakeupAxis::Comm];
        for axes in [&every[..1], &every[1..2], &every[..]] {
            for width in 60..140 {
                let style = TextStyle {
                    colour: false,
                    width,
                };
                let text = shown(&seen, axes, 10, &style);
                let widest = text.lines().map(|line| line.chars().count()).max();
                assert!(widest <= Some(width), "{width} columns:\n{text}");
            }
        }
    }
}
