//! Requirements for every load: it starts, does work, stops, and leaves nothing behind, even if the
//! program is killed.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_loads::{LOADS, LoadError, LoadKind, LoadRequest, Running};
use punctual_model::{CpuSet, LoadRecord};
use punctual_testing::eventually;

/// The tests inspect the process that they share, so only one runs at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a small request for each load.
fn request(name: &str, tree: &Path) -> String {
    match name {
        "cpu" => "cpu:share=50".to_owned(),
        "cache" => "cache:size=8".to_owned(),
        "memory" => "memory:size=8".to_owned(),
        "faults" => "faults:size=1".to_owned(),
        "messages" => "messages:groups=1,fan=2".to_owned(),
        "disk" => "disk:size=2,rate=20".to_owned(),
        "network" => "network:rate=100".to_owned(),
        "build" => format!("build:dir={},jobs=2", tree.display()),
        "stress-ng" => "stress-ng:--cpu 1".to_owned(),
        "command" => "command:while :; do sleep 0.05; done".to_owned(),
        other => other.to_owned(),
    }
}

/// Starts a load; `None` if its tool is missing.
fn start(request: &str) -> Option<Running> {
    let request: LoadRequest = request.parse().unwrap();
    let name = request.entry().name;
    match request.start() {
        Ok(running) => Some(running),
        Err(error @ LoadError::NotInstalled { .. }) => {
            punctual_testing::skip!(Program, "load {name}: {error}");
            None
        }
        Err(error @ LoadError::NoDevice { .. }) => {
            punctual_testing::skip!(Hardware, "load {name}: {error}");
            None
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

/// Creates a source tree that builds quickly.
fn tree() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let rules = "all: a b\na b:\n\tcp Makefile $@\nclean:\n\trm -f a b\n";
    fs::write(folder.path().join("Makefile"), rules).unwrap();
    folder
}

/// Returns the load threads in this process.
fn threads() -> Vec<String> {
    fs::read_dir("/proc/self/task")
        .unwrap()
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("comm")).ok())
        .map(|name| name.trim_end().to_owned())
        .filter(|name| name.starts_with("load-"))
        .collect()
}

fn is_number(path: &Path) -> bool {
    path.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
}

fn processes() -> impl Iterator<Item = PathBuf> {
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| is_number(path))
}

/// Returns the children of this process, including zombies.
fn children() -> Vec<String> {
    let own = std::process::id().to_string();
    processes()
        .filter_map(|path| fs::read_to_string(path.join("stat")).ok())
        .filter(|stat| {
            let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
            after.split_whitespace().nth(1) == Some(own.as_str())
        })
        .collect()
}

/// Returns the scratch files of this process.
fn scratch_files() -> Vec<PathBuf> {
    let folder = std::env::var_os("TMPDIR").map_or_else(|| "/var/tmp".into(), PathBuf::from);
    let ours = format!("punctual-load-{}-", std::process::id());
    fs::read_dir(folder)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().contains(&ours))
        .collect()
}

fn assert_nothing_is_left(name: &str) {
    // A joined thread remains visible in /proc for a moment.
    eventually(|| threads().is_empty());
    assert_eq!(threads(), [""; 0], "{name}");
    assert_eq!(children(), [""; 0], "{name}");
    assert_eq!(scratch_files(), Vec::<PathBuf>::new(), "{name}");
}

fn did_something(record: &LoadRecord) -> bool {
    match record.name.as_str() {
        // This load cannot know the work that its command does.
        "command" => record.achieved.is_empty() && !record.did_nothing(),
        _ => !record.did_nothing() && record.achieved.iter().all(|done| done.count > 0),
    }
}

#[test]
fn every_load_works_and_leaves_nothing() {
    let _alone = alone();
    let tree = tree();
    for load in LOADS {
        let request = request(load.name, tree.path());
        // On a busy machine, the first run may be too short to do any work.
        let mut record = None;
        for time in [300, 1000, 3000, 6000] {
            let Some(running) = start(&request) else {
                break;
            };
            std::thread::sleep(Duration::from_millis(time));
            let stopped = running.stop();
            assert_nothing_is_left(load.name);
            assert_eq!(stopped.ended_early, None, "{}", load.name);
            let done = did_something(&stopped);
            record = Some(stopped);
            if done {
                break;
            }
        }
        if let Some(record) = record {
            assert!(did_something(&record), "{record:?}");
            assert_eq!(record.name, load.name);
            assert!(record.cpu_time_ns.is_some(), "{record:?}");
            eprintln!("{}", serde_json::to_string(&record).unwrap());
        }
    }
    let left: BTreeSet<_> = fs::read_dir(tree.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(left, BTreeSet::from(["Makefile".into()]), "it built a copy");
}

#[test]
fn alternative_load_modes_work() {
    let _alone = alone();
    let tree = tree();
    let in_place = format!("build:dir={},in-place=yes", tree.path().display());
    for request in [
        "messages:groups=1,fan=1,via=pipe,size=1",
        // The messages are larger than a pipe and come from several senders. Even then, no thread
        // may block forever.
        "messages:groups=1,fan=3,via=pipe,size=65536",
        "network:protocol=udp,pairs=1,rate=10",
        "network:protocol=tcp,pairs=1,rate=10,size=1",
        "syscalls:rate=1000",
        "timers:timers=1,interval=20ms,threads=1",
        &in_place,
    ] {
        let mut done = false;
        for time in [200, 2000, 6000] {
            if let Some(running) = start(request) {
                std::thread::sleep(Duration::from_millis(time));
                let record = running.stop();
                assert_eq!(record.ended_early, None, "{request}");
                done = did_something(&record);
            } else {
                done = true;
            }
            if done {
                break;
            }
        }
        assert!(done, "{request}");
        assert_nothing_is_left(request);
    }
}

#[test]
fn loads_start_immediately_on_chosen_cpu() {
    let _alone = alone();
    let cpu = *punctual_rt::affinity::current().unwrap().last().unwrap();
    let loads: Vec<Running> = ["cpu", "messages:fan=1", "fork"]
        .iter()
        .map(|load| start(&format!("{load}{}cpus={cpu}", sign(load))).unwrap())
        .collect();
    let is_there = |path: &Path| {
        fs::read_to_string(path.join("status")).ok().and_then(|s| {
            s.lines()
                .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
                .map(|list| list.trim() == cpu.to_string())
        })
    };
    let tasks: Vec<PathBuf> = fs::read_dir("/proc/self/task")
        .unwrap()
        .flatten()
        .map(|task| task.path())
        .filter(|path| {
            let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
            ["load-cpu", "load-messages"].contains(&name.trim_end())
        })
        .collect();
    assert_eq!(tasks.len(), 1 + 2);
    for task in &tasks {
        assert_eq!(is_there(task), Some(true), "{task:?}");
    }
    let storm = children();
    assert_eq!(storm.len(), 1, "{storm:?}");
    let pid = storm[0].split_whitespace().next().unwrap().to_owned();
    assert_eq!(is_there(&Path::new("/proc").join(pid)), Some(true));
    for record in loads.into_iter().map(Running::stop) {
        assert_eq!(record.parameters["cpus"], cpu.to_string());
    }
    assert_nothing_is_left("three at once");
}

fn sign(load: &str) -> char {
    if load.contains(':') { ',' } else { ':' }
}

#[test]
fn what_ends_before_its_time_is_reported() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("Makefile"), "all:\n\tfalse\nclean:\n").unwrap();
    let request = format!("build:dir={}", folder.path().display());
    if let Some(mut running) = start(&request) {
        let mut how = None;
        assert!(eventually(|| {
            how = running.check().map(|ended| ended.how.clone());
            how.is_some()
        }));
        let how = how.unwrap();
        assert!(how.contains("ended with exit status: 3 after "), "{how}");
        assert_eq!(running.stop().ended_early, Some(how));
    }
    let error = |text: &str| {
        let request: LoadRequest = text.parse().unwrap();
        request.start().err().unwrap().to_string()
    };
    let empty = tempfile::tempdir().unwrap();
    assert!(error("build").contains("the parameter dir is missing"));
    assert!(error("build:dir=/no/such").contains("/no/such"));
    let without = error(&format!("build:dir={}", empty.path().display()));
    assert!(without.contains("has no Makefile"), "{without}");
    assert!(error("cache:size=1048576").contains("an eighth"));
    assert!(error("memory:size=1048576").contains("an eighth"));
    assert!(error("faults:size=1048576,threads=4096").contains("an eighth"));
    assert_nothing_is_left("early ends");
}

/// Not a test itself: the process of a load in a subprocess, which is this program with the request
/// as its last argument.
#[test]
fn the_load_process() {
    // The program, three arguments of the test harness, and the request.
    if std::env::args().len() != 5 || std::env::args().nth(2).as_deref() != Some("the_load_process")
    {
        return;
    }
    let request = std::env::args().next_back().unwrap();
    punctual_loads::serve(&request, &CpuSet::new(), &mut std::io::stdout()).unwrap();
}

fn subprocess() -> Vec<OsString> {
    let mut command = vec![std::env::current_exe().unwrap().into_os_string()];
    command.extend(["--exact", "the_load_process", "--nocapture"].map(OsString::from));
    command
}

#[test]
fn loads_of_threads_run_in_a_subprocess() {
    let _alone = alone();
    let cpu = *punctual_rt::affinity::current().unwrap().last().unwrap();
    for load in LOADS.iter().filter(|load| load.kind == LoadKind::Threads) {
        let text = request(load.name, Path::new("/"));
        for time in [200, 1000, 6000] {
            let running = text
                .parse::<LoadRequest>()
                .unwrap()
                .on_cpus(&[cpu].into_iter().collect())
                .subprocess(subprocess())
                .start()
                .unwrap();
            assert!(eventually(|| threads() == ["load-output", "load-errors"]));
            assert_eq!(children().len(), 1, "{}", load.name);
            std::thread::sleep(Duration::from_millis(time));
            let record = running.stop();
            assert_nothing_is_left(load.name);
            assert_eq!(record.ended_early, None);
            assert_eq!(record.parameters["cpus"], cpu.to_string());
            assert!(!record.achieved.is_empty(), "{record:?}");
            assert!(record.cpu_time_ns.is_some(), "{record:?}");
            if did_something(&record) {
                break;
            }
            assert!(time < 50_000, "{record:?}");
        }
    }
}

#[test]
fn gpu_that_cannot_draw_is_refused() {
    let _alone = alone();
    let request: LoadRequest = "gpu:device=/dev/null".parse().unwrap();
    match request.start().err().unwrap() {
        error @ LoadError::NotInstalled { .. } => {
            punctual_testing::skip!(Program, "load gpu: {error}");
        }
        error => {
            let text = error.to_string();
            assert!(matches!(error, LoadError::NoDevice { .. }), "{text}");
            assert!(text.contains("can draw on /dev/null"), "{text}");
        }
    }
    assert_nothing_is_left("gpu");
}

#[test]
fn failures_of_a_subprocess_are_reported() {
    let _alone = alone();
    let start = |text: &str, command: Vec<OsString>| {
        text.parse::<LoadRequest>()
            .unwrap()
            .subprocess(command)
            .start()
    };
    let error = |text, command| start(text, command).err().unwrap().to_string();
    let refused = error("cache:size=1048576", subprocess());
    assert!(
        refused.starts_with("load cache: 1048576 MiB is more"),
        "{refused}"
    );
    let gone = error("cpu", vec!["/no/such/program".into()]);
    assert!(gone.contains("ended with exit status"), "{gone}");
    // The subprocess of a load is killed while the load runs.
    let mut running = start("cpu", subprocess()).unwrap();
    let child = children().remove(0);
    let pid = child.split_whitespace().next().unwrap();
    let group = format!("-{pid}");
    let kill = ["-s", "KILL", "--", &group];
    assert!(Command::new("kill").args(kill).status().unwrap().success());
    let mut how = None;
    assert!(eventually(|| {
        how = running.check().map(|ended| ended.how.clone());
        how.is_some()
    }));
    assert!(how.unwrap().starts_with("the process of cpu ended with"));
    let record = running.stop();
    assert!(record.ended_early.is_some() && record.achieved.is_empty());
    assert_nothing_is_left("killed subprocess");
}

const VICTIM: &str = "PUNCTUAL_TEST_VICTIM";

/// Not a test itself: the program that [`nothing_outlives_a_killed_program`] kills.
#[test]
fn the_victim() {
    let Some(tree) = std::env::var_os(VICTIM) else {
        return;
    };
    let loads: Vec<Running> = [
        "command:trap '' TERM; while :; do sleep 0.05; done",
        "command:sleep 1000 & sleep 1000",
        "fork",
        "stress-ng:--hdd 1 --hdd-bytes 4M",
        "disk:size=2",
        "farm",
        &request("build", Path::new(&tree)),
    ]
    .iter()
    .filter_map(|load| start(load))
    .chain(["faults"
        .parse::<LoadRequest>()
        .unwrap()
        .subprocess(subprocess())
        .start()
        .unwrap()])
    .collect();
    println!("{} loads run", loads.len());
    std::thread::sleep(Duration::from_secs(1000));
}

/// Returns the number of processes with this folder in their environment. (A process that is still
/// starting shows none.)
fn marked(folder: &Path) -> usize {
    let marker = folder.to_string_lossy().into_owned();
    processes()
        .filter_map(|path| fs::read(path.join("environ")).ok())
        .filter(|environment| String::from_utf8_lossy(environment).contains(&marker))
        .count()
}

#[test]
fn nothing_outlives_a_killed_program() {
    let _alone = alone();
    for (when, at_least) in [("loads run", 8), ("running 1 test", 0)] {
        let (tree, scratch) = (tree(), tempfile::tempdir().unwrap());
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_victim", "--nocapture"])
            .env(VICTIM, tree.path())
            .env("TMPDIR", scratch.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(victim.stdout.take().unwrap()).lines();
        assert!(output.any(|line| line.unwrap().contains(when)));
        // After some processes have started, any moment is suitable for the kill.
        assert!(eventually(|| marked(scratch.path()) > at_least));
        // `kill` sends SIGKILL.
        victim.kill().unwrap();
        victim.wait().unwrap();
        assert!(
            eventually(|| marked(scratch.path()) == 0),
            "{} processes are left",
            marked(scratch.path())
        );
        let files: Vec<_> = fs::read_dir(scratch.path()).unwrap().flatten().collect();
        assert!(files.is_empty(), "{when}: {files:?}");
    }
}
