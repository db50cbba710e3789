//! Advice for each kind of share.

use crate::ShareKind;

const POWER: &[&str] = &[
    "power-idle-states",
    "power-wake-latency-request",
    "power-guest-halt-polling",
];
const FIRMWARE: &[&str] = &[
    "firmware-hypervisor",
    "firmware-steal",
    "firmware-smi",
    "firmware-throttling",
    "power-throttled",
];
const PREEMPTION: &[&str] = &["kernel-preempt-rt", "kernel-preemption"];
const TICKS: &[&str] = &[
    "isolation-nohz-full",
    "interrupts-counted-ticks",
    "scheduler-timer-migration",
];
const INTERRUPTS: &[&str] = &[
    "interrupts-devices",
    "interrupts-masks",
    "interrupts-irqbalance",
    "kernel-threaded-interrupts",
    "network-coalescing",
];
const SOFTIRQS: &[&str] = &[
    "interrupts-devices",
    "interrupts-packet-steering",
    "interrupts-threaded-napi",
    "isolation-rcu-callbacks",
    "scheduler-kernel-threads",
];
const BLOCKERS: &[&str] = &[
    "kernel-preempt-rt",
    "kernel-preemption",
    "isolation-workqueues",
    "isolation-kernel-threads",
    "isolation-threads",
];
const PRIORITIES: &[&str] = &[
    "scheduler-other-rt",
    "scheduler-priority-99",
    "interrupts-thread-priorities",
    "isolation-threads",
];
const THROTTLING: &[&str] = &[
    "rights-group-quota",
    "rights-group-share",
    "scheduler-rt-throttling",
];
const MEMORY: &[&str] = &[
    "rights-locked-memory",
    "memory-huge-page-faults",
    "memory-swap",
    "memory-locked-pages",
];

/// Advice for a kind of share: what to check and what to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Checks of `punctual doctor` that examine the cause, the most likely first.
    pub checks: &'static [&'static str],
    /// General advice, if no check is more specific.
    pub text: &'static str,
}

impl ShareKind {
    /// Returns the advice for a share of this kind. `who` is the name of its cause.
    pub fn advice(self, who: &str) -> Advice {
        let (checks, text): (&[&str], &str) = match self {
            Self::IdleExit => (
                POWER,
                "limit the idle states, or keep /dev/cpu_dma_latency open",
            ),
            Self::TimerLate | Self::Silence => (
                FIRMWARE,
                "possible causes are disabled interrupts, or the hypervisor, an SMI or the \
                 firmware, which no Linux setting affects; punctual measure hardware distinguishes \
                 them",
            ),
            Self::TimerSlack => (
                &[],
                "give the thread a real-time policy, which has no timer slack",
            ),
            Self::IrqsOff => (
                PREEMPTION,
                "a PREEMPT_RT kernel disables interrupts for shorter times",
            ),
            Self::PreemptOff => (
                PREEMPTION,
                "a PREEMPT_RT kernel disables preemption for shorter times",
            ),
            // The local timer of the CPU, which wakes the thread and drives the tick.
            Self::Interrupt if who.contains("timer") => (
                TICKS,
                "keep ticks and the timers of other threads off the CPU with nohz_full and \
                 isolated CPUs",
            ),
            Self::Interrupt => (
                INTERRUPTS,
                "move the interrupt to another CPU, or run its handler in a thread",
            ),
            Self::Softirq => (
                SOFTIRQS,
                "move the interrupt that raises the softirq to another CPU",
            ),
            Self::Nmi => (
                &["watchdogs-nmi", "watchdogs-perf"],
                "turn off the source of the NMI",
            ),
            Self::Blocking => (
                BLOCKERS,
                "move the blocking thread to another CPU; a PREEMPT_RT kernel can preempt it",
            ),
            Self::HigherPriority | Self::Competing | Self::Unranked => (
                PRIORITIES,
                "raise the priority of the application, or move the other thread to another CPU",
            ),
            Self::LockHolder => (&[], "use mutexes with priority inheritance"),
            // The kernel's threads and softirq that end the waits for RCU.
            Self::Waiting | Self::Device
                if who.starts_with("rcu_") || who.starts_with("softirq RCU") =>
            {
                (
                    &[],
                    "the thread waited for RCU, until each CPU had left its readers; keep the system \
                     call out of the job, or have another thread make it",
                )
            }
            Self::Waiting => (&[], "the waker of the thread was late; examine the waker"),
            Self::Stopped => (&[], "a signal or a debugger stopped the thread"),
            Self::Migration => (&[], "bind the thread to one CPU"),
            Self::Throttled => (
                THROTTLING,
                "raise the CPU quota of the control group, or the real-time runtime",
            ),
            Self::NotRun => (
                THROTTLING,
                "raise the CPU quota of the control group; without a quota, report the trace to the \
                 developers of the scheduler",
            ),
            Self::PageFault => (
                MEMORY,
                "lock the memory with mlockall, and touch it before the loop starts",
            ),
            Self::OwnWork => (&[], "the thread was still running its own code"),
            Self::SystemCall => (
                &[],
                "keep the system call out of the job, or have another thread make it",
            ),
            Self::Device => (&[], "move input and output from the job to another thread"),
            Self::OwnSleep => (
                &[],
                "the thread requested the sleep; wait for an event instead",
            ),
            Self::Scheduling | Self::ReturnToUser => {
                (PREEMPTION, "this is the cost of the context switch itself")
            }
            Self::Stolen => (
                FIRMWARE,
                "the hypervisor ran something else; pin the virtual CPU to a physical CPU that nothing else uses",
            ),
            Self::Undecided => (
                FIRMWARE,
                "the counters cannot distinguish the thread or handler from the hypervisor or an \
                 SMI; punctual measure hardware shows the time that these take",
            ),
            Self::Unexplained => (
                &[],
                "no trace event shows the cause; measure with --explain=full",
            ),
        };
        Advice { checks, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_for_rcu_is_no_input_or_output() {
        let text = |kind: ShareKind, who| kind.advice(who).text;
        let rcu = text(ShareKind::Device, "softirq RCU");
        assert!(rcu.contains("waited for RCU"), "{rcu}");
        assert_eq!(text(ShareKind::Waiting, "rcu_preempt-15, which slept"), rcu);
        for (kind, who) in [
            (ShareKind::Device, "softirq NET_RX"),
            (
                ShareKind::Waiting,
                "motion-12, which waited for rcu_preempt-15",
            ),
            (ShareKind::Softirq, "RCU"),
        ] {
            assert_ne!(text(kind, who), rcu, "{who}");
        }
    }
}
