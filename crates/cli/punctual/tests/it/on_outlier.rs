//! `--on-outlier`: runs a command that the user chose.

use crate::common::Sandbox;

const MEASURE: [&str; 8] = [
    "measure",
    "timer",
    "-q",
    "-D",
    "600ms",
    "--policy",
    "other",
    "--on-outlier",
];

#[test]
fn outlier_command_knows_recording_and_latency() {
    let place = Sandbox::new();
    let said = place.path("said");
    let script = format!(
        "echo $PUNCTUAL_RECORDING $PUNCTUAL_LATENCY_NS $PUNCTUAL_CPU >> {}; echo on stdout",
        said.display()
    );
    // With this threshold, each wake-up is an outlier.
    let mut command = place.command("");
    command.args(MEASURE).arg(&script);
    command.args(["--threshold", "1ns", "--json", "-"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let recording =
        punctual_model::Recording::from_json(&crate::common::text(&output.stdout)).unwrap();
    let text = std::fs::read_to_string(&said).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words[0], recording.id.to_string());
    assert!(words[1].parse::<u64>().unwrap() > 1);
    assert!(words[2].parse::<u32>().is_ok());
    // The command runs once a second. All other outliers are only counted. On a busy machine, the run
    // may last for longer than a second.
    let runs = text.lines().count() as u64;
    assert!(
        runs <= 1 + recording.duration_ns.0 / 1_000_000_000,
        "{text}"
    );
    let ran = format!(
        "--on-outlier ran {};",
        punctual_model::counted(runs, "time", "times")
    );
    let counted = |warning: &String| warning.contains(&ran);
    assert!(recording.warnings.iter().any(counted), "{recording:?}");
}

#[test]
fn failed_command_is_reported_recording_kept() {
    let place = Sandbox::new();
    let mut command = place.command("");
    command.args(MEASURE).args(["exit 7", "--threshold", "1ns"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let shown = crate::common::text(&output.stdout);
    // The command runs once a second, and the run may take longer on a busy machine.
    let all_failed = (1..60).any(|n| shown.contains(&format!("failed in {n} of {n} runs")));
    assert!(all_failed, "{shown}");
    assert!(!place.last().threads.is_empty());
}

#[test]
fn a_limit_and_its_use_belong_together() {
    let place = Sandbox::new();
    let wrong = place.refused("measure timer -D 1s --on-outlier true", 2);
    assert!(wrong.contains("--on-outlier needs a limit"), "{wrong}");
    let wrong = place.refused("measure timer -D 1s --threshold 50us", 2);
    assert!(wrong.contains("--on-outlier"), "{wrong}");
}
