//! Tests of what is said about causes. Each table has a line for each form of words.

mod details;
mod gaps;
mod sentences;
mod shares;
mod sources;

use crate::cause::{Awaited, Cause, Detail, Leaf, Limit, Name, Rank, Role, Source, Wait};

use crate::{Comm, KernelPriority, Nanos, Share, Task};

fn task(pid: u32, name: &str, prio: i16) -> Task {
    Task {
        pid,
        comm: Comm::new(name.as_bytes()),
        prio: KernelPriority(prio),
    }
}

fn name(pid: u32, comm: &str) -> Name {
    Name::from(&task(pid, comm, 120))
}

fn low() -> Name {
    name(12, "low")
}

fn awaited(wait: Wait, leaf: Leaf) -> Awaited {
    Awaited {
        wait,
        chain: vec![low(), name(13, "mid")],
        leaf,
    }
}

fn share(source: Source, ns: u64) -> Share {
    Share::new(Cause::new(source), Nanos(ns), 1)
}

#[test]
fn lower_priority_is_never_unknown_priority() {
    let task = Task {
        pid: 7,
        prio: KernelPriority::UNKNOWN,
        ..Task::default()
    };
    let words = |role| {
        Cause::thread(role, &task)
            .with(Detail::Rank(Rank::from(&task)))
            .detail()
    };
    let blocking = words(Role::Blocking).unwrap();
    assert_eq!(blocking, "due for preemption, priority not recorded");
    assert_eq!(words(Role::Unranked).unwrap(), "of unknown priority");
}

#[test]
fn throttled_time_names_its_limit() {
    for (limit, words) in [
        (Limit::DeadlineBudget, "budget of SCHED_DEADLINE"),
        (Limit::RealTime, "real-time throttling"),
        (Limit::FairServer, "deadline server"),
        (Limit::Quota(None), "quota of a control group"),
        (Limit::Quota(Some("/motion".to_owned())), "quota of /motion"),
    ] {
        let label = Source::Throttled(limit).label();
        assert!(label.contains(words), "{label}");
    }
}
