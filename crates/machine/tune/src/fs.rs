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
