//! Single samples of a worker, for the store and for a watcher.

use punctual_model::{Nanos, Sample, SignedNanos};

/// Keeps samples until they are taken, if they were requested.
pub(super) struct Samples {
    /// Stored samples are rounded down to this resolution; `None` if samples are not stored.
    resolution: Option<Nanos>,
    stored: Vec<Sample>,
    /// Exact samples; `None` if no watcher requested them.
    watched: Option<Vec<Sample>>,
}

impl Samples {
    pub(super) const fn new(resolution: Option<Nanos>) -> Self {
        Self {
            resolution,
            stored: Vec::new(),
            watched: None,
        }
    }

    /// Keeps samples for [`take_watched`](Self::take_watched) from now on.
    pub(super) fn watch(&mut self) {
        self.watched = Some(Vec::new());
    }

    pub(super) fn add(&mut self, expected: Nanos, latency: SignedNanos) {
        if let Some(watched) = &mut self.watched {
            watched.push(Sample { expected, latency });
        }
        if let Some(resolution) = self.resolution {
            let latency = latency.rounded_down(resolution);
            self.stored.push(Sample { expected, latency });
        }
    }

    /// Returns the exact samples since the last call; none unless they are watched.
    pub(super) fn take_watched(&mut self) -> Vec<Sample> {
        self.watched
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Returns the rounded samples since the last call.
    pub(super) fn take_stored(&mut self) -> Vec<Sample> {
        std::mem::take(&mut self.stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(samples: &[Sample]) -> Vec<i64> {
        samples.iter().map(|sample| sample.latency.0).collect()
    }

    #[test]
    fn stored_samples_are_rounded_watched_are_exact() {
        let mut samples = Samples::new(Some(Nanos(100)));
        samples.add(Nanos(1), SignedNanos(250));
        samples.watch();
        samples.add(Nanos(2), SignedNanos(399));
        assert_eq!(latencies(&samples.take_watched()), [399]);
        assert_eq!(latencies(&samples.take_stored()), [200, 300]);
        assert!(samples.take_watched().is_empty() && samples.take_stored().is_empty());
    }

    #[test]
    fn unrequested_samples_are_dropped() {
        let mut samples = Samples::new(None);
        samples.add(Nanos(1), SignedNanos(250));
        assert!(samples.take_watched().is_empty() && samples.take_stored().is_empty());
    }
}
