//! Kernel stacks of late timers and of threads that were switched out late, in addition to the
//! events for explanations.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use punctual_host::Host;
use punctual_model::{EventKind, Nanos, TraceEvent};
use punctual_trace::LateStacks;

use crate::machine::TimerlatStacks;

/// A timer that is less late than this does not explain an outlier.
const LEAST: Nanos = Nanos::from_micros(20);

/// Maximum number of late timers that are kept with an outlier. The latest ones are kept.
const TIMERS: usize = 4;

/// Maximum time from the switch to a thread until its stack is written.
const AFTER_SWITCH: Nanos = Nanos::from_micros(100);

/// Maximum time from the moment when the late thread runs until timerlat's stack is written.
const AFTER_THREAD: Nanos = Nanos::from_micros(500);

/// Returns the timerlat stack for the outlier in an interval, which is the stack nearest to the end
/// of the interval.
fn nearest_of_timerlat(
    all: &[TraceEvent],
    cpu: u32,
    (from, to): (Nanos, Nanos),
) -> Option<TraceEvent> {
    let fits = |event: &&TraceEvent| {
        matches!(event.kind, EventKind::TimerlatStack { .. })
            && event.cpu == cpu
            && (from..=to + AFTER_THREAD).contains(&event.time)
    };
    let stacks = all.iter().filter(fits);
    stacks
        .min_by_key(|event| event.time.0.abs_diff(to.0))
        .cloned()
}

/// Records the stacks of late timers and of watched threads.
#[derive(Default)]
pub(super) struct StackWatch {
    /// `None` if stacks are not recorded.
    late: Option<LateStacks>,
    /// Whether the recording is off, no matter which threads are watched.
    is_shut: bool,
    /// Stacks of the kernel's timerlat tracer, if the probe uses it.
    timerlat: Vec<Arc<TimerlatStacks>>,
    /// Stacks recorded up to the last explanation.
    latest: Vec<TraceEvent>,
}

impl StackWatch {
    /// Records stacks if this kernel accepts BPF programs. `threshold`: that of outliers.
    pub(super) fn begin(&mut self, host: &Host, threshold: Nanos) {
        if host.root() != Path::new("/") {
            return;
        }
        let late = Nanos(threshold.0 / 2).max(LEAST);
        self.late = LateStacks::start(host.pid_max(), late).ok();
    }

    /// Also reads these stacks of the kernel's timerlat tracer.
    pub(super) fn add_timerlat(&mut self, stacks: impl IntoIterator<Item = Arc<TimerlatStacks>>) {
        self.timerlat.extend(stacks);
    }

    /// Stops the recording, or resumes it for the watched threads. Returns a warning if that fails.
    pub(super) fn shut(&mut self, shut: bool, watched: &BTreeSet<u32>) -> Option<String> {
        self.is_shut = shut;
        self.watch(watched)
    }

    /// Records stacks of the watched threads, unless this is turned off. Returns a warning if that
    /// fails.
    pub(super) fn watch(&mut self, watched: &BTreeSet<u32>) -> Option<String> {
        let open = !self.is_shut;
        let watched = watched.iter().copied().filter(|_| open);
        let error = self.late.as_mut()?.watch(watched).err()?;
        Some(error.to_string())
    }

    /// Reads the stacks recorded from a time on, for the outliers of one poll.
    pub(super) fn read(&mut self, from: Nanos) {
        let late = self.late.as_ref();
        self.latest = late.map_or_else(Vec::new, |stacks| stacks.since(from));
        let of_timerlat = self.timerlat.iter();
        self.latest
            .extend(of_timerlat.flat_map(|stacks| stacks.events()));
    }

    /// Returns the stacks for an outlier of thread `tid` on `cpu`.
    pub(super) fn of_outlier(
        &self,
        (tid, cpu): (u32, u32),
        (from, to): (Nanos, Nanos),
        events: &[TraceEvent],
    ) -> Vec<TraceEvent> {
        let within = |event: &&TraceEvent| event.time >= from && event.time <= to;
        let mut found: Vec<TraceEvent> = self.latest.iter().filter(within).cloned().collect();
        let is_switch = |switch: &TraceEvent, at: &TraceEvent| {
            matches!(&switch.kind, EventKind::Switch { next, .. } if next.pid == tid)
                && switch.cpu == at.cpu
                && (switch.time..=switch.time + AFTER_SWITCH).contains(&at.time)
        };
        found.retain(|event| match event.kind {
            EventKind::TimerLate { .. } => event.cpu == cpu,
            EventKind::TimerlatStack { .. } => false,
            _ => events.iter().any(|switch| is_switch(switch, event)),
        });
        let late = |event: &TraceEvent| match event.kind {
            EventKind::TimerLate { late, .. } => late,
            _ => Nanos::ZERO,
        };
        let mut latest: Vec<Nanos> = found.iter().map(late).collect();
        latest.sort_unstable_by_key(|late| std::cmp::Reverse(*late));
        let least = latest.get(TIMERS).copied().unwrap_or(Nanos::ZERO);
        found.retain(|event| {
            !matches!(event.kind, EventKind::TimerLate { .. }) || late(event) > least
        });
        found.extend(nearest_of_timerlat(&self.latest, cpu, (from, to)));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that begins while no job is watched does not start a BPF program.
    #[test]
    fn closed_stacks_are_never_taken() {
        let late = match LateStacks::start(Host::live().pid_max(), LEAST) {
            Ok(late) => Some(late),
            Err(error) => return punctual_testing::skip_refused("stacks of late timers", &error),
        };
        let mut stacks = StackWatch {
            late,
            ..StackWatch::default()
        };
        let watched = |stacks: &StackWatch| stacks.late.as_ref().map(LateStacks::watched);
        let of = |tids: std::ops::RangeInclusive<u32>| tids.collect::<BTreeSet<u32>>();
        assert_eq!(stacks.watch(&of(1..=2)), None);
        assert_eq!(watched(&stacks), Some(2));
        assert_eq!(stacks.shut(true, &of(1..=2)), None);
        assert_eq!(watched(&stacks), Some(0));
        assert_eq!(stacks.watch(&of(1..=3)), None);
        assert_eq!(watched(&stacks), Some(0));
        assert_eq!(stacks.shut(false, &of(1..=3)), None);
        assert_eq!(watched(&stacks), Some(3));
    }

    #[test]
    fn nearest_timerlat_stack_explains_late_thread() {
        let stack = |cpu, time| TraceEvent {
            time: Nanos::from_micros(time),
            cpu,
            pid: 9,
            flags: 0,
            preempt_count: 0,
            kind: EventKind::TimerlatStack { frames: vec![time] },
        };
        let all = [
            stack(0, 900),
            stack(1, 1_060),
            stack(0, 1_090),
            stack(0, 1_400),
        ];
        let found = |cpu, from, to| {
            let interval = (Nanos::from_micros(from), Nanos::from_micros(to));
            nearest_of_timerlat(&all, cpu, interval).map(|event| event.time.whole_micros())
        };
        assert_eq!(found(0, 1_000, 1_050), Some(1_090));
        assert_eq!(found(1, 1_000, 1_050), Some(1_060));
        assert_eq!(found(0, 1_200, 1_380), Some(1_400));
        assert_eq!(found(0, 2_000, 2_100), None);
    }
}
