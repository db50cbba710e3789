//! Removes old parts of recordings. A jump of the wall clock cannot delete data, because the
//! decision does not depend on that clock alone. Parts are first marked, and only removed after the
//! machine has been running for another day. A clock jump suspends the removal.

use jiff::{SignedDuration, Timestamp};
use punctual_model::{FromJson, Nanos, ToJson, from_json, to_json};
use punctual_store::{Entered, RetentionLimits, Store, StoreError};
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::plan::Retention;

/// Name of [`Ageing`] in the state of a plan.
const STATE: &str = "ageing";

/// Allowed difference between the progress of the wall clock and of the time since boot, from one
/// check to the next.
const TOLERANCE: SignedDuration = SignedDuration::from_hours(1);

/// Longest plausible time for a machine to be off. A longer gap may be a clock jump.
const OFF: SignedDuration = SignedDuration::from_hours(30 * 24);

/// How long the machine must run between the marking and the removal of parts.
const MARKED: Nanos = Nanos::from_secs(86_400);

/// How long the machine must run without a clock jump until the clock is trusted again.
const STEADY: Nanos = Nanos::from_secs(30 * 86_400);

/// State of the removal for one machine. It is saved in the store for the next start of the
/// service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ageing {
    /// The clocks at the last check.
    seen: Option<ClockReadings>,
    marked: Option<PendingRemoval>,
    suspended: Option<Suspended>,
    /// The limits of the last removal.
    removed: Option<Before>,
}

/// The readings of the clocks at a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ClockReadings {
    wall: Timestamp,
    since_boot: Nanos,
    boot_id: String,
}

/// Time limits: parts of recordings that began earlier are too old. `None` if no part of this kind
/// is too old.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Before {
    samples: Option<Timestamp>,
    traces: Option<Timestamp>,
    rows: Option<Timestamp>,
}

/// Describes which parts are marked, to be removed next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PendingRemoval {
    before: Before,
    /// The last recording in the store when the mark was made.
    last: Option<Entered>,
    /// Running time of the machine since the mark was made.
    ran: Nanos,
}

/// Suspension of the removal, and its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Suspended {
    why: String,
    /// Signed sum of the clock jumps.
    by: SignedDuration,
    /// Running time of the machine since the last jump.
    ran: Nanos,
}

/// The input of a check.
#[derive(Clone, Debug)]
struct View {
    clocks: ClockReadings,
    synchronized: bool,
    /// The last recording in the store, and its start time on the wall clock of its run.
    last: Option<(Entered, Timestamp)>,
}

/// A jump of the clock.
struct Jump {
    by: SignedDuration,
    why: String,
}

impl Before {
    fn new(keep: &Retention, now: Timestamp) -> Self {
        let before = |age: Option<Nanos>| {
            let age = std::time::Duration::from(age?);
            Some(now.checked_sub(age).unwrap_or(Timestamp::MIN))
        };
        Self {
            samples: before(keep.samples),
            traces: before(keep.traces),
            rows: before(keep.rows),
        }
    }

    /// Returns the intersection of the two limits: a part is too old only if both limits say so.
    fn and(self, other: Self) -> Self {
        let both = |a: Option<Timestamp>, b: Option<Timestamp>| Some(a?.min(b?));
        Self {
            samples: both(self.samples, other.samples),
            traces: both(self.traces, other.traces),
            rows: both(self.rows, other.rows),
        }
    }
}

to_json!(Ageing);
from_json!(Ageing);

impl Ageing {
    /// Reads the state of a machine.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn read(store: &Store, machine: &str) -> Result<Self, StoreError> {
        let state = store.plan_state(machine, STATE)?;
        // If another version wrote the state, it is ignored, and the next check starts with an
        // empty state.
        let known = state.and_then(|text| Self::from_json(text.as_bytes()).ok());
        Ok(known.unwrap_or_default())
    }

    /// Checks the clocks and saves the result. Returns the limits for the removal that is due now,
    /// and a line for the log.
    ///
    /// # Errors
    /// Returns the errors of the store.
    pub(crate) fn turn(
        store: &Store,
        (machine, boot_id): (&str, &str),
        clock: &dyn Clock,
        keep: &Retention,
    ) -> Result<(RetentionLimits, Option<String>), StoreError> {
        let mut this = Self::read(store, machine)?;
        let look = View {
            clocks: ClockReadings {
                wall: clock.now(),
                since_boot: clock.since_boot(),
                boot_id: boot_id.to_owned(),
            },
            synchronized: clock.is_synchronized(),
            last: store.last_entered()?,
        };
        let (removed, said) = this.look(&look, keep);
        // Save the state before the removal. If the removal fails, the next mark covers the same
        // recordings.
        store.set_plan_state(machine, STATE, &this.to_json())?;
        let (before, last) = removed.unwrap_or_default();
        let limits = RetentionLimits {
            samples: before.samples,
            traces: before.traces,
            rows: before.rows,
            size: keep.size,
            last,
            now: Some(look.clocks.wall),
        };
        Ok((limits, said))
    }

    /// Describes the state for a user; `None` if nothing is marked or suspended.
    pub fn told(&self) -> Option<String> {
        if let Some(Suspended { why, .. }) = &self.suspended {
            return Some(format!("suspended: {why}"));
        }
        let PendingRemoval { before, ran, .. } = self.marked.as_ref()?;
        let parts = [
            ("samples", before.samples),
            ("traces", before.traces),
            ("rows", before.rows),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter_map(|(what, time)| Some(format!("{what} before {}", time?.strftime("%F"))))
            .collect();
        let hours = MARKED.saturating_sub(*ran).0.div_ceil(3_600_000_000_000);
        (!parts.is_empty()).then(|| {
            format!(
                "marked: {}; to be removed after the machine has run for {hours} h more",
                parts.join(", ")
            )
        })
    }

    /// Returns the time before which trace files have been removed.
    pub fn traces_before(&self) -> Option<Timestamp> {
        match self.suspended {
            Some(_) => None,
            None => self.removed?.traces,
        }
    }

    fn look(
        &mut self,
        look: &View,
        keep: &Retention,
    ) -> (Option<(Before, Option<Entered>)>, Option<String>) {
        let ran = self.ran(&look.clocks);
        let jump = self.jump(look);
        self.seen = Some(look.clocks.clone());
        if let Some(marked) = &mut self.marked {
            marked.ran += ran;
        }
        let said = match jump {
            Some(jump) => self.suspend(jump),
            None => self.resume(look.synchronized, ran),
        };
        if self.suspended.is_some() {
            return (None, said);
        }
        let now = Before::new(keep, look.clocks.wall);
        let due = self.marked.take_if(|marked| marked.ran >= MARKED);
        // Also apply the limits of the current clock and plan, because either may have been wrong
        // when the mark was made.
        let removed = due.map(|marked| (marked.before.and(now), marked.last));
        if let Some((before, _)) = removed {
            self.removed = Some(before);
        }
        self.marked.get_or_insert_with(|| PendingRemoval {
            before: now,
            last: look.last.map(|(entered, _)| entered),
            ran: Nanos::ZERO,
        });
        (removed, said)
    }

    /// Returns the running time of the machine since the last check, as far as it is certain.
    fn ran(&self, now: &ClockReadings) -> Nanos {
        match &self.seen {
            Some(seen) if seen.boot_id == now.boot_id => {
                now.since_boot.saturating_sub(seen.since_boot)
            }
            Some(_) => now.since_boot,
            None => Nanos::ZERO,
        }
    }

    /// Detects a jump since the last check or, at the first check, since the last recording.
    fn jump(&self, look: &View) -> Option<Jump> {
        let now = &look.clocks;
        let (from, most, what) = match (&self.seen, look.last) {
            (Some(seen), _) if seen.boot_id == now.boot_id => (seen.wall, TOLERANCE, ""),
            (Some(seen), _) => (seen.wall, OFF, "the machine was off for a long time, or "),
            (None, Some((_, last))) => (last, OFF, "nothing was recorded for a long time, or "),
            (None, None) => return None,
        };
        let ran = i64::try_from(self.ran(now).0).unwrap_or(i64::MAX);
        let by = now.wall.duration_since(from) - SignedDuration::from_nanos(ran);
        (by > most || by < -TOLERANCE).then(|| Jump {
            by,
            why: format!("{what}the clock jumped from {from:.0} to {:.0}", now.wall),
        })
    }

    fn suspend(&mut self, jump: Jump) -> Option<String> {
        let before = self.suspended.take();
        let by = jump
            .by
            .saturating_add(before.map_or(SignedDuration::ZERO, |one| one.by));
        if by.abs() <= TOLERANCE {
            return Some("removal of old data continues: the clock is correct again".to_owned());
        }
        let said = format!(
            "old data is not removed: {}. Removal starts again when the clock agrees with NTP, \
             returns to its earlier time, or has run for 30 days without a jump",
            jump.why
        );
        self.suspended = Some(Suspended {
            why: jump.why,
            by,
            ran: Nanos::ZERO,
        });
        Some(said)
    }

    fn resume(&mut self, synchronized: bool, ran: Nanos) -> Option<String> {
        let suspended = self.suspended.as_mut()?;
        suspended.ran += ran;
        let why = match (synchronized, suspended.ran >= STEADY) {
            (true, _) => "the clock agrees with NTP",
            (false, true) => "the clock has run for 30 days without a jump",
            (false, false) => return None,
        };
        self.suspended = None;
        Some(format!("removal of old data continues: {why}"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a panic in a test is the report")]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000_000;
    const DAY: i64 = 24;

    /// A machine whose clocks the test sets, checked every hour.
    struct Machine {
        ageing: Ageing,
        wall: Timestamp,
        boot: u64,
        boot_id: &'static str,
        synchronized: bool,
        last: Option<(Entered, Timestamp)>,
        keep: Retention,
    }

    impl Machine {
        fn new() -> Self {
            Self {
                ageing: Ageing::default(),
                wall: "2026-11-26T00:00:00Z".parse().unwrap(),
                boot: 0,
                boot_id: "a",
                synchronized: false,
                last: None,
                keep: Retention {
                    rows: Some(Nanos(100 * 24 * HOUR)),
                    ..Retention::default()
                },
            }
        }

        fn look(&mut self) -> (Option<Timestamp>, Option<String>) {
            let look = View {
                clocks: ClockReadings {
                    wall: self.wall,
                    since_boot: Nanos(self.boot),
                    boot_id: self.boot_id.to_owned(),
                },
                synchronized: self.synchronized,
                last: self.last,
            };
            let (removed, said) = self.ageing.look(&look, &self.keep);
            (removed.and_then(|(before, _)| before.rows), said)
        }

        fn set(&mut self, hours: i64) {
            self.wall += SignedDuration::from_hours(hours);
        }

        fn pass(&mut self, hours: i64) {
            self.set(hours);
            self.boot += hours as u64 * HOUR;
        }

        /// Runs the hourly checks for this number of hours. Returns the removals and log lines.
        fn hours(&mut self, hours: i64) -> (Vec<Timestamp>, Vec<String>) {
            let looks = (0..hours).map(|_| {
                self.pass(1);
                self.look()
            });
            let (removed, said): (Vec<_>, Vec<_>) = looks.unzip();
            (
                removed.into_iter().flatten().collect(),
                said.into_iter().flatten().collect(),
            )
        }
    }

    #[test]
    fn expired_recording_is_marked_then_removed() {
        let mut machine = Machine::new();
        let begun = machine.wall;
        assert_eq!(machine.look(), (None, None));
        assert_eq!(machine.hours(23), (vec![], vec![]));
        assert_eq!(
            machine.ageing.told().unwrap(),
            "marked: rows before 2026-08-18; to be removed after the machine has run for 1 h more"
        );
        let marked = begun - SignedDuration::from_hours(100 * DAY);
        assert_eq!(machine.hours(1), (vec![marked], vec![]));
        // From then on, the removal takes place once a day, even across a reboot. The time during
        // which the machine is off does not count.
        assert_eq!(machine.hours(10), (vec![], vec![]));
        (machine.boot, machine.boot_id) = (0, "b");
        machine.set(20 * DAY);
        assert_eq!(machine.hours(13), (vec![], vec![]));
        let marked = begun + SignedDuration::from_hours(DAY - 100 * DAY);
        assert_eq!(machine.hours(1), (vec![marked], vec![]));
        // A shorter age in the plan also takes effect only after a day.
        machine.keep.rows = Some(Nanos(24 * HOUR));
        let (removed, _) = machine.hours(24);
        assert!(removed[0] < machine.wall - SignedDuration::from_hours(100 * DAY));
    }

    #[test]
    fn a_jump_removes_nothing_and_says_so() {
        for years in [-3, 3, 40] {
            let mut machine = Machine::new();
            machine.look();
            machine.hours(5);
            machine.set(years * 365 * DAY);
            let (removed, said) = machine.hours(29 * DAY);
            assert!(removed.is_empty(), "{years}");
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(
                said[0].starts_with("old data is not removed: the clock jumped from 2026-11-26")
            );
            assert!(machine.ageing.told().unwrap().starts_with("suspended: "));
            // Set the clock back by the same amount.
            machine.set(-years * 365 * DAY);
            let (removed, said) = machine.hours(1);
            assert!(said[0].ends_with("the clock is correct again"), "{said:?}");
            let most = machine.wall - SignedDuration::from_hours(100 * DAY);
            assert!(removed.iter().all(|before| *before <= most));
        }
    }

    #[test]
    fn newest_recording_reveals_an_earlier_clock_jump() {
        let mut machine = Machine::new();
        let entered: Entered = serde_json::from_str("7").unwrap();
        machine.last = Some((
            entered,
            machine.wall - SignedDuration::from_hours(3 * 365 * DAY),
        ));
        let (_, said) = machine.look();
        assert!(
            said.unwrap()
                .contains("nothing was recorded for a long time")
        );
        // New recordings use the same clock, so they prove nothing.
        machine.last = Some((entered, machine.wall));
        assert_eq!(machine.hours(48), (vec![], vec![]));
        machine.synchronized = true;
        let (removed, said) = machine.hours(1);
        assert_eq!((removed.len(), said.len()), (0, 1));
        assert!(said[0].ends_with("agrees with NTP"));
        // After that, parts are marked before they are removed.
        assert!(machine.hours(23).0.is_empty());
        assert_eq!(machine.hours(1).0.len(), 1);
    }

    #[test]
    fn a_jump_at_a_boot_is_seen() {
        let mut machine = Machine::new();
        machine.look();
        machine.hours(30);
        (machine.boot, machine.boot_id) = (0, "b");
        machine.set(31 * DAY);
        assert!(
            machine
                .look()
                .1
                .unwrap()
                .contains("was off for a long time")
        );
        let (removed, said) = machine.hours(30 * DAY);
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("30 days"), "{said:?}");
        assert_eq!(removed.len(), 1, "what was marked before the jump");
        (machine.boot, machine.boot_id) = (0, "c");
        machine.set(-50 * 365 * DAY);
        assert!(
            machine
                .look()
                .1
                .unwrap()
                .contains("old data is not removed")
        );
    }

    #[test]
    fn wrong_clocks_mark_is_checked_after_correction() {
        let mut machine = Machine::new();
        machine.set(3 * 365 * DAY);
        machine.look();
        machine.hours(23);
        machine.set(-3 * 365 * DAY);
        machine.synchronized = true;
        assert!(machine.hours(1).1[0].contains("jumped"));
        let (removed, said) = machine.hours(1);
        assert_eq!(said.len(), 1);
        let most = machine.wall - SignedDuration::from_hours(100 * DAY);
        assert_eq!(removed, [most]);
    }

    #[test]
    fn other_versions_state_is_reset() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("store.db")).unwrap();
        for text in ["", "7", "{\"seen\":{}}", "{}"] {
            store.set_plan_state("machine", STATE, text).unwrap();
            assert_eq!(Ageing::read(&store, "machine").unwrap(), Ageing::default());
        }
    }
}
