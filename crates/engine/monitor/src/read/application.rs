//! Reads what a series measures, and a series that measures an application.

use std::ops::Range;

use punctual_model::{LoopRequirement, Nanos, Sampling, SamplingError};
use punctual_session::Subject;
use toml::de::DeTable;

use super::{PlanError, Reader, Value};
use crate::plan::{Measured, SeriesPlan};

/// Keys that state what a series measures.
const MEASURED: [&str; 4] = ["probe", "unit", "comm", "cgroup"];

/// Default length of a run.
const LENGTH: Nanos = Nanos::from_secs(60);

/// Keys that only the series of a probe has, with what to write instead.
const OF_PROBE: [(&str, &str); 7] = [
    ("parameters", "an application has no parameters"),
    (
        "phases",
        "an application runs under its own load: use duration",
    ),
    ("cpus", "an application chooses its CPUs"),
    ("explain", "jobs over the budget are explained"),
    ("max_latency", "use budget"),
    ("misses", "use budget and max_late_seconds_per_day"),
    (
        "samples",
        "the jobs of an application are not stored one by one",
    ),
];

impl Reader<'_> {
    /// Reads what the series measures: a probe or an application.
    pub(super) fn measured(
        &self,
        span: Range<usize>,
        table: &DeTable<'_>,
    ) -> Result<Measured, PlanError> {
        let mut given = (table.iter())
            .filter(|(key, _)| MEASURED.contains(&key.get_ref().as_ref()))
            .collect::<Vec<_>>();
        given.sort_by_key(|(key, _)| key.span().start);
        match given.as_slice() {
            [] => {
                let message = "'probe' is missing here; for an application: unit, comm or cgroup";
                Err(self.error(span, message))
            }
            [(key, value)] if key.get_ref() == "probe" => {
                let probe = punctual_probes::probe(self.word(value)?)
                    .map_err(|error| self.error(value.span(), error.to_string()))?;
                let arguments = self.arguments(span, probe, table.get("parameters"))?;
                Ok(Measured::Probe(probe, arguments))
            }
            [(key, value)] => self.subject(key.get_ref(), value),
            [_, (key, _), ..] => {
                let message = format!(
                    "a series measures one thing: remove all but one of {}",
                    MEASURED.join(", ")
                );
                Err(self.error(key.span(), message))
            }
        }
    }

    /// Reads the selection of an application. Its requirement is still missing.
    pub(super) fn subject(&self, key: &str, value: &Value<'_>) -> Result<Measured, PlanError> {
        let name = self.word(value)?.to_owned();
        if name.is_empty() {
            return Err(self.error(value.span(), "the name is empty"));
        }
        let subject = match key {
            "unit" => Subject::Unit(name),
            "comm" => Subject::Comm(name),
            _ => Subject::Group(name),
        };
        Ok(Measured::Application(
            subject,
            LoopRequirement::of_jobs(Nanos::ZERO),
        ))
    }

    /// Reads the requirement on an application, and the random times of its runs.
    pub(super) fn application(
        &self,
        series: &mut SeriesPlan,
        table: &DeTable<'_>,
    ) -> Result<(), PlanError> {
        for (key, instead) in OF_PROBE {
            if let Some((key, _)) = table.get_key_value(key) {
                let message = format!("{} is for probes: {instead}", key.get_ref());
                return Err(self.error(key.span(), message));
            }
        }
        let budget = table.get("budget").ok_or_else(|| {
            let span = table.get("name").map_or(0..0, |name| name.span());
            let message = "an application needs the longest time of a job: budget = \"1ms\"";
            self.error(span, message)
        })?;
        let budget = self.at_least(budget, Nanos(1))?;
        let period = table.get("period");
        let period = period.map(|period| self.at_least(period, Nanos(1_000)));
        let allowed = table.get("max_late_seconds_per_day");
        let allowed = allowed.map(|allowed| self.late_seconds(allowed));
        let sample = table
            .get("sample")
            .map(|value| self.sample_of(series, table, value));
        series.duration = series.duration.or(Some(LENGTH));
        let sample = sample.transpose()?;
        if let Some(sample) = sample {
            series.duration = Some(sample.length_ns);
            self.wait_within(series, table, sample);
        }
        if let Measured::Application(_, asked) = &mut series.measured {
            *asked = LoopRequirement {
                period_ns: period.transpose()?.unwrap_or_default(),
                max_late_seconds_per_day: Some(
                    allowed
                        .transpose()?
                        .unwrap_or(LoopRequirement::USUAL_LATE_SECONDS),
                ),
                sample,
                ..LoopRequirement::of_jobs(budget)
            };
        }
        Ok(())
    }

    /// Reads the random times of a series.
    pub(super) fn sample_of(
        &self,
        series: &SeriesPlan,
        table: &DeTable<'_>,
        value: &Value<'_>,
    ) -> Result<Sampling, PlanError> {
        let wrong = |message: &str| Err(self.error(value.span(), message));
        let sample = (self.word(value)?.parse())
            .map_err(|error: SamplingError| self.error(value.span(), error.to_string()))?;
        if !series.at.is_empty() || series.every.is_some() {
            return wrong("sample chooses the times: remove at and every");
        }
        if table.contains_key("duration") {
            return wrong("sample contains the length of a run: remove duration");
        }
        Ok(sample)
    }

    /// Limits the time that a slot waits, because a run that waits longer would leave its part of
    /// the period.
    pub(super) fn wait_within(
        &self,
        series: &mut SeriesPlan,
        table: &DeTable<'_>,
        sample: Sampling,
    ) {
        if !table.contains_key("wait") {
            series.wait = SeriesPlan::WAIT.min(Nanos(sample.part().0 / 2));
        }
    }
}
