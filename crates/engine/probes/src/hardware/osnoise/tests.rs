//! Tests the source with a simulated kernel.

use super::*;
use crate::entry::Probe;
use crate::hardware::Hardware;
use crate::hardware::parameters::PARAMETERS;
use crate::testing::{self, OTHER};
use crate::{Plan, Ready, UserTimer};
use punctual_model::CpuSet;
use std::sync::Mutex;

/// A kernel that reports a window every 10 ms, except the third.
#[derive(Default)]
struct Kernel {
    refuses: Option<&'static str>,
    started: Mutex<Option<(NoisePlan, Nanos)>>,
    told: Mutex<u64>,
}

impl NoiseTracer for Kernel {
    fn may_start(&self, _: &NoisePlan) -> Result<(), TracerError> {
        testing::unless_refused(self.refuses)
    }
    fn has_user_threads(&self, _: &CpuSet) -> Result<bool, TracerError> {
        Ok(false)
    }
    fn start(&self, plan: &NoisePlan) -> Result<(), TracerError> {
        *self.started.lock().unwrap() = Some((plan.clone(), now()));
        Ok(())
    }
    fn user_wait(&self, _: u32) -> Result<Box<dyn UserTimer>, TracerError> {
        Err(TracerError::NotStarted)
    }
    fn take(&self) -> Result<NoiseReports, TracerError> {
        let started = self.started.lock().unwrap().clone();
        let (NoisePlan::Osnoise { cpus, period, .. }, start) = started.unwrap() else {
            panic!("timerlat was asked for");
        };
        let cpu = cpus.first().unwrap();
        let mut told = self.told.lock().unwrap();
        let mut reports = NoiseReports::default();
        while start + Nanos((*told + 1) * period.0) < now() {
            *told += 1;
            if *told != 3 {
                reports.osnoise.push(OsnoiseSample {
                    cpu,
                    time: start + Nanos(*told * period.0),
                    pid: 1,
                    runtime: Nanos::from_millis(1),
                    noise: Nanos::from_micros(10),
                    longest: Nanos::from_micros(*told),
                    hardware: 1,
                    irqs: 2,
                    ..OsnoiseSample::default()
                });
            }
            for (interruptions, micros) in [(0, 30), (1, 20), (1, 5)] {
                reports.gaps.push(NoiseGap {
                    cpu,
                    start_local: Nanos::ZERO,
                    duration: Nanos::from_micros(micros),
                    interruptions,
                });
            }
        }
        Ok(reports)
    }
}

fn prepare(kernel: Kernel) -> Result<Ready, ProbeError> {
    let given = [("source", "osnoise"), ("window", "10ms"), ("width", "1ms")];
    let probe = Hardware::new(&testing::arguments(PARAMETERS, &given));
    let plan = Plan {
        cpus: testing::cpus(1),
        warm_up: Some(Nanos::from_millis(45)),
        ..testing::plan(OTHER, Nanos::from_millis(250))
    };
    let offer = testing::Offer {
        noise: Some(Arc::new(kernel)),
        ..testing::Offer::default()
    };
    probe.prepare(&plan, &offer)
}

#[test]
fn windows_become_samples_and_unreported_missed() {
    let ready = prepare(Kernel::default());
    let (workers, measured) = testing::run_all(ready, &Arc::new(Control::new()));
    assert_eq!(workers[0].label, None);
    let account = measured.workers[0].accounting;
    assert!((22..=25).contains(&account.expected), "{account:?}");
    // These are the first five windows, one of which has no report.
    assert_eq!((account.warm_up, account.warm_up_missed), (5, 1));
    assert_eq!(account.missed, 0, "{account:?}");
    let [table, gaps, lengths] = &measured.tables[..] else {
        panic!("{:?}", measured.tables);
    };
    let count = |table, row, key| testing::count(table, row, key);
    let windows = count(table, 0, "windows");
    assert_eq!(windows, account.recorded);
    assert_eq!(count(table, 0, "interrupts"), 2 * windows);
    assert_eq!(count(table, 0, "noise_ns"), 10_000 * windows);
    assert_eq!(testing::cell(table, 0, "noise_percent"), &Cell::Number(1.0));
    // The gaps of 5 us are below the threshold of 10.
    assert_eq!(count(gaps, 0, "gaps"), count(gaps, 1, "gaps"));
    assert_eq!(count(gaps, 1, "longest_ns"), 20_000);
    assert_eq!(count(table, 0, "most_ns"), 10_000);
    let listed = [0, 1].map(|row| (count(lengths, row, "from_ns"), count(lengths, row, "gaps")));
    let each = count(gaps, 0, "gaps");
    assert_eq!(listed, [(20_000, each), (30_000, each)]);
}

/// The kernel's threads do not stop others if they have the normal policy.
#[test]
fn only_normal_threads_spin_without_pause() {
    let given = |line: &str| -> Vec<(&'static str, String)> {
        let names = ["source", "window", "width", "no-interrupts"];
        names
            .into_iter()
            .zip(line.split(' ').map(str::to_owned))
            .collect()
    };
    let prepared = |line: &str, scheduling| {
        let words = given(line);
        let words: Vec<_> = words
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let probe = Hardware::new(&testing::arguments(PARAMETERS, &words));
        let offer = testing::Offer {
            noise: Some(Arc::new(Kernel::default())),
            ..testing::Offer::default()
        };
        let plan = testing::plan(scheduling, Nanos::from_secs(10));
        probe
            .prepare(&plan, &offer)
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    assert_eq!(prepared("osnoise 1s 1s", OTHER), Ok(()));
    let refused = |line, scheduling, reason: &str| {
        let text = prepared(line, scheduling).unwrap_err();
        assert!(text.contains(reason), "{line}: {text}");
    };
    refused("osnoise 1s 1s", testing::fifo(10), "no CPU time");
    refused("osnoise 1s 1s yes", OTHER, "no CPU time");
    refused("osnoise 1s 500ms yes", OTHER, "longer than 100");
    refused("spin 1s 500ms", OTHER, "longer than 100");
    refused("spin 100ms 50ms yes", OTHER, "add --source osnoise");
}

#[test]
fn what_it_cannot_have_is_refused() {
    let refuses = Some("no tracer 'osnoise'");
    let kernel = Kernel {
        refuses,
        ..Kernel::default()
    };
    let text = testing::refusal_of(prepare(kernel));
    assert_eq!(text, "--source osnoise: no tracer 'osnoise'");
}
