//! Levels that vary randomly from one run to the next.

use fastrand::Rng;

/// A first-order autoregression with variance 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wander {
    phi: f64,
    level: f64,
}

impl Wander {
    pub(crate) fn new(phi: f64, random: &mut Rng) -> Self {
        let level = normal(random);
        Self { phi, level }
    }

    pub(crate) fn next(&mut self, random: &mut Rng) -> f64 {
        let now = self.level;
        self.level = self.phi * now + (1.0 - self.phi * self.phi).sqrt() * normal(random);
        now
    }
}

/// Returns a normal variate (Box and Muller, Annals of Mathematical Statistics 29, 1958).
pub(crate) fn normal(random: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}
