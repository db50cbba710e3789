//! Metrics pushed using OTLP over HTTP, as protobuf: cumulative sums, gauges and exponential
//! histograms, which have the same buckets as native ones.
//! <https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/metrics/v1/metrics.proto>

use std::time::{Duration, Instant};

use jiff::Timestamp;

use punctual_metrics::{Family, Figures, Kind, Message, SCHEMA, Sample, Value, ZERO_S};

use crate::config::PushTo;
use crate::state::Inner;

/// Timeout of a push. If a receiver is slow, it gets the metrics of the next push instead.
const PATIENCE: Duration = Duration::from_secs(20);
/// Maximum number of samples per request, some 500 bytes each.
const AT_ONCE: usize = 2_000;
/// Sums are cumulative since the first recording.
const CUMULATIVE: u64 = 2;

/// Pushes metrics periodically.
pub(crate) struct Push {
    to: PushTo,
    last: Option<Instant>,
}

impl Push {
    pub(crate) fn new(to: PushTo) -> Self {
        Self { to, last: None }
    }

    /// Sends all metrics if they are due. A failure is logged. Nothing is lost, because the next
    /// push includes the same sums.
    pub(crate) fn send_if_due(&mut self, app: &Inner) {
        if self.last.is_some_and(|last| last.elapsed() < self.to.every) {
            return;
        }
        self.last = Some(Instant::now());
        let why = match super::of_app(app) {
            Ok(families) => self.send(&families).err().map(|error| error.to_string()),
            Err(problem) => Some(problem.message),
        };
        if let Some(why) = why {
            crate::log::complain(&format!("metrics to {}: {why}", self.to.url));
        }
    }

    fn send(&self, families: &[Family]) -> Result<(), ureq::Error> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .build()
            .into();
        let now = Timestamp::now();
        for family in families {
            for samples in family.samples.chunks(AT_ONCE) {
                let body = request(family, samples, now);
                agent
                    .post(&self.to.url)
                    .header("Content-Type", "application/x-protobuf")
                    .send(body.as_slice())?;
            }
        }
        Ok(())
    }
}

fn text_value(text: &str) -> Message {
    let mut value = Message::default();
    value.bytes(1, text.as_bytes());
    value
}

fn attribute(name: &str, value: &str) -> Message {
    let mut attribute = Message::default();
    attribute.bytes(1, name.as_bytes());
    attribute.bytes(2, &text_value(value).0);
    attribute
}

/// Returns an `ExportMetricsServiceRequest` with samples of one metric.
fn request(family: &Family, samples: &[Sample], now: Timestamp) -> Vec<u8> {
    let mut resource = Message::default();
    resource.bytes(1, &attribute("service.name", "punctual").0);
    let mut scope = Message::default();
    scope.bytes(1, b"punctual");
    scope.bytes(2, env!("CARGO_PKG_VERSION").as_bytes());
    let mut of_scope = Message::default();
    of_scope.bytes(1, &scope.0);
    of_scope.bytes(2, &metric(family, samples, now).0);
    let mut of_resource = Message::default();
    of_resource.bytes(1, &resource.0);
    of_resource.bytes(2, &of_scope.0);
    let mut request = Message::default();
    request.bytes(1, &of_resource.0);
    request.0
}

/// Returns a metric. Its name has no unit and no `_total`, because Prometheus appends them.
fn metric(family: &Family, samples: &[Sample], now: Timestamp) -> Message {
    let name = family.name.strip_suffix("_total").unwrap_or(family.name);
    let (name, unit) = match name.strip_suffix("_seconds") {
        Some(name) => (name, "s"),
        None => (name, "1"),
    };
    let mut metric = Message::default();
    metric.bytes(1, name.as_bytes());
    metric.bytes(2, family.help.as_bytes());
    // Prometheus would append `_ratio` to the name of a gauge with unit 1.
    if unit == "s" {
        metric.bytes(3, unit.as_bytes());
    }
    let mut data = Message::default();
    for sample in samples {
        data.bytes(1, &point(sample, now).0);
    }
    let field = match family.kind {
        Kind::Gauge => 5,
        Kind::Counter => {
            data.unsigned(2, CUMULATIVE);
            data.unsigned(3, 1);
            7
        }
        Kind::Histogram => {
            data.unsigned(2, CUMULATIVE);
            10
        }
    };
    metric.bytes(field, &data.0);
    metric
}

fn point(sample: &Sample, now: Timestamp) -> Message {
    let now = u64::try_from(now.as_nanosecond()).unwrap_or(0);
    let mut point = Message::default();
    match &sample.value {
        Value::Number(number) => {
            point.fixed(3, now);
            point.double(4, *number);
            for (name, value) in &sample.labels {
                point.bytes(7, &attribute(name, value).0);
            }
        }
        Value::Histogram(figures) => {
            for (name, value) in &sample.labels {
                point.bytes(1, &attribute(name, value).0);
            }
            histogram(&mut point, figures, now);
        }
    }
    point
}

fn histogram(point: &mut Message, figures: &Figures, now: u64) {
    point.fixed(3, now);
    point.fixed(4, figures.count);
    point.double(5, figures.sum_s);
    point.signed(6, SCHEMA.into());
    point.fixed(7, figures.native.zero);
    let (first, counts) = figures.native.dense();
    let mut packed = Message::default();
    counts.into_iter().for_each(|count| packed.varint(count));
    let mut buckets = Message::default();
    // The upper bound of a native bucket is the lower bound of the OTLP bucket with the same index.
    buckets.signed(1, i64::from(first) - 1);
    buckets.bytes(2, &packed.0);
    point.bytes(8, &buckets.0);
    point.double(14, ZERO_S);
}
