//! All tests of the workspace, as the gate runs them.
//!
//! `cargo test` stops at a failed test, even if the machine was only busy for a moment: many tests
//! use real threads and real kernel interfaces. Failed tests are therefore repeated alone, and
//! reported at the end. Skips are compared with a list, and an unexpected skip is a failure.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;

use crate::places::{self, repository};
use crate::programs::{self, Lane, TestProgram};
use crate::suite::{self, Outcome, Screen};

/// Options of `cargo xtask test`.
#[derive(Args)]
pub(crate) struct Options {
    /// Only these crates
    crates: Vec<String>,
    /// File of the tests that may be skipped here; any other skip is a failure
    #[arg(long, value_name = "FILE")]
    skips: Option<PathBuf>,
}

/// How often a failed test is repeated alone.
const AGAIN: usize = 2;

/// Runs the tests and returns whether all passed.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let expected = options.skips.as_deref().map(expected_skips).transpose()?;
    let programs = programs::build()?;
    let known = |name: &String| programs.tests.iter().any(|test| test.package() == name);
    if let Some(unknown) = options.crates.iter().find(|name| !known(name)) {
        bail!("no tests in a crate '{unknown}'");
    }
    let wanted = |test: &&TestProgram| {
        options.crates.is_empty() || options.crates.iter().any(|name| name == test.package())
    };
    let mut lanes = Lanes::default();
    for test in programs.tests.iter().filter(wanted) {
        let runnable = Runnable::new(test.title(), || Ok(test.command()));
        lanes.add(test.lane(), runnable);
    }
    if options.crates.is_empty() {
        let examples = || Ok(documentation());
        lanes.add(
            Lane::Beside,
            Runnable::new("the examples".to_owned(), examples),
        );
    }
    let summary = lanes.run()?;
    Ok(summary.show(expected.as_ref()))
}

/// A test program to run.
pub(crate) struct Runnable<'a> {
    title: String,
    /// Creates its command, without arguments.
    command: Box<dyn Fn() -> Result<Command> + Sync + 'a>,
}

impl<'a> Runnable<'a> {
    pub(crate) fn new(
        title: String,
        command: impl Fn() -> Result<Command> + Sync + 'a,
    ) -> Runnable<'a> {
        let command = Box::new(command);
        Runnable { title, command }
    }

    fn run(&self, command: Command, screen: &Screen) -> Result<Outcome> {
        screen.line(&format!("\n     Running {}", self.title));
        suite::run(command, screen)
    }

    /// Runs it at the same time as others, and shows its output at its end.
    fn run_and_show(&self) -> Result<Outcome> {
        let screen = Screen::later();
        let outcome = self.run((self.command)()?, &screen)?;
        screen.show();
        Ok(outcome)
    }
}

/// The programs to run, by lane.
#[derive(Default)]
pub(crate) struct Lanes<'a> {
    machine: Vec<Runnable<'a>>,
    files: Vec<Runnable<'a>>,
    beside: Vec<Runnable<'a>>,
}

impl<'a> Lanes<'a> {
    /// Adds a program to its lane.
    pub(crate) fn add(&mut self, lane: Lane, program: Runnable<'a>) {
        match lane {
            Lane::Machine => self.machine.push(program),
            Lane::Files => self.files.push(program),
            Lane::Beside => self.beside.push(program),
        }
    }

    /// Runs all programs. Tests of the machine mostly sleep, and the other lane uses the CPU time
    /// that they leave.
    pub(crate) fn run(&self) -> Result<Summary> {
        let (machine, files, beside) = std::thread::scope(|scope| -> Result<_> {
            let beside = scope.spawn(|| -> Result<Vec<Outcome>> {
                // The lowest priority of ordinary threads, which child processes inherit.
                rustix::process::nice(19).context("a lower priority")?;
                self.beside.iter().map(Runnable::run_and_show).collect()
            });
            let machine = self.machine.iter();
            let machine = machine.map(|test| test.run((test.command)()?, &Screen::Now));
            let machine = machine.collect::<Result<Vec<_>>>()?;
            let files = run_together(&self.files)?;
            let beside = beside.join();
            let beside = beside.map_err(|_| anyhow!("a thread of xtask panicked"))??;
            Ok((machine, files, beside))
        })?;
        // Failed tests are repeated only now, alone.
        let mut summary = Summary::default();
        let tests = [&self.machine, &self.files, &self.beside]
            .into_iter()
            .flatten();
        for (test, outcome) in tests.zip([machine, files, beside].into_iter().flatten()) {
            summary.add(test, outcome)?;
        }
        Ok(summary)
    }
}

/// Runs as many programs at a time as there are CPUs. Returns their outcomes in order.
fn run_together(programs: &[Runnable<'_>]) -> Result<Vec<Outcome>> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(usize, Outcome)>> {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(program) = programs.get(place) else {
                return Ok(done);
            };
            done.push((place, program.run_and_show()?));
        }
    };
    let workers = std::thread::available_parallelism()?.get();
    let mut outcomes = std::thread::scope(|scope| -> Result<Vec<_>> {
        let started: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let mut outcomes = Vec::new();
        for worker in started {
            let done = worker.join();
            outcomes.extend(done.map_err(|_| anyhow!("a thread of xtask panicked"))??);
        }
        Ok(outcomes)
    })?;
    outcomes.sort_by_key(|(place, _)| *place);
    Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
}

/// Returns the command for the examples of the documentation, as a test program.
fn documentation() -> Command {
    let mut command = places::cargo();
    command
        .args(["test", "--workspace", "--doc", "--quiet", "--"])
        .current_dir(repository());
    command
}

/// The results of all programs.
#[derive(Default)]
pub(crate) struct Summary {
    passed: usize,
    /// Failed tests, as `program test`.
    failed: Vec<String>,
    /// Tests that passed when repeated, as `program test`.
    unsteady: Vec<String>,
    /// Skipped tests, as `program test: why`.
    skips: Vec<String>,
    /// Processes killed at the end of a program, as `program process`.
    left: Vec<String>,
    /// The time of each program.
    times: Vec<(Duration, String)>,
}

impl Summary {
    /// Adds the outcome of a program, and repeats its failed tests alone.
    fn add(&mut self, test: &Runnable<'_>, outcome: Outcome) -> Result<()> {
        let title = &test.title;
        let again = |arguments: &[&str]| {
            passes_again(|| {
                let mut command = (test.command)()?;
                command.args(arguments);
                suite::run(command, &Screen::Now)
            })
        };
        self.passed += outcome.passed;
        let skips = outcome.skips.iter().map(|skip| format!("{title} {skip}"));
        self.skips.extend(skips);
        let left = outcome.left.iter().map(|left| format!("{title} {left}"));
        self.left.extend(left);
        for name in &outcome.failed {
            let passes = again(&["--exact", name, "--test-threads=1"])?;
            self.again(format!("{title} {name}"), passes);
        }
        if !outcome.complete {
            println!("{title} ended before its tests did");
            let passes = again(&[])?;
            self.again(title.clone(), passes);
        }
        self.times.push((outcome.took, title.clone()));
        Ok(())
    }

    fn again(&mut self, what: String, passes: bool) {
        if passes {
            self.passed += 1;
            self.unsteady.push(what);
        } else {
            self.failed.push(what);
        }
    }

    /// Prints the summary. Returns whether nothing failed and nothing was skipped unexpectedly.
    pub(crate) fn show(mut self, expected: Option<&BTreeSet<String>>) -> bool {
        self.times.sort();
        println!("\nslowest:");
        for (took, title) in self.times.iter().rev().take(8) {
            println!("{:6.1} s  {title}", took.as_secs_f64());
        }
        let unexpected = match expected {
            Some(expected) => unexpected(&self.skips, expected),
            None => Vec::new(),
        };
        let lists = [
            ("failed", &self.failed),
            ("passed when run again, alone", &self.unsteady),
            ("left running, and killed", &self.left),
            ("skipped, but expected to run", &unexpected),
        ];
        for (what, names) in lists {
            for name in names {
                println!("{what}: {name}");
            }
        }
        println!(
            "\n{} passed ({} of them when run again), {} failed, {} skips",
            self.passed,
            self.unsteady.len(),
            self.failed.len(),
            self.skips.len()
        );
        self.failed.is_empty() && unexpected.is_empty()
    }
}

/// Returns whether one of several runs is good.
fn passes_again(mut run: impl FnMut() -> Result<Outcome>) -> Result<bool> {
    for _ in 0..AGAIN {
        if run()?.good() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the skips of tests that are not listed. On an overloaded machine any test may be skipped
/// (`punctual_testing::Crowd`).
fn unexpected(skips: &[String], expected: &BTreeSet<String>) -> Vec<String> {
    let accepted = |skip: &str| {
        let (test, why) = skip.split_once(": ").unwrap_or((skip, ""));
        let program = test.split(' ').next().unwrap_or_default();
        let listed = expected.contains(test) || expected.contains(&format!("{program} *"));
        listed || why.starts_with("quiet: crowded (load ")
    };
    let unexpected = skips.iter().filter(|skip| !accepted(skip));
    unexpected.cloned().collect()
}

/// Returns the lines `program test` of the file. Text after `#` is the reason, for people.
fn expected_skips(file: &Path) -> Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let entry = |line: &str| {
        let line = line.split('#').next().unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    Ok(text
        .lines()
        .map(entry)
        .filter(|entry| !entry.is_empty())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(failed: &[&str], skips: &[&str]) -> Outcome {
        Outcome {
            passed: 3,
            failed: failed.iter().map(ToString::to_string).collect(),
            skips: skips.iter().map(ToString::to_string).collect(),
            complete: true,
            took: Duration::from_secs(1),
            left: Vec::new(),
        }
    }

    /// Runs a shell script instead of a test program.
    fn program<'a>(title: &str, script: &'a str) -> Runnable<'a> {
        Runnable::new(title.to_owned(), move || {
            let mut shell = Command::new("sh");
            shell.args(["-c", script, "sh"]);
            Ok(shell)
        })
    }

    #[test]
    fn all_lanes_are_run_and_counted() {
        let script = "echo 'test result: ok. 2 passed; 0 failed'";
        let good = |title| program(title, script);
        let mut lanes = Lanes::default();
        lanes.add(Lane::Machine, good("a/t"));
        for title in ["b/t", "b/u", "b/v"] {
            lanes.add(Lane::Files, good(title));
        }
        lanes.add(Lane::Files, program("b/dies", "exit 1"));
        lanes.add(Lane::Beside, good("c/t"));
        let summary = lanes.run().unwrap();
        assert_eq!(summary.passed, 10);
        assert_eq!(summary.failed, ["b/dies"]);
        assert_eq!(summary.times.len(), 6);
    }

    #[test]
    fn what_runs_beside_has_the_lowest_priority_and_its_own_environment() {
        let script = "[ $(nice) = 19 ] && [ \"$OF_A_TEST\" = yes ] \
                      && echo 'test result: ok. 1 passed; 0 failed'";
        let own = Runnable::new("b/t".to_owned(), || {
            let mut shell = Command::new("sh");
            shell.args(["-c", script]).env("OF_A_TEST", "yes");
            Ok(shell)
        });
        let mut lanes = Lanes::default();
        lanes.add(Lane::Beside, own);
        let summary = lanes.run().unwrap();
        assert_eq!((summary.passed, summary.failed.len()), (1, 0));
    }

    #[test]
    fn what_fails_is_run_again_alone() {
        let alone = "[ \"$*\" = '--exact b --test-threads=1' ] \
                     && echo 'test result: ok. 1 passed; 0 failed'";
        let mut summary = Summary::default();
        let add = |summary: &mut Summary, names: &[&str], script| {
            summary.add(&program("a/t", script), outcome(names, &[]))
        };
        add(&mut summary, &["b"], alone).unwrap();
        assert_eq!(
            (summary.unsteady.as_slice(), summary.failed.len()),
            (&["a/t b".to_owned()][..], 0)
        );
        add(&mut summary, &["c"], alone).unwrap();
        assert_eq!(summary.failed, ["a/t c"]);
        assert!(!summary.show(None));
    }

    #[test]
    fn a_skip_that_is_not_expected_fails() {
        let folder = std::env::temp_dir().join(format!("skips-{}", std::process::id()));
        std::fs::write(
            &folder,
            "# those of this machine\na/t   one  # no right\n\nb *\n",
        )
        .unwrap();
        let expected = expected_skips(&folder).unwrap();
        std::fs::remove_file(&folder).unwrap();
        let nothing = program("a/t", "false");
        let mut summary = Summary::default();
        let skips = outcome(&[], &["one: no right: to it"]);
        summary.add(&nothing, skips).unwrap();
        assert_eq!(unexpected(&summary.skips, &expected), Vec::<String>::new());
        let skips = outcome(&[], &["two: no kernel"]);
        summary.add(&nothing, skips).unwrap();
        assert_eq!(
            unexpected(&summary.skips, &expected),
            ["a/t two: no kernel"]
        );
        let accepted = [
            "a/t three: quiet: crowded (load 7.1): outliers".to_owned(),
            "b any: no kernel".to_owned(),
        ];
        assert!(unexpected(&accepted, &expected).is_empty());
        assert!(!summary.show(Some(&expected)));
    }
}
