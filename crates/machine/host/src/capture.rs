//! Captures the state of a machine as a set of readings, for an audit on this or another machine.

use std::collections::BTreeMap;

use jiff::Timestamp;
use punctual_model::{CpuSet, FACT_SET_SCHEMA, Fact, FactSet, Reading, TaskFact, name_matches};

use crate::cgroup::group_in;
use crate::facts::{self, NotAConfig};
use crate::process::hiding_option;
use crate::root::Root;
use crate::{Host, Unread, cards, latency_holders};

/// Device with the current limit on the exit latency of idle states, which is a 32-bit number
/// rather than text (`kernel/power/qos.c`).
const DMA_LATENCY: &str = latency_holders::DEVICE;

/// Maximum number of processes and threads to store. `pid_max` allows up to 4 million.
const TASKS_LIMIT: usize = 65_536;

/// Pattern that stands not for a file but for a command with the same output: the processes that
/// have [`DMA_LATENCY`] open.
const HOLDERS: &str = "fuser /dev/cpu_dma_latency";
/// File of which only the per-CPU lines are stored. Its other lines count the interrupts of the
/// whole machine and are left out.
const STAT: &str = "/proc/stat";

/// Source of the list of processes, as it is named in facts.
const TASKS: &str = "/proc/PID/{stat,status}";

/// `PF_NO_SETAFFINITY` from `include/linux/sched.h`.
const NO_SETAFFINITY: u64 = 0x0400_0000;
/// `PF_KTHREAD` from `include/linux/sched.h`.
const KERNEL_THREAD: u64 = 0x0020_0000;

impl Host {
    /// Reads the files of `patterns`, the facts, the processes and the kernel's configuration. For
    /// a file that cannot be read, the reason is stored, so this function never fails as a whole.
    /// It measures nothing, so `sample` is `None`.
    ///
    /// In a pattern, `#` matches a number, and `*` matches any characters within a name. `{cgroup}`
    /// and `{cgroup:cpu}` stand for the control group of this process. `{cgroups}` and
    /// `{cgroups:cpu}` stand for that group and all groups above it. In this case, the text has one
    /// line per group, which contains the group's name and the file's text. The innermost group
    /// comes first. Three patterns are not files: `ethtool -c *` and `ethtool --show-eee *` stand
    /// for the answer of each network card (see [`Coalescing`](crate::Coalescing) and
    /// [`Eee`](crate::Eee)), and `fuser /dev/cpu_dma_latency` for the processes that have that
    /// device open, if the device limits anything.
    pub fn capture(&self, patterns: &[&str]) -> FactSet {
        let mut files = BTreeMap::new();
        // On a large machine, reading the processes is half of the work and mostly waits for the
        // kernel, so a separate thread does it.
        let (host, tasks) = std::thread::scope(|scope| {
            let tasks = scope.spawn(|| tasks(&self.root));
            for pattern in patterns {
                read_pattern(&self.root, pattern, &mut files);
            }
            let failed = |_| Fact::unknown(TASKS, "the thread that reads the counters failed");
            (self.facts(), tasks.join().unwrap_or_else(failed))
        });
        FactSet {
            schema: FACT_SET_SCHEMA,
            program: format!("punctual {}", env!("CARGO_PKG_VERSION")),
            captured: Timestamp::now(),
            host,
            kernel_config: facts::kernel_config(&self.root),
            files,
            tasks,
            sample: None,
            interruptions: None,
        }
    }

    /// Reads a kernel configuration from a separate file, which may be compressed with gzip, xz or
    /// zstd.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is damaged, or contains no option.
    pub fn kernel_config(&self, file: &str) -> Result<String, NotAConfig> {
        facts::read_config(&self.root, file)
    }
}

/// Reads each file that matches a pattern. If no file matches, stores the pattern itself with the
/// reason.
fn read_pattern(root: &Root, pattern: &str, files: &mut BTreeMap<String, Reading>) {
    if cards::read(root, pattern, files) {
        return;
    }
    if pattern == HOLDERS {
        files.insert(pattern.to_owned(), latency_holders::read(root));
        return;
    }
    if pattern.contains(GROUPS) {
        let text = of_groups(root, pattern);
        files.insert(pattern.to_owned(), reading(text.map_err(NoText::from)));
        return;
    }
    if !pattern.contains(['*', '#']) {
        let path = with_group(root, pattern).map_err(NoText::from);
        let text = path.and_then(|path| read(root, &path));
        files.insert(pattern.to_owned(), reading(text));
        return;
    }
    let mut paths = vec![String::new()];
    let mut refused = None;
    for component in pattern.split('/').skip(1) {
        let mut next = Vec::new();
        for path in paths {
            if !component.contains(['*', '#']) {
                next.push(format!("{path}/{component}"));
                continue;
            }
            match root.names(&path) {
                Ok(names) => next.extend(
                    names
                        .iter()
                        .filter(|name| name_matches(component.as_bytes(), name.as_bytes()))
                        .map(|name| format!("{path}/{name}")),
                ),
                Err(Unread::NotThere) => {}
                Err(reason) => refused = Some(reason),
            }
        }
        paths = next;
    }
    let before = files.len();
    for path in paths {
        // A folder that matches a pattern may lack the file, which is not an error.
        match reading(read(root, &path)) {
            Reading::Absent => {}
            reading => {
                files.insert(path, reading);
            }
        }
    }
    if files.len() == before {
        let why = refused.unwrap_or(Unread::NotThere);
        files.insert(pattern.to_owned(), reading(Err(why.into())));
    }
}

/// Replaces `{cgroup}` (version 2) or `{cgroup:NAME}` (a controller of version 1) in a path with
/// the control group of this process, from /proc/self/cgroup (cgroups(7)).
fn with_group(root: &Root, pattern: &str) -> Result<String, Unread> {
    let Some((before, rest)) = pattern.split_once('{') else {
        return Ok(pattern.to_owned());
    };
    let (mark, after) = rest.split_once('}').unwrap_or((rest, ""));
    let controller = mark.strip_prefix("cgroup:");
    let text = root.text("/proc/self/cgroup")?;
    match group_in(&text, controller) {
        Some(group) => Ok(format!("{before}{group}{after}")),
        None => Err(Unread::NotThere),
    }
}

/// Start of the placeholder for a control group and all groups above it.
const GROUPS: &str = "{cgroups";

/// Reads a file of this process's control group and of each group above it, up to the root. For
/// each group that has the file, returns a line with the group's name and the file's text.
fn of_groups(root: &Root, pattern: &str) -> Result<String, Unread> {
    let (before, rest) = pattern.split_once(GROUPS).unwrap_or((pattern, "}"));
    let (mark, after) = rest.split_once('}').unwrap_or((rest, ""));
    let text = root.text("/proc/self/cgroup")?;
    let mut group = group_in(&text, mark.strip_prefix(':')).ok_or(Unread::NotThere)?;
    let mut lines: Vec<String> = Vec::new();
    loop {
        match root.text(&format!("{before}{group}{after}")) {
            Ok(text) => {
                let name = if group.is_empty() { "/" } else { group };
                lines.push(format!("{name} {text}"));
            }
            Err(Unread::NotThere) => {}
            Err(reason) => return Err(reason),
        }
        match group.rsplit_once('/') {
            Some((above, _)) => group = above,
            None if lines.is_empty() => return Err(Unread::NotThere),
            None => return Ok(lines.join("\n")),
        }
    }
}

/// The reason why a file has no text.
#[derive(Debug, thiserror::Error)]
enum NoText {
    #[error(transparent)]
    Unread(#[from] Unread),
    #[error("{0} bytes where 4 were expected")]
    Length(usize),
}

fn read(root: &Root, file: &str) -> Result<String, NoText> {
    if file == STAT {
        let text = root.text(file)?;
        let cpus: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("cpu"))
            .collect();
        return Ok(cpus.join("\n"));
    }
    if file != DMA_LATENCY {
        return Ok(root.text(file)?);
    }
    let bytes = root.bytes(file).map_err(|error| root.reason(&error))?;
    match <[u8; 4]>::try_from(bytes.as_slice()) {
        Ok(bytes) => Ok(i32::from_ne_bytes(bytes).to_string()),
        Err(_) => Err(NoText::Length(bytes.len())),
    }
}

fn reading(text: Result<String, NoText>) -> Reading {
    match text {
        Ok(text) => Reading::Text(text),
        Err(NoText::Unread(Unread::NotThere)) => Reading::Absent,
        Err(reason) => Reading::Unreadable(reason.to_string()),
    }
}

/// Returns the processes and kernel threads in ascending order. The other threads of a process are
/// not read, because that would take a second on a large machine.
fn tasks(root: &Root) -> Fact<Vec<TaskFact>> {
    if let Some(option) = hiding_option(root) {
        let why = format!("/proc hides the processes of other users ({option}): run as root");
        return Fact::unknown(TASKS, why);
    }
    let pids = match root.numbered("/proc", "") {
        Ok(pids) if !pids.is_empty() => pids,
        Ok(_) => return Fact::unknown(TASKS, "/proc shows no processes"),
        Err(reason) => return Fact::unknown(TASKS, reason.to_string()),
    };
    let tasks = pids.into_iter().take(TASKS_LIMIT).filter_map(|pid| {
        // The process may have ended in the meantime.
        let stat = root.text(&format!("/proc/{pid}/stat")).ok()?;
        let status = root.text(&format!("/proc/{pid}/status"));
        task(pid, &stat, status.as_deref().unwrap_or_default())
    });
    Fact::known(tasks.collect(), TASKS)
}

/// Parses proc_pid_stat(5) and proc_pid_status(5). The name is between the first and the last
/// parenthesis and can contain any character.
fn task(pid: u32, stat: &str, status: &str) -> Option<TaskFact> {
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let fields: Vec<&str> = after.split_whitespace().collect();
    // The field after the name is number 3.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let flags = field(9)?;
    let allowed: Option<CpuSet> = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .and_then(|list| list.trim().parse().ok());
    Some(TaskFact {
        pid,
        name: name.to_owned(),
        kernel: flags & KERNEL_THREAD != 0,
        policy: field(41)? as u32,
        priority: field(40)? as u32,
        last_cpu: field(39)? as u32,
        allowed,
        bound: flags & NO_SETAFFINITY != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    fn host(files: &[(&str, &[u8])]) -> (tempfile::TempDir, Host) {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        let host = Host::new(folder.path());
        (folder, host)
    }

    const STAT: &str = "17 (a) b) S 2 0 0 0 -1 69238848 0 0 0 0 0 0 0 0 -51 0 1 0 9 0 0 \
        18446744073709551615 0 0 0 0 0 0 0 2147483647 0 0 0 0 17 3 50 1 0 0 0";

    #[test]
    fn patterns_find_files_or_report_none() {
        let (_folder, host) = host(&[
            ("sys/cpu/cpu0/governor", b"powersave\n"),
            ("sys/cpu/cpu11/governor", b"performance\n"),
            ("sys/cpu/cpufreq/governor", b"no\n"),
            ("dev/cpu_dma_latency", &7i32.to_ne_bytes()),
        ]);
        let facts = host.capture(&[
            "/sys/cpu/cpu#/governor",
            "/sys/cpu/cpu#/other",
            "/nowhere/*/x",
            "/gone",
            "/dev/cpu_dma_latency",
        ]);
        let text = |text: &str| Reading::Text(text.to_owned());
        let expected: BTreeMap<String, Reading> = [
            ("/sys/cpu/cpu0/governor", text("powersave")),
            ("/sys/cpu/cpu11/governor", text("performance")),
            ("/sys/cpu/cpu#/other", Reading::Absent),
            ("/nowhere/*/x", Reading::Absent),
            ("/gone", Reading::Absent),
            ("/dev/cpu_dma_latency", text("7")),
        ]
        .map(|(file, reading)| (file.to_owned(), reading))
        .into();
        assert_eq!(facts.files, expected);
    }

    #[test]
    fn the_group_of_the_process_is_found() {
        let (_folder, host) = host(&[
            ("proc/self/cgroup", b"4:cpu,cpuacct:/a\n0::/user.slice/b\n"),
            ("sys/fs/cgroup/user.slice/b/cpu.max", b"max 100000\n"),
            ("sys/fs/cgroup/cpu/a/cpu.rt_runtime_us", b"0\n"),
        ]);
        let v2 = "/sys/fs/cgroup{cgroup}/cpu.max";
        let v1 = "/sys/fs/cgroup/cpu{cgroup:cpu}/cpu.rt_runtime_us";
        let none = "/sys/fs/cgroup/x{cgroup:memory}/y";
        let facts = host.capture(&[v1, v2, none]);
        assert_eq!(facts.files[v2], Reading::Text("max 100000".to_owned()));
        assert_eq!(facts.files[v1], Reading::Text("0".to_owned()));
        assert_eq!(facts.files[none], Reading::Absent);
    }

    #[test]
    fn non_four_byte_number_is_unreadable() {
        let (_folder, host) = host(&[("dev/cpu_dma_latency", b"7\n")]);
        let reading = &host.capture(&[DMA_LATENCY]).files[DMA_LATENCY];
        let why = "2 bytes where 4 were expected".to_owned();
        assert_eq!(*reading, Reading::Unreadable(why));
    }

    #[test]
    fn the_groups_above_the_process_are_read() {
        let (_folder, host) = host(&[
            ("proc/self/cgroup", b"4:cpu,cpuacct:/x\n0::/a/b/c\n"),
            ("sys/fs/cgroup/a/b/c/cpu.max", b"max 100000\n"),
            ("sys/fs/cgroup/a/cpu.max", b"20000 100000\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", b"-1\n"),
        ]);
        let v2 = "/sys/fs/cgroup{cgroups}/cpu.max";
        let v1 = "/sys/fs/cgroup/cpu{cgroups:cpu}/cpu.cfs_quota_us";
        let none = "/sys/fs/cgroup{cgroups}/y";
        let facts = host.capture(&[v1, v2, none]);
        let text = |text: &str| Reading::Text(text.to_owned());
        assert_eq!(facts.files[v2], text("/a/b/c max 100000\n/a 20000 100000"));
        assert_eq!(facts.files[v1], text("/ -1"));
        assert_eq!(facts.files[none], Reading::Absent);
    }

    #[test]
    fn a_task_with_any_name_is_read() {
        let status = "Name:\ta) b\nCpus_allowed_list:\t3\n";
        let task = task(17, STAT, status).unwrap();
        assert_eq!(task.name, "a) b");
        assert!(task.kernel && task.bound);
        assert_eq!((task.last_cpu, task.priority, task.policy), (3, 50, 1));
        assert_eq!(task.allowed.unwrap().to_string(), "3");
        let (_folder, host) = host(&[("proc/17/stat", STAT.as_bytes())]);
        let tasks = host.capture(&[]).tasks.value.unwrap();
        assert_eq!(tasks[0].allowed, None);
    }

    #[test]
    fn a_capture_is_read_back() {
        let (_folder, host) = host(&[("proc/17/stat", STAT.as_bytes())]);
        let facts = host.capture(&["/proc/cmdline"]);
        let json = serde_json::to_string(&facts).unwrap();
        assert_eq!(FactSet::from_json(&json).unwrap(), facts);
        // JSON text, truncated at any position.
        for end in (0..json.len()).step_by(97) {
            assert!(FactSet::from_json(json.get(..end).unwrap_or("{")).is_err());
        }
    }

    proptest! {
        #[test]
        fn no_process_panics(stat in "[0-9() a]{0,200}|\\PC{0,60}", status in "\\PC{0,60}") {
            let _ = task(1, &stat, &status);
        }
    }
}
