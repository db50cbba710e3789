//! Late periods of simulated machines with a known rate.

use fastrand::Rng;
use punctual_model::Nanos;

/// Approximate number of late bursts per second on a machine, which is six per minute.
const RATE: f64 = 0.1;

/// Distribution of late periods over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Late {
    /// Independent of each other.
    Independent,
    /// Bursts of 20 late periods within 100 ms.
    SparseBursts,
    /// A burst of 20 late periods every ten seconds.
    PeriodicBursts,
    /// Each late period causes 0.7 further ones on average, 3 s later on average.
    SelfExciting,
    /// The machine alternates between a good and a bad mode. The parameters are the rate of the bad
    /// mode relative to the good mode, its mean length in s, and the mean time between bad modes in
    /// s.
    BadMode(f64, f64, f64),
    /// The rate wanders. The parameters are the spread of its logarithm, and its correlation time
    /// in s.
    Wander(f64, f64),
    /// The rate oscillates around its mean by 90%. The parameter is the period in s.
    Swing(f64),
    /// Pauses whose variance is not finite: a Pareto distribution with index 1.5.
    HeavyGaps,
    /// Late in each period.
    Always,
    /// Late for some time in each cycle, at a random phase. The parameters are both lengths in s.
    Cycle(f64, f64),
    /// The rate falls to a tenth while the machine warms up, within 3 to 10 min.
    WarmingUp,
    /// Throttling sets in after 8 to 25 min and lasts: the rate is ten times as high.
    Throttling,
    /// Late only in the hot afternoon: within 4 h of a day. The run begins at a random time of day.
    Afternoon,
    /// The logarithm of the rate is 1/f noise: the sum of wanderings over 10 s to 3 h.
    OneOverF,
}

impl Late {
    /// Returns the times of late periods in a run of this length, relative to its start.
    pub(crate) fn times(self, seconds: f64, random: &mut Rng) -> Vec<Nanos> {
        let mut times = match self {
            Self::Independent => steady(RATE, seconds, random),
            Self::SparseBursts => bursts(&steady(RATE, seconds, random), random),
            Self::PeriodicBursts => {
                let first = random.f64() / RATE;
                let number = (seconds * RATE) as usize + 1;
                let begins: Vec<f64> = (0..number).map(|n| first + n as f64 / RATE).collect();
                bursts(&begins, random)
            }
            Self::SelfExciting => cascades(seconds, random),
            Self::BadMode(worse, length, apart) => modes(worse, length, apart, seconds, random),
            Self::Wander(spread, memory) => wander(spread, memory, seconds, random),
            Self::Swing(length) => {
                let phase = random.f64();
                let all = steady(1.9 * RATE, seconds, random).into_iter();
                let rate =
                    |at: f64| 1.0 + 0.9 * (std::f64::consts::TAU * (at / length + phase)).sin();
                let kept = |at: &f64| random.f64() * 1.9 < rate(*at);
                all.filter(kept).collect()
            }
            Self::HeavyGaps => heavy(seconds, random),
            Self::Always => (0..(seconds * 100.0) as u64)
                .map(|n| n as f64 / 100.0)
                .collect(),
            Self::Cycle(late, cycle) => {
                let phase = cycle * random.f64();
                let all = (0..(seconds * 10.0) as u64).map(|n| n as f64 / 10.0);
                all.filter(|at| (at + phase) % cycle < late).collect()
            }
            Self::WarmingUp => {
                let warm = 180.0 + 420.0 * random.f64();
                thinned(10.0 * RATE, seconds, random, |at| {
                    if at < warm { 1.0 } else { 0.1 }
                })
            }
            Self::Throttling => {
                let begins = 480.0 + 1_020.0 * random.f64();
                thinned(10.0 * RATE, seconds, random, |at| {
                    if at < begins { 0.1 } else { 1.0 }
                })
            }
            Self::Afternoon => {
                let start = 86_400.0 * random.f64();
                let hot = |at: f64| (43_200.0..57_600.0).contains(&((start + at) % 86_400.0));
                thinned(RATE, seconds, random, |at| f64::from(u8::from(hot(at))))
            }
            Self::OneOverF => {
                let mut levels: Vec<(f64, f64)> = Vec::new();
                let mut memory = 10.0;
                while memory < 10_800.0 {
                    levels.push((memory, normal(random)));
                    memory *= 4.0;
                }
                let (mut at, mut times) = (0.0, Vec::new());
                while at < seconds {
                    let level: f64 = levels.iter().map(|(_, level)| 0.5 * level).sum();
                    let rate = RATE * (level - 0.125 * levels.len() as f64).exp();
                    times.extend(
                        steady(rate, 1.0, random)
                            .into_iter()
                            .map(|since| at + since),
                    );
                    for (memory, level) in &mut levels {
                        let keeps = (-1.0 / *memory).exp();
                        *level = keeps * *level + (1.0 - keeps * keeps).sqrt() * normal(random);
                    }
                    at += 1.0;
                }
                times
            }
        };
        times.retain(|at| (0.0..seconds).contains(at));
        times
            .into_iter()
            .map(|at| Nanos((at * 1e9) as u64))
            .collect()
    }
}

fn exponential(random: &mut Rng) -> f64 {
    -(1.0 - random.f64()).ln()
}

fn normal(random: &mut Rng) -> f64 {
    let radius = (2.0 * exponential(random)).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

/// Independent events.
fn steady(rate: f64, seconds: f64, random: &mut Rng) -> Vec<f64> {
    let mut times = Vec::new();
    let mut at = exponential(random) / rate;
    while at < seconds {
        times.push(at);
        at += exponential(random) / rate;
    }
    times
}

/// Independent events at a rate that changes with time: `share` of `most`.
fn thinned(most: f64, seconds: f64, random: &mut Rng, share: impl Fn(f64) -> f64) -> Vec<f64> {
    let mut times = steady(most, seconds, random);
    times.retain(|at| random.f64() < share(*at));
    times
}

fn bursts(begins: &[f64], random: &mut Rng) -> Vec<f64> {
    let burst = |begin: &f64| -> Vec<f64> { (0..20).map(|_| begin + 0.1 * random.f64()).collect() };
    begins.iter().flat_map(burst).collect()
}

fn cascades(seconds: f64, random: &mut Rng) -> Vec<f64> {
    // A cascade may begin this long before the run, in s.
    let before = 200.0;
    let mut times = steady(0.3 * RATE, seconds + before, random);
    let mut next = 0;
    while let Some(parent) = times.get(next).copied() {
        next += 1;
        // A Poisson variate with mean 0.7, drawn by multiplying uniform variates.
        let mut product = random.f64();
        while product > (-0.7f64).exp() {
            times.push(parent + 3.0 * exponential(random));
            product *= random.f64();
        }
    }
    times.into_iter().map(|at| at - before).collect()
}

fn modes(worse: f64, length: f64, apart: f64, seconds: f64, random: &mut Rng) -> Vec<f64> {
    let share = length / apart;
    // This keeps the mean rate the same.
    let good = if worse.is_finite() {
        RATE / (1.0 - share + share * worse)
    } else {
        0.0
    };
    let bad = if worse.is_finite() {
        good * worse
    } else {
        RATE / share
    };
    let mut is_bad = random.f64() < share;
    let (mut at, mut times) = (0.0, Vec::new());
    while at < seconds {
        let mean = if is_bad { length } else { apart - length };
        let stays = mean * exponential(random);
        let rate = if is_bad { bad } else { good };
        if rate > 0.0 {
            times.extend(
                steady(rate, stays, random)
                    .into_iter()
                    .map(|since| at + since),
            );
        }
        at += stays;
        is_bad = !is_bad;
    }
    times
}

fn wander(spread: f64, memory: f64, seconds: f64, random: &mut Rng) -> Vec<f64> {
    let step = (memory / 50.0).min(1.0);
    let keeps = (-step / memory).exp();
    let (mut level, mut at) = (normal(random), 0.0);
    let mut times = Vec::new();
    while at < seconds {
        let rate = RATE * (spread * level - spread * spread / 2.0).exp();
        times.extend(
            steady(rate, step, random)
                .into_iter()
                .map(|since| at + since),
        );
        level = keeps * level + (1.0 - keeps * keeps).sqrt() * normal(random);
        at += step;
    }
    times
}

fn heavy(seconds: f64, random: &mut Rng) -> Vec<f64> {
    // Pauses are at least a third of their mean.
    let least = 1.0 / (3.0 * RATE);
    let mut pause = || least * (1.0 - random.f64()).powf(-1.0 / 1.5);
    // The run begins at a random moment within a long time.
    let mut at = -200.0 * seconds.max(600.0) / 60.0;
    let mut times = Vec::new();
    while at < seconds {
        times.push(at);
        at += pause();
    }
    times
}
