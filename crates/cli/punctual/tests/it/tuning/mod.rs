//! Tests of the verbs of `tune` on this machine. Their output is tested everywhere, and their
//! changes only where they are permitted.

mod ship;
mod trust;
mod tuned;

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{Sandbox, text};
use crate::experimenting::alone;
use punctual_host::Host;
use punctual_model::Setting;
use punctual_tune::setting;

/// Real settings that are changed here, each with two harmless values.
const REAL: &[(&str, [&str; 2])] = &[
    ("swappiness", ["61", "62"]),
    ("thp", ["madvise", "always"]),
    ("rt-runtime-us", ["950001", "950002"]),
    ("default-irq-affinity", ["0", "all"]),
    ("clocksource", ["tsc", "kvm-clock"]),
    ("stat-interval-s", ["2", "3"]),
];

fn file(setting: &Setting) -> String {
    fs::read_to_string(setting.path()).unwrap_or_default()
}

/// Restores the real settings, even if the test fails.
struct PutBack(Vec<(&'static Setting, String)>);

impl PutBack {
    fn new(names: &[&str]) -> Self {
        let settings = names.iter().map(|name| setting(name).unwrap());
        Self(settings.map(|setting| (setting, file(setting))).collect())
    }
}

impl Drop for PutBack {
    fn drop(&mut self) {
        for (setting, old) in self.0.iter().filter(|(setting, old)| file(setting) != *old) {
            eprintln!("{} was not put back; doing it now", setting.name);
            let value = punctual_tune::value(setting, &Host::live()).unwrap_or_default();
            let marked = old.split(['[', ']']).nth(1).unwrap_or(old).trim();
            if value != marked {
                let _ = fs::write(setting.path(), marked);
            }
        }
    }
}

/// Returns, for each real setting that can be changed, a value that differs from the current one.
fn changeable() -> Vec<(&'static str, String)> {
    let host = Host::live();
    let place = Sandbox::new();
    let mut found = Vec::new();
    for (name, values) in REAL {
        let entry = setting(name).unwrap();
        if let Err(error) = punctual_tune::may_change(entry, &host) {
            punctual_testing::skip_refused(name, &error);
            continue;
        }
        let changes = |value: &&&str| {
            let plan = place.run(&format!("tune plan --json --set {name}={value}"));
            let plan: serde_json::Value = serde_json::from_slice(&plan.stdout).unwrap_or_default();
            plan["steps"][0]["changes"] == true
        };
        let Some(value) = values.iter().find(changes) else {
            punctual_testing::skip!(Kernel, "{name}: this machine takes no other value");
            continue;
        };
        // If the kernel refuses a change here (because of real-time group scheduling), it would
        // refuse it for any program.
        let trial = place.run(&format!("tune apply --set {name}={value}"));
        if !trial.status.success() {
            punctual_testing::skip_refused(format!("{name}={value}"), text(&trial.stderr).trim());
            continue;
        }
        place.done("tune revert");
        found.push((*name, (*value).to_owned()));
    }
    found
}

fn sets(settings: &[(&str, String)]) -> String {
    let sets = settings
        .iter()
        .map(|(name, value)| format!(" --set {name}={value}"));
    sets.collect()
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn real_settings_are_applied_watched_and_restored() {
    let _alone = alone();
    let names: Vec<&str> = REAL.iter().map(|(name, _)| *name).collect();
    let _put_back = PutBack::new(&names);
    let before: Vec<String> = names
        .iter()
        .map(|name| file(setting(name).unwrap()))
        .collect();
    let settings = changeable();
    if settings.is_empty() {
        punctual_testing::skip!(Right, "none of the settings can be changed here");
        return;
    }
    let place = Sandbox::new();
    let wishes = sets(&settings);
    let plan = json(&place.done(&format!("tune plan --json{wishes}")));
    assert_eq!(plan["steps"].as_array().unwrap().len(), settings.len());
    assert!(
        !place.path("state/punctual/applied.journal").exists(),
        "a plan writes nothing"
    );

    let said = place.done(&format!("tune apply{wishes}"));
    assert!(said.contains("changed and read back"), "{said}");
    place.done("tune verify");
    // Other verbs must not restore the setting.
    place.done("list");
    let status = json(&place.done("tune status --json"));
    assert_eq!(status["phase"], "applied");
    assert_eq!(status["settings"].as_array().unwrap().len(), settings.len());
    // A recording contains the settings in force.
    place.done("measure timer -D 100ms -q --policy other --dma-latency off");
    let recording = place.last();
    assert!(recording.tune.is_some_and(|tune| tune != "none"));
    let warnings = recording.warnings;
    let told = |text: &String| text.starts_with("measured with a tune in force: ");
    assert!(warnings.iter().any(told), "{warnings:?}");
    let again = place.refused("tune apply --set swappiness=17", 1);
    assert!(again.contains("is already applied"), "{again}");

    // Another program changes one of them.
    let (name, _) = &settings[0];
    let entry = setting(name).unwrap();
    let position = names.iter().position(|known| known == name).unwrap();
    let old = before[position]
        .split(['[', ']'])
        .nth(1)
        .unwrap_or(&before[position])
        .trim();
    fs::write(entry.path(), old).unwrap();
    let told = text(&place.run("tune verify").stdout);
    assert_eq!(place.run("tune verify").status.code(), Some(3));
    assert!(told.contains("NOT in force"), "{told}");

    place.done("tune revert");
    let after: Vec<String> = names
        .iter()
        .map(|name| file(setting(name).unwrap()))
        .collect();
    assert_eq!(after, before);
    assert_eq!(place.done("tune status"), "Nothing is applied.\n");
    assert_eq!(place.run("tune verify").status.code(), Some(3));
    assert!(place.done("tune revert").contains("nothing to restore"));
}

#[test]
fn latency_request_is_held_until_revert() {
    let _alone = alone();
    let holder = setting("dma-latency-us").unwrap();
    if let Err(error) = punctual_tune::may_change(holder, &Host::live()) {
        punctual_testing::skip_refused("dma-latency-us", &error);
        return;
    }
    let device = || {
        let bytes = fs::read(holder.path()).unwrap_or_default();
        bytes.try_into().map_or(i32::MAX, i32::from_ne_bytes)
    };
    let before = device();
    let place = Sandbox::new();
    // This request is so weak that it does not disturb any other program.
    place.done("tune apply --set dma-latency-us=1999999998");
    if before > 1_999_999_998 {
        // Other tests hold stronger requests while they measure.
        assert!(crate::common::eventually(|| device() == 1_999_999_998));
    }
    place.done("tune verify");
    let told = place.done("tune status");
    assert!(told.contains("holds /dev/cpu_dma_latency"), "{told}");
    // Another program has ended the process that holds the setting, so the setting is no longer in
    // force.
    let pid = told
        .split("process ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    assert!(Command::new("kill").arg(pid).status().unwrap().success());
    assert!(crate::common::eventually(|| place
        .run("tune verify")
        .status
        .code()
        == Some(3)));
    place.done("tune revert");
    let mut apply = place.command("tune apply --set dma-latency-us=1999999998");
    // The settings stay, and the message says so.
    if let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") {
        let output = apply.stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        assert!(
            said.contains("the settings are applied and stay until"),
            "{said}"
        );
    } else {
        apply.output().unwrap();
    }
    place.done("tune verify");
    place.done("tune revert");
    assert_eq!(device(), before);
}

#[test]
fn kernel_thread_priority_is_restored() {
    let _alone = alone();
    let place = Sandbox::new();
    let wish = "tune apply --set thread-priority@ksoftirqd/0=other:-1";
    let output = place.run(wish);
    if !output.status.success() {
        punctual_testing::skip_refused("the priority of ksoftirqd", text(&output.stderr).trim());
        return;
    }
    place.done("tune verify");
    let restored = json(&place.done("tune revert --json"));
    assert_eq!(restored[0]["how"]["written"]["ours"], true, "{restored}");
    assert_eq!(restored[0]["how"]["written"]["found"], "other:-1");
}

#[test]
fn unprivileged_plan_works_apply_explains_lack() {
    let place = Sandbox::new();
    let as_nobody = |line: &str| {
        let command = place.command(line);
        let mut nobody = Command::new("setpriv");
        nobody
            .args(["--reuid", "65534", "--clear-groups"])
            .arg(command.get_program())
            .args(command.get_args())
            .env("XDG_STATE_HOME", "/nonexistent/state")
            .current_dir("/");
        nobody.output()
    };
    match as_nobody("tune plan throughput-off --json") {
        Ok(output) if output.status.success() => {
            assert!(json(&text(&output.stdout))["steps"].is_array());
        }
        Ok(output) => {
            punctual_testing::skip!(
                User,
                "cannot become another user: {}",
                text(&output.stderr).trim()
            );
            return;
        }
        Err(error) => {
            punctual_testing::skip!(Program, "setpriv: {error}");
            return;
        }
    }
    let output = as_nobody("tune apply --set swappiness=17").unwrap();
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("nothing changed") && told.contains("use sudo"),
        "{told}"
    );
}

#[test]
fn profile_applies_except_kernel_refused_settings() {
    let _alone = alone();
    let aspm = setting("aspm").unwrap();
    let swappiness = setting("swappiness").unwrap();
    if let Err(error) = punctual_tune::may_change(swappiness, &Host::live()) {
        punctual_testing::skip_refused("swappiness", &error);
        return;
    }
    let _put_back = PutBack::new(&["swappiness"]);
    let before = (file(aspm), file(swappiness));
    let place = Sandbox::new();
    let wanted = if before.1.trim() == "61" { "62" } else { "61" };
    let profile = format!("[settings]\naspm = \"performance\"\nswappiness = {wanted}\n");
    fs::write(place.path("mine.toml"), profile).unwrap();
    let trial = place.run("tune apply --set aspm=performance");
    let told = text(&trial.stderr);
    if trial.status.success() {
        place.done("tune revert");
    }
    if !told.contains("cannot change /sys/module/pcie_aspm") {
        punctual_testing::skip!(
            Kernel,
            "this kernel does not refuse to change ASPM: {}",
            told.trim()
        );
        return;
    }
    // The user is already root, so the output must not advise using root.
    assert_eq!(trial.status.code(), Some(1), "{told}");
    assert!(!told.contains("sudo"), "{told}");
    let strict = place.refused("tune apply mine.toml --strict", 1);
    assert!(strict.contains("pcie_aspm"), "{strict}");
    assert_eq!(place.done("tune status"), "Nothing is applied.\n");

    let done = json(&place.done("tune apply mine.toml --json"));
    assert_eq!(done["changes"][0]["setting"], "swappiness", "{done}");
    assert_eq!(done["refused"][0]["setting"], "aspm", "{done}");
    let reason = done["refused"][0]["reason"].to_string();
    assert!(
        reason.contains("firmware") && !reason.contains("sudo"),
        "{reason}"
    );
    assert_eq!(file(swappiness).trim(), wanted);
    place.done("tune revert");
    assert_eq!((file(aspm), file(swappiness)), before);
    // If no setting can be applied, the command fails.
    fs::write(
        place.path("mine.toml"),
        "[settings]\naspm = \"performance\"\n",
    )
    .unwrap();
    assert_eq!(place.run("tune apply mine.toml").status.code(), Some(1));
}

#[test]
fn revert_restores_despite_unwritable_journal() {
    let _alone = alone();
    let swappiness = setting("swappiness").unwrap();
    let _put_back = PutBack::new(&["swappiness"]);
    let before = file(swappiness);
    let place = Sandbox::new();
    let wanted = if before.trim() == "61" { "62" } else { "61" };
    let applied = place.run(&format!("tune apply --set swappiness={wanted}"));
    if !applied.status.success() {
        punctual_testing::skip_refused("swappiness", text(&applied.stderr).trim());
        return;
    }
    // No file can grow here, just as on a full disk.
    let program = env!("CARGO_BIN_EXE_punctual");
    let script = format!("trap '' 25; ulimit -f 0; exec {program} tune revert");
    let output = Command::new("sh")
        .args(["-c", &script])
        .env("XDG_STATE_HOME", place.path("state"))
        .output()
        .unwrap();
    let told = text(&output.stderr);
    assert_eq!(file(swappiness), before, "{told}");
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("1 setting is restored"), "{told}");
    assert!(told.contains("could not be written"), "{told}");
    assert!(text(&output.stdout).contains("swappiness"), "{output:?}");
    assert_eq!(place.done("tune status"), "Nothing is applied.\n");
}

#[test]
fn read_only_container_settings_are_reported() {
    let place = Sandbox::new();
    let program = env!("CARGO_BIN_EXE_punctual");
    let script = format!(
        "mount --make-rprivate / && mount --bind /proc/sys /proc/sys && \
         mount -o remount,ro,bind /proc/sys && echo READY >&2 && \
         exec {program} tune apply --set swappiness=17"
    );
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .env("XDG_STATE_HOME", place.path("state"))
        .output();
    let told = output
        .map(|output| text(&output.stderr))
        .unwrap_or_default();
    if !told.contains("READY") {
        punctual_testing::skip!(
            Right,
            "no mount namespace of one's own here: {}",
            told.trim()
        );
        return;
    }
    assert!(told.contains("nothing changed"), "{told}");
    assert!(told.contains("mounted read-only"), "{told}");
}

/// Command lines, with the exit code and the texts that the message must contain.
const WRONG: &[(&str, i32, &[&str])] = &[
    ("tune", 2, &["Usage"]),
    ("tune plan", 2, &["nothing to apply", "low-latency"]),
    ("tune plan contrl", 2, &["did you mean 'control'"]),
    (
        "tune plan --set swapiness=1",
        2,
        &["swapiness", "'swappiness'"],
    ),
    ("tune plan --set swappiness", 2, &["setting=value"]),
    ("tune plan --set swappiness=1000", 2, &["1000", "0 to 200"]),
    ("tune plan --set swappiness=", 2, &["one line of text"]),
    ("tune plan --set swappiness@1=1", 2, &["whole machine"]),
    ("tune plan control --cpus 8000", 2, &["8000", "online"]),
    ("tune plan control --cpus 1-", 2, &["'1-'"]),
    ("tune plan --set thp=perhaps", 2, &["perhaps", "never"]),
    ("tune plan --set default-irq-affinity=8000", 2, &["8000"]),
    (
        "tune plan --set default-irq-affinity=housekeeping",
        2,
        &["--cpus"],
    ),
    (
        "tune plan --set thread-priority=fifo:1",
        2,
        &["name an instance"],
    ),
    (
        "tune plan --set thread-priority@*=fifo:100",
        2,
        &["fifo:100"],
    ),
    ("tune plan --set dirty-limit=101%", 2, &["101%"]),
    ("tune profiles --show nothing", 2, &["nothing", "control"]),
    ("tune settings nothing", 2, &["nothing"]),
];

#[test]
fn what_is_wrong_is_named() {
    let place = Sandbox::new();
    for (line, code, words) in WRONG {
        let told = place.refused(line, *code);
        for word in *words {
            assert!(told.contains(word), "{line}: {told}");
        }
    }
    let typo = place.path("mine.toml");
    fs::write(&typo, "summary = \"mine\"\n[settings]\nswapiness = 1\n").unwrap();
    let told = place.refused("tune plan mine.toml", 2);
    assert!(
        told.contains("mine.toml:3:1: ") && told.contains("^^^^^^^^^"),
        "{told}"
    );
}

#[test]
fn profiles_are_printed_to_be_copied() {
    let _alone = alone();
    let place = Sandbox::new();
    let listed = place.done("tune profiles");
    for name in ["control", "low-latency", "network", "throughput-off"] {
        assert!(listed.contains(name));
        let text = place.done(&format!("tune profiles --show {name}"));
        fs::write(place.path("copy.toml"), text).unwrap();
        let cpus = Host::live().online().unwrap();
        let on = cpus.iter().next_back().unwrap();
        let alone = cpus.len() < 2;
        if alone {
            punctual_testing::skip!(Hardware, "one CPU cannot be set apart");
            return;
        }
        let of_copy = json(&place.done(&format!("tune plan copy.toml --json --cpus {on}")));
        let of_name = json(&place.done(&format!("tune plan {name} --json --cpus {on}")));
        assert_eq!(of_copy["steps"], of_name["steps"]);
        assert_eq!(of_copy["boot"], of_name["boot"]);
    }
    assert!(
        !Path::new(&place.path("state")).exists(),
        "plans leave nothing behind"
    );
}
