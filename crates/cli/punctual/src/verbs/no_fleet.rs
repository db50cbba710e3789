//! Replacements for the verbs of the feature `fleet`, for a program that was built without it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use jiff::Timestamp;
use punctual_model::{WakeupAxis, Wakeups};
use punctual_monitor::Push;

use crate::context::Context;
use crate::exit::Exit;
use crate::verb::Verb;

pub(super) const VERBS: &[Verb] = &[];

pub(super) fn copy(_: &str, _: &str, _: bool, _: &Context) -> Result<Exit> {
    bail!("this program was built without the feature 'fleet', which is needed to copy databases")
}

pub(super) fn push_once(_: &Push, _: &Path, _: &Arc<AtomicBool>) -> Result<()> {
    bail!("this program was built without the feature 'fleet', which is needed to push recordings")
}

pub(super) fn to_parquet(_: &str, _: bool, _: Option<Timestamp>, _: &Context) -> Result<Exit> {
    bail!("this program was built without the feature 'fleet', which is needed for export --to")
}

/// A server of metrics, which this program does not have.
pub(super) struct Scrape {
    pub(super) address: SocketAddr,
    never: std::convert::Infallible,
}

impl Scrape {
    pub(super) fn publish(&self, _: &Wakeups, _: &[WakeupAxis]) {
        match self.never {}
    }
}

pub(super) fn scrape(_: SocketAddr) -> Result<Scrape> {
    bail!("this program was built without the feature 'fleet', which is needed for watch --listen")
}
