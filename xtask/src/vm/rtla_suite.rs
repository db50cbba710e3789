//! `cargo xtask vm-rtla`: runs the kernel's own tests of rtla (`tools/tracing/rtla/tests` in its
//! sources) with punctual in place of rtla, in an emulated machine that has the tracers.
//!
//! The tests are GPL-2.0 and not part of this project, so their folder is an argument.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use super::archive::{Archive, START};
use super::boot::{Machinery, emulator, lines_of, usual};
use super::machines::TWO;
use super::{Parts, arch, build, needed};
use crate::paths::program;

/// Options of `cargo xtask vm-rtla`.
#[derive(Args)]
pub(crate) struct Options {
    /// Folder `tools/tracing/rtla/tests` of the kernel's sources, version 7.2 or near it
    #[arg(long, value_name = "DIR")]
    suite: PathBuf,
    /// Test this program, such as the original, in place of punctual. It must run on this machine
    #[arg(long, value_name = "FILE")]
    rtla: Option<PathBuf>,
}

/// The files with the tests.
const FILES: [&str; 3] = ["hwnoise", "osnoise", "timerlat"];

/// The programs that the tests use, with their packages. The programs of busybox lack options.
const PROGRAMS: [(&str, &str); 25] = [
    ("bash", "bash"),
    ("cat", "coreutils"),
    ("chrt", "util-linux"),
    ("col", "bsdextrautils"),
    ("cut", "coreutils"),
    ("dirname", "coreutils"),
    ("env", "coreutils"),
    ("grep", "grep"),
    ("head", "coreutils"),
    ("ldd", "libc-bin"),
    ("mkdir", "coreutils"),
    ("mktemp", "coreutils"),
    ("pgrep", "procps"),
    ("ps", "procps"),
    ("realpath", "coreutils"),
    ("rm", "coreutils"),
    ("rmdir", "coreutils"),
    ("sed", "sed"),
    ("sh", "dash"),
    ("sleep", "coreutils"),
    ("stdbuf", "coreutils"),
    ("tail", "coreutils"),
    ("taskset", "util-linux"),
    ("timeout", "coreutils"),
    ("touch", "coreutils"),
];

/// The library that stdbuf(1) loads into the programs that it runs.
const STDBUF: &str = "/usr/libexec/coreutils/libstdbuf.so";

/// Tests that fail with punctual. docs/compat.md has each of these differences.
const DIFFERENT: [&str; 8] = [
    "timerlat: top verify -s/--stack",
    "timerlat: hist verify -s/--stack",
    "timerlat: top dump tasks",
    "timerlat: hist dump tasks",
    "timerlat: top verify -c/--cpus",
    "timerlat: hist verify -c/--cpus",
    "timerlat: top verify -u/--user-threads",
    "timerlat: hist verify -u/--user-threads",
];

/// Longest silence on the console. A test has a limit of two minutes.
const SILENCE: Duration = Duration::from_secs(600);

/// The line that is printed before the tests of a file.
const BEGIN: &str = "@@ begin ";
/// The line that is printed after all tests.
const FINISHED: &str = "@@ finished";

/// Runs the tests. Returns whether all passed except those with a known difference.
///
/// # Errors
/// Fails if a program is missing, or if the machine does not reach the end of the tests.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let parts = needed(arch::usual())?;
    let archive = archive(options, &parts)?;
    let words = usual(arch::usual());
    let mut child = Machinery(
        emulator(&parts, &archive, &words, TWO)
            .spawn()
            .context("qemu")?,
    );
    let lines = lines_of(&mut child.0)?;
    let mut results = Results::default();
    loop {
        match lines.recv_timeout(SILENCE) {
            Ok(line) if line.contains(FINISHED) => break,
            Ok(line) => {
                println!("{line}");
                results.line(&line);
            }
            Err(RecvTimeoutError::Timeout) => bail!("the machine hangs after {results:?}"),
            Err(RecvTimeoutError::Disconnected) => bail!("the machine ended after {results:?}"),
        }
    }
    let ran = results.passed as usize + results.failed.len();
    ensure!(
        results.files == FILES.len() && ran == results.planned,
        "{ran} of {} planned tests have run, of {} of {} files",
        results.planned,
        results.files,
        FILES.len()
    );
    let (known, new): (Vec<_>, Vec<_>) = (results.failed.iter())
        .partition(|name| options.rtla.is_none() && DIFFERENT.contains(&name.as_str()));
    println!(
        "vm-rtla: {} passed, {} failed with a known difference, {} failed",
        results.passed,
        known.len(),
        new.len()
    );
    for name in &new {
        println!("  {name}");
    }
    Ok(new.is_empty())
}

/// Results in the lines of the Test Anything Protocol.
#[derive(Debug, Default, PartialEq, Eq)]
struct Results {
    file: String,
    /// Number of files that have announced their number of tests.
    files: usize,
    planned: usize,
    passed: u32,
    /// The file and the name of each failed test.
    failed: Vec<String>,
}

impl Results {
    fn line(&mut self, line: &str) {
        if let Some((_, file)) = line.split_once(BEGIN) {
            self.file = file.trim().to_owned();
        } else if let Some(planned) = line.strip_prefix("1..") {
            self.files += 1;
            self.planned += planned.trim().parse::<usize>().unwrap_or(0);
        } else if line.starts_with("ok ") {
            self.passed += 1;
        } else if let Some(failed) = line.strip_prefix("not ok ") {
            let name = failed.split_once(" - ").map_or(failed, |(_, name)| name);
            self.failed.push(format!("{}: {name}", self.file));
        }
    }
}

fn archive(options: &Options, parts: &Parts) -> Result<PathBuf> {
    let (mut archive, path) = Archive::begin("rtla", &parts.busybox)?;
    let rtla = match &options.rtla {
        Some(rtla) => rtla.clone(),
        None => build::stripped(parts.arch, &build::punctual()?)?,
    };
    let mut programs = vec![(rtla, PathBuf::from("/usr/bin/rtla"))];
    for (name, package) in PROGRAMS {
        programs.push((program(name, package)?, Path::new("/usr/bin").join(name)));
    }
    for (program, place) in programs {
        // A script, such as ldd(1), has no libraries.
        if fs::read(&program)?.starts_with(b"\x7fELF") {
            for (library, place) in build::libraries_of(parts.arch, &program)? {
                archive.copy(&library, &place)?;
            }
        }
        archive.copy(&program, &place)?;
    }
    archive.copy(Path::new(STDBUF), Path::new(STDBUF))?;
    copy_folder(&mut archive, &options.suite, Path::new("/suite/tests"))?;
    archive.end(&script())?;
    Ok(path)
}

fn copy_folder(archive: &mut Archive, from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let (path, place) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_folder(archive, &path, &place)?;
        } else {
            archive.copy(&path, &place)?;
        }
    }
    Ok(())
}

/// Returns the init script. The tests are bash scripts with `#!/bin/bash`.
fn script() -> String {
    let mut script = format!(
        "{START}export PATH=/usr/bin:/bin RTLA=/usr/bin/rtla\n\
         mkdir -p /dev/shm /sys/fs/cgroup\n\
         ln -s /usr/bin/bash /bin/bash\n\
         mount -t tmpfs shm /dev/shm\n\
         mount -t tracefs tracefs /sys/kernel/tracing\n\
         mount -t cgroup2 cgroup /sys/fs/cgroup\n\
         cd /suite\n"
    );
    for file in FILES {
        script += &format!("echo '{BEGIN}{file}'\nbash tests/{file}.t 2>&1\n");
    }
    script + &format!("echo '{FINISHED}'\npoweroff -f\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_with_their_file() {
        let mut results = Results::default();
        for line in [
            "@@ begin osnoise",
            "1..3",
            "ok 1 - verify help page",
            "not ok 2 - top exec command",
            "# ok 3 - an output",
            "ok 3 - hist exec command",
        ] {
            results.line(line);
        }
        assert_eq!((results.passed, results.planned, results.files), (2, 3, 1));
        assert_eq!(results.failed, ["osnoise: top exec command"]);
        assert!(script().contains("bash tests/timerlat.t"));
    }
}
