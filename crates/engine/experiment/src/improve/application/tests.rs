//! Tests the search on a simulated application.

use punctual_model::cause::Source;
use punctual_model::{LoopRequirement, RecordingId, testing};
use punctual_session::{JobDetail, Release, Subject};

use super::super::intended;
use super::super::tests::tried;
use super::*;
use crate::numbers::{of_jobs, results};

fn search(seconds: u64) -> ApplicationSearch {
    ApplicationSearch {
        request: ApplicationRequest {
            requirement: LoopRequirement::of_jobs(Nanos::from_millis(1)),
            subject: Subject::Comm("motion".to_owned()),
            release: Release::default(),
            detail: JobDetail::Windows(None),
            duration: Nanos::from_secs(20),
            reader: None,
            label: None,
            command_line: Vec::new(),
        },
        time: Nanos::from_secs(seconds),
        wash_out: Nanos::from_secs(2),
        seed: 7,
    }
}

fn cause(setting: &str) -> RemediedCause {
    RemediedCause {
        source: Source::Gap,
        kind: Source::Gap.kind(),
        who: String::new(),
        count: 9,
        total_ns: Nanos(9),
        max_ns: Nanos(1),
        late_only_by: Some(9),
        checks: Vec::new(),
        left: None,
        settings: vec![setting.to_owned()],
        experiment: None,
        advice: String::new(),
    }
}

fn looked(jobs: u64, late: u64, against: &str) -> Looked {
    let recording = testing::recording(1, 2);
    Looked {
        causes: vec![cause(against)],
        condition: Condition {
            periods: jobs,
            late,
            ..Condition::of_jobs(&recording, &LoopRequirement::of_jobs(Nanos(1)))
        },
        on: MeasuredOn::from_recording(&recording),
    }
}

/// Searches on a simulated application. `share` returns the share of late jobs, in ppm, in an
/// experiment with this number, with these settings.
fn searched(
    looked: Looked,
    seconds: u64,
    share: &dyn Fn(usize, &[String]) -> f64,
) -> (Improvement, Vec<usize>) {
    let names = ["a=1", "b=1", "good=1", "c=1", "d=1", "e=1", "f=1", "g=1"];
    let settings = names.map(|name| TriedSetting {
        accepted: false,
        ..tried(name)
    });
    let mut improvement = intended(settings.to_vec(), Vec::new());
    let mut compared = Vec::new();
    let mut compare = |_: &str, arms: Vec<Arm>, _: u32| {
        let late = arms.iter().map(|arm| match &arm.action {
            ArmAction::Settings { assignments } => share(compared.len(), assignments),
            _ => share(compared.len(), &[]),
        });
        let mut experiment = of_jobs(&late.collect::<Vec<_>>(), 0.0);
        compared.push(arms.len());
        experiment.results = results(&experiment);
        let id = Some(RecordingId::new());
        Ok(NumbersRun { experiment, id })
    };
    after(&mut improvement, &search(seconds), looked, &mut compare).unwrap();
    (improvement, compared)
}

fn helps(settings: &[String]) -> f64 {
    let helps = settings.iter().any(|one| one == "good=1");
    if helps { 400.0 } else { 2_000.0 }
}

/// The setting against the main cause is tried first, so a short search finds it.
#[test]
fn causes_choose_the_settings_to_try() {
    let (found, compared) = searched(looked(9_000, 20, "good=1"), 1_200, &|_, on| helps(on));
    assert_eq!(found.tried[0].assignment, "good=1");
    assert!(found.tried[0].accepted, "{:?}", found.tried[0]);
    assert_eq!(found.sentence, "1 setting is proven to help");
    assert_eq!(compared.len(), 2);
    // Each stage names its stored experiment.
    let stored: Vec<_> = found.stages.iter().flat_map(|one| one.experiment).collect();
    assert!(stored.len() == 2 && stored[0] != stored[1], "{stored:?}");
    assert!(compared[0] < 9 && compared[1] == 2, "{compared:?}");
    assert!(
        found.tried[7].why.starts_with("not tried"),
        "{:?}",
        found.tried[7]
    );
    let ratio = found.proof.unwrap().ratio.unwrap();
    assert!((0.15..0.25).contains(&ratio), "{ratio}");
}

#[test]
fn effect_that_does_not_return_is_not_claimed() {
    let lucky = |number: usize, on: &[String]| if number == 0 { helps(on) } else { 2_000.0 };
    let (found, _) = searched(looked(9_000, 20, "good=1"), 1_200, &lucky);
    assert!(found.tried.iter().all(|one| !one.accepted));
    assert!(
        found.sentence.contains("not confirmed on fresh data"),
        "{}",
        found.sentence
    );
}

#[test]
fn slow_settings_need_a_longer_wait() {
    let names = ["timer-migration=off", "swappiness=10"].map(tried);
    let mut improvement = intended(names.to_vec(), Vec::new());
    leave_slow_out(&mut improvement, &search(600));
    assert_eq!(improvement.tried.len(), 1);
    assert!(improvement.left_out[0].reason.ends_with("--wash-out 30s"));
    let patient = ApplicationSearch {
        wash_out: SLOW,
        ..search(6_000)
    };
    let mut improvement = intended(names.to_vec(), Vec::new());
    leave_slow_out(&mut improvement, &patient);
    assert_eq!(improvement.tried.len(), 2);
}

#[test]
fn nothing_late_means_nothing_to_try() {
    let (found, compared) = searched(looked(9_000, 0, "good=1"), 1_200, &|_, on| helps(on));
    assert_eq!((found.stages.len(), compared.len()), (0, 0));
    assert!(
        found
            .sentence
            .starts_with("nothing to improve: none of 9,000 jobs")
    );
    let (found, _) = searched(looked(0, 0, "good=1"), 1_200, &|_, on| helps(on));
    assert!(
        found.sentence.starts_with("not measured"),
        "{}",
        found.sentence
    );
}

#[test]
fn time_decides_the_number_of_settings() {
    assert_eq!(planned(6, 29), None);
    let mut before = 0;
    for available in (30..400).step_by(10) {
        let found = planned(8, available).unwrap();
        let used = blocks(found.settings, found.rounds[0], found.rounds[1]);
        assert!(used <= available, "{found:?} for {available}");
        assert!(found.settings >= before && found.settings <= MOST);
        before = found.settings;
    }
    assert_eq!(before, MOST);
}
