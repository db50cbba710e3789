//! Processes of others and their threads.

use crate::root::Root;

/// The threads of a process, with their names, by rising number; empty where
/// there is no such process.
pub(crate) fn threads(root: &Root, pid: u32) -> Vec<(u32, String)> {
    let folder = format!("/proc/{pid}/task");
    let named = |tid: u32| {
        // One that ended meanwhile has none.
        let comm = root.raw_text(&format!("{folder}/{tid}/comm")).ok()?;
        Some((tid, comm.trim_end_matches('\n').to_owned()))
    };
    numbers(root, &folder)
        .into_iter()
        .filter_map(named)
        .collect()
}

/// The processes, by rising number.
pub(crate) fn processes(root: &Root) -> Vec<u32> {
    numbers(root, "/proc")
}

fn numbers(root: &Root, folder: &str) -> Vec<u32> {
    let names = root.names(folder).unwrap_or_default();
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_threads_are_there() {
        let root = Root::new("/".into());
        let own = std::process::id();
        assert!(processes(&root).contains(&own));
        let threads = threads(&root, own);
        assert!(threads.iter().any(|(tid, _)| *tid == own), "{threads:?}");
        assert!(threads.iter().all(|(_, comm)| !comm.is_empty()));
    }

    #[test]
    fn no_process_has_no_threads() {
        assert!(threads(&Root::new("/".into()), u32::MAX).is_empty());
    }
}
