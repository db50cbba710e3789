//! Reads small files below a root path. If a file cannot be read, returns the reason.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use punctual_files::Budget;
use punctual_model::{CpuSet, Fact};
use rustix::fs::{Mode, OFlags};

use crate::HostError;
use crate::unread::{NoValue, Unparsed, Unread};

/// Size limit of one file in bytes. With 512 CPUs, /proc/interrupts has 2 MB. An unexpected file
/// must not fill the memory.
const READ_LIMIT: u64 = 16 << 20;

/// File with the kernel's lockdown mode.
pub(crate) const LOCKDOWN: &str = "/sys/kernel/security/lockdown";

/// `EPERM` from errno(3): the operation is forbidden regardless of the file's mode. If the mode
/// forbids the operation, the error is `EACCES` instead.
const EPERM: i32 = 1;

/// A root path. The name of a file is its path on the machine itself, such as `/proc/…`. This name
/// is also used as the source of a fact.
#[derive(Clone, Debug)]
pub(crate) struct Root(PathBuf);

impl Root {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns whether this is the machine on which the program runs. Only in that case do
    /// processor instructions and system calls describe the same machine as the files.
    pub(crate) fn is_live(&self) -> bool {
        self.0 == Path::new("/")
    }

    pub(crate) fn join(&self, file: &str) -> PathBuf {
        self.0.join(file.trim_start_matches('/'))
    }

    /// Opens a file that will be read more than once.
    pub(crate) fn open(&self, file: &str) -> io::Result<File> {
        at_once(&self.join(file))
    }

    /// Opens the file if `is_expected` accepts its status. Otherwise does not open it, because
    /// opening a device can have side effects.
    pub(crate) fn open_if(
        &self,
        file: &str,
        is_expected: impl FnOnce(&fs::Metadata) -> bool,
    ) -> io::Result<File> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let place = File::from(rustix::fs::open(self.join(file), flags, Mode::empty())?);
        if !is_expected(&place.metadata()?) {
            return Err(io::ErrorKind::NotFound.into());
        }
        at_once(Path::new(&format!("/proc/self/fd/{}", place.as_raw_fd())))
    }

    /// Returns the target of a link.
    pub(crate) fn link(&self, file: &str) -> io::Result<String> {
        let text = fs::read_link(self.join(file))?;
        Ok(text.to_string_lossy().into_owned())
    }

    /// Returns the file's bytes.
    pub(crate) fn bytes(&self, file: &str) -> io::Result<Vec<u8>> {
        Budget::bytes(READ_LIMIT).up_to(self.open(file)?)
    }

    /// Returns the file's text unchanged, except that invalid UTF-8 is replaced.
    pub(crate) fn raw_text(&self, file: &str) -> io::Result<String> {
        self.bytes(file)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the file's text without surrounding white space, or the reason why there is none.
    /// Also removes NULs, because texts in the device tree end with a NUL.
    pub(crate) fn text(&self, file: &str) -> Result<String, Unread> {
        let text = self.raw_text(file).map_err(|error| self.reason(&error))?;
        let ends = |c: char| c.is_whitespace() || c == '\0';
        Ok(text.trim_matches(ends).to_owned())
    }

    /// Reads eight bytes at `offset` as a little-endian number. This is the byte order of x86, the
    /// only architecture with such a file.
    pub(crate) fn u64_at(&self, file: &str, offset: u64) -> Result<u64, Unread> {
        let mut bytes = [0; 8];
        self.open(file)
            .and_then(|open| open.read_exact_at(&mut bytes, offset))
            .map_err(|error| self.reason(&error))?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Returns the names in a folder, unordered.
    pub(crate) fn names(&self, folder: &str) -> Result<Vec<String>, Unread> {
        let entries = fs::read_dir(self.join(folder)).map_err(|error| self.reason(&error))?;
        Ok(entries
            .filter_map(Result::ok)
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect())
    }

    /// Returns the inode number of a file or folder.
    pub(crate) fn inode(&self, path: &str) -> Option<u64> {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(self.join(path)).ok().map(|found| found.ino())
    }

    /// Returns the mode of a file, including its type.
    pub(crate) fn mode(&self, path: &str) -> Option<u32> {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(self.join(path)).ok().map(|found| found.mode())
    }

    /// Returns the sorted names of the folders in a folder, excluding links.
    pub(crate) fn folders(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.join(folder)).into_iter().flatten();
        let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        let mut names: Vec<String> = entries
            .filter_map(Result::ok)
            .filter(is_folder)
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort_unstable();
        names
    }

    /// Returns the number N of each `prefixN` in a folder, in ascending order.
    pub(crate) fn numbered(&self, folder: &str, prefix: &str) -> Result<Vec<u32>, Unread> {
        let mut numbers: Vec<u32> = self
            .names(folder)?
            .iter()
            .filter_map(|name| name.strip_prefix(prefix)?.parse().ok())
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Returns the file's text as a fact; an empty file is unknown.
    pub(crate) fn word(&self, file: &str) -> Fact<String> {
        self.fact(file, word)
    }

    /// Returns the file's number as a fact.
    pub(crate) fn number<T: FromStr>(&self, file: &str) -> Fact<T> {
        self.fact(file, number)
    }

    /// Returns the file's CPU list as a fact. An empty file means the empty set, as does `(null)`,
    /// which some kernels print in `nohz_full` if the set is empty.
    pub(crate) fn cpu_list(&self, file: &str) -> Fact<CpuSet> {
        self.fact(file, |text| match text {
            "(null)" => Ok(CpuSet::new()),
            _ => (text.parse()).map_err(|_| Unparsed::other("a CPU list", text)),
        })
    }

    /// Returns the choice that is in brackets, as in `always [madvise] never`, as a fact.
    pub(crate) fn choice(&self, file: &str) -> Fact<String> {
        self.fact(file, |text| {
            marked(text).ok_or_else(|| Unparsed::other("a choice in brackets", text))
        })
    }

    /// Returns the fact that `read` parses from the file's text.
    pub(crate) fn fact<T>(
        &self,
        file: &str,
        read: impl FnOnce(&str) -> Result<T, Unparsed>,
    ) -> Fact<T> {
        match self.value(file, read) {
            Ok(value) => Fact::known(value, file),
            Err(reason) => Fact::unknown(file, reason.to_string()),
        }
    }

    /// Returns the value that `read` parses from the file's text.
    pub(crate) fn value<T>(
        &self,
        file: &str,
        read: impl FnOnce(&str) -> Result<T, Unparsed>,
    ) -> Result<T, NoValue> {
        Ok(read(&self.text(file)?)?)
    }

    /// Returns the CPU list of a required file.
    pub(crate) fn require_cpu_list(&self, file: &str) -> Result<CpuSet, HostError> {
        let text = self.require(file)?;
        text.trim().parse().map_err(|source| HostError::CpuList {
            path: file.to_owned(),
            source,
        })
    }

    /// Returns the text of a required file.
    pub(crate) fn require(&self, file: &str) -> Result<String, HostError> {
        self.raw_text(file).map_err(|source| HostError::Read {
            path: file.to_owned(),
            source,
        })
    }

    /// Converts an error of the file system to the reason why a fact is unknown.
    pub(crate) fn reason(&self, error: &io::Error) -> Unread {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Unread::NotThere,
            io::ErrorKind::PermissionDenied => match self.lockdown() {
                // A locked-down kernel returns EPERM even to root (kernel_lockdown(7)).
                Some(mode) if error.raw_os_error() == Some(EPERM) => Unread::Lockdown(mode),
                // securityfs is often not mounted, especially in containers. In that case, lockdown
                // cannot be confirmed.
                None if error.raw_os_error() == Some(EPERM) && self.bytes(LOCKDOWN).is_err() => {
                    Unread::NotPermitted
                }
                _ => Unread::PermissionDenied,
            },
            _ => Unread::System(error.to_string()),
        }
    }

    /// Returns the lockdown mode in force, if there is one.
    fn lockdown(&self) -> Option<String> {
        marked(&self.raw_text(LOCKDOWN).ok()?).filter(|mode| mode != "none")
    }
}

/// Opens a file for reading, or fails at once. A named pipe without a writer, or a file on which its
/// owner has a write lease (fcntl(2)), would otherwise block.
fn at_once(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
}

/// Returns `text`, or the reason if it is empty.
pub(crate) fn word(text: &str) -> Result<String, Unparsed> {
    match text {
        "" => Err(Unparsed::Empty),
        _ => Ok(text.to_owned()),
    }
}

/// Parses `text` as a number, or returns the reason why the text is not a number.
pub(crate) fn number<T: FromStr>(text: &str) -> Result<T, Unparsed> {
    match text {
        "" => Err(Unparsed::Empty),
        _ => (text.parse()).map_err(|_| Unparsed::other("a number", text)),
    }
}

/// Returns the word that is marked as current by brackets, or by parentheses as in
/// `/sys/kernel/debug/sched/preempt`.
fn marked(text: &str) -> Option<String> {
    text.split_whitespace().find_map(|word| {
        let inner = word
            .strip_prefix('[')
            .and_then(|word| word.strip_suffix(']'))
            .or_else(|| word.strip_prefix('(')?.strip_suffix(')'))?;
        (!inner.is_empty()).then(|| inner.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &[u8])]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        let root = Root::new(folder.path().to_owned());
        (folder, root)
    }

    #[test]
    fn absent_fact_gives_its_reason() {
        let (_folder, root) = tree(&[
            ("empty", b"\n"),
            ("word", b"12 monkeys"),
            ("folder/file", b"x"),
            ("long", "é\u{1b}".repeat(100).as_bytes()),
        ]);
        let reason = |file: &str| root.number::<u32>(file).unknown.unwrap();
        assert_eq!(reason("/gone"), "not there");
        assert_eq!(reason("/word/below"), "not there");
        assert_eq!(reason("/empty"), "empty");
        assert_eq!(reason("/word"), "not readable as a number: '12 monkeys'");
        assert!(reason("/folder").contains("directory"));
        assert!(reason("/long").ends_with("é …'"));
        assert_eq!(root.word("/empty").unknown.unwrap(), "empty");
        assert_eq!(
            root.cpu_list("/word").unknown.unwrap(),
            "not readable as a CPU list: '12 monkeys'"
        );
    }

    /// Without O_NONBLOCK, opening a leased file takes 45 s.
    #[test]
    fn leased_file_does_not_block() {
        use std::io::BufRead as _;
        use std::process::{Command, Stdio};
        let (folder, root) = tree(&[("map", b"10 10 step\n")]);
        let script = "import fcntl, sys, signal\n\
            signal.signal(signal.SIGIO, signal.SIG_IGN)\n\
            file = open(sys.argv[1], 'r+')\n\
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n\
            print('leased', flush=True)\n\
            sys.stdin.read()\n";
        let child = Command::new("python3")
            .args(["-c", script])
            .arg(folder.path().join("map"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            punctual_testing::skip!(Program, "no python3");
            return;
        };
        let mut said = String::new();
        let stdout = child.stdout.take().unwrap();
        io::BufReader::new(stdout).read_line(&mut said).unwrap();
        assert_eq!(said, "leased\n");
        let error = root.open_if("/map", |_| true).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(
            root.bytes("/map").unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn values_come_with_their_source() {
        let (_folder, root) = tree(&[
            ("n", b" -1\n"),
            ("model", b"A Board\0"),
            ("none", b"(null)\n"),
            ("thp", b"always [madvise] never\n"),
            ("msr", &[0, 0, 7, 0, 0, 0, 0, 0, 0, 0]),
        ]);
        assert_eq!(root.number("/n"), Fact::known(-1i64, "/n"));
        assert_eq!(root.word("/model").value.unwrap(), "A Board");
        assert_eq!(root.cpu_list("/none").value, Some(CpuSet::new()));
        assert_eq!(root.choice("/thp").value.unwrap(), "madvise");
        assert_eq!(root.u64_at("/msr", 2), Ok(7));
        assert!(root.u64_at("/msr", 3).is_err());
    }

    #[test]
    fn lockdown_is_distinguished_from_a_missing_right() {
        let denied = |errno| io::Error::from_raw_os_error(errno);
        let (_folder, free) = tree(&[]);
        assert_eq!(free.reason(&denied(EPERM)), Unread::NotPermitted);
        assert_eq!(free.reason(&denied(13)), Unread::PermissionDenied);
        let lockdown = &LOCKDOWN[1..];
        let (_folder, locked) = tree(&[(lockdown, b"none [integrity] confidentiality\n")]);
        let integrity = Unread::Lockdown("integrity".to_owned());
        assert_eq!(locked.reason(&denied(EPERM)), integrity);
        assert_eq!(locked.reason(&denied(13)), Unread::PermissionDenied);
        let (_folder, open) = tree(&[(lockdown, b"[none] integrity confidentiality\n")]);
        assert_eq!(open.reason(&denied(EPERM)), Unread::PermissionDenied);
    }

    #[test]
    fn the_marked_word_is_found() {
        assert_eq!(marked("none (voluntary) full").unwrap(), "voluntary");
        assert_eq!(marked("[a] b").unwrap(), "a");
        assert_eq!(marked("a b [] ( [x"), None);
    }
}
