//! What there is to know of an event: an entry of the tables.

use punctual_model::{EventKind, Vector};

use super::fields::Fields;

/// From which level on an event is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The fewest that can tell the causes apart.
    #[default]
    Usual,
    /// These, and what the tracers timerlat and osnoise tell while they run.
    Noise,
    /// All that tell more.
    Full,
}

/// Whose events are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// All.
    All,
    /// Those in which this field holds the number of a watched thread: the
    /// kernel discards the others.
    Watched(&'static str),
}

/// What it means that a kernel does not have an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    /// What it tells is unknown, and the reader is told.
    Tell,
    /// It is of one kind of machine, of later kernels or of a tracer: another
    /// event tells the same there, or nothing is lost.
    Quiet,
}

/// An event and how its records are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventSpec {
    /// The folder in `events`.
    pub(crate) system: &'static str,
    /// The event; one that begins with `*` stands for all that end so.
    pub(crate) name: &'static str,
    pub(crate) level: Level,
    pub(crate) whose: Whose,
    pub(crate) missed: Missed,
    /// What is not known without it.
    pub(crate) tells: &'static str,
    /// The fields that it is made from.
    pub(crate) fields: &'static [&'static str],
    pub(crate) make: Make,
}

/// Makes an event from its fields, and from the name of those that go by one
/// with a `*`.
pub(crate) type Make = fn(&mut Fields<'_>, &Vector) -> Option<EventKind>;

impl EventSpec {
    /// As the model names it.
    pub(crate) fn full_name(&self) -> String {
        format!("{}:{}", self.system, self.name)
    }
}

pub(super) const fn usual(
    system: &'static str,
    name: &'static str,
    tells: &'static str,
    fields: &'static [&'static str],
    make: Make,
) -> EventSpec {
    EventSpec {
        system,
        name,
        level: Level::Usual,
        whose: Whose::All,
        missed: Missed::Tell,
        tells,
        fields,
        make,
    }
}

pub(super) const fn full(spec: EventSpec) -> EventSpec {
    EventSpec {
        level: Level::Full,
        ..spec
    }
}

pub(super) const fn watched(field: &'static str, spec: EventSpec) -> EventSpec {
    EventSpec {
        whose: Whose::Watched(field),
        ..spec
    }
}

pub(super) const fn quiet(spec: EventSpec) -> EventSpec {
    EventSpec {
        missed: Missed::Quiet,
        ..spec
    }
}

/// The fields of two events each.
pub(super) const WAKE: &[&str] = &["comm", "pid", "prio", "target_cpu"];
pub(super) const FAULT: &[&str] = &["address", "ip", "error_code"];
