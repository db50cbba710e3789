//! Statements of timerlat's interrupt and its stack about a late thread.

use punctual_model::cause::{Activity, Detail, Stay};
use punctual_model::{EventKind, ShareKind, TraceEvent};

use crate::limits::{cause_at, kind_at};
use crate::stream::*;

/// A sample of timerlat whose interrupt came at 60 µs, with the stack that it saved.
fn timerlat(until: f64, stack: &[&str], flags: u8) -> Stream {
    let unknown = task("hog", 61, i16::MAX);
    let first = 0xe0;
    let frames = (first..).take(stack.len()).collect();
    let names = (first..).zip(stack.iter().map(|name| (*name).to_owned()));
    Stream::late(until + 20.0)
        .switch(-300.0, victim(), SLEEPS, unknown)
        .flags(TraceEvent::HARDIRQ | flags)
        .event(60.0, EventKind::TimerlatStack { frames })
        .waking(60.0)
        .flags(0)
        .switch(until, unknown, RUNNABLE, victim())
        .change(|window| {
            window.evidence.timer_interrupt = Some(at(60.0));
            window.symbols.extend(names);
        })
}

const ENTRY: &str = "asm_sysvec_apic_timer_interrupt";

/// The interrupt of timerlat interrupted code in the kernel, which had interrupts disabled until then.
#[test]
fn timerlats_stack_names_who_had_interrupts_off() {
    let of = |stack: &[&str]| cause_at(&timerlat(400.0, stack, 0).window, 30.0);
    let locked = of(&["tick", ENTRY, "spin_unlock", "console_write", "vprintk"]);
    assert_eq!(locked.kind(), ShareKind::IrqsOff);
    let stays = |at: &str| {
        let (ns, until) = (None, None);
        let at = at.into();
        Some(Detail::Stays(vec![Stay { ns, at, until }]))
    };
    assert_eq!(
        locked.detail,
        stays("spin_unlock < console_write < vprintk")
    );
    // At most eight functions are named.
    let deep: Vec<String> = (1..=12).map(|number| format!("f{number}")).collect();
    let mut stack = vec![ENTRY];
    stack.extend(deep.iter().map(String::as_str));
    assert_eq!(of(&stack).detail, stays(&deep[..8].join(" < ")));
    // In user space, interrupts are enabled.
    assert_eq!(of(&["tick", ENTRY]).kind(), ShareKind::Silence);
    assert_eq!(of(&[]).kind(), ShareKind::Silence);
    // Without the statement of timerlat, the stack does not decide.
    let stack = [ENTRY, "spin_unlock"];
    let without = timerlat(400.0, &stack, 0);
    let without = without.change(|window| window.evidence.timer_interrupt = None);
    assert_eq!(kind_at(without, 30.0), ShareKind::Silence);
}

/// The thread under the interrupt keeps the CPU. Only the request to preempt it shows its rank.
#[test]
fn request_to_preempt_shows_that_a_thread_blocks() {
    const REQUEST: u8 = TraceEvent::NEED_RESCHED;
    let stack = [ENTRY, "copy_page", "exec"];
    let after = |stream: Stream| {
        let cause = cause_at(&stream.window, 200.0);
        let activity = match cause.detail {
            Some(Detail::Rank(rank)) => rank.activity,
            other => panic!("{other:?}"),
        };
        (cause.source.kind(), activity)
    };
    let place = Activity::PreemptionOff("copy_page < exec".into());
    assert_eq!(
        after(timerlat(400.0, &stack, REQUEST)),
        (ShareKind::Blocking, Some(place))
    );
    assert_eq!(
        after(timerlat(400.0, &[ENTRY], REQUEST)),
        (ShareKind::Blocking, None)
    );
    // Nobody asked for the CPU, or no sample states when the interrupt came.
    assert_eq!(
        after(timerlat(400.0, &stack, 0)),
        (ShareKind::Unranked, None)
    );
    let mut unstated = timerlat(400.0, &stack, REQUEST);
    unstated.window.evidence.timer_interrupt = None;
    assert_eq!(after(unstated), (ShareKind::Unranked, None));
    // The stack is that of another thread or of another time.
    let change = |change: &dyn Fn(&mut TraceEvent)| {
        let mut stream = timerlat(400.0, &stack, REQUEST);
        let mut events = stream.window.events.iter_mut();
        let is_stack =
            |event: &&mut TraceEvent| matches!(event.kind, EventKind::TimerlatStack { .. });
        change(events.find(is_stack).unwrap());
        after(stream)
    };
    let elsewhere = (ShareKind::Blocking, None);
    assert_eq!(change(&|event| event.pid = 62), elsewhere);
    assert_eq!(change(&|event| event.time = at(59.0)), elsewhere);
}

/// The idle CPU did not run the thread of timerlat. No thread blocked it.
#[test]
fn idle_cpu_blocks_no_thread_of_timerlat() {
    let stream = Stream::late(400.0)
        .switch(-300.0, victim(), SLEEPS, task("swapper/1", 0, i16::MAX))
        .flags(TraceEvent::HARDIRQ | TraceEvent::NEED_RESCHED)
        .waking(60.0)
        .flags(0)
        .switch(390.0, task("swapper/1", 0, i16::MAX), RUNNABLE, victim())
        .change(|window| window.evidence.timer_interrupt = Some(at(60.0)));
    assert_eq!(kind_at(stream, 200.0), ShareKind::IdleExit);
}
