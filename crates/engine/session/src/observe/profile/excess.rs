//! The time that late jobs spend in excess of the others.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use punctual_model::Nanos;
use punctual_model::cause::{
    ExcessFunction, ExcessStack, LatenessProfile, ProfileFrame, ProfileState,
};
use punctual_trace::StackSampler;

use super::names::Stacks;

/// The time in a stack.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    /// In all jobs.
    pub(super) all: Nanos,
    /// In late jobs.
    pub(super) late: Nanos,
    /// Number of samples in late jobs.
    pub(super) samples: u64,
}

/// The samples of one track, and its jobs.
#[derive(Clone, Debug, Default)]
pub(super) struct TrackSums {
    pub(super) title: String,
    pub(super) late_jobs: u64,
    pub(super) late_total: Nanos,
    pub(super) other_jobs: u64,
    pub(super) other_total: Nanos,
    /// Number of jobs that were not sampled, and their total.
    pub(super) unsampled: (u64, Nanos),
    /// Number of late ones among them.
    pub(super) unsampled_late: u64,
    /// By the number of the stack.
    pub(super) stacks: BTreeMap<u32, Sum>,
}

impl TrackSums {
    /// Returns the time of the late jobs minus the mean of the others for each of them, which can be
    /// negative. If all jobs are late, this is their whole time.
    fn excess(&self, late: Nanos, others: Nanos) -> f64 {
        let usual = match self.other_jobs {
            0 => 0.0,
            jobs => others.0 as f64 / jobs as f64,
        };
        late.0 as f64 - usual * self.late_jobs as f64
    }
}

fn positive(time: f64) -> Nanos {
    Nanos(time.max(0.0).round() as u64)
}

/// The excess of a function so far.
#[derive(Default)]
struct OfFunction {
    excess: f64,
    waiting: f64,
    largest: f64,
    innermost: String,
}

/// Compares the late jobs of these tracks with their other jobs.
pub(super) fn profile<'a>(
    tracks: impl Iterator<Item = &'a TrackSums>,
    stacks: &Stacks,
) -> LatenessProfile {
    let mut profile = LatenessProfile {
        interval: StackSampler::INTERVAL,
        ..LatenessProfile::default()
    };
    let mut functions: BTreeMap<ProfileFrame, OfFunction> = BTreeMap::new();
    let (mut total, mut runnable) = (0.0, 0.0);
    for track in tracks {
        profile.late_jobs += track.late_jobs;
        profile.other_jobs += track.other_jobs;
        total += track.excess(track.late_total, track.other_total);
        for (number, sum) in &track.stacks {
            let excess = track.excess(sum.late, sum.all.saturating_sub(sum.late));
            let Some((named, frames)) = stacks.stack(*number) else {
                continue;
            };
            let stack = ExcessStack {
                thread: track.title.clone(),
                state: named.state,
                is_incomplete: named.is_incomplete,
                frames,
                excess: positive(excess),
                samples: sum.samples,
            };
            if let Some(function) = stack.function() {
                let of = functions.entry(function.clone()).or_default();
                of.excess += excess;
                if stack.state == ProfileState::Waiting {
                    of.waiting += excess;
                }
                if let (true, Some(inner)) = (excess > of.largest, stack.innermost()) {
                    (of.largest, of.innermost) = (excess, inner);
                }
            }
            if stack.state == ProfileState::Runnable {
                runnable += excess;
            }
            if stack.excess > Nanos::ZERO {
                profile.stacks.push(stack);
            }
        }
    }
    (profile.excess, profile.runnable) = (positive(total), positive(runnable));
    profile.stacks.sort_by_key(|stack| Reverse(stack.excess));
    let functions = functions.into_iter().map(|(frame, of)| ExcessFunction {
        frame,
        excess: positive(of.excess),
        waiting: positive(of.waiting),
        innermost: of.innermost,
    });
    profile.functions = functions.filter(|one| one.excess > Nanos::ZERO).collect();
    profile.functions.sort_by_key(|one| Reverse(one.excess));
    profile
}

#[cfg(test)]
mod tests {
    use punctual_host::Host;
    use punctual_trace::{Doing, RawStack, StackSample};

    use super::*;

    #[test]
    fn usual_time_is_subtracted() {
        let mut stacks = Stacks::new(&Host::new("/nonexistent"), None, 10);
        let mut number = |address| {
            let stack = RawStack {
                kernel: vec![address],
                ..RawStack::default()
            };
            stacks.number(&StackSample {
                tid: 7,
                from: Nanos(1),
                to: Nanos(1),
                stack,
                doing: Doing::Running,
            })
        };
        let (usual, slow) = (number(1), number(2));
        let sum = |all, late, samples| Sum {
            all: Nanos(all),
            late: Nanos(late),
            samples,
        };
        let mut track = TrackSums {
            title: "t".to_owned(),
            late_jobs: 2,
            late_total: Nanos(2_000),
            other_jobs: 100,
            other_total: Nanos(10_000),
            unsampled: (0, Nanos::ZERO),
            unsampled_late: 0,
            // 100 ns in each job, and 900 ns more in each late one.
            stacks: BTreeMap::from([(usual, sum(10_200, 200, 2)), (slow, sum(1_800, 1_800, 2))]),
        };
        let found = profile([&track].into_iter(), &stacks);
        assert_eq!((found.late_jobs, found.other_jobs), (2, 100));
        assert_eq!(found.excess, Nanos(1_800));
        let shown: Vec<_> = (found.stacks.iter())
            .map(|one| (one.frames[0].name.as_str(), one.excess.0))
            .collect();
        assert_eq!(shown, [("0x2", 1_800)]);
        assert_eq!(found.functions.len(), 1);
        assert_eq!(found.functions[0].frame.name, "0x2");
        // Late jobs that skip work have no negative excess.
        track.stacks.insert(usual, sum(10_000, 0, 0));
        assert_eq!(profile([&track].into_iter(), &stacks).functions.len(), 1);
        // Without other jobs, all time counts.
        track.other_jobs = 0;
        track.stacks.insert(usual, sum(200, 200, 2));
        assert_eq!(profile([&track].into_iter(), &stacks).functions.len(), 2);
    }
}
