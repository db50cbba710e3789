//! Processes, as far as one asks about itself or whether another still runs.

use punctual_model::CpuSet;

use crate::HostError;
use crate::root::Root;

const STATUS: &str = "/proc/self/status";
const ALLOWED: &str = "Cpus_allowed_list:";

/// The CPUs this process may run on.
pub(crate) fn allowed(root: &Root) -> Result<CpuSet, HostError> {
    let status = root.require(STATUS)?;
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix(ALLOWED))
        .ok_or(HostError::NoField {
            path: STATUS.to_owned(),
            field: ALLOWED,
        })?;
    list.trim().parse().map_err(|source| HostError::CpuList {
        path: STATUS.to_owned(),
        source,
    })
}

/// The identity of the time since the last boot.
pub(crate) fn boot_id(root: &Root) -> Option<String> {
    root.word("/proc/sys/kernel/random/boot_id").value
}

/// When the process was started, in ticks after boot.
pub(crate) fn start(root: &Root, pid: u32) -> Option<u64> {
    start_time(&root.raw_text(&format!("/proc/{pid}/stat")).ok()?)
}

/// Field 22 of `/proc/PID/stat`, proc_pid_stat(5). Field 2, the command's
/// name, can hold anything, spaces and parentheses too: count from the last
/// parenthesis, after which field 3 comes.
fn start_time(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_may_hold_anything() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        for name in ["cat", "a) S 1 (b", "", ") ) )"] {
            assert_eq!(start_time(&format!("9 ({name}) {rest}")), Some(4711));
        }
        assert_eq!(start_time("9 (cat) S 1 2"), None);
        assert_eq!(start_time(""), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[ ()0-9a-zS\\n]{0,80}") {
            let _ = start_time(&text);
        }
    }
}
