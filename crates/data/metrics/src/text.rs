//! Metrics as text: of Prometheus (<https://prometheus.io/docs/instrumenting/exposition_formats/>)
//! and OpenMetrics 1.0 (<https://prometheus.io/docs/specs/om/open_metrics_spec/>).

use std::fmt::Write;

use crate::{Family, Kind, Sample, Value};

/// The two forms of text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Prometheus,
    OpenMetrics,
}

impl Form {
    /// Returns the media type.
    pub(crate) const fn kind(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Formats the upper bound of a bucket.
    fn bound(self, value: f64) -> String {
        match self {
            Self::Prometheus => number(value),
            Self::OpenMetrics => canonical(value),
        }
    }
}

/// Encodes metrics as text. Writing to a string cannot fail.
pub(crate) fn encode(families: &[Family], form: Form) -> String {
    let mut out = String::new();
    for family in families {
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let Family { name, help, .. } = family;
        // In OpenMetrics, the suffix belongs to the sample of a counter, not to its name.
        let title = match (form, family.kind) {
            (Form::OpenMetrics, Kind::Counter) => name.strip_suffix("_total").unwrap_or(name),
            _ => name,
        };
        let _ = writeln!(out, "# HELP {title} {help}\n# TYPE {title} {kind}");
        for sample in &family.samples {
            push(&mut out, name, sample, form);
        }
    }
    if form == Form::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

fn push(out: &mut String, name: &str, sample: &Sample, form: Form) {
    let labels = labels(sample);
    match &sample.value {
        Value::Number(value) => {
            let _ = writeln!(out, "{name}{{{labels}}} {}", number(*value));
        }
        Value::Histogram(figures) => {
            for (bound, count) in &figures.classic {
                let bound = form.bound(*bound);
                let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
            }
            let (count, sum) = (figures.count, number(figures.sum_s));
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
            let _ = writeln!(out, "{name}_sum{{{labels}}} {sum}");
            let _ = writeln!(out, "{name}_count{{{labels}}} {count}");
        }
    }
}

/// Formats a number in its shortest form that parses to the same value.
fn number(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-3 {
        format!("{value:e}")
    } else {
        value.to_string()
    }
}

/// Formats a bound like the client libraries: `1e-06`, `0.0001`, `1.0`.
fn canonical(value: f64) -> String {
    if value == 0.0 || value.abs() >= 1e-4 {
        return format!("{value:?}");
    }
    let text = format!("{value:e}");
    match text.split_once("e-") {
        Some((digits, exponent)) => format!("{digits}e-{exponent:0>2}"),
        None => text,
    }
}

fn labels(sample: &Sample) -> String {
    let each = sample.labels.iter().map(|(name, value)| {
        let value = value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    });
    each.collect::<Vec<_>>().join(",")
}
