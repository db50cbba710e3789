//! A simulated machine with known properties.

use punctual_model::{
    Histogram, IntervalRow, Nanos, Recording, RecordingId, Series, SignedNanos, testing,
};

/// A machine whose latency wanders: the level of each second is correlated with that of the
/// previous second, and each wake-up adds independent noise.
#[derive(Clone, Copy)]
pub(crate) struct Machine {
    pub(crate) seconds: u64,
    pub(crate) each: u64,
    /// Autocorrelation of the level from one second to the next, 0 to 1.
    pub(crate) memory: f64,
    /// Spread of the level, in ns.
    pub(crate) spread: f64,
    /// Constant that is added to each latency, in ns.
    pub(crate) shift: f64,
    /// Factor for the noise above the minimum latency.
    pub(crate) scale: f64,
    /// Number of missed periods per thousand, in every other second.
    pub(crate) missed: u64,
    /// Parameters of bursts: the probability that one begins in a second, the probability that it
    /// ends, and the share of its samples that are late by at least 10 µs.
    pub(crate) bursts: (f64, f64, f64),
    /// Spread of a level that changes very slowly, in ns: 95% of it remains in the next second.
    pub(crate) slow: f64,
}

pub(crate) const USUAL: Machine = Machine {
    seconds: 60,
    each: 120,
    memory: 0.5,
    spread: 250.0,
    shift: 0.0,
    scale: 1.0,
    missed: 0,
    bursts: (0.0, 1.0, 0.0),
    slow: 0.0,
};

pub(crate) fn normal(random: &mut fastrand::Rng) -> f64 {
    let (a, b) = (random.f64().max(1e-300), random.f64());
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

impl Machine {
    pub(crate) fn run(self, seed: u64) -> Recording {
        // Scrambles the seed, because generators with adjacent seeds produce similar first numbers.
        let stirred = (seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(29);
        let mut random =
            fastrand::Rng::with_seed(stirred.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (stirred >> 31));
        let mut recording = testing::recording(1, 0);
        recording.id = RecordingId::new();
        let mut all = Histogram::new();
        let mut rows = Vec::new();
        let mut level = normal(&mut random);
        let (begins, ends, late) = self.bursts;
        let mut in_burst = random.f64() < begins / (begins + ends);
        let mut slow = normal(&mut random);
        let mut missed_in_all = 0;
        for second in 0..self.seconds {
            let fresh = (1.0 - self.memory * self.memory).sqrt();
            level = self.memory * level + fresh * normal(&mut random);
            slow = 0.95 * slow + (1.0f64 - 0.95 * 0.95).sqrt() * normal(&mut random);
            let turned = random.f64();
            in_burst = if in_burst {
                turned >= ends
            } else {
                turned < begins
            };
            let shift = self.shift + self.slow * slow;
            let mut one = Histogram::new();
            for _ in 0..self.each {
                let mut noise = -700.0 * (1.0 - random.f64()).ln();
                if in_burst && random.f64() < late {
                    noise += 10_000.0 - 10_000.0 * (1.0 - random.f64()).ln();
                }
                let latency = 3_000.0 + self.spread * level + self.scale * noise + shift;
                one.record(SignedNanos(latency as i64));
            }
            let missed = if second % 2 == 0 { self.missed } else { 0 };
            missed_in_all += missed;
            rows.push(IntervalRow {
                thread: 0,
                start_ns: Nanos::from_secs(second),
                count: one.recorded(),
                early: one.early(),
                missed,
                min_ns: one.min(),
                max_ns: one.max(),
                sum_ns: one.sum(),
                histogram: one.buckets(),
            });
            all.merge(&one);
        }
        let thread = &mut recording.threads[0];
        thread.accounting.recorded = all.recorded();
        thread.accounting.missed = missed_in_all;
        thread.histogram = all;
        recording.series = Series {
            interval_ns: Nanos::from_secs(1),
            dropped: 0,
            rows,
        };
        recording.verdict = recording.judge();
        recording
    }
}
