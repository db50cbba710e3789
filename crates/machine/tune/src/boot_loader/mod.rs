//! Boot entries that add words to the kernel's command line for a single boot.
//!
//! An entry is a copy of the running kernel's entry and is chosen for one boot only, so that the
//! machine boots the usual entry again if the kernel fails to start. Each change is a
//! [`WrittenFile`]: the caller stores it before [`write()`], and [`put_back`] restores the file.

mod grub;
mod systemd_boot;
mod unit;
mod words;

use std::io;
use std::path::{Path, PathBuf};

use punctual_files::Output;
use punctual_host::Host;
use punctual_model::{BootLoader, WrittenFile};

pub use grub::BadBlock;
pub use unit::{UnitRequest, unit};
pub use words::{check_words, differs};

/// Maximum number of bytes to read from a boot loader's file.
const LIMIT: u64 = 1 << 22;

/// A boot entry to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootEntry {
    /// Identifier of the entry: letters, digits and `-`.
    pub id: String,
    /// Name in the menu.
    pub title: String,
    /// Words to add to the running kernel's command line.
    pub words: String,
}

/// The reason why an entry cannot be made, chosen or removed.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// A file could not be written completely.
    #[error(transparent)]
    Output(#[from] punctual_files::FileError),
    /// Another program changed a file.
    #[error("{path} was changed by another program: remove punctual's part by hand")]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A boot loader would interpret the words differently.
    #[error("'{words}' cannot be passed to a boot loader: {why}")]
    Words {
        /// The words.
        words: String,
        /// The reason.
        why: &'static str,
    },
    /// The file is not in the boot loader's format.
    #[error("{path}: {why}")]
    Unexpected {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: BadBlock,
    },
    /// A command failed.
    #[error("`{command}` failed: {why}")]
    Command {
        /// The command.
        command: String,
        /// The reason.
        why: String,
    },
}

/// A function that runs a program with arguments and waits until it ends.
pub type RunProgram<'a> = &'a dyn Fn(&[&str]) -> io::Result<()>;

/// The boot loader of a machine.
#[derive(Clone, Debug)]
pub enum Loader {
    /// GRUB 2.
    Grub(grub::Grub),
    /// systemd-boot.
    SystemdBoot(systemd_boot::SystemdBoot),
    /// No usable boot loader, with the reason.
    ByHand(String),
}

impl Loader {
    /// Detects the boot loader of a machine. This changes nothing.
    pub fn detect(host: &Host) -> Self {
        let mut reasons = Vec::new();
        match systemd_boot::SystemdBoot::detect(host) {
            Ok(found) => return Self::SystemdBoot(found),
            Err(reason) => reasons.push(format!("systemd-boot: {reason}")),
        }
        match grub::Grub::detect(host) {
            Ok(found) => return Self::Grub(found),
            Err(reason) => reasons.push(format!("GRUB: {reason}")),
        }
        Self::ByHand(reasons.join("; "))
    }

    /// Returns the kind of boot loader.
    pub const fn kind(&self) -> BootLoader {
        match self {
            Self::Grub(_) => BootLoader::Grub,
            Self::SystemdBoot(_) => BootLoader::SystemdBoot,
            Self::ByHand(_) => BootLoader::ByHand,
        }
    }

    /// Returns the reason why no boot loader can be used, or `None` if one can.
    pub fn by_hand(&self) -> Option<&str> {
        match self {
            Self::ByHand(reason) => Some(reason),
            _ => None,
        }
    }

    /// Returns the files to write for these entries, without writing any. The list is empty if no
    /// boot loader can be used.
    ///
    /// # Errors
    /// Returns [`BootError::Words`] or [`BootError::File`].
    pub fn entries(
        &self,
        host: &Host,
        entries: &[BootEntry],
    ) -> Result<Vec<WrittenFile>, BootError> {
        for entry in entries {
            check_words(&entry.words)?;
        }
        match self {
            Self::Grub(grub) => grub.entries(host, entries),
            Self::SystemdBoot(loader) => loader.entries(host, entries),
            Self::ByHand(_) => Ok(Vec::new()),
        }
    }

    /// Chooses an entry for the next boot only.
    ///
    /// # Errors
    /// Returns [`BootError::File`], [`BootError::Unexpected`] or [`BootError::Command`].
    pub fn choose(&self, host: &Host, id: &str, run: RunProgram<'_>) -> Result<(), BootError> {
        match self {
            Self::Grub(grub) => grub.choose(host, Some(id)),
            Self::SystemdBoot(_) => systemd_boot::choose(id, run),
            Self::ByHand(_) => Ok(()),
        }
    }

    /// Withdraws the choice of an entry whose identifier begins with `prefix`, and returns whether
    /// there was one. Otherwise, a boot loader that cannot clear the choice itself would boot that
    /// entry every time.
    ///
    /// # Errors
    /// Returns the same errors as [`choose`](Self::choose).
    pub fn forget(
        &self,
        host: &Host,
        prefix: &str,
        run: RunProgram<'_>,
    ) -> Result<bool, BootError> {
        match self {
            Self::Grub(grub) => grub.forget(host, prefix),
            Self::SystemdBoot(_) => systemd_boot::forget(host, prefix, run),
            Self::ByHand(_) => Ok(false),
        }
    }

    /// Returns the steps by which a user can make the machine boot an entry once.
    pub fn steps(&self, entry: &BootEntry) -> Vec<String> {
        let words = if entry.words.is_empty() {
            "without additional parameters".to_owned()
        } else {
            format!("with `{}` on the kernel's command line", entry.words)
        };
        vec![format!("boot the machine once {words}")]
    }
}

/// Writes a file, and creates its folder if necessary.
///
/// # Errors
/// Returns an error if writing fails.
pub fn write(host: &Host, file: &WrittenFile) -> Result<(), BootError> {
    let path = below(host, &file.path);
    if file.made_folder
        && let Some(folder) = path.parent()
    {
        std::fs::create_dir_all(folder).map_err(|source| BootError::File {
            path: folder.to_owned(),
            source,
        })?;
    }
    Ok(Output::open(&path)?.put(file.after.as_bytes())?)
}

/// Restores the content that a file had before the write. Does nothing if the file already has this
/// content.
///
/// # Errors
/// Returns [`BootError::Changed`], or an error if writing fails.
pub fn put_back(host: &Host, file: &WrittenFile) -> Result<(), BootError> {
    let path = below(host, &file.path);
    let now = text(&path)?;
    if now != file.before {
        if now.as_deref() != Some(file.after.as_str()) {
            return Err(BootError::Changed { path });
        }
        match &file.before {
            Some(before) => Output::open(&path)?.put(before.as_bytes())?,
            None => std::fs::remove_file(&path).map_err(|source| BootError::File {
                path: path.clone(),
                source,
            })?,
        }
    }
    if file.made_folder
        && let Some(folder) = path.parent()
    {
        // This fails if other programs have put files into the folder. In that case the folder
        // stays.
        let _ = std::fs::remove_dir(folder);
    }
    Ok(())
}

/// Returns the path of a file below the root path.
pub(crate) fn below(host: &Host, path: &str) -> PathBuf {
    host.root().join(path.trim_start_matches('/'))
}

/// Reads a text file. Returns `None` if it does not exist.
pub(crate) fn text(path: &Path) -> Result<Option<String>, BootError> {
    match punctual_files::Budget::bytes(LIMIT).read_text(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Describes a write to a file, including the file's current content.
pub(crate) fn file(
    host: &Host,
    path: &str,
    after: impl FnOnce(Option<&str>) -> String,
) -> Result<WrittenFile, BootError> {
    let place = below(host, path);
    let before = text(&place)?;
    let folder = place.parent().is_none_or(Path::is_dir);
    Ok(WrittenFile {
        path: path.to_owned(),
        after: after(before.as_deref()),
        before,
        made_folder: !folder,
    })
}

#[cfg(test)]
mod tests;
