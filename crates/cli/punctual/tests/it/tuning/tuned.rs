//! Tests of `tune import` and `tune export`, with profiles of TuneD in a tree of files.

use std::fs;

use crate::common::{Sandbox, text};

const FILES: &[(&str, &str)] = &[
    (
        "usr/lib/tuned/quiet/tuned.conf",
        "[main]\n\
         summary=Fast wake-ups\n\
         [cpu]\n\
         force_latency=cstate.id_no_zero:1|3\n\
         governor=performance\n\
         energy_perf_bias=performance\n\
         [sysctl]\n\
         vm.swappiness=10\n\
         net.ipv4.tcp_fastopen=3\n\
         [bootloader]\n\
         cmdline_quiet=skew_tick=1\n",
    ),
    (
        "etc/tuned/isolated/tuned.conf",
        "[main]\n\
         summary=Isolated CPUs\n\
         include=quiet\n\
         [variables]\n\
         include=/etc/tuned/isolated-variables.conf\n\
         others=${f:cpulist2hex_invert:${isolated_cores}}\n\
         log=${f:exec:mktemp}\n\
         [vm]\n\
         transparent_hugepages=never\n\
         [sysfs]\n\
         /sys/devices/virtual/workqueue/cpumask=${others}\n\
         [bootloader]\n\
         cmdline_isolated=+isolcpus=managed_irq,domain,${isolated_cores} nosoftlockup\n\
         [irqbalance]\n\
         banned_cpus=${isolated_cores}\n\
         [script]\n\
         script=${i:PROFILE_DIR}/script.sh\n",
    ),
    ("etc/tuned/isolated-variables.conf", "isolated_cores=2-3\n"),
    // If the script were run, the file would exist.
    ("etc/tuned/isolated/script.sh", "#!/bin/sh\ntouch ran\n"),
    ("etc/tuned/wrong/tuned.conf", "[sysctl]\nvm.swappiness\n"),
];

fn sandbox() -> Sandbox {
    let place = Sandbox::new();
    for (name, text) in FILES {
        let path = place.path("root").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    place
}

#[test]
fn tuned_profile_becomes_own_profile() {
    let place = sandbox();
    let printed = place.done("tune import isolated --root root");
    insta::assert_snapshot!("tune_import", printed);
    let summary = place.done("tune import isolated --root root -o mine.toml");
    insta::assert_snapshot!("tune_import_to_file", summary);
    assert_eq!(
        fs::read_to_string(place.path("mine.toml")).unwrap(),
        printed
    );
    assert!(!place.path("ran").exists());
    // The profile is one that the other verbs accept.
    let plan = place.done("tune plan mine.toml --cpus 0");
    assert!(plan.contains("mine.toml for CPU 0"), "{plan}");
}

#[test]
fn export_of_import_is_imported_unchanged() {
    let place = sandbox();
    let first = place.done("tune import isolated --root root");
    fs::write(place.path("mine.toml"), &first).unwrap();
    let output = place.run("tune export mine.toml --cpus 2-3 -o root/etc/tuned/mine");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    let written = fs::read_to_string(place.path("root/etc/tuned/mine/tuned.conf")).unwrap();
    insta::assert_snapshot!("tune_export", written);
    let second = place.done("tune import mine --root root");
    let lines = |toml: &str| {
        let is_entry = |line: &&str| !line.starts_with('#') && line.contains(" = ");
        let lines = toml.lines().filter(is_entry);
        let mut lines: Vec<String> = lines.map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&second), lines(&first));
    let output = place.run("tune export --set irq-affinity=0 --set swappiness=1");
    assert!(text(&output.stdout).contains("\nvm.swappiness=1\n"));
    let told = text(&output.stderr);
    assert!(
        told.contains("not exported: irq-affinity: TuneD moves interrupts"),
        "{told}"
    );
}

#[test]
fn wrong_tuned_profiles_write_no_file() {
    let place = sandbox();
    let told = place.refused("tune import wrong --root root -o new.toml", 2);
    assert!(
        told.contains("root/etc/tuned/wrong/tuned.conf:2:1: this is neither"),
        "{told}"
    );
    let told = place.refused("tune import absent --root root -o new.toml", 2);
    assert!(
        told.contains("absent: no folder NAME/tuned.conf is in root/etc/tuned/profiles,")
            && told.contains("--root"),
        "{told}"
    );
    let told = place.refused("tune import isolated --root root -o new.txt", 2);
    assert!(told.contains("use .toml"), "{told}");
    place.refused("tune export absent -o new", 2);
    place.refused("tune export", 2);
    let told = place.refused("tune export control -o new.toml", 2);
    assert!(told.contains("use .conf"), "{told}");
    assert!(!place.path("new.toml").exists() && !place.path("new").exists());
}

/// A message about a file shows its lines. The parent of a relative path is not the empty path.
#[test]
fn relative_profile_includes_no_file_elsewhere() {
    let (place, other) = (Sandbox::new(), Sandbox::new());
    let secret = other.path("secret");
    fs::write(&secret, "secret\n").unwrap();
    fs::create_dir(place.path("one")).unwrap();
    let text = format!("[variables]\ninclude={}\n", secret.display());
    fs::write(place.path("one/tuned.conf"), text).unwrap();
    for name in ["one/tuned.conf", "./one", "one/../one"] {
        let told = place.refused(&format!("tune import {name}"), 2);
        assert!(
            told.contains("only files in /etc/tuned/profiles, "),
            "{told}"
        );
    }
}
