//! The settings of these tools from their command line.

use crate::machine::Machine;
use crate::option_row::OptionRow;
use crate::options::Common;
use crate::{CompatError, Parsed};

/// The settings from the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PairSettings {
    pub(super) common: Common,
    pub(super) affinity: Affinity,
    pub(super) distance_us: u64,
    pub(super) interval_us: u64,
    pub(super) loops: u64,
    pub(super) priority: u8,
    pub(super) smp: bool,
    pub(super) threads: u64,
    /// Time limit for the wait of a receiver; 0 for no limit.
    pub(super) timeout_s: u64,
    /// Time for which senders wait to force a timeout; 0 if they do not wait.
    pub(super) force_timeout_s: u64,
    /// Whether the senders are separate processes.
    pub(super) fork: bool,
    /// Messages for stderr.
    pub(super) notes: Vec<String>,
}

/// The CPUs of the pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Affinity {
    /// Each thread may use all usable CPUs.
    #[default]
    Unspecified,
    /// All threads use this CPU.
    One(u32),
    /// Each pair uses the next CPU.
    All,
}

impl AsMut<Common> for PairSettings {
    fn as_mut(&mut self) -> &mut Common {
        &mut self.common
    }
}

/// Shortest interval of the probe.
const SHORTEST_US: u64 = 50;

impl PairSettings {
    /// Reads the options in the order they were given.
    ///
    /// # Errors
    /// Returns an error for invalid values and unsupported options.
    pub(super) fn read(
        parsed: &Parsed,
        options: &[OptionRow<Self>],
        machine: &Machine,
    ) -> Result<Self, CompatError> {
        let mut settings = Self {
            distance_us: 500,
            interval_us: 1_000,
            threads: 1,
            ..Self::default()
        };
        parsed.read_into(&mut settings, options, machine)?;
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

    /// Returns the interval of the pair with this index, in µs.
    pub(super) fn interval_of(&self, place: usize) -> u64 {
        self.interval_us + self.distance_us * place as u64
    }

    /// Returns whether all pairs have the same priority.
    pub(super) fn same_priority(&self) -> bool {
        self.smp || self.priority == 0
    }

    /// Returns the priority of the receiving thread of the pair with this index.
    pub(super) fn priority_of(&self, place: usize) -> u8 {
        if self.same_priority() {
            return self.priority;
        }
        let down = u8::try_from(place).unwrap_or(u8::MAX);
        self.priority.saturating_sub(down).max(1)
    }

    /// Returns whether a receiving thread can time out and already wait again while its sender is
    /// posting.
    pub(super) fn returns_at_once(&self) -> bool {
        let last = (self.threads as usize).saturating_sub(1);
        self.affinity != Affinity::Unspecified && self.priority_of(last) > 1
    }
}
