//! Tells when a softirq was requested.

use punctual_model::Nanos;

/// Whether a softirq of one CPU is pending, as far as events show.
///
/// A softirq that is raised again while it is pending runs once. The exception is a CPU that is
/// already running softirqs: it has copied the set of pending softirqs (`__do_softirq`), and a
/// softirq of this set that is raised again before its turn runs twice. No event shows when the
/// set is copied. A delay that could be too short because of this is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Raised {
    /// It may have been raised without an event that was seen. This is certain to have ended after
    /// this number of runs.
    Unknown(u8),
    /// It is not pending.
    No,
    /// It is pending.
    Pending {
        /// Time at which it was raised first.
        since: Nanos,
        /// Number of the softirq run during which it was raised, if any.
        within: Option<u64>,
        /// Whether it may have been raised again for a second run.
        again: bool,
    },
}

impl Raised {
    /// State after lost events. The first run may have begun before the loss ended, so that another
    /// run can still belong to a request that was not seen.
    pub(super) const UNSEEN: Self = Self::Unknown(2);

    /// Takes a request. `serving` is whether the CPU is running softirqs, and `within` is the
    /// number of the run in progress.
    pub(super) fn raise(&mut self, time: Nanos, serving: bool, within: Option<u64>) {
        match self {
            Self::No => {
                *self = Self::Pending {
                    since: time,
                    within,
                    again: false,
                }
            }
            // No set is copied during a single run.
            Self::Pending {
                within: before,
                again,
                ..
            } => *again |= serving && (within.is_none() || *before != within),
            Self::Unknown(runs) if serving => *runs = 2,
            Self::Unknown(_) => {}
        }
    }

    /// Takes the start of a run. Returns its delay, if known.
    pub(super) fn run(&mut self, time: Nanos) -> Option<Nanos> {
        let before = *self;
        *self = match before {
            Self::Pending { again: true, .. } => Self::Unknown(1),
            Self::Unknown(runs @ 2..) => Self::Unknown(runs - 1),
            _ => Self::No,
        };
        match before {
            Self::Pending { since, .. } => time.0.checked_sub(since.0).map(Nanos),
            _ => None,
        }
    }
}
