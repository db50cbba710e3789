//! The options of the tools that measure pairs.

use super::settings::{Affinity, PairSettings};
use crate::machine::Machine;
use crate::option_row::{OptionRow, put};
use crate::{CompatError, Given, NextWord};

/// Maximum number of pairs that the probe supports.
const MOST_PAIRS: i32 = 256;
/// Maximum timeout of the probe.
const LONGEST_TIMEOUT_S: u64 = 24 * 3_600;

pub(super) const AFFINITY: OptionRow<PairSettings> = OptionRow::or_next(
    "-a --affinity[=NUM]",
    NextWord::Number,
    "bind both threads of a pair to one CPU: all pairs to CPU NUM, or each pair to the next CPU; \
     default: not bound",
    |settings, given, machine| {
        if settings.smp {
            settings.notes.push("-a ignored due to --smp".to_owned())
        } else {
            settings.affinity = affinity(given, machine)?
        }
        Ok(())
    },
);
pub(super) const BREAKTRACE: OptionRow<PairSettings> =
    OptionRow::breaktrace("stop when a latency is above USEC, and stop the kernel's trace");
pub(super) const DISTANCE: OptionRow<PairSettings> = OptionRow::new(
    "-d --distance=DIST",
    "add DIST us to the interval of each further pair; default 500",
    put!(distance_us = |given| given.micros_from(0)?),
);
pub(super) const FORK: OptionRow<PairSettings> = OptionRow::new(
    "-f --fork[=OPT]",
    "run the two threads of each pair in separate processes; OPT was for internal use by the \
     original",
    |settings, given, _| {
        if given.value.is_some() {
            return Err(not_a_child());
        }
        settings.fork = true;
        Ok(())
    },
);
pub(super) const INTERVAL: OptionRow<PairSettings> = OptionRow::new(
    "-i --interval=INTV",
    "interval of the first pair in us; default 1000",
    put!(interval_us = |given| given.micros_from(1)?),
);
pub(super) const LOOPS: OptionRow<PairSettings> = OptionRow::new(
    "-l --loops=LOOPS",
    "stop when one pair and all others with the same interval have made LOOPS cycles; default 0: \
     no limit",
    put!(loops = |given| given.at_least(0)?),
);
pub(super) const PRIORITY: OptionRow<PairSettings> = OptionRow::new(
    "-p --priority=PRIO",
    "real-time priority of the first pair, 1 to 99; each further pair has a priority one lower",
    put!(priority = |given| given.priority()?),
);
pub(super) const SMP: OptionRow<PairSettings> = OptionRow::new(
    "-S --smp",
    "run one pair on each CPU, all with the same priority; same as -a -t",
    |settings, _, machine| {
        settings.smp = true;
        settings.affinity = Affinity::All;
        settings.threads = machine.present.len() as u64;
        Ok(())
    },
);
pub(super) const THREADS: OptionRow<PairSettings> = OptionRow::or_next(
    "-t --threads[=NUM]",
    NextWord::Number,
    "number of pairs; without NUM one per CPU; default 1",
    |settings, given, machine| {
        if settings.smp {
            settings.notes.push("-t ignored due to --smp".to_owned())
        } else {
            settings.threads = threads(given, machine)?
        }
        Ok(())
    },
);

/// An option of pmqtest.
pub(super) const FORCETIMEOUT: OptionRow<PairSettings> = OptionRow::new(
    "-f --forcetimeout=TO",
    "with -T: send each message TO seconds later, so that mq_timedreceive times out; the receiver \
     counts the timeout and waits again",
    put!(force_timeout_s = |given| timeout(given)?),
);
/// An option of pmqtest.
pub(super) const TIMEOUT: OptionRow<PairSettings> = OptionRow::new(
    "-T --timeout=TO",
    "receive with mq_timedreceive, and stop if a message is TO seconds late; default 0: no timeout",
    put!(timeout_s = |given| timeout(given)?),
);

fn affinity(given: &Given, machine: &Machine) -> Result<Affinity, CompatError> {
    let Some(number) = given.number()? else {
        return Ok(Affinity::All);
    };
    let cpu = u32::try_from(number).map_err(|_| given.bad("a CPU"))?;
    if !machine.present.contains(cpu) {
        // The message of the originals.
        return Err(CompatError::Usage(format!(
            "ERROR: CPU #{cpu} not found, only {} CPUs available",
            machine.present.len()
        )));
    }
    Ok(Affinity::One(cpu))
}

fn threads(given: &Given, machine: &Machine) -> Result<u64, CompatError> {
    match given.number()? {
        None => Ok(machine.present.len() as u64),
        Some(number @ 1..=MOST_PAIRS) => Ok(number as u64),
        Some(_) => Err(given.bad(&format!("a number of pairs from 1 to {MOST_PAIRS}"))),
    }
}

fn timeout(given: &Given) -> Result<u64, CompatError> {
    let seconds = given.duration()?;
    if seconds <= LONGEST_TIMEOUT_S {
        Ok(seconds)
    } else {
        Err(given.bad(&format!("a time of up to {LONGEST_TIMEOUT_S} s")))
    }
}

/// If the option has a value, the originals run as a child process that they started themselves.
fn not_a_child() -> CompatError {
    CompatError::Exit {
        message: "Invalid fork option".to_owned(),
        status: 1,
    }
}
