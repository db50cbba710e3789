//! All machines with their states, in the order of the overview. Thousands take a part of a
//! second to read and judge: they are read anew at most every other second, not for each page.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use punctual_report::document::{MachineRow, MachineState};

use crate::fleet::Judge;
use crate::missed::ByMachine;
use crate::problem::Problem;
use crate::state::{App, Inner};

/// Fewer machines are read for each page.
const MANY: usize = 1_000;
/// A list of this age is shown as it is.
const FRESH: Duration = Duration::from_secs(2);
/// One of this age is shown while a new one is made; an older one is not shown.
const OLD: Duration = Duration::from_secs(10);

/// All machines.
#[derive(Debug)]
pub(crate) struct Listing {
    /// The worst first, then those that were heard of last.
    pub(crate) rows: Vec<MachineRow>,
    pub(crate) counts: BTreeMap<MachineState, usize>,
    /// Slots without a recording lately.
    pub(crate) missed: Arc<ByMachine>,
}

impl Listing {
    fn of(app: &Inner) -> Result<Self, Problem> {
        let machines = app.collection.machines()?;
        let missed = app.missed.lately(app.collection.as_ref(), &machines)?;
        let judge = Judge::now(app.config.silent_after, &app.worse);
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
        Ok(Self {
            rows,
            counts,
            missed,
        })
    }
}

/// The last list.
#[derive(Debug, Default)]
pub(crate) struct Listings {
    last: Mutex<Option<(Instant, Arc<Listing>)>>,
    /// Whether a new one is being made behind a page.
    is_making: AtomicBool,
}

impl Listings {
    fn keep(&self, at: Instant, listing: Arc<Listing>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((at, listing));
    }

    /// The last list of many machines, with its age.
    fn known(&self) -> Option<(Duration, Arc<Listing>)> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, listing) = last.as_ref()?;
        (listing.rows.len() >= MANY).then(|| (at.elapsed(), Arc::clone(listing)))
    }

    fn make(app: &Inner) -> Result<Arc<Listing>, Problem> {
        let began = Instant::now();
        let listing = Arc::new(Listing::of(app)?);
        app.listings.keep(began, Arc::clone(&listing));
        Ok(listing)
    }
}

/// All machines; of many as they were some seconds ago at most.
///
/// # Errors
/// What reading can fail with.
pub(crate) async fn listing(app: &App) -> Result<Arc<Listing>, Problem> {
    let Some((age, listing)) = app.listings.known().filter(|(age, _)| *age < OLD) else {
        return app.work(Listings::make).await;
    };
    if age > FRESH && !app.listings.is_making.swap(true, Ordering::Relaxed) {
        let app = app.clone();
        tokio::spawn(async move {
            // An error is that of the next page, once the list is old.
            let _ = app.work(Listings::make).await;
            app.listings.is_making.store(false, Ordering::Relaxed);
        });
    }
    Ok(listing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_list_of_many_is_shown_again() {
        let listings = Listings::default();
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
            listings.keep(Instant::now(), Arc::new(listing));
            assert_eq!(listings.known().is_some(), is_shown, "{count}");
        }
    }
}
