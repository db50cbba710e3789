//! Tests of `doctor`, `facts` and `kernel`, run as a user would.

use std::path::PathBuf;

use crate::common::{Sandbox, text};
use punctual_model::{Audit, FindingState};

fn tree(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../machine/host/tests/trees")
        .join(name)
}

fn audit(place: &Sandbox, line: &str) -> Audit {
    let output = place.run(line);
    let code = output.status.code();
    assert!(
        code == Some(0) || code == Some(3),
        "{}",
        text(&output.stderr)
    );
    let audit: Audit = serde_json::from_slice(&output.stdout).unwrap();
    let grave = audit.is_grave() && !line.contains("--report-only");
    assert_eq!(code, Some(if grave { 3 } else { 0 }));
    audit
}

#[test]
fn this_machine_is_audited() {
    let place = Sandbox::new();
    let audit = audit(&place, "doctor --json --sample 20ms");
    assert!(audit.findings.len() > 100);
    assert!(audit.sample.is_some());
    let orders: Vec<_> = audit.findings.iter().map(|f| f.order()).collect();
    assert!(orders.is_sorted());
    assert_eq!(
        place.run("doctor --no-sample --report-only").status.code(),
        Some(0)
    );
}

/// A compressed configuration of Linux 4.14-rt from Debian, and the defconfig of a board.
#[test]
fn compressed_configurations_and_defconfigs_are_recognised() {
    let place = Sandbox::new();
    let state = |name: &str, option: &str| {
        let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures")
            .join(name);
        let line = format!(
            "machine kernel check --json --report-only --config {}",
            file.display()
        );
        let findings = audit(&place, &line).findings.into_iter();
        let mut of_option = findings.filter(|finding| finding.subject == option);
        of_option.next().unwrap().state
    };
    for (name, option, expected) in [
        ("kernel-config.xz", "CONFIG_PREEMPT_RT", FindingState::Ok),
        (
            "kernel-config.xz",
            "CONFIG_OSNOISE_TRACER",
            FindingState::NotApplicable,
        ),
        ("rt_defconfig", "CONFIG_PREEMPT_RT", FindingState::Ok),
        (
            "rt_defconfig",
            "CONFIG_IRQ_FORCED_THREADING",
            FindingState::Unknown,
        ),
        (
            "rt_defconfig",
            "CONFIG_PROVE_LOCKING",
            FindingState::Unknown,
        ),
    ] {
        assert_eq!(state(name, option), expected, "{name} {option}");
    }
}

#[test]
fn folder_and_file_audits_are_equal() {
    let place = Sandbox::new();
    let controller = tree("controller").display().to_string();
    let of_tree = audit(&place, &format!("doctor --json --facts {controller}"));
    assert_eq!(of_tree.host.hostname.as_deref(), Some("press-3"));
    assert_eq!(of_tree.cpus.to_string(), "2-3");
    place.done("machine facts capture --sample 20ms -o here.json");
    let here = audit(&place, "doctor --json --facts here.json");
    let live = audit(&place, "doctor --json --no-sample");
    assert_eq!(here.host, live.host);
    assert_eq!(here.findings.len(), live.findings.len());
}

#[test]
fn audit_text_covers_absent_machine() {
    let place = Sandbox::new();
    let laptop = tree("laptop").display().to_string();
    let output = place.run(&format!("doctor --role audio --facts {laptop}"));
    insta::assert_snapshot!(text(&output.stdout));
    let all = place.run(&format!("doctor --all --color always --facts {laptop}"));
    assert!(text(&all.stdout).contains("\u{1b}[1mOk"));
}

#[test]
fn last_measurement_is_shown_beside_expectation() {
    let place = Sandbox::new();
    let before = audit(&place, "doctor --json --no-sample");
    assert_eq!(before.expectation.measured, None);
    assert_eq!(before.expectation.not_measured, None);
    // The latency of a SCHED_OTHER thread says nothing about a real-time thread.
    place.run("measure timer -D 300ms --policy other");
    let after = audit(&place, "doctor --json --no-sample");
    assert_eq!(after.expectation.measured, None);
    let why = after.expectation.not_measured.unwrap();
    assert_eq!(why, "1 recording: 1 not at a real-time policy");
    let said = text(&place.run("doctor --no-sample").stdout);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("The store has no comparable recording (1 recording"),
        "{said}"
    );
    let output = place.run("measure timer -D 300ms --policy fifo");
    if !output.status.success() {
        punctual_testing::skip_refused("measure at a real-time priority", text(&output.stderr));
        return;
    }
    place.run("measure timer -D 300ms --policy other");
    let after = audit(&place, "doctor --json --no-sample");
    let measured = after.expectation.measured.unwrap();
    assert!(measured.same_settings && measured.samples > 0);
    assert!(measured.headline.contains("fifo"), "{}", measured.headline);
    assert_eq!(after.expectation.not_measured, None);
}

#[test]
fn sarif_junit_and_tap_are_written() {
    let place = Sandbox::new();
    let laptop = tree("laptop").display().to_string();
    let output = place.run(&format!(
        "doctor --facts {laptop} --sarif a.sarif --junit a.xml --tap a.tap"
    ));
    assert_eq!(output.status.code(), Some(3));
    let sarif: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(place.path("a.sarif")).unwrap()).unwrap();
    let run = &sarif["runs"][0];
    let results = run["results"].as_array().unwrap();
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    assert_eq!(results.len(), rules.len());
    for result in results {
        let rule = &rules[usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap()];
        assert_eq!(rule["id"], result["ruleId"]);
        // SARIF 3.27.10 requires that only failures have a level other than "none".
        assert_eq!(result["kind"] == "fail", result["level"] != "none");
    }
    let xml = std::fs::read_to_string(place.path("a.xml")).unwrap();
    assert!(xml.contains("<failure") && xml.contains("<skipped"));
    let tap = std::fs::read_to_string(place.path("a.tap")).unwrap();
    let points = |word: &str| tap.lines().filter(|line| line.starts_with(word)).count();
    let plan = format!("1..{}", points("ok ") + points("not ok "));
    assert_eq!(tap.lines().nth(1), Some(plan.as_str()));
    assert_eq!(points("not ok "), xml.matches("<failure").count());
    let skipped = tap.lines().filter(|line| line.contains(" # SKIP ")).count();
    assert_eq!(skipped, xml.matches("<skipped").count());
    // The conflict is reported before any output.
    let two = place.run(&format!("doctor --facts {laptop} --sarif - --junit -"));
    assert_eq!(two.status.code(), Some(2));
    assert!(two.stdout.is_empty(), "{two:?}");
    let both = place.refused(&format!("doctor --facts {laptop} --json --sarif -"), 2);
    assert!(both.contains("only one"), "{both}");
}

#[test]
fn fix_script_is_valid_shell() {
    let place = Sandbox::new();
    for name in ["laptop", "controller", "cloud", "arm-board"] {
        let facts = tree(name).display().to_string();
        let script = text(
            &place
                .run(&format!("doctor --fix-script --facts {facts}"))
                .stdout,
        );
        assert!(script.starts_with("#!/bin/sh\n"));
        std::fs::write(place.path("fix.sh"), &script).unwrap();
        let read = std::process::Command::new("sh")
            .args(["-n", "fix.sh"])
            .current_dir(place.path("."))
            .output()
            .unwrap();
        assert!(read.status.success(), "{}", text(&read.stderr));
        // Failures in the middle of a loop are reported as well.
        let (functions, _) = script.split_once("\n\n#").unwrap_or((&script, ""));
        for (command, ends) in [
            ("echo 1", 0),
            (
                "for i in no there; do echo 1 > /$i/such/file; done; true",
                1,
            ),
            ("false", 1),
        ] {
            let whole = format!("{functions}\ntry '{command}'\nexit $failed\n");
            let mut shell = std::process::Command::new("sh");
            let run = shell.args(["-c", &whole]).output().unwrap();
            assert_eq!(run.status.code(), Some(ends), "{command}: {run:?}");
            let told = text(&run.stderr).contains("failed, at least in part");
            assert_eq!(told, ends == 1, "{run:?}");
        }
        // Each command is quoted, so it must also be valid on its own.
        for line in script.lines().filter_map(|line| line.strip_prefix("try '")) {
            let command = line.strip_suffix('\'').unwrap().replace("'\\''", "'");
            let read = std::process::Command::new("sh")
                .args(["-n", "-c", &command])
                .output();
            assert!(read.unwrap().status.success(), "{command}");
        }
    }
}

#[test]
fn findings_make_tune_plan() {
    let place = Sandbox::new();
    let audit = audit(&place, "doctor --json --no-sample --role lab");
    let remedies = || audit.findings.iter().flat_map(|finding| &finding.remedies);
    let output = place.done("tune plan --from-doctor --role lab --json");
    let plan: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!(plan["label"], "doctor");
    let names = |list: &str, key: &str| -> Vec<String> {
        let all = plan[list].as_array().unwrap().iter();
        all.map(|one| one[key].as_str().unwrap().to_owned())
            .collect()
    };
    let (steps, left_out) = (names("steps", "setting"), names("left_out", "setting"));
    for step in &steps {
        let asked = remedies().any(|one| one.setting == *step && one.decide.is_none());
        // With some drivers the governor also changes the preference.
        assert!(asked || step == "energy-preference", "{step}");
    }
    for remedy in remedies() {
        match remedy.decide {
            Some(_) => assert!(left_out.contains(&remedy.assignment()), "{remedy:?}"),
            None => assert!(
                steps.contains(&remedy.setting)
                    || left_out.iter().any(|one| one.starts_with(&remedy.setting)),
                "{remedy:?}"
            ),
        }
    }
    let both = place.refused("tune plan control --from-doctor", 2);
    assert!(both.contains("cannot be used with"), "{both}");
    place.refused("tune plan control --role lab", 2);
}

#[test]
fn script_changes_settings_only_by_tune() {
    let place = Sandbox::new();
    let facts = tree("laptop").display().to_string();
    let output = place.run(&format!("doctor --fix-script --facts {facts} --cpus 2-3"));
    let script = text(&output.stdout);
    assert!(
        script.contains("set -- \"$@\" --set 'swappiness=10'"),
        "{script}"
    );
    assert!(script.contains("punctual tune apply --keep-going --cpus 2-3 \"$@\""));
    for line in script.lines().filter(|line| line.starts_with("try '")) {
        assert!(
            !line.contains("> /proc/sys/") && !line.contains("> /sys/devices"),
            "{line}"
        );
    }
    // Changes that need a decision are never executed.
    assert!(
        script.contains("# punctual tune apply --set smt=off"),
        "{script}"
    );
    assert!(!script.contains("--set 'smt"), "{script}");
}

#[test]
fn configuration_is_judged_before_build() {
    let place = Sandbox::new();
    let fragment = place.done("machine kernel fragment --role control");
    std::fs::write(place.path("good"), &fragment).unwrap();
    place.done("machine kernel check --config good");
    std::fs::write(
        place.path("bad"),
        fragment.replace("CONFIG_PREEMPT_RT=y", "# CONFIG_PREEMPT_RT is not set"),
    )
    .unwrap();
    let bad = audit(&place, "machine kernel check --config bad --json");
    assert_eq!(bad.findings[0].id, "kernel-config-preempt-rt");
    assert!(bad.is_grave());
    audit(&place, "machine kernel check --json --report-only");
    let steps = place.done("machine kernel install-steps --distribution debian");
    assert!(steps.contains("linux-image-rt-") && steps.contains("PREEMPT_RT"));
}

#[test]
fn bad_input_is_refused_with_remedy() {
    let place = Sandbox::new();
    std::fs::write(place.path("empty"), "").unwrap();
    std::fs::write(place.path("binary"), [0xff, 0xfe, 0, 1]).unwrap();
    std::fs::write(place.path("newer"), "{\"schema\": 99}").unwrap();
    std::fs::create_dir(place.path("folder")).unwrap();
    place.done("machine facts capture --no-sample -o whole.json");
    let whole = std::fs::read(place.path("whole.json")).unwrap();
    std::fs::write(place.path("half.json"), &whole[..whole.len() / 2]).unwrap();
    for (line, code, word) in [
        ("doctor --facts nowhere", 1, "nowhere"),
        ("doctor --facts empty", 1, "punctual machine facts capture"),
        ("doctor --facts half.json", 1, "half.json"),
        ("doctor --facts binary", 1, "binary"),
        ("doctor --facts newer", 1, "version 99"),
        ("doctor --facts folder", 2, "neither proc nor sys"),
        ("doctor --cpus 4000 --no-sample", 2, "4000"),
        ("doctor --cpus 3-2", 2, "backwards"),
        ("doctor --role pilot", 2, "pilot"),
        ("doctor --sample 1us", 2, "10 ms"),
        ("machine kernel check --config empty", 1, "no options"),
        ("machine kernel check --config nowhere", 1, "not there"),
        (
            "machine kernel install-steps --distribution plan9",
            2,
            "debian",
        ),
        (
            "machine facts capture --no-sample -o folder/none/x",
            1,
            "folder/none",
        ),
    ] {
        let error = place.refused(line, code);
        assert!(error.contains(word), "{line}: {error}");
    }
}

#[test]
fn a_recording_keeps_what_doctor_finds() {
    let place = Sandbox::new();
    place.done("measure timer -q --policy other --dma-latency off -D 200ms --cpus 0");
    let kept = place.last().audit.unwrap();
    let audit = audit(&place, "doctor --json --no-sample --cpus 0");
    assert_eq!(
        (kept.role.as_str(), &kept.cpus),
        (audit.role.as_str(), &audit.cpus)
    );
    let number = kept.findings.len() + kept.ok + kept.not_applicable;
    assert_eq!(number, audit.findings.len());
    // Compare only facts that do not change from one second to the next.
    let of_kernel = |id: &str| id.starts_with("kernel-");
    let wanted = audit.findings.iter().filter(|one| {
        let unknown = one.state == punctual_model::FindingState::Unknown;
        of_kernel(&one.id) && (one.is_problem() || unknown)
    });
    let wanted: Vec<(&str, _)> = wanted.map(|one| (one.id.as_str(), one.state)).collect();
    let found = kept.findings.iter().filter(|one| of_kernel(&one.id));
    let found: Vec<(&str, _)> = found.map(|one| (one.id.as_str(), one.state)).collect();
    assert_eq!(found, wanted);
}

#[test]
fn recordings_keep_each_option_that_is_judged() {
    for option in punctual_checks::kernel::OPTIONS {
        let name = option.option.trim_start_matches("CONFIG_");
        assert!(punctual_host::keeps_option(name), "{name}");
    }
}
