//! `explain --profile` names the function that makes jobs late first.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Sandbox, text};
use crate::stage::Stage;
use punctual_model::{Cell, Recording};
use punctual_testing::Running;

/// Builds a test program with frame pointers. Returns `None` and prints the reason if the compiler
/// is missing.
fn built(place: &Sandbox, source: &str, compiler: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/culprits")
        .join(source);
    let program = place.path("slow");
    let output = Command::new(compiler[0])
        .args(&compiler[1..])
        .arg("-o")
        .args([&program, &source])
        .current_dir(place.path(""))
        .output();
    match output {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => panic!("{}", text(&output.stderr)),
        Err(error) => {
            punctual_testing::skip!(Program, "a program to profile: {}: {error}", compiler[0]);
            None
        }
    }
}

const C: [&str; 4] = ["cc", "-O1", "-fno-omit-frame-pointer", "-pthread"];
const RUST: [&str; 6] = [
    "rustc",
    "--edition",
    "2024",
    "-O",
    "-C",
    "force-frame-pointers=yes",
];

/// Profiles a mode of a program, and returns the recording and the files.
fn profiled(place: &Sandbox, program: &Path, mode: &str, file: &str) -> Recording {
    let app = Running(Command::new(program).arg(mode).spawn().unwrap());
    let (pid, path) = (app.0.id(), place.path(file));
    place.done(&format!(
        "explain --pid {pid} -q --release nanosleep --budget 5ms -D 4s --profile {}",
        path.display()
    ));
    place.last()
}

/// Returns the first row of the table of functions: the name, how the time is spent, and its share.
fn first(recording: &Recording) -> (String, String, f64) {
    let table = recording
        .tables
        .iter()
        .find(|one| one.name == "lateness_profile");
    let row = table.and_then(|table| table.rows.first());
    let row = row.unwrap_or_else(|| panic!("{:?} {:?}", recording.tables, recording.warnings));
    match row.as_slice() {
        [Cell::Text(name), Cell::Text(how), _, Cell::Number(share)] => {
            (name.clone(), how.clone(), *share)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn planted_functions_are_first() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    for (source, compiler) in [("slow.c", &C[..]), ("programs/slow.rs", &RUST)] {
        let place = Sandbox::new();
        let Some(program) = built(&place, source, compiler) else {
            continue;
        };
        let is_named = |name: &str, planted: &str| name.rsplit("::").next() == Some(planted);
        let recording = profiled(&place, &program, "burn", "burn.svg");
        let (name, how, share) = first(&recording);
        assert!(is_named(&name, "planted_burn"), "{:?}", recording.tables);
        assert!(how.starts_with("on the CPU"), "{how}");
        assert!(share > 0.0, "{:?}", recording.tables);
        let svg = std::fs::read_to_string(place.path("burn.svg")).unwrap();
        assert!(
            svg.contains("planted_burn (") && svg.ends_with("</svg>"),
            "{svg}"
        );

        let recording = profiled(&place, &program, "wait", "wait.pb.gz");
        let (name, how, _) = first(&recording);
        assert!(is_named(&name, "planted_wait"), "{:?}", recording.tables);
        assert!(
            how.starts_with("waiting, in ") && how.contains("[woken by holder"),
            "{how}"
        );
        let shown = place.done("show last");
        assert!(shown.contains("more than the mean of"), "{shown}");
        read_by_pprof(&place);
    }
}

/// Go's own reader accepts the file, and shows the waiting function.
fn read_by_pprof(place: &Sandbox) {
    let file = place.path("wait.pb.gz");
    let output = Command::new("go")
        .args(["tool", "pprof", "-top", "-cum", "-sample_index=excess"])
        .arg(file)
        .env("HOME", place.path(""))
        .output();
    match output {
        Ok(output) if output.status.success() => {
            let shown = text(&output.stdout);
            assert!(shown.contains("planted_wait"), "{shown}");
        }
        Ok(output) => panic!("{}", text(&output.stderr)),
        Err(error) => punctual_testing::skip!(Program, "go tool pprof: go: {error}"),
    }
}

#[test]
fn profile_without_late_jobs_is_not_written() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    let Some(program) = built(&place, "slow.c", &C) else {
        return;
    };
    let app = Running(Command::new(program).spawn().unwrap());
    let (pid, path) = (app.0.id(), place.path("none.json"));
    let command = format!(
        "explain --pid {pid} -q --release nanosleep --budget 10s -D 2s --profile {}",
        path.display()
    );
    let output = place.run(&command);
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("no job was late"), "{stderr}");
    assert!(!path.exists());
}
