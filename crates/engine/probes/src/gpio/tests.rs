//! Tests the probe with simulated lines.

use std::collections::VecDeque;

use proptest::prelude::*;
use punctual_rt::{Error, GpioEdge, Instant, Nanosleep, PeriodicWait};

use super::*;
use crate::WorkerOutcome;
use crate::testing::{self, DEADLINE, OTHER, count, plan};

/// Lines whose kernel has these edges in its queue: the time and number of each.
#[derive(Default)]
struct Simulated {
    edges: VecDeque<(u64, u32)>,
    has_output: bool,
    answers: u64,
    /// Number of answers after which the chip is gone.
    lasts: Option<u64>,
    /// Stops the run when the queue is empty.
    control: Arc<Control>,
}

impl Port for Simulated {
    fn wait(&mut self) -> Result<Option<GpioEdge>, Error> {
        let next = self.edges.pop_front();
        if next.is_none() {
            self.control.stop();
        }
        Ok(next.map(|(at, number)| GpioEdge {
            at: Instant::from_nanos(at),
            number,
        }))
    }

    fn has_edge(&mut self, _: Duration) -> Result<bool, Error> {
        Ok(!self.edges.is_empty())
    }

    fn answer(&mut self) -> Result<bool, Error> {
        if self.lasts.is_some_and(|lasts| self.answers >= lasts) {
            return Err(Error::NotSupported {
                what: "the simulated output",
                why: "it was removed",
            });
        }
        self.answers += u64::from(self.has_output);
        Ok(self.has_output)
    }
}

/// Length of the simulated runs.
const LENGTH: Nanos = Nanos::from_millis(100);

/// Their warm-up.
const WARM_UP: Nanos = Nanos::from_millis(10);

/// Answers edges whose times count from the start of a run that has already ended, so that none of
/// them is in the future.
fn answer_all(
    edges: impl IntoIterator<Item = (u64, u32)>,
    has_output: bool,
    lasts: Option<u64>,
) -> Result<(WorkerOutcome, EdgeResult), Error> {
    let start = now().saturating_sub(Nanos::from_secs(1));
    let control = Arc::new(Control::new());
    let (recorder, _reader) = testing::worker(WARM_UP, &control);
    let edges = edges.into_iter();
    let worker = Worker {
        port: Simulated {
            edges: edges.map(|(at, number)| (start.0 + at, number)).collect(),
            has_output,
            lasts,
            control: Arc::clone(&control),
            ..Simulated::default()
        },
        recorder,
        duration: Some(LENGTH),
        warm_up: WARM_UP,
        cost: SelfCost::default(),
    };
    worker.run(
        &control,
        Instant::from_nanos(start.0),
        &AtomicU64::new(NEVER),
    )
}

proptest! {
    /// The kernel drops some of the edges, and numbers all.
    #[test]
    fn each_edge_is_accounted_for(
        distances in prop::collection::vec((1..3_000_000_u64, prop::bool::ANY), 1..80),
        is_set: bool,
    ) {
        let mut at = 0;
        let all: Vec<(u64, u32, bool)> = (1..).zip(&distances).map(|(number, (distance, kept))| {
            at += distance;
            (at, number, *kept)
        }).collect();
        let kept = all.iter().filter(|edge| edge.2).map(|edge| (edge.0, edge.1));
        let (outcome, seen) = answer_all(kept.clone(), is_set, None).unwrap();
        let account = outcome.accounting;
        prop_assert!(account.balances(), "{account:?}");
        prop_assert_eq!(account.expected, seen.edges);
        prop_assert_eq!(account.early, 0);
        prop_assert_eq!(outcome.histogram.recorded(), account.recorded);
        let read: Vec<_> = kept.clone().filter(|edge| edge.0 < LENGTH.0).collect();
        let measured = read.iter().filter(|edge| edge.0 >= WARM_UP.0).count() as u64;
        prop_assert_eq!(seen.received, read.len() as u64);
        prop_assert_eq!(account.recorded, measured);
        prop_assert_eq!(seen.parts.first.recorded(), measured);
        prop_assert_eq!(seen.changes, if is_set { seen.received } else { 0 });
        prop_assert_eq!(seen.edges, seen.received + seen.dropped);
        prop_assert_eq!(account.missed + account.warm_up, seen.dropped + seen.received - measured);
        // Edges that the kernel dropped after the last one that it kept are unknown.
        let last_kept = kept.clone().next_back().map_or(0, |edge| edge.1);
        if kept.clone().all(|edge| edge.0 < LENGTH.0) {
            prop_assert_eq!(seen.edges, u64::from(last_kept));
        } else {
            prop_assert!(seen.edges < u64::from(last_kept));
        }
    }
}

#[test]
fn edges_around_the_run_are_not_samples() {
    let start = now().saturating_sub(Nanos::from_secs(1));
    let control = Arc::new(Control::new());
    let (recorder, _reader) = testing::worker(Nanos::ZERO, &control);
    let second = 1_000_000_000;
    // The kernel dropped the first edge, before the start. Two edges are in the run. The kernel
    // dropped another one before the last edge, which is after the end.
    let times = [(-second, 2), (5, 3), (7, 4), (second / 2, 6)];
    let worker = Worker {
        port: Simulated {
            edges: (times.iter())
                .map(|(after, number)| (start.0.saturating_add_signed(*after), *number))
                .collect(),
            has_output: true,
            control: Arc::clone(&control),
            ..Simulated::default()
        },
        recorder,
        duration: Some(LENGTH),
        warm_up: Nanos::ZERO,
        cost: SelfCost::default(),
    };
    let run = worker.run(
        &control,
        Instant::from_nanos(start.0),
        &AtomicU64::new(NEVER),
    );
    let (outcome, seen) = run.unwrap();
    assert_eq!((seen.early, seen.received, seen.changes), (2, 2, 2));
    // The dropped edge is assumed to be halfway to the last one, after the end of the run.
    assert_eq!((seen.dropped, seen.edges), (0, 2));
    assert_eq!(outcome.accounting.recorded, 2);
    // Each sample lasts from its edge to the present.
    assert!(outcome.histogram.min() >= Some(Nanos(900_000_000)));
}

#[test]
fn failing_output_ends_the_run() {
    let edges = (1..5).map(|number| (u64::from(number), number));
    let error = answer_all(edges, true, Some(2)).err().unwrap();
    assert!(error.to_string().contains("was removed"), "{error}");
}

fn line(offset: u32) -> Line {
    Line {
        chip: "gpiochip0".to_owned(),
        offset,
        name: String::new(),
    }
}

fn lines(output: Option<Line>) -> Lines {
    Lines {
        input: line(0),
        output,
        edges: GpioEdges::Rising,
        interval: None,
    }
}

/// Lines without any edge. A wait lasts until a signal interrupts it, as that of the kernel does.
struct Silent;

impl Port for Silent {
    fn wait(&mut self) -> Result<Option<GpioEdge>, Error> {
        let mut sleep = Nanosleep::new(Clock::Monotonic)?;
        sleep.wait_until(Clock::Monotonic.now() + Duration::from_secs(7_200))?;
        Ok(None)
    }

    fn has_edge(&mut self, _: Duration) -> Result<bool, Error> {
        Ok(false)
    }

    fn answer(&mut self) -> Result<bool, Error> {
        Ok(true)
    }
}

#[test]
fn a_run_without_edges_ends_and_says_so() {
    for (output, rows) in [(None, [4, 1]), (Some(line(1)), [5, 2])] {
        let plan = plan(OTHER, Nanos::from_millis(100));
        let ready = ready(&plan, lines(output), || Ok(Silent));
        let (_, measured) = testing::run_all(ready, &Arc::new(Control::new()));
        let account = measured.workers[0].accounting;
        assert_eq!((account.expected, account.recorded), (0, 0));
        assert_eq!(
            measured.warnings,
            [
                "no rising edge of gpiochip0:0 arrived, so nothing was measured: check the source \
                 of the signal, the wire and --edge"
            ]
        );
        for (table, rows) in measured.tables.iter().zip(rows) {
            assert_eq!(table.rows.len(), rows, "{table:?}");
        }
        assert_eq!(count(&measured.tables[0], 0, "count"), 0);
    }
}

#[test]
fn a_stop_ends_the_wait_for_an_edge() {
    let control = Arc::new(Control::new());
    let stopping = testing::stop_after(&control, Duration::from_millis(50));
    let plan = plan(OTHER, Nanos::from_secs(7_200));
    testing::run_all(ready(&plan, lines(None), || Ok(Silent)), &control);
    drop(control);
    stopping.join().unwrap();
}

#[test]
fn a_line_that_was_taken_meanwhile_is_an_error() {
    let plan = plan(OTHER, Nanos::from_millis(100));
    let taken = || Err::<Silent, _>(ProbeError::Unfit("it is in use".to_owned()));
    let ready = ready(&plan, lines(None), taken).unwrap();
    let control = Arc::new(Control::new());
    let error = testing::run(ready, &control).err().unwrap();
    assert_eq!(error.to_string(), "it is in use");
}

#[test]
fn dropped_edges_are_reported() {
    let mut seen = answer_all([(5, 3)], true, None).unwrap().1;
    let warning = "the kernel dropped 2 edges of gpiochip0:0, because the thread did not read them \
                   in time";
    assert_eq!(warnings(&seen, &lines(None)), [warning]);
    (seen.dropped, seen.edges) = (0, 1);
    assert!(warnings(&seen, &lines(None)).is_empty());
}

fn gpio(given: &[(&str, &str)]) -> Gpio {
    Gpio::new(&testing::arguments(PARAMETERS, given))
}

#[test]
fn what_cannot_be_is_refused() {
    let board = Chips::simulated(&[("gpiochip0", &["", "GPIO1"])]);
    let refused = |given: &[_]| match gpio(given).lines(&board) {
        Err(error) => {
            assert!(error.is_usage(), "{error}");
            error.to_string()
        }
        Ok(lines) => panic!("{lines:?}"),
    };
    let missing = refused(&[("out", "GPIO1")]);
    assert!(
        missing.starts_with("the input is missing: pass --in LINE (this machine has gpiochip0"),
        "{missing}"
    );
    assert_eq!(
        refused(&[("in", "GPIO1"), ("out", "gpiochip0:1")]),
        "--out: gpiochip0:1 (GPIO1) is also the input: choose another line"
    );
    let unknown = refused(&[("in", "GPIO1"), ("out", "GPIO2")]);
    assert!(
        unknown.starts_with("--out GPIO2: no GPIO line is named 'GPIO2'"),
        "{unknown}"
    );
    let found = gpio(&[("in", "GPIO1"), ("edge", "both")]).lines(&board);
    let found = found.unwrap();
    assert_eq!((found.output, found.edges), (None, GpioEdges::Both));
    let needs = refused(&[("in", "GPIO1"), ("interval", "1ms")]);
    assert!(needs.starts_with("--interval needs an output"), "{needs}");
    let second = Nanos::from_secs(1);
    let error = testing::refusal(gpio(&[("in", "GPIO1")]), &plan(DEADLINE, second));
    assert!(error.contains("SCHED_DEADLINE"), "{error}");
    let long = gpio(&[("in", "GPIO1"), ("interval", "2s")]);
    let error = testing::prepare(long, &plan(OTHER, second)).err();
    assert!(matches!(error, Some(ProbeError::IntervalTooLong { .. })));
}

/// A wire from the output to the input. It passes on each change at once, except for some.
struct Wire {
    level: bool,
    edges: GpioEdges,
    changes: u64,
    /// Each change with a multiple of this number comes one change late.
    late_each: u64,
    late: Option<GpioEdge>,
    queue: VecDeque<GpioEdge>,
    counted: Arc<AtomicU64>,
}

impl Wire {
    fn new(edges: GpioEdges, late_each: u64) -> (Self, Arc<AtomicU64>) {
        let counted = Arc::new(AtomicU64::new(0));
        let wire = Self {
            level: edges == GpioEdges::Falling,
            edges,
            changes: 0,
            late_each,
            late: None,
            queue: VecDeque::new(),
            counted: Arc::clone(&counted),
        };
        (wire, counted)
    }
}

impl Port for Wire {
    fn wait(&mut self) -> Result<Option<GpioEdge>, Error> {
        Ok(self.queue.pop_front())
    }

    fn has_edge(&mut self, within: Duration) -> Result<bool, Error> {
        if self.queue.is_empty() {
            std::thread::sleep(within);
        }
        Ok(!self.queue.is_empty())
    }

    fn answer(&mut self) -> Result<bool, Error> {
        self.level = !self.level;
        let is_reported = match self.edges {
            GpioEdges::Rising => self.level,
            GpioEdges::Falling => !self.level,
            GpioEdges::Both => true,
        };
        if is_reported {
            self.queue.extend(self.late.take());
            self.changes += 1;
            let edge = GpioEdge {
                at: Clock::Monotonic.now(),
                number: self.changes as u32,
            };
            if self.changes.is_multiple_of(self.late_each) {
                self.late = Some(edge);
            } else {
                self.queue.push_back(edge);
            }
            self.counted.store(self.changes, Ordering::Relaxed);
        }
        Ok(true)
    }
}

#[test]
fn generated_edges_are_accounted_for() {
    for edges in [GpioEdges::Rising, GpioEdges::Falling, GpioEdges::Both] {
        let plan = Plan {
            warm_up: Some(Nanos::from_millis(20)),
            ..plan(OTHER, Nanos::from_millis(200))
        };
        let (wire, changes) = Wire::new(edges, 10);
        let lines = Lines {
            edges,
            interval: Some(Nanos::from_millis(2)),
            ..lines(Some(line(1)))
        };
        let ready = ready(&plan, lines, || Ok(wire));
        let (_, measured) = testing::run_all(ready, &Arc::new(Control::new()));
        let account = measured.workers[0].accounting;
        assert_eq!(account.expected, 100, "{account:?}");
        let rows: Vec<u64> = (0..4)
            .map(|row| count(&measured.tables[0], row, "count"))
            .collect();
        let [in_time, lost, skipped, stray] = rows[..] else {
            panic!("{rows:?}");
        };
        assert_eq!(in_time + lost + skipped, 100, "{rows:?}");
        assert_eq!(in_time + lost, changes.load(Ordering::Relaxed));
        assert!(in_time > 0 && lost > 0, "{rows:?}");
        // The last late edges may not have come.
        assert!(stray <= lost, "{rows:?}");
        assert_eq!(measured.warnings.len(), usize::from(stray > 0));
        for row in 0..2 {
            assert_eq!(count(&measured.tables[1], row, "edges"), account.recorded);
        }
    }
}

#[test]
fn a_missing_wire_is_an_error() {
    let connected = check_wire(
        &mut Wire::new(GpioEdges::Rising, 10).0,
        &lines(Some(line(1))),
    );
    assert!(connected.is_ok(), "{connected:?}");
    let error = check_wire(&mut Silent, &lines(Some(line(1)))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "--interval: gpiochip0:1 changed, but no edge of gpiochip0:0 came within 1.00 s: connect \
         them with a wire"
    );
}
