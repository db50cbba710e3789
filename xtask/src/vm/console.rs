//! Reads the console of the machine line by line.

use std::fmt;

use super::machines::{Suite, Target};

/// Printed before the tests of a program.
pub(crate) const BEGIN: &str = "@@ begin";
/// Printed after them, with the exit status of the program.
pub(crate) const END: &str = "@@ end";
/// Printed after all tests.
pub(crate) const FINISHED: &str = "@@ finished";
/// A test's request to stop the whole machine for some milliseconds.
pub(crate) const STALL: &str = "@@ stall";

/// Returns the name of a suite for the screen.
pub(crate) fn suite_name(suite: &Suite) -> String {
    match suite.target {
        Target::Unit => suite.package.to_owned(),
        Target::Integration(name) => format!("{}/{name}", suite.package),
    }
}

/// Counts of test results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: u32,
    skipped: u32,
    failed: Vec<String>,
    /// Whether the first test program was started.
    began: bool,
    finished: bool,
    machines: u32,
}

impl Tally {
    /// Adds the counts of another machine.
    pub(crate) fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.skipped += other.skipped;
        self.failed.extend(other.failed.iter().cloned());
        self.finished = (self.machines == 0 || self.finished) && other.finished;
        self.machines += 1;
    }

    /// Returns whether any test program was started.
    pub(crate) fn began(&self) -> bool {
        self.began
    }

    /// Returns whether there were tests, all ran to the end, and none failed.
    pub(crate) fn good(&self) -> bool {
        self.finished && self.failed.is_empty() && self.passed > 0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} lines of SKIP",
            self.passed,
            self.failed.len(),
            self.skipped
        )?;
        if !self.finished {
            f.write_str("; it did not come to its end")?;
        }
        for name in &self.failed {
            write!(f, "\n  failed: {name}")?;
        }
        Ok(())
    }
}

/// The action that a line requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Nothing.
    Nothing,
    /// Show it to the user.
    Show,
    /// Stop the machine for this many milliseconds.
    Stall(u64),
}

/// Follows the console.
#[derive(Default)]
pub(crate) struct Console {
    pub(crate) tally: Tally,
    suite: String,
}

impl Console {
    /// Processes a line.
    pub(crate) fn line(&mut self, line: &str) -> Asked {
        // The firmware may have left text at the start of a line.
        if let Some((_, name)) = line.split_once(BEGIN) {
            self.suite = name.trim().to_owned();
            self.tally.began = true;
            return Asked::Nothing;
        }
        if let Some(rest) = line.strip_prefix(END) {
            if !rest.ends_with(" 0") {
                self.tally
                    .failed
                    .push(format!("{} (exit status)", rest.trim()));
            }
            return Asked::Nothing;
        }
        if line.starts_with(FINISHED) {
            self.tally.finished = true;
            return Asked::Nothing;
        }
        if let Some((_, ms)) = line.split_once(STALL) {
            return ms.trim().parse().map_or(Asked::Nothing, Asked::Stall);
        }
        // A test's own output may be between its name and its result.
        if line.contains("SKIP ") {
            self.tally.skipped += 1;
            return Asked::Show;
        }
        if line.starts_with("test result:") {
            return Asked::Nothing;
        }
        if line.starts_with("test ") || line == "ok" {
            if line.ends_with("ok") {
                self.tally.passed += 1;
                return Asked::Show;
            }
            if line.ends_with("FAILED") {
                self.tally.failed.push(format!("{}: {line}", self.suite));
                return Asked::Show;
            }
        }
        Asked::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(text: &str) -> Tally {
        let mut console = Console::default();
        for line in text.lines() {
            console.line(line);
        }
        console.tally
    }

    #[test]
    fn results_are_counted() {
        let tally = follow(
            "@@ begin a/b\ntest one ... ok\ntest two ... SKIP no right\nok\n@@ end a/b 0\n@@ finished\n",
        );
        assert_eq!((tally.passed, tally.skipped), (2, 1));
        assert!(tally.good(), "{tally}");
    }

    #[test]
    fn a_failure_is_named() {
        let tally = follow("@@ begin a\ntest one ... FAILED\n@@ end a 101\n@@ finished\n");
        assert!(!tally.good());
        assert!(tally.to_string().contains("a: test one"), "{tally}");
    }

    #[test]
    fn the_first_line_may_follow_what_the_firmware_wrote() {
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
    fn nothing_run_is_no_success() {
        assert!(!follow("@@ finished\n").good());
    }

    #[test]
    fn a_stall_is_asked_for() {
        let mut console = Console::default();
        assert_eq!(console.line("@@ stall 60"), Asked::Stall(60));
        assert_eq!(console.line("@@ stall soon"), Asked::Nothing);
    }
}
