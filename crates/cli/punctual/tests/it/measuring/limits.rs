//! Tests of privileges, quotas and control groups that limit a run.

use punctual_testing::Running;

use super::*;

#[test]
fn permitted_real_time_priority_is_used() {
    let place = Sandbox::new();
    let output = place.run("measure timer -q -D 300ms --dma-latency off");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let recording = place.last();
    let policy = recording.threads[0].scheduling.policy;
    if policy == Policy::Fifo {
        assert_eq!(recording.threads[0].scheduling.priority, 95);
    } else {
        punctual_testing::skip_refused("real-time run", text(&output.stderr));
        assert!(text(&output.stderr).contains("without real-time priority"));
    }
}

#[test]
fn missing_right_is_reported_before_ordinary_run() {
    let Some(prefix) = nobody() else { return };
    let place = Sandbox::new();
    // The folder of a test belongs to root. The store is therefore in a folder to which the user
    // nobody can write.
    let folder = place.path("open");
    std::fs::create_dir(&folder).unwrap();
    open_to_all(&place.path("."));
    open_to_all(&folder);
    let run = |line: &str| {
        let mut command = std::process::Command::new(&prefix[0]);
        command
            .args(&prefix[1..])
            .arg(env!("CARGO_BIN_EXE_punctual"))
            .args(line.split_whitespace())
            .env("PUNCTUAL_STORE", folder.join("store.db"))
            .env("PUNCTUAL_LOCKS", folder.join("locks"))
            .env("NO_COLOR", "1");
        command.output().unwrap()
    };
    let output = run("measure timer -q -D 500ms");
    if output.status.code() == Some(126) || output.status.code() == Some(127) {
        punctual_testing::skip!(
            User,
            "unprivileged run: the program is not where nobody may run it"
        );
        return;
    }
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let first = stderr.lines().next().unwrap_or_default();
    assert!(
        first.contains("SCHED_OTHER") && first.contains("punctual doctor"),
        "{first}"
    );
    // The report lists all missing privileges, in at most two lines.
    let report = text(&output.stdout);
    assert!(report.contains("without real-time priority"), "{report}");
    let lines: Vec<&str> = report.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.starts_with("! measured without"));
    let rest = &lines[at.unwrap() + 1..];
    let more = rest
        .iter()
        .take_while(|line| line.starts_with("  "))
        .count();
    assert!(more <= 1, "{report}");
    assert!(!report.contains("limits.conf"), "{report}");

    let output = run("measure timer -q -D 500ms --policy fifo");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("RLIMIT_RTPRIO"),
        "{}",
        text(&output.stderr)
    );
}

/// Returns the words that must precede a command to run it as nobody, if that is possible.
fn nobody() -> Option<Vec<String>> {
    let prefix = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--inh-caps=-all",
    ];
    let works = std::process::Command::new(prefix[0])
        .args(&prefix[1..])
        .arg("true")
        .output()
        .is_ok_and(|output| output.status.success());
    if !works {
        punctual_testing::skip!(User, "unprivileged run: setpriv cannot become nobody here");
        return None;
    }
    Some(prefix.map(str::to_owned).to_vec())
}

fn open_to_all(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
}

/// Time that was lost to a CPU quota must not be attributed to other threads.
#[test]
fn cpu_quota_of_group_is_reported() {
    let Some(group) = QuotaGroup::new("quota") else {
        return;
    };
    let place = Sandbox::new();
    let cpu = *punctual_rt::affinity::current().unwrap().last().unwrap();
    let mut spin = Command::new("sh");
    spin.args(["-c", "while :; do :; done"]);
    let inside = Running(group.inside(&spin).spawn().unwrap());
    let line = format!("{PLAIN} --cpus {cpu} -i 5ms -D 6s --threshold 20ms --explain");
    let output = with_spinners(cpu, || {
        group.inside(&place.command(&line)).output().unwrap()
    });
    drop(inside);
    let stderr = text(&output.stderr);
    if stderr.contains("trace") && !output.status.success() {
        punctual_testing::skip_refused("outliers under a quota", &stderr);
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let recording = place.last();
    let name = format!("/{}", group.0.file_name().unwrap().to_str().unwrap());
    let found = recording
        .interference
        .groups
        .iter()
        .find(|found| found.group == name);
    let found = found.unwrap_or_else(|| panic!("{:?}", recording.interference.groups));
    assert!(found.periods > 0, "{found:?}");
    if found.throttled < 10 {
        // On this machine, the group got less CPU time than its quota allows.
        let crowd = punctual_testing::crowded();
        let crowd = crowd.unwrap_or_else(|| panic!("{found:?}"));
        punctual_testing::skip!(Quiet, "{crowd}: outliers under a quota");
        return;
    }
    let shown = text(&output.stdout);
    let warning = format!("control group {name} was throttled by its CPU quota in");
    assert!(
        recording
            .warnings
            .iter()
            .any(|text| text.starts_with(&warning))
    );
    // The name may be truncated to the width of the column.
    let row = |line: &str| line.starts_with("throttled") && line.contains("/punctual-");
    // The cause of the largest latency has no row of its own if there is no other cause.
    let is_named = shown.lines().any(row) || shown.contains("CPU quota of");
    assert!(is_named, "{shown}");
    let explanation = recording.explanation.unwrap();
    let shares = explanation
        .outliers
        .iter()
        .flat_map(|one| &one.blame.shares);
    let quota = format!("CPU quota of {name}");
    let told = shares.filter(|share| share.who().contains(&quota)).count();
    assert!(told > 0, "{shown}");
}

/// A CPU quota is also reported for threads that are watched.
#[test]
fn cpu_quota_of_watched_process_is_named() {
    let Some(group) = QuotaGroup::new("watched") else {
        return;
    };
    let place = Sandbox::new();
    // Both shells are in the group. One of them wakes repeatedly, and the other one uses up the
    // quota.
    let shell = |script: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        Running(group.inside(&shell).spawn().unwrap())
    };
    let wakes = shell("while :; do sleep 0.005; done");
    let spins = shell("while :; do :; done");
    let line = format!(
        "explain --pid {} --wait --threshold 20ms -D 6s -q",
        wakes.0.id()
    );
    let output = place.run(&line);
    drop((wakes, spins));
    let stderr = text(&output.stderr);
    if stderr.contains("trac") && !output.status.success() {
        punctual_testing::skip_refused("explain --pid under a quota", &stderr);
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let recording = place.last();
    let name = format!("/{}", group.0.file_name().unwrap().to_str().unwrap());
    let groups = &recording.interference.groups;
    let found = groups.iter().find(|found| found.group == name);
    let found = found.unwrap_or_else(|| panic!("{groups:?}"));
    let explanation = recording.explanation.as_ref().unwrap();
    if found.throttled < 10 || explanation.outliers.is_empty() {
        // On this machine, the group got less CPU time than its quota allows.
        let load = punctual_testing::crowded();
        assert!(load.is_some(), "{found:?}");
        punctual_testing::skip!(
            Quiet,
            "outliers under a quota: the machine is busy ({load:?})"
        );
        return;
    }
    let warning = format!("control group {name} was throttled by its CPU quota in");
    let warned = |text: &String| text.starts_with(&warning);
    assert!(recording.warnings.iter().any(warned), "{recording:?}");
    let outliers = explanation.outliers.iter();
    let mut shares = outliers.flat_map(|one| &one.blame.shares);
    let quota = format!("CPU quota of {name}");
    let is_named =
        |share: &Share| share.kind() == ShareKind::Throttled && share.who().contains(&quota);
    assert!(shares.any(is_named), "{}", text(&output.stdout));
}

/// The memory for all threads is first checked and then allocated by each thread itself. A stop
/// therefore need not wait until all of it is allocated.
#[test]
fn thousands_of_threads_are_refused_or_stoppable() {
    let place = Sandbox::new();
    let line = format!("{PLAIN} -D 10m --threads 4096 -i 20us");
    let mut child = place.spawn(&line);
    // proc_pid_status(5): SigCgt is the mask of the signals that have a handler.
    let status = format!("/proc/{}/status", child.id());
    let handles_interrupts = || {
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        mask.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & 0b10 != 0)
    };
    assert!(eventually(|| {
        handles_interrupts() || child.try_wait().unwrap().is_some()
    }));
    std::thread::sleep(Duration::from_millis(500));
    let asked = std::time::Instant::now();
    let pid = child.id().to_string();
    let _ = Command::new("kill").args(["-INT", &pid]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    println!("ended {:?} after Ctrl-C", asked.elapsed());
    if output.status.code() == Some(130) {
        // The limit covers a GiB of rings, and the memory of threads and histograms.
        let peak = place.last().observer.peak_memory_bytes;
        assert!(peak < 4 << 30, "{peak}");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let refused = ["MiB of memory", "thread"]
        .iter()
        .any(|why| stderr.contains(why));
    assert!(refused, "{stderr}");
}

/// If the kernel uses real-time group scheduling, a new group has no real-time runtime.
#[test]
fn a_group_without_real_time_is_named() {
    let Some(group) = QuotaGroup::new("real-time") else {
        return;
    };
    let file = group.0.join("cpu.rt_runtime_us");
    if !fs::read_to_string(&file).is_ok_and(|text| text.trim() == "0") {
        punctual_testing::skip!(
            Kernel,
            "no group without real-time runtime: RT_GROUP_SCHED is off"
        );
        return;
    }
    let place = Sandbox::new();
    for (line, code) in [
        ("measure timer -q --dma-latency off --policy fifo -D 1s", 1),
        ("measure timer -q --dma-latency off -D 1s", 0),
        ("exec -p 50 true", 1),
    ] {
        let output = group.inside(&place.command(line)).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {stderr}");
        let cause = format!("{} is 0", file.display());
        assert!(stderr.contains(&cause), "{line}: {stderr}");
    }
}

/// The program is in the group only while it measures. It also leaves the group if it is killed.
#[test]
fn measurement_joins_and_leaves_control_group() {
    let Some(group) = QuotaGroup::new("measured") else {
        return;
    };
    let place = Sandbox::new();
    let folder = group.0.to_str().unwrap();
    let members = || fs::read_to_string(group.0.join("cgroup.procs")).unwrap_or_default();
    for end in ["KILL", "INT"] {
        let mut child = place.spawn(&format!("{PLAIN} --cgroup {folder} -D 30s"));
        let own = format!("{}\n", child.id());
        assert!(eventually(|| members() == own), "{}", members());
        if end == "INT" {
            place.wait_for_rows();
        }
        signal(&child, end);
        child.wait().unwrap();
        assert!(eventually(|| members().is_empty()), "{end}: {}", members());
    }
    let shown = place.done("show last");
    let name = group.0.file_name().unwrap().to_str().unwrap();
    assert!(
        shown.contains(name) && shown.contains("quota 20.0 ms in 100 ms"),
        "{shown}"
    );
    let facts = place.done("show last --json");
    let recording = Recording::from_json(&facts).unwrap();
    let facts = recording.probe.group().unwrap();
    assert_eq!(facts.quota.unwrap().millicpus(), 200);
    let told = place.refused(&format!("{PLAIN} --cgroup /no/such -D 1s"), 2);
    assert!(told.contains("no control group /no/such"), "{told}");
}

/// The loads of the program, both threads and processes, run outside the group on separate CPUs.
#[test]
fn loads_run_outside_the_control_group() {
    let Some(group) = QuotaGroup::new("loaded") else {
        return;
    };
    let place = Sandbox::new();
    let folder = group.0.to_str().unwrap();
    let work = "while :; do :; done";
    let line = format!("{PLAIN} --cgroup {folder} --load cpu:cpus=0 -D 30s");
    let mut child = place
        .command(&line)
        .args(["--load", &format!("command:{work}")])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    place.wait_for_rows();
    let members = fs::read_to_string(group.0.join("cgroup.procs")).unwrap();
    signal(&child, "INT");
    child.wait().unwrap();
    assert_eq!(members, format!("{}\n", child.id()));
    let recording = Recording::from_json(&place.done("show last --json")).unwrap();
    let loads: Vec<&str> = recording
        .load
        .iter()
        .map(|load| load.name.as_str())
        .collect();
    assert_eq!(loads, ["cpu", "command"]);
    for load in &recording.load {
        assert_eq!(load.ended_early, None, "{load:?}");
        assert!(load.cpu_time_ns > Some(Nanos::ZERO), "{load:?}");
    }
}

/// Runs commands with a limit of open files that allows them to start but not to finish.
#[test]
fn a_limit_of_open_files_is_named() {
    if std::process::Command::new("prlimit")
        .arg("--version")
        .output()
        .is_err()
    {
        punctual_testing::skip!(Program, "a limit of open files: no prlimit(1)");
        return;
    }
    let place = Sandbox::new();
    place.done(&format!("{PLAIN} -D 100ms"));
    let mut refused = 0;
    for limit in 4..12 {
        for line in ["list", &format!("{PLAIN} -D 100ms")] {
            let command = place.command(line);
            let output = std::process::Command::new("prlimit")
                .arg(format!("--nofile={limit}"))
                .arg(command.get_program())
                .args(command.get_args())
                .envs(
                    command
                        .get_envs()
                        .filter_map(|(name, value)| Some((name, value?))),
                )
                .output()
                .unwrap();
            let stderr = text(&output.stderr);
            assert!(!stderr.contains("panicked"), "{limit} {line}: {stderr}");
            if stderr.contains("store.db") {
                refused += 1;
                assert!(stderr.contains("ulimit -n"), "{limit} {line}: {stderr}");
                assert!(
                    !stderr.contains("another --store"),
                    "{limit} {line}: {stderr}"
                );
            }
        }
    }
    assert!(refused > 1, "no store was refused");
}
