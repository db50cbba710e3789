//! Who takes the time at a moment.

use punctual_model::{Delay, EventKind, KernelPriority, Nanos, ShareKind, Task, Vector};

use crate::context::{Context, Doing, Handler, UNKNOWN_PRIORITY};
use crate::gap::{Runs, own_time, untraced};
use crate::lane::{By, Mark};
use crate::victim::{State, Why};
use crate::walk::Walk;

/// A stretch of time without any event, and what is known of it.
pub(crate) struct Moment<'a, 'w> {
    pub(crate) walk: &'a Walk<'w>,
    /// Of the CPU that matters.
    pub(crate) context: &'a Context,
    pub(crate) cpu: u32,
    pub(crate) from: Nanos,
    pub(crate) length: Nanos,
    /// What ends it.
    pub(crate) next: Option<&'a Mark<'a>>,
}

/// Who takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) kind: ShareKind,
    pub(crate) who: String,
    pub(crate) detail: Option<String>,
    /// Who had the CPU while the victim was runnable, where that may be a
    /// throttle.
    pub(crate) rival: Option<u32>,
}

impl Cause {
    pub(crate) fn new(kind: ShareKind, who: impl Into<String>) -> Self {
        Self {
            kind,
            who: who.into(),
            detail: None,
            rival: None,
        }
    }

    pub(crate) fn with(mut self, detail: impl Into<Option<String>>) -> Self {
        self.detail = detail.into();
        self
    }
}

/// Without any event for longer than this, time is not what a timer, a switch
/// or a way back to user space takes.
const SHORT: Nanos = Nanos::from_micros(10);

/// A thread that is seen for no longer than this between two handlers has not
/// kept the CPU from anyone.
const VERY_SHORT: Nanos = Nanos::from_micros(2);

/// What the way back to user space takes, with all that waits there to be done.
pub(crate) const RETURN: Nanos = Nanos::from_micros(25);

/// What the deepest idle states of usual processors take to leave, where the
/// kernel does not say (the tables in drivers/idle/intel_idle.c).
const IDLE_EXIT: Nanos = Nanos::from_millis(1);

const SWITCH: &str = "sched:sched_switch";
const WAKING: &str = "sched:sched_waking";
const WAKEUP: &str = "sched:sched_wakeup";
const SOFTIRQ: &str = "irq:softirq_entry";
pub(crate) const IRQ: &str = "irq:irq_handler_entry";
pub(crate) const VECTORS: &str = "irq_vectors:*_entry";
pub(crate) const IRQS_OFF: &str = "preemptirq:irq_disable";
pub(crate) const FAULT: &str = "exceptions:page_fault_user";

pub(crate) fn cause(moment: &Moment<'_, '_>) -> Cause {
    let walk = moment.walk;
    match &walk.victim.state {
        State::Stopped => stopped(moment),
        State::Gone => Cause::new(ShareKind::Unexplained, "the thread has ended"),
        State::Unknown => unknown_state(moment),
        State::Running => on_top(moment).unwrap_or_else(|| running(moment)),
        State::Woken | State::Queued => on_top(moment).unwrap_or_else(|| ready(moment)),
        State::Asleep(why) => on_top(moment).unwrap_or_else(|| asleep(moment, why)),
    }
}

/// What is on top of whatever runs: interrupts of all kinds.
fn on_top(moment: &Moment<'_, '_>) -> Option<Cause> {
    let context = moment.context;
    if context.nmi > 0 {
        return Some(Cause::new(ShareKind::Nmi, "non-maskable interrupt"));
    }
    if let Some(outermost) = context.handlers.first() {
        return Some(interrupt(moment, outermost));
    }
    // A softirq keeps a sleeper from nothing but a timer that expires in one, and
    // from what another thread does.
    let asleep = matches!(moment.walk.victim.state, State::Asleep(_));
    if asleep && !is_of_two(moment.walk.window.delay) && !by_softirq(moment) {
        return None;
    }
    context.softirq.map(|vec| softirq(moment, vec))
}

/// Whether another thread has a part in it: what keeps that one counts.
const fn is_of_two(delay: Delay) -> bool {
    matches!(delay, Delay::Call | Delay::Step)
}

fn by_softirq(moment: &Moment<'_, '_>) -> bool {
    let waking = moment.walk.future.waking(moment.from);
    waking.is_some_and(|waking| waking.by == By::Softirq)
}

fn interrupt(moment: &Moment<'_, '_>, outermost: &Handler) -> Cause {
    let window = moment.walk.window;
    let who = match outermost {
        Handler::Vector(vector) => vector.name().to_owned(),
        Handler::Irq { irq, name } if name.0.is_empty() => format!("interrupt {irq}"),
        Handler::Irq { irq, name } => format!("{name} ({irq})"),
        // Without the events of its vector.
        Handler::Timer { .. } => Vector::LocalTimer.name().to_owned(),
    };
    let detail = match moment.context.handlers.last() {
        Some(Handler::Timer { function, .. }) => Some(window.symbol(*function)),
        Some(Handler::Irq { name, .. }) if moment.context.handlers.len() > 1 => {
            Some(name.to_string())
        }
        _ => None,
    };
    Cause::new(ShareKind::Interrupt, who).with(detail)
}

fn softirq(moment: &Moment<'_, '_>, vec: u32) -> Cause {
    let inside = match moment.context.current {
        Some(task) if task.is_idle() => "on the idle CPU".to_owned(),
        Some(task) => format!("in {}", rank(&task)),
        None => "in an unknown thread".to_owned(),
    };
    Cause::new(ShareKind::Softirq, punctual_model::softirq_name(vec)).with(inside)
}

fn stopped(moment: &Moment<'_, '_>) -> Cause {
    let who = match moment.walk.victim.stop_signal {
        Some((sig, sender)) => {
            let sender = moment.walk.threads.task(sender);
            format!("signal {sig} from {}", name(&sender))
        }
        None => "a signal or a debugger".to_owned(),
    };
    Cause::new(ShareKind::Stopped, who)
}

fn unknown_state(moment: &Moment<'_, '_>) -> Cause {
    let window = moment.walk.window;
    if !window.has(SWITCH) {
        return not_recorded("what ran", &[SWITCH]);
    }
    if !window.has(WAKING) && !window.has(WAKEUP) {
        return not_recorded("the wake-up", &[WAKING]);
    }
    let what = match moment.walk.future.place(moment.from) {
        Some(_) => "no event tells what the thread did before it ran",
        None => "no event of the thread",
    };
    Cause::new(ShareKind::Unexplained, what)
}

pub(crate) fn not_recorded(what: &str, events: &[&str]) -> Cause {
    let events = events.join(", ");
    Cause::new(
        ShareKind::Unexplained,
        format!("{what} ({events} not recorded)"),
    )
}

/// The victim is on its CPU.
fn running(moment: &Moment<'_, '_>) -> Cause {
    match moment.walk.victim.in_fault {
        true => Cause::new(ShareKind::PageFault, "page faults of its own"),
        false => own_time(moment),
    }
}

/// The victim waits for its CPU.
fn ready(moment: &Moment<'_, '_>) -> Cause {
    let walk = moment.walk;
    if !walk.window.has(SWITCH) {
        return not_recorded("what ran", &[SWITCH]);
    }
    let Some(task) = moment.context.current else {
        return unseen(moment);
    };
    if moves_it(moment, &task) {
        let who = walk.future.place(moment.from).map_or_else(
            || format!("from CPU {}", moment.cpu),
            |to| format!("from CPU {} to CPU {to}", moment.cpu),
        );
        return Cause::new(ShareKind::Migration, who).with(format!("by {}", name(&task)));
    }
    if walk.victim.passed_over {
        let own = walk.victim.prio;
        let mut cause = passed_over(own, &task);
        cause.rival = own.and_then(|own| rival(&task, own));
        return cause;
    }
    if task.is_idle() && !walk.future.is_switched_in(moment.from) {
        return no_switch_in(moment);
    }
    if task.is_idle() {
        return match moment.context.idle {
            Some(_) => idle(moment),
            None if moment.length <= SHORT => Cause::new(ShareKind::Scheduling, "the scheduler"),
            None => idle(moment),
        };
    }
    if walk.victim.waited_for == Some(task.pid) {
        return lock(moment, task.pid);
    }
    if task.pid == walk.victim.tid {
        return Cause::new(ShareKind::Scheduling, "the scheduler");
    }
    let Some(own) = walk.victim.prio else {
        return Cause::new(ShareKind::Unexplained, "the thread's own priority")
            .with(format!("{} ran", rank(&task)));
    };
    let mut cause = other_thread(moment, &task, own);
    cause.rival = rival(&task, own);
    cause
}

/// The thread that has the CPU instead, where a quota may have kept the victim
/// from it: only ordinary threads have quotas.
fn rival(task: &Task, own: KernelPriority) -> Option<u32> {
    (!own.is_real_time() && !task.prio.is_real_time()).then_some(task.pid)
}

/// A thread of lower rank, or none, got the CPU while the victim was runnable.
fn passed_over(own: Option<KernelPriority>, task: &Task) -> Cause {
    let by = match own {
        Some(own) if own.0 < 0 => "the budget of SCHED_DEADLINE was used up",
        Some(own) if own.is_real_time() => "real-time throttling",
        _ => "CPU quota of a control group",
    };
    let instead = match task.is_idle() {
        true => "the CPU was idle meanwhile".to_owned(),
        false => format!("{} ran meanwhile", rank(task)),
    };
    Cause::new(ShareKind::Throttled, by).with(instead)
}

/// The idle CPU was given to the victim, which ran in the end, and no event
/// tells when: some kernels lose the events of a CPU's idle thread. Where the
/// time went between the wake-up and the first instruction is not known.
fn no_switch_in(moment: &Moment<'_, '_>) -> Cause {
    let who = format!("no switch from idle was told on CPU {}", moment.cpu);
    let together = "idle exit, switch and way to user space together";
    Cause::new(ShareKind::Unexplained, who).with(together.to_owned())
}

/// Another thread has the CPU that the victim waits for.
fn other_thread(moment: &Moment<'_, '_>, task: &Task, own: KernelPriority) -> Cause {
    let doing = doing(moment, task.pid);
    let with_rank = |detail: Option<String>| match detail {
        Some(detail) => format!("{}, {detail}", task.prio),
        None => task.prio.to_string(),
    };
    if task.prio.0 == UNKNOWN_PRIORITY {
        let who = format!("{} ran, its priority is not known", name(task));
        return Cause::new(ShareKind::Unexplained, who);
    }
    let kind = match () {
        () if task.prio.is_above(own) => ShareKind::HigherPriority,
        () if task.prio == own || !own.is_real_time() => ShareKind::Competing,
        () => ShareKind::Blocking,
    };
    if kind != ShareKind::Blocking {
        return Cause::new(kind, name(task)).with(with_rank(doing));
    }
    let switches_to_it = matches!(moment.next, Some(Mark::Event(event))
        if matches!(event.kind, EventKind::Switch { next, .. } if next.pid == moment.walk.victim.tid));
    if moment.length <= VERY_SHORT || (moment.length <= SHORT && switches_to_it) {
        return Cause::new(ShareKind::Scheduling, "the scheduler");
    }
    let missing: Vec<&str> = [SOFTIRQ, IRQ]
        .into_iter()
        .filter(|event| !moment.walk.window.has(event))
        .collect();
    if !missing.is_empty() && moment.length > SHORT {
        let what = format!("{}, or a handler on top of it", name(task));
        return not_recorded(&what, &missing);
    }
    Cause::new(kind, name(task)).with(with_rank(doing.or_else(|| preemption_off(moment))))
}

fn preemption_off(moment: &Moment<'_, '_>) -> Option<String> {
    let place = moment.context.preempt_off?;
    let symbol = moment.walk.window.symbol(place);
    Some(format!("preemption disabled at {symbol}"))
}

/// Whether this is the thread that carries the victim to another CPU.
fn moves_it(moment: &Moment<'_, '_>, task: &Task) -> bool {
    let elsewhere = moment.walk.future.place(moment.from);
    task.comm.bytes().starts_with(b"migration/") && elsewhere.is_some_and(|cpu| cpu != moment.cpu)
}

/// The victim sleeps.
fn asleep(moment: &Moment<'_, '_>, why: &Why) -> Cause {
    let walk = moment.walk;
    match why {
        Why::Page => {
            return Cause::new(ShareKind::PageFault, "page faults of its own")
                .with("waiting for a page".to_owned());
        }
        Why::Lock(holder) => return lock(moment, *holder),
        Why::First | Why::Again => {}
    }
    let Some(waking) = walk.future.waking(moment.from) else {
        return match walk.window.has(WAKING) || walk.window.has(WAKEUP) {
            true => Cause::new(ShareKind::Unexplained, "no event tells what woke it"),
            false => not_recorded("the wake-up", &[WAKING]),
        };
    };
    if let (true, Some(caller)) = (is_of_two(walk.window.delay), &waking.caller) {
        return other_side(moment, caller);
    }
    match waking.by {
        By::Thread(task) => Cause::new(ShareKind::Waiting, name(&task)).with(task.prio.to_string()),
        // Its interrupt has come; the softirq has to.
        By::Softirq if moment.context.timer_softirq_raised() => match moment.context.current {
            Some(task) if !task.is_idle() => Cause::new(ShareKind::Blocking, name(&task))
                .with("the timer's softirq waits".to_owned()),
            _ => Cause::new(ShareKind::Scheduling, "the scheduler"),
        },
        By::Interrupt | By::Softirq if *why == Why::First => timer(moment),
        By::Interrupt | By::Softirq => Cause::new(ShareKind::Waiting, "an interrupt"),
    }
}

/// The victim sleeps until another's call reaches it, and that one has not come
/// to it: what it does, or what keeps it, on its own CPU.
fn other_side(moment: &Moment<'_, '_>, waker: &Task) -> Cause {
    let walk = moment.walk;
    let Some(current) = moment.context.current else {
        return unseen(moment);
    };
    let own = |detail: Option<String>| {
        Cause::new(ShareKind::Waiting, name(waker)).with(match detail {
            Some(detail) => format!("{}, {detail}", waker.prio),
            None => waker.prio.to_string(),
        })
    };
    match () {
        () if current.pid == waker.pid => own(doing(moment, waker.pid)),
        // Whom it waits for in turn is not looked for.
        () if walk.threads.is_asleep(waker.pid) => own(Some("which slept itself".to_owned())),
        () if current.is_idle() && moment.length <= SHORT => {
            Cause::new(ShareKind::Scheduling, "the scheduler")
        }
        () if current.is_idle() => idle(moment),
        () => in_its_way(moment, &current, waker),
    }
}

/// Another thread has the CPU of the one that the victim waits for; by rank it
/// may be below the victim.
fn in_its_way(moment: &Moment<'_, '_>, current: &Task, waker: &Task) -> Cause {
    let cause = other_thread(moment, current, waker.prio);
    let beside = match cause.kind {
        ShareKind::HigherPriority => "above",
        ShareKind::Competing => "as",
        ShareKind::Blocking => "below",
        _ => return cause,
    };
    let waited_for = format!("{beside} {}, which it waited for", rank(waker));
    let detail = match &cause.detail {
        Some(detail) => format!("{detail}; {waited_for}"),
        None => waited_for,
    };
    cause.with(detail)
}

/// The victim waits for a lock.
fn lock(moment: &Moment<'_, '_>, holder: u32) -> Cause {
    let walk = moment.walk;
    let task = walk.threads.task(holder);
    match moment.context.current {
        Some(current) if current.pid != holder && !current.is_idle() => {
            let above = walk
                .victim
                .prio
                .is_some_and(|own| current.prio.is_above(own));
            if above {
                return Cause::new(ShareKind::HigherPriority, name(&current))
                    .with(current.prio.to_string());
            }
        }
        _ => {}
    }
    let detail = match doing(moment, holder) {
        Some(doing) => format!("{}, {doing}", task.prio),
        None => task.prio.to_string(),
    };
    Cause::new(ShareKind::LockHolder, name(&task)).with(detail)
}

/// The timer is due and its interrupt has not come.
fn timer(moment: &Moment<'_, '_>) -> Cause {
    if !moment.context.seen {
        return unseen(moment);
    }
    let (slack, known) = moment.walk.slack();
    if moment.from < moment.walk.window.expected + slack {
        let detail = match known {
            true => format!("of {slack}"),
            false => format!("of {slack}, the usual one of ordinary threads"),
        };
        return Cause::new(ShareKind::TimerSlack, "its own timer").with(detail);
    }
    let Some(task) = moment.context.current else {
        return unseen(moment);
    };
    if task.is_idle() {
        return idle(moment);
    }
    // Only the event of the disabling itself proves it. A flag of another event
    // is of that moment only: many are written with interrupts disabled.
    if let Some(Some(place)) = moment.context.irqs_off {
        let place = format!("at {}", moment.walk.window.symbol(place));
        return Cause::new(ShareKind::IrqsOff, name(&task)).with(place);
    }
    if moment.length <= SHORT {
        return Cause::new(ShareKind::TimerLate, "the timer's interrupt");
    }
    untraced(moment, &Runs::Current)
}

/// The CPU is idle, and what it waits for has happened.
fn idle(moment: &Moment<'_, '_>) -> Cause {
    let evidence = &moment.walk.window.evidence;
    let longest = evidence.idle_exit.unwrap_or(IDLE_EXIT);
    let stolen = evidence
        .steal
        .is_some_and(|steal| steal.0 >= moment.length.0 / 2);
    if moment.length > longest + SHORT || (stolen && moment.length > SHORT) {
        return untraced(moment, &Runs::Idle);
    }
    let state = moment.context.idle.map(|state| format!("state {state}"));
    Cause::new(ShareKind::IdleExit, format!("CPU {}", moment.cpu)).with(state)
}

fn unseen(moment: &Moment<'_, '_>) -> Cause {
    if !moment.walk.window.has(SWITCH) {
        return not_recorded("what ran", &[SWITCH]);
    }
    let who = format!("no event of CPU {}", moment.cpu);
    Cause::new(ShareKind::Unexplained, who)
}

/// What a thread does in the kernel, as far as an event told.
pub(crate) fn doing(moment: &Moment<'_, '_>, pid: u32) -> Option<String> {
    let window = moment.walk.window;
    Some(match moment.walk.threads.doing(pid)? {
        Doing::Syscall(id) => format!("in {}", window.call(id)),
        Doing::PageFault { user: true } => "in a page fault".to_owned(),
        Doing::PageFault { user: false } => "in a page fault of the kernel".to_owned(),
        Doing::Work(function) => format!("in work {}", window.symbol(function)),
    })
}

/// `make-4711`, or `thread 4711` where its name is not known.
pub(crate) fn name(task: &Task) -> String {
    match task.comm.is_empty() {
        true => format!("thread {}", task.pid),
        false => task.to_string(),
    }
}

/// `make-4711, nice 0`.
fn rank(task: &Task) -> String {
    match task.prio.0 {
        UNKNOWN_PRIORITY => name(task),
        _ => format!("{}, {}", name(task), task.prio),
    }
}
