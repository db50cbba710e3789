//! Generates causes of every kind.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use punctual_model::cause::*;
use punctual_model::{
    Blame, Comm, Delay, KernelPriority, Move, Nanos, Share, ShareKind, Task, Text, UnseenTheft,
    Usual, Vector, Victim,
};

fn any_nanos() -> impl Strategy<Value = Nanos> + Clone {
    prop_oneof![0u64..1_000_000, any::<u64>()].prop_map(Nanos)
}

/// Texts that imitate the words of other causes, markup and control characters.
fn any_text() -> impl Strategy<Value = Text> + Clone {
    prop_oneof![
        Just(""),
        Just("eth0"),
        Just("make-12, preempted by hog-14"),
        Just("<b>&amp;</b>\"'"),
        Just("\u{1b}[2J\u{9b}31m\0"),
        Just("µ, while thread 7 ran; besides 3.0 µs interrupt"),
    ]
    .prop_map(Text::from)
}

fn any_comm() -> impl Strategy<Value = Comm> + Clone {
    prop_oneof![
        Just(&b""[..]),
        Just(&b"make"[..]),
        Just(&b"ksoftirqd/1"[..]),
        Just(&b"a, b (nice 0)"[..]),
    ]
    .prop_map(Comm::new)
}

fn any_prio() -> impl Strategy<Value = KernelPriority> + Clone {
    prop_oneof![-1i16..140, Just(i16::MAX), any::<i16>()].prop_map(KernelPriority)
}

fn any_name() -> impl Strategy<Value = Name> + Clone {
    (option::of(any::<u32>()), any_comm()).prop_map(|(pid, comm)| Name { pid, comm })
}

fn any_task() -> impl Strategy<Value = Task> + Clone {
    (any::<u32>(), any_comm(), any_prio()).prop_map(|(pid, comm, prio)| Task { pid, comm, prio })
}

fn any_vector() -> impl Strategy<Value = Vector> {
    prop_oneof![
        Just(Vector::LocalTimer),
        Just(Vector::Reschedule),
        Just(Vector::CallFunction),
        Just(Vector::IrqWork),
        any_text().prop_map(Vector::Other),
    ]
}

fn any_device() -> impl Strategy<Value = Device> + Clone {
    prop_oneof![
        any::<u32>().prop_map(Device::Disk),
        (any::<u32>(), any_text()).prop_map(|(irq, name)| Device::Irq { irq, name }),
        any_text().prop_map(Device::Vector),
        any::<u32>().prop_map(Device::Softirq),
        Just(Device::Interrupt),
    ]
}

fn any_kind() -> impl Strategy<Value = ShareKind> {
    proptest::sample::select(ShareKind::NAMES.map(|(kind, _)| kind).to_vec())
}

fn any_awaited() -> impl Strategy<Value = Awaited> {
    let wait = prop_oneof![
        Just(Wait::Lock),
        Just(Wait::Thread),
        Just(Wait::Page),
        Just(Wait::Collection),
        Just(Wait::GoroutineStop)
    ];
    let leaf = prop_oneof![
        Just(Leaf::Ran),
        (any_name(), any_prio()).prop_map(|(by, prio)| Leaf::Preempted { by, prio }),
        Just(Leaf::NotScheduled),
        Just(Leaf::Slept),
        Just(Leaf::Asleep),
        any_device().prop_map(Leaf::Device),
        Just(Leaf::Stopped),
        Just(Leaf::Unknown),
    ];
    (wait, vec(any_name(), 0..4), leaf).prop_map(|(wait, chain, leaf)| Awaited {
        wait,
        chain,
        leaf,
    })
}

fn any_unknown() -> impl Strategy<Value = Unknown> {
    let what = prop_oneof![
        Just(Missing::WhatRan),
        Just(Missing::WakeUp),
        Just(Missing::Own),
        Just(Missing::InterruptOrGap),
        any_name().prop_map(Missing::HandlerOn),
        Just(Missing::QuotaOrEqual),
        Just(Missing::OnCpu),
        Just(Missing::RanInstead),
        Just(Missing::BeforeWakeUp),
        Just(Missing::AroundWakeUp),
    ];
    prop_oneof![
        Just(Unknown::ThreadEnded),
        (what, vec(any_text(), 0..4))
            .prop_map(|(what, events)| Unknown::NotRecorded { what, events }),
        Just(Unknown::NothingBefore),
        Just(Unknown::NoEventOfThread),
        any::<u32>().prop_map(Unknown::NoEventOfCpu),
        Just(Unknown::NoWaker),
        any::<u32>().prop_map(Unknown::NoSwitchIn),
        Just(Unknown::WakeupPending),
        any::<u32>().prop_map(Unknown::IdleInstead),
        Just(Unknown::PassedOver),
        Just(Unknown::OwnPriority),
        any_name().prop_map(Unknown::PriorityOf),
        Just(Unknown::EventsLost),
        proptest::option::of(any_text())
            .prop_map(|group| Unknown::QuotaOrEqual(group.map(|group| group.to_string()))),
    ]
}

fn any_limit() -> impl Strategy<Value = Limit> {
    prop_oneof![
        Just(Limit::DeadlineBudget),
        Just(Limit::RealTime),
        Just(Limit::FairServer),
        option::of(any_text().prop_map(|group| group.to_string())).prop_map(Limit::Quota),
    ]
}

fn any_role() -> impl Strategy<Value = Role> {
    prop_oneof![
        Just(Role::Blocking),
        Just(Role::HigherPriority),
        Just(Role::Competing),
        Just(Role::Unranked),
        Just(Role::LockHolder),
        Just(Role::Waker),
    ]
}

fn flat_source() -> impl Strategy<Value = Source> {
    let signal = (any::<u32>(), any_name()).prop_map(|(signal, sender)| Signal { signal, sender });
    prop_oneof![
        prop_oneof![
            Just(Source::TimerLate),
            Just(Source::TimerSlack),
            Just(Source::Gap),
            Just(Source::Nmi),
            Just(Source::AwaitedInterrupt),
            Just(Source::PageFault),
            Just(Source::OwnWork),
            Just(Source::UserSpace),
            Just(Source::FaultOrUserSpace),
            Just(Source::OwnSleep),
        ],
        prop_oneof![
            Just(Source::Scheduling),
            Just(Source::ReturnToUser),
            Just(Source::Stolen),
        ],
        any::<u32>().prop_map(Source::IdleExit),
        any_name().prop_map(Source::IrqsOff),
        any_name().prop_map(Source::PreemptOff),
        any_vector().prop_map(Source::Vector),
        (any::<u32>(), any_text()).prop_map(|(irq, name)| Source::Irq { irq, name }),
        any::<u32>().prop_map(Source::Softirq),
        (any_role(), any_name()).prop_map(|(role, thread)| Source::Thread { role, thread }),
        option::of(signal).prop_map(Source::Stopped),
        (any::<u32>(), option::of(any::<u32>()))
            .prop_map(|(from, to)| Source::Migration { from, to }),
        any_limit().prop_map(Source::Throttled),
        any::<u32>().prop_map(Source::NotRun),
        any_text().prop_map(Source::SystemCall),
        any_device().prop_map(Source::Device),
        any_awaited().prop_map(Source::Awaited),
        any_unknown().prop_map(Source::Unexplained),
        any_kind().prop_map(Source::Others),
    ]
}

fn any_source() -> impl Strategy<Value = Source> {
    flat_source().prop_recursive(3, 8, 1, |inner| {
        let thief = prop_oneof![
            Just(Thief::Hypervisor),
            Just(Thief::Smi),
            Just(Thief::Either)
        ];
        (inner, thief).prop_map(|(source, thief)| Source::Undecided {
            source: Box::new(source),
            thief,
        })
    })
}

fn any_activity() -> impl Strategy<Value = Activity> + Clone {
    prop_oneof![
        any_text().prop_map(Activity::Syscall),
        any::<bool>().prop_map(|user| Activity::PageFault { user }),
        any_text().prop_map(Activity::Work),
        any_text().prop_map(Activity::PreemptionOff),
        any_text().prop_map(Activity::SpinsFor),
        Just(Activity::Asleep),
        Just(Activity::Faulted),
        any_name().prop_map(Activity::AwaitsLockOf),
        Just(Activity::DelaysSoftirq),
        Just(Activity::UserSpace),
    ]
}

fn any_ran() -> impl Strategy<Value = Ran> + Clone {
    prop_oneof![
        Just(Ran::Idle),
        any_name().prop_map(Ran::Thread),
        any_name().prop_map(Ran::Faulted),
    ]
}

fn any_counted() -> impl Strategy<Value = Counted> + Clone {
    let steal = (any_nanos(), any_nanos()).prop_map(|(stolen_ns, within_ns)| StolenWithin {
        stolen_ns,
        within_ns,
    });
    let smis =
        (any::<u64>(), any_nanos()).prop_map(|(count, within_ns)| SmisWithin { count, within_ns });
    (option::of(steal), option::of(smis)).prop_map(|(steal, smis)| Counted { steal, smis })
}

fn any_stay() -> impl Strategy<Value = Stay> {
    (option::of(any_nanos()), any_text(), option::of(any_text())).prop_map(|(ns, at, until)| Stay {
        ns,
        at,
        until,
    })
}

fn any_hold() -> impl Strategy<Value = Hold> + Clone {
    proptest::sample::select(vec![
        Hold::Quota,
        Hold::RealTimeThrottling,
        Hold::FairServer,
        Hold::PendingWakeup,
        Hold::Theft,
        Hold::Scheduler,
    ])
}

fn flat_detail() -> impl Strategy<Value = Detail> {
    let disabled = prop_oneof![
        Just(Disabled::No),
        Just(Disabled::Possible),
        Just(Disabled::Before)
    ];
    let rank = (
        any_prio(),
        option::of(any_activity()),
        option::of(any_task()),
    )
        .prop_map(|(prio, activity, before)| Rank {
            prio,
            activity,
            before,
        });
    let rival = (any_task(), option::of(any_activity()))
        .prop_map(|(task, activity)| Rival { task, activity });
    prop_oneof![
        prop_oneof![
            any_text().prop_map(Detail::Function),
            (
                vec(any_hold(), 0..4),
                option::of(any_text()),
                option::of(any_text())
            )
                .prop_map(|(possible, decided_by, sched_ext)| Detail::HeldBy {
                    possible,
                    decided_by,
                    sched_ext,
                }),
            any_text().prop_map(Detail::Nested),
            any_text().prop_map(Detail::At),
            Just(Detail::Together),
            Just(Detail::WaitingForPage),
            Just(Detail::UserOrKernel),
            Just(Detail::Faults),
        ],
        (option::of(any_name()), any::<u32>(), any_text()).prop_map(|(sender, cpu, function)| {
            Detail::SentBy {
                sender,
                cpu,
                function,
            }
        }),
        option::of(any_task()).prop_map(Detail::On),
        rank.prop_map(Detail::Rank),
        any_activity().prop_map(Detail::Doing),
        any_name().prop_map(Detail::MovedBy),
        option::of(rival).prop_map(Detail::Meanwhile),
        any_task().prop_map(Detail::Ran),
        (any_nanos(), any::<bool>())
            .prop_map(|(slack_ns, known)| Detail::Slack { slack_ns, known }),
        any::<u32>().prop_map(Detail::IdleState),
        any_ran().prop_map(Detail::While),
        (
            any_ran(),
            disabled,
            option::of(any_text()),
            any::<bool>(),
            any_counted()
        )
            .prop_map(|(ran, disabled, ended_in, nmi_recorded, counted)| {
                Detail::Hypotheses {
                    ran,
                    disabled,
                    ended_in,
                    nmi_recorded,
                    counted,
                }
            }),
        any_source().prop_map(|source| Detail::Instead(Box::new(source))),
        (option::of(any_text()), any::<u64>(), option::of(any_text()))
            .prop_map(|(call, argument, at)| Detail::WaitsIn { call, argument, at }),
        any_device().prop_map(Detail::PageFrom),
        vec(any_name(), 0..4).prop_map(Detail::Through),
        vec(any_stay(), 0..4).prop_map(Detail::Stays),
        (any_name(), any_text()).prop_map(|(from, until)| Detail::InSwitch { from, until }),
        any_text().prop_map(Detail::AfterWakeup),
    ]
}

fn any_detail() -> impl Strategy<Value = Detail> {
    flat_detail().prop_recursive(3, 8, 1, |inner| {
        (any_counted(), option::of(inner)).prop_map(|(counted, detail)| Detail::Counted {
            counted,
            detail: detail.map(Box::new),
        })
    })
}

/// Returns any cause.
pub(crate) fn any_cause() -> impl Strategy<Value = Cause> {
    let usual = (any_nanos(), any::<u64>()).prop_map(|(p999_ns, count)| Usual { p999_ns, count });
    let unseen = prop_oneof![
        Just(UnseenTheft::Steal),
        Just(UnseenTheft::ShortSteal),
        Just(UnseenTheft::Smi)
    ];
    let function = (any_text(), any_nanos());
    let function = function.prop_map(|(function, ns)| LongFunction { function, ns });
    (
        any_source(),
        option::of(any_detail()),
        option::of(usual),
        option::of(function),
        option::of(unseen),
    )
        .prop_map(|(source, detail, anomaly, function, unseen)| Cause {
            source,
            detail,
            anomaly,
            function,
            unseen,
        })
}

/// Returns any blame without words.
pub(crate) fn any_blame() -> impl Strategy<Value = Blame> {
    let delay = prop_oneof![
        Just(Delay::Timer),
        Just(Delay::Call),
        Just(Delay::Step),
        Just(Delay::Wakeup),
        Just(Delay::Taken),
        Just(Delay::Job),
        Just(Delay::Work),
        Just(Delay::Section)
    ];
    let share = (any_cause(), 1u64..1_000_000, 1u32..5)
        .prop_map(|(cause, ns, count)| Share::new(cause, Nanos(ns), count));
    let moved = option::of((any::<u32>(), any::<u32>()));
    let counts = (any::<u64>(), any_nanos(), any::<bool>());
    (delay, vec(share, 0..6), moved, any_comm(), counts).prop_map(
        |(delay, shares, moved, comm, (events_lost, clock_error_ns, by_observer))| Blame {
            victim: Victim {
                tid: 100,
                comm,
                scheduling: None,
                cpu: 1,
            },
            delay,
            moved: moved.map(|(from, to)| Move { from, to }),
            culprit_end_ns: None,
            events_lost,
            clock_error_ns,
            by_observer,
            shares,
            words: None,
        },
    )
}
