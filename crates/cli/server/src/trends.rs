//! The series of a collection, for the pages of the server.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual_history::{HistoryError, ProofQuery, Series, decide, prove_newest};
use punctual_model::{Nanos, Note, RecordingId, SeriesProof};
use punctual_serve::SourceError;
use punctual_serve::trends::{Decided, Noted, SeriesOf, Trends};
use punctual_stats::trend::{Run as TrendRun, Trend, TrendQuery};
use punctual_store::Collection;

/// The series of the store.
pub(crate) struct StoredTrends {
    pub(crate) collection: Arc<dyn Collection>,
}

impl StoredTrends {
    fn judged(
        &self,
        of: &SeriesOf,
        threshold_ns: Option<Nanos>,
    ) -> Result<(Trend, Vec<TrendRun>), HistoryError> {
        let query = TrendQuery {
            threshold_ns,
            ..query_of(of)
        };
        let series = Series::load(self.collection.as_ref(), Some(&of.series), &query)?;
        Ok((series.trend(&query), series.runs))
    }
}

fn query_of(of: &SeriesOf) -> TrendQuery {
    TrendQuery {
        host: of.machine.clone(),
        ..TrendQuery::default()
    }
}

impl Trends for StoredTrends {
    fn series(&self) -> Result<Vec<SeriesOf>, SourceError> {
        let epochs = self.collection.series()?.into_iter();
        let all: BTreeSet<SeriesOf> = epochs
            .map(|epoch| SeriesOf {
                series: epoch.name,
                machine: epoch.host,
            })
            .collect();
        Ok(all.into_iter().collect())
    }

    fn trend(&self, of: &SeriesOf) -> Result<(Trend, Vec<TrendRun>), SourceError> {
        self.judged(of, None).map_err(SourceError::new)
    }

    fn runs(&self, of: &SeriesOf) -> Result<Vec<TrendRun>, SourceError> {
        let store = self.collection.as_ref();
        let series = Series::load(store, Some(&of.series), &query_of(of));
        Ok(series.map_err(SourceError::new)?.runs)
    }

    fn proof(&self, of: &SeriesOf) -> Result<Option<SeriesProof>, SourceError> {
        let query = ProofQuery {
            host: of.machine.clone(),
            at: None,
            now: jiff::Timestamp::now(),
            max_late_seconds_per_day: None,
        };
        prove_newest(self.collection.as_ref(), &of.series, &query).map_err(SourceError::new)
    }

    fn decide(&self, of: &SeriesOf, decided: &Decided) -> Result<(), SourceError> {
        let Decided {
            change,
            threshold,
            decision,
            who,
            why,
        } = decided;
        let decide = || -> Result<String, HistoryError> {
            let (trend, _) = self.judged(of, *threshold)?;
            let store = self.collection.as_ref();
            decide(store, &trend, change, *decision, who.clone(), why.clone())
        };
        decide().map(drop).map_err(SourceError::new)
    }

    fn note(&self, of: &SeriesOf, noted: &Noted) -> Result<(), SourceError> {
        let note = Note {
            id: RecordingId::new(),
            recording: None,
            series: Some(of.series.clone()),
            machine: of.machine.clone(),
            at: noted.at,
            text: noted.text.clone(),
            author: noted.who.clone(),
            written: jiff::Timestamp::now(),
        };
        Ok(self.collection.put_note(&note)?)
    }
}
