//! All tests of the workspace, as the gate runs them.
//!
//! `cargo test` stops at a failed test, even if the machine was only busy for a moment. This
//! happens because many tests use real threads and real kernel interfaces. Failed tests are
//! therefore repeated alone, and reported at the end. Skips are compared with a list, and an
//! unexpected skip is a failure.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;

use crate::gate::{self, Gate, Ran, Skip};
use crate::paths::{self, repository};
use crate::programs::{self, Queue, TestProgram};
use crate::suite::{self, Outcome, Screen};

/// Options of `cargo xtask test`.
#[derive(Args)]
pub(crate) struct Options {
    /// Run the tests of these crates only
    crates: Vec<String>,
    #[command(flatten)]
    gate: gate::Options,
}

/// Number of times that a failed test is repeated alone.
const AGAIN: usize = 2;

/// Runs the tests and returns whether all passed.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let gate = Gate::new(&options.gate)?;
    let programs = programs::build()?;
    let known = |name: &String| programs.tests.iter().any(|test| test.package() == name);
    if let Some(unknown) = options.crates.iter().find(|name| !known(name)) {
        bail!("no tests in a crate '{unknown}'");
    }
    let wanted = |test: &&TestProgram| {
        options.crates.is_empty() || options.crates.iter().any(|name| name == test.package())
    };
    let mut queues = Queues::default();
    for test in programs.tests.iter().filter(wanted) {
        let runnable = Runnable::new(test.title(), || Ok(test.command()));
        queues.add(test.queue(), runnable);
    }
    if options.crates.is_empty() {
        let examples = || Ok(documentation());
        queues.add(
            Queue::Beside,
            Runnable::new("the examples".to_owned(), examples),
        );
    }
    let gate = if options.crates.is_empty() {
        gate.of_all()
    } else {
        gate
    };
    queues.run()?.show(&gate)
}

/// A test program to run.
pub(crate) struct Runnable<'a> {
    program: String,
    /// Text that is shown after the name of the program.
    user: &'static str,
    /// Creates the command of the program, without arguments.
    command: Box<dyn Fn() -> Result<Command> + Sync + 'a>,
}

impl<'a> Runnable<'a> {
    pub(crate) fn new(
        program: String,
        command: impl Fn() -> Result<Command> + Sync + 'a,
    ) -> Runnable<'a> {
        let command = Box::new(command);
        Runnable {
            program,
            user: "",
            command,
        }
    }

    /// Sets the name of the user that runs the program, which is shown in the output.
    pub(crate) fn of_user(mut self, user: &'static str) -> Self {
        self.user = user;
        self
    }

    fn title(&self) -> String {
        format!("{}{}", self.program, self.user)
    }

    fn run(&self, command: Command, screen: &Screen) -> Result<Outcome> {
        screen.line(&format!("\n     Running {}", self.title()));
        suite::run(command, screen)
    }

    /// Runs the program while others are running, and shows its output when it has ended.
    fn run_and_show(&self) -> Result<Outcome> {
        let screen = Screen::later();
        let outcome = self.run((self.command)()?, &screen)?;
        screen.show();
        Ok(outcome)
    }
}

/// The programs to run, by queue.
#[derive(Default)]
pub(crate) struct Queues<'a> {
    machine: Vec<Runnable<'a>>,
    files: Vec<Runnable<'a>>,
    alone: Vec<Runnable<'a>>,
}

impl<'a> Queues<'a> {
    /// Adds a program to its queue.
    pub(crate) fn add(&mut self, queue: Queue, program: Runnable<'a>) {
        match queue {
            Queue::Machine => self.machine.push(program),
            Queue::Files => self.files.push(program),
            Queue::Beside => self.alone.push(program),
        }
    }

    /// Runs all programs. Tests of the machine mostly sleep, and the programs that only compute use
    /// the CPU time that is left.
    pub(crate) fn run(&self) -> Result<Summary> {
        let (machine, files, beside) = std::thread::scope(|scope| -> Result<_> {
            let beside = scope.spawn(|| -> Result<Vec<Outcome>> {
                idle()?;
                self.alone.iter().map(Runnable::run_and_show).collect()
            });
            let machine = self.machine.iter();
            let machine = machine.map(|test| test.run((test.command)()?, &Screen::Now));
            let machine = machine.collect::<Result<Vec<_>>>()?;
            let files = run_together(&self.files)?;
            let beside = beside.join();
            let beside = beside.map_err(|_| anyhow!("a thread of xtask panicked"))??;
            Ok((machine, files, beside))
        })?;
        // Failed tests are repeated alone. This is only possible after all programs have ended.
        let mut summary = Summary::default();
        let tests = [&self.machine, &self.files, &self.alone]
            .into_iter()
            .flatten();
        for (test, outcome) in tests.zip([machine, files, beside].into_iter().flatten()) {
            summary.add(test, outcome)?;
        }
        Ok(summary)
    }
}

/// Sets the policy of this thread to `idle`, which child processes inherit. An ordinary thread that wakes
/// up preempts such a thread at once, but may wait for a time slice of one with nice 19.
fn idle() -> Result<()> {
    let own = rustix::thread::gettid().to_string();
    let mut command = Command::new("chrt");
    command.args(["--idle", "--pid", "0", &own]);
    let status = command.status().context("chrt")?;
    ensure!(status.success(), "chrt: {status}");
    Ok(())
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

/// Returns the command that runs the examples in the documentation, as a test program.
fn documentation() -> Command {
    let mut command = paths::cargo();
    command
        .args(["test", "--workspace", "--doc", "--quiet", "--"])
        .current_dir(repository());
    command
}

/// The results of all programs.
#[derive(Default)]
pub(crate) struct Summary {
    programs: Vec<Ran>,
    /// Failed tests, as `program test`.
    failed: Vec<String>,
    /// Tests that passed when repeated, as `program test`.
    unsteady: Vec<String>,
    /// Processes killed at the end of a program, as `program process`.
    left: Vec<String>,
    /// The time of each program.
    times: Vec<(Duration, String)>,
}

impl Summary {
    /// Adds the outcome of a program, and repeats its failed tests alone.
    fn add(&mut self, test: &Runnable<'_>, outcome: Outcome) -> Result<()> {
        let title = test.title();
        let again = |arguments: &[&str]| {
            rerun(|| {
                let mut command = (test.command)()?;
                command.args(arguments);
                suite::run(command, &Screen::Now)
            })
        };
        let mut ran = Ran {
            program: test.program.clone(),
            ..Ran::default()
        };
        ran.add(&outcome, "");
        let left = outcome.left.iter().map(|left| format!("{title} {left}"));
        self.left.extend(left);
        for name in &outcome.failed {
            match again(&["--exact", name, "--test-threads=1"])? {
                Some(passed) => {
                    ran.add(&passed, name);
                    self.unsteady.push(format!("{title} {name}"));
                }
                None => self.failed.push(format!("{title} {name}")),
            }
        }
        if !outcome.complete {
            println!("{title} ended before its tests did");
            match again(&[])? {
                Some(passed) => {
                    ran.add(&passed, "");
                    self.unsteady.push(title.clone());
                }
                None => self.failed.push(title.clone()),
            }
        }
        self.programs.push(ran);
        self.times.push((outcome.took, title));
        Ok(())
    }

    /// Prints the summary. Returns whether nothing failed and the gate accepts everything else.
    pub(crate) fn show(mut self, gate: &Gate) -> Result<bool> {
        self.times.sort();
        println!("\nslowest:");
        for (took, title) in self.times.iter().rev().take(8) {
            println!("{:6.1} s  {title}", took.as_secs_f64());
        }
        let lists = [
            ("failed", &self.failed),
            ("passed when run again, alone", &self.unsteady),
            ("left running, and killed", &self.left),
        ];
        for (what, names) in lists {
            for name in names {
                println!("{what}: {name}");
            }
        }
        let accepted = gate.accepts(&self.programs, &self.unsteady)?;
        println!(
            "\n{} passed ({} of them when run again), {} failed, {} skips",
            self.passed(),
            self.unsteady.len(),
            self.failed.len(),
            self.programs
                .iter()
                .map(|ran| ran.skips.len())
                .sum::<usize>()
        );
        Ok(self.failed.is_empty() && accepted)
    }

    fn passed(&self) -> usize {
        self.programs.iter().map(|ran| ran.passed).sum()
    }
}

impl Ran {
    /// Adds the outcome of a run. `test` is the only test that ran, or empty.
    fn add(&mut self, outcome: &Outcome, test: &str) {
        self.passed += outcome.passed;
        let skips = outcome.skips.iter().map(|line| Skip::parse(line, test));
        self.skips.extend(skips);
    }
}

/// Returns the first good one of several runs.
fn rerun(mut run: impl FnMut() -> Result<Outcome>) -> Result<Option<Outcome>> {
    for _ in 0..AGAIN {
        let outcome = run()?;
        if outcome.good() {
            return Ok(Some(outcome));
        }
    }
    Ok(None)
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
    fn all_queues_are_run_and_counted() {
        let script = "echo 'test result: ok. 2 passed; 0 failed'";
        let good = |title| program(title, script);
        let mut queues = Queues::default();
        queues.add(Queue::Machine, good("a/t"));
        for title in ["b/t", "b/u", "b/v"] {
            queues.add(Queue::Files, good(title));
        }
        queues.add(Queue::Files, program("b/dies", "exit 1"));
        queues.add(Queue::Beside, good("c/t"));
        let summary = queues.run().unwrap();
        assert_eq!(summary.passed(), 10);
        assert_eq!(summary.failed, ["b/dies"]);
        assert_eq!(summary.times.len(), 6);
    }

    #[test]
    fn side_runs_have_idle_policy_and_environment() {
        let script = "chrt --pid $$ | grep -q SCHED_IDLE && [ \"$OF_A_TEST\" = yes ] \
                      && echo 'test result: ok. 1 passed; 0 failed'";
        let own = Runnable::new("b/t".to_owned(), || {
            let mut shell = Command::new("sh");
            shell.args(["-c", script]).env("OF_A_TEST", "yes");
            Ok(shell)
        });
        let mut queues = Queues::default();
        queues.add(Queue::Beside, own);
        let summary = queues.run().unwrap();
        assert_eq!((summary.passed(), summary.failed.len()), (1, 0));
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
        let gate = Gate::new(&gate::Options::default()).unwrap();
        assert!(!summary.show(&gate).unwrap());
    }

    /// A test that fails, and is skipped when it is repeated, counts as skipped.
    #[test]
    fn skip_of_rerun_test_is_kept() {
        let script = "echo 'SKIP main: kernel: no BTF' >&2; echo 'test result: ok. 1 passed'";
        let mut summary = Summary::default();
        let failed = outcome(&["b"], &["c: right: none"]);
        summary.add(&program("a/t", script), failed).unwrap();
        let expected = ["c: right: none", "b: kernel: no BTF"];
        let expected = expected.map(|line| Skip::parse(line, ""));
        assert_eq!(summary.programs[0].skips, expected);
        assert_eq!(summary.programs[0].passed, 4);
    }
}
