//! Tests the measurement of a hardware clock with a simulated clock.

use std::sync::atomic::{AtomicU64, Ordering};

use punctual_model::Cell;

use super::*;
use crate::WorkerSpec;
use crate::testing::{self, OTHER, cell};

/// A clock with a constant offset. Each call of `read` returns windows of 300, 100 and 200 ns.
struct Simulated {
    method: PtpMethod,
    /// Offset of the clock, in nanoseconds.
    offset: i64,
    /// Number of calls after which the device is gone.
    lasts: u64,
    /// Whether the system clock is set back during each reading.
    set_back: bool,
    calls: Arc<AtomicU64>,
}

impl Simulated {
    fn with_offset(offset: i64) -> Self {
        Self {
            method: PtpMethod::Extended,
            offset,
            lasts: u64::MAX,
            set_back: false,
            calls: Arc::default(),
        }
    }
}

impl Source for Simulated {
    fn method(&self) -> PtpMethod {
        self.method
    }

    fn read(
        &mut self,
        count: usize,
        into: &mut [PtpReading; PtpClock::MOST],
    ) -> Result<usize, punctual_rt::Error> {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        if calls >= self.lasts {
            return Err(punctual_rt::Error::NotSupported {
                what: "the simulated clock",
                why: "it was removed",
            });
        }
        for (place, reading) in into.iter_mut().enumerate().take(count) {
            let window: i64 = [300, 100, 200][place % 3];
            let before = 1_700_000_000 * series::SECOND + calls as i64;
            *reading = PtpReading {
                before,
                // A reading with a longer window is less certain.
                device: before + window / 2 + self.offset + (window - 100),
                after: before + if self.set_back { -1 } else { window },
            };
        }
        Ok(count)
    }
}

fn phc(source: Simulated) -> Phc {
    Phc {
        device: "/dev/ptp9".to_owned(),
        source: Box::new(source),
        interval: Nanos::from_millis(1),
        reads: 3,
    }
}

fn measure(source: Simulated) -> Measured {
    let plan = testing::plan(OTHER, Nanos::from_millis(60));
    let ready = phc(source).prepare(&plan).unwrap();
    assert!(!ready.alike);
    let labels: Vec<String> = ready.workers.iter().map(WorkerSpec::title).collect();
    assert!(labels[0].starts_with("offset") && labels[1].starts_with("read delay"));
    testing::run(ready, &Arc::new(Control::new())).unwrap()
}

#[test]
fn sample_is_the_offset_plus_its_uncertainty() {
    for (offset, bound) in [(1_000, 1_050), (-1_000, 1_050), (0, 50)] {
        let measured = measure(Simulated::with_offset(offset));
        let [offsets, delays] = &measured.workers[..] else {
            panic!("two channels");
        };
        assert!(offsets.accounting.recorded > 2, "{:?}", offsets.accounting);
        assert_eq!(offsets.accounting, delays.accounting);
        // Of the three readings, the one with the shortest window counts.
        for (worker, expected) in [(offsets, bound), (delays, 100)] {
            let figures = (worker.histogram.min(), worker.histogram.max());
            let expected = Some(Nanos(expected));
            assert_eq!(figures, (expected, expected), "{offset}");
        }
        assert_eq!(measured.warnings, [""; 0]);
        let table = &measured.tables[0];
        assert_eq!(
            *cell(table, 0, "offset_mean_ns"),
            Cell::Number(offset as f64)
        );
        assert_eq!(*cell(table, 0, "read_delay_ns"), Cell::Count(100));
        assert_eq!(*cell(table, 0, "uncertainty_ns"), Cell::Count(50));
        assert_eq!(*cell(table, 0, "jitter_ns"), Cell::Number(0.0));
        let call = Cell::from("PTP_SYS_OFFSET_EXTENDED");
        assert_eq!(*cell(table, 0, "call"), call);
    }
}

#[test]
fn whole_seconds_are_shown_and_left_out() {
    let measured = measure(Simulated::with_offset(37 * series::SECOND - 200));
    assert_eq!(measured.workers[0].histogram.max(), Some(Nanos(250)));
    let table = &measured.tables[0];
    assert_eq!(*cell(table, 0, "whole_seconds"), Cell::from("37"));
    assert_eq!(*cell(table, 0, "offset_mean_ns"), Cell::Number(-200.0));
    assert_eq!(measured.warnings.len(), 1);
    assert!(measured.warnings[0].contains("differ by 37 s"));
}

#[test]
fn fallback_is_reported() {
    let measured = measure(Simulated {
        method: PtpMethod::Basic,
        ..Simulated::with_offset(0)
    });
    let call = Cell::from("PTP_SYS_OFFSET");
    assert_eq!(*cell(&measured.tables[0], 0, "call"), call);
    assert!(measured.warnings[0].contains("supports only PTP_SYS_OFFSET:"));
}

#[test]
fn set_back_system_clock_gives_no_sample() {
    let measured = measure(Simulated {
        set_back: true,
        ..Simulated::with_offset(0)
    });
    for worker in &measured.workers {
        assert_eq!(worker.accounting.recorded, 0);
        assert!(worker.accounting.missed > 0);
    }
    assert!(measured.warnings[0].contains("set back"));
    let table = &measured.tables[0];
    assert_eq!(*cell(table, 0, "offset_mean_ns"), Cell::Unknown);
    assert_eq!(*cell(table, 0, "read_delay_ns"), Cell::Unknown);
}

#[test]
fn removed_device_ends_the_run() {
    let plan = testing::plan(OTHER, Nanos::from_secs(60));
    let source = Simulated {
        lasts: 3,
        ..Simulated::with_offset(0)
    };
    let ready = phc(source).prepare(&plan).unwrap();
    let error = testing::run(ready, &Arc::new(Control::new())).unwrap_err();
    assert!(error.to_string().contains("it was removed"), "{error}");
    assert!(!error.is_usage());
}
