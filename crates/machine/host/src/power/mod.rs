//! Power and energy of the machine, read at the start and at the end of a run.

mod energy;
mod perf;
mod points;

use std::collections::BTreeMap;

use punctual_model::{CpuSet, FrequencyUse, IdleUse, Interference, Nanos, Power, TemperatureUse};

use crate::root::{Root, number};
use crate::thermal;
use energy::Energy;
use perf::Perf;
use points::Points;

const CPUS: &str = "/sys/devices/system/cpu";
const HWMON: &str = "/sys/class/hwmon";

/// Values read at the start of a run, and hardware counters that count during the run.
pub struct PowerWatch {
    root: Root,
    cpus: CpuSet,
    start: Reading,
    perf: Perf,
    points: Points,
}

/// Values at one point in time.
#[derive(Debug, Default)]
struct Reading {
    idle: BTreeMap<(u32, u32), Idle>,
    khz: BTreeMap<u32, u64>,
    milli_celsius: BTreeMap<String, i64>,
    energy: Vec<Energy>,
    unknown: Vec<String>,
}

/// Counters of an idle state.
#[derive(Debug)]
struct Idle {
    name: String,
    entered: u64,
    micros: u64,
    above: Option<u64>,
    below: Option<u64>,
}

impl PowerWatch {
    pub(crate) fn begin(root: &Root, cpus: CpuSet) -> Self {
        let start = Reading::read(root, &cpus);
        // The counters of perf exist only on the running machine, not in a recorded tree.
        let perf = if root.is_live() {
            Perf::open(root, &cpus, start.energy.is_empty())
        } else {
            Perf::default()
        };
        Self {
            root: root.clone(),
            cpus,
            start,
            perf,
            points: Points::default(),
        }
    }

    /// Reads the temperature, and the frequency of `cpus`, if a reading is due at this time since the
    /// start. Readings are at least a second apart.
    pub fn poll(&mut self, elapsed: Nanos, cpus: &CpuSet) {
        if self.points.is_due(elapsed) {
            let now = Reading::of_drift(&self.root, cpus);
            self.points.add(elapsed, &now.khz, &now.milli_celsius);
        }
    }

    /// Returns the differences since the start. If the processor's register could not be read, the
    /// counts of system management interrupts are taken from perf.
    pub fn finish(&mut self, interference: &mut Interference) {
        let end = Reading::read(&self.root, &self.cpus);
        let mut power = end.since(&self.start);
        power.points = self.points.take();
        self.perf.finish(&mut power);
        if let Some(smis) = self.perf.smis() {
            for cpu in &mut interference.cpus {
                cpu.smis = cpu.smis.or_else(|| smis.get(&cpu.cpu).copied());
            }
            if interference.cpus.iter().all(|cpu| cpu.smis.is_some()) {
                interference
                    .unknown
                    .retain(|line| !line.starts_with("SMI count"));
            }
        }
        if power.energy.is_empty() {
            power
                .unknown
                .push("energy: not counted by powercap, hwmon or perf".to_owned());
        }
        interference.power = Some(power);
    }
}

impl Reading {
    fn read(root: &Root, cpus: &CpuSet) -> Self {
        let mut reading = Self::default();
        for cpu in cpus.iter() {
            reading.cpu(root, cpu);
        }
        reading.temperatures(root);
        reading.energy = energy::read(root);
        let lacking = [
            (reading.idle.is_empty(), "idle states", "cpu*/cpuidle"),
            (
                reading.khz.is_empty(),
                "frequency",
                "cpu*/cpufreq/scaling_cur_freq",
            ),
        ];
        for (_, what, file) in lacking.into_iter().filter(|(lacks, _, _)| *lacks) {
            let line = format!("{what}: no {CPUS}/{file}");
            reading.unknown.push(line);
        }
        if reading.milli_celsius.is_empty() {
            let line = format!("temperature: no sensor in /sys/class/thermal or {HWMON}");
            reading.unknown.push(line);
        }
        reading
    }

    /// Reads only the temperature, and the frequency of `cpus`.
    fn of_drift(root: &Root, cpus: &CpuSet) -> Self {
        let mut reading = Self::default();
        cpus.iter().for_each(|cpu| reading.frequency(root, cpu));
        reading.temperatures(root);
        reading
    }

    fn temperatures(&mut self, root: &Root) {
        let zones = thermal::zones(root).into_iter();
        self.milli_celsius = zones.map(|zone| (zone.name, zone.milli_celsius)).collect();
        self.sensors(root);
    }

    fn frequency(&mut self, root: &Root, cpu: u32) {
        let file = format!("{CPUS}/cpu{cpu}/cpufreq/scaling_cur_freq");
        let text = root.text(&file).ok();
        if let Some(khz) = text.and_then(|text| number(&text).ok()) {
            self.khz.insert(cpu, khz);
        }
    }

    fn cpu(&mut self, root: &Root, cpu: u32) {
        self.frequency(root, cpu);
        let folder = format!("{CPUS}/cpu{cpu}");
        let read = |file: &str| -> Option<u64> {
            root.text(&format!("{folder}/{file}"))
                .ok()
                .and_then(|text| number(&text).ok())
        };
        let states = root.numbered(&format!("{folder}/cpuidle"), "state");
        for state in states.unwrap_or_default() {
            let of = |file: &str| read(&format!("cpuidle/state{state}/{file}"));
            let name = root.text(&format!("{folder}/cpuidle/state{state}/name"));
            if let (Some(entered), Some(micros)) = (of("usage"), of("time")) {
                let idle = Idle {
                    name: name.unwrap_or_default().trim().to_owned(),
                    entered,
                    micros,
                    above: of("above"),
                    below: of("below"),
                };
                self.idle.insert((cpu, state), idle);
            }
        }
    }

    /// Reads the temperatures of hwmon (kernel: Documentation/hwmon/sysfs-interface.rst).
    fn sensors(&mut self, root: &Root) {
        for chip in root.numbered(HWMON, "hwmon").unwrap_or_default() {
            let folder = format!("{HWMON}/hwmon{chip}");
            let chip = root.text(&format!("{folder}/name")).unwrap_or_default();
            let names = root.names(&folder).unwrap_or_default();
            let inputs = names.iter().filter_map(|name| {
                name.strip_suffix("_input")
                    .filter(|name| name.starts_with("temp"))
            });
            for input in inputs {
                let label = root.text(&format!("{folder}/{input}_label"));
                let label = label.unwrap_or_else(|_| input.to_owned());
                let value = root.text(&format!("{folder}/{input}_input"));
                if let Some(value) = value.ok().and_then(|text| number(&text).ok()) {
                    let sensor = format!("{} {}", chip.trim(), label.trim());
                    self.milli_celsius.insert(sensor, value);
                }
            }
        }
    }

    /// Returns the differences of the values that both readings contain.
    fn since(self, start: &Self) -> Power {
        let idle = self.idle.into_iter().filter_map(|((cpu, state), end)| {
            let start = start.idle.get(&(cpu, state))?;
            let moved = |end: Option<u64>, start: Option<u64>| Some(end?.saturating_sub(start?));
            Some(IdleUse {
                cpu,
                state,
                name: end.name,
                entered: end.entered.saturating_sub(start.entered),
                time_ns: Nanos(
                    end.micros
                        .saturating_sub(start.micros)
                        .saturating_mul(1_000),
                ),
                above: moved(end.above, start.above),
                below: moved(end.below, start.below),
            })
        });
        let frequency = self.khz.into_iter().filter_map(|(cpu, end_khz)| {
            Some(FrequencyUse {
                cpu,
                start_khz: *start.khz.get(&cpu)?,
                end_khz,
            })
        });
        let temperature = self.milli_celsius.into_iter().filter_map(|(sensor, end)| {
            Some(TemperatureUse {
                start_milli_celsius: *start.milli_celsius.get(&sensor)?,
                end_milli_celsius: end,
                sensor,
            })
        });
        Power {
            idle: idle.collect(),
            frequency: frequency.collect(),
            temperature: temperature.collect(),
            energy: energy::since(&self.energy, &start.energy),
            residency: Vec::new(),
            points: Vec::new(),
            unknown: self.unknown,
        }
    }
}

#[cfg(test)]
mod tests;
