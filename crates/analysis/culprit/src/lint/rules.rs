//! The rules, one row each.

use punctual_model::{ActKind, LintFacts, PlacedAct, Severity};

use super::calls;
use super::process::{self, Found};
use super::waits::{self, Threads};

/// Source of a rule's violations.
#[derive(Clone, Copy)]
pub(crate) enum Finds {
    /// Acts of these kinds that match.
    Acts(&'static [ActKind], fn(&PlacedAct, &Threads) -> bool),
    /// The state of processes and threads.
    State(fn(&LintFacts) -> Found),
}

/// A rule for real-time threads.
#[derive(Clone, Copy)]
pub struct Rule {
    /// ID of the rule: `page-fault`.
    pub id: &'static str,
    /// Description of a violation.
    pub title: &'static str,
    /// Severity of a violation.
    pub severity: Severity,
    /// Reason why a violation costs latency.
    pub why: &'static str,
    /// Documentation that supports the rule.
    pub source: &'static str,
    /// Recommended alternative.
    pub remedy: &'static str,
    /// Data source that detects violations.
    pub hook: &'static str,
    pub(crate) finds: Finds,
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rule")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

const RTAPP: &str = "kernel: Documentation/trace/rv/monitor_rtapp.rst";

/// All rules, in the order of the page.
pub const RULES: &[Rule] = &[
    Rule {
        id: "page-fault",
        title: "page fault",
        severity: Severity::High,
        why: "The thread waits while the kernel finds, zeroes or reads the page. A minor fault \
              takes microseconds; reading a page from disk takes milliseconds. The thread may also \
              wait for the lock of the address space.",
        source: "kernel: Documentation/trace/rv/monitor_rtapp.rst (pagefault); mlockall(2)",
        remedy: "Call mlockall(MCL_CURRENT | MCL_FUTURE) at the start, and touch all memory and \
                 stack before the loop begins.",
        hook: "exceptions:page_fault_user, exceptions:page_fault_kernel",
        finds: Finds::Acts(&[ActKind::Fault, ActKind::Sleep], waits::is_fault),
    },
    Rule {
        id: "sleep-relative",
        title: "relative sleep",
        severity: Severity::Medium,
        why: "The run time of the work and each preemption lengthen the period. Release times \
              therefore drift, and a late wake-up delays all later wake-ups.",
        source: "kernel: Documentation/trace/rv/monitor_rtapp.rst (sleep); clock_nanosleep(2)",
        remedy: "Use clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME) with the next release time.",
        hook: "sched:sched_switch with the system call of the thread",
        finds: Finds::Acts(&[ActKind::Sleep], waits::is_relative_sleep),
    },
    Rule {
        id: "sleep-clock",
        title: "sleep on a clock that can be set",
        severity: Severity::High,
        why: "If NTP or date steps the clock, the release time moves by the size of the step. The \
              thread then misses periods, or runs many periods at once.",
        source: "kernel: Documentation/trace/rv/monitor_rtapp.rst (sleep); clock_gettime(2)",
        remedy: "Use CLOCK_MONOTONIC or CLOCK_TAI for periods.",
        hook: "sched:sched_switch with the system call of the thread, signal:signal_deliver, the \
               files /proc/PID/fdinfo/FD and /proc/PID/timers",
        finds: Finds::Acts(
            &[ActKind::Sleep, ActKind::Signal],
            waits::is_clock_that_can_be_set,
        ),
    },
    Rule {
        id: "futex-no-inheritance",
        title: "wait on a lock or condition without priority inheritance",
        severity: Severity::High,
        why: "Any thread with a priority between those of the owner and the waiter can preempt the \
              owner, so the wait has no bound.",
        source: "kernel: Documentation/locking/rt-mutex.rst; pthread_mutexattr_setprotocol(3)",
        remedy: "Use PTHREAD_PRIO_INHERIT mutexes (pthread_mutexattr_setprotocol). The locks and \
                 conditions of C++, Rust, Go and Java have no priority inheritance: keep them out \
                 of the loop.",
        hook: "sched:sched_switch with the system call of the thread",
        finds: Finds::Acts(&[ActKind::Sleep], waits::is_futex_without_inheritance),
    },
    Rule {
        id: "condition-variable",
        title: "wait on a condition variable of the C library",
        severity: Severity::High,
        why: "The condition variable has an internal lock without priority inheritance, which the \
              waking thread also takes. Any thread with a priority between those two can preempt \
              its owner.",
        source: "kernel: Documentation/locking/rt-mutex.rst; futex(2) (FUTEX_WAIT_REQUEUE_PI)",
        remedy: "Use a condition variable based on FUTEX_WAIT_REQUEUE_PI (librtpi or the crate \
                 rt), or wait for a timer, and poll for the data.",
        hook: "sched:sched_switch with the system call of the thread and its callers",
        finds: Finds::Acts(&[ActKind::Sleep], waits::is_wait_on_condition),
    },
    Rule {
        id: "blocking-call",
        title: "wait in a system call other than the release wait",
        severity: Severity::High,
        why: "The duration of the call depends on a device, another process or the network.",
        source: RTAPP,
        remedy: "Move the call to a thread of normal priority, and pass the data through memory. \
                 Use epoll only for the release wait.",
        hook: "sched:sched_switch with the system call of the thread",
        finds: Finds::Acts(&[ActKind::Sleep], waits::is_other_wait),
    },
    Rule {
        id: "woken-by-lower",
        title: "wake-up by a thread of lower priority",
        severity: Severity::High,
        why: "The thread cannot run before its waker has run, so anything that preempts the waker \
              delays both threads.",
        source: "kernel: Documentation/trace/rv/monitor_rtapp.rst (wakeup)",
        remedy: "Give the waker at least the priority of the woken thread, or wait for a timer \
                 instead, and poll for the data.",
        hook: "sched:sched_waking",
        finds: Finds::Acts(&[ActKind::WokenByThread], waits::any),
    },
    Rule {
        id: "woken-by-softirq",
        title: "wake-up by a softirq",
        severity: Severity::Medium,
        why: "A softirq runs after all softirqs that were raised before it. On PREEMPT_RT, it runs \
              in a thread of normal priority. Network traffic therefore delays the wake-up.",
        source: "kernel: Documentation/trace/rv/monitor_rtapp.rst (wakeup)",
        remedy: "Raise the priority of the thread that runs the softirq, or wait for a timer that \
                 expires in the hard interrupt, such as clock_nanosleep in a real-time thread.",
        hook: "sched:sched_waking, irq:softirq_entry",
        finds: Finds::Acts(&[ActKind::WokenBySoftirq], waits::any),
    },
    Rule {
        id: "priority-inversion",
        title: "wait for a lock held by a thread of lower priority",
        severity: Severity::Medium,
        why: "Priority inheritance limits the wait to the owner's critical section, but nothing \
              limits the length of that section.",
        source: "kernel: Documentation/locking/rt-mutex-design.rst",
        remedy: "Shorten the critical section of the other thread, or share the data without a lock.",
        hook: "sched:sched_pi_setprio",
        finds: Finds::Acts(&[ActKind::Inherit], waits::any),
    },
    Rule {
        id: "kernel-lock",
        title: "wait for a kernel lock",
        severity: Severity::Medium,
        why: "The kernel's mutexes and semaphores have no priority inheritance, and a thread of \
              any priority can hold the lock.",
        source: "kernel: Documentation/locking/locktypes.rst",
        remedy: "Avoid the system call in the loop. Each mmap, munmap and page fault of any thread \
                 of the process takes the lock of the address space.",
        hook: "lock:contention_begin, lock:contention_end",
        finds: Finds::Acts(&[ActKind::KernelLock], waits::any),
    },
    Rule {
        id: "memory-call",
        title: "memory requested from the kernel",
        severity: Severity::High,
        why: "The call takes the lock of the address space, which other threads hold during page \
              faults. In addition, the first access to new memory causes page faults.",
        source: "kernel: Documentation/trace/rv/monitor_rtapp.rst (pagefault); mallopt(3)",
        remedy: "Allocate all memory before the loop. mallopt(M_TRIM_THRESHOLD, -1) and \
                 mallopt(M_MMAP_MAX, 0) keep freed memory in the process.",
        hook: "raw_syscalls:sys_enter, for a part of the time",
        finds: Finds::Acts(&[ActKind::Memory], waits::any),
    },
    Rule {
        id: "file-io",
        title: "file I/O",
        severity: Severity::High,
        why: "The call takes locks of the file system and of the file, which threads of any \
              priority can hold, and may allocate memory. It waits for the disk when the journal \
              is written or when too many pages are dirty.",
        source: "open(2), write(2), fsync(2); kernel: Documentation/locking/locktypes.rst, \
                 Documentation/admin-guide/sysctl/vm.rst (dirty_ratio)",
        remedy: "Pass the data through memory to a thread of normal priority that reads and writes \
                 the files. Open all files before the loop.",
        hook: "raw_syscalls:sys_enter, for a part of the time",
        finds: Finds::Acts(&[ActKind::File], calls::is_file_io),
    },
    Rule {
        id: "standard-output",
        title: "output to a pipe, socket or terminal",
        severity: Severity::Medium,
        why: "If the reader falls behind until the buffer is full, the thread waits for it. The \
              call also takes locks that the reader, of any priority, can hold.",
        source: "pipe(7) (capacity), tty(4)",
        remedy: "Pass messages through memory to a thread of normal priority that prints them.",
        hook: "raw_syscalls:sys_enter, for a part of the time",
        finds: Finds::Acts(&[ActKind::File], calls::is_standard_output),
    },
    Rule {
        id: "system-log",
        title: "message to the system log",
        severity: Severity::High,
        why: "The socket of the log has a short queue. If it is full, the thread waits until the \
              log daemon, a process of normal priority, has read messages.",
        source: "syslog(3), unix(7); kernel: Documentation/networking/ip-sysctl.rst \
                 (net.unix.max_dgram_qlen)",
        remedy: "Pass messages through memory to a thread of normal priority that logs them.",
        hook: "raw_syscalls:sys_enter, for a part of the time",
        finds: Finds::Acts(&[ActKind::File], calls::is_system_log),
    },
    Rule {
        id: "pipe-socket-device",
        title: "call on a pipe, socket or device",
        severity: Severity::Info,
        why: "A control loop may need such a call, but the duration of the call depends on the \
              driver, the network, or a lock that a thread of any priority can hold.",
        source: "pipe(7), socket(7); kernel: Documentation/locking/locktypes.rst",
        remedy: "Find out what the driver does during the call, and measure the call in the loop. \
                 Between threads, pass data through memory.",
        hook: "raw_syscalls:sys_enter, for a part of the time",
        finds: Finds::Acts(&[ActKind::File], calls::is_other_io),
    },
    Rule {
        id: "migration",
        title: "migration to another CPU",
        severity: Severity::Medium,
        why: "Caches are cold on the other CPU, and the scheduler takes locks to migrate the \
              thread.",
        source: "sched(7); kernel: Documentation/scheduler/sched-rt-group.rst",
        remedy: "Pin the thread to one CPU with pthread_setaffinity_np(3) or taskset(1).",
        hook: "sched:sched_migrate_task",
        finds: Finds::Acts(&[ActKind::Migrate], waits::is_avoidable_migration),
    },
    Rule {
        id: "deadline-migration",
        title: "migration of a SCHED_DEADLINE thread",
        severity: Severity::Info,
        why: "Caches are cold on the other CPU. The migration itself is part of the policy: the \
              scheduler runs the earliest deadlines on all CPUs of a root domain.",
        source: "kernel: Documentation/scheduler/sched-deadline.rst (Tasks CPU affinity)",
        remedy: "Do not call sched_setaffinity(2), which fails with EBUSY if the CPUs are fewer \
                 than those of the root domain. If the migrations cost too much, run the thread \
                 in a cpuset partition that has one CPU (cpuset.cpus.partition).",
        hook: "sched:sched_migrate_task",
        finds: Finds::Acts(&[ActKind::Migrate], waits::is_deadline_migration),
    },
    Rule {
        id: "cpu-of-other",
        title: "wait of at least 100 µs for the CPU of another real-time thread",
        severity: Severity::Medium,
        why: "More real-time threads of the target were runnable than CPUs that they may use, so \
              the response time of the thread contains the run time of the others.",
        source: "sched(7); kernel: Documentation/scheduler/sched-rt-group.rst",
        remedy: "Allow more CPUs, distribute the threads over the CPUs, or start their periods at \
                 different times. If the wait is intended, check that it fits into the period.",
        hook: "sched:sched_switch, sched:sched_waking",
        finds: Finds::Acts(&[ActKind::Queue], waits::any),
    },
    Rule {
        id: "signal",
        title: "signal delivered",
        severity: Severity::Medium,
        why: "The handler can interrupt the thread at any point, and signal delivery takes locks \
              of the process.",
        source: "signal(7), signal-safety(7)",
        remedy: "Block signals in real-time threads (pthread_sigmask) and accept them in another \
                 thread (sigwaitinfo).",
        hook: "signal:signal_deliver",
        finds: Finds::Acts(&[ActKind::Signal], waits::is_other_signal),
    },
    Rule {
        id: "signal-timer",
        title: "signal as a timer",
        severity: Severity::Medium,
        why: "The kernel queues the signal under a lock of the process, and a handler can \
              interrupt the thread at any point. Any thread of the process that does not block \
              the signal can get it.",
        source: "timer_create(2), signal(7), signal-safety(7)",
        remedy: "Use clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME), or read a timerfd.",
        hook: "signal:signal_deliver, sched:sched_switch, the file /proc/PID/timers",
        finds: Finds::Acts(&[ActKind::Sleep, ActKind::Signal], waits::is_timer_signal),
    },
    Rule {
        id: "memory-not-locked",
        title: "memory not locked",
        severity: Severity::High,
        why: "The kernel may evict pages of the program and of its files. The next access to such \
              a page waits for the disk.",
        source: "mlockall(2)",
        remedy: "Call mlockall(MCL_CURRENT | MCL_FUTURE); it requires RLIMIT_MEMLOCK or \
                 CAP_IPC_LOCK.",
        hook: "VmLck and VmRSS in /proc/PID/status",
        finds: Finds::State(process::not_locked),
    },
    Rule {
        id: "refused-call",
        title: "refused call for a policy or locked memory",
        severity: Severity::High,
        why: "The program continues without the policy, the priority or the locked memory that it \
              asked for.",
        source: "sched_setscheduler(2), mlockall(2)",
        remedy: "Check the result of the call. Raise RLIMIT_RTPRIO and RLIMIT_MEMLOCK \
                 (LimitRTPRIO=, LimitMEMLOCK= in the systemd unit), or grant CAP_SYS_NICE and \
                 CAP_IPC_LOCK.",
        hook: "raw_syscalls:sys_exit, while system calls are traced",
        finds: Finds::State(process::refused_call),
    },
    Rule {
        id: "memlock-limit",
        title: "memory lock limit below the size of the process",
        severity: Severity::Medium,
        why: "After mlockall(MCL_FUTURE), an allocation that exceeds the limit fails.",
        source: "mlockall(2), limits.conf(5)",
        remedy: "Raise RLIMIT_MEMLOCK with LimitMEMLOCK=infinity in the systemd unit, or with \
                 memlock in limits.conf.",
        hook: "the files /proc/PID/limits and /proc/PID/status",
        finds: Finds::State(process::small_memlock_limit),
    },
    Rule {
        id: "stack-not-prefaulted",
        title: "stack not prefaulted",
        severity: Severity::Medium,
        why: "When calls nest deeper than before, they touch a new page of the stack, which causes \
              a page fault inside the loop.",
        source: "mlockall(2), NOTES",
        remedy: "Lock memory with MCL_FUTURE before you create threads, and touch 64 KiB of the \
                 stack at the start of each thread.",
        hook: "the files /proc/PID/task/TID/syscall and /proc/PID/smaps",
        finds: Finds::State(process::stack_not_prefaulted),
    },
    Rule {
        id: "priority-99",
        title: "priority 99",
        severity: Severity::Medium,
        why: "The kernel threads that all CPUs depend on (migration, watchdog) have priority 99 \
              and must wait for this thread.",
        source: "sched(7); kernel: Documentation/core-api/real-time/theory.rst",
        remedy: "Use a priority of at most 98; a priority above that of the interrupt threads \
                 (50) is usually enough.",
        hook: "the file /proc/PID/task/TID/stat",
        finds: Finds::State(process::priority_99),
    },
    Rule {
        id: "no-period",
        title: "real-time thread that never waits",
        severity: Severity::High,
        why: "A SCHED_FIFO thread that never waits starves all other threads on its CPU, \
              including kernel threads; throttling then stops it for 50 ms a second.",
        source: "sched(7); kernel: Documentation/scheduler/sched-rt-group.rst",
        remedy: "Wait for the next period in each cycle, or isolate the CPU and disable throttling \
                 on purpose.",
        hook: "the files /proc/PID/task/TID/stat and /proc/PID/task/TID/status",
        finds: Finds::State(process::never_waits),
    },
    Rule {
        id: "no-runtime-limit",
        title: "no limit on the CPU time between waits",
        severity: Severity::Info,
        why: "A thread that loops by mistake occupies its CPU until it is killed or the machine \
              is reset.",
        source: "getrlimit(2) (RLIMIT_RTTIME)",
        remedy: "Set RLIMIT_RTTIME (LimitRTTIME= in the systemd unit). The kernel sends SIGXCPU at \
                 the limit.",
        hook: "the file /proc/PID/limits",
        finds: Finds::State(process::no_runtime_limit),
    },
];
