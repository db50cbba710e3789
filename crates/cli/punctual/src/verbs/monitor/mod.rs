//! `monitor`: measures according to a plan, for years.

mod in_process;
mod install;
mod options;
mod push;
mod serve;
mod settings;
mod slot_process;
mod snapshot;
mod unit;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use punctual_files::{Budget, FileError, trusted};
use punctual_host::Host;
use punctual_model::Slot;
use punctual_monitor::{
    Ageing, Clock, Plan, PlanError, PlanText, SeriesPlan, Serving, SystemClock, next_due,
    process_serving, read_plan, serving,
};
use punctual_report::document::{self, SeriesRow};
use punctual_report::{document::Field, text};
use punctual_store::{SlotFilter, Store};
use serde::Serialize;

use self::options::{Options, PlanFile, Slots, What};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::verb::{Run, Verb};

pub(super) const VERB: Verb = Verb::new::<Options>("monitor");

pub(super) use slot_process::VERB as SERVE_SLOT;

/// Maximum size of a plan, in bytes.
const LONGEST_PLAN: u64 = 1 << 20;

impl Run for Options {
    fn run(self, context: &Context) -> Result<Exit> {
        match self.what {
            What::Check { plan, json } => check(&plan.read()?, json, context),
            What::Run { plan } => serve::run(&plan, context),
            What::Once { series, plan } => in_process::once(&series, &plan, context),
            What::Status { plan, json } => status(&plan, json, context),
            What::Slots(slots) => list(slots, context),
            What::Install { plan, write } => install::install(&plan, write, context),
            What::Snapshot { text } => snapshot::snapshot(text.as_deref(), context),
        }
    }
}

impl PlanFile {
    /// Reads the plan.
    fn read(&self) -> Result<Plan> {
        read(&self.text()?)
    }

    /// Reads the text of the plan. If this process runs as root, only root may have been able to
    /// write the plan.
    fn text(&self) -> Result<PlanText> {
        let path = &self.plan;
        let read = if rustix::process::geteuid().is_root() {
            trusted::text(path, LONGEST_PLAN)
        } else {
            Budget::bytes(LONGEST_PLAN).read_text(path)
        };
        let text = read.map_err(|error: FileError| match error.kind() {
            std::io::ErrorKind::NotFound => anyhow::Error::from(UsageError(format!(
                "the plan {} does not exist: write a plan, or pass --plan FILE",
                path.display()
            ))),
            _ => error.into(),
        })?;
        Ok(PlanText {
            name: path.display().to_string(),
            text,
        })
    }
}

fn read(plan: &PlanText) -> Result<Plan> {
    let plan = read_plan(&plan.name, &plan.text);
    plan.map_err(|error: PlanError| UsageError(error.to_string()).into())
}

fn measured(series: &SeriesPlan) -> String {
    let length = series.length();
    let conditions = match &series.phases {
        Some(phases) => format!(", {phases}"),
        None => format!(", {length}"),
    };
    let cpus = series.cpus.as_ref();
    let cpus = cpus
        .map(|cpus| format!(", CPUs {cpus}"))
        .unwrap_or_default();
    format!("{}{conditions}{cpus}", series.measured)
}

/// Returns the series of a plan, with their data in the store.
fn rows(plan: &Plan, store: Option<&Store>, zone: &TimeZone) -> Result<Vec<SeriesRow>> {
    let now = SystemClock.now();
    let id = Host::live().machine();
    let epochs = store.map(Store::series).transpose()?.unwrap_or_default();
    let row = |series: &SeriesPlan| -> Result<SeriesRow> {
        let filter = SlotFilter {
            series: Some(series.name.clone()),
            limit: Some(1),
            ..SlotFilter::default()
        };
        let last = store.map(|store| store.slots(&filter)).transpose()?;
        let own = epochs
            .iter()
            .filter(|epoch| epoch.machine == id && epoch.name == series.name)
            .max_by_key(|epoch| epoch.epoch);
        // A changed definition starts a new epoch when the service starts.
        let current = own.filter(|epoch| epoch.definition == series.definition());
        Ok(SeriesRow {
            name: series.name.clone(),
            measured: measured(series),
            times: series.times(),
            next: next_due(series, current, now, zone),
            epoch: own.map(|epoch| epoch.epoch),
            last: last.and_then(|slots| slots.into_iter().next()),
        })
    };
    plan.series.iter().map(row).collect()
}

/// Returns the settings of a plan other than its series.
fn facts(plan: &Plan) -> Vec<Field> {
    let mut fields = Vec::new();
    if let Some(watch) = &plan.watch {
        let mut text = format!("all wake-ups, in windows of {}", watch.window);
        if let Some(address) = watch.listen {
            let axes = watch.by.iter().map(|axis| axis.name());
            let axes = axes.collect::<Vec<_>>().join(",");
            let _ = write!(text, "; by {axes} at http://{address}/metrics");
        }
        fields.push(Field::new("watch", text));
    }
    if let Some(flight) = plan.flight {
        let text = format!(
            "trace events of the last {}, {} MB, not during runs",
            flight.last,
            flight.memory >> 20
        );
        fields.push(Field::new("flight recorder", text));
    }
    let keep = plan.keep;
    let ages = [
        ("samples", keep.samples),
        ("traces", keep.traces),
        ("rows", keep.rows),
    ];
    let mut kept: Vec<String> = ages
        .into_iter()
        .filter_map(|(what, age)| Some(format!("{what} {}", days(age?))))
        .collect();
    kept.extend(keep.size.map(|bytes| format!("at most {} MB", bytes >> 20)));
    if !kept.is_empty() {
        fields.push(Field::new("keep", kept.join(", ")));
    }
    fields
}

fn days(age: punctual_model::Nanos) -> String {
    const DAY: u64 = 86_400_000_000_000;
    match age.0 % DAY {
        0 => format!("{} d", age.0 / DAY),
        _ => age.to_string(),
    }
}

fn check(plan: &Plan, json: bool, context: &Context) -> Result<Exit> {
    let zone = SystemClock.zone();
    let rows = rows(plan, None, &zone)?;
    show(facts(plan), rows, json, context)
}

fn status(file: &PlanFile, json: bool, context: &Context) -> Result<Exit> {
    let plan = file.read()?;
    let store = context.store_to_read()?;
    let rows = rows(&plan, Some(&store), &SystemClock.zone())?;
    let mut fields = vec![Field::new(
        "service",
        match serving(&store) {
            Serving::Service => format!("running ({})", process_serving(&store)),
            Serving::Nobody => {
                "not running: systemctl start punctual-monitor, or punctual monitor run".to_owned()
            }
            Serving::Unknown(why) => format!("not known: {why}"),
        },
    )];
    fields.extend(facts(&plan));
    let ageing = Ageing::read(&store, &Host::live().machine())?;
    fields.extend(ageing.told().map(|text| Field::new("ageing", text)));
    show(fields, rows, json, context)
}

fn show(fields: Vec<Field>, rows: Vec<SeriesRow>, json: bool, context: &Context) -> Result<Exit> {
    if json {
        let shown = MonitorJson {
            facts: (fields.into_iter().map(|field| (field.name, field.text))).collect(),
            series: rows.into_iter().map(as_json).collect(),
        };
        output::print(&output::json(&shown))?;
    } else {
        let shown = document::plan(fields, &rows, &SystemClock.zone());
        output::print(&text::render(&shown, &context.style()))?;
    }
    Ok(Exit::Done)
}

/// A plan and the state of its series, as JSON.
#[derive(Serialize)]
pub(super) struct MonitorJson {
    /// Settings of the plan that apply to all series, by name.
    facts: BTreeMap<String, String>,
    /// The series.
    series: Vec<MonitoredJson>,
}

punctual_model::to_json!(MonitorJson);

/// A series of a plan, as JSON.
#[derive(Serialize)]
struct MonitoredJson {
    /// Its name.
    name: String,
    /// A summary of the measurement on one line.
    measured: String,
    /// Description of the times at which it is due.
    due: String,
    /// The next time at which it is due; null if it runs only after events.
    next: Option<Timestamp>,
    /// The current epoch; null before the first measurement.
    epoch: Option<u32>,
    /// The latest slot.
    latest: Option<Slot>,
}

fn as_json(row: SeriesRow) -> MonitoredJson {
    MonitoredJson {
        name: row.name,
        measured: row.measured,
        due: row.times,
        next: row.next,
        epoch: row.epoch,
        latest: row.last,
    }
}

fn list(options: Slots, context: &Context) -> Result<Exit> {
    let store = context.store_to_read()?;
    let filter = SlotFilter {
        host: None,
        series: options.series,
        since: options.since,
        state: options.state,
        limit: Some(options.limit.unwrap_or(usize::MAX)),
    };
    let slots = store.slots(&filter)?;
    if options.json {
        output::print(&output::json(&slots))?;
    } else {
        let shown = document::slots(&slots, &SystemClock.zone());
        output::print(&text::render(&shown, &context.list_style()))?;
    }
    Ok(Exit::Done)
}
