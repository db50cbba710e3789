//! Which recordings a list shows.

use jiff::Timestamp;
use punctual_model::Completion;
use rusqlite::types::Value;

use crate::entry::started_ns;

/// What recordings must fit to be listed; by default all do. SQLite decides, so that
/// a list of few out of many reads few.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only of this probe.
    pub probe: Option<String>,
    /// Only of the machine with this name.
    pub host: Option<String>,
    /// Only runs of the series of this name.
    pub series: Option<String>,
    /// Only those whose label contains this; ASCII letters of either case fit.
    pub label: Option<String>,
    /// Only those that began at this time or later.
    pub since: Option<Timestamp>,
    /// Only those that ended so, or still run.
    pub completion: Option<Completion>,
    /// Only those that are no block of an experiment.
    pub without_blocks: bool,
    /// Only so many, the newest.
    pub limit: Option<usize>,
}

/// Of a recording that is no block of an experiment.
pub(crate) const WITHOUT_BLOCKS: &str = "experiment IS NULL";

impl Filter {
    /// Whether each recording that is no block fits.
    pub(crate) fn shows_all(&self) -> bool {
        let rest = Self {
            without_blocks: false,
            ..self.clone()
        };
        rest == Self::default()
    }

    /// The WHERE clause with its parameters; empty where all fit.
    pub(crate) fn condition(&self) -> (String, Vec<Value>) {
        let text = |value: &Option<String>| value.clone().map(Value::Text);
        let conditions = [
            ("probe = ?", text(&self.probe)),
            ("host = ?", text(&self.host)),
            ("instr(lower(label), lower(?)) > 0", text(&self.label)),
            (
                "series IN (SELECT key FROM plan_series WHERE name = ?)",
                text(&self.series),
            ),
            (
                "started_ns >= ?",
                self.since.map(|time| Value::Integer(started_ns(time))),
            ),
        ];
        let (mut each, mut values) = (Vec::new(), Vec::new());
        for (condition, value) in conditions {
            if let Some(value) = value {
                each.push(condition.to_owned());
                values.push(value);
            }
        }
        if let Some(completion) = self.completion {
            // Not as a parameter: the index of running ones is found by this text.
            each.push(format!("completion = '{}'", completion.name()));
        }
        if self.without_blocks {
            each.push(WITHOUT_BLOCKS.to_owned());
        }
        let mut clause = match each.is_empty() {
            true => String::new(),
            false => format!("WHERE {}", each.join(" AND ")),
        };
        if let Some(limit) = self.limit {
            // Few columns go through the sorter.
            clause = format!(
                "WHERE key IN (SELECT key FROM recording {clause} ORDER BY started_ns DESC, id DESC \
                 LIMIT ?)"
            );
            values.push(Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX)));
        }
        (clause, values)
    }
}
