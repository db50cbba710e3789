//! Creates a store of simulated years, and measures the time and memory that the verbs need to read
//! it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Args, value_parser};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::paths::{folder, repository};

/// Options of `cargo xtask years`.
#[derive(Args)]
pub(crate) struct Options {
    /// Number of years of recordings.
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u32).range(1..=50))]
    years: u32,
    /// Number of series, each with two runs a day.
    #[arg(long, default_value_t = 4, value_parser = value_parser!(u32).range(1..=100))]
    series: u32,
    /// Number of CPUs of the machine.
    #[arg(long, default_value_t = 64, value_parser = value_parser!(u32).range(1..=1_024))]
    cpus: u32,
    /// Number of latest days that have windows of five minutes.
    #[arg(long, default_value_t = 365)]
    window_days: u32,
    /// Number of periods of each thread of a run.
    #[arg(long, default_value_t = 600_000)]
    periods: u64,
    /// The store [default: target/vm/years.db]; an existing store is measured unchanged.
    #[arg(long)]
    store: Option<PathBuf>,
}

/// Number of measurements for each figure. The median of the times is printed, and the largest
/// memory use.
const TIMES: usize = 5;

/// The measured commands, with their arguments.
const MEASURED: [(&str, &[&str]); 8] = [
    ("newest recording", &["list", "-n", "1"]),
    ("list, 112 days", &["list", "--since", "112d"]),
    ("list, all", &["list"]),
    ("list --json, all", &["list", "--json"]),
    ("trend, 112 days", &["trend", "series-0", "--since", "112d"]),
    ("trend, all", &["trend", "series-0"]),
    (
        "surface, 112 days",
        &[
            "plot", "series-0", "--kind", "surface", "--since", "112d", "-o", "-",
        ],
    ),
    (
        "surface, all",
        &["plot", "series-0", "--kind", "surface", "-o", "-"],
    ),
];

/// Creates the store if it does not exist, and prints the figures.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let store = options.store.clone();
    let store = store.unwrap_or_else(|| folder().join("years.db"));
    if !store.exists() {
        make(options, &store)?;
    }
    build()?;
    let program = target().join("dist/punctual");
    let size = fs::metadata(&store)?.len();
    println!("{}: {:.2} GB", store.display(), size as f64 / 1e9);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load average {load}");
    println!("| verb | time | CPU time | memory |\n|---|---|---|---|");
    for (name, arguments) in MEASURED {
        let cost = (0..TIMES).map(|_| measure(&program, &store, arguments));
        let cost: Vec<Cost> = cost.collect::<Result<_>>()?;
        let median = |of: fn(&Cost) -> Duration| {
            let mut all: Vec<Duration> = cost.iter().map(of).collect();
            all.sort();
            all[TIMES / 2].as_secs_f64()
        };
        let (took, cpu) = (median(|cost| cost.took), median(|cost| cost.cpu));
        let most = cost.iter().map(|cost| cost.memory_kb).max().unwrap_or(0);
        println!(
            "| {name} | {took:.2} s | {cpu:.2} s | {:.0} MB |",
            most as f64 / 1e3
        );
    }
    Ok(true)
}

/// Returns cargo's target folder.
fn target() -> PathBuf {
    folder().parent().map_or_else(PathBuf::new, Path::to_owned)
}

fn cargo(arguments: &[&str]) -> Result<()> {
    let mut command = crate::paths::cargo();
    command.args(arguments).current_dir(repository());
    let status = command.status().context("cargo")?;
    ensure!(status.success(), "cargo {}: {status}", arguments.join(" "));
    Ok(())
}

/// Builds the program with the profile of the installed one.
fn build() -> Result<()> {
    cargo(&[
        "build",
        "--quiet",
        "--profile",
        "dist",
        "--package",
        "punctual",
    ])
}

fn make(options: &Options, store: &Path) -> Result<()> {
    let package = ["--package", "punctual-store", "--example", "years"];
    let profile = ["--quiet", "--profile", "bench"];
    cargo(&[&["build"], &package[..], &profile].concat())?;
    let numbers = [
        u64::from(options.years) * 365,
        options.series.into(),
        options.cpus.into(),
        options.window_days.into(),
        options.periods,
    ];
    let mut command = Command::new(target().join("release/examples/years"));
    command
        .arg(store)
        .args(numbers.map(|number| number.to_string()));
    let status = command.status().context("years")?;
    ensure!(status.success(), "years: {status}");
    Ok(())
}

/// Time and memory that one run of the program takes.
struct Cost {
    took: Duration,
    /// CPU time, in steps of 10 ms.
    cpu: Duration,
    memory_kb: u64,
}

fn measure(program: &Path, store: &Path, arguments: &[&str]) -> Result<Cost> {
    let began = Instant::now();
    let mut child = Command::new(program)
        .arg("--store")
        .arg(store)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| program.display().to_string())?;
    let id = Pid::from_raw(child.id().cast_signed()).context("its process")?;
    // Waits without reaping the process, because its CPU time must be read first.
    let seen = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let mut memory_kb = 0;
    while waitid(WaitId::Pid(id), seen)?.is_none() {
        memory_kb = memory_kb.max(memory(&child));
        sleep(Duration::from_millis(1));
    }
    let (took, cpu) = (began.elapsed(), cpu_time(&child));
    let status = child.wait()?;
    // Status 3 means an open regression, which the simulated data can contain.
    ensure!(
        matches!(status.code(), Some(0 | 3)),
        "punctual {}: {status}",
        arguments.join(" ")
    );
    Ok(Cost {
        took,
        cpu,
        memory_kb,
    })
}

/// Returns user and system time of all threads of a process: fields 14 and 15 of proc_pid_stat(5).
fn cpu_time(child: &Child) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id()));
    let stat = stat.unwrap_or_default();
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks = after.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|word| word.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}

/// Returns the peak memory use of a process so far in kB, or 0 if it has ended.
fn memory(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id()));
    let status = status.unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}
