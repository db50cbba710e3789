//! Records the samples of a measuring thread in its own histogram, top samples and accounting, and
//! in a bounded ring that the session reads.

mod self_cost;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_model::{
    AboveLimit, Accounting, Delay, Histogram, MissLimit, MissWindows, Nanos, OpenPeriods,
    SignedNanos, ThreadUsage, TopSamples, WindowCount,
};
use punctual_rt::Tid;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::Control;
pub use self_cost::SelfCost;

/// Number of top samples that are kept.
pub const WORST_KEPT: usize = 20;

/// An event from a measuring thread to the session, in order of occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The measurement starts. This is the first event of each worker.
    Started {
        /// Time of the first expected wake-up.
        at: Nanos,
        /// The recording thread; `None` if the samples belong to no thread.
        tid: Option<Tid>,
        /// The thread of the other end, if that is in a separate process.
        partner: Option<Tid>,
    },
    /// The samples belong to another thread than the recording one, or cover a different time span
    /// than the probe's entry states.
    Late {
        /// The late thread; `None` if the samples are not time spans of a thread.
        tid: Option<Tid>,
        /// The time span that the samples cover.
        delay: Delay,
    },
    /// One sample after the warm-up.
    Sample {
        /// When the thread should have woken.
        expected: Nanos,
        /// Its latency.
        latency: SignedNanos,
    },
    /// A period comes due every `period` from the start to `end` (exclusive), independently of the
    /// thread.
    Grid {
        /// The time between two periods.
        period: Nanos,
        /// The end of the run.
        end: Nanos,
    },
    /// Periods after the warm-up that have no sample and whose lateness is unknown.
    Missed {
        /// The first of these periods.
        first: Nanos,
        /// Their number.
        count: u64,
    },
    /// Periods of the schedule, after the warm-up, that passed before the wake-up of the latest
    /// sample.
    Overrun {
        /// The first of these periods.
        first: Nanos,
        /// Their number.
        count: u64,
    },
    /// The thread gave up a wait, and is waiting again.
    TimedOut,
    /// The warm-up is over.
    WarmedUp {
        /// Number of periods in the warm-up.
        periods: u64,
        /// Number of these periods that had no sample.
        missed: u64,
    },
}

/// The settings of one worker.
#[derive(Clone, Copy, Debug)]
pub struct WorkerSettings {
    /// Samples expected within this time after the start belong to the warm-up.
    pub warm_up: Nanos,
    /// A latency above this ends the run.
    pub break_above: Option<Nanos>,
    /// Expected samples per second. The ring has room for the samples of 1.25 seconds.
    pub rate_hz: u64,
}

/// The connection from one measuring thread to the session: a recording end and a reading end.
#[derive(Debug)]
pub struct RecorderSlot;

impl RecorderSlot {
    /// The ring has room for the samples of this many milliseconds, so that none is lost if the
    /// housekeeping thread cannot run for this long. Real-time threads that never sleep leave that
    /// thread only 50 ms of each second.
    const MILLIS_HELD: u64 = 1_250;

    /// The minimum capacity in events.
    const FEWEST_HELD: u64 = 1_024;

    /// The maximum capacity in events.
    const MOST_HELD: u64 = 1 << 20;

    /// Returns the capacity of a worker's ring in events.
    fn capacity(rate_hz: u64) -> u64 {
        // At 24 bytes per event, a ring takes 30 kB for a loop of 1 kHz, and at most 24 MiB.
        (rate_hz.saturating_mul(Self::MILLIS_HELD) / 1_000)
            .clamp(Self::FEWEST_HELD, Self::MOST_HELD)
    }

    /// Returns the size in memory of the ring of a worker with this sample rate.
    pub fn ring_bytes(rate_hz: u64) -> u64 {
        Self::capacity(rate_hz) * size_of::<Event>() as u64
    }

    /// Returns the largest rate with a ring of at most `bytes`.
    pub fn rate_within(bytes: u64) -> u64 {
        let events = bytes / size_of::<Event>() as u64;
        events.saturating_mul(1_000) / Self::MILLIS_HELD
    }

    /// Creates both ends.
    pub fn open(settings: WorkerSettings, control: &Arc<Control>) -> (Recorder, WorkerReader) {
        let capacity = Self::capacity(settings.rate_hz);
        Self::with_capacity(settings, control, capacity, Histogram::preallocated())
    }

    fn with_capacity(
        settings: WorkerSettings,
        control: &Arc<Control>,
        capacity: u64,
        histogram: Histogram,
    ) -> (Recorder, WorkerReader) {
        let (mut producer, mut consumer) = RingBuffer::new(capacity as usize);
        touch(&mut producer, &mut consumer);
        let dropped = Arc::new(AtomicU64::new(0));
        let recorder = Recorder {
            histogram,
            overruns: None,
            open: None,
            has_schedule: false,
            top_samples: TopSamples::default(),
            above: Box::default(),
            windows: Box::default(),
            start: Nanos::ZERO,
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
            WorkerReader {
                ring: consumer,
                dropped,
            },
        )
    }
}

/// Fills the ring once and empties it again. The kernel maps the memory of the ring only on the
/// first write, and the resulting page faults must not occur in the measuring thread.
fn touch(producer: &mut Producer<Event>, consumer: &mut Consumer<Event>) {
    const ANY: Event = Event::WarmedUp {
        periods: 0,
        missed: 0,
    };
    while producer.push(ANY).is_ok() {}
    while consumer.pop().is_ok() {}
}

/// The recording end of a worker. It belongs to one measuring thread.
#[derive(Debug)]
pub struct Recorder {
    histogram: Histogram,
    /// Lateness of missed periods, if the probe knows it.
    overruns: Option<Box<Histogram>>,
    /// Periods that had no wake-up when the run ended.
    open: Option<OpenPeriods>,
    /// Whether the session has been told when periods come due.
    has_schedule: bool,
    top_samples: TopSamples<WORST_KEPT>,
    /// Number of periods above each limit of a requirement.
    above: Box<[AboveLimit]>,
    /// Late periods in windows of consecutive periods.
    windows: Box<[MissWindows]>,
    /// Start of the time series.
    start: Nanos,
    accounting: Accounting,
    settings: WorkerSettings,
    break_above: i64,
    warm_until: Nanos,
    /// The thread's usage at the end of its warm-up.
    usage_before: Option<ThreadUsage>,
    /// Whether the measured thread is not the calling thread.
    foreign: bool,
    ring: Producer<Event>,
    dropped: Arc<AtomicU64>,
    control: Arc<Control>,
}

impl Recorder {
    /// Enables counting the lateness of missed periods, for a probe that reports them with
    /// [`overrun`](Self::overrun). Call this before the start, because it allocates memory.
    pub fn count_overruns(&mut self) {
        self.overruns = Some(Box::new(Histogram::preallocated()));
    }

    /// Enables an exact count of the periods above each limit. The histogram does not suffice for
    /// this, because one of its buckets may contain the limit. Call this before the start.
    pub fn count_above(&mut self, limits: &[Nanos]) {
        let limit = |limit_ns: &Nanos| AboveLimit {
            limit_ns: *limit_ns,
            periods: 0,
        };
        self.above = limits.iter().map(limit).collect();
    }

    /// Enables counting late periods in windows of consecutive periods, each with its budget. Call
    /// this before the start, because it allocates memory.
    pub fn count_windows(&mut self, limits: impl Iterator<Item = (MissLimit, Nanos)>) {
        let windows = limits.map(|(limit, budget)| MissWindows::new(limit, budget));
        self.windows = windows.collect();
    }

    /// Sets the start of the measurement, from which the warm-up is counted. Call this on the
    /// recording thread.
    pub fn start(&mut self, start: Nanos) {
        self.start_with(start, None);
    }

    /// Like [`start`](Self::start), but also sets the thread of the other end if that is in a
    /// separate process.
    pub fn start_with(&mut self, start: Nanos, partner: Option<Tid>) {
        self.begin(start, start, Some(punctual_rt::current_tid()), partner);
    }

    /// Sets the start for a worker that begins later, at `own`. Its warm-up is counted from `own`,
    /// and its position in the time series from `start`.
    pub fn start_late(&mut self, start: Nanos, own: Nanos) {
        self.begin(start, own, Some(punctual_rt::current_tid()), None);
    }

    /// Sets the start of samples that the kernel takes. `tid` is the thread that they belong to, if
    /// any. The usage in the outcome stays 0, and the caller must fill it in.
    pub fn start_for(&mut self, start: Nanos, tid: Option<Tid>) {
        self.foreign = true;
        self.begin(start, start, tid, None);
    }

    /// Declares, after the start, that the samples are the lateness of thread `tid` instead of that
    /// of the calling thread, or that they cover `delay` instead of
    /// [`explained`](crate::ProbeEntry::explained). If `tid` is `None`, no sample is a time span of
    /// a thread, and outliers cannot be explained.
    pub fn late_is(&mut self, tid: Option<Tid>, delay: Delay) {
        self.push(Event::Late { tid, delay });
    }

    /// Declares, after the start, that a period comes due every `period` until `end`, and that
    /// overruns passed before the wake-up of the latest sample. If the program is killed, the
    /// recording then shows which periods had no wake-up, and how late the others were.
    pub fn set_schedule(&mut self, period: Nanos, end: Nanos) {
        self.has_schedule = true;
        self.push(Event::Grid { period, end });
    }

    fn begin(&mut self, start: Nanos, own: Nanos, tid: Option<Tid>, partner: Option<Tid>) {
        self.push(Event::Started {
            at: start,
            tid,
            partner,
        });
        self.start = start;
        self.warm_until = own + self.settings.warm_up;
        if self.settings.warm_up == Nanos::ZERO {
            self.warmed_up();
        }
    }

    /// Records that a thread that was due at `expected` woke `latency` later. This is part of the
    /// hot path; see the invariant in the documentation of this crate.
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
            self.top_samples.offer(latency, expected);
            for above in &mut self.above {
                above.periods += u64::from(latency > above.limit_ns);
            }
        }
        for windows in &mut self.windows {
            let late = latency.non_negative().unwrap_or_default();
            windows.sample(late, expected.saturating_sub(self.start));
        }
        self.push(Event::Sample { expected, latency });
        if latency.0 > self.break_above {
            self.control.break_off(latency);
        }
    }

    /// Records `count` periods of length `interval`, the first of them at `first`, that passed
    /// without a sample and whose lateness is unknown.
    pub fn missed(&mut self, first: Nanos, count: u64, interval: Nanos) {
        self.skip(first, count, interval, None);
    }

    /// Like [`missed`](Self::missed), but for periods that had no wake-up when the run ended at
    /// `until`. Each is late by at least the time from its own start to `until`.
    pub fn still_open(&mut self, first: Nanos, count: u64, interval: Nanos, until: Nanos) {
        let missed = self.skip(first, count, interval, None);
        let first = Nanos(first.0 + (count - missed) * interval.0);
        let end = Nanos(first.0 + missed * interval.0);
        self.open = OpenPeriods::at(until, first, interval, end);
    }

    /// States that `count` of the missed periods got no answer, and that each is late by at least
    /// `late`.
    pub fn unanswered(&mut self, count: u64, late: Nanos) {
        self.open = (count > 0).then_some(OpenPeriods {
            periods: count,
            late_ns: late,
            period_ns: Nanos::ZERO,
        });
    }

    /// Sets the lateness of a period that was recorded as missed: the reply that it waited for came
    /// later. Its row in the time series does not show it.
    pub fn answered_late(&mut self, due: Nanos, late: Nanos) {
        if due < self.warm_until {
            return;
        }
        if let Some(overruns) = &mut self.overruns {
            overruns.record_run(late, Nanos(1), 1);
            for above in &mut self.above {
                above.periods += u64::from(late > above.limit_ns);
            }
        }
    }

    /// Like [`missed`](Self::missed), but for periods that passed while the thread waited for one
    /// wake-up, which came at `woke`. The lateness of each is the time from its own start to
    /// `woke`. This corrects "coordinated omission".
    pub fn overrun(&mut self, first: Nanos, count: u64, interval: Nanos, woke: Nanos) {
        self.skip(first, count, interval, Some(woke));
    }

    /// Skips periods. Returns how many of them are after the warm-up.
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
            for windows in &mut self.windows {
                windows.missed(first.saturating_sub(self.start), count, interval);
            }
            let known = match (&mut self.overruns, woke) {
                (Some(overruns), Some(woke)) => {
                    let largest = woke.saturating_sub(first);
                    overruns.record_run(largest, interval, count);
                    for above in &mut self.above {
                        // Each period is one interval less late than the previous one.
                        let beyond = largest.saturating_sub(above.limit_ns).0;
                        above.periods += beyond.div_ceil(interval.0.max(1)).min(count);
                    }
                    self.has_schedule
                }
                _ => false,
            };
            self.push(if known {
                Event::Overrun { first, count }
            } else {
                Event::Missed { first, count }
            });
        }
        missed
    }

    /// Records that the thread gave up a wait, and is waiting again. This is not a wake-up and is
    /// not part of the accounting.
    pub fn timed_out(&mut self) {
        self.push(Event::TimedOut);
    }

    /// Returns the number of samples recorded so far, excluding the warm-up.
    pub fn recorded(&self) -> u64 {
        self.accounting.recorded
    }

    /// Ends the recording. `expected` is the number of wake-ups that came due according to the
    /// clock.
    pub fn finish(mut self, expected: u64, cost: SelfCost) -> WorkerOutcome {
        self.accounting.expected = expected;
        self.accounting.early = self.histogram.early();
        self.accounting.overflow = self.histogram.overflow();
        let usage = self
            .usage_before
            .filter(|_| !self.foreign)
            .map_or(ThreadUsage::default(), used_since);
        WorkerOutcome {
            accounting: self.accounting,
            largest: self.top_samples.sorted(),
            dropped: self.dropped.load(Ordering::Relaxed),
            histogram: self.histogram,
            missed_histogram: self.overruns.filter(|late| late.recorded() > 0),
            open: self.open,
            above: self.above.into_vec(),
            windows: self.windows.iter().map(MissWindows::count).collect(),
            usage,
            cost,
        }
    }

    /// This is done once per run. From here on, the page faults and switches of the thread count.
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
                // The accounting of the thread already covers these events.
                Event::Started { .. }
                | Event::Late { .. }
                | Event::Grid { .. }
                | Event::Missed { .. }
                | Event::Overrun { .. }
                | Event::TimedOut
                | Event::WarmedUp { .. } => 0,
            };
            // This thread is the only writer, so a load and a store have the same effect as an
            // atomic addition, but without the bus lock.
            let dropped = self.dropped.load(Ordering::Relaxed);
            self.dropped.store(dropped + lost, Ordering::Relaxed);
        }
    }
}

/// Returns the usage of the calling thread since `before`.
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

/// Returns the usage of the calling thread so far.
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

/// The result of one worker.
#[derive(Clone, Debug)]
pub struct WorkerOutcome {
    /// The sample accounting, that is, the results of all expected wake-ups.
    pub accounting: Accounting,
    /// The latencies.
    pub histogram: Histogram,
    /// Lateness of missed periods, if known.
    pub missed_histogram: Option<Box<Histogram>>,
    /// Missed periods that had no wake-up at the end.
    pub open: Option<OpenPeriods>,
    /// Number of periods that exceeded each limit.
    pub above: Vec<AboveLimit>,
    /// Late periods in windows of consecutive periods, if the requirement limits them.
    pub windows: Vec<WindowCount>,
    /// The top samples as (latency, expected time), largest first.
    pub largest: Vec<(Nanos, Nanos)>,
    /// Number of samples that did not fit into the ring.
    pub dropped: u64,
    /// The thread's usage after its warm-up.
    pub usage: ThreadUsage,
    /// The cost of measuring itself.
    pub cost: SelfCost,
}

/// The reading end of a worker.
#[derive(Debug)]
pub struct WorkerReader {
    ring: Consumer<Event>,
    dropped: Arc<AtomicU64>,
}

impl WorkerReader {
    /// Passes the events that have arrived since the last call to `take`.
    pub fn drain(&mut self, mut take: impl FnMut(Event)) {
        // Events that arrive during this call are left for the next one. Otherwise, a fast worker
        // could keep this call from ever returning.
        for _ in 0..self.waiting() {
            match self.pop() {
                Some(event) => take(event),
                None => return,
            }
        }
    }

    /// Returns the number of events that can be read now.
    pub fn waiting(&self) -> usize {
        self.ring.slots()
    }

    /// Removes and returns the oldest event.
    pub fn pop(&mut self) -> Option<Event> {
        self.ring.pop().ok()
    }

    /// Returns whether the thread has ended the recording, so that no more events will come.
    pub fn is_over(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// Returns the number of samples so far that did not fit into the ring.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
