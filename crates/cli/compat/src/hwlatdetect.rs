//! hwlatdetect finds gaps that are caused by firmware, a hypervisor or hardware.
//!
//! The facts about the original are from rt-tests 2.10, `src/hwlatdetect/hwlatdetect.py`.

use std::fmt::Write as _;
use std::sync::Arc;

use punctual_model::{Cell, CpuSet, Nanos, Recording, sanitize_lines};
use punctual_rt::Clock;
use punctual_session::{Outcome, PhaseRequest, RunLength};

use crate::live_output::Silent;
use crate::machine::Machine;
use crate::option_row::{OptionRow, put, specs};
use crate::shared;
use crate::{CompatError, Difference, Family, Given, Parsed, Tool, ToolContext};

pub(crate) const TOOL: Tool = Tool {
    name: "hwlatdetect",
    summary: "time taken by firmware, a hypervisor or the hardware, with the kernel's own detector",
    probe: "hardware",
    family: Family::RtTests,
    options: &specs::<_, { OPTIONS.len() }>(OPTIONS),
    removed: &[],
    differences: &[
        Difference {
            what: "The detector runs in a separate trace instance. Its window, width and \
                threshold are restored at the end. If another program uses the detector, the tool \
                does not run.",
            why: "The original uses the top-level trace, leaves its settings changed, and mounts \
                debugfs if necessary.",
        },
        Difference {
            what: "If the kernel lacks the tracer `hwlat`, the tool prints a message on stderr and \
                exits with status 1. `punctual measure hardware` works on such kernels too.",
            why: "The original ends with a Python traceback.",
        },
        Difference {
            what: "`ts` is the end of the spin that found the gap, in epoch seconds. At most 1000 \
                samples are listed; all are counted. With `--watch`, samples are also listed only \
                after the run.",
            why: "The recording contains the times of the kernel's reports. The original prints \
                the time of the first gap of each spin.",
        },
        Difference {
            what: "As in the original, `MTBF: 0.000 seconds` is shown if the only sample has \
                several gaps. This is not a mean, because all these gaps occurred within one spin.",
            why: "The kernel reports how many gaps a spin had, but not when they occurred.",
        },
        Difference {
            what: "`--time-format` (rt-tests after 2.10) refuses an invalid format of \
                strftime(3). Lines lack the field `delta:`, which rt-tests added with this \
                option.",
            why: "The lines are the same as those of version 2.10.",
        },
        Difference {
            what: "A width above 10 s is refused.",
            why: "Interrupts are disabled during the whole width, so the kernel's lockup detectors \
                would trigger.",
        },
        Difference {
            what: "SMIs are recorded if they can be counted, but the output does not show them.",
            why: "The original calls rdmsr(1) if it is installed.",
        },
    ],
    run,
};

/// Duration of a run if `--duration 0` is given.
const SHORTEST: Nanos = Nanos::from_millis(1);

/// The options that were given. As in the original, if an option is repeated, only its last value
/// is parsed and used.
#[derive(Default)]
struct Chosen {
    duration: Option<Given>,
    threshold: Option<Given>,
    hard_limit: Option<Given>,
    window: Option<Given>,
    width: Option<Given>,
    report: Option<Given>,
    cpu_list: Option<Given>,
    time_format: Option<Given>,
    debug: bool,
    quiet: bool,
}

/// In the order of the original's help.
const OPTIONS: &[OptionRow<Chosen>] = &[
    OptionRow::new(
        "--duration=DURATION",
        "test duration in seconds, or with s, m, h, d, w; default 120",
        put!(duration = |given| Some(given.clone())),
    ),
    OptionRow::new(
        "--threshold=THRESHOLD",
        "report gaps above this; in us, or with us, ms, s; default 10us",
        put!(threshold = |given| Some(given.clone())),
    ),
    OptionRow::new(
        "--hardlimit=HARDLIMIT",
        "exit with 1 if a gap is above this; default: the threshold",
        put!(hard_limit = |given| Some(given.clone())),
    ),
    OptionRow::new(
        "--window=WINDOW",
        "interval between starts of spins; default 1s",
        put!(window = |given| Some(given.clone())),
    ),
    OptionRow::new(
        "--width=WIDTH",
        "length of each spin; default half of the window",
        put!(width = |given| Some(given.clone())),
    ),
    OptionRow::new(
        "--report=REPORT",
        "write the samples to this file",
        put!(report = |given| Some(given.clone())),
    ),
    OptionRow::new(
        "--cpu-list=CPULIST",
        "CPUs on which the kernel's thread measures, one after the other",
        put!(cpu_list = |given| Some(given.clone())),
    ),
    OptionRow::flag("--debug", "print each step on stderr", |chosen| {
        chosen.debug = true
    }),
    OptionRow::flag("--quiet", "print the samples only", |chosen| {
        chosen.quiet = true
    }),
    OptionRow::new(
        "--time-format=FORMAT",
        "print sample times in this format of strftime(3); %f: microseconds, %n: nanoseconds",
        put!(time_format = |given| Some(given.clone())),
    ),
    // The times of samples are known only after the run, when the recording contains them.
    OptionRow::accepted("--watch", "print each sample at once"),
    OptionRow::HELP,
];

/// The settings from the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HwlatdetectSettings {
    duration_s: u64,
    threshold_us: u64,
    hard_limit_us: u64,
    window_us: u64,
    width_us: u64,
    report: Option<String>,
    /// As given on the command line.
    cpu_list: Option<String>,
    cpus: Option<CpuSet>,
    time_format: Option<String>,
    debug: bool,
    quiet: bool,
}

impl HwlatdetectSettings {
    fn read(parsed: &Parsed, context: &ToolContext<'_>) -> Result<Self, CompatError> {
        let machine = Machine::from_host(&context.host)?;
        let mut chosen = Chosen::default();
        parsed.read_into(&mut chosen, OPTIONS, &machine)?;
        let text = |given: Option<&Given>| given.map(|given| given.text().to_owned());
        let micros = |given: Option<&Given>| given.map(|given| given.micros_from(0)).transpose();
        let threshold_us = micros(chosen.threshold.as_ref())?.unwrap_or(10);
        // The defaults of the kernel, which the original does not change by default.
        let (mut window_us, mut width_us) = (1_000_000, 500_000);
        if let Some(window) = micros(chosen.window.as_ref())? {
            (window_us, width_us) = (window, width_us.min(window / 2));
        }
        if let Some(width) = micros(chosen.width.as_ref())? {
            width_us = width;
            if width > window_us {
                window_us = 2 * width;
            }
        }
        let cpus = (chosen.cpu_list.as_ref())
            .map(|given| machine.cpus(given, given.text()))
            .transpose()?;
        if let Some(given) = &chosen.time_format {
            formatted(0, given.text())
                .map_err(|error| given.bad(&format!("a format of strftime(3): {error}")))?;
        }
        Ok(Self {
            duration_s: (chosen.duration.as_ref()).map_or(Ok(120), Given::duration)?,
            threshold_us,
            hard_limit_us: micros(chosen.hard_limit.as_ref())?.unwrap_or(threshold_us),
            window_us,
            width_us,
            report: text(chosen.report.as_ref()),
            cpu_list: text(chosen.cpu_list.as_ref()),
            cpus,
            time_format: text(chosen.time_format.as_ref()),
            debug: chosen.debug,
            quiet: chosen.quiet,
        })
    }
}

fn run(parsed: &Parsed, context: &mut ToolContext<'_>) -> Result<u8, CompatError> {
    shared::warn_of_spare_words(parsed, context);
    let settings = HwlatdetectSettings::read(parsed, context)?;
    let file = shared::json_file(settings.report.as_ref())?;
    let parameters = [
        ("source", "hwlat".to_owned()),
        ("threshold", shared::micros(settings.threshold_us)),
        ("window", shared::micros(settings.window_us)),
        ("width", shared::micros(settings.width_us)),
    ];
    let mut request = shared::request(context, "hardware", &parameters, 0, settings.duration_s)?;
    request.threads.cpus.clone_from(&settings.cpus);
    request.machine.dma_latency_us = Some(0);
    // With 0, the run ends immediately. The other tools treat 0 as unlimited.
    if settings.duration_s == 0 {
        request.phases = vec![PhaseRequest::only(RunLength::For(SHORTEST), Vec::new())];
    }
    if settings.debug {
        context.say(&format!("{settings:?}"));
    }
    let session = shared::prepare(request, context)?;
    if !settings.quiet {
        // The text is sanitized, because it contains a file name from the command line.
        write!(context.out, "{}", sanitize_lines(&head(&settings), false))?;
        context.out.flush()?;
    }
    let stop = Arc::clone(&context.signals.stop);
    let outcome = session.run(context.store.as_deref(), &mut Silent, &stop)?;
    let samples = Sample::all(&outcome.recording, since_epoch());
    if !settings.quiet {
        write!(context.out, "{}", summary(&settings, &samples, &outcome))?;
    }
    let line = |sample: &Sample| sample.line(settings.time_format.as_deref());
    let lines: String = samples.iter().map(line).collect();
    if let Some(path) = &settings.report {
        shared::put_json(file, lines.as_bytes(), context)?;
        writeln!(
            context.out,
            "report saved to {path} ({} samples)",
            samples.len()
        )?;
    }
    write!(context.out, "{lines}")?;
    context.report_outcome(&outcome);
    Ok(u8::from(longest_us(&outcome) > settings.hard_limit_us))
}

/// Returns the text before the run.
fn head(settings: &HwlatdetectSettings) -> String {
    let HwlatdetectSettings {
        duration_s,
        threshold_us,
        window_us,
        width_us,
        ..
    } = settings;
    let none = |text: &Option<String>| text.clone().unwrap_or_else(|| "None".to_owned());
    format!(
        "hwlatdetect:  test duration {duration_s} seconds\n   \
         detector: tracer\n   \
         parameters:\n        \
         CPU list:          {}\n        \
         Latency threshold: {threshold_us}us\n        \
         Sample window:      {window_us}us\n        \
         Sample width:      {width_us}us\n     \
         Non-sampling period:  {}us\n        \
         Output File:       {}\n\n\
         Starting test\n",
        none(&settings.cpu_list),
        window_us.saturating_sub(*width_us),
        none(&settings.report),
    )
}

const SECOND: u64 = 1_000_000_000;

/// Formats a time since the epoch in the local time zone. The format is that of strftime(3). In
/// addition, `%f` stands for microseconds as in Python, and `%n` for nanoseconds as in rt-tests
/// since 2.10.
fn formatted(at_ns: u64, format: &str) -> Result<String, jiff::Error> {
    let mut plain = String::with_capacity(format.len());
    let mut rest = format.chars();
    while let Some(next) = rest.next() {
        let directive = (next == '%').then(|| rest.next()).flatten();
        let _ = match directive {
            Some('n') => write!(plain, "{:09}", at_ns % SECOND),
            Some('f') => write!(plain, "{:06}", at_ns % SECOND / 1_000),
            Some(other) => write!(plain, "{next}{other}"),
            None => write!(plain, "{next}"),
        };
    }
    let time = jiff::Timestamp::from_nanosecond(at_ns.into())?;
    let zoned = time.to_zoned(jiff::tz::TimeZone::system());
    jiff::fmt::strtime::format(plain, &zoned)
}

/// A report of the detector.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sample {
    /// Time since the epoch.
    at_ns: u64,
    cpu: Option<u64>,
    inner_us: u64,
    outer_us: u64,
    count: Option<u64>,
}

/// Returns the difference between the time since the epoch and CLOCK_MONOTONIC, in ns.
fn since_epoch() -> u64 {
    let (wall, own) = (Clock::Realtime.now(), Clock::Monotonic.now());
    wall.as_nanos().saturating_sub(own.as_nanos())
}

impl Sample {
    /// Returns the samples of a recording. Adds `offset_ns` to their times.
    fn all(recording: &Recording, offset_ns: u64) -> Vec<Self> {
        let tables = &recording.tables;
        let table = tables.iter().find(|table| table.name == "hwlat_reports");
        let rows = table.map_or(&[][..], |table| &table.rows);
        let of = |cell: Option<&Cell>| match cell {
            Some(Cell::Count(count)) => Some(*count),
            _ => None,
        };
        let micros = |cell| of(cell).unwrap_or(0) / Nanos::from_micros(1).0;
        rows.iter()
            .map(|row| Self {
                at_ns: of(row.first()).unwrap_or(0).saturating_add(offset_ns),
                cpu: of(row.get(1)),
                inner_us: micros(row.get(2)),
                outer_us: micros(row.get(3)),
                count: of(row.get(4)),
            })
            .collect()
    }

    fn line(&self, time_format: Option<&str>) -> String {
        let plain = || format!("{}.{:09}", self.at_ns / SECOND, self.at_ns % SECOND);
        // The format was checked before the run.
        let time = time_format.and_then(|format| formatted(self.at_ns, format).ok());
        let mut line = format!(
            "ts: {}, inner:{}, outer:{}, cpu:{}",
            time.unwrap_or_else(plain),
            self.inner_us,
            self.outer_us,
            self.cpu.map_or(-1, |cpu| cpu as i64)
        );
        if let Some(count) = self.count {
            let _ = write!(line, ", count:{count}");
        }
        line + "\n"
    }
}

fn longest_us(outcome: &Outcome) -> u64 {
    let threads = outcome.recording.threads.iter();
    let max = threads.filter_map(|thread| thread.histogram.max()).max();
    max.map_or(0, Nanos::whole_micros)
}

/// Returns the text after the run.
fn summary(settings: &HwlatdetectSettings, samples: &[Sample], outcome: &Outcome) -> String {
    let recorded: u64 = (outcome.recording.threads.iter())
        .map(|thread| thread.accounting.recorded)
        .sum();
    // Number of gaps per sample, if the kernel reports it.
    let listed = samples.iter().map(|sample| sample.count.unwrap_or(1));
    let exceeding = recorded - samples.len() as u64 + listed.sum::<u64>();
    let longest = match longest_us(outcome) {
        0 => "Below threshold".to_owned(),
        micros => format!("{micros}us"),
    };
    let mut text = format!(
        "test finished\nMax Latency: {longest}\nSamples recorded: {recorded}\n\
         Samples exceeding threshold: {exceeding}\n"
    );
    let (window_us, width_us) = (settings.window_us, settings.width_us);
    if let Some(between) = between_s(samples, exceeding, window_us, width_us) {
        let _ = writeln!(text, "MTBF: {between:.3} seconds");
    }
    text
}

/// If there are several gaps, returns the mean time between them in s. Within one sample, the exact
/// times of gaps are unknown, and the original shows 0.
fn between_s(samples: &[Sample], exceeding: u64, window_us: u64, width_us: u64) -> Option<f64> {
    let (first, last) = (samples.first()?, samples.last()?);
    let apart_s = last.at_ns.saturating_sub(first.at_ns) as f64 / 1e9;
    let spun = exceeding.saturating_sub(1) as f64 * width_us as f64;
    (exceeding > 1).then(|| apart_s * window_us as f64 / spun)
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::Table;

    #[test]
    fn times_are_since_the_epoch() {
        let mut recording = punctual_model::testing::recording(1, 0);
        let mut table = Table::new("hwlat_reports", "", &[("monotonic_ns", "time")]);
        table.push([Cell::from(Nanos::from_secs(5))]);
        recording.tables.push(table);
        let [sample] = &Sample::all(&recording, since_epoch())[..] else {
            panic!()
        };
        let now = jiff::Timestamp::now().as_second() as u64;
        // The sample is from 5 s after boot, so its time must be between 2020 and now.
        let at_s = sample.at_ns / 1_000_000_000;
        assert!((1_577_836_800..=now).contains(&at_s), "{at_s}");
    }

    /// The format is used in the kernel's documentation and in the original.
    #[test]
    fn samples_are_lines() {
        let sample = Sample {
            at_ns: 1_581_527_483_343_962_693,
            cpu: Some(7),
            inner_us: 11,
            outer_us: 12,
            count: Some(1),
        };
        let line = "ts: 1581527483.343962693, inner:11, outer:12, cpu:7, count:1\n";
        assert_eq!(sample.line(None), line);
    }

    #[test]
    fn times_have_the_requested_format() {
        let at_ns = 1_581_527_483_343_962_693;
        let formatted = |format| formatted(at_ns, format);
        assert_eq!(formatted("%s.%n").unwrap(), "1581527483.343962693");
        assert_eq!(formatted("%s %f %%n").unwrap(), "1581527483 343962 %n");
        assert_eq!(formatted("%Y%").ok(), None);
        assert!(formatted("%!").is_err());
    }

    #[test]
    fn sample_of_several_gaps_matches_original() {
        let sample = |at_ns, count| Sample {
            at_ns,
            cpu: Some(0),
            inner_us: 11,
            outer_us: 12,
            count,
        };
        assert_eq!(
            between_s(&[sample(5, Some(3))], 3, 1_000_000, 500_000),
            Some(0.0)
        );
        assert_eq!(between_s(&[sample(5, None)], 1, 1_000_000, 500_000), None);
        let two = [sample(0, Some(1)), sample(3_000_000_000, Some(1))];
        assert_eq!(between_s(&two, 2, 1_000_000, 500_000), Some(6.0));
    }
}
