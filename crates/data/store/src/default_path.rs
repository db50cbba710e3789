//! The default location of recordings.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::StoreError;

/// Returns the path of the store that is used without `--store`.
///
/// This is `$XDG_DATA_HOME/punctual/punctual.db` if the variable is set; otherwise, it is
/// `/var/lib/punctual/punctual.db` for root and `$HOME/.local/share/punctual/punctual.db` for other
/// users. A relative XDG_DATA_HOME is ignored, as the XDG Base Directory Specification requires.
///
/// # Errors
/// [`StoreError::NoPlace`] if neither variable is set.
pub fn default_path(
    euid_is_root: bool,
    env: &dyn Fn(&str) -> Option<OsString>,
) -> Result<PathBuf, StoreError> {
    let absolute = |name: &str| {
        env(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let data = match absolute("XDG_DATA_HOME") {
        Some(data) => data,
        None if euid_is_root => PathBuf::from("/var/lib"),
        None => absolute("HOME")
            .ok_or(StoreError::NoPlace)?
            .join(".local/share"),
    };
    Ok(data.join("punctual/punctual.db"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_with(root: bool, variables: &[(&str, &str)]) -> Option<String> {
        let env = |name: &str| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| OsString::from(value))
        };
        default_path(root, &env)
            .ok()
            .map(|path| path.display().to_string())
    }

    #[test]
    fn journal_path_follows_user_and_environment() {
        let found = |text: &str| Some(text.to_owned());
        assert_eq!(
            path_with(false, &[("HOME", "/home/a")]),
            found("/home/a/.local/share/punctual/punctual.db")
        );
        assert_eq!(
            path_with(false, &[("HOME", "/home/a"), ("XDG_DATA_HOME", "/data")]),
            found("/data/punctual/punctual.db")
        );
        assert_eq!(
            path_with(true, &[("HOME", "/root")]),
            found("/var/lib/punctual/punctual.db")
        );
        assert_eq!(
            path_with(true, &[("XDG_DATA_HOME", "/data")]),
            found("/data/punctual/punctual.db")
        );
        // Empty and relative values count as unset.
        assert_eq!(
            path_with(false, &[("HOME", ""), ("XDG_DATA_HOME", "data")]),
            None
        );
        assert_eq!(path_with(false, &[]), None);
    }
}
