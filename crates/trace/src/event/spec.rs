//! The description of an event: an entry of the tables.

use punctual_model::{EventKind, Vector};

use super::fields::Fields;

/// The lowest level at which an event is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The fewest events that separate the causes.
    #[default]
    Default,
    /// These, and the events of the running tracers timerlat and osnoise.
    Noise,
    /// All events.
    Full,
}

/// The threads whose events are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// All.
    All,
    /// Events with the number of a watched thread in this field: the kernel
    /// discards the others.
    Watched(&'static str),
}

/// The effect of a missing event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    /// Its information is unknown: warn.
    Warn,
    /// It belongs to one architecture, to later kernels or to a tracer: another
    /// event has the same information there, or none is lost.
    Ignore,
}

/// An event and the decoder of its records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventSpec {
    /// The folder in `events`.
    pub(crate) system: &'static str,
    /// The event; `*` at the start matches all with that ending.
    pub(crate) name: &'static str,
    pub(crate) level: Level,
    pub(crate) whose: Whose,
    pub(crate) missed: Missed,
    /// The information that it provides.
    pub(crate) provides: &'static str,
    /// The fields that it is decoded from.
    pub(crate) fields: &'static [&'static str],
    pub(crate) make: Make,
}

/// Makes an event from its fields, and from the name of those that go by one
/// with a `*`.
pub(crate) type Make = fn(&mut Fields<'_>, &Vector) -> Option<EventKind>;

impl EventSpec {
    /// Its name in the model.
    pub(crate) fn full_name(&self) -> String {
        format!("{}:{}", self.system, self.name)
    }
}

pub(super) const fn default(
    system: &'static str,
    name: &'static str,
    provides: &'static str,
    fields: &'static [&'static str],
    make: Make,
) -> EventSpec {
    EventSpec {
        system,
        name,
        level: Level::Default,
        whose: Whose::All,
        missed: Missed::Warn,
        provides,
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
        missed: Missed::Ignore,
        ..spec
    }
}

/// The fields of two events each.
pub(super) const WAKE: &[&str] = &["comm", "pid", "prio", "target_cpu"];
pub(super) const FAULT: &[&str] = &["address", "ip", "error_code"];
