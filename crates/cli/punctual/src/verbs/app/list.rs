//! `app list`: lists applications that publish their figures.

use anyhow::Result;
use clap::Args;
use punctual_host::Host;
use punctual_model::{Nanos, grouped};
use punctual_report::document::{Block, Column, Document, Row, Section, Table};
use punctual_report::text;
use punctual_session::{Application, ChannelState, applications};
use serde::Serialize;

use crate::context::{Context, hidden};
use crate::exit::Exit;
use crate::output::{self, note};

#[derive(Args)]
pub(super) struct List {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// An application that publishes its figures.
#[derive(Serialize)]
pub(in crate::verbs) struct ApplicationJson {
    /// ID of its process.
    pid: u32,
    /// The process's name.
    comm: String,
    /// Name under which the application publishes its figures.
    name: String,
    /// Its channels.
    channels: Vec<ChannelJson>,
}

punctual_model::to_json!(ApplicationJson);

/// A channel, with its counters since the application created it.
#[derive(Serialize)]
struct ChannelJson {
    /// Its name.
    name: String,
    /// Kind of its samples: latency, response, execution or other.
    kind: &'static str,
    /// ID of the thread that records into the channel, as seen in its own process.
    tid: u32,
    /// Its period; null if the channel has none.
    period_ns: Option<u64>,
    /// Budget of a sample; a larger sample is an outlier. Null if the channel has no budget.
    budget_ns: Option<u64>,
    /// Number of periods that came due; null if the channel has no period.
    expected: Option<u64>,
    /// Number of samples.
    recorded: u64,
    /// Number of periods without a job; null if the channel has no period.
    missed: Option<u64>,
    /// Number of jobs that began when the next period was already due; null if the channel has no
    /// period.
    late: Option<u64>,
    /// Number of samples above the budget; null if the channel has no budget.
    over_budget: Option<u64>,
    /// The smallest sample; null if there are no samples.
    min_ns: Option<u64>,
    /// The largest sample; null if there are no samples.
    max_ns: Option<u64>,
}

impl List {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let host = Host::live();
        let (all, refused, closed) = applications(&host);
        if self.json {
            let rows: Vec<ApplicationJson> = all.iter().map(json_of).collect();
            output::print(&output::json(&rows))?;
        } else if all.is_empty() {
            output::print("No application publishes figures.\n")?;
        } else {
            output::print(&text::render(&document(&all), &context.list_style()))?;
        }
        if let Some(option) = host.hiding_option() {
            note(&hidden(&option));
        }
        for refusal in refused {
            note(&refusal.to_string());
        }
        if closed > 0 {
            let processes = if closed == 1 { "process" } else { "processes" };
            note(&format!(
                "cannot read the open files of {closed} {processes} (of other users, or not \
                 dumpable), so it is unknown whether these publish figures; run as root to see them"
            ));
        }
        Ok(Exit::Done)
    }
}

fn json_of(application: &Application) -> ApplicationJson {
    let channel = |channel: &ChannelState| {
        let ChannelState { head, counts } = channel;
        let periods = |count| (counts.due > 0).then_some(count);
        ChannelJson {
            name: head.name.clone(),
            kind: head.kind.name(),
            tid: head.tid,
            period_ns: head.period_ns,
            budget_ns: head.budget_ns,
            expected: periods(counts.due),
            recorded: counts.run,
            missed: periods(counts.missed),
            late: periods(counts.late),
            over_budget: head.budget_ns.map(|_| counts.over_budget),
            min_ns: counts.min_ns,
            max_ns: counts.min_ns.map(|_| counts.max_ns),
        }
    };
    ApplicationJson {
        pid: application.pid,
        comm: application.comm.clone(),
        name: application.name.clone(),
        channels: application.channels.iter().map(channel).collect(),
    }
}

fn document(all: &[Application]) -> Document {
    let right = |title: &str, drop| Column {
        drop,
        ..Column::right(title)
    };
    let columns = vec![
        Column::right("pid"),
        Column::left("application"),
        Column::left("channel"),
        Column::left("kind"),
        right("period", 4),
        Column::right("samples"),
        right("missed", 2),
        right("late", 3),
        Column::right("max"),
        right("budget", 5),
    ];
    let rows = all.iter().flat_map(|application| {
        let name = match application.name.as_str() {
            "" => &application.comm,
            name => name,
        };
        application
            .channels
            .iter()
            .map(move |ChannelState { head, counts }| {
                let time = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| Nanos(ns).to_string());
                let of_periods = |count| match counts.due {
                    0 => "-".to_owned(),
                    _ => grouped(count),
                };
                Row::new([
                    application.pid.to_string(),
                    name.to_owned(),
                    head.name.clone(),
                    head.kind.name().to_owned(),
                    time(head.period_ns),
                    grouped(counts.run),
                    of_periods(counts.missed),
                    of_periods(counts.late),
                    time(counts.min_ns.map(|_| counts.max_ns)),
                    time(head.budget_ns),
                ])
            })
    });
    let table = Table::new(columns, rows.collect());
    let mut document = Document::default();
    document.push(Section::new(vec![Block::Table(table)]));
    document
}
