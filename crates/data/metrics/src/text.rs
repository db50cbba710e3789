//! Metrics as text. <https://prometheus.io/docs/instrumenting/exposition_formats/>

use std::fmt::Write;

use crate::{Family, Kind, Sample, Value};

pub(crate) const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Encodes metrics as text. Writing to a string cannot fail.
pub(crate) fn encode(families: &[Family]) -> String {
    let mut out = String::new();
    for family in families {
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let Family { name, help, .. } = family;
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for sample in &family.samples {
            push(&mut out, name, sample);
        }
    }
    out
}

fn push(out: &mut String, name: &str, sample: &Sample) {
    let labels = labels(sample);
    match &sample.value {
        Value::Number(value) => {
            let _ = writeln!(out, "{name}{{{labels}}} {}", number(*value));
        }
        Value::Histogram(figures) => {
            for (bound, count) in &figures.classic {
                let bound = number(*bound);
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
