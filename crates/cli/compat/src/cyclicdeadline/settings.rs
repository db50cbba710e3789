//! The options of cyclicdeadline 2.10, and the settings that result from them.

use punctual_model::CpuSet;

use crate::machine::Machine;
use crate::option_row::{OptionRow, put};
use crate::options::Common;
use crate::{CompatError, Given, NextWord, Parsed};

/// The settings from the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CyclicdeadlineSettings {
    pub(super) common: Common,
    /// Whether `-a` or `-c` was given.
    affinity: bool,
    /// `None` for all usable CPUs.
    pub(super) cpus: Option<CpuSet>,
    pub(super) debug: bool,
    pub(super) histogram: usize,
    pub(super) interval_us: u64,
    pub(super) step_us: u64,
    pub(super) threads: u64,
    pub(super) verbose: bool,
    /// In percent of a period.
    runtime: u64,
    /// Messages for stderr.
    pub(super) notes: Vec<String>,
}

/// Maximum number of histogram rows.
const MOST_ROWS: u64 = 1_000_000;
/// Limits of the probe for the period, in µs. The kernel has the same limits.
const PERIODS: std::ops::RangeInclusive<u64> = 100..=4_194_304;

impl AsMut<Common> for CyclicdeadlineSettings {
    fn as_mut(&mut self) -> &mut Common {
        &mut self.common
    }
}

/// In the order of the original's help.
pub(super) const OPTIONS: &[OptionRow<CyclicdeadlineSettings>] = &[
    OptionRow::or_next(
        "-a --affinity[=CPUSET]",
        NextWord::Any,
        "run on these CPUs; refused unless they are all usable CPUs",
        affinity,
    ),
    OptionRow::new("-c=CPUSET", "the same as -a with a CPUSET", affinity),
    OptionRow::DURATION,
    OptionRow::HELP,
    OptionRow::new(
        "--histogram=US",
        "print a histogram of latencies below US us after the run",
        put!(histogram = |given| given.micros_from(1)?.min(MOST_ROWS) as usize),
    ),
    OptionRow::HISTFILE,
    OptionRow::new(
        "-i --interval=INTV",
        "deadline and period of the first thread in us; default 1000",
        put!(interval_us = |given| given.micros_from(1)?),
    ),
    OptionRow::JSON,
    OptionRow::new(
        "-s --step=STEP",
        "add STEP us to the deadline of each further thread; default 500",
        put!(step_us = |given| given.micros_from(0)?),
    ),
    OptionRow::new(
        "-t --threads=NUM",
        "number of threads; default 1, with -a one per CPU",
        |settings, given, _| {
            settings.threads = match given.whole()? {
                // A 0 is treated as if the option had not been given.
                0 => 1,
                threads @ 1..=256 => threads as u64,
                _ => return Err(given.bad("a number of threads up to 256")),
            };
            Ok(())
        },
    ),
    OptionRow::QUIET,
    OptionRow::BREAKTRACE,
    OptionRow::TRACEMARK,
    OptionRow::flag(
        "--debug",
        "print each thread's runtime and deadline on stderr",
        |settings| settings.debug = true,
    ),
    OptionRow::flag(
        "--verbose",
        "print the runtime and period of each thread",
        |settings| settings.verbose = true,
    ),
];

impl CyclicdeadlineSettings {
    /// Reads the options in the order they were given.
    ///
    /// # Errors
    /// Returns an error for invalid values.
    pub(super) fn read(parsed: &Parsed, machine: &Machine) -> Result<Self, CompatError> {
        let mut settings = Self {
            interval_us: 1_000,
            step_us: 500,
            runtime: 60,
            ..Self::default()
        };
        parsed.read_into(&mut settings, OPTIONS, machine)?;
        let (allowed, affinity) = (&machine.allowed, settings.affinity);
        if settings.threads == 0 {
            settings.threads = if affinity { allowed.len() as u64 } else { 1 };
        }
        if !affinity && allowed.len() > 1 {
            settings.notes.push(format!(
                "the threads run on all CPUs ({allowed}), not only on the last one as in the \
                 original: to run on one CPU, they need an exclusive cpuset"
            ));
        }
        let cpus = settings.cpus.as_ref().map_or(allowed.len(), CpuSet::len) as u64;
        if settings.threads > cpus {
            // As in the original, all threads together may use at most four fifths of the CPU time.
            settings.runtime = cpus * 80 / settings.threads;
        }
        let longest = settings.interval_of(settings.threads as usize - 1);
        if !PERIODS.contains(&settings.interval_us) || !PERIODS.contains(&longest) {
            return Err(CompatError::Usage(format!(
                "the deadlines must be between {} and {} us, but they range from {} to {longest} \
                 us: change -i, -s or -t",
                PERIODS.start(),
                PERIODS.end(),
                settings.interval_us
            )));
        }
        Ok(settings)
    }

    /// Returns the deadline of the thread with this index, in µs.
    pub(super) fn interval_of(&self, place: usize) -> u64 {
        self.interval_us + self.step_us * place as u64
    }

    /// Returns the runtime of the thread with this index, in µs.
    pub(super) fn runtime_of(&self, place: usize) -> u64 {
        self.interval_of(place) * self.runtime / 100
    }
}

fn affinity(
    settings: &mut CyclicdeadlineSettings,
    given: &Given,
    machine: &Machine,
) -> Result<(), CompatError> {
    settings.affinity = true;
    let list = given.value.as_deref();
    let cpus = list.map(|list| machine.cpus(given, list)).transpose()?;
    settings.cpus = cpus.filter(|cpus| *cpus != machine.allowed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use punctual_host::Host;

    use super::*;
    use crate::getopt;

    fn read(line: &str) -> Result<CyclicdeadlineSettings, CompatError> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let options = super::super::TOOL.options;
        let parsed = getopt::parse(&words, options, false)?;
        CyclicdeadlineSettings::read(&parsed, &Machine::from_host(&Host::live())?)
    }

    #[test]
    fn options_match_the_original() {
        let allowed = Host::live().allowed().unwrap();
        let cpus = allowed.len() as u64;
        let one = format!("-c {} -i 5000", allowed.iter().next().unwrap());
        for (line, threads, interval_us) in [
            ("", 1, 1_000),
            ("-t 0", 1, 1_000),
            ("-a -i 5000us", cpus, 5_000),
            // -c is the same as -a, but has a different help text.
            (one.as_str(), cpus, 5_000),
            ("-a -t 1 -b 20us", 1, 1_000),
        ] {
            let settings = read(line).unwrap();
            assert_eq!(
                (settings.threads, settings.interval_us),
                (threads, interval_us),
                "{line}"
            );
        }
        for line in ["-t 257", "-t -1", "-c", "-i 5m", "-i 10", "-i 5s", "-D 1y"] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
