//! Lifecycle of every run: begin, poll until it ends, finish, record.
//!
//! Runs differ in their [`Source`]: the threads of a probe, the kernel's events of watched threads,
//! or the memory of an application.

mod machine_counters;
mod outcome;
mod recording_sink;
mod row_log;
mod store_writer;
mod time;
mod view;
mod watcher;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use punctual_host::Host;
use punctual_model::{Completion, CpuSet, Nanos, Recording};
use punctual_probes::Broke;
use punctual_store::{Batch, Store};

use crate::SessionError;
use machine_counters::MachineCounters;
pub use outcome::Outcome;
pub use recording_sink::{LaterStore, RecordingSink};
pub(crate) use row_log::RowLog;
pub(crate) use store_writer::StoreWriter;
pub(crate) use time::{Start, monotonic};
pub use view::{Snapshot, WorkerView};
pub(crate) use view::{largest_of_all, top_samples_of};
pub use watcher::Watcher;

/// Default time between two commits to the store, and between two reports to the watcher.
pub(crate) const REFRESH: Nanos = Nanos::from_millis(500);

/// The state of a run at a poll.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Time since the start.
    pub(crate) elapsed: Nanos,
    /// Whether the run has lasted as long as requested.
    pub(crate) over: bool,
    /// Whether the user has stopped the run.
    pub(crate) stopped: bool,
}

impl Moment {
    /// Returns the completion of a source that may end at any time; `None` if it continues.
    pub(crate) fn completion(&self) -> Option<Completion> {
        if self.stopped {
            Some(Completion::Stopped)
        } else if self.over {
            Some(Completion::Finished)
        } else {
            None
        }
    }
}

/// Start of a run, and the conditions that end it.
pub(crate) struct RunClock<'a> {
    pub(crate) start: Start,
    /// `None` to run until stopped.
    pub(crate) duration: Option<Nanos>,
    pub(crate) stop: &'a AtomicBool,
}

impl RunClock<'_> {
    /// Returns the current state of the run.
    pub(crate) fn moment(&self) -> Moment {
        let elapsed = self.start.elapsed();
        Moment {
            elapsed,
            over: self.duration.is_some_and(|duration| elapsed >= duration),
            stopped: self.stop.load(Ordering::Relaxed),
        }
    }
}

/// Sleeps until the next poll, or until the end of the run if that comes first.
pub(crate) fn sleep_until_poll(interval: Duration, start: Start, duration: Option<Nanos>) {
    let left = duration.map_or(interval, |duration| {
        Duration::from(duration.saturating_sub(start.elapsed()))
    });
    thread::sleep(interval.min(left.max(Duration::from_millis(1))));
}

/// Source of the measurements in a recording.
pub(crate) trait Source {
    /// Returns the start of the run.
    fn start(&self) -> Start;

    /// Returns the planned duration; `None` to run until stopped.
    fn duration(&self) -> Option<Nanos>;

    /// Returns the warnings so far.
    fn warnings(&mut self) -> &mut Vec<String>;

    /// Waits for the next poll.
    fn wait(&mut self, watcher: &dyn Watcher);

    /// Reads new data, and explains new outliers. Returns how the run ended, or `None` if it
    /// continues.
    fn poll(
        &mut self,
        store: &mut StoreWriter<'_>,
        moment: Moment,
    ) -> Result<Option<Completion>, SessionError>;

    /// Updates the set of measured objects, such as new threads, after each report.
    fn refresh(&mut self) -> Result<(), SessionError> {
        Ok(())
    }

    /// Returns the time between two commits to the store.
    fn commit_interval(&self) -> Nanos {
        REFRESH
    }

    /// Returns the time between two reports to the watcher.
    fn report_interval(&self, _watcher: &dyn Watcher) -> Nanos {
        REFRESH
    }

    /// Returns the data that is not yet in the store.
    fn batch(&self, elapsed: Nanos) -> Batch;

    /// Notes that the store now has the last batch.
    fn committed(&mut self);

    /// Reports progress to the watcher.
    fn report(&mut self, watcher: &mut dyn Watcher, elapsed: Nanos);

    /// Returns whether anything was measured. Otherwise, a failed run leaves no recording.
    fn has_measured(&self) -> bool {
        true
    }

    /// Adds the results to the recording. Returns the sample that ended the run.
    fn finish(self, recording: &mut Recording, store: &mut StoreWriter<'_>) -> Option<Broke>;
}

/// Environment of a run.
pub(crate) struct Context<'a> {
    pub(crate) host: &'a Host,
    pub(crate) store: Option<&'a dyn RecordingSink>,
    pub(crate) watcher: &'a mut dyn Watcher,
    pub(crate) stop: &'a AtomicBool,
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        host: &'a Host,
        store: Option<&'a Store>,
        watcher: &'a mut dyn Watcher,
        stop: &'a AtomicBool,
    ) -> Self {
        Self {
            host,
            store: store.map(|store| store as &dyn RecordingSink),
            watcher,
            stop,
        }
    }
}

/// A recording that the store and the watcher have begun.
pub(crate) struct Begun<'a> {
    recording: Recording,
    store: StoreWriter<'a>,
    counters: MachineCounters,
}

impl<'a> Begun<'a> {
    /// Begins the recording, and reads the counters of the machine. `cpus`: CPUs whose interference
    /// belongs to the recording. `quota_pids`: processes whose CPU quotas are checked; if empty,
    /// this process.
    ///
    /// # Errors
    /// Returns an error if the store rejects the recording.
    pub(crate) fn new(
        recording: Recording,
        context: &mut Context<'a>,
        cpus: CpuSet,
        quota_pids: &[u32],
    ) -> Result<Self, SessionError> {
        let store = StoreWriter::begin(context.store, &recording, context.host)?;
        context.watcher.begin(&recording);
        Ok(Self {
            store,
            counters: MachineCounters::begin(context.host, cpus, quota_pids),
            recording,
        })
    }

    /// Polls the source until the run ends, and completes the recording.
    ///
    /// # Errors
    /// Returns the error that ended the run. Measurements made before it remain in the store.
    pub(crate) fn run(
        mut self,
        mut source: impl Source,
        context: &mut Context<'a>,
    ) -> Result<Outcome, SessionError> {
        let ended = poll_until_end(&mut source, &mut self.store, &mut self.counters, context);
        context.watcher.end();
        let elapsed = source.start().elapsed();
        let completion = match ended {
            Ok(completion) => completion,
            Err(error) => {
                commit(&mut source, &mut self.store, elapsed);
                if !source.has_measured() {
                    self.store.take_back(context.store, self.recording);
                }
                return Err(error);
            }
        };
        let mut recording = self.recording;
        let warnings = self.counters.finish(&mut recording, elapsed);
        source.warnings().extend(warnings);
        recording.completion = completion;
        recording.duration_ns = elapsed;
        let broke = source.finish(&mut recording, &mut self.store);
        let store_error = self.store.finish(&recording);
        Ok(Outcome {
            recording,
            store_error,
            broke,
            profile: None,
            changes: Vec::new(),
        })
    }
}

fn poll_until_end(
    source: &mut impl Source,
    store: &mut StoreWriter<'_>,
    counters: &mut MachineCounters,
    context: &mut Context<'_>,
) -> Result<Completion, SessionError> {
    let clock = RunClock {
        start: source.start(),
        duration: source.duration(),
        stop: context.stop,
    };
    let start = clock.start;
    let (mut committed, mut reported) = (start.elapsed(), start.elapsed());
    loop {
        source.wait(context.watcher);
        let moment = clock.moment();
        let elapsed = moment.elapsed;
        let ended = source.poll(store, moment)?;
        counters.poll(elapsed);
        if elapsed >= committed + source.commit_interval() {
            committed = elapsed;
            commit(source, store, elapsed);
        }
        if ended.is_some() || elapsed >= reported + source.report_interval(context.watcher) {
            reported = elapsed;
            source.report(context.watcher, elapsed);
            source.refresh()?;
        }
        if let Some(completion) = ended {
            return Ok(completion);
        }
    }
}

fn commit(source: &mut impl Source, store: &mut StoreWriter<'_>, elapsed: Nanos) {
    if store.is_open() && store.commit(&source.batch(elapsed)) {
        source.committed();
    }
}
