//! Simulated machines with known properties.

use punctual_model::{
    Histogram, IntervalRow, Nanos, Recording, RecordingId, Series, SignedNanos, testing,
};

/// Distribution of the late periods of a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Wake-ups are independent.
    Independent,
    /// Late wake-ups in bursts of 0.3 s, one every 2 s.
    Bursts,
    /// The level wanders by this many ns, with a correlation time of half of the run.
    Drift(f64),
    /// The spread wanders by 30%, with a correlation time of a tenth of the run.
    Scale,
    /// One sample in 2,000 starts an episode of 50 µs and more, with two samples on average.
    Rare,
}

/// A machine that is measured at 1 kHz.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// The distribution of its late periods.
    pub(crate) kind: Kind,
    /// Length of the run.
    pub(crate) length_ms: u64,
    /// Length of a row of its time series.
    pub(crate) row_ms: u64,
    /// Multiplies the latency above the minimum.
    pub(crate) tail: f64,
    /// Multiplies the frequency of bursts and episodes.
    pub(crate) rate: f64,
}

/// A machine with the usual latency.
pub(crate) const fn machine(kind: Kind, length_ms: u64, row_ms: u64) -> Machine {
    Machine {
        kind,
        length_ms,
        row_ms,
        tail: 1.0,
        rate: 1.0,
    }
}

/// Returns a generator for the `nth` run of a series of runs. The seed is scrambled, because
/// generators with adjacent seeds produce similar first numbers.
pub(crate) fn random(seed: u64) -> fastrand::Rng {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    fastrand::Rng::with_seed(mixed ^ (mixed >> 31))
}

/// Returns a normal variate (Box and Muller, Annals of Mathematical Statistics 29, 1958).
pub(crate) fn normal(random: &mut fastrand::Rng) -> f64 {
    let (a, b) = (random.f64().max(1e-300), random.f64());
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// Returns an exponential variate with mean 1.
pub(crate) fn exponential(random: &mut fastrand::Rng) -> f64 {
    -(1.0 - random.f64()).ln()
}

/// An Ornstein-Uhlenbeck process: it wanders around its mean, with a correlation time of `memory`
/// steps.
pub(crate) struct Wander {
    keeps: f64,
    now: f64,
}

impl Wander {
    pub(crate) fn new(memory: f64, random: &mut fastrand::Rng) -> Self {
        Self {
            keeps: (-1.0 / memory).exp(),
            now: normal(random),
        }
    }

    pub(crate) fn step(&mut self, random: &mut fastrand::Rng) -> f64 {
        self.now = self.keeps * self.now + (1.0 - self.keeps * self.keeps).sqrt() * normal(random);
        self.now
    }
}

impl Machine {
    /// Returns the latency of each period, in ns.
    pub(crate) fn latencies(self, random: &mut fastrand::Rng) -> Vec<i64> {
        let periods = self.length_ms as f64;
        let mut slow = Wander::new(periods / 2.0, random);
        let mut scale = Wander::new(periods / 10.0, random);
        let mut late_for = 0u64;
        let mut latency = |_| {
            let mut noise = 700.0 * exponential(random);
            let mut level = 3_000.0;
            match self.kind {
                Kind::Independent => {}
                Kind::Drift(by) => level += by * slow.step(random),
                Kind::Scale => noise *= (0.3 * scale.step(random)).exp(),
                Kind::Bursts => {
                    if late_for == 0 && random.f64() < self.rate / 2_000.0 {
                        late_for = (300.0 * exponential(random)) as u64;
                    }
                    late_for = late_for.saturating_sub(1);
                    if late_for > 0 && random.f64() < 0.1 {
                        noise += 10_000.0 + 10_000.0 * exponential(random);
                    }
                }
                Kind::Rare => {
                    if late_for == 0 && random.f64() < self.rate / 2_000.0 {
                        late_for = 1 + u64::from(random.bool()) * 2;
                    }
                    if late_for > 0 {
                        late_for -= 1;
                        noise += 50_000.0 + 20_000.0 * exponential(random);
                    }
                }
            }
            (level + self.tail * noise) as i64
        };
        (0..self.length_ms).map(&mut latency).collect()
    }

    /// Returns a recording of one run.
    pub(crate) fn run(self, seed: u64) -> Recording {
        let latencies = self.latencies(&mut random(seed));
        let mut recording = testing::recording(1, 0);
        recording.id = RecordingId::new();
        let mut all = Histogram::new();
        let mut rows = Vec::new();
        for (nth, row) in (0..).zip(latencies.chunks(self.row_ms as usize)) {
            let mut one = Histogram::new();
            row.iter().for_each(|ns| one.record(SignedNanos(*ns)));
            rows.push(IntervalRow {
                thread: 0,
                start_ns: Nanos::from_millis(nth * self.row_ms),
                count: one.recorded(),
                early: one.early(),
                missed: 0,
                min_ns: one.min(),
                max_ns: one.max(),
                sum_ns: one.sum(),
                histogram: one.buckets(),
            });
            all.merge(&one);
        }
        let thread = &mut recording.threads[0];
        thread.accounting.recorded = all.recorded();
        thread.accounting.missed = 0;
        thread.histogram = all;
        recording.duration_ns = Nanos::from_millis(self.length_ms);
        recording.series = Series {
            interval_ns: Nanos::from_millis(self.row_ms),
            dropped: 0,
            rows,
        };
        recording.verdict = recording.judge();
        recording
    }
}
