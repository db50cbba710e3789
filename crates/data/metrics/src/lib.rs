//! Metrics for Prometheus: histograms with classic buckets that are also native histograms.
//!
//! **For:** the wake-ups of this machine ([`wakeups`]), which [`Scrape`] serves while they are
//! counted, and the metrics of a collector.
//!
//! **Knows:** the formats of Prometheus, as text and as protobuf.
//!
//! **Must not know:** how anything is counted or stored.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod native;
mod protobuf;
mod scrape;
mod text;
pub mod wakeups;

use punctual_model::{Histogram, Nanos};

pub use native::{Native, SCHEMA, ZERO_S};
pub use protobuf::Message;
pub use scrape::{Scrape, ScrapeError};

/// A metric, with its values for all machines.
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// Its meaning.
    pub help: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Its values.
    pub samples: Vec<Sample>,
}

/// The kind of a metric.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Grows and shrinks.
    Gauge,
    /// Counts by value.
    Histogram,
}

/// The value of one machine, or of one group of threads.
pub struct Sample {
    /// Names and values of its labels.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: Value,
}

/// The value of a sample.
pub enum Value {
    /// A number.
    Number(f64),
    /// A histogram.
    Histogram(Box<Figures>),
}

/// A histogram with its computed buckets.
pub struct Figures {
    /// Number of values.
    pub count: u64,
    /// Sum of the values in seconds.
    pub sum_s: f64,
    /// Upper bound in seconds and the cumulative count, without +Inf.
    pub classic: Vec<(f64, u64)>,
    /// The exponential buckets.
    pub native: Native,
}

/// The bounds of classic buckets in nanoseconds: 1, 2 and 5 in each decade from 1 µs to 1 s. They
/// are the same for all machines, so that counts can be summed.
pub const BOUNDS: [u64; 19] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
];

/// The bounds around a requirement, as multiples of it. There are 20 bounds, which are closer
/// together near the requirement.
const AROUND: [f64; 20] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0,
    10.0, 100.0,
];

/// Returns the bounds of classic buckets in nanoseconds.
pub fn bounds(requirement: Option<Nanos>) -> Vec<u64> {
    let Some(requirement) = requirement else {
        return BOUNDS.to_vec();
    };
    let around = AROUND
        .iter()
        .map(|share| (requirement.0 as f64 * share).round() as u64);
    let mut bounds: Vec<u64> = around.filter(|bound| *bound > 0).collect();
    bounds.dedup();
    bounds
}

/// Converts nanoseconds to seconds, the unit of Prometheus.
pub fn seconds(ns: u64) -> f64 {
    // Exact below 104 days. Each bound is the number closest to its decimal form.
    ns as f64 / 1e9
}

impl Figures {
    /// Computes the buckets of a histogram. `bounds` are those of the classic buckets, in ns.
    pub fn new(due: &Histogram, bounds: &[u64]) -> Self {
        let buckets = due.buckets();
        let buckets = buckets.iter();
        let mut counts: Vec<(u64, u64)> = buckets
            .map(|(lower, width, count)| (lower + width - 1, count))
            .collect();
        let placed: u64 = counts.iter().map(|(_, count)| count).sum();
        // Samples beyond the last bucket.
        let beyond = due.recorded().saturating_sub(placed + due.early());
        if beyond > 0 {
            counts.push((due.max().map_or(u64::MAX, |max| max.0), beyond));
        }
        Self::of_counts(&counts, due.early(), due.sum(), bounds)
    }

    /// Computes the buckets from counts, each with the largest value that it contains, in ns. `early`
    /// values are below all of these.
    pub fn of_counts(counts: &[(u64, u64)], early: u64, sum: Nanos, bounds: &[u64]) -> Self {
        let up_to = |bound: u64| -> u64 {
            let within = counts.iter().filter(|(largest, _)| *largest <= bound);
            early + within.map(|(_, count)| count).sum::<u64>()
        };
        Self {
            count: up_to(u64::MAX),
            sum_s: seconds(sum.0),
            classic: (bounds.iter())
                .map(|bound| (seconds(*bound), up_to(*bound)))
                .collect(),
            native: Native::of_counts(counts, early),
        }
    }
}

/// Returns the media type and the body of the metrics, in the format that the header `Accept` asks
/// for.
pub fn encode(accept: Option<&str>, families: &[Family]) -> (&'static str, Vec<u8>) {
    let wants = |kind| accept.is_some_and(|accept| accept.contains(kind));
    // Only this format has native histograms.
    if wants("application/vnd.google.protobuf") {
        return (protobuf::KIND, protobuf::encode(families));
    }
    let form = if wants("application/openmetrics-text") {
        text::Form::OpenMetrics
    } else {
        text::Form::Prometheus
    };
    (form.kind(), text::encode(families, form).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Form;
    use punctual_model::SignedNanos;

    pub(crate) fn some() -> Vec<Family> {
        let mut due = Histogram::new();
        for ns in [-5, 0, 999, 1_500, 1_500, 40_000, 2_000_000_000] {
            due.record(SignedNanos(ns));
        }
        let sample = |value| Sample {
            labels: vec![("machine", "a\"b\\c\nd<script>".to_owned())],
            value,
        };
        vec![
            Family {
                name: "punctual_latency_seconds",
                help: "Latency of all due periods.",
                kind: Kind::Histogram,
                samples: vec![sample(Value::Histogram(Box::new(Figures::new(
                    &due, &BOUNDS,
                ))))],
            },
            Family {
                name: "punctual_recordings_total",
                help: "Recordings of the machine.",
                kind: Kind::Counter,
                samples: vec![sample(Value::Number(2.0))],
            },
        ]
    }

    #[test]
    fn text_is_as_prometheus_reads_it() {
        let text = text::encode(&some(), Form::Prometheus);
        let name = r#"machine="a\"b\\c\nd<script>""#;
        for line in [
            "# TYPE punctual_latency_seconds histogram".to_owned(),
            format!("punctual_latency_seconds_bucket{{{name},le=\"1e-6\"}} 3"),
            format!("punctual_latency_seconds_bucket{{{name},le=\"2e-6\"}} 5"),
            format!("punctual_latency_seconds_bucket{{{name},le=\"1\"}} 6"),
            format!("punctual_latency_seconds_bucket{{{name},le=\"+Inf\"}} 7"),
            format!("punctual_latency_seconds_count{{{name}}} 7"),
            format!("punctual_recordings_total{{{name}}} 2"),
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
    }

    #[test]
    fn openmetrics_names_counters_and_bounds_canonically() {
        let text = text::encode(&some(), Form::OpenMetrics);
        let name = r#"machine="a\"b\\c\nd<script>""#;
        for line in [
            format!("punctual_latency_seconds_bucket{{{name},le=\"1e-06\"}} 3"),
            format!("punctual_latency_seconds_bucket{{{name},le=\"0.0001\"}} 6"),
            format!("punctual_latency_seconds_bucket{{{name},le=\"1.0\"}} 6"),
            "# TYPE punctual_recordings counter".to_owned(),
            format!("punctual_recordings_total{{{name}}} 2"),
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
        assert!(text.ends_with("\n# EOF\n"), "{text}");
    }

    #[test]
    fn the_header_accept_chooses_the_format() {
        let of = |accept| encode(accept, &some()).0;
        let text = Form::Prometheus.kind();
        assert_eq!(of(None), text);
        assert_eq!(of(Some("text/plain;q=0.5,*/*;q=0.1")), text);
        let open = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
        assert_eq!(of(Some(open)), Form::OpenMetrics.kind());
        let protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily";
        assert_eq!(of(Some(protobuf)), protobuf::KIND);
    }

    #[test]
    fn bounds_stand_around_a_requirement() {
        let around = bounds(Some(Nanos::from_micros(100)));
        assert_eq!(around.len(), 20);
        assert!(around.contains(&100_000) && around.contains(&90_000));
        assert!(around.is_sorted_by(|a, b| a < b));
        assert_eq!(bounds(None), BOUNDS);
    }

    #[test]
    fn bounds_agree_in_both_forms() {
        let families = some();
        let Value::Histogram(figures) = &families[0].samples[0].value else {
            panic!("no histogram");
        };
        assert_eq!(figures.count, 7);
        assert_eq!(figures.native.count(), 7);
        assert!(figures.classic.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
    }
}
