//! Subprocesses of this program. Each is started by a hidden verb.

mod hold_latency;
pub(crate) mod serve_guard;
pub(crate) mod serve_load;
pub(crate) mod serve_partner;
pub(crate) mod serve_symbols;

use crate::verb::Verb;

/// The hidden verbs.
pub(crate) const VERBS: &[Verb] = &[
    serve_guard::VERB,
    serve_load::VERB,
    serve_partner::VERB,
    serve_symbols::VERB,
    hold_latency::VERB,
];
