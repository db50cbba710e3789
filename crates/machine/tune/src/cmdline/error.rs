//! Why the kernel's command line was not changed.

use std::path::PathBuf;

use punctual_files::FileError;

use super::Unclear;

/// Why the kernel's command line was not changed.
#[derive(Debug, thiserror::Error)]
pub enum CmdlineError {
    /// Not a kernel parameter.
    #[error("'{text}' is not a kernel parameter that can be written: {why}")]
    Parameter {
        /// What was given, shortened.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A parameter that is to be added and removed.
    #[error("{name} is both added and removed: give one")]
    Contradiction {
        /// Its name.
        name: String,
    },
    /// No such boot loader.
    #[error("unknown boot loader '{name}': choose one of {known}")]
    NoSuchLoader {
        /// What was asked for.
        name: String,
        /// The names that there are, with commas.
        known: String,
    },
    /// No boot loader was found.
    #[error(
        "no boot loader's files were found (looked for: {known}); is /boot mounted? Else add the \
         parameters where this machine keeps them, such as U-Boot's variable bootargs"
    )]
    NoLoader {
        /// The names that there are, with commas.
        known: String,
    },
    /// A system whose parameters are part of an image or a declaration.
    #[error("this system is built from an image, so no file is edited: {how}")]
    Image {
        /// What to do.
        how: String,
    },
    /// A file that is not understood.
    #[error("{path} is not edited: {why}; edit it by hand")]
    Unclear {
        /// The file.
        path: String,
        /// What was found.
        why: Unclear,
    },
    /// A file that changed while the user looked at the plan.
    #[error("{path} changed in the meantime; nothing was written: try again")]
    Moved {
        /// The file.
        path: String,
    },
    /// An edit that is not reverted yet.
    #[error(
        "an earlier edit is not reverted yet (copies in {}): run `punctual tune cmdline revert` \
         first",
        folder.display()
    )]
    Pending {
        /// Where its copies are.
        folder: PathBuf,
    },
    /// Files that somebody else has edited since.
    #[error(
        "nothing was restored, as {} edited since: remove the parameters by hand, or restore \
         the copies in {}; then run `punctual tune cmdline revert --forget`",
        files(paths),
        folder.display()
    )]
    Edited {
        /// The files.
        paths: Vec<String>,
        /// Where the copies are.
        folder: PathBuf,
    },
    /// A program of the boot loader failed.
    #[error("`{command}` failed: {why}")]
    Command {
        /// The command line.
        command: String,
        /// Its status and last message.
        why: String,
    },
    /// A write failed; all files are as before.
    #[error("{cause}; all files are as before")]
    Undone {
        /// What failed.
        cause: Box<CmdlineError>,
    },
    /// A write failed, and so did the restoring.
    #[error("{cause}; restoring the files failed: {error} (copies in {})", folder.display())]
    NotUndone {
        /// What failed first.
        cause: Box<CmdlineError>,
        /// What failed then.
        error: Box<CmdlineError>,
        /// Where the copies are.
        folder: PathBuf,
    },
    /// The record of an edit is damaged.
    #[error("the record {} is damaged: {why}; compare the copies beside it with the files", path.display())]
    Damaged {
        /// The record.
        path: PathBuf,
        /// What was found.
        why: String,
    },
    /// The record belongs to another root folder.
    #[error("the edit was made below {}: give --root {}", root.display(), root.display())]
    OtherRoot {
        /// The folder.
        root: PathBuf,
    },
    /// A file that cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

fn files(paths: &[String]) -> String {
    match paths {
        [one] => format!("{one} was"),
        _ => format!("{} were", paths.join(", ")),
    }
}

impl CmdlineError {
    /// Whether what was asked for is at fault, and not the machine.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Parameter { .. } | Self::Contradiction { .. } | Self::NoSuchLoader { .. }
        )
    }
}
