//! Stops of all threads by the runtime of a program, as causes of late jobs.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use crate::common::Sandbox;
use crate::pools::built_with_go;
use crate::stage::Stage;
use punctual_model::{Recording, Share, ShareKind};
use punctual_testing::Running;

/// Watches the program in one of its modes.
fn watched(place: &Sandbox, program: &std::path::Path, mode: &str, how: &str) -> Recording {
    let app = Command::new(program)
        .arg(mode)
        .env("GODEBUG", "asyncpreemptoff=1")
        .stdout(Stdio::piped())
        .spawn();
    let mut app = Running(app.unwrap());
    let mut first = String::new();
    let mut output = BufReader::new(app.0.stdout.take().unwrap());
    output.read_line(&mut first).unwrap();
    assert_eq!(first, "runs\n");
    let pid = app.0.id();
    place.done(&format!(
        "explain --pid {pid} -q --release nanosleep --budget 1ms -D 3s {how}"
    ));
    place.last()
}

/// Returns the number of shares that are waits for a stop of this kind.
fn stops(recording: &Recording, kind: &str) -> usize {
    let is_stop =
        |share: &&Share| share.kind() == ShareKind::Waiting && share.who().starts_with(kind);
    let outliers = &recording.explanation.as_ref().unwrap().outliers;
    let shares = outliers.iter().flat_map(|outlier| &outlier.blame.shares);
    shares.filter(is_stop).count()
}

const COLLECTION: &str = "a garbage collection of stops-";
const OTHER: &str = "a stop of all goroutines by stops-";

#[test]
fn stops_of_go_are_named_by_their_reason() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    let Some(program) = built_with_go(&place, "stops") else {
        return;
    };
    for (mode, named, not) in [("collect", COLLECTION, OTHER), ("stats", OTHER, COLLECTION)] {
        for how in ["", "--detail full"] {
            let watched = || watched(&place, &program, mode, how);
            // A stop is only a cause if the thread's sleep ends meanwhile.
            let mut runs = (0..4).map(|_| watched());
            let is_named = |recording: &Recording| stops(recording, named) > 0;
            let found = runs.by_ref().take(3).find(is_named);
            let recording = found.unwrap_or_else(watched);
            if let Some(why) = recording
                .warnings
                .iter()
                .find(|text| text.contains("Go process"))
            {
                punctual_testing::skip_refused("uprobes", why);
                return;
            }
            assert_eq!(stops(&recording, not), 0, "{mode} {how}");
            let causes = &recording.explanation.as_ref().unwrap().causes;
            match punctual_testing::crowded() {
                _ if stops(&recording, named) > 0 => {}
                Some(crowd) => punctual_testing::skip!(Quiet, "{crowd}: stops of a Go program"),
                None => panic!("{mode} {how}: {causes:#?}"),
            }
        }
    }
    // Without a stop, no wait is called one.
    let recording = watched(&place, &program, "none", "");
    assert_eq!(stops(&recording, COLLECTION) + stops(&recording, OTHER), 0);
}

#[test]
fn a_stripped_go_program_is_reported() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    let Some(program) = built_with_go(&place, "stops") else {
        return;
    };
    let stripped = Command::new("strip").arg(&program).status();
    if !stripped.is_ok_and(|status| status.success()) {
        punctual_testing::skip!(Program, "a stripped Go program: no strip(1)");
        return;
    }
    let recording = watched(&place, &program, "none", "");
    let said = |text: &String| text.contains("it was stripped");
    assert!(
        recording.warnings.iter().any(said),
        "{:?}",
        recording.warnings
    );
}
