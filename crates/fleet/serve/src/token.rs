//! Tokens, which are shown only when they are generated, and stored as hashes.

use std::collections::BTreeSet;

use jiff::Timestamp;
use punctual_push::protocol::{hex, sha256};
use punctual_store::{AuditLine, Collection, Role, Token};

use crate::ServeError;

/// The prefix of all tokens, by which scanners can recognise leaked tokens.
const MARK: &str = "punctual_";
/// Number of random bytes, which is enough to withstand guessing.
const SECRET: usize = 32;
/// Maximum length of a name, in characters.
const NAME: usize = 64;

/// Returns whether `name` is valid for a machine or a user.
pub(crate) fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=NAME).contains(&name.len())
        && name.chars().all(plain)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Creates a token for `name` with this role, and returns it. Only its hash is stored.
///
/// # Errors
/// Returns an error if the name is invalid or already has a token, if no random numbers are
/// available, or if writing fails.
pub fn enrol(collection: &dyn Collection, name: &str, role: Role) -> Result<String, ServeError> {
    if !is_name(name) {
        return Err(ServeError::Name(name.to_owned()));
    }
    let mut secret = [0u8; SECRET];
    let drawn = rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty());
    let drawn = drawn.map_err(|error| ServeError::Random(error.into()))?;
    if drawn != SECRET {
        return Err(ServeError::Random(std::io::ErrorKind::UnexpectedEof.into()));
    }
    let token = format!("{MARK}{}", hex(&secret));
    let created = Timestamp::now();
    let kept = collection.add_token(&Token {
        name: name.to_owned(),
        role,
        sha256: sha256(token.as_bytes()),
        created,
        machine: None,
    })?;
    if !kept {
        return Err(ServeError::Taken(name.to_owned()));
    }
    collection.log(&AuditLine {
        at: created,
        who: "command line".to_owned(),
        action: "enrol".to_owned(),
        what: format!("{name} ({})", role.name()),
    })?;
    Ok(token)
}

/// Creates a token for each of these names, or for none of them. Returns the tokens in order.
///
/// # Errors
/// Returns the position of the name that cannot have a token, with the reason as in [`enrol`].
pub fn enrol_all(
    collection: &dyn Collection,
    names: &[&str],
    role: Role,
) -> Result<Vec<String>, (usize, ServeError)> {
    let taken = collection.tokens().map_err(|error| (0, error.into()))?;
    let mut known: BTreeSet<&str> = taken.iter().map(|token| token.name.as_str()).collect();
    let taken = known.clone();
    for (place, name) in names.iter().enumerate() {
        let name = *name;
        let wrong = match name {
            _ if !is_name(name) => ServeError::Name(name.to_owned()),
            _ if taken.contains(name) => ServeError::Taken(name.to_owned()),
            _ if !known.insert(name) => ServeError::Twice(name.to_owned()),
            _ => continue,
        };
        return Err((place, wrong));
    }
    let mut tokens = Vec::with_capacity(names.len());
    for (place, name) in names.iter().enumerate() {
        match enrol(collection, name, role) {
            Ok(token) => tokens.push(token),
            Err(error) => {
                for name in &names[..place] {
                    let removed = collection.remove_token(name);
                    removed.map_err(|error| (place, error.into()))?;
                }
                return Err((place, error));
            }
        }
    }
    Ok(tokens)
}

/// Renames a machine.
///
/// # Errors
/// Returns an error if the new name is invalid, or as for [`MachineNames::rename`].
///
/// [`MachineNames::rename`]: punctual_store::MachineNames::rename
pub fn rename(collection: &dyn Collection, old: &str, new: &str) -> Result<(), ServeError> {
    if !is_name(new) {
        return Err(ServeError::Name(new.to_owned()));
    }
    collection.rename(old, new)?;
    collection.log(&AuditLine {
        at: Timestamp::now(),
        who: "command line".to_owned(),
        action: "rename".to_owned(),
        what: format!("{old} to {new}"),
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for good in ["a", "board-17", "rt1.lab_2", "9"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "-a", ".", "../x", "a b", "<b>", "ä", &"a".repeat(65)] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
