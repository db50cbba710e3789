//! The kernel's own tracers (hwlat, timerlat, osnoise) as sources of measurements. `cargo xtask vm`
//! runs these tests in an emulated machine with PREEMPT_RT.

#![allow(clippy::unwrap_used)]

#[path = "it/common/mod.rs"]
mod common;

use common::{Sandbox, real_time, text};
use punctual_model::{Completion, Recording, ShareKind, ThreadRecord};

/// Returns whether the kernel has this tracer and this user can see it.
fn has_tracer(name: &str) -> bool {
    let there = std::fs::read_to_string("/sys/kernel/tracing/available_tracers")
        .is_ok_and(|text| text.split_whitespace().any(|tracer| tracer == name));
    if !there {
        punctual_testing::skip!(
            Kernel,
            "this kernel has no tracer {name}, or its list cannot be read"
        );
    }
    there
}

#[test]
fn kernel_hardware_latency_detector_is_a_source() {
    if !real_time("hwlat") || !has_tracer("hwlat") {
        return;
    }
    let place = Sandbox::new();
    for source in ["hwlat", "both"] {
        let output = place.run(&format!(
            "measure hardware --source {source} --threshold 1us -D 3s -q --json"
        ));
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        let recording = Recording::from_json(&text(&output.stdout)).unwrap();
        assert_eq!(recording.completion, Completion::Finished);
    }
    let left = std::fs::read_dir("/sys/kernel/tracing/instances").unwrap();
    assert_eq!(left.count(), 0, "an instance was left behind");
    let tracer = std::fs::read_to_string("/sys/kernel/tracing/current_tracer").unwrap();
    assert_eq!(tracer.trim(), "nop");
}

/// Returns all settings of timerlat and osnoise, and the instances that remain in tracefs.
fn noise_settings() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for folder in ["osnoise", "instances", "."] {
        let entries = std::fs::read_dir(format!("/sys/kernel/tracing/{folder}")).unwrap();
        for entry in entries.map(Result::unwrap) {
            let path = entry.path();
            let name = path.display().to_string();
            let told =
                folder != "." || name.ends_with("current_tracer") || name.ends_with("thresh");
            if told {
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                all.push((name, text));
            }
        }
    }
    all.sort();
    all
}

/// Runs a test at this length and, until it returns `true`, at four and sixteen times this length.
/// Returns what the last run returned: the caller then asserts it.
fn on_slower_machines<T>(length: u32, test: impl Fn(u32) -> (bool, T)) -> T {
    let (met, found) = test(length);
    if met {
        return found;
    }
    let (met, found) = test(4 * length);
    if met { found } else { test(16 * length).1 }
}

#[test]
fn the_kernels_timers_are_a_source() {
    if !real_time("timerlat") || !has_tracer("timerlat") {
        return;
    }
    let place = Sandbox::new();
    let before = noise_settings();
    let rows = ["interrupt", "thread", "user space"];
    for (workload, rows) in [("user", &rows[..]), ("kernel", &rows[..2])] {
        let recording = on_slower_machines(1, |slower| {
            let json = place.done(&format!(
                "measure timer --source timerlat --workload {workload} --interval {}ms -D {}s -q \
                 --json",
                10 * slower,
                3 * slower
            ));
            assert_eq!(noise_settings(), before, "{workload}");
            let recording = Recording::from_json(&json).unwrap();
            let recorded = |thread: &ThreadRecord| thread.accounting.recorded > 100;
            (recording.threads.iter().all(recorded), recording)
        });
        assert_eq!(recording.completion, Completion::Finished);
        let first: Vec<_> = recording.threads.iter().take(rows.len()).collect();
        for (thread, row) in first.iter().zip(rows) {
            assert_eq!(thread.label, Some(format!("CPU 0, {row}")));
        }
        // The later a stage of a timer is, the larger is its latency.
        let least = |thread: &ThreadRecord| thread.histogram.min();
        assert!(first.iter().map(|thread| least(thread)).is_sorted());
        for thread in &recording.threads {
            let account = thread.accounting;
            assert!(account.balances(), "{account:?}");
            assert_eq!(account.expected, 300, "{:?}", thread.label);
            assert!(account.recorded > 100, "{account:?}");
        }
        let table = &recording.tables[0];
        assert_eq!(table.name, "timerlat");
        let policies = table.rows.iter().map(|row| row[2].show(&table.columns[2]));
        assert!(policies.clone().all(|text| text == "fifo 95"), "{table:?}");
    }
}

#[test]
fn next_command_undoes_killed_timerlat() {
    if !real_time("timerlat") || !has_tracer("timerlat") {
        return;
    }
    let place = Sandbox::new();
    let before = noise_settings();
    for (name, workload) in [("KILL", "kernel"), ("KILL", "user"), ("INT", "user")] {
        let line = format!("measure timer --source timerlat --workload {workload} -D 10m -q");
        let mut child = place.spawn(&format!("{line} --interval 20ms"));
        place.wait_for_rows();
        assert_ne!(noise_settings(), before);
        common::signal(&child, name);
        child.wait().unwrap();
        if name == "KILL" {
            let told = text(&place.run("list").stderr);
            assert!(told.contains("tracer osnoise was stopped"), "{told}");
        }
        assert_eq!(noise_settings(), before, "{name} {workload}");
        place.done("store delete last");
    }
}

#[test]
fn late_timers_of_the_kernel_are_explained() {
    if !real_time("timerlat --explain") || !has_tracer("timerlat") {
        return;
    }
    let place = Sandbox::new();
    for workload in ["user", "kernel"] {
        let line = format!("measure timer --source timerlat --workload {workload} --interval 50ms");
        let json = place.done(&format!("{line} --threshold 1us --explain -D 3s -q --json"));
        let recording = Recording::from_json(&json).unwrap();
        let found = recording.explanation.as_ref().unwrap();
        assert!(found.explained > 0, "{:?}", recording.warnings);
        assert!(
            found
                .events
                .iter()
                .any(|event| event == "osnoise:irq_noise")
        );
        for outlier in &found.outliers {
            let sum: u64 = outlier.blame.shares.iter().map(|share| share.ns.0).sum();
            assert_eq!(sum, outlier.latency_ns.0);
            // Each expiry is explained only once, under the label of the last row.
            let label = recording.threads[outlier.thread as usize].label.as_deref();
            let last = if workload == "user" {
                "user space"
            } else {
                "thread"
            };
            assert!(label.unwrap().ends_with(last), "{label:?}");
        }
        let known = |outlier: &&punctual_model::Outlier| {
            let shares = outlier.blame.shares.iter();
            shares
                .clone()
                .any(|share| share.kind() == ShareKind::Interrupt)
        };
        let interrupts = found.outliers.iter().filter(known).count();
        assert!(
            interrupts > found.outliers.len() / 2,
            "{:?}",
            found.outliers[0]
        );
        // The kernel prints no stack for threads of user space.
        if workload == "kernel" {
            assert_stacks_of_timerlat(&place, found.outliers.len());
        }
    }
}

/// Asserts that most outliers include the stack of the interrupt, with function names.
fn assert_stacks_of_timerlat(place: &Sandbox, outliers: usize) {
    let json = place.done("explain last --json");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let shown = json["outliers"].as_array().unwrap();
    let with = shown.iter().filter_map(|outlier| {
        let events = outlier["window"]["events"].as_array()?;
        let stack = events
            .iter()
            .find_map(|event| event["k"].get("timerlat_stack"))?;
        assert!(!stack["frames"].as_array()?.is_empty(), "{stack}");
        outlier["outlier"]["number"].as_u64()
    });
    let with: Vec<u64> = with.collect();
    assert!(with.len() > outliers / 2, "{} of {outliers}", with.len());
    let line = "timerlat's interrupt came upon";
    let told = place.done(&format!("explain last --outlier {}", with[0]));
    assert!(told.contains(line), "{told}");
    // The page shows the largest outlier only, and the kernel may have kept no stack of it.
    let largest = shown
        .iter()
        .max_by_key(|shown| shown["outlier"]["latency_ns"].as_u64());
    let largest = largest.and_then(|shown| shown["outlier"]["number"].as_u64());
    place.done("report last -o report.html");
    let page = std::fs::read_to_string(place.path("report.html")).unwrap();
    assert_eq!(
        page.contains("interrupt came upon"),
        largest.is_some_and(|number| with.contains(&number)),
        "stack in the report"
    );
}

#[test]
fn the_kernels_spinning_threads_are_a_source() {
    if !real_time("osnoise") || !has_tracer("osnoise") {
        return;
    }
    let place = Sandbox::new();
    let before = noise_settings();
    let json =
        place.done("measure hardware --source osnoise --window 200ms --width 20ms -D 4s -q --json");
    assert_eq!(noise_settings(), before);
    let recording = Recording::from_json(&json).unwrap();
    assert_eq!(recording.completion, Completion::Finished);
    for thread in &recording.threads {
        let account = thread.accounting;
        assert!(account.balances(), "{account:?}");
        assert!(account.recorded > 5, "{account:?}");
    }
    let table = &recording.tables[0];
    assert_eq!(table.name, "osnoise");
    for row in &table.rows {
        let count = |place: usize| match row[place] {
            punctual_model::Cell::Count(count) => count,
            _ => panic!("{row:?}"),
        };
        // Each thread has spun for 20 ms in each window, and interrupts have occurred.
        assert!(count(4) >= count(3) * 19_000_000, "{row:?}");
        assert!(count(10) > 0, "{row:?}");
    }
}

#[test]
fn rtla_is_answered_by_the_kernels_tracers() {
    if !real_time("osnoise") || !has_tracer("osnoise") || !has_tracer("timerlat") {
        return;
    }
    let place = Sandbox::new();
    let before = noise_settings();
    for (line, tracer, columns) in [
        ("timerlat hist -k -p 10000", "timerlat", "IRQ-000   Thr-000"),
        (
            "timerlat hist -u -p 10000",
            "timerlat",
            "IRQ-000   Thr-000   Usr-000",
        ),
        (
            "timerlat top -q -p 10000",
            "timerlat",
            "Thread Timer Latency (us)",
        ),
        ("osnoise hist", "osnoise", "CPU-000"),
        ("osnoise top -q -P f:1", "osnoise", "Operating System Noise"),
        ("hwnoise -q", "osnoise", "Hardware-related Noise"),
    ] {
        let (out, said) = on_slower_machines(3, |seconds| {
            let output = place.run(&format!("compat rtla {line} -c 0 -d {seconds}"));
            let (out, said) = (text(&output.stdout), text(&output.stderr));
            assert_eq!(output.status.code(), Some(0), "{line}: {said}");
            // A machine that is slow may not complete a period.
            (out.contains(columns), (out, said))
        });
        let first = said.lines().find(|line| line.contains("measured with"));
        let first = first.unwrap_or_else(|| panic!("{said}"));
        assert!(
            first.contains(&format!("kernel's tracer {tracer}")),
            "{said}"
        );
        assert!(!first.contains("not the kernel's"), "{said}");
        assert!(out.contains(columns), "{line}: {out}");
        assert_eq!(noise_settings(), before, "{line}");
    }
}

/// The kernel's own test suite checks the same (tools/tracing/rtla/tests in its sources).
#[test]
fn rtla_writes_traces_while_the_threads_exist() {
    if !real_time("osnoise") || !has_tracer("osnoise") || !has_tracer("timerlat") {
        return;
    }
    let place = Sandbox::new();
    let before = noise_settings();
    let threads = "shell,command=ps | grep -c '[t]imerlat/0\\|[o]snoise/0' | sed s/^/threads:/";
    for (line, tracer) in [
        (
            "timerlat hist -k -p 20000 -c 0 -T 1 --no-aa -d 60",
            "timerlat",
        ),
        ("osnoise hist -c 0 -S 1 -d 60", "osnoise"),
        ("osnoise top -q -c 0 -s 1 -d 60", "osnoise"),
    ] {
        let mut command = place.command(&format!("compat rtla {line}"));
        let output = command
            .args([
                "-t",
                "-e",
                "sched:sched_switch",
                "--filter",
                "prev_pid != 0",
            ])
            .args(["--on-threshold", threads])
            .output()
            .unwrap();
        let (out, said) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert_eq!(noise_settings(), before, "{line}");
        let threads = out.lines().find_map(|line| line.strip_prefix("threads:"));
        let threads = threads.and_then(|count| count.parse::<u32>().ok());
        assert!(threads > Some(0), "{line}: {out}");
        let file = format!("{tracer}_trace.txt");
        assert!(
            out.contains(&format!("  Saving trace to {file}\n")),
            "{line}: {out}"
        );
        let trace = std::fs::read_to_string(place.path(&file)).unwrap();
        assert!(
            trace.starts_with(&format!("# tracer: {tracer}\n")),
            "{trace}"
        );
        // The kernel's own stop leaves no line on some kernels, and no other if it ends the first period.
        let stop = "stop tracing hit on cpu 0: thread latency of ";
        assert!(
            tracer != "timerlat" || trace.contains(stop),
            "{line}: {trace}"
        );
        std::fs::remove_file(place.path(&file)).unwrap();
    }
    let mut command = place.command("compat rtla osnoise hist -c 0 -d 2 --on-end trace");
    let trigger = "hist:key=desc:vals=hitcount";
    command.args(["-e", "osnoise:irq_noise", "--trigger", trigger]);
    let output = command.output().unwrap();
    let (out, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(noise_settings(), before);
    assert!(
        out.contains("  Saving trace to osnoise_trace.txt\n"),
        "{out}"
    );
    let saved = "  Saving event osnoise:irq_noise hist to osnoise_irq_noise_hist.txt\n";
    assert!(out.contains(saved), "{out}");
    let counted = std::fs::read_to_string(place.path("osnoise_irq_noise_hist.txt")).unwrap();
    assert!(counted.contains("hitcount"), "{counted}");
    // The error names what the kernel refuses, and nothing is left behind.
    let output = place.run("compat rtla osnoise top -c 0 -s 1 -d 9 -t -e osnoise:nothing");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("osnoise/nothing"), "{said}");
    assert_eq!(noise_settings(), before);
}
