//! Errors that occur when changing the kernel's command line.

use std::path::PathBuf;

use punctual_files::FileError;

use super::Unclear;

/// A reason why the kernel's command line was not changed.
#[derive(Debug, thiserror::Error)]
pub enum CmdlineError {
    /// The text is not a kernel parameter.
    #[error("the kernel parameter '{text}' cannot be written: {why}")]
    Parameter {
        /// The given text, shortened.
        text: String,
        /// The problem.
        why: &'static str,
    },
    /// A parameter is both added and removed.
    #[error("{name} is both added and removed: either add it or remove it")]
    Contradiction {
        /// Name of the parameter.
        name: String,
    },
    /// The boot loader is unknown.
    #[error("unknown boot loader '{name}': choose one of {known}")]
    NoSuchLoader {
        /// The requested name.
        name: String,
        /// Known names, separated by commas.
        known: String,
    },
    /// No boot loader was found.
    #[error(
        "no configuration file of a boot loader was found (looked for: {known}); is /boot mounted? \
         Otherwise add the parameters where this machine stores them, for example in U-Boot's \
         variable bootargs"
    )]
    NoLoader {
        /// Known names, separated by commas.
        known: String,
    },
    /// The file of the boot loader is not edited.
    #[error("the boot loader reads {file}, which this command does not edit: {how}")]
    ByHand {
        /// The file.
        file: String,
        /// Instructions for the user.
        how: &'static str,
    },
    /// The parameters of this system are part of an image or of a declaration.
    #[error("this system is built from an image, so no file is edited: {how}")]
    Image {
        /// Instructions for the user.
        how: String,
    },
    /// A file could not be parsed.
    #[error("{path} is not edited: {why}; edit it by hand")]
    Unclear {
        /// The file.
        path: String,
        /// The problem.
        why: Unclear,
    },
    /// A file changed while the user read the plan.
    #[error("{path} changed in the meantime; nothing was written: try again")]
    Moved {
        /// The file.
        path: String,
    },
    /// An earlier edit has not been reverted yet.
    #[error(
        "an earlier edit is not reverted yet (copies in {}): run `punctual tune cmdline revert` \
         first",
        folder.display()
    )]
    Pending {
        /// Folder that contains the copies of the files before that edit.
        folder: PathBuf,
    },
    /// Files have been edited since they were written.
    #[error(
        "nothing was restored, because {} edited in the meantime: remove the parameters by hand, \
         or restore the copies in {}; then run `punctual tune cmdline revert --forget`",
        files(paths),
        folder.display()
    )]
    Edited {
        /// The files.
        paths: Vec<String>,
        /// Folder with the copies.
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
    /// A write failed; all files are as they were before.
    #[error("{cause}; all files are as before")]
    Undone {
        /// The error.
        cause: Box<CmdlineError>,
    },
    /// A write failed, and restoring the files failed as well.
    #[error("{cause}; restoring the files failed: {error} (the copies are in \
             {})", folder.display())]
    NotUndone {
        /// The first error.
        cause: Box<CmdlineError>,
        /// The error that occurred when restoring.
        error: Box<CmdlineError>,
        /// Folder with the copies.
        folder: PathBuf,
    },
    /// The record of an edit is damaged.
    #[error("the record {} is damaged: {why}; compare the copies next to it with the \
             files", path.display())]
    Damaged {
        /// The record.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// The record of an edit belongs to another root folder.
    #[error("the edit was made below {}: pass --root {}", root.display(), root.display())]
    OtherRoot {
        /// The folder.
        root: PathBuf,
    },
    /// A file cannot be read or written.
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
    /// Returns whether the request is at fault rather than the machine.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Parameter { .. } | Self::Contradiction { .. } | Self::NoSuchLoader { .. }
        )
    }
}
