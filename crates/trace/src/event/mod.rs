//! The recorded events, and the decoders of their records.

mod decode;
mod default;
mod fields;
mod format;
mod full;
mod spec;

pub use decode::Decoder;
pub use format::Format;
pub(crate) use format::Place;
pub use spec::Level;
pub(crate) use spec::{EventSpec, Missed, Whose};

/// The events of each level; as `include/trace/events/*.h` of the kernel define them (irq
/// vectors and page faults: `arch/x86/include/asm/trace`).
pub(crate) const EVENTS: [&[EventSpec]; 2] = [default::DEFAULT, full::FULL];

/// All events.
pub(crate) fn events() -> impl Iterator<Item = &'static EventSpec> {
    EVENTS.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::EVENT_NAMES;

    #[test]
    fn each_event_is_known_to_the_model() {
        for spec in events() {
            let name = spec.full_name();
            // Two names of one kind.
            let same = ["ipi:ipi_entry", "ipi:ipi_exit", "ipi:ipi_send_cpumask"];
            assert!(
                EVENT_NAMES.contains(&name.as_str()) || same.contains(&name.as_str()),
                "{name}"
            );
            assert!(!spec.provides.is_empty(), "{name}");
        }
    }
}
