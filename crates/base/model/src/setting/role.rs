//! The roles of a machine.

use std::fmt;
use std::str::FromStr;

/// The role of a machine. Where tuning guides contradict each other, the role decides which of them
/// applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// A periodic control loop that must never be late.
    #[default]
    Control,
    /// Periodic audio processing on a desktop.
    Audio,
    /// Processing of network packets, with interrupts.
    Network,
    /// A thread that spins on its input and owns its CPU.
    Trading,
    /// Packet and radio processing that spins on isolated CPUs.
    Telco,
    /// Comparison of kernels and boards. Tracing is acceptable.
    Lab,
}

/// Every role with its name and meaning.
pub const ROLES: [(Role, &str, &str); 6] = [
    (
        Role::Control,
        "control",
        "a periodic loop that must not be late",
    ),
    (Role::Audio, "audio", "sound: periodic, on a desktop"),
    (
        Role::Network,
        "network",
        "packets that arrive by interrupt and need a quick response",
    ),
    (
        Role::Trading,
        "trading",
        "a thread that spins on its input and owns its CPU",
    ),
    (
        Role::Telco,
        "telco",
        "packet and radio processing that spins on isolated CPUs",
    ),
    (
        Role::Lab,
        "lab",
        "a lab that compares kernels and boards, and traces them",
    ),
];

/// Roles whose threads sleep until a given time or until an event.
pub const PERIODIC: &[Role] = &[Role::Control, Role::Audio, Role::Network, Role::Lab];
/// Roles whose threads never sleep.
pub const SPINNING: &[Role] = &[Role::Trading, Role::Telco];

impl Role {
    /// Returns the name of the role.
    pub fn name(self) -> &'static str {
        ROLES[self as usize].1
    }

    /// Returns the meaning of the role.
    pub fn meaning(self) -> &'static str {
        ROLES[self as usize].2
    }

    /// Returns whether the role's threads spin and never sleep.
    pub fn spins(self) -> bool {
        SPINNING.contains(&self)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An unknown role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown role '{0}': use control, audio, network, trading, telco or lab")]
pub struct RoleError(String);

impl FromStr for Role {
    type Err = RoleError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        ROLES
            .iter()
            .find(|(_, known, _)| *known == name)
            .map(|(role, _, _)| *role)
            .ok_or_else(|| RoleError(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_is_read_by_its_name() {
        for (role, name, meaning) in ROLES {
            assert_eq!(name.parse(), Ok(role));
            assert_eq!((role.name(), role.meaning()), (name, meaning));
            assert_ne!(SPINNING.contains(&role), PERIODIC.contains(&role));
        }
        assert!("Control".parse::<Role>().is_err());
    }

    #[test]
    fn each_role_has_its_row() {
        for (role, name, meaning) in ROLES {
            assert_eq!((role.name(), role.meaning()), (name, meaning));
            assert_eq!(role.to_string(), name);
            assert_eq!(name.parse(), Ok(role));
            assert_eq!(role.spins(), SPINNING.contains(&role));
            assert_ne!(SPINNING.contains(&role), PERIODIC.contains(&role));
        }
        assert!("gardener".parse::<Role>().is_err());
        assert_eq!(Role::default(), Role::Control);
    }
}
