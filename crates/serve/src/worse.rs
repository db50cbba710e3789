//! Machines that react later than before.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

use punctual_stats::trend::{ChangePoint, Trend};

/// Machines with a worsening that stands unacknowledged, as of the last look.
#[derive(Debug, Default)]
pub(crate) struct Worse(RwLock<BTreeSet<String>>);

impl Worse {
    pub(crate) fn machines(&self) -> BTreeSet<String> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.clone()
    }

    pub(crate) fn set(&self, machines: BTreeSet<String>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = machines;
    }
}

/// Whether a worsening of it stands.
pub(crate) fn is_worse(trend: &Trend) -> bool {
    let mut changes = trend.groups.iter().flat_map(|group| &group.changes);
    changes.any(ChangePoint::is_open_worsening)
}
