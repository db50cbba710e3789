//! Test suites of others read what oslat, hwlatdetect, rtla and the other tools of rt-tests print: the
//! originals and the compatible commands.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{of_clone, run};
use crate::common::{Sandbox, text};
use crate::compat::stage::{done_as, tool};

/// Prints the figure in the file that a script of Crucible has written.
const FIGURE: &str = "import lzma; \
    print(lzma.open('postprocess/metric-data-0.csv.xz', 'rt').read().split(',')[3])";

/// Lets a script of Crucible read an output. Returns the longest latency that it finds, in µs.
fn crucible(place: &Sandbox, name: &str, script: &str, output: &str) -> Option<i64> {
    let script = of_clone(&format!("perftool-incubator+bench-{name}"), script)?;
    let toolbox = of_clone(
        "perftool-incubator+toolbox",
        "python/toolbox/cdm_metrics.py",
    )?;
    let home = Path::new(&toolbox).ancestors().nth(3)?.display();
    let results = format!("{name}-bin-stderrout.txt");
    for (file, content) in [(&*results, output), ("begin.txt", "1"), ("end.txt", "2")] {
        std::fs::write(place.path(file), content).unwrap();
    }
    std::fs::create_dir_all(place.path("postprocess")).unwrap();
    let call = format!("TOOLBOX_HOME='{home}' python3 '{script}'");
    run(place, "sh", &["-c", &call])?;
    let figure = run(place, "python3", &["-c", FIGURE])?;
    Some(figure.parse().unwrap())
}

/// Returns the output of the original; `None` if it is not installed or refuses to run.
pub(super) fn original(place: &Sandbox, program: &str, line: &str) -> Option<String> {
    let mut command = Command::new(program);
    let command = command.args(line.split_whitespace());
    match command.current_dir(place.path("")).output() {
        Ok(output) if output.status.success() => Some(text(&output.stdout)),
        Ok(output) => {
            punctual_testing::skip_refused(program, text(&output.stderr));
            None
        }
        Err(error) => {
            punctual_testing::skip!(Program, "{program}: {error}");
            None
        }
    }
}

/// Returns an output of an original that was published.
fn published(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/formats/tests/fixtures");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// Imports an output. Returns the longest latency in it, in whole µs.
pub(super) fn imported(place: &Sandbox, output: &str) -> i64 {
    std::fs::write(place.path("output.txt"), output).unwrap();
    place.done("import output.txt");
    longest(place)
}

/// Returns the longest latency in the last recording, in whole µs.
fn longest(place: &Sandbox) -> i64 {
    let recording = place.last();
    let threads = recording.threads.iter();
    let longest = threads.filter_map(|thread| thread.histogram.max()).max();
    longest.map_or(0, |longest| longest.whole_micros() as i64)
}

#[test]
fn crucible_reads_oslat() {
    if !rustix::process::geteuid().is_root() {
        punctual_testing::skip!(Right, "oslat: no real-time priority");
        return;
    }
    let place = Sandbox::new();
    let line = "-D 1 -c 0 -w memmove -m 4K";
    let Some(original) = original(&place, "/usr/bin/oslat", line) else {
        return;
    };
    let (own, _) = done_as(&place, "oslat", line);
    let in_own = longest(&place);
    let read = |output: &str| crucible(&place, "oslat", "oslat-post-process.py", output);
    let Some(found) = read(&own) else {
        return;
    };
    assert_eq!(found, in_own, "{own}");
    assert_eq!(
        read(&original).unwrap(),
        imported(&place, &original),
        "{original}"
    );
}

#[test]
fn crucible_reads_hwlatdetect() {
    let place = Sandbox::new();
    let read =
        |output: &str| crucible(&place, "hwlatdetect", "hwlatdetect-post-process.py", output);
    for name in ["2.4", "report", "mtbf"] {
        let output = published(&format!("hwlatdetect-{name}.txt"));
        let Some(found) = read(&output) else {
            return;
        };
        assert_eq!(found, imported(&place, &output), "{output}");
    }
    // Without a gap, the script takes the threshold.
    assert_eq!(read(&published("hwlatdetect-clean.txt")), Some(10));
    let line = "compat hwlatdetect --duration 1 --threshold 1us --window 100ms --width 10ms";
    let own = text(&place.run(line).stdout);
    // Some kernels lack the tracer, and then there is no output.
    if !own.is_empty() {
        assert_eq!(read(&own).unwrap(), longest(&place).max(1), "{own}");
    }
}

/// Lets a script of Crucible read the table that a tool of rtla prints at its end.
fn crucible_reads_rtla(name: &str, line: &str, example: &str) {
    let place = Sandbox::new();
    let script = format!("{name}-post-process");
    let read = |output: &str| crucible(&place, name, &script, output);
    let output = published(example);
    let Some(found) = read(&output) else {
        return;
    };
    assert_eq!(found, longest_in_table(&output, name), "{output}");
    let (own, _) = done_as(&place, "rtla", &format!("{line} -c 0 -d 1 -P o:0"));
    assert_eq!(read(&own).unwrap(), longest_in_table(&own, name), "{own}");
}

/// Returns the largest figure in the columns of maxima. The scripts skip a row without a figure, such as that
/// of threads in user space, which do not see the timer's interrupt.
fn longest_in_table(table: &str, name: &str) -> i64 {
    let columns: &[usize] = if name == "timerlat" { &[6, 11] } else { &[5] };
    let rows = table.lines().map(|line| line.split_whitespace().collect());
    let is_cpu = |row: &Vec<&str>| row.first().is_some_and(|cpu| cpu.parse::<u32>().is_ok());
    let rows: Vec<Vec<&str>> = rows.filter(|row| is_cpu(row) && row.len() > 6).collect();
    let figures = rows.iter().filter_map(|row| {
        let figures = columns.iter().map(|column| row.get(*column)?.parse().ok());
        figures.collect::<Option<Vec<i64>>>()?.into_iter().max()
    });
    figures.max().unwrap_or(-1)
}

#[test]
fn crucible_reads_rtla_timerlat() {
    crucible_reads_rtla("timerlat", "timerlat top -q", "rtla-timerlat-top.txt");
}

#[test]
fn crucible_reads_rtla_osnoise() {
    crucible_reads_rtla("osnoise", "osnoise top -q", "rtla-osnoise-top-live.txt");
}

#[test]
fn crucible_reads_rtla_hwnoise() {
    crucible_reads_rtla("hwnoise", "hwnoise -q", "rtla-6.18-hwnoise.txt");
}

/// Minimum, average and maximum of each thread or interrupt, by its key.
type Columns = BTreeMap<String, [u64; 3]>;

/// Lets the two scripts of Linaro read a histogram without a head. Returns their lines.
fn linaro(place: &Sandbox, name: &str, histogram: &str) -> Option<Columns> {
    let transform = of_clone(
        "Linaro+test-definitions",
        "automated/linux/rtla/parse_rtla.py",
    )?;
    let parser = of_clone(
        "Linaro+test-definitions",
        "automated/lib/parse_rt_tests_results.py",
    )?;
    std::fs::write(place.path("rtla.txt"), histogram).unwrap();
    let arguments = [&*transform, "-t", name, "-r", "rtla.txt", "-o", "rtla.json"];
    run(place, "python3", &arguments)?;
    let found = run(place, "python3", &[&parser, name, "rtla.json"])?;
    assert!(found.ends_with(&format!("{name} pass")), "{found}");
    Some(columns(&found))
}

/// Parses lines such as `t0-max-latency pass 12 us`.
fn columns(lines: &str) -> Columns {
    let mut columns = Columns::new();
    for line in lines.lines() {
        let Some((key, figure)) = line.split_once(" pass ") else {
            continue;
        };
        let Some((column, rest)) = key.split_once('-') else {
            continue;
        };
        let place = ["min", "avg", "max"]
            .iter()
            .position(|name| rest.starts_with(name));
        let figure = figure.split(' ').next().unwrap_or_default();
        let figure: f64 = figure.parse().unwrap();
        columns.entry(column.to_owned()).or_default()[place.unwrap()] = figure as u64;
    }
    columns
}

/// Returns minimum, average and maximum of each thread in the last recording, in whole µs.
pub(super) fn figures(place: &Sandbox) -> Vec<[u64; 3]> {
    let recording = place.last();
    let threads = recording.threads.iter().map(|thread| {
        let histogram = &thread.histogram;
        [histogram.min(), histogram.mean(), histogram.max()]
            .map(|figure| figure.map_or(0, |figure| figure.whole_micros()))
    });
    threads.collect()
}

/// Checks that the scripts of Linaro and `import` read the same figures in a histogram. The scripts read
/// the output of `--no-header`. `keys`: those of the columns of a CPU.
fn compare_with_linaro(place: &Sandbox, name: &str, histogram: &str, keys: &[&str]) {
    let is_head = |line: &&str| line.starts_with(['#', 'I']);
    let without_head = histogram.lines().filter(|line| !is_head(line));
    let without_head: String = without_head.map(|line| format!("{line}\n")).collect();
    let Some(found) = linaro(place, name, &without_head) else {
        return;
    };
    imported(place, histogram);
    let imported = figures(place);
    assert_eq!(found.len(), imported.len(), "{found:?} {histogram}");
    for (number, [min, avg, max]) in imported.into_iter().enumerate() {
        let key = format!("{}{}", keys[number % keys.len()], number / keys.len());
        let theirs = found[&key];
        assert_eq!((theirs[0], theirs[2]), (min, max), "{key} {histogram}");
        assert!(theirs[1].abs_diff(avg) <= 1, "{key} {avg} {theirs:?}");
    }
}

/// The scripts take whole numbers only. Newer versions of rtla print averages with decimals, and `-` for a
/// column without samples, and so does the compatible command.
#[test]
fn linaro_reads_rtla_timerlat() {
    let place = Sandbox::new();
    let example = published("rtla-6.1-timerlat-hist.txt");
    compare_with_linaro(&place, "timerlat", &example, &["i", "t"]);
}

#[test]
fn linaro_reads_rtla_osnoise() {
    let place = Sandbox::new();
    let example = published("rtla-6.1-osnoise-hist.txt");
    compare_with_linaro(&place, "osnoise", &example, &["t"]);
}

/// The tools whose JSON a suite of Linaro reads, except cyclictest, and oslat.
const WITH_JSON: [(&str, &str); 7] = [
    ("signaltest", "-q -D 1 -t 2"),
    ("pmqtest", "-q -D 1 -S"),
    ("ptsematest", "-q -D 1 -S"),
    ("sigwaittest", "-q -D 1 -t"),
    ("svsematest", "-q -D 1 -S"),
    ("cyclicdeadline", "-q -D 1 -t 1 -i 10000"),
    ("oslat", "-q -D 1 -c 0"),
];

#[test]
fn linaro_reads_the_json_of_rt_tests() {
    let place = Sandbox::new();
    let file = "automated/lib/parse_rt_tests_results.py";
    let Some(parser) = of_clone("Linaro+test-definitions", file) else {
        return;
    };
    let parse = |name: &str, file: &str| run(&place, "python3", &[&parser, name, file]);
    for (name, line) in WITH_JSON {
        let line = format!("{line} --json=own.json");
        let output = tool(&place, name, &line).output().unwrap();
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
        let Some(own) = parse(name, "own.json") else {
            return;
        };
        let own = columns(&own);
        let figures = figures(&place);
        assert!(
            !own.is_empty() && own.len() == figures.len(),
            "{name}: {own:?} {figures:?}"
        );
        for (theirs, [min, avg, max]) in own.values().zip(figures) {
            assert_eq!(theirs[2], max, "{name}");
            // The recording of oslat has only the longer iterations.
            if name != "oslat" {
                assert_eq!(theirs[0], min, "{name}");
                assert!(theirs[1].abs_diff(avg) <= 1, "{name}: {theirs:?} {avg}");
            }
        }
        let line = line.replace("own", "original");
        let program = format!("/usr/bin/{name}");
        if original(&place, &program, &line).is_none() {
            return;
        }
        let Some(theirs) = parse(name, "original.json") else {
            return;
        };
        let keys = |columns: &Columns| columns.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&columns(&theirs)), keys(&own), "{name}");
    }
}

/// Lets the plugin run the program in its second argument in place of rtla. Prints the figures that it has
/// read.
const ARCAFLOW: &str = "
import io, json, sys
sys.path.insert(0, sys.argv[1])
import rtla_plugin
from arcaflow_plugin_sdk import plugin
start = rtla_plugin.subprocess.Popen
def other(command, **options):
    return start([sys.argv[2]] + command[1:], **options)
rtla_plugin.subprocess.Popen = other
schema = plugin.build_schema(rtla_plugin.StartTimerlatStep.run_timerlat)
said, sys.stdout = sys.stdout, io.StringIO()
params = rtla_plugin.TimerlatInputParams(duration=1)
kind, found = schema.call_step('run', 'run-timerlat', params)
sys.stdout = said
assert kind == 'success', found
total = [found.total_irq_latency, found.total_thr_latency]
print(json.dumps({'columns': found.stats_per_col, 'total': [one.__dict__ for one in total]}))
";

/// The plugin runs a program. Returns what it read.
fn arcaflow(place: &Sandbox, program: &str) -> Option<Value> {
    let file = "arcaflow_plugin_rtla/rtla_plugin.py";
    let plugin = of_clone("arcalot+arcaflow-plugin-rtla", file)?;
    let folder = Path::new(&plugin).parent()?.display().to_string();
    let found = run(place, "python3", &["-c", ARCAFLOW, &folder, program])?;
    Some(serde_json::from_str(&found).unwrap())
}

/// Checks that the plugin and `import` read the same figures in an output.
fn compare_with_arcaflow(place: &Sandbox, found: &Value, output: &str) {
    imported(place, output);
    let imported = figures(place);
    let rows = found["columns"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["index"] == name).unwrap();
    let head = output.lines().find(|line| line.starts_with("Index"));
    let columns: Vec<String> = (head.unwrap().split_whitespace().skip(1))
        .map(str::to_lowercase)
        .collect();
    assert_eq!(columns.len(), imported.len(), "{output}");
    for (column, [min, _, max]) in columns.iter().zip(&imported) {
        assert_eq!(row("min")[column], *min, "{column} {output}");
        assert_eq!(row("max")[column], *max, "{column} {output}");
    }
    for (place, kind) in ["irq", "thr"].iter().enumerate() {
        let own = columns.iter().zip(&imported);
        let own = own.filter(|(column, _)| column.starts_with(kind));
        let longest = own.map(|(_, [_, _, max])| *max).max().unwrap();
        assert_eq!(found["total"][place]["max"], longest, "{output}");
    }
}

#[test]
fn arcaflow_reads_rtla_timerlat() {
    let place = Sandbox::new();
    let output = published("rtla-timerlat-hist-all.txt");
    std::fs::write(place.path("published.txt"), &output).unwrap();
    let print = "#!/bin/sh\ncat published.txt\n";
    std::fs::write(place.path("print"), print).unwrap();
    std::fs::set_permissions(place.path("print"), Permissions::from_mode(0o755)).unwrap();
    let Some(found) = arcaflow(&place, "./print") else {
        return;
    };
    compare_with_arcaflow(&place, &found, &output);
}

/// Prints the samples that jitterplot loads, as `CPU MICROSECONDS`, and the figures in the legend of its
/// histogram.
const JITTERPLOT: &str = "
import importlib.machinery, importlib.util, sys
import matplotlib
matplotlib.use('Agg')
loader = importlib.machinery.SourceFileLoader('jitterplot', sys.argv[1])
jitterplot = importlib.util.module_from_spec(importlib.util.spec_from_loader('jitterplot', loader))
loader.exec_module(jitterplot)
for sample in jitterplot.load_samples('samples/samples.raw').itertuples():
    print(sample.CPUID, sample.Value)
jitterplot.plot_histogram('samples/results.json', None)
for text in jitterplot.plt.gcf().axes[0].get_legend().get_texts():
    print(text.get_text())
";

/// jitterdebugger records, and its own program reads the samples and the results.
#[test]
fn jitterplot_reads_the_imported_samples() {
    let place = Sandbox::new();
    let Some(script) = of_clone("igaw+jitterdebugger", "jitterplot") else {
        return;
    };
    let record = ["-D", "1s", "-i", "1000", "-s", "-o", "samples"];
    if run(&place, "jitterdebugger", &record).is_none() {
        return;
    }
    let Some(printed) = run(&place, "python3", &["-c", JITTERPLOT, &script]) else {
        return;
    };
    let mut lines = printed.lines();
    let samples = lines.by_ref().map_while(|line| {
        let (cpu, micros) = line.split_once(' ')?;
        Some((cpu.parse().ok()?, micros.parse().ok()?))
    });
    let theirs = by_cpu(samples);
    assert!(theirs.values().flatten().count() > 10, "{printed}");
    place.done("import samples/samples.raw");
    place.done("export last --format csv -o own.csv");
    let own = std::fs::read_to_string(place.path("own.csv")).unwrap();
    // thread,cpu,expected_ns,latency_ns: jitterdebugger numbers the threads, not the CPUs.
    let own = own.lines().skip(1).map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let nanos: u64 = fields[3].parse().unwrap();
        (fields[0].parse().unwrap(), nanos / 1_000)
    });
    assert_eq!(by_cpu(own), theirs);
    // `cpu0 min 15 avg  34.29 max226`
    place.done("import samples/results.json");
    for (number, [min, _, max]) in figures(&place).into_iter().enumerate() {
        let begin = format!("cpu{number} ");
        let line = printed
            .lines()
            .find(|line| line.starts_with(&begin))
            .unwrap();
        let after = |name: &str| {
            let (_, rest) = line.split_once(name).unwrap();
            let digits = rest.trim_start().split(' ').next().unwrap_or_default();
            digits.parse::<u64>().unwrap()
        };
        let theirs = [after("min"), after("max")];
        assert_eq!(theirs, [min, max], "{line}");
    }
}

/// Returns the latencies of each CPU, in order.
pub(super) fn by_cpu(samples: impl Iterator<Item = (u64, u64)>) -> BTreeMap<u64, Vec<u64>> {
    let mut by_cpu: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    samples.for_each(|(cpu, micros)| by_cpu.entry(cpu).or_default().push(micros));
    by_cpu
}
