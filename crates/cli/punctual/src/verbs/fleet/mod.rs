//! Verbs of the feature `fleet`: the collector, delivery to one, databases, object stores.

mod collection;
mod copy;
mod deliver;
mod lake;
mod serve;
mod serve_config;
mod serve_evidence;

pub(super) use copy::copy;
pub(super) use deliver::deliver_once;

use super::Verb;

/// Its verbs.
pub(super) const VERBS: &[Verb] = &[serve::VERB, deliver::VERB, lake::VERB];
