//! Each violation of a rule of `lint` must be found at its call site, and a correct loop must not
//! violate any rule.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

#[path = "../it/common/mod.rs"]
mod common;

mod foreign;
mod programs;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::other_user::{as_other, chmod, may_become_other};
use common::{Sandbox, signal, text};
use punctual_model::{LintReport, LintSource, RuleResult, RuleState};

/// A process of `fixtures/violate.c`. Killed when dropped.
struct Program(Child);

impl Program {
    /// Returns `None` and prints the reason if there is no compiler, or no privilege for real-time
    /// priority.
    fn start(place: &Sandbox, what: &[&str], flags: &[&str]) -> Option<Self> {
        let program = build(place, flags)?;
        Self::run(Command::new(program), what)
    }

    fn run(mut command: Command, what: &[&str]) -> Option<Self> {
        let mut child = command.args(what).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        reader.read_line(&mut line).unwrap();
        // The program may print more, but nothing reads it.
        child.stdout = Some(reader.into_inner());
        if line != "ready\n" {
            let status = child.wait().unwrap();
            assert_eq!(status.code(), Some(77), "{status}");
            punctual_testing::skip!(
                Right,
                "lint: no right to real-time priority or locked memory"
            );
            return None;
        }
        // If the threads lack this privilege, they end the program shortly after it started.
        std::thread::sleep(std::time::Duration::from_millis(100));
        if let Some(status) = child.try_wait().unwrap() {
            assert_eq!(status.code(), Some(77), "{status}");
            punctual_testing::skip!(Right, "lint: no right to real-time priority");
            return None;
        }
        Some(Self(child))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn build(place: &Sandbox, flags: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/violate.c");
    let program = place.path("violate");
    let output = Command::new("cc")
        .args(["-O1", "-pthread", "-o"])
        .args([&program, &source])
        .args(flags)
        .output();
    match output {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => panic!("{}", text(&output.stderr)),
        Err(error) => {
            punctual_testing::skip!(Program, "lint: cc: {error}");
            None
        }
    }
}

const FRAMES: &[&str] = &["-fno-omit-frame-pointer"];

fn report(place: &Sandbox, line: &str) -> (LintReport, Option<i32>) {
    let output = place.run(line);
    let stderr = text(&output.stderr);
    assert!(!stderr.contains("panicked"), "{line}: {stderr}");
    let report = serde_json::from_str(&text(&output.stdout));
    (
        report.unwrap_or_else(|e| panic!("{e}: {stderr}")),
        output.status.code(),
    )
}

/// Returns whether BPF programs watched the threads. Prints the reason if not.
fn has_bpf(report: &LintReport) -> bool {
    let has = report.source == Some(LintSource::Bpf);
    if !has {
        punctual_testing::skip_refused("lint by BPF programs", format!("{:?}", report.notes));
    }
    has
}

fn rule<'a>(report: &'a LintReport, id: &str) -> &'a RuleResult {
    report.rules.iter().find(|rule| rule.id == id).unwrap()
}

/// Returns whether a thread violated a rule in a function.
fn is_found(report: &LintReport, id: &str, thread: &str, function: &str) -> bool {
    let named = |symbol: &Option<String>| {
        let symbol = symbol.as_deref().unwrap_or_default();
        symbol.split('+').next() == Some(function)
    };
    rule(report, id).violations.iter().any(|found| {
        found.comm == thread
            && (function.is_empty() || found.frames.iter().any(|frame| named(&frame.symbol)))
    })
}

#[test]
fn acts_are_found_at_call_sites() {
    let place = Sandbox::new();
    let Some(program) = Program::start(&place, &["acts"], FRAMES) else {
        return;
    };
    let sarif = place.path("lint.sarif");
    let line = format!(
        "app lint --pid {} -D 1500ms --json --sarif {}",
        program.pid(),
        sarif.display()
    );
    let (report, code) = report(&place, &line);
    if !has_bpf(&report) {
        return;
    }
    assert_eq!(code, Some(3));
    for (id, thread, function) in [
        ("page-fault", "fault", "touches_new_page"),
        ("sleep-relative", "relative", "sleeps_relative"),
        ("sleep-clock", "realtime", "sleeps_on_realtime"),
        ("futex-no-inheritance", "plain-lock", "locks_plainly"),
        ("blocking-call", "pipe", "reads_pipe"),
        ("woken-by-lower", "pipe", "writes_pipe"),
        ("woken-by-lower", "plain-lock", "holds_plain"),
        ("woken-by-softirq", "softirq", "receives"),
        ("priority-inversion", "pi-lock", "locks_inheriting"),
        ("memory-call", "memory", "asks_for_memory"),
        ("file-io", "file-io", "writes_file"),
        ("pipe-socket-device", "own-pipe", "writes_own_pipe"),
        ("signal", "signal", "gets_signal"),
        ("migration", "migration", ""),
    ] {
        let found = rule(&report, id);
        assert!(is_found(&report, id, thread, function), "{id}: {found:?}");
    }
    // Kernels without these events cannot detect this violation.
    let kernel_lock = rule(&report, "kernel-lock");
    assert!(
        is_found(&report, "kernel-lock", "kernel-lock", "writes_shared_file")
            || kernel_lock.unknown.is_some(),
        "{kernel_lock:?}"
    );
    // The file of each call is known, even if it was closed at once.
    let io = rule(&report, "file-io").violations.iter();
    let said: Vec<&str> = (io.filter(|found| found.comm == "file-io"))
        .map(|found| found.what.as_str())
        .collect();
    assert!(
        said.iter().any(|what| what.starts_with("openat(")),
        "{said:?}"
    );
    for what in ["write(regular file", "close(regular file"] {
        assert!(
            said.iter().any(|said| said.starts_with(what)),
            "{what} in {said:?}"
        );
    }
    assert!(!is_found(&report, "file-io", "own-pipe", ""));
    let pipe = &rule(&report, "pipe-socket-device").violations;
    assert!(
        pipe.iter()
            .any(|found| found.what.starts_with("write(pipe")),
        "{pipe:?}"
    );
    // The sender's stack must not be used for the receiver.
    assert!(!is_found(&report, "woken-by-softirq", "softirq", "sends"));
    // Correct operations, such as the release and a lock with inheritance, do not violate a rule. All
    // threads share one CPU.
    for rule in report.rules.iter().filter(|rule| rule.id != "cpu-of-other") {
        let fine = rule.violations.iter().find(|found| found.comm == "fine");
        assert!(fine.is_none(), "{}: {fine:?}", rule.id);
    }
    assert!(!is_found(&report, "futex-no-inheritance", "pi-lock", ""));
    assert!(!is_found(&report, "woken-by-lower", "pi-lock", ""));
    let sarif: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(sarif).unwrap()).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let fault = results
        .iter()
        .find(|result| result["ruleId"] == "page-fault");
    let fault = fault.unwrap();
    assert_eq!(fault["kind"], "fail");
    let at = &fault["locations"][0]["logicalLocations"][0]["fullyQualifiedName"];
    assert!(at.as_str().unwrap().contains("touches_new_page"), "{at}");
}

#[test]
fn a_correct_loop_violates_no_rule() {
    let place = Sandbox::new();
    // Set PUNCTUAL_LINT_TIME=10m for a long run.
    let time = std::env::var("PUNCTUAL_LINT_TIME").unwrap_or("1500ms".to_owned());
    let Some(program) = Program::start(&place, &["correct", "700"], FRAMES) else {
        return;
    };
    let line = format!("app lint --pid {} -D {time} --json", program.pid());
    let (report, code) = report(&place, &line);
    if !has_bpf(&report) {
        return;
    }
    for rule in &report.rules {
        assert_eq!(rule.state, RuleState::Clean, "{rule:?}");
    }
    assert_eq!(code, Some(0));
}

/// A tracer that reads a stack may use an address that does not exist. The kernel raises an
/// exception, but this is not a page fault of the thread.
#[test]
fn stack_read_by_another_tracer_is_no_page_fault() {
    let place = Sandbox::new();
    let Some(program) = Program::start(&place, &["correct"], FRAMES) else {
        return;
    };
    let (pid, data) = (program.pid().to_string(), place.path("perf.data"));
    let perf = Command::new("perf")
        .args(["record", "--quiet", "--call-graph", "fp"])
        .args(["-e", "raw_syscalls:sys_enter", "-p", &pid, "-o"])
        .arg(&data)
        .stderr(Stdio::piped())
        .spawn();
    let perf = match perf {
        Ok(perf) => perf,
        Err(error) => {
            punctual_testing::skip!(Program, "lint beside perf: {error}");
            return;
        }
    };
    let (report, _) = report(&place, &format!("app lint --pid {pid} -D 2s --json"));
    signal(&perf, "INT");
    let told = text(&perf.wait_with_output().unwrap().stderr);
    let read = Command::new("perf")
        .arg("script")
        .arg("-i")
        .arg(&data)
        .output();
    if !text(&read.unwrap().stdout).contains("raw_syscalls:sys_enter") {
        punctual_testing::skip_refused("perf record", told);
        return;
    }
    if !has_bpf(&report) {
        return;
    }
    let fault = rule(&report, "page-fault");
    assert_eq!(fault.state, RuleState::Clean, "{fault:?}");
}

#[test]
fn states_are_judged() {
    let place = Sandbox::new();
    let Some(program) = Program::start(&place, &["states"], FRAMES) else {
        return;
    };
    let line = format!("app lint --pid {} -D 1s --json", program.pid());
    let (mut report, mut code) = report(&place, &line);
    // On a busy machine, the thread that never waits gets too little CPU time to be judged.
    for _ in 0..5 {
        if rule(&report, "no-period").state != RuleState::Unknown {
            break;
        }
        (report, code) = self::report(&place, &line);
    }
    assert_eq!(code, Some(3));
    assert_eq!(
        rule(&report, "memory-not-locked").state,
        RuleState::Violated
    );
    assert_eq!(rule(&report, "no-runtime-limit").state, RuleState::Violated);
    assert!(is_found(&report, "no-period", "spins", ""), "{report:?}");
    assert!(is_found(&report, "priority-99", "priority-99", ""));
    assert!(is_found(&report, "memlock-limit", "violate", ""));
    assert!(is_found(&report, "stack-not-prefaulted", "priority-99", ""));
    assert!(!is_found(&report, "priority-99", "spins", ""));
    assert!(!is_found(&report, "no-period", "priority-99", ""));
}

/// Fails if there is a rule that no program violates.
#[test]
fn each_rule_is_violated_by_a_program() {
    let tests = include_str!("main.rs");
    let programs = include_str!("programs/cases.txt");
    let words: Vec<&str> = programs.split([' ', '|', '\n']).collect();
    for rule in punctual_culprit::lint::RULES {
        let is_named = tests.contains(&format!("\"{}\"", rule.id)) || words.contains(&rule.id);
        assert!(is_named, "{}: no program violates it", rule.id);
    }
}

/// Starts `lint`, and calls `change` to change the target when half of the time is over.
fn changed(place: &Sandbox, line: &str, change: impl FnOnce()) -> LintReport {
    let mut lint = place.spawn(line);
    let mut errors = BufReader::new(lint.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("tracing system calls") {
        let read = errors.read_line(&mut said).unwrap();
        assert!(read > 0, "{line}: {said}");
    }
    change();
    let output = lint.wait_with_output().unwrap();
    serde_json::from_str(&text(&output.stdout)).unwrap_or_else(|e| panic!("{e}: {said}"))
}

/// A thread that changes its name still counts as one thread. A child process is not judged, and
/// the report says so.
#[test]
fn watch_survives_rename_and_fork() {
    let place = Sandbox::new();
    let Some(program) = Program::start(&place, &["changes"], FRAMES) else {
        return;
    };
    let line = format!("app lint --pid {} -D 2s --calls 1s --json", program.pid());
    let report = changed(&place, &line, || signal(&program.0, "USR2"));
    if !has_bpf(&report) {
        return;
    }
    let names: Vec<&str> = report.threads.iter().map(|t| t.comm.as_str()).collect();
    assert_eq!(names, ["after"]);
    let sleeps = rule(&report, "sleep-relative");
    assert!(sleeps.violations.iter().all(|found| found.comm != "child"));
    assert!(
        is_found(&report, "sleep-relative", "after", "sleeps_relative"),
        "{sleeps:?}"
    );
    let says = |note: &String| note.contains("(child), forked by the target");
    let lists_children = Path::new("/proc/self/task/self/children").exists()
        || Path::new("/proc/thread-self/children").exists();
    assert!(
        report.notes.iter().any(says) || !lists_children,
        "{:?}",
        report.notes
    );
}

/// Violations are found before and after an exec, each with the functions of the program at that
/// time.
#[test]
fn an_exec_is_survived() {
    let place = Sandbox::new();
    let Some(program) = Program::start(&place, &["execs"], FRAMES) else {
        return;
    };
    let line = format!("app lint --pid {} -D 2s --calls 1s --json", program.pid());
    let report = changed(&place, &line, || signal(&program.0, "USR2"));
    if !has_bpf(&report) {
        return;
    }
    assert!(
        is_found(&report, "sleep-relative", "violate", "sleeps_relative"),
        "{report:?}"
    );
    assert!(
        is_found(&report, "sleep-clock", "executed", "sleeps_on_realtime"),
        "{report:?}"
    );
    let says = |note: &String| note.contains("replaced by exec");
    assert!(report.notes.iter().any(says), "{:?}", report.notes);
}

/// All 2,000 threads are judged. If some operations could not be counted, the results of the rules
/// are unknown.
#[test]
fn thousands_of_threads_are_watched() {
    let place = Sandbox::new();
    let Some(program) = Program::start(&place, &["many", "60", "2000"], FRAMES) else {
        return;
    };
    let line = format!("app lint --pid {} -D 1s --json", program.pid());
    let (report, _) = report(&place, &line);
    assert_eq!(report.threads.len(), 2_000);
    let stacks = rule(&report, "stack-not-prefaulted");
    assert!(
        stacks.count > 1_000 || stacks.unknown.is_some(),
        "{}",
        stacks.count
    );
    if has_bpf(&report) {
        let sleeps = rule(&report, "sleep-relative");
        assert!(sleeps.violations.len() == 2_000 || sleeps.unknown.is_some());
    }
}

/// If the program has no symbols, the report gives the offset in the file instead of a function.
#[test]
fn stripped_program_shows_file_and_offset() {
    let place = Sandbox::new();
    let nm = (build(&place, FRAMES)).and_then(|whole| {
        let output = Command::new("nm").arg("-S").arg(whole).output().ok()?;
        output.status.success().then(|| text(&output.stdout))
    });
    let Some(symbols) = nm else {
        punctual_testing::skip!(Program, "lint: no compiler, or no nm(1)");
        return;
    };
    // `0000000000001609 0000000000000073 t touches_new_page`
    let line = symbols
        .lines()
        .find(|line| line.ends_with(" touches_new_page"));
    let mut words = line.unwrap().split(' ');
    let mut hex = || u64::from_str_radix(words.next().unwrap(), 16).unwrap();
    let (start, size) = (hex(), hex());
    let flags = [FRAMES[0], "-s"];
    let Some(program) = Program::start(&place, &["acts"], &flags) else {
        return;
    };
    let line = format!("app lint --pid {} -D 1s --json", program.pid());
    let (report, _) = report(&place, &line);
    if !has_bpf(&report) {
        return;
    }
    let faults = &rule(&report, "page-fault").violations;
    let fault = faults.iter().find(|found| found.comm == "fault").unwrap();
    let frame = &fault.frames[0];
    assert!(
        frame.object.as_deref().unwrap().ends_with("/violate"),
        "{frame:?}"
    );
    assert_eq!(frame.symbol, None);
    let offset = frame.offset.unwrap();
    assert!(
        (start..start + size).contains(&offset),
        "{offset:#x}: {start:#x}"
    );
}

/// If an ordinary user cannot read a fact, the fact is unknown, and the report gives the reason.
#[test]
fn unreadable_process_is_unknown_with_reason() {
    if !may_become_other("lint of another user's process") {
        return;
    }
    let place = Sandbox::new();
    let Some(root) = Program::start(&place, &["acts"], FRAMES) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    chmod(folder.path(), 0o755);
    let theirs = folder.path().join("violate");
    std::fs::copy(place.path("violate"), &theirs).unwrap();
    chmod(&theirs, 0o755);
    let hidden = Program::run(as_other(&theirs), &["hidden"]).unwrap();
    for (program, names) in [(&root, "belongs to user 0"), (&hidden, "not dumpable")] {
        let line = format!("app lint --pid {} -D 300ms --json", program.pid());
        let output = as_other(env!("CARGO_BIN_EXE_punctual"))
            .args(line.split(' '))
            .output()
            .unwrap();
        let stderr = text(&output.stderr);
        if stderr.contains("ermission denied") {
            punctual_testing::skip!(User, "another user may not run the program");
            return;
        }
        let report: LintReport = serde_json::from_str(&text(&output.stdout)).unwrap();
        assert_eq!(output.status.code(), Some(4), "{stderr}");
        let says = |note: &String| note.contains(names);
        assert!(report.notes.iter().any(says), "{names}: {:?}", report.notes);
        assert_eq!(rule(&report, "page-fault").state, RuleState::Unknown);
        let stack = rule(&report, "stack-not-prefaulted");
        assert_eq!(stack.state, RuleState::Unknown, "{stack:?}");
    }
}

#[test]
fn unwatchable_target_is_refused() {
    let place = Sandbox::new();
    let own = std::process::id();
    for (line, says) in [
        ("app lint --pid 4194300 -D 1s", "no process"),
        ("app lint --pid 2 -D 1s", "kernel"),
        ("app lint --comm no-such-name -D 1s", "no thread"),
    ] {
        let stderr = place.refused(line, 2);
        assert!(stderr.contains(says), "{line}: {stderr}");
    }
    for line in [
        "app lint".to_owned(),
        "app lint --pid 0".to_owned(),
        format!("app lint --pid {own} -D 0s"),
        format!("app lint --pid {own} --comm x"),
        format!("app lint --pid {own} --json --sarif -"),
    ] {
        place.refused(&line, 2);
    }
}

/// Without BPF programs, violations that produce events are still found. The results of the other
/// rules are unknown.
#[test]
fn rules_not_shown_by_events_are_unknown() {
    let place = Sandbox::new();
    let Some(program) = Program::start(&place, &["acts"], FRAMES) else {
        return;
    };
    let line = format!("app lint --pid {} -D 1500ms --json --no-bpf", program.pid());
    let (report, code) = report(&place, &line);
    if report.source.is_none() {
        punctual_testing::skip_refused("lint by events", format!("{:?}", report.notes));
        return;
    }
    assert_eq!((report.source, code), (Some(LintSource::Events), Some(3)));
    assert!(is_found(&report, "page-fault", "fault", "touches_new_page"));
    for (id, thread) in [
        ("memory-call", "memory"),
        ("signal", "signal"),
        ("migration", "migration"),
    ] {
        assert!(is_found(&report, id, thread, ""), "{:?}", rule(&report, id));
    }
    for id in [
        "sleep-relative",
        "blocking-call",
        "woken-by-lower",
        "kernel-lock",
    ] {
        let rule = rule(&report, id);
        assert_eq!(rule.state, RuleState::Unknown, "{rule:?}");
        let why = rule.unknown.as_deref().unwrap();
        assert!(why.contains("--no-bpf"), "{why}");
    }
}

/// A program without real-time threads is not reported as correct.
#[test]
fn target_without_real_time_is_unknown() {
    let place = Sandbox::new();
    let (report, code) = report(
        &place,
        &format!("app lint --pid {} -D 300ms --json", std::process::id()),
    );
    assert_eq!(code, Some(4));
    assert_eq!(report.count(RuleState::Clean), 0, "{:?}", report.rules);
    let why = rule(&report, "page-fault").unknown.as_deref().unwrap();
    assert!(!why.is_empty());
}

#[test]
fn it_ends_with_its_target() {
    let place = Sandbox::new();
    let Some(program) = Program::start(&place, &["correct"], FRAMES) else {
        return;
    };
    let line = format!("app lint --pid {} -D 60s --json", program.pid());
    let lint = place.spawn(&line);
    std::thread::sleep(std::time::Duration::from_millis(700));
    signal(&program.0, "KILL");
    // A zombie that has not been reaped yet also counts as ended.
    let output = lint.wait_with_output().unwrap();
    let report: LintReport = serde_json::from_str(&text(&output.stdout)).unwrap();
    let said = report.notes.iter().any(|note| note.contains("had ended"));
    assert!(said, "{:?}", report.notes);
}
