//! `measure network --launch-time`, between two network namespaces. The queueing disciplines fq and
//! etf are modules of the emulated machine's kernel.

use std::path::Path;
use std::process::{Command, Output};

use punctual_model::{Cell, Recording, Table};

use crate::common::{Sandbox, text};

/// Folders that may contain ip(8) and tc(8).
const FOLDERS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// Exit status of the script if the kernel lacks the queueing discipline.
const NO_DISCIPLINE: i32 = 77;

/// Connects two network namespaces by a pair of interfaces. etf drops frames without a launch time,
/// so no neighbour is asked for its address.
const PAIR: &str = r#"
    ip() { "$TOOLS/ip" "$@"; }
    tc() { "$TOOLS/tc" "$@"; }
    unshare --net sleep 600 & far=$!
    trap 'kill $far' EXIT
    await() { for _ in $(seq 300); do "$@" && return; sleep 0.1; done; echo "not so: $*" >&2; exit 75; }
    is_apart() { [ "$(readlink /proc/$far/ns/net)" != "$(readlink /proc/self/ns/net)" ]; }
    is_up() { ip link show near | grep -q 'state UP'; }
    await is_apart
    far() { nsenter --net=/proc/$far/ns/net "$TOOLS/$@"; }
    ip link add near address 02:00:5e:00:53:01 numtxqueues 2 type veth \
        peer name far address 02:00:5e:00:53:02 || exit 76
    ip link set far netns $far
    ip address add 192.0.2.1/24 dev near
    ip link set near up
    far ip address add 192.0.2.2/24 dev far
    far ip link set far up
    ip neighbour replace 192.0.2.2 lladdr 02:00:5e:00:53:02 dev near nud permanent
    far ip neighbour replace 192.0.2.1 lladdr 02:00:5e:00:53:01 dev far nud permanent
    ip address add 2001:db8::1/64 dev near nodad
    far ip address add 2001:db8::2/64 dev far nodad
    ip neighbour replace 2001:db8::2 lladdr 02:00:5e:00:53:02 dev near nud permanent
    far ip neighbour replace 2001:db8::1 lladdr 02:00:5e:00:53:01 dev far nud permanent
    await is_up
"#;

/// Makes the far interface return all Ethernet frames.
const REFLECTOR: &str = r#"
    far tc qdisc add dev far clsact &&
        far tc filter add dev far ingress protocol all u32 match u32 0 0 \
            action mirred egress redirect dev far || exit 77
"#;

/// The emulated machine needs milliseconds to take a frame out of the queue.
const ETF: &str = "etf clockid CLOCK_TAI delta 10000000";

/// Prints a SKIP line. Other machines than the emulated one need not have what is missing.
fn skip(what: &str) {
    if std::env::var_os("PUNCTUAL_VM").is_none() {
        punctual_testing::skip!(Emulation, "{what}");
    } else if what.contains("(8)") {
        punctual_testing::skip!(Program, "{what}");
    } else {
        punctual_testing::skip!(Kernel, "{what}");
    }
}

/// Runs `measure network` with these options, in a network namespace that `script` prepares.
/// Returns `None`, with a visible line, if this is not possible.
fn run(script: &str, options: &str) -> Option<Output> {
    // The programs of busybox lack features, and do not know this option.
    let is_iproute2 = |program: &Path| {
        let version = Command::new(program).arg("-V").output();
        version.is_ok_and(|version| text(&version.stdout).contains("iproute2"))
    };
    let has_tools = |folder: &&str| {
        ["ip", "tc"]
            .iter()
            .all(|tool| is_iproute2(&Path::new(folder).join(tool)))
    };
    let Some(tools) = FOLDERS.into_iter().find(has_tools) else {
        skip("ip(8) and tc(8) of iproute2 are not installed");
        return None;
    };
    let allowed = Command::new("unshare").args(["--net", "true"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        punctual_testing::skip!(Right, "network namespaces: unshare(1) is not permitted");
        return None;
    }
    let place = Sandbox::new();
    let command = place.command(&format!("measure network {options}"));
    let variables = command.get_envs();
    let output = Command::new("unshare")
        .args([
            "--net",
            "sh",
            "-c",
            &format!("{PAIR}{script}\n\"$0\" \"$@\""),
        ])
        .arg(command.get_program())
        .args(command.get_args())
        .env("TOOLS", tools)
        .envs(variables.filter_map(|(name, value)| Some((name, value?))))
        .output()
        .unwrap();
    match output.status.code() {
        Some(76) => skip("a kernel without veth"),
        Some(NO_DISCIPLINE) => skip("the kernel lacks the queueing discipline"),
        _ => return Some(output),
    }
    None
}

/// Measures 100 periods with this queueing discipline.
fn measure(discipline: &str, more: &str, options: &str) -> Option<Recording> {
    let script =
        format!("{more}\ntc qdisc replace dev near root {discipline} || exit {NO_DISCIPLINE}");
    let options = format!(
        "{options} -D 2s --interval 20ms --warm-up 0s -q --json --policy other --dma-latency off"
    );
    let output = run(&script, &options)?;
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let recording = Recording::from_json(&text(&output.stdout)).unwrap();
    assert_eq!(recording.accounting().expected, 100, "{stderr}");
    Some(recording)
}

/// Returns the number in the second column of the row with this name.
fn count(table: &Table, name: &str) -> u64 {
    let row = table.rows.iter().find(|row| row[0] == Cell::from(name));
    match row.map(|row| &row[1]) {
        Some(Cell::Count(count)) => *count,
        None => 0,
        Some(other) => panic!("{name}: {other:?}"),
    }
}

/// Asserts that each period is in one row, and that each departure of a sent frame is known.
fn assert_balanced(recording: &Recording) {
    let [frames, _, departures] = &recording.tables[..] else {
        panic!("three tables");
    };
    let sum = |table: &Table, names: &[&str]| -> u64 {
        names.iter().map(|name| count(table, name)).sum()
    };
    let unsent = [
        "not sent: the thread was too late",
        "not sent: the kernel refused",
        "not sent: launch time passed before the queue",
        "not sent: launch time missed in the queue",
    ];
    let sent = count(frames, "sent");
    assert_eq!(sent + sum(frames, &unsent), 100, "{frames:?}");
    let departed = ["driver: after launch", "driver: before launch"];
    assert_eq!(sum(departures, &departed), sent, "{departures:?}");
    let account = recording.accounting();
    assert_eq!(account.recorded + account.missed, 100, "{account:?}");
    assert_eq!(account.recorded, count(frames, "answered in time"));
}

#[test]
fn frames_wait_for_their_launch() {
    for (discipline, is_early) in [("fq", false), (ETF, true)] {
        // With the second lead, three frames wait at a time.
        for (to, lead) in [("2001:db8::2", "15ms"), ("192.0.2.2", "50ms")] {
            let options = format!("--to {to} --launch-time {lead}");
            let Some(recording) = measure(discipline, "", &options) else {
                return;
            };
            assert_balanced(&recording);
            let [frames, parts, departures] = &recording.tables[..] else {
                panic!("three tables");
            };
            assert!(
                departures
                    .title
                    .contains(discipline.split(' ').next().unwrap())
            );
            assert_eq!(
                count(frames, "answered after a newer frame"),
                0,
                "{frames:?}"
            );
            assert!(count(frames, "answered in time") > 0, "{frames:?}");
            assert!(count(parts, "send call to device, held") > 0, "{parts:?}");
            assert!(
                count(departures, "send call: before launch") > 0,
                "{departures:?}"
            );
            // fq never sends early, and etf hands each frame over before its launch time.
            let early = count(departures, "driver: before launch");
            assert_eq!(early > 0, is_early, "{departures:?}");
        }
    }
}

#[test]
fn launch_times_in_the_past_are_counted() {
    let options = "--to 192.0.2.2 --launch-time 0ns";
    // The send call of a raw socket succeeds, and that of a socket for unprivileged echo fails.
    let unprivileged = "echo 0 0 > /proc/sys/net/ipv4/ping_group_range";
    for groups in ["", unprivileged] {
        let Some(recording) = measure(ETF, groups, options) else {
            return;
        };
        assert_balanced(&recording);
        let [frames, _, departures] = &recording.tables[..] else {
            panic!("three tables");
        };
        let skipped = count(frames, "not sent: the thread was too late");
        let passed = count(frames, "not sent: launch time passed before the queue");
        assert_eq!(passed + skipped, 100, "{frames:?}");
        assert_eq!(count(departures, "send call: after launch"), passed);
        let warnings = &recording.warnings;
        let warned = |text: &str| warnings.iter().any(|one| one.contains(text));
        assert!(
            warned("choose a --launch-time longer than 0 ns"),
            "{warnings:?}"
        );
    }
    // fq sends such frames at once.
    let Some(recording) = measure("fq", "", options) else {
        return;
    };
    assert_balanced(&recording);
    let [frames, _, departures] = &recording.tables[..] else {
        panic!("three tables");
    };
    let sent = count(frames, "sent");
    assert!(sent > 0, "{frames:?}");
    assert_eq!(count(departures, "driver: after launch"), sent);
}

#[test]
fn queue_that_is_emptied_too_late_is_counted() {
    // Without a delta, etf takes each frame out of the queue after its launch time.
    let options = "--to 192.0.2.2 --launch-time 15ms";
    let output = {
        let script = "tc qdisc replace dev near root etf clockid CLOCK_TAI delta 0 || exit 77";
        let Some(output) = run(script, &format!("{options} -D 1s")) else {
            return;
        };
        output
    };
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("increase its delta"), "{stderr}");
}

#[test]
fn ethernet_frames_wait_for_their_launch() {
    for discipline in ["fq", ETF] {
        let options = "--interface near --to 02:00:5e:00:53:02 --launch-time 50ms";
        let Some(recording) = measure(discipline, REFLECTOR, options) else {
            return;
        };
        assert_balanced(&recording);
        assert!(
            recording.accounting().recorded > 0,
            "{:?}",
            recording.accounting()
        );
    }
}

/// Two traffic classes with one queue each. Frames of priority 3 use the second queue.
const TWO_CLASSES: &str = "
    tc qdisc replace dev near root handle 100: mqprio num_tc 2 \
        map 0 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 queues 1@0 1@1 hw 0 || exit 77
    tc qdisc replace dev near parent 100:2 etf clockid CLOCK_TAI delta 10000000 || exit 77
";

#[test]
fn priority_selects_the_queue() {
    let options = "--to 192.0.2.2 --launch-time 15ms -D 2s --interval 20ms --warm-up 0s -q --json \
                   --policy other --dma-latency off";
    let Some(output) = run(TWO_CLASSES, options) else {
        return;
    };
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("near for frames of priority 0 is"),
        "{stderr}"
    );
    assert!(stderr.contains("dev near parent 100:1 etf"), "{stderr}");
    let Some(output) = run(TWO_CLASSES, &format!("{options} --frame-priority 3")) else {
        return;
    };
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let recording = Recording::from_json(&text(&output.stdout)).unwrap();
    assert_balanced(&recording);
    // Only the queue with etf sends frames before their launch time.
    let early = count(&recording.tables[2], "driver: before launch");
    assert!(early > 0, "{:?}", recording.tables);
}

#[test]
fn other_disciplines_are_refused() {
    for (discipline, options, reason) in [
        (
            "pfifo",
            "--launch-time 1ms",
            "the queueing discipline of near is pfifo, which does not hold frames",
        ),
        (
            "pfifo",
            "--launch-time 1ms",
            "tc qdisc replace dev near root etf clockid CLOCK_TAI delta 200000",
        ),
        (
            "pfifo",
            "--launch-time 1s --interval 10ms",
            "choose at most 640 ms",
        ),
    ] {
        let script = format!("tc qdisc replace dev near root {discipline} || exit 77");
        let Some(output) = run(&script, &format!("--to 192.0.2.2 {options} -D 3s")) else {
            return;
        };
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(reason), "{stderr}");
    }
}
