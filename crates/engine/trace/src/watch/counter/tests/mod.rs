use std::sync::Arc;

use proptest::prelude::*;
use punctual_model::{KernelPriority, TaskState};

use super::*;
use crate::Files;
use crate::flight::Owner;
use crate::testing::{FakeTracefs, PageBuilder, Piece, Value, layout, record};
use crate::{Lost, Tracefs, WakeupWatch};

mod groups;

const ASK: WatchAsk = WatchAsk {
    by_comm: false,
    real_time_only: false,
    pid_max: 1 << 15,
    longest: 4,
    groups: None,
};

fn task(pid: u32, prio: i16) -> Task {
    Task {
        pid,
        comm: Comm::new(format!("t{pid}").as_bytes()),
        prio: KernelPriority(prio),
    }
}

fn event(time: u64, cpu: u32, pid: u32, kind: EventKind) -> Streamed {
    Streamed::Event(TraceEvent {
        time: Nanos(time),
        cpu,
        pid,
        flags: 0,
        preempt_count: 0,
        kind,
    })
}

/// Returns the event of `waker` waking a thread.
fn waking(time: u64, cpu: u32, waker: u32, task: Task) -> Streamed {
    let kind = EventKind::Waking {
        task,
        target_cpu: cpu,
    };
    event(time, cpu, waker, kind)
}

fn switch(time: u64, cpu: u32, prev: Task, next: Task) -> Streamed {
    let kind = EventKind::Switch {
        prev,
        prev_state: TaskState(1),
        next,
    };
    event(time, cpu, prev.pid, kind)
}

const IDLE: Task = Task {
    pid: 0,
    comm: Comm([0; 16]),
    prio: KernelPriority(120),
};

fn counted(ask: WatchAsk, events: &[Streamed]) -> Wakeups {
    let mut counter = Counter::new(ask, 0..2);
    events.iter().for_each(|events| counter.take(events));
    counter.seen(Nanos(1), "a test")
}

fn count(seen: &Wakeups) -> u64 {
    seen.rows.iter().map(|row| row.waits.count).sum()
}

#[test]
fn wait_lasts_from_waking_to_switch() {
    let (control, hog) = (task(7, 19), task(8, 120));
    let seen = counted(
        ASK,
        &[
            switch(1_000, 1, IDLE, hog),
            waking(5_000, 0, 9, control),
            switch(9_000, 1, hog, control),
            switch(9_500, 1, control, IDLE),
        ],
    );
    assert_eq!((count(&seen), seen.lost, seen.events_lost), (1, 0, 0));
    let row = &seen.rows[0];
    assert_eq!((row.cpu, row.class), (1, PriorityClass::RealTime));
    assert_eq!(row.waits.max_ns, Nanos(4_000));
    let late = &seen.longest[0];
    assert_eq!(
        (late.woken_ns, late.latency_ns),
        (Nanos(5_000), Nanos(4_000))
    );
    let culprit = late.culprit.as_ref().map(|one| one.tid);
    assert_eq!((late.victim.tid, culprit, late.waker), (7, Some(8), 9));
    // The culprit also ran before the wake-up, but no thread was waiting at that time.
    assert_eq!(late.culprit_ran_ns, Some(Nanos(4_000)));
    assert_eq!(late.victim.policy, None);
    assert_eq!(late.victim.scheduling(), "real-time 80");
    assert_eq!(seen.not_bpf.as_deref(), Some("a test"));
}

#[test]
fn unfinished_wait_is_open() {
    let (control, hog) = (task(7, 49), task(8, 39));
    let mut counter = Counter::new(ASK, 0..2);
    let events = [
        switch(1_000, 1, IDLE, hog),
        waking(5_000, 0, 9, control),
        // This thread is running, so it is not waiting.
        waking(6_000, 0, 9, hog),
    ];
    events.iter().for_each(|events| counter.take(events));
    let waiting = counter.waiting(Nanos(954_000_000));
    let note = WaitNote {
        tid: 7,
        woken: Nanos(5_000),
        waker: 9,
    };
    assert_eq!(
        (waiting.at, waiting.notes),
        (Nanos(954_000_000), vec![note])
    );
    assert_eq!(waiting.running, [(1, 8)].into());
    counter.take(&switch(1_000_000_000, 1, hog, control));
    assert_eq!(counter.waiting(Nanos(1_000_000_001)).notes, []);
}

/// Threads that have to wait while the events are being enabled do so because of this program.
#[test]
fn wake_ups_before_start_are_not_counted() {
    let (early, later) = (task(7, 120), task(8, 120));
    let mut counter = Counter::new(ASK, 0..2).from(Nanos(5_000));
    let events = [
        waking(4_000, 0, 9, early),
        waking(5_000, 0, 9, later),
        switch(90_000, 1, IDLE, early),
        switch(91_000, 1, early, later),
    ];
    events.iter().for_each(|events| counter.take(events));
    let seen = counter.seen(Nanos(1), "a test");
    assert_eq!((count(&seen), seen.lost), (1, 0));
    assert_eq!(seen.longest[0].victim.tid, 8);
}

#[test]
fn thread_woken_while_running_does_not_wait() {
    let (own, other) = (task(7, 120), task(8, 120));
    let seen = counted(
        ASK,
        &[
            switch(1_000, 0, IDLE, own),
            waking(2_000, 1, 0, own),
            // The thread is preempted and resumes much later. This is not a wait after a wake-up.
            switch(3_000, 0, own, other),
            switch(900_000, 0, other, own),
        ],
    );
    assert_eq!((count(&seen), seen.lost), (0, 0));
    // The result is the same if the state of the CPU is not known yet.
    let seen = counted(
        ASK,
        &[
            waking(2_000, 1, 0, own),
            switch(3_000, 0, own, other),
            switch(900_000, 0, other, own),
        ],
    );
    assert_eq!((count(&seen), seen.lost), (0, 0));
}

#[test]
fn a_new_thread_waits_too() {
    let new = task(77, 120);
    let kind = EventKind::Wakeup {
        task: new,
        target_cpu: 0,
        new: true,
    };
    let seen = counted(ASK, &[event(10, 0, 3, kind), switch(60, 0, IDLE, new)]);
    assert_eq!((count(&seen), seen.longest[0].waker), (1, 3));
}

/// A kernel can lose the events of a CPU's idle thread, so that switches from this thread have no
/// event.
#[test]
fn switch_in_without_event_is_lost_wakeup() {
    let own = task(7, 120);
    let shown = counted(
        ASK,
        &[
            switch(100, 0, own, IDLE),
            switch(150, 1, IDLE, task(9, 120)),
            waking(1_000, 1, 9, own),
            switch(5_000, 0, own, IDLE),
            waking(6_000, 1, 9, own),
            waking(8_000, 1, 9, own),
        ],
    );
    assert_eq!((count(&shown), shown.lost), (0, 2));
}

#[test]
fn what_was_lost_makes_no_long_waits() {
    let own = task(7, 120);
    let gap = |from, to, lost| Streamed::Gap {
        from: Nanos(from),
        to: Nanos(to),
        cpu: 0,
        lost,
    };
    let seen = counted(
        ASK,
        &[
            waking(1_000, 1, 0, own),
            gap(1_500, 2_000, 12),
            switch(900_000, 0, task(8, 120), own),
        ],
    );
    assert_eq!((count(&seen), seen.lost, seen.events_lost), (0, 1, 12));
    // Later wake-ups are counted again.
    let seen = counted(
        ASK,
        &[
            gap(0, 900, 3),
            waking(1_000, 1, 0, own),
            switch(1_500, 0, task(8, 120), own),
        ],
    );
    assert_eq!((count(&seen), seen.lost, seen.events_lost), (1, 0, 3));
    assert_eq!(seen.longest[0].culprit_ran_ns, None);
}

#[test]
fn of_real_time_threads_only() {
    let ask = WatchAsk {
        real_time_only: true,
        ..ASK
    };
    let (fair, urgent) = (task(7, 120), task(8, 10));
    let seen = counted(
        ask,
        &[
            waking(10, 0, 0, fair),
            waking(20, 0, 0, urgent),
            switch(50, 0, IDLE, urgent),
            // The wait of the fair thread is not counted, because no event would show whether the
            // thread ran in between.
            switch(70, 0, urgent, fair),
        ],
    );
    assert_eq!(count(&seen), 1);
    assert_eq!(seen.rows[0].class, PriorityClass::RealTime);
}

#[test]
fn names_beyond_the_most_are_counted_without() {
    let ask = WatchAsk {
        by_comm: true,
        ..ASK
    };
    let mut events = Vec::new();
    let most = MOST_COMMS as u32 + 3;
    for pid in 1..=most {
        let at = u64::from(pid) * 100;
        events.push(waking(at, 0, 0, task(pid, 120)));
        events.push(switch(at + 10, 0, IDLE, task(pid, 120)));
        events.push(switch(at + 20, 0, task(pid, 120), IDLE));
    }
    let seen = counted(ask, &events);
    assert_eq!((count(&seen), seen.unnamed, seen.lost), (most.into(), 3, 0));
    let unnamed = seen.rows.iter().find(|row| row.comm.is_none()).unwrap();
    assert_eq!(unnamed.waits.count, 3);
    assert_eq!(seen.longest.len(), ASK.longest);
}

/// A simulated machine that schedules threads at random, and records the true waits and the events.
#[derive(Clone, Debug)]
struct Machine {
    time: u64,
    running: [u32; 2],
    /// For each waiting thread, the start of its wait and whether it was woken or lost its CPU.
    queued: BTreeMap<u32, (u64, bool)>,
    events: Vec<Streamed>,
    waits: Vec<u64>,
}

const THREADS: u32 = 5;

impl Machine {
    fn new() -> Self {
        Self {
            time: 1_000,
            running: [0, 0],
            queued: BTreeMap::new(),
            events: Vec::new(),
            waits: Vec::new(),
        }
    }

    fn step(&mut self, what: u8, cpu: usize, pid: u32, after: u64) {
        self.time += after;
        let thread = |pid: u32| if pid == 0 { IDLE } else { task(pid, 120) };
        let asleep = !self.running.contains(&pid) && !self.queued.contains_key(&pid);
        match what {
            0 => {
                // A thread may be woken even if it is running or already waiting.
                let events = waking(self.time, cpu as u32, self.running[cpu], thread(pid));
                if asleep {
                    self.queued.insert(pid, (self.time, true));
                    self.events.push(events);
                } else if self.running.contains(&pid) {
                    self.events.push(events);
                }
            }
            _ => {
                let prev = self.running[cpu];
                let next = self.queued.keys().next().copied().unwrap_or(0);
                if prev == next {
                    return;
                }
                if what == 2 && prev != 0 {
                    self.queued.insert(prev, (self.time, false));
                }
                if let Some((since, true)) = self.queued.remove(&next) {
                    self.waits.push(self.time - since);
                }
                self.running[cpu] = next;
                self.events
                    .push(switch(self.time, cpu as u32, thread(prev), thread(next)));
            }
        }
    }
}

proptest! {
    #[test]
    fn each_wait_is_counted_exactly(
        steps in proptest::collection::vec((0u8..3, 0usize..2, 1u32..=THREADS, 1u64..5_000), 0..200),
    ) {
        let mut machine = Machine::new();
        for (what, cpu, pid, after) in steps {
            machine.step(what, cpu, pid, after);
        }
        let seen = counted(ASK, &machine.events);
        let sum: u64 = seen.rows.iter().map(|row| row.waits.sum_ns).sum();
        prop_assert_eq!(count(&seen), machine.waits.len() as u64);
        prop_assert_eq!(sum, machine.waits.iter().sum::<u64>());
        prop_assert_eq!((seen.lost, seen.events_lost), (0, 0));
        let longest = machine.waits.iter().max().copied();
        prop_assert_eq!(seen.longest.first().map(|late| late.latency_ns.0), longest);
    }

    /// No matter which events are lost, no wait is counted twice, and none is counted as too long.
    #[test]
    fn missing_events_invent_no_wait(
        steps in proptest::collection::vec((0u8..3, 0usize..2, 1u32..=THREADS, 1u64..5_000, proptest::bool::weighted(0.97)), 0..200),
    ) {
        let mut machine = Machine::new();
        let mut shown = Vec::new();
        for (what, cpu, pid, after, is_shown) in steps {
            let from = machine.events.len();
            machine.step(what, cpu, pid, after);
            shown.extend(machine.events[from..].iter().cloned().map(|events| (is_shown, events)));
        }
        let mut events = Vec::new();
        // For each CPU, the number of lost events and the time of the last event before them.
        let mut missing = [(0, Nanos::ZERO); 2];
        let gap = |cpu: usize, (lost, from), to| Streamed::Gap { from, to, cpu: cpu as u32, lost };
        for (is_shown, one) in shown {
            let Streamed::Event(event) = &one else { continue };
            let (time, cpu) = (event.time, event.cpu as usize);
            if !is_shown {
                missing[cpu].0 += 1;
                continue;
            }
            let before = std::mem::replace(&mut missing[cpu], (0, time));
            if before.0 > 0 {
                events.push(gap(cpu, before, time));
            }
            events.push(one);
        }
        for (cpu, before) in missing.into_iter().enumerate() {
            if before.0 > 0 {
                events.push(gap(cpu, before, Nanos(machine.time + 1)));
            }
        }
        events.sort_by_key(Streamed::time);
        let all = WatchAsk { longest: 1_000, ..ASK };
        let seen = counted(all, &events);
        prop_assert_eq!(seen.longest.len() as u64, count(&seen));
        let mut real = machine.waits.clone();
        prop_assert!(count(&seen) <= real.len() as u64);
        for late in &seen.longest {
            let place = real.iter().position(|wait| *wait == late.latency_ns.0);
            prop_assert!(place.is_some(), "{:?} of {:?}", late, real);
            real.swap_remove(place.unwrap_or_default());
        }
    }
}

/// A simulated kernel with a tracefs.
struct Kernel {
    _folder: tempfile::TempDir,
    fake: Arc<FakeTracefs>,
    tracefs: Tracefs,
}

fn kernel() -> Kernel {
    let folder = tempfile::tempdir().unwrap();
    let fake = Arc::new(FakeTracefs::new(folder.path(), "nop").unwrap());
    fake.with_events(&[]).unwrap();
    let files = Arc::clone(&fake) as Arc<dyn Files>;
    Kernel {
        tracefs: Tracefs::find_with(folder.path(), files).unwrap(),
        _folder: folder,
        fake,
    }
}

impl Kernel {
    fn watch(&self, ask: WatchAsk) -> Result<WakeupWatch, crate::TraceError> {
        let owner = Owner { pid: 9, start: 4 };
        WakeupWatch::by_events(&self.tracefs, owner, ask, "no BTF".to_owned(), None)
    }
}

fn page(lost: Option<Lost>, records: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut page = PageBuilder::new(layout(cfg!(target_endian = "big")));
    for (after, bytes) in records {
        page.write(&Piece::Event(*after, bytes.clone()));
    }
    // The page begins after the start of the watch.
    page.page(crate::clock::monotonic().0, lost)
}

#[test]
fn pages_of_the_kernel_are_counted() {
    let kernel = kernel();
    let mut watch = kernel.watch(ASK).unwrap();
    assert_eq!(watch.why_not_programs(), Some("no BTF"));
    let on = kernel.fake.switched_on().unwrap();
    assert_eq!(
        on,
        [
            "sched:sched_switch none",
            "sched:sched_wakeup_new none",
            "sched:sched_waking none"
        ]
    );
    let (name, number) = (Value::Name("control"), Value::Number);
    let woken = record(
        "sched/sched_waking",
        0,
        3,
        &[name, number(7), number(19), number(0)],
    );
    let fields = [
        Value::Name("swapper"),
        number(0),
        number(120),
        name,
        number(7),
        number(19),
        number(0),
    ];
    let switched = record("sched/sched_switch", 0, 0, &fields);
    let put = |page: &[u8]| assert_eq!(kernel.fake.put_page(page).unwrap(), 1);
    put(&page(None, &[(0, woken), (250, switched)]));
    watch.keep_up().unwrap();
    put(&page(Some(Lost::Count(8)), &[]));
    let seen = watch.read().unwrap();
    assert_eq!((count(&seen), seen.events_lost), (1, 8));
    assert_eq!(seen.longest[0].latency_ns, Nanos(250));
    assert_eq!(seen.longest[0].victim.comm, "control");
    assert_eq!(seen.source, WakeupSource::Events);
    watch.stop().unwrap();
    assert_eq!(kernel.fake.instances().unwrap(), [""; 0]);
}

#[test]
fn kernel_discards_unrequested_events() {
    let kernel = kernel();
    let ask = WatchAsk {
        real_time_only: true,
        ..ASK
    };
    let watch = kernel.watch(ask).unwrap();
    let on = kernel.fake.switched_on().unwrap();
    assert!(
        on.contains(&"sched:sched_switch prev_prio < 100 || next_prio < 100".to_owned()),
        "{on:?}"
    );
    assert!(on.contains(&"sched:sched_waking prio < 100".to_owned()));
    drop(watch);
    assert_eq!(kernel.fake.instances().unwrap(), [""; 0]);
}

#[test]
fn kernel_refusal_is_reported_and_changes_nothing() {
    let kernel = kernel();
    kernel.fake.without_mono(1_000);
    let error = kernel.watch(ASK).unwrap_err();
    assert!(matches!(error, crate::TraceError::NoClock), "{error}");
    assert_eq!(kernel.fake.instances().unwrap(), [""; 0]);
    let kernel = self::kernel();
    for first in 0..6 {
        kernel.fake.refuse(first, 100);
        // If the kernel rejects the clock, the trace uses a different one.
        assert!(kernel.watch(ASK).is_err(), "{first}");
        assert_eq!(kernel.fake.instances().unwrap(), [""; 0], "{first}");
    }
}
