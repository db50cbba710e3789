//! `machine clocks`: shows the clock sources of the machine and its POSIX clocks.

use anyhow::Result;
use clap::{Parser, Subcommand};
use punctual_host::Host;
use punctual_model::Fact;
use punctual_report::document::{self, ClockRow};
use punctual_report::text;
use punctual_rt::PosixClock;
use serde::Serialize;

use crate::context::Context;
use crate::exit::Exit;
use crate::output;
use crate::settings;
use crate::verb::Run;

const LONG: &str = "List the current and the available clock sources, and the POSIX clocks with \
    the kernel's resolution. `punctual measure clock` measures the cost of a reading and the \
    actual resolution. `punctual machine clocks set tsc` selects another source, and `punctual tune \
    revert` restores the previous one from the journal.";

/// List clock sources and POSIX clocks, with their resolution
#[derive(Parser)]
#[command(long_about = LONG)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(super) struct Clocks {
    #[command(subcommand)]
    change: Option<Change>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum Change {
    /// Select another clock source, until `punctual tune revert`
    Set {
        /// One of the available clock sources
        #[arg(value_name = "SOURCE")]
        source: String,
    },
}

/// All clocks as JSON.
#[derive(Serialize)]
pub(in crate::verbs) struct ClocksJson {
    /// The current clock source.
    source: Fact<String>,
    /// The available clock sources.
    available: Fact<Vec<String>>,
    /// The POSIX clocks.
    clocks: Vec<ClockJson>,
}

punctual_model::to_json!(ClocksJson);

/// A POSIX clock as JSON.
#[derive(Serialize)]
struct ClockJson {
    /// `CLOCK_…`.
    name: String,
    /// The resolution that clock_getres(2) returns; null if this kernel does not have the clock.
    resolution_ns: Option<u64>,
    /// Its meaning.
    what: String,
}

impl Run for Clocks {
    fn run(self, context: &Context) -> Result<Exit> {
        if let Some(Change::Set { source }) = self.change {
            return settings::apply_some(&[format!("clocksource={source}")], context);
        }
        let clock = Host::live().facts().clock;
        let rows: Vec<ClockRow> = PosixClock::ALL
            .iter()
            .map(|posix| ClockRow {
                name: format!("CLOCK_{}", posix.short_name()),
                resolution_ns: posix.resolution().map(|time| time.as_nanos() as u64),
                what: what(*posix).to_owned(),
            })
            .collect();
        let out = if self.json {
            let named = |row: ClockRow| ClockJson {
                name: row.name,
                resolution_ns: row.resolution_ns,
                what: row.what,
            };
            let all = ClocksJson {
                source: clock.source,
                available: clock.available,
                clocks: rows.into_iter().map(named).collect(),
            };
            output::json(&all)
        } else {
            let shown = document::clocks(&clock.source, &clock.available, &rows);
            text::render(&shown, &context.style())
        };
        output::print(&out)?;
        Ok(Exit::Done)
    }
}

/// Returns the meaning of a clock, as described in clock_gettime(2).
const fn what(clock: PosixClock) -> &'static str {
    match clock {
        PosixClock::Realtime => "wall-clock time; steps when the clock is set",
        PosixClock::RealtimeCoarse => "the same clock, as of the last tick",
        PosixClock::Tai => "the same clock, without leap seconds",
        PosixClock::Monotonic => "time since boot; the rate is adjusted, but the time never steps",
        PosixClock::MonotonicCoarse => "the same clock, as of the last tick",
        PosixClock::MonotonicRaw => "time since boot, at the rate of the hardware",
        PosixClock::Boottime => "time since boot, including suspension",
        PosixClock::ProcessCpuTime => "CPU time of this process",
        PosixClock::ThreadCpuTime => "CPU time of this thread",
    }
}
