//! The probe of a run and its parameters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The type of plot for the figures of a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Chart {
    /// The number of samples by latency, with a curve for each thread.
    #[default]
    Latency,
    /// A heat map of CPU pairs.
    Matrix,
    /// A bar for each mechanism or kind.
    Bars,
}

/// The probe of a run and its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeRun {
    /// The probe's name: `timer`.
    pub name: String,
    /// The type of plot for the probe's figures.
    #[serde(default)]
    pub chart: Chart,
    /// Whether all threads measure the same thing, so that their figures may be combined.
    #[serde(default = "alike")]
    pub alike: bool,
    /// Each parameter with its effective value. Durations are integers under keys that end in
    /// `_ns`.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// The version of punctual that measured.
    pub program: String,
    /// The command line, as the program received it.
    pub command_line: Vec<String>,
}

const fn alike() -> bool {
    true
}

impl ProbeRun {
    /// Probe name for waits of a running application's threads. These waits are not measured by a
    /// thread of punctual, and they have no period.
    pub const OBSERVED: &str = "threads";

    /// Probe name for jobs of a running application's threads.
    pub const JOBS: &str = "jobs";

    /// Probe name for figures that an application measured itself.
    pub const IN_APP: &str = "app";

    /// Probe name for the execution time of a fixed piece of work.
    pub const WORK: &str = "work";

    /// Name of the parameter for the size of this work.
    pub const ITERATIONS: &str = "iterations";

    /// Name of the parameter that contains the name of the watched application: `motion (pid
    /// 1234)`.
    pub const WATCHED: &str = "watched";

    /// Name of the parameter that contains the IDs of the watched processes, which are those of
    /// their main threads.
    pub const PROCESSES: &str = "processes";

    /// Name of the parameter that contains the channel of an application whose missed periods are
    /// unknown.
    pub const NOT_COUNTED: &str = "not_counted";

    /// Returns the application whose threads were watched. `None` if the measuring threads were
    /// punctual's own.
    pub fn watched(&self) -> Option<&str> {
        let named = |name| self.parameters.get(name).and_then(|value| value.as_str());
        let watched = named(Self::WATCHED).or_else(|| named("targets"));
        self.is_observed().then(|| watched.unwrap_or("unknown"))
    }

    /// Returns the application that measured itself: `motion (pid 1234)`. `None` if punctual
    /// measured the figures or watched threads.
    pub fn application(&self) -> Option<&str> {
        let name = self
            .parameters
            .get(Self::WATCHED)
            .and_then(|value| value.as_str());
        (self.name == Self::IN_APP).then(|| name.unwrap_or("unknown"))
    }

    /// Returns the reason why the missed periods of an application that measured itself are
    /// unknown: a channel with a period did not count them. `None` if they are known.
    pub fn not_counted(&self) -> Option<String> {
        let channel = self.parameters.get(Self::NOT_COUNTED)?.as_str()?;
        Some(format!(
            "the missed periods of channel {channel} are unknown, because the application does not \
             count them (Channel::account)"
        ))
    }

    /// Returns the name of the measured quantity: `latency` or `execution time`.
    pub fn quantity(&self) -> &'static str {
        Self::quantity_of(&self.name).1
    }

    /// Returns the name of the measured quantity, with a capital letter for a heading.
    pub fn quantity_heading(&self) -> &'static str {
        Self::quantity_of(&self.name).0
    }

    /// Returns the name of the quantity that a probe measures, for a heading and for an axis.
    pub fn quantity_of(probe: &str) -> (&'static str, &'static str) {
        if probe == Self::WORK {
            ("Execution time", "execution time")
        } else {
            ("Latency", "latency")
        }
    }

    /// Returns whether threads of another program were watched.
    pub fn is_observed(&self) -> bool {
        self.name == Self::OBSERVED || self.name == Self::JOBS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(name: &str) -> ProbeRun {
        let mut probe = crate::testing::recording(1, 1).probe;
        probe.name = name.to_owned();
        probe.parameters.clear();
        probe
    }

    #[test]
    fn probe_measures_itself_watches_or_is_an_application() {
        for (name, watches, is_app) in [
            ("timer", false, false),
            (ProbeRun::OBSERVED, true, false),
            (ProbeRun::JOBS, true, false),
            (ProbeRun::IN_APP, false, true),
        ] {
            let mut probe = probe(name);
            assert_eq!(probe.is_observed(), watches);
            assert_eq!(probe.watched(), watches.then_some("unknown"));
            assert_eq!(probe.application(), is_app.then_some("unknown"));
            probe
                .parameters
                .insert("targets".to_owned(), "older".into());
            assert_eq!(probe.watched(), watches.then_some("older"));
            assert_eq!(probe.application(), is_app.then_some("unknown"));
            probe
                .parameters
                .insert(ProbeRun::WATCHED.to_owned(), "motion (pid 7)".into());
            assert_eq!(probe.watched(), watches.then_some("motion (pid 7)"));
            assert_eq!(probe.application(), is_app.then_some("motion (pid 7)"));
        }
    }

    #[test]
    fn quantity_is_latency_or_execution_time() {
        for (name, heading, quantity) in [
            ("timer", "Latency", "latency"),
            (ProbeRun::WORK, "Execution time", "execution time"),
        ] {
            let probe = probe(name);
            assert_eq!(
                (probe.quantity_heading(), probe.quantity()),
                (heading, quantity)
            );
        }
        let mut app = probe(ProbeRun::IN_APP);
        assert_eq!(app.not_counted(), None);
        app.parameters
            .insert(ProbeRun::NOT_COUNTED.to_owned(), 7.into());
        assert_eq!(app.not_counted(), None);
        app.parameters
            .insert(ProbeRun::NOT_COUNTED.to_owned(), "axis".into());
        let why = app.not_counted().unwrap();
        assert!(
            why.starts_with("the missed periods of channel axis are unknown"),
            "{why}"
        );
    }

    /// The threads of runs of older versions are alike.
    #[test]
    fn older_probe_is_a_chart_of_latencies_of_like_threads() {
        let json = r#"{"name": "timer", "parameters": {}, "program": "p", "command_line": []}"#;
        let read: ProbeRun = serde_json::from_str(json).unwrap();
        assert_eq!((read.alike, read.chart), (true, Chart::Latency));
    }
}
