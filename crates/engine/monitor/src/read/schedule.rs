//! Reads when a series runs, and which late periods it tolerates.

use jiff::civil::Time;
use punctual_model::{MissLimit, MissLimitError, Nanos};
use toml::de::DeTable;

use super::{PlanError, Reader, Value};
use crate::plan::SeriesPlan;

impl Reader<'_> {
    /// Reads the limit of late periods in windows, which needs a budget.
    pub(super) fn windows(
        &self,
        table: &DeTable<'_>,
    ) -> Result<Option<(MissLimit, Nanos)>, PlanError> {
        match (table.get("misses"), table.get("budget")) {
            (None, None) => Ok(None),
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
