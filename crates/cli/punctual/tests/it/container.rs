//! Tests in a PID namespace, as in a container. There, process IDs differ from those in the
//! kernel's events.

use std::process::{Command, Output};

use crate::common::{Sandbox, text};

/// Runs punctual in a PID namespace. `None` if none can be created here.
fn in_namespace(place: &Sandbox, line: &str) -> Option<Output> {
    let script = format!(
        "echo READY >&2; sleep 1000 & exec {} {line}",
        env!("CARGO_BIN_EXE_punctual")
    );
    let output = Command::new("unshare")
        .args([
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child",
            "sh",
            "-c",
        ])
        .arg(script)
        .env("PUNCTUAL_STORE", place.path("store.db"))
        .env("XDG_STATE_HOME", place.path("state"))
        .output();
    let told = output.as_ref().map(|done| text(&done.stderr));
    let told = told.unwrap_or_default();
    if told.contains("READY") {
        return output.ok();
    }
    punctual_testing::skip!(Right, "no PID namespace can be made here: {}", told.trim());
    None
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
