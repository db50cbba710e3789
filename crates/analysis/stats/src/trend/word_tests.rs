//! Tests of the words and numbers that a trend is shown with.

use std::collections::BTreeMap;

use punctual_model::{CpuClass, Nanos, RecordingId};
use uuid::Uuid;

use super::sentence::sentence;
use super::*;

fn when(day: usize) -> Timestamp {
    format!("2026-11-{day:02}T07:00:00Z").parse().unwrap()
}

/// A group of this many runs with 2,000,000 due periods each, but the last one has fewer.
fn group(load: &str, runs: usize) -> Group {
    let run = |number: usize| RunFigures {
        recording: RecordingId(Uuid::from_u128(number as u128)),
        started: when(1 + number),
        due: if number + 1 == runs { 100 } else { 2_000_000 },
        above: None,
        unknown: 0,
        p50_ns: None,
        p99_ns: None,
        max_ns: None,
        complete: true,
    };
    Group {
        load: load.to_owned(),
        cpus: CpuClass::General,
        judged: runs >= 8,
        threshold_ns: None,
        thresholds_ns: Vec::new(),
        limit_ns: None,
        runs: (0..runs).map(run).collect(),
        changes: Vec::new(),
        drifts: Vec::new(),
        spikes: Vec::new(),
    }
}

fn change(followed: Followed, day: usize) -> ChangePoint {
    ChangePoint {
        id: String::new(),
        followed,
        threshold_ns: (followed == Followed::Tail).then_some(Nanos(310_000)),
        run: 0,
        recording: RecordingId(Uuid::from_u128(1)),
        at: when(day),
        earliest: when(day),
        latest: when(day),
        before: 2.0,
        after: 6.1,
        ratio: 1.36,
        low: 1.2,
        high: None,
        max_before_ns: None,
        max_after_ns: None,
        p: 0.001,
        p_wandering: 0.000_2,
        worse: true,
        stands: true,
        facts: Vec::new(),
        facts_within_runs: None,
        acknowledged: None,
    }
}

fn drifting(followed: Followed, worse: bool) -> Drifting {
    Drifting {
        followed,
        threshold_ns: (followed == Followed::Tail).then_some(Nanos(310_000)),
        run: 0,
        from: when(3),
        before: 2.0,
        after: 6.1,
        ratio: Some(if worse { 1.4 } else { 0.6 }),
        low: if worse { 1.25 } else { 0.5 },
        high: Some(if worse { 1.58 } else { 0.8 }),
        p: 0.01,
        worse,
        may_be_step: false,
    }
}

#[test]
fn numbers_have_at_most_three_digits() {
    for (value, text) in [
        (0.0, "0"),
        (0.004, "<0.01"),
        (0.01, "0.01"),
        (0.994, "0.99"),
        (0.995, "1.0"),
        (9.94, "9.9"),
        (9.95, "10"),
        (99.4, "99"),
        (99.5, "100"),
        (1_234.4, "1,234"),
    ] {
        assert_eq!(short(value), text, "{value}");
    }
}

#[test]
fn groups_are_named_by_load_and_cpus() {
    let named = |cpus| {
        Group {
            cpus,
            ..group("cpu+disk", 1)
        }
        .name()
    };
    assert_eq!(named(CpuClass::General), "cpu+disk");
    assert_eq!(named(CpuClass::Isolated), "cpu+disk, isolated CPUs");
    assert_eq!(named(CpuClass::Unbound), "cpu+disk, unbound threads");
    // 3 per million of a run with the median of 2,000,000 periods.
    assert_eq!(
        (group("idle", 9).a_run(3.0), group("idle", 0).a_run(3.0)),
        (6.0, 0.0)
    );
    assert_eq!(group("idle", 2).a_run(0.5), 1.0);
    let names = [Followed::Tail, Followed::P99, Followed::P50].map(|one| change(one, 1).what());
    assert_eq!(names, ["late > 310 µs", "p99", "p50"]);
    assert_eq!(drifting(Followed::Tail, true).what(), "late > 310 µs");
}

#[test]
fn verdicts_are_told_in_a_sentence() {
    let of = |verdict, groups: &[Group]| sentence(verdict, groups);
    assert_eq!(
        of(
            TrendVerdict::NotJudged,
            &[group("idle", 1), group("cpu", 7)]
        ),
        "not judged: 7 runs, but change points need 8 runs with the same load"
    );
    assert_eq!(
        of(TrendVerdict::NotJudged, &[group("idle", 1)]),
        "not judged: 1 run, but change points need 8 runs with the same load"
    );
    let mut first = group("idle", 12);
    assert_eq!(
        of(TrendVerdict::NoWorsening, std::slice::from_ref(&first)),
        "no open regressions: 0 change points, 0 spikes in 12 runs"
    );
    first.changes = vec![change(Followed::P99, 2); 2];
    first.spikes = vec![Spike {
        run: 1,
        recording: RecordingId(Uuid::from_u128(1)),
        at: when(1),
        max_ns: None,
        usual_max_ns: None,
        above: None,
        by_max: true,
        by_count: false,
    }];
    assert_eq!(
        of(TrendVerdict::NoWorsening, &[first.clone(), group("cpu", 3)]),
        "no open regressions: 2 change points, 1 spike in 12 runs; 1 group with too few runs"
    );
    let three = [first, group("cpu", 3), group("disk", 2)];
    let said = of(TrendVerdict::NoWorsening, &three);
    assert!(said.ends_with("; 2 groups with too few runs"), "{said}");
}

#[test]
fn newest_open_worsening_is_told() {
    let mut idle = group("idle", 12);
    idle.changes = vec![change(Followed::P99, 5)];
    let of = |groups: &[Group]| sentence(TrendVerdict::Worse, groups);
    assert_eq!(
        of(std::slice::from_ref(&idle)),
        "worse since 2026-11-05: p99 is 36% higher, load idle"
    );
    let mut cpu = group("cpu", 12);
    cpu.changes = vec![change(Followed::P50, 2), change(Followed::Tail, 9)];
    let tail = "worse since 2026-11-09: 12 periods above 310 µs a run, before 4.0, load cpu";
    assert_eq!(
        of(&[idle.clone(), cpu.clone()]),
        format!("{tail} (3 worsenings in all)")
    );
    // What is over, known or an improvement is not told.
    cpu.changes[0].worse = false;
    idle.changes[0].stands = false;
    assert_eq!(of(&[idle.clone(), cpu.clone()]), tail);
    idle.changes[0].stands = true;
    idle.changes[0].acknowledged = Some(Acknowledgement {
        load: String::new(),
        cpus: CpuClass::General,
        followed: Followed::P99,
        worse: true,
        recording: RecordingId(Uuid::from_u128(1)),
        at: when(1),
        who: String::new(),
        why: String::new(),
    });
    assert_eq!(of(&[idle, cpu]), tail);
}

#[test]
fn surest_drift_is_told() {
    let mut idle = group("idle", 12);
    idle.drifts = vec![
        drifting(Followed::P99, true),
        drifting(Followed::P50, false),
    ];
    let of = |groups: &[Group]| sentence(TrendVerdict::Drifting, groups);
    let p99 = "no open step regressions, but a drift since 2026-11-03: p99 rises slowly, by 40% (25% \
               to 58%), load idle";
    assert_eq!(of(std::slice::from_ref(&idle)), p99);
    let mut cpu = group("cpu", 12);
    let surer = Drifting {
        p: 0.002,
        may_be_step: true,
        ..drifting(Followed::Tail, true)
    };
    cpu.drifts = vec![surer];
    assert_eq!(
        of(&[idle, cpu]),
        "no open step regressions, but a change since 2026-11-03: the number of periods above 310 µs \
         per run has risen, slowly or in a step, from 4.0 to 12, load cpu (2 drifts in all)"
    );
}

#[test]
fn drifts_are_told_from_the_smallest_to_the_largest() {
    let group = group("idle", 9);
    let of = |drift: Drifting| drift.sentence(&group);
    let falls = drifting(Followed::P50, false);
    assert_eq!(of(falls.clone()), "p50 falls slowly, by 40% (20% to 50%)");
    let step = Drifting {
        may_be_step: true,
        ..falls
    };
    assert_eq!(
        of(step),
        "p50 has fallen, slowly or in a step, by 40% (20% to 50%)"
    );
    let unbounded = Drifting {
        high: None,
        ratio: None,
        ..drifting(Followed::P99, true)
    };
    assert_eq!(of(unbounded), "p99 rises slowly, by any (25% to any)");
}

#[test]
fn chance_counts_all_followed_figures() {
    let thresholds = |number: u64| Group {
        thresholds_ns: (0..number).map(Nanos).collect(),
        ..group("idle", 9)
    };
    let trend = Trend {
        groups: vec![thresholds(3), thresholds(0)],
        ..judge(&[], Question::default())
    };
    // Three thresholds, and p50 and p99 of both groups.
    let found = trend.p_of_any(&change(Followed::P99, 2));
    assert!((found - 7.0 * 0.000_2).abs() < 1e-12, "{found}");
    let followed = [true, false].map(|stands| ChangePoint {
        stands,
        ..change(Followed::P99, 2)
    });
    assert_eq!(followed.map(|one| one.is_open_worsening()), [true, false]);
}

#[test]
fn differences_of_facts_are_told() {
    let difference = |before: Option<&str>, after: Option<&str>| FactDifference {
        fact: "kernel.preempt_model".to_owned(),
        before: before.map(str::to_owned),
        after: after.map(str::to_owned),
        added: Vec::new(),
        removed: Vec::new(),
    };
    let said = |before, after| difference(before, after).sentence();
    assert_eq!(
        said(Some("full"), Some("rt")),
        "kernel preempt model: full → rt"
    );
    assert_eq!(
        said(Some(""), None),
        "kernel preempt model: empty → unknown"
    );
    let words = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let both = FactDifference {
        added: words(&["quiet", "nohz=on"]),
        removed: words(&["splash"]),
        ..difference(None, None)
    };
    assert_eq!(
        both.sentence(),
        "kernel preempt model: quiet nohz=on added, splash removed"
    );
    let facts = |line: &str| -> Facts {
        BTreeMap::from([("kernel.command_line".to_owned(), Some(line.to_owned()))])
    };
    let found = difference_of(&facts("ro quiet a=1"), &facts("ro a=2 quiet"));
    assert_eq!(
        (found.added, found.removed),
        (words(&["a=2"]), words(&["a=1"]))
    );
}

fn difference_of(before: &Facts, after: &Facts) -> FactDifference {
    super::difference(before, after).remove(0)
}

/// Runs of other loads, of other CPUs and before the first run of the group are left out.
#[test]
fn runs_of_a_group_are_picked_in_order() {
    let run = |number: usize, load: &str, cpus| Run {
        recording: RecordingId(Uuid::from_u128(number as u128)),
        started: when(1 + number),
        load: load.to_owned(),
        cpus,
        ..Run::bare()
    };
    let general = CpuClass::General;
    let all = [
        run(5, "idle", general),
        run(3, "idle", general),
        run(4, "cpu", general),
        run(6, "idle", CpuClass::Isolated),
        run(1, "idle", general),
    ];
    let mut own = group("idle", 4);
    own.runs.drain(..2);
    let picked: Vec<&Run> = own.pick(&all);
    assert_eq!(picked, [&all[1], &all[0]]);
    own.runs.clear();
    assert!(own.pick(&all).is_empty());
    // Runs without load come first. The trend spans all groups.
    let trend = judge(&all, Question::default());
    let names: Vec<String> = trend.groups.iter().map(Group::name).collect();
    assert_eq!(names, ["idle", "idle, isolated CPUs", "cpu"]);
    assert_eq!((trend.from, trend.to), (Some(when(2)), Some(when(7))));
    let asked = TrendQuery {
        since: Some(when(4)),
        ..TrendQuery::default()
    };
    let trend = judge(
        &all,
        Question {
            asked,
            ..Question::default()
        },
    );
    assert_eq!((trend.from, trend.to), (Some(when(4)), Some(when(7))));
    assert_eq!(trend.groups[0].runs.len(), 2);
}

/// Each fact that is known for both recordings is equal, differs, or is unknown to one of them.
#[test]
fn facts_of_two_recordings_are_counted() {
    let before = punctual_model::testing::recording(2, 1);
    let mut after = before.clone();
    let known = |facts: &Facts| facts.values().flatten().count();
    // The host has three configuration options.
    let all = known(&facts_of(&before.host)) + known(&measured_how(&before)) + 3;
    let same = facts_differ(&before, &after);
    assert_eq!((same.equal, same.differences.len()), (all, 0));
    assert!(
        same.not_known.contains(&"audit".to_owned()),
        "{:?}",
        same.not_known
    );
    after.probe.program = "punctual 0.2.0".to_owned();
    after.tune = Some("control".to_owned());
    after.host.kernel.release = punctual_model::Fact::unknown("", "not there");
    let found = facts_differ(&before, &after);
    let names: Vec<&str> = found
        .differences
        .iter()
        .map(|one| one.fact.as_str())
        .collect();
    let mut unknown = same.not_known.clone();
    unknown.push("kernel.release".to_owned());
    unknown.sort();
    // The tune is known for one recording only.
    assert_eq!(names, ["measurement.program"]);
    assert_eq!((found.equal, found.not_known), (all - 2, unknown));
    let settings = measured_how(&after);
    let setting = |name: &str| settings[name].as_deref();
    assert_eq!(setting("measurement.probe"), Some("timer"));
    assert_eq!(setting("measurement.program"), Some("punctual 0.2.0"));
    assert_eq!(setting("measurement.tune"), Some("control"));
    assert_eq!(setting("measurement.interval"), Some("1.00 ms"));
    assert!(setting("measurement.policy_and_priority").is_some());
}
