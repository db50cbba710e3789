//! Identifies the process that wrote the figures, by its boot and start time.

use std::fs;
use std::io;
use std::path::Path;

/// Identity of a process, unique across boots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The boot (random/boot_id in proc(5)).
    pub boot_id: [u64; 2],
    /// Start time, in clock ticks after boot (proc_pid_stat(5)).
    pub start_ticks: u64,
}

impl Identity {
    /// Reads the identity of a process under `proc` (`/proc`).
    ///
    /// # Errors
    /// Returns an error if the process does not exist, or if /proc hides it.
    pub fn new(proc: &Path, pid: u32) -> io::Result<Self> {
        Self::read(proc, &pid.to_string())
    }

    /// Reads the identity of this process.
    pub(crate) fn own() -> io::Result<Self> {
        Self::read(Path::new("/proc"), "self")
    }

    #[expect(clippy::disallowed_methods, reason = "the kernel limits this file")]
    fn read(proc: &Path, process: &str) -> io::Result<Self> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let boot = fs::read_to_string(proc.join("sys/kernel/random/boot_id"))?;
        let stat = fs::read_to_string(proc.join(process).join("stat"))?;
        Ok(Self {
            boot_id: boot_id(&boot).ok_or_else(invalid)?,
            start_ticks: start_ticks(&stat).ok_or_else(invalid)?,
        })
    }
}

/// Parses the 32 hexadecimal digits of a UUID into two words.
fn boot_id(text: &str) -> Option<[u64; 2]> {
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    let half = |range| u64::from_str_radix(digits.get(range)?, 16).ok();
    (digits.len() == 32).then_some([half(0..16)?, half(16..32)?])
}

/// Parses field 22. The process name before this field may contain anything, so fields are counted
/// from the last parenthesis.
fn start_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_found_behind_any_name() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        assert_eq!(start_ticks(&format!("9 (a) b) {rest}")), Some(4_711));
        assert_eq!(start_ticks("9 (a) S 1"), None);
        assert_eq!(start_ticks(""), None);
    }

    #[test]
    fn a_boot_is_two_words() {
        let id = boot_id("00000000-0000-0001-0000-0000000000ff\n");
        assert_eq!(id, Some([1, 255]));
        assert_eq!(boot_id("0-1"), None);
        assert_eq!(boot_id(&"\u{b5}".repeat(16)), None);
    }

    #[test]
    fn this_process_is_itself() {
        let own = Identity::own().unwrap();
        let again = Identity::new(Path::new("/proc"), std::process::id()).unwrap();
        assert_eq!(own, again);
    }
}
