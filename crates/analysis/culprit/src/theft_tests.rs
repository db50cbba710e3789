//! The evidence of counters around a span of time.

use punctual_model::cause::Detail;
use punctual_model::{StealRise, UsualLength, Vector};

use super::*;
use crate::testing::{us, window};

/// The counter of CPU 1 from 0 to 1,000 µs. Each increase: begin, end and amount in µs.
fn count(step: u64, rises: &[(u64, u64, u64)]) -> StealCount {
    let rise = |(from, to, stolen): &(u64, u64, u64)| StealRise {
        from: us(*from),
        to: us(*to),
        stolen: us(*stolen),
    };
    StealCount {
        cpu: 1,
        from: us(0),
        to: us(1_000),
        step: Nanos(step),
        rises: rises.iter().map(rise).collect(),
    }
}

#[test]
fn stolen_time_lies_within_the_readings() {
    let of = |rises: &[(u64, u64, u64)]| {
        let (least, most) = bounds(&count(1, rises), (us(100), us(200)));
        (least.0 / 1_000, most.0 / 1_000)
    };
    assert_eq!(of(&[]), (0, 0));
    assert_eq!(of(&[(120, 150, 20)]), (20, 20));
    assert_eq!(of(&[(120, 150, 0)]), (0, 0));
    // Readings that only touch the span say nothing about it.
    assert_eq!(of(&[(50, 100, 50), (200, 250, 50)]), (0, 0));
    // A part of the increase may have been before or after the span.
    assert_eq!(of(&[(50, 150, 70)]), (20, 50));
    assert_eq!(of(&[(150, 250, 70)]), (20, 50));
    assert_eq!(of(&[(50, 150, 40)]), (0, 40));
    assert_eq!(of(&[(0, 300, 250)]), (50, 100));
    // Increases add up, but not to more than the span.
    assert_eq!(of(&[(110, 120, 5), (150, 190, 30)]), (35, 35));
    assert_eq!(of(&[(90, 160, 70), (140, 210, 70)]), (100, 100));
}

#[test]
fn coarse_counter_is_off_by_up_to_a_step() {
    let of = |stolen_us: u64| {
        let (least, most) = bounds(&count(10_000, &[(100, 200, stolen_us)]), (us(0), us(1_000)));
        (least.0, most.0)
    };
    // Steps of 10 µs.
    assert_eq!(of(10), (1, 19_999));
    assert_eq!(of(30), (20_001, 39_999));
    assert_eq!(of(200), (100_000, 100_000));
}

#[test]
fn finest_counter_of_the_cpu_is_read() {
    let mut window = window(100, 200, Vec::new());
    let span = (us(100), us(200));
    let step = |window: &Window, span| steal_count(window, 1, span).map(|count| count.step.0);
    assert_eq!(step(&window, span), None);
    window.evidence.stolen = vec![count(10_000_000, &[]), count(1, &[]), count(100, &[])];
    assert_eq!(step(&window, span), Some(1));
    assert!(steal_count(&window, 0, span).is_none());
    // It must cover the span.
    assert_eq!(step(&window, (us(0), us(1_000))), Some(1));
    assert_eq!(step(&window, (us(0), us(1_001))), None);
    window.evidence.stolen[1].from = us(101);
    assert_eq!(step(&window, span), Some(100));
    assert_eq!(step(&window, (us(101), us(200))), Some(1));
}

#[test]
fn increases_around_a_span_are_added_up() {
    let mut window = window(100, 200, Vec::new());
    let of = |window: &Window| counted(window, 1, (us(100), us(200)));
    assert_eq!(of(&window), Counted::default());
    window.evidence.stolen = vec![count(1, &[(90, 120, 10), (180, 230, 30), (300, 400, 90)])];
    let steal = of(&window).steal.unwrap();
    assert_eq!((steal.stolen_ns, steal.within_ns), (us(40), us(140)));
    window.evidence.stolen = vec![count(1, &[])];
    let steal = of(&window).steal.unwrap();
    assert_eq!((steal.stolen_ns, steal.within_ns), (us(0), us(100)));
    window.evidence.smi = Some(SmiCount {
        from: us(50),
        to: us(260),
        count: 2,
    });
    let smis = of(&window).smis.unwrap();
    assert_eq!((smis.count, smis.within_ns), (2, us(210)));
}

#[test]
fn interrupts_of_the_firmware_count_between_readings_around_the_span() {
    let mut window = window(100, 200, Vec::new());
    let knows = |window: &mut Window, from: u64, to: u64, count: u64| {
        let (from, to) = (us(from), us(to));
        window.evidence.smi = Some(SmiCount { from, to, count });
        smi_count(window, (us(100), us(200))).is_some()
    };
    assert!(knows(&mut window, 100, 200, 1));
    assert!(!knows(&mut window, 101, 200, 0) && !knows(&mut window, 100, 199, 0));
    // A second apart, besides the span itself.
    assert!(knows(&mut window, 0, 1_000_100, 1) && !knows(&mut window, 0, 1_000_101, 1));
    // None at all is known however far apart they are.
    assert!(knows(&mut window, 0, 9_000_000, 0));
}

/// Which stolen time the counters show, and which they would not show.
#[test]
fn evidence_depends_on_the_machine() {
    let of = |virtual_machine, stolen: Option<StealCount>, smis: Option<u64>| {
        let mut window = window(100, 200, Vec::new());
        window.evidence.virtual_machine = virtual_machine;
        window.evidence.stolen = stolen.into_iter().collect();
        window.evidence.smi = smis.map(|count| SmiCount {
            from: us(0),
            to: us(1_000),
            count,
        });
        let theft = Theft::from_window(&window, 1, (us(100), us(200)));
        (theft.thief, theft.unseen, theft.most.0 / 1_000)
    };
    use Thief::{Either, Hypervisor, Smi};
    use UnseenTheft::{ShortSteal, Steal};
    let (yes, no) = (Some(true), Some(false));
    let exact = |stolen| Some(count(1, &[(120, 180, stolen)]));
    let coarse = |stolen| Some(count(10_001, &[(120, 180, stolen)]));
    for (virtual_machine, steal, smis, expected) in [
        (yes, None, None, (None, Some(Steal), 0)),
        (None, None, None, (None, Some(Steal), 0)),
        (no, None, None, (None, Some(UnseenTheft::Smi), 0)),
        (no, None, Some(0), (None, None, 0)),
        (no, None, Some(2), (Some(Smi), None, 100)),
        (yes, exact(0), None, (None, None, 0)),
        (yes, exact(50), None, (Some(Hypervisor), None, 50)),
        (yes, exact(50), Some(1), (Some(Either), None, 100)),
        (yes, exact(0), Some(1), (Some(Smi), None, 100)),
        (no, exact(50), Some(0), (Some(Hypervisor), None, 50)),
        // A short theft is not visible in coarse steps.
        (yes, coarse(0), None, (None, Some(ShortSteal), 0)),
        (None, coarse(0), Some(0), (None, Some(ShortSteal), 0)),
        (no, coarse(0), Some(0), (None, None, 0)),
        (
            yes,
            coarse(20),
            None,
            (Some(Hypervisor), Some(ShortSteal), 30),
        ),
    ] {
        let found = of(virtual_machine, steal.clone(), smis);
        assert_eq!(found, expected, "{virtual_machine:?} {steal:?} {smis:?}");
    }
    // Steps as short as the shortest span that is checked hide nothing.
    let fine = Some(count(10_000, &[]));
    assert_eq!(of(yes, fine, None), (None, None, 0));
}

fn span(source: Source, from: u64, to: u64) -> CauseSpan {
    CauseSpan {
        from: us(from),
        to: us(to),
        cpu: 1,
        cause: Cause::new(source),
        rival: Some(7),
    }
}

/// A handler takes three times as long as nearly always.
#[test]
fn far_longer_run_of_a_handler_is_an_anomaly() {
    let irq = || Source::Irq {
        irq: 24,
        name: "eth0".into(),
    };
    let is_odd = |source: Source, length: u64, p999: u64, runs: u64| {
        let mut window = window(0, 1_000, Vec::new());
        let length_of = Usual {
            p999_ns: us(p999),
            count: runs,
        };
        let handlers = [
            HandlerOf::Irq(24),
            HandlerOf::Softirq(3),
            HandlerOf::Vector("local_timer".to_owned()),
        ];
        window.evidence.usual = handlers
            .map(|handler| UsualLength {
                handler,
                length: length_of,
            })
            .to_vec();
        anomaly(&window, &span(source, 100, 100 + length)).is_some()
    };
    assert!(is_odd(irq(), 31, 10, 1_000) && !is_odd(irq(), 30, 10, 1_000));
    assert!(!is_odd(irq(), 31, 10, 999));
    // No run as short as this is one.
    assert!(is_odd(irq(), 11, 1, 1_000) && !is_odd(irq(), 10, 1, 1_000));
    let timer = Source::Vector(Vector::LocalTimer);
    assert!(is_odd(Source::Softirq(3), 31, 10, 1_000) && is_odd(timer, 31, 10, 1_000));
    for other in [
        Source::Softirq(4),
        Source::Vector(Vector::Reschedule),
        Source::Irq {
            irq: 3,
            name: "eth0".into(),
        },
        Source::Nmi,
    ] {
        assert!(!is_odd(other.clone(), 900, 10, 1_000), "{other:?}");
    }
}

/// Returns the pieces of a span from 100 to 200 µs: begin, end and source.
fn pieces(window: &Window, source: Source) -> Vec<(u64, u64, Source)> {
    let judged = judge(window, vec![span(source, 100, 200)]);
    let piece = |one: &CauseSpan| {
        assert_eq!((one.cpu, one.rival), (1, Some(7)));
        (
            one.from.0 / 1_000,
            one.to.0 / 1_000,
            one.cause.source.clone(),
        )
    };
    judged.iter().map(piece).collect()
}

#[test]
fn proven_theft_is_taken_from_code_that_ran() {
    let mut window = window(100, 200, Vec::new());
    window.evidence.virtual_machine = Some(true);
    window.evidence.stolen = vec![count(1, &[(100, 200, 30)])];
    let softirq = Source::Softirq(3);
    assert_eq!(
        pieces(&window, softirq.clone()),
        [(100, 170, softirq.clone()), (170, 200, Source::Stolen)]
    );
    let judged = judge(&window, vec![span(softirq.clone(), 100, 200)]);
    let instead = Detail::Instead(Box::new(softirq.clone()));
    assert_eq!(judged[1].cause.detail, Some(instead));
    // In a gap, nothing is known to have run instead.
    let judged = judge(&window, vec![span(Source::Gap, 100, 200)]);
    assert_eq!(
        (
            judged[1].cause.source.clone(),
            judged[1].cause.detail.clone()
        ),
        (Source::Stolen, None)
    );
    // Time that was not charged to running code stays as it is.
    let slept = Source::OwnSleep;
    assert_eq!(pieces(&window, slept.clone()), [(100, 200, slept)]);
    // The readings reach beyond the span, so the theft is possible, but not proven.
    window.evidence.stolen = vec![count(1, &[(100, 240, 50)])];
    let undecided = Source::Undecided {
        source: Box::new(softirq.clone()),
        thief: Thief::Hypervisor,
    };
    assert_eq!(
        pieces(&window, softirq.clone()),
        [
            (100, 150, softirq.clone()),
            (150, 190, undecided),
            (190, 200, Source::Stolen)
        ]
    );
}

/// Stolen time lies between two events, so each time between two of them is judged on its own.
#[test]
fn short_times_between_events_are_not_stolen() {
    let event = |at, cpu| {
        let kind = punctual_model::EventKind::SoftirqRaise { vec: 9 };
        crate::testing::on(cpu, crate::testing::event(at, 12, kind))
    };
    let softirq = Source::Softirq(3);
    let stolen = |events: Vec<punctual_model::TraceEvent>| {
        let mut window = window(100, 200, events);
        window.evidence.virtual_machine = Some(true);
        window.evidence.stolen = vec![count(1, &[(100, 200, 100)])];
        let pieces = pieces(&window, softirq.clone()).into_iter();
        let stolen = pieces.filter(|(.., source)| *source == Source::Stolen);
        stolen.map(|(from, to, _)| to - from).sum::<u64>()
    };
    assert_eq!(stolen(Vec::new()), 100);
    let dense = |step: usize| (100..200).step_by(step).map(|at| event(at, 1)).collect();
    assert_eq!(stolen(dense(10)), 0);
    assert_eq!(stolen(dense(11)), 99);
    // Events of other CPUs show nothing about this one.
    let elsewhere = (100..200).step_by(10).map(|at| event(at, 0)).collect();
    assert_eq!(stolen(elsewhere), 100);
}

/// The trace of the host shows that the virtual CPU ran.
#[test]
fn host_trace_rules_a_theft_out() {
    let mut window = window(100, 200, Vec::new());
    window.evidence.virtual_machine = Some(true);
    window.evidence.stolen = vec![count(1, &[(100, 200, 100)])];
    let host = |from, to, away| punctual_model::HostSpan {
        cpu: 1,
        from: us(from),
        to: us(to),
        away,
    };
    let softirq = Source::Softirq(3);
    window.host = vec![host(100, 150, None), host(150, 200, None)];
    assert_eq!(
        pieces(&window, softirq.clone()),
        [(100, 200, softirq.clone())]
    );
    window.host = vec![host(100, 150, None), host(151, 200, None)];
    assert_eq!(
        pieces(&window, softirq.clone()),
        [(100, 200, Source::Stolen)]
    );
    window.host = vec![
        host(100, 150, None),
        host(150, 200, Some(Cause::new(Source::Nmi))),
    ];
    assert_eq!(pieces(&window, softirq), [(100, 200, Source::Stolen)]);
}
