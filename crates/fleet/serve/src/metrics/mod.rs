//! Metrics for Prometheus: for each machine, its state, and a histogram of all its due periods.

mod claims;
pub(crate) mod push;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use punctual_metrics::{Family, Figures, Kind, Sample, Value, bounds, encode, seconds};
use punctual_model::Nanos;
use punctual_store::{Machine, Total};

use crate::fleet::Judge;
use crate::problem::Problem;
use crate::state::{App, Inner};

/// Returns the metrics of all machines in the requested format.
pub(crate) async fn get(State(app): State<App>, headers: HeaderMap) -> Result<Response, Problem> {
    let families = app.work(of_app).await?;
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    let (kind, body) = encode(accept, &families);
    Ok(([(header::CONTENT_TYPE, kind)], body).into_response())
}

/// Returns the metrics of all machines.
pub(crate) fn of_app(app: &Inner) -> Result<Vec<Family>, Problem> {
    let machines = app.collection.machines_in_service()?;
    let names: BTreeSet<&str> = machines.iter().map(|one| one.name.as_str()).collect();
    let mut totals = app.collection.totals()?;
    totals.retain(|(name, _)| names.contains(name.as_str()));
    let judge = Judge::now(app.config.silent_after, &app.worse);
    let bounds = bounds(app.config.requirement);
    let mut all = families(&machines, &totals, &bounds, &|machine| {
        judge.state_of(machine).name()
    });
    let newest = app.newest.of(app.collection.as_ref(), &machines)?;
    let newest = (newest.iter()).map(|(name, newest)| (*name, Arc::clone(&newest.claims)));
    let mut claims: Vec<claims::Claimed<'_>> = newest.collect();
    let proven = app.worse.claims();
    let proven = proven
        .iter()
        .map(|(name, claims)| (name.as_str(), Arc::clone(claims)));
    claims.extend(proven);
    all.extend(claims::families(&claims));
    Ok(all)
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
        value: Value::Histogram(Box::new(Figures::new(&total.due, bounds))),
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

    fn some() -> Vec<Family> {
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
            retired: None,
        };
        families(
            &[machine],
            &[(name.to_owned(), total)],
            &punctual_metrics::BOUNDS,
            &|_| "held",
        )
    }

    #[test]
    fn machines_have_state_and_totals() {
        let text = String::from_utf8(encode(None, &some()).1).unwrap();
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
}
