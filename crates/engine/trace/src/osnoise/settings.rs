//! The kernel-wide settings of the tracers timerlat and osnoise.

use punctual_model::CpuSet;

use crate::flight::Owner;
use crate::tracer::THRESHOLD;
use crate::{TraceError, Tracefs};

/// The files in `osnoise/` that contain settings. The settings whose names start with `stop` would
/// end the trace, and the one for stacks would write stacks into it.
const CPUS: &str = "osnoise/cpus";
const TIMERLAT_PERIOD: &str = "osnoise/timerlat_period_us";
const PERIOD: &str = "osnoise/period_us";
const RUNTIME: &str = "osnoise/runtime_us";
const STOP: &str = "osnoise/stop_tracing_us";
const STOP_TOTAL: &str = "osnoise/stop_tracing_total_us";
const PRINT_STACK: &str = "osnoise/print_stack";
const OPTIONS: &str = "osnoise/options";

/// The known options, each with the letter that stands for it in the name of an instance. The
/// letter is upper case if the option is on (`osnoise_options_str` in
/// `kernel/trace/trace_osnoise.c`).
const LETTERS: [(&str, char); 5] = [
    ("OSNOISE_WORKLOAD", 'w'),
    ("PANIC_ON_STOP", 'p'),
    ("OSNOISE_PREEMPT_DISABLE", 'q'),
    ("OSNOISE_IRQ_DISABLE", 'i'),
    ("TIMERLAT_ALIGN", 'a'),
];

/// The settings of timerlat and osnoise, in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OsnoiseSettings {
    /// The CPUs in the kernel's list format.
    pub(crate) cpus: CpuSet,
    /// The period of timerlat; `None` on a kernel without timerlat.
    pub(crate) timerlat_period_us: Option<u64>,
    pub(crate) period_us: u64,
    pub(crate) runtime_us: u64,
    pub(crate) stop_us: u64,
    pub(crate) stop_total_us: u64,
    /// Latency above which a stack is recorded; `None` if the kernel does not have this setting.
    pub(crate) print_stack_us: Option<u64>,
    /// The value of `tracing_thresh`, which other tracers also use.
    pub(crate) threshold_us: u64,
    pub(crate) options: Options,
}

/// The letters of the options that the kernel has. Kernels before Linux 6.2 have no options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options(String);

impl Options {
    fn parse(text: &str) -> Self {
        let words = || text.split_whitespace();
        let letter = |(name, letter): &(&str, char)| {
            let on = words().any(|word| word == *name);
            let off = words().any(|word| word.strip_prefix("NO_") == Some(name));
            match (on, off) {
                (true, _) => Some(letter.to_ascii_uppercase()),
                (_, true) => Some(*letter),
                _ => None,
            }
        };
        Self(LETTERS.iter().filter_map(letter).collect())
    }

    fn of_letters(text: &str) -> Option<Self> {
        let known = |c: char| LETTERS.iter().any(|(_, of)| *of == c.to_ascii_lowercase());
        text.chars().all(known).then(|| Self(text.to_owned()))
    }

    /// Returns whether an option is on; `None` if the kernel does not have it.
    pub(crate) fn get(&self, name: &str) -> Option<bool> {
        let (_, letter) = LETTERS.iter().find(|(known, _)| *known == name)?;
        let found = self.0.chars().find(|c| c.to_ascii_lowercase() == *letter)?;
        Some(found.is_ascii_uppercase())
    }

    /// Returns a copy of the settings in which this option is on or off, if the kernel has it.
    pub(crate) fn with_option(&self, name: &str, on: bool) -> Self {
        let letter = LETTERS.iter().find(|(known, _)| *known == name);
        let set = |c: char| match letter {
            Some((_, letter)) if c.to_ascii_lowercase() == *letter => {
                if on {
                    c.to_ascii_uppercase()
                } else {
                    c.to_ascii_lowercase()
                }
            }
            _ => c,
        };
        Self(self.0.chars().map(set).collect())
    }
}

impl OsnoiseSettings {
    pub(crate) fn read(tracefs: &Tracefs) -> Result<Self, TraceError> {
        let number = |name: &str| tracefs.number(&tracefs.file(name));
        let number_if_there = |name: &str| {
            let path = tracefs.file(name);
            match tracefs.text_if_there(&path)? {
                Some(_) => tracefs.number(&path).map(Some),
                None => Ok(None),
            }
        };
        let options = tracefs.text_if_there(&tracefs.file(OPTIONS))?;
        Ok(Self {
            cpus: cpus(tracefs)?,
            timerlat_period_us: number_if_there(TIMERLAT_PERIOD)?,
            period_us: number(PERIOD)?,
            runtime_us: number(RUNTIME)?,
            stop_us: number(STOP)?,
            stop_total_us: number(STOP_TOTAL)?,
            print_stack_us: number_if_there(PRINT_STACK)?,
            threshold_us: number(THRESHOLD)?,
            options: Options::parse(&options.unwrap_or_default()),
        })
    }

    /// Writes all settings that differ, and continues after a failure.
    pub(crate) fn write(&self, tracefs: &Tracefs) -> Vec<TraceError> {
        let number = |name: &str, value: u64| tracefs.put_number(&tracefs.file(name), value);
        let mut results = vec![
            put_options(tracefs, &self.options),
            number(STOP, self.stop_us),
            number(STOP_TOTAL, self.stop_total_us),
            self.print_stack_us
                .map_or(Ok(()), |stack| number(PRINT_STACK, stack)),
            put_cpus(tracefs, &self.cpus),
            self.timerlat_period_us
                .map_or(Ok(()), |period| number(TIMERLAT_PERIOD, period)),
        ];
        results.push(put_turns(tracefs, self.period_us, self.runtime_us));
        results.push(number(THRESHOLD, self.threshold_us));
        results.into_iter().filter_map(Result::err).collect()
    }
}

fn cpus(tracefs: &Tracefs) -> Result<CpuSet, TraceError> {
    let path = tracefs.file(CPUS);
    let found = tracefs.text(&path)?;
    if found.is_empty() {
        Ok(CpuSet::default())
    } else {
        found
            .parse()
            .map_err(|_| TraceError::NotCpus { path, found })
    }
}

fn put_cpus(tracefs: &Tracefs, wanted: &CpuSet) -> Result<(), TraceError> {
    if cpus(tracefs)? == *wanted {
        return Ok(());
    }
    let path = tracefs.file(CPUS);
    tracefs.write(&path, &format!("{wanted}\n"))?;
    let found = cpus(tracefs)?;
    if found == *wanted {
        return Ok(());
    }
    Err(TraceError::NotVerified {
        path,
        value: wanted.to_string(),
        found: found.to_string(),
    })
}

/// Writes the period and the runtime in an order that the kernel accepts. It rejects a runtime that
/// is longer than the period.
fn put_turns(tracefs: &Tracefs, period_us: u64, runtime_us: u64) -> Result<(), TraceError> {
    let (period, runtime) = (tracefs.file(PERIOD), tracefs.file(RUNTIME));
    if period_us >= tracefs.number(&runtime)? {
        tracefs.put_number(&period, period_us)?;
        tracefs.put_number(&runtime, runtime_us)
    } else {
        tracefs.put_number(&runtime, runtime_us)?;
        tracefs.put_number(&period, period_us)
    }
}

fn put_options(tracefs: &Tracefs, wanted: &Options) -> Result<(), TraceError> {
    if wanted.0.is_empty() {
        return Ok(());
    }
    let path = tracefs.file(OPTIONS);
    let now = || tracefs.text(&path).map(|text| Options::parse(&text));
    let before = now()?;
    for (name, _) in LETTERS {
        let (Some(on), Some(is)) = (wanted.get(name), before.get(name)) else {
            continue;
        };
        if on != is {
            let no = if on { "" } else { "NO_" };
            tracefs.write(&path, &format!("{no}{name}"))?;
        }
    }
    let found = now()?;
    if found == *wanted {
        return Ok(());
    }
    Err(TraceError::NotVerified {
        path: path.clone(),
        value: wanted.0.clone(),
        found: found.0,
    })
}

const PREFIX: &str = "punctual-osnoise-";

/// Maximum length of a file name in Linux, in characters (NAME_MAX in
/// `include/uapi/linux/limits.h`).
const LONGEST: usize = 255;

/// The name of an instance, which contains its owner and the settings from before the session:
/// `punctual-osnoise-PID.START.CPUS.TIMERLAT.PERIOD.RUNTIME.STOP.TOTAL.STACK.THRESHOLD.OPTIONS`.
/// `-` stands for a setting that the kernel does not have, or for an empty list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoiseName {
    pub(crate) owner: Owner,
    pub(crate) before: OsnoiseSettings,
}

impl NoiseName {
    /// Returns whether this is the name of an instance of such a session, with any owner.
    pub(crate) fn fits(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// Formats the name.
    ///
    /// # Errors
    /// Returns an error if the current list of CPUs is too long for a name.
    pub(crate) fn text(&self) -> Result<String, TraceError> {
        let Self { owner, before } = self;
        let none = || "-".to_owned();
        let perhaps = |number: Option<u64>| number.map_or_else(none, |number| number.to_string());
        let or_none = |text: String| if text.is_empty() { none() } else { text };
        let parts = [
            owner.pid.to_string(),
            owner.start.to_string(),
            or_none(before.cpus.to_string()),
            perhaps(before.timerlat_period_us),
            before.period_us.to_string(),
            before.runtime_us.to_string(),
            before.stop_us.to_string(),
            before.stop_total_us.to_string(),
            perhaps(before.print_stack_us),
            before.threshold_us.to_string(),
            or_none(before.options.0.clone()),
        ];
        let name = format!("{PREFIX}{}", parts.join("."));
        if name.len() <= LONGEST {
            Ok(name)
        } else {
            Err(TraceError::TooLong {
                cpus: before.cpus.to_string(),
            })
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.strip_prefix(PREFIX)?.split('.').collect();
        let [
            pid,
            start,
            cpus,
            timerlat,
            period,
            runtime,
            stop,
            total,
            stack,
            threshold,
            options,
        ] = parts[..]
        else {
            return None;
        };
        let perhaps = |text: &str| match text {
            "-" => Some(None),
            number => number.parse().ok().map(Some),
        };
        Some(Self {
            owner: Owner {
                pid: pid.parse().ok()?,
                start: start.parse().ok()?,
            },
            before: OsnoiseSettings {
                cpus: match cpus {
                    "-" => CpuSet::default(),
                    list => list.parse().ok()?,
                },
                timerlat_period_us: perhaps(timerlat)?,
                period_us: period.parse().ok()?,
                runtime_us: runtime.parse().ok()?,
                stop_us: stop.parse().ok()?,
                stop_total_us: total.parse().ok()?,
                print_stack_us: perhaps(stack)?,
                threshold_us: threshold.parse().ok()?,
                options: match options {
                    "-" => Options::default(),
                    letters => Options::of_letters(letters)?,
                },
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn options_are_read_and_set() {
        let text = "NO_DEFAULTS OSNOISE_WORKLOAD NO_PANIC_ON_STOP NO_OSNOISE_PREEMPT_DISABLE \
                    OSNOISE_IRQ_DISABLE";
        let options = Options::parse(text);
        assert_eq!(options.0, "WpqI");
        assert_eq!(options.get("OSNOISE_WORKLOAD"), Some(true));
        assert_eq!(options.get("PANIC_ON_STOP"), Some(false));
        assert_eq!(options.get("TIMERLAT_ALIGN"), None);
        let other = options
            .with_option("OSNOISE_WORKLOAD", false)
            .with_option("TIMERLAT_ALIGN", true);
        assert_eq!(other.0, "wpqI");
        assert_eq!(Options::parse(""), Options::default());
    }

    #[test]
    fn others_names_are_not_ours() {
        for name in [
            "",
            "punctual-osnoise-",
            "punctual-osnoise-1.2.0-1.1000.1000000.1000000.0.0.0.0",
            "punctual-osnoise-1.2.x.1000.1000000.1000000.0.0.0.0.W",
            "punctual-osnoise-1.2.0.1000.1000000.1000000.0.0.0.0.Z",
            "punctual-osnoise-1.2.0.1000.1000000.1000000.0.0.0.0.W.more",
            "punctual-flight-1.2.0",
        ] {
            assert_eq!(NoiseName::parse(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_name_says_what_was_in_force(
            (pid, start) in any::<(u32, u64)>(),
            cpus in proptest::collection::btree_set(0_u32..64, 0..20),
            timerlat_period_us: Option<u64>, print_stack_us: Option<u64>,
            (period_us, runtime_us, stop_us) in any::<(u32, u32, u32)>(),
            (stop_total_us, threshold_us) in any::<(u32, u32)>(),
            letters in "[Ww]?[Pp]?[Qq]?[Ii]?[Aa]?",
        ) {
            let before = OsnoiseSettings {
                cpus: cpus.into_iter().collect(),
                timerlat_period_us,
                period_us: period_us.into(),
                runtime_us: runtime_us.into(),
                stop_us: stop_us.into(),
                stop_total_us: stop_total_us.into(),
                print_stack_us,
                threshold_us: threshold_us.into(),
                options: Options(letters),
            };
            let name = NoiseName { owner: Owner { pid, start }, before };
            prop_assert_eq!(NoiseName::parse(&name.text().unwrap()), Some(name));
        }

        #[test]
        fn no_name_panics(text in "(punctual-osnoise-)?[0-9.,WpQ-]{0,80}") {
            let _ = NoiseName::parse(&text);
        }
    }

    #[test]
    fn what_no_name_holds_is_refused() {
        let before = OsnoiseSettings {
            cpus: (0..200).map(|cpu| cpu * 2).collect(),
            timerlat_period_us: None,
            period_us: 1,
            runtime_us: 1,
            stop_us: 0,
            stop_total_us: 0,
            print_stack_us: None,
            threshold_us: 0,
            options: Options::default(),
        };
        let owner = Owner { pid: 1, start: 2 };
        let error = NoiseName { owner, before }.text().unwrap_err();
        assert!(error.to_string().contains("osnoise/cpus"), "{error}");
    }
}
