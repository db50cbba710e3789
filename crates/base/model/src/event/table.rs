//! The trace events, one row for each kind.
//!
//! A row contains the fields, a description, and the kernel events that it is decoded from. Each
//! kernel event is listed with the information that it provides, its fields and its decoder.
//! `culprit` ignores events for which it has no rule.

use serde::{Deserialize, Serialize};

use super::row::{EventFields, EventLevel, EventNames, event_kinds};
use super::stack::{interrupted, stack_of};
use super::{
    Comm, KernelPriority, NoiseSource, Task, TaskState, Text, Vector, disk_name, softirq_name,
};
use crate::{Nanos, tick_dependencies};

const TASK: [&str; 3] = ["comm", "pid", "prio"];
const WAKE: [&str; 4] = ["comm", "pid", "prio", "target_cpu"];
const FAULT: [&str; 3] = ["address", "ip", "error_code"];
const CODE: [&str; 2] = ["caller_offs", "parent_offs"];

event_kinds! { names =>
    /// `sched:sched_switch`.
    Switch { prev: Task, prev_state: TaskState, next: Task }
    says format!("{} {}, {} runs ({})", prev.label(), left(*prev_state), next.label(), next.prio);
    <- SchedSwitch = "sched" "sched_switch", "which thread ran",
        ["prev_comm", "prev_pid", "prev_prio", "next_comm", "next_pid", "next_prio", "prev_state"],
        |f, _| Some(EventKind::Switch {
            prev: f.task(0)?,
            next: f.task(3)?,
            prev_state: TaskState(f.u32(6)?),
        });

    /// `sched:sched_waking`: written by the waker, on its CPU. `target_cpu` is the thread's
    /// previous CPU. Its next CPU is not known yet.
    Waking { task: Task, target_cpu: u32 }
    says format!("wakes {}", task.label());
    <- SchedWaking = "sched" "sched_waking", "which thread woke the thread, and when", WAKE,
        |f, _| Some(EventKind::Waking { task: f.task(0)?, target_cpu: f.u32(3)? });

    /// `sched:sched_wakeup`, and `sched:sched_wakeup_new` (`new`): the thread
    /// is on the run queue of `target_cpu`.
    Wakeup { task: Task, target_cpu: u32, new: bool }
    says format!("{} enqueued on CPU {target_cpu}", task.label());
    <- SchedWakeup = "sched" "sched_wakeup" .full(), "when the thread was queued", WAKE,
        |f, _| Some(EventKind::Wakeup { task: f.task(0)?, target_cpu: f.u32(3)?, new: false });
    <- SchedWakeupNew = "sched" "sched_wakeup_new" .full(), "when a new thread was queued", WAKE,
        |f, _| Some(EventKind::Wakeup { task: f.task(0)?, target_cpu: f.u32(3)?, new: true });

    /// `sched:sched_migrate_task`.
    Migrate { task: Task, orig_cpu: u32, dest_cpu: u32 }
    says format!("{} migrates from CPU {orig_cpu} to CPU {dest_cpu}", task.label());
    <- SchedMigrateTask = "sched" "sched_migrate_task", "migrations to another CPU",
        ["comm", "pid", "prio", "orig_cpu", "dest_cpu"],
        |f, _| Some(EventKind::Migrate {
            task: f.task(0)?,
            orig_cpu: f.u32(3)?,
            dest_cpu: f.u32(4)?,
        });

    /// `sched:sched_pi_setprio`: `task` inherits a priority, or loses it again. Its `prio` is the
    /// previous priority.
    PiSetprio { task: Task, newprio: KernelPriority }
    says format!("priority of {}: {} -> {newprio}", task.label(), task.prio);
    <- SchedPiSetprio = "sched" "sched_pi_setprio", "priority inheritance",
        ["comm", "pid", "oldprio", "newprio"],
        |f, _| Some(EventKind::PiSetprio { task: f.task(0)?, newprio: f.priority(3)? });

    /// `sched:sched_process_exit`.
    ProcessExit { task: Task }
    says format!("{} ends", task.label());
    <- SchedProcessExit = "sched" "sched_process_exit", "ends of threads", TASK,
        |f, _| Some(EventKind::ProcessExit { task: f.task(0)? });

    /// `irq:irq_handler_entry`.
    IrqEntry { irq: u32, name: Text }
    says format!("interrupt {name} ({irq}) begins");
    <- IrqHandlerEntry = "irq" "irq_handler_entry", "which interrupt ran", ["irq", "name"],
        |f, _| Some(EventKind::IrqEntry { irq: f.u32(0)?, name: f.text(1)? });

    /// `irq:irq_handler_exit`.
    IrqExit { irq: u32, ret: i32 }
    says format!("interrupt {irq} ends");
    <- IrqHandlerExit = "irq" "irq_handler_exit", "run time of an interrupt", ["irq", "ret"],
        |f, _| Some(EventKind::IrqExit { irq: f.u32(0)?, ret: f.i32(1)? });

    /// `irq:softirq_raise`.
    SoftirqRaise { vec: u32 }
    says format!("softirq {} raised", softirq_name(*vec));
    <- SoftirqRaise = "irq" "softirq_raise" .full(), "what raised a softirq", ["vec"],
        |f, _| Some(EventKind::SoftirqRaise { vec: f.u32(0)? });

    /// `irq:softirq_entry`.
    SoftirqEntry { vec: u32 }
    says format!("softirq {} begins", softirq_name(*vec));
    <- SoftirqEntry = "irq" "softirq_entry", "which softirq ran", ["vec"],
        |f, _| Some(EventKind::SoftirqEntry { vec: f.u32(0)? });

    /// `irq:softirq_exit`.
    SoftirqExit { vec: u32 }
    says format!("softirq {} ends", softirq_name(*vec));
    <- SoftirqExit = "irq" "softirq_exit", "run time of a softirq", ["vec"],
        |f, _| Some(EventKind::SoftirqExit { vec: f.u32(0)? });

    // Only on x86. On other architectures irq_handler_entry includes the timer interrupt.
    /// `irq_vectors:*_entry` (x86), `ipi:ipi_entry` (arm): an interrupt without a device handler.
    VectorEntry { vector: Vector }
    says format!("interrupt {} begins", vector.name());
    <- IrqVectorEntry = "irq_vectors" "*_entry" .quiet(), "start of the timer interrupt", [],
        |_, vector| Some(EventKind::VectorEntry { vector: vector.clone() });
    <- IpiEntry = "ipi" "ipi_entry" .same_as_before(), "start of a call from another CPU", [],
        |_, _| Some(EventKind::VectorEntry { vector: Vector::Other("ipi".into()) });

    /// `irq_vectors:*_exit` (x86), `ipi:ipi_exit` (arm).
    VectorExit { vector: Vector }
    says format!("interrupt {} ends", vector.name());
    <- IrqVectorExit = "irq_vectors" "*_exit" .quiet(), "end of the timer interrupt", [],
        |_, vector| Some(EventKind::VectorExit { vector: vector.clone() });
    <- IpiExit = "ipi" "ipi_exit" .same_as_before(), "end of a call from another CPU", [],
        |_, _| Some(EventKind::VectorExit { vector: Vector::Other("ipi".into()) });

    /// `nmi:nmi_handler`: written at the end of the handler, which took `delta`.
    NmiHandler {
        handler: u64,
        #[serde(rename = "delta_ns")]
        delta: Nanos,
        handled: i32,
    }
    says format!("NMI ends after {delta}");
    <- NmiHandler = "nmi" "nmi_handler" .quiet(), "non-maskable interrupts",
        ["handler", "delta_ns", "handled"],
        |f, _| Some(EventKind::NmiHandler {
            handler: f.u64(0)?,
            delta: f.nanos(1)?,
            handled: f.i32(2)?,
        });

    /// `timer:hrtimer_start`. `expires` is on the clock of the timer.
    HrtimerStart { hrtimer: u64, function: u64, expires_ns: i64, softexpires_ns: i64 }
    says {
        let slack = u64::try_from(expires_ns.saturating_sub(*softexpires_ns));
        format!("timer {} armed, slack {}", names.symbol(*function), Nanos(slack.unwrap_or(0)))
    };
    <- HrtimerStart = "timer" "hrtimer_start" .full(), "expiry time of a timer",
        ["hrtimer", "function", "expires", "softexpires"],
        |f, _| Some(EventKind::HrtimerStart {
            hrtimer: f.u64(0)?,
            function: f.u64(1)?,
            expires_ns: f.i64(2)?,
            softexpires_ns: f.i64(3)?,
        });

    /// `timer:hrtimer_cancel`.
    HrtimerCancel { hrtimer: u64 }
    says "timer cancelled";
    <- HrtimerCancel = "timer" "hrtimer_cancel" .full(), "cancelled timers", ["hrtimer"],
        |f, _| Some(EventKind::HrtimerCancel { hrtimer: f.u64(0)? });

    /// `timer:hrtimer_expire_entry`. `now` is on the clock of the timer.
    HrtimerExpireEntry { hrtimer: u64, function: u64, now_ns: i64 }
    says format!("timer {} expires", names.symbol(*function));
    <- HrtimerExpireEntry = "timer" "hrtimer_expire_entry" .full(), "expired timers",
        ["hrtimer", "function", "now"],
        |f, _| Some(EventKind::HrtimerExpireEntry {
            hrtimer: f.u64(0)?,
            function: f.u64(1)?,
            now_ns: f.i64(2)?,
        });

    /// `timer:hrtimer_expire_exit`.
    HrtimerExpireExit { hrtimer: u64 }
    says "timer function ends";
    <- HrtimerExpireExit = "timer" "hrtimer_expire_exit" .full(), "run time of a timer", ["hrtimer"],
        |f, _| Some(EventKind::HrtimerExpireExit { hrtimer: f.u64(0)? });

    /// `timer:timer_expire_entry`: a timer of the timer wheel, in softirq TIMER.
    TimerExpireEntry { timer: u64, function: u64 }
    says format!("timer {} expires (wheel)", names.symbol(*function));
    <- TimerExpireEntry = "timer" "timer_expire_entry" .full(), "timers run in softirq TIMER",
        ["timer", "function"],
        |f, _| Some(EventKind::TimerExpireEntry { timer: f.u64(0)?, function: f.u64(1)? });

    /// `timer:timer_expire_exit`.
    TimerExpireExit { timer: u64 }
    says "timer function ends";
    <- TimerExpireExit = "timer" "timer_expire_exit" .full(), "run time of timers in softirq TIMER",
        ["timer"],
        |f, _| Some(EventKind::TimerExpireExit { timer: f.u64(0)? });

    /// `power:cpu_idle` with a state: the CPU enters it.
    IdleEntry { state: u32, cpu_id: u32 }
    says format!("enters idle state {state}");
    <- CpuIdle = "power" "cpu_idle" .full(), "idle states of the CPU", ["state", "cpu_id"],
        |f, _| Some(match (f.u32(0)?, f.u32(1)?) {
            // PWR_EVENT_EXIT
            (u32::MAX, cpu_id) => EventKind::IdleExit { cpu_id },
            (state, cpu_id) => EventKind::IdleEntry { state, cpu_id },
        });

    /// `power:cpu_idle` with the state -1 (`PWR_EVENT_EXIT`): the CPU leaves idle.
    IdleExit { cpu_id: u32 }
    says "leaves idle";

    /// `workqueue:workqueue_execute_start`.
    WorkqueueStart { work: u64, function: u64 }
    says format!("work {} begins", names.symbol(*function));
    <- WorkqueueExecuteStart = "workqueue" "workqueue_execute_start" .full(), "work of a kworker",
        ["work", "function"],
        |f, _| Some(EventKind::WorkqueueStart { work: f.u64(0)?, function: f.u64(1)? });

    // Before Linux 5.8 it has no function field.
    /// `workqueue:workqueue_execute_end`.
    WorkqueueEnd { work: u64, function: u64 }
    says format!("work {} ends", names.symbol(*function));
    <- WorkqueueExecuteEnd = "workqueue" "workqueue_execute_end" .full() .quiet(),
        "run time of a kworker's work", ["work", "function"],
        |f, _| Some(EventKind::WorkqueueEnd { work: f.u64(0)?, function: f.u64(1)? });

    /// `exceptions:page_fault_user`: the current thread accessed `address`.
    PageFaultUser { address: u64, ip: u64, error_code: u64 }
    says format!("page fault at {address:#x}");
    <- PageFaultUser = "exceptions" "page_fault_user" .watched("common_pid") .quiet(),
        "page faults of the thread", FAULT,
        |f, _| Some(EventKind::PageFaultUser {
            address: f.u64(0)?,
            ip: f.u64(1)?,
            error_code: f.u64(2)?,
        });

    /// `exceptions:page_fault_kernel`.
    PageFaultKernel { address: u64, ip: u64, error_code: u64 }
    says format!("page fault in the kernel at {address:#x}");
    <- PageFaultKernel = "exceptions" "page_fault_kernel" .jobs("common_pid") .quiet(),
        "page faults in system calls", FAULT,
        |f, _| Some(EventKind::PageFaultKernel {
            address: f.u64(0)?,
            ip: f.u64(1)?,
            error_code: f.u64(2)?,
        });

    /// The kernel counts the page fault at `address` of the current thread as resolved, shortly
    /// before the fault returns.
    PageFaultEnd { address: u64 }
    says format!("end of page fault at {address:#x}");

    /// `ipi:ipi_send_cpu` and `ipi:ipi_send_cpumask`: the current thread interrupts other CPUs.
    /// `callback` is 0 if the target only has to reschedule.
    IpiSend {
        /// The targets; empty if unknown.
        #[serde(default)]
        cpus: Vec<u32>,
        callsite: u64,
        callback: u64,
    }
    says format!("IPI to {} from {}", ipi_targets(cpus), names.symbol(*callsite));
    <- IpiSendCpu = "ipi" "ipi_send_cpu" .quiet(), "the sender of an interrupt to another CPU",
        ["cpu", "callsite", "callback"],
        |f, _| Some(EventKind::IpiSend {
            cpus: vec![f.u32(0)?],
            callsite: f.u64(1)?,
            callback: f.u64(2)?,
        });
    <- IpiSendCpumask = "ipi" "ipi_send_cpumask" .same_as_before(),
        "the sender of an interrupt to several CPUs", ["cpumask", "callsite", "callback"],
        |f, _| Some(EventKind::IpiSend {
            cpus: f.cpus(0)?,
            callsite: f.u64(1)?,
            callback: f.u64(2)?,
        });

    /// `timer:tick_stop`: an attempt to stop the tick of the CPU. `dependency` is not 0 if the tick
    /// keeps running. Its bits are those of [`TICK_DEPENDENCIES`](crate::TICK_DEPENDENCIES).
    TickStop { success: bool, dependency: u32 }
    says match dependency {
        0 => "stops the tick".to_owned(),
        _ => format!("the tick goes on: {}", tick_dependencies(*dependency)),
    };
    <- TickStop = "timer" "tick_stop" .full(), "why the tick continues", ["success", "dependency"],
        |f, _| Some(EventKind::TickStop { success: f.u32(0)? != 0, dependency: f.u32(1)? });

    /// `preemptirq:irq_disable`. The fields are addresses, not offsets.
    IrqDisable { caller: u64, parent: u64 }
    says format!("interrupts disabled at {}", names.symbol(*caller));
    <- IrqDisable = "preemptirq" "irq_disable" .full() .quiet(), "where interrupts were disabled",
        CODE,
        |f, _| Some(EventKind::IrqDisable { caller: f.in_text(0)?, parent: f.in_text(1)? });

    /// `preemptirq:irq_enable`.
    IrqEnable { caller: u64, parent: u64 }
    says format!("interrupts enabled at {}", names.symbol(*caller));
    <- IrqEnable = "preemptirq" "irq_enable" .full() .quiet(), "where interrupts were enabled",
        CODE,
        |f, _| Some(EventKind::IrqEnable { caller: f.in_text(0)?, parent: f.in_text(1)? });

    /// `preemptirq:preempt_disable`.
    PreemptDisable { caller: u64, parent: u64 }
    says format!("preemption disabled at {}", names.symbol(*caller));
    <- PreemptDisable = "preemptirq" "preempt_disable" .full() .quiet(),
        "where preemption was disabled", CODE,
        |f, _| Some(EventKind::PreemptDisable { caller: f.in_text(0)?, parent: f.in_text(1)? });

    /// `preemptirq:preempt_enable`.
    PreemptEnable { caller: u64, parent: u64 }
    says format!("preemption enabled at {}", names.symbol(*caller));
    <- PreemptEnable = "preemptirq" "preempt_enable" .full() .quiet(),
        "where preemption was enabled", CODE,
        |f, _| Some(EventKind::PreemptEnable { caller: f.in_text(0)?, parent: f.in_text(1)? });

    // The fields differ between architectures, and none of them is needed.
    /// `kvm:kvm_entry`: the current thread begins to run the code of a virtual machine.
    KvmEntry {}
    says "enters guest mode";
    <- KvmEntry = "kvm" "kvm_entry" .full() .quiet(), "when a virtual CPU runs", [],
        |_, _| Some(EventKind::KvmEntry {});

    /// `kvm:kvm_exit`: the current thread returns from the code of a virtual machine.
    KvmExit {}
    says "leaves guest mode";
    <- KvmExit = "kvm" "kvm_exit" .full() .quiet(), "when a virtual CPU does not run", [],
        |_, _| Some(EventKind::KvmExit {});

    // Since Linux 5.19.
    /// `lock:contention_begin`: the current thread waits for a lock. Bits of `flags`: 0 spinlock, 1
    /// read, 2 write, 4 rt, 5 per CPU (`include/trace/events/lock.h`).
    ContentionBegin { lock_addr: u64, flags: u32 }
    says "waits for a kernel lock";
    <- ContentionBegin = "lock" "contention_begin" .full() .quiet(), "waits for a kernel lock",
        ["lock_addr", "flags"],
        |f, _| Some(EventKind::ContentionBegin { lock_addr: f.u64(0)?, flags: f.u32(1)? });

    /// `lock:contention_end`.
    ContentionEnd { lock_addr: u64, ret: i32 }
    says "acquires the kernel lock";
    <- ContentionEnd = "lock" "contention_end" .full() .quiet(),
        "duration of waits for a kernel lock", ["lock_addr", "ret"],
        |f, _| Some(EventKind::ContentionEnd { lock_addr: f.u64(0)?, ret: f.i32(1)? });

    /// `raw_syscalls:sys_enter`. `args` contains the first two arguments.
    SysEnter {
        id: i64,
        #[serde(default)]
        args: [u64; 2],
    }
    says format!("{} begins", names.call(*id));
    <- SysEnter = "raw_syscalls" "sys_enter" .jobs("common_pid") .quiet(),
        "system calls of a thread", ["id", "args"],
        |f, _| Some(EventKind::SysEnter {
            id: f.i64(0)?,
            args: [f.word(1, 0)?, f.word(1, 1).unwrap_or(0)],
        });

    /// `raw_syscalls:sys_exit`.
    SysExit { id: i64, ret: i64 }
    says format!("{} returns {ret}", names.call(*id));
    <- SysExit = "raw_syscalls" "sys_exit" .jobs("common_pid") .quiet(),
        "ends of system calls", ["id", "ret"],
        |f, _| Some(EventKind::SysExit { id: f.i64(0)?, ret: f.i64(1)? });

    /// The current thread calls clock_nanosleep(2) or nanosleep(2) until this time on
    /// CLOCK_MONOTONIC.
    SleepUntil {
        #[serde(rename = "until_ns")]
        until: Nanos,
    }
    says format!("sleeps until {until}");

    /// A timer that was `due` at this time on CLOCK_MONOTONIC wakes the thread `pid`. Because of timer
    /// slack, the kernel may expire it until `latest`. Written by BPF programs just before the wake-up.
    TimerDue {
        pid: u32,
        #[serde(rename = "due_ns")]
        due: Nanos,
        #[serde(rename = "latest_ns")]
        latest: Nanos,
    }
    says format!("a timer, due at {due}, wakes thread {pid}");

    /// The current thread calls futex(2) to lock a futex with priority inheritance, and the futex
    /// names its owner.
    FutexOwner { futex: u64, owner: u32 }
    says format!("futex {futex:#x} belongs to thread {owner}");

    /// A thread begins to sleep in this system call, as its registers show. Written by BPF programs
    /// just before the switch from the thread. `id` is -1 if it sleeps outside of system calls, in a
    /// page fault.
    SleepsIn { id: i64, args: [u64; 2] }
    says match *id {
        -1 => "sleeps outside of system calls".to_owned(),
        id => format!("sleeps in {}", names.call(id)),
    };

    /// `block:block_rq_issue`: a request goes to the device `dev`, in the kernel's internal form
    /// (major << 20 | minor).
    BlockIssue { dev: u32, sector: u64 }
    says format!("request to disk {}", disk_name(*dev));
    <- BlockRqIssue = "block" "block_rq_issue" .jobs("") .quiet(), "requests to disks",
        ["dev", "sector"],
        |f, _| Some(EventKind::BlockIssue { dev: f.u32(0)?, sector: f.u64(1)? });

    /// `block:block_rq_complete`.
    BlockComplete { dev: u32, sector: u64 }
    says format!("disk {} completes a request", disk_name(*dev));
    <- BlockRqComplete = "block" "block_rq_complete" .jobs("") .quiet(),
        "completed requests of disks", ["dev", "sector"],
        |f, _| Some(EventKind::BlockComplete { dev: f.u32(0)?, sector: f.u64(1)? });

    /// `ftrace:kernel_stack`: the kernel stack of the current thread at the previous event, the
    /// innermost function first.
    KernelStack { frames: Vec<u64> }
    says format!("kernel stack: {}", stack_of(frames, names));
    <- KernelStack = "ftrace" "kernel_stack" .jobs("") .triggered() .quiet(),
        "where in the kernel a thread blocked", ["size", "caller"],
        |f, _| Some(EventKind::KernelStack { frames: f.words(1, f.u32(0)? as usize)? });

    /// `signal:signal_generate`: a signal to `pid`.
    SignalGenerate { sig: u32, pid: u32, comm: Comm }
    says format!("signal {sig} to {comm}-{pid}");
    <- SignalGenerate = "signal" "signal_generate" .watched("pid"), "signals to the thread",
        ["sig", "pid", "comm"],
        |f, _| Some(EventKind::SignalGenerate {
            sig: f.u32(0)?,
            pid: f.u32(1)?,
            comm: f.comm(2)?,
        });

    /// `signal:signal_deliver`: a signal to the current thread.
    SignalDeliver { sig: u32 }
    says format!("receives signal {sig}");
    <- SignalDeliver = "signal" "signal_deliver" .full(), "delivered signals", ["sig"],
        |f, _| Some(EventKind::SignalDeliver { sig: f.u32(0)? });

    /// `osnoise:irq_noise`, `softirq_noise`, `thread_noise`, `nmi_noise`: written at the end of the
    /// noise. The duration excludes interruptions of this noise by other noise.
    Noise {
        source: NoiseSource,
        #[serde(rename = "start_ns")]
        start: Nanos,
        #[serde(rename = "duration_ns")]
        duration: Nanos,
    }
    says format!("noise of {duration}");
    <- IrqNoise = "osnoise" "irq_noise" .noise() .quiet(), "osnoise's times of interrupts",
        ["start", "duration", "vector", "desc"],
        |f, _| {
            let (vector, desc) = (f.i32(2)?, f.text(3)?);
            noise(f, NoiseSource::Irq { vector, desc })
        };
    <- SoftirqNoise = "osnoise" "softirq_noise" .noise() .quiet(), "osnoise's times of softirqs",
        ["start", "duration", "vector"],
        |f, _| {
            let vector = f.u32(2)?;
            noise(f, NoiseSource::Softirq { vector })
        };
    <- ThreadNoise = "osnoise" "thread_noise" .noise() .quiet(), "osnoise's times of threads",
        ["start", "duration", "pid", "comm"],
        |f, _| {
            let (pid, comm) = (f.u32(2)?, f.comm(3)?);
            noise(f, NoiseSource::Thread { pid, comm })
        };
    <- NmiNoise = "osnoise" "nmi_noise" .noise() .quiet(), "osnoise's times of NMIs",
        ["start", "duration"],
        |f, _| noise(f, NoiseSource::Nmi);

    /// `workqueue:workqueue_queue_work`: the work became pending. Written by the thread that queued
    /// it, or by the timer of a delayed work.
    WorkqueueQueue { work: u64, function: u64 }
    says format!("work {} queued", names.symbol(*function));
    <- WorkqueueQueueWork = "workqueue" "workqueue_queue_work" .full() .quiet(),
        "when work was queued", ["work", "function"],
        |f, _| Some(EventKind::WorkqueueQueue { work: f.u64(0)?, function: f.u64(1)? });

    /// `napi:napi_poll`: written at the end of a poll of a network device, which handled `work`
    /// packets.
    NapiPoll { dev_name: Text, work: i32, budget: i32 }
    says format!("poll of {dev_name}: {work} of {budget} packets");
    <- NapiPollEnd = "napi" "napi_poll" .full() .quiet(), "polls of network devices",
        ["dev_name", "work", "budget"],
        |f, _| Some(EventKind::NapiPoll {
            dev_name: f.text(0)?,
            work: f.i32(1)?,
            budget: f.i32(2)?,
        });

    /// A timer interrupt came `late`. Contains the kernel stack of the CPU, the innermost function
    /// first. It has no share in a blame.
    TimerLate {
        #[serde(rename = "late_ns")]
        late: Nanos,
        function: u64,
        frames: Vec<u64>,
    }
    says format!(
        "timer {} expires {late} late; {}",
        names.symbol(*function),
        interrupted(frames, names)
    );

    /// The kernel stack of the CPU at the time of a timerlat interrupt whose thread was late
    /// afterwards, the innermost function first. It has no share in a blame.
    TimerlatStack { frames: Vec<u64> }
    says format!("timerlat's interrupt came; {}", interrupted(frames, names));

    /// `task` was switched out to make way for a thread that had waited for the time `waited`.
    /// Contains its kernel stack. It has no share in a blame.
    SwitchedOut {
        task: Task,
        #[serde(rename = "waited_ns")]
        waited: Nanos,
        frames: Vec<u64>,
    }
    says format!("{} was switched out at: {}", task.label(), stack_of(frames, names));

    /// An event that the user requested, as `system:event`, with its fields as `name=value`. It has
    /// no share in a blame.
    Requested { name: Text, fields: String }
    says if fields.is_empty() {
        name.to_string()
    } else {
        format!("{name} {fields}")
    };

    /// `osnoise:sample_threshold`.
    SampleThreshold {
        #[serde(rename = "start_ns")]
        start: Nanos,
        #[serde(rename = "duration_ns")]
        duration: Nanos,
        interference: u64,
    }
    says format!("noise of {duration} in a sample");
    <- SampleThreshold = "osnoise" "sample_threshold" .noise() .quiet(),
        "noise above osnoise's threshold", ["start", "duration", "interference"],
        |f, _| Some(EventKind::SampleThreshold {
            start: f.nanos(0)?,
            duration: f.nanos(1)?,
            interference: f.u64(2)?,
        });
}

/// Formats the targets of an IPI: `CPU 3`, or `CPUs 1, 3`.
fn ipi_targets(cpus: &[u32]) -> String {
    match cpus {
        [] => "other CPUs".to_owned(),
        [cpu] => format!("CPU {cpu}"),
        cpus => {
            let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
            format!("CPUs {}", cpus.join(", "))
        }
    }
}

fn noise(f: &impl EventFields, source: NoiseSource) -> Option<EventKind> {
    Some(EventKind::Noise {
        source,
        start: f.nanos(0)?,
        duration: f.nanos(1)?,
    })
}

fn left(state: TaskState) -> &'static str {
    match () {
        () if state.is_runnable() => "preempted",
        () if state.is_exit() => "ends",
        () if state.is_stopped() || state.is_traced() => "is stopped",
        () => "sleeps",
    }
}
