//! One run of a machine, from start to end.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Parts;
use super::arch::Arch;
use super::console::{Console, Request, Tally};
use super::machines::Machine;
use crate::paths;

/// Time limit for a machine, from start to end.
const LIFE: Duration = Duration::from_secs(30 * 60);

/// Longest silence on the console. A machine that is silent for longer counts as hanging. The limit
/// is longer than that of a test program, because a single test may use all of that time.
const SILENCE: Duration = Duration::from_secs(900);

/// Boots the machine, follows its console, and makes sure that it ends.
pub(crate) fn run(
    machine: &Machine,
    parts: &Parts,
    archive: &Path,
    verbose: bool,
) -> Result<Tally> {
    let name = format!("{}{}.log", parts.arch.prefix(), machine.name);
    let log_path = paths::folder().join(name);
    let mut log = File::create(&log_path).with_context(|| log_path.display().to_string())?;
    let words = format!("{} {}", usual(parts.arch), machine.kernel_words);
    let mut command = emulator(parts, archive, &words, machine.cpus);
    let mut child = Machinery(command.spawn().context("qemu")?);
    let lines = lines_of(&mut child.0)?;
    let mut console = Console::from_machine(machine.name);
    let deadline = Instant::now() + LIFE;
    loop {
        let patience = SILENCE.min(deadline.saturating_duration_since(Instant::now()));
        let line = match lines.recv_timeout(patience) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                println!("{}: the machine hangs: ended from outside", machine.name);
                break;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        };
        writeln!(log, "{line}")?;
        match console.line(&line) {
            Request::Stall(ms) => {
                println!("{}: the machine is stopped for {ms} ms", machine.name);
                stall(&child.0, Duration::from_millis(ms));
            }
            Request::Show => println!("{}: {line}", machine.name),
            Request::Nothing if verbose => println!("{} | {line}", machine.name),
            Request::Nothing => {}
        }
    }
    if !console.tally.good() {
        println!("{}: console log: {}", machine.name, log_path.display());
        show_end_of(&log_path)?;
    }
    Ok(console.tally)
}

/// Prints the last lines of a log, because readers of the gate's output have no other information.
fn show_end_of(log: &Path) -> Result<()> {
    let text = String::from_utf8_lossy(&std::fs::read(log)?).into_owned();
    let lines: Vec<_> = text.lines().collect();
    for line in &lines[lines.len().saturating_sub(120)..] {
        println!("  | {line}");
    }
    Ok(())
}

/// The emulator's process, which never outlives the task.
pub(super) struct Machinery(pub(super) Child);

impl Drop for Machinery {
    fn drop(&mut self) {
        // The process may already have ended, so errors are ignored.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the kernel arguments of every machine.
pub(super) fn usual(arch: &Arch) -> String {
    format!("console={} panic=-1 quiet rdinit=/init", arch.console)
}

pub(super) fn emulator(parts: &Parts, archive: &Path, words: &str, cpus: &str) -> Command {
    let mut command = Command::new(&parts.qemu);
    command
        .args(parts.arch.machine)
        .args(["-smp", cpus, "-m", "1536M"])
        .args(["-nodefaults", "-nographic", "-no-reboot"])
        .args(["-serial", "stdio", "-append", words.trim()])
        .arg("-kernel")
        .arg(&parts.kernel)
        .arg("-initrd")
        .arg(archive)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    command
}

/// Reads the lines of the console on a separate thread, so that the task can stop a machine that is
/// silent.
pub(super) fn lines_of(child: &mut Child) -> Result<mpsc::Receiver<String>> {
    let stdout = child.stdout.take().context("the machine's console")?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stdout);
        let mut bytes = Vec::new();
        while matches!(reader.read_until(b'\n', &mut bytes), Ok(read) if read > 0) {
            let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
            bytes.clear();
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    Ok(receiver)
}

/// Stops the emulator and, with it, all CPUs of the machine. Resumes it later. A hypervisor does
/// the same with its guests.
fn stall(child: &Child, length: Duration) {
    let signal = |name: &str| {
        let pid = child.id().to_string();
        // If the machine no longer exists, the signal has no effect, and the test reports that it
        // was not stalled.
        let _ = Command::new("kill").args([name, &pid]).status();
    };
    signal("-STOP");
    std::thread::sleep(length);
    signal("-CONT");
}
