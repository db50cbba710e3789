//! CPU topology of a machine, and placement of threads.

use serde::{Deserialize, Serialize};

use crate::{CpuSet, Fact};

/// CPUs, caches and memory nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Each CPU, in ascending order.
    pub cpus: Vec<CpuLocation>,
    /// Each cache once, ordered by level, then by its first CPU.
    pub caches: Vec<Cache>,
    /// Each memory node, in ascending order. Empty if the kernel does not report any.
    pub nodes: Vec<MemoryNode>,
    /// CPUs isolated from the scheduler (`isolcpus`).
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

    /// Reserves one core for the system, and all others for real-time work. The system gets the
    /// core of the first CPU, because some kernel work cannot be moved away from it.
    ///
    /// # Errors
    /// Fails if there is only one core.
    pub fn reserve_core(&self) -> Result<[Placement; 2], PlacementError> {
        let online = self.online();
        let first = online.iter().next().ok_or(PlacementError::OneCore)?;
        let system = self.core_of(first).intersection(&online);
        let rest = online.difference(&system);
        if rest.is_empty() {
            return Err(PlacementError::OneCore);
        }
        let whole = match system.len() {
            1 => format!("CPU {system} is a separate core"),
            _ => format!(
                "CPUs {system} belong to one core: real-time work on one of these CPUs shares the \
                 core with the others"
            ),
        };
        Ok([
            Placement {
                role: "system".to_owned(),
                reason: format!(
                    "{whole}; the first CPU does kernel work that cannot be moved to another CPU"
                ),
                cpus: system,
            },
            Placement {
                role: "real-time".to_owned(),
                reason: "all other cores".to_owned(),
                cpus: rest,
            },
        ])
    }

    /// Returns a good CPU for a thread that processes the work of an interrupt or softirq on `cpu`.
    /// Prefers another core that shares the nearest cache, where the data are still cached and the
    /// handler does not interrupt the thread. Returns `cpu` itself if there is none.
    ///
    /// # Errors
    /// Fails if the CPU is not online.
    pub fn siblings_placement(&self, cpu: u32) -> Result<Placement, PlacementError> {
        if !self.online().contains(cpu) {
            return Err(PlacementError::NotOnline(cpu));
        }
        let near = self.shared_by(cpu).next();
        let (cpus, reason) = match near {
            Some((cache, others)) => {
                let reason = format!(
                    "they share the level {} cache, but not the core, with CPU {cpu}, on which the \
                     handler runs",
                    cache.level
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
    /// nearest possible cache. Prefers isolated CPUs if there are two.
    ///
    /// # Errors
    /// Fails if no two CPUs share a cache.
    pub fn pair(&self) -> Result<[Placement; 2], PlacementError> {
        let online = self.online();
        let isolated = self.isolated.get().map(|cpus| cpus.intersection(&online));
        let isolated = isolated.filter(|cpus| cpus.len() > 1);
        // Prefer the last CPUs, because the first ones serve the system.
        let pools = isolated.into_iter().chain(std::iter::once(online));
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
                    "CPUs {} and {} share the level {} cache, but not a core",
                    one.min(other),
                    one.max(other),
                    cache.level
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
