//! Watches all wake-ups in consecutive windows. BPF programs count them in the kernel, because a
//! trace event for each wake-up would cost more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use punctual_host::Host;
use punctual_model::{
    Nanos, PriorityClass, SeriesEpoch, Slot, SlotCause, SlotState, WaitHistogram, WakeWindow,
    WakeupAxis, WakeupSource, Wakeups,
};
use punctual_session::{WakeupRequest, WakeupSession};
use punctual_store::{Store, StoreError};
use serde_json::json;

use crate::clock::Clock;
use crate::plan::WatchPlan;
use crate::service::Machine;

/// Number of longest waits kept for each window.
const WORST: usize = 8;

/// Interval between checks for a request to end the window, and between publications.
const LOOK: Duration = Duration::from_secs(1);

/// Name of the series that contains the windows.
pub const WATCH_SERIES: &str = "watch";

/// Configuration of the watch.
pub struct Watching<'a> {
    /// The store for the windows.
    pub store: &'a Store,
    /// The machine.
    pub machine: &'a Machine,
    /// The plan. Windows begin at multiples of their length.
    pub plan: &'a WatchPlan,
    /// The machine's facts and control groups.
    pub host: &'a Host,
    /// Publishes the wake-ups since the start; `None` if the plan does not request it.
    pub publish: Option<&'a dyn Fn(&Wakeups)>,
    /// The clocks.
    pub clock: &'a dyn Clock,
    /// Set to `true` to end the watch.
    pub stop: &'a AtomicBool,
    /// Set to `true` to end the current window at once. It is then cleared.
    pub close: &'a AtomicBool,
    /// Called once the BPF programs of a window are loaded, to release the memory that loading used
    /// and that is not needed while waiting.
    pub rest: &'a dyn Fn(),
}

impl Watching<'_> {
    /// Watches until `stop` is set. A window that cannot be watched is stored as a slot with the
    /// reason. Changes of state go to `log`.
    pub fn watch(&self, log: &mut dyn FnMut(&str)) {
        let mut said = String::new();
        let mut total = None;
        while !self.stop.load(Ordering::Relaxed) {
            let start = self.clock.now();
            let result = match self.one(start, &mut total) {
                Ok(None) => String::new(),
                Ok(Some(refused)) => {
                    let kept = self.refuse(start, &refused);
                    self.wait_for_end(start, &mut || {});
                    kept.map_or_else(|error| error.to_string(), |()| refused)
                }
                Err(error) => {
                    self.wait_for_end(start, &mut || {});
                    error.to_string()
                }
            };
            if result != said && !result.is_empty() {
                log(&format!("{WATCH_SERIES}: {result}"));
            }
            said = result;
        }
    }

    /// Watches one window, and adds it to the total. Returns the reason if it cannot be watched.
    fn one(
        &self,
        start: Timestamp,
        total: &mut Option<Wakeups>,
    ) -> Result<Option<String>, StoreError> {
        let began = self.clock.since_boot();
        let is_published_by = |axis| self.publish.is_some() && self.plan.by.contains(&axis);
        let request = WakeupRequest {
            by_comm: is_published_by(WakeupAxis::Comm),
            by_group: is_published_by(WakeupAxis::Group),
            group: None,
            real_time_only: false,
            longest: WORST,
            source: Some(WakeupSource::Bpf),
        };
        let mut session = match WakeupSession::start(&request, self.host) {
            Ok(session) => session,
            Err(error) => return Ok(Some(error.to_string())),
        };
        (self.rest)();
        self.wait_for_end(start, &mut || {
            // An error occurs again at the end of the window, and is then reported.
            if let (Some(publish), Ok(())) = (self.publish, session.keep_up())
                && let Ok(seen) = session.read()
            {
                publish(&sum(total.as_ref(), &seen));
            }
        });
        let seen = session.read();
        let length = self.clock.since_boot().saturating_sub(began);
        // Even if this fails, the programs end when their descriptors are closed.
        let stopped = session.stop().map_err(|error| error.to_string());
        match (seen, stopped) {
            (Err(error), _) => Ok(Some(error.to_string())),
            (Ok(seen), stopped) => {
                let window = window_of(&self.machine.id, start, length, &seen);
                if self.publish.is_some() {
                    *total = Some(sum(total.as_ref(), &seen));
                }
                self.store.add_wake_window(&window)?;
                Ok(stopped.err())
            }
        }
    }

    /// Waits for the end of the window that contains `start`, and calls `each_look` at each check.
    fn wait_for_end(&self, start: Timestamp, each_look: &mut dyn FnMut()) {
        let window = i128::from(self.plan.window.0.max(1));
        let end = (start.as_nanosecond().div_euclid(window) + 1) * window;
        while !self.stop.load(Ordering::Relaxed) && !self.close.swap(false, Ordering::Relaxed) {
            let now = self.clock.now().as_nanosecond();
            // If the clock was set back, end the window now, because it could otherwise last for
            // hours.
            if now >= end || now < start.as_nanosecond() {
                return;
            }
            each_look();
            let left = Duration::from_nanos(u64::try_from(end - now).unwrap_or_default());
            self.clock.wait(left.min(LOOK), self.stop);
        }
    }

    fn refuse(&self, start: Timestamp, reason: &str) -> Result<(), StoreError> {
        let definition = json!({"window_ns": self.plan.window}).to_string();
        let epoch: SeriesEpoch = self.store.put_series(
            &self.machine.id,
            self.machine.host.as_deref(),
            WATCH_SERIES,
            &definition,
            start,
        )?;
        let slot = Slot {
            machine: epoch.machine.clone(),
            series: epoch.name.clone(),
            epoch: epoch.epoch,
            due: start,
            cause: SlotCause::Watch,
            state: SlotState::Refused,
            reason: Some(reason.to_owned()),
            recording: None,
        };
        self.store.add_slot(&epoch, &slot).map(drop)
    }
}

/// Returns the sum of the earlier windows and the current one.
fn sum(total: Option<&Wakeups>, seen: &Wakeups) -> Wakeups {
    let mut sum = total.cloned();
    if let Some(sum) = &mut sum {
        sum.add_next(seen);
    }
    sum.unwrap_or_else(|| seen.clone())
}

/// Converts the counted wake-ups to a window.
fn window_of(machine: &str, start: Timestamp, length: Nanos, seen: &Wakeups) -> WakeWindow {
    let (mut real_time, mut ordinary) = (WaitHistogram::new(), WaitHistogram::new());
    for row in &seen.rows {
        match row.class {
            PriorityClass::Deadline | PriorityClass::RealTime => real_time.merge(&row.waits),
            PriorityClass::Fair | PriorityClass::Idle => ordinary.merge(&row.waits),
        }
    }
    WakeWindow {
        machine: machine.to_owned(),
        start,
        length_ns: length,
        real_time,
        ordinary,
        longest: seen.longest.clone(),
        lost: seen.lost.saturating_add(seen.events_lost),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::{WakeupRow, WakeupSource};

    #[test]
    fn window_sums_real_time_and_ordinary_threads() {
        let row = |cpu, class, wait| {
            let mut waits = WaitHistogram::new();
            waits.record(Nanos(wait));
            WakeupRow {
                cpu,
                class,
                comm: None,
                group: None,
                held_ns: Nanos::ZERO,
                waits,
            }
        };
        let seen = Wakeups {
            source: WakeupSource::Bpf,
            not_bpf: None,
            elapsed_ns: Nanos(1),
            rows: vec![
                row(0, PriorityClass::Deadline, 10),
                row(1, PriorityClass::RealTime, 30),
                row(0, PriorityClass::Fair, 500),
                row(1, PriorityClass::Idle, 700),
            ],
            longest: Vec::new(),
            open: Vec::new(),
            lost: 2,
            unnamed: 0,
            events_lost: 0,
        };
        let window = window_of("m", Timestamp::UNIX_EPOCH, Nanos(9), &seen);
        assert_eq!(
            (window.real_time.count, window.real_time.max_ns),
            (2, Nanos(30))
        );
        assert_eq!(
            (window.ordinary.count, window.ordinary.max_ns),
            (2, Nanos(700))
        );
        assert_eq!((window.lost, window.length_ns), (2, Nanos(9)));
    }
}
