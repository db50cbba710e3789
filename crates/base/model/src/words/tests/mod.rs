//! Tests of the words for causes. Each table has a line for each form of words.

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

#[test]
fn output_has_the_words_of_all_causes() {
    use crate::cause::{CauseSummary, Explanation, Outlier, Period};
    use crate::testing::blame;
    let blamed = || blame(vec![share(Source::Nmi, 9_000)]);
    let mut run = crate::testing::recording(1, 1);
    run.top_samples[0].blame = Some(blamed());
    let sample = run.top_samples[0].clone();
    run.explanation = Some(Explanation {
        outliers: vec![Outlier {
            number: 1,
            time: sample.time,
            monotonic_ns: Nanos(1),
            cpu: None,
            thread: 0,
            latency_ns: Nanos(9_000),
            blame: blamed(),
            light_stage: false,
        }],
        causes: vec![CauseSummary {
            source: Source::Softirq(3),
            count: 1,
            culprit_in: 1,
            late_only_by: None,
            total_ns: Nanos(1),
            max_ns: Nanos(1),
            max_outlier: 1,
            words: None,
        }],
        periods: vec![Period {
            source: Source::Nmi,
            period_ns: Nanos(1),
            tolerance_ns: Nanos(1),
            count: 1,
            missing: 0,
            words: None,
        }],
        ..Explanation::default()
    });
    let shown = run.in_words();
    let mut own = run.clone();
    own.put_into_words();
    assert_eq!(shown, own);
    let mut blame = blamed();
    blame.put_into_words();
    assert_eq!(shown.top_samples[0].blame, Some(blame.clone()));
    let explanation = shown.explanation.as_ref().unwrap();
    assert_eq!(explanation.outliers[0].blame, blame);
    assert_eq!(
        explanation.causes[0].words,
        Some(Source::Softirq(3).words())
    );
    assert_eq!(explanation.periods[0].words, Some(Source::Nmi.words()));
    // Words are never read back.
    let json = serde_json::to_string(&shown).unwrap();
    assert_eq!(crate::Recording::from_json(&json).unwrap(), run);
}
