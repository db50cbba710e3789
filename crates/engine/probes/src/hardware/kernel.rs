//! The kernel's own detector as a second source.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use punctual_model::{Cell, CpuSet, Nanos, Policy, Scheduling, SignedNanos, Table};

use super::{CLOCK, HardwarePlan};
use crate::monotonic::now;
use crate::{
    Control, HardwareTracer, KernelGap, Measured, ProbeError, Recorder, SelfCost, TracerError,
    TracerPlan, WorkerSpec,
};

/// Interval at which the reports are fetched. It can be this long because the trace buffer holds
/// thousands of them. It is also the maximum delay until a stop is noticed.
const FETCH: Duration = Duration::from_millis(100);

/// Maximum number of reports that are kept individually. All reports are counted.
const REPORTS_KEPT: usize = 1_000;

/// The kernel's pause between two spins is a multiple of this, and at least one (`kthread_fn` in
/// `kernel/trace/trace_hwlat.c`).
const PAUSE_STEP: Nanos = Nanos::from_millis(1);

/// Returns the worker for a run in which only the kernel's thread spins. This thread has normal
/// priority and moves from CPU to CPU.
pub(super) fn worker(cpus: &CpuSet, rate_hz: u64) -> WorkerSpec {
    WorkerSpec {
        label: Some(super::HWLAT.to_owned()),
        cpu: cpus.first().filter(|_| cpus.len() == 1),
        from_cpu: None,
        scheduling: Scheduling {
            policy: Policy::Other,
            priority: 0,
        },
        rate_hz,
    }
}

/// The running detector.
pub(super) struct Detector {
    tracer: Arc<dyn HardwareTracer>,
    plan: HardwarePlan,
    start: Nanos,
}

impl Detector {
    pub(super) fn start(
        tracer: Arc<dyn HardwareTracer>,
        plan: HardwarePlan,
    ) -> Result<Self, ProbeError> {
        let start = now();
        tracer
            .start(&TracerPlan {
                window: plan.duty.window,
                width: plan.duty.width,
                threshold: plan.threshold,
                cpus: plan.cpus.iter().copied().collect(),
            })
            .map_err(ProbeError::Tracer)?;
        Ok(Self {
            tracer,
            plan,
            start,
        })
    }

    /// Runs only the detector. Its reports are the samples.
    pub(super) fn alone(
        self,
        recorders: Vec<Recorder>,
        control: &Control,
    ) -> Result<Measured, ProbeError> {
        let Some(mut recorder) = recorders.into_iter().next() else {
            return Err(ProbeError::Unfit(
                "the kernel's gaps have no channel".into(),
            ));
        };
        let cost = SelfCost::measure(CLOCK);
        recorder.start(self.start);
        let end = self.plan.duration.map(|duration| self.start + duration);
        let done = || control.stopping() || end.is_some_and(|end| now() >= end);
        let seen = self.follow(done, |at, gap| recorder.sample(at, gap));
        if let Some(error) = seen.error {
            return Err(ProbeError::Tracer(error));
        }
        // It is unknown when the lost reports were written.
        recorder.missed(now(), seen.lost(), Nanos::ZERO);
        let expected = seen.last.max(seen.read);
        Ok(Measured {
            workers: vec![recorder.finish(expected, cost)],
            tables: self.tables(&seen),
            warnings: Vec::new(),
        })
    }

    /// Runs the detector during another measurement. Returns the results of that measurement, and
    /// tables of the detector's reports.
    pub(super) fn run_alongside(
        self,
        measure: impl FnOnce() -> Result<Measured, ProbeError>,
    ) -> Result<Measured, ProbeError> {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let follower = thread::Builder::new()
                .name("hardware/hwlat".to_owned())
                .spawn_scoped(scope, || {
                    let done = || over.load(Ordering::Relaxed);
                    self.follow(done, |_, _| {})
                })
                .map_err(|error| ProbeError::Tracer(TracerError::NoReader(error)))?;
            let measured = measure();
            over.store(true, Ordering::Relaxed);
            let seen = follower.join();
            let mut measured = measured?;
            match seen {
                Ok(seen) => {
                    measured.tables.extend(self.tables(&seen));
                    measured.warnings.extend(seen.error.map(|error| {
                        format!(
                            "{}; the reports before this error are shown",
                            ProbeError::Tracer(error)
                        )
                    }));
                }
                Err(_) => measured
                    .warnings
                    .push("the thread that read the kernel's detector panicked".into()),
            }
            Ok(measured)
        })
    }

    /// Fetches reports until `done` returns true.
    fn follow(
        &self,
        done: impl Fn() -> bool,
        mut sample: impl FnMut(Nanos, SignedNanos),
    ) -> KernelReports {
        let counted_from = self.start + self.plan.warm_up;
        let mut seen = KernelReports::default();
        loop {
            // Check this before the last fetch, so that no report is lost.
            let last = done();
            match self.tracer.take() {
                Ok(gaps) => {
                    for gap in gaps {
                        let at = gap.at.unwrap_or_else(now);
                        seen.add(&gap, at >= counted_from);
                        if at >= counted_from && seen.reports.len() < REPORTS_KEPT {
                            seen.reports.push((at, gap));
                        }
                        let longest = gap.inner.max(gap.outer);
                        sample(at, longest.signed_sub(Nanos::ZERO));
                    }
                }
                Err(error) => seen.error = Some(error),
            }
            if last || seen.error.is_some() {
                seen.length = now().saturating_sub(counted_from);
                return seen;
            }
            thread::sleep(FETCH);
        }
    }

    fn tables(&self, seen: &KernelReports) -> Vec<Table> {
        let mut tables = vec![
            seen.by_cpu(&self.plan.cpus),
            seen.windows(self.plan.duty.window, self.plan.duty.width),
        ];
        tables.extend(seen.reports_table());
        tables
    }
}

/// The reports of one CPU after the warm-up.
#[derive(Clone, Copy, Debug, Default)]
struct OfCpu {
    reports: u64,
    gaps: Option<u64>,
    inner: Nanos,
    outer: Nanos,
    nmi_count: u64,
    nmi_total: Option<Nanos>,
}

/// All reports.
#[derive(Debug, Default)]
struct KernelReports {
    /// The highest sequence number.
    last: u64,
    /// Number of reports, including those of the warm-up.
    read: u64,
    /// Reports after the warm-up, by CPU; `None` if the kernel did not name the CPU.
    cpus: BTreeMap<Option<u32>, OfCpu>,
    /// The first reports after the warm-up, with the time of each.
    reports: Vec<(Nanos, KernelGap)>,
    /// The measured time after the warm-up.
    length: Nanos,
    error: Option<TracerError>,
}

impl KernelReports {
    fn add(&mut self, gap: &KernelGap, counts: bool) {
        self.last = self.last.max(gap.sequence);
        self.read += 1;
        if !counts {
            return;
        }
        let of = self.cpus.entry(gap.cpu).or_default();
        of.reports += 1;
        of.inner = of.inner.max(gap.inner);
        of.outer = of.outer.max(gap.outer);
        of.nmi_count = of.nmi_count.saturating_add(gap.nmi_count);
        if let Some(count) = gap.count {
            of.gaps = Some(of.gaps.unwrap_or(0).saturating_add(count));
        }
        if let Some(Nanos(total)) = gap.nmi_total {
            let before = of.nmi_total.unwrap_or_default().0;
            of.nmi_total = Some(Nanos(before.saturating_add(total)));
        }
    }

    /// Returns the reports that did not fit into the trace buffer.
    fn lost(&self) -> u64 {
        self.last.saturating_sub(self.read)
    }

    fn by_cpu(&self, asked: &[u32]) -> Table {
        let mut table = Table::new(
            "hwlat",
            "Reports of the kernel's detector after the warm-up",
            &[
                ("cpu", "CPU"),
                ("reports", "reports"),
                ("gaps", "gaps"),
                ("inner_max_ns", "longest inner"),
                ("outer_max_ns", "longest outer"),
                ("nmi_count", "NMIs"),
                ("nmi_total_ns", "in NMIs"),
            ],
        );
        let mut cpus = self.cpus.clone();
        for &cpu in asked {
            cpus.entry(Some(cpu)).or_default();
        }
        for (cpu, of) in cpus {
            let longest = |gap: Nanos| Cell::from((of.reports > 0).then_some(gap));
            table.push([
                cpu.map(u64::from).into(),
                of.reports.into(),
                // If there is no report, there was no gap. A report without a count stands for at
                // least one gap.
                of.gaps.or((of.reports == 0).then_some(0)).into(),
                longest(of.inner),
                longest(of.outer),
                of.nmi_count.into(),
                of.nmi_total.into(),
            ]);
        }
        table
    }

    /// Returns a table of the first reports; `None` if there are no reports.
    fn reports_table(&self) -> Option<Table> {
        let mut table = Table::new(
            "hwlat_reports",
            "First reports of the kernel's detector",
            &[
                ("monotonic_ns", "time"),
                ("cpu", "CPU"),
                ("inner_ns", "inner"),
                ("outer_ns", "outer"),
                ("gaps", "gaps"),
            ],
        );
        for (at, gap) in &self.reports {
            table.push([
                Cell::from(*at),
                gap.cpu.map(u64::from).into(),
                gap.inner.into(),
                gap.outer.into(),
                gap.count.into(),
            ]);
        }
        (!self.reports.is_empty()).then_some(table)
    }

    fn windows(&self, window: Nanos, width: Nanos) -> Table {
        let reported: u64 = self.cpus.values().map(|of| of.reports).sum();
        let at_most = windows_in(self.length, window, width);
        let quiet = at_most.saturating_sub(reported.saturating_add(self.lost()));
        let mut table = Table::new(
            "hwlat_windows",
            "Windows of the kernel's detector, calculated from the time",
            &[
                ("windows_at_most", "windows, at most"),
                ("reported", "reported"),
                ("lost", "reports lost"),
                ("quiet_at_most", "without a report, at most"),
            ],
        );
        table.push([
            at_most.into(),
            reported.into(),
            self.lost().into(),
            quiet.into(),
        ]);
        table
    }
}

/// Returns the maximum number of windows that the kernel can have started in this time.
fn windows_in(time: Nanos, window: Nanos, width: Nanos) -> u64 {
    let pause = window.saturating_sub(width).0 / PAUSE_STEP.0 * PAUSE_STEP.0;
    let whole = width.0 + pause.max(PAUSE_STEP.0);
    time.0.div_ceil(whole.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;
    use crate::entry::Probe;
    use crate::hardware::Hardware;
    use crate::testing::{self, OTHER};
    use punctual_model::Arguments;
    use std::sync::Mutex;

    /// A detector that returns the test's reports.
    #[derive(Default)]
    struct Kernel {
        refuses: Option<&'static str>,
        asked: Mutex<Option<TracerPlan>>,
        /// Sequence numbers and CPUs of the reports that each fetch returns.
        reports: Mutex<Vec<Vec<(u64, u32)>>>,
        fails: bool,
    }

    impl HardwareTracer for Kernel {
        fn may_start(&self) -> Result<(), TracerError> {
            testing::unless_refused(self.refuses)
        }
        fn start(&self, plan: &TracerPlan) -> Result<(), TracerError> {
            *self.asked.lock().unwrap() = Some(plan.clone());
            Ok(())
        }
        fn take(&self) -> Result<Vec<KernelGap>, TracerError> {
            let mut reports = self.reports.lock().unwrap();
            if reports.is_empty() {
                return if self.fails {
                    Err(TracerError::refused(testing::Said("the pipe broke")))
                } else {
                    Ok(Vec::new())
                };
            }
            let gap = |(sequence, cpu)| KernelGap {
                sequence,
                cpu: Some(cpu),
                at: Some(now()),
                inner: Nanos::from_micros(10 + sequence),
                outer: Nanos::from_micros(12),
                count: Some(2),
                nmi_total: None,
                nmi_count: 1,
            };
            Ok(reports.remove(0).into_iter().map(gap).collect())
        }
    }

    fn run(
        source: &'static str,
        kernel: Kernel,
    ) -> (Vec<WorkerSpec>, Arc<Kernel>, Result<Measured, ProbeError>) {
        let given = [("source", source), ("window", "10ms"), ("width", "1ms")];
        let arguments = Arguments::check(crate::hardware::PARAMETERS, given).unwrap();
        let probe = Hardware::new(&arguments);
        let kernel = Arc::new(kernel);
        let offer = testing::Offer {
            hardware: Some(Arc::clone(&kernel) as Arc<dyn HardwareTracer>),
            ..testing::Offer::default()
        };
        let plan = Plan {
            cpus: testing::cpus(1),
            warm_up: Some(Nanos::ZERO),
            ..testing::plan(OTHER, Nanos::from_millis(250))
        };
        match probe.prepare(&plan, &offer) {
            Ok(ready) => {
                let workers = ready.workers.clone();
                let measured = testing::run(ready, &Arc::new(Control::new()));
                (workers, kernel, measured)
            }
            Err(error) => (Vec::new(), kernel, Err(error)),
        }
    }

    #[test]
    fn reports_become_samples_and_losses_missed() {
        let reports = Mutex::new(vec![vec![(1, 0), (2, 1)], vec![(5, 0)]]);
        let (workers, kernel, measured) = run(
            "hwlat",
            Kernel {
                reports,
                ..Kernel::default()
            },
        );
        let measured = measured.unwrap();
        assert_eq!(workers[0].label.as_deref(), Some("hwlat"));
        let asked = kernel.asked.lock().unwrap().clone().unwrap();
        assert_eq!(asked.width, Nanos::from_millis(1));
        assert_eq!(asked.threshold, Nanos::from_micros(10));
        let [worker] = &measured.workers[..] else {
            panic!()
        };
        assert!(worker.accounting.balances(), "{:?}", worker.accounting);
        assert_eq!(worker.accounting.expected, 5);
        assert_eq!(worker.accounting.recorded, 3);
        assert_eq!(worker.accounting.missed, 2);
        assert_eq!(worker.largest[0].0, Nanos::from_micros(15));
        let [cpus, windows, reports] = &measured.tables[..] else {
            panic!()
        };
        assert_eq!(reports.rows.len(), 3);
        assert_eq!(testing::count(reports, 0, "gaps"), 2);
        assert_eq!(cpus.rows[0][1], Cell::Count(2));
        assert_eq!(cpus.rows[0][2], Cell::Count(4));
        assert_eq!(cpus.rows[0][3], Cell::Count(15_000));
        assert_eq!(cpus.rows[0][6], Cell::Unknown);
        assert_eq!(windows.rows[0][1..3], [Cell::Count(3), Cell::Count(2)]);
    }

    #[test]
    fn beside_ours_it_gives_tables() {
        let reports = Mutex::new(vec![vec![(1, 0)]]);
        let (workers, _, measured) = run(
            "both",
            Kernel {
                reports,
                fails: true,
                ..Kernel::default()
            },
        );
        let measured = measured.unwrap();
        assert_eq!(workers[0].label, None);
        assert!(measured.workers[0].accounting.balances());
        let names: Vec<&str> = measured.tables.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "gaps",
                "spinning",
                "hwlat",
                "hwlat_windows",
                "hwlat_reports"
            ]
        );
        let told = measured
            .warnings
            .iter()
            .any(|w| w.contains("the pipe broke"));
        assert!(told, "{:?}", measured.warnings);
    }

    #[test]
    fn failing_or_absent_detector_ends_run() {
        let fails = Kernel {
            fails: true,
            ..Kernel::default()
        };
        let error = run("hwlat", fails).2.unwrap_err();
        assert!(!error.is_usage());
        assert!(error.to_string().contains("the pipe broke"), "{error}");
        for source in ["hwlat", "both"] {
            let absent = Kernel {
                refuses: Some("no tracer 'hwlat'"),
                ..Kernel::default()
            };
            let (_, kernel, measured) = run(source, absent);
            let error = measured.unwrap_err().to_string();
            assert_eq!(error, format!("--source {source}: no tracer 'hwlat'"));
            assert_eq!(*kernel.asked.lock().unwrap(), None);
        }
    }

    #[test]
    fn windows_are_counted_as_the_kernel_pauses() {
        let ms = Nanos::from_millis;
        let second = Nanos::from_secs(1);
        assert_eq!(windows_in(second, ms(100), ms(50)), 10);
        // A pause of 9.5 ms is rounded to 9.
        assert_eq!(windows_in(second, ms(10), Nanos::from_micros(500)), 106);
        // A pause of 0.5 ms becomes 1.
        assert_eq!(windows_in(second, ms(1), Nanos::from_micros(500)), 667);
        assert_eq!(windows_in(Nanos::ZERO, ms(1), ms(1)), 0);
    }
}
