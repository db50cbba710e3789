//! Outliers of the light stage whose wait is the same as that of an explained outlier.

use std::collections::BTreeMap;

use punctual_model::cause::{Detail, Leaf, Missing, Name, Source, Unknown};
use punctual_model::{Nanos, Outlier, Text};

/// The explained outlier that an outlier of the light stage resembles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alike {
    /// Number of the first explained outlier with the most frequent main cause.
    pub outlier: u64,
    /// Number of explained outliers with the same wait and this main cause.
    pub with_cause: u64,
    /// Number of explained outliers with the same wait.
    pub explained: u64,
    /// The system call of the wait.
    pub call: Text,
    /// Its first argument.
    pub argument: u64,
    /// The thread that ended both waits; `None` if an interrupt ended them.
    pub waker: Option<Name>,
}

/// The wait that took most of an outlier: its thread, its place, and the thread that ended it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Signature {
    thread: u32,
    call: Text,
    argument: u64,
    waker: Option<Name>,
}

/// Returns the explained outliers that those of the light stage resemble, by the number of the
/// latter. Only outliers whose longest share is a wait of unknown cause are compared.
pub fn alike(outliers: &[Outlier]) -> BTreeMap<u64, Alike> {
    let explained: Vec<(Signature, &Outlier)> = outliers
        .iter()
        .filter(|outlier| !outlier.light_stage)
        .filter_map(|outlier| Some((signature(outlier, false)?, outlier)))
        .collect();
    let in_light = outliers.iter().filter(|outlier| outlier.light_stage);
    in_light
        .filter_map(|outlier| {
            let signature = signature(outlier, true)?;
            let same = explained.iter().filter(|(other, _)| *other == signature);
            let same: Vec<&Outlier> = same.map(|(_, other)| *other).collect();
            Some((outlier.number, resembles(signature, &same)?))
        })
        .collect()
}

fn resembles(signature: Signature, same: &[&Outlier]) -> Option<Alike> {
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
    Some(Alike {
        outlier: first.number,
        with_cause: with_cause(first) as u64,
        explained: same.len() as u64,
        call: signature.call,
        argument: signature.argument,
        waker: signature.waker,
    })
}

/// Returns the wait that took the largest part of an outlier; `None` if something else took more.
/// `unknown`: whether its cause must be unknown, or must be known.
fn signature(outlier: &Outlier, unknown: bool) -> Option<Signature> {
    let mut waits: Vec<(Signature, Nanos)> = Vec::new();
    let mut other = Nanos::ZERO;
    for share in &outlier.blame.shares {
        let wait = wait_of(&share.cause.source, share.cause.detail.as_ref());
        let Some((call, argument, waker)) =
            wait.filter(|_| is_unknown(&share.cause.source) == unknown)
        else {
            other = other.max(share.ns);
            continue;
        };
        let signature = Signature {
            thread: outlier.thread,
            call: call.clone(),
            argument,
            waker: waker.cloned(),
        };
        match waits.iter_mut().find(|(known, _)| *known == signature) {
            Some((_, total)) => *total += share.ns,
            None => waits.push((signature, share.ns)),
        }
    }
    let longest = waits.into_iter().rev().max_by_key(|(_, total)| *total)?;
    (longest.1 >= other).then_some(longest.0)
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
        let found = alike(&outliers);
        assert_eq!(found.len(), 1);
        let expected = Alike {
            outlier: 2,
            with_cause: 2,
            explained: 3,
            call: "futex".into(),
            argument: 0x5000,
            waker: Some(waker(20)),
        };
        assert_eq!(found[&1], expected);
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
            // An interrupt ended the wait.
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
        // Explained outliers are not compared with each other, nor those of the light stage.
        assert!(alike(&[explained.clone(), explained.clone()]).is_empty());
        let by_interrupt = [
            outlier(1, false, &[(Source::OwnSleep, 0x5000, 500)]),
            outlier(2, true, &[(unknown, 0x5000, 900)]),
        ];
        assert_eq!(alike(&by_interrupt)[&2].waker, None);
    }
}
