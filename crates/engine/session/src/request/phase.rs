//! Phases of a measurement, and their lengths.

use punctual_loads::{LoadError, LoadRequest};
use punctual_model::{DurationError, Nanos};

/// A phase of a measurement.
#[derive(Clone, Debug)]
pub struct PhaseRequest {
    /// Name, used in the names of its threads; `None` if there is only one phase.
    pub name: Option<String>,
    /// Length of the phase.
    pub length: RunLength,
    /// Loads that run during the phase.
    pub loads: Vec<LoadRequest>,
}

/// Phases that could not be parsed.
#[derive(Debug, thiserror::Error)]
pub enum PhaseError {
    /// The text is not a name and a length.
    #[error("'{0}' is not a phase: use the form idle:60s,cpu+disk:60s")]
    NotAPhase(String),
    /// The length is invalid.
    #[error("phase '{name}': {source}")]
    Length {
        /// Name of the phase.
        name: String,
        /// Reason why the length is invalid.
        source: DurationError,
    },
    /// The length is zero.
    #[error("phase '{0}' has no length")]
    Empty(String),
    /// A load is invalid.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl PhaseRequest {
    /// Returns the single phase of a measurement without phases.
    pub fn only(length: RunLength, loads: Vec<LoadRequest>) -> Self {
        Self {
            name: None,
            length,
            loads,
        }
    }

    /// Parses `idle:60s,cpu+disk:60s`: names of loads, joined by `+`, or `idle`, each with a
    /// length.
    ///
    /// # Errors
    /// Returns an error if a part has another format or a load does not exist.
    pub fn read_all(text: &str) -> Result<Vec<Self>, PhaseError> {
        text.split(',').map(Self::read).collect()
    }

    fn read(text: &str) -> Result<Self, PhaseError> {
        let (name, length) = text
            .trim()
            .rsplit_once(':')
            .ok_or_else(|| PhaseError::NotAPhase(text.to_owned()))?;
        let length: Nanos = length.parse().map_err(|source| PhaseError::Length {
            name: name.to_owned(),
            source,
        })?;
        if length == Nanos::ZERO {
            return Err(PhaseError::Empty(name.to_owned()));
        }
        let loads = match name {
            "idle" => Vec::new(),
            _ => name.split('+').map(str::parse).collect::<Result<_, _>>()?,
        };
        Ok(Self {
            name: Some(name.to_owned()),
            length: RunLength::For(length),
            loads,
        })
    }
}

/// Length of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunLength {
    /// The length that the probe's parameters specify, else [`RunLength::USUAL`].
    Usual,
    /// Runs for this long, including warm-up.
    For(Nanos),
    /// Runs until it is stopped.
    UntilStopped,
}

impl RunLength {
    /// Default length.
    pub const USUAL: Nanos = Nanos::from_secs(10);

    pub(crate) fn duration(self) -> Option<Nanos> {
        match self {
            Self::Usual => Some(Self::USUAL),
            Self::For(duration) => Some(duration),
            Self::UntilStopped => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_read() {
        let phases = PhaseRequest::read_all("idle:60s, idle:2m").unwrap();
        assert_eq!(phases[0].name.as_deref(), Some("idle"));
        assert_eq!(phases[1].length, RunLength::For(Nanos::from_secs(120)));
        let error = |text: &str| PhaseRequest::read_all(text).unwrap_err().to_string();
        assert!(error("idle").contains("'idle' is not a phase"));
        assert!(error("idle:60").contains("60s"));
        assert!(error("idle:0s").contains("no length"));
        assert!(error("storm:1s").contains("unknown load 'storm'"));
        assert!(error("").contains("is not a phase"));
    }
}
