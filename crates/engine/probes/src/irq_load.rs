//! `irq-load`: interrupts of each CPU per second.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use punctual_host::Host;
use punctual_model::{Cell, Chart, CpuInterference, CpuSet, Interference, Nanos, Table};
use punctual_rt::{Clock, Instant, Nanosleep, PeriodicWait, Wake};

use crate::entry::Measure;
use crate::entry::Probe;
use crate::{Control, Measured, Plan, ProbeEntry, ProbeError, Ready, Recorder, Resources};

/// The entry of this probe.
pub(crate) const ENTRY: ProbeEntry = ProbeEntry {
    name: "irq-load",
    summary: "interrupts of each CPU per second (not a latency)",
    unit: "interrupts per second",
    documentation: include_str!("irq_load.md").trim_ascii_end(),
    privileges: "none; root to count SMIs",
    replaces: "mpstat -I, watching /proc/interrupts",
    chart: Chart::Bars,
    explained: Err("The probe counts interrupts but measures no latencies, so it has no outliers."),
    parameters: &[],
    prepare: |_, plan, resources| IrqLoad.prepare(plan, resources),
};

const CLOCK: Clock = Clock::Monotonic;

/// The length of one sleep. It is short, so that a stop takes effect soon even if its signal
/// arrived just before the sleep.
const NAP: Duration = Duration::from_millis(100);

struct IrqLoad;

/// A probe that is ready to start.
struct Run {
    cpus: CpuSet,
    duration: Option<Nanos>,
    warm_up: Nanos,
}

impl Probe for IrqLoad {
    fn prepare(self, plan: &Plan, _: &dyn Resources) -> Result<Ready, ProbeError> {
        // No warm-up is needed, because the effects of the start end immediately.
        let warm_up = plan.warm_up.unwrap_or(Nanos::ZERO);
        let run = Run {
            cpus: plan.cpus.clone(),
            duration: plan.duration,
            warm_up,
        };
        Ok(Ready {
            warm_up,
            ..plan.ready([], run)
        })
    }
}

impl Measure for Run {
    fn measure(self, _: Vec<Recorder>, control: &Arc<Control>) -> Result<Measured, ProbeError> {
        let _entered = control.enter();
        let host = Host::live();
        let first = CLOCK.now();
        sleep_until(first + self.warm_up.into(), control)?;
        let from = CLOCK.now();
        let before = host.counters();
        let end = self
            .duration
            .map_or(Instant::from_nanos(u64::MAX), |duration| {
                first + duration.into()
            });
        sleep_until(end, control)?;
        let after = host.counters();
        let elapsed: Nanos = CLOCK.now().saturating_duration_since(from).into();
        let interference = after.since(&before, &self.cpus, elapsed);
        Ok(Measured {
            workers: Vec::new(),
            tables: vec![rates(&interference, &self.cpus)],
            // Other values that are unknown are shown as such in the table.
            warnings: (interference.unknown.iter())
                .filter(|reason| reason.starts_with("interrupts"))
                .cloned()
                .collect(),
        })
    }
}

/// Sleeps until this time or until the run is stopped.
fn sleep_until(end: Instant, control: &Control) -> Result<(), punctual_rt::Error> {
    let mut sleep = Nanosleep::new(CLOCK)?;
    loop {
        let now = CLOCK.now();
        if now >= end || control.stopping() {
            return Ok(());
        }
        match sleep.wait_until((now + NAP).min(end))? {
            Wake::Due | Wake::Interrupted => {}
        }
    }
}

/// Returns the kernel's counts as rates, with a row for each interrupt and a column for each CPU.
fn rates(interference: &Interference, cpus: &CpuSet) -> Table {
    let seconds = interference.duration_ns.as_secs_f64();
    let rate = |count: u64| {
        if seconds > 0.0 {
            Cell::Number(count as f64 / seconds)
        } else {
            Cell::Unknown
        }
    };
    let measured: Vec<&CpuInterference> = interference
        .cpus
        .iter()
        .filter(|cpu| cpus.contains(cpu.cpu))
        .collect();
    let named: Vec<(String, String)> = (measured.iter())
        .map(|cpu| {
            (
                format!("cpu{}_per_s", cpu.cpu),
                format!("CPU {} /s", cpu.cpu),
            )
        })
        .collect();
    let mut columns = vec![("interrupt", "interrupt"), ("name", "name")];
    columns.extend(
        named
            .iter()
            .map(|(key, title)| (key.as_str(), title.as_str())),
    );
    let mut table = Table::new("interrupts", "Interrupts per second", &columns);

    for ((_, id), name) in kinds(&measured) {
        let counts = measured.iter().map(|cpu| {
            let delta = cpu.interrupts.iter().find(|delta| delta.id == id);
            rate(delta.map_or(0, |delta| delta.count))
        });
        table.push(
            [Cell::from(id.as_str()), name.into()]
                .into_iter()
                .chain(counts),
        );
    }
    let mut sum = |name: &str, of: &dyn Fn(&CpuInterference) -> Option<u64>| {
        let cells = measured
            .iter()
            .map(|cpu| of(cpu).map_or(Cell::Unknown, &rate));
        table.push([Cell::from("all"), name.into()].into_iter().chain(cells));
    };
    sum("interrupts", &|cpu| Some(cpu.interrupts_total()));
    sum("softirqs", &|cpu| Some(cpu.softirqs_total()));
    sum("steal, microseconds", &|cpu| {
        Some(cpu.steal_ns?.whole_micros())
    });
    sum("SMIs", &|cpu| cpu.smis);
    table
}

/// Sort key in which numbers are sorted by value and come before names.
type LineKey = (u64, String);

/// Returns the interrupts that occurred on any of the CPUs, in the kernel's order if possible:
/// numbers first.
fn kinds(cpus: &[&CpuInterference]) -> BTreeMap<LineKey, String> {
    cpus.iter()
        .flat_map(|cpu| &cpu.interrupts)
        .map(|delta| {
            let number = delta.id.parse().unwrap_or(u64::MAX);
            ((number, delta.id.clone()), delta.name.clone())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use punctual_model::CounterDelta;
    use std::sync::Arc;

    fn delta(id: &str, count: u64) -> CounterDelta {
        CounterDelta {
            id: id.to_owned(),
            name: format!("name of {id}"),
            count,
        }
    }

    fn cpu(cpu: u32, interrupts: Vec<CounterDelta>) -> CpuInterference {
        CpuInterference {
            cpu,
            interrupts,
            softirqs: vec![delta("TIMER", 30)],
            steal_ns: Some(Nanos::from_micros(70)),
            ..CpuInterference::default()
        }
    }

    #[test]
    fn counts_become_rates_of_each_cpu() {
        let interference = Interference {
            duration_ns: Nanos::from_secs(2),
            cpus: vec![
                cpu(0, vec![delta("24", 3), delta("LOC", 1_000)]),
                cpu(1, vec![delta("9", 1)]),
                cpu(2, vec![delta("LOC", 500), delta("CAL", 2)]),
            ],
            ..Interference::default()
        };
        let table = rates(&interference, &[0, 2].into_iter().collect());
        let ids: Vec<&Cell> = table.rows.iter().map(|row| &row[0]).collect();
        let text = |text: &str| Cell::Text(text.to_owned());
        assert_eq!(ids[..3], [&text("24"), &text("CAL"), &text("LOC")]);
        assert_eq!(table.rows[0][2..], [Cell::Number(1.5), Cell::Number(0.0)]);
        assert_eq!(
            table.rows[2][2..],
            [Cell::Number(500.0), Cell::Number(250.0)]
        );
        assert_eq!(
            table.rows[3][1..],
            [text("interrupts"), Cell::Number(501.5), Cell::Number(251.0)]
        );
        assert_eq!(table.rows[4][2], Cell::Number(15.0));
        assert_eq!(table.rows[5][2], Cell::Number(35.0));
        // SMI counts were not available, which differs from a count of zero.
        assert_eq!(table.rows[6][2], Cell::Unknown);
        assert_eq!(table.columns[3].key, "cpu2_per_s");
    }

    #[test]
    fn no_time_gives_no_rate() {
        let interference = Interference {
            cpus: vec![cpu(0, vec![delta("24", 3)])],
            ..Interference::default()
        };
        let table = rates(&interference, &[0].into_iter().collect());
        assert_eq!(table.rows[0][2], Cell::Unknown);
    }

    fn measure(duration: Nanos, control: &Arc<Control>) -> Measured {
        let plan = Plan {
            warm_up: Some(Nanos::from_millis(10)),
            ..testing::plan(testing::OTHER, duration)
        };
        let (workers, measured) = testing::measure(IrqLoad, &plan, control);
        assert!(workers.is_empty());
        measured
    }

    #[test]
    fn this_machine_has_a_table() {
        let measured = measure(Nanos::from_millis(150), &Arc::new(Control::new()));
        let table = &measured.tables[0];
        assert!(table.columns.len() > 2);
        assert!(table.rows.len() >= 4);
    }

    #[test]
    fn a_stop_ends_it() {
        let control = Arc::new(Control::new());
        control.stop();
        measure(Nanos::from_secs(7_200), &control);
    }
}
