//! All machines with their states, in the order of the overview. Reading and judging thousands of
//! machines takes a noticeable time, so it is done at most every two seconds, not for each page.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::{Timestamp, ToSpan};
use punctual_report::document::{MachineRow, MachineState};
use punctual_store::{Collection, MachineDay, StoreError};

use crate::cached::Cached;
use crate::fleet::Judge;
use crate::missed::{self, ByMachine};
use crate::newest::{Newest, NewestRecordings};
use crate::problem::Problem;
use crate::workers::Workers;
use crate::worse::{LastChange, SeriesVerdicts};

/// If there are fewer machines than this, the list is read for each page.
const MANY: usize = 1_000;
/// Up to this age, a list is shown as it is.
const FRESH: Duration = Duration::from_secs(2);
/// Up to this age, a list is shown while a new one is read in the background. Older lists are not
/// shown.
const OLD: Duration = Duration::from_secs(10);

/// Number of days of each machine that are shown, including today (UTC).
pub(crate) const DAYS: i64 = 60;

/// One line of the overview.
#[derive(Clone, Debug)]
pub(crate) struct OverviewRow {
    pub(crate) machine: MachineRow,
    /// The last [`DAYS`] days with recordings, oldest first.
    pub(crate) days: Arc<Vec<MachineDay>>,
    /// Parts of the newest recording that has ended; `None` if it was not read yet.
    pub(crate) newest: Option<Arc<Newest>>,
    /// The last change of the machine; `None` if there is none, or no series.
    pub(crate) change: Option<LastChange>,
}

impl OverviewRow {
    /// Returns vendor and model of the machine, if they are known.
    pub(crate) fn model(&self) -> Option<&str> {
        self.newest.as_ref()?.model.as_deref()
    }
}

/// All machines.
#[derive(Debug)]
pub(crate) struct Listing {
    /// The machines, the most urgent first, then those that became worse, then those with the newest
    /// data.
    pub(crate) rows: Vec<OverviewRow>,
    pub(crate) counts: BTreeMap<MachineState, usize>,
    /// Recent slots without a recording.
    pub(crate) missed: Arc<ByMachine>,
}

/// The last list.
#[derive(Debug, Default)]
struct Last(Mutex<Option<(Instant, Arc<Listing>)>>);

impl Last {
    fn keep(&self, at: Instant, listing: Arc<Listing>) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((at, listing));
    }

    /// Returns the last list of many machines, with its age.
    fn known(&self) -> Option<(Duration, Arc<Listing>)> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, listing) = last.as_ref()?;
        (listing.rows.len() >= MANY).then(|| (at.elapsed(), Arc::clone(listing)))
    }
}

/// Reads and judges all machines, and caches the list.
pub(crate) struct Listings {
    collection: Arc<dyn Collection>,
    workers: Workers,
    worse: Arc<SeriesVerdicts>,
    silent_after: Duration,
    newest: Arc<NewestRecordings>,
    missed: Cached<ByMachine>,
    days: Cached<BTreeMap<String, Arc<Vec<MachineDay>>>>,
    last: Last,
    /// Whether a new list is being read in the background.
    is_making: AtomicBool,
}

impl Listings {
    pub(crate) fn new(
        collection: &Arc<dyn Collection>,
        workers: &Workers,
        worse: &Arc<SeriesVerdicts>,
        newest: &Arc<NewestRecordings>,
        silent_after: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            collection: Arc::clone(collection),
            workers: workers.clone(),
            worse: Arc::clone(worse),
            silent_after,
            newest: Arc::clone(newest),
            missed: Cached::default(),
            days: Cached::default(),
            last: Last::default(),
            is_making: AtomicBool::new(false),
        })
    }

    /// Returns all machines. If there are many, the list may be some seconds old.
    ///
    /// # Errors
    /// Returns an error if reading fails.
    pub(crate) async fn newest(self: &Arc<Self>) -> Result<Arc<Listing>, Problem> {
        let Some((age, listing)) = self.last.known().filter(|(age, _)| *age < OLD) else {
            return self.make().await;
        };
        if age > FRESH && !self.is_making.swap(true, Ordering::Relaxed) {
            let listings = Arc::clone(self);
            tokio::spawn(async move {
                // Once the list is too old, the next page shows the error.
                let _ = listings.make().await;
                listings.is_making.store(false, Ordering::Relaxed);
            });
        }
        Ok(listing)
    }

    async fn make(self: &Arc<Self>) -> Result<Arc<Listing>, Problem> {
        let listings = Arc::clone(self);
        let made = self.workers.work(move || {
            let began = Instant::now();
            let listing = Arc::new(listings.read()?);
            listings.last.keep(began, Arc::clone(&listing));
            Ok(listing)
        });
        made.await
    }

    fn read(&self) -> Result<Listing, Problem> {
        let machines = self.collection.machines()?;
        let collection = self.collection.as_ref();
        let missed = self.missed.get(|| missed::count(collection, &machines))?;
        let days = self.days.get(|| days(collection))?;
        let newest: BTreeMap<&str, Arc<Newest>> =
            self.newest.of(collection, &machines)?.into_iter().collect();
        let changes = self.worse.last_changes();
        let judge = Judge::now(self.silent_after, &self.worse);
        let row = |machine| {
            let row = judge.row(machine);
            OverviewRow {
                days: days.get(&row.name).cloned().unwrap_or_default(),
                newest: newest.get(row.name.as_str()).cloned(),
                change: changes.get(&row.name).cloned(),
                machine: row,
            }
        };
        let mut rows: Vec<OverviewRow> = machines.iter().map(row).collect();
        let worse = |row: &OverviewRow| {
            let change = row.change.as_ref().filter(|change| change.is_worse);
            change.map(|change| change.at)
        };
        rows.sort_by(|one, other| {
            let (a, b) = (&one.machine, &other.machine);
            (a.state.cmp(&b.state))
                .then(worse(other).cmp(&worse(one)))
                .then(b.last_seen.cmp(&a.last_seen))
                .then(a.name.cmp(&b.name))
        });
        let mut counts: BTreeMap<MachineState, usize> = BTreeMap::new();
        for row in &rows {
            *counts.entry(row.machine.state).or_default() += 1;
        }
        Ok(Listing {
            rows,
            counts,
            missed,
        })
    }
}

/// Returns the last [`DAYS`] days of each machine.
fn days(collection: &dyn Collection) -> Result<BTreeMap<String, Arc<Vec<MachineDay>>>, StoreError> {
    let since = Timestamp::now() - (24 * DAYS).hours();
    let days = collection.days(since)?;
    let of_each = days.chunk_by(|a, b| a.machine == b.machine);
    let of_each = of_each.map(|days| (days[0].machine.clone(), Arc::new(days.to_vec())));
    Ok(of_each.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_list_is_kept() {
        let last = Last::default();
        let machine = MachineRow {
            name: "board".to_owned(),
            path: String::new(),
            state: MachineState::Held,
            last_seen: None,
            recordings: 1,
            latest: None,
        };
        let row = OverviewRow {
            machine,
            days: Arc::default(),
            newest: None,
            change: None,
        };
        for (count, is_shown) in [(MANY - 1, false), (MANY, true)] {
            let listing = Listing {
                rows: vec![row.clone(); count],
                counts: BTreeMap::new(),
                missed: Arc::default(),
            };
            last.keep(Instant::now(), Arc::new(listing));
            assert_eq!(last.known().is_some(), is_shown, "{count}");
        }
    }
}
