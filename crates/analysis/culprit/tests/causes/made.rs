//! Causes that no program can induce on an ordinary machine, in synthetic traces with known causes.

use std::collections::{BTreeMap, BTreeSet};

use punctual_culprit::{LateReactions, Reaction, TraceFacts, Wanted, find};
use punctual_model::{
    Comm, EventKind, KernelPriority, Nanos, ShareKind, Task, TaskState, TraceEvent, Vector,
    event_names,
};

use crate::stream::{RUNNABLE, SLEEPS, VICTIM, make, task, victim};

/// Tolerance for the time between two events, which may be attributed to either of two causes.
const EDGE: Nanos = Nanos::from_micros(20);

/// Addresses of timer functions.
const WAKES: u64 = 0xffff_0001;
const REFILLS: u64 = 0xffff_0002;

/// Writes the events of CPU 1.
struct Cpu {
    events: Vec<TraceEvent>,
    now: f64,
    current: Task,
}

impl Cpu {
    fn running(current: Task) -> Self {
        Self {
            events: Vec::new(),
            now: 10_000.0,
            current,
        }
    }

    fn event(&mut self, kind: EventKind) {
        self.events.push(TraceEvent {
            time: Nanos((self.now * 1_000.0) as u64),
            cpu: 1,
            pid: self.current.pid,
            flags: 0,
            preempt_count: 0,
            kind,
        });
        self.now += 0.5;
    }

    fn pass(&mut self, us: f64) {
        self.now += us;
    }

    fn switch(&mut self, state: u32, next: Task) {
        let (prev, prev_state) = (self.current, TaskState(state));
        self.event(EventKind::Switch {
            prev,
            prev_state,
            next,
        });
        self.current = next;
    }

    /// The thread arms a timer and sleeps; `next` runs.
    fn sleep(&mut self, us: f64, next: Task) {
        let due = ((self.now + us) * 1_000.0) as i64;
        self.event(EventKind::HrtimerStart {
            hrtimer: 7,
            function: WAKES,
            expires_ns: due,
            softexpires_ns: due,
        });
        self.switch(SLEEPS, next);
        self.pass(us - 1.0);
    }

    fn in_timer(&mut self, function: u64, act: impl FnOnce(&mut Self)) {
        let vector = Vector::LocalTimer;
        self.event(EventKind::VectorEntry {
            vector: vector.clone(),
        });
        self.event(EventKind::HrtimerExpireEntry {
            hrtimer: if function == WAKES { 7 } else { 8 },
            function,
            now_ns: (self.now * 1_000.0) as i64,
        });
        act(self);
        let hrtimer = if function == WAKES { 7 } else { 8 };
        self.event(EventKind::HrtimerExpireExit { hrtimer });
        self.event(EventKind::VectorExit { vector });
    }

    fn timer_wakes(&mut self, task: Task) {
        self.in_timer(WAKES, |cpu| {
            cpu.event(EventKind::Waking {
                task,
                target_cpu: 1,
            });
            cpu.event(EventKind::Wakeup {
                task,
                target_cpu: 1,
                new: false,
            });
        });
    }

    /// Returns the longest reaction of the victim.
    fn reaction(self) -> Reaction {
        let mut finder = LateReactions::new(Wanted {
            pids: vec![VICTIM],
            ..Wanted::longest()
        });
        for event in self.events {
            finder.event(event);
        }
        finish(finder, event_names().map(str::to_owned).collect())
    }
}

fn finish(finder: LateReactions, recorded: BTreeSet<String>) -> Reaction {
    let symbols = [
        (WAKES, "hrtimer_wakeup".to_owned()),
        (REFILLS, "sched_cfs_period_timer".to_owned()),
        (REFILLS + 1, "another_function".to_owned()),
    ];
    let found = finder.finish(&TraceFacts {
        recorded: &recorded,
        clocks_differ: false,
        resolution: Nanos(1),
        may_have_vectors: true,
        kernel: None,
        symbols: &symbols.into(),
        calls: &BTreeMap::new(),
    });
    let longest = found.reactions.into_iter();
    longest
        .max_by_key(|reaction| reaction.window.latency())
        .expect("a reaction")
}

/// Checks that all shares add up to the latency, and returns the time of a cause.
fn time_of(reaction: &Reaction, kind: ShareKind, who: &str) -> Nanos {
    let blame = find(&reaction.window).blame;
    let sum: u64 = blame.shares.iter().map(|share| share.ns.0).sum();
    assert_eq!(sum, reaction.window.latency().0);
    let named = blame.shares.iter();
    let named = named.filter(|share| share.kind() == kind && share.who().contains(who));
    Nanos(named.map(|share| share.ns.0).sum())
}

fn assert_takes(reaction: &Reaction, kind: ShareKind, who: &str, us: u64) {
    let found = time_of(reaction, kind, who);
    let (least, most) = (us.saturating_sub(EDGE.0 / 1_000), us + EDGE.0 / 1_000);
    let range = Nanos::from_micros(least)..=Nanos::from_micros(most);
    let blame = find(&reaction.window).blame;
    assert!(range.contains(&found), "{found}: {}", blame.sentence());
}

fn idle() -> Task {
    task("swapper/1", 0, 120)
}

/// All CPUs wait in their stopper threads, which have the highest priority.
#[test]
fn stop_machine_is_a_thread_above() {
    let mut cpu = Cpu::running(victim());
    cpu.sleep(500.0, make());
    cpu.timer_wakes(victim());
    cpu.switch(RUNNABLE, task("migration/1", 21, 0));
    cpu.pass(900.0);
    cpu.switch(SLEEPS, victim());
    let reaction = cpu.reaction();
    assert_takes(&reaction, ShareKind::HigherPriority, "migration/1", 900);
}

/// The stopper thread takes a long time to move the victim.
#[test]
fn move_to_another_cpu_is_a_migration() {
    let mut cpu = Cpu::running(victim());
    cpu.sleep(500.0, make());
    cpu.timer_wakes(victim());
    cpu.switch(RUNNABLE, task("migration/1", 21, 0));
    cpu.pass(300.0);
    cpu.event(EventKind::Migrate {
        task: victim(),
        orig_cpu: 1,
        dest_cpu: 2,
    });
    let switch = EventKind::Switch {
        prev: task("swapper/2", 0, 120),
        prev_state: TaskState(RUNNABLE),
        next: victim(),
    };
    cpu.current = idle();
    cpu.event(switch);
    if let Some(last) = cpu.events.last_mut() {
        last.cpu = 2;
    }
    let reaction = cpu.reaction();
    assert_takes(&reaction, ShareKind::Migration, "CPU 1", 300);
}

#[test]
fn late_timer_of_an_idle_cpu_is_its_idle_exit() {
    let mut cpu = Cpu::running(victim());
    cpu.sleep(500.0, idle());
    let entry = cpu.events.len();
    cpu.pass(180.0);
    cpu.event(EventKind::IdleExit { cpu_id: 1 });
    cpu.timer_wakes(victim());
    cpu.switch(RUNNABLE, victim());
    // The idle state is entered right after the thread has gone to sleep.
    let mut idle = cpu.events[entry - 1].clone();
    (idle.pid, idle.kind) = (
        0,
        EventKind::IdleEntry {
            state: 2,
            cpu_id: 1,
        },
    );
    cpu.events.insert(entry, idle);
    let reaction = cpu.reaction();
    assert_takes(&reaction, ShareKind::IdleExit, "CPU 1", 180);
}

#[test]
fn storm_of_interrupts_is_summed() {
    let mut cpu = Cpu::running(victim());
    cpu.sleep(500.0, make());
    cpu.timer_wakes(victim());
    for _ in 0..400 {
        let name = "eth0".into();
        cpu.event(EventKind::IrqEntry { irq: 24, name });
        cpu.pass(2.0);
        cpu.event(EventKind::IrqExit { irq: 24, ret: 1 });
    }
    cpu.switch(RUNNABLE, victim());
    let reaction = cpu.reaction();
    assert_takes(&reaction, ShareKind::Interrupt, "eth0", 1_000);
}

#[test]
fn preemption_off_names_its_place() {
    let mut cpu = Cpu::running(victim());
    cpu.sleep(500.0, make());
    cpu.event(EventKind::PreemptDisable {
        caller: WAKES,
        parent: 0,
    });
    cpu.timer_wakes(victim());
    cpu.pass(700.0);
    cpu.event(EventKind::PreemptEnable {
        caller: WAKES,
        parent: 0,
    });
    cpu.switch(RUNNABLE, victim());
    let reaction = cpu.reaction();
    assert_takes(&reaction, ShareKind::Blocking, "make", 700);
    let told = find(&reaction.window).blame.sentence();
    assert!(told.contains("hrtimer_wakeup"), "{told}");
}

fn ordinary() -> Task {
    task("victim", VICTIM, 120)
}

fn outsider() -> Task {
    task("outsider", 61, 120)
}

/// An ordinary thread is runnable, and its CPU is idle until the kernel refills a quota.
#[test]
fn idle_cpu_beside_a_runnable_thread_is_a_quota() {
    let mut cpu = Cpu::running(ordinary());
    cpu.sleep(500.0, outsider());
    cpu.timer_wakes(ordinary());
    cpu.switch(SLEEPS, idle());
    cpu.pass(9_000.0);
    cpu.in_timer(REFILLS, |_| ());
    cpu.switch(RUNNABLE, ordinary());
    let reaction = cpu.reaction();
    assert_takes(&reaction, ShareKind::Throttled, "quota", 9_000);
}

/// In the meantime, a thread of equal rank runs. Before the refill, this thread is only a possible
/// cause. After the refill, it is certainly the cause.
#[test]
fn equal_rank_before_a_refill_is_undecided() {
    for (function, undecided) in [(REFILLS, 9_000), (REFILLS + 1, 0)] {
        let mut cpu = Cpu::running(ordinary());
        cpu.sleep(500.0, outsider());
        cpu.timer_wakes(ordinary());
        cpu.pass(9_000.0);
        cpu.in_timer(function, |_| ());
        cpu.pass(3_000.0);
        cpu.switch(RUNNABLE, ordinary());
        let reaction = cpu.reaction();
        assert_takes(&reaction, ShareKind::Unexplained, "quota", undecided);
        let competing = 12_000 - undecided;
        assert_takes(&reaction, ShareKind::Competing, "outsider", competing);
    }
}

/// A quota does not limit real-time threads.
#[test]
fn refills_do_not_matter_to_real_time_threads() {
    let mut cpu = Cpu::running(victim());
    cpu.sleep(500.0, task("equal", 62, 4));
    cpu.timer_wakes(victim());
    cpu.pass(2_000.0);
    cpu.in_timer(REFILLS, |_| ());
    cpu.switch(SLEEPS, victim());
    let reaction = cpu.reaction();
    assert_takes(&reaction, ShareKind::Competing, "equal", 2_000);
}

/// A timer of the victim that expires late delays it, even if its wait for the CPU is short.
#[test]
fn latency_begins_when_the_timer_was_due() {
    let mut cpu = Cpu::running(victim());
    cpu.sleep(500.0, make());
    let name = "eth0".into();
    cpu.event(EventKind::IrqEntry { irq: 24, name });
    cpu.pass(400.0);
    cpu.event(EventKind::IrqExit { irq: 24, ret: 1 });
    cpu.timer_wakes(victim());
    cpu.switch(RUNNABLE, victim());
    let reaction = cpu.reaction();
    assert_takes(&reaction, ShareKind::Interrupt, "eth0", 400);
    assert!(reaction.window.latency() > Nanos::from_micros(400));
}

/// Without the event that armed the timer, the latency begins at the wake-up.
#[test]
fn latency_of_an_unknown_timer_begins_at_the_wakeup() {
    let mut cpu = Cpu::running(victim());
    cpu.sleep(500.0, make());
    cpu.events.remove(0);
    cpu.pass(400.0);
    cpu.timer_wakes(victim());
    cpu.switch(RUNNABLE, victim());
    assert!(cpu.reaction().window.latency() < EDGE);
}

#[test]
fn lost_events_are_added_up() {
    let mut finder = LateReactions::new(Wanted::longest());
    finder.lost(0, Some(3), Nanos(1_000));
    finder.lost(1, None, Nanos(2_000));
    finder.lost(0, Some(4), Nanos(3_000));
    let found = finder.finish(&TraceFacts {
        recorded: &BTreeSet::new(),
        clocks_differ: false,
        resolution: Nanos(1),
        may_have_vectors: true,
        kernel: None,
        symbols: &BTreeMap::new(),
        calls: &BTreeMap::new(),
    });
    assert_eq!(found.lost, (3, 7));
}

/// The priorities of threads are not in a trace of timerlat.
#[test]
fn timerlat_alone_names_what_ran() {
    let noise = |source, from: f64, duration: f64| EventKind::Noise {
        source,
        start: Nanos((from * 1_000.0) as u64),
        duration: Nanos((duration * 1_000.0) as u64),
    };
    let (comm, thread) = (Comm::new(b"cc1"), 87_882);
    let irq = |vector, desc: &str| punctual_model::NoiseSource::Irq {
        vector,
        desc: desc.into(),
    };
    for complete in [true, false] {
        let mut finder = LateReactions::new(Wanted::longest());
        let mut cpu = Cpu::running(Task {
            pid: thread,
            comm,
            prio: KernelPriority(120),
        });
        // The sample is due at 10,100 µs. The interrupt of the timer comes 60 µs later, and the
        // thread runs 200 µs after the due time.
        cpu.event(noise(irq(236, "local_timer"), 9_990.0, 9.0));
        cpu.now = 10_170.0;
        cpu.event(noise(irq(236, "local_timer"), 10_160.0, 10.0));
        cpu.now = 10_220.0;
        cpu.event(noise(irq(24, "eth0"), 10_190.0, 30.0));
        cpu.now = 10_298.0;
        let pid = thread;
        let source = punctual_model::NoiseSource::Thread { pid, comm };
        cpu.event(noise(source, 10_160.0, 98.0));
        let at = |us: u64| Nanos::from_micros(us);
        let of = |pid| Task {
            pid,
            ..Task::default()
        };
        for event in cpu.events {
            if event.time > at(10_165) && event.time < at(10_175) {
                let text = "#12 context    irq timer_latency     60000 ns";
                finder.mark(at(10_162), 1, of(thread), text);
            }
            finder.event(event);
        }
        let text = "#12 context thread timer_latency    200000 ns";
        finder.mark(at(10_300), 1, of(VICTIM), text);
        let mut recorded = vec!["osnoise:irq_noise", "osnoise:thread_noise"];
        recorded.truncate(if complete { 2 } else { 1 });
        let reaction = finish(finder, recorded.into_iter().map(str::to_owned).collect());
        assert_eq!(reaction.window.latency(), at(200));
        if complete {
            assert_takes(&reaction, ShareKind::Silence, "", 60);
            assert_takes(&reaction, ShareKind::Interrupt, "local_timer", 10);
            assert_takes(&reaction, ShareKind::Interrupt, "eth0", 30);
            assert_takes(&reaction, ShareKind::Unranked, "cc1", 98);
        } else {
            assert_takes(&reaction, ShareKind::Unranked, "cc1", 0);
        }
        assert_takes(&reaction, ShareKind::Blocking, "", 0);
        assert_takes(&reaction, ShareKind::OwnWork, "", 0);
    }
}
