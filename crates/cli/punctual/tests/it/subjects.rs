//! Tests of running applications and commands that print numbers, which are measured in place of a
//! probe: bad input, and applications that change.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::checking::Slow;
use crate::common::{Sandbox, eventually, signal, text};
use crate::experimenting::{alone, setting};
use punctual_model::{
    Checkup, Experiment, ExperimentState, Improvement, JudgedBy, NumbersExperiment,
};
use punctual_testing::skip;

/// A shell under another name, which is ended with the processes that it started.
struct Shell(Child);

impl Shell {
    fn start(place: &Sandbox, name: &str, script: &str) -> Self {
        use std::os::unix::process::CommandExt;
        let program = place.path(name);
        if !program.exists() {
            std::fs::copy("/bin/sh", &program).unwrap();
        }
        let mut command = Command::new(&program);
        command.args(["-c", script]).current_dir(place.path(""));
        command.stdout(Stdio::null()).process_group(0);
        let shell = Self(command.spawn().unwrap());
        assert!(eventually(|| shell.name() == name), "{}", shell.name());
        shell
    }

    fn name(&self) -> String {
        let comm = std::fs::read_to_string(format!("/proc/{}/comm", self.0.id()));
        comm.unwrap_or_default().trim().to_owned()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        use rustix::process::{Pid, Signal, kill_process_group};
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

const JOBS: &str = "while :; do sleep 0.02; done";

fn script(place: &Sandbox, name: &str, text: &str) {
    let path: PathBuf = place.path(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn experiments(place: &Sandbox) -> Vec<Experiment> {
    serde_json::from_str(&place.done("experiment list --json")).unwrap()
}

/// Ends a check after `change`, and returns its statements about the changes; `None` if it cannot run
/// here.
fn changes(place: &Sandbox, line: &str, change: impl FnOnce()) -> Option<String> {
    let mut child = place.spawn(&format!("check --json -q --budget 1s -D 60s {line}"));
    let mut ended = false;
    let measures = || {
        ended = child.try_wait().unwrap().is_some();
        ended || !place.listed().is_empty()
    };
    assert!(eventually(measures), "the check does not begin");
    if !ended {
        place.wait_for_rows();
        change();
        signal(&child, "INT");
    }
    let output = child.wait_with_output().unwrap();
    if output.stdout.is_empty() {
        punctual_testing::skip_refused("check --comm", text(&output.stderr));
        return None;
    }
    let checkup: Checkup = serde_json::from_slice(&output.stdout).unwrap();
    Some(checkup.lacking.join("\n"))
}

#[test]
fn unknown_subject_is_refused_with_what_exists() {
    let place = Sandbox::new();
    let shell = Shell::start(&place, "motionloop7", JOBS);
    for verb in [
        "check --budget 1ms",
        "experiment --budget 1ms --b true",
        "improve --budget 1ms",
        "explain",
    ] {
        for (subject, parts) in [
            (
                "--comm motionlop7",
                [
                    "no thread to watch: comm motionlop7; running names: ",
                    "motionloop7",
                ],
            ),
            (
                "--pid 4194999",
                ["no process 4194999; processes that started last: ", "(pid "],
            ),
            (
                "--cgroup /nowhere",
                [
                    "no control group /nowhere",
                    "control groups with processes: ",
                ],
            ),
            (
                "--unit no-such-unit",
                [
                    "belongs to a unit no-such-unit.service",
                    "running services: ",
                ],
            ),
        ] {
            let said = place.refused(&format!("{verb} {subject}"), 2);
            for part in parts {
                assert!(said.contains(part), "{verb} {subject}: {part}: {said}");
            }
            assert!(said.len() < 1_000, "{said}");
        }
    }
    drop(shell);
    assert!(!place.path("store.db").exists() || place.listed().is_empty());
}

/// The setting is in force when the command fails, which the command itself writes down.
#[test]
fn failing_numbers_leave_no_setting_changed() {
    let (place, _alone) = (Sandbox::new(), alone());
    let Some(value) = setting() else {
        skip!(Right, "vm.swappiness cannot be changed");
        return;
    };
    let tried = if value == "59" { "58" } else { "59" };
    let line = format!(
        "experiment --set swappiness={tried} --pairs 6 --wash-out 1ms -q --deadline 500ms --numbers"
    );
    for (number, (fault, part)) in [
        ("true", "no number was printed"),
        ("echo 1; echo 2", "2 numbers were printed where one is due"),
        ("echo 1 2 3", "'1 2 3' is neither a number"),
        ("echo 1; echo broken >&2; exit 7", "exit status 7): "),
        ("kill -9 $$", "failed ("),
        (
            "echo begun; sleep 600",
            "had not ended after 500 ms; --deadline allows more): begun",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        script(&place, "first", fault);
        let said = place.refused(&format!("{line} ./first"), 1);
        assert!(said.contains(part), "{fault}: {said}");
        assert_eq!(setting().as_deref(), Some(value.as_str()), "{fault}");
        assert_eq!(experiments(&place).len(), number, "{fault}");
        let later = format!(
            "[ $PUNCTUAL_BLOCK$PUNCTUAL_SIDE = 2b ] || exec echo 1\n\
             cat /proc/sys/vm/swappiness >in-force\n{fault}"
        );
        script(&place, "later", &later);
        let said = place.refused(&format!("{line} ./later"), 1);
        assert!(said.contains(part), "{fault}: {said}");
        let in_force = std::fs::read_to_string(place.path("in-force")).unwrap();
        assert_eq!(in_force.trim(), tried, "{fault}");
        assert_eq!(setting().as_deref(), Some(value.as_str()), "{fault}");
        // The blocks before the fault stay in the store.
        let stored = &experiments(&place)[0];
        let blocks = stored.numbers.as_ref().unwrap().blocks.len();
        assert_eq!(stored.state, ExperimentState::Failed, "{fault}");
        assert!((4..=5).contains(&blocks), "{fault}: {blocks}");
    }
    script(&place, "slow", "sleep 0.3; echo 1");
    let mut child = place.spawn(&format!("{line} ./slow"));
    let mut ended = false;
    let in_second_round = || {
        ended = child.try_wait().unwrap().is_some();
        let rounds = experiments(&place)[0]
            .numbers
            .as_ref()
            .unwrap()
            .complete_rounds();
        ended || (rounds == 1 && setting().as_deref() == Some(tried))
    };
    assert!(eventually(in_second_round) && !ended);
    signal(&child, "KILL");
    child.wait().unwrap();
    assert!(eventually(|| setting().as_deref() == Some(value.as_str())));
    let killed = &experiments(&place)[0];
    assert_eq!(killed.state, ExperimentState::Interrupted);
    let said = place.refused("experiment resume", 2);
    assert!(
        said.contains("compares numbers and cannot continue"),
        "{said}"
    );
}

#[test]
fn numbers_are_kept_in_the_store() {
    let place = Sandbox::new();
    script(
        &place,
        "one",
        "[ $PUNCTUAL_SIDE = a ] && echo 1 ms || echo 2 ms",
    );
    let line = "experiment --numbers ./one --b true --pairs 6 --wash-out 1ms -q --json";
    let printed = place.done(&format!("{line} --label twice -o page.html"));
    let printed: NumbersExperiment = serde_json::from_str(&printed).unwrap();
    let stored = &experiments(&place)[0];
    assert_eq!(stored.numbers.as_deref(), Some(&printed));
    assert_eq!(stored.state, ExperimentState::Finished);
    let page = std::fs::read_to_string(place.path("page.html")).unwrap();
    assert!(page.contains("b: the number is worse"), "{page}");
    for line in [
        "experiment show",
        "experiment list",
        "experiment report -o -",
    ] {
        let said = place.done(line);
        assert!(
            said.contains("worse") && said.contains("twice"),
            "{line}: {said}"
        );
    }
    assert!(place.done("experiment list").contains("6/6"));
    let said = place.refused("experiment plot", 2);
    assert!(said.contains("has no late slots"), "{said}");
    let said = place.refused("experiment resume", 2);
    assert!(said.contains("already finished"), "{said}");
    // It moves to another store with the others.
    let other = Sandbox::new();
    other.done(&format!("store merge {}", place.path("store.db").display()));
    assert_eq!(experiments(&other)[0].numbers, stored.numbers);
    place.done("experiment delete last");
    assert!(experiments(&place).is_empty());
    // Without a pair, nothing is kept.
    place.refused("experiment --numbers true --b true", 1);
    assert!(experiments(&place).is_empty());
}

#[test]
fn hanging_command_of_a_side_is_ended() {
    let place = Sandbox::new();
    script(
        &place,
        "hangs",
        "sleep 600 & echo it hangs; echo $! >child; wait",
    );
    let line = "experiment --block 500ms --wash-out 50ms --pairs 6 --cpus 0 -q";
    let said = place.refused(&format!("{line} --b ./hangs --deadline 400ms"), 1);
    assert!(said.contains("had not ended after 400 ms"), "{said}");
    assert!(said.contains("it hangs"), "{said}");
    let child = std::fs::read_to_string(place.path("child")).unwrap();
    let comm = format!("/proc/{}/comm", child.trim());
    let ended = || std::fs::read_to_string(&comm).unwrap_or_default() != "sleep\n";
    assert!(eventually(ended), "{child}");
    let said = place.refused(&format!("{line} --set swappiness=7 --deadline 1s"), 2);
    assert!(
        said.contains("--deadline applies only to the commands"),
        "{said}"
    );
}

/// The check goes on with the new processes and names, and states this.
#[test]
fn forked_renamed_and_restarted_application_is_told() {
    let place = Sandbox::new();
    let changing = "until [ -e go ]; do sleep 0.02; done
        while :; do sleep 0.02; done &
        printf renamed9 >/proc/$$/comm
        while :; do sleep 0.02; done";
    let shell = Shell::start(&place, "forking9", changing);
    let Some(told) = changes(&place, "--comm forking9", || {
        std::fs::write(place.path("go"), "").unwrap();
        assert!(
            eventually(|| shell.name() == "renamed9"),
            "{}",
            shell.name()
        );
    }) else {
        return;
    };
    let renamed = format!("forking9-{} is now renamed9", shell.0.id());
    assert!(told.contains(&renamed), "{told}");
    assert!(
        told.contains("new processes joined the watched ones"),
        "{told}"
    );
    drop(shell);
    let other = Sandbox::new();
    let mut shells = vec![Shell::start(&other, "again9", JOBS)];
    let told = changes(&other, "--comm again9", || {
        shells.clear();
        std::thread::sleep(Duration::from_secs(1));
        shells.push(Shell::start(&other, "again9", JOBS));
        std::thread::sleep(Duration::from_secs(2));
    });
    let told = told.unwrap();
    assert!(
        told.contains("the watched processes restarted after"),
        "{told}"
    );
    // A process that is selected by its ID is watched without those that it starts.
    let third = Sandbox::new();
    let starts = "until [ -e go ]; do sleep 0.02; done; sleep 600 & touch gone; wait";
    let shell = Shell::start(&third, "starting9", starts);
    let told = changes(&third, &format!("--pid {}", shell.0.id()), || {
        std::fs::write(third.path("go"), "").unwrap();
        assert!(eventually(|| third.path("gone").exists()));
    });
    let told = told.unwrap();
    let started = "the watched processes started others, which were not watched";
    assert!(told.contains(started), "{told}");
}

fn of_jobs(place: &Sandbox, subject: &str) -> Child {
    place.spawn(&format!(
        "experiment {subject} --budget 1s --b true --pairs 6 --block 1s --wash-out 1ms -q --json"
    ))
}

/// A process that ends and starts again, next to threads of the same name: each block goes on, and its
/// recording is stored.
#[test]
fn blocks_of_an_application_are_stored_with_its_changes() {
    let place = Sandbox::new();
    std::fs::copy("/bin/sh", place.path("short9")).unwrap();
    let supervisor = "while :; do ./short9 -c 'sleep 0.1; sleep 0.1; sleep 0.1'; done";
    let _shell = Shell::start(&place, "super9", supervisor);
    let _threads = [1, 2, 3].map(|_| Slow::start("short9"));
    let output: Output = of_jobs(&place, "--comm short9").wait_with_output().unwrap();
    if output.stdout.is_empty() {
        punctual_testing::skip_refused("experiment --comm", text(&output.stderr));
        return;
    }
    let found: NumbersExperiment = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        found.blocks.iter().any(|block| !block.notes.is_empty()),
        "{found:#?}"
    );
    assert!(
        found.sentence.contains("blocks, which went on, "),
        "{}",
        found.sentence
    );
    let stored = &experiments(&place)[0];
    assert_eq!(stored.numbers.as_deref(), Some(&found));
    assert_eq!(stored.recordings().len(), 12);
    assert!(place.listed().is_empty());
    let blocks = place.done("list --blocks --json");
    let blocks: Vec<serde_json::Value> = serde_json::from_str(&blocks).unwrap();
    assert_eq!(blocks.len(), 12);
    for id in stored.recordings() {
        let shown = place.done(&format!("show {id} --json"));
        let recording: punctual_model::Recording = serde_json::from_str(&shown).unwrap();
        let judged = recording.judgement.map(|one| one.by);
        assert_eq!(judged, Some(JudgedBy::Experiment));
    }
    let [first, second] = [0, 1].map(|nth| stored.recordings()[nth].to_string());
    place.done(&format!("compare {first} {second}"));
    place.done("experiment plot --kind latency -o latency.svg");
    place.done("experiment delete last");
    assert_eq!(place.done("list --blocks --json").trim(), "[]");
}

/// The application does not run yet when the experiment begins.
#[test]
fn commands_of_an_experiment_start_the_application() {
    let place = Sandbox::new();
    std::fs::copy("/bin/sh", place.path("begun9")).unwrap();
    script(
        &place,
        "begin",
        &format!("./begun9 -c '{JOBS}' >/dev/null 2>&1 &"),
    );
    let long = ":;".repeat(300);
    let output = place.run(&format!(
        "experiment --comm begun9 --budget 1s --a ./begin;{long} --b ./begin --pairs 6 --block 1s \
         --wash-out 500ms -q --json"
    ));
    if output.stdout.is_empty() {
        punctual_testing::skip_refused("experiment --comm", text(&output.stderr));
        return;
    }
    let found: NumbersExperiment = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found.blocks.len(), 12, "{found:#?}");
    // A label has at most 256 characters.
    let label = experiments(&place)[0].label.clone().unwrap();
    assert!(
        label.starts_with("a: ./begin;:;") && label.ends_with("… / b: ./begin"),
        "{label}"
    );
}

/// The experiments of a search are stored like others, with the recordings of their blocks.
#[test]
fn search_for_an_application_is_stored() {
    let (place, _alone) = (Sandbox::new(), alone());
    let _shell = Shell::start(&place, "improved9", JOBS);
    let line = "improve --comm improved9 --budget 1us -D 1h --block 1s --wash-out 50ms -q --json";
    let mut child = place.spawn(line);
    let mut ended = false;
    let has_round = || {
        ended = child.try_wait().unwrap().is_some();
        let all = place.run("experiment list --json").stdout;
        let all: Vec<Experiment> = serde_json::from_slice(&all).unwrap_or_default();
        let numbers = all.first().and_then(|one| one.numbers.as_ref());
        ended || numbers.is_some_and(|one| one.complete_rounds() > 0)
    };
    assert!(eventually(has_round));
    if ended {
        let output = child.wait_with_output().unwrap();
        if output.status.success() {
            skip!(Right, "no setting that may be tried can be changed");
        } else {
            punctual_testing::skip_refused("improve --comm", text(&output.stderr));
        }
        return;
    }
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let found: Improvement = serde_json::from_slice(&output.stdout).unwrap();
    let stored = &experiments(&place)[0];
    assert_eq!(found.stages[0].experiment, Some(stored.id));
    assert_eq!(stored.label.as_deref(), Some("improve: screening"));
    assert_eq!(stored.state, ExperimentState::Stopped);
    let numbers = stored.numbers.as_ref().unwrap();
    assert_eq!(numbers.arms.len(), found.stages[0].arms as usize);
    assert_eq!(stored.recordings().len(), numbers.blocks.len());
    let shown = place.done(&format!("show {} --json", stored.recordings()[0]));
    let recording: punctual_model::Recording = serde_json::from_str(&shown).unwrap();
    let judged = recording.judgement.unwrap();
    assert_eq!(judged.by, JudgedBy::Improve);
    assert!(judged.sentence.contains("stage screening"), "{judged:?}");
    for line in ["experiment show", "experiment report -o -"] {
        let said = place.done(line);
        assert!(said.contains("late jobs"), "{line}: {said}");
    }
}

/// A process that is selected by its ID cannot be replaced, so the block is void.
#[test]
fn block_of_an_ended_process_is_void() {
    let place = Sandbox::new();
    let shell = Shell::start(&place, "ending9", JOBS);
    let mut child = of_jobs(&place, &format!("--pid {}", shell.0.id()));
    let mut ended = false;
    let has_pairs = || {
        ended = child.try_wait().unwrap().is_some();
        let all = place.run("experiment list --json").stdout;
        let all: Vec<Experiment> = serde_json::from_slice(&all).unwrap_or_default();
        let blocks = all.first().and_then(|one| one.numbers.as_ref());
        ended || blocks.is_some_and(|one| one.complete_rounds() > 0)
    };
    assert!(eventually(has_pairs));
    drop(shell);
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    if ended {
        punctual_testing::skip_refused("experiment --pid", said);
        return;
    }
    assert_ne!(output.status.code(), Some(0), "{said}");
    let void = said.contains("ended in a block") && said.contains("the block is void");
    // It may have ended between two blocks.
    assert!(void || said.contains("there is no process"), "{said}");
    let stored = &experiments(&place)[0];
    assert_eq!(stored.state, ExperimentState::Failed);
    assert_eq!(
        stored.recordings().len(),
        stored.numbers.as_ref().unwrap().blocks.len()
    );
}

#[test]
fn applications_are_compared_across_a_restart() {
    let place = Sandbox::new();
    let record = |name: &str, threads: usize| {
        let _threads: Vec<Slow> = (0..threads).map(|_| Slow::start(name)).collect();
        let output = place.run(&format!("explain --comm {name} -D 3s -q"));
        if output.status.code() != Some(0) {
            punctual_testing::skip_refused("explain --comm", text(&output.stderr));
        }
        output.status.code() == Some(0)
    };
    if !record("poolwork9", 2) {
        return;
    }
    assert!(record("poolwork9", 3) && record("elsewhere9", 1));
    let said = place.done("compare last~2 last~1");
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("the number of threads poolwork changed: 2, then 3"),
        "{said}"
    );
    let said = place.refused("compare last~1 last", 1);
    for part in [
        "no thread of the candidate matches one of the baseline",
        "baseline: comm poolwork9 with 3 threads: poolwork (3 threads)",
        "candidate: comm elsewhere9 with 1 thread: elsewhere",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
