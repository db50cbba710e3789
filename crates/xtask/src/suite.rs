//! One test program, run and understood: what failed, what was skipped, how long.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// What a test program said of its tests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) passed: usize,
    /// The names of the tests that failed, as the test harness lists them.
    pub(crate) failed: Vec<String>,
    /// Lines of `punctual_testing::skip!`, without the leading word.
    pub(crate) skips: Vec<String>,
    /// The program ended as the test harness ends: all failures have a name.
    pub(crate) complete: bool,
    pub(crate) took: Duration,
}

impl Outcome {
    /// Whether all tests ran, and none failed.
    pub(crate) fn good(&self) -> bool {
        self.complete && self.failed.is_empty()
    }
}

/// Where the lines of a test program are shown.
#[derive(Debug, Default)]
pub(crate) enum Screen {
    /// As they come.
    #[default]
    Now,
    /// When asked for: beside another program, whose lines would stand between.
    Later(Mutex<String>),
}

impl Screen {
    /// Keeps the lines until [`Screen::show`].
    pub(crate) fn later() -> Screen {
        Screen::Later(Mutex::default())
    }

    /// Shows a line.
    pub(crate) fn line(&self, line: &str) {
        match self {
            Screen::Now => println!("{line}"),
            Screen::Later(kept) => {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.push_str(line);
                kept.push('\n');
            }
        }
    }

    /// Prints what was kept.
    pub(crate) fn show(&self) {
        if let Screen::Later(kept) = self {
            let kept = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
            print!("{kept}");
        }
    }
}

/// Runs a test program, shows all that it prints, and keeps what it says.
///
/// # Errors
/// A program that cannot be started or read.
pub(crate) fn run(mut command: Command, screen: &Screen) -> Result<Outcome> {
    let begun = Instant::now();
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = (command.spawn()).with_context(|| format!("{:?}", command.get_program()))?;
    let stderr = child.stderr.take().context("its standard error")?;
    let mut outcome = Outcome::default();
    let (read, skips, status) = std::thread::scope(|scope| {
        let skips = scope.spawn(|| skips_of(stderr, screen));
        let read = results_of(&mut child, &mut outcome, screen);
        (read, skips.join().unwrap_or_default(), child.wait())
    });
    read?;
    let status = status?;
    outcome.skips = skips;
    // The harness ends with 0, or with 101 after a list of failures.
    outcome.complete = outcome.complete && status.code().is_some();
    outcome.complete &= status.success() || !outcome.failed.is_empty();
    outcome.took = begun.elapsed();
    Ok(outcome)
}

fn results_of(child: &mut Child, outcome: &mut Outcome, screen: &Screen) -> Result<()> {
    let stdout = child.stdout.take().context("its standard output")?;
    let mut results = Results::default();
    each_line(stdout, |line| {
        screen.line(line);
        results.line(line, outcome);
    })
}

/// The lines of skips, while all is shown.
fn skips_of(stderr: impl Read, screen: &Screen) -> Vec<String> {
    let mut skips = Vec::new();
    // What cannot be read any more is no skip.
    let _ = each_line(stderr, |line| {
        screen.line(line);
        if let Some(why) = line.strip_prefix("SKIP ") {
            skips.push(why.to_owned());
        }
    });
    skips
}

fn each_line(stream: impl Read, mut each: impl FnMut(&str)) -> Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    while stream.read_until(b'\n', &mut line)? > 0 {
        each(String::from_utf8_lossy(&line).trim_end_matches('\n'));
        line.clear();
    }
    Ok(())
}

/// The reader of what the test harness prints.
#[derive(Default)]
struct Results {
    /// Between the last `failures:` and the result.
    listing: bool,
}

impl Results {
    fn line(&mut self, line: &str, outcome: &mut Outcome) {
        if line == "failures:" {
            // The first list has the tests' output, the second one their names.
            self.listing = true;
            outcome.failed.clear();
        } else if let Some(result) = line.strip_prefix("test result: ") {
            self.listing = false;
            outcome.complete = true;
            outcome.passed += count(result, " passed");
        } else if self.listing
            && let Some(name) = line.strip_prefix("    ")
            && !name.is_empty()
            && !name.contains(' ')
        {
            outcome.failed.push(name.to_owned());
        }
    }
}

/// The number before a word: `6 passed; 1 failed`.
fn count(result: &str, word: &str) -> usize {
    let before = result.split(word).next().unwrap_or_default();
    let number = before.rsplit([' ', ';']).next().unwrap_or_default();
    number.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell in the place of a test program.
    fn said(script: &str) -> Outcome {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        run(shell, &Screen::Now).unwrap()
    }

    #[test]
    fn failures_have_their_names() {
        let outcome = said(
            "printf 'test a ... ok\\ntest b ... FAILED\\n\\nfailures:\\n\\n---- b stdout ----\\n\\
             note: x\\n    at here\\n\\nfailures:\\n    b\\n\\ntest result: FAILED. 6 passed; 1 failed; 0 ignored\\n'
             exit 101",
        );
        assert_eq!(
            (outcome.passed, outcome.failed.as_slice()),
            (6, &["b".to_owned()][..])
        );
        assert!(outcome.complete && !outcome.good());
    }

    #[test]
    fn a_program_that_dies_is_incomplete() {
        assert!(!said("echo 'running 3 tests'; kill -9 $$").complete);
        assert!(!said("echo 'running 3 tests'; exit 1").complete);
        // It may die after its result as well.
        assert!(!said("echo 'test result: ok. 3 passed; 0 failed'; kill -9 $$").good());
        assert!(said("echo 'test result: ok. 3 passed; 0 failed'").good());
    }

    #[test]
    fn skips_are_kept_and_all_is_shown() {
        let printed = "\nSKIP a_test: no right\nno SKIP here\n";
        let screen = Screen::later();
        assert_eq!(skips_of(printed.as_bytes(), &screen), ["a_test: no right"]);
        let Screen::Later(shown) = screen else {
            panic!("it keeps what is shown later");
        };
        assert_eq!(shown.into_inner().unwrap(), printed);
    }
}
