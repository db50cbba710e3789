//! What a program's real-time threads do that costs latency: what was seen, and how it
//! was judged.

use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;
use crate::{Nanos, Policy, Severity};

/// The version of [`LintReport`] as JSON. It rises when a reader of the older form
/// would misread the newer; fields that are added do not raise it.
pub const LINT_SCHEMA: u32 = 1;

/// What a thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ActKind {
    /// A page fault.
    Fault,
    /// It waited: in a system call, or without one for a page.
    Sleep,
    /// A thread of lower priority woke it.
    WokenByThread,
    /// A softirq woke it.
    WokenBySoftirq,
    /// It waited for a lock of a thread of lower priority, which inherited its priority.
    Inherit,
    /// It waited for a lock of the kernel without priority inheritance.
    KernelLock,
    /// It migrated to another CPU.
    Migrate,
    /// A signal was delivered to it.
    Signal,
    /// It changed its memory mappings.
    Memory,
    /// It called what works on files; `other` of the act is the [`FileKind`] where it is known.
    File,
}

impl ActKind {
    /// All of them.
    pub const ALL: [Self; 10] = [
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
    ];
}

/// What an open file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A file of a file system, in memory or not.
    Regular,
    /// A directory.
    Directory,
    /// A pipe or FIFO.
    Pipe,
    /// A socket.
    Socket,
    /// A device that is read and written byte by byte: a bus, a terminal, a GPIO line.
    Device,
    /// A device that keeps blocks: a disk.
    Disk,
    /// None of a file system: a timer, an event counter, epoll.
    Anonymous,
}

impl FileKind {
    /// By the type of a file in its mode (inode(7)); 1 stands for a file that is none of a
    /// file system. `None`: not known.
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

    /// In words.
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
    /// None: a page fault or an interrupt.
    None,
    /// It could not be read.
    #[default]
    Unknown,
    /// This number.
    Number(i64),
}

/// Acts of one thread at one place, as they were counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// What it did.
    pub kind: ActKind,
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub comm: String,
    /// The system call it was in.
    pub call: InCall,
    /// Its first two arguments, where they matter; else 0.
    pub arguments: [u64; 2],
    /// The waker, the holder of the lock, the signal, the softirq, or the type of the file.
    pub other: u32,
    /// The name of that thread; empty for none.
    pub other_comm: String,
    /// Priorities on the kernel's scale (smaller is more urgent): its own, and the other's.
    pub priorities: (i32, i32),
    /// Return addresses on the user-space stack, the innermost first.
    pub stack: Vec<u64>,
    /// The top of the user-space stack.
    pub words: Vec<u64>,
    /// How often.
    pub count: u64,
    /// The longest, where it has a length.
    pub worst: Option<Nanos>,
    /// The address of the last page fault.
    pub address: u64,
}

/// All acts that were seen.
#[derive(Clone, Debug, Default)]
pub struct Acts {
    /// By thread and place.
    pub acts: Vec<Act>,
    /// Number of times a watched thread left its CPU.
    pub switches: u64,
    /// Acts that were not counted: tables were full, or events were overwritten.
    pub lost: u64,
    /// Number of times a watched process was replaced by exec.
    pub execs: u64,
}

/// A place in a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Frame {
    /// The address in the process.
    pub address: u64,
    /// The mapped file; null where none is mapped there.
    pub object: Option<String>,
    /// The address within that file.
    pub offset: Option<u64>,
    /// The function, and how far within it; null where the file has no symbol for it.
    pub symbol: Option<String>,
    /// The build ID of the file, in hexadecimal.
    pub build_id: Option<String>,
}

impl Frame {
    /// `function+0x10 (program)`, or what is known of it.
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

/// An act with what is known of its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedAct {
    /// The act.
    pub act: Act,
    /// The name of the system call; `None`: none, or unknown.
    pub call: Option<String>,
    /// The open file that the call waits for.
    pub file: Option<WaitedFile>,
    /// Its place, the innermost first.
    pub frames: Vec<Frame>,
    /// Why there are no frames, or fewer.
    pub frames_unknown: Option<String>,
}

/// An open file of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitedFile {
    /// What it is: `socket:[123]`, `anon_inode:[timerfd]`, a path.
    pub target: String,
    /// The clock of a timer.
    pub clock: Option<u32>,
    /// What it is, by its mode.
    pub kind: Option<FileKind>,
}

/// A real-time thread of the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LintThread {
    /// Its process.
    pub pid: u32,
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub comm: String,
    /// Its policy.
    pub policy: Policy,
    /// Its priority; 0 for SCHED_DEADLINE.
    pub priority: u8,
    /// CPU time that it used while it was watched.
    pub cpu_time_ns: Option<Nanos>,
    /// Number of times it gave up its CPU while it was watched.
    pub switches_voluntary: Option<u64>,
    /// Resident bytes below its stack pointer; null: unknown.
    pub stack_resident_bytes: Option<u64>,
}

/// A process of the target, from /proc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LintProcess {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// Locked and resident bytes, or why they are unknown.
    pub locked: Result<(u64, u64), String>,
    /// RLIMIT_RTTIME in microseconds; `None`: unlimited.
    pub runtime_limit: Result<Option<u64>, String>,
    /// RLIMIT_MEMLOCK in bytes where it applies; `None`: unlimited, or CAP_IPC_LOCK.
    pub memlock_limit: Result<Option<u64>, String>,
    /// The size of its address space in bytes.
    pub size: Result<u64, String>,
    /// Why its stacks and open files are hidden; `None`: they are not.
    pub hidden: Option<String>,
}

/// All that is known of a program that was watched.
#[derive(Clone, Debug, Default)]
pub struct LintFacts {
    /// The target, as the user named it.
    pub target: String,
    /// How long it was watched.
    pub duration: Nanos,
    /// How long system calls were traced.
    pub calls_traced: Nanos,
    /// How acts were collected.
    pub source: Option<LintSource>,
    /// Acts that could not be seen, with the reason.
    pub unseen: Vec<(ActKind, String)>,
    /// What was seen.
    pub acts: Vec<PlacedAct>,
    /// Number of times a watched thread left its CPU.
    pub switches: u64,
    /// Acts that were not counted.
    pub lost: u64,
    /// Its real-time threads.
    pub threads: Vec<LintThread>,
    /// Its processes.
    pub processes: Vec<LintProcess>,
    /// What else the reader has to know.
    pub notes: Vec<String>,
}

/// How acts were collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LintSource {
    /// Programs in the kernel.
    Bpf,
    /// The kernel's trace events, read and counted by the program.
    Events,
}

/// The state of a rule.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum RuleState {
    /// It was violated.
    Violated,
    /// What is needed to judge it could not be seen.
    Unknown,
    /// No violation was seen.
    Clean,
}

/// Where a rule was violated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Violation {
    /// The process or thread.
    pub tid: u32,
    /// Its name.
    pub comm: String,
    /// What it did: `clock_nanosleep(CLOCK_REALTIME)`.
    pub what: String,
    /// How often.
    pub count: u64,
    /// The longest, where it has a length.
    pub worst_ns: Option<Nanos>,
    /// The call site, the innermost first.
    pub frames: Vec<Frame>,
    /// Why there are no frames, or fewer.
    pub frames_unknown: Option<String>,
}

/// One rule and what was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleResult {
    /// Its name: `page-fault`.
    pub id: String,
    /// What the rule is about.
    pub title: String,
    /// Its state.
    pub state: RuleState,
    /// How much a violation matters.
    pub severity: Severity,
    /// Why it is unknown.
    pub unknown: Option<String>,
    /// How often it was violated.
    pub count: u64,
    /// The longest violation, where they have a length.
    pub worst_ns: Option<Nanos>,
    /// Where, the most frequent first.
    pub violations: Vec<Violation>,
    /// Why it costs latency.
    pub why: String,
    /// Where that is said.
    pub source: String,
    /// What to do instead.
    pub remedy: String,
}

/// What `lint` found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LintReport {
    /// [`LINT_SCHEMA`].
    pub schema: u32,
    /// The program that judged.
    pub program: String,
    /// The target: `pid 1234`.
    pub target: String,
    /// How long it was watched.
    pub duration_ns: Nanos,
    /// How long system calls were traced.
    pub calls_traced_ns: Nanos,
    /// How acts were collected; null: not at all.
    pub source: Option<LintSource>,
    /// Its real-time threads.
    pub threads: Vec<LintThread>,
    /// Each rule, what matters first.
    pub rules: Vec<RuleResult>,
    /// What else the reader has to know.
    pub notes: Vec<String>,
}

impl LintReport {
    /// How many rules are in a state.
    pub fn count(&self, state: RuleState) -> usize {
        self.rules.iter().filter(|rule| rule.state == state).count()
    }

    /// Whether a rule of high severity is in a state.
    pub fn has_grave(&self, state: RuleState) -> bool {
        let mut rules = self.rules.iter();
        rules.any(|rule| rule.state == state && rule.severity >= Severity::High)
    }
}
