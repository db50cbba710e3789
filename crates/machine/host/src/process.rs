//! Facts about this process, and whether another process is still running.

use punctual_model::{CpuSet, Nanos};

use crate::HostError;
use crate::counters::TICK_NS;
use crate::root::Root;

const STATUS: &str = "/proc/self/status";
const ALLOWED: &str = "Cpus_allowed_list:";

/// Returns the CPUs in the affinity of this process.
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

/// Returns the kernel's identifier of the current boot.
pub(crate) fn boot_id(root: &Root) -> Option<String> {
    root.word("/proc/sys/kernel/random/boot_id").value
}

/// Returns the namespaces for PIDs and start times, in the form that the kernel uses:
/// `pid:[4026531836] time:[4026531834]`.
pub(crate) fn namespaces(root: &Root) -> Option<String> {
    let pid = root.link("/proc/self/ns/pid").ok()?;
    // There are no time namespaces before Linux 5.6.
    Some(match root.link("/proc/self/ns/time") {
        Ok(time) => format!("{pid} {time}"),
        Err(_) => pid,
    })
}

/// The PID namespace of the host (kernel: include/linux/proc_ns.h, `PROC_PID_INIT_INO`).
const HOST_PIDS: &str = "pid:[4026531836]";

/// Returns the PID namespace of this process, unless it is that of the host. A kernel without PID
/// namespaces has no link.
pub(crate) fn pid_namespace(root: &Root) -> Option<String> {
    let own = root.link("/proc/self/ns/pid").ok()?;
    (own != HOST_PIDS).then_some(own)
}

/// Returns the mount option of `/proc` that hides the processes of other users from this process
/// (proc(5), hidepid); `None` if `/proc` shows all. Process 1 always exists.
pub(crate) fn hiding_option(root: &Root) -> Option<String> {
    let mounts = root.raw_text("/proc/self/mountinfo").ok()?;
    let on_proc = |line: &&str| line.split(' ').nth(4) == Some("/proc");
    // A later mount hides an earlier one.
    let mount = mounts.lines().rfind(on_proc)?;
    let mut options = mount.split([' ', ',']);
    let option = options.rfind(|option| option.starts_with("hidepid="))?;
    let shows_all = root.raw_text("/proc/1/stat").is_ok();
    (!shows_all).then(|| option.to_owned())
}

/// Time that a time namespace adds to CLOCK_MONOTONIC.
const OFFSETS: &str = "/proc/self/timens_offsets";

/// Returns what the time namespace of this process adds to CLOCK_MONOTONIC, as seconds and
/// nanoseconds, and `None` if this is nothing (time_namespaces(7)).
pub(crate) fn monotonic_offset(root: &Root) -> Option<String> {
    let offsets = root.raw_text(OFFSETS).ok()?;
    let mut lines = offsets.lines().map(str::split_ascii_whitespace);
    let mut words = lines.find_map(|mut words| (words.next()? == "monotonic").then_some(words))?;
    let (seconds, nanos) = (words.next()?, words.next()?);
    (seconds != "0" || nanos != "0").then(|| format!("{seconds} s and {nanos} ns"))
}

/// Returns the path of a process's executable, without the suffix that the kernel appends if the
/// file was replaced or deleted.
pub(crate) fn program_of(root: &Root, pid: u32) -> Option<String> {
    let link = root.link(&format!("/proc/{pid}/exe")).ok()?;
    let kept = link.strip_suffix(" (deleted)").map(str::to_owned);
    Some(kept.unwrap_or(link))
}

/// Returns the start time of a process in clock ticks since boot.
pub(crate) fn start(root: &Root, pid: u32) -> Option<u64> {
    start_time(&own_stat(root, pid)?)
}

/// Reads the `stat` of a single thread, or of a process's first thread. The file `/proc/TID/stat`
/// sums the times of all threads of the process, so reading it for every thread would take time
/// that grows quadratically with their number (kernel: fs/proc/array.c, `do_task_stat`).
fn own_stat(root: &Root, tid: u32) -> Option<String> {
    let read = |file: String| root.raw_text(&file).ok();
    read(format!("/proc/{tid}/task/{tid}/stat")).or_else(|| read(format!("/proc/{tid}/stat")))
}

/// Parses field 22 of `/proc/PID/stat`, proc_pid_stat(5). Field 2, the command's name, can contain
/// any character, including spaces and parentheses. Fields are therefore counted from the last
/// parenthesis, which is followed by field 3.
fn start_time(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace();
    // Field 3: a zombie or dead process no longer runs, but its parent has not read its exit code
    // yet.
    if matches!(fields.next()?, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(22 - 4)?.parse().ok()
}

/// Returns fields 4, 26 and 28 of `/proc/PID/stat`: ppid, startcode and startstack.
pub(crate) fn fork_family(root: &Root, pid: u32) -> Option<[u64; 3]> {
    let stat = own_stat(root, pid)?;
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_whitespace().take(28 - 2).collect();
    let field = |number: usize| fields.get(number - 3)?.parse().ok();
    let family: [u64; 3] = [field(4)?, field(26)?, field(28)?];
    // The kernel writes 0 or 1 for hidden addresses, and for its own threads.
    family[1..]
        .iter()
        .all(|address| *address > 1)
        .then_some(family)
}

/// Returns the user of a process or thread if its four user IDs are the same.
pub(crate) fn sole_user(root: &Root, tid: u32) -> Option<u32> {
    let users = ids(root, tid, "Uid:")?;
    users
        .iter()
        .all(|user| *user == users[0])
        .then_some(users[0])
}

/// Returns the real, effective, saved and file system IDs of a process or thread: user IDs if `key`
/// is `Uid:`, group IDs if it is `Gid:`.
pub(crate) fn ids(root: &Root, tid: u32, key: &str) -> Option<[u32; 4]> {
    let status = root.raw_text(&format!("/proc/{tid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let ids: Option<Vec<u32>> = line.split_whitespace().map(|id| id.parse().ok()).collect();
    ids?.try_into().ok()
}

/// Returns the CPU time that a process group has used so far: that of its current processes and of
/// the children that they have waited for. Processes that ended without being waited for are not
/// included.
pub(crate) fn group_cpu_time(root: &Root, group: u32) -> Option<Nanos> {
    let ticks = root
        .names("/proc")
        .ok()?
        .iter()
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|pid| group_ticks(&root.raw_text(&format!("/proc/{pid}/stat")).ok()?, group))
        .reduce(u64::saturating_add)?;
    Some(Nanos(ticks.saturating_mul(TICK_NS)))
}

/// Returns the ticks of a process if it is in `group`: the sum of fields 14 to 17 of
/// `/proc/PID/stat` (utime, stime, cutime, cstime). The process is in the group if field 5 is the
/// group's ID.
fn group_ticks(stat: &str, group: u32) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_whitespace().take(17 - 2).collect();
    if fields.get(5 - 3)?.parse::<u32>().ok()? != group {
        return None;
    }
    (14..=17)
        .map(|field| fields.get(field - 3)?.parse::<u64>().ok())
        .sum()
}

/// A thread of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnThread {
    /// Thread ID, as returned by gettid(2).
    pub tid: i32,
    /// Name, at most 15 bytes.
    pub name: String,
    /// CPU on which it runs or last ran.
    pub cpu: u32,
}

/// Returns all threads of this process. Threads that end in the meantime are left out.
pub(crate) fn own_threads(root: &Root) -> Vec<OwnThread> {
    let names = root.names("/proc/self/task").unwrap_or_default();
    let stat = |tid: &String| root.raw_text(&format!("/proc/self/task/{tid}/stat")).ok();
    names
        .iter()
        .filter_map(|tid| own_thread(&stat(tid)?))
        .collect()
}

/// Returns a thread of any process.
pub(crate) fn thread(root: &Root, tid: i32) -> Option<OwnThread> {
    own_thread(&own_stat(root, u32::try_from(tid).ok()?)?)
}

/// Parses fields 1, 2 and 39 of `/proc/PID/task/TID/stat`, proc_pid_stat(5).
fn own_thread(stat: &str) -> Option<OwnThread> {
    let (before, after_name) = stat.rsplit_once(')')?;
    let (tid, name) = before.split_once(" (")?;
    Some(OwnThread {
        tid: tid.parse().ok()?,
        name: name.to_owned(),
        cpu: after_name.split_whitespace().nth(39 - 3)?.parse().ok()?,
    })
}

/// Returns whether a process group has a process that is still running. Zombies do not count, and
/// they may persist: the first process of a container often does not wait for its children.
pub(crate) fn group_runs(root: &Root, group: u32) -> bool {
    let Ok(names) = root.names("/proc") else {
        return false;
    };
    names
        .iter()
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|pid| root.raw_text(&format!("/proc/{pid}/stat")).ok())
        .any(|stat| is_running_in(&stat, group))
}

/// Parses fields 3 (state) and 5 (group) of `/proc/PID/stat`.
fn is_running_in(stat: &str, group: u32) -> bool {
    let Some((_, after_name)) = stat.rsplit_once(')') else {
        return false;
    };
    let mut fields = after_name.split_whitespace();
    let ended = fields.next().is_none_or(|state| matches!(state, "Z" | "X"));
    !ended && fields.nth(1).and_then(|text| text.parse().ok()) == Some(group)
}

#[cfg(test)]
mod tests {
    use punctual_model::Lease;

    use super::*;
    use crate::Host;

    #[test]
    fn set_user_id_program_lacks_sole_user() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path().to_owned());
        std::fs::create_dir_all(folder.path().join("proc/7")).unwrap();
        let with = |ids: &str| {
            let text = format!("Name:\tx\nUid:{ids}\nGid:\t0\t0\t0\t0\n");
            std::fs::write(folder.path().join("proc/7/status"), text).unwrap();
            sole_user(&root, 7)
        };
        assert_eq!(with("\t1000\t1000\t1000\t1000"), Some(1000));
        assert_eq!(with("\t1000\t0\t0\t0"), None);
        assert_eq!(with("\t0\t0\t0"), None);
        assert_eq!(with("\t0\t0\t0\tx"), None);
        assert_eq!(sole_user(&root, 8), None);
    }
    use proptest::prelude::*;

    #[test]
    fn a_name_may_hold_anything() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        for name in ["cat", "a) S 1 (b", "", ") ) )"] {
            assert_eq!(start_time(&format!("9 ({name}) {rest}")), Some(4711));
        }
        assert_eq!(start_time("9 (cat) S 1 2"), None);
        // A zombie has ended, but its parent has not waited for it.
        let zombie = rest.replacen('S', "Z", 1);
        assert_eq!(start_time(&format!("9 (cat) {zombie}")), None);
        assert_eq!(start_time(""), None);
    }

    /// Threads of a process have the same family, and children that only forked as well.
    #[test]
    fn family_is_parent_and_addresses() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path().to_owned());
        std::fs::create_dir_all(folder.path().join("proc/9")).unwrap();
        let with = |code: &str, stack: &str| {
            let zeros = |count: usize| " 0".repeat(count);
            let text = format!(
                "9 (a) b) S 21909{}{code} 7 {stack}{}",
                zeros(21) + " ",
                zeros(24)
            );
            std::fs::write(folder.path().join("proc/9/stat"), text).unwrap();
            fork_family(&root, 9)
        };
        assert_eq!(with("4096", "8192"), Some([21_909, 4_096, 8_192]));
        assert_eq!(with("1", "0"), None);
        assert_eq!(with("4096", "-1"), None);
        std::fs::write(folder.path().join("proc/9/stat"), "9 (a) S 1 2").unwrap();
        assert_eq!(fork_family(&root, 9), None);
        assert_eq!(fork_family(&root, 10), None);
        let live = Root::new("/".into());
        let own = std::process::id();
        assert!(fork_family(&live, own).is_some_and(|family| family[1] < family[2]));
    }

    /// Only the thread's own file is read, because the file of the process contains the sums of all
    /// its threads.
    #[test]
    fn thread_file_is_read_not_process_file() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path().to_owned());
        let stat = |start: u64| format!("9 (x) S{} {start} 20", " 1".repeat(18));
        let write = |file: &str, start| {
            let path = folder.path().join("proc/9").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, stat(start)).unwrap();
        };
        write("stat", 1);
        assert_eq!(start(&root, 9), Some(1));
        write("task/9/stat", 2);
        assert_eq!(start(&root, 9), Some(2));
    }

    #[test]
    fn what_has_ended_does_not_run() {
        assert!(is_running_in("9 (a b) S 1 77 3", 77));
        assert!(!is_running_in("9 (a b) Z 1 77 3", 77));
        assert!(!is_running_in("9 (a b) S 77 1 3", 77));
        assert!(!is_running_in("9 (a b)", 77));
    }

    #[test]
    fn own_threads_are_found_by_their_names() {
        let rest = (3..60).map(|field| format!(" {field}")).collect::<String>();
        let thread = own_thread(&format!("12 (wait/0 (a)){rest}")).unwrap();
        assert_eq!((thread.tid, thread.cpu), (12, 39));
        assert_eq!(thread.name, "wait/0 (a)");
        assert_eq!(own_thread("12 (wait) S 1"), None);
        let named = std::thread::Builder::new().name("findme".to_owned());
        let found = named
            .spawn(|| own_threads(&Root::new("/".into())))
            .unwrap()
            .join()
            .unwrap();
        assert!(found.iter().any(|thread| thread.name == "findme"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[ ()0-9a-zS\\n]{0,80}") {
            let _ = (start_time(&text), own_thread(&text));
            let _ = is_running_in(&text, 1);
        }
    }

    #[test]
    fn hidden_processes_and_other_clocks_are_known() {
        let host = |mount: &str, offsets: &str| {
            let folder = tempfile::tempdir().unwrap();
            let own = folder.path().join("proc/self");
            std::fs::create_dir_all(&own).unwrap();
            let before = "20 1 0:19 / /proc rw - proc proc rw,hidepid=invisible";
            let mounts = format!("{before}\n30 20 0:5 / /proc rw,nosuid - proc proc {mount}\n");
            std::fs::write(own.join("mountinfo"), mounts).unwrap();
            std::fs::write(own.join("timens_offsets"), offsets).unwrap();
            folder
        };
        let folder = host("rw,hidepid=2", "monotonic   -5  7\nboottime 1 0\n");
        let root = Root::new(folder.path().to_owned());
        assert_eq!(hiding_option(&root).unwrap(), "hidepid=2");
        assert_eq!(monotonic_offset(&root).unwrap(), "-5 s and 7 ns");
        // For root, the option hides nothing.
        std::fs::create_dir(folder.path().join("proc/1")).unwrap();
        std::fs::write(folder.path().join("proc/1/stat"), "1").unwrap();
        assert_eq!(hiding_option(&root), None);
        let folder = host("rw", "monotonic 0 0\nboottime 9 0\n");
        let root = Root::new(folder.path().to_owned());
        assert_eq!(hiding_option(&root), None);
        assert_eq!(monotonic_offset(&root), None);
    }

    #[test]
    fn a_number_of_another_namespace_says_nothing() {
        let host = Host::live();
        let own = host.lease();
        assert!(host.may_live(&own));
        let gone = Lease {
            process_start: own.process_start + 1,
            ..own.clone()
        };
        assert!(!host.may_live(&gone));
        let elsewhere = Lease {
            namespaces: Some("pid:[1]".to_owned()),
            ..gone.clone()
        };
        assert!(host.may_live(&elsewhere));
        // Stores of earlier versions do not contain the namespaces of the PID.
        let unsaid = Lease {
            namespaces: None,
            ..gone
        };
        assert!(!host.may_live(&unsaid));
        let before = Lease {
            boot_id: "an earlier boot".to_owned(),
            ..elsewhere
        };
        assert!(!host.may_live(&before));
    }
}
