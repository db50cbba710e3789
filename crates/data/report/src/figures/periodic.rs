//! Detects top samples that repeat at the period of a control group's CPU quota.

use punctual_model::{Nanos, Recording};

use super::counted;

/// The default period of CPU quotas: cpu.max, cpu.cfs_period_us (kernel
/// Documentation/scheduler/sched-bwc.rst).
const PERIOD: u64 = 100_000_000;
/// Waits that end less than this time apart belong to one event.
const ONE_EVENT: u64 = 5_000_000;
/// Largest deviation of an event from a multiple of the period. If the clocks differ by 20 ppm,
/// this adds 2 µs per period.
const TOLERANCE: u64 = 1_000_000;
/// Minimum number of events for a hint. In 2 of 100 cases, an event is that close to a multiple by
/// chance.
const EVENTS: usize = 6;
/// Latencies shorter than this are not caused by a quota.
const SHORTEST: Nanos = Nanos(1_000_000);

/// Returns a hypothesis if the top samples end at multiples of 100 ms, as they do when a thread
/// waits for the next period of a CPU quota.
pub(super) fn hint(recording: &Recording) -> Option<String> {
    // With a slower loop, all times are multiples of the loop's own interval.
    let interval = recording.duration_parameter("interval_ns")?;
    if interval.0 > PERIOD / 10 {
        return None;
    }
    let largest = recording.top_samples.iter();
    let mut ends: Vec<u64> = largest
        .filter(|sample| sample.latency_ns >= SHORTEST)
        .map(|sample| sample.monotonic_ns.0.saturating_add(sample.latency_ns.0))
        .collect();
    ends.sort_unstable();
    ends.dedup_by(|later, earlier| later.saturating_sub(*earlier) < ONE_EVENT);
    if ends.len() < EVENTS {
        return None;
    }
    let in_step = |pair: &&[u64]| {
        let apart = pair[1] - pair[0];
        let off = apart % PERIOD;
        let off = off.min(PERIOD - off);
        let drift = apart / 50_000;
        apart >= PERIOD - TOLERANCE && off <= TOLERANCE.saturating_add(drift).min(PERIOD / 20)
    };
    let steps = ends.windows(2).filter(in_step).count();
    // A single event that does not fit breaks two steps.
    (steps * 10 >= (ends.len() - 1) * 8).then(|| {
        format!(
            "{} among the largest samples end at multiples of 100 ms. The cause may be a CPU \
             quota (cpu.max) of a container or, on a virtual machine, of its host. Compare \
             nr_throttled in the control group's cpu.stat before and after a run",
            counted(ends.len() as u64, "event", "events"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::testing;

    /// Returns a recording whose top samples end at these times, each with this latency.
    fn run(ends_us: &[u64], late_us: u64) -> Recording {
        let mut recording = testing::recording(1, 60);
        let like = recording.top_samples[0].clone();
        recording.top_samples = ends_us
            .iter()
            .map(|end| {
                let mut sample = like.clone();
                sample.latency_ns = Nanos(late_us * 1_000);
                sample.monotonic_ns = Nanos((end - late_us) * 1_000);
                sample
            })
            .collect();
        recording
    }

    /// Two CPUs that are throttled together, with some periods left out.
    const QUOTA: [u64; 12] = [
        1_000_100, 1_100_050, 1_100_300, 1_300_010, 1_400_200, 1_400_210, 2_100_150, 2_200_000,
        2_700_020, 9_300_400, 9_400_000, 9_500_090,
    ];

    #[test]
    fn steps_of_a_quota_are_a_hypothesis() {
        let hint = hint(&run(&QUOTA, 40_000)).unwrap();
        assert!(hint.starts_with("10 events"), "{hint}");
        assert!(hint.contains("may be a CPU quota"), "{hint}");
    }

    #[test]
    fn nothing_is_claimed_of_other_times() {
        assert_eq!(hint(&testing::recording(2, 60)), None);
        // Too few samples, too short samples, samples without a period, and a loop as slow as the
        // quota.
        assert_eq!(hint(&run(&QUOTA[..5], 40_000)), None);
        assert_eq!(hint(&run(&QUOTA, 900)), None);
        let odd: Vec<u64> = (0..20u64).map(|n| 1_000_000 + n * n * 7_919).collect();
        assert_eq!(hint(&run(&odd, 40_000)), None);
        let mut slow = run(&QUOTA, 40_000);
        let interval = slow.probe.parameters.get_mut("interval_ns").unwrap();
        *interval = 100_000_000.into();
        assert_eq!(hint(&slow), None);
    }
}
