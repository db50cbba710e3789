//! `schema`: prints the JSON Schemas of the verbs' output, which are generated from the types.

use anyhow::Result;
use clap::Parser;
use clap::builder::{PossibleValue, PossibleValuesParser};
use punctual_model::{
    Activities, Audit, Checkup, Experiment, FactSet, Improvement, LintReport, Note, Placement,
    Recording, Slot, Topology, Wakeups, schema_of,
};
use punctual_stats::Comparison;
use punctual_stats::trend::{ChangePoint, FactsDiffer, Trend};
use punctual_store::{Copied, Merged, StoreStats};
use punctual_tune::{
    Applied, BootStatus, CmdlineEdit, CmdlineRevert, CmdlineState, Plan, Restored, Status,
};
use schemars::{JsonSchema, Schema};

use super::{app, explain, import, list, machine, monitor};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::verb::{Run, Verb};

pub(super) const VERB: Verb = Verb::new::<SchemaOf>("schema");

/// A type of JSON document that verbs print.
struct Form {
    /// Its name on the command line.
    name: &'static str,
    /// The commands that write it.
    of: &'static str,
    schema: fn() -> Schema,
}

/// All types with a schema.
const FORMS: &[Form] = &[
    form::<Recording>(
        "recording",
        "measure --json, show --json, explain --pid --json, app record --json",
    ),
    form::<Vec<list::ListedJson>>("recordings", "list --json"),
    form::<Vec<import::ImportJson>>("imported", "import --json"),
    form::<explain::ExplainedJson>("explained", "explain RECORDING --json"),
    form::<explain::OutlierJson>("outlier", "explain RECORDING --outlier N --json"),
    form::<Wakeups>("wakeups", "watch --json"),
    form::<Activities>("activities", "watch --of KIND --json"),
    form::<Vec<app::ApplicationJson>>("applications", "app list --json"),
    form::<Comparison>("comparison", "compare --json"),
    form::<Trend>("trend", "trend --json"),
    form::<Vec<ChangePoint>>("changes", "trend changes --json"),
    form::<Vec<Note>>("notes", "trend note list --json"),
    form::<FactsDiffer>("facts-difference", "machine facts diff --json"),
    form::<Audit>("audit", "doctor --json, machine kernel check --json"),
    form::<LintReport>("lint", "app lint --json"),
    form::<Checkup>("checkup", "check --json"),
    form::<Experiment>("experiment", "experiment --json, experiment show --json"),
    form::<Vec<Experiment>>("experiments", "experiment list --json"),
    form::<Improvement>("improvement", "improve --json"),
    form::<monitor::MonitorJson>("monitor", "monitor check --json, monitor status --json"),
    form::<Vec<Slot>>("slots", "monitor slots --json"),
    form::<StoreStats>("store", "store stats --json"),
    form::<Vec<String>>("damage", "store check --json"),
    form::<Merged>("merged", "store merge --json"),
    form::<Copied>("copied", "store copy --json"),
    form::<FactSet>("facts", "machine facts capture"),
    form::<Plan>("plan", "tune plan --json; tune verify --json of a profile"),
    form::<Applied>("applied", "tune apply --json"),
    form::<Option<Status>>("status", "tune status --json; tune verify --json"),
    form::<Vec<Restored>>("reverted", "tune revert --json"),
    form::<BootStatus>("boot", "tune boot status --json"),
    form::<CmdlineState>("cmdline", "tune cmdline show --json"),
    form::<CmdlineEdit>("cmdline-edit", "tune cmdline write --json"),
    form::<Option<CmdlineRevert>>("cmdline-revert", "tune cmdline revert --json"),
    form::<Vec<machine::ThreadJson>>("threads", "machine threads --json"),
    form::<Vec<machine::InterruptJson>>("irqs", "machine irqs --json"),
    form::<Topology>("topology", "machine topology --json"),
    form::<Vec<Placement>>("placements", "place --json"),
    form::<machine::ClocksJson>("clocks", "machine clocks --json"),
];

const fn form<T: JsonSchema>(name: &'static str, of: &'static str) -> Form {
    Form {
        name,
        of,
        schema: schema_of::<T>,
    }
}

/// Print the JSON Schema of an output of this program
#[derive(Parser)]
struct SchemaOf {
    /// Type to describe
    #[arg(value_name = "OF", value_parser = names(), default_value = "recording")]
    of: String,
}

fn names() -> PossibleValuesParser {
    let named = |form: &Form| PossibleValue::new(form.name).help(form.of);
    PossibleValuesParser::new(FORMS.iter().map(named))
}

impl Run for SchemaOf {
    fn run(self, _: &Context) -> Result<Exit> {
        let form = FORMS
            .iter()
            .find(|form| form.name == self.of)
            .ok_or_else(|| UsageError("the type is missing".to_owned()))?;
        let schema = serde_json::to_string_pretty(&(form.schema)())?;
        output::print(&format!("{schema}\n"))?;
        Ok(Exit::Done)
    }
}
