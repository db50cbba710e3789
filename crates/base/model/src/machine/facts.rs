//! Facts about a machine, each with its source.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{CpuSet, Nanos};

/// One fact: its value and its source, or why it is unknown.
///
/// In JSON `{"value": …, "source": "…"}` or `{"source": "…", "unknown": "…"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact<T> {
    /// The value. Absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub value: Option<T>,
    /// The source of the fact: a file, without the root path, or an instruction.
    pub source: String,
    /// Reason why the value is missing: no such file, no permission, lockdown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unknown: Option<String>,
}

impl<T> Fact<T> {
    /// Creates a known fact.
    pub fn known(value: T, source: impl Into<String>) -> Self {
        Self {
            value: Some(value),
            source: source.into(),
            unknown: None,
        }
    }

    /// Creates an unknown fact with the reason.
    pub fn unknown(source: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            value: None,
            source: source.into(),
            unknown: Some(reason.into()),
        }
    }

    /// Returns the value, if known.
    pub fn get(&self) -> Option<&T> {
        self.value.as_ref()
    }

    /// Applies a function to the value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Fact<U> {
        Fact {
            value: self.value.map(f),
            source: self.source,
            unknown: self.unknown,
        }
    }
}

/// Facts about a machine at one moment. Facts that cannot be read are marked as unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// A hash of 16 hexadecimal digits over the facts about the machine and its settings (hardware,
    /// kernel, boot line, governor, clock source, isolation), not including facts that change by
    /// themselves. Recordings with equal fingerprints have the same configuration. Empty if too
    /// little is known. An empty fingerprint is not equal to any other.
    pub fingerprint: String,
    /// Host name.
    pub hostname: Fact<String>,
    /// The distribution.
    pub distribution: DistributionFacts,
    /// The kernel, its configuration and boot parameters.
    pub kernel: KernelFacts,
    /// The processor as a whole.
    pub processor: ProcessorFacts,
    /// Each CPU, in ascending order.
    pub cpus: Vec<CpuFacts>,
    /// The clock.
    pub clock: ClockFacts,
    /// Memory.
    pub memory: MemoryFacts,
    /// Virtualisation and firmware.
    pub virtualisation: VirtualisationFacts,
}

/// The distribution, from os-release(5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DistributionFacts {
    /// `PRETTY_NAME`.
    pub name: Fact<String>,
    /// `ID`.
    pub id: Fact<String>,
    /// `VERSION_ID`.
    pub version: Fact<String>,
}

/// The kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelFacts {
    /// `uname -r`.
    pub release: Fact<String>,
    /// `uname -v`.
    pub version: Fact<String>,
    /// `uname -m`.
    pub architecture: Fact<String>,
    /// Whether it is a PREEMPT_RT kernel.
    pub preempt_rt: Fact<bool>,
    /// The effective preemption model: none, voluntary, full, lazy or rt.
    pub preempt_model: Fact<String>,
    /// The kernel command line.
    pub command_line: Fact<String>,
    /// Timer ticks per second (`CONFIG_HZ`).
    pub hz: Fact<u32>,
    /// Whether high-resolution timers are active.
    pub high_resolution_timers: Fact<bool>,
    /// Lockdown mode (kernel_lockdown(7)): none, integrity or confidentiality.
    pub lockdown: Fact<String>,
    /// CPU time that real-time threads may use in each period: `sched_rt_runtime_us`, where -1
    /// means no limit.
    pub rt_runtime_us: Fact<i64>,
    /// The period of the limit on real-time threads: `sched_rt_period_us`.
    pub rt_period_us: Fact<i64>,
    /// Name of the enabled sched_ext scheduler, which usually contains its version, or `none`.
    #[serde(default = "sched_ext_not_recorded")]
    pub sched_ext: Fact<String>,
    /// A hash of 16 hexadecimal digits over all options of the configuration.
    #[serde(default = "not_recorded")]
    pub configuration: Fact<String>,
    /// The options that affect latency, without `CONFIG_`. An option that is absent is not set.
    /// Empty if the configuration is unknown.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

/// Reason why recordings of earlier versions lack a fact.
fn not_recorded() -> Fact<String> {
    Fact::unknown("kernel configuration", "recorded by an earlier version")
}

fn sched_ext_not_recorded() -> Fact<String> {
    Fact::unknown("sched_ext scheduler", "recorded by an earlier version")
}

/// The processor as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessorFacts {
    /// Its model name.
    pub model: Fact<String>,
    /// Its vendor.
    pub vendor: Fact<String>,
    /// Its microcode revision.
    pub microcode: Fact<String>,
    /// CPUs that are online.
    pub online: Fact<CpuSet>,
    /// CPUs that are present.
    pub present: Fact<CpuSet>,
    /// CPUs to which the scheduler moves no threads: `isolcpus=`, or an isolated cpuset partition.
    pub isolated: Fact<CpuSet>,
    /// `nohz_full`.
    pub nohz_full: Fact<CpuSet>,
    /// State of SMT: on, off, forceoff, notsupported or notimplemented.
    pub smt: Fact<String>,
    /// The driver of idle states (`none` if the kernel has none).
    pub idle_driver: Fact<String>,
    /// NUMA nodes that are online.
    pub numa_nodes: Fact<CpuSet>,
}

/// One CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuFacts {
    /// Its number.
    pub cpu: u32,
    /// The package (socket) of the CPU.
    pub package: Fact<u32>,
    /// The core within the package.
    pub core: Fact<u32>,
    /// CPUs that share its core, including itself.
    pub siblings: Fact<CpuSet>,
    /// CPUs that share its last-level cache, including itself.
    pub shares_cache_with: Fact<CpuSet>,
    /// Its frequency governor.
    pub governor: Fact<String>,
    /// Lower end of the configured frequency range, in kHz.
    pub frequency_min_khz: Fact<u64>,
    /// Upper end of the configured frequency range, in kHz.
    pub frequency_max_khz: Fact<u64>,
    /// Its idle states.
    pub idle_states: Fact<Vec<IdleState>>,
}

/// One idle state of a CPU (`cpuidle/stateN`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleState {
    /// Its name.
    pub name: String,
    /// Its worst-case exit latency, as reported by its driver.
    pub exit_latency_ns: Nanos,
    /// Whether it is disabled.
    pub disabled: bool,
}

/// The clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockFacts {
    /// The clock source in use.
    pub source: Fact<String>,
    /// The available clock sources.
    pub available: Fact<Vec<String>>,
}

/// Memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryFacts {
    /// Total size in bytes.
    pub total_bytes: Fact<u64>,
    /// Size of the swap space, in bytes.
    pub swap_bytes: Fact<u64>,
    /// Mode of transparent huge pages: always, madvise or never.
    pub transparent_huge_pages: Fact<String>,
}

/// Virtualisation and firmware.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VirtualisationFacts {
    /// Whether the machine is virtual.
    pub virtual_machine: Fact<bool>,
    /// The hypervisor, as it identifies itself.
    pub hypervisor: Fact<String>,
    /// Vendor and model of the machine, from its firmware.
    pub machine: Fact<String>,
    /// The firmware's version.
    pub firmware: Fact<String>,
}

impl HostFacts {
    /// Creates the facts of an unknown machine, with this `reason` and `source`. The caller then
    /// adds the known facts.
    pub fn unknown(source: &str, reason: &str) -> Self {
        fn fact<T>((source, reason): (&str, &str)) -> Fact<T> {
            Fact::unknown(source, reason)
        }
        let from = (source, reason);
        Self {
            fingerprint: String::new(),
            hostname: fact(from),
            distribution: DistributionFacts {
                name: fact(from),
                id: fact(from),
                version: fact(from),
            },
            kernel: KernelFacts {
                release: fact(from),
                version: fact(from),
                architecture: fact(from),
                preempt_rt: fact(from),
                preempt_model: fact(from),
                command_line: fact(from),
                hz: fact(from),
                high_resolution_timers: fact(from),
                lockdown: fact(from),
                rt_runtime_us: fact(from),
                rt_period_us: fact(from),
                sched_ext: fact(from),
                configuration: fact(from),
                options: BTreeMap::new(),
            },
            processor: ProcessorFacts {
                model: fact(from),
                vendor: fact(from),
                microcode: fact(from),
                online: fact(from),
                present: fact(from),
                isolated: fact(from),
                nohz_full: fact(from),
                smt: fact(from),
                idle_driver: fact(from),
                numa_nodes: fact(from),
            },
            cpus: Vec::new(),
            clock: ClockFacts {
                source: fact(from),
                available: fact(from),
            },
            memory: MemoryFacts {
                total_bytes: fact(from),
                swap_bytes: fact(from),
                transparent_huge_pages: fact(from),
            },
            virtualisation: VirtualisationFacts {
                virtual_machine: fact(from),
                hypervisor: fact(from),
                machine: fact(from),
                firmware: fact(from),
            },
        }
    }
}
