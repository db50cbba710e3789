//! The default path of the journal.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::TuneError;

/// Returns the default path of the journal.
///
/// The path is `$XDG_STATE_HOME/punctual/tune.journal` if that variable is set. Otherwise, it is
/// `/var/lib/punctual/tune.journal` for root and `$HOME/.local/state/punctual/tune.journal` for
/// other users. Relative paths in these variables are ignored, as the XDG Base Directory
/// Specification requires.
///
/// # Errors
/// Returns [`TuneError::NoPlace`] if neither variable is set.
pub fn default_path(
    euid_is_root: bool,
    env: &dyn Fn(&str) -> Option<OsString>,
) -> Result<PathBuf, TuneError> {
    let absolute = |name: &str| {
        env(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let state = match absolute("XDG_STATE_HOME") {
        Some(state) => state,
        None if euid_is_root => PathBuf::from("/var/lib"),
        None => absolute("HOME")
            .ok_or(TuneError::NoPlace)?
            .join(".local/state"),
    };
    Ok(state.join("punctual/tune.journal"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journal_path_follows_user_and_environment() {
        let place = |root: bool, variables: &[(&str, &str)]| {
            let env = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            };
            default_path(root, &env)
                .ok()
                .map(|path| path.display().to_string())
        };
        let found = |text: &str| Some(text.to_owned());
        assert_eq!(
            place(false, &[("HOME", "/home/a")]),
            found("/home/a/.local/state/punctual/tune.journal")
        );
        assert_eq!(
            place(true, &[("HOME", "/root"), ("XDG_STATE_HOME", "")]),
            found("/var/lib/punctual/tune.journal")
        );
        assert_eq!(
            place(true, &[("XDG_STATE_HOME", "/state")]),
            found("/state/punctual/tune.journal")
        );
        assert_eq!(place(false, &[("HOME", "here")]), None);
    }
}
