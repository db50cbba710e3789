//! Recordings of probes other than the timer probe, also used by the gallery.
#![allow(dead_code)]

use punctual_model::{
    Accounting, Cell, Chart, Histogram, IntervalRow, Limit, Metric, Nanos, Recording, Requirement,
    Series, SignedNanos, Table, ThreadRecord, testing,
};

/// Returns a run of another probe with one thread for each item, which has `count` samples around
/// its median (ns) and an occasional late one.
fn run(
    probe: &str,
    chart: Chart,
    count: u64,
    each: impl IntoIterator<Item = (ThreadRecord, f64)>,
) -> Recording {
    let mut recording = testing::recording(1, 1);
    recording.probe.name = probe.to_owned();
    recording.probe.chart = chart;
    recording.probe.parameters.clear();
    recording.probe.command_line = ["punctual", "measure", probe].map(str::to_owned).to_vec();
    recording.label = None;
    recording.series = Series::default();
    recording.top_samples.clear();
    recording.requirement = Requirement::default();
    recording.threads = each
        .into_iter()
        .map(|(mut thread, median)| {
            thread.histogram = samples(count, median);
            thread.accounting = Accounting {
                expected: count + 10,
                recorded: count,
                warm_up: 10,
                ..Accounting::default()
            };
            thread
        })
        .collect();
    recording.verdict = recording.judge();
    recording
}

fn samples(count: u64, median: f64) -> Histogram {
    let mut state = median.to_bits();
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as f64 + 1.0) / f64::from(1u32 << 31)
    };
    let mut histogram = Histogram::new();
    for _ in 0..count {
        let latency = median * (0.9 - 0.145 * random().ln() + 0.002 / random());
        histogram.record(SignedNanos(latency as i64));
    }
    histogram
}

fn thread() -> ThreadRecord {
    testing::recording(1, 1).threads.remove(0)
}

/// Returns a run of the wake-up probe on `cpus` CPUs: fast on the same CPU, slow between the two
/// halves, slowest to the last CPU.
pub(crate) fn wakeup(cpus: u32, count: u64) -> Recording {
    let pairs = (0..cpus).flat_map(|from| (0..cpus).map(move |to| (from, to)));
    let each = pairs.map(|(from, to)| {
        let thread = ThreadRecord {
            label: Some(format!("CPU {from} to CPU {to}")),
            cpu: Some(to),
            from_cpu: Some(from),
            ..thread()
        };
        let far = (from < cpus / 2) != (to < cpus / 2);
        let mut median = if from == to { 2_350.0 } else { 4_100.0 };
        median += if far { 2_600.0 } else { 0.0 };
        median += if to + 1 == cpus { 3_300.0 } else { 0.0 };
        median += f64::from((from * 7 + to * 13) % 11) * 37.0;
        (thread, median)
    });
    run("wakeup", Chart::Matrix, count, each)
}

/// Returns a run of the clock probe: the cost of a reading as bars, and a table of its other
/// results.
pub(crate) fn clocks() -> Recording {
    let clocks = [
        ("MONOTONIC", 24.0, true),
        ("MONOTONIC_COARSE", 6.0, true),
        ("MONOTONIC_RAW", 24.5, true),
        ("REALTIME", 24.0, true),
        ("REALTIME_COARSE", 6.0, true),
        ("BOOTTIME", 25.0, true),
        ("TAI", 24.0, true),
        ("PROCESS_CPUTIME_ID", 310.0, false),
        ("THREAD_CPUTIME_ID", 245.0, false),
        ("TSC", 9.0, true),
    ];
    let each = clocks.map(|(name, cost, _)| {
        let label = Some(name.to_owned());
        (ThreadRecord { label, ..thread() }, cost)
    });
    let mut recording = run("clock", Chart::Bars, 20_000, each);
    let mut table = Table::new(
        "clocks",
        "Resolution of the clocks",
        &[
            ("clock", "clock"),
            ("resolution_ns", "resolution"),
            ("step_ns", "smallest step"),
            ("without_kernel", "without kernel"),
            ("reads", "reads"),
            ("backwards_percent", "backwards [%]"),
        ],
    );
    for (name, cost, vdso) in clocks {
        let coarse = name.ends_with("COARSE");
        let step = Nanos(if coarse { 4_000_000 } else { cost as u64 });
        let resolution = match name {
            "TSC" => Cell::Unknown,
            _ => Nanos(if coarse { 4_000_000 } else { 1 }).into(),
        };
        table.push([
            Cell::from(name),
            resolution,
            step.into(),
            vdso.into(),
            Cell::from(20_000),
            0.0.into(),
        ]);
    }
    recording.tables = vec![table, Table::new("steps", "Steps back", &[("at", "at")])];
    recording
}

/// Returns a run with more labels than fit into a plot of the default size.
pub(crate) fn labels(count: u32) -> Recording {
    let each = (0..count).map(|index| {
        let label = Some(format!("way {index} of doing it"));
        let thread = ThreadRecord { label, ..thread() };
        (thread, 1_500.0 + 210.0 * f64::from(index * 29 % 64))
    });
    run("fault", Chart::Bars, 400, each)
}

/// Returns a run of the inversion probe, whose results differ by orders of magnitude.
pub(crate) fn inversion(factor: f64) -> Recording {
    let ways = [
        ("plain mutex", 48_000_000.0),
        ("priority inheritance", 51_000.0),
    ];
    let each = ways.map(|(name, median)| {
        let label = Some(name.to_owned());
        (ThreadRecord { label, ..thread() }, median * factor)
    });
    run("inversion", Chart::Bars, 300, each)
}

/// Returns a run of the irq-load probe, which has only a table.
pub(crate) fn tables_only(cpus: u32) -> Recording {
    let mut recording = run("irq-load", Chart::Latency, 0, []);
    recording.interference.cpus.clear();
    recording.interference.unknown.clear();
    recording.interference.context_switches = None;
    let names: Vec<(String, String)> = (0..cpus)
        .map(|cpu| (format!("cpu{cpu}_per_s"), format!("CPU {cpu} [1/s]")))
        .collect();
    let mut columns = vec![("source", "source")];
    columns.extend(
        names
            .iter()
            .map(|(key, title)| (key.as_str(), title.as_str())),
    );
    let mut table = Table::new("interrupts", "Interrupts a second", &columns);
    for (place, source) in ["0 timer", "24 nvme0q1", "LOC Local timer interrupts", "RES"]
        .into_iter()
        .enumerate()
    {
        let rates = (0..cpus).map(|cpu| Cell::from(f64::from(cpu + 1) * 17.25 * place as f64));
        table.push([Cell::from(source)].into_iter().chain(rates));
    }
    recording.tables = vec![table];
    recording
}

/// Returns a run whose limits are close together, with two of them almost at the maximum.
pub(crate) fn close_limits() -> Recording {
    let mut recording = testing::recording(2, 20);
    let limit = |metric, at_most| Limit { metric, at_most };
    recording.requirement.limits = vec![
        limit(Metric::Max, 150_000),
        limit(Metric::Percentile(99.9), 148_000),
        limit(Metric::Percentile(99.0), 146_000),
        limit(Metric::Percentile(50.0), 9_000),
        limit(Metric::Percentile(90.0), 8_000),
    ];
    recording
}

/// Returns a run with three phases of 4 s on two CPUs, as the session stores it: each phase has
/// separate threads, labelled with the phase.
pub(crate) fn phases() -> Recording {
    let mut recording = testing::recording(1, 1);
    recording.threads.clear();
    recording.series.rows.clear();
    recording.top_samples.clear();
    recording.duration_ns = Nanos::from_secs(12);
    for (phase, name) in ["idle", "cpu+disk", "idle"].into_iter().enumerate() {
        for cpu in 0..2 {
            let place = recording.threads.len() as u32;
            let latencies = samples(500, 4_000.0 * (1 + phase % 2 * 5) as f64);
            for second in 0..4 {
                let start = Nanos::from_secs(phase as u64 * 4 + second);
                let row = IntervalRow::new(place, start, 0, &latencies);
                recording.series.rows.push(row);
            }
            recording.threads.push(ThreadRecord {
                label: Some(format!("{name}: CPU {cpu}")),
                cpu: Some(cpu),
                histogram: latencies,
                ..thread()
            });
        }
    }
    recording
}

/// Returns a run with most samples at 20 µs and one stall of 50 ms, with so few samples that p99 is
/// close to it.
pub(crate) fn stalled() -> Recording {
    let mut recording = testing::recording(1, 1);
    let mut latencies = samples(60, 20_000.0);
    latencies.record(SignedNanos(50_000_000));
    recording.threads[0].histogram = latencies;
    recording
}
