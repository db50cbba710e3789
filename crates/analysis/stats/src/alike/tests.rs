use punctual_model::{Fact, HostFacts, LoadRecord, testing};

use super::*;

fn names(differences: &[Difference]) -> Vec<&str> {
    differences.iter().map(|one| one.what.as_str()).collect()
}

#[test]
fn the_same_differs_in_nothing() {
    let recording = testing::recording(2, 3);
    let known = known([&[&recording], &[&recording]]);
    assert!(known.measured.is_empty(), "{:?}", known.measured);
    assert!(known.machine.is_empty(), "{:?}", known.machine);
    assert!(known.not_known.is_empty(), "{:?}", known.not_known);
    assert_eq!(
        cautions([&[&recording], &[&recording]]),
        ["both are the same recording"]
    );
}

#[test]
fn each_difference_is_named() {
    let a = testing::recording(2, 3);
    let mut b = testing::recording(1, 3);
    let parameters = &mut b.probe.parameters;
    parameters.insert("interval_ns".to_owned(), 200_000.into());
    b.threads[0].scheduling.priority = 80;
    b.load.push(LoadRecord {
        name: "cpu".to_owned(),
        ..a.load[0].clone()
    });
    b.host.kernel.release = Fact::known("6.13".to_owned(), "");
    b.host.cpus[0].governor = Fact::known("powersave".to_owned(), "");
    b.completion = Completion::Break;
    let known = known([&[&a], &[&b]]);
    assert_eq!(
        names(&known.measured),
        ["interval", "load", "policy and priority", "threads"]
    );
    let interval = &known.measured[0];
    assert_eq!(
        (interval.baseline.as_str(), interval.candidate.as_str()),
        ("1.00 ms", "200 µs")
    );
    assert!(names(&known.machine).contains(&"kernel.release"));
    assert!(
        names(&known.machine).contains(&"cpu.governor"),
        "{:?}",
        known.machine
    );
    let said = cautions([&[&a], &[&b]]);
    assert!(
        said.iter().any(|one| one.contains("break value")),
        "{said:?}"
    );
}

#[test]
fn a_tune_is_a_setting() {
    let mut a = testing::recording(1, 3);
    let mut b = a.clone();
    a.tune = Some(Recording::NO_TUNE.to_owned());
    b.tune = Some("control for CPU 2-3".to_owned());
    let differ = &known([&[&a], &[&b]]).machine;
    assert_eq!(names(differ), ["tune"]);
    assert_eq!(differ[0].candidate, "control for CPU 2-3");
    // The recording is from a version that did not record the setting. The setting is then
    // unknown, but it is not a difference.
    a.tune = None;
    let known = known([&[&a], &[&b]]);
    assert!(known.machine.is_empty());
    assert_eq!(known.not_known, ["tune"]);
}

#[test]
fn runs_within_side_must_be_alike() {
    let a = testing::recording(1, 3);
    let mut b = a.clone();
    b.id = punctual_model::RecordingId::new();
    b.host.kernel.release = Fact::known("6.13".to_owned(), "");
    b.started += jiff::SignedDuration::from_mins(1);
    let known = known([&[&a, &b], &[&a, &a]]);
    assert_eq!(names(&known.machine), ["kernel.release"]);
    assert_eq!(known.machine[0].baseline, "6.12.38-rt-amd64 | 6.13");
    assert_eq!(
        known.mixed,
        ["the baseline runs differ from each other in: kernel.release"]
    );
    let said = cautions([&[&a, &a], &[&b, &b]]);
    assert!(
        said.iter().any(|one| one.contains("is given twice")),
        "{said:?}"
    );
    assert!(said.iter().any(|one| one.contains("alternate")), "{said:?}");
    let said = cautions([&[&a, &b], &[&b, &a]]);
    assert!(
        !said.iter().any(|one| one.contains("alternate")),
        "{said:?}"
    );
}

#[test]
fn what_is_not_known_is_no_difference() {
    let a = testing::recording(1, 3);
    let mut b = a.clone();
    b.host = HostFacts::unknown("x.txt", "it does not say");
    b.threads[0].scheduling = Scheduling::UNKNOWN;
    b.probe.parameters.clear();
    let known = known([&[&a], &[&b]]);
    assert!(known.measured.is_empty() && known.machine.is_empty());
    for what in ["interval", "policy and priority", "machine"] {
        assert!(
            known.not_known.iter().any(|one| one == what),
            "{:?}",
            known.not_known
        );
    }
}

fn imported_without(facts: &[Unknown]) -> Option<punctual_model::Origin> {
    Some(punctual_model::Origin {
        format: "cyclictest-hist".to_owned(),
        tool: "cyclictest".to_owned(),
        file: "-".to_owned(),
        unknown: facts.iter().copied().collect(),
    })
}

fn said(change: impl Fn(&mut Recording)) -> Vec<String> {
    let a = testing::recording(1, 2);
    let mut b = a.clone();
    b.id = punctual_model::RecordingId::new();
    change(&mut b);
    cautions([&[&a], &[&b]])
}

#[test]
fn each_reason_for_doubt_is_told() {
    assert!(said(|_| {}).is_empty());
    for (completion, words) in [
        (
            Completion::Break,
            "the candidate stopped when its break value was crossed: one late sample ends such \
             a run, so its tail is biased",
        ),
        (Completion::Stopped, "the candidate was stopped early"),
        (
            Completion::Interrupted,
            "the candidate was interrupted: its last samples are lost",
        ),
        (
            Completion::Running,
            "the candidate is still running: only the samples so far are compared",
        ),
    ] {
        assert_eq!(said(|one| one.completion = completion), [words]);
    }
    let unplaced = |one: &mut Recording| {
        one.threads[0]
            .histogram
            .add_unplaced(1_200, Nanos::from_secs(1));
    };
    assert_eq!(
        said(unplaced),
        ["latency unknown for 1,200 samples of the candidate"]
    );
    assert_eq!(
        said(|one| one.series.dropped = 1),
        ["the time series of the candidate lacks 1 sample"]
    );
    let achieved = |count: u64| punctual_model::Achieved {
        what: "files".to_owned(),
        count,
        duration_ns: Nanos::from_secs(1),
    };
    assert_eq!(
        said(|one| one.load[0].achieved = vec![achieved(0)]),
        ["the load command of the candidate did nothing"]
    );
    assert!(said(|one| one.load[0].achieved = vec![achieved(0), achieved(4)]).is_empty());
    assert_eq!(
        said(|one| one.load[0].ended_early = Some("exit status 0".to_owned())),
        ["the load command of the candidate ended before it was stopped"]
    );
}

#[test]
fn runs_are_named_if_a_side_has_several() {
    let mut all: Vec<Recording> = (0..3).map(|_| testing::recording(1, 1)).collect();
    for (one, minute) in all.iter_mut().zip(0..) {
        one.id = punctual_model::RecordingId::new();
        one.started += jiff::SignedDuration::from_mins(minute);
        one.completion = Completion::Stopped;
    }
    let [a, b, c] = all.as_slice() else {
        panic!("three runs");
    };
    let of = |run: &Recording, side: &str| {
        format!("the {side} run {} was stopped early", run.id.short())
    };
    assert_eq!(
        cautions([&[a, c], &[b]]),
        [
            of(a, "baseline"),
            of(c, "baseline"),
            "the candidate was stopped early".to_owned()
        ]
    );
    // A run on both sides, and a run twice on one.
    let twice = format!("recording {} is given twice", a.id.short());
    let cases: [[&[&Recording]; 2]; 2] = [[&[a, c], &[b, a]], [&[a, a], &[b]]];
    for sides in cases {
        let found = cautions(sides);
        assert_eq!(
            found.iter().filter(|one| **one == twice).count(),
            1,
            "{found:?}"
        );
    }
}

#[test]
fn order_of_the_runs_matters_for_several() {
    let started = |minutes: &[i64]| -> Vec<Recording> {
        let run = |minute: &i64| {
            let mut run = testing::recording(1, 1);
            run.started += jiff::SignedDuration::from_mins(*minute);
            run
        };
        minutes.iter().map(run).collect()
    };
    let cases: [(&[i64], &[i64], bool); 8] = [
        (&[1, 2], &[3, 4], true),
        (&[3, 4], &[1, 2], true),
        (&[1], &[2, 3], true),
        (&[1, 3], &[2, 4], false),
        (&[2, 3], &[1, 4], false),
        (&[1, 2], &[2, 3], false),
        (&[2, 3], &[1, 2], false),
        // Two runs can only be in turn.
        (&[1], &[2], false),
    ];
    for (a, b, is_apart) in cases {
        let sides = [a, b].map(started);
        let [a, b] = [0, 1].map(|side| sides[side].iter().collect::<Vec<&Recording>>());
        assert_eq!(in_turn(&a, &b).is_some(), is_apart, "{a:?} {b:?}");
    }
    // Without the start of one run, nothing is known.
    let mut sides = [[1, 2], [3, 4]].map(|minutes| started(&minutes));
    sides[1][0].origin = imported_without(&[Unknown::Started]);
    let [a, b] = [0, 1].map(|side| sides[side].iter().collect::<Vec<&Recording>>());
    assert_eq!(in_turn(&a, &b), None);
}

#[test]
fn threads_are_named_in_few_words() {
    let of = |change: &dyn Fn(&mut Recording), cpus: u32| {
        let mut recording = testing::recording(cpus, 1);
        change(&mut recording);
        threads(&recording)
    };
    assert_eq!([1, 3].map(|cpus| of(&|_| {}, cpus)), ["CPU 0", "CPUs 0-2"]);
    assert_eq!(of(&|one| one.threads[2].cpu = Some(0), 3), "3 on CPUs 0-1");
    assert_eq!(of(&|one| one.threads[1].cpu = Some(0), 2), "2 on CPUs 0");
    assert_eq!(of(&|one| one.threads[1].cpu = None, 2), "CPU 0, any CPU");
    assert_eq!(
        of(&|one| one.threads[0].from_cpu = Some(7), 2),
        "CPU 7 to 0, CPU 1"
    );
    let label = |one: &mut Recording| one.threads[0].label = Some("futex".to_owned());
    let six = "futex, CPU 1, CPU 2, CPU 3, CPU 4, CPU 5";
    assert_eq!(of(&label, 6), six);
    assert_eq!(of(&label, 7), format!("{six}, ... (7 in all)"));
}

#[test]
fn loads_are_written_in_one_line() {
    let load = |name: &str, parameters: &[(&str, serde_json::Value)]| LoadRecord {
        name: name.to_owned(),
        parameters: parameters
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()))
            .collect(),
        ..LoadRecord::default()
    };
    let mut recording = testing::recording(1, 1);
    assert_eq!(loads(&recording), "command 'make -j8'");
    recording.load = vec![
        load("cpu", &[("workers", 2.into()), ("pin", true.into())]),
        load("disk", &[]),
    ];
    assert_eq!(loads(&recording), "cpu pin=yes workers=2; disk");
    recording.load.clear();
    assert_eq!(loads(&recording), "none");
}

#[test]
fn settings_of_a_measurement_have_their_units() {
    let mut recording = testing::recording(2, 1);
    let parameters = &mut recording.probe.parameters;
    parameters.insert("policy".to_owned(), "fifo".into());
    parameters.insert("priority".to_owned(), 95.into());
    parameters.insert("lock_pages".to_owned(), false.into());
    parameters.insert("odd_ns".to_owned(), "no number".into());
    recording.threads[1].scheduling.priority = 80;
    let found: Vec<(String, Option<String>)> = measurement(&recording).into_iter().collect();
    let row = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
    let first = recording.threads[0].scheduling.to_string();
    let second = recording.threads[1].scheduling.to_string();
    let mut both = [first, second];
    both.sort();
    assert_eq!(
        found,
        [
            row("interval", "1.00 ms"),
            row("load", "command 'make -j8'"),
            row("lock pages", "no"),
            row("odd ns", "no number"),
            row("policy and priority", &both.join(", ")),
            row("threads", "CPUs 0-1"),
            row("trace events", "not recorded"),
            row("wait", "nanosleep"),
        ]
    );
    recording.explanation = Some(punctual_model::Explanation::default());
    recording.origin = imported_without(&[Unknown::Load, Unknown::Cpus]);
    let found = measurement(&recording);
    assert_eq!(found["trace events"].as_deref(), Some("recorded"));
    assert_eq!((&found["load"], &found["threads"]), (&None, &None));
}

/// CPUs with the same value are one fact. Idle states are listed with their exit latency.
#[test]
fn facts_of_cpus_are_combined() {
    use punctual_model::IdleState;
    let mut recording = testing::recording(4, 1);
    let host = &mut recording.host;
    host.cpus[3].governor = Fact::known("powersave".to_owned(), "");
    host.cpus[1].governor = Fact::unknown("", "not there");
    host.cpus[2].idle_states = Fact::known(
        vec![
            IdleState {
                name: "C1".to_owned(),
                exit_latency_ns: Nanos::from_micros(2),
                disabled: false,
            },
            IdleState {
                name: "C6".to_owned(),
                exit_latency_ns: Nanos::from_micros(133),
                disabled: true,
            },
        ],
        "cpuidle",
    );
    for cpu in &mut host.cpus {
        cpu.package = Fact::unknown("", "not there");
    }
    let found = facts(&recording);
    let fact = |name: &str| found[name].as_deref();
    assert_eq!(
        fact("cpu.governor"),
        Some("performance (CPUs 0,2), powersave (CPU 3)")
    );
    assert_eq!(
        fact("cpu.idle_states"),
        Some("C1 (2.00 µs) (CPUs 0-1,3), C1 (2.00 µs), C6 (133 µs, off) (CPU 2)")
    );
    assert_eq!(fact("cpu.package"), None);
    assert_eq!(fact("kernel.preempt_rt"), Some("yes"));
    assert_eq!(fact("virtualisation.virtual_machine"), Some("no"));
    assert_eq!(fact("virtualisation.hypervisor"), None);
    assert_eq!(fact("tune"), None);
    for name in [
        "memory.total_bytes",
        "clock.available",
        "distribution.id",
        "fingerprint",
    ] {
        assert!(!found.contains_key(name), "{name}");
    }
}

#[test]
fn values_are_written_for_people() {
    for (value, text) in [
        (serde_json::json!("a b"), "a b"),
        (serde_json::json!([1, true, "x", [false]]), "1, yes, x, no"),
        (serde_json::json!(null), "null"),
        (serde_json::json!(2.5), "2.5"),
        (serde_json::json!({"a": 1}), "{\"a\":1}"),
    ] {
        assert_eq!(plain(&value), text);
    }
}
