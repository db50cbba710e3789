//! Converts the kernel's samples to the rows of a recording, with each sample in its period and
//! each period accounted for.

use punctual_model::{Cell, Nanos, Table, TimerlatContext, TimerlatSample};
use punctual_rt::Tid;

use crate::{Recorder, SelfCost, WorkerOutcome};

/// The due times of one CPU's timer. They stay the same as long as its thread exists. If an expiry
/// is skipped, the period of this expiry has passed.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowSchedule {
    base: Nanos,
    period: Nanos,
}

impl RowSchedule {
    pub(super) fn new(first_due: Nanos, period: Nanos) -> Self {
        Self {
            base: first_due,
            period: period.max(Nanos(1)),
        }
    }

    /// Estimates the start from the due times of the first samples. A sample is written some
    /// hundred ns after its measurement, so the earliest due time is the most accurate.
    fn from_seen(seen: &[Nanos], period: Nanos) -> Option<Self> {
        let rough = Self::new(*seen.iter().min()?, period);
        let early = |seen: &Nanos| Nanos(seen.0 - rough.row_of(*seen) * rough.period.0);
        let first = seen.iter().map(early).min()?;
        Some(Self::new(first.min(rough.base), period))
    }

    /// Returns the period whose timer was due at `seen` or slightly before.
    pub(super) fn row_of(&self, seen: Nanos) -> u64 {
        let slack = self.period.0 / 4;
        seen.0.saturating_add(slack).saturating_sub(self.base.0) / self.period.0
    }

    /// Returns the time when the timer of a period was due.
    pub(super) fn due(&self, place: u64) -> Nanos {
        Nanos(
            self.base
                .0
                .saturating_add(place.saturating_mul(self.period.0)),
        )
    }

    /// Shifts the due times after the thread was restarted, without counting a period twice.
    pub(super) fn restart(&mut self, seen: Nanos) {
        let place = seen.saturating_sub(self.base).0 / self.period.0;
        self.base = Nanos(seen.0.saturating_sub(place.saturating_mul(self.period.0)));
    }
}

/// One row, which has the samples of one CPU in one context.
pub(super) struct Row {
    context: TimerlatContext,
    /// Whether the samples belong to a thread and can be explained.
    explained: bool,
    recorder: Recorder,
    started: bool,
    /// The first period whose result is still unknown.
    next: u64,
    /// The time of the latest sample's wake-up.
    woke: Nanos,
    last_seqnum: Option<u32>,
    lost: u64,
    missed: u64,
}

impl Row {
    pub(super) fn new(context: TimerlatContext, explained: bool, mut recorder: Recorder) -> Self {
        recorder.count_overruns();
        Self {
            context,
            explained,
            recorder,
            started: false,
            next: 0,
            woke: Nanos::ZERO,
            last_seqnum: None,
            lost: 0,
            missed: 0,
        }
    }

    fn start(&mut self, grid: &RowSchedule, pid: Option<u32>) {
        if !std::mem::replace(&mut self.started, true) {
            let tid = pid.and_then(|pid| Tid::from_raw(i32::try_from(pid).ok()?));
            let tid = tid.filter(|_| self.explained);
            self.recorder.start_for(grid.due(0), tid);
        }
    }

    /// Counts the periods up to `place` as passed without a sample. For periods that were due
    /// before the wake-up of the latest sample, the lateness follows from this wake-up, because the
    /// kernel skips them (wait_next_period() in trace_osnoise.c). The samples of the other periods
    /// were lost or never came, and their lateness is unknown. `until` is set at the end of the run
    /// if all samples had been read by then and none was lost. Periods without a sample are then
    /// open.
    fn skip_to(&mut self, grid: &RowSchedule, place: u64, until: Option<Nanos>) {
        let Some(count @ 1..) = place.checked_sub(self.next) else {
            return;
        };
        let first = grid.due(self.next);
        let passed = self.woke.saturating_sub(first).0.div_ceil(grid.period.0);
        let passed = passed.min(count);
        self.recorder.overrun(first, passed, grid.period, self.woke);
        let rest = grid.due(self.next + passed);
        let count_rest = count - passed;
        match until {
            Some(until) => (self.recorder).still_open(rest, count_rest, grid.period, until),
            None => self.recorder.missed(rest, count_rest, grid.period),
        }
        self.missed += count;
        self.next = place;
    }

    pub(super) fn take(&mut self, grid: &RowSchedule, place: u64, sample: &TimerlatSample) {
        self.start(grid, Some(sample.pid));
        if let Some(last) = self.last_seqnum.replace(sample.seqnum)
            && sample.seqnum > last
        {
            self.lost += u64::from(sample.seqnum - last - 1);
        }
        self.skip_to(grid, place, None);
        // If two samples are in the same period, one of them was written late because of a
        // hypervisor.
        let place = place.max(self.next);
        let due = grid.due(place);
        self.recorder.sample(due, sample.latency);
        self.woke = Nanos(due.0.saturating_add_signed(sample.latency.0));
        self.next = place + 1;
    }

    /// `periods`: the number of periods that came due, if the run reached its end; otherwise, those
    /// that were seen are counted. `until`: the time when all samples had been read, if none was
    /// lost.
    pub(super) fn finish(
        mut self,
        schedule: &RowSchedule,
        periods: Option<u64>,
        until: Option<Nanos>,
        cost: SelfCost,
    ) -> WorkerOutcome {
        self.start(schedule, None);
        if let Some(periods) = periods {
            // The timer of the interrupt is armed by the thread. If the thread does not run, no
            // expiry is due.
            let until = until.filter(|_| self.context != TimerlatContext::Irq);
            self.skip_to(schedule, periods, until);
        }
        self.recorder.finish(self.next, cost)
    }
}

/// Number of samples from which the due times are estimated. They belong to one or two expiries.
const ENOUGH: usize = 4;

/// Returns the time when the timer of a sample was apparently due.
fn due_of(sample: &TimerlatSample) -> Nanos {
    let late = sample.latency.0;
    Nanos(sample.time.0.saturating_add_signed(late.saturating_neg()))
}

/// All rows of one CPU.
pub(super) struct CpuRows {
    pub(super) cpu: u32,
    period: Nanos,
    /// The number of periods in the run; `None` until it is stopped.
    periods: Option<u64>,
    grid: Option<RowSchedule>,
    /// The first samples, which are kept until there are enough to estimate the due times.
    waiting: Vec<TimerlatSample>,
    rows: Vec<Row>,
    /// The thread that the timer wakes, once known.
    pub(super) tid: Option<u32>,
    last_irq: Option<u32>,
    over: bool,
    restarts: u64,
}

impl CpuRows {
    pub(super) fn new(cpu: u32, period: Nanos, duration: Option<Nanos>, rows: Vec<Row>) -> Self {
        Self {
            cpu,
            period,
            periods: duration.map(|duration| duration.0.div_ceil(period.0.max(1))),
            grid: None,
            waiting: Vec::new(),
            rows,
            tid: None,
            last_irq: None,
            over: false,
            restarts: 0,
        }
    }

    /// Returns whether a sample from after the end has been seen.
    pub(super) const fn over(&self) -> bool {
        self.over
    }

    /// Returns when the first timer was due.
    pub(super) fn began(&self) -> Option<Nanos> {
        self.grid.map(|grid| grid.due(0))
    }

    pub(super) fn take(&mut self, sample: &TimerlatSample) {
        if self.grid.is_some() {
            return self.place(sample);
        }
        self.waiting.push(*sample);
        if self.waiting.len() >= ENOUGH {
            self.begin();
        }
    }

    /// Estimates the due times from the first samples, and then adds these samples.
    fn begin(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        let seen: Vec<Nanos> = waiting.iter().map(due_of).collect();
        self.grid = self
            .grid
            .or_else(|| RowSchedule::from_seen(&seen, self.period));
        for sample in &waiting {
            self.place(sample);
        }
    }

    fn place(&mut self, sample: &TimerlatSample) {
        let due = due_of(sample);
        let Some(grid) = &mut self.grid else { return };
        if sample.context == TimerlatContext::Irq {
            let before = self.last_irq.replace(sample.seqnum);
            if before.is_some_and(|before| sample.seqnum <= before) {
                grid.restart(due);
                self.restarts += 1;
            }
        } else {
            self.tid = Some(sample.pid);
        }
        let place = grid.row_of(due);
        if self.periods.is_some_and(|periods| place >= periods) {
            self.over = true;
            return;
        }
        let row = self
            .rows
            .iter_mut()
            .find(|row| row.context == sample.context);
        if let Some(row) = row {
            row.take(grid, place, sample);
        }
    }

    /// Returns the results. `whole`: whether the run reached its end by the clock; `start`: when
    /// the tracer was started, for a CPU without a sample; `until`: when all samples had been read,
    /// if none was lost.
    pub(super) fn finish(
        mut self,
        whole: bool,
        start: Nanos,
        until: Option<Nanos>,
        cost: SelfCost,
    ) -> Vec<WorkerOutcome> {
        self.begin();
        let periods = self.periods.filter(|_| whole);
        // A CPU without a sample may have no tracer.
        let until = until.filter(|_| self.grid.is_some());
        let grid = self
            .grid
            .unwrap_or_else(|| RowSchedule::new(start, self.period));
        let rows = self.rows.into_iter();
        rows.map(|row| row.finish(&grid, periods, until, cost))
            .collect()
    }

    /// Adds figures other than latencies.
    pub(super) fn push_to(&self, table: &mut Table, scheduling: Option<String>) {
        // The row of the interrupt contains all expiries.
        let irq = self.rows.first();
        let of = |count: fn(&Row) -> u64| irq.map(count);
        table.push([
            Cell::from(u64::from(self.cpu)),
            self.tid.map(u64::from).into(),
            scheduling.map_or(Cell::Unknown, Cell::from),
            self.last_irq.map(u64::from).into(),
            of(|row| row.missed.saturating_sub(row.lost)).into(),
            self.rows.iter().map(|row| row.lost).sum::<u64>().into(),
            self.restarts.into(),
        ]);
    }
}

/// Creates an empty table of the CPUs.
pub(super) fn table() -> Table {
    Table::new(
        "timerlat",
        "The kernel's timers and the threads they woke, including the warm-up",
        &[
            ("cpu", "CPU"),
            ("tid", "thread"),
            ("scheduling", "policy"),
            ("expiries", "expiries"),
            ("skipped", "skipped"),
            ("lost", "samples lost"),
            ("restarts", "restarts"),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Control, RecorderSlot, WorkerReader, WorkerSettings};
    use proptest::prelude::*;
    use punctual_model::SignedNanos;
    use std::sync::Arc;

    const PERIOD: Nanos = Nanos(1_000_000);
    const BASE: u64 = 50_000_000;

    fn rows(warm_up: Nanos, duration: Option<Nanos>) -> (CpuRows, Vec<WorkerReader>) {
        let settings = WorkerSettings {
            warm_up,
            break_above: None,
            rate_hz: 1_000,
        };
        let control = Arc::new(Control::new());
        let contexts = [TimerlatContext::Irq, TimerlatContext::Thread];
        let (rows, readers) = contexts
            .into_iter()
            .map(|context| {
                let (recorder, reader) = RecorderSlot::open(settings, &control);
                let explained = context == TimerlatContext::Thread;
                (Row::new(context, explained, recorder), reader)
            })
            .unzip();
        (CpuRows::new(3, PERIOD, duration, rows), readers)
    }

    /// Builds a sample of the timer that was due in this period. The sample is late by `late` ns,
    /// and was written `after` ns later.
    fn sample(
        context: TimerlatContext,
        seqnum: u32,
        place: u64,
        late: i64,
        after: u64,
    ) -> TimerlatSample {
        let due = BASE + place * PERIOD.0;
        TimerlatSample {
            cpu: 3,
            time: Nanos(due.saturating_add_signed(late) + after),
            pid: 4_711,
            seqnum,
            context,
            latency: SignedNanos(late),
        }
    }

    const IRQ: TimerlatContext = TimerlatContext::Irq;
    const THREAD: TimerlatContext = TimerlatContext::Thread;

    #[test]
    fn each_period_is_accounted_for() {
        let (mut rows, mut readers) = rows(Nanos::from_millis(2), Some(Nanos::from_millis(10)));
        let mut seqnum = 0;
        // The kernel skipped periods 4 and 5. The thread's sample of period 7 was lost.
        for place in [0, 1, 2, 3, 6, 7, 8, 9, 10] {
            seqnum += 1;
            rows.take(&sample(IRQ, seqnum, place, 900, 300));
            if place != 7 {
                rows.take(&sample(THREAD, seqnum, place, 9_000, 200));
            }
        }
        assert!(rows.over());
        assert_eq!(rows.began(), Some(Nanos(BASE + 200)));
        assert_eq!(rows.tid, Some(4_711));
        let mut table = table();
        rows.push_to(&mut table, Some("fifo".to_owned()));
        let row = &table.rows[0];
        assert_eq!(row[3..], [9, 2, 1, 0].map(Cell::Count));
        let outcomes = rows.finish(true, Nanos::ZERO, None, SelfCost::default());
        for (outcome, missed) in outcomes.iter().zip([2, 3]) {
            let account = outcome.accounting;
            assert!(account.balances(), "{account:?}");
            assert_eq!((account.expected, account.warm_up), (10, 2));
            assert_eq!(account.missed, missed);
            // The thread that reads the samples is not measured.
            assert_eq!(outcome.usage, Default::default());
        }
        assert_eq!(outcomes[1].largest[0].0, Nanos(9_000));
        // Only the thread's row has a thread.
        let mut tids = Vec::new();
        for reader in &mut readers {
            reader.drain(|event| {
                if let crate::Event::Started { at, tid, .. } = event {
                    // The start is derived from the first sample that was written with the smallest
                    // delay.
                    assert_eq!(at, Nanos(BASE + 200));
                    tids.push(tid.map(Tid::as_raw));
                }
            });
        }
        assert_eq!(tids, [None, Some(4_711)]);
    }

    #[test]
    fn only_whole_runs_count_absent_periods_missed() {
        for (whole, expected) in [(true, 10), (false, 3)] {
            let (mut rows, _readers) = rows(Nanos::ZERO, Some(Nanos::from_millis(10)));
            for place in 0..3 {
                rows.take(&sample(IRQ, place as u32 + 1, place, 900, 0));
            }
            let outcomes = rows.finish(whole, Nanos(BASE), None, SelfCost::default());
            let account = outcomes[0].accounting;
            assert!(account.balances());
            assert_eq!(account.expected, expected);
            assert_eq!(outcomes[1].accounting.recorded, 0);
            assert!(outcomes[1].accounting.balances());
        }
    }

    /// The thread did not run from the fourth period until long after the end.
    #[test]
    fn unwoken_periods_have_minimum_lateness_at_end() {
        let until = Nanos(BASE + 510 * PERIOD.0);
        for (lost, open) in [(false, Some(7)), (true, None)] {
            let (mut rows, _readers) = rows(Nanos::ZERO, Some(Nanos::from_millis(10)));
            for place in 0..4 {
                rows.take(&sample(IRQ, place as u32 + 1, place, 0, 0));
                if place < 3 {
                    rows.take(&sample(THREAD, place as u32 + 1, place, 9_000, 0));
                }
            }
            let until = (!lost).then_some(until);
            let outcomes = rows.finish(true, Nanos(BASE), until, SelfCost::default());
            assert!(outcomes.iter().all(|worker| worker.accounting.balances()));
            assert_eq!(outcomes[0].open, None);
            let found = outcomes[1].open;
            assert_eq!(found.map(|open| open.periods), open);
            let late = found.map(|open| open.late_ns);
            assert_eq!(late, open.map(|_| Nanos(507 * PERIOD.0)));
            assert_eq!(outcomes[1].accounting.missed, 7);
        }
    }

    #[test]
    fn restarted_threads_begin_a_new_grid() {
        let (mut rows, _readers) = rows(Nanos::ZERO, None);
        rows.take(&sample(IRQ, 1, 0, 900, 0));
        for place in 1..4 {
            rows.take(&sample(IRQ, place + 1, place.into(), 900, 0));
        }
        // These samples are three tenths of a period later, and are counted from 1 again.
        let mut anew = sample(IRQ, 1, 6, 900, 0);
        anew.time.0 += 300_000;
        rows.take(&anew);
        assert_eq!(rows.restarts, 1);
        let account = rows.finish(false, Nanos::ZERO, None, SelfCost::default())[0].accounting;
        assert!(account.balances());
        assert_eq!((account.expected, account.recorded), (7, 5));
    }

    proptest! {
        /// The accounting balances for all samples, no matter in which order they come.
        #[test]
        fn any_samples_balance(
            samples in proptest::collection::vec(
                (0_u32..40, 0_u64..60, -5_000_i64..3_000_000, 0_u64..2_000_000, any::<bool>()), 0..60,
            ),
            whole: bool,
        ) {
            let (mut rows, _readers) = rows(Nanos::from_millis(3), Some(Nanos::from_millis(40)));
            for (seqnum, place, late, after, irq) in samples {
                let context = if irq { IRQ } else { THREAD };
                rows.take(&sample(context, seqnum, place, late, after));
            }
            for outcome in rows.finish(whole, Nanos(BASE), None, SelfCost::default()) {
                let account = outcome.accounting;
                prop_assert!(account.balances(), "{account:?}");
                prop_assert!(account.expected <= 100);
            }
        }

        #[test]
        fn no_sample_panics(
            (time, latency, seqnum) in any::<(u64, i64, u32)>(), irq: bool,
        ) {
            let (mut rows, _readers) = rows(Nanos::ZERO, Some(Nanos::from_millis(40)));
            rows.take(&sample(IRQ, 1, 0, 900, 0));
            let context = if irq { IRQ } else { THREAD };
            rows.take(&TimerlatSample {
                cpu: 3,
                time: Nanos(time),
                pid: u32::MAX,
                seqnum,
                context,
                latency: SignedNanos(latency),
            });
        }
    }
}
