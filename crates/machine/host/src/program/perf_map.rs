//! Functions that a just-in-time compiler made, as it lists them in `/tmp/perf-PID.map`
//! (`tools/perf/Documentation/jit-interface.txt` in the kernel): a start address, a size and a name
//! in each line. The file belongs to the program and is untrusted.

use std::os::unix::fs::MetadataExt as _;

use super::allowance::{LONGEST_NAME, MOST_SYMBOLS};
use crate::root::Root;
use punctual_files::Budget;

/// Maximum number of bytes that are read. The newest functions are at the end of the file, which is
/// beyond this limit only in programs that compile for hours.
const MOST_READ: u64 = 16 << 20;

/// The compiled functions of a process.
#[derive(Debug, Default)]
pub(super) struct PerfMap {
    /// The file, as the program sees it.
    pub(super) path: String,
    /// Start, size and name, in ascending order.
    functions: Vec<(u64, u64, String)>,
}

impl PerfMap {
    /// Reads the file of a process; empty if there is none. The file must belong to the user of the
    /// process, because anyone can create a file with this name.
    pub(super) fn read(root: &Root, pid: u32) -> Self {
        let status = root.raw_text(&format!("/proc/{pid}/status"));
        let status = status.unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        // The number of the process in its own PID namespace is the last one.
        let own = field("NSpid:").and_then(|numbers| numbers.split_whitespace().last());
        let path = format!("/tmp/perf-{}.map", own.unwrap_or(&pid.to_string()));
        let users = field("Uid:").unwrap_or_default();
        let user: Option<u32> = (users.split_whitespace().nth(1)).and_then(|id| id.parse().ok());
        let file = root.open_if(&format!("/proc/{pid}/root{path}"), |data| {
            data.is_file() && Some(data.uid()) == user
        });
        let mut bytes = Vec::new();
        if let Ok(file) = file {
            // Lines before an error are still valid.
            let _ = Budget::bytes(MOST_READ).append(file, &mut bytes);
        }
        Self {
            path,
            functions: functions(&String::from_utf8_lossy(&bytes)),
        }
    }

    /// Returns the function at an address, with the offset of the address after `back`.
    pub(super) fn name(&self, address: u64, back: u64) -> Option<String> {
        let after = self
            .functions
            .partition_point(|(start, ..)| *start <= address);
        let (start, size, name) = self.functions.get(after.checked_sub(1)?)?;
        let offset = address - start;
        (offset < *size).then(|| format!("{name}+{:#x}", offset + back))
    }
}

/// Parses the lines. A compiler may reuse the address of a function, so the last line counts.
fn functions(text: &str) -> Vec<(u64, u64, String)> {
    let line = |line: &str| {
        let mut fields = line.splitn(3, ' ');
        let mut hex = || {
            let field = fields.next()?.trim_start_matches("0x");
            u64::from_str_radix(field, 16).ok()
        };
        let (start, size) = (hex()?, hex()?);
        let clean = fields.next()?.chars().take(LONGEST_NAME);
        let clean = clean.map(|c| if c.is_control() { '?' } else { c });
        Some((start, size, clean.collect::<String>()))
    };
    let mut all: Vec<_> = text.lines().filter_map(line).take(MOST_SYMBOLS).collect();
    all.reverse();
    // The sort is stable: of functions with one address, the newest comes first.
    all.sort_by_key(|(start, ..)| *start);
    all.dedup_by_key(|(start, ..)| *start);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> PerfMap {
        PerfMap {
            path: String::new(),
            functions: functions(text),
        }
    }

    #[test]
    fn compiled_functions_are_named() {
        let map =
            map("7f10 20 old name\nzz 1 bad\n7f40 10 last\n0x7f10 20 LazyCompile:~step a.js:1\n");
        assert_eq!(map.name(0x7f18, 0).unwrap(), "LazyCompile:~step a.js:1+0x8");
        assert_eq!(
            map.name(0x7f2f, 1).unwrap(),
            "LazyCompile:~step a.js:1+0x20"
        );
        assert_eq!(map.name(0x7f45, 0).unwrap(), "last+0x5");
        for address in [0, 0x7f0f, 0x7f30, 0x7f50, u64::MAX] {
            assert_eq!(map.name(address, 0), None, "{address:#x}");
        }
    }

    #[test]
    fn hostile_lines_do_no_harm() {
        let map = map("ffffffffffffffff ffffffffffffffff \u{1b}[2J\n1\n1 2\n\n- - -\n");
        assert_eq!(map.name(u64::MAX, 1).unwrap(), "?[2J+0x1");
        assert_eq!(map.name(1, 0), None);
    }

    #[test]
    fn file_of_the_process_is_read() {
        let tree = tempfile::tempdir().unwrap();
        let root = Root::new(tree.path().to_owned());
        let write = |path: &str, text: &str| {
            let path = tree.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let own = rustix::process::geteuid().as_raw();
        write("proc/7/root/tmp/perf-3.map", "10 10 step\n");
        write(
            "proc/7/status",
            &format!("Uid:\t{own}\t{own}\t{own}\t{own}\nNSpid:\t7\t3\n"),
        );
        let map = PerfMap::read(&root, 7);
        assert_eq!(map.path, "/tmp/perf-3.map");
        assert_eq!(map.name(0x11, 0).unwrap(), "step+0x1");
        // The file belongs to another user than the process.
        let other = own + 1;
        write(
            "proc/7/status",
            &format!("Uid:\t0\t{other}\t0\t0\nNSpid:\t7\t3\n"),
        );
        assert_eq!(PerfMap::read(&root, 7).name(0x11, 0), None);
        assert_eq!(PerfMap::read(&root, 8).name(0x11, 0), None);
    }
}
