//! The settings of signaltest from its command line.

use punctual_host::Host;
use punctual_model::CpuSet;

use crate::{CompatError, Given, Parsed, shared};

/// The settings from the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SignaltestSettings {
    /// `None`: all usable CPUs.
    pub(super) cpus: Option<CpuSet>,
    pub(super) break_limit_us: u64,
    pub(super) duration_s: u64,
    pub(super) json: Option<String>,
    pub(super) loops: u64,
    pub(super) lock_memory: bool,
    pub(super) priority: u8,
    pub(super) quiet: bool,
    pub(super) smp: bool,
    pub(super) threads: u64,
    pub(super) verbose: bool,
    /// Messages for stderr.
    pub(super) notes: Vec<String>,
}

/// What the probe takes.
const THREADS: std::ops::RangeInclusive<u64> = 2..=64;

impl SignaltestSettings {
    /// Reads the options in the order they were given.
    ///
    /// # Errors
    /// Invalid values.
    pub(super) fn read(parsed: &Parsed, host: &Host) -> Result<Self, CompatError> {
        let mut settings = Self {
            threads: 2,
            ..Self::default()
        };
        for given in &parsed.given {
            settings.take(given, host)?;
        }
        if !THREADS.contains(&settings.threads) {
            return Err(CompatError::Usage(format!(
                "a ring has 2 to {} threads, not {}",
                THREADS.end(),
                settings.threads
            )));
        }
        Ok(settings)
    }

    fn take(&mut self, given: &Given, host: &Host) -> Result<(), CompatError> {
        match given.option.long {
            "affinity" if self.smp => self.notes.push("-a ignored due to smp mode".to_owned()),
            "affinity" => {
                let list = given.list_or_next();
                let cpus = list.map(|list| shared::cpus(given, list, host));
                self.cpus = cpus.transpose()?;
            }
            "breaktrace" => self.break_limit_us = given.micros_from(0)?,
            "duration" => self.duration_s = given.duration()?,
            "json" => self.json = Some(given.text().to_owned()),
            "loops" => self.loops = given.at_least(0)?,
            "mlockall" => self.lock_memory = true,
            "priority" => self.priority = given.priority()?,
            "quiet" => self.quiet = true,
            "smp" => {
                self.smp = true;
                self.cpus = None;
                let (_, allowed) = shared::cpus_of(host)?;
                self.threads = allowed.len() as u64;
            }
            "threads" => self.threads = given.at_least(0)?,
            "verbose" => self.verbose = true,
            _ => {}
        }
        Ok(())
    }
}
