//! Recordings selected on the command line.

use anyhow::Result;
use clap::ArgMatches;
use punctual_model::Recording;
use punctual_store::Store;

/// The recordings of `recordings_argument`.
pub(super) fn several(matches: &ArgMatches, store: &Store) -> Result<Vec<Recording>> {
    matches
        .get_many::<String>("recordings")
        .into_iter()
        .flatten()
        .map(|selector| Ok(store.load(store.find(selector)?)?))
        .collect()
}

/// The recording of `recording_argument`.
pub(super) fn one(matches: &ArgMatches, store: &Store) -> Result<Recording> {
    let selector = matches
        .get_one::<String>("recording")
        .map_or("last", String::as_str);
    Ok(store.load(store.find(selector)?)?)
}
