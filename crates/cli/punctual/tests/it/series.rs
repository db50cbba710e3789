//! Tests of series that are judged as a whole, and of series of applications.

use punctual_model::Outcome;
use serde_json::Value;

use crate::checking::Slow;
use crate::common::{Sandbox, eventually, signal, text};
use crate::monitoring::{count, plan, slots};
use crate::signing::in_python;

/// Three runs at random times are measured and judged, but are too few for a bound.
#[test]
fn sampled_series_is_judged_as_a_whole() {
    let place = Sandbox::new();
    let plan = plan(
        &place,
        r#"
[[series]]
name = "sampled"
probe = "timer"
parameters = { interval = "1ms" }
sample = "3 x 1s in 12s"
budget = "1ms"
max_late_seconds_per_day = 80000
"#,
    );
    let shown = place.done(&format!("monitor check --plan {plan}"));
    assert!(
        shown.contains("3 runs of 1 s at random times in each 12 s"),
        "{shown}"
    );
    let service = place.spawn(&format!("monitor run --plan {plan}"));
    let ended = |slots: &[Value]| slots.len() >= 3 && slots.last().unwrap()["state"] != "running";
    assert!(eventually(|| {
        let slots = slots(&place);
        ended(&slots) && count(&slots, "recorded") >= 1
    }));
    signal(&service, "TERM");
    assert_eq!(service.wait_with_output().unwrap().status.code(), Some(0));
    let all = slots(&place);
    assert!(all.iter().all(|slot| slot["cause"] == "sample"), "{all:#?}");
    let first = all.last().unwrap()["due"].as_str().unwrap();
    let line = format!("check --series sampled --at {first}");
    let output = place.run(&format!("{line} --json"));
    let proof: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(4), "{proof:#}");
    assert_eq!(proof["outcome"], "not_proven");
    let runs = proof["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    // The times are those of the stored seed, and each run is measured or has a reason.
    let oldest: Vec<&Value> = all.iter().rev().take(3).map(|slot| &slot["due"]).collect();
    let due: Vec<&Value> = runs.iter().map(|run| &run["due"]).collect();
    assert_eq!(due, oldest);
    for run in runs {
        let is_measured = run["late_seconds"].is_number();
        assert_ne!(is_measured, run["lacking"].is_string(), "{run:#}");
    }
    let claim = &proof["claims"][0];
    assert_eq!(claim["limit"], 80_000.0);
    assert!(claim["bound"].is_null(), "{claim:#}");
    let shown = text(&place.run(&format!("{line} -o week.html")).stdout);
    let page = std::fs::read_to_string(place.path("week.html")).unwrap();
    assert!(page.contains("at least 20 needed"), "{page}");
    // Each format has the whole claim, with the exit code of the verdict.
    for file in ["w.md", "w.xml", "w.tap", "w.lava", "w.kcidb.json", "w.json"] {
        let output = place.run(&format!("{line} -o {file}"));
        assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
        let written = std::fs::read_to_string(place.path(file)).unwrap();
        let claim = "3 runs are planned, at least 20 needed";
        assert!(written.contains(claim), "{file}: {written}");
    }
    place.run(&format!("{line} -o week.pdf"));
    let pdf = std::fs::read(place.path("week.pdf")).unwrap();
    assert!(pdf.starts_with(b"%PDF"));
    statement_is_verified(&place, &line, runs);
    let refused = place.refused(&format!("{line} -o week.doc"), 2);
    assert!(refused.contains("use one of .html, .pdf"), "{refused}");
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("3 runs are planned, at least 20 needed"),
        "{shown}"
    );
    // The requirement is part of each run.
    let id = all
        .iter()
        .find_map(|slot| slot["recording"].as_str())
        .unwrap();
    let shown = text(&place.run(&format!("show {id}")).stdout);
    assert!(shown.contains("wake-ups at most 1.00 ms late"), "{shown}");
    let unknown = place.refused("check --series other", 2);
    assert!(unknown.contains("no series 'other'"), "{unknown}");
    place.refused("check --series sampled --budget 1ms", 2);
    place.refused("check --host here", 2);
}

/// The page and the file contain a signed statement. A reader with the runs computes the verdict again.
fn statement_is_verified(place: &Sandbox, line: &str, runs: &[Value]) {
    let measured = runs.iter().any(|run| run["late_seconds"].is_number());
    place.run(&format!("{line} -o week.intoto.json"));
    place.done("key -o keys");
    let path = |name: &str| place.path(name).display().to_string();
    let reader = Sandbox::new();
    for file in ["week.pdf", "week.intoto.json"] {
        let said = place.done(&format!("verify {file}"));
        let is_same = said.contains("give the same verdict");
        assert!(is_same || !measured, "{said}");
        let said = reader.done(&format!("verify {} --keys {}", path(file), path("keys")));
        let is_unknown = said.contains("not at hand");
        assert_eq!(is_unknown, measured, "{said}");
        assert_ne!(in_python(&path(file), &path("keys")), Some(false));
    }
    let statement = std::fs::read_to_string(place.path("week.intoto.json")).unwrap();
    let at = statement.find("\"payload\":\"").unwrap() + 400;
    let other = if &statement[at..=at] == "A" { "B" } else { "A" };
    let changed = [&statement[..at], other, &statement[at + 1..]].concat();
    std::fs::write(place.path("changed.json"), changed).unwrap();
    place.refused("verify changed.json", 1);
    assert_ne!(in_python(&path("changed.json"), &path("keys")), Some(true));
    let said = place.refused(&format!("{line} -o w.md --ssh-key id"), 2);
    assert!(said.contains(".intoto.json"), "{said}");
    place.refused("check --period 1ms --budget 1ms --ssh-key id", 2);
}

/// A slot of an application is a recording of its jobs with a verdict. A slot without the application
/// says why, and the series goes on.
#[test]
fn series_of_application_records_its_jobs() {
    let place = Sandbox::new();
    let plan = plan(
        &place,
        r#"
[[series]]
name = "jobs"
comm = "slow-jobs"
budget = "6ms"
max_late_seconds_per_day = 0
duration = "3s"
every = "1h"
"#,
    );
    let checked = place.done(&format!("monitor check --plan {plan}"));
    assert!(
        checked.contains("jobs of comm slow-jobs, 3.00 s"),
        "{checked}"
    );
    let once = format!("monitor once jobs --plan {plan}");
    let missing = text(&place.run(&once).stdout);
    assert!(missing.contains("jobs: refused"), "{missing}");
    assert!(missing.contains("slow-jobs"), "{missing}");
    let slow = Slow::start("slow-jobs");
    let output = place.run(&once);
    let said = text(&output.stdout);
    drop(slow);
    if !said.contains("jobs: recorded") {
        punctual_testing::skip_refused("monitor once", &said);
        return;
    }
    let recording = place.last();
    assert_eq!(recording.label.as_deref(), Some("jobs"));
    assert_eq!(recording.verdict.outcome, Outcome::Broken, "{recording:#?}");
    assert!(recording.verdict.sentence.contains("jobs over 6.00 ms"));
    let slots = slots(&place);
    assert_eq!(
        (count(&slots, "recorded"), count(&slots, "refused")),
        (1, 1)
    );
    let trend = place.run("trend jobs --json");
    let trend: Value = serde_json::from_slice(&trend.stdout).unwrap();
    assert_eq!(
        trend["groups"][0]["runs"].as_array().unwrap().len(),
        1,
        "{trend:#}"
    );
}
