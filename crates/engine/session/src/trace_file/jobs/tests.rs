use std::fmt::Write;

use punctual_culprit::Wanted;
use punctual_host::system_call_numbers;
use punctual_model::ShareKind;
use punctual_tracefile::{Input, open};

use super::*;
use crate::{JobDetail, Release};

/// A text trace of ten jobs of 1 ms each. The sixth job also waits 7 ms in this call, for an
/// interrupt or for the thread `helper` on another CPU, and then runs for 1 ms more.
fn text(with_calls: bool, call: &str, by_helper: bool) -> String {
    let mut out = String::from("# tracer: nop\n");
    let number = |name: &str| system_call_numbers(name)[0];
    let (sleep, call) = (number("clock_nanosleep"), number(call));
    let mut now = 100_000_000_u64;
    let mut line = |comm: &str, pid: u32, now: u64, event: String| {
        if with_calls || !event.starts_with("sys_") {
            let (seconds, micros) = (now / 1_000_000, now % 1_000_000);
            let (thread, cpu) = (format!("{comm}-{pid}"), u32::from(comm == "helper"));
            writeln!(
                out,
                "{thread:>20} [{cpu:03}] d..2. {seconds}.{micros:06}: {event}"
            )
            .unwrap();
        }
    };
    let switch = |from: &str, state: &str, to: &str| {
        format!("sched_switch: prev_comm={from} prev_state={state} ==> next_comm={to}")
    };
    let (idle, motion) = (
        "swapper/0 prev_pid=0 prev_prio=120",
        "motion next_pid=40 next_prio=49",
    );
    let waking = "sched_waking: comm=motion pid=40 prio=49 target_cpu=000";
    let wake = |line: &mut dyn FnMut(&str, u32, u64, String), now: u64, call: i64| {
        let (waker, pid) = if by_helper && call != sleep {
            ("helper", 41)
        } else {
            ("<idle>", 0)
        };
        line(waker, pid, now, waking.to_owned());
        line("<idle>", 0, now + 10, switch(idle, "R", motion));
        line("motion", 40, now + 20, format!("sys_exit: NR {call} = 0"));
    };
    let wait = |line: &mut dyn FnMut(&str, u32, u64, String), now: u64, call: i64| {
        // FUTEX_WAIT_PRIVATE.
        let args = if call == sleep { "1, 1" } else { "7f00, 80" };
        let enter = format!("sys_enter: NR {call} ({args}, 0, 0, 0, 0)");
        line("motion", 40, now, enter);
        let (motion, idle) = (
            "motion prev_pid=40 prev_prio=49",
            "swapper/0 next_pid=0 next_prio=120",
        );
        line("motion", 40, now + 10, switch(motion, "S", idle));
    };
    let (from, to) = (
        "other prev_pid=42 prev_prio=120",
        "helper next_pid=41 next_prio=120",
    );
    line("helper", 42, now - 500, switch(from, "S", to));
    for job in 0..10 {
        wake(&mut line, now, sleep);
        now += 1_000;
        if job == 5 {
            wait(&mut line, now, call);
            now += 7_000;
            wake(&mut line, now, call);
            now += 1_000;
        }
        wait(&mut line, now, sleep);
        now += 10_000;
    }
    out
}

fn explained(text: &str, pids: &[u32]) -> ExplainedTrace {
    let reader = || {
        open(Input::stream(std::io::Cursor::new(
            text.as_bytes().to_vec(),
        )))
        .unwrap()
    };
    let request = TraceRequest {
        file: "trace".to_owned(),
        wanted: Wanted {
            pids: pids.to_vec(),
            ..Wanted::longest()
        },
        command_line: Vec::new(),
    };
    let jobs = JobRequest {
        budget: Nanos::from_millis(5),
        release: Release::default(),
        detail: JobDetail::Full,
    };
    let (mut one, mut two) = (reader(), reader());
    explain_trace_jobs(one.as_mut(), two.as_mut(), request, &jobs).unwrap()
}

/// Adds the timers of the sleeps, which expire `late` µs late. Each wakes the thread 10 ms after its start.
fn with_timers(text: &str, late: u64) -> String {
    let (sleep, timer) = (
        system_call_numbers("clock_nanosleep")[0],
        "hrtimer=00000001",
    );
    let mut out = String::new();
    for line in text.lines() {
        let micros = line.split_whitespace().find_map(|word| {
            let (seconds, micros) = word.strip_suffix(':')?.split_once('.')?;
            Some(seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?)
        });
        let (before, _) = line.split_once(": ").unwrap_or_default();
        let mut says = |event: String| writeln!(out, "{before}: {event}").unwrap();
        if line.contains("sched_waking") {
            let now = micros.unwrap() * 1_000;
            says(format!(
                "hrtimer_expire_entry: {timer} function=hrtimer_wakeup now={now}"
            ));
        }
        writeln!(out, "{line}").unwrap();
        if line.contains(&format!("sys_enter: NR {sleep} ")) {
            let due = (micros.unwrap() + 10_000 - late) * 1_000;
            let mut says = |event: String| writeln!(out, "{before}: {event}").unwrap();
            says(format!(
                "hrtimer_start: {timer} function=hrtimer_wakeup expires={due} softexpires={due} mode=ABS"
            ));
        }
        if line.contains("sched_waking") {
            let mut says = |event: String| writeln!(out, "{before}: {event}").unwrap();
            says(format!("hrtimer_expire_exit: {timer}"));
        }
    }
    out
}

#[test]
fn job_of_a_file_begins_when_its_timer_was_due() {
    let explained = explained(&with_timers(&text(true, "poll", false), 300), &[]);
    let explanation = explained.recording.explanation.unwrap();
    let [outlier] = explanation.outliers.as_slice() else {
        panic!("{:?}", explanation.outliers);
    };
    assert_eq!(outlier.latency_ns, Nanos::from_micros(9_300));
    let late = |kind| {
        let of_kind = (outlier.blame.shares.iter()).filter(|share| share.kind() == kind);
        Nanos(of_kind.map(|share| share.ns.0).sum())
    };
    assert_eq!(late(ShareKind::TimerLate), Nanos::from_micros(300));
    let sum: u64 = outlier.blame.shares.iter().map(|share| share.ns.0).sum();
    assert_eq!(sum, outlier.latency_ns.0);
}

#[test]
fn long_job_of_a_file_is_split_into_shares() {
    let explained = explained(&text(true, "poll", false), &[]);
    let explanation = explained.recording.explanation.unwrap();
    let jobs = &explanation.jobs.unwrap().threads;
    assert_eq!((jobs.len(), jobs[0].over_budget), (1, 1));
    assert_eq!(jobs[0].release.as_ref().unwrap().call, "clock_nanosleep");
    let thread = &explained.recording.threads[0];
    assert_eq!(thread.histogram.recorded(), jobs[0].jobs);
    assert!(jobs[0].jobs >= 8, "{}", jobs[0].jobs);
    let [outlier] = explanation.outliers.as_slice() else {
        panic!("{:?}", explanation.outliers);
    };
    // From the wake-up to the next release wait.
    assert_eq!(outlier.latency_ns, Nanos::from_micros(9_000));
    let shares: u64 = outlier.blame.shares.iter().map(|share| share.ns.0).sum();
    assert_eq!(shares, outlier.latency_ns.0);
    let largest = outlier
        .blame
        .shares
        .iter()
        .max_by_key(|share| share.ns)
        .unwrap();
    assert!(largest.ns > Nanos::from_micros(6_900), "{largest:?}");
    assert!(
        outlier.blame.sentence().contains("poll"),
        "{}",
        outlier.blame.sentence()
    );
    assert!(explained.windows.contains_key(&outlier.number));
}

#[test]
fn sleeps_end_jobs_without_system_calls() {
    let explained = explained(&text(false, "poll", false), &[40]);
    let warnings = explained.recording.warnings.join(" ");
    assert!(
        warnings.contains("the trace has no system calls"),
        "{warnings}"
    );
    let explanation = explained.recording.explanation.unwrap();
    let jobs = &explanation.jobs.unwrap().threads;
    assert_eq!(jobs[0].release.as_ref().unwrap().call, "any sleep");
    assert_eq!(jobs[0].over_budget, 0);
    assert!(jobs[0].jobs >= 9, "{}", jobs[0].jobs);
}

/// The events of the system `syscalls`, as tracefs and as trace-cmd print them.
fn by_name(text: &str, is_report: bool, has_sleep: bool) -> String {
    let named = |line: &str| -> Option<String> {
        let (before, call) = line.split_once(": sys_")?;
        let (kind, rest) = call.split_once(": NR ")?;
        let (number, rest) = rest.split_once(' ')?;
        let name = system_call_name(number.parse().ok()?)?;
        if name == "clock_nanosleep" && !has_sleep {
            return Some(String::new());
        }
        Some(match (kind, is_report) {
            ("exit", false) => format!("{before}: sys_{name} -> 0x0\n"),
            ("exit", true) => format!("{before}: sys_exit_{name}:      0x0\n"),
            (_, false) => {
                let args = rest.trim_matches(['(', ')']);
                let [one, two] = [0, 1].map(|place| args.split(", ").nth(place).unwrap());
                format!("{before}: sys_{name}(uaddr: {one}, op: {two}, val: 0)\n")
            }
            (_, true) => {
                let args = rest.trim_matches(['(', ')']);
                let [one, two] = [0, 1].map(|place| args.split(", ").nth(place).unwrap());
                format!("{before}: sys_enter_{name}:    uaddr: 0x{one}, op: 0x000000{two}\n")
            }
        })
    };
    text.lines()
        .map(|line| named(line).unwrap_or_else(|| format!("{line}\n")))
        .collect()
}

/// The release wait, the number of jobs, and what the late one waits for.
fn futex_wait(text: &str) -> (String, u64, Nanos, String) {
    let explained = explained(text, &[40]);
    let explanation = explained.recording.explanation.unwrap();
    let jobs = &explanation.jobs.unwrap().threads[0];
    let outlier = &explanation.outliers[0];
    let mut shares = outlier.blame.shares.iter();
    let wait = shares.find(|share| share.cause.label().contains("helper"));
    (
        jobs.release.as_ref().unwrap().call.clone(),
        jobs.over_budget,
        outlier.latency_ns,
        format!("{:?}", wait.unwrap()),
    )
}

#[test]
fn place_of_a_wait_is_known_from_calls_by_name() {
    let text = text(true, "futex", true);
    let numbered = futex_wait(&text);
    assert!(numbered.3.contains("futex"), "{}", numbered.3);
    for is_report in [false, true] {
        assert_eq!(futex_wait(&by_name(&text, is_report, true)), numbered);
    }
    // If only some calls are recorded, sleeps in others are still waits.
    for is_report in [false, true] {
        let some = by_name(&text, is_report, false);
        let (release, over, _, wait) = futex_wait(&some);
        assert_eq!((release.as_str(), over), ("any sleep", 1));
        assert_eq!(wait, numbered.3);
        let warnings = explained(&some, &[40]).recording.warnings.join(" ");
        assert!(warnings.contains("only some system calls"), "{warnings}");
    }
}

/// The job is late because of a thread on another CPU, which wakes it.
#[test]
fn wait_for_a_thread_on_another_cpu_is_late() {
    let explained = explained(&text(true, "futex", true), &[40]);
    let explanation = explained.recording.explanation.unwrap();
    let jobs = &explanation.jobs.unwrap().threads;
    assert_eq!(jobs[0].over_budget, 1, "{jobs:#?}");
    let [outlier] = explanation.outliers.as_slice() else {
        panic!("{:?}", explanation.outliers);
    };
    assert_eq!(outlier.latency_ns, Nanos::from_micros(9_000));
    let sentence = outlier.blame.sentence();
    assert!(sentence.contains("helper"), "{sentence}");
}

#[test]
fn threads_that_are_not_in_the_file_have_no_jobs() {
    let explained = explained(&text(true, "poll", false), &[43]);
    let explanation = explained.recording.explanation.unwrap();
    assert!(explanation.outliers.is_empty());
    assert!(explanation.jobs.unwrap().threads.is_empty());
}

/// The trace ends while the thread still waits in the sixth job. A later event of another thread shows
/// how long it has waited by then.
#[test]
fn job_that_the_end_cuts_off_is_named_with_its_call() {
    let whole = text(true, "fsync", false);
    let call = system_call_numbers("fsync")[0];
    let enters = format!("sys_enter: NR {call} (");
    let before = whole.find(&enters).unwrap();
    let [entry, switch] = [0, 1].map(|line| whole[before..].lines().nth(line).unwrap());
    let cut = &whole[..before + entry.len() + 1 + switch.len()];
    let waking = |us: u64| {
        let time = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
        let event = "sched_waking: comm=other pid=42 prio=120 target_cpu=001";
        format!("{cut}\n{:>20} [001] d..2. {time}: {event}\n", "helper-41")
    };
    // The job was released at 100.055, and entered the call 1 ms later.
    let released = 100_055_000;
    let of = |us: u64| {
        let explained = explained(&waking(released + us), &[40]);
        let explanation = explained.recording.explanation.unwrap();
        assert!(
            explanation.outliers.is_empty(),
            "{:?}",
            explanation.outliers
        );
        explanation.trace.unwrap().open
    };
    let open = of(6_000);
    let [job] = open.as_slice() else {
        panic!("{open:?}");
    };
    assert_eq!(
        job.sentence(),
        "the trace ended 6.00 ms after the release of a job of motion-40 (real-time 50), while the thread \
         slept in the system call fsync (for 5.00 ms): length and cause are unknown"
    );
    // Within the budget of 5 ms, it may still have been in time.
    assert_eq!(of(4_900), []);
}
