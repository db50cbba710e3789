//! Differences of counters between two points in time.

use std::collections::{BTreeMap, HashMap};

use punctual_model::{CounterDelta, CpuInterference, CpuSet, Interference, Nanos};

use super::Counters;
use super::stat::Stat;
use super::table::{Row, Table};

/// Length in nanoseconds of a clock tick, the unit of times in /proc/stat. `USER_HZ` is 100 on
/// every architecture that Rust supports well (`include/uapi/asm-generic/param.h`; Alpha is not one
/// of them).
pub(crate) const TICK_NS: u64 = 10_000_000;

/// Value at which an interrupt counter wraps: most have 32 bits (`kstat_irqs`, `irq_cpustat_t`).
const WRAP: u64 = 1 << 32;

impl Counters {
    /// Returns the increase of each counter from `before` to `self`; `duration` is the time between
    /// them. Leaves out counters that did not change, and marks the CPUs of `measured`.
    ///
    /// A counter can also decrease. A 32-bit counter is assumed to have wrapped if the old value
    /// was in the upper half of its range and the new one is in the lower half. Otherwise it was
    /// reset (an interrupt was released and requested again), and the new value is a lower bound of
    /// the increase. Steal time, throttling and context switches have 64 bits. If one of them
    /// decreases, as steal time did on some kernels, the result is zero.
    ///
    /// If a CPU came online or went offline in between, its interrupts are unknown, because the
    /// kernel shows only online CPUs. `unknown` lists such CPUs.
    pub fn since(&self, before: &Self, measured: &CpuSet, duration: Nanos) -> Interference {
        let mut unknown = before.unknown.clone();
        unknown.extend(self.unknown.iter().cloned());
        let interrupts = tables(&self.interrupts, &before.interrupts);
        let softirqs = tables(&self.softirqs, &before.softirqs);
        let cpus: CpuSet = self
            .seen()
            .chain(before.seen())
            .chain(measured.iter())
            .collect();
        let (came, gone) = hotplugged(interrupts);
        for (cpus, what) in [(came, "came online"), (gone, "went offline")] {
            if !cpus.is_empty() {
                let cpus = CpuSet::to_string(&cpus);
                unknown.push(format!(
                    "interrupts of CPU {cpus}, which {what} during the count"
                ));
            }
        }
        unknown.extend(moved_machine_wide(interrupts));
        let mut seen = std::collections::HashSet::new();
        unknown.retain(|line| seen.insert(line.clone()));

        let interrupts = by_id(interrupts);
        let softirqs = by_id(softirqs);
        Interference {
            duration_ns: duration,
            cpus: cpus
                .iter()
                .map(|cpu| CpuInterference {
                    cpu,
                    measured: measured.contains(cpu),
                    interrupts: interrupts
                        .as_ref()
                        .map_or_else(Vec::new, |i| i.for_cpu(cpu)),
                    softirqs: softirqs.as_ref().map_or_else(Vec::new, |s| s.for_cpu(cpu)),
                    steal_ns: steal(&self.stat, &before.stat, cpu),
                    throttled: moved_of(&self.throttled, &before.throttled, cpu)
                        .map(|(new, old)| new.saturating_sub(old)),
                    smis: moved_of(&self.smis, &before.smis, cpu).map(|(new, old)| moved(new, old)),
                })
                .collect(),
            context_switches: context_switches(&self.stat, &before.stat),
            groups: Vec::new(),
            power: None,
            unknown,
        }
    }
}

/// Returns the increase of a 32-bit counter, as described for [`Counters::since`].
fn moved(new: u64, old: u64) -> u64 {
    const HALF: u64 = WRAP / 2;
    if new >= old {
        new - old
    } else if new < HALF && (HALF..WRAP).contains(&old) {
        new + WRAP - old
    } else {
        new
    }
}

type Pair<'a> = Option<(&'a Table, &'a Table)>;

fn tables<'a>(new: &'a Option<Table>, old: &'a Option<Table>) -> Pair<'a> {
    Some((new.as_ref()?, old.as_ref()?))
}

/// Returns the CPUs that came online and those that went offline.
fn hotplugged(tables: Pair) -> (CpuSet, CpuSet) {
    let Some((new, old)) = tables else {
        return Default::default();
    };
    let (new, old): (CpuSet, CpuSet) = (new.cpus().collect(), old.cpus().collect());
    (new.difference(&old), old.difference(&new))
}

/// Two tables, with the rows of the older one indexed by ID.
struct ById<'a> {
    new: &'a Table,
    old: &'a Table,
    old_rows: HashMap<&'a str, &'a Row>,
}

fn by_id(tables: Pair) -> Option<ById> {
    let (new, old) = tables?;
    let old_rows = old.rows().iter().map(|row| (row.id.as_str(), row));
    Some(ById {
        new,
        old,
        old_rows: old_rows.collect(),
    })
}

impl ById<'_> {
    /// Returns the counters of one CPU that changed, or none if only one of the tables has the CPU.
    /// A row that exists only in the newer table is assumed to have started at zero.
    fn for_cpu(&self, cpu: u32) -> Vec<CounterDelta> {
        let (Some(new), Some(old)) = (self.new.column(cpu), self.old.column(cpu)) else {
            return Vec::new();
        };
        self.new
            .rows()
            .iter()
            .filter_map(|row| {
                let before = self.old_rows.get(row.id.as_str());
                let before = before.map_or(0, |row| row.count(old));
                let count = moved(row.count(new), before);
                (count > 0).then(|| CounterDelta {
                    id: row.id.clone(),
                    name: row.name.clone(),
                    count,
                })
            })
            .collect()
    }
}

/// Returns a line for each changed counter of the whole machine. Such counters count errors of the
/// interrupt controller, which belong to no CPU.
fn moved_machine_wide(tables: Pair) -> Vec<String> {
    let Some((new, old)) = tables else {
        return Vec::new();
    };
    let old: BTreeMap<&str, u64> = old
        .machine_wide()
        .iter()
        .map(|(id, count)| (id.as_str(), *count))
        .collect();
    new.machine_wide()
        .iter()
        .filter_map(|(id, count)| {
            let count = moved(*count, *old.get(id.as_str())?);
            (count > 0).then(|| {
                format!(
                    "interrupts: {id} in /proc/interrupts increased by {count}, but is not counted \
                     per CPU"
                )
            })
        })
        .collect()
}

/// Returns the new and the old value of a CPU.
fn moved_of(new: &BTreeMap<u32, u64>, old: &BTreeMap<u32, u64>, cpu: u32) -> Option<(u64, u64)> {
    Some((*new.get(&cpu)?, *old.get(&cpu)?))
}

fn steal(new: &Option<Stat>, old: &Option<Stat>, cpu: u32) -> Option<Nanos> {
    let new = new.as_ref()?.steal_ticks(cpu)?;
    let old = old.as_ref()?.steal_ticks(cpu)?;
    Some(Nanos(new.saturating_sub(old).saturating_mul(TICK_NS)))
}

fn context_switches(new: &Option<Stat>, old: &Option<Stat>) -> Option<u64> {
    let new = new.as_ref()?.context_switches?;
    let old = old.as_ref()?.context_switches?;
    Some(new.saturating_sub(old))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn interrupts(text: &str) -> Counters {
        Counters {
            interrupts: Table::parse(text).ok(),
            ..Counters::default()
        }
    }

    fn since(new: &str, old: &str) -> Interference {
        interrupts(new).since(&interrupts(old), &[0].into_iter().collect(), Nanos(5))
    }

    /// Lists the changed counters as (cpu, id, count).
    fn flat(interference: &Interference) -> Vec<(u32, &str, u64)> {
        let rows = |cpu: &CpuInterference| cpu.cpu;
        interference
            .cpus
            .iter()
            .flat_map(|cpu| {
                cpu.interrupts
                    .iter()
                    .map(move |delta| (rows(cpu), delta.id.as_str(), delta.count))
            })
            .collect()
    }

    #[test]
    fn only_what_moved_is_left() {
        let old = "CPU0 CPU1\nLOC: 10 20 Local\n8: 5 5 rtc\nERR: 1\n";
        let new = "CPU0 CPU1\nLOC: 15 20 Local\n8: 5 6 rtc\n9: 0 3 new\nERR: 3\n";
        let moved = since(new, old);
        assert_eq!(flat(&moved), [(0, "LOC", 5), (1, "8", 1), (1, "9", 3)]);
        assert_eq!(moved.duration_ns, Nanos(5));
        assert!(moved.cpus[0].measured && !moved.cpus[1].measured);
        assert_eq!(
            moved.unknown,
            ["interrupts: ERR in /proc/interrupts increased by 2, but is not counted per CPU"]
        );
    }

    #[test]
    fn counter_wrap_is_distinguished_from_restart() {
        assert_eq!(moved(5, 0xffff_fff0), 21);
        assert_eq!(moved(5, 100), 5);
        assert_eq!(moved(5, 5), 0);
        assert_eq!(moved(5, u64::MAX), 5);
        let old = "CPU0\nLOC: 4294967290 Local\n8: 500 rtc\n";
        assert_eq!(
            flat(&since("CPU0\nLOC: 4 L\n8: 7 r\n", old)),
            [(0, "8", 7), (0, "LOC", 10)]
        );
    }

    #[test]
    fn cpus_that_come_and_go_are_named() {
        let old = "CPU0 CPU1 CPU2\nLOC: 10 20 30 Local\n";
        let new = "CPU0 CPU2 CPU3\nLOC: 11 33 4000 Local\n";
        let moved = since(new, old);
        assert_eq!(flat(&moved), [(0, "LOC", 1), (2, "LOC", 3)]);
        assert_eq!(
            moved.unknown,
            [
                "interrupts of CPU 3, which came online during the count",
                "interrupts of CPU 1, which went offline during the count"
            ]
        );
    }

    #[test]
    fn the_other_counters_never_run_backwards() {
        let at = |steal: u64, ctxt: u64, throttled: u64, smis: u64| Counters {
            stat: Some(Stat::parse(&format!(
                "cpu0 0 0 0 0 0 0 0 {steal}\nctxt {ctxt}\n"
            ))),
            throttled: [(0, throttled)].into(),
            smis: [(0, smis)].into(),
            unknown: vec!["a".to_owned()],
            ..Counters::default()
        };
        let forward = at(3, 40, 2, 1).since(&at(1, 10, 0, 0xffff_ffff), &CpuSet::new(), Nanos(1));
        let cpu = &forward.cpus[0];
        assert_eq!(cpu.steal_ns, Some(Nanos::from_millis(20)));
        assert_eq!((cpu.throttled, cpu.smis), (Some(2), Some(2)));
        assert_eq!(forward.context_switches, Some(30));
        assert_eq!(forward.unknown, ["a"]);
        let back = at(1, 10, 0, 3).since(&at(3, 40, 2, 9), &CpuSet::new(), Nanos(1));
        let cpu = &back.cpus[0];
        assert_eq!((cpu.steal_ns, cpu.throttled), (Some(Nanos(0)), Some(0)));
        assert_eq!((cpu.smis, back.context_switches), (Some(3), Some(0)));
    }

    proptest! {
        /// No delta exceeds the newer value or the range of a 32-bit counter.
        #[test]
        fn deltas_are_never_absurd(new: u64, old: u64) {
            let delta = moved(new, old);
            prop_assert!(delta <= new || delta < WRAP);
        }

        #[test]
        fn wrapping_32_bit_counter_is_followed(
            old in 0u64..WRAP, step in 0u64..WRAP / 2,
        ) {
            let new = (old + step) % WRAP;
            prop_assume!(new >= old || new < WRAP / 2 && old >= WRAP / 2);
            prop_assert_eq!(moved(new, old), step);
        }

        #[test]
        fn no_two_tables_panic(
            new in "(CPU[0-3] ){0,4}\n([A-C]: ([0-9]{1,20} ){0,4}x\n){0,4}",
            old in "(CPU[0-3] ){0,4}\n([A-C]: ([0-9]{1,20} ){0,4}x\n){0,4}",
        ) {
            let moved = since(&new, &old);
            prop_assert!(moved.cpus.windows(2).all(|pair| pair[0].cpu < pair[1].cpu));
            prop_assert!(moved.cpus.iter().any(|cpu| cpu.measured));
        }
    }
}
