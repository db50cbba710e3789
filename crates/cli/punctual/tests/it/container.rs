//! Tests in a PID namespace, as in a container. There, process IDs differ from those in the
//! kernel's events.

use std::process::{Command, Output};

use crate::common::{Sandbox, text};

/// Runs a command as another user.
const OTHER_USER: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups";
const PROGRAM: &str = env!("CARGO_BIN_EXE_punctual");

/// Runs punctual in a PID namespace. `None` if none can be created here.
fn in_namespace(place: &Sandbox, line: &str) -> Option<Output> {
    // Until it becomes sleep(1), the other process has the name of the shell.
    let script = format!(
        "echo READY >&2; sleep 1000 & until grep -q sleep /proc/$!/comm; do :; done; \
         exec {PROGRAM} {line}"
    );
    unshared(place, &["--pid", "--mount-proc", "--kill-child"], &script)
}

/// Runs a script in new namespaces. `None` if none can be created here. The script prints READY.
fn unshared(place: &Sandbox, namespaces: &[&str], script: &str) -> Option<Output> {
    let output = Command::new("unshare")
        .args(namespaces)
        .args(["--fork", "sh", "-c"])
        .arg(script)
        .env("PUNCTUAL_STORE", place.path("store.db"))
        .env("XDG_STATE_HOME", place.path("state"))
        .env("PUNCTUAL_LOCKS", place.path("locks"))
        .output();
    let told = output.as_ref().map(|done| text(&done.stderr));
    let told = told.unwrap_or_default();
    if told.contains("READY") {
        return output.ok();
    }
    punctual_testing::skip!(Right, "no namespace can be made here: {}", told.trim());
    None
}

/// The kernel's events have the clock of the host.
#[test]
fn other_clock_is_refused_for_threads() {
    let place = Sandbox::new();
    let run = |clock: &str, line: &str| {
        let script = format!("echo READY >&2; exec {PROGRAM} {line}");
        unshared(&place, &["--time", "--monotonic", clock], &script)
    };
    for line in ["explain --pid 1 -D 1s", "app lint --pid 1 -D 1s"] {
        let Some(output) = run("1000000", line) else {
            return;
        };
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}: {told}");
        assert!(
            told.contains("adds 1000000 s and 0 ns to CLOCK_MONOTONIC"),
            "{told}"
        );
        let told = run("0", line)
            .map(|output| text(&output.stderr))
            .unwrap_or_default();
        assert!(!told.contains("time namespace"), "{line}: {told}");
    }
    // Probes compare the clock only with itself.
    let line = "measure timer -q --cpus 0 -D 300ms --policy other --dma-latency off";
    let Some(output) = run("1000000", line) else {
        return;
    };
    assert!(output.status.success(), "{}", text(&output.stderr));
    let recording = place.last();
    crate::common::assert_conserved(&recording);
    let age = jiff::Timestamp::now().duration_since(recording.started);
    assert!(age.as_secs() < 3_600, "{age:?}");
}

/// "There is no such process" would be a guess.
#[test]
fn hidden_processes_are_not_called_missing() {
    let place = Sandbox::new();
    let run = |line: &str| {
        // The program may be in a folder that only its owner can open.
        let script = format!(
            "mount -t proc -o hidepid=2 proc /proc && exec 9<{PROGRAM} && echo READY >&2 && \
             PUNCTUAL_STORE=none exec {OTHER_USER} /proc/self/fd/9 {line}"
        );
        unshared(&place, &["--mount"], &script)
    };
    for line in [
        "explain --pid 1 -D 1s",
        "explain --comm no-such-name -D 1s",
        "app lint --pid 1 -D 1s",
    ] {
        let Some(output) = run(line) else {
            return;
        };
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}: {told}");
        assert!(
            told.contains("(hidepid=") || told.contains("tracefs"),
            "{line}: {told}"
        );
        assert!(!told.contains("there is no"), "{line}: {told}");
    }
    for line in ["app list", "machine threads"] {
        let told = run(line)
            .map(|output| text(&output.stderr))
            .unwrap_or_default();
        assert!(told.contains("(hidepid="), "{line}: {told}");
    }
    let audit = run("doctor --all --report-only").map(|output| text(&output.stdout));
    let audit = audit.unwrap_or_default();
    assert!(!audit.contains("no interrupt has a thread"), "{audit}");
}

/// Root in a user namespace has no rights on the machine.
#[test]
fn root_of_user_namespace_is_refused() {
    let place = Sandbox::new();
    for (line, says) in [
        ("tune apply --set swappiness=17", "root in a user namespace"),
        ("explain --pid 1 -D 1s", "tracefs"),
    ] {
        // Root of the machine may write its settings in each namespace, but this user may not.
        let script = format!(
            "exec 9<{PROGRAM}; PUNCTUAL_STORE=none exec {OTHER_USER} unshare --user --map-root-user \
             sh -c 'echo READY >&2; exec /proc/self/fd/9 {line}'"
        );
        let Some(output) = unshared(&place, &["--mount"], &script) else {
            return;
        };
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}: {told}");
        assert!(told.contains(says), "{line}: {told}");
    }
}

/// On the host, another process has the same number, and its threads would be reported.
#[test]
fn threads_of_container_are_not_confused() {
    let place = Sandbox::new();
    for line in [
        "explain --pid 2 -D 1s",
        "explain --comm sleep -D 1s",
        "app lint --pid 2 -D 1s",
        "app lint --comm sleep -D 1s",
        "measure timer --cpus 0 -D 1s --explain --threshold 1ms",
    ] {
        let Some(output) = in_namespace(&place, line) else {
            return;
        };
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}: {told}");
        assert!(told.contains("this PID namespace"), "{line}: {told}");
        assert!(text(&output.stdout).is_empty(), "{line}");
    }
    // Figures without process IDs are right in a container as well.
    let Some(output) = in_namespace(
        &place,
        "measure timer --cpus 0 -D 1s --priority 0 --policy other",
    ) else {
        return;
    };
    assert!(output.status.success(), "{}", text(&output.stderr));
}
