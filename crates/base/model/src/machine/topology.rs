//! CPU topology of a machine, and placement of threads.

use serde::{Deserialize, Serialize};

use crate::{CoreType, CpuSet, Fact, ReservedCpus};

/// CPUs, caches and memory nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Each CPU, in ascending order.
    pub cpus: Vec<CpuLocation>,
    /// Each cache once, ordered by level, then by its first CPU.
    pub caches: Vec<Cache>,
    /// Each memory node, in ascending order. Empty if the kernel does not report any.
    pub nodes: Vec<MemoryNode>,
    /// Types of cores, the fastest first. Empty if the kernel does not report any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub core_types: Vec<CoreType>,
    /// CPUs to which the scheduler moves no threads: `isolcpus=`, or an isolated cpuset partition.
    pub isolated: Fact<CpuSet>,
    /// CPUs that have no timer tick while only one thread runs on them (`nohz_full`).
    pub nohz_full: Fact<CpuSet>,
}

/// The position of a CPU in the topology.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuLocation {
    /// Number of the CPU.
    pub cpu: u32,
    /// Whether it is online.
    pub online: bool,
    /// Its socket.
    pub package: Option<u32>,
    /// Its core in the socket.
    pub core: Option<u32>,
    /// CPUs that share its core, including itself.
    pub siblings: CpuSet,
    /// Its memory node.
    pub node: Option<u32>,
}

/// A cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// Its level. 1 is the nearest.
    pub level: u32,
    /// Type of the cache: Data, Instruction or Unified.
    pub kind: String,
    /// Its size.
    pub size_bytes: Option<u64>,
    /// CPUs that share it.
    pub cpus: CpuSet,
}

/// A memory node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryNode {
    /// Its number.
    pub node: u32,
    /// CPUs close to it.
    pub cpus: CpuSet,
    /// Size of its memory.
    pub memory_bytes: Option<u64>,
    /// Distance to each node, in ascending order of nodes. 10 is the distance to itself.
    pub distances: Vec<u32>,
}

/// The recommended CPUs for a part of the work, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The part of the work: `system`, `real-time`, `thread`, `producer`, `consumer`.
    pub role: String,
    /// The CPUs.
    pub cpus: CpuSet,
    /// The reason for these CPUs.
    pub reason: String,
}

/// Reason why no placement is possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// The machine has only one core.
    #[error(
        "this machine has only one core: if that core is reserved for the system, none is left"
    )]
    OneCore,
    /// No two CPUs share a cache.
    #[error("according to the kernel, no two CPUs of different cores share a cache")]
    NoSharedCache,
    /// The CPU is not online.
    #[error("CPU {0} is not online")]
    NotOnline(u32),
}

impl Topology {
    /// Returns the CPUs that are online.
    pub fn online(&self) -> CpuSet {
        let online = self.cpus.iter().filter(|cpu| cpu.online);
        online.map(|cpu| cpu.cpu).collect()
    }

    /// Returns the CPUs that run the system, which are neither isolated nor tickless.
    pub fn housekeeping(&self) -> CpuSet {
        let mut cpus = self.online();
        for apart in [&self.isolated, &self.nohz_full] {
            if let Some(apart) = apart.get() {
                cpus = cpus.difference(apart);
            }
        }
        cpus
    }

    /// Returns the CPUs that share the core of `cpu`, including itself.
    fn core_of(&self, cpu: u32) -> CpuSet {
        let place = self.cpus.iter().find(|place| place.cpu == cpu);
        place.map_or_else(
            || std::iter::once(cpu).collect(),
            |place| place.siblings.clone(),
        )
    }

    /// Returns the caches that `cpu` shares with other cores, the nearest first.
    fn shared_by(&self, cpu: u32) -> impl Iterator<Item = (&Cache, CpuSet)> {
        let own = self.core_of(cpu);
        let online = self.online();
        let mut caches: Vec<_> = (self.caches.iter())
            .filter(|cache| cache.kind != "Instruction" && cache.cpus.contains(cpu))
            .map(|cache| (cache, cache.cpus.intersection(&online).difference(&own)))
            .filter(|(_, others)| !others.is_empty())
            .collect();
        caches.sort_by_key(|(cache, _)| cache.level);
        caches.into_iter()
    }

    /// Returns the CPUs that the machine already keeps free of other work.
    pub fn reserved(&self) -> Option<ReservedCpus> {
        ReservedCpus::find(&self.isolated, &self.nohz_full, &self.online())
    }

    /// Returns CPUs for the system and CPUs for real-time work. CPUs that are already isolated get
    /// the real-time work. Otherwise the system gets the core of the first CPU, because some kernel
    /// work cannot be moved away from it, and all cores that are not of the fastest type.
    ///
    /// # Errors
    /// Fails if there is only one core.
    pub fn reserve_core(&self) -> Result<[Placement; 2], PlacementError> {
        let online = self.online();
        let places = |system: (CpuSet, String), real_time: (CpuSet, String)| {
            [("system", system), ("real-time", real_time)].map(|(role, (cpus, reason))| Placement {
                role: role.to_owned(),
                cpus,
                reason,
            })
        };
        if let Some(reserved) = self.reserved() {
            let system = online.difference(&reserved.cpus);
            if !system.is_empty() {
                let reason = reserved.because + &self.mixed(&reserved.cpus);
                let rest = "all other CPUs".to_owned();
                return Ok(places((system, rest), (reserved.cpus, reason)));
            }
        }
        let first = online.first().ok_or(PlacementError::OneCore)?;
        let core = self.core_of(first).intersection(&online);
        let rest = online.difference(&core);
        if rest.is_empty() {
            return Err(PlacementError::OneCore);
        }
        let whole = match core.len() {
            1 => format!("CPU {core} is a separate core"),
            _ => format!(
                "CPUs {core} belong to one core: real-time work on one of these CPUs shares the \
                 core with the others"
            ),
        };
        let whole =
            format!("{whole}; the first CPU does kernel work that cannot be moved to another CPU");
        let by_type = CoreType::split(&self.core_types, &rest);
        let Some(((name, fastest), slower)) =
            by_type.split_first().filter(|(_, all)| !all.is_empty())
        else {
            return Ok(places((core, whole), (rest, "all other cores".to_owned())));
        };
        let system = online.difference(fastest);
        let reason = format!("{whole}; slower cores: {}", listed(slower));
        let real_time = format!("all other cores of the fastest type ({name})");
        Ok(places((system, reason), (fastest.clone(), real_time)))
    }

    /// Returns a note that these CPUs have different types of cores, or an empty text.
    fn mixed(&self, cpus: &CpuSet) -> String {
        match CoreType::split(&self.core_types, cpus) {
            types if types.len() > 1 => {
                format!("; the types of their cores differ: {}", listed(&types))
            }
            _ => String::new(),
        }
    }

    /// Returns the CPUs with the same type of core as `cpu`; all CPUs if the type is not known.
    fn like(&self, cpu: u32) -> CpuSet {
        let own = self.core_types.iter().find(|kind| kind.cpus.contains(cpu));
        own.map_or_else(|| self.online(), |kind| kind.cpus.clone())
    }

    /// Returns a good CPU for a thread that processes the work of an interrupt or softirq on `cpu`.
    /// Prefers another core that shares the nearest cache, where the data are still cached and the
    /// handler does not interrupt the thread, and a core of the same type. Returns `cpu` itself if
    /// there is none.
    ///
    /// # Errors
    /// Fails if the CPU is not online.
    pub fn siblings_placement(&self, cpu: u32) -> Result<Placement, PlacementError> {
        if !self.online().contains(cpu) {
            return Err(PlacementError::NotOnline(cpu));
        }
        let alike = self.like(cpu);
        let near = (self.shared_by(cpu))
            .map(|(cache, others)| (cache, others.intersection(&alike)))
            .find(|(_, others)| !others.is_empty())
            .or_else(|| self.shared_by(cpu).next());
        let (cpus, reason) = match near {
            Some((cache, others)) => {
                let reason = format!(
                    "they share the level {} cache, but not the core, with CPU {cpu}, on which the \
                     handler runs{}",
                    cache.level,
                    self.mixed(&others.iter().chain([cpu]).collect())
                );
                (others, reason)
            }
            None => (
                std::iter::once(cpu).collect(),
                format!(
                    "the kernel reports no other core that shares a cache with CPU {cpu}: run the \
                     thread on the same CPU, after the handler"
                ),
            ),
        };
        Ok(Placement {
            role: "thread".to_owned(),
            cpus,
            reason,
        })
    }

    /// Returns two CPUs for a producer and its consumer. They are on different cores that share the
    /// nearest possible cache. Prefers isolated CPUs if there are two, and cores of one type.
    ///
    /// # Errors
    /// Fails if no two CPUs share a cache.
    pub fn pair(&self) -> Result<[Placement; 2], PlacementError> {
        let online = self.online();
        let reserved = self.reserved().map(|reserved| reserved.cpus);
        let of_one_type = |cpus: &CpuSet| {
            let types = CoreType::split(&self.core_types, cpus).into_iter();
            let mut pools: Vec<CpuSet> = types.map(|(_, cpus)| cpus).collect();
            pools.push(cpus.clone());
            pools
        };
        let pools = reserved.iter().chain([&online]).flat_map(of_one_type);
        // Prefer the last CPUs, because the first ones serve the system.
        for pool in pools {
            let mut cpus: Vec<u32> = pool.iter().collect();
            cpus.reverse();
            let found = cpus.iter().find_map(|cpu| {
                let (cache, others) = (self.shared_by(*cpu))
                    .find(|(_, others)| !others.intersection(&pool).is_empty())?;
                let other = others.intersection(&pool).iter().last()?;
                Some((*cpu, other, cache))
            });
            if let Some((one, other, cache)) = found {
                let reason = format!(
                    "CPUs {} and {} share the level {} cache, but not a core{}",
                    one.min(other),
                    one.max(other),
                    cache.level,
                    self.mixed(&[one, other].into_iter().collect())
                );
                let at = |role: &str, cpu: u32| Placement {
                    role: role.to_owned(),
                    cpus: std::iter::once(cpu).collect(),
                    reason: reason.clone(),
                };
                return Ok([
                    at("producer", one.min(other)),
                    at("consumer", one.max(other)),
                ]);
            }
        }
        Err(PlacementError::NoSharedCache)
    }
}

/// Lists CPUs with the types of their cores.
fn listed(types: &[(&str, CpuSet)]) -> String {
    let all = types
        .iter()
        .map(|(name, cpus)| format!("CPU {cpus} ({name})"));
    all.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    /// Two sockets with two cores of two CPUs each (CPUs 0 and 4 are one core), and a last-level
    /// cache for each socket.
    fn server(isolated: &str) -> Topology {
        let place = |cpu: u32| CpuLocation {
            cpu,
            online: true,
            package: Some(cpu % 4 / 2),
            core: Some(cpu % 2),
            siblings: [cpu % 4, cpu % 4 + 4].into_iter().collect(),
            node: Some(cpu % 4 / 2),
        };
        let cache = |level, cpus| Cache {
            level,
            kind: "Unified".to_owned(),
            size_bytes: None,
            cpus: set(cpus),
        };
        Topology {
            cpus: (0..8).map(place).collect(),
            caches: vec![
                cache(2, "0,4"),
                cache(2, "1,5"),
                cache(2, "2,6"),
                cache(2, "3,7"),
                cache(3, "0-1,4-5"),
                cache(3, "2-3,6-7"),
            ],
            nodes: vec![],
            core_types: vec![],
            isolated: Fact::known(set(isolated), "isolated"),
            nohz_full: Fact::unknown("nohz_full", "absent"),
        }
    }

    #[test]
    fn core_is_reserved_with_all_threads() {
        let [system, rest] = server("").reserve_core().unwrap();
        assert_eq!(system.cpus, set("0,4"));
        assert_eq!(rest.cpus, set("1-3,5-7"));
    }

    #[test]
    fn isolated_cpus_get_the_real_time_work() {
        let [system, rest] = server("2,6").reserve_core().unwrap();
        assert_eq!((system.cpus, rest.cpus), (set("0-1,3-5,7"), set("2,6")));
        assert_eq!(rest.reason, "they are isolated (isolated)");
    }

    #[test]
    fn core_types_are_not_mixed() {
        let kind = |name: &str, cpus| CoreType {
            name: name.to_owned(),
            cpus: set(cpus),
        };
        let mut hybrid = server("");
        // The second core of the first socket is slower, and so is the second socket.
        hybrid.core_types = vec![
            kind("performance", "0,2,4,6"),
            kind("efficiency", "1,3,5,7"),
        ];
        let [system, rest] = hybrid.reserve_core().unwrap();
        assert_eq!((system.cpus, rest.cpus), (set("0-1,3-5,7"), set("2,6")));
        assert!(
            system
                .reason
                .ends_with("slower cores: CPU 1,3,5,7 (efficiency)")
        );
        assert_eq!(
            rest.reason,
            "all other cores of the fastest type (performance)"
        );
        // No two cores of one type share a cache, so the reason names the types.
        let [producer, _] = hybrid.pair().unwrap();
        let note = "differ: CPU 6 (performance), CPU 7 (efficiency)";
        assert!(producer.reason.ends_with(note), "{}", producer.reason);
        let beside = hybrid.siblings_placement(0).unwrap();
        assert_eq!(beside.cpus, set("1,5"));
        assert!(beside.reason.contains("differ"), "{}", beside.reason);
        hybrid.core_types = vec![
            kind("performance", "0-1,4-5"),
            kind("efficiency", "2-3,6-7"),
        ];
        let [producer, consumer] = hybrid.pair().unwrap();
        assert_eq!((producer.cpus, consumer.cpus), (set("4"), set("5")));
        hybrid.isolated = Fact::known(set("1-2"), "isolated");
        let [_, rest] = hybrid.reserve_core().unwrap();
        let note = "differ: CPU 1 (performance), CPU 2 (efficiency)";
        assert!(rest.reason.ends_with(note), "{}", rest.reason);
    }

    #[test]
    fn thread_sits_near_interrupt_on_other_core() {
        let place = server("").siblings_placement(2).unwrap();
        assert_eq!(place.cpus, set("3,7"));
        assert!(place.reason.contains("level 3"), "{}", place.reason);
        assert_eq!(
            server("").siblings_placement(9),
            Err(PlacementError::NotOnline(9))
        );
    }

    #[test]
    fn pair_shares_cache_but_no_core() {
        let [producer, consumer] = server("").pair().unwrap();
        assert_eq!((producer.cpus, consumer.cpus), (set("6"), set("7")));
        let [producer, consumer] = server("1,4-5").pair().unwrap();
        assert_eq!((producer.cpus, consumer.cpus), (set("4"), set("5")));
    }

    #[test]
    fn what_is_apart_is_no_housekeeping() {
        assert_eq!(server("2-3").housekeeping(), set("0-1,4-7"));
    }

    #[test]
    fn one_core_is_not_enough() {
        let mut small = server("");
        small.cpus.retain(|place| place.cpu % 4 == 0);
        assert_eq!(small.reserve_core(), Err(PlacementError::OneCore));
        assert_eq!(small.pair(), Err(PlacementError::NoSharedCache));
        assert_eq!(small.siblings_placement(0).unwrap().cpus, set("0"));
    }
}
