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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{us, window};
    use punctual_model::cause::{Awaited, Device, Name, Role, Wait};
    use punctual_model::{HostSpan, Segment};

    /// Spans of the host: CPU, begin and end in µs, and whether the virtual CPU ran.
    fn beside(spans: &[(u32, u64, u64, bool)]) -> Window {
        let span = |(cpu, from, to, ran): &(u32, u64, u64, bool)| HostSpan {
            cpu: *cpu,
            from: us(*from),
            to: us(*to),
            away: (!ran).then(|| Cause::new(Source::Stolen)),
        };
        let mut window = window(0, 1_000, Vec::new());
        window.host = spans.iter().map(span).collect();
        window
    }

    /// The pieces, each with the first letter of its state.
    fn split(window: &Window, cpu: u32, from: u64, to: u64) -> Vec<(u64, u64, char)> {
        let pieces = pieces(window, cpu, (us(from), us(to))).into_iter();
        let pieces = pieces.map(|(from, to, state)| {
            let state = match state {
                OnHost::Ran => 'r',
                OnHost::Away(cause) => {
                    assert_eq!(cause.source, Source::Stolen);
                    'a'
                }
                OnHost::Unknown => 'u',
            };
            (from.0 / 1_000, to.0 / 1_000, state)
        });
        pieces.collect()
    }

    #[test]
    fn time_is_split_by_what_the_host_did() {
        let window = beside(&[
            (0, 100, 900, false),
            (1, 100, 200, true),
            (1, 200, 300, false),
            (1, 350, 400, true),
            (2, 100, 900, false),
        ]);
        let whole = [
            (50, 100, 'u'),
            (100, 200, 'r'),
            (200, 300, 'a'),
            (300, 350, 'u'),
            (350, 400, 'r'),
            (400, 500, 'u'),
        ];
        assert_eq!(split(&window, 1, 50, 500), whole);
        assert_eq!(
            split(&window, 1, 150, 250),
            [(150, 200, 'r'), (200, 250, 'a')]
        );
        assert_eq!(split(&window, 1, 200, 300), [(200, 300, 'a')]);
        assert_eq!(split(&window, 1, 300, 350), [(300, 350, 'u')]);
        assert_eq!(split(&window, 3, 100, 200), [(100, 200, 'u')]);
        assert_eq!(split(&window, 1, 200, 200), []);
    }

    /// Damaged data may have spans that overlap.
    #[test]
    fn overlapping_spans_count_once() {
        let window = beside(&[
            (1, 100, 300, true),
            (1, 200, 350, false),
            (1, 210, 220, true),
        ]);
        assert_eq!(
            split(&window, 1, 100, 400),
            [(100, 300, 'r'), (300, 350, 'a'), (350, 400, 'u')]
        );
    }

    #[test]
    fn cpu_ran_only_if_all_of_the_time_is_known() {
        let window = beside(&[
            (1, 100, 200, true),
            (1, 200, 250, true),
            (1, 300, 400, false),
        ]);
        let ran = |from, to| ran(&window, 1, (us(from), us(to)));
        assert!(ran(100, 250) && ran(120, 130));
        assert!(!ran(99, 250) && !ran(100, 251) && !ran(300, 400) && !ran(120, 120));
    }

    #[test]
    fn time_away_is_summed_over_the_segments() {
        let mut window = beside(&[
            (1, 100, 200, true),
            (1, 200, 300, false),
            (2, 100, 160, false),
        ]);
        let segment = |cpu, from, to| Segment {
            from: us(from),
            to: us(to),
            cpu,
            cause: Cause::new(Source::OwnWork),
            words: None,
        };
        assert_eq!(away_and_unknown(&window), (Nanos::ZERO, Nanos::ZERO));
        window.segments = vec![
            segment(1, 150, 230),
            segment(2, 150, 170),
            segment(1, 290, 350),
        ];
        assert_eq!(away_and_unknown(&window), (us(30 + 10 + 10), us(10 + 50)));
    }

    /// A virtual CPU that does not run prolongs what its guest seems to run, but no sleep of the guest.
    #[test]
    fn only_code_that_runs_is_prolonged() {
        let task = crate::testing::task("other", 7, 50);
        let thread = |activity| {
            let rank = Rank {
                activity,
                ..Rank::from(&task)
            };
            Cause::thread(Role::Blocking, &task).with(Detail::Rank(rank))
        };
        let awaited = |leaf| {
            let (wait, chain) = (Wait::Thread, Vec::new());
            Cause::new(Source::Awaited(Awaited { wait, chain, leaf }))
        };
        let fault = || Cause::new(Source::PageFault);
        let preempted = Leaf::Preempted {
            by: Name::from(&task),
            prio: task.prio,
        };
        let runs_for = [
            Cause::new(Source::OwnWork),
            Cause::new(Source::Softirq(3)),
            Cause::new(Source::Nmi),
            Cause::new(Source::IdleExit(1)),
            thread(None),
            thread(Some(Activity::UserSpace)),
            fault(),
            awaited(Leaf::Ran),
            awaited(preempted),
        ];
        for cause in runs_for {
            assert!(runs(&cause) && explains(&cause), "{cause:?}");
        }
        let sleeps = [
            thread(Some(Activity::Asleep)),
            fault().with(Detail::WaitingForPage),
            fault().with(Detail::PageFrom(Device::Disk(8))),
            awaited(Leaf::Slept),
            awaited(Leaf::Stopped),
            awaited(Leaf::Asleep),
            Cause::new(Source::OwnSleep),
            Cause::new(Source::TimerSlack),
            Cause::new(Source::Stopped(None)),
            Cause::unexplained(Unknown::NoWaker),
            Cause::unexplained(Unknown::ThreadEnded),
        ];
        for cause in sleeps {
            assert!(!runs(&cause) && !explains(&cause), "{cause:?}");
        }
        // Nothing of the guest ran at these times, so the host may be the reason.
        let host_may_explain = [
            Cause::new(Source::TimerLate),
            Cause::new(Source::Gap),
            Cause::new(Source::Stolen),
            Cause::new(Source::NotRun(1)),
            Cause::unexplained(Unknown::NoSwitchIn(1)),
            Cause::unexplained(Unknown::NoEventOfCpu(1)),
            Cause::unexplained(Unknown::WakeupPending),
            Cause::unexplained(Unknown::EventsLost),
        ];
        for cause in host_may_explain {
            assert!(!runs(&cause) && explains(&cause), "{cause:?}");
        }
    }
}
