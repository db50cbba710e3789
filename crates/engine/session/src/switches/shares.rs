//! Shares of the time of a job, as far as context switches show them.

use std::collections::BTreeMap;

use punctual_model::cause::{Cause, Missing, Segment};
use punctual_model::{Delay, Nanos, Share, Victim, Window};

use super::switch_jobs::{Span, SwitchJob};

/// The event that shows which thread has a CPU.
const SWITCHES: &str = "sched:sched_switch";
/// Events that show the activity of a thread on its CPU.
const ACTIVITY: [&str; 3] = [
    "raw_syscalls:sys_enter",
    "exceptions:page_fault_user",
    "irq:irq_handler_entry",
];

/// Returns what took the time of a job.
pub(super) fn shares(job: &SwitchJob) -> Vec<Share> {
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
    Cause::not_recorded(Missing::WhatRan, &[SWITCHES])
}

fn running() -> Cause {
    Cause::not_recorded(Missing::OnCpu, &ACTIVITY)
}

/// Returns the events that would show the rest.
pub(super) fn missing_events() -> Vec<String> {
    let missing = [SWITCHES].into_iter().chain(ACTIVITY);
    missing.map(str::to_owned).collect()
}

/// Returns the timeline of a job.
pub(super) fn window(victim: Victim, job: &SwitchJob) -> Window {
    let before = Span {
        from: job.release(),
        to: job.began,
        on_cpu: false,
    };
    let cpu = job.cpu;
    let segment = |span: &Span| Segment {
        from: span.from,
        to: span.to,
        cpu,
        cause: if span.on_cpu { running() } else { waiting() },
        words: None,
    };
    let spans = [before].into_iter().filter(|span| span.from < span.to);
    let spans: Vec<Span> = spans.chain(job.spans.iter().copied()).collect();
    Window {
        victim,
        delay: Delay::Job,
        expected: job.release(),
        actual: job.end,
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
        segments: if job.has_all_spans() {
            spans.iter().map(segment).collect()
        } else {
            Vec::new()
        },
        activity: Vec::new(),
    }
}
