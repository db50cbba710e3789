//! Determines the cause of a segment of time.

use punctual_model::cause::{
    Activity, Cause, Detail, Missing, Name, Ran, Rank, Role, Signal, Source, Stay, Unknown,
};
use punctual_model::{
    Delay, EventKind, GapReason, KernelPriority, Task, Text, Window, interrupted_functions,
};

use crate::context::Handler;
use crate::events::{SWITCH, WAKEUP, WAKING};
use crate::gap::{does_nothing, doing, own_time, symbol, untraced};
use crate::held::{self, passed_over};
use crate::idle::{SHORT, VERY_SHORT, handlers_missing, idle, is_longer_than_exit};
use crate::scene::Moment;
use crate::timeline::{TimelineEvent, WakeSource};
use crate::victim::{FAULT_TIME, State, Why};

/// A cause, and the thread that was running on the CPU while the victim was runnable, if the victim
/// may have been throttled.
pub(crate) struct Judged {
    pub(crate) cause: Cause,
    pub(crate) rival: Option<u32>,
}

impl From<Cause> for Judged {
    fn from(cause: Cause) -> Self {
        Self { cause, rival: None }
    }
}

/// Number of functions of a stack that a cause names.
const FUNCTIONS: usize = 8;

pub(crate) fn cause(moment: &Moment<'_, '_>) -> Judged {
    if let Some(reason) = moment.context.gap {
        // Whatever ran instead, the timer's interrupt came late.
        let is_due = moment.from >= moment.scene.window.expected + moment.scene.slack().0;
        if reason == GapReason::Contradiction
            && is_due
            && moment.scene.sleeps_until_timer(moment.from)
        {
            return Cause::new(Source::TimerLate).into();
        }
        return Cause::unexplained(Unknown::Gap {
            reason,
            cpu: moment.cpu,
        })
        .into();
    }
    let judged = match &moment.scene.victim.state {
        State::Stopped => stopped(moment),
        State::Gone => Cause::unexplained(Unknown::ThreadEnded),
        State::Unknown => unknown_state(moment),
        State::Running => on_top(moment).unwrap_or_else(|| running(moment)),
        State::Woken | State::Queued => match on_top(moment) {
            Some(cause) => cause,
            None => return ready(moment),
        },
        State::Asleep(why) => on_top(moment).unwrap_or_else(|| asleep(moment, why)),
    };
    judged.into()
}

/// Returns the interrupt of any kind on top of the current thread.
fn on_top(moment: &Moment<'_, '_>) -> Option<Cause> {
    let context = moment.context;
    if context.nmi > 0 {
        return Some(Cause::new(Source::Nmi));
    }
    if let Some(outermost) = context.handlers.first() {
        return Some(interrupt(moment, outermost));
    }
    // A softirq delays a sleeping thread only if the thread's timer expires in the softirq, or if
    // the softirq delays another thread that the victim waits for.
    let asleep = matches!(moment.scene.victim.state, State::Asleep(_));
    if asleep && !is_of_two(moment.scene.window.delay) && !by_softirq(moment) {
        return None;
    }
    context
        .softirq
        .map(|vec| Cause::new(Source::Softirq(vec)).with(Detail::On(context.current)))
}

/// Returns whether the delay involves a second thread, whose delays then also count.
const fn is_of_two(delay: Delay) -> bool {
    matches!(delay, Delay::Call | Delay::Step)
}

fn by_softirq(moment: &Moment<'_, '_>) -> bool {
    let waking = moment.scene.future.waking(moment.from);
    waking.is_some_and(|waking| waking.by == WakeSource::Softirq)
}

fn interrupt(moment: &Moment<'_, '_>, outermost: &Handler) -> Cause {
    let source = match outermost {
        Handler::Vector(vector) => Source::Vector(vector.clone()),
        Handler::Irq { irq, name } => Source::Irq {
            irq: *irq,
            name: name.clone(),
        },
        // The events of its interrupt vector are not recorded, so the timer function is the
        // outermost handler.
        Handler::Timer { .. } => Source::Vector(punctual_model::Vector::LocalTimer),
    };
    let detail = match moment.context.handlers.last() {
        Some(Handler::Timer { function, .. }) => {
            Some(Detail::Function(symbol(moment.scene.window, *function)))
        }
        Some(Handler::Irq { name, .. }) if moment.context.handlers.len() > 1 => {
            Some(Detail::Nested(name.clone()))
        }
        _ => moment.context.ipi_sender.map(|ipi| Detail::SentBy {
            sender: ipi.task.as_ref().map(Name::from),
            cpu: ipi.cpu,
            function: function_at(moment.scene.window, ipi.callsite),
        }),
    };
    Cause::new(source).with(detail)
}

/// Returns the function that contains an address, without the offset.
fn function_at(window: &Window, address: u64) -> Text {
    let symbol = symbol(window, address);
    let (function, _) = symbol.0.split_once('+').unwrap_or((&symbol.0, ""));
    Text::from(function)
}

fn stopped(moment: &Moment<'_, '_>) -> Cause {
    let by = moment.scene.victim.stop_signal.map(|(signal, sender)| {
        let sender = moment.scene.threads.task(sender);
        Signal {
            signal,
            sender: Name::from(&sender),
        }
    });
    Cause::new(Source::Stopped(by))
}

fn unknown_state(moment: &Moment<'_, '_>) -> Cause {
    let window = moment.scene.window;
    if !window.has(SWITCH) {
        return Cause::not_recorded(Missing::WhatRan, &[SWITCH]);
    }
    if !window.has(WAKING) && !window.has(WAKEUP) {
        return Cause::not_recorded(Missing::WakeUp, &[WAKING]);
    }
    Cause::unexplained(match moment.scene.future.cpu_at(moment.from) {
        Some(_) => Unknown::NothingBefore,
        None => Unknown::NoEventOfThread,
    })
}

/// Returns the cause while the victim is running on its CPU.
fn running(moment: &Moment<'_, '_>) -> Cause {
    if let Some(cause) = in_switch(moment) {
        return cause;
    }
    let (victim, window) = (&moment.scene.victim, moment.scene.window);
    let in_fault = victim.fault.is_some_and(|at| {
        // After a fault, a probe's loop only reads the clock.
        let all = does_nothing(window.delay) && (victim.slept || window.delay == Delay::Step);
        let over = moment.from + moment.length > at + FAULT_TIME;
        (all && at >= window.expected) || !over
    });
    // A step begins in user space, so earlier faults are over.
    let is_earlier = window.delay == Delay::Step && victim.fault < Some(window.expected);
    if in_fault && !is_earlier {
        Cause::new(Source::PageFault)
    } else {
        own_time(moment)
    }
}

/// Returns the cause until an event that the thread before the victim wrote after `sched_switch`: the
/// switch was not complete.
fn in_switch(moment: &Moment<'_, '_>) -> Option<Cause> {
    let Some(TimelineEvent::Event(event)) = moment.next else {
        return None;
    };
    let EventKind::Requested { name, .. } = &event.kind else {
        return None;
    };
    let before = event.cpu == moment.cpu && event.pid != moment.scene.victim.tid;
    before.then(|| {
        Cause::new(Source::Scheduling).with(Detail::InSwitch {
            from: Name::from(&moment.scene.threads.task(event.pid)),
            until: name.clone(),
        })
    })
}

/// Returns the cause while the victim is waiting for its CPU.
fn ready(moment: &Moment<'_, '_>) -> Judged {
    let scene = moment.scene;
    if !scene.window.has(SWITCH) {
        let what = match scene.window.evidence.timer_interrupt {
            Some(_) => Missing::AfterInterrupt,
            None => Missing::WhatRan,
        };
        return Cause::not_recorded(what, &[SWITCH]).into();
    }
    let Some(task) = moment.context.current else {
        return unseen(moment).into();
    };
    let scheduling = || Cause::new(Source::Scheduling);
    let idle_until = scene.future.is_idle_until_switch(moment.cpu, moment.from);
    let cause = match scene.victim.prio {
        _ if moves_it(moment, &task) => {
            let to = scene.future.cpu_at(moment.from);
            let by = Detail::MovedBy(Name::from(&task));
            Cause::new(Source::Migration {
                from: moment.cpu,
                to,
            })
            .with(by)
        }
        own if scene.victim.passed_over && task.is_idle() && idle_until != Some(false) => {
            return not_run(moment, own, true);
        }
        Some(own) if scene.victim.passed_over && own.is_real_time() && !task.prio.is_above(own) => {
            passed_over(scene.window, own, &task)
        }
        _ if task.is_idle() && !scene.future.is_switched_in(moment.from) => no_switch_in(moment),
        _ if task.is_idle() => match moment.context.idle {
            None if moment.length <= SHORT => scheduling(),
            _ if is_longer_than_exit(moment) && idle_until == Some(true) => {
                let victim = &scene.victim;
                let queued = victim.state == State::Queued || victim.woken_here;
                return not_run(moment, victim.prio, queued);
            }
            _ => idle(moment),
        },
        _ if scene.victim.waited_for == Some(task.pid) => lock(moment, task.pid, &[]),
        _ if task.pid == scene.victim.tid => scheduling(),
        _ if let Some(cause) = kept_cpu(moment, &task) => cause,
        None => Cause::unexplained(Unknown::OwnPriority).with(Detail::Ran(task)),
        Some(own) => {
            return Judged {
                cause: other_thread(moment, &task, own),
                rival: rival(&task, own),
            };
        }
    };
    cause.into()
}

/// Returns the thread that is running on the CPU instead of the victim, if a quota may have delayed
/// the victim. Only ordinary threads have quotas.
fn rival(task: &Task, own: KernelPriority) -> Option<u32> {
    (!own.is_real_time() && !task.prio.is_real_time()).then_some(task.pid)
}

/// Returns the cause while the idle CPU does not run the victim. A quota may have caused it.
fn not_run(moment: &Moment<'_, '_>, own: Option<KernelPriority>, queued: bool) -> Judged {
    let rival = own.filter(|own| !own.is_real_time());
    Judged {
        cause: held::not_run(moment.scene.window, moment.cpu, own, queued),
        rival: rival.map(|_| IDLE),
    }
}

/// ID of the idle thread.
const IDLE: u32 = 0;

/// Returns the cause if the idle CPU was assigned to the victim and no event shows when the victim
/// began to run. Some kernels lose the events of a CPU's idle thread. For this reason, the time
/// from the wake-up to the first instruction cannot be split.
fn no_switch_in(moment: &Moment<'_, '_>) -> Cause {
    Cause::unexplained(Unknown::NoSwitchIn(moment.cpu)).with(Detail::Together)
}

/// Returns the cause while another thread is running on the CPU that the victim is waiting for.
fn other_thread(moment: &Moment<'_, '_>, task: &Task, own: KernelPriority) -> Cause {
    if task.prio == KernelPriority::UNKNOWN {
        return with_rank(Role::Unranked, task, doing(moment, task.pid));
    }
    let role = match () {
        () if task.prio.is_above(own) => Role::HigherPriority,
        () if task.prio == own || !own.is_real_time() => Role::Competing,
        () => Role::Blocking,
    };
    let mut activity = doing(moment, task.pid);
    if role == Role::Blocking {
        let switches_to_it = matches!(moment.next, Some(TimelineEvent::Event(event))
            if matches!(event.kind, EventKind::Switch { next, .. } if next.pid == moment.scene.victim.tid));
        if moment.length <= VERY_SHORT || (moment.length <= SHORT && switches_to_it) {
            return Cause::new(Source::Scheduling);
        }
        let scene = moment.scene;
        let pending = scene.victim.state == State::Woken && !scene.victim.woken_here;
        if pending && scene.future.is_queued(moment.from) {
            let detail = Detail::Ran(*task);
            return if moment.length <= SHORT {
                Cause::new(Source::Scheduling)
            } else {
                Cause::unexplained(Unknown::WakeupPending).with(detail)
            };
        }
        let missing = handlers_missing(moment.scene.window);
        if !missing.is_empty() && moment.length > VERY_SHORT {
            return Cause::not_recorded(Missing::HandlerOn(task.into()), &missing);
        }
        let preemption_off = moment.context.preempt_off;
        activity = activity
            .or(preemption_off.map(|at| Activity::PreemptionOff(symbol(moment.scene.window, at))));
    }
    Cause::thread(role, task).with(Detail::Rank(Rank {
        activity,
        ..task.into()
    }))
}

/// Returns whether this is the thread that migrates the victim to another CPU.
fn moves_it(moment: &Moment<'_, '_>, task: &Task) -> bool {
    let elsewhere = moment.scene.future.cpu_at(moment.from);
    task.comm.bytes().starts_with(b"migration/") && elsewhere.is_some_and(|cpu| cpu != moment.cpu)
}

/// Returns the cause while the victim is asleep.
fn asleep(moment: &Moment<'_, '_>, why: &Why) -> Cause {
    let scene = moment.scene;
    match why {
        Why::Page => return Cause::new(Source::PageFault).with(Detail::WaitingForPage),
        Why::Lock { chain, .. } => {
            if let Some(holder) = scene.future.holder(chain, moment.from) {
                return lock(moment, holder, chain);
            }
        }
        Why::First | Why::Again => {}
    }
    // No thread is about to release a lock to the victim, so the victim is asleep for another
    // reason.
    let first = matches!(why, Why::First | Why::Lock { first: true, .. });
    let Some(waking) = scene.future.waking(moment.from) else {
        return if scene.window.has(WAKING) || scene.window.has(WAKEUP) {
            Cause::unexplained(Unknown::NoWaker)
        } else {
            Cause::not_recorded(Missing::WakeUp, &[WAKING])
        };
    };
    if let (true, Some(caller)) = (is_of_two(scene.window.delay), &waking.caller) {
        return other_side(moment, caller);
    }
    match waking.by {
        WakeSource::Thread(task) => with_rank(Role::Waker, &task, None),
        WakeSource::Unknown => {
            let missing = handlers_missing(scene.window);
            Cause::not_recorded(Missing::WakeUp, &missing)
        }
        // The timer interrupt has raised its softirq, which has not run yet.
        WakeSource::Softirq if moment.context.timer_softirq_raised() => {
            match moment.context.current {
                Some(task) if !task.is_idle() => {
                    with_rank(Role::Blocking, &task, Some(Activity::DelaysSoftirq))
                }
                _ => Cause::new(Source::Scheduling),
            }
        }
        WakeSource::Interrupt | WakeSource::Softirq if first => timer(moment),
        WakeSource::Interrupt | WakeSource::Softirq => Cause::new(Source::AwaitedInterrupt),
    }
}

/// Attributes the time to a thread, with its priority and activity.
fn with_rank(role: Role, task: &Task, activity: Option<Activity>) -> Cause {
    Cause::thread(role, task).with(Detail::Rank(Rank {
        activity,
        ..task.into()
    }))
}

/// Returns the cause while the victim is waiting for a call that another thread has not made yet.
/// The cause is the activity of that thread on its own CPU, or the delay of that thread.
fn other_side(moment: &Moment<'_, '_>, waker: &Task) -> Cause {
    let Some(current) = moment.context.current else {
        return unseen(moment);
    };
    let own = |activity| with_rank(Role::Waker, waker, activity);
    match () {
        () if current.pid == waker.pid => own(doing(moment, waker.pid)),
        // The waker is asleep. There is no search for the thread that it is waiting for.
        () if moment.scene.threads.is_asleep(waker.pid) => own(Some(Activity::Asleep)),
        () if current.is_idle() && moment.length <= SHORT => Cause::new(Source::Scheduling),
        () if current.is_idle() => idle(moment),
        () => in_its_way(moment, &current, waker),
    }
}

/// Returns the cause while another thread is running on the CPU of the thread that the victim is
/// waiting for. This other thread may have a lower rank than the victim.
fn in_its_way(moment: &Moment<'_, '_>, current: &Task, waker: &Task) -> Cause {
    let mut cause = other_thread(moment, current, waker.prio);
    if let Some(Detail::Rank(rank)) = &mut cause.detail {
        rank.before = Some(*waker);
    }
    cause
}

/// Returns the cause while the victim is waiting for a lock. `chain`: threads that inherited the
/// victim's priority.
fn lock(moment: &Moment<'_, '_>, holder: u32, chain: &[u32]) -> Cause {
    let scene = moment.scene;
    let task = scene.threads.task(holder);
    let above = |current: &Task| (scene.victim.prio).is_some_and(|own| current.prio.is_above(own));
    match moment.context.current {
        Some(current) if current.pid != holder && !current.is_idle() && above(&current) => {
            with_rank(Role::HigherPriority, &current, None)
        }
        _ => {
            // The thread that the holder is waiting for also inherits the priority.
            let place = chain.iter().position(|one| *one == holder);
            let next = place.and_then(|place| chain.get(place + 1));
            let asleep = scene.threads.is_asleep(holder);
            let next = next.filter(|next| asleep && scene.future.gives_up(**next, moment.from));
            let waits =
                next.map(|next| Activity::AwaitsLockOf((&scene.threads.task(*next)).into()));
            with_rank(
                Role::LockHolder,
                &task,
                waits.or_else(|| doing(moment, holder)),
            )
        }
    }
}

/// Returns the cause while the timer is due but its interrupt has not come yet.
fn timer(moment: &Moment<'_, '_>) -> Cause {
    if !moment.context.seen {
        return unseen(moment);
    }
    let (slack, known) = moment.scene.slack();
    if moment.from < moment.scene.window.expected + slack {
        return Cause::new(Source::TimerSlack).with(Detail::Slack {
            slack_ns: slack,
            known,
        });
    }
    let Some(task) = moment.context.current else {
        return unseen(moment);
    };
    if let Some(cause) = stated_interrupt(moment, &task) {
        return cause;
    }
    if task.is_idle() {
        let exit = idle(moment);
        // The timer was late, whatever the events that are missing would show.
        let unknown = matches!(
            exit.source,
            Source::Unexplained(Unknown::NotRecorded { .. })
        );
        return if unknown && moment.scene.sleeps_until_timer(moment.from) {
            Cause::new(Source::TimerLate)
        } else {
            exit
        };
    }
    // Only an `irq_disable` event proves a longer time with interrupts disabled. The flag of
    // another event applies to that moment only: many events are written with interrupts disabled.
    if let Some(Some(place)) = moment.context.irqs_off {
        return Cause::new(Source::IrqsOff(Name::from(&task)))
            .with(Detail::At(symbol(moment.scene.window, place)));
    }
    if moment.length <= SHORT {
        return Cause::new(Source::TimerLate);
    }
    untraced(moment, Ran::Thread(Name::from(&task)))
}

/// Returns the cause if timerlat states when its interrupt came. The stack that it saved shows the
/// code that had to end, or to enable interrupts, before the interrupt could come.
fn stated_interrupt(moment: &Moment<'_, '_>, task: &Task) -> Option<Cause> {
    let window = moment.scene.window;
    window.evidence.timer_interrupt?;
    match interrupted_at(window).filter(|_| !task.is_idle() && moment.length > VERY_SHORT) {
        Some(at) => {
            let (ns, until) = (None, None);
            let stays = Detail::Stays(vec![Stay { ns, at, until }]);
            Some(Cause::new(Source::IrqsOff(Name::from(task))).with(stays))
        }
        None => (moment.length <= SHORT).then(|| Cause::new(Source::TimerLate)),
    }
}

/// Returns the kernel functions that timerlat's interrupt interrupted, if its stack is known.
fn interrupted_at(window: &Window) -> Option<Text> {
    let mut events = window.events.iter();
    let functions = events.find_map(|event| match &event.kind {
        EventKind::TimerlatStack { frames } => interrupted_functions(frames, window),
        _ => None,
    })?;
    let innermost = functions.get(..FUNCTIONS).unwrap_or(&functions);
    (!innermost.is_empty()).then(|| Text::from(&*innermost.join(" < ")))
}

/// Returns what the interrupted thread does if it keeps the CPU although the scheduler has decided to
/// preempt it for timerlat's thread, whose priority the trace does not contain.
fn kept_cpu(moment: &Moment<'_, '_>, task: &Task) -> Option<Cause> {
    let window = moment.scene.window;
    let at = window.evidence.timer_interrupt?;
    let unknown = task.prio == KernelPriority::UNKNOWN && !task.is_idle();
    if !unknown || !moment.context.need_resched {
        return None;
    }
    let mut events = window.events.iter();
    let was_interrupted = events.any(|event| {
        event.pid == task.pid
            && event.time == at
            && matches!(event.kind, EventKind::TimerlatStack { .. })
    });
    let place = interrupted_at(window).filter(|_| was_interrupted);
    let activity = place.map(Activity::PreemptionOff);
    Some(with_rank(Role::Blocking, task, activity))
}

fn unseen(moment: &Moment<'_, '_>) -> Cause {
    if moment.scene.window.has(SWITCH) {
        Cause::unexplained(Unknown::NoEventOfCpu(moment.cpu))
    } else {
        Cause::not_recorded(Missing::WhatRan, &[SWITCH])
    }
}
