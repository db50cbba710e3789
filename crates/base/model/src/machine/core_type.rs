//! Types of cores on a processor with fast and small cores.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::CpuSet;

/// A type of cores, and its CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreType {
    /// Name: performance, efficiency, low-power efficiency, or `capacity N`.
    pub name: String,
    /// The CPUs of this type.
    pub cpus: CpuSet,
}

impl CoreType {
    /// Folders below /sys/devices whose file `cpus` lists the cores of a type on Intel's hybrid
    /// processors, and the name of the type. The fastest type comes first.
    pub const UNITS: [(&'static str, &'static str); 3] = [
        ("cpu_core", "performance"),
        ("cpu_atom", "efficiency"),
        ("cpu_lowpower", "low-power efficiency"),
    ];

    /// Returns the types of cores, the fastest first. `units` contains the CPUs of each of the
    /// [`UNITS`](Self::UNITS) that exists. Without units, the `cpu_capacity` of each CPU
    /// distinguishes the types. Returns an empty list if neither is known.
    pub fn all(units: &BTreeMap<&str, CpuSet>, capacities: &BTreeMap<u32, u32>) -> Vec<Self> {
        let of_unit = |(unit, name): (&str, &str)| {
            let cpus = units.get(unit).filter(|cpus| !cpus.is_empty())?;
            Some(Self {
                name: name.to_owned(),
                cpus: cpus.clone(),
            })
        };
        let types: Vec<Self> = Self::UNITS.into_iter().filter_map(of_unit).collect();
        if types.is_empty() {
            by_capacity(capacities)
        } else {
            types
        }
    }

    /// Returns these CPUs by type, the fastest first. Types without any of the CPUs are left out.
    pub fn split<'a>(types: &'a [Self], cpus: &CpuSet) -> Vec<(&'a str, CpuSet)> {
        let common = |kind: &'a Self| (kind.name.as_str(), kind.cpus.intersection(cpus));
        let all = types.iter().map(common);
        all.filter(|(_, cpus)| !cpus.is_empty()).collect()
    }
}

/// Groups CPUs by capacity. Like the kernel's `capacity_greater`, treats capacities that differ by
/// at most 5% as equal, because cores of one type can differ in their maximum frequency.
fn by_capacity(capacities: &BTreeMap<u32, u32>) -> Vec<CoreType> {
    let mut all: Vec<(u32, u32)> = capacities.iter().map(|(cpu, size)| (*size, *cpu)).collect();
    all.sort_by_key(|(size, cpu)| (std::cmp::Reverse(*size), *cpu));
    let mut types: Vec<(u32, CpuSet)> = Vec::new();
    for (size, cpu) in all {
        match types.last_mut() {
            Some((largest, cpus)) if u64::from(*largest) * 1_024 <= u64::from(size) * 1_078 => {
                cpus.insert(cpu);
            }
            _ => types.push((size, std::iter::once(cpu).collect())),
        }
    }
    let named = types.into_iter().map(|(size, cpus)| CoreType {
        name: format!("capacity {size}"),
        cpus,
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(types: &[CoreType]) -> String {
        let all = types
            .iter()
            .map(|kind| format!("{} {}", kind.name, kind.cpus));
        all.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn units_go_before_capacities() {
        let set = |text: &str| -> CpuSet { text.parse().unwrap() };
        let units = BTreeMap::from([("cpu_atom", set("8-11")), ("cpu_core", set("0-7"))]);
        let capacities: BTreeMap<u32, u32> = [(0, 530), (1, 530), (4, 1_024), (5, 1_000)].into();
        let hybrid = CoreType::all(&units, &capacities);
        assert_eq!(shown(&hybrid), "performance 0-7; efficiency 8-11");
        let arm = CoreType::all(&BTreeMap::new(), &capacities);
        assert_eq!(shown(&arm), "capacity 1024 4-5; capacity 530 0-1");
        assert_eq!(
            CoreType::split(&arm, &set("1,5,9")),
            [("capacity 1024", set("5")), ("capacity 530", set("1"))]
        );
        assert!(CoreType::all(&BTreeMap::new(), &BTreeMap::new()).is_empty());
    }
}
