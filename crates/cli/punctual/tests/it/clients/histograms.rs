//! Libraries and scripts of others read what cyclictest and jitterdebugger write, and the histograms and
//! samples that this program exports.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use punctual_model::Nanos;

use super::suites::{by_cpu, figures, imported, original};
use super::{exported, of_clone, run, samples};
use crate::common::{Sandbox, text};
use crate::compat::stage::{done, tool};

/// The histogram has rows up to 20 ms, so that it contains the smallest latency of each thread.
const CYCLICTEST: &str = "-q -l 100 -t 2 -i 500 --policy=other -h 20000";

/// A histogram text, and minimum, average and maximum of each thread in µs.
type Text = (String, Vec<[u64; 3]>);

/// Returns the text of the compatible cyclictest, with the figures that it recorded, and that of the original
/// (none if it is not installed), with the figures that `import` reads.
fn texts(place: &Sandbox) -> Vec<Text> {
    let own = whole(place, || Some(done(place, CYCLICTEST).0));
    let original = whole(place, || {
        let text = original(place, "/usr/bin/cyclictest", CYCLICTEST)?;
        imported(place, &text);
        Some(text)
    });
    own.into_iter().chain(original).collect()
}

/// Runs cyclictest until each thread has samples. A run ends when one thread has all its samples.
fn whole(place: &Sandbox, run: impl Fn() -> Option<String>) -> Option<Text> {
    for _ in 0..super::RUNS {
        let text = run()?;
        let figures = figures(place);
        if figures.iter().all(|[_, _, max]| *max > 0) {
            return Some((text, figures));
        }
    }
    panic!("a thread had no sample in {} runs", super::RUNS);
}

/// Checks that a client finds minimum, average and maximum of each thread, in that order. Averages may be
/// rounded differently.
fn compare(found: &str, (output, figures): &Text) {
    let found = found.lines().map(|line| {
        let numbers = line.split_whitespace().map(|word| word.parse().unwrap());
        numbers.collect::<Vec<u64>>()
    });
    let found: Vec<Vec<u64>> = found.collect();
    assert_eq!(found.len(), figures.len(), "{found:?} {output}");
    for (theirs, [min, average, max]) in found.iter().zip(figures) {
        assert_eq!((theirs[0], theirs[2]), (*min, *max), "{found:?} {output}");
        assert!(theirs[1].abs_diff(*average) <= 1, "{found:?} {output}");
    }
}

/// The client of this suite calls cyclictest in this way. The script takes the last figure in the line of the
/// maxima, that of all threads.
#[test]
fn crucible_reads_cyclictest() {
    let place = Sandbox::new();
    let script = of_clone(
        "perftool-incubator+bench-cyclictest",
        "cyclictest-post-process",
    );
    // The last commit of the toolbox that has the modules in Perl.
    let toolbox = of_clone("perftool-incubator+toolbox+perl", "perl/toolbox/metrics.pm");
    let (Some(script), Some(toolbox)) = (script, toolbox) else {
        return;
    };
    let home = Path::new(&toolbox).ancestors().nth(3).unwrap().display();
    let call = format!(
        "TOOLBOX_HOME='{home}' perl '{script}' >/dev/null && xz -dc metric-data-0.csv.xz | cut -d, -f4"
    );
    let line = "-q -l 100 -t 2 -i 500 --policy=other --histofall 100 --histfile histogram.txt";
    for file in ["begin.txt", "end.txt"] {
        std::fs::write(place.path(file), "1").unwrap();
    }
    let compare = || {
        let Some(found) = run(&place, "sh", &["-c", &call]) else {
            return false;
        };
        let found: f64 = found.parse().unwrap();
        let threads = figures(&place);
        let longest = threads.iter().map(|[_, _, max]| *max).max().unwrap();
        assert_eq!(found, longest as f64);
        true
    };
    done(&place, line);
    if compare() && original(&place, "/usr/bin/cyclictest", line).is_some() {
        let written = std::fs::read_to_string(place.path("histogram.txt")).unwrap();
        imported(&place, &written);
        compare();
    }
}

/// Lets rteval's own class parse a file, as it does after a run. Prints minimum, average and maximum.
const RTEVAL: &str = "
import sys
sys.path.insert(0, sys.argv[1])
from rteval.modules.measurement import cyclictest as c
class Ended:
    def poll(self): return 0
class Silent:
    def log(self, *words): pass
one = object.__new__(c.Cyclictest)
one._log = lambda *words: None
one._setFinished = lambda: None
cpus = [str(number) for number in range(int(sys.argv[2]))]
data = {cpu: c.RunData(cpu, 'core', '0', lambda *words: None) for cpu in cpus + ['system']}
inside = {'started': True, 'cyclicprocess': Ended(), 'cyclicoutput': open('output.txt', 'rb'),
          'cpus': cpus, 'cyclicdata': data, 'nullfp': c.os.open('/dev/null', 0)}
for name, value in inside.items():
    setattr(one, '_Cyclictest__' + name, value)
one._WorkloadCleanup()
for cpu in cpus:
    one = {name: getattr(data[cpu], '_RunData__' + name) for name in ['min', 'mean', 'max', 'numsamples']}
    print(one['min'], int(one['mean']), one['max'], one['numsamples'])
";

#[test]
fn rteval_reads_cyclictest() {
    let place = Sandbox::new();
    let file = "rteval/modules/measurement/cyclictest.py";
    let Some(module) = of_clone("jkacur+rteval", file) else {
        return;
    };
    let home = Path::new(&module).ancestors().nth(4).unwrap();
    let home = home.display().to_string();
    for (output, figures) in texts(&place) {
        std::fs::write(place.path("output.txt"), &output).unwrap();
        let threads = figures.len().to_string();
        let Some(found) = run(&place, "python3", &["-c", RTEVAL, &home, &threads]) else {
            return;
        };
        let totals = output
            .lines()
            .find_map(|line| line.strip_prefix("# Total: "));
        let mut totals = totals.unwrap().split_whitespace();
        assert_eq!(found.lines().count(), figures.len());
        for (line, [min, _, max]) in found.lines().zip(&figures) {
            let theirs: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
            // The class takes the minimum from the rows, which have three digits in the compatible cyclictest.
            assert!(theirs[0].abs_diff(*min) <= min / 100, "{line} {output}");
            assert_eq!(theirs[2], *max, "{line} {output}");
            let total: u64 = totals.next().unwrap().parse().unwrap();
            assert_eq!(theirs[3], total, "{output}");
        }
    }
}

/// The image that this wrapper runs prints two lines above the output of cyclictest.
const SNAFU: &str = "
import importlib.util, sys
spec = importlib.util.spec_from_file_location('trigger', sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
head = 'allowed cpus list: 0-1\\nrunning cmd: cyclictest\\n'
one = object.__new__(module.Trigger_cyclictest)
found = one._parse_stdout(head + open('output.txt').read())
for row in zip(found['min_latencies'], found['avg_latencies'], found['max_latencies']):
    print(*row)
";

#[test]
fn benchmark_wrapper_reads_cyclictest() {
    let place = Sandbox::new();
    let file = "snafu/cyclictest_wrapper/trigger_cyclictest.py";
    let Some(module) = of_clone("cloud-bulldozer+benchmark-wrapper", file) else {
        return;
    };
    for text in texts(&place) {
        std::fs::write(place.path("output.txt"), &text.0).unwrap();
        let Some(found) = run(&place, "python3", &["-c", SNAFU, &module]) else {
            return;
        };
        compare(&found, &text);
    }
}

/// The script calls cyclictest itself. It writes to a fixed file in `/tmp`, which is moved to the sandbox.
#[test]
fn yardstick_runs_cyclictest() {
    let place = Sandbox::new();
    let file = "yardstick/benchmark/scenarios/compute/cyclictest_benchmark.bash";
    let Some(script) = of_clone("opnfv+yardstick", file) else {
        return;
    };
    let line = "-q -l 100 -i 500 --policy=other -h 20000";
    let script = std::fs::read_to_string(script).unwrap();
    let script = script.replace("=/tmp/", "=./");
    let call = |command: &mut Command| {
        let output = command
            .args(["-c", &script, "yardstick"])
            .args(line.split(' '));
        let output = output.output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let words = ["min", "avg", "max"].map(|key| found[key].as_str().unwrap().to_owned());
        words.join(" ")
    };
    let written = || std::fs::read_to_string(place.path("cyclictest-out.log")).unwrap();
    // The link to this program has the name of the tool.
    let own = tool(&place, "cyclictest", "");
    let mut command = Command::new("bash");
    let path = std::env::var("PATH").unwrap();
    let found = command.current_dir(place.path("")).envs(
        own.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let found = call(found.env("PATH", format!("{}:{path}", place.path("").display())));
    compare(&found, &(written(), figures(&place)));
    if Path::new("/usr/bin/cyclictest").exists() {
        let found = call(Command::new("bash").current_dir(place.path("")));
        imported(&place, &written());
        compare(&found, &(written(), figures(&place)));
    }
}

/// jitterdebugger records, and its own program converts the samples.
#[test]
fn jittersamples_reads_the_imported_samples() {
    let place = Sandbox::new();
    let Some(program) = of_clone("igaw+jitterdebugger", "jittersamples") else {
        return;
    };
    let record = ["-D", "1s", "-i", "1000", "-s", "-o", "samples"];
    if run(&place, "jitterdebugger", &record).is_none() {
        return;
    }
    run(&place, &program, &["-f", "csv", "samples"]).unwrap();
    let theirs = std::fs::read_to_string(place.path("samples/samples.csv")).unwrap();
    // CPU;SECONDS.NANOSECONDS;MICROSECONDS
    let theirs = by_cpu(theirs.lines().map(|line| {
        let fields: Vec<&str> = line.split(';').collect();
        (fields[0].parse().unwrap(), fields[2].parse().unwrap())
    }));
    place.done("import samples/samples.raw");
    place.done("export last --format csv -o own.csv");
    let own = std::fs::read_to_string(place.path("own.csv")).unwrap();
    // thread,cpu,expected_ns,latency_ns
    let own = by_cpu(own.lines().skip(1).map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let nanos: u64 = fields[3].parse().unwrap();
        (fields[0].parse().unwrap(), nanos / 1_000)
    }));
    assert!(theirs.values().flatten().count() > 10, "{theirs:?}");
    assert_eq!(own, theirs);
}

/// Draws with OSADL's script, and prints the entries of the legend.
const PLOT: &str = "
import importlib.util, sys
import matplotlib
matplotlib.use('Agg')
spec = importlib.util.spec_from_file_location('plot', sys.argv[1])
plot = importlib.util.module_from_spec(spec)
spec.loader.exec_module(plot)
plot.plot(sys.argv[2], '', 'plot.png', 1, False)
for text in plot.plt.gcf().axes[0].get_legend().get_texts():
    print(text.get_text())
";

#[test]
fn script_of_osadl_draws_a_dataset() {
    let place = Sandbox::new();
    let Some(script) = of_clone("osadl+Latencyplot", "src/plot-rtdataset.py") else {
        return;
    };
    exported(&place);
    place.done("export last -f rt-dataset -o rt.json");
    let Some(found) = run(&place, "python3", &["-c", PLOT, &script, "rt.json"]) else {
        return;
    };
    let recording = place.last();
    let threads = recording.threads.iter().map(|thread| {
        let max = thread.histogram.max().unwrap().whole_micros();
        let cpu = thread.cpu.unwrap();
        format!("Core #{cpu}: {max} µs")
    });
    let found: Vec<String> = found.lines().map(|line| line.replace("   ", " ")).collect();
    assert_eq!(found, threads.collect::<Vec<_>>());
    assert!(place.path("plot.png").metadata().unwrap().len() > 1_000);
}

/// Number of samples and longest latency in ns of each CPU in the last recording.
fn counts(place: &Sandbox) -> BTreeMap<String, (u64, Nanos)> {
    let recording = place.last();
    let threads = recording.threads.iter().map(|thread| {
        let max = thread.histogram.max().unwrap();
        (
            format!("CPU_{}", thread.cpu.unwrap()),
            (thread.accounting.recorded, max),
        )
    });
    threads.collect()
}

/// Checks a maximum in ns with three significant digits, which a reader of HdrHistogram rounds up.
fn assert_rounded_up(theirs: u64, Nanos(own): Nanos) {
    assert!(
        theirs >= own && theirs <= own + own / 1_000 + 1,
        "{theirs} {own}"
    );
}

const HDRH: &str = "
from hdrh.log import HistogramLogReader
from hdrh.histogram import HdrHistogram
reader = HistogramLogReader('log.hlog', HdrHistogram(1, 1 << 40, 3))
whole = {}
while (one := reader.get_next_interval_histogram()) is not None:
    total = whole.setdefault(one.get_tag(), HdrHistogram(1, 1 << 40, 3))
    total.add(one)
for tag, one in whole.items():
    print(tag, one.get_total_count(), one.get_max_value())
";

#[test]
fn hdrhistogram_of_python_reads_a_log() {
    let place = Sandbox::new();
    exported(&place);
    place.done("export last --format hlog -o log.hlog");
    let Some(found) = run(&place, "python3", &["-c", HDRH]) else {
        return;
    };
    let own = counts(&place);
    assert_eq!(found.lines().count(), own.len(), "{found}");
    for line in found.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let (count, max) = own[fields[0]];
        assert_eq!(fields[1], count.to_string(), "{line}");
        assert_rounded_up(fields[2].parse().unwrap(), max);
    }
}

/// The processor finds the libraries by `CLASSPATH`. It prints percentiles, which `import` reads.
#[test]
fn log_processor_of_hdrhistogram_reads_a_log() {
    let place = Sandbox::new();
    exported(&place);
    place.done("export last --format hlog -o log.hlog");
    for (tag, (count, max)) in counts(&place) {
        let arguments = [
            "org.HdrHistogram.HistogramLogProcessor",
            "-i",
            "log.hlog",
            "-o",
            "out",
            "-tag",
            &tag,
            "-outputValueUnitRatio",
            "1000",
        ];
        if run(&place, "java", &arguments).is_none() {
            return;
        }
        let found = std::fs::read_to_string(place.path("out.hgrm")).unwrap();
        place.done("import out.hgrm --unit us");
        assert_eq!(samples(&place), count, "{found}");
        let [one] = &place.last().threads[..] else {
            panic!("{found}");
        };
        assert_rounded_up(one.histogram.max().unwrap().0, max);
    }
}

/// Prints the number of rows, the longest latency, and the latencies of the first thread.
const HYPARQUET: &str = "
const { createRequire } = require('module');
const { pathToFileURL } = require('url');
const found = createRequire(process.cwd() + '/').resolve('hyparquet');
import(pathToFileURL(found)).then(async ({ asyncBufferFromFile, parquetReadObjects }) => {
  const rows = await parquetReadObjects({ file: await asyncBufferFromFile('s.parquet') });
  for (const { thread, cpu, expected_ns, latency_ns } of rows)
    console.log([thread, cpu, expected_ns, latency_ns].join(','));
});
";

#[test]
fn hyparquet_reads_each_sample() {
    let place = Sandbox::new();
    let all = exported(&place);
    let Some(found) = run(&place, "node", &["-e", HYPARQUET]) else {
        return;
    };
    assert_eq!(found.lines().count() as u64, all);
    let csv = std::fs::read_to_string(place.path("s.csv")).unwrap();
    let rows: Vec<&str> = csv.lines().skip(1).collect();
    assert_eq!(found.lines().collect::<Vec<_>>(), rows);
}
