//! How a probe asks for a setting of the machine.

/// Changes settings on a probe's behalf. The session implements it, keeps a
/// journal, and puts everything back at the end of the run, however it ends.
///
/// A probe gets it only if it names what it changes
/// ([`Probe::knobs`](crate::Probe::knobs)), and it can change nothing else.
/// Errors are sentences for the reader of the recording.
pub trait Settings: Send + Sync {
    /// The value in force.
    ///
    /// # Errors
    /// When it cannot be read.
    fn value(&self, knob: &str) -> Result<String, String>;

    /// The values that the kernel offers.
    ///
    /// # Errors
    /// When they cannot be read, or the kernel does not list them.
    fn offered(&self, knob: &str) -> Result<Vec<String>, String>;

    /// Whether this process may change it; nothing is changed.
    ///
    /// # Errors
    /// Why not, and how to get the right.
    fn may_change(&self, knob: &str) -> Result<(), String>;

    /// Changes it. Only while the probe runs.
    ///
    /// # Errors
    /// When it was refused, or does not read back as it was set.
    fn set(&self, knob: &str, value: &str) -> Result<(), String>;
}
