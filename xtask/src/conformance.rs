//! `cargo xtask conformance`: runs the tests with programs and libraries of others, and writes those
//! that passed into `docs/conformance.md`.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

use crate::paths::{self, repository};

#[derive(Args)]
pub(crate) struct Options {
    /// Clients to test; the rows of others stay [default: all]
    #[arg(value_name = "CLIENT")]
    clients: Vec<String>,
}

const PAGE: &str = "docs/conformance.md";

const HEAD: &str = "\
# Conformance

Results of these programs and libraries of others were compared with those of punctual. `cargo xtask
conformance` runs the command of each row, and writes the rows whose test passed. A client whose test failed, was skipped or did not run has no row.

| client | version | compared | passed on | command |
|---|---|---|---|---|
";

/// A client.
struct Row {
    client: &'static str,
    /// The command that prints its version.
    version: &'static [&'static str],
    compared: &'static str,
    /// The package of the test, the file in `tests` (or `lib`), and its name.
    test: [&'static str; 3],
}

const fn row(
    client: &'static str,
    version: &'static [&'static str],
    compared: &'static str,
    test: [&'static str; 3],
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

/// All clients.
const ROWS: &[Row] = &[
    row(
        "babeltrace2",
        &["babeltrace2", "--version"],
        "reads the same CTF 1.8 trace: time, CPU and name of each event are equal",
        [
            "punctual-tracefile",
            "it",
            "babeltrace::babeltrace2_prints_the_same_events",
        ],
    ),
    row(
        "trace-cmd report",
        TRACE_CMD,
        "reads the same trace.dat: its text has the same events",
        [
            "punctual-tracefile",
            "it",
            "dat::installed_trace_cmd_reports_the_same",
        ],
    ),
    row(
        "trace-cmd record",
        TRACE_CMD,
        "records chains of processes with known delays: the latencies are within 10% or 20 µs",
        [
            "punctual",
            "culprits",
            "chains::chains_of_processes_have_the_measured_latency",
        ],
    ),
    row(
        "perf sched",
        &["perf", "--version"],
        "latency -p and timehist -s of the same perf.data: all digits of each thread are equal",
        [
            "punctual",
            "it",
            "perf_times::figures_of_threads_are_those_of_perf",
        ],
    ),
    row(
        "perfetto (Python)",
        &[
            "python3",
            "-c",
            "import importlib.metadata as m; print(m.version('perfetto'))",
        ],
        "decodes a written .pftrace with its own classes: slices, tracks and arrows are those of the \
         explanation",
        [
            "punctual",
            "it",
            "perfetto::perfetto_reads_a_whole_trace_with_its_causes",
        ],
    ),
    row(
        "Cyclone DDS (Python)",
        &[
            "python3",
            "-c",
            "import importlib.metadata as m; print(m.version('cyclonedds'))",
        ],
        "chains of four processes that publish to each other, live: the latencies are within 10% or \
         20 µs of those that the processes measure",
        [
            "punctual",
            "culprits",
            "chains::live_chains_through_dds_have_the_measured_latency",
        ],
    ),
    row(
        "fish",
        &["fish", "--version"],
        "completes verbs, values and files",
        [
            "punctual",
            "it",
            "outputs::shells::fish_completes_verbs_values_and_files",
        ],
    ),
    row(
        "zsh",
        &["zsh", "--version"],
        "completes verbs, values and files",
        [
            "punctual",
            "it",
            "outputs::shells::zsh_completes_verbs_values_and_files",
        ],
    ),
    row(
        "bash",
        &["bash", "--version"],
        "completes verbs, values and recordings",
        [
            "punctual",
            "it",
            "outputs::bash_completes_verbs_values_and_recordings",
        ],
    ),
    row(
        "gnuplot",
        &["gnuplot", "--version"],
        "draws the histogram text of the compatible cyclictest",
        [
            "punctual",
            "it",
            "compat::parsers::gnuplot_draws_the_columns",
        ],
    ),
    row(
        "OpenSSH ssh-keygen",
        &["ssh", "-V"],
        "makes a key; a statement is signed with it, and the signature is verified",
        ["punctual", "it", "signing::person_signs_with_an_ssh_key"],
    ),
    row(
        "Python",
        &["python3", "--version"],
        "a verifier in Python accepts a statement and refuses a changed one",
        [
            "punctual",
            "it",
            "signing::both_verifiers_refuse_a_changed_statement",
        ],
    ),
    row(
        "sqlite3",
        &["sqlite3", "--version"],
        "reads a store in either journal mode: the store is not converted in the meantime",
        [
            "punctual-store",
            "it",
            "upgrading::store_in_use_is_not_converted",
        ],
    ),
    row(
        "go tool pprof",
        &["go", "version"],
        "reads a written profile: the function with the most time is the planted one",
        [
            "punctual",
            "culprits",
            "profiles::planted_functions_are_first",
        ],
    ),
    row(
        "DuckDB",
        &["python3", "-c", "import duckdb; print(duckdb.__version__)"],
        "counts in the Parquet files of a lake what the store contains",
        [
            "punctual-lake",
            "engines",
            "duckdb_counts_what_is_in_the_store",
        ],
    ),
    row(
        "systemd-analyze verify",
        &["systemd-analyze", "--version"],
        "accepts the unit of the collector",
        [
            "punctual-server",
            "it",
            "collector::service_of_the_collector_is_valid",
        ],
    ),
    row(
        "junitparser (Python)",
        &[
            "python3",
            "-c",
            "import importlib.metadata as m; print(m.version('junitparser'))",
        ],
        "reads the JUnit reports of a met and of a broken requirement: tests and failures",
        ["punctual", "it", "clients::junitparser_counts_failures"],
    ),
    row(
        "tap.py (Python)",
        &[
            "python3",
            "-c",
            "import importlib.metadata as m; print(m.version('tap.py'))",
        ],
        "reads the TAP reports of a met and of a broken requirement",
        ["punctual", "it", "clients::tap_py_reads_results"],
    ),
    row(
        "prove (Perl)",
        &["prove", "--version"],
        "accepts the TAP report of a met requirement, and fails for a broken one",
        ["punctual", "it", "clients::prove_accepts_a_met_requirement"],
    ),
    row(
        "kcidb-io (Python)",
        &[
            "python3",
            "-c",
            "import importlib.metadata as m; print(m.version('kcidb-io'))",
        ],
        "validates the KCIDB reports with its newest schema: PASS and FAIL",
        ["punctual", "it", "clients::kcidb_io_validates_results"],
    ),
    row(
        "pandas (Python)",
        &[
            "python3",
            "-c",
            "import importlib.metadata as m; print(m.version('pandas'))",
        ],
        "reads CSV files of samples and histograms: number of samples of each thread, longest latency",
        ["punctual", "it", "clients::pandas_counts_each_sample"],
    ),
    row(
        "pyarrow (Python)",
        &[
            "python3",
            "-c",
            "import importlib.metadata as m; print(m.version('pyarrow'))",
        ],
        "reads the samples as Parquet: number of rows, columns",
        ["punctual", "it", "clients::pyarrow_reads_each_sample"],
    ),
    row(
        "polars (Python)",
        &[
            "python3",
            "-c",
            "import importlib.metadata as m; print(m.version('polars'))",
        ],
        "reads the samples as Parquet and CSV: number of rows",
        ["punctual", "it", "clients::polars_reads_each_sample"],
    ),
    row(
        "jq",
        &["jq", "--version"],
        "sums the samples in a recording that was exported as JSON",
        ["punctual", "it", "clients::jq_reads_a_recording"],
    ),
    row(
        "Linaro test-definitions, parse_rt_tests_results.py",
        &[
            "sh",
            "-c",
            "git -C \"$PUNCTUAL_CLIENTS/Linaro+test-definitions\" log -1 --format='%h %cs'",
        ],
        "reads the JSON output of the compatible cyclictest: minimum, average and maximum of each thread; the keys are those of the original's output",
        [
            "punctual",
            "it",
            "clients::parser_of_linaro_reads_cyclictest",
        ],
    ),
    row(
        "MMTests, cyclictest/extract-report.pl",
        &[
            "sh",
            "-c",
            "git -C \"$PUNCTUAL_CLIENTS/gormanm+mmtests\" log -1 --format='%h %cs'",
        ],
        "reads the histogram text of the compatible cyclictest: minimum and maximum",
        [
            "punctual",
            "it",
            "clients::extractor_of_mmtests_reads_cyclictest",
        ],
    ),
    row(
        "perf script",
        &["perf", "--version"],
        "prints a perf.data of the running machine as text: the longest reactions are the same",
        [
            "punctual",
            "culprits",
            "forms::texts_of_perf_have_the_reactions_of_its_file",
        ],
    ),
    row(
        "perf data convert --to-ctf",
        &["perf", "--version"],
        "converts a perf.data of the running machine to CTF 1.8: the longest reactions and all their shares are the same",
        [
            "punctual",
            "culprits",
            "forms::ctf_of_perf_has_the_reactions_of_its_file",
        ],
    ),
    row(
        "trace-cmd report -t",
        TRACE_CMD,
        "prints a trace.dat of the running machine as text: the longest reactions and all their shares are the same",
        [
            "punctual",
            "culprits",
            "forms::report_of_trace_cmd_has_the_reactions_of_its_file",
        ],
    ),
    row(
        "perf sched record",
        &["perf", "--version"],
        "latency -p and timehist -s of a recording of the running machine: all digits of each thread are equal, also of the run time",
        [
            "punctual",
            "it",
            "perf_times::figures_of_an_own_recording_are_those_of_perf",
        ],
    ),
];

impl Row {
    /// Returns the cargo command of the test, without `cargo`.
    fn arguments(&self) -> Vec<&'static str> {
        let [package, file, test] = self.test;
        vec!["test", "-p", package, "--test", file, "--", "--exact", test]
    }

    /// Returns the beginning of the line on the page, up to the version.
    fn begin(&self) -> String {
        format!("| {} | ", self.client)
    }

    fn line(&self, version: &str, date: &str) -> String {
        let (compared, command) = (self.compared, self.arguments().join(" "));
        let begin = self.begin();
        format!("{begin}{version} | {compared} | {date} | `cargo {command}` |")
    }

    /// Returns the first line that the client prints about its version. `None` if it is not installed.
    fn version(&self) -> Option<String> {
        let (program, arguments) = self.version.split_first()?;
        let output = Command::new(program).args(arguments).output().ok()?;
        if !output.status.success() {
            return None;
        }
        // ssh prints its version to stderr.
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).replace('|', " ");
        let line = text.lines().find(|line| !line.trim().is_empty())?;
        Some(line.trim().to_owned())
    }

    /// Runs the test. Returns why it did not pass.
    fn run(&self) -> Result<Option<String>> {
        let output = paths::cargo()
            .args(self.arguments())
            .arg("--nocapture")
            .current_dir(repository())
            .output()
            .context("cargo test")?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let skipped = text.lines().find(|line| line.starts_with("SKIP"));
        Ok(match skipped {
            Some(line) => Some(line.to_owned()),
            None if !output.status.success() => Some("the test failed".to_owned()),
            None if !text.contains("test result: ok. 1 passed") => Some("no such test".to_owned()),
            None => None,
        })
    }
}

/// Runs the tests of the clients, and writes the page.
///
/// # Errors
/// Fails if cargo cannot be run or the page cannot be written.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let unknown = |name: &&String| ROWS.iter().all(|row| row.client != **name);
    if let Some(name) = options.clients.iter().find(unknown) {
        let known: Vec<&str> = ROWS.iter().map(|row| row.client).collect();
        anyhow::bail!("no client {name}: the clients are {}", known.join(", "));
    }
    let path = repository().join(PAGE);
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    let mut lines = BTreeMap::new();
    let date = Command::new("date").arg("+%F").output()?;
    let date = String::from_utf8(date.stdout)?;
    for row in ROWS {
        let (begin, wanted) = (row.begin(), &options.clients);
        if !wanted.is_empty() && !wanted.iter().any(|name| name == row.client) {
            let kept = before.lines().find(|line| line.starts_with(&begin));
            lines.extend(kept.map(|line| (row.client, line.to_owned())));
            continue;
        }
        let Some(version) = row.version() else {
            println!("{}: not installed", row.client);
            continue;
        };
        match row.run()? {
            None => {
                println!("{}: passed", row.client);
                lines.insert(row.client, row.line(&version, date.trim()));
            }
            Some(why) => println!("{}: {why}", row.client),
        }
    }
    let table: String = lines.values().map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, format!("{HEAD}{table}")).with_context(|| PAGE)?;
    println!("{PAGE}: {} of {} clients", lines.len(), ROWS.len());
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody may add a client to the page by hand.
    #[test]
    fn page_lists_only_rows_of_the_table() {
        let page = std::fs::read_to_string(repository().join(PAGE)).unwrap();
        let rest = page.strip_prefix(HEAD).expect("the page begins with HEAD");
        assert!(!rest.is_empty());
        for line in rest.lines() {
            let row = ROWS.iter().find(|row| line.starts_with(&row.begin()));
            let row = row.unwrap_or_else(|| panic!("no row of the table: {line}"));
            let fields: Vec<&str> = line.trim_matches('|').split(" | ").collect();
            let [_, version, _, date, _] = fields.as_slice() else {
                panic!("{line}");
            };
            assert_eq!(line, row.line(version, date));
        }
    }

    #[test]
    fn test_of_each_row_exists() {
        for row in ROWS {
            let [package, file, test] = row.test;
            let name = package.strip_prefix("punctual-").unwrap_or(package);
            let folder = paths::crate_folder(name).unwrap().join("tests");
            let listed = Command::new("grep")
                .args([
                    "-rlF",
                    &format!("fn {}()", test.rsplit(':').next().unwrap()),
                ])
                .arg(folder)
                .output()
                .unwrap();
            assert!(listed.status.success(), "{package} {file} {test}");
        }
    }
}
