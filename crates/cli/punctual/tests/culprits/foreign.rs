//! `explain --pid` of programs by other authors, and of programs that change while they are being
//! watched.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use crate::common::{Sandbox, eventually, signal, text};
use crate::jobs::explained;
use crate::stage::Stage;
use punctual_model::{ProbeRun, Recording, Share, ShareKind};
use punctual_testing::Running;

fn warned(recording: &Recording, what: &str) -> bool {
    let mut warnings = recording.warnings.iter();
    warnings.any(|warning| warning.contains(what))
}

fn by_programs(recording: &Recording) -> bool {
    !warned(recording, "recorded by the kernel's tracer")
}

/// A redis server of its own for the test, with its socket in the folder.
struct Redis {
    _server: Running,
    pid: u32,
    socket: String,
}

impl Redis {
    fn start(place: &Sandbox) -> Option<Self> {
        let socket = place.path("redis.sock").display().to_string();
        let folder = place.path("").display().to_string();
        let server = Command::new("redis-server")
            .args(["--port", "0", "--unixsocket", &socket, "--dir", &folder])
            .args(["--save", "", "--appendonly", "no"])
            .stdout(Stdio::null())
            .spawn();
        let server = match server {
            Ok(server) => Running(server),
            Err(error) => {
                punctual_testing::skip!(Program, "redis under load: redis-server: {error}");
                return None;
            }
        };
        let redis = Self {
            pid: server.0.id(),
            _server: server,
            socket,
        };
        assert!(
            eventually(|| redis.answers("PING")),
            "redis does not answer"
        );
        Some(redis)
    }

    fn cli(&self, words: &[&str]) -> Command {
        let mut command = Command::new("redis-cli");
        command.args(["-s", &self.socket]).args(words);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn answers(&self, word: &str) -> bool {
        let done = self.cli(&[word]).status();
        done.is_ok_and(|status| status.success())
    }

    /// Starts a few hundred requests per second. If there were more requests, events would be lost
    /// on a busy machine.
    fn load(&self) -> Option<Child> {
        self.cli(&["-r", "-1", "-i", "0.002", "SET", "key", "value"])
            .spawn()
            .ok()
    }
}

/// The fork for a BGSAVE delays the answers to clients.
#[test]
fn fork_of_redis_is_named() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::in_memory();
    let Some(redis) = Redis::start(&place) else {
        return;
    };
    // The fork has to copy the page tables of about 100 MB, which takes noticeable time.
    let fill = "for i = 1, 150000 do redis.call('set', 'fill:' .. i, string.rep('x', 500)) end";
    assert!(redis.cli(&["EVAL", fill, "0"]).status().unwrap().success());
    let Some(load) = redis.load() else {
        punctual_testing::skip!(Program, "redis under load: no redis-cli");
        return;
    };
    let _load = Running(load);
    let line = format!(
        "explain --pid {} -q --detail full --budget 300us -D 30s",
        redis.pid
    );
    let watching = place.spawn(&line);
    wait_for_the_watch(&place);
    std::thread::sleep(Duration::from_millis(500));
    // The server answers only after the fork.
    assert!(redis.answers("BGSAVE"), "BGSAVE was refused");
    std::thread::sleep(Duration::from_millis(500));
    signal(&watching, "INT");
    let output = watching.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let recording = place.last();
    let lost = recording.explanation.as_ref().unwrap().events_lost;
    let outliers = &recording.explanation.as_ref().unwrap().outliers;
    // In glibc, fork(3) uses clone(2).
    let is_fork = |share: &Share| {
        share.kind() == ShareKind::SystemCall
            && ["clone", "clone3", "fork"].contains(&&*share.who())
    };
    let mut shares = outliers.iter().flat_map(|outlier| &outlier.blame.shares);
    let named = shares.any(is_fork);
    match punctual_testing::crowded() {
        _ if named => {}
        _ if lost > 0 => {
            punctual_testing::skip!(Quiet, "the fork of a redis server: {lost} events lost")
        }
        Some(crowd) => punctual_testing::skip!(Quiet, "{crowd}: the fork of a redis server"),
        None => panic!("{:#?}", recording.explanation.unwrap().causes),
    }
    if by_programs(&recording) && lost == 0 {
        let forked = warned(
            &recording,
            "forked processes that are not watched: redis-server-",
        );
        match punctual_testing::crowded() {
            _ if forked => {}
            Some(crowd) => punctual_testing::skip!(Quiet, "{crowd}: what a redis server forked"),
            None => panic!("{:?}", recording.warnings),
        }
    }
}

/// Waits until events are being recorded. The recording appears in the store only after that.
fn wait_for_the_watch(place: &Sandbox) {
    let begun = eventually(|| place.run("show last --json").status.success());
    assert!(begun, "nothing is watched");
}

fn sh(script: &str) -> Running {
    let app = Command::new("sh").args(["-c", script]).spawn();
    Running(app.unwrap())
}

#[test]
fn renamed_program_stays_watched() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    let app = sh("i=0; while :; do i=$((i+1)); echo name$i > /proc/$$/comm; sleep 0.01; done");
    std::thread::sleep(Duration::from_millis(200));
    for how in ["", "--no-bpf"] {
        let options = format!("--budget 1ms --release wait4 -D 700ms {how}");
        let recording = explained(&place, app.0.id(), &options);
        let jobs = recording.explanation.unwrap().jobs.unwrap();
        assert!(jobs.threads[0].jobs > 3, "({how}) {jobs:?}");
        let label = recording.threads[0].label.clone().unwrap();
        assert!(label.starts_with("name"), "{label}");
    }
}

#[test]
fn exec_or_end_of_program_is_reported() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    let go = place.path("go");
    let wait = format!("while [ ! -e {} ]; do sleep 0.05; done", go.display());
    let app = sh(&format!("{wait}; exec sleep 1"));
    let pid = app.0.id();
    let watching = place.spawn(&format!("explain --pid {pid} -q --budget 1ms -D 30s"));
    wait_for_the_watch(&place);
    std::fs::write(go, "").unwrap();
    let output = watching.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let recording = place.last();
    assert!(
        warned(&recording, "had ended after"),
        "{:?}",
        recording.warnings
    );
    // The label is the name of the last program that the process executed.
    let label = format!("sleep-{pid}");
    assert_eq!(recording.threads[0].label.as_ref(), Some(&label));
    let watched = recording.probe.parameters.get(ProbeRun::WATCHED);
    assert_eq!(watched, Some(&format!("sleep (pid {pid})").into()));
    if by_programs(&recording) {
        let changed = warned(&recording, "executed another program (exec): sleep-");
        assert!(changed, "{:?}", recording.warnings);
    } else {
        punctual_testing::skip_refused(
            "exec of a watched program",
            format!("{:?}", recording.warnings),
        );
    }
}

/// The watched program is this test program, with more threads than a kernel filter can name.
#[test]
fn thousands_of_threads_are_watched() {
    const THREADS: usize = 2_000;
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    let end = Arc::new(Barrier::new(THREADS + 1));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let end = Arc::clone(&end);
            let builder = std::thread::Builder::new().stack_size(64 << 10);
            builder.spawn(move || end.wait()).unwrap()
        })
        .collect();
    for how in ["", "--no-bpf"] {
        let output = place.run(&format!(
            "explain --pid {} -q --budget 1ms -D 500ms {how}",
            std::process::id()
        ));
        assert!(output.status.success(), "{}", text(&output.stderr));
        let watched = place.last().threads.len();
        assert!(watched >= THREADS, "({how}) {watched}");
        let shown = text(&output.stdout);
        assert!(shown.contains("no release wait found for"), "{shown}");
    }
    end.wait();
    for thread in threads {
        thread.join().unwrap();
    }
}

/// A garbage collection stops the threads of a Java program.
#[test]
fn garbage_collection_of_java_is_named() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    let source = format!(
        "{}/tests/culprits/Collects.java",
        env!("CARGO_MANIFEST_DIR")
    );
    let app = Command::new("java")
        .args(["-XX:+UseG1GC", "-XX:ParallelGCThreads=2", "-Xmx256m"])
        .arg(source)
        .stdout(Stdio::piped())
        .spawn();
    let mut app = match app {
        Ok(app) => Running(app),
        Err(error) => {
            punctual_testing::skip!(Program, "garbage collection: java: {error}");
            return;
        }
    };
    let mut first = String::new();
    let mut output = BufReader::new(app.0.stdout.take().unwrap());
    output.read_line(&mut first).unwrap();
    if first.trim() != "runs" {
        punctual_testing::skip!(Program, "garbage collection: java cannot compile: {first}");
        return;
    }
    let recording = explained(&place, app.0.id(), "--budget 10ms -D 3s");
    let outliers = &recording.explanation.as_ref().unwrap().outliers;
    let is_collection = |share: &&Share| {
        let who = share.who();
        share.kind() == ShareKind::Waiting
            && who.starts_with("a garbage collection of VM Thread-")
            && who.contains(", which waited for GC Thread#")
    };
    let shares = outliers.iter().flat_map(|outlier| &outlier.blame.shares);
    let named = shares.filter(is_collection).count();
    match punctual_testing::crowded() {
        _ if named > 0 => {}
        Some(crowd) => punctual_testing::skip!(Quiet, "{crowd}: garbage collection of Java"),
        None => panic!("{:#?}", recording.explanation.unwrap().causes),
    }
    // No thread of the virtual machine itself waits for a collection.
    let own = recording.threads.iter().enumerate().filter(|(_, thread)| {
        let label = thread.label.as_deref().unwrap_or_default();
        label.starts_with("GC Thread#") || label.starts_with("VM Thread")
    });
    let own: Vec<usize> = own.map(|(number, _)| number).collect();
    assert!(!own.is_empty());
    let mut of_own = outliers
        .iter()
        .filter(|outlier| own.contains(&(outlier.thread as usize)));
    assert!(of_own.all(|outlier| !outlier.blame.shares.iter().any(|one| is_collection(&one))));
}
