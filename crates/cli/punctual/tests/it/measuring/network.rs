//! `measure network`, in a network namespace whose machine stops to answer.

use std::process::{Command, Output};

use punctual_model::{Cell, LimitResult, Metric, Recording};

use crate::common::{Sandbox, text};

/// Runs `measure network` by a shell script in its own network namespace. Returns
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
    let run = place.command(&format!("measure network {options}"));
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
    let options = "--to 127.0.0.1 -D 3s --interval 5ms --warm-up 100ms -q --json --policy other --max-missed 0 --max-latency 4ms \
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
    // A reply that did not come within the interval took at least as long.
    let limits = recording.verdict.limits.iter();
    let max = limits.filter(|one| one.limit.metric == Metric::Max);
    let max: Vec<&LimitResult> = max.collect();
    assert!(
        max[0].held == Some(false) && max[0].measured >= Some(4_000_001),
        "{max:?}"
    );
    let open = recording.threads[0].open.unwrap();
    assert!(open.periods > 100 && open.late_ns.0 > 4_000_000, "{open:?}");
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
        let Some(output) = run_inside(&format!(r#"{before} "$0" "$@""#), "--to 127.0.0.1 -D 1s")
        else {
            return;
        };
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(reason), "{stderr}");
    }
}

/// Makes a pair of interfaces. The second one returns all frames.
const REFLECTS: &str = r#"
    ip link add near type veth peer name far
    ip link set near up
    ip link set far up
    tc qdisc add dev far clsact &&
        tc filter add dev far ingress protocol all u32 match u32 0 0 action mirred egress redirect dev far ||
        exit 77
    until ip link show near | grep -q 'state UP'; do sleep 0.1; done
    exec "$0" "$@"
"#;

#[test]
fn reflected_ethernet_frames_are_measured() {
    let run = "-D 500ms --interval 5ms --warm-up 0s -q --json --policy other --dma-latency off";
    for to in ["", "--to 02:00:5e:00:53:01"] {
        let options = format!("--interface near {to} {run}");
        let Some(output) = run_inside(REFLECTS, &options) else {
            return;
        };
        let stderr = text(&output.stderr);
        if output.status.code() == Some(77) {
            punctual_testing::skip!(Kernel, "a reflector needs tc(8) and its action mirred");
            return;
        }
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        let recording = Recording::from_json(&text(&output.stdout)).unwrap();
        let account = recording.accounting();
        assert_eq!(account.expected, 100, "{account:?}");
        assert!(account.recorded > 0, "{account:?}");
        // The driver of such interfaces takes time stamps.
        let parts = &recording.tables[1];
        let recorded = Cell::Count(account.recorded);
        assert!(parts.rows.iter().all(|row| row[1] == recorded), "{parts:?}");
    }
}

#[test]
fn interfaces_without_reflector_are_errors() {
    let pair = "ip link add near type veth peer name far; ";
    let up = "ip link set near up; ip link set far up; sleep 1; ";
    for (before, options, reason) in [
        (
            String::new(),
            "--interface none",
            "--interface none: there is no such interface",
        ),
        (
            pair.to_owned(),
            "--interface near",
            "--interface near: it is down",
        ),
        (
            format!("{pair}ip link set near up; "),
            "--interface near",
            "it has no link",
        ),
        (
            format!("{pair}{up}"),
            "--interface near",
            "nothing returns the frames",
        ),
        (
            format!("{pair}{up}"),
            "--interface near --to host",
            "--to host: it is not an Ethernet",
        ),
    ] {
        let script = format!(r#"{before} "$0" "$@""#);
        let Some(output) = run_inside(&script, &format!("{options} -D 1s")) else {
            return;
        };
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(reason), "{stderr}");
    }
}
