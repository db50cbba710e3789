//! `irqs`: which interrupt comes where, who handles it, and sending it
//! elsewhere.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command};
use punctual_host::Host;
use punctual_model::{InterruptKind, InterruptRecord, Nanos};
use punctual_report::text::{self, InterruptRow};

use super::{Verb, measure, parsed};
use crate::context::Context;
use crate::exit::Exit;
use crate::output;

pub(super) const VERB: Verb = Verb { command, run };

/// How long is counted for a rate where no time is given.
const USUAL_WATCH: &str = "1s";

/// How often it is seen whether to end.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

fn command() -> Command {
    Command::new("irqs")
        .about("List interrupts: how often on which CPU, where they go, who handles them")
        .long_about(
            "List the interrupts that came: how often on each CPU, the CPUs they may go to and do \
             go to, the threads that handle them with their priority, whether they come by message \
             (MSI) or by line, which devices share a line; and the kernel's own (timers, calls \
             between CPUs, NMI). With --watch as rates.\n\n\
             An interrupt is sent elsewhere by `punctual tune apply --set`: journalled, read back, \
             and put back exactly.",
        )
        .arg(
            Arg::new("all")
                .long("all")
                .action(ArgAction::SetTrue)
                .help("Also those that never came"),
        )
        .arg(
            Arg::new("devices")
                .long("devices")
                .action(ArgAction::SetTrue)
                .help("Without the kernel's own"),
        )
        .arg(
            Arg::new("watch")
                .long("watch")
                .value_name("TIME")
                .num_args(0..=1)
                .default_missing_value(USUAL_WATCH)
                .value_parser(parsed::<Nanos>())
                .help("As rates, counted over this time [default: 1s]"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("As JSON on stdout"),
        )
}

fn run(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    let host = Host::live();
    let before = host.interrupts()?;
    let mut rows = match matches.get_one::<Nanos>("watch") {
        None => before
            .into_iter()
            .map(|interrupt| InterruptRow {
                counts: interrupt.counts.clone(),
                interrupt,
                over_ns: None,
            })
            .collect(),
        Some(time) => watched(&host, &before, *time)?,
    };
    rows.retain(|row| {
        (matches.get_flag("all") || row.counts.iter().any(|count| count.1 > 0))
            && !(matches.get_flag("devices") && row.interrupt.kind == InterruptKind::Kernel)
    });
    if matches.get_flag("json") {
        let values: Vec<_> = rows.iter().map(json).collect();
        output::print(&format!("{}\n", serde_json::to_string_pretty(&values)?))?;
    } else {
        output::print(&text::interrupts(&rows, &context.style()))?;
    }
    Ok(Exit::Done)
}

fn watched(host: &Host, before: &[InterruptRecord], time: Nanos) -> Result<Vec<InterruptRow>> {
    let stop = measure::stop_flag()?;
    let began = Instant::now();
    let time = Duration::from_nanos(time.0);
    while began.elapsed() < time && !stop.load(Ordering::Relaxed) {
        thread::sleep(LOOK_AGAIN.min(time.saturating_sub(began.elapsed())));
    }
    let after = host.interrupts()?;
    let over = began.elapsed().as_nanos() as u64;
    Ok(after
        .into_iter()
        .filter_map(|interrupt| {
            let earlier = before.iter().find(|before| before.id == interrupt.id)?;
            Some(InterruptRow {
                counts: interrupt.since(earlier),
                interrupt,
                over_ns: Some(over),
            })
        })
        .collect())
}

fn json(row: &InterruptRow) -> serde_json::Value {
    let mut value = serde_json::json!(row.interrupt);
    value["counts"] = serde_json::json!(row.counts);
    value["counts_in_ns"] = serde_json::json!(row.over_ns);
    value["shared"] = serde_json::json!(row.interrupt.is_shared());
    value
}
