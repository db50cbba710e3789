//! Power management of the machine during the measurement.

use serde::{Deserialize, Serialize};

use crate::Nanos;

/// Idle states, frequencies, temperatures and energy. Each entry contains either the difference
/// between the start and the end of the run, or both values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Power {
    /// Each idle state of each CPU.
    pub idle: Vec<IdleUse>,
    /// Each CPU whose frequency can be read.
    pub frequency: Vec<FrequencyUse>,
    /// Each sensor.
    pub temperature: Vec<TemperatureUse>,
    /// Each energy domain.
    pub energy: Vec<EnergyUse>,
    /// Residency counters of the hardware (cstate PMUs of perf).
    pub residency: Vec<ResidencyUse>,
    /// Facts that could not be read, with the reason.
    pub unknown: Vec<String>,
}

/// Use of an idle state by a CPU (`/sys/devices/system/cpu/cpu*/cpuidle/state*`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleUse {
    /// The CPU.
    pub cpu: u32,
    /// Number of the state. The highest is the deepest.
    pub state: u32,
    /// Its name: `C6`.
    pub name: String,
    /// Number of entries.
    pub entered: u64,
    /// Time in the state.
    pub time_ns: Nanos,
    /// Number of entries that should have used a shallower state. Null if not counted.
    pub above: Option<u64>,
    /// Number of entries that should have used a deeper state. Null if not counted.
    pub below: Option<u64>,
}

/// The frequency of a CPU (`scaling_cur_freq`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrequencyUse {
    /// The CPU.
    pub cpu: u32,
    /// At the start, in kHz.
    pub start_khz: u64,
    /// At the end, in kHz.
    pub end_khz: u64,
}

/// The temperature at a sensor (thermal zones, hwmon), in 0.001 degrees Celsius.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemperatureUse {
    /// The sensor.
    pub sensor: String,
    /// At the start.
    pub start_milli_celsius: i64,
    /// At the end.
    pub end_milli_celsius: i64,
}

/// The energy used in a domain (powercap, hwmon, power PMU of perf).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnergyUse {
    /// The domain: `package-0`, `power/energy-pkg`.
    pub domain: String,
    /// Energy, in microjoules.
    pub micro_joules: u64,
}

/// Time in an idle state, counted by the hardware.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResidencyUse {
    /// Name of the counter: `cstate_core/c6-residency`.
    pub event: String,
    /// The CPU on which the counter was read.
    pub cpu: u32,
    /// Residency, in ticks of the time stamp counter.
    pub ticks: u64,
}
