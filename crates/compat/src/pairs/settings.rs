//! The settings of these tools from their command line.

use punctual_host::Host;
use punctual_model::CpuSet;

use crate::{CompatError, Given, Parsed};

/// The settings from the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PairSettings {
    pub(super) affinity: Affinity,
    pub(super) break_limit_us: u64,
    pub(super) distance_us: u64,
    pub(super) duration_s: u64,
    pub(super) interval_us: u64,
    pub(super) json: Option<String>,
    pub(super) loops: u64,
    pub(super) priority: u8,
    pub(super) quiet: bool,
    pub(super) smp: bool,
    pub(super) threads: u64,
    /// 0: the receivers wait without a limit.
    pub(super) timeout_s: u64,
    /// 0: the senders do not wait for a timeout.
    pub(super) force_timeout_s: u64,
    /// The senders are processes of their own.
    pub(super) fork: bool,
    /// Messages for stderr.
    pub(super) notes: Vec<String>,
}

/// The CPUs of the pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Affinity {
    /// All usable CPUs for each thread.
    Unspecified,
    /// All on this one.
    One(u32),
    /// Each on the next one.
    All,
}

/// Facts of the machine that options need.
pub(super) struct Machine {
    pub(super) present: CpuSet,
}

impl Machine {
    pub(super) fn of(host: &Host) -> Result<Self, CompatError> {
        let present = host.present();
        let present = present.map_err(|error| CompatError::Fatal(error.to_string()))?;
        Ok(Self { present })
    }
}

/// Limit of pairs of the probe.
const MOST_PAIRS: i32 = 256;
/// The probe's limit of the timeout.
const LONGEST_TIMEOUT_S: u64 = 24 * 3_600;
/// The probe's shortest interval.
const SHORTEST_US: u64 = 50;

impl PairSettings {
    /// Reads the options in the order they were given.
    ///
    /// # Errors
    /// Invalid values, and unsupported options.
    pub(super) fn read(parsed: &Parsed, machine: &Machine) -> Result<Self, CompatError> {
        let mut settings = Self {
            affinity: Affinity::Unspecified,
            break_limit_us: 0,
            distance_us: 500,
            duration_s: 0,
            interval_us: 1_000,
            json: None,
            loops: 0,
            priority: 0,
            quiet: false,
            smp: false,
            threads: 1,
            timeout_s: 0,
            force_timeout_s: 0,
            fork: false,
            notes: Vec::new(),
        };
        for given in &parsed.given {
            settings.take(given, machine)?;
        }
        if settings.interval_us < SHORTEST_US {
            settings.notes.push(format!(
                "an interval of {} us is too short: {SHORTEST_US} us is used",
                settings.interval_us
            ));
            settings.interval_us = SHORTEST_US;
        }
        if settings.force_timeout_s > 0 && settings.timeout_s == 0 {
            let message = "--forcetimeout requires --timeout";
            return Err(CompatError::Usage(message.to_owned()));
        }
        Ok(settings)
    }

    fn take(&mut self, given: &Given, machine: &Machine) -> Result<(), CompatError> {
        match given.option.long {
            "affinity" if self.smp => self.notes.push("-a ignored due to --smp".to_owned()),
            "affinity" => self.affinity = affinity(given, machine)?,
            "breaktrace" => self.break_limit_us = given.micros_from(0)?,
            "distance" => self.distance_us = given.micros_from(0)?,
            "duration" => self.duration_s = given.duration()?,
            "interval" => self.interval_us = given.micros_from(1)?,
            "json" => self.json = Some(given.text().to_owned()),
            "loops" => self.loops = given.at_least(0)?,
            "priority" => self.priority = given.priority()?,
            "quiet" => self.quiet = true,
            "smp" => {
                self.smp = true;
                self.affinity = Affinity::All;
                self.threads = machine.present.len() as u64;
            }
            "threads" if self.smp => self.notes.push("-t ignored due to --smp".to_owned()),
            "threads" => self.threads = threads(given, machine)?,
            "timeout" => self.timeout_s = timeout(given)?,
            "forcetimeout" => self.force_timeout_s = timeout(given)?,
            "fork" if given.value.is_some() => return Err(not_a_child()),
            "fork" => self.fork = true,
            _ => {}
        }
        Ok(())
    }

    /// The interval of the pair at this place, in µs.
    pub(super) fn interval_of(&self, place: usize) -> u64 {
        self.interval_us + self.distance_us * place as u64
    }

    /// Whether all pairs have the same priority.
    pub(super) fn same_priority(&self) -> bool {
        self.smp || self.priority == 0
    }

    /// The priority of the receiving thread of the pair at this place.
    pub(super) fn priority_of(&self, place: usize) -> u8 {
        if self.same_priority() {
            return self.priority;
        }
        let down = u8::try_from(place).unwrap_or(u8::MAX);
        self.priority.saturating_sub(down).max(1)
    }

    /// Whether a receiving thread can time out and wait again while its sender posts.
    pub(super) fn returns_at_once(&self) -> bool {
        let last = (self.threads as usize).saturating_sub(1);
        self.affinity != Affinity::Unspecified && self.priority_of(last) > 1
    }
}

fn affinity(given: &Given, machine: &Machine) -> Result<Affinity, CompatError> {
    let Some(number) = given.number_or_next()? else {
        return Ok(Affinity::All);
    };
    let cpu = u32::try_from(number).map_err(|_| given.bad("a CPU"))?;
    if !machine.present.contains(cpu) {
        // In the originals' words.
        return Err(CompatError::Usage(format!(
            "ERROR: CPU #{cpu} not found, only {} CPUs available",
            machine.present.len()
        )));
    }
    Ok(Affinity::One(cpu))
}

fn threads(given: &Given, machine: &Machine) -> Result<u64, CompatError> {
    match given.number_or_next()? {
        None => Ok(machine.present.len() as u64),
        Some(number @ 1..=MOST_PAIRS) => Ok(number as u64),
        Some(_) => Err(given.bad(&format!("a number of pairs from 1 to {MOST_PAIRS}"))),
    }
}

fn timeout(given: &Given) -> Result<u64, CompatError> {
    let seconds = given.at_least(0)?;
    match seconds <= LONGEST_TIMEOUT_S {
        true => Ok(seconds),
        false => Err(given.bad(&format!("a time of up to {LONGEST_TIMEOUT_S} s"))),
    }
}

/// With a value the originals run as their own child process.
fn not_a_child() -> CompatError {
    CompatError::Exit {
        message: "Invalid fork option".to_owned(),
        status: 1,
    }
}
