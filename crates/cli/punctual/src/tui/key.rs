//! The meanings of keys in the interactive view.

/// A key with a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Stop,
    Pause,
    Sort,
    Filter,
    Help,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Open,
    Back,
    /// Asks whether to try the remedy of an outlier.
    Try,
    Yes,
    /// These two work on the first screen only.
    Measure,
    Audit,
}
