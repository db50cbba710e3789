//! Describes a thread that gets no CPU time.

use std::fmt;
use std::time::Duration;

/// A thread that gets no CPU time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starved {
    /// Its name.
    pub name: String,
    /// The CPU for which it waits.
    pub cpu: u32,
    /// How long it has had no CPU time.
    pub duration: Duration,
    /// The real-time threads that use this CPU. It is empty if /proc does not list them, for example
    /// because one of them is exiting.
    pub occupants: Vec<Occupant>,
}

/// A real-time thread that may keep others off a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupant {
    /// Its name.
    pub name: String,
    /// Its process ID.
    pub process: u32,
    /// Its policy and priority.
    pub policy: String,
}

impl fmt::Display for Starved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, cpu, .. } = self;
        let seconds = self.duration.as_secs_f64();
        write!(
            f,
            "thread {name} got no CPU time for {seconds:.1} s on CPU {cpu}, "
        )?;
        let names: Vec<String> = self.occupants.iter().map(Occupant::to_string).collect();
        match names.len() {
            0 => f.write_str(
                "which no real-time thread in /proc uses: an interrupt or an exiting thread may \
                 occupy it (see the kernel's log)",
            ),
            1 => write!(f, "which {} occupies", names[0]),
            _ => write!(f, "which these threads occupy: {}", names.join(", ")),
        }
    }
}

impl fmt::Display for Occupant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            process,
            policy,
        } = self;
        write!(f, "{name} (process {process}, {policy})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_occupant_is_told_as_such() {
        let starved = Starved {
            name: "timer/0".to_owned(),
            cpu: 3,
            duration: Duration::from_millis(1_500),
            occupants: Vec::new(),
        };
        let told = starved.to_string();
        assert!(
            told.starts_with("thread timer/0 got no CPU time for 1.5 s on CPU 3, "),
            "{told}"
        );
        assert!(told.contains("no real-time thread in /proc"), "{told}");
    }
}
