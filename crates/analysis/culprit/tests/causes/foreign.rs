//! Late reactions in a trace that lacks events. No share may name a cause that the complete trace
//! does not support.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use punctual_culprit::{LateFound, LateReactions, TraceFacts, Wanted, find};
use punctual_model::{
    Comm, EventKind, Nanos, ShareKind, Task, TaskState, TraceEvent, Vector, Window, event_names,
};

use crate::stream::{RUNNABLE, SLEEPS, VICTIM, idle, make, task, victim};

const MICRO: u64 = 1_000;

/// A part of the victim's wait, with its length in µs.
#[derive(Clone, Copy, Debug)]
enum Act {
    Interrupt(u64),
    Softirq(u64),
    Hog(u64),
    /// The thread that was running before continues to run.
    Blocker(u64),
}

/// One reaction: whether the CPU was busy before, whether a timer wakes the victim, and the acts
/// that delay the victim.
#[derive(Clone, Debug)]
struct Turn {
    busy: bool,
    by_timer: bool,
    acts: Vec<Act>,
}

fn any_turn() -> impl Strategy<Value = Turn> {
    let act = prop_oneof![
        (5u64..200).prop_map(Act::Interrupt),
        (5u64..200).prop_map(Act::Softirq),
        (20u64..300).prop_map(Act::Hog),
        (5u64..200).prop_map(Act::Blocker),
    ];
    let acts = proptest::collection::vec(act, 0..4);
    (any::<bool>(), any::<bool>(), acts).prop_map(|(busy, by_timer, acts)| Turn {
        busy,
        by_timer,
        acts,
    })
}

/// Writes the events of a machine.
struct Machine {
    events: Vec<TraceEvent>,
    now: u64,
    current: Task,
}

impl Machine {
    fn event(&mut self, cpu: u32, flags: u8, kind: EventKind) {
        let pid = match cpu {
            0 => 33,
            _ => self.current.pid,
        };
        self.events.push(TraceEvent {
            time: Nanos(self.now * MICRO),
            cpu,
            pid,
            flags,
            preempt_count: 0,
            kind,
        });
        self.now += 1;
    }

    fn switch(&mut self, state: u32, next: Task) {
        let prev = self.current;
        if prev.pid != next.pid {
            let prev_state = TaskState(state);
            self.event(
                1,
                TraceEvent::NEED_RESCHED,
                EventKind::Switch {
                    prev,
                    prev_state,
                    next,
                },
            );
            self.current = next;
        }
    }

    fn wake(&mut self, by_timer: bool) {
        let waking = EventKind::Waking {
            task: victim(),
            target_cpu: 1,
        };
        if by_timer {
            let vector = Vector::LocalTimer;
            self.event(
                1,
                TraceEvent::IRQS_OFF,
                EventKind::VectorEntry {
                    vector: vector.clone(),
                },
            );
            self.event(1, TraceEvent::HARDIRQ, waking);
            self.event(1, TraceEvent::IRQS_OFF, EventKind::VectorExit { vector });
        } else {
            self.event(0, TraceEvent::IRQS_OFF, waking);
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Interrupt(length) => {
                let name = "eth0".into();
                self.event(1, 0, EventKind::IrqEntry { irq: 24, name });
                self.now += length;
                self.event(1, 0, EventKind::IrqExit { irq: 24, ret: 1 });
            }
            Act::Softirq(length) => {
                self.event(1, 0, EventKind::SoftirqEntry { vec: 3 });
                self.now += length;
                self.event(1, 0, EventKind::SoftirqExit { vec: 3 });
            }
            Act::Hog(length) => {
                self.switch(RUNNABLE, task("hog", 77, 2));
                self.now += length;
            }
            Act::Blocker(length) => self.now += length,
        }
    }

    /// Returns the whole trace of these turns.
    fn run(turns: &[Turn]) -> Vec<TraceEvent> {
        let mut machine = Self {
            events: Vec::new(),
            now: 1_000,
            current: idle(),
        };
        for turn in turns {
            let busy = if turn.busy { make() } else { idle() };
            machine.switch(SLEEPS, busy);
            machine.now += 300;
            machine.wake(turn.by_timer);
            for act in &turn.acts {
                machine.act(*act);
            }
            machine.switch(RUNNABLE, victim());
            machine.now += 20;
        }
        machine.switch(SLEEPS, idle());
        machine.events
    }
}

/// Parts that are deleted from a trace.
#[derive(Clone, Debug)]
struct Damage {
    /// Events that were not recorded.
    names: BTreeSet<&'static str>,
    /// Spans that the tracer reports as lost: CPU, begin and length, as fractions of the trace.
    spans: Vec<(u32, f64, f64)>,
    /// Switches that are missing without the trace saying so. The first switch of the trace is
    /// never removed, because no earlier event would contradict its absence.
    switches: BTreeSet<usize>,
    /// Fraction of the trace that is cut off at its beginning.
    begin: f64,
}

const NAMES: [&str; 8] = [
    "sched:sched_waking",
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
    "irq:softirq_entry",
    "irq:softirq_exit",
    "irq_vectors:*_entry",
    "irq_vectors:*_exit",
    "power:cpu_idle",
];

fn any_damage() -> impl Strategy<Value = Damage> {
    let names = proptest::sample::subsequence(NAMES.to_vec(), 0..4);
    let spans = proptest::collection::vec((0u32..2, 0.0f64..1.0, 0.0f64..0.2), 0..3);
    let switches = proptest::collection::btree_set(2usize..20, 0..2);
    let begin = prop_oneof![Just(0.0), 0.0f64..0.5];
    (names, spans, switches, begin).prop_map(|(names, spans, switches, begin)| Damage {
        names: names.into_iter().collect(),
        spans,
        switches,
        begin,
    })
}

fn name_of(kind: &EventKind) -> &'static str {
    match kind {
        EventKind::Waking { .. } => NAMES[0],
        EventKind::IrqEntry { .. } => NAMES[1],
        EventKind::IrqExit { .. } => NAMES[2],
        EventKind::SoftirqEntry { .. } => NAMES[3],
        EventKind::SoftirqExit { .. } => NAMES[4],
        EventKind::VectorEntry { .. } => NAMES[5],
        EventKind::VectorExit { .. } => NAMES[6],
        _ => "sched:sched_switch",
    }
}

/// Finds the late reactions of the victim in a damaged trace.
fn found(events: &[TraceEvent], damage: &Damage) -> LateFound {
    let mut finder = LateReactions::new(Wanted {
        threshold: None,
        most: 100,
        pids: vec![VICTIM],
        comm: Some(Comm::new(b"victim")),
        cpu: None,
        between: None,
        jobs: None,
    });
    let (first, last) = (events[0].time.0, events[events.len() - 1].time.0);
    let time = |part: f64| first + ((last - first) as f64 * part) as u64;
    let mut losing = BTreeSet::new();
    let mut switch = 0;
    for event in events {
        let at = event.time.0;
        if at < time(damage.begin) || damage.names.contains(name_of(&event.kind)) {
            continue;
        }
        let within = |(cpu, from, length): &(u32, f64, f64)| {
            *cpu == event.cpu && (time(*from)..time(from + length)).contains(&at)
        };
        if damage.spans.iter().any(within) {
            losing.insert(event.cpu);
            continue;
        }
        if matches!(event.kind, EventKind::Switch { .. }) {
            switch += 1;
            if damage.switches.contains(&switch) {
                continue;
            }
        }
        if losing.remove(&event.cpu) {
            finder.lost(event.cpu, None, event.time);
        }
        finder.event(event.clone());
    }
    let recorded = event_names().filter(|name| !damage.names.contains(name));
    finder.finish(&TraceFacts {
        recorded: &recorded.map(str::to_owned).collect(),
        clocks_differ: false,
        resolution: Nanos(1),
        may_have_vectors: true,
        kernel: None,
        symbols: &BTreeMap::new(),
        calls: &BTreeMap::new(),
    })
}

/// Returns the time of each cause in a window.
fn causes(window: &Window) -> BTreeMap<(ShareKind, String), u64> {
    let mut causes = BTreeMap::new();
    for share in find(window).blame.shares {
        *causes.entry((share.kind(), share.who())).or_insert(0) += share.ns.0;
    }
    causes
}

/// Kinds that name no cause.
const UNKNOWN: [ShareKind; 3] = [
    ShareKind::Unexplained,
    ShareKind::Silence,
    ShareKind::Undecided,
];

/// Tolerance for the time between two events, which may be attributed to either of two causes.
const EDGE: u64 = 6 * MICRO;

fn check(turns: &[Turn], damage: &Damage) -> Result<(), TestCaseError> {
    let events = Machine::run(turns);
    let whole = Damage {
        names: BTreeSet::new(),
        spans: Vec::new(),
        switches: BTreeSet::new(),
        begin: 0.0,
    };
    let truth = found(&events, &whole);
    prop_assert_eq!(truth.reactions.len(), turns.len());
    for reaction in found(&events, damage).reactions {
        let window = &reaction.window;
        let same = |one: &&punctual_culprit::Reaction| one.window.actual == window.actual;
        let Some(full) = truth.reactions.iter().find(same) else {
            let told = format!("no reaction ends at {}", window.actual);
            return Err(TestCaseError::fail(told));
        };
        prop_assert!(window.expected >= full.window.expected);
        let named = causes(window);
        prop_assert_eq!(named.values().sum::<u64>(), window.latency().0);
        let supported = causes(&full.window);
        // While a handler that was not recorded runs on top of a thread, the thread seems to be
        // running.
        let handlers = supported
            .iter()
            .filter(|((kind, _), _)| matches!(kind, ShareKind::Interrupt | ShareKind::Softirq));
        let handlers: u64 = handlers.map(|(_, ns)| ns).sum();
        let hidden = damage.names.iter().any(|name| name.starts_with("irq"));
        for ((kind, who), ns) in named {
            let known = supported.get(&(kind, who.clone())).copied();
            let on_top = match kind {
                ShareKind::HigherPriority if hidden => known.map(|_| handlers),
                // The scheduler itself can take this long.
                ShareKind::Scheduling if hidden => Some(10 * MICRO),
                _ => None,
            };
            let known = known.unwrap_or(0) + on_top.unwrap_or(0);
            prop_assert!(
                UNKNOWN.contains(&kind) || ns <= known + EDGE,
                "{:?} {}: at most {} ns, not {}: {:?}",
                kind,
                who,
                known,
                ns,
                supported
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_share_exceeds_the_whole_trace(
        turns in proptest::collection::vec(any_turn(), 1..6),
        damage in any_damage(),
    ) {
        check(&turns, &damage)?;
    }
}
