//! Virtual CPUs in made traces of their host, with known truth.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use punctual_culprit::{HostView, VirtualCpus, find};
use punctual_model::cause::{Cause, Source, Unknown};
use punctual_model::{
    Delay, EventKind, HostSpan, Nanos, ShareKind, Task, TaskState, TraceEvent, Window, event_names,
};

use crate::stream::{RUNNABLE, SLEEPS, Stream, idle, make, task, victim};

const MICRO: u64 = 1_000;
/// Number of CPUs of the host, and of virtual CPUs.
const CPUS: usize = 2;

/// The threads of the host: two virtual CPUs and two others. Threads at 4 and 5 are the idle ones.
fn threads() -> Vec<Task> {
    vec![
        task("CPU 0/KVM", 1_000, 120),
        task("CPU 1/KVM", 1_001, 120),
        task("hog", 50, 120),
        task("rt", 51, 49),
        task("swapper/0", 0, 120),
        task("swapper/1", 0, 120),
    ]
}

/// A step on a CPU of the host.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The virtual CPU there enters or leaves guest mode.
    Toggle,
    Interrupt(u64),
    /// Another thread runs. Whether the one before sleeps.
    Switch(usize, bool),
}

/// The true state of the host from one time to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Truth {
    from: u64,
    to: u64,
    current: [usize; CPUS],
    in_guest: [bool; CPUS],
    in_irq: [bool; CPUS],
}

#[derive(Debug)]
struct Host {
    now: u64,
    current: [usize; CPUS],
    /// CPU on which each thread was last.
    last: [usize; 6],
    asleep: [bool; 6],
    in_guest: [bool; CPUS],
    events: Vec<TraceEvent>,
    /// Events of the guest: its CPU and the time.
    guest: Vec<(u32, u64)>,
    truth: Vec<Truth>,
}

impl Host {
    fn run(steps: &[(usize, Step, u64)]) -> Self {
        let mut host = Self {
            now: 1_000 * MICRO,
            current: [4, 5],
            last: [0, 1, 0, 1, 0, 1],
            asleep: [false; 6],
            in_guest: [false; CPUS],
            events: Vec::new(),
            guest: Vec::new(),
            truth: Vec::new(),
        };
        for (cpu, step, length) in steps {
            host.step(*cpu, *step);
            host.pass(*length * MICRO, [false; CPUS]);
        }
        host
    }

    /// Lets time pass.
    fn pass(&mut self, ns: u64, in_irq: [bool; CPUS]) {
        let from = self.now;
        self.now += ns;
        self.truth.push(Truth {
            from,
            to: self.now,
            current: self.current,
            in_guest: self.in_guest,
            in_irq,
        });
        for vcpu in (0..CPUS).filter(|vcpu| self.in_guest[*vcpu] && ns > 2) {
            self.guest.push((vcpu as u32, from + ns / 2));
        }
    }

    fn event(&mut self, cpu: usize, kind: EventKind) {
        self.pass(MICRO, [false; CPUS]);
        self.events.push(TraceEvent {
            time: Nanos(self.now),
            cpu: cpu as u32,
            pid: threads()[self.current[cpu]].pid,
            flags: 0,
            preempt_count: 0,
            kind,
        });
    }

    fn leave(&mut self, cpu: usize) {
        let vcpu = self.current[cpu];
        if vcpu < CPUS && self.in_guest[vcpu] {
            self.event(cpu, EventKind::KvmExit {});
            self.in_guest[vcpu] = false;
        }
    }

    fn step(&mut self, cpu: usize, step: Step) {
        let current = self.current[cpu];
        match step {
            Step::Toggle if current < CPUS && !self.in_guest[current] => {
                self.event(cpu, EventKind::KvmEntry {});
                self.in_guest[current] = true;
            }
            Step::Toggle => self.leave(cpu),
            Step::Interrupt(length) => {
                self.leave(cpu);
                let name = "eth0".into();
                self.event(cpu, EventKind::IrqEntry { irq: 24, name });
                let mut in_irq = [false; CPUS];
                in_irq[cpu] = true;
                self.pass(length * MICRO, in_irq);
                self.event(cpu, EventKind::IrqExit { irq: 24, ret: 1 });
            }
            Step::Switch(next, sleeps) => {
                let next = if next == 4 { 4 + cpu } else { next };
                if next == current || self.current.contains(&next) {
                    return;
                }
                self.leave(cpu);
                let all = threads();
                if std::mem::take(&mut self.asleep[next]) {
                    let target_cpu = self.last[next] as u32;
                    let task = all[next];
                    self.event(cpu, EventKind::Waking { task, target_cpu });
                }
                if next < 4 && self.last[next] != cpu {
                    let (task, orig_cpu) = (all[next], self.last[next] as u32);
                    let dest_cpu = cpu as u32;
                    self.event(
                        cpu,
                        EventKind::Migrate {
                            task,
                            orig_cpu,
                            dest_cpu,
                        },
                    );
                }
                let sleeps = sleeps && current < 4;
                let prev_state = TaskState(if sleeps { SLEEPS } else { RUNNABLE });
                self.event(
                    cpu,
                    EventKind::Switch {
                        prev: all[current],
                        prev_state,
                        next: all[next],
                    },
                );
                (self.asleep[current], self.last[current]) = (sleeps, cpu);
                (self.current[cpu], self.last[next]) = (next, cpu);
            }
        }
    }

    /// Returns how long `is_so` is false between `from` and `to`.
    fn not(&self, from: u64, to: u64, is_so: impl Fn(&Truth) -> bool) -> u64 {
        let parts = self.truth.iter().filter(|part| !is_so(part));
        parts
            .map(|part| part.to.min(to).saturating_sub(part.from.max(from)))
            .sum()
    }
}

/// Events that are not in the trace.
#[derive(Clone, Debug)]
struct Damage {
    /// Spans with lost events: CPU, begin and length as parts of the trace.
    spans: Vec<(u32, f64, f64)>,
    /// Numbers of switches that are missing without a note.
    switches: BTreeSet<usize>,
    /// Numbers of exits from guest mode that are missing without a note.
    exits: BTreeSet<usize>,
}

const WHOLE: Damage = Damage {
    spans: Vec::new(),
    switches: BTreeSet::new(),
    exits: BTreeSet::new(),
};

/// Reads the traces of the host and the guest, whose clock is `shift` ns behind.
fn view(host: &Host, damage: &Damage, shift: u64) -> HostView {
    let vcpus = BTreeMap::from([(0, 1_000), (1, 1_001)]);
    let mut vcpus = VirtualCpus::new(&vcpus, vec![(Nanos::ZERO, Nanos(u64::MAX))], false);
    vcpus.learn(&event_names().map(str::to_owned).collect());
    let (first, last) = (host.truth[0].from, host.now);
    let time = |part: f64| first + ((last - first) as f64 * part) as u64;
    let mut guest = host.guest.iter().peekable();
    let mut losing = BTreeSet::new();
    let (mut switches, mut exits) = (0, 0);
    for event in &host.events {
        let at = event.time.0;
        while let Some((cpu, time)) = guest.next_if(|(_, time)| time + shift < at) {
            vcpus.guest(*cpu, Nanos(time + shift));
        }
        let within = |(cpu, from, length): &(u32, f64, f64)| {
            *cpu == event.cpu && (time(*from)..time(from + length)).contains(&at)
        };
        if damage.spans.iter().any(within) {
            losing.insert(event.cpu);
            continue;
        }
        match event.kind {
            EventKind::Switch { .. } => {
                switches += 1;
                if damage.switches.contains(&switches) {
                    continue;
                }
            }
            EventKind::KvmExit {} => {
                exits += 1;
                if damage.exits.contains(&exits) {
                    continue;
                }
            }
            _ => {}
        }
        if losing.remove(&event.cpu) {
            vcpus.lost(event.cpu, event.time);
        }
        vcpus.event(event.clone());
    }
    for cpu in losing {
        vcpus.lost(cpu, Nanos(last));
    }
    vcpus.finish()
}

/// Returns a late reaction that takes the whole time, on this CPU of the guest. `make` seems to run
/// there meanwhile.
fn reaction(host: &Host, view: &HostView, cpu: u32) -> Window {
    let mut window = Stream::late(1.0).window;
    window.victim.cpu = cpu;
    window.delay = Delay::Wakeup;
    (window.expected, window.actual) = (Nanos(host.truth[0].from), Nanos(host.now));
    let event = |time, pid, kind| TraceEvent {
        time,
        cpu,
        pid,
        flags: 0,
        preempt_count: 0,
        kind,
    };
    let switch = |prev, next| EventKind::Switch {
        prev,
        prev_state: TaskState(RUNNABLE),
        next,
    };
    let waking = EventKind::Waking {
        task: victim(),
        target_cpu: cpu,
    };
    window.events = vec![
        event(window.expected - Nanos(100), 0, switch(idle(), make())),
        event(window.expected, make().pid, waking),
        event(window.actual, make().pid, switch(make(), victim())),
    ];
    view.add_to(&mut window);
    window
}

/// Checks that a span is true. `has_switches`: whether the trace has all switches. If one is missing
/// without a note, only a later event of its CPU shows this.
fn check(host: &Host, span: &HostSpan, has_switches: bool) -> Result<(), TestCaseError> {
    let vcpu = span.cpu as usize;
    let not = |is_so: &dyn Fn(&Truth) -> bool| host.not(span.from.0, span.to.0, is_so);
    let Some(cause) = &span.away else {
        let wrong = not(&|truth| truth.in_guest[vcpu]);
        prop_assert_eq!(wrong, 0, "not in guest mode: {:?}", span);
        return Ok(());
    };
    let wrong = not(&|truth| !truth.in_guest[vcpu]);
    prop_assert_eq!(wrong, 0, "in guest mode: {:?}", span);
    let Source::Host(source) = &cause.source else {
        return Err(TestCaseError::fail(format!("not of the host: {span:?}")));
    };
    let all = threads();
    let runs = |truth: &Truth, pid: u32| truth.current.iter().any(|one| all[*one].pid == pid);
    let wrong = match &**source {
        Source::Thread { thread, .. } if has_switches => {
            let pid = thread.pid.unwrap();
            not(&|truth| runs(truth, pid))
        }
        Source::Irq { .. } => not(&|truth| truth.in_irq.contains(&true)),
        Source::OwnWork | Source::UserSpace => not(&|truth| runs(truth, 1_000 + span.cpu)),
        _ => 0,
    };
    // An interrupt begins and ends between two events.
    let edge = 4 * MICRO;
    prop_assert!(wrong <= edge, "{} ns too much: {:?}", wrong, span);
    Ok(())
}

fn any_steps() -> impl Strategy<Value = Vec<(usize, Step, u64)>> {
    let step = prop_oneof![
        4 => Just(Step::Toggle),
        1 => (1u64..100).prop_map(Step::Interrupt),
        3 => (0usize..5, any::<bool>()).prop_map(|(next, sleeps)| Step::Switch(next, sleeps)),
    ];
    proptest::collection::vec((0..CPUS, step, 1u64..300), 1..80)
}

fn any_damage() -> impl Strategy<Value = Damage> {
    let spans = proptest::collection::vec((0u32..2, 0.0f64..1.0, 0.0f64..0.2), 0..3);
    let switches = proptest::collection::btree_set(1usize..20, 0..2);
    let exits = proptest::collection::btree_set(1usize..20, 0..2);
    (spans, switches, exits).prop_map(|(spans, switches, exits)| Damage {
        spans,
        switches,
        exits,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn host_charges_only_what_ran(steps in any_steps(), damage in any_damage()) {
        let host = Host::run(&steps);
        for damage in [&WHOLE, &damage] {
            let view = view(&host, damage, 0);
            for cpu in [0, 1] {
                let mut window = reaction(&host, &view, cpu);
                for span in &window.host {
                    check(&host, span, damage.switches.is_empty())?;
                }
                let blame = punctual_culprit::explain(&mut window);
                let sum: u64 = blame.shares.iter().map(|share| share.ns.0).sum();
                prop_assert_eq!(sum, window.latency().0);
                let (away, unknown) = punctual_culprit::away_and_unknown(&window);
                prop_assert!(away + unknown <= window.latency());
                let stolen = blame.shares.iter().filter(|share| share.kind() == ShareKind::Stolen);
                let stolen: u64 = stolen.map(|share| share.ns.0).sum();
                prop_assert_eq!(stolen, away.0);
            }
        }
    }

    #[test]
    fn whole_host_trace_leaves_nothing_unknown(steps in any_steps()) {
        let host = Host::run(&steps);
        let view = view(&host, &WHOLE, 0);
        for cpu in [0_u32, 1] {
            let mut spans = reaction(&host, &view, cpu).host;
            let Some((from, to)) = spans.first().map(|one| one.from).zip(spans.last().map(|one| one.to))
            else {
                continue;
            };
            spans.dedup_by(|next, before| {
                let joins = next.from == before.to;
                if joins {
                    before.to = next.to;
                }
                joins
            });
            prop_assert_eq!(spans.len(), 1, "{:?} to {:?}", from, to);
            let window = reaction(&host, &view, cpu);
            let mut causes = window.host.iter().filter_map(|one| one.away.as_ref());
            let is_gap = |cause: &Cause| {
                matches!(&cause.source, Source::Host(source)
                    if matches!(**source, Source::Unexplained(Unknown::Gap { .. })))
            };
            prop_assert!(!causes.any(is_gap));
        }
        prop_assert_eq!(view.mismatch(), None);
    }

    #[test]
    fn no_host_span_breaks_the_sum(
        spans in proptest::collection::vec((0u32..3, any::<u16>(), any::<u16>(), any::<bool>()), 0..8),
        late in 1.0f64..200.0,
    ) {
        let mut window = Stream::late(late).sleeping_beside(idle()).timer(2.0).window;
        let at = |part: u16| crate::stream::at(f64::from(part) / 200.0 - 50.0);
        window.host = spans
            .into_iter()
            .map(|(cpu, from, to, away)| HostSpan {
                cpu,
                from: at(from),
                to: at(to),
                away: away.then(|| Cause::new(Source::Stolen)),
            })
            .collect();
        let blame = find(&window).blame;
        let sum: u64 = blame.shares.iter().map(|share| share.ns.0).sum();
        prop_assert_eq!(sum, window.latency().0);
    }
}

/// A virtual CPU that runs, and is preempted by `hog` for 800 µs, twenty times.
fn preempted() -> Host {
    let mut steps = vec![(0, Step::Switch(0, false), 10)];
    for _ in 0..20 {
        steps.extend([
            (0, Step::Toggle, 200),
            (0, Step::Switch(2, false), 800),
            (0, Step::Switch(0, false), 5),
        ]);
    }
    steps.push((0, Step::Toggle, 50));
    Host::run(&steps)
}

#[test]
fn preempting_host_thread_is_named() {
    let host = preempted();
    let view = view(&host, &WHOLE, 0);
    let window = reaction(&host, &view, 0);
    let hog = window.host.iter().filter(|span| {
        let who = span.away.as_ref().map(Cause::who);
        who.is_some_and(|who| who == "the host: hog-50 running")
    });
    let ns: u64 = hog.map(|span| span.to.0 - span.from.0).sum();
    assert!((16_000..16_100).contains(&(ns / MICRO)), "{ns}");
    let blame = find(&window).blame;
    assert_eq!(blame.largest().unwrap().who(), "the host: hog-50 running");
    assert_eq!(view.mismatch(), None);
}

#[test]
fn wrong_clock_shift_is_noticed() {
    let host = preempted();
    assert_eq!(view(&host, &WHOLE, 10 * MICRO).mismatch(), None);
    let (contradicted, checked) = view(&host, &WHOLE, 400 * MICRO).mismatch().unwrap();
    assert!(
        contradicted >= 19 && checked == 20,
        "{contradicted} {checked}"
    );
}
