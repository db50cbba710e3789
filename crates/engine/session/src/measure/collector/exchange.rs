//! The latest results of a worker, for the live view.

use punctual_model::SignedNanos;

/// The last sample, and the timeouts while waiting for the current exchange.
#[derive(Default)]
pub(super) struct LastExchange {
    pub(super) latency: Option<SignedNanos>,
    pub(super) timeouts: u64,
    /// Whether the exchange has arrived, so that the next timeout belongs to another one.
    is_over: bool,
}

impl LastExchange {
    pub(super) fn timed_out(&mut self) {
        if std::mem::take(&mut self.is_over) {
            self.timeouts = 0;
        }
        self.timeouts += 1;
    }

    pub(super) const fn arrived(&mut self, latency: SignedNanos) {
        self.latency = Some(latency);
        self.is_over = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_those_of_one_exchange() {
        let mut last = LastExchange::default();
        last.timed_out();
        last.timed_out();
        last.arrived(SignedNanos(5));
        assert_eq!((last.timeouts, last.latency), (2, Some(SignedNanos(5))));
        last.timed_out();
        assert_eq!((last.timeouts, last.latency), (1, Some(SignedNanos(5))));
    }
}
