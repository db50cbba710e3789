//! The way through a window: its events by time, what each changes, and what
//! stands in the victim's way between one and the next.

use std::borrow::Cow;
use std::collections::BTreeMap;

use punctual_model::{Delay, KernelPriority, Nanos, Segment, TraceEvent, Window};

use crate::cause::{Cause, Moment, cause};
use crate::context::{Context, Threads};
use crate::lane::{Future, Mark, marks};
use crate::noise::spell_out;
use crate::throttle;
use crate::victim::{State, Thread, Why};

/// The slack of a thread that has set none (prctl(2), PR_SET_TIMERSLACK).
const USUAL_SLACK: Nanos = Nanos::from_micros(50);

/// What happened besides, for the sentence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    /// The last move of the victim within the window, from and to.
    pub(crate) moved: Option<(u32, u32)>,
}

/// The stretches from the expected time to the actual one: without gaps, in
/// order, none empty.
pub(crate) fn walk(window: &Window) -> (Vec<Segment>, Story) {
    let spelt_out = spell_out(window);
    let sorted = window.events.is_sorted_by_key(|event| event.time);
    let mut events = Cow::Borrowed(&window.events);
    if !sorted || !spelt_out.is_empty() {
        let events = events.to_mut();
        events.extend(spelt_out);
        // Stable: what has the same time stays as it was written.
        events.sort_by_key(|event| event.time);
    }
    let (stretches, story) = Walk::new(window, &events).run();
    (throttle::judge(window, stretches), story)
}

/// A segment, and who had the CPU in it while the victim was runnable, where that
/// may be a throttle.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    pub(crate) segment: Segment,
    pub(crate) rival: Option<u32>,
}

pub(crate) struct Walk<'a> {
    pub(crate) window: &'a Window,
    marks: Vec<(Nanos, Mark<'a>)>,
    pub(crate) future: Future,
    contexts: BTreeMap<u32, Context>,
    pub(crate) threads: Threads,
    pub(crate) victim: Thread,
    stretches: Vec<Stretch>,
    story: Story,
}

impl<'a> Walk<'a> {
    fn new(window: &'a Window, events: &'a [TraceEvent]) -> Self {
        let marks = marks(window, events);
        let threads = Threads::of(events);
        Self {
            future: Future::of(window.victim.tid, &marks, &threads),
            contexts: before_all(&marks, &threads),
            victim: Thread::of(window, events),
            window,
            marks,
            threads,
            stretches: Vec::new(),
            story: Story::default(),
        }
    }

    fn run(mut self) -> (Vec<Stretch>, Story) {
        let (expected, actual) = (self.window.expected, self.window.actual);
        let marks = std::mem::take(&mut self.marks);
        let mut at = expected;
        for (time, mark) in &marks {
            let time = (*time).clamp(expected, actual.max(expected));
            self.put(at, time, Some(mark));
            at = at.max(time);
            self.apply(mark);
        }
        self.put(at, actual, None);
        (self.stretches, self.story)
    }

    fn apply(&mut self, mark: &Mark<'_>) {
        match mark {
            Mark::Nmi { cpu, begins } => {
                let context = self.contexts.entry(*cpu).or_default();
                context.nmi = match begins {
                    true => context.nmi.saturating_add(1),
                    false => context.nmi.saturating_sub(1),
                };
            }
            Mark::Event(event) => {
                let due = event.time >= self.window.expected;
                let context = self.contexts.entry(event.cpu).or_default();
                context.apply(event, &mut self.threads);
                self.threads.apply(event);
                self.victim.apply(event, due);
                if due && self.victim.moved.is_some() {
                    self.story.moved = self.victim.moved;
                }
            }
        }
    }

    /// Gives the time from `from` to `to` to what stands in the way now; `next`
    /// is what ends it. Until the slack of its timer is over, a sleeper is not
    /// late, and the time is cut there.
    fn put(&mut self, from: Nanos, to: Nanos, next: Option<&Mark<'_>>) {
        let over = match self.victim.state {
            State::Asleep(Why::First) => self.window.expected + self.slack().0,
            _ => from,
        };
        let middle = over.clamp(from, to.max(from));
        self.put_whole(from, middle, next);
        self.put_whole(middle, to, next);
    }

    /// By how much the victim's timer may be late, and whether that is known.
    pub(crate) fn slack(&self) -> (Nanos, bool) {
        let real_time = self.victim.prio.is_none_or(KernelPriority::is_real_time);
        match self.victim.slack {
            _ if self.window.delay != Delay::Timer => (Nanos::ZERO, true),
            Some(slack) => (slack, true),
            // The kernel takes no notice of a real-time thread's slack.
            None if real_time => (Nanos::ZERO, true),
            None => (USUAL_SLACK, false),
        }
    }

    fn put_whole(&mut self, from: Nanos, to: Nanos, next: Option<&Mark<'_>>) {
        if from >= to {
            return;
        }
        let cpu = self.lane(from);
        let unseen = Context::default();
        let context = self.contexts.get(&cpu).unwrap_or(&unseen);
        let moment = Moment {
            walk: self,
            context,
            cpu,
            from,
            length: to - from,
            next,
        };
        let Cause {
            kind,
            who,
            detail,
            rival,
        } = cause(&moment);
        match self.stretches.last_mut() {
            Some(Stretch { segment: last, .. })
                if (last.kind, &last.who, &last.detail, last.cpu) == (kind, &who, &detail, cpu) =>
            {
                last.to = to;
            }
            _ => self.stretches.push(Stretch {
                rival,
                segment: Segment {
                    from,
                    to,
                    cpu,
                    kind,
                    who,
                    detail,
                },
            }),
        }
    }

    /// The CPU that matters for the victim at a moment.
    fn lane(&self, at: Nanos) -> u32 {
        match self.victim.state {
            State::Running | State::Queued | State::Stopped | State::Gone => self.victim.cpu,
            State::Woken => self.future.place(at).unwrap_or(self.victim.cpu),
            State::Asleep(Why::Lock(holder)) => self
                .running_on(holder)
                .or_else(|| self.future.waking(at).map(|waking| waking.cpu))
                .unwrap_or(self.victim.cpu),
            State::Asleep(_) => self
                .future
                .waking(at)
                .map_or(self.victim.cpu, |waking| waking.cpu),
            State::Unknown => self.future.place(at).unwrap_or(self.victim.cpu),
        }
    }

    fn running_on(&self, pid: u32) -> Option<u32> {
        self.contexts
            .iter()
            .find(|(_, context)| context.current.is_some_and(|task| task.pid == pid))
            .map(|(cpu, _)| *cpu)
    }
}

/// What each CPU must have been at before its first event: that event bears the
/// thread that was current.
fn before_all(marks: &[(Nanos, Mark<'_>)], threads: &Threads) -> BTreeMap<u32, Context> {
    let mut contexts = BTreeMap::new();
    for (_, mark) in marks {
        let Mark::Event(event) = mark else { continue };
        contexts
            .entry(event.cpu)
            .or_insert_with(|| Context::before(event, threads));
    }
    contexts
}
