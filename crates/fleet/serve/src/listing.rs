//! All machines with their states, in the order of the overview. Reading and judging thousands of
//! machines takes a noticeable time, so it is done at most every two seconds, not for each page.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use punctual_report::document::{MachineRow, MachineState};
use punctual_store::Collection;

use crate::fleet::Judge;
use crate::missed::{ByMachine, Missed};
use crate::problem::Problem;
use crate::workers::Workers;
use crate::worse::SeriesVerdicts;

/// If there are fewer machines than this, the list is read for each page.
const MANY: usize = 1_000;
/// Up to this age, a list is shown as it is.
const FRESH: Duration = Duration::from_secs(2);
/// Up to this age, a list is shown while a new one is read in the background. Older lists are not
/// shown.
const OLD: Duration = Duration::from_secs(10);

/// All machines.
#[derive(Debug)]
pub(crate) struct Listing {
    /// The machines, the most urgent first, then those with the newest data.
    pub(crate) rows: Vec<MachineRow>,
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
    missed: Missed,
    last: Last,
    /// Whether a new list is being read in the background.
    is_making: AtomicBool,
}

impl Listings {
    pub(crate) fn new(
        collection: &Arc<dyn Collection>,
        workers: &Workers,
        worse: &Arc<SeriesVerdicts>,
        silent_after: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            collection: Arc::clone(collection),
            workers: workers.clone(),
            worse: Arc::clone(worse),
            silent_after,
            missed: Missed::default(),
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
        let missed = self.missed.lately(self.collection.as_ref(), &machines)?;
        let judge = Judge::now(self.silent_after, &self.worse);
        let mut rows: Vec<MachineRow> = machines.iter().map(|one| judge.row(one)).collect();
        rows.sort_by(|a, b| {
            (a.state.cmp(&b.state))
                .then(b.last_seen.cmp(&a.last_seen))
                .then(a.name.cmp(&b.name))
        });
        let mut counts: BTreeMap<MachineState, usize> = BTreeMap::new();
        for row in &rows {
            *counts.entry(row.state).or_default() += 1;
        }
        Ok(Listing {
            rows,
            counts,
            missed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_list_is_kept() {
        let last = Last::default();
        let row = MachineRow {
            name: "board".to_owned(),
            path: String::new(),
            state: MachineState::Held,
            last_seen: None,
            recordings: 1,
            latest: None,
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
