//! `cpu`: continuous arithmetic.

use std::hint::black_box;
use std::io;
use std::num::NonZeroU64;
use std::time::Duration;

use punctual_model::{Arguments, Nanos, Typed, parameters};
use punctual_rt::{Clock, Instant};

use crate::workers::{self, Shift, Worker, Workers, one_each};
use crate::{LoadEntry, LoadError, LoadKind, request};

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
    PHASE: Option<Nanos> = Typed::duration(
        request::PHASE,
        "Time from a multiple of the period on CLOCK_MONOTONIC to the start of the work; default: \
         none, the load pauses for a relative time and drifts",
        Nanos::ZERO..=Nanos::from_millis(999),
    );
}

/// The clock of the phase. The timer probe uses it too.
const CLOCK: Clock = Clock::Monotonic;

fn plan(arguments: &Arguments, cpus: &[u32]) -> Result<Vec<Worker>, LoadError> {
    let share = SHARE.value_in(arguments);
    let period = Duration::from(PERIOD.value_in(arguments));
    let busy = period.mul_f64(share as f64 / 100.0);
    let phased = (PHASE.value_in(arguments)).map(|phase| Phased {
        period,
        phase: phase.into(),
        busy,
    });
    if phased.is_some_and(|one| one.phase >= period || busy >= period) {
        return Err(LoadError::Unfit {
            load: ENTRY.name,
            why: "pass a phase below the period, and a share below 100".to_owned(),
        });
    }
    Ok(one_each(arguments, cpus)
        .iter()
        .map(|cpu| {
            Worker::new(cpu, move |shift| match phased {
                Some(phased) => phased.work(shift, |until| compute_until(shift, until)),
                None => {
                    while !shift.stopping() {
                        compute_until(shift, CLOCK.now() + busy);
                        if busy < period {
                            shift.pause(period - busy);
                        }
                    }
                    Ok(())
                }
            })
        })
        .collect())
}

/// Work that begins at the same phase of each period.
#[derive(Clone, Copy)]
struct Phased {
    period: Duration,
    phase: Duration,
    busy: Duration,
}

impl Phased {
    /// Calls `work` with the time at which it must end, once in each period. Periods that begin while
    /// the thread works or waits for its CPU are left out.
    fn work(self, shift: &Shift, work: impl Fn(Instant)) -> io::Result<()> {
        // Otherwise, the kernel may end each sleep 50 us late (PR_SET_TIMERSLACK, prctl(2)).
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
        while !shift.stopping() {
            let now = CLOCK.now();
            let begin = self.next(now);
            shift.pause(begin.saturating_duration_since(now));
            work(begin + self.busy);
        }
        Ok(())
    }

    /// Returns the first start of the work after `now`.
    fn next(self, now: Instant) -> Instant {
        let [period, phase] = [self.period, self.phase].map(|time| Nanos::from(time).0);
        // The first one is at the phase itself.
        let number = (now.as_nanos() + period).saturating_sub(phase) / period;
        Instant::from_nanos(number * period + phase)
    }
}

/// Computes until this time, and does not compensate for CPU time lost to other tasks.
fn compute_until(shift: &Shift, until: Instant) {
    while !shift.stopping() && CLOCK.now() < until {
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::workers::lock;

    const PHASED: Phased = Phased {
        period: Duration::from_millis(10),
        phase: Duration::from_millis(4),
        busy: Duration::from_millis(3),
    };

    #[test]
    fn next_start_has_the_phase() {
        let next = |micros: u64| {
            let now = Instant::from_nanos(micros * 1_000);
            PHASED.next(now).as_nanos() / 1_000
        };
        assert_eq!([0, 3_999].map(next), [4_000; 2]);
        assert_eq!([4_000, 13_999].map(next), [14_000; 2]);
        assert_eq!(next(704_000), 714_000);
    }

    /// Work never begins before its phase, and always ends its share of a period after it.
    #[test]
    fn load_keeps_its_phase() {
        /// The times at which work begins, and those at which it must end.
        static SEEN: Mutex<Vec<[u64; 2]>> = Mutex::new(Vec::new());
        let plan = |_: &Arguments, cpus: &[u32]| {
            let work = |until: Instant| {
                lock(&SEEN).push([CLOCK.now().as_nanos(), until.as_nanos()]);
            };
            let body = move |shift: &Shift| PHASED.work(shift, work);
            Ok(vec![Worker::new(&cpus[..1], body)])
        };
        let mut load = Workers::load("cpu", &["blocks"], plan, &Arguments::default());
        load.start(&punctual_rt::affinity::current().unwrap())
            .unwrap();
        while lock(&SEEN).len() < 5 {
            assert_eq!(load.ended_early(), None);
            std::thread::sleep(Duration::from_millis(5));
        }
        load.stop();
        let seen = lock(&SEEN);
        let [period, phase, busy] =
            [PHASED.period, PHASED.phase, PHASED.busy].map(|time| Nanos::from(time).0);
        // A stop ends the last sleep early.
        for [begun, until] in &seen[..5] {
            let due = until - busy;
            assert_eq!((due - phase) % period, 0);
            assert!(*begun >= due, "{begun} {due}");
        }
        assert!(seen.windows(2).all(|pair| pair[1][1] > pair[0][1]));
    }

    #[test]
    fn phase_that_does_not_fit_is_refused() {
        let refused = |text: &str| {
            let request: crate::LoadRequest = text.parse().unwrap();
            request.start().err().map(|error| error.to_string())
        };
        for text in ["cpu:phase=1ms", "cpu:share=20,period=2ms,phase=2ms"] {
            let error = refused(text).unwrap();
            assert!(error.contains("pass a phase below the period"), "{error}");
        }
        assert_eq!(refused("cpu:share=20,period=2ms,phase=1999us"), None);
    }
}
