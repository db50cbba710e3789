//! Outliers of the light stage that resemble explained outliers.

use punctual_model::cause::{Detail, Leaf, Missing, Name, Source, Unknown, Wait};
use punctual_model::{Nanos, Outlier, Resemblance, ResemblancePlace, ShareKind, Text};

/// Several causes can take a similar time on the CPU, or end a wait, so one explained outlier does not
/// suffice.
const LEAST: usize = 2;

/// The wait, or the time on the CPU, that took most of an outlier.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Signature {
    thread: u32,
    place: ResemblancePlace,
    /// How long it took.
    took: Nanos,
}

impl Signature {
    /// Returns whether this outlier of the light stage resembles an explained one.
    fn resembles(&self, explained: &Self) -> bool {
        use ResemblancePlace::{OnCpu, Wait};
        let is_same_place = match (&self.place, &explained.place) {
            (OnCpu, OnCpu) => is_similar(self.took, explained.took),
            (
                Wait {
                    call,
                    argument,
                    waker,
                },
                Wait {
                    call: other,
                    argument: of_other,
                    waker: by,
                },
            ) => (call, argument) == (other, of_other) && (waker.is_none() || waker == by),
            _ => false,
        };
        self.thread == explained.thread && is_same_place
    }
}

/// Returns whether a time on the CPU in the light stage fits one in the full stage, whose records make
/// it longer.
const fn is_similar(light: Nanos, full: Nanos) -> bool {
    light.0 / 5 <= full.0 / 4 && full.0 / 5 <= light.0 / 2
}

/// Which shares of an outlier are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// Shares of unknown cause, in the light stage.
    Light,
    /// The waits of an explained outlier.
    Waits,
    /// The times of an explained outlier that the light stage shows as time on the CPU.
    OnCpu,
}

/// Returns the explained outliers that those of the light stage resemble. Only outliers whose longest
/// share is of unknown cause are compared.
pub fn alike(outliers: &[Outlier]) -> Vec<Resemblance> {
    let explained = |side: Side| {
        let in_full = outliers.iter().filter(|outlier| !outlier.light_stage);
        let known = in_full.filter_map(|outlier| Some((signature(outlier, side)?, outlier)));
        known.collect::<Vec<(Signature, &Outlier)>>()
    };
    let (waits, on_cpu) = (explained(Side::Waits), explained(Side::OnCpu));
    let in_light = outliers.iter().filter(|outlier| outlier.light_stage);
    in_light
        .filter_map(|outlier| {
            let signature = signature(outlier, Side::Light)?;
            let known = match signature.place {
                ResemblancePlace::Wait { .. } => &waits,
                ResemblancePlace::OnCpu => &on_cpu,
            };
            let same = known.iter().filter(|(other, _)| signature.resembles(other));
            let same: Vec<&Outlier> = same.map(|(_, other)| *other).collect();
            resemblance(outlier.number, signature.place, &same)
        })
        .collect()
}

fn resemblance(number: u64, place: ResemblancePlace, same: &[&Outlier]) -> Option<Resemblance> {
    let cause = |outlier: &Outlier| {
        let largest = outlier.blame.largest();
        largest.map(|share| share.cause.source.without_ids())
    };
    let with_cause = |one: &Outlier| {
        same.iter()
            .filter(|other| cause(other) == cause(one))
            .count()
    };
    let first = same
        .iter()
        .max_by_key(|one| (with_cause(one), std::cmp::Reverse(one.number)))?;
    let is_certain = with_cause(first) == same.len() && same.len() >= LEAST;
    // The same thread ended both waits, or no thread did.
    let is_specific = match &place {
        ResemblancePlace::Wait { waker: None, .. } => same.iter().all(|one| {
            let largest = one.blame.largest().map(|share| &share.cause.source);
            !matches!(largest, Some(Source::Awaited(_)))
        }),
        ResemblancePlace::Wait { .. } => true,
        ResemblancePlace::OnCpu => false,
    };
    (is_certain || is_specific).then(|| Resemblance {
        number,
        outlier: first.number,
        with_cause: with_cause(first) as u64,
        explained: same.len() as u64,
        place,
    })
}

/// Returns what took the largest part of an outlier; `None` if something else took more.
fn signature(outlier: &Outlier, side: Side) -> Option<Signature> {
    let mut places: Vec<(ResemblancePlace, Nanos)> = Vec::new();
    let mut other = Nanos::ZERO;
    for share in &outlier.blame.shares {
        let Some(place) = place_of(&share.cause.source, share.cause.detail.as_ref(), side) else {
            other = other.max(share.ns);
            continue;
        };
        match places.iter_mut().find(|(known, _)| *known == place) {
            Some((_, total)) => *total += share.ns,
            None => places.push((place, share.ns)),
        }
    }
    let (place, took) = places.into_iter().rev().max_by_key(|(_, took)| *took)?;
    (took >= other).then_some(Signature {
        thread: outlier.thread,
        place,
        took,
    })
}

/// Returns where the thread was during a share: in a wait, or on its CPU. Returns `None` for shares
/// that are not compared, and if the thread that ended the wait is unknown.
fn place_of(source: &Source, detail: Option<&Detail>, side: Side) -> Option<ResemblancePlace> {
    let is_on_cpu = match side {
        Side::Light => is_on_cpu_in_light_stage(source, detail),
        Side::Waits => false,
        Side::OnCpu => is_on_cpu(source, detail),
    };
    if is_on_cpu {
        return Some(ResemblancePlace::OnCpu);
    }
    let is_compared = match side {
        Side::Light => is_unknown(source),
        Side::Waits => !is_unknown(source),
        Side::OnCpu => false,
    };
    let (call, argument, waker) = wait_of(source, detail).filter(|_| is_compared)?;
    Some(ResemblancePlace::Wait {
        call: call.clone(),
        argument,
        waker: waker.copied(),
    })
}

/// Returns whether the light stage shows a share as time on the CPU, or as a page fault that sleeps.
fn is_on_cpu_in_light_stage(source: &Source, detail: Option<&Detail>) -> bool {
    match source {
        Source::PageFault => true,
        Source::Unexplained(Unknown::NotRecorded { what, .. }) => match what {
            Missing::OnCpu => true,
            Missing::WokenBy => matches!(detail, Some(Detail::WaitsIn { call: None, .. })),
            _ => false,
        },
        _ => false,
    }
}

/// Returns whether the light stage would have shown a share as time on the CPU.
fn is_on_cpu(source: &Source, detail: Option<&Detail>) -> bool {
    use ShareKind::{Interrupt, Nmi, OwnWork, PageFault, ReturnToUser, Softirq, SystemCall};
    match source {
        // A thread that spins for a lock has no stack of a sleep.
        Source::Awaited(awaited) => {
            let slept = matches!(detail, Some(Detail::WaitsIn { at: Some(_), .. }));
            awaited.wait == Wait::Lock && awaited.leaf == Leaf::Ran && !slept
        }
        source => [
            Interrupt,
            Nmi,
            OwnWork,
            PageFault,
            ReturnToUser,
            Softirq,
            SystemCall,
        ]
        .contains(&source.kind()),
    }
}

/// Returns the place of a wait, and the thread that ended it. Returns `None` for other shares, and if
/// the thread or the place is unknown.
fn wait_of<'a>(
    source: &'a Source,
    detail: Option<&'a Detail>,
) -> Option<(&'a Text, u64, Option<&'a Name>)> {
    let waker = match source {
        Source::Awaited(awaited) => Some(awaited.chain.first().filter(|name| name.pid.is_some())?),
        Source::OwnSleep | Source::Device(_) => None,
        Source::Unexplained(Unknown::NotRecorded {
            what: Missing::WokenBy,
            ..
        }) => None,
        Source::Unexplained(Unknown::NoWaker) => None,
        _ => return None,
    };
    match detail {
        Some(Detail::WaitsIn {
            call: Some(call),
            argument,
            ..
        }) => Some((call, *argument, waker)),
        Some(Detail::Counted {
            detail: Some(inner),
            ..
        }) => wait_of(source, Some(&**inner)),
        _ => None,
    }
}

/// Returns whether a share states only who or what ended the wait.
fn is_unknown(source: &Source) -> bool {
    match source {
        Source::Awaited(awaited) => matches!(awaited.leaf, Leaf::Unknown | Leaf::Asleep),
        Source::Unexplained(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::cause::{Awaited, Cause, Wait};
    use punctual_model::{Comm, Share, testing};

    fn waker(pid: u32) -> Name {
        Name {
            pid: Some(pid),
            comm: Comm::new(b"db"),
        }
    }

    fn place(argument: u64) -> Detail {
        Detail::WaitsIn {
            call: Some("futex".into()),
            argument,
            at: None,
        }
    }

    fn waits_for(pid: u32, leaf: Leaf) -> Source {
        Source::Awaited(Awaited {
            wait: Wait::Lock,
            chain: vec![waker(pid)],
            leaf,
        })
    }

    fn outlier(number: u64, light_stage: bool, shares: &[(Source, u64, u64)]) -> Outlier {
        let share = |(source, argument, us): &(Source, u64, u64)| {
            let cause = Cause::new(source.clone()).with(place(*argument));
            Share::new(cause, Nanos::from_micros(*us), 1)
        };
        let blame = testing::blame(shares.iter().map(share).collect());
        Outlier {
            number,
            time: testing::recording(1, 1).started,
            monotonic_ns: Nanos::ZERO,
            cpu: Some(0),
            thread: 0,
            latency_ns: blame.latency(),
            blame,
            light_stage,
        }
    }

    #[test]
    fn same_place_and_waker_are_alike() {
        let ran = || waits_for(20, Leaf::Ran);
        let outliers = [
            outlier(1, true, &[(waits_for(20, Leaf::Unknown), 0x5000, 900)]),
            outlier(
                2,
                false,
                &[(ran(), 0x5000, 500), (Source::UserSpace, 0, 90)],
            ),
            outlier(3, false, &[(waits_for(20, Leaf::Slept), 0x5000, 800)]),
            outlier(4, false, &[(ran(), 0x5000, 700)]),
            // Another place, another waker, and an outlier with another cause.
            outlier(5, false, &[(ran(), 0x6000, 700)]),
            outlier(6, false, &[(waits_for(21, Leaf::Ran), 0x5000, 700)]),
            outlier(
                7,
                false,
                &[(ran(), 0x5000, 100), (Source::UserSpace, 0, 900)],
            ),
        ];
        let expected = Resemblance {
            number: 1,
            outlier: 2,
            with_cause: 2,
            explained: 3,
            place: ResemblancePlace::Wait {
                call: "futex".into(),
                argument: 0x5000,
                waker: Some(waker(20)),
            },
        };
        assert_eq!(alike(&outliers), [expected]);
    }

    fn on_cpu() -> Source {
        Source::Unexplained(Unknown::NotRecorded {
            what: Missing::OnCpu,
            events: Vec::new(),
        })
    }

    #[test]
    fn outliers_on_the_cpu_are_alike() {
        let call = || Source::SystemCall("pwrite64".into());
        let light = outlier(1, true, &[(on_cpu(), 0, 1_000)]);
        let full = |number, source, us| outlier(number, false, &[(source, 0, us)]);
        // The full stage makes system calls longer.
        let others = [full(2, call(), 2_100), full(3, call(), 900)];
        let [first, second] = others.clone();
        let found = alike(&[light.clone(), first.clone(), second.clone()]);
        let expected = Resemblance {
            number: 1,
            outlier: 2,
            with_cause: 2,
            explained: 2,
            place: ResemblancePlace::OnCpu,
        };
        assert_eq!(found, [expected]);
        // One explained outlier, one that took longer, and one of another cause.
        assert_eq!(alike(&[light.clone(), first.clone()]), []);
        let longer = full(3, call(), 2_600);
        assert_eq!(alike(&[light.clone(), first.clone(), longer]), []);
        let other = full(4, Source::PageFault, 1_000);
        assert_eq!(alike(&[light.clone(), first.clone(), second, other]), []);
        // A thread that spins for a lock is on its CPU.
        let spun = |number| full(number, waits_for(20, Leaf::Ran), 1_000);
        assert_eq!(alike(&[light.clone(), spun(5), spun(6)])[0].explained, 2);
        let slept = |number| full(number, waits_for(20, Leaf::Slept), 1_000);
        assert_eq!(alike(&[light, slept(5), slept(6)]), []);
    }

    #[test]
    fn outliers_that_differ_are_not_alike() {
        let unknown = Source::Unexplained(Unknown::NotRecorded {
            what: Missing::WokenBy,
            events: Vec::new(),
        });
        let explained = outlier(1, false, &[(waits_for(20, Leaf::Ran), 0x5000, 500)]);
        for light in [
            outlier(2, true, &[(waits_for(20, Leaf::Unknown), 0x6000, 900)]),
            outlier(2, true, &[(waits_for(22, Leaf::Unknown), 0x5000, 900)]),
            // The waker is unknown, and there is only one explained wait.
            outlier(2, true, &[(unknown.clone(), 0x5000, 900)]),
            // Its cause is known.
            outlier(2, true, &[(waits_for(20, Leaf::Ran), 0x5000, 900)]),
            // The wait is not what took longest.
            outlier(
                2,
                true,
                &[
                    (waits_for(20, Leaf::Unknown), 0x5000, 300),
                    (Source::OwnWork, 0, 400),
                ],
            ),
        ] {
            assert!(alike(&[light, explained.clone()]).is_empty());
        }
        let other = outlier(3, false, &[(waits_for(20, Leaf::Ran), 0x5000, 600)]);
        let light = outlier(2, true, &[(unknown.clone(), 0x5000, 900)]);
        assert_eq!(alike(&[light, explained.clone(), other])[0].explained, 2);
        // Explained outliers are not compared with each other, nor those of the light stage.
        assert!(alike(&[explained.clone(), explained.clone()]).is_empty());
        let by_interrupt = [
            outlier(1, false, &[(Source::OwnSleep, 0x5000, 500)]),
            outlier(2, true, &[(unknown, 0x5000, 900)]),
        ];
        let place = ResemblancePlace::Wait {
            call: "futex".into(),
            argument: 0x5000,
            waker: None,
        };
        assert_eq!(alike(&by_interrupt)[0].place, place);
    }

    #[test]
    fn full_stage_makes_times_on_the_cpu_longer_within_limits() {
        let ns = |one: u64, other: u64| is_similar(Nanos(one), Nanos(other));
        // At most five quarters of the time in the full stage, and at least two fifths of it.
        assert!(ns(1_250, 1_000) && !ns(1_255, 1_000));
        assert!(ns(400, 1_000) && !ns(398, 1_000));
        assert!(ns(1_000, 2_500) && !ns(1_000, 2_505));
        assert!(ns(0, 0));
    }

    #[test]
    fn other_thread_or_a_shorter_part_is_not_alike() {
        let unknown = || waits_for(20, Leaf::Unknown);
        let ran = || waits_for(20, Leaf::Ran);
        let light = outlier(1, true, &[(unknown(), 0x5000, 900)]);
        let full = |shares: &[(Source, u64, u64)]| outlier(2, false, shares);
        let count = |light: &Outlier, other: Outlier| alike(&[light.clone(), other]).len();
        let mut elsewhere = full(&[(ran(), 0x5000, 500)]);
        assert_eq!(count(&light, elsewhere.clone()), 1);
        elsewhere.thread = 1;
        assert_eq!(count(&light, elsewhere), 0);
        // Shares at one place add up, and must take as long as any other.
        let with_other = |us| {
            full(&[
                (ran(), 0x5000, 300),
                (Source::UserSpace, 0, us),
                (waits_for(20, Leaf::Slept), 0x5000, 200),
            ])
        };
        assert_eq!(
            (
                count(&light, with_other(500)),
                count(&light, with_other(501))
            ),
            (1, 0)
        );
        // The number of the other outliers with the same cause is that of the most frequent one.
        let same = [
            light,
            outlier(2, false, &[(waits_for(20, Leaf::Slept), 0x5000, 500)]),
            outlier(3, false, &[(ran(), 0x5000, 500)]),
            outlier(4, false, &[(ran(), 0x5000, 500)]),
        ];
        let found = alike(&same);
        assert_eq!(
            (found[0].outlier, found[0].with_cause, found[0].explained),
            (3, 2, 3)
        );
    }
}
