//! Tests of gaps and the rules of the scheduler.

use super::{low, task};
use crate::cause::{
    Cause, Counted, Detail, Disabled, Hold, Limit, Ran, SchedulerFinding, SchedulerRule,
    SmisWithin, Source, StolenWithin,
};
use crate::{Nanos, Task};

#[test]
fn gap_has_all_its_possible_causes() {
    let said = |ran, disabled, ended_in: Option<&str>, nmi_recorded, counted| {
        let detail = Detail::Hypotheses {
            ran,
            disabled,
            ended_in: ended_in.map(Into::into),
            nmi_recorded,
            counted,
        };
        Cause::new(Source::Gap).with(detail).detail().unwrap()
    };
    let none = Counted::default();
    let ran = Ran::Thread(low());
    let enabled = Some("finish_task_switch < schedule");
    for (ran, disabled, ended_in, nmi, text) in [
        (
            Ran::Idle,
            Disabled::Possible,
            None,
            true,
            "while the CPU was idle; possible: hypervisor, SMI, firmware",
        ),
        (
            Ran::Idle,
            Disabled::Before,
            None,
            false,
            "while the CPU was idle; possible: hypervisor, SMI, firmware, NMI (not recorded)",
        ),
        (
            ran,
            Disabled::No,
            None,
            true,
            "while low-12 ran; possible: hypervisor, SMI, firmware",
        ),
        (
            ran,
            Disabled::Before,
            Some("copy_page"),
            true,
            "while low-12 ran; possible: interrupts disabled in low-12 (as at the previous event), \
             hypervisor, SMI, firmware; the next interrupt arrived in copy_page",
        ),
        (
            ran,
            Disabled::Possible,
            enabled,
            true,
            "while low-12 ran; possible: interrupts disabled in low-12, hypervisor, SMI, firmware; \
             interrupts were enabled again in finish_task_switch < schedule",
        ),
        (
            ran,
            Disabled::Possible,
            Some("copy_page"),
            true,
            "while low-12 ran; possible: hypervisor, SMI, firmware, or interrupts disabled in low-12; \
             the next interrupt arrived in copy_page",
        ),
        (
            Ran::Faulted(low()),
            Disabled::Possible,
            None,
            true,
            "while low-12 ran; possible: the preceding page fault, hypervisor, SMI, firmware, or \
             interrupts disabled in low-12",
        ),
    ] {
        assert_eq!(said(ran, disabled, ended_in, nmi, none), text);
    }
    let within_ns = Nanos(20_000_000);
    let smis = |count| Some(SmisWithin { count, within_ns });
    let steal = |stolen| {
        Some(StolenWithin {
            stolen_ns: Nanos(stolen),
            within_ns,
        })
    };
    for (counted, text) in [
        (
            Counted {
                steal: steal(1),
                smis: smis(2),
            },
            "; steal time rose by 1 ns within 20.0 ms; SMIs within 20.0 ms: 2",
        ),
        (
            Counted {
                steal: steal(0),
                smis: smis(0),
            },
            "",
        ),
        (
            Counted {
                steal: None,
                smis: smis(1),
            },
            "; SMIs within 20.0 ms: 1",
        ),
    ] {
        let said = said(Ran::Idle, Disabled::No, None, true, counted);
        assert_eq!(
            said,
            format!("while the CPU was idle; possible: hypervisor, SMI, firmware{text}")
        );
    }
}

#[test]
fn finding_about_the_scheduler_says_rule_times_and_reason() {
    let finding = |rule, by: Option<Task>, times, [total, longest]: [u64; 2]| SchedulerFinding {
        rule,
        thread: task(7, "io", 19),
        cpu: 2,
        by,
        times,
        total_ns: Nanos(total),
        longest_ns: Nanos(longest),
        first_ns: Nanos(1),
        limit: None,
        possible: vec![Hold::Quota],
        decided_by: None,
    };
    let hog = Some(task(9, "hog", 120));
    let reason = "possible: the CPU quota of a control group";
    for (finding, text) in [
        (
            finding(SchedulerRule::NoIdleWhileRunnable, None, 1, [9_000, 9_000]),
            "io-7 (real-time 80) was runnable while CPU 2 was idle: once, 9.00 µs in total",
        ),
        (
            finding(SchedulerRule::HigherFirst, hog, 1_200, [9_000, 5_000]),
            "io-7 (real-time 80) was runnable on CPU 2 while hog-9 (nice 0) ran there: 1,200 times, \
             9.00 µs in total, 5.00 µs at most",
        ),
        (
            finding(SchedulerRule::InOrder, None, 2, [0, 0]),
            "no thread ran on CPU 2 before io-7 (real-time 80), which was woken earlier: 2 times",
        ),
        (
            finding(SchedulerRule::Inheritance, None, 2, [9, 0]),
            "io-7 (real-time 80) ran on CPU 2 without the priority that it had inherited: 2 times, 9 \
             ns in total",
        ),
    ] {
        assert_eq!(finding.sentence(), format!("{text}; {reason}"));
        let limited = SchedulerFinding {
            limit: Some(Limit::RealTime),
            ..finding
        };
        assert_eq!(
            limited.sentence(),
            format!("{text}; limit: real-time throttling")
        );
    }
}
