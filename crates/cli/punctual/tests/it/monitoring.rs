//! Tests of `monitor`, `store` and imports into a series, run as a user would.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::{Sandbox, eventually, signal, text};
use serde_json::Value;

pub(crate) fn plan(place: &Sandbox, text: &str) -> String {
    let path = place.path("plan.toml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

const SHORT: &str = r#"
[[series]]
name = "short"
probe = "timer"
parameters = { interval = "1ms" }
duration = "1s"
every = "2s"

[keep]
rows = "2y"
"#;

pub(crate) fn slots(place: &Sandbox) -> Vec<Value> {
    let output = place.run("monitor slots --json");
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

pub(crate) fn count(slots: &[Value], state: &str) -> usize {
    slots.iter().filter(|slot| slot["state"] == state).count()
}

/// Returns the time at which a slot was due, in seconds.
fn due_at(slot: &Value) -> i64 {
    let time: jiff::Timestamp = slot["due"].as_str().unwrap().parse().unwrap();
    time.as_second()
}

/// Returns the times at which slots were due, in seconds, with the oldest first.
fn due(slots: &[Value]) -> Vec<i64> {
    slots.iter().rev().map(due_at).collect()
}

/// Returns the times from the first to the last, in steps of two seconds.
fn each_two_seconds(due: &[i64]) -> Vec<i64> {
    (due[0]..=*due.last().unwrap()).step_by(2).collect()
}

#[test]
fn service_records_slots_until_stopped() {
    let place = Sandbox::new();
    let plan = plan(&place, SHORT);
    let service = place.spawn(&format!("monitor run --plan {plan}"));
    assert!(eventually(|| count(&slots(&place), "recorded") >= 1));
    // If a second service used the same store, each slot would be measured twice.
    let second = place.refused(&format!("monitor run --plan {plan}"), 1);
    assert!(second.contains("another service records into"), "{second}");
    let status = place.done(&format!("monitor status --plan {plan}"));
    assert!(status.contains("running (process "), "{status}");
    assert!(eventually(|| count(&slots(&place), "running") == 1));
    signal(&service, "TERM");
    let output = service.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let all = slots(&place);
    assert_eq!(count(&all, "running"), 0, "{all:#?}");
    let stopped = &all[0];
    if stopped["state"] == "interrupted" {
        assert_eq!(stopped["reason"], "the service was stopped");
    }
    let listed = place.done("list --json --series short");
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    assert!(!listed.is_empty());
    let status = place.done(&format!("monitor status --plan {plan}"));
    assert!(status.contains("not running"), "{status}");
}

/// Returns how often to kill the service. The gate does not have time for more kills.
fn kills() -> usize {
    let given = std::env::var("PUNCTUAL_KILLS").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(3)
}

#[test]
fn killed_service_neither_loses_nor_doubles_slots() {
    let place = Sandbox::new();
    let plan = plan(&place, SHORT);
    let mut state = 7u64;
    for _ in 0..kills() {
        let mut service = place.spawn(&format!("monitor run --plan {plan}"));
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        std::thread::sleep(std::time::Duration::from_millis(
            200 + (state >> 33) % 2_500,
        ));
        service.kill().unwrap();
        service.wait().unwrap();
    }
    // Do not require that the newest slot is recorded, because a slow machine may always be
    // measuring it.
    let last = jiff::Timestamp::now().as_second();
    let service = place.spawn(&format!("monitor run --plan {plan}"));
    let recorded_since = |all: &[Value]| {
        let recorded = all.iter().filter(|slot| slot["state"] == "recorded");
        recorded.map(due_at).any(|due| due > last)
    };
    assert!(
        eventually(|| recorded_since(&slots(&place))),
        "{:#?}",
        slots(&place)
    );
    signal(&service, "TERM");
    service.wait_with_output().unwrap();
    let all = slots(&place);
    assert_eq!(count(&all, "running"), 0, "{all:#?}");
    assert_eq!(due(&all), each_two_seconds(&due(&all)));
    // Each recording must belong to only one slot.
    let mut recordings: Vec<&str> = all
        .iter()
        .filter_map(|slot| slot["recording"].as_str())
        .collect();
    let named = recordings.len();
    recordings.sort_unstable();
    recordings.dedup();
    assert_eq!(recordings.len(), named);
    assert_eq!(place.listed().len(), named);
    place.done("store check");
}

/// This environment variable contains the name of the test that runs with separate mounts.
const INSIDE: &str = "PUNCTUAL_TEST_MOUNTS";

/// Returns whether this process has separate mounts. If not, runs the test again in a process that
/// has separate mounts, and asserts that it succeeds.
fn has_own_mounts(test: &str) -> bool {
    let test = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
    let test = test.as_str();
    if std::env::var_os(INSIDE).is_some_and(|name| name == test) {
        return true;
    }
    let unshare = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]);
        command.args(words);
        command
    };
    let allowed = unshare(&["true"]).output();
    if !allowed.is_ok_and(|done| done.status.success()) {
        punctual_testing::skip!(Right, "a full disk: no right to mount a tmpfs");
        return false;
    }
    let this = std::env::current_exe().unwrap();
    let done = unshare(&[this.to_str().unwrap(), "--exact", test])
        .env(INSIDE, test)
        .output()
        .unwrap();
    let (said, failed) = (text(&done.stdout), text(&done.stderr));
    assert!(done.status.success(), "{said}{failed}");
    assert!(said.contains("1 passed"), "{said}");
    punctual_testing::skip_inside(&failed);
    false
}

/// Mounts a small disk, visible to this process only.
fn small_disk(folder: &Path) {
    std::fs::create_dir(folder).unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=24m", "none"];
    let mounted = Command::new("mount").args(mount).arg(folder).status();
    assert!(mounted.unwrap().success());
}

/// A service that is killed when its test ends, even if the test fails.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Fills a disk up to its last page.
fn fill(file: &Path) {
    let mut file = std::fs::File::create(file).unwrap();
    while file.write_all(&[1; 4_096]).is_ok() {}
}

#[test]
fn full_disk_ends_slots_not_the_service() {
    if !has_own_mounts("full_disk_ends_slots_not_the_service") {
        return;
    }
    let place = Sandbox::new();
    let disk = place.path("disk");
    small_disk(&disk);
    let command = |line: &str| {
        let mut command = place.command(line);
        command.env("PUNCTUAL_STORE", disk.join("store.db"));
        command.env("XDG_STATE_HOME", disk.join("state"));
        command
    };
    let run = |line: &str| command(line).output().unwrap();
    let json = |line: &str| -> Vec<Value> {
        serde_json::from_slice(&run(line).stdout).unwrap_or_default()
    };
    let plan = plan(&place, SHORT);
    let log = place.path("log");
    let said = || std::fs::read_to_string(&log).unwrap();
    let service = command(&format!("monitor run --plan {plan}"))
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn();
    let mut service = Ends(service.unwrap());
    let recorded = || count(&json("monitor slots --json"), "recorded");
    assert!(eventually(|| recorded() >= 1), "{}", said());
    fill(&disk.join("filler"));
    assert!(eventually(|| said().contains("o space left")), "{}", said());
    // Existing recordings can be read. They can also be deleted, for which reserved space is used.
    let listed = run("list --json");
    assert_eq!(listed.status.code(), Some(0), "{}", text(&listed.stderr));
    let listed: Vec<Value> = serde_json::from_slice(&listed.stdout).unwrap();
    let oldest = listed.last().unwrap()["id"].as_str().unwrap();
    let deleted = run(&format!("store delete {oldest}"));
    assert_eq!(deleted.status.code(), Some(0), "{}", text(&deleted.stderr));
    // Fill the space that was released by the deletion.
    fill(&disk.join("filler-2"));
    assert_eq!(service.0.try_wait().unwrap(), None, "{}", said());
    std::fs::remove_file(disk.join("filler")).unwrap();
    let before = recorded();
    assert!(eventually(|| recorded() >= before + 2), "{}", said());
    signal(&service.0, "TERM");
    assert_eq!(service.0.wait().unwrap().code(), Some(0), "{}", said());
    let all = json("monitor slots --json");
    assert_eq!(count(&all, "running"), 0, "{all:#?}");
    let has_reason = |slot: &Value| slot["reason"].as_str().is_some_and(|why| !why.is_empty());
    let named = |slot: &&Value| has_reason(slot) || slot["state"] == "recorded";
    assert_eq!(all.iter().filter(named).count(), all.len(), "{all:#?}");
    let is_full = |slot: &&Value| slot["reason"].to_string().contains("o space left");
    assert!(all.iter().any(|slot| is_full(&slot)), "{all:#?}");
    assert_eq!(due(&all), each_two_seconds(&due(&all)));
    let checked = run("store check");
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
    let gone = Command::new("umount").arg("-l").arg(&disk).status();
    assert!(gone.unwrap().success());
}

/// In this test, nothing was prepared for the full disk.
#[test]
fn full_disk_allows_reading_and_deleting_recordings() {
    if !has_own_mounts("full_disk_allows_reading_and_deleting_recordings") {
        return;
    }
    let place = Sandbox::new();
    let disk = place.path("disk");
    small_disk(&disk);
    let run = |line: &str| {
        let mut command = place.command(line);
        command.env("PUNCTUAL_STORE", disk.join("store.db"));
        command.env("XDG_STATE_HOME", disk.join("state"));
        let output = command.output().unwrap();
        (
            output.status.code(),
            text(&output.stdout) + &text(&output.stderr),
        )
    };
    let done = |line: &str| {
        let (code, said) = run(line);
        assert_eq!(code, Some(0), "{line}: {said}");
        said
    };
    let measure = "measure timer -q --policy other --dma-latency off -D 100ms";
    done(measure);
    done(measure);
    fill(&disk.join("filler"));
    let (code, said) = run(measure);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("o space left"), "{said}");
    assert!(done("list").contains("timer"));
    assert!(done("show last").contains("account"));
    assert!(done("store stats").contains("recordings"));
    done("store delete last");
    // The deletion has made room for another recording.
    done(measure);
    done("store delete last");
    done("store delete last");
    done("store check");
    assert_eq!(done("list --json").trim(), "[]");
    let gone = Command::new("umount").arg("-l").arg(&disk).status();
    assert!(gone.unwrap().success());
}

/// Returns the process that is measuring a slot for `service`.
fn measuring(service: u32) -> Option<u32> {
    std::fs::read_dir("/proc").unwrap().find_map(|entry| {
        let entry = entry.unwrap();
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let words = std::fs::read(entry.path().join("cmdline")).ok()?;
        let parent = status(pid, "PPid")?;
        let is_it = String::from_utf8_lossy(&words).contains("serve-slot");
        (is_it && parent == u64::from(service)).then_some(pid)
    })
}

/// Returns a number from `/proc/PID/status`.
fn status(pid: u32, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn slot_is_measured_in_own_process() {
    let place = Sandbox::new();
    let plan = plan(
        &place,
        &SHORT.replace("\"1s\"", "\"3s\"").replace("2s", "4s"),
    );
    let service = place.spawn(&format!("monitor run --plan {plan}"));
    // The process is killed during its recording. A slower machine may already be at the next slot,
    // which has no recording yet. In that case, the process is killed again.
    let mut locked = Vec::new();
    let in_state = |state: &str| {
        let begun = place.listed();
        let is_begun = |slot: &Value| begun.iter().any(|one| one["id"] == slot["recording"]);
        let mut all = slots(&place).into_iter();
        all.find(|slot| slot["state"] == state && is_begun(slot))
    };
    let is_lost = eventually(|| {
        if let (Some(_), Some(process)) = (in_state("running"), measuring(service.id())) {
            locked.push(status(service.id(), "VmLck"));
            let killed = Command::new("kill")
                .args(["-KILL", &process.to_string()])
                .status();
            assert!(killed.is_ok());
        }
        in_state("failed").is_some()
    });
    assert!(is_lost, "{:#?}", slots(&place));
    // Memory that is locked for the measurement must not be locked in the service.
    assert!(locked.iter().all(|kb| *kb == Some(0)), "{locked:?}");
    assert!(!locked.is_empty());
    let lost = in_state("failed").unwrap();
    let reason = lost["reason"].as_str().unwrap();
    assert!(reason.contains("was killed by signal 9"), "{reason}");
    let listed = place.listed();
    let kept = listed.iter().find(|one| one["id"] == lost["recording"]);
    assert_eq!(kept.unwrap()["completion"], "interrupted");
    // The service continues, and keeps nothing that belongs to a run.
    assert!(eventually(|| count(&slots(&place), "recorded") > 0));
    signal(&service, "TERM");
    assert_eq!(service.wait_with_output().unwrap().status.code(), Some(0));
    assert_eq!(count(&slots(&place), "running"), 0);
}

#[test]
fn snapshot_keeps_flight_recorder_events() {
    let place = Sandbox::new();
    let plan = plan(&place, "[flight]\nlast = \"30s\"\nmemory = \"4MB\"\n");
    let shown = place.done(&format!("monitor check --plan {plan}"));
    assert!(
        shown.contains("trace events of the last 30.0 s, 4 MB"),
        "{shown}"
    );
    let service = place.spawn(&format!("monitor run --plan {plan}"));
    // `status` works as soon as the service has started.
    let status = || text(&place.run(&format!("monitor status --plan {plan}")).stdout);
    assert!(eventually(|| status().contains("running (process ")));
    let output = place.run("monitor snapshot --text stutter");
    let failed = text(&output.stderr);
    if failed.contains("is not armed") {
        signal(&service, "TERM");
        service.wait_with_output().unwrap();
        punctual_testing::skip_refused("a flight recorder", &failed);
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{failed}");
    let said = text(&output.stdout);
    assert!(said.contains("trace events of the last "), "{said}");
    let file = said
        .lines()
        .find_map(|line| line.split_once(": "))
        .unwrap()
        .1;
    let bytes = std::fs::read(file).unwrap();
    assert!(bytes.starts_with(b"\x17\x08\x44tracing"), "{file}");
    let notes = place.done("trend note list --json");
    assert!(notes.contains("snapshot: stutter ("), "{notes}");
    let process = service.id();
    assert_eq!(crate::common::instances_of(process).len(), 1);
    signal(&service, "TERM");
    assert_eq!(service.wait_with_output().unwrap().status.code(), Some(0));
    assert!(crate::common::instances_of(process).is_empty());
}

#[test]
fn window_is_kept_or_refusal_explained() {
    let place = Sandbox::new();
    let plan = plan(&place, "[watch]\nwindow = \"1s\"\n");
    let service = place.spawn(&format!("monitor run --plan {plan}"));
    let windows = || -> u64 {
        // There is no store before the first window.
        let stats = place.run("store stats --json").stdout;
        let stats: Value = serde_json::from_slice(&stats).unwrap_or_default();
        stats["windows"].as_u64().unwrap_or(0)
    };
    assert!(eventually(|| slots(&place).len() as u64 + windows() >= 2));
    signal(&service, "TERM");
    assert_eq!(service.wait_with_output().unwrap().status.code(), Some(0));
    // Wake-ups can be counted only by BPF programs.
    for refused in slots(&place) {
        assert_eq!(
            (&refused["series"], &refused["state"]),
            (&"watch".into(), &"refused".into())
        );
        assert!(
            refused["reason"]
                .as_str()
                .is_some_and(|why| !why.is_empty())
        );
    }
    place.done("store check");
}

#[test]
fn slot_runs_now_unless_cpu_busy() {
    let place = Sandbox::new();
    let plan = plan(&place, SHORT);
    let done = place.done(&format!("monitor once short --plan {plan}"));
    assert!(done.starts_with("short: recorded, recording "), "{done}");
    let unknown = place.refused(&format!("monitor once shrt --plan {plan}"), 2);
    assert!(unknown.contains("one of short"), "{unknown}");
    let measure = place.spawn("measure timer -D forever --policy other -q");
    place.wait_for_rows();
    let refused = place.run(&format!("monitor once short --plan {plan}"));
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stdout);
    assert!(
        said.contains("is being measured by timer, process"),
        "{said}"
    );
    assert_eq!(slots(&place)[0]["state"], "refused");
    // The user can allow sharing.
    let other = place.refused("measure timer -D 200ms --policy other -q", 1);
    assert!(other.contains("--share-cpus"), "{other}");
    place.done("measure timer -D 200ms --policy other -q --share-cpus");
    signal(&measure, "INT");
    measure.wait_with_output().unwrap();
    place.done("measure timer -D 200ms --policy other -q");
}

#[test]
fn plan_is_checked_and_unit_printed() {
    let place = Sandbox::new();
    let good = plan(&place, SHORT);
    let shown = place.done(&format!("monitor check --plan {good}"));
    assert!(shown.contains("every 2.00 s"), "{shown}");
    assert!(shown.contains("rows 730 d"), "{shown}");
    let unit = place.done(&format!("monitor install --plan {good}"));
    for line in [
        "Type=notify",
        "WatchdogSec=180",
        "LimitRTPRIO=99",
        "RestrictRealtime=no",
        "AmbientCapabilities=CAP_SYS_NICE CAP_IPC_LOCK CAP_BPF CAP_PERFMON CAP_DAC_READ_SEARCH",
    ] {
        assert!(unit.lines().any(|other| other == line), "{line}\n{unit}");
    }
    assert!(unit.contains(&format!("--plan \"{good}\"")), "{unit}");
    assert!(!unit.lines().any(|line| line.starts_with("PrivateDevices=")));
    let bad = plan(&place, "[[series]]\nname = \"a\"\nprobe = \"tmer\"\n");
    let error = place.refused(&format!("monitor check --plan {bad}"), 2);
    assert!(error.contains("plan.toml:3:9: "), "{error}");
    let none = place.refused("monitor check --plan none.toml", 2);
    assert!(none.contains("does not exist"), "{none}");
    let nobody = place.refused("monitor snapshot", 1);
    assert!(nobody.contains("no monitor service uses"), "{nobody}");
}

#[test]
fn store_is_shown_checked_copied_and_merged() {
    let place = Sandbox::new();
    place.done("measure timer -D 200ms --policy other -q --samples");
    let stats: Value = serde_json::from_str(&place.done("store stats --json")).unwrap();
    assert_eq!(
        (&stats["recordings"], &stats["facts"]),
        (&1.into(), &1.into())
    );
    assert!(place.done("store stats").contains("different facts"));
    place.done("store check");
    place.done("store backup copy.db");
    assert!(place.path("copy.db").exists());
    place.refused("store backup copy.db", 1);
    let same = place.done("store merge copy.db --json");
    let same: Value = serde_json::from_str(&same).unwrap();
    assert_eq!(
        (&same["recordings"], &same["known"]),
        (&0.into(), &1.into())
    );
    place.done("store delete last");
    let back = place.done("store merge copy.db");
    assert!(
        back.lines()
            .any(|line| line.starts_with("recordings") && line.ends_with('1')),
        "{back}"
    );
    assert_eq!(place.listed().len(), 1);
    place.done("store compact");
    place.refused("store merge store.db", 2);
}
