//! Untraced gaps: periods without events that are longer than any known activity.

use punctual_model::cause::{
    Activity, Cause, Detail, Disabled, Missing, Name, Ran, Source, Unknown,
};
use punctual_model::{
    Delay, EventKind, EventNames, Nanos, Text, Window, cut_to, interrupted_functions,
};

use crate::context::Doing;
use crate::events::{FAULT, IRQ, IRQS_OFF, NMI, VECTORS};
use crate::scene::Moment;
use crate::theft::counted;
use crate::victim::FAULT_TIME;

/// Maximum time for the return to user space, including the work pending there.
const RETURN: Nanos = Nanos::from_micros(25);

/// Returns whether the thread only reads the clock after its wake-up, as in a probe's loop. Events
/// do not show what an application does at that point.
pub(crate) const fn does_nothing(delay: Delay) -> bool {
    matches!(delay, Delay::Timer | Delay::Call | Delay::Step)
}

/// Returns the cause while the victim is running on the CPU and no event shows its activity. A
/// short time counts as the victim's own work. So does the system call of a probe, because it is
/// the work that the probe measures. The wait for a timer does not count as work.
pub(crate) fn own_time(moment: &Moment<'_, '_>) -> Cause {
    let (scene, window) = (moment.scene, moment.scene.window);
    let victim = &scene.victim;
    let doing = doing(moment, victim.tid);
    let call = matches!(doing, Some(Activity::Syscall(_))) && window.delay != Delay::Timer;
    let own = |activity: Option<_>| Cause::new(Source::OwnWork).with(activity.map(Detail::Doing));
    // The work makes no system call. Events cannot distinguish slow work from a gap.
    if window.delay == Delay::Work {
        return own(Some(Activity::UserSpace));
    }
    if does_nothing(window.delay) && !victim.slept {
        match window.delay {
            // A page fault from before the step has ended.
            Delay::Step if call => return own(doing),
            Delay::Step if moment.length <= RETURN => return own(None),
            _ if call || moment.length <= RETURN => return own(doing),
            _ => {}
        }
    } else if moment.length <= RETURN {
        return Cause::new(Source::ReturnToUser);
    }
    let in_user = scene.threads.is_in_user(victim.tid);
    if in_user && !does_nothing(window.delay) {
        return own(Some(Activity::UserSpace));
    }
    if !in_user && !window.has(FAULT) {
        return Cause::not_recorded(Missing::Own, &[FAULT]);
    }
    let thread = Name {
        pid: Some(victim.tid),
        comm: window.victim.comm,
    };
    let faulted = scene.threads.fault(victim.tid).is_some();
    let ran = if faulted { Ran::Faulted } else { Ran::Thread };
    untraced(moment, ran(thread))
}

/// Returns the cause of a time without events that is longer than any known activity. The cause
/// lists all hypotheses that the events allow, without a claim that any of them is true.
pub(crate) fn untraced(moment: &Moment<'_, '_>, ran: Ran) -> Cause {
    let window = moment.scene.window;
    if !window.has(VECTORS) && !window.has(IRQ) {
        return Cause::not_recorded(Missing::InterruptOrGap, &[VECTORS, IRQ]);
    }
    if window.lost > 0 {
        return Cause::unexplained(Unknown::EventsLost).with(Detail::While(ran));
    }
    let at_end = interrupted_at_end(moment);
    // Interrupts cannot be disabled in user space. If `irq_disable` events are recorded, they would
    // have shown the cause.
    let disabled = match ran {
        Ran::Idle => Disabled::No,
        Ran::Thread(_) | Ran::Faulted(_) if at_end.as_ref().is_some_and(Vec::is_empty) => {
            Disabled::No
        }
        Ran::Thread(thread) | Ran::Faulted(thread)
            if !moment
                .scene
                .threads
                .is_in_user(thread.pid.unwrap_or_default())
                && !window.has(IRQS_OFF) =>
        {
            match moment.context.irqs_off {
                Some(_) => Disabled::Before,
                None => Disabled::Possible,
            }
        }
        Ran::Thread(_) | Ran::Faulted(_) => Disabled::No,
    };
    let time = (moment.from, moment.from + moment.length);
    let counted = counted(window, moment.cpu, time);
    let ended_in = at_end.filter(|functions| ran != Ran::Idle && !functions.is_empty());
    Cause::new(Source::Gap).with(Detail::Hypotheses {
        ran,
        disabled,
        ended_in: ended_in.map(innermost),
        nmi_recorded: window.has(NMI),
        counted,
    })
}

/// Maximum time from the end of a gap to the interrupt of the late timer.
const AT_END: Nanos = Nanos::from_micros(50);

/// Maximum number of functions at the end of a gap that are named.
const INNERMOST: usize = 3;

fn innermost(mut functions: Vec<String>) -> Text {
    functions.truncate(INNERMOST);
    cut_to(functions.join(" < "), LONGEST_SYMBOL)
        .as_str()
        .into()
}

/// Returns the functions that the interrupt at the end of the gap interrupted, if its stack is
/// recorded: a timer that was due in the gap expired right after it. None for user space.
fn interrupted_at_end(moment: &Moment<'_, '_>) -> Option<Vec<String>> {
    let window = moment.scene.window;
    let end = moment.from + moment.length;
    let mut after = window
        .events
        .iter()
        .filter(|event| event.cpu == moment.cpu && (end..=end + AT_END).contains(&event.time));
    let late = after.find_map(|event| match &event.kind {
        EventKind::TimerLate { late, frames, .. } if event.time.saturating_sub(*late) < end => {
            Some(Some(frames))
        }
        // The thread on the CPU may have changed.
        EventKind::Switch { .. } => Some(None),
        _ => None,
    })?;
    late.and_then(|frames| interrupted_functions(frames, window))
}

/// Returns the kernel activity of a thread, as far as the events show it.
pub(crate) fn doing(moment: &Moment<'_, '_>, pid: u32) -> Option<Activity> {
    let (threads, window) = (&moment.scene.threads, moment.scene.window);
    let call = threads.doing(pid).map(|doing| match doing {
        Doing::Syscall(id) => Activity::Syscall(window.call(id).as_str().into()),
        Doing::Work(function) => Activity::Work(symbol(window, function)),
    });
    if let Some(lock) = threads.spins_for(pid) {
        return Some(Activity::SpinsFor(symbol(window, lock)));
    }
    match threads.fault(pid) {
        Some((at, user)) if moment.from + moment.length <= at + FAULT_TIME => {
            Some(Activity::PageFault { user })
        }
        // The fault may have ended long ago.
        Some(_) => call.or(Some(Activity::Faulted)),
        None => call,
    }
}

/// Maximum length of a function's name in a cause.
const LONGEST_SYMBOL: usize = 1_024;

/// Returns the name of an address for a cause.
pub(crate) fn symbol(window: &Window, address: u64) -> Text {
    cut_to(window.symbol(address), LONGEST_SYMBOL)
        .as_str()
        .into()
}
