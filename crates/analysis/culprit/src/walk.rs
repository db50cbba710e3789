//! Walks through the events of a window in order of time, and determines what delays the victim
//! between consecutive events.

use punctual_model::cause::{Cause, Missing};
use punctual_model::{Delay, Nanos, TraceEvent, Window};

use crate::cause_span::{CauseSpan, merged};
use crate::context::Context;
use crate::events::SWITCH;
use crate::host::{self, OnHost};
use crate::job;
use crate::judge::{Judged, cause};
use crate::noise::spell_out;
use crate::scene::{Moment, Scene};
use crate::timeline::{TimelineEvent, timeline_events};
use crate::victim::{State, Why};
use crate::{theft, throttle};

/// Returns the segments from the expected time to the actual one, in order, without gaps between
/// them and without empty ones. Also returns the last migration of the victim since it was due: the
/// old and the new CPU.
pub(crate) fn walk(window: &Window) -> (Vec<CauseSpan>, Option<(u32, u32)>) {
    if !window.evidence.stated.is_empty() {
        return (stated(window), None);
    }
    if window.delay == Delay::Job {
        return (judged(window, job::walk(window)), None);
    }
    let spelt_out = spell_out(window);
    let mut events = job::sorted(window);
    if !spelt_out.is_empty() {
        let events = events.to_mut();
        events.extend(spelt_out);
        // The sort is stable: events with equal times keep their order.
        events.sort_by_key(|event| event.time);
    }
    run(window, &events)
}

/// Returns the causes that a tracer states itself. Time that it leaves out is unexplained.
fn stated(window: &Window) -> Vec<CauseSpan> {
    let cpu = window.victim.cpu;
    let mut spans: Vec<CauseSpan> = Vec::new();
    let mut at = window.expected;
    let unknown = Cause::not_recorded(Missing::WhatRan, &[SWITCH]);
    let mut push = |from: Nanos, to: Nanos, cause: &Cause| {
        if from < to {
            spans.push(CauseSpan {
                from,
                to,
                cpu,
                cause: cause.clone(),
                rival: None,
            });
        }
    };
    for segment in &window.evidence.stated {
        let from = segment.from.clamp(at, window.actual.max(at));
        let to = segment.to.clamp(from, window.actual.max(from));
        push(at, from, &unknown);
        push(from, to, &segment.cause);
        at = to;
    }
    push(at, window.actual, &unknown);
    merged(spans)
}

fn run(window: &Window, events: &[TraceEvent]) -> (Vec<CauseSpan>, Option<(u32, u32)>) {
    let (expected, actual) = (window.expected, window.actual);
    let marks = timeline_events(window, events);
    let mut scene = Scene::new(window, events, &marks);
    let mut spans = Vec::new();
    let mut at = expected;
    for (time, mark) in &marks {
        let time = (*time).clamp(expected, actual.max(expected));
        push(&scene, &mut spans, at..time, Some(mark));
        at = at.max(time);
        scene.apply(time, mark);
    }
    push(&scene, &mut spans, at..actual, None);
    (judged(window, spans), scene.moved)
}

/// Applies counters to the segments: first those of control groups, then those of stolen time.
fn judged(window: &Window, spans: Vec<CauseSpan>) -> Vec<CauseSpan> {
    let throttled = throttle::judge(window, spans);
    merged(theft::judge(window, throttled))
}

/// Charges a span of time to the current cause of delay; `next` is the event that ends the span. A
/// sleeping victim is not late until the slack of its timer has passed, so the span is split there.
fn push(
    scene: &Scene<'_>,
    spans: &mut Vec<CauseSpan>,
    time: std::ops::Range<Nanos>,
    next: Option<&TimelineEvent<'_>>,
) {
    let over = match scene.victim.state {
        State::Asleep(Why::First) => scene.window.expected + scene.slack().0,
        _ => time.start,
    };
    let middle = over.clamp(time.start, time.end.max(time.start));
    for (from, to) in [(time.start, middle), (middle, time.end)] {
        if from < to {
            let cpu = scene.victim_cpu(from);
            for (from, to, on_host) in host::pieces(scene.window, cpu, (from, to)) {
                let mut span = span(scene, cpu, (from, to), next);
                if let OnHost::Away(cause) = on_host
                    && host::explains(&span.cause)
                {
                    (span.cause, span.rival) = (cause.clone(), None);
                }
                spans.push(span);
            }
        }
    }
}

fn span(
    scene: &Scene<'_>,
    cpu: u32,
    (from, to): (Nanos, Nanos),
    next: Option<&TimelineEvent<'_>>,
) -> CauseSpan {
    let unseen = Context::default();
    let moment = Moment {
        scene,
        context: scene.context(cpu).unwrap_or(&unseen),
        cpu,
        from,
        length: to - from,
        next,
    };
    let Judged { cause, rival } = cause(&moment);
    CauseSpan {
        from,
        to,
        cpu,
        cause,
        rival,
    }
}
