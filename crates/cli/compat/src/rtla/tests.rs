//! Tests of the command line and of the output of rtla.

use punctual_formats::{CountSamples, Source, recognise};
use punctual_model::{Completion, Nanos, Policy, Recording, Sample, SignedNanos, testing};
use punctual_session::TracerGroup;

use super::actions::Action;
use super::options;
use super::settings::RtlaSettings;
use super::table::Table;
use crate::machine::Machine;
use crate::{CompatError, TOOLS, getopt};

pub(super) fn try_read(name: &str, line: &str) -> Result<RtlaSettings, CompatError> {
    let machine = Machine {
        present: "0-7".parse().unwrap(),
        allowed: "2-5".parse().unwrap(),
    };
    let (table, default) = match name {
        "rtla timerlat hist" => (options::TIMERLAT_HIST, RtlaSettings::timerlat()),
        "rtla timerlat top" => (options::TIMERLAT_TOP, RtlaSettings::timerlat()),
        "rtla osnoise hist" => (options::OSNOISE_HIST, RtlaSettings::osnoise()),
        "rtla osnoise top" => (options::OSNOISE_TOP, RtlaSettings::osnoise()),
        _ => (options::OSNOISE_TOP, RtlaSettings::hwnoise()),
    };
    let tool = TOOLS.iter().find(|tool| tool.name == name).unwrap();
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let parsed = getopt::parse(&words, tool.options, false)?;
    RtlaSettings::read(&parsed, table, &machine, default)
}

fn hist(line: &str) -> RtlaSettings {
    try_read("rtla timerlat hist", line).unwrap()
}

#[test]
fn options_of_the_original_are_read() {
    let settings = hist("-c 0-1 -p 500 -P f:90 -d 1m -T 50 -b 10 -E 20 -u -n --warm-up 2");
    assert_eq!(settings.cpus, Some("0-1".parse().unwrap()));
    assert_eq!(settings.scheduling, Some((Policy::Fifo, 90)));
    assert_eq!((settings.period_us, settings.duration_s), (500, 60));
    assert_eq!((settings.stop_us, settings.stop_total_us), (0, 50));
    assert_eq!((settings.rows.width, settings.rows.entries), (10, 20));
    assert!(settings.user_threads && settings.nanos);
    assert_eq!(settings.warm_up_s, 2);
    let auto = hist("-a 30 --dma-latency 0 --deepest-idle-state -1");
    assert_eq!(
        (auto.stop_us, auto.stop_total_us, auto.stack_us),
        (30, 30, 30)
    );
    assert_eq!((auto.dma_latency_us, auto.idle_state), (Some(0), Some(-1)));
    assert_eq!(
        auto.on_threshold,
        [Action::Trace("timerlat_trace.txt".into())]
    );
    // The next word is the file of the trace, not an unused word.
    assert_eq!(hist("-t out.txt -T 5").stop_total_us, 5);
}

#[test]
fn trace_is_written_after_the_other_actions() {
    let trace = |file: &str| Action::Trace(file.into());
    for (line, files) in [
        ("", vec![]),
        ("-t", vec![trace("timerlat_trace.txt")]),
        ("-t --no-aa", vec![trace("timerlat_trace.txt")]),
        ("-t=own.txt", vec![trace("own.txt")]),
        ("-t own.txt -a 5", vec![trace("own.txt")]),
        (
            "-t own.txt --on-threshold trace --on-threshold continue",
            vec![
                trace("timerlat_trace.txt"),
                Action::Continue,
                trace("own.txt"),
            ],
        ),
        ("--on-end trace", vec![]),
    ] {
        assert_eq!(hist(line).on_threshold, files, "{line}");
    }
    let noise = try_read("rtla osnoise hist", "-t").unwrap();
    assert_eq!(noise.on_threshold, [trace("osnoise_trace.txt")]);
}

#[test]
fn events_have_their_filters_and_triggers() {
    let line = "-e sched -e irq:irq_handler_entry --filter irq==3 --trigger hist:key=irq";
    let settings = hist(line);
    let [all, one] = &settings.events[..] else {
        panic!("{:?}", settings.events)
    };
    assert_eq!((all.to_string(), &all.filter), ("sched".to_owned(), &None));
    assert_eq!(one.to_string(), "irq:irq_handler_entry");
    assert_eq!(one.filter.as_deref(), Some("irq==3"));
    assert_eq!(one.trigger.as_deref(), Some("hist:key=irq"));
    assert_eq!(hist("-C").group, Some(TracerGroup::Own));
    let named = Some(TracerGroup::Named("a/b".to_owned()));
    assert_eq!(hist("-C a/b").group, named);
    assert_eq!(hist("-C=a/b").group, named);
}

#[test]
fn causes_are_recorded_above_the_lowest_limit() {
    for (line, above) in [
        ("", None),
        ("-T 30", Some(29)),
        ("-T 30 --no-aa", None),
        ("-s 20", Some(20)),
        ("-s 20 --no-aa", Some(20)),
        ("-s 50 -T 30 -i 40", Some(29)),
    ] {
        assert_eq!(hist(line).explained_above_us(), above, "{line}");
    }
}

#[test]
fn what_has_no_effect_is_named() {
    assert_eq!(hist("--dump-tasks").warnings.len(), 1);
    assert_eq!(hist("--trace-buffer-size 100").buffer_kib, Some(100));
    for (line, reason) in [
        ("-U", "-U is not supported"),
        ("-e ../x", "SYSTEM:EVENT"),
        ("--filter x", "--filter requires a previous -e"),
        ("--trigger x", "--trigger requires a previous -e"),
        ("-e sched --filter x", "sched:EVENT"),
        ("--bpf-action x.o", "--on-threshold"),
        ("--stack-format full", "explain"),
        ("-A 100", "--aligned"),
        ("-P d:100:1000", "SCHED_DEADLINE"),
        ("-P o:5", "o:0"),
        ("-P f:100", "f:99"),
        ("-P fifo", "f:1 to f:99"),
        ("-p 99", "100"),
        ("-p 1000001", "1000000"),
        ("-d 0", "above 0"),
        ("-b 0", "1 or more"),
        (
            "-E 9",
            "Entries must be > 10 and < 10000000\n--entries: '9'",
        ),
        ("-E 10000000", "9999999"),
        ("--no-irq --no-thread", "no column"),
        ("--no-index", "--with-zeros"),
        ("-u -k", "exclude each other"),
        ("--dma-latency 10001", "10000"),
        ("--deepest-idle-state -2", "-1 or more"),
        ("--on-threshold stop", "an action"),
        ("-c 9", "does not exist"),
    ] {
        let error = try_read("rtla timerlat hist", line).unwrap_err();
        // Only an unknown option ends with the status of the usage.
        assert!(
            matches!(error, CompatError::Exit { status: 1, .. }),
            "{line}"
        );
        let error = error.to_string();
        assert!(error.contains(reason), "{line}: {error}");
    }
    let only = try_read("rtla timerlat top", "--aa-only 5").unwrap();
    assert!(only.only_analysis && only.on_threshold.is_empty());
    assert_eq!((only.stop_us, only.stop_total_us), (5, 5));
    assert!(try_read("rtla timerlat top", "--aa-only 5 --no-aa").is_err());
    assert!(try_read("rtla timerlat hist", "--aa-only 5").is_err());
    assert!(try_read("rtla timerlat top", "-b 5").is_err());
}

/// Returns a recording that begins, with the rows of the kernel's tracer on CPUs 1 and 2.
fn begun(contexts: &[&str]) -> Recording {
    let mut recording = testing::recording(2 * contexts.len() as u32, 0);
    for (place, thread) in recording.threads.iter_mut().enumerate() {
        let (cpu, context) = (1 + place / contexts.len(), place % contexts.len());
        thread.cpu = Some(cpu as u32);
        thread.label = Some(format!("CPU {cpu}, {}", contexts[context]));
    }
    recording
}

fn samples(values: &[i64]) -> Vec<Sample> {
    let sample = |us: &i64| Sample {
        expected: Nanos(1),
        latency: SignedNanos(us * 1_000 + 700),
    };
    values.iter().map(sample).collect()
}

pub(super) const LENGTH: Nanos = Nanos::from_secs(2);

/// The columns and rows of the fixture, which is from the original.
#[test]
fn histogram_has_the_form_of_the_original() {
    const ORIGINAL: &str =
        include_str!("../../../../data/formats/tests/fixtures/rtla-timerlat-hist-all.txt");
    let mut table = Table::new(&hist("-b 10"), true);
    table.begin(&begun(&["interrupt", "thread", "user space"]));
    let row = |low: i64, mid: i64, high: i64, counts: [usize; 3]| {
        let [a, b, c] = counts;
        let mut all = vec![low; a];
        all.extend(vec![mid; b]);
        all.extend(vec![high; c]);
        samples(&all)
    };
    let columns = [
        row(0, 10, 20, [1_000, 0, 0]),
        row(3, 10, 22, [930, 69, 1]),
        row(4, 10, 25, [120, 877, 3]),
        row(0, 10, 20, [999, 0, 0]),
        row(2, 11, 20, [990, 9, 0]),
        row(3, 12, 21, [980, 18, 1]),
    ];
    for (place, samples) in (0..).zip(&columns) {
        table.add(place, samples);
    }
    let text = table.histogram(LENGTH);
    // The original's summary has other samples within the same rows.
    let rows = |text: &str| -> Vec<String> {
        let lines = text.lines().take_while(|line| !line.starts_with("min:"));
        lines.map(|line| line.trim_end().to_owned()).collect()
    };
    assert_eq!(rows(&text), rows(ORIGINAL));
    let names = |text: &str| -> Vec<String> {
        let name = |line: &str| {
            line.split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        text.lines().map(name).collect()
    };
    assert_eq!(names(&text), names(ORIGINAL));
    let widths =
        |text: &str| -> Vec<usize> { text.lines().map(|line| line.trim_end().len()).collect() };
    assert_eq!(widths(&text), widths(ORIGINAL));
}

pub(super) fn import(text: &str) -> Recording {
    let mut source = Source::new("file", text.as_bytes());
    let import = recognise("file", &source.head().unwrap()).unwrap();
    (import.read)(&mut source, &mut CountSamples::default()).unwrap()
}

#[test]
fn importers_read_both_forms() {
    for contexts in [
        &["interrupt", "thread", "user space"][..],
        &["interrupt", "thread"],
        &["own"],
    ] {
        for (line, unit) in [("-b 5 -E 10", 1_000), ("-n -b 7000", 1)] {
            for histogram in [true, false] {
                let mut table = Table::new(&hist(line), histogram);
                table.begin(&begun(contexts));
                for place in 0..(2 * contexts.len()) as u32 {
                    table.add(
                        place,
                        &samples(&[3, 0, 80, 12, 12, 4, 9 + i64::from(place)]),
                    );
                }
                let text = if histogram {
                    table.histogram(LENGTH)
                } else {
                    table.top(LENGTH)
                };
                let recording = import(&format!("{text}timerlat hit stop tracing\n"));
                assert_eq!(recording.completion, Completion::Break, "{text}");
                assert_eq!(recording.duration_ns, LENGTH);
                let read = recording.threads.last().unwrap();
                assert_eq!(read.histogram.count(), 7, "{text}");
                let max = Nanos(80_700 / unit * unit);
                assert_eq!(read.histogram.max(), Some(max), "{text}");
                assert_eq!(read.cpu, Some(2));
            }
        }
    }
}

#[test]
fn top_has_the_form_of_the_original() {
    const ORIGINAL: &str =
        include_str!("../../../../data/formats/tests/fixtures/rtla-timerlat-top.txt");
    let mut table = Table::new(&hist(""), false);
    table.begin(&begun(&["interrupt", "thread"]));
    for place in 0..4 {
        table.add(place, &samples(&[0, 1, 88]));
    }
    let shape = |text: &str| -> Vec<String> {
        let blank = |line: &str| {
            let digits = line.trim_end().chars();
            digits
                .map(|c| if c.is_ascii_digit() { ' ' } else { c })
                .collect()
        };
        text.lines().map(blank).collect()
    };
    let text = table.top(Nanos::from_secs(600));
    // In the original's file, the sum has a digit more than its column.
    let rows = |text: &str| shape(text)[..6].to_vec();
    assert_eq!(rows(&text), rows(ORIGINAL));
    assert!(
        text.contains("ALL #6      e0 |                  0        29        88 |"),
        "{text}"
    );
    assert_eq!(Table::new(&hist(""), false).top(LENGTH).lines().count(), 3);
}

#[test]
fn histogram_omits_what_it_is_told() {
    let mut table = Table::new(
        &hist("--no-irq --no-header --no-summary --no-index --with-zeros -E 10"),
        true,
    );
    table.begin(&begun(&["interrupt", "thread"]));
    table.add(1, &samples(&[2, 50]));
    let text = table.histogram(LENGTH);
    assert_eq!(text.lines().count(), 11, "{text}");
    assert_eq!(text.lines().nth(2), Some("        1 "));
    assert_eq!(text.lines().last(), Some("        1 "));
}
