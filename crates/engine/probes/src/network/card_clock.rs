//! The clock of a network card, compared with the system clock during the run, so that the card's
//! time stamps can be compared with launch times.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use punctual_host::TimestampAbilities;
use punctual_model::Nanos;
use punctual_rt::{JoinHandle, PtpClock, PtpReading};
use rtrb::{Consumer, Producer, RingBuffer};

/// Time from one comparison to the next. An unsynchronised clock drifts by a few microseconds within
/// this time, and the rate of the last comparisons predicts this drift.
const EVERY: Duration = Duration::from_millis(100);
/// Number of readings per comparison. The shortest one is used.
const READINGS: usize = 5;
/// Number of comparisons that can wait for the measuring thread.
const ROOM: usize = 64;

/// A comparison of the two clocks, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Comparison {
    /// Time of the card's clock.
    device: i64,
    /// The card's clock minus CLOCK_REALTIME.
    offset: i64,
    /// Half of the time that the reading took: the largest error of the offset.
    error: Nanos,
}

/// Compares the clocks, on a thread that does not measure.
#[derive(Debug)]
pub(super) struct Comparer {
    clock: PtpClock,
    to: Producer<Comparison>,
}

/// Converts the card's time stamps, on the measuring thread.
#[derive(Debug)]
pub(super) struct CardClock {
    from: Consumer<Comparison>,
    relation: Relation,
}

/// The last two comparisons.
#[derive(Clone, Copy, Debug, Default)]
struct Relation {
    before: Option<Comparison>,
    last: Option<Comparison>,
}

/// Opens the clock of the card that belongs to this interface, and compares it with the system clock.
/// Returns `None` if the card has none.
///
/// # Errors
/// Returns the reason why the clock cannot be read.
pub(super) fn open(interface: &str) -> Result<Option<(Comparer, CardClock)>, String> {
    // Virtual interfaces and old kernels do not answer.
    let abilities = TimestampAbilities::read(interface).unwrap_or_default();
    let Some(number) = abilities.clock.filter(|_| abilities.sent) else {
        return Ok(None);
    };
    let path = PathBuf::from(format!("/dev/ptp{number}"));
    let clock = PtpClock::open(&path).map_err(|error| error.to_string())?;
    let (to, from) = RingBuffer::new(ROOM);
    let card = CardClock {
        from,
        relation: Relation::default(),
    };
    let mut comparer = Comparer { clock, to };
    // The first time stamp can be converted after two comparisons.
    for wait in [EVERY, Duration::ZERO] {
        comparer.compare().map_err(|error| error.to_string())?;
        sleep(wait);
    }
    Ok(Some((comparer, card)))
}

impl Comparer {
    /// Compares the clocks until the thread has ended.
    ///
    /// # Errors
    /// Returns an error if the clock can no longer be read.
    pub(super) fn attend<T>(mut self, thread: &JoinHandle<T>) -> Result<(), punctual_rt::Error> {
        while !thread.is_finished() {
            sleep(EVERY);
            self.compare()?;
        }
        Ok(())
    }

    /// Compares the clocks once.
    fn compare(&mut self) -> Result<(), punctual_rt::Error> {
        let mut readings = [PtpReading::default(); PtpClock::MOST];
        let count = self.clock.read(READINGS, &mut readings)?;
        if let Some(comparison) = Comparison::best(&readings[..count]) {
            // If the thread uses none, it has no stamps to convert.
            let _ = self.to.push(comparison);
        }
        Ok(())
    }
}

impl Comparison {
    fn best(readings: &[PtpReading]) -> Option<Self> {
        let windows = readings.iter().filter_map(|one| Some((one.window()?, one)));
        let (window, best) = windows.min_by_key(|(window, _)| *window)?;
        Some(Self {
            device: best.device,
            offset: best.offset(),
            error: Nanos(window.div_ceil(2)),
        })
    }
}

impl CardClock {
    /// Returns the time on CLOCK_REALTIME at which the card's clock showed `stamp`, and the error of
    /// the comparison. `None` before the second comparison.
    pub(super) fn real(&mut self, stamp: Nanos) -> Option<(Nanos, Nanos)> {
        while let Ok(comparison) = self.from.pop() {
            self.relation.add(comparison);
        }
        self.relation.real(stamp)
    }
}

impl Relation {
    fn add(&mut self, comparison: Comparison) {
        self.before = self.last.replace(comparison);
    }

    fn real(&self, stamp: Nanos) -> Option<(Nanos, Nanos)> {
        let (before, last) = self.before.zip(self.last)?;
        let stamp = i64::try_from(stamp.0).ok()?;
        let between = i128::from(last.device) - i128::from(before.device);
        if between <= 0 {
            return None;
        }
        let drift = i128::from(last.offset) - i128::from(before.offset);
        let since = i128::from(stamp) - i128::from(last.device);
        let offset = i128::from(last.offset) + drift * since / between;
        let real = u64::try_from(i128::from(stamp) - offset).ok()?;
        Some((Nanos(real), last.error.max(before.error)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A clock that runs 50 millionths too fast and started at zero.
    fn card(real: i64) -> i64 {
        let since = real - 1_700_000_000_000_000_000;
        since + since / 20_000
    }

    fn comparison(real: i64) -> Comparison {
        let readings = [(900, 2_000), (40, 110), (-1, -5)].map(|(before, after)| PtpReading {
            before: real - before,
            device: card(real),
            after: real + after,
        });
        Comparison::best(&readings).unwrap()
    }

    #[test]
    fn stamps_are_converted_with_the_rate() {
        let start = 1_700_000_000_000_000_000;
        let mut relation = Relation::default();
        let second = |n: i64| start + n * 1_000_000_000;
        let stamp = |real: i64| Nanos(card(real) as u64);
        assert_eq!(relation.real(stamp(second(3))), None);
        relation.add(comparison(second(1)));
        assert_eq!(relation.real(stamp(second(3))), None);
        relation.add(comparison(second(2)));
        let (real, error) = relation.real(stamp(second(3))).unwrap();
        // The card was read 35 ns from the middle of the shortest reading.
        assert_eq!(error, Nanos(75));
        let wrong = real.0 as i64 - second(3);
        assert!(wrong.abs() <= 36, "{wrong} ns");
        // A clock that was set back is not extrapolated.
        relation.add(comparison(second(0)));
        assert_eq!(relation.real(stamp(second(3))), None);
    }

    #[test]
    fn loopback_has_no_clock() {
        assert!(matches!(open("lo"), Ok(None)));
    }

    proptest! {
        #[test]
        fn no_reading_panics(numbers: [[i64; 3]; 2], stamp: u64) {
            let mut relation = Relation::default();
            for [before, device, after] in numbers {
                if let Some(one) = Comparison::best(&[PtpReading { before, device, after }]) {
                    relation.add(one);
                }
            }
            let _ = relation.real(Nanos(stamp));
        }
    }
}
