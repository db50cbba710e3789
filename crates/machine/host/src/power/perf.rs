//! Hardware counters that are only available through perf_event_open(2): the PMUs `msr`, `power`,
//! `cstate_core` and `cstate_pkg` (kernel: arch/x86/events).

use std::collections::BTreeMap;

use counter::{Counter, open};
use punctual_model::{CpuSet, EnergyUse, Power, ResidencyUse};

use crate::root::Root;

const DEVICES: &str = "/sys/bus/event_source/devices";

/// Counters opened at the start of a run.
#[derive(Default)]
pub(super) struct Perf {
    smis: Vec<(u32, Counter)>,
    energy: Vec<Joules>,
    residency: Vec<(String, u32, Counter)>,
    unknown: Vec<String>,
    counted: Option<BTreeMap<u32, u64>>,
}

/// An energy counter.
struct Joules {
    domain: String,
    /// Joules per step.
    scale: f64,
    counter: Counter,
}

impl Perf {
    /// Opens the counters that exist. Opens energy counters only if `energy` is set.
    pub(super) fn open(root: &Root, cpus: &CpuSet, energy: bool) -> Self {
        let mut perf = Self::default();
        let events = |pmu: &str| {
            root.names(&format!("{DEVICES}/{pmu}/events"))
                .unwrap_or_default()
        };
        if events("msr").iter().any(|event| event == "smi") {
            for cpu in cpus.iter() {
                if let Some(counter) = perf.counter("msr", "smi", cpu) {
                    perf.smis.push((cpu, counter));
                }
            }
        }
        let names = events("power");
        let plain = names.iter().filter(|name| !name.contains('.'));
        for event in plain.filter(|_| energy) {
            let text = root.text(&format!("{DEVICES}/power/events/{event}.scale"));
            let scale = text.ok().and_then(|text| text.trim().parse::<f64>().ok());
            for cpu in masked(root, "power").iter() {
                if let (Some(scale), Some(counter)) = (scale, perf.counter("power", event, cpu)) {
                    perf.energy.push(Joules {
                        domain: format!("power/{event} (CPU {cpu})"),
                        scale,
                        counter,
                    });
                }
            }
        }
        for pmu in ["cstate_core", "cstate_pkg"] {
            for event in events(pmu) {
                for cpu in masked(root, pmu).iter() {
                    if let Some(counter) = perf.counter(pmu, &event, cpu) {
                        perf.residency
                            .push((format!("{pmu}/{event}"), cpu, counter));
                    }
                }
            }
        }
        perf
    }

    fn counter(&mut self, pmu: &str, event: &str, cpu: u32) -> Option<Counter> {
        match open(pmu, event, cpu) {
            Ok(counter) => Some(counter),
            Err(error) => {
                let line = format!("{pmu}/{event}: perf_event_open: {error}");
                if !self.unknown.contains(&line) {
                    self.unknown.push(line);
                }
                None
            }
        }
    }

    /// Reads all counters.
    pub(super) fn finish(&mut self, power: &mut Power) {
        let mut smis = BTreeMap::new();
        for (cpu, counter) in &mut self.smis {
            if let Ok(count) = counter.read() {
                smis.insert(*cpu, count);
            }
        }
        self.counted = (!smis.is_empty()).then_some(smis);
        for joules in &mut self.energy {
            match joules.counter.read() {
                // An emulated machine may have energy counters that do not advance.
                Ok(0) => power
                    .unknown
                    .push(format!("{}: it does not count", joules.domain)),
                Ok(steps) => power.energy.push(EnergyUse {
                    domain: joules.domain.clone(),
                    micro_joules: (steps as f64 * joules.scale * 1e6) as u64,
                }),
                Err(error) => power.unknown.push(format!("{}: {error}", joules.domain)),
            }
        }
        for (event, cpu, counter) in &mut self.residency {
            match counter.read() {
                Ok(ticks) => power.residency.push(ResidencyUse {
                    event: event.clone(),
                    cpu: *cpu,
                    ticks,
                }),
                Err(error) => power.unknown.push(format!("{event}: {error}")),
            }
        }
        power.unknown.append(&mut self.unknown);
    }

    /// Returns the number of system management interrupts by CPU. The number is known only after
    /// `finish`.
    pub(super) fn smis(&self) -> Option<&BTreeMap<u32, u64>> {
        self.counted.as_ref()
    }
}

/// Returns the CPUs on which the counters of a PMU must be read: one per package or core.
fn masked(root: &Root, pmu: &str) -> CpuSet {
    let mask = root.text(&format!("{DEVICES}/{pmu}/cpumask"));
    mask.ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or_default()
}

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
mod counter {
    use std::io;

    use perf_event::Builder;
    pub(super) use perf_event::Counter;
    use perf_event::events::Dynamic;

    pub(super) fn open(pmu: &str, event: &str, cpu: u32) -> io::Result<Counter> {
        let built = Dynamic::builder(pmu)?
            .event(event)
            .map_err(io::Error::other)?
            .build()
            .map_err(io::Error::other)?;
        // These PMUs cannot exclude the kernel or the hypervisor.
        let mut builder = Builder::new(built);
        builder
            .any_pid()
            .one_cpu(cpu as usize)
            .include_kernel()
            .include_hv()
            .enabled(true);
        builder.build()
    }
}

/// Other architectures do not have these PMUs.
#[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
mod counter {
    use std::io;

    pub(super) enum Counter {}

    impl Counter {
        pub(super) fn read(&mut self) -> io::Result<u64> {
            match *self {}
        }
    }

    pub(super) fn open(_pmu: &str, _event: &str, _cpu: u32) -> io::Result<Counter> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
