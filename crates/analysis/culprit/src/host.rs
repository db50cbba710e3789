//! Time of a virtual CPU outside guest mode, according to a trace of its host.
//!
//! Events of the guest do not show this time: the code that was current before and after it seems
//! to have run for longer.

use punctual_model::cause::{Activity, Cause, Detail, Leaf, Rank, Source, Unknown};
use punctual_model::{Nanos, Window};

/// State of a virtual CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OnHost<'a> {
    /// It ran the guest's code.
    Ran,
    /// It did not run, for this reason.
    Away(&'a Cause),
    /// The host's trace does not show whether it ran.
    Unknown,
}

/// Splits a span of time on a CPU of the guest by the state of this CPU. The pieces have no gaps
/// between them, and none is empty.
pub(crate) fn pieces(
    window: &Window,
    cpu: u32,
    (from, to): (Nanos, Nanos),
) -> Vec<(Nanos, Nanos, OnHost<'_>)> {
    let mut pieces = Vec::new();
    let mut at = from;
    let mut put = |from: Nanos, to: Nanos, state| {
        if from < to {
            pieces.push((from, to, state));
        }
    };
    let spans = &window.host;
    let first = spans.partition_point(|span| (span.cpu, span.to) <= (cpu, from));
    let inside = spans.iter().skip(first);
    for span in inside.take_while(|span| span.cpu == cpu && span.from < to) {
        let (begin, end) = (span.from.max(at), span.to.min(to));
        put(at, begin, OnHost::Unknown);
        let state = span.away.as_ref().map_or(OnHost::Ran, OnHost::Away);
        put(begin, end.max(begin), state);
        at = end.max(begin);
    }
    put(at, to, OnHost::Unknown);
    pieces
}

/// Returns whether the virtual CPU ran during the whole span.
pub(crate) fn ran(window: &Window, cpu: u32, time: (Nanos, Nanos)) -> bool {
    let pieces = pieces(window, cpu, time);
    !pieces.is_empty()
        && pieces
            .iter()
            .all(|(.., state)| matches!(state, OnHost::Ran))
}

/// Returns how long the virtual CPUs of an explained reaction did not run, and for how long this is
/// unknown.
pub fn away_and_unknown(window: &Window) -> (Nanos, Nanos) {
    let (mut away, mut unknown) = (Nanos::ZERO, Nanos::ZERO);
    for segment in &window.segments {
        for (from, to, state) in pieces(window, segment.cpu, (segment.from, segment.to)) {
            match state {
                OnHost::Ran => {}
                OnHost::Away(_) => away += to - from,
                OnHost::Unknown => unknown += to - from,
            }
        }
    }
    (away, unknown)
}

/// Returns whether the time is charged to code that was running on the CPU.
pub(crate) fn runs(cause: &Cause) -> bool {
    match &cause.source {
        Source::IdleExit(_)
        | Source::IrqsOff(_)
        | Source::PreemptOff(_)
        | Source::Vector(_)
        | Source::Irq { .. }
        | Source::Softirq(_)
        | Source::Nmi
        | Source::OwnWork
        | Source::UserSpace
        | Source::FaultOrUserSpace
        | Source::SystemCall(_)
        | Source::Scheduling
        | Source::ReturnToUser => true,
        Source::Thread { .. } => !matches!(
            cause.detail,
            Some(Detail::Rank(Rank {
                activity: Some(Activity::Asleep),
                ..
            }))
        ),
        Source::PageFault => !matches!(
            cause.detail,
            Some(Detail::WaitingForPage | Detail::PageFrom(_))
        ),
        Source::Awaited(awaited) => matches!(awaited.leaf, Leaf::Ran | Leaf::Preempted { .. }),
        _ => false,
    }
}

/// Returns whether a virtual CPU that did not run explains the time that the guest's events
/// attribute to `cause`. It does not explain a sleep that the guest itself requested, or a limit
/// that the guest itself imposed.
pub(crate) fn explains(cause: &Cause) -> bool {
    match &cause.source {
        Source::TimerLate
        | Source::Gap
        | Source::Migration { .. }
        | Source::NotRun(_)
        | Source::Stolen
        | Source::Undecided { .. } => true,
        Source::Unexplained(unknown) => matches!(
            unknown,
            Unknown::NotRecorded { .. }
                | Unknown::NoEventOfCpu(_)
                | Unknown::NoSwitchIn(_)
                | Unknown::WakeupPending
                | Unknown::IdleInstead(_)
                | Unknown::PassedOver
                | Unknown::PriorityOf(_)
                | Unknown::EventsLost
                | Unknown::Gap { .. }
        ),
        _ => runs(cause),
    }
}
