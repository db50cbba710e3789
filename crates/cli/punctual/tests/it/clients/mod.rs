//! Libraries and scripts of others read what this program writes. `PUNCTUAL_CLIENTS` names a folder with
//! clones of repositories, each as `OWNER+NAME`. In that of jitterdebugger, `make jittersamples` was run.
//! Libraries are found by `NODE_PATH`, `CLASSPATH`, `PERL5LIB` and `PYTHONPATH`.

mod histograms;
mod reports;
mod suites;

use std::path::PathBuf;
use std::process::Command;

use crate::common::{Sandbox, text};
use crate::compat::stage::done;

/// How Python, Node, Java and Perl report that a library is not installed.
const LACKING: [&str; 4] = [
    "No module named",
    "Cannot find module",
    "ClassNotFoundException",
    "Can't locate",
];

/// Runs a program in the sandbox. Returns `None` if it is not installed.
fn run(place: &Sandbox, program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    let command = command.args(arguments).current_dir(place.path(""));
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            punctual_testing::skip!(Program, "{program}: {error}");
            return None;
        }
    };
    let said = text(&output.stderr);
    if LACKING.iter().any(|sign| said.contains(sign)) {
        punctual_testing::skip!(Program, "{said}");
        return None;
    }
    assert!(output.status.success(), "{program}: {said}");
    Some(text(&output.stdout).trim().to_owned())
}

fn python(place: &Sandbox, script: &str) -> Option<String> {
    run(place, "python3", &["-c", script])
}

/// Returns a file in a clone.
fn of_clone(repository: &str, file: &str) -> Option<String> {
    let folder = std::env::var_os("PUNCTUAL_CLIENTS").map(PathBuf::from);
    let path = folder.map(|folder| folder.join(repository).join(file));
    match path.filter(|path| path.is_file()) {
        Some(path) => Some(path.display().to_string()),
        None => {
            punctual_testing::skip!(Program, "no {file} of {repository} in PUNCTUAL_CLIENTS");
            None
        }
    }
}

/// Records with two threads. The requirement can be met, or not.
fn measured(place: &Sandbox, limit: &str) {
    let line = format!(
        "measure timer -D 200ms --policy other --threads 2 --samples --quiet --max-latency {limit}"
    );
    let code = place.run(&line).status.code();
    let expected = if limit == "1ns" { 3 } else { 0 };
    assert_eq!(code, Some(expected));
}

/// Returns the numbers of recorded samples of all threads.
fn samples(place: &Sandbox) -> u64 {
    let recording = place.last();
    let threads = recording.threads.iter();
    threads.map(|thread| thread.accounting.recorded).sum()
}

/// Writes a report of a met and of a broken requirement as `met.EXT` and `broken.EXT`.
fn reports(place: &Sandbox, extension: &str) {
    for (name, limit) in [("met", "1min"), ("broken", "1ns")] {
        measured(place, limit);
        place.done(&format!("report last -o {name}.{extension}"));
    }
}

#[test]
fn junitparser_counts_failures() {
    let place = Sandbox::new();
    reports(&place, "xml");
    let script = "import junitparser as j\n\
                  for name in ['met', 'broken']:\n \
                  x = j.JUnitXml.fromfile(name + '.xml'); x.update_statistics()\n \
                  print(x.tests, x.failures)";
    if let Some(found) = python(&place, script) {
        assert_eq!(found, "1 0\n1 1");
    }
}

#[test]
fn tap_py_reads_results() {
    let place = Sandbox::new();
    reports(&place, "tap");
    let script = "from tap.parser import Parser\n\
                  for name in ['met', 'broken']:\n \
                  lines = Parser().parse_file(name + '.tap')\n \
                  print([line.ok for line in lines if line.category == 'test'])";
    if let Some(found) = python(&place, script) {
        // It may first warn that it does not parse YAML.
        let results: Vec<&str> = found.lines().filter(|line| line.starts_with('[')).collect();
        assert_eq!(results, ["[True]", "[False]"]);
    }
}

#[test]
fn prove_accepts_a_met_requirement() {
    let place = Sandbox::new();
    reports(&place, "tap");
    if let Some(found) = run(&place, "prove", &["-e", "cat", "met.tap"]) {
        assert!(found.contains("Result: PASS"), "{found}");
        let mut command = Command::new("prove");
        let command = command.args(["-e", "cat", "broken.tap"]);
        let output = command.current_dir(place.path("")).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn kcidb_io_validates_results() {
    let place = Sandbox::new();
    reports(&place, "kcidb.json");
    let script = "import json, kcidb_io\n\
                  latest = kcidb_io.schema.LATEST\n\
                  for name in ['met', 'broken']:\n \
                  data = json.load(open(name + '.kcidb.json'))\n \
                  data = latest.validate(latest.upgrade(data))\n \
                  print([test['status'] for test in data['tests']])";
    if let Some(found) = python(&place, script) {
        assert_eq!(found, "['PASS']\n['FAIL']");
    }
}

/// Writes each sample, and returns their number.
fn exported(place: &Sandbox) -> u64 {
    measured(place, "1min");
    place.done("export last --format csv -o s.csv");
    place.done("export last -o s.parquet");
    place.done("export last --format csv-histogram -o h.csv");
    samples(place)
}

#[test]
fn pandas_counts_each_sample() {
    let place = Sandbox::new();
    let all = exported(&place);
    let script = "import pandas as p\n\
                  s, h = p.read_csv('s.csv'), p.read_csv('h.csv')\n\
                  print(len(s), h['count'].sum(), s.groupby('thread').size().tolist())\n\
                  print(s['latency_ns'].max())";
    let Some(found) = python(&place, script) else {
        return;
    };
    let recording = place.last();
    let threads = recording.threads.iter();
    let each: Vec<u64> = threads.map(|one| one.accounting.recorded).collect();
    let max = recording
        .threads
        .iter()
        .filter_map(|one| one.histogram.max());
    let max = max.max().unwrap().0;
    assert_eq!(found, format!("{all} {all} {each:?}\n{max}"));
}

#[test]
fn pyarrow_reads_each_sample() {
    let place = Sandbox::new();
    let all = exported(&place);
    let script = "import pyarrow.parquet as a\n\
                  t = a.read_table('s.parquet')\nprint(t.num_rows, t.column_names)";
    if let Some(found) = python(&place, script) {
        let columns = "['thread', 'cpu', 'expected_ns', 'latency_ns']";
        assert_eq!(found, format!("{all} {columns}"));
    }
}

#[test]
fn polars_reads_each_sample() {
    let place = Sandbox::new();
    let all = exported(&place);
    let script = "import polars as p\n\
                  print(p.read_parquet('s.parquet').height, p.read_csv('s.csv').height)";
    if let Some(found) = python(&place, script) {
        assert_eq!(found, format!("{all} {all}"));
    }
}

/// Maximum number of runs of cyclictest until each thread has samples. On a busy machine, the first thread
/// that has all of its samples may end the run before another has one.
const RUNS: u32 = 50;

/// The compatible cyclictest writes its files, and so does the original. Returns whether the original is
/// installed.
fn files_of_cyclictest(place: &Sandbox) -> bool {
    let line = "-q -l 100 -t 2 -i 500 --policy=other -h 400 --json=own.json";
    let is_whole = |run: &dyn Fn() -> bool, file: &str| {
        (0..RUNS).any(|_| {
            run()
                && !std::fs::read_to_string(place.path(file))
                    .unwrap()
                    .contains(r#""cycles": 0,"#)
        })
    };
    let own = || {
        let (histogram, _) = done(place, line);
        std::fs::write(place.path("cyclictest-histogram.log"), histogram).unwrap();
        true
    };
    assert!(is_whole(&own, "own.json"), "a thread had no sample");
    let line = line.replace("own", "original");
    let original = || {
        let mut original = Command::new("/usr/bin/cyclictest");
        let original = original.args(line.split(' ')).current_dir(place.path(""));
        original
            .output()
            .is_ok_and(|output| output.status.success())
    };
    is_whole(&original, "original.json")
}

/// Minimum, rounded average and maximum of each thread in µs.
fn figures(place: &Sandbox) -> Vec<[u64; 3]> {
    let recording = place.last();
    let threads = recording.threads.iter().map(|thread| {
        let histogram = &thread.histogram;
        [histogram.min(), histogram.mean(), histogram.max()]
            .map(|value| value.unwrap().whole_micros())
    });
    threads.collect()
}

#[test]
fn parser_of_linaro_reads_cyclictest() {
    let place = Sandbox::new();
    let file = "automated/lib/parse_rt_tests_results.py";
    let Some(parser) = of_clone("Linaro+test-definitions", file) else {
        return;
    };
    let has_original = files_of_cyclictest(&place);
    let parse = |file: &str| run(&place, "python3", &[&parser, "cyclictest", file]);
    let Some(found) = parse("own.json") else {
        return;
    };
    let mut lines = found.lines();
    for (number, figures) in figures(&place).into_iter().enumerate() {
        for (key, value) in ["min", "avg", "max"].into_iter().zip(figures) {
            let line = lines.next().unwrap_or_default();
            let begin = format!("t{number}-{key}-latency pass {value}");
            assert!(line.starts_with(&begin), "{line}: {begin}");
        }
    }
    assert_eq!(lines.collect::<Vec<_>>(), ["cyclictest pass"]);
    if has_original {
        let keys = |text: &str| -> Vec<String> {
            let keys = text.lines().filter_map(|line| line.split(' ').next());
            keys.map(str::to_owned).collect()
        };
        assert_eq!(keys(&parse("original.json").unwrap()), keys(&found));
    }
}

#[test]
fn extractor_of_mmtests_reads_cyclictest() {
    let place = Sandbox::new();
    let file = "shellpack_src/src/cyclictest/extract-report.pl";
    let Some(extractor) = of_clone("gormanm+mmtests", file) else {
        return;
    };
    files_of_cyclictest(&place);
    let call = "sub open_log { open(my $file, '<', $_[0]); $file } require $ARGV[0]; \
                extractReport({}, '.')";
    let Some(found) = run(&place, "perl", &["-e", call, &extractor]) else {
        return;
    };
    // It leaves out the last thread of each line.
    let [min, _, max] = figures(&place)[0];
    for (key, value) in [("Min", min), ("Max", max)] {
        let row = format!("{key}Lat\t0\t_\t0\t{value}\t_");
        assert!(found.lines().any(|line| line == row), "{row}: {found}");
    }
}

#[test]
fn jq_reads_a_recording() {
    let place = Sandbox::new();
    let all = exported(&place);
    place.done("export last --format json -o r.json");
    let filter = "[.threads[].recorded] | add";
    if let Some(found) = run(&place, "jq", &[filter, "r.json"]) {
        assert_eq!(found, all.to_string());
    }
}
