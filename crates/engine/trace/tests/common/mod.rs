//! What the tests of this machine's kernel share.
#![allow(unreachable_pub, clippy::unwrap_used)]

use punctual_trace::Owner;

/// This process: the next command of a punctual that runs beside this test must
/// not take its instance for one that was left behind.
pub fn owner() -> Owner {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let start = after_name.split_whitespace().nth(22 - 3).unwrap();
    Owner {
        pid: std::process::id(),
        start: start.parse().unwrap(),
    }
}
