//! Tests of the threads and addresses of events.

use std::collections::BTreeSet;

use super::*;

#[test]
fn event_is_about_the_threads_in_its_fields() {
    let task = || task(7, "loop", 19);
    let one = |kind: EventKind| (kind, vec![7]);
    for (kind, threads) in [
        (switch(7, 9), vec![7, 9]),
        one(EventKind::Waking {
            task: task(),
            target_cpu: 9,
        }),
        one(EventKind::Wakeup {
            task: task(),
            target_cpu: 9,
            new: true,
        }),
        one(EventKind::Migrate {
            task: task(),
            orig_cpu: 9,
            dest_cpu: 8,
        }),
        one(EventKind::PiSetprio {
            task: task(),
            newprio: KernelPriority(9),
        }),
        one(EventKind::ProcessExit { task: task() }),
        one(EventKind::SwitchedOut {
            task: task(),
            waited: Nanos(9),
            frames: vec![9],
        }),
        (EventKind::IrqExit { irq: 7, ret: 7 }, vec![]),
    ] {
        let found: Vec<u32> = kind
            .tasks()
            .into_iter()
            .flatten()
            .map(|task| task.pid)
            .collect();
        assert_eq!(found, threads, "{kind:?}");
        let about: Vec<u32> = (0..20).filter(|tid| kind.is_about(*tid)).collect();
        assert_eq!(about, threads, "{kind:?}");
    }
    let signal = EventKind::SignalGenerate {
        sig: 9,
        pid: 7,
        comm: Comm::new(b"loop"),
    };
    assert!(signal.is_about(7) && !signal.is_about(9));
    assert_eq!(signal.tasks(), [None, None]);
}

#[test]
fn event_names_its_stack_and_the_addresses_of_functions() {
    let frames = vec![1, 2];
    let late = EventKind::TimerLate {
        late: Nanos(5),
        function: 3,
        frames: frames.clone(),
    };
    for kind in [
        EventKind::KernelStack {
            frames: frames.clone(),
        },
        EventKind::TimerlatStack {
            frames: frames.clone(),
        },
        EventKind::SwitchedOut {
            task: task(7, "a", 19),
            waited: Nanos(1),
            frames: frames.clone(),
        },
        late.clone(),
    ] {
        assert_eq!(kind.frames(), frames, "{kind:?}");
    }
    assert_eq!(switch(1, 2).frames(), [0; 0]);

    let (hrtimer, timer, work, function) = (90, 91, 92, 3);
    let (caller, parent) = (3, 4);
    for (kind, addresses) in [
        (late, [Some(3), None]),
        (
            EventKind::HrtimerStart {
                hrtimer,
                function,
                expires_ns: 8,
                softexpires_ns: 7,
            },
            [Some(3), None],
        ),
        (
            EventKind::HrtimerExpireEntry {
                hrtimer,
                function,
                now_ns: 8,
            },
            [Some(3), None],
        ),
        (
            EventKind::TimerExpireEntry { timer, function },
            [Some(3), None],
        ),
        (
            EventKind::WorkqueueQueue { work, function },
            [Some(3), None],
        ),
        (
            EventKind::WorkqueueStart { work, function },
            [Some(3), None],
        ),
        (EventKind::WorkqueueEnd { work, function }, [Some(3), None]),
        (
            EventKind::NmiHandler {
                handler: 3,
                delta: Nanos(8),
                handled: 7,
            },
            [Some(3), None],
        ),
        (
            EventKind::PageFaultKernel {
                address: 8,
                ip: 3,
                error_code: 7,
            },
            [Some(3), None],
        ),
        (
            EventKind::IpiSend {
                cpus: vec![8],
                callsite: 3,
                callback: 4,
            },
            [Some(3), Some(4)],
        ),
        (EventKind::IrqDisable { caller, parent }, [Some(3), Some(4)]),
        (EventKind::IrqEnable { caller, parent }, [Some(3), Some(4)]),
        (
            EventKind::PreemptDisable { caller, parent },
            [Some(3), Some(4)],
        ),
        (
            EventKind::PreemptEnable { caller, parent },
            [Some(3), Some(4)],
        ),
        // The addresses of user space and of data are not those of kernel functions.
        (
            EventKind::PageFaultUser {
                address: 8,
                ip: 3,
                error_code: 7,
            },
            [None, None],
        ),
        (EventKind::HrtimerCancel { hrtimer: 3 }, [None, None]),
    ] {
        assert_eq!(kind.addresses(), addresses, "{kind:?}");
    }
}

#[test]
fn slice_begins_with_the_cpus_and_threads_of_the_wake_up() {
    let (victim, other) = (task(7, "loop", 19), task(8, "other", 120));
    let events = [
        event(
            2,
            30,
            EventKind::Waking {
                task: victim,
                target_cpu: 9,
            },
        ),
        event(
            3,
            0,
            EventKind::Wakeup {
                task: victim,
                target_cpu: 9,
                new: false,
            },
        ),
        event(
            4,
            7,
            EventKind::PiSetprio {
                task: task(31, "holder", 120),
                newprio: KernelPriority(19),
            },
        ),
        event(
            4,
            7,
            EventKind::Migrate {
                task: victim,
                orig_cpu: 9,
                dest_cpu: 5,
            },
        ),
        event(6, 7, switch(7, 40)),
        event(11, 41, switch(42, 7)),
        // None of these is about the victim.
        event(
            20,
            50,
            EventKind::Waking {
                task: other,
                target_cpu: 9,
            },
        ),
        event(
            21,
            51,
            EventKind::Wakeup {
                task: other,
                target_cpu: 9,
                new: false,
            },
        ),
        event(
            22,
            52,
            EventKind::PiSetprio {
                task: task(53, "x", 120),
                newprio: KernelPriority(19),
            },
        ),
        event(
            23,
            52,
            EventKind::Migrate {
                task: other,
                orig_cpu: 9,
                dest_cpu: 24,
            },
        ),
        event(25, 52, switch(52, 54)),
        event(26, 52, EventKind::IrqExit { irq: 7, ret: 7 }),
    ];
    let slice = SliceStart::from_events(events.iter(), 7, Some(1));
    // The idle thread, 0, enqueued the victim, but the idle threads of all CPUs have this ID.
    assert_eq!(slice.cpus, BTreeSet::from([1, 2, 3, 5, 6, 11]));
    assert_eq!(slice.threads, BTreeSet::from([7, 30, 31]));
    let unknown = SliceStart::from_events([].into_iter(), 7, None);
    assert_eq!(
        (unknown.cpus.len(), unknown.threads),
        (0, BTreeSet::from([7]))
    );
}

#[test]
fn slice_has_events_on_its_cpus_of_its_threads_and_interrupts_of_its_cpus() {
    let slice = SliceStart {
        cpus: BTreeSet::from([1]),
        threads: BTreeSet::from([7]),
    };
    let quiet = EventKind::IrqExit { irq: 7, ret: 7 };
    let ipi = |cpus: &[u32]| EventKind::IpiSend {
        cpus: cpus.to_vec(),
        callsite: 7,
        callback: 7,
    };
    for (cpu, pid, kind, is_in) in [
        (1, 9, quiet.clone(), true),
        (2, 7, quiet.clone(), true),
        (2, 9, quiet, false),
        (2, 9, ipi(&[3, 1]), true),
        (2, 9, ipi(&[3, 4]), false),
        (2, 9, switch(9, 7), true),
        (2, 9, switch(9, 1), false),
    ] {
        assert_eq!(
            slice.concerns(&event(cpu, pid, kind.clone())),
            is_in,
            "{cpu} {pid} {kind:?}"
        );
    }
}
