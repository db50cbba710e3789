//! Counts interrupts, softirqs, works, timers, polls and sent interrupts using trace events.
//!
//! A run time or delay that lost events could falsify is unknown. It is missing from the
//! histograms, but its occurrence is counted.

use std::collections::{BTreeMap, HashMap};

use punctual_model::{
    Activities, ActivityKind, ActivityRow, ActivitySource, EventKind, Nanos, Occurrence, Text,
    TraceEvent, WaitHistogram,
};

use super::open::{Cpu, Id, Open};
use super::raised::Raised;
use super::source::{ActivityNames, Source};
use crate::flight::Streamed;

/// Maximum number of rows.
pub(super) const MOST_ROWS: usize = 4_096;
/// Maximum number of requests of works and timers that have not run yet. Cancelled ones stay until
/// this number is reached.
const MOST_REQUESTS: usize = 1 << 16;
/// Number of the softirq that polls network devices.
const NET_RX: u32 = 3;

/// A request to run a work or timer.
#[derive(Clone, Copy, Debug)]
struct Requested {
    at: Nanos,
    /// When a timer has to expire: earliest and latest time on its own clock.
    expires: Option<(i64, i64)>,
    doubt: Doubt,
}

/// Whether a work may start for another request.
///
/// A worker takes a request a moment before the event of the start. If the work is queued in
/// between, two requests are open, and the first start belongs to the first request. Events do not
/// distinguish this from a request that was cancelled. That this happens to a work twice in
/// succession is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    /// This is the only request.
    No,
    /// It was queued while another request was open.
    Again,
    /// It was queued after a start that left one of two requests open.
    Last,
    /// No request: the latest start left one of two requests open.
    Left,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    count: u64,
    run: WaitHistogram,
    delay: WaitHistogram,
    packets: Option<u64>,
}

/// One long occurrence.
#[derive(Clone, Debug)]
struct Long {
    open: Open,
    run: Option<Nanos>,
    /// Name of the thread that ran it or was interrupted.
    thread: String,
}

/// Counts events, which must be in ascending order of time.
pub(super) struct Counter {
    kind: ActivityKind,
    most_longest: usize,
    names: ActivityNames,
    rows: HashMap<(u32, Source), Counts>,
    cpus: HashMap<u32, Cpu>,
    /// The works in progress, by thread.
    works: HashMap<u32, Open>,
    /// Requests by the address of the work or timer.
    requests: HashMap<u64, Requested>,
    /// Names of the threads that sent interrupts.
    senders: HashMap<u32, String>,
    longest: Vec<Long>,
    most_delayed: Vec<Long>,
    events_lost: u64,
    /// Time at which counting starts.
    from: Nanos,
    /// End of the latest gap in the events of any CPU.
    blind_until: Nanos,
}

impl std::fmt::Debug for Counter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counter")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl Counter {
    /// Creates a counter that keeps the `longest` occurrences, and counts activities that begin at
    /// `from` or later.
    pub(super) fn new(
        kind: ActivityKind,
        longest: usize,
        from: Nanos,
        names: ActivityNames,
    ) -> Self {
        Self {
            kind,
            most_longest: longest,
            names,
            rows: HashMap::new(),
            cpus: HashMap::new(),
            works: HashMap::new(),
            requests: HashMap::new(),
            senders: HashMap::new(),
            longest: Vec::new(),
            most_delayed: Vec::new(),
            events_lost: 0,
            from,
            blind_until: from,
        }
    }

    pub(super) fn take(&mut self, item: &Streamed) {
        match item {
            // The kernel enables events one after the other, so that ends can be missing before.
            Streamed::Event(event) if event.time < self.from => {}
            Streamed::Event(event) => self.event(event),
            Streamed::Gap { to, cpu, lost, .. } => {
                self.events_lost += lost;
                self.blind_until = self.blind_until.max(*to);
                let cpu = self.cpu(*cpu);
                cpu.blind_until = cpu.blind_until.max(*to);
                cpu.forget();
            }
        }
    }

    /// Forgets the state of CPUs that are offline. Activities in progress there have no known end.
    pub(super) fn keep_cpus(&mut self, is_online: impl Fn(u32) -> bool) {
        for (_, cpu) in self.cpus.iter_mut().filter(|(cpu, _)| !is_online(**cpu)) {
            cpu.forget();
        }
    }

    fn event(&mut self, event: &TraceEvent) {
        match &event.kind {
            EventKind::IrqEntry { irq, name } => {
                self.begin(event, Id::Irq(*irq), Source::Irq(*irq, name.clone()), None);
            }
            EventKind::IrqExit { irq, .. } => self.end(event, &Id::Irq(*irq)),
            EventKind::VectorEntry { vector } => {
                let id = Id::Vector(vector.clone());
                self.begin(event, id, Source::Vector(vector.clone()), None);
            }
            EventKind::VectorExit { vector } => self.end(event, &Id::Vector(vector.clone())),
            EventKind::SoftirqRaise { vec } => self.raised(event, *vec),
            EventKind::SoftirqEntry { vec } if self.kind == ActivityKind::Napi => {
                self.poll_from(event, (*vec == NET_RX).then_some(event.time));
            }
            EventKind::SoftirqExit { .. } if self.kind == ActivityKind::Napi => {
                self.poll_from(event, None);
            }
            EventKind::SoftirqEntry { vec } => {
                let delay = self.softirq_begins(event, *vec);
                self.begin(event, Id::Softirq(*vec), Source::Softirq(*vec), delay);
            }
            EventKind::SoftirqExit { vec } => self.end(event, &Id::Softirq(*vec)),
            EventKind::WorkqueueQueue { work, .. } => {
                let doubt = match self.requests.get(work).map(|before| before.doubt) {
                    None => Doubt::No,
                    Some(Doubt::Left) => Doubt::Last,
                    Some(_) => Doubt::Again,
                };
                self.request(event, *work, None, doubt);
            }
            EventKind::WorkqueueStart { work, function } => {
                self.work_begins(event, *work, *function)
            }
            EventKind::WorkqueueEnd { work, .. } => self.work_ends(event, *work),
            EventKind::HrtimerStart {
                hrtimer,
                expires_ns,
                softexpires_ns,
                ..
            } => {
                let expires = Some((*softexpires_ns, *expires_ns));
                self.request(event, *hrtimer, expires, Doubt::No);
            }
            EventKind::HrtimerExpireEntry {
                hrtimer,
                function,
                now_ns,
            } => {
                let delay = self.timer_delay(event, *hrtimer, *now_ns);
                let source = Source::Function(*function);
                self.begin(event, Id::Object(*hrtimer), source, delay);
            }
            EventKind::TimerExpireEntry { timer, function } => {
                let source = Source::Function(*function);
                self.begin(event, Id::Object(*timer), source, None);
            }
            EventKind::HrtimerExpireExit { hrtimer: timer }
            | EventKind::TimerExpireExit { timer } => self.end(event, &Id::Object(*timer)),
            EventKind::NapiPoll { dev_name, work, .. } => self.polled(event, dev_name, *work),
            EventKind::IpiSend { cpus, callsite, .. } => self.sent(event, cpus, *callsite),
            _ => {}
        }
    }

    /// Begins an activity that stays on its CPU.
    fn begin(&mut self, event: &TraceEvent, id: Id, source: Source, delay: Option<Nanos>) {
        let open = Open {
            id,
            source,
            since: event.time,
            cpu: event.cpu,
            thread: event.pid,
            delay,
        };
        self.cpu(event.cpu).begin(open.clone());
        self.count(&open);
    }

    /// Ends an activity that stays on its CPU. An end without its start is ignored.
    fn end(&mut self, event: &TraceEvent, id: &Id) {
        if let Some(open) = self.cpu(event.cpu).end(id) {
            self.ran(open, event.time);
        }
    }

    /// Returns the state of a CPU. Before the start of counting, events may be missing.
    fn cpu(&mut self, cpu: u32) -> &mut Cpu {
        self.cpus.entry(cpu).or_insert_with(|| Cpu {
            blind_until: self.from,
            ..Cpu::default()
        })
    }

    /// Counts the start of an activity, and its delay.
    fn count(&mut self, open: &Open) {
        let delay = open.delay;
        let counts = self.row(open.cpu, &open.source);
        counts.count += 1;
        if let Some(delay) = delay {
            counts.delay.record(delay);
            self.keep_delayed(open, delay);
        }
    }

    /// Counts the run time of an activity.
    fn ran(&mut self, open: Open, end: Nanos) {
        let Some(run) = end.0.checked_sub(open.since.0).map(Nanos) else {
            return;
        };
        self.row(open.cpu, &open.source).run.record(run);
        // The run time of a delayed activity is known only now.
        let is_same = |long: &&mut Long| {
            let other = &long.open;
            (other.since, other.cpu) == (open.since, open.cpu) && other.id == open.id
        };
        if let Some(long) = self.most_delayed.iter_mut().find(is_same) {
            long.run = Some(run);
        }
        let place = self.longest.partition_point(|long| long.run >= Some(run));
        if place < self.most_longest {
            let thread = self.names.label(open.thread);
            let run = Some(run);
            self.longest.insert(place, Long { open, run, thread });
            self.longest.truncate(self.most_longest);
        }
    }

    fn keep_delayed(&mut self, open: &Open, delay: Nanos) {
        let longer = |long: &Long| long.open.delay >= Some(delay);
        let place = self.most_delayed.partition_point(longer);
        if place < self.most_longest {
            let (open, thread) = (open.clone(), self.names.label(open.thread));
            let run = None;
            self.most_delayed.insert(place, Long { open, run, thread });
            self.most_delayed.truncate(self.most_longest);
        }
    }

    fn row(&mut self, cpu: u32, source: &Source) -> &mut Counts {
        let full = self.rows.len() >= MOST_ROWS;
        let key = (cpu, source.clone());
        let key = if full && !self.rows.contains_key(&key) {
            (cpu, Source::Others)
        } else {
            key
        };
        self.rows.entry(key).or_default()
    }

    fn raised(&mut self, event: &TraceEvent, vec: u32) {
        let cpu = self.cpu(event.cpu);
        if event.time < cpu.blind_until {
            return;
        }
        let within = (!cpu.open.is_empty()).then_some(cpu.softirqs);
        let serving = within.is_some() || event.has(TraceEvent::SOFTIRQ);
        let raised = cpu.raised.entry(vec).or_insert(Raised::UNSEEN);
        raised.raise(event.time, serving, within);
    }

    /// Returns the delay of a softirq, if known.
    fn softirq_begins(&mut self, event: &TraceEvent, vec: u32) -> Option<Nanos> {
        let cpu = self.cpu(event.cpu);
        // Softirqs of one CPU run one after the other.
        cpu.open.clear();
        cpu.softirqs += 1;
        if event.time < cpu.blind_until {
            return None;
        }
        let raised = cpu.raised.entry(vec).or_insert(Raised::UNSEEN);
        raised.run(event.time)
    }

    fn request(
        &mut self,
        event: &TraceEvent,
        object: u64,
        expires: Option<(i64, i64)>,
        doubt: Doubt,
    ) {
        if self.requests.len() >= MOST_REQUESTS {
            self.requests.clear();
        }
        let requested = Requested {
            at: event.time,
            expires,
            doubt,
        };
        self.requests.insert(object, requested);
    }

    /// Takes the request of an object that begins to run. Returns `None` if it is unknown, or if
    /// lost events may contain another request.
    fn requested(&mut self, object: u64) -> Option<Requested> {
        let requested = self.requests.remove(&object)?;
        if requested.doubt == Doubt::Again {
            let left = Requested {
                doubt: Doubt::Left,
                ..requested
            };
            self.requests.insert(object, left);
        }
        (requested.at >= self.blind_until && requested.doubt == Doubt::No).then_some(requested)
    }

    /// Returns how much later than its latest expiry time a timer expires. Returns `None` if it is
    /// unknown, or if the clock of the timer was set.
    fn timer_delay(&mut self, event: &TraceEvent, timer: u64, now: i64) -> Option<Nanos> {
        let requested = self.requested(timer)?;
        let (earliest, latest) = requested.expires?;
        if now < earliest {
            return None;
        }
        let late = u64::try_from(now.checked_sub(latest)?).unwrap_or(0);
        // A timer that was already due when it was started could not expire earlier.
        let waited = event.time.0.checked_sub(requested.at.0)?;
        Some(Nanos(late.min(waited)))
    }

    fn work_begins(&mut self, event: &TraceEvent, work: u64, function: u64) {
        let requested = self.requested(work);
        let delay = requested.and_then(|it| event.time.0.checked_sub(it.at.0));
        let open = Open {
            id: Id::Object(work),
            source: Source::Function(function),
            since: event.time,
            cpu: event.cpu,
            thread: event.pid,
            delay: delay.map(Nanos),
        };
        self.count(&open);
        if self.works.len() >= MOST_REQUESTS {
            self.works.clear();
        }
        self.works.insert(event.pid, open);
    }

    fn work_ends(&mut self, event: &TraceEvent, work: u64) {
        let Some(open) = self.works.remove(&event.pid) else {
            return;
        };
        // A worker may change its CPU, so that lost events of any CPU could hide its other works.
        if open.id == Id::Object(work) && open.since >= self.blind_until {
            self.ran(open, event.time);
        }
    }

    fn poll_from(&mut self, event: &TraceEvent, time: Option<Nanos>) {
        let cpu = self.cpu(event.cpu);
        cpu.polled = time.filter(|time| *time >= cpu.blind_until);
    }

    /// Counts a poll that ends now. It began after the start of the softirq and after the previous
    /// poll.
    fn polled(&mut self, event: &TraceEvent, device: &Text, packets: i32) {
        let cpu = self.cpu(event.cpu);
        let before = cpu.polled;
        if before.is_some() {
            cpu.polled = Some(event.time);
        }
        let open = Open {
            id: Id::Object(0),
            source: Source::Device(device.clone()),
            since: before.unwrap_or(event.time),
            cpu: event.cpu,
            thread: event.pid,
            delay: None,
        };
        self.count(&open);
        let sum = &mut self.row(open.cpu, &open.source).packets;
        *sum.get_or_insert(0) += u64::try_from(packets).unwrap_or(0);
        if before.is_some() {
            self.ran(open, event.time);
        }
    }

    fn sent(&mut self, event: &TraceEvent, cpus: &[u32], callsite: u64) {
        let in_handler = event.has(TraceEvent::HARDIRQ) || event.has(TraceEvent::SOFTIRQ);
        let thread = (!in_handler).then_some(event.pid);
        if let Some(tid) = thread.filter(|tid| !self.senders.contains_key(tid)) {
            // Further senders are shown without a name.
            if self.senders.len() < MOST_ROWS {
                let name = self.names.label(tid);
                self.senders.insert(tid, name);
            }
        }
        let source = Source::Sender {
            from: event.cpu,
            thread,
            callsite,
        };
        for to in cpus.iter().filter(|to| **to != event.cpu) {
            self.row(*to, &source).count += 1;
        }
    }

    /// Returns the counts so far.
    pub(super) fn seen(&self, elapsed: Nanos, missing: Vec<String>) -> Activities {
        // Several addresses may have the same name.
        let mut rows: BTreeMap<(ActivitySource, u32), ActivityRow> = BTreeMap::new();
        for ((cpu, source), counts) in &self.rows {
            let source = source.describe(&self.names, &self.senders);
            let row = rows
                .entry((source.clone(), *cpu))
                .or_insert_with(|| ActivityRow {
                    cpu: *cpu,
                    source,
                    count: 0,
                    run: WaitHistogram::new(),
                    delay: WaitHistogram::new(),
                    packets: None,
                });
            row.count += counts.count;
            row.run.merge(&counts.run);
            row.delay.merge(&counts.delay);
            if let Some(packets) = counts.packets {
                *row.packets.get_or_insert(0) += packets;
            }
        }
        let occurrence = |long: &Long| Occurrence {
            start_ns: long.open.since,
            cpu: long.open.cpu,
            source: long.open.source.describe(&self.names, &self.senders),
            run_ns: long.run,
            delay_ns: long.open.delay,
            thread: long.thread.clone(),
        };
        Activities {
            of: self.kind,
            elapsed_ns: elapsed,
            rows: rows.into_values().collect(),
            longest: self.longest.iter().map(occurrence).collect(),
            most_delayed: self.most_delayed.iter().map(occurrence).collect(),
            events_lost: self.events_lost,
            missing,
        }
    }
}

#[cfg(test)]
mod tests;
