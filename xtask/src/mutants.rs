//! `cargo xtask mutants`: tests the tests with a sample of small faults in the code.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::paths::{self, program, repository};

/// Version that is installed if cargo-mutants is missing.
const VERSION: &str = "27.1.0";

/// Limits of each test program. An endless loop in a mutant ends at the limit of CPU time, which other
/// programs on the machine do not use up. The limit of memory protects the machine.
const LIMITS: &str = "target.'cfg(all())'.runner=['prlimit','--cpu=600','--as=8589934592','--']";

/// Time after which a test program that waits is ended. Such a mutant does not count as killed, because
/// a busy machine can also cause the wait.
const TIMEOUT_SECONDS: &str = "1800";

#[derive(Args)]
pub(crate) struct Options {
    /// Number of mutants
    #[arg(long, default_value_t = 300, value_name = "N")]
    sample: usize,
    /// Number that selects the sample
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Smallest accepted percentage of killed mutants
    #[arg(long, default_value_t = 92.0, value_name = "PERCENT")]
    at_least: f64,
    /// Forget the results of earlier runs
    #[arg(long)]
    anew: bool,
    /// Crates, without `punctual-`
    #[arg(default_values_t = ["culprit", "model", "stats", "checks", "tune"].map(str::to_owned))]
    crates: Vec<String>,
}

/// How the tests of a mutant ended.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Killed,
    /// No test detected the mutant.
    Survived,
    TimedOut,
    /// The mutant does not compile.
    Unviable,
}

/// Files of cargo-mutants that list mutants by their end. Each name is added when its mutant ends.
const LISTS: [(&str, End); 4] = [
    ("caught.txt", End::Killed),
    ("missed.txt", End::Survived),
    ("timeout.txt", End::TimedOut),
    ("unviable.txt", End::Unviable),
];

/// Ends of mutants by name.
#[derive(Debug, Default, PartialEq)]
struct Ends(BTreeMap<String, End>);

/// Runs the tests of each mutant's crate, in a copy of the source tree. Does not repeat a mutant that an
/// earlier run killed, so that a stopped run loses nothing. Returns whether enough mutants were killed.
///
/// # Errors
/// Fails if cargo-mutants cannot be installed or run, or if the tests fail without a mutant.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let program = installed()?;
    let listed = cargo_mutants(&program, options).arg("--list").output()?;
    let told = String::from_utf8_lossy(&listed.stderr);
    ensure!(listed.status.success(), "{told}");
    let listed = String::from_utf8(listed.stdout)?;
    let all: Vec<&str> = listed.lines().filter(|line| !line.is_empty()).collect();
    ensure!(!all.is_empty(), "no mutants: {told}");
    let sample = sample(&all, options.sample, options.seed);

    let runs = paths::target().join("mutants/runs");
    if options.anew && runs.is_dir() {
        fs::remove_dir_all(&runs)?;
    }
    let earlier = earlier_runs(&runs)?;
    let mut known = Ends::default();
    for run in &earlier {
        known.read(run)?;
    }
    known.keep(&sample);
    let (left, others): (Vec<&str>, Vec<&str>) =
        (all.iter().copied()).partition(|name| sample.contains(name) && !known.is_final(name));
    println!("{} of {} mutants to test", left.len(), sample.len());
    if !left.is_empty() {
        let folder = runs.join(format!("{:04}", earlier.len()));
        let command = &mut cargo_mutants(&program, options);
        test(command, &others, &folder, |now| {
            let mut ends = Ends(known.0.clone());
            ends.0.extend(now.0);
            println!("{}", ends.summary(options, sample.len(), all.len()));
        })?;
        known.read(&folder)?;
    }
    for (end, word) in [(End::Survived, "survived"), (End::TimedOut, "timed out")] {
        for name in known.of(end) {
            println!("{word}: {name}");
        }
    }
    println!("{}", known.summary(options, sample.len(), all.len()));
    Ok(known.percent() >= options.at_least)
}

/// Tests all mutants except `others`, and calls `ended` with the ends so far whenever one has ended.
fn test(command: &mut Command, others: &[&str], folder: &Path, ended: impl Fn(Ends)) -> Result<()> {
    // `--re` does not exclude deleted fields, so exclude mutants as if an earlier run had killed them.
    let report = folder.join("mutants.out");
    fs::create_dir_all(&report)?;
    fs::write(report.join("previously_caught.txt"), others.join("\n"))?;
    command.arg("--iterate");
    command.arg("--output").arg(folder);
    command.args(["--minimum-test-timeout", TIMEOUT_SECONDS]);
    command.arg(format!("--cargo-arg=--config={LIMITS}"));
    let mut child = command.spawn()?;
    let mut count = 0;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        thread::sleep(Duration::from_secs(1));
        let mut ends = Ends::default();
        ends.read(folder)?;
        if ends.0.len() > count {
            count = ends.0.len();
            ended(ends);
        }
    };
    // Exit codes: 2 survivors, 3 timeouts.
    if ![Some(0), Some(2), Some(3)].contains(&status.code()) {
        bail!("cargo mutants: {status}");
    }
    Ok(())
}

impl Ends {
    /// Adds the ends of the mutants that the run with this folder tested, also if it was stopped.
    fn read(&mut self, folder: &Path) -> Result<()> {
        for (list, end) in LISTS {
            let path = folder.join("mutants.out").join(list);
            let names = match fs::read_to_string(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                read => read.with_context(|| path.display().to_string())?,
            };
            // The last line of a stopped run can be incomplete.
            let complete = names.rsplit_once('\n').map_or("", |(lines, _)| lines);
            for name in complete.lines() {
                self.0.insert(name.to_owned(), end);
            }
        }
        Ok(())
    }

    fn keep(&mut self, sample: &[&str]) {
        self.0.retain(|name, _| sample.contains(&name.as_str()));
    }

    /// Returns whether a mutant need not be tested again.
    fn is_final(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some(End::Killed | End::Unviable))
    }

    fn of(&self, end: End) -> impl Iterator<Item = &str> {
        let ended = self.0.iter().filter(move |(_, of)| **of == end);
        ended.map(|(name, _)| name.as_str())
    }

    fn viable(&self) -> usize {
        self.0.len() - self.of(End::Unviable).count()
    }

    /// Returns the percentage of the viable mutants that were killed.
    #[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
    fn percent(&self) -> f64 {
        100.0 * self.of(End::Killed).count() as f64 / self.viable().max(1) as f64
    }

    fn summary(&self, options: &Options, sample: usize, all: usize) -> String {
        let count = |end| self.of(end).count();
        format!(
            "seed {}: {} of {} viable mutants killed ({:.1}%), {} survived, {} timed out; {} do not \
             compile; tested {} of a sample of {sample} of {all} mutants in {}",
            options.seed,
            count(End::Killed),
            self.viable(),
            self.percent(),
            count(End::Survived),
            count(End::TimedOut),
            count(End::Unviable),
            self.0.len(),
            options.crates.join(", "),
        )
    }
}

/// Returns the folders of earlier runs, the first one first.
fn earlier_runs(runs: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    match fs::read_dir(runs) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        read => {
            for run in read.with_context(|| runs.display().to_string())? {
                found.push(run?.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the path of cargo-mutants, and installs it if it is missing.
fn installed() -> Result<PathBuf> {
    program("cargo-mutants", "cargo-mutants (cargo install)").or_else(|_| {
        let root = paths::target().join("tools");
        let path = root.join("bin/cargo-mutants");
        if !path.is_file() {
            let mut install = paths::cargo();
            // It mostly waits for cargo, so it need not be fast.
            install.args(["install", "--debug", "--locked", "--version", VERSION]);
            install.arg("--root").arg(&root).arg("cargo-mutants");
            without_wrapper(&mut install);
            ensure!(install.status()?.success(), "cargo-mutants: not installed");
        }
        Ok(path)
    })
}

fn cargo_mutants(program: &PathBuf, options: &Options) -> Command {
    let mut command = Command::new(program);
    command.arg("mutants").current_dir(repository());
    for name in &options.crates {
        command.arg(format!("--package=punctual-{name}"));
    }
    // A mutant with an unused variable must compile. Property tests use the same cases each time, and
    // few of them: this can only lose kills.
    command
        .arg("--cap-lints=true")
        .args(["--no-shuffle", "--colors=never"]);
    command.env("PROPTEST_RNG_SEED", "1");
    command.env("PROPTEST_CASES", "32");
    without_wrapper(&mut command);
    // The next run finds the dependencies built, and the next mutant most of its crate. No mutant is
    // debugged.
    command.env("CARGO_TARGET_DIR", paths::target().join("mutants/build"));
    command.env("CARGO_INCREMENTAL", "1");
    command.env("CARGO_PROFILE_DEV_DEBUG", "false");
    command
}

/// Removes the lints that this workspace is built with.
fn without_wrapper(command: &mut Command) {
    for name in ["RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER"] {
        command.env_remove(name);
    }
}

/// Returns about `size` of the names: each n-th of them, where `seed` selects the first.
fn sample<'a>(all: &[&'a str], size: usize, seed: u64) -> Vec<&'a str> {
    let apart = (all.len() / size.max(1)).max(1);
    let first = (seed % apart as u64) as usize;
    all.iter().copied().skip(first).step_by(apart).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_is_each_nth_mutant() {
        let all: Vec<String> = (0..15_253).map(|number| number.to_string()).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let taken = sample(&all, 300, 7);
        assert_eq!(taken[..3], ["7", "57", "107"]);
        assert_eq!(taken.len(), 305);
        assert_eq!(sample(&all, 300, 57), taken);
        assert_eq!(sample(&all[..10], 300, 7).len(), 10);
        assert_eq!(sample(&all[..10], 0, 7), ["7"]);
    }

    /// The second run repeats what is not final, and an incomplete line of a stopped run counts for nothing.
    #[test]
    fn ends_of_stopped_runs_are_kept() {
        let runs = tempfile::tempdir().unwrap();
        assert_eq!(earlier_runs(&runs.path().join("none")).unwrap().len(), 0);
        for (run, lists) in [
            (
                "0000",
                [
                    ("caught.txt", "a\nb\n"),
                    ("missed.txt", "c\ne\n"),
                    ("timeout.txt", "d\n"),
                ],
            ),
            (
                "0001",
                [
                    ("caught.txt", "c\nd"),
                    ("missed.txt", ""),
                    ("unviable.txt", "x\n"),
                ],
            ),
        ] {
            let folder = runs.path().join(run).join("mutants.out");
            fs::create_dir_all(&folder).unwrap();
            for (list, names) in lists {
                fs::write(folder.join(list), names).unwrap();
            }
        }
        let mut ends = Ends::default();
        for run in earlier_runs(runs.path()).unwrap() {
            ends.read(&run).unwrap();
        }
        ends.keep(&["a", "c", "d", "e", "x", "y"]);
        let finals = ["a", "c", "d", "e", "x", "y"].map(|name| ends.is_final(name));
        assert_eq!(finals, [true, true, false, false, true, false]);
        assert_eq!((ends.viable(), ends.percent()), (4, 50.0));
        assert_eq!(ends.of(End::Survived).collect::<Vec<_>>(), ["e"]);
        // A timeout does not count as a kill.
        assert_eq!(ends.of(End::TimedOut).collect::<Vec<_>>(), ["d"]);
    }
}
