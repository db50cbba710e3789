//! Tests of the sums of wake-ups over a machine.

use super::*;

fn waits(of: &[u64]) -> WaitHistogram {
    let mut waits = WaitHistogram::new();
    of.iter().for_each(|wait| waits.record(Nanos(*wait)));
    waits
}

fn group(id: u64, path: Option<&str>, container: Option<&str>) -> GroupSeen {
    GroupSeen {
        path: path.map(str::to_owned),
        container: container.map(str::to_owned),
        ..GroupSeen::from_id(id)
    }
}

fn row(
    cpu: u32,
    class: PriorityClass,
    comm: Option<&str>,
    of: Option<u64>,
    all: &[u64],
) -> WakeupRow {
    WakeupRow {
        cpu,
        class,
        comm: comm.map(str::to_owned),
        group: of.map(GroupSeen::from_id),
        held_ns: Nanos(100),
        waits: waits(all),
    }
}

fn machine() -> Wakeups {
    use PriorityClass::{Fair, RealTime};
    Wakeups {
        source: WakeupSource::Bpf,
        not_bpf: None,
        elapsed_ns: Nanos(10),
        rows: vec![
            row(1, Fair, Some("make"), Some(5), &[30]),
            row(0, RealTime, Some("loop"), None, &[4, 6]),
            row(0, Fair, Some("make"), Some(5), &[20]),
            row(0, Fair, None, Some(6), &[]),
            row(1, RealTime, Some("make"), None, &[]),
        ],
        longest: Vec::new(),
        open: Vec::new(),
        lost: 0,
        unnamed: 0,
        events_lost: 0,
    }
}

#[test]
fn group_is_named_by_container_path_or_number() {
    for (group, label) in [
        (
            group(5, Some("/a"), Some("docker container 1f")),
            "docker container 1f",
        ),
        (group(5, Some("/a"), None), "/a"),
        (group(5, None, None), "removed group 5"),
        (group(0, None, None), "unknown"),
    ] {
        assert_eq!(group.label(), label);
    }
}

#[test]
fn rows_are_summed_on_the_requested_axes() {
    use PriorityClass::{Fair, RealTime};
    let all = machine();
    let sums = |axes: &[WakeupAxis]| {
        let groups = all.by(axes).into_iter();
        let sum = |one: WakeupGroup| {
            let group = one.group.map(|group| group.id);
            (
                one.cpu,
                one.class,
                one.comm,
                group,
                one.waits.count,
                one.held.0,
            )
        };
        groups.map(sum).collect::<Vec<_>>()
    };
    let comm = |name: &str| Some(name.to_owned());
    assert_eq!(sums(&[]), [(None, None, None, None, 4, 500)]);
    assert_eq!(
        sums(&[WakeupAxis::Cpu]),
        [
            (Some(0), None, None, None, 3, 300),
            (Some(1), None, None, None, 1, 200)
        ]
    );
    assert_eq!(
        sums(&[WakeupAxis::Priority]),
        [
            (None, Some(RealTime), None, None, 2, 200),
            (None, Some(Fair), None, None, 2, 300)
        ]
    );
    // The row without a comm has no waits, and names no group.
    assert_eq!(
        sums(&[WakeupAxis::Comm]),
        [
            (None, None, comm("loop"), None, 2, 100),
            (None, None, comm("make"), None, 2, 300)
        ]
    );
    // A group that did not wait may have delayed others.
    assert_eq!(
        sums(&[WakeupAxis::Group]),
        [
            (None, None, None, None, 2, 200),
            (None, None, None, Some(5), 2, 200),
            (None, None, None, Some(6), 0, 100)
        ]
    );
    let both = sums(&[WakeupAxis::Priority, WakeupAxis::Cpu]);
    let keys: Vec<_> = both
        .iter()
        .map(|one| (one.0.unwrap(), one.1.unwrap()))
        .collect();
    assert_eq!(keys, [(0, RealTime), (0, Fair), (1, Fair)]);
}

#[test]
fn rows_are_ordered_by_cpu_class_comm_and_group() {
    let mut all = machine().rows;
    all.sort_by_key(WakeupRow::order);
    let keys: Vec<_> = all
        .iter()
        .map(|row| (row.cpu, row.class, row.comm.as_deref()))
        .collect();
    use PriorityClass::{Fair, RealTime};
    assert_eq!(
        keys,
        [
            (0, RealTime, Some("loop")),
            (0, Fair, None),
            (0, Fair, Some("make")),
            (1, RealTime, Some("make")),
            (1, Fair, Some("make")),
        ]
    );
    let (id, other) = (GroupSeen::from_id(1), GroupSeen::from_id(2));
    let with = |group| {
        WakeupRow {
            group: Some(group),
            ..all[0].clone()
        }
        .order()
    };
    assert!(with(id) < with(other));
}

#[test]
fn longest_wait_has_ended_or_is_open() {
    let mut all = machine();
    assert_eq!(all.longest(), Nanos(30));
    let open = OpenWait {
        woken_ns: Nanos(1),
        waited_ns: Nanos(40),
        cpu: None,
        victim: ThreadSeen {
            tid: 7,
            comm: "loop".to_owned(),
            kernel_priority: 120,
            policy: None,
        },
        behind: None,
        waker: 0,
    };
    all.open = vec![open];
    assert_eq!(all.longest(), Nanos(40));
    (all.rows, all.open) = (Vec::new(), Vec::new());
    assert_eq!(all.longest(), Nanos::ZERO);
}

#[test]
fn mean_wait_is_the_sum_by_the_number() {
    assert_eq!(WaitHistogram::new().mean(), None);
    assert_eq!(waits(&[4, 7]).mean(), Some(Nanos(5)));
    assert_eq!(waits(&[4]).quantile(0.5), Some(Nanos(4)));
    assert_eq!(WaitHistogram::new().quantile(0.5), None);
    // The sum saturates, and the count does not.
    let mut large = waits(&[u64::MAX, 1]);
    assert_eq!(
        (large.sum_ns, large.count, large.max_ns),
        (u64::MAX, 2, Nanos(u64::MAX))
    );
    large.merge(&waits(&[9, 9, 9]));
    assert_eq!((large.sum_ns, large.count), (u64::MAX, 5));
    assert_eq!(large.buckets, [(1, 1), (9, 3), (1_000, 1)]);
}

#[test]
fn class_follows_from_the_kernels_priority_and_policy() {
    use PriorityClass::{Deadline, Fair, Idle, RealTime};
    for (priority, policy, class) in [
        (-1, None, Deadline),
        (0, Some(1), RealTime),
        (99, None, RealTime),
        (100, Some(0), Fair),
        (120, None, Fair),
        (120, Some(5), Idle),
        (139, Some(3), Fair),
        // A thread of SCHED_IDLE that inherits a real-time priority.
        (49, Some(5), RealTime),
    ] {
        assert_eq!(
            PriorityClass::new(priority, policy),
            class,
            "{priority} {policy:?}"
        );
    }
    assert!(PriorityClass::ALL.is_sorted());
    let names = PriorityClass::ALL.map(PriorityClass::name);
    assert_eq!(names, ["deadline", "real-time", "fair", "idle"]);
    let axes = WakeupAxis::ALL.map(WakeupAxis::name);
    assert_eq!(axes, ["cpu", "priority", "comm", "cgroup"]);
}

#[test]
fn activities_have_names_and_durations() {
    use ActivityKind::*;
    for (kind, name, has_run, has_delay) in [
        (Irq, "irq", true, false),
        (Softirq, "softirq", true, true),
        (Work, "work", true, true),
        (Timer, "timer", true, true),
        (Napi, "napi", true, false),
        (Ipi, "ipi", false, false),
    ] {
        assert_eq!(
            (kind.name(), kind.has_run(), kind.has_delay()),
            (name, has_run, has_delay)
        );
        assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{name}\""));
    }
}

#[test]
fn buckets_are_where_the_decades_say() {
    for (ns, bucket) in [
        (0, 0),
        (99, 99),
        (100, 100),
        (109, 100),
        (110, 101),
        (999, 189),
        (1_000, 190),
        (1_099, 190),
        (999_999_999_999, 999),
        (1_000_000_000_000, 1_000),
        (u64::MAX, 1_000),
    ] {
        assert_eq!(WaitHistogram::bucket_of(Nanos(ns)), bucket, "{ns}");
    }
}

/// Counts with a row of waits for each (CPU, ID of a control group).
fn seen(rows: &[(u32, Option<u64>, &[u64])]) -> Wakeups {
    let row = |(cpu, group, waits_ns): &(u32, Option<u64>, &[u64])| {
        let mut waits = WaitHistogram::new();
        waits_ns.iter().for_each(|wait| waits.record(Nanos(*wait)));
        WakeupRow {
            cpu: *cpu,
            class: PriorityClass::Fair,
            comm: None,
            group: group.map(GroupSeen::from_id),
            held_ns: Nanos(1),
            waits,
        }
    };
    Wakeups {
        source: WakeupSource::Bpf,
        not_bpf: None,
        elapsed_ns: Nanos(10),
        rows: rows.iter().map(row).collect(),
        longest: Vec::new(),
        open: Vec::new(),
        lost: 1,
        unnamed: 0,
        events_lost: 2,
    }
}

#[test]
fn sum_of_observations_is_without_ended_groups() {
    let mut sum = seen(&[(0, None, &[5]), (0, Some(7), &[5]), (1, Some(8), &[9])]);
    let mut next = seen(&[(1, Some(7), &[3]), (0, Some(7), &[4, 400])]);
    next.rows[1].group.as_mut().unwrap().path = Some("/a".to_owned());
    sum.add_next(&next);
    let row = |row: &WakeupRow| {
        let group = row.group.as_ref().map(|group| group.id);
        (
            row.cpu,
            group,
            row.waits.count,
            row.waits.sum_ns,
            row.held_ns.0,
        )
    };
    assert_eq!(
        sum.rows.iter().map(row).collect::<Vec<_>>(),
        [
            (0, None, 1, 5, 1),
            (0, Some(7), 3, 409, 2),
            (1, Some(7), 1, 3, 1)
        ]
    );
    let renamed = sum.rows[1].group.as_ref().unwrap();
    assert_eq!(renamed.path.as_deref(), Some("/a"));
    assert_eq!(
        (sum.elapsed_ns, sum.lost, sum.events_lost),
        (Nanos(20), 2, 4)
    );
}

#[test]
fn priorities_are_said_as_people_say_them() {
    let thread = |tid, policy, kernel_priority| {
        ThreadSeen {
            tid,
            comm: String::new(),
            kernel_priority,
            policy,
        }
        .scheduling()
    };
    assert_eq!(thread(0, Some(0), 120), "idle");
    assert_eq!(thread(9, Some(1), 4), "fifo 95");
    assert_eq!(thread(9, Some(2), 49), "rr 50");
    assert_eq!(thread(9, Some(0), 130), "nice 10");
    assert_eq!(thread(9, Some(0), 49), "boosted to 50");
    assert_eq!(thread(9, Some(6), -1), "deadline");
    // Trace events do not contain the policy.
    assert_eq!(thread(9, None, 49), "real-time 50");
    assert_eq!(thread(9, None, 120), "nice 0");
    assert_eq!(thread(9, None, -1), "deadline");
}

proptest::proptest! {
    #[test]
    fn a_wait_lies_in_its_bucket(ns: u64) {
        let (low, high) = WaitHistogram::bounds_of(WaitHistogram::bucket_of(Nanos(ns)));
        proptest::prop_assert!(low <= Nanos(ns) && Nanos(ns) <= high);
    }

    #[test]
    fn quantiles_rise_and_end_at_the_longest(waits in proptest::collection::vec(0u64..1_000_000, 1..100)) {
        let mut all = WaitHistogram::new();
        for wait in &waits {
            all.record(Nanos(*wait));
        }
        let at = |q| all.quantile(q).unwrap();
        proptest::prop_assert!(at(0.5) <= at(0.9) && at(0.9) <= at(1.0));
        proptest::prop_assert_eq!(at(1.0), Nanos(*waits.iter().max().unwrap()));
        proptest::prop_assert_eq!(all.count, waits.len() as u64);
    }

    #[test]
    fn merging_is_recording_all(a in proptest::collection::vec(0u64..1_000_000, 0..50), b in proptest::collection::vec(0u64..1_000_000, 0..50)) {
        let of = |waits: &[u64]| {
            let mut all = WaitHistogram::new();
            waits.iter().for_each(|wait| all.record(Nanos(*wait)));
            all
        };
        let mut merged = of(&a);
        merged.merge(&of(&b));
        proptest::prop_assert_eq!(merged, of(&[a, b].concat()));
    }
}
