//! The same jobs as seen in the light and the full stage, with changes at any time.

use proptest::prelude::*;
use punctual_model::{Comm, KernelPriority, Task, TaskState};

use super::super::release::{Call, CallKind};
use super::super::thread_state::CallNumbers;
use super::*;

const TID: u32 = 7;
const RELEASE: i64 = 232;
const READ: i64 = 0;

fn at(us: u64, pid: u32, kind: EventKind) -> TraceEvent {
    TraceEvent {
        time: Nanos::from_micros(us),
        cpu: 0,
        pid,
        flags: 0,
        preempt_count: 0,
        kind,
    }
}

fn task(pid: u32) -> Task {
    Task {
        pid,
        comm: Comm::new(b"t"),
        prio: KernelPriority(120),
    }
}

/// A thread that lives, with the events of both stages.
#[derive(Default)]
struct Life {
    now: u64,
    events: Vec<TraceEvent>,
    /// Ends of sleeps in the release wait, and the beginnings of these sleeps.
    wakes: Vec<u64>,
    sleeps: Vec<u64>,
    /// Times at which the release wait returned without a sleep.
    at_once: Vec<u64>,
}

impl Life {
    fn push(&mut self, us: u64, pid: u32, kind: EventKind) {
        self.now += us;
        self.events.push(at(self.now, pid, kind));
    }

    fn enter(&mut self, us: u64, id: i64) {
        self.push(us, TID, EventKind::SysEnter { id, args: [1, 0] });
    }

    fn exit(&mut self, us: u64, id: i64) {
        self.push(us, TID, EventKind::SysExit { id, ret: 0 });
    }

    /// Sleeps in a call, or in a page fault (-1).
    fn sleep(&mut self, id: i64, us: u64) {
        self.push(3, TID, EventKind::SleepsIn { id, args: [1, 0] });
        self.switch(0, TID, 1, 0);
        if id == RELEASE {
            self.sleeps.push(self.now);
        }
        let woken = EventKind::Waking {
            task: task(TID),
            target_cpu: 0,
        };
        self.push(us, 0, woken);
        if id == RELEASE {
            self.wakes.push(self.now);
        }
        self.switch(4, 0, 0, TID);
    }

    fn switch(&mut self, us: u64, prev: u32, state: u32, next: u32) {
        let kind = EventKind::Switch {
            prev: task(prev),
            prev_state: TaskState(state),
            next: task(next),
        };
        self.push(us, prev, kind);
    }

    fn wait(&mut self, us: u64) {
        self.enter(2, RELEASE);
        self.sleep(RELEASE, us);
        self.exit(2, RELEASE);
    }

    fn act(&mut self, what: u8, us: u64) {
        match what {
            0 | 1 => self.wait(us),
            2 => {
                self.enter(2, RELEASE);
                self.at_once.push(self.now);
                self.exit(1, RELEASE);
            }
            3 => {
                self.enter(2, READ);
                self.sleep(READ, us);
                self.exit(2, READ);
            }
            4 => self.sleep(-1, us),
            5 => {
                self.enter(us, READ);
                self.exit(5, READ);
            }
            // Preempted.
            _ => {
                self.switch(us, TID, 0, 9);
                self.switch(20, 9, 0, TID);
            }
        }
    }
}

fn finder() -> JobFinder {
    JobFinder::new(CallNumbers::default())
}

fn kind(_: u32, call: Call) -> Option<CallKind> {
    (call.id == RELEASE).then_some(CallKind::Any)
}

/// One program records a sleep and its switch, so no change is between them.
fn after_sleep(events: &[TraceEvent], change: usize) -> usize {
    let before = change.checked_sub(1).and_then(|before| events.get(before));
    let is_sleep = |event: &TraceEvent| matches!(event.kind, EventKind::SleepsIn { .. });
    change + usize::from(before.is_some_and(is_sleep))
}

/// Returns the jobs, as pairs of release and completion in microseconds, if the stage changes
/// before the events with these numbers. The first stage is the light one.
fn seen(life: &Life, changes: &[usize]) -> (Vec<(u64, u64)>, JobSeen) {
    let mut finder = finder();
    let mut light = true;
    let mut jobs = Vec::new();
    finder.enter(light, Nanos::ZERO);
    for (number, event) in life.events.iter().enumerate() {
        for _ in (changes.iter()).filter(|change| after_sleep(&life.events, **change) == number) {
            light = !light;
            finder.enter(light, event.time);
        }
        let call = matches!(
            event.kind,
            EventKind::SysEnter { .. } | EventKind::SysExit { .. }
        );
        if !(light && call) {
            jobs.extend(finder.take(event, &|tid| tid == TID, &kind));
        }
    }
    let us = |time: Nanos| time.0 / 1_000;
    let jobs = jobs.iter().map(|job| (us(job.release), us(job.completion)));
    let jobs = jobs.collect();
    (jobs, finder.seen().next().unwrap().1.clone())
}

/// Jobs of 100 us with a read, enough to learn the release wait.
fn begun() -> Life {
    let mut life = Life::default();
    for _ in 0..400 {
        life.wait(700);
        life.act(5, 100);
        life.act(3, 40);
    }
    life
}

#[test]
fn light_stage_sees_the_same_jobs() {
    let mut life = begun();
    let full: Vec<usize> = vec![0];
    let (in_full, seen_in_full) = seen(&life, &full);
    let (in_light, seen_in_light) = seen(&life, &[]);
    assert_eq!(seen_in_light.release.unwrap().call.id, RELEASE);
    assert_eq!(seen_in_light.release, seen_in_full.release);
    assert_eq!((in_light.len(), in_full.len()), (399, 399));
    for (light, full) in in_light.iter().zip(&in_full) {
        // The job ends with the sleep, just after the entry of the call.
        assert_eq!((light.0, light.1), (full.0, full.1 + 3));
    }
    // The sleep for a page is a part of its job.
    life.act(4, 5_000);
    life.wait(700);
    let last = *seen(&life, &[]).0.last().unwrap();
    assert!((5_000..5_400).contains(&(last.1 - last.0)), "{last:?}");
}

#[test]
fn busy_thread_is_no_long_job() {
    let mut life = begun();
    let number = life.events.len();
    for _ in 0..30_000 {
        life.act(5, 60);
        life.act(2, 0);
    }
    let middle = number + (life.events.len() - number) / 2;
    life.wait(700);
    life.act(5, 60);
    life.wait(700);
    let until = middle + 400;
    let (jobs, seen) = seen(&life, &[middle, until]);
    let longest = jobs.iter().map(|(from, to)| to - from).max().unwrap();
    assert!(longest < 1_000, "{longest}");
    assert!(seen.at_once >= 50, "{}", seen.at_once);
    let (_, busy) = seen.busy.unwrap();
    assert!(busy > Nanos::from_millis(900), "{busy}");
}

#[test]
fn long_job_in_light_asks_for_full() {
    let life = begun();
    let mut finder = finder();
    finder.enter(true, Nanos::ZERO);
    for event in &life.events {
        finder.take(event, &|tid| tid == TID, &kind);
    }
    let now = life.events.last().unwrap().time;
    assert!(!finder.needs_full_stage(now.saturating_sub(Nanos::from_millis(1))));
    assert!(finder.needs_full_stage(now + Nanos::from_millis(1)));
}

proptest! {
    /// A job is one wake-up to the next sleep, or a part of this between returns without a sleep. A
    /// change of the stage makes no other jobs.
    #[test]
    fn stage_changes_make_no_job(
        acts in prop::collection::vec((0_u8..7, 1_u64..900), 1..60),
        changes in prop::collection::vec(0_usize..400, 0..8),
        early in prop::collection::vec(10_usize..5_000, 0..4),
    ) {
        let mut life = begun();
        let first = life.events.len();
        life.wait(700);
        for (what, us) in acts {
            life.act(what, us);
        }
        life.wait(700);
        // Some changes are during the search for the release wait, after its first wait.
        let mut changes: Vec<usize> = changes.iter().map(|one| first + one).chain(early).collect();
        changes.sort_unstable();
        let (jobs, _) = seen(&life, &changes);
        let mut at = 0;
        for (release, completion) in jobs.iter().copied() {
            prop_assert!(release >= at && completion >= release, "{:?}", jobs);
            at = completion;
            let asleep = |time: u64| {
                let before = life.sleeps.partition_point(|sleep| *sleep <= time);
                before > 0 && before - 1 < life.wakes.len() && time < life.wakes[before - 1]
            };
            // The job contains no sleep in the release wait.
            let spans = life.sleeps.iter().any(|sleep| release < *sleep && *sleep < completion);
            prop_assert!(!spans && !asleep(release), "{release} {completion}");
            let begins = life.wakes.contains(&release) || life.at_once.contains(&release);
            let slept = life.sleeps.iter().any(|sleep| completion.abs_diff(*sleep) <= 3);
            prop_assert!(begins && (slept || life.at_once.contains(&completion)), "{release} {completion}");
        }
        // Without returns at once, no job is missing.
        if life.at_once.is_empty() {
            prop_assert_eq!(jobs.len(), life.wakes.len() - 1);
        }
    }
}
