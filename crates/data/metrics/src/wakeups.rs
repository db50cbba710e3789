//! The wake-ups of this machine as metrics.

use punctual_model::{Nanos, WaitHistogram, WakeupAxis, WakeupGroup, Wakeups};

use crate::{BOUNDS, Family, Figures, Kind, Sample, Value};

/// Returns the metrics of the wake-ups that were counted since the start, grouped by these axes.
pub fn families(seen: &Wakeups, axes: &[WakeupAxis]) -> Vec<Family> {
    let groups = seen.by(axes);
    let sample = |group: &WakeupGroup, value| Sample {
        labels: labels(group, axes),
        value,
    };
    let waits = groups.iter().filter(|group| group.waits.count > 0);
    let waits = waits.map(|group| sample(group, Value::Histogram(Box::new(of(&group.waits)))));
    let single = |name, help, value: u64| Family {
        name,
        help,
        kind: Kind::Counter,
        samples: vec![Sample {
            labels: Vec::new(),
            value: Value::Number(value as f64),
        }],
    };
    let mut families = vec![
        Family {
            name: "punctual_wakeup_latency_seconds",
            help: "Time from the wake-up of a thread until it ran.",
            kind: Kind::Histogram,
            samples: waits.collect(),
        },
        single(
            "punctual_wakeups_lost_total",
            "Wake-ups that no bucket includes, because their data were lost.",
            seen.lost.saturating_add(seen.events_lost),
        ),
    ];
    if axes.contains(&WakeupAxis::Group) {
        let held = groups.iter().map(|group| {
            let seconds = crate::seconds(group.held.0);
            sample(group, Value::Number(seconds))
        });
        families.push(Family {
            name: "punctual_wakeup_delayed_others_seconds_total",
            help: "CPU time that these threads used while a woken thread waited for their CPU.",
            kind: Kind::Counter,
            samples: held.collect(),
        });
    }
    families
}

fn labels(group: &WakeupGroup, axes: &[WakeupAxis]) -> Vec<(&'static str, String)> {
    let label = |axis: &WakeupAxis| match axis {
        WakeupAxis::Cpu => ("cpu", group.cpu.map(|cpu| cpu.to_string())),
        WakeupAxis::Priority => ("class", group.class.map(|class| class.name().to_owned())),
        WakeupAxis::Comm => ("comm", group.comm.clone()),
        WakeupAxis::Group => ("cgroup", group.group.as_ref().map(|group| group.label())),
    };
    let labels = axes.iter().map(label);
    labels
        .map(|(name, value)| (name, value.unwrap_or_default()))
        .collect()
}

fn of(waits: &WaitHistogram) -> Figures {
    let largest = |bucket| WaitHistogram::bounds_of(bucket).1.min(waits.max_ns).0;
    let counts: Vec<(u64, u64)> = (waits.buckets.iter())
        .map(|(bucket, count)| (largest(*bucket), *count))
        .collect();
    Figures::of_counts(&counts, 0, Nanos(waits.sum_ns), &BOUNDS)
}

#[cfg(test)]
mod tests {
    use punctual_model::{GroupSeen, PriorityClass, WakeupRow, WakeupSource};

    use super::*;
    use crate::text;

    fn row(cpu: u32, path: &str, waits_ns: &[u64]) -> WakeupRow {
        let mut waits = WaitHistogram::new();
        waits_ns.iter().for_each(|wait| waits.record(Nanos(*wait)));
        WakeupRow {
            cpu,
            class: PriorityClass::Fair,
            comm: None,
            group: Some(GroupSeen {
                path: Some(path.to_owned()),
                container: None,
                id: 7,
            }),
            held_ns: Nanos::from_millis(2),
            waits,
        }
    }

    #[test]
    fn groups_have_histograms_and_the_delay_of_others() {
        let seen = Wakeups {
            source: WakeupSource::Bpf,
            not_bpf: None,
            elapsed_ns: Nanos(1),
            rows: vec![
                row(0, "/a", &[900, 1_500, 2_000_000_000]),
                row(1, "/a", &[900]),
                row(1, "/b\"c", &[]),
            ],
            longest: Vec::new(),
            open: Vec::new(),
            lost: 2,
            unnamed: 0,
            events_lost: 3,
        };
        let of = |axes: &[WakeupAxis]| text::encode(&families(&seen, axes), text::Form::Prometheus);
        let all = of(&[WakeupAxis::Cpu, WakeupAxis::Group]);
        for line in [
            "punctual_wakeup_latency_seconds_bucket{cpu=\"0\",cgroup=\"/a\",le=\"1e-6\"} 1",
            "punctual_wakeup_latency_seconds_bucket{cpu=\"0\",cgroup=\"/a\",le=\"1\"} 2",
            "punctual_wakeup_latency_seconds_bucket{cpu=\"0\",cgroup=\"/a\",le=\"+Inf\"} 3",
            "punctual_wakeup_latency_seconds_count{cpu=\"1\",cgroup=\"/a\"} 1",
            "punctual_wakeups_lost_total{} 5",
            "punctual_wakeup_delayed_others_seconds_total{cpu=\"1\",cgroup=\"/b\\\"c\"} 0.002",
        ] {
            assert!(all.lines().any(|known| known == line), "{line}\n{all}");
        }
        let by_cpu = of(&[WakeupAxis::Cpu]);
        assert!(by_cpu.contains("_count{cpu=\"1\"} 1\n"), "{by_cpu}");
        assert!(!by_cpu.contains("delayed_others"), "{by_cpu}");
    }
}
