//! Tests of the everyday tools: exec, threads, irqs, topology, place and clocks.

use crate::common::{Sandbox, text};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Returns the current niceness, and a higher one that every user may set. Returns `None` if the
/// niceness of the tests is already the highest.
fn niceness() -> Option<(i64, i64)> {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after = stat.rsplit_once(')').unwrap().1;
    let own: i64 = (after.split_whitespace().nth(19 - 3).unwrap())
        .parse()
        .unwrap();
    if own >= 19 {
        punctual_testing::skip!(Quiet, "a higher niceness: the tests run at {own}");
    }
    (own < 19).then_some((own, own.max(4) + 1))
}

#[test]
fn command_runs_as_requested_keeping_status() {
    let place = Sandbox::new();
    let Some((_, nice)) = niceness() else { return };
    let output = place.run(&format!(
        "exec --nice {nice} --cpus 0 -- cat /proc/self/status"
    ));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let status = text(&output.stdout);
    assert!(status.contains("Cpus_allowed_list:\t0\n"), "{status}");
    let stat = place.done(&format!("exec --nice {nice} -- cat /proc/self/stat"));
    let after = stat.rsplit_once(')').unwrap().1;
    let said = nice.to_string();
    assert_eq!(after.split_whitespace().nth(19 - 3), Some(&*said), "{stat}");
    let output = place
        .command("exec -- sh -c")
        .arg("exit 7")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7));
    place.refused("exec -- /no/such/program", 127);
    place.refused("exec -- /proc/self/status", 126);
}

#[test]
fn permitted_user_gets_real_time() {
    let place = Sandbox::new();
    let output = place.run("exec --policy fifo -p 2 -- cat /proc/self/stat");
    if !output.status.success() {
        let stderr = text(&output.stderr);
        assert!(stderr.contains("CAP_SYS_NICE"), "{stderr}");
        punctual_testing::skip_refused("exec at a real-time priority", &stderr);
        return;
    }
    let stat = text(&output.stdout);
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    assert_eq!((fields[40 - 3], fields[41 - 3]), ("2", "1"), "{stat}");
    let error = place.refused("exec -p 99 true", 2);
    assert!(error.contains("--force"), "{error}");
}

#[test]
fn a_deadline_command_may_start_others() {
    let place = Sandbox::new();
    // The shell waits for its child, which reads the state of both processes.
    let output = place
        .command("exec --runtime 5ms --period 50ms -- sh -c")
        .arg("cat /proc/$$/stat /proc/self/stat; true")
        .output()
        .unwrap();
    if !output.status.success() {
        punctual_testing::skip_refused("exec of a deadline command", text(&output.stderr).trim());
        return;
    }
    let stats = text(&output.stdout);
    let policies: Vec<&str> = stats
        .lines()
        .filter_map(|stat| stat.rsplit_once(')')?.1.split_whitespace().nth(41 - 3))
        .collect();
    assert_eq!(policies, ["6", "0"], "{stats}");
}

#[test]
fn what_runs_is_changed_and_told() {
    let place = Sandbox::new();
    let Some((own, nice)) = niceness() else {
        return;
    };
    let mut child = std::process::Command::new("sleep")
        .arg("30")
        .spawn()
        .unwrap();
    let pid = child.id();
    let said = place.run(&format!("exec --pid {pid} --nice {nice} --cpus 0"));
    let threads = place.done(&format!("machine threads --pid {pid} --json"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said.status.success(), "{}", text(&said.stderr));
    let change = format!("nice {own} -> nice {nice}");
    assert!(text(&said.stdout).contains(&change), "{said:?}");
    let threads = json(&threads);
    assert_eq!(threads[0]["nice"], nice);
    assert_eq!(threads[0]["affinity"], "0");
    assert_eq!(threads[0]["kind"], "user");
    place.refused(&format!("machine threads --pid {pid}"), 2);
    place.refused(&format!("exec --pid {pid} --nice 1"), 2);
}

/// In a process whose threads start and end, all threads are changed.
#[test]
fn all_threads_of_what_runs_are_changed() {
    let place = Sandbox::new();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let sleeping = |stop: &std::sync::Arc<std::sync::atomic::AtomicBool>| {
        let stop = stop.clone();
        std::thread::spawn(move || {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                std::thread::spawn(|| {}).join().unwrap();
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        })
    };
    let threads: Vec<_> = (0..3).map(|_| sleeping(&stop)).collect();
    // The process of this test had niceness 0 and must keep it.
    let pid = std::process::id();
    let before = place.run(&format!("exec --pid {pid} --all-threads"));
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert!(before.status.success(), "{before:?}");
    assert!(text(&before.stdout).lines().count() >= 4, "{before:?}");
}

#[test]
fn threads_and_interrupts_show_their_rates() {
    let place = Sandbox::new();
    let all = json(&place.done("machine threads --json"));
    let kinds = |kind: &str| all.as_array().unwrap().iter().any(|t| t["kind"] == kind);
    assert!(kinds("user"));
    let watched = json(&place.done("machine threads --watch 200ms --sort cpu --json"));
    assert!(watched[0]["used_in_ns"].as_u64().unwrap() >= 200_000_000);
    assert!(
        place
            .done("machine threads --comm punctual")
            .contains("policy")
    );
    let interrupts = json(&place.done("machine irqs --json"));
    let timers = interrupts
        .as_array()
        .unwrap()
        .iter()
        .find(|i| i["id"] == "LOC");
    if timers.is_none() {
        punctual_testing::skip!(
            Hardware,
            "this machine has no local timer interrupts in its table"
        );
    }
    let rates = json(&place.done("machine irqs --watch 200ms --json"));
    for rate in rates.as_array().unwrap() {
        assert!(rate["counts_in_ns"].as_u64().unwrap() >= 200_000_000);
    }
}

#[test]
fn the_machine_is_told_and_drawn() {
    let place = Sandbox::new();
    let all = json(&place.done("machine topology --json"));
    assert!(!all["cpus"].as_array().unwrap().is_empty());
    assert!(place.done("machine topology").contains("housekeeping"));
    place.done("machine topology -o machine.svg");
    let drawn = std::fs::read_to_string(place.path("machine.svg")).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.contains("CPU 0"));
    let clocks = json(&place.done("machine clocks --json"));
    assert_eq!(clocks["clocks"].as_array().unwrap().len(), 9);
    for pattern in ["system", "pair"] {
        let output = place.run(&format!("machine place {pattern} -q"));
        let one_core = text(&output.stderr).contains("core");
        assert!(output.status.success() || one_core, "{output:?}");
    }
    assert!(
        place
            .done("machine place beside --cpu 0 --json")
            .contains("reason")
    );
    place.refused("machine place beside --cpu 4000", 1);
    place.refused("machine place beside --irq 99999", 2);
}

#[test]
fn an_interrupt_is_moved_and_put_back() {
    let place = Sandbox::new();
    let interrupts = json(&place.done("machine irqs --all --devices --json"));
    // An interrupt of the kind `line` can be moved, but a device with several queues may manage its
    // interrupts itself. The permissions of the file show whether this user may write to it.
    let found = interrupts.as_array().unwrap().iter().find(|interrupt| {
        interrupt["kind"] == "line" && interrupt["affinity"]["value"].as_str() == Some("0-1")
    });
    let Some(id) = found.and_then(|interrupt| interrupt["id"].as_str()) else {
        punctual_testing::skip!(Hardware, "no interrupt by line that may go to CPUs 0-1");
        return;
    };
    let file = format!("/proc/irq/{id}/smp_affinity_list");
    let before = std::fs::read_to_string(&file).unwrap();
    let output = place.run(&format!("machine irqs move {id} --cpus 0"));
    if !output.status.success() {
        punctual_testing::skip_refused("machine irqs move", text(&output.stderr));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
        return;
    }
    let moved = std::fs::read_to_string(&file).unwrap();
    place.done("tune revert");
    assert_eq!(moved.trim(), "0");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
}

#[test]
fn clock_source_is_changed_and_restored() {
    let place = Sandbox::new();
    let clocks = json(&place.done("machine clocks --json"));
    let now = clocks["source"]["value"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let others = clocks["available"]["value"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let Some(other) = others
        .iter()
        .filter_map(Value::as_str)
        .find(|name| *name != now)
    else {
        punctual_testing::skip!(Hardware, "there is no second clock source");
        return;
    };
    let output = place.run(&format!("machine clocks set {other}"));
    if !output.status.success() {
        punctual_testing::skip_refused("machine clocks set", text(&output.stderr));
        return;
    }
    let taken = json(&place.done("machine clocks --json"))["source"]["value"].clone();
    place.done("tune revert");
    assert_eq!(taken, *other);
    assert_eq!(
        json(&place.done("machine clocks --json"))["source"]["value"],
        *now
    );
    place.refused("machine clocks set sundial", 2);
}
