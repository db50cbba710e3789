//! Small programs in C, C++, Rust, Go and Python, each with one fault, and a clean twin. `lint` must
//! find the fault, and report nothing else.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use punctual_model::{RuleResult, RuleState};
use punctual_testing::thread_of_test;

use crate::common::{Sandbox, text};
use crate::{Program, has_bpf, report};

/// A program of `programs/`, which runs with its fault and without it: a line of `cases.txt`.
struct Case {
    file: &'static str,
    /// A macro that selects the variant of a program in C.
    variant: &'static str,
    fault: &'static str,
    /// The rules that the fault violates.
    expected: BTreeSet<&'static str>,
    /// Rules that the program may violate as well: in some runs, or as a consequence of its fault.
    also: BTreeSet<&'static str>,
}

fn cases() -> Vec<Case> {
    let lines = include_str!("programs/cases.txt").lines();
    let lines = lines.filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut columns = line.split('|').map(str::trim);
            let mut column = || columns.next().unwrap();
            let words = |text: &'static str| text.split_whitespace().collect();
            Case {
                file: column(),
                variant: column(),
                fault: column(),
                expected: words(column()),
                also: words(column()),
            }
        })
        .collect()
}

/// Programs that are judged at the same time. Each of them uses little CPU time.
const AT_ONCE: usize = 4;

const TIME: &str = "-D 1s --calls 500ms";

impl Case {
    fn language(&self) -> &'static str {
        match self.file.rsplit('.').next() {
            Some("c") => "C",
            Some("cpp") => "C++",
            Some("rs") => "Rust",
            Some("go") => "Go",
            _ => "Python",
        }
    }

    fn name(&self) -> String {
        match self.variant {
            "" => self.file.to_owned(),
            variant => format!("{} {}", self.file, variant.to_lowercase()),
        }
    }

    /// Compiles the program. Returns the words of the command that runs it, or the compiler that is
    /// missing.
    fn build(&self, folder: &Path) -> Result<Vec<PathBuf>, String> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lint/programs");
        let source = sources.join(self.file);
        let program = folder.join("program");
        let mut compiler = match self.language() {
            "C" | "C++" => {
                let compiler = if self.language() == "C" { "cc" } else { "c++" };
                let mut command = Command::new(compiler);
                command.args(["-O1", "-fno-omit-frame-pointer", "-pthread"]);
                if !self.variant.is_empty() {
                    command.arg(format!("-D{}", self.variant));
                }
                command
            }
            "Rust" => {
                let mut command = Command::new("rustc");
                command.args(["--edition", "2024", "-O", "-C", "force-frame-pointers=yes"]);
                command
            }
            "Go" => {
                let mut command = Command::new("go");
                command.arg("build");
                command
            }
            _ => {
                let version = Command::new("python3").arg("--version").output();
                version.map_err(|error| format!("python3: {error}"))?;
                return Ok(vec!["python3".into(), source]);
            }
        };
        compiler
            .arg("-o")
            .args([&program, &source])
            .current_dir(folder);
        let output = compiler
            .output()
            .map_err(|error| format!("{}: {error}", compiler.get_program().display()))?;
        assert!(
            output.status.success(),
            "{}: {}",
            self.file,
            text(&output.stderr)
        );
        Ok(vec![program])
    }
}

/// The rules with their results. `None` if the program could not run.
type Found = Option<Vec<RuleResult>>;

/// Runs the program under `lint`.
fn judged(words: &[PathBuf], folder: &Path, variant: &str, cpu: &str) -> Found {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).current_dir(folder);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let place = Sandbox::new();
    let program = Program::run(command, &[variant, cpu])?;
    let line = format!("app lint --pid {} {TIME} --json", program.pid());
    let (report, _) = report(&place, &line);
    has_bpf(&report).then_some(report.rules)
}

/// Runs all cases, a few at once. Each result has the findings with the fault and without it.
fn run_all(cases: &[Case]) -> Vec<(usize, Found, Found)> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let work = |worker: usize| {
        // The first two CPUs, which all machines of the gate have.
        let cpu = (worker % 2).to_string();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(number) else {
                return;
            };
            let folder = tempfile::tempdir().unwrap();
            let words = match case.build(folder.path()) {
                Ok(words) => words,
                Err(missing) => {
                    punctual_testing::skip!(Program, "lint of {}: {missing}", case.file);
                    continue;
                }
            };
            let run = |variant| judged(&words, folder.path(), variant, &cpu);
            let (fault, clean) = (run("fault"), run("clean"));
            results.lock().unwrap().push((number, fault, clean));
        }
    };
    std::thread::scope(|scope| {
        for worker in 0..AT_ONCE {
            let work = &work;
            thread_of_test()
                .spawn_scoped(scope, move || work(worker))
                .unwrap();
        }
    });
    let mut results = results.into_inner().unwrap();
    results.sort_by_key(|(number, _, _)| *number);
    results
}

fn in_state(rules: &[RuleResult], state: RuleState) -> impl Iterator<Item = &RuleResult> {
    rules.iter().filter(move |rule| rule.state == state)
}

fn ids(rules: &[RuleResult], state: RuleState) -> BTreeSet<&str> {
    in_state(rules, state)
        .map(|rule| rule.id.as_str())
        .collect()
}

/// Returns the violations of the rules that are not in `allowed`, with an example each.
fn others(rules: &[RuleResult], allowed: &BTreeSet<&str>) -> Vec<String> {
    let violated = in_state(rules, RuleState::Violated);
    let others = violated.filter(|rule| !allowed.contains(rule.id.as_str()));
    others.map(example).collect()
}

fn example(rule: &RuleResult) -> String {
    let first = &rule.violations[0];
    format!("{} {}x {}", rule.id, rule.count, first.what)
}

#[test]
fn each_fault_is_found_without_false_finding() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        punctual_testing::skip!(Hardware, "lint of programs on two CPUs");
        return;
    }
    let mut table = format!(
        "\n{:<20} {:<8} {:<36} {:<40} {:<6} {:<6} {}\n",
        "program", "language", "fault", "expected finding", "found", "false", "example"
    );
    let mut wrong = Vec::new();
    let cases = cases();
    for (number, fault, clean) in run_all(&cases) {
        let case = &cases[number];
        let (Some(fault), Some(clean)) = (fault, clean) else {
            let _ = writeln!(table, "{:<20} {:<8} skipped", case.name(), case.language());
            continue;
        };
        let Case { expected, also, .. } = case;
        let is_found = expected.is_subset(&ids(&fault, RuleState::Violated));
        // If the rule were unknown, the clean twin would prove nothing.
        let unknown = ids(&clean, RuleState::Unknown);
        let is_judged = expected.is_disjoint(&unknown);
        let allowed = expected.union(also).copied().collect();
        let mut false_ones = others(&fault, &allowed);
        false_ones.extend(
            others(&clean, also)
                .into_iter()
                .map(|one| format!("clean: {one}")),
        );
        let mut found = in_state(&fault, RuleState::Violated);
        let main = found.find(|rule| expected.contains(rule.id.as_str()));
        let _ = writeln!(
            table,
            "{:<20} {:<8} {:<36} {:<40} {:<6} {:<6} {}",
            case.name(),
            case.language(),
            case.fault,
            expected.iter().copied().collect::<Vec<_>>().join(", "),
            if is_found { "yes" } else { "NO" },
            false_ones.len(),
            main.map(example).unwrap_or_default()
        );
        if !is_found || !is_judged || !false_ones.is_empty() {
            let found = ids(&fault, RuleState::Violated);
            let name = case.name();
            wrong.push(format!(
                "{name}: found {found:?}, false {false_ones:?}, unknown {unknown:?}"
            ));
        }
    }
    eprintln!("{table}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A program whose source is not in the table would never run.
#[test]
fn each_program_is_in_the_table() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lint/programs");
    let files: Vec<PathBuf> = (std::fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_shared = name.starts_with("loop.") || name == "cases.txt" || path.is_dir();
        assert!(
            is_shared || cases().iter().any(|case| case.file == name),
            "{name}"
        );
    }
}
