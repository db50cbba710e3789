//! The threads and interrupts of a machine.

use std::ops::RangeInclusive;

use punctual_model::{
    CpuSet, Fact, InterruptKind, InterruptRecord, Nanos, TaskRecord, TaskUsage, WaitHistogram,
    grouped,
};

use super::table::{Column, Row, Table};
use super::{Block, Document, Section};
use crate::figures;

/// One row of the output of `threads`: a thread and its usage, in total or per second.
#[derive(Clone, Debug)]
pub struct ThreadRow {
    /// The thread.
    pub task: TaskRecord,
    /// Usage since the thread started, or during `over_ns`.
    pub used: TaskUsage,
    /// The time span of `used`, or `None` if it covers the time since the thread started.
    pub over_ns: Option<u64>,
    /// How long threads of this name waited for a CPU after each wake-up in that time. `None` if
    /// the name was not watched or had no wake-up.
    pub waits: Option<WaitHistogram>,
    /// The time slice of a thread with the policy rr.
    pub slice_ns: Option<Nanos>,
}

/// Returns threads, one line each, in the given order, and the priority ranges of the policies.
pub fn threads(rows: &[ThreadRow], ranges: &[(&str, RangeInclusive<u8>)]) -> Document {
    let Some(first) = rows.first() else {
        return Document::from_blocks(vec![Block::text("no such thread")]);
    };
    let rate = first.over_ns.is_some();
    let name = |plain: &str| {
        if rate {
            format!("{plain}/s")
        } else {
            plain.to_owned()
        }
    };
    let shown = Shown {
        waits: rows.iter().any(|row| row.waits.is_some()),
        slices: rows.iter().any(|row| row.slice_ns.is_some()),
    };
    let mut columns = vec![
        Column::right("pid").drop(5),
        Column::right("tid"),
        Column::left("name"),
        Column::left("kind").drop(4),
        Column::left("policy"),
    ];
    if shown.slices {
        columns.push(Column::right("slice").drop(10));
    }
    columns.extend([
        Column::left("CPUs").cut_to(12),
        Column::right("on").drop(2),
        Column::left("state").drop(8),
        Column::right(if rate { "CPU" } else { "CPU time" }),
    ]);
    if shown.waits {
        // Waits are counted by name, so all threads of a name show the same figures.
        columns.push(Column::right("wait p99").drop(2));
        columns.push(Column::right("wait max").drop(3));
    }
    columns.extend([
        Column::right(name("voluntary")).drop(3),
        Column::right(name("involuntary")).drop(1),
        Column::right(name("faults")).drop(6),
        Column::right(name("major")).drop(7),
        Column::right("locked").drop(9),
    ]);
    let cells = rows.iter().map(|row| thread_row(row, &shown)).collect();
    let mut document = Document::from_blocks(vec![Block::Table(Table::new(columns, cells))]);
    if !ranges.is_empty() {
        document.push(Section::new(vec![Block::text(priorities(ranges))]));
    }
    document
}

/// Lists the priority range of each policy; a range from 0 to 0 means that the policy has none.
fn priorities(ranges: &[(&str, RangeInclusive<u8>)]) -> String {
    let all = ranges.iter().map(|(name, range)| match range.end() {
        0 => format!("{name} none"),
        end => format!("{name} {} to {end}", range.start()),
    });
    format!("priorities: {}", all.collect::<Vec<_>>().join(", "))
}

/// Columns that are shown only if a thread has a value in them.
struct Shown {
    waits: bool,
    slices: bool,
}

fn thread_row(row: &ThreadRow, shown: &Shown) -> Row {
    let ThreadRow {
        task,
        used,
        over_ns,
        waits,
        slice_ns,
    } = row;
    let count = |count: u64| match over_ns {
        Some(ns) => a_second(count, *ns),
        None => grouped(count),
    };
    let maybe = |counted: Option<u64>| counted.map_or_else(|| "-".to_owned(), count);
    let time = match over_ns {
        Some(ns) => format!(
            "{:.1} %",
            used.cpu_time_ns.0 as f64 * 100.0 / (*ns).max(1) as f64
        ),
        None => used.cpu_time_ns.to_string(),
    };
    let mut cells = vec![
        task.pid.to_string(),
        task.tid.to_string(),
        task.comm.clone(),
        task.kind.name().to_owned(),
        task.scheduling_text(),
    ];
    if shown.slices {
        cells.push(figures::or_dash(*slice_ns));
    }
    cells.extend([
        task.affinity
            .as_ref()
            .map_or("-".to_owned(), CpuSet::to_string),
        task.last_cpu.to_string(),
        task.state.to_string(),
        time,
    ]);
    if shown.waits {
        let waits = waits.as_ref();
        let p99 = waits.and_then(|waits| waits.quantile(0.99));
        cells.push(figures::or_dash(p99));
        cells.push(figures::or_dash(waits.map(|waits| waits.max_ns)));
    }
    cells.extend([
        maybe(used.switches_voluntary),
        maybe(used.switches_involuntary),
        count(used.faults_minor),
        count(used.faults_major),
        task.locked_bytes.map_or("-".to_owned(), figures::size),
    ]);
    Row::new(cells)
}

/// Formats a rate per second, with one decimal below 10.
fn a_second(count: u64, over_ns: u64) -> String {
    let rate = count as f64 * 1e9 / over_ns.max(1) as f64;
    match rate {
        0.0 => "0".to_owned(),
        small if small < 10.0 => format!("{small:.1}"),
        large => grouped(large.round() as u64),
    }
}

/// One row of the output of `irqs`.
#[derive(Clone, Debug)]
pub struct InterruptRow {
    /// The interrupt.
    pub interrupt: InterruptRecord,
    /// Interrupts per CPU, since boot or during `over_ns`.
    pub counts: Vec<(u32, u64)>,
    /// The time span of `counts`, or `None` if it covers the time since boot.
    pub over_ns: Option<u64>,
}

/// Maximum number of CPU columns. The CPUs with the highest counts are preferred.
const MOST_CPUS: usize = 8;

/// Returns interrupts, one line each, with a column for each CPU.
pub fn interrupts(rows: &[InterruptRow]) -> Document {
    let Some(first) = rows.first() else {
        return Document::from_blocks(vec![Block::text("no interrupts")]);
    };
    let (cpus, hidden) = shown_cpus(rows);
    let unit = if first.over_ns.is_some() { "/s" } else { "" };
    let mut columns = vec![Column::right("irq")];
    columns.extend((cpus.iter()).map(|cpu| Column::right(format!("CPU {cpu}{unit}"))));
    columns.extend([
        Column::left("affinity").drop(3),
        Column::left("effective").drop(1),
        Column::left("kind").drop(4),
        Column::left("handler").drop(2),
        Column::left("what").cut_to(16),
    ]);
    let cells = rows.iter().map(|row| interrupt_row(row, &cpus)).collect();
    let mut blocks = vec![Block::Table(Table::new(columns, cells))];
    if hidden > 0 {
        let more = punctual_model::counted(hidden as u64, "more CPU", "more CPUs");
        blocks.push(Block::faint(format!(
            "{more} with fewer interrupts (shown by --json)"
        )));
    }
    Document::from_blocks(blocks)
}

/// Returns the CPUs that have a column, in ascending order, and how many have none.
fn shown_cpus(rows: &[InterruptRow]) -> (Vec<u32>, usize) {
    let mut sums = std::collections::BTreeMap::<u32, u64>::new();
    for (cpu, count) in rows.iter().flat_map(|row| &row.counts) {
        *sums.entry(*cpu).or_default() += count;
    }
    let mut cpus: Vec<(u32, u64)> = sums.into_iter().collect();
    cpus.sort_by_key(|(cpu, sum)| (std::cmp::Reverse(*sum), *cpu));
    let hidden = cpus.len().saturating_sub(MOST_CPUS);
    cpus.truncate(MOST_CPUS);
    let mut shown: Vec<u32> = cpus.into_iter().map(|(cpu, _)| cpu).collect();
    shown.sort_unstable();
    (shown, hidden)
}

fn interrupt_row(row: &InterruptRow, cpus: &[u32]) -> Row {
    let interrupt = &row.interrupt;
    let on = |cpu: &u32| {
        let count = row
            .counts
            .iter()
            .find(|count| count.0 == *cpu)
            .map_or(0, |count| count.1);
        match row.over_ns {
            Some(ns) => a_second(count, ns),
            None => grouped(count),
        }
    };
    let set = |fact: &Fact<CpuSet>| match (fact.get(), interrupt.kind) {
        (Some(cpus), _) => cpus.to_string(),
        (None, InterruptKind::Kernel) => String::new(),
        (None, _) => "?".to_owned(),
    };
    let handlers: Vec<String> = interrupt
        .handlers
        .iter()
        .map(|handler| format!("{} ({})", handler.comm, handler.scheduling))
        .collect();
    // Device names are more useful than the name of the chip, whose kind has its own column.
    let what = match interrupt.devices.len() {
        0 => interrupt.name.clone(),
        1 => interrupt.devices[0].clone(),
        sharing => format!("{} (shared by {sharing})", interrupt.devices.join(", ")),
    };
    let mut cells = vec![interrupt.id.clone()];
    cells.extend(cpus.iter().map(on));
    cells.extend([
        set(&interrupt.affinity),
        set(&interrupt.effective),
        interrupt.kind.name().to_owned(),
        handlers.join(", "),
        what,
    ]);
    Row::new(cells)
}

#[cfg(test)]
mod tests {
    use punctual_model::{HandlerThread, Nanos, Policy, Scheduling, TaskKind};

    use super::*;
    use crate::text::{self, TextStyle};

    fn fifo(priority: u8) -> Scheduling {
        Scheduling {
            policy: Policy::Fifo,
            priority,
        }
    }

    fn task() -> TaskRecord {
        TaskRecord {
            pid: 812,
            tid: 815,
            comm: "control\x1b[2J".to_owned(),
            kind: TaskKind::User,
            state: 'S',
            scheduling: fifo(80),
            nice: 0,
            affinity: "2-3".parse().ok(),
            last_cpu: 3,
            started_ticks: 1,
            used: TaskUsage {
                cpu_time_ns: Nanos(1_230_000_000),
                switches_voluntary: Some(123_456),
                switches_involuntary: Some(7),
                faults_minor: 120,
                faults_major: 0,
            },
            locked_bytes: Some(12 << 20),
        }
    }

    #[test]
    fn threads_are_a_line_each() {
        let row = |over_ns| ThreadRow {
            used: task().used,
            task: task(),
            over_ns,
            waits: over_ns.map(|_| {
                let mut waits = WaitHistogram::new();
                waits.record(Nanos(7_000));
                waits
            }),
            slice_ns: over_ns.map(|_| Nanos(100_000_000)),
        };
        let ranges = [("fifo", 1..=99), ("rr", 1..=99)];
        let wide = TextStyle {
            colour: false,
            width: 130,
        };
        let both = format!(
            "{}{}",
            text::render(&threads(&[row(None)], &ranges), &wide),
            text::render(&threads(&[row(Some(2_000_000_000))], &ranges), &wide)
        );
        insta::assert_snapshot!(both);
    }

    #[test]
    fn interrupts_show_target_and_handler() {
        let interrupt = InterruptRecord {
            id: "16".to_owned(),
            name: "IO-APIC 16-fasteoi ehci, snd".to_owned(),
            kind: InterruptKind::Line,
            devices: vec!["ehci".to_owned(), "snd".to_owned()],
            counts: vec![(0, 5), (1, 7_000)],
            affinity: Fact::known("0-1".parse().unwrap(), "f"),
            effective: Fact::unknown("f", "absent"),
            handlers: vec![HandlerThread {
                tid: 81,
                comm: "irq/16-ehci".to_owned(),
                scheduling: fifo(50),
            }],
        };
        let row = InterruptRow {
            counts: interrupt.counts.clone(),
            interrupt,
            over_ns: None,
        };
        let wide = TextStyle {
            colour: false,
            width: 130,
        };
        insta::assert_snapshot!(text::render(&interrupts(&[row]), &wide));
    }
}
