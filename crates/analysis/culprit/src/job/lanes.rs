//! Lanes of a plot: the activity of each thread that was involved in a job.

use punctual_model::{LaneSpan, LaneState, Nanos, ThreadLane, Window};

use super::split::Split;
use super::tracks::{Phase, Span, Tracks};

/// Maximum number of lanes; those with the longest parts are kept.
const MOST: usize = 12;

/// Returns a lane for each thread that was involved in a job: first the job's own thread, then the
/// others by their run time in it. Returns nothing for other kinds of delay.
pub fn lanes(window: &Window) -> Vec<ThreadLane> {
    if window.delay != punctual_model::Delay::Job {
        return Vec::new();
    }
    let events = super::sorted(window);
    let tracks = Tracks::of(window, &events);
    let split = Split::of(window, &tracks);
    let lane = |tid: u32| ThreadLane {
        task: tracks.names.task(tid),
        spans: tracks
            .spans(tid, window.expected, window.actual)
            .into_iter()
            .map(lane_span)
            .collect(),
    };
    let own = window.victim.tid;
    let mut others: Vec<ThreadLane> = (split.threads.iter().copied())
        .filter(|tid| *tid != own)
        .map(lane)
        .collect();
    others.sort_by_key(|lane| std::cmp::Reverse(ran(lane)));
    others.truncate(MOST - 1);
    let mut lanes = vec![lane(own)];
    lanes[0].task.comm = window.victim.comm;
    lanes.extend(others);
    lanes
}

fn ran(lane: &ThreadLane) -> Nanos {
    let running = lane
        .spans
        .iter()
        .filter(|span| span.state == LaneState::Running);
    Nanos(running.map(|span| (span.to - span.from).0).sum())
}

fn lane_span(span: Span) -> LaneSpan {
    LaneSpan {
        from: span.from,
        to: span.to,
        cpu: span.cpu(),
        state: match span.phase {
            Phase::Runs(_) => LaneState::Running,
            Phase::Ready => LaneState::Ready,
            Phase::Asleep(_) => LaneState::Asleep,
            Phase::Stopped => LaneState::Stopped,
            Phase::Ended | Phase::Unknown => LaneState::Unknown,
        },
    }
}
