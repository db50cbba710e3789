//! Reads the console of the machine line by line.

use std::fmt;

use super::machines::{Suite, Target};
use crate::gate::{Ran, Skip};

/// Line that is printed before the tests of a program.
pub(crate) const BEGIN: &str = "@@ begin";
/// Line that is printed after the tests of a program, with its exit status.
pub(crate) const END: &str = "@@ end";
/// Suffix that marks the failure of a whole program.
const EXIT: &str = " (exit status)";
/// End of the line [`END`] of a program with a failed test.
const FAILED: &str = " 101";
/// Line that is printed after all tests.
pub(crate) const FINISHED: &str = "@@ finished";
/// Line with which a test requests that the whole machine is stopped for some milliseconds.
pub(crate) const STALL: &str = "@@ stall";

/// Returns the name of a suite. It is the name of the same test program outside of the machine.
pub(crate) fn suite_name(suite: &Suite) -> String {
    match suite.target {
        Target::Unit => suite.folder().to_owned(),
        Target::Integration(name) => format!("{}/{name}", suite.folder()),
    }
}

/// Counts of test results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) programs: Vec<Ran>,
    failed: Vec<String>,
    /// Tests that passed only when their machine was run again.
    pub(crate) rerun: Vec<String>,
    /// Whether the first test program was started.
    began: bool,
    finished: bool,
    machines: u32,
}

impl Tally {
    /// Adds the counts of another machine.
    pub(crate) fn add(&mut self, other: &Self) {
        self.programs.extend(other.programs.iter().cloned());
        self.failed.extend(other.failed.iter().cloned());
        self.rerun.extend(other.rerun.iter().cloned());
        self.finished = (self.machines == 0 || self.finished) && other.finished;
        self.machines += 1;
    }

    /// Returns whether any test program was started.
    pub(crate) fn began(&self) -> bool {
        self.began
    }

    /// Returns whether there were tests, all of them ran to the end, and none failed.
    pub(crate) fn good(&self) -> bool {
        self.finished && self.failed.is_empty() && self.passed() > 0
    }

    /// Returns the tally of the same machine, run once more after this one. A test must pass in
    /// one of the two runs.
    pub(crate) fn then(self, mut next: Self, machine: &str) -> Self {
        let disturbed = |name: &String| {
            let suite = suite_of(name);
            let mut before = self.failed.iter().filter(|name| suite_of(name) == suite);
            // A program that is stopped does not run the tests that follow. So a test has passed
            // before only if its program was not stopped, and all tests of a program have passed
            // only if none had failed.
            let is_worse =
                |other: &String| other == name || other.ends_with(EXIT) || name.ends_with(EXIT);
            self.finished && !before.any(is_worse)
        };
        let passed_before = next.failed.extract_if(.., |name| disturbed(name));
        next.rerun = passed_before.collect();
        let failed_now = |name: &&String| next.failed.contains(name);
        let passed_now = self.failed.iter().filter(|name| !failed_now(name));
        next.rerun.extend(passed_now.cloned());
        for name in &mut next.rerun {
            *name = format!("{machine}:{name}");
        }
        if !self.finished {
            next.rerun.push(format!("{machine}: all of it"));
        }
        next
    }

    fn passed(&self) -> usize {
        self.programs.iter().map(|ran| ran.passed).sum()
    }
}

/// Returns the program of a failed test.
fn suite_of(name: &str) -> &str {
    name.split(' ').next().unwrap_or(name)
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} lines of SKIP",
            self.passed(),
            self.failed.len(),
            self.programs
                .iter()
                .map(|ran| ran.skips.len())
                .sum::<usize>()
        )?;
        if !self.finished {
            f.write_str("; it did not finish")?;
        }
        for name in &self.failed {
            write!(f, "\n  failed: {name}")?;
        }
        for name in &self.rerun {
            write!(f, "\n  passed when run again: {name}")?;
        }
        Ok(())
    }
}

/// Action that a line of the console requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Ignore the line.
    Nothing,
    /// Show the line to the user.
    Show,
    /// Stop the machine for this many milliseconds.
    Stall(u64),
}

/// Follows the console.
pub(crate) struct Console {
    pub(crate) tally: Tally,
    machine: &'static str,
    suite: String,
    /// Name of the test that is running. Only one test runs at a time.
    test: String,
}

impl Console {
    /// Follows the console of the machine with this name.
    pub(crate) fn from_machine(machine: &'static str) -> Self {
        Self {
            tally: Tally::default(),
            machine,
            suite: String::new(),
            test: String::new(),
        }
    }

    /// Returns the running program, or `None` before the first one has started.
    fn program(&mut self) -> Option<&mut Ran> {
        self.tally.programs.last_mut()
    }

    /// Processes a line.
    pub(crate) fn line(&mut self, line: &str) -> Request {
        // The firmware may have left text before the mark.
        if let Some((_, name)) = line.split_once(BEGIN) {
            self.suite = name.trim().to_owned();
            self.tally.programs.push(Ran {
                program: format!("{}:{}", self.machine, self.suite),
                ..Ran::default()
            });
            self.tally.began = true;
            return Request::Nothing;
        }
        if let Some(rest) = line.strip_prefix(END) {
            if !rest.ends_with(" 0") {
                // If a test has failed, it has its own line. Any other status is a signal.
                let has_failed = |name: &String| suite_of(name) == self.suite;
                let is_said = rest.ends_with(FAILED) && self.tally.failed.iter().any(has_failed);
                if !is_said {
                    self.tally.failed.push(format!("{}{EXIT}", rest.trim()));
                }
            } else if self
                .program()
                .is_some_and(|ran| ran.passed == 0 && ran.skips.is_empty())
            {
                // No test ran, so the filter of the suite does not match any test.
                self.tally
                    .failed
                    .push(format!("{} ran no test", self.suite));
            }
            return Request::Nothing;
        }
        if line.starts_with(FINISHED) {
            self.tally.finished = true;
            return Request::Nothing;
        }
        if let Some((_, ms)) = line.split_once(STALL) {
            return ms.trim().parse().map_or(Request::Nothing, Request::Stall);
        }
        // A test's own output may be between its name and its result.
        if let Some((_, skip)) = line.split_once("SKIP ") {
            let skip = Skip::parse(skip, &self.test);
            if let Some(program) = self.program() {
                program.skips.push(skip);
            }
            return Request::Show;
        }
        if line.starts_with("test result:") {
            return Request::Nothing;
        }
        if let Some(name) = line.strip_prefix("test ") {
            self.test = name.split(' ').next().unwrap_or_default().to_owned();
        }
        if line.starts_with("test ") || line == "ok" || line == "FAILED" {
            if line.ends_with("ok") {
                if let Some(program) = self.program() {
                    program.passed += 1;
                }
                return Request::Show;
            }
            if line.ends_with("FAILED") {
                self.tally
                    .failed
                    .push(format!("{} {}", self.suite, self.test));
                return Request::Show;
            }
        }
        Request::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(text: &str) -> Tally {
        let mut console = Console::from_machine("m");
        for line in text.lines() {
            console.line(line);
        }
        console.tally
    }

    #[test]
    fn results_are_counted() {
        let tally = follow(
            "@@ begin a/b\ntest one ... ok\ntest two ... \nSKIP main: right: none\nok\n\
             @@ end a/b 0\n@@ begin c\ntest one ... ok\n@@ end c 0\n@@ finished\n",
        );
        assert_eq!(tally.passed(), 3);
        assert_eq!(tally.programs[0].program, "m:a/b");
        let skip = Skip::parse("two: right: none", "");
        assert_eq!(tally.programs[0].skips, [skip]);
        assert!(tally.good(), "{tally}");
    }

    #[test]
    fn what_passes_when_run_again_is_named() {
        let first = follow("@@ begin a\ntest one ... FAILED\n@@ end a 101\n@@ finished\n");
        let text = "@@ begin a\ntest one ... ok\n@@ end a 0\n@@ finished\n";
        let tally = first.then(follow(text), "m");
        assert!(tally.good(), "{tally}");
        assert_eq!(tally.rerun, ["m:a one"]);
        assert_eq!(
            follow("@@ begin a\n").then(follow(text), "m").rerun.len(),
            1
        );
    }

    #[test]
    fn each_test_must_pass_in_one_of_two_runs() {
        let run = |one, two| {
            follow(&format!(
                "@@ begin a\ntest one ... \n@@ stall 60\n{one}\ntest two ... {two}\n@@ end a 101\n@@ finished\n"
            ))
        };
        let tally = run("FAILED", "ok").then(run("ok", "FAILED"), "m");
        assert!(tally.good(), "{tally}");
        assert_eq!(tally.rerun, ["m:a two", "m:a one"]);
        let tally = run("FAILED", "ok").then(run("FAILED", "ok"), "m");
        assert_eq!(tally.failed, ["a one"]);
        // A test that the first run did not reach has to pass in the second one.
        let tally = follow("@@ begin a\ntest one ... ok\n").then(run("ok", "FAILED"), "m");
        assert_eq!(tally.failed, ["a two"]);
        // The first run was stopped before the second test.
        let stopped = follow("@@ begin a\ntest one ... ok\n@@ end a 143\n@@ finished\n");
        let tally = stopped.then(run("ok", "FAILED"), "m");
        assert_eq!(tally.failed, ["a two"]);
        let text = "@@ begin a\ntest one ... FAILED\n@@ end a 143\n@@ finished\n";
        assert_eq!(follow(text).failed, ["a one", "a 143 (exit status)"]);
        // The second run was stopped before the test that failed in the first one.
        let stopped = follow("@@ begin a\ntest two ... ok\n@@ end a 143\n@@ finished\n");
        let tally = run("FAILED", "ok").then(stopped, "m");
        assert_eq!(tally.failed, ["a 143 (exit status)"]);
        let crash = || follow("@@ begin a\ntest one ... ok\n@@ end a 101\n@@ finished\n");
        assert_eq!(crash().then(crash(), "m").failed, ["a 101 (exit status)"]);
    }

    #[test]
    fn a_failure_is_named() {
        let tally = follow("@@ begin a\ntest one ... FAILED\n@@ end a 101\n@@ finished\n");
        assert!(!tally.good());
        assert!(tally.to_string().contains("failed: a one"), "{tally}");
    }

    #[test]
    fn first_line_may_follow_firmware_output() {
        let tally = follow("\u{1b}[2J@@ begin a\ntest one ... ok\n@@ end a 0\n@@ finished\n");
        assert!(tally.began() && tally.good(), "{tally}");
    }

    #[test]
    fn a_machine_that_hangs_is_no_success() {
        assert!(!follow("Booting\n").began());
        let tally = follow("@@ begin a\ntest one ... ok\n");
        assert!(!tally.good());
    }

    #[test]
    fn program_without_a_test_is_a_failure() {
        let tally = follow(
            "@@ begin a\n@@ end a 0\n@@ begin b\ntest one ... ok\n@@ end b 0\n@@ finished\n",
        );
        assert!(!tally.good());
        assert!(
            tally.to_string().contains("failed: a ran no test"),
            "{tally}"
        );
        let text = "@@ begin a\nSKIP main: right: none\n@@ end a 0\n@@ begin b\ntest one ... ok\n@@ end b 0\n@@ finished\n";
        assert!(follow(text).good());
    }

    #[test]
    fn nothing_run_is_no_success() {
        assert!(!follow("@@ finished\n").good());
    }

    #[test]
    fn a_stall_is_asked_for() {
        let mut console = Console::from_machine("m");
        assert_eq!(console.line("@@ stall 60"), Request::Stall(60));
        assert_eq!(console.line("@@ stall soon"), Request::Nothing);
    }
}
