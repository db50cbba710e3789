//! A load, and what became of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::schema::JsonSchema;

/// A load, and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadRecord {
    /// Its name: `command`.
    pub name: String,
    /// Its parameters, as they were asked for.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// CPU time that its processes used, as far as it can be known.
    pub cpu_time_ns: Option<Nanos>,
    /// How it ended before it was stopped, where it did; from then on the
    /// machine was measured without it.
    pub ended_early: Option<String>,
    /// Whether that was a failure: an exit status other than 0, a signal. What was
    /// measured beside it is void.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// The phase that it belonged to, where the run had several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The last lines that a failed load wrote to stderr.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// What it did while it ran; empty: it cannot tell.
    #[serde(default)]
    pub achieved: Vec<Achieved>,
}

impl LoadRecord {
    /// Whether the load is known to have done nothing: the machine was then
    /// measured without it, and the reader must know. One that cannot tell what
    /// it did is not meant.
    pub fn did_nothing(&self) -> bool {
        !self.achieved.is_empty() && self.achieved.iter().all(|done| done.count == 0)
    }
}

/// How much of one kind a load did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Achieved {
    /// What is counted, in the plural: `bytes written`.
    pub what: String,
    /// How many.
    pub count: u64,
    /// In which time.
    pub duration_ns: Nanos,
}

impl Achieved {
    /// The mean rate; 0 where no time passed.
    pub fn per_second(&self) -> f64 {
        match self.duration_ns.0 {
            0 => 0.0,
            ns => self.count as f64 * 1e9 / ns as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(count: u64, seconds: u64) -> Achieved {
        Achieved {
            what: "bytes".to_owned(),
            count,
            duration_ns: Nanos::from_secs(seconds),
        }
    }

    fn load(achieved: Vec<Achieved>) -> LoadRecord {
        LoadRecord {
            name: "disk".to_owned(),
            parameters: Default::default(),
            achieved,
            ..LoadRecord::default()
        }
    }

    #[test]
    fn a_rate_is_a_count_over_its_time() {
        assert_eq!(done(10, 4).per_second(), 2.5);
        assert_eq!(done(10, 0).per_second(), 0.0);
    }

    #[test]
    fn a_load_that_cannot_tell_is_not_idle() {
        assert!(!load(vec![]).did_nothing());
        assert!(load(vec![done(0, 1), done(0, 1)]).did_nothing());
        assert!(!load(vec![done(0, 1), done(1, 1)]).did_nothing());
    }

    #[test]
    fn a_record_of_before_the_rates_is_read() {
        let old = r#"{"name":"command","parameters":{},"cpu_time_ns":null,"ended_early":null}"#;
        let record: LoadRecord = serde_json::from_str(old).unwrap();
        assert!(record.achieved.is_empty());
    }
}
