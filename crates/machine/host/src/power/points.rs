//! Temperature and frequency during a run, in at most [`MOST`] readings.

use std::collections::BTreeMap;

use punctual_model::{Nanos, PowerPoint};

/// Maximum number of readings. If there are more, each second one is removed, and the time between
/// two readings doubles.
const MOST: usize = 64;

/// Shortest time between two readings. Reading the frequency of a CPU interrupts it on kernels before
/// 5.18.
const SHORTEST: Nanos = Nanos::from_secs(1);

/// The readings of a run.
#[derive(Debug)]
pub(super) struct Points {
    list: Vec<PowerPoint>,
    interval: Nanos,
    /// Time of the next reading; `None` if nothing can be read.
    next: Option<Nanos>,
}

impl Default for Points {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            interval: SHORTEST,
            next: Some(Nanos::ZERO),
        }
    }
}

impl Points {
    pub(super) fn is_due(&self, elapsed: Nanos) -> bool {
        self.next.is_some_and(|next| elapsed >= next)
    }

    /// Adds a reading: the frequency of each CPU, and the temperature of each sensor.
    pub(super) fn add(
        &mut self,
        elapsed: Nanos,
        khz: &BTreeMap<u32, u64>,
        milli_celsius: &BTreeMap<String, i64>,
    ) {
        let mean = khz.values().sum::<u64>().checked_div(khz.len() as u64);
        let hottest = milli_celsius.values().max().copied();
        if mean.is_none() && hottest.is_none() {
            self.next = None;
            return;
        }
        if self.list.len() == MOST {
            let mut place = 0;
            self.list.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.interval = Nanos(self.interval.0.saturating_mul(2));
        }
        self.list.push(PowerPoint {
            at_ns: elapsed,
            mean_khz: mean,
            max_milli_celsius: hottest,
        });
        self.next = Some(elapsed + self.interval);
    }

    pub(super) fn take(&mut self) -> Vec<PowerPoint> {
        std::mem::take(&mut self.list)
    }
}
