//! Boot entries for one boot each, with other words on the kernel's command line.
//!
//! An entry is a copy of the running kernel's, so that a kernel that does not come up is
//! followed by the usual one. What is written is a [`WrittenFile`]: the caller stores it
//! before [`write()`], and [`put_back`] restores what was there.

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

/// The most that is read of a file of a boot loader.
const LIMIT: u64 = 1 << 22;

/// An entry to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootEntry {
    /// What it is chosen by: letters, digits and `-`.
    pub id: String,
    /// Its name in the menu.
    pub title: String,
    /// Words for the kernel's command line, beside those of the running kernel.
    pub words: String,
}

/// Why an entry cannot be made, chosen or removed.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// A file.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file that cannot be written whole.
    #[error(transparent)]
    Output(#[from] punctual_files::FileError),
    /// A file that somebody else changed.
    #[error("{path} was changed by another program: remove the part of punctual by hand")]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// Words that a boot loader would read in another way.
    #[error("'{words}' cannot be passed to a boot loader: {why}")]
    Words {
        /// The words.
        words: String,
        /// Why.
        why: &'static str,
    },
    /// A file that is not as the boot loader writes it.
    #[error("{path}: {why}")]
    Unexpected {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: BadBlock,
    },
    /// A command.
    #[error("`{command}` failed: {why}")]
    Command {
        /// The command.
        command: String,
        /// Why.
        why: String,
    },
}

/// Runs a program with its arguments to its end.
pub type RunProgram<'a> = &'a dyn Fn(&[&str]) -> io::Result<()>;

/// The boot loader of a machine.
#[derive(Clone, Debug)]
pub enum Loader {
    /// GRUB 2.
    Grub(grub::Grub),
    /// systemd-boot.
    SystemdBoot(systemd_boot::SystemdBoot),
    /// None that can be used, with the reason.
    ByHand(String),
}

impl Loader {
    /// Finds the boot loader of a machine; changes nothing.
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

    /// Which one it is.
    pub const fn kind(&self) -> BootLoader {
        match self {
            Self::Grub(_) => BootLoader::Grub,
            Self::SystemdBoot(_) => BootLoader::SystemdBoot,
            Self::ByHand(_) => BootLoader::ByHand,
        }
    }

    /// Why no boot loader can be used; `None` where one can.
    pub fn by_hand(&self) -> Option<&str> {
        match self {
            Self::ByHand(reason) => Some(reason),
            _ => None,
        }
    }

    /// The files that make these entries; nothing is written. None without a boot loader.
    ///
    /// # Errors
    /// [`BootError::Words`], [`BootError::File`].
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

    /// Chooses an entry for the next boot alone.
    ///
    /// # Errors
    /// [`BootError::File`], [`BootError::Unexpected`], [`BootError::Command`].
    pub fn choose(&self, host: &Host, id: &str, run: RunProgram<'_>) -> Result<(), BootError> {
        match self {
            Self::Grub(grub) => grub.choose(host, Some(id)),
            Self::SystemdBoot(_) => systemd_boot::choose(id, run),
            Self::ByHand(_) => Ok(()),
        }
    }

    /// Takes back the choice where it is an entry whose identity begins with `prefix`;
    /// whether there was one: a boot loader that could not clear it would boot that entry
    /// for ever.
    ///
    /// # Errors
    /// As [`choose`](Self::choose).
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

    /// The steps by which a user has the machine boot an entry once.
    pub fn steps(&self, entry: &BootEntry) -> Vec<String> {
        let words = match entry.words.is_empty() {
            true => "without further words".to_owned(),
            false => format!("with `{}` on the kernel's command line", entry.words),
        };
        vec![format!("boot the machine once {words}")]
    }
}

/// Writes a file, and its folder where there is none.
///
/// # Errors
/// What writing can fail with.
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

/// Restores a file to its content before it was written; an unchanged one is left.
///
/// # Errors
/// [`BootError::Changed`], and what writing can fail with.
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
        // Others may have put files into it: then it stays.
        let _ = std::fs::remove_dir(folder);
    }
    Ok(())
}

/// A file's place below the root path.
pub(crate) fn below(host: &Host, path: &str) -> PathBuf {
    host.root().join(path.trim_start_matches('/'))
}

/// The text of a file; `None` where there is none.
pub(crate) fn text(path: &Path) -> Result<Option<String>, BootError> {
    match punctual_files::bounded::text(path, LIMIT) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What is to be written to a file, beside what is there.
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
