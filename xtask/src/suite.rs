//! Runs one test program and reads its output: failures, skips, time.

use std::io::Read;
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::left::CreatedMarker;

/// Time limit for a test program, which is far more than any of them needs. Without a limit, a
/// program that hangs would block the gate.
const LIMIT: Duration = Duration::from_secs(1200);
/// Time that processes left by a test program get to end on their own. An example is a server that
/// is shared between tests.
const GRACE: Duration = Duration::from_secs(5);
/// Interval between checks whether a silent program has ended.
const LOOK: Duration = Duration::from_millis(100);

/// The result of a test program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) passed: usize,
    /// The names of the failed tests, as listed by the test harness.
    pub(crate) failed: Vec<String>,
    /// Lines of `punctual_testing::skip!`, without the first word.
    pub(crate) skips: Vec<String>,
    /// Whether the program ended as the test harness does, so that the names of all failures are
    /// known.
    pub(crate) complete: bool,
    pub(crate) took: Duration,
    /// Processes that were still running at its end, and were killed.
    pub(crate) left: Vec<String>,
}

impl Outcome {
    /// Returns whether all tests ran and none failed.
    pub(crate) fn good(&self) -> bool {
        self.complete && self.failed.is_empty()
    }
}

/// Time at which the output of a test program is shown.
#[derive(Debug, Default)]
pub(crate) enum Screen {
    /// Each line is shown immediately.
    #[default]
    Now,
    /// Lines are held back, because they would otherwise be mixed with the output of other
    /// programs.
    Later(Mutex<String>),
}

impl Screen {
    /// Creates a screen that holds lines back until [`Screen::show`] is called.
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

    /// Prints the lines that were held back.
    pub(crate) fn show(&self) {
        if let Screen::Later(kept) = self {
            let kept = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
            print!("{kept}");
        }
    }
}

/// Runs a test program, shows its output, and collects its results. Kills processes that the
/// program leaves running if they do not end soon, and the program itself if it hangs.
///
/// # Errors
/// Fails if the program cannot be started, or its output cannot be read.
pub(crate) fn run(command: Command, screen: &Screen) -> Result<Outcome> {
    run_within(LIMIT, command, screen)
}

fn run_within(limit: Duration, mut command: Command, screen: &Screen) -> Result<Outcome> {
    let begun = Instant::now();
    let mark = CreatedMarker::new();
    mark.put_on(&mut command);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = (command.spawn()).with_context(|| format!("{:?}", command.get_program()))?;
    let stdout = child.stdout.take().context("its standard output")?;
    let stderr = child.stderr.take().context("its standard error")?;
    let mut outcome = Outcome::default();
    let ended = AtomicBool::new(false);
    let (read, skips, status) = std::thread::scope(|scope| {
        let results = scope.spawn(|| results_of(stdout, &ended, screen));
        let skips = scope.spawn(|| skips_of(stderr, &ended, screen));
        let status = wait_within(limit, &mut child);
        let grace = match status {
            Ok(None) => {
                screen.line(&format!("ended here: it ran for {} s", limit.as_secs()));
                Duration::ZERO
            }
            _ => GRACE,
        };
        outcome.left = mark.end_all(grace);
        // The flag is set after the exit, so that the readers get the whole output.
        let status = status.and_then(|_| Ok(child.wait()?));
        ended.store(true, Ordering::Release);
        (results.join(), skips.join().unwrap_or_default(), status)
    });
    let results = read.map_err(|_| anyhow::anyhow!("a thread of xtask panicked"))??;
    let status = status?;
    outcome.passed = results.passed;
    outcome.failed = results.failed;
    outcome.skips = skips;
    // The harness exits with 0, or with 101 after a list of failures.
    outcome.complete = results.complete && status.code().is_some();
    outcome.complete &= status.success() || !outcome.failed.is_empty();
    outcome.took = begun.elapsed();
    Ok(outcome)
}

/// Waits for the process to end. Returns `None` if it is still running.
fn wait_within(limit: Duration, child: &mut Child) -> Result<Option<ExitStatus>> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    poll_in(&process, limit)?;
    Ok(child.try_wait()?)
}

/// Returns whether the stream becomes readable within this time.
fn poll_in(stream: impl AsFd, limit: Duration) -> Result<bool> {
    let limit = Timespec::try_from(limit)?;
    let mut streams = [PollFd::new(&stream, PollFlags::IN)];
    match poll(&mut streams, Some(&limit)) {
        Err(rustix::io::Errno::INTR) => Ok(false),
        ready => Ok(ready? > 0),
    }
}

fn results_of(stdout: impl Read + AsFd, ended: &AtomicBool, screen: &Screen) -> Result<Results> {
    let mut results = Results::default();
    each_line(stdout, ended, |line| {
        screen.line(line);
        results.line(line);
    })?;
    Ok(results)
}

/// Shows all lines, and returns those that report a skip.
fn skips_of(stderr: impl Read + AsFd, ended: &AtomicBool, screen: &Screen) -> Vec<String> {
    let mut skips = Vec::new();
    // A read error only ends the search for skips, so it can be ignored.
    let _ = each_line(stderr, ended, |line| {
        screen.line(line);
        if let Some(why) = line.strip_prefix("SKIP ") {
            skips.push(why.to_owned());
        }
    });
    skips
}

/// Reads until the end of the stream. If another process keeps the stream open, reads until it is
/// empty after the program has ended.
fn each_line(
    mut stream: impl Read + AsFd,
    ended: &AtomicBool,
    mut each: impl FnMut(&str),
) -> Result<()> {
    let mut show = |line: &[u8]| each(String::from_utf8_lossy(line).trim_end_matches('\n'));
    let mut line = Vec::new();
    let mut chunk = vec![0; 64 << 10];
    loop {
        // The flag is read before polling, so that poll sees all output from before the exit.
        let is_last = ended.load(Ordering::Acquire);
        if !poll_in(&stream, LOOK)? {
            if is_last {
                break;
            }
            continue;
        }
        let length = stream.read(&mut chunk)?;
        if length == 0 {
            break;
        }
        for part in chunk[..length].split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                show(&line);
                line.clear();
            }
        }
    }
    if !line.is_empty() {
        show(&line);
    }
    Ok(())
}

/// Parser for the output of the test harness.
#[derive(Default)]
struct Results {
    passed: usize,
    failed: Vec<String>,
    /// Whether there was a result line, so that the names of the failed tests are known.
    complete: bool,
    /// Whether the current line is between the last `failures:` and the result.
    listing: bool,
}

impl Results {
    fn line(&mut self, line: &str) {
        if line == "failures:" {
            // The first list contains the output of the failed tests, the second one their names.
            self.listing = true;
            self.failed.clear();
        } else if let Some(result) = line.strip_prefix("test result: ") {
            self.listing = false;
            self.complete = true;
            self.passed += count(result, " passed");
        } else if self.listing
            && let Some(name) = line.strip_prefix("    ")
            && !name.is_empty()
            && !name.contains(' ')
        {
            self.failed.push(name.to_owned());
        }
    }
}

/// Returns the number before a word: `6 passed; 1 failed`.
fn count(result: &str, word: &str) -> usize {
    let before = result.split(word).next().unwrap_or_default();
    let number = before.rsplit([' ', ';']).next().unwrap_or_default();
    number.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a shell script instead of a test program.
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
        // The program may also die after printing its result.
        assert!(!said("echo 'test result: ok. 3 passed; 0 failed'; kill -9 $$").good());
        assert!(said("echo 'test result: ok. 3 passed; 0 failed'").good());
    }

    #[test]
    fn what_runs_on_is_ended_and_named() {
        let outcome = said("sleep 120 & echo 'test result: ok. 3 passed; 0 failed'");
        assert!(outcome.good(), "{outcome:?}");
        assert_eq!(outcome.left.len(), 1, "{outcome:?}");
    }

    /// This process has no mark, so it is not found.
    #[test]
    fn unmarked_output_holder_is_not_awaited() {
        let screen = Screen::later();
        let mut shell = Command::new("sh");
        let script = "env -i sleep 120 & echo $!
            until [ $(cat /proc/$!/comm) = sleep ]; do :; done
            printf 'test result: ok. 1 passed'";
        shell.args(["-c", script]);
        let outcome = run(shell, &screen).unwrap();
        let Screen::Later(shown) = screen else {
            panic!("it keeps what is shown later");
        };
        let shown = shown.into_inner().unwrap();
        let pid = shown.lines().next().unwrap();
        let kill = Command::new("kill").arg(pid).status().unwrap();
        assert!(kill.success(), "it had ended: {shown}");
        assert_eq!((outcome.passed, outcome.left.len()), (1, 0));
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let mut shell = Command::new("sh");
        shell.args([
            "-c",
            "echo 'test result: ok. 3 passed; 0 failed'; sleep 120",
        ]);
        let outcome = run_within(Duration::from_millis(300), shell, &Screen::Now).unwrap();
        assert!(!outcome.good(), "{outcome:?}");
    }

    #[test]
    fn skips_are_kept_and_all_is_shown() {
        let printed = "\nSKIP a_test: no right\nno SKIP here\n";
        let screen = Screen::later();
        let mut shell = Command::new("printf");
        let mut shell = shell.arg(printed).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = shell.stdout.take().unwrap();
        let skips = skips_of(stdout, &AtomicBool::new(false), &screen);
        shell.wait().unwrap();
        assert_eq!(skips, ["a_test: no right"]);
        let Screen::Later(shown) = screen else {
            panic!("it keeps what is shown later");
        };
        assert_eq!(shown.into_inner().unwrap(), printed);
    }
}
