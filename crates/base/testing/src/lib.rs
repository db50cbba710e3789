//! **For:** what the tests of all crates share, and no program: a test that
//! cannot run here says so where it is seen, can ask whether others want the
//! CPUs, too, and has a database server of its own, and leaves no process behind.
//!
//! **Knows:** the standard error stream, and the load of the machine.
//!
//! **Must not know:** any other crate; it stands below all of them.

pub mod postgres;
mod running;

use std::fmt;
use std::io::Write;

pub use running::Running;

/// Says that a test, or a part of one, is left out on this machine, and why:
/// `skip!("flight recorder: {error}")` prints `SKIP name_of_the_test: flight recorder: ...`.
///
/// The test itself then returns, or goes on without the part.
#[macro_export]
macro_rules! skip {
    ($($why:tt)*) => {
        $crate::say(::std::format_args!($($why)*))
    };
}

/// Writes the line of [`skip!`]; several lines become one.
///
/// The test harness keeps what `eprintln!` prints from a test that passes, so
/// a skip would never be seen. What is written to the stream itself passes it.
#[doc(hidden)]
pub fn say(why: fmt::Arguments<'_>) {
    let thread = std::thread::current();
    let line = line(thread.name().unwrap_or_default(), why);
    // A closed stream is no reason to fail the test.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// The line, with the line end before it as well: the harness may have begun
/// one. The harness names the thread of a test after it.
fn line(test: &str, why: fmt::Arguments<'_>) -> String {
    let why = why.to_string();
    let words: Vec<&str> = why.split_whitespace().collect();
    format!("\nSKIP {test}: {}\n", words.join(" "))
}

/// Others want the CPUs of this machine as well. A skip for that reason begins with it:
/// `skip!("{crowd}: ...")`; the gate accepts such a skip of any test.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    load: f64,
}

impl fmt::Display for Crowd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "crowded (load {:.1})", self.load)
    }
}

/// Whether the load average of the last minute is above one for each CPU and one more:
/// then a duration, or what ran beside what, proves nothing.
pub fn crowded() -> Option<Crowd> {
    // In parts of 65536 (sysinfo(2)).
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
