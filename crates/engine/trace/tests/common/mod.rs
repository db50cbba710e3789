//! Code shared by the tests that use this machine's kernel.
#![allow(unreachable_pub, clippy::unwrap_used)]

use punctual_trace::Owner;

/// Returns this process as the owner of an instance. With any other owner, a punctual process
/// running at the same time would consider the instance left behind and remove it.
pub fn owner() -> Owner {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let start = after_name.split_whitespace().nth(22 - 3).unwrap();
    Owner {
        pid: std::process::id(),
        start: start.parse().unwrap(),
    }
}
