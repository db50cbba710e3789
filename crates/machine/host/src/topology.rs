//! The topology of CPUs, caches and memory nodes
//! (Documentation/ABI/stable/sysfs-devices-system-cpu and -node).

use punctual_model::{Cache, CoreType, CpuLocation, CpuSet, MemoryNode, Topology};

use crate::HostError;
use crate::capacity;
use crate::facts::{ONLINE, PRESENT};
use crate::isolation::{self, NOHZ_FULL};
use crate::root::Root;

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

/// Reads the topology. Values that the kernel does not report are omitted.
pub(crate) fn topology(root: &Root) -> Result<Topology, HostError> {
    let online = root.require_cpu_list(ONLINE)?;
    let present = root
        .require_cpu_list(PRESENT)
        .unwrap_or_else(|_| online.clone());
    let nodes = nodes(root);
    let cpus = present
        .iter()
        .map(|cpu| location(root, cpu, &online, &nodes));
    Ok(Topology {
        cpus: cpus.collect(),
        caches: caches(root, &online),
        core_types: core_types(root, &online),
        isolated: isolation::isolated(root),
        nohz_full: root.cpu_list(NOHZ_FULL),
        nodes,
    })
}

fn core_types(root: &Root, online: &CpuSet) -> Vec<CoreType> {
    let units = CoreType::UNITS.into_iter().filter_map(|(unit, _)| {
        let cpus = root.cpu_list(&format!("/sys/devices/{unit}/cpus")).value?;
        Some((unit, cpus))
    });
    let capacities = online.iter().filter_map(|cpu| {
        let capacity = root
            .number(&format!("{CPUS}/cpu{cpu}/cpu_capacity"))
            .value?;
        Some((cpu, capacity))
    });
    CoreType::all(&units.collect(), &capacities.collect())
}

/// Returns the SMT siblings of these CPUs, without the CPUs themselves.
pub(crate) fn siblings_outside(root: &Root, cpus: &CpuSet) -> CpuSet {
    let of = |cpu| root.cpu_list(&format!("{CPUS}/cpu{cpu}/topology/thread_siblings_list"));
    let all = cpus.iter().filter_map(|cpu| of(cpu).value);
    outside(all, cpus)
}

/// Returns the CPUs that share the last-level cache with these CPUs, without the CPUs themselves.
pub(crate) fn cache_sharers_outside(root: &Root, cpus: &CpuSet) -> CpuSet {
    let all = caches(root, cpus);
    let last = all.iter().map(|cache| cache.level).max();
    let last = all.into_iter().filter(|cache| Some(cache.level) == last);
    outside(last.map(|cache| cache.cpus), cpus)
}

fn outside(sets: impl Iterator<Item = CpuSet>, cpus: &CpuSet) -> CpuSet {
    let beside = |set: CpuSet| set.difference(cpus).iter().collect::<Vec<u32>>();
    sets.flat_map(beside).collect()
}

fn location(root: &Root, cpu: u32, online: &CpuSet, nodes: &[MemoryNode]) -> CpuLocation {
    let file = |name: &str| format!("{CPUS}/cpu{cpu}/topology/{name}");
    let siblings = root.cpu_list(&file("thread_siblings_list")).value;
    CpuLocation {
        cpu,
        online: online.contains(cpu),
        package: root.number(&file("physical_package_id")).value,
        core: root.number(&file("core_id")).value,
        siblings: siblings.unwrap_or_else(|| std::iter::once(cpu).collect()),
        node: (nodes.iter())
            .find(|node| node.cpus.contains(cpu))
            .map(|node| node.node),
    }
}

/// Returns each cache once. For CPUs that share a cache, the files have the same contents.
fn caches(root: &Root, online: &CpuSet) -> Vec<Cache> {
    let mut all = Vec::<Cache>::new();
    for cpu in online.iter() {
        let folder = format!("{CPUS}/cpu{cpu}/cache");
        for index in root.numbered(&folder, "index").unwrap_or_default() {
            let file = |name: &str| format!("{folder}/index{index}/{name}");
            let Some(level) = root.number(&file("level")).value else {
                continue;
            };
            let shared = root.cpu_list(&file("shared_cpu_list")).value;
            let cache = Cache {
                level,
                kind: root.text(&file("type")).unwrap_or_default(),
                size_bytes: root
                    .text(&file("size"))
                    .ok()
                    .and_then(|text| capacity::size(&text)),
                cpus: shared.unwrap_or_else(|| std::iter::once(cpu).collect()),
            };
            if !all.contains(&cache) {
                all.push(cache);
            }
        }
    }
    all.sort_by_key(|cache| (cache.level, cache.cpus.iter().next()));
    all
}

fn nodes(root: &Root) -> Vec<MemoryNode> {
    let numbers = root.numbered(NODES, "node").unwrap_or_default();
    let node = |node: u32| {
        let file = |name: &str| format!("{NODES}/node{node}/{name}");
        let meminfo = root.text(&file("meminfo")).unwrap_or_default();
        let total = meminfo.lines().find(|line| line.contains("MemTotal:"));
        let kib = total.and_then(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok());
        let distances = root.text(&file("distance")).unwrap_or_default();
        MemoryNode {
            node,
            cpus: root.cpu_list(&file("cpulist")).value.unwrap_or_default(),
            memory_bytes: kib.map(|kib| kib.saturating_mul(1024)),
            distances: distances
                .split_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect(),
        }
    };
    numbers.into_iter().map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_topology() {
        let all = topology(&Root::new("/".into())).unwrap();
        assert!(!all.online().is_empty());
        for cpu in &all.cpus {
            assert!(cpu.siblings.contains(cpu.cpu), "{cpu:?}");
        }
    }
}
