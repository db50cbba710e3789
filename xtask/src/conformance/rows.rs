//! The clients, and how each is tested.

use super::version::Version;

/// A client.
pub(super) struct Row {
    pub(super) client: &'static str,
    pub(super) version: Version,
    pub(super) compared: &'static str,
    /// The package of the test, the file in `tests` or [`UNIT`], and its name.
    pub(super) test: &'static str,
}

/// The unit tests of a library.
pub(super) const UNIT: &str = "lib";

use Version::{Commit, Node, Prints, Python};

const fn row(
    client: &'static str,
    version: Version,
    compared: &'static str,
    test: &'static str,
) -> Row {
    Row {
        client,
        version,
        compared,
        test,
    }
}

/// trace-cmd prints its version and fails.
const TRACE_CMD: &[&str] = &["sh", "-c", "trace-cmd --version || true"];

/// The processor prints its version only if it refuses its arguments.
const HDR_HISTOGRAM: &[&str] = &[
    "sh",
    "-c",
    "java org.HdrHistogram.HistogramLogProcessor -version 2>&1 | grep -o 'version [0-9.]*'",
];

const LAVA: &[&str] = &[
    "python3",
    "-c",
    "import lava_common.version as version; print(version.__version__)",
];

const TUNED: &[&str] = &[
    "/usr/bin/python3",
    "-c",
    "import tuned.version as version; print(version.TUNED_VERSION_STR)",
];

/// All clients.
pub(super) const ROWS: &[Row] = &[
    row(
        "babeltrace2",
        Prints(&["babeltrace2", "--version"]),
        "reads the same CTF 1.8 trace: time, CPU and name of each event are equal",
        "punctual-tracefile it babeltrace::babeltrace2_prints_the_same_events",
    ),
    row(
        "trace-cmd report",
        Prints(TRACE_CMD),
        "reads the same trace.dat: its text has the same events",
        "punctual-tracefile it dat::installed_trace_cmd_reports_the_same",
    ),
    row(
        "trace-cmd record",
        Prints(TRACE_CMD),
        "records chains of processes with known delays: the latencies are within 10% or 20 \
         µs",
        "punctual culprits chains::chains_of_processes_have_the_measured_latency",
    ),
    row(
        "perf sched",
        Prints(&["perf", "--version"]),
        "latency -p and timehist -s of the same perf.data: all digits of each thread are \
         equal",
        "punctual it perf_times::figures_of_threads_are_those_of_perf",
    ),
    row(
        "perfetto (Python)",
        Python("perfetto"),
        "decodes a written .pftrace with its own classes: slices, tracks and arrows are \
         those of the explanation",
        "punctual it perfetto::perfetto_reads_a_whole_trace_with_its_causes",
    ),
    row(
        "Cyclone DDS (Python)",
        Python("cyclonedds"),
        "chains of four processes that publish to each other, live: the latencies are within \
         10% or 20 µs of those that the processes measure",
        "punctual culprits chains::live_chains_through_dds_have_the_measured_latency",
    ),
    row(
        "fish",
        Prints(&["fish", "--version"]),
        "completes verbs, values and files",
        "punctual it outputs::shells::fish_completes_verbs_values_and_files",
    ),
    row(
        "zsh",
        Prints(&["zsh", "--version"]),
        "completes verbs, values and files",
        "punctual it outputs::shells::zsh_completes_verbs_values_and_files",
    ),
    row(
        "bash",
        Prints(&["bash", "--version"]),
        "completes verbs, values and recordings",
        "punctual it outputs::bash_completes_verbs_values_and_recordings",
    ),
    row(
        "gnuplot",
        Prints(&["gnuplot", "--version"]),
        "draws the histogram text of the compatible cyclictest",
        "punctual it compat::parsers::gnuplot_draws_the_columns",
    ),
    row(
        "OpenSSH ssh-keygen",
        Prints(&["ssh", "-V"]),
        "makes a key; a statement is signed with it, and the signature is verified",
        "punctual it signing::person_signs_with_an_ssh_key",
    ),
    row(
        "Python",
        Prints(&["python3", "--version"]),
        "a verifier in Python accepts a statement and refuses a changed one",
        "punctual it signing::both_verifiers_refuse_a_changed_statement",
    ),
    row(
        "sqlite3",
        Prints(&["sqlite3", "--version"]),
        "reads a store in either journal mode: the store is not converted in the meantime",
        "punctual-store it upgrading::store_in_use_is_not_converted",
    ),
    row(
        "go tool pprof",
        Prints(&["go", "version"]),
        "reads a written profile: the function with the most time is the planted one",
        "punctual culprits profiles::planted_functions_are_first",
    ),
    row(
        "DuckDB",
        Python("duckdb"),
        "counts in the Parquet files of a lake what the store contains",
        "punctual-lake engines duckdb_counts_what_is_in_the_store",
    ),
    row(
        "systemd-analyze verify",
        Prints(&["systemd-analyze", "--version"]),
        "accepts the unit of the collector",
        "punctual-server it collector::service_of_the_collector_is_valid",
    ),
    row(
        "junitparser (Python)",
        Python("junitparser"),
        "reads the JUnit reports of a met and of a broken requirement: tests and failures",
        "punctual it clients::junitparser_counts_failures",
    ),
    row(
        "tap.py (Python)",
        Python("tap.py"),
        "reads the TAP reports of a met and of a broken requirement",
        "punctual it clients::tap_py_reads_results",
    ),
    row(
        "prove (Perl)",
        Prints(&["prove", "--version"]),
        "accepts the TAP report of a met requirement, and fails for a broken one",
        "punctual it clients::prove_accepts_a_met_requirement",
    ),
    row(
        "kcidb-io (Python)",
        Python("kcidb-io"),
        "validates the KCIDB reports with its newest schema: PASS and FAIL",
        "punctual it clients::kcidb_io_validates_results",
    ),
    row(
        "pandas (Python)",
        Python("pandas"),
        "reads CSV files of samples and histograms: number of samples of each thread, \
         longest latency",
        "punctual it clients::pandas_counts_each_sample",
    ),
    row(
        "pyarrow (Python)",
        Python("pyarrow"),
        "reads the samples as Parquet: number of rows, columns",
        "punctual it clients::pyarrow_reads_each_sample",
    ),
    row(
        "polars (Python)",
        Python("polars"),
        "reads the samples as Parquet and CSV: number of rows",
        "punctual it clients::polars_reads_each_sample",
    ),
    row(
        "jq",
        Prints(&["jq", "--version"]),
        "sums the samples in a recording that was exported as JSON",
        "punctual it clients::jq_reads_a_recording",
    ),
    row(
        "Linaro test-definitions, parse_rt_tests_results.py",
        Commit("Linaro+test-definitions"),
        "reads the JSON output of the compatible cyclictest: minimum, average and maximum of \
         each thread; the keys are those of the original's output",
        "punctual it clients::parser_of_linaro_reads_cyclictest",
    ),
    row(
        "MMTests, cyclictest/extract-report.pl",
        Commit("gormanm+mmtests"),
        "reads the histogram text of the compatible cyclictest: minimum and maximum",
        "punctual it clients::extractor_of_mmtests_reads_cyclictest",
    ),
    row(
        "perf script",
        Prints(&["perf", "--version"]),
        "prints a perf.data of the running machine as text: the longest reactions are the \
         same",
        "punctual culprits forms::texts_of_perf_have_the_reactions_of_its_file",
    ),
    row(
        "perf data convert --to-ctf",
        Prints(&["perf", "--version"]),
        "converts a perf.data of the running machine to CTF 1.8: the longest reactions and \
         all their shares are the same",
        "punctual culprits forms::ctf_of_perf_has_the_reactions_of_its_file",
    ),
    row(
        "trace-cmd report -t",
        Prints(TRACE_CMD),
        "prints a trace.dat of the running machine as text: the longest reactions and all \
         their shares are the same",
        "punctual culprits forms::report_of_trace_cmd_has_the_reactions_of_its_file",
    ),
    row(
        "perf sched record",
        Prints(&["perf", "--version"]),
        "latency -p and timehist -s of a recording of the running machine: all digits of \
         each thread are equal, also of the run time",
        "punctual it perf_times::figures_of_an_own_recording_are_those_of_perf",
    ),
    row(
        "Crucible bench-hwlatdetect, hwlatdetect-post-process.py",
        Commit("perftool-incubator+bench-hwlatdetect"),
        "reads texts that the original printed: the longest gap is the imported one",
        "punctual it clients::suites::crucible_reads_hwlatdetect",
    ),
    row(
        "Crucible bench-oslat, oslat-post-process.py",
        Commit("perftool-incubator+bench-oslat"),
        "reads the texts of oslat and of the compatible oslat: the longest iteration is the \
         recorded one",
        "punctual it clients::suites::crucible_reads_oslat",
    ),
    row(
        "Crucible bench-timerlat, timerlat-post-process",
        Commit("perftool-incubator+bench-timerlat"),
        "reads a text that rtla timerlat top printed: the longest latency. If the compatible \
         command has no interrupt latency, because the kernel lacks the tracer, it finds \
         none",
        "punctual it clients::suites::crucible_reads_rtla_timerlat",
    ),
    row(
        "Crucible bench-osnoise, osnoise-post-process",
        Commit("perftool-incubator+bench-osnoise"),
        "reads a text that rtla osnoise top printed, and that of the compatible command: the \
         longest latency",
        "punctual it clients::suites::crucible_reads_rtla_osnoise",
    ),
    row(
        "Crucible bench-hwnoise, hwnoise-post-process",
        Commit("perftool-incubator+bench-hwnoise"),
        "reads a text that rtla hwnoise printed: the longest noise of a period. If the \
         compatible command does not know it, because the kernel lacks the tracer, it finds \
         none",
        "punctual it clients::suites::crucible_reads_rtla_hwnoise",
    ),
    row(
        "Linaro test-definitions, parse_rtla.py on rtla timerlat hist",
        Commit("Linaro+test-definitions"),
        "reads a histogram that rtla 6.1 printed: minimum, average and maximum of each \
         column are those of the import",
        "punctual it clients::suites::linaro_reads_rtla_timerlat",
    ),
    row(
        "Linaro test-definitions, parse_rtla.py on rtla osnoise hist",
        Commit("Linaro+test-definitions"),
        "reads a histogram that rtla 6.1 printed: minimum, average and maximum of each \
         column are those of the import",
        "punctual it clients::suites::linaro_reads_rtla_osnoise",
    ),
    row(
        "Linaro test-definitions, parse_rt_tests_results.py on six further tools and oslat",
        Commit("Linaro+test-definitions"),
        "reads the JSON of the compatible signaltest, pmqtest, ptsematest, sigwaittest, \
         svsematest, cyclicdeadline and oslat: the figures are the recorded ones, and the \
         keys those of the originals' output",
        "punctual it clients::suites::linaro_reads_the_json_of_rt_tests",
    ),
    row(
        "perfetto (Python), as a writer",
        Python("perfetto"),
        "writes the events of a perf.data as .pftrace with its own classes: the longest \
         reactions are the same",
        "punctual culprits forms::trace_of_perfettos_classes_has_the_reactions_of_its_file",
    ),
    row(
        "babeltrace2, as a writer",
        Prints(&["babeltrace2", "--version"]),
        "writes a CTF trace of perf again: the longest reactions and all their shares are \
         the same",
        "punctual culprits forms::ctf_of_babeltrace2_has_the_reactions_of_its_file",
    ),
    row(
        "trace-cmd extract",
        Prints(TRACE_CMD),
        "takes the events of which tracefs has printed trace: the longest reactions and \
         their main causes are the same, within 1 µs",
        "punctual culprits forms::text_of_tracefs_has_the_reactions_of_its_buffers",
    ),
    row(
        "tracefs trace_pipe",
        Prints(&["uname", "-r"]),
        "prints the events of trace again: the longest reactions and all their shares are \
         the same",
        "punctual culprits forms::trace_pipe_has_the_reactions_of_trace",
    ),
    row(
        "perf sched record with trace-cmd record",
        Prints(&["perf", "--version"]),
        "both record one run at the same time: the longest reactions and their main causes \
         are the same, within 20 µs",
        "punctual culprits at_once::perf_and_trace_cmd_have_the_same_reactions",
    ),
    row(
        "perf sched latency, of a trace.dat",
        Prints(&["perf", "--version"]),
        "both record one run at the same time: Runtime and the number of waits in a \
         trace.dat are those that perf prints of its perf.data",
        "punctual culprits at_once::runtime_column_of_a_trace_dat_is_that_of_perf",
    ),
    row(
        "Arcaflow plugin for rtla",
        Commit("arcalot+arcaflow-plugin-rtla"),
        "reads a histogram that rtla printed: minimum and maximum of each column, and the \
         longest of all, are those of the import",
        "punctual it clients::suites::arcaflow_reads_rtla_timerlat",
    ),
    row(
        "jitterplot of jitterdebugger",
        Commit("igaw+jitterdebugger"),
        "reads samples.raw and results.json of jitterdebugger 0.3.1: CPU and latency of each sample are the \
         imported ones, and so are minimum and maximum",
        "punctual it clients::suites::jitterplot_reads_the_imported_samples",
    ),
    row(
        "Crucible bench-cyclictest, cyclictest-post-process",
        Commit("perftool-incubator+bench-cyclictest"),
        "reads the histogram texts of cyclictest and of the compatible cyclictest: the longest latency",
        "punctual it clients::histograms::crucible_reads_cyclictest",
    ),
    row(
        "rteval, cyclictest.py",
        Commit("jkacur+rteval"),
        "reads the histogram texts of cyclictest and of the compatible cyclictest: minimum, maximum and \
         number of samples of each thread",
        "punctual it clients::histograms::rteval_reads_cyclictest",
    ),
    row(
        "benchmark-wrapper (snafu), trigger_cyclictest.py",
        Commit("cloud-bulldozer+benchmark-wrapper"),
        "reads the histogram texts of cyclictest and of the compatible cyclictest: minimum, average and \
         maximum of each thread",
        "punctual it clients::histograms::benchmark_wrapper_reads_cyclictest",
    ),
    row(
        "OPNFV Yardstick, cyclictest_benchmark.bash",
        Commit("opnfv+yardstick"),
        "runs cyclictest and the compatible cyclictest: minimum, average and maximum",
        "punctual it clients::histograms::yardstick_runs_cyclictest",
    ),
    row(
        "jittersamples of jitterdebugger",
        Commit("igaw+jitterdebugger"),
        "converts samples.raw of jitterdebugger 0.3.1: CPU and latency of each sample are the imported ones",
        "punctual it clients::histograms::jittersamples_reads_the_imported_samples",
    ),
    row(
        "OSADL Latencyplot, plot-rtdataset.py",
        Commit("osadl+Latencyplot"),
        "draws an exported RT Dataset: the CPUs and their longest latencies in the legend",
        "punctual it clients::histograms::script_of_osadl_draws_a_dataset",
    ),
    row(
        "HdrHistogram (Python)",
        Python("hdrhistogram"),
        "reads the exported log of histograms: number of samples and longest latency of each CPU",
        "punctual it clients::histograms::hdrhistogram_of_python_reads_a_log",
    ),
    row(
        "HdrHistogram (Java), HistogramLogProcessor",
        Prints(HDR_HISTOGRAM),
        "reads the exported log of histograms, and its percentiles are imported: number of samples and \
         longest latency of each CPU",
        "punctual it clients::histograms::log_processor_of_hdrhistogram_reads_a_log",
    ),
    row(
        "hyparquet (Node)",
        Node("hyparquet"),
        "reads the samples as Parquet: each row is that of the CSV file",
        "punctual it clients::histograms::hyparquet_reads_each_sample",
    ),
    row(
        "tap-parser (Node)",
        Node("tap-parser"),
        "reads the TAP reports of an audit and of a met and a broken requirement: numbers of passed, failed \
         and skipped tests",
        "punctual it clients::reports::tap_parser_of_node_reads_results",
    ),
    row(
        "Meson, TAPParser",
        Python("meson"),
        "reads the TAP reports of an audit and of a met and a broken requirement: numbers of passed, failed \
         and skipped tests",
        "punctual it clients::reports::meson_reads_results",
    ),
    row(
        "Jenkins xUnit plugin, junit-10.xsd",
        Commit("jenkinsci+xunit-plugin"),
        "validates the JUnit reports of an audit and of a met and a broken requirement, and refuses a wrong \
         one",
        "punctual it clients::reports::schema_of_jenkins_accepts_reports",
    ),
    row(
        "junit2html (Python)",
        Python("junit2html"),
        "reads the JUnit report of an audit: numbers of passed, failed and skipped tests",
        "punctual it clients::reports::junit2html_counts_results",
    ),
    row(
        "sarif-tools (Python)",
        Python("sarif-tools"),
        "reads the SARIF file of an audit: number of findings of each level",
        "punctual it clients::reports::sarif_tools_counts_findings",
    ),
    row(
        "SARIF Multitool",
        Prints(&["sarif-multitool", "--version"]),
        "finds no error in the SARIF file of an audit, and one in a wrong file",
        "punctual it clients::reports::sarif_multitool_validates_findings",
    ),
    row(
        "LAVA dispatcher",
        Prints(LAVA),
        "reads the signals in the LAVA reports of a met and of a broken requirement: results, values and \
         units",
        "punctual it clients::reports::lava_dispatcher_reads_results",
    ),
    row(
        "jsonschema (Python)",
        Python("jsonschema"),
        "accepts the printed JSON Schema and a recording, and refuses a wrong recording",
        "punctual it clients::reports::jsonschema_of_python_validates_a_recording",
    ),
    row(
        "securesystemslib (Python)",
        Python("securesystemslib"),
        "verifies the DSSE envelope of a statement, and refuses a changed one",
        "punctual it clients::reports::securesystemslib_verifies_a_statement",
    ),
    row(
        "in-toto-attestation (Python)",
        Python("in-toto-attestation"),
        "validates the statements about a met and a broken requirement: result, and digest of the recording",
        "punctual it clients::reports::in_toto_attestation_reads_a_statement",
    ),
    row(
        "TuneD",
        Prints(TUNED),
        "loads an exported profile with its own loader: options and devices, with all variables replaced",
        "punctual-tune lib tuned::exchange_tests::tuned_itself_loads_exported_profile",
    ),
    row(
        "promtool",
        Prints(&["promtool", "--version"]),
        "accepts the metrics of the collector, the configuration and the rules",
        "punctual-serve fleet prometheus::promtool_accepts_metrics_and_rules",
    ),
    row(
        "Prometheus",
        Prints(&["prometheus", "--version"]),
        "scrapes a collector: the rules raise their alerts",
        "punctual-serve fleet scraped::prometheus_raises_the_alerts_of_the_rules",
    ),
];
