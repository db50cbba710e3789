//! **For:** helpers for the tests of all crates, not for programs. They print a visible line for a
//! test that cannot run here, detect a busy machine, start a database server for the tests, and end
//! child processes.
//!
//! **Knows:** the standard error stream, and the load of the machine.
//!
//! **Must not know:** any other crate of the workspace; this is the lowest layer.

pub mod postgres;
mod running;

use std::fmt;
use std::io::Write;

pub use running::Running;

/// Reports that a test, or a part of one, is skipped on this machine, and why:
/// `skip!("flight recorder: {error}")` prints `SKIP name_of_the_test: flight recorder: ...`.
///
/// The test then returns, or continues without the part.
#[macro_export]
macro_rules! skip {
    ($($why:tt)*) => {
        $crate::say(::std::format_args!($($why)*))
    };
}

/// Writes the line of [`skip!`]. Several lines are joined into one.
///
/// Writes to stderr directly: the test harness captures the output of `eprintln!` in a test that
/// passes, so the skip would not be visible.
#[doc(hidden)]
pub fn say(why: fmt::Arguments<'_>) {
    let thread = std::thread::current();
    let line = line(thread.name().unwrap_or_default(), why);
    // A closed stream is no reason to fail the test.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// Returns the line, with a leading newline because the harness may have begun a line. The harness
/// names the thread after its test.
fn line(test: &str, why: fmt::Arguments<'_>) -> String {
    let why = why.to_string();
    let words: Vec<&str> = why.split_whitespace().collect();
    format!("\nSKIP {test}: {}\n", words.join(" "))
}

/// Other programs use the CPUs of this machine. A skip for that reason begins with this value:
/// `skip!("{crowd}: ...")`. The gate accepts such a skip in any test.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    load: f64,
}

impl fmt::Display for Crowd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "crowded (load {:.1})", self.load)
    }
}

/// Returns `Some` if the 1-minute load average exceeds the number of CPUs plus one. Then durations,
/// and checks of concurrent execution, prove nothing.
pub fn crowded() -> Option<Crowd> {
    // In units of 1/65536 (sysinfo(2)).
    let load = rustix::system::sysinfo().loads[0] as f64 / 65_536.0;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    (load > cpus as f64 + 1.0).then_some(Crowd { load })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_skip_is_one_line_of_its_own() {
        let error = "no right\n  to it";
        assert_eq!(
            super::line("a_test", format_args!("recorder: {error}")),
            "\nSKIP a_test: recorder: no right to it\n"
        );
    }
}
