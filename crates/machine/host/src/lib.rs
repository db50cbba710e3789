//! Facts about the machine.
//!
//! **For:** the machine's hardware and settings ([`Host::facts`]), its CPUs and the subset that
//! this process may use, and the kernel's counters ([`Host::counters`]). This is the only crate
//! that reads /proc, /sys and the kernel configuration.
//!
//! **Knows:** the source of each fact on kernels of the last ten years, and the reasons why a fact
//! can be missing. Every path is relative to a root, so that tests can use the recorded tree of
//! another machine.
//!
//! **Must not know:** the effect of a fact on latency (the crate `checks` knows that), how to
//! change it (`tune` knows that), probes, recordings, terminals. This crate writes nothing and
//! measures nothing.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod capacity;
mod capture;
mod cards;
mod cgroup;
mod coalescing;
mod container;
mod counters;
mod eee;
mod error;
mod ethtool;
mod facts;
mod fingerprint;
mod group_facts;
mod group_tree;
mod interrupts;
mod isolation;
mod latency_holders;
mod lint;
pub mod netlink;
mod power;
mod process;
mod program;
mod queueing;
mod root;
mod rtnetlink;
mod support_files;
mod symbols;
mod tasks;
mod thermal;
mod timestamping;
mod topology;
mod unread;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use punctual_model::{
    CpuSet, HostFacts, InterruptRecord, Lease, LintProcess, Nanos, ProcessId, TaskRecord, Topology,
    WaitedFile, WaitedTimer,
};

pub use cgroup::{QuotaCounts, Quotas};
pub use coalescing::{Coalescing, CoalescingError, Delays, Direction};
pub use container::{Container, ControlGroup};
pub use counters::{Counters, CpuCounts, CpuWatch, SmiWatch, StealWatch};
pub use eee::{Eee, EeeError};
pub use error::{HostError, NoHeader};
pub use ethtool::ETHTOOL;
pub use facts::{NoConfig, NotAConfig, keeps_option};
pub use fingerprint::fingerprint;
pub use group_facts::GroupLocation;
pub use group_tree::{GroupHierarchy, GroupTree};
pub use power::PowerWatch;
pub use process::OwnThread;
pub use program::{NotDropped, ProgramCode, SharedFiles, serve_symbols};
pub use queueing::{Etf, Qdisc, outgoing_interface};
pub use support_files::{NoSupportFile, SupportFile};
pub use symbols::{Symbols, system_call_name, system_call_numbers};
pub use thermal::ThermalZone;
pub use timestamping::TimestampAbilities;
pub use unread::Unread;

use root::Root;

/// A machine: the one on which the program runs, or the recorded tree of another one.
#[derive(Clone, Debug)]
pub struct Host {
    root: Root,
    /// Vendor of the processor. It is read only once, because on some kernels each read of
    /// /proc/cpuinfo interrupts every CPU to get its frequency. The counters, which depend on the
    /// vendor, are read right before and after a measurement.
    vendor: OnceLock<Option<String>>,
}

impl Host {
    /// Creates a host whose /proc, /sys, /dev, /etc and /boot are below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: Root::new(root.into()),
            vendor: OnceLock::new(),
        }
    }

    /// Returns the machine on which the program runs, which is a host whose root is `/`.
    pub fn live() -> Self {
        Self::new("/")
    }

    /// Returns the root path of all files.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Reads all facts about the machine. A fact that cannot be read is unknown, with the reason,
    /// so this function never fails as a whole.
    ///
    /// This makes a few thousand small reads on a machine with 64 CPUs, so do not call it during a
    /// measurement.
    pub fn facts(&self) -> HostFacts {
        facts::facts(&self.root)
    }

    /// Returns the distributions that this machine's distribution is derived from, nearest first:
    /// `ID_LIKE` of os-release(5).
    pub fn distribution_like(&self) -> Vec<String> {
        facts::distribution_like(&self.root)
    }

    /// Starts watching the idle states and frequencies of these CPUs, and the machine's
    /// temperatures and energy.
    pub fn watch_power(&self, cpus: CpuSet) -> PowerWatch {
        PowerWatch::begin(&self.root, cpus)
    }

    /// Returns the thermal zones whose temperature can be read.
    pub fn thermal_zones(&self) -> Vec<ThermalZone> {
        thermal::zones(&self.root)
    }

    /// Returns the kernel's command line (`/proc/cmdline`).
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn command_line(&self) -> Result<String, HostError> {
        Ok(self.root.require("/proc/cmdline")?.trim().to_owned())
    }

    /// Returns the online CPUs (`/sys/devices/system/cpu/online`).
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or does not contain a CPU list.
    pub fn online(&self) -> Result<CpuSet, HostError> {
        self.root.require_cpu_list(facts::ONLINE)
    }

    /// Returns the CPUs that are present, online or not (`/sys/devices/system/cpu/present`).
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or does not contain a CPU list.
    pub fn present(&self) -> Result<CpuSet, HostError> {
        self.root.require_cpu_list(facts::PRESENT)
    }

    /// Returns the CPUs on which this process may run (`Cpus_allowed_list` of `/proc/self/status`):
    /// its affinity within its cpuset cgroup. The result can include offline CPUs.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or contains no such list.
    pub fn allowed(&self) -> Result<CpuSet, HostError> {
        process::allowed(&self.root)
    }

    /// Reads the kernel's counters. To get differences, read them twice and call
    /// [`Counters::since`].
    ///
    /// Reading the SMI count interrupts each CPU briefly, so do not call this during a measurement.
    pub fn counters(&self) -> Counters {
        let vendor = self.vendor.get_or_init(|| facts::vendor(&self.root));
        Counters::read(&self.root, vendor.as_deref())
    }

    /// Returns the vendor of the processor, such as `GenuineIntel` (`/proc/cpuinfo`).
    pub fn vendor(&self) -> Option<&str> {
        let vendor = self.vendor.get_or_init(|| facts::vendor(&self.root));
        vendor.as_deref()
    }

    /// Returns the control groups of these processes or threads and all groups above them, with the
    /// counters of their CPU quotas so far (`cpu.stat`, both versions of control groups). An empty
    /// list of IDs means this process.
    pub fn quotas(&self, pids: &[u32]) -> Quotas {
        match pids {
            [] => Quotas::above(&self.root, ["self".to_owned()].into_iter()),
            pids => Quotas::above(&self.root, pids.iter().map(u32::to_string)),
        }
    }

    /// Finds a control group by its name (`/system.slice/redis.service`) or the path of its folder.
    /// Returns `None` if the group does not exist.
    pub fn control_group(&self, path: &str) -> Option<ControlGroup> {
        ControlGroup::find(&self.root, path)
    }

    /// Returns the control groups of a unit of systemd, such as `redis.service`, that have
    /// processes. Several if units of several users or containers have this name.
    pub fn groups_of_unit(&self, unit: &str) -> std::collections::BTreeSet<String> {
        container::groups_of_unit(&self.root, &self.processes(), unit)
    }

    /// Returns the control groups of the services of systemd that these processes belong to.
    pub fn services_of(&self, pids: &[u32]) -> std::collections::BTreeSet<String> {
        container::services(&self.root, pids)
    }

    /// Returns the control groups of these processes, in all hierarchies.
    pub fn groups_of(&self, pids: &[u32]) -> std::collections::BTreeSet<String> {
        container::all_groups(&self.root, pids)
    }

    /// Returns the control groups of one hierarchy, indexed by the kernel's IDs. Chooses the
    /// hierarchy with the largest number of groups that have members; with `path`, it chooses among
    /// the hierarchies that have this group. Returns `None` if there is none.
    pub fn group_tree(&self, path: Option<&str>) -> Option<GroupTree> {
        GroupTree::find(&self.root, path)
    }

    /// Returns the CPUs and the quota that a control group gives to its threads.
    pub fn group_facts(&self, group: &ControlGroup) -> punctual_model::GroupFacts {
        group_facts::facts(&self.root, group)
    }

    /// Returns the `cgroup.procs` files that move this process into a control group and back to its
    /// current one: one pair for each hierarchy that limits CPUs or CPU time and contains the
    /// group.
    pub fn group_places(&self, group: &ControlGroup) -> Vec<GroupLocation> {
        group_facts::locations(&self.root, group)
    }

    /// Returns the processes in a control group and in the groups below it, or the threads if this
    /// is a threaded group.
    pub fn members(&self, group: &ControlGroup) -> std::collections::BTreeSet<u32> {
        group.members(&self.root)
    }

    /// Returns the name of the sched_ext scheduler, if one is enabled.
    pub fn sched_ext(&self) -> Option<String> {
        let name = facts::sched_ext(&self.root).value?;
        (name != "none").then_some(name)
    }

    /// Returns whether a thread is in a control group or below it (`/proc/TID/cgroup`). The name of
    /// the group is the one that [`Quotas`] reports.
    pub fn is_in_group(&self, tid: u32, group: &str) -> bool {
        cgroup::is_in(&self.root, tid, group)
    }

    /// Returns the control group's file that prevents a thread from getting any real-time priority:
    /// `cpu.rt_runtime_us`, if its value is 0. Returns `None` if there is no such file or its value
    /// is not 0. Without `tid`, checks this process.
    pub fn group_without_real_time(&self, tid: Option<u32>) -> Option<String> {
        let tid = tid.map_or("self".to_owned(), |tid| tid.to_string());
        cgroup::without_real_time(&self.root, &tid)
    }

    /// Opens a few counters of one CPU so that they can be read often and at low cost.
    pub fn watch(&self, cpu: u32) -> CpuWatch {
        let vendor = self.vendor.get_or_init(|| facts::vendor(&self.root));
        CpuWatch::open(&self.root, vendor.as_deref(), cpu)
    }

    /// Opens the steal time of all CPUs, for frequent reads.
    ///
    /// # Errors
    /// Returns an error if `/proc/stat` cannot be opened.
    pub fn watch_steal(&self) -> std::io::Result<StealWatch> {
        StealWatch::open(&self.root)
    }

    /// Opens the count of system management interrupts of a CPU. Returns `None` if the count cannot
    /// be read.
    pub fn watch_smis(&self, cpu: u32) -> Option<SmiWatch> {
        let vendor = self.vendor.get_or_init(|| facts::vendor(&self.root));
        SmiWatch::open(&self.root, vendor.as_deref(), cpu)
    }

    /// Returns the kernel's functions, indexed by address. Each call reads the table again.
    pub fn symbols(&self) -> Symbols {
        Symbols::read(&self.root)
    }

    /// Returns the identifier of the current boot (`/proc/sys/kernel/random/boot_id`).
    pub fn boot_id(&self) -> Option<String> {
        process::boot_id(&self.root)
    }

    /// Returns an identifier of this installation for recordings: a hash of machine-id(5), because
    /// machine-id itself is confidential. If that file is missing, returns the machine's name.
    pub fn machine(&self) -> String {
        fingerprint::machine(&self.root)
    }

    /// Returns the names of this process's namespaces for PIDs and start times (`/proc/self/ns`).
    /// In other namespaces, PIDs and start times refer to other processes, or to none.
    pub fn namespaces(&self) -> Option<String> {
        process::namespaces(&self.root)
    }

    /// Returns the PID namespace of this process if it is in a container that has its own. There,
    /// PIDs differ from those in trace events and BPF programs. Returns `None` on the host.
    pub fn pid_namespace(&self) -> Option<String> {
        process::pid_namespace(&self.root)
    }

    /// Returns the mount option of `/proc` that hides processes from this process, such as
    /// `hidepid=invisible`; `None` if `/proc` shows all.
    pub fn hiding_option(&self) -> Option<String> {
        process::hiding_option(&self.root)
    }

    /// Returns what the time namespace of this process adds to CLOCK_MONOTONIC; `None` if nothing.
    pub fn monotonic_offset(&self) -> Option<String> {
        process::monotonic_offset(&self.root)
    }

    /// Returns the start time of process `pid` in clock ticks (1/100 s) since boot. Together with
    /// the boot ID, the start time distinguishes a process from a later one with the same PID.
    /// Returns `None` if the process does not exist, is a zombie, or is hidden.
    pub fn process_start(&self, pid: u32) -> Option<u64> {
        process::start(&self.root, pid)
    }

    /// Returns the identity of this process. If the start time cannot be read, it is 0.
    pub fn own_process(&self) -> ProcessId {
        let pid = std::process::id();
        ProcessId {
            pid,
            start: self.process_start(pid).unwrap_or_default(),
        }
    }

    /// Returns whether that process still exists and its PID has not been reused by another one.
    pub fn has_process(&self, process: ProcessId) -> bool {
        self.process_start(process.pid) == Some(process.start)
    }

    /// Returns this process as the writer of a recording.
    pub fn lease(&self) -> Lease {
        let ProcessId { pid, start } = self.own_process();
        Lease {
            pid,
            process_start: start,
            boot_id: self.boot_id().unwrap_or_default(),
            namespaces: self.namespaces(),
        }
    }

    /// Returns whether the process of a lease may be alive, according to its PID. In other
    /// namespaces the PID is meaningless; unknown counts as alive.
    pub fn may_live(&self, lease: &Lease) -> bool {
        if self.boot_id().unwrap_or_default() != lease.boot_id {
            return false;
        }
        let elsewhere = lease.namespaces.is_some() && lease.namespaces != self.namespaces();
        let writer = ProcessId {
            pid: lease.pid,
            start: lease.process_start,
        };
        elsewhere || self.has_process(writer)
    }

    /// Returns the path of a process's executable, even if the file was replaced after the process
    /// started. Returns `None` if there is no such process, or the kernel hides it
    /// (proc_pid_exe(5)).
    pub fn program_of(&self, pid: u32) -> Option<String> {
        process::program_of(&self.root, pid)
    }

    /// Returns the user of process or thread `tid` if its real, effective, saved and file system
    /// user IDs are the same (proc_pid_status(5)). Returns `None` if they are unknown or if they
    /// differ, for example while a set-user-ID program runs.
    pub fn sole_user(&self, tid: u32) -> Option<u32> {
        process::sole_user(&self.root, tid)
    }

    /// Returns the threads of a process with their names, in ascending order, or none if there is
    /// no such process.
    pub fn threads_of(&self, pid: u32) -> Vec<(u32, String)> {
        tasks::threads(&self.root, pid).collect()
    }

    /// Returns whether there is a process with this ID, or a thread.
    pub fn has_threads(&self, pid: u32) -> bool {
        tasks::threads(&self.root, pid).next().is_some()
    }

    /// Returns whether a thread belongs to a process.
    pub fn is_thread_of(&self, tid: u32, process: u32) -> bool {
        let folder = format!("/proc/{process}/task/{tid}");
        self.root.inode(&folder).is_some()
    }

    /// Returns the target of a thread's file descriptor: `anon_inode:[timerfd]`, or a path. Returns
    /// `None` if the descriptor is not open or may not be read.
    pub fn descriptor(&self, tid: u32, fd: u64) -> Option<String> {
        self.root.link(&format!("/proc/{tid}/fd/{fd}")).ok()
    }

    /// Returns whether the process of a thread maps a library with this file name.
    pub fn maps_library(&self, tid: u32, name: &str) -> bool {
        let maps = self.root.raw_text(&format!("/proc/{tid}/maps"));
        let is_name = |line: &str| line.rsplit('/').next() == Some(name);
        maps.is_ok_and(|maps| maps.lines().any(is_name))
    }

    /// Returns a path to the program file of a process, also if the file was deleted or is in another
    /// mount namespace.
    pub fn program_file(&self, pid: u32) -> PathBuf {
        self.root.join(&format!("/proc/{pid}/exe"))
    }

    /// Returns whether the program of a process was built by Go.
    pub fn is_built_by_go(&self, pid: u32) -> bool {
        program::is_built_by_go(&self.root, pid)
    }

    /// Returns whether two threads belong to the same process.
    pub fn share_process(&self, tid: u32, other: u32) -> bool {
        let comm = format!("/proc/{tid}/task/{other}/comm");
        self.root.raw_text(&comm).is_ok()
    }

    /// Returns the IDs of all processes in ascending order.
    pub fn processes(&self) -> Vec<u32> {
        tasks::processes(&self.root)
    }

    /// Returns the files for a support request: kernel configuration, command line, interrupts, the
    /// kernel's log and others, each with its contents or the reason why they could not be read.
    pub fn support_files(&self) -> Vec<SupportFile> {
        support_files::all(&self.root)
    }

    /// Returns the CPU time that the processes of the process group `group` have used so far,
    /// including children that they have waited for. The resolution of this time is one clock tick.
    /// Returns `None` if there is no such group.
    pub fn group_cpu_time(&self, group: u32) -> Option<Nanos> {
        process::group_cpu_time(&self.root, group)
    }

    /// Returns whether a process of the process group `group` is still running. Zombies do not
    /// count.
    pub fn group_runs(&self, group: u32) -> bool {
        process::group_runs(&self.root, group)
    }

    /// Returns the bytes of memory available without swapping (`MemAvailable` in `/proc/meminfo`).
    pub fn memory_available(&self) -> Option<u64> {
        capacity::memory_available(&self.root)
    }

    /// Returns the threads of this process, each with its name and the last CPU it ran on
    /// (`/proc/self/task`).
    pub fn own_threads(&self) -> Vec<OwnThread> {
        process::own_threads(&self.root)
    }

    /// Returns a thread of any process by its ID (`/proc/TID/stat`), or `None` once it has ended.
    pub fn thread(&self, tid: i32) -> Option<OwnThread> {
        process::thread(&self.root, tid)
    }

    /// Returns the load averages in the kernel's format: `0.20 0.18 0.12 1/80 11206`
    /// (`/proc/loadavg`).
    pub fn load_averages(&self) -> Option<String> {
        capacity::load_averages(&self.root)
    }

    /// Returns the memory node of a CPU (`/sys/devices/system/cpu/cpu*/node*`), or `None` if the
    /// kernel has no nodes.
    pub fn node_of(&self, cpu: u32) -> Option<u32> {
        capacity::node_of(&self.root, cpu)
    }

    /// Returns all interrupts: the numbered ones in ascending order, then the kernel's own
    /// (`/proc/interrupts`, `/proc/irq`, `/sys/kernel/irq`).
    ///
    /// # Errors
    /// Returns an error if /proc/interrupts cannot be read.
    pub fn interrupts(&self) -> Result<Vec<InterruptRecord>, HostError> {
        interrupts::interrupts(&self.root)
    }

    /// Returns the topology of CPUs, caches and memory nodes.
    ///
    /// # Errors
    /// Returns an error if the list of CPUs cannot be read.
    pub fn topology(&self) -> Result<Topology, HostError> {
        topology::topology(&self.root)
    }

    /// Returns all threads of the machine, sorted by process and then by thread ID
    /// (`/proc/PID/task/TID/stat` and `status`). Threads that end in the meantime are left out.
    pub fn tasks(&self) -> Vec<TaskRecord> {
        tasks::tasks(&self.root)
    }

    /// Returns the threads of one process, or none if there is no such process.
    pub fn tasks_of(&self, pid: u32) -> Vec<TaskRecord> {
        tasks::of_process(&self.root, pid)
    }

    /// Reads the code mappings of a process, to name the functions at its addresses. `reader` is
    /// the command that runs [`serve_symbols`], which reads the programs of other users.
    pub fn code_of(&self, pid: u32, reader: Option<Vec<OsString>>) -> ProgramCode {
        ProgramCode::read(&self.root, pid, reader)
    }

    /// Reads the part of a process's state that matters to its real-time threads.
    pub fn lint_process(&self, pid: u32) -> LintProcess {
        lint::process(&self.root, pid)
    }

    /// Returns the resident bytes below the stack pointers of a process's threads. Threads that are
    /// running or may not be traced are left out.
    pub fn resident_stacks(&self, pid: u32, tids: &[u32]) -> BTreeMap<u32, u64> {
        lint::resident_stacks(&self.root, pid, tids)
    }

    /// Returns the running child processes of a process, or none if the kernel does not list them
    /// (CONFIG_PROC_CHILDREN).
    pub fn children_of(&self, pid: u32) -> Vec<u32> {
        lint::children_of(&self.root, pid)
    }

    /// Returns an open file of a process, or `None` if the file is not open or is hidden.
    pub fn open_file(&self, pid: u32, descriptor: u64) -> Option<WaitedFile> {
        lint::open_file(&self.root, pid, descriptor)
    }

    /// Returns the timers (timerfd) among the files that an epoll file of a process waits for.
    pub fn epoll_timers(&self, pid: u32, descriptor: u64) -> Vec<WaitedTimer> {
        lint::epoll_timers(&self.root, pid, descriptor)
    }

    /// Returns the POSIX timers of a process that send signals. Empty if /proc hides them, or if
    /// the kernel does not list them (CONFIG_POSIX_TIMERS, CONFIG_CHECKPOINT_RESTORE).
    pub fn signal_timers(&self, pid: u32) -> Vec<WaitedTimer> {
        lint::signal_timers(&self.root, pid)
    }

    /// Returns the PID of a thread's process (`Tgid` in /proc/TID/status).
    pub fn process_of(&self, tid: u32) -> Option<u32> {
        lint::process_of(&self.root, tid)
    }

    /// Returns the parent of a process, and the addresses of its code and stack. They are equal for
    /// processes that the same parent created by fork(2), if none has executed another program since
    /// then. `None` if /proc hides the addresses.
    pub fn fork_family(&self, pid: u32) -> Option<[u64; 3]> {
        process::fork_family(&self.root, pid)
    }

    /// Returns the largest possible thread ID (`/proc/sys/kernel/pid_max`), or the largest ID that
    /// any kernel allows if that file cannot be read.
    pub fn pid_max(&self) -> u32 {
        capacity::pid_max(&self.root)
    }

    /// Returns the size in bytes of the largest last-level cache
    /// (`/sys/devices/system/cpu/cpu*/cache`), or `None` if the kernel does not report the size.
    pub fn last_level_cache(&self) -> Option<u64> {
        capacity::last_level_cache(&self.root)
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::live()
    }
}
