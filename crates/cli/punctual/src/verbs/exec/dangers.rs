//! Risks that a real-time thread poses to the machine.

use punctual_host::Host;
use punctual_model::{CpuSet, KernelFacts, TaskKind};
use punctual_rt::Policy;

use crate::exit::UsageError;

/// The highest real-time priority, which the kernel uses for its migration and watchdog threads.
const HIGHEST: u8 = 99;

fn real_time_priority(policy: &Policy) -> Option<u8> {
    match policy {
        Policy::Fifo { priority } | Policy::RoundRobin { priority } => Some(*priority),
        _ => None,
    }
}

/// Returns an error for the priority of the kernel's own threads.
pub(super) fn refuse_highest(policy: &Policy) -> Result<(), UsageError> {
    match real_time_priority(policy) {
        Some(HIGHEST) => Err(UsageError(format!(
            "priority {HIGHEST} is used by the kernel's own watchdog and migration threads, which \
             the command could delay: use {} or less, or pass --force",
            HIGHEST - 1
        ))),
        _ => Ok(()),
    }
}

/// Returns warnings about a thread with this policy on this machine.
pub(super) fn warnings(policy: &Policy, cpus: Option<&CpuSet>, host: &Host) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(priority) = real_time_priority(policy) else {
        return warnings;
    };
    let tasks = host.tasks();
    let kernels = tasks.iter().filter(|task| {
        task.kind != TaskKind::User && (1..HIGHEST).contains(&task.scheduling.priority)
    });
    if let Some(highest) = kernels.max_by_key(|task| task.scheduling.priority)
        && priority > highest.scheduling.priority
    {
        warnings.push(format!(
            "priority {priority} is above the priorities of the kernel's own threads (the highest \
             is {} at {}): these threads wait while the command runs",
            highest.comm, highest.scheduling.priority
        ));
    }
    let online = host.online().unwrap_or_default();
    warnings.extend(spinning(
        &online,
        cpus,
        SafetyNet::from_kernel(&host.facts().kernel),
    ));
    warnings
}

/// The mechanism that limits a real-time thread that never sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SafetyNet {
    /// The thread is throttled for a part of each second (sched(7), sched_rt_runtime_us).
    Throttle,
    /// Other threads get a part of each second, regardless of the throttling settings (from Linux
    /// 6.12 on: kernel/sched/deadline.c, fair_server).
    FairServer,
    /// Nothing limits the thread.
    None,
}

impl SafetyNet {
    fn from_kernel(kernel: &KernelFacts) -> Self {
        let release = kernel.release.get().map(String::as_str).unwrap_or_default();
        let numbers = release.split(|c: char| !c.is_ascii_digit());
        let mut numbers = numbers.map(|number| number.parse::<u32>().ok());
        let version = (numbers.next().flatten(), numbers.next().flatten());
        if version >= (Some(6), Some(12)) {
            return Self::FairServer;
        }
        match kernel.rt_runtime_us.get() {
            Some(us) if *us < 0 => Self::None,
            _ => Self::Throttle,
        }
    }
}

/// Returns a warning if a spinning thread could block a CPU permanently.
fn spinning(online: &CpuSet, cpus: Option<&CpuSet>, net: SafetyNet) -> Option<String> {
    if online.len() == 1 {
        let end = match net {
            SafetyNet::Throttle => {
                "only the kernel's real-time throttling leaves CPU time for \
                them"
            }
            SafetyNet::FairServer => "only the kernel's fair server leaves CPU time for them",
            SafetyNet::None => "real-time throttling is off (kernel.sched_rt_runtime_us)",
        };
        return Some(format!(
            "this machine has one CPU: if the command spins, it blocks all other threads, even a \
             shell; {end}"
        ));
    }
    let cpus = cpus.filter(|cpus| cpus.len() == 1)?;
    (net == SafetyNet::None).then(|| {
        format!(
            "the command may run on CPU {cpus} only, and nothing limits its CPU time \
             (kernel.sched_rt_runtime_us is -1): if it spins, the kernel's own threads of that CPU \
             starve, and programs that wait for these threads hang"
        )
    })
}

#[cfg(test)]
mod tests {
    use punctual_model::Fact;

    use super::*;

    #[test]
    fn unstoppable_spinner_causes_warning() {
        let set = |list: &str| list.parse::<CpuSet>().unwrap();
        let warned = |online: &str, cpus: &str, net| {
            spinning(&set(online), Some(&set(cpus)), net).unwrap_or_default()
        };
        assert!(
            warned("0", "0", SafetyNet::Throttle)
                .contains("only the kernel's real-time throttling")
        );
        assert!(warned("0", "0", SafetyNet::FairServer).contains("only the kernel's fair server"));
        assert!(warned("0-3", "3", SafetyNet::None).contains("CPU 3 only"));
        assert_eq!(warned("0-3", "3", SafetyNet::FairServer), "");
        assert_eq!(warned("0-3", "2-3", SafetyNet::None), "");
        assert_eq!(spinning(&set("0-3"), None, SafetyNet::None), None);
    }

    #[test]
    fn the_kernel_says_what_stops_a_spinner() {
        let net = |release: &str, runtime: i64| {
            let mut facts = Host::live().facts().kernel;
            facts.release = Fact::known(release.to_owned(), "release");
            facts.rt_runtime_us = Fact::known(runtime, "runtime");
            SafetyNet::from_kernel(&facts)
        };
        assert_eq!(net("6.1.0-rt5", -1), SafetyNet::None);
        assert_eq!(net("6.1.0-rt5", 950_000), SafetyNet::Throttle);
        assert_eq!(net("6.12.8", -1), SafetyNet::FairServer);
        assert_eq!(net("7.0.1-arch1", -1), SafetyNet::FairServer);
        assert_eq!(net("custom", 950_000), SafetyNet::Throttle);
    }

    #[test]
    fn the_kernels_own_priority_is_refused() {
        let policy = |priority| Policy::Fifo { priority };
        assert!(refuse_highest(&policy(99)).is_err());
        assert!(refuse_highest(&policy(98)).is_ok());
    }
}
