//! Shares of the time of a job or of an outlier, as far as context switches show them.

use std::collections::BTreeMap;

use punctual_model::cause::{Cause, Missing, Segment, Unknown};
use punctual_model::{Delay, Nanos, Share, Victim, Window};

use super::jobs::{Span, SwitchJob};

/// The event that shows which thread has a CPU.
const SWITCHES: &str = "sched:sched_switch";
/// Events that show why a thread was woken late.
const WAKE_UPS: [&str; 2] = ["sched:sched_waking", "irq_vectors:local_timer_entry"];
/// Events that show the activity of a thread on its CPU.
const ACTIVITY: [&str; 3] = [
    "raw_syscalls:sys_enter",
    "exceptions:page_fault_user",
    "irq:irq_handler_entry",
];

/// Returns what took the time of a job.
pub(crate) fn shares(job: &SwitchJob) -> Vec<Share> {
    let before = job.before.unwrap_or_default();
    let waited = before + job.preempted.0;
    let times = job.preempted.1 + u32::from(before > Nanos::ZERO);
    let shares = [
        Share::new(waiting(), waited, times),
        Share::new(running(), job.ran, job.preempted.1 + 1),
    ];
    shares
        .into_iter()
        .filter(|share| share.ns > Nanos::ZERO)
        .collect()
}

fn waiting() -> Cause {
    Cause::not_recorded(Missing::RanInstead, &[SWITCHES])
}

fn not_woken() -> Cause {
    Cause::not_recorded(Missing::BeforeWakeUp, &WAKE_UPS)
}

/// Returns the cause of time before the thread ran, if it is unknown when it was woken.
fn not_woken_or_waiting() -> Cause {
    Cause::not_recorded(Missing::AroundWakeUp, &[WAKE_UPS[0], SWITCHES])
}

fn running() -> Cause {
    Cause::not_recorded(Missing::OnCpu, &ACTIVITY)
}

/// Returns the events that would show the rest.
pub(crate) fn missing_events() -> Vec<String> {
    let missing = [SWITCHES].into_iter().chain(WAKE_UPS).chain(ACTIVITY);
    missing.map(str::to_owned).collect()
}

/// Returns the timeline of a job.
pub(crate) fn window(victim: Victim, job: &SwitchJob) -> Window {
    let before = Span {
        from: job.release(),
        to: job.began,
        on_cpu: false,
    };
    let mut timeline = Timeline::new(job.release(), job.cpu);
    if job.has_all_spans() {
        [before]
            .iter()
            .chain(&job.spans)
            .for_each(|one| timeline.span(one, job.end));
    }
    let (expected, actual) = (job.release(), job.end);
    window_of(victim, Delay::Job, (expected, actual), timeline.segments)
}

fn window_of(
    victim: Victim,
    delay: Delay,
    (expected, actual): (Nanos, Nanos),
    segments: Vec<Segment>,
) -> Window {
    Window {
        victim,
        delay,
        expected,
        actual,
        events: Vec::new(),
        lost: 0,
        left_out: 0,
        missing_events: missing_events(),
        light_stage: None,
        clock_error: Nanos::ZERO,
        symbols: BTreeMap::new(),
        calls: BTreeMap::new(),
        evidence: punctual_model::Evidence::default(),
        host: Vec::new(),
        segments,
        activity: Vec::new(),
    }
}

/// Segments in order of time, without gaps.
struct Timeline {
    at: Nanos,
    cpu: u32,
    segments: Vec<Segment>,
}

impl Timeline {
    const fn new(at: Nanos, cpu: u32) -> Self {
        Self {
            at,
            cpu,
            segments: Vec::new(),
        }
    }

    /// Adds a segment up to `to`.
    fn until(&mut self, to: Nanos, cause: impl FnOnce() -> Cause) {
        if to > self.at {
            self.segments.push(Segment {
                from: self.at,
                to,
                cpu: self.cpu,
                cause: cause(),
                words: None,
            });
            self.at = to;
        }
    }

    /// Adds a span of a job, but not beyond `end`.
    fn span(&mut self, span: &Span, end: Nanos) {
        self.until(span.from.min(end), unrecorded);
        let cause = if span.on_cpu { running } else { waiting };
        self.until(span.to.min(end), cause);
    }

    /// Adds the sleep before a job. `known`: bounds of the wait for a CPU at its end.
    fn sleep(&mut self, job: &SwitchJob, (least, most): (Nanos, Nanos), end: Nanos) {
        self.until(job.slept.min(end), unrecorded);
        self.until(job.began.saturating_sub(most).min(end), not_woken);
        self.until(
            job.began.saturating_sub(least).min(end),
            not_woken_or_waiting,
        );
        self.until(job.began.min(end), waiting);
    }
}

fn unrecorded() -> Cause {
    Cause::unexplained(Unknown::NoEventOfThread)
}

/// Returns the timeline and the shares of an outlier of a thread. `jobs`: its recent jobs, in order.
/// `period`: that of its wake-ups; one of them was due at the beginning of the outlier.
pub(crate) fn explained(
    victim: Victim,
    delay: Delay,
    (expected, actual): (Nanos, Nanos),
    jobs: &[&SwitchJob],
    period: Option<Nanos>,
) -> (Window, Vec<Share>) {
    let mut timeline = Timeline::new(expected, victim.cpu);
    let concerned = jobs
        .iter()
        .filter(|job| job.began < actual || job.slept < actual);
    for job in concerned.filter(|job| job.end > expected || job.began > expected) {
        timeline.cpu = job.cpu;
        let asleep = job.began.saturating_sub(timeline.at.max(job.slept));
        let bounds = wait_bounds(job, asleep, jobs, (expected, period));
        timeline.sleep(job, bounds, actual);
        for span in &job.spans {
            timeline.span(span, actual);
        }
    }
    timeline.until(actual, unrecorded);
    let segments = timeline.segments;
    let mut shares: Vec<Share> = Vec::new();
    for segment in &segments {
        let length = segment.to.saturating_sub(segment.from);
        match shares.iter_mut().find(|share| share.cause == segment.cause) {
            Some(share) => (share.ns, share.count) = (share.ns + length, share.count + 1),
            None => shares.push(Share::new(segment.cause.clone(), length, 1)),
        }
    }
    (
        window_of(victim, delay, (expected, actual), segments),
        shares,
    )
}

/// Returns the least and the longest possible wait for a CPU after a sleep of this length.
fn wait_bounds(
    job: &SwitchJob,
    asleep: Nanos,
    jobs: &[&SwitchJob],
    (expected, period): (Nanos, Option<Nanos>),
) -> (Nanos, Nanos) {
    let Some(together) = job.together.filter(|_| job.before.is_none()) else {
        return match job.before {
            Some(wait) => (wait.min(asleep), wait.min(asleep)),
            None => (Nanos::ZERO, asleep),
        };
    };
    let most = together.waited.min(asleep);
    let others = jobs.iter().filter(|other| other.began != job.began);
    let others =
        others.filter(|other| other.together.map(|one| one.number) == Some(together.number));
    let (mut count, mut waits) = (1, Nanos::ZERO);
    for other in others {
        count += 1;
        // The thread was not woken before its first due time in the sleep.
        let due = period.map_or(other.slept, |period| {
            first_due(other.slept, expected, period)
        });
        waits += other.began.saturating_sub(due);
    }
    let least = if count == together.jobs {
        together.waited.saturating_sub(waits)
    } else {
        Nanos::ZERO
    };
    (least.min(most), most)
}

/// Returns the first due time at or after `from`, if one of them is `due`.
fn first_due(from: Nanos, due: Nanos, period: Nanos) -> Nanos {
    let period = period.0.max(1);
    let after = from.0 % period;
    let ahead = (due.0 % period + period - after) % period;
    Nanos(from.0.saturating_add(ahead))
}

#[cfg(test)]
mod tests {
    use punctual_model::Comm;
    use punctual_model::cause::Source;

    use super::super::jobs::Together;
    use super::*;

    /// A job of a thread that slept from `slept` to `began`, and ran for 10.
    fn job(slept: u64, began: u64) -> SwitchJob {
        let (from, to) = (Nanos(began), Nanos(began + 10));
        SwitchJob {
            began: from,
            end: to,
            slept: Nanos(slept),
            cpu: 1,
            before: None,
            together: None,
            ran: Nanos(10),
            preempted: (Nanos::ZERO, 0),
            spans: vec![Span {
                from,
                to,
                on_cpu: true,
            }],
        }
    }

    /// Returns the unrecorded activity and the length of each share; `None` for time without records.
    fn parts(
        span: (u64, u64),
        jobs: &[SwitchJob],
        period: Option<u64>,
    ) -> Vec<(Option<Missing>, u64)> {
        let victim = Victim {
            tid: 7,
            comm: Comm::new(b"t"),
            scheduling: None,
            cpu: 1,
        };
        let (from, to) = (Nanos(span.0), Nanos(span.1));
        let jobs: Vec<&SwitchJob> = jobs.iter().collect();
        let (window, shares) =
            explained(victim, Delay::Timer, (from, to), &jobs, period.map(Nanos));
        assert_eq!(window.segments.first().map(|one| one.from), Some(from));
        assert_eq!(window.segments.last().map(|one| one.to), Some(to));
        let gaps = window.segments.windows(2);
        assert!(gaps.into_iter().all(|pair| pair[0].to == pair[1].from));
        let part = |share: &Share| match &share.cause.source {
            Source::Unexplained(Unknown::NotRecorded { what, .. }) => (Some(*what), share.ns.0),
            _ => (None, share.ns.0),
        };
        shares.iter().map(part).collect()
    }

    #[test]
    fn counted_wait_divides_the_sleep() {
        use Missing::{BeforeWakeUp, OnCpu, RanInstead};
        let mut late = job(500, 1_300);
        late.before = Some(Nanos(280));
        let expected = [
            (Some(BeforeWakeUp), 20),
            (Some(RanInstead), 280),
            (Some(OnCpu), 5),
        ];
        assert_eq!(parts((1_000, 1_305), &[late], None), expected);
    }

    #[test]
    fn waits_of_other_jobs_are_subtracted() {
        use Missing::{AroundWakeUp, BeforeWakeUp, OnCpu, RanInstead};
        let together = Some(Together {
            number: 2,
            jobs: 2,
            waited: Nanos(290),
        });
        let jobs = [job(500, 1_300), job(1_310, 2_015)].map(|job| SwitchJob { together, ..job });
        // The other job began 15 after it was due at 2000, so its wait was at most 15.
        let expected = [
            (Some(BeforeWakeUp), 10),
            (Some(AroundWakeUp), 15),
            (Some(RanInstead), 275),
            (Some(OnCpu), 5),
        ];
        assert_eq!(parts((1_000, 1_305), &jobs, Some(1_000)), expected);
        // Without a period, it may have waited since it went to sleep.
        let expected = [
            (Some(BeforeWakeUp), 10),
            (Some(AroundWakeUp), 290),
            (Some(OnCpu), 5),
        ];
        assert_eq!(parts((1_000, 1_305), &jobs, None), expected);
        // A job that is missing may have waited all the time.
        assert_eq!(parts((1_000, 1_305), &jobs[..1], Some(1_000)), expected);
    }

    #[test]
    fn time_without_records_is_unknown() {
        use Missing::{AroundWakeUp, OnCpu};
        assert_eq!(parts((1_000, 1_300), &[], None), [(None, 300)]);
        let late = job(1_100, 1_250);
        let expected = [
            (None, 100 + 40),
            (Some(AroundWakeUp), 150),
            (Some(OnCpu), 10),
        ];
        assert_eq!(parts((1_000, 1_300), &[late], None), expected);
    }

    #[test]
    fn preempted_work_waits_for_its_cpu() {
        use Missing::{OnCpu, RanInstead};
        let mut work = job(0, 10);
        let span = |from, to, on_cpu| Span {
            from: Nanos(from),
            to: Nanos(to),
            on_cpu,
        };
        work.spans = vec![span(10, 1_100, true), span(1_100, 1_250, false)];
        work.spans.push(span(1_250, 1_400, true));
        work.end = Nanos(1_400);
        let expected = [(Some(OnCpu), 150), (Some(RanInstead), 150)];
        assert_eq!(parts((1_000, 1_300), &[work], None), expected);
    }
}
