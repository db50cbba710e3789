//! `explain --profile` names the function that makes jobs late first.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Sandbox, text};
use crate::stage::Stage;
use punctual_model::{Cell, Recording};
use punctual_testing::Running;
use serde_json::Value;

/// Builds a test program. Returns `None` and prints the reason if the compiler
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

/// Without frame pointers, as distributions build programs.
const WITHOUT: [&str; 4] = ["cc", "-O2", "-fomit-frame-pointer", "-pthread"];
const CPP_WITHOUT: [&str; 4] = ["c++", "-O2", "-fomit-frame-pointer", "-pthread"];

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

/// Returns the functions of each stack in a file for the Firefox Profiler, the outermost first.
fn stacks(path: &Path) -> Vec<Vec<String>> {
    let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let column = |table: &Value, name: &str| table[name].as_array().unwrap().clone();
    let number = |value: &Value| value.as_u64().map(|number| number as usize);
    let mut all = Vec::new();
    for thread in file["threads"].as_array().unwrap() {
        let text = thread["stringArray"]
            .as_array()
            .or(file["shared"]["stringArray"].as_array());
        let text = text.unwrap();
        let [prefixes, frames] =
            ["prefix", "frame"].map(|name| column(&thread["stackTable"], name));
        let functions = column(&thread["frameTable"], "func");
        let names = column(&thread["funcTable"], "name");
        for stack in column(&thread["samples"], "stack") {
            let mut next = number(&stack);
            let mut found = Vec::new();
            while let Some(at) = next {
                let function = number(&functions[number(&frames[at]).unwrap()]).unwrap();
                let name = number(&names[function]).unwrap();
                found.push(text[name].as_str().unwrap().to_owned());
                next = number(&prefixes[at]);
            }
            found.reverse();
            all.push(found);
        }
    }
    all
}

/// Without frame pointers, the chain of the kernel shows other functions, or none.
#[test]
fn callers_without_frame_pointers_are_named() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let c = ["main", "handle", "serve"];
    let cpp = ["main", "handle", "Checked::serve"];
    for (source, compiler, callers) in [
        ("slow.c", &WITHOUT, c),
        ("programs/slow.cpp", &CPP_WITHOUT, cpp),
    ] {
        let place = Sandbox::new();
        let Some(program) = built(&place, source, compiler) else {
            continue;
        };
        for (mode, planted) in [("burn", "planted_burn"), ("wait", "planted_wait")] {
            let recording = profiled(&place, &program, mode, "late.json");
            assert_eq!(first(&recording).0, planted, "{:?}", recording.tables);
            let stacks = stacks(&place.path("late.json"));
            let planted: Vec<_> = (stacks.iter())
                .filter(|stack| stack.iter().any(|name| name == planted))
                .collect();
            let is_whole = |stack: &&&Vec<String>| {
                let mut names = stack.iter();
                // Some frames in between belong to the standard library.
                callers
                    .iter()
                    .all(|caller| names.any(|name| name == caller))
            };
            // The innermost instructions of a function may be those of a library without a description.
            let whole = planted.iter().filter(is_whole).count();
            assert!(whole > 0 && whole * 10 >= planted.len() * 9, "{planted:#?}");
        }
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
