//! A watched thread: its waits, its release waits and its jobs.

use punctual_model::{EventKind, Nanos, SignedNanos, TraceEvent};

use super::judge::Judge;
use super::learning::{Kept, Learning};
use super::pools::Waited;
use super::release::{Call, FoundRelease, Waits};
use super::seen::{Job, JobSeen};
use super::thread_state::{
    CallNumbers, EndedWait, FutexCall, OpenJob, Outcome, Point, Stages, Step, ThreadState,
};

#[derive(Clone, Debug, Default)]
pub(super) struct Thread {
    pub(super) state: ThreadState,
    pub(super) seen: JobSeen,
    /// `Some` during the search for the first release wait or for another one.
    pub(super) learning: Option<Learning>,
    /// Time at which the thread last entered its release wait, or the first event after an
    /// interruption.
    pub(super) last_release: Option<Nanos>,
    /// Number of waits elsewhere since then.
    pub(super) elsewhere: u64,
    /// Whether a whole full stage has passed since then.
    pub(super) seen_in_full: bool,
    /// End of the last sleep in the release wait.
    pub(super) busy_since: Option<Nanos>,
    /// End of the last wait, and the CPU time of the thread until it.
    pub(super) last_wait: Option<(Nanos, Nanos)>,
    /// The longest wait elsewhere since the last release.
    pub(super) longest_elsewhere: Option<(Call, Nanos)>,
    /// All waits so far, while earlier events are replayed.
    pub(super) all_waits: Option<Waits>,
    /// The last wait, until it has been added to those of the process.
    pub(super) waited: Option<Waited>,
    /// Whether the kernel counts its jobs, so that there are no events of it.
    pub(super) is_counted: bool,
}

/// A search for another release wait begins if the thread has not entered its release wait for this
/// time and for [`UNUSED_PERIODS`] of its periods, and has waited elsewhere at least [`ELSEWHERE`]
/// times.
const UNUSED: Nanos = Nanos::from_secs(2);
const UNUSED_PERIODS: u64 = 20;
const ELSEWHERE: u64 = 5;

/// Another release wait is accepted only after this multiple of that time. Until then, the thread
/// may be in a long job, which ends when it enters its release wait.
const UNTIL_ACCEPTED: u64 = 5;

/// Number of waits after which the release waits are judged again, for a thread of a pool or for one
/// whose siblings end its wait.
const JUDGED: u64 = 8;

/// Number of waits after which all idle waits are judged only if the number has doubled.
const OFTEN: u64 = 256;

/// Maximum number of earlier release waits that are kept.
const EARLIER: usize = 4;

impl Thread {
    pub(super) fn new(since: Nanos, stages: Stages) -> Self {
        Self {
            learning: Some(Learning::new(since, stages)),
            ..Self::default()
        }
    }

    /// Returns the end of the last release wait, or of the last wait if the release wait is unknown.
    pub(super) fn released(&self) -> Option<Nanos> {
        let last_wait = self.last_wait.map(|(to, _)| to);
        self.busy_since
            .filter(|_| self.seen.release.is_some())
            .or(last_wait)
    }

    /// Begins a search for another release wait if the thread seems to have stopped using its
    /// current one, as in a program that sleeps during its start and then waits for a timer.
    /// Returns whether a search has enough waits.
    pub(super) fn search_ends(&mut self, now: Nanos, stages: Stages) -> bool {
        let is_over = |learning: &Learning| learning.is_over(now);
        let (Some(release), Some(since)) = (self.seen.release, self.last_release) else {
            return self.learning.as_ref().is_some_and(is_over);
        };
        let periods = release
            .period
            .unwrap_or_default()
            .0
            .saturating_mul(UNUSED_PERIODS);
        let long = UNUSED.0.max(periods);
        let unused = now.saturating_sub(since).0;
        match &self.learning {
            Some(learning) => {
                // In the light stage, a release wait without a sleep is not seen.
                let is_sure = !stages.both || self.seen_in_full;
                unused / UNTIL_ACCEPTED >= long && is_sure && is_over(learning)
            }
            None => {
                if unused >= long && self.elsewhere >= ELSEWHERE {
                    self.seen_in_full = false;
                    self.learning = Some(Learning {
                        dropped_since: Some(since),
                        ..Learning::new(now, stages)
                    });
                }
                false
            }
        }
    }

    /// Chooses the release wait and replays the kept events. If no wait qualifies, the search
    /// continues.
    pub(super) fn learnt(&mut self, judge: Judge<'_>) -> Vec<Job> {
        let Judge {
            tid, numbers, kind, ..
        } = judge;
        let Some(mut learning) = self.learning.take() else {
            return Vec::new();
        };
        judge.mark_mutual(&mut learning.waits);
        let Some(found) = learning.waits.choose(&|call| kind(tid, call)) else {
            self.learning = Some(learning);
            return Vec::new();
        };
        self.seen.candidates = learning.waits.candidates(&|call| kind(tid, call));
        self.replaces(found);
        judge.find_second(&mut self.seen);
        judge.find_idle(&mut self.seen);
        if let (Some(since), Some(first)) = (learning.dropped_since, learning.kept.front()) {
            self.seen.not_counted += first.time().saturating_sub(since);
        }
        self.all_waits = Some(std::mem::take(&mut self.seen.waits));
        self.state = ThreadState::default();
        let mut stages = learning.stages;
        let mut jobs = Vec::new();
        for kept in learning.kept {
            match kept {
                Kept::Event(event) => jobs.extend(self.step(tid, &event, numbers, stages)),
                Kept::Stage(next, at) => {
                    stages = next;
                    self.change_stage(stages, at);
                }
            }
        }
        self.seen.waits = self.all_waits.take().unwrap_or_default();
        self.waited = None;
        jobs
    }

    /// Replaces the release wait. The job in progress began with the earlier one.
    pub(super) fn replaces(&mut self, found: FoundRelease) {
        let earlier = self.seen.release.replace(found);
        if self.seen.earlier.len() < EARLIER {
            self.seen.earlier.extend(earlier);
        }
        self.seen.incomplete += u64::from(self.state.abandon());
    }

    /// Returns whether to judge the release waits again after a wait.
    pub(super) const fn is_to_be_judged(&self) -> bool {
        let is_single = self.seen.second_release.is_none();
        self.seen.release.is_some() && (is_single || self.seen.waits.count.is_multiple_of(JUDGED))
    }

    /// Judges the release waits again, with all waits so far: one of them may be a lock, or the
    /// thread may belong to a pool.
    pub(super) fn judge_again(&mut self, judge: Judge<'_>) {
        let Some(release) = self.seen.release else {
            return;
        };
        let is_mutual = self.seen.waits.count.is_multiple_of(JUDGED)
            && judge.siblings.are_mutual(judge.tid, release.call);
        if is_mutual {
            judge.mark_mutual(&mut self.seen.waits);
        }
        if (is_mutual || self.seen.waits.is_lock(release.call))
            && let Some(found) = (self.seen.waits).choose(&|call| (judge.kind)(judge.tid, call))
            && found.call != release.call
        {
            self.replaces(found);
        }
        let count = self.seen.waits.count;
        let is_turn = count.is_multiple_of(JUDGED) && (count < OFTEN || count.is_power_of_two());
        let has_second = judge.find_second(&mut self.seen);
        let has_idle = (has_second || is_turn) && judge.find_idle(&mut self.seen);
        if has_second || has_idle {
            self.seen.incomplete += u64::from(self.state.abandon());
        }
    }

    /// Changes the stage. A job in progress may then be several jobs.
    pub(super) fn change_stage(&mut self, stages: Stages, at: Nanos) {
        self.seen_in_full |= stages.light;
        if let Some(open) = self.state.change_stage(stages.light) {
            self.note_busy(open.release.at, at);
        }
        if let Some(learning) = &mut self.learning {
            learning.keep(Kept::Stage(stages, at));
        }
    }

    /// Notes that the thread was busy with several jobs from its last wait until now.
    pub(super) fn note_busy(&mut self, release: Nanos, now: Nanos) {
        self.seen.incomplete += 1;
        let since = self.busy_since.unwrap_or(release);
        let length = now.saturating_sub(since);
        if self.seen.busy.is_none_or(|(_, longest)| length > longest) {
            self.seen.busy = Some((since, length));
        }
    }

    pub(super) fn waits(&mut self) -> impl Iterator<Item = &mut Waits> {
        let learning = self.learning.as_mut().map(|learning| &mut learning.waits);
        [&mut self.seen.waits].into_iter().chain(learning)
    }

    /// Notes the futex calls that show whether a futex is a lock.
    pub(super) fn note_futex(&mut self, event: &TraceEvent, numbers: &CallNumbers) {
        let (EventKind::SysEnter { id, args } | EventKind::SleepsIn { id, args }) = event.kind
        else {
            return;
        };
        match numbers.futex_call(id, args) {
            Some(FutexCall::Wakes(call)) => self.waits().for_each(|waits| waits.wakes_at(call)),
            Some(FutexCall::LocksPi(call)) => self.waits().for_each(|waits| waits.locks_pi(call)),
            Some(FutexCall::Waits(_)) | None => {}
        }
    }

    pub(super) fn step(
        &mut self,
        tid: u32,
        event: &TraceEvent,
        numbers: &CallNumbers,
        stages: Stages,
    ) -> Option<Job> {
        let release = self.seen.releases();
        self.note_futex(event, numbers);
        if let EventKind::ProcessExit { .. } = event.kind {
            self.seen.incomplete += u64::from(self.state.abandon());
            return None;
        }
        let step = self.state.step(tid, event, release, (numbers, stages));
        self.last_release.get_or_insert(event.time);
        let enters = matches!(
            event.kind,
            EventKind::SysEnter { .. } | EventKind::SleepsIn { .. }
        );
        if enters && self.state.is_in(release) {
            (self.last_release, self.elsewhere) = (Some(event.time), 0);
            self.seen_in_full = false;
            self.learning = None;
        }
        match step? {
            Step::Waited(wait) => {
                self.note_wait(wait, release.has(wait.call), stages);
                None
            }
            Step::Job(Outcome::Completed(open, end)) if self.may_be_idle(&open, end, numbers) => {
                self.seen.incomplete += 1;
                None
            }
            Step::Job(Outcome::Completed(open, end)) => {
                Some(self.completed(tid, event.cpu, open, end))
            }
            Step::Job(outcome) => {
                self.note_outcome(outcome, event.time);
                None
            }
        }
    }

    pub(super) fn note_wait(&mut self, wait: EndedWait, is_release: bool, stages: Stages) {
        let EndedWait {
            call,
            from,
            to,
            ran,
        } = wait;
        if let Some((_, before)) = self.last_wait.replace((to, ran)) {
            let (run, asleep) = (ran.saturating_sub(before), to.saturating_sub(from));
            self.waits().for_each(|waits| waits.bursts.add(run, asleep));
        }
        self.elsewhere += u64::from(!is_release);
        if is_release {
            (self.busy_since, self.seen_in_full) = (Some(to), false);
            self.longest_elsewhere = None;
        } else if let Some(call) = call {
            let before = self
                .longest_elsewhere
                .map_or(Nanos::ZERO, |(_, longest)| longest);
            if to.saturating_sub(from) >= before {
                self.longest_elsewhere = Some((call, to.saturating_sub(from)));
            }
        }
        for waits in self.waits() {
            waits.add(call, (from, to), !stages.light);
        }
        self.waited = call.map(|call| (call, from, to));
    }

    /// Returns whether an apparent job may be idle time of an ordinary thread that does almost nothing.
    /// More waits at the place decide this.
    fn may_be_idle(&self, open: &OpenJob, end: Point, numbers: &CallNumbers) -> bool {
        let waits = self.all_waits.as_ref().unwrap_or(&self.seen.waits);
        let Some((call, length)) = self.longest_elsewhere else {
            return false;
        };
        let response = end.at.saturating_sub(open.release.at);
        let is_whole_job = length.0 >= response.0 / 10 * 9;
        let first = self.seen.release.map(|found| found.call);
        is_whole_job
            && !self.state.prio.is_real_time()
            && numbers.futex.contains(&call.id)
            && first.is_some_and(|first| waits.may_be_idle_at(call, length, first))
    }

    /// Notes an outcome without a completed job.
    pub(super) fn note_outcome(&mut self, outcome: Outcome, now: Nanos) {
        let seen = &mut self.seen;
        match outcome {
            Outcome::Completed(..) => {}
            Outcome::AtOnce => seen.at_once += 1,
            Outcome::InStop(length) => {
                seen.at_once += 1;
                seen.while_stopped += 1;
                seen.longest_stop = seen.longest_stop.max(length);
            }
            Outcome::Several(release) => {
                seen.at_once += 1;
                self.note_busy(release, now);
            }
            Outcome::ReleaseUnknown => seen.incomplete += 1,
        }
    }

    pub(super) fn completed(&mut self, tid: u32, cpu: u32, open: OpenJob, end: Point) -> Job {
        let release = open.release.at;
        let job = Job {
            tid,
            comm: self.state.comm,
            prio: self.state.prio,
            cpu,
            release,
            completion: end.at.max(release),
            ran: end.ran.saturating_sub(open.release.ran),
            events_from: open.events_from.min(release),
        };
        self.seen.jobs += 1;
        let ran = i64::try_from(job.ran.0).unwrap_or(i64::MAX);
        self.seen.execution.record(SignedNanos(ran));
        job
    }
}

#[cfg(test)]
#[path = "thread_tests.rs"]
mod tests;
