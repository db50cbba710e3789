//! The activity of each thread that was involved in a job.

use punctual_model::{ActivitySpan, Nanos, ThreadActivity, ThreadState, Window};

use super::split::Split;
use super::tracks::{Phase, Span, Tracks};

/// Maximum number of threads; those that ran longest are kept.
const MOST: usize = 12;

/// Returns the activity of each thread that was involved in a job: first the job's own thread, then the
/// others by their run time in it. Returns nothing for other kinds of delay.
pub fn thread_activity(window: &Window) -> Vec<ThreadActivity> {
    if window.delay != punctual_model::Delay::Job {
        return Vec::new();
    }
    let events = super::sorted(window);
    let tracks = Tracks::from_events(window, &events);
    let split = Split::new(window, &tracks);
    let activity = |tid: u32| ThreadActivity {
        task: tracks.names.task(tid),
        spans: tracks
            .spans(tid, window.expected, window.actual)
            .into_iter()
            .map(activity_span)
            .collect(),
    };
    let own = window.victim.tid;
    let mut others: Vec<ThreadActivity> = (split.threads.iter().copied())
        .filter(|tid| *tid != own)
        .map(activity)
        .collect();
    others.sort_by_key(|one| std::cmp::Reverse(ran(one)));
    others.truncate(MOST - 1);
    let mut all = vec![activity(own)];
    all[0].task.comm = window.victim.comm;
    all.extend(others);
    all
}

fn ran(thread: &ThreadActivity) -> Nanos {
    let running = thread
        .spans
        .iter()
        .filter(|span| span.state == ThreadState::Running);
    Nanos(running.map(|span| (span.to - span.from).0).sum())
}

fn activity_span(span: Span) -> ActivitySpan {
    ActivitySpan {
        from: span.from,
        to: span.to,
        cpu: span.cpu(),
        state: match span.phase {
            Phase::Runs(_) => ThreadState::Running,
            Phase::Ready => ThreadState::Ready,
            Phase::Asleep(_) => ThreadState::Asleep,
            Phase::Stopped => ThreadState::Stopped,
            Phase::Ended | Phase::Unknown => ThreadState::Unknown,
        },
    }
}
