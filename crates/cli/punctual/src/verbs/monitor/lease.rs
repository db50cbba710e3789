//! The lease of the service: one service alone records into a store. Its file names the
//! process of the service, which [`ask`] signals.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use punctual_files::bounded;
use punctual_files::lease::{Holder, Lease, holder, remove};
use punctual_host::Host;
use punctual_model::ProcessId;
use punctual_store::Store;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal};

/// The most that is read of the file, in bytes.
const LONGEST: u64 = 1_024;

/// The file that the service of a store holds.
fn lease_path(store: &Store) -> PathBuf {
    let mut name = store.path().as_os_str().to_owned();
    name.push(".service");
    PathBuf::from(name)
}

/// Who serves a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Serving {
    /// Nobody.
    Nobody,
    /// A service.
    Service,
    /// This cannot be known, for this reason.
    Unknown(String),
}

/// Whether a service records into a store.
pub(super) fn serving(store: &Store) -> Serving {
    serving_by(&lease_path(store), &Host::live())
}

fn serving_by(path: &Path, host: &Host) -> Serving {
    match holder(path) {
        Holder::NoLease | Holder::Gone => Serving::Nobody,
        Holder::Lives => Serving::Service,
        // Others could hold the lock: the process decides.
        Holder::Unknown { note: Some(note) } => match process_of(&note) {
            Some((pid, _)) if host.process_start(pid).is_none() => Serving::Nobody,
            Some((pid, Some(start))) if host.process_start(pid) != Some(start) => Serving::Nobody,
            Some(_) => Serving::Service,
            None => Serving::Unknown(format!("{} names no process", path.display())),
        },
        Holder::Unknown { note: None } => {
            Serving::Unknown(format!("{} cannot be opened", path.display()))
        }
    }
}

/// What the file says of the process, for people.
pub(super) fn who(store: &Store) -> String {
    let note = note_of(&lease_path(store)).ok().map(|(note, _)| note);
    let process = note.as_deref().and_then(process_of);
    process.map_or_else(
        || "its process is not known".to_owned(),
        |(pid, _)| format!("process {pid}"),
    )
}

/// Only one service on a store: two would each measure every slot.
pub(super) fn only_one(store: &Store) -> Result<Lease> {
    let path = lease_path(store);
    let of_store = store.path().display();
    match serving(store) {
        Serving::Nobody => {}
        Serving::Service => {
            bail!("another service records into {of_store} ({})", who(store));
        }
        Serving::Unknown(why) => bail!(
            "it is not known whether another service records into {of_store}: {why}; if none \
             runs, remove that file"
        ),
    }
    remove(&path);
    let ProcessId { pid, start } = Host::live().own_process();
    Ok(Lease::take(&path, &format!("process {pid} {start}"))?)
}

/// Asks the service of a store to keep what it holds, by a signal.
pub(super) fn ask(store: &Store) -> Result<()> {
    signal(&lease_path(store), &Host::live(), Signal::USR1)
}

/// Signals the process that a file names, where that is one that the file's owner could
/// signal as well: the owner's, of this program, and the one that was started then.
fn signal(path: &Path, host: &Host, signal: Signal) -> Result<()> {
    let (note, owner) = note_of(path)?;
    let (pid, start) = process_of(&note)
        .with_context(|| format!("{} names no process: '{note}'", path.display()))?;
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.context("the process of the service is not known")?;
    // From here on it is this process, whoever gets its number later.
    let process = pidfd_open(number, PidfdFlags::empty())
        .with_context(|| format!("process {pid}, which {} names", path.display()))?;
    let not_it = |what: &str| {
        format!(
            "process {pid}, which {} names, is not the service and is not signalled: {what}",
            path.display()
        )
    };
    // Earlier versions did not write when it was started.
    let known = start.context("an earlier version of the service runs: start it anew")?;
    ensure!(
        host.process_start(pid) == Some(known),
        not_it("it was not started at that time")
    );
    ensure!(
        host.sole_user(pid) == Some(owner),
        not_it("it runs as another user than the file's owner")
    );
    match (host.program_of(pid), host.program_of(std::process::id())) {
        (Some(its), Some(this)) if its == this => {}
        // The kernel hides the program of a process with capabilities. The caller owns the
        // file and could signal the process anyway.
        (None, _) if owner == geteuid().as_raw() => {}
        (None, _) => bail!("{}", not_it("its program is hidden")),
        (Some(its), _) => bail!("{}", not_it(&format!("it runs {its}"))),
    }
    pidfd_send_signal(&process, signal).context("the service cannot be signalled")
}

/// The text of the file, and its owner.
fn note_of(path: &Path) -> Result<(String, u32)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = openat(CWD, path, flags, Mode::empty());
    let file = opened.with_context(|| format!("cannot read {}", path.display()))?;
    let file = std::fs::File::from(file);
    let owner = file.metadata()?.uid();
    let text = bounded::text_of(bounded::bytes_of(&file, path, LONGEST)?, path)?;
    Ok((text.trim().to_owned(), owner))
}

/// The process that a note names, and when that was started.
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

    /// Ends with its test.
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
        // A process of this user that is another program: SIGUSR1 would end it.
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
            assert!(!format!("{error:#}").is_empty(), "{text}");
        }
        assert!(victim.0.try_wait().unwrap().is_none());
        // The signal that is ignored by default, to this program.
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
        assert!(error.contains("another user"), "{error}");
    }

    #[test]
    fn others_read_lock_blocks_no_service() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db.service");
        let host = Host::live();
        assert_eq!(serving_by(&path, &host), Serving::Nobody);
        // A file that a killed service of an earlier version left; its group holds the lock.
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
