//! The claims of the newest recording of each machine.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use punctual_model::{Claim, Completion, Outcome, RecordingId};
use punctual_store::{Collection, Machine, StoreError};

/// Maximum number of recordings that are loaded for one request, because each is read whole. The
/// claims of the other machines follow with the next requests.
const LOADED: usize = 100;

/// A machine, and the claims of its newest recording.
pub(crate) type Claimed<'a> = (&'a str, Arc<Vec<Claim>>);

/// The claims of the newest recordings, by recording.
#[derive(Default)]
pub(crate) struct LatestClaims(Mutex<HashMap<RecordingId, Arc<Vec<Claim>>>>);

impl LatestClaims {
    /// Returns the claims of the newest recording of each machine that has some.
    pub(crate) fn of<'a>(
        &self,
        collection: &dyn Collection,
        machines: &'a [Machine],
    ) -> Result<Vec<Claimed<'a>>, StoreError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let judged = machines.iter().filter_map(|machine| {
            let latest = machine.latest.as_ref()?;
            let is_judged = latest.outcome != Outcome::NoRequirement
                && latest.completion != Completion::Running;
            is_judged.then_some((machine.name.as_str(), latest.id))
        });
        let mut kept = HashMap::new();
        let (mut all, mut loaded) = (Vec::new(), 0);
        for (name, id) in judged {
            let claims = match known.remove(&id) {
                Some(claims) => claims,
                None if loaded == LOADED => continue,
                None => {
                    loaded += 1;
                    Arc::new(collection.load(id)?.1.claims())
                }
            };
            kept.insert(id, Arc::clone(&claims));
            all.push((name, claims));
        }
        *known = kept;
        Ok(all)
    }
}
