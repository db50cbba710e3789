//! Limits of a run.

use clap::Args;
use punctual_model::{Limit, Metric, Nanos, Requirement};

use crate::verb::Invalid;

// Limits that apply to each measuring thread or channel.
#[derive(Args)]
pub(crate) struct Limits {
    /// Require that no latency is above this; exit code 3 if broken
    #[arg(long, value_name = "TIME")]
    pub(crate) max_latency: Option<Nanos>,
    /// Warn if a latency is above this; the exit code stays the same
    #[arg(long, value_name = "TIME")]
    pub(crate) warn_latency: Option<Nanos>,
    /// Require that a percentile of the due periods is at most this: 99.9=50us
    #[arg(long, value_name = "P=TIME", value_parser = percentile_limit)]
    pub(crate) max_percentile: Vec<Limit>,
    /// Require that no thread misses more periods than this
    #[arg(long, value_name = "N")]
    pub(crate) max_missed: Option<u64>,
    /// Judge the machine instead of this run, with this confidence: 95%
    ///
    /// Without this option, the verdict states whether this run met or exceeded the requirement.
    /// With it, the verdict states whether the machine holds or breaks the requirement, or that
    /// neither is proven. This assumes that the machine behaves at other times as it did during the
    /// measurement. Only a percentile can be proven to hold: no run is long enough to prove that
    /// something never happens.
    #[arg(long, value_name = "PERCENT", value_parser = confidence)]
    pub(crate) confidence: Option<f64>,
}

impl Limits {
    /// Returns the requirement, with these limits in addition.
    pub(crate) fn requirement(&self, windows: Option<Limit>) -> Requirement {
        let max = self.max_latency.map(|latency| Limit {
            metric: Metric::Max,
            at_most: latency.0,
        });
        let missed = self.max_missed.map(|missed| Limit {
            metric: Metric::Missed,
            at_most: missed,
        });
        let warn = self.warn_latency.map(|latency| Limit {
            metric: Metric::Warn,
            at_most: latency.0,
        });
        let percentiles = self.max_percentile.iter().copied();
        Requirement {
            limits: (max.into_iter().chain(percentiles).chain(missed))
                .chain(windows)
                .chain(warn)
                .collect(),
            confidence: self.confidence,
            periodic: None,
        }
    }
}

fn confidence(text: &str) -> Result<f64, Invalid> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>()? / 100.0,
        None => text.parse::<f64>()?,
    };
    if (0.5..=0.9999).contains(&share) {
        Ok(share)
    } else {
        Err("must be 50% to 99.99%".into())
    }
}

fn percentile_limit(text: &str) -> Result<Limit, Invalid> {
    let (percentile, time) = text.split_once('=').ok_or_else(|| {
        format!("'{text}' does not have the form P=TIME: write for example 99.9=50us")
    })?;
    let metric: Metric = format!("p{}", percentile.trim_start_matches('p')).parse()?;
    let Nanos(at_most) = time.parse()?;
    Ok(Limit { metric, at_most })
}
