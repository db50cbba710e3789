//! Metrics for Prometheus: for each machine, its state, and a histogram of all its due periods; and
//! histograms of the wake-ups of this machine. Each histogram has classic buckets and is also a
//! native histogram.

mod native;
mod protobuf;
pub(crate) mod push;
mod text;
pub(crate) mod wakeups;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use punctual_model::Nanos;
use punctual_store::{Machine, Total};

use crate::fleet::Judge;
use crate::problem::Problem;
use crate::state::{App, Inner};
use native::Native;

/// A metric, with its values for all machines.
pub(crate) struct Family {
    name: &'static str,
    help: &'static str,
    kind: Kind,
    samples: Vec<Sample>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The value of one machine, or of one group of threads.
pub(crate) struct Sample {
    labels: Vec<(&'static str, String)>,
    value: Value,
}

pub(crate) enum Value {
    Number(f64),
    Histogram(Box<Figures>),
}

/// A histogram with its computed buckets.
pub(crate) struct Figures {
    count: u64,
    sum_s: f64,
    /// Upper bound in seconds and the cumulative count, without +Inf.
    classic: Vec<(f64, u64)>,
    native: Native,
}

/// The bounds of classic buckets in nanoseconds: 1, 2 and 5 in each decade from 1 µs to 1 s. They
/// are the same for all machines, so that counts can be summed.
const BOUNDS: [u64; 19] = [
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
fn bounds(requirement: Option<Nanos>) -> Vec<u64> {
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
fn seconds(ns: u64) -> f64 {
    // Exact below 104 days. Each bound is the number closest to its decimal form.
    ns as f64 / 1e9
}

impl Figures {
    fn new(total: &Total, bounds: &[u64]) -> Self {
        let due = &total.due;
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
    fn of_counts(counts: &[(u64, u64)], early: u64, sum: Nanos, bounds: &[u64]) -> Self {
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

/// Returns the metrics of all machines in the requested format.
pub(crate) async fn get(State(app): State<App>, headers: HeaderMap) -> Result<Response, Problem> {
    let families = app.work(of_app).await?;
    Ok(answer(&headers, &families))
}

/// Returns the metrics in the requested format.
pub(crate) fn answer(headers: &HeaderMap, families: &[Family]) -> Response {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    let protobuf = accept.is_some_and(|accept| accept.contains("application/vnd.google.protobuf"));
    if protobuf {
        let kind = [(header::CONTENT_TYPE, protobuf::KIND)];
        (kind, protobuf::encode(families)).into_response()
    } else {
        let kind = [(header::CONTENT_TYPE, text::KIND)];
        (kind, text::encode(families)).into_response()
    }
}

/// Returns the metrics of all machines.
pub(crate) fn of_app(app: &Inner) -> Result<Vec<Family>, Problem> {
    let (machines, totals) = (app.collection.machines()?, app.collection.totals()?);
    let judge = Judge::now(app.config.silent_after, &app.worse);
    let bounds = bounds(app.config.requirement);
    Ok(families(&machines, &totals, &bounds, &|machine| {
        judge.state_of(machine).name()
    }))
}

fn families(
    machines: &[Machine],
    totals: &[(String, Total)],
    bounds: &[u64],
    state: &dyn Fn(&Machine) -> &'static str,
) -> Vec<Family> {
    let number = |name: &str, value| Sample {
        labels: vec![("machine", name.to_owned())],
        value: Value::Number(value),
    };
    let of_totals = |value: &dyn Fn(&Total) -> u64| -> Vec<Sample> {
        let samples = totals.iter();
        samples
            .map(|(name, total)| number(name, value(total) as f64))
            .collect()
    };
    let of_machines = |value: &dyn Fn(&Machine) -> Option<f64>| -> Vec<Sample> {
        let samples = machines.iter();
        samples
            .filter_map(|one| Some(number(&one.name, value(one)?)))
            .collect()
    };
    let latest = |value: fn(&punctual_store::Latest) -> Option<Nanos>| {
        of_machines(&|one| Some(seconds(value(one.latest.as_ref()?)?.0)))
    };
    let family = |name, help, kind, samples| Family {
        name,
        help,
        kind,
        samples,
    };
    let states = machines.iter().map(|one| Sample {
        labels: vec![
            ("machine", one.name.clone()),
            ("state", state(one).to_owned()),
        ],
        value: Value::Number(1.0),
    });
    let histograms = totals.iter().map(|(name, total)| Sample {
        labels: vec![("machine", name.clone())],
        value: Value::Histogram(Box::new(Figures::new(total, bounds))),
    });
    vec![
        family(
            "punctual_latency_seconds",
            "Latency of all due periods, including missed ones if their lateness is known.",
            Kind::Histogram,
            histograms.collect(),
        ),
        family(
            "punctual_recordings_total",
            "Recordings of the machine.",
            Kind::Counter,
            of_totals(&|total| total.recordings),
        ),
        family(
            "punctual_missed_periods_total",
            "Periods without a sample.",
            Kind::Counter,
            of_totals(&|total| total.missed),
        ),
        family(
            "punctual_unknown_periods_total",
            "Due periods of unknown latency, which are not counted in any bucket.",
            Kind::Counter,
            of_totals(&|total| total.unknown),
        ),
        family(
            "punctual_machine_state",
            "1 for the current state of the machine.",
            Kind::Gauge,
            states.collect(),
        ),
        family(
            "punctual_last_seen_timestamp_seconds",
            "Time of the last delivery from the machine.",
            Kind::Gauge,
            of_machines(&|one| Some(one.last_seen?.as_millisecond() as f64 / 1e3)),
        ),
        family(
            "punctual_latest_latency_max_seconds",
            "Largest latency of the newest recording.",
            Kind::Gauge,
            latest(|one| one.max_ns),
        ),
        family(
            "punctual_latest_latency_p99_seconds",
            "99th percentile of the newest recording.",
            Kind::Gauge,
            latest(|one| one.p99_ns),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use punctual_model::{Histogram, SignedNanos};

    pub(super) fn some() -> Vec<Family> {
        let mut due = Histogram::new();
        for ns in [-5, 0, 999, 1_500, 1_500, 40_000, 2_000_000_000] {
            due.record(SignedNanos(ns));
        }
        let total = Total {
            recordings: 2,
            due,
            missed: 3,
            unknown: 1,
        };
        let name = "a\"b\\c\nd<script>";
        let machine = Machine {
            name: name.to_owned(),
            recordings: 2,
            last_seen: Some(Timestamp::from_second(1_700_000_000).unwrap()),
            latest: None,
        };
        families(
            &[machine],
            &[(name.to_owned(), total)],
            &BOUNDS,
            &|_| "held",
        )
    }

    #[test]
    fn text_is_as_prometheus_reads_it() {
        let text = text::encode(&some());
        let name = r#"machine="a\"b\\c\nd<script>""#;
        for line in [
            "# TYPE punctual_latency_seconds histogram".to_owned(),
            format!("punctual_latency_seconds_bucket{{{name},le=\"1e-6\"}} 3"),
            format!("punctual_latency_seconds_bucket{{{name},le=\"2e-6\"}} 5"),
            format!("punctual_latency_seconds_bucket{{{name},le=\"1\"}} 6"),
            format!("punctual_latency_seconds_bucket{{{name},le=\"+Inf\"}} 7"),
            format!("punctual_latency_seconds_count{{{name}}} 7"),
            format!("punctual_recordings_total{{{name}}} 2"),
            format!("punctual_machine_state{{{name},state=\"held\"}} 1"),
            format!("punctual_last_seen_timestamp_seconds{{{name}}} 1700000000"),
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
        assert!(!text.contains("latest_latency_max_seconds{"), "{text}");
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
