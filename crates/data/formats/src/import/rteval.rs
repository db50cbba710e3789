//! `rteval-xml`: the `summary.xml` of rteval.
//!
//! This is based on rteval's source (3.x): `rteval/rtevalReport.py` (`run_info`),
//! `rteval/sysinfo/*.py` (`SystemInfo`), `rteval/modules/__init__.py` (`timestamps`),
//! `rteval/modules/loads/__init__.py` (`loads`), and `rteval/modules/measurement/cyclictest.py` and
//! `timerlat.py`, which run `cyclictest -q -m -u -h N` and `rtla timerlat hist -u -E N
//! --no-summary` and keep only the rows of their output:
//!
//! - `samples`, `mean` and similar figures are computed from the rows; samples beyond the rows are
//!   not included in any of them. `maximum` is the last filled row. In later versions, for
//!   cyclictest, it is the value in cyclictest's line `Max Latencies`.
//! - If the maximum is beyond the rows, later versions keep no figures at all. For timerlat, this
//!   also happens if tracing was stopped at a threshold.
//! - timerlat's interrupt, thread and user-space latencies are added up into one histogram.
//! - All times are local, without a time zone.

use std::collections::BTreeMap;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use punctual_model::{
    Completion, CpuSet, Fact, LoadRecord, Nanos, Policy, Recording, Scheduling, ThreadRecord,
    Unknown,
};

use super::blank::{MICROSECOND, THREADS, blank, finish, learn, thread};
use super::counted::Counted;
use super::head::shown;
use super::text::count;
use super::xml::{Element, walk};
use super::{Head, Import, ImportError, Location, Malformed, SampleSink, Source};

pub(crate) const IMPORT: Import = Import {
    name: "rteval-xml",
    summary: "the cyclictest or rtla timerlat measurement in rteval's summary.xml",
    documentation: "Each core becomes a thread. The figures of the whole system are the sums of \
        all cores, and are used only as a check. rteval stores the histogram rows of the tools it \
        runs and drops samples beyond the rows. If a maximum shows that there were such samples, \
        one sample of unknown latency is counted, with a warning. For timerlat, rteval combines \
        the interrupt, thread and user-space latencies in one histogram. The percentiles and the \
        mean then describe this mixture, and a warning is given.

The file states the start without a time zone; UTC is assumed, with a warning. rteval omits the \
        figures if the maximum exceeds its rows or tracing stopped the run. Such a file is \
        refused. Other measurements (hwlatdetect, sysstat) are not read.",
    has_samples: false,
    unit_known: true,
    recognise,
    read,
};

fn recognise(head: &Head<'_>) -> bool {
    head.begins_with(b'<') && head.contains("<rteval ")
}

/// Reads the whole file; the last step is [`Reading::finish`].
fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    let mut reading = Reading {
        file: source.name().to_owned(),
        recording: blank(source, IMPORT.name, "rteval", "timer"),
        version: String::new(),
        tool: None,
        group: Group::default(),
        system: None,
        cores: Vec::new(),
        interval: (None, None),
    };
    walk(source, &mut |open| reading.element(open))?;
    let recording = reading.finish();
    recording.map_err(|reason| source.bad_at(Location::Whole, reason))
}

/// A tool that rteval runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tool {
    Cyclictest,
    Timerlat,
}

/// State while the file is being read.
struct Reading {
    file: String,
    recording: Recording,
    /// Version of rteval.
    version: String,
    tool: Option<Tool>,
    /// Figures of the core or system element that is being read.
    group: Group,
    /// Samples of the whole system.
    system: Option<u64>,
    cores: Vec<Core>,
    /// Start and end of the tool's run.
    interval: (Option<DateTime>, Option<DateTime>),
}

/// Figures of a core or of the system.
#[derive(Default)]
struct Group {
    counted: Counted,
    samples: Option<u64>,
}

struct Core {
    cpu: u32,
    priority: Option<u8>,
    group: Group,
}

impl Reading {
    /// Handles the end of an element, which is the last one of those that are open.
    fn element(&mut self, open: &[Element]) -> Result<(), Malformed> {
        let path: Vec<&str> = open.iter().map(|element| element.name.as_str()).collect();
        let Some(last) = open.last() else {
            return Ok(());
        };
        match path.as_slice() {
            ["rteval"] => {
                let version = last.attribute("version").unwrap_or("of unknown version");
                self.version = version.to_owned();
            }
            ["rteval", "run_info"] => self.run_info(last)?,
            ["rteval", "run_info", "annotate"] => {
                self.recording.label = Some(last.text.trim().to_owned());
            }
            ["rteval", "SystemInfo", rest @ ..] => self.system_info(rest, last),
            ["rteval", "loads", "command_line"] => self.load(last),
            ["rteval", "Measurements", tool, rest @ ..] => {
                let tool = match *tool {
                    "cyclictest" => Tool::Cyclictest,
                    "timerlat" => Tool::Timerlat,
                    _ => return Ok(()),
                };
                if self.tool.get_or_insert(tool) != &tool {
                    return Err(Malformed::BothTools);
                }
                self.measurement(rest, last)?;
            }
            ["rteval", ..] => {}
            [other, ..] => {
                return Err(Malformed::OtherRoot((*other).to_owned()));
            }
            [] => {}
        }
        Ok(())
    }

    /// Reads `days`, `hours`, `minutes` and `seconds`: the total duration.
    fn run_info(&mut self, element: &Element) -> Result<(), Malformed> {
        let mut seconds = 0u64;
        for (name, per) in [("days", 1), ("hours", 24), ("minutes", 60), ("seconds", 60)] {
            let part = element.attribute(name).map_or(Ok(0), count)?;
            let sum = seconds.checked_mul(per).and_then(|s| s.checked_add(part));
            seconds = sum.ok_or(Malformed::DurationTooLong)?;
        }
        let ns = seconds.checked_mul(1_000_000_000);
        self.recording.duration_ns = Nanos(ns.ok_or(Malformed::DurationTooLong)?);
        learn(&mut self.recording, &[Unknown::Duration]);
        Ok(())
    }

    /// Reads facts about the host.
    fn system_info(&mut self, path: &[&str], element: &Element) {
        let text = element.text.trim().to_owned();
        let host = &mut self.recording.host;
        let known = |text: String| Fact::known(text, self.file.as_str());
        match path {
            ["uname", "node"] => host.hostname = known(text),
            ["uname", "arch"] => host.kernel.architecture = known(text),
            ["uname", "baseos"] if text != "unknown" => host.distribution.name = known(text),
            ["uname", "kernel"] => {
                host.kernel.release = known(text);
                if let Some(flag) = element.attribute("is_RT") {
                    host.kernel.preempt_rt = Fact::known(flag == "1", self.file.as_str());
                }
            }
            ["cmdlineInfo", "cmdline"] => host.kernel.command_line = known(text),
            ["Kernel", "ClockSource", "source"] => {
                if element.attribute("current") == Some("1") {
                    host.clock.source = known(text.clone());
                }
                let mut all = host.clock.available.value.take().unwrap_or_default();
                all.push(text);
                host.clock.available = Fact::known(all, self.file.as_str());
            }
            ["CPUtopology", "cpu"] => {
                let Some(cpu) = element.attribute("name").and_then(cpu_number) else {
                    return;
                };
                let flag = |name: &str| element.attribute(name) == Some("1");
                let processor = &mut host.processor;
                for (is, fact) in [
                    (true, &mut processor.present),
                    (flag("online"), &mut processor.online),
                    (flag("isolated"), &mut processor.isolated),
                ] {
                    let mut set = fact.value.take().unwrap_or_default();
                    if is {
                        set.insert(cpu);
                    }
                    *fact = Fact::known(set, self.file.as_str());
                }
            }
            _ => {}
        }
    }

    fn load(&mut self, element: &Element) {
        // `run="0"` means that the tool was configured but not run.
        if element.attribute("run") == Some("0") {
            return;
        }
        let command = element.text.trim().to_owned();
        self.recording.load.push(LoadRecord {
            name: element.attribute("name").unwrap_or("unnamed").to_owned(),
            parameters: BTreeMap::from([("command".to_owned(), command.into())]),
            ..LoadRecord::default()
        });
    }

    /// Reads the results of a tool, below `Measurements/TOOL`.
    fn measurement(&mut self, path: &[&str], element: &Element) -> Result<(), Malformed> {
        let text = element.text.trim();
        match path {
            [] => {
                let line = element.attribute("command_line").unwrap_or_default();
                let words = line.split_ascii_whitespace().map(str::to_owned);
                self.recording.probe.command_line = words.collect();
            }
            ["abort_report"] => self.recording.completion = Completion::Break,
            ["stoptrace_invoked"] if element.attribute("invoked") == Some("true") => {
                self.recording.completion = Completion::Break;
            }
            ["timestamps", "runloop_start"] => self.interval.0 = text.parse().ok(),
            ["timestamps", "runloop_stop"] => self.interval.1 = text.parse().ok(),
            ["core" | "system", "statistics", figure] => self.figure(figure, element)?,
            ["core" | "system", "histogram", "bucket"] => {
                let needed = |name| {
                    let value = element.attribute(name);
                    count(value.ok_or(Malformed::BucketWithout(name))?)
                };
                let lower = micros(needed("index")?)?;
                if self.group.counted.rows.contains_key(&lower.0) {
                    return Err(Malformed::BucketTwice(lower));
                }
                self.group.counted.add(lower, needed("value")?);
            }
            ["system"] => {
                let group = std::mem::take(&mut self.group);
                self.system = group.samples;
            }
            ["core"] => self.core(element)?,
            _ => {}
        }
        Ok(())
    }

    /// Reads one figure of `statistics`. The remaining figures follow from the rows.
    fn figure(&mut self, name: &str, element: &Element) -> Result<(), Malformed> {
        let text = element.text.trim();
        if element.attribute("unit").is_some_and(|unit| unit != "us") {
            return Err(Malformed::OtherUnit(name.to_owned()));
        }
        let counted = &mut self.group.counted;
        match name {
            "samples" => self.group.samples = Some(count(text)?),
            "minimum" => counted.min = Some(micros(count(text)?)?),
            "maximum" => counted.max = Some(micros(count(text)?)?),
            _ => {}
        }
        Ok(())
    }

    fn core(&mut self, element: &Element) -> Result<(), Malformed> {
        let group = std::mem::take(&mut self.group);
        let id = element.attribute("id").ok_or(Malformed::CoreWithoutId)?;
        let cpu = id.parse().ok().filter(|cpu| *cpu <= CpuSet::MAX_CPU);
        let cpu = cpu.ok_or_else(|| Malformed::NotACore(shown(id.as_bytes())))?;
        if self.cores.iter().any(|core| core.cpu == cpu) {
            return Err(Malformed::CoreTwice(cpu));
        }
        if self.cores.len() == THREADS {
            return Err(Malformed::TooManyCores(THREADS));
        }
        let priority = element.attribute("priority").and_then(|p| p.parse().ok());
        self.cores.push(Core {
            cpu,
            priority: priority.filter(|priority| (1..=99).contains(priority)),
            group,
        });
        Ok(())
    }

    /// Builds the recording.
    fn finish(mut self) -> Result<Recording, Malformed> {
        let Some(tool) = self.tool else {
            return Err(Malformed::NoMeasurement);
        };
        if self.cores.is_empty() {
            return Err(Malformed::NoFigures);
        }
        let samples = self
            .cores
            .iter()
            .map(|core| core.group.samples.unwrap_or(0));
        let sum = samples.fold(0, u64::saturating_add);
        if let Some(system) = self.system.filter(|system| *system != sum) {
            return Err(Malformed::SamplesOfSystem { system, sum });
        }
        self.times();
        self.parameters(tool);
        let end = option(
            &self.recording,
            if tool == Tool::Timerlat { "-E" } else { "-h" },
        );
        let mut beyond = 0;
        for (place, core) in std::mem::take(&mut self.cores).into_iter().enumerate() {
            let cpu = core.cpu;
            let (thread, lost) = core_thread(place, core, tool, end.map(Nanos::from_micros))
                .map_err(|why| why.within(format!("core {cpu}")))?;
            beyond += u64::from(lost);
            self.recording.threads.push(thread);
        }
        self.warn(tool, beyond);
        // The file lists the loads, so if it contains none, the run had no loads.
        learn(&mut self.recording, &[Unknown::Load]);
        Ok(finish(self.recording))
    }

    /// Sets the start and the duration of the tool's run. If these are missing, those of the whole
    /// run are kept.
    fn times(&mut self) {
        let (Some(start), stop) = self.interval else {
            return;
        };
        let zone = TimeZone::UTC;
        let Ok(started) = zone.to_timestamp(start) else {
            return;
        };
        self.recording.started = started;
        learn(&mut self.recording, &[Unknown::Started]);
        self.recording.warnings.push(format!(
            "the start, {start}, is a local time without a time zone: UTC is assumed"
        ));
        let length = stop.and_then(|stop| zone.to_timestamp(stop).ok());
        let length = length.map(|stop| stop.duration_since(started).as_nanos());
        if let Some(length) = length.and_then(|ns| u64::try_from(ns).ok()) {
            self.recording.duration_ns = Nanos(length);
            learn(&mut self.recording, &[Unknown::Duration]);
        }
    }

    fn parameters(&mut self, tool: Tool) {
        let (name, period) = match tool {
            Tool::Cyclictest => ("cyclictest", "-i"),
            Tool::Timerlat => ("rtla timerlat", "-p"),
        };
        self.recording.probe.program = format!("{name} by rteval {}", self.version);
        if let Some(origin) = &mut self.recording.origin {
            origin.tool.clone_from(&self.recording.probe.program);
        }
        if let Some(us) = option(&self.recording, period) {
            let parameters = &mut self.recording.probe.parameters;
            parameters.insert("interval_ns".to_owned(), us.saturating_mul(1_000).into());
        }
    }

    fn warn(&mut self, tool: Tool, beyond: u64) {
        let warnings = &mut self.recording.warnings;
        if beyond > 0 {
            warnings.push(format!(
                "rteval does not count the samples beyond its histogram: the maxima show that \
                 {beyond} cores had such samples, and one sample is counted for each of these \
                 cores"
            ));
        }
        if tool == Tool::Timerlat {
            warnings.push(
                "rteval combines the latencies of the interrupt, the thread and the return to \
                 user space: the percentiles and the mean describe all three together"
                    .to_owned(),
            );
        }
        if tool == Tool::Timerlat || beyond == 0 {
            warnings.push(
                "samples beyond rteval's histogram, if any, are missing from these figures and \
                 from the maxima (for cyclictest, later versions of rteval include them in the \
                 maxima)"
                    .to_owned(),
            );
        }
    }
}

/// Returns the thread of a core, and whether there are samples beyond the rows, which end at `end`.
fn core_thread(
    place: usize,
    core: Core,
    tool: Tool,
    end: Option<Nanos>,
) -> Result<(ThreadRecord, bool), Malformed> {
    let Group {
        mut counted,
        samples,
    } = core.group;
    (counted.unit, counted.row) = (MICROSECOND, MICROSECOND);
    let samples = samples.ok_or(Malformed::MissingSamples)?;
    let total = counted.total()?;
    if total != samples {
        return Err(Malformed::SamplesInBuckets { total, samples });
    }
    let lost = samples > 0 && counted.max.is_some_and(|max| max >= counted.end());
    if lost {
        counted.beyond = 1;
        counted.from = counted.end().max(end.unwrap_or(Nanos::ZERO));
        // The maximum would be within the rows, but the row that would contain it is empty.
        if counted.max.is_some_and(|max| max < counted.from) {
            return Err(Malformed::MaximumInNoBucket);
        }
    }
    let mut thread = thread(place, Some(core.cpu), counted.histogram()?);
    if tool == Tool::Timerlat {
        thread.label = Some(format!("CPU {}, interrupt to user space", core.cpu));
    }
    if let Some(priority) = core.priority {
        // rteval starts both with SCHED_FIFO.
        let policy = Policy::Fifo;
        thread.scheduling = Scheduling { policy, priority };
    }
    Ok((thread, lost))
}

/// Returns the number of an option in the tool's command line: `-h 3500`, `-i100`.
fn option(recording: &Recording, option: &str) -> Option<u64> {
    let words = &recording.probe.command_line;
    let place = words.iter().position(|word| word.starts_with(option))?;
    match &words[place][option.len()..] {
        "" => words.get(place + 1)?.parse().ok(),
        number => number.parse().ok(),
    }
}

fn micros(us: u64) -> Result<Nanos, Malformed> {
    let ns = us.checked_mul(1_000).map(Nanos);
    ns.ok_or(Malformed::MicrosTooMany(us))
}

/// Parses `cpu3`.
fn cpu_number(name: &str) -> Option<u32> {
    let number = name.strip_prefix("cpu")?.parse().ok();
    number.filter(|cpu| *cpu <= CpuSet::MAX_CPU)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{read_text, refused};
    use super::*;

    // These files were written by hand, based on rteval's source.
    const CYCLICTEST: &str = include_str!("../../tests/fixtures/rteval-cyclictest.xml");
    const TIMERLAT: &str = include_str!("../../tests/fixtures/rteval-timerlat.xml");

    #[test]
    fn each_core_is_a_thread() {
        let recording = read_text(&IMPORT, CYCLICTEST).unwrap();
        let [first, second] = [0, 1].map(|place| &recording.threads[place]);
        assert_eq!((first.cpu, second.cpu), (Some(0), Some(2)));
        assert_eq!(first.scheduling.to_string(), "fifo 95");
        assert_eq!(first.histogram.count(), 600);
        assert_eq!(first.histogram.max(), Some(Nanos::from_micros(17)));
        assert_eq!(second.histogram.unplaced(), 1);
        assert_eq!(
            second.histogram.unplaced_from(),
            Some(Nanos::from_micros(20))
        );
        assert_eq!(second.histogram.max(), Some(Nanos::from_micros(20)));
        let interval = recording.duration_parameter("interval_ns");
        assert_eq!(interval, Some(Nanos::from_micros(100)));
        assert_eq!(recording.duration_ns, Nanos(60_250_000_000));
        assert_eq!(recording.started.to_string(), "2025-03-04T10:11:12.5Z");
        assert_eq!(
            recording.host.processor.isolated.get().unwrap().to_string(),
            "2"
        );
        assert_eq!(recording.host.kernel.preempt_rt.get(), Some(&true));
        assert_eq!(recording.host.clock.source.get().unwrap(), "tsc");
        let loads: Vec<&str> = recording
            .load
            .iter()
            .map(|load| load.name.as_str())
            .collect();
        assert_eq!(loads, ["kcompile"]);
        assert_eq!(recording.label.as_deref(), Some("board 7 & its twin"));
        let origin = recording.origin.unwrap();
        assert_eq!(origin.tool, "cyclictest by rteval 3.9");
    }

    /// A real file, written by rteval 3.8 with cyclictest.
    #[test]
    fn what_rteval_wrote_comes_in() {
        let text = include_str!("../../tests/fixtures/rteval-summary.xml");
        let recording = read_text(&IMPORT, text).unwrap();
        let counts: Vec<(Option<u32>, u64)> = (recording.threads.iter())
            .map(|thread| (thread.cpu, thread.histogram.count()))
            .collect();
        assert_eq!(counts, [(Some(0), 450), (Some(1), 451)]);
        assert_eq!(recording.threads[0].scheduling.to_string(), "fifo 95");
        assert_eq!(recording.duration_ns.whole_micros(), 6_019_053);
        assert_eq!(recording.host.clock.source.get().unwrap(), "tsc");
        assert_eq!(recording.host.kernel.preempt_rt.get(), Some(&false));
        assert_eq!(recording.origin.unwrap().tool, "cyclictest by rteval 3.8");
    }

    #[test]
    fn timerlat_says_what_it_mixes() {
        let recording = read_text(&IMPORT, TIMERLAT).unwrap();
        assert_eq!(
            recording.threads[0].title(),
            "CPU 1, interrupt to user space"
        );
        assert!(recording.warnings.iter().any(|w| w.contains("all three")));
        assert_eq!(recording.completion, Completion::Finished);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let with = |from: &str, to: &str| {
            assert!(CYCLICTEST.contains(from), "{from}");
            // Replaces the text in the figures of the cores, if it occurs there.
            let cores = CYCLICTEST.find("<core").unwrap();
            let place = CYCLICTEST[cores..].find(from).map(|place| cores + place);
            let place = place.unwrap_or_else(|| CYCLICTEST.find(from).unwrap());
            let (before, after) = CYCLICTEST.split_at(place);
            let text = format!("{before}{to}{}", &after[from.len()..]);
            refused(&IMPORT, text.as_bytes())
        };
        for (from, to, reason) in [
            (
                "<samples>1199</samples>",
                "<samples>1198</samples>",
                "whole system has 1198",
            ),
            (
                "<samples>600</samples>",
                "<samples>601</samples>",
                "sum of its cores is 1200",
            ),
            ("index=\"17\"", "index=\"9\"", "twice"),
            ("index=\"17\"", "index=\"1x\"", "'1x' is not a count"),
            ("index=\"17\"", "index=\"18\"", "core 0: the maximum"),
            ("core id=\"2\"", "core id=\"0\"", "core 0 appears twice"),
            ("core id=\"2\"", "core id=\"99999\"", "not a CPU"),
            ("minimum unit=\"us\"", "minimum unit=\"ns\"", "not in us"),
            ("<cyclictest ", "<cyclist ", "well-formed"),
        ] {
            let error = with(from, to);
            assert!(error.contains(reason), "{from}: {error}");
        }
        let start = CYCLICTEST.find("<system").unwrap();
        let end = CYCLICTEST.find("<timestamps").unwrap();
        let empty = format!("{}{}", &CYCLICTEST[..start], &CYCLICTEST[end..]);
        let error = refused(&IMPORT, empty.as_bytes());
        assert!(error.contains("omits them"), "{error}");
        let other = "<rteval version='1'><Measurements/></rteval>";
        assert!(refused(&IMPORT, other.as_bytes()).contains("no measurement"));
    }
}
