//! Carries a plan out: decides at each turn which slots are due, and what becomes of them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use punctual_model::{Nanos, RecordingId, SeriesEpoch, Slot, SlotCause, SlotState};
use punctual_store::{Aged, Store, StoreError};

use crate::ageing::Ageing;
use crate::clock::Clock;
use crate::plan::{Plan, SeriesPlan};
use crate::schedule::{due_between, next_due};

/// How a slot ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotEnd {
    /// What became of it.
    pub state: SlotState,
    /// Why it did not come to its end.
    pub reason: Option<String>,
    /// Its recording.
    pub recording: Option<RecordingId>,
}

/// Measures a slot.
pub trait Runner {
    /// Measures; `slot` is in the store as running. A recording that begins is noted there
    /// at once.
    fn run(&mut self, series: &SeriesPlan, epoch: &SeriesEpoch, slot: &Slot) -> SlotEnd;

    /// What the service says: a line for its log.
    fn say(&mut self, text: &str);

    /// Called at each turn.
    fn turn(&mut self) {}

    /// Called when there is nothing to do for a while, after the work that was done.
    fn rest(&mut self) {}
}

/// What a service knows of the machine that it runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// As in [`SeriesEpoch::machine`].
    pub id: String,
    /// Its name.
    pub host: Option<String>,
    /// The boot.
    pub boot_id: String,
    /// Release and version of the kernel.
    pub kernel: String,
}

/// A jump of a clock that is more than its rate and our delay can make.
const JUMP: Nanos = Nanos::from_secs(2);

/// How long after an error of the store it is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// How often is looked for what is too old.
const AGE_EVERY: Nanos = Nanos::from_secs(3_600);

/// The longest wait between two turns without anything due.
const IDLE: Duration = Duration::from_secs(3_600);

/// A slot that is due and not decided.
#[derive(Clone, Debug)]
struct Pending {
    series: usize,
    due: Timestamp,
    cause: SlotCause,
    /// What kept it from running so far.
    why: Option<String>,
}

/// The clocks as they were at a turn.
#[derive(Clone, Copy)]
struct Look {
    wall: Timestamp,
    since_boot: Nanos,
    awake: Nanos,
}

/// A service that carries a plan out.
pub struct Service<'a> {
    plan: &'a Plan,
    store: &'a Store,
    clock: &'a dyn Clock,
    machine: Machine,
    epochs: Vec<SeriesEpoch>,
    /// Up to when the due times of each series are known.
    looked: Vec<Timestamp>,
    /// Whether the time until the first look was without a service.
    first: bool,
    last: Look,
    pending: VecDeque<Pending>,
    /// When parts of recordings aged out last, since boot.
    aged: Option<Nanos>,
    /// The last run, for the reason of those that it kept from running.
    busy: Option<String>,
    /// What the store refused in the last turn, for the same.
    refused: Option<String>,
    /// A slot that ended, where the store refused to keep how.
    unkept: Option<(usize, Slot)>,
}

impl<'a> Service<'a> {
    /// Begins to serve: slots of a program that was killed end, series that changed get a
    /// new epoch, and runs after a boot or a change of the kernel are due.
    ///
    /// # Errors
    /// What the store refuses.
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
            // Later than now: the clock was wrong, or is.
            let last = store.last_due(&epoch)?.filter(|last| *last <= now);
            service.looked.push(last.unwrap_or(epoch.begun).min(now));
            service.epochs.push(epoch);
        }
        for place in 0..plan.series.len() {
            service.after_events(place, now)?;
        }
        Ok(service)
    }

    /// What is due because the machine booted, or has another kernel.
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
            // A series that is new has nothing to be compared with.
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

    /// Serves until `stop` is set.
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

    /// Lets age out what the plan does not keep, see [`Ageing`]: after each run, and every
    /// hour. Where it keeps all, this only keeps room on the disk for deletes.
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
                runner.say("the store is larger than [keep] size: what is left does not age");
            }
            Ok(_) => {}
            Err(error) => runner.say(&format!("what is too old could not be removed: {error}")),
        }
    }

    /// Looks what is due, and carries one slot out at most. Returns how long nothing is
    /// due; zero: there is more to do.
    ///
    /// # Errors
    /// What the store refuses; the slot is still to be decided then.
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
        // A slot that is over must not stay there as running.
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
                // Those behind it wait for the same.
                for slot in &mut self.pending {
                    slot.why = Some(error.to_string());
                }
                Err(error)
            }
        }
    }

    /// Finds what came due since the last look.
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
            let (due, cut) = due_between(series, from, now.wall, &zone);
            if cut && let Some((first, _)) = due.first() {
                self.leave_out(place, *first)?;
            }
            self.take_in(place, due, now.wall, &why)?;
            // Set back: what came due then is in the store already. Not before it is kept:
            // where the store refuses, it is looked for again.
            self.looked[place] = now.wall;
        }
        self.pending
            .make_contiguous()
            .sort_by_key(|slot| (slot.due, slot.series));
        (self.first, self.last) = (false, now);
        (self.busy, self.refused) = (None, None);
        Ok(())
    }

    /// Those that are too late are missed at once, in one transaction; the rest is
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

    /// One row for all that are too many to be listed.
    fn leave_out(&mut self, place: usize, first: Timestamp) -> Result<(), StoreError> {
        let before = first - Duration::from_nanos(1);
        let slot = Slot {
            reason: Some("earlier slots are not listed: the clock was wrong by years".to_owned()),
            ..self.slot(place, before, SlotCause::Every, SlotState::Missed)
        };
        self.store.add_slot(&self.epochs[place], &slot).map(drop)
    }

    /// Why what is due now was not seen earlier.
    fn why_late(&self, now: Look) -> String {
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
            .zip(&self.looked)
            .filter_map(|(series, looked)| next_due(series, *looked, &zone));
        let wait = next.min().map(|next| Duration::from(late(now, next)));
        // A moment at least: the last due time is not later than now.
        wait.unwrap_or(IDLE).clamp(Duration::from_millis(1), IDLE)
    }

    /// Runs a slot, or says why not.
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
        // One that is there was decided before the clock was set back.
        if !extra && !self.store.add_slot(epoch, &slot)? {
            return Ok(());
        }
        runner.say(&format!(
            "{}: measuring for {}",
            series.name,
            series.length()
        ));
        let end = match stop.load(Ordering::Relaxed) {
            true => SlotEnd {
                state: SlotState::Interrupted,
                reason: Some(STOPPED.to_owned()),
                recording: None,
            },
            false => runner.run(series, epoch, &slot),
        };
        let reason = end.reason.as_deref();
        let reason = reason
            .map(|reason| format!(": {reason}"))
            .unwrap_or_default();
        runner.say(&format!("{}: {}{reason}", series.name, end.state));
        (slot.state, slot.reason, slot.recording) = (end.state, end.reason, end.recording);
        self.busy = Some(series.name.clone());
        // Where this fails it is kept before anything else is done; or at the next start of
        // the service, by its recording.
        if let Err(error) = self.store.set_slot(epoch, &slot) {
            runner.say(&format!("{}: {error}", epoch.name));
            self.unkept = Some((pending.series, slot));
        }
        Ok(())
    }
}

/// The reason of a slot that was late without a known reason.
const NOT_RUN: &str = "the service did not get to run";

/// The reason of a run that the end of the service ended.
pub(crate) const STOPPED: &str = "the service was stopped";

/// The current epoch of a series of this machine.
///
/// # Errors
/// What the store refuses.
pub fn epoch_of(
    store: &Store,
    machine: &Machine,
    series: &SeriesPlan,
    now: Timestamp,
) -> Result<SeriesEpoch, StoreError> {
    let (id, host) = (&machine.id, machine.host.as_deref());
    store.put_series(id, host, &series.name, &series.definition(), now)
}

fn look(clock: &dyn Clock) -> Look {
    Look {
        wall: clock.now(),
        since_boot: clock.since_boot(),
        awake: clock.awake(),
    }
}

/// How long after `due` it is; zero before.
fn late(due: Timestamp, now: Timestamp) -> Nanos {
    let ns = now.as_nanosecond() - due.as_nanosecond();
    Nanos(u64::try_from(ns.max(0)).unwrap_or(u64::MAX))
}
