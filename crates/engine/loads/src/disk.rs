//! `disk`: writes, syncs and removes files.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use punctual_model::{Arguments, Typed, parameters};

use crate::space::MIB;
use crate::workers::{Pace, Shift, Worker, Workers};
use crate::{LoadEntry, LoadError, LoadKind, scratch};

/// The entry of this load.
pub(crate) const ENTRY: LoadEntry = LoadEntry {
    name: "disk",
    summary: "writes, syncs and removes files",
    parameters: PARAMETERS,
    bare: None,
    needs: None,
    kind: LoadKind::Threads,
    build: |arguments| Workers::load("disk", &["bytes written and synced"], plan, arguments),
};

parameters! {
    DIR: Option<String> = Typed::text(
        "dir",
        "Folder to write in; default: $TMPDIR, else /var/tmp",
    );
    THREADS: u64 = Typed::count(
        "threads",
        "Number of threads, each with its own file",
        1..=256,
    ).or("1");
    SIZE: u64 = Typed::count(
        "size",
        "Size of a file in MiB; all files: at most half of the free disk space",
        1..=1 << 20,
    ).or("64");
    SYNC: u64 = Typed::count(
        "sync",
        "MiB written between two syncs; a stop waits for the last sync",
        1..=1024,
    ).or("1");
    RATE: Option<u64> = Typed::count(
        "rate",
        "Maximum write rate of each thread in MB/s; default: unlimited",
        1..=1_000_000,
    );
}

/// Size of one write.
const BLOCK: usize = 64 << 10;

fn plan(arguments: &Arguments, cpus: &[u32]) -> Result<Vec<Worker>, LoadError> {
    let threads = THREADS.value_in(arguments);
    let size = SIZE.value_in(arguments) * MIB;
    let files = Files {
        folder: DIR
            .value_in(arguments)
            .map_or_else(scratch::folder, PathBuf::from),
        size,
        sync: SYNC.value_in(arguments) * MIB,
        all: size * threads,
    };
    files.fit(ENTRY.name)?;
    let rate = RATE.value_in(arguments).map(|mega| mega * 1_000_000);
    Ok((0..threads)
        .map(|_| {
            let files = files.clone();
            Worker::new(cpus, move |shift| files.write(shift, Pace::new(rate)))
        })
        .collect())
}

/// Description of the files that a thread writes.
#[derive(Clone)]
pub(crate) struct Files {
    /// Folder for the files.
    pub(crate) folder: PathBuf,
    /// Size of each file in bytes.
    pub(crate) size: u64,
    /// Bytes written between two syncs.
    pub(crate) sync: u64,
    /// Total size in bytes of the files that exist at one time, over all threads of the load.
    pub(crate) all: u64,
}

impl Files {
    /// Checks that the files fit into the free space, and that files can be created.
    pub(crate) fn fit(&self, load: &'static str) -> Result<(), LoadError> {
        let folder = &self.folder;
        let failed = |source| {
            LoadError::start(
                load,
                format!("cannot write in {}", folder.display()),
                source,
            )
        };
        let usable_bytes = scratch::usable_bytes(folder).map_err(failed)?;
        if self.all > usable_bytes {
            return Err(LoadError::Unfit {
                load,
                why: format!(
                    "{} MiB is more than half of the free space of {}: choose a smaller size",
                    self.all / MIB,
                    folder.display()
                ),
            });
        }
        scratch::nameless_file(folder).map(drop).map_err(failed)
    }

    /// Writes files in a loop. Each file is unlinked on creation, so no file remains, even if the
    /// program is killed.
    pub(crate) fn write(&self, shift: &Shift, mut pace: Pace) -> io::Result<()> {
        let block = vec![0x5a; BLOCK];
        while !shift.stopping() {
            // Other programs also write, so the space that was free at the start may be in use by
            // now. This thread's own file does not exist at this point, so its space counts as
            // free.
            if self.size > scratch::usable_bytes(&self.folder)? {
                return Err(full(&self.folder));
            }
            self.write_one(shift, &mut pace, &block)?;
        }
        Ok(())
    }

    fn write_one(&self, shift: &Shift, pace: &mut Pace, block: &[u8]) -> io::Result<()> {
        let mut file = scratch::nameless_file(&self.folder)?;
        let mut written = 0;
        let mut unsynced = 0;
        while written < self.size && !shift.stopping() {
            let block = &block[..BLOCK.min((self.size - written) as usize)];
            file.write_all(block)?;
            written += block.len() as u64;
            unsynced += block.len() as u64;
            if unsynced >= self.sync || written == self.size {
                file.sync_all()?;
                shift.did(std::mem::take(&mut unsynced));
            }
            pace.after(shift, block.len() as u64);
        }
        Ok(())
    }
}

fn full(folder: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::StorageFull,
        format!("{} is too full now", folder.display()),
    )
}

#[cfg(test)]
mod tests {
    use crate::LoadRequest;

    #[test]
    fn what_does_not_fit_is_refused() {
        let error = |text: &str| {
            let request = text.parse::<LoadRequest>().unwrap();
            request.start().err().unwrap().to_string()
        };
        assert!(error("disk:size=1048576,threads=256").contains("more than half"));
        assert!(error("disk:dir=/no/such/folder").contains("/no/such/folder"));
        assert!(error("disk:dir=/proc").contains("/proc"));
    }
}
