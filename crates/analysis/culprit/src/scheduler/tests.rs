//! Each rule on synthetic traces: one that breaks it, and similar ones that do not.

use punctual_model::cause::{Hold, Limit, PolicyChange, SchedulerFinding, SchedulerRule};
use punctual_model::{Comm, EventKind, KernelPriority, Nanos, Task, TaskState, TraceEvent};

use super::{SchedulerFacts, SchedulerRules};

const REFILL: u64 = 0xa1;

pub(super) fn task(name: &str, pid: u32, prio: i16) -> Task {
    Task {
        pid,
        comm: Comm::new(name.as_bytes()),
        prio: KernelPriority(prio),
    }
}

pub(super) fn idle() -> Task {
    task("swapper", 0, 120)
}

pub(super) fn fair(pid: u32) -> Task {
    task("fair", pid, 120)
}

pub(super) fn fifo(pid: u32, priority: u8) -> Task {
    task("fifo", pid, 99 - i16::from(priority))
}

/// A trace: times in µs.
#[derive(Default)]
pub(super) struct Trace(Vec<TraceEvent>);

impl Trace {
    pub(super) fn event(mut self, us: u64, cpu: u32, pid: u32, kind: EventKind) -> Self {
        self.0.push(TraceEvent {
            time: Nanos::from_micros(us),
            cpu,
            pid,
            flags: 0,
            preempt_count: 0,
            kind,
        });
        self
    }

    fn switch(self, us: u64, cpu: u32, prev: Task, state: u32, next: Task) -> Self {
        let kind = EventKind::Switch {
            prev,
            prev_state: TaskState(state),
            next,
        };
        self.event(us, cpu, prev.pid, kind)
    }

    /// The thread on the CPU goes to sleep.
    pub(super) fn sleeps(self, us: u64, cpu: u32, prev: Task, next: Task) -> Self {
        self.switch(us, cpu, prev, 1, next)
    }

    /// The thread on the CPU is preempted.
    pub(super) fn preempted(self, us: u64, cpu: u32, prev: Task, next: Task) -> Self {
        self.switch(us, cpu, prev, 0, next)
    }

    /// An interrupt on top of thread 33 of CPU 7 wakes a thread.
    fn waking(self, us: u64, task: Task, target_cpu: u32) -> Self {
        self.event(us, 7, 33, EventKind::Waking { task, target_cpu })
    }

    pub(super) fn wakeup(self, us: u64, task: Task, target_cpu: u32) -> Self {
        let new = false;
        let kind = EventKind::Wakeup {
            task,
            target_cpu,
            new,
        };
        self.waking(us, task, target_cpu).event(us, 7, 33, kind)
    }

    pub(super) fn inherits(self, us: u64, task: Task, priority: i16) -> Self {
        let newprio = KernelPriority(priority);
        self.event(us, 7, 33, EventKind::PiSetprio { task, newprio })
    }

    pub(super) fn findings(self) -> Vec<SchedulerFinding> {
        self.with(&|_| ())
    }

    /// Returns the findings, if no policy changed.
    fn with(self, change: &dyn Fn(&mut SchedulerFacts<'_>)) -> Vec<SchedulerFinding> {
        let (findings, changes) = self.finish(change);
        assert_eq!(changes, []);
        findings
    }

    pub(super) fn finish(
        self,
        change: &dyn Fn(&mut SchedulerFacts<'_>),
    ) -> (Vec<SchedulerFinding>, Vec<PolicyChange>) {
        let mut rules = SchedulerRules::default();
        let mut refills = Vec::new();
        for event in self.0 {
            if matches!(event.kind, EventKind::HrtimerExpireEntry { .. }) {
                refills.push(event.time);
            }
            let calls = |from, to| {
                let within = refills.iter().filter(|at| (from..=to).contains(*at));
                within.map(|_| REFILL).take(1).collect()
            };
            rules.event(&event, calls);
        }
        let mut facts = SchedulerFacts {
            migrations: true,
            inheritance: true,
            refills: false,
            is_refill: &|function| function == REFILL,
            servers: Some(0),
        };
        change(&mut facts);
        rules.finish(&facts)
    }

    /// Checks that no rule is broken.
    pub(super) fn keeps_the_rules(self) {
        assert_eq!(self.findings(), []);
    }

    /// Returns the only finding.
    fn finding(self) -> SchedulerFinding {
        only(self.findings())
    }
}

fn only(mut findings: Vec<SchedulerFinding>) -> SchedulerFinding {
    assert_eq!(findings.len(), 1, "{findings:#?}");
    findings.remove(0)
}

/// CPU 1 runs a real-time thread each millisecond, and is idle in between. A thread that was woken
/// at the beginning runs at the end.
fn left_waiting(turns: u64, refilled: bool) -> Trace {
    let mut trace = Trace::default()
        .sleeps(100, 1, fair(5), idle())
        .waking(200, fair(5), 1);
    for turn in 1..=turns {
        trace = trace.preempted(turn * 1_000, 1, idle(), fifo(6, 80));
        trace = trace.sleeps(turn * 1_000 + 100, 1, fifo(6, 80), idle());
        if refilled {
            let kind = EventKind::HrtimerExpireEntry {
                hrtimer: 1,
                function: REFILL,
                now_ns: 0,
            };
            trace = trace.event(turn * 1_000 + 900, 7, 33, kind);
        }
    }
    trace.preempted((turns + 1) * 1_000, 1, idle(), fair(5))
}

#[test]
fn idle_cpu_with_runnable_thread_is_found() {
    let found = left_waiting(9, false).finding();
    assert_eq!(found.rule, SchedulerRule::NoIdleWhileRunnable);
    assert_eq!((found.thread.pid, found.cpu, found.times), (5, 1, 9));
    assert_eq!(found.total_ns, Nanos::from_micros(8_100));
    assert_eq!(found.possible, [Hold::Quota, Hold::Scheduler]);
    assert_eq!(
        found.sentence(),
        "fair-5 (nice 0) was runnable while CPU 1 was idle: 9 times, 8.10 ms in total, 900 µs at \
         most; possible: the CPU quota of a control group, an error of the scheduler (the event \
         timer:hrtimer_expire_entry would decide)"
    );
}

#[test]
fn refilled_quota_explains_idle_cpu() {
    let found = left_waiting(9, true).finding();
    assert_eq!(found.limit, Some(Limit::Quota(None)));
    assert!(
        found
            .sentence()
            .ends_with("limit: CPU quota of a control group")
    );
}

#[test]
fn recorded_timers_without_refill_leave_the_scheduler() {
    let found = only(left_waiting(9, false).with(&|facts| facts.refills = true));
    assert_eq!((found.limit, found.possible), (None, vec![Hold::Scheduler]));
}

#[test]
fn idle_switch_before_wake_up_arrives_keeps_the_rules() {
    let trace = Trace::default()
        .sleeps(100, 1, fair(5), fair(6))
        .waking(990, fair(5), 1)
        .sleeps(1_000, 1, fair(6), idle());
    trace.preempted(1_900, 1, idle(), fair(5)).keeps_the_rules();
    let trace = Trace::default()
        .sleeps(100, 1, fair(5), fair(6))
        .wakeup(990, fair(5), 1)
        .sleeps(1_000, 1, fair(6), idle());
    trace.preempted(1_900, 1, idle(), fair(5)).keeps_the_rules();
}

#[test]
fn moment_between_two_threads_keeps_the_rules() {
    let trace = Trace::default()
        .sleeps(100, 1, fair(5), fair(6))
        .wakeup(500, fair(5), 1)
        .sleeps(1_000, 1, fair(6), idle());
    trace.preempted(1_040, 1, idle(), fair(5)).keeps_the_rules();
}

#[test]
fn migrated_thread_waits_elsewhere() {
    let kind = EventKind::Migrate {
        task: fair(5),
        orig_cpu: 1,
        dest_cpu: 2,
    };
    let trace = Trace::default()
        .sleeps(100, 1, fair(5), fair(6))
        .wakeup(500, fair(5), 1)
        .event(600, 7, 33, kind)
        .sleeps(1_000, 1, fair(6), idle())
        .sleeps(9_000, 2, fair(7), fair(5));
    trace.keeps_the_rules();
}

#[test]
fn unrecorded_migrations_leave_queues_unknown() {
    let findings = left_waiting(9, false).with(&|facts| facts.migrations = false);
    assert_eq!(findings, []);
}

#[test]
fn missing_switch_leaves_queue_unknown() {
    // Thread 8 runs before 9 ms although no event shows a switch to it.
    let trace = Trace::default()
        .sleeps(100, 1, fair(5), fair(6))
        .wakeup(500, fair(5), 1)
        .sleeps(1_000, 1, fair(6), idle())
        .sleeps(9_000, 1, fair(8), idle())
        .preempted(9_500, 1, idle(), fair(5));
    trace.keeps_the_rules();
}

#[test]
fn lower_priority_first_is_found() {
    let trace = Trace::default()
        .sleeps(100, 1, fifo(5, 80), fair(6))
        .wakeup(500, fifo(5, 80), 1)
        .preempted(1_000, 1, fair(6), fair(7))
        .preempted(1_900, 1, fair(7), fifo(5, 80));
    let found = trace.finding();
    assert_eq!(found.rule, SchedulerRule::HigherFirst);
    assert_eq!(found.by.map(|by| by.pid), Some(7));
    assert_eq!(found.possible, [Hold::RealTimeThrottling, Hold::Scheduler]);
    let start = "fifo-5 (real-time 80) was runnable on CPU 1 while fair-7 (nice 0) ran there: once";
    assert!(found.sentence().starts_with(start), "{}", found.sentence());
}

#[test]
fn higher_priority_first_keeps_the_rules() {
    let trace = Trace::default()
        .sleeps(100, 1, fifo(5, 80), fair(6))
        .wakeup(500, fifo(5, 80), 1)
        .preempted(510, 1, fair(6), fifo(8, 90))
        .sleeps(1_900, 1, fifo(8, 90), fifo(5, 80));
    trace.keeps_the_rules();
}

#[test]
fn priority_lowered_in_the_queue_keeps_the_rules() {
    let trace = Trace::default()
        .sleeps(100, 1, fifo(5, 80), fair(6))
        .wakeup(500, fifo(5, 80), 1)
        .preempted(1_000, 1, fair(6), fair(7))
        // A call made it an ordinary thread meanwhile.
        .preempted(1_900, 1, fair(7), task("fifo", 5, 120));
    let (findings, changes) = trace.finish(&|_| ());
    assert_eq!(changes.len(), 1);
    assert!(
        findings
            .iter()
            .all(|one| one.rule != SchedulerRule::HigherFirst),
        "{findings:#?}"
    );
}

#[test]
fn later_thread_of_equal_priority_first_is_found() {
    let trace = Trace::default()
        .wakeup(100, fifo(5, 50), 1)
        .wakeup(300, fifo(6, 50), 1)
        .sleeps(1_000, 1, fifo(9, 90), fifo(6, 50))
        .sleeps(1_100, 1, fifo(6, 50), fifo(5, 50));
    let found = trace.finding();
    assert_eq!(found.rule, SchedulerRule::InOrder);
    assert_eq!((found.thread.pid, found.by.map(|by| by.pid)), (5, Some(6)));
}

#[test]
fn earlier_thread_of_equal_priority_first_keeps_the_rules() {
    let trace = Trace::default()
        .wakeup(100, fifo(5, 50), 1)
        .wakeup(300, fifo(6, 50), 1)
        .sleeps(1_000, 1, fifo(9, 90), fifo(5, 50))
        .sleeps(1_100, 1, fifo(5, 50), fifo(6, 50));
    trace.keeps_the_rules();
}

/// A preempted thread stays the first of its priority.
#[test]
fn preempted_thread_first_keeps_the_rules() {
    let trace = Trace::default()
        .sleeps(50, 1, fair(8), fifo(5, 50))
        .wakeup(100, fifo(6, 50), 1)
        .preempted(300, 1, fifo(5, 50), fifo(9, 90))
        .sleeps(1_000, 1, fifo(9, 90), fifo(5, 50))
        .sleeps(1_100, 1, fifo(5, 50), fifo(6, 50));
    trace.keeps_the_rules();
}

#[test]
fn lost_policy_is_found() {
    let demoted = task("fifo", 5, 120);
    let trace = Trace::default()
        .sleeps(100, 1, fair(6), fifo(5, 60))
        .sleeps(500, 1, fifo(5, 60), fair(6))
        .wakeup(900, demoted, 1)
        .sleeps(1_000, 1, fair(6), demoted);
    let (findings, changes) = trace.finish(&|_| ());
    assert_eq!(findings, []);
    assert_eq!(
        changes[0].sentence(),
        "fifo-5 was real-time 60 until 0.001000, then nice 0"
    );
}

#[test]
fn inherited_priority_that_ends_is_no_lost_policy() {
    let boosted = task("fair", 6, 39);
    let trace = Trace::default()
        .sleeps(100, 1, idle(), fair(6))
        .inherits(200, fair(6), 39)
        .preempted(300, 1, boosted, fifo(9, 90))
        .sleeps(400, 1, fifo(9, 90), boosted)
        .inherits(500, boosted, 120)
        .preempted(600, 1, fair(6), fifo(9, 90))
        .sleeps(700, 1, fifo(9, 90), fair(6));
    trace.keeps_the_rules();
}

#[test]
fn inheritance_that_is_not_handed_on_is_found() {
    let trace = Trace::default()
        .sleeps(100, 1, idle(), fair(6))
        .inherits(200, fair(6), 39)
        // It leaves the CPU as an ordinary thread.
        .preempted(300, 1, fair(6), fifo(9, 70));
    let found = trace.finding();
    assert_eq!(found.rule, SchedulerRule::Inheritance);
    assert_eq!(found.possible, [Hold::Scheduler]);
}

/// A hog of real-time priority leaves the CPU to an ordinary thread for 50 ms.
fn served(servers: Option<u64>) -> SchedulerFinding {
    let trace = Trace::default()
        .sleeps(100, 1, idle(), fifo(5, 60))
        .preempted(950_000, 1, fifo(5, 60), fair(6))
        .preempted(1_000_000, 1, fair(6), fifo(5, 60));
    only(trace.with(&|facts| facts.servers = servers))
}

#[test]
fn deadline_server_explains_ordinary_threads() {
    assert_eq!(served(Some(1)).limit, Some(Limit::FairServer));
    let older = served(Some(0));
    assert_eq!(older.limit, None);
    assert_eq!(older.possible, [Hold::RealTimeThrottling, Hold::Scheduler]);
    let unknown = served(None);
    assert_eq!(
        unknown.possible,
        [Hold::RealTimeThrottling, Hold::FairServer, Hold::Scheduler]
    );
}

/// A hog of real-time priority leaves the CPU to ordinary threads for `turns` of 50 ms, one after the
/// other, each `period` ms. With sched_ext, these are a thread of each scheduler.
fn served_often(turns: u32, period: u64, servers: u64) -> SchedulerFinding {
    let mut trace = Trace::default().sleeps(100, 1, idle(), fifo(5, 60));
    for round in 1..=3 {
        let mut ms = round * period;
        let mut current = fifo(5, 60);
        for turn in 0..turns {
            let next = task(if turn == 0 { "fair" } else { "ext" }, 6 + turn, 120);
            trace = trace.preempted(ms * 1_000, 1, current, next);
            (current, ms) = (next, ms + 50);
        }
        trace = trace.preempted(ms * 1_000, 1, current, fifo(5, 60));
    }
    only(trace.with(&|facts| facts.servers = Some(servers)))
}

#[test]
fn server_of_sched_ext_explains_as_much_as_the_fair_server() {
    assert_eq!(served_often(1, 1_000, 1).limit, Some(Limit::FairServer));
    let both = served_often(2, 1_000, 2);
    assert_eq!((both.times, both.limit), (6, Some(Limit::FairServer)));
}

#[test]
fn more_than_the_share_of_the_servers_is_not_explained() {
    for (turns, period, servers) in [(2, 1_000, 1), (3, 1_000, 2), (1, 200, 1), (2, 300, 2)] {
        let found = served_often(turns, period, servers);
        assert_eq!(found.limit, None, "{turns} {period} {servers}");
        assert_eq!(found.possible, [Hold::FairServer, Hold::Scheduler]);
    }
}

#[test]
fn used_up_budget_explains_deadline_thread() {
    let trace = Trace::default()
        .sleeps(100, 1, idle(), task("dl", 5, -1))
        .preempted(950, 1, task("dl", 5, -1), idle())
        .preempted(5_000, 1, idle(), task("dl", 5, -1));
    assert_eq!(trace.finding().limit, Some(Limit::DeadlineBudget));
}

#[test]
fn lost_events_leave_queues_unknown() {
    let mut rules = SchedulerRules::default();
    let trace = left_waiting(9, false).0;
    let last = trace.len() - 1;
    for (place, event) in trace.iter().enumerate() {
        if place == last {
            rules.forget();
        }
        rules.event(event, |_, _| Vec::new());
    }
    let facts = SchedulerFacts {
        migrations: true,
        inheritance: true,
        refills: false,
        is_refill: &|_| false,
        servers: None,
    };
    assert_eq!(rules.finish(&facts), (Vec::new(), Vec::new()));
}
