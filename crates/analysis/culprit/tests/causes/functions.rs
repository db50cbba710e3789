//! Kernel functions that took most of a share, from the runs that function_graph states.

use punctual_model::{FunctionRun, ShareKind};

use crate::stream::*;

/// The thread `make` blocks the victim from 4 to 805 µs.
fn blocked() -> Stream {
    Stream::late(830.0)
        .sleeping_beside(make())
        .timer(1.0)
        .switch(805.0, make(), RUNNABLE, victim())
}

fn run_of(pid: u32, function: &str, from: f64, to: f64) -> FunctionRun {
    FunctionRun {
        function: function.into(),
        cpu: 1,
        pid: Some(pid),
        end: Some(at(to)),
        took: at(to) - at(from),
    }
}

fn run(function: &str, from: f64, to: f64) -> FunctionRun {
    run_of(make().pid, function, from, to)
}

/// Returns the function that is named for the largest share of this kind, and its time in µs.
fn named(stream: Stream, kind: ShareKind, runs: &[FunctionRun]) -> Option<(String, f64)> {
    let stream = stream.change(|window| window.evidence.functions = runs.to_vec());
    let blame = punctual_culprit::find(&stream.window).blame;
    let of_kind = blame.shares.iter().filter(|share| share.kind() == kind);
    let share = of_kind.max_by_key(|share| share.ns).unwrap();
    let long = share.cause.function.as_ref()?;
    Some((long.function.to_string(), long.ns.0 as f64 / 1_000.0))
}

fn blocking(runs: &[FunctionRun]) -> Option<(String, f64)> {
    named(blocked(), ShareKind::Blocking, runs)
}

fn is(function: &str, us: f64) -> Option<(String, f64)> {
    Some((function.to_owned(), us))
}

/// Callers take longer than the function that they call, but do not explain the time.
#[test]
fn innermost_function_with_most_of_the_time_is_named() {
    let caller = run("do_syscall_64", 10.0, 800.0);
    let within = run("shrink_slab", 20.0, 790.0);
    let short = run("cond_resched", 100.0, 150.0);
    assert_eq!(
        blocking(&[short, within, caller.clone()]),
        is("shrink_slab", 770.0)
    );
    // Half of the caller's time is not most of it.
    let half = run("shrink_slab", 10.0, 405.0);
    assert_eq!(blocking(&[half, caller]), is("do_syscall_64", 790.0));
}

#[test]
fn runs_of_a_function_add_up() {
    let caller = run("do_syscall_64", 10.0, 800.0);
    let twice = [run("walk", 10.0, 300.0), run("walk", 500.0, 790.0)];
    let [first, second] = twice;
    assert_eq!(
        blocking(&[first.clone(), second, caller]),
        is("walk", 580.0)
    );
    // A function that calls itself takes its time once.
    let recursion = [run("walk", 100.0, 290.0), first, run("walk", 300.0, 350.0)];
    assert_eq!(blocking(&recursion), is("walk", 340.0));
}

/// Of a run, only the time within the share counts, and only while its thread is current.
#[test]
fn time_outside_the_share_does_not_count() {
    let all = |pid: u32| [run_of(pid, "walk", -100.0, 900.0)];
    assert_eq!(blocking(&all(make().pid)), is("walk", 801.0));
    assert_eq!(blocking(&all(VICTIM)), None);
    assert_eq!(blocking(&[run("walk", -100.0, 3.0)]), None);
    let mut other_cpu = run("walk", 10.0, 800.0);
    other_cpu.cpu = 0;
    let mut without_thread = run("walk", 10.0, 800.0);
    without_thread.pid = None;
    let mut without_time = run("walk", 10.0, 800.0);
    without_time.end = None;
    assert_eq!(blocking(&[other_cpu, without_thread, without_time]), None);
}

/// A function with less than a tenth of the share does not explain it.
#[test]
fn short_function_is_not_named() {
    assert_eq!(blocking(&[run("walk", 100.0, 180.0)]), None);
    assert_eq!(blocking(&[run("walk", 100.0, 181.0)]), is("walk", 81.0));
}

/// The code that ran before an interrupt is not the handler.
#[test]
fn interrupted_function_is_not_the_handler() {
    let stream = || {
        Stream::late(830.0)
            .sleeping_beside(make())
            .irq(-20.0, 700.0, 24, "eth0")
            .timer(701.0)
            .switch(805.0, make(), RUNNABLE, victim())
    };
    let interrupted = run("vfs_read", -200.0, 800.0);
    let handler = run("igb_poll", 10.0, 690.0);
    let of_handler = |runs: &[FunctionRun]| named(stream(), ShareKind::Interrupt, runs);
    assert_eq!(
        of_handler(&[interrupted.clone(), handler]),
        is("igb_poll", 680.0)
    );
    assert_eq!(of_handler(&[interrupted]), None);
}
