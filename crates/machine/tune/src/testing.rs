//! A simulated machine that consists of files, and a file system that fails on request.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use punctual_host::{Coalescing, Eee, Host};
use punctual_rt::{Policy, Tid};

use crate::apply::Locations;
use crate::fs::{FileSystem, Files};
use crate::testing_kernel::Kernel;

const CLOCK: &str = "sys/devices/system/clocksource/clocksource0";

/// A tree of files that imitates a machine. It contains the files that this crate reads: the boot
/// ID, this process, a clock source.
pub(crate) struct Machine {
    folder: tempfile::TempDir,
    host: Host,
}

impl Machine {
    pub(crate) fn new() -> Self {
        // The tests write thousands of small files, so the files are kept in memory if possible.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let folder = folder.unwrap();
        let host = Host::new(folder.path());
        let machine = Self { folder, host };
        machine.write(&format!("{CLOCK}/current_clocksource"), "tsc\n");
        machine.write(
            &format!("{CLOCK}/available_clocksource"),
            "tsc hpet acpi_pm \n",
        );
        machine.write("proc/sys/kernel/random/boot_id", "first\n");
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        let pid = std::process::id();
        machine.write(&format!("proc/{pid}/stat"), &format!("{pid} (test) {rest}"));
        machine
    }

    /// Paths of the journals.
    pub(crate) fn places(&self) -> Locations {
        Locations::next_to(self.journal())
    }

    /// Returns a file's trimmed text.
    pub(crate) fn get(&self, file: &str) -> String {
        let text = fs::read_to_string(self.folder.path().join(file));
        text.unwrap_or_default().trim().to_owned()
    }

    /// Returns all files except the journals, with their text, to compare before and after.
    pub(crate) fn snapshot(&self) -> Vec<(PathBuf, String)> {
        fn walk(folder: &Path, into: &mut Vec<(PathBuf, String)>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    into.push((path.clone(), "a folder".to_owned()));
                    walk(&path, into);
                } else {
                    let bytes = fs::read(&path).unwrap();
                    into.push((path, String::from_utf8_lossy(&bytes).trim().to_owned()));
                }
            }
        }
        let mut all = Vec::new();
        walk(self.folder.path(), &mut all);
        let ours = self.folder.path().join("state");
        let this = self
            .folder
            .path()
            .join(format!("proc/{}", std::process::id()));
        all.retain(|(path, _)| !path.starts_with(&ours) && !path.starts_with(&this));
        all.sort();
        all
    }

    /// Sets the mode of a file.
    pub(crate) fn set_mode(&self, file: &str, mode: u32) {
        let path = self.folder.path().join(file);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn remove(&self, file: &str) {
        let path = self.folder.path().join(file);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        let path = self.folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.folder.path().join("state/punctual/tune.journal")
    }

    pub(crate) fn source(&self) -> String {
        let path = self.folder.path().join(CLOCK).join("current_clocksource");
        fs::read_to_string(path).unwrap().trim().to_owned()
    }

    pub(crate) fn set_source(&self, source: &str) {
        self.write(&format!("{CLOCK}/current_clocksource"), source);
    }

    /// Removes this process from the machine, as if the program had ended.
    pub(crate) fn process_dies(&self) {
        let pid = std::process::id();
        let _ = fs::remove_dir_all(self.folder.path().join(format!("proc/{pid}")));
    }

    /// Adds this process to the machine again, as if the next program had started.
    pub(crate) fn process_starts(&self) {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 5000 20";
        let pid = std::process::id();
        self.write(&format!("proc/{pid}/stat"), &format!("{pid} (test) {rest}"));
    }

    pub(crate) fn reboots(&self) {
        self.process_dies();
        self.write("proc/sys/kernel/random/boot_id", "second\n");
        self.set_source("tsc");
    }
}

/// A fault that occurs at the chosen step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The program ends before the step.
    EndsBefore,
    /// The program ends in the middle of the step: half of an append has been written.
    EndsWithin,
    /// The program ends after the step.
    EndsAfter,
    /// The step fails, and the program continues.
    Fails,
    /// The file system accepts each write of a setting but ignores it, as a kernel may do.
    Ignored,
    /// The file disappears before it is written, and everything else continues.
    Vanishes,
    /// From this step on, journals can be neither extended nor truncated.
    ReadOnlyJournal,
    /// The caller may read everything but change nothing.
    NotAllowed,
}

/// A file system that has a fault at a chosen step.
#[derive(Clone)]
pub(crate) struct Faulty {
    fault: Fault,
    root: PathBuf,
    at: usize,
    done: Arc<Mutex<Vec<&'static str>>>,
}

impl Faulty {
    pub(crate) fn new(fault: Fault, at: usize) -> Self {
        Self {
            fault,
            root: PathBuf::new(),
            at,
            done: Arc::default(),
        }
    }

    /// Creates a file system that also changes the threads and processes of `machine`.
    pub(crate) fn on(machine: &Machine, fault: Fault, at: usize) -> Self {
        Self {
            root: machine.host.root().to_owned(),
            ..Self::new(fault, at)
        }
    }

    /// Sets fields 19, 40 and 41 in the file `stat` of a thread.
    fn threads(&self, thread: Tid, policy: &Policy) {
        let path = self.root.join(format!("proc/{thread}/stat"));
        let text = fs::read_to_string(&path).unwrap();
        let (name, rest) = text.rsplit_once(')').unwrap();
        let mut fields: Vec<String> = rest.split_whitespace().map(str::to_owned).collect();
        let (number, priority, nice) = match *policy {
            Policy::Other { nice } => (0, 0, Some(nice)),
            Policy::Fifo { priority } => (1, priority, None),
            Policy::RoundRobin { priority } => (2, priority, None),
            Policy::Batch { nice } => (3, 0, Some(nice)),
            Policy::Idle => (5, 0, Some(0)),
            Policy::Deadline { .. } => panic!("never set here"),
        };
        fields[41 - 3] = number.to_string();
        fields[40 - 3] = priority.to_string();
        if let Some(nice) = nice {
            fields[19 - 3] = nice.to_string();
        }
        fs::write(path, format!("{name}) {}", fields.join(" "))).unwrap();
    }

    fn start_process(&self, program: &[OsString]) -> io::Result<()> {
        let words: Vec<String> = program
            .iter()
            .map(|word| format!("{}\0", word.display()))
            .collect();
        let folder = self.root.join("proc/99999");
        fs::create_dir(&folder)?;
        fs::write(folder.join("cmdline"), words.concat())?;
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 6000 20";
        fs::write(folder.join("stat"), format!("99999 (punctual) {rest}"))?;
        let uid = rustix::process::geteuid().as_raw();
        let ids = format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n");
        fs::write(folder.join("status"), ids)?;
        // The executable is a link to a small file, because the tests compare all files.
        std::os::unix::fs::symlink("/dev/null", folder.join("exe"))?;
        let beside = Path::new(&program[5]).with_extension("journal.holder");
        let line = format!("99999 6000 {} /dev/null\n", program[3].display());
        fs::write(&beside, line)?;
        fs::set_permissions(&beside, fs::Permissions::from_mode(0o600))?;
        let micros: i32 = program[3].to_string_lossy().parse().unwrap();
        let device = self.root.join("dev/cpu_dma_latency");
        fs::write(device, micros.to_ne_bytes())
    }

    fn end_process(&self, pid: u32, start: u64) -> io::Result<()> {
        let folder = self.root.join(format!("proc/{pid}"));
        assert_eq!(start, 6000);
        fs::remove_dir_all(folder)?;
        let device = self.root.join("dev/cpu_dma_latency");
        fs::write(device, 2_000_000_000_i32.to_ne_bytes())
    }

    /// Returns the steps that were performed so far.
    pub(crate) fn steps(&self) -> Vec<&'static str> {
        self.done.lock().unwrap().clone()
    }

    pub(crate) fn boxed(&self) -> Box<dyn FileSystem> {
        Box::new(self.clone())
    }

    fn step<T>(
        &self,
        name: &'static str,
        whole: impl FnOnce() -> io::Result<T>,
        half: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<T> {
        let mut done = self.done.lock().unwrap();
        done.push(name);
        let now = done.len() - 1;
        let gone = || io::Error::other("the program has ended");
        if now < self.at {
            return whole();
        }
        match self.fault {
            Fault::Fails if now > self.at => return whole(),
            Fault::Fails => return Err(io::Error::from_raw_os_error(5)),
            // Reads still succeed, because a failed read is a different kind of fault.
            Fault::ReadOnlyJournal if ["append", "cut"].contains(&name) => {
                return Err(io::Error::from_raw_os_error(30));
            }
            Fault::NotAllowed if ["writable", "schedule"].contains(&name) => {
                return Err(io::Error::from_raw_os_error(1));
            }
            Fault::Ignored | Fault::Vanishes | Fault::ReadOnlyJournal | Fault::NotAllowed => {
                return whole();
            }
            Fault::EndsWithin if now == self.at => half()?,
            Fault::EndsAfter if now == self.at => drop(whole()),
            _ => {}
        }
        Err(gone())
    }
}

impl FileSystem for Faulty {
    fn read(&self, path: &Path) -> io::Result<String> {
        self.step("read", || Files.read(path), || Ok(()))
    }

    fn read_own(&self, path: &Path) -> io::Result<String> {
        self.step("read", || Files.read_own(path), || Ok(()))
    }

    fn is_locked(&self, path: &Path) -> bool {
        Files.is_locked(path)
    }

    fn set(&self, path: &Path, text: &str) -> io::Result<()> {
        if self.fault == Fault::Ignored {
            return Ok(());
        }
        if self.fault == Fault::Vanishes && self.steps().len() == self.at {
            fs::remove_file(path)?;
        }
        self.step("set", || Kernel.set(path, text), || Ok(()))
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.step(
            "append",
            || Files.append(path, bytes),
            || Files.append(path, &bytes[..bytes.len() / 2]),
        )
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        self.step("cut", || Files.truncate(path, length), || Ok(()))
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        // If only the program ends, the kernel still writes the data to disk, so no sync is needed
        // here.
        let there = || path.metadata().map(drop);
        self.step("sync", there, || Ok(()))
    }

    fn replace(&self, path: &Path, text: &str) -> io::Result<()> {
        self.step("replace", || Files.replace(path, text), || Ok(()))
    }

    fn exists(&self, path: &Path) -> bool {
        Files.exists(path)
    }

    fn writable(&self, path: &Path) -> io::Result<()> {
        let read_only = ["sys", "proc"].iter().any(|mount| {
            let mount = self.root.join(mount);
            path.starts_with(&mount) && mount.join("is-read-only").exists()
        });
        if read_only {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        self.step("writable", || Files.writable(path), || Ok(()))
    }

    fn has_write_bit(&self, path: &Path) -> io::Result<bool> {
        Files.has_write_bit(path)
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        Files.names(folder)
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.step("mkdir", || Kernel.make_folder(path), || Ok(()))
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.step("rmdir", || Kernel.remove_folder(path), || Ok(()))
    }

    fn schedule(&self, thread: Tid, policy: &Policy) -> Result<(), punctual_rt::Error> {
        let gone = |_| punctual_rt::Error::NoSuchThread {
            thread: thread.into(),
        };
        let done = self.step("schedule", || Ok(()), || Ok(()));
        done.map_err(gone)?;
        self.threads(thread, policy);
        Ok(())
    }

    fn start(&self, program: &[OsString]) -> io::Result<()> {
        self.step("start", || self.start_process(program), || Ok(()))
    }

    fn end(&self, pid: u32, start: u64) -> io::Result<()> {
        self.step("end", || self.end_process(pid, start), || Ok(()))
    }

    fn link(&self, path: &Path) -> io::Result<PathBuf> {
        Files.link(path)
    }

    fn number(&self, path: &Path) -> io::Result<i32> {
        Files.number(path)
    }

    fn coalescing(&self, root: &Path, card: &str) -> io::Result<Coalescing> {
        self.step("read", || Kernel.coalescing(root, card), || Ok(()))
    }

    fn set_coalescing(&self, root: &Path, card: &str, wanted: &Coalescing) -> io::Result<()> {
        if *wanted == Coalescing::default() {
            return self.step("writable", || Ok(()), || Ok(()));
        }
        if self.fault == Fault::Ignored {
            return Ok(());
        }
        let set = || Kernel.set_coalescing(root, card, wanted);
        self.step("set", set, || Ok(()))
    }

    fn eee(&self, root: &Path, card: &str) -> io::Result<Eee> {
        self.step("read", || Kernel.eee(root, card), || Ok(()))
    }

    fn set_eee(&self, root: &Path, card: &str, wanted: &Eee) -> io::Result<()> {
        if *wanted == Eee::default() {
            return self.step("writable", || Ok(()), || Ok(()));
        }
        if self.fault == Fault::Ignored {
            return Ok(());
        }
        self.step("set", || Kernel.set_eee(root, card, wanted), || Ok(()))
    }
}
