//! Executes a plan. Each poll determines which slots are due, and decides whether to run them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use punctual_host::Host;
use punctual_model::{
    LONGEST_NOTE, Nanos, RecordingId, SeriesEpoch, Slot, SlotCause, SlotState, cut_to,
};
use punctual_store::{Aged, Store, StoreError};

use crate::ageing::Ageing;
use crate::clock::Clock;
use crate::plan::{Plan, SeriesPlan};
use crate::schedule::{due_between, next_due};

/// Result of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotEnd {
    /// How the slot ended.
    pub state: SlotState,
    /// Reason why the run did not complete.
    pub reason: Option<String>,
    /// ID of the recording, if any.
    pub recording: Option<RecordingId>,
}

/// Measures slots.
pub trait Runner {
    /// Measures a slot. The store already contains the slot, marked as running. Stores the ID of
    /// the recording in the slot as soon as the recording begins.
    fn run(&mut self, series: &SeriesPlan, epoch: &SeriesEpoch, slot: &Slot) -> SlotEnd;

    /// Writes a line to the log of the service.
    fn say(&mut self, text: &str);

    /// Called on every poll.
    fn turn(&mut self) {}

    /// Called when the service becomes idle after some work.
    fn rest(&mut self) {}
}

/// Identity of the machine that the service runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// ID of the machine; see [`SeriesEpoch::machine`].
    pub id: String,
    /// Host name, if known.
    pub host: Option<String>,
    /// The boot ID.
    pub boot_id: String,
    /// Release and version of the kernel.
    pub kernel: String,
}

impl Machine {
    /// Returns the machine of a host.
    pub fn of(host: &Host) -> Self {
        let facts = host.facts();
        let kernel = &facts.kernel;
        let words = [&kernel.release, &kernel.version].map(|fact| fact.get().cloned());
        Self {
            id: host.machine(),
            host: facts.hostname.get().cloned(),
            boot_id: host.boot_id().unwrap_or_default(),
            kernel: words.into_iter().flatten().collect::<Vec<_>>().join(" "),
        }
    }
}

/// Minimum difference between two clocks that counts as a clock jump or a suspend: drift and the
/// delay of the service cannot explain it.
const JUMP: Nanos = Nanos::from_secs(2);

/// Delay before retrying after an error of the store.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// Interval between checks for old parts of recordings.
const AGE_EVERY: Nanos = Nanos::from_secs(3_600);

/// Maximum wait between two polls if nothing is due.
const IDLE: Duration = Duration::from_secs(3_600);

/// A due slot that has not been decided yet.
#[derive(Clone, Debug)]
struct Pending {
    series: usize,
    due: Timestamp,
    cause: SlotCause,
    /// Reason why the slot has not run so far.
    why: Option<String>,
}

/// The readings of the clocks at a poll.
#[derive(Clone, Copy)]
struct View {
    wall: Timestamp,
    since_boot: Nanos,
    awake: Nanos,
}

/// A service that executes a plan.
pub struct Service<'a> {
    plan: &'a Plan,
    store: &'a Store,
    clock: &'a dyn Clock,
    machine: Machine,
    epochs: Vec<SeriesEpoch>,
    /// Time up to the last computed due time, for each series.
    looked: Vec<Timestamp>,
    /// Whether this service has not polled yet. Before its first poll, no service was running.
    first: bool,
    last: View,
    pending: VecDeque<Pending>,
    /// Time since boot when old parts of recordings were last removed.
    aged: Option<Nanos>,
    /// Series of the last run, which is given as the reason for slots that this run delayed.
    busy: Option<String>,
    /// Error of the store in the last poll, which is given as the reason for slots that it delayed.
    refused: Option<String>,
    /// A slot that has ended, but whose result has not been saved yet because the store failed; and
    /// the index of its series.
    unkept: Option<(usize, Slot)>,
}

impl<'a> Service<'a> {
    /// Starts the service: ends the slots of a killed service, starts a new epoch for each changed
    /// series, and schedules the runs after a boot or a kernel change.
    ///
    /// # Errors
    /// Returns the errors of the store.
    pub fn begin(
        plan: &'a Plan,
        store: &'a Store,
        clock: &'a dyn Clock,
        machine: Machine,
    ) -> Result<Self, StoreError> {
        store.recover_slots(&machine.id)?;
        let now = clock.now();
        let mut service = Self {
            plan,
            store,
            clock,
            epochs: Vec::new(),
            looked: Vec::new(),
            first: true,
            last: look(clock),
            pending: VecDeque::new(),
            aged: None,
            busy: None,
            refused: None,
            unkept: None,
            machine,
        };
        for series in &plan.series {
            let epoch = epoch_of(store, &service.machine, series, now)?;
            // Ignore due times in the future: the clock is wrong, or was wrong then.
            let last = store.last_due(&epoch)?.filter(|last| *last <= now);
            service.looked.push(last.unwrap_or(epoch.begun).min(now));
            service.epochs.push(epoch);
        }
        for place in 0..plan.series.len() {
            service.after_events(place, now)?;
        }
        Ok(service)
    }

    /// Schedules the runs after a boot or a kernel change.
    fn after_events(&mut self, place: usize, now: Timestamp) -> Result<(), StoreError> {
        let series = &self.plan.series[place];
        let events = [
            (
                series.after_kernel_change,
                "kernel",
                self.machine.kernel.clone(),
                SlotCause::KernelChange,
            ),
            (
                series.after_boot,
                "boot",
                self.machine.boot_id.clone(),
                SlotCause::Boot,
            ),
        ];
        let mut due = now;
        for (wanted, word, value, cause) in events {
            let name = format!("{word} {}", series.name);
            let id = &self.machine.id;
            let known = self.store.plan_state(id, &name)?;
            // A new series has no previous state to compare with.
            let changed = known.as_ref().is_some_and(|known| *known != value);
            let slot = self.slot(place, due, cause, SlotState::Running);
            let wanted = wanted && changed && self.pending_extra(place).is_none();
            let added = wanted.then_some(&slot);
            self.store
                .add_slot_and_state(&self.epochs[place], added, (&name, &value))?;
            if wanted {
                self.pending.push_back(Pending {
                    series: place,
                    due,
                    cause,
                    why: None,
                });
                due += Duration::from_nanos(1);
            }
        }
        Ok(())
    }

    fn pending_extra(&self, place: usize) -> Option<&Pending> {
        self.pending.iter().find(|slot| slot.series == place)
    }

    fn slot(&self, place: usize, due: Timestamp, cause: SlotCause, state: SlotState) -> Slot {
        let epoch = &self.epochs[place];
        Slot {
            machine: epoch.machine.clone(),
            series: epoch.name.clone(),
            epoch: epoch.epoch,
            due,
            cause,
            state,
            reason: None,
            recording: None,
        }
    }

    /// Executes the plan until `stop` is set.
    pub fn serve(&mut self, runner: &mut dyn Runner, stop: &AtomicBool) {
        let mut worked = true;
        while !stop.load(Ordering::Relaxed) {
            runner.turn();
            let wait = match self.turn(runner, stop) {
                Ok(wait) => wait,
                Err(error) => {
                    runner.say(&format!("{error}"));
                    TRY_AGAIN
                }
            };
            self.age(runner);
            if wait.is_zero() {
                worked = true;
                continue;
            }
            if std::mem::take(&mut worked) {
                runner.rest();
            }
            self.clock.wait(wait, stop);
        }
    }

    /// Removes the parts of recordings that the plan does not keep, after each run and every hour;
    /// see [`Ageing`]. If the plan keeps everything, this only reserves disk space for deletes.
    pub fn age(&mut self, runner: &mut dyn Runner) {
        let now = self.clock.since_boot();
        let keep = self.plan.keep;
        let recent = |aged: Nanos| now.saturating_sub(aged) < AGE_EVERY && self.busy.is_none();
        if self.aged.is_some_and(recent) {
            return;
        }
        self.aged = Some(now);
        let of = (self.machine.id.as_str(), self.machine.boot_id.as_str());
        let aged = Ageing::turn(self.store, of, self.clock, &keep).and_then(|(limits, said)| {
            said.iter().for_each(|text| runner.say(text));
            self.store.age(&limits)
        });
        match aged {
            Ok(Aged {
                too_large: true, ..
            }) => {
                runner.say(
                    "the store is larger than [keep] size, but the remaining data is never \
                        removed automatically",
                );
            }
            Ok(_) => {}
            Err(error) => runner.say(&format!("old data could not be removed: {error}")),
        }
    }

    /// Checks the schedule and runs at most one slot. Returns the time until the next slot is due,
    /// or zero if there is more to do now.
    ///
    /// # Errors
    /// Returns the errors of the store. A later poll then decides the slot.
    pub fn turn(
        &mut self,
        runner: &mut dyn Runner,
        stop: &AtomicBool,
    ) -> Result<Duration, StoreError> {
        let result = self.try_turn(runner, stop);
        if let Err(error) = &result {
            self.refused = Some(error.to_string());
        }
        result
    }

    fn try_turn(
        &mut self,
        runner: &mut dyn Runner,
        stop: &AtomicBool,
    ) -> Result<Duration, StoreError> {
        // Save a slot that the last poll could not save. Otherwise the store would show it as
        // running.
        if let Some((place, slot)) = &self.unkept {
            self.store.set_slot(&self.epochs[*place], slot)?;
            self.unkept = None;
        }
        self.look()?;
        let Some(pending) = self.pending.front().cloned() else {
            return Ok(self.until_next());
        };
        match self.decide(&pending, runner, stop) {
            Ok(()) => {
                self.pending.pop_front();
                Ok(Duration::ZERO)
            }
            Err(error) => {
                // The error also delays the slots that follow this one.
                for slot in &mut self.pending {
                    slot.why = Some(error.to_string());
                }
                Err(error)
            }
        }
    }

    /// Finds the slots that came due since the last poll.
    fn look(&mut self) -> Result<(), StoreError> {
        let now = look(self.clock);
        let why = self.why_late(now);
        if self.busy.is_some() {
            for slot in &mut self.pending {
                slot.why.get_or_insert_with(|| why.clone());
            }
        }
        let zone = self.clock.zone();
        for place in 0..self.plan.series.len() {
            let series = &self.plan.series[place];
            let from = self.looked[place];
            let (due, cut) = due_between((series, &self.epochs[place]), from, now.wall, &zone);
            if cut && let Some((first, _)) = due.first() {
                self.leave_out(place, *first)?;
            }
            self.take_in(place, due, now.wall, &why)?;
            // Updated only after a successful write, so that a failed write is repeated. If the
            // clock was set back, the store already contains the slots of the repeated time.
            self.looked[place] = now.wall;
        }
        self.pending
            .make_contiguous()
            .sort_by_key(|slot| (slot.due, slot.series));
        (self.first, self.last) = (false, now);
        (self.busy, self.refused) = (None, None);
        Ok(())
    }

    /// Records the slots that are already too late as missed, in one transaction. The others become
    /// pending.
    fn take_in(
        &mut self,
        place: usize,
        due: Vec<(Timestamp, SlotCause)>,
        now: Timestamp,
        why: &str,
    ) -> Result<(), StoreError> {
        let newest = due.last().map(|(due, _)| *due);
        let wait = self.plan.series[place].wait;
        let too_late = |due: Timestamp| Some(due) != newest || late(due, now) > wait;
        let missed: Vec<Slot> = due
            .iter()
            .filter(|(due, _)| too_late(*due))
            .map(|(due, cause)| Slot {
                reason: Some(why.to_owned()),
                ..self.slot(place, *due, *cause, SlotState::Missed)
            })
            .collect();
        if !missed.is_empty() {
            self.store.add_slots(&self.epochs[place], &missed)?;
        }
        let rest = due.into_iter().filter(|(due, _)| !too_late(*due));
        self.pending.extend(rest.map(|(due, cause)| Pending {
            series: place,
            due,
            cause,
            why: None,
        }));
        Ok(())
    }

    /// Adds a single row in place of all slots that are not listed because there are too many of
    /// them.
    fn leave_out(&mut self, place: usize, first: Timestamp) -> Result<(), StoreError> {
        let before = first - Duration::from_nanos(1);
        let slot = Slot {
            reason: Some(
                "earlier slots are not listed, because the clock was wrong by years".to_owned(),
            ),
            ..self.slot(place, before, SlotCause::Every, SlotState::Missed)
        };
        self.store.add_slot(&self.epochs[place], &slot).map(drop)
    }

    /// Returns the reason why slots were not found at the time when they were due.
    fn why_late(&self, now: View) -> String {
        if self.first {
            return "the service was not running".to_owned();
        }
        let passed = now.since_boot.saturating_sub(self.last.since_boot);
        let suspended = passed.saturating_sub(now.awake.saturating_sub(self.last.awake));
        let by_wall = late(self.last.wall, now.wall);
        let ahead = by_wall.saturating_sub(passed);
        match (&self.refused, &self.busy) {
            _ if suspended > JUMP => format!("the machine was suspended for {suspended}"),
            _ if ahead > JUMP => format!("the clock was set forward by {ahead}"),
            (Some(error), _) => error.clone(),
            (None, Some(series)) => format!("series '{series}' was being measured"),
            (None, None) => NOT_RUN.to_owned(),
        }
    }

    fn until_next(&self) -> Duration {
        let now = self.last.wall;
        let zone = self.clock.zone();
        let next = self
            .plan
            .series
            .iter()
            .zip(self.epochs.iter().zip(&self.looked))
            .filter_map(|(series, (epoch, looked))| next_due(series, Some(epoch), *looked, &zone));
        let wait = next.min().map(|next| Duration::from(late(now, next)));
        // Wait for at least 1 ms, because the last due time is not later than now.
        wait.unwrap_or(IDLE).clamp(Duration::from_millis(1), IDLE)
    }

    /// Runs a slot, or records why it does not run.
    fn decide(
        &mut self,
        pending: &Pending,
        runner: &mut dyn Runner,
        stop: &AtomicBool,
    ) -> Result<(), StoreError> {
        let series = &self.plan.series[pending.series];
        let epoch = &self.epochs[pending.series];
        let extra = matches!(pending.cause, SlotCause::Boot | SlotCause::KernelChange);
        let mut slot = self.slot(
            pending.series,
            pending.due,
            pending.cause,
            SlotState::Running,
        );
        let lateness = late(pending.due, self.last.wall);
        if lateness > series.wait && !extra {
            slot.state = SlotState::Missed;
            slot.reason = Some(pending.why.as_deref().unwrap_or(NOT_RUN).to_owned());
            self.store.add_slot(epoch, &slot)?;
            return Ok(());
        }
        // If the slot already exists, it was decided before the clock was set back.
        if !extra && !self.store.add_slot(epoch, &slot)? {
            return Ok(());
        }
        runner.say(&format!(
            "{}: measuring for {}",
            series.name,
            series.length()
        ));
        let end = if stop.load(Ordering::Relaxed) {
            SlotEnd {
                state: SlotState::Interrupted,
                reason: Some(STOPPED.to_owned()),
                recording: None,
            }
        } else {
            runner.run(series, epoch, &slot)
        };
        let reason = end.reason.as_deref();
        let reason = reason
            .map(|reason| format!(": {reason}"))
            .unwrap_or_default();
        runner.say(&format!("{}: {}{reason}", series.name, end.state));
        (slot.state, slot.reason, slot.recording) = (end.state, end.reason, end.recording);
        // The error of a measurement can quote the output of a program, so limit its length.
        slot.reason = slot.reason.map(|reason| cut_to(reason, LONGEST_NOTE));
        self.busy = Some(series.name.clone());
        // If the write fails, the next poll repeats it. After a restart, the service restores the
        // result from the recording.
        if let Err(error) = self.store.set_slot(epoch, &slot) {
            runner.say(&format!("{}: {error}", epoch.name));
            self.unkept = Some((pending.series, slot));
        }
        Ok(())
    }
}

/// Reason for a slot that is late without a known cause.
const NOT_RUN: &str = "the service was not scheduled";

/// Reason for a run that ended because the service ended.
pub(crate) const STOPPED: &str = "the service was stopped";

/// Returns the current epoch of a series of this machine.
///
/// # Errors
/// Returns the errors of the store.
pub fn epoch_of(
    store: &Store,
    machine: &Machine,
    series: &SeriesPlan,
    now: Timestamp,
) -> Result<SeriesEpoch, StoreError> {
    let (id, host) = (&machine.id, machine.host.as_deref());
    store.put_series(id, host, &series.name, &series.definition(), now)
}

fn look(clock: &dyn Clock) -> View {
    View {
        wall: clock.now(),
        since_boot: clock.since_boot(),
        awake: clock.awake(),
    }
}

/// Returns the time from `due` to `now`; zero before `due`.
fn late(due: Timestamp, now: Timestamp) -> Nanos {
    let ns = now.as_nanosecond() - due.as_nanosecond();
    Nanos(u64::try_from(ns.max(0)).unwrap_or(u64::MAX))
}
