//! Tests the source with a simulated kernel.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use punctual_model::{NoiseReports, SignedNanos, TimerlatSample};

use super::*;
use crate::entry::Probe;
use crate::testing::{self, OTHER};
use crate::timer::Timer;
use crate::timer::parameters::PARAMETERS;
use crate::{Plan, Ready, UserTimer};

/// A kernel with punctual timers and some skipped expiries.
#[derive(Default)]
struct Kernel {
    refuses: Option<&'static str>,
    without_user: bool,
    asked: Mutex<Option<(NoisePlan, Nanos)>>,
    /// Number of expiries reported so far, by CPU.
    told: Mutex<BTreeMap<u32, u32>>,
    waits: AtomicU32,
    fails_after: Option<u32>,
}

/// The lateness of a simulated expiry, in the interrupt, thread and user space.
const LATE: [u64; 3] = [1_000, 8_000, 12_000];

impl Kernel {
    /// Returns the samples due by now on one CPU. Each fifth expiry is skipped.
    fn samples(&self, cpu: u32, period: Nanos, user: bool, start: Nanos) -> Vec<TimerlatSample> {
        let passed = now().saturating_sub(start).0 / period.0;
        let mut told = self.told.lock().unwrap();
        let seqnum = told.entry(cpu).or_default();
        let mut samples = Vec::new();
        let own = punctual_rt::current_tid().as_raw().unsigned_abs();
        loop {
            // The first timer is due one period after the start.
            let place = u64::from(*seqnum) + u64::from(*seqnum / 4) + 1;
            if place >= passed {
                return samples;
            }
            *seqnum += 1;
            let due = start.0 + place * period.0;
            for ((context, _), late) in contexts(user).iter().zip(LATE) {
                samples.push(TimerlatSample {
                    cpu,
                    time: Nanos(due + late),
                    pid: own,
                    seqnum: *seqnum,
                    context: *context,
                    latency: SignedNanos(late as i64),
                });
            }
        }
    }
}

struct Sleep(Arc<Kernel>, Duration);

impl UserTimer for Sleep {
    fn wait(&mut self) -> Result<(), TracerError> {
        let waits = self.0.waits.fetch_add(1, Ordering::Relaxed);
        if self.0.fails_after.is_some_and(|most| waits >= most) {
            return Err(TracerError::refused(testing::Said("the thread was moved")));
        }
        thread::sleep(self.1);
        Ok(())
    }
}

/// The handle that the probe gets.
struct Handle(Arc<Kernel>);

impl NoiseTracer for Handle {
    fn may_start(&self, _: &NoisePlan) -> Result<(), TracerError> {
        testing::unless_refused(self.0.refuses)
    }
    fn has_user_threads(&self, _: &CpuSet) -> Result<bool, TracerError> {
        Ok(!self.0.without_user)
    }
    fn start(&self, plan: &NoisePlan) -> Result<(), TracerError> {
        *self.0.asked.lock().unwrap() = Some((plan.clone(), now()));
        Ok(())
    }
    fn take(&self) -> Result<NoiseReports, TracerError> {
        let asked = self.0.asked.lock().unwrap().clone();
        let (NoisePlan::Timerlat { cpus, period, user }, start) = asked.unwrap() else {
            panic!("osnoise was asked for");
        };
        let samples = cpus
            .iter()
            .flat_map(|cpu| self.0.samples(cpu, period, user, start));
        Ok(NoiseReports {
            timerlat: samples.collect(),
            ..NoiseReports::default()
        })
    }
    fn user_wait(&self, _: u32) -> Result<Box<dyn UserTimer>, TracerError> {
        Ok(Box::new(Sleep(
            Arc::clone(&self.0),
            Duration::from_millis(1),
        )))
    }
}

fn prepare(
    given: &[(&str, &str)],
    kernel: Kernel,
    millis: u64,
) -> (Result<Ready, ProbeError>, Arc<Kernel>) {
    let mut all = vec![("source", "timerlat")];
    all.extend(given);
    let timer = Timer::new(&testing::arguments(PARAMETERS, &all));
    let kernel = Arc::new(kernel);
    let offer = testing::Offer {
        noise: Some(Arc::new(Handle(Arc::clone(&kernel)))),
        ..testing::Offer::default()
    };
    (timer.prepare(&plan(millis), &offer), kernel)
}

fn plan(millis: u64) -> Plan {
    Plan {
        cpus: testing::cpus(1),
        duration_asked: false,
        ..testing::plan(OTHER, Nanos::from_millis(millis))
    }
}

#[test]
fn rows_split_latencies_and_cover_all_periods() {
    for (workload, names) in [("user", 3), ("kernel", 2)] {
        let (ready, kernel) = prepare(&[("workload", workload)], Kernel::default(), 200);
        let control = Arc::new(Control::new());
        let (workers, measured) = testing::run_all(ready, &control);
        let labels: Vec<&str> = workers.iter().flat_map(|l| l.label.as_deref()).collect();
        assert_eq!(labels.len(), names);
        assert!(labels[0].ends_with(", interrupt"), "{labels:?}");
        assert!(!control.stopping());
        for (worker, late) in measured.workers.iter().zip(LATE) {
            assert_eq!(worker.accounting.expected, 200);
            assert_eq!(worker.accounting.warm_up, 20);
            // Every fifth expiry is skipped.
            assert!(
                (30..=42).contains(&worker.accounting.missed),
                "{:?}",
                worker.accounting
            );
            assert_eq!(worker.histogram.max(), Some(Nanos(late)));
        }
        let waited = kernel.waits.load(Ordering::Relaxed);
        assert_eq!(waited > 0, workload == "user", "{waited}");
        let [table] = &measured.tables[..] else {
            panic!("{:?}", measured.tables);
        };
        let skipped = testing::count(table, 0, "skipped");
        assert!((30..=55).contains(&skipped), "{skipped}");
    }
}

#[test]
fn stop_ends_run_and_keeps_seen_samples() {
    let (ready, _kernel) = prepare(&[], Kernel::default(), 3_600_000);
    let control = Arc::new(Control::new());
    testing::stop_after(&control, Duration::from_millis(60));
    let (_, measured) = testing::run_all(ready, &control);
    let account = measured.workers[0].accounting;
    assert!(account.expected < 10_000, "{account:?}");
}

#[test]
fn what_fails_ends_the_run() {
    let fails = Kernel {
        fails_after: Some(5),
        ..Kernel::default()
    };
    let (ready, _kernel) = prepare(&[], fails, 60_000);
    let error = testing::run(ready.unwrap(), &Arc::new(Control::new())).unwrap_err();
    assert!(!error.is_usage());
    assert!(error.to_string().contains("was moved"), "{error}");
}

#[test]
fn user_space_is_default_when_supported() {
    let old = || Kernel {
        without_user: true,
        ..Kernel::default()
    };
    let (first, _kernel) = prepare(&[], Kernel::default(), 100);
    assert_eq!(first.unwrap().workers.len(), 3);
    let (second, _kernel) = prepare(&[], old(), 100);
    let (workers, measured) = testing::run_all(second, &Arc::new(Control::new()));
    assert_eq!(workers.len(), 2);
    let told = measured
        .warnings
        .iter()
        .any(|text| text.contains("user space"));
    assert!(told, "{:?}", measured.warnings);
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused =
        |given: &[(&str, &str)]| testing::refusal_of(prepare(given, Kernel::default(), 10_000).0);
    for (name, value) in [
        ("wait", "timerfd"),
        ("aligned", "yes"),
        ("start-phase", "1us"),
        ("threads", "2"),
        ("unbound", "yes"),
        ("distance", "1ms"),
        ("clock", "realtime"),
        ("wakeups", "5"),
    ] {
        let text = refused(&[(name, value)]);
        assert!(text.contains(&format!("--{name}")), "{text}");
    }
    for interval in ["99us", "2s", "1000500ns"] {
        let text = refused(&[("interval", interval)]);
        assert!(text.contains("100 µs to 1.00 s"), "{text}");
    }
    let alone = Timer::new(&testing::arguments(PARAMETERS, &[("workload", "user")]));
    let text = testing::refusal(alone, &plan(100));
    assert!(text.contains("--source timerlat"), "{text}");
    let absent = Kernel {
        refuses: Some("no tracer 'timerlat'"),
        ..Kernel::default()
    };
    let text = testing::refusal_of(prepare(&[], absent, 100).0);
    assert_eq!(text, "--source timerlat: no tracer 'timerlat'");
}

#[test]
fn skipped_periods_share_late_threads_lateness() {
    let (recorder, _reader) = testing::worker(Nanos::ZERO, &Arc::new(Control::new()));
    let mut row = super::rows::Row::new(TimerlatContext::Thread, false, recorder);
    let grid = super::rows::RowSchedule::new(Nanos::from_secs(1), Nanos::from_millis(1));
    for (seqnum, place, late) in [(1, 0, 3_500_000), (2, 6, 20_000)] {
        let sample = TimerlatSample {
            cpu: 0,
            time: Nanos(grid.due(place).0 + late),
            pid: 1,
            seqnum,
            context: TimerlatContext::Thread,
            latency: SignedNanos(late as i64),
        };
        row.take(&grid, place, &sample);
    }
    let outcome = row.finish(&grid, Some(8), None, SelfCost::default());
    assert!(outcome.accounting.balances());
    // For three others, the lateness is unknown, because a sample was lost or none came.
    assert_eq!(outcome.accounting.missed, 6);
    let late = outcome.missed_histogram.unwrap();
    let rows: Vec<u64> = late.rows().map(|(lower, _, _)| lower).collect();
    assert_eq!(rows, [500_000, 1_500_000, 2_500_000]);
}
