//! Judges observed acts by the rules.

use punctual_model::{
    ActKind, FileKind, InCall, LINT_SCHEMA, LintFacts, LintReport, Nanos, PlacedAct, Polled,
    RuleResult, RuleState, TIMER_SIGNAL, Violation, WaitedTimer,
};

use super::rules::{Finds, RULES, Rule};
use super::unseen::Unseen;
use super::waits::{self, Threads};

/// Judges the facts. `program` is the name and version of the program.
pub fn judge(facts: &LintFacts, program: &str) -> LintReport {
    let threads = Threads::from_facts(facts);
    let blind = blind(facts);
    let mut rules: Vec<RuleResult> = (RULES.iter())
        .map(|rule| match rule.finds {
            Finds::Acts(kinds, fits) => {
                let fitting = |placed: &&PlacedAct| {
                    kinds.contains(&placed.act.kind) && fits(placed, &threads)
                };
                let acts = facts.acts.iter().filter(fitting);
                let violations = acts.map(|placed| violation(placed, facts)).collect();
                let mut result = result(rule, violations, unknown(kinds, facts, blind.as_ref()));
                result.counted_ns = Some(counted(kinds, facts));
                result
            }
            Finds::State(find) => {
                let found = find(facts);
                result(rule, found.violations, found.unknown)
            }
        })
        .collect();
    // A stable sort: rules of equal severity keep the order of the table.
    rules.sort_by_key(|rule| (rule.state, std::cmp::Reverse(rule.severity)));
    LintReport {
        schema: LINT_SCHEMA,
        program: program.to_owned(),
        target: facts.target.clone(),
        duration_ns: facts.duration,
        calls_traced_ns: facts.calls_traced,
        source: facts.source,
        threads: facts.threads.clone(),
        rules,
        notes: facts.notes.clone(),
    }
}

/// Returns why the absence of acts proves nothing.
fn blind(facts: &LintFacts) -> Option<Unseen> {
    if facts.threads.is_empty() {
        return Some(Unseen::NoThread);
    }
    let known = |number: Option<u64>| number.unwrap_or(0);
    let waits: u64 = (facts.threads.iter())
        .map(|thread| known(thread.switches_voluntary))
        .sum();
    let ran = facts.threads.iter().any(|thread| {
        thread.cpu_time_ns.unwrap_or(Nanos::ZERO) > Nanos::ZERO
            || known(thread.switches_voluntary) > 0
    });
    match (facts.switches, waits) {
        (0, 1..) => Some(Unseen::NoEvent),
        (0, 0) if !ran => Some(Unseen::NothingRan),
        _ => None,
    }
}

/// Returns why a rule about acts of these kinds is unknown if no violation was observed.
fn unknown(kinds: &[ActKind], facts: &LintFacts, blind: Option<&Unseen>) -> Option<Unseen> {
    // A sleep in a page fault is a second observation of the fault. Other kinds are separate acts.
    let decides = |kind: &ActKind| match kinds.first() {
        Some(ActKind::Fault) => *kind == ActKind::Fault,
        _ => kinds.contains(kind),
    };
    let unseen = facts.unseen.iter().find(|(kind, _)| decides(kind));
    if let Some((_, why)) = unseen {
        return Some(Unseen::Fact(why.clone()));
    }
    if facts.lost > 0 {
        return Some(Unseen::Lost(facts.lost));
    }
    let of_calls = |kind| kinds.contains(&kind);
    if (of_calls(ActKind::Memory) || of_calls(ActKind::File)) && facts.calls_traced == Nanos::ZERO {
        return Some(Unseen::NoCallTraced);
    }
    blind.cloned()
}

/// Returns the time during which acts of these kinds were counted.
fn counted(kinds: &[ActKind], facts: &LintFacts) -> Nanos {
    let of_calls = |kind: &ActKind| matches!(kind, ActKind::Memory | ActKind::File);
    if kinds.iter().any(of_calls) {
        facts.calls_traced
    } else {
        facts.duration
    }
}

fn result(rule: &Rule, mut violations: Vec<Violation>, unknown: Option<Unseen>) -> RuleResult {
    violations.sort_by_key(|one| std::cmp::Reverse((one.count, one.max_ns)));
    let state = match (violations.is_empty(), &unknown) {
        (false, _) => RuleState::Violated,
        (true, Some(_)) => RuleState::Unknown,
        (true, None) => RuleState::Clean,
    };
    RuleResult {
        id: rule.id.to_owned(),
        title: rule.title.to_owned(),
        state,
        severity: rule.severity,
        unknown: unknown.map(|why| why.to_string()),
        count: violations.iter().map(|violation| violation.count).sum(),
        max_ns: (violations.iter()).filter_map(|found| found.max_ns).max(),
        counted_ns: None,
        violations,
        why: rule.why.to_owned(),
        source: rule.source.to_owned(),
        remedy: rule.remedy.to_owned(),
    }
}

fn violation(placed: &PlacedAct, facts: &LintFacts) -> Violation {
    let act = &placed.act;
    // A fault that waited for its page was already counted when it began.
    let counted = |kind| facts.unseen.iter().all(|(unseen, _)| *unseen != kind);
    let again = act.kind == ActKind::Sleep && act.call == InCall::None && counted(ActKind::Fault);
    Violation {
        tid: act.tid,
        comm: act.comm.clone(),
        what: what(placed),
        count: if again { 0 } else { act.count },
        max_ns: act.max,
        frames: placed.frames.clone(),
        frames_unknown: placed.frames_unknown.clone(),
    }
}

/// Returns a short description of the act.
fn what(placed: &PlacedAct) -> String {
    let act = &placed.act;
    let call = call_text(placed);
    let within = match act.call {
        InCall::Number(_) => format!(" in {call}"),
        _ => String::new(),
    };
    let other = || {
        format!(
            "{} ({}, {})",
            act.other_comm,
            act.other,
            priority(act.priorities.1)
        )
    };
    match act.kind {
        ActKind::Fault => format!("page fault at {:#x}{within}", act.address),
        ActKind::Sleep => match act.call {
            InCall::None => "waited for a page".to_owned(),
            InCall::Unknown => "waited in an unknown system call".to_owned(),
            InCall::Number(_) => call,
        },
        ActKind::WokenByThread => format!("{call}: woken by {}", other()),
        ActKind::WokenBySoftirq => format!("{call}: woken by softirq {}", softirq(act.other)),
        ActKind::Inherit => format!("lock of {}{within}", other()),
        ActKind::KernelLock => format!("kernel lock{within}"),
        ActKind::Migrate => "migration".to_owned(),
        ActKind::Signal => signal_text(placed),
        ActKind::Memory => call,
        ActKind::File => file_text(placed),
        ActKind::Queue => format!("waited for the CPU of {}", other()),
    }
}

/// Returns `write(regular file /tmp/log)`, as far as the file is known. A file that has been closed
/// since then has no path, and its number may belong to another file.
fn file_text(placed: &PlacedAct) -> String {
    let name = placed.call.as_deref().unwrap_or("?");
    let known = placed.act.name.as_str();
    let Some(kind) = FileKind::of_mode(placed.act.other) else {
        return format!("{name}({known})");
    };
    let same = (placed.file.as_ref()).filter(|file| file.kind == Some(kind));
    let path = match (known, same) {
        ("", None) => String::new(),
        ("", Some(file)) => format!(" {}", file.target),
        (known, _) => format!(" {known}"),
    };
    format!("{name}({}{path})", kind.name())
}

/// Returns `SIGALRM of a timer`.
fn signal_text(placed: &PlacedAct) -> String {
    let name = signal(placed.act.other & !TIMER_SIGNAL);
    if placed.act.other & TIMER_SIGNAL == 0 {
        return name;
    }
    match placed.timers.first() {
        Some(timer) => format!("{name} of a timer of {}", clock(timer.clock)),
        None => format!("{name} of a timer"),
    }
}

/// Returns the name of a signal (signal(7)), which is the same on all common architectures.
fn signal(number: u32) -> String {
    let name = match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        10 => "SIGUSR1",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        17 => "SIGCHLD",
        23 => "SIGURG",
        26 => "SIGVTALRM",
        27 => "SIGPROF",
        29 => "SIGIO",
        _ => return format!("signal {number}"),
    };
    name.to_owned()
}

/// Returns the descriptors that a call polls, and their timers.
fn polled_text(placed: &PlacedAct) -> String {
    let polled = Polled::from_arguments(placed.act.arguments);
    if polled.is_empty {
        return "no descriptor".to_owned();
    }
    let timer_of = |number: u64| placed.timers.iter().find(|timer| timer.number == number);
    let mut names: Vec<String> = polled
        .descriptors()
        .map(|number| timer_of(number).map_or_else(|| number.to_string(), timer_text))
        .collect();
    if polled.is_partial {
        names.push("...".to_owned());
    }
    names.join(", ")
}

fn timer_text(timer: &WaitedTimer) -> String {
    format!("{}: timer of {}", timer.number, clock(timer.clock))
}

/// Formats a priority on the kernel's scale as users write it.
fn priority(kernel: i32) -> String {
    match kernel {
        ..0 => "deadline".to_owned(),
        0..100 => format!("real-time {}", 99 - kernel),
        _ => format!("nice {}", kernel - 120),
    }
}

/// Returns the name of a softirq (include/linux/interrupt.h).
fn softirq(number: u32) -> String {
    let names = [
        "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER",
        "RCU",
    ];
    let name = names.get(number as usize);
    name.map_or(number.to_string(), |name| (*name).to_owned())
}

/// Formats the system call with the relevant arguments.
fn call_text(placed: &PlacedAct) -> String {
    let act = &placed.act;
    let InCall::Number(number) = act.call else {
        return "?".to_owned();
    };
    let name = placed
        .call
        .clone()
        .unwrap_or(format!("system call {number}"));
    let [first, second] = act.arguments;
    let argument = match name.as_str() {
        "clock_nanosleep" => {
            let kind = if second & 1 == 0 {
                "relative"
            } else if waits::is_python_sleep(placed) {
                "absolute, by time.sleep()"
            } else {
                "absolute"
            };
            format!("{}, {kind}", clock(first as u32))
        }
        "futex" => {
            let clocks: Vec<String> = waits::clocks(placed).into_iter().map(clock).collect();
            let until = clocks.first().map(|clock| format!(", timeout on {clock}"));
            format!("{}{}", futex(second & 0x7f), until.unwrap_or_default())
        }
        name if waits::is_poll(name) => polled_text(placed),
        _ if !placed.timers.is_empty() => {
            let timers: Vec<String> = placed.timers.iter().map(timer_text).collect();
            timers.join(", ")
        }
        _ => match &placed.file {
            Some(file) => match file.clock {
                Some(number) => format!("timer of {}", clock(number)),
                None => file.target.clone(),
            },
            None => String::new(),
        },
    };
    format!("{name}({argument})")
}

fn clock(number: u32) -> String {
    match number {
        0 => "CLOCK_REALTIME".to_owned(),
        1 => "CLOCK_MONOTONIC".to_owned(),
        7 => "CLOCK_BOOTTIME".to_owned(),
        8 => "CLOCK_REALTIME_ALARM".to_owned(),
        9 => "CLOCK_BOOTTIME_ALARM".to_owned(),
        11 => "CLOCK_TAI".to_owned(),
        _ => format!("clock {}", number.cast_signed()),
    }
}

/// Returns the name of a futex operation (include/uapi/linux/futex.h).
fn futex(operation: u64) -> String {
    match operation {
        0 => "FUTEX_WAIT".to_owned(),
        6 => "FUTEX_LOCK_PI".to_owned(),
        9 => "FUTEX_WAIT_BITSET".to_owned(),
        11 => "FUTEX_WAIT_REQUEUE_PI".to_owned(),
        13 => "FUTEX_LOCK_PI2".to_owned(),
        _ => format!("operation {operation}"),
    }
}
