//! Finds where late jobs spend time that other jobs do not.
//!
//! It samples all jobs of a thread, because a job is known to be late only at its end. It adds up the
//! samples of late jobs separately. The rest belongs to the other jobs.

mod excess;
mod names;

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::OsString;

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

/// Samples the watched threads, and sorts the samples.
pub(super) struct ProfileWatch<'a> {
    sampler: StackSampler,
    stacks: Stacks,
    /// The newest samples, by thread.
    kept: HashMap<u32, VecDeque<Kept>>,
    /// Since when threads are sampled.
    begins: HashMap<u32, Nanos>,
    /// By track.
    tracks: BTreeMap<u32, TrackSums>,
    /// Samples of jobs in progress that were not kept.
    forgotten: u64,
    result: &'a Cell<Option<LatenessProfile>>,
}

impl<'a> ProfileWatch<'a> {
    pub(super) fn begin(
        host: &Host,
        reader: Option<Vec<OsString>>,
        result: &'a Cell<Option<LatenessProfile>>,
    ) -> Result<Self, WatchError> {
        Ok(Self {
            sampler: StackSampler::start()?,
            stacks: Stacks::new(host, reader, STACKS),
            kept: HashMap::new(),
            begins: HashMap::new(),
            tracks: BTreeMap::new(),
            forgotten: 0,
            result,
        })
    }

    pub(super) fn follow(&mut self, followed: &Followed) -> Result<(), WatchError> {
        let is_gone = |tid: &u32| !followed.releases.contains_key(tid);
        self.kept.retain(|tid, _| !is_gone(tid));
        self.begins.retain(|tid, _| !is_gone(tid));
        self.sampler.follow(followed)?;
        let now = monotonic();
        for tid in followed.releases.keys() {
            if self.sampler.is_sampled(*tid) {
                self.begins.entry(*tid).or_insert(now);
            }
        }
        Ok(())
    }

    /// Reads the samples since the last call.
    pub(super) fn read(&mut self, track_of: impl Fn(u32) -> u32) {
        for sample in self.sampler.read() {
            self.add(&sample, track_of(sample.tid));
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
        if kept.len() == KEPT {
            kept.pop_front();
            self.forgotten += 1;
        }
        kept.push_back(Kept {
            from: sample.from,
            to: sample.to,
            stack,
        });
    }

    /// Adds a job, after its samples have been read. Jobs of threads that were not sampled from the
    /// beginning of the job count neither as late nor as others.
    pub(super) fn take(&mut self, job: &Late, is_late: bool, track: u32) {
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
        let Some(kept) = self.kept.get_mut(&job.tid) else {
            return;
        };
        // Earlier samples belong to jobs that were not late.
        while kept.front().is_some_and(|one| one.to <= job.actual) {
            let Some(one) = kept.pop_front() else { break };
            let time = one.within(job);
            if time > Nanos::ZERO {
                let sum = track.stacks.entry(one.stack).or_default();
                sum.late += time;
                sum.samples += 1;
            }
        }
    }

    /// Returns warnings for the reader of the recording.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let dropped = self.sampler.dropped();
        if dropped > 0 {
            warnings.push(format!(
                "{} of the profile lost: more than 10,000 waits a second on one CPU, or a full buffer",
                counted(dropped, "sample", "samples")
            ));
        }
        if self.forgotten > 0 {
            warnings.push(format!(
                "the profile lacks {} at the beginning of very long jobs",
                counted(self.forgotten, "sample", "samples")
            ));
        }
        let left_out = self.sampler.left_out();
        if left_out > 0 {
            warnings.push(format!(
                "{} not in the profile, which has at most {} threads at a time",
                counted(left_out as u64, "thread is", "threads are"),
                StackSampler::MOST_THREADS
            ));
        }
        warnings
    }

    /// Compares the late jobs with the others. Adds a table to the recording.
    pub(super) fn finish(mut self, recording: &mut Recording) {
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
        if self.tracks.is_empty() {
            return;
        }
        let profile = excess::profile(self.tracks.values(), &self.stacks);
        recording.tables.push(table(&profile));
        self.result.set(Some(profile));
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
            "included above; the program has no frame pointers".into(),
            per_job(incomplete).into(),
            share(incomplete).into(),
        ]);
    }
    table
}

fn total(times: impl Iterator<Item = Nanos>) -> Nanos {
    Nanos(times.map(|time| time.0).sum())
}
