//! A machine of files, and a file system that fails when it is told to.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use punctual_host::Host;

use crate::layer::{FileLayer, Files};

const CLOCK: &str = "sys/devices/system/clocksource/clocksource0";

/// A tree with what this room reads: the boot, this process, a clock source.
pub(crate) struct Machine {
    folder: tempfile::TempDir,
    host: Host,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::new(folder.path());
        let machine = Self { folder, host };
        machine.put(&format!("{CLOCK}/current_clocksource"), "tsc\n");
        machine.put(
            &format!("{CLOCK}/available_clocksource"),
            "tsc hpet acpi_pm \n",
        );
        machine.put("proc/sys/kernel/random/boot_id", "first\n");
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        let pid = std::process::id();
        machine.put(&format!("proc/{pid}/stat"), &format!("{pid} (test) {rest}"));
        machine
    }

    fn put(&self, file: &str, text: &str) {
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
        self.put(&format!("{CLOCK}/current_clocksource"), source);
    }

    /// From now on this process is none of the machine's.
    pub(crate) fn process_dies(&self) {
        let pid = std::process::id();
        fs::remove_dir_all(self.folder.path().join(format!("proc/{pid}"))).unwrap();
    }

    pub(crate) fn reboots(&self) {
        self.process_dies();
        self.put("proc/sys/kernel/random/boot_id", "second\n");
        self.set_source("tsc");
    }
}

/// What happens at the chosen step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The program ends before it.
    EndsBefore,
    /// The program ends in the middle: half of what was to be added is there.
    EndsWithin,
    /// The program ends after it.
    EndsAfter,
    /// The step fails, and the program goes on.
    Fails,
    /// The file system takes it and does nothing, as a kernel may.
    Ignored,
}

/// Does what it is told, up to a step.
#[derive(Clone)]
pub(crate) struct Faulty {
    fault: Fault,
    at: usize,
    done: Arc<Mutex<Vec<&'static str>>>,
}

impl Faulty {
    pub(crate) fn new(fault: Fault, at: usize) -> Self {
        Self {
            fault,
            at,
            done: Arc::default(),
        }
    }

    /// The steps that were asked for.
    pub(crate) fn steps(&self) -> Vec<&'static str> {
        self.done.lock().unwrap().clone()
    }

    pub(crate) fn boxed(&self) -> Box<dyn FileLayer> {
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
            // For reads it would be a fault of another kind.
            Fault::Ignored => return whole(),
            Fault::EndsWithin if now == self.at => half()?,
            Fault::EndsAfter if now == self.at => drop(whole()),
            _ => {}
        }
        Err(gone())
    }
}

impl FileLayer for Faulty {
    fn read(&self, path: &Path) -> io::Result<String> {
        self.step("read", || Files.read(path), || Ok(()))
    }

    fn set(&self, path: &Path, text: &str) -> io::Result<()> {
        if self.fault == Fault::Ignored {
            return Ok(());
        }
        self.step("set", || Files.set(path, text), || Ok(()))
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.step(
            "append",
            || Files.append(path, bytes),
            || Files.append(path, &bytes[..bytes.len() / 2]),
        )
    }

    fn cut(&self, path: &Path, length: u64) -> io::Result<()> {
        self.step("cut", || Files.cut(path, length), || Ok(()))
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        self.step("sync", || Files.sync(path), || Ok(()))
    }
}
