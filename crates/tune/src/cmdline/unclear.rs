//! What is not understood of a boot loader's file.

/// Why the parameters in a file cannot be read or edited. The caller adds the path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unclear {
    /// A file that is one line of parameters has several.
    #[error("it has more than one line of parameters")]
    SeveralLines,
    /// What a shell would make of the value cannot be known from it.
    #[error("the value of {name} is more than one quoted text on one line")]
    Value {
        /// The variable.
        name: &'static str,
    },
    /// The label that is booted cannot be known.
    #[error("it has no label that `default` names")]
    NoLabel,
    /// The label that is booted has no place for parameters.
    #[error("the label that is booted has no line `append`")]
    NoAppend,
}
