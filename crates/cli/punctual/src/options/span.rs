//! Options of the verbs that look back: trend, plot and report.

use anyhow::Result;
use clap::Args;
use jiff::Timestamp;
use punctual_model::Nanos;
use punctual_stats::trend::TrendQuery;

use crate::options::since;

// Selects the runs to analyse.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Span {
    /// Only runs since this time: 2026-11-03, an RFC 3339 time, or 112d
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub(crate) since: Option<Timestamp>,
    /// Only runs of this machine
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    /// Count periods that start later than this [default: chosen from the runs]
    #[arg(long, value_name = "TIME")]
    pub(crate) threshold: Option<Nanos>,
}

impl Span {
    pub(crate) fn query(&self) -> TrendQuery {
        TrendQuery {
            host: self.host.clone(),
            since: self.since,
            threshold_ns: self.threshold,
        }
    }
}

/// Returns the author of a note or a decision: the given name, or the name of the user if none is
/// given.
pub(crate) fn author(given: Option<String>) -> Result<String> {
    let named = || {
        ["USER", "LOGNAME"]
            .iter()
            .find_map(|name| std::env::var(name).ok())
    };
    let who = given.or_else(named).filter(|who| !who.trim().is_empty());
    Ok(who.unwrap_or_else(|| match rustix::process::getuid() {
        rustix::process::Uid::ROOT => "root".to_owned(),
        user => format!("uid {}", user.as_raw()),
    }))
}
