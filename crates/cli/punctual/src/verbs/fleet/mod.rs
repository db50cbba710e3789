//! Verbs of the feature `fleet`: the collector, the client that pushes to it, databases, and object
//! stores.

mod collection;
mod copy;
mod install;
mod parquet;
mod push;
mod serve;
mod serve_config;
mod serve_options;

pub(super) use copy::copy;
pub(super) use parquet::to_parquet;
pub(super) use push::push_once;

use std::net::SocketAddr;

use anyhow::Result;
use punctual_metrics::Scrape;

use crate::verb::Verb;

/// Starts a server of metrics.
pub(super) fn scrape(address: SocketAddr) -> Result<Scrape> {
    Ok(Scrape::start(address)?)
}

/// The verbs of the feature.
pub(super) const VERBS: &[Verb] = &[serve::VERB, push::VERB];
