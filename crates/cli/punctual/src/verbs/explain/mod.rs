//! `explain`: causes of outliers of a recording, or of late wake-ups of a running
//! application.

mod recorded;
mod threads;
pub(super) mod timelines;

use anyhow::Result;
use clap::{Parser, value_parser};

use super::select::OneRecording;
use super::{Run, Verb};
use crate::context::Context;
use crate::exit::Exit;

pub(in crate::verbs) use recorded::{ExplainedJson, OutlierJson};

pub(super) const VERB: Verb = Verb::of::<Explain>("explain");

const AFTER: &str = "With --pid, --comm or --cgroup the jobs of the threads are followed: from the release (the wake-up \
             that ends the wait at which a thread is idle) to the completion (the thread goes to \
             that wait again). A job above the budget is split into shares that add up to its \
             response time. The result is a recording, of the probe 'jobs'. With --wait each wait \
             for a CPU above the threshold is explained, in a recording of the probe 'threads'.";

/// Find what delayed the outliers of a recording or an application
#[derive(Parser)]
#[command(after_help = AFTER)]
struct Explain {
    #[command(flatten)]
    selected: OneRecording,
    /// Only this outlier [default: all, with the largest in detail]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    outlier: Option<u64>,
    /// Show all kept events, not only a screenful
    #[arg(long)]
    all_events: bool,
    /// Print JSON with all events; for an application, the recording
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    application: threads::Application,
}

impl Run for Explain {
    fn run(self, context: &Context) -> Result<Exit> {
        match self.application.targets()? {
            Some(targets) => self.application.run(targets, self.json, context),
            None => recorded::run(&self, context),
        }
    }
}
