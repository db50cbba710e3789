//! The measuring thread: runs batches of each mechanism in turn.

use std::sync::Arc;

use punctual_model::{Nanos, ThreadUsage};
use punctual_rt::{Clock, Error, Instant, MemoryFile, Nanosleep, PeriodicWait, thread_usage};

use super::mechanisms::{After, Memory, Sizes, Way};
use crate::monotonic::now;
use crate::run::end_of;
use crate::usage::add_usage;
use crate::{Control, Recorder, SelfCost, WorkerOutcome};

/// The clock of the samples and of the pauses.
const CLOCK: Clock = Clock::Monotonic;

/// The counts of one mechanism, including those of the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Finding {
    /// Number of batches mapped and touched.
    pub(super) batches: u64,
    /// Number of pages touched.
    pub(super) touches: u64,
    /// Page faults caused by the touches.
    pub(super) minor: u64,
    /// Major faults among these page faults, for which a page was read from disk.
    pub(super) major: u64,
    /// Number of touches after which a whole huge page was present, if known.
    pub(super) whole: Option<u64>,
    /// Time spent on mapping and locking.
    pub(super) ahead: Nanos,
    /// Page faults of mapping and locking.
    pub(super) ahead_minor: u64,
    /// Major faults among these page faults, for which a page was read from disk.
    pub(super) ahead_major: u64,
}

/// The result of the thread.
#[derive(Debug)]
pub(super) struct Brought {
    pub(super) workers: Vec<WorkerOutcome>,
    pub(super) findings: Vec<Finding>,
    pub(super) warnings: Vec<String>,
}

/// The inputs of the measuring thread.
pub(super) struct Worker {
    pub(super) ways: Vec<(Way, Recorder)>,
    pub(super) sizes: Sizes,
    pub(super) interval: Nanos,
    pub(super) duration: Option<Nanos>,
    pub(super) warm_up: Nanos,
    pub(super) control: Arc<Control>,
}

/// The state of one mechanism during the run.
struct Turn {
    way: Way,
    pages: usize,
    recorder: Recorder,
    finding: Finding,
    /// Number of touches expected.
    expected: u64,
    /// Usage of the thread in its turns after the warm-up.
    usage: ThreadUsage,
    /// Reason for the first failure of a batch.
    failure: Option<String>,
    failures: u64,
}

impl Worker {
    pub(super) fn run(self) -> Result<Brought, Error> {
        let control = Arc::clone(&self.control);
        let _entered = control.enter();
        let cost = SelfCost::measure(CLOCK);
        let file = MemoryFile::new(self.sizes.pages)?;
        // The fill byte is not zero, because pages that are only reserved would fault in the loop.
        let mut times = vec![(1, 1); self.sizes.pages.max(self.sizes.huge_pages)];
        let mut sleep = Nanosleep::new(CLOCK)?;
        let mut turns: Vec<Turn> = (self.ways.into_iter())
            .map(|(way, recorder)| Turn::new(way, self.sizes, recorder))
            .collect();
        let start = now();
        let end = end_of(start, self.duration);
        for turn in &mut turns {
            turn.recorder.start(start);
        }
        'run: loop {
            for turn in &mut turns {
                let begun = now();
                if begun >= end || control.stopping() {
                    break 'run;
                }
                turn.take(&mut times, &file, begun, begun >= start + self.warm_up);
                let ended = now();
                // The pause is at least as long as the batch, so that the thread uses at most half
                // of a CPU.
                let until = (ended + self.interval.max(ended - begun)).min(end);
                while !control.stopping() && now() < until {
                    sleep.wait_until(Instant::from_nanos(until.0))?;
                }
            }
        }
        let mut brought = Brought {
            workers: Vec::with_capacity(turns.len()),
            findings: Vec::with_capacity(turns.len()),
            warnings: Vec::new(),
        };
        for turn in turns {
            turn.bring(cost, &mut brought);
        }
        Ok(brought)
    }
}

impl Turn {
    fn new(way: Way, sizes: Sizes, recorder: Recorder) -> Self {
        // With mlock, all memory is present, whether the pages are huge or not. Pages from the pool
        // are always whole.
        let can_tell = way.memory == Memory::HugeAdvised && way.after == After::Nothing;
        Self {
            way,
            pages: sizes.bytes_for(way.memory),
            recorder,
            finding: Finding {
                whole: can_tell.then_some(0),
                ..Finding::default()
            },
            expected: 0,
            usage: ThreadUsage::default(),
            failure: None,
            failures: 0,
        }
    }

    /// Runs one batch of this mechanism.
    fn take(&mut self, times: &mut [(u64, u64)], file: &MemoryFile, begun: Nanos, counted: bool) {
        let (used, found) = (thread_usage(), self.finding);
        self.expected += self.pages as u64;
        match self.touch_all(&mut times[..self.pages], file) {
            Ok(()) => {
                for &(before, after) in &times[..self.pages] {
                    let latency = Nanos(after).signed_sub(Nanos(before));
                    self.recorder.sample(Nanos(before), latency);
                }
            }
            Err(error) => {
                self.recorder.missed(begun, self.pages as u64, Nanos::ZERO);
                self.fail(&error);
            }
        }
        if counted {
            add_usage(&mut self.usage, &used, &thread_usage());
            // The provoked faults are what is measured, and they are in the table. The remaining
            // faults are overhead of the measurement.
            let provoked = |of: fn(&Finding) -> u64| of(&self.finding) - of(&found);
            self.usage.page_faults_minor -= provoked(|f| f.minor + f.ahead_minor);
            self.usage.page_faults_major -= provoked(|f| f.major + f.ahead_major);
        }
    }

    /// Maps pages, touches each of them between two readings of the clock, and unmaps them. If this
    /// returns `Ok`, all times are valid.
    fn touch_all(&mut self, times: &mut [(u64, u64)], file: &MemoryFile) -> Result<(), Error> {
        let treated = self.way.treat_new_mappings()?;
        let (begun, used) = (now(), thread_usage());
        let mut mapping = self.way.map(self.pages, file)?;
        let (mapped, before) = (now(), thread_usage());
        for (page, time) in times.iter_mut().enumerate() {
            let start = CLOCK.now().as_nanos();
            mapping.touch(page);
            *time = (start, CLOCK.now().as_nanos());
        }
        let after = thread_usage();
        let finding = &mut self.finding;
        finding.batches += 1;
        finding.touches += self.pages as u64;
        finding.minor += after.minor_faults - before.minor_faults;
        finding.major += after.major_faults - before.major_faults;
        finding.ahead += mapped - begun;
        finding.ahead_minor += before.minor_faults - used.minor_faults;
        finding.ahead_major += before.major_faults - used.major_faults;
        if let Some(whole) = &mut finding.whole {
            for page in 0..self.pages {
                *whole += u64::from(mapping.is_whole(page)?);
            }
        }
        // Unmap the memory before restoring the previous treatment, because restoring also affects
        // mapped memory.
        drop(mapping);
        if let Err(error) = treated.restore() {
            self.fail(&error);
        }
        Ok(())
    }

    #[cold]
    fn fail(&mut self, error: &Error) {
        self.failures += 1;
        self.failure.get_or_insert_with(|| error.to_string());
    }

    fn bring(self, cost: SelfCost, brought: &mut Brought) {
        let label = self.way.label();
        if let Some(failure) = self.failure {
            brought.warnings.push(format!(
                "{label}: {} of the batches failed; the first failed because {failure}",
                self.failures
            ));
        }
        if let Some(whole) = self.finding.whole
            && whole < self.finding.touches
        {
            brought.warnings.push(format!(
                "{label}: only {whole} of {} touches got a huge page, because the kernel could \
                 not allocate more huge pages",
                self.finding.touches
            ));
        }
        let mut outcome = self.recorder.finish(self.expected, cost);
        // All mechanisms share the thread, so its usage is divided among them here.
        outcome.usage = self.usage;
        brought.workers.push(outcome);
        brought.findings.push(self.finding);
    }
}
