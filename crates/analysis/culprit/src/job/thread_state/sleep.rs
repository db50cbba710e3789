//! The sleep of a thread, as a table of states.

use punctual_model::Nanos;

/// Whether a thread sleeps.
///
/// | state | sleeps | yields | is woken | runs | enters a call | returns |
/// |---|---|---|---|---|---|---|
/// | Awake | Asleep | Yielded | Awake | Awake | Awake | Awake |
/// | Asleep | Asleep | Yielded | Awake, waited | WokenUnseen | Asleep | Awake, unseen |
/// | Yielded | Asleep | Yielded | Yielded | Awake, waited | Yielded | Awake, unseen |
/// | WokenUnseen | Asleep | Yielded | WokenUnseen | WokenUnseen | Awake | Awake, unseen |
///
/// *waited*: an event shows the end of a wait. *unseen*: the thread has waited in the call, but no
/// event shows when the wait ended. Scheduler events can be missing, because some kernels lose them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sleep {
    /// The thread is not known to have waited in the current call.
    #[default]
    Awake,
    /// The thread went to sleep at this time, and no event shows its wake-up.
    Asleep(Nanos),
    /// The thread gave up the rest of its SCHED_DEADLINE runtime at this time, until its next
    /// period.
    Yielded(Nanos),
    /// The thread runs after a sleep, but no event shows its wake-up.
    WokenUnseen,
}

impl Sleep {
    /// Handles a wake-up. Returns the beginning of the wait that it ended.
    pub(super) fn is_woken(&mut self) -> Option<Nanos> {
        let Self::Asleep(since) = *self else {
            return None;
        };
        *self = Self::Awake;
        Some(since)
    }

    /// Handles a switch to the thread. No event shows when the next period of SCHED_DEADLINE began,
    /// so the wait for it ends here. Returns its beginning.
    pub(super) fn runs(&mut self) -> Option<Nanos> {
        match *self {
            Self::Yielded(since) => {
                *self = Self::Awake;
                Some(since)
            }
            Self::Asleep(_) => {
                *self = Self::WokenUnseen;
                None
            }
            Self::Awake | Self::WokenUnseen => None,
        }
    }

    /// Handles the entry of a system call or a change of the stage, after which an earlier sleep
    /// does not matter.
    pub(super) fn forget_unseen(&mut self) {
        if *self == Self::WokenUnseen {
            *self = Self::Awake;
        }
    }

    /// Handles the return from a system call. Returns whether the thread waited in it without an
    /// event that shows the end.
    pub(super) fn returns(&mut self) -> bool {
        std::mem::take(self) != Self::Awake
    }
}
