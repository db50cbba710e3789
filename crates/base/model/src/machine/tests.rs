//! Tests of facts, interrupts and interference.

use super::*;
use crate::{Nanos, testing};

#[test]
fn mapped_fact_keeps_its_source_and_reason() {
    let known = Fact::known(3, "proc/a").map(|value| value * 2);
    assert_eq!(
        (known.get(), known.source.as_str(), known.unknown.as_ref()),
        (Some(&6), "proc/a", None)
    );
    let unknown: Fact<u32> = Fact::<u32>::unknown("proc/b", "not there").map(|value| value * 2);
    let reason = unknown.unknown.as_deref();
    assert_eq!(
        (unknown.get(), unknown.source.as_str(), reason),
        (None, "proc/b", Some("not there"))
    );
}

#[test]
fn unknown_host_has_no_fact() {
    let host = HostFacts::unknown("a file", "imported");
    let json = serde_json::to_value(&host).unwrap();
    let mut facts = 0;
    let mut pending = vec![&json];
    while let Some(value) = pending.pop() {
        assert!(value.get("value").is_none(), "{value}");
        facts += usize::from(value.get("unknown").is_some_and(|why| why == "imported"));
        pending.extend(value.as_object().into_iter().flat_map(|all| all.values()));
    }
    assert!(facts > 20, "{facts}");
    assert!(host.cpus.is_empty());
    assert_eq!(serde_json::from_value::<HostFacts>(json).unwrap(), host);
}

fn interrupt(devices: &[&str], counts: &[(u32, u64)]) -> InterruptRecord {
    InterruptRecord {
        id: "24".to_owned(),
        name: "PCI-MSI eth0".to_owned(),
        kind: InterruptKind::Msi,
        devices: devices.iter().map(|device| (*device).to_owned()).collect(),
        counts: counts.to_vec(),
        affinity: Fact::unknown("a", "b"),
        effective: Fact::unknown("a", "b"),
        handlers: Vec::new(),
    }
}

#[test]
fn interrupts_are_counted_since_an_earlier_reading() {
    let before = interrupt(&["eth0"], &[(0, 10), (2, 5)]);
    // CPU 1 came online, and the counter of CPU 2 began again.
    let now = interrupt(&["eth0"], &[(0, 14), (1, 3), (2, 4)]);
    assert_eq!(now.since(&before), [(0, 4), (1, 3), (2, 0)]);
    assert_eq!([&before, &now].map(InterruptRecord::total), [15, 21]);
    let shared = [&[][..], &["a"], &["a", "b"]].map(|devices| interrupt(devices, &[]).is_shared());
    assert_eq!(shared, [false, false, true]);
    let kinds = [
        InterruptKind::Msi,
        InterruptKind::Line,
        InterruptKind::Kernel,
    ];
    assert_eq!(kinds.map(InterruptKind::name), ["MSI", "line", "kernel"]);
}

#[test]
fn interference_is_summed_and_names_throttled_groups() {
    let mut all = testing::recording(2, 3).interference;
    // Of testing::recording: eth0 and the timer; TIMER and NET_RX.
    let totals: Vec<_> = (all.cpus.iter())
        .map(|cpu| (cpu.interrupts_total(), cpu.softirqs_total()))
        .collect();
    assert_eq!(totals, [(17 + 3_012, 750), (34 + 3_012, 767)]);
    assert_eq!(CpuInterference::default().interrupts_total(), 0);
    assert_eq!(all.throttled().count(), 0);
    let group = |group: &str, throttled| GroupThrottle {
        group: group.to_owned(),
        periods: 10,
        throttled,
        throttled_ns: Nanos(1),
    };
    all.groups = vec![group("/a", 0), group("/b", 1), group("/c", 9)];
    let names: Vec<&str> = all.throttled().map(|group| group.group.as_str()).collect();
    assert_eq!(names, ["/b", "/c"]);
}
