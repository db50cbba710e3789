//! The options of `monitor`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use jiff::Timestamp;
use punctual_model::SlotState;

use crate::options::since;
use crate::verb::named;

/// Measure on a schedule for years, as a service
///
/// The plan is a TOML file. It lists series (a probe, its parameters, loads, or an application;
/// and when to measure: times of day, intervals, after a boot or a change of the kernel),
/// windows in which all wake-ups are counted, a flight recorder of trace events between the runs, and
/// how long samples, trace events and rows are kept. Each due time of a series is a slot. A
/// slot is measured in its own process, and ends as a recording, or as a row with the reason
/// why there is none. If the definition of a series changes, a new epoch begins.
///
/// Example of a plan:
///
/// [[series]]
/// name = "osadl"
/// probe = "timer"
/// parameters = { interval = "200us" }
/// phases = "idle:2h,farm:3h33m"
/// at = ["07:10", "19:10"]
/// after = ["boot", "kernel-change"]
/// explain = "100us"
///
/// [[series]]
/// name = "motion"
/// unit = "motion.service"
/// budget = "1ms"
/// every = "1h"
///
/// [watch]
/// window = "5min"
/// listen = "127.0.0.1:9760"
/// by = ["cpu", "cgroup"]
///
/// [flight]
/// last = "60s"
/// memory = "32MB"
///
/// [keep]
/// samples = "14d"
/// traces = "90d"
/// rows = "2y"
/// size = "2GB"
///
/// [push]
/// to = "https://collector.example:8090"
/// token_file = "/etc/punctual/token"
#[derive(Parser)]
#[allow(rustdoc::broken_intra_doc_links, reason = "sections of a plan")]
#[allow(rustdoc::bare_urls, reason = "an address in a plan")]
#[command(verbatim_doc_comment, disable_help_subcommand = true)]
#[command(arg_required_else_help = true)]
pub(super) struct Options {
    #[command(subcommand)]
    pub(super) what: What,
}

#[derive(Subcommand)]
pub(super) enum What {
    /// Check a plan and show when its series are due
    Check {
        #[command(flatten)]
        plan: PlanFile,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run the plan until SIGTERM, as the service does
    Run {
        #[command(flatten)]
        plan: PlanFile,
    },
    /// Measure one slot of a series now
    Once {
        /// Name of the series
        #[arg(value_name = "SERIES")]
        series: String,
        #[command(flatten)]
        plan: PlanFile,
    },
    /// Show the series with their next and latest slots
    Status {
        #[command(flatten)]
        plan: PlanFile,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List slots, the newest first
    Slots(Slots),
    /// Print the unit file of the service
    Install {
        #[command(flatten)]
        plan: PlanFile,
        /// Write the unit file to /etc/systemd/system
        #[arg(long)]
        write: bool,
    },
    /// Store the latest wake-ups and trace events, for example after an incident
    Snapshot {
        /// Text of the note that is stored with the snapshot
        #[arg(long, value_name = "TEXT")]
        text: Option<String>,
    },
}

// The plan.
#[derive(Args)]
pub(super) struct PlanFile {
    /// Plan
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/punctual/monitor.toml"
    )]
    pub(super) plan: PathBuf,
}

// Which slots.
#[derive(Args)]
pub(super) struct Slots {
    /// Only slots of this series
    #[arg(long, value_name = "SERIES")]
    pub(super) series: Option<String>,
    /// Only slots due since this time: 2026-11-03, an RFC 3339 time, or 24h
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub(super) since: Option<Timestamp>,
    /// Only slots in this state
    #[arg(long, value_name = "STATE")]
    #[arg(value_parser = named(SlotState::ALL.iter().map(|state| (state.name(), *state)).collect()))]
    pub(super) state: Option<SlotState>,
    /// Only the newest N
    #[arg(short = 'n', long, value_name = "N")]
    pub(super) limit: Option<usize>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}
