//! Waits while the runtime of a Go program has stopped all goroutines.

use punctual_model::cause::Wait;
use punctual_model::{Nanos, RuntimeStop, StopReason, Window};

/// Returns the stop during which a wait began, and the kind of the wait. Until the end of the stop,
/// no goroutine can end the wait: if it ended before, it was for something else. The thread that
/// stops the others also waits, but for them, so its waits are of no such kind.
pub(super) fn of_wait(window: &Window, (from, to): (Nanos, Nanos)) -> Option<(RuntimeStop, Wait)> {
    let during = |stop: &&RuntimeStop| (stop.from..stop.to).contains(&from) && to >= stop.to;
    let stop = window.evidence.stops.iter().find(during)?;
    let wait = match stop.reason {
        StopReason::Collection => Wait::Collection,
        StopReason::Other | StopReason::Unknown => Wait::GoroutineStop,
    };
    (stop.by != window.victim.tid).then_some((*stop, wait))
}
