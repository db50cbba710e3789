//! Activity of a CPU, and of threads in the kernel, after a few events.

use super::*;
use crate::testing::{MAKE, event, flagged, idle, make, on, switch, task, wakeup, waking};

fn hog() -> Task {
    task("hog", 61, 9)
}

/// Returns the state of CPU 1 after these events.
fn after(events: &[TraceEvent]) -> Context {
    let mut threads = Threads::from_events(events);
    let mut context = Context::default();
    for event in events {
        context.apply(event, &mut threads);
    }
    context
}

fn threads_after(events: &[TraceEvent]) -> Threads {
    let mut threads = Threads::from_events(events);
    for event in events {
        threads.apply(event);
    }
    threads
}

fn irq(us: u64, irq: u32) -> TraceEvent {
    let name = "eth0".into();
    event(us, MAKE, EventKind::IrqEntry { irq, name })
}

fn irq_end(us: u64, irq: u32) -> TraceEvent {
    event(us, MAKE, EventKind::IrqExit { irq, ret: 1 })
}

fn vector(us: u64, vector: Vector) -> TraceEvent {
    event(us, MAKE, EventKind::VectorEntry { vector })
}

fn vector_end(us: u64, vector: Vector) -> TraceEvent {
    event(us, MAKE, EventKind::VectorExit { vector })
}

fn timer(us: u64, hrtimer: u64) -> TraceEvent {
    let kind = EventKind::HrtimerExpireEntry {
        hrtimer,
        function: 0xa1,
        now_ns: 0,
    };
    event(us, MAKE, kind)
}

fn timer_end(us: u64, hrtimer: u64) -> TraceEvent {
    event(us, MAKE, EventKind::HrtimerExpireExit { hrtimer })
}

fn softirq(us: u64, vec: u32) -> TraceEvent {
    event(us, MAKE, EventKind::SoftirqEntry { vec })
}

fn softirq_end(us: u64, vec: u32) -> TraceEvent {
    event(us, MAKE, EventKind::SoftirqExit { vec })
}

/// Returns the number of handlers on top of the thread.
fn depth(events: &[TraceEvent]) -> usize {
    after(events).handlers.len()
}

#[test]
fn handlers_nest_until_they_end() {
    let tick = || Vector::LocalTimer;
    assert_eq!(depth(&[irq(1, 24)]), 1);
    assert_eq!(depth(&[irq(1, 24), irq(2, 25)]), 2);
    assert_eq!(depth(&[irq(1, 24), irq(2, 25), irq_end(3, 25)]), 1);
    assert_eq!(depth(&[irq(1, 24), irq_end(2, 24)]), 0);
    assert_eq!(depth(&[vector(1, tick()), vector_end(2, tick())]), 0);
    // The end of another one changes nothing.
    assert_eq!(depth(&[irq(1, 24), irq_end(2, 25)]), 1);
    assert_eq!(depth(&[irq(1, 24), vector_end(2, tick())]), 1);
    let other = vector_end(2, Vector::Reschedule);
    assert_eq!(depth(&[vector(1, tick()), other]), 1);
    let timer_in = |end| depth(&[vector(1, tick()), timer(2, 7), timer_end(3, end)]);
    assert_eq!((timer_in(7), timer_in(8)), (1, 2));
    // The end of the outer one also ends those on top of it, whose ends were lost.
    let outer_ends = [irq(1, 24), irq(2, 25), irq(3, 26), irq_end(4, 24)];
    assert_eq!(depth(&outer_ends), 0);
    // The innermost of equal ones ends.
    assert_eq!(depth(&[irq(1, 24), irq(2, 24), irq_end(3, 24)]), 1);
    // So many cannot be nested.
    let many: Vec<TraceEvent> = (1..40).map(|us| irq(us, 24)).collect();
    assert_eq!(depth(&many), 16);
    // The scheduler cannot run inside an interrupt.
    assert_eq!(depth(&[irq(1, 24), switch(2, make(), 0, hog())]), 0);
}

#[test]
fn timer_function_is_a_handler_only_in_an_interrupt() {
    assert_eq!(depth(&[timer(1, 7)]), 0);
    assert_eq!(depth(&[flagged(TraceEvent::HARDIRQ, timer(1, 7))]), 1);
    assert_eq!(depth(&[flagged(TraceEvent::SOFTIRQ, timer(1, 7))]), 0);
    assert_eq!(depth(&[irq(1, 24), timer(2, 7)]), 2);
}

#[test]
fn events_name_the_current_thread() {
    let current = |events: &[TraceEvent]| after(events).current.map(|task| task.pid);
    assert_eq!(current(&[]), None);
    assert_eq!(current(&[irq(1, 24)]), Some(MAKE));
    assert_eq!(current(&[switch(1, make(), 0, hog())]), Some(61));
    // A switch was lost.
    assert_eq!(
        current(&[switch(1, make(), 0, hog()), irq(2, 24)]),
        Some(MAKE)
    );
    // The stack belongs to the thread that has just left the CPU.
    let stack = |us| event(us, MAKE, EventKind::KernelStack { frames: vec![] });
    assert_eq!(current(&[switch(1, make(), 0, hog()), stack(2)]), Some(61));
    assert_eq!(current(&[stack(2)]), Some(MAKE));
    // Its priority is that of the last switch.
    let context = after(&[switch(1, idle(), 0, make()), irq(2, 24)]);
    assert_eq!(context.current, Some(make()));
}

/// On PREEMPT_RT, a softirq belongs to a thread, and is preempted with it.
#[test]
fn softirq_moves_with_its_thread() {
    let softirq_of = |events: &[TraceEvent]| after(events).softirq;
    let begin = || vec![softirq(1, 3), switch(2, make(), 0, hog())];
    assert_eq!(softirq_of(&begin()[..1]), Some(3));
    assert_eq!(softirq_of(&begin()), None);
    let mut back = begin();
    back.push(switch(3, hog(), 1, make()));
    assert_eq!(softirq_of(&back), Some(3));
    back.push(softirq_end(4, 3));
    assert_eq!(softirq_of(&back), None);
    // It ended before the thread left the CPU again.
    back.extend([switch(5, make(), 0, hog()), switch(6, hog(), 1, make())]);
    assert_eq!(softirq_of(&back), None);
}

#[test]
fn raised_softirq_is_pending_until_it_begins() {
    let raise = |us, vec| event(us, MAKE, EventKind::SoftirqRaise { vec });
    let pending = |events: &[TraceEvent]| after(events).timer_softirq_raised();
    for (vec, is_timer) in [(0, false), (1, true), (3, false), (8, true), (9, false)] {
        assert_eq!(pending(&[raise(1, vec)]), is_timer, "{vec}");
        assert!(!pending(&[raise(1, vec), softirq(2, vec)]), "{vec}");
    }
    assert!(pending(&[raise(1, 1), raise(2, 3), softirq(3, 3)]));
    assert!(pending(&[raise(1, 1), raise(2, 1)]));
    // A damaged number.
    assert!(!pending(&[raise(1, 99)]));
}

/// A softirq at the end of an interrupt does not belong to the thread below it.
#[test]
fn softirq_soon_after_an_interrupt_is_of_the_interrupt() {
    let of_handler = |events: &[TraceEvent]| after(events).softirq_of_handler;
    let after_irq = |us| of_handler(&[irq(1, 24), irq_end(2, 24), softirq(us, 3)]);
    assert!(after_irq(32) && !after_irq(33));
    let tick = |vec, us| {
        let vector_of = || Vector::LocalTimer;
        of_handler(&[
            vector(1, vector_of()),
            vector_end(2, vector_of()),
            softirq(us, vec),
        ])
    };
    assert!(tick(1, 32) && !tick(1, 33));
    // A timer interrupt raises no softirq of the network.
    assert!(!tick(2, 3) && !tick(3, 3) && tick(4, 3));
    let call = || Vector::CallFunction;
    let after_call = [vector(1, call()), vector_end(2, call()), softirq(3, 3)];
    assert!(of_handler(&after_call));
    assert!(!of_handler(&[softirq(3, 3)]));
    // One softirq follows the other. Any other event in between shows that the thread continued.
    let chain = |between: Option<TraceEvent>| {
        let mut events = vec![irq(1, 24), irq_end(2, 24), softirq(3, 1), softirq_end(4, 1)];
        events.extend(between);
        events.push(softirq(6, 3));
        of_handler(&events)
    };
    assert!(chain(None));
    assert!(!chain(Some(waking(5, MAKE, hog()))));
    let own = [softirq(3, 3), softirq_end(4, 3), softirq(5, 3)];
    assert!(!of_handler(&own));
}

#[test]
fn idle_state_lasts_until_a_thread_runs() {
    let (cpu_id, state) = (1, 2);
    let enters = || event(1, 0, EventKind::IdleEntry { state, cpu_id });
    let state_after = |event: TraceEvent| after(&[enters(), event]).idle;
    assert_eq!(after(&[enters()]).idle, Some(2));
    assert_eq!(
        state_after(event(2, 0, EventKind::IdleExit { cpu_id })),
        None
    );
    let of_other = EventKind::IdleExit { cpu_id: 0 };
    assert_eq!(state_after(event(2, 0, of_other)), Some(2));
    assert_eq!(state_after(switch(2, idle(), 0, hog())), None);
    assert_eq!(state_after(switch(2, idle(), 0, idle())), Some(2));
    assert_eq!(
        state_after(event(2, 0, EventKind::SoftirqRaise { vec: 1 })),
        Some(2)
    );
}

#[test]
fn thread_with_disabled_interrupts_is_known_by_events_and_flags() {
    const OFF: u8 = TraceEvent::IRQS_OFF;
    let (caller, parent) = (0xc1, 0);
    let disables = |us| event(us, MAKE, EventKind::IrqDisable { caller, parent });
    let enables = |us| event(us, MAKE, EventKind::IrqEnable { caller, parent });
    let raise = |flags, us| flagged(flags, event(us, MAKE, EventKind::SoftirqRaise { vec: 9 }));
    let off = |events: &[TraceEvent]| after(events).irqs_off;
    assert_eq!(off(&[disables(1)]), Some(Some(0xc1)));
    assert_eq!(off(&[disables(1), enables(2)]), None);
    assert_eq!(off(&[raise(OFF, 1)]), Some(None));
    assert_eq!(off(&[raise(OFF, 1), raise(0, 2)]), None);
    // The place stays known.
    assert_eq!(off(&[disables(1), raise(OFF, 2)]), Some(Some(0xc1)));
    assert_eq!(off(&[disables(1), raise(0, 2)]), None);
    // In a handler, the flag says nothing about the thread.
    for handler in [TraceEvent::HARDIRQ, TraceEvent::NMI] {
        assert_eq!(off(&[raise(OFF | handler, 1)]), None);
        assert_eq!(off(&[disables(1), raise(handler, 2)]), Some(Some(0xc1)));
    }
    assert_eq!(off(&[raise(OFF | TraceEvent::SOFTIRQ, 1)]), Some(None));
    assert_eq!(off(&[irq(1, 24), raise(OFF, 2)]), None);
    // Switches and the entries of vectors always have it.
    assert_eq!(off(&[flagged(OFF, switch(1, hog(), 0, make()))]), None);
    assert_eq!(off(&[flagged(OFF, vector(1, Vector::Reschedule))]), None);
    assert_eq!(
        off(&[flagged(OFF, vector_end(1, Vector::Reschedule))]),
        None
    );
    assert_eq!(off(&[disables(1), switch(2, make(), 0, hog())]), None);
}

#[test]
fn preemption_is_off_from_one_event_to_the_other() {
    let (caller, parent) = (0xc1, 0);
    let disables = || event(1, MAKE, EventKind::PreemptDisable { caller, parent });
    let enables = || event(2, MAKE, EventKind::PreemptEnable { caller, parent });
    assert_eq!(after(&[disables()]).preempt_off, Some(0xc1));
    assert_eq!(after(&[disables(), enables()]).preempt_off, None);
    let left = [disables(), switch(2, make(), 0, hog())];
    assert_eq!(after(&left).preempt_off, None);
}

#[test]
fn request_to_preempt_lasts_until_the_switch() {
    const REQUEST: u8 = TraceEvent::NEED_RESCHED;
    let asked = |events: &[TraceEvent]| after(events).need_resched;
    let raise = |flags, us| flagged(flags, event(us, MAKE, EventKind::SoftirqRaise { vec: 9 }));
    assert!(asked(&[raise(REQUEST, 1)]));
    assert!(asked(&[raise(REQUEST, 1), raise(0, 2)]));
    assert!(!asked(&[raise(0, 1)]));
    // The flag of the switch is that of the thread that leaves.
    assert!(!asked(&[flagged(REQUEST, switch(1, make(), 0, hog()))]));
    assert!(!asked(&[raise(REQUEST, 1), switch(2, make(), 0, hog())]));
}

/// Each kind of interrupt between CPUs has one pending sender.
#[test]
fn interrupt_from_another_cpu_has_the_last_sender_of_its_kind() {
    let send = |pid: u32, callback: u64, flags: u8| {
        let kind = EventKind::IpiSend {
            cpus: vec![1],
            callsite: u64::from(pid),
            callback,
        };
        let event = flagged(flags, on(0, event(1, pid, kind)));
        let threads = Threads::from_events(&[switch(0, make(), 0, hog())]);
        IpiSender::from_event(&event, &threads).unwrap().0
    };
    let sender = |sent: &[IpiSender], vector_of: &Vector| {
        let mut context = Context::default();
        for ipi in sent {
            context.interrupted_by(*ipi);
        }
        let begin = vector(5, vector_of.clone());
        context.apply(&begin, &mut Threads::default());
        let found = context.ipi_sender.map(|ipi| ipi.callsite);
        let end = vector_end(6, vector_of.clone());
        context.apply(&end, &mut Threads::default());
        assert_eq!(context.ipi_sender, None);
        found
    };
    let (call, wake) = (send(61, 0xa2, 0), send(12, 0, 0));
    let ipi = Vector::Other("ipi".into());
    for (vector_of, expected) in [
        (Vector::CallFunction, Some(61)),
        (Vector::CallFunctionSingle, Some(61)),
        (Vector::Reschedule, Some(12)),
        (Vector::LocalTimer, None),
        (Vector::Other("odd".into()), None),
        (ipi.clone(), Some(12)),
    ] {
        assert_eq!(sender(&[call, wake], &vector_of), expected, "{vector_of:?}");
    }
    // The last one counts, if the beginning of an earlier one was lost.
    let later = send(12, 0xa2, 0);
    assert_eq!(sender(&[call, later], &Vector::CallFunction), Some(12));
    assert_eq!(sender(&[call], &Vector::Reschedule), None);
    assert_eq!(sender(&[], &ipi), None);
    assert_eq!(call.task, Some(hog()));
    assert_eq!((call.cpu, later.task), (0, Some(make())));
    for handler in [TraceEvent::HARDIRQ, TraceEvent::SOFTIRQ] {
        assert_eq!(send(61, 0xa2, handler).task, None);
    }
    assert!(IpiSender::from_event(&irq(1, 24), &Threads::default()).is_none());
}

#[test]
fn first_event_shows_what_ran_before_it() {
    let threads = Threads::from_events(&[switch(0, make(), 0, hog())]);
    let before = |event: TraceEvent| Context::before(&event, &threads);
    let unknown = before(event(1, MAKE, EventKind::SoftirqRaise { vec: 1 }));
    assert_eq!(unknown.current, Some(make()));
    assert!(unknown.seen && unknown.handlers.is_empty());
    assert_eq!((unknown.softirq, unknown.idle), (None, None));
    let handler = |event| before(event).handlers;
    assert_eq!(
        handler(vector_end(1, Vector::LocalTimer)),
        [Handler::Vector(Vector::LocalTimer)]
    );
    let (irq, name) = (24, "".into());
    assert_eq!(handler(irq_end(1, 24)), [Handler::Irq { irq, name }]);
    assert_eq!(before(softirq_end(1, 3)).softirq, Some(3));
    let exit = |cpu_id| before(event(1, 0, EventKind::IdleExit { cpu_id })).idle;
    assert_eq!((exit(1), exit(0)), (Some(0), None));
    let left = before(switch(1, hog(), 0, make()));
    assert_eq!(left.current, Some(hog()));
}

/// An activity of a thread in the kernel ends with its event.
#[test]
fn activity_of_a_thread_ends() {
    let own = |us, kind| event(us, MAKE, kind);
    let enters = |us| {
        own(
            us,
            EventKind::SysEnter {
                id: 1,
                args: [0; 2],
            },
        )
    };
    let returns = |us| own(us, EventKind::SysExit { id: 1, ret: 0 });
    let (work, function) = (1, 0xb1);
    let works = |us| own(us, EventKind::WorkqueueStart { work, function });
    let ends = |us| own(us, EventKind::WorkqueueEnd { work, function });
    let doing = |events: &[TraceEvent]| threads_after(events).doing(MAKE);
    assert_eq!(doing(&[enters(1)]), Some(Doing::Syscall(1)));
    assert_eq!(doing(&[enters(1), returns(2)]), None);
    assert_eq!(doing(&[works(1)]), Some(Doing::Work(0xb1)));
    assert_eq!(doing(&[works(1), ends(2)]), None);
    assert_eq!(threads_after(&[enters(1)]).doing(61), None);

    let (lock_addr, ret) = (0xd1, 0);
    let waits = |flags| own(1, EventKind::ContentionBegin { lock_addr, flags });
    let gets = || own(2, EventKind::ContentionEnd { lock_addr, ret });
    let spins = |events: &[TraceEvent]| threads_after(events).spins_for(MAKE);
    assert_eq!(spins(&[waits(1)]), Some(0xd1));
    // A mutex: the waiter sleeps.
    assert_eq!(spins(&[waits(2)]), None);
    assert_eq!(spins(&[waits(3), gets()]), None);

    let address = 0x7000;
    let user = EventKind::PageFaultUser {
        address,
        ip: 0,
        error_code: 6,
    };
    let kernel = EventKind::PageFaultKernel {
        address,
        ip: 0,
        error_code: 6,
    };
    let fault = |events: &[TraceEvent]| threads_after(events).fault(MAKE);
    let at = Nanos::from_micros(1);
    assert_eq!(fault(&[own(1, user.clone())]), Some((at, true)));
    assert_eq!(fault(&[own(1, kernel)]), Some((at, false)));
    // A later call shows that it has ended.
    assert_eq!(fault(&[own(1, user.clone()), enters(2)]), None);
    assert_eq!(fault(&[own(1, user.clone()), returns(2)]), None);
    assert_eq!(fault(&[own(1, user), works(2)]), None);
}

/// Interrupts cannot be disabled in user space, so it must be certain.
#[test]
fn thread_is_in_user_space_after_a_call() {
    let own = |us, kind| event(us, MAKE, kind);
    let enters = |us, id| own(us, EventKind::SysEnter { id, args: [0; 2] });
    let returns = |us, id| own(us, EventKind::SysExit { id, ret: 0 });
    let fault = EventKind::PageFaultUser {
        address: 1,
        ip: 0,
        error_code: 6,
    };
    let in_user = |events: &[TraceEvent]| threads_after(events).is_in_user(MAKE);
    assert!(in_user(&[returns(1, 0)]));
    assert!(!in_user(&[enters(1, 0)]));
    assert!(!in_user(&[returns(1, 0), enters(2, 0)]));
    assert!(!in_user(&[returns(1, 0), own(2, fault)]));
    assert!(!in_user(&[switch(1, make(), 0, hog())]));
    // Calls without a number are only those that the trace was recorded for.
    assert!(!in_user(&[returns(1, -1)]));
    assert!(in_user(&[enters(0, 3), returns(1, -1)]));
    assert!(!threads_after(&[returns(1, 0)]).is_in_user(61));
}

#[test]
fn thread_sleeps_from_its_switch_to_its_wake_up() {
    let asleep = |events: &[TraceEvent]| threads_after(events).is_asleep(MAKE);
    assert!(!asleep(&[]));
    let sleeps = || switch(1, make(), 1, hog());
    assert!(asleep(&[sleeps()]));
    assert!(!asleep(&[switch(1, make(), 0, hog())]));
    assert!(!asleep(&[sleeps(), waking(2, 61, make())]));
    assert!(!asleep(&[sleeps(), wakeup(2, 61, make())]));
    assert!(!asleep(&[sleeps(), switch(2, hog(), 1, make())]));
    assert!(asleep(&[sleeps(), waking(2, 61, hog())]));
}

#[test]
fn threads_are_named_by_events_and_by_records() {
    let boosted = EventKind::PiSetprio {
        task: make(),
        newprio: KernelPriority(4),
    };
    let events = [switch(1, make(), 0, hog()), event(2, 61, boosted)];
    let mut threads = threads_after(&events);
    assert_eq!(threads.task(MAKE).prio, KernelPriority(4));
    assert_eq!(threads.task(61), hog());
    assert_eq!(Threads::from_events(&events).task(MAKE), make());
    let name = |pid, comm: &str| Name {
        pid,
        comm: Comm::new(comm.as_bytes()),
    };
    threads.add(&[
        name(Some(77), "waker"),
        name(Some(61), "other"),
        name(None, "x"),
    ]);
    assert_eq!(threads.task(77), task("waker", 77, i16::MAX));
    assert_eq!(threads.task(61), hog());
    assert_eq!(threads.task(78), task("", 78, i16::MAX));
}

/// The reader of text traces keeps only this event of a switch in progress.
#[test]
fn requested_event_may_be_part_of_a_switch() {
    let requested = |name: &str| {
        let kind = EventKind::Requested {
            name: name.into(),
            fields: String::new(),
        };
        event(1, MAKE, kind)
    };
    assert!(is_in_switch(&requested("tlb_flush")));
    assert!(!is_in_switch(&requested("sys_enter")));
    assert!(is_of_switch(&requested("sys_enter")));
    assert!(!is_of_switch(&irq(1, 24)) && !is_in_switch(&irq(1, 24)));
}
