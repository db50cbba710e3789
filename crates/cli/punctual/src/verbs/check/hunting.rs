//! `check --hunt`: searches the mix of loads that makes most periods late.

use anyhow::Result;
use punctual_experiment::{Around, CheckRequest, HuntError, HuntRequest, Hunted, hunt};
use punctual_model::{CpuSet, Nanos};
use punctual_report::{document, text};
use punctual_store::Store;

use super::{CheckUp, keep_verdict, told};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::options::blocks;
use crate::output;
use crate::processes::serve_load;

/// Returns the request for a search.
pub(super) fn request(
    check: CheckRequest,
    length: Nanos,
    options: &CheckUp,
) -> Result<HuntRequest> {
    let cpus = punctual_rt::affinity::current()?;
    let requirement = &check.requirement;
    let mut repeat = vec!["punctual".to_owned(), "check".to_owned()];
    for (option, value) in [
        ("--period", Some(format!("{}ns", requirement.period_ns.0))),
        ("--budget", Some(format!("{}ns", requirement.budget_ns.0))),
        ("--cpus", check.cpus.as_ref().map(ToString::to_string)),
        (
            "--priority",
            check.priority.map(|priority| priority.to_string()),
        ),
        (
            "--misses",
            requirement.misses.map(|misses| misses.to_string()),
        ),
        (
            "--max-late-seconds-per-day",
            options
                .max_late_seconds_per_day
                .map(|seconds| seconds.to_string()),
        ),
    ] {
        repeat.extend(
            value
                .into_iter()
                .flat_map(|value| [option.to_owned(), value]),
        );
    }
    Ok(HuntRequest {
        check,
        length,
        cpus: cpus.into_iter().collect::<CpuSet>(),
        seed: u64::from(blocks::random_seed()),
        repeat,
    })
}

/// Searches, and shows the result.
pub(super) fn run(
    request: &HuntRequest,
    around: Around<'_>,
    (store, json, verbose): (Option<&Store>, bool, bool),
    context: &Context,
) -> Result<Exit> {
    let found = hunt(request, &serve_load::in_subprocess, around).map_err(refused)?;
    if let (Some(store), Some(checked)) = (store, &found.checked) {
        keep_verdict(store, checked)?;
    }
    if json {
        output::print(&output::json(&found.hunt))?;
    } else {
        let mut shown = text::render(&document::hunt(&found.hunt), &context.style());
        if let Some(checkup) = &found.hunt.checkup {
            shown.push('\n');
            shown += &text::render(&document::checkup(checkup, verbose), &context.style());
        }
        output::print(&shown)?;
    }
    Ok(exit(&found))
}

fn refused(error: HuntError) -> anyhow::Error {
    match error {
        HuntError::Check(error) => told(error),
        HuntError::Short { .. } => UsageError(error.to_string()).into(),
        other => other.into(),
    }
}

/// Returns the exit code: that of the check under the worst mix, or *not proven*, because a search that
/// finds nothing proves nothing.
fn exit(found: &Hunted) -> Exit {
    match &found.checked {
        _ if found.stopped => Exit::Interrupted,
        Some(checked) => super::exit(checked),
        None => Exit::NotProven,
    }
}
