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
    /// Temperature and frequency during the run, at most 64 readings at equal intervals. Absent if
    /// they cannot be read, and in recordings of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<PowerPoint>,
    /// Facts that could not be read, with the reason.
    pub unknown: Vec<String>,
}

impl Power {
    /// Returns the mean power of the machine in mW, from the most complete source: the whole
    /// platform (psys), else the processor packages with their memory. `None` if no counter covers
    /// a whole package.
    pub fn milliwatts(&self, duration: Nanos) -> Option<u64> {
        let sum = |is_part: &dyn Fn(&str) -> bool| {
            let parts = self.energy.iter().filter(|one| is_part(&one.domain));
            let energies: Vec<u64> = parts.map(|one| one.micro_joules).collect();
            (!energies.is_empty()).then(|| energies.iter().sum::<u64>())
        };
        // intel-rapl-mmio repeats these counters.
        let zone = |name: &'static str| {
            move |domain: &str| domain.starts_with(name) && domain.contains("(intel-rapl:")
        };
        let packages = |domain: &str| zone("package")(domain) || zone("dram")(domain);
        let sockets = |domain: &str| domain.starts_with("amd_energy Esocket");
        let perf = |domain: &str| ["power/energy-pkg", "power/energy-ram"].contains(&domain);
        let platform = |domain: &str| zone("psys")(domain) || domain == "power/energy-psys";
        let energy = sum(&platform)
            .or_else(|| sum(&packages))
            .or_else(|| sum(&sockets))
            .or_else(|| sum(&perf))?;
        // Microjoules per millisecond are milliwatts.
        energy.checked_div(duration.0 / 1_000_000)
    }
}

/// Temperature and frequency at one time of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerPoint {
    /// Time since the start of the run.
    pub at_ns: Nanos,
    /// Mean frequency of the measured CPUs, in kHz. Null if unknown.
    pub mean_khz: Option<u64>,
    /// Temperature of the hottest sensor, in 0.001 degrees Celsius. Null if unknown.
    pub max_milli_celsius: Option<i64>,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn power(energy: &[(&str, u64)]) -> Power {
        let energy = energy.iter().map(|(domain, micro_joules)| EnergyUse {
            domain: (*domain).to_owned(),
            micro_joules: *micro_joules,
        });
        Power {
            energy: energy.collect(),
            ..Power::default()
        }
    }

    #[test]
    fn power_counts_each_part_of_the_machine_once() {
        let packages = [
            ("core (intel-rapl:0:0)", 7_000_000),
            ("dram (intel-rapl:0:1)", 1_000_000),
            ("package-0 (intel-rapl:0)", 10_000_000),
            ("package-0 (intel-rapl-mmio:0)", 10_000_000),
            ("package-1 (intel-rapl:1)", 9_000_000),
        ];
        let with_platform = [&packages[..], &[("psys (intel-rapl:2)", 31_000_000)]].concat();
        for (energy, milliwatts) in [
            (&packages[..], Some(10_000)),
            (&with_platform[..], Some(15_500)),
            (
                &[
                    ("amd_energy Ecore000", 1_000_000),
                    ("amd_energy Esocket0", 4_000_000),
                ],
                Some(2_000),
            ),
            (
                &[("power/energy-cores", 1), ("power/energy-pkg", 2_000_000)],
                Some(1_000),
            ),
            (&[("core (intel-rapl:0:0)", 7_000_000)], None),
            (&[], None),
        ] {
            let found = power(energy).milliwatts(Nanos::from_secs(2));
            assert_eq!(found, milliwatts, "{energy:?}");
        }
        assert_eq!(power(&packages).milliwatts(Nanos::ZERO), None);
    }
}
