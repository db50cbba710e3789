//! `cpu`: continuous arithmetic.

use std::hint::black_box;
use std::time::{Duration, Instant};

use punctual_model::{Arguments, Nanos, Typed, parameters};

use crate::workers::{self, Shift, Worker, Workers, one_each};
use crate::{LoadEntry, LoadError, LoadKind};

/// The entry of this load.
pub(crate) const ENTRY: LoadEntry = LoadEntry {
    name: "cpu",
    summary: "arithmetic on each CPU",
    parameters: PARAMETERS,
    bare: None,
    needs: None,
    kind: LoadKind::Threads,
    build: |arguments| Workers::load("cpu", &["blocks of 1000 sums"], plan, arguments),
};

parameters! {
    THREADS: Option<u64> = workers::THREADS;
    SHARE: u64 = Typed::count(
        "share",
        "CPU time per period, in percent",
        1..=100,
    ).or("100");
    PERIOD: Nanos = Typed::duration(
        "period",
        "Length of a period if the share is below 100",
        Nanos::from_millis(1)..=Nanos::from_millis(1_000),
    ).or("10ms");
}

fn plan(arguments: &Arguments, cpus: &[u32]) -> Result<Vec<Worker>, LoadError> {
    let share = SHARE.value_in(arguments);
    let period = Duration::from(PERIOD.value_in(arguments));
    let busy = period.mul_f64(share as f64 / 100.0);
    Ok(one_each(arguments, cpus)
        .iter()
        .map(|cpu| {
            Worker::new(cpu, move |shift| {
                while !shift.stopping() {
                    compute_for(shift, busy);
                    if busy < period {
                        shift.pause(period - busy);
                    }
                }
                Ok(())
            })
        })
        .collect())
}

/// Computes until this much time has passed on the clock, and does not compensate for CPU time lost
/// to other tasks.
fn compute_for(shift: &Shift, time: Duration) {
    let until = Instant::now() + time;
    while !shift.stopping() && Instant::now() < until {
        block();
        shift.did(1);
    }
}

/// Alternates integer and floating-point operations, each depending on the previous one.
fn block() {
    let (mut whole, mut part) = (black_box(0x9e37_79b9_u64), black_box(1.0_f64));
    for _ in 0..1000 {
        whole = whole
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        part = part * 0.999 + (whole >> 40) as f64;
    }
    black_box((whole, part));
}
