//! The figures of osnoise, from the tables of the recording, and their two forms: a histogram, and
//! the table of `top`.

use std::collections::BTreeMap;
use std::fmt::Write;

use punctual_model::{Cell, Nanos, Recording};

use super::settings::Rows;
use super::table::duration;
use crate::shared::rows;

/// Figures of a CPU, with times in us. `None` is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Noise {
    pub(super) cpu: u64,
    pub(super) periods: u64,
    pub(super) runtime: u64,
    pub(super) noise: u64,
    pub(super) max_noise: Option<u64>,
    pub(super) max_single: u64,
    /// Hardware, NMIs, interrupts, softirqs and threads.
    pub(super) counts: [Option<u64>; 5],
}

const MICROSECOND: u64 = 1_000;

/// Columns of the table of the kernel's tracer.
pub(super) const KERNEL_KEYS: [&str; 11] = [
    "cpu",
    "windows",
    "spun_ns",
    "noise_ns",
    "most_ns",
    "longest_ns",
    "hardware",
    "nmis",
    "interrupts",
    "softirqs",
    "threads",
];

/// Returns the figures that the kernel's tracer has counted.
pub(super) fn of_kernel(recording: &Recording) -> Vec<Noise> {
    rows(recording, "osnoise", KERNEL_KEYS)
        .map(
            |[cpu, periods, runtime, noise, most, longest, counts @ ..]| Noise {
                cpu,
                periods,
                runtime: runtime / MICROSECOND,
                noise: noise / MICROSECOND,
                max_noise: Some(most / MICROSECOND),
                max_single: longest / MICROSECOND,
                counts: counts.map(Some),
            },
        )
        .collect()
}

/// The causes of gaps of the probe's own threads that hardware, firmware or a hypervisor has.
const HARDWARE: [&str; 3] = ["unaccounted", "SMI", "steal"];

/// Returns the figures of the probe's own threads. They know neither NMIs nor softirqs. With
/// `hardware`, only the gaps count that no software has caused.
pub(super) fn of_threads(recording: &Recording, hardware: bool) -> Vec<Noise> {
    let mut all: BTreeMap<u64, Noise> = BTreeMap::new();
    for [cpu, spun, most] in rows(recording, "spinning", ["cpu", "spun_ns", "most_ns"]) {
        let own = |thread: &&punctual_model::ThreadRecord| thread.cpu.map(u64::from) == Some(cpu);
        let thread = recording.threads.iter().find(own);
        let noise = Noise {
            cpu,
            periods: thread.map_or(0, |thread| thread.accounting.recorded),
            runtime: spun / MICROSECOND,
            // The sum of a window includes hardware and software.
            max_noise: (!hardware).then_some(most / MICROSECOND),
            counts: [Some(0), None, Some(0), None, Some(0)],
            ..Noise::default()
        };
        all.insert(cpu, noise);
    }
    let table = recording.tables.iter().find(|table| table.name == "gaps");
    let causes = table.into_iter().flat_map(|table| &table.rows);
    let causes = causes.map(|row| match row.get(1) {
        Some(Cell::Text(cause)) => cause.clone(),
        _ => String::new(),
    });
    let keys = ["cpu", "count", "total_ns", "max_ns"];
    let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
    for ([cpu, count, total, max], cause) in rows(recording, "gaps", keys).zip(causes) {
        let Some(noise) = all.get_mut(&cpu) else {
            continue;
        };
        let place = match cause.as_str() {
            "interrupt" => Some(2),
            "preemption" => Some(4),
            cause if HARDWARE.contains(&cause) => Some(0),
            _ => None,
        };
        if cause == "below the threshold" || (hardware && place != Some(0)) {
            continue;
        }
        if let Some(sum) = place.and_then(|place| noise.counts[place].as_mut()) {
            *sum += count;
        }
        *sums.entry(cpu).or_default() += total;
        noise.max_single = noise.max_single.max(max / MICROSECOND);
    }
    for (cpu, noise) in &mut all {
        noise.noise = sums.get(cpu).copied().unwrap_or(0) / MICROSECOND;
    }
    all.into_values().collect()
}

/// Returns the table of `top`. With `hardware`, it is that of hwnoise.
pub(super) fn top(all: &[Noise], hardware: bool, length: Nanos) -> String {
    let title = if hardware {
        "Hardware-related Noise".to_owned()
    } else {
        format!("Operating System Noise{:39}", "")
    };
    let mut text = format!(
        "{:42}{title}{:35}\nduration: {:>9} | time is in us\nCPU Period       Runtime        Noise  % \
         CPU Aval   Max Noise   Max Single          HW          NMI",
        "",
        "",
        duration(length)
    );
    if !hardware {
        text.push_str("          IRQ      Softirq       Thread");
    }
    text.push('\n');
    let cell = |figure: Option<u64>| figure.map_or("-".to_owned(), |figure| figure.to_string());
    for noise in all.iter().filter(|noise| noise.runtime > 0) {
        let left = u128::from(noise.runtime.saturating_sub(noise.noise));
        let share = left * 10_000_000 / u128::from(noise.runtime);
        let _ = write!(
            text,
            "{:3} #{:<6} {:12} {:12}   {:3}.{:05}{:>12} {:12}",
            noise.cpu,
            noise.periods,
            noise.runtime,
            noise.noise,
            share / 100_000,
            share % 100_000,
            cell(noise.max_noise),
            noise.max_single,
        );
        let shown = if hardware { 2 } else { 5 };
        for (place, count) in noise.counts[..shown].iter().enumerate() {
            let end = if place == 4 { "" } else { " " };
            let _ = write!(text, "{:>12}{end}", cell(*count));
        }
        text.push('\n');
    }
    text
}

/// Counts of noise by length, for each CPU: lengths in ns with their counts, ascending.
pub(super) type Lengths = BTreeMap<u64, Vec<(u64, u64)>>;

/// Returns the lengths that the kernel's tracer has reported.
pub(super) fn lengths_of_kernel(recording: &Recording) -> Lengths {
    let keys = ["cpu", "from_ns", "gaps"];
    lengths(recording, "osnoise_gap_lengths", keys, 0)
}

/// Returns the lengths of the iterations of the probe's own threads that count as noise.
pub(super) fn lengths_of_threads(recording: &Recording, threshold_us: u64) -> Lengths {
    let keys = ["cpu", "from_ns", "turns"];
    lengths(recording, "turn_lengths", keys, threshold_us * MICROSECOND)
}

fn lengths(recording: &Recording, table: &str, keys: [&str; 3], least: u64) -> Lengths {
    let mut all = Lengths::new();
    for [cpu, from, count] in rows(recording, table, keys) {
        if from >= least {
            all.entry(cpu).or_default().push((from, count));
        }
    }
    all
}

/// Returns the histogram. As in the original, all figures are rounded down to a row.
pub(super) fn histogram(all: &Lengths, form: &Rows, length: Nanos) -> String {
    let mut text = String::new();
    let title = |name: &str| {
        if form.no_index {
            String::new()
        } else {
            name.to_owned()
        }
    };
    if !form.no_header {
        let _ = write!(
            text,
            "# RTLA osnoise histogram\n# Time unit is microseconds (us)\n# Duration: {}\n{}",
            duration(length),
            title("Index")
        );
        for cpu in all.keys() {
            let _ = write!(text, "   CPU-{cpu:03}");
        }
        text.push('\n');
    }
    let columns: Vec<Column> = (all.values())
        .map(|counts| Column::new(counts, form))
        .collect();
    for place in 0..form.entries {
        let is_empty = columns.iter().all(|column| column.rows[place] == 0);
        if is_empty && !form.with_zeros {
            continue;
        }
        let edge = title(&format!("{:<6}", place as u64 * form.width));
        line(
            &mut text,
            &edge,
            columns.iter().map(|column| column.rows[place].to_string()),
        );
    }
    // With empty rows, the original prints its usual lines also without columns.
    if columns.is_empty() && !form.with_zeros {
        text.push_str("over: 0\ncount: 0\nmin: 0\navg: 0\nmax: 0\n");
        return text;
    }
    let figures = |figure: fn(&Column) -> u64| columns.iter().map(move |c| figure(c).to_string());
    line(&mut text, &title("over: "), figures(|column| column.over));
    if form.no_summary {
        return text;
    }
    line(&mut text, &title("count:"), figures(|column| column.count));
    line(&mut text, &title("min:  "), figures(|column| column.min));
    let mean = |column: &Column| format!("{:.2}", column.sum as f64 / column.count as f64);
    line(&mut text, &title("avg:  "), columns.iter().map(mean));
    line(&mut text, &title("max:  "), figures(|column| column.max));
    text
}

/// The figures of one CPU in a histogram, in us.
struct Column {
    rows: Vec<u64>,
    over: u64,
    count: u64,
    min: u64,
    sum: u64,
    max: u64,
}

impl Column {
    /// `counts` is not empty.
    fn new(counts: &[(u64, u64)], form: &Rows) -> Self {
        let edge = |from: u64| from / MICROSECOND / form.width * form.width;
        let mut column = Self {
            rows: vec![0; form.entries],
            over: 0,
            count: 0,
            min: counts.first().map_or(0, |(from, _)| edge(*from)),
            sum: 0,
            max: counts.last().map_or(0, |(from, _)| edge(*from)),
        };
        for &(from, count) in counts {
            column.count += count;
            column.sum = column.sum.saturating_add(edge(from).saturating_mul(count));
            let place = usize::try_from(edge(from) / form.width).ok();
            match place.and_then(|place| column.rows.get_mut(place)) {
                Some(row) => *row += count,
                None => column.over += count,
            }
        }
        column
    }
}

fn line(text: &mut String, title: &str, figures: impl Iterator<Item = String>) {
    text.push_str(title);
    for figure in figures {
        let _ = write!(text, "{figure:>9} ");
    }
    text.push('\n');
}
