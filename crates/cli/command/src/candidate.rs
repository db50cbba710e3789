//! A possible value at the cursor of a shell.

/// A value and its meaning.
pub struct Candidate {
    /// The value.
    pub value: String,
    /// Its meaning.
    pub meaning: String,
}

impl Candidate {
    /// Returns a value with its meaning.
    pub fn new(value: &str, meaning: impl Into<String>) -> Self {
        Self {
            value: value.to_owned(),
            meaning: meaning.into(),
        }
    }
}
