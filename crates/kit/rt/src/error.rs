//! Errors: what Linux refused, why, and how to get the permission.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::{Clock, GpioError, Limit, PolicyKind, Starved, ThreadRef};

/// Errors of this crate. Use [`Error::is_privilege`] to tell missing permissions from other errors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `sched_setattr(2)`: EPERM for SCHED_FIFO or SCHED_RR.
    #[error(
        "{policy} with priority {priority} was refused (EPERM): {}",
        real_time_advice(*priority, *limit, *capable)
    )]
    RealTimeRefused {
        /// The requested policy.
        policy: PolicyKind,
        /// The requested priority.
        priority: u8,
        /// Current RLIMIT_RTPRIO: the highest priority allowed without the capability.
        limit: Limit,
        /// Whether CAP_SYS_NICE is effective for the caller.
        capable: bool,
    },
    /// `sched_setattr(2)`: EPERM for SCHED_DEADLINE.
    #[error("SCHED_DEADLINE was refused (EPERM): {}", deadline_advice(*capable))]
    DeadlineRefused {
        /// Whether CAP_SYS_NICE is effective for the caller.
        capable: bool,
    },
    /// `sched_setattr(2)`: EPERM for SCHED_OTHER, SCHED_BATCH or SCHED_IDLE.
    #[error(
        "{policy} with nice value {nice} was refused (EPERM): {}",
        nice_advice(*nice, *limit, *capable)
    )]
    NiceRefused {
        /// The requested policy.
        policy: PolicyKind,
        /// The requested nice value.
        nice: i32,
        /// Current RLIMIT_NICE: the lowest nice value allowed without the capability is 20 minus
        /// this.
        limit: Limit,
        /// Whether CAP_SYS_NICE is effective for the caller.
        capable: bool,
    },
    /// `sched_setattr(2)`: EBUSY. The bandwidth did not pass the kernel's admission test.
    #[error(
        "SCHED_DEADLINE with runtime {runtime:?}, deadline {deadline:?}, period {period:?} was \
         refused (EBUSY): the CPUs' bandwidth for deadline threads is exhausted. Request a \
         smaller runtime or a longer period, end other deadline threads, or increase \
         /proc/sys/kernel/sched_rt_runtime_us"
    )]
    DeadlineOverbooked {
        /// CPU time requested per period.
        runtime: Duration,
        /// Deadline within the period.
        deadline: Duration,
        /// The period.
        period: Duration,
    },
    /// Deadline parameters that contradict each other or are outside the accepted range
    /// (`sched(7)`).
    #[error(
        "SCHED_DEADLINE does not accept runtime {runtime:?}, deadline {deadline:?}, period \
         {period:?}: the values must satisfy 1024 ns <= runtime <= deadline <= period, and the \
         period must be between /proc/sys/kernel/sched_deadline_period_min_us and \
         sched_deadline_period_max_us (100 us to about 4.2 s by default)"
    )]
    DeadlineInvalid {
        /// CPU time requested per period.
        runtime: Duration,
        /// Deadline within the period.
        deadline: Duration,
        /// The period.
        period: Duration,
    },
    /// A priority outside the range of the policy.
    #[error("the priorities of {policy} are {min} to {max}, not {priority}")]
    PriorityOutOfRange {
        /// The requested policy.
        policy: PolicyKind,
        /// The requested priority.
        priority: u8,
        /// Lowest priority, from `sched_get_priority_min(2)`.
        min: u8,
        /// Highest priority, from `sched_get_priority_max(2)`.
        max: u8,
    },
    /// A nice value outside -20 to 19.
    #[error("nice value {nice} is out of range: nice values are -20 (highest priority) to 19")]
    NiceOutOfRange {
        /// The requested value.
        nice: i32,
    },
    /// A thread has a policy that this crate does not support, such as SCHED_EXT.
    #[error("{thread} has scheduling policy number {number}, which this program does not support")]
    PolicyUnknown {
        /// The thread.
        thread: ThreadRef,
        /// The policy number (`include/uapi/linux/sched.h`).
        number: u32,
    },
    /// ESRCH: the thread has ended or never existed.
    #[error("{thread} does not exist or has ended")]
    NoSuchThread {
        /// The thread.
        thread: ThreadRef,
    },

    /// An empty CPU list.
    #[error("a thread needs at least one CPU to run on, but the list of CPUs is empty")]
    NoCpus,
    /// A CPU that this machine does not have.
    #[error("CPU {cpu} does not exist: this machine has CPUs {possible}")]
    CpuNotThere {
        /// The requested CPU.
        cpu: u32,
        /// The CPUs of the machine, in the kernel's list format.
        possible: String,
    },
    /// An offline CPU.
    #[error(
        "CPU {cpu} is offline (CPUs {online} are online): write 1 to \
         /sys/devices/system/cpu/cpu{cpu}/online, or choose another CPU"
    )]
    CpuOffline {
        /// The requested CPU.
        cpu: u32,
        /// The online CPUs, in the kernel's list format.
        online: String,
    },
    /// A CPU outside the cpuset of the control group.
    #[error(
        "CPU {cpu} is outside the cpuset of {thread} (of the requested CPUs, the cpuset allows \
         {granted}): change cpuset.cpus of its control group, AllowedCPUs= of its systemd unit, \
         or --cpuset-cpus of its container"
    )]
    CpuOutsideCpuset {
        /// The requested CPU.
        cpu: u32,
        /// The thread whose affinity was to be set.
        thread: ThreadRef,
        /// The requested CPUs that the thread got, in the kernel's list format; "none" if there are
        /// none.
        granted: String,
    },
    /// EPERM: the thread belongs to another user.
    #[error(
        "the affinity of {thread} may not be changed (EPERM): the thread belongs to another user, \
         so the change needs CAP_SYS_NICE: use sudo, or AmbientCapabilities=CAP_SYS_NICE in the \
         systemd unit"
    )]
    AffinityRefused {
        /// The thread.
        thread: ThreadRef,
    },
    /// EBUSY: a deadline thread cannot be pinned.
    #[error(
        "the affinity of {thread} was refused (EBUSY): a SCHED_DEADLINE thread must be allowed on \
         every CPU of its root domain; use an exclusive cpuset to confine it"
    )]
    AffinityOfDeadlineThread {
        /// The thread.
        thread: ThreadRef,
    },

    /// `mlock(2)`, `mlockall(2)`: EPERM, ENOMEM or EAGAIN without
    /// CAP_IPC_LOCK.
    #[error(
        "{what} could not be locked in RAM ({source}): without CAP_IPC_LOCK, a process may lock \
         at most RLIMIT_MEMLOCK bytes (now {limit}). To raise the limit, add the line '@realtime \
         - memlock unlimited' to /etc/security/limits.conf and log in again, or set \
         LimitMEMLOCK=infinity in the systemd unit. To grant the capability, run setcap \
         cap_ipc_lock+ep BINARY"
    )]
    MemoryLockRefused {
        /// The memory to lock.
        what: String,
        /// Current RLIMIT_MEMLOCK, in bytes.
        limit: Limit,
        /// The system error.
        source: io::Error,
    },
    /// A buffer that is empty or larger than the address space.
    #[error("a locked buffer of {bytes} bytes cannot be created")]
    BufferSize {
        /// The requested size.
        bytes: usize,
    },
    /// The number of bytes to prefault exceeds the rest of the thread's stack.
    #[error(
        "{asked} bytes of stack cannot be prefaulted: this thread has only {available} bytes \
         left. Give the thread a larger stack (ThreadBuilder::stack_size; ulimit -s for the main \
         thread)"
    )]
    StackTooSmall {
        /// Requested bytes.
        asked: usize,
        /// Available bytes.
        available: usize,
    },

    /// A thread name with a zero byte in it.
    #[error("the thread name {name:?} contains a zero byte")]
    ThreadName {
        /// The name.
        name: String,
    },
    /// `pthread_create(3)` failed.
    #[error(
        "thread '{name}' could not be started: {source}{}",
        spawn_advice(source)
    )]
    SpawnFailed {
        /// Name of the thread.
        name: String,
        /// The system error.
        source: io::Error,
    },
    /// The thread got no CPU time while it was started.
    #[error("{0}. Use other CPUs or a higher priority, or end that work")]
    ThreadStarved(Starved),
    /// The thread's function panicked.
    #[error("thread '{name}' panicked: {message}")]
    ThreadPanicked {
        /// Name of the thread.
        name: String,
        /// The panic message.
        message: String,
    },

    /// A clock that this kind of wait does not support.
    #[error("{wait} cannot wait on {clock}: use CLOCK_MONOTONIC")]
    ClockUnsupported {
        /// The requested clock.
        clock: Clock,
        /// The system call.
        wait: &'static str,
    },
    /// A periodic timer without a period.
    #[error("a periodic timer needs an interval of at least 1 ns, not 0")]
    IntervalZero,
    /// A second [`crate::SignalTimer`] in one thread.
    #[error("this thread already has a SignalTimer, and a thread can wait for only one")]
    SignalTimerInUse,
    /// Another part of the program handles the signal for interrupts.
    #[error(
        "signal {signal} is already handled by another part of this program, so it cannot be used \
         to interrupt threads"
    )]
    SignalTaken {
        /// The signal number.
        signal: i32,
    },
    /// [`crate::interrupt::interrupt`] was called before the handler was installed: the signal
    /// would kill the process.
    #[error("call install_interrupt_handler() before you interrupt a thread")]
    NoInterruptHandler,

    /// Opening the PM QoS file: EACCES or EPERM.
    #[error(
        "{} may not be opened for writing ({source}), because it belongs to root. Assign it to a \
         group with a udev rule (KERNEL==\"cpu_dma_latency\", GROUP=\"realtime\", MODE=\"0660\"), \
         or run as root",
        path.display()
    )]
    DmaLatencyRefused {
        /// The file.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// Opening the PM QoS file: ENOENT.
    #[error(
        "{} does not exist: the kernel has no PM QoS for CPU latency, or the container does not \
         show \
         it",
        path.display()
    )]
    DmaLatencyAbsent {
        /// The file.
        path: PathBuf,
    },
    /// A negative number of microseconds, which the kernel treats as "no request".
    #[error("a CPU latency limit must be at least 0 microseconds, not {micros}")]
    DmaLatencyNegative {
        /// The requested limit.
        micros: i32,
    },

    /// Opening a PTP hardware clock: ENOENT.
    #[error(
        "{} does not exist: use the path of a PTP hardware clock, such as /dev/ptp0 (`ethtool -T \
         DEVICE` shows the number of a network card's clock)",
        path.display()
    )]
    PtpAbsent {
        /// The file.
        path: PathBuf,
    },
    /// Opening a PTP hardware clock: EACCES or EPERM.
    #[error(
        "{} may not be opened for reading ({source}), because it belongs to root. Assign it to a \
         group with a udev rule (SUBSYSTEM==\"ptp\", GROUP=\"realtime\", MODE=\"0640\"), or run as \
         root",
        path.display()
    )]
    PtpRefused {
        /// The file.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The file is not a PTP hardware clock.
    #[error("{} is not a PTP clock ({source}): use a file such as /dev/ptp0", path.display())]
    PtpNoClock {
        /// The file.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },

    /// A GPIO chip or line cannot be used.
    #[error(transparent)]
    Gpio(Box<GpioError>),

    /// This kernel, architecture or program does not support the requested feature.
    #[error("{what} is not supported here: {why}")]
    NotSupported {
        /// The requested feature.
        what: &'static str,
        /// What is missing.
        why: &'static str,
    },
    /// Any other system call error.
    #[error("{call} failed for {what}: {source}")]
    Os {
        /// The system call.
        call: &'static str,
        /// The target of the call.
        what: String,
        /// The system error.
        source: io::Error,
    },
}

impl Error {
    /// Returns whether a capability, a resource limit or a file permission would solve the problem.
    /// The message then names it and how to get it.
    pub fn is_privilege(&self) -> bool {
        if let Self::Gpio(error) = self {
            return matches!(**error, GpioError::Refused { .. });
        }
        matches!(
            self,
            Self::RealTimeRefused { .. }
                | Self::DeadlineRefused { .. }
                | Self::NiceRefused { .. }
                | Self::AffinityRefused { .. }
                | Self::MemoryLockRefused { .. }
                | Self::DmaLatencyRefused { .. }
                | Self::PtpRefused { .. }
        )
    }

    pub(crate) fn os(call: &'static str, what: impl Into<String>, source: io::Error) -> Self {
        Self::Os {
            call,
            what: what.into(),
            source,
        }
    }
}

/// In a box, because every function of this crate returns an [`Error`], and so a small one.
impl From<GpioError> for Error {
    fn from(error: GpioError) -> Self {
        Self::Gpio(Box::new(error))
    }
}

/// The text if CAP_SYS_NICE is effective but the kernel still refuses.
const NICE_ALL_THE_SAME: &str = "this thread has CAP_SYS_NICE, so the cause is its environment: a \
     user namespace (in a rootless container, the capability must be held outside of it), or a \
     seccomp filter";

fn real_time_advice(priority: u8, limit: Limit, capable: bool) -> String {
    let group = "a control group without real-time runtime (kernels with CONFIG_RT_GROUP_SCHED, \
                 cpu.rt_runtime_us = 0) refuses even root";
    let allowed = limit.0.is_none_or(|limit| limit >= u64::from(priority));
    if capable {
        return format!("{NICE_ALL_THE_SAME}; and {group}");
    }
    if allowed {
        return format!(
            "RLIMIT_RTPRIO is {limit} and would allow this priority, so either the thread belongs \
             to another user (which requires CAP_SYS_NICE), or the cause is its control group: \
             {group}"
        );
    }
    format!(
        "it needs CAP_SYS_NICE, or RLIMIT_RTPRIO of at least {priority} (now {limit}). To raise \
         the limit, add the line '@realtime - rtprio {priority}' to /etc/security/limits.conf and \
         log in again, or set LimitRTPRIO={priority} in the systemd unit. To grant the \
         capability, run setcap cap_sys_nice+ep BINARY, and let only a trusted group run the \
         binary (mode 0750). Also, {group}"
    )
}

fn deadline_advice(capable: bool) -> String {
    let affinity = "a deadline thread may not have an affinity that is a proper subset of its root \
                    domain (give it all CPUs, or confine it with an exclusive cpuset), and \
                    /proc/sys/kernel/sched_rt_runtime_us must not be 0";
    if capable {
        format!("{affinity}. If neither is the cause: {NICE_ALL_THE_SAME}")
    } else {
        format!(
            "it needs CAP_SYS_NICE (no resource limit allows it). To grant the capability, run \
             setcap cap_sys_nice+ep BINARY and let only a trusted group run the binary (mode \
             0750), or set AmbientCapabilities=CAP_SYS_NICE in the systemd unit. Also, {affinity}"
        )
    }
}

fn nice_advice(nice: i32, limit: Limit, capable: bool) -> String {
    if capable {
        return NICE_ALL_THE_SAME.to_owned();
    }
    let needed = 20 - nice;
    format!(
        "a thread may raise its nice value but not lower it, unless it has CAP_SYS_NICE or \
         RLIMIT_NICE of at least {needed} (now {limit}). To raise the limit, add the line \
         '@realtime - nice {nice}' to /etc/security/limits.conf and log in again, or set \
         LimitNICE={nice} in the systemd unit. To grant the capability, run setcap \
         cap_sys_nice+ep BINARY"
    )
}

fn spawn_advice(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EAGAIN) => {
            ". The cause is either too many threads (RLIMIT_NPROC, ulimit -u; pids.max of the \
             control group), too little memory for its stack (with locked memory also \
             RLIMIT_MEMLOCK), or the spawning thread has the policy SCHED_DEADLINE, which does \
             not allow it to start threads"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_right_limit_and_ways() {
        let error = Error::RealTimeRefused {
            policy: PolicyKind::Fifo,
            priority: 80,
            limit: Limit(Some(0)),
            capable: false,
        };
        let text = error.to_string();
        for part in [
            "SCHED_FIFO",
            "priority 80",
            "CAP_SYS_NICE",
            "RLIMIT_RTPRIO of at least 80 (now 0)",
            "limits.conf",
            "LimitRTPRIO=80",
            "setcap cap_sys_nice+ep BINARY",
            "CONFIG_RT_GROUP_SCHED",
        ] {
            assert!(text.contains(part), "'{part}' is not in: {text}");
        }
        assert!(error.is_privilege());
    }

    #[test]
    fn root_is_not_advised_to_gain_rights() {
        for limit in [Limit(Some(0)), Limit(None)] {
            let text = Error::RealTimeRefused {
                policy: PolicyKind::RoundRobin,
                priority: 1,
                limit,
                capable: true,
            }
            .to_string();
            assert!(!text.contains("setcap"), "{text}");
            assert!(text.contains("CONFIG_RT_GROUP_SCHED"), "{text}");
        }
        let text = Error::DeadlineRefused { capable: true }.to_string();
        assert!(!text.contains("setcap"), "{text}");
        assert!(text.contains("root domain"), "{text}");
    }

    #[test]
    fn sufficient_limit_points_to_control_group() {
        let text = real_time_advice(50, Limit(Some(99)), false);
        assert!(text.contains("RLIMIT_RTPRIO is 99"), "{text}");
        assert!(text.contains("cpu.rt_runtime_us"), "{text}");
    }

    #[test]
    fn nice_limits_count_from_twenty_down() {
        let text = nice_advice(-5, Limit(Some(0)), false);
        assert!(
            text.contains("RLIMIT_NICE of at least 25 (now 0)"),
            "{text}"
        );
    }

    #[test]
    fn wrong_value_is_no_missing_right() {
        assert!(!Error::NoCpus.is_privilege());
        assert!(!Error::NiceOutOfRange { nice: 40 }.is_privilege());
        assert!(!Error::IntervalZero.is_privilege());
    }
}
