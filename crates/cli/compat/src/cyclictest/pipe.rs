//! `-F`: a named pipe from which other programs can read the current lines.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

/// Polling interval for a reader.
const LOOK: Duration = Duration::from_millis(500);
/// Pause between two readers, so that the first one sees the end of the data.
const PAUSE: Duration = Duration::from_micros(250);

/// The pipe and the thread that writes to it. Dropping it removes the pipe.
pub(super) struct Pipe {
    path: PathBuf,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Pipe {
    /// Creates the pipe. An existing pipe with the same name is replaced.
    ///
    /// # Errors
    /// Returns an error if there is another kind of file with this name, or if the folder is not
    /// writable.
    pub(super) fn make(path: &str, text: &Arc<Mutex<String>>) -> io::Result<Self> {
        let path = PathBuf::from(path);
        if fs::symlink_metadata(&path).is_ok_and(|there| there.file_type().is_fifo()) {
            fs::remove_file(&path)?;
        }
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o666), 0)?;
        let (end, ended) = mpsc::channel();
        let thread = thread::spawn({
            let (path, text) = (path.clone(), Arc::clone(text));
            move || {
                let mut wait = Duration::ZERO;
                while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                    wait = match serve(&path, &text) {
                        Ok(()) => PAUSE,
                        // No reader.
                        Err(_) => LOOK,
                    };
                }
            }
        });
        Ok(Self {
            path,
            end: Some(end),
            thread: Some(thread),
        })
    }
}

/// Writes the lines to the reader.
fn serve(path: &Path, text: &Mutex<String>) -> io::Result<()> {
    let mut pipe = OpenOptions::new()
        .write(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    let text = text.lock().unwrap_or_else(PoisonError::into_inner).clone();
    pipe.write_all(text.as_bytes())
}

impl Drop for Pipe {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // Another program may already have removed the pipe.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_gets_the_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let name = path.to_str().unwrap();
        let text = Arc::new(Mutex::new("first\n".to_owned()));
        let pipe = Pipe::make(name, &text).unwrap();
        // A slow reader may get the lines several times.
        let read = fs::read_to_string(&path).unwrap();
        assert!(read.starts_with("first\n"), "{read:?}");
        assert!(read.lines().all(|line| line == "first"), "{read:?}");
        *text.lock().unwrap() = "second\n".to_owned();
        // A reader that follows immediately may still see the end of the data for the first reader.
        let mut read = String::new();
        for _ in 0..100 {
            read = fs::read_to_string(&path).unwrap();
            if !read.is_empty() {
                break;
            }
        }
        assert!(read.ends_with("second\n"), "{read:?}");
        drop(pipe);
        assert!(!path.exists());
        fs::write(&path, "a file").unwrap();
        assert!(Pipe::make(name, &text).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "a file");
    }
}
