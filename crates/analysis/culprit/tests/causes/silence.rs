//! Time without any event.

use insta::assert_snapshot;
use punctual_culprit::find as judge;
use punctual_model::{EventKind, Nanos, ShareKind};

use crate::stream::*;

fn stalled() -> Stream {
    Stream::late(830.0)
        .sleeping_beside(make())
        .timer(815.0)
        .switch(822.0, make(), RUNNABLE, victim())
}

#[test]
fn while_a_thread_ran() {
    assert_snapshot!(stalled().summary());
}

#[test]
fn strengthened_by_steal() {
    let stream = stalled().change(|window| {
        window.evidence.stolen = vec![ticks(1)];
    });
    assert_snapshot!(stream.summary());
}

/// In a gap, no event shows what would otherwise have run on the CPU, so the time that the
/// hypervisor stole is not taken from any other cause.
#[test]
fn stolen_time_in_gap_displaces_nothing() {
    let stream = stalled().change(|window| {
        window.evidence.virtual_machine = Some(true);
        window.evidence.stolen = vec![exactly(&[(1.0, 814.0, 700.0)])];
    });
    let shares = judge(&stream.window).blame.shares;
    let stolen = shares
        .iter()
        .find(|share| share.kind() == ShareKind::Stolen);
    assert_eq!(
        stolen.map(|share| share.ns),
        Some(at(700.0) - at(0.0)),
        "{shares:#?}"
    );
    assert_eq!(
        stolen.and_then(punctual_model::Share::detail),
        None,
        "{shares:#?}"
    );
}

#[test]
fn strengthened_by_system_management_interrupts() {
    let stream = stalled().change(|window| window.evidence.smi = Some(smis(2)));
    assert_snapshot!(stream.summary());
}

#[test]
fn in_user_space_interrupts_cannot_be_off() {
    let stream = Stream::late(830.0)
        .sleeping_beside(make())
        .event(-50.0, EventKind::SysExit { id: 1, ret: 0 })
        .timer(815.0)
        .switch(822.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn while_the_thread_was_on_its_way() {
    let stream = Stream::late(500.0)
        .sleeping_beside(make())
        .timer(2.0)
        .switch(8.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

/// The stack of the late timer shows what its interrupt interrupted. It is written at this time.
fn with_stack(at: f64, frames: &[u64]) -> String {
    let late = EventKind::TimerLate {
        late: Nanos::from_micros(815),
        function: 0xa1,
        frames: frames.to_vec(),
    };
    let stream = Stream::late(830.0)
        .sleeping_beside(make())
        .timer(815.0)
        .switch(822.0, make(), RUNNABLE, victim())
        .event(at, late);
    let stream = stream.change(|window| {
        window.events.sort_by_key(|event| event.time);
        let entry = "asm_sysvec_apic_timer_interrupt".to_owned();
        window.symbols.insert(0xb1, entry);
        window
            .symbols
            .insert(0xb2, "_raw_spin_unlock_irqrestore".to_owned());
        window
            .symbols
            .insert(0xb3, "serial8250_console_write".to_owned());
    });
    stream.summary()
}

#[test]
fn user_stack_rules_out_disabled_interrupts() {
    let possible = "interrupts disabled";
    let without = stalled().summary();
    assert!(without.contains(possible), "{without}");
    assert!(!with_stack(816.0, &[0xa1, 0xb1]).contains(possible));
    // If the entry of the interrupt is unknown, the result is the same as without a stack.
    assert_eq!(with_stack(816.0, &[0xa1]), without);
}

#[test]
fn stack_at_the_end_names_where_interrupts_were_enabled() {
    let without = stalled().summary();
    let enabled = with_stack(816.0, &[0xa1, 0xb1, 0xb2, 0xb3]);
    let expected = "possible: interrupts disabled in make-12, hypervisor, SMI, firmware; interrupts \
                    were enabled again in _raw_spin_unlock_irqrestore < serial8250_console_write";
    assert!(enabled.contains(expected), "{enabled}");
    // An interrupt can arrive there at any time.
    let other = with_stack(816.0, &[0xa1, 0xb1, 0xb3]);
    assert!(
        other.contains(
            "or interrupts disabled in make-12; the next interrupt arrived in serial8250"
        ),
        "{other}"
    );
    // Another thread may run after the switch, and the gap may have ended long before.
    assert_eq!(with_stack(823.0, &[0xa1, 0xb1, 0xb2, 0xb3]), without);
    assert_eq!(with_stack(829.0, &[0xa1, 0xb1, 0xb2, 0xb3]), without);
}

/// An event that the user requested never changes the shares.
#[test]
fn a_requested_event_explains_nothing() {
    let requested = |time| {
        let kind = EventKind::Requested {
            name: "my:event".into(),
            fields: "a=1".to_owned(),
        };
        stalled().on(1, 77).event(time, kind).summary()
    };
    for time in [-10.0, 1.0, 400.0, 820.0] {
        assert_eq!(requested(time), stalled().summary());
    }
}
