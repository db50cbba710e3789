//! The options of signaltest 2.10, and the settings that result from them.

use punctual_model::CpuSet;

use crate::machine::Machine;
use crate::option_row::{OptionRow, put};
use crate::options::Common;
use crate::{CompatError, NextWord, Parsed};

/// The settings from the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SignaltestSettings {
    /// `None` for all usable CPUs.
    pub(super) cpus: Option<CpuSet>,
    pub(super) common: Common,
    pub(super) loops: u64,
    pub(super) priority: u8,
    pub(super) smp: bool,
    pub(super) threads: u64,
    pub(super) verbose: bool,
    /// Messages for stderr.
    pub(super) notes: Vec<String>,
}

impl AsMut<Common> for SignaltestSettings {
    fn as_mut(&mut self) -> &mut Common {
        &mut self.common
    }
}

/// In the order of the original's help.
pub(super) const OPTIONS: &[OptionRow<SignaltestSettings>] = &[
    OptionRow::or_next(
        "-a --affinity[=CPUSET]",
        NextWord::CpuList,
        "bind each thread to the next CPU of CPUSET; default: all usable CPUs; CPUSET: 0-3,8; !2: \
         all CPUs but 2; +0-1: the first two allowed CPUs",
        |settings, given, machine| {
            if settings.smp {
                let note = "-a ignored due to smp mode".to_owned();
                settings.notes.push(note);
                return Ok(());
            }
            let list = given.value.as_deref();
            let cpus = list.map(|list| machine.cpus(given, list));
            settings.cpus = cpus.transpose()?;
            Ok(())
        },
    ),
    OptionRow::BREAKTRACE,
    OptionRow::DURATION,
    OptionRow::HELP,
    OptionRow::JSON,
    OptionRow::new(
        "-l --loops=LOOPS",
        "stop after LOOPS rounds; default 0: endless",
        put!(loops = |given| given.at_least(0)?),
    ),
    OptionRow::MLOCKALL,
    OptionRow::new(
        "-p --priority=PRIO",
        "real-time priority of the threads, 1 to 99",
        put!(priority = |given| given.priority()?),
    ),
    OptionRow::QUIET,
    OptionRow::new(
        "-S --smp",
        "one thread on each usable CPU",
        |settings, _, machine| {
            settings.smp = true;
            settings.cpus = None;
            settings.threads = machine.allowed.len() as u64;
            Ok(())
        },
    ),
    OptionRow::new(
        "-t --threads=NUM",
        "number of threads; default 2",
        put!(threads = |given| given.at_least(0)?),
    ),
    OptionRow::flag(
        "-v --verbose",
        "print each round of the first thread as n:c:v (thread:cycle:value in us)",
        |settings| settings.verbose = true,
    ),
];

/// Range of the probe.
const THREADS: std::ops::RangeInclusive<u64> = 2..=64;

impl SignaltestSettings {
    /// Reads the options in the order they were given.
    ///
    /// # Errors
    /// Returns an error for invalid values.
    pub(super) fn read(parsed: &Parsed, machine: &Machine) -> Result<Self, CompatError> {
        let mut settings = Self {
            threads: 2,
            ..Self::default()
        };
        parsed.read_into(&mut settings, OPTIONS, machine)?;
        if !THREADS.contains(&settings.threads) {
            return Err(CompatError::Usage(format!(
                "a ring must have 2 to {} threads, not {}",
                THREADS.end(),
                settings.threads
            )));
        }
        Ok(settings)
    }
}
