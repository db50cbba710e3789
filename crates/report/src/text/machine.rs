//! What runs on a machine and how it is made: threads, interrupts, topology,
//! clocks, as tables.

use punctual_model::{
    Cache, CpuSet, Fact, InterruptKind, InterruptRecord, MemoryNode, Placement, TaskRecord,
    TaskUsage, Topology, WaitHistogram, grouped,
};

use super::table::{self, Column};
use super::{TextStyle, Tone, wrap};
use crate::clean::clean;
use crate::figures;

/// Joins lines to a text that ends with a newline.
fn text(lines: Vec<String>) -> String {
    let mut out = lines.join("\n");
    out.push('\n');
    out
}

/// One row of `threads`: a thread, with what it has used or uses a second.
#[derive(Clone, Debug)]
pub struct ThreadRow {
    /// The thread.
    pub task: TaskRecord,
    /// Since its start, or in `over_ns`.
    pub used: TaskUsage,
    /// The time that `used` is of; none: since its start.
    pub over_ns: Option<u64>,
    /// How long threads of its name waited for their CPU after being woken, in
    /// that time; none where it was not watched, or none was woken.
    pub waits: Option<WaitHistogram>,
}

/// Threads, a line each, in the order given.
pub fn threads(rows: &[ThreadRow], style: &TextStyle) -> String {
    if rows.is_empty() {
        return "no such thread\n".to_owned();
    }
    let rate = rows[0].over_ns.is_some();
    let name = |plain: &str| {
        if rate {
            format!("{plain}/s")
        } else {
            plain.to_owned()
        }
    };
    let columns = [
        Column::right("pid", 5),
        Column::right("tid", 0),
        Column::left("name", 0),
        Column::left("kind", 4),
        Column::left("policy", 0),
        Column::left("CPUs", 0).cut_to(12),
        Column::right("on", 2),
        Column::left("state", 8),
        Column::right(if rate { "CPU" } else { "CPU time" }, 0),
        Column::right(&name("switches"), 3),
        Column::right(&name("taken away"), 1),
        Column::right(&name("faults"), 6),
        Column::right(&name("major"), 7),
        Column::right("locked", 9),
    ];
    let watched = rows.iter().any(|row| row.waits.is_some());
    let mut columns = Vec::from(columns);
    if watched {
        // By name, as they are counted: threads of one name have one figure.
        columns.insert(9, Column::right("wait p99", 2));
        columns.insert(10, Column::right("wait max", 3));
    }
    let cells = rows.iter().map(|row| thread_cells(row, watched)).collect();
    text(table::lines(&columns, cells, style.columns(), *style))
}

fn thread_cells(row: &ThreadRow, watched: bool) -> Vec<String> {
    let ThreadRow {
        task,
        used,
        over_ns,
        waits,
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
        clean(&task.comm).into_owned(),
        task.kind.name().to_owned(),
        task.scheduling_text(),
        task.affinity
            .as_ref()
            .map_or("-".to_owned(), CpuSet::to_string),
        task.last_cpu.to_string(),
        task.state.to_string(),
        time,
        maybe(used.switches_voluntary),
        maybe(used.switches_involuntary),
        count(used.faults_minor),
        count(used.faults_major),
        task.locked_bytes.map_or("-".to_owned(), figures::size),
    ];
    if watched {
        let waits = waits.as_ref();
        let longest = waits.map(|waits| waits.max_ns);
        cells.insert(
            9,
            figures::or_dash(waits.and_then(|waits| waits.quantile(0.99))),
        );
        cells.insert(10, figures::or_dash(longest));
    }
    cells
}

/// A rate: with a decimal where it is small.
fn a_second(count: u64, over_ns: u64) -> String {
    let rate = count as f64 * 1e9 / over_ns.max(1) as f64;
    match rate {
        0.0 => "0".to_owned(),
        small if small < 10.0 => format!("{small:.1}"),
        large => grouped(large.round() as u64),
    }
}

/// One row of `irqs`.
#[derive(Clone, Debug)]
pub struct InterruptRow {
    /// The interrupt.
    pub interrupt: InterruptRecord,
    /// How often it came to each CPU, since the boot or in `over_ns`.
    pub counts: Vec<(u32, u64)>,
    /// The time that `counts` are of; none: since the boot.
    pub over_ns: Option<u64>,
}

/// Columns of CPUs that are shown at the most: those with the highest counts.
const MOST_CPUS: usize = 8;

/// Interrupts, a line each, with a column for each CPU.
pub fn interrupts(rows: &[InterruptRow], style: &TextStyle) -> String {
    let Some(first) = rows.first() else {
        return "no interrupt came\n".to_owned();
    };
    let (cpus, hidden) = shown_cpus(rows);
    let unit = if first.over_ns.is_some() { "/s" } else { "" };
    let mut columns = vec![Column::right("irq", 0)];
    columns.extend(
        cpus.iter()
            .map(|cpu| Column::right(&format!("CPU {cpu}{unit}"), 0)),
    );
    columns.extend([
        Column::left("may go to", 3),
        Column::left("goes to", 1),
        Column::left("kind", 4),
        Column::left("handled by", 2),
        Column::left("what", 0).cut_to(16),
    ]);
    let cells = rows.iter().map(|row| interrupt_cells(row, &cpus)).collect();
    let mut lines = table::lines(&columns, cells, style.columns(), *style);
    if hidden > 0 {
        lines.push(style.paint(
            Tone::Faint,
            &format!("{hidden} more CPUs, with fewer interrupts (--json tells all)"),
        ));
    }
    text(lines)
}

/// The CPUs that have a column, rising, and how many have none.
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

fn interrupt_cells(row: &InterruptRow, cpus: &[u32]) -> Vec<String> {
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
        .map(|handler| format!("{} ({})", clean(&handler.comm), handler.scheduling))
        .collect();
    // The devices say more than the chip, whose kind stands beside them.
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
        clean(&what).into_owned(),
    ]);
    cells
}

/// Sockets, cores, caches, memory nodes, and which CPUs are apart.
pub fn topology(all: &Topology, style: &TextStyle) -> String {
    let mut lines = Vec::new();
    let set = |fact: &Fact<CpuSet>| match fact.get() {
        Some(cpus) if cpus.is_empty() => "none".to_owned(),
        Some(cpus) => cpus.to_string(),
        None => format!(
            "unknown ({})",
            fact.unknown.as_deref().unwrap_or("not said")
        ),
    };
    let pairs = [
        ("online", all.online().to_string()),
        ("housekeeping", all.housekeeping().to_string()),
        ("isolated", set(&all.isolated)),
        // The file is there only where the kernel can do it.
        (
            "without a tick",
            match all.nohz_full.unknown.as_deref() {
                Some("not there") => "none (this kernel cannot stop its tick)".to_owned(),
                _ => set(&all.nohz_full),
            },
        ),
    ];
    for (name, value) in pairs {
        lines.push(format!("{name:<16}{value}"));
    }
    lines.push(String::new());
    lines.extend(core_lines(all, *style));
    if all.caches.is_empty() {
        lines.push("caches: the kernel does not say (virtual machines often hide them)".to_owned());
    } else {
        lines.push(String::new());
        lines.extend(cache_lines(&all.caches, *style));
    }
    if all.nodes.len() > 1 {
        lines.push(String::new());
        lines.extend(node_lines(&all.nodes, *style));
    }
    text(lines)
}

/// A line for each core: CPUs of one core are one line.
fn core_lines(all: &Topology, style: TextStyle) -> Vec<String> {
    let columns = [
        Column::left("core", 0),
        Column::left("CPUs", 0),
        Column::right("socket", 0),
        Column::right("node", 0),
        Column::left("", 0),
    ];
    let isolated = all.isolated.get().cloned().unwrap_or_default();
    let number = |known: Option<u32>| known.map_or("-".to_owned(), |number| number.to_string());
    let first = |place: &&punctual_model::CpuPlace| place.siblings.iter().next() == Some(place.cpu);
    let rows = all
        .cpus
        .iter()
        .filter(first)
        .map(|place| {
            let apart = place.siblings.intersection(&isolated);
            let note = match (place.online, apart.is_empty()) {
                (false, _) => "offline".to_owned(),
                (true, false) if apart == place.siblings => "isolated".to_owned(),
                (true, false) => format!("CPU {apart} isolated, beside one that is not"),
                (true, true) => String::new(),
            };
            vec![
                number(place.core),
                place.siblings.to_string(),
                number(place.package),
                number(place.node),
                note,
            ]
        })
        .collect();
    table::lines(&columns, rows, style.columns(), style)
}

fn cache_lines(caches: &[Cache], style: TextStyle) -> Vec<String> {
    let columns = [
        Column::left("cache", 0),
        Column::left("kind", 1),
        Column::right("size", 0),
        Column::left("shared by CPUs", 0),
    ];
    let rows = caches
        .iter()
        .map(|cache| {
            vec![
                format!("level {}", cache.level),
                clean(&cache.kind).to_lowercase(),
                cache.size_bytes.map_or("-".to_owned(), figures::size),
                cache.cpus.to_string(),
            ]
        })
        .collect();
    table::lines(&columns, rows, style.columns(), style)
}

fn node_lines(nodes: &[MemoryNode], style: TextStyle) -> Vec<String> {
    let columns = [
        Column::left("node", 0),
        Column::left("CPUs", 0),
        Column::right("memory", 0),
        Column::left("distance to each", 0),
    ];
    let rows = nodes
        .iter()
        .map(|node| {
            let distances: Vec<String> = node.distances.iter().map(u32::to_string).collect();
            vec![
                node.node.to_string(),
                node.cpus.to_string(),
                node.memory_bytes.map_or("-".to_owned(), figures::size),
                distances.join(" "),
            ]
        })
        .collect();
    table::lines(&columns, rows, style.columns(), style)
}

/// Where to run what, and why.
pub fn placements(places: &[Placement], style: &TextStyle) -> String {
    let wide = |of: &dyn Fn(&Placement) -> String| {
        let cells = places.iter().map(|place| of(place).chars().count());
        cells.max().unwrap_or(0)
    };
    let (what, cpus) = (
        wide(&|place| place.role.clone()),
        wide(&|place| place.cpus.to_string()),
    );
    // The reason is wrapped, and not cut: it is what the answer is for.
    let before = what + 2 + "CPU ".len() + cpus + 2;
    let room = style.columns().saturating_sub(before).max(24);
    let mut lines = Vec::new();
    for place in places {
        for (nth, part) in wrap(&place.reason, room).iter().enumerate() {
            lines.push(match nth {
                0 => {
                    let of = place.cpus.to_string();
                    format!("{:<what$}  CPU {of:<cpus$}  {part}", place.role)
                }
                _ => format!("{:before$}{part}", ""),
            });
        }
    }
    text(lines)
}

/// A POSIX clock, and how fine it is.
#[derive(Clone, Debug)]
pub struct ClockRow {
    /// Its name: CLOCK_MONOTONIC.
    pub name: String,
    /// What clock_getres(2) says; none where it is refused.
    pub resolution_ns: Option<u64>,
    /// What it is.
    pub what: String,
}

/// Clock sources and POSIX clocks.
pub fn clocks(
    current: &Fact<String>,
    available: &Fact<Vec<String>>,
    rows: &[ClockRow],
    style: &TextStyle,
) -> String {
    let said = |known: Option<String>, why: &Option<String>| {
        known.unwrap_or_else(|| format!("unknown ({})", why.as_deref().unwrap_or("not said")))
    };
    let mut lines = vec![
        format!(
            "source       {}",
            said(current.get().cloned(), &current.unknown)
        ),
        format!(
            "available    {}",
            said(available.get().map(|all| all.join(" ")), &available.unknown)
        ),
        String::new(),
    ];
    let columns = [
        Column::left("clock", 0),
        Column::right("resolution", 0),
        Column::left("what", 1),
    ];
    let cells = rows
        .iter()
        .map(|row| {
            let resolution = row
                .resolution_ns
                .map(|ns| punctual_model::Nanos(ns).to_string());
            vec![
                row.name.clone(),
                resolution.unwrap_or("-".to_owned()),
                row.what.clone(),
            ]
        })
        .collect();
    lines.extend(table::lines(&columns, cells, style.columns(), *style));
    text(lines)
}

#[cfg(test)]
mod tests {
    use punctual_model::{CpuPlace, HandlerThread, Nanos, Policy, Scheduling, TaskKind};

    use super::*;

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
        };
        let wide = TextStyle {
            colour: false,
            width: 130,
        };
        let both = format!(
            "{}{}",
            threads(&[row(None)], &wide),
            threads(&[row(Some(2_000_000_000))], &wide)
        );
        insta::assert_snapshot!(both);
    }

    #[test]
    fn interrupts_tell_where_they_go_and_who_handles_them() {
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
        insta::assert_snapshot!(interrupts(&[row], &wide));
    }

    #[test]
    fn a_topology_is_read_at_a_glance() {
        let place = |cpu: u32| CpuPlace {
            cpu,
            online: cpu != 3,
            package: Some(0),
            core: Some(cpu % 2),
            siblings: [cpu % 2, cpu % 2 + 2].into_iter().collect(),
            node: None,
        };
        let all = Topology {
            cpus: (0..4).map(place).collect(),
            caches: vec![Cache {
                level: 3,
                kind: "Unified".to_owned(),
                size_bytes: Some(32 << 20),
                cpus: "0-3".parse().unwrap(),
            }],
            nodes: vec![],
            isolated: Fact::known("3".parse().unwrap(), "f"),
            nohz_full: Fact::unknown("f", "not there"),
        };
        insta::assert_snapshot!(topology(&all, &TextStyle::default()));
    }
}
