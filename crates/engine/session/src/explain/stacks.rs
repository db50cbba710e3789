//! Kernel stacks of late timers and of threads that were switched out late, beside the
//! events that explain.

use std::path::Path;

use punctual_host::Host;
use punctual_model::{EventKind, Nanos, TraceEvent};
use punctual_trace::LateStacks;

/// Where `kernel.pid_max` cannot be read.
const USUAL_PID_MAX: u32 = 4 << 20;

/// A timer that is late for less than this is none that explains an outlier.
const LEAST: Nanos = Nanos::from_micros(20);

/// So many late timers are kept with an outlier, those that were latest.
const TIMERS: usize = 4;

/// So long after the switch to a thread its stack is written, at most.
const AFTER_SWITCH: Nanos = Nanos::from_micros(100);

/// So long after the late thread ran timerlat's stack is written, at most.
const AFTER_THREAD: Nanos = Nanos::from_micros(500);

/// The stack of timerlat for the outlier of an interval: the nearest to its end.
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

impl super::Explainer {
    /// Takes stacks, too, where this kernel takes programs. Without them the outliers are
    /// explained all the same: what has no stack shows none.
    pub(crate) fn take_stacks(&mut self, host: &Host) {
        if host.root() != Path::new("/") {
            return;
        }
        let late = Nanos(self.threshold.0 / 2).max(LEAST);
        let pid_max = host.pid_max().unwrap_or(USUAL_PID_MAX);
        self.stacks = LateStacks::start(pid_max, late).ok();
    }

    /// Takes no stacks from here on, whichever threads are watched meanwhile, or those of the
    /// watched ones again.
    pub(crate) fn shut_stacks(&mut self, shut: bool) {
        self.stacks_shut = shut;
        self.watch_stacks();
    }

    /// Takes stacks of the watched threads, unless none are to be taken now.
    pub(super) fn watch_stacks(&mut self) {
        let Some(stacks) = &mut self.stacks else {
            return;
        };
        let open = !self.stacks_shut;
        let watched = self.watched.iter().copied().filter(|_| open);
        if let Err(error) = stacks.watch(watched) {
            self.warn(error.to_string());
        }
    }

    /// Reads what was recorded from a time on, for the outliers of one turn.
    pub(super) fn read_stacks(&mut self, from: Nanos) {
        let stacks = self.stacks.as_ref();
        self.latest = stacks.map_or_else(Vec::new, |stacks| stacks.since(from));
        let of_timerlat = self.timerlat_stacks.iter();
        self.latest
            .extend(of_timerlat.flat_map(|stacks| stacks.events()));
    }

    /// Those of an outlier of thread `tid` on `cpu`.
    pub(super) fn stacks_of(
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
    use punctual_trace::Level;

    use super::super::{Delay, Explainer};
    use super::*;

    /// A thread that begins while no job is watched starts no program.
    #[test]
    fn while_stacks_are_shut_none_are_taken_whatever_is_watched() {
        let host = Host::live();
        let armed = Explainer::arm(&host, Level::Jobs, LEAST, Delay::Wakeup);
        let mut explainer = match armed {
            Ok(explainer) => explainer,
            Err(error) => return punctual_testing::skip_refused("the flight recorder", &error),
        };
        explainer.take_stacks(&host);
        if explainer.stacks.is_none() {
            return punctual_testing::skip!(Kernel, "the kernel takes no programs");
        }
        let watched = |explainer: &Explainer| explainer.stacks.as_ref().map(LateStacks::watched);
        explainer.watch([1, 2].into_iter());
        assert_eq!(watched(&explainer), Some(2));
        explainer.shut_stacks(true);
        assert_eq!(watched(&explainer), Some(0));
        explainer.watch([1, 2, 3].into_iter());
        assert_eq!(watched(&explainer), Some(0));
        explainer.shut_stacks(false);
        assert_eq!(watched(&explainer), Some(3));
        assert_eq!(explainer.warnings, Vec::<String>::new());
    }

    #[test]
    fn the_stack_of_timerlat_nearest_to_the_late_thread_is_its_own() {
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
