//! One contract of all output formats: none of them drops a part of a claim.

use punctual_model::{
    Claim, Condition, JudgedBy, Judgement, Limit, LoopRequirement, Metric, Nanos, Outcome,
    Recording, SeriesProof, ToJson, percent, testing,
};
use punctual_report::certificate::{self, Digest};
use punctual_report::html::HtmlOptions;
use punctual_report::junit::{self, CiForm};
use punctual_report::text::{self, TextStyle};
use punctual_report::{document, html, markdown};

/// A recording of one CPU with a limit that is met, exceeded or not decidable.
fn of_run(limits: &[(Metric, u64)], confidence: Option<f64>) -> Recording {
    let mut recording = testing::recording(1, 60);
    recording.threads[0].accounting.missed = 0;
    recording.threads[0].missed_histogram = None;
    recording.requirement.limits = limits
        .iter()
        .map(|(metric, at_most)| Limit {
            metric: *metric,
            at_most: *at_most,
        })
        .collect();
    recording.requirement.confidence = confidence;
    recording.verdict = recording.judge();
    recording
}

fn asked() -> LoopRequirement {
    LoopRequirement {
        period_ns: Nanos::from_millis(1),
        budget_ns: Nanos(100_000),
        jobs: false,
        max_late_seconds_per_day: Some(5_000.0),
        misses: Some("2/100".parse().unwrap()),
        max_misses_per_day: None,
        sample: None,
    }
}

fn condition(name: &str, outcome: Outcome) -> Condition {
    Condition {
        name: name.to_owned(),
        loads: vec!["farm".to_owned()],
        measured_ns: Nanos::from_secs(60),
        periods: 60_000,
        late: 37,
        longest_series: Some(4),
        late_seconds: Some(9),
        windows: Some(punctual_model::Windows {
            worst: 4,
            violated_seconds: 3,
            first_violated_ns: Some(Nanos::from_secs(7)),
        }),
        episodes: None,
        dispersion: Some(1.0),
        per_day_at_most: Some(11_164.5),
        per_day_at_least: Some(5_177.4),
        max_ns: Some(Nanos(412_000)),
        p99_ns: Some(Nanos(31_200)),
        real_time: true,
        outcome,
        lacking: match outcome {
            Outcome::NotProven => vec!["the load farm did nothing".to_owned()],
            _ => Vec::new(),
        },
        needs_ns: Some(Nanos::from_secs(7_200)),
        needs_likely_ns: Some(Nanos::from_secs(10_800)),
        tail: None,
        no_tail: None,
        jobs: None,
    }
}

/// A recording of a check-up, whose first condition is only information.
fn of_checkup(outcome: Outcome) -> Recording {
    let mut recording = of_run(&[], None);
    recording.requirement.periodic = Some(asked());
    let claims = [
        condition("idle", Outcome::NotProven).claim(&asked(), false),
        condition("loaded", outcome).claim(&asked(), true),
    ];
    recording.be_judged(Judgement {
        by: JudgedBy::Check,
        experiment: None,
        outcome,
        sentence: claims[1].sentence(),
        asked: Some(asked()),
        claims: claims.to_vec(),
    });
    recording
}

fn all() -> Vec<Recording> {
    let (p50, p9999) = (Metric::Percentile(50.0), Metric::Percentile(99.9999));
    let mut all = vec![
        of_run(&[(Metric::Max, 10_000_000)], None),
        of_run(&[(Metric::Max, 3_000), (Metric::Missed, 0)], None),
        of_run(&[(p9999, 200_000)], None),
        of_run(&[(p50, 200_000)], Some(0.6)),
        of_run(&[(p50, 100)], Some(0.995)),
        of_run(&[(p9999, 200_000)], Some(0.9999)),
    ];
    all.extend([Outcome::Held, Outcome::Broken, Outcome::NotProven].map(of_checkup));
    all
}

fn no_digest() -> Digest {
    Digest {
        sha256: String::new(),
        command: String::new(),
        file: String::new(),
    }
}

/// The parts of a claim, each as the text that a format must contain.
fn parts(claim: &Claim) -> Vec<String> {
    let mut parts = vec![claim.outcome.word().to_owned(), claim.required.clone()];
    parts.extend([claim.quantity.clone(), claim.evidence.clone()]);
    parts.push(match (&claim.bound, &claim.measured) {
        (Some(bound), _) => bound.clone(),
        (None, measured) => measured.clone().unwrap(),
    });
    parts.extend(claim.confidence.map(percent));
    parts.extend(claim.condition.clone());
    parts.extend(claim.lacking.iter().cloned());
    parts
}

/// Undoes how each format writes special characters.
fn plain(text: &str) -> String {
    let text = text.replace('\\', "").replace('µ', "u");
    let text = text.replace("&amp;", "&").replace("&gt;", ">");
    text.replace("&lt;", "<").replace("&quot;", "\"")
}

#[test]
fn no_format_drops_a_part_of_a_claim() {
    let digest = Digest {
        sha256: "0".repeat(64),
        command: "punctual export".to_owned(),
        file: "one.json".to_owned(),
    };
    let mut outcomes = Vec::new();
    for recording in all() {
        outcomes.push(recording.verdict.outcome);
        let ci = |form| junit::render(&[&recording], form).unwrap();
        let page = html::render(std::slice::from_ref(&recording), &HtmlOptions::default());
        let forms = [
            ("JUnit", ci(CiForm::Junit)),
            ("TAP", ci(CiForm::Tap)),
            ("LAVA", ci(CiForm::Lava)),
            ("KCIDB", ci(CiForm::Kcidb)),
            (
                "certificate",
                certificate::html(&recording, &digest).unwrap(),
            ),
            ("HTML", page.unwrap()),
            (
                "Markdown",
                markdown::render(&document::recording(&recording)),
            ),
        ];
        let claims = recording.claims();
        assert!(!claims.is_empty());
        for (claim, (form, text)) in claims
            .iter()
            .flat_map(|one| forms.iter().map(move |form| (one, form)))
        {
            let text = plain(text);
            for part in parts(claim) {
                assert!(
                    text.contains(&plain(&part)),
                    "{form} lacks '{part}':\n{text}"
                );
            }
        }
        // A terminal shows the evidence of limits in its tables.
        let style = TextStyle {
            colour: false,
            width: 5_000,
        };
        let text = text::render(&document::recording(&recording), &style);
        for claim in claims.iter().filter(|claim| claim.decides) {
            let decisive = claim.outcome == recording.verdict.outcome;
            let evidence =
                |part: &String| *part == claim.evidence && !recording.requirement.limits.is_empty();
            for part in parts(claim)
                .into_iter()
                .filter(|part| decisive && !evidence(part))
            {
                let bare = part.trim_start_matches("at most ");
                assert!(text.contains(bare), "text lacks '{part}':\n{text}");
            }
        }
        let json = recording.to_json();
        let read = Recording::from_json(&json).unwrap();
        assert_eq!(read.claims(), claims);
    }
    for outcome in [
        Outcome::Met,
        Outcome::Exceeded,
        Outcome::NotDecidable,
        Outcome::Held,
        Outcome::Broken,
        Outcome::NotProven,
    ] {
        assert!(outcomes.contains(&outcome), "{outcome:?}");
    }
}

/// A condition that was measured for comparison, for a quarter of the time, fails nothing.
#[test]
fn information_does_not_fail_a_check_up() {
    let held = of_checkup(Outcome::Held);
    let ci = |form| junit::render(&[&held], form).unwrap();
    let xml = ci(CiForm::Junit);
    for part in [
        "failures=\"0\"",
        "errors=\"0\"",
        "check: idle",
        "check: loaded",
    ] {
        assert!(xml.contains(part), "{part}: {xml}");
    }
    assert!(!ci(CiForm::Tap).contains("not ok"));
    let lava = ci(CiForm::Lava);
    assert!(
        lava.contains("TEST_CASE_ID=check_loaded RESULT=pass MEASUREMENT="),
        "{lava}"
    );
    assert!(
        lava.contains("TEST_CASE_ID=check_idle RESULT=skip"),
        "{lava}"
    );
    let kcidb = ci(CiForm::Kcidb);
    assert!(
        kcidb.contains("\"PASS\"") && !kcidb.contains("\"ERROR\""),
        "{kcidb}"
    );
    let broken = junit::render(&[&of_checkup(Outcome::Broken)], CiForm::Junit).unwrap();
    assert!(
        broken.contains("failures=\"1\"") && broken.contains("skipped=\"1\""),
        "{broken}"
    );
}

/// A week of 60 runs, each with this number of late seconds. One run is missing.
fn week(late: u64) -> SeriesProof {
    let mut week = testing::week(20_000.0, |number| (number != 4).then_some(late));
    week.loads = vec!["farm".to_owned()];
    week.judge();
    week
}

/// A claim over the runs of a series keeps its parts too. Its condition is not about the rest of
/// the day.
#[test]
fn claim_over_a_series_keeps_its_parts() {
    let mut outcomes = Vec::new();
    for (late, changed) in [(0, false), (30, false), (0, true)] {
        let mut proof = week(late);
        if changed {
            proof.refused = vec!["the kernel changed from 6.1 to 6.12 by run 9".to_owned()];
            proof.judge();
        }
        outcomes.push(proof.outcome);
        let document = document::series_proof(&proof, &jiff::tz::TimeZone::UTC);
        let style = TextStyle {
            colour: false,
            width: 5_000,
        };
        let ci = |form| junit::series(&proof, form);
        let first = of_run(&[], None);
        let forms = [
            ("text", text::render(&document, &style)),
            ("Markdown", markdown::render(&document)),
            ("JSON", proof.to_json()),
            ("JUnit", ci(CiForm::Junit)),
            ("TAP", ci(CiForm::Tap)),
            ("LAVA", ci(CiForm::Lava)),
            ("KCIDB", ci(CiForm::Kcidb)),
            (
                "certificate",
                certificate::series_html(&proof, Some(&first), &no_digest()),
            ),
        ];
        let pdf = certificate::series_pdf(&proof, Some(&first), &no_digest()).unwrap();
        assert!(pdf.starts_with(b"%PDF"));
        let claim = &proof.claims[0];
        assert!(!claim.sentence().contains("rest of the day"));
        for (form, text) in &forms {
            for part in parts(claim) {
                assert!(
                    plain(text).contains(&plain(&part)),
                    "{form} lacks '{part}':\n{text}"
                );
            }
            // One line of a test has no room for each run.
            let missing = match *form {
                "TAP" | "LAVA" | "KCIDB" => "1 missing run counted as late",
                _ => "the machine was suspended",
            };
            assert!(text.contains(missing), "{form}: {text}");
        }
    }
    assert_eq!(
        outcomes,
        [Outcome::Held, Outcome::Broken, Outcome::NotProven]
    );
}

/// The state of the test is the outcome over the runs, and its value is the bound.
#[test]
fn series_is_one_test_case() {
    let ci = |late, form| junit::series(&week(late), form);
    assert!(ci(0, CiForm::Junit).contains("tests=\"1\" errors=\"0\" failures=\"0\""));
    assert!(ci(30, CiForm::Junit).contains("failures=\"1\""));
    assert!(ci(0, CiForm::Tap).contains("ok 1"));
    assert!(ci(30, CiForm::Tap).contains("not ok 1"));
    let lava = ci(0, CiForm::Lava);
    assert!(
        lava.contains("TEST_CASE_ID=series_week RESULT=pass MEASUREMENT="),
        "{lava}"
    );
    let kcidb = ci(30, CiForm::Kcidb);
    assert!(
        kcidb.contains("\"FAIL\"") && kcidb.contains("7:2026-11-02"),
        "{kcidb}"
    );
}

/// A run without a requirement was measured. It has passed nothing.
#[test]
fn without_requirement_nothing_passes() {
    let recording = of_run(&[], None);
    let ci = |form| junit::render(&[&recording], form).unwrap();
    assert!(ci(CiForm::Junit).contains("skipped=\"1\""));
    let tap = ci(CiForm::Tap);
    assert!(
        tap.contains("# SKIP measured; no requirement was given"),
        "{tap}"
    );
    let lava = ci(CiForm::Lava);
    assert!(
        lava.contains("TEST_CASE_ID=measured RESULT=skip MEASUREMENT="),
        "{lava}"
    );
    assert!(ci(CiForm::Kcidb).contains("\"DONE\""));
}

/// A certificate of a check-up states its requirement, and never that nothing was judged.
#[test]
fn certificate_of_a_check_up_has_its_requirement() {
    let page = certificate::html(&of_checkup(Outcome::Held), &no_digest()).unwrap();
    for part in [
        "period 1.00 ms, wake-ups at most 100 µs late, at most 2 late in any 100 consecutive",
        "at most 5,000 violated seconds a day",
        "budget 100 µs",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("not judged"), "{page}");
}
