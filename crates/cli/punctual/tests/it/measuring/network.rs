//! `measure network`, in a network namespace whose machine stops to answer.

use std::process::{Command, Output};

use punctual_model::{Cell, Recording};

use crate::common::{Sandbox, text};

/// Runs `measure network --to 127.0.0.1` by a shell script in its own network namespace. Returns
/// `None`, with a visible line, if this is not possible.
fn run_inside(script: &str, options: &str) -> Option<Output> {
    let unshare = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.arg("--net").args(words);
        command
    };
    let works = |words: &[&str]| {
        let done = unshare(words).output();
        done.is_ok_and(|output| output.status.success())
    };
    if !works(&["true"]) {
        punctual_testing::skip!(Right, "network namespaces: unshare(1) is not permitted");
        return None;
    }
    if !works(&["ip", "link", "set", "lo", "up"]) {
        punctual_testing::skip!(Program, "ip(8) is not installed");
        return None;
    }
    let place = Sandbox::new();
    let run = place.command(&format!("measure network --to 127.0.0.1 {options}"));
    let variables = run.get_envs();
    let output = unshare(&["sh", "-c", script])
        .arg(run.get_program())
        .args(run.get_args())
        .envs(variables.filter_map(|(name, value)| Some((name, value?))))
        .output();
    Some(output.unwrap())
}

/// Waits until the run has begun, and then drops echo requests.
const GOES_SILENT: &str = r#"
    ip link set lo up
    "$0" "$@" & run=$!
    sleep 1
    echo 1 > /proc/sys/net/ipv4/icmp_echo_ignore_all
    wait $run
"#;

#[test]
fn unanswered_frames_are_missed_periods() {
    let options = "-D 3s --interval 5ms --warm-up 100ms -q --json --policy other --max-missed 0 \
                   --dma-latency off";
    let Some(output) = run_inside(GOES_SILENT, options) else {
        return;
    };
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    let recording = Recording::from_json(&text(&output.stdout)).unwrap();
    let account = recording.accounting();
    assert_eq!(account.expected, 600, "{account:?}");
    assert!(account.missed > 0, "{account:?}");
    assert!(account.recorded > 0, "{account:?}");
    let frames = &recording.tables[0];
    let name = Cell::from("never answered");
    let never = frames.rows.iter().find(|row| row[0] == name);
    assert!(matches!(never.unwrap()[1], Cell::Count(1..)), "{frames:?}");
}

#[test]
fn silent_machine_is_an_error() {
    let ignores = "ip link set lo up; echo 1 > /proc/sys/net/ipv4/icmp_echo_ignore_all; ";
    for (before, reason) in [
        ("", "--to 127.0.0.1: Network is unreachable"),
        (ignores, "no reply to the first frame within 2.00 s"),
    ] {
        let Some(output) = run_inside(&format!(r#"{before} "$0" "$@""#), "-D 1s") else {
            return;
        };
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(reason), "{stderr}");
    }
}
