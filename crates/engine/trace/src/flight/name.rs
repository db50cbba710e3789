//! The name of a recorder's trace instance, which identifies the owner of the instance.

const PREFIX: &str = "punctual-flight-";

/// The process that owns an instance.
pub use punctual_model::ProcessId as Owner;

/// The name has the form `punctual-flight-PID.START.NUMBER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlightName {
    pub(crate) owner: Owner,
    /// Number of the instance. It is needed because one process may have several instances.
    pub(crate) number: u32,
}

impl FlightName {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix(PREFIX)?.split('.');
        let name = Self {
            owner: Owner {
                pid: parts.next()?.parse().ok()?,
                start: parts.next()?.parse().ok()?,
            },
            number: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(name)
    }
}

impl std::fmt::Display for FlightName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Owner { pid, start } = self.owner;
        write!(f, "{PREFIX}{pid}.{start}.{}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn others_names_are_not_ours() {
        for name in [
            "",
            "punctual-flight-",
            "punctual-flight-1",
            "punctual-flight-1.2",
            "punctual-flight-1.2.x",
            "punctual-flight-1.2.3.4",
            "punctual-hwlat-1.2.3.4",
        ] {
            assert_eq!(FlightName::parse(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_name_says_whose_it_is(pid: u32, start: u64, number: u32) {
            let name = FlightName { owner: Owner { pid, start }, number };
            prop_assert_eq!(FlightName::parse(&name.to_string()), Some(name));
        }
    }
}
