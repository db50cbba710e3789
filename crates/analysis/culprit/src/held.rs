//! Reasons why the scheduler does not run the victim, or leaves its CPU idle.
//!
//! An idle CPU writes no events, so its silence is no gap in the trace.

use punctual_model::cause::{Cause, Detail, Hold, Limit, Rival, Source, Unknown};
use punctual_model::{KernelPriority, RealTimeLimit, Task, Text, Window};

use crate::events::HRTIMER_EXPIRE;

/// Returns the cause while the CPU is idle although the victim is runnable. `queued`: the victim is
/// known to be in the run queue of this CPU.
pub(crate) fn not_run(
    window: &Window,
    cpu: u32,
    own: Option<KernelPriority>,
    queued: bool,
) -> Cause {
    let limited = |limit| Cause::new(limit).with(Detail::Meanwhile(None));
    let real_time = own.is_some_and(KernelPriority::is_real_time);
    match own {
        Some(own) if own.0 < 0 && queued => {
            return limited(Source::Throttled(Limit::DeadlineBudget));
        }
        Some(_) if real_time && queued => match by_real_time_limit(window, false) {
            Source::Unexplained(Unknown::PassedOver) => {}
            source => return limited(source),
        },
        _ => {}
    }
    let mut possible = Vec::new();
    let mut decided_by = None;
    if real_time && may_throttle(window.evidence.real_time_limit) {
        possible.push(Hold::RealTimeThrottling);
    }
    if !real_time && may_have_quota(window) {
        possible.push(Hold::Quota);
        decided_by = undecided_by(window);
    }
    if !queued {
        possible.extend([Hold::PendingWakeup, Hold::Theft]);
    }
    possible.push(Hold::Scheduler);
    // It schedules ordinary threads only.
    let sched_ext = window.evidence.sched_ext.clone().filter(|_| !real_time);
    Cause::new(Source::NotRun(cpu)).with(Detail::HeldBy {
        possible,
        decided_by,
        sched_ext,
    })
}

/// Returns whether real-time throttling may exist. Only the deadline server never throttles.
const fn may_throttle(limit: Option<RealTimeLimit>) -> bool {
    !matches!(limit, Some(RealTimeLimit::FairServer | RealTimeLimit::None))
}

/// Returns whether a CPU quota may have throttled the victim. The evidence may rule this out.
fn may_have_quota(window: &Window) -> bool {
    !window.evidence.quotas_known || !window.evidence.throttles.is_empty()
}

/// Returns the event that shows the refill of a quota (`sched_cfs_period_timer`), if neither this
/// event nor a counter was recorded. Without it, no one can tell a quota from other causes.
pub(crate) fn undecided_by(window: &Window) -> Option<Text> {
    let evidence = &window.evidence;
    let open = !evidence.quotas_known && evidence.throttles.is_empty();
    (open && !window.has(HRTIMER_EXPIRE)).then(|| HRTIMER_EXPIRE.into())
}

/// Returns the cause if a thread of lower rank got the CPU while the victim was runnable.
pub(crate) fn passed_over(window: &Window, own: KernelPriority, task: &Task) -> Cause {
    let source = match own {
        own if own.0 < 0 => Source::Throttled(Limit::DeadlineBudget),
        _ => by_real_time_limit(window, !task.prio.is_real_time()),
    };
    let ran = Rival {
        task: *task,
        activity: None,
    };
    Cause::new(source).with(Detail::Meanwhile(Some(ran)))
}

/// Returns why a real-time thread was passed over; `ordinary`: an ordinary thread ran instead. A
/// kernel with the deadline server throttles only by control group.
fn by_real_time_limit(window: &Window, ordinary: bool) -> Source {
    use RealTimeLimit::{FairServer, FairServerOrThrottling, Throttling};
    match window.evidence.real_time_limit {
        Some(Throttling) => Source::Throttled(Limit::RealTime),
        Some(FairServer) if ordinary => Source::Throttled(Limit::FairServer),
        Some(FairServerOrThrottling) if !ordinary => Source::Throttled(Limit::RealTime),
        _ => Source::Unexplained(Unknown::PassedOver),
    }
}

#[cfg(test)]
#[path = "held_tests.rs"]
mod tests;
