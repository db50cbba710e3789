//! Reads when a series runs, and which late periods it tolerates.

use jiff::civil::Time;
use punctual_model::{LoopRequirement, MissLimit, MissLimitError, Nanos};
use toml::de::{DeTable, DeValue};

use super::{PlanError, Reader, Value};
use crate::plan::{Measured, Plan, SeriesPlan};

impl Reader<'_> {
    /// Reads the random times of a sampled series, and the requirement that its runs are judged by.
    pub(super) fn sample(
        &self,
        series: &mut SeriesPlan,
        table: &DeTable<'_>,
    ) -> Result<(), PlanError> {
        let allowed = table.get("max_late_seconds_per_day");
        let Some(value) = table.get("sample") else {
            return match allowed {
                None => Ok(()),
                Some(allowed) => {
                    let message = "max_late_seconds_per_day is judged over many runs: add sample, \
                                   such as sample = \"60 x 1min in 7d\"";
                    Err(self.error(allowed.span(), message))
                }
            };
        };
        let wrong = |message: &str| Err(self.error(value.span(), message));
        let sample = self.sample_of(series, table, value)?;
        let Measured::Probe(_, arguments) = &series.measured else {
            return Ok(());
        };
        let Some(period) = arguments.duration("interval") else {
            return wrong("sample needs a probe with an interval, such as timer");
        };
        if period > Nanos::from_secs(1) {
            return wrong("sample counts late seconds: use an interval of at most 1 s");
        }
        let Some(budget) = table.get("budget") else {
            return wrong("sample needs the latest start of a period: budget = \"100us\"");
        };
        let budget_ns = self.at_least(budget, Nanos(1))?;
        if budget_ns > period {
            let message = format!("the budget is longer than the interval of {period}");
            return Err(self.error(budget.span(), message));
        }
        match &series.phases {
            None => series.duration = Some(sample.length_ns),
            Some(_) => {
                let one = series
                    .phase_requests()
                    .is_ok_and(|phases| phases.len() == 1);
                if !one || series.length() != sample.length_ns {
                    return wrong("phases must be one phase of the length of a run");
                }
            }
        }
        self.wait_within(series, table, sample);
        series.periodic = Some(LoopRequirement {
            period_ns: period,
            budget_ns,
            jobs: false,
            max_late_seconds_per_day: allowed
                .map(|allowed| self.late_seconds(allowed))
                .transpose()?,
            misses: self.windows(table, true)?.map(|(limit, _)| limit),
            max_misses_per_day: None,
            sample: Some(sample),
        });
        Ok(())
    }

    /// Returns an error if rows are removed before the period of a sampled series has ended, because
    /// the rows show which seconds were late.
    pub(super) fn rows_last(&self, plan: &Plan, table: &DeTable<'_>) -> Result<(), PlanError> {
        let (Some(kept), Some(keep)) = (plan.keep.rows, table.get("keep")) else {
            return Ok(());
        };
        for series in &plan.series {
            if let Some(sample) = series.sample().filter(|sample| kept < sample.period_ns) {
                let (name, period) = (&series.name, sample.period_ns);
                let message = format!(
                    "the rows of series '{name}' are judged after its period of {period}: keep rows \
                     for at least twice as long"
                );
                return Err(self.error(keep.span(), message));
            }
        }
        Ok(())
    }

    pub(super) fn late_seconds(&self, value: &Value<'_>) -> Result<f64, PlanError> {
        let text = match value.get_ref() {
            DeValue::Integer(number) => number.as_str(),
            DeValue::Float(number) => number.as_str(),
            _ => "",
        };
        let number = text.parse().ok();
        number
            .filter(|number| (0.0..86_400.0).contains(number))
            .ok_or_else(|| {
                let message = "this must be a number from 0 to below 86400, the seconds of a day";
                self.error(value.span(), message)
            })
    }

    /// Reads the limit of late periods in windows, which needs a budget. A sampled series may have
    /// a budget alone.
    pub(super) fn windows(
        &self,
        table: &DeTable<'_>,
        is_sampled: bool,
    ) -> Result<Option<(MissLimit, Nanos)>, PlanError> {
        match (table.get("misses"), table.get("budget")) {
            (None, None) => Ok(None),
            (None, Some(_)) if is_sampled => Ok(None),
            (Some(misses), Some(budget)) => {
                let limit = self.word(misses)?.parse();
                let limit = limit.map_err(|error: MissLimitError| {
                    self.error(misses.span(), error.to_string())
                })?;
                Ok(Some((limit, self.at_least(budget, Nanos(1))?)))
            }
            (Some(one), None) | (None, Some(one)) => {
                let message = "misses and budget belong together: misses = \"2/100\", \
                               budget = \"100us\"";
                Err(self.error(one.span(), message))
            }
        }
    }

    pub(super) fn times(&self, value: &Value<'_>) -> Result<Vec<Time>, PlanError> {
        let example = "times of day must be a list: [\"07:10\", \"19:10\"]";
        let mut times = Vec::new();
        for value in self.list(value, example)? {
            let text = self.word(value)?;
            let time = text.parse::<Time>().map_err(|_| {
                let message = format!("'{text}' is not a time of day: use the form 07:10");
                self.error(value.span(), message)
            })?;
            times.push(time);
        }
        times.sort();
        times.dedup();
        Ok(times)
    }

    pub(super) fn after(
        &self,
        series: &mut SeriesPlan,
        value: &Value<'_>,
    ) -> Result<(), PlanError> {
        for value in self.list(
            value,
            "after must be a list, such as [\"boot\", \"kernel-change\"]",
        )? {
            match self.word(value)? {
                "boot" => series.after_boot = true,
                "kernel-change" => series.after_kernel_change = true,
                other => {
                    return Err(self.unknown(value.span(), other, &["boot", "kernel-change"]));
                }
            }
        }
        Ok(())
    }
}
