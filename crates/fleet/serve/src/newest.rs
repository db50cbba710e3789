//! Claims, limit and model of the newest recording of each machine, for pages and metrics.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use punctual_model::{Claim, Completion, Metric, Nanos, Recording, RecordingId};
use punctual_store::{Collection, Machine, StoreError};

/// Maximum number of recordings that are loaded for one request, because each is read whole. The
/// recordings of the other machines follow with the next requests.
const LOADED: usize = 100;

/// Parts of a recording.
#[derive(Debug, Default)]
pub(crate) struct Newest {
    pub(crate) claims: Arc<Vec<Claim>>,
    /// The largest latency that the requirement permits; `None` without such a limit.
    pub(crate) limit: Option<Nanos>,
    /// Vendor and model of the machine; `None` if unknown.
    pub(crate) model: Option<String>,
}

impl Newest {
    fn of(recording: &Recording) -> Self {
        let budget = recording.periodic().map(|periodic| periodic.budget_ns);
        let limits = &recording.requirement.limits;
        let max = limits.iter().find(|limit| limit.metric == Metric::Max);
        let model = recording.host.virtualisation.machine.value.clone();
        Self {
            claims: Arc::new(recording.claims()),
            limit: budget.or_else(|| max.map(|limit| Nanos(limit.at_most))),
            model: model.filter(|model| !model.is_empty()),
        }
    }
}

/// The newest recordings, by ID.
#[derive(Default)]
pub(crate) struct NewestRecordings(Mutex<HashMap<RecordingId, Arc<Newest>>>);

impl NewestRecordings {
    /// Returns each machine whose newest recording has ended, with parts of that recording.
    pub(crate) fn of<'a>(
        &self,
        collection: &dyn Collection,
        machines: &'a [Machine],
    ) -> Result<Vec<(&'a str, Arc<Newest>)>, StoreError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = machines.iter().filter_map(|machine| {
            let latest = machine.latest.as_ref()?;
            let has_ended = latest.completion != Completion::Running;
            has_ended.then_some((machine.name.as_str(), latest.id))
        });
        let mut kept = HashMap::new();
        let (mut all, mut loaded) = (Vec::new(), 0);
        for (name, id) in ended {
            let newest = match known.remove(&id) {
                Some(newest) => newest,
                None if loaded == LOADED => continue,
                None => {
                    loaded += 1;
                    Arc::new(Newest::of(&collection.load(id)?.1))
                }
            };
            kept.insert(id, Arc::clone(&newest));
            all.push((name, newest));
        }
        *known = kept;
        Ok(all)
    }
}
