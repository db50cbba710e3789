//! The record of a load.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Nanos;

/// A load, with the work that it did and the way it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadRecord {
    /// Its name: `command`.
    pub name: String,
    /// Its parameters, as requested.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// CPU time used by its processes, as far as known.
    pub cpu_time_ns: Option<Nanos>,
    /// How the load ended before punctual stopped it. The rest of the measurement ran without it.
    /// Null if it did not end early.
    pub ended_early: Option<String>,
    /// Whether the early end was a failure: an exit status other than 0, or a signal. Measurements
    /// during a failed load are void.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// The phase of the load, if the run had several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The machine's load averages at the end of the load, in the form of /proc/loadavg:
    /// `3.78 3.05 2.05 6/122 1364`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_averages: Option<String>,
    /// The last lines that a failed load wrote to stderr.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// Work that the load did while it ran. Empty if the load cannot report it.
    #[serde(default)]
    pub achieved: Vec<Achieved>,
}

impl LoadRecord {
    /// Returns whether the load is known to have done nothing, which means that the machine was in
    /// fact idle. False for a load that cannot report its work.
    pub fn did_nothing(&self) -> bool {
        !self.achieved.is_empty() && self.achieved.iter().all(|done| done.count == 0)
    }

    /// Returns why a run under this load does not show how the machine behaves under it. `None` if
    /// the load ran during the whole measurement.
    pub fn lacking(&self) -> Option<String> {
        let what = match self {
            load if load.failed => "failed",
            load if load.did_nothing() => "did nothing",
            load if load.ended_early.is_some() => "ended before the measurement",
            _ => return None,
        };
        Some(format!("the load {} {what}", self.name))
    }
}

/// Amount of one kind of work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Achieved {
    /// The unit that is counted, in the plural: `bytes written`.
    pub what: String,
    /// Amount, in this unit.
    pub count: u64,
    /// Time that the work took.
    pub duration_ns: Nanos,
}

impl Achieved {
    /// Returns the mean rate, or 0 if the time is zero.
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
    fn rate_is_count_over_time() {
        assert_eq!(done(10, 4).per_second(), 2.5);
        assert_eq!(done(10, 0).per_second(), 0.0);
    }

    #[test]
    fn load_without_counts_is_not_idle() {
        assert!(!load(vec![]).did_nothing());
        assert!(load(vec![done(0, 1), done(0, 1)]).did_nothing());
        assert!(!load(vec![done(0, 1), done(1, 1)]).did_nothing());
    }

    #[test]
    fn run_without_its_load_lacks_it() {
        let lacking = |change: fn(&mut LoadRecord)| {
            let mut load = load(vec![done(1, 1)]);
            change(&mut load);
            load.lacking()
        };
        assert_eq!(lacking(|_| {}), None);
        for (expected, change) in [
            (
                "the load disk failed",
                (|load| load.failed = true) as fn(&mut LoadRecord),
            ),
            ("the load disk did nothing", |load| {
                load.achieved[0].count = 0
            }),
            ("the load disk ended before the measurement", |load| {
                load.ended_early = Some("exit code 1".to_owned())
            }),
        ] {
            assert_eq!(lacking(change).as_deref(), Some(expected));
        }
    }

    #[test]
    fn record_without_rates_is_read() {
        let old = r#"{"name":"command","parameters":{},"cpu_time_ns":null,"ended_early":null}"#;
        let record: LoadRecord = serde_json::from_str(old).unwrap();
        assert!(record.achieved.is_empty());
    }

    #[test]
    fn failed_load_is_lacking() {
        let mut load = crate::testing::recording(1, 1).load.remove(0);
        assert_eq!(load.lacking(), None);
        load.failed = true;
        let why = load.lacking().unwrap();
        assert!(why.contains("command"), "{why}");
    }
}
