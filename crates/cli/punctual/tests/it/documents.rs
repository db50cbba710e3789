//! Runs the commands in the README, in getting-started and on the how-to pages, with other times,
//! CPUs and names. A command may end with a verdict, but must not be refused.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Sandbox, signal, text};
use crate::explain_guest;
use rustix::process::Signal;

/// Commands that are not run here, because they change the machine or need something from the
/// reader. Other tests check that their options exist, and that documented experiments fit into
/// their time.
const NOT_RUN: &[&str] = &[
    "app record",
    "exec",
    "experiment",
    // Needs an explained outlier.
    "export last --format trace-dat",
    "export last -o run.pftrace",
    "explain --cgroup",
    "explain last",
    // Needs the interrupt and the thread on the running machine.
    "explain --from irq:eth0",
    // Needs the folder of a trace of LTTng.
    "explain --trace ~/lttng-traces",
    "improve --cpus",
    "improve --only",
    "improve --resume",
    "machine irqs move",
    // These need a card, a queueing discipline or a GPIO chip.
    "measure clock --phc",
    "measure gpio",
    "measure network --interface",
    "measure network --launch-time",
    "measure timer --cgroup",
    // Needs a terminal.
    "measure timer -D 10min --threshold 100us --explain --tui",
    "monitor",
    // Needs a key of a person.
    "sign last --ssh-key",
    "trend ack",
    "trend osadl",
    "tune apply",
    "tune cmdline",
    "tune enable",
    "tune revert",
];

/// Placeholder values on the pages, and their replacements on this machine.
const IN_PLACE: &[(&str, &str)] = &[
    ("--cpus 2-3", "--cpus 0"),
    ("--load-cpus 0", ""),
    ("./build.sh", "'sleep 9'"),
    ("~/bin", "bin"),
    ("--to 192.0.2.10", "--to 127.0.0.1"),
    ("73bb510e", "last~1"),
    ("kernel-6.12 kernel-7.0", "nightly~1 nightly"),
    ("A1 A2 A3 A4", "last~7 last~5 last~3 last~1"),
    ("B1 B2 B3 B4", "last~6 last~4 last~2 last"),
    (
        "--trace trace.dat --guest trace-GUEST.dat",
        "--trace host.dat --guest guest.dat",
    ),
    ("probe_server:gc_stop", "sched:sched_process_fork"),
    (
        "--from irq:eth0 --to comm:motor",
        "--from irq:virtio1 --to comm:sleep",
    ),
    ("--comm motion", "--pid 1234"),
    ("--comm redis-server", "--pid 1234"),
    ("--unit motion.service", "--pid 1234"),
    ("--unit redis", "--pid 1234"),
    ("-D 10m", "-D 300ms"),
    ("-D 10s", "-D 300ms"),
    ("-D 1h", "-D 300ms"),
    ("-D 60s", "-D 300ms"),
    ("idle:60s,cpu:60s,farm+disk:60s", "idle:100ms,cpu:100ms"),
];

/// Returns the commands on a page, without the word `punctual` and without shell syntax.
fn commands(page: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../..")
        .join(page);
    let text = fs::read_to_string(path).unwrap();
    let mut found = Vec::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("$ ")) {
        let line = line.split(" #").next().unwrap_or_default();
        for part in line.split(" && ") {
            let part = part.split(" | ").next().unwrap_or_default();
            let command = part.split(" > ").next().unwrap_or_default().trim();
            let command = command.strip_prefix("sudo ").unwrap_or(command);
            found.extend(command.strip_prefix("punctual ").map(str::to_owned));
        }
    }
    found
}

/// Commands that run for a long time, or until Ctrl-C.
const RUN_ON: &[&str] = &[
    "app lint",
    "check",
    "explain",
    "machine irqs",
    "machine threads",
    "measure",
    "watch",
];

/// Waits until a command ends. A command that would keep running is interrupted every 2 s: if these
/// tests run in the background of a shell, a signal that comes too early is ignored.
fn ended(mut child: Child, runs_on: bool) -> Output {
    let mut begun = Instant::now();
    while runs_on && child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(2) {
            signal(&child, "INT");
            begun = Instant::now();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

/// The profiles that TuneD installs.
const TUNED: &str = "/usr/lib/tuned";

/// A sampled series, as on the pages, but with shorter runs.
const WEEK: &str = r#"
[[series]]
name = "week"
probe = "timer"
sample = "60 x 1s in 7d"
budget = "100us"
"#;

/// Creates a store with a sampled series, a series of eight runs, and the files that the pages name.
fn prepared(place: &Sandbox) {
    fs::write(place.path("week.toml"), WEEK).unwrap();
    place.done("monitor once week --plan week.toml");
    // On a busy machine, a short run may get no CPU time, and commands that compare refuse it.
    let mut with_samples = 0;
    while with_samples < 8 {
        place.done(
            "measure timer -q --policy other --dma-latency off -D 100ms --cpus 0 --samples --label nightly",
        );
        match place.last().accounting().recorded {
            0 => drop(place.done("store delete last")),
            _ => with_samples += 1,
        }
    }
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let imports = fixtures.join("data/formats/tests/fixtures");
    let traces = fixtures.join("engine/tracefile/tests/fixtures");
    for (name, fixture) in [
        ("hist.txt", imports.join("cyclictest-2.10-h200.txt")),
        ("run.json", imports.join("cyclictest-2.10-h200.json")),
        ("samples.raw", imports.join("jitterdebugger-samples.raw")),
        ("service.hlog", imports.join("hdrhistogram.hlog")),
        ("trace.dat", traces.join("dat/v6.dat.xz")),
        ("trace.txt", traces.join("text/perf-script.txt")),
        ("mail.txt.xz", traces.join("dat/v6.txt.xz")),
        ("perf.data", traces.join("perf/file.data.xz")),
    ] {
        fs::copy(fixture, place.path(name)).unwrap();
    }
    explain_guest::write_pair(place, &explain_guest::FORM);
    fs::write(place.path(".config"), "CONFIG_PREEMPT=y\nCONFIG_HZ=250\n").unwrap();
}

/// Pages whose commands are those of `punctual-server` or need a collector. Another test parses their
/// command lines.
const OF_THE_SERVER: [&str; 1] = ["docs/how-to/certificates.md"];

fn commands_are_not_refused(page: &str) {
    if !rustix::process::geteuid().is_root() {
        punctual_testing::skip!(Right, "most commands of {page} need root");
        return;
    }
    let place = Sandbox::new();
    prepared(&place);
    let mut other = Command::new("sleep").arg("infinity").spawn().unwrap();
    let (mut ran, mut refused) = (0, Vec::new());
    for command in commands(page) {
        if NOT_RUN.iter().any(|begin| command.starts_with(begin)) && !command.contains("--dry-run")
        {
            continue;
        }
        if command.starts_with("tune import ") && !Path::new(TUNED).is_dir() {
            punctual_testing::skip!(Program, "{command}: TuneD is not installed");
            continue;
        }
        let mut line = command.clone();
        for (reader, here) in IN_PLACE {
            line = line.replace(reader, here);
        }
        line = line.replace("1234", &other.id().to_string());
        let words = shlex::split(&line).unwrap();
        // Each command gets its own copy of the prepared store, so it does not depend on earlier
        // commands.
        fs::copy(place.path("store.db"), place.path("copy.db")).unwrap();
        let child = place
            .command("")
            .args(words)
            .env("PUNCTUAL_STORE", place.path("copy.db"))
            // Nothing reads a pipe until the command ends, and a full pipe would stop the command.
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let runs_on = RUN_ON.iter().any(|begin| command.starts_with(begin));
        let output = ended(child, runs_on);
        for leftover in ["copy.db-wal", "copy.db-shm"] {
            let _ = fs::remove_file(place.path(leftover));
        }
        ran += 1;
        // On a busy machine, the signal of this test can end a command before it handles signals.
        let interrupted = runs_on && output.status.signal() == Some(Signal::INT.as_raw());
        if !interrupted && !matches!(output.status.code(), Some(0 | 3 | 4 | 130)) {
            let said = text(&output.stderr);
            refused.push(format!("{command}: {}: {said}", output.status));
        }
    }
    let _ = other.kill();
    let _ = other.wait();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    #[allow(clippy::print_stdout, reason = "how many ran is seen in the log of CI")]
    {
        println!("{page}: {ran} commands ran");
    }
    assert!(ran > 0, "{page} has no command that can be run");
}

#[test]
fn commands_of_the_readme_are_not_refused() {
    commands_are_not_refused("README.md");
}

#[test]
fn commands_of_getting_started_are_not_refused() {
    commands_are_not_refused("docs/getting-started.md");
}

#[test]
fn how_to_commands_are_accepted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut pages: Vec<String> = (fs::read_dir(root.join("docs/how-to")).unwrap())
        .map(|page| format!("docs/how-to/{}", page.unwrap().file_name().display()))
        .collect();
    pages.sort();
    assert!(pages.len() > 5, "{pages:?}");
    for page in pages
        .iter()
        .filter(|page| !OF_THE_SERVER.contains(&page.as_str()))
    {
        commands_are_not_refused(page);
    }
}
