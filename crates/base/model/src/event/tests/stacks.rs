//! Tests of stacks.

use super::*;
use crate::Frame;

#[test]
fn stack_begins_at_the_function_that_blocked() {
    let stack = |of: &[&'static str]| {
        let frames: Vec<u64> = (1..=of.len() as u64).collect();
        stack_of(&frames, &names(of))
    };
    assert_eq!(
        stack(&[
            "bpf_prog_1",
            "__traceiter_sched_switch",
            "__schedule",
            "schedule",
            "futex_wait"
        ]),
        "futex_wait"
    );
    // schedule_timeout() is part of the wait, and later functions stay even if they are alike.
    assert_eq!(
        stack(&["schedule", "schedule_timeout", "schedule", "poll"]),
        "schedule_timeout < schedule < poll"
    );
    assert_eq!(stack(&["schedule"]), "");
    assert_eq!(stack_of(&[0xab], &names(&[])), "0xab");
}

#[test]
fn functions_after_the_last_entry_code_were_interrupted() {
    let says = |of: &[&'static str]| {
        let frames: Vec<u64> = (1..=of.len() as u64).collect();
        let functions = interrupted_functions(&frames, &names(of));
        let late = EventKind::TimerLate {
            late: Nanos(5_000),
            function: 1,
            frames,
        };
        (functions, late.describe(&names(of)))
    };
    let (functions, text) = says(&[
        "tick",
        "asm_sysvec_apic_timer_interrupt",
        "copy_page",
        "read",
    ]);
    assert_eq!(functions.unwrap(), ["copy_page", "read"]);
    assert_eq!(
        text,
        "timer tick expires 5.00 µs late; it interrupts copy_page < read"
    );
    let (functions, text) = says(&["tick", "el1h_64_irq", "memset", "el0t_64_irq"]);
    assert_eq!(functions.unwrap(), [""; 0]);
    assert_eq!(
        text,
        "timer tick expires 5.00 µs late; it interrupts user space"
    );
    let (functions, text) = says(&["schedule", "tick"]);
    assert_eq!(functions, None);
    assert_eq!(
        text,
        "timer schedule expires 5.00 µs late; kernel stack: tick"
    );
}

#[test]
fn text_of_a_stack_names_what_is_missing() {
    let frame = |symbol: &str| Frame {
        address: 0x1000,
        object: Some("/usr/bin/app".to_owned()),
        offset: Some(0x10),
        symbol: Some(symbol.to_owned()),
        build_id: None,
    };
    let text = |user: &[&str], unknown: Option<&str>| {
        let stack = ThreadStack {
            tid: 7,
            comm: Comm::new(b"app"),
            kernel: vec![],
            user: user.iter().map(|symbol| frame(symbol)).collect(),
            user_unknown: unknown.map(str::to_owned),
        };
        stack.user_text()
    };
    assert_eq!(text(&[], None), "none");
    assert_eq!(text(&["f", "main"], None), "f (app) < main (app)");
    assert_eq!(text(&[], Some("no frame pointers")), "no frame pointers");
    assert_eq!(text(&["f"], Some("cut off")), "f (app) (cut off)");
}

#[test]
fn run_of_a_function_spans_its_duration_before_the_end() {
    let run = |end: Option<u64>| FunctionRun {
        function: "f".into(),
        cpu: 1,
        pid: None,
        end: end.map(Nanos),
        took: Nanos(30),
    };
    assert_eq!(run(Some(100)).span(), Some((Nanos(70), Nanos(100))));
    assert_eq!(run(Some(10)).span(), Some((Nanos(0), Nanos(10))));
    assert_eq!(run(None).span(), None);
}
