//! Converts the results of the user-space threads to workers and tables.

use punctual_model::{Cell, Nanos, Table};

use super::cause::{Cause, gaps_table, push_gaps};
use super::spin::Ticks;
use super::{Found, iterations};
use crate::Measured;

/// Converts the results of the threads to workers and tables.
pub(super) fn measured<T: Ticks>(
    clock: T,
    name: &str,
    cpus: &[u32],
    found: Vec<Found>,
) -> Measured {
    let mut measured = Measured {
        workers: Vec::with_capacity(found.len()),
        tables: Vec::new(),
        warnings: Vec::new(),
    };
    let mut gaps = gaps_table();
    let mut turns = iterations::tables();
    let mut spinning = Table::new(
        "spinning",
        "Time spun after the warm-up",
        &[
            ("cpu", "CPU"),
            ("clock", "clock"),
            ("spun_ns", "spun"),
            ("turn_ns", "one turn"),
            ("floor_ns", "counted from"),
            ("most_ns", "worst window"),
        ],
    );
    for (found, &cpu) in found.into_iter().zip(cpus) {
        measured.workers.push(found.worker);
        push_gaps(&mut gaps, cpu, clock, &found.tally);
        if let Some(counted) = &found.turns {
            iterations::push(&mut turns, cpu, clock, counted);
        }
        spinning.push([
            Cell::from(u64::from(cpu)),
            name.into(),
            Nanos(clock.to_nanos(found.tally.spun)).into(),
            Nanos(clock.to_nanos(found.turn)).into(),
            Nanos(clock.to_nanos(found.floor)).into(),
            Nanos(clock.to_nanos(found.tally.most)).into(),
        ]);
        let blind = found.tally.gaps_of(Cause::Unknown).count;
        if blind > 0 {
            measured.warnings.push(format!(
                "the cause of {blind} gaps on CPU {cpu} is unknown: there were too many gaps, or \
                 /proc/interrupts cannot be read"
            ));
        }
    }
    measured.tables = vec![gaps, spinning];
    let counted = turns.into_iter().filter(|table| !table.rows.is_empty());
    measured.tables.extend(counted);
    measured
}
