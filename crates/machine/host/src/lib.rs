//! Facts about the machine.
//!
//! **For:** what a machine is and how it is set ([`Host::facts`]), which CPUs
//! there are and may be used, and what its kernel has counted
//! ([`Host::counters`]). The only crate that reads /proc, /sys and the kernel
//! configuration.
//!
//! **Knows:** where each fact stands on kernels of the last ten years, and
//! how a fact can be missing. Every path is taken below a root, so that tests
//! run on the recorded tree of another machine.
//!
//! **Must not know:** what a fact means for latency (that is `checks`), how
//! to change it (that is `tune`), probes, recordings, terminals. Nothing here
//! is written, and nothing is measured.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod capacity;
mod capture;
mod cgroup;
mod coalescing;
mod container;
mod counters;
mod error;
mod facts;
mod fingerprint;
mod group_facts;
mod group_tree;
mod interrupts;
mod latency_holders;
mod lint;
pub mod netlink;
mod power;
mod process;
mod program;
mod root;
mod support_files;
mod symbols;
mod tasks;
mod thermal;
mod topology;
mod unread;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use punctual_model::{
    CpuSet, HostFacts, InterruptRecord, LintProcess, Nanos, ProcessId, TaskRecord, Topology,
    WaitedFile,
};

pub use cgroup::{QuotaCounts, Quotas};
pub use coalescing::{Coalescing, CoalescingError, ETHTOOL};
pub use container::{Container, ControlGroup};
pub use counters::{Counters, CpuCounts, CpuWatch, SmiWatch, StealWatch};
pub use error::{HostError, NoHeader};
pub use facts::{NoConfig, NotAConfig, keeps_option};
pub use fingerprint::fingerprint;
pub use group_facts::GroupPlace;
pub use group_tree::{GroupHierarchy, GroupTree};
pub use power::PowerWatch;
pub use process::OwnThread;
pub use program::ProgramCode;
pub use support_files::{NoSupportFile, SupportFile};
pub use symbols::{Symbols, system_call_name, system_call_numbers};
pub use thermal::ThermalZone;
pub use unread::Unread;

use root::Root;

/// One machine: the one this runs on, or the recorded tree of another.
#[derive(Clone, Debug)]
pub struct Host {
    root: Root,
    /// Read once: on some kernels each read of /proc/cpuinfo interrupts every
    /// CPU to ask for its frequency, and counters are read around a
    /// measurement.
    vendor: OnceLock<Option<String>>,
}

impl Host {
    /// The machine whose /proc, /sys, /dev, /etc and /boot are found below
    /// `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: Root::new(root.into()),
            vendor: OnceLock::new(),
        }
    }

    /// The machine that the program runs on.
    pub fn live() -> Self {
        Self::new("/")
    }

    /// The root path all files are read below.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// All facts about the machine now. A fact that cannot be read is
    /// unknown with its reason; this never fails as a whole.
    ///
    /// Takes a few thousand small reads on a machine with 64 CPUs: not for
    /// use during a measurement.
    pub fn facts(&self) -> HostFacts {
        facts::facts(&self.root)
    }

    /// The distributions that this one derives from, nearest first: `ID_LIKE`
    /// of os-release(5).
    pub fn distribution_like(&self) -> Vec<String> {
        facts::distribution_like(&self.root)
    }

    /// Begins to watch idle states, frequencies, temperatures and energy of these CPUs.
    pub fn watch_power(&self, cpus: CpuSet) -> PowerWatch {
        PowerWatch::begin(&self.root, cpus)
    }

    /// The thermal zones whose temperature can be read.
    pub fn thermal_zones(&self) -> Vec<ThermalZone> {
        thermal::zones(&self.root)
    }

    /// The kernel's command line (`/proc/cmdline`).
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn command_line(&self) -> Result<String, HostError> {
        Ok(self.root.require("/proc/cmdline")?.trim().to_owned())
    }

    /// The CPUs that are online (`/sys/devices/system/cpu/online`).
    ///
    /// # Errors
    /// When the file cannot be read or does not hold a CPU list.
    pub fn online(&self) -> Result<CpuSet, HostError> {
        self.root.require_cpu_list(facts::ONLINE)
    }

    /// The CPUs that are present, online or not
    /// (`/sys/devices/system/cpu/present`).
    ///
    /// # Errors
    /// When the file cannot be read or does not hold a CPU list.
    pub fn present(&self) -> Result<CpuSet, HostError> {
        self.root.require_cpu_list(facts::PRESENT)
    }

    /// The CPUs this process may run on (`Cpus_allowed_list` of
    /// `/proc/self/status`): its affinity within its cpuset cgroup. An
    /// offline CPU can be among them.
    ///
    /// # Errors
    /// When the file cannot be read or holds no such list.
    pub fn allowed(&self) -> Result<CpuSet, HostError> {
        process::allowed(&self.root)
    }

    /// The kernel's counters: read them before and after, and get the
    /// difference with [`Counters::since`].
    ///
    /// Reading the SMI count interrupts each CPU for a moment: not during a
    /// measurement.
    pub fn counters(&self) -> Counters {
        let vendor = self.vendor.get_or_init(|| facts::vendor(&self.root));
        Counters::read(&self.root, vendor.as_deref())
    }

    /// The vendor of the processor: `GenuineIntel`
    /// (`/proc/cpuinfo`).
    pub fn vendor(&self) -> Option<&str> {
        let vendor = self.vendor.get_or_init(|| facts::vendor(&self.root));
        vendor.as_deref()
    }

    /// The control groups above these processes or threads, with what their CPU
    /// quotas have counted so far (`cpu.stat`, both versions of control groups);
    /// of this process where none is given.
    pub fn quotas(&self, pids: &[u32]) -> Quotas {
        match pids {
            [] => Quotas::above(&self.root, ["self".to_owned()].into_iter()),
            pids => Quotas::above(&self.root, pids.iter().map(u32::to_string)),
        }
    }

    /// A control group, by its name (`/system.slice/redis.service`) or the path of its
    /// folder; `None`: there is none.
    pub fn control_group(&self, path: &str) -> Option<ControlGroup> {
        ControlGroup::find(&self.root, path)
    }

    /// The control groups by the kernel's numbers: of the hierarchy with most
    /// groups that have members, or with `path` of one that has this group. `None`: there is none.
    pub fn group_tree(&self, path: Option<&str>) -> Option<GroupTree> {
        GroupTree::find(&self.root, path)
    }

    /// What the threads of a control group get.
    pub fn group_facts(&self, group: &ControlGroup) -> punctual_model::GroupFacts {
        group_facts::facts(&self.root, group)
    }

    /// Where this process joins a control group, in each hierarchy that limits CPUs or
    /// their time and has the group, and where it is now.
    pub fn group_places(&self, group: &ControlGroup) -> Vec<GroupPlace> {
        group_facts::places(&self.root, group)
    }

    /// The processes in a control group and below it; threads where it is a threaded one.
    pub fn members(&self, group: &ControlGroup) -> std::collections::BTreeSet<u32> {
        group.members(&self.root)
    }

    /// Whether a thread is in a control group, as [`Quotas`] names it, or below it
    /// (`/proc/TID/cgroup`).
    pub fn is_in_group(&self, tid: u32, group: &str) -> bool {
        cgroup::is_in(&self.root, tid, group)
    }

    /// The file of the control group that keeps a thread from any real-time
    /// priority: `cpu.rt_runtime_us` with 0. `None`: none does. Without a number,
    /// of this process.
    pub fn group_without_real_time(&self, tid: Option<u32>) -> Option<String> {
        let tid = tid.map_or("self".to_owned(), |tid| tid.to_string());
        cgroup::without_real_time(&self.root, &tid)
    }

    /// A few counters of one CPU, to be read often and cheaply.
    pub fn watch(&self, cpu: u32) -> CpuWatch {
        let vendor = self.vendor.get_or_init(|| facts::vendor(&self.root));
        CpuWatch::open(&self.root, vendor.as_deref(), cpu)
    }

    /// The steal time of all CPUs, to be read often.
    ///
    /// # Errors
    /// `/proc/stat` cannot be opened.
    pub fn watch_steal(&self) -> std::io::Result<StealWatch> {
        StealWatch::open(&self.root)
    }

    /// The system management interrupts of a CPU; `None`: they cannot be read.
    pub fn watch_smis(&self, cpu: u32) -> Option<SmiWatch> {
        let vendor = self.vendor.get_or_init(|| facts::vendor(&self.root));
        SmiWatch::open(&self.root, vendor.as_deref(), cpu)
    }

    /// The kernel's functions by their addresses; read again on each call.
    pub fn symbols(&self) -> Symbols {
        Symbols::read(&self.root)
    }

    /// Identifier of the current boot
    /// (`/proc/sys/kernel/random/boot_id`).
    pub fn boot_id(&self) -> Option<String> {
        process::boot_id(&self.root)
    }

    /// Identifier of this installation for recordings: a hash of machine-id(5), which
    /// itself is not to be shown to others; the machine's name where there is none.
    pub fn machine(&self) -> String {
        fingerprint::machine(&self.root)
    }

    /// Names of the namespaces that numbers and start times of processes belong to
    /// (`/proc/self/ns`): in another one they mean other processes, or none.
    pub fn namespaces(&self) -> Option<String> {
        process::namespaces(&self.root)
    }

    /// When process `pid` was started, in clock ticks (1/100 s) after boot:
    /// with the boot ID it distinguishes a process from a later one of the
    /// same number. `None` where there is no such process, where it has ended and
    /// only waits for its parent (a zombie), or is hidden.
    pub fn process_start(&self, pid: u32) -> Option<u64> {
        process::start(&self.root, pid)
    }

    /// This process. A start time that cannot be read is 0.
    pub fn own_process(&self) -> ProcessId {
        let pid = std::process::id();
        ProcessId {
            pid,
            start: self.process_start(pid).unwrap_or_default(),
        }
    }

    /// Whether that process is there, and its number not another's.
    pub fn has_process(&self, process: ProcessId) -> bool {
        self.process_start(process.pid) == Some(process.start)
    }

    /// The file of the program that a process runs, also where that was replaced since.
    /// `None`: there is no such process, or the kernel hides it (proc_pid_exe(5)).
    pub fn program_of(&self, pid: u32) -> Option<String> {
        process::program_of(&self.root, pid)
    }

    /// The user of process or thread `tid`, where its real, effective, saved and file
    /// system user ID are the same (proc_pid_status(5)). `None` where they differ, as
    /// while a set-user-ID program runs, and if it is unknown.
    pub fn sole_user(&self, tid: u32) -> Option<u32> {
        process::sole_user(&self.root, tid)
    }

    /// The threads of a process, with their names, by rising number; empty
    /// where there is no such process.
    pub fn threads_of(&self, pid: u32) -> Vec<(u32, String)> {
        tasks::threads(&self.root, pid)
    }

    /// What a file descriptor of a thread is open on: `anon_inode:[timerfd]`, a path;
    /// `None` where there is none, or it may not be read.
    pub fn descriptor(&self, tid: u32, fd: u64) -> Option<String> {
        self.root.link(&format!("/proc/{tid}/fd/{fd}")).ok()
    }

    /// The processes, by rising number.
    pub fn processes(&self) -> Vec<u32> {
        tasks::processes(&self.root)
    }

    /// The files of a support request: kernel configuration, command line,
    /// interrupts, the kernel's log and others, each with its text or the reason
    /// why it could not be read.
    pub fn support_files(&self) -> Vec<SupportFile> {
        support_files::all(&self.root)
    }

    /// CPU time that the processes of `group` have used so far, those included
    /// that they have waited for, in steps of a clock tick. `None` where there
    /// is no such group.
    pub fn group_cpu_time(&self, group: u32) -> Option<Nanos> {
        process::group_cpu_time(&self.root, group)
    }

    /// Whether a process of `group` still runs; one that has ended and was not
    /// waited for does not.
    pub fn group_runs(&self, group: u32) -> bool {
        process::group_runs(&self.root, group)
    }

    /// Bytes of memory that can be used now without swapping (`MemAvailable`
    /// of `/proc/meminfo`).
    pub fn memory_available(&self) -> Option<u64> {
        capacity::memory_available(&self.root)
    }

    /// The threads of this process, each with its name and the CPU it ran on last
    /// (`/proc/self/task`).
    pub fn own_threads(&self) -> Vec<OwnThread> {
        process::own_threads(&self.root)
    }

    /// A thread of any process, by its number (`/proc/TID/stat`); `None` once it
    /// has ended.
    pub fn thread(&self, tid: i32) -> Option<OwnThread> {
        process::thread(&self.root, tid)
    }

    /// The load averages in the kernel's format: `0.20 0.18 0.12 1/80
    /// 11206` (`/proc/loadavg`).
    pub fn load_averages(&self) -> Option<String> {
        capacity::load_averages(&self.root)
    }

    /// The memory node that a CPU belongs to
    /// (`/sys/devices/system/cpu/cpu*/node*`); `None` where the kernel knows no
    /// nodes.
    pub fn node_of(&self, cpu: u32) -> Option<u32> {
        capacity::node_of(&self.root, cpu)
    }

    /// All interrupts, by rising number, then the kernel's own
    /// (`/proc/interrupts`, `/proc/irq`, `/sys/kernel/irq`).
    ///
    /// # Errors
    /// When /proc/interrupts cannot be read.
    pub fn interrupts(&self) -> Result<Vec<InterruptRecord>, HostError> {
        interrupts::interrupts(&self.root)
    }

    /// The topology of CPUs, caches and memory nodes.
    ///
    /// # Errors
    /// When the list of CPUs cannot be read.
    pub fn topology(&self) -> Result<Topology, HostError> {
        topology::topology(&self.root)
    }

    /// All threads of the machine, by process and then by number
    /// (`/proc/PID/task/TID/stat` and `status`). Those that end while they are
    /// read are left out.
    pub fn tasks(&self) -> Vec<TaskRecord> {
        tasks::tasks(&self.root)
    }

    /// The threads of one process; none where there is no such process.
    pub fn tasks_of(&self, pid: u32) -> Vec<TaskRecord> {
        tasks::of_process(&self.root, pid)
    }

    /// The code of a process, to name the functions at its addresses.
    pub fn code_of(&self, pid: u32) -> ProgramCode {
        ProgramCode::read(&self.root, pid)
    }

    /// The state of a process that matters to its real-time threads.
    pub fn lint_process(&self, pid: u32) -> LintProcess {
        lint::process(&self.root, pid)
    }

    /// Resident bytes below the stack pointers of threads of a process; those that run
    /// now, or may not be traced, are missing.
    pub fn resident_stacks(&self, pid: u32, tids: &[u32]) -> BTreeMap<u32, u64> {
        lint::resident_stacks(&self.root, pid, tids)
    }

    /// The running processes that a process has forked; none where the kernel does not
    /// list them (CONFIG_PROC_CHILDREN).
    pub fn children_of(&self, pid: u32) -> Vec<u32> {
        lint::children_of(&self.root, pid)
    }

    /// An open file of a process; `None` where it is not open, or hidden.
    pub fn open_file(&self, pid: u32, descriptor: u64) -> Option<WaitedFile> {
        lint::open_file(&self.root, pid, descriptor)
    }

    /// The process that a thread belongs to (`Tgid` of /proc/TID/status).
    pub fn process_of(&self, tid: u32) -> Option<u32> {
        lint::process_of(&self.root, tid)
    }

    /// The largest number that a thread can have
    /// (`/proc/sys/kernel/pid_max`).
    pub fn pid_max(&self) -> Option<u32> {
        capacity::pid_max(&self.root)
    }

    /// The size in bytes of the largest last-level cache
    /// (`/sys/devices/system/cpu/cpu*/cache`); `None` where the kernel does not report it.
    pub fn last_level_cache(&self) -> Option<u64> {
        capacity::last_level_cache(&self.root)
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::live()
    }
}
