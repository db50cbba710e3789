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
    /// Raspberry Pi's config.txt sets it for some boards only.
    #[error(
        "it sets {key}= below a filter such as [pi4], so which file this board reads is not known"
    )]
    Filter {
        /// The setting.
        key: &'static str,
    },
    /// Raspberry Pi's firmware ignores such a prefix.
    #[error(
        "os_prefix={prefix} names no kernel with a device tree, without which the firmware ignores it"
    )]
    Prefix {
        /// The prefix.
        prefix: String,
    },
    /// The file with the parameters is not there.
    #[error("it names {file}, which is not there")]
    NotThere {
        /// The file, relative to its own folder.
        file: String,
    },
}
