//! Chains in synthetic traces.

use punctual_model::{KernelPriority, Vector};

use super::*;

fn task(name: &str, pid: u32) -> Task {
    Task {
        pid,
        comm: Comm::new(name.as_bytes()),
        prio: KernelPriority(120),
    }
}

fn idle() -> Task {
    task("swapper", 0)
}

fn sensor() -> Task {
    task("sensor", 5)
}

fn motor() -> Task {
    task("motor", 6)
}

const NANOSLEEP: i64 = 230;

/// A trace with times in µs.
struct Trace(ChainFinder);

impl Trace {
    fn new(from: ChainStart) -> Self {
        let to = motor().comm;
        Self(ChainFinder::new(from, to, BTreeSet::from([NANOSLEEP])))
    }

    fn of_threads() -> Self {
        Self::new(ChainStart::Thread(sensor().comm))
    }

    fn of_interrupt() -> Self {
        Self::new(ChainStart::Interrupt("eth0".to_owned()))
    }

    fn flagged(mut self, us: u64, cpu: u32, pid: u32, flags: u8, kind: EventKind) -> Self {
        self.0.event(&TraceEvent {
            time: Nanos::from_micros(us),
            cpu,
            pid,
            flags,
            preempt_count: 0,
            kind,
        });
        self
    }

    fn event(self, us: u64, cpu: u32, pid: u32, kind: EventKind) -> Self {
        self.flagged(us, cpu, pid, 0, kind)
    }

    fn switch(self, us: u64, cpu: u32, prev: Task, state: u32, next: Task) -> Self {
        let prev_state = TaskState(state);
        let pid = prev.pid;
        let kind = EventKind::Switch {
            prev,
            prev_state,
            next,
        };
        self.event(us, cpu, pid, kind)
    }

    fn wakes(self, us: u64, cpu: u32, by: Task, task: Task) -> Self {
        let target_cpu = 1;
        self.event(us, cpu, by.pid, EventKind::Waking { task, target_cpu })
    }

    /// A thread is woken by a timer on an idle CPU.
    fn timer(self, us: u64, cpu: u32, task: Task) -> Self {
        let kind = EventKind::Waking {
            task,
            target_cpu: cpu,
        };
        self.flagged(us, cpu, 0, TraceEvent::HARDIRQ, kind)
    }

    fn irq(self, us: u64, cpu: u32, name: &str) -> Self {
        let (irq, name) = (24, name.into());
        self.event(us, cpu, 0, EventKind::IrqEntry { irq, name })
    }

    fn irq_end(self, us: u64, cpu: u32) -> Self {
        self.event(us, cpu, 0, EventKind::IrqExit { irq: 24, ret: 1 })
    }

    fn softirq(self, us: u64, cpu: u32, pid: u32) -> Self {
        self.event(us, cpu, pid, EventKind::SoftirqEntry { vec: 3 })
    }

    fn softirq_end(self, us: u64, cpu: u32, pid: u32) -> Self {
        self.event(us, cpu, pid, EventKind::SoftirqExit { vec: 3 })
    }

    fn timer_vector(self, us: u64, cpu: u32, pid: u32) -> Self {
        let vector = Vector::named("local_timer");
        let kind = EventKind::VectorEntry {
            vector: vector.clone(),
        };
        let end = EventKind::VectorExit { vector };
        self.event(us, cpu, pid, kind).event(us + 1, cpu, pid, end)
    }

    fn chains(self) -> TraceChains {
        self.0.finish()
    }

    /// Returns the parts of the only chain, with their lengths in µs.
    fn parts(self) -> Vec<(String, ChainPart, u64)> {
        let found = self.chains();
        assert_eq!(found.latencies.recorded(), 1, "{found:#?}");
        let chain = &found.longest[0];
        let sum: u64 = chain.spans.iter().map(|span| span.length().0).sum();
        assert_eq!(sum, chain.latency().0, "{chain:#?}");
        let parts = chain.spans.iter();
        let part = |span: &ChainSpan| (span.who.clone(), span.part, span.length().0 / 1_000);
        parts.map(part).collect()
    }
}

fn part(who: &str, part: ChainPart, us: u64) -> (String, ChainPart, u64) {
    (who.to_owned(), part, us)
}

use ChainPart::{Interrupt, Runs, Sleeps, Waits, WakeUp};

/// The sensor on CPU 0 wakes the motor on CPU 1, which waits behind another thread.
fn pipeline() -> Trace {
    Trace::of_threads()
        .switch(10, 0, sensor(), 1, idle())
        .switch(20, 1, motor(), 1, task("make", 9))
        .timer(100, 0, sensor())
        .switch(105, 0, idle(), 0, sensor())
        .wakes(305, 0, sensor(), motor())
        .event(
            308,
            1,
            9,
            EventKind::Wakeup {
                task: motor(),
                target_cpu: 1,
                new: false,
            },
        )
        .switch(310, 0, sensor(), 1, idle())
}

#[test]
fn parts_of_a_chain_add_up_to_its_latency() {
    let trace = pipeline()
        .switch(408, 1, task("make", 9), 0, motor())
        .switch(500, 1, motor(), 1, idle());
    assert_eq!(
        trace.parts(),
        [
            part("sensor", Waits, 5),
            part("sensor", Runs, 200),
            part("motor", WakeUp, 3),
            part("motor", Waits, 100),
            part("motor", Runs, 92),
        ]
    );
}

#[test]
fn thread_that_ran_meanwhile_is_named() {
    let trace = pipeline()
        .switch(408, 1, task("make", 9), 0, motor())
        .switch(500, 1, motor(), 1, idle());
    let found = trace.chains();
    let spans = &found.longest[0].spans;
    assert_eq!(spans[0].behind, None);
    let behind = spans[3].behind.map(|(task, time)| (task.pid, time));
    assert_eq!(behind, Some((9, Nanos::from_micros(100))));
}

#[test]
fn thread_that_ends_completes_a_chain() {
    let kind = EventKind::ProcessExit { task: motor() };
    let trace = pipeline()
        .switch(408, 1, task("make", 9), 0, motor())
        .event(450, 1, 6, kind)
        .switch(500, 1, motor(), 0x20, idle());
    assert_eq!(trace.parts().last(), Some(&part("motor", Runs, 42)));
}

#[test]
fn preemption_is_a_wait_within_the_chain() {
    let trace = pipeline()
        .switch(408, 1, task("make", 9), 0, motor())
        .switch(420, 1, motor(), 0, task("make", 9))
        .switch(450, 1, task("make", 9), 0, motor())
        .switch(500, 1, motor(), 1, idle());
    let parts = trace.parts();
    let end = [
        part("motor", Runs, 12),
        part("motor", Waits, 30),
        part("motor", Runs, 50),
    ];
    assert_eq!(parts[4..], end);
}

#[test]
fn wake_up_by_an_unrelated_interrupt_continues_nothing() {
    // A timer interrupts the sensor and wakes the motor.
    let kind = EventKind::Waking {
        task: motor(),
        target_cpu: 1,
    };
    let trace = Trace::of_threads()
        .timer(100, 0, sensor())
        .switch(105, 0, idle(), 0, sensor())
        .flagged(200, 0, 5, TraceEvent::HARDIRQ, kind)
        .switch(300, 0, sensor(), 1, idle())
        .switch(210, 1, idle(), 0, motor())
        .switch(500, 1, motor(), 1, idle());
    let found = trace.chains();
    assert_eq!((found.begun, found.latencies.recorded()), (1, 0));
    assert_eq!(found.ended_in, [("sensor".to_owned(), 1)]);
}

#[test]
fn interrupt_and_its_softirq_begin_a_chain() {
    let trace = Trace::of_interrupt()
        .switch(10, 1, motor(), 1, idle())
        .irq(100, 1, "eth0-rx-0")
        .irq_end(104, 1)
        .softirq(106, 1, 0)
        .wakes(130, 1, idle(), motor())
        .softirq_end(140, 1, 0)
        .switch(142, 1, idle(), 0, motor())
        .switch(200, 1, motor(), 1, idle());
    let interrupt = "interrupt eth0-rx-0";
    assert_eq!(
        trace.parts(),
        [
            part(interrupt, Interrupt, 30),
            part("motor", Waits, 12),
            part("motor", Runs, 58)
        ]
    );
}

#[test]
fn later_softirq_does_not_belong_to_the_interrupt() {
    let trace = Trace::of_interrupt()
        .irq(100, 1, "eth0")
        .irq_end(104, 1)
        .softirq(3_000, 1, 0)
        .wakes(3_010, 1, idle(), motor())
        .softirq_end(3_020, 1, 0)
        .switch(3_030, 1, idle(), 0, motor())
        .switch(3_200, 1, motor(), 1, idle());
    let found = trace.chains();
    assert_eq!((found.begun, found.latencies.recorded()), (1, 0));
    let ended = ("interrupt eth0".to_owned(), 1);
    assert_eq!(found.ended_in, [ended]);
}

#[test]
fn other_interrupts_begin_no_chain() {
    let trace = Trace::of_interrupt()
        .irq(100, 1, "eth01")
        .wakes(102, 1, idle(), motor())
        .irq_end(104, 1)
        .switch(106, 1, idle(), 0, motor())
        .switch(200, 1, motor(), 1, idle());
    let found = trace.chains();
    assert_eq!(
        (found.begun, found.start_seen, found.end_seen),
        (0, false, true)
    );
    assert!(found.interrupts.contains("eth01"));
}

/// A write to a socket on the loopback device wakes the reader in a softirq of the writer.
fn loopback(timer: bool, exit: Option<u64>) -> TraceChains {
    let mut trace = Trace::of_threads()
        .switch(20, 1, motor(), 1, idle())
        .timer(50, 0, sensor())
        .switch(55, 0, idle(), 0, sensor());
    if timer {
        trace = trace.timer_vector(60, 0, 5);
    }
    if let Some(at) = exit {
        trace = trace.timer_vector(at, 0, 5);
    }
    let trace = trace
        .softirq(200, 0, 5)
        .wakes(205, 0, sensor(), motor())
        .softirq_end(207, 0, 5)
        .switch(210, 1, idle(), 0, motor())
        .switch(300, 1, motor(), 1, idle());
    trace.chains()
}

#[test]
fn softirq_of_a_call_belongs_to_the_thread() {
    assert_eq!(loopback(true, None).latencies.recorded(), 1);
    // It may belong to an interrupt that was not recorded.
    assert_eq!(loopback(false, None).latencies.recorded(), 0);
    // It follows an interrupt.
    assert_eq!(loopback(true, Some(195)).latencies.recorded(), 0);
}

/// An interrupt wakes a thread, which sleeps in a call before it wakes the motor.
fn sleeping(trace: Trace, middle: Task, call: i64, state: u32) -> Trace {
    let (args, pid) = ([0, 0], middle.pid);
    trace
        .switch(50, 0, sensor(), 1, idle())
        .irq(90, 0, "eth0")
        .wakes(100, 0, idle(), middle)
        .irq_end(100, 0)
        .switch(100, 0, idle(), 0, middle)
        .event(110, 0, pid, EventKind::SysEnter { id: call, args })
        .switch(120, 0, middle, state, idle())
        .timer(620, 0, middle)
        .switch(630, 0, idle(), 0, middle)
        .event(635, 0, pid, EventKind::SysExit { id: call, ret: 0 })
        .wakes(640, 0, middle, motor())
        .switch(645, 1, idle(), 0, motor())
        .switch(700, 1, motor(), 1, idle())
}

#[test]
fn sleep_without_input_continues_a_chain() {
    let filter = task("filter", 8);
    let of_interrupt = |call, state| sleeping(Trace::of_interrupt(), filter, call, state);
    for trace in [of_interrupt(NANOSLEEP, 1), of_interrupt(0, 2)] {
        let parts = trace.parts();
        assert_eq!(parts[2], part("filter", Sleeps, 500));
        assert_eq!(parts.len(), 7);
    }
    // In another call, it waits for input.
    let found = of_interrupt(0, 1).chains();
    assert_eq!((found.begun, found.latencies.recorded()), (1, 0));
    assert_eq!(found.ended_in, [("filter".to_owned(), 1)]);
}

/// A periodic thread sleeps in clock_nanosleep, and the interrupt of its timer begins each chain.
#[test]
fn each_period_of_a_timer_is_a_chain() {
    let args = [0, 0];
    let mut trace = Trace::of_interrupt();
    for round in 0..3 {
        let at = round * 10_000;
        trace = trace
            .irq(at + 100, 0, "eth0")
            .wakes(at + 101, 0, idle(), sensor())
            .irq_end(at + 102, 0)
            .switch(at + 110, 0, idle(), 0, sensor())
            .wakes(at + 200, 0, sensor(), motor())
            .switch(at + 205, 1, idle(), 0, motor())
            .event(
                at + 210,
                0,
                5,
                EventKind::SysEnter {
                    id: NANOSLEEP,
                    args,
                },
            )
            .switch(at + 220, 0, sensor(), 1, idle())
            .switch(at + 300, 1, motor(), 1, idle());
    }
    let found = trace.chains();
    assert_eq!((found.begun, found.latencies.recorded()), (3, 3));
    assert_eq!(found.latencies.max(), Some(Nanos::from_micros(200)));
}

#[test]
fn chain_ends_with_any_sleep_of_the_last_thread() {
    let args = [0, 0];
    let trace = pipeline()
        .switch(408, 1, task("make", 9), 0, motor())
        .event(
            450,
            1,
            6,
            EventKind::SysEnter {
                id: NANOSLEEP,
                args,
            },
        )
        .switch(500, 1, motor(), 1, idle())
        .timer(900, 1, motor())
        .switch(910, 1, idle(), 0, motor())
        .switch(999, 1, motor(), 1, idle());
    assert_eq!(trace.parts().last(), Some(&part("motor", Runs, 92)));
}

#[test]
fn each_wake_up_of_the_first_thread_begins_a_chain() {
    for call in [NANOSLEEP, 0] {
        let found = sleeping(Trace::of_threads(), sensor(), call, 1).chains();
        assert_eq!((found.begun, found.latencies.recorded()), (2, 1));
        assert_eq!(found.longest[0].latency(), Nanos::from_micros(80));
    }
    let found = sleeping(Trace::of_threads(), sensor(), 0, 2).chains();
    assert_eq!((found.begun, found.latencies.recorded()), (1, 1));
}

#[test]
fn thread_woken_before_it_sleeps_begins_its_next_part() {
    let second = task("second", 8);
    let trace = Trace::of_threads()
        .timer(100, 0, sensor())
        .switch(100, 0, idle(), 0, sensor())
        .wakes(150, 0, sensor(), motor())
        .switch(150, 1, idle(), 0, motor())
        .switch(160, 0, sensor(), 1, idle())
        .timer(200, 0, sensor())
        .switch(200, 0, idle(), 0, sensor())
        .wakes(210, 0, sensor(), second)
        .switch(210, 2, idle(), 0, second)
        // The motor is about to sleep.
        .wakes(240, 2, second, motor())
        .switch(300, 1, motor(), 1, idle());
    let found = trace.chains();
    let latencies: Vec<u64> = (found.longest.iter())
        .map(|chain| chain.latency().whole_micros())
        .collect();
    assert_eq!(latencies, [140, 100]);
}

#[test]
fn missing_switch_makes_chains_unknown() {
    let other = task("other", 11);
    let trace = pipeline()
        .switch(408, 1, other, 1, motor())
        .switch(500, 1, motor(), 1, idle());
    let found = trace.chains();
    assert_eq!((found.begun, found.unknown), (1, 1));
    assert_eq!(found.latencies.recorded(), 0);
    assert_eq!(found.ended_in, []);
    assert_eq!(found.warnings, [""; 0]);
}

#[test]
fn missing_switches_of_idle_threads_are_named() {
    let other = task("other", 11);
    let trace = pipeline()
        .switch(600, 1, motor(), 1, idle())
        .switch(700, 1, other, 1, idle())
        .switch(800, 1, other, 1, idle());
    let found = trace.chains();
    let [warning] = &found.warnings[..] else {
        panic!("{:?}", found.warnings)
    };
    assert!(
        warning.starts_with("CPU 1: 2 switches from its idle thread are missing"),
        "{warning}"
    );
}

#[test]
fn edges_sum_up_all_chains() {
    let mut trace = Trace::of_threads();
    for round in 0..10 {
        let at = round * 10_000;
        trace = trace
            .timer(at + 100, 0, sensor())
            .switch(at + 110, 0, idle(), 0, sensor())
            .wakes(at + 210 + round, 0, sensor(), motor())
            .switch(at + 220 + round, 1, idle(), 0, motor())
            .switch(at + 250, 0, sensor(), 1, idle())
            .switch(at + 300 + round, 1, motor(), 1, idle());
    }
    let found = trace.chains();
    assert_eq!((found.begun, found.latencies.recorded()), (10, 10));
    assert_eq!((found.unknown, found.ended_in.len()), (0, 0));
    let edges: Vec<_> = (found.edges.iter())
        .map(|edge| {
            (
                edge.who.as_str(),
                edge.part,
                edge.chains,
                edge.total.0 / 1_000,
            )
        })
        .collect();
    assert_eq!(
        edges,
        [
            ("sensor", Waits, 10, 100),
            ("sensor", Runs, 10, 1_045),
            ("motor", Waits, 10, 100),
            ("motor", Runs, 10, 800),
        ]
    );
    assert_eq!(found.longest.len(), 5);
    assert_eq!(found.longest[0].latency(), Nanos::from_micros(209));
}
