use proptest::prelude::*;
use punctual_model::{KernelPriority, TaskState};

use super::*;

const TID: u32 = 7;
const RUNNABLE: TaskState = TaskState(0);
const SLEEPS: TaskState = TaskState(1);
const STOPS: TaskState = TaskState(4);
const RELEASE: i64 = 230;
const SECOND: i64 = 202;
const OTHER: i64 = 0;
const YIELD: i64 = 24;
const RESTART: i64 = 219;

/// What the thread of a test does next.
#[derive(Clone, Copy, Debug)]
enum Action {
    /// Waits in a system call: sleeps, and is woken.
    Waits(i64),
    /// Calls a system call that returns without a wait.
    ReturnsAtOnce(i64),
    /// Waits. Other threads wake it in vain once.
    WaitsTwice(i64),
    /// Waits. A signal interrupts the call, which continues by itself or by restart_syscall(2).
    IsInterrupted {
        call: i64,
        restart: bool,
    },
    /// As `IsInterrupted`, and the signal stops the thread. The wait is over after the stop or not.
    IsStopped {
        call: i64,
        restart: bool,
        waits: bool,
    },
    /// Gives up its runtime until the next period.
    Yields,
    Runs,
    IsPreempted,
    /// The recorder changes its stage.
    Stage,
}

#[derive(Clone, Debug)]
enum Recorded {
    Event(TraceEvent),
    Stage(bool),
}

/// What a recorder sees of the thread, and which jobs it really had: release and end.
#[derive(Debug, Default)]
struct World {
    now: u64,
    light: bool,
    recorded: Vec<Recorded>,
    released: Option<u64>,
    jobs: Vec<(Nanos, Nanos)>,
}

impl World {
    fn of(actions: &[Action]) -> Self {
        let mut world = Self::default();
        world.switches(false, RUNNABLE);
        for action in actions {
            world.acts(*action);
        }
        world
    }

    fn record(&mut self, pid: u32, kind: EventKind) {
        self.now += 10;
        let is_call = matches!(
            kind,
            EventKind::SysEnter { .. } | EventKind::SysExit { .. } | EventKind::SleepUntil { .. }
        );
        if self.light && is_call {
            return;
        }
        self.recorded.push(Recorded::Event(TraceEvent {
            time: Nanos(self.now),
            cpu: 0,
            pid,
            flags: 0,
            preempt_count: 0,
            kind,
        }));
    }

    fn enters(&mut self, id: i64) {
        self.record(TID, EventKind::SysEnter { id, args: [1, 0] });
        if id == RELEASE {
            let at = Nanos(self.now);
            let released = self.released.take();
            self.jobs.extend(released.map(|since| (Nanos(since), at)));
        }
    }

    fn returns(&mut self, id: i64, ret: i64) {
        self.record(TID, EventKind::SysExit { id, ret });
    }

    fn switches(&mut self, out: bool, state: TaskState) {
        let task = |pid| Task {
            pid,
            comm: Comm::new(b"t"),
            prio: KernelPriority(-1),
        };
        let (prev, next) = if out { (TID, 9) } else { (9, TID) };
        let kind = EventKind::Switch {
            prev: task(prev),
            prev_state: state,
            next: task(next),
        };
        self.record(prev, kind);
    }

    fn sleeps(&mut self, id: i64, is_release: bool) {
        self.record(TID, EventKind::SleepsIn { id, args: [1, 0] });
        self.switches(true, SLEEPS);
        let task = Task {
            pid: TID,
            comm: Comm::new(b"t"),
            prio: KernelPriority(-1),
        };
        let target_cpu = 0;
        self.record(9, EventKind::Waking { task, target_cpu });
        if is_release && id == RELEASE {
            self.released = Some(self.now);
        }
        self.switches(false, RUNNABLE);
    }

    fn continues(&mut self, call: i64, restart: bool) -> i64 {
        let id = if restart { RESTART } else { call };
        self.record(TID, EventKind::SysEnter { id, args: [1, 0] });
        id
    }

    fn acts(&mut self, action: Action) {
        match action {
            Action::Waits(call) => {
                self.enters(call);
                let until = Nanos(self.now + 25);
                self.record(TID, EventKind::SleepUntil { until });
                self.sleeps(call, true);
                self.returns(call, 0);
            }
            Action::ReturnsAtOnce(call) => {
                self.enters(call);
                if call == RELEASE {
                    self.released = Some(self.now);
                }
                self.returns(call, 0);
            }
            Action::WaitsTwice(call) => {
                self.enters(call);
                self.sleeps(call, false);
                self.sleeps(call, true);
                self.returns(call, 0);
            }
            Action::IsInterrupted { call, restart } => {
                self.enters(call);
                self.sleeps(call, false);
                self.returns(call, -516);
                let id = self.continues(call, restart);
                self.sleeps(call, true);
                self.returns(id, 0);
            }
            Action::IsStopped {
                call,
                restart,
                waits,
            } => {
                self.enters(call);
                let until = Nanos(self.now + 95);
                self.record(TID, EventKind::SleepUntil { until });
                self.sleeps(call, false);
                self.returns(call, -514);
                self.switches(true, STOPS);
                self.switches(false, RUNNABLE);
                let id = self.continues(call, restart);
                if waits {
                    self.sleeps(call, true);
                } else if call == RELEASE {
                    self.released = Some(self.now);
                }
                self.returns(id, 0);
            }
            Action::Yields => {
                self.enters(YIELD);
                self.switches(true, RUNNABLE);
                self.switches(false, RUNNABLE);
                self.returns(YIELD, 0);
            }
            Action::Runs => self.now += 100,
            Action::IsPreempted => {
                self.switches(true, RUNNABLE);
                self.switches(false, RUNNABLE);
            }
            Action::Stage => {
                self.light = !self.light;
                self.recorded.push(Recorded::Stage(self.light));
            }
        }
    }

    /// Loses wake-ups and switches to the thread, as some kernels do.
    fn without(mut self, lost: &[usize]) -> Self {
        let mut index = 0;
        self.recorded.retain(|recorded| {
            let Recorded::Event(event) = recorded else {
                return true;
            };
            let may_be_lost = match &event.kind {
                EventKind::Waking { .. } => true,
                EventKind::Switch { next, .. } => next.pid == TID,
                _ => false,
            };
            index += usize::from(may_be_lost);
            !may_be_lost || !lost.contains(&index)
        });
        self
    }
}

fn numbers() -> CallNumbers {
    CallNumbers {
        restart: vec![RESTART],
        futex: vec![],
        sched_yield: vec![YIELD],
    }
}

fn releases(is_pool: bool) -> Releases {
    let call = |id| Call { id, argument: 1 };
    Releases {
        first: Some(call(RELEASE)),
        others: [is_pool.then_some(call(SECOND)), None, None],
    }
}

/// Returns what the recorded events show, and when.
fn shown(world: &World, is_pool: bool) -> Vec<(Nanos, Step)> {
    let (numbers, mut stages) = (numbers(), Stages::default());
    let mut state = ThreadState::default();
    let mut steps = Vec::new();
    for recorded in &world.recorded {
        match recorded {
            Recorded::Stage(light) => {
                stages = Stages {
                    light: *light,
                    both: true,
                };
                state.change_stage(*light);
            }
            Recorded::Event(event) => {
                let step = state.step(TID, event, releases(is_pool), (&numbers, stages));
                steps.extend(step.map(|step| (event.time, step)));
            }
        }
    }
    steps
}

/// Returns release and end of the completed jobs.
fn completed(steps: &[(Nanos, Step)]) -> Vec<(Nanos, Nanos)> {
    let jobs = steps.iter().filter_map(|(_, step)| match step {
        Step::Job(Outcome::Completed(open, end)) => Some((open.release.at, end.at)),
        _ => None,
    });
    jobs.collect()
}

fn call() -> impl Strategy<Value = i64> {
    prop_oneof![3 => Just(RELEASE), 1 => Just(SECOND), 1 => Just(OTHER)]
}

/// Actions that leave no doubt about the jobs.
fn plain() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => call().prop_map(Action::Waits),
        1 => call().prop_map(Action::ReturnsAtOnce),
        1 => call().prop_map(Action::WaitsTwice),
        1 => (call(), any::<bool>())
            .prop_map(|(call, restart)| Action::IsInterrupted { call, restart }),
        1 => Just(Action::Yields),
        2 => Just(Action::Runs),
        1 => Just(Action::IsPreempted),
    ]
}

fn any_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        8 => plain(),
        1 => (call(), any::<bool>(), any::<bool>())
            .prop_map(|(call, restart, waits)| Action::IsStopped { call, restart, waits }),
        1 => Just(Action::Stage),
    ]
}

proptest! {
    #[test]
    fn jobs_are_those_of_the_thread(actions in prop::collection::vec(plain(), 0..60)) {
        // A call that is entered again looks like another job that was released at once.
        let is_clear = |action: &&Action| {
            !matches!(action, Action::IsInterrupted { call: RELEASE, restart: false })
        };
        let actions: Vec<Action> = actions.iter().filter(is_clear).copied().collect();
        let world = World::of(&actions);
        prop_assert_eq!(completed(&shown(&world, false)), world.jobs);
    }

    /// With stops, changes of the stage and lost events, the jobs may differ from the true ones, but
    /// a thread has only one job at a time.
    #[test]
    fn jobs_follow_each_other(
        actions in prop::collection::vec(any_action(), 0..60),
        lost in prop::collection::vec(0_usize..200, 0..20),
        is_pool: bool,
    ) {
        let world = World::of(&actions).without(&lost);
        let jobs = completed(&shown(&world, is_pool));
        for job in &jobs {
            prop_assert!(job.0 <= job.1, "{job:?}");
        }
        for pair in jobs.windows(2) {
            prop_assert!(pair[0].1 <= pair[1].0, "{pair:?}");
        }
    }
}

/// Returns the table in the documentation of [`JobState`], as the code has it.
fn table() -> Vec<String> {
    let point = |at| Point {
        at: Nanos(at),
        ran: Nanos::ZERO,
    };
    let open = OpenJob::new(point(1));
    let stop = Stop {
        from: point(2),
        events_from: Nanos(2),
    };
    let states = [
        ("Idle", JobState::Idle),
        ("Interrupted", JobState::Interrupted),
        ("Stopped", JobState::Stopped(stop)),
        ("Released", JobState::Released(open)),
        ("Running", JobState::Running(open)),
        ("Ending", JobState::Ending(open, point(3))),
    ];
    let enters = |is_pool| JobEvent::EntersWait {
        at: point(4),
        is_pool,
    };
    let returns = |in_wait: bool, is_unseen, is_pool| {
        JobEvent::Returns(Return {
            wait: in_wait.then(|| point(4)),
            due: None,
            is_unseen,
            is_pool,
        })
    };
    let events = [
        ("enters its release wait", enters(false)),
        ("the same, doubtful", enters(true)),
        ("enters another call", JobEvent::EntersOther),
        (
            "sleeps in its release wait",
            JobEvent::Sleeps { in_wait: true },
        ),
        ("sleeps elsewhere", JobEvent::Sleeps { in_wait: false }),
        (
            "sleeps in its release wait, whose entry is not recorded",
            JobEvent::SleepsUnentered(point(4)),
        ),
        ("is stopped", JobEvent::Stops(stop)),
        ("is woken in its release wait", JobEvent::Wakes(point(4))),
        (
            "is interrupted in its release wait",
            JobEvent::IsInterrupted { in_wait: true },
        ),
        (
            "is interrupted elsewhere",
            JobEvent::IsInterrupted { in_wait: false },
        ),
        ("returns from its release wait", returns(true, false, false)),
        ("the same, of a pool", returns(true, false, true)),
        (
            "the same, after an unseen wake-up",
            returns(true, true, false),
        ),
        ("returns from another call", returns(false, false, false)),
    ];
    let name = |state: &JobState| {
        let same = |(_, other): &&(&str, JobState)| {
            std::mem::discriminant(other) == std::mem::discriminant(state)
        };
        states.iter().find(same).unwrap().0
    };
    let cell = |mut state: JobState, event: JobEvent| {
        let before = name(&state);
        let outcome = state.take(event);
        let outcome = outcome.map(|outcome| {
            let text = format!("{outcome:?}");
            text.split('(').next().unwrap().to_owned()
        });
        let after = name(&state).to_owned();
        match outcome {
            Some(outcome) => format!("{after}: {outcome}"),
            None if after == before => String::new(),
            None => after,
        }
    };
    let row = |cells: Vec<String>| format!("/// | {} |", cells.join(" | ")).replace("|  |", "| |");
    let heads = states.iter().map(|(name, _)| (*name).to_owned());
    let mut rows = vec![
        row(["the thread".to_owned()].into_iter().chain(heads).collect()),
        format!("/// {}|", "|---".repeat(7)),
    ];
    for (text, event) in events {
        let cells = states.iter().map(|(_, state)| cell(*state, event));
        rows.push(row([text.to_owned()].into_iter().chain(cells).collect()));
    }
    rows.iter().map(|row| row.replace("|  |", "| |")).collect()
}

#[test]
fn documentation_shows_the_table_of_states() {
    let documented = include_str!("job_state.rs").lines();
    let documented: Vec<&str> = documented
        .filter(|line| line.starts_with("/// |"))
        .collect();
    let table = table();
    assert_eq!(documented, table, "write:\n{}", table.join("\n"));
}
