//! Jobs of one thread, from its context switches and the scheduler's counts.

use std::collections::VecDeque;

use punctual_model::Nanos;
use punctual_trace::{SchedulerCounts, ThreadSwitch};

/// Maximum number of spans of a job that are kept.
const SPANS: usize = 4_000;

/// Number of polls after which counts that do not match the switches become the new base.
const PATIENCE: u32 = 5;

/// A span of a job: on a CPU, or runnable without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: Nanos,
    pub(crate) to: Nanos,
    pub(crate) on_cpu: bool,
}

impl Span {
    const fn length(self) -> Nanos {
        self.to.saturating_sub(self.from)
    }
}

/// Several jobs with a known sum of their waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Together {
    /// Number that the jobs have in common.
    pub(crate) number: u64,
    pub(crate) jobs: u32,
    /// Sum of the waits from the wake-ups until the jobs began.
    pub(crate) waited: Nanos,
}

/// A job: from the wake-up of a thread to its next sleep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SwitchJob {
    /// Time at which the thread began to run.
    pub(crate) began: Nanos,
    pub(crate) end: Nanos,
    /// Time at which the thread went to sleep before it.
    pub(crate) slept: Nanos,
    /// The last CPU.
    pub(crate) cpu: u32,
    /// Wait from the wake-up until the thread began to run; `None` if it is unknown.
    pub(crate) before: Option<Nanos>,
    /// The jobs that began between the same two readings of the counts, if `before` is unknown
    /// because there were several.
    pub(crate) together: Option<Together>,
    /// Time on a CPU.
    pub(crate) ran: Nanos,
    /// Total time of preemptions, and their number.
    pub(crate) preempted: (Nanos, u32),
    /// The spans in order, without `before`. Incomplete if there are more than [`SPANS`].
    pub(crate) spans: Vec<Span>,
}

impl SwitchJob {
    /// Returns the time of the wake-up, or the first known time of the job.
    pub(crate) fn release(&self) -> Nanos {
        self.began.saturating_sub(self.before.unwrap_or_default())
    }

    fn add(&mut self, span: Span) {
        if span.on_cpu {
            self.ran += span.length();
        } else {
            self.preempted.0 += span.length();
            self.preempted.1 += 1;
        }
        self.end = span.to;
        if self.spans.len() <= SPANS {
            self.spans.push(span);
        }
    }

    pub(crate) fn has_all_spans(&self) -> bool {
        self.spans.len() <= SPANS
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Unknown,
    Asleep(Nanos),
    Running(Nanos),
    Preempted(Nanos),
}

/// The scheduler's counts at a time at which they matched the switches.
#[derive(Clone, Copy, Debug)]
struct Base {
    counts: SchedulerCounts,
    /// Number of times that the thread began to run since then.
    ins: u64,
    /// Known waits since then.
    known: Nanos,
}

/// Finds the jobs of one thread.
#[derive(Debug, Default)]
pub(crate) struct SwitchJobs {
    state: State,
    /// Switches after the last reading of the counts.
    held: VecDeque<ThreadSwitch>,
    open: Option<SwitchJob>,
    /// Jobs whose wait before they began is not yet known.
    finished: Vec<SwitchJob>,
    base: Option<Base>,
    /// Number of jobs that began since the counts last matched.
    begun: u32,
    mismatches: u32,
    /// Number of sleeps.
    pub(crate) sleeps: u64,
    /// Number of jobs whose beginning or end is unknown.
    pub(crate) incomplete: u64,
    /// Number of lost records.
    pub(crate) lost: u64,
    /// Number of jobs whose wait before they began is unknown, and the longest possible wait.
    pub(crate) without_wait: (u64, Nanos),
}

impl SwitchJobs {
    pub(crate) fn is_asleep(&self) -> bool {
        matches!(self.state, State::Asleep(_))
    }

    /// Handles new switches, and the counts that were read at `at`, before the switches. Returns the
    /// jobs that are complete.
    pub(crate) fn take(
        &mut self,
        new: Vec<ThreadSwitch>,
        counts: Option<SchedulerCounts>,
        at: Nanos,
    ) -> Vec<SwitchJob> {
        self.held.extend(new);
        // A thread has counted its wait before the time of its switch. So the counts include all
        // switches before they were read, and perhaps the next one.
        while let Some(switch) = self.held.front().copied()
            && switch.at().is_none_or(|time| time <= at)
        {
            self.held.pop_front();
            self.switch(switch);
        }
        if !self.settle(counts) {
            return Vec::new();
        }
        std::mem::take(&mut self.finished)
    }

    fn switch(&mut self, switch: ThreadSwitch) {
        match switch {
            ThreadSwitch::In { at, cpu } => {
                self.base.iter_mut().for_each(|base| base.ins += 1);
                match self.state {
                    State::Asleep(since) => self.begin(since, at, cpu),
                    State::Preempted(since) => {
                        let wait = at.saturating_sub(since);
                        self.base.iter_mut().for_each(|base| base.known += wait);
                        if let Some(job) = &mut self.open {
                            job.cpu = cpu;
                        }
                        self.span(since, at, false);
                    }
                    State::Unknown | State::Running(_) => self.drop_open(),
                }
                self.state = State::Running(at);
            }
            ThreadSwitch::Out { at, preempted } => {
                match self.state {
                    State::Running(since) => self.span(since, at, true),
                    _ => self.drop_open(),
                }
                if preempted {
                    self.state = State::Preempted(at);
                } else {
                    self.state = State::Asleep(at);
                    self.sleeps += 1;
                    self.finished.extend(self.open.take());
                }
            }
            ThreadSwitch::Lost(count) => {
                self.lost += count;
                self.drop_open();
                (self.state, self.base) = (State::Unknown, None);
            }
        }
    }

    /// Returns the job that has not ended.
    pub(crate) const fn open(&self) -> Option<&SwitchJob> {
        self.open.as_ref()
    }

    fn begin(&mut self, slept: Nanos, at: Nanos, cpu: u32) {
        self.begun += 1;
        self.open = Some(SwitchJob {
            began: at,
            end: at,
            slept,
            cpu,
            before: None,
            together: None,
            ran: Nanos::ZERO,
            preempted: (Nanos::ZERO, 0),
            spans: Vec::new(),
        });
    }

    fn span(&mut self, from: Nanos, to: Nanos, on_cpu: bool) {
        if let Some(job) = &mut self.open {
            job.add(Span { from, to, on_cpu });
        }
    }

    fn drop_open(&mut self) {
        self.incomplete += u64::from(self.open.take().is_some());
    }

    /// Compares the counts with the switches. If a single job has begun since the last call, its wait is
    /// the counted time without the known waits. Returns whether the finished jobs are complete.
    fn settle(&mut self, counts: Option<SchedulerCounts>) -> bool {
        let Some(counts) = counts else {
            self.begun = 0;
            self.without_wait.0 += self.finished.len() as u64;
            return true;
        };
        let Some(base) = &mut self.base else {
            self.begin_counts(counts);
            return true;
        };
        if counts.times.saturating_sub(base.counts.times) != base.ins {
            self.mismatches += 1;
            if self.mismatches > PATIENCE {
                self.begin_counts(counts);
                return true;
            }
            return false;
        }
        self.mismatches = 0;
        let waited = counts.waited.saturating_sub(base.counts.waited);
        let rest = waited.saturating_sub(base.known);
        base.known = waited;
        let begun = std::mem::take(&mut self.begun);
        let jobs = self.finished.iter_mut().chain(&mut self.open);
        match begun {
            0 => {}
            _ if begun == 1 || rest == Nanos::ZERO => {
                for job in jobs.rev().take(begun as usize) {
                    job.before.get_or_insert(rest);
                }
            }
            several => {
                self.without_wait.0 += u64::from(several);
                self.without_wait.1 = self.without_wait.1.max(rest);
                let together = Together {
                    number: self.without_wait.0,
                    jobs: several,
                    waited: rest,
                };
                for job in jobs.rev().take(several as usize) {
                    job.together = Some(together);
                }
            }
        }
        true
    }

    fn begin_counts(&mut self, counts: SchedulerCounts) {
        self.base = Some(Base {
            counts,
            ins: 0,
            known: Nanos::ZERO,
        });
        let jobs = self.finished.iter().chain(&self.open);
        let unknown = jobs.filter(|job| job.before.is_none());
        self.without_wait.0 += unknown.count() as u64;
        (self.begun, self.mismatches) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(at: u64) -> ThreadSwitch {
        ThreadSwitch::In {
            at: Nanos(at),
            cpu: 1,
        }
    }

    fn out(at: u64, preempted: bool) -> ThreadSwitch {
        ThreadSwitch::Out {
            at: Nanos(at),
            preempted,
        }
    }

    fn counts(waited: u64, times: u64) -> Option<SchedulerCounts> {
        Some(SchedulerCounts {
            waited: Nanos(waited),
            times,
        })
    }

    /// Returns a thread that sleeps, whose counts are known.
    fn asleep() -> SwitchJobs {
        let mut jobs = SwitchJobs::default();
        assert_eq!(
            jobs.take(vec![out(5, false)], counts(1_000, 70), Nanos(10)),
            []
        );
        assert!(jobs.is_asleep());
        jobs
    }

    #[test]
    fn job_is_divided_into_running_and_waiting() {
        let mut jobs = asleep();
        let switches = vec![run(100), out(150, true), run(180), out(200, false)];
        let found = jobs.take(switches, counts(1_070, 72), Nanos(300));
        let span = |from, to, on_cpu| Span {
            from: Nanos(from),
            to: Nanos(to),
            on_cpu,
        };
        let expected = SwitchJob {
            began: Nanos(100),
            end: Nanos(200),
            slept: Nanos(5),
            cpu: 1,
            before: Some(Nanos(40)),
            together: None,
            ran: Nanos(70),
            preempted: (Nanos(30), 1),
            spans: vec![
                span(100, 150, true),
                span(150, 180, false),
                span(180, 200, true),
            ],
        };
        assert_eq!(found, [expected]);
        assert_eq!(found[0].release(), Nanos(60));
    }

    #[test]
    fn later_switch_waits_for_its_counts() {
        let mut jobs = asleep();
        let first = jobs.take(
            vec![run(100), out(120, false), run(310)],
            counts(1_009, 71),
            Nanos(300),
        );
        assert_eq!(first[0].before, Some(Nanos(9)));
        // The counts include a switch whose record cannot be read yet.
        assert_eq!(
            jobs.take(vec![out(320, false)], counts(1_029, 73), Nanos(400)),
            []
        );
        let switches = vec![run(410), out(430, false)];
        let both = jobs.take(switches, counts(1_029, 73), Nanos(500));
        let waits: Vec<_> = both.iter().map(|job| job.before).collect();
        assert_eq!(
            (waits, jobs.without_wait),
            (vec![None, None], (2, Nanos(20)))
        );
        for job in both {
            let together = job.together.unwrap();
            assert_eq!((together.jobs, together.waited), (2, Nanos(20)));
        }
    }

    #[test]
    fn lost_records_lose_the_job_only() {
        let mut jobs = asleep();
        let switches = vec![run(100), ThreadSwitch::Lost(9), run(150), out(160, false)];
        assert_eq!(jobs.take(switches, counts(1_400, 90), Nanos(200)), []);
        assert_eq!((jobs.incomplete, jobs.lost), (1, 9));
        let found = jobs.take(
            vec![run(250), out(260, false)],
            counts(1_403, 91),
            Nanos(300),
        );
        assert_eq!(found[0].before, Some(Nanos(3)));
    }

    #[test]
    fn unknown_counts_leave_the_wait_unknown() {
        let mut jobs = SwitchJobs::default();
        let switches = vec![out(5, false), run(7), out(9, false)];
        let found = jobs.take(switches, None, Nanos(10));
        assert_eq!((found[0].before, jobs.without_wait.0), (None, 1));
        // Counts that never match become the new base.
        let mut jobs = asleep();
        for poll in 0..u64::from(PATIENCE) {
            let switches = vec![run(100 * poll + 20), out(100 * poll + 30, false)];
            assert_eq!(
                jobs.take(switches, counts(1_000, 99 + poll), Nanos(1_000)),
                []
            );
        }
        assert_eq!(
            jobs.take(Vec::new(), counts(1_000, 200), Nanos(1_000))
                .len(),
            5
        );
        assert_eq!(jobs.without_wait.0, 5);
    }
}
