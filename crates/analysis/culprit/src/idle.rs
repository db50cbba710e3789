//! Time in which the CPU that matters is idle.

use punctual_model::cause::{Cause, Detail, Missing, Ran, Source};
use punctual_model::{Nanos, NotShown, Window};

use crate::events::{IRQ, SOFTIRQ, VECTORS};
use crate::gap::untraced;
use crate::scene::Moment;
use crate::theft::counted;

/// Maximum time that a timer, a switch or a return to user space takes without an event.
pub(crate) const SHORT: Nanos = Nanos::from_micros(10);

/// A thread that runs for at most this long between two handlers does not count as blocking the
/// CPU.
pub(crate) const VERY_SHORT: Nanos = Nanos::from_micros(2);

/// Exit latency of the deepest idle states of common processors, used if the kernel does not report
/// it (see the tables in drivers/idle/intel_idle.c).
const IDLE_EXIT: Nanos = Nanos::from_millis(1);

/// Returns the cause while the CPU is idle even though the event that it was waiting for has
/// occurred.
pub(crate) fn idle(moment: &Moment<'_, '_>) -> Cause {
    if is_longer_than_exit(moment) || (is_stolen(moment) && moment.length > SHORT) {
        return untraced(moment, Ran::Idle);
    }
    let missing = handlers_missing(moment.scene.window);
    if !missing.is_empty() && moment.length > VERY_SHORT {
        return Cause::not_recorded(Missing::InterruptOrGap, &missing);
    }
    let state = moment.context.idle.map(Detail::IdleState);
    Cause::new(Source::IdleExit(moment.cpu)).with(state)
}

/// Returns whether the CPU was idle for longer than an exit from any idle state takes, and the
/// hypervisor did not have it.
pub(crate) fn is_longer_than_exit(moment: &Moment<'_, '_>) -> bool {
    let evidence = &moment.scene.window.evidence;
    let longest = evidence.idle_exit.unwrap_or(IDLE_EXIT);
    moment.length > longest + SHORT && !is_stolen(moment)
}

/// Returns whether the steal time rose by at least half of the time.
fn is_stolen(moment: &Moment<'_, '_>) -> bool {
    let time = (moment.from, moment.from + moment.length);
    let steal = counted(moment.scene.window, moment.cpu, time).steal;
    let risen = steal.map_or(Nanos::ZERO, |steal| steal.stolen_ns);
    risen > Nanos::ZERO && risen.0 >= moment.length.0 / 2
}

/// Returns the events of handlers that are not recorded. Without them, a handler on top of a thread
/// looks like the thread itself.
pub(crate) fn handlers_missing(window: &Window) -> Vec<&'static str> {
    let mut missing = vec![SOFTIRQ, IRQ];
    missing.retain(|event| !window.has(event));
    if window.evidence.not_shown.contains(&NotShown::Vectors) {
        missing.push(VECTORS);
    }
    missing
}
