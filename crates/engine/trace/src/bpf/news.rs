//! The ring through which the programs wake the reader.

use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use aya::maps::{MapData, RingBuf};
use rustix::event::{PollFd, PollFlags, poll};

/// Entries without content: each shows that there is something to read.
pub(crate) struct News(RingBuf<MapData>);

impl fmt::Debug for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("News").finish_non_exhaustive()
    }
}

impl News {
    pub(crate) const fn new(ring: RingBuf<MapData>) -> Self {
        Self(ring)
    }

    /// Removes the entries so far.
    pub(crate) fn clear(&mut self) {
        while self.0.next().is_some() {}
    }

    /// Waits for an entry, or until `other` is readable. A signal ends the wait.
    pub(crate) fn wait(&self, other: Option<BorrowedFd<'_>>, timeout: Duration) {
        let files = [Some(self.0.as_fd()), other].into_iter().flatten();
        let mut files: Vec<PollFd<'_>> = files
            .map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN))
            .collect();
        let timeout = timeout.try_into().ok();
        // The only error is an interruption by a signal.
        let _ = poll(&mut files, timeout.as_ref());
    }

    /// Returns a descriptor that is readable while there are entries.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.0.as_fd().try_clone_to_owned()
    }
}
