//! Options that several verbs have, and the values of options.

pub(crate) mod blocks;
pub(crate) mod extension;
pub(crate) mod limits;
pub(crate) mod measuring;
pub(crate) mod select;
pub(crate) mod share_cpus;
pub(crate) mod signing;
pub(crate) mod span;
pub(crate) mod subject;

pub(crate) use punctual_command::since;
