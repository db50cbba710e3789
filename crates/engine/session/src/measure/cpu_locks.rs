//! Locks that allow only one measurement at a time on a CPU.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use punctual_files::lock::{Lock, LockRequest, ask};
use punctual_files::{FileError, Output, folder, rights, trusted};
use punctual_host::Host;
use punctual_model::{CpuSet, ProcessId};

use crate::{Session, SessionError};

/// Maximum size of the file that names a measurement, in bytes.
const STATE: u64 = 1_024;

/// Keeps other measurements off these CPUs until it is dropped.
#[derive(Debug)]
pub struct CpuLocks {
    held: Vec<Held>,
    refusal: Option<String>,
}

/// A CPU that is locked in one folder, with two files. Only the folder's owner can open the lock.
/// Every user can read the other file, which names the measurement.
#[derive(Debug)]
struct Held {
    state: PathBuf,
    _lock: Lock,
}

impl Drop for Held {
    fn drop(&mut self) {
        // A file that is left behind names a process that has ended, so it does no harm.
        let _ = fs::remove_file(&self.state);
    }
}

impl CpuLocks {
    /// Locks `cpus` in each of `folders`. Creates missing folders if possible. In another user's
    /// folder, the CPUs are only checked, and other measurements cannot be kept off.
    ///
    /// # Errors
    /// [`SessionError::CpuInUse`], without waiting.
    pub fn hold(folders: &[PathBuf], cpus: &CpuSet, what: &str) -> Result<Self, SessionError> {
        let this = Host::live().own_process();
        let note = format!("{what}, process {}", this.pid);
        let mut all = Self {
            held: Vec::new(),
            refusal: None,
        };
        for place in folders {
            let locks = place.join("locks");
            // A missing folder is reported when the file is opened.
            let _ = folder::make(place, 0o755);
            let _ = folder::make(&locks, 0o700);
            let _ = rights::close_to_others(&locks);
            for cpu in cpus.iter() {
                let name = format!("cpu-{cpu}");
                let state = place.join(&name);
                match ask(&locks.join(&name), &note) {
                    Ok(LockRequest::Held(lock)) => {
                        let said = say(&state, this, &note);
                        all.held.push(Held { state, _lock: lock });
                        said.unwrap_or_else(|error| all.refused(&error));
                    }
                    Ok(LockRequest::Busy { note }) => {
                        let who = note.unwrap_or_else(|| "another program".to_owned());
                        return Err(SessionError::CpuInUse { cpu, who });
                    }
                    Ok(LockRequest::Impossible) => {
                        if let Some(who) = measures(&state) {
                            return Err(SessionError::CpuInUse { cpu, who });
                        }
                    }
                    Err(error) => all.refused(&error),
                }
            }
        }
        Ok(all)
    }

    /// Returns why a lock was not taken in a folder that is usable. If there were several reasons,
    /// this is the first one.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    fn refused(&mut self, error: &FileError) {
        let text = || format!("it is unknown whether other measurements use these CPUs: {error}");
        self.refusal.get_or_insert_with(text);
    }

    /// Locks the CPUs that a program without a CPU list measures on this machine.
    ///
    /// # Errors
    /// Same as [`hold`](Self::hold); also if the CPUs cannot be read.
    pub fn hold_usual(
        folders: &[PathBuf],
        cpus: Option<&CpuSet>,
        host: &Host,
        what: &str,
    ) -> Result<Self, SessionError> {
        match cpus {
            Some(cpus) => Self::hold(folders, cpus, what),
            None => Self::hold(folders, &host.allowed()?, what),
        }
    }
}

/// Writes which process is measuring to a file that all users can read.
fn say(state: &Path, this: ProcessId, note: &str) -> Result<(), FileError> {
    Output::private(state)?.put(format!("{} {} {note}\n", this.pid, this.start).as_bytes())?;
    let opened = fs::set_permissions(state, Permissions::from_mode(0o644));
    opened.map_err(|source| FileError::Write {
        path: state.to_owned(),
        source,
    })
}

/// Returns the note of the process that measures a CPU, read from another user's folder. A lock on
/// this file proves nothing, because every reader can hold it. The file counts if this user or root
/// wrote it and its process is running.
fn measures(state: &Path) -> Option<String> {
    let text = trusted::text(state, STATE).ok()?;
    let mut words = text.trim_end().splitn(3, ' ');
    let process = ProcessId {
        pid: words.next()?.parse().ok()?,
        start: words.next()?.parse().ok()?,
    };
    let note = words.next()?.to_owned();
    Host::live().has_process(process).then_some(note)
}

impl Session {
    /// Locks the CPUs that this session measures.
    ///
    /// # Errors
    /// Same as [`CpuLocks::hold`].
    pub fn hold_cpus(&self, folders: &[PathBuf]) -> Result<CpuLocks, SessionError> {
        CpuLocks::hold(folders, &self.cpus(), self.request.probe.name)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn lock_is_private_but_holder_is_public() {
        let top = tempfile::tempdir().unwrap();
        let place = top.path().join("punctual");
        let cpus = CpuSet::from_iter([3]);
        let held = CpuLocks::hold(std::slice::from_ref(&place), &cpus, "timer").unwrap();
        assert_eq!(held.refusal(), None);
        assert_eq!(mode(&place.join("locks")), 0o700);
        assert_eq!(mode(&place.join("locks/cpu-3")), 0o600);
        assert_eq!(mode(&place.join("cpu-3")), 0o644);
        let who = format!("timer, process {}", std::process::id());
        let busy = CpuLocks::hold(std::slice::from_ref(&place), &cpus, "check").unwrap_err();
        assert!(matches!(&busy, SessionError::CpuInUse { who: by, .. } if *by == who));
        assert_eq!(measures(&place.join("cpu-3")), Some(who));
        drop(held);
        assert_eq!(measures(&place.join("cpu-3")), None);
        CpuLocks::hold(&[place], &cpus, "check").unwrap();
    }

    #[test]
    fn lock_on_readable_file_blocks_no_measurement() {
        let top = tempfile::tempdir().unwrap();
        let place = top.path().join("punctual");
        let cpus = CpuSet::from_iter([3]);
        // Other users can open the file of an earlier version, or one that a killed measurement
        // left behind.
        fs::create_dir(&place).unwrap();
        fs::write(place.join("cpu-3"), "1 1 timer, process 1\n").unwrap();
        let opened = fs::File::open(place.join("cpu-3")).unwrap();
        opened.try_lock().unwrap();
        let held = CpuLocks::hold(std::slice::from_ref(&place), &cpus, "timer").unwrap();
        assert_eq!(held.refusal(), None);
        let state = fs::File::open(place.join("cpu-3")).unwrap();
        state.try_lock().unwrap();
        drop(held);
        CpuLocks::hold(&[place], &cpus, "timer").unwrap();
    }

    #[test]
    fn only_a_process_that_runs_measures() {
        let top = tempfile::tempdir().unwrap();
        let state = top.path().join("cpu-3");
        let this = Host::live().own_process();
        let gone = ProcessId {
            start: this.start + 1,
            ..this
        };
        say(&state, gone, "timer").unwrap();
        assert_eq!(measures(&state), None);
        say(&state, this, "timer").unwrap();
        assert_eq!(measures(&state).as_deref(), Some("timer"));
        for text in ["", "1", "x y z", "-1 5 timer", "\u{0} \u{0}"] {
            fs::write(&state, text).unwrap();
            assert_eq!(measures(&state), None, "{text:?}");
        }
        // The file does not count, because any user could have written it.
        say(&state, this, "timer").unwrap();
        fs::set_permissions(&state, Permissions::from_mode(0o666)).unwrap();
        assert_eq!(measures(&state), None);
    }
}
