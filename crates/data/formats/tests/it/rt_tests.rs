//! Tests of rt-tests' files, byte for byte: a recording with the numbers of a real file of
//! cyclictest 2.10 is written as exactly that file.

use std::collections::BTreeMap;
use std::io;

use punctual_formats::{Export, ExportOptions, NoSamples, SampleSource, format};
use punctual_model::{
    Accounting, Completion, CpuSet, Fact, Histogram, Nanos, Outcome, Recording, Sample,
    SamplesKept, SignedNanos, ThreadRecord, testing,
};
use serde_json::Value;

const H200_JSON: &str = include_str!("../fixtures/cyclictest-2.10-h200.json");
const H200_TEXT: &str = include_str!("../fixtures/cyclictest-2.10-h200.txt");
const H20_JSON: &str = include_str!("../fixtures/cyclictest-2.10-h20-overflows.json");
const H20_TEXT: &str = include_str!("../fixtures/cyclictest-2.10-h20-overflows.txt");
const QUOTE_JSON: &str = include_str!("../fixtures/cyclictest-2.10-quote-in-cmdline-invalid.json");

/// Samples in memory.
struct CollectedSamples(Vec<Vec<Sample>>);

impl SampleSource for CollectedSamples {
    fn for_each(
        &self,
        thread: u32,
        chunk: &mut dyn FnMut(&[Sample]) -> io::Result<()>,
    ) -> io::Result<()> {
        self.0[thread as usize].chunks(7).try_for_each(chunk)
    }
}

fn written(name: &str, recording: &Recording, samples: &dyn SampleSource, rows: usize) -> String {
    // The format of the text in version 2.10.
    let options = ExportOptions {
        histogram_us: Some(rows),
        sparse_rows: true,
        extra_key: false,
    };
    written_with(name, recording, samples, options)
}

fn written_with(
    name: &str,
    recording: &Recording,
    samples: &dyn SampleSource,
    options: ExportOptions,
) -> String {
    let export = Export {
        recording,
        samples,
        options,
    };
    let mut bytes = Vec::new();
    (format(name).unwrap().write)(&export, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Content of one thread of a cyclictest file.
struct Figures {
    rows: BTreeMap<u64, u64>,
    cycles: u64,
    min: u64,
    max: u64,
    avg: f64,
    cpu: i64,
}

fn figures(thread: &Value) -> Figures {
    let number = |key: &str| thread[key].as_u64().unwrap();
    let rows = thread["histogram"].as_object().unwrap();
    Figures {
        rows: (rows.iter())
            .map(|(us, count)| (us.parse().unwrap(), count.as_u64().unwrap()))
            .collect(),
        cycles: number("cycles"),
        min: number("min"),
        max: number("max"),
        avg: thread["avg"].as_f64().unwrap(),
        cpu: thread["cpu"].as_i64().unwrap(),
    }
}

/// Returns the latencies of a thread, in µs: those in its rows, and those at or above `limit`, one
/// for each remaining cycle, chosen so that the maximum and the mean match the file.
fn latencies(figures: &Figures, limit: u64) -> (Vec<u64>, Vec<u64>) {
    let inside: Vec<u64> = (figures.rows.iter())
        .flat_map(|(us, count)| vec![*us; *count as usize])
        .collect();
    let beyond = figures.cycles - inside.len() as u64;
    let total = (figures.avg * figures.cycles as f64).round() as u64;
    let mut rest = total - inside.iter().sum::<u64>() - figures.max;
    let mut outside = vec![figures.max];
    for left in (1..beyond).rev() {
        let one = rest / left;
        assert!((limit..=figures.max).contains(&one), "{one}");
        outside.push(one);
        rest -= one;
    }
    assert_eq!(rest, 0);
    (inside, outside)
}

fn thread_record(figures: &Figures, latencies_us: impl Iterator<Item = u64>) -> ThreadRecord {
    let mut histogram = Histogram::new();
    for us in latencies_us {
        histogram.record(SignedNanos(us as i64 * 1_000));
    }
    let recorded = histogram.recorded();
    assert_eq!(recorded, figures.cycles);
    assert_eq!(histogram.min(), Some(Nanos::from_micros(figures.min)));
    ThreadRecord {
        cpu: u32::try_from(figures.cpu).ok(),
        accounting: Accounting {
            expected: recorded + 103,
            recorded,
            missed: 3,
            warm_up: 100,
            ..Accounting::default()
        },
        histogram,
        ..testing::recording(1, 0).threads.remove(0)
    }
}

/// Returns a recording with the content of the file. Samples beyond `limit` are placed at the
/// cycles listed in the text file first, and any others after these.
fn recording_of(json: &str, text: &str, limit: u64) -> (Recording, CollectedSamples) {
    let file: Value = serde_json::from_str(json).unwrap();
    let string = |value: &Value| value.as_str().unwrap().to_owned();
    let fact = |key: &str| Fact::known(string(&file["sysinfo"][key]), "uname");
    let mut recording = testing::recording(1, 0);
    recording.probe.command_line = string(&file["cmdline:"])
        .split(' ')
        .map(str::to_owned)
        .collect();
    let host = &mut recording.host;
    host.hostname = fact("nodename");
    host.kernel.release = fact("release");
    host.kernel.version = fact("version");
    host.kernel.architecture = fact("machine");
    host.kernel.preempt_rt = Fact::known(file["sysinfo"]["realtime"] == 1, "realtime");
    host.processor.numa_nodes = Fact::known([0].into_iter().collect(), "node/online");
    recording.verdict.outcome = Outcome::Met;
    // Both fixtures began in this minute: "Sat, 21 Nov 2026 18:57:36 +0000".
    let second = |key: &str| -> u64 { string(&file[key])[23..25].parse().unwrap() };
    recording.started = format!("2026-11-21T18:57:{:02}Z", second("start_time"))
        .parse()
        .unwrap();
    recording.duration_ns = Nanos::from_secs(second("end_time") - second("start_time"));
    recording.threads.clear();
    let mut kept = CollectedSamples(Vec::new());
    for (place, thread) in file["thread"].as_object().unwrap().values().enumerate() {
        let figures = figures(thread);
        let (inside, outside) = latencies(&figures, limit);
        let ordered = interleave(inside, outside, &listed_cycles(text, place));
        kept.0.push((ordered.iter().zip(0..)).map(sample).collect());
        let record = thread_record(&figures, ordered.into_iter());
        recording.threads.push(record);
    }
    recording.samples = Some(SamplesKept {
        count: recording.accounting().recorded,
        ..SamplesKept::default()
    });
    (recording, kept)
}

fn sample((us, place): (&u64, u64)) -> Sample {
    Sample {
        expected: Nanos::from_millis(86_400_000 + place),
        latency: SignedNanos(*us as i64 * 1_000),
    }
}

/// Returns the cycle numbers in the line `# Thread N: 00443 01104 # 00007 others`.
fn listed_cycles(text: &str, place: usize) -> Vec<usize> {
    let head = format!("# Thread {place}: ");
    let line = text.lines().find(|line| line.starts_with(&head)).unwrap();
    let list = line[head.len()..].split('#').next().unwrap();
    list.split_whitespace()
        .map(|n| n.parse().unwrap())
        .collect()
}

fn interleave(inside: Vec<u64>, outside: Vec<u64>, cycles: &[usize]) -> Vec<u64> {
    let (mut inside, mut outside) = (inside.into_iter(), outside.into_iter());
    let total = inside.len() + outside.len();
    let last = cycles.last().copied().unwrap_or(0);
    (0..total)
        .map(|cycle| {
            let is_outside = cycles.contains(&cycle) || (cycle > last && outside.len() > 0);
            let next = if is_outside { outside.next() } else { None };
            next.or_else(|| inside.next()).unwrap()
        })
        .collect()
}

/// Returns the text without the added key, which is the only difference.
fn without_additions(text: &str) -> String {
    let start = text.find(",\n  \"punctual\": {\n").unwrap();
    assert!(text.ends_with("\n  }\n}\n"));
    format!("{}\n}}\n", &text[..start])
}

#[test]
fn extra_key_is_written_only_on_request() {
    let (recording, _) = recording_of(H200_JSON, H200_TEXT, 200);
    let options = ExportOptions {
        extra_key: true,
        histogram_us: Some(200),
        ..ExportOptions::default()
    };
    let with = written_with("cyclictest-json", &recording, &NoSamples, options);
    let without = written("cyclictest-json", &recording, &NoSamples, 200);
    assert_eq!(without_additions(&with), without);
    let dataset = written("rt-dataset", &recording, &NoSamples, 200);
    assert!(!dataset.contains("\"punctual\""), "{dataset}");
}

#[test]
fn json_equals_the_original_byte_for_byte() {
    for (json, text, rows) in [(H200_JSON, H200_TEXT, 200), (H20_JSON, H20_TEXT, 20)] {
        let (recording, _) = recording_of(json, text, rows);
        let ours = written("cyclictest-json", &recording, &NoSamples, rows as usize);
        assert_eq!(ours, json);
        serde_json::from_str::<Value>(&ours).unwrap();
    }
}

#[test]
fn text_equals_the_original_byte_for_byte() {
    // One line of the fixture is cyclictest's own warning on stderr.
    let h20 = H20_TEXT.strip_prefix("WARN: not setting cpu_dma_latency from cyclictest\n");
    for (json, text, rows) in [(H200_JSON, H200_TEXT, 200), (H20_JSON, h20.unwrap(), 20)] {
        let (recording, kept) = recording_of(json, text, rows);
        let ours = written("cyclictest-hist", &recording, &kept, rows as usize);
        assert_eq!(ours, text);
    }
}

#[test]
fn cycle_numbers_are_not_made_up() {
    let (mut recording, kept) = recording_of(H200_JSON, H200_TEXT, 200);
    recording.samples = None;
    let ours = written("cyclictest-hist", &recording, &kept, 200);
    let (rows, _) = H200_TEXT.split_once("# Thread 0").unwrap();
    let unknown = "# Thread 0:  # 00024 others\n# Thread 1:  # 00029 others\n\n";
    assert_eq!(ours, format!("{rows}{unknown}"));
}

#[test]
fn lost_sample_makes_cycle_numbers_unknown() {
    let (recording, mut kept) = recording_of(H200_JSON, H200_TEXT, 200);
    kept.0[1].remove(0);
    let ours = written("cyclictest-hist", &recording, &kept, 200);
    let expected = H200_TEXT.lines().find(|l| l.starts_with("# Thread 0"));
    assert!(ours.contains(expected.unwrap()));
    assert!(ours.contains("# Thread 1:  # 00029 others\n"), "{ours}");
}

#[test]
fn quoted_command_line_stays_whole() {
    assert!(serde_json::from_str::<Value>(QUOTE_JSON).is_err());
    let line = QUOTE_JSON.lines().nth(2).unwrap();
    let command = line.strip_prefix("  \"cmdline:\": \"").unwrap();
    let command = command.strip_suffix("\",").unwrap();
    let mut recording = testing::recording(1, 1);
    recording.probe.command_line = command.split(' ').map(str::to_owned).collect();
    let ours = written("cyclictest-json", &recording, &NoSamples, 100);
    let file: Value = serde_json::from_str(&ours).unwrap();
    assert_eq!(file["cmdline:"], command);
}

#[test]
fn thread_without_samples_matches_original_layout() {
    let mut recording = testing::recording(1, 0);
    recording.threads[0].cpu = None;
    let ours = written("cyclictest-json", &recording, &NoSamples, 100);
    let thread = "    \"0\": {\n      \"histogram\": {\n      },\n      \"cycles\": 0,\n      \"min\": 0,\n      \"max\": 0,\n      \"avg\": 0.00,\n      \"cpu\": -1,\n      \"node\": 0\n    }\n";
    assert!(ours.contains(thread), "{ours}");
    let text = written("cyclictest-hist", &recording, &NoSamples, 100);
    // The colon is followed by a space, because the original prints it before its list.
    assert_eq!(
        text,
        "# Histogram\n\
         # Min Latencies: 00000\n\
         # Avg Latencies: 00000\n\
         # Max Latencies: 00000\n\
         # Histogram Overflows: 00000\n\
         # Histogram Overflow at cycle number:\n\
         # Thread 0: \n\n"
    );
}

#[test]
fn what_is_not_known_is_said() {
    let mut recording = testing::recording(1, 1);
    let host = &mut recording.host;
    host.hostname = Fact::unknown("/proc/sys/kernel/hostname", "not there");
    host.kernel.preempt_rt = Fact::unknown("/sys/kernel/realtime", "not there");
    let nodes: CpuSet = [0, 1].into_iter().collect();
    host.processor.numa_nodes = Fact::known(nodes, "node/online");
    let ours = written("cyclictest-json", &recording, &NoSamples, 100);
    let file: Value = serde_json::from_str(&ours).unwrap();
    assert_eq!(file["sysinfo"]["nodename"], "unknown");
    assert_eq!(file["sysinfo"]["realtime"], Value::Null);
    assert_eq!(file["thread"]["0"]["node"], -1);
}

#[test]
fn return_code_is_of_the_measurement() {
    let mut recording = testing::recording(1, 1);
    for (completion, outcome, code) in [
        (Completion::Finished, Outcome::Met, 0),
        (Completion::Finished, Outcome::NoRequirement, 0),
        (Completion::Finished, Outcome::Exceeded, 3),
        (Completion::Finished, Outcome::NotDecidable, 4),
        (Completion::Break, Outcome::Met, 3),
        (Completion::Stopped, Outcome::Exceeded, 130),
        (Completion::Interrupted, Outcome::Met, 1),
        (Completion::Running, Outcome::Met, 1),
    ] {
        (recording.completion, recording.verdict.outcome) = (completion, outcome);
        let ours = written("cyclictest-json", &recording, &NoSamples, 100);
        let file: Value = serde_json::from_str(&ours).unwrap();
        assert_eq!(file["return_code"], code, "{completion} {outcome:?}");
    }
}

#[test]
fn full_rows_are_all_there() {
    let (recording, kept) = recording_of(H200_JSON, H200_TEXT, 200);
    let options = ExportOptions {
        histogram_us: Some(200),
        ..ExportOptions::default()
    };
    let full = written_with("cyclictest-hist", &recording, &kept, options);
    let rows: Vec<&str> = full.lines().filter(|l| !l.starts_with('#')).collect();
    assert_eq!(rows.len(), 201, "200 rows and the empty line");
    assert_eq!(rows[0], "000000 000000\t000000");
    // This line, the sum of each column, is where scripts stop reading.
    let place = full.lines().position(|line| line.starts_with("# Total:"));
    assert_eq!(place, Some(201));
    let sum = |column| -> u64 {
        let counts = rows[..200]
            .iter()
            .map(|row| row.split(['\t', ' ']).nth(column));
        counts
            .map(|count| count.unwrap().parse::<u64>().unwrap())
            .sum()
    };
    let total = format!("# Total: {:09} {:09}", sum(1), sum(2));
    assert_eq!(full.lines().nth(201), Some(total.as_str()));
    let sparse: Vec<&str> = (full.lines())
        .filter(|line| line.starts_with('#') || !line.ends_with(" 000000\t000000"))
        .filter(|line| !line.starts_with("# Total"))
        .collect();
    assert_eq!(sparse.join("\n") + "\n", H200_TEXT);
}
