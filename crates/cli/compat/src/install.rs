//! Creates links with the names of the tools.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use punctual_files::FileError;

/// The result for one link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Installed {
    /// The link was created.
    Made(PathBuf),
    /// The link existed and points to this program.
    WasThere(PathBuf),
    /// The link replaced another file.
    Replaced(PathBuf),
}

/// Reason why a link was not created.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// Another file exists.
    #[error(
        "{} exists and is not a link to {}: nothing was changed; choose another folder, or give \
         --force to replace it",
        path.display(),
        program.display()
    )]
    NotOurs {
        /// The path.
        path: PathBuf,
        /// The target of the link.
        program: PathBuf,
    },
    /// The folder is missing and cannot be created, or another user's link leads to it.
    #[error("cannot use the folder: {0}")]
    Folder(#[source] FileError),
    /// The system refused to create the link.
    #[error("cannot make the link {}: {source}", path.display())]
    Refused {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Creates a link to `program` in `folder` for each of these names. Also creates `folder` if it is missing.
/// All paths are checked before anything is changed.
///
/// # Errors
/// Returns an error if there is another file at one of the paths and `force` is not set. Also
/// returns the errors of the system.
pub fn install(
    names: &[&str],
    program: &Path,
    folder: &Path,
    force: bool,
) -> Result<Vec<Installed>, InstallError> {
    let places: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
    let taken = |path: &PathBuf| path.symlink_metadata().is_ok() && !ours(path, program);
    if let Some(path) = places.iter().find(|path| !force && taken(path)) {
        return Err(InstallError::NotOurs {
            path: path.clone(),
            program: program.to_owned(),
        });
    }
    punctual_files::folder::make(folder, 0o755).map_err(InstallError::Folder)?;
    places
        .into_iter()
        .map(|path| link(&path, program).map_err(|source| InstallError::Refused { path, source }))
        .collect()
}

/// Returns whether the file at `path` is a link to this program.
#[allow(clippy::disallowed_methods, reason = "compared, not written to")]
fn ours(path: &Path, program: &Path) -> bool {
    let same = |target: PathBuf| match (target.canonicalize(), program.canonicalize()) {
        (Ok(target), Ok(program)) => target == program,
        _ => target == program,
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::read_link(path).is_ok_and(|target| same(folder.join(target)))
}

fn link(path: &Path, program: &Path) -> io::Result<Installed> {
    if ours(path, program) {
        return Ok(Installed::WasThere(path.to_owned()));
    }
    if path.symlink_metadata().is_err() {
        symlink(program, path)?;
        return Ok(Installed::Made(path.to_owned()));
    }
    // The new link replaces the old one atomically.
    let folder = path.parent().unwrap_or(Path::new("."));
    let beside = tempfile::Builder::new()
        .prefix(".punctual-")
        .make_in(folder, |beside| symlink(program, beside))?;
    fs::rename(beside.path(), path)?;
    // The temporary name does not exist any more, so there is nothing to remove.
    let _ = beside.into_temp_path().keep();
    Ok(Installed::Replaced(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs;

    #[test]
    fn links_replace_nothing_unasked() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("punctual");
        fs::write(&program, "").unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        let path = bin.join(programs()[0]);
        let install = |force| install(&programs()[..1], &program, &bin, force);
        assert_eq!(install(false).unwrap(), [Installed::Made(path.clone())]);
        assert_eq!(fs::read_link(&path).unwrap(), program);
        assert_eq!(install(false).unwrap(), [Installed::WasThere(path.clone())]);

        fs::remove_file(&path).unwrap();
        fs::write(&path, "the original").unwrap();
        let error = install(false).unwrap_err().to_string();
        assert!(error.contains("--force"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "the original");
        assert_eq!(install(true).unwrap(), [Installed::Replaced(path.clone())]);
        assert_eq!(fs::read_link(&path).unwrap(), program);
        assert_eq!(fs::read_dir(&bin).unwrap().count(), 1);

        // The folder and its parents are created, but not below a file.
        let new = folder.path().join("made/too");
        super::install(&programs(), &program, &new, false).unwrap();
        assert_eq!(fs::read_dir(&new).unwrap().count(), programs().len());
        let error = super::install(&programs(), &program, &program.join("bin"), true);
        assert!(matches!(error, Err(InstallError::Folder(_))));
    }
}
