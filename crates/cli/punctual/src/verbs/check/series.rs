//! `check --series`: judges the runs of a sampled series.

use std::path::Path;

use anyhow::Result;
use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use punctual_history::{ProofQuery, prove};
use punctual_report::{document, html, text};

use crate::context::Context;
use crate::exit::Exit;
use crate::options::{extension, since};
use crate::output::{self, Output};

// Which runs are judged instead of a new measurement.
#[derive(Args)]
pub(super) struct OfSeries {
    /// Judge the runs of a sampled series of punctual monitor; measures nothing
    ///
    /// The runs were at random times of a period, such as a week, so the verdict is about the whole
    /// period. A missing run counts as late.
    #[arg(long, value_name = "SERIES", conflicts_with_all = MEASURING)]
    series: Option<String>,
    /// With --series: the machine, if several have this series
    #[arg(long, value_name = "NAME", requires = "series")]
    host: Option<String>,
    /// With --series: a time in the period to judge [default: the newest one that has ended]
    #[arg(long, value_name = "TIME", value_parser = since, requires = "series")]
    at: Option<Timestamp>,
}

/// Options that only a measurement uses.
const MEASURING: [&str; 12] = [
    "period",
    "budget",
    "misses",
    "cpus",
    "priority",
    "share_cpus",
    "load",
    "duration",
    "until_proven",
    "label",
    "quiet",
    "verbose",
];

impl OfSeries {
    /// Judges the series, if one was given. `allowed` is the tolerated number of late seconds per
    /// day; `usual` applies if neither the command line nor the plan has one. `page` is the HTML page
    /// to write.
    pub(super) fn run(
        &self,
        allowed: Option<f64>,
        usual: f64,
        (json, page): (bool, Option<&Path>),
        context: &Context,
    ) -> Result<Option<Exit>> {
        let Some(name) = &self.series else {
            return Ok(None);
        };
        if let Some(page) = page {
            extension::check(page, &["html"])?;
        }
        let page = page.map(Output::open).transpose()?;
        let page_on_stdout = page.as_ref().is_some_and(Output::is_stdout);
        if json && page_on_stdout {
            return Err(super::one_format().into());
        }
        let store = context.store_to_read()?;
        let query = ProofQuery {
            host: self.host.clone(),
            at: self.at,
            now: Timestamp::now(),
            max_late_seconds_per_day: allowed,
            usual,
        };
        let proof = prove(&store, name, &query)?;
        let shown = document::series_proof(&proof, &TimeZone::system());
        if json {
            output::print(&output::json(&proof))?;
        } else if !page_on_stdout {
            output::print(&text::render(&shown, &context.style()))?;
        }
        if let Some(page) = page {
            page.put(html::page(&shown.title, std::slice::from_ref(&shown)).as_bytes())?;
        }
        Ok(Some(match proof.outcome {
            outcome if outcome.is_bad() => Exit::Broken,
            outcome if outcome.is_good() => Exit::Done,
            _ => Exit::NotProven,
        }))
    }
}
