//! The part of a process's state that matters to its real-time threads (proc_pid_status(5),
//! proc_pid_limits(5), proc_pid_smaps(5)).

use std::collections::BTreeMap;
use std::io;

use punctual_model::{FileKind, LintProcess, WaitedFile, WaitedTimer};

use crate::Unread;
use crate::root::Root;

/// Bit of `CAP_IPC_LOCK` in CapEff (capabilities(7)).
const CAP_IPC_LOCK: u32 = 14;

/// `S_IFMT` from inode(7).
const TYPE_OF_FILE: u32 = 0o170_000;

/// Key of the effective capabilities in /proc/PID/status.
const CAPABILITIES: &str = "CapEff:";

pub(crate) fn process(root: &Root, pid: u32) -> LintProcess {
    let status = root.text(&format!("/proc/{pid}/status"));
    let limits = root.text(&format!("/proc/{pid}/limits"));
    let not_a_number = |key, text: &str| NoState::NotANumber {
        key,
        pid,
        text: text.to_owned(),
    };
    let bytes = |key: &'static str| {
        let text = field(&status, key)?;
        let kib = text.strip_suffix("kB").map(str::trim).and_then(number);
        kib.map(|kib| kib.saturating_mul(1_024))
            .ok_or_else(|| not_a_number(key, text))
    };
    let locks_freely = field(&status, CAPABILITIES).and_then(|text| {
        let mask = u64::from_str_radix(text, 16).map_err(|_| not_a_number(CAPABILITIES, text))?;
        Ok(mask >> CAP_IPC_LOCK & 1 == 1)
    });
    let memlock_limit = locks_freely.and_then(|free| {
        if free {
            Ok(None)
        } else {
            limit(&limits, "Max locked memory")
        }
    });
    LintProcess {
        pid,
        comm: field(&status, "Name:").unwrap_or_default().to_owned(),
        locked: in_words(bytes("VmLck:").and_then(|locked| Ok((locked, bytes("VmRSS:")?)))),
        runtime_limit: in_words(limit(&limits, "Max realtime timeout")),
        memlock_limit: in_words(memlock_limit),
        size: in_words(bytes("VmSize:")),
        hidden: hidden(root, pid),
    }
}

/// The reason why a part of a process's state is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum NoState {
    #[error(transparent)]
    Unread(#[from] Unread),
    #[error("there is no {0}")]
    NoField(&'static str),
    #[error("{key} in /proc/{pid}/status is '{text}', which is not a number")]
    NotANumber {
        key: &'static str,
        pid: u32,
        text: String,
    },
    #[error("{name} is '{text}'")]
    NotALimit { name: &'static str, text: String },
    #[error("{0} is empty")]
    EmptyLimit(&'static str),
}

/// Converts the reason to text, because recordings of a program store it as text.
fn in_words<T>(state: Result<T, NoState>) -> Result<T, String> {
    state.map_err(|why| why.to_string())
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

/// Returns the value of a line such as `VmLck: 0 kB`.
fn field<'a>(status: &'a Result<String, Unread>, key: &'static str) -> Result<&'a str, NoState> {
    let text = status.as_ref().map_err(Clone::clone)?;
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.map(str::trim).ok_or(NoState::NoField(key))
}

/// Returns the soft limit of a line such as `Max realtime timeout  unlimited  unlimited  us`.
fn limit(limits: &Result<String, Unread>, name: &'static str) -> Result<Option<u64>, NoState> {
    let soft = field(limits, name)?.split_whitespace().next();
    match soft {
        Some("unlimited") => Ok(None),
        Some(text) => match number(text) {
            Some(limit) => Ok(Some(limit)),
            None => Err(NoState::NotALimit {
                name,
                text: text.to_owned(),
            }),
        },
        None => Err(NoState::EmptyLimit(name)),
    }
}

/// Returns the resident bytes below the stack pointer of each thread that waits in a system call.
/// Leaves out threads that are running or may not be traced. The mappings are read only once,
/// because with thousands of threads their text has a size of megabytes.
pub(crate) fn resident_stacks(root: &Root, pid: u32, tids: &[u32]) -> BTreeMap<u32, u64> {
    let pointers: Vec<(u32, u64)> = (tids.iter())
        .filter_map(|tid| Some((*tid, stack_pointer(root, pid, *tid)?)))
        .collect();
    if pointers.is_empty() {
        return BTreeMap::new();
    }
    let smaps = root.raw_text(&format!("/proc/{pid}/smaps"));
    let mappings = mappings(&smaps.unwrap_or_default());
    let resident = |pointer: u64| {
        let after = mappings.partition_point(|(start, _, _)| *start <= pointer);
        let (_, end, bytes) = *mappings.get(after.checked_sub(1)?)?;
        // A stack grows downwards: the pages from the stack pointer up to the end of the mapping
        // are in use.
        let above = end.checked_sub(pointer).filter(|above| *above > 0)?;
        Some(bytes.saturating_sub(above))
    };
    (pointers.into_iter())
        .filter_map(|(tid, pointer)| Some((tid, resident(pointer)?)))
        .collect()
}

/// Returns the stack pointer, the second-to-last number in /proc/PID/task/TID/syscall: `7 0x0 ...
/// 0x7ffd1230 0x7f01`.
fn stack_pointer(root: &Root, pid: u32, tid: u32) -> Option<u64> {
    let call = root.text(&format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
    let pointer = call.split_whitespace().rev().nth(1)?;
    u64::from_str_radix(pointer.strip_prefix("0x")?, 16).ok()
}

/// Returns the start, end and resident bytes of each mapping in ascending order.
fn mappings(smaps: &str) -> Vec<(u64, u64, u64)> {
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let mut all = Vec::new();
    let mut range = None;
    for line in smaps.lines() {
        let first = line.split(' ').next().unwrap_or_default();
        if let Some((start, end)) = first.split_once('-') {
            range = hex(start).zip(hex(end));
        }
        if let Some(kib) = line.strip_prefix("Rss:")
            && let Some((start, end)) = range.take()
        {
            let kib = kib.trim().strip_suffix("kB").map(str::trim);
            let bytes = kib.and_then(number).unwrap_or(0).saturating_mul(1_024);
            all.push((start, end, bytes));
        }
    }
    all
}

/// Returns the reason why stacks and open files of a process are hidden from this program
/// (ptrace(2), proc(5)), or `None` if they are visible.
pub(crate) fn hidden(root: &Root, pid: u32) -> Option<String> {
    let refused = |result: io::Result<()>| {
        let kind = result.err().map(|error| error.kind());
        kind == Some(io::ErrorKind::PermissionDenied)
    };
    let read = root.link(&format!("/proc/{pid}/exe")).map(drop);
    let traced = root.raw_text(&format!("/proc/{pid}/syscall")).map(drop);
    let yama = root.text("/proc/sys/kernel/yama/ptrace_scope").ok();
    let status = root.text(&format!("/proc/{pid}/status"));
    let user = field(&status, "Uid:").ok().and_then(|text| {
        let effective = text.split_whitespace().nth(1)?;
        effective.parse().ok()
    });
    let own = rustix::process::geteuid().as_raw();
    why_hidden(pid, (refused(read), refused(traced)), user, own, yama)
}

/// Returns the reason why a process may not be traced. The fields of `refused` tell whether the
/// kernel refused to let this program read the process (PTRACE_MODE_READ) or trace it
/// (PTRACE_MODE_ATTACH). `user` is the user of the process, and `own` the user of this program.
fn why_hidden(
    pid: u32,
    refused: (bool, bool),
    user: Option<u32>,
    own: u32,
    yama: Option<String>,
) -> Option<String> {
    let why = match (refused, user) {
        ((false, false), _) => return None,
        (_, Some(user)) if user != own => {
            format!("it belongs to user {user}; run as that user or with CAP_SYS_PTRACE")
        }
        ((true, _), _) => {
            "it is not dumpable (because of PR_SET_DUMPABLE in prctl(2), or of file capabilities); \
             CAP_SYS_PTRACE is needed"
                .to_owned()
        }
        ((false, true), _) => match yama.as_deref() {
            Some(scope @ ("1" | "2" | "3")) => format!(
                "kernel.yama.ptrace_scope is {scope}: set it to 0, or run with CAP_SYS_PTRACE"
            ),
            _ => "a security module forbids it; CAP_SYS_PTRACE may be needed".to_owned(),
        },
    };
    Some(format!("process {pid} may not be traced: {why}"))
}

/// Returns the running child processes of a process (CONFIG_PROC_CHILDREN).
pub(crate) fn children_of(root: &Root, pid: u32) -> Vec<u32> {
    let tasks = root.names(&format!("/proc/{pid}/task")).unwrap_or_default();
    let lists = tasks
        .iter()
        .filter_map(|tid| root.text(&format!("/proc/{pid}/task/{tid}/children")).ok());
    lists
        .flat_map(|list| {
            let numbers: Vec<u32> = list
                .split_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect();
            numbers
        })
        .collect()
}

/// Returns the process of a thread.
pub(crate) fn process_of(root: &Root, tid: u32) -> Option<u32> {
    let status = root.text(&format!("/proc/{tid}/status"));
    field(&status, "Tgid:").ok()?.parse().ok()
}

/// Returns an open file of a process.
pub(crate) fn open_file(root: &Root, pid: u32, descriptor: u64) -> Option<WaitedFile> {
    let target = root.link(&format!("/proc/{pid}/fd/{descriptor}")).ok()?;
    let info = root.raw_text(&format!("/proc/{pid}/fdinfo/{descriptor}"));
    let clock = info.ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("clockid:"));
        line?.trim().parse().ok()
    });
    let kind = root.mode(&format!("/proc/{pid}/fd/{descriptor}"));
    Some(WaitedFile {
        kind: if target.starts_with("anon_inode:") {
            Some(FileKind::Anonymous)
        } else {
            kind.and_then(|mode| FileKind::of_mode(mode & TYPE_OF_FILE))
        },
        target,
        clock,
    })
}

/// Returns the timers that an epoll file waits for, from lines such as `tfd: 5 events: 19`.
pub(crate) fn epoll_timers(root: &Root, pid: u32, descriptor: u64) -> Vec<WaitedTimer> {
    let info = root.raw_text(&format!("/proc/{pid}/fdinfo/{descriptor}"));
    let info = info.unwrap_or_default();
    let members = info.lines().filter_map(|line| {
        let words = line.strip_prefix("tfd:")?;
        words.split_whitespace().next()?.parse().ok()
    });
    members
        .filter_map(|number: u64| {
            let clock = open_file(root, pid, number)?.clock?;
            Some(WaitedTimer { number, clock })
        })
        .collect()
}

/// Returns the timers of timer_create(2) that send signals, from /proc/PID/timers: `signal: 34/0`,
/// `notify: signal/pid.7`, `ClockID: 1`.
pub(crate) fn signal_timers(root: &Root, pid: u32) -> Vec<WaitedTimer> {
    let text = root.raw_text(&format!("/proc/{pid}/timers"));
    let text = text.unwrap_or_default();
    let mut timers = Vec::new();
    let (mut signal, mut notifies) = (None, false);
    for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        match key {
            "signal" => signal = value.split('/').next().and_then(number),
            "notify" => notifies = value.starts_with("signal/"),
            "ClockID" => {
                let clock = value.parse::<i32>().ok().map(i32::cast_unsigned);
                if let (Some(number), Some(clock), true) = (signal.take(), clock, notifies) {
                    timers.push(WaitedTimer { number, clock });
                }
            }
            _ => {}
        }
    }
    timers
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn limits_and_locks_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path().into());
        write(
            folder.path(),
            "proc/7/status",
            "Name:\tmotion\nVmSize:\t 300 kB\nVmLck:\t 8 kB\nVmRSS:\t 90 kB\nCapEff:\t0000000000000000\n",
        );
        write(
            folder.path(),
            "proc/7/limits",
            "Limit  Soft Limit  Hard Limit  Units\nMax locked memory         65536                65536                bytes\n\
             Max realtime timeout      unlimited            unlimited            us\n",
        );
        let found = process(&root, 7);
        assert_eq!(found.comm, "motion");
        assert_eq!(found.locked, Ok((8 << 10, 90 << 10)));
        assert_eq!(found.memlock_limit, Ok(Some(65_536)));
        assert_eq!(found.runtime_limit, Ok(None));
        let text = fs::read_to_string(folder.path().join("proc/7/status")).unwrap();
        let free = text.replace("CapEff:\t0000000000000000", "CapEff:\t0000000000004000");
        write(folder.path(), "proc/7/status", &free);
        assert_eq!(process(&root, 7).memlock_limit, Ok(None));
        let nothing = process(&root, 8);
        assert!(nothing.locked.is_err() && nothing.runtime_limit.is_err());
    }

    #[test]
    fn unknown_process_facts_have_reasons() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path().into());
        write(
            folder.path(),
            "proc/7/status",
            "VmLck:\t 8 pages\nCapEff:\tall\n",
        );
        write(
            folder.path(),
            "proc/7/limits",
            "Max locked memory\nMax realtime timeout      long\n",
        );
        let found = process(&root, 7);
        let reason = |why: &str| Err(why.to_owned());
        assert_eq!(found.size, Err("there is no VmSize:".to_owned()));
        let locked = "VmLck: in /proc/7/status is '8 pages', which is not a number";
        assert_eq!(found.locked, Err(locked.to_owned()));
        assert_eq!(
            found.runtime_limit,
            reason("Max realtime timeout is 'long'")
        );
        assert_eq!(
            found.memlock_limit,
            reason("CapEff: in /proc/7/status is 'all', which is not a number")
        );
        write(folder.path(), "proc/7/status", "CapEff:\t0\n");
        let found = process(&root, 7);
        assert_eq!(found.memlock_limit, reason("Max locked memory is empty"));
        assert_eq!(process(&root, 8).runtime_limit, reason("not there"));
    }

    #[test]
    fn resident_memory_below_stack_pointer_counts() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path().into());
        write(
            folder.path(),
            "proc/7/task/9/syscall",
            "230 0x1 0x1 0x0 0x0 0x0 0x0 0x1f000 0x7f01\n",
        );
        write(
            folder.path(),
            "proc/7/smaps",
            "00000-10000 rw-p 0 0:0 0\nRss:   4 kB\n10000-20000 rw-p 0 0:0 0 [stack]\nSize: 64 kB\nRss:  16 kB\n",
        );
        assert_eq!(
            resident_stacks(&root, 7, &[9, 10]),
            BTreeMap::from([(9, (16 - 4) << 10)])
        );
        write(folder.path(), "proc/7/task/9/syscall", "running\n");
        assert!(resident_stacks(&root, 7, &[9]).is_empty());
    }

    #[test]
    fn what_hides_a_process_is_named() {
        let why = |refused, user, scope: Option<&str>| {
            why_hidden(7, refused, user, 1_000, scope.map(str::to_owned))
        };
        assert_eq!(why((false, false), Some(0), Some("1")), None);
        for (refused, user, scope, names) in [
            ((true, true), Some(0), None, "belongs to user 0"),
            ((true, true), Some(1_000), None, "not dumpable"),
            ((false, true), Some(1_000), Some("2"), "ptrace_scope is 2"),
            ((false, true), Some(1_000), Some("0"), "security module"),
        ] {
            let text = why(refused, user, scope).unwrap();
            assert!(text.contains(names), "{text}");
        }
        // A process that has ended does not count as hidden.
        let nothing = Root::new("/nowhere".into());
        assert_eq!(hidden(&nothing, 7), None);
    }

    #[test]
    fn timers_of_waits_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path().into());
        write(
            folder.path(),
            "proc/7/timers",
            "ID: 0\nsignal: 14/00007ffd\nnotify: signal/pid.7\nClockID: 0\n\
             ID: 1\nsignal: 0/0\nnotify: none/pid.7\nClockID: 1\n\
             ID: 2\nsignal: 34/0\nnotify: signal/tid.8\nClockID: 1\nID: 3\nsignal: x\nClockID: 1\n",
        );
        let timer = |number, clock| WaitedTimer { number, clock };
        assert_eq!(signal_timers(&root, 7), [timer(14, 0), timer(34, 1)]);
        assert!(signal_timers(&root, 8).is_empty());

        write(
            folder.path(),
            "proc/7/fdinfo/3",
            "pos:\t0\ntfd:        5 events:       19 data: 5\ntfd: 6 events: 19\ntfd: x\n",
        );
        for (number, info) in [(5, "clockid: 0\n"), (6, "eventfd-count: 0\n")] {
            write(folder.path(), &format!("proc/7/fdinfo/{number}"), info);
            let link = folder.path().join(format!("proc/7/fd/{number}"));
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink("anon_inode:[file]", link).unwrap();
        }
        assert_eq!(epoll_timers(&root, 7, 3), [timer(5, 0)]);
        assert!(epoll_timers(&root, 7, 9).is_empty());
    }

    #[test]
    fn children_of_all_threads_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path().into());
        write(folder.path(), "proc/7/task/7/children", "8 9 ");
        write(folder.path(), "proc/7/task/10/children", "11");
        let mut children = children_of(&root, 7);
        children.sort_unstable();
        assert_eq!(children, [8, 9, 11]);
        assert!(children_of(&root, 6).is_empty());
    }

    #[test]
    fn a_timer_has_its_clock() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path().into());
        fs::create_dir_all(folder.path().join("proc/7/fd")).unwrap();
        std::os::unix::fs::symlink("anon_inode:[timerfd]", folder.path().join("proc/7/fd/3"))
            .unwrap();
        write(
            folder.path(),
            "proc/7/fdinfo/3",
            "pos:\t0\nclockid: 1\nticks: 0\n",
        );
        let file = open_file(&root, 7, 3).unwrap();
        assert_eq!(
            (file.target.as_str(), file.clock),
            ("anon_inode:[timerfd]", Some(1))
        );
        assert_eq!(file.kind, Some(FileKind::Anonymous));
        assert_eq!(open_file(&root, 7, 4), None);
        let live = Root::new("/".into());
        let own = |file: fs::File| {
            use std::os::fd::AsRawFd;
            let number = u64::try_from(file.as_raw_fd()).unwrap();
            open_file(&live, std::process::id(), number).unwrap().kind
        };
        let (pipe, _) = std::io::pipe().unwrap();
        assert_eq!(
            own(fs::File::from(std::os::fd::OwnedFd::from(pipe))),
            Some(FileKind::Pipe)
        );
        assert_eq!(
            own(fs::File::open("/dev/null").unwrap()),
            Some(FileKind::Device)
        );
        assert_eq!(
            own(fs::File::open("/tmp").unwrap()),
            Some(FileKind::Directory)
        );
        assert_eq!(own(tempfile::tempfile().unwrap()), Some(FileKind::Regular));
    }
}
