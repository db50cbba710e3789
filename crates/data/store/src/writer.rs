//! Writes a recording while it is being made.

use punctual_files::lease::Lease as Held;
use punctual_model::{
    Accounting, Completion, IntervalRow, Nanos, Outcome, Recording, RecordingId, Sample,
    SamplesKept, Suspension, TopSample,
};
use rusqlite::Connection;

use crate::chunk::{Extent, FULL, Packing, Tail, WriteError, Written};
use crate::entry::{Entry, Summary, remove, still_there};
use crate::error::Context;
use crate::open::Link;
use crate::parts::{
    Lateness, Progress, head_json, head_with_suspensions, write_accounting, write_head,
    write_progress, write_row, write_thread,
};
use crate::{Lease, StoreError, facts, lease, pack, runs, texts};

/// Data measured since the last commit. It becomes visible to others all at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Duration of the measurement so far.
    pub elapsed: Nanos,
    /// Intervals. An interval with the same thread and start as an earlier one replaces it, because
    /// an open interval is written again as it grows.
    pub rows: Vec<IntervalRow>,
    /// Account of each thread so far, by index. If this is empty, the accounts are unchanged.
    pub accounting: Vec<Accounting>,
    /// Lateness of each thread's missed periods, by index; empty if unknown.
    pub lateness: Vec<Lateness>,
    /// Suspensions of the measurement so far; replaces the earlier ones.
    pub suspensions: Vec<Suspension>,
    /// Largest samples so far, in descending order; replaces the earlier ones.
    pub top_samples: Vec<TopSample>,
    /// Number of samples so far that do not belong to any interval ([`punctual_model::Series`]).
    pub dropped: u64,
    /// Warnings. Those that are already stored are not added again.
    pub warnings: Vec<String>,
}

/// Writes one recording while it is being made. Has a separate connection and can move to another
/// thread. If it is dropped without [`finish`](Self::finish), the recording remains running until a
/// sweep finds it.
#[derive(Debug)]
pub struct Writer {
    pub(crate) link: Link,
    pub(crate) key: i64,
    /// The list entry as last committed.
    entry: Entry,
    progress: Progress,
    /// The head as written at the start.
    head: String,
    /// The suspensions in the stored head.
    suspensions: Vec<Suspension>,
    tails: Vec<Tail>,
    pub(crate) packing: Packing,
    /// Shows others that this process is alive; `None` if the lease could not be taken.
    _held: Option<Held>,
}

/// Maximum number of samples, over all threads, that an import holds in memory: 16 MiB. A full
/// chunk for each of many threads would take more.
pub(crate) const HELD: usize = 1 << 20;

impl Writer {
    pub(crate) fn begin(
        link: Link,
        recording: &Recording,
        lease: &Lease,
    ) -> Result<Self, StoreError> {
        let what = format!("recording {}", recording.id);
        texts::check(&link.context.path, what, recording)?;
        link.use_wal()?;
        let outcome = if recording.requirement.limits.is_empty() {
            Outcome::NoRequirement
        } else {
            Outcome::NotDecidable
        };
        let entry = Entry {
            summary: Summary {
                completion: Completion::Running,
                outcome,
                duration_ns: Nanos::ZERO,
                recorded: 0,
                missed: 0,
                max_ns: None,
                p99_ns: None,
                lease: Some(lease.clone()),
                ..Summary::from_recording(recording)
            },
            threads: recording.threads.len() as u64,
            rows: 0,
            chunks: 0,
            samples: 0,
            sample_bytes: 0,
        };
        // The lease must be taken before the recording becomes visible to others.
        let held = lease::take(&link.context.path, recording.id, lease);
        synchronous(&link, Durability::PowerCut)?;
        let head = head_json(recording, recording.samples);
        let key = link.write(|connection, context| {
            let on = |error| context.on(error);
            match Entry::find(connection, recording.id, context) {
                Err(StoreError::NoSuch { .. }) => {}
                Err(error) => return Err(error),
                Ok(_) => {
                    return Err(StoreError::Exists {
                        path: context.path.clone(),
                        id: recording.id,
                    });
                }
            }
            entry.write(connection, None).map_err(on)?;
            let key = connection.last_insert_rowid();
            let parts = || -> rusqlite::Result<()> {
                write_head(connection, key, &head)?;
                write_progress(connection, key, &Progress::default())?;
                for (number, thread) in (0..).zip(&recording.threads) {
                    write_thread(connection, key, number, thread)?;
                }
                Ok(())
            };
            parts().map_err(on)?;
            Ok(key)
        })?;
        synchronous(&link, Durability::Kill)?;
        Ok(Self {
            link,
            key,
            tails: recording.threads.iter().map(|_| Tail::default()).collect(),
            entry,
            progress: Progress::default(),
            head,
            suspensions: recording.suspensions.clone(),
            packing: Packing::of(recording.origin.as_ref()),
            _held: held,
        })
    }

    /// Raises the number of threads to at least this number, because files of other tools only
    /// reveal their threads while they are being read.
    pub fn grow(&mut self, threads: usize) {
        if self.tails.len() < threads {
            self.tails.resize_with(threads, Tail::default);
        }
    }

    /// Returns the ID of the recording.
    pub fn id(&self) -> RecordingId {
        self.entry.summary.id
    }

    /// Commits the data measured since the last commit, including the samples passed so far.
    /// Afterwards, it survives kill -9. It survives a power cut once the kernel has written it out;
    /// forcing that would disturb the machine that is being measured.
    ///
    /// After an error, the store is unchanged, and the same batch can be committed again.
    ///
    /// # Errors
    /// [`StoreError::NoSuchThread`], [`StoreError::OtherThreads`], [`StoreError::NoSuch`] if the
    /// recording was deleted, or any error while writing.
    pub fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.check(batch)?;
        let mut entry = self.entry.clone();
        let summary = &mut entry.summary;
        summary.duration_ns = batch.elapsed;
        if !batch.accounting.is_empty() {
            let mut all = Accounting::default();
            batch.accounting.iter().for_each(|account| all.add(account));
            (summary.recorded, summary.missed) = (all.recorded, all.missed);
        }
        let largest = batch.rows.iter().filter_map(|row| row.max_ns).max();
        summary.max_ns = summary.max_ns.max(largest);
        let progress = self.progress.followed_by(batch);
        let (key, before) = (self.key, &self.progress);
        let head = (batch.suspensions != self.suspensions)
            .then(|| head_with_suspensions(&self.head, &batch.suspensions));
        let tails = (self.tails.as_slice(), self.packing);
        let id = self.id();
        let written = self.link.write(|connection, context| {
            still_there(connection, context, key, id)?;
            let rows = || -> rusqlite::Result<u64> {
                let mut new = 0;
                for row in &batch.rows {
                    new += u64::from(write_row(connection, key, row)?);
                }
                let unknown = Lateness::default();
                let lateness = batch.lateness.iter().chain(std::iter::repeat(&unknown));
                for (number, (account, late)) in (0..).zip(batch.accounting.iter().zip(lateness)) {
                    write_accounting(connection, key, number, account, late)?;
                }
                if let Some(head) = &head {
                    write_head(connection, key, head)?;
                }
                if progress != *before {
                    write_progress(connection, key, &progress)?;
                }
                Ok(new)
            };
            entry.rows += rows().map_err(|error| context.on(error))?;
            let written = write_tails(tails, connection, context, key, Extent::All)?;
            entry.add(&written);
            write_entry(&entry, connection, context, key)?;
            Ok(written)
        })?;
        self.progress = progress;
        self.suspensions.clone_from(&batch.suspensions);
        self.take_over(entry, &written);
        Ok(())
    }

    /// Adds samples of one thread, in the order of measurement. Each time 65,536 samples are
    /// available, they are compressed and written; the next commit writes the rest. Until then, a
    /// sample takes 16 bytes of memory. In an import with many threads, all buffered samples are
    /// written once there are a million of them.
    ///
    /// After an error, the samples are still buffered, and the next call writes them: do not pass
    /// them again.
    ///
    /// # Errors
    /// [`StoreError::NoSuchThread`], or any error while writing.
    pub fn samples(&mut self, thread: u32, samples: &[Sample]) -> Result<(), StoreError> {
        let no_such = self.no_such_thread(thread);
        let tail = self.tails.get_mut(thread as usize).ok_or(no_such)?;
        tail.push(samples);
        if tail.is_full() {
            return self.write_samples(Extent::Full);
        }
        let many = self.packing == Packing::Quick && self.tails.len() > HELD / FULL;
        if many && self.held() >= HELD {
            self.write_samples(Extent::Final)
        } else {
            Ok(())
        }
    }

    /// Returns the number of samples in memory.
    pub(crate) fn held(&self) -> usize {
        self.tails.iter().map(Tail::held).sum()
    }

    /// Writes the remaining samples as final chunks and returns the totals. `dropped` is left at 0
    /// for the caller to fill in.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub fn seal(&mut self) -> Result<SamplesKept, StoreError> {
        self.write_samples(Extent::Final)?;
        Ok(SamplesKept {
            count: self.entry.samples,
            dropped: 0,
            bytes: self.entry.sample_bytes,
        })
    }

    fn write_samples(&mut self, extent: Extent) -> Result<(), StoreError> {
        let mut entry = self.entry.clone();
        let (key, tails) = (self.key, (self.tails.as_slice(), self.packing));
        let id = self.id();
        let written = self.link.write(|connection, context| {
            still_there(connection, context, key, id)?;
            let written = write_tails(tails, connection, context, key, extent)?;
            entry.add(&written);
            write_entry(&entry, connection, context, key)?;
            Ok(written)
        })?;
        self.take_over(entry, &written);
        Ok(())
    }

    /// Ends the recording: writes its current state, with the remaining samples and intervals.
    /// Committed intervals that are not in `recording` are kept. If samples were stored, their
    /// count and size are taken from the store. Once this returns, the recording survives a power
    /// cut.
    ///
    /// # Errors
    /// [`StoreError::NotFinal`] if it is still running, [`StoreError::OtherThreads`],
    /// [`StoreError::NoSuch`] if it is another recording or was deleted, or any error while
    /// writing. Committed data is kept, and is found as an interrupted recording after this process
    /// has ended.
    pub fn finish(self, recording: &Recording) -> Result<(), StoreError> {
        self.check_final(recording)?;
        synchronous(&self.link, Durability::PowerCut)?;
        let mut entry = self.entry.clone();
        entry.summary = Summary::from_recording(recording);
        entry.threads = recording.threads.len() as u64;
        let (key, tails) = (self.key, (self.tails.as_slice(), self.packing));
        self.link.write(|connection, context| {
            let on = |error| context.on(error);
            still_there(connection, context, key, recording.id)?;
            for row in &recording.series.rows {
                entry.rows += u64::from(write_row(connection, key, row).map_err(on)?);
            }
            entry.add(&write_tails(
                tails,
                connection,
                context,
                key,
                Extent::Final,
            )?);
            let wanted = entry.samples > 0 || recording.samples.is_some();
            let samples = wanted.then(|| SamplesKept {
                count: entry.samples,
                dropped: recording.samples.map_or(0, |kept| kept.dropped),
                bytes: entry.sample_bytes,
            });
            entry.summary.samples = wanted;
            let parts = || -> rusqlite::Result<()> {
                let head = facts::take_out(&head_json(recording, samples));
                facts::insert(connection, key, recording)?;
                pack::write(connection, key, &head, &recording.threads)?;
                connection.execute("DELETE FROM progress WHERE recording = ?1", [key])?;
                Ok(())
            };
            parts().map_err(on)?;
            write_entry(&entry, connection, context, key)?;
            runs::write_run(connection, context, key, recording)
        })?;
        // Free the space of small chunks that full ones have replaced.
        self.link.give_space_back();
        Ok(())
    }

    /// Removes the recording from the store.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written. In that case, a later sweep removes an
    /// imported recording, and marks a measured one as interrupted.
    pub fn abandon(self) -> Result<(), StoreError> {
        let (key, id) = (self.key, self.id());
        self.link.write(|connection, context| {
            still_there(connection, context, key, id)?;
            remove(connection, context, key)
        })?;
        self.link.give_space_back();
        Ok(())
    }

    fn take_over(&mut self, entry: Entry, written: &[Written]) {
        self.entry = entry;
        for (tail, written) in self.tails.iter_mut().zip(written) {
            tail.committed(written);
        }
    }

    fn no_such_thread(&self, thread: u32) -> StoreError {
        StoreError::NoSuchThread {
            id: self.id(),
            thread,
            threads: self.tails.len(),
        }
    }

    fn other_threads(&self, now: usize) -> Result<(), StoreError> {
        match self.tails.len() {
            begun if begun == now => Ok(()),
            begun => Err(StoreError::OtherThreads {
                id: self.id(),
                begun,
                now,
            }),
        }
    }

    fn check_rows(&self, rows: &[IntervalRow]) -> Result<(), StoreError> {
        match rows
            .iter()
            .find(|row| row.thread as usize >= self.tails.len())
        {
            Some(row) => Err(self.no_such_thread(row.thread)),
            None => Ok(()),
        }
    }

    fn check(&self, batch: &Batch) -> Result<(), StoreError> {
        self.check_rows(&batch.rows)?;
        if batch.accounting.is_empty() {
            return Ok(());
        }
        self.other_threads(batch.accounting.len())
    }

    fn check_final(&self, recording: &Recording) -> Result<(), StoreError> {
        if recording.id != self.id() {
            return Err(self.link.context.no_such(recording.id));
        }
        if recording.completion == Completion::Running {
            return Err(StoreError::NotFinal { id: recording.id });
        }
        self.other_threads(recording.threads.len())?;
        self.check_rows(&recording.series.rows)
    }
}

impl Progress {
    /// Returns the progress after a batch.
    fn followed_by(&self, batch: &Batch) -> Self {
        let mut warnings = self.warnings.clone();
        for warning in &batch.warnings {
            if !warnings.contains(warning) {
                warnings.push(warning.clone());
            }
        }
        Self {
            largest: batch.top_samples.clone(),
            warnings,
            dropped: batch.dropped,
        }
    }
}

impl Entry {
    fn add(&mut self, written: &[Written]) {
        for written in written {
            self.chunks = self.chunks.saturating_add_signed(written.chunks);
            self.samples = self.samples.saturating_add(written.samples);
            self.sample_bytes = self.sample_bytes.saturating_add_signed(written.bytes);
        }
        self.summary.samples |= self.samples > 0;
    }
}

fn write_tails(
    (tails, packing): (&[Tail], Packing),
    connection: &Connection,
    context: &Context,
    key: i64,
    extent: Extent,
) -> Result<Vec<Written>, StoreError> {
    (0..)
        .zip(tails)
        .map(|(thread, tail)| {
            tail.write(connection, key, thread, extent, packing)
                .map_err(|error| match error {
                    WriteError::Sql(error) => context.on(error),
                    WriteError::Pack(error) => StoreError::Compress {
                        reason: error.to_string(),
                    },
                })
        })
        .collect()
}

fn write_entry(
    entry: &Entry,
    connection: &Connection,
    context: &Context,
    key: i64,
) -> Result<(), StoreError> {
    let written = entry.write(connection, Some(key));
    written.map(drop).map_err(|error| context.on(error))
}

/// Events that committed data survives.
#[derive(Clone, Copy)]
enum Durability {
    /// The program is killed. The kernel has the pages, and writes them out later (`synchronous =
    /// NORMAL`: no fsync on commit).
    Kill,
    /// The machine loses power (`synchronous = FULL`: fsync of the WAL).
    PowerCut,
}

fn synchronous(link: &Link, durability: Durability) -> Result<(), StoreError> {
    let level = match durability {
        Durability::Kill => "normal",
        Durability::PowerCut => "full",
    };
    link.connection
        .pragma_update(None, "synchronous", level)
        .map_err(|error| link.context.on(error))
}
