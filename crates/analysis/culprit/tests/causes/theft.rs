//! Stolen time of a hypervisor or the firmware, which no event shows. It must not be charged to a
//! thread or handler that merely happened to be current.

use insta::assert_snapshot;
use proptest::prelude::*;
use punctual_culprit::find as judge;
use punctual_model::{
    EventKind, HandlerOf, Nanos, Share, ShareKind, SmiCount, StealCount, StealRise, UnseenTheft,
    Usual, UsualLength, Window,
};

use crate::stream::*;

fn find() -> punctual_model::Task {
    task("find", 12, 120)
}

/// The virtual CPU is descheduled just after the timer's interrupt.
fn after_the_timer() -> Stream {
    Stream::late(1_990.0)
        .sleeping_beside(find())
        .timer(2.0)
        .switch(1_980.0, find(), RUNNABLE, victim())
}

/// As above, but while an interrupt thread runs for 8 µs.
fn in_an_interrupt_thread() -> Stream {
    let thread = task("irq/24-eth0", 61, 0);
    Stream::late(2_110.0)
        .sleeping_beside(thread)
        .timer(2.0)
        .switch(2_100.0, thread, SLEEPS, victim())
}

/// As above, but in an interrupt handler that takes 4 µs.
fn in_a_handler() -> Stream {
    Stream::late(3_080.0)
        .sleeping_beside(find())
        .irq(-4.0, 3_050.0, 26, "virtio0")
        .timer(3_051.0)
        .switch(3_060.0, find(), RUNNABLE, victim())
}

/// As above, but in a softirq that takes 6 µs.
fn in_a_softirq() -> Stream {
    Stream::late(3_070.0)
        .sleeping_beside(find())
        .timer(2.0)
        .softirq(6.0, 3_046.0, 3)
        .switch(3_050.0, find(), RUNNABLE, victim())
}

fn all() -> [Stream; 4] {
    [
        after_the_timer(),
        in_an_interrupt_thread(),
        in_a_handler(),
        in_a_softirq(),
    ]
}

fn in_a_virtual_machine(window: &mut Window) {
    window.evidence.virtual_machine = Some(true);
}

/// Returns the summaries of all four streams after a change.
fn all_with(change: impl Fn(&mut Window)) -> String {
    let summaries = all().map(|stream| stream.change(&change).summary());
    summaries.join("\n")
}

#[test]
fn steal_rose_by_a_tick() {
    assert_snapshot!(all_with(|window| {
        in_a_virtual_machine(window);
        window.evidence.stolen = vec![ticks(1)];
    }));
}

#[test]
fn a_management_interrupt_came() {
    assert_snapshot!(all_with(|window| {
        window.evidence.virtual_machine = Some(false);
        window.evidence.smi = Some(smis(1));
    }));
}

/// The kernel's own counter proves stolen time, which is charged to the hypervisor.
#[test]
fn steal_is_known_to_the_nanosecond() {
    assert_snapshot!(all_with(|window| {
        in_a_virtual_machine(window);
        let end = (window.latency().0 / 1_000) as f64;
        window.evidence.stolen = vec![ticks(1), exactly(&[(1.0, end - 8.0, end - 40.0)])];
    }));
}

/// The counter shows that no time was stolen.
#[test]
fn steal_did_not_rise_by_a_nanosecond() {
    for stream in all() {
        let stream = stream.change(|window| {
            in_a_virtual_machine(window);
            window.evidence.stolen = vec![ticks(1), exactly(&[])];
        });
        let found = judge(&stream.window).blame;
        let open =
            |share: &Share| share.kind() == ShareKind::Undecided || share.cause.unseen.is_some();
        assert!(!found.shares.iter().any(open), "{found:#?}");
    }
}

/// Time that the counters would not show is flagged, with the missing counter.
#[test]
fn without_counters_the_shares_are_marked() {
    let (steal, short) = (UnseenTheft::Steal, UnseenTheft::ShortSteal);
    type Case = (fn(&mut Window), Option<UnseenTheft>);
    let cases: [Case; 6] = [
        (in_a_virtual_machine, Some(steal)),
        (|_| {}, Some(steal)),
        (
            |window| {
                in_a_virtual_machine(window);
                window.evidence.stolen = vec![ticks(0)];
            },
            Some(short),
        ),
        // The counters of another CPU say nothing about this one.
        (
            |window| {
                in_a_virtual_machine(window);
                window.evidence.stolen = vec![StealCount {
                    cpu: 0,
                    ..exactly(&[])
                }];
            },
            Some(steal),
        ),
        (
            |window| window.evidence.virtual_machine = Some(false),
            Some(UnseenTheft::Smi),
        ),
        (
            |window| {
                window.evidence.virtual_machine = Some(false);
                window.evidence.smi = Some(smis(0));
            },
            None,
        ),
    ];
    for (number, (change, unseen)) in cases.into_iter().enumerate() {
        for stream in all() {
            let found = judge(&stream.change(change).window).blame;
            let largest = found.shares.iter().max_by_key(|share| share.ns);
            assert_eq!(
                largest.unwrap().cause.unseen,
                unseen,
                "case {number}: {found:#?}"
            );
        }
    }
}

/// The readings of the SMI counter may be apart by a second more than the wait.
#[test]
fn smi_readings_close_to_a_long_wait_count() {
    let is_undecided = |first_ms: i64| {
        let stream = Stream::late(300_000.0)
            .sleeping_beside(find())
            .timer(2.0)
            .switch(299_980.0, find(), RUNNABLE, victim())
            .change(|window| {
                window.evidence.virtual_machine = Some(false);
                window.evidence.smi = Some(SmiCount {
                    from: at_ms(first_ms),
                    to: at_ms(750),
                    count: 1,
                });
            });
        let found = judge(&stream.window).blame;
        (found.shares.iter()).any(|share| share.kind() == ShareKind::Undecided)
    };
    assert!(is_undecided(-450));
    assert!(!is_undecided(-600));
}

/// Counters that were read a long time before say nothing about the time of the window.
#[test]
fn stale_counters_prove_no_recent_rise() {
    let long_before = at(0.0) - Nanos::from_secs(4);
    let stream = after_the_timer().change(|window| {
        in_a_virtual_machine(window);
        let mut count = ticks(1);
        (count.from, count.rises[0].from) = (long_before, long_before);
        window.evidence.stolen = vec![count];
        window.evidence.smi = Some(SmiCount {
            from: long_before,
            ..smis(3)
        });
    });
    let summary = stream.summary();
    assert!(
        !summary.contains("rose") && !summary.contains("SMI"),
        "{summary}"
    );
    let found = judge(&stream.window).blame;
    assert!(
        found
            .shares
            .iter()
            .any(|share| share.cause.unseen == Some(UnseenTheft::Steal))
    );
    let gap = Stream::late(830.0)
        .sleeping_beside(find())
        .timer(815.0)
        .switch(822.0, find(), RUNNABLE, victim())
        .change(|window| window.evidence = stream.window.evidence.clone());
    let summary = gap.summary();
    assert!(
        !summary.contains("rose") && !summary.contains("SMIs"),
        "{summary}"
    );
}

/// Handlers that usually take 4 µs and once took 3 ms.
fn usual(runs: u64) -> impl Fn(&mut Window) {
    move |window| {
        let length = Usual {
            p999_ns: Nanos(4_200),
            count: runs,
        };
        let handlers = [HandlerOf::Irq(26), HandlerOf::Softirq(3)];
        window.evidence.usual = handlers
            .map(|handler| UsualLength { handler, length })
            .to_vec();
    }
}

#[test]
fn unusually_long_handler_is_an_anomaly() {
    // This applies both in a virtual machine whose counters did not increase, and on a machine that
    // cannot lose time to a hypervisor.
    for virtual_machine in [true, false] {
        let said = all_with(|window| {
            usual(12_345)(window);
            window.evidence.virtual_machine = Some(virtual_machine);
            window.evidence.stolen = vec![exactly(&[])];
            window.evidence.smi = Some(smis(0));
        });
        let name = format!("anomaly_in_a_virtual_machine_{virtual_machine}");
        assert_snapshot!(name, said);
    }
    let few = all_with(usual(999));
    assert!(!few.contains("anomaly"), "{few}");
}

/// A machine with known properties: the sequence of code that ran on CPU 1, and the time that was
/// stolen while it ran.
#[derive(Clone, Debug)]
struct Truth {
    /// Pieces that run before the victim: kind, length in ns, and stolen time in ns.
    pieces: Vec<(Piece, u64, u64)>,
    knows: Knows,
    /// Steal time that had accumulated towards the next tick, in ns.
    phase: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Find,
    Hog,
    Irq,
    Softirq,
}

/// Counters of stolen time that the machine provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knows {
    Nothing,
    Ticks,
    Exactly,
    Smis,
}

const TICK: u64 = 10_000_000;

impl Truth {
    fn window(&self) -> Window {
        let hog = task("hog", 61, 0);
        let us = |ns: u64| ns as f64 / 1_000.0;
        let mut stream = Stream::late(0.0).sleeping_beside(find()).timer(1.0);
        let mut now = 5_000;
        let mut readings = vec![(-500_000.0, 0)];
        let mut stolen = 0;
        let mut current = find();
        for (piece, ran, theft) in &self.pieces {
            let from = now;
            let next = if *piece == Piece::Hog { hog } else { find() };
            if next != current {
                stream = stream.switch(us(from), current, RUNNABLE, next);
                current = next;
            }
            readings.push((us(from), stolen));
            now += ran + theft;
            stolen += theft;
            stream = match piece {
                Piece::Irq => stream.irq(us(from), us(now), 26, "virtio0"),
                Piece::Softirq => stream.softirq(us(from), us(now), 3),
                Piece::Find | Piece::Hog => {
                    stream.event(us(now), EventKind::SoftirqRaise { vec: 9 })
                }
            };
            now += 1_000;
        }
        readings.push((us(now), stolen));
        stream = stream.switch(us(now), current, RUNNABLE, victim());
        stream
            .change(|window| {
                window.actual = at(us(now) + 4.0);
                self.know(window, &readings);
            })
            .window
    }

    fn know(&self, window: &mut Window, readings: &[(f64, u64)]) {
        let evidence = &mut window.evidence;
        evidence.virtual_machine = Some(self.knows != Knows::Smis);
        let total = readings.last().map_or(0, |last| last.1);
        let (first, end) = (readings[0].0, readings[readings.len() - 1].0);
        match self.knows {
            Knows::Nothing => {}
            Knows::Smis => {
                evidence.smi = Some(SmiCount {
                    from: at(first),
                    to: at(end + 1_000.0),
                    count: u64::from(total > 0),
                });
            }
            Knows::Ticks => {
                let shown = (self.phase + total) / TICK * TICK;
                evidence.stolen = vec![StealCount {
                    cpu: 1,
                    from: at(first),
                    to: at(end + 1_000.0),
                    step: Nanos(TICK),
                    rises: vec![StealRise {
                        from: at(-20_000.0),
                        to: at(end + 1_000.0),
                        stolen: Nanos(shown),
                    }],
                }];
            }
            Knows::Exactly => {
                let rises = readings.windows(2).map(|pair| StealRise {
                    from: at(pair[0].0),
                    to: at(pair[1].0),
                    stolen: Nanos(pair[1].1 - pair[0].1),
                });
                evidence.stolen = vec![StealCount {
                    cpu: 1,
                    from: at(first),
                    to: at(end),
                    step: Nanos(1),
                    rises: rises.collect(),
                }];
            }
        }
    }

    /// Returns the true time of a piece.
    fn ran(&self, piece: Piece) -> u64 {
        let of = self.pieces.iter().filter(|(one, ..)| *one == piece);
        of.map(|(_, ran, _)| ran).sum()
    }

    fn stolen(&self) -> u64 {
        self.pieces.iter().map(|(_, _, theft)| theft).sum()
    }
}

fn truth() -> impl Strategy<Value = Truth> {
    let piece = prop_oneof![
        Just(Piece::Find),
        Just(Piece::Hog),
        Just(Piece::Irq),
        Just(Piece::Softirq)
    ];
    let theft = prop_oneof![3 => Just(0_u64), 2 => 0_u64..100_000, 2 => 0_u64..30_000_000];
    let ran = prop_oneof![1_000_u64..8_000, 1_000_u64..3_000_000];
    let knows = prop_oneof![
        Just(Knows::Nothing),
        Just(Knows::Ticks),
        Just(Knows::Exactly),
        Just(Knows::Smis)
    ];
    let pieces = proptest::collection::vec((piece, ran, theft), 1..8);
    (pieces, knows, 0..TICK).prop_map(|(pieces, knows, phase)| Truth {
        pieces,
        knows,
        phase,
    })
}

/// Tolerance per piece: shorter pieces are not checked, and writing the events themselves takes
/// some time in these streams.
const DOUBTED: u64 = 12_000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    /// However much time was stolen, no code is charged with more time than it ran, unless the
    /// share states that the cause is undecided. A hypervisor is never charged with more time than
    /// it stole.
    #[test]
    fn nobody_innocent_is_accused(truth in truth()) {
        let window = truth.window();
        let found = judge(&window).blame;
        let sum: u64 = found.shares.iter().map(|share| share.ns.0).sum();
        prop_assert_eq!(sum, window.latency().0);
        let pieces = truth.pieces.len() as u64;
        for share in &found.shares {
            let ran = match (share.kind(), share.who().as_str()) {
                (ShareKind::Blocking, "find-12") => truth.ran(Piece::Find),
                (ShareKind::HigherPriority, "hog-61") => truth.ran(Piece::Hog),
                (ShareKind::Interrupt, "virtio0 (26)") => truth.ran(Piece::Irq),
                (ShareKind::Softirq, "NET_RX") => truth.ran(Piece::Softirq),
                (ShareKind::Stolen, _) => {
                    prop_assert!(share.ns.0 <= truth.stolen(), "{:#?}", found);
                    continue;
                }
                (ShareKind::Undecided, _) => {
                    prop_assert!(truth.knows != Knows::Nothing, "{:#?}", found);
                    continue;
                }
                _ => continue,
            };
            let accused = share.ns.0 > ran + pieces * DOUBTED;
            prop_assert!(!accused || share.cause.unseen.is_some(), "{} > {}: {:#?}", share.ns, ran, found);
            prop_assert!(share.cause.unseen.is_none() || matches!(truth.knows, Knows::Nothing | Knows::Ticks));
        }
    }

    /// If nothing is stolen and the counters are exact, the full time is charged to the code that
    /// ran.
    #[test]
    fn nobody_guilty_is_acquitted(mut truth in truth(), smis in any::<bool>()) {
        truth.knows = if smis { Knows::Smis } else { Knows::Exactly };
        for (_, _, theft) in &mut truth.pieces {
            *theft = 0;
        }
        let found = judge(&truth.window()).blame;
        let doubted = |share: &Share| {
            share.cause.unseen.is_some() || matches!(share.kind(), ShareKind::Stolen | ShareKind::Undecided)
        };
        prop_assert!(!found.shares.iter().any(doubted), "{:#?}", found);
    }
}
