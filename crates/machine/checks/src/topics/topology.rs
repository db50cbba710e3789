//! Checks of topology, that is, of resources that the measured CPUs share with others.

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::{CoreType, CpuFacts, CpuSet, Fact, Severity};

use super::Topic;
use crate::fact_reader::{FactReader, Judged, Missing, Verdict, line};
use crate::{BASE, Check, Remedy, Role, Stance};
use punctual_model::SPINNING;

pub(super) const TOPIC: Topic = Topic {
    name: "topology",
    title: "Topology",
    checks: CHECKS,
};

const HARDWARE: &str = "Documentation/core-api/real-time/hardware.rst, System memory and cache";
const SYSFS: &str = "Documentation/ABI/testing/sysfs-devices-system-cpu";
const NODE_CPUS: &str = "/sys/devices/system/node/node#/cpulist";
const NIC_NODE: &str = "/sys/class/net/*/device/numa_node";
const UNITS: [&str; 3] = [
    "/sys/devices/cpu_core/cpus",
    "/sys/devices/cpu_atom/cpus",
    "/sys/devices/cpu_lowpower/cpus",
];
const CPU_FOLDERS: &str = "/sys/devices/system/cpu/cpu";
const CAPACITY: &str = "/sys/devices/system/cpu/cpu#/cpu_capacity";

const CHECKS: &[Check] = &[
    Check {
        name: "whole-cores",
        subject: "measured cores",
        severity: Severity::High,
        expected: "no sibling CPU that other threads use",
        judge: whole_cores,
        why: "A thread on a sibling CPU shares the core's execution units and first-level caches \
              with the measured CPU.",
        source: SYSFS,
        stances: &[Stance {
            roles: &[Role::Audio, Role::Lab],
            severity: Severity::Medium,
            note: "a busy sibling slows the CPU down by a factor, but does not add milliseconds",
        }],
        remedies: &[Remedy::Decide(
            "echo 0 > /sys/devices/system/cpu/cpuN/online for each sibling N",
        )],
        ..BASE
    },
    Check {
        name: "shared-cache",
        subject: "last-level cache",
        severity: Severity::Info,
        expected: "not shared with other CPUs, or partitioned (resctrl)",
        judge: |reader| {
            let shared = sharing(reader, |cpu| &cpu.shares_cache_with)?;
            Ok(if shared.is_empty() {
                Verdict::Ok("is not shared with other CPUs".to_owned())
            } else {
                Verdict::Warn(format!("is shared with CPU {shared}"))
            })
        },
        why: "A program on another CPU that reads much memory evicts the application's cache \
              lines: accesses then take 100 ns instead of 10.",
        source: HARDWARE,
        ..BASE
    },
    Check {
        name: "one-node",
        subject: "NUMA nodes of the measured CPUs",
        expected: "one node",
        reads: &[NODE_CPUS],
        judge: one_node,
        why: "An access to the memory of another node takes about twice as long, and uses a shared \
              bus.",
        source: "Documentation/admin-guide/mm/numa_memory_policy.rst; numactl(8)",
        ..BASE
    },
    Check {
        name: "network-node",
        subject: "NUMA node of the network cards",
        severity: Severity::Info,
        expected: "the node of the measured CPUs",
        reads: &[NIC_NODE, NODE_CPUS],
        judge: network_node,
        why: "Packets arrive in the cache and memory of the card's node.",
        source: "Documentation/networking/scaling.rst",
        stances: &[Stance {
            roles: &[Role::Network, Role::Trading, Role::Telco],
            severity: Severity::Medium,
            note: "each packet crosses the bus between the nodes",
        }],
        ..BASE
    },
    Check {
        name: "boot-cpu",
        subject: "CPU 0",
        severity: Severity::Info,
        expected: "not among the measured CPUs",
        judge: |reader| {
            reader.elsewhere()?;
            reader.saw("measured CPUs", &reader.cpus.to_string());
            Ok(if reader.cpus.contains(0) {
                Verdict::Warn("is measured".to_owned())
            } else {
                Verdict::Ok("is not measured".to_owned())
            })
        },
        why: "Boot, timekeeping, many drivers and some firmware use CPU 0. On most machines, CPU 0 \
              cannot be in nohz_full.",
        source: "Documentation/timers/no_hz.rst",
        stances: &[Stance {
            roles: SPINNING,
            severity: Severity::Medium,
            note: "one CPU has to keep time for the CPUs without a tick",
        }],
        ..BASE
    },
    Check {
        name: "equal-cores",
        subject: "core types of the measured CPUs",
        expected: "all of the fastest type",
        reads: &[UNITS[0], UNITS[1], UNITS[2], CAPACITY],
        judge: equal_cores,
        why: "On hybrid processors, the same code takes twice as long on a small core, and small \
              cores have other idle states.",
        source: "Documentation/scheduler/sched-capacity.rst",
        ..BASE
    },
    Check {
        name: "offline",
        subject: "offline CPUs",
        severity: Severity::Info,
        expected: "known",
        judge: |reader| {
            let processor = &reader.host().processor;
            let present = reader.fact(&processor.present)?;
            let online = reader.fact(&processor.online)?;
            let off = present.difference(online);
            Ok(Verdict::Ok(if off.is_empty() {
                "none".to_owned()
            } else {
                format!("CPU {off}")
            }))
        },
        why: "A CPU that goes offline or comes back online briefly stops all other CPUs.",
        source: "Documentation/core-api/cpu_hotplug.rst",
        ..BASE
    },
];

/// Returns the other CPUs that share a resource with measured ones.
fn sharing<'a>(
    reader: &FactReader<'a>,
    what: impl Fn(&'a CpuFacts) -> &'a Fact<CpuSet>,
) -> Result<CpuSet, Missing> {
    reader.elsewhere()?;
    let measured = reader.host().cpus.iter();
    let mut others = CpuSet::new();
    for cpu in measured.filter(|cpu| reader.cpus.contains(cpu.cpu)) {
        let with = reader.fact(what(cpu))?;
        for other in with.difference(reader.cpus).iter() {
            others.insert(other);
        }
    }
    Ok(others)
}

fn whole_cores(reader: &FactReader) -> Judged {
    let split = sharing(reader, |cpu| &cpu.siblings)?;
    Ok(if split.is_empty() {
        Verdict::Ok("are whole".to_owned())
    } else {
        Verdict::Fail(format!("are shared with CPU {split}"))
    })
}

/// Returns the memory nodes of the measured CPUs.
fn nodes(reader: &FactReader) -> Result<BTreeSet<String>, Missing> {
    let mut nodes = BTreeSet::new();
    for (file, list) in reader.files(NODE_CPUS)? {
        let cpus: CpuSet = list
            .parse()
            .map_err(|_| Missing::unknown(format!("{file} is not a list of CPUs")))?;
        if !cpus.intersection(reader.cpus).is_empty() {
            reader.saw(file, list);
            let folder = file.rsplit('/').nth(1).unwrap_or_default();
            nodes.insert(folder.trim_start_matches("node").to_owned());
        }
    }
    Ok(nodes)
}

fn one_node(reader: &FactReader) -> Judged {
    if reader
        .host()
        .processor
        .numa_nodes
        .get()
        .is_some_and(|nodes| nodes.len() < 2)
    {
        reader.fact(&reader.host().processor.numa_nodes)?;
        return Err(Missing::not_applicable("the machine has one node"));
    }
    let nodes = nodes(reader)?;
    let list: Vec<&str> = nodes.iter().map(String::as_str).collect();
    Ok(match list.as_slice() {
        [] => return Err(Missing::unknown("no NUMA node contains the measured CPUs")),
        [one] => Verdict::Ok((*one).to_owned()),
        // If all CPUs of a machine are measured, they are necessarily on all of its nodes.
        more if reader.others.is_empty() => {
            Verdict::Warn(format!("{} (all CPUs)", more.join(", ")))
        }
        more => Verdict::Fail(more.join(", ")),
    })
}

fn network_node(reader: &FactReader) -> Judged {
    if reader
        .host()
        .processor
        .numa_nodes
        .get()
        .is_some_and(|nodes| nodes.len() < 2)
    {
        return Err(Missing::not_applicable("the machine has one node"));
    }
    let cards = reader.files(NIC_NODE)?;
    let nodes = nodes(reader)?;
    let mut far = Vec::new();
    for (file, node) in &cards {
        reader.saw(*file, node);
        // -1 means that the firmware does not provide the node.
        if *node != "-1" && !nodes.contains(*node) {
            far.push(file.split('/').nth(4).unwrap_or_default());
        }
    }
    Ok(if far.is_empty() {
        Verdict::Ok(format!("{} of {}", cards.len(), cards.len()))
    } else {
        Verdict::Warn(format!("another node: {}", far.join(", ")))
    })
}

fn equal_cores(reader: &FactReader) -> Judged {
    let types = core_types(reader)?;
    let measured = CoreType::split(&types, reader.cpus);
    let place = |name: &str| match types.iter().position(|kind| kind.name == name) {
        Some(0) => "fast",
        Some(last) if last + 1 == types.len() => "small",
        _ => "medium",
    };
    let said = |(name, cpus): &(&str, CpuSet)| match types.len() {
        1 => (*name).to_owned(),
        _ => format!("CPU {cpus} {} ({name})", place(name)),
    };
    let said: Vec<String> = measured.iter().map(said).collect();
    Ok(match measured.as_slice() {
        [] => {
            return Err(Missing::unknown(
                "the types of the measured CPUs are unknown",
            ));
        }
        [(name, _)] if place(name) == "fast" => Verdict::Ok(said.join(", ")),
        [_] => {
            let fastest = &types[0];
            let found = said.join(", ");
            Verdict::Warn(format!(
                "{found}; CPU {} fast ({})",
                fastest.cpus, fastest.name
            ))
        }
        _ => Verdict::Warn(said.join(", ")),
    })
}

/// Returns the types of cores, the fastest first.
fn core_types(reader: &FactReader) -> Result<Vec<CoreType>, Missing> {
    let mut units = BTreeMap::new();
    for ((unit, _), file) in CoreType::UNITS.into_iter().zip(UNITS) {
        match reader.value::<CpuSet>(file) {
            Ok(cpus) => drop(units.insert(unit, cpus)),
            Err(Missing::NotApplicable(_)) => {}
            Err(missing) if reader.facts.files.contains_key(file) => return Err(missing),
            // An earlier version did not capture the file.
            Err(_) => {}
        }
    }
    let mut capacities = BTreeMap::new();
    if units.is_empty() {
        reader.each_cpu(CAPACITY).map_err(|missing| match missing {
            Missing::NotApplicable(_) => {
                Missing::not_applicable("the kernel reports no core types")
            }
            other => other,
        })?;
        for (file, text) in reader.files(CAPACITY)? {
            let capacity = text
                .parse()
                .map_err(|_| Missing::unknown(format!("{file} reads '{}'", line(text))))?;
            let cpu = file.trim_start_matches(CPU_FOLDERS).split('/').next();
            let cpu = cpu.and_then(|cpu| cpu.parse().ok());
            capacities.extend(cpu.map(|cpu: u32| (cpu, capacity)));
        }
    }
    Ok(CoreType::all(&units, &capacities))
}
