//! The lease of the service, which ensures that only one service records into a store. Its file
//! names the process of the service; [`ask`] sends a signal to that process.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use punctual_files::lease::{Holder, Lease, holder, remove};
use punctual_files::{Budget, FileError};
use punctual_host::Host;
use punctual_model::ProcessId;
use punctual_store::Store;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal};

/// Maximum size of the file, in bytes.
const LONGEST: u64 = 1_024;

/// Why a service cannot start, or cannot be signalled.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Another service records into the store.
    #[error("another service records into {} ({who})", store.display())]
    Served {
        /// The store.
        store: PathBuf,
        /// The process of that service.
        who: String,
    },
    /// It is unknown whether another service records into the store.
    #[error(
        "it is unknown whether another service records into {}: {why}. If no other service runs, \
         remove that file",
        store.display()
    )]
    Unknown {
        /// The store.
        store: PathBuf,
        /// The reason.
        why: String,
    },
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file cannot be opened.
    #[error("cannot read {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The error of the kernel.
        source: std::io::Error,
    },
    /// The file names no process.
    #[error("{} contains no process ID: '{note}'", path.display())]
    NoProcess {
        /// The file.
        path: PathBuf,
        /// Its content.
        note: String,
    },
    /// The file was written by a version that did not record the start time of the process.
    #[error("an earlier version of the service is running: restart the service")]
    Earlier,
    /// The process does not exist.
    #[error("process {pid}, listed in {}", path.display())]
    Gone {
        /// The process ID.
        pid: u32,
        /// The file.
        path: PathBuf,
        /// The error of the kernel.
        source: Errno,
    },
    /// The process is not the service that wrote the file.
    #[error(
        "process {pid}, listed in {}, is not the service and was not signalled: {why}",
        path.display()
    )]
    NotTheService {
        /// The process ID.
        pid: u32,
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The kernel refuses the signal.
    #[error("the service cannot be signalled")]
    Signal(#[source] Errno),
}

/// Returns the path of the lease file of a store.
fn lease_path(store: &Store) -> PathBuf {
    let mut name = store.path().as_os_str().to_owned();
    name.push(".service");
    PathBuf::from(name)
}

/// Whether a service records into a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Serving {
    /// No service records into the store.
    Nobody,
    /// A service records into the store.
    Service,
    /// It is unknown, for this reason.
    Unknown(String),
}

/// Returns whether a service records into a store.
pub fn serving(store: &Store) -> Serving {
    serving_by(&lease_path(store), &Host::live())
}

fn serving_by(path: &Path, host: &Host) -> Serving {
    match holder(path) {
        Holder::NoLease | Holder::Gone => Serving::Nobody,
        Holder::Lives => Serving::Service,
        // A lock proves nothing, because another user may hold it. Only the process that the file
        // names counts.
        Holder::Unknown { note: Some(note) } => match process_of(&note) {
            Some((pid, _)) if host.process_start(pid).is_none() => Serving::Nobody,
            Some((pid, Some(start))) if host.process_start(pid) != Some(start) => Serving::Nobody,
            Some(_) => Serving::Service,
            None => Serving::Unknown(format!("{} contains no process ID", path.display())),
        },
        Holder::Unknown { note: None } => {
            Serving::Unknown(format!("{} cannot be opened", path.display()))
        }
    }
}

/// Describes the process that the lease file names, for a message.
pub fn process_serving(store: &Store) -> String {
    let note = note_of(&lease_path(store)).ok().map(|(note, _)| note);
    let process = note.as_deref().and_then(process_of);
    process.map_or_else(
        || "its process is not known".to_owned(),
        |(pid, _)| format!("process {pid}"),
    )
}

/// Takes the lease of a store. Without it, two services would measure every slot twice.
///
/// # Errors
/// Fails if another service holds it, or if the file cannot be written.
pub fn only_service(store: &Store) -> Result<Lease, LeaseError> {
    let path = lease_path(store);
    let of_store = || store.path().to_owned();
    match serving(store) {
        Serving::Nobody => {}
        Serving::Service => {
            return Err(LeaseError::Served {
                store: of_store(),
                who: process_serving(store),
            });
        }
        Serving::Unknown(why) => {
            return Err(LeaseError::Unknown {
                store: of_store(),
                why,
            });
        }
    }
    remove(&path);
    let ProcessId { pid, start } = Host::live().own_process();
    Ok(Lease::take(&path, &format!("process {pid} {start}"))?)
}

/// Sends SIGUSR1 to the service of a store, so that it saves the wake-ups and trace events that it
/// holds.
///
/// # Errors
/// Fails if the file does not name the service, or if the kernel refuses the signal.
pub fn ask(store: &Store) -> Result<(), LeaseError> {
    signal(&lease_path(store), &Host::live(), Signal::USR1)
}

/// Sends a signal to the process that a lease file names, but only if the owner of the file could
/// also send it. So the process must belong to the owner, run this program, and have started at the
/// recorded time.
fn signal(path: &Path, host: &Host, signal: Signal) -> Result<(), LeaseError> {
    let (note, owner) = note_of(path)?;
    let no_process = || LeaseError::NoProcess {
        path: path.to_owned(),
        note: note.clone(),
    };
    let (pid, start) = process_of(&note).ok_or_else(no_process)?;
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.ok_or_else(no_process)?;
    // The descriptor refers to this process, even if another process gets the same ID later.
    let opened = pidfd_open(number, PidfdFlags::empty());
    let process = opened.map_err(|source| LeaseError::Gone {
        pid,
        path: path.to_owned(),
        source,
    })?;
    let not_it = |why: String| LeaseError::NotTheService {
        pid,
        path: path.to_owned(),
        why,
    };
    let known = start.ok_or(LeaseError::Earlier)?;
    if host.process_start(pid) != Some(known) {
        return Err(not_it("it started at another time".to_owned()));
    }
    if host.sole_user(pid) != Some(owner) {
        return Err(not_it(
            "it does not run as the owner of the file".to_owned(),
        ));
    }
    match (host.program_of(pid), host.program_of(std::process::id())) {
        (Some(its), Some(this)) if its == this => {}
        // The kernel hides which program a process with capabilities runs. Here, the caller owns
        // the file and could signal the process anyway.
        (None, _) if owner == geteuid().as_raw() => {}
        (None, _) => return Err(not_it("its program is hidden".to_owned())),
        (Some(its), _) => return Err(not_it(format!("it runs {its}"))),
    }
    pidfd_send_signal(&process, signal).map_err(LeaseError::Signal)
}

/// Returns the text of the lease file, and the user ID of its owner.
fn note_of(path: &Path) -> Result<(String, u32), LeaseError> {
    let open = |source| LeaseError::Open {
        path: path.to_owned(),
        source,
    };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = openat(CWD, path, flags, Mode::empty());
    let file = std::fs::File::from(opened.map_err(|error| open(error.into()))?);
    let owner = file.metadata().map_err(open)?.uid();
    let text = punctual_files::text_of(Budget::bytes(LONGEST).read_open(&file, path)?, path)?;
    Ok((text.trim().to_owned(), owner))
}

/// Returns the ID of the process that the text of a lease file names, and its start time, if any.
fn process_of(note: &str) -> Option<(u32, Option<u64>)> {
    let mut words = note.trim().strip_prefix("process ")?.split(' ');
    let pid = words.next()?.parse().ok()?;
    let start = words.next().map(str::parse).transpose().ok()?;
    words.next().is_none().then_some((pid, start))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a panic in a test is the report")]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Child, Command};

    use super::*;

    /// A process that is killed at the end of the test.
    struct Ends(Child);

    impl Drop for Ends {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn note(path: &Path, text: &str, mode: u32) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn only_the_service_itself_is_signalled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db.service");
        let host = Host::live();
        // A process of this user that runs another program. SIGUSR1 would end it.
        let mut victim = Ends(Command::new("sleep").arg("600").spawn().unwrap());
        let pid = victim.0.id();
        let own = host.program_of(std::process::id()).unwrap();
        let runs = || host.program_of(pid).is_some_and(|program| program != own);
        while !runs() {
            std::thread::yield_now();
        }
        let start = host.process_start(pid).unwrap();
        let this = host.own_process();
        for text in [
            format!("process {pid}"),
            format!("process {pid} {start}"),
            format!("process {} {}", this.pid, this.start + 1),
            format!("process {} {}", this.pid, this.start) + " more",
            "process 1 0".to_owned(),
            "process -1".to_owned(),
            "process 0 0".to_owned(),
            "process 4294967295 1".to_owned(),
            "1".to_owned(),
            String::new(),
            "x".repeat(5_000),
        ] {
            note(&path, &text, 0o600);
            let error = signal(&path, &host, Signal::USR1).unwrap_err();
            assert!(!error.to_string().is_empty(), "{text}");
        }
        assert!(victim.0.try_wait().unwrap().is_none());
        // Use a signal that is ignored by default, because this process receives it.
        note(
            &path,
            &format!("process {} {}", this.pid, this.start),
            0o600,
        );
        signal(&path, &host, Signal::WINCH).unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/proc/self/stat", &path).unwrap();
        signal(&path, &host, Signal::WINCH).unwrap_err();
    }

    #[test]
    fn file_owner_names_only_own_process() {
        if !geteuid().is_root() {
            punctual_testing::skip!(User, "a file of another user: only root can make one");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db.service");
        let host = Host::live();
        let this = host.own_process();
        note(
            &path,
            &format!("process {} {}", this.pid, this.start),
            0o600,
        );
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        let error = signal(&path, &host, Signal::WINCH).unwrap_err().to_string();
        assert!(error.contains("owner of the file"), "{error}");
    }

    #[test]
    fn others_read_lock_blocks_no_service() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db.service");
        let host = Host::live();
        assert_eq!(serving_by(&path, &host), Serving::Nobody);
        // A killed service of an earlier version left this file, and a member of its group holds
        // the lock.
        note(&path, "process 4194305", 0o640);
        let held = fs::File::open(&path).unwrap();
        held.try_lock().unwrap();
        assert_eq!(serving_by(&path, &host), Serving::Nobody);
        let this = host.own_process();
        for (text, serving) in [
            (format!("process {}", this.pid), Serving::Service),
            (
                format!("process {} {}", this.pid, this.start),
                Serving::Service,
            ),
            (
                format!("process {} {}", this.pid, this.start + 1),
                Serving::Nobody,
            ),
        ] {
            note(&path, &text, 0o640);
            assert_eq!(serving_by(&path, &host), serving, "{text}");
        }
        note(&path, "who knows", 0o640);
        assert!(matches!(serving_by(&path, &host), Serving::Unknown(_)));
    }
}
