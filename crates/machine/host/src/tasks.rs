//! All threads of the machine.

use punctual_model::{CpuSet, Nanos, Policy, Scheduling, TaskKind, TaskRecord, TaskUsage};

use crate::counters::TICK_NS;
use crate::root::Root;

/// `PF_KTHREAD` from include/linux/sched.h. Field 9 (flags) has this bit if the thread is a kernel
/// thread.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Returns all threads, sorted by process and then by thread ID. Threads that end in the meantime
/// are left out.
pub(crate) fn tasks(root: &Root) -> Vec<TaskRecord> {
    let Ok(pids) = root.numbered("/proc", "") else {
        return Vec::new();
    };
    pids.into_iter()
        .flat_map(|pid| of_process(root, pid))
        .collect()
}

/// Returns the threads of one process.
pub(crate) fn of_process(root: &Root, pid: u32) -> Vec<TaskRecord> {
    let folder = format!("/proc/{pid}/task");
    let Ok(tids) = root.numbered(&folder, "") else {
        return Vec::new();
    };
    let read = |tid| {
        let stat = root.raw_text(&format!("{folder}/{tid}/stat")).ok()?;
        let status = root
            .raw_text(&format!("{folder}/{tid}/status"))
            .unwrap_or_default();
        task(pid, tid, &stat, &status)
    };
    tids.into_iter().filter_map(read).collect()
}

/// Parses a thread's `stat` and `status` (proc_pid_stat(5), proc_pid_status(5)).
fn task(pid: u32, tid: u32, stat: &str, status: &str) -> Option<TaskRecord> {
    // The name can contain any character, including parentheses.
    let (before, after) = stat.rsplit_once(')')?;
    let comm = before.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = after.split_whitespace().collect();
    // Fields are counted from 1; the name is the second.
    let field = |number: usize| fields.get(number - 3).copied();
    let number = |place: usize| field(place)?.parse::<u64>().ok();
    let state = field(3)?.chars().next()?;
    if matches!(state, 'Z' | 'X' | 'x') {
        return None;
    }
    let kernel = number(9)? & KERNEL_THREAD != 0;
    let said = |key: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(key))
            .map(str::trim)
    };
    let locked_kib =
        said("VmLck:").and_then(|text| text.strip_suffix("kB")?.trim().parse::<u64>().ok());
    Some(TaskRecord {
        pid,
        tid,
        kind: kind_of(kernel, &comm),
        comm,
        state,
        scheduling: scheduling(number(41)?, number(40)?),
        nice: field(19)?.parse().ok()?,
        affinity: said("Cpus_allowed_list:").and_then(|list| list.parse::<CpuSet>().ok()),
        last_cpu: u32::try_from(number(39)?).ok()?,
        started_ticks: number(22)?,
        used: TaskUsage {
            cpu_time_ns: Nanos((number(14)? + number(15)?).saturating_mul(TICK_NS)),
            switches_voluntary: said("voluntary_ctxt_switches:").and_then(|n| n.parse().ok()),
            switches_involuntary: said("nonvoluntary_ctxt_switches:").and_then(|n| n.parse().ok()),
            faults_minor: number(10)?,
            faults_major: number(12)?,
        },
        locked_bytes: locked_kib.map(|kib| kib.saturating_mul(1024)),
    })
}

/// Classifies a thread. A threaded interrupt handler is called `irq/NUMBER-NAME` (kernel:
/// kernel/irq/manage.c).
fn kind_of(kernel: bool, comm: &str) -> TaskKind {
    let number = comm
        .strip_prefix("irq/")
        .and_then(|rest| rest.split('-').next());
    let handler = number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    match (kernel, handler) {
        (true, true) => TaskKind::Interrupt,
        (true, false) => TaskKind::Kernel,
        (false, _) => TaskKind::User,
    }
}

/// Returns the number of the interrupt that a threaded handler serves.
pub(crate) fn handled_interrupt(task: &TaskRecord) -> Option<u32> {
    if task.kind != TaskKind::Interrupt {
        return None;
    }
    task.comm
        .strip_prefix("irq/")?
        .split('-')
        .next()?
        .parse()
        .ok()
}

/// Converts the policy numbers from include/uapi/linux/sched.h.
fn scheduling(policy: u64, priority: u64) -> Scheduling {
    let policy = match policy {
        0 => Policy::Other,
        1 => Policy::Fifo,
        2 => Policy::RoundRobin,
        3 => Policy::Batch,
        5 => Policy::Idle,
        6 => Policy::Deadline,
        _ => Policy::Unknown,
    };
    Scheduling {
        policy,
        priority: u8::try_from(priority).unwrap_or(0),
    }
}

/// Returns the threads of a process with their names, in ascending order, or none if there is no
/// such process.
pub(crate) fn threads(root: &Root, pid: u32) -> impl Iterator<Item = (u32, String)> {
    let folder = format!("/proc/{pid}/task");
    let tids = numbers(root, &folder);
    let named = move |tid: u32| {
        // A thread that has ended in the meantime has no name.
        let comm = root.raw_text(&format!("{folder}/{tid}/comm")).ok()?;
        Some((tid, comm.trim_end_matches('\n').to_owned()))
    };
    tids.into_iter().filter_map(named)
}

/// Returns the IDs of all processes in ascending order.
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
    use proptest::prelude::*;

    use super::*;

    const STAT: &str = "27 (irq/36-virtio) (x) S 2 0 0 0 -1 2129984 7 0 1 0 30 12 0 0 -51 0 1 0 88 0 0 \
        18446744073709551615 0 0 0 0 0 0 0 2147483647 0 0 0 0 17 3 50 1 0 0 0 0 0 0 0 0 0 0 0\n";
    const STATUS: &str = "Name:\tirq\nCpus_allowed_list:\t0,3\nvoluntary_ctxt_switches:\t41\n\
        nonvoluntary_ctxt_switches:\t2\nVmLck:\t      12 kB\n";

    #[test]
    fn a_threaded_handler_is_known() {
        let task = task(27, 27, STAT, STATUS).unwrap();
        assert_eq!(task.comm, "irq/36-virtio) (x");
        assert_eq!(task.kind, TaskKind::Interrupt);
        assert_eq!(handled_interrupt(&task), Some(36));
        assert_eq!(task.scheduling_text(), "fifo 50");
        assert_eq!((task.last_cpu, task.started_ticks), (3, 88));
        assert_eq!(
            task.affinity.map(|cpus| cpus.to_string()),
            Some("0,3".to_owned())
        );
        assert_eq!(task.used.cpu_time_ns, Nanos(42 * TICK_NS));
        assert_eq!(task.used.switches_involuntary, Some(2));
        assert_eq!((task.used.faults_minor, task.used.faults_major), (7, 1));
        assert_eq!(task.locked_bytes, Some(12 << 10));
    }

    #[test]
    fn program_named_like_kernel_thread_is_user() {
        assert_eq!(kind_of(false, "irq/9-fake"), TaskKind::User);
        assert_eq!(kind_of(true, "irq/x"), TaskKind::Kernel);
    }

    #[test]
    fn this_machine_has_threads() {
        let tasks = tasks(&Root::new("/".into()));
        let own = tasks
            .iter()
            .find(|task| task.pid == std::process::id())
            .unwrap();
        assert_eq!(own.kind, TaskKind::User);
        assert!(own.affinity.as_ref().is_some_and(|cpus| !cpus.is_empty()));
    }

    proptest! {
        #[test]
        fn no_text_panics(stat in "\\PC{0,80}", status in "\\PC{0,80}") {
            let _ = task(1, 1, &stat, &status);
        }
    }

    #[test]
    fn our_own_threads_are_there() {
        let root = Root::new("/".into());
        let own = std::process::id();
        assert!(processes(&root).contains(&own));
        let threads = threads(&root, own).collect::<Vec<_>>();
        assert!(threads.iter().any(|(tid, _)| *tid == own), "{threads:?}");
        assert!(threads.iter().all(|(_, comm)| !comm.is_empty()));
    }

    #[test]
    fn no_process_has_no_threads() {
        assert_eq!(threads(&Root::new("/".into()), u32::MAX).count(), 0);
    }
}
