//! The words for an observed act, and the limits of the rules.

use punctual_model::{
    Act, ActKind, FileKind, InCall, LintFacts, Nanos, PlacedAct, Policy, RuleState, TIMER_SIGNAL,
    WaitedFile, WaitedTimer,
};

use super::{act, facts, judged, rule, sleep, thread, violated};

/// Returns the text of an act, by the first rule that it violates.
fn text(placed: PlacedAct) -> String {
    let facts = LintFacts {
        acts: vec![placed],
        ..facts()
    };
    let report = judged(&facts);
    let mut violations = report.rules.into_iter().flat_map(|rule| rule.violations);
    violations.next().expect("a violation").what
}

#[test]
fn calls_are_shown_with_what_matters() {
    for (call, arguments, expected) in [
        (
            "clock_nanosleep",
            [0, 0],
            "clock_nanosleep(CLOCK_REALTIME, relative)",
        ),
        (
            "clock_nanosleep",
            [0, 1],
            "clock_nanosleep(CLOCK_REALTIME, absolute)",
        ),
        (
            "clock_nanosleep",
            [1, 0],
            "clock_nanosleep(CLOCK_MONOTONIC, relative)",
        ),
        (
            "clock_nanosleep",
            [7, 1],
            "clock_nanosleep(CLOCK_BOOTTIME, absolute)",
        ),
        (
            "clock_nanosleep",
            [8, 1],
            "clock_nanosleep(CLOCK_REALTIME_ALARM, absolute)",
        ),
        (
            "clock_nanosleep",
            [9, 1],
            "clock_nanosleep(CLOCK_BOOTTIME_ALARM, absolute)",
        ),
        (
            "clock_nanosleep",
            [11, 0],
            "clock_nanosleep(CLOCK_TAI, relative)",
        ),
        (
            "clock_nanosleep",
            [2, 0],
            "clock_nanosleep(clock 2, relative)",
        ),
        // The CPU clock of a thread.
        (
            "clock_nanosleep",
            [0xffff_fffe, 1],
            "clock_nanosleep(clock -2, absolute)",
        ),
        ("futex", [0, 0x80], "futex(FUTEX_WAIT)"),
        ("futex", [0, 0x89], "futex(FUTEX_WAIT_BITSET)"),
        (
            "futex",
            [1, 0x189],
            "futex(FUTEX_WAIT_BITSET, timeout on CLOCK_REALTIME)",
        ),
        ("futex", [0, 1], "futex(operation 1)"),
        ("nanosleep", [0, 0], "nanosleep()"),
        ("poll", [0b110, 0], "poll(1, 2)"),
        ("poll", [0b110, 1], "poll(1, 2, ...)"),
        ("poll", [0, 6], "poll(no descriptor)"),
    ] {
        // The wait is not the release of the thread.
        let mut facts = facts();
        facts.acts.push(sleep(call, arguments, 9));
        let rules = judged(&facts).rules.into_iter();
        let texts = rules.flat_map(|rule| rule.violations).map(|one| one.what);
        let texts: Vec<String> = texts.collect();
        assert_eq!(texts.first().map(String::as_str), Some(expected));
    }
    // Correct waits are shown if another rule finds them.
    let woken = |call: &str, arguments| text(act(ActKind::WokenByThread, call, arguments, 1));
    for (operation, name) in [
        (6, "FUTEX_LOCK_PI"),
        (11, "FUTEX_WAIT_REQUEUE_PI"),
        (13, "FUTEX_LOCK_PI2"),
    ] {
        let found = woken("futex", [0, operation | 0x80]);
        assert!(
            found.starts_with(&format!("futex({name}): woken by ")),
            "{found}"
        );
    }
}

#[test]
fn call_without_a_name_has_a_number() {
    let mut unnamed = sleep("x", [0, 0], 1);
    unnamed.call = None;
    unnamed.act.call = InCall::Number(441);
    assert_eq!(text(unnamed.clone()), "system call 441()");
    unnamed.act.call = InCall::Unknown;
    assert_eq!(text(unnamed.clone()), "waited in an unknown system call");
    unnamed.act.call = InCall::None;
    assert_eq!(text(unnamed), "waited for a page");
}

#[test]
fn file_and_timers_of_a_call_are_named() {
    let file = |clock| WaitedFile {
        target: "pipe:[1]".to_owned(),
        clock,
        kind: None,
    };
    let mut read = act(ActKind::WokenByThread, "read", [5, 0], 1);
    let with = |read: &PlacedAct| text(read.clone()).split(':').next().unwrap().to_owned();
    assert_eq!(with(&read), "read()");
    read.file = Some(file(None));
    assert_eq!(with(&read), "read(pipe");
    read.file = Some(file(Some(1)));
    assert_eq!(with(&read), "read(timer of CLOCK_MONOTONIC)");
    // Timers behind an epoll descriptor.
    let timer = |number, clock| WaitedTimer { number, clock };
    read.timers = vec![timer(5, 1), timer(6, 0)];
    assert!(
        text(read).starts_with("read(5: timer of CLOCK_MONOTONIC, 6: timer of CLOCK_REALTIME)")
    );
}

/// An act of this kind in a read, with a change.
fn said(kind: ActKind, change: impl Fn(&mut Act)) -> String {
    let mut placed = act(kind, "read", [3, 0], 1);
    change(&mut placed.act);
    text(placed)
}

#[test]
fn each_kind_of_act_has_its_words() {
    let nothing = |_: &mut Act| ();
    assert_eq!(
        said(ActKind::Fault, |act| act.address = 0x7000),
        "page fault at 0x7000 in read()"
    );
    let outside = |act: &mut Act| (act.call, act.address) = (InCall::None, 16);
    assert_eq!(said(ActKind::Fault, outside), "page fault at 0x10");
    assert_eq!(said(ActKind::KernelLock, nothing), "kernel lock in read()");
    assert_eq!(said(ActKind::KernelLock, outside), "kernel lock");
    assert_eq!(said(ActKind::Migrate, nothing), "migration");
    assert_eq!(said(ActKind::Memory, nothing), "read()");
    let by = |act: &mut Act| {
        (act.other, act.priorities.1) = (33, 130);
        act.other_comm = "worker".to_owned();
    };
    assert_eq!(
        said(ActKind::WokenByThread, by),
        "read(): woken by worker (33, nice 10)"
    );
    assert_eq!(
        said(ActKind::Inherit, by),
        "lock of worker (33, nice 10) in read()"
    );
    assert_eq!(
        said(ActKind::Queue, by),
        "waited for the CPU of worker (33, nice 10)"
    );
    for (softirq, name) in [
        (0, "HI"),
        (1, "TIMER"),
        (3, "NET_RX"),
        (9, "RCU"),
        (10, "10"),
    ] {
        let by = |act: &mut Act| act.other = softirq;
        let expected = format!("read(): woken by softirq {name}");
        assert_eq!(said(ActKind::WokenBySoftirq, by), expected);
    }
}

#[test]
fn priorities_are_shown_as_users_write_them() {
    let priority = |kernel: i32| {
        let text = said(ActKind::Queue, |act| act.priorities.1 = kernel);
        let (_, text) = text.split_once("(0, ").unwrap();
        text.trim_end_matches(')').to_owned()
    };
    for (kernel, text) in [
        (-1, "deadline"),
        (0, "real-time 99"),
        (98, "real-time 1"),
        (100, "nice -20"),
        (120, "nice 0"),
        (139, "nice 19"),
    ] {
        assert_eq!(priority(kernel), text, "{kernel}");
    }
}

#[test]
fn signals_are_named() {
    let signal = |number: u32| said(ActKind::Signal, |act| act.other = number);
    for (number, name) in [
        (1, "SIGHUP"),
        (2, "SIGINT"),
        (3, "SIGQUIT"),
        (10, "SIGUSR1"),
        (12, "SIGUSR2"),
        (13, "SIGPIPE"),
        (14, "SIGALRM"),
        (15, "SIGTERM"),
        (17, "SIGCHLD"),
        (23, "SIGURG"),
        (26, "SIGVTALRM"),
        (27, "SIGPROF"),
        (29, "SIGIO"),
        (34, "signal 34"),
    ] {
        assert_eq!(signal(number), name);
        assert_eq!(signal(number | TIMER_SIGNAL), format!("{name} of a timer"));
    }
}

#[test]
fn call_on_a_file_names_the_file() {
    let call = |mode: u32, name: &str, file: Option<(Option<FileKind>, &str)>| {
        let mut placed = act(ActKind::File, "write", [3, 0], 1);
        (placed.act.other, placed.act.name) = (mode, name.to_owned());
        placed.file = file.map(|(kind, target)| WaitedFile {
            target: target.to_owned(),
            clock: None,
            kind,
        });
        text(placed)
    };
    let regular = Some(FileKind::Regular);
    assert_eq!(call(0o100_000, "", None), "write(regular file)");
    assert_eq!(
        call(0o100_000, "", Some((regular, "/tmp/a"))),
        "write(regular file /tmp/a)"
    );
    // The path of the call itself is certain.
    assert_eq!(
        call(0o100_000, "/b", Some((regular, "/tmp/a"))),
        "write(regular file /b)"
    );
    assert_eq!(call(0o100_000, "/b", None), "write(regular file /b)");
    assert_eq!(
        call(0o100_000, "", Some((None, "/tmp/a"))),
        "write(regular file)"
    );
    let mut unknown = act(ActKind::File, "unlink", [3, 0], 1);
    unknown.act.name = "/etc/x".to_owned();
    assert_eq!(text(unknown), "unlink(/etc/x)");
}

/// Without events of the threads, silence proves nothing.
#[test]
fn silence_counts_only_if_the_threads_were_seen() {
    let state = |switches: u64, waits: Option<u64>, ran: Option<u64>| {
        let mut facts = facts();
        facts.acts.clear();
        facts.switches = switches;
        facts.threads[0].switches_voluntary = waits;
        facts.threads[0].cpu_time_ns = ran.map(Nanos::from_millis);
        let report = judged(&facts);
        let rule = rule(&report, "blocking-call");
        (rule.state, rule.unknown.clone().unwrap_or_default())
    };
    let clean = (RuleState::Clean, String::new());
    let unknown = |why: &str| (RuleState::Unknown, why.to_owned());
    let nothing = unknown("no real-time thread of the target ran");
    assert_eq!(state(1, Some(0), Some(0)), clean);
    assert_eq!(state(1, Some(9), Some(9)), clean);
    assert_eq!(state(0, Some(0), Some(0)), nothing);
    assert_eq!(state(0, None, None), nothing);
    // It ran all the time.
    assert_eq!(state(0, Some(0), Some(9)), clean);
    let (unseen, why) = state(0, Some(9), Some(9));
    assert_eq!(unseen, RuleState::Unknown);
    assert!(why.contains("no trace event names them"), "{why}");
}

#[test]
fn unseen_faults_hide_no_sleeps() {
    let state = |kind: ActKind, id: &str| {
        let mut facts = facts();
        facts.unseen.push((kind, "no event".to_owned()));
        rule(&judged(&facts), id).state
    };
    use RuleState::{Clean, Unknown};
    assert_eq!(state(ActKind::Fault, "page-fault"), Unknown);
    // A sleep in a fault is a second observation of the fault.
    assert_eq!(state(ActKind::Sleep, "page-fault"), Clean);
    assert_eq!(state(ActKind::Sleep, "blocking-call"), Unknown);
    assert_eq!(state(ActKind::Fault, "blocking-call"), Clean);
    // Without the faults, the sleeps in them count.
    let mut facts = facts();
    facts.unseen.push((ActKind::Fault, "no event".to_owned()));
    facts.acts.push(sleep("", [0, 0], 3));
    let report = judged(&facts);
    let fault = rule(&report, "page-fault");
    assert_eq!((fault.state, fault.count), (RuleState::Violated, 3));
}

#[test]
fn only_real_violations_are_counted_and_sorted() {
    let mut facts = facts();
    for (call, count, max) in [
        ("write", 3, Some(5)),
        ("fsync", 7, None),
        ("msync", 3, Some(9)),
    ] {
        let mut wait = sleep(call, [0, 0], count);
        wait.act.max = max.map(Nanos::from_millis);
        facts.acts.push(wait);
    }
    let report = judged(&facts);
    let blocking = rule(&report, "blocking-call");
    let texts: Vec<&str> = (blocking.violations.iter())
        .map(|one| one.what.as_str())
        .collect();
    assert_eq!(texts, ["fsync()", "msync()", "write()"]);
    assert_eq!(
        (blocking.count, blocking.max_ns),
        (13, Some(Nanos::from_millis(9)))
    );
    // Violations come first, the most severe first.
    assert_eq!(report.rules[0].id, "blocking-call");
    let order = report
        .rules
        .iter()
        .map(|rule| (rule.state, std::cmp::Reverse(rule.severity)));
    assert!(order.is_sorted());
}

/// Changes the facts of a correct program, and returns the violated rules.
fn with(change: impl Fn(&mut LintFacts)) -> Vec<String> {
    let mut facts = facts();
    change(&mut facts);
    violated(&facts)
}

#[test]
fn memory_may_be_unlocked_up_to_a_few_pages() {
    let locked = |locked: u64, resident: u64| {
        with(|facts| facts.processes[0].locked = Ok((locked, resident))).is_empty()
    };
    let kib = |kib: u64| kib << 10;
    assert!(locked(kib(1_000), kib(1_256)) && !locked(kib(1_000), kib(1_256) + 1));
    assert!(locked(1, kib(256)) && !locked(0, 0) && !locked(0, kib(100)));
    let mut facts = facts();
    facts.processes[0].locked = Ok((kib(10_239), kib(20_480)));
    let what = |facts: &LintFacts| {
        rule(&judged(facts), "memory-not-locked").violations[0]
            .what
            .clone()
    };
    assert_eq!(
        what(&facts),
        "10239 KiB of 20 MiB resident memory is locked"
    );
    facts.processes[0].locked = Ok((kib(10_240), kib(20_480)));
    assert_eq!(what(&facts), "10 MiB of 20 MiB resident memory is locked");
}

#[test]
fn limits_of_a_process_are_compared_with_its_needs() {
    let limit = |limit: u64| with(|facts| facts.processes[0].memlock_limit = Ok(Some(limit)));
    assert_eq!(limit((8 << 20) - 1), ["memlock-limit"]);
    assert!(limit(8 << 20).is_empty());
    let stack = |bytes| with(|facts| facts.threads[0].stack_resident_bytes = Some(bytes));
    assert_eq!(stack((64 << 10) - 1), ["stack-not-prefaulted"]);
    assert!(stack(64 << 10).is_empty());
    let priority = |priority| with(|facts| facts.threads[0].priority = priority);
    assert!(priority(98).is_empty() && priority(99) == ["priority-99"]);
    // SCHED_DEADLINE limits the run time.
    let unlimited = |policy| {
        with(|facts| {
            facts.threads[0].policy = policy;
            facts.processes[0].runtime_limit = Ok(None);
        })
    };
    assert_eq!(unlimited(Policy::RoundRobin), ["no-runtime-limit"]);
    assert!(unlimited(Policy::Deadline).is_empty());
}

/// A process without real-time threads is not judged.
#[test]
fn other_processes_are_not_judged() {
    let found = with(|facts| {
        let mut other = facts.processes[0].clone();
        (other.pid, other.locked, other.runtime_limit) = (8, Ok((0, 9 << 20)), Ok(None));
        facts.processes.push(other);
    });
    assert!(found.is_empty(), "{found:?}");
    let found = with(|facts| {
        let mut other = facts.processes[0].clone();
        (other.pid, other.runtime_limit) = (8, Ok(None));
        facts.processes.push(other);
        let mut of_other = thread();
        (of_other.pid, of_other.tid) = (8, 9);
        facts.threads.push(of_other);
    });
    assert_eq!(found, ["no-runtime-limit"]);
}

#[test]
fn thread_that_never_waits_has_run_for_half_of_the_time() {
    let state = |ran_ms: u64, duration_ms: u64, waits: u64, policy| {
        let mut facts = facts();
        facts.duration = Nanos::from_millis(duration_ms);
        facts.threads[0].policy = policy;
        facts.threads[0].switches_voluntary = Some(waits);
        facts.threads[0].cpu_time_ns = Some(Nanos::from_millis(ran_ms));
        rule(&judged(&facts), "no-period").state
    };
    use RuleState::{Clean, Unknown, Violated};
    let fifo = |ran, duration| state(ran, duration, 0, Policy::Fifo);
    assert_eq!((fifo(500, 1_000), fifo(499, 1_000)), (Violated, Unknown));
    assert_eq!((fifo(100, 1_000), fifo(99, 1_000)), (Unknown, Clean));
    // Too short to tell.
    assert_eq!((fifo(100, 100), fifo(99, 99)), (Violated, Clean));
    assert_eq!(state(900, 1_000, 1, Policy::Fifo), Clean);
    assert_eq!(state(900, 1_000, 0, Policy::Deadline), Clean);
}

#[test]
fn most_frequent_wait_is_the_release() {
    let waits = |all: &[(u64, u64)]| {
        let mut facts = facts();
        let wait = |(descriptor, count): &(u64, u64)| sleep("epoll_wait", [*descriptor, 0], *count);
        facts.acts = all.iter().map(wait).collect();
        let report = judged(&facts);
        let found = rule(&report, "blocking-call").violations.iter();
        found.map(|one| one.count).collect::<Vec<u64>>()
    };
    assert_eq!(waits(&[(4, 10), (5, 9)]), [9]);
    assert_eq!(waits(&[(4, 9), (5, 10)]), [9]);
    // Waits at one place are counted together.
    assert_eq!(waits(&[(4, 6), (5, 10), (4, 6)]), [10]);
    assert!(waits(&[(4, 1)]).is_empty());
}

#[test]
fn release_of_each_thread_is_its_own() {
    let mut facts = facts();
    let mut other = sleep("epoll_wait", [9, 0], 5);
    other.act.tid = 8;
    facts.acts = vec![sleep("epoll_wait", [4, 0], 900), other];
    assert!(violated(&facts).is_empty());
}
