//! Tests that need a PREEMPT_RT kernel. `cargo xtask vm` runs them in an emulated machine; they
//! also run on any other real-time kernel.

#![allow(clippy::unwrap_used)]

#[path = "it/common/mod.rs"]
mod common;

use common::{Sandbox, real_time, text};
use punctual_model::{Audit, Completion, CpuSet, FindingState, Recording, ShareKind};

#[test]
fn preempt_rt_kernel_is_recognised() {
    if !real_time("facts") {
        return;
    }
    let place = Sandbox::new();
    let json = place.done("measure timer -q -D 2s --interval 10ms --json");
    let recording = Recording::from_json(&json).unwrap();
    assert_eq!(recording.completion, Completion::Finished);
    let facts = &recording.host.kernel;
    assert_eq!(facts.preempt_rt.get(), Some(&true));
    assert!(recording.accounting().recorded > 0);
}

/// A cgroup v2 group with its own controllers. It is removed when this value is dropped.
struct Group(std::path::PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        common::eventually(|| std::fs::remove_dir(&self.0).is_ok());
    }
}

#[test]
fn version_2_control_group_is_judged() {
    const ROOT: &str = "/sys/fs/cgroup";
    if !real_time("control groups") {
        return;
    }
    let control = format!("{ROOT}/cgroup.subtree_control");
    let Ok(before) = std::fs::read_to_string(&control) else {
        punctual_testing::skip!(
            Kernel,
            "version 2 of control groups is not mounted at {ROOT}"
        );
        return;
    };
    if std::fs::write(&control, "+cpu +cpuset").is_err() {
        punctual_testing::skip!(Kernel, "the controllers cpu and cpuset are not to be had");
        return;
    }
    {
        let above = Group(format!("{ROOT}/punctual-test-{}", std::process::id()).into());
        std::fs::create_dir(&above.0).unwrap();
        let set = |file: &str, text: &str| std::fs::write(above.0.join(file), text).unwrap();
        // The quota is set in the parent, so the inner group has no file that contains it. Its period
        // is the longest one: before Linux 6.18, a thread of this kernel that uses up its quota while
        // it holds a lock can stop the whole machine.
        set("cpu.max", "500000 1000000");
        set("cpuset.cpus", "1");
        let inner = Group(above.0.join("inner"));
        std::fs::create_dir(&inner.0).unwrap();
        assert_judged(&inner.0);
        drop(inner);
    }
    for controller in ["cpu", "cpuset"] {
        if !before
            .split_whitespace()
            .any(|enabled| enabled == controller)
        {
            std::fs::write(&control, format!("-{controller}")).unwrap();
        }
    }
}

fn assert_judged(group: &std::path::Path) {
    let place = Sandbox::new();
    let inside = |line: &str| {
        let output = std::process::Command::new("sh")
            .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
            .arg(group.join("cgroup.procs"))
            .arg(env!("CARGO_BIN_EXE_punctual"))
            .args(line.split_whitespace())
            .env("PUNCTUAL_STORE", place.path("store.db"))
            .output()
            .unwrap();
        text(&output.stdout)
    };
    let audit: Audit = serde_json::from_str(&inside("doctor --json")).unwrap();
    let finding = |id: &str| audit.findings.iter().find(|one| one.id == id).unwrap();
    let quota = finding("rights-group-quota");
    assert_eq!(quota.state, FindingState::Fail, "{quota:?}");
    let above = group.parent().unwrap().file_name().unwrap();
    let above = format!("is 500000 1000000 of /{}", above.to_str().unwrap());
    assert!(quota.line().contains(&above), "{}", quota.line());
    let cpus = finding("rights-group-cpus");
    assert!(cpus.line().contains("CPU 1"), "{}", cpus.line());
    let siblings = "/sys/devices/system/cpu/cpu1/topology/thread_siblings_list";
    let core: CpuSet = std::fs::read_to_string(siblings).unwrap().parse().unwrap();
    let shared = core.difference(&"1".parse().unwrap());
    let cores = finding("rights-group-cores");
    if shared.is_empty() {
        assert_eq!(cores.state, FindingState::Ok, "{cores:?}");
        punctual_testing::skip!(Hardware, "a core that is shared: each CPU is one");
    } else {
        assert_eq!(cores.state, FindingState::Warn, "{cores:?}");
        let named = format!("are shared with CPU {shared}");
        assert!(cores.line().contains(&named), "{}", cores.line());
    }
    let line = format!(
        "measure timer -q -D 1s --interval 10ms --json --load cpu --cgroup {}",
        group.display()
    );
    let recording = Recording::from_json(&place.done(&line)).unwrap();
    let facts = recording.probe.group().unwrap();
    assert_eq!(facts.cpus.as_ref().unwrap().to_string(), "1");
    assert_eq!(facts.quota.as_ref().unwrap().millicpus(), 500);
    assert_eq!(facts.shared_cores, shared);
    assert!(recording.threads.iter().all(|thread| thread.cpu == Some(1)));
    assert!(
        recording.load[0].cpu_time_ns.unwrap().0 > 0,
        "{:?}",
        recording.load
    );
}

#[test]
fn an_isolated_cpu_is_known_and_measured() {
    let isolated = std::fs::read_to_string("/sys/devices/system/cpu/isolated").unwrap_or_default();
    if isolated.trim().is_empty() {
        punctual_testing::skip!(Emulation, "no CPU is isolated here");
        return;
    }
    let place = Sandbox::new();
    let cpus = isolated.trim();
    let json = place.done(&format!(
        "measure timer --cpus {cpus} -q -D 2s --interval 10ms --json"
    ));
    let recording = Recording::from_json(&json).unwrap();
    let known = recording.host.processor.isolated.get();
    assert_eq!(known.map(ToString::to_string), Some(cpus.to_owned()));
    assert!(
        recording
            .threads
            .iter()
            .all(|thread| thread.accounting.recorded > 0)
    );
}

/// Returns how often this CPU has switched threads since boot, and how many interrupts it has
/// received from other CPUs (function calls, rescheduling, irq_work).
fn disturbances(cpu: &str) -> Option<(u64, u64)> {
    let schedstat = std::fs::read_to_string("/proc/schedstat").unwrap_or_default();
    let own = format!("cpu{cpu} ");
    let line = schedstat.lines().find(|line| line.starts_with(&own));
    // See Documentation/scheduler/sched-stats.rst in Linux for the number of time slices.
    let switches = line.and_then(|line| line.split_whitespace().nth(9)?.parse().ok())?;
    let interrupts = std::fs::read_to_string("/proc/interrupts").unwrap();
    let mut lines = interrupts.lines();
    let column = lines.next().unwrap().split_whitespace();
    let column = column
        .into_iter()
        .position(|name| name == format!("CPU{cpu}"));
    let sent = lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        let name = words.next()?.trim_end_matches(':');
        let count = words.nth(column?)?.parse::<u64>().ok()?;
        ["RES", "CAL", "TLB", "IWI"]
            .contains(&name)
            .then_some(count)
    });
    Some((switches, sent.sum()))
}

/// Returns, for each thread of a process, the CPU on which it last ran.
fn last_cpus(pid: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let stat = |entry: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(entry.ok()?.path().join("stat")).ok()?;
        let rest = stat.rsplit_once(") ")?.1;
        // This is field 39 in proc(5). Two of the fields come before `rest`.
        rest.split_whitespace().nth(36).map(str::to_owned)
    };
    tasks.filter_map(stat).collect()
}

#[test]
fn idle_service_leaves_isolated_cpu_alone() {
    let isolated = std::fs::read_to_string("/sys/devices/system/cpu/isolated").unwrap_or_default();
    let cpu = isolated.trim();
    if cpu.parse::<u32>().is_err() || disturbances(cpu).is_none() {
        punctual_testing::skip!(
            Emulation,
            "no single CPU is isolated here, or its switches are not counted"
        );
        return;
    }
    let place = Sandbox::new();
    let plan = "[[series]]\nname = \"yearly\"\nprobe = \"timer\"\ncpus = \"0\"\nevery = \"1y\"\n";
    std::fs::write(place.path("plan.toml"), plan).unwrap();
    let length = std::time::Duration::from_secs(10);
    let passing = || {
        let before = disturbances(cpu).unwrap();
        std::thread::sleep(length);
        let after = disturbances(cpu).unwrap();
        (after.0 - before.0, after.1 - before.1)
    };
    let without = passing();
    let service = place.spawn("monitor run --plan plan.toml");
    // The start of the service does not count towards its overhead between runs. The machine is not
    // always quiet. A service that disturbs would do so every time, because it wakes ten times or
    // more.
    std::thread::sleep(length);
    let mut with = (u64::MAX, u64::MAX);
    let is_quiet = |with: (u64, u64)| with.0 <= without.0 + 4 && with.1 <= without.1 + 4;
    for _ in 0..5 {
        with = passing();
        if is_quiet(with) {
            break;
        }
    }
    let used = last_cpus(service.id());
    common::signal(&service, "TERM");
    assert_eq!(service.wait_with_output().unwrap().status.code(), Some(0));
    let sent = disturbances(cpu).unwrap();
    eprintln!(
        "CPU {cpu}, 10 s: {without:?} without a service, {with:?} with one, {sent:?} since boot"
    );
    assert!(
        !used.is_empty() && used.iter().all(|other| other != cpu),
        "{used:?}"
    );
    assert!(is_quiet(with), "{with:?} {without:?}");
}

/// Returns the state of the finding with this ID.
fn finding(audit: &Audit, id: &str) -> FindingState {
    let found = audit.findings.iter().find(|finding| finding.id == id);
    found.unwrap_or_else(|| panic!("no finding {id}")).state
}

#[test]
fn audit_sees_real_time_kernel_without_frequency() {
    if !real_time("doctor") {
        return;
    }
    let place = Sandbox::new();
    let json = place.done("doctor --no-sample --report-only --json");
    let audit: Audit = serde_json::from_str(&json).unwrap();
    assert_eq!(finding(&audit, "kernel-preempt-rt"), FindingState::Ok);
    if !std::path::Path::new("/sys/devices/system/cpu/cpu0/cpufreq").exists() {
        let power = audit
            .findings
            .iter()
            .filter(|finding| finding.id.contains("governor"));
        for finding in power {
            assert_ne!(finding.state, FindingState::Ok, "{}", finding.id);
        }
    }
    let isolated = std::fs::read_to_string("/sys/devices/system/cpu/isolated").unwrap_or_default();
    let is_ok = finding(&audit, "isolation-isolated") == FindingState::Ok;
    assert_eq!(is_ok, !isolated.trim().is_empty());
}

#[test]
fn threaded_interrupt_priority_is_set_and_restored() {
    if !real_time("tune thread-priority") {
        return;
    }
    let place = Sandbox::new();
    let handlers = || -> serde_json::Value {
        serde_json::from_str(&place.done("machine threads --type interrupt --json")).unwrap()
    };
    let before = handlers();
    let Some(handler) = before.as_array().and_then(|all| all.first().cloned()) else {
        punctual_testing::skip!(Hardware, "no interrupt has a thread here");
        return;
    };
    let priority = |all: &serde_json::Value| {
        let of = all
            .as_array()
            .unwrap()
            .iter()
            .find(|task| task["tid"] == handler["tid"]);
        of.unwrap()["scheduling"]["priority"].as_u64()
    };
    let other = if priority(&before) == Some(77) {
        78
    } else {
        77
    };
    let tid = &handler["tid"];
    place.done(&format!(
        "tune apply --set thread-priority@{tid}=fifo:{other}"
    ));
    let now = handlers();
    place.done("tune verify");
    place.done("tune revert");
    assert_eq!(priority(&now), Some(other));
    assert_eq!(priority(&handlers()), priority(&before));
}

#[test]
fn outliers_are_explained_and_nothing_stays_armed() {
    if !real_time("explain") {
        return;
    }
    let place = Sandbox::new();
    let output =
        place.run("measure timer --threshold 1us --explain --interval 20ms -D 3s -q --json");
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let recording = Recording::from_json(&text(&output.stdout)).unwrap();
    let blames: Vec<_> = recording
        .top_samples
        .iter()
        .filter_map(|largest| Some((largest.latency_ns, largest.blame.as_ref()?)))
        .collect();
    assert!(
        !blames.is_empty(),
        "nothing was explained: {:?}",
        recording.warnings
    );
    for (latency, blame) in blames {
        let sum: u64 = blame.shares.iter().map(|share| share.ns.0).sum();
        assert_eq!(sum, latency.0, "{blame:?}");
    }
    let left = std::fs::read_dir("/sys/kernel/tracing/instances").unwrap();
    assert_eq!(left.count(), 0, "an instance was left behind");
}

/// The emulator is stopped from outside, in the same way as by a hypervisor. `cargo xtask vm` waits
/// for a line on the console.
#[test]
fn whole_machine_stall_is_named_silence() {
    const STALL_MS: u64 = 300;
    if std::env::var_os("PUNCTUAL_VM").is_none() {
        punctual_testing::skip!(Emulation, "nobody outside stops this machine");
        return;
    }
    let place = Sandbox::new();
    // The emulated clock follows the clock of the host, so a stop appears as a jump in time.
    for _ in 0..3 {
        let mut child = place
            .spawn("measure timer --cpus 0 --threshold 100ms --explain --interval 20ms -D 60s -q");
        // The measurement starts when everything is ready, which takes several seconds on this
        // machine.
        place.wait_for_rows();
        std::fs::write("/dev/console", format!("\n@@ stall {STALL_MS}\n")).unwrap();
        std::thread::sleep(std::time::Duration::from_secs(3));
        common::signal(&child, "INT");
        child.wait().unwrap();
        let recording = place.last();
        place.done("store delete last");
        let largest = recording
            .top_samples
            .iter()
            .find(|largest| largest.latency_ns.0 > 150_000_000);
        let Some(blame) = largest.and_then(|largest| largest.blame.as_ref()) else {
            continue;
        };
        let largest = blame.shares.iter().max_by_key(|share| share.ns).unwrap();
        assert_eq!(largest.kind(), ShareKind::Silence, "{blame:?}");
        return;
    }
    panic!("no stall was seen");
}
