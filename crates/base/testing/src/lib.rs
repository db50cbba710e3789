//! **For:** helpers for the tests of all crates, not for programs. They print a visible line for a
//! test that cannot run on this machine, detect a busy machine, run the programs of punctual as a
//! user would, start a database server for the tests, and end child processes.
//!
//! **Knows:** the standard error stream, and the load of the machine.
//!
//! **Must not know:** any other crate of the workspace; this is the lowest layer.

mod lacks;
pub mod postgres;
mod process;
mod program;
mod running;
mod server;

use std::fmt;
use std::io::Write;

pub use lacks::Lacks;
pub use process::{eventually, isolate, signal, text};
pub use program::program;
pub use running::Running;
pub use server::Server;

/// Reports that a test, or a part of one, is skipped on this machine, with the reason ([`Lacks`])
/// and details: `skip!(Right, "a full disk: no right to mount a tmpfs")` prints `SKIP
/// name_of_the_test: right: a full disk: no right to mount a tmpfs`.
///
/// The test then returns, or continues without the part. Use [`skip_refused`] if the reason comes
/// from the program or the kernel.
#[macro_export]
macro_rules! skip {
    ($lacks:ident, $($why:tt)*) => {
        $crate::say($crate::Lacks::$lacks, ::std::format_args!($($why)*))
    };
}

/// Skips a test because the program or the kernel refused an action of the test. `told` is the text
/// of the refusal.
///
/// # Panics
/// Panics with the whole text if it contains no reason to skip ([`Lacks::of_refusal`]).
#[track_caller]
pub fn skip_refused(what: impl fmt::Display, told: impl fmt::Display) {
    let text = format!("{what}: {told}");
    say(Lacks::of_refusal(&text), format_args!("{text}"));
}

/// Repeats the skips that a test in a child process reported on its stderr.
///
/// # Panics
/// Panics if a SKIP line contains none of the reasons in [`Lacks`].
pub fn skip_inside(stderr: &str) {
    for line in stderr.lines() {
        let Some(skip) = line.strip_prefix("SKIP ") else {
            continue;
        };
        let mut parts = skip.splitn(3, ": ").skip(1);
        let lacks = parts.next().and_then(Lacks::from_word);
        let lacks = lacks.unwrap_or_else(|| panic!("a skip without a reason: {line}"));
        say(lacks, format_args!("{}", parts.next().unwrap_or_default()));
    }
}

/// Returns a thread builder with the name of the calling test, so that the new thread can skip that
/// test.
pub fn thread_of_test() -> std::thread::Builder {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    std::thread::Builder::new().name(name)
}

/// Writes the line of [`skip!`]. Several lines are joined into one.
///
/// Writes to stderr directly, because the test harness captures the output of `eprintln!` in a test
/// that passes, which would hide the skip.
#[doc(hidden)]
pub fn say(lacks: Lacks, why: fmt::Arguments<'_>) {
    let thread = std::thread::current();
    // The harness names the thread after its test. The gate looks for this name.
    let test = (thread.name())
        .expect("the thread that skips a test must have a name: see thread_of_test()");
    let line = line(test, lacks, why);
    // A closed stream is no reason to fail the test.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// Returns the line, with a leading newline because the harness may already have written part of a
/// line.
fn line(test: &str, lacks: Lacks, why: fmt::Arguments<'_>) -> String {
    let why = why.to_string();
    let words: Vec<&str> = why.split_whitespace().collect();
    format!("\nSKIP {test}: {lacks}: {}\n", words.join(" "))
}

/// Evidence that other programs are using the CPUs of this machine. The details of a skip for that
/// reason begin with this value: `skip!(Quiet, "{crowd}: ...")`.
#[derive(Clone, Copy, Debug)]
pub struct Overload {
    load: f64,
}

impl fmt::Display for Overload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "crowded (load {:.1})", self.load)
    }
}

/// Returns `Some` if the 1-minute load average exceeds the number of CPUs plus one. On such a
/// machine, measured durations and checks of concurrent execution prove nothing.
pub fn crowded() -> Option<Overload> {
    // The load average is in units of 1/65536 (sysinfo(2)).
    let load = rustix::system::sysinfo().loads[0] as f64 / 65_536.0;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    (load > cpus as f64 + 1.0).then_some(Overload { load })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skip_prints_its_own_line() {
        let error = "no right\n  to it";
        assert_eq!(
            line("a_test", Lacks::Right, format_args!("recorder: {error}")),
            "\nSKIP a_test: right: recorder: no right to it\n"
        );
    }
}
