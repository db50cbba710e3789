//! The last frames that were sent, with their time stamps.

use punctual_model::Nanos;

use super::clocks::{Pair, RealOffset};

/// Number of frames that are remembered. It exceeds [`Launch::MOST_WAITING`](super::launch::Launch),
/// so that a frame is remembered until its reply is due.
const REMEMBERED: usize = 128;

/// When a frame passed a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamps {
    /// By the kernel, on the real-time clock.
    pub(super) kernel: Option<Nanos>,
    /// By the card, on its own clock. Cards do not stamp frames unless this was enabled.
    pub(super) card: Option<Nanos>,
}

/// The launch time of a frame: the queueing discipline must hold it until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaunchTime {
    /// On CLOCK_MONOTONIC.
    pub(super) monotonic: Nanos,
    /// On the clock of the queueing discipline.
    pub(super) disciplined: Nanos,
    /// The offset of CLOCK_REALTIME in this computation.
    pub(super) offset: RealOffset,
}

/// Why the queueing discipline dropped a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DropReason {
    /// The launch time had passed when the frame reached the queue, or a frame of another program
    /// with a later launch time had left it (`SO_EE_CODE_TXTIME_INVALID_PARAM`).
    OnTheWay,
    /// The launch time passed while the frame was in the queue (`SO_EE_CODE_TXTIME_MISSED`).
    InQueue,
}

/// A frame that was passed to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flight {
    pub(super) number: u64,
    /// Immediately before the send call. CLOCK_REALTIME was read first.
    pub(super) sent: Pair,
    pub(super) launch: Option<LaunchTime>,
    /// Whether its figures count, because the warm-up is over.
    pub(super) is_measured: bool,
}

/// A frame, and the reports of the kernel about it.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Its number among those of the socket, which the kernel counts too.
    key: u32,
    flight: Flight,
    stamps: Stamps,
    /// Whether the queueing discipline dropped it.
    is_dropped: bool,
}

/// The last frames of a socket.
#[derive(Debug)]
pub(super) struct Flights {
    entries: Vec<Option<Entry>>,
    /// The number that the kernel gives the next frame.
    next: u32,
    /// Frames that were dropped, until the thread asks for them.
    dropped: [(u64, DropReason); REMEMBERED],
    dropped_count: usize,
}

impl Flights {
    pub(super) fn new() -> Self {
        Self {
            entries: vec![None; REMEMBERED],
            next: 0,
            dropped: [(0, DropReason::OnTheWay); REMEMBERED],
            dropped_count: 0,
        }
    }

    /// Returns the number of the last frame.
    pub(super) const fn last(&self) -> u32 {
        self.next.wrapping_sub(1)
    }

    /// Notes a frame before it is sent, because the kernel can report on it at once.
    pub(super) fn begin(&mut self, flight: Flight) {
        self.entries[slot(self.next)] = Some(Entry {
            key: self.next,
            flight,
            stamps: Stamps::default(),
            is_dropped: false,
        });
        self.next = self.next.wrapping_add(1);
    }

    /// Forgets the last frame, because the kernel refused to send it.
    pub(super) fn cancel(&mut self) {
        self.next = self.last();
        self.entries[slot(self.next)] = None;
    }

    /// Returns the frame with this number, if it is still remembered, and its stamps.
    pub(super) fn find(&self, number: u64) -> Option<(&Flight, Stamps)> {
        let mut entries = self.entries.iter().flatten();
        let entry = entries.find(|entry| entry.flight.number == number)?;
        Some((&entry.flight, entry.stamps))
    }

    /// Adds the stamps of a frame. Returns the frame, if it is still remembered, and the stamps that
    /// are new. If a reflector returns the frame within this machine, it is stamped again.
    pub(super) fn stamped(&mut self, key: u32, stamps: Stamps) -> Option<(Flight, Stamps)> {
        let entry = self.entries[slot(key)].as_mut()?;
        if entry.key != key {
            return None;
        }
        let known = entry.stamps;
        let new = Stamps {
            kernel: stamps.kernel.filter(|_| known.kernel.is_none()),
            card: stamps.card.filter(|_| known.card.is_none()),
        };
        entry.stamps = Stamps {
            kernel: known.kernel.or(new.kernel),
            card: known.card.or(new.card),
        };
        Some((entry.flight, new))
    }

    /// Notes that the queueing discipline dropped the frame with this launch time on its clock.
    pub(super) fn dropped(&mut self, disciplined: Nanos, why: DropReason) {
        let mut entries = self.entries.iter_mut().flatten();
        let found = entries.find(|entry| {
            let launch = entry.flight.launch;
            launch.is_some_and(|launch| launch.disciplined == disciplined) && !entry.is_dropped
        });
        if let Some(entry) = found
            && let Some(place) = self.dropped.get_mut(self.dropped_count)
        {
            entry.is_dropped = true;
            *place = (entry.flight.number, why);
            self.dropped_count += 1;
        }
    }

    /// Returns whether the last frame was dropped.
    pub(super) fn last_is_dropped(&self) -> bool {
        self.entries[slot(self.last())].is_some_and(|entry| entry.is_dropped)
    }

    /// Returns the number of a frame that was dropped, once, and the reason.
    pub(super) fn next_dropped(&mut self) -> Option<(u64, DropReason)> {
        self.dropped_count = self.dropped_count.checked_sub(1)?;
        Some(self.dropped[self.dropped_count])
    }
}

fn slot(key: u32) -> usize {
    key as usize % REMEMBERED
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(number: u64) -> Flight {
        let pair = Pair {
            real: Nanos(0),
            monotonic: Nanos(0),
        };
        Flight {
            number,
            sent: pair,
            launch: Some(LaunchTime {
                monotonic: Nanos(number * 1_000),
                disciplined: Nanos(37_000 + number * 1_000),
                offset: RealOffset::measure(),
            }),
            is_measured: true,
        }
    }

    fn kernel(stamp: u64) -> Stamps {
        Stamps {
            kernel: Some(Nanos(stamp)),
            card: None,
        }
    }

    #[test]
    fn stamps_belong_to_their_frames() {
        let mut flights = Flights::new();
        for number in 10..13 {
            flights.begin(flight(number));
        }
        // The stamps arrive in another order, and in two parts.
        let card = Stamps {
            kernel: None,
            card: Some(Nanos(7)),
        };
        assert_eq!(flights.stamped(2, kernel(120)).unwrap().0.number, 12);
        assert_eq!(flights.stamped(0, kernel(100)).unwrap().0.number, 10);
        flights.stamped(0, card);
        // A reflector returns the frame.
        let again = flights.stamped(0, kernel(110)).unwrap().1;
        assert_eq!(again, Stamps::default());
        let both = Stamps {
            kernel: Some(Nanos(100)),
            card: Some(Nanos(7)),
        };
        assert_eq!(flights.find(10).unwrap().1, both);
        assert_eq!(flights.find(11).unwrap().1, Stamps::default());
        assert_eq!(flights.find(12).unwrap().1, kernel(120));
        assert_eq!(flights.stamped(3, kernel(1)), None);
        assert!(flights.find(13).is_none());
    }

    #[test]
    fn refused_frame_takes_no_number() {
        let mut flights = Flights::new();
        flights.begin(flight(1));
        flights.begin(flight(2));
        flights.cancel();
        flights.begin(flight(3));
        assert_eq!(flights.stamped(1, kernel(5)).unwrap().0.number, 3);
        assert!(flights.find(2).is_none());
    }

    #[test]
    fn dropped_frames_are_told_once() {
        let mut flights = Flights::new();
        for number in 0..4 {
            flights.begin(flight(number));
        }
        // No frame has this launch time.
        flights.dropped(Nanos(1), DropReason::InQueue);
        assert_eq!(flights.next_dropped(), None);
        flights.dropped(Nanos(38_000), DropReason::InQueue);
        flights.dropped(Nanos(40_000), DropReason::OnTheWay);
        flights.dropped(Nanos(38_000), DropReason::InQueue);
        assert!(flights.last_is_dropped());
        assert_eq!(flights.next_dropped(), Some((3, DropReason::OnTheWay)));
        assert_eq!(flights.next_dropped(), Some((1, DropReason::InQueue)));
        assert_eq!(flights.next_dropped(), None);
    }

    #[test]
    fn old_frames_are_forgotten() {
        let mut flights = Flights::new();
        for number in 0..1 + REMEMBERED as u64 {
            flights.begin(flight(number));
        }
        assert!(flights.find(0).is_none());
        assert_eq!(flights.stamped(0, kernel(5)), None);
        assert!(flights.find(1).is_some());
    }
}
