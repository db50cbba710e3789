//! What a measuring thread records into: its own histogram, its worst samples
//! and its account, and a bounded ring to the session.

mod self_cost;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_model::{
    AboveLimit, Accounting, Delay, Histogram, Nanos, OpenPeriods, SignedNanos, ThreadUsage,
    WorstList,
};
use punctual_rt::Tid;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::Control;
pub use self_cost::SelfCost;

/// How many of the worst samples are kept.
pub const WORST_KEPT: usize = 20;

/// What a measuring thread reports to the session, in the order it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The measurement starts; the first event of each lane.
    Started {
        /// The first expected wake-up.
        at: Nanos,
        /// The thread that records; `None`: what is recorded is no thread's.
        tid: Option<Tid>,
        /// The other end's, where that is in a process of its own.
        partner: Option<Tid>,
    },
    /// The samples are of another thread than the recording one, or span
    /// something else than the probe's entry says.
    Late {
        /// The thread; `None`: no sample is a span of one.
        tid: Option<Tid>,
        /// What they span.
        delay: Delay,
    },
    /// One sample after the warm-up.
    Sample {
        /// When the thread should have woken.
        expected: Nanos,
        /// How late it did.
        latency: SignedNanos,
    },
    /// From the start on a period comes due each `period` until `end`, that one not
    /// included, whatever the thread does.
    Grid {
        /// The time between two.
        period: Nanos,
        /// The end of the run.
        end: Nanos,
    },
    /// Periods after the warm-up that passed without a sample, and nobody knows how
    /// late they were.
    Missed {
        /// The first of them.
        first: Nanos,
        /// How many.
        count: u64,
    },
    /// Periods of the grid after the warm-up that passed before the latest sample's
    /// wake-up came.
    Overrun {
        /// The first of them.
        first: Nanos,
        /// How many.
        count: u64,
    },
    /// The thread gave up a wait, and waits again.
    TimedOut,
    /// The warm-up is over.
    WarmedUp {
        /// Its periods.
        periods: u64,
        /// Of these, those without a sample.
        missed: u64,
    },
}

/// What one lane is set to.
#[derive(Clone, Copy, Debug)]
pub struct LaneSettings {
    /// Samples expected before this long after the start are warm-up.
    pub warm_up: Nanos,
    /// A latency above this ends the run.
    pub break_above: Option<Nanos>,
    /// Samples a second that are to be expected: the ring holds those of a second
    /// and a quarter.
    pub rate_hz: u64,
}

/// One measuring thread's way to the session: the end that records, and the
/// end that reads.
#[derive(Debug)]
pub struct Lane;

impl Lane {
    /// Thousandths of a second of samples that the ring holds: a housekeeper that is kept
    /// from running for so long loses none. Real-time threads that never sleep leave it
    /// 50 ms of each second.
    const MILLIS_HELD: u64 = 1_250;

    /// Events that it holds at the least.
    const FEWEST_HELD: u64 = 1_024;

    /// Events that it holds at the most.
    const MOST_HELD: u64 = 1 << 20;

    /// Events that the ring of a lane holds.
    fn capacity(rate_hz: u64) -> u64 {
        // 24 bytes an event: 30 kB for a loop of 1 kHz, 24 MiB at the most.
        (rate_hz.saturating_mul(Self::MILLIS_HELD) / 1_000)
            .clamp(Self::FEWEST_HELD, Self::MOST_HELD)
    }

    /// The memory of the ring of a lane with so many samples a second.
    pub fn ring_bytes(rate_hz: u64) -> u64 {
        Self::capacity(rate_hz) * size_of::<Event>() as u64
    }

    /// The largest rate whose ring takes no more than `bytes`.
    pub fn rate_within(bytes: u64) -> u64 {
        let events = bytes / size_of::<Event>() as u64;
        events.saturating_mul(1_000) / Self::MILLIS_HELD
    }

    /// Makes both ends.
    pub fn open(settings: LaneSettings, control: &Arc<Control>) -> (Recorder, LaneReader) {
        let capacity = Self::capacity(settings.rate_hz);
        Self::with(settings, control, capacity, Histogram::new())
    }

    fn with(
        settings: LaneSettings,
        control: &Arc<Control>,
        capacity: u64,
        histogram: Histogram,
    ) -> (Recorder, LaneReader) {
        let (mut producer, mut consumer) = RingBuffer::new(capacity as usize);
        touch(&mut producer, &mut consumer);
        let dropped = Arc::new(AtomicU64::new(0));
        let recorder = Recorder {
            histogram,
            overruns: None,
            open: None,
            has_grid: false,
            worst: WorstList::default(),
            above: Box::default(),
            accounting: Accounting::default(),
            settings,
            break_above: settings
                .break_above
                .map_or(i64::MAX, |limit| i64::try_from(limit.0).unwrap_or(i64::MAX)),
            warm_until: Nanos::ZERO,
            usage_before: None,
            foreign: false,
            ring: producer,
            dropped: Arc::clone(&dropped),
            control: Arc::clone(control),
        };
        (
            recorder,
            LaneReader {
                ring: consumer,
                dropped,
            },
        )
    }
}

/// Fills the ring once and empties it: its memory is only promised until it is
/// written, and the measuring thread shall not take those page faults.
fn touch(producer: &mut Producer<Event>, consumer: &mut Consumer<Event>) {
    const ANY: Event = Event::WarmedUp {
        periods: 0,
        missed: 0,
    };
    while producer.push(ANY).is_ok() {}
    while consumer.pop().is_ok() {}
}

/// The recording end of a lane; belongs to one measuring thread.
#[derive(Debug)]
pub struct Recorder {
    histogram: Histogram,
    /// How late missed periods were, where the probe knows it.
    overruns: Option<Box<Histogram>>,
    /// Periods without a wake-up at the end.
    open: Option<OpenPeriods>,
    /// Whether the session knows when periods come due.
    has_grid: bool,
    worst: WorstList<WORST_KEPT>,
    /// Periods above each limit that is required.
    above: Box<[AboveLimit]>,
    accounting: Accounting,
    settings: LaneSettings,
    break_above: i64,
    warm_until: Nanos,
    /// What the thread had used when its warm-up ended.
    usage_before: Option<ThreadUsage>,
    /// Whether another than the calling thread is measured.
    foreign: bool,
    ring: Producer<Event>,
    dropped: Arc<AtomicU64>,
    control: Arc<Control>,
}

impl Recorder {
    /// Has how late missed periods were counted, for a probe that reports it by
    /// [`overrun`](Self::overrun). To be called before the start: it allocates.
    pub fn count_overruns(&mut self) {
        self.overruns = Some(Box::new(Histogram::new()));
    }

    /// Has the periods above each limit counted, against its own value: a bucket of the
    /// histogram may cross it. To be called before the start.
    pub fn count_above(&mut self, limits: &[Nanos]) {
        let limit = |limit_ns: &Nanos| AboveLimit {
            limit_ns: *limit_ns,
            periods: 0,
        };
        self.above = limits.iter().map(limit).collect();
    }

    /// Says when the measurement starts: the warm-up counts from here. To be
    /// called on the thread that records.
    pub fn start(&mut self, start: Nanos) {
        self.start_with(start, None);
    }

    /// The same, with the other end's thread where that is in a process of its
    /// own.
    pub fn start_with(&mut self, start: Nanos, partner: Option<Tid>) {
        self.begin(start, start, Some(punctual_rt::current_tid()), partner);
    }

    /// Says when the measurement started, for a lane whose turn comes later, at
    /// `own`: its own warm-up counts from there, and its place in the time
    /// series from `start`.
    pub fn start_late(&mut self, start: Nanos, own: Nanos) {
        self.begin(start, own, Some(punctual_rt::current_tid()), None);
    }

    /// Says when the measurement started, for samples that the kernel took: of
    /// this thread, or of none. What the thread used is left at 0 in the
    /// outcome, for the caller to fill in.
    pub fn start_for(&mut self, start: Nanos, tid: Option<Tid>) {
        self.foreign = true;
        self.begin(start, start, tid, None);
    }

    /// Says, after the start, that the samples are how late that thread was, not
    /// the calling one, or span `delay` rather than what
    /// [`explained`](crate::ProbeEntry::explained) says. `None`: no sample is a
    /// span of a thread's time, and none can be explained.
    pub fn late_is(&mut self, tid: Option<Tid>, delay: Delay) {
        self.push(Event::Late { tid, delay });
    }

    /// Says, after the start, that a period comes due each `period` until `end`, and
    /// that overruns passed before the latest sample's wake-up: a run that is killed
    /// then knows which had none, and how late the others were.
    pub fn grid(&mut self, period: Nanos, end: Nanos) {
        self.has_grid = true;
        self.push(Event::Grid { period, end });
    }

    fn begin(&mut self, start: Nanos, own: Nanos, tid: Option<Tid>, partner: Option<Tid>) {
        self.push(Event::Started {
            at: start,
            tid,
            partner,
        });
        self.warm_until = own + self.settings.warm_up;
        if self.settings.warm_up == Nanos::ZERO {
            self.warmed_up();
        }
    }

    /// Records that the thread that was to wake at `expected` woke `latency`
    /// later. The hot path: see the invariant in the module page.
    #[inline]
    pub fn sample(&mut self, expected: Nanos, latency: SignedNanos) {
        if expected < self.warm_until {
            self.accounting.warm_up += 1;
            return;
        }
        if self.usage_before.is_none() {
            self.warmed_up();
        }
        self.accounting.recorded += 1;
        self.histogram.record(latency);
        if let Some(latency) = latency.non_negative() {
            self.worst.offer(latency, expected);
            for above in &mut self.above {
                above.periods += u64::from(latency > above.limit_ns);
            }
        }
        self.push(Event::Sample { expected, latency });
        if latency.0 > self.break_above {
            self.control.break_off(latency);
        }
    }

    /// Records that `count` periods of `interval`, the first at `first`, passed
    /// without a sample, and that nobody knows how late they were.
    pub fn missed(&mut self, first: Nanos, count: u64, interval: Nanos) {
        self.skip(first, count, interval, None);
    }

    /// The same for periods that had no wake-up when the run ended at `until`: each
    /// is late by at least the time from its own to then.
    pub fn still_open(&mut self, first: Nanos, count: u64, interval: Nanos, until: Nanos) {
        let missed = self.skip(first, count, interval, None);
        let first = Nanos(first.0 + (count - missed) * interval.0);
        let end = Nanos(first.0 + missed * interval.0);
        self.open = OpenPeriods::at(until, first, interval, end);
    }

    /// The same for periods that passed while the thread waited for one wake-up,
    /// which came at `woke`: each was as late as that is after its own time.
    /// "Coordinated omission", and what it takes to undo it.
    pub fn overrun(&mut self, first: Nanos, count: u64, interval: Nanos, woke: Nanos) {
        self.skip(first, count, interval, Some(woke));
    }

    /// Returns how many are not of the warm-up.
    fn skip(&mut self, first: Nanos, count: u64, interval: Nanos, woke: Option<Nanos>) -> u64 {
        let before_end = self.warm_until.saturating_sub(first).0;
        let in_warm_up = before_end.div_ceil(interval.0.max(1)).min(count);
        self.accounting.warm_up += in_warm_up;
        self.accounting.warm_up_missed += in_warm_up;
        let missed = count - in_warm_up;
        if missed > 0 {
            if self.usage_before.is_none() {
                self.warmed_up();
            }
            self.accounting.missed += missed;
            let first = Nanos(first.0 + in_warm_up * interval.0);
            let count = missed;
            let known = match (&mut self.overruns, woke) {
                (Some(overruns), Some(woke)) => {
                    let largest = woke.saturating_sub(first);
                    overruns.record_run(largest, interval, count);
                    for above in &mut self.above {
                        // Each is one interval less late than the one before.
                        let beyond = largest.saturating_sub(above.limit_ns).0;
                        above.periods += beyond.div_ceil(interval.0.max(1)).min(count);
                    }
                    self.has_grid
                }
                _ => false,
            };
            self.push(match known {
                true => Event::Overrun { first, count },
                false => Event::Missed { first, count },
            });
        }
        missed
    }

    /// Says that the thread gave up a wait, and waits again. It is no wake-up
    /// and in no account.
    pub fn timed_out(&mut self) {
        self.push(Event::TimedOut);
    }

    /// The samples recorded so far, warm-up not included.
    pub fn recorded(&self) -> u64 {
        self.accounting.recorded
    }

    /// Ends the recording. `expected` is the number of wake-ups that came due,
    /// by the clock.
    pub fn finish(mut self, expected: u64, cost: SelfCost) -> LaneOutcome {
        self.accounting.expected = expected;
        self.accounting.early = self.histogram.early();
        self.accounting.overflow = self.histogram.overflow();
        let usage = self
            .usage_before
            .filter(|_| !self.foreign)
            .map_or(ThreadUsage::default(), used_since);
        LaneOutcome {
            accounting: self.accounting,
            worst: self.worst.sorted(),
            dropped: self.dropped.load(Ordering::Relaxed),
            histogram: self.histogram,
            missed_histogram: self.overruns.filter(|late| late.recorded() > 0),
            open: self.open,
            above: self.above.into_vec(),
            usage,
            cost,
        }
    }

    /// Once per run: from here on the thread's own page faults and switches
    /// count.
    #[cold]
    fn warmed_up(&mut self) {
        self.usage_before = Some(usage_now());
        self.push(Event::WarmedUp {
            periods: self.accounting.warm_up,
            missed: self.accounting.warm_up_missed,
        });
    }

    #[inline]
    fn push(&mut self, event: Event) {
        if self.ring.push(event).is_err() {
            let lost = match event {
                Event::Sample { .. } => 1,
                // What these say is in the account, which the thread keeps.
                Event::Started { .. }
                | Event::Late { .. }
                | Event::Grid { .. }
                | Event::Missed { .. }
                | Event::Overrun { .. }
                | Event::TimedOut
                | Event::WarmedUp { .. } => 0,
            };
            // The only writer: a load and a store do what an atomic addition
            // does, without its bus lock.
            let dropped = self.dropped.load(Ordering::Relaxed);
            self.dropped.store(dropped + lost, Ordering::Relaxed);
        }
    }
}

/// What the calling thread has used since.
pub(crate) fn used_since(before: ThreadUsage) -> ThreadUsage {
    let now = usage_now();
    ThreadUsage {
        page_faults_minor: now.page_faults_minor - before.page_faults_minor,
        page_faults_major: now.page_faults_major - before.page_faults_major,
        switches_voluntary: now.switches_voluntary - before.switches_voluntary,
        switches_involuntary: now.switches_involuntary - before.switches_involuntary,
        cpu_time_ns: now.cpu_time_ns - before.cpu_time_ns,
    }
}

/// What the calling thread has used so far.
pub(crate) fn usage_now() -> ThreadUsage {
    let usage = punctual_rt::thread_usage();
    ThreadUsage {
        page_faults_minor: usage.minor_faults,
        page_faults_major: usage.major_faults,
        switches_voluntary: usage.voluntary_switches,
        switches_involuntary: usage.involuntary_switches,
        cpu_time_ns: usage.cpu_time.into(),
    }
}

/// What one lane measured.
#[derive(Clone, Debug)]
pub struct LaneOutcome {
    /// Where each expected wake-up went.
    pub accounting: Accounting,
    /// The latencies.
    pub histogram: Histogram,
    /// How late missed periods were, of those where it is known.
    pub missed_histogram: Option<Box<Histogram>>,
    /// Missed periods that had no wake-up at the end.
    pub open: Option<OpenPeriods>,
    /// How many periods exceeded each limit that was to be counted.
    pub above: Vec<AboveLimit>,
    /// The worst as (latency, expected time), the worst first.
    pub worst: Vec<(Nanos, Nanos)>,
    /// Samples that the ring had no room for.
    pub dropped: u64,
    /// What the thread used after its warm-up.
    pub usage: ThreadUsage,
    /// What measuring itself costs here.
    pub cost: SelfCost,
}

/// The reading end of a lane.
#[derive(Debug)]
pub struct LaneReader {
    ring: Consumer<Event>,
    dropped: Arc<AtomicU64>,
}

impl LaneReader {
    /// Hands over what has come since the last time.
    pub fn drain(&mut self, mut take: impl FnMut(Event)) {
        // What comes while we read waits for the next time, or a fast lane
        // could hold us for ever.
        for _ in 0..self.ring.slots() {
            match self.ring.pop() {
                Ok(event) => take(event),
                Err(_) => return,
            }
        }
    }

    /// Whether nothing more will come: its thread has ended the recording.
    pub fn is_over(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// Samples that the ring had no room for, so far.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
