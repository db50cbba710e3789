//! Limits of reads, waits and child processes. Files, peers and child processes may send without end,
//! or never answer, so nothing outside this module reads or waits without a limit (`clippy.toml`).

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::FileError;

/// Time between two looks at a process.
const LOOK: Duration = Duration::from_millis(5);
/// Time that the kernel has to end a process that was killed.
const DYING: Duration = Duration::from_secs(10);

/// Limits of one read, process or wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    bytes: u64,
    items: u64,
    time: Duration,
}

impl Budget {
    /// Returns a budget of bytes, without a limit of items and time.
    pub const fn bytes(bytes: u64) -> Self {
        Self {
            bytes,
            items: u64::MAX,
            time: Duration::MAX,
        }
    }

    /// Returns a budget of time, without a limit of bytes and items.
    pub const fn time(time: Duration) -> Self {
        Self::bytes(u64::MAX).within(time)
    }

    /// Sets the time that a process or a wait may take.
    #[must_use]
    pub const fn within(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    /// Sets the number of items, such as files in an archive.
    #[must_use]
    pub const fn items(mut self, items: u64) -> Self {
        self.items = items;
        self
    }

    /// Takes one item from the budget.
    ///
    /// # Errors
    /// Returns an error if no item is left.
    pub fn take_item(&mut self) -> io::Result<()> {
        let left = self.items.checked_sub(1);
        self.items = left.ok_or_else(|| io::Error::other("it has too many parts"))?;
        Ok(())
    }

    /// Takes bytes from the budget.
    ///
    /// # Errors
    /// Returns an error if fewer bytes are left.
    pub fn take_bytes(&mut self, count: u64) -> io::Result<()> {
        let left = self.bytes.checked_sub(count);
        self.bytes = left.ok_or_else(|| io::Error::other("it is too large"))?;
        Ok(())
    }

    /// Reads a whole file.
    ///
    /// # Errors
    /// Returns the errors of open(2) and read(2), and an error if the file has more bytes.
    pub fn read(&self, path: &Path) -> Result<Vec<u8>, FileError> {
        let file = File::open(path).map_err(|source| FileError::Read {
            path: path.to_owned(),
            source,
        })?;
        self.read_open(file, path)
    }

    /// Reads a whole text file.
    ///
    /// # Errors
    /// Returns the errors of [`read`](Self::read), and an error if the file is not UTF-8.
    pub fn read_text(&self, path: &Path) -> Result<String, FileError> {
        text_of(self.read(path)?, path)
    }

    /// Reads an open file to its end. `path` is the name used in errors.
    ///
    /// # Errors
    /// Returns the errors of read(2), and an error if the file has more bytes.
    pub fn read_open(&self, reader: impl Read, path: &Path) -> Result<Vec<u8>, FileError> {
        let mut bytes = Vec::new();
        // Reads one more byte to distinguish a longer file from a file of exactly this length.
        let read = Self::bytes(self.bytes.saturating_add(1)).append(reader, &mut bytes);
        let read = read.map_err(|source| FileError::Read {
            path: path.to_owned(),
            source,
        })?;
        if read as u64 > self.bytes {
            Err(FileError::TooLarge {
                path: path.to_owned(),
                limit: self.bytes,
            })
        } else {
            Ok(bytes)
        }
    }

    /// Reads stdin to its end, as bytes.
    ///
    /// # Errors
    /// See [`read_open`](Self::read_open).
    pub fn read_stdin(&self) -> Result<Vec<u8>, FileError> {
        self.read_open(io::stdin().lock(), Path::new("stdin"))
    }

    /// Returns a reader that ends after the bytes of the budget.
    pub fn limit<R: Read>(&self, reader: R) -> io::Take<R> {
        reader.take(self.bytes)
    }

    /// Appends what a reader returns, without the bytes beyond the budget. Returns the number of bytes.
    ///
    /// # Errors
    /// Returns the errors of the reader.
    #[expect(clippy::disallowed_methods, reason = "the reader is limited")]
    pub fn append(&self, reader: impl Read, to: &mut Vec<u8>) -> io::Result<usize> {
        self.limit(reader).read_to_end(to)
    }

    /// Returns what a reader returns, without the bytes beyond the budget.
    ///
    /// # Errors
    /// Returns the errors of the reader.
    pub fn up_to(&self, reader: impl Read) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.append(reader, &mut bytes)?;
        Ok(bytes)
    }

    /// Runs a command, and returns its status and output without the bytes beyond the budget. Kills
    /// it when the time is over. A process that it leaves behind is not awaited.
    ///
    /// # Errors
    /// Returns an error if the command cannot be run, or did not end in time.
    pub fn output(&self, command: &mut Command) -> io::Result<Output> {
        let pipes = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn()?;
        let began = Instant::now();
        let drained = self.drain(&mut child);
        let left = self.time.saturating_sub(began.elapsed());
        if drained.is_err() || left.is_zero() {
            reap(&mut child);
        }
        let [stdout, stderr] = drained?;
        if left.is_zero() {
            return Err(self.over());
        }
        let status = Self::time(left).end(&mut child)?;
        Ok(Output {
            status,
            stdout,
            stderr,
        })
    }

    /// Reads both outputs of a process until it has ended, or the time is over.
    fn drain(&self, child: &mut Child) -> io::Result<[Vec<u8>; 2]> {
        let began = Instant::now();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let pipes = [stdout.map(|one| one.into()), stderr.map(|one| one.into())];
        let mut open: [Option<File>; 2] =
            pipes.map(|pipe: Option<std::os::fd::OwnedFd>| pipe.map(File::from));
        let mut texts = [Vec::new(), Vec::new()];
        while open.iter().any(Option::is_some) && began.elapsed() < self.time {
            let places: Vec<usize> = (0..2).filter(|place| open[*place].is_some()).collect();
            let files = open.iter().flatten().map(AsFd::as_fd);
            let mut watched: Vec<_> = files
                .map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN))
                .collect();
            let turn = Timespec::try_from(LOOK).map_err(io::Error::other)?;
            if poll(&mut watched, Some(&turn))? == 0 && child.try_wait()?.is_some() {
                break;
            }
            let ready: Vec<bool> = watched
                .iter()
                .map(|one| !one.revents().is_empty())
                .collect();
            for (place, _) in places.into_iter().zip(ready).filter(|(_, ready)| *ready) {
                let mut part = [0; 4_096];
                let count = match &mut open[place] {
                    Some(file) => file.read(&mut part)?,
                    None => 0,
                };
                let room = usize::try_from(self.bytes).unwrap_or(usize::MAX);
                let room = room.saturating_sub(texts[place].len());
                texts[place].extend_from_slice(&part[..count.min(room)]);
                if count == 0 {
                    open[place] = None;
                }
            }
        }
        Ok(texts)
    }

    /// Waits until a process has ended, and kills it when the time is over.
    ///
    /// # Errors
    /// Returns an error of the kind `TimedOut` if it was killed, and the errors of waitpid(2).
    pub fn end(&self, child: &mut Child) -> io::Result<ExitStatus> {
        if let Some(status) = self.ended(child)? {
            return Ok(status);
        }
        reap(child);
        Err(self.over())
    }

    fn over(&self) -> io::Error {
        let text = format!("it had not ended after {:?}, and was killed", self.time);
        io::Error::new(io::ErrorKind::TimedOut, text)
    }

    /// Waits until a process has ended. Returns `None` when the time is over.
    ///
    /// # Errors
    /// Returns the errors of waitpid(2).
    pub fn ended(&self, child: &mut Child) -> io::Result<Option<ExitStatus>> {
        let began = Instant::now();
        loop {
            let status = child.try_wait()?;
            if status.is_some() || began.elapsed() >= self.time {
                return Ok(status);
            }
            thread::sleep(LOOK.min(self.time));
        }
    }
}

/// Kills a process and waits briefly for its end. A process that the kernel cannot end stays.
pub fn reap(child: &mut Child) {
    // The kill fails if the process has already ended.
    let _ = child.kill();
    let _ = Budget::time(DYING).ended(child);
}

/// The script of the guard. Its argument is the process group.
const GUARD: &str = r#"read -r line; kill -KILL -- "-$1" 2>/dev/null"#;

/// Starts a process that kills the process group of `leader` when this program ends, even if it is
/// killed: the guard then reads the end of a pipe. End the guard before the ID of the group can be
/// reused.
///
/// # Errors
/// Returns an error if the process cannot be started.
pub fn guard_of_group(leader: &Child) -> io::Result<Child> {
    Command::new("sh")
        .args(["-c", GUARD, "sh", &leader.id().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

/// Converts bytes that were read to text. `path` is the name used in errors.
///
/// # Errors
/// Returns an error if the bytes are not UTF-8.
pub fn text_of(bytes: Vec<u8>, path: &Path) -> Result<String, FileError> {
    String::from_utf8(bytes).map_err(|error| FileError::NotText {
        path: path.to_owned(),
        at: error.utf8_error().valid_up_to(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_file_is_refused_with_limit() {
        let error = Budget::bytes(1_000).read(Path::new("/dev/zero"));
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("/dev/zero is too large to be read: it has more than 1000 bytes"),
            "{error}"
        );
    }

    #[test]
    fn bytes_and_items_are_taken_until_none_is_left() {
        let mut left = Budget::bytes(10).items(1);
        assert!(left.take_bytes(4).is_ok() && left.take_bytes(7).is_err());
        assert!(left.take_bytes(6).is_ok() && left.take_bytes(1).is_err());
        assert!(left.take_item().is_ok() && left.take_item().is_err());
    }

    #[test]
    fn file_at_limit_is_read_larger_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(Budget::bytes(5).read_text(&path).unwrap(), "12345");
        assert!(matches!(
            Budget::bytes(4).read_text(&path),
            Err(FileError::TooLarge { limit: 4, .. })
        ));
        std::fs::write(&path, b"ab\xff").unwrap();
        assert!(matches!(
            Budget::bytes(5).read_text(&path),
            Err(FileError::NotText { at: 2, .. })
        ));
        let missing = Budget::bytes(5).read_text(&folder.path().join("none"));
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn items_run_out() {
        let mut budget = Budget::bytes(1).items(2);
        budget.take_item().unwrap();
        budget.take_item().unwrap();
        assert!(budget.take_item().is_err());
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        command
    }

    #[test]
    fn output_beyond_budget_is_dropped() {
        let budget = Budget::bytes(10).within(Duration::from_secs(60));
        let mut command = shell("head -c 1000000 /dev/zero | tr '\\0' a; echo no >&2; exit 3");
        let output = budget.output(&mut command).unwrap();
        assert_eq!(output.stdout, b"aaaaaaaaaa");
        assert_eq!(output.stderr, b"no\n");
        assert_eq!(output.status.code(), Some(3));
    }

    #[test]
    fn hanging_process_is_killed() {
        let budget = Budget::bytes(10).within(Duration::from_millis(50));
        let error = budget.output(&mut shell("exec sleep 1000")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let endless = budget.output(&mut shell("exec cat /dev/zero")).unwrap_err();
        assert_eq!(endless.kind(), io::ErrorKind::TimedOut);
    }

    /// A service that a command starts keeps the pipes open.
    #[test]
    fn process_left_behind_is_not_awaited() {
        let budget = Budget::bytes(100).within(Duration::from_secs(60));
        let output = budget.output(&mut shell("sleep 90 & echo $!")).unwrap();
        let pid = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0));
        shell(&format!("kill {pid}"))
            .spawn()
            .unwrap()
            .wait()
            .unwrap();
    }
}
