//! Tests of `experiment`, from the command line to the report. They do not expect any particular
//! outcome of a measurement, because these machines are not quiet.

use std::process::Output;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::common::{Sandbox, eventually, signal, text};
use punctual_model::{Effect, Experiment, ExperimentState, Improvement};
use punctual_testing::skip;

/// Options for short blocks and a threshold that some wake-ups exceed.
const SHORT: &str = "--block 500ms --wash-out 50ms --pairs 6 --cpus 0 --parameter interval=500us";

/// Files of settings that the audit may recommend.
const FILES: [&str; 7] = [
    "/proc/sys/kernel/timer_migration",
    "/proc/sys/kernel/sched_autogroup_enabled",
    "/proc/sys/vm/stat_interval",
    "/sys/kernel/rcu_normal",
    "/sys/module/haltpoll/parameters/guest_halt_poll_ns",
    "/sys/module/pcie_aspm/parameters/policy",
    SWAPPINESS,
];

const SWAPPINESS: &str = "/proc/sys/vm/swappiness";

fn experiment(output: &Output) -> Experiment {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)))
}

fn with_commands(place: &Sandbox, a: &str, b: &str, more: &str) -> Output {
    let mut command = place.command(&format!("experiment --json {SHORT} {more}"));
    command.args(["--a", a, "--b", b]).output().unwrap()
}

fn code(experiment: &Experiment) -> i32 {
    let not_proven = |one: &punctual_model::ArmResult| one.effect == Effect::NotProven;
    if experiment.results.iter().any(not_proven) {
        4
    } else {
        0
    }
}

/// Only one test at a time changes settings, because each test has its own journal.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the value of a setting that does not affect these measurements. Returns `None` if the
/// setting cannot be changed here.
pub(crate) fn setting() -> Option<String> {
    let value = std::fs::read_to_string(SWAPPINESS).ok()?.trim().to_owned();
    let writable = rustix::process::geteuid().is_root()
        && std::fs::OpenOptions::new()
            .write(true)
            .open(SWAPPINESS)
            .is_ok();
    writable.then_some(value)
}

/// Returns the value of that setting, another value, and an experiment that tries it.
fn changing() -> Option<(String, &'static str, String)> {
    let Some(value) = setting() else {
        skip!(Right, "{SWAPPINESS} cannot be changed");
        return None;
    };
    let tried = if value == "59" { "58" } else { "59" };
    let line = format!("experiment --set swappiness={tried} --no-early-end {SHORT}");
    Some((value, tried, line))
}

#[test]
fn two_commands_are_compared_in_random_order() {
    let place = Sandbox::new();
    let hog = "echo $PUNCTUAL_SIDE $PUNCTUAL_BLOCK; while :; do :; done &";
    let output = with_commands(&place, "true", hog, "--seed 11 --no-early-end -o page.html");
    let one = experiment(&output);
    assert_eq!(
        output.status.code(),
        Some(code(&one)),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(
        (one.state, one.blocks.len()),
        (ExperimentState::Finished, 12)
    );
    assert_eq!(one.plan.seed, 11);
    assert!(
        one.blocks
            .windows(2)
            .any(|two| two[0].arm == 1 && two[1].arm == 0)
    );
    for (place, block) in one.blocks.iter().enumerate() {
        assert!(
            block.measured_ns.0 > 0 && block.recording.is_some(),
            "{block:?}"
        );
        assert_eq!(block.halves[0] + block.halves[1], block.late);
        let wrote = (block.arm == 1).then(|| format!("b {place}"));
        assert_eq!(block.output, wrote, "{block:?}");
    }
    let result = &one.results[0];
    assert_eq!(result.pairs, 6);
    assert!(
        result.p > 0.0 && result.p <= 1.0 && result.wealth > 0.0,
        "{result:?}"
    );
    let sum = |arm| {
        one.blocks
            .iter()
            .filter(|block| block.arm == arm)
            .map(|block| block.late)
            .sum::<u64>()
    };
    assert_eq!(result.late, [sum(0), sum(1)]);
    // The statistical power is printed before the first block.
    assert!(
        text(&output.stderr).contains("in 80% of the cases"),
        "{}",
        text(&output.stderr)
    );

    let page = std::fs::read_to_string(place.path("page.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 2, "{} bytes", page.len());
    let shown = place.done("experiment show");
    assert!(shown.contains("seed 11"), "{shown}");
    assert!(shown.contains("12 blocks measured in 0.1 min"), "{shown}");
    let markdown = place.done("experiment report -o report.md");
    assert!(markdown.is_empty());
    let listed: Vec<Experiment> =
        serde_json::from_str(&place.done("experiment list --json")).unwrap();
    assert_eq!(listed, std::slice::from_ref(&one));
    place.done("experiment plot -o strip.svg");
    place.done("experiment plot --kind latency -o latency.png");
    let power = place.run("experiment plot --kind power -o power.svg");
    if power.status.code() != Some(0) {
        let stderr = text(&power.stderr);
        assert!(stderr.contains("no energy counter"), "{stderr}");
    }

    // Blocks are listed only on request.
    assert!(place.listed().is_empty());
    let noted = text(&place.run("list").stderr);
    assert!(noted.contains("only blocks of experiments"), "{noted}");
    let blocks: Vec<serde_json::Value> =
        serde_json::from_str(&place.done("list --blocks --json")).unwrap();
    assert_eq!(blocks.len(), 13);
    place.done(&format!("experiment delete {}", one.id.short()));
    let blocks = place.done("list --blocks --json");
    assert_eq!(blocks.trim(), "[]");
}

#[test]
fn a_setting_is_applied_and_put_back() {
    let (place, _alone) = (Sandbox::new(), alone());
    let Some((value, tried, line)) = changing() else {
        return;
    };
    let output = place.run(&format!("{line} --json"));
    let one = experiment(&output);
    assert_eq!(
        output.status.code(),
        Some(code(&one)),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(setting().as_deref(), Some(value.as_str()));
    assert_eq!(one.plan.arms[1].name, format!("swappiness={tried}"));
    assert_eq!(one.complete_rounds(), 6);
}

/// The experiment is killed while the setting is in force. The next command restores the setting,
/// and the experiment then continues with the blocks that it has.
#[test]
fn a_killed_experiment_is_undone_and_resumed() {
    let (place, _alone) = (Sandbox::new(), alone());
    let Some((value, tried, line)) = changing() else {
        return;
    };
    let mut child = place.spawn(&line);
    let second_round = || {
        let output = place.command("experiment list --json").output().unwrap();
        let listed: Vec<Experiment> = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let rounds = listed.first().map_or(0, Experiment::complete_rounds);
        rounds >= 1 && setting().as_deref() == Some(tried)
    };
    assert!(
        eventually(second_round),
        "it does not come to the second round"
    );
    signal(&child, "KILL");
    child.wait().unwrap();
    let listed: Vec<Experiment> =
        serde_json::from_str(&place.done("experiment list --json")).unwrap();
    assert_eq!(setting().as_deref(), Some(value.as_str()));
    assert_eq!(listed[0].state, ExperimentState::Interrupted);
    let before = listed[0].complete_rounds() as usize * 2;
    let output = place.run("experiment resume --json");
    let one = experiment(&output);
    assert_eq!(
        output.status.code(),
        Some(code(&one)),
        "{}",
        text(&output.stderr)
    );
    assert_eq!((one.id, one.blocks.len()), (listed[0].id, 12));
    assert_eq!(one.blocks[..before], listed[0].blocks[..before]);
    assert_eq!(setting().as_deref(), Some(value.as_str()));
    place.refused("experiment resume", 2);
}

/// A program that hangs cannot undo its changes. A guard process undoes them, even after a kill and
/// without another command.
#[test]
fn settings_return_after_hang_or_kill() {
    let (place, _alone) = (Sandbox::new(), alone());
    let Some((value, tried, line)) = changing() else {
        return;
    };
    for how in ["STOP", "KILL"] {
        let mut child = (place.command(&line))
            // On a busy machine, a program that does not hang may be silent for two seconds.
            .env("PUNCTUAL_GUARD_MS", "5000")
            .stdout(std::process::Stdio::null())
            .stderr(std::fs::File::create(place.path("said")).unwrap())
            .spawn()
            .unwrap();
        let mut ended = false;
        let in_force = || {
            ended = child.try_wait().unwrap().is_some();
            ended || setting().as_deref() == Some(tried)
        };
        let said = || std::fs::read_to_string(place.path("said")).unwrap();
        assert!(eventually(in_force) && !ended, "{how}: {}", said());
        signal(&child, how);
        let back = || setting().as_deref() == Some(value.as_str());
        assert!(eventually(back), "{how}: {:?}", setting());
        // The stopped program must have been ended.
        let status = child.wait().unwrap();
        assert!(!status.success(), "{status}");
    }
}

#[test]
fn stopped_experiment_explains_how_to_resume() {
    let place = Sandbox::new();
    let long = SHORT.replace("--pairs 6", "--pairs 60 --no-early-end");
    let child = place.spawn(&format!("experiment --b true {long}"));
    let begun = || place.run("experiment list --json").stdout.len() > 10;
    assert!(eventually(begun), "no experiment in the store");
    let measured = || {
        let listed: Vec<Experiment> =
            serde_json::from_slice(&place.run("experiment list --json").stdout).unwrap_or_default();
        listed.first().is_some_and(|one| one.pilot.is_some())
    };
    assert!(eventually(measured), "its pilot does not end");
    // A second experiment would disturb the first one.
    let refused = place.refused(
        "experiment --b true --block 500ms --wash-out 50ms --pairs 6",
        1,
    );
    assert!(
        refused.contains("is being measured by experiment"),
        "{refused}"
    );
    for line in ["check -D 10s", "improve -D 1h", "experiment --b true"] {
        let refused = place.refused(&format!("{line} --cpus 0"), 1);
        assert!(refused.contains("--share-cpus"), "{line}: {refused}");
    }
    // The user can allow a second experiment.
    let beside = "experiment --b true --share-cpus --block 250ms --pairs 6 --cpus 0";
    let line =
        format!("{beside} --wash-out 50ms --quiet --parameter interval=500us --threshold 1ns");
    let output = place.run(&line);
    assert!(
        matches!(output.status.code(), Some(0 | 4)),
        "{}",
        text(&output.stderr)
    );
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("punctual experiment resume"));
    place.refused("experiment delete abcdabcd", 1);
    // In the store of another user or machine, the experiment can only be viewed.
    let other = Sandbox::new();
    other.done(&format!("store merge {}", place.path("store.db").display()));
    let listed = other.done("experiment list --json");
    let listed: Vec<Experiment> = serde_json::from_str(&listed).unwrap();
    let stopped = |one: &&Experiment| one.state == ExperimentState::Stopped;
    let id = listed.iter().find(stopped).unwrap().id;
    other.done(&format!("experiment show {id}"));
    let refused = other.refused(&format!("experiment resume {id}"), 1);
    assert!(refused.contains("this user did not start it"), "{refused}");
    other.done(&format!("experiment delete {id}"));
}

#[test]
fn inconclusive_experiment_is_refused_before_measuring() {
    let (place, _alone) = (Sandbox::new(), alone());
    for (line, code, why) in [
        ("", 2, "nothing to compare"),
        ("--set swapiness=1", 2, "did you mean 'swappiness'"),
        ("--set swappiness=10,10", 2, "given twice"),
        ("--set swappiness=10 --a true", 2, "cannot be used with"),
        ("--b true -D 10s", 2, "at least 6 are needed"),
        ("--b true --pairs 5", 2, "give --pairs 6 or more"),
        (
            "--b true --block 1s",
            2,
            "shorter than 5 times the wash-out",
        ),
        ("--b true --parameter x", 2, "is not NAME=VALUE"),
        ("--b true --parameter bogus=1", 2, "bogus"),
        ("--b true --load bogus", 2, "bogus"),
        ("--b true --probe bogus", 2, "bogus"),
        ("--b true --probe work", 2, "needs the parameter iterations"),
        ("--b true -o report.doc", 2, "unknown file extension"),
        ("show", 1, "no experiment 'last'"),
    ] {
        let stderr = place.refused(&format!("experiment {line}"), code);
        assert!(stderr.contains(why), "{line}: {stderr}");
    }
    let mut failing = place.command(&format!("experiment {SHORT}"));
    let output = failing
        .args(["--a", "echo it is broken >&2; exit 3"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("(exit status 3): it is broken"), "{stderr}");
    // If no wake-up exceeds the threshold, a different one is suggested.
    let line = format!("experiment --b true --threshold 30s {SHORT}");
    let stderr = place.refused(&line, 2);
    assert!(
        stderr.contains("a threshold of") && stderr.contains("would suffice"),
        "{stderr}"
    );
    if let Some(value) = setting() {
        let same = place.refused(&format!("experiment --set swappiness={value}"), 2);
        assert!(same.contains("already in effect"), "{same}");
    }
}

/// After Ctrl-C in the first stage, no result is claimed and all settings are restored.
#[test]
fn improve_plans_tries_and_stops() {
    let (place, _alone) = (Sandbox::new(), alone());
    let plan: Improvement = serde_json::from_str(&place.done("improve --dry-run --json")).unwrap();
    assert!(
        plan.tried
            .iter()
            .all(|one| !one.accepted && one.ratio.is_none()),
        "{plan:?}"
    );
    assert!(place.listed().is_empty());
    let line = "improve --json -D 1h --block 300ms --wash-out 50ms --cpus 0 --period 500us";
    let mut child = place.spawn(line);
    let in_first_stage = || {
        let listed = place.run("experiment list --json").stdout;
        let listed: Vec<Experiment> = serde_json::from_slice(&listed).unwrap_or_default();
        listed.iter().any(|one| one.complete_rounds() > 0)
    };
    let mut ended = false;
    let begun = eventually(|| {
        ended = child.try_wait().unwrap().is_some();
        ended || in_first_stage()
    });
    if ended {
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        skip!(Right, "no setting that may be tried can be changed");
        return;
    }
    signal(&child, "INT");
    assert!(begun, "its first stage does not begin");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let stopped: Improvement = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        stopped.stopped && stopped.tried.iter().all(|one| !one.accepted),
        "{stopped:?}"
    );
    assert!(!place.path("improve.toml").exists());
    let experiments = |place: &Sandbox| -> Vec<Experiment> {
        serde_json::from_str(&place.done("experiment list --json")).unwrap()
    };
    let before = experiments(&place);
    assert_eq!(before.len(), 1, "{before:?}");
    // The search continues with its rounds, and is killed again.
    let mut child = place.spawn("improve --resume --quiet");
    let more = || experiments(&place)[0].complete_rounds() > before[0].complete_rounds();
    assert!(eventually(more), "it does not go on");
    signal(&child, "KILL");
    child.wait().unwrap();
    let after = experiments(&place);
    let kept = before[0].complete_rounds() as usize * 2;
    assert_eq!((after.len(), after[0].id), (1, before[0].id));
    assert_eq!(after[0].blocks[..kept], before[0].blocks[..kept]);
    let state = after[0].improvement.as_ref().unwrap();
    assert!(!state.ended && !state.improvement.stopped);
    assert_eq!(state.improvement.tried.len(), stopped.tried.len());
    let other = place.refused("improve --resume -D 3h", 2);
    assert!(other.contains("cannot be used with"), "{other}");
    assert_eq!(place.done("tune status --json").trim(), "null");
    let short = place.refused("improve -D 10s", 2);
    assert!(short.contains("too short to try"), "{short}");
}

/// After kills at random times, all settings are restored. Every second kill happens while a tried
/// setting is in force.
#[test]
fn killed_improve_restores_all_settings() {
    let (place, _alone) = (Sandbox::new(), alone());
    let plan: Improvement = serde_json::from_str(&place.done("improve --dry-run --json")).unwrap();
    let files = || -> Vec<(&str, Option<String>)> {
        let read = |file| std::fs::read_to_string(file).ok();
        FILES.iter().map(|file| (*file, read(file))).collect()
    };
    if plan.tried.is_empty() || setting().is_none() {
        skip!(Right, "no setting that may be tried can be changed");
        return;
    }
    let before = files();
    let kills = std::env::var("PUNCTUAL_KILLS").ok();
    let kills: u32 = kills.and_then(|text| text.parse().ok()).unwrap_or(3);
    let line = "improve --quiet -D 1h --block 300ms --wash-out 50ms --cpus 0 --period 500us";
    let mut random = std::collections::hash_map::RandomState::new();
    for kill in 0..kills {
        let mut child = (place.command(line))
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let moment = std::hash::BuildHasher::hash_one(&random, child.id()) % 1_500;
        random = std::collections::hash_map::RandomState::new();
        if kill % 2 == 1 {
            // Blocks with equal conditions come first, so wait until a setting is being tried.
            assert!(eventually(|| files() != before), "no setting was tried");
        }
        std::thread::sleep(std::time::Duration::from_millis(moment));
        signal(&child, "KILL");
        child.wait().unwrap();
        assert!(
            eventually(|| files() == before),
            "after {moment} ms: {:?}",
            files()
        );
    }
}

/// A command measures in place of a probe, and its effect is found in spite of larger noise.
#[test]
fn numbers_of_command_are_compared() {
    use std::os::unix::fs::PermissionsExt;
    let place = Sandbox::new();
    let noisy = r#"[ "$PUNCTUAL_SIDE" = b ] && slower=3 || slower=0
        echo $(( 100 + (${PUNCTUAL_BLOCK#pilot} + 0) * 37 % 11 + slower ))"#;
    for (name, script) in [
        ("noisy", noisy),
        ("one", "echo 1"),
        ("words", "echo done"),
        ("fails", "echo 1; exit 7"),
        ("hangs", "sleep 600"),
    ] {
        let path = place.path(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let line = "experiment --numbers ./noisy --b true --pairs 8 --wash-out 1ms -q";
    let output = place.run(&format!("{line} --json --fail-on-worse"));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let found: punctual_model::NumbersExperiment = serde_json::from_slice(&output.stdout).unwrap();
    let one = &found.results[0];
    assert_eq!(one.effect, punctual_model::NumberEffect::Worse, "{one:?}");
    assert!(one.low > Some(0.0) && one.pairs == 8, "{one:?}");
    let screen = place.done(&format!("{line} --seed 7"));
    let screen = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "b: the number is worse: +",
        "in random order (seed 7)",
        "lower is better",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    for (line, code, part) in [
        ("./words --b true", 1, "'done' is neither a number"),
        ("./fails --b true", 1, "exit status 7"),
        (
            "./hangs --b true --deadline 100ms",
            1,
            "had not ended after 100 ms",
        ),
        ("./one --b true --pairs 3", 2, "pass --pairs 6 or more"),
        ("./one", 2, "nothing to compare"),
        ("./one --b true --threshold 1ms", 2, "cannot be used with"),
    ] {
        let said = place.refused(
            &format!("experiment --wash-out 1ms -q --numbers {line}"),
            code,
        );
        assert!(said.contains(part), "{line}: {said}");
    }
    let said = place.refused("experiment --numbers= --b true", 2);
    assert!(said.contains("--numbers needs a command"), "{said}");
    place.refused("experiment --b true --higher", 2);
}
