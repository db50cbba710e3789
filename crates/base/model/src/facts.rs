//! What is known about a machine, each fact with where it was read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;
use crate::{CpuSet, Nanos};

/// One fact: its value and its source, or why it is not known.
///
/// In JSON `{"value": …, "source": "…"}` or `{"source": "…", "unknown": "…"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FactOf_{T}")]
pub struct Fact<T> {
    /// The value; absent where it is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub value: Option<T>,
    /// The file or instruction it was read from, without the root path.
    pub source: String,
    /// Why there is no value: the file is absent, permission, lockdown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unknown: Option<String>,
}

impl<T> Fact<T> {
    /// A fact that was read.
    pub fn known(value: T, source: impl Into<String>) -> Self {
        Self {
            value: Some(value),
            source: source.into(),
            unknown: None,
        }
    }

    /// A fact that could not be read, and why.
    pub fn unknown(source: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            value: None,
            source: source.into(),
            unknown: Some(reason.into()),
        }
    }

    /// The value, where there is one.
    pub fn get(&self) -> Option<&T> {
        self.value.as_ref()
    }

    /// The same fact with its value turned into something else.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Fact<U> {
        Fact {
            value: self.value.map(f),
            source: self.source,
            unknown: self.unknown,
        }
    }
}

/// A machine at one moment, as far as it can be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostFacts {
    /// Sixteen hexadecimal digits over the facts that describe the machine and
    /// its settings (hardware, kernel, boot line, governor, clock source,
    /// isolation), not over what changes by itself. Equal fingerprints:
    /// recordings can be compared as of one configuration. Empty where not
    /// enough is known of the machine; then it equals no other.
    pub fingerprint: String,
    /// The name of the machine.
    pub hostname: Fact<String>,
    /// The distribution.
    pub distribution: DistributionFacts,
    /// The kernel and how it was built and booted.
    pub kernel: KernelFacts,
    /// The processor as a whole.
    pub processor: ProcessorFacts,
    /// Each CPU, rising.
    pub cpus: Vec<CpuFacts>,
    /// The clock.
    pub clock: ClockFacts,
    /// Memory.
    pub memory: MemoryFacts,
    /// What the machine runs on.
    pub virtualisation: VirtualisationFacts,
}

/// The distribution, from os-release(5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DistributionFacts {
    /// `PRETTY_NAME`.
    pub name: Fact<String>,
    /// `ID`.
    pub id: Fact<String>,
    /// `VERSION_ID`.
    pub version: Fact<String>,
}

/// The kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelFacts {
    /// `uname -r`.
    pub release: Fact<String>,
    /// `uname -v`.
    pub version: Fact<String>,
    /// `uname -m`.
    pub architecture: Fact<String>,
    /// Whether it is a PREEMPT_RT kernel.
    pub preempt_rt: Fact<bool>,
    /// none, voluntary, full, lazy or rt: the model in force.
    pub preempt_model: Fact<String>,
    /// The kernel command line.
    pub command_line: Fact<String>,
    /// Timer ticks per second (`CONFIG_HZ`).
    pub hz: Fact<u32>,
    /// Whether high-resolution timers are active.
    pub high_resolution_timers: Fact<bool>,
    /// none, integrity or confidentiality: kernel_lockdown(7).
    pub lockdown: Fact<String>,
    /// Share of time that real-time threads may take, per period:
    /// `sched_rt_runtime_us`, -1 for all of it.
    pub rt_runtime_us: Fact<i64>,
    /// The period to that share.
    pub rt_period_us: Fact<i64>,
    /// Sixteen hexadecimal digits over all options that the configuration sets: equal
    /// for equal configurations.
    #[serde(default = "not_recorded")]
    pub configuration: Fact<String>,
    /// Of these options those that matter for latency, without `CONFIG_`; one that is
    /// absent is not set. Empty where the configuration is not known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

/// What recordings of earlier versions lack.
fn not_recorded() -> Fact<String> {
    Fact::unknown("kernel configuration", "recorded by an earlier version")
}

/// The processor as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessorFacts {
    /// The name the processor gives itself.
    pub model: Fact<String>,
    /// Who makes it.
    pub vendor: Fact<String>,
    /// The revision of its microcode.
    pub microcode: Fact<String>,
    /// CPUs that are online.
    pub online: Fact<CpuSet>,
    /// CPUs that are there.
    pub present: Fact<CpuSet>,
    /// `isolcpus`.
    pub isolated: Fact<CpuSet>,
    /// `nohz_full`.
    pub nohz_full: Fact<CpuSet>,
    /// on, off, forceoff, notsupported or notimplemented.
    pub smt: Fact<String>,
    /// The driver of idle states (`none` where the kernel idles without one).
    pub idle_driver: Fact<String>,
    /// NUMA nodes that are online.
    pub numa_nodes: Fact<CpuSet>,
}

/// One CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuFacts {
    /// Its number.
    pub cpu: u32,
    /// The package (socket) it belongs to.
    pub package: Fact<u32>,
    /// The core within the package.
    pub core: Fact<u32>,
    /// CPUs that share its core, itself included.
    pub siblings: Fact<CpuSet>,
    /// CPUs that share its last-level cache, itself included.
    pub shares_cache_with: Fact<CpuSet>,
    /// Its frequency governor.
    pub governor: Fact<String>,
    /// Lower end of the frequency range that is set, kHz.
    pub frequency_min_khz: Fact<u64>,
    /// Upper end of the frequency range that is set, kHz.
    pub frequency_max_khz: Fact<u64>,
    /// Its idle states.
    pub idle_states: Fact<Vec<IdleState>>,
}

/// One idle state of a CPU (`cpuidle/stateN`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IdleState {
    /// Its name.
    pub name: String,
    /// How long leaving it takes at worst, as its driver says.
    pub exit_latency_ns: Nanos,
    /// Whether it is switched off.
    pub disabled: bool,
}

/// The clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClockFacts {
    /// The clock source in use.
    pub source: Fact<String>,
    /// Those that could be used.
    pub available: Fact<Vec<String>>,
}

/// Memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryFacts {
    /// All of it, bytes.
    pub total_bytes: Fact<u64>,
    /// Swap, bytes.
    pub swap_bytes: Fact<u64>,
    /// always, madvise or never.
    pub transparent_huge_pages: Fact<String>,
}

/// What the machine runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VirtualisationFacts {
    /// Whether a hypervisor is underneath.
    pub virtual_machine: Fact<bool>,
    /// Which one, as it names itself.
    pub hypervisor: Fact<String>,
    /// Maker and model of the machine, as its firmware says.
    pub machine: Fact<String>,
    /// The firmware's version.
    pub firmware: Fact<String>,
}

impl HostFacts {
    /// A machine of which nothing is known, for `reason`, by what `source`
    /// says. Whoever knows more fills it in.
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
