//! How far the departures of frames are from their launch times.

use punctual_model::{Cell, Histogram, Nanos, Table};

use super::card_clock::CardClock;
use super::clocks::Pair;
use super::flights::{Flight, LaunchTime, Stamps};

/// The departures after the warm-up.
#[derive(Debug)]
pub(super) struct Departures {
    by_driver: Sides,
    by_card: Sides,
    /// From the send call to the launch time.
    spare: Sides,
    card: Option<CardClock>,
    /// The largest error of a comparison with the card's clock.
    card_error: Nanos,
    /// Number of stamps that were not used, because the clock was set in the meantime.
    pub(super) clock_was_set: u64,
    /// Number of stamps of the card whose time is unknown.
    pub(super) card_unknown: u64,
}

/// Times after and before a launch time.
#[derive(Debug)]
struct Sides {
    after: Histogram,
    before: Histogram,
}

impl Sides {
    fn new() -> Self {
        Self {
            after: Histogram::preallocated(),
            before: Histogram::preallocated(),
        }
    }

    fn add(&mut self, time: Nanos, launch: Nanos) {
        let error = time.signed_sub(launch);
        if error.0 >= 0 {
            self.after.record(error);
        } else {
            self.before.record(launch.signed_sub(time));
        }
    }

    fn count(&self) -> u64 {
        self.after.recorded() + self.before.recorded()
    }
}

impl Departures {
    pub(super) fn new(card: Option<CardClock>) -> Self {
        Self {
            by_driver: Sides::new(),
            by_card: Sides::new(),
            spare: Sides::new(),
            card,
            card_error: Nanos::ZERO,
            clock_was_set: 0,
            card_unknown: 0,
        }
    }

    /// Notes a frame that the kernel has accepted or dropped.
    pub(super) fn sent(&mut self, flight: &Flight) {
        if let Some(launch) = flight.launch
            && flight.is_measured
        {
            self.spare.add(flight.sent.monotonic, launch.monotonic);
        }
    }

    /// Notes the stamps of a frame. `read`: the clocks after the stamps were read.
    pub(super) fn stamped(&mut self, flight: &Flight, stamps: Stamps, read: Pair) {
        let Some(launch) = flight.launch.filter(|_| flight.is_measured) else {
            return;
        };
        if !launch.offset.held(flight.sent, read) {
            self.clock_was_set += 1;
            return;
        }
        let LaunchTime {
            monotonic, offset, ..
        } = launch;
        let launch = offset.real(monotonic);
        if let Some(stamp) = stamps.kernel {
            self.by_driver.add(stamp, launch);
        }
        if let Some(stamp) = stamps.card {
            match self.card.as_mut().and_then(|card| card.real(stamp)) {
                Some((real, error)) => {
                    self.by_card.add(real, launch);
                    self.card_error = self.card_error.max(error);
                }
                None => self.card_unknown += 1,
            }
        }
    }

    /// Returns the number of frames whose departure the driver stamped.
    pub(super) fn stamped_by_driver(&self) -> u64 {
        self.by_driver.count()
    }

    /// Returns the table. `queue` names the queueing discipline and its interface.
    pub(super) fn table(&self, queue: &str) -> Table {
        let title = format!("Departures after the warm-up, relative to the launch time ({queue})");
        let mut table = Table::new(
            "departures",
            &title,
            &[
                ("departure", "departure"),
                ("frames", "frames"),
                ("min_ns", "min"),
                ("median_ns", "median"),
                ("p99_ns", "p99"),
                ("max_ns", "max"),
            ],
        );
        let [driver, card, spare] = [&self.by_driver, &self.by_card, &self.spare];
        let rows = [
            ("driver: after launch", &driver.after, true),
            ("driver: before launch", &driver.before, false),
            ("card: after launch", &card.after, false),
            ("card: before launch", &card.before, false),
            ("send call: before launch", &spare.before, true),
            ("send call: after launch", &spare.after, false),
        ];
        for (name, histogram, always) in rows {
            if always || histogram.recorded() > 0 {
                table.push([
                    Cell::from(name),
                    histogram.recorded().into(),
                    histogram.min().into(),
                    histogram.quantile(0.5).into(),
                    histogram.supported_quantile(0.99).into(),
                    histogram.max().into(),
                ]);
            }
        }
        if card.count() > 0 {
            let name = Cell::from("card clock: largest error");
            let (count, error) = (card.count().into(), self.card_error.into());
            let none = Cell::Unknown;
            table.push([name, count, none.clone(), none.clone(), none, error]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::clocks::RealOffset;

    const SECOND: Nanos = Nanos::from_secs(1_000);

    /// A frame that was sent 300 ns before its launch time.
    fn flight(offset: RealOffset, is_measured: bool) -> Flight {
        Flight {
            number: 1,
            sent: pair(offset, SECOND),
            launch: Some(LaunchTime {
                monotonic: SECOND + Nanos(300),
                disciplined: SECOND + Nanos(300),
                offset,
            }),
            is_measured,
        }
    }

    fn pair(offset: RealOffset, monotonic: Nanos) -> Pair {
        Pair {
            real: offset.real(monotonic),
            monotonic,
        }
    }

    fn kernel(stamp: Nanos) -> Stamps {
        Stamps {
            kernel: Some(stamp),
            card: None,
        }
    }

    #[test]
    fn departures_are_relative_to_the_launch() {
        let offset = RealOffset::measure();
        let at = |after: u64| offset.real(SECOND + Nanos(after));
        let read = pair(offset, SECOND + Nanos(9_000));
        let mut departures = Departures::new(None);
        for after in [340, 310, 250] {
            let flight = flight(offset, true);
            departures.sent(&flight);
            departures.stamped(&flight, kernel(at(after)), read);
        }
        departures.stamped(&flight(offset, false), kernel(at(400)), read);
        // Nothing relates the card's clock to the launch time.
        let card = Stamps {
            kernel: None,
            card: Some(Nanos(5)),
        };
        departures.stamped(&flight(offset, true), card, read);
        // The clock was set back in the meantime.
        let set = Pair {
            real: Nanos(read.real.0 - 1_000_000),
            ..read
        };
        departures.stamped(&flight(offset, true), kernel(at(300)), set);
        assert_eq!((departures.clock_was_set, departures.card_unknown), (1, 1));
        assert_eq!(departures.stamped_by_driver(), 3);
        let table = departures.table("etf delta 200 µs on eth0");
        let title = "Departures after the warm-up, relative to the launch time (etf delta 200 µs on \
                     eth0)";
        assert_eq!(table.title, title);
        let count = Cell::Count;
        let rows: Vec<_> = table.rows.iter().map(|row| row[1..].to_vec()).collect();
        let none = Cell::Unknown;
        assert_eq!(
            rows[0],
            [count(2), count(10), count(10), none.clone(), count(40)]
        );
        assert_eq!(
            rows[1],
            [count(1), count(50), count(50), none.clone(), count(50)]
        );
        assert_eq!(
            rows[2],
            [count(3), count(300), count(300), none, count(300)]
        );
        assert_eq!(rows.len(), 3);
    }
}
