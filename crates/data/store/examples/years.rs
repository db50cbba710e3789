//! Generates a store with years of synthetic data, using the store's own writer: `cargo xtask
//! years`.
//!
//! Series run twice a day on a machine with many CPUs. The kernel changes every other month, and
//! the maximum latency is lower with every second kernel. Bucket counts vary at random, so that the
//! threads compress about as well as measured ones.

#![allow(clippy::print_stdout)]

use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use punctual_model::{
    Accounting, Buckets, Completion, Fact, Histogram, IntervalRow, LateWakeup, Nanos, Recording,
    RecordingId, SeriesEpoch, Slot, SlotCause, SlotState, ThreadRecord, ThreadSeen, WaitHistogram,
    WakeWindow,
};
use punctual_store::{Lease, Store, StoreError};

const MACHINE: &str = "made-up-machine";
const DAY: i64 = 86_400;
/// Length of a window, in seconds.
const WINDOW: i64 = 300;
/// Range of the latency buckets: from 1 µs to 300 µs.
const BUCKETS: (u64, u64) = (1_000, 2_000);

/// Parameters of the generated data.
struct Wanted {
    path: PathBuf,
    days: i64,
    series: u32,
    cpus: u32,
    window_days: i64,
    periods: u64,
}

fn wanted() -> Option<Wanted> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [path, days, series, cpus, window_days, periods] = given.as_slice() else {
        return None;
    };
    Some(Wanted {
        path: path.into(),
        days: days.parse().ok()?,
        series: series.parse().ok()?,
        cpus: cpus.parse().ok()?,
        window_days: window_days.parse().ok()?,
        periods: periods.parse().ok()?,
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wanted = wanted().ok_or("usage: years STORE DAYS SERIES CPUS WINDOW_DAYS PERIODS")?;
    let store = Store::open(&wanted.path)?;
    let began = Instant::now();
    // The last run is from yesterday, because `--since` counts from now.
    let end = Timestamp::now().as_second() / DAY * DAY;
    let first = end - wanted.days * DAY;
    let mut epochs = Vec::new();
    for number in 0..wanted.series {
        epochs.push(epoch(&store, number, Timestamp::from_second(first)?)?);
    }
    // Another thread generates the recordings, and this one stores them.
    let (made, taken) = sync_channel(8);
    std::thread::scope(|scope| -> Result<(), Box<dyn std::error::Error>> {
        let (wanted, epochs) = (&wanted, &epochs);
        scope.spawn(move || make_up(wanted, (first, epochs.len()), &made));
        // Moved into this closure so that it is dropped when the closure returns, which ends the
        // other thread after an error.
        let taken = taken;
        let mut windows_of = Random(0x2545_f491_4f6c_dd1d);
        for day in 0..wanted.days {
            for _ in 0..2 * epochs.len() {
                let (number, recording) = taken.recv()?;
                insert(&store, &epochs[number], recording.started, &recording)?;
            }
            if day + wanted.window_days >= wanted.days {
                windows(&store, first + day * DAY, &mut windows_of)?;
            }
            if day % 365 == 364 {
                let seconds = began.elapsed().as_secs_f64();
                println!("{} years after {seconds:.0} s", day / 365 + 1);
            }
        }
        Ok(())
    })?;
    println!("done after {:.0} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// Sends the recordings of all days, each with the number of its series, until the receiver is
/// dropped.
fn make_up(wanted: &Wanted, (first, series): (i64, usize), made: &SyncSender<(usize, Recording)>) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let parts = Parts::new(wanted, &mut random);
    for day in 0..wanted.days {
        for hour in [7, 19] {
            let due = Timestamp::from_second(first + day * DAY + hour * 3_600);
            for number in 0..series {
                let Ok(due) = due else { return };
                let recording = recording(wanted, &parts, (day, due), &mut random);
                if made.send((number, recording)).is_err() {
                    return;
                }
            }
        }
    }
}

fn epoch(store: &Store, number: u32, begun: Timestamp) -> Result<SeriesEpoch, StoreError> {
    let load = ["none", "cpu", "disk", "network"][number as usize % 4];
    let definition = format!("{{\"load\":\"{load}\",\"probe\":\"timer\"}}");
    store.put_series(
        MACHINE,
        Some("made-up"),
        &format!("series-{number}"),
        &definition,
        begun,
    )
}

/// Stores a slot with its recording, as a service does.
fn insert(
    store: &Store,
    epoch: &SeriesEpoch,
    due: Timestamp,
    recording: &Recording,
) -> Result<(), StoreError> {
    let lease = Lease {
        pid: std::process::id(),
        process_start: 1,
        boot_id: "made-up".to_owned(),
        namespaces: None,
    };
    let slot = Slot {
        machine: epoch.machine.clone(),
        series: epoch.name.clone(),
        epoch: epoch.epoch,
        due,
        cause: SlotCause::At,
        state: SlotState::Recorded,
        reason: None,
        recording: Some(recording.id),
    };
    store.add_slot(epoch, &slot)?;
    let mut start = recording.clone();
    start.completion = Completion::Running;
    start.series.rows.clear();
    start.top_samples.clear();
    for thread in &mut start.threads {
        thread.histogram = Histogram::new();
        thread.accounting = Accounting::default();
    }
    let writer = store.begin(&start, &lease)?;
    store.join_series(recording.id, epoch)?;
    writer.finish(recording)
}

/// Parts from which recordings are generated.
struct Parts {
    /// A recording with all facts.
    whole: Recording,
    shape: Shape,
    /// Bucket counts from which each run selects those of its threads.
    counts: Vec<Vec<u64>>,
}

/// Number of generated threads.
const THREADS: u64 = 4_096;

impl Parts {
    fn new(wanted: &Wanted, random: &mut Random) -> Self {
        let shape = Shape::new();
        let counts = (0..THREADS).map(|cpu| shape.counts(cpu, wanted.periods, random));
        Self {
            whole: punctual_model::testing::recording(wanted.cpus, 1),
            counts: counts.collect(),
            shape,
        }
    }
}

fn recording(
    wanted: &Wanted,
    parts: &Parts,
    (day, due): (i64, Timestamp),
    random: &mut Random,
) -> Recording {
    let mut recording = parts.whole.clone();
    recording.id = RecordingId::new();
    recording.label = None;
    recording.started = due;
    recording.duration_ns = Nanos(wanted.periods * 1_000_000);
    // As if retention had already removed the rows.
    recording.series.rows.clear();
    let kernel = day / 60;
    let release = format!("6.12.{kernel}-rt-amd64");
    recording.host.kernel.release = Fact::known(release, "made up");
    let largest = if kernel % 2 == 0 { 150_000 } else { 50_000 };
    for thread in &mut recording.threads {
        fill(thread, (parts, largest), random);
    }
    for sample in &mut recording.top_samples {
        sample.time = due;
        sample.latency_ns = Nanos(sample.latency_ns.0 + random.below(20_000));
    }
    recording
}

fn fill(thread: &mut ThreadRecord, (parts, largest): (&Parts, u64), random: &mut Random) {
    let shape = &parts.shape;
    let mut counts = parts.counts[random.below(THREADS) as usize].clone();
    let late = shape.place_of(largest + random.below(largest / 5));
    counts[late] += 1;
    let buckets = shape.buckets(&counts);
    let mut interval = IntervalRow::new(0, Nanos::ZERO, 0, &Histogram::new());
    for (lower, width, count) in buckets.iter() {
        let latency = Nanos(lower + random.below(width));
        interval.min_ns.get_or_insert(latency);
        interval.max_ns = Some(latency);
        interval.count += count;
        interval.sum_ns = Nanos(interval.sum_ns.0 + latency.0 * count);
    }
    interval.histogram = buckets;
    thread.histogram = Histogram::new();
    thread.histogram.add_interval(&interval);
    thread.accounting = Accounting {
        expected: interval.count + 1_000,
        recorded: interval.count,
        warm_up: 1_000,
        ..Accounting::default()
    };
    thread.missed_histogram = None;
}

/// Distribution of latencies: most are within two octaves, and one in 10,000 is in the tail.
struct Shape {
    edges: Vec<(u64, u64)>,
}

impl Shape {
    fn new() -> Self {
        let all = Self::decode(&vec![1; BUCKETS.1 as usize], 1_000);
        Self {
            edges: all.iter().map(|(lower, width, _)| (lower, width)).collect(),
        }
    }

    /// Returns buckets with these counts, beginning at bucket `first`, using the encoding of a
    /// store.
    fn decode(counts: &[u64], first: u64) -> Buckets {
        let mut bytes = vec![0];
        let mut push = |mut number: u64| {
            while number >= 0x80 {
                bytes.push(number as u8 | 0x80);
                number >>= 7;
            }
            bytes.push(number as u8);
        };
        push(first);
        for count in counts {
            push(*count);
            if *count == 0 {
                push(1);
            }
        }
        Buckets::decode(&bytes).unwrap_or_default()
    }

    fn buckets(&self, counts: &[u64]) -> Buckets {
        Self::decode(counts, BUCKETS.0)
    }

    fn place_of(&self, latency: u64) -> usize {
        let after = self.edges.partition_point(|(lower, _)| *lower <= latency);
        after.saturating_sub(1)
    }

    fn counts(&self, cpu: u64, periods: u64, random: &mut Random) -> Vec<u64> {
        let middle = 2_600.0 + 60.0 * (cpu % 8) as f64 + random.below(100) as f64;
        let each = self.edges.iter().map(|(lower, width)| {
            let (lower, width) = (*lower as f64, *width as f64);
            let apart = (lower / middle).ln() / 0.22;
            let body = (-apart * apart / 2.0).exp() / (lower * 0.22 * 2.507);
            let tail = 1e-4 * 3_000.0 / (lower * lower);
            random.count(periods as f64 * width * (body + tail))
        });
        each.collect()
    }
}

/// Writes the windows of a day.
fn windows(store: &Store, day: i64, random: &mut Random) -> Result<(), Box<dyn std::error::Error>> {
    for start in (day..day + DAY).step_by(WINDOW as usize) {
        let window = WakeWindow {
            machine: MACHINE.to_owned(),
            start: Timestamp::from_second(start)?,
            length_ns: Nanos::from(Duration::from_secs(WINDOW as u64)),
            real_time: waits(3_000, 1_500, random),
            ordinary: waits(60_000, 4_000, random),
            longest: (0..8).map(|_| late(start, random)).collect(),
            lost: 0,
        };
        store.add_wake_window(&window)?;
    }
    Ok(())
}

fn waits(count: u64, middle: u64, random: &mut Random) -> WaitHistogram {
    let mut waits = WaitHistogram::new();
    for _ in 0..count / 20 {
        let far = 1 + random.below(1_000);
        waits.record(Nanos(middle + random.below(middle) + 200_000 / far));
    }
    // A few thousand wake-ups per second.
    for (_, count) in &mut waits.buckets {
        *count = *count * 900 + random.below(200);
    }
    waits.count = waits.buckets.iter().map(|(_, count)| count).sum();
    waits.sum_ns *= 1_000;
    waits
}

/// Generates one of the longest waits of a window.
fn late(start: i64, random: &mut Random) -> LateWakeup {
    const NAMES: [&str; 6] = [
        "ksoftirqd/17",
        "kworker/u128:3-events_unbound",
        "irq/43-nvme0q12",
        "systemd-journal",
        "control-loop",
        "migration/5",
    ];
    let mut thread = || ThreadSeen {
        tid: 2 + random.below(60_000) as u32,
        comm: NAMES[random.below(6) as usize].to_owned(),
        kernel_priority: [120, 19, 49][random.below(3) as usize],
        policy: Some([0, 1][random.below(2) as usize]),
    };
    let (victim, culprit) = (thread(), thread());
    let latency = Nanos(150_000 + random.below(400_000));
    LateWakeup {
        woken_ns: Nanos(start.cast_unsigned() % 10_000_000 * 1_000_000_000 + random.below(1 << 38)),
        latency_ns: latency,
        cpu: random.below(64) as u32,
        victim,
        culprit: Some(culprit),
        culprit_ran_ns: Some(Nanos(random.below(latency.0))),
        waker: random.below(60_000) as u32,
    }
}

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): fast, with the same sequence in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// Returns a count with this mean: approximately normal if large, otherwise rounded up or down
    /// at random.
    fn count(&mut self, mean: f64) -> u64 {
        if mean < 4.0 {
            let whole = mean.floor();
            let share = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
            return whole as u64 + u64::from(share < mean - whole);
        }
        // Number of set bits out of 64: mean 32, standard deviation 4.
        let normal = (f64::from(self.next().count_ones()) - 32.0) / 4.0;
        (mean + normal * mean.sqrt()).max(0.0).round() as u64
    }
}
