//! The chain of wakers: the thread that a given thread waited for, the thread that this second one
//! waited for, and so on.

use punctual_model::Nanos;
use punctual_model::cause::{Awaited, Cause, Detail, Leaf, Name, Source, Wait};

use super::tracks::{Phase, Span, Tracks};
use super::waker::By;

/// Maximum number of threads in a chain.
const DEEPEST: usize = 8;

/// A part of a wait.
pub(crate) struct Part {
    pub(crate) from: Nanos,
    pub(crate) to: Nanos,
    pub(crate) cpu: Option<u32>,
    pub(crate) cause: Cause,
    /// Threads involved in this part.
    pub(crate) threads: Vec<u32>,
}

struct Follower<'a> {
    tracks: &'a Tracks,
    wait: Wait,
    parts: Vec<Part>,
}

/// Splits a thread's sleep by the activity of the thread that ended it. The parts cover the sleep
/// without gaps.
pub(crate) fn follow(
    tracks: &Tracks,
    (sleeper, waker): (u32, u32),
    span: Span,
    wait: Wait,
) -> Vec<Part> {
    let mut follower = Follower {
        tracks,
        wait,
        parts: Vec::new(),
    };
    follower.go((span.from, span.to), &mut vec![sleeper, waker]);
    follower.parts
}

impl Follower<'_> {
    /// `path`: the sleeper, followed by the thread that each one waits for.
    fn go(&mut self, (from, to): (Nanos, Nanos), path: &mut Vec<u32>) {
        let Some(last) = path.last().copied() else {
            return;
        };
        for span in self.tracks.spans(last, from, to) {
            match span.phase {
                Phase::Runs(cpu) => self.ran(span, cpu, path),
                Phase::Ready => self.waited(span, last, path),
                Phase::Asleep(wake) => self.slept(span, wake, path),
                Phase::Stopped => self.push_leaf(span, path, Leaf::Stopped),
                Phase::Ended | Phase::Unknown => self.push_leaf(span, path, Leaf::Unknown),
            }
        }
    }

    /// Interrupt handlers that run on top of the thread are separate causes.
    fn ran(&mut self, span: Span, cpu: u32, path: &[u32]) {
        for part in self.tracks.on(cpu, span.from, span.to) {
            let time = (part.from, part.to);
            match part.on_top {
                Some(cause) => self.push(time, Some(cpu), cause, path[1..].to_vec()),
                None => {
                    let span = Span {
                        from: part.from,
                        to: part.to,
                        ..span
                    };
                    self.push_leaf(span, path, Leaf::Ran);
                }
            }
        }
    }

    fn waited(&mut self, span: Span, last: u32, path: &[u32]) {
        for (from, to, cpu) in self.tracks.waited_on(last, span.from, span.to) {
            let Some(cpu) = cpu else {
                self.push_leaf(Span { from, to, ..span }, path, Leaf::Unknown);
                continue;
            };
            for part in self.tracks.on(cpu, from, to) {
                let time = (part.from, part.to);
                let (leaf, rival) = match part.current {
                    None => (Leaf::Unknown, None),
                    // An interrupt may have used the CPU.
                    Some(task) if task.is_idle() && self.tracks.is_light() => (Leaf::Unknown, None),
                    Some(task) if task.is_idle() || task.pid == last => (Leaf::NotScheduled, None),
                    Some(task) => {
                        let prio = self.tracks.priority(task.pid, part.from);
                        let by = Name::from(&task);
                        (Leaf::Preempted { by, prio }, Some(task.pid))
                    }
                };
                match part.on_top {
                    Some(cause) => self.push(time, Some(cpu), cause, path[1..].to_vec()),
                    None => {
                        let threads = path[1..].iter().copied().chain(rival).collect();
                        let cause = self.cause(path, leaf);
                        self.push(time, Some(cpu), cause, threads);
                    }
                }
            }
        }
    }

    fn slept(&mut self, span: Span, wake: Option<usize>, path: &mut Vec<u32>) {
        let last = path.last().copied().unwrap_or_default();
        let by = wake.map(|number| self.tracks.woken_by(last, span.from, number));
        match by {
            Some(By::Timer) => self.push_leaf(span, path, Leaf::Slept),
            Some(By::Device(device)) => self.push_leaf(span, path, Leaf::Device(device)),
            Some(By::Thread(waker)) if !path.contains(&waker) && path.len() <= DEEPEST => {
                path.push(waker);
                self.go((span.from, span.to), path);
                path.pop();
            }
            Some(By::Thread(_) | By::Unrecorded) | None => self.push_leaf(span, path, Leaf::Asleep),
        }
    }

    fn push_leaf(&mut self, span: Span, path: &[u32], leaf: Leaf) {
        let cause = self.cause(path, leaf);
        self.push((span.from, span.to), span.cpu(), cause, path[1..].to_vec());
    }

    /// If the chain ends at a device, the sleeper waits for that device, even if there are other
    /// threads in between.
    fn cause(&self, path: &[u32], leaf: Leaf) -> Cause {
        let name = |tid: &u32| Name::from(&self.tracks.names.task(*tid));
        let chain: Vec<Name> = path[1..].iter().map(name).collect();
        match (self.wait, leaf) {
            (Wait::Thread, Leaf::Device(device)) => {
                Cause::new(Source::Device(device)).with(Detail::Through(chain))
            }
            (Wait::Page, Leaf::Device(device)) => {
                Cause::new(Source::PageFault).with(Detail::PageFrom(device))
            }
            (wait, leaf) => Cause::new(Source::Awaited(Awaited { wait, chain, leaf })),
        }
    }

    fn push(
        &mut self,
        (from, to): (Nanos, Nanos),
        cpu: Option<u32>,
        cause: Cause,
        threads: Vec<u32>,
    ) {
        self.parts.push(Part {
            from,
            to,
            cpu,
            cause,
            threads,
        });
    }
}
