//! System calls that matter for jobs, and the call that a thread is in.

use punctual_model::Nanos;

use crate::job::pi_locks::FUTEX_OPERATION;
use crate::job::release::Call;

/// Numbers of some system calls on the recorded machine. On 32-bit architectures, some calls have
/// two numbers.
#[derive(Clone, Debug, Default)]
pub struct CallNumbers {
    /// Numbers of restart_syscall(2).
    pub restart: Vec<i64>,
    /// Numbers of futex(2).
    pub futex: Vec<i64>,
    /// Numbers of sched_yield(2), which ends a job of SCHED_DEADLINE.
    pub sched_yield: Vec<i64>,
}

/// A call of futex(2), by its operation.
pub(in crate::job) enum FutexCall {
    Waits(Call),
    /// Waits for a lock with priority inheritance.
    LocksPi(Call),
    /// Wakes other threads.
    Wakes(Call),
}

impl CallNumbers {
    /// Returns `None` if this is another system call.
    pub(in crate::job) fn futex_call(
        &self,
        id: i64,
        [address, operation]: [u64; 2],
    ) -> Option<FutexCall> {
        let call = Call {
            id,
            argument: address & !Call::IGNORED_OF_FUTEX,
        };
        self.futex
            .contains(&id)
            .then_some(match operation & FUTEX_OPERATION {
                // FUTEX_LOCK_PI, FUTEX_TRYLOCK_PI, FUTEX_LOCK_PI2.
                6 | 8 | 13 => FutexCall::LocksPi(call),
                // FUTEX_WAIT, FUTEX_WAIT_BITSET, FUTEX_WAIT_REQUEUE_PI.
                0 | 9 | 11 => FutexCall::Waits(call),
                _ => FutexCall::Wakes(call),
            })
    }
}

/// The system call of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CurrentCall {
    /// No call in which the thread could wait.
    #[default]
    Outside,
    /// A call, with its entry time.
    In(Call, Nanos),
    /// The thread may be in a call whose entry was not recorded, because the full stage began
    /// meanwhile.
    Unknown,
}

impl CurrentCall {
    pub(super) fn call(self) -> Option<Call> {
        match self {
            Self::In(call, _) => Some(call),
            Self::Outside | Self::Unknown => None,
        }
    }
}

/// The system calls of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Calls {
    pub(super) current: CurrentCall,
    /// The last call in which the thread could wait. A signal may have interrupted it.
    last: Option<Call>,
}

impl Calls {
    /// Handles the entry of a system call. Returns whether it is another call, and not the
    /// continuation of one that a signal interrupted; `None` if that one is unknown.
    pub(super) fn enter(
        &mut self,
        (id, args): (i64, [u64; 2]),
        now: Nanos,
        numbers: &CallNumbers,
    ) -> Option<bool> {
        let continues = numbers.restart.contains(&id);
        let call = match numbers.futex_call(id, args) {
            _ if continues => self.last?,
            Some(FutexCall::Wakes(_)) => {
                self.current = CurrentCall::Outside;
                return Some(true);
            }
            Some(FutexCall::Waits(call) | FutexCall::LocksPi(call)) => call,
            None => Call {
                id,
                argument: args[0],
            },
        };
        (self.current, self.last) = (CurrentCall::In(call, now), Some(call));
        Some(!continues)
    }
}
