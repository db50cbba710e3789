//! Sets and reads scheduling policies, and finds out which ones this process may set.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::time::Duration;

use rustix::process::Resource;

use crate::clock::nanos;
use crate::sched_attr::{
    Attributes, OVERRUN_SIGNAL, RESET_ON_FORK, get_attributes, set_attributes,
};
use crate::{Error, PolicyKind, ThreadRef, current_tid, limits};

/// A scheduling policy with its parameters (`sched(7)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// SCHED_OTHER, the default.
    Other {
        /// -20 (highest priority) to 19.
        nice: i32,
    },
    /// SCHED_BATCH: like SCHED_OTHER, but does not preempt on wake-up.
    Batch {
        /// -20 (highest priority) to 19.
        nice: i32,
    },
    /// SCHED_IDLE: runs only when the CPU is nearly idle.
    Idle,
    /// SCHED_FIFO: runs until it blocks or a thread of higher priority preempts it.
    Fifo {
        /// 1 (lowest) to 99; see [`priority_range`].
        priority: u8,
    },
    /// SCHED_RR: like SCHED_FIFO, with time slices among threads of equal priority.
    RoundRobin {
        /// 1 (lowest) to 99; see [`priority_range`].
        priority: u8,
    },
    /// SCHED_DEADLINE: `runtime` of CPU time before `deadline` in every `period`. Such a thread
    /// cannot start threads or processes (EAGAIN) and cannot be pinned.
    Deadline {
        /// CPU time in each period, at least 1024 ns.
        runtime: Duration,
        /// Time by which the work must be done, relative to the start of the period.
        deadline: Duration,
        /// The period.
        period: Duration,
    },
}

impl Policy {
    /// Returns the kind of policy.
    pub const fn kind(&self) -> PolicyKind {
        match self {
            Self::Other { .. } => PolicyKind::Other,
            Self::Batch { .. } => PolicyKind::Batch,
            Self::Idle => PolicyKind::Idle,
            Self::Fifo { .. } => PolicyKind::Fifo,
            Self::RoundRobin { .. } => PolicyKind::RoundRobin,
            Self::Deadline { .. } => PolicyKind::Deadline,
        }
    }

    /// Checks whether the kernel accepts the parameters. [`set_policy`] does this itself; a command
    /// line can use it to fail early.
    ///
    /// # Errors
    /// Returns [`Error::PriorityOutOfRange`], [`Error::NiceOutOfRange`] or
    /// [`Error::DeadlineInvalid`].
    pub fn check(&self) -> Result<(), Error> {
        match *self {
            Self::Other { nice } | Self::Batch { nice } if !(-20..=19).contains(&nice) => {
                Err(Error::NiceOutOfRange { nice })
            }
            Self::Fifo { priority } | Self::RoundRobin { priority } => {
                let range = priority_range(self.kind());
                if range.contains(&priority) {
                    return Ok(());
                }
                Err(Error::PriorityOutOfRange {
                    policy: self.kind(),
                    priority,
                    min: *range.start(),
                    max: *range.end(),
                })
            }
            Self::Deadline {
                runtime,
                deadline,
                period,
            } if nanos(runtime) < 1024 || runtime > deadline || deadline > period => {
                Err(self.invalid_deadline())
            }
            _ => Ok(()),
        }
    }

    fn invalid_deadline(&self) -> Error {
        let (runtime, deadline, period) = self.deadline_parts();
        Error::DeadlineInvalid {
            runtime,
            deadline,
            period,
        }
    }

    fn deadline_parts(&self) -> (Duration, Duration, Duration) {
        match *self {
            Self::Deadline {
                runtime,
                deadline,
                period,
            } => (runtime, deadline, period),
            _ => Default::default(),
        }
    }

    fn attributes(&self) -> Attributes {
        let mut attributes = Attributes {
            policy: self.kind().number().cast_unsigned(),
            ..Attributes::default()
        };
        match *self {
            Self::Other { nice } | Self::Batch { nice } => attributes.nice = nice,
            Self::Idle => {}
            Self::Fifo { priority } | Self::RoundRobin { priority } => {
                attributes.priority = u32::from(priority);
            }
            Self::Deadline {
                runtime,
                deadline,
                period,
            } => {
                attributes.flags = RESET_ON_FORK;
                attributes.runtime = nanos(runtime);
                attributes.deadline = nanos(deadline);
                attributes.period = nanos(period);
            }
        }
        attributes
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().name())?;
        match self {
            Self::Other { nice } | Self::Batch { nice } => write!(f, " nice {nice}"),
            Self::Idle => Ok(()),
            Self::Fifo { priority } | Self::RoundRobin { priority } => {
                write!(f, " priority {priority}")
            }
            Self::Deadline {
                runtime,
                deadline,
                period,
            } => write!(f, " {runtime:?} within {deadline:?} every {period:?}"),
        }
    }
}

/// Returns the priority range of a policy: 1 to 99 for SCHED_FIFO and SCHED_RR on every Linux so
/// far, 0 to 0 for policies without priorities (`sched_get_priority_min(2)`).
pub fn priority_range(kind: PolicyKind) -> RangeInclusive<u8> {
    // SAFETY: both calls take a number and access no memory. An unknown policy returns -1, which
    // becomes 0.
    let (min, max) = unsafe {
        (
            libc::sched_get_priority_min(kind.number()),
            libc::sched_get_priority_max(kind.number()),
        )
    };
    let narrow = |value: libc::c_int| u8::try_from(value).unwrap_or(0);
    narrow(min)..=narrow(max)
}

/// Returns the time slice of a SCHED_RR thread: the time that it may run before another thread of its
/// priority gets the CPU (`sched_rr_get_interval(2)`). Returns `None` if the thread does not exist.
pub fn time_slice(thread: impl Into<ThreadRef>) -> Option<Duration> {
    let mut slice = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes to `slice` only, which lives until it returns.
    let result = unsafe { libc::sched_rr_get_interval(thread.into().as_raw(), &raw mut slice) };
    if result != 0 {
        return None;
    }
    let seconds = u64::try_from(slice.tv_sec).ok()?;
    let nanoseconds = u32::try_from(slice.tv_nsec).ok()?;
    Some(Duration::new(seconds, nanoseconds))
}

/// Sets the scheduling policy of a thread.
///
/// If the calling thread gets a real-time policy, it drops to SCHED_OTHER before it ends, and the
/// threads and programs that it starts have an ordinary policy (SCHED_FLAG_RESET_ON_FORK), so that
/// no thread is real-time without having asked for it, and none exits as a real-time thread.
///
/// # Errors
/// Returns an error for parameters out of range ([`Policy::check`]), a missing privilege
/// ([`Error::RealTimeRefused`], [`Error::DeadlineRefused`], [`Error::NiceRefused`]), insufficient
/// bandwidth ([`Error::DeadlineOverbooked`]), or a thread that does not exist
/// ([`Error::NoSuchThread`]).
pub fn set_policy(thread: impl Into<ThreadRef>, policy: &Policy) -> Result<(), Error> {
    let thread = thread.into();
    let mut attributes = policy.attributes();
    let own = [ThreadRef::Current, current_tid().into()].contains(&thread);
    if own && policy.kind().is_real_time() {
        crate::real_time::enter();
        attributes.flags |= RESET_ON_FORK;
    }
    set(thread, policy, attributes)
}

/// Sets the scheduling policy of the calling thread, which will execute another program. Unlike
/// with [`set_policy`], that program keeps the policy, and so do the threads and programs that it
/// starts.
///
/// # Errors
/// See [`set_policy`].
pub fn set_policy_for_exec(policy: &Policy) -> Result<(), Error> {
    if policy.kind().is_real_time() {
        // The program may be missing.
        crate::real_time::enter();
    }
    set(ThreadRef::Current, policy, policy.attributes())
}

/// Gives the calling thread a deadline policy with an overrun signal.
pub(crate) fn set_deadline_with_signal(policy: &Policy) -> Result<(), Error> {
    crate::real_time::enter();
    let mut attributes = policy.attributes();
    attributes.flags |= OVERRUN_SIGNAL;
    match set(ThreadRef::Current, policy, attributes) {
        // The kernel reports an unknown flag with the same error as invalid times.
        Err(Error::DeadlineInvalid { .. }) if set_policy(ThreadRef::Current, policy).is_ok() => {
            // Restore the policy, because the thread now has the new one even though this function
            // fails.
            crate::demote(ThreadRef::Current);
            Err(Error::NotSupported {
                what: "the signal of a deadline overrun",
                why: "SCHED_FLAG_DL_OVERRUN needs Linux 4.16",
            })
        }
        answer => answer,
    }
}

fn set(thread: ThreadRef, policy: &Policy, attributes: Attributes) -> Result<(), Error> {
    policy.check()?;
    if set_attributes(thread, attributes) {
        return Ok(());
    }
    Err(explain(policy, thread, io::Error::last_os_error()))
}

/// Translates the error code into the error for this policy.
fn explain(policy: &Policy, thread: ThreadRef, source: io::Error) -> Error {
    let kind = policy.kind();
    let capable = limits::may_set_nice();
    match (source.raw_os_error(), *policy) {
        (Some(libc::EPERM), Policy::Deadline { .. }) => Error::DeadlineRefused { capable },
        (Some(libc::EPERM), Policy::Fifo { priority } | Policy::RoundRobin { priority }) => {
            Error::RealTimeRefused {
                policy: kind,
                priority,
                limit: limits::soft(Resource::Rtprio),
                capable,
            }
        }
        (Some(libc::EPERM), Policy::Other { nice } | Policy::Batch { nice }) => {
            Error::NiceRefused {
                policy: kind,
                nice,
                limit: limits::soft(Resource::Nice),
                capable,
            }
        }
        (Some(libc::EPERM), Policy::Idle) => Error::NiceRefused {
            policy: kind,
            nice: 0,
            limit: limits::soft(Resource::Nice),
            capable,
        },
        (Some(libc::EBUSY), Policy::Deadline { .. }) => {
            let (runtime, deadline, period) = policy.deadline_parts();
            Error::DeadlineOverbooked {
                runtime,
                deadline,
                period,
            }
        }
        (Some(libc::EINVAL), Policy::Deadline { .. }) => policy.invalid_deadline(),
        (Some(libc::ESRCH), _) => Error::NoSuchThread { thread },
        _ => Error::os("sched_setattr", format!("{policy} on {thread}"), source),
    }
}

/// Returns the policy of the calling thread.
///
/// # Errors
/// Returns [`Error::PolicyUnknown`] for a policy newer than this crate.
pub fn current_policy() -> Result<Policy, Error> {
    policy_of(ThreadRef::Current)
}

/// Returns the policy of a thread (`sched_getattr(2)`).
///
/// # Errors
/// Returns [`Error::NoSuchThread`], or [`Error::PolicyUnknown`] for a policy newer than this crate.
pub fn policy_of(thread: impl Into<ThreadRef>) -> Result<Policy, Error> {
    let thread = thread.into();
    let Some(attributes) = get_attributes(thread) else {
        let source = io::Error::last_os_error();
        return Err(match source.raw_os_error() {
            Some(libc::ESRCH) => Error::NoSuchThread { thread },
            _ => Error::os("sched_getattr", thread.to_string(), source),
        });
    };
    from_attributes(thread, &attributes)
}

fn from_attributes(thread: ThreadRef, attributes: &Attributes) -> Result<Policy, Error> {
    let unknown = Error::PolicyUnknown {
        thread,
        number: attributes.policy,
    };
    let kind = PolicyKind::ALL
        .into_iter()
        .find(|kind| kind.number().cast_unsigned() == attributes.policy)
        .ok_or(unknown)?;
    let nice = attributes.nice;
    // The kernel never returns more than 99.
    let priority = u8::try_from(attributes.priority).unwrap_or(u8::MAX);
    Ok(match kind {
        PolicyKind::Other => Policy::Other { nice },
        PolicyKind::Batch => Policy::Batch { nice },
        PolicyKind::Idle => Policy::Idle,
        PolicyKind::Fifo => Policy::Fifo { priority },
        PolicyKind::RoundRobin => Policy::RoundRobin { priority },
        PolicyKind::Deadline => Policy::Deadline {
            runtime: Duration::from_nanos(attributes.runtime),
            deadline: Duration::from_nanos(attributes.deadline),
            period: Duration::from_nanos(attributes.period),
        },
    })
}

/// Returns the highest SCHED_FIFO priority that this process may set: 99 with CAP_SYS_NICE,
/// otherwise RLIMIT_RTPRIO; 0 for none.
///
/// The privilege alone proves little. The kernel can still refuse if the capability belongs to a
/// user namespace, if the control group has no real-time runtime, or in a sandbox. So a separate
/// thread tries the priority for some microseconds, and priorities refused there do not count.
pub fn max_permitted_priority() -> u8 {
    let highest = *priority_range(PolicyKind::Fifo).end();
    let by_limit = limits::soft(Resource::Rtprio).0.map_or(highest, |limit| {
        u8::try_from(limit).unwrap_or(u8::MAX).min(highest)
    });
    let claims = if limits::may_set_nice() {
        [highest, by_limit]
    } else {
        [by_limit, 0]
    };
    claims
        .into_iter()
        .find(|&priority| priority == 0 || granted(priority))
        .unwrap_or(0)
}

/// Returns whether a temporary thread gets this priority.
fn granted(priority: u8) -> bool {
    std::thread::Builder::new()
        .name("priority-trial".to_owned())
        .spawn(move || set_policy(ThreadRef::Current, &Policy::Fifo { priority }).is_ok())
        .is_ok_and(|trial| trial.join().unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_policy() -> impl Strategy<Value = Policy> {
        let duration = || (0..u64::MAX).prop_map(Duration::from_nanos);
        prop_oneof![
            any::<i32>().prop_map(|nice| Policy::Other { nice }),
            any::<i32>().prop_map(|nice| Policy::Batch { nice }),
            Just(Policy::Idle),
            any::<u8>().prop_map(|priority| Policy::Fifo { priority }),
            any::<u8>().prop_map(|priority| Policy::RoundRobin { priority }),
            (duration(), duration(), duration()).prop_map(|(runtime, deadline, period)| {
                Policy::Deadline {
                    runtime,
                    deadline,
                    period,
                }
            }),
        ]
    }

    proptest! {
        #[test]
        fn the_kernels_form_loses_nothing(policy in any_policy()) {
            let back = from_attributes(ThreadRef::Current, &policy.attributes()).unwrap();
            prop_assert_eq!(back, policy);
        }
    }

    #[test]
    fn an_unknown_policy_keeps_its_number() {
        let attributes = Attributes {
            policy: 4_711,
            ..Attributes::default()
        };
        let error = from_attributes(ThreadRef::Current, &attributes).unwrap_err();
        assert!(error.to_string().contains("4711"), "{error}");
    }
}
