use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use punctual_model::{
    CpuClass, Fact, FindingState, Nanos, Recording, RecordingId, Severity, StoredAudit,
    StoredFinding, testing,
};
use uuid::Uuid;

use super::*;

pub(super) const PLAIN: &str = "root=/dev/sda1";
const LIMITED: &str = "root=/dev/sda1 processor.max_cstate=1";

fn when(number: usize) -> Timestamp {
    let first: Timestamp = "2026-03-01T07:10:00Z".parse().unwrap();
    first + SignedDuration::from_hours(12 * number as i64)
}

/// About 50 late periods between `max_us`/2 and `max_us`.
pub(super) fn run(number: usize, max_us: u64, facts: &Arc<Facts>, random: &mut Rng) -> Run {
    let mut rows: BTreeMap<u64, u64> = BTreeMap::from([(4_000, 5_000), (5_000, 4_900)]);
    for _ in 0..random.u64(40..60) {
        *rows
            .entry(max_us * random.u64(500..1_000) / 1_000 * 1_000)
            .or_default() += 1;
    }
    let due = rows.values().sum();
    Run {
        recording: RecordingId(Uuid::from_u128(number as u128 + 1)),
        started: when(number),
        load: "idle".to_owned(),
        cpus: CpuClass::General,
        max: rows.keys().last().map(|lower| Nanos(*lower)),
        rows: rows.into_iter().collect(),
        due,
        unknown: 0,
        p50: Some(Nanos(4_500)),
        p99: Some(Nanos(5_000 + number as u64 % 7)),
        limit: None,
        complete: true,
        facts: Arc::clone(facts),
    }
}

pub(super) fn facts(command_line: &str) -> Arc<Facts> {
    let known = |text: &str| Some(text.to_owned());
    Arc::new(BTreeMap::from([
        ("kernel.command_line".to_owned(), known(command_line)),
        ("kernel.release".to_owned(), known("6.12.9-rt")),
        ("cpu.governor".to_owned(), None),
    ]))
}

/// Runs with a lower maximum in these periods, and with another command line.
fn made_up(runs: usize, periods: &[(usize, usize)]) -> Vec<Run> {
    let mut random = Rng::with_seed(5);
    let [plain, limited] = [PLAIN, LIMITED].map(facts);
    (0..runs)
        .map(|number| {
            if periods
                .iter()
                .any(|&(from, to)| (from..to).contains(&number))
            {
                run(number, 200, &limited, &mut random)
            } else {
                run(number, 300, &plain, &mut random)
            }
        })
        .collect()
}

pub(super) fn question() -> Question {
    Question {
        series: "osadl".to_owned(),
        ..Question::default()
    }
}

#[test]
fn the_parameter_is_named_at_each_change() {
    let trend = judge(&made_up(224, &[(60, 100), (150, 190)]), question());
    let [group] = trend.groups.as_slice() else {
        panic!("{trend:?}");
    };
    let found: Vec<usize> = group.changes.iter().map(|change| change.run).collect();
    assert_eq!(found, [60, 100, 150, 190], "{:#?}", group.changes);
    for (number, change) in group.changes.iter().enumerate() {
        let [fact] = change.facts.as_slice() else {
            panic!("{change:?}");
        };
        assert_eq!((fact.runs_away, fact.times), (0, 1), "{change:?}");
        let words = if number % 2 == 0 {
            &fact.difference.added
        } else {
            &fact.difference.removed
        };
        assert_eq!(words, &["processor.max_cstate=1"], "{change:?}");
        assert_eq!(change.worse, number % 2 == 1);
    }
    // A person acknowledges a change by its ID, which names the recording.
    let ids: std::collections::BTreeSet<_> = group.changes.iter().map(|one| &one.id).collect();
    assert_eq!(ids.len(), 4, "{ids:?}");
    for change in &group.changes {
        let recording = format!("{}-", change.recording.short());
        assert!(change.id.starts_with(&recording), "{change:?}");
    }
    // The last regression remains, and the one before it is over.
    let standing: Vec<bool> = group.changes.iter().map(|change| change.stands).collect();
    assert_eq!(standing, [false, false, false, true]);
    assert_eq!(trend.verdict, TrendVerdict::Worse);
    assert_eq!(trend.facts.len(), 4);
    assert!(trend.sentence.contains("2026-06-04"), "{}", trend.sentence);
}

/// The number of late periods in a million rises from two to twelve. The rest stays the same.
fn rare(runs: usize, step: usize) -> Vec<Run> {
    let mut random = Rng::with_seed(3);
    let same = facts(PLAIN);
    let each = (0..runs).map(|number| {
        let mut rows = BTreeMap::from([(4_000, 600_000), (5_000, 398_000)]);
        let late = if number < step {
            1 + random.u64(0..3)
        } else {
            10 + random.u64(0..5)
        };
        for _ in 0..2_000 {
            *rows.entry(6_000 + random.u64(0..20) * 1_000).or_default() += 1;
        }
        for _ in 0..late {
            *rows
                .entry(100_000 + random.u64(0..200) * 1_000)
                .or_default() += 1;
        }
        Run {
            due: rows.values().sum(),
            max: rows.keys().last().map(|lower| Nanos(*lower)),
            p99: Some(Nanos(5_000)),
            rows: rows.into_iter().collect(),
            ..run(number, 300, &same, &mut random)
        }
    });
    each.collect()
}

#[test]
fn rise_of_rare_lateness_is_found() {
    let runs = rare(80, 40);
    let trend = judge(&runs, question());
    let group = &trend.groups[0];
    // The fifth highest latency of a run is in the bulk.
    assert!(group.threshold_ns.unwrap() < Nanos(50_000), "{group:?}");
    assert_eq!(trend.verdict, TrendVerdict::Worse, "{}", trend.sentence);
    let worse: Vec<&ChangePoint> = group.changes.iter().filter(|one| one.worse).collect();
    let [change] = worse.as_slice() else {
        panic!("{worse:#?}");
    };
    assert_eq!(change.run, 40);
    assert!(change.threshold_ns.unwrap() >= Nanos(50_000), "{change:?}");
    assert!(
        trend.sentence.contains("12 periods above"),
        "{}",
        trend.sentence
    );
    // The limit of the requirement is one of the thresholds.
    let mut limited = rare(80, 40);
    limited
        .iter_mut()
        .for_each(|run| run.limit = Some(Nanos(130_000)));
    let trend = judge(&limited, question());
    assert!(
        trend.groups[0].thresholds_ns.contains(&Nanos(130_000)),
        "{trend:?}"
    );
    let calm = judge(&rare(80, 80), question());
    assert_eq!(calm.verdict, TrendVerdict::NoWorsening, "{}", calm.sentence);
}

/// Facts near a step at run 40: one fact changed at that run, one a run later and one long before.
/// Another fact was unknown around that run.
#[test]
fn causes_are_listed_by_their_distance() {
    let mut runs = rare(80, 40);
    let value = |number: usize, from: usize| Some(format!("{}", u8::from(number >= from)));
    for (number, run) in runs.iter_mut().enumerate() {
        run.facts = Arc::new(BTreeMap::from([
            ("cpu.there".to_owned(), value(number, 40)),
            ("cpu.after".to_owned(), value(number, 41)),
            ("cpu.long_before".to_owned(), value(number, 20)),
            (
                "cpu.unknown".to_owned(),
                value(number, 40).filter(|_| !(37..=42).contains(&number)),
            ),
        ]));
    }
    let trend = judge(&runs, question());
    let change = &trend.groups[0].changes[0];
    let near: Vec<(&str, i64)> = (change.facts.iter())
        .map(|fact| (fact.difference.fact.as_str(), fact.runs_away))
        .collect();
    let expected = [("cpu.there", 0), ("cpu.unknown", 0), ("cpu.after", 1)];
    assert_eq!(near, expected, "{change:#?}");
    assert!(
        change.facts[2].sentence().ends_with(", 1 run after"),
        "{change:?}"
    );
    // Each change counts as a change of facts, even across a gap.
    assert_eq!(trend.facts.len(), 4);
}

#[test]
fn absence_of_changed_facts_is_reported() {
    let within = |runs: &[Run]| {
        let trend = judge(runs, question());
        let change = trend.groups[0].changes[0].clone();
        (change.facts.len(), change.facts_within_runs)
    };
    let mut runs = rare(80, 40);
    assert_eq!(within(&runs), (0, Some(8)));
    let unknown = Arc::new(BTreeMap::from([("kernel.release".to_owned(), None)]));
    runs[..40]
        .iter_mut()
        .for_each(|run| run.facts = Arc::clone(&unknown));
    assert_eq!(within(&runs), (0, None));
}

/// p99 rises by half within 100 runs. This is not a step, but the verdict is not good either.
#[test]
fn drift_is_neither_step_nor_fine() {
    let mut runs = made_up(100, &[]);
    for (number, run) in runs.iter_mut().enumerate() {
        run.p99 = run.p99.map(|p99| Nanos(p99.0 + 25 * number as u64));
    }
    let trend = judge(&runs, question());
    assert_eq!(trend.verdict, TrendVerdict::Drifting, "{}", trend.sentence);
    let group = &trend.groups[0];
    assert!(group.changes.is_empty(), "{:?}", group.changes);
    let [drift] = group.drifts.as_slice() else {
        panic!("{:?}", group.drifts);
    };
    assert!(drift.worse && drift.followed == Followed::P99, "{drift:?}");
    assert!((1.4..1.6).contains(&drift.ratio.unwrap()), "{drift:?}");
    assert!(
        trend.sentence.contains("p99 rises slowly, by"),
        "{}",
        trend.sentence
    );
    // A downward drift is not a regression.
    for run in &mut runs {
        run.p99 = run.p99.map(|p99| Nanos(40_000_000 / p99.0));
    }
    let falling = judge(&runs, question());
    assert_eq!(falling.verdict, TrendVerdict::NoWorsening);
    assert!(!falling.groups[0].drifts[0].worse);
}

#[test]
fn an_improvement_is_no_worsening() {
    let trend = judge(&made_up(80, &[(40, 80)]), question());
    assert_eq!(trend.verdict, TrendVerdict::NoWorsening);
    assert_eq!(trend.groups[0].changes.len(), 1);
    // A regression that is over does not remain.
    let trend = judge(&made_up(120, &[(0, 40), (80, 120)]), question());
    let worse: Vec<&ChangePoint> = trend.groups[0]
        .changes
        .iter()
        .filter(|change| change.worse)
        .collect();
    assert!(
        !worse.is_empty() && worse.iter().all(|change| !change.stands),
        "{worse:#?}"
    );
    assert_eq!(trend.verdict, TrendVerdict::NoWorsening);
}

#[test]
fn an_acknowledged_worsening_is_known() {
    let runs = made_up(80, &[(0, 40)]);
    let open = judge(&runs, question());
    assert_eq!(open.verdict, TrendVerdict::Worse);
    let change = &open.groups[0].changes[0];
    let known = |at: usize, worse: bool| Acknowledgement {
        load: "idle".to_owned(),
        cpus: CpuClass::General,
        followed: change.followed,
        worse,
        recording: runs[at].recording,
        at: runs[at].started,
        who: "ada".to_owned(),
        why: "new board".to_owned(),
    };
    let with = |known: Acknowledgement| {
        let acknowledged = vec![known];
        judge(
            &runs,
            Question {
                acknowledged,
                ..question()
            },
        )
        .verdict
    };
    assert_eq!(with(known(40, true)), TrendVerdict::NoWorsening);
    // The change point may have moved by some runs, but not by many.
    assert_eq!(with(known(43, true)), TrendVerdict::NoWorsening);
    assert_eq!(with(known(52, true)), TrendVerdict::Worse);
    assert_eq!(with(known(40, false)), TrendVerdict::Worse);
}

#[test]
fn few_runs_are_not_judged() {
    let trend = judge(&made_up(7, &[]), question());
    assert_eq!(trend.verdict, TrendVerdict::NotJudged);
    assert!(
        !trend.groups[0].judged && trend.sentence.contains("7 runs"),
        "{}",
        trend.sentence
    );
    assert_eq!(judge(&[], question()).verdict, TrendVerdict::NotJudged);
}

#[test]
fn half_of_the_runs_exceed_the_threshold() {
    let runs = made_up(30, &[]);
    let trend = judge(&runs, question());
    let threshold = trend.groups[0].threshold_ns.unwrap();
    let above = runs.iter().filter(|run| run.above(threshold) >= 5).count();
    assert!(above * 2 >= runs.len(), "{threshold}: {above}");
    assert!(threshold > runs[0].p99.unwrap());
    let asked = Some(Nanos(290_000));
    let trend = judge(
        &runs,
        Question {
            asked: TrendQuery {
                threshold_ns: asked,
                ..TrendQuery::default()
            },
            ..question()
        },
    );
    assert_eq!(trend.groups[0].threshold_ns, asked);
}

#[test]
fn a_lone_maximum_is_listed_apart() {
    let mut runs = made_up(100, &[]);
    let lone = runs[30].rows.iter().chain([(2_000_000, 1)]);
    runs[30].rows = lone.collect();
    runs[30].max = Some(Nanos(2_000_000));
    let trend = judge(&runs, question());
    let group = &trend.groups[0];
    assert!(group.changes.is_empty(), "{:?}", group.changes);
    let [spike] = group.spikes.as_slice() else {
        panic!("{:?}", group.spikes);
    };
    assert!(
        spike.run == 30 && spike.by_max && !spike.by_count,
        "{spike:?}"
    );
}

#[test]
fn loads_are_kept_apart() {
    let mut runs = made_up(40, &[]);
    for run in runs.iter_mut().skip(1).step_by(2) {
        run.load = "cpu".to_owned();
        run.p99 = Some(Nanos(50_000));
    }
    let trend = judge(&runs, question());
    let names: Vec<String> = trend.groups.iter().map(Group::name).collect();
    assert_eq!(names, ["idle", "cpu"]);
    assert!(trend.groups.iter().all(|group| group.changes.is_empty()));
    assert_eq!(trend.groups[1].pick(&runs).len(), 20);
    let since = Some(when(30));
    let later = judge(
        &runs,
        Question {
            asked: TrendQuery {
                since,
                ..TrendQuery::default()
            },
            ..question()
        },
    );
    assert_eq!(later.groups[0].runs.len(), 5);
    assert_eq!(later.groups[0].pick(&runs).len(), 5);
}

#[test]
fn words_of_a_command_line_are_compared() {
    let [before, after] = [PLAIN, LIMITED].map(facts);
    let found = difference(&before, &after);
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].sentence(),
        "kernel command line: processor.max_cstate=1 added"
    );
    // An unknown value is not a difference.
    let unknown: Facts = before.keys().map(|name| (name.clone(), None)).collect();
    assert_eq!(difference(&before, &unknown), []);
}

fn with_audit(title: &str) -> Recording {
    let mut recording = testing::recording(1, 1);
    let finding = |id: &str, state| StoredFinding {
        id: id.to_owned(),
        state,
        severity: Severity::High,
        title: title.to_owned(),
        reason: None,
    };
    recording.audit = Some(StoredAudit {
        role: "control".to_owned(),
        cpus: "1".parse().unwrap(),
        findings: vec![
            finding("memory-swappiness", FindingState::Fail),
            finding("firmware-smi", FindingState::Unknown),
        ],
        ok: 4,
        not_applicable: 2,
    });
    recording
}

fn differing(a: &Recording, b: &Recording) -> Vec<(String, String, String)> {
    let text = |value: Option<String>| value.unwrap();
    let found = facts_differ(a, b).differences.into_iter();
    found
        .map(|one| (one.fact, text(one.before), text(one.after)))
        .collect()
}

#[test]
fn differing_options_and_findings_are_paired() {
    let before = with_audit("swappiness is 60");
    assert_eq!(differing(&before, &before), []);
    let mut after = before.clone();
    let kernel = &mut after.host.kernel;
    kernel.configuration = Fact::known("0".repeat(16), "kernel configuration");
    kernel.options.remove("PREEMPT_RT");
    kernel.options.insert("HZ".to_owned(), "250".to_owned());
    after.audit.as_mut().unwrap().findings.remove(0);
    let row = |fact: &str, before: &str, after: &str| {
        (fact.to_owned(), before.to_owned(), after.to_owned())
    };
    let found = differing(&before, &after);
    for expected in [
        row("CONFIG_HZ", "1000", "250"),
        row("CONFIG_PREEMPT_RT", "y", "not set"),
        row(
            "audit.memory-swappiness",
            "fail: swappiness is 60",
            "ok or not applicable",
        ),
        row(
            "kernel.configuration",
            "9c1f0a7be3d25846",
            "0000000000000000",
        ),
    ] {
        assert!(found.contains(&expected), "{expected:?} {found:?}");
    }
    assert_eq!(found.len(), 4, "{found:?}");
    let not_known = facts_differ(&before, &after).not_known;
    assert!(
        not_known.contains(&"audit.firmware-smi".to_owned()),
        "{not_known:?}"
    );
}

#[test]
fn fact_unknown_to_side_is_no_difference() {
    let before = with_audit("swappiness is 60");
    let mut after = before.clone();
    after.audit = None;
    after.host.kernel.configuration = Fact::unknown("kernel configuration", "not there");
    after.host.kernel.options.clear();
    assert_eq!(differing(&before, &after), []);
    let not_known = facts_differ(&before, &after).not_known;
    for name in ["audit", "kernel.configuration"] {
        assert!(not_known.contains(&name.to_owned()), "{not_known:?}");
    }
    assert!(
        !not_known.iter().any(|name| name.starts_with(OPTION)),
        "{not_known:?}"
    );
}
