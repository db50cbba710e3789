//! Actions of a program's real-time threads that cost latency ("acts"), and the results of the
//! rules about them.

use serde::{Deserialize, Serialize};

use super::RefusedCall;
use crate::{Nanos, Policy, Severity};

/// The version of [`LintReport`] as JSON. It is increased only if a reader of the older form would
/// misread the newer one. Adding a field does not increase it.
pub const LINT_SCHEMA: u32 = 1;

/// Kind of an action of a thread that can cost latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ActKind {
    /// A page fault.
    Fault,
    /// It waited in a system call, or for a page outside a system call.
    Sleep,
    /// A thread of lower priority woke it.
    WokenByThread,
    /// A softirq woke it.
    WokenBySoftirq,
    /// It waited for a lock held by a thread of lower priority, which inherited its priority.
    Inherit,
    /// It waited for a kernel lock without priority inheritance.
    KernelLock,
    /// It migrated to another CPU.
    Migrate,
    /// A signal was delivered to it.
    Signal,
    /// It changed its memory mappings.
    Memory,
    /// It made a system call on a file. `other` of the act is the [`FileKind`], if known.
    File,
    /// It was runnable, but another watched thread had its CPU.
    Queue,
}

impl ActKind {
    /// All kinds.
    pub const ALL: [Self; 11] = [
        Self::Fault,
        Self::Sleep,
        Self::WokenByThread,
        Self::WokenBySoftirq,
        Self::Inherit,
        Self::KernelLock,
        Self::Migrate,
        Self::Signal,
        Self::Memory,
        Self::File,
        Self::Queue,
    ];
}

/// The kind of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A file in a file system, on disk or in memory.
    Regular,
    /// A directory.
    Directory,
    /// A pipe or FIFO.
    Pipe,
    /// A socket.
    Socket,
    /// A character device: a bus, a terminal, a GPIO line.
    Device,
    /// A block device: a disk.
    Disk,
    /// A file that is not in a file system: a timer, an event counter, epoll.
    Anonymous,
}

impl FileKind {
    /// Returns the kind that corresponds to the file type in a mode (inode(7)). 1 means a file
    /// outside any file system. Returns `None` if the type is unknown.
    pub fn of_mode(mode: u32) -> Option<Self> {
        match mode {
            1 => Some(Self::Anonymous),
            0o010_000 => Some(Self::Pipe),
            0o020_000 => Some(Self::Device),
            0o040_000 => Some(Self::Directory),
            0o060_000 => Some(Self::Disk),
            0o100_000 => Some(Self::Regular),
            0o140_000 => Some(Self::Socket),
            _ => None,
        }
    }

    /// Returns the kind in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Regular => "regular file",
            Self::Directory => "directory",
            Self::Pipe => "pipe",
            Self::Socket => "socket",
            Self::Device => "device",
            Self::Disk => "disk",
            Self::Anonymous => "anonymous file",
        }
    }
}

/// The system call that a thread was in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InCall {
    /// It was not in a system call, but for example in a page fault or an interrupt.
    None,
    /// The system call could not be read.
    #[default]
    Unknown,
    /// It was in the system call with this number.
    Number(i64),
}

/// Flag of [`Act::other`]: a timer sent the signal (timer_create(2), setitimer(2)).
pub const TIMER_SIGNAL: u32 = 256;

/// The descriptors that a call polls, from the arguments of an [`Act`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polled {
    /// The descriptors below 64, as a mask.
    pub mask: u64,
    /// Whether the mask lacks some of the descriptors.
    pub is_partial: bool,
    /// Whether the call waits for no descriptor at all.
    pub is_empty: bool,
    /// Whether the wait ends after some time.
    pub has_timeout: bool,
}

impl Polled {
    /// Reads the arguments of a call that polls.
    pub const fn from_arguments([mask, flags]: [u64; 2]) -> Self {
        Self {
            mask,
            is_partial: flags & 1 != 0,
            is_empty: flags & 2 != 0,
            has_timeout: flags & 4 != 0,
        }
    }

    /// Returns the known descriptors.
    pub fn descriptors(self) -> impl Iterator<Item = u64> {
        (0..64).filter(move |descriptor| self.mask >> descriptor & 1 == 1)
    }
}

/// Acts of one thread at one place in its code, counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// The kind of the acts.
    pub kind: ActKind,
    /// The thread.
    pub tid: u32,
    /// Its comm.
    pub comm: String,
    /// The system call that the thread was in.
    pub call: InCall,
    /// The first two arguments of the call if they matter, or else 0. If the call polls several
    /// descriptors, the first is their mask, and the second has the flags of [`Polled`]. If it waits
    /// on a futex, the first is 1 if the wait has a timeout. If it waits for signals, the first is
    /// their set.
    pub arguments: [u64; 2],
    /// Depends on the kind: the waker, the holder of the lock or the CPU, the signal (with
    /// [`TIMER_SIGNAL`] if it is from a timer), the softirq, or the type of the file.
    pub other: u32,
    /// The comm of the other thread. Empty if there is none.
    pub other_comm: String,
    /// The path in the last call on a file, or the path of the peer of its socket. Empty if it
    /// is unknown or does not matter. The kernel cuts it off after 63 bytes.
    pub name: String,
    /// Priorities of the thread and of the other thread, on the kernel's scale (smaller is more
    /// urgent).
    pub priorities: (i32, i32),
    /// Return addresses on the user-space stack, the innermost first.
    pub stack: Vec<u64>,
    /// The words at the top of the user-space stack.
    pub words: Vec<u64>,
    /// Number of acts.
    pub count: u64,
    /// The longest duration, if acts of this kind have one.
    pub max: Option<Nanos>,
    /// The address of the last page fault.
    pub address: u64,
}

/// All observed acts.
#[derive(Clone, Debug, Default)]
pub struct Acts {
    /// Acts by thread and place.
    pub acts: Vec<Act>,
    /// Number of times a watched thread left its CPU.
    pub switches: u64,
    /// Acts that were not counted, because tables were full or events were overwritten.
    pub lost: u64,
    /// Number of times a watched process was replaced by exec.
    pub execs: u64,
}

/// The registers that show the callers of a place in a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// The address of the next instruction.
    pub ip: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer, which a program may use for other values.
    pub fp: u64,
    /// The return address of an innermost function on arm64; 0 on x86.
    pub lr: u64,
}

/// A place in a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// The address in the process.
    pub address: u64,
    /// The file that is mapped at the address. Null if there is none.
    pub object: Option<String>,
    /// The address within that file.
    pub offset: Option<u64>,
    /// The function and the offset within it. Null if the file has no symbol for the address.
    pub symbol: Option<String>,
    /// The build ID of the file, in hexadecimal.
    pub build_id: Option<String>,
}

impl Frame {
    /// Returns `function+0x10 (program)`, or as much of it as is known.
    pub fn text(&self) -> String {
        let file = self
            .object
            .as_deref()
            .map(|path| path.rsplit('/').next().unwrap_or(path));
        match (&self.symbol, file, self.offset) {
            (Some(symbol), Some(file), _) => format!("{symbol} ({file})"),
            (None, Some(file), Some(offset)) => format!("{file}+{offset:#x}"),
            _ => format!("{:#x}", self.address),
        }
    }
}

/// An act and its resolved place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedAct {
    /// The act.
    pub act: Act,
    /// The name of the system call. `None` if there was no call, or if the name is unknown.
    pub call: Option<String>,
    /// The open file that the call waits for.
    pub file: Option<WaitedFile>,
    /// The timers that end the wait: those among the files that the call polls, and those that send
    /// the signals. Each has its clock.
    pub timers: Vec<WaitedTimer>,
    /// The stack frames of the call site, the innermost first.
    pub frames: Vec<Frame>,
    /// Reason why frames are missing.
    pub frames_unknown: Option<String>,
}

/// A timer that a thread waits for, as a file or by its signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitedTimer {
    /// The descriptor, or the number of the signal.
    pub number: u64,
    /// Its clock.
    pub clock: u32,
}

/// An open file of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitedFile {
    /// Target of the file's link in /proc: `socket:[123]`, `anon_inode:[timerfd]`, a path.
    pub target: String,
    /// The clock, if the file is a timer.
    pub clock: Option<u32>,
    /// The kind of the file, from its mode.
    pub kind: Option<FileKind>,
}

/// A real-time thread of the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LintThread {
    /// Process ID.
    pub pid: u32,
    /// Its thread ID.
    pub tid: u32,
    /// Its comm.
    pub comm: String,
    /// Its policy.
    pub policy: Policy,
    /// Its priority. 0 for SCHED_DEADLINE.
    pub priority: u8,
    /// CPU time that it used during the observation.
    pub cpu_time_ns: Option<Nanos>,
    /// Number of voluntary context switches during the observation.
    pub switches_voluntary: Option<u64>,
    /// Resident bytes of the stack below its stack pointer. Null if unknown.
    pub stack_resident_bytes: Option<u64>,
}

/// A process of the target, from /proc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LintProcess {
    /// Its process ID.
    pub pid: u32,
    /// Its comm.
    pub comm: String,
    /// Locked and resident bytes, or the reason why they are unknown.
    pub locked: Result<(u64, u64), String>,
    /// RLIMIT_RTTIME in microseconds. `None` if unlimited.
    pub runtime_limit: Result<Option<u64>, String>,
    /// RLIMIT_MEMLOCK in bytes, if it applies. `None` if unlimited, or if the process has
    /// CAP_IPC_LOCK.
    pub memlock_limit: Result<Option<u64>, String>,
    /// The size of its address space in bytes.
    pub size: Result<u64, String>,
    /// Reason why the stacks and open files of the process are inaccessible. `None` if they are
    /// accessible.
    pub hidden: Option<String>,
}

/// All facts about an observed program.
#[derive(Clone, Debug, Default)]
pub struct LintFacts {
    /// The target, as the user named it.
    pub target: String,
    /// Length of the observation.
    pub duration: Nanos,
    /// Time during which system calls were traced.
    pub calls_traced: Nanos,
    /// Method of collecting acts.
    pub source: Option<LintSource>,
    /// Kinds of acts that could not be observed, with the reason.
    pub unseen: Vec<(ActKind, String)>,
    /// The observed acts.
    pub acts: Vec<PlacedAct>,
    /// Number of times a watched thread left its CPU.
    pub switches: u64,
    /// Number of acts that were not counted.
    pub lost: u64,
    /// Its real-time threads.
    pub threads: Vec<LintThread>,
    /// Its processes.
    pub processes: Vec<LintProcess>,
    /// Calls for a policy or for locked memory that the kernel refused while system calls were
    /// traced.
    pub refused_calls: Vec<RefusedCall>,
    /// Reason why refused calls could not be recorded.
    pub refused_unknown: Option<String>,
    /// Other notes for the reader.
    pub notes: Vec<String>,
}

/// Method of collecting acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LintSource {
    /// BPF programs in the kernel collect them.
    Bpf,
    /// The program reads trace events and counts them.
    Events,
}

/// Result of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleState {
    /// The rule was violated.
    Violated,
    /// The facts needed to judge the rule were not observed.
    Unknown,
    /// No violation was observed.
    Clean,
}

/// A place in the code at which a rule was violated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// ID of the process or thread.
    pub tid: u32,
    /// Its comm.
    pub comm: String,
    /// The act: `clock_nanosleep(CLOCK_REALTIME)`.
    pub what: String,
    /// Number of violations.
    pub count: u64,
    /// The longest violation, if it has a duration.
    pub max_ns: Option<Nanos>,
    /// The stack frames of the call site, the innermost first.
    pub frames: Vec<Frame>,
    /// Reason why frames are missing.
    pub frames_unknown: Option<String>,
}

/// One rule and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleResult {
    /// ID of the rule: `page-fault`.
    pub id: String,
    /// Subject of the rule.
    pub title: String,
    /// Its state.
    pub state: RuleState,
    /// Severity of a violation.
    pub severity: Severity,
    /// Reason why the result is unknown.
    pub unknown: Option<String>,
    /// Number of violations.
    pub count: u64,
    /// The longest violation, if it has a duration.
    pub max_ns: Option<Nanos>,
    /// The time during which the violations were counted. Null if the rule judges a state, or if
    /// that time is unknown.
    #[serde(default)]
    pub counted_ns: Option<Nanos>,
    /// The violations, the most frequent first.
    pub violations: Vec<Violation>,
    /// Reason why a violation costs latency.
    pub why: String,
    /// Documentation that supports the rule.
    pub source: String,
    /// Recommended alternative.
    pub remedy: String,
}

/// The report of `lint`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LintReport {
    /// Version of this JSON form, [`LINT_SCHEMA`].
    pub schema: u32,
    /// Version of the program that made the report.
    pub program: String,
    /// The target: `pid 1234`.
    pub target: String,
    /// Length of the observation.
    pub duration_ns: Nanos,
    /// Time during which system calls were traced.
    pub calls_traced_ns: Nanos,
    /// Method of collecting acts. Null if they were not collected.
    pub source: Option<LintSource>,
    /// Its real-time threads.
    pub threads: Vec<LintThread>,
    /// The result of each rule, the most important first.
    pub rules: Vec<RuleResult>,
    /// Other notes for the reader.
    pub notes: Vec<String>,
}

impl LintReport {
    /// Returns the number of rules in this state.
    pub fn count(&self, state: RuleState) -> usize {
        self.rules.iter().filter(|rule| rule.state == state).count()
    }

    /// Returns whether a rule of high severity is in this state.
    pub fn has_grave(&self, state: RuleState) -> bool {
        let mut rules = self.rules.iter();
        rules.any(|rule| rule.state == state && rule.severity >= Severity::High)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, metadata};
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// The kernel sets the modes of these files.
    #[test]
    fn kinds_of_files_follow_their_modes() {
        const TYPE: u32 = 0o170_000;
        let program = std::env::current_exe().unwrap();
        let of_path = |path| metadata(path).unwrap();
        let of_descriptor = |of: OwnedFd| File::from(of).metadata().unwrap();
        let (reader, _writer) = std::io::pipe().unwrap();
        let (socket, _peer) = UnixStream::pair().unwrap();
        for (found, kind) in [
            (of_path(program.as_path()), FileKind::Regular),
            (of_path("/".as_ref()), FileKind::Directory),
            (of_path("/dev/null".as_ref()), FileKind::Device),
            (of_descriptor(reader.into()), FileKind::Pipe),
            (of_descriptor(socket.into()), FileKind::Socket),
        ] {
            assert_eq!(FileKind::of_mode(found.mode() & TYPE), Some(kind));
        }
        // inode(7), and the number for a file outside any file system.
        assert_eq!(FileKind::of_mode(0o060_000), Some(FileKind::Disk));
        assert_eq!(FileKind::of_mode(1), Some(FileKind::Anonymous));
        assert_eq!(FileKind::of_mode(0), None);
    }
}
