//! The settings of cyclictest from its command line.

use punctual_model::{CpuSet, Policy};

use crate::lines::Unit;
use crate::machine::Machine;
use crate::option_row::OptionRow;
use crate::options::Common;
use crate::{CompatError, Parsed};

/// The settings from the command line.
#[derive(Clone, Debug)]
pub(super) struct CyclictestSettings {
    pub(super) common: Common,
    pub(super) affinity: Affinity,
    pub(super) main_affinity: Option<CpuSet>,
    pub(super) begin: Begin,
    pub(super) offset_us: u32,
    pub(super) realtime_clock: bool,
    /// Deepest idle state that the CPUs may enter; -1 for none.
    pub(super) idle_state: Option<i64>,
    pub(super) default_system: bool,
    pub(super) laptop: bool,
    pub(super) latency_us: i32,
    pub(super) distance_us: u64,
    pub(super) fifo: Option<String>,
    pub(super) histogram: usize,
    pub(super) histogram_sum: bool,
    pub(super) interval_us: u64,
    pub(super) loops: u64,
    pub(super) refresh_on_max: bool,
    pub(super) unit: Unit,
    pub(super) oscope: u64,
    pub(super) priority: u8,
    pub(super) policy: Policy,
    pub(super) priority_spread: bool,
    pub(super) relative: bool,
    pub(super) resolution: bool,
    pub(super) debug: bool,
    pub(super) spike: u64,
    pub(super) spike_nodes: usize,
    pub(super) smi: bool,
    pub(super) threads: u64,
    pub(super) unbuffered: bool,
    pub(super) verbose: bool,
    pub(super) posix_timers: bool,
    /// Messages for stdout that are printed before any other output.
    pub(super) first_lines: Vec<String>,
    /// Messages for stderr.
    pub(super) notes: Vec<String>,
}

/// The CPUs of the threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Affinity {
    /// Each thread may use all usable CPUs.
    Unspecified,
    /// Each thread uses one CPU of this list, in turn.
    Chosen(CpuSet),
    /// Each thread uses one of the usable CPUs, in turn.
    All,
    /// Like `All`, for `-S`.
    Smp,
}

/// Start time of the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    Spread,
    Aligned,
    FullSecond,
}

/// Default difference between the intervals of two threads.
const DISTANCE_US: u64 = 500;

impl CyclictestSettings {
    /// Reads the options in the order they were given.
    ///
    /// # Errors
    /// Returns an error for invalid values and conflicting options.
    pub(super) fn read(
        parsed: &Parsed,
        rows: &[OptionRow<Reader>],
        machine: &Machine,
    ) -> Result<Self, CompatError> {
        let mut reader = Reader::new();
        if parsed.has("nsecs") {
            reader.settings.unit = Unit::Nanos;
        }
        parsed.read_into(&mut reader, rows, machine)?;
        for word in parsed.operands.iter().filter(|word| !word.is_empty()) {
            let note = format!("# punctual: ignored '{word}': not an option or its value");
            reader.settings.notes.push(note);
        }
        reader.finish(machine)
    }

    /// Returns the names of policies for the first line: the requested policy and, if it is
    /// different, the actual one.
    pub(super) fn policy_words(&self) -> String {
        let asked = self.policy.name();
        if self.is_real_time() {
            asked.to_owned()
        } else {
            format!("{asked}/other")
        }
    }

    /// Returns the value above which the run ends.
    pub(super) fn break_value(&self) -> Option<i64> {
        let limit = self.common.break_value;
        (limit > 0).then(|| i64::try_from(limit).unwrap_or(i64::MAX))
    }

    /// Returns whether the threads have a real-time policy.
    pub(super) fn is_real_time(&self) -> bool {
        self.priority > 0 && matches!(self.policy, Policy::Fifo | Policy::RoundRobin)
    }

    /// Returns whether the exit latency of the CPUs' idle states is limited.
    pub(super) fn holds_latency(&self) -> bool {
        !self.laptop && !self.default_system && self.idle_state.is_none()
    }

    /// Returns the interval of the thread with this index, in µs.
    pub(super) fn interval_of(&self, place: usize) -> u64 {
        self.interval_us + self.distance_us * place as u64
    }

    /// Returns the priority of the thread with this index.
    pub(super) fn priority_of(&self, place: usize) -> u8 {
        let down = if self.priority_spread { place } else { 0 };
        let down = u8::try_from(down).unwrap_or(u8::MAX);
        self.priority.saturating_sub(down)
    }
}

/// The options while they are being parsed, before they are combined.
pub(super) struct Reader {
    pub(super) settings: CyclictestSettings,
    pub(super) affinity_given: bool,
    /// Number of threads; `None` for one thread per CPU.
    pub(super) threads: Option<i32>,
    pub(super) distance: Option<u64>,
    pub(super) full_second: bool,
    pub(super) aligned: bool,
    pub(super) system: bool,
}

impl AsMut<Common> for Reader {
    fn as_mut(&mut self) -> &mut Common {
        &mut self.settings.common
    }
}

impl Reader {
    fn new() -> Self {
        Self {
            settings: CyclictestSettings {
                common: Common::default(),
                affinity: Affinity::Unspecified,
                main_affinity: None,
                begin: Begin::Spread,
                offset_us: 0,
                realtime_clock: false,
                idle_state: None,
                default_system: false,
                laptop: false,
                latency_us: 0,
                distance_us: DISTANCE_US,
                fifo: None,
                histogram: 0,
                histogram_sum: false,
                interval_us: 1_000,
                loops: 0,
                refresh_on_max: false,
                unit: Unit::Micros,
                oscope: 1,
                priority: 0,
                policy: Policy::Other,
                priority_spread: false,
                relative: false,
                resolution: false,
                debug: false,
                spike: 0,
                spike_nodes: 1_024,
                smi: false,
                threads: 1,
                unbuffered: false,
                verbose: false,
                posix_timers: false,
                first_lines: Vec::new(),
                notes: Vec::new(),
            },
            affinity_given: false,
            threads: Some(1),
            distance: None,
            full_second: false,
            aligned: false,
            system: false,
        }
    }

    /// Combines all options into the settings.
    fn finish(mut self, machine: &Machine) -> Result<CyclictestSettings, CompatError> {
        self.waiting()?;
        self.intervals();
        let settings = &mut self.settings;
        if self.affinity_given && settings.affinity == Affinity::Smp {
            settings
                .notes
                .push("WARN: -a ignored due to smp mode".to_owned());
        }
        if settings.oscope > 1 && !settings.verbose {
            return Err(CompatError::Usage(
                "-o option only meaningful, if verbose".to_owned(),
            ));
        }
        settings.begin = match (self.aligned, self.full_second) {
            (true, true) => {
                let text = "--aligned and --secaligned conflict: give one of them";
                return Err(CompatError::Usage(text.to_owned()));
            }
            (true, false) => Begin::Aligned,
            (false, true) => Begin::FullSecond,
            (false, false) => Begin::Spread,
        };
        let cpus = match &settings.affinity {
            Affinity::Chosen(cpus) => cpus.len(),
            _ => machine.allowed.len(),
        };
        settings.threads = self.threads.map_or(cpus as u64, |threads| threads as u64);
        self.priorities();
        Ok(self.settings)
    }

    fn waiting(&mut self) -> Result<(), CompatError> {
        let settings = &mut self.settings;
        if self.system && settings.posix_timers {
            let lines = [
                "WARN: The system option requires clock_nanosleep",
                "WARN: and is not compatible with posix_timers",
                "WARN: Using clock_nanosleep",
            ];
            settings.notes.extend(lines.map(str::to_owned));
            settings.posix_timers = false;
        }
        settings.relative |= self.system;
        if settings.smi && settings.affinity == Affinity::Unspecified {
            let text = "SMI counter relies on thread affinity";
            return Err(CompatError::Fatal(text.to_owned()));
        }
        Ok(())
    }

    fn intervals(&mut self) {
        let settings = &mut self.settings;
        if settings.histogram > 0 && self.distance.is_some() {
            let note = "WARN: distance is ignored and set to 0, if histogram enabled";
            settings.notes.push(note.to_owned());
        }
        settings.distance_us = match settings.histogram {
            0 => self.distance.unwrap_or(DISTANCE_US),
            _ => 0,
        };
    }

    /// A real-time policy requires a priority, and vice versa.
    fn priorities(&mut self) {
        let settings = &mut self.settings;
        let usual = u8::try_from(settings.threads + 1).map_or(99, |usual| usual.min(99));
        let default = |settings: &mut CyclictestSettings| {
            let note = format!("defaulting realtime priority to {usual}");
            settings.notes.push(note);
            settings.priority = usual;
        };
        if settings.priority_spread && settings.priority == 0 {
            default(settings);
        }
        let real_time = matches!(settings.policy, Policy::Fifo | Policy::RoundRobin);
        if settings.priority > 0 && !real_time {
            let note = "policy and priority don't match: setting policy to SCHED_FIFO";
            settings.notes.push(note.to_owned());
            settings.policy = Policy::Fifo;
        }
        if settings.priority == 0 && real_time {
            default(settings);
        }
    }
}

/// Returns the line that `-v` prints for a CPU list.
pub(super) fn using(cpus: &CpuSet) -> String {
    format!("Using {} cpus.", cpus.len())
}
