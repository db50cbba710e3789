//! Determines the rights of this process, and what to do if some are missing.

use punctual_host::Host;
use punctual_model::{CpuSet, Policy, Scheduling};
use punctual_rt::{Error, ThreadBuilder, affinity};

use crate::{SessionError, ThreadRequest};

/// Default priority: above the threaded interrupts of a PREEMPT_RT kernel (50), and below the
/// kernel's migration and watchdog threads (99).
const USUAL_PRIORITY: u8 = 95;

/// Feature that requires a right, as named in a warning.
const REAL_TIME: &str = "real-time priority (SCHED_OTHER)";
/// See [`REAL_TIME`].
pub(crate) const MEMORY: &str = "locked memory";
/// See [`REAL_TIME`].
pub(crate) const IDLE_STATES: &str = "idle-state control";

fn lacking(what: &[&str]) -> String {
    format!(
        "measured without {}: not permitted to this process; for remedies, run punctual doctor",
        what.join(", ")
    )
}

/// Adds one warning that names all missing rights, including real-time priority if there is already
/// a warning about it.
pub(crate) fn tell_of_lacking(what: &[&str], warnings: &mut Vec<String>) {
    if what.is_empty() {
        return;
    }
    let said = lacking(&[REAL_TIME]);
    let place = warnings.iter().position(|warning| *warning == said);
    let mut all: Vec<&str> = place.map(|_| REAL_TIME).into_iter().collect();
    all.extend(what);
    match place {
        Some(place) => warnings[place] = lacking(&all),
        None => warnings.push(lacking(&all)),
    }
}

/// Returns the scheduling of the measuring threads, with a warning if it is worse than recommended.
///
/// # Errors
/// Returns an error if a requested policy or priority is refused.
pub(crate) fn scheduling(
    request: &ThreadRequest,
    host: &Host,
) -> Result<(Scheduling, Option<String>), SessionError> {
    let policy = match (request.policy, request.priority) {
        (Some(policy), _) => policy,
        // Only real-time policies have a priority, so requesting one implies fifo.
        (None, Some(1..)) => Policy::Fifo,
        (None, Some(0)) => Policy::Other,
        (None, None) => return Ok(best_to_be_had(host)),
    };
    let priority = match request.priority {
        Some(priority @ 1..) if !has_priority(policy) => {
            return Err(SessionError::NoPriority { policy, priority });
        }
        Some(priority) => priority,
        None if has_priority(policy) => usual_priority(),
        None => 0,
    };
    let asked = Scheduling { policy, priority };
    try_out(asked).map_err(|error| real_time_refused(error, host, None))?;
    Ok((asked, None))
}

fn has_priority(policy: Policy) -> bool {
    matches!(policy, Policy::Fifo | Policy::RoundRobin)
}

/// Returns 95, or the limit of RLIMIT_RTPRIO.
fn usual_priority() -> u8 {
    match punctual_rt::max_permitted_priority() {
        // No real-time priority is permitted. Return the default, so that the error names it.
        0 => USUAL_PRIORITY,
        highest => highest.min(USUAL_PRIORITY),
    }
}

fn best_to_be_had(host: &Host) -> (Scheduling, Option<String>) {
    let fifo = Scheduling {
        policy: Policy::Fifo,
        priority: usual_priority(),
    };
    match try_out(fifo) {
        Ok(()) => (fifo, None),
        Err(error) => {
            let refused = real_time_refused(error, host, None);
            let other = Scheduling {
                policy: Policy::Other,
                priority: 0,
            };
            let warning = match refused {
                SessionError::System(Error::RealTimeRefused { capable: false, .. }) => {
                    lacking(&[REAL_TIME])
                }
                // The reason is not a missing right of this process, so the text of the error gives
                // it.
                refused => format!("measured without {REAL_TIME}: {refused}"),
            };
            (other, Some(warning))
        }
    }
}

/// If the control group of the thread caused a refusal, adds this cause to the error. Without a
/// thread ID, checks the group of this process.
pub fn real_time_refused(error: Error, host: &Host, tid: Option<u32>) -> SessionError {
    let Error::RealTimeRefused {
        policy, priority, ..
    } = &error
    else {
        return error.into();
    };
    match host.group_without_real_time(tid) {
        Some(file) => SessionError::GroupWithoutRealTime {
            refused: format!("{policy} with priority {priority}"),
            file,
        },
        None => error.into(),
    }
}

/// Tries to start a thread with this scheduling, because the limits of the process do not show
/// everything (RT_GROUP_SCHED refuses even root).
fn try_out(scheduling: Scheduling) -> Result<(), Error> {
    ThreadBuilder::new("rights")
        .policy(punctual_probes::rt_policy(scheduling))
        .spawn(|| ())?
        .join()
}

/// Checks whether threads may be bound to each of the CPUs; a cpuset can forbid it.
pub(crate) fn may_use(cpus: &CpuSet) -> Result<(), Error> {
    let cpus: Vec<u32> = cpus.iter().collect();
    // Use a single thread, because one thread per CPU would take a long time on a machine with many
    // CPUs. It sleeps, because a CPU may be occupied by threads of higher priority.
    let (hold, held) = std::sync::mpsc::channel::<()>();
    #[expect(clippy::disallowed_methods, reason = "ends when `hold` is dropped")]
    let thread = ThreadBuilder::new("rights").spawn(move || _ = held.recv())?;
    let bind = |cpus: &[u32]| affinity::set(thread.tid(), cpus);
    let bound = cpus.iter().try_for_each(|cpu| bind(&[*cpu]));
    bind(&affinity::current()?)?;
    drop(hold);
    thread.join()?;
    bound
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_rights_are_listed_in_one_line() {
        let mut warnings = vec!["other".to_owned(), lacking(&[REAL_TIME])];
        tell_of_lacking(&[MEMORY, IDLE_STATES], &mut warnings);
        let [_, said] = &warnings[..] else {
            panic!("{warnings:?}")
        };
        assert_eq!(
            said,
            "measured without real-time priority (SCHED_OTHER), locked memory, idle-state control: \
             not permitted to this process; for remedies, run punctual doctor"
        );
        let mut warnings = Vec::new();
        tell_of_lacking(&[], &mut warnings);
        assert!(warnings.is_empty());
        tell_of_lacking(&[MEMORY], &mut warnings);
        assert!(warnings[0].starts_with("measured without locked memory: "));
    }
}
