//! The file system operations of this crate, behind a trait, so that a test can make the program
//! end at any of them.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use punctual_files::Budget;
use punctual_files::trusted::{self, Access};
use punctual_host::netlink::Netlink;
use punctual_host::{Coalescing, ETHTOOL, Eee, Host};
use punctual_rt::{Policy, ThreadRef, Tid};
use rustix::fs::{FlockOperation, flock};

/// `ETHTOOL_MSG_COALESCE_SET` from `include/uapi/linux/ethtool_netlink.h`.
const COALESCE_SET: u8 = 20;
/// `ETHTOOL_MSG_EEE_SET`.
const EEE_SET: u8 = 24;

/// Maximum number of bytes to read from the file of a setting.
const READ_LIMIT: u64 = 1 << 20;
/// Maximum number of bytes to read from a journal. A change takes a few hundred bytes, and a
/// machine with many CPUs can have several thousand changes.
const JOURNAL_LIMIT: u64 = 1 << 24;

/// Operations on files.
pub(crate) trait FileSystem: Send {
    /// Reads a file. Invalid UTF-8 is replaced.
    fn read(&self, path: &Path) -> io::Result<String>;
    /// Reads a file, such as a journal, and refuses it if another user may have written it.
    fn read_own(&self, path: &Path) -> io::Result<String>;
    /// Returns whether a process in any namespace holds the lock (flock(2)) on a file. Only the
    /// owner of the file may be able to write it.
    fn is_locked(&self, path: &Path) -> bool;
    /// Sets the contents of an existing file with a single write(2), as /proc and /sys require.
    fn set(&self, path: &Path, text: &str) -> io::Result<()>;
    /// Appends to a file, and creates it if necessary.
    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Truncates a file to `length` bytes.
    fn truncate(&self, path: &Path, length: u64) -> io::Result<()>;
    /// Waits until the file and its name are on disk.
    fn sync(&self, path: &Path) -> io::Result<()>;
    /// Atomically replaces a whole file, keeping its permissions.
    fn replace(&self, path: &Path, text: &str) -> io::Result<()>;
    /// Returns whether the file exists.
    fn exists(&self, path: &Path) -> bool;
    /// Returns an error if this process may not write the file. This writes nothing.
    fn writable(&self, path: &Path) -> io::Result<()>;
    /// Returns whether the file's mode has any write bit, even if root's privileges would allow
    /// writing without one.
    fn has_write_bit(&self, path: &Path) -> io::Result<bool>;
    /// Returns the names in a folder.
    fn names(&self, folder: &Path) -> io::Result<Vec<String>>;
    /// Creates a folder, which in cgroupfs is a control group.
    fn make_folder(&self, path: &Path) -> io::Result<()>;
    /// Removes a folder that is empty except for the kernel's own files.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// Sets the scheduling policy of a thread.
    fn schedule(&self, thread: Tid, policy: &Policy) -> Result<(), punctual_rt::Error>;
    /// Starts a program that outlives this one, without input or output.
    fn start(&self, program: &[OsString]) -> io::Result<()>;
    /// Ends a process, but only if it started at `start`, in clock ticks since boot.
    fn end(&self, pid: u32, start: u64) -> io::Result<()>;
    /// Returns the target of a link.
    fn link(&self, path: &Path) -> io::Result<PathBuf>;
    /// Reads four bytes from a device as a number.
    fn number(&self, path: &Path) -> io::Result<i32>;
    /// Reads the coalescing parameters of a network card of the machine at `root`.
    fn coalescing(&self, root: &Path, card: &str) -> io::Result<Coalescing>;
    /// Sets the parameters of a card that are not `None`. If all of them are `None`, only checks
    /// the permission.
    fn set_coalescing(&self, root: &Path, card: &str, wanted: &Coalescing) -> io::Result<()>;
    /// Reads the Energy-Efficient Ethernet of a network card of the machine at `root`.
    fn eee(&self, root: &Path, card: &str) -> io::Result<Eee>;
    /// Sets the Energy-Efficient Ethernet of a card as [`set_coalescing`](Self::set_coalescing)
    /// sets the coalescing.
    fn set_eee(&self, root: &Path, card: &str, wanted: &Eee) -> io::Result<()>;
}

/// The real file system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Files;

impl FileSystem for Files {
    fn read(&self, path: &Path) -> io::Result<String> {
        let bytes = Budget::bytes(READ_LIMIT).up_to(File::open(path)?)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn read_own(&self, path: &Path) -> io::Result<String> {
        Ok(trusted::text(path, JOURNAL_LIMIT)?)
    }

    fn is_locked(&self, path: &Path) -> bool {
        trusted::open(path, Access::Read).is_ok_and(|file| {
            let free = flock(&file, FlockOperation::NonBlockingLockShared);
            free == Err(rustix::io::Errno::WOULDBLOCK)
        })
    }

    fn set(&self, path: &Path, text: &str) -> io::Result<()> {
        // sysfs ignores the truncation, but the regular files of a test need it.
        let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
        file.write_all(format!("{text}\n").as_bytes())
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        trusted::open_or_create(path, Access::Append)?.write_all(bytes)
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        match trusted::open(path, Access::ReadWrite) {
            Ok(file) => file.set_len(length),
            Err(error) if error.kind() == io::ErrorKind::NotFound && length == 0 => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()?;
        match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
            _ => fs::File::open(".")?.sync_all(),
        }
    }

    fn replace(&self, path: &Path, text: &str) -> io::Result<()> {
        let mode = fs::metadata(path)?.permissions();
        let mut name = OsString::from(path);
        name.push(".punctual");
        let beside = Path::new(&name);
        // Removes a file that an earlier program left behind when it was killed at this point.
        let _ = fs::remove_file(beside);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(beside)?;
        file.write_all(text.as_bytes())?;
        file.set_permissions(mode)?;
        file.sync_all()?;
        fs::rename(beside, path)?;
        self.sync(path)
    }

    fn exists(&self, path: &Path) -> bool {
        path.symlink_metadata().is_ok()
    }

    fn writable(&self, path: &Path) -> io::Result<()> {
        OpenOptions::new().write(true).open(path).map(drop)
    }

    fn has_write_bit(&self, path: &Path) -> io::Result<bool> {
        Ok(!fs::metadata(path)?.permissions().readonly())
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        let names = fs::read_dir(folder)?
            .filter_map(Result::ok)
            .filter_map(|entry| entry.file_name().into_string().ok());
        Ok(names.collect())
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn schedule(&self, thread: Tid, policy: &Policy) -> Result<(), punctual_rt::Error> {
        punctual_rt::set_policy(ThreadRef::Tid(thread), policy)
    }

    fn start(&self, program: &[OsString]) -> io::Result<()> {
        let Some((name, arguments)) = program.split_first() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        // The program starts its own session and process group. This program does not wait for it
        // to end.
        Command::new(name)
            .args(arguments)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map(drop)
    }

    fn end(&self, pid: u32, start: u64) -> io::Result<()> {
        use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
        let number = i32::try_from(pid).map_err(|_| io::ErrorKind::NotFound)?;
        let number = rustix::process::Pid::from_raw(number).ok_or(io::ErrorKind::NotFound)?;
        // The file descriptor refers to one process even if its PID is reused. The start time is
        // checked after opening it, so the process that was checked is the one that is ended.
        let process = pidfd_open(number, PidfdFlags::empty())?;
        if Host::live().process_start(pid) != Some(start) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(pidfd_send_signal(&process, Signal::TERM)?)
    }

    fn link(&self, path: &Path) -> io::Result<PathBuf> {
        fs::read_link(path)
    }

    fn number(&self, path: &Path) -> io::Result<i32> {
        let mut bytes = [0; 4];
        File::open(path)?.read_exact(&mut bytes)?;
        Ok(i32::from_ne_bytes(bytes))
    }

    fn coalescing(&self, root: &Path, card: &str) -> io::Result<Coalescing> {
        of_this_machine(root)?;
        Coalescing::read(card)
    }

    fn set_coalescing(&self, root: &Path, card: &str, wanted: &Coalescing) -> io::Result<()> {
        of_this_machine(root)?;
        Netlink::open(ETHTOOL)?.execute(COALESCE_SET, &wanted.request(card)?)
    }

    fn eee(&self, root: &Path, card: &str) -> io::Result<Eee> {
        of_this_machine(root)?;
        Eee::read(card)
    }

    fn set_eee(&self, root: &Path, card: &str, wanted: &Eee) -> io::Result<()> {
        of_this_machine(root)?;
        Netlink::open(ETHTOOL)?.execute(EEE_SET, &wanted.request(card)?)
    }
}

/// Returns an error unless `root` is the running machine, because the kernel can be queried only
/// about the machine on which it runs.
fn of_this_machine(root: &Path) -> io::Result<()> {
    if root == Path::new("/") {
        Ok(())
    } else {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        (folder, file)
    }

    #[test]
    fn setting_a_file_replaces_its_text_and_creates_nothing() {
        let (_folder, file) = folder();
        assert_eq!(
            Files.set(&file, "1").unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        assert!(!Files.exists(&file));
        fs::write(&file, "a long text\n").unwrap();
        Files.set(&file, "1").unwrap();
        assert_eq!(Files.read(&file).unwrap(), "1\n");
        assert!(Files.exists(&file));
    }

    #[test]
    fn journal_is_appended_and_cut() {
        let (_folder, file) = folder();
        // Cutting a journal that does not exist is only possible to its beginning.
        Files.truncate(&file, 0).unwrap();
        assert!(!Files.exists(&file));
        assert_eq!(
            Files.truncate(&file, 1).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        assert_eq!(
            Files.read_own(&file).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        Files.append(&file, b"one\n").unwrap();
        Files.append(&file, b"two\n").unwrap();
        Files.sync(&file).unwrap();
        assert_eq!(Files.read_own(&file).unwrap(), "one\ntwo\n");
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        Files.truncate(&file, 4).unwrap();
        assert_eq!(Files.read_own(&file).unwrap(), "one\n");
        Files.truncate(&file, 0).unwrap();
        assert_eq!(Files.read_own(&file).unwrap(), "");
        // Another user could have written it.
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(Files.read_own(&file).is_err());
        assert!(Files.sync(&file.with_file_name("none")).is_err());
        // The folder of a relative path is the current one, which is that of this crate.
        Files.sync(Path::new("Cargo.toml")).unwrap();
    }

    #[test]
    fn replacing_keeps_the_mode_and_leaves_no_other_file() {
        let (folder, file) = folder();
        assert!(Files.replace(&file, "x").is_err());
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        // An earlier program was killed while it replaced the file.
        fs::write(folder.path().join("file.punctual"), "left").unwrap();
        Files.replace(&file, "new").unwrap();
        assert_eq!(Files.read(&file).unwrap(), "new");
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(Files.names(folder.path()).unwrap(), ["file"]);
    }

    #[test]
    fn write_bit_is_that_of_anyone() {
        let (_folder, file) = folder();
        fs::write(&file, "").unwrap();
        // The owner can write with the last mode.
        for (mode, has) in [(0o444, false), (0o420, true), (0o644, true)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(Files.has_write_bit(&file).unwrap(), has, "{mode:o}");
        }
        assert!(Files.writable(&file).is_ok());
        assert!(Files.writable(&file.with_file_name("none")).is_err());
        assert!(Files.has_write_bit(&file.with_file_name("none")).is_err());
    }

    #[test]
    fn lock_of_another_program_is_seen() {
        let (_folder, file) = folder();
        assert!(!Files.is_locked(&file));
        Files.append(&file, b"x").unwrap();
        assert!(!Files.is_locked(&file));
        let held = File::open(&file).unwrap();
        flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(Files.is_locked(&file));
        drop(held);
        assert!(!Files.is_locked(&file));
    }

    #[test]
    fn folders_links_and_numbers_are_read() {
        let (folder, file) = folder();
        Files.make_folder(&file).unwrap();
        assert_eq!(
            Files.make_folder(&file).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(Files.names(folder.path()).unwrap(), ["file"]);
        assert!(Files.names(&file).unwrap().is_empty());
        Files.remove_folder(&file).unwrap();
        assert!(Files.names(&file).is_err() && Files.remove_folder(&file).is_err());
        symlink("/nowhere", &file).unwrap();
        assert!(
            Files.exists(&file),
            "a link exists although its target does not"
        );
        assert_eq!(Files.link(&file).unwrap(), Path::new("/nowhere"));
        let device = folder.path().join("device");
        fs::write(&device, 7_i32.to_ne_bytes()).unwrap();
        assert_eq!(Files.number(&device).unwrap(), 7);
        fs::write(&device, [1, 2, 3]).unwrap();
        assert!(Files.number(&device).is_err());
    }

    /// The kernel can be asked only about the cards of the running machine.
    #[test]
    fn cards_of_another_root_are_not_asked_for() {
        let (folder, _) = folder();
        let root = folder.path();
        let none = Coalescing::default();
        for error in [
            Files.coalescing(root, "lo").unwrap_err(),
            Files.set_coalescing(root, "lo", &none).unwrap_err(),
            Files.eee(root, "lo").map(drop).unwrap_err(),
            Files.set_eee(root, "lo", &Eee::default()).unwrap_err(),
        ] {
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        }
        assert!(of_this_machine(Path::new("/")).is_ok());
        assert!(of_this_machine(Path::new("")).is_err());
    }

    #[test]
    fn processes_are_started_and_ended_by_their_identity() {
        assert!(Files.start(&[]).is_err());
        assert!(Files.start(&["/nowhere/program".into()]).is_err());
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        let start = Host::live().process_start(pid).unwrap();
        // Another process with the same number is not ended.
        assert!(Files.end(pid, start + 1).is_err());
        assert!(child.try_wait().unwrap().is_none());
        Files.end(pid, start).unwrap();
        assert!(!child.wait().unwrap().success());
        assert!(Files.end(0, start).is_err());
        assert!(Files.end(u32::MAX, start).is_err());
    }
}
