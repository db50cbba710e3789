//! Hand-made event streams: a window in the style of a trace.

use punctual_model::{
    Comm, Delay, EventKind, Nanos, Policy, Scheduling, SmiCount, StealCount, StealRise, Task,
    TaskState, TraceEvent, Vector, Victim, Window,
};

pub(crate) use crate::testing::{RUNNABLE, SLEEPS, VICTIM, make, task, victim};

/// Due time of the victim; the times of a stream are in µs relative to it.
pub(crate) const DUE: u64 = 5_000_000_000;

pub(crate) const STOPS: u32 = 4;

/// The scheduling of a victim without real-time priority.
pub(crate) const ORDINARY: Option<Scheduling> = Some(Scheduling {
    policy: Policy::Other,
    priority: 0,
});

pub(crate) struct Stream {
    pub(crate) window: Window,
    cpu: u32,
    pid: u32,
    flags: u8,
}

pub(crate) fn idle() -> Task {
    task("swapper/1", 0, 120)
}

pub(crate) fn at(us: f64) -> Nanos {
    Nanos(
        DUE.checked_add_signed((us * 1_000.0).round() as i64)
            .unwrap(),
    )
}

/// A write to a page that is not mapped.
pub(crate) fn fault(address: u64) -> EventKind {
    EventKind::PageFaultUser {
        address,
        ip: 0x401000,
        error_code: 6,
    }
}

impl Stream {
    /// Creates a stream with a victim that is `late` µs late.
    pub(crate) fn late(late: f64) -> Self {
        Self {
            window: Window {
                victim: Victim {
                    tid: VICTIM,
                    comm: Comm::new(b"victim"),
                    scheduling: Some(Scheduling {
                        policy: Policy::Fifo,
                        priority: 95,
                    }),
                    cpu: 1,
                },
                delay: Delay::Timer,
                expected: at(0.0),
                actual: at(late),
                events: Vec::new(),
                lost: 0,
                left_out: 0,
                missing_events: vec!["preemptirq:irq_disable".to_owned()],
                light_stage: None,
                clock_error: Nanos(50),
                symbols: [
                    (0xa1, "hrtimer_wakeup".to_owned()),
                    (0xa2, "tick_nohz_handler".to_owned()),
                    (0xa3, "posix_timer_fn".to_owned()),
                ]
                .into(),
                calls: [(1, "write".to_owned()), (230, "clock_nanosleep".to_owned())].into(),
                evidence: Default::default(),
                host: Vec::new(),
                segments: Vec::new(),
                activity: Vec::new(),
            },
            cpu: 1,
            pid: 0,
            flags: 0,
        }
    }

    /// Sets the CPU of the following events, and the thread that is current on it.
    pub(crate) fn on(mut self, cpu: u32, pid: u32) -> Self {
        (self.cpu, self.pid) = (cpu, pid);
        self
    }

    pub(crate) fn flags(mut self, flags: u8) -> Self {
        self.flags = flags;
        self
    }

    pub(crate) fn event(mut self, us: f64, kind: EventKind) -> Self {
        let switched = match &kind {
            EventKind::Switch { next, .. } => Some(next.pid),
            _ => None,
        };
        self.window.events.push(TraceEvent {
            time: at(us),
            cpu: self.cpu,
            pid: self.pid,
            flags: self.flags,
            preempt_count: 0,
            kind,
        });
        self.pid = switched.unwrap_or(self.pid);
        self
    }

    pub(crate) fn switch(mut self, us: f64, prev: Task, state: u32, next: Task) -> Self {
        self.pid = prev.pid;
        self.event(
            us,
            EventKind::Switch {
                prev,
                prev_state: TaskState(state),
                next,
            },
        )
    }

    /// The victim went to sleep before its due time; `next` runs instead.
    pub(crate) fn sleeping_beside(self, next: Task) -> Self {
        self.switch(-300.0, victim(), SLEEPS, next)
    }

    pub(crate) fn timer_entry(self, us: f64) -> Self {
        self.event(
            us,
            EventKind::VectorEntry {
                vector: Vector::LocalTimer,
            },
        )
    }

    pub(crate) fn timer_exit(self, us: f64) -> Self {
        self.event(
            us,
            EventKind::VectorExit {
                vector: Vector::LocalTimer,
            },
        )
    }

    pub(crate) fn waking(self, us: f64) -> Self {
        self.waking_of(us, victim(), 1)
    }

    pub(crate) fn waking_of(self, us: f64, task: Task, target_cpu: u32) -> Self {
        self.event(us, EventKind::Waking { task, target_cpu })
    }

    pub(crate) fn wakeup(self, us: f64, target_cpu: u32) -> Self {
        self.event(
            us,
            EventKind::Wakeup {
                task: victim(),
                target_cpu,
                new: false,
            },
        )
    }

    /// The usual timer interrupt, which takes 3 µs and wakes the victim.
    pub(crate) fn timer(self, us: f64) -> Self {
        self.timer_entry(us)
            .waking(us + 1.5)
            .wakeup(us + 1.8, 1)
            .timer_exit(us + 3.0)
    }

    pub(crate) fn softirq(self, from: f64, to: f64, vec: u32) -> Self {
        self.event(from, EventKind::SoftirqEntry { vec })
            .event(to, EventKind::SoftirqExit { vec })
    }

    pub(crate) fn irq(self, from: f64, to: f64, irq: u32, name: &str) -> Self {
        let name = name.into();
        self.event(from, EventKind::IrqEntry { irq, name })
            .event(to, EventKind::IrqExit { irq, ret: 1 })
    }

    pub(crate) fn missing(mut self, name: &str) -> Self {
        self.window.missing_events.push(name.to_owned());
        self
    }

    pub(crate) fn change(mut self, change: impl FnOnce(&mut Window)) -> Self {
        change(&mut self.window);
        self
    }

    /// Returns the sentence of the blame, after checking the shares.
    pub(crate) fn summary(&self) -> String {
        let blame = punctual_culprit::find(&self.window).blame;
        let sum: u64 = blame.shares.iter().map(|share| share.ns.0).sum();
        assert_eq!(sum, self.window.latency().0, "{blame:#?}");
        let mut text = format!("{}\n", blame.sentence());
        for share in &blame.shares {
            let detail = share.detail().unwrap_or_default();
            text += &format!(
                "{:>9}  {}  {}  [{detail}] x{}\n",
                share.ns.to_string(),
                share.kind().name(),
                share.who(),
                share.count,
            );
        }
        text
    }
}

/// The steal time of CPU 1 in `/proc/stat`, read 50 ms before and 50 ms after the due time. It rose
/// by this many ticks of 10 ms.
pub(crate) fn ticks(count: u64) -> StealCount {
    let rise = StealRise {
        from: at_ms(-50),
        to: at_ms(50),
        stolen: Nanos::from_millis(10 * count),
    };
    StealCount {
        cpu: 1,
        from: at_ms(-1_000),
        to: at_ms(1_000),
        step: Nanos::from_millis(10),
        rises: if count > 0 { vec![rise] } else { Vec::new() },
    }
}

/// The kernel's own counter of CPU 1. Each increase: begin, end and amount in µs.
pub(crate) fn exactly(rises: &[(f64, f64, f64)]) -> StealCount {
    let rises = rises.iter().map(|(from, to, by)| StealRise {
        from: at(*from),
        to: at(*to),
        stolen: at(*by) - at(0.0),
    });
    StealCount {
        cpu: 1,
        from: at_ms(-1_000),
        to: at_ms(1_000),
        step: Nanos(1),
        rises: rises.collect(),
    }
}

/// This many system management interrupts in the 100 ms around the window.
pub(crate) fn smis(count: u64) -> SmiCount {
    SmiCount {
        from: at_ms(-50),
        to: at_ms(50),
        count,
    }
}

/// Milliseconds relative to the due time.
pub(crate) fn at_ms(ms: i64) -> Nanos {
    at(ms as f64 * 1_000.0)
}

/// A window with events of every kind.
pub(crate) fn sample(late: f64) -> Window {
    let hog = task("hog", 61, 0);
    Stream::late(late)
        .sleeping_beside(make())
        .irq(-20.0, 60.0, 24, "eth0")
        .timer(60.5)
        .softirq(64.0, 140.0, 3)
        .switch(145.0, make(), RUNNABLE, hog)
        .switch(390.0, hog, SLEEPS, victim())
        .irq(400.0, 410.0, 24, "eth0")
        .window
}
