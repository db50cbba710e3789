use std::sync::Arc;

use punctual_model::RecordingId;

use super::*;

/// A run with these figures, in ns. The largest latency is the last row.
fn run(number: usize, p99: Option<u64>, rows: &[(u64, u64)]) -> Run {
    Run {
        recording: RecordingId(uuid::Uuid::from_u128(number as u128)),
        started: jiff::Timestamp::from_second(number as i64).unwrap(),
        load: "idle".to_owned(),
        cpus: CpuClass::General,
        rows: rows.iter().copied().collect(),
        due: rows.iter().map(|row| row.1).sum(),
        unknown: 3,
        p50: Some(Nanos(500)),
        p99: p99.map(Nanos),
        max: rows.last().map(|row| Nanos(row.0)),
        limit: Some(Nanos(9_000)),
        complete: true,
        facts: Arc::default(),
    }
}

fn of(runs: &[Run], asked: u64) -> Followings<'_> {
    Followings::new(runs.iter().collect(), Some(Nanos(asked)))
}

fn step(at: usize, ratio: f64, interval: (f64, f64)) -> Step {
    Step {
        at,
        earliest: at - 1,
        latest: at + 2,
        ratio,
        interval,
        p: 0.001,
        p_wandering: 0.000_5,
    }
}

#[test]
fn small_changes_are_not_material() {
    for (ratio, figure, tail) in [
        (1.0, false, false),
        (1.009, false, false),
        (1.011, false, true),
        (1.09, false, true),
        (1.1, true, true),
        (0.995, false, false),
        (0.985, false, true),
        (0.95, false, true),
        (0.9, true, true),
        (f64::INFINITY, true, true),
    ] {
        assert_eq!(
            (is_material(ratio, false), is_material(ratio, true)),
            (figure, tail),
            "{ratio}"
        );
    }
}

#[test]
fn level_is_a_rate_or_a_median() {
    let counts = Values::Counts(vec![(1, 100), (3, 300), (8, 400), (0, 0)]);
    assert_eq!(
        [level(&counts, 0, 2), level(&counts, 1, 3)],
        [10_000.0, 11e6 / 700.0]
    );
    assert_eq!((level(&counts, 3, 4), level(&counts, 2, 2)), (0.0, 0.0));
    let figures = Values::Figures(vec![5.0, 1.0, 3.0, 9.0]);
    assert_eq!([level(&figures, 0, 3), level(&figures, 1, 3)], [3.0, 2.0]);
}

/// Latencies of 20 runs: the largest is 900 in the first half, and 1,200 from run 10 on.
#[test]
fn change_point_has_the_levels_on_both_sides() {
    let runs: Vec<Run> = (0..20)
        .map(|number| {
            let (late, high) = if number < 10 { (2, 900) } else { (6, 1_200) };
            run(
                number,
                Some(700),
                &[(400, 1_000 - late), (high + number as u64, late)],
            )
        })
        .collect();
    let all = of(&runs, 600);
    let member = &all.families[0][0];
    let found = all.change(member, &[step(10, 3.0, (2.0, 4.5))], 0);
    assert_eq!((found.before, found.after), (2_000.0, 6_000.0));
    assert_eq!(
        (found.run, found.recording, found.at),
        (10, runs[10].recording, runs[10].started)
    );
    assert_eq!(
        (found.earliest, found.latest),
        (runs[9].started, runs[12].started)
    );
    assert_eq!((found.ratio, found.low, found.high), (3.0, 2.0, Some(4.5)));
    assert_eq!((found.p, found.p_wandering), (0.001, 0.000_5));
    assert!(found.worse && found.stands);
    // The lower median of each side.
    let maxima = [found.max_before_ns, found.max_after_ns].map(|max| max.unwrap().0);
    assert_eq!(maxima, [904, 1_214]);
    let unbounded = all.change(member, &[step(10, 3.0, (2.0, f64::INFINITY))], 0);
    assert_eq!(unbounded.high, None);
    let better = all.change(member, &[step(10, 3.0, (2.0, 4.5))], 0);
    assert_eq!(
        (better.followed, better.threshold_ns),
        (Followed::Tail, Some(Nanos(600)))
    );
    let shown: Vec<u64> = all.values()[0]
        .iter()
        .map(|values| values.len() as u64)
        .collect();
    assert_eq!((shown, all.values().len()), (vec![20], 3));
}

/// Levels of p99: 100, then 400, then another one. The middle between both is 200.
#[test]
fn step_stands_until_the_level_is_back() {
    let stands = |levels: [u64; 3]| {
        let p99 = |number: usize| Some(levels[number / 8]);
        let runs: Vec<Run> = (0..24)
            .map(|number| run(number, p99(number), &[(50, 9)]))
            .collect();
        let all = of(&runs, 600);
        let steps = [step(8, 4.0, (2.0, 8.0)), step(16, 0.5, (0.2, 0.9))];
        let found = all.change(&all.families[1][0], &steps, 0);
        assert_eq!(
            (found.before, found.after),
            (levels[0] as f64, levels[1] as f64)
        );
        assert_eq!(found.worse, levels[1] > levels[0]);
        assert!(all.change(&all.families[1][0], &steps, 1).stands);
        found.stands
    };
    assert!(stands([100, 400, 201]) && stands([100, 400, 900]) && !stands([100, 400, 199]));
    assert!(stands([400, 100, 199]) && stands([400, 100, 20]) && !stands([400, 100, 201]));
}

/// Only every second run has a p99, so the places of its series are not those of the runs.
#[test]
fn runs_without_the_figure_are_skipped() {
    let p99 = |number: usize| {
        number
            .is_multiple_of(2)
            .then_some(100 + 300 * u64::from(number >= 20))
    };
    let runs: Vec<Run> = (0..40)
        .map(|number| run(number, p99(number), &[(number as u64, 1)]))
        .collect();
    let all = of(&runs, 600);
    let member = &all.families[1][0];
    assert_eq!((member.values.len(), member.places[3]), (20, 6));
    let found = all.change(member, &[step(10, 4.0, (2.0, 8.0))], 0);
    assert_eq!(
        (found.run, found.earliest, found.latest),
        (20, runs[18].started, runs[24].started)
    );
    assert_eq!((found.before, found.after), (100.0, 400.0));
    let maxima = [found.max_before_ns, found.max_after_ns].map(|max| max.unwrap().0);
    assert_eq!(maxima, [9, 29]);
}

fn change(run: usize, worse: bool, low: f64, high: Option<f64>) -> ChangePoint {
    let runs: Vec<Run> = (0..30)
        .map(|number| self::run(number, None, &[(5, 1)]))
        .collect();
    let all = of(&runs, 600);
    let step = step(run, 2.0, (low, high.unwrap_or(f64::INFINITY)));
    ChangePoint {
        worse,
        ..all.change(&all.families[0][0], &[step], 0)
    }
}

#[test]
fn one_step_above_several_thresholds_is_one_change_point() {
    let kept = |found: Vec<ChangePoint>| -> Vec<(usize, f64)> {
        plainest(found)
            .iter()
            .map(|one| (one.run, one.low))
            .collect()
    };
    let worse = |run, low| change(run, true, low, Some(9.0));
    assert_eq!(
        kept(vec![worse(10, 1.2), worse(12, 1.5), worse(14, 1.4)]),
        [(12, 1.5)]
    );
    // Five runs apart, it is another step.
    assert_eq!(
        kept(vec![worse(10, 1.2), worse(15, 1.5)]),
        [(15, 1.5), (10, 1.2)]
    );
    assert_eq!(kept(vec![worse(10, 1.2), worse(14, 1.5)]), [(14, 1.5)]);
    // The other direction is another step as well. Its upper end counts: 1/0.5 is more than 1.5.
    let better = |run, high| change(run, false, 0.1, high);
    let both = vec![
        worse(10, 1.5),
        better(11, Some(0.5)),
        better(10, Some(0.8)),
        better(9, None),
    ];
    assert_eq!(kept(both), [(11, 0.1), (10, 1.5)]);
}

#[test]
fn change_points_of_a_run_have_different_names() {
    let runs: Vec<Run> = (0..30).map(|number| run(number, None, &[(5, 1)])).collect();
    let all = of(&runs, 600);
    let mut changes = vec![
        change(10, true, 1.5, None),
        change(10, false, 0.5, Some(0.8)),
        change(11, false, 0.5, Some(0.8)),
    ];
    all.name(0, &mut changes);
    let short = |run: usize| runs[run].recording.short();
    let ids: Vec<&str> = changes.iter().map(|change| change.id.as_str()).collect();
    let tail = |run: usize, end: &str| format!("{}-tail{end}", short(run));
    assert_eq!(ids, [tail(10, ""), tail(10, "-better"), tail(11, "")]);
    changes.swap(0, 1);
    all.name(2, &mut changes);
    let ids: Vec<&str> = changes.iter().map(|change| change.id.as_str()).collect();
    assert_eq!(ids, [tail(10, "-3"), tail(10, "-3-worse"), tail(11, "-3")]);
}

#[test]
fn acknowledgement_holds_for_some_runs_around() {
    let runs: Vec<Run> = (0..30).map(|number| run(number, None, &[(5, 1)])).collect();
    let all = of(&runs, 600);
    let known = |at: usize| Acknowledgement {
        load: "idle".to_owned(),
        cpus: CpuClass::General,
        followed: Followed::Tail,
        worse: true,
        recording: runs[at].recording,
        at: runs[at].started,
        who: String::new(),
        why: String::new(),
    };
    let of = |run: usize| -> Vec<usize> {
        let change = change(run, true, 1.5, None);
        (0..30)
            .filter(|at| all.is_meant(&change, &known(*at)))
            .collect()
    };
    assert_eq!(of(12), (8..=16).collect::<Vec<_>>());
    assert_eq!((of(2), of(27)), ((0..=6).collect(), (23..=29).collect()));
    let change = change(12, true, 1.5, None);
    for other in [
        Acknowledgement {
            load: "cpu".to_owned(),
            ..known(12)
        },
        Acknowledgement {
            cpus: CpuClass::Isolated,
            ..known(12)
        },
        Acknowledgement {
            followed: Followed::P99,
            ..known(12)
        },
        Acknowledgement {
            worse: false,
            ..known(12)
        },
    ] {
        assert!(!all.is_meant(&change, &other), "{other:?}");
    }
}

/// A run stands out by its maximum, by its number of late periods, or by both.
#[test]
fn spikes_are_found_in_their_segment() {
    let runs: Vec<Run> = (0..40)
        .map(|number| {
            let high = if number < 20 { 1_000 } else { 3_000 };
            let (late, high) = match number {
                7 => (3, 2_000),
                25 => (2_000, high),
                31 => (60, 9_000),
                _ => (3, high),
            };
            run(number, None, &[(400, 10_000), (high, late)])
        })
        .collect();
    let all = of(&runs, 600);
    let course = |at: Option<usize>| {
        let mut course = Course::default();
        course.steps.extend(at.map(|at| step(at, 3.0, (2.0, 4.0))));
        course
    };
    let found: Vec<(usize, bool, bool, u64)> = (all.spikes(&[20], &[course(None)]).iter())
        .map(|spike| {
            (
                spike.run,
                spike.by_max,
                spike.by_count,
                spike.usual_max_ns.unwrap().0,
            )
        })
        .collect();
    let expected = [
        (7, true, false, 1_000),
        (25, false, true, 3_000),
        (31, true, true, 3_000),
    ];
    assert_eq!(found, expected);
    let first = &all.spikes(&[20], &[course(None)])[0];
    assert_eq!((first.above, first.max_ns), (Some(3), Some(Nanos(2_000))));
    assert_eq!(
        (first.recording, first.at),
        (runs[7].recording, runs[7].started)
    );
    // The runs between two steps are judged together: four runs are too few to show a spike.
    assert_eq!(all.spiked_counts(&[course(Some(20))]), [25, 31]);
    assert_eq!(all.spiked_counts(&[course(Some(36))]), [25, 31]);
    let mut two = course(Some(24));
    two.steps.push(step(28, 3.0, (2.0, 4.0)));
    assert_eq!(all.spiked_counts(&[two]), [31]);
    assert!(all.spiked_counts(&[]).is_empty());
}

/// A drift of late periods is listed in any case, and one of p99 if it is at least 10%.
#[test]
fn drifts_are_listed_if_they_are_material() {
    let p99 = |number: usize| (number != 1).then_some(700);
    let runs: Vec<Run> = (0..20)
        .map(|number| run(number, p99(number), &[(400, 99), (900, 1)]))
        .collect();
    let all = of(&runs, 600);
    let [tail, figure] = [0, 1].map(|family: usize| &all.families[family][0]);
    let course = |ratio: f64, high: f64| {
        let mut course = Course::default();
        course.drift = Some(changes::Drift {
            from: 3,
            before: 10.0,
            after: 10.0 * ratio.min(9.0),
            ratio,
            interval: (0.5, high),
            p: 0.002,
            may_be_step: true,
        });
        course
    };
    assert!(all.drift(figure, &course(1.05, 2.0), 0).is_none());
    assert!(all.drift(figure, &course(0.95, 2.0), 0).is_none());
    let found = all.drift(tail, &course(1.05, 2.0), 0).unwrap();
    assert_eq!(
        (found.followed, found.threshold_ns, found.run),
        (Followed::Tail, Some(Nanos(600)), 3)
    );
    let found = all.drift(figure, &course(1.2, 2.0), 0).unwrap();
    // The second run has no p99.
    assert_eq!(
        (found.followed, found.threshold_ns, found.run),
        (Followed::P99, None, 4)
    );
    assert_eq!(
        (found.from, found.before, found.after),
        (runs[4].started, 10.0, 12.0)
    );
    assert_eq!(
        (found.ratio, found.low, found.high),
        (Some(1.2), 0.5, Some(2.0))
    );
    assert!(found.worse && found.may_be_step && found.p == 0.002);
    let found = all.drift(figure, &course(0.8, f64::INFINITY), 0).unwrap();
    assert!(!found.worse && found.high.is_none());
    let found = all
        .drift(figure, &course(f64::INFINITY, f64::INFINITY), 0)
        .unwrap();
    assert!(found.worse && found.ratio.is_none());
    // The last step was at this run, or after it.
    assert!(all.drift(figure, &course(1.2, 2.0), 4).is_some());
    assert!(all.drift(figure, &course(1.2, 2.0), 5).is_none());
}
