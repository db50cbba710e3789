//! Finds late reactions in a trace that any tool recorded, and collects the events around them.
//!
//! A reaction is one of the following: a wait of a thread for a CPU; a timer of a thread that
//! expired late, together with the wait after it; or a latency that a program or a tracer wrote
//! into the trace.
//!
//! # Missing events
//! If a CPU may have lost events for some time, that time becomes a gap of the window
//! ([`punctual_model::EventGap`]), and its cause is unknown. There is also a gap if an event
//! belongs to a different thread than the one that the last switch named. If a gap may have
//! interrupted a wait, the length of the wait is unknown, so the wait is only counted.
//!
//! # Virtual machines
//! [`VirtualCpus`] follows the CPUs of a virtual machine in the trace of its host. Their time outside
//! guest mode is evidence for the late reactions in the virtual machine.

mod chain;
mod clocks;
mod finish;
mod functions;
mod history;
mod host;
mod host_view;
mod longest;
mod marks;
mod missing;
mod noise;
mod open;
mod osnoise;
mod refills;
mod stated_latency;
mod statement;
mod timers;
mod waits;
mod wanted;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use punctual_model::cause::{PolicyChange, RefusedCall, SchedulerFinding};
use punctual_model::{
    Delay, EventGap, EventKind, Evidence, FunctionSum, Histogram, KernelPriority, Nanos, NotShown,
    Segment, Task, TraceEvent, Vector, Victim, Window,
};

pub use host::VirtualCpus;
pub use host_view::HostView;
pub use open::OpenWait;
pub use timers::DueTimers;
pub use waits::ThreadWaits;
pub use wanted::Wanted;

use crate::finder::{Late, LateWakeUps, Wait};
use crate::policies::RefusedCalls;
use crate::scene::hides_changes;
use crate::scheduler::SchedulerRules;
use clocks::Clocks;
use functions::Functions;
use history::{History, TraceSlice, cpus_of};
use longest::Longest;
use marks::STATED_WITHIN;
use open::OpenCalls;
use osnoise::TracerSample;
use refills::{LastCalls, TimerCalls};
use stated_latency::TimerlatIrq;
use timers::{Expired, Timers};
use waits::WaitsByThread;

/// Maximum number of events that are held, and therefore of events in a window.
const HELD: usize = 400_000;

/// Maximum number of threads that are followed. More can only come from a damaged trace.
const THREADS: usize = 1 << 20;

/// How long before a reaction events are kept, to show what ran before it.
const BEFORE: Nanos = Nanos::from_millis(1);

/// How long after a reaction events are kept.
const AFTER: Nanos = Nanos::from_micros(20);

/// A late reaction with the events around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reaction {
    /// The events, and the beginning and end of the latency.
    pub window: Window,
    /// Text in the trace that states the latency, if there is one.
    pub stated: Option<String>,
    /// Whether another trace has begun since, so that later functions do not belong to it.
    is_over: bool,
    /// CPU of the waker, if the latency begins with an event of the waker.
    waker: Option<u32>,
    /// Sample of the kernel's tracer that states the latency, if there is one.
    sample: Option<TracerSample>,
    /// Last call of each timer function during the latency.
    timer_calls: LastCalls,
}

/// Facts that the trace file states.
#[derive(Clone, Copy, Debug)]
pub struct TraceFacts<'a> {
    /// Names of the recorded events.
    pub recorded: &'a BTreeSet<String>,
    /// Whether clocks of different CPUs may differ.
    pub clocks_differ: bool,
    /// Resolution of times.
    pub resolution: Nanos,
    /// Whether the architecture may have events of `irq_vectors`.
    pub may_have_vectors: bool,
    /// The kernel that was traced, if known: `6.12.40`.
    pub kernel: Option<&'a str>,
    /// Names of kernel addresses. Each address is either the start of a function or an exact
    /// address.
    pub symbols: &'a BTreeMap<u64, String>,
    /// Names of system calls.
    pub calls: &'a BTreeMap<i64, String>,
}

/// Late reactions of a trace.
#[derive(Debug)]
pub struct LateFound {
    /// Late reactions that were kept, in order of time.
    pub reactions: Vec<Reaction>,
    /// Number of selected reactions that are longer than the threshold, including those not kept.
    pub above: u64,
    /// Whether the kept reactions are those of real-time threads only.
    pub real_time: bool,
    /// Number of reactions of ordinary threads that were left out because there are real-time
    /// threads, and the longest of these reactions.
    pub ordinary: (u64, Option<Late>),
    /// The waits of the selected threads.
    pub threads: Vec<ThreadWaits>,
    /// The waits of the threads without separate figures, because the number of threads with
    /// separate figures is limited.
    pub other_threads: Option<Histogram>,
    /// Waits that the end of the trace cuts off: those of real-time threads first, each group in
    /// descending order of length.
    pub open: Vec<OpenWait>,
    /// Number of waits without an end event.
    pub without_end: u64,
    /// Number of waits whose length is unknown because events that may have interrupted them are
    /// missing.
    pub incomplete: u64,
    /// Number of events.
    pub events: u64,
    /// Number of gaps with lost events, and number of lost events if the trace states this number.
    pub lost: (u64, u64),
    /// Number of switches that are missing from the trace even though switches were recorded.
    pub contradictions: u64,
    /// Time of the first and the last event.
    pub span: Option<(Nanos, Nanos)>,
    /// CPUs with events.
    pub cpus: BTreeSet<u32>,
    /// Events that were not recorded, or whose end was not.
    pub missing: Vec<String>,
    /// Other information that the trace lacks.
    pub not_shown: Vec<NotShown>,
    /// The kernel functions with the longest runs, the longest first.
    pub functions: Vec<FunctionSum>,
    /// Rules of the scheduler that the events contradict.
    pub scheduler: Vec<SchedulerFinding>,
    /// Threads that lost their policy, the earliest first.
    pub policy_changes: Vec<PolicyChange>,
    /// Refused calls for a policy or for locked memory.
    pub refused_calls: Vec<RefusedCall>,
    /// Largest limit on the difference between the clocks of CPUs. The outer value is `None` if no
    /// limit was needed, the inner one if none was found.
    pub clock_error: Option<Option<Nanos>>,
}

/// A reaction that has ended, but whose events have not been collected yet.
#[derive(Debug)]
struct Ended {
    late: Late,
    waker: Option<u32>,
    /// Older events of the thread that the explanation needs.
    before: Vec<TraceEvent>,
    stated: Option<String>,
    sample: Option<TracerSample>,
    /// The causes that a tracer states itself.
    segments: Vec<Segment>,
}

/// Finds late reactions in a stream of events in ascending order of time. Memory is bounded.
#[derive(Debug)]
pub struct LateReactions {
    wanted: Wanted,
    history: History,
    finder: LateWakeUps,
    timers: Timers,
    timer_calls: TimerCalls,
    rules: SchedulerRules,
    refused: RefusedCalls,
    clocks: Clocks,
    waits: WaitsByThread,
    names: HashMap<u32, Task>,
    calls: OpenCalls,
    /// End of the last gap with missing events.
    last_gap: Nanos,
    /// CPU of the waker at the last wake-up of each waiting thread.
    woken: HashMap<u32, u32>,
    /// Last switch of each thread away from its CPU.
    left: HashMap<u32, TraceEvent>,
    /// Timers that woke threads that have not run since.
    expired: HashMap<u32, Expired>,
    /// Time at which the last timer that woke a thread was armed.
    slept: HashMap<u32, Nanos>,
    /// Last sample of each CPU's timerlat interrupt.
    interrupts: HashMap<u32, TimerlatIrq>,
    /// The CPU whose sample stopped the tracer timerlat.
    stopped_on: Option<u32>,
    /// The longest noises of the tracer osnoise.
    noises: Vec<TraceEvent>,
    /// The tracer's thread on each CPU, if known.
    tracers: HashMap<u32, Task>,
    /// Whether a tracer stated a latency.
    has_samples: bool,
    functions: Functions,
    open: VecDeque<Ended>,
    /// Jobs to explain that have not ended yet.
    jobs: VecDeque<Late>,
    real_time: Longest,
    others: Longest,
    seen_real_time: bool,
    now: Nanos,
    flags: bool,
    ended_vectors: BTreeSet<Vector>,
    found: LateFound,
}

impl LateReactions {
    /// Creates a finder.
    pub fn new(mut wanted: Wanted) -> Self {
        let most = wanted.most;
        let jobs = wanted.jobs.as_mut().map(std::mem::take);
        Self {
            wanted,
            history: History::new(HELD),
            finder: LateWakeUps::new(Nanos::ZERO),
            timers: Timers::default(),
            timer_calls: TimerCalls::default(),
            rules: SchedulerRules::default(),
            refused: RefusedCalls::default(),
            clocks: Clocks::default(),
            waits: WaitsByThread::default(),
            names: HashMap::new(),
            calls: OpenCalls::default(),
            last_gap: Nanos::ZERO,
            woken: HashMap::new(),
            left: HashMap::new(),
            expired: HashMap::new(),
            slept: HashMap::new(),
            interrupts: HashMap::new(),
            stopped_on: None,
            noises: Vec::new(),
            tracers: HashMap::new(),
            has_samples: false,
            functions: Functions::default(),
            open: VecDeque::new(),
            jobs: jobs.unwrap_or_default().into(),
            real_time: Longest::new(most),
            others: Longest::new(most),
            seen_real_time: false,
            now: Nanos::ZERO,
            flags: false,
            ended_vectors: BTreeSet::new(),
            found: LateFound::new(),
        }
    }

    /// Processes an event. An event that is earlier than the previous one is the first event of
    /// another trace.
    pub fn event(&mut self, event: TraceEvent) {
        self.advance(event.time);
        self.found.note(&event);
        self.flags |= event.flags != 0;
        if let EventKind::VectorExit { vector } = &event.kind {
            self.ended_vectors.insert(vector.clone());
        }
        self.note_threads(&event);
        self.note_noise(&event);
        self.timer_calls.note(&event);
        self.refused.event(&event);
        self.calls.event(&event);
        let calls = |from, to| self.timer_calls.last_within(from, to).into_keys().collect();
        self.rules.event(&event, calls);
        let mut timer = None;
        if let Some((tid, expired)) = self.timers.take(&event) {
            timer = (self.wanted.jobs.is_some())
                .then(|| expired.event(&event))
                .flatten();
            self.slept.insert(tid, expired.armed.time);
            self.expired.insert(tid, expired);
        }
        let names = &self.names;
        let wait = (self.finder).take(&event, &|tid| tid != 0 && names.contains_key(&tid));
        let by_tracer = match event.kind {
            EventKind::SampleThreshold { duration, .. } => Some((event.pid, event.cpu, duration)),
            _ => None,
        };
        let left = match &event.kind {
            EventKind::Switch { prev, .. } if prev.pid != 0 => Some((prev.pid, event.clone())),
            _ => None,
        };
        for ran in timer
            .into_iter()
            .chain([event])
            .filter_map(|event| self.history.push(event))
        {
            self.found.contradictions += 1;
            self.last_gap = self.now;
            self.finder.has_run(ran);
        }
        if let Some(Wait::InTime(late) | Wait::TooLong(late)) = wait {
            self.waited(late);
        }
        if let Some((tid, event)) = left.filter(|(tid, _)| self.names.contains_key(tid)) {
            self.left.insert(tid, event);
        }
        if let Some((tid, cpu, duration)) = by_tracer {
            self.stated_latency(
                (tid, cpu),
                (self.now, duration),
                Some(TracerSample::Osnoise),
                "osnoise sample_threshold",
            );
        }
    }

    /// Records that events of a CPU before `until` were lost.
    pub fn lost(&mut self, cpu: u32, count: Option<u64>, until: Nanos) {
        self.found.lost.0 += 1;
        self.found.lost.1 += count.unwrap_or(0);
        self.history.lost(cpu, until);
        self.timers.lost();
        self.rules.forget();
        self.calls.lost();
        self.last_gap = self.last_gap.max(until);
        self.expired.clear();
    }

    /// Advances to `time`, and collects the events of reactions that have ended. If the time goes
    /// backwards, another trace has begun.
    fn advance(&mut self, time: Nanos) {
        if time < self.now {
            self.close(Nanos(u64::MAX));
            self.cut_off();
            (self.calls, self.last_gap) = Default::default();
            self.history = History::new(HELD);
            self.forget_functions();
            self.finder = LateWakeUps::new(Nanos::ZERO);
            self.timers = Timers::default();
            self.timer_calls = TimerCalls::default();
            self.rules.forget();
            self.clocks = Clocks::default();
            (self.woken, self.left, self.expired) = Default::default();
            self.slept.clear();
            self.interrupts.clear();
        }
        self.now = time;
        self.found.without_end += self.finder.take_without_end().len() as u64;
        self.end_jobs(time);
        self.close(time);
    }

    fn note_threads(&mut self, event: &TraceEvent) {
        for task in event.kind.tasks().into_iter().flatten() {
            if self.names.len() >= THREADS && !self.names.contains_key(&task.pid) {
                return;
            }
            self.names.insert(task.pid, *task);
        }
        match &event.kind {
            EventKind::Waking { task, .. } => {
                self.woken.insert(task.pid, event.cpu);
                self.expired.remove(&task.pid);
            }
            EventKind::Wakeup { task, .. } => {
                self.woken.entry(task.pid).or_insert(event.cpu);
            }
            EventKind::ProcessExit { task } => {
                self.woken.remove(&task.pid);
                self.left.remove(&task.pid);
                self.slept.remove(&task.pid);
            }
            _ => {}
        }
    }

    /// Queues the jobs that ended before `now`.
    fn end_jobs(&mut self, now: Nanos) {
        while self.jobs.front().is_some_and(|job| job.actual < now) {
            let Some(late) = self.jobs.pop_front() else {
                return;
            };
            self.queue(Ended {
                late,
                waker: None,
                before: Vec::new(),
                stated: None,
                sample: None,
                segments: Vec::new(),
            });
        }
    }

    /// Processes a completed wait of a thread for a CPU.
    fn waited(&mut self, mut late: Late) {
        let waker = self.woken.remove(&late.tid);
        let timer = self.expired.remove(&late.tid);
        if self
            .history
            .is_incomplete(late.cpu, late.expected, late.actual)
        {
            self.found.incomplete += 1;
            return;
        }
        if let (Some(waker), Delay::Wakeup) = (waker, late.delay) {
            self.clocks.note(waker, late.cpu, late.latency());
        }
        let timer = timer.filter(|timer| late.delay == Delay::Wakeup && timer.due <= late.expected);
        let mut before = Vec::new();
        if let Some(timer) = timer {
            (late.delay, late.expected) = (Delay::Timer, timer.due);
            late.events_from = timer.due;
            before.push(timer.armed);
            before.extend(self.left.get(&late.tid).cloned());
        }
        self.ended(Ended {
            late,
            waker: waker.filter(|_| late.delay != Delay::Taken),
            before,
            stated: None,
            sample: None,
            segments: Vec::new(),
        });
    }

    /// Queues a reaction that has ended, unless jobs are explained in place of reactions.
    fn ended(&mut self, ended: Ended) {
        if self.wanted.jobs.is_none() {
            self.queue(ended);
        }
    }

    /// Queues a reaction or a job that has ended. Its events are collected a little later.
    fn queue(&mut self, ended: Ended) {
        if !self.wanted.has(&ended.late) {
            return;
        }
        let is_below = |least| ended.late.latency() <= least;
        if self.wanted.threshold.is_some_and(is_below) {
            self.waits.record(&ended.late);
            self.seen_real_time |= self.is_first_choice(&ended);
            return;
        }
        self.open.push_back(ended);
    }

    /// Returns whether a reaction is shown even if there are real-time threads.
    fn is_first_choice(&self, ended: &Ended) -> bool {
        let late = &ended.late;
        late.prio.is_real_time()
            || ended.stated.is_some()
            || self.wanted.names_threads()
            || self.wanted.jobs.is_some()
    }

    /// Collects the events of reactions that ended long enough before `now`.
    fn close(&mut self, now: Nanos) {
        let over = |ended: &Ended| ended.late.actual + STATED_WITHIN < now;
        while self.open.front().is_some_and(over) {
            let Some(ended) = self.open.pop_front() else {
                return;
            };
            // A tracer may state the same latency after the events of a wait, which is then forgotten.
            self.waits.record(&ended.late);
            let first = self.is_first_choice(&ended);
            self.seen_real_time |= first;
            let latency = ended.late.latency();
            if !first {
                let ordinary = &mut self.found.ordinary;
                ordinary.0 += 1;
                if ordinary.1.is_none_or(|longest| longest.latency() < latency) {
                    ordinary.1 = Some(ended.late);
                }
                if self.seen_real_time {
                    continue;
                }
            } else {
                self.found.above += 1;
            }
            let kept = if first { &self.real_time } else { &self.others };
            if !kept.takes(latency) {
                continue;
            }
            match self.reaction(ended) {
                Some(reaction) if first => self.real_time.add(reaction),
                Some(reaction) => self.others.add(reaction),
                None => self.found.incomplete += 1,
            }
        }
    }

    /// Returns the events of a reaction. `None` if the thread may have run in a gap.
    fn reaction(&self, ended: Ended) -> Option<Reaction> {
        let late = ended.late;
        let from = late.events_from.min(late.expected).saturating_sub(BEFORE);
        let to = late.actual + AFTER;
        let thread = (late.tid, late.cpu);
        let TraceSlice { mut events, gaps } = match late.delay {
            Delay::Job => self.history.slice_of_all(late.expected, from, to),
            _ => self.history.slice(thread, late.expected, from, to),
        };
        // A thread that its own timer wakes has slept until then.
        let is_own = |event: &&TraceEvent| matches!(&event.kind, EventKind::Waking { task, .. } if task.pid == late.tid);
        let by_timer = late.delay == Delay::Timer && ended.stated.is_none();
        let woken = events.iter().rfind(is_own).filter(|_| by_timer);
        let since = woken.map_or(late.expected, |event| event.time);
        let hides =
            |gap: &EventGap| hides_changes(gap.reason) && gap.from < late.actual && gap.to > since;
        let places = cpus_of(&events, late.tid, late.cpu);
        let interrupted = gaps
            .iter()
            .any(|gap| hides(gap) && places.contains(&gap.cpu));
        if interrupted && ended.stated.is_none() {
            return None;
        }
        let more = ended
            .before
            .into_iter()
            .filter(|event| !events.contains(event));
        let more: Vec<TraceEvent> = more.collect();
        events.splice(0..0, more);
        // The sort is stable: events of one CPU with equal times keep their order.
        events.sort_by_key(|event| event.time);
        let mut window = Window {
            victim: Victim {
                tid: late.tid,
                comm: late.comm,
                scheduling: (late.prio != KernelPriority::UNKNOWN).then(|| late.prio.scheduling()),
                cpu: late.cpu,
            },
            delay: late.delay,
            expected: late.expected,
            actual: late.actual,
            events,
            lost: 0,
            left_out: 0,
            missing_events: Vec::new(),
            light_stage: None,
            clock_error: Nanos::ZERO,
            symbols: BTreeMap::new(),
            calls: BTreeMap::new(),
            evidence: Evidence {
                gaps,
                stated: ended.segments,
                ..Evidence::default()
            },
            host: Vec::new(),
            segments: Vec::new(),
            activity: Vec::new(),
        };
        if late.delay == Delay::Job {
            crate::job::keep_concerned(&mut window);
        }
        self.functions.add_to(&mut window);
        Some(Reaction {
            window,
            stated: ended.stated,
            is_over: false,
            sample: ended.sample,
            waker: ended.waker,
            timer_calls: self.timer_calls.last_within(late.expected, late.actual),
        })
    }
}
