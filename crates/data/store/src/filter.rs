//! Filters for the list of recordings.

use jiff::Timestamp;
use punctual_model::Completion;
use rusqlite::types::Value;

use crate::entry::started_ns;

/// Conditions for recordings in a list; by default, all recordings match. SQLite evaluates the
/// filter, so that a short list out of many recordings reads few rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only recordings of this probe.
    pub probe: Option<String>,
    /// Only recordings of the machine with this host name.
    pub host: Option<String>,
    /// Only runs of the series with this name.
    pub series: Option<String>,
    /// Only recordings whose label contains this; ASCII letters match in either case.
    pub label: Option<String>,
    /// Only recordings that began at this time or later.
    pub since: Option<Timestamp>,
    /// Only recordings with this completion.
    pub completion: Option<Completion>,
    /// Excludes blocks of experiments.
    pub without_blocks: bool,
    /// Maximum number of recordings; the newest ones are listed.
    pub limit: Option<usize>,
}

/// Excludes blocks of experiments.
pub(crate) const WITHOUT_BLOCKS: &str = "experiment IS NULL";

impl Filter {
    /// Returns whether the filter matches every recording that is not a block.
    pub(crate) fn shows_all(&self) -> bool {
        let rest = Self {
            without_blocks: false,
            ..self.clone()
        };
        rest == Self::default()
    }

    /// Returns the WHERE clause with its parameters; empty if all recordings match.
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
            // This is a literal instead of a parameter, because SQLite uses the index of running
            // recordings only for exactly this text.
            each.push(format!("completion = '{}'", completion.name()));
        }
        if self.without_blocks {
            each.push(WITHOUT_BLOCKS.to_owned());
        }
        let mut clause = if each.is_empty() {
            String::new()
        } else {
            format!("WHERE {}", each.join(" AND "))
        };
        if let Some(limit) = self.limit {
            // The inner query sorts only a few columns.
            clause = format!(
                "WHERE key IN (SELECT key FROM recording {clause} ORDER BY started_ns DESC, id DESC \
                 LIMIT ?)"
            );
            values.push(Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX)));
        }
        (clause, values)
    }
}
