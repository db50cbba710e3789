//! Converts trace times to CLOCK_MONOTONIC and measures the error of this conversion.

use punctual_model::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// The conversion from the trace clock to CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockMap {
    /// Offset to add to a trace time, in ns.
    pub offset_ns: i64,
    /// Maximum error of a converted time.
    pub error: Nanos,
}

/// A mark written into the trace: its time on the trace clock, and the readings of CLOCK_MONOTONIC
/// before and after the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockMark {
    pub(crate) before: u64,
    pub(crate) after: u64,
    pub(crate) traced: u64,
}

/// Reads CLOCK_MONOTONIC.
pub(crate) fn monotonic() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = (now.tv_sec as u64).wrapping_mul(1_000_000_000);
    Nanos(seconds.wrapping_add(now.tv_nsec as u64))
}

impl ClockMap {
    /// Converts a trace time to CLOCK_MONOTONIC.
    #[inline]
    pub const fn monotonic(self, traced: u64) -> Nanos {
        Nanos(traced.wrapping_add_signed(self.offset_ns))
    }

    /// Computes the conversion from marks. Each mark is compatible with the offsets that convert
    /// its time to a time between its two readings. The result is the middle of the range that is
    /// compatible with all marks. If this range contains 0, the result is 0, because both clocks
    /// are then assumed to be the same. Returns `None` if there are no marks.
    pub(crate) fn measure(marks: &[ClockMark]) -> Option<Self> {
        let allowed = |mark: &ClockMark| {
            let offset = |read: u64| read.wrapping_sub(mark.traced) as i64;
            (offset(mark.before), offset(mark.after))
        };
        let lowest = marks.iter().map(|mark| allowed(mark).0).max()?;
        let highest = marks.iter().map(|mark| allowed(mark).1).min()?;
        // If the clocks drift, or if one of them was adjusted, the lower bound can exceed the upper
        // bound.
        let (low, high) = (lowest.min(highest), lowest.max(highest));
        let offset_ns = if low <= 0 && 0 <= high {
            0
        } else {
            low.midpoint(high)
        };
        let error = high.abs_diff(offset_ns).max(offset_ns.abs_diff(low));
        Some(Self {
            offset_ns,
            error: Nanos(error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn clock_mark(before: u64, traced: u64, after: u64) -> ClockMark {
        ClockMark {
            before,
            after,
            traced,
        }
    }

    #[test]
    fn the_same_clock_has_no_offset() {
        let map =
            ClockMap::measure(&[clock_mark(100, 130, 200), clock_mark(300, 390, 400)]).unwrap();
        assert_eq!((map.offset_ns, map.error), (0, Nanos(30)));
        assert_eq!(map.monotonic(77), Nanos(77));
    }

    #[test]
    fn another_clock_has_one() {
        // The trace clock is 1000 ns behind.
        let map =
            ClockMap::measure(&[clock_mark(1_100, 110, 1_120), clock_mark(1_300, 315, 1_320)])
                .unwrap();
        assert_eq!((map.offset_ns, map.error), (997, Nanos(8)));
        assert_eq!(ClockMap::measure(&[]), None);
    }

    #[test]
    fn diverging_clocks_have_larger_error() {
        let map = ClockMap::measure(&[clock_mark(100, 0, 110), clock_mark(200, 50, 210)]).unwrap();
        assert_eq!((map.offset_ns, map.error), (130, Nanos(20)));
    }

    proptest! {
        #[test]
        fn the_truth_is_within_the_error(
            offset in -1_000_000_000_000_i64..1_000_000_000_000,
            marks in proptest::collection::vec((0_u64..1 << 50, 0_u64..50_000, 0_u64..50_000), 1..40),
        ) {
            let marks: Vec<ClockMark> = marks
                .iter()
                .map(|(traced, before, after)| {
                    let traced = traced + (1 << 45);
                    let true_time = traced.wrapping_add_signed(offset);
                    clock_mark(true_time - before, traced, true_time + after)
                })
                .collect();
            let map = ClockMap::measure(&marks).unwrap();
            prop_assert!(map.offset_ns.abs_diff(offset) <= map.error.0);
        }

        #[test]
        fn no_marks_panic(marks in proptest::collection::vec(any::<(u64, u64, u64)>(), 0..9)) {
            let marks: Vec<ClockMark> = marks.iter().map(|(b, t, a)| clock_mark(*b, *t, *a)).collect();
            if let Some(map) = ClockMap::measure(&marks) {
                let _ = map.monotonic(u64::MAX);
            }
        }
    }
}
