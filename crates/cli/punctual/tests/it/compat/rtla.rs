//! rtla, with the kernel's tracers or with the probe's own threads.

use crate::common::{Sandbox, text};
use crate::compat::stage::{done_as, tool};

/// Runs a command of rtla. Returns stdout and stderr.
fn done(place: &Sandbox, line: &str) -> (String, String) {
    done_as(place, "rtla", line)
}

/// Imports a text, and returns the recording as JSON.
fn imported(place: &Sandbox, text: &str) -> serde_json::Value {
    std::fs::write(place.path("out.txt"), text).unwrap();
    place.done("import out.txt");
    serde_json::from_str(&place.done("show last --json")).unwrap()
}

#[test]
fn each_output_is_imported_by_its_reader() {
    let place = Sandbox::new();
    for (line, format, title) in [
        (
            "timerlat hist",
            "rtla-timerlat-hist",
            "# RTLA timerlat histogram\n",
        ),
        ("timerlat top -q", "rtla-timerlat-top", "Timer Latency"),
        (
            "osnoise hist",
            "rtla-osnoise-hist",
            "# RTLA osnoise histogram\n",
        ),
        (
            "osnoise top -q",
            "rtla-osnoise-top",
            "Operating System Noise",
        ),
        ("hwnoise -q", "rtla-hwnoise", "Hardware-related Noise"),
    ] {
        let (out, said) = done(&place, &format!("{line} -c 0 -d 1 -P o:0"));
        assert!(out.trim_start().starts_with(title), "{line}: {out}");
        assert!(said.contains("# punctual: measured with "), "{said}");
        // On a busy machine, the thread may get no CPU time, and the original then prints no row.
        let has_figures = if format.ends_with("-hist") {
            !out.ends_with("max: 0\n")
        } else {
            out.contains("\n  0 #")
        };
        if has_figures {
            let recording = imported(&place, &out);
            assert_eq!(recording["origin"]["format"], format, "{out}");
        }
    }
    // Each run is also stored as a recording.
    assert!(place.done("list").contains("timer"));
}

#[test]
fn reached_limit_ends_with_actions_and_status() {
    let place = Sandbox::new();
    assert_stops(&place, "reached", &["shell,command=echo reached"]);
}

/// Runs until a latency of 1 us, with these actions. Asserts that the first of them prints `first`, and that
/// the run ends with its own action and the status of a stop. Returns the messages.
fn assert_stops(place: &Sandbox, first: &str, actions: &[&str]) -> String {
    let line = "timerlat hist -c 0 -T 1 -d 1m -P o:0 --no-aa -p 10000";
    let mut command = tool(place, "rtla", line);
    for action in actions {
        command.args(["--on-threshold", action]);
    }
    command.args(["--on-end", "shell,command=echo ended"]);
    let output = command.output().unwrap();
    let (out, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(out.starts_with(&format!("{first}\n# RTLA")), "{out}");
    assert!(out.ends_with("ended\ntimerlat hit stop tracing\n"), "{out}");
    said
}

#[test]
fn wrong_command_lines_end_with_status_129() {
    let place = Sandbox::new();
    for (line, reason) in [
        ("", "choose one of"),
        ("osnoise hwnoise", "choose one of"),
        ("timerlat hist --nothing", "unrecognized option '--nothing'"),
    ] {
        let output = tool(&place, "rtla", line).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(129), "{line}: {said}");
        assert!(said.contains(reason), "{line}: {said}");
        assert!(output.stdout.is_empty());
    }
    let help = tool(&place, "timerlat", "hist -h").output().unwrap();
    assert_eq!(help.status.code(), Some(129));
    assert!(text(&help.stdout).contains("--bucket-size"));
}

#[test]
fn wrong_values_end_with_status_1() {
    let place = Sandbox::new();
    for (line, reason) in [
        ("timerlat hist --no-index", "--with-zeros"),
        (
            "timerlat hist -b 0",
            "--bucket-size: '0' is not a number of 1 or more",
        ),
        ("osnoise hist -E 1", "Entries must be > 10 and < 10000000\n"),
        ("timerlat top -U", "-U is not supported"),
        (
            "timerlat top --bpf-action x.o",
            "BPF actions are not supported in tracefs-only mode",
        ),
        (
            "hwnoise --trigger hist:key=x",
            "--trigger requires a previous -e",
        ),
    ] {
        let output = tool(&place, "rtla", line).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}: {said}");
        assert!(said.contains(reason), "{line}: {said}");
        assert!(!said.contains("Usage:"), "{line}: {said}");
    }
}

/// Scripts read the version from these lines of the original.
#[test]
fn help_states_version_and_usage() {
    let place = Sandbox::new();
    for (line, version, usage) in [
        (
            "timerlat --help",
            "timerlat version 7.2",
            "Usage: rtla timerlat top",
        ),
        (
            "osnoise hist -h",
            "osnoise version 7.2",
            "Usage: rtla osnoise hist",
        ),
        (
            "hwnoise --help",
            "hwnoise version 7.2",
            "Usage: rtla hwnoise",
        ),
        ("--version", "rtla version 7.2", "Usage: rtla "),
    ] {
        let output = tool(&place, "rtla", line).output().unwrap();
        let told = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(129), "{line}: {told}");
        assert!(
            told.contains(version) && told.contains(usage),
            "{line}: {told}"
        );
    }
}

/// Without `-t`, nothing contains the events.
#[test]
fn events_without_a_trace_are_reported() {
    let place = Sandbox::new();
    let (_, said) = done(
        &place,
        "osnoise top -q -c 0 -d 1 -P o:0 -e sched:sched_switch",
    );
    assert!(said.contains("no trace is requested: add -t"), "{said}");
}

#[test]
fn failed_action_ends_a_run_that_would_continue() {
    let place = Sandbox::new();
    let once = "shell,command=[ ! -e ran ] && touch ran && echo first";
    let said = assert_stops(&place, "first", &[once, "continue"]);
    assert!(said.contains("--on-threshold: the command"), "{said}");
    let json = place.done("show last --json");
    let recording: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        recording["completion"], "break",
        "{}",
        recording["completion"]
    );
}

#[test]
fn main_threads_cpu_does_not_limit_the_measurement() {
    let place = Sandbox::new();
    let (all, _) = done(&place, "timerlat hist -d 1 -P o:0");
    let (moved, _) = done(&place, "timerlat hist -d 1 -P o:0 -H 0");
    let cpus = |text: &str| text.matches("Usr-").count();
    assert_eq!(cpus(&moved), cpus(&all), "{moved}");
}

#[test]
fn own_threads_do_not_stop_at_hardware_noise() {
    let place = Sandbox::new();
    // Without root, the kernel's tracer is not available.
    let mut command = tool(&place, "rtla", "hwnoise -c 0 -d 1 -s 5000000");
    let output = command.output().unwrap();
    let said = text(&output.stderr);
    let by_kernel = said.contains("threads of the kernel's tracer osnoise");
    assert_eq!(
        output.status.code(),
        Some(if by_kernel { 0 } else { 1 }),
        "{said}"
    );
}
