//! Finds where late jobs spend time that other jobs do not.
//!
//! It samples all jobs of a thread, because a job is known to be late only at its end. It adds up the
//! samples of late jobs separately. The rest belongs to the other jobs.

mod excess;
mod names;

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use punctual_culprit::Late;
use punctual_host::Host;
use punctual_model::cause::LatenessProfile;
use punctual_model::{Nanos, Recording, Table, counted};
use punctual_trace::{Doing, Followed, StackSample, StackSampler, WatchError};

use excess::TrackSums;
use names::Stacks;

use crate::lifecycle::monotonic;

/// Maximum number of samples of a thread that are kept until its job in progress ends: 8 s on the
/// CPU.
const KEPT: usize = 8_192;

/// Maximum number of stacks that are told apart. The others share one.
const STACKS: usize = 20_000;

/// Number of functions in the table of the recording.
const FUNCTIONS: usize = 5;

/// A sample of a job that may become late.
struct Kept {
    from: Nanos,
    to: Nanos,
    stack: u32,
}

impl Kept {
    /// Returns the time of this sample within a job.
    fn within(&self, job: &Late) -> Nanos {
        if self.from == self.to {
            let is_within = (job.expected..=job.actual).contains(&self.from);
            return if is_within {
                StackSampler::INTERVAL
            } else {
                Nanos::ZERO
            };
        }
        let (from, to) = (self.from.max(job.expected), self.to.min(job.actual));
        to.saturating_sub(from)
    }
}

/// The newest samples of a thread.
#[derive(Default)]
struct Newest {
    samples: VecDeque<Kept>,
    /// The end of the newest sample that is no longer kept.
    forgotten: Nanos,
}

/// Samples the watched threads.
pub(super) struct ProfileWatch<'a> {
    sampler: StackSampler,
    /// Is readable when much space for samples is used.
    news: Option<OwnedFd>,
    sorted: Sorted,
    result: &'a Cell<Option<LatenessProfile>>,
}

/// The samples, sorted by jobs.
struct Sorted {
    stacks: Stacks,
    /// By thread.
    kept: HashMap<u32, Newest>,
    /// Since when threads are sampled.
    begins: HashMap<u32, Nanos>,
    /// By track.
    tracks: BTreeMap<u32, TrackSums>,
    /// Number of late jobs that may lack samples.
    cut: u64,
}

impl<'a> ProfileWatch<'a> {
    pub(super) fn begin(
        host: &Host,
        reader: Option<Vec<OsString>>,
        result: &'a Cell<Option<LatenessProfile>>,
    ) -> Result<Self, WatchError> {
        let sampler = StackSampler::start()?;
        Ok(Self {
            news: sampler.news().ok(),
            sampler,
            sorted: Sorted::new(Stacks::new(host, reader, STACKS)),
            result,
        })
    }

    pub(super) fn follow(&mut self, followed: &Followed) -> Result<(), WatchError> {
        let is_followed = |tid: &u32| followed.releases.contains_key(tid);
        self.sorted.kept.retain(|tid, _| is_followed(tid));
        self.sorted.begins.retain(|tid, _| is_followed(tid));
        self.sampler.follow(followed)?;
        let now = monotonic();
        for tid in followed.releases.keys() {
            if self.sampler.is_sampled(*tid) {
                self.sorted.begins.entry(*tid).or_insert(now);
            }
        }
        Ok(())
    }

    /// Returns a descriptor that is readable when samples should be read.
    pub(super) fn news(&self) -> Option<BorrowedFd<'_>> {
        self.news.as_ref().map(AsFd::as_fd)
    }

    /// Reads the samples since the last call.
    pub(super) fn read(&mut self, track_of: impl Fn(u32) -> u32) {
        let Self {
            sampler, sorted, ..
        } = self;
        sampler.read(|sample| sorted.add(&sample, track_of(sample.tid)));
    }

    /// Adds a job, after its samples have been read.
    pub(super) fn take(&mut self, job: &Late, is_late: bool, track: u32) {
        let lost = || self.sampler.lost_at(job.tid);
        self.sorted.take(job, is_late, track, lost);
    }

    /// Returns warnings for the reader of the recording.
    pub(super) fn warnings(&self) -> Vec<String> {
        self.sorted.warnings()
    }

    /// Compares the late jobs with the others. Adds a table to the recording.
    pub(super) fn finish(self, recording: &mut Recording) {
        if let Some(profile) = self.sorted.finish(recording) {
            recording.tables.push(table(&profile));
            self.result.set(Some(profile));
        }
    }
}

impl Sorted {
    fn new(stacks: Stacks) -> Self {
        Self {
            stacks,
            kept: HashMap::new(),
            begins: HashMap::new(),
            tracks: BTreeMap::new(),
            cut: 0,
        }
    }

    fn add(&mut self, sample: &StackSample, track: u32) {
        let stack = self.stacks.number(sample);
        let time = match sample.doing {
            Doing::Running => StackSampler::INTERVAL,
            Doing::Runnable | Doing::Waiting(_) => sample.to.saturating_sub(sample.from),
        };
        let track = self.tracks.entry(track).or_default();
        track.stacks.entry(stack).or_default().all += time;
        let kept = self.kept.entry(sample.tid).or_default();
        if kept.samples.len() == KEPT
            && let Some(oldest) = kept.samples.pop_front()
        {
            kept.forgotten = oldest.to;
        }
        kept.samples.push_back(Kept {
            from: sample.from,
            to: sample.to,
            stack,
        });
    }

    /// Adds a job. Jobs of threads that were not sampled from the beginning of the job count neither
    /// as late nor as others. `lost_at` returns when the newest sample of the thread was lost.
    fn take(
        &mut self,
        job: &Late,
        is_late: bool,
        track: u32,
        lost_at: impl FnOnce() -> Option<Nanos>,
    ) {
        let track = self.tracks.entry(track).or_default();
        let begin = self.begins.get(&job.tid);
        if begin.is_none_or(|begin| job.expected < *begin) {
            track.unsampled.0 += 1;
            track.unsampled.1 += job.latency();
            track.unsampled_late += u64::from(is_late);
            return;
        }
        if !is_late {
            return;
        }
        track.late_jobs += 1;
        track.late_total += job.latency();
        let kept = self.kept.entry(job.tid).or_default();
        let gone = lost_at().max(Some(kept.forgotten));
        self.cut += u64::from(gone > Some(job.expected));
        // Earlier samples belong to jobs that were not late.
        while kept.samples.front().is_some_and(|one| one.to <= job.actual) {
            let Some(one) = kept.samples.pop_front() else {
                break;
            };
            let time = one.within(job);
            if time > Nanos::ZERO {
                let sum = track.stacks.entry(one.stack).or_default();
                sum.late += time;
                sum.samples += 1;
            }
        }
    }

    /// Samples of jobs that were not late may be missing without harm.
    fn warnings(&self) -> Vec<String> {
        let late = |jobs| counted(jobs, "late job is", "late jobs are");
        let mut warnings = Vec::new();
        let unsampled = self.tracks.values().map(|track| track.unsampled_late).sum();
        if unsampled > 0 {
            warnings.push(format!(
                "{} not in the profile: their threads were not sampled yet, or were more than {}",
                late(unsampled),
                StackSampler::MOST_THREADS
            ));
        }
        if self.cut > 0 {
            warnings.push(format!(
                "{} in the profile with samples that may be missing: it has at most 10,000 waits a \
                 second on a CPU, and {KEPT} samples of a job",
                late(self.cut)
            ));
        }
        warnings
    }

    /// Compares the late jobs with the others.
    fn finish(mut self, recording: &Recording) -> Option<LatenessProfile> {
        let jobs = recording.explanation.as_ref();
        let jobs = jobs.and_then(|explanation| explanation.jobs.as_ref());
        for jobs in jobs.iter().flat_map(|jobs| &jobs.threads) {
            let Some(track) = self.tracks.get_mut(&jobs.thread) else {
                continue;
            };
            let (unsampled, their_time) = track.unsampled;
            let others = jobs.jobs.saturating_sub(jobs.over_budget);
            let not_late = unsampled.saturating_sub(track.unsampled_late);
            track.other_jobs = others.saturating_sub(not_late);
            if let Some(thread) = recording.threads.get(jobs.thread as usize) {
                let all = thread.histogram.sum();
                track.other_total = all.saturating_sub(track.late_total + their_time);
                track.title = thread.title();
            }
        }
        self.tracks.retain(|_, track| track.late_jobs > 0);
        (!self.tracks.is_empty()).then(|| excess::profile(self.tracks.values(), &self.stacks))
    }
}

/// Returns the functions with the largest excess, and what no sample shows.
fn table(profile: &LatenessProfile) -> Table {
    let each = profile.excess.0 / profile.late_jobs.max(1);
    let title = format!(
        "Excess of {}: {} more than the mean of {}",
        counted(profile.late_jobs, "late job", "late jobs"),
        Nanos(each),
        counted(profile.other_jobs, "other job", "other jobs"),
    );
    let columns = [
        ("function", "function"),
        ("spends", "spends it"),
        ("excess_ns", "more per late job"),
        ("share", "share in %"),
    ];
    let mut table = Table::new("lateness_profile", &title, &columns);
    let share = |time: Nanos| time.0 as f64 / profile.excess.0.max(1) as f64 * 100.0;
    let per_job = |time: Nanos| Nanos(time.0 / profile.late_jobs.max(1));
    for one in profile.functions.iter().take(FUNCTIONS) {
        let how = if one.waiting.0 > one.excess.0 / 2 {
            "waiting"
        } else {
            "on the CPU"
        };
        let how = if one.innermost == one.frame.name {
            how.to_owned()
        } else {
            format!("{how}, in {}", one.innermost)
        };
        table.push([
            one.frame.name.as_str().into(),
            how.as_str().into(),
            per_job(one.excess).into(),
            share(one.excess).into(),
        ]);
    }
    let shown = total(profile.functions.iter().map(|one| one.excess));
    let rest = profile.excess.saturating_sub(shown + profile.runnable);
    for (name, how, time) in [
        ("(no function)", "waiting for a CPU", profile.runnable),
        ("(no sample)", "between two samples, or unknown", rest),
    ] {
        if share(time) >= 1.0 {
            table.push([
                name.into(),
                how.into(),
                per_job(time).into(),
                share(time).into(),
            ]);
        }
    }
    let incomplete = profile.stacks.iter().filter(|one| one.is_incomplete);
    let incomplete = total(incomplete.map(|one| one.excess));
    if incomplete > Nanos::ZERO {
        table.push([
            "(stack incomplete)".into(),
            "included above; callers are missing (no frame pointers, or a waiting goroutine)"
                .into(),
            per_job(incomplete).into(),
            share(incomplete).into(),
        ]);
    }
    table
}

fn total(times: impl Iterator<Item = Nanos>) -> Nanos {
    Nanos(times.map(|time| time.0).sum())
}

#[cfg(test)]
mod tests {
    use punctual_model::{Comm, Delay, KernelPriority};
    use punctual_trace::RawStack;

    use super::*;

    fn job(expected: u64, actual: u64) -> Late {
        let (expected, actual) = (Nanos(expected), Nanos(actual));
        Late {
            tid: 7,
            comm: Comm::new(b"t"),
            prio: KernelPriority(120),
            cpu: 0,
            delay: Delay::Wakeup,
            expected,
            actual,
            events_from: expected,
        }
    }

    fn sorted() -> Sorted {
        let mut sorted = Sorted::new(Stacks::new(&Host::new("/nonexistent"), None, 10));
        sorted.begins.insert(7, Nanos(1));
        for time in 1..=KEPT as u64 + 10 {
            let sample = StackSample {
                tid: 7,
                from: Nanos(time),
                to: Nanos(time),
                stack: RawStack::default(),
                doing: Doing::Running,
            };
            sorted.add(&sample, 0);
        }
        sorted
    }

    #[test]
    fn lost_samples_of_other_jobs_are_no_warning() {
        let mut sorted = sorted();
        // Ten samples were forgotten, and one was lost.
        sorted.take(&job(5, 10), false, 0, || Some(Nanos(7)));
        sorted.take(&job(11, 20), true, 0, || Some(Nanos(10)));
        assert_eq!(sorted.warnings(), [""; 0]);
    }

    #[test]
    fn late_jobs_with_lost_samples_are_counted() {
        let mut sorted = sorted();
        sorted.take(&job(5, 20), true, 0, || None);
        sorted.take(&job(30, 40), true, 0, || Some(Nanos(31)));
        let warnings = sorted.warnings().concat();
        assert!(
            warnings.starts_with("2 late jobs are in the profile with"),
            "{warnings}"
        );
    }

    #[test]
    fn late_jobs_of_unsampled_threads_are_counted() {
        let mut sorted = sorted();
        sorted.begins.insert(7, Nanos(6));
        sorted.take(&job(5, 20), true, 0, || None);
        let warnings = sorted.warnings().concat();
        assert!(
            warnings.starts_with("1 late job is not in the profile"),
            "{warnings}"
        );
    }
}
