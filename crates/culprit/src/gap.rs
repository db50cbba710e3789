//! Untraced gaps: time without any event, longer than what is known takes.

use punctual_model::{Delay, Nanos, ShareKind, Window};

use crate::cause::{Cause, FAULT, IRQ, IRQS_OFF, Moment, RETURN, VECTORS, name, not_recorded};
use crate::context::Doing;

const NMI: &str = "nmi:nmi_handler";

/// The thread that runs while nothing is traced.
pub(crate) enum Runs {
    /// None: the CPU is idle.
    Idle,
    /// The one that is late.
    Victim,
    /// The one that was switched in last.
    Current,
}

/// Whether the thread's own loop does nothing between its wake-up and its
/// reading of the clock: a probe measures it. What an application does, no event
/// tells.
pub(crate) const fn does_nothing(delay: Delay) -> bool {
    matches!(delay, Delay::Timer | Delay::Call | Delay::Step)
}

/// The victim has the CPU and no event tells what it does. Short times are its
/// own; a probe's call of the kernel is the work that is measured, its wait for
/// the timer is not.
pub(crate) fn own_time(moment: &Moment<'_, '_>) -> Cause {
    let (walk, window) = (moment.walk, moment.walk.window);
    let victim = &walk.victim;
    let doing = walk.threads.doing(victim.tid);
    let call = matches!(doing, Some(Doing::Syscall(_))) && window.delay != Delay::Timer;
    let own = |detail| Cause::new(ShareKind::OwnWork, "the thread itself").with(detail);
    let told = || crate::cause::doing(moment, victim.tid);
    if does_nothing(window.delay) && !victim.slept {
        match window.delay {
            // A page fault from before the step is over.
            Delay::Step if call => return own(told()),
            Delay::Step if moment.length <= RETURN => return own(None),
            _ if call || moment.length <= RETURN => return own(told()),
            _ => {}
        }
    } else if moment.length <= RETURN {
        return Cause::new(ShareKind::ReturnToUser, "switch to user space");
    }
    let in_user = walk.threads.is_in_user(victim.tid);
    if in_user && !does_nothing(window.delay) {
        return own(Some("in user space, without any event".to_owned()));
    }
    if !in_user && !window.has(FAULT) {
        return not_recorded("the thread ran, a page fault or an untraced gap", &[FAULT]);
    }
    untraced(moment, &Runs::Victim)
}

/// No event for longer than anything known takes. All hypotheses that the events
/// leave are named, and none is claimed.
pub(crate) fn untraced(moment: &Moment<'_, '_>, runs: &Runs) -> Cause {
    let window = moment.walk.window;
    let thread = match runs {
        Runs::Idle => None,
        Runs::Victim => {
            let victim = &window.victim;
            Some((victim.tid, format!("{}-{}", victim.comm, victim.tid)))
        }
        Runs::Current => moment.context.current.map(|task| (task.pid, name(&task))),
    };
    let when = match &thread {
        Some((_, thread)) => format!("while {thread} ran"),
        None => "while the CPU was idle".to_owned(),
    };
    if !window.has(VECTORS) && !window.has(IRQ) {
        return not_recorded("an interrupt, or an untraced gap", &[VECTORS, IRQ]);
    }
    if window.lost > 0 {
        return Cause::new(ShareKind::Unexplained, "no event, and some were lost").with(when);
    }
    // In user space interrupts cannot be disabled, and where their disabling is
    // recorded, it would be known.
    let disabled = thread
        .filter(|(pid, _)| !moment.walk.threads.is_in_user(*pid) && !window.has(IRQS_OFF))
        .map(|(_, thread)| thread);
    let mut told = vec![when, possible(moment, disabled.as_deref())];
    told.extend(counted(window));
    Cause::new(ShareKind::Silence, "no event").with(told.join("; "))
}

/// `possible: hypervisor, SMI, firmware, or interrupts disabled in make-12`.
fn possible(moment: &Moment<'_, '_>, disabled_in: Option<&str>) -> String {
    let mut others = vec!["hypervisor", "SMI", "firmware"];
    if !moment.walk.window.has(NMI) {
        others.push("NMI (not recorded)");
    }
    let others = others.join(", ");
    match disabled_in {
        None => format!("possible: {others}"),
        Some(thread) if moment.context.irqs_off.is_some() => {
            format!("possible: interrupts disabled in {thread} (as at the event before), {others}")
        }
        Some(thread) => format!("possible: {others}, or interrupts disabled in {thread}"),
    }
}

/// What counters tell: evidence for one of the hypotheses, no proof, for they
/// are of a longer time.
fn counted(window: &Window) -> impl Iterator<Item = String> {
    let steal = window.evidence.steal.filter(|steal| *steal > Nanos::ZERO);
    let smis = window.evidence.smis.filter(|count| *count > 0);
    let steal = steal.map(|steal| format!("steal time rose by {steal} around then"));
    let smis = smis.map(|count| format!("SMIs around then: {count}"));
    steal.into_iter().chain(smis)
}
