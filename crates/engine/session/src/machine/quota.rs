//! Warnings about CPU quotas.

use punctual_model::{GroupThrottle, Interference, Scheduling, grouped};

/// Returns a warning for each control group that was throttled while these threads were measured.
pub(crate) fn quota_warnings(
    found: &Interference,
    threads: impl Iterator<Item = Scheduling>,
) -> Vec<String> {
    let (real_time, ordinary): (Vec<_>, Vec<_>) =
        threads.partition(|scheduling| scheduling.policy.is_real_time());
    let whom = match (real_time.is_empty(), ordinary.is_empty()) {
        (_, true) => "real-time threads are exempt, but the other threads of punctual are not",
        (true, false) => "the latencies include that time",
        (false, false) => "the latencies of threads that are not real-time include that time",
    };
    let warn = |group: &GroupThrottle| {
        format!(
            "control group {} was throttled by its CPU quota in {} of {} periods, for a total of \
             {} on all CPUs (cpu.stat): {whom}",
            group.group,
            grouped(group.throttled),
            grouped(group.periods),
            group.throttled_ns
        )
    };
    found.throttled().map(warn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::{Nanos, Policy};

    #[test]
    fn throttled_group_is_reported_with_its_victims() {
        let group = |throttled| GroupThrottle {
            group: "/bench".to_owned(),
            periods: 60,
            throttled,
            throttled_ns: Nanos::from_millis(2_130),
        };
        let found = Interference {
            groups: vec![group(43), group(0)],
            ..Interference::default()
        };
        let of = |policies: &[Policy]| {
            let threads = policies.iter().map(|policy| Scheduling {
                policy: *policy,
                priority: 0,
            });
            quota_warnings(&found, threads)
        };
        let ordinary = of(&[Policy::Other]);
        assert_eq!(ordinary.len(), 1);
        let figures = "group /bench was throttled by its CPU quota in 43 of 60 periods, for a \
                       total of 2.13 s";
        assert!(ordinary[0].contains(figures), "{ordinary:?}");
        assert!(ordinary[0].ends_with("the latencies include that time"));
        assert!(of(&[Policy::Fifo])[0].contains("exempt"));
        assert!(of(&[Policy::Fifo, Policy::Other])[0].contains("not real-time"));
    }
}
