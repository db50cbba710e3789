//! Interference on the measured CPUs, summed by source.

use std::collections::BTreeMap;

use punctual_model::{
    CounterDelta, CpuInterference, CpuSet, GroupThrottle, Nanos, Recording, cause, counted, grouped,
};

/// One source of interference over all measured CPUs.
pub(crate) struct Source {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) count: u64,
    /// Occurrences per second.
    pub(crate) rate: f64,
}

/// All interference on the measured CPUs.
pub(crate) struct Interference {
    pub(crate) cpus: CpuSet,
    pub(crate) interrupts: Vec<Source>,
    pub(crate) softirqs: Vec<Source>,
    /// Control groups with an effective CPU quota, and how often each was throttled.
    pub(crate) quotas: Vec<Source>,
    /// Sums over the CPUs with readable counters; `None` if no CPU has one.
    pub(crate) steal: Option<Nanos>,
    /// Stolen time that the outliers prove.
    proven: Nanos,
    pub(crate) throttled: Option<u64>,
    pub(crate) smis: Option<u64>,
    /// For the whole machine.
    context_switches: Option<u64>,
}

/// Returns the interference on the measured CPUs by source, beginning with the most frequent one.
pub(crate) fn interference_in(recording: &Recording) -> Interference {
    let interference = &recording.interference;
    let seconds = interference.duration_ns.as_secs_f64();
    let measured: Vec<&CpuInterference> = interference
        .cpus
        .iter()
        .filter(|cpu| cpu.measured)
        .collect();
    let sources = |of: fn(&CpuInterference) -> &[CounterDelta]| {
        let mut sums: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for delta in measured.iter().flat_map(|cpu| of(cpu)) {
            let sum = sums.entry((&delta.id, &delta.name)).or_default();
            *sum = sum.saturating_add(delta.count);
        }
        let mut list: Vec<Source> = sums
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|((id, name), count)| Source {
                id: id.to_owned(),
                name: name.to_owned(),
                count,
                rate: per_second(count, seconds),
            })
            .collect();
        list.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.id.cmp(&b.id)));
        list
    };
    let sum = |of: fn(&CpuInterference) -> Option<u64>| {
        measured
            .iter()
            .filter_map(|cpu| of(cpu))
            .reduce(|a, b| a.saturating_add(b))
    };
    Interference {
        cpus: measured.iter().map(|cpu| cpu.cpu).collect(),
        interrupts: sources(|cpu| &cpu.interrupts),
        softirqs: sources(|cpu| &cpu.softirqs),
        quotas: interference
            .groups
            .iter()
            .map(|group| quota(group, seconds))
            .collect(),
        steal: sum(|cpu| cpu.steal_ns.map(|ns| ns.0)).map(Nanos),
        proven: proven(recording),
        throttled: sum(|cpu| cpu.throttled),
        smis: sum(|cpu| cpu.smis),
        context_switches: interference.context_switches,
    }
}

/// Returns the stolen time of all outliers, whose counter has a finer resolution than /proc/stat.
fn proven(recording: &Recording) -> Nanos {
    let outliers = recording.explanation.iter().flat_map(|all| &all.outliers);
    let shares = outliers.flat_map(|outlier| &outlier.blame.shares);
    let stolen = shares.filter(|share| share.cause.source == cause::Source::Stolen);
    stolen.fold(Nanos::ZERO, |sum, share| sum + share.ns)
}

fn quota(group: &GroupThrottle, seconds: f64) -> Source {
    let (throttled, periods) = (grouped(group.throttled), grouped(group.periods));
    let time = group.throttled_ns;
    Source {
        id: group.group.clone(),
        name: format!("{throttled} of {periods} periods, {time}"),
        count: group.throttled,
        rate: per_second(group.throttled, seconds),
    }
}

fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        count as f64 / seconds
    } else {
        0.0
    }
}

/// Returns the interference other than interrupts as text. Unreadable counters are left out; the
/// report lists them as unknown.
pub(crate) fn others(found: &Interference) -> Vec<String> {
    let mut list = Vec::new();
    list.extend(found.steal.map(|ns| match found.proven {
        proven if proven > ns => {
            format!(
                "steal at least {proven} (in the outliers; {ns} in the 10 ms steps of /proc/stat)"
            )
        }
        _ => format!("steal {ns}"),
    }));
    list.extend(
        found
            .throttled
            .map(|n| format!("throttled {}", counted(n, "time", "times"))),
    );
    list.extend(found.smis.map(|n| counted(n, "SMI", "SMIs")));
    list.extend(found.context_switches.map(|n| {
        let switches = counted(n, "context switch", "context switches");
        format!("{switches} of the whole machine")
    }));
    list
}

/// Formats a rate per second with three significant digits: `1,004/s`, `0.28/s`.
pub(crate) fn rate(rate: f64) -> String {
    match rate {
        r if r >= 100.0 => format!("{}/s", grouped(r.round() as u64)),
        r if r >= 10.0 => format!("{r:.1}/s"),
        r => format!("{r:.2}/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::testing;

    #[test]
    fn only_measured_cpus_count() {
        let mut recording = testing::recording(3, 10);
        recording.interference.cpus[2].measured = false;
        let found = interference_in(&recording);
        assert_eq!(found.cpus.to_string(), "0-1");
        assert_eq!(found.interrupts[0].count, 2 * 10_040);
        assert_eq!(found.interrupts[1].count, 17 + 34);
        assert_eq!(found.steal, Some(Nanos::from_millis(10)));
        // A counter that no CPU could read is unknown, not zero.
        assert_eq!(found.smis, None);
        assert!(others(&found).iter().all(|line| !line.contains("SMI")));
    }

    /// An outlier may prove more stolen time than the coarse counter shows.
    #[test]
    fn proven_steal_replaces_the_coarse_counter() {
        let mut recording = testing::recording(1, 10);
        recording.interference.cpus[0].steal_ns = Some(Nanos::ZERO);
        let stolen = cause::Cause::new(cause::Source::Stolen);
        let share = punctual_model::Share::new(stolen, Nanos(4_600_000), 1);
        let outlier = punctual_model::Outlier {
            light_stage: false,
            number: 1,
            time: jiff::Timestamp::UNIX_EPOCH,
            monotonic_ns: Nanos(1),
            cpu: None,
            thread: 0,
            latency_ns: Nanos(4_600_000),
            blame: testing::blame(vec![share]),
        };
        assert!(others(&interference_in(&recording))[0].starts_with("steal 0 ns"));
        recording.explanation = Some(punctual_model::Explanation {
            outliers: vec![outlier],
            ..punctual_model::Explanation::default()
        });
        let text = &others(&interference_in(&recording))[0];
        assert!(text.starts_with("steal at least 4.60 ms"), "{text}");
    }

    #[test]
    fn a_throttled_group_has_a_row() {
        let mut recording = testing::recording(1, 10);
        let seconds = recording.interference.duration_ns.as_secs_f64();
        recording.interference.groups = vec![GroupThrottle {
            group: "/user.slice/\x1b[1m".to_owned(),
            periods: 60,
            throttled: 43,
            throttled_ns: Nanos::from_millis(2_130),
        }];
        let quota = &interference_in(&recording).quotas[0];
        assert_eq!(quota.name, "43 of 60 periods, 2.13 s");
        assert_eq!(quota.rate, 43.0 / seconds);
    }

    #[test]
    fn rates_have_three_digits() {
        assert_eq!(rate(0.2777), "0.28/s");
        assert_eq!(rate(17.04), "17.0/s");
        assert_eq!(rate(63_201.4), "63,201/s");
    }
}
