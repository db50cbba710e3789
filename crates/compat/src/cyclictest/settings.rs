//! The settings of cyclictest from its command line.

use punctual_host::Host;
use punctual_model::{CpuSet, Policy};

use crate::lines::Unit;
use crate::{CompatError, Given, Parsed, values};

/// The settings from the command line.
#[derive(Clone, Debug)]
pub(super) struct CyclictestSettings {
    pub(super) affinity: Affinity,
    pub(super) main_affinity: Option<CpuSet>,
    pub(super) begin: Begin,
    pub(super) offset_us: u32,
    pub(super) break_limit: u64,
    pub(super) realtime_clock: bool,
    /// The deepest idle state that the CPUs may enter, -1 for none.
    pub(super) idle_state: Option<i64>,
    pub(super) default_system: bool,
    pub(super) laptop: bool,
    pub(super) latency_us: i32,
    pub(super) distance_us: u64,
    pub(super) duration_s: u64,
    pub(super) fifo: Option<String>,
    pub(super) histogram: usize,
    pub(super) histogram_sum: bool,
    pub(super) histogram_file: Option<String>,
    pub(super) interval_us: u64,
    pub(super) json: Option<String>,
    pub(super) loops: u64,
    pub(super) lock_memory: bool,
    pub(super) refresh_on_max: bool,
    pub(super) unit: Unit,
    pub(super) oscope: u64,
    pub(super) priority: u8,
    pub(super) policy: Policy,
    pub(super) priority_spread: bool,
    pub(super) quiet: bool,
    pub(super) relative: bool,
    pub(super) resolution: bool,
    pub(super) debug: bool,
    pub(super) spike: u64,
    pub(super) spike_nodes: usize,
    pub(super) smi: bool,
    pub(super) threads: u64,
    pub(super) tracemark: bool,
    pub(super) unbuffered: bool,
    pub(super) verbose: bool,
    pub(super) posix_timers: bool,
    /// Messages for stdout before other output.
    pub(super) first_lines: Vec<String>,
    /// Messages for stderr.
    pub(super) notes: Vec<String>,
}

/// The CPUs of the threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Affinity {
    /// All usable CPUs for each thread.
    Unspecified,
    /// One of these each, in turn.
    Chosen(CpuSet),
    /// One of the usable CPUs each, in turn.
    All,
    /// The same, for `-S`.
    Smp,
}

/// Start time of the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    Spread,
    Aligned,
    FullSecond,
}

/// Facts of the machine that options need.
pub(super) struct Machine {
    pub(super) present: CpuSet,
    pub(super) allowed: CpuSet,
}

impl Machine {
    pub(super) fn of(host: &Host) -> Result<Self, CompatError> {
        let fatal = |error: punctual_host::HostError| CompatError::Fatal(error.to_string());
        let present = host.present().map_err(fatal)?;
        let online = host.online().map_err(fatal)?;
        let allowed = host.allowed().map_err(fatal)?.intersection(&online);
        Ok(Self { present, allowed })
    }
}

/// The largest histogram.
const MOST_ROWS: i32 = 1_000_000;
/// Default distance of the intervals.
const DISTANCE_US: u64 = 500;
/// The probe's shortest interval.
const SHORTEST_US: i32 = 20;

impl CyclictestSettings {
    /// Reads the options in the order they were given.
    ///
    /// # Errors
    /// Invalid values, and conflicting options.
    pub(super) fn read(parsed: &Parsed, machine: &Machine) -> Result<Self, CompatError> {
        let mut reader = Reader::new(machine);
        for given in &parsed.given {
            reader.take(given)?;
        }
        let in_micros =
            |given: &&Given| given.option.long == "breaktrace" && given.text().ends_with("us");
        if reader.settings.unit == Unit::Nanos
            && let Some(given) = parsed.given.iter().find(in_micros)
        {
            return Err(given.bad("a number of ns, in which -N counts"));
        }
        let spare = parsed.operands.iter().filter(|word| {
            let taken = |given: &Given| given.value.is_none() && given.next.as_ref() == Some(word);
            !word.is_empty() && !parsed.given.iter().any(taken)
        });
        for word in spare {
            let note = format!("# punctual: '{word}' is not an option's value: ignored");
            reader.settings.notes.push(note);
        }
        reader.finish()
    }

    /// The names of the policy in the first line: the requested one and, if different,
    /// the actual one.
    pub(super) fn policy_words(&self) -> String {
        let asked = self.policy.name();
        match self.is_real_time() {
            true => asked.to_owned(),
            false => format!("{asked}/other"),
        }
    }

    /// Whether the threads have a real-time policy.
    pub(super) fn is_real_time(&self) -> bool {
        self.priority > 0 && matches!(self.policy, Policy::Fifo | Policy::RoundRobin)
    }

    /// Whether the exit latency of the CPUs is held.
    pub(super) fn holds_latency(&self) -> bool {
        !self.laptop && !self.default_system && self.idle_state.is_none()
    }

    /// The interval of the thread at this place, in µs.
    pub(super) fn interval_of(&self, place: usize) -> u64 {
        self.interval_us + self.distance_us * place as u64
    }

    /// The priority of the thread at this place.
    pub(super) fn priority_of(&self, place: usize) -> u8 {
        let down = if self.priority_spread { place } else { 0 };
        let down = u8::try_from(down).unwrap_or(u8::MAX);
        self.priority.saturating_sub(down)
    }
}

/// The options while they are parsed, before combination.
struct Reader<'a> {
    settings: CyclictestSettings,
    machine: &'a Machine,
    affinity_given: bool,
    /// `None`: one for each CPU.
    threads: Option<i32>,
    distance: Option<u64>,
    full_second: bool,
    aligned: bool,
    system: bool,
}

impl<'a> Reader<'a> {
    fn new(machine: &'a Machine) -> Self {
        Self {
            settings: CyclictestSettings {
                affinity: Affinity::Unspecified,
                main_affinity: None,
                begin: Begin::Spread,
                offset_us: 0,
                break_limit: 0,
                realtime_clock: false,
                idle_state: None,
                default_system: false,
                laptop: false,
                latency_us: 0,
                distance_us: DISTANCE_US,
                duration_s: 0,
                fifo: None,
                histogram: 0,
                histogram_sum: false,
                histogram_file: None,
                interval_us: 1_000,
                json: None,
                loops: 0,
                lock_memory: false,
                refresh_on_max: false,
                unit: Unit::Micros,
                oscope: 1,
                priority: 0,
                policy: Policy::Other,
                priority_spread: false,
                quiet: false,
                relative: false,
                resolution: false,
                debug: false,
                spike: 0,
                spike_nodes: 1_024,
                smi: false,
                threads: 1,
                tracemark: false,
                unbuffered: false,
                verbose: false,
                posix_timers: false,
                first_lines: Vec::new(),
                notes: Vec::new(),
            },
            machine,
            affinity_given: false,
            threads: Some(1),
            distance: None,
            full_second: false,
            aligned: false,
            system: false,
        }
    }

    fn take(&mut self, given: &Given) -> Result<(), CompatError> {
        let settings = &mut self.settings;
        match given.option.long {
            "affinity" => self.affinity(given)?,
            "aligned" => {
                self.aligned = true;
                settings.offset_us = offset(given)?;
            }
            "secaligned" => {
                self.full_second = true;
                settings.offset_us = offset(given)?;
            }
            "breaktrace" => settings.break_limit = given.micros_from(0)?,
            "clock" => {
                settings.realtime_clock = match given.whole()? {
                    0 => false,
                    1 => true,
                    _ => return Err(given.bad("0 or 1")),
                }
            }
            "deepest-idle-state" => {
                settings.idle_state = Some(given.whole()?.into()).filter(|state| *state >= -1);
            }
            "default-system" => settings.default_system = true,
            "distance" => self.distance = Some(given.micros_from(0)?),
            "duration" => {
                let seconds = given.seconds()?;
                settings.duration_s =
                    u64::try_from(seconds).map_err(|_| given.bad("a time of 0 or more"))?;
            }
            "fifo" => settings.fifo = Some(given.text().to_owned()),
            "histogram" | "histofall" => {
                let rows = given.at_least(1)?.min(MOST_ROWS as u64);
                settings.histogram = rows as usize;
                settings.histogram_sum |= given.option.long == "histofall";
            }
            "histfile" => settings.histogram_file = Some(given.text().to_owned()),
            "interval" => settings.interval_us = given.micros_from(SHORTEST_US)?,
            "json" => settings.json = Some(given.text().to_owned()),
            "laptop" => settings.laptop = true,
            // Below zero counts as zero.
            "latency" => settings.latency_us = given.whole()?.max(0),
            "loops" => settings.loops = given.at_least(0)?,
            "mainaffinity" => {
                self.settings.main_affinity = Some(self.cpus(given, given.text())?);
            }
            "oscope" => settings.oscope = given.at_least(1)?,
            "priority" => self.priority(given)?,
            "policy" => settings.policy = policy(given)?,
            "smp" => self.smp(given)?,
            "spike" => settings.spike = given.at_least(0)?,
            "spike-nodes" => {
                let nodes = given.at_least(1)?;
                if settings.spike > 0 {
                    settings.spike_nodes = nodes as usize;
                }
            }
            "threads" => self.threads_asked(given)?,
            _ => self.flag(given.option.long),
        }
        Ok(())
    }

    /// Options without a value.
    fn flag(&mut self, name: &str) {
        let settings = &mut self.settings;
        match name {
            "mlockall" => settings.lock_memory = true,
            "refresh_on_max" => settings.refresh_on_max = true,
            "nsecs" => settings.unit = Unit::Nanos,
            "priospread" => settings.priority_spread = true,
            "quiet" => settings.quiet = true,
            "relative" => settings.relative = true,
            "resolution" => settings.resolution = true,
            "system" => self.system = true,
            "smi" => settings.smi = true,
            "tracemark" => settings.tracemark = true,
            "unbuffered" => settings.unbuffered = true,
            "verbose" => settings.verbose = true,
            "dbg_cyclictest" => settings.debug = true,
            "posix_timers" => settings.posix_timers = true,
            // nanosleep: the default.
            _ => {}
        }
    }

    fn affinity(&mut self, given: &Given) -> Result<(), CompatError> {
        self.affinity_given = true;
        if self.settings.affinity == Affinity::Smp {
            return Ok(());
        }
        let can_be = |next: &str| {
            next.starts_with(['0', '!', '+', 'a'])
                || next.starts_with(|first: char| first.is_ascii_digit())
        };
        self.settings.affinity = match given.value_or_next(can_be) {
            None => Affinity::All,
            Some(list) => {
                let cpus = self.cpus(given, list)?;
                if self.settings.verbose {
                    self.settings.first_lines.push(using(&cpus));
                }
                Affinity::Chosen(cpus)
            }
        };
        Ok(())
    }

    fn cpus(&self, given: &Given, list: &str) -> Result<CpuSet, CompatError> {
        let Machine { present, allowed } = self.machine;
        let cpus = values::cpu_list(list, present, allowed)
            .map_err(|reason| given.bad(&format!("a list of CPUs: {reason}")))?;
        match cpus.is_empty() {
            true => Err(given.bad("a list of usable CPUs")),
            false => Ok(cpus),
        }
    }

    fn priority(&mut self, given: &Given) -> Result<(), CompatError> {
        let settings = &mut self.settings;
        settings.priority = match u8::try_from(given.whole()?) {
            Ok(priority @ 0..=99) => priority,
            _ => return Err(given.bad("a priority from 0 to 99")),
        };
        if !matches!(settings.policy, Policy::Fifo | Policy::RoundRobin) {
            settings.policy = Policy::Fifo;
        }
        Ok(())
    }

    fn smp(&mut self, _: &Given) -> Result<(), CompatError> {
        if self.affinity_given && self.settings.affinity != Affinity::Smp {
            // In the original's words.
            let text = "numa and smp options are mutually exclusive";
            return Err(CompatError::Fatal(text.to_owned()));
        }
        self.settings.affinity = Affinity::Smp;
        self.threads = None;
        Ok(())
    }

    fn threads_asked(&mut self, given: &Given) -> Result<(), CompatError> {
        if self.settings.affinity == Affinity::Smp {
            let note = "WARN: -t ignored due to smp mode".to_owned();
            self.settings.notes.push(note);
            return Ok(());
        }
        let number = |next: &str| values::whole(next).is_some_and(|number| number != 0);
        self.threads = match (&given.value, given.value_or_next(number)) {
            (Some(_), _) => Some(given.whole()?),
            (None, Some(next)) => values::whole(next),
            (None, None) => None,
        };
        // -1 means "all" in the original.
        self.threads = self.threads.filter(|threads| *threads != -1);
        match self.threads {
            Some(..=0 | 4_097..) => Err(given.bad("a number of threads from 1 to 4096")),
            _ => Ok(()),
        }
    }

    /// Combines all options.
    fn finish(mut self) -> Result<CyclictestSettings, CompatError> {
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
            _ => self.machine.allowed.len(),
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

    /// A real-time policy has a priority, and vice versa.
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

/// The line of `-v` for a CPU list.
pub(super) fn using(cpus: &CpuSet) -> String {
    format!("Using {} cpus.", cpus.len())
}

/// The optional number of `-A` and `--secaligned`.
fn offset(given: &Given) -> Result<u32, CompatError> {
    let offset = given.number_or_next()?.unwrap_or(0);
    u32::try_from(offset).map_err(|_| given.bad("0 or more"))
}

/// By a prefix of its name, as in the original.
fn policy(given: &Given) -> Result<Policy, CompatError> {
    const NAMES: [(&str, Policy); 6] = [
        ("other", Policy::Other),
        ("normal", Policy::Other),
        ("batch", Policy::Batch),
        ("idle", Policy::Idle),
        ("fifo", Policy::Fifo),
        ("rr", Policy::RoundRobin),
    ];
    let name = given.text().to_ascii_lowercase();
    NAMES
        .iter()
        .find(|(known, _)| name.starts_with(known))
        .map(|(_, policy)| *policy)
        .ok_or_else(|| given.bad("one of other, normal, batch, idle, fifo, rr"))
}
