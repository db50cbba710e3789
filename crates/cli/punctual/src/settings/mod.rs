//! Settings of the machine: documents about them, and the change of some of them.

pub(crate) mod document;
pub(crate) mod rows;

use anyhow::Result;
use punctual_host::Host;
use punctual_report::document::Document;
use punctual_report::text;
use punctual_tune::{Options, Plan, Request, Wish};

use crate::context::Context;
use crate::exit::Exit;
use crate::output;

/// What `tune apply` has done.
pub(crate) const APPLIED: &str = "the settings are applied and stay until `punctual tune revert`";

/// Changes these settings, each in the form `NAME=VALUE`, until they are reverted.
pub(crate) fn apply_some(settings: &[String], context: &Context) -> Result<Exit> {
    let wishes = settings.iter().map(|setting| Wish::parse(setting));
    let request = Request {
        profile: None,
        sets: wishes.collect::<Result<_, _>>()?,
        cpus: None,
    };
    let places = crate::context::tune_places()?;
    let host = Host::live();
    let plan = Plan::make(&request, &host, &places.applied)?;
    let applied = punctual_tune::apply(&plan, &host, &places, Options::default())?;
    if !applied.changes.is_empty() {
        context.done(Exit::Done, APPLIED);
    }
    print(&document::applied(&plan, &applied), context)?;
    Ok(Exit::Done)
}

/// Prints a document.
pub(crate) fn print(document: &Document, context: &Context) -> Result<()> {
    output::print(&text::render(document, &context.style()))
}
