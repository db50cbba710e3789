//! Reasons why a boot loader's file cannot be parsed.

/// The reason why the parameters in a file cannot be read or edited. The caller adds the path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unclear {
    /// The file should consist of one line of parameters but has several lines.
    #[error("it has more than one line of parameters")]
    SeveralLines,
    /// The value that a shell would read cannot be determined.
    #[error("the value of {name} is not a single quoted text on one line")]
    Value {
        /// The variable.
        name: &'static str,
    },
    /// The label that is booted cannot be determined.
    #[error("it has no label with the name in `default`")]
    NoLabel,
    /// The label that is booted has no `append` line.
    #[error("the default label has no line `append`")]
    NoAppend,
    /// Another program writes the part of the file that contains the parameter.
    #[error(
        "{variable} contains {word}, and {owner} writes this variable: change the parameter \
         there, for example in the profile of TuneD"
    )]
    Owned {
        /// The variable.
        variable: &'static str,
        /// The parameter.
        word: String,
        /// The program.
        owner: &'static str,
    },
    /// No entry, or no entry with parameters, is booted by default.
    #[error("it does not show which entry is booted by default, or this entry has no {key}")]
    NoDefault {
        /// The keyword before the parameters.
        key: &'static str,
    },
    /// The file has none of the variables that pass parameters to the kernel.
    #[error("it has none of the variables {names}")]
    NoVariable {
        /// The variables, separated by commas.
        names: String,
    },
    /// An environment block of GRUB has no room.
    #[error("its environment block has no room for the parameters")]
    Full,
    /// Raspberry Pi's config.txt contains the setting only for some boards.
    #[error(
        "it sets {key}= below a filter such as [pi4], so it is unknown which file this board reads"
    )]
    Filter {
        /// The setting.
        key: &'static str,
    },
    /// Raspberry Pi's firmware ignores this prefix.
    #[error(
        "os_prefix={prefix} does not lead to a kernel with a device tree, so the firmware ignores \
         the prefix"
    )]
    Prefix {
        /// The prefix.
        prefix: String,
    },
    /// The file with the parameters does not exist.
    #[error("it names {file}, which does not exist")]
    NotThere {
        /// The file, relative to the folder of the file that names it.
        file: String,
    },
}
