//! Simulated counts of late periods, one for each run.

use fastrand::Rng;

use super::wander::normal;

/// Distribution of the counts of runs with the same rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Poisson,
    /// Negative binomial: the rate of each run has a gamma distribution with this shape.
    Mixed(f64),
}

/// Returns a random count with this mean.
pub(crate) fn count(kind: Kind, mean: f64, random: &mut Rng) -> u64 {
    match kind {
        Kind::Poisson => poisson(mean, random),
        Kind::Mixed(shape) => poisson(mean * gamma(shape, random) / shape, random),
    }
}

fn poisson(mean: f64, random: &mut Rng) -> u64 {
    if mean > 200.0 {
        return (mean + mean.sqrt() * normal(random)).round().max(0.0) as u64;
    }
    let (limit, mut product, mut count) = ((-mean).exp(), random.f64(), 0);
    while product > limit {
        product *= random.f64();
        count += 1;
    }
    count
}

/// Returns a gamma variate (Marsaglia and Tsang, ACM Transactions on Mathematical Software 26,
/// 2000).
fn gamma(shape: f64, random: &mut Rng) -> f64 {
    if shape < 1.0 {
        let below = (1.0 - random.f64()).powf(1.0 / shape);
        return gamma(shape + 1.0, random) * below;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(random);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && (1.0 - random.f64()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}
