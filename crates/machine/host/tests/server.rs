//! A server with two nodes and 64 CPUs, most of them isolated. Its tree is generated, because
//! storing it would take thousands of files.

// Test helpers may panic, like the tests themselves.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use punctual_host::Host;
use punctual_model::{CpuSet, Nanos};

const CPUS: u32 = 64;
/// CPUs of a node; each core has two threads, 32 apart.
const CORES: u32 = 32;

fn write(root: &Path, file: &str, text: impl AsRef<[u8]>) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn write_machine(root: &Path) {
    let cpu = "sys/devices/system/cpu";
    for (file, text) in [
        ("proc/sys/kernel/osrelease", "6.12.8\n"),
        ("proc/sys/kernel/version", "#1 SMP PREEMPT_RT\n"),
        ("proc/sys/kernel/hostname", "rack-4\n"),
        ("proc/cmdline", "isolcpus=8-31,40-63 nohz_full=8-31,40-63\n"),
        ("sys/kernel/realtime", "1\n"),
        (&format!("{cpu}/online"), "0-63\n"),
        (&format!("{cpu}/present"), "0-63\n"),
        (&format!("{cpu}/isolated"), "8-31,40-63\n"),
        (&format!("{cpu}/nohz_full"), "8-31,40-63\n"),
        (&format!("{cpu}/smt/control"), "on\n"),
        ("sys/devices/system/node/online", "0-1\n"),
        (
            "proc/cpuinfo",
            "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t: fpu\n",
        ),
    ] {
        write(root, file, text);
    }
    for n in 0..CPUS {
        let core = n % CORES;
        let node = core / 16;
        let (first, last) = (node * 16, node * 16 + 15);
        let folder = format!("{cpu}/cpu{n}");
        write(
            root,
            &format!("{folder}/topology/physical_package_id"),
            format!("{node}\n"),
        );
        write(
            root,
            &format!("{folder}/topology/core_id"),
            format!("{}\n", core % 16),
        );
        write(
            root,
            &format!("{folder}/topology/thread_siblings_list"),
            format!("{core},{}\n", core + CORES),
        );
        for (index, list) in [
            (0, format!("{core},{}", core + CORES)),
            (2, format!("{core},{}", core + CORES)),
            // The order is numerical, not alphabetical; the difference is visible from index 10 on.
            (
                10,
                format!("{first}-{last},{}-{}", first + CORES, last + CORES),
            ),
        ] {
            write(
                root,
                &format!("{folder}/cache/index{index}/shared_cpu_list"),
                list + "\n",
            );
        }
        write(
            root,
            &format!("{folder}/cpufreq/scaling_governor"),
            "performance\n",
        );
        for state in 0..12 {
            let folder = format!("{folder}/cpuidle/state{state}");
            write(root, &format!("{folder}/name"), format!("C{state}\n"));
            write(
                root,
                &format!("{folder}/latency"),
                format!("{}\n", state * 10),
            );
            write(
                root,
                &format!("{folder}/disable"),
                if state > 1 { "1\n" } else { "0\n" },
            );
        }
    }
}

/// Writes the counters as they are after `seconds`. Isolated CPUs have one tick per second, and the
/// others have a thousand.
fn write_counters(root: &Path, seconds: u64, rt_cpus: &CpuSet) {
    let columns: Vec<u64> = (0..CPUS)
        .map(|cpu| seconds * if rt_cpus.contains(cpu) { 1 } else { 1_000 })
        .collect();
    let line = |id: &str, counts: &[u64], name: &str| {
        let counts: Vec<String> = counts.iter().map(|count| format!("{count:>10}")).collect();
        format!("{id:>4}: {}   {name}\n", counts.join(" "))
    };
    let header: String = (0..CPUS).map(|cpu| format!("       CPU{cpu}")).collect();
    let zero = vec![0; CPUS as usize];
    write(
        root,
        "proc/interrupts",
        format!(
            "{header}\n{}{}{}",
            line("200", &zero, "PCI-MSI nvme0q1"),
            line("LOC", &columns, "Local timer interrupts"),
            line("RES", &zero, "Rescheduling interrupts"),
        ),
    );
    write(
        root,
        "proc/softirqs",
        format!("{header}\n{}", line("TIMER", &columns, "")),
    );
    let stat: String = (0..CPUS)
        .map(|cpu| format!("cpu{cpu} 1 0 0 0 0 0 0 0 0 0\n"))
        .collect();
    write(root, "proc/stat", format!("{stat}ctxt {}\n", seconds * 100));
    for cpu in 0..CPUS {
        let count = if cpu == 9 { seconds } else { 4 };
        let throttle = "thermal_throttle/core_throttle_count";
        write(
            root,
            &format!("sys/devices/system/cpu/cpu{cpu}/{throttle}"),
            "0\n",
        );
        // The upper half is reserved and must not count.
        let mut msr = vec![0u8; 0x34];
        msr.extend(((seconds << 40) | count).to_le_bytes());
        write(root, &format!("dev/cpu/{cpu}/msr"), msr);
    }
}

#[test]
fn each_cpus_topology_and_idle_are_read() {
    let folder = tempfile::tempdir().unwrap();
    write_machine(folder.path());
    let facts = Host::new(folder.path()).facts();
    assert_eq!(facts.cpus.len(), CPUS as usize);
    assert_eq!(facts.processor.numa_nodes.value.unwrap().to_string(), "0-1");
    assert_eq!(facts.processor.isolated.value.unwrap().len(), 48);
    let cpu = &facts.cpus[49];
    assert_eq!((cpu.package.value, cpu.core.value), (Some(1), Some(1)));
    assert_eq!(cpu.siblings.get().unwrap().to_string(), "17,49");
    assert_eq!(
        cpu.shares_cache_with.get().unwrap().to_string(),
        "16-31,48-63"
    );
    let states = cpu.idle_states.get().unwrap();
    let names: Vec<&str> = states.iter().map(|state| state.name.as_str()).collect();
    assert_eq!(names[..3], ["C0", "C1", "C2"]);
    assert_eq!(names[11], "C11");
    assert_eq!(states[11].exit_latency_ns, Nanos::from_micros(110));
    assert!(!states[1].disabled && states[2].disabled);
}

#[test]
fn unreadable_idle_state_makes_list_unknown() {
    let folder = tempfile::tempdir().unwrap();
    write_machine(folder.path());
    let host = Host::new(folder.path());
    let before = host.facts();
    write(
        folder.path(),
        "sys/devices/system/cpu/cpu3/cpuidle/state1/latency",
        "soon\n",
    );
    let after = host.facts();
    let states = &after.cpus[3].idle_states;
    assert_eq!(
        states.unknown.as_deref(),
        Some(
            "/sys/devices/system/cpu/cpu3/cpuidle/state1/latency: not readable as a number: 'soon'"
        )
    );
    assert!(states.value.is_none());
    assert_ne!(before.fingerprint, after.fingerprint);
}

#[test]
fn the_fingerprint_follows_settings_not_names() {
    let folder = tempfile::tempdir().unwrap();
    write_machine(folder.path());
    let host = Host::new(folder.path());
    let first = host.facts().fingerprint;
    assert_eq!(host.facts().fingerprint, first);
    write(folder.path(), "proc/sys/kernel/hostname", "rack-5\n");
    assert_eq!(host.facts().fingerprint, first);
    write(
        folder.path(),
        "sys/devices/system/cpu/cpu63/cpufreq/scaling_governor",
        "powersave\n",
    );
    assert_ne!(host.facts().fingerprint, first);
}

#[test]
fn interference_is_counted_by_cpu() {
    let folder = tempfile::tempdir().unwrap();
    write_machine(folder.path());
    let rt_cpus: CpuSet = "8-31,40-63".parse().unwrap();
    let host = Host::new(folder.path());
    write_counters(folder.path(), 10, &rt_cpus);
    let before = host.counters();
    write_counters(folder.path(), 70, &rt_cpus);
    let after = host.counters();
    let moved = after.since(&before, &rt_cpus, Nanos::from_secs(60));
    assert_eq!(moved.unknown, [""; 0]);
    assert_eq!(moved.context_switches, Some(6_000));
    assert_eq!(moved.cpus.len(), CPUS as usize);
    for cpu in &moved.cpus {
        let expected = if cpu.measured { 60 } else { 60_000 };
        assert_eq!(cpu.measured, rt_cpus.contains(cpu.cpu));
        assert_eq!(
            (cpu.interrupts.len(), cpu.interrupts_total()),
            (1, expected)
        );
        assert_eq!(cpu.interrupts[0].name, "Local timer interrupts");
        assert_eq!(cpu.softirqs_total(), expected);
        assert_eq!((cpu.steal_ns, cpu.throttled), (Some(Nanos::ZERO), Some(0)));
        assert_eq!(cpu.smis, Some(if cpu.cpu == 9 { 60 } else { 0 }));
    }
    // A CPU whose register cannot be read produces one line, and its count is unknown.
    fs::remove_file(folder.path().join("dev/cpu/5/msr")).unwrap();
    let after = host.counters();
    assert_eq!(
        after.unknown(),
        ["SMI count of CPU 5: /dev/cpu/*/msr: not there"]
    );
    let moved = after.since(&before, &rt_cpus, Nanos::from_secs(60));
    assert_eq!((moved.cpus[5].smis, moved.cpus[6].smis), (None, Some(0)));
}
