//! `schema`: prints the JSON Schemas of the verbs' output, which `cargo xtask schemas` makes from
//! the types.

use anyhow::Result;
use clap::Parser;
use clap::builder::{PossibleValue, PossibleValuesParser};
use punctual_model::{
    Activities, Audit, Checkup, Experiment, FactSet, Hunt, Improvement, LintReport, Note,
    NumbersExperiment, Placement, Recording, RecordingLine, SeriesProof, Slot, ToJson, Topology,
    TraceChains, Wakeups,
};
use punctual_stats::Comparison;
use punctual_stats::trend::{ChangePoint, FactsDiffer, Trend};
use punctual_store::{Copied, Merged, StoreStats};
use punctual_tune::{
    Applied, BootStatus, CmdlineEdit, CmdlineRevert, CmdlineState, Plan, Restored, Status,
};

use super::{app, explain, import, machine, monitor};
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
    schema: &'static str,
}

/// Creates a [`Form`] from its name, its type, and the commands that write it. `cargo xtask
/// schemas` reads the names and types here, and writes the files.
macro_rules! form {
    ($name:literal, $type:ty, $of:literal) => {{
        const fn printed<T: ToJson>() {}
        printed::<$type>();
        Form {
            name: $name,
            of: $of,
            schema: include_str!(concat!("../../schemas/", $name, ".json")),
        }
    }};
}

/// All types with a schema.
const FORMS: &[Form] = &[
    form!(
        "recording",
        Recording,
        "measure --json, show --json, explain --pid --json, app record --json"
    ),
    form!("recordings", Vec<RecordingLine>, "list --json"),
    form!("imported", Vec<import::ImportJson>, "import --json"),
    form!(
        "explained",
        explain::ExplainedJson,
        "explain RECORDING --json"
    ),
    form!(
        "outlier",
        explain::OutlierJson,
        "explain RECORDING --outlier N --json"
    ),
    form!(
        "chains",
        TraceChains,
        "explain --from KIND:NAME --to comm:NAME --json"
    ),
    form!("wakeups", Wakeups, "watch --json"),
    form!("activities", Activities, "watch --of KIND --json"),
    form!("applications", Vec<app::ApplicationJson>, "app list --json"),
    form!("comparison", Comparison, "compare --json"),
    form!("trend", Trend, "trend --json"),
    form!("changes", Vec<ChangePoint>, "trend changes --json"),
    form!("notes", Vec<Note>, "trend note list --json"),
    form!("facts-difference", FactsDiffer, "machine facts diff --json"),
    form!("audit", Audit, "doctor --json, machine kernel check --json"),
    form!("lint", LintReport, "app lint --json"),
    form!("checkup", Checkup, "check --json"),
    form!("hunt", Hunt, "check --hunt TIME --json"),
    form!("series-proof", SeriesProof, "check --series NAME --json"),
    form!(
        "experiment",
        Experiment,
        "experiment --json, experiment show --json"
    ),
    form!(
        "numbers",
        NumbersExperiment,
        "experiment --numbers CMD --json"
    ),
    form!("experiments", Vec<Experiment>, "experiment list --json"),
    form!("improvement", Improvement, "improve --json"),
    form!(
        "monitor",
        monitor::MonitorJson,
        "monitor check --json, monitor status --json"
    ),
    form!("slots", Vec<Slot>, "monitor slots --json"),
    form!("store", StoreStats, "store stats --json"),
    form!("damage", Vec<String>, "store check --json"),
    form!("merged", Merged, "store merge --json"),
    form!("copied", Copied, "punctual-server copy --json"),
    form!("facts", FactSet, "machine facts capture"),
    form!(
        "plan",
        Plan,
        "tune plan --json; tune verify --json of a profile"
    ),
    form!("applied", Applied, "tune apply --json"),
    form!(
        "status",
        Option<Status>,
        "tune status --json; tune verify --json"
    ),
    form!("reverted", Vec<Restored>, "tune revert --json"),
    form!("boot", BootStatus, "tune boot status --json"),
    form!("cmdline", CmdlineState, "tune cmdline show --json"),
    form!("cmdline-edit", CmdlineEdit, "tune cmdline write --json"),
    form!(
        "cmdline-revert",
        Option<CmdlineRevert>,
        "tune cmdline revert --json"
    ),
    form!(
        "threads",
        Vec<machine::ThreadJson>,
        "machine threads --json"
    ),
    form!("irqs", Vec<machine::InterruptJson>, "machine irqs --json"),
    form!("topology", Topology, "machine topology --json"),
    form!("placements", Vec<Placement>, "place --json"),
    form!("clocks", machine::ClocksJson, "machine clocks --json"),
];

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
        output::print(form.schema)?;
        Ok(Exit::Done)
    }
}
