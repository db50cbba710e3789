//! Rules about the state of processes and threads, from /proc.

use punctual_model::cause::RefusedCall;
use punctual_model::{LintFacts, LintThread, Nanos, Policy, Violation};

use super::unseen::Unseen;

/// Result of a rule about the state of processes and threads.
pub(crate) struct Found {
    pub(crate) violations: Vec<Violation>,
    /// Reason why the state of some items is unknown. The absence of violations then proves
    /// nothing.
    pub(crate) unknown: Option<Unseen>,
}

/// Minimum size of the resident stack below the stack pointer. If less is resident, deeper calls
/// cause page faults.
const STACK_READY: u64 = 64 << 10;

/// Tolerance for pages of the kernel when locked memory is compared with resident memory.
const UNLOCKED: u64 = 256 << 10;

/// A thread that never waits violates the rule only if it has run for at least this percentage of
/// the time.
const BUSY_PERCENT: u64 = 50;

/// Up to this percentage, a thread without a wait may have slept in one wait all the time. Above it,
/// other threads may have taken the CPU of a thread that never waits.
const SLEPT_PERCENT: u64 = 10;

fn violation(tid: u32, comm: &str, what: String) -> Violation {
    Violation {
        tid,
        comm: comm.to_owned(),
        what,
        count: 1,
        max_ns: None,
        frames: Vec::new(),
        frames_unknown: None,
    }
}

/// Judges items one by one. Each result is a violation, no violation, or a reason why this is
/// unknown.
fn each<T>(
    items: impl IntoIterator<Item = T>,
    judge: impl Fn(T) -> Result<Option<Violation>, Unseen>,
) -> Found {
    let mut found = Found {
        violations: Vec::new(),
        unknown: None,
    };
    let mut some = false;
    for item in items {
        some = true;
        match judge(item) {
            Ok(violation) => found.violations.extend(violation),
            Err(why) => found.unknown = found.unknown.or(Some(why)),
        }
    }
    if !some {
        found.unknown = Some(Unseen::NoThread);
    }
    found
}

/// Returns the processes that have a real-time thread.
fn processes(facts: &LintFacts) -> impl Iterator<Item = &punctual_model::LintProcess> {
    let is_real_time = |pid| facts.threads.iter().any(|thread| thread.pid == pid);
    (facts.processes.iter()).filter(move |process| is_real_time(process.pid))
}

fn kib(bytes: u64) -> String {
    match bytes >> 10 {
        kib @ 0..10_240 => format!("{kib} KiB"),
        kib => format!("{} MiB", kib >> 10),
    }
}

pub(crate) fn not_locked(facts: &LintFacts) -> Found {
    each(processes(facts), |process| {
        let (locked, resident) = process.locked.clone().map_err(Unseen::Fact)?;
        let is_locked = locked > 0 && locked + UNLOCKED >= resident;
        let what = format!(
            "{} of {} resident memory is locked",
            kib(locked),
            kib(resident)
        );
        Ok((!is_locked).then(|| violation(process.pid, &process.comm, what)))
    })
}

pub(crate) fn refused_call(facts: &LintFacts) -> Found {
    let violations = facts.refused_calls.iter().map(|call| {
        let (comm, tid) = call.thread.rsplit_once('-').unwrap_or((&call.thread, ""));
        let once = RefusedCall {
            times: 1,
            ..call.clone()
        };
        Violation {
            count: call.times,
            ..violation(tid.parse().unwrap_or(0), comm, once.refusal())
        }
    });
    let violations: Vec<Violation> = violations.collect();
    let unknown = match &facts.refused_unknown {
        Some(why) => Some(Unseen::Fact(why.clone())),
        None if facts.calls_traced == Nanos::ZERO => Some(Unseen::NoCallTraced),
        None => facts.threads.is_empty().then_some(Unseen::NoThread),
    };
    Found {
        unknown: unknown.filter(|_| violations.is_empty()),
        violations,
    }
}

pub(crate) fn small_memlock_limit(facts: &LintFacts) -> Found {
    each(processes(facts), |process| {
        let Some(limit) = process.memlock_limit.clone().map_err(Unseen::Fact)? else {
            return Ok(None);
        };
        let size = process.size.clone().map_err(Unseen::Fact)?;
        let what = format!(
            "the limit is {}, but the size of the process is {}",
            kib(limit),
            kib(size)
        );
        Ok((limit < size).then(|| violation(process.pid, &process.comm, what)))
    })
}

pub(crate) fn no_runtime_limit(facts: &LintFacts) -> Found {
    let bounded = |thread: &&LintThread| thread.policy != Policy::Deadline;
    each(processes(facts), |process| {
        let mut threads = facts.threads.iter().filter(bounded);
        let needs = threads.any(|thread| thread.pid == process.pid);
        let limit = process.runtime_limit.clone().map_err(Unseen::Fact)?;
        let what = "RLIMIT_RTTIME is unlimited".to_owned();
        Ok((needs && limit.is_none()).then(|| violation(process.pid, &process.comm, what)))
    })
}

pub(crate) fn stack_not_prefaulted(facts: &LintFacts) -> Found {
    each(&facts.threads, |thread| {
        let resident = thread.stack_resident_bytes.ok_or_else(|| {
            let process = facts.processes.iter().find(|one| one.pid == thread.pid);
            Unseen::Stack {
                comm: thread.comm.clone(),
                tid: thread.tid,
                hidden: process.and_then(|process| process.hidden.clone()),
            }
        })?;
        let what = format!(
            "{} of stack below the stack pointer are resident",
            kib(resident)
        );
        Ok((resident < STACK_READY).then(|| violation(thread.tid, &thread.comm, what)))
    })
}

pub(crate) fn priority_99(facts: &LintFacts) -> Found {
    each(&facts.threads, |thread| {
        let what = format!("{} 99", thread.policy);
        Ok((thread.priority == 99).then(|| violation(thread.tid, &thread.comm, what)))
    })
}

pub(crate) fn never_waits(facts: &LintFacts) -> Found {
    each(&facts.threads, |thread| {
        let (Some(used), Some(waits)) = (thread.cpu_time_ns, thread.switches_voluntary) else {
            return Err(Unseen::NotThereThroughout {
                comm: thread.comm.clone(),
                tid: thread.tid,
            });
        };
        let ran_for =
            |percent: u64| used.0.saturating_mul(100) >= facts.duration.0.saturating_mul(percent);
        // A SCHED_DEADLINE thread stops when its budget is used up, even without a wait.
        let runs_on = thread.policy != Policy::Deadline && waits == 0;
        let enough = facts.duration >= Nanos::from_millis(100);
        if !runs_on || !enough || !ran_for(SLEPT_PERCENT) {
            return Ok(None);
        }
        if !ran_for(BUSY_PERCENT) {
            return Err(Unseen::ShortOfCpu {
                comm: thread.comm.clone(),
                tid: thread.tid,
                used,
                duration: facts.duration,
            });
        }
        let what = format!("ran for {used} of {} without waiting", facts.duration);
        Ok(Some(violation(thread.tid, &thread.comm, what)))
    })
}
