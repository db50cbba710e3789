//! All series, judged: read by pages and alerts, made again and again in the background.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;
use punctual_stats::trend::{ChangePoint, Trend};

use crate::trends::{SeriesOf, Trends};

/// A series, or why it cannot be judged.
pub(crate) type Judged = (SeriesOf, Result<Trend, String>);

/// All series at a time.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) at: Timestamp,
    pub(crate) all: Vec<Judged>,
}

/// The last look at all series.
#[derive(Debug, Default)]
pub(crate) struct Worse(RwLock<Option<Arc<Look>>>);

impl Worse {
    /// The last look; `None` before the first one has ended.
    pub(crate) fn last(&self) -> Option<Arc<Look>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.clone()
    }

    /// Machines with a worsening that stands unacknowledged.
    pub(crate) fn machines(&self) -> BTreeSet<String> {
        let last = self.last();
        let all = last.iter().flat_map(|look| &look.all);
        let worse = all.filter(|(_, judged)| judged.as_ref().is_ok_and(is_worse));
        worse.filter_map(|(of, _)| of.machine.clone()).collect()
    }

    /// Judges all series.
    ///
    /// # Errors
    /// The series cannot be listed.
    pub(crate) fn judge(&self, trends: &dyn Trends) -> Result<Arc<Look>, String> {
        let judge = |of: SeriesOf| {
            let judged = trends.trend(&of).map(|(trend, _)| trend);
            (of, judged)
        };
        let look = Arc::new(Look {
            at: Timestamp::now(),
            all: trends.series()?.into_iter().map(judge).collect(),
        });
        self.set(&look);
        Ok(look)
    }

    /// Judges one series again, as after a decision.
    pub(crate) fn judge_again(&self, trends: &dyn Trends, of: &SeriesOf) {
        let Some(last) = self.last() else { return };
        let judged = trends.trend(of).map(|(trend, _)| trend);
        let mut all = last.all.clone();
        if let Some(known) = all.iter_mut().find(|(known, _)| known == of) {
            known.1 = judged;
        }
        self.set(&Arc::new(Look { at: last.at, all }));
    }

    fn set(&self, look: &Arc<Look>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(look));
    }
}

/// Whether a worsening of it stands.
pub(crate) fn is_worse(trend: &Trend) -> bool {
    let mut changes = trend.groups.iter().flat_map(|group| &group.changes);
    changes.any(ChangePoint::is_open_worsening)
}
