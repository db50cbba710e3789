//! The view of a series on a page: machine, time span, and threshold. All of them are in the URL's
//! query, so that a URL always shows the same view.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use punctual_model::Nanos;
use punctual_stats::trend::{Question, Run, Trend, judge};
use serde::Deserialize;

use crate::SourceError;
use crate::paths::encoded;
use crate::problem::Problem;
use crate::state::Inner;
use crate::trends::{SeriesOf, Trends};

/// The view, as given in the query.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ViewParams {
    pub(crate) series: String,
    pub(crate) machine: String,
    /// Only runs from this day or time on; empty for no limit.
    pub(crate) from: String,
    /// Only runs up to this day or time; empty for no limit.
    pub(crate) to: String,
    /// The threshold above which a period is late, such as `100us`. If empty, it depends on the
    /// runs.
    pub(crate) threshold: String,
}

/// Parses a day (its start or its end, UTC) or an RFC 3339 time.
pub(crate) fn time(text: &str, end_of_day: bool) -> Result<Option<Timestamp>, Problem> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(Some(time));
    }
    let day = |date: Date| {
        let date = if end_of_day { date.tomorrow()? } else { date };
        date.to_zoned(TimeZone::UTC).map(|zoned| zoned.timestamp())
    };
    let found = text.parse::<Date>().and_then(day);
    found.map(Some).map_err(|_| {
        let shown = punctual_model::sanitize(text);
        Problem::bad_request(format!(
            "'{shown}' is not a time: use the form 2026-11-03 or 2026-11-03T07:10:00Z"
        ))
    })
}

/// Parses a threshold. If empty, it depends on the runs.
pub(crate) fn threshold(text: &str) -> Result<Option<Nanos>, Problem> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let parsed = text.parse::<Nanos>();
    parsed
        .map(Some)
        .map_err(|error| Problem::bad_request(format!("threshold: {error}")))
}

impl ViewParams {
    pub(crate) fn series(&self) -> SeriesOf {
        SeriesOf {
            series: self.series.clone(),
            machine: Some(self.machine.clone()).filter(|name| !name.is_empty()),
        }
    }

    /// Returns the query for the same view.
    pub(crate) fn query(&self) -> String {
        let mut query = format!(
            "series={}&machine={}",
            encoded(&self.series),
            encoded(&self.machine)
        );
        for (name, value) in [
            ("from", &self.from),
            ("to", &self.to),
            ("threshold", &self.threshold),
        ] {
            if !value.is_empty() {
                query.push_str(&format!("&{name}={}", encoded(value)));
            }
        }
        query
    }

    /// Returns the series, judged within these limits.
    ///
    /// # Errors
    /// Returns an error if there is no such series, if a limit is invalid, or if reading fails.
    pub(crate) fn judged(&self, app: &Inner) -> Result<(Trend, Vec<Run>), Problem> {
        let (from, to) = (time(&self.from, false)?, time(&self.to, true)?);
        let threshold = threshold(&self.threshold)?;
        let trends = app.config.trends.0.as_ref();
        let trends = trends.ok_or_else(|| Problem::not_found("this server has no series"))?;
        let (trend, mut runs) = trends.trend(&self.series())?;
        if from.is_none() && to.is_none() && threshold.is_none() {
            return Ok((trend, runs));
        }
        let within =
            |at: Timestamp| from.is_none_or(|from| at >= from) && to.is_none_or(|to| at <= to);
        runs.retain(|run| within(run.started));
        let mut limited = trend;
        limited.holes.retain(|hole| within(hole.due));
        limited.notes.retain(|note| within(note.at));
        limited.asked.since = from;
        limited.asked.threshold_ns = threshold;
        Ok((rejudged(limited, &runs), runs))
    }
}

/// Returns a series, judged by its late periods above one threshold.
///
/// # Errors
/// Returns an error if there is no such series, or if reading fails.
pub(crate) fn above(
    trends: &dyn Trends,
    of: &SeriesOf,
    threshold: Nanos,
) -> Result<Trend, SourceError> {
    let (mut trend, runs) = trends.trend(of)?;
    trend.asked.threshold_ns = Some(threshold);
    Ok(rejudged(trend, &runs))
}

/// Judges these runs again, with the options and known facts of another trend.
fn rejudged(trend: Trend, runs: &[Run]) -> Trend {
    let question = Question {
        acknowledged: trend.acknowledged,
        series: trend.series,
        asked: trend.asked,
        holes: trend.holes,
        notes: trend.notes,
    };
    judge(runs, question)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_whole() {
        let at = |text, end| time(text, end).unwrap().unwrap().to_string();
        assert_eq!(at("2026-11-03", false), "2026-11-03T00:00:00Z");
        assert_eq!(at("2026-11-03", true), "2026-11-04T00:00:00Z");
        assert_eq!(at("2026-11-03T07:10:00Z", true), "2026-11-03T07:10:00Z");
        assert_eq!(time(" ", true).unwrap(), None);
        assert!(time("yesterday", true).is_err());
    }

    #[test]
    fn query_contains_the_whole_look() {
        let look = ViewParams {
            series: "a b".to_owned(),
            threshold: "100us".to_owned(),
            ..ViewParams::default()
        };
        assert_eq!(look.query(), "series=a%20b&machine=&threshold=100us");
        let read = threshold(&look.threshold).unwrap();
        assert_eq!(read, Some(Nanos::from_micros(100)));
    }
}
